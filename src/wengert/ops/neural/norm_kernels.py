"""Normalisation on NumPy arrays, forward and backward, in blocks that stay in the cache.

Statistics are recomputed in the backward pass: only the argument need be kept. Half precision is
computed in float32. Every derivative has the form a ct + b (x - mean) + c with one a, b and c for
each row or channel, so that a block is read a few times and nothing of its size is allocated twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.spec import float32
from ..long_sums import add_up

_BLOCK = 32768


def _running(x: Any) -> Any:
    return float32 if x.dtype.itemsize == 2 else x.dtype


def _slices(count: int, size: int) -> Iterator[slice]:
    """Return slices of `count` things of `size` elements that make up blocks."""
    step = max(1, _BLOCK // max(size, 1))
    return (slice(start, start + step) for start in range(0, count, step))


def _inverse(squares: Any, n: int, eps: float) -> Any:
    """Return one over the deviation, from the sum of `n` squares."""
    return 1 / np.sqrt(squares / squares.dtype.type(n) + squares.dtype.type(eps))


# -- rows: the last axis, flattened, of a matrix


def _centred_rows(x: Any, dtype: Any, eps: float, centred: bool) -> tuple[Any, Any]:
    """Return rows less their mean (or as they are), and one over their deviation."""
    n = x.shape[1]
    if centred:
        d = x - np.add.reduce(x, 1, dtype, keepdims=True) / dtype.type(n)
    else:
        d = x.astype(dtype)
    return d, _inverse(np.einsum("ij,ij->i", d, d)[:, None], n, eps)


def rows_forward(x: Any, *params: Any, axes: int, eps: float, centred: bool) -> Any:
    """Return rows over `axes` axes standardised, times a weight, plus a bias."""
    shape, dtype = x.shape, _running(x)
    rows = x.reshape((-1 if x.size else 0, _row_size(shape, axes)))
    out = np.empty(rows.shape, x.dtype)
    flat = [p.reshape(-1) for p in params]
    for block in _slices(*rows.shape):
        d, inverse = _centred_rows(rows[block].astype(dtype, copy=False), dtype, eps, centred)
        d *= inverse
        if flat:
            d *= flat[0]
        if len(flat) > 1:
            d += flat[1]
        out[block] = d
    return out.reshape(shape)


def rows_backward(ct: Any, x: Any, *params: Any, axes: int, eps: float, centred: bool) -> tuple[Any, ...]:
    """Return the cotangents of x and of the parameters."""
    shape, dtype = x.shape, _running(x)
    n = _row_size(shape, axes)
    rows, cts = (a.reshape((-1 if x.size else 0, n)) for a in (x, ct))
    weight = params[0].reshape(-1).astype(dtype, copy=False) if params else np.ones(n, dtype)
    ct_x = np.empty(rows.shape, x.dtype)
    ct_weight, ct_bias = np.zeros(n, np.float64), np.zeros(n, np.float64)  # of very many blocks
    for block in _slices(*rows.shape):
        d, inverse = _centred_rows(rows[block].astype(dtype, copy=False), dtype, eps, centred)
        d *= inverse
        g = cts[block].astype(dtype, copy=False)
        product = g * d
        if params:
            ct_weight += add_up(product, 0)
        if len(params) > 1:
            ct_bias += add_up(g, 0)
        d *= (product @ weight)[:, None] / dtype.type(-n)
        np.multiply(g, weight, out=product)
        d += product
        if centred:
            d -= (g @ weight)[:, None] / dtype.type(n)
        d *= inverse
        ct_x[block] = d
    ct_params = (c.astype(p.dtype, copy=False).reshape(p.shape) for c, p in zip((ct_weight, ct_bias), params))
    return ct_x.reshape(shape), *ct_params


def _row_size(shape: tuple[int, ...], axes: int) -> int:
    size = 1
    for n in shape[len(shape) - axes :]:
        size *= n
    return size


# -- channels: one axis kept, all others reduced


def _channels(x: Any, axis: int) -> Any:
    """Return x as (before, channels, after)."""
    at = x.ndim + axis
    before, after = _row_size(x.shape[:at], at), _row_size(x.shape, -axis - 1)
    return x.reshape((before, x.shape[at], after))


def channels_forward(x: Any, *params: Any, axis: int, eps: float) -> tuple[Any, Any, Any]:
    """Return channels standardised, times a weight, plus a bias; their means and variances."""
    dtype, cube = _running(x), _channels(x, axis)
    n = cube.shape[0] * cube.shape[2]
    out = np.empty(cube.shape, x.dtype)
    mean, variance = np.empty(cube.shape[1], dtype), np.empty(cube.shape[1], dtype)
    for block in _slices(cube.shape[1], n):
        xs = cube[:, block].astype(dtype, copy=False)
        mean[block] = add_up(xs, (0, 2)) / dtype.type(n)
        d = xs - mean[block, None]
        variance[block] = add_up(d * d, (0, 2)) / dtype.type(n)
        scale = 1 / np.sqrt(variance[block] + dtype.type(eps))
        if params:
            scale *= params[0][block]
        d *= scale[:, None]
        if len(params) > 1:
            d += params[1][block, None]
        out[:, block] = d
    return out.reshape(x.shape), mean.astype(x.dtype, copy=False), variance.astype(x.dtype, copy=False)


def channels_backward(cts: tuple[Any, Any, Any], x: Any, *params: Any, axis: int, eps: float) -> tuple[Any, ...]:
    """Return the cotangents of x and of the parameters, from those of the result, the means and the variances."""
    dtype, cube, ct = _running(x), _channels(x, axis), _channels(cts[0], axis)
    ct_mean, ct_variance = (c.astype(dtype, copy=False) for c in cts[1:])
    n = dtype.type(cube.shape[0] * cube.shape[2])
    ct_x = np.empty(cube.shape, x.dtype)
    ct_weight, ct_bias = np.empty(cube.shape[1], dtype), np.empty(cube.shape[1], dtype)
    for block in _slices(cube.shape[1], int(n)):
        xs, g = (a[:, block].astype(dtype, copy=False) for a in (cube, ct))
        d = xs - (add_up(xs, (0, 2)) / n)[:, None]
        product = d * d
        inverse = _inverse(add_up(product, (0, 2)), int(n), eps)
        np.multiply(g, d, out=product)
        ct_weight[block] = add_up(product, (0, 2)) * inverse
        ct_bias[block] = add_up(g, (0, 2))
        scale = inverse * params[0][block] if params else inverse
        d *= ((2 * ct_variance[block] - scale * inverse * ct_weight[block]) / n)[:, None]
        np.multiply(g, scale[:, None], out=product)
        d += product
        d += ((ct_mean[block] - scale * ct_bias[block]) / n)[:, None]
        ct_x[:, block] = d
    ct_params = (c.astype(p.dtype, copy=False) for c, p in zip((ct_weight, ct_bias), params))
    return ct_x.reshape(x.shape), *ct_params
