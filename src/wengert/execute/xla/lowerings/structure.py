"""Shapes, joins and slices in XLA."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.node import Node
from ..api import jnp, lax
from ..rules import Trace, axes_of, dtype_of, lowers, narrow, shape_of, spread, wide


@lowers("reshape", "squeeze", "expand_dims")
def _reshape(t: Trace, node: Node, x: Any) -> Any:
    return lax.reshape(x, shape_of(node))


@lowers("broadcast")
def _broadcast(t: Trace, node: Node, x: Any) -> Any:
    return spread(jnp.asarray(x, dtype_of(node)) if not hasattr(x, "dtype") else x, shape_of(node))


@lowers("permute")
def _permute(t: Trace, node: Node, x: Any) -> Any:
    axes = node.attrs["axes"]
    lead = x.ndim - len(axes)
    return lax.transpose(x, (*range(lead), *(a % x.ndim for a in axes)))


@lowers("flip")
def _flip(t: Trace, node: Node, x: Any) -> Any:
    return lax.rev(x, axes_of(node.attrs["axis"], x.ndim))


@lowers("roll")
def _roll(t: Trace, node: Node, x: Any) -> Any:
    return jnp.roll(x, node.attrs["shift"], node.attrs["axis"])


@lowers("concat")
def _concat(t: Trace, node: Node, *xs: Any) -> Any:
    return lax.concatenate(xs, node.attrs["axis"] % xs[0].ndim)


@lowers("stack")
def _stack(t: Trace, node: Node, *xs: Any) -> Any:
    return jnp.stack(xs, node.attrs["axis"])


@lowers("split")
def _split(t: Trace, node: Node, x: Any) -> Any:
    axis, at, parts = node.attrs["axis"] % x.ndim, 0, []
    for size in node.attrs["sizes"]:
        parts.append(lax.slice_in_dim(x, at, at + size, axis=axis))
        at += size
    return tuple(parts)


@lowers("unstack")
def _unstack(t: Trace, node: Node, x: Any) -> Any:
    axis = node.attrs["axis"] % x.ndim
    return tuple(lax.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis]))


@lowers("pad")
def _pad(t: Trace, node: Node, x: Any) -> Any:
    widths = node.attrs["widths"]
    pads = [(0, 0, 0)] * (x.ndim - len(widths)) + [(a, b, 0) for a, b in widths]
    return lax.pad(x, np.zeros((), x.dtype), pads)


@lowers("tile")
def _tile(t: Trace, node: Node, x: Any) -> Any:
    return jnp.tile(x, node.attrs["repetitions"])


@lowers("repeat")
def _repeat(t: Trace, node: Node, x: Any) -> Any:
    repeats, axis = node.attrs["repeats"], node.attrs["axis"]
    if isinstance(repeats, int):
        return jnp.repeat(x, repeats, axis)
    return jnp.take(x, np.repeat(np.arange(len(repeats)), repeats), axis=axis)


@lowers("sum_runs")
def _sum_runs(t: Trace, node: Node, x: Any) -> Any:
    repeats, axis = node.attrs["repeats"], node.attrs["axis"] % x.ndim
    dtype = dtype_of(node)
    x = narrow(x, np.dtype(np.int32)) if dtype.kind == "b" else x
    if isinstance(repeats, int):
        shape = (*x.shape[:axis], x.shape[axis] // repeats, repeats, *x.shape[axis + 1 :])
        return _narrowed(lax.reduce_sum(lax.reshape(wide(x), shape), (axis + 1,)), dtype)
    rows = np.repeat(np.arange(len(repeats)), repeats)
    moved = jnp.moveaxis(wide(x), axis, 0)
    out = jnp.zeros((len(repeats), *moved.shape[1:]), moved.dtype).at[rows].add(moved)
    return _narrowed(jnp.moveaxis(out, 0, axis), dtype)


def _narrowed(x: Any, dtype: Any) -> Any:
    return x != 0 if dtype.kind == "b" else narrow(x, dtype)


@lowers("shift")
def _shift(t: Trace, node: Node, x: Any) -> Any:
    axis, by = node.attrs["axis"] % x.ndim, node.attrs["by"]
    pads = [(0, 0, 0)] * x.ndim
    pads[axis] = (by, -by, 0)
    n = x.shape[axis]
    return jnp.zeros_like(x) if abs(by) >= n else lax.pad(x, np.zeros((), x.dtype), pads)


@lowers("tril", "triu")
def _triangle(t: Trace, node: Node, x: Any) -> Any:
    k = node.attrs["k"]
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    kept = columns - rows <= k if node.op.name == "tril" else columns - rows >= k
    return lax.select(spread(kept, x.shape), x, jnp.zeros_like(x))


@lowers("diagonal")
def _diagonal(t: Trace, node: Node, x: Any) -> Any:
    return jnp.diagonal(x, node.attrs["offset"], -2, -1)


@lowers("embed_diagonal")
def _embed_diagonal(t: Trace, node: Node, x: Any) -> Any:
    offset = node.attrs["offset"]
    i = np.arange(x.shape[-1])
    return jnp.zeros(shape_of(node), x.dtype).at[..., i + max(0, -offset), i + max(0, offset)].set(x)


@lowers("size")
def _size(t: Trace, node: Node) -> Any:
    return jnp.asarray(node.attrs["dim"], dtype_of(node))


# -- slices


def _places(node: Node, rank: int) -> tuple[Any, ...]:
    """Return the index of a static slice as JAX takes it, without an ellipsis."""
    entries = node.attrs["entries"]
    lead = rank - sum(e is not None for e in entries)
    return (slice(None),) * lead + tuple(slice(*e) if isinstance(e, tuple) else e for e in entries)


@lowers("slice")
def _slice(t: Trace, node: Node, x: Any) -> Any:
    starts, stops, steps, turned = [], [], [], []
    for axis, (n, place) in enumerate(zip(x.shape, (p for p in _places(node, x.ndim) if p is not None), strict=True)):
        picked = range(n)[place] if isinstance(place, slice) else range(place, place + 1)
        if picked.step < 0:
            picked = picked[::-1]
            turned.append(axis)
        stop = picked[-1] + 1 if picked else picked.start
        starts.append(min(picked.start, n))
        stops.append(max(min(stop, n), min(picked.start, n)))
        steps.append(picked.step)
    out = lax.slice(x, starts, stops, steps)
    out = lax.rev(out, turned) if turned else out
    return lax.reshape(out, shape_of(node))


@lowers("slice_transpose")
def _slice_transpose(t: Trace, node: Node, ct: Any) -> Any:
    shape = shape_of(node)
    pads: list[tuple[int, int, int]] = []
    turned, sizes = [], []
    for n, place in zip(shape, (p for p in _places(node, len(shape)) if p is not None), strict=True):
        picked = range(n)[place] if isinstance(place, slice) else range(place, place + 1)
        if picked.step < 0:
            picked = picked[::-1]
            turned.append(len(pads))
        count = len(picked)
        sizes.append(count)
        pads.append((picked.start, n - picked[-1] - 1, picked.step - 1) if count else (0, n, 0))
    ct = lax.reshape(ct, sizes)
    ct = lax.rev(ct, turned) if turned else ct
    return lax.pad(ct, np.zeros((), ct.dtype), pads)


@lowers("slice_update")
def _slice_update(t: Trace, node: Node, x: Any, v: Any) -> Any:
    v = jnp.asarray(v, x.dtype)
    places = _places(node, x.ndim)
    kept = jnp.zeros(x.shape, bool)[places].shape
    while v.ndim > len(kept):
        v = v[0]
    starts = [p.indices(n)[0] if isinstance(p, slice) else p for p, n in zip(_whole(places), x.shape, strict=True)]
    if all(not isinstance(p, slice) or p.step in (None, 1) for p in places):
        sizes = [len(range(n)[p]) if isinstance(p, slice) else 1 for p, n in zip(_whole(places), x.shape, strict=True)]
        return lax.dynamic_update_slice(x, lax.reshape(spread(v, kept), sizes), starts) if all(sizes) else x
    return x.at[places].set(v)


def _whole(places: tuple[Any, ...]) -> list[Any]:
    return [p for p in places if p is not None]
