"""Operators that work by element, with broadcasting."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

import wengert as wg

from ....core.spec import category
from ....core.tensor import Tensor
from ..errors import refuse
from ..registry import operator
from ..values import Known

# -- one operand

for _name, _function in {
    "Abs": wg.abs,
    "Acos": wg.acos,
    "Acosh": wg.acosh,
    "Asin": wg.asin,
    "Asinh": wg.asinh,
    "Atan": wg.atan,
    "Atanh": wg.atanh,
    "BitwiseNot": wg.bitwise_invert,
    "Ceil": wg.ceil,
    "Cos": wg.cos,
    "Cosh": wg.cosh,
    "Erf": wg.special.erf,
    "Exp": wg.exp,
    "Floor": wg.floor,
    "IsNaN": wg.isnan,
    "Log": wg.log,
    "Neg": wg.negative,
    "Not": wg.logical_not,
    "Reciprocal": wg.reciprocal,
    "Round": wg.round,
    "Sigmoid": wg.sigmoid,
    "Sign": wg.sign,
    "Sin": wg.sin,
    "Sinh": wg.sinh,
    "Softsign": wg.nn.functional.softsign,
    "Sqrt": wg.sqrt,
    "Tan": wg.tan,
    "Tanh": wg.tanh,
}.items():

    def _unary(x: Any, *, consumed_inputs: Any = None, _function: Any = _function) -> Any:
        return _function(x)

    operator(_name, symbolic=np.negative if _name == "Neg" else None)(_unary)


@operator("Relu")
def _relu(x: Any, *, consumed_inputs: Any = None) -> Any:
    return wg.relu(x) if category(x.dtype) == 2 else wg.maximum(x, wg.zeros_like(x))


@operator("Identity", raw=True, symbolic=lambda x: x)
def _identity(x: Any) -> Any:
    return x


@operator("IsInf")
def _isinf(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    found = wg.isinf(x)
    if not detect_negative:
        found = wg.logical_and(found, x > 0)
    if not detect_positive:
        found = wg.logical_and(found, x < 0)
    return found


@operator("Softplus")
def _softplus(x: Any) -> Any:
    return wg.logaddexp(x, wg.zeros_like(x))


@operator("Elu")
def _elu(x: Any, *, alpha: float = 1.0, consumed_inputs: Any = None) -> Any:
    return wg.nn.functional.elu(x, alpha)


@operator("Celu")
def _celu(x: Any, *, alpha: float = 1.0) -> Any:
    return wg.nn.functional.celu(x, alpha)


@operator("Selu")
def _selu(
    x: Any,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
    consumed_inputs: Any = None,
) -> Any:
    return gamma * wg.nn.functional.elu(x, alpha)


@operator("LeakyRelu")
def _leaky_relu(x: Any, *, alpha: float = 0.01, consumed_inputs: Any = None) -> Any:
    return wg.where(x < 0, x * alpha, x)


@operator("ThresholdedRelu")
def _thresholded_relu(x: Any, *, alpha: float = 1.0) -> Any:
    return wg.where(x > alpha, x, wg.zeros_like(x))


@operator("HardSigmoid")
def _hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Any = None) -> Any:
    return wg.clip(alpha * x + beta, 0, 1)


@operator("HardSwish")
def _hard_swish(x: Any) -> Any:
    return x * wg.clip(x / 6 + 0.5, 0, 1)


@operator("Gelu")
def _gelu(x: Any, *, approximate: str = "none") -> Any:
    if approximate not in ("none", "tanh"):
        refuse(f"approximate is {approximate!r}, and neither 'none' nor 'tanh'")
    return wg.nn.functional.gelu(x, approximate)


@operator("Mish")
def _mish(x: Any) -> Any:
    return wg.nn.functional.mish(x)


@operator("Swish")
def _swish(x: Any, *, alpha: float = 1.0) -> Any:
    return x * wg.sigmoid(alpha * x)


@operator("Shrink")
def _shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    zero = wg.zeros_like(x)
    out = wg.where(x < -lambd, x + bias, wg.where(x > lambd, x - bias, zero))
    return out.astype(x.dtype)


# -- two operands


def aligned(x: Tensor, y: Tensor, axis: int | None) -> Tensor:
    """Return `y` with the axes behind it that the old attributes `broadcast` and `axis` ask for."""
    if axis is None or y.ndim == 0:
        return y
    start = axis if axis >= 0 else axis + x.ndim
    return y.reshape((*y.shape, *(1,) * (x.ndim - start - y.ndim)))


def same(x: Tensor, y: Tensor) -> None:
    """Refuse operands of two dtypes."""
    if x.dtype != y.dtype:
        refuse(f"the operands are {x.dtype.name} and {y.dtype.name}, and must be of one dtype")


def trunc_divide(x: Any, y: Any) -> Any:
    """Return integers' quotient, rounded towards zero."""
    if x.dtype.kind == "u":
        return wg.floor_divide(x, y)
    down = wg.floor_divide(x, y)
    rest = x - down * y
    up = wg.logical_and(rest != 0, (rest < 0) != (x < 0))
    return down + up.astype(x.dtype)


