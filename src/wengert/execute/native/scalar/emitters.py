"""The table of emitters: the native code of each elementwise op.

An emitter writes one op for values in their compute types (see `storage.compute_type`), scalars or
vectors; the result is in the compute type of the node's dtype. The ops' NumPy forwards are the
specification, down to NaN, infinities, signed zeros, wrapping integers and division by zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.node import Node
from ....core.ops.op import spec_of_input
from ..codegen.builder import Builder, Value
from ..codegen.types import I1, I32, I64, Type
from .legalize import cast, compute_type, kind_of, memory_type, noted, rounded, to_compute, to_storage, truth
from .math import library as m
from .math.base import bits_of

__all__ = [
    "Emitter", "compute_type", "emit", "memory_type", "rounded", "supported", "to_compute", "to_storage",
]  # fmt: skip

Emitter = Callable[[Builder, Node, Sequence[Value]], Value]
DType = np.dtype[Any]

EMITTERS: dict[str, Emitter] = {}
# The kinds of dtype (see `kind_of`) that each takes.
_KINDS: dict[str, str] = {}
# Those whose result is an operand, its opposite or a whole number near it: nothing to round.
_EXACT: set[str] = set()

_NUMBERS = (bool, int, float)
_LITERALS = (*_NUMBERS, complex)


def supported(node: Node) -> bool:
    """Return whether there is an emitter for the node's op, dtypes and literals."""
    name = node.op.name
    if name not in EMITTERS or isinstance(node.spec, tuple):
        return False
    kinds = _KINDS[name]
    for entry in node.inputs:
        if not isinstance(entry, _LITERALS) and kind_of(spec_of_input(entry).dtype) not in kinds:
            return False
    if kind_of(node.spec.dtype) == "c":
        return False
    return name != "pow" or _operand_dtype(node).kind not in "iu" or _whole_exponent(node) is not None


def rounds(node: Node) -> bool:
    """Return whether what the op gives is rounded to a dtype of 16 bits, which takes several instructions."""
    if node.spec.dtype.itemsize != 2 or kind_of(node.spec.dtype) != "f":
        return False
    return node.op.name not in _EXACT or _operand_dtype(node) != node.spec.dtype


