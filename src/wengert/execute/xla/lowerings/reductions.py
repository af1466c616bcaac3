"""Reductions, running sums, order and products in XLA. Sums of half precision are kept in float32 and rounded once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.graph.snapshot import specs_of
from ....core.node import Node
from ..api import jnp, lax
from ..rules import Trace, axes_of, dtype_of, is_half, lowers, narrow, once, shape_of, wide


def _kept(node: Node, x: Any) -> Any:
    """Return a reduced array with the axes that the node keeps, in its dtype."""
    return narrow(lax.reshape(x, shape_of(node)), dtype_of(node))


def _axes(node: Node, x: Any) -> tuple[int, ...]:
    return axes_of(node.attrs["axis"], x.ndim)


@lowers("sum", "prod")
def _sum(t: Trace, node: Node, x: Any) -> Any:
    dtype = dtype_of(node)
    x = narrow(x, np.dtype(np.float32) if is_half(dtype) else dtype)
    add = lax.reduce_sum if node.op.name == "sum" else lax.reduce_prod
    return _kept(node, add(x, _axes(node, x)))


def _mean_of(x: Any, axes: tuple[int, ...]) -> Any:
    count = math.prod(x.shape[a] for a in axes)
    return lax.reduce_sum(x, axes) / np.asarray(count or math.nan, x.dtype)


@lowers("mean")
def _mean(t: Trace, node: Node, x: Any) -> Any:
    dtype = dtype_of(node)
    return _kept(node, _mean_of(wide(x) if is_half(dtype) else narrow(x, dtype), _axes(node, x)))


@lowers("max", "min")
def _extreme(t: Trace, node: Node, x: Any) -> Any:
    largest = node.op.name == "max"
    if x.dtype == bool:
        return _kept(node, (lax.reduce_or if largest else lax.reduce_and)(x, _axes(node, x)))
    return _kept(node, (lax.reduce_max if largest else lax.reduce_min)(x, _axes(node, x)))


@lowers("any", "all")
def _truth(t: Trace, node: Node, x: Any) -> Any:
    x = x if x.dtype == bool else x != 0
    return _kept(node, (lax.reduce_or if node.op.name == "any" else lax.reduce_and)(x, _axes(node, x)))


@lowers("count_nonzero")
def _count_nonzero(t: Trace, node: Node, x: Any) -> Any:
    return _kept(node, lax.reduce_sum(narrow(x if x.dtype == bool else x != 0, np.dtype(np.int64)), _axes(node, x)))


@lowers("argmax", "argmin")
def _position(t: Trace, node: Node, x: Any) -> Any:
    fn = lax.argmax if node.op.name == "argmax" else lax.argmin
    if x.dtype == bool:
        x = narrow(x, np.dtype(np.int8))
    if x.dtype.kind == "c":
        return _kept(node, _position_of_complex(x, node.attrs["axis"] % x.ndim, fn))
    return _kept(node, fn(x, node.attrs["axis"] % x.ndim, np.int64))


def _position_of_complex(x: Any, axis: int, fn: Any) -> Any:
    """Return the place of the first extreme in NumPy's order: by real parts, then by imaginary ones; NaN first."""
    x = once(x)  # else no real part need equal the greatest
    real, imaginary, nan = lax.real(x), lax.imag(x), x != x
    other = jnp.asarray(-np.inf if fn is lax.argmax else np.inf, real.dtype)
    best = jnp.expand_dims((jnp.max if fn is lax.argmax else jnp.min)(real, axis), axis)
    found = fn(lax.select(real == best, imaginary, jnp.broadcast_to(other, x.shape)), axis, np.int64)
    return lax.select(lax.reduce_or(nan, (axis,)), lax.argmax(narrow(nan, np.dtype(np.int8)), axis, np.int64), found)


@lowers("logsumexp")
def _logsumexp(t: Trace, node: Node, x: Any) -> Any:
    axes = _axes(node, x)
    x = wide(x)
    top = lax.reduce_max(x, axes)
    top = lax.select(lax.is_finite(top), top, jnp.zeros_like(top))
    spread_top = lax.broadcast_in_dim(top, x.shape, [a for a in range(x.ndim) if a not in axes])
    return _kept(node, lax.log(lax.reduce_sum(lax.exp(x - spread_top), axes)) + top)


