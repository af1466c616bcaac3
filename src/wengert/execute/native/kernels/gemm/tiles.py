"""The geometry of matrix products: tiles that fit the registers, and their division of the rows.

A product is cut into panels of columns, two vectors wide (the last one may be one vector), and rows
into tiles of a few fixed heights, so that a kernel holds one loop for every height and width, and
serves every size. Heights and widths follow the registers of the processor, as in Goto and van de
Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS, 2008): as many accumulators as
there are registers, less one vector of each column of the tile and one for a broadcast element.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from ...codegen.types import Target, Type

# Vectors across a full panel of columns.
WIDE = 2
# A multiply-add's latency in cycles times how many start in one: so many chains keep the units busy.
CHAINS = 8


class Tile(NamedTuple):
    """A tile: so many rows and vectors of columns, accumulated in registers."""

    rows: int
    vectors: int

    @property
    def unroll(self) -> int:
        """The steps taken at once: several for a tile of few accumulators, each in accumulators of its own."""
        return max(1, CHAINS // (self.rows * self.vectors))

    def is_largest(self, target: Target) -> bool:
        """Return whether it is of the kind that most of a large product is made of."""
        return self.rows == heights(target)[0] and self.vectors == WIDE


@cache
def heights(target: Target) -> tuple[int, ...]:
    """Return the heights of tiles, falling: the most that the registers hold, then powers of two below."""
    most = (target.registers - WIDE - 2) // WIDE
    return (most, *(1 << i for i in reversed(range((most - 1).bit_length()))))


def panel_width(target: Target, type: Type) -> int:
    """Return the columns of a full panel."""
    return WIDE * target.lanes(type)


def is_masked(target: Target) -> bool:
    """Return whether vectors under a mask cost no more than whole ones: then the last columns need no panel of their
    own.
    """
    return target.width == 64


def row_cost(rows: int) -> float:
    """Return the cost of a tile of full width and so many rows, in rows: small ones read B for little work."""
    return max(rows, CHAINS // WIDE) + 0.5


@lru_cache(4096)
def share_rows(rows: int, target: Target) -> tuple[int, ...]:
    """Return how many tiles of each height make up `rows` at the least cost."""
    kinds = heights(target)
    tallest = kinds[0]
    # All but the last few rows are in the tallest tiles; those last are shared out exactly.
    bulk = max(0, rows // tallest - 2)
    rest = rows - bulk * tallest
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, (0,) * len(kinds))]
    for n in range(1, rest + 1):
        choices = []
        for i, h in enumerate(kinds):
            if h <= n:
                cost, counts = best[n - h]
                choices.append((cost + row_cost(h), (*counts[:i], counts[i] + 1, *counts[i + 1 :])))
        best.append(min(choices))
    counts = best[rest][1]
    return (counts[0] + bulk, *counts[1:])


def numpy_dtype(type: Type) -> np.dtype[np.generic]:
    """Return the NumPy dtype of a compute type."""
    return np.dtype(f"{'f' if type.is_float else 'i'}{type.size}")
