"""The memory that the elements of arrays lie in, and which of them two arrays share."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

from ...core.elsewhere import Elsewhere
from ...core.storage import address, bounds

Array = np.ndarray[Any, Any]


def shares(x: Array, whole: Array) -> bool:
    """Return whether two arrays may have elements in common; values that are elsewhere are one value, or have none."""
    if isinstance(x, Elsewhere) or isinstance(whole, Elsewhere):
        return x is whole
    return x.size == 0 or np.may_share_memory(x, whole)


def is_same(part: Array, whole: Array) -> bool:
    """Return whether two arrays show the same elements in the same order."""
    return part is whole or (
        part.shape == whole.shape
        and part.strides == whole.strides
        and part.dtype == whole.dtype
        and address(part) == address(whole)
    )


class Occupied:
    """The memory that arrays lie in: ranges of addresses that do not overlap, in order."""

    __slots__ = ("_starts", "_ends")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def touches(self, x: Array) -> bool:
        """Return whether an array may have elements in common with one that was noted."""
        low, high = bounds(x)
        return low < high and bisect_right(self._ends, low) < bisect_left(self._starts, high)

    def add(self, x: Array) -> bool:
        """Note an array, and return whether it may have elements in common with one that was noted before."""
        low, high = bounds(x)
        if low == high:
            return False
        first, last = bisect_right(self._ends, low), bisect_left(self._starts, high)
        if first < last:
            low, high = min(low, self._starts[first]), max(high, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [low], [high]
        return first < last


def slices(part: Array, whole: Array) -> Any:
    """Return the entries of a slice that gives the window of `part` in an array; None where no slice does."""
    entries: list[Any] = []
    offset, axis = address(part) - address(whole), 0
    for n, step in zip(whole.shape, whole.strides):
        first = offset // step if step else 0
        if not 0 <= first < n:
            return None
        offset -= first * step
        stride = part.strides[axis] if axis < part.ndim else 0
        if (
            axis < part.ndim
            and step
            and stride > 0
            and stride % step == 0
            and (part.shape[axis] - 1) * stride < n * step
        ):
            by, count = stride // step, part.shape[axis]
            if first + (count - 1) * by < n:
                entries.append((first, first + (count - 1) * by + 1, None if by == 1 else by))
                axis += 1
                continue
        entries.append(first)
    found = whole[tuple(slice(*e) if isinstance(e, tuple) else e for e in entries)]
    same = found.shape == part.shape and address(found) == address(part) and found.strides == part.strides
    return tuple(entries) if same else None


def positions(part: Array, whole: Array) -> Any:
    """Return the positions of the elements of a window in the flattened array."""
    at = _addresses(whole).reshape(-1)
    order = np.argsort(at, kind="stable")
    return order[np.searchsorted(at[order], _addresses(part))]


def _addresses(x: Array) -> Any:
    at = np.full((1,) * x.ndim, address(x))
    for axis, (n, step) in enumerate(zip(x.shape, x.strides)):
        at = at + (np.arange(n) * step).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return at
