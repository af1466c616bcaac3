"""Convolution and its two adjoints with NumPy: their shape rules and their forwards.

Windows are gathered a few images at a time into a buffer that stays in the cache, and meet
the kernel in one matrix product (im2col; Chellapilla et al. 2006). The gather runs channels-last,
where it copies runs of K * C numbers; with few channels it runs channels-first, where it copies runs
of the output's width. The result is a view of whichever was computed, so that a stack of
convolutions stays channels-last in memory while its shape says channels-first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.dtypes import DType
from ...core.errors import ShapeError, fail
from ...core.spec import Shape, Spec, show, spec_of
from ..long_sums import add_up
from .windows import (
    GATHER_BYTES,
    Pads,
    at_offset,
    check_geometry,
    check_windows,
    flat_batch,
    gathered,
    output_size,
    overlap,
    padded,
    split_groups,
    windows,
    working_dtype,
)

# -- geometry


def _with_channels(shape: Sequence[Any], need: Any, ndim: int) -> str:
    """Return how an input that lacks channels, or has them last, comes to have them where they belong."""
    if len(shape) == ndim + 1 and need == 1:
        return " A batch without a channel axis gets one: x[:, None]."
    if len(shape) == ndim + 2 and shape[-1] == need:
        return f" Channels that stand last are moved: wg.moveaxis(x, -1, {-ndim - 1})."
    return ""


def check_channels(x: Any, w: Any, groups: int, ndim: int, axis: int, name: str) -> None:
    """Raise ShapeError unless `w` is a kernel for `x`, whose channels are kernel axis `axis` (0 out, 1 in)."""
    if len(w.shape) != ndim + 2 or len(x.shape) < ndim + 1:
        fail(
            ShapeError,
            f"{name}: an input of shape {x.shape} with a kernel of shape {w.shape}",
            f"With {ndim} spatial dimensions the kernel has {ndim + 2} dimensions (O, C, ...), "
            f"the input {ndim + 1} (C, ...) or {ndim + 2} (N, C, ...).",
        )
    if w.shape[0] % groups:
        fail(
            ShapeError,
            f"{name}: groups={groups} does not divide {w.shape[0]}, axis 0 of a kernel of shape {w.shape}",
        )
    channels, need = x.shape[-ndim - 1], w.shape[0] if axis == 0 else w.shape[1] * groups
    if channels != need:
        grouped = f" with groups={groups}" if groups != 1 else ""
        fail(
            ShapeError,
            f"{name}: an input of shape {x.shape} has {channels} channels, "
            f"a kernel of shape {w.shape}{grouped} takes {need}",
            f"Axis {-ndim - 1} of the input is its channels; axis {axis} of the kernel is "
            + ("channels." if axis == 0 or groups == 1 else "channels / groups.")
            + _with_channels(x.shape, need, ndim),
        )


def infer_convolve(x: Any, w: Any, stride: Shape, padding: Pads, dilation: Shape, groups: int) -> Spec:
    """Return the spec of a convolution's result. Raises ShapeError."""
    n = len(stride)
    name = f"conv{n}d"
    check_channels(x, w, groups, n, 1, name)
    check_geometry(name, n, padding, dilation)
    size, kernel = x.shape[-n:], w.shape[2:]
    out = output_size(size, kernel, stride, padding, dilation)
    check_windows(name, size, kernel, out, padding, dilation)
    return spec_of(x.shape[: -n - 1] + (w.shape[0], *out), x.dtype)


def infer_transpose(y: Any, w: Any, size: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int) -> Spec:
    """Return the spec of a transposed convolution's result. Raises ShapeError."""
    n = len(stride)
    name = f"conv_transpose{n}d"
    check_channels(y, w, groups, n, 0, name)
    check_geometry(name, n, size, padding, dilation)
    if min(size, default=1) < 1:
        fail(
            ShapeError,
            f"{name}: an input of shape {y.shape} with a kernel of shape {w.shape} gives a result of size {size}",
            "Use less padding or a larger kernel.",
        )
    found = spec_of(y.shape[: -n - 1] + (w.shape[1] * groups, *size), y.dtype)
    if output_size(size, w.shape[2:], stride, padding, dilation) != y.shape[-n:]:
        fail(ShapeError, f"{name}: {show(y.shape)} is not a result of {show(found.shape)} and {show(w.shape)}")
    return found


