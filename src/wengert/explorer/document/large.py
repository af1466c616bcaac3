"""Statistics of arrays that are too large to be copied: piece by piece, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...core.arrays import Array

# Elements of a piece. It is widened to float64, a few times over.
PIECE = 1 << 20


def real(array: Array) -> Array:
    """Return an array of real numbers: the sizes of complex ones, wider ones for half precision and integers."""
    if array.dtype.kind == "c":
        with np.errstate(all="ignore"):
            return np.abs(array)
    return (
        array
        if array.dtype.kind == "f" and array.dtype.itemsize > 2
        else array.astype(np.float32 if array.dtype.kind == "V" else np.float64)
    )


def pieces(array: Array) -> Iterator[Array]:
    """Yield an array's elements in order, as float64."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, PIECE):
        yield real(flat[start : start + PIECE]).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over an array: of its finite elements, their squares, and counts of all kinds."""

    finite: int
    nan: int
    infinite: int
    zero: int
    low: float
    high: float
    total: float
    squares: float


def sums(array: Array) -> Sums:
    """Return the sums over an array."""
    finite = nan = zero = 0
    low, high = math.inf, -math.inf
    totals: list[float] = []
    squares: list[float] = []
    with np.errstate(all="ignore"):
        for piece in pieces(array):
            good = piece[np.isfinite(piece)]
            finite += good.size
            nan += int(np.isnan(piece).sum())
            zero += piece.size - int(np.count_nonzero(piece))
            low, high = min(low, float(good.min(initial=math.inf))), max(high, float(good.max(initial=-math.inf)))
            totals.append(float(good.sum()))
            squares.append(float(np.dot(good, good)))
    return Sums(finite, nan, array.size - finite - nan, zero, low, high, sum(totals), sum(squares))


def spread(array: Array, found: Sums, bins: int) -> tuple[float, list[int]]:
    """Return the standard deviation of an array's finite elements, and their histogram in equal bins."""
    mean = found.total / found.finite
    width = found.high - found.low
    counts = np.zeros(bins, np.int64)
    squares = []
    for piece in pieces(array):
        good = piece[np.isfinite(piece)]
        squares.append(float(np.square(good - mean).sum()))
        if width:
            places = np.minimum(((good - found.low) / width * bins).astype(np.int64), bins - 1)
            counts += np.bincount(places, minlength=bins)
    return math.sqrt(sum(squares) / found.finite), [int(n) for n in counts] if width else [found.finite]


def grid(matrix: Array, rows: int, columns: int) -> tuple[Array, Array, Array]:
    """Return mean sizes over a grid of cells of a matrix, with where there are NaNs and infinities."""
    down = [i * matrix.shape[0] // rows for i in range(rows + 1)]
    across = [i * matrix.shape[1] // columns for i in range(columns + 1)]
    means = np.zeros((rows, columns))
    nan, inf = np.zeros((rows, columns), bool), np.zeros((rows, columns), bool)
    step = max(1, PIECE // matrix.shape[1])
    for i in range(rows):
        for start in range(down[i], down[i + 1], step):
            block = np.abs(real(matrix[start : min(start + step, down[i + 1])]).astype(np.float64, copy=False))
            bad = ~np.isfinite(block)
            if bad.any():
                nan[i] |= np.logical_or.reduceat(np.isnan(block), across[:-1], axis=1).any(axis=0)
                inf[i] |= np.logical_or.reduceat(np.isinf(block), across[:-1], axis=1).any(axis=0)
                block = np.where(bad, 0.0, block)
            means[i] += np.add.reduceat(block, across[:-1], axis=1).sum(axis=0)
        means[i] /= (down[i + 1] - down[i]) * np.diff(across)
    return means, nan, inf
