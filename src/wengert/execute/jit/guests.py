"""Per-object caches of compiled functions, for the modules, optimisers and functions among the arguments.

It must not keep those objects alive. What is known of an object leads back to it, though: its dict, tensors in it,
a part that knows the whole. So an object that lets compiled functions do so, by an item `_compiled` of its dict, keeps
what they know of it itself, and both go together. For others the function keeps it, and nothing in it
refers to the object as such; it is forgotten when the object is gone, or when others came in its place.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from .capture.captured import Captures
from .capture.reading import Reads
from .dispatch.program import MISS
from .program import Path
from .variants import Program

# Calls with so many different objects are known at once, and fast paths for so many kinds of calls with the same.
_GUESTS = 64
_SHORTS = 64
# Captured states of one set of cells that are known at once: a model that trains and is tested in turn has two.
_AROUNDS = 4

Way = Callable[..., Any]
Name = tuple[int, ...]


class Short(NamedTuple):
    """The fast paths for calls of one kind, with the program and the paths that they were made from."""

    ways: tuple[Way, ...]
    captures: Captures
    program: Program
    paths: list[Path]


def parts_of(objects: Sequence[Any]) -> list[Any]:
    """Return the objects that identify a call: the parts of a method, which is made anew whenever it is asked for."""
    found: list[Any] = []
    for x in objects:
        found += (x.__self__, x.__func__) if isinstance(x, types.MethodType) else (x,)
    return found


def origin(way: Way) -> Way | None:
    """Return the fast path that a function is, or stands for."""
    stands_for = getattr(way, "stands_for", None)
    found: Way | None = way if stands_for is None else stands_for()
    return found


class Guest:
    """The cache for one set of such objects; `name` is empty where there are none."""

    def __init__(self, name: Name = ()) -> None:
        self.name = name
        self.captures_of: dict[Reads | None, list[Captures]] = {}
        self.shorts: dict[tuple[Any, ...], Short] = {}
        self.is_kept_elsewhere = False
        self.alive: list[Any] = []
        # By the words of native ways: what these need.
        self._kept: dict[int, tuple[weakref.ref[Any], dict[Any, Any]]] = {}

    def captures(self, reads: Reads | None) -> Captures | None:
        """Return a captured state whose checks still hold."""
        known = self.captures_of.get(reads, ())
        return next((a for a in known if a.holds()), None)

    def learn(self, reads: Reads | None, captures: Captures) -> list[Way]:
        """Add a captured state; return the fast paths that are of no use any more.

        Those of other cells are forgotten: nobody else may have these.
        """
        known = self.captures_of.get(reads, ())
        cells = captures.numbers.keys()
        gone = [a for i, a in enumerate(known) if a.numbers.keys() != cells or i >= _AROUNDS - 1]
        self.captures_of[reads] = [captures, *(a for a in known if a not in gone)]
        return self.forget(lambda short: short.captures in gone)

    def keep(self, mark: tuple[Any, ...], short: Short) -> list[Way]:
        """Add fast paths; return those that have to make room for them."""
        old = self.shorts.get(mark)
        if old is None and len(self.shorts) >= _SHORTS:
            old = next(iter(self.shorts.values()))
        gone = self.forget(lambda s: s is old)
        self.shorts[mark] = short
        for way in short.ways:
            if self.is_kept_elsewhere and isinstance(way, types.BuiltinFunctionType):
                words: Any = way.__self__
                self._kept[id(words)] = weakref.ref(words), words.kept
                words.kept = {}
        return gone

    def forget(self, is_gone: Callable[[Short], bool]) -> list[Way]:
        """Forget fast paths."""
        gone = {mark: short for mark, short in self.shorts.items() if is_gone(short)}
        for mark, short in gone.items():
            del self.shorts[mark]
            for way in short.ways:
                if isinstance(way, types.BuiltinFunctionType):
                    self._give_back(id(way.__self__))
        return [way for short in gone.values() for way in short.ways]

    def _give_back(self, number: int) -> None:
        """Let a native fast path keep what it needs: it may be running."""
        ref, kept = self._kept.pop(number, (lambda: None, {}))
        words = ref()
        if words is not None:
            words.kept = kept

    def offered(self, short: Short) -> tuple[Way, ...]:
        """Return fast paths for a function to try, weakly referenced where an object keeps them."""
        return tuple(map(self._loose, short.ways)) if self.name else short.ways

    def _loose(self, way: Way) -> Way:
        ref = weakref.ref(way)

        def call(*args: Any) -> Any:
            found = ref()
            return MISS if found is None else found(*args)

        call.stands_for = ref  # type: ignore[attr-defined]
        call.guest = self.name  # type: ignore[attr-defined]
        return call

    def clear(self) -> list[Way]:
        """Forget everything, and return the fast paths."""
        self.captures_of.clear()
        return self.forget(lambda _: True)


class Keeper:
    """The cache that an object keeps for compiled functions; copies of the object have none of it."""

    def __init__(self) -> None:
        self.guests: WeakKeyDictionary[Guests, dict[Name, Guest]] = WeakKeyDictionary()

    def __reduce__(self) -> Any:
        return type(None), ()


class _Known(NamedTuple):
    """The location of a guest, weak references to its objects, and its keeper."""

    find: Callable[[], Guest | None]
    refs: list[Any]
    keeper: Callable[[], Keeper | None]


def _keeper_of(objects: Sequence[Any]) -> Keeper | None:
    """Return the keeper of a guest: of the last of its modules and optimisers, else of its functions.

    An optimiser comes after its model, and is nothing without it.
    """
    own = [(x, x.__dict__) for x in objects if isinstance(getattr(x, "__dict__", None), dict)]
    functions = [d for x, d in own if isinstance(x, types.FunctionType)]
    found = [d for x, d in own if "_compiled" in d and not isinstance(x, types.FunctionType)] or functions
    if not found:
        return None
    mine = found[-1]
    if mine.get("_compiled") is None:
        mine["_compiled"] = Keeper()
    keeper: Keeper = mine["_compiled"]
    return keeper


class Guests:
    """The guests of one function."""

    def __init__(self, left: Callable[[Name], None]) -> None:
        self._left = weakref.WeakMethod(left)
        self._known: dict[Name, _Known] = {}

    def of(self, objects: Sequence[Any]) -> Guest:
        """Return the guest of some objects."""
        name = tuple(map(id, parts_of(objects)))
        known = self._known.pop(name, None)
        guest = known.find() if known is not None else None
        if known is None or guest is None:
            known = self._welcome(name, objects)
            guest = known.find()
            assert guest is not None
            while len(self._known) >= _GUESTS:
                self._forget(next(iter(self._known)))
        self._known[name] = known
        return guest

    def _welcome(self, name: Name, objects: Sequence[Any]) -> _Known:
        guest = Guest(name)
        refs: list[Any] = []
        me = weakref.ref(self)

        def gone(_: Any) -> None:
            guests = me()
            if guests is not None:
                guests._lose(name)

        for x in parts_of(objects):
            try:
                refs.append(weakref.ref(x, gone))
            except TypeError:  # it stays as long as it is known
                guest.alive.append(x)
        keeper = _keeper_of([x.__self__ if isinstance(x, types.MethodType) else x for x in objects])
        if keeper is None:
            return _Known(lambda: guest, refs, lambda: None)
        guest.is_kept_elsewhere = True
        keeper.guests.setdefault(self, {})[name] = guest
        return _Known(weakref.ref(guest), refs, weakref.ref(keeper))

    def _forget(self, name: Name) -> None:
        """Forget a guest once its native fast paths have ended, which may still be running."""
        known = self._known.get(name)
        guest = known.find() if known is not None else None
        if guest is not None:
            guest.clear()
        self._lose(name)

    def _lose(self, name: Name) -> None:
        known = self._known.pop(name, None)
        keeper = known.keeper() if known is not None else None
        if keeper is not None:
            keeper.guests.get(self, {}).pop(name, None)
        left = self._left()
        if left is not None:
            left(name)

    def __iter__(self) -> Iterator[Guest]:
        return iter([guest for known in list(self._known.values()) if (guest := known.find()) is not None])

    def clear(self) -> None:
        """Forget them all."""
        while self._known:
            self._forget(next(iter(self._known)))
