"""Products, convolutions and pools in XLA: exact in their dtype, with sums of half precision in float32."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....core.node import Node
from ..api import jnp, lax
from ..rules import Trace, dtype_of, gives_images, is_half, lowers, narrow, shape_of, wide


def _contract(node: Node, x: Any, y: Any, contracted: Any, batch: Any) -> Any:
    """Return a product of two arrays in the dtype of the node."""
    dtype = dtype_of(node)
    if dtype.kind == "b":
        x, y = (narrow(v, np.dtype(np.int32)) for v in (x, y))
        return lax.dot_general(x, y, (contracted, batch)) != 0
    kept = np.dtype(np.float32) if is_half(dtype) else dtype
    out = lax.dot_general(x, y, (contracted, batch), precision=lax.Precision.HIGHEST, preferred_element_type=kept)
    return narrow(out, dtype)


@lowers("matmul", "matvec", "vecmat", "dot")
def _matmul(t: Trace, node: Node, x: Any, y: Any) -> Any:
    name = node.op.name
    rows, columns = name in ("matmul", "matvec"), name in ("matmul", "vecmat")
    lead_x, lead_y = x.ndim - 1 - rows, y.ndim - 1 - columns
    if columns and lead_y == 0 and lead_x >= 0:  # one matrix for all leading axes
        return _contract(node, x, y, ((x.ndim - 1,), (0,)), ((), ()))
    if lead_x != lead_y or x.shape[:lead_x] != y.shape[:lead_y]:
        lead = np.broadcast_shapes(x.shape[:lead_x], y.shape[:lead_y])
        x = jnp.broadcast_to(x, (*lead, *x.shape[lead_x:]))
        y = jnp.broadcast_to(y, (*lead, *y.shape[lead_y:]))
        lead_x = len(lead)
    batch = tuple(range(lead_x))
    return _contract(node, x, y, ((x.ndim - 1,), (lead_x,)), (batch, batch))


@lowers("einsum")
def _einsum(t: Trace, node: Node, *xs: Any) -> Any:
    dtype = dtype_of(node)
    kept = np.dtype(np.float32) if is_half(dtype) else dtype
    out = jnp.einsum(
        node.attrs["subscripts"], *xs, precision=lax.Precision.HIGHEST, preferred_element_type=kept, optimize="optimal"
    )
    return narrow(out, dtype)


# -- convolutions


def _layout(n: int) -> Any:
    """Return the axes of images (N, C, *S), kernels (O, I, *K) and results (N, O, *S)."""
    plain = (0, 1, *range(2, n + 2))
    return lax.ConvDimensionNumbers(plain, plain, plain)


def _images(x: Any, n: int) -> Any:
    return lax.reshape(x, (prod(x.shape[: -n - 1]), *x.shape[-n - 1 :]))


def _convolved(x: Any, w: Any, dtype: Any, **options: Any) -> Any:
    if dtype.kind in "iu":  # integers by products of doubles would round: XLA has sums of them
        return lax.conv_general_dilated(x, w, **options, preferred_element_type=dtype)
    kept = np.dtype(np.float32) if is_half(dtype) else dtype
    return lax.conv_general_dilated(
        wide(x), wide(w), **options, precision=lax.Precision.HIGHEST, preferred_element_type=kept
    )


@lowers("convolve")
def _convolve(t: Trace, node: Node, x: Any, w: Any) -> Any:
    a = node.attrs
    n = len(a["stride"])
    out = _convolved(
        _images(x, n), w, dtype_of(node), window_strides=a["stride"], padding=a["padding"], rhs_dilation=a["dilation"],
        feature_group_count=a["groups"], dimension_numbers=_layout(n),
    )  # fmt: skip
    return narrow(lax.reshape(out, shape_of(node)), dtype_of(node))


@lowers("convolve_transpose")
def _convolve_transpose(t: Trace, node: Node, y: Any, w: Any) -> Any:
    """Return the convolution of the dilated cotangent with the turned kernel, its channels exchanged."""
    a = node.attrs
    n, groups = len(a["stride"]), a["groups"]
    y = _images(y, n)
    o, i, *kernel = w.shape
    turned = lax.rev(w, tuple(range(2, n + 2)))
    turned = jnp.swapaxes(lax.reshape(turned, (groups, o // groups, i, *kernel)), 1, 2)
    turned = lax.reshape(turned, (groups * i, o // groups, *kernel))
    pads = []
    for k, d, (low, _), s, size, m in zip(
        kernel, a["dilation"], a["padding"], a["stride"], a["size"], y.shape[2:], strict=True
    ):
        before = d * (k - 1) - low
        pads.append((before, size - ((m - 1) * s + 1) + d * (k - 1) - before))
    out = _convolved(
        y, turned, dtype_of(node), window_strides=(1,) * n, padding=pads, lhs_dilation=a["stride"],
        rhs_dilation=a["dilation"], feature_group_count=groups, dimension_numbers=_layout(n),
    )  # fmt: skip
    return narrow(lax.reshape(out, shape_of(node)), dtype_of(node))


@lowers("convolve_kernel")
def _convolve_kernel(t: Trace, node: Node, x: Any, y: Any) -> Any:
    """Return the convolution of images and cotangents whose batch takes the place of the channels."""
    a = node.attrs
    n, groups = len(a["stride"]), a["groups"]
    x, y = _images(x, n), _images(y, n)
    pads = []
    for k, d, (low, _), s, size, m in zip(
        a["kernel"], a["dilation"], a["padding"], a["stride"], x.shape[2:], y.shape[2:], strict=True
    ):
        pads.append((low, d * (k - 1) + (m - 1) * s + 1 - size - low))
    # Images (C, N, *S), kernels (O, N, *out), results (C / groups, O, *K): the groups are those of the batch.
    swapped = (1, 0, *range(2, n + 2))
    layout = lax.ConvDimensionNumbers(swapped, swapped, swapped)
    out = _convolved(
        x, y, dtype_of(node), window_strides=a["dilation"], padding=pads, rhs_dilation=a["stride"],
        batch_group_count=groups, dimension_numbers=layout,
    )  # fmt: skip
    return narrow(lax.reshape(out, shape_of(node)), dtype_of(node))


# -- pools


class _Pool:
    """A pool's windows along its last axes, computed with channels behind them: as XLA's convolutions have images."""

    def __init__(self, node: Node) -> None:
        a = node.attrs
        self.node, self.kernel, self.stride, self.padding = node, a["kernel"], a["stride"], a["padding"]
        self.dilation = a.get("dilation", (1,) * len(self.kernel))
        self.count = prod(self.kernel)

    def last(self, x: Any) -> Any:
        """Return an array with its channels behind; one axis of length 1 where there are none."""
        n = len(self.kernel)
        return jnp.moveaxis(x, x.ndim - n - 1, -1) if x.ndim > n else lax.expand_dims(x, (n,))

    def first(self, x: Any) -> Any:
        """Return an array as the op has it: of the shape of the node."""
        n = len(self.kernel)
        return jnp.moveaxis(x, -1, x.ndim - n - 1) if len(shape_of(self.node)) > n else lax.squeeze(x, (x.ndim - 1,))

    def lead(self, x: Any) -> int:
        """Return the number of axes before those that windows go over."""
        return int(x.ndim) - len(self.kernel) - 1

    def parts(self, x: Any, fill: Any) -> list[Any]:
        """Return the elements of all windows, one kernel offset after the other."""
        lead = self.lead(x)
        pads = [(0, 0, 0)] * lead + [(low, high, 0) for low, high in self.padding] + [(0, 0, 0)]
        x = lax.pad(x, np.asarray(fill, x.dtype), pads)
        sizes = zip(x.shape[lead:-1], self.kernel, self.stride, self.dilation, strict=True)
        out = [(m - d * (k - 1) - 1) // s + 1 for m, k, s, d in sizes]
        parts = []
        for offset in np.ndindex(*self.kernel):
            start = [k * d for k, d in zip(offset, self.dilation, strict=True)]
            stop = [at + (m - 1) * s + 1 for at, m, s in zip(start, out, self.stride, strict=True)]
            begin, end = (*(0,) * lead, *start, 0), (*x.shape[:lead], *stop, x.shape[-1])
            parts.append(lax.slice(x, begin, end, (*(1,) * lead, *self.stride, 1)))
        return parts

    def spread(self, parts: Sequence[Any]) -> Any:
        """Return the sum of windows' parts at the places where `parts` takes them from."""
        out: Any = None
        for offset, part in zip(np.ndindex(*self.kernel), parts, strict=True):
            lead = self.lead(part)
            pads = [(0, 0, 0)] * lead
            windows = zip(
                offset,
                self.dilation,
                self.stride,
                self.padding,
                self.node.attrs["size"],
                part.shape[lead:-1],
                strict=True,
            )
            for k, d, s, (low, _), n, m in windows:
                before = k * d - low
                pads.append((before, n - before - ((m - 1) * s + 1), s - 1))
            placed = lax.pad(part, np.zeros((), part.dtype), [*pads, (0, 0, 0)])
            out = placed if out is None else out + placed
        return out

    def tiles(self, y: Any) -> bool:
        """Return whether the windows of a result lie side by side, and are all that there is."""
        sizes = tuple(m * k for m, k in zip(y.shape[self.lead(y) : -1], self.kernel, strict=True))
        plain = all(d == 1 for d in self.dilation) and not any(p for pair in self.padding for p in pair)
        return plain and tuple(self.stride) == tuple(self.kernel) and sizes == tuple(self.node.attrs["size"])

    def tiled(self, y: Any) -> Any:
        """Return a result's elements for every place of their windows, side by side: two axes for one."""
        lead = self.lead(y)
        windows = [n for pair in zip(y.shape[lead:-1], self.kernel, strict=True) for n in pair]
        shape = (*y.shape[:lead], *windows, y.shape[-1])
        return lax.broadcast_in_dim(y, shape, (*range(lead), *range(lead, len(shape), 2)))

    def numbers(self, y: Any, dtype: Any) -> Any:
        """Return the number of each place in its window, in the shape of `tiled`."""
        ones = [n for k in self.kernel for n in (1, k)]
        numbers = np.arange(self.count, dtype=dtype).reshape(*(1,) * self.lead(y), *ones, 1)
        return jnp.broadcast_to(numbers, self.tiled(y).shape)

    def joined(self, tiled: Any) -> Any:
        """Return what is tiled as one array."""
        lead = tiled.ndim - 2 * len(self.kernel) - 1
        return lax.reshape(tiled, (*tiled.shape[:lead], *self.node.attrs["size"], tiled.shape[-1]))


