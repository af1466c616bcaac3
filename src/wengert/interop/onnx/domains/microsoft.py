"""Operators of onnxruntime's own domain, com.microsoft: those that its quantiser writes, and a few of its fusions.

Integers are taken for the numbers that they stand for, computed with in float32, and rounded again. Operands that are
quantised when the model runs have one scale for all of their numbers, from the least and the largest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import wengert as wg

from ..errors import refuse
from ..operators.contract import average_pool, global_average_pool
from ..operators.quantized import centred, dequantized, one, quantized, rounded
from ..operators.recurrent import lstm
from ..registry import MICROSOFT, operator


@operator("QuantizeLinear", domain=MICROSOFT, raw=True)
def _quantize(x: Any, scale: Any, zero: Any = None, *, axis: int = 1) -> Any:
    return quantized(x, scale, zero, axis=axis)


@operator("DequantizeLinear", domain=MICROSOFT, raw=True)
def _dequantize(x: Any, scale: Any, zero: Any = None, *, axis: int = 1) -> Any:
    return dequantized(x, scale, zero, axis=axis)


def _numbers(x: Any, scale: Any, zero: Any) -> Any:
    """Return the numbers that integers of one scale stand for."""
    return centred(x, zero).astype(wg.float32) * one(scale)


def _integers(x: Any, scale: Any, zero: Any, like: Any) -> Any:
    """Return numbers as integers of one scale; where no zero point says of which dtype, as those of an operand."""
    dtype = like.dtype if zero is None else zero.dtype
    if dtype.kind not in "iu":
        refuse(f"a result of {dtype}, and integers alone have a scale and a zero point")
    return rounded(x, one(scale), zero if zero is not None else wg.zeros((), dtype=dtype))


def _of_one(name: str, function: Callable[..., Any]) -> None:
    """Declare a function of one quantised operand."""

    @operator(name, domain=MICROSOFT)
    def rule(x: Any, x_scale: Any, x_zero: Any | None, y_scale: Any, y_zero: Any = None) -> Any:
        return _integers(function(_numbers(x, x_scale, x_zero)), y_scale, y_zero, x)


def _of_two(name: str, function: Callable[[Any, Any], Any]) -> None:
    """Declare a function of two quantised operands."""

    @operator(name, domain=MICROSOFT)
    def rule(
        a: Any,
        a_scale: Any,
        a_zero: Any | None,
        b: Any,
        b_scale: Any,
        b_zero: Any | None,
        y_scale: Any,
        y_zero: Any = None,
    ) -> Any:
        found = function(_numbers(a, a_scale, a_zero), _numbers(b, b_scale, b_zero))
        return _integers(found, y_scale, y_zero, a)


_of_one("QLinearSigmoid", wg.sigmoid)
_of_two("QLinearAdd", wg.add)
_of_two("QLinearMul", wg.multiply)


@operator("QLinearLeakyRelu", domain=MICROSOFT)
def _leaky_relu(
    x: Any, x_scale: Any, x_zero: Any | None, y_scale: Any, y_zero: Any = None, *, alpha: float = 0.01
) -> Any:
    found = _numbers(x, x_scale, x_zero)
    return _integers(wg.where(found >= 0, found, alpha * found), y_scale, y_zero, x)


@operator("QLinearSoftmax", domain=MICROSOFT)
def _softmax(
    x: Any, x_scale: Any, x_zero: Any | None, y_scale: Any, y_zero: Any = None, *, axis: int = -1, opset: int = 13
) -> Any:
    found = _numbers(x, x_scale, x_zero)
    if opset < 13:
        # All axes from that one on are one.
        axis = axis % found.ndim
        rows = found.reshape((*found.shape[:axis], -1))
        return _integers(wg.softmax(rows, -1).reshape(found.shape), y_scale, y_zero, x)
    return _integers(wg.softmax(found, axis), y_scale, y_zero, x)


@operator("QLinearConcat", domain=MICROSOFT)
def _concat(y_scale: Any, y_zero: Any | None, *xs: Any, axis: int) -> Any:
    if not xs or len(xs) % 3:
        refuse(f"there are {len(xs)} operands, and no integers, scale and zero point of each")
    found = [_numbers(*xs[i : i + 3]) for i in range(0, len(xs), 3)]
    return _integers(wg.concat(found, axis), y_scale, y_zero, xs[0])


@operator("QLinearWhere", domain=MICROSOFT)
def _where(
    which: Any,
    x: Any,
    x_scale: Any,
    x_zero: Any | None,
    y: Any,
    y_scale: Any,
    y_zero: Any | None,
    z_scale: Any,
    z_zero: Any | None,
) -> Any:
    found = wg.where(which, _numbers(x, x_scale, x_zero), _numbers(y, y_scale, y_zero))
    return _integers(found, z_scale, z_zero, x)


@operator("QLinearReduceMean", domain=MICROSOFT)
def _mean(
    x: Any, x_scale: Any, x_zero: Any | None, y_scale: Any, y_zero: Any = None, *, axes: Any = None, keepdims: int = 1
) -> Any:
    found = wg.mean(_numbers(x, x_scale, x_zero), None if axes is None else tuple(axes), bool(keepdims))
    return _integers(found, y_scale, y_zero, x)


def _pooled(x: Any, channels_last: int, pool: Callable[[Any], Any]) -> Any:
    """Return a pool of images, whose channels may come last."""
    return wg.moveaxis(pool(wg.moveaxis(x, -1, 1)), 1, -1) if channels_last else pool(x)


@operator("QLinearAveragePool", domain=MICROSOFT)
def _average_pool(
    x: Any,
    x_scale: Any,
    x_zero: Any | None,
    y_scale: Any,
    y_zero: Any = None,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    kernel_shape: Any,
    pads: Any = None,
    strides: Any = None,
    context: Any,
) -> Any:
    def pool(images: Any) -> Any:
        return average_pool(
            images,
            auto_pad=auto_pad,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            kernel_shape=kernel_shape,
            pads=pads,
            strides=strides,
            context=context,
        )

    return _integers(_pooled(_numbers(x, x_scale, x_zero), channels_last, pool), y_scale, y_zero, x)


@operator("QLinearGlobalAveragePool", domain=MICROSOFT)
def _global_average_pool(
    x: Any, x_scale: Any, x_zero: Any | None, y_scale: Any, y_zero: Any = None, *, channels_last: int = 0
) -> Any:
    found = _pooled(_numbers(x, x_scale, x_zero), channels_last, global_average_pool)
    return _integers(found, y_scale, y_zero, x)


# -- products


def _product(a: Any, a_zero: Any | None, b: Any, b_zero: Any | None) -> Any:
    """Return the product of matrices of integers: of float64, which has each of its sums."""
    return wg.matmul(centred(a, a_zero, -2).astype(wg.float64), centred(b, b_zero, -1).astype(wg.float64))


@operator("QGemm", domain=MICROSOFT)
def _gemm(
    a: Any,
    a_scale: Any,
    a_zero: Any | None,
    b: Any,
    b_scale: Any,
    b_zero: Any | None,
    c: Any = None,
    y_scale: Any = None,
    y_zero: Any = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    sums = _product(a.mT if transA else a, a_zero, b.mT if transB else b, b_zero)
    if c is not None:
        sums = sums + c.astype(wg.float64)
    found = (sums * (alpha * one(a_scale) * one(b_scale)).astype(wg.float64)).astype(wg.float32)
    return found if y_scale is None else _integers(found, y_scale, y_zero, a)


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_to_float(
    a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None, b_zero: Any = None, bias: Any = None
) -> Any:
    rows = one(a_scale)
    rows = rows.reshape((-1, 1)) if rows.ndim else rows
    found = _product(a, a_zero, b, b_zero).astype(wg.float32) * (rows * one(b_scale))
    return found if bias is None else found + bias


def _least_and_largest(x: Any) -> tuple[Any, Any]:
    """Return the scale and zero point of the numbers of 8 bits that an operand becomes, as DynamicQuantizeLinear."""
    zero = wg.zeros((), dtype=x.dtype)
    low, high = wg.minimum(wg.min(x), zero), wg.maximum(wg.max(x), zero)
    scale = (high - low) / 255
    scale = wg.where(scale == 0, wg.ones_like(scale), scale)
    return scale, wg.clip(wg.round(-low / scale), 0, 255)


def _as_eight_bits(x: Any) -> Any:
    """Return numbers as numbers of 8 bits stand for them."""
    scale, zero = _least_and_largest(x)
    return (wg.clip(wg.round(x / scale) + zero, 0, 255) - zero) * scale


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_matmul(a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None) -> Any:
    scale, zero = _least_and_largest(a)
    integers = (wg.clip(wg.round(a / scale) + zero, 0, 255) - zero).astype(wg.float64)
    sums = wg.matmul(integers, centred(b, b_zero, -1).astype(wg.float64))
    found = sums.astype(wg.float32) * (scale * one(b_scale))
    return found if bias is None else found + bias


def _gates(w: Any, scale: Any, zero: Any) -> Any:
    """Return an LSTM's weights, (direction, inputs, gates) of integers, as numbers (direction, gates, inputs)."""

    def each(x: Any) -> Any:
        return x.reshape((w.shape[0], 1, -1))

    return ((w.astype(wg.float32) - each(zero.astype(wg.float32))) * each(scale)).mT


