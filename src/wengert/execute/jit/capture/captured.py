"""Captured state of a function: tensors and other cells that it can reach, and the values that steer it.

`search` finds it. What was found is looked at before every run: each thing that the program took for granted is a
`Check`.
"""

from __future__ import annotations

import array
import collections
import enum
import functools
import hashlib
import inspect
import operator
import types
import weakref
from collections.abc import Callable, Iterable, Sequence, Set
from operator import setitem
from typing import Any, NamedTuple

import numpy as np

from ....core.state.at_once import Call
from ....core.state.cached import cached_property
from ....core.state.cells import Cell
from .reading import Mentioned

# Values that are what they are, and are compared by that.
SCALARS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, enum.Enum)
FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)


def exact(value: Any) -> Any:
    """Return a plain value as a part of a key: signs of zeros count, and a NaN is like another."""
    if isinstance(value, (float, np.floating)):
        parts: tuple[Any, ...] = (value,)
    elif isinstance(value, (complex, np.complexfloating)):
        parts = value.real, value.imag
    else:
        return value
    return repr(value) if any(p == 0 or p != p for p in parts) else value


class Place(NamedTuple):
    """A place of a value: an item of a dict, list or closure cell; `holder` None: one that cannot change."""

    holder: Any
    name: Any
    path: str

    def read(self) -> Any:
        """Return the present value; `MISSING` where there is none."""
        holder = self.holder
        if type(holder) is types.CellType:
            try:
                return holder.cell_contents
            except ValueError:
                return MISSING
        if isinstance(holder, dict):
            return holder.get(self.name, MISSING)
        if isinstance(holder, (list, collections.deque)):
            return holder[self.name] if self.name < len(holder) else MISSING
        return getattr(holder, self.name, MISSING)

    def write(self, value: Any) -> Call:
        """Return the call that puts a value there; `MISSING` takes away what is there."""
        holder = self.holder
        if type(holder) is types.CellType:
            return setattr, holder, "cell_contents", value
        if isinstance(holder, dict) and value is MISSING:
            return holder.pop, self.name, None
        if isinstance(holder, (dict, list, collections.deque)):
            return setitem, holder, self.name, value
        return setattr, holder, self.name, value


class Container(NamedTuple):
    """A dict or a list that the function can reach; of an object's own dict only the `names` that it can read.

    The items called as in `held` are those of cells.
    """

    items: Any
    path: str
    names: Callable[[str, Any], bool] | None = None
    held: Set[str] = frozenset()


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING: Any = _Missing()


class Identity:
    """An object as a part of a key: equal to itself alone, for as long as it lives, and not kept alive by that."""

    __slots__ = ("_hash", "_found", "_name")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        try:
            self._found: Callable[[], Any] = weakref.ref(value)
        except TypeError:  # it cannot be referred to weakly
            self._found = lambda: value
        name = getattr(value, "__qualname__", None) or getattr(value, "co_qualname", None)
        self._name = name or f"a {type(value).__name__}"

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Identity) and (x := self._found()) is not None and x is other._found()

    def __repr__(self) -> str:
        return f"<{self._name}>"


class Check(NamedTuple):
    """A check before every run: the value at `name` of `holder` has to be `value`.

    kinds: "cell", "item", "entry", "attribute": the contents of a closure's cell, an item of a dict, an
    entry of a list, an attribute; "absent": a dict has no such item; "length", "keys": of a container; "contents": all
    that is in it, by identity; "tensor": `value` its spec (None: any) and node; "value": of a
    tensor, its array; "array": of an array, its shape, dtype and elements (`kept`); "function": its code and defaults;
    "class": a tuple of attributes; "gives", "context": what a weak reference or a context variable gives; "static":
    what an object's `__jit_static__` gives, by equality; "equal": what is computed for an attribute, by type and
    equality.
    """

    kind: str
    holder: Any
    name: Any
    value: Any

    def text(self, name: Callable[[Any], str]) -> str:
        """Return the check in Python; `name` gives the names of values."""
        h = name(self.holder)
        if self.kind == "class":
            each = zip(self.name, self.value, strict=True)
            return " and ".join(_class_text(h, self.holder, n, v, name) for n, v in each)
        if self.kind == "function":
            code, defaults = map(name, self.value)
            return f"{h}.__code__ is {code} and {h}.__defaults__ is {defaults}"
        if self.kind == "tensor":
            spec, node = self.value
            same = "" if spec is None else f"{h}._spec is {name(spec)} and "
            return f"{same}{h}.node is {name(node)}"
        if self.kind == "absent":
            return f"{name(self.name)} not in {h}"
        if self.kind == "length":
            return f"len({h}) == {self.value}"
        v = name(self.value)
        if self.kind == "cell":
            return f"{h}.cell_contents is {v}"
        if self.kind == "item":
            return f"{h}.get({name(self.name)}) is {v}"
        if self.kind == "entry":
            return f"{h}[{self.name}] is {v}"
        if self.kind == "attribute":
            return f"getattr({h}, {name(self.name)}, None) is {v}"
        if self.kind == "keys":
            return f"{h}.keys() == {v}"
        if self.kind == "contents":
            if type(self.holder) in (list, tuple) and len(self.value) <= _ONE_BY_ONE:
                entries = [f"{h}[{i}] is {name(entry)}" for i, entry in enumerate(self.value)]
                return " and ".join([f"len({h}) == {len(self.value)}", *entries])
            if not self.value and type(self.holder) in (dict, set, frozenset):
                return f"len({h}) == 0"
            return f"{name(same_contents)}({h}, {v})"
        if self.kind == "value":
            return f"{h}._array is {v}"
        if self.kind == "array":
            shape, dtype, elements, compared = self.value
            same = f"{h}.shape == {name(shape)} and {h}.dtype == {name(dtype)}"
            return f"{same} and {name(elements)} == {h}{compared}"
        if self.kind == "gives":
            return f"{h}() is {v}"
        if self.kind == "context":
            return f"{h}.get(None) is {v}"
        if self.kind == "equal":
            return f"type(v := getattr({h}, {name(self.name)}, None)) is type({v}) and v == {v}"
        return f"{h}.__jit_static__() == {v}"


