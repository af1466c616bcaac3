"""Attention on NumPy arrays, forward and backward, in blocks whose scores stay in the cache.

The matrix of scores is never whole: the forward keeps the logarithm of every row's sum of
exponentials, from which the backward computes the weights again (Dao 2023, FlashAttention-2,
arXiv:2307.08691). Half precision is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ..reduce.common import narrowed, widened

# Scores at a time, and rows at a time under a causal mask, where the keys end with the block's rows.
_BLOCK, _CAUSAL_ROWS = 1 << 18, 128


@lru_cache(maxsize=64)
def later(columns: int, rows: int, start: int = 0) -> Any:
    """Return the mask of columns (down) in the future of rows (across); the rows are numbered from `start`."""
    mask = np.arange(columns)[:, None] > np.arange(start, start + rows)
    mask.flags.writeable = False
    return mask


def _pieces(lead: tuple[int, ...], rows: int, columns: int, most: int) -> Iterator[tuple[Any, slice]]:
    """Yield indices into the leading axes, and `most` rows or fewer, whose scores make up blocks."""
    most = min(rows, most)
    inner, axis = most * columns, len(lead)
    while axis and inner * lead[axis - 1] <= _BLOCK:
        axis -= 1
        inner *= lead[axis]
    if axis:
        step = max(1, _BLOCK // inner)
        parts: list[Any] = [slice(at, at + step) for at in range(0, lead[axis - 1], step)]
        indices: Iterator[Any] = ((*index, part) for index in np.ndindex(lead[: axis - 1]) for part in parts)
    else:
        indices = iter([()])
    for index in indices:
        for at in range(0, rows, max(1, most)):
            yield index, slice(at, min(at + most, rows))


def _rows_at_a_time(columns: int, causal: bool, *shared: Any) -> int:
    """Return the number of rows in a block.

    A weight of 0 times an infinity or a NaN is NaN, so under a causal mask, where a later position
    does not take part at all, such values of `shared` are met row by row.
    """
    most = max(1, _BLOCK // max(columns, 1))
    if not causal:
        return most
    return min(most, _CAUSAL_ROWS) if all(np.isfinite(a).all() for a in shared) else 1


class _Block:
    """A block of rows, the keys that they see, and their scores: keys down, rows across.

    That way round, sums and maxima over the keys run along whole vectors of rows.
    """

    __slots__ = ("rows", "keys", "line", "scaled", "scores")

    def __init__(
        self, q: Any, k: Any, mask: Any, index: tuple[Any, ...], rows: slice, causal: bool, scale: float
    ) -> None:
        keys = slice(min(rows.stop, k.shape[-2]) if causal else k.shape[-2])
        self.rows, self.keys = (*index, ..., rows, slice(None)), (*index, ..., keys, slice(None))
        self.line = (*index, ..., rows)
        self.scaled = q[self.rows] * q.dtype.type(scale)
        self.scores = np.matmul(k[self.keys], self.scaled.mT)
        if causal:
            np.copyto(self.scores, -math.inf, where=later(*self.scores.shape[-2:], rows.start))
        for m in mask:
            self.scores += m[(*self.line, keys)].mT


def _accumulate(total: Any, x: Any, y: Any, rows: slice) -> None:
    """Add a product to a sum over blocks of rows, which the first block begins."""
    if rows.start == 0:
        np.matmul(x, y, out=total)
    else:
        total += np.matmul(x, y)


def attention_forward(q: Any, k: Any, v: Any, *mask: Any, causal: bool, scale: float) -> tuple[Any, Any]:
    """Return the weighted means, and the log-sum-exp of every row's scores; both 0 for a row of -inf."""
    dtype = q.dtype
    q, k, v, *mask = map(widened, (q, k, v, *mask))  # type: ignore[assignment]
    *lead, rows, _ = q.shape
    columns = k.shape[-2]
    out = np.empty((*lead, rows, v.shape[-1]), q.dtype)
    lse = np.empty((*lead, rows), q.dtype)
    for index, part in _pieces(tuple(lead), rows, columns, _rows_at_a_time(columns, causal, v)):
        block = _Block(q, k, mask, index, part, causal, scale)
        weights = block.scores
        top = np.maximum.reduce(weights, -2, keepdims=True, initial=-math.inf)
        top[top == -math.inf] = 0
        weights -= top
        np.exp(weights, out=weights)
        total = np.add.reduce(weights, -2, keepdims=True)
        total[total == 0] = 1
        y = np.matmul(weights.mT, v[block.keys], out=out[block.rows])
        y /= total.mT
        lse[block.line] = (top + np.log(total))[..., 0, :]
    return narrowed(out, dtype), lse


def attention_backward(
    q: Any, k: Any, v: Any, y: Any, lse: Any, dy: Any, *mask: Any, causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    """Return the cotangents of queries, keys and values, for `dy` of the result `y`."""
    dtype = q.dtype
    q, k, v, y, dy, *mask = map(widened, (q, k, v, y, dy, *mask))  # type: ignore[assignment]
    *lead, rows, _ = q.shape
    columns = k.shape[-2]
    dq, dk, dv = np.empty(q.shape, q.dtype), np.zeros(k.shape, q.dtype), np.zeros(v.shape, q.dtype)
    for index, part in _pieces(tuple(lead), rows, columns, _rows_at_a_time(columns, causal, q, k, v, dy)):
        block = _Block(q, k, mask, index, part, causal, scale)
        weights, ct = block.scores, dy[block.rows]
        weights -= lse[block.line][..., None, :]
        np.exp(weights, out=weights)
        _accumulate(dv[block.keys], weights, ct, part)
        slopes = np.matmul(v[block.keys], ct.mT)
        slopes -= np.add.reduce(ct * y[block.rows], -1)[..., None, :]
        slopes *= weights
        found = np.matmul(slopes.mT, k[block.keys], out=dq[block.rows])
        found *= found.dtype.type(scale)
        _accumulate(dk[block.keys], slopes, block.scaled, part)
    return narrowed(dq, dtype), narrowed(dk, dtype), narrowed(dv, dtype)
