"""Elementwise functions with PyTorch's names, parameters and meaning."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import DTypeError, fail
from ...core.ops.operands import max_category, promote_tensors, wrapped
from ...core.spec import category, complex128, default_float, float64, int64
from ...core.tensor import Tensor as Plain
from ...ops.index.inplace import update
from ...ops.special.quotients import sine_ratio_op
from .. import return_types
from ..dtypes import dtype_named
from ..namespace import FUNCTIONS, all_placed, function, give, in_place, method, placed, tensor_of
from ..tensor import Tensor

# Rather an inner function for each than one that looks its table up: a call is one call more than Wengert's own.


def named(run: Any, name: str, doc: str) -> Any:
    """Return a function under a name, with a docstring."""
    run.__name__ = run.__qualname__ = name
    run.__doc__ = doc
    return run


def of_one(fn: Callable[[Any], Any]) -> Any:
    """Return PyTorch's function of one tensor."""

    def run(input: Any, *, out: Any = None) -> Any:
        made = placed(fn(input))
        return made if out is None else give(out, made)

    return run


def of_two(fn: Callable[[Any, Any], Any]) -> Any:
    """Return PyTorch's function of two tensors."""

    def run(input: Any, other: Any, *, out: Any = None) -> Any:
        made = placed(fn(input, other))
        return made if out is None else give(out, made)

    return run


def declare(made: Callable[..., Any], table: dict[str, Callable[..., Any]], parameters: str) -> None:
    """Declare functions by a table of their names, several where the key has several, through one kind of front.

    A method of one tensor that Wengert's tensors have under that name means the same, and stays.
    """
    for names, fn in table.items():
        for name in names.split():
            run = named(made(fn), name, f"Return `{name}` of each element. Parameters are `{parameters}` and `out`.")
            function(method=made is not of_one or not hasattr(Plain, name))(run)


# -- of one tensor


def _sign(x: Any) -> Any:
    x = tensor_of(x)
    if x.dtype.kind == "b":
        return x.clone()
    return wg.sign(wg.where(wg.isnan(x), 0, x) if category(x.dtype) == 2 else x)  # of NaN it is 0


def _signbit(x: Any) -> Any:
    x = tensor_of(x)
    return wg.signbit(x) if category(x.dtype) == 2 else x < 0


def _frac(x: Any) -> Any:
    return x - wg.trunc(x)


def _sinc(x: Any) -> Any:
    return sine_ratio_op.front(tensor_of(x) * math.pi, n=0)


def masked_at_zero(fn: Callable[[Any, Any], Any], pole: float) -> Callable[[Any, Any], Any]:
    """Return x log(y), or x log1p(y), without a gradient in x at x = 0 from the logarithm's pole on, as in PyTorch."""

    def run(x: Any, y: Any) -> Any:
        x, y = promote_tensors(fn.__name__, x, y)
        # Where all logarithms are finite there is nothing to mask.
        if x.is_abstract or y.is_abstract or (x.requires_grad and bool((y.detach() <= pole).any())):
            x = wg.where((x == 0) & (y <= pole), x.detach(), x)
        return fn(x, y)

    return run


def _angle(x: Any) -> Any:
    x = tensor_of(x)
    if x.dtype.kind == "c":
        known = wg.where(x == 0, 1.0, x)
        return wg.where(x == 0, 0.0, wg.atan2(wg.imag(known), wg.real(known)))
    if category(x.dtype) < 2:
        x = x.astype(default_float())
    return wg.where(x < 0, math.pi, wg.sign(x) * 0.0)  # NaN stays NaN


def _conj(x: Any) -> Any:
    x = tensor_of(x)
    return wg.conj(x) if x.dtype.kind == "c" else x


def _real(x: Any) -> Any:
    x = tensor_of(x)
    return wg.real(x) if x.dtype.kind == "c" else x


def _imag(x: Any) -> Any:
    x = tensor_of(x)
    if x.dtype.kind != "c":
        fail(DTypeError, f"imag() of {x.spec}, which is real", "Only complex tensors have imaginary parts.")
    return wg.imag(x)


def _isreal(x: Any) -> Any:
    x = tensor_of(x)
    return wg.imag(x) == 0 if x.dtype.kind == "c" else wg.ones_like(x, dtype=wg.bool)


