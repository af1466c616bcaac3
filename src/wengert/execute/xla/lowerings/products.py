"""Products, convolutions and pools in XLA: exact in their dtype, with sums of half precision in float32."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....core.node import Node
from ..api import jnp, lax
from ..rules import Trace, dtype_of, is_half, lowers, narrow, shape_of, wide


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


def _windows(node: Node, x: Any, fill: Any) -> Any:
    """Return the elements of all windows along a new first axis, one kernel offset after the other."""
    a = node.attrs
    kernel, stride, padding = a["kernel"], a["stride"], a["padding"]
    dilation = a.get("dilation", (1,) * len(kernel))
    n = len(kernel)
    lead = x.ndim - n
    x = lax.pad(x, np.asarray(fill, x.dtype), [(0, 0, 0)] * lead + [(low, high, 0) for low, high in padding])
    out = [(m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(x.shape[lead:], kernel, stride, dilation, strict=True)]
    parts = []
    for offset in np.ndindex(*kernel):
        start = [k * d for k, d in zip(offset, dilation, strict=True)]
        stop = [at + (m - 1) * s + 1 for at, m, s in zip(start, out, stride, strict=True)]
        parts.append(lax.slice(x, (*(0,) * lead, *start), (*x.shape[:lead], *stop), (*(1,) * lead, *stride)))
    return parts


def _spread(node: Node, parts: Any) -> Any:
    """Return the sum of windows' parts at the places where `_windows` takes them from."""
    a = node.attrs
    kernel, stride, padding, size = a["kernel"], a["stride"], a["padding"], a["size"]
    dilation = a.get("dilation", (1,) * len(kernel))
    out: Any = None
    for offset, part in zip(np.ndindex(*kernel), parts, strict=True):
        lead = part.ndim - len(kernel)
        pads = [(0, 0, 0)] * lead
        for k, d, s, (low, _), n, m in zip(offset, dilation, stride, padding, size, part.shape[lead:], strict=True):
            before = k * d - low
            pads.append((before, n - before - ((m - 1) * s + 1), s - 1))
        placed = lax.pad(part, np.zeros((), part.dtype), pads)
        out = placed if out is None else out + placed
    return out


def _lowest(dtype: Any) -> Any:
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _maximum_of(node: Node, x: Any) -> Any:
    a = node.attrs
    lead = x.ndim - len(a["kernel"])
    combine = lax.max if x.dtype != bool else lax.bitwise_or
    ones = (1,) * lead
    if any(p < 0 for pair in a["padding"] for p in pair):
        out: Any = None
        for part in _windows(node, x, _lowest(x.dtype)):
            out = part if out is None else combine(out, part)
        return out
    return lax.reduce_window(
        x, np.asarray(_lowest(x.dtype), x.dtype), combine, (*ones, *a["kernel"]), (*ones, *a["stride"]),
        [(0, 0)] * lead + list(a["padding"]), None, (*ones, *a["dilation"]),
    )  # fmt: skip


@lowers("max_pool")
def _max_pool(t: Trace, node: Node, x: Any) -> Any:
    return _maximum_of(node, x)


@lowers("argmax_pool")
def _argmax_pool(t: Trace, node: Node, x: Any) -> Any:
    # Every element is compared with the greatest before it: XLA may compute what it is asked for twice in two ways, and
    # no element need equal a maximum that was found elsewhere.
    dtype = dtype_of(node)
    best: Any = None
    # Padding is no element: the mask says what is.
    inside = _windows(node, jnp.ones(x.shape, bool), False)
    winners = jnp.full(inside[0].shape, prod(node.attrs["kernel"]), dtype)
    found: Any = None
    for number, (part, is_one) in enumerate(zip(_windows(node, x, _lowest(x.dtype)), inside, strict=True)):
        if found is None:
            better, best, found = is_one, part, is_one
        else:
            better = is_one & (~found | (part > best) | ((part != part) & (best == best)))
            best, found = lax.select(better, part, best), found | is_one
        winners = lax.select(better, jnp.full_like(winners, number), winners)
    return winners


@lowers("pool_select")
def _pool_select(t: Trace, node: Node, x: Any, winners: Any) -> Any:
    out = jnp.zeros(winners.shape, x.dtype)
    for number, part in enumerate(_windows(node, x, np.zeros((), x.dtype))):
        out = lax.select(winners == number, part, out)
    return out


@lowers("pool_scatter")
def _pool_scatter(t: Trace, node: Node, y: Any, winners: Any) -> Any:
    y = narrow(y, np.dtype(np.int32)) if y.dtype.kind == "b" else wide(y)
    zero = jnp.zeros_like(y)
    parts = [lax.select(winners == k, y, zero) for k in range(prod(node.attrs["kernel"]))]
    out = _spread(node, parts)
    dtype = dtype_of(node)
    return out != 0 if dtype.kind == "b" else narrow(out, dtype)


@lowers("sum_pool")
def _sum_pool(t: Trace, node: Node, x: Any) -> Any:
    dtype = dtype_of(node)
    x = wide(x)
    out: Any = None
    for part in _windows(node, x, 0):
        out = part if out is None else out + part
    return narrow(out, dtype)


@lowers("spread_pool")
def _spread_pool(t: Trace, node: Node, y: Any) -> Any:
    return narrow(_spread(node, [wide(y)] * prod(node.attrs["kernel"])), dtype_of(node))
