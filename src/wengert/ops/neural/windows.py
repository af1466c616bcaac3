"""Sliding windows over the trailing dimensions, for convolution and pooling.

A window is given by kernel size, stride, padding (a low and a high for each dimension; a negative one
crops) and dilation. Arrays of images are (N, C, *S).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.dtypes import DType
from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.spec import Shape, category, float32

Size = int | Sequence[int]
Pads = tuple[tuple[int, int], ...]

# Bytes of gathered windows at a time: few enough to stay in the cache, enough to keep products large.
GATHER_BYTES = 4 << 20


# -- geometry


def int_tuple(value: int | Sequence[int], ndim: int, name: str, least: int) -> Shape:
    """Return an int for each dimension, from one for all or a sequence. Raises DTypeError, RangeError."""
    entries: tuple[Any, ...] = tuple(value) if isinstance(value, (tuple, list)) else (value,) * ndim
    if any(isinstance(v, bool) or not isinstance(v, (int, np.integer)) for v in entries):
        fail(DTypeError, f"{name} must be an int or {ndim} ints, not {value!r}")
    if len(entries) == 1:
        entries *= ndim
    if len(entries) != ndim:
        fail(RangeError, f"{name}={value!r} has {len(entries)} entries for {ndim} spatial dimensions")
    if min(entries) < least:
        fail(RangeError, f"{name}={value!r}: every entry must be at least {least}")
    return tuple(int(v) for v in entries)


def check_geometry(name: str, ndim: int, *lists: Sequence[Any]) -> None:
    """Raise ShapeError unless there is a dimension, and each of the lists has an entry for each."""
    if ndim < 1 or any(len(entries) != ndim for entries in lists):
        fail(ShapeError, f"{name}: {', '.join(map(str, lists))} are not {ndim} entries each")


def output_size(size: Shape, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Shape:
    """Return the number of windows that fit along each dimension (0 or less where none does)."""
    return tuple(
        (n + low + high - d * (k - 1) - 1) // s + 1
        for n, k, s, (low, high), d in zip(size, kernel, stride, padding, dilation)
    )


def check_windows(name: str, size: Shape, kernel: Shape, out: Shape, padding: Pads, dilation: Shape) -> None:
    """Raise ShapeError unless at least one window fits along every dimension."""
    if min(out, default=1) >= 1 and min(kernel, default=1) >= 1:
        return
    padded = tuple(n + low + high for n, (low, high) in zip(size, padding))
    extent = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation))
    dilated = f" (dilated to {extent})" if extent != kernel else ""
    fail(
        ShapeError,
        f"{name}: a kernel of size {kernel}{dilated} does not fit an input of size {size} (padded to {padded})",
        "Use a smaller kernel or dilation, or more padding.",
    )


def overlap(
    size: Shape, out: Shape, offset: Shape, stride: Shape, padding: Pads, dilation: Shape
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return, for one kernel offset, the input elements that windows see through it, and those windows."""
    at, windows = [], []
    for n, m, k, s, (low, _), d in zip(size, out, offset, stride, padding, dilation):
        shift = k * d - low
        first = max(0, -(shift // s))
        last = min(m, (n - 1 - shift) // s + 1)
        count = max(0, last - first)
        start = first * s + shift
        at.append(slice(start, start + (count - 1) * s + 1, s) if count else slice(0, 0))
        windows.append(slice(first, first + count))
    return tuple(at), tuple(windows)


# -- gathering windows


def working_dtype(dtype: DType) -> DType:
    """Return the dtype to accumulate in: float32 for half precision, which is rounded once at the end."""
    return float32 if dtype.itemsize == 2 and category(dtype) == 2 else dtype


def flat_batch(x: Array, ndim: int) -> Array:
    """Return `x` with its batch axes joined into one."""
    return x.reshape(prod(x.shape[: -ndim - 1]), *x.shape[-ndim - 1 :])


def padded(x: Array, padding: Pads, channels_last: bool) -> Array:
    """Return (N, C, *S) zero-padded (or cropped) in the layout asked for."""
    n = len(padding)
    if channels_last:
        x = x.transpose(0, *range(2, n + 2), 1)
    first = 1 if channels_last else 2
    inner, outer = [slice(None)] * (n + 2), [slice(None)] * (n + 2)
    shape = list(x.shape)
    for i, (low, high) in enumerate(padding, first):
        inner[i] = slice(max(-low, 0), x.shape[i] + min(high, 0))
        outer[i] = slice(max(low, 0), max(low, 0) + max(x.shape[i] + min(low, 0) + min(high, 0), 0))
        shape[i] = x.shape[i] + low + high
    cropped = x[tuple(inner)]
    if cropped.shape == tuple(shape):
        return np.ascontiguousarray(cropped)
    out = np.zeros(shape, x.dtype)
    out[tuple(outer)] = cropped
    return out


def windows(x: Array, kernel: Shape, out: Shape, stride: Shape, dilation: Shape, channels_last: bool) -> Array:
    """Return a view of padded `x`: (N, *out, *K, C), or channels-first (N, C, *K, *out)."""
    n = len(kernel)
    steps = x.strides[1 : n + 1] if channels_last else x.strides[2:]
    over_out = tuple(b * s for b, s in zip(steps, stride))
    over_kernel = tuple(b * d for b, d in zip(steps, dilation))
    if channels_last:
        shape = (x.shape[0], *out, *kernel, x.shape[-1])
        strides = (x.strides[0], *over_out, *over_kernel, x.strides[-1])
    else:
        shape = (*x.shape[:2], *kernel, *out)
        strides = (*x.strides[:2], *over_kernel, *over_out)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def gathered(view: Array) -> Iterator[tuple[slice, Array]]:
    """Yield contiguous copies of `view`, a few images at a time, in one buffer that is used again."""
    count = view.shape[0]
    if view.size == 0:
        return
    if view.flags.c_contiguous:
        yield slice(0, count), view
        return
    step = min(count, max(1, GATHER_BYTES // (view[0].size * view.itemsize)))
    buffer = np.empty((step, *view.shape[1:]), view.dtype)
    for start in range(0, count, step):
        part = buffer[: min(step, count - start)]
        np.copyto(part, view[start : start + step])
        yield slice(start, start + len(part)), part


def at_offset(view: Array, k: Shape) -> Array:
    """Return the (N, *out, C) slice of channels-last windows at kernel offset `k`."""
    part: Array = view[(slice(None),) * (1 + len(k)) + k]
    return part


def split_groups(view: Array, groups: int) -> Array:
    """Return (N, *out, *K, C) as (N, *out, groups, *K, C / groups)."""
    n = (view.ndim - 2) // 2
    if groups == 1:
        return np.expand_dims(view, 1 + n)
    channels, step = view.shape[-1] // groups, view.strides[-1]
    split = np.lib.stride_tricks.as_strided(
        view,
        (*view.shape[:-1], groups, channels),
        (*view.strides[:-1], channels * step, step),
        writeable=False,
    )
    return np.moveaxis(split, -2, 1 + n)