def _infinite(sign: int) -> Callable[[Any], Any]:
    return lambda x: tensor_of(x) == sign * math.inf if category(tensor_of(x).dtype) == 2 else tensor_of(x) != x


def float_of(x: Any) -> Any:
    """Return a tensor of numbers with fractions: integers and booleans in the default dtype."""
    x = tensor_of(x)
    return x if x.spec.inexact else x.astype(default_float())


declare(
    of_one,
    {
        "abs absolute": wg.abs,
        "acos arccos": wg.acos,
        "acosh arccosh": wg.acosh,
        "angle": _angle,
        "asin arcsin": wg.asin,
        "asinh arcsinh": wg.asinh,
        "atan arctan": wg.atan,
        "atanh arctanh": wg.atanh,
        "bitwise_not": wg.bitwise_invert,
        "ceil": wg.ceil,
        "conj conj_physical": _conj,
        "cos": wg.cos,
        "cosh": wg.cosh,
        "deg2rad": lambda x: float_of(x) * (math.pi / 180),
        "digamma": wg.special.digamma,
        "erf": wg.special.erf,
        "erfc": wg.special.erfc,
        "erfinv": wg.special.erfinv,
        "exp": wg.exp,
        "exp2": lambda x: wg.pow(2.0, float_of(x)),
        "expm1": wg.expm1,
        "floor": wg.floor,
        "frac": _frac,
        "i0": wg.special.i0,
        "imag": _imag,
        "isfinite": wg.isfinite,
        "isinf": wg.isinf,
        "isnan": wg.isnan,
        "isneginf": _infinite(-1),
        "isposinf": _infinite(1),
        "isreal": _isreal,
        "lgamma": wg.special.lgamma,
        "log": wg.log,
        "log10": wg.log10,
        "log1p": wg.log1p,
        "log2": wg.log2,
        "logical_not": wg.logical_not,
        "neg negative": wg.negative,
        "positive": wg.positive,
        "rad2deg": lambda x: float_of(x) * (180 / math.pi),
        "real": _real,
        "reciprocal": wg.reciprocal,
        "relu": wg.relu,
        "rsqrt": wg.rsqrt,
        "sigmoid": wg.sigmoid,
        "sign sgn": _sign,
        "signbit": _signbit,
        "sin": wg.sin,
        "sinc": _sinc,
        "sinh": wg.sinh,
        "sqrt": wg.sqrt,
        "square": wg.square,
        "tan": wg.tan,
        "tanh": wg.tanh,
        "trunc fix": wg.trunc,
    },
    "input",
)
for _name in ("sign", "signbit", "conj", "real", "imag"):
    setattr(Tensor, _name, FUNCTIONS[_name])
for _name in ("real", "imag"):  # which are no calls: x.real
    _plain: Any = getattr(wg.Tensor, _name)
    setattr(Tensor, _name, property(FUNCTIONS[_name], _plain.fset))


@function()
def resolve_conj(input: Any) -> Tensor:
    """Return the tensor itself: conjugates are computed, not marked."""
    return tensor_of(input)


function()(named(lambda input: tensor_of(input), "resolve_neg", "Return the tensor itself: negatives are computed."))


@function()
def positive(input: Any) -> Tensor:
    """Return the tensor itself. Raises DTypeError for booleans, as `+x` does."""
    x = tensor_of(input)
    if x.spec.dtype.kind == "b":
        fail(DTypeError, f"positive of a boolean tensor, {x.spec}", "Booleans have no sign.")
    return x


Tensor.__pos__ = positive  # type: ignore[method-assign]


# -- of two tensors, or a tensor and a number


def _fmax(x: Any, y: Any) -> Any:
    x, y = _pair(x, y)
    return wg.where((x >= y) | wg.isnan(y), x, y)


def _fmin(x: Any, y: Any) -> Any:
    x, y = _pair(x, y)
    return wg.where((x <= y) | wg.isnan(y), x, y)


class IntegerDivisionError(DTypeError, RuntimeError, ZeroDivisionError):
    """An error for integers divided by 0, which in PyTorch is a RuntimeError."""


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Return two operands as tensors, a number as one of the other's category at least."""
    return tensor_of(x), tensor_of(y) if isinstance(y, Plain) else tensor_of(wg.asarray(y))


