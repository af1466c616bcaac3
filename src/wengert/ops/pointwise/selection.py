"""Elementwise ops that select, clip and round: piecewise functions with their subgradients."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from ...core.dtypes import DType
from ...core.errors import DTypeError, ShapeError, fail
from ...core.mode import get_mode
from ...core.node import EMPTY_ATTRS, make_node
from ...core.ops.costs import DIVISION
from ...core.ops.declare import METHODS, elementwise, public
from ...core.ops.facets import Cause, Form, Infix, Latex, Nonfinite, Square
from ...core.ops.nonfinite import DIVIDE, OUTSIDE, infinity_chosen, second
from ...core.ops.op import TABLE, Algebra, Call, Missing, NoDerivative, Route, Vjp
from ...core.ops.operands import (
    are_numbers,
    check_operands,
    max_category,
    of_numbers,
    promote_operands,
    run_elementwise,
    to_operand,
)
from ...core.ops.record import SCALARS, caller
from ...core.ops.sampling import and_complex, apart, binary, each, unary
from ...core.spec import Spec, broadcast_shapes, category, show, spec_of
from ...core.standins import PYTHON_DTYPES
from ...core.state.blocks import to_come
from ...core.state.observer import observers
from ...core.tensor import Tensor, asarray, of_class, result_class, wrap
from ..structure.shapes import as_operand
from .complex_cases import careful, complex_sign

# A derivative that is 0 everywhere is structural: nothing flows, whatever the cotangent.
NOWHERE = np.zeros((), np.bool_)
NOWHERE.flags.writeable = False
FLAT = Route(lambda: NOWHERE)

# -- where


def _where(condition: Any, x: Any, y: Any) -> Any:
    # np.where widens extension dtypes (bfloat16) that meet a Python number.
    if type(x) in SCALARS:
        x = y.dtype.type(x)
    elif type(y) in SCALARS:
        y = x.dtype.type(y)
    return np.where(condition, x, y)


def _infer_where(*operands: Any) -> Spec:
    shapes = [a.shape for a in operands if isinstance(a, Spec)]
    shape = broadcast_shapes(*shapes)
    if shape is None:
        fail(
            ShapeError,
            f"where: shapes {', '.join(map(str, shapes))} do not broadcast",
            "Counted from the right, sizes must be equal or 1.",
        )
    condition, *chosen = operands
    if isinstance(condition, Spec) and not condition.logical:
        fail(DTypeError, f"where: the condition {show(condition.shape, condition.dtype)} is not boolean")
    check_operands(where_op, chosen)
    return spec_of(shape, next(a for a in chosen if isinstance(a, Spec)).dtype)


def _where_samples(rng: Any) -> Any:
    for call in apart()(rng):
        x, y = call.args
        yield Call((np.asarray(rng.random(x.shape) < 0.5), x, y), order=3)


where_op = elementwise(
    "where(condition, x, y)",
    _where,
    partials={
        "condition": NoDerivative("a condition selects, it has no derivative"),
        "x": Route(lambda condition: condition),
        "y": Route(lambda condition: ~condition),
    },
    accepts="anything",
    public="",
    doc="x where the condition holds, y elsewhere.",
    samples=_where_samples,
    reference=each(lambda c, x, y: x if c else y),
    onnx="Where",
    cost=1,
    form=Form("where", "where({0}, {1}, {2})", say="Each element's gradient goes to the one that was chosen."),
    latex=Latex(r"\begin{{cases}} {1} & \text{{if }} {0} \\ {2} & \text{{otherwise}} \end{{cases}}", "form", "sum"),
    sympy=lambda sp, c, x, y: sp.Piecewise((x, c), (y, True)),
    nonfinite=Nonfinite(((infinity_chosen, Cause("an infinity that the program writes was chosen", OUTSIDE)),)),
    zero_gradient="masked",
)
where_op.infer = _infer_where


@public
def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Return the elements of `x` where `condition` holds and of `y` elsewhere.

    Parameters
    ----------
    condition: booleans, of any shape that broadcasts with the others.
    x, y: tensors or numbers, which broadcast and promote together.

    Raises DTypeError for a condition that is not boolean, ShapeError.

    No gradient flows to what is not chosen, even where its derivative is infinite:

    >>> import wengert as wg
    >>> x = wg.tensor([0.0, 2.0], requires_grad=True)
    >>> wg.where(x > 0, wg.log(x), 0.0).sum().backward()
    >>> x.grad
    tensor([0. , 0.5])
    """
    quick = _where_alike(condition, x, y) if not observers else None
    if quick is not None:
        return quick
    mask = condition if isinstance(condition, Tensor) else asarray(condition)
    if mask.dtype.kind != "b":
        fail(
            DTypeError,
            f"where: the condition has dtype {mask.dtype}, not bool, and shape {mask.shape}",
            "Say what selects: wg.where(c != 0, x, y).",
        )
    if _of_one_dtype(x, y):
        return run_elementwise(where_op, (mask, x, y))
    choices = [to_operand(x, "where"), to_operand(y, "where")]
    if are_numbers(choices):
        return of_numbers(where_op, choices, [mask])
    return run_elementwise(where_op, (mask, *promote_operands(where_op, (x, y))))


