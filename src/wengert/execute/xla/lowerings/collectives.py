"""Collectives in XLA, inside of `jax.shard_map`: a rank is a device, a mesh axis has its name there.

On a mesh of one rank, and along axes of one, nothing moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.node import Node
from ..api import jnp, lax
from ..rules import Trace, dtype_of, lowers, narrow, shape_of, wide


def _given(node: Node, x: Any) -> Any:
    """Return an operand, which may be a Python number, as an array."""
    return x if hasattr(x, "dtype") else jnp.asarray(np.asarray(x, dtype_of(node)))


def _place(node: Node, x: Any, axis: str = "axis") -> int:
    """Return an axis of the operand, which the node counts from the right, as JAX counts it."""
    return int(node.attrs[axis]) % int(x.ndim)


def _moves(t: Trace, node: Node, x: Any) -> str | None:
    """Return the name of the axis along which anything moves; None where nothing does."""
    over = t.axis_of(node)
    return over if x.size else None


@lowers("all_reduce")
def _all_reduce(t: Trace, node: Node, x: Any) -> Any:
    x = _given(node, x)
    over = _moves(t, node, x)
    return x if over is None else narrow(lax.psum(wide(x), over), dtype_of(node))


@lowers("pcast")
def _pcast(t: Trace, node: Node, x: Any) -> Any:
    return _given(node, x)


@lowers("all_reduce_max")
def _all_reduce_max(t: Trace, node: Node, x: Any) -> Any:
    x = _given(node, x)
    over = _moves(t, node, x)
    if over is None:
        return x
    x, dtype = wide(x), dtype_of(node)
    if x.dtype.kind != "f":
        return narrow(lax.pmax(x, over), dtype)
    # Whether the greatest of a NaN and a number is NaN depends on the order of the ranks.
    is_nan = x != x
    greatest = lax.pmax(jnp.where(is_nan, -jnp.inf, x), over)
    return narrow(jnp.where(lax.psum(narrow(is_nan, np.dtype(np.int32)), over) > 0, jnp.nan, greatest), dtype)


@lowers("reduce_scatter")
def _reduce_scatter(t: Trace, node: Node, x: Any) -> Any:
    x = _given(node, x)
    over = _moves(t, node, x)
    if over is None:
        return lax.reshape(x, shape_of(node))
    found = lax.psum_scatter(wide(x), over, scatter_dimension=_place(node, x), tiled=True)
    return narrow(found, dtype_of(node))


@lowers("all_gather")
def _all_gather(t: Trace, node: Node, x: Any) -> Any:
    x = _given(node, x)
    over = _moves(t, node, x)
    if over is None:
        return lax.reshape(x, shape_of(node))
    return lax.all_gather(x, over, axis=_place(node, x), tiled=True)


@lowers("own_part")
def _own_part(t: Trace, node: Node, x: Any) -> Any:
    x = _given(node, x)
    over = _moves(t, node, x)
    return lax.reshape(x, shape_of(node)) if over is None else part_of(x, _place(node, x), over, node.attrs["ranks"])


def part_of(x: Any, axis: int, over: str, ranks: int) -> Any:
    """Return a rank's part of a whole array along an axis."""
    size = x.shape[axis] // ranks
    return lax.dynamic_slice_in_dim(x, lax.axis_index(over) * size, size, axis)


@lowers("ppermute")
def _ppermute(t: Trace, node: Node, x: Any) -> Any:
    x, pairs = _given(node, x), node.attrs["pairs"]
    over = _moves(t, node, x)
    if over is None:
        return x if pairs else jnp.zeros_like(x)
    return lax.ppermute(x, over, pairs)


@lowers("all_to_all")
def _all_to_all(t: Trace, node: Node, x: Any) -> Any:
    x = _given(node, x)
    over = _moves(t, node, x)
    if over is None:
        return lax.reshape(x, shape_of(node))
    return lax.all_to_all(x, over, _place(node, x, "split"), _place(node, x, "join"), tiled=True)


@lowers("broadcast_from")
def _broadcast_from(t: Trace, node: Node, x: Any) -> Any:
    x = _given(node, x)
    over = _moves(t, node, x)
    if over is None:
        return x
    if x.dtype.kind == "c":
        return lax.complex(_sent(lax.real(x), over, node), _sent(lax.imag(x), over, node))
    return _sent(x, over, node)


def _sent(x: Any, over: str, node: Node) -> Any:
    """Return what one rank has: the sum of its bits and of zeros, which is exact, signs of zeros and NaNs too."""
    dtype, word = np.dtype(x.dtype), np.dtype(f"u{x.dtype.itemsize}")
    bits = narrow(x, word) if dtype.kind == "b" else lax.bitcast_convert_type(x, word)
    counted = narrow(bits, np.dtype(np.uint32)) if word.itemsize < 4 else bits
    is_root = lax.axis_index(over) == node.attrs["root"]
    found = narrow(lax.psum(jnp.where(is_root, counted, jnp.zeros_like(counted)), over), word)
    return found != 0 if dtype.kind == "b" else lax.bitcast_convert_type(found, dtype)


@lowers("axis_index")
def _axis_index(t: Trace, node: Node) -> Any:
    over = t.axis_of(node)
    return jnp.zeros((), np.int64) if over is None else narrow(lax.axis_index(over), np.dtype(np.int64))
