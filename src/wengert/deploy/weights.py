"""The arrays that come with an exported program, and their file: safetensors, written without the package.

The format is eight bytes with the length of the header, the header as JSON, and the arrays' bytes without gaps. Here
arrays of larger elements come first, and the header ends at a multiple of 64 bytes: so each array is aligned for its
elements where the file is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.dtypes import record_of
from ..core.errors import DataError, fail
from ..execute.native.plan.plan import ALIGN

Array = np.ndarray[Any, np.dtype[Any]]

# Constants of at most so many bytes stand in the object.
EMBEDDED = 1024


class Layout:
    """The places of arrays, by name, one after the other in one block: `nbytes` in all."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        names = sorted(arrays, key=lambda n: (-_item(arrays[n]), n))
        self.arrays = {n: np.ascontiguousarray(arrays[n]).reshape(arrays[n].shape) for n in names}
        self.places: dict[str, int] = {}
        self.nbytes = 0
        for name, array in self.arrays.items():
            self.places[name] = self.nbytes
            self.nbytes += array.nbytes

    @property
    def header(self) -> bytes:
        """The file's header, with its length before it."""
        told: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        pairs = [n for n, a in self.arrays.items() if a.dtype.kind == "c"]
        if pairs:
            told["__metadata__"]["complex"] = json.dumps(pairs)
        for name, array in self.arrays.items():
            record = record_of(array.real.dtype if array.dtype.kind == "c" else array.dtype)
            if not record.safetensors:
                fail(DataError, f"{name} is of dtype {array.dtype}, which safetensors files have none for")
            shape = [*array.shape, 2] if array.dtype.kind == "c" else [*array.shape]
            start = self.places[name]
            told[name] = {"dtype": record.safetensors, "shape": shape, "data_offsets": [start, start + array.nbytes]}
        text = json.dumps(told, separators=(",", ":")).encode()
        text += b" " * (-(8 + len(text)) % ALIGN)
        return len(text).to_bytes(8, "little") + text

    def data(self) -> bytes:
        """Return the arrays' bytes, in little-endian order."""
        return b"".join(_little(a).tobytes() for a in self.arrays.values())


def _item(array: Array) -> int:
    return array.real.dtype.itemsize if array.dtype.kind == "c" else array.dtype.itemsize


def _little(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.kind in "iufc" else array


class Pool:
    """The arrays that programs of all levels read, each once: those with names, and constants of graphs.

    Of a constant that has the bytes of a named array, that one is what is read.
    """

    def __init__(self, named: Mapping[str, Array], read: Mapping[str, Array]) -> None:
        self._named = {_key(a): n for n, a in reversed([*named.items()])}
        self._values = dict(named)
        self.arrays: dict[str, Array] = dict(read)
        self._known: dict[tuple[int, bytes], str] = {}

    def name_of(self, array: Array) -> str:
        """Return the name under which a constant's bytes are found in `arrays`."""
        key = _key(array)
        name = self._named.get(key) or self._known.get(key)
        if name is None:
            name = f"constant.{len(self._known)}"
            while name in self._values:
                name += "_"
            self._known[key] = name
            self.arrays[name] = array
        elif name not in self.arrays:
            self.arrays[name] = self._values[name]
        return name


def _key(array: Array) -> tuple[int, bytes]:
    return array.dtype.itemsize, np.ascontiguousarray(array).tobytes()
