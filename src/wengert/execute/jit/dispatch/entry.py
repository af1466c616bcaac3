"""The shortest way through a call: a native function that checks it, feeds the program, runs it and answers.

What `fast` writes in Python, this writes as a recipe for the compiled entry (`native/dispatch/entry.py`): the same
calls, a few nanoseconds for each thing that is looked at. What guards the program is looked at where
it stands: a dict that was not changed since, by its version; what can only be asked, by Python.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.mode import get_mode
from ....core.standins import WeakTensor
from ....core.tensor import DataView, Tensor
from ....core.tree import Structure
from ...native.dispatch import entry
from ...native.dispatch.entry import Label, Memory, Object, Operand, Recipe, Word
from ...native.run import threads
from ...native.run.runtime import Seat
from ..capture.captured import Captures, Check, checker
from ..program import Path
from ..signature import Call
from .recipe import PathWriter, Rare, kinds_of, plain_key


def compiled_call(call: Call, captures: Captures, paths: Sequence[Path], missed: Any) -> Callable[..., Any] | None:
    """The function of a call's positional arguments, which returns `missed` where it gives up; None: there is none.

    It takes the first of the paths for the likeliest, and goes over to others as decisions fall.
    """
    found = entry.entry()
    if found is None:
        return None
    try:
        return _Cook(found, call, captures).function(paths, missed)
    except Rare:
        return None


class _Cook:
    """Writes one recipe."""

    def __init__(self, found: entry.Entry, call: Call, captures: Captures) -> None:
        self.call, self.captures, self.at = call, captures, found.layout
        self.recipe = Recipe(found, len(call.structure.children[0].children))
        self.do = self.recipe.do
        # Words that hold the arguments' leaves, and memory that numbers among them are copied to.
        self.leaves: list[Word] = []
        self.scalars: dict[int, np.ndarray[Any, Any]] = {}
        # What changes an operand of the function, once there is one.
        self.change: list[Callable[[int, int, Operand], None]] = []

    def function(self, paths: Sequence[Path], missed: Any) -> Callable[..., Any]:
        positional, keywords = self.call.structure.children
        if keywords.children:
            raise Rare
        # From one path only to a later one, so that no call goes round in circles.
        paths = [paths[0], *sorted(paths[1:], key=lambda p: -len(p.decisions))]
        writers = []
        for path in paths:
            try:
                writers.append(PathWriter(self.recipe, self.call, self.captures, self.leaves, self.scalars, path))
            except Rare:
                if path is paths[0]:
                    raise
        self.asked([c.seat for c in writers])
        mode = get_mode()
        self.do("mode", Object(get_mode.__self__), Object(mode.grad), Object(mode.floats))  # type: ignore[attr-defined]
        for i, child in enumerate(positional.children):
            self.argument(child, Word("values", i))
        self.guards()
        labels = [Label() for _ in writers]
        for n, writer in enumerate(writers):
            self.recipe.place(labels[n])
            start = len(self.recipe.code)
            try:
                writer.write(_others(n, writers, labels))
            except Rare:
                if n == 0:
                    raise
                del self.recipe.code[start:]
                self.do("jump")
        made, change = self.recipe.function(missed)
        self.change.append(change)
        return made

    # -- arguments

    def argument(self, structure: Structure, word: Word) -> None:
        """Check one argument, and find its leaves."""
        if structure.kind is None:
            self.leaf(word)
        elif structure.kind is type(None):
            self.do("is", word, Object(None))
        elif structure.kind in (tuple, list):
            count = len(structure.children)
            items = self.recipe.value(*[0] * max(1, count))
            self.do(structure.kind.__name__, word, count, items)
            for i, child in enumerate(structure.children):
                self.argument(child, Word("values", items.number + i))
        elif structure.kind is dict:
            self.do("dict", word, len(structure.children))
            for key, child in zip(structure.aux, structure.children, strict=True):
                item = self.recipe.value()
                self.do("value", word, Object(plain_key(key)), item)
                self.argument(child, item)
        else:
            raise Rare

    def leaf(self, word: Word) -> None:
        index = len(self.leaves)
        leaf = self.call.leaves[index]
        self.leaves.append(word)
        if isinstance(leaf, Tensor):
            is_state = (id(leaf),) in self.captures.numbers or isinstance(leaf, DataView)
            if leaf.requires_grad or leaf._data is None or is_state:
                raise Rare
            first = next(i for i, other in enumerate(self.call.leaves) if other is leaf)
            if first < index:  # one input for both
                self.do("same", word, self.leaves[first])
                return
            if type(leaf) is WeakTensor:  # its array is looked at where it is fed
                self.do("is_number", word, Object(WeakTensor))
            else:
                self.do("is_tensor", word, Object(type(leaf)), Object(leaf._spec))
        elif type(leaf) is np.ndarray:
            if not leaf.dtype.isnative:
                raise Rare
            self.do("is_array", word, *kinds_of(leaf.dtype, leaf.shape))
        elif isinstance(leaf, np.generic):
            raise Rare
        elif index in self.call.positions:
            if type(leaf) not in (int, float):
                raise Rare
            self.scalars[index] = np.zeros(1, np.int64)
            self.do(type(leaf).__name__, word, Memory(self.scalars[index]))
        elif isinstance(leaf, types.MethodType):  # made anew whenever it is asked for
            raise Rare
        elif any(i == index for i, _ in self.call.owners):
            self.do("is", word, id(leaf))  # the way is dropped before it is gone (`guests`)
        else:
            # Only what compares without running code of users'.
            self.do("equals" if type(leaf) in (bool, int, float, complex, str, bytes) else "is", word, Object(leaf))

    # -- guards

    def asked(self, seats: Sequence[Seat]) -> None:
        """What takes Python to find out comes first: other threads may run meanwhile."""
        rest = [c for c in self.captures.checks if not self.is_seen(c)]
        if rest:
            self.do("asks", Object(checker(rest)))
        for c in self.captures.checks:
            if c.kind == "static":
                self.static(c)
        self.classes([c for c in self.captures.checks if c.kind == "class" and self.is_seen(c)])
        threads_now = threads.__dict__
        self.watched([("item", threads_now, "generation")], lambda: all(seat.renew() for seat in seats))

    def is_seen(self, c: Check) -> bool:
        """Whether the entry can look at what a check is about."""
        if c.kind == "item":
            return type(c.holder) is dict and type(c.name) is str
        if c.kind == "entry":
            return type(c.holder) is list
        if c.kind == "absent":
            return type(c.name) is str
        if c.kind == "length":
            return type(c.holder) in (dict, list, set)
        if c.kind == "contents":  # without any, how many there are says it all
            return type(c.holder) is set and not c.value
        if c.kind == "class":
            return self.at.type_version > 0
        if c.kind == "function":
            return self.at.function_code > 0
        return c.kind in ("cell", "tensor", "value", "static")

    def static(self, c: Check) -> None:
        """An object's decisions: where all is as it was when it was asked last, it need not be asked."""
        ask = getattr(type(c.holder), "__jit_watched__", None)
        watched = ask(c.holder) if ask is not None else None
        holder, value = c.holder, c.value
        if watched is None:
            self.do("asks", Object(lambda: holder.__jit_static__() == value))
        else:
            self.watched(watched, lambda: holder.__jit_static__() == value)

    def classes(self, checks: Sequence[Check]) -> None:
        """Where no class was changed since they were asked last, they need not be asked."""
        if not checks:
            return
        changed, end = Label(), Label()
        at, holds = self.at.type_version, checker(checks)
        pairs = self.recipe.words([(c.holder, at, entry.version_of(c.holder)) for c in checks], changed)
        self.do("jump", otherwise=end)

        def again() -> bool:
            right = holds()
            if right:
                pairs.change([entry.version_of(c.holder) for c in checks])
            return right

        self.recipe.place(changed)
        self.do("asks", Object(again))
        self.recipe.place(end)

    def watched(self, places: Sequence[tuple[str, Any, Any]], ask: Callable[[], bool]) -> None:
        """Look at places; where one has changed, ask, and if the answer is yes take what is there now for right."""
        changed, end = Label(), Label()
        refreshed: list[tuple[int, int, Callable[[], Operand]]] = []
        for kind, holder, name in places:
            number, k, now = self.watch(kind, holder, name, changed)
            refreshed.append((number, k, now))
        self.do("jump", otherwise=end)

        change = self.change

        def again() -> bool:
            if not ask():
                return False
            for number, k, now in refreshed:
                if k >= 0:
                    change[0](number, k, now())
            return True

        self.recipe.place(changed)
        self.do("asks", Object(again))
        self.recipe.place(end)

    def watch(self, kind: str, holder: Any, name: Any, changed: Label) -> tuple[int, int, Callable[[], Operand]]:
        """Look at one place: the instruction, its operand that has the value, and what that would be now."""
        if kind == "item":

            def now() -> Operand:
                return Object(holder[name])

            return self.do("item", Object(holder), Object(name), now(), otherwise=changed), 2, now
        if kind == "length":

            def now() -> Operand:
                return len(holder)

            return self.do("word", Object(holder), self.at.size, now(), otherwise=changed), 2, now
        if kind == "entry":

            def now() -> Operand:
                return Object(holder[name])

            return self.do("element", Object(holder), name, now(), otherwise=changed), 2, now
        if kind == "slot":
            offset = entry.slot_of(holder, name)
            if offset is None:
                raise Rare

            def now() -> Operand:
                return Object(getattr(holder, name))

            return self.do("word", Object(holder), offset, now(), otherwise=changed), 2, now
        found = np.zeros(len(holder), np.int64)
        for i, (items, key) in enumerate(holder):
            word = self.recipe.value()
            self.do("value", self.recipe.value(Object(items)), Object(key), word, otherwise=changed)
            self.do("int", word, Memory(found[i:]), otherwise=changed)
        return self.do("all_equal", Memory(found), len(found), otherwise=changed), -1, lambda: 0

    def guards(self) -> None:
        """What can be looked at: by dict, where the dict itself says whether it was changed."""
        by_dict: dict[int, list[Check]] = {}
        words: list[tuple[object, int, int | Object]] = []
        for c in self.captures.checks:
            if not self.is_seen(c) or c.kind in ("static", "class"):
                continue
            if type(c.holder) is dict and self.at.dict_version:
                by_dict.setdefault(id(c.holder), []).append(c)
            elif found := self.words_of(c):
                words += found
            else:
                self.guard(c)
        self.recipe.words(words)
        for checks in by_dict.values():
            same, version = Label(), self.recipe.value()
            self.do("changed", Object(checks[0].holder), version, otherwise=same)
            self.recipe.words([w for c in checks for w in self.words_of(c)])
            for c in checks:
                if not self.words_of(c):
                    self.guard(c)
            self.do("note", Object(checks[0].holder), version)
            self.recipe.place(same)

    def words_of(self, c: Check) -> list[tuple[object, int, int | Object]]:
        """The words of objects that a check is about, with what has to stand there; none where it takes more."""
        if c.kind in ("length", "contents"):
            size = self.at.set_size if type(c.holder) is set else self.at.size
            return [(c.holder, size, len(c.value) if c.kind == "contents" else c.value)]
        if c.kind == "cell":
            return [(c.holder, self.at.cell_contents, Object(c.value))]
        if c.kind == "function":
            code, defaults = c.value
            absent = 0 if defaults is None else Object(defaults)
            return [(c.holder, self.at.function_code, Object(code)), (c.holder, self.at.function_defaults, absent)]
        if c.kind == "tensor":
            spec, node = c.value
            same = [] if spec is None else [(c.holder, self.at.tensor_spec, Object(spec))]
            return [*same, (c.holder, self.at.tensor_node, Object(node))]
        if c.kind == "value":
            return [(c.holder, self.at.tensor_data, Object(c.value))]
        return []

    def guard(self, c: Check) -> None:
        if c.kind == "item":
            self.do("item", Object(c.holder), Object(c.name), Object(c.value))
        elif c.kind == "entry":
            self.do("element", Object(c.holder), c.name, Object(c.value))
        else:
            nothing, holder, found = Label(), self.recipe.value(Object(c.holder)), self.recipe.value()
            self.do("value", holder, Object(c.name), found, otherwise=nothing)
            self.do("jump")
            self.recipe.place(nothing)


def _others(n: int, writers: Sequence[PathWriter], labels: Sequence[Label]) -> list[Label | None]:
    """For each decision of a path, where to go on if it falls otherwise: the longest of the later paths that fit.

    From a longer one it shows where it ends.
    """
    decisions = writers[n].path.decisions
    found: list[Label | None] = []
    for i, value in enumerate(decisions):
        fits = (
            k
            for k in range(n + 1, len(writers))
            if (d := writers[k].path.decisions)[:i] == decisions[:i] and len(d) > i and d[i] != value
        )
        first = next(fits, None)
        found.append(None if first is None else labels[first])
    return found
