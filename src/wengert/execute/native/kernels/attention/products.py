"""The three kinds of products in attention, over blocks of keys and groups of queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ...codegen.builder import Builder, Value
from .form import Frame, Keys, group_rows
from .tiles import (
    Factors,
    Tile,
    fill,
    from_lane,
    load_tile,
    pack_row,
    rows_of,
    store_tile,
    strided,
    sum_products,
    sum_triangle,
    transpose,
    unpack_row,
    zeros,
)


def pack(f: Frame, name: str, first: Value, valid: Value, rows: int, width: Value, piece: str, scaled: bool) -> None:
    """Copy rows of an array to scratch memory, `width` apart; zeros beyond the array."""
    b, tile = f.b, f.tile
    target = f.piece(piece)
    columns = f.size("d") if name == "q" else f.size("e")
    change = _change(f, scaled)
    with b.loop(0, valid) as loop:
        row = strided(b, target, loop.index, width, f.type)
        source = f.array(name, b.add(first, loop.index))
        pack_row(b, tile, source, f.stored(name), columns, row, change)
        written = b.and_(b.add(columns, b.index(tile.lanes - 1)), b.index(-tile.lanes))
        fill(b, tile, b.offset(row, written, f.type), b.sub(width, written))
    fill(b, tile, strided(b, target, valid, width, f.type), b.mul(b.sub(b.index(rows), valid), width))


def _change(f: Frame, scaled: bool) -> Callable[[Value], Value]:
    """Return what is done to the numbers of a row: nothing, or a product with the scale."""
    scale = f.b.splat(f.scale, f.tile.lanes)
    return (lambda x: f.b.fmul(x, scale)) if scaled else lambda x: x


def turn(f: Frame, source: Value, width: Value, target: Value) -> None:
    """Transpose a group's packed rows, so that the queries are along the vectors."""
    transpose(f.b, f.tile, source, f.tile.group, width, width, target, f.tile.group)


def unpack(
    f: Frame, source: Value, width: Value, name: str, columns: Value, first: Value, count: Value, scaled: bool
) -> None:
    """Store padded rows as rows of a result."""
    b = f.b
    change = _change(f, scaled)
    with b.loop(0, count) as loop:
        row = strided(b, source, loop.index, width, f.type)
        target = f.array(name, b.add(first, loop.index))
        unpack_row(b, f.tile, row, columns, target, f.stored(name), change)


def widen(f: Frame, start: Value, stop: Value) -> None:
    """Widen the keys and values from `start` to `stop` to scratch memory, if they are half-precision numbers."""
    b, tile = f.b, f.tile
    for name, columns in (("k", f.size("d")), ("v", f.size("e"))):
        if f.stored(name) == f.type.scalar:
            continue
        piece, width = f.piece(f"{name}_block"), f.size(f"{name}_width")
        with b.loop(start, stop) as key:
            row = strided(b, piece, b.sub(key.index, start), width, f.type)
            pack_row(b, tile, f.array(name, key.index), f.stored(name), columns, row, lambda x: x)
        f.widened[name] = Keys(strided(b, piece, b.sub(b.index(0), start), width, f.type), width, b.index(1))


def load_row(f: Frame, row: Value, first: int = 0) -> list[Value]:
    """Return a group's row of numbers from vector `first` on."""
    return [f.b.load(f.type, f.b.offset(row, v * f.tile.lanes, f.type)) for v in range(first, f.tile.vectors)]


def store_row(f: Frame, row: Value, values: Sequence[Value], first: int = 0) -> None:
    """Store vectors as a group's row, from vector `first` on."""
    for v, x in enumerate(values, first):
        f.b.store(x, f.b.offset(row, v * f.tile.lanes, f.type))


class Segment(NamedTuple):
    """The keys `start` to `stop`, seen by a group's queries from vector `first` on.

    On the `diagonal` a query of that vector sees the keys up to its own only.
    """

    first: int
    start: Value
    stop: Value
    query: Value
    diagonal: bool

    def tile(self, f: Frame) -> Tile:
        return f.tile.after(self.first)

    def seen(self, b: Builder, tile: Tile, key: Value) -> Value:
        """Return the mask of the queries of the first vector that see a key."""
        return from_lane(b, tile, b.sub(key, self.query))


def segments(f: Frame, query: Value, start: Value, stop: Value) -> list[Segment]:
    """Return the keys from `start` to `stop` as the queries of a group from `query` on see them."""
    b, tile = f.b, f.tile
    if not f.form.causal:
        return [Segment(0, start, stop, query, False)]
    bounds = [b.add(query, b.index(v * tile.lanes)) for v in range(tile.vectors + 1)]
    ends = [b.imin(b.imax(x, start), stop) for x in bounds]
    diagonal = [Segment(v, ends[v], ends[v + 1], bounds[v], True) for v in range(tile.vectors)]
    return [Segment(0, start, ends[0], query, False), *diagonal]