def _where_alike(condition: Any, x: Any, y: Any) -> Tensor | None:
    """Return `where` of a comparison's result between tensors of one spec, or a tensor and a number."""
    try:
        spec = x._spec
        if condition._spec is not spec.boolean or type(x) in to_come or type(condition) in to_come:
            return None
        a, mask = x._array, condition._array
        if type(y) is float and spec.real_inexact:
            b, n_y = y, None
            data = np.where(mask, a, spec.dtype.type(y))
        elif y._spec is spec:
            b, n_y = y._array, y.node
            data = np.where(mask, a, b)
        else:
            return None
    except AttributeError:
        return None
    out = wrap(data, spec)
    if type(x) is not Tensor or type(y) is not Tensor:
        out = of_class(result_class((x, y)), out)
    n_x = x.node
    if (n_x is None and n_y is None) or not (mode := get_mode()).grad:
        return out
    inputs = (mask, a if n_x is None else n_x, b if n_y is None else n_y)
    saved = (mask, None, b if type(b) is float else None, None)
    code, offset = caller()
    out.node = make_node(where_op, inputs, EMPTY_ATTRS, saved, spec, code, offset, mode.scope)
    return out


def _of_one_dtype(x: Any, y: Any) -> bool:
    """Return whether neither operand has to be converted, for the two commonest pairs."""
    try:
        spec = x._spec
        return spec.real_inexact if type(y) is float else y._spec.dtype is spec.dtype
    except AttributeError:
        return False


where_op.front = where


@public(name="where", method=True, function=False)
def _where_method(self: Tensor, condition: Any, y: Any) -> Tensor:
    """Return `wg.where(condition, self, y)`."""
    return where(condition, self, y)


# -- larger, smaller, between

# NaN compares false, so the masks are written for a NaN to pass its gradient on.


def _shares(x: Any, y: Any, out_dtype: DType) -> Any:
    """Return 1, and a half each where two arguments tie."""
    return 1.0 - 0.5 * TABLE["cast"](x == y, dtype=out_dtype)


