"""Nested containers as JSON and arrays: what is saved beside the arrays of a file, so that the whole comes back.

Each value is one JSON value: itself for None, booleans, numbers, texts; else an object with one key that says what it
is: `{"dict": [[key, value], ...]}`, `{"list": [...]}`, `{"tensor": name}`. Numbers that JSON has not are texts.
"""

from __future__ import annotations

import base64
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core import tree
from ..core.dtypes import is_known
from ..core.elsewhere import SAVING
from ..core.errors import DataError, fail
from ..core.tensor import Tensor, asarray

Array = np.ndarray[Any, Any]

_DICTS: dict[str, Callable[[Any], Any]] = {
    "dict": dict,
    "ordered": OrderedDict,
    "counter": lambda kv: Counter(dict(kv)),
}
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_KINDS: dict[Any, str] = {dict: "dict", OrderedDict: "ordered", Counter: "counter"} | {
    list: "list",
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
}


class Packed:
    """The arrays of a pytree by name, made while it is taken apart."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        # Values that are the same array are written once.
        self._names: dict[int, str] = {}

    def pack(self, value: Any, path: str = "") -> Any:
        """Return the JSON of a value. Raises DataError for what cannot be saved."""
        if value is None or isinstance(value, str):
            return value if type(value) in (str, type(None)) else str(value)
        if type(value) is bool:
            return value
        if type(value) is int:
            return value if abs(value) < 1 << 53 else {"int": hex(value)}
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is complex:
            return {"complex": [self.pack(value.real), self.pack(value.imag)]}
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": base64.b64encode(value).decode()}
        if isinstance(value, Tensor):
            return {"tensor": self._array(np.asarray(value.detach()._value(SAVING)), path)}
        if isinstance(value, np.ndarray):
            return {"array": self._array(value, path)}
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value), path)}
        if isinstance(value, np.dtype):
            return {"dtype": value.name}
        kind = _KINDS.get(type(value))
        if kind in _DICTS:
            return {kind: [[self._key(k, path), self.pack(v, _joined(path, k))] for k, v in value.items()]}
        if kind is not None:
            return {kind: [self.pack(v, _joined(path, i)) for i, v in enumerate(value)]}
        if hasattr(value, "state_dict"):
            fail(DataError, f"{_where(path)} is a {type(value).__name__}", "Save its state: x.state_dict().")
        leaves, structure = tree.flatten(value)
        if structure.kind is None:
            fail(
                DataError,
                f"{_where(path)} is a {type(value).__name__}, which cannot be saved",
                "Tensors, arrays, numbers, texts and bytes can, in dicts, lists, tuples, sets and other pytrees.",
            )
        if isinstance(value, Mapping):  # a dict of a class of its own would come back as another
            fail(DataError, f"{_where(path)} is a {type(value).__name__}", "Make it a dict: dict(x).")
        parts = [self.pack(leaf, _joined(path, i)) for i, leaf in enumerate(leaves)]
        return {"pytree": [type(value).__qualname__, *parts]}

    def _key(self, key: Any, path: str) -> Any:
        plain = key is None or type(key) in (str, bool, int, float)
        _known_key(key)
        if not plain and not (type(key) is tuple and all(type(k) in (str, bool, int, float) for k in key)):
            fail(DataError, f"{_where(path)} has a key of type {type(key).__name__}", "Use texts or numbers as keys.")
        return self.pack(key)

    def _array(self, array: Array, path: str) -> str:
        known = self._names.get(id(array))
        if known is not None:
            return known
        if not is_known(array.dtype):
            fail(DataError, f"{_where(path)} is an array of dtype {array.dtype}, which cannot be saved")
        name = path or "value"
        number = 0
        while name in self.arrays or name == "__metadata__":
            number += 1
            name = f"{path or 'value'}#{number}"
        self.arrays[name] = array
        self._names[id(array)] = name
        return name


def unpack(value: Any, arrays: Mapping[str, Array], like: Any = None) -> Any:
    """Return the value of a JSON; classes are those of `like`. Raises DataError for what makes no sense."""
    if not isinstance(value, (dict, list)):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        fail(DataError, f"the structure has {str(value)[:60]!r}, which is no value")
    ((kind, inside),) = value.items()
    if kind in _DICTS:
        found = like if isinstance(like, dict) else {}
        keys = [_known_key(unpack(k, arrays)) for k, _ in inside]
        return _DICTS[kind]([(k, unpack(v, arrays, found.get(k))) for k, (_, v) in zip(keys, inside)])
    if kind in _SEQUENCES:
        ones = list(like) if isinstance(like, (list, tuple)) and len(like) == len(inside) else [None] * len(inside)
        return _SEQUENCES[kind]([unpack(v, arrays, one) for v, one in zip(inside, ones)])
    if kind == "tensor":
        return asarray(arrays[inside], copy=False)
    if kind == "array":
        return arrays[inside].copy()
    if kind == "scalar":
        return arrays[inside][()]
    if kind == "int":
        return int(inside, 16)
    if kind == "float":
        return float(inside)
    if kind == "complex":
        return complex(unpack(inside[0], arrays), unpack(inside[1], arrays))
    if kind == "bytes":
        return base64.b64decode(inside)
    if kind == "dtype":
        return np.dtype(inside)
    if kind == "pytree":
        leaves, structure = tree.flatten(like)
        if like is None or structure.count != len(inside) - 1:
            fail(
                DataError,
                f"a {inside[0]} was saved, which is a class of a program's own",
                "Give an object with the same structure: load(file, like=...).",
            )
        return tree.unflatten(structure, [unpack(v, arrays, one) for v, one in zip(inside[1:], leaves)])
    return fail(DataError, f"the structure has a {str(kind)[:60]!r}, which this version does not know")


def _known_key(key: Any) -> Any:
    # Larger integers can be made to collide, so that a dict of them takes long.
    if type(key) is int and abs(key) >= 1 << 60:
        fail(DataError, f"the structure has a key of {key.bit_length()} bits")
    return key


def names_in(value: Any) -> list[tuple[str, str]]:
    """Return the kind and name of each array in a JSON, in order."""
    found: list[tuple[str, str]] = []
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending += reversed(one)
        elif isinstance(one, dict):
            for kind, inside in one.items():
                if kind in ("tensor", "array", "scalar") and isinstance(inside, str):
                    found.append((kind, inside))
                else:
                    pending.append(inside)
    return found


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _where(path: str) -> str:
    return path if path else "the value to save"
