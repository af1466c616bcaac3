"""Elementwise ops: arithmetic, powers, exponentials, trigonometry, complex parts."""

from __future__ import annotations

import cmath
import math
import operator
from typing import Any

import numpy as np

from ...core.errors import DTypeError, fail
from ...core.ops.declare import METHODS, elementwise
from ...core.ops.facets import Role
from ...core.ops.op import TABLE, Algebra, Linear, Missing, Op
from ...core.ops.record import SCALARS
from ...core.ops.sampling import and_complex, apart, binary, each, unary
from ...core.spec import DType
from .complex_cases import careful, complex_expm1, complex_log1p
from .selection import NOWHERE, where_op

_LN2 = math.log(2.0)
_LN10 = math.log(10.0)
_same = Linear(lambda ct: ct)


def _as_dtype(ct: Any, dtype: DType) -> Any:
    return ct if ct.dtype == dtype else TABLE["cast"](ct, dtype=dtype)


# -- arithmetic

add = elementwise(
    "add(x, y)",
    np.add,
    partials={"x": _same, "y": _same},
    accepts="numeric",
    operator="add",
    doc="x + y.",
    algebra=Algebra(commutes=True, associates=True, unit=0.0),
    samples=binary((-2.0, 2.0), (-2.0, 2.0)),
    reference=each(operator.add),
    onnx="Add",
)
subtract = elementwise(
    "subtract(x, y)",
    np.subtract,
    partials={"x": _same, "y": Linear(lambda ct: -ct)},
    accepts="numeric",
    operator="sub",
    doc="x - y.",
    algebra=Algebra(unit=0.0),
    samples=binary((-2.0, 2.0), (-2.0, 2.0)),
    reference=each(operator.sub),
    onnx="Sub",
)
multiply = elementwise(
    "multiply(x, y)",
    np.multiply,
    partials={"x": lambda y: y, "y": lambda x: x},
    accepts="numeric",
    operator="mul",
    doc="x times y.",
    algebra=Algebra(commutes=True, associates=True, unit=1.0, zero=0.0),
    samples=binary((-2.0, 2.0), (-2.0, 2.0)),
    reference=each(operator.mul),
    onnx="Mul",
)


def _inverse(y: Any) -> Any:
    """Return 1 / y; a Python number stays one, so that it stays weakly typed."""
    if type(y) not in SCALARS:
        return reciprocal(y)
    if y == 0:
        return complex(math.nan, math.nan) if type(y) is complex else math.copysign(math.inf, y)
    return 1 / y


divide = elementwise(
    "divide(x, y)",
    np.divide,
    partials={"x": lambda y: _inverse(y), "y": lambda y, out: -out / y},
    operator="truediv",
    doc="x over y, a floating number also for integers. Over 0 it is an infinity or NaN.",
    algebra=Algebra(unit=1.0),
    samples=binary((-2.0, 2.0), (0.5, 2.0)),
    reference=each(operator.truediv),
    onnx="Div",
)
negative = elementwise(
    "negative(x)",
    np.negative,
    partials={"x": Linear(lambda ct: -ct)},
    accepts="numeric",
    operator="neg",
    doc="-x.",
    algebra=Algebra(monotone=-1, odd=True, involution=True),
    samples=unary((-2.0, 2.0)),
    reference=each(operator.neg),
    onnx="Neg",
)
positive = elementwise(
    "positive(x)",
    np.positive,
    partials={"x": _same},
    accepts="numeric",
    operator="pos",
    doc="+x, which is x.",
    algebra=Algebra(monotone=1, odd=True, involution=True, idempotent=True),
    samples=unary((-2.0, 2.0)),
    reference=each(operator.pos),
    onnx="Identity",
)
reciprocal = elementwise(
    "reciprocal(x)",
    np.reciprocal,
    partials={"x": lambda out: -out * out},
    doc="1 / x.",
    algebra=Algebra(odd=True, involution=True),
    samples=unary((0.5, 2.0), (-2.0, -0.5)),
    reference=each(lambda x: 1.0 / x),
    onnx="Reciprocal",
)

# -- powers and roots


