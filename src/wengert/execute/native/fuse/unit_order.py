"""The order of a plan's units while units are joined: each comes after what it needs.

A unit is a single node, or a group of nodes that are computed together. Two units that become one must not need each
other through a third: that would wait for itself. Which unit needs which changes with every join, so the positions of
nodes in the graph do not tell: of two late groups one may need the other through an early one, which was joined with
something late. Therefore an order of the units is kept in which each comes after what it needs, and only what comes
between two units in it is looked at. Pearce and Kelly 2007, A dynamic topological sort algorithm for directed acyclic
graphs, do that for edges that are added; here units are joined, and what the later one needs moves before the earlier.
Where that is much, as for the end of a deep network and what is known of its targets at once, the earlier one moves to
the later instead, and what needs it after that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

# The most units that may come between two that are joined: beyond that they are left apart.
_SEARCH = 200

# A place: numbers compared from the left. A unit moved before `(..., inf)` gets `(..., k, inf)`, k counting, one moved
# after it `(..., inf, k, inf)`.
Place = tuple[float, ...]


class Way(NamedTuple):
    """A way to join two units: the place of both, and the units, in order, that move before or after it."""

    place: Place
    moved: list[Any]
    is_before: bool


class UnitOrder:
    """An order of units in which each comes after what it needs.

    `needs` and `readers` return what a unit needs now, and by which others it is needed.
    """

    def __init__(
        self, needs: Callable[[Any], Iterable[Any]], readers: Callable[[Any], Iterable[Any]], units: Iterable[Any]
    ) -> None:
        self._needs, self._readers = needs, readers
        self._places: dict[Any, Place] = {unit: (i, math.inf) for i, unit in enumerate(units)}
        self._moved: dict[Place, int] = {}

    def place(self, unit: Any) -> Place:
        """Return the place of a unit: what it needs has lesser places."""
        return self._places[unit]

    def replace(self, old: Any, new: Any) -> None:
        """Put a unit in the place of another."""
        self._places[new] = self._places[old]

    def between(self, x: Any, y: Any) -> Way | None:
        """Return how two units become one; None where one needs the other through a third, or it takes too much."""
        first, last = (x, y) if self._places[x] < self._places[y] else (y, x)
        start, end = self._places[first], self._places[last]
        # What the later one needs, as far as it comes after the earlier.
        found = self._reached(last, first, self._needs, lambda place: place > start)
        if not isinstance(found, int):
            return None if found is None else Way(start, found, is_before=True)
        # What needs the earlier one and comes before the later, or was moved to its place before.
        found = self._reached(first, last, self._readers, lambda place: place[: len(end)] <= end)
        return Way(end, found, is_before=False) if isinstance(found, list) else None

    def _reached(
        self, start: Any, goal: Any, following: Callable[[Any], Iterable[Any]], is_within: Callable[[Place], bool]
    ) -> list[Any] | int | None:
        """Return the units within some places that are reached from one, in order.

        None where the goal is reached through one of them, a number of units where there are too many to tell.
        """
        places = self._places
        found: set[Any] = set()
        stack = [start]
        while stack:
            unit = stack.pop()
            for other in following(unit):
                if other is goal:
                    if unit is not start:
                        return None
                elif other not in found and is_within(places[other]):
                    if len(found) == _SEARCH:
                        return len(found)
                    found.add(other)
                    stack.append(other)
        return sorted(found, key=places.__getitem__)

    def join(self, x: Any, y: Any, way: Way, joined: Any) -> None:
        """Put one unit in the place of two, the way that :meth:`between` found."""
        self._places[joined] = way.place
        near = way.place[:-1] if way.is_before else way.place
        count = self._moved.get(near, 0)
        for k, unit in enumerate(way.moved, count):
            self._places[unit] = (*near, k, math.inf)
        self._moved[near] = count + len(way.moved)
