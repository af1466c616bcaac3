"""Storing a tile of a product, through its epilogue.

The tile's sums lie in a small buffer in the cache; a loop over its rows reads them, computes what
follows the product and stores the results. The epilogue's code is then written once (and once
more for the last channels), however many rows a tile has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .builder import Builder, Value
from .lowering import Epilogue
from .plan import View
from .types import Type


def plain(out: View) -> Epilogue:
    """Store the product, a (rows, columns) view's elements, and nothing else."""
    return Epilogue("", (), (), (out,), lambda b, product, operands: [product])


def words(epilogue: Epilogue, shape: Sequence[int]) -> list[int | View]:
    """What the record holds: for every output, then every operand, its buffer and the step from row to row."""
    found: list[int | View] = []
    for view in (*epilogue.outputs, *(o.broadcast(shape) for o in epilogue.operands)):
        found += [view, view.strides[-2]]
    return found


def word_count(epilogue: Epilogue) -> int:
    return 3 * (len(epilogue.outputs) + len(epilogue.operands))


class Tile(NamedTuple):
    """Where sums lie: `rows` x `columns` of them, `pitch` x `width` elements from row to row."""

    sums: Value
    rows: Value
    columns: Value
    pitch: int
    nv: int


class Place(NamedTuple):
    """Where a tile stands in the result: its first row, the steps between rows, its first channel, those left."""

    row: Value
    row_y: Value
    row_x: Value
    channel: Value
    left: Value


class _Array(NamedTuple):
    """An output or operand: where it starts, elements from row to row, how it is read."""

    pointer: Value
    stride: Value
    type: Type
    kind: str

    def at_row(self, b: Builder, row: Value, channel: Value) -> Value:
        if self.kind == "scalar":
            return self.pointer
        at = channel
        if self.kind != "column":
            start = b.mul(row, self.stride)
            at = start if self.kind == "row" else b.add(start, channel)
        return b.offset(self.pointer, at, self.type)

    @property
    def is_single(self) -> bool:
        return self.kind in ("scalar", "row")


def _arrays(b: Builder, epilogue: Epilogue, at: int) -> list[_Array]:
    kinds = ["full"] * len(epilogue.outputs) + list(epilogue.kinds)
    views = (*epilogue.outputs, *epilogue.operands)
    return [
        _Array(b.buffer(at + 3 * i), b.word(at + 3 * i + 2), view.type, kind)
        for i, (view, kind) in enumerate(zip(views, kinds, strict=True))
    ]


def finish(b: Builder, epilogue: Epilogue, at: int, type: Type, tile: Tile, place: Place) -> None:
    """Store a tile; the record's words about the outputs start `at`."""
    arrays = _arrays(b, epilogue, at)
    lanes = b.target.lanes(type)
    width = tile.nv * lanes
    whole = b.imin(b.udiv(place.left, b.index(lanes)), b.index(tile.nv))
    done = b.mul(whole, b.index(lanes))
    rest = b.imin(b.sub(place.left, done), b.sub(b.index(width), done))
    with b.loop(0, tile.rows) as y, b.loop(0, tile.columns) as x:
        row = b.add(b.add(place.row, b.mul(y.index, place.row_y)), b.mul(x.index, place.row_x))
        sums = b.offset(tile.sums, b.mul(b.add(b.mul(y.index, b.index(tile.pitch)), x.index), b.index(width)), type)
        starts = [a.at_row(b, row, place.channel) for a in arrays]

        def store(at: Value, lanes: int, mask: Value | None = None) -> None:
            results = len(epilogue.outputs)
            operands = [_read(b, a, p, at, lanes, mask) for a, p in zip(arrays[results:], starts[results:])]
            product = b.load(type.vector(lanes), b.offset(sums, at, type))
            for array, start, value in zip(arrays, starts, epilogue.emit(b, product, operands)):
                pointer = b.offset(start, at, array.type)
                b.store(value, pointer) if mask is None else b.masked_store(value, pointer, mask)

        with b.loop(0, done, lanes) as v:
            store(v.index, lanes)
        if b.target.width == 64:
            with b.when(b.icmp("sgt", rest, b.index(0))):
                store(done, lanes, b.tail_mask(rest, lanes))
        else:  # masked memory is slow, or many branches, on lesser processors
            with b.loop(done, b.add(done, rest)) as channel:
                store(channel.index, 1)


def _read(b: Builder, array: _Array, start: Value, at: Value, lanes: int, mask: Value | None) -> Value:
    if array.is_single:
        return b.splat(b.load(array.type, start), lanes)
    pointer, type = b.offset(start, at, array.type), array.type.vector(lanes)
    return b.load(type, pointer) if mask is None else b.masked_load(type, pointer, mask)
