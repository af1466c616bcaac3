"""Operators that read or write elements at indices, and that order or find them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import wengert as wg

from ....core.dims import Dim
from ....core.tensor import Tensor
from ..errors import refuse
from ..registry import operator
from ..values import Known
from .casts import values_of
from .structure import array_or_tensor, axis_of


def checked(indices: Any, size: Any) -> Any:
    """Return indices, of which known ones lie inside an axis. Others are looked at by the function that takes them."""
    if isinstance(indices, Tensor) and not indices.is_abstract:
        found = indices.detach().numpy()
        if found.size and (int(found.min()) < -size or int(found.max()) >= size):
            refuse(f"an index lies outside of an axis of {size} elements")
    return indices


def _gather_sizes(x: Known, indices: Any, *, axis: int = 0) -> Any:
    return np.take(x, indices.astype(np.int64), axis)


@operator("Gather", raw=True, symbolic=_gather_sizes)
def _gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    x = array_or_tensor(x)
    axis = axis_of(axis, x.ndim)
    if isinstance(x, np.ndarray):
        return np.take(x, values_of(indices, "an index"), axis)
    index = wg.asarray(indices)
    size = x.shape[axis]
    if index.dtype.kind not in "iu":
        refuse(f"the indices are {index.dtype.name}")
    return wg.take(x, checked(index, size) if not isinstance(size, Dim) else index, axis)


@operator("GatherElements")
def _gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    axis = axis_of(axis, x.ndim)
    return wg.gather(x, axis, checked(indices, x.shape[axis]))


@operator("GatherND")
def _gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    depth = indices.shape[-1]
    if not depth or batch_dims + depth > x.ndim or batch_dims >= indices.ndim:
        refuse(f"indices of shape {tuple(indices.shape)} do not fit shape {tuple(x.shape)}")
    places = [checked(indices[..., i], x.shape[batch_dims + i]) for i in range(depth)]
    batches = []
    for i in range(batch_dims):
        n = x.shape[i]
        rank = indices.ndim - 1
        batches.append(wg.arange(n).reshape(tuple(n if j == i else 1 for j in range(rank))))
    return x[(*batches, *places)] if batches or places else x


def _flat_places(indices: list[Any], shape: tuple[int, ...]) -> Any:
    """Return the places in a flat tensor. A place outside of one axis would be one inside of another row.

    So it is made one outside of the whole, which is refused when it is written to.
    """
    flat, outside = wg.zeros((), dtype=wg.int64), None
    for place, size in zip(indices, shape):
        if place.is_abstract or isinstance(size, Dim):
            beyond = wg.logical_or(place < -size, place >= size)
            outside = beyond if outside is None else wg.logical_or(outside, beyond)
        flat = flat * size + wg.where(place < 0, place + size, place)
    return flat if outside is None else wg.where(outside, math.prod(shape), flat)


_REDUCTIONS = ("none", "add", "mul", "max", "min")


def scattered(x: Tensor, places: Any, updates: Any, reduction: str) -> Tensor:
    """Return flat `x` with updates at flat places: put, added, multiplied, or the larger or smaller one kept."""
    if reduction not in _REDUCTIONS:
        refuse(f"reduction is {reduction!r}, and none of {', '.join(_REDUCTIONS)}")
    places, updates = places.reshape((-1,)), updates.reshape((-1,))
    if reduction == "none":
        return wg.scatter(x, 0, places, updates)
    if reduction == "add":
        return wg.scatter_add(x, 0, places, updates).astype(x.dtype)
    combine = {"mul": wg.multiply, "max": wg.maximum, "min": wg.minimum}[reduction]
    if not places.is_abstract and len(np.unique(places.detach().numpy())) == places.shape[0]:
        return wg.scatter(x, 0, places, combine(wg.take(x, places, 0), updates))
    # An element may be met several times: one update after the other.
    if places.shape[0] > 4096:
        refuse(f"{places.shape[0]:,} updates with reduction={reduction!r} while places may repeat")
    for i in range(places.shape[0]):
        at = places[i : i + 1]
        x = wg.scatter(x, 0, at, combine(wg.take(x, at, 0), updates[i : i + 1]))
    return x


@operator("Scatter")
@operator("ScatterElements")
def _scatter_elements(x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none") -> Any:
    axis = axis_of(axis, x.ndim)
    if tuple(indices.shape) != tuple(updates.shape) or indices.ndim != x.ndim or x.dtype != updates.dtype:
        refuse(f"indices of shape {tuple(indices.shape)} and updates of shape {tuple(updates.shape)} do not fit")
    index = checked(indices, x.shape[axis]).astype(wg.int64)
    places = []
    for i in range(x.ndim):
        n = indices.shape[i]
        along = wg.arange(n).reshape(tuple(n if j == i else 1 for j in range(x.ndim)))
        places.append(index if i == axis else along)
    flat = wg.broadcast_to(_flat_places(places, x.shape), tuple(indices.shape))
    return scattered(x.reshape((-1,)), flat, updates, reduction).reshape(x.shape)


@operator("ScatterND")
def _scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    depth = indices.shape[-1]
    if depth > x.ndim or x.dtype != updates.dtype:
        refuse(f"indices of shape {tuple(indices.shape)} do not fit shape {tuple(x.shape)}")
    rest = tuple(x.shape[depth:])
    if tuple(updates.shape) != (*indices.shape[:-1], *rest):
        refuse(f"updates of shape {tuple(updates.shape)} do not fit indices of shape {tuple(indices.shape)}")
    places = [checked(indices[..., i], x.shape[i]).astype(wg.int64) for i in range(depth)]
    flat = _flat_places(places, x.shape[:depth])
    size = 1
    for n in rest:
        size *= n
    flat = wg.broadcast_to(flat, tuple(indices.shape[:-1])).reshape((-1, 1)) * size + wg.arange(size)
    return scattered(x.reshape((-1,)), flat, updates, reduction).reshape(x.shape)


@operator("TensorScatter")
def _tensor_scatter(past: Any, update: Any, at: Any = None, *, axis: int = -2, mode: str = "linear") -> Any:
    axis = axis_of(axis, past.ndim)
    if mode not in ("linear", "circular") or axis == 0:
        refuse(f"mode is {mode!r} and axis {axis}")
    count, size, batch = update.shape[axis], past.shape[axis], past.shape[0]
    start = wg.zeros((batch,), dtype=wg.int64) if at is None else at.astype(wg.int64)
    places = start.reshape((-1, 1)) + wg.arange(count)
    if mode == "circular":
        places = wg.remainder(places, size)
    elif not places.is_abstract and count and int(places.max()) >= size:
        refuse(f"an update ends behind the {size} elements of axis {axis}")
    shape = tuple(batch if i == 0 else count if i == axis else 1 for i in range(past.ndim))
    return wg.scatter(past, axis, wg.broadcast_to(places.reshape(shape), tuple(update.shape)), update)


# -- order


def _arg_rule(name: str, best: Any) -> None:
    def rule(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        axis = axis_of(axis, x.ndim)
        if select_last_index:
            return x.shape[axis] - 1 - best(wg.flip(x, axis), axis, bool(keepdims))
        return best(x, axis, bool(keepdims))

    operator(name)(rule)


_arg_rule("ArgMax", wg.argmax)
_arg_rule("ArgMin", wg.argmin)


def _top(x: Any, k: int, axis: int, largest: int, sorted_: int) -> tuple[Any, Any]:
    axis = axis_of(axis, x.ndim)
    if not 0 <= k <= x.shape[axis]:
        refuse(f"the first {k} of {x.shape[axis]} are asked for")
    # Of equal ones the one with the lower index comes first.
    order = wg.argsort(x, axis, descending=bool(largest), stable=True)
    places = order[(slice(None),) * axis + (slice(0, k),)]
    return wg.take_along_axis(x, places, axis), places.astype(wg.int64)


@operator("TopK")
def _top_k_old(x: Any, *, k: int, axis: int = -1) -> Any:
    return _top(x, k, axis, 1, 1)


@operator("TopK", since=10, static=(1,))
def _top_k(x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    return _top(x, int(k.reshape(())), axis, largest, sorted)


@operator("NonZero", raw=True)
def _nonzero(x: Any) -> Any:
    found = values_of(x, "the places of what is not zero")
    return np.stack(np.nonzero(found)).astype(np.int64) if found.ndim else np.zeros((0, int(found != 0)), np.int64)


@operator("Unique", raw=True)
def _unique(x: Any, *, axis: int | None = None, sorted: int = 1) -> Any:
    found = values_of(x, "the different elements")
    if axis is None:
        found, axis = found.reshape(-1), 0
    values, first, inverse, counts = np.unique(
        found, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        values = np.take(values, order, axis)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        first, counts, inverse = first[order], counts[order], place[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def _cumulative(x: Any, axis: Known, exclusive: int, reverse: int, function: Any, unit: int) -> Any:
    along = axis_of(int(axis.reshape(())), x.ndim)
    if reverse:
        x = wg.flip(x, along)
    out = function(x, along, dtype=x.dtype)
    if exclusive:
        n = x.shape[along]
        first = (slice(None),) * along + (slice(0, 1),)
        head = wg.full_like(out[first], unit)
        out = wg.concat([head, out[(slice(None),) * along + (slice(0, n - 1),)]], along) if n else out
    return wg.flip(out, along) if reverse else out


@operator("CumSum", static=(1,))
def _cumsum(x: Any, axis: Known, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return _cumulative(x, axis, exclusive, reverse, wg.cumulative_sum, 0)


@operator("CumProd", static=(1,))
def _cumprod(x: Any, axis: Known, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return _cumulative(x, axis, exclusive, reverse, wg.cumulative_prod, 1)


@operator("Det")
def _det(x: Any) -> Any:
    return wg.linalg.det(x)
