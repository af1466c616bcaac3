"""Ties: which of the tensors that a call is given, and that its function finds, share one storage.

In a namespace with views a write to one of them is one to the others. Where a function writes to such tensors it is
traced for how they are tied: what stands for a view is taken, by the same window, from what stands for the largest of
them. Tensors outside of the trace that share memory with what it writes follow when a run writes its results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ....core.standins import DataView
from ....core.state.cells import Cell, TensorCell
from ....core.storage import root_of, storage_of, window_of
from ....core.tensor import Tensor
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
    groups: dict[int, dict[int, tuple[Place, Tensor]]] = {}
    for place, t in _held(arguments, cells):
        s = storage_of(t)
        if s is not None and t.writes_through is not None and window_of(t) is not None:
            groups.setdefault(id(s), {}).setdefault(id(t), (place, t))
    found: list[Tie] = []
    for group in groups.values():
        if len(group) > 1:
            found += _ties(list(group.values()))
    return tuple(found)


def _ties(group: Sequence[tuple[Place, Tensor]]) -> Iterator[Tie]:
    """Yield how each of several tensors of one storage is taken from the one that covers most of it."""
    root = root_of(storage_of(group[0][1]))  # type: ignore[arg-type]
    where, whole = max(group, key=lambda held: (held[1] is root, held[1].nbytes))
    for place, t in group:
        if t is not whole:
            yield Tie(place, where, THROUGH.window(t, whole))


def ways_of(ties: Sequence[Tie], tensors: Mapping[Place, Tensor]) -> dict[Place, tuple[Place, FromOwner]]:
    """Return for each view the place of the tensor that it is taken from, and the way."""
    return {
        tie.part: (tie.whole, THROUGH.taken(tensors[tie.part], tensors[tie.whole]))
        for tie in ties
        if tie.window is not None
    }