maximum = elementwise(
    "maximum(x, y)",
    np.maximum,
    partials={"x": Route(lambda x, y: ~(x < y), _shares), "y": Route(lambda x, y: ~(y < x), _shares)},
    accepts="real",
    doc="The larger of x and y; NaN if either is. Equal arguments share the gradient.",
    algebra=Algebra(commutes="nearly", associates=True, unit=-math.inf, idempotent=True),
    samples=apart(),
    reference=each(max),
    onnx="Max",
    cost=1,
    form=Form("max", "max({0}, {1})", say="The larger input gets everything, the other nothing."),
    latex=Latex(r"\max"),
    sympy=lambda sp, x, y: sp.Max(x, y),
    zero_gradient="clipped",
)
minimum = elementwise(
    "minimum(x, y)",
    np.minimum,
    partials={"x": Route(lambda x, y: ~(x > y), _shares), "y": Route(lambda x, y: ~(y > x), _shares)},
    accepts="real",
    doc="The smaller of x and y; NaN if either is. Equal arguments share the gradient.",
    algebra=Algebra(commutes="nearly", associates=True, unit=math.inf, idempotent=True),
    samples=apart(),
    reference=each(min),
    onnx="Min",
    cost=1,
    form=Form("min", "min({0}, {1})", say="The smaller input gets everything, the other nothing."),
    latex=Latex(r"\min"),
    sympy=lambda sp, x, y: sp.Min(x, y),
    zero_gradient="clipped",
)
relu = elementwise(
    "relu(x)",
    lambda x: np.maximum(x, 0),
    partials={"x": Route(lambda out: out > 0)},
    accepts="real",
    doc="x where it is positive, else 0; the gradient at 0 is 0.",
    algebra=Algebra(monotone=1, range="[0, inf)", idempotent=True),
    samples=unary((0.2, 2.0), (-2.0, -0.2)),
    reference=each(lambda x: x if x > 0 else 0.0),
    onnx="Relu",
    cost=1,
    form=Form("relu", "relu({0})", say="Where the input was positive all passes; elsewhere nothing does."),
    sympy=lambda sp, x: sp.Max(0, x),
    activation="dead",
    zero_gradient="dead_relu",
)


def _clip_samples(rng: Any) -> Any:
    for call in unary((0.2, 0.8), (-2.0, -0.5), (1.5, 2.0))(rng):
        (x,) = call.args
        yield Call((x, np.full_like(x, 0.1), np.full_like(x, 0.9)), order=3)


clip_op = elementwise(
    "clip(x, min, max)",
    lambda x, min, max: np.minimum(np.maximum(x, min), max),
    partials={
        "x": Route(lambda x, min, max: ~((x < min) | (x > max))),
        "min": Route(lambda x, min, max: (x < min) & (min < max)),
        "max": Route(lambda x, min, max: (x > max) | (max < min)),
    },
    accepts="real",
    public="",
    doc="x, but at least min and at most max.",
    algebra=Algebra(idempotent=True),
    samples=_clip_samples,
    reference="numpy.clip",
    onnx="Clip",
    cost=2,
    form=Form("clip", "clip({0}, {1}, {2})", say="Between the bounds all passes; outside the bound gets it."),
    sympy=lambda sp, x, low, high: sp.Min(sp.Max(x, low), high),
    activation="saturated",
    zero_gradient="clipped",
)


@public(method=True)
def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """Return `x`, but at least `min` and at most `max` (`max` wins where they cross).

    Parameters
    ----------
    x: a real tensor.
    min, max: numbers or tensors, which broadcast and promote with `x`; None for no bound.

    Raises DTypeError, ShapeError. The gradient passes on the bounds too, and is 0 outside them.

    >>> import wengert as wg
    >>> wg.clip(wg.tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0. , 0.5, 1. ])
    >>> wg.tensor([-2, 5]).clip(max=3)
    tensor([-2,  3])
    """
    x = as_operand(x)
    bounds = [to_operand(b, "clip") for b in (min, max) if b is not None]
    if are_numbers([x, *bounds]):
        lowest, highest = _limits(PYTHON_DTYPES[max_category([x, *bounds])])
        return of_numbers(clip_op, [x, lowest if min is None else bounds[0], highest if max is None else bounds[-1]])
    x, *given = promote_operands(clip_op, [x, *bounds])
    lowest, highest = _limits(x.dtype)
    low = lowest if min is None else given.pop(0)
    high = highest if max is None else given.pop(0)
    return run_elementwise(clip_op, promote_operands(clip_op, [x, low, high]))


def _limits(dtype: DType) -> tuple[float, float]:
    if category(dtype) == 2:
        return -math.inf, math.inf
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


clip_op.front = clip
METHODS["clamp"] = clip

# -- rounding: flat between its steps


def _rounding(ufunc: Any) -> Any:
    """Return a rounding forward that leaves integers as they are: NumPy would make floats of some."""
    return lambda x: x if x.dtype.kind in "iu" else ufunc(x)


