"""Places in the arena for plans under a budget: the better of two ways."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..plan.plan import Buffer, Plan, rounded


def arrange(plan: Plan) -> None:
    """Give every temporary its place, in the order of time or in that of size, whichever takes a smaller arena."""
    plan.arrange()
    born, dies = plan.lives()
    least = most_in_use(born, dies)
    if plan.arena > least:
        places, arena = _by_size(born, dies)
        if arena < plan.arena:
            plan.arena = arena
            for buffer, place in places.items():
                buffer.place = place


def most_in_use(born: Mapping[Buffer, int], dies: Mapping[Buffer, int]) -> int:
    """Return the most bytes that are in use at one step, below which no arena can be."""
    change: dict[int, int] = {}
    for buffer, first in born.items():
        nbytes = rounded(buffer.nbytes)
        change[first] = change.get(first, 0) + nbytes
        change[dies[buffer] + 1] = change.get(dies[buffer] + 1, 0) - nbytes
    used = most = 0
    for step in sorted(change):
        used += change[step]
        most = max(most, used)
    return most


def _by_size(born: Mapping[Buffer, int], dies: Mapping[Buffer, int]) -> tuple[dict[Buffer, int], int]:
    """Place the largest buffers first, each as low as those that live at the same time allow.

    Pisarchyk and Lee, "Efficient memory management for deep neural net inference", arXiv:2001.03288, greedy by size.
    """
    order = sorted(born, key=lambda b: (-b.nbytes, born[b]))
    count = len(order)
    first, last, start, end = (np.zeros(count, np.int64) for _ in range(4))
    arena = 0
    places: dict[Buffer, int] = {}
    for i, buffer in enumerate(order):
        nbytes = rounded(buffer.nbytes)
        beside = np.nonzero((first[:i] <= dies[buffer]) & (last[:i] >= born[buffer]))[0]
        beside = beside[np.argsort(start[beside], kind="stable")]
        # The highest end so far, before each that lives at the same time.
        ends = np.maximum.accumulate(end[beside]) if len(beside) else end[:0]
        begins = start[beside]
        before = np.concatenate([[0], ends])
        gaps = begins - before[:-1]
        fitting = np.nonzero(gaps >= nbytes)[0]
        at = int(before[fitting[np.argmin(gaps[fitting])]] if len(fitting) else before[-1])
        first[i], last[i], start[i], end[i] = born[buffer], dies[buffer], at, at + nbytes
        places[buffer] = at
        arena = max(arena, at + nbytes)
    return places, arena
