"""Memory formats: which axes of a tensor are the inner ones in memory, where that is a part of its meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...core.arrays import Array, in_order_of
from ...core.ops.declare import METHODS
from ...core.storage import leave, window_of
from ...core.tensor import Tensor
from .views import layout as layout_of


def in_order(array: Array, axes: tuple[int, ...]) -> Array:
    """Return an array whose elements lie so in memory, without gaps: itself, or a copy."""
    turned = array.transpose(axes)
    if turned.flags.c_contiguous:
        return array
    back = sorted(range(array.ndim), key=axes.__getitem__)
    return turned.copy(order="C").transpose(back)


def array_of(x: Tensor) -> Array | None:
    """Return an array that lies in memory as a tensor does; None where that is not known."""
    window = window_of(x)
    return layout_of(x) if window is None else window if type(window) is np.ndarray else None


def _has_channels_last(array: Array) -> bool:
    """Return whether the strides are those of channels last, as PyTorch decides where sizes of 1 leave it open."""
    least = 0
    for d in (1, *range(array.ndim - 1, 1, -1), 0):
        step = array.strides[d]
        if not array.shape[d] or step < least or (d == 0 and least == array.strides[1]):
            return False
        least = step * max(array.shape[d], 1)
    return True


# The axes of images and of volumes in memory, where channels are the innermost.
_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def with_channels_last(out: Any, *inputs: Any) -> Any:
    """Return a result in which channels are the innermost axis in memory if they are in all of its inputs."""
    if not out.meaning.keeps_formats:
        return out
    axes = _LAST.get(out.ndim)
    if axes is None or out._array is None:
        return out
    for x in inputs:
        array = array_of(x) if isinstance(x, Tensor) and x.meaning.keeps_formats else None
        if array is None or not _has_channels_last(array):
            return out
    data = in_order(out._array, axes)
    if data is not out._array:
        out._data = data
    return out


def lying(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the tensor itself where its axes lie in this order in memory, without gaps; else a copy that lies so."""
    array = array_of(x)
    if array is None or array.transpose(axes).flags.c_contiguous:
        return x
    out: Any = x.clone()
    if out._array is not None:
        out._data = in_order(out._array, axes)
        return out
    # In a trace a reshape is what lies in row-major order whatever it is made of.
    turned = out.permute(*axes)
    laid = METHODS["reshape"](turned, tuple(turned.shape))
    leave(laid)
    out = laid.permute(*(axes.index(i) for i in range(x.ndim)))
    leave(out)
    return out


def in_rows(x: Any) -> Any:
    """Return a result in row-major order, where tensors of its namespace keep formats."""
    return lying(x, tuple(range(x.ndim))) if x.meaning.keeps_formats else x


def as_picked(out: Any, x: Tensor, indices: Sequence[Any], axis: int) -> Any:
    """Return the elements that index arrays over neighbouring axes pick, in the memory order of the tensor's axes."""
    data, lies = out._array, array_of(x) if x.meaning.keeps_formats else None
    if type(data) is not np.ndarray or lies is None or data.ndim < 2:
        return out
    places = [i._array if isinstance(i, Tensor) else np.asarray(i) for i in indices]
    if not all(type(p) is np.ndarray for p in places):
        return out
    if all(a.flags.c_contiguous for a in (data, lies, *places)):
        return out
    common = data.ndim - lies.ndim + len(indices)
    after = data.ndim - axis - common
    steps = (*lies.strides[:axis], *(0,) * common, *lies.strides[lies.ndim - after :])
    given = [as_strided(lies, data.shape, steps)]
    for p in places:
        inner = (0,) * (common - p.ndim) + tuple(s * (n > 1) for s, n in zip(p.strides, p.shape, strict=True))
        given.append(as_strided(p, data.shape, ((0,) * axis + inner + (0,) * after)))
    laid = in_order_of(data, given)
    if laid is not data:
        out._data = laid
    return out
