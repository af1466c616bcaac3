"""Where the compiled entry finds things in objects, whether it does, and functions made of it."""

from __future__ import annotations

import ctypes
import platform
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ....core.mode import Mode
from ....core.state import locks
from ....core.tensor import Tensor, new
from ..codegen import machine
from ..run.driver import CALL_AWAY
from ..run.runtime import Seat
from . import code as entry_code
from .code import ARGUMENTS, BUSY, ENTERED, FIRST, HELD, HELD_COUNT, MISS, TURNS, VALUES, WORDS
from .text import Layout

# CPython's version tags of dicts, which every change renews, by release: they are gone from 3.13 on.
_DICT_VERSION = {(3, 11): 24, (3, 12): 24}
_HEADER = object.__basicsize__


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL = 0x0080


class Entry(NamedTuple):
    """The native entry: the addresses of its handlers, where things are in objects."""

    handlers: dict[str, int]
    layout: Layout
    method: _MethodDef


class Native:
    """A base of classes whose instances are called: natively where they have a function, else by `__call__`."""

    __slots__ = ("_called",)

    _called: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def call_by(self, function: Any) -> None:
        """Let calls begin with a recipe's function, made for this instance; None: no longer."""
        if function is not None:
            self._called = function.__self__
        elif hasattr(self, "_called"):
            del self._called


@cache
def entry() -> Entry | None:
    """The compiled entry; None where objects are not laid out as it takes them to be."""
    if (
        platform.python_implementation() != "CPython"
        or not getattr(sys, "_is_gil_enabled", lambda: True)()
        or sys.byteorder != "little"
        or ctypes.sizeof(ctypes.c_void_p) != 8
        or not machine.is_supported()
    ):
        return None
    layout, api, called = _layout(), _numpy_functions(), _slot(new(Native), "_called", object())
    if layout is None or api is None or called < 0:
        return None
    symbols = {f"wengert_{name}": id(x) for name, x in entry_code.OBJECTS.items()} | api
    symbols["wengert_python_call"] = _read(Native, _TYPE_CALL)
    symbols["wengert_never"] = _held_lock()
    for name in entry_code.PYTHON_API:
        if not hasattr(ctypes.pythonapi, name):
            return None
        symbols[name] = _address(getattr(ctypes.pythonapi, name))
    handlers = entry_code.load(layout, called, symbols)
    made = Entry(handlers, layout, _MethodDef(b"compiled", handlers["entry"], _FASTCALL, None))
    return made if _works(made) else None


# Where a type has the function that calls its instances (`tp_call`): after the names, sizes and functions that every
# CPython has in one order.
_TYPE_CALL = 128


def calls_natively(cls: type[Native]) -> bool:
    """Have instances of a class called by the native entry first, from now on.

    Calls of instances look for `__call__` by the type's `tp_call`, which every class with that method shares. Ours goes
    there too, for calls that it gives up. False where a type is not laid out as it is known to be.
    """
    found = entry()
    if found is not None and _read(cls, _TYPE_CALL) == found.handlers["called"]:
        return True

    class Other:
        def __call__(self) -> None:
            pass

    class Silent:
        pass

    if found is None or not _read(Other, _TYPE_CALL) == _read(cls, _TYPE_CALL) == _read(Native, _TYPE_CALL) != 0:
        return False
    if _read(Silent, _TYPE_CALL) != 0 or _read(type, _TYPE_CALL) == _read(Other, _TYPE_CALL):
        return False
    ctypes.c_int64.from_address(id(cls) + _TYPE_CALL).value = found.handlers["called"]
    return True


class Word(NamedTuple):
    """A word of a recipe's data, by its number; as an operand its address."""

    area: str
    number: int


class Label:
    """A place in a recipe's instructions, known once it is placed."""

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
    """Words of objects and what has to stand in them; the objects stay alive."""

    def __init__(self, wanted: Sequence[tuple[object, int, int | Object]]) -> None:
        self.holders = [holder for holder, _, _ in wanted]
        self.values: list[int | Object] = [value for _, _, value in wanted]
        addresses = [id(holder) + at for holder, at, _ in wanted]
        self.array = np.array([*zip(addresses, map(_as_word, self.values))], np.int64).reshape(-1, 2)

    def change(self, values: Sequence[int | Object]) -> None:
        """Other values have to stand there from now on."""
        self.values = list(values)
        self.array[:, 1] = [_as_word(v) for v in values]


def _as_word(value: int | Object) -> int:
    return id(value.value) if isinstance(value, Object) else value


