"""The assembler of functions of the compiled entry: instructions and operands, put into one array of words."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....core.state import locks
from ..run.driver import CALL_AWAY
from ..run.runtime import Seat
from .code import ARGUMENTS, BUSY, ENTERED, FIRST, HEADER, HELD, HELD_COUNT, MISS, TURNS, VALUES, WORDS
from .text import Layout


class MethodDef(ctypes.Structure):
    """A record by which CPython knows a function that is written in C."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Entry(NamedTuple):
    """The native entry: the addresses of its handlers, and the layout of objects."""

    handlers: dict[str, int]
    layout: Layout
    method: MethodDef


class Word(NamedTuple):
    """A word of a function's data, by its number; as an operand its address."""

    area: str
    number: int


class Label:
    """A place in a function's instructions, known once it is placed."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = -1


class Object(NamedTuple):
    """An object; as an operand its address, and the function keeps it alive."""

    value: Any


class Memory(NamedTuple):
    """An array; as an operand the address of its memory."""

    array: np.ndarray[Any, Any]


Operand = int | Word | Object | Memory


class Pairs:
    """The words of objects, and what has to stand in them; the objects stay alive."""

    def __init__(self, wanted: Sequence[tuple[object, int, int | Object]]) -> None:
        self.holders = [holder for holder, _, _ in wanted]
        self.values: list[int | Object] = [value for _, _, value in wanted]
        addresses = [id(holder) + at for holder, at, _ in wanted]
        self.array = np.array([*zip(addresses, map(_as_word, self.values))], np.int64).reshape(-1, 2)

    def change(self, values: Sequence[int | Object]) -> None:
        """Set what has to stand there from now on."""
        self.values = list(values)
        self.array[:, 1] = [_as_word(v) for v in values]


def _as_word(value: int | Object) -> int:
    return id(value.value) if isinstance(value, Object) else value


class _Words(np.ndarray[Any, np.dtype[np.int64]]):
    """The words of a function, with the objects that they name."""

    kept: dict[Any, Any]


class Assembler:
    """An assembler of a function: the instructions that the compiled entry follows in a call of so many arguments.

    Words of two kinds come with them: `values`, for objects that are only looked at, and the `held`, for
    references that are given back at the end. The first of the held ones is what the call returns.
    """

    def __init__(self, found: Entry, arguments: int) -> None:
        self.entry = found
        self.arguments = arguments
        self.values: list[Operand] = [0] * arguments
        self.held = 1
        self.code: list[tuple[str, Label | None, tuple[Operand, ...]]] = []
        # The objects that are to stay alive, by what needs them.
        self.kept: dict[Any, Any] = {}

    def value(self, first: Operand = 0, *more: Operand) -> Word:
        """Add words with these contents to begin with, and return the first of them."""
        self.values += [first, *more]
        return Word("values", len(self.values) - 1 - len(more))

    def hold(self, count: int = 1) -> Word:
        """Add words for references, and return the first of them."""
        self.held += count
        return Word("held", self.held - count)

    def words(self, wanted: Sequence[tuple[object, int, int | Object]], otherwise: Label | None = None) -> Pairs:
        """Check words of objects, each with the byte where it stands and what has to stand there."""
        pairs = Pairs(wanted)
        self.kept[id(pairs)] = pairs
        if wanted:
            self.do("words", Memory(pairs.array), len(wanted), otherwise=otherwise)
        return pairs

    def do(self, name: str, *operands: Operand, otherwise: Label | None = None) -> int:
        """Add an instruction, and return its number. Where it fails the call goes on at a label, or is given up."""
        self.code.append((name, otherwise, operands))
        return len(self.code) - 1

    def place(self, label: Label) -> None:
        label.at = len(self.code)

    def function(self, missed: Any) -> tuple[Callable[..., Any], Callable[[int, int, Operand], None]]:
        """Return the function, which returns `missed` for calls that it gives up, and a way to change its operands."""
        header, count = len(HEADER), len(self.values) + self.held
        words = np.zeros(header + count + len(self.code) * WORDS, np.int64).view(_Words)
        words.kept = self.kept
        base = words.ctypes.data
        start = {"header": base, "values": base + 8 * header, "held": base + 8 * (header + len(self.values))}
        first = base + 8 * (header + count)

        def number(operand: Operand, place: Any) -> int:
            """Return an operand as a word, in the place where it stands."""
            if isinstance(operand, Object):
                self.kept[place] = operand.value
                return id(operand.value)
            if isinstance(operand, Memory):
                self.kept[place] = operand.array
                return int(operand.array.ctypes.data)
            return start[operand.area] + 8 * operand.number if isinstance(operand, Word) else operand

        words[ARGUMENTS] = self.arguments
        words[VALUES], words[HELD], words[HELD_COUNT] = start["values"], start["held"], self.held
        words[FIRST], words[MISS] = first, number(Object(missed), MISS)
        words[TURNS] = number(Memory(np.zeros(sum(name == "enter" for name, *_ in self.code), np.int64)), TURNS)
        for i, x in enumerate(self.values):
            words[header + i] = number(x, header + i)
        for i, (name, otherwise, operands) in enumerate(self.code):
            at = header + count + i * WORDS
            words[at] = self.entry.handlers[name]
            words[at + 1] = 0 if otherwise is None else first + 8 * WORDS * otherwise.at
            for k, x in enumerate(operands):
                words[at + 2 + k] = number(x, at + 2 + k)

        def change(i: int, k: int, operand: Operand) -> None:
            at = header + count + i * WORDS + 2 + k
            words[at] = number(operand, at)

        identity = id(words)
        _known[identity] = weakref.ref(words, lambda _: _known.pop(identity, None))
        return _new_function(ctypes.byref(self.entry.method), words, None), change


# The words of all functions there are.
_known: dict[int, weakref.ref[_Words]] = {}


def _give_up_others() -> None:
    """End, in a child process, the native calls of other threads: their functions may be called again."""
    for found in list(_known.values()):
        words = found()
        seats = [kept for kept in words.kept.values() if isinstance(kept, Seat)] if words is not None else ()
        away = [ctypes.c_int64.from_address(seat.call + 8 * CALL_AWAY) for seat in seats]
        if words is not None and any(a.value for a in away):
            start = (int(words[HELD]) - words.ctypes.data) // 8
            # The references that they held stay for ever, since nobody knows how far they had come.
            words[start : start + words[HELD_COUNT]] = words[ENTERED] = words[BUSY] = 0
            for a in away:
                a.value = 0


locks.in_child(_give_up_others)


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
