"""Gathers and scatters in XLA, with indices that count from the end, and checks of those that are out of range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.node import Node
from ..api import jnp, lax
from ..rules import Trace, dtype_of, lowers, narrow, shape_of, wide


def _place(t: Trace, entry: Any, index: Any, size: int) -> Any:
    """Return indices that may count from the end as places from the start; `entry` is what the node has of them."""
    index = jnp.asarray(index)
    t.check_integers(entry, index, -size, size)
    if index.dtype.itemsize < 4 or (index.dtype == np.uint32 and size < 2**31):
        index = narrow(index, np.dtype(np.int32))
    return index if index.dtype.kind == "u" else lax.select(index < 0, index + size, index)


def _places(t: Trace, entries: Sequence[Any], indices: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    found = [jnp.asarray(i) for i in indices]
    if any(i.size == 0 for i in found):  # nothing is picked: no index is looked at
        return [narrow(i, np.dtype(np.int64)) for i in found]
    return [_place(t, e, i, n) for e, i, n in zip(entries, found, sizes, strict=True)]


def _key(axis: int, places: Sequence[Any]) -> tuple[Any, ...]:
    return (..., *places, *[slice(None)] * (-axis - len(places)))


@lowers("row_index")
def _row_index(t: Trace, node: Node, ids: Any) -> Any:
    t.check_integers(node.inputs[0], ids, 0, node.attrs["rows"])
    return ids


@lowers("index")
def _index(t: Trace, node: Node, x: Any, *indices: Any) -> Any:
    axis = node.attrs["axis"]
    places = _places(t, node.inputs[1:], indices, x.shape[axis : axis + len(indices) or None])
    if not all(shape_of(node)):
        return jnp.zeros(shape_of(node), x.dtype)
    return x.at[_key(axis, places)].get(mode="clip")


@lowers("index_transpose")
def _index_transpose(t: Trace, node: Node, ct: Any, *indices: Any) -> Any:
    axis, dtype = node.attrs["axis"], dtype_of(node)
    places = _places(t, node.inputs[1:], indices, node.attrs["sizes"])
    ct = narrow(ct, np.dtype(np.int32)) if ct.dtype.kind == "b" else wide(ct)
    out = jnp.zeros(shape_of(node), ct.dtype)
    out = out.at[_key(axis, places)].add(ct, mode="drop") if ct.size else out
    return out != 0 if dtype.kind == "b" else narrow(out, dtype)


@lowers("index_update")
def _index_update(t: Trace, node: Node, x: Any, v: Any, *indices: Any) -> Any:
    axis, count = node.attrs["axis"], len(indices)
    sizes = x.shape[axis : axis + count or None]
    places = _places(t, node.inputs[2:], indices, sizes)
    common = np.broadcast_shapes(*(p.shape for p in places))
    if not all(common) or not x.size:
        return x
    tail = x.shape[axis + count :] if axis + count else ()
    v = jnp.broadcast_to(jnp.asarray(v, x.dtype), (*x.shape[:axis], *common, *tail))
    if len(common) == 0:
        return x.at[_key(axis, places)].set(v, mode="drop")
    # Of two writes to one place the last stays; XLA leaves that open, so earlier ones go nowhere.
    last = _is_last(places, sizes)
    places = [
        lax.select(last, jnp.broadcast_to(p, common), jnp.full(common, n, p.dtype)) for p, n in zip(places, sizes)
    ]
    return x.at[_key(axis, places)].set(v, mode="drop")


def _is_last(places: Sequence[Any], sizes: Sequence[int]) -> Any:
    flat: Any = 0
    for p, n in zip(places, sizes, strict=True):
        flat = flat * n + narrow(p, np.dtype(np.int64))
    order = lax.reshape(lax.iota(np.int64, flat.size), flat.shape)
    writer = jnp.full(int(np.prod(sizes)), -1, np.int64).at[flat].max(order, mode="drop")
    return writer.at[flat].get(mode="clip") == order


@lowers("index_is_last")
def _index_is_last(t: Trace, node: Node, *indices: Any) -> Any:
    sizes = node.attrs["sizes"]
    places = _places(t, node.inputs, indices, sizes)
    common = np.broadcast_shapes(*(p.shape for p in places))
    if not all(common):
        return jnp.zeros(common, bool)
    return _is_last([jnp.broadcast_to(p, common) for p in places], sizes)


@lowers("gather")
def _gather(t: Trace, node: Node, x: Any, indices: Any) -> Any:
    axis = node.attrs["axis"]
    if not all(shape_of(node)):
        return jnp.zeros(shape_of(node), x.dtype)
    place = _place(t, node.inputs[1], indices, x.shape[axis])
    return jnp.take_along_axis(x, place, axis, mode="clip")


@lowers("gather_transpose")
def _gather_transpose(t: Trace, node: Node, ct: Any, indices: Any) -> Any:
    axis, dtype = node.attrs["axis"], dtype_of(node)
    ct = narrow(ct, np.dtype(np.int32)) if ct.dtype.kind == "b" else wide(ct)
    out = jnp.zeros(shape_of(node), ct.dtype)
    if ct.size:
        place = _place(t, node.inputs[1], indices, node.attrs["size"])
        at = [lax.broadcasted_iota(place.dtype, ct.shape, k) for k in range(ct.ndim)]
        at[axis % ct.ndim] = place
        out = out.at[tuple(at)].add(ct, mode="drop")
    return out != 0 if dtype.kind == "b" else narrow(out, dtype)


@lowers("one_hot")
def _one_hot(t: Trace, node: Node, indices: Any) -> Any:
    classes = node.attrs["num_classes"]
    indices = jnp.asarray(indices)
    t.check_integers(node.inputs[0], indices, 0, classes)
    return narrow(indices[..., None] == np.arange(classes), dtype_of(node))
