"""GGUF files, in which llama.cpp and its kin keep models: metadata, and tensors, some of them quantised in blocks."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import DataError, fail
from .files import Array, Budget, Path, Reading, Stored, bytes_of, dtype_in_file, little_endian, native

MAGIC = b"GGUF"
_ALIGNMENT = 32
_LONGEST_TEXT = 1 << 20
_MOST_NESTED = 4
# Values of arrays that are kept; vocabularies are longer, and no part of the weights.
_MOST_KEPT = 64


@dataclass(frozen=True)
class Kind:
    """A type of tensors: its name, the elements and bytes of a block, and how blocks become numbers."""

    name: str
    elements: int
    nbytes: int
    decode: Callable[[Array], Array] | None


def _plain(dtype: Any) -> Callable[[Array], Array]:
    return lambda raw: native(raw.view(little_endian(dtype)))


def _bfloat16(raw: Array) -> Array:
    return native(raw.view(dtype_in_file("bfloat16")))


def _scales(blocks: Array) -> Array:
    found: Array = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    return found


def _q8_0(raw: Array) -> Array:
    blocks = raw.reshape(-1, 34)
    found: Array = _scales(blocks) * np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32)
    return found


def _q4_0(raw: Array) -> Array:
    blocks = raw.reshape(-1, 18)
    packed = blocks[:, 2:]
    # The lower halves of the bytes are the first 16 elements, the upper ones the others.
    found: Array = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32) - np.float32(8)
    found *= _scales(blocks)
    return found


KINDS = {
    0: Kind("F32", 1, 4, _plain(np.float32)),
    1: Kind("F16", 1, 2, _plain(np.float16)),
    2: Kind("Q4_0", 32, 18, _q4_0),
    8: Kind("Q8_0", 32, 34, _q8_0),
    24: Kind("I8", 1, 1, _plain(np.int8)),
    25: Kind("I16", 1, 2, _plain(np.int16)),
    26: Kind("I32", 1, 4, _plain(np.int32)),
    27: Kind("I64", 1, 8, _plain(np.int64)),
    28: Kind("F64", 1, 8, _plain(np.float64)),
    30: Kind("BF16", 1, 2, _bfloat16),
    # Named, so that an error can tell them; their blocks are not decoded.
    3: Kind("Q4_1", 32, 20, None),
    6: Kind("Q5_0", 32, 22, None),
    7: Kind("Q5_1", 32, 24, None),
    9: Kind("Q8_1", 32, 36, None),
    10: Kind("Q2_K", 256, 84, None),
    11: Kind("Q3_K", 256, 110, None),
    12: Kind("Q4_K", 256, 144, None),
    13: Kind("Q5_K", 256, 176, None),
    14: Kind("Q6_K", 256, 210, None),
    15: Kind("Q8_K", 256, 292, None),
}
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _ARRAY = 8, 9


class _Cursor:
    """A position in a file's bytes."""

    def __init__(self, data: Array, name: str) -> None:
        self.data, self.name, self.position = data, name, 0

    def take(self, count: int) -> bytes:
        end = self.position + count
        if end > self.data.size:
            fail(DataError, f"{self.name} is truncated: it ends inside its header")
        found = self.data[self.position : end].tobytes()
        self.position = end
        return found

    def number(self, code: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def text(self) -> str:
        length = self.number("<Q")
        if length > _LONGEST_TEXT:
            fail(DataError, f"{self.name} has a text of {length:,} bytes in its header")
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY or depth >= _MOST_NESTED:
            fail(DataError, f"{self.name} has metadata of the unknown type {kind}")
        inner, count = self.number("<I"), self.number("<Q")
        if inner in _NUMBERS:
            width = struct.calcsize(_NUMBERS[inner])
            if count * width > self.data.size - self.position:
                fail(DataError, f"{self.name} is truncated: metadata of {count:,} values are not all there")
            kept = [self.number(_NUMBERS[inner]) for _ in range(min(count, _MOST_KEPT))]
            self.position += (count - len(kept)) * width
            return kept
        kept = []
        for i in range(count):
            found = self.value(inner, depth + 1)
            if i < _MOST_KEPT:
                kept.append(found)
        return kept


def open_gguf(file: Path, mmap: bool = True, limit: int | None = None) -> tuple[dict[str, Stored], dict[str, Any]]:
    """Return the tensors of a GGUF file by name, and its metadata (the beginnings of long lists).

    Shapes are in NumPy's order. Quantised tensors are read as float32: Q8_0 and Q4_0; others are listed, and reading
    them is a DataError, as are files that are damaged.
    """
    name = os.fspath(file)
    with Reading(name):
        data = bytes_of(file, mmap)
        cursor, budget = _Cursor(data, name), Budget(data.size, limit)
        if cursor.take(4) != MAGIC:
            fail(DataError, f"{name} is no GGUF file")
        version = cursor.number("<I")
        if version not in (2, 3):
            fail(DataError, f"{name} is of version {version} of GGUF, which is not read")
        tensors, count = cursor.number("<Q"), cursor.number("<Q")
        metadata = {}
        for _ in range(count):
            key = cursor.text()
            metadata[key] = cursor.value(cursor.number("<I"))
        entries = []
        for _ in range(tensors):
            title, axes = cursor.text(), cursor.number("<I")
            if axes > 8:
                fail(DataError, f"{name} has a tensor of {axes} axes")
            shape = tuple(reversed([cursor.number("<Q") for _ in range(axes)]))
            entries.append((title, shape, cursor.number("<I"), cursor.number("<Q")))
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if type(alignment) is not int or not 0 < alignment <= 1 << 20:
            fail(DataError, f"{name} has an alignment of {str(alignment)[:40]}")
        start = -(-cursor.position // alignment) * alignment
        found: dict[str, Stored] = {}
        for title, shape, code, offset in entries:
            if title in found:
                fail(DataError, f"{name} has two tensors with the name {title[:80]!r}")
            found[title] = _tensor(data, name, title, shape, code, start + offset, budget)
        return found, metadata


def _tensor(
    data: Array, name: str, title: str, shape: tuple[int, ...], code: int, start: int, budget: Budget
) -> Stored:
    kind = KINDS.get(code)
    if kind is None:
        return Stored(shape, f"type {code}", 0, lambda: _refused(f"type {code}", title, name))
    count = math.prod(shape)
    if count % kind.elements or (shape and shape[-1] % kind.elements):
        fail(DataError, f"{name} has {title[:80]!r} of shape {shape}, which is no number of blocks of {kind.elements}")
    nbytes = count // kind.elements * kind.nbytes
    if start + nbytes > data.size:
        fail(DataError, f"{name} is truncated: {title[:80]!r} of {nbytes:,} bytes is not all there")

    def read() -> Array:
        if kind.decode is None:
            return _refused(kind.name, title, name)
        with Reading(name):
            if kind.elements > 1:
                budget.take(4 * count, f"{title[:80]!r} in {name}")
            return kind.decode(data[start : start + nbytes].view(np.ndarray)).reshape(shape)

    return Stored(shape, kind.name, nbytes, read)


def _refused(kind: str, title: str, name: str) -> Array:
    fail(
        DataError,
        f"{title[:80]!r} in {name} is of {kind}, which is not decoded",
        "F32, F16, BF16, F64, integers, Q8_0 and Q4_0 are: let llama-quantize write one of those.",
    )
