"""Ties: which of the tensors that a call is given, and that its function finds, are views of one another.

In a namespace with views a write to one of them is one to the other. Where a function writes to such tensors it is
traced for how they are tied: what stands for a view is taken, by the same window, from what stands for its owner.
Tensors outside of the trace that share memory with what it writes follow when a run writes its results
(`Through.following`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ....core.state.cells import Cell, TensorCell
from ....core.tensor import DataView, Tensor
from ....ops.index.views import THROUGH, FromOwner

# "argument" or "cell", and its number.
Place = tuple[str, int]


class Tie(NamedTuple):
    """A tensor that is a view of another by a window; without one, two that share memory in another way.

    Of these neither can be written to. `window` tells apart what needs programs of its own.
    """

    part: Place
    whole: Place
    window: Any


def _held(arguments: Sequence[Any], cells: Sequence[Cell]) -> Iterator[tuple[Place, Tensor]]:
    for i, cell in enumerate(cells):
        if isinstance(cell, TensorCell):
            yield ("cell", i), cell.tensor
    for i, x in enumerate(arguments):
        if isinstance(x, Tensor):
            yield ("argument", i), x.owner if isinstance(x, DataView) else x


def ties_of(arguments: Sequence[Any], cells: Sequence[Cell]) -> tuple[Tie, ...]:
    """Return the ties among tensors with values."""
    held = [(place, t) for place, t in _held(arguments, cells) if t.writes_through is not None]
    views = [(place, t) for place, t in held if t._base is not None and t._data is not None]
    if not views:
        return ()
    places: dict[int, Place] = {}
    for place, t in held:
        places.setdefault(id(t), place)
    found: list[Tie] = []
    others: dict[int, list[Place]] = {}
    for place, t in views:
        if places[id(t)] != place:  # given twice
            continue
        owner = next((o for o in THROUGH.owners(t) if id(o) in places), None)
        if owner is not None:
            found.append(Tie(place, places[id(owner)], THROUGH.window(t, owner)))
        else:
            others.setdefault(id(THROUGH.outermost(t)), []).append(place)
    found += [Tie(first, place, None) for first, *rest in others.values() for place in rest]
    return tuple(found)


def ways_of(ties: Sequence[Tie], tensors: Mapping[Place, Tensor]) -> dict[Place, tuple[Place, FromOwner]]:
    """Return for each view the place of its owner and the way in which it is taken from it, owners first."""
    found = {
        tie.part: (tie.whole, THROUGH.taken(tensors[tie.part], tensors[tie.whole]))
        for tie in ties
        if tie.window is not None
    }
    ordered: dict[Place, tuple[Place, FromOwner]] = {}
    while len(ordered) < len(found):  # an owner that is a view itself comes first
        ready = {p: w for p, w in found.items() if p not in ordered and (w[0] in ordered or w[0] not in found)}
        ordered |= ready
    return ordered