def _pow(x: Any, y: Any) -> Any:
    if not getattr(y, "ndim", 0) and y == 0.5:
        dtype = (x if type(y) in SCALARS else y).dtype
        if dtype.kind == "f":
            # NumPy takes the square root for it, which differs from the power at -0.0 and -inf.
            return np.where(x == -np.inf, dtype.type(np.inf), np.sqrt(dtype.type(0.0) + x))
    try:
        return x**y
    except ValueError:
        if np.result_type(x, y).kind in "iu" and np.any(np.asarray(y) < 0):
            fail(
                DTypeError,
                "pow: an integer to a negative integer power is not an integer",
                "Make the base floating: x.astype(wg.float32) ** y, or write the exponent as a float: x ** -1.0.",
            )
        raise


def _pow_in_base(x: Any, y: Any) -> Any:
    """Return y x**(y-1), and 0 where y is 0: x**0 is constant, also at x = 0."""
    if type(y) not in SCALARS:
        return where_op(y == 0, 0.0, y * x ** (y - 1.0))
    if y == 0:
        return 0.0
    return 1.0 if y == 1 else y * x if y == 2 else y * x ** (y - 1.0)


def _pow_in_exponent(x: Any, y: Any, out: Any) -> Any:
    """Return x**y log(x), and its limit 0 at x = 0, y >= 0."""
    zero = x == 0
    if y.dtype.kind != "c":
        zero = zero & (y >= 0)
    return where_op(zero, 0.0, out * _log_of_base(x, y.dtype))


def _log_of_base(x: Any, dtype: DType) -> Any:
    if type(x) not in SCALARS:
        return log(x)
    if x == 0:
        return -math.inf
    if dtype.kind == "c":
        return cmath.log(x)
    return math.log(x) if x > 0 else math.nan


pow = elementwise(
    "pow(x, y)",
    _pow,
    partials={"x": _pow_in_base, "y": _pow_in_exponent},
    accepts="numeric",
    operator="pow",
    doc="x to the power y. Integers stay integers, so their exponents must not be negative.",
    samples=binary((0.5, 2.0), (-2.0, 3.0)),
    reference=each(operator.pow),
    onnx="Pow",
)
square = elementwise(
    "square(x)",
    np.square,
    partials={"x": lambda x: 2.0 * x},
    accepts="numeric",
    doc="x times x.",
    algebra=Algebra(range="[0, inf)", even=True),
    samples=unary((-2.0, 2.0)),
    reference=each(lambda x: x * x),
    onnx=Missing("ONNX writes it as Mul(x, x)"),
)
sqrt = elementwise(
    "sqrt(x)",
    np.sqrt,
    partials={"x": lambda out: 0.5 / out},
    doc="The square root; NaN of a negative real number.",
    algebra=Algebra(monotone=1, range="[0, inf)"),
    samples=unary((0.2, 3.0)),
    reference=each(math.sqrt),
    onnx="Sqrt",
)
rsqrt = elementwise(
    "rsqrt(x)",
    lambda x: np.reciprocal(np.sqrt(x)),
    partials={"x": lambda out: -0.5 * out * out * out},
    doc="1 / sqrt(x).",
    algebra=Algebra(monotone=-1, range="[0, inf)"),
    samples=unary((0.2, 3.0)),
    reference=each(lambda x: x**-0.5),
    onnx=Missing("ONNX writes it as Reciprocal(Sqrt(x))"),
)
hypot = elementwise(
    "hypot(x, y)",
    np.hypot,
    partials={
        "x": lambda x, out: where_op(out == 0, 0.0, x / out),
        "y": lambda y, out: where_op(out == 0, 0.0, y / out),
    },
    accepts="real_inexact",
    doc="sqrt(x*x + y*y) without overflow on the way; its gradient at (0, 0) is 0.",
    algebra=Algebra(commutes="nearly", range="[0, inf)"),
    samples=binary((0.2, 2.0), (-2.0, -0.2)),
    reference=each(math.hypot),
    onnx=Missing("ONNX writes it as Sqrt(Add(Mul(x, x), Mul(y, y)))"),
)

# -- exponentials and logarithms

