"""The places where CPython and NumPy keep the parts of objects, found by looking and checked."""

from __future__ import annotations

import ctypes
import sys
import types
from typing import Any

import numpy as np

from ....core.mode import Mode
from ....core.node import Node
from ....core.tensor import Tensor, new
from ...xla.memory import Held
from .text import Layout

# CPython's version tags of dicts, which every change renews, by release: they are gone from 3.13 on.
_DICT_VERSION = {(3, 11): 24, (3, 12): 24}
_HEADER = object.__basicsize__


def _words_of(x: Any, size: int) -> list[int]:
    return [ctypes.c_int64.from_address(id(x) + 8 * i).value for i in range(size // 8)]


def place_of_slot(x: Any, name: str, value: Any) -> int:
    """Find the byte of an object at which the slot of a name stands, by putting something there."""
    before = _words_of(x, type(x).__basicsize__)
    setattr(x, name, value)
    after = _words_of(x, type(x).__basicsize__)
    places = [i for i, (a, b) in enumerate(zip(before, after)) if a != b and b == id(value)]
    return 8 * places[0] if len(places) == 1 else -1


def layout() -> Layout | None:
    """Return the places of things in objects, as far as looking tells."""
    t, mode = new(Tensor), Mode(True, None)
    node, held = Node.__new__(Node), Held.__new__(Held)
    cell, method = types.CellType(probe := object()), types.MethodType(_method, probe)
    contents = _words_of(cell, types.CellType.__basicsize__)
    parts = _words_of(method, types.MethodType.__basicsize__)
    found = Layout(
        type=_HEADER - 8,
        size=_HEADER,
        set_size=_set_size(),
        list_items=_HEADER + 8,
        tuple_items=tuple.__basicsize__,
        cell_contents=8 * contents.index(id(probe)) if id(probe) in contents else -1,
        float_value=_HEADER,
        method_self=8 * parts.index(id(probe)) if id(probe) in parts else -1,
        method_function=8 * parts.index(id(_method)) if id(_method) in parts else -1,
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
        tensor_data=place_of_slot(t, "_data", object()),
        tensor_spec=place_of_slot(t, "_spec", object()),
        tensor_node=place_of_slot(t, "node", object()),
        tensor_grad=place_of_slot(t, "_grad", object()),
        tensor_base=place_of_slot(t, "_share", object()),
        tensor_window=place_of_slot(t, "_window", object()),
        tensor_weakrefs=Tensor.__weakrefoffset__,
        node_op=place_of_slot(node, "op", object()),
        node_saved=place_of_slot(node, "saved", object()),
        mode_grad=place_of_slot(mode, "grad", object()),
        mode_tracing=place_of_slot(mode, "tracing", object()),
        mode_floats=place_of_slot(mode, "floats", object()),
        mode_autocast=place_of_slot(mode, "autocast", object()),
        mode_engine=place_of_slot(mode, "engine", object()),
        held_array=place_of_slot(held, "array", object()),
        held_where=place_of_slot(held, "where", object()),
        held_pointer=place_of_slot(held, "pointer", object()),
        plain_counts=_counts_plainly(),
    )
    return found if min(found) >= 0 and _is_right(found) else None


def _method() -> None:
    """Do nothing: a function to make a method of."""


def read(x: Any, offset: int, type: Any = ctypes.c_int64) -> Any:
    """Return the value that stands so many bytes after an object's beginning."""
    return type.from_address(id(x) + offset).value


def slot_of(x: Any, name: str) -> int | None:
    """Return the byte of an object at which the value of a slot stands; None where it cannot be told."""
    value = getattr(x, name)
    found = [i for i, word in enumerate(_words_of(x, type(x).__basicsize__)) if word == id(value)]
    return 8 * found[0] if len(found) == 1 and name in getattr(type(x), "__slots__", ()) else None


def _place_of(name: str) -> int:
    """Find the byte of a Python function at which an attribute of it stands, by giving it another one."""
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
    """Find the byte of a set at which its number of items stands, and not that of places ever taken."""
    numbers: set[int] = set()
    seen = []
    for change, count in ((numbers.clear, 0), (lambda: numbers.update((1, 2, 3)), 3), (lambda: numbers.discard(2), 2)):
        change()
        seen.append({i for i, word in enumerate(_words_of(numbers, set.__basicsize__)) if word == count})
    found = set.intersection(*seen)
    return 8 * found.pop() if len(found) == 1 else -1


def _type_version() -> int:
    """Find the byte of a class at which its version stands, renewed by every change of it or of a base; 0: none."""

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


def _is_right(at: Layout) -> bool:
    """Return whether objects are laid out so."""
    base = np.arange(24.0)
    for a in (base, base[3:], base.reshape(4, 6).T, np.empty((0, 2), np.int8), np.array(7), base.astype(">f4")):
        dims = (ctypes.c_int64 * a.ndim).from_address(read(a, at.array_dims)) if a.ndim else ()
        if (
            read(a, at.array_data) != a.ctypes.data
            or read(a, at.array_nd, ctypes.c_int32) != a.ndim
            or tuple(dims) != a.shape
            or (read(a, at.array_base) == 0) is not (a.base is None)
            or read(a, at.array_descr) != id(a.dtype)
            or read(a, at.array_flags, ctypes.c_int32) & 0x7FFF != a.flags.num & 0x7FFF
            or read(a, at.type) != id(np.ndarray)
        ):
            return False
    items = (object(), object(), object())
    entries = list(items)
    for i, x in enumerate(items):
        if read(items, at.tuple_items + 8 * i) != id(x):
            return False
        if ctypes.c_int64.from_address(read(entries, at.list_items) + 8 * i).value != id(x):
            return False
    number, pair = 0.1, 0.2 + 0.3j
    if read(number, at.float_value, ctypes.c_double) != number:
        return False
    if [read(pair, at.float_value + 8 * i, ctypes.c_double) for i in range(2)] != [pair.real, pair.imag]:
        return False
    if any(read(x, at.size) != len(x) for x in (items, entries, {}, {1: 2}, dict.fromkeys(range(100)))):
        return False
    return not at.dict_version or _dicts_have_versions(at.dict_version)


def _counts_plainly() -> bool:
    """Return whether the first word of every object is the count of its references (from 3.12 on some have none)."""
    if sys.version_info >= (3, 12) or hasattr(sys, "gettotalrefcount"):
        return False
    x, held = object(), []
    for count in range(4):
        # Beside the list a local variable has it, and `_read` its parameter.
        if read(x, 0) != 2 + count:
            return False
        held.append(x)
    return True


def _dicts_have_versions(offset: int) -> bool:
    """Return whether the word changes with a dict, however that is changed, and only with it."""

    class Thing:
        pass

    thing, plain = Thing(), {"a": object(), "b": object()}
    thing.a = object()  # type: ignore[attr-defined]
    for d in (plain, thing.__dict__):
        seen = {read(d, offset)}
        for change in (
            lambda d: d.update(a=object()),
            lambda d: d.__setitem__("a", object()),
            lambda d: d.__setitem__("c", object()),
            lambda d: d.pop("c"),
            lambda d: setattr(thing, "a", object()) if d is thing.__dict__ else d.__setitem__("a", object()),
            lambda d: d.setdefault("e", object()),
            lambda d: d.clear(),
        ):
            if d.get("a") is d.get("z") or read(d, offset) not in seen:
                return False
            change(d)
            if read(d, offset) in seen:
                return False
            seen.add(read(d, offset))
    return True