def _fmod(x: Any, y: Any) -> Any:
    """Return the remainder with the sign of `x`."""
    _no_zero(y, x)
    x = tensor_of(x)
    kind = y.dtype.kind if isinstance(y, Plain) else {bool: "b", int: "u"}.get(type(y), "f")
    if x.dtype.kind == "b" and kind != "b":
        x = x.to(y.dtype if isinstance(y, Plain) else int64)
    if x.dtype.kind in "bu" and kind in "bu":
        return wg.remainder(x, y)  # a number takes the dtype first, modulo its range
    size = y if kind == "b" else abs(y)
    return wg.where(x < 0, -wg.remainder(-x, size), wg.remainder(x, size))


def _remainder(x: Any, y: Any) -> Any:
    _no_zero(y, x)
    return wg.remainder(x, y)


def _no_zero(y: Any, x: Any) -> None:
    """Raise ZeroDivisionError's like, as PyTorch, for integers by 0, where the divisor can be seen."""
    integral = all(category(v.dtype) < 2 if isinstance(v, Plain) else isinstance(v, int) for v in (x, y))
    if not integral or (isinstance(y, Plain) and y.is_abstract):
        return
    if (y == 0).any() if isinstance(y, Plain) else y == 0:
        fail(
            IntegerDivisionError,
            "ZeroDivisionError: integers divided by 0",
            "Divide floating numbers, or wg.where it away.",
        )


def _dividing(name: str, swapped: bool = False) -> None:
    """Have an operator of whole quotients refuse integers divided by 0, as the functions do."""
    plain = getattr(Plain, f"__{name}__")

    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, (Plain, int)):
            _no_zero(*((self, other) if swapped else (other, self)))
        found = plain(self, other)
        return found if found is NotImplemented else placed(found)

    operator.__name__ = operator.__qualname__ = f"__{name}__"
    setattr(Tensor, f"__{name}__", operator)


for _name in ("floordiv", "mod", "ifloordiv", "imod"):
    _dividing(_name)
for _name in ("rfloordiv", "rmod"):
    _dividing(_name, swapped=True)


def _floats(name: str, x: Any, y: Any) -> list[Plain]:
    """Return two operands in the floating dtype that they have in common, the default one for integers."""
    return [float_of(v) for v in promote_tensors(name, x, y)]


def _euclid(x: Any, y: Any) -> Any:
    """Return the greatest common divisor by Euclid's steps, all elements at once."""
    x, y = promote_tensors("gcd", x, y)
    if category(x.dtype) != 1:
        fail(DTypeError, f"gcd of {x.spec} and {y.spec}", "Only integers have common divisors.")
    x, y = wg.broadcast_arrays(x + y * 0, y + x * 0)

    def step(pair: Any) -> Any:
        a, b = pair
        done = b == 0
        return wg.where(done, a, b), wg.where(done, 0, wg.remainder(a, wg.where(done, 1, b)))

    found, _ = wg.while_loop(lambda pair: (pair[1] != 0).any(), step, (wg.abs(x), wg.abs(y)))
    return found


def _lcm(x: Any, y: Any) -> Any:
    x, y = promote_tensors("lcm", x, y)
    divisor = _euclid(x, y)
    return wg.abs(wg.floor_divide(x, wg.where(divisor == 0, 1, divisor)) * y)


def _logaddexp2(x: Any, y: Any) -> Any:
    x, y = _floats("logaddexp2", x, y)
    two = math.log(2.0)
    return wg.logaddexp(x * two, y * two) / two


def _ldexp(x: Any, y: Any) -> Any:
    x, y = _floats("ldexp", x, y)
    return x * wg.pow(2.0, y)


def _heaviside(x: Any, values: Any) -> Any:
    x, values = tensor_of(x), tensor_of(values)
    return wg.where(x == 0, values, (x > 0).astype(x.dtype))


def _copysign(x: Any, y: Any) -> Any:
    return wg.copysign(*_floats("copysign", x, y))


def _atan2(x: Any, y: Any) -> Any:
    """Return the angle of (y, x). At the origin PyTorch's derivative is 0, where :func:`wengert.atan2` has none."""
    x, y = _floats("atan2", x, y)
    origin = (x == 0) & (y == 0)
    return wg.where(origin, wg.atan2(x.detach(), y.detach()), wg.atan2(x, wg.where(origin, 1.0, y)))


