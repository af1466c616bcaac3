"""Colouring: directions that can share one derivative pass.

Two columns of a Jacobian that have no row in common can be differentiated along together. Given
colours to columns so that columns of one colour are such (Curtis, Powell and Reid 1974, "On the
estimation of sparse Jacobian matrices"), as few as possible: a distance-2 colouring of the pattern's
bipartite graph (Coleman and More 1983; Gebremedhin, Manne and Pothen 2005, "What color is your
Jacobian?"). A symmetric matrix needs less: a star colouring (Coleman and More 1984) lets every entry
be read off one of the two places where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def color_columns(pattern: Any) -> Any:
    """Return a colour (0, 1, ...) for every column of a sparse boolean matrix: equal ones share no row.

    The best of a cyclic numbering and greedy colourings in two orders; the first that needs no more
    colours than the fullest row has entries is the best there is.
    """
    rows, columns = pattern.tocsr(), pattern.tocsc()
    count = columns.shape[1]
    least = int(np.diff(rows.indptr).max(initial=0))
    if count == 0 or rows.nnz == 0:
        return np.zeros(count, int)
    best = None
    for found in _candidates(rows, columns, least):
        if found is not None and (best is None or found.max() < best.max()):
            best = found
        if best is not None and best.max() + 1 <= least:
            break
    return best


def _candidates(rows: Any, columns: Any, least: int) -> Iterator[Any]:
    yield _cyclic(rows, least)
    yield _greedy(columns, np.arange(columns.shape[1]))
    # Columns that meet many others first: the greedy bound is then the smallest.
    meeting = columns.T.astype(float) @ np.diff(rows.indptr)
    yield _greedy(columns, np.argsort(-meeting, kind="stable"))


def _cyclic(rows: Any, least: int) -> Any:
    """Return columns numbered modulo the fewest colours, which suits bands; None where that fails."""
    color = np.arange(rows.shape[1]) % max(least, 1)
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    keys = np.sort(owner * max(least, 1) + color[rows.indices])
    return None if np.any(keys[1:] == keys[:-1]) else color


def _greedy(columns: Any, order: Any) -> Any:
    """Return the first colour that no row of the column has yet, column after column.

    Each row remembers its colours as the bits of one integer.
    """
    used = [0] * columns.shape[0]
    indices, starts = columns.indices.tolist(), columns.indptr.tolist()
    color = [0] * columns.shape[1]
    for j in order.tolist():
        own = indices[starts[j] : starts[j + 1]]
        taken = 0
        for i in own:
            taken |= used[i]
        bit = ~taken & (taken + 1)
        for i in own:
            used[i] |= bit
        color[j] = bit.bit_length() - 1
    return np.array(color)


def color_symmetric(pattern: Any) -> Any:
    """Return colours for the columns of a symmetric sparse boolean matrix, from which each entry can be read.

    A star colouring: neighbours differ, and every path of four vertices has three colours; or the
    plain colouring of columns where that needs no more.
    """
    best = color_columns(pattern)
    if best.max(initial=0) < 3:
        return best
    csr = pattern.tocsr()
    for order in (np.arange(csr.shape[0]), np.argsort(-np.diff(csr.indptr), kind="stable")):
        found = _star(csr, order)
        if found.max() < best.max():
            best = found
    return best


def _star(csr: Any, order: Any) -> Any:
    """Return a greedy star colouring, after Gebremedhin, Tarafdar, Manne and Pothen 2007, algorithm 4.1.

    Colours are bits. `once[w]` and `twice[w]` are the colours that one, or more, of w's neighbours
    have; `ends[w]` the colours of those neighbours x that have two neighbours of w's own colour: a
    neighbour of w that took such a colour would end a path of four vertices in two colours.
    """
    starts, everyone = csr.indptr.tolist(), csr.indices.tolist()
    count = csr.shape[0]
    near = [[w for w in everyone[starts[v] : starts[v + 1]] if w != v] for v in range(count)]
    bit, once, twice, ends = [0] * count, [0] * count, [0] * count, [0] * count
    first: list[dict[int, int]] = [{} for _ in range(count)]
    for v in order.tolist():
        taken, several = 0, twice[v]
        for w in near[v]:
            own = bit[w]
            if own:
                taken |= own | (once[w] if several & own else ends[w])
        bit[v] = b = ~taken & (taken + 1)
        for x in near[v]:
            own = bit[x]
            if several & own:
                ends[x] |= b
            if not once[x] & b:
                once[x] |= b
                first[x][b] = v
                continue
            if own:
                ends[v] |= own
                ends[first[x][b]] |= own
            twice[x] |= b
    return np.array([b.bit_length() - 1 for b in bit])


def recoverable(rows: Any, columns: Any, color: Any) -> Any:
    """Return the mask of entries (row, column) that stand alone in their row among the columns of their colour."""
    keys = rows.astype(np.int64) * (int(color.max(initial=0)) + 1) + color[columns]
    _, where, count = np.unique(keys, return_inverse=True, return_counts=True)
    return count[where] == 1