# Bytes of an array that stand in a key themselves.
_AS_THEY_ARE = 1 << 12
# Entries of a container that are compared by code of their own; more are compared by a loop.
_ONE_BY_ONE = 8


def _class_text(h: str, cls: Any, attribute: str, value: Any, name: Callable[[Any], str]) -> str:
    if value is MISSING:
        return f"not hasattr({h}, {attribute!r})"
    given = value.__func__ if isinstance(value, staticmethod) else value
    if getattr(cls, attribute, MISSING) is given:
        return f"{h}.{attribute} is {name(given)}"
    # The class makes its value anew for whoever asks.
    return f"{name(inspect.getattr_static)}({h}, {attribute!r}, None) is {name(value)}"


def contents(container: Any) -> Any:
    """Return what is in a container now, for a later comparison."""
    if isinstance(container, (dict, types.MappingProxyType)):
        return [*container, *container.values()]
    if isinstance(container, np.ndarray):
        return list(container.flat) if container.dtype.hasobject else container.tobytes()
    return bytes(container) if isinstance(container, (bytearray, array.array)) else list(container)


def kept(x: np.ndarray[Any, Any]) -> tuple[Any, str]:
    """Return an array's elements for a later comparison, and the end of the expression that they will be equal to."""
    for laid_out, end in ((x, ""), (x.T, ".T")):
        # A bytearray compares itself with memory in place, which takes a sixth of the time of a copy and comparison.
        if type(x) in (np.ndarray, np.memmap) and laid_out.flags.c_contiguous:
            elements = bytearray(laid_out.tobytes())
            if (elements == laid_out) is True:  # not every dtype shows its memory
                return elements, end
    return x.tobytes(), ".tobytes()"


def digest(elements: bytes) -> bytes:
    """Return the bytes, or what stands for many of them in a key."""
    return elements if len(elements) <= _AS_THEY_ARE else hashlib.blake2b(elements).digest()


def same_contents(container: Any, before: Any) -> bool:
    """Return whether a container holds what it held: the same objects."""
    now = contents(container)
    if type(now) is bytes:
        return bool(now == before)
    return len(now) == len(before) and all(map(operator.is_, now, before))


def checker(checks: Iterable[Check]) -> Callable[[], bool]:
    """Return a function that makes the checks."""
    values: dict[str, Any] = {}

    def name(value: Any) -> str:
        values[f"v{len(values)}"] = value
        return f"v{len(values) - 1}"

    tests = [f"({c.text(name)})" for c in checks] or ["True"]
    # What is not there, or stands for something abstract while another thread traces, is not what it was.
    answer = f"return {' and '.join(tests)}"
    source = f"def holds():\n    try:\n        {answer}\n    except Exception:\n        return False"
    exec(compile(source, "<wengert guards>", "exec"), values)
    found: Callable[[], bool] = values["holds"]
    return found


class Captures:
    """The captured state that a search found, in an order that depends on the program alone.

    `key` is hashable: for two captured states of one key the same program is right, cell for cell and place for place.
    `holds()` says, in well under a microsecond for most functions, whether everything is still where
    it was found. `places` are where tensors stand and might be replaced, `containers` what might gain
    something, `generators` of random numbers are Python's or NumPy's, each with its path.
    """

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        self.places: list[Place] = []
        self.containers: list[Container] = []
        self.generators: list[tuple[str, Any]] = []
        self.names: dict[tuple[Any, ...], str] = {}
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.key: tuple[Any, ...] = ()
        self.facts: list[tuple[str, Any]] = []
        self.checks: Sequence[Check] = ()
        self.mentioned: Mentioned | None = None

    @cached_property
    def stood(self) -> dict[tuple[int, Any], Any]:
        """The value found at each place, by holder and name."""
        watched = [c for c in self.checks if c.kind in ("cell", "item", "entry", "attribute")]
        found = {(id(c.holder), c.name): c.value for c in watched}
        for c in self.checks:
            if c.kind == "class":
                found |= {(id(c.holder), name): value for name, value in zip(c.name, c.value, strict=True)}
        return found

    @cached_property
    def holds(self) -> Callable[[], bool]:
        """The function that makes all checks, made when first asked for: a function called once needs none."""
        return checker(self.checks)
