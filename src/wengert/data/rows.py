"""Rows of arrays side by side: what batches are made of, in memory that whoever asks for one may lend."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.errors import RangeError, ShapeError, fail
from ..core.spec import promote

# Arrays begin at multiples of it, as vector instructions and cache lines like.
ALIGNMENT = 64
# Arrays of fewer bytes are made as ever: to place them costs more than to copy them.
_SMALL = 1024


def aligned(nbytes: int) -> int:
    """Return a number of bytes, rounded up to where the next array may begin."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Arena:
    """Memory, uint8, that arrays are placed in one after the other; `asked` bytes were asked of it in all."""

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.used = self.asked = 0

    def place(self, nbytes: int) -> Array | None:
        """Return so many bytes of it, or None where there are no more."""
        self.asked += aligned(nbytes)
        end = self.used + nbytes
        if end > len(self.memory):
            return None
        found = self.memory[self.used : end]
        self.used = aligned(end)
        return found


class _Lent(threading.local):
    arena: Arena | None = None


_lent = _Lent()


@contextmanager
def lending(arena: Arena | None) -> Iterator[None]:
    """Have the arrays of this module made in an arena, as far as there is room, by this thread."""
    before, _lent.arena = _lent.arena, arena
    try:
        yield
    finally:
        _lent.arena = before


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of any values, in the arena that is lent."""
    arena = _lent.arena
    if arena is not None and not dtype.hasobject:
        nbytes = prod(shape) * dtype.itemsize
        if nbytes >= _SMALL:
            place = arena.place(nbytes)
            if place is not None:
                return place.view(dtype).reshape(shape)
    return np.empty(shape, dtype)


def stacked(arrays: Sequence[Array]) -> Array:
    """Return arrays of one shape along a new first axis, in the dtype of an operation on all of them.

    Raises ShapeError for different shapes.
    """
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    for i, a in enumerate(arrays):
        if a.shape != shape:
            fail(
                ShapeError,
                f"samples of different shapes cannot be one array: {shape} is the first, {a.shape} that at {i}",
                "Make them alike in the dataset, or give a collate_fn that pads them.",
            )
        if a.dtype != dtype:
            dtype = promote(dtype, a.dtype)
    out = empty((len(arrays), *shape), dtype)
    if shape:
        # Side by side along the axis that is there: NumPy's stack would first make a view of each.
        np.concatenate(arrays, 0, out=out.reshape(len(arrays) * shape[0], *shape[1:]))
    else:
        out[...] = [a[()] for a in arrays]
    return out


def rows_of(array: Array, indices: Any) -> Array:
    """Return the rows of an array at indices, which may count from the end. Raises RangeError."""
    at = np.asarray(indices)
    if at.dtype.kind not in "iu" and at.size:
        taken: Array = array[at]
        return taken
    at = at.astype(np.intp, copy=False)
    count = len(array)
    if at.size:
        low, high = at.min(), at.max()
        if low < -count or high >= count:
            fail(RangeError, f"row {low if low < -count else high} of {count}")
        if low < 0:
            at = np.where(at < 0, at + count, at)
    out = empty((*at.shape, *array.shape[1:]), array.dtype)
    # With out= and checks of its own NumPy takes the rows to another place first.
    np.take(array, at, 0, out=out, mode="clip")
    return out