exp = elementwise(
    "exp(x)",
    np.exp,
    partials={"x": lambda out: out},
    doc="e to the power x.",
    algebra=Algebra(monotone=1, range="[0, inf)", inverse="log"),
    samples=unary((-2.0, 2.0)),
    reference=each(math.exp),
    onnx="Exp",
)
expm1 = elementwise(
    "expm1(x)",
    careful(np.expm1, complex_expm1),
    partials={"x": lambda x: exp(x)},
    doc="exp(x) - 1, accurate near 0.",
    algebra=Algebra(monotone=1, range="[-1, inf)", inverse="log1p"),
    samples=unary((-2.0, 2.0), (-1e-9, 1e-9)),
    reference=each(math.expm1),
    onnx=Missing("ONNX has no operator that is accurate near 0"),
)
log = elementwise(
    "log(x)",
    np.log,
    partials={"x": lambda x: reciprocal(x)},
    doc="The natural logarithm: -inf of 0, NaN of a negative real number.",
    algebra=Algebra(monotone=1, inverse="exp"),
    samples=unary((0.2, 3.0)),
    reference=each(math.log),
    onnx="Log",
)
log1p = elementwise(
    "log1p(x)",
    careful(np.log1p, complex_log1p),
    partials={"x": lambda x: reciprocal(1.0 + x)},
    doc="log(1 + x), accurate near 0.",
    algebra=Algebra(monotone=1, inverse="expm1"),
    samples=unary((-0.5, 2.0), (-1e-9, 1e-9)),
    reference=each(math.log1p),
    onnx=Missing("ONNX has no operator that is accurate near 0"),
)
log2 = elementwise(
    "log2(x)",
    np.log2,
    partials={"x": lambda x: reciprocal(_LN2 * x)},
    doc="The logarithm to the base 2.",
    algebra=Algebra(monotone=1),
    samples=unary((0.2, 3.0)),
    reference=each(math.log2),
    onnx=Missing("ONNX writes it as Div(Log(x), Log(2))"),
)
log10 = elementwise(
    "log10(x)",
    np.log10,
    partials={"x": lambda x: reciprocal(_LN10 * x)},
    doc="The logarithm to the base 10.",
    algebra=Algebra(monotone=1),
    samples=unary((0.2, 3.0)),
    reference=each(math.log10),
    onnx=Missing("ONNX writes it as Div(Log(x), Log(10))"),
)


def _share(x: Any, y: Any) -> Any:
    """Return exp(x) / (exp(x) + exp(y)); equal infinities share like any equal numbers."""
    return sigmoid(where_op((x == y) & (x - y != 0.0), 0.0, x - y))


logaddexp = elementwise(
    "logaddexp(x, y)",
    np.logaddexp,
    partials={"x": lambda x, y: _share(x, y), "y": lambda x, y: _share(y, x)},
    accepts="real_inexact",
    doc="log(exp(x) + exp(y)) without overflow on the way.",
    algebra=Algebra(commutes="nearly", associates=True, unit=-math.inf),
    samples=apart(),
    reference=each(lambda x, y: math.log(math.exp(x) + math.exp(y))),
    onnx=Missing("ONNX writes it as ReduceLogSumExp of both"),
)


def _sigmoid(x: Any) -> Any:
    # exp(-x) overflows to infinity only where the result is a denormal number or less, for which 0 stands here
    # (and never in a wider dtype for float16): otherwise one form is accurate on both sides.
    if x.dtype.itemsize == 2:
        return _sigmoid(x.astype(np.float32)).astype(x.dtype)
    return np.reciprocal(1.0 + np.exp(-x))


sigmoid = elementwise(
    "sigmoid(x)",
    _sigmoid,
    partials={"x": lambda out: out * (1.0 - out)},
    doc="The logistic function 1 / (1 + exp(-x)).",
    algebra=Algebra(monotone=1, range="[0, 1]"),
    samples=unary((-3.0, 3.0), (20.0, 40.0), (-40.0, -20.0)),
    reference="scipy.special.expit",
    onnx="Sigmoid",
)

# -- trigonometry

