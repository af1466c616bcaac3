"""Atomic changes: made as a whole or not at all, whatever signal arrives.

The handlers of signals (Ctrl-C raises KeyboardInterrupt in one) run between instructions of Python's, never inside of
a function that is written in C. So what several places are to have together is worked out first, which may be
interrupted at will, and then put there by calls that one function written in C makes one after the other.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, compress, repeat, starmap
from operator import call, is_not
from typing import Any, TypeVar

T = TypeVar("T")

# A function and its arguments. To be made at once with others it has to be written in C, and not to raise: storing an
# item of a dict, an attribute in a slot, a context variable's value.
Call = tuple[Any, ...]


def at_once(calls: Iterable[Call]) -> Callable[[], object]:
    """Return a function that makes the calls, one after the other, with nothing in between.

    >>> table = {}
    >>> _ = at_once([(table.update, {"a": 1}), (table.setdefault, "b", 2)])()
    >>> table
    {'a': 1, 'b': 2}
    """
    return partial(_consume, starmap(call, calls))


def later(function: Callable[[], T]) -> Iterator[T]:
    """Return an iterator of one value, which `function` (written in C) gives when it is asked for."""
    return map(call, (function,))


def undoing(calls: list[Call]) -> Callable[[], object]:
    """Return a function that makes the calls in the list by the time that it is called, the last one first.

    A change is undone whatever happens where the call that undoes it is put there before the change is made, and
    this is called in a `finally`.
    """
    return at_once(chain.from_iterable(map(reversed, (calls,))))


def for_all(objects: list[Any], function: Callable[..., object], *arguments: Any) -> list[Call]:
    """Return the call that makes `function(x, *arguments)` for each object in the list when the call is made."""
    return [(_consume, map(function, objects, *map(repeat, arguments)))]


class StoredWhereAlive:
    """Values for slots of objects that may be gone when they are put back; `calls` puts them there."""

    def __init__(self, store: Callable[[Any, Any], object]) -> None:
        self._objects: list[weakref.ref[Any]] = []
        self._values: list[Any] = []
        alive = map(is_not, map(call, self._objects), repeat(None))
        pairs = compress(zip(map(call, self._objects), self._values), alive)
        self.calls: list[Call] = [(_consume, starmap(store, pairs))]

    def add(self, x: Any, value: Any) -> None:
        """Add a value for the slot of `x`, to be stored if `x` is still there."""
        self._values.append(value)
        self._objects.append(weakref.ref(x))


_consume: Callable[..., object] = partial(deque, maxlen=0)