declare(
    of_two,
    {
        "atan2 arctan2": _atan2,
        "bitwise_and": wg.bitwise_and,
        "bitwise_left_shift": wg.bitwise_left_shift,
        "bitwise_or": wg.bitwise_or,
        "bitwise_right_shift": wg.bitwise_right_shift,
        "bitwise_xor": wg.bitwise_xor,
        "copysign": _copysign,
        "eq": wg.equal,
        "floor_divide": lambda x, y: FUNCTIONS["div"](x, y, rounding_mode="floor"),
        "fmax": _fmax,
        "fmin": _fmin,
        "fmod": _fmod,
        "gcd": _euclid,
        "ge greater_equal": wg.greater_equal,
        "gt greater": wg.greater,
        "hypot": wg.hypot,
        "igamma": wg.special.gammainc,
        "igammac": wg.special.gammaincc,
        "lcm": _lcm,
        "ldexp": _ldexp,
        "le less_equal": wg.less_equal,
        "logaddexp": wg.logaddexp,
        "logaddexp2": _logaddexp2,
        "logical_and": wg.logical_and,
        "logical_or": wg.logical_or,
        "logical_xor": wg.logical_xor,
        "lt less": wg.less,
        "maximum": wg.maximum,
        "minimum": wg.minimum,
        "mul multiply": wg.multiply,
        "ne not_equal": wg.not_equal,
        "nextafter": wg.nextafter,
        "remainder": _remainder,
        "xlogy": masked_at_zero(wg.special.xlogy, 0.0),
    },
    "input, other",
)


@function(out=True, factors=("alpha",))
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """Return `input + alpha * other`.

    >>> import wengert.torch as torch
    >>> torch.add(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), alpha=10)
    tensor([31., 42.])
    """
    if type(alpha) is int and alpha == 1:
        return placed(wg.add(input, other))
    return placed(rounded_once(lambda x, y, a: wg.add(*_scaled("add", x, y, a)), input, other, factor=alpha))


@function("subtract", out=True, factors=("alpha",))
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """Return `input - alpha * other`."""
    if type(alpha) is int and alpha == 1:
        return placed(wg.subtract(input, other))
    return placed(rounded_once(lambda x, y, a: wg.subtract(*_scaled("sub", x, y, a)), input, other, factor=alpha))


@function()
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """Return `other - alpha * input`."""
    if type(alpha) is int and alpha == 1:
        return placed(wg.subtract(other, input))
    return placed(rounded_once(lambda x, y, a: wg.subtract(*_scaled("rsub", x, y, a)), other, input, factor=alpha))


def rounded_once(compute: Callable[..., Any], *operands: Any, factor: Any = None) -> Any:
    """Return a function of operands; of tensors that are all float16, or all bfloat16, computed in float32.

    PyTorch's kernels of several operations round their result alone. A `factor`, which the function is given last, they
    round to the dtype before.
    """
    last = () if factor is None else (factor,)
    dtypes = {x.spec.dtype for x in operands if isinstance(x, Plain)}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtype is None or dtype.itemsize != 2 or dtype.kind not in "fV":
        return compute(*operands, *last)
    wide = (x.astype(wg.float32) if isinstance(x, Plain) else x for x in operands)
    return compute(*wide, *(_rounded(f, dtype) for f in last)).astype(dtype)


def _rounded(factor: Any, dtype: Any) -> float:
    """Return a factor rounded to a dtype. One that is too large for it stays: PyTorch refuses it."""
    with np.errstate(over="ignore"):
        found = float(np.asarray(factor).astype(dtype))
    return float(factor) if math.isinf(found) else found


# By the type of a factor, the kinds of dtypes that it may scale as it is.
_SCALED_BY = {int: "iufVc", float: "fVc"}


