"""Quantised operators: to and from integers and narrow floats, and products of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg

from ....core.spec import category
from ..errors import refuse
from ..registry import operator
from ..values import holds, numpy_dtype, tensor
from .casts import cast_to, saturated, to_float8, values_of
from .contract import Windows, convolved
from .structure import axis_of

_RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def _range(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.name in _RANGES:
        return _RANGES[dtype.name]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or dtype.name in _RANGES


def _numbers(x: Any) -> Any:
    """Return a value as a tensor of numbers: what tensors cannot hold, as float32, which has each of its values."""
    if isinstance(x, np.ndarray) and not holds(x.dtype):
        if x.dtype == object:
            refuse("texts are no numbers")
        return tensor(x.astype(np.float32))
    return tensor(x)


def _per(scale: Any, x: Any, axis: int, block_size: int) -> Any:
    """Return scales, or zero points, as they go with the elements of `x`."""
    if scale.ndim == 0 or (scale.ndim == 1 and scale.shape[0] == 1 and not block_size):
        return scale.reshape(())
    if not x.ndim:
        refuse(f"scales of shape {tuple(scale.shape)} do not fit an operand without axes")
    axis = axis_of(axis, x.ndim)
    if block_size:
        if scale.ndim != x.ndim or -(-x.shape[axis] // block_size) != scale.shape[axis]:
            refuse(f"scales of shape {tuple(scale.shape)} do not fit blocks of {block_size} in {tuple(x.shape)}")
        out = wg.repeat(scale, block_size, axis)
        return out[(slice(None),) * axis + (slice(0, x.shape[axis]),)]
    if scale.ndim != 1 or scale.shape[0] != x.shape[axis]:
        refuse(f"scales of shape {tuple(scale.shape)} do not fit axis {axis} of shape {tuple(x.shape)}")
    return scale.reshape(tuple(-1 if i == axis else 1 for i in range(x.ndim)))


@operator("QuantizeLinear", raw=True)
def quantized(
    x: Any,
    scale: Any,
    zero: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    """Return numbers over a scale, as integers about a zero point."""
    dtype = (
        zero.dtype
        if zero is not None
        else numpy_dtype(output_dtype, "output_dtype")
        if output_dtype
        else np.dtype(np.uint8)
    )
    if zero is not None and output_dtype and numpy_dtype(output_dtype, "output_dtype") != zero.dtype:
        refuse(f"output_dtype is not the zero point's {zero.dtype.name}")
    x = tensor(x)
    given = _numbers(scale)
    wide = (
        numpy_dtype(precision, "attribute 'precision'")
        if precision
        else given.dtype
        if category(x.dtype) == 1
        else x.dtype
    )
    if category(wide) != 2 or wide.itemsize == 2:
        wide = np.dtype(np.float32)
    scaled = x.astype(wide) / _per(given.astype(wide), x, axis, block_size)
    shift = None if zero is None else _per(_numbers(zero).astype(wide), x, axis, block_size)
    if not _is_integer(dtype):
        # Narrow floats have no zero point but 0.
        known = values_of(scaled if shift is None else scaled + shift, f"a {dtype.name}")
        with np.errstate(all="ignore"):
            return to_float8(known, dtype, saturate) if dtype.name.startswith("float8") else saturated(known, dtype)
    low, high = _range(dtype)
    rounded = wg.round(scaled)
    out = wg.clip(rounded if shift is None else rounded + shift, low, high)
    return cast_to(out, dtype)


@operator("DequantizeLinear", raw=True)
def dequantized(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    """Return the numbers that integers about a zero point stand for."""
    given = _numbers(scale)
    dtype = numpy_dtype(output_dtype, "output_dtype") if output_dtype else given.dtype
    if not holds(dtype):
        refuse(f"output_dtype is {dtype.name}")
    numbers = _numbers(x)
    wide: Any = np.dtype(np.float32) if given.dtype.itemsize < 4 else given.dtype
    values = numbers.astype(wide) if numbers.dtype != wg.int32 or wide == wg.float64 else numbers
    if zero is not None:
        shift = _per(_numbers(zero), numbers, axis, block_size)
        # Differences of 32-bit integers are exact, of their floats they would not be.
        values = values - shift.astype(values.dtype)
    return (values.astype(wide) * _per(given, numbers, axis, block_size).astype(wide)).astype(dtype)


# -- products of integers


def centred(x: Any, zero: Any, axis: int | None = None) -> Any:
    """Return integers less their zero point, one for all or one for each place along an axis."""
    wide = x.astype(wg.int32)
    if zero is None:
        return wide
    shift = zero.astype(wg.int32)
    if shift.ndim == 1 and shift.shape[0] == 1:
        shift = shift.reshape(())
    if shift.ndim == 1 and axis is not None:
        shift = shift.reshape(tuple(-1 if i == axis % x.ndim else 1 for i in range(x.ndim)))
    return wide - shift


@operator("MatMulInteger")
def _matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return wg.matmul(centred(a, a_zero, -2), centred(b, b_zero, -1))


def rounded(x: Any, scale: Any, zero: Any, axis: int | None = None) -> Any:
    """Return numbers over a scale, rounded and bounded to the range of their zero point's dtype."""
    low, high = _range(zero.dtype)
    shift = zero.astype(x.dtype)
    if shift.ndim == 1 and shift.shape[0] == 1:
        shift = shift.reshape(())
    return wg.clip(wg.round(x / scale) + shift, low, high).astype(zero.dtype)


