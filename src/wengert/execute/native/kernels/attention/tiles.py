"""The parts of attention's kernels: tiles held in registers, packed rows, their transposes.

Every product in attention is a sum over one index of a number times a vector, with an accumulator for
each of a few numbers (the tile's rows) and vectors. Which index the vectors run along is chosen so that
the numbers can be read where they lie, in any strides: only queries and what comes in from the result
are packed, once for a group of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...codegen.builder import Builder, Value
from ...codegen.types import I8, I32, I64, Target, Type
from ...scalar.fp16 import convert


class Tile(NamedTuple):
    """A tile of `rows` x `vectors` accumulators of `type`.

    `group` is how many elements its vectors hold together: the queries that are worked on at once.
    """

    type: Type
    rows: int
    vectors: int

    @property
    def lanes(self) -> int:
        return self.type.lanes

    @property
    def group(self) -> int:
        return self.vectors * self.type.lanes

    def after(self, vectors: int) -> Tile:
        """Return the part of the tile without its first vectors."""
        return self._replace(vectors=self.vectors - vectors)


def tile_for(target: Target, type: Type) -> Tile:
    """Return a tile of two vectors whose sums fill half of the registers; a vector is a multiple of its rows."""
    vector = type.vector(target.lanes(type))
    return Tile(vector, min(8 if target.registers >= 32 else 4, vector.lanes), 2)


class Factors(NamedTuple):
    """The numbers of a tile: a pointer for every row, and the bytes from one step of the sum to the next."""

    pointers: Sequence[Value]
    step: Value


class Vectors(NamedTuple):
    """The vectors of a tile, side by side in memory, and the bytes from one step of the sum to the next."""

    pointer: Value
    step: Value


def strided(b: Builder, pointer: Value, index: Value, stride: Value | int, type: Type) -> Value:
    """Return the address of element `index * stride`."""
    by = stride if isinstance(stride, Value) else b.index(stride)
    return b.offset(pointer, b.mul(index, by), type)


def rows_of(b: Builder, tile: Tile, pointer: Value, first: Value, stride: Value, last: Value | None) -> list[Value]:
    """Return the addresses of the rows from `first` on; beyond `last` that one again, so that nothing else is read."""
    found = []
    for r in range(tile.rows):
        row = b.add(first, b.index(r))
        found.append(strided(b, pointer, row if last is None else b.imin(row, last), stride, tile.type))
    return found


def zeros(b: Builder, tile: Tile) -> list[Value]:
    """Return a tile of zeros."""
    return [b.const(tile.type, 0)] * (tile.rows * tile.vectors)


def load_tile(b: Builder, tile: Tile, pointers: Sequence[Value]) -> list[Value]:
    """Load the tile whose rows start at these addresses."""
    at = [b.offset(p, v * tile.lanes, tile.type) for p in pointers for v in range(tile.vectors)]
    return [b.load(tile.type, p) for p in at]


def store_tile(b: Builder, tile: Tile, sums: Sequence[Value], pointers: Sequence[Value]) -> None:
    """Store the tile in rows that start at these addresses."""
    at = [b.offset(p, v * tile.lanes, tile.type) for p in pointers for v in range(tile.vectors)]
    for x, p in zip(sums, at, strict=True):
        b.store(x, p)


def sum_products(
    b: Builder,
    tile: Tile,
    sums: Sequence[Value],
    start: Value,
    stop: Value,
    factors: Factors,
    vectors: Vectors,
    where: Callable[[Value], Value] | None = None,
) -> list[Value]:
    """Add to the tile, for every step t from `start` to `stop`, the outer product of its numbers and vectors.

    `where(t)` gives a mask for the first vector: what it does not hold for is left as it is, whatever is
    multiplied there.
    """
    at = [b.mul(start, factors.step), b.mul(start, vectors.step)]
    with b.loop(start, stop, 1, (*at, *sums)) as loop:
        here, there, *acc = loop.values
        vector = [
            b.load(tile.type, b.offset(b.offset(vectors.pointer, there, I8), v * tile.lanes, tile.type))
            for v in range(tile.vectors)
        ]
        mask = where(loop.index) if where is not None else None
        for r, pointer in enumerate(factors.pointers):
            factor = b.splat(b.load(tile.type.scalar, b.offset(pointer, here, I8)), tile.lanes)
            for v in range(tile.vectors):
                i = r * tile.vectors + v
                added = b.fma(factor, vector[v], acc[i])
                acc[i] = added if mask is None or v else b.select(mask, added, acc[i])
        loop.carry(b.add(here, factors.step), b.add(there, vectors.step), *acc)
    return list(loop.results[2:])


def sum_triangle(
    b: Builder, tile: Tile, sums: Sequence[Value], start: Value, factors: Factors, vectors: Vectors
) -> list[Value]:
    """Add as :func:`sum_products` does for the `rows` steps from `start`, where row r takes part from step r on."""
    acc = list(sums)
    here, there = b.mul(start, factors.step), b.mul(start, vectors.step)
    for t in range(tile.rows):
        base = b.offset(vectors.pointer, there, I8)
        vector = [b.load(tile.type, b.offset(base, v * tile.lanes, tile.type)) for v in range(tile.vectors)]
        for r, pointer in enumerate(factors.pointers[: t + 1]):
            factor = b.splat(b.load(tile.type.scalar, b.offset(pointer, here, I8)), tile.lanes)
            for v in range(tile.vectors):
                i = r * tile.vectors + v
                acc[i] = b.fma(factor, vector[v], acc[i])
        here, there = b.add(here, factors.step), b.add(there, vectors.step)
    return acc


def from_lane(b: Builder, tile: Tile, first: Value) -> Value:
    """Return the mask of the lanes whose numbers are `first` or more."""
    type = I32 if tile.type.bits == 32 else I64
    bound = first if type is I64 else b.cast("trunc", first, I32)
    return b.icmp("sge", b.iota(type.vector(tile.lanes)), b.splat(bound, tile.lanes))


# -- rows in and out


def pack_row(
    b: Builder, tile: Tile, source: Value, stored: Type, count: Value, target: Value, change: Callable[[Value], Value]
) -> None:
    """Copy `count` elements, next to each other and of type `stored`, changed; `target` is padded with zeros to a whole
    vector.
    """
    vector = stored.vector(tile.lanes)
    whole = b.and_(count, b.index(-tile.lanes))
    with b.loop(0, whole, tile.lanes) as loop:
        x = convert(b, b.load(vector, b.offset(source, loop.index, stored)), tile.type)
        b.store(change(x), b.offset(target, loop.index, tile.type))
    with b.when(b.icmp("slt", whole, count)):
        mask = b.tail_mask(b.sub(count, whole), tile.lanes)
        x = convert(b, b.masked_load(vector, b.offset(source, whole, stored), mask), tile.type)
        b.store(b.select(mask, change(x), b.const(tile.type, 0)), b.offset(target, whole, tile.type))


def unpack_row(
    b: Builder, tile: Tile, source: Value, count: Value, target: Value, stored: Type, change: Callable[[Value], Value]
) -> None:
    """Store `count` elements of a padded row, changed, as elements of type `stored`."""
    whole = b.and_(count, b.index(-tile.lanes))
    with b.loop(0, whole, tile.lanes) as loop:
        x = change(b.load(tile.type, b.offset(source, loop.index, tile.type)))
        b.store(convert(b, x, stored), b.offset(target, loop.index, stored))
    with b.when(b.icmp("slt", whole, count)):
        mask = b.tail_mask(b.sub(count, whole), tile.lanes)
        x = change(b.load(tile.type, b.offset(source, whole, tile.type)))
        b.masked_store(convert(b, x, stored), b.offset(target, whole, stored), mask)


def fill(b: Builder, tile: Tile, target: Value, count: Value) -> None:
    """Store zeros in `count` elements, a multiple of the lanes."""
    with b.loop(0, count, tile.lanes) as loop:
        b.store(b.const(tile.type, 0), b.offset(target, loop.index, tile.type))


def transpose(
    b: Builder,
    tile: Tile,
    source: Value,
    rows: Value | int,
    columns: Value | int,
    width: Value | int,
    target: Value,
    target_width: Value | int,
) -> None:
    """Transpose a matrix of whole vectors both ways; the widths are of the rows in memory."""
    n = tile.lanes
    with b.loop(0, rows, n) as down, b.loop(0, columns, n) as across:
        lines = []
        for i in range(n):
            row = strided(b, source, b.add(down.index, b.index(i)), width, tile.type)
            lines.append(b.load(tile.type, b.offset(row, across.index, tile.type)))
        for i, line in enumerate(transposed(b, lines)):
            row = strided(b, target, b.add(across.index, b.index(i)), target_width, tile.type)
            b.store(line, b.offset(row, down.index, tile.type))


def transposed(b: Builder, lines: Sequence[Value]) -> list[Value]:
    """Transpose a square of vectors by exchanging its blocks, then theirs, down to single elements."""
    lines = list(lines)
    n = len(lines)
    half = n // 2
    while half:
        low = [n + i - half if i & half else i for i in range(n)]
        high = [n + i if i & half else i + half for i in range(n)]
        for i in range(n):
            if not i & half:
                x, y = lines[i], lines[i + half]
                lines[i], lines[i + half] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        half //= 2
    return lines