def _lowest(dtype: Any) -> Any:
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


@lowers("max_pool")
def _max_pool(t: Trace, node: Node, x: Any) -> Any:
    pool = _Pool(node)
    x = pool.last(x)
    combine = lax.max if x.dtype != bool else lax.bitwise_or
    out: Any = None
    if any(p < 0 for pair in pool.padding for p in pair):
        for part in pool.parts(x, _lowest(x.dtype)):
            out = part if out is None else combine(out, part)
    else:
        ones, still = (1,) * pool.lead(x), [(0, 0)]
        out = lax.reduce_window(
            x, np.asarray(_lowest(x.dtype), x.dtype), combine, (*ones, *pool.kernel, 1), (*ones, *pool.stride, 1),
            still * pool.lead(x) + list(pool.padding) + still, None, (*ones, *pool.dilation, 1),
        )  # fmt: skip
    return pool.first(out)


@lowers("argmax_pool")
def _argmax_pool(t: Trace, node: Node, x: Any) -> Any:
    # Every element is compared with the greatest before it: XLA may compute what it is asked for twice in two ways, and
    # no element need equal a maximum that was found elsewhere.
    pool, dtype = _Pool(node), dtype_of(node)
    x = pool.last(x)
    best: Any = None
    # Padding is no element: the mask says what is.
    inside = pool.parts(jnp.ones(x.shape, bool), False)
    winners = jnp.full(inside[0].shape, pool.count, dtype)
    found: Any = None
    for number, (part, is_one) in enumerate(zip(pool.parts(x, _lowest(x.dtype)), inside, strict=True)):
        if found is None:
            better, best, found = is_one, part, is_one
        else:
            better = is_one & (~found | (part > best) | ((part != part) & (best == best)))
            best, found = lax.select(better, part, best), found | is_one
        winners = lax.select(better, jnp.full_like(winners, number), winners)
    return pool.first(winners)


