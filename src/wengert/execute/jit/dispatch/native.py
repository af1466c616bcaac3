"""The dispatch program's native interpreter: each instruction as instructions of the compiled entry.

What a method called `on_...` adds is what the instruction of that name means. What guards the program is looked at
where it stands: a dict that was not changed since, by its version; what can only be asked, by Python, first of all.
Nothing is read off an object whose type and layout were not looked at in the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.mode import get_mode
from ....core.node import Hooked, Node
from ....core.ops.op import LEAF
from ....core.spec import Spec
from ....core.state.capture import open_variables
from ....core.state.observer import observers
from ....core.tensor import Tensor
from ...engines import XLA
from ...native.dispatch import entry, layout
from ...native.dispatch.assembler import Assembler, Entry, Label, Memory, Object, Operand, Word
from ...native.run import threads
from ...native.run.runtime import Seat
from ..capture.captured import Captures, Check, checker
from ..donation import is_viewed
from .device_path import DevicePath
from .native_path import NativePath, Unsupported, kinds_of, plain_key
from .program import MISS, Dispatch, Instruction, Register

# Types whose instances are compared without running code of users'.
_COMPARED = (bool, int, float, complex, str, bytes)


def function(program: Dispatch) -> Callable[..., Any] | None:
    """Return the native function of a call's positional arguments: their result, or MISS; None without one."""
    found = entry.entry()
    if found is None:
        return None
    try:
        return _NativeCall(found, program).function()
    except Unsupported:
        return None