class _Words(np.ndarray[Any, np.dtype[np.int64]]):
    """The words of a function, which keeps by them what they name."""

    kept: dict[Any, Any]


class Recipe:
    """Instructions in the making: what a compiled entry does in a call of so many arguments.

    Words of two kinds come with them: `values`, for objects that are only looked at, and the `held`, for
    references that are given back at the end. The first of the held ones is what the call returns.
    """

    def __init__(self, found: Entry, arguments: int) -> None:
        self.entry = found
        self.arguments = arguments
        self.values: list[Operand] = [0] * arguments
        self.held = 1
        self.code: list[tuple[str, Label | None, tuple[Operand, ...]]] = []
        # What is to stay alive, by what needs it.
        self.kept: dict[Any, Any] = {}

    def value(self, first: Operand = 0, *more: Operand) -> Word:
        """New words, with these contents to begin with: the first of them."""
        self.values += [first, *more]
        return Word("values", len(self.values) - 1 - len(more))

    def hold(self, count: int = 1) -> Word:
        """New words for references: the first of them."""
        self.held += count
        return Word("held", self.held - count)

    def words(self, wanted: Sequence[tuple[object, int, int | Object]], otherwise: Label | None = None) -> Pairs:
        """Look at words of objects, each with the byte where it stands and what has to stand there."""
        pairs = Pairs(wanted)
        self.kept[id(pairs)] = pairs
        if wanted:
            self.do("words", Memory(pairs.array), len(wanted), otherwise=otherwise)
        return pairs

    def do(self, name: str, *operands: Operand, otherwise: Label | None = None) -> int:
        """Another instruction; its number. Where it fails the call goes on at a label, or is given up."""
        self.code.append((name, otherwise, operands))
        return len(self.code) - 1

    def place(self, label: Label) -> None:
        label.at = len(self.code)

    def function(self, missed: Any) -> tuple[Callable[..., Any], Callable[[int, int, Operand], None]]:
        """The function, which returns `missed` for calls that it gives up, and what changes an operand of it."""
        header, count = len(entry_code.HEADER), len(self.values) + self.held
        words = np.zeros(header + count + len(self.code) * WORDS, np.int64).view(_Words)
        words.kept = self.kept
        base = words.ctypes.data
        start = {"header": base, "values": base + 8 * header, "held": base + 8 * (header + len(self.values))}
        first = base + 8 * (header + count)

        def number(operand: Operand, place: Any) -> int:
            """An operand as a word, in the place where it stands."""
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
    """In a child process, end the calls that other threads had in native code: their functions may be called again."""
    for found in list(_known.values()):
        words = found()
        seats = [kept for kept in words.kept.values() if isinstance(kept, Seat)] if words is not None else ()
        away = [ctypes.c_int64.from_address(seat.call + 8 * CALL_AWAY) for seat in seats]
        if words is not None and any(a.value for a in away):
            start = (int(words[HELD]) - words.ctypes.data) // 8
            # What they held stays for ever, since nobody knows how far they had come.
            words[start : start + words[HELD_COUNT]] = words[ENTERED] = words[BUSY] = 0
            for a in away:
                a.value = 0


locks.in_child(_give_up_others)


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)


def _held_lock() -> int:
    """The address of a lock that nobody gives back: who waits for it for some time waits that long."""
    allocate, acquire = ctypes.pythonapi.PyThread_allocate_lock, ctypes.pythonapi.PyThread_acquire_lock
    allocate.restype, acquire.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int)
    made = allocate()
    acquire(made, 1)
    return int(made)


def _address(f: Any) -> int:
    found = ctypes.cast(f, ctypes.c_void_p).value
    assert found is not None
    return found


# -- finding out