floor = elementwise(
    "floor(x)",
    _rounding(np.floor),
    partials={"x": FLAT},
    accepts="real",
    doc="The largest whole number that is at most x.",
    algebra=Algebra(monotone=1, idempotent=True),
    samples=unary((0.1, 0.9), (-2.9, -2.1)),
    reference=each(math.floor),
    onnx="Floor",
    cost=1,
    form=Form("⌊v⌋", "⌊{0}⌋", local="0", say="A whole part does not move with its input: nothing passes."),
    latex=Latex(r"\left\lfloor {0} \right\rfloor", "form", "atom"),
    sympy=lambda sp, x: sp.floor(x),
    zero_gradient="step_function",
)
ceil = elementwise(
    "ceil(x)",
    _rounding(np.ceil),
    partials={"x": FLAT},
    accepts="real",
    doc="The smallest whole number that is at least x.",
    algebra=Algebra(monotone=1, idempotent=True),
    samples=unary((0.1, 0.9), (-2.9, -2.1)),
    reference=each(math.ceil),
    onnx="Ceil",
    cost=1,
    form=Form("⌈v⌉", "⌈{0}⌉", local="0", say="A whole part does not move with its input: nothing passes."),
    latex=Latex(r"\left\lceil {0} \right\rceil", "form", "atom"),
    sympy=lambda sp, x: sp.ceiling(x),
    zero_gradient="step_function",
)
round = elementwise(
    "round(x)",
    _rounding(np.rint),
    partials={"x": FLAT},
    accepts="numeric",
    doc="The nearest whole number, halves to even.",
    algebra=Algebra(monotone=1, idempotent=True, odd=True),
    samples=unary((0.6, 1.4), (-2.4, -1.6)),
    reference=each(lambda x: float(f"{x:.0f}")),
    onnx="Round",
    cost=1,
    form=Form("round", "round({0})", local="0", say="Rounding does not move with its input: nothing passes."),
    sympy="rounds halves to even; SymPy has no such function of a symbol",
    zero_gradient="step_function",
)
trunc = elementwise(
    "trunc(x)",
    _rounding(np.trunc),
    partials={"x": FLAT},
    accepts="real",
    doc="The whole part of x, rounded toward 0.",
    algebra=Algebra(monotone=1, idempotent=True, odd=True),
    samples=unary((0.1, 0.9), (-2.9, -2.1)),
    reference=each(math.trunc),
    onnx=Missing("ONNX writes it as Mul(Sign(x), Floor(Abs(x)))"),
    cost=1,
    form=Form("trunc", "trunc({0})", local="0", say="A whole part does not move with its input: nothing passes."),
    sympy=lambda sp, x: sp.sign(x) * sp.floor(sp.Abs(x)),
    zero_gradient="step_function",
)
floor_divide = elementwise(
    "floor_divide(x, y)",
    np.floor_divide,
    partials={"x": FLAT, "y": FLAT},
    accepts="real",
    operator="floordiv",
    doc="The floor of x / y, as Python's //.",
    samples=binary((2.1, 2.9), (0.95, 1.05)),
    reference=each(lambda x, y: x // y),
    onnx=Missing("ONNX writes it as Floor(Div(x, y))"),
    cost=DIVISION,
    form=Form("⌊÷⌋", "⌊{0} / {1}⌋", local="0|0", say="A whole quotient does not move with its inputs: nothing passes."),
    infix=Infix("//", "product"),
    latex=Latex(r"\left\lfloor \frac{{{0}}}{{{1}}} \right\rfloor", "form"),
    sympy=lambda sp, x, y: sp.floor(x / y),
    nonfinite=Nonfinite(((second(lambda y: y == 0), Cause("division by 0", DIVIDE)),)),
    zero_gradient="step_function",
)
remainder = elementwise(
    "remainder(x, y)",
    np.remainder,
    partials={"x": lambda: 1.0, "y": lambda x, y: -floor_divide(x, y)},
    accepts="real",
    operator="mod",
    doc="x - y * floor(x / y), as Python's %: it has the sign of y.",
    samples=binary((2.1, 2.9), (0.95, 1.05)),
    reference=each(lambda x, y: x % y),
    onnx="Mod",
    cost=DIVISION,
    form=Form("mod", "{0} mod {1}", binds="product", local="1|−⌊{0} / {1}⌋"),
    infix=Infix(" % ", "product"),
    latex=Latex(r" \bmod ", "infix"),
    sympy=lambda sp, x, y: sp.Mod(x, y),
    nonfinite=Nonfinite(((second(lambda y: y == 0), Cause("the remainder of a division by 0", DIVIDE)),)),
)

# -- sign and magnitude


def _sign_vjp(ct: Any, x: Any) -> Any:
    """Return the part of the cotangent across the direction of x, over |x|; nothing for real numbers."""
    if x.dtype.kind != "c":
        return where_op(NOWHERE, ct, 0.0)
    direction = sign(x)
    along = TABLE["real"](TABLE["conj"](direction) * ct)
    return where_op(x != 0, (ct - along * direction) / abs(x), 0.0)


def _sign_flows(x: Any) -> Any:
    return x != 0 if x.dtype.kind == "c" else x != x


sign = elementwise(
    "sign(x)",
    careful(np.sign, complex_sign),
    partials={"x": Vjp(_sign_vjp, present=_sign_flows)},
    accepts="numeric",
    doc="-1, 0 or 1; of a complex number x / |x|, and 0 of 0.",
    algebra=Algebra(monotone=1, range="[-1, 1]", odd=True, idempotent=True),
    samples=and_complex(unary((0.2, 2.0), (-2.0, -0.2))),
    reference=each(
        lambda x: x / cmath.sqrt(x * x.conjugate()).real if isinstance(x, complex) else math.copysign(1.0, x)
    ),
    onnx="Sign",
    cost=1,
    form=Form("sign", "sign({0})", local="0", say="A sign does not move with its input: nothing passes."),
    sympy=lambda sp, x: sp.sign(x),
    zero_gradient="step_function",
)


def _abs_partial(x: Any) -> Any:
    direction = sign(x)
    return TABLE["conj"](direction) if direction.dtype.kind == "c" else direction


def _real_product(x: Any, y: Any) -> Any:
    """Return the real part of conj(x) y."""
    return TABLE["real"](TABLE["conj"](x) * y) if x.dtype.kind == "c" else x * y


abs = elementwise(
    "abs(x)",
    np.abs,
    partials={"x": _abs_partial},
    accepts="numeric",
    result="magnitude",
    operator="abs",
    doc="The absolute value, a real number; its gradient at 0 is 0.",
    algebra=Algebra(range="[0, inf)", even=True, idempotent=True),
    samples=and_complex(unary((0.2, 2.0), (-2.0, -0.2))),
    reference=each(lambda x: math.hypot(x.real, x.imag)),
    onnx="Abs",
    cost=1,
    form=Form(
        "|v|", "|{0}|", local="sign({0})", say="An absolute value hands on what arrives with the sign of its input."
    ),
    latex=Latex(r"\left|{0}\right|", "form", "atom"),
    sympy=lambda sp, x: sp.Abs(x),
    square=Square(_real_product, lambda ct, x: ct * x),
)
METHODS["absolute"] = abs.front
copysign = elementwise(
    "copysign(x, y)",
    np.copysign,
    partials={"x": lambda x, out: sign(x) * sign(out), "y": FLAT},
    accepts="real_inexact",
    doc="The magnitude of x with the sign of y.",
    samples=binary((0.2, 2.0), (-2.0, -0.2)),
    reference=each(math.copysign),
    onnx=Missing("ONNX writes it as Where(signbit(y), Neg(Abs(x)), Abs(x))"),
    cost=1,
    sympy="tells zeros of two signs apart, which SymPy does not have",
)
nextafter = elementwise(
    "nextafter(x, y)",
    np.nextafter,
    accepts="real_inexact",
    doc="The next representable number after x toward y.",
    samples=apart(order=0),
    reference=each(math.nextafter),
    onnx=Missing("ONNX has no such operator"),
    cost=1,
    sympy="works on the bits of floating numbers, which SymPy's exact numbers have none of",
    zero_gradient="step_function",
)