class _NativeCall:
    """A translation of one program: its checks, and the paths that native code can take."""

    def __init__(self, found: Entry, program: Dispatch) -> None:
        self.program, self.at = program, found.layout
        self.out = Assembler(found, program.arguments)
        self.do = self.out.do
        self.words = {Register("a", i): Word("values", i) for i in range(program.arguments)}
        # Memory that numbers among the arguments are copied to.
        self.numbers: dict[Register, np.ndarray[Any, Any]] = {}
        # Words that hold what was compared by code of users'.
        self.compared: dict[Register, Word] = {}
        # The function that changes an operand of the native function, once there is one.
        self.change: list[Callable[[int, int, Operand], None]] = []

    def function(self) -> Callable[..., Any]:
        paths: list[NativePath | None] = []
        for code in self.program.paths:
            try:
                kind = DevicePath if code.path.engine.name == XLA else NativePath
                paths.append(kind(self.out, self.words, self.numbers, code))
            except Unsupported:
                if not paths:
                    raise
                paths.append(None)
        self.asked([seat for path in paths if path is not None for seat in path.seats])
        for i in self.program.checks:
            self.follow(i)
        if len(paths) > 1 or any(path is not None and path.is_disturbed for path in paths):
            self.hold_leaves()
        labels = [Label() for _ in paths]
        for label, path in zip(labels, paths, strict=True):
            self.out.place(label)
            start = len(self.out.code)
            try:
                if path is None:
                    raise Unsupported
                path.write(labels)
            except Unsupported:
                if label is labels[0]:
                    raise
                del self.out.code[start:]
                self.do("jump")
        made, change = self.out.function(MISS)
        self.change.append(change)
        return made

    def hold_leaves(self) -> None:
        """Hold the leaves that stand in lists and dicts, which others may change before the last of them is fed."""
        loose: set[Register] = set()
        for name, operands in self.program.checks:
            if name in ("tuple", "list") and (name == "list" or operands[0] in loose):
                loose.update(operands[1])
            elif name == "item":
                loose.add(operands[2])
        for a in self.program.leaves:
            if a in loose:
                self.do("keep", self.words[a], self.out.hold())

    def follow(self, i: Instruction) -> None:
        getattr(self, f"on_{i.name}")(*i.operands)

    # -- what takes Python to find out comes first: other threads may run meanwhile

    def asked(self, seats: Sequence[Seat]) -> None:
        checks = self.program.checks
        for i in checks:
            if i.name == "captured":
                self.ask_captured(*i.operands)
            elif i.name == "alone":
                self.ask_alone(*i.operands)
            elif i.name == "equal" and not isinstance(i.operands[1], _COMPARED):
                self.compare(*i.operands)
        if any(i.name == "unobserved" for i in checks):
            self.do("asks", Object(lambda: not open_variables))
        if not seats:
            return
        threads_now = threads.__dict__
        self.watched([("item", threads_now, "generation")], lambda: all(seat.renew() for seat in seats))

    def ask_alone(self, tensor: Tensor, of_gradient: bool) -> None:
        """Ask for views of a tensor, or of its gradient, where something else refers to its array."""
        seen, end = Label(), Label()
        leaf = self.out.value(Object(tensor))
        if of_gradient:
            self.do("gradient_alone", leaf, Object(tensor.result_class), otherwise=seen)
        else:
            self.do("alone", leaf, otherwise=seen)
        self.do("jump", otherwise=end)
        self.out.place(seen)
        self.do("asks", Object(lambda: not is_viewed(tensor.grad if of_gradient else tensor)))
        self.out.place(end)

    def ask_captured(self, captures: Captures) -> None:
        rest = [c for c in captures.checks if not self.is_seen(c)]
        if rest:
            self.do("asks", Object(checker(rest)))
        for c in captures.checks:
            if c.kind == "static":
                self.static(c)
        self.classes([c for c in captures.checks if c.kind == "class" and self.is_seen(c)])

    def compare(self, a: Register, value: Any) -> None:
        """Let users' code compare a leaf, which is held; afterwards what was found on the way is checked again."""
        known = dict(self.words)
        for i in self.way_to(a):
            self.follow(i)
        self.compared[a] = self.out.hold()
        self.do("keep", self.words[a], self.compared[a])
        self.do("equals", self.words[a], Object(value))
        self.words.clear()
        self.words.update(known)

    def way_to(self, a: Register) -> list[Instruction]:
        """Return the checks that lead from an argument to a leaf of it."""
        way: list[Instruction] = []
        for i in reversed(self.program.checks):
            if (i.name in ("tuple", "list") and a in i.operands[1]) or (i.name == "item" and i.operands[2] == a):
                way.append(i)
                a = i.operands[0]
            elif i.name == "dict" and i.operands[0] == a:
                way.append(i)
        return way[::-1]

    # -- arguments

    def unpack(self, kind: str, a: Register, parts: Sequence[Register]) -> None:
        first = self.out.value(*[0] * max(1, len(parts)))
        self.do(kind, self.words[a], len(parts), first)
        for n, part in enumerate(parts):
            self.words[part] = Word("values", first.number + n)

    def on_mode(self, *known: Any) -> None:
        self.do("mode", Object(get_mode.__self__), *map(Object, known))  # type: ignore[attr-defined]

    def on_tuple(self, a: Register, parts: Sequence[Register]) -> None:
        self.unpack("tuple", a, parts)

    def on_list(self, a: Register, parts: Sequence[Register]) -> None:
        self.unpack("list", a, parts)

    def on_dict(self, a: Register, count: int) -> None:
        self.do("dict", self.words[a], count)

    def on_item(self, a: Register, key: Any, part: Register) -> None:
        self.words[part] = self.out.value()
        self.do("value", self.words[a], Object(plain_key(key)), self.words[part])

    def on_same(self, a: Register, b: Register) -> None:
        self.do("same", self.words[a], self.words[b])

    def on_is(self, a: Register, value: Any) -> None:
        self.do("is", self.words[a], Object(value))

    def on_equal(self, a: Register, value: Any) -> None:
        if a in self.compared:
            self.do("same", self.words[a], self.compared[a])
        elif type(value) in (float, complex) and (value == 0 or value != value):
            bits = np.array([value]).view(np.int64)
            self.do("is_bits", self.words[a], Object(type(value)), Memory(bits), len(bits))
        else:
            self.do("equals", self.words[a], Object(value))

    def on_identity(self, a: Register, number: int) -> None:
        self.do("is", self.words[a], number)

    def on_method(self, a: Register, owner: int, fn: int) -> None:
        self.do("is_method", self.words[a], owner, fn)

    def on_tensor(self, a: Register, kind: type, spec: Spec, tracked: bool) -> None:
        self.do("has_spec" if tracked else "is_tensor", self.words[a], Object(kind), Object(spec))

    def on_row_major(self, a: Register) -> None:
        self.do("is_row_major", self.words[a])

    def on_weak(self, a: Register, kind: type, dtype: Any, shape: Any, tracked: bool) -> None:
        # Its array is looked at where it is fed.
        self.do("has_type" if tracked else "is_number", self.words[a], Object(kind))

    def on_tracked(self, a: Register, collects: bool) -> None:
        self.do("is_leaf" if collects else "is_computed", self.words[a], Object(Node), Object(LEAF), Object(Hooked))

    def on_not_written(self, a: Register, tensors: Sequence[Tensor]) -> None:
        for t in tensors:
            self.do("is_not", self.words[a], Object(t))

    def on_array(self, a: Register, dtype: Any, shape: Any) -> None:
        self.do("is_array", self.words[a], *kinds_of(dtype, shape))

    def on_number(self, a: Register, kind: type) -> None:
        self.numbers[a] = np.zeros(2 if kind is complex else 1, np.int64)
        self.do(kind.__name__, self.words[a], Memory(self.numbers[a]))

    def on_unobserved(self) -> None:
        """Add nothing: it was asked before (`asked`)."""

    def on_alone(self, tensor: Tensor, of_gradient: bool) -> None:
        """Add nothing: it was asked before (`asked`)."""

    def on_captured(self, captures: Captures) -> None:
        """Check the captured state: dict by dict, where a dict itself says whether it was changed."""
        by_dict: dict[int, list[Check]] = {}
        # Where anything at all is observed, Python looks who observes this call.
        words: list[tuple[object, int, int | Object]] = [(observers, self.at.size, 0)]
        for c in captures.checks:
            if not self.is_seen(c) or c.kind in ("static", "class"):
                continue
            if type(c.holder) is dict and self.at.dict_version:
                by_dict.setdefault(id(c.holder), []).append(c)
            elif found := self.words_of(c):
                words += found
            else:
                self.guard(c)
        self.out.words(words)
        for checks in by_dict.values():
            same, version = Label(), self.out.value()
            self.do("changed", Object(checks[0].holder), version, otherwise=same)
            self.out.words([w for c in checks for w in self.words_of(c)])
            for c in checks:
                if not self.words_of(c):
                    self.guard(c)
            self.do("note", Object(checks[0].holder), version)
            self.out.place(same)

    # -- captured state

    def is_seen(self, c: Check) -> bool:
        """Return whether the entry can look at what a check is about."""
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
        """Check an object's decisions: where all is as it was when it was asked last, it need not be asked."""
        ask = getattr(type(c.holder), "__jit_watched__", None)
        watched = ask(c.holder) if ask is not None else None
        holder, value = c.holder, c.value
        if watched is None:
            self.do("asks", Object(lambda: holder.__jit_static__() == value))
        else:
            self.watched(watched, lambda: holder.__jit_static__() == value)

    def classes(self, checks: Sequence[Check]) -> None:
        """Check classes: as long as none was changed since they were asked last, they need not be asked."""
        if not checks:
            return
        changed, end = Label(), Label()
        at, holds = self.at.type_version, checker(checks)
        pairs = self.out.words([(c.holder, at, entry.version_of(c.holder)) for c in checks], changed)
        self.do("jump", otherwise=end)

        def again() -> bool:
            right = holds()
            if right:
                pairs.change([entry.version_of(c.holder) for c in checks])
            return right

        self.out.place(changed)
        self.do("asks", Object(again))
        self.out.place(end)

    def watched(self, places: Sequence[tuple[str, Any, Any]], ask: Callable[[], bool]) -> None:
        """Check places; where one has changed, ask, and if the answer is yes accept what is there now."""
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

        self.out.place(changed)
        self.do("asks", Object(again))
        self.out.place(end)

    def watch(self, kind: str, holder: Any, name: Any, changed: Label) -> tuple[int, int, Callable[[], Operand]]:
        """Return the check of one place: the instruction, its operand that has the value, and that value now."""
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
            offset = layout.slot_of(holder, name)
            if offset is None:
                raise Unsupported

            def now() -> Operand:
                return Object(getattr(holder, name))

            return self.do("word", Object(holder), offset, now(), otherwise=changed), 2, now
        found = np.zeros(len(holder), np.int64)
        for i, (items, key) in enumerate(holder):
            word = self.out.value()
            self.do("value", self.out.value(Object(items)), Object(key), word, otherwise=changed)
            self.do("int", word, Memory(found[i:]), otherwise=changed)
        return self.do("all_equal", Memory(found), len(found), otherwise=changed), -1, lambda: 0

    def words_of(self, c: Check) -> list[tuple[object, int, int | Object]]:
        """Return the words of objects that a check is about, with what has to stand there; none where it takes more."""
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
            nothing, holder, found = Label(), self.out.value(Object(c.holder)), self.out.value()
            self.do("value", holder, Object(c.name), found, otherwise=nothing)
            self.do("jump")
            self.out.place(nothing)
