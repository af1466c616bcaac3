"""A reader of pickles that runs nothing: a stack machine that knows containers, numbers and the names that it is given.

Python's own unpickler imports what a pickle names and calls it. This one looks a name up in a table; a name that is not
there is an error that tells it. Time and memory are bounded by the length of the pickle: counts are compared with what
is left of it, keys cannot be made to collide, and nesting has a limit.
"""

from __future__ import annotations

import struct
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.errors import DataError, fail
from .files import Array, Budget

# Containers in containers; checkpoints have a dozen.
MOST_NESTED = 200
# Tuples as keys can be made to collide: there may be so many of them.
MOST_TUPLE_KEYS = 10_000
_MOST_DIGITS = 1000
_SMALL_INT = 1 << 60


class Callee:
    """A name that a pickle may call: its dotted path, and what is called for it; `kind` is the class it stands for."""

    __slots__ = ("name", "make", "kind")

    def __init__(self, name: str, make: Callable[..., Any] | None, kind: Any = None) -> None:
        self.name, self.make, self.kind = name, make, kind


class Value:
    """A name that stands for a value, which is made when it is asked for."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


class Inert:
    """A stand-in for an object of a class that is not made: a pickle may do with it what it likes."""

    def __init__(self, *_: Any) -> None:
        pass


class Mark:
    """The bottom of a group of values on the stack."""


MARK = Mark()
Known = Mapping[str, Any]


class Machine:
    """A pickle that is read from `data`, from `position` on.

    Parameters
    ----------
    data: the bytes.
    known: values and :class:`Callee`s by dotted name.
    persistent: gives the object that a persistent id stands for.
    name: the file, for errors.
    trusted: classes and functions by dotted name whose code may run.
    """

    def __init__(
        self,
        data: bytes,
        known: Known,
        name: str,
        persistent: Callable[[Any], Any] | None = None,
        position: int = 0,
        trusted: Known | None = None,
    ) -> None:
        self.data, self.known, self.name, self.persistent = data, known, name, persistent
        self.position = position
        self.trusted: Known = {} if trusted is None else trusted
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.tuple_keys = 0
        self.budget = Budget(len(data))

    def load(self) -> Any:
        """Return the object. Raises DataError; other errors are for :class:`Reading` to name."""
        while True:
            code = self.take(1)[0]
            if code == _STOP:
                break
            step = STEPS.get(code)
            if step is None:
                fail(DataError, f"{self.name} is damaged: its pickle has the unknown instruction {code}")
            step(self)
        if len(self.stack) != 1:
            fail(DataError, f"{self.name} is damaged: its pickle leaves {len(self.stack)} values")
        found = self.pop()
        check(found, self.name)
        return found

    # -- the bytes

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        end = self.position + count
        if end > len(self.data):
            fail(DataError, f"{self.name} is truncated: its pickle asks for {count:,} bytes more than there are")
        found = self.data[self.position : end]
        self.position = end
        return found

    def line(self) -> bytes:
        """Return what stands before the next line's end."""
        end = self.data.find(b"\n", self.position)
        if end < 0:
            fail(DataError, f"{self.name} is truncated: a line of its pickle has no end")
        found = self.data[self.position : end]
        self.position = end + 1
        return found

    def number(self, size: int, signed: bool = False) -> int:
        """Return the next integer of so many bytes."""
        return int.from_bytes(self.take(size), "little", signed=signed)

    # -- the stack

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Take the last value off the stack."""
        if not self.stack or self.stack[-1] is MARK:
            fail(DataError, f"{self.name} is damaged: its pickle takes a value where there is none")
        return self.stack.pop()

    def top(self) -> Any:
        """Return the last value on the stack."""
        if not self.stack or self.stack[-1] is MARK:
            fail(DataError, f"{self.name} is damaged: its pickle takes a value where there is none")
        return self.stack[-1]

    def group(self) -> list[Any]:
        """Take the values after the last mark, and the mark."""
        found: list[Any] = []
        while True:
            if not self.stack:
                fail(DataError, f"{self.name} is damaged: its pickle takes a group that has no beginning")
            value = self.stack.pop()
            if value is MARK:
                found.reverse()
                return found
            found.append(value)

    # -- names

    def named(self, module: str, name: str) -> None:
        """Push what a name stands for. Raises DataError for one that is not known."""
        path = f"{module}.{name}"
        if path not in self.known and path in self.trusted:
            self.push(self.trusted[path])
            return
        if path not in self.known:
            fail(
                DataError,
                f"{self.name} asks for {path[:120]}, which is not among the names that are safe to load",
                "Nothing of it was run. Save tensors in dicts and lists, such as model.state_dict(); where you trust "
                "the file, torch.load(f, weights_only=False) runs what it asks for.",
            )
        found = self.known[path]
        self.push(found.make() if isinstance(found, Value) else found)

    def trusts(self, value: Any) -> bool:
        """Return whether a value is one of those whose code may run."""
        return value is Inert or any(value is known for known in self.trusted.values())

    def call(self, callee: Any, args: Any) -> Any:
        """Return what a known callee, or one that is trusted, makes of arguments."""
        if self.trusts(callee):
            callee = Callee(getattr(callee, "__qualname__", "a trusted name"), callee)
        if not isinstance(callee, Callee) or callee.make is None:
            told = callee.name if isinstance(callee, Callee) else f"a {type(callee).__name__}"
            fail(DataError, f"{self.name} asks to call {told[:120]}, which is not among what is safe to call")
        if type(args) is not tuple:
            fail(DataError, f"{self.name} is damaged: arguments of {callee.name} are no tuple")
        self.charge(args)
        return callee.make(*args)

    def charge(self, parts: Any) -> None:
        """Count what is about to be copied: a few bytes of a pickle can ask for a long value many times."""
        if isinstance(parts, (tuple, list)) and len(parts) > 64:
            self.budget.take(8 * len(parts), f"the pickle of {self.name}")
            return
        for part in parts if isinstance(parts, (tuple, list)) else (parts,):
            if isinstance(part, (str, bytes, bytearray)):
                self.budget.take(len(part), f"the pickle of {self.name}")
            elif isinstance(part, (tuple, list, dict, set, frozenset)):
                self.budget.take(64 * len(part), f"the pickle of {self.name}")

    def key(self, key: Any) -> Any:
        """Return a key of a dict. Raises DataError for one that takes long to compare."""
        kind = type(key)
        if key is None or isinstance(key, (str, np.dtype)) or kind in (bytes, bool, float):
            return key
        if kind is int and abs(key) < _SMALL_INT:
            return key
        if isinstance(key, tuple) and len(key) < 64 and self.tuple_keys < MOST_TUPLE_KEYS:
            self.tuple_keys += 1
            if all(type(k) in (str, bytes, bool, float) or (type(k) is int and abs(k) < _SMALL_INT) for k in key):
                return key
        if isinstance(key, complex):
            return key
        return fail(DataError, f"{self.name} has a key that is not loaded: {shown(key)}, of type {kind.__name__}")

    # -- what several instructions do

    def append(self, values: list[Any]) -> None:
        """Append to the list on the stack."""
        target = self.top()
        if isinstance(target, Inert):
            return
        if not isinstance(target, (list, deque)):
            fail(DataError, f"{self.name} is damaged: its pickle appends to a {type(target).__name__}")
        target.extend(values)

    def put_items(self, values: list[Any]) -> None:
        """Put keys and values into the dict on the stack."""
        target = self.top()
        if isinstance(target, Inert):
            return
        if not isinstance(target, dict) or len(values) % 2:
            fail(DataError, f"{self.name} is damaged: its pickle puts items into a {type(target).__name__}")
        for k, v in zip(values[::2], values[1::2]):
            dict.__setitem__(target, self.key(k), v) if type(target) is dict else target.__setitem__(self.key(k), v)

    def build(self, state: Any) -> None:
        """Give the object on the stack its state."""
        target = self.top()
        self.charge(state)
        if isinstance(target, np.ndarray):
            _set_array(target, state, self.name)
        elif isinstance(target, np.dtype):
            _set_dtype(target, state, self.name)
        elif isinstance(target, Inert):
            pass
        elif type(target) is OrderedDict and isinstance(state, dict) and all(type(k) is str for k in state):
            target.__dict__.update(state)
        elif self.trusts(type(target)):
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                target.__dict__.update(state)
        else:
            fail(DataError, f"{self.name} gives state to a {type(target).__name__}, which has none")

    def store(self, number: int) -> None:
        """Remember the value on the stack by a number."""
        self.memo[number] = self.top()

    def recall(self, number: int) -> None:
        """Push the value with a number."""
        if number not in self.memo:
            fail(DataError, f"{self.name} is damaged: its pickle refers to value {number}, which is not there")
        self.push(self.memo[number])

    def stand_in(self, pid: Any) -> None:
        """Push the object of a persistent id."""
        if self.persistent is None:
            fail(DataError, f"{self.name} refers to an object outside itself")
        self.push(self.persistent(pid))


def check(found: Any, name: str) -> None:
    """Raise DataError for containers that are nested too deeply or hold themselves, and for a callee as a value."""
    heights: dict[int, int] = {}
    open_: set[int] = set()
    pending: list[tuple[Any, bool]] = [(found, False)]
    while pending:
        value, done = pending.pop()
        if isinstance(value, (Callee, Mark)):
            told = value.name if isinstance(value, Callee) else "a mark"
            fail(DataError, f"{name} holds {told}, not a value made with it")
        if isinstance(value, dict):
            inside = list(value.values())
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            inside = list(value)
        elif isinstance(value, np.ndarray) and value.dtype.hasobject:
            inside = value.ravel().tolist()
        else:
            continue
        if done:
            heights[id(value)] = height = 1 + max((heights.get(id(v), 0) for v in inside), default=0)
            open_.discard(id(value))
            if height > MOST_NESTED:
                fail(DataError, f"{name} has containers nested more than {MOST_NESTED} deep")
        elif id(value) in open_:
            fail(DataError, f"{name} has a container that holds itself")
        elif id(value) not in heights:
            open_.add(id(value))
            pending.append((value, True))
            pending += [(v, False) for v in inside]


# -- arrays and dtypes of NumPy


def _simple(dtype: Any, name: str) -> np.dtype[Any]:
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biufcOSU" or dtype.names or dtype.subdtype:
        fail(DataError, f"{name} has an array of dtype {shown(dtype)}, which is not loaded")
    return dtype


def _set_dtype(target: np.dtype[Any], state: Any, name: str) -> None:
    ok = (
        isinstance(state, tuple)
        and len(state) == 8
        and state[0] == 3
        and state[1] in ("<", ">", "|", "=")
        and state[2:5] == (None, None, None)
        and type(state[5]) is int
        and state[5] in (-1, target.itemsize)
        and state[6] in (-1, 1, 4)
    )
    if not ok or target is np.dtype(target.str):
        fail(DataError, f"{name} has a dtype with an unknown state")
    if target.kind != "O":
        target.__setstate__(state)  # type: ignore[attr-defined]


def _set_array(target: Array, state: Any, name: str) -> None:
    if not isinstance(state, tuple) or len(state) != 5 or target.shape != (0,):
        fail(DataError, f"{name} has an array with an unknown state")
    shape, dtype, fortran, data = state[1:]
    dtype = _simple(dtype, name)
    count = checked_size(shape, name)
    if isinstance(data, str):
        data = data.encode("latin-1")
    fits = isinstance(data, list if dtype.hasobject else (bytes, bytearray))
    if not fits or len(data) != count * (1 if dtype.hasobject else dtype.itemsize):
        fail(DataError, f"{name} has an array of shape {shown(shape)} whose data are of another size")
    made: Any = (1, shape, dtype, bool(fortran), data if dtype.hasobject else bytes(data))
    target.__setstate__(made)


def shown(value: Any) -> str:
    """Return a short text of a value from a file. Containers may be of any size and depth: their first parts stand."""
    if isinstance(value, (tuple, list)):
        parts = [shown(v) if not isinstance(v, (tuple, list)) else "..." for v in value[:8]]
        return f"({', '.join(parts)}{', ...' if len(value) > 8 else ''})"
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.dtype)):
        return (repr(value[:60]) if isinstance(value, (str, bytes)) else str(value))[:60]
    return f"a {type(value).__name__}"


def checked_size(shape: Any, name: str) -> int:
    """Return the number of elements of a shape. Raises DataError for what is no shape."""
    if not isinstance(shape, (tuple, list)) or len(shape) > 64:
        fail(DataError, f"{name} has {shown(shape)} as a shape")
    count = 1
    for n in shape:
        if type(n) is not int or not 0 <= n < 1 << 48:
            fail(DataError, f"{name} has {shown(shape)} as a shape")
        count *= n
        if count >= 1 << 60:
            fail(DataError, f"{name} has a shape with more elements than any memory: {shown(shape)}")
    return count


def _dtype(text: Any, *flags: Any) -> np.dtype[Any]:
    if not isinstance(text, str) or len(text) > 8:
        fail(DataError, f"dtype {shown(text)} is not loaded")
    return np.dtype(_simple(np.dtype(text), "the file"), copy=True)


def _empty_array(cls: Any, shape: Any, code: Any) -> Array:
    return np.ndarray((0,), "b")


def _number(dtype: Any, data: Any) -> Any:
    dtype = _simple(dtype, "the file")
    if isinstance(data, str):
        data = data.encode("latin-1")
    if dtype.hasobject or len(data) != dtype.itemsize:
        fail(DataError, f"a number of dtype {dtype} of {len(data)} bytes")
    return np.frombuffer(data, dtype)[0]


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> Array:
    dtype = _simple(dtype, "the file")
    count = checked_size(shape, "the file")
    if dtype.hasobject or not isinstance(data, (bytes, bytearray)) or len(data) != count * dtype.itemsize:
        fail(DataError, f"an array of shape {shown(shape)} whose data are of another size")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if order == "F" else "C")


# -- Python's own


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1", "utf-8", "utf8"):
        fail(DataError, f"bytes in the encoding {shown(encoding)}")
    return str.encode(text, encoding)


def _byte_array(*args: Any) -> bytearray:
    if args and isinstance(args[0], str):
        return bytearray(_encode(*args))
    if not args or isinstance(args[0], (bytes, bytearray)):
        return bytearray(*args)
    return fail(DataError, "a bytearray of something else than bytes")


def _byte_string(*args: Any) -> bytes:
    return bytes(_byte_array(*args))


def _items(of: Any) -> list[Any]:
    if not isinstance(of, (list, tuple, set, frozenset)):
        fail(DataError, f"a set of a {type(of).__name__}")
    ones = list(of)
    if not all(type(k) in (str, bytes, bool, float) or (type(k) is int and abs(k) < _SMALL_INT) for k in ones):
        fail(DataError, "a set of other than texts and numbers")
    return ones


def _pairs(*args: Any) -> list[tuple[Any, Any]]:
    if not args:
        return []
    given = args[0]
    if isinstance(given, dict):
        return list(given.items())
    if not isinstance(given, (list, tuple)):
        fail(DataError, "a dict of something else than pairs")
    pairs = [tuple(kv) for kv in given if isinstance(kv, (list, tuple)) and len(kv) == 2]
    _items([k for k, _ in pairs])
    return pairs


def _default_dict(*args: Any) -> Any:
    factory = args[0] if args else None
    kind = factory.kind if isinstance(factory, Callee) else factory
    if kind not in (None, list, dict, set, int, float, str, tuple, OrderedDict):
        fail(DataError, "a defaultdict of an unknown class")
    return defaultdict(kind, _pairs(*args[1:]))


_BUILTINS: dict[str, tuple[Callable[..., Any] | None, Any]] = {
    "set": (lambda *a: set(_items(*a)) if a else set(), set),
    "frozenset": (lambda *a: frozenset(_items(*a)) if a else frozenset(), frozenset),
    "bytearray": (_byte_array, bytearray),
    "bytes": (_byte_string, bytes),
    "complex": (lambda a, b=0.0: complex(float(a), float(b)), complex),
    "slice": (lambda *a: slice(*a), slice),
    "list": (None, list),
    "dict": (None, dict),
    "int": (None, int),
    "float": (None, float),
    "str": (None, str),
    "bool": (None, bool),
    "tuple": (None, tuple),
    "object": (None, object),
}

PLAIN: dict[str, Any] = {
    "collections.OrderedDict": Callee("collections.OrderedDict", lambda *a: OrderedDict(_pairs(*a)), OrderedDict),
    "collections.Counter": Callee("collections.Counter", lambda *a: Counter(dict(_pairs(*a))), Counter),
    "collections.defaultdict": Callee("collections.defaultdict", _default_dict, defaultdict),
    "collections.deque": Callee(
        "collections.deque", lambda *a: deque(list(a[0]) if a and isinstance(a[0], (list, tuple)) else []), deque
    ),
    "_codecs.encode": Callee("_codecs.encode", _encode),
    "numpy.dtype": Callee("numpy.dtype", _dtype, np.dtype),
    "numpy.ndarray": Callee("numpy.ndarray", None, np.ndarray),
}
for _module in ("builtins", "__builtin__"):
    for _name, (_make, _kind) in _BUILTINS.items():
        PLAIN[f"{_module}.{_name}"] = Callee(f"{_module}.{_name}", _make, _kind)
for _module in ("numpy.core", "numpy._core"):
    for _path, _make in (("multiarray._reconstruct", _empty_array), ("multiarray.scalar", _number)):
        PLAIN[f"{_module}.{_path}"] = Callee(f"{_module}.{_path}", _make)
    PLAIN[f"{_module}.numeric._frombuffer"] = Callee(f"{_module}.numeric._frombuffer", _from_buffer)


# -- the instructions

_STOP = ord(".")


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _quoted(m: Machine) -> str:
    data = m.line()
    if len(data) < 2 or data[:1] != data[-1:] or data[:1] not in (b"'", b'"'):
        fail(DataError, f"{m.name} is damaged: a text of its pickle has no quotes")
    with warnings.catch_warnings():  # of escapes that are none
        warnings.simplefilter("ignore")
        return _text(data[1:-1].decode("unicode_escape").encode("latin-1", "replace"))


def _decimal(m: Machine, data: bytes) -> int:
    data = data.removesuffix(b"L")
    if len(data) > _MOST_DIGITS:
        fail(DataError, f"{m.name} has a number of {len(data)} digits")
    return int(data)


def _int_line(m: Machine) -> None:
    data = m.line()
    m.push({b"00": False, b"01": True}[data] if data in (b"00", b"01") else _decimal(m, data))


def _big(m: Machine, size: int) -> None:
    if size > _MOST_DIGITS or size < 0:
        fail(DataError, f"{m.name} has an integer of {size} bytes")
    m.push(m.number(size, signed=True))


def _global_line(m: Machine) -> None:
    module = m.line().decode("utf-8")
    m.named(module, m.line().decode("utf-8"))


def _global_stack(m: Machine) -> None:
    name, module = m.pop(), m.pop()
    if type(name) is not str or type(module) is not str:
        fail(DataError, f"{m.name} is damaged: a name in its pickle is no text")
    m.named(module, name)


def _reduce(m: Machine) -> None:
    args, callee = m.pop(), m.pop()
    m.push(m.call(callee, args))


def _new(m: Machine, keywords: bool) -> None:
    extra = m.pop() if keywords else {}
    args, callee = m.pop(), m.pop()
    if extra:
        fail(DataError, f"{m.name} makes an object with keywords")
    if isinstance(callee, type) and m.trusts(callee):
        m.charge(args)
        m.push(callee.__new__(callee, *args))
        return
    m.push(m.call(callee, args))


def _tuple(m: Machine, count: int) -> None:
    values = [m.pop() for _ in range(count)]
    m.push(tuple(reversed(values)))


def _dict_of(m: Machine) -> None:
    values = m.group()
    m.push({})
    m.put_items(values)


def _item(m: Machine) -> None:
    value, key = m.pop(), m.pop()
    m.put_items([key, value])


def _append_one(m: Machine) -> None:
    value = m.pop()
    m.append([value])


def _add_items(m: Machine) -> None:
    values = m.group()
    target = m.top()
    if isinstance(target, Inert):
        return
    if type(target) is not set:
        fail(DataError, f"{m.name} is damaged: its pickle adds to a {type(target).__name__}")
    target.update(_items(values))


def _build(m: Machine) -> None:
    state = m.pop()
    m.build(state)


def _proto(m: Machine) -> None:
    found = m.take(1)[0]
    if found > 5:
        fail(DataError, f"{m.name} is a pickle of protocol {found}, which is not known")


def _drop(m: Machine) -> None:
    if not m.stack:
        fail(DataError, f"{m.name} is damaged: its pickle takes a value where there is none")
    m.stack.pop()


STEPS: dict[int, Callable[[Machine], Any]] = {
    ord(code): step
    for code, step in {
        "\x80": _proto,
        "\x95": lambda m: m.take(8),
        "(": lambda m: m.push(MARK),
        "0": _drop,
        "1": lambda m: m.group(),
        "2": lambda m: m.push(m.top()),
        "N": lambda m: m.push(None),
        "\x88": lambda m: m.push(True),
        "\x89": lambda m: m.push(False),
        "I": _int_line,
        "L": lambda m: m.push(_decimal(m, m.line())),
        "J": lambda m: m.push(m.number(4, signed=True)),
        "K": lambda m: m.push(m.number(1)),
        "M": lambda m: m.push(m.number(2)),
        "\x8a": lambda m: _big(m, m.number(1)),
        "\x8b": lambda m: _big(m, m.number(4, signed=True)),
        "F": lambda m: m.push(float(m.line())),
        "G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
        "S": lambda m: m.push(_quoted(m)),
        "T": lambda m: m.push(_text(m.take(m.number(4)))),
        "U": lambda m: m.push(_text(m.take(m.number(1)))),
        "V": lambda m: m.push(m.line().decode("raw-unicode-escape")),
        "X": lambda m: m.push(_text(m.take(m.number(4)))),
        "\x8c": lambda m: m.push(_text(m.take(m.number(1)))),
        "\x8d": lambda m: m.push(_text(m.take(m.number(8)))),
        "B": lambda m: m.push(m.take(m.number(4))),
        "C": lambda m: m.push(m.take(m.number(1))),
        "\x8e": lambda m: m.push(m.take(m.number(8))),
        "\x96": lambda m: m.push(bytearray(m.take(m.number(8)))),
        "]": lambda m: m.push([]),
        "}": lambda m: m.push({}),
        ")": lambda m: m.push(()),
        "\x8f": lambda m: m.push(set()),
        "\x91": lambda m: m.push(frozenset(_items(m.group()))),
        "l": lambda m: m.push(m.group()),
        "t": lambda m: m.push(tuple(m.group())),
        "\x85": lambda m: _tuple(m, 1),
        "\x86": lambda m: _tuple(m, 2),
        "\x87": lambda m: _tuple(m, 3),
        "d": _dict_of,
        "a": _append_one,
        "e": lambda m: m.append(m.group()),
        "s": _item,
        "u": lambda m: m.put_items(m.group()),
        "\x90": _add_items,
        "c": _global_line,
        "\x93": _global_stack,
        "R": _reduce,
        "\x81": lambda m: _new(m, False),
        "\x92": lambda m: _new(m, True),
        "b": _build,
        "p": lambda m: m.store(_decimal(m, m.line())),
        "q": lambda m: m.store(m.number(1)),
        "r": lambda m: m.store(m.number(4)),
        "\x94": lambda m: m.store(len(m.memo)),
        "g": lambda m: m.recall(_decimal(m, m.line())),
        "h": lambda m: m.recall(m.number(1)),
        "j": lambda m: m.recall(m.number(4)),
        "Q": lambda m: m.stand_in(m.pop()),
        "P": lambda m: m.stand_in(m.line().decode("utf-8")),
    }.items()
}