sin: Op = elementwise(
    "sin(x)",
    np.sin,
    partials={"x": lambda x: cos(x)},
    doc="The sine of an angle in radians.",
    algebra=Algebra(range="[-1, 1]", odd=True, inverse="asin"),
    samples=unary((-3.0, 3.0)),
    reference=each(math.sin),
    onnx="Sin",
)
cos: Op = elementwise(
    "cos(x)",
    np.cos,
    partials={"x": lambda x: -sin(x)},
    doc="The cosine of an angle in radians.",
    algebra=Algebra(range="[-1, 1]", even=True, inverse="acos"),
    samples=unary((-3.0, 3.0)),
    reference=each(math.cos),
    onnx="Cos",
)
tan = elementwise(
    "tan(x)",
    np.tan,
    partials={"x": lambda out: 1.0 + out * out},
    doc="The tangent of an angle in radians.",
    algebra=Algebra(odd=True, inverse="atan"),
    samples=unary((-1.2, 1.2)),
    reference=each(math.tan),
    onnx="Tan",
)


def _asin_partial(x: Any) -> Any:
    """Return 1 / sqrt(1 - x*x), factored: accurate near the ends, and on the right branch in the complex plane."""
    return reciprocal(sqrt(1.0 - x) * sqrt(1.0 + x))


asin = elementwise(
    "asin(x)",
    np.arcsin,
    partials={"x": _asin_partial},
    doc="The angle in [-pi/2, pi/2] whose sine is x.",
    algebra=Algebra(monotone=1, range="[-pi/2, pi/2]", odd=True),
    samples=unary((-0.9, 0.9)),
    reference=each(math.asin),
    onnx="Asin",
)
acos = elementwise(
    "acos(x)",
    np.arccos,
    partials={"x": lambda x: -_asin_partial(x)},
    doc="The angle in [0, pi] whose cosine is x.",
    algebra=Algebra(monotone=-1, range="[0, pi]"),
    samples=unary((-0.9, 0.9)),
    reference=each(math.acos),
    onnx="Acos",
)
atan = elementwise(
    "atan(x)",
    np.arctan,
    partials={"x": lambda x: reciprocal(1.0 + x * x)},
    doc="The angle in [-pi/2, pi/2] whose tangent is x.",
    algebra=Algebra(monotone=1, range="[-pi/2, pi/2]", odd=True),
    samples=unary((-3.0, 3.0)),
    reference=each(math.atan),
    onnx="Atan",
)


def _over_square(x: Any, y: Any) -> Any:
    """Return x / (x*x + y*y) without overflow on the way."""
    radius = hypot(x, y)
    return x / radius / radius


atan2 = elementwise(
    "atan2(y, x)",
    np.arctan2,
    partials={"y": lambda y, x: _over_square(x, y), "x": lambda y, x: -_over_square(y, x)},
    accepts="real_inexact",
    doc="The angle in [-pi, pi] of the point (x, y); the sign of zeros tells sides apart.",
    algebra=Algebra(range="[-pi, pi]"),
    samples=binary((0.2, 2.0), (-2.0, 2.0)),
    reference=each(math.atan2),
    onnx=Missing("ONNX has no operator that knows all four quadrants"),
)

# -- hyperbolic functions

sinh: Op = elementwise(
    "sinh(x)",
    np.sinh,
    partials={"x": lambda x: cosh(x)},
    doc="The hyperbolic sine.",
    algebra=Algebra(monotone=1, odd=True, inverse="asinh"),
    samples=unary((-2.0, 2.0)),
    reference=each(math.sinh),
    onnx="Sinh",
)
cosh: Op = elementwise(
    "cosh(x)",
    np.cosh,
    partials={"x": lambda x: sinh(x)},
    doc="The hyperbolic cosine.",
    algebra=Algebra(range="[1, inf)", even=True, inverse="acosh"),
    samples=unary((-2.0, 2.0)),
    reference=each(math.cosh),
    onnx="Cosh",
)
tanh = elementwise(
    "tanh(x)",
    np.tanh,
    partials={"x": lambda out: 1.0 - out * out},
    doc="The hyperbolic tangent.",
    algebra=Algebra(monotone=1, range="[-1, 1]", odd=True, inverse="atanh"),
    samples=unary((-2.0, 2.0)),
    reference=each(math.tanh),
    onnx="Tanh",
)
asinh = elementwise(
    "asinh(x)",
    np.arcsinh,
    # Not the root of 1 + x * x, which leaves the range of half precision from 256 on.
    partials={"x": lambda x: reciprocal(hypot(x, 1.0)) if x.dtype.kind != "c" else rsqrt(1.0 + x * x)},
    doc="The number whose hyperbolic sine is x.",
    algebra=Algebra(monotone=1, odd=True, inverse="sinh"),
    samples=unary((-3.0, 3.0)),
    reference=each(math.asinh),
    onnx="Asinh",
)
acosh = elementwise(
    "acosh(x)",
    np.arccosh,
    partials={"x": lambda x: reciprocal(sqrt(x - 1.0) * sqrt(x + 1.0))},
    doc="The number at least 0 whose hyperbolic cosine is x; NaN below 1.",
    algebra=Algebra(monotone=1, range="[0, inf)"),
    samples=unary((1.2, 3.0)),
    reference=each(math.acosh),
    onnx="Acosh",
)
atanh = elementwise(
    "atanh(x)",
    np.arctanh,
    partials={"x": lambda x: reciprocal((1.0 - x) * (1.0 + x))},
    doc="The number whose hyperbolic tangent is x.",
    algebra=Algebra(monotone=1, odd=True, inverse="tanh"),
    samples=unary((-0.9, 0.9)),
    reference=each(math.atanh),
    onnx="Atanh",
)

