"""The storing of a convolution's tiles, through their epilogue.

The rows of a tile are pixels, which lie apart by one step along x and another along y. A short
epilogue is computed on the registers that hold the sums; a longer one is written once, in a loop
over a buffer that the sums were put in. The last channels, where they do not fill vectors, are
computed under masks, or one by one where masks are slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...codegen.builder import Builder, Value
from ...codegen.types import Type
from ..gemm.finish import Finish, Place


class Spot(NamedTuple):
    """A tile's place in the result: its first row, the steps between rows, its first channel, those left."""

    row: Value
    row_y: Value
    row_x: Value
    channel: Value
    left: Value


class Store:
    """The writer of code that stores tiles of at most `rows` x `columns` pixels and `nv` vectors of channels.

    The record's words about the epilogue start `at`; `places` are where its arrays are, if not where these say.
    """

    def __init__(
        self,
        b: Builder,
        finish: Finish,
        at: int,
        type: Type,
        rows: int,
        columns: int,
        nv: int,
        places: Sequence[Place] | None = None,
    ) -> None:
        self.b, self.finish, self.type, self.nv = b, finish, type, nv
        self.lanes = b.target.lanes(type)
        self.width = nv * self.lanes
        self.columns = columns
        self.is_masked = b.target.width == 64
        self.is_inline = finish.is_short(b.target, type)
        self.places = finish.places(b, at, ()) if places is None else places
        self.buffer = None if self.is_inline and self.is_masked else b.local(type, rows * columns * self.width)

    def sums(self, values: Sequence[Value], rows: int, columns: int, spot: Spot) -> None:
        """Store the sums of a tile, or put them where `rest` finds them."""
        b = self.b
        if self.buffer is None:
            self._rows(values, rows, columns, spot, self._masks(spot))
        elif self.is_inline:
            is_full = self._is_full(spot)
            with b.when(is_full):
                self._rows(values, rows, columns, spot, None)
            with b.when(b.not_(is_full)):
                self._put(values, rows, columns, self.buffer)
        else:
            self._put(values, rows, columns, self.buffer)

    def rest(self, rows: Value, columns: Value, spot: Spot) -> None:
        """Store what `sums` did not, of a tile of this size."""
        b = self.b
        if self.buffer is None:
            return
        if self.is_masked:
            self._loop(rows, columns, spot, self.buffer, self._masks(spot))
            return
        is_full = self._is_full(spot)
        if not self.is_inline:
            with b.when(is_full):
                self._loop(rows, columns, spot, self.buffer, None)
        with b.when(b.not_(is_full)):
            self._one_by_one(rows, columns, spot, self.buffer)

    def _masks(self, spot: Spot) -> list[Value]:
        """Return the masks of a tile's vectors of channels."""
        b = self.b
        return [b.fixed_mask(b.sub(spot.left, b.index(self.lanes * j)), self.lanes) for j in range(self.nv)]

    def _is_full(self, spot: Spot) -> Value:
        return self.b.icmp("sge", spot.left, self.b.index(self.width))

    def _rows(
        self, values: Sequence[Value], rows: int, columns: int, spot: Spot, masks: Sequence[Value] | None
    ) -> None:
        b = self.b
        down, along = self._steps(spot)
        held = self.finish.held(b, down, self.nv, self.lanes, masks)
        for y in range(rows):
            places = [Place(p.pointer, a.stride) for p, a in zip(down, along)]
            for x in range(columns):
                at = (y * columns + x) * self.nv
                self.finish.row(b, places, values[at : at + self.nv], masks, held)
                if x + 1 < columns:
                    places = self.finish.next_row(b, places)
            if y + 1 < rows:
                down = self.finish.next_row(b, down)

    def _put(self, values: Sequence[Value], rows: int, columns: int, buffer: Value) -> None:
        for y in range(rows):
            for i in range(columns * self.nv):
                at = y * self.columns * self.width + i * self.lanes
                self.b.store(values[y * columns * self.nv + i], self.b.offset(buffer, at, self.type))

    def _steps(self, spot: Spot) -> tuple[list[Place], list[Place]]:
        """Return the places of a tile's first element, with the strides along y and along x."""
        b = self.b
        first = self.finish.moved(b, self.places, spot.row, spot.channel)
        down, along = ([Place(p.pointer, b.mul(p.stride, step)) for p in first] for step in (spot.row_y, spot.row_x))
        return down, along

    def _loop(self, rows: Value, columns: Value, spot: Spot, buffer: Value, masks: Sequence[Value] | None) -> None:
        """Store a tile from the buffer, pixel by pixel."""
        b, type = self.b, self.type
        down, along = self._steps(spot)
        held = self.finish.held(b, down, self.nv, self.lanes, masks)
        with b.loop(0, rows, carried=[buffer, *(p.pointer for p in down)]) as y:
            with b.loop(0, columns, carried=y.values) as x:
                at, *pointers = x.values
                places = [p._replace(pointer=q) for p, q in zip(along, pointers)]
                loaded = [b.load(type.vector(self.lanes), b.offset(at, self.lanes * j, type)) for j in range(self.nv)]
                self.finish.row(b, places, loaded, masks, held)
                following = self.finish.next_row(b, places)
                x.carry(b.offset(at, self.width, type), *(p.pointer for p in following))
            line, *pointers = y.values
            places = self.finish.next_row(b, [p._replace(pointer=q) for p, q in zip(down, pointers)])
            y.carry(b.offset(line, self.columns * self.width, type), *(p.pointer for p in places))

    def _one_by_one(self, rows: Value, columns: Value, spot: Spot, buffer: Value) -> None:
        """Store a tile of fewer channels than its vectors hold, where masks are slow: the last ones one by one."""
        b, lanes = self.b, self.lanes
        used = b.imin(spot.left, b.index(self.width))
        done = b.sub(used, b.urem(used, b.index(lanes)))
        with b.loop(0, rows) as y, b.loop(0, columns) as x:
            row = b.add(b.add(spot.row, b.mul(y.index, spot.row_y)), b.mul(x.index, spot.row_x))
            line = b.mul(b.add(b.mul(y.index, b.index(self.columns)), x.index), b.index(self.width))
            sums = b.offset(buffer, line, self.type)

            def store(at: Value, lanes: int, row: Value = row, sums: Value = sums) -> None:
                value = b.load(self.type.vector(lanes), b.offset(sums, at, self.type))
                places = self.finish.moved(b, self.places, row, b.add(spot.channel, at))
                self.finish.row(b, places, [value], None)

            with b.loop(0, done, lanes) as channel:
                store(channel.index, lanes)
            with b.loop(done, used) as channel:
                store(channel.index, 1)