def _scaled(name: str, x: Any, y: Any, factor: Any) -> tuple[Any, Any]:
    """Return `x` and `factor * y`, which has the dtype that the two have in common without the factor.

    Raises DTypeError for a factor of a greater kind of numbers than that dtype's.
    """
    if type(factor) is int and factor == 1:
        return x, y
    if isinstance(y, Plain) and isinstance(x, Plain) and x.spec.dtype is y.spec.dtype:
        kinds = _SCALED_BY.get(type(factor))
        if kinds and y.spec.dtype.kind in kinds:
            return x, y * factor
    dtype = promote_tensors(name, x, y)[0].dtype
    kind = max_category([factor])
    if kind > max(category(dtype), 1) or (type(factor) is bool and category(dtype)):
        fail(
            DTypeError,
            f"{name}: a factor of {factor!r} for a result of dtype {dtype}",
            "It is of the kind of numbers of the result.",
        )
    if dtype.kind == "b":
        return x, y & bool(factor)
    if isinstance(y, Plain):
        y = y.astype(dtype if y.ndim else wg.promote_types(y.dtype, dtype))
    return x, y * factor


@function("divide", "true_divide", out=True)
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Return `input / other`, as it is or rounded by `rounding_mode`: "trunc" (toward 0) or "floor".

    Rounded quotients of integers are integers. Raises ValueError for another mode, DTypeError for such by 0.

    >>> import wengert.torch as torch
    >>> torch.div(torch.tensor([-7, 7]), 2, rounding_mode="trunc")
    tensor([-3,  3])
    """
    if rounding_mode is None:
        return placed(wg.divide(input, other))
    if rounding_mode not in ("floor", "trunc"):
        raise ValueError(f'div: rounding_mode must be None, "trunc" or "floor", not {rounding_mode!r}')
    if isinstance(input, Plain):
        other = wrapped(other, input.spec.dtype)
    _no_zero(other, input)
    if rounding_mode == "floor":
        return placed(wg.floor_divide(input, other))
    x, y = wg.broadcast_arrays(*_pair(input, other))
    if x.spec.inexact or y.spec.inexact:
        return placed(wg.trunc(wg.divide(input, other)))
    below = wg.floor_divide(input, other)
    return placed(below + ((wg.remainder(input, other) != 0) & ((x < 0) != (y < 0))).astype(below.dtype))


@function(out=True)
def pow(input: Any, exponent: Any) -> Tensor:
    """Return `input ** exponent`; one of them may be a number."""
    return placed(wg.pow(input, exponent))


@function(out=True)
def float_power(input: Any, exponent: Any) -> Tensor:
    """Return `input ** exponent`, computed in float64 or complex128."""
    many = [v for v in (input, exponent) if isinstance(v, Plain)]
    imaginary = any(category(v.dtype) == 3 for v in many) or any(
        isinstance(v, complex) for v in (input, exponent) if not isinstance(v, Plain)
    )
    dtype = complex128 if imaginary else float64
    base, power = (v.astype(dtype) if isinstance(v, Plain) else v for v in (input, exponent))
    return placed(wg.pow(base, power))


@function("clip", out=True)
def clamp(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """Return `input`, but at least `min` and at most `max`: numbers, tensors, or None for no bound.

    >>> import wengert.torch as torch
    >>> torch.tensor([-2.0, 0.5, 3.0]).clamp(0, 1)
    tensor([0. , 0.5, 1. ])
    """
    if min is None and max is None:
        fail(DTypeError, "clamp() without a bound", "At least one of min and max must be given.")
    return placed(wg.clip(input, min, max))


@function(out=True)
def clamp_min(input: Any, min: Any) -> Tensor:
    """Return `input`, but at least `min`."""
    if isinstance(min, Plain) and min.dtype.kind == tensor_of(input).dtype.kind == "b":
        return placed(wg.maximum(input, min))
    return placed(wg.clip(input, min, None))


@function(out=True)
def clamp_max(input: Any, max: Any) -> Tensor:
    """Return `input`, but at most `max`."""
    if isinstance(max, Plain) and max.dtype.kind == tensor_of(input).dtype.kind == "b":
        return placed(wg.minimum(input, max))
    return placed(wg.clip(input, None, max))


@function(out=True, factors=("value",))
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """Return `input + value * tensor1 * tensor2`. For integers the value is one, cut towards 0."""
    if isinstance(value, float) and not any(category(tensor_of(x).dtype) > 1 for x in (input, tensor1, tensor2)):
        value = int(value)
    return placed(rounded_once(lambda x, a, b: wg.add(*_scaled("addcmul", x, a * b, value)), input, tensor1, tensor2))


@function(out=True, factors=("value",))
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """Return `input + value * tensor1 / tensor2`."""
    return placed(rounded_once(lambda x, a, b: wg.add(*_scaled("addcdiv", x, a / b, value)), input, tensor1, tensor2))


@function(out=True)
def lerp(input: Any, end: Any, weight: Any) -> Tensor:
    """Return `input + weight * (end - input)`, which is exactly `end` where the weight is 1."""
    return placed(rounded_once(_between, input, end, weight))


def _between(input: Any, end: Any, weight: Any) -> Any:
    from_start, from_end = input + weight * (end - input), end - (end - input) * (1 - weight)
    near = abs(weight) < 0.5
    if not isinstance(weight, Plain):
        return from_start if near else from_end
    return wg.where(near, from_start, from_end)


@function(out=True)
def round(input: Any, *, decimals: int = 0) -> Tensor:
    """Return the nearest whole numbers, halves to even, or the nearest with so many decimals.

    >>> import wengert.torch as torch
    >>> torch.round(torch.tensor([2.5, 0.126]), decimals=2)
    tensor([2.5 , 0.13])
    """
    if decimals == 0 or category(tensor_of(input).dtype) < 2:
        return placed(wg.round(input))
    ten = 10.0 ** abs(decimals)
    return placed(wg.round(input * ten) / ten if decimals > 0 else wg.round(input / ten) * ten)


@function(out=True)
def frexp(input: Any) -> Any:
    """Return `(mantissa, exponent)` with `mantissa * 2 ** exponent` the input, and the mantissa in [0.5, 1)."""
    x = tensor_of(input)
    if category(x.dtype) != 2:
        fail(DTypeError, f"frexp of {x.spec}", "Only floating numbers have a mantissa.")
    plain = (x != 0) & wg.isfinite(x)
    size = wg.abs(wg.where(plain, x, 1.0)).detach().astype(float64)
    exponent = wg.floor(wg.log2(size)) + 1
    scale = _power_of_two(-exponent, size)
    high = (size * scale[0] * scale[1] >= 1).astype(float64)
    low = (size * scale[0] * scale[1] < 0.5).astype(float64)
    exponent = wg.where(plain, exponent + high - low, 0.0)
    first, second = _power_of_two(-exponent, size)
    mantissa = (x.astype(float64) * first * second).astype(x.dtype)
    return all_placed(return_types.frexp(wg.where(plain, mantissa, x), exponent.astype(wg.int32)))


def _power_of_two(exponent: Any, like: Any) -> tuple[Any, Any]:
    """Return two factors that together are 2 ** exponent: one alone may leave the range."""
    half = wg.floor(exponent / 2)
    return wg.pow(2.0, half), wg.pow(2.0, exponent - half)


@function(out=True)
def nan_to_num(input: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Return the elements, with numbers for NaN and the infinities: by default 0 and the largest of the dtype."""
    x = tensor_of(input)
    if not x.spec.inexact:
        return x.clone()  # type: ignore[return-value]
    if x.dtype.kind == "c":
        parts = (nan_to_num(part, nan, posinf, neginf) for part in (wg.real(x), wg.imag(x)))
        return placed(FUNCTIONS["complex"](*parts))
    top = float(wg.finfo(x.dtype).max)
    given = {math.inf: top if posinf is None else posinf, -math.inf: -top if neginf is None else neginf}
    out = wg.where(wg.isnan(x), 0.0 if nan is None else nan, x)
    for found, instead in given.items():
        out = wg.where(x == found, instead, out)
    return placed(out)