def with_keys(
    f: Frame, name: str, keys: Sequence[Segment], depth: Value, turned: Value, out: Value, width: int
) -> None:
    """Compute the products of keys (or values) with a group's turned rows: a row of `out` for each."""
    b = f.b
    origin = keys[0].start
    last = b.sub(f.size("n"), b.index(1))
    source = f.keys(name)
    step = f.bytes(source.column)
    for first in sorted({s.first for s in keys}):
        parts = [s for s in keys if s.first == first]
        tile = parts[0].tile(f)
        skipped = first * tile.lanes
        vectors = group_rows(b, tile, b.offset(turned, skipped, f.type), f.tile.group)
        target = b.offset(out, skipped, f.type)
        with b.loop(parts[0].start, parts[-1].stop, tile.rows) as loop:
            factors = Factors(rows_of(b, tile, source.pointer, loop.index, source.row, last), step)
            sums = sum_products(b, tile, zeros(b, tile), b.index(0), depth, factors, vectors)
            store_tile(b, tile, sums, rows_of(b, tile, target, b.sub(loop.index, origin), b.index(width), None))


def over_keys(
    f: Frame,
    name: str,
    depth: Value,
    keys: Sequence[Segment],
    weights: Value,
    width: int,
    sums: Value,
    decay: Sequence[Value] | None = None,
) -> None:
    """Add to a group's sums, a row for every column of values (or keys), weights times those columns.

    The weights' rows are those of the keys; `decay` scales the sums there were.
    """
    b, tile = f.b, f.tile
    base = strided(b, weights, b.sub(b.index(0), keys[0].start), width, f.type)
    source = f.keys(name)
    step = f.bytes(source.row)
    last = b.sub(depth, b.index(1))
    with b.loop(0, depth, tile.rows) as loop:
        factors = Factors(rows_of(b, tile, source.pointer, loop.index, source.column, last), step)
        places = rows_of(b, tile, sums, loop.index, b.index(tile.group), None)
        acc = load_tile(b, tile, places)
        if decay is not None:
            acc = [b.fmul(a, decay[i % tile.vectors]) for i, a in enumerate(acc)]
        for part in keys:
            narrow = part.tile(f)
            vectors = group_rows(b, narrow, b.offset(base, part.first * tile.lanes, f.type), width)
            taken = [i for i in range(len(acc)) if i % tile.vectors >= part.first]
            seen = partial(part.seen, b, narrow) if part.diagonal else None
            added = sum_products(b, narrow, [acc[i] for i in taken], part.start, part.stop, factors, vectors, seen)
            for i, x in zip(taken, added, strict=True):
                acc[i] = x
        store_tile(b, tile, acc, places)


def over_queries(
    f: Frame,
    start: Value,
    stop: Value,
    first: Value,
    valid: Value,
    weights: Value,
    width: int,
    rows: Value,
    row_width: Value,
    sums: Value,
) -> None:
    """Add to the sums of keys `start` to `stop` the rows of `valid` queries from `first` on, times weights.

    The weights, `width` apart, and the sums are those of `start` and the keys after it.
    """
    b, tile = f.b, f.tile
    step = b.index(f.type.scalar.size)
    with b.loop(start, stop, tile.rows) as keys, b.loop(0, row_width, tile.group) as columns:
        factors = Factors(rows_of(b, tile, weights, b.sub(keys.index, start), b.index(width), None), step)
        vectors = group_rows(b, tile, b.offset(rows, columns.index, f.type), row_width)
        places = rows_of(b, tile, b.offset(sums, columns.index, f.type), b.sub(keys.index, start), row_width, None)
        # The block's sums begin anew: over many queries a sum that goes on loses digits.
        acc = zeros(b, tile)
        begin = b.index(0)
        if f.form.causal:
            # A block of queries is a whole number of tiles, so the diagonal goes through a tile from corner to corner.
            behind = b.sub(keys.index, first)
            meets = b.icmp("sge", behind, begin)
            acc = list(
                b.either(
                    meets,
                    lambda acc=acc: sum_triangle(b, tile, acc, behind, factors, vectors),  # type: ignore[misc]
                    lambda acc=acc: acc,  # type: ignore[misc]
                )
            )
            begin = b.select(meets, b.add(behind, b.index(tile.rows)), begin)
        added = sum_products(b, tile, acc, begin, valid, factors, vectors)
        store_tile(b, tile, [b.fadd(x, y) for x, y in zip(load_tile(b, tile, places), added, strict=True)], places)
