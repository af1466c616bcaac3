"""Memory formats: which axes of a tensor are the inner ones in memory, where that is a part of its meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...core.arrays import Array, in_order_of
from ...core.storage import window_of
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


def with_channels_last(out: Any, *inputs: Any) -> Any:
    """Return a result in which channels are the innermost axis in memory if they are in all of its inputs."""
    axes = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}.get(inputs[0].ndim)
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


def as_picked(out: Any, x: Tensor, indices: Sequence[Any], axis: int) -> Any:
    """Return what index arrays over neighbouring axes pick of a tensor, laid in memory in the order of its axes."""
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
