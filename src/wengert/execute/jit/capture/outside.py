"""Side effects of a function's Python code while it is traced: attributes, items, variables outside.

A trace is a call: what it changes is changed. A program that runs later in the place of the code has to change the
same. It can where a tensor or a plain value is put into a place; where it cannot (a list that grows, a new
object), the program is run once, and the function is traced again in the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ....core import tree
from ....core.errors import GraphError, fail
from ....core.state.at_once import Call, at_once
from ....core.tensor import Tensor
from .captured import MISSING, SCALARS, Captures, Container, Place, contents, same_contents
from .drawn import Drawn


class PlaceWrite(NamedTuple):
    """A place where a run puts a pytree: its structure, and its leaves, constants or numbers of outputs.

    `is_item`: an item of one of the captured containers, by its number and name; else one of their places.
    """

    is_item: bool
    number: int
    name: Any
    structure: Any
    leaves: tuple[Any, ...]

    def place(self, captures: Captures) -> Place:
        """Return the place in this captured state."""
        if not self.is_item:
            return captures.places[self.number]
        container = captures.containers[self.number]
        return Place(container.items, self.name, container.path)

    def write(self, captures: Captures, leaves: list[Any]) -> Call:
        """Return the call that puts the pytree with these leaves there."""
        return self.place(captures).write(tree.unflatten(self.structure, leaves))


class Outside:
    """The values in the containers and places that a function captures, as they were before it was traced."""

    def __init__(self, captures: Captures) -> None:
        self.captures = captures
        self.containers = [
            dict(c.items) if isinstance(c.items, dict) else contents(c.items) for c in captures.containers
        ]
        self.places = [p.read() for p in captures.places]
        self.drawn = Drawn(captures.generators)
        self._written: set[tuple[int, Any]] = set()
        # The values that the trace left where a run writes, by holder and name.
        self.left: dict[tuple[int, Any], Any] = {}

    def leave(self, writes: Iterable[PlaceWrite]) -> None:
        """Record what there is where a run is to write."""
        found = (write.place(self.captures) for write in writes)
        self.left = {(id(p.holder), p.name): p.read() for p in found}

    def put_back(self) -> None:
        """Remove abstract values and tensors that every run makes anew; everything else that changed stays."""
        for container, before in zip(self.captures.containers, self.containers, strict=True):
            items = container.items
            if isinstance(items, dict):
                for key in [k for k, v in items.items() if before.get(k, MISSING) is not v]:
                    if self._is_made(items, key, items[key]):
                        if key in before:
                            items[key] = before[key]
                        else:
                            del items[key]
            elif not isinstance(before, bytes) and any(self._is_made(items, i, v) for i, v in enumerate(_each(items))):
                _refill(items, before)
        for place, before in zip(self.captures.places, self.places, strict=True):
            now = place.read()
            if now is not before and self._is_made(place.holder, place.name, now):
                at_once([place.write(before)])()

    def _is_made(self, holder: Any, key: Any, value: Any) -> bool:
        """Return whether a value holds tensors that a run puts there."""
        return _has_abstract(value) or ((id(holder), key) in self._written and _has_tensors(value))

    def undo(self) -> None:
        """Restore everything as it was: the call begins anew."""
        self.drawn.undo()
        for container, before in zip(self.captures.containers, self.containers, strict=True):
            items = container.items
            if isinstance(items, dict):
                if not _same_names(items, before):
                    items.clear()
                    items.update(before)
                elif changed := {k: v for k, v in before.items() if items[k] is not v}:  # it may refuse to be written
                    items.update(changed)
            elif not same_contents(items, before):
                _refill(items, before)
        for place, before in zip(self.captures.places, self.places, strict=True):
            if place.read() is not before:
                at_once([place.write(before)])()

    def writes(self, name: str, result: Callable[[Any], Any]) -> tuple[tuple[PlaceWrite, ...], bool]:
        """Return the writes that a run has to make, and whether they are all that the trace of `name` changed.

        `result` gives the number of a tensor among the outputs, and the constant that another leaf is.
        """
        found: dict[tuple[int, Any], PlaceWrite] = {}
        is_all = True

        def put(value: Any, holder: Any, is_item: bool, number: int, key: Any, counts: bool) -> None:
            nonlocal is_all
            if not _has_abstract(value):
                if not counts:
                    return
                if not _is_plain(value):
                    is_all = False
                    return
            leaves, structure = tree.flatten_whole(value)
            at = id(holder), key
            if at not in found:
                found[at] = PlaceWrite(is_item, number, key, structure, tuple(map(result, leaves)))
                self._written.add(at)

        for number, (container, before) in enumerate(zip(self.captures.containers, self.containers, strict=True)):
            items = container.items
            if isinstance(items, dict):
                for key, value in items.items():
                    if type(key) is str and key in container.held:
                        continue
                    old = before.get(key, MISSING)
                    if old is not value:
                        put(value, items, True, number, key, _counts(container, key, value, old))
                is_all &= not any(k not in items and _counts(container, k, v, v) for k, v in before.items())
            elif not same_contents(items, before):
                if not isinstance(items, list) or len(items) != len(before):
                    _refuse_abstract(name, container)
                    is_all = False
                    continue
                for i, (value, old) in enumerate(zip(items, before, strict=True)):
                    if value is not old:
                        put(value, items, True, number, i, True)
        for number, (place, before) in enumerate(zip(self.captures.places, self.places, strict=True)):
            now = place.read()
            if now is not before:
                put(now, place.holder, False, number, place.name, True)
        return tuple(found.values()), is_all and not self.drawn.changed()


def _same_names(items: dict[Any, Any], before: dict[Any, Any]) -> bool:
    """Return whether two dicts have the same names in one order; tensors among them are compared by identity."""
    pairs = zip(items, before, strict=False)
    return len(items) == len(before) and all(a is b or (not isinstance(a, Tensor) and a == b) for a, b in pairs)


def _counts(container: Container, key: Any, value: Any, old: Any) -> bool:
    """Return whether the function may read an item."""
    return container.names is None or container.names(key, value) or container.names(key, old)


def _refuse_abstract(name: str, container: Container) -> None:
    if not isinstance(container.items, bytearray) and any(map(_has_abstract, _each(container.items))):
        kind = type(container.items).__name__
        what = f"the length of the list {container.path}" if kind == "list" else f"the {kind} {container.path}"
        fail(
            GraphError,
            f"{name} changes {what} outside it, which holds computed tensors",
            "A compiled function runs without its Python code: return what is to be collected, and append it outside.",
        )


def _each(items: Any) -> Any:
    """Return the contents of a container that is no dict; of an array the objects, or nothing."""
    if isinstance(items, np.ndarray):
        return items.flat if items.dtype.hasobject else ()
    return items


def _refill(items: Any, before: Any) -> None:
    if isinstance(items, np.ndarray):
        if items.dtype.hasobject:
            for place, value in zip(np.ndindex(items.shape), before, strict=True):
                items[place] = value
        else:
            items[...] = np.frombuffer(before, items.dtype).reshape(items.shape)
    elif isinstance(items, (list, bytearray)):
        items[:] = before
    else:
        items.clear()
        (items.extend if hasattr(items, "extend") else items.update)(before)


def _has_abstract(value: Any) -> bool:
    return any(isinstance(leaf, Tensor) and leaf._array is None for leaf in tree.flatten_whole(value)[0])


def _has_tensors(value: Any) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in tree.flatten_whole(value)[0])


def _is_plain(value: Any) -> bool:
    """Return whether a value is made of tensors and plain values alone, so that another one like it can be made."""
    return value is not MISSING and all(
        isinstance(leaf, SCALARS)
        or (isinstance(leaf, Tensor) and type(leaf) is leaf.result_class and leaf.node is None)
        for leaf in tree.flatten_whole(value)[0]
    )
