"""The forms of attention's kernels: their structure, their records, and the division of scratch memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ...codegen.builder import Builder, Value
from ...codegen.types import F64, I8, I64, Type
from ...plan.plan import ALIGN
from ...plan.record import Record
from ...scalar.fp16 import convert
from .tiles import Tile, Vectors, strided

# The ways of reading a mask: the same numbers for every query, or each its own.
MaskKind = Literal["none", "shared", "full"]


@dataclass(frozen=True)
class Form:
    """The structure of a kernel: its element type and tile, its mask, the number of leading axes.

    `arrays` are the arrays by name, with leading axes, `rows` and `columns` strides and a place in memory, where
    elements are of the types `stored`, the mask's last; `sizes` and `pieces` (of scratch memory, in bytes from its
    start) are numbers that the code asks for.
    """

    tile: Tile
    causal: bool
    mask: MaskKind
    rank: int
    arrays: tuple[str, ...]
    stored: tuple[Type, ...]
    sizes: tuple[str, ...]
    pieces: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, the mask among them."""
        return self.arrays if self.mask == "none" else (*self.arrays, "mask")

    @property
    def record(self) -> Record:
        buffers = [f"*{a} {a}_row {a}_column" for a in self.names]
        return Record(" ".join([*buffers, *self.sizes, *self.pieces, "scale"]))

    def key(self, name: str) -> str:
        element = " ".join(type.mangled for type in (self.tile.type.scalar, *self.stored))
        return f"{name} {element} rank={self.rank} mask={self.mask}{' causal' if self.causal else ''}"


class Keys(NamedTuple):
    """The keys or values as products read them: where number 0 is, and the strides."""

    pointer: Value
    row: Value
    column: Value


class Frame:
    """The values of a record in a kernel: arrays, strides, sizes, scratch memory."""

    def __init__(self, b: Builder, form: Form) -> None:
        self.b, self.form, self.tile = b, form, form.tile
        self.type = form.tile.type
        self._values = form.record.load(b)
        scratch = b.scratch()
        self._pieces = {p: b.offset(scratch, self._values[p], I8) for p in form.pieces}
        wide = b.cast("bitcast", self._values["scale"], F64)
        self.scale = wide if self.type.scalar == F64 else b.cast("fptrunc", wide, self.type.scalar)
        self._at: dict[str, Value] = {}
        self._stored = dict(zip(form.names, form.stored, strict=True))
        # Keys and values whose block is in scratch memory.
        self.widened: dict[str, Keys] = {}

    def size(self, name: str) -> Value:
        return self._values[name]

    def piece(self, name: str) -> Value:
        return self._pieces[name]

    def row(self, name: str) -> Value:
        return self._values[f"{name}_row"]

    def column(self, name: str) -> Value:
        return self._values[f"{name}_column"]

    def bytes(self, elements: Value | int) -> Value:
        """Return elements as bytes."""
        size = self.type.scalar.size
        return self.b.index(elements * size) if isinstance(elements, int) else self.b.mul(elements, self.b.index(size))

    def move(self, offsets: Sequence[Value]) -> None:
        """Move to where the arrays of a unit begin."""
        for name, offset in zip(self.form.names, offsets, strict=True):
            self._at[name] = self.b.offset(self._values[name], offset, self._stored[name])

    def array(self, name: str, row: Value | None = None) -> Value:
        """Return the address of a row of a unit's array."""
        at = self._at[name]
        return at if row is None else strided(self.b, at, row, self.row(name), self._stored[name])

    def stored(self, name: str) -> Type:
        """Return the type of an array's elements in memory."""
        return self._stored[name]

    def keys(self, name: str) -> Keys:
        """Return the keys or values, of a block if that is in scratch memory."""
        return self.widened.get(name) or Keys(self.array(name), self.row(name), self.column(name))

    def masked(self, scores: Sequence[Value], key: Value, query: Value, valid: Value, first: int) -> list[Value]:
        """Return scores of one key with the mask's numbers added.

        They are those of the group from `query` on, of which there are `valid`, without its `first` vectors.
        """
        b, tile = self.b, self.tile
        if self.form.mask == "none":
            return list(scores)
        stored = self.stored("mask")
        at = strided(b, self.array("mask", query), key, self.column("mask"), stored)
        if self.form.mask == "shared":
            shared = b.splat(convert(b, b.load(stored, at), self.type.scalar), tile.lanes)
            return [b.fadd(s, shared) for s in scores]
        found = []
        lanes = I64.vector(tile.lanes)
        for v, s in enumerate(scores, first):
            numbers = b.add(b.iota(lanes), b.const(lanes, v * tile.lanes)) if v else b.iota(lanes)
            there = b.mul(numbers, b.splat(self.row("mask"), tile.lanes))
            mask = b.tail_mask(b.sub(valid, b.index(v * tile.lanes)), tile.lanes)
            numbers = b.gather(stored.vector(tile.lanes), at, there, mask)
            found.append(b.fadd(s, convert(b, numbers, self.type)))
        return found


class Scratch:
    """A piece of memory divided into parts, each on its own cache lines."""

    def __init__(self, element: int) -> None:
        self._element = element
        self.total = 0
        self.places: dict[str, int] = {}

    def add(self, **elements: int) -> None:
        for name, count in elements.items():
            self.places[name] = self.total
            self.total += -(-count * self._element // ALIGN) * ALIGN


def padded(size: int, multiple: int) -> int:
    """Return a size rounded up to a multiple."""
    return -(-size // multiple) * multiple


def group_rows(b: Builder, tile: Tile, pointer: Value, width: Value | int) -> Vectors:
    """Return rows of vectors `width` elements apart."""
    size = tile.type.scalar.size
    step = b.index(width * size) if isinstance(width, int) else b.mul(width, b.index(size))
    return Vectors(pointer, step)


def bits_of(scale: Any) -> int:
    """Return a number as the 64 bits of a float64, for a record."""
    return int(struct.unpack("<q", struct.pack("<d", float(scale)))[0])