@operator("DynamicQuantizeLSTM", domain=MICROSOFT, like=lstm)
def _dynamic_lstm(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    start: Any = None,
    cell: Any = None,
    peepholes: Any = None,
    w_scale: Any = None,
    w_zero: Any = None,
    r_scale: Any = None,
    r_zero: Any = None,
    **attributes: Any,
) -> Any:
    if any(v is None for v in (w_scale, w_zero, r_scale, r_zero)):
        refuse("weights have no scale, or no zero point")
    weights = _gates(w, w_scale, w_zero), _gates(r, r_scale, r_zero)
    return lstm(_as_eight_bits(x), *weights, b, lengths, start, cell, peepholes, _as_eight_bits, **attributes)


# -- fusions


@operator("Gelu", domain=MICROSOFT)
def _gelu(x: Any) -> Any:
    return wg.nn.functional.gelu(x)


@operator("BiasGelu", domain=MICROSOFT)
def _bias_gelu(x: Any, bias: Any) -> Any:
    return wg.nn.functional.gelu(x + bias)


@operator("FastGelu", domain=MICROSOFT)
def _fast_gelu(x: Any, bias: Any = None) -> Any:
    return wg.nn.functional.gelu(x if bias is None else x + bias, approximate="tanh")


@operator("QuickGelu", domain=MICROSOFT)
def _quick_gelu(x: Any, *, alpha: float = 1.702) -> Any:
    return x * wg.sigmoid(alpha * x)