def one(x: Any) -> Any:
    """Return an array of one element as a single number; another array as it is."""
    return x.reshape(()) if x.ndim == 1 and x.shape[0] == 1 else x


@operator("QLinearMatMul", raw=True)
def _qlinear_matmul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    if not holds(y_zero.dtype) or not all(holds(v.dtype) for v in (a, b)):
        refuse(f"products of {a.dtype.name} and {b.dtype.name} are not supported")
    a, b, a_zero, b_zero, y_zero = (tensor(v) for v in (a, b, a_zero, b_zero, y_zero))
    scales = [one(tensor(v).astype(wg.float32)) for v in (a_scale, b_scale, y_scale)]
    product = wg.matmul(centred(a, a_zero, -2), centred(b, b_zero, -1)).astype(wg.float64)
    rows = scales[0].reshape((-1, 1)) if scales[0].ndim == 1 else scales[0]
    factor = (rows * scales[1] / scales[2]).astype(wg.float64)
    low, high = _range(y_zero.dtype)
    return wg.clip(wg.round(product * factor) + one(y_zero).astype(wg.float64), low, high).astype(y_zero.dtype)


def _integer_convolution(x: Any, w: Any, attributes: dict[str, Any], context: Any) -> Any:
    """Return the correlation of 32-bit integers, by float64, which has each of them."""
    size, kernel = tuple(x.shape[2:]), tuple(w.shape[2:])
    windows = Windows(
        size, kernel, attributes["strides"], attributes["dilations"], attributes["pads"], attributes["auto_pad"]
    )
    windows.fits(context.run, x.shape[0])
    return convolved(x.astype(wg.float64), w.astype(wg.float64), None, windows, attributes["group"])


@operator("ConvInteger")
def _conv_integer(
    x: Any,
    w: Any,
    x_zero: Any = None,
    w_zero: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
    context: Any,
) -> Any:
    given = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    return _integer_convolution(centred(x, x_zero), centred(w, w_zero, 0), given, context).astype(wg.int32)


@operator("QLinearConv")
def _qlinear_conv(
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    b: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
    context: Any,
) -> Any:
    given = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    sums = _integer_convolution(centred(x, x_zero), centred(w, w_zero, 0), given, context)
    lead = (-1, *(1,) * (x.ndim - 2))
    if b is not None:
        sums = sums + b.astype(wg.float64).reshape(lead)
    weights = one(w_scale)
    weights = weights.reshape(lead) if weights.ndim else weights
    factor = (one(x_scale) * weights / one(y_scale)).astype(wg.float64)
    low, high = _range(y_zero.dtype)
    return wg.clip(wg.round(sums * factor) + one(y_zero).astype(wg.float64), low, high).astype(y_zero.dtype)