@function(out=True)
def logit(input: Any, eps: float | None = None) -> Tensor:
    """Return log(x / (1 - x)); with `eps` of the elements clamped between it and 1 - eps."""
    x = float_of(input)
    return placed(wg.special.logit(x if eps is None else wg.clip(x, eps, 1 - eps)))


function(out=True)(
    named(lambda input, values: placed(_heaviside(input, values)), "heaviside", "Return 0 below 0, 1 above it.")
)


@function(out=True)
def mvlgamma(input: Any, p: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension `p`."""
    x = float_of(input)
    total = p * (p - 1) / 4 * math.log(math.pi)
    parts = [wg.special.lgamma(x - j / 2) for j in range(p)]
    return placed(sum(parts[1:], parts[0]) + total)


@function(method=False, out=True)
def polygamma(n: int, input: Any) -> Tensor:
    """Return the derivative of order `n` of the digamma function."""
    return placed(wg.special.polygamma(n, input))


def _polygamma(self: Tensor, n: int) -> Tensor:
    return polygamma(n, self)


method()(named(_polygamma, "polygamma", "Return the derivative of order `n` of the digamma function."))


@function(out=True, method=False)
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Return the elements of `input` where `condition` holds and of `other` elsewhere.

    Of the condition alone: the indices of the elements that are not 0, a tensor for each axis. Raises DTypeError for a
    condition that is not boolean.

    >>> import wengert.torch as torch
    >>> x = torch.tensor([-1.0, 2.0])
    >>> torch.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if input is None and other is None:
        found = tensor_of(condition)
        return all_placed(wg.nonzero(found if found.ndim else found.reshape((1,))))
    if isinstance(condition, Plain) and condition.dtype.kind == "u":
        condition = condition != 0
    return placed(wg.where(condition, input, other))


def _where(self: Tensor, condition: Any, other: Any) -> Any:
    return where(condition, self, other)


method()(named(_where, "where", "Return the tensor's elements where `condition` holds and those of `other` elsewhere."))


# -- what a tensor is


@function(method=False)
def is_tensor(obj: Any) -> bool:
    """Return whether `obj` is a tensor."""
    return isinstance(obj, Plain)


@function(method=False)
def is_complex(input: Any) -> bool:
    """Return whether the tensor's dtype is complex."""
    return category(input.dtype) == 3


@function(method=False)
def is_floating_point(input: Any) -> bool:
    """Return whether the tensor's dtype is real floating."""
    return category(input.dtype) == 2


@function(method=False)
def numel(input: Any) -> int:
    """Return the number of elements."""
    return int(input.numel())


@function()
def is_nonzero(input: Any) -> bool:
    """Return whether the one element of a tensor is not 0. Raises ShapeError where there is not one."""
    return bool(tensor_of(input).reshape(()) != 0)


@function(method=False)
def result_type(tensor1: Any, tensor2: Any) -> Any:
    """Return the dtype that an operation on two tensors, or a tensor and a number, computes in."""
    if not isinstance(tensor1, Plain) and not isinstance(tensor2, Plain):
        return dtype_named(wg.result_type(default_float() if isinstance(tensor1, float) else tensor1, tensor2))
    return dtype_named(promote_tensors("result_type", tensor1, tensor2)[0].spec.dtype)


for _name in ("is_same_size", "is_signed", "is_inference"):
    function(method=False)(getattr(Tensor, _name))
for _name, _doc in {
    "is_conj": "Return False: conjugates are computed, not marked.",
    "is_neg": "Return False: negatives are computed, not marked.",
}.items():
    function()(named(lambda input: False, _name, _doc))


# -- in place

for _names in (
    "absolute acos acosh addcdiv addcmul arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2",
    "atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor clip conj_physical",
    "copysign cos cosh deg2rad digamma div divide eq erf erfc erfinv exp2 expm1 fix float_power floor_divide fmod",
    "frac gcd ge greater greater_equal gt heaviside hypot i0 igamma igammac lcm ldexp le less less_equal lgamma log10",
    "log1p log2 logical_and logical_not logical_or logical_xor logit lt multiply mvlgamma nan_to_num ne negative",
    "nextafter not_equal polygamma rad2deg round sgn sign sin sinc sinh subtract tan true_divide trunc xlogy",
):
    for _name in _names.split():
        in_place(_name)


@method()
def lerp_(self: Tensor, end: Any, weight: Any) -> Tensor:
    """Give the tensor `self + weight * (end - self)`, as :func:`lerp` computes it, and return it."""
    if type(weight) is float and abs(weight) < 0.5 and self.spec.dtype.itemsize > 2:
        return Plain.lerp_(self, end, weight)  # type: ignore[return-value]
    return update(self, "lerp_", lambda old: lerp(old, end, weight))  # type: ignore[return-value]


def _summing(name: str) -> None:
    """Give a sum its method that writes: the plain one, but for a factor."""
    compute, plain = FUNCTIONS[name], getattr(Plain, f"{name}_")

    def run(self: Tensor, other: Any, *more: Any, alpha: Any = 1) -> Tensor:
        if not more:
            if type(alpha) is int and alpha == 1:
                return plain(self, other)  # type: ignore[no-any-return]
            kinds = _SCALED_BY.get(type(alpha))
            if (
                kinds
                and isinstance(other, Plain)
                and other.spec.dtype is self.spec.dtype
                and self.spec.dtype.kind in kinds
                and (self.spec.dtype.itemsize > 2 or self.spec.dtype.kind in "iu")  # see `rounded_once`
            ):
                return plain(self, other, alpha=alpha)  # type: ignore[no-any-return]
        return update(self, f"{name}_", lambda old: compute(old, other, *more, alpha=alpha))  # type: ignore[return-value]

    run.__doc__ = plain.__doc__
    run.__name__ = run.__qualname__ = f"{name}_"
    setattr(Tensor, f"{name}_", run)


for _name in ("add", "sub"):
    _summing(_name)


@method()
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Give the tensor the values of `src`, which broadcasts to it and is cast to its dtype, and return it."""
    return Plain.copy_(self, src)  # type: ignore[return-value]


def _drawn(x: Tensor, name: str, of: Callable[[Any], Any], generator: Any) -> Tensor:
    """Give `x` what `of` makes of numbers drawn evenly from [0, 1). Returns it."""
    given = {"generator": generator} if generator is not None else {}
    dtype = x.dtype if category(x.dtype) == 2 else default_float()
    drawn = wg.rand(tuple(x.shape), dtype=dtype, **given)
    return update(x, name, lambda old: of(drawn).astype(old.dtype))  # type: ignore[return-value]


@method()
def exponential_(self: Tensor, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Fill the tensor with numbers drawn from the exponential distribution of rate `lambd`, and return it."""
    return _drawn(self, "exponential_", lambda u: -wg.log1p(-u) / lambd, generator)


@method()
def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Fill the tensor with numbers drawn from a Cauchy distribution, and return it."""
    return _drawn(self, "cauchy_", lambda u: median + sigma * wg.tan(math.pi * (u - 0.5)), generator)


@method()
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill the tensor with how many tries of probability `p` the first success takes, and return it."""
    return _drawn(self, "geometric_", lambda u: wg.floor(wg.log1p(-u) / math.log1p(-p)) + 1, generator)


@method()
def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Fill the tensor with exp of normal numbers of this mean and standard deviation, and return it."""
    given = {"generator": generator} if generator is not None else {}
    drawn = wg.randn(tuple(self.shape), dtype=self.dtype, **given)
    return update(self, "log_normal_", lambda old: wg.exp(mean + std * drawn))  # type: ignore[return-value]


def _most(dtype: Any) -> int:
    """Return one more than the largest integer up to which a dtype holds all."""
    if category(dtype) == 2:
        return int(2 / wg.finfo(dtype).eps) + 1
    return 2 if dtype.kind == "b" else int(wg.iinfo(dtype).max)


@method()
def random_(self: Tensor, *bounds: Any, to: Any = None, generator: Any = None, **named: Any) -> Tensor:
    """Fill the tensor with integers drawn evenly, and return it: below `to`, or from the first number to the second.

    Without bounds they are all that the dtype holds exactly and that are not negative.
    """
    start, end = (0, *bounds) if len(bounds) == 1 else bounds if bounds else (named.pop("from", 0), to)
    if end is None:
        end = _most(self.dtype)
    given = {"generator": generator} if generator is not None else {}
    drawn = wg.randint(int(start), int(end), tuple(self.shape), **given)
    return update(self, "random_", lambda old: drawn.astype(old.dtype))  # type: ignore[return-value]


@method()
def uniform_(self: Tensor, *bounds: Any, to: float = 1, generator: Any = None, **named: Any) -> Tensor:
    """Fill the tensor with numbers drawn evenly from the first bound (0) to the second (1), and return it."""
    start = bounds[0] if bounds else named.pop("from", 0)
    end = bounds[1] if len(bounds) > 1 else to
    return _drawn(self, "uniform_", lambda u: start + (end - start) * u, generator)