@operator("FusedMatMul", domain=MICROSOFT)
def _fused_matmul(
    a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0, transBatchB: int = 0
) -> Any:
    def turned(x: Any, inner: int, outer: int) -> Any:
        # The first axis comes before the last but one, where it is that of the stack.
        x = wg.moveaxis(x, 0, -2) if outer else x
        return x.mT if inner and x.ndim > 1 else x

    return alpha * wg.matmul(turned(a, transA, transBatchA), turned(b, transB, transBatchB))


def _normed(x: Any, gamma: Any, beta: Any, epsilon: float, centred: bool) -> Any:
    """Return a norm over the last axis, of what lies around the mean or of all."""
    mean = wg.mean(x, -1, True) if centred else 0.0
    scale = 1 / wg.sqrt(wg.mean((x - mean) ** 2, -1, True) + epsilon)
    found = (x - mean) * scale * gamma
    return found if beta is None else found + beta


def _sum(parts: Sequence[Any]) -> Any:
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total


@operator("SkipLayerNormalization", domain=MICROSOFT)
def _skip_layer_norm(
    x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    total = _sum((x, skip, bias))
    return _normed(total, gamma, beta, epsilon, True), None, None, total


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_root_norm(x: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12) -> Any:
    total = _sum((x, skip, bias))
    return _normed(total, gamma, None, epsilon, False), None, None, total