@lowers("pool_select")
def _pool_select(t: Trace, node: Node, x: Any, winners: Any) -> Any:
    pool = _Pool(node)
    winners = pool.last(winners)
    out = jnp.zeros(winners.shape, x.dtype)
    for number, part in enumerate(pool.parts(pool.last(x), np.zeros((), x.dtype))):
        out = lax.select(winners == number, part, out)
    return pool.first(out)


@lowers("pool_scatter")
def _pool_scatter(t: Trace, node: Node, y: Any, winners: Any) -> Any:
    pool, dtype = _Pool(node), dtype_of(node)
    y, winners = pool.last(y), pool.last(winners)
    y = narrow(y, np.dtype(np.int32)) if y.dtype.kind == "b" else wide(y)
    if pool.tiles(y):
        here = pool.tiled(winners) == pool.numbers(winners, winners.dtype)
        everywhere = pool.tiled(y)
        out = pool.joined(lax.select(here, everywhere, jnp.zeros_like(everywhere)))
    else:
        zero = jnp.zeros_like(y)
        out = pool.spread([lax.select(winners == k, y, zero) for k in range(pool.count)])
    return pool.first(out != 0 if dtype.kind == "b" else narrow(out, dtype))


@lowers("sum_pool")
def _sum_pool(t: Trace, node: Node, x: Any) -> Any:
    pool = _Pool(node)
    out: Any = None
    for part in pool.parts(wide(pool.last(x)), 0):
        out = part if out is None else out + part
    return pool.first(narrow(out, dtype_of(node)))


@lowers("spread_pool")
def _spread_pool(t: Trace, node: Node, y: Any) -> Any:
    pool = _Pool(node)
    y = wide(pool.last(y))
    out = pool.joined(pool.tiled(y)) if pool.tiles(y) else pool.spread([y] * pool.count)
    return pool.first(narrow(out, dtype_of(node)))


gives_images("convolve", "convolve_transpose")
gives_images("max_pool", "argmax_pool", "pool_select", "pool_scatter", "sum_pool", "spread_pool")