def _centred(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the mean along axes, and numbers less their mean."""
    mean = _mean_of(x, axes)
    return mean, x - lax.broadcast_in_dim(mean, x.shape, [a for a in range(x.ndim) if a not in axes])


def _squares(x: Any) -> Any:
    return lax.real(x) * lax.real(x) + lax.imag(x) * lax.imag(x) if x.dtype.kind == "c" else x * x


@lowers("var")
def _var(t: Trace, node: Node, x: Any) -> Any:
    axes, correction = _axes(node, x), node.attrs["correction"]
    x = wide(x) if x.dtype.kind in "fcV" else narrow(x, dtype_of(node))
    squares = _squares(_centred(x, axes)[1])
    left = math.prod(x.shape[a] for a in axes) - correction
    return _kept(node, lax.reduce_sum(squares, axes) / np.asarray(left if left > 0 else math.nan, squares.dtype))


@lowers("standardize")
def _standardize(t: Trace, node: Node, x: Any) -> Any:
    axes = _axes(node, x)
    x = wide(x)
    count = math.prod(x.shape[a] for a in axes) or 1
    kept = [1 if a in axes else n for a, n in enumerate(x.shape)]
    n = np.asarray(count, x.dtype)
    mean = lax.reshape(lax.reduce_sum(x, axes), kept) / n
    out = x - mean
    variance = lax.reshape(lax.reduce_sum(out * out, axes), kept) / n
    out = out * (1 / lax.sqrt(variance + np.asarray(node.attrs["eps"], x.dtype)))
    return tuple(narrow(v, s.dtype) for v, s in zip((out, mean, variance), specs_of(node), strict=True))


# -- running


@lowers("cumulative_sum", "cumulative_prod")
def _running(t: Trace, node: Node, x: Any) -> Any:
    axis, reverse = node.attrs["axis"] % x.ndim, node.attrs["reverse"]
    dtype = dtype_of(node)
    x = wide(x) if is_half(dtype) else narrow(x, dtype)
    run = lax.cumsum if node.op.name == "cumulative_sum" else lax.cumprod
    if not node.attrs.get("exclusive"):
        return narrow(run(x, axis, reverse), dtype)
    n = x.shape[axis]
    if n == 0:
        return narrow(x, dtype)
    ones = jnp.ones_like(lax.slice_in_dim(x, 0, 1, axis=axis))
    rest = run(
        lax.slice_in_dim(x, 1, n, axis=axis) if reverse else lax.slice_in_dim(x, 0, n - 1, axis=axis), axis, reverse
    )
    return narrow(lax.concatenate([rest, ones] if reverse else [ones, rest], axis), dtype)


@lowers("linear_recurrence")
def _linear_recurrence(t: Trace, node: Node, a: Any, b: Any) -> Any:
    axis = node.attrs["axis"]
    shape = shape_of(node)
    a, b = (jnp.moveaxis(jnp.broadcast_to(jnp.asarray(v), shape), axis, 0) for v in (a, b))

    def step(state: Any, row: Any) -> tuple[Any, Any]:
        state = row[0] * state + row[1]
        return state, state

    _, out = lax.scan(step, jnp.zeros(b.shape[1:], b.dtype), (a, b), reverse=node.attrs["reverse"])
    return jnp.moveaxis(out, 0, axis)


# -- order


def _ranked(x: Any, axis: int, descending: bool) -> Any:
    """Return the stable order along an axis, NaN last; of a descending one NaN first, equals in their order."""
    x = wide(x)
    if x.dtype == bool:
        x = narrow(x, np.dtype(np.int8))
    axis %= x.ndim
    places = lax.broadcasted_iota(np.int64, x.shape, axis)
    # Backwards in and backwards out: equal elements stay in their order.
    x = lax.rev(x, (axis,)) if descending else x
    if x.dtype.kind == "f":
        x = lax.select(x == x, x, jnp.full_like(x, np.nan)) + np.zeros((), x.dtype)  # -0.0 is 0.0, NaN has no sign
    order = lax.sort((x, places), dimension=axis, is_stable=True, num_keys=1)[1]
    return x.shape[axis] - 1 - lax.rev(order, (axis,)) if descending else order


@lowers("argsort")
def _argsort(t: Trace, node: Node, x: Any) -> Any:
    return _ranked(x, node.attrs["axis"], node.attrs["descending"])


@lowers("arg_top_k")
def _arg_top_k(t: Trace, node: Node, x: Any) -> Any:
    axis = node.attrs["axis"] % x.ndim
    return lax.slice_in_dim(_ranked(x, axis, node.attrs["largest"]), 0, node.attrs["k"], axis=axis)


@lowers("searchsorted")
def _searchsorted(t: Trace, node: Node, rows: Any, values: Any) -> Any:
    """Count the elements that stand before each value by halving, in the order of sorting: NaN comes last."""
    right = node.attrs["right"]
    rows, values = wide(rows), wide(values)
    n = rows.shape[-1]
    low, high = (jnp.full(values.shape, v, np.int64) for v in (0, n))
    for _ in range(max(n, 1).bit_length() if n else 0):
        middle = (low + high) >> 1
        at = jnp.minimum(middle, n - 1)
        seen = rows[at] if rows.ndim == 1 else jnp.take_along_axis(rows, at, -1)
        goes_on = (_before(seen, values) | _equal(seen, values)) if right else _before(seen, values)
        goes_on = goes_on & (low < high)
        low, high = lax.select(goes_on, middle + 1, low), lax.select(goes_on, high, middle)
    return low


def _before(a: Any, b: Any) -> Any:
    return (a < b) | ((a == a) & (b != b))


def _equal(a: Any, b: Any) -> Any:
    return (a == b) | ((a != a) & (b != b))
