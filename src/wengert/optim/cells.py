"""The state of an optimiser as cells of a compiled function: options, step counts, buffers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from itertools import chain, repeat
from operator import setitem
from typing import Any

import numpy as np

from .. import stack, where
from ..core.arrays import Array
from ..core.spec import Spec, float64, int64, spec_of
from ..core.standins import weak
from ..core.state.at_once import Call, later
from ..core.state.cells import Cell
from ..core.tensor import Tensor, abstract, wrap

_NUMBER = spec_of((), float64)


# A number for each change of any group.
_changes = itertools.count()


class Options(dict[str, Any]):
    """A parameter group: a dict whose `changes` every change renews, so that what was derived from it can be kept."""

    __slots__ = ("changes",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.changes = next(_changes)

    def __setitem__(self, name: str, value: Any) -> None:
        self.changes = next(_changes)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.changes = next(_changes)
        super().__delitem__(name)

    def update(self, *args: Any, **kwargs: Any) -> None:
        self.changes = next(_changes)
        super().update(*args, **kwargs)

    def __ior__(self, other: Any) -> Options:  # type: ignore[override, misc]
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        self.changes = next(_changes)
        return super().setdefault(name, default)

    def pop(self, *args: Any) -> Any:
        self.changes = next(_changes)
        return super().pop(*args)

    def popitem(self) -> tuple[str, Any]:
        self.changes = next(_changes)
        return super().popitem()

    def clear(self) -> None:
        self.changes = next(_changes)
        super().clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return Options, (dict(self),)


def changes_of(group: Any) -> Any:
    """Return the mark that a change of a group renews; for a plain dict a new one each time."""
    return group.changes if type(group) is Options else object()


class OptionCell(Cell):
    """A cell of a number among a group's options, or of element `index` of a pair of them.

    In a trace a weak scalar stands there: it takes the dtype of what it meets, as the number does.
    """

    __slots__ = ("group", "name", "index")

    def __init__(self, group: MutableMapping[str, Any], name: str, index: int | None = None) -> None:
        self.group, self.name, self.index = group, name, index

    @property
    def key(self) -> tuple[Any, ...]:
        return id(self.group), self.name, self.index

    @property
    def spec(self) -> Spec:
        return _NUMBER

    @property
    def numbers(self) -> Sequence[tuple[MutableMapping[str, Any], str]]:
        return ((self.group, self.name),) if self.index is None else ()

    @property
    def items_held(self) -> Sequence[tuple[MutableMapping[str, Any], str]]:
        return ((self.group, self.name),)

    def get(self) -> Array:
        return np.asarray(self._number, float64)

    def writes(self, array: Array) -> Iterable[Call]:
        number: Iterator[Any] = later(array.item)
        if self.index is None:
            return self._stores(number)
        values = self.group[self.name]
        before, after = values[: self.index], values[self.index + 1 :]
        return self._stores(map(tuple, map(chain, (before,), zip(number), (after,))))

    def _stores(self, value: Iterable[Any]) -> Iterable[Call]:
        """Return the calls that store the one value that the iterable gives, a change of the group."""
        group = self.group
        if type(group) is not Options:
            return zip((setitem,), (group,), (self.name,), value)
        store = zip((dict.__setitem__,), (group,), (self.name,), value)
        return chain(((setattr, group, "changes", next(_changes)),), store)

    @property
    def _number(self) -> Any:
        value = self.group[self.name]
        return value if self.index is None else value[self.index]

    def _with(self, number: Any) -> Any:
        """Return the option with another number."""
        if self.index is None:
            return number
        values = list(self.group[self.name])
        values[self.index] = number
        return tuple(values)

    def undo(self) -> Sequence[Call]:
        return tuple(self._stores((self.group[self.name],)))

    def hold(self, tensor: Tensor) -> None:
        self.group[self.name] = self._with(weak(tensor))

    def held(self) -> Tensor:
        value = self._number
        return _strong(value) if isinstance(value, Tensor) else wrap(np.asarray(value, float64))


class CountCell(Cell):
    """A cell of the number of steps that several parameters have made, equally many.

    What a step computes of the count (the corrections of Adam's averages) is then computed once for all
    of them, of the first element. They may part ways in a step, where some have no gradient.
    """

    __slots__ = ("states", "tracing", "input", "counts", "skips")

    def __init__(self, states: Sequence[dict[str, Any]], tracing: list[CountCell]) -> None:
        self.states = states
        self.tracing = tracing  # where its optimiser finds it during a trace
        self.input: Tensor | None = None
        self.counts: list[Tensor] = []  # in a trace: before the first step, after it, ...
        self.skips = False  # whether a step of the trace may be left out

    @property
    def key(self) -> tuple[Any, ...]:
        return id(self.states[0]), "step"

    @property
    def spec(self) -> Spec:
        return spec_of((len(self.states),), int64)

    @property
    def numbers(self) -> Sequence[tuple[MutableMapping[str, Any], str]]:
        return [(s, "step") for s in self.states]

    def get(self) -> Array:
        return np.array([s["step"] for s in self.states], int64)

    def writes(self, array: Array) -> Iterable[Call]:
        return zip(repeat(setitem), self.states, repeat("step"), chain.from_iterable(later(array.tolist)))

    def undo(self) -> Sequence[Call]:
        return [
            (setattr, self, "input", None),
            (setattr, self, "counts", []),
            (setattr, self, "skips", False),
            (self.tracing.__setitem__, slice(None), self.tracing[:]),
            *((setitem, state, "step", state["step"]) for state in self.states),
        ]

    def hold(self, tensor: Tensor) -> None:
        self.input = tensor
        self.counts = [weak(tensor[0])]
        self.tracing.append(self)
        for state in self.states:
            state["step"] = self.counts[0]

    def held(self) -> Tensor:
        assert self.input is not None
        made = [next(i for i, c in enumerate(self.counts) if c is s["step"]) for s in self.states]
        if self.skips:
            return stack([_strong(self.counts[i]) for i in made]) if any(made) else self.input
        return self.input + wrap(np.array(made, int64)) if any(made) else self.input

    def after(self, count: Any, unless: Tensor | None = None) -> Tensor | None:
        """Return the count that follows one of this cell's in a trace; None for a value that is no count of it.

        It is the same one where `unless` holds.
        """
        for i, known in enumerate(self.counts):
            if known is count:
                if i + 1 == len(self.counts):
                    self.skips = self.skips or unless is not None
                    self.counts.append(known + (1 if unless is None else where(unless, 0, 1)))
                return self.counts[i + 1]
        return None


def _strong(x: Tensor) -> Tensor:
    assert x.node is not None
    return abstract(x.node)