def emit(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    """Write one op, whose result is a number of the node's dtype.

    Arithmetic on 16-bit floats is in float32. Each op rounds what it gives, as its NumPy forward does: what a loop
    fuses is what it would be alone, where it overflows, too.
    """
    name = node.op.name
    x = EMITTERS[name](b, node, args)
    return noted(b, x, node.spec.dtype) if name in _EXACT else rounded(b, x, node.spec.dtype)


def _emits(names: str, kinds: str, exact: bool = False) -> Callable[[Emitter], Emitter]:
    def register(emitter: Emitter) -> Emitter:
        for name in names.split():
            EMITTERS[name] = emitter
            _KINDS[name] = kinds
            if exact:
                _EXACT.add(name)
        return emitter

    return register


def _operand_dtype(node: Node) -> DType:
    """Return the dtype that the op's operands share; literals take it on."""
    for entry in node.inputs:
        if not isinstance(entry, _NUMBERS):
            found: DType = spec_of_input(entry).dtype
            return found
    dtype: DType = node.spec.dtype
    return dtype


def _literal(node: Node, index: int) -> float | int | None:
    """Return argument `index` where it is a Python number."""
    entry = node.inputs[index]
    return entry if isinstance(entry, _NUMBERS) else None


# -- functions of floats

_UNARY = {
    "sqrt": m.sqrt,
    "exp": m.exp,
    "expm1": m.expm1,
    "log": m.log,
    "log1p": m.log1p,
    "log2": m.log2,
    "log10": m.log10,
    "sigmoid": m.sigmoid,
    "sin": m.sin,
    "cos": m.cos,
    "tan": m.tan,
    "asin": m.asin,
    "acos": m.acos,
    "atan": m.atan,
    "sinh": m.sinh,
    "cosh": m.cosh,
    "tanh": m.tanh,
    "asinh": m.asinh,
    "acosh": m.acosh,
    "atanh": m.atanh,
    "erf": m.erf,
    "erfc": m.erfc,
    "erfinv": m.erfinv,
    "ndtr": m.ndtr,
    "ndtri": m.ndtri,
    "log_ndtr": m.log_ndtr,
    "i0e": m.i0e,
    "i1e": m.i1e,
    "lgamma": m.lgamma,
    "digamma": m.digamma,
}
_BINARY = {"hypot": m.hypot, "atan2": m.atan2, "copysign": m.copysign, "logaddexp": m.logaddexp}


def _of_one(function: Callable[[Builder, Value], Value]) -> Emitter:
    return lambda b, node, args: function(b, args[0])


def _of_two(function: Callable[[Builder, Value, Value], Value]) -> Emitter:
    return lambda b, node, args: function(b, args[0], args[1])


def _of_attributes(function: Callable[..., Value]) -> Emitter:
    return lambda b, node, args: function(b, *args, **node.attrs)


for _name, _function in _UNARY.items():
    _emits(_name, "f")(_of_one(_function))
for _name, _pair in _BINARY.items():
    _emits(_name, "f")(_of_two(_pair))
for _sum in (m.betainc, m.betainc_slope, m.betaln, m.gamma_ratio, m.gammainc, m.gammaincc, m.polygamma):
    _emits(_sum.__name__, "f")(_of_attributes(_sum))


@_emits("divide", "f")
def _divide(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    return b.fdiv(args[0], args[1])


@_emits("reciprocal", "f")
def _reciprocal(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    return b.fdiv(b.const(args[0].type, 1.0), args[0])


@_emits("rsqrt", "f")
def _rsqrt(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    return b.fdiv(b.const(args[0].type, 1.0), m.sqrt(b, args[0]))


@_emits("xlogy xlog1py", "f")
def _xlogy(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    """Compute x log(y) or x log(1 + y), 0 where x is 0 and y a number."""
    x, y = args
    zero = b.const(x.type, 0.0)
    product = b.fmul(x, (m.log if node.op.name == "xlogy" else m.log1p)(b, y))
    return b.select(b.and_(b.fcmp("oeq", x, zero), b.fcmp("ord", y, y)), zero, product)


@_emits("nextafter", "f", exact=True)
def _nextafter(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    """Step one up or down in the bits as they lie in memory, read as an integer."""
    x, y = args
    dtype = _operand_dtype(node)
    held = [to_storage(b, a, dtype) for a in args]
    ints = Type("i", held[0].type.bits, x.type.lanes)
    bits, toward = (b.cast("bitcast", a, ints) for a in held)
    one = b.const(ints, 1)
    # Away from 0 the magnitude grows.
    grows = b.xor(b.fcmp("olt", x, y), b.icmp("slt", bits, b.const(ints, 0)))
    moved = b.select(grows, b.add(bits, one), b.sub(bits, one))
    smallest = b.or_(b.and_(toward, b.const(ints, -1 << (ints.bits - 1))), one)
    moved = b.select(b.fcmp("oeq", x, b.const(x.type, 0.0)), smallest, moved)
    moved = b.select(b.fcmp("oeq", x, y), bits if _first_of_equals(dtype) else toward, moved)
    out = to_compute(b, b.cast("bitcast", moved, held[0].type), dtype)
    return b.select(b.fcmp("uno", x, y), b.fadd(x, y), out)


# -- arithmetic of any kind of number


def _arithmetic(name: str, of_floats: str, of_ints: str) -> None:
    def emit(b: Builder, node: Node, args: Sequence[Value]) -> Value:
        x, y = args
        write = getattr(b, of_floats if x.type.is_float else of_ints)
        out: Value = write(x, y)
        return out

    _emits(name, "fiu")(emit)


_arithmetic("add", "fadd", "add")
_arithmetic("subtract", "fsub", "sub")
_arithmetic("multiply", "fmul", "mul")


@_emits("negative", "fiu", exact=True)
def _negative(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    (x,) = args
    return b.fneg(x) if x.type.is_float else b.sub(b.const(x.type, 0), x)


@_emits("square", "fiu")
def _square(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    return _times(b, args[0], args[0])


def _times(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, y) if x.type.is_float else b.mul(x, y)


@_emits("abs", "fiu", exact=True)
def _abs(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    (x,) = args
    if x.type.is_float:
        return m.fabs(b, x)
    if _operand_dtype(node).kind == "u":
        return x
    zero = b.const(x.type, 0)
    return b.select(b.icmp("slt", x, zero), b.sub(zero, x), x)


@_emits("sign", "fiu", exact=True)
def _sign(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    (x,) = args
    zero, one = b.const(x.type, 0), b.const(x.type, 1)
    if _operand_dtype(node).kind == "u":
        return b.select(b.icmp("eq", x, zero), zero, one)
    minus_one = b.const(x.type, -1)
    if not x.type.is_float:
        return b.select(b.icmp("sgt", x, zero), one, b.select(b.icmp("slt", x, zero), minus_one, zero))
    # Of bfloat16, whose sign is ml_dtypes', zeros keep theirs.
    nothing = x if _operand_dtype(node).kind == "V" else zero
    out = b.select(b.fcmp("ogt", x, zero), one, b.select(b.fcmp("olt", x, zero), minus_one, nothing))
    return b.select(b.fcmp("uno", x, x), x, out)


@_emits("floor_divide remainder", "fiu")
def _floored(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    x, y = args
    wants_rest = node.op.name == "remainder"
    if x.type.is_float:
        return (m.remainder if wants_rest else m.floor_divide)(b, x, y)
    return m.int_divide(b, x, y, _operand_dtype(node).kind == "i")[wants_rest]


# -- powers


@_emits("pow", "fiu")
def _pow(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    x, y = args
    exponent = _literal(node, 1)
    if not x.type.is_float:
        whole = _whole_exponent(node)
        assert whole is not None
        return _repeated(b, x, whole)
    if exponent == 0.5:
        root = m.sqrt(b, b.fadd(x, b.const(x.type, 0.0)))
        below = b.fcmp("oeq", x, b.const(x.type, -math.inf))
        return b.select(below, b.const(x.type, math.inf), root)
    if exponent == -0.5:
        root = m.sqrt(b, b.fadd(x, b.const(x.type, 0.0)))
        below = b.fcmp("oeq", x, b.const(x.type, -math.inf))
        return b.select(below, b.const(x.type, 0.0), b.fdiv(b.const(x.type, 1.0), root))
    if exponent is not None and exponent in _BY_PRODUCTS:
        if exponent < 0:
            # The reciprocal first: the power itself may overflow where its reciprocal is a denormal number.
            x = b.fdiv(b.const(x.type, 1.0), x)
        return _repeated(b, x, abs(int(exponent)))
    return m.pow(b, x, y)


# Each product is one more rounding, and so is a reciprocal: with more of them the logarithm is the better way.
_BY_PRODUCTS = (-2, -1, 0, 1, 2, 3, 4)


def _whole_exponent(node: Node) -> int | None:
    """Return an integer power's exponent where it is a literal; a negative one, which is an error, is left to NumPy."""
    exponent = _literal(node, 1)
    return int(exponent) if exponent is not None and exponent >= 0 else None


def _repeated(b: Builder, x: Value, exponent: int) -> Value:
    """Return x**exponent by squaring."""
    if not exponent:
        return b.const(x.type, 1)
    out: Value | None = None
    while True:
        if exponent & 1:
            out = x if out is None else _times(b, out, x)
        exponent >>= 1
        if not exponent:
            assert out is not None
            return out
        x = _times(b, x, x)


# -- choosing and bounding


@_emits("where", "fiub", exact=True)
def _where(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    return b.select(*args)


def _first_of_equals(dtype: DType) -> bool:
    """Return whether NumPy takes the first of two zeros of different signs: of float16 only, else the second."""
    return dtype == np.float16


def _extreme(b: Builder, node: Node, x: Value, y: Value, literal: float | int | None, larger: bool) -> Value:
    """Return the larger or smaller; NaN where either is, and of equal ones that which NumPy takes."""
    if x.type.is_float:
        if literal is not None and literal == literal and literal != 0:
            # One instruction of processors, whose second operand is the result where nothing compares.
            return b.select(b.fcmp("ogt" if larger else "olt", y, x), y, x)
        how = ("ug" if larger else "ul") + ("e" if _first_of_equals(_operand_dtype(node)) else "t")
        out = b.select(b.fcmp(how, x, y), x, y)
        if literal is not None and literal == literal:
            return out
        return b.select(b.fcmp("uno", y, y), y, out)
    sign = "s" if _operand_dtype(node).kind == "i" else "u"
    return b.intrinsic(f"{sign}{'max' if larger else 'min'}", x, y)


@_emits("maximum minimum", "fiu", exact=True)
def _max_min(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    x, y = args
    return _extreme(b, node, x, y, _literal(node, 1), node.op.name == "maximum")


@_emits("relu", "fiu", exact=True)
def _relu(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    (x,) = args
    return _extreme(b, node, x, b.const(x.type, 0), 0, True)


@_emits("clip", "fiu", exact=True)
def _clip(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    x, low, high = args
    if _literal(node, 1) != -math.inf:
        x = _extreme(b, node, x, low, _literal(node, 1), True)
    if _literal(node, 2) != math.inf:
        x = _extreme(b, node, x, high, _literal(node, 2), False)
    return x


def _rounding(name: str, function: Callable[[Builder, Value], Value]) -> None:
    def emit(b: Builder, node: Node, args: Sequence[Value]) -> Value:
        return function(b, args[0]) if args[0].type.is_float else args[0]

    _emits(name, "fiu", exact=True)(emit)


_rounding("floor", m.floor)
_rounding("ceil", m.ceil)
_rounding("round", m.rint)
_rounding("trunc", m.trunc)

# -- comparisons and logic

_SYMBOLS = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
_PYTHON: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


@_emits(" ".join(_SYMBOLS), "fiub")
def _compare(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    x, y = args
    how = _SYMBOLS[node.op.name]
    if x.type.is_float:
        return b.fcmp(("u" if how == "ne" else "o") + how, x, y)
    dtype = _operand_dtype(node)
    for i in (0, 1):
        literal = _literal(node, i)
        if literal is not None and dtype.kind in "iu" and not _fits(literal, dtype):
            # Every number of the dtype stands on one side of it.
            pair = (literal, 0) if i == 0 else (0, literal)
            return b.const(I1.vector(x.type.lanes), _PYTHON[how](*pair))
    if how not in ("eq", "ne"):
        how = ("s" if dtype.kind == "i" else "u") + how
    return b.icmp(how, x, y)


def _fits(number: float | int, dtype: DType) -> bool:
    info = np.iinfo(dtype)
    return int(info.min) <= number <= int(info.max)


def _logical(name: str, write: str) -> None:
    def emit(b: Builder, node: Node, args: Sequence[Value]) -> Value:
        out: Value = getattr(b, write)(*(truth(b, a) for a in args))
        return out

    _emits(name, "fiub")(emit)


_logical("logical_and", "and_")
_logical("logical_or", "or_")
_logical("logical_xor", "xor")
_logical("logical_not", "not_")


def _bitwise(name: str, write: str) -> None:
    def emit(b: Builder, node: Node, args: Sequence[Value]) -> Value:
        out: Value = getattr(b, write)(*args)
        return out

    _emits(name, "iub")(emit)


_bitwise("bitwise_and", "and_")
_bitwise("bitwise_or", "or_")
_bitwise("bitwise_xor", "xor")
_bitwise("bitwise_invert", "not_")


@_emits("bitwise_left_shift bitwise_right_shift", "iu")
def _shift(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    """Shift; by more places than there are, or by a negative number, is as by all of them."""
    x, y = args
    zero = b.const(x.type, 0)
    inside = b.icmp("ult", y, b.const(x.type, x.type.bits))
    count = b.select(inside, y, zero)
    if node.op.name == "bitwise_left_shift":
        return b.select(inside, b.shl(x, count), zero)
    if _operand_dtype(node).kind == "u":
        return b.select(inside, b.lshr(x, count), zero)
    return b.ashr(x, b.select(inside, y, b.const(x.type, x.type.bits - 1)))


# -- tests of floats


@_emits("isnan isinf isfinite", "fiub")
def _classify(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    (x,) = args
    name = node.op.name
    if not x.type.is_float:
        return b.const(I1.vector(x.type.lanes), name == "isfinite")
    if name == "isnan":
        return b.fcmp("uno", x, x)
    return b.fcmp("oeq" if name == "isinf" else "one", m.fabs(b, x), b.const(x.type, math.inf))


@_emits("signbit", "f")
def _signbit(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    bits = bits_of(b, args[0])
    return b.icmp("slt", bits, b.const(bits.type, 0))


# -- indices


@_emits("class_index", "iu")
def _class_index(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    """Return the class, 0 for one that is left out; the check reports what is no class."""
    (x,), left_out = args, node.attrs["ignore_index"]
    if not _fits(left_out, _operand_dtype(node)):
        return x
    return b.select(b.icmp("eq", x, b.const(x.type, left_out)), b.const(x.type, 0), x)


@_emits("row_index", "iu")
def _row_index(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    """Return the id; the check reports what is no row."""
    return args[0]


@_emits("place", "iu")
def _place(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    """Return an index that may count from the end, counted from the start; -1 where it is no place."""
    x, size = args
    signed = _operand_dtype(node).kind == "i"
    at = b.cast("sext" if signed else "zext", x, I64) if x.type.bits < 64 else x
    if signed:
        at = b.select(b.icmp("slt", at, b.const(at.type, 0)), b.add(at, size), at)
    inside = b.icmp("ult", at, size)
    return b.select(inside, b.cast("trunc", at, I32), b.const(I32.vector(x.type.lanes), -1))


_CODE_ATTRS: dict[str, tuple[str, ...]] = {
    "one_hot": (),
    "place": (),
    "probability": (),
    "class_index": ("ignore_index",),
    "row_index": (),
}


def code_attrs(node: Node) -> dict[str, Any]:
    """Return the attributes that an op's code depends on; others are sizes, or serve messages."""
    names = _CODE_ATTRS.get(node.op.name)
    return node.attrs if names is None else {name: node.attrs[name] for name in names}


# -- what passes unchanged, and other dtypes

_PASSES = (
    "positive copy stop_gradient scale_gradient straight_through clip_gradient clip_gradient_norm checkpoint_name "
    "probability conj real"
)


@_emits(_PASSES, "fiub", exact=True)
def _pass(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    return args[0]


@_emits("imag", "fiub", exact=True)
def _imag(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    """Return the imaginary part of a real number, which is 0."""
    return b.const(args[0].type, 0)


@_emits("cast", "fiub", exact=True)
def _cast(b: Builder, node: Node, args: Sequence[Value]) -> Value:
    return cast(b, args[0], _operand_dtype(node), node.spec.dtype)
