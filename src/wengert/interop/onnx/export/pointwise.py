"""Forms of ops that work by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.spec import category
from ..errors import refuse
from .writer import Call, Writer, form


def _float_only(op: str) -> Any:
    """Return the form of an operator of floating numbers whose op is one of integers too."""

    def write(g: Writer, n: Call, x: str) -> str:
        if category(n.dtype) == 2:
            return str(g(op, x))
        return x

    return write


for _name, _op in (("ceil", "Ceil"), ("floor", "Floor"), ("round", "Round")):
    form(_name)(_float_only(_op))


@form("relu")
def _relu(g: Writer, n: Call, x: str) -> str:
    if category(n.dtype) == 2 or g.opset >= 14:
        return str(g("Relu", x))
    return str(g("Max", x, g.like(0, n.dtype)))


@form("isnan", "isinf")
def _is_special(g: Writer, n: Call, x: str) -> str:
    if category(n.operand(0).dtype) < 2:
        return g.expand(g.const(False), n.shape)
    # ONNX tests no infinity in other dtypes before version 20.
    wide = x if n.operand(0).dtype in (np.float32, np.float64) else g.cast(x, np.float32)
    return str(g("IsNaN" if n.node.op.name == "isnan" else "IsInf", wide))


@form("isfinite")
def _isfinite(g: Writer, n: Call, x: str) -> str:
    if category(n.operand(0).dtype) < 2:
        return g.expand(g.const(True), n.shape)
    wide = x if n.operand(0).dtype in (np.float32, np.float64) else g.cast(x, np.float32)
    return str(g("Not", g("Or", g("IsNaN", wide), g("IsInf", wide))))


@form("square")
def _square(g: Writer, n: Call, x: str) -> str:
    return str(g("Mul", x, x))


@form("rsqrt")
def _rsqrt(g: Writer, n: Call, x: str) -> str:
    return str(g("Reciprocal", g("Sqrt", x)))


@form("not_equal")
def _not_equal(g: Writer, n: Call, *_: str) -> str:
    return str(g("Not", g("Equal", *g.narrow(n.node))))


@form("log2", "log10")
def _log_of(g: Writer, n: Call, x: str) -> str:
    base = 2.0 if n.node.op.name == "log2" else 10.0
    return str(g("Mul", g("Log", x), g.like(1 / math.log(base), n.dtype)))


@form("expm1")
def _expm1(g: Writer, n: Call, x: str) -> str:
    # exp(x) - 1 = 2 tanh(x/2) exp(x) / (exp(x) + 1) = tanh(x/2) (exp(x) + 1), which is accurate near 0.
    half = g("Tanh", g("Mul", x, g.like(0.5, n.dtype)))
    near = g("Mul", half, g("Add", g("Exp", x), g.like(1, n.dtype)))
    far = g("Sub", g("Exp", x), g.like(1, n.dtype))
    small = g("Less", g("Abs", x), g.like(1, n.dtype))
    return str(g("Where", small, near, far))


@form("log1p")
def _log1p(g: Writer, n: Call, x: str) -> str:
    # With u = 1 + x rounded, log(u) x / (u - 1) makes up for what the rounding lost (Goldberg 1991, theorem 4).
    one = g.like(1, n.dtype)
    u = g("Add", x, one)
    d = g("Sub", u, one)
    same = g("Equal", d, g.like(0, n.dtype))
    safe = g("Where", same, one, d)
    rest = g("Mul", g("Log", u), g("Div", x, safe))
    large = g("Greater", g("Abs", x), g.like(1e6, n.dtype))
    return str(g("Where", same, x, g("Where", large, g("Log", u), rest)))


@form("hypot")
def _hypot(g: Writer, n: Call, *_: str) -> str:
    x, y = (g("Abs", v) for v in g.narrow(n.node))
    top, low = g("Max", x, y), g("Min", x, y)
    # The result is infinite beside another infinity and beside a NaN, too.
    infinity = g.like(np.inf, n.dtype)
    far = g("Or", g("Equal", x, infinity), g("Equal", y, infinity))
    empty = g("Equal", top, g.like(0, n.dtype))
    ratio = g("Div", low, g("Where", g("Or", empty, far), g.like(1, n.dtype), top))
    found = g("Mul", top, g("Sqrt", g("Add", g("Mul", ratio, ratio), g.like(1, n.dtype))))
    return str(g("Where", far, infinity, found))


@form("logaddexp")
def _logaddexp(g: Writer, n: Call, *_: str) -> str:
    x, y = g.narrow(n.node)
    top = g("Max", x, y)
    apart = g("Abs", g("Sub", x, y))
    same = g("Equal", x, y)
    gap = g("Where", same, g.like(0, n.dtype), apart)
    return str(g("Add", top, _log1p(g, n, g("Exp", g("Neg", gap)))))


@form("xlogy", "xlog1py")
def _xlogy(g: Writer, n: Call, *_: str) -> str:
    x, y = g.narrow(n.node)
    zero = g("Equal", x, g.like(0, n.dtype))
    logarithm = g("Log", y) if n.node.op.name == "xlogy" else _log1p(g, n, y)
    product = g("Where", zero, g.like(0, n.dtype), g("Mul", x, logarithm))
    # NaN beside 0 stays.
    return str(g("Where", g("IsNaN", y), y, product) if n.dtype in (np.float32, np.float64) else product)


@form("xlogx")
def _xlogx(g: Writer, n: Call, x: str) -> str:
    zero = g.like(0, n.dtype)
    return str(g("Where", g("Equal", x, zero), zero, g("Mul", x, g("Log", x))))


@form("scaled_power")
def _scaled_power(g: Writer, n: Call, *_: str) -> str:
    c, x, p = g.narrow(n.node)
    zero = g.like(0, n.dtype)
    return str(g("Where", g("Equal", c, zero), zero, g("Mul", c, g("Pow", x, p))))


@form("trunc")
def _trunc(g: Writer, n: Call, x: str) -> str:
    if category(n.dtype) < 2:
        return x
    negative = g("Less", x, g.like(0, n.dtype))
    return str(g("Where", negative, g("Ceil", x), g("Floor", x)))


@form("floor_divide")
def _floor_divide(g: Writer, n: Call, *_: str) -> str:
    x, y = g.narrow(n.node)
    quotient = g("Div", x, y)
    if category(n.dtype) == 2:
        # Of the quotient's remainder, so that rounding does not lift it over a whole number.
        rest = _remainder(g, n, x, y)
        whole = g("Round", g("Div", g("Sub", x, rest), y))
        # A remainder of zero is no number; the quotient by zero is infinite, or none either.
        return str(g("Where", g("Equal", y, g.like(0, n.dtype)), quotient, whole))
    if n.dtype.kind == "u":
        return str(quotient)
    rest = g("Sub", x, g("Mul", quotient, y))
    zero = g.like(0, n.dtype)
    apart = g("Xor", g("Less", rest, zero), g("Less", y, zero))
    below = g("And", g("Not", g("Equal", rest, zero)), apart)
    return str(g("Sub", quotient, g.cast(below, n.dtype)))


def _negative(g: Writer, x: str, dtype: Any) -> str:
    """Return where floats have a sign: that of a zero is that of its reciprocal."""
    zero = g.like(0, dtype)
    told = g("Where", g("Equal", x, zero), g("Reciprocal", x), x)
    return str(g("Less", told, zero))


@form("atan2")
def _atan2(g: Writer, n: Call, *_: str) -> str:
    """Return the angle of the absolute values, in the quadrant of the signs. Of two zeros it is zero."""
    y, x = g.narrow(n.node)
    rise, run = g("Abs", y), g("Abs", x)
    zero, one = g.like(0, n.dtype), g.like(1, n.dtype)
    quotient = g("Where", g("Equal", rise, run), g("Where", g("Equal", rise, zero), zero, one), g("Div", rise, run))
    angle = g("Atan", quotient)
    angle = g("Where", _negative(g, x, n.dtype), g("Sub", g.like(np.pi, n.dtype), angle), angle)
    # A product, for onnxruntime's Where loses the sign of a zero.
    return str(g("Mul", angle, g("Where", _negative(g, y, n.dtype), g.like(-1, n.dtype), one)))


@form("negative")
def _negated(g: Writer, n: Call, x: str) -> str:
    if n.dtype.kind != "u":
        return str(g("Neg", x))
    # ONNX negates no unsigned integers: the rest of a division by their number is one.
    wide = g("Neg", g.cast(x, np.int64))
    if n.dtype.itemsize < 8:
        wide = g("Mod", wide, g.const(1 << 8 * n.dtype.itemsize, np.int64))
    return g.cast(wide, n.dtype)


@form("signbit", "copysign")
def _sign(g: Writer, n: Call, *_: str) -> str:
    last = g.narrow(n.node)[-1]
    dtype = n.operand(-1).dtype
    if category(dtype) < 2:
        negative = g("Less", last, g.like(0, dtype))
    else:
        negative = _negative(g, last, dtype)
    if n.node.op.name == "signbit":
        return str(negative)
    size = g("Abs", g.narrow(n.node)[0])
    # A product, for onnxruntime's Where loses the sign of a zero.
    return str(g("Mul", size, g("Where", negative, g.like(-1, n.dtype), g.like(1, n.dtype))))


@form("remainder")
def _remainder_operator(g: Writer, n: Call, *_: str) -> str:
    x, y = g.narrow(n.node)
    if category(n.dtype) < 2:
        return str(g("Mod", x, y, fmod=0))
    found = _remainder(g, n, x, y)
    # ONNX's zero has the sign of x, Python's that of y.
    zero = g.like(0, n.dtype)
    signed = g("Where", g("Less", y, zero), g("Neg", zero), zero)
    return str(g("Where", g("Equal", found, zero), signed, found))


def _remainder(g: Writer, n: Call, x: str, y: str) -> str:
    rest = g("Mod", x, y, fmod=1)
    zero = g.like(0, n.dtype)
    apart = g("Xor", g("Less", rest, zero), g("Less", y, zero))
    moved = g("And", g("Not", g("Equal", rest, zero)), apart)
    return str(g("Where", moved, g("Add", rest, y), rest))


@form("divide")
def _divide(g: Writer, n: Call, *_: str) -> str:
    x, y = g.narrow(n.node)
    if category(n.operand(0).dtype) < 2:
        x, y = g.cast(x, n.dtype), g.cast(y, n.dtype)
    return str(g("Div", x, y))


@form("pow")
def _power(g: Writer, n: Call, *_: str) -> str:
    return str(g("Pow", *g.narrow(n.node)))


@form("maximum", "minimum")
def _extreme(g: Writer, n: Call, *_: str) -> str:
    x, y = g.narrow(n.node)
    op = "Max" if n.node.op.name == "maximum" else "Min"
    if n.dtype.kind == "b":
        return str(g("Or" if op == "Max" else "And", x, y))
    return str(g(op, x, y))


@form("clip")
def _clip(g: Writer, n: Call, *_: str) -> str:
    x, low, high = g.narrow(n.node)
    return str(g("Min", g("Max", x, low), high))


@form("bitwise_left_shift", "bitwise_right_shift")
def _shift(g: Writer, n: Call, *_: str) -> str:
    if n.dtype.kind != "u":
        refuse("ONNX shifts the bits of unsigned integers only")
    left = n.node.op.name == "bitwise_left_shift"
    return str(g("BitShift", *g.narrow(n.node), direction="LEFT" if left else "RIGHT"))


@form("bitwise_and", "bitwise_or", "bitwise_xor")
def _bitwise(g: Writer, n: Call, *_: str) -> str:
    op = n.node.op.name.removeprefix("bitwise_").capitalize()
    if n.dtype.kind == "b":
        return str(g(op, *g.narrow(n.node)))
    if g.opset < 18:
        refuse(f"ONNX has bits of integers since version 18, and opset={g.opset}")
    return str(g(f"Bitwise{op}", *g.narrow(n.node)))


@form("bitwise_invert")
def _bitwise_not(g: Writer, n: Call, x: str) -> str:
    if n.dtype.kind != "b" and g.opset < 18:
        refuse(f"ONNX has bits of integers since version 18, and opset={g.opset}")
    return str(g("Not" if n.dtype.kind == "b" else "BitwiseNot", x))


@form("equal")
def _equal(g: Writer, n: Call, *_: str) -> str:
    return str(g("Equal", *g.narrow(n.node)))


def _compared(op: str) -> Any:
    def write(g: Writer, n: Call, *_: str) -> str:
        x, y = g.narrow(n.node)
        if n.operand(0).dtype.kind == "b":
            x, y = g.cast(x, np.int32), g.cast(y, np.int32)
        return str(g(op, x, y))

    return write


for _name, _op in (
    ("less", "Less"),
    ("less_equal", "LessOrEqual"),
    ("greater", "Greater"),
    ("greater_equal", "GreaterOrEqual"),
):
    form(_name)(_compared(_op))


def _on_truth(op: str, *names: str) -> None:
    def write(g: Writer, n: Call, *_: str) -> str:
        values = g.narrow(n.node)
        given = [
            v if n.operand(i).dtype.kind == "b" else g("Not", g("Equal", v, g.like(0, n.operand(i).dtype)))
            for i, v in enumerate(values)
        ]
        return str(g(op, *given))

    form(*names)(write)


_on_truth("And", "logical_and")
_on_truth("Or", "logical_or")
_on_truth("Xor", "logical_xor")
_on_truth("Not", "logical_not")


@form("straight_through")
def _straight_through(g: Writer, n: Call, *operands: str) -> str:
    # Its value is the hard one: the soft one is there for the derivative.
    return operands[0]


@form(
    "scale_gradient",
    "clip_gradient",
    "clip_gradient_norm",
    "stop_gradient",
    "checkpoint_name",
    "copy",
    "positive",
    "probability",
)
def _passed(g: Writer, n: Call, x: str, *_: str) -> str:
    return x


@form("cast")
def _cast(g: Writer, n: Call, x: str) -> str:
    source = n.operand(0).dtype
    if source == n.dtype:
        return x
    if n.dtype.kind == "b":
        return str(g("Not", g("Equal", x, g.like(0, source))))
    return g.cast(x, n.dtype)


@form("class_index")
def _class_index(g: Writer, n: Call, target: str) -> str:
    # That the others are classes is not checked: where one is read, a runtime refuses what lies outside.
    ignored, info = n["ignore_index"], np.iinfo(n.dtype)
    if not info.min <= ignored <= info.max:
        return target
    return str(g("Where", g("Equal", target, g.like(ignored, n.dtype)), g.like(0, n.dtype), target))


# erfc(|x|) = t exp(-x^2 + P(t)) with t = 1 / (1 + |x|/2), off by 1.2e-7 of itself at most (Press et al., Numerical
# Recipes, 6.2).
_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
)  # fmt: skip


@form("erfc")
def _erfc(g: Writer, n: Call, x: str) -> str:
    if n.dtype == np.float64:
        refuse("erfc in float64 has no form: 1 - Erf(x) loses its accuracy", "Export it in float32.")
    wide = np.dtype(np.float64)
    size = g("Abs", g.cast(x, wide))
    t = g("Reciprocal", g("Add", g("Mul", size, g.like(0.5, wide)), g.like(1, wide)))
    total = g.like(_ERFC[-1], wide)
    for c in _ERFC[-2::-1]:
        total = g("Add", g("Mul", total, t), g.like(c, wide))
    tail = g("Mul", t, g("Exp", g("Sub", total, g("Mul", size, size))))
    below = g("Less", x, g.like(0, n.dtype))
    return g.cast(g("Where", below, g("Sub", g.like(2, wide), tail), tail), n.dtype)