def infer_kernel(x: Any, y: Any, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int) -> Spec:
    """Return the spec of a convolution's kernel, for its input and result. Raises ShapeError."""
    n = len(stride)
    name = f"the kernel of conv{n}d"
    check_geometry(name, n, kernel, padding, dilation)
    if len(x.shape) != len(y.shape) or len(x.shape) <= n or x.shape[-n - 1] % groups:
        fail(ShapeError, f"{name}: {show(x.shape)} and {show(y.shape)} with groups={groups}")
    found = spec_of((y.shape[-n - 1], x.shape[-n - 1] // groups, *kernel), x.dtype)
    if infer_convolve(x, found, stride, padding, dilation, groups).shape != y.shape:
        fail(ShapeError, f"{name}: {show(y.shape)} is not a result of {show(x.shape)} and {show(found.shape)}")
    return found


def _gathers_channels_first(channels: int, kernel: Shape, out: Shape, groups: int) -> bool:
    return groups == 1 and channels * kernel[-1] < out[-1]


def _is_depthwise(w_shape: Shape, groups: int) -> bool:
    return groups > 1 and w_shape[0] == groups and w_shape[1] == 1


def _result(out: Array, lead: Shape, dtype: DType, channels_last: bool) -> Array:
    """Return the op's (*batch, C, *S) result from (N, *S, C) or (N, C, *S)."""
    if channels_last:
        out = out.transpose(0, out.ndim - 1, *range(1, out.ndim - 1))
    if out.dtype != dtype:
        out = out.astype(dtype)
    return out if len(lead) == 1 else out.reshape(*lead, *out.shape[1:])


# -- the three products


def convolve(x: Array, w: Array, *, stride: Shape, padding: Pads, dilation: Shape, groups: int) -> Array:
    """Return the convolution by products of gathered windows and the kernel."""
    spec = infer_convolve(x, w, stride, padding, dilation, groups)
    n = len(stride)
    lead, out, kernel = spec.shape[: -n - 1], spec.shape[-n:], w.shape[2:]
    work = working_dtype(spec.dtype)
    images, w = flat_batch(x, n).astype(work, copy=False), w.astype(work, copy=False)
    last = not _gathers_channels_first(w.shape[1], kernel, out, groups)
    view = windows(padded(images, padding, last), kernel, out, stride, dilation, last)
    if not last:
        y = _multiply_channels_first(view, w, out)
    elif _is_depthwise(w.shape, groups):
        y = _multiply_depthwise(view, w, out)
    else:
        y = _multiply_channels_last(view, w, out, groups)
    return _result(y, lead, spec.dtype, last)


def _multiply_channels_first(view: Array, w: Array, out: Shape) -> Array:
    """Multiply (N, C, *K, *out) windows by an (O, C, *K) kernel to (N, O, *out)."""
    rows = w.reshape(w.shape[0], w[0].size) if w.size else w.reshape(w.shape[0], prod(w.shape[1:]))
    y = np.zeros((view.shape[0], w.shape[0], prod(out)), view.dtype)
    for images, part in gathered(view):
        np.matmul(rows, part.reshape(len(part), rows.shape[1], y.shape[2]), out=y[images])
    return y.reshape(view.shape[0], w.shape[0], *out)


def _multiply_channels_last(view: Array, w: Array, out: Shape, groups: int) -> Array:
    """Multiply (N, *out, *K, C) windows by an (O, C / groups, *K) kernel to (N, *out, O)."""
    columns = _kernel_columns(w, groups)
    y = np.zeros((view.shape[0], *out, w.shape[0]), view.dtype)
    for images, part in gathered(split_groups(view, groups)):
        rows = part.reshape(-1, groups, columns.shape[1]).swapaxes(0, 1)
        target = y[images].reshape(-1, groups, columns.shape[2]).swapaxes(0, 1)
        if groups == 1:
            np.matmul(rows[0], columns[0], out=target[0])
        else:
            np.matmul(rows, columns, out=target)
    return y


def _multiply_depthwise(view: Array, w: Array, out: Shape) -> Array:
    """Multiply (N, *out, *K, C) windows by (C, 1, *K), one kernel for each channel, to (N, *out, C)."""
    y = np.zeros((view.shape[0], *out, w.shape[0]), view.dtype)
    term = np.empty_like(y)
    for k in np.ndindex(*w.shape[2:]):
        y += np.multiply(at_offset(view, k), w[(slice(None), 0, *k)], out=term)
    return y


def _kernel_columns(w: Array, groups: int) -> Array:
    """Return (O, C / groups, *K) as contiguous (groups, K * C / groups, O / groups)."""
    per, n = w.shape[0] // groups, w.ndim - 2
    split = w.reshape(groups, per, *w.shape[1:]).transpose(0, *range(3, 3 + n), 2, 1)
    return np.ascontiguousarray(split).reshape(groups, prod(w.shape[1:]), per)


def convolve_transpose(
    y: Array, w: Array, *, size: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int
) -> Array:
    """Return the transposed convolution, as a convolution of the turned kernel or by scattering."""
    spec = infer_transpose(y, w, size, stride, padding, dilation, groups)
    n = len(stride)
    kernel, out = w.shape[2:], y.shape[-n:]
    if all(s == 1 for s in stride):
        extent = [d * (k - 1) for k, d in zip(kernel, dilation)]
        pads = tuple((e - low, m - o + low) for e, (low, _), m, o in zip(extent, padding, size, out))
        return convolve(y, _turned(w, groups), stride=stride, padding=pads, dilation=dilation, groups=groups)
    work = working_dtype(spec.dtype)
    images = padded(flat_batch(y, n).astype(work, copy=False), ((0, 0),) * n, channels_last=True)
    x = _scatter(images, w.astype(work, copy=False), size, stride, padding, dilation, groups)
    return _result(x, spec.shape[: -n - 1], spec.dtype, channels_last=True)


def _turned(w: Array, groups: int) -> Array:
    """Return the kernel whose convolution is the transpose of stride 1: turned around, channels exchanged."""
    n = w.ndim - 2
    split = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    turned = np.flip(split, tuple(range(-n, 0)))
    return turned.reshape(groups * w.shape[1], w.shape[0] // groups, *w.shape[2:])


def _scatter(y: Array, w: Array, size: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int) -> Array:
    """Scatter (N, *out, O) to (N, *S, C): each window's products are added where it was taken (col2im)."""
    count, out, kernel = y.shape[0], y.shape[1:-1], w.shape[2:]
    channels = w.shape[1] * groups
    x = np.zeros((count, *size, channels), y.dtype)
    if y.size == 0 or w.size == 0:
        return x
    columns = _kernel_columns(w, groups).swapaxes(1, 2)
    step = max(1, GATHER_BYTES // (prod(out) * prod(kernel) * channels * y.itemsize))
    for start in range(0, count, step):
        part = y[start : start + step]
        rows = part.reshape(-1, groups, w.shape[0] // groups).swapaxes(0, 1)
        products = np.matmul(rows, columns).reshape(groups, len(part), *out, *kernel, w.shape[1])
        target = x[start : start + step].reshape(len(part), *size, groups, w.shape[1])
        for k in np.ndindex(*kernel):
            at, where = overlap(size, out, k, stride, padding, dilation)
            values = products[(slice(None), slice(None), *where, *k)]
            target[(slice(None), *at)] += np.moveaxis(values, 0, -2)
    return x


def convolve_kernel(
    x: Array, y: Array, *, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int
) -> Array:
    """Return the convolution's cotangent in its kernel, by products of windows and cotangents."""
    spec = infer_kernel(x, y, kernel, stride, padding, dilation, groups)
    n = len(stride)
    out, work = y.shape[-n:], working_dtype(spec.dtype)
    images, cts = (flat_batch(a, n).astype(work, copy=False) for a in (x, y))
    last = not _gathers_channels_first(spec.shape[1], kernel, out, groups)
    view = windows(padded(images, padding, last), kernel, out, stride, dilation, last)
    if not last:
        w = _correlate_channels_first(view, cts)
    else:
        cts = padded(cts, ((0, 0),) * n, channels_last=True)
        w = _correlate_channels_last(view, cts, spec.shape, groups)
    return w.reshape(spec.shape).astype(spec.dtype, copy=False)


def _correlate_channels_first(view: Array, y: Array) -> Array:
    """Correlate (N, C, *K, *out) windows with (N, O, *out) to (O, C * K)."""
    points = prod(y.shape[2:])
    width = view[:1].size // points if len(view) else prod(view.shape[1 : view.ndim - y.ndim + 2])
    w = np.zeros((y.shape[1], width), view.dtype)
    for images, part in gathered(view):
        rows = part.reshape(len(part), width, points)
        w += np.matmul(y[images].reshape(len(part), -1, points), rows.mT).sum(0)
    return w


def _correlate_channels_last(view: Array, y: Array, shape: Shape, groups: int) -> Array:
    """Correlate (N, *out, *K, C) windows with (N, *out, O) to a kernel of the given shape."""
    if _is_depthwise(shape, groups):
        w = np.empty((*shape[2:], groups), view.dtype)
        for k in np.ndindex(*shape[2:]):
            w[k] = add_up(np.multiply(at_offset(view, k), y).reshape(-1, groups), 0)
        return w.transpose(-1, *range(len(shape) - 2))
    per, width = shape[0] // groups, prod(shape[1:])
    columns = np.zeros((groups, width, per), view.dtype)
    for images, part in gathered(split_groups(view, groups)):
        rows = part.reshape(-1, groups, width).transpose(1, 2, 0)
        cts = y[images].reshape(-1, groups, per).swapaxes(0, 1)
        columns += np.matmul(rows, cts)
    split = columns.reshape(groups, *shape[2:], shape[1], per)
    n = len(shape) - 2
    return split.transpose(0, n + 2, n + 1, *range(1, n + 1))
