"""The order of a plan's units while units are joined: each comes after what it needs.

A unit is a single node, or a group of nodes that are computed together. Two units that become one must not need each
other through a third: that would wait for itself. Which unit needs which changes with every join, so the positions of
nodes in the graph do not tell: of two late groups one may need the other through an early one, which was joined with
something late. Therefore an order of the units is kept in which each comes after what it needs, and only what comes
between two units in it is looked at. Pearce and Kelly 2007, A dynamic topological sort algorithm for directed acyclic
graphs, do that for edges that are added; here units are joined, and what the later one needs moves before the earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# The most units that may come between two that are joined: beyond that they are left apart.
_SEARCH = 200

# A place: numbers compared from the left. A unit moved before `(..., inf)` gets `(..., k, inf)`, k counting.
Place = tuple[float, ...]


class UnitOrder:
    """An order of units in which each comes after what it needs; `needs` returns what a unit needs now."""

    def __init__(self, needs: Callable[[Any], Iterable[Any]], units: Iterable[Any]) -> None:
        self._needs = needs
        self._places: dict[Any, Place] = {unit: (i, math.inf) for i, unit in enumerate(units)}
        self._moved: dict[Place, int] = {}

    def place(self, unit: Any) -> Place:
        """Return the place of a unit: what it needs has lesser places."""
        return self._places[unit]

    def replace(self, old: Any, new: Any) -> None:
        """Put a unit in the place of another."""
        self._places[new] = self._places[old]

    def between(self, x: Any, y: Any) -> list[Any] | None:
        """Return what the later of two units needs that comes after the earlier, in order.

        None where some of that needs the earlier, or where there is too much of it to tell.
        """
        places = self._places
        first, last = (x, y) if places[x] < places[y] else (y, x)
        start = places[first]
        found: set[Any] = set()
        stack = [last]
        while stack:
            unit = stack.pop()
            for needed in self._needs(unit):
                if needed is first:
                    if unit is not last:
                        return None
                elif places[needed] > start and needed not in found:
                    if len(found) == _SEARCH:
                        return None
                    found.add(needed)
                    stack.append(needed)
        return sorted(found, key=places.__getitem__)

    def join(self, x: Any, y: Any, between: Sequence[Any], joined: Any) -> None:
        """Put one unit in the place of two; `between` is what :meth:`between` found for these."""
        self._places[joined] = at = min(self._places[x], self._places[y])
        before = at[:-1]
        count = self._moved.get(before, 0)
        for k, unit in enumerate(between, count):
            self._places[unit] = (*before, k, math.inf)
        self._moved[before] = count + len(between)