# -- parts of complex numbers

conj: Op = elementwise(
    "conj(x)",
    lambda x: np.conjugate(x) if x.dtype.kind == "c" else x,
    partials={"x": Linear(lambda ct: TABLE["conj"](ct))},
    accepts="numeric",
    doc="The complex conjugate; a real number itself.",
    algebra=Algebra(involution=True),
    samples=unary((-2.0, 2.0)),
    reference=each(lambda x: complex(x).conjugate().real),
    onnx=Missing("ONNX operators take no complex numbers"),
)
real = elementwise(
    "real(x)",
    lambda x: x.real if x.dtype.kind == "c" else x,
    partials={"x": Linear(lambda ct, x_dtype: _as_dtype(ct, x_dtype))},
    accepts="numeric",
    view=True,
    result="magnitude",
    doc="The real part.",
    algebra=Algebra(idempotent=True),
    samples=and_complex(unary((-2.0, 2.0))),
    reference=each(lambda x: complex(x).real),
    onnx=Missing("ONNX operators take no complex numbers"),
    role=Role.STRIDE,
)


def _imag_transpose(ct: Any, x_dtype: DType) -> Any:
    return 1j * _as_dtype(ct, x_dtype) if x_dtype.kind == "c" else where_op(NOWHERE, ct, 0.0)


imag = elementwise(
    "imag(x)",
    lambda x: x.imag if x.dtype.kind == "c" else np.zeros_like(x),
    partials={"x": Linear(_imag_transpose)},
    accepts="numeric",
    view=True,
    result="magnitude",
    doc="The imaginary part; of a real number 0.",
    samples=and_complex(unary((-2.0, 2.0))),
    reference=each(lambda x: complex(x).imag),
    onnx=Missing("ONNX operators take no complex numbers"),
    role=Role.STRIDE,
    dependence="imaginary",
)
# NumPy and PyTorch write x.real, not x.real().
METHODS["real"] = property(real.front)  # type: ignore[assignment]
METHODS["imag"] = property(imag.front)  # type: ignore[assignment]

# -- identities

copy = elementwise(
    "copy(x)",
    np.array,
    partials={"x": _same},
    accepts="anything",
    public="clone",
    home="torch",
    doc="A copy of x through which gradients flow.",
    algebra=Algebra(monotone=1, odd=True, idempotent=True),
    samples=unary((-2.0, 2.0)),
    reference=each(float),
    onnx="Identity",
)
stop_gradient = elementwise(
    "stop_gradient(x)",
    lambda x: x,
    accepts="anything",
    method=False,
    doc="x as a constant: gradients do not flow through it.",
    algebra=Algebra(monotone=1, odd=True, idempotent=True),
    samples=unary((-2.0, 2.0), order=0),
    reference=each(float),
    onnx="Identity",
    role=Role.PASS,
)

# PyTorch's names.
for _alias, _op in {
    "sub": subtract,
    "mul": multiply,
    "div": divide,
    "true_divide": divide,
    "neg": negative,
}.items():
    METHODS[_alias] = _op.front
