"""Comparisons, logical and bitwise ops, and the tests for NaN and infinities."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from ...core.dims import Dim
from ...core.errors import DTypeError, fail
from ...core.ops.declare import METHODS, elementwise, public
from ...core.ops.facets import Form, Infix, Latex
from ...core.ops.op import Algebra, Missing, Op
from ...core.ops.operands import promote_tensors
from ...core.ops.sampling import apart, booleans, each, integers, unary
from ...core.spec import Spec, float64
from ...core.tensor import Tensor
from ..structure.shapes import casted

# What NumPy's and PyTorch's arithmetic means of booleans: a part of the `meaning` of their tensors.
ON_BOOLEANS = MappingProxyType(
    {"add": "bitwise_or", "multiply": "bitwise_and", "maximum": "bitwise_or", "minimum": "bitwise_and"}
)

# -- comparisons


def _compared(rng: Any) -> Any:
    """Yield pairs that are equal in some places."""
    for call in apart(order=0)(rng):
        x, y = call.args
        yield type(call)((x, np.asarray(np.where(rng.random(x.shape) < 0.5, x, y))), order=0)


equal = elementwise(
    "equal(x, y)",
    np.equal,
    accepts="anything",
    result="boolean",
    method=False,
    doc="Whether x == y, element by element.",
    algebra=Algebra(commutes=True, negation="not_equal"),
    samples=_compared,
    reference=each(operator.eq),
    onnx="Equal",
    cost=1,
    form=Form("=", "{0} = {1}", binds="compared"),
    infix=Infix(" == ", "compared"),
    latex=Latex(" = ", "infix", "compared"),
    sympy=lambda sp, x, y: sp.Eq(x, y),
)
not_equal = elementwise(
    "not_equal(x, y)",
    np.not_equal,
    accepts="anything",
    result="boolean",
    doc="Whether x != y, element by element.",
    algebra=Algebra(commutes=True, negation="equal"),
    samples=_compared,
    reference=each(operator.ne),
    onnx=Missing("ONNX writes it as Not(Equal(x, y))"),
    cost=1,
    form=Form("≠", "{0} ≠ {1}", binds="compared"),
    infix=Infix(" != ", "compared"),
    latex=Latex(r" \ne ", "infix", "compared"),
    sympy=lambda sp, x, y: sp.Ne(x, y),
)
less = elementwise(
    "less(x, y)",
    np.less,
    accepts="real",
    result="boolean",
    doc="Whether x < y, element by element.",
    samples=_compared,
    reference=each(operator.lt),
    onnx="Less",
    cost=1,
    form=Form("<", "{0} < {1}", binds="compared"),
    infix=Infix(" < ", "compared"),
    latex=Latex(" < ", "infix", "compared"),
    sympy=lambda sp, x, y: sp.Lt(x, y),
    algebra=Algebra(negation="greater_equal"),
)
less_equal = elementwise(
    "less_equal(x, y)",
    np.less_equal,
    accepts="real",
    result="boolean",
    doc="Whether x <= y, element by element.",
    samples=_compared,
    reference=each(operator.le),
    onnx="LessOrEqual",
    cost=1,
    form=Form("≤", "{0} ≤ {1}", binds="compared"),
    infix=Infix(" <= ", "compared"),
    latex=Latex(r" \le ", "infix", "compared"),
    sympy=lambda sp, x, y: sp.Le(x, y),
    algebra=Algebra(negation="greater"),
)
greater = elementwise(
    "greater(x, y)",
    np.greater,
    accepts="real",
    result="boolean",
    doc="Whether x > y, element by element.",
    samples=_compared,
    reference=each(operator.gt),
    onnx="Greater",
    cost=1,
    form=Form(">", "{0} > {1}", binds="compared"),
    infix=Infix(" > ", "compared"),
    latex=Latex(" > ", "infix", "compared"),
    sympy=lambda sp, x, y: sp.Gt(x, y),
    algebra=Algebra(negation="less_equal"),
)
greater_equal = elementwise(
    "greater_equal(x, y)",
    np.greater_equal,
    accepts="real",
    result="boolean",
    doc="Whether x >= y, element by element.",
    samples=_compared,
    reference=each(operator.ge),
    onnx="GreaterOrEqual",
    cost=1,
    form=Form("≥", "{0} ≥ {1}", binds="compared"),
    infix=Infix(" >= ", "compared"),
    latex=Latex(r" \ge ", "infix", "compared"),
    sympy=lambda sp, x, y: sp.Ge(x, y),
    algebra=Algebra(negation="less"),
)

_COMPARABLE = (Tensor, bool, int, float, complex, np.ndarray, np.generic, list, tuple, Dim)


def _operator(op: Op, symbol: str) -> Callable[[Any, Any], Any]:
    front = op.front

    def compare(self: Tensor, other: Any) -> Any:
        # `x == None` is False and `x < None` a TypeError, as Python users expect: both are Python's answer
        # to NotImplemented.
        if isinstance(other, _COMPARABLE) or hasattr(other, "__array__"):
            return front(self, other)
        return NotImplemented

    compare.__name__ = compare.__qualname__ = f"__{symbol}__"
    compare.__doc__ = op.doc
    return compare


for _symbol, _op in {
    "eq": equal,
    "ne": not_equal,
    "lt": less,
    "le": less_equal,
    "gt": greater,
    "ge": greater_equal,
}.items():
    METHODS[f"__{_symbol}__"] = _operator(_op, _symbol)
    METHODS[_symbol] = _op.front  # PyTorch's names

# -- logical ops: any dtype, nonzero is true

logical_and = elementwise(
    "logical_and(x, y)",
    np.logical_and,
    accepts="anything",
    result="boolean",
    doc="Whether both are true (nonzero).",
    algebra=Algebra(commutes=True, associates=True, idempotent=True),
    samples=booleans(2),
    reference=each(lambda x, y: bool(x) and bool(y)),
    onnx="And",
    cost=1,
    form=Form("∧", "{0} ∧ {1}", binds="compared"),
    latex=Latex(r" \land ", "infix", "and"),
    sympy=lambda sp, x, y: sp.And(x, y),
)
logical_or = elementwise(
    "logical_or(x, y)",
    np.logical_or,
    accepts="anything",
    result="boolean",
    doc="Whether at least one is true (nonzero).",
    algebra=Algebra(commutes=True, associates=True, idempotent=True),
    samples=booleans(2),
    reference=each(lambda x, y: bool(x) or bool(y)),
    onnx="Or",
    cost=1,
    form=Form("∨", "{0} ∨ {1}", binds="compared"),
    latex=Latex(r" \lor ", "infix", "or"),
    sympy=lambda sp, x, y: sp.Or(x, y),
)
logical_xor = elementwise(
    "logical_xor(x, y)",
    np.logical_xor,
    accepts="anything",
    result="boolean",
    doc="Whether exactly one is true (nonzero).",
    algebra=Algebra(commutes=True, associates=True),
    samples=booleans(2),
    reference=each(lambda x, y: bool(x) != bool(y)),
    onnx="Xor",
    cost=1,
    form=Form("⊻", "{0} ⊻ {1}", binds="compared"),
    latex=Latex(r" \oplus ", "infix", "xor"),
    sympy=lambda sp, x, y: sp.Xor(x, y),
)
logical_not = elementwise(
    "logical_not(x)",
    np.logical_not,
    accepts="anything",
    result="boolean",
    doc="Whether x is false (zero).",
    algebra=Algebra(involution=True),
    samples=booleans(1),
    reference=each(operator.not_),
    onnx="Not",
    cost=1,
    form=Form("¬", "¬{0}", binds="sign"),
    latex=Latex(r"\lnot ", "prefix", "power"),
    sympy=lambda sp, x: sp.Not(x),
)

# -- bitwise ops: integers and booleans

bitwise_and = elementwise(
    "bitwise_and(x, y)",
    np.bitwise_and,
    accepts="bitwise",
    operator="and",
    doc="The bits set in both x and y.",
    algebra=Algebra(commutes=True, associates=True, idempotent=True),
    samples=integers(2, -99, 99),
    reference=each(operator.and_),
    onnx="BitwiseAnd",
    cost=1,
    form=Form("&", "{0} & {1}", binds="compared"),
    infix=Infix(" & ", "and"),
    on_truth="logical_and",
    latex=Latex(r" \land ", "infix", "and"),
    sympy=lambda sp, x, y: sp.And(x, y),
)
bitwise_or = elementwise(
    "bitwise_or(x, y)",
    np.bitwise_or,
    accepts="bitwise",
    operator="or",
    doc="The bits set in x or y.",
    algebra=Algebra(commutes=True, associates=True, unit=0, idempotent=True),
    samples=integers(2, -99, 99),
    reference=each(operator.or_),
    onnx="BitwiseOr",
    cost=1,
    form=Form("|", "{0} | {1}", binds="compared"),
    infix=Infix(" | ", "or"),
    on_truth="logical_or",
    latex=Latex(r" \lor ", "infix", "or"),
    sympy=lambda sp, x, y: sp.Or(x, y),
)
bitwise_xor = elementwise(
    "bitwise_xor(x, y)",
    np.bitwise_xor,
    accepts="bitwise",
    operator="xor",
    doc="The bits set in exactly one of x and y.",
    algebra=Algebra(commutes=True, associates=True, unit=0),
    samples=integers(2, -99, 99),
    reference=each(operator.xor),
    onnx="BitwiseXor",
    cost=1,
    form=Form("⊕", "{0} ⊕ {1}", binds="compared"),
    infix=Infix(" ^ ", "xor"),
    on_truth="logical_xor",
    latex=Latex(r" \oplus ", "infix", "xor"),
    sympy=lambda sp, x, y: sp.Xor(x, y),
)
bitwise_invert = elementwise(
    "bitwise_invert(x)",
    np.bitwise_not,
    accepts="bitwise",
    operator="invert",
    doc="Every bit of x flipped; of a boolean, its negation.",
    algebra=Algebra(involution=True),
    samples=integers(1, -99, 99),
    reference=each(operator.invert),
    onnx="BitwiseNot",
    cost=1,
    form=Form("~", "~{0}", binds="sign"),
    prefix="~",
    on_truth="logical_not",
    latex=Latex(r"\lnot ", "prefix", "power"),
    sympy=lambda sp, x: sp.Not(x),
)
METHODS["bitwise_not"] = bitwise_invert.front


def _shift(ufunc: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
    """Return a shift that refuses booleans: NumPy makes int8 of them, which the standard leaves out."""

    def forward(x: Any, y: Any) -> Any:
        if (x if hasattr(x, "dtype") else y).dtype.kind == "b":
            _no_bool_shift(name)
        return ufunc(x, y)

    return forward


def _no_bool_shift(name: str) -> None:
    fail(DTypeError, f"{name} takes integers, not booleans", "Cast first: x.astype(wg.int64).")


def _shift_rule(op: Op) -> None:
    shape_rule = op.infer

    def infer(x: Any, y: Any) -> Spec:
        spec: Spec = shape_rule(x, y)
        if spec.logical:
            _no_bool_shift(op.name)
        return spec

    op.infer = infer


bitwise_left_shift = elementwise(
    "bitwise_left_shift(x, y)",
    _shift(np.left_shift, "bitwise_left_shift"),
    accepts="bitwise",
    operator="lshift",
    doc="The bits of x moved left by y >= 0 places, zeros moving in.",
    samples=integers(2, 0, 9),
    reference=each(operator.lshift),
    onnx="BitShift",
    cost=1,
    form=Form("≪", "{0} ≪ {1}", binds="compared"),
    infix=Infix(" << ", "shifted"),
    latex=Latex(r" \ll ", "infix", "shifted"),
    sympy="works on the bits of floating numbers, which SymPy's exact numbers have none of",
)
bitwise_right_shift = elementwise(
    "bitwise_right_shift(x, y)",
    _shift(np.right_shift, "bitwise_right_shift"),
    accepts="bitwise",
    operator="rshift",
    doc="The bits of x moved right by y >= 0 places, the sign moving in.",
    samples=integers(2, 0, 9),
    reference=each(operator.rshift),
    onnx="BitShift",
    cost=1,
    form=Form("≫", "{0} ≫ {1}", binds="compared"),
    infix=Infix(" >> ", "shifted"),
    latex=Latex(r" \gg ", "infix", "shifted"),
    sympy="works on the bits of floating numbers, which SymPy's exact numbers have none of",
)
_shift_rule(bitwise_left_shift)
_shift_rule(bitwise_right_shift)

# -- tests


def _with_specials(rng: Any) -> Any:
    for call in unary((-2.0, 2.0), order=0)(rng):
        yield call
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 6e4])
    yield type(call)((special,), order=0)


isnan = elementwise(
    "isnan(x)",
    np.isnan,
    accepts="anything",
    result="boolean",
    doc="Whether x is NaN.",
    samples=_with_specials,
    reference=each(math.isnan),
    onnx="IsNaN",
    cost=1,
    sympy="asks about floating numbers: SymPy's symbols stand for exact ones",
)
isinf = elementwise(
    "isinf(x)",
    np.isinf,
    accepts="anything",
    result="boolean",
    doc="Whether x is an infinity of either sign.",
    samples=_with_specials,
    reference=each(math.isinf),
    onnx="IsInf",
    cost=1,
    sympy="asks about floating numbers: SymPy's symbols stand for exact ones",
)
isfinite = elementwise(
    "isfinite(x)",
    np.isfinite,
    accepts="anything",
    result="boolean",
    doc="Whether x is neither NaN nor an infinity.",
    samples=_with_specials,
    reference=each(math.isfinite),
    onnx=Missing("ONNX writes it as Not(Or(IsNaN(x), IsInf(x)))"),
    cost=1,
    sympy="asks about floating numbers: SymPy's symbols stand for exact ones",
)
signbit = elementwise(
    "signbit(x)",
    np.signbit,
    accepts="real_inexact",
    result="boolean",
    doc="Whether the sign bit of x is set: x is negative, -0.0 or a NaN with that sign.",
    samples=_with_specials,
    reference=each(lambda x: math.copysign(1.0, x) < 0.0),
    onnx=Missing("ONNX writes it as Less(x, 0), of a zero as Less(Reciprocal(x), 0)"),
    cost=1,
    sympy="tells zeros of two signs apart, which SymPy does not have",
)


# -- close enough


@public(method=True)
def isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Return whether |x - y| <= atol + rtol |y|, element by element; equal infinities are close.

    >>> import wengert as wg
    >>> wg.isclose(wg.tensor([1.0, 2.0]), wg.tensor([1.000001, 2.1]))
    tensor([ True, False])
    """
    a, b = promote_tensors("isclose", x, y)
    equal: Tensor = a == b
    if not a.spec.inexact:  # whose differences would wrap around
        a, b = casted(a, float64), casted(b, float64)
    near: Tensor = equal | ((a - b).abs() <= atol + rtol * b.abs()) & isfinite.front(b)
    return near | (isnan.front(a) & isnan.front(b)) if equal_nan else near


@public(method=True)
def allclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements are close (:func:`isclose`), as a Python bool.

    >>> import wengert as wg
    >>> wg.allclose(wg.tensor([0.1 + 0.2]), wg.tensor([0.3]))
    True
    """
    return bool(isclose(x, y, rtol, atol, equal_nan).all())
