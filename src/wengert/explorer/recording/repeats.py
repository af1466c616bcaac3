"""Parts of a sequence that come again and again, one behind the other: the layers of a program without modules."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

# A part has at least so many items, and there are at least so many of it.
LEAST_PART, LEAST_TIMES = 3, 2
MOST_PART = 1000


class Repeat(NamedTuple):
    """A part of `period` items, from `start` on, `times` times."""

    start: int
    period: int
    times: int

    @property
    def end(self) -> int:
        """The place behind the last part."""
        return self.start + self.period * self.times


def repeats(items: Sequence[Hashable]) -> list[Repeat]:
    """Return the repeated parts of a sequence, in order: those that cover most first, then what is left beside them."""
    numbers: dict[Hashable, int] = {}
    labels = np.array([numbers.setdefault(item, len(numbers)) for item in items], dtype=np.int64)
    found: list[Repeat] = []
    pending = [(0, len(labels))]
    while pending:
        start, end = pending.pop()
        best = _longest(labels[start:end])
        if best is None:
            continue
        best = best._replace(start=best.start + start)
        found.append(best)
        pending += [(start, best.start), (best.end, end)]
    return sorted(found)


def _longest(labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Repeat | None:
    """Return the repeat that covers most of a sequence, of several the one with the shortest part."""
    best: Repeat | None = None
    for period in range(LEAST_PART, min(MOST_PART, len(labels) // LEAST_TIMES) + 1):
        equal = np.concatenate(([False], labels[period:] == labels[:-period], [False]))
        edges = np.flatnonzero(equal[1:] != equal[:-1])
        starts, ends = edges[::2], edges[1::2]
        if not len(starts):
            continue
        i = int(np.argmax(ends - starts))
        times = int(ends[i] - starts[i]) // period + 1
        if times < LEAST_TIMES or len(set(labels[starts[i] : starts[i] + period].tolist())) < 2:
            continue
        made = Repeat(int(starts[i]), period, times)
        if best is None or made.period * made.times > best.period * best.times:
            best = made
    return best