def _words_of(x: Any, size: int) -> list[int]:
    return [ctypes.c_int64.from_address(id(x) + 8 * i).value for i in range(size // 8)]


def _slot(x: Any, name: str, value: Any) -> int:
    """The byte of an object at which the slot of a name stands, found by putting something there."""
    before = _words_of(x, type(x).__basicsize__)
    setattr(x, name, value)
    after = _words_of(x, type(x).__basicsize__)
    places = [i for i, (a, b) in enumerate(zip(before, after)) if a != b and b == id(value)]
    return 8 * places[0] if len(places) == 1 else -1


def _layout() -> Layout | None:
    """Where things are in objects, as far as looking tells."""
    t, mode = new(Tensor), Mode(True, None)
    cell = types.CellType(probe := object())
    contents = _words_of(cell, types.CellType.__basicsize__)
    layout = Layout(
        type=_HEADER - 8,
        size=_HEADER,
        set_size=_set_size(),
        list_items=_HEADER + 8,
        tuple_items=tuple.__basicsize__,
        cell_contents=8 * contents.index(id(probe)) if id(probe) in contents else -1,
        float_value=_HEADER,
        dict_version=_DICT_VERSION.get(sys.version_info[:2], 0),
        type_version=_type_version(),
        function_code=_place_of("__code__"),
        function_defaults=_place_of("__defaults__"),
        array_data=_HEADER,
        array_nd=_HEADER + 8,
        array_dims=_HEADER + 16,
        array_base=_HEADER + 32,
        array_descr=_HEADER + 40,
        array_flags=_HEADER + 48,
        array_weakrefs=np.ndarray.__weakrefoffset__,
        tensor_data=_slot(t, "_data", object()),
        tensor_spec=_slot(t, "_spec", object()),
        tensor_node=_slot(t, "node", object()),
        tensor_grad=_slot(t, "_grad", object()),
        tensor_base=_slot(t, "_base", object()),
        tensor_weakrefs=Tensor.__weakrefoffset__,
        mode_grad=_slot(mode, "grad", object()),
        mode_tracing=_slot(mode, "tracing", object()),
        mode_floats=_slot(mode, "floats", object()),
        plain_counts=_counts_plainly(),
    )
    return layout if min(layout) >= 0 and _is_right(layout) else None


def _read(x: Any, offset: int, type: Any = ctypes.c_int64) -> Any:
    return type.from_address(id(x) + offset).value


def slot_of(x: Any, name: str) -> int | None:
    """The byte of an object at which the value of one of its slots stands; None where it cannot be told."""
    value = getattr(x, name)
    found = [i for i, word in enumerate(_words_of(x, type(x).__basicsize__)) if word == id(value)]
    return 8 * found[0] if len(found) == 1 and name in getattr(type(x), "__slots__", ()) else None


def _place_of(name: str) -> int:
    """The byte of a Python function at which an attribute of it stands, found by giving it another one."""
    places = []
    for f, g in ((lambda x=(): x, lambda y=[]: y), (lambda x=1.5: x, lambda: 0)):
        size = type(f).__basicsize__
        before = _words_of(f, size)
        setattr(f, name, getattr(g, name))
        after = _words_of(f, size)
        value = getattr(g, name)
        places.append({i for i, (a, b) in enumerate(zip(before, after)) if a != b == (id(value) if value else 0)})
    found = places[0] & places[1]
    return 8 * found.pop() if len(found) == 1 else -1


def _set_size() -> int:
    """The byte of a set at which it says how many it holds: not how many places for them were ever taken."""
    numbers: set[int] = set()
    seen = []
    for change, count in ((numbers.clear, 0), (lambda: numbers.update((1, 2, 3)), 3), (lambda: numbers.discard(2), 2)):
        change()
        seen.append({i for i, word in enumerate(_words_of(numbers, set.__basicsize__)) if word == count})
    found = set.intersection(*seen)
    return 8 * found.pop() if len(found) == 1 else -1


def _type_version() -> int:
    """The byte of a class at which a number stands that every change of it, or of a base, renews; 0: there is none."""

    class Base:
        pass

    class Thing(Base):
        value: Any = None

    seen: list[list[int]] = []
    for i in range(6):
        setattr(Thing if i % 2 else Base, "value" if i % 2 else "other", object())
        _ = Thing.value
        size: Any = type(Thing).__basicsize__
        seen += [_words_of(Thing, size), _words_of(Thing, size)]
    found = [
        k
        for k, values in enumerate(zip(*seen))
        if 0 not in values and len(set(values)) == 6 and values[::2] == values[1::2] and max(values) < 1 << 32
    ]
    return 8 * found[0] if len(found) == 1 else 0


def version_of(cls: type) -> int:
    """The number of a class that changes with it; one that it never has where it has none just now."""
    found = entry()
    number = 0 if found is None else _read(cls, found.layout.type_version)
    return number or -1


def _is_right(at: Layout) -> bool:
    """Whether objects are laid out so."""
    base = np.arange(24.0)
    for a in (base, base[3:], base.reshape(4, 6).T, np.empty((0, 2), np.int8), np.array(7), base.astype(">f4")):
        dims = (ctypes.c_int64 * a.ndim).from_address(_read(a, at.array_dims)) if a.ndim else ()
        if (
            _read(a, at.array_data) != a.ctypes.data
            or _read(a, at.array_nd, ctypes.c_int32) != a.ndim
            or tuple(dims) != a.shape
            or (_read(a, at.array_base) == 0) is not (a.base is None)
            or _read(a, at.array_descr) != id(a.dtype)
            or _read(a, at.array_flags, ctypes.c_int32) & 0x7FFF != a.flags.num & 0x7FFF
            or _read(a, at.type) != id(np.ndarray)
        ):
            return False
    items = (object(), object(), object())
    entries = list(items)
    for i, x in enumerate(items):
        if _read(items, at.tuple_items + 8 * i) != id(x):
            return False
        if ctypes.c_int64.from_address(_read(entries, at.list_items) + 8 * i).value != id(x):
            return False
    number = 0.1
    if _read(number, at.float_value, ctypes.c_double) != number:
        return False
    if any(_read(x, at.size) != len(x) for x in (items, entries, {}, {1: 2}, dict.fromkeys(range(100)))):
        return False
    return not at.dict_version or _dicts_have_versions(at.dict_version)


def _counts_plainly() -> bool:
    """Whether an object's first word is the count of its references (some objects are not counted from 3.12 on)."""
    if sys.version_info >= (3, 12) or hasattr(sys, "gettotalrefcount"):
        return False
    x, held = object(), []
    for count in range(4):
        # Beside the list a local variable has it, and `_read` its parameter.
        if _read(x, 0) != 2 + count:
            return False
        held.append(x)
    return True


def _dicts_have_versions(offset: int) -> bool:
    """Whether the word changes with a dict, however that is changed, and only with it."""

    class Thing:
        pass

    thing, plain = Thing(), {"a": object(), "b": object()}
    thing.a = object()  # type: ignore[attr-defined]
    for d in (plain, thing.__dict__):
        seen = {_read(d, offset)}
        for change in (
            lambda d: d.update(a=object()),
            lambda d: d.__setitem__("a", object()),
            lambda d: d.__setitem__("c", object()),
            lambda d: d.pop("c"),
            lambda d: setattr(thing, "a", object()) if d is thing.__dict__ else d.__setitem__("a", object()),
            lambda d: d.setdefault("e", object()),
            lambda d: d.clear(),
        ):
            if d.get("a") is d.get("z") or _read(d, offset) not in seen:
                return False
            change(d)
            if _read(d, offset) in seen:
                return False
            seen.add(_read(d, offset))
    return True


def _numpy_functions() -> dict[str, int] | None:
    """The addresses of functions that NumPy gives to C."""
    capsule = getattr(getattr(np, "_core", None), "multiarray", None)
    table = getattr(capsule, "_ARRAY_API", None)
    if table is None:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    functions = (ctypes.c_void_p * 300).from_address(pointer(table, None))
    # Entry 2 is ndarray itself in every NumPy.
    if functions[2] != id(np.ndarray):
        return None
    return {name: found for name, i in entry_code.NUMPY_API.items() if (found := functions[i]) is not None}


def _works(found: Entry) -> bool:
    """Whether a small recipe does what it should: a tensor and a copy of its array, in a tuple."""
    spec = Tensor(np.arange(3.0))
    array, shape = spec._data, np.array([3], np.int64)
    missed = object()
    r = Recipe(found, 1)
    entry_word, made, pair = r.value(), r.hold(), r.hold(2)
    second = Word("held", pair.number + 1)
    given = Word("values", 0)
    r.do("is_tensor", given, Object(Tensor), Object(spec._spec))
    r.do("feed_tensor", given, entry_word, r.hold(), Object(array.dtype), 1, Memory(shape))
    r.do("fresh", Object(array.dtype), 1, Memory(shape), 0, r.value(), made)
    r.do("made", Object(Tensor), Object(spec._spec), made, pair)
    r.do("constant", Object(missed), second)
    r.do("pack_tuple", 2, pair, Word("held", 0))
    r.do("return")
    call, _ = r.function(missed)
    before = sys.getrefcount(array), sys.getrefcount(spec)
    for wrong in ((), (spec, spec), (1,), (Tensor(np.arange(4.0)),)):
        if call(*wrong) is not missed:
            return False
    result = call(spec)
    if type(result) is not tuple or result[1] is not missed or type(result[0]) is not Tensor:
        return False
    new_array = result[0]._data
    return (
        result[0]._spec is spec._spec
        and type(new_array) is np.ndarray
        and new_array.shape == (3,)
        and new_array.dtype == array.dtype
        and bool(new_array.flags.owndata)
        and sys.getrefcount(new_array) == 3
        and (sys.getrefcount(array), sys.getrefcount(spec)) == before
    )
