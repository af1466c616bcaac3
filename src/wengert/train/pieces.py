"""States in pieces: what several processes write of one state, each its own file, and how any other number reads it.

An array is a list of pieces, each with the position at which it begins. Who wrote a piece does not matter to a reader:
it takes what it needs of each, so that a state may be read by more or fewer processes, split another way.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import DataError, fail
from ..storage.safetensors_files import Opened, write
from ..storage.structure import Packed, unpack

Array = np.ndarray[Any, Any]
# A whole array of so many bytes is written by all processes, each some of its rows; a smaller one by one of them.
SPLIT = 1 << 20


class Pieces(NamedTuple):
    """An array of this shape, of which a process has these parts, each with the position at which it begins."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    parts: tuple[tuple[tuple[int, ...], Array], ...]


class Writing:
    """Collect what one of `ranks` writes of states that all of them have: its share of a checkpoint.

    `in_pieces` has, by the address of the array that stands in a state for it, what is known in pieces alone.
    """

    def __init__(self, rank: int, ranks: int, in_pieces: Mapping[int, Pieces]) -> None:
        self.rank, self.ranks, self.in_pieces = rank, ranks, in_pieces
        self.file = f"rank-{rank:05d}-of-{ranks:05d}.safetensors"
        self.arrays: dict[str, Array] = {}
        self.index: dict[str, Any] = {"parts": {}, "arrays": {}}

    def add(self, name: str, state: Any) -> None:
        """Add a part. Raises DataError for what cannot be saved."""
        packed = Packed()
        self.index["parts"][name] = packed.pack(state)
        for number, (key, array) in enumerate(packed.arrays.items()):
            pieces = self.in_pieces.get(array.__array_interface__["data"][0]) or self._whole(array, number)
            found = []
            for begin, part in pieces.parts:
                where = f"{name}:{key}:{'.'.join(map(str, begin))}"
                self.arrays[where] = part
                found.append([self.file, where, list(begin), list(part.shape)])
            told = {"shape": list(pieces.shape), "dtype": pieces.dtype.name, "pieces": found}
            self.index["arrays"].setdefault(name, {})[key] = told

    def _whole(self, array: Array, number: int) -> Pieces:
        """Return what this process writes of an array that all have."""
        begin, end = 0, 0
        if array.nbytes < SPLIT or not array.ndim or len(array) < self.ranks:
            if number % self.ranks == self.rank:
                return Pieces(array.shape, array.dtype, (((0,) * array.ndim, array),))
            return Pieces(array.shape, array.dtype, ())
        begin, end = (len(array) * r // self.ranks for r in (self.rank, self.rank + 1))
        return Pieces(array.shape, array.dtype, (((begin, *(0,) * (array.ndim - 1)), array[begin:end]),))

    def write(self, folder: str) -> str:
        """Write this process's file into a folder; return its path. Raises DataError."""
        path = os.path.join(folder, self.file)
        write(path, self.arrays)
        return path


def merged(indices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the index of all processes' files. Raises DataError where their arrays differ, or where one has gaps."""
    first = indices[0]
    arrays: dict[str, dict[str, Any]] = {}
    for rank, index in enumerate(indices):
        if index["parts"] != first["parts"]:
            differ = next(p for p in first["parts"] if index["parts"].get(p) != first["parts"][p])
            fail(DataError, f"part {differ!r} has another structure on rank {rank} than on rank 0")
        for part, found in index["arrays"].items():
            for name, entry in found.items():
                known = arrays.setdefault(part, {}).setdefault(name, {**entry, "pieces": []})
                if (known["shape"], known["dtype"]) != (entry["shape"], entry["dtype"]):
                    fail(DataError, f"{part}.{name} has another shape or dtype on rank {rank} than on rank 0")
                known["pieces"] += entry["pieces"]
    for part, found in arrays.items():
        for name, entry in found.items():
            there = sum(math.prod(shape) for *_, shape in entry["pieces"])
            if there != math.prod(entry["shape"]):
                fail(DataError, f"{part}.{name} has {math.prod(entry['shape'])} elements, and its pieces {there}")
    return {"parts": first["parts"], "arrays": arrays}


class Reader:
    """The arrays of a checkpoint in pieces. `check` is called with a file's name before it is first read."""

    def __init__(self, folder: str, index: Mapping[str, Any], check: Callable[[str], None]) -> None:
        self.folder, self.index, self.check = folder, index, check
        self.opened: dict[str, Opened] = {}

    def region(self, entry: Mapping[str, Any], begin: Sequence[int], end: Sequence[int]) -> Array:
        """Return the elements of an array from one position to another. Raises DataError where some are missing."""
        out: Array | None = None
        filled = 0
        for file, key, at, shape in entry["pieces"]:
            low = [max(a, b) for a, b in zip(at, begin, strict=True)]
            high = [min(a + n, e) for a, n, e in zip(at, shape, end, strict=True)]
            if out is not None and any(a >= b for a, b in zip(low, high, strict=True)):
                continue
            stored = self._stored(file, key)
            if out is None:
                out = np.empty([e - b for b, e in zip(begin, end, strict=True)], stored.dtype)
                if any(a >= b for a, b in zip(low, high, strict=True)):
                    continue  # read for its dtype alone
            target = tuple(slice(a - b, max(a, c) - b) for a, b, c in zip(low, begin, high, strict=True))
            source = tuple(slice(a - b, max(a, c) - b) for a, b, c in zip(low, at, high, strict=True))
            out[target] = stored[source]
            filled += out[target].size
        if out is None or filled != out.size:
            fail(DataError, f"an array of {tuple(entry['shape'])} lacks pieces")
        return out

    def _stored(self, file: str, key: str) -> Array:
        found = self.opened.get(file)
        if found is None:
            self.check(file)
            found = self.opened[file] = Opened(os.path.join(self.folder, os.path.basename(file)))
        if key not in found.arrays:
            fail(DataError, f"{file} has no {key!r}")
        return found.arrays[key].read()

    def part(self, name: str) -> Any:
        """Return a part, all of its arrays whole."""
        found = self.index["arrays"].get(name, {})
        arrays = {k: self.region(e, [0] * len(e["shape"]), e["shape"]) for k, e in found.items()}
        return unpack(self.index["parts"][name], arrays)

    def stand_ins(self, name: str) -> tuple[Any, dict[int, Mapping[str, Any]]]:
        """Return a part whose arrays are numbers that stand for them, and the entry of each number."""
        found = self.index["arrays"].get(name, {})
        arrays = {k: np.array(i) for i, k in enumerate(found)}
        return unpack(self.index["parts"][name], arrays), dict(enumerate(found.values()))