def _divide(x: Any, y: Any) -> Any:
    return x / y if category(x.dtype) >= 2 else trunc_divide(x, y)


def _binary(name: str, function: Any, symbolic: Any = None) -> None:
    def rule(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None) -> Any:
        y = aligned(x, y, axis if broadcast else None)
        same(x, y)
        return function(x, y)

    operator(name, symbolic=symbolic)(rule)


def _divide_sizes(x: Known, y: Known) -> Any:
    return np.frompyfunc(_size_quotient, 2, 1)(x, y)


def _size_quotient(x: Any, y: Any) -> Any:
    """Return a quotient of sizes, rounded to 0 as ONNX has it."""
    x, y = (-x, -y) if y < 0 else (x, y)
    return -(-x // y) if x < 0 else x // y


def _modulo_sizes(x: Known, y: Known, *, fmod: int = 0) -> Any:
    if fmod:
        refuse("the remainder of sizes with the sign of the dividend")
    return np.mod(x, y)


_binary("Add", wg.add, np.add)
_binary("Sub", wg.subtract, np.subtract)
_binary("Mul", wg.multiply, np.multiply)
_binary("Div", _divide, _divide_sizes)
_binary("And", wg.logical_and)
_binary("Or", wg.logical_or)
_binary("Xor", wg.logical_xor)
_binary(
    "Equal", wg.equal, lambda x, y: np.array([a == b for a, b in np.broadcast(x, y)]).reshape(np.broadcast(x, y).shape)
)
_binary("Greater", wg.greater)
_binary("GreaterOrEqual", wg.greater_equal)
_binary("Less", wg.less)
_binary("LessOrEqual", wg.less_equal)
_binary("BitwiseAnd", wg.bitwise_and)
_binary("BitwiseOr", wg.bitwise_or)
_binary("BitwiseXor", wg.bitwise_xor)


@operator(
    "Equal",
    since=19,
    raw=True,
    symbolic=lambda x, y: np.array([a == b for a, b in np.broadcast(x, y)]).reshape(np.broadcast(x, y).shape),
)
def _equal(x: Any, y: Any) -> Any:
    if isinstance(x, np.ndarray) and x.dtype == object and isinstance(y, np.ndarray):
        return np.asarray(x == y, dtype=np.bool_)
    x, y = wg.asarray(x), wg.asarray(y)
    same(x, y)
    return wg.equal(x, y)


@operator("BitShift")
def _bit_shift(x: Any, y: Any, *, direction: str) -> Any:
    if direction not in ("LEFT", "RIGHT"):
        refuse(f"direction is {direction!r}, and neither 'LEFT' nor 'RIGHT'")
    same(x, y)
    return wg.bitwise_left_shift(x, y) if direction == "LEFT" else wg.bitwise_right_shift(x, y)


@operator("Pow")
def _power(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    y = aligned(x, y, axis if broadcast else None)
    if x.dtype == y.dtype and category(x.dtype) >= 2:
        return wg.pow(x, y)
    if category(x.dtype) == 1 and category(y.dtype) == 1:
        return _whole_power(x.astype(wg.int64), y.astype(wg.int64), _nonnegative(y)).astype(x.dtype)
    if category(x.dtype) == 1:
        return wg.trunc(wg.pow(x.astype(wg.float64), y.astype(wg.float64))).astype(x.dtype)
    return wg.pow(x, y.astype(x.dtype))


def _whole_power(x: Tensor, y: Tensor, nonnegative: bool) -> Tensor:
    """Return a power of integers, exact, and modulo 2**64 where it is larger. Quotients are rounded to 0."""
    if nonnegative:
        return wg.pow(x, y)
    odd = wg.where(wg.remainder(y, 2) == 1, x, 1)
    return wg.where(y < 0, wg.where(wg.abs(x) == 1, odd, 0), wg.pow(x, wg.maximum(y, 0)))


def _nonnegative(y: Tensor) -> bool:
    return y.dtype.kind == "u" or (not y.is_abstract and bool((y.detach().numpy() >= 0).all()))


@operator("Mod", symbolic=_modulo_sizes)
def _modulo(x: Any, y: Any, *, fmod: int = 0) -> Any:
    same(x, y)
    if not fmod:
        return wg.remainder(x, y)
    if category(x.dtype) == 2:
        # The remainder of the magnitudes is exact; its sign is the dividend's.
        return wg.copysign(wg.remainder(wg.abs(x), wg.abs(y)), x)
    return x - trunc_divide(x, y) * y


@operator("PRelu")
def _prelu(x: Any, slope: Any, *, consumed_inputs: Any = None, context: Any) -> Any:
    if context.opset < 9 and slope.ndim == 1 and x.ndim > 1 and slope.shape[0] != 1:
        slope = slope.reshape((-1, *(1,) * (x.ndim - 2)))
    return wg.where(x < 0, x * slope, x)


# -- several operands


def _folded(*xs: Any, function: Any) -> Any:
    if not xs:
        refuse("there are no operands")
    for x in xs:
        same(xs[0], x)
    return reduce(function, xs)


@operator("Max")
def _maximum(*xs: Any, consumed_inputs: Any = None) -> Any:
    return _folded(*xs, function=wg.maximum)


@operator("Min")
def _minimum(*xs: Any, consumed_inputs: Any = None) -> Any:
    return _folded(*xs, function=wg.minimum)


@operator("Sum")
def _total(*xs: Any, consumed_inputs: Any = None) -> Any:
    return _folded(*xs, function=wg.add)


@operator("Mean")
def _average(*xs: Any, consumed_inputs: Any = None) -> Any:
    return _folded(*xs, function=wg.add) / len(xs)


def _where_symbolic(condition: Known, x: Known, y: Known) -> Any:
    return np.where(condition.astype(bool), x, y)


@operator("Where", raw=True, symbolic=_where_symbolic)
def _where(condition: Any, x: Any, y: Any) -> Any:
    texts = [v for v in (x, y) if isinstance(v, np.ndarray) and v.dtype == object]
    if texts:
        return np.where(np.asarray(condition), x, y)
    x, y = wg.asarray(x), wg.asarray(y)
    same(x, y)
    return wg.where(wg.asarray(condition), x, y)


@operator("Clip")
def _clip(
    x: Any, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None, consumed_inputs: Any = None
) -> Any:
    # With a lower bound above the upper one all elements are the upper one.
    lowest, highest = (low if low is not None else min), (high if high is not None else max)
    if lowest is not None:
        x = wg.maximum(x, lowest.astype(x.dtype) if isinstance(lowest, Tensor) else wg.full((), lowest, dtype=x.dtype))
    if highest is not None:
        x = wg.minimum(
            x, highest.astype(x.dtype) if isinstance(highest, Tensor) else wg.full((), highest, dtype=x.dtype)
        )
    return x
