"""The kernel of a matrix product: tiles of the result in registers, every stride a number at run time.

A tile is a sum of outer products: at each step along the inner axis its rows of A are broadcast
one by one against its vectors of B. A is thus read by single elements, with any strides, and
transposes of A cost nothing; B's columns lie side by side, in memory or in packed panels
(:mod:`wengert.execute.native.kernels.gemm.pack`). What follows the product is computed on the tile.

Latencies are hidden by asking ahead: while two tiles of a panel are computed, the next panel is
brought near, and while a tile is stored, what the next tile's epilogue reads and writes. It is the
second-level cache that they are brought into: the first is small, and its sets are few where rows
are a power of two apart.

A of half precision is widened by units: the rows of each are copied to panels in scratch memory, of float32. B's
numbers are widened when they are loaded.

Of bfloat16 a step takes pairs of numbers along the inner axis where the processor has an instruction for the sum of
their products (:mod:`.arithmetic`). What could be denormal on the way is summed carefully: the same bits, by other
instructions.

A long inner axis is taken slab by slab: of a unit's tiles all go through a slab of A and B, which
the second-level cache holds, before the next; the sums so far wait in scratch memory.

The record: see `Layout`. Units are blocks of tiles: a range of rows' tiles by a range of panels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from ...codegen.builder import Builder, Loop, Value
from ...codegen.types import I64, Type
from ...scalar.pairs import may_be_denormal
from .arithmetic import Arithmetic
from .finish import Finish, Place
from .magnitudes import smallest_of_words
from .pack import copy_panel, panel_of
from .tiles import WIDE, Tile, heights, is_masked


@dataclass(frozen=True)
class Layout:
    """The layout of the record, after A, B and B's last panel (two words each).

    `inner`, in steps, and `columns` are sizes. Row r of a tile that starts at row m of A is at
    `m * a_place + r * a_row`, and one step along the inner axis is `a_inner[height]` on. B's panels
    are `b_panel` apart, its inner axis `b_inner`; a last panel that is not full is read from a place
    of its own, with `tail_inner`. A block is `block_tiles` tiles by `block_panels` panels, of which
    there are `row_blocks` times `column_blocks`; `row_turn` and `column_turn` say after how many units the
    next block of rows and of columns begins, one of them 1. Sums begin at `start`, the bits of 0 or -0.
    A slab is `slab` steps of the inner axis, and there are `slabs` (where the kernel takes slabs).
    `counts` says how many tiles of each height.
    For each axis of the batch there is a size and a stride of A, of B and of the last panel.
    After the epilogue's words stand, of pairs, the words about their smallest numbers, of A and of B, and how many; of
    A that is widened the stride of its inner axis: `a_place` is that of its rows, and the others are those of panels.
    """

    kinds: int
    batch_axes: int

    a, b, tail = 0, 2, 4
    inner, columns, panels = 6, 7, 8
    a_place, a_row, b_panel, b_inner, tail_inner = 9, 10, 11, 12, 13
    block_tiles, block_panels, row_blocks, column_blocks, row_turn, column_turn = 14, 15, 16, 17, 18, 19
    start, slab, slabs = 20, 21, 22
    counts = 23

    @property
    def a_inner(self) -> int:
        return self.counts + self.kinds

    @property
    def batch(self) -> int:
        return self.a_inner + self.kinds

    @property
    def finish(self) -> int:
        return self.batch + 4 * self.batch_axes


class Panel(NamedTuple):
    """A panel of B: its first vector, and the stride of the inner axis."""

    pointer: Value
    step: Value


class Slab(NamedTuple):
    """A slab of the inner axis: its first step and how many, whether it is the last; where the sums of tiles wait."""

    first: Value
    size: Value
    is_last: Value
    sums: Value


class Widened(NamedTuple):
    """A of half precision, as it lies in memory: its type, and which axis is in order (see `order_of`)."""

    type: Type
    how: str


class Product:
    """The writer of the kernel of a product of one arithmetic, number of batch axes and epilogue, in slabs or not.

    With `ends_early`, B's last panel has no memory for columns that are not there: vectors are loaded under masks.
    """

    def __init__(
        self,
        b: Builder,
        arithmetic: Arithmetic,
        finish: Finish,
        *,
        in_slabs: bool = False,
        ends_early: bool = True,
        widened: Widened | None = None,
    ) -> None:
        self.b = b
        self.widened = widened
        self.arithmetic = arithmetic
        type = self.type = arithmetic.type
        self.in_slabs = in_slabs
        self.ends_early = ends_early
        self.finish = finish
        self.lanes = b.target.lanes(type)
        self.heights = heights(b.target)
        self.layout = Layout(len(self.heights), finish.batch_axes)
        self.masked = is_masked(b.target)
        self.inline = self.masked and finish.is_short(b.target, type)
        size = self.heights[0] * WIDE * self.lanes
        self.tile = None if self.inline else b.local(type, size)
        # Set when the kernel begins: whether pairs are summed carefully, and the memory for that.
        self.is_careful: Value | None = None
        self.careful_sums = b.local(type, size) if arithmetic.how == "pairs" else b.ptrs

    def write(self) -> None:
        """Write the whole kernel: for each unit its slabs, for each of them its panels, for each panel its tiles."""
        b, at = self.b, self.layout
        self.is_careful = self._is_careful() if self.arithmetic.how == "pairs" else None
        with b.loop(b.lo, b.hi) as unit:
            row_blocks, column_blocks = b.word(at.row_blocks), b.word(at.column_blocks)
            row_block = b.urem(b.udiv(unit.index, b.word(at.row_turn)), row_blocks)
            column_block = b.urem(b.udiv(unit.index, b.word(at.column_turn)), column_blocks)
            rest = b.udiv(unit.index, b.mul(row_blocks, column_blocks))
            batch: list[Value] = []
            for axis in reversed(range(at.batch_axes)):
                size = b.word(at.batch + 4 * axis)
                batch.insert(0, b.urem(rest, size))
                rest = b.udiv(rest, size)
            types = (self.widened.type if self.widened else self.arithmetic.a, self.arithmetic.b, self.arithmetic.b)
            a, whole, tail = (
                self._start(word, batch, 1 + i, type)
                for i, (word, type) in enumerate(zip((at.a, at.b, at.tail), types))
            )
            places = self.finish.places(b, at.finish, batch)
            count = b.word(at.block_panels)
            first = b.mul(column_block, count)
            last = b.imin(b.add(first, count), b.word(at.panels))
            # The unit after this one begins with the next block's first panel, or with this one's.
            by_columns = b.icmp("eq", b.word(at.column_turn), b.index(1))
            next_first = b.select(by_columns, b.urem(last, b.word(at.panels)), first)
            with self._slabs(b.sub(last, first)) as slab, self._panels(row_block, a, slab, first, last) as panel:
                column = b.mul(panel.index, b.index(WIDE * self.lanes))
                left = b.sub(b.word(at.columns), column)
                pointer = b.offset(whole, b.mul(panel.index, b.word(at.b_panel)), self.arithmetic.b)
                step = b.word(at.b_inner)
                after = b.add(panel.index, b.index(1))
                after = b.select(b.icmp("slt", after, last), after, next_first)
                following = Panel(b.offset(whole, b.mul(after, b.word(at.b_panel)), self.arithmetic.b), step)
                if not self.masked:
                    partial = b.icmp("slt", left, b.index(WIDE * self.lanes))
                    pointer = b.select(partial, tail, pointer)
                    step = b.select(partial, b.word(at.tail_inner), step)
                here = Panel(pointer, step)
                if slab is not None:
                    here, following = (self._advanced(p, slab) for p in (here, following))
                    before = b.mul(b.sub(panel.index, first), b.mul(b.word(at.block_tiles), self._tile_size))
                    slab = slab._replace(sums=b.offset(slab.sums, before, self.type))
                wide = b.icmp("sgt", left, b.index(self.lanes))
                with b.when(wide):
                    self._tiles(WIDE, row_block, a, here, following, column, left, places, slab)
                with b.when(b.not_(wide)):
                    self._tiles(1, row_block, a, here, following, column, left, places, slab)

    @contextmanager
    def _panels(self, row_block: Value, a: Value, slab: Slab | None, first: Value, last: Value) -> Iterator[Loop]:
        """Write the loop over a unit's panels of B, before which A's rows are widened where that is to be done."""
        if self.widened:
            self._widen(self.widened, row_block, a, slab)
        with self.b.loop(first, last) as panel:
            yield panel

    def _widen(self, widened: Widened, row_block: Value, a: Value, slab: Slab | None) -> None:
        """Copy the rows of a unit's tiles, of a slab or of the whole inner axis, to panels in scratch memory."""
        b, at = self.b, self.layout
        one = b.index(1)
        row_stride = one if widened.how == "rows" else b.word(at.a_place)
        inner_stride = one if widened.how == "inner" else b.word(at.finish + self.finish.size)
        begin, size = (slab.first, slab.size) if slab is not None else (b.index(0), b.word(at.inner))
        count = b.word(at.block_tiles)
        low, tiles = b.mul(row_block, count), b.index(0)
        for kind in range(at.kinds):
            tiles = b.add(tiles, b.word(at.counts + kind))
        with b.loop(low, b.imin(b.add(low, count), tiles)) as t:
            height, start = panel_of(b, self.heights, t.index, at.counts)
            x = b.offset(a, b.add(b.mul(start, row_stride), b.mul(begin, inner_stride)), widened.type)
            kinds = (height, height, b.icmp("slt", t.index, b.word(at.counts)))
            strides, steps = (row_stride, inner_stride), (b.index(0), size)
            to = self._tile_of_a(b.sub(t.index, low))
            copy_panel(b, widened.type, self.type, widened.how, x, to, strides, steps, self.heights, kinds)

    def _tile_of_a(self, number: Value) -> Value:
        """Return where a tile of A is in scratch memory."""
        b = self.b
        size = b.mul(b.index(self.heights[0]), b.word(self.layout.slab))
        return b.offset(b.scratch(), b.mul(number, size), self.type)

    @property
    def _tile_size(self) -> Value:
        """The elements of a whole tile."""
        return self.b.index(self.heights[0] * WIDE * self.lanes)

    @contextmanager
    def _slabs(self, panels: Value) -> Iterator[Slab | None]:
        """Write the loop over the slabs of a unit of so many panels, whose sums begin anew; no loop without slabs."""
        b, at = self.b, self.layout
        if not self.in_slabs:
            yield None
            return
        sums = self._tile_of_a(b.word(at.block_tiles)) if self.widened else b.scratch()
        tiles = b.mul(b.word(at.block_tiles), panels)
        with b.loop(0, b.mul(tiles, self._tile_size), self.lanes) as element:
            b.store(self._zero(), b.offset(sums, element.index, self.type))
        slabs = b.word(at.slabs)
        with b.loop(0, slabs) as loop:
            first = b.mul(loop.index, b.word(at.slab))
            size = b.imin(b.word(at.slab), b.sub(b.word(at.inner), first))
            yield Slab(first, size, b.icmp("eq", b.add(loop.index, b.index(1)), slabs), sums)

    def _zero(self) -> Value:
        """Return a vector of what sums begin at."""
        b = self.b
        return b.splat(b.load(self.type, b.offset(b.rec, self.layout.start, I64)), self.lanes)

    def _advanced(self, panel: Panel, slab: Slab) -> Panel:
        """Return a panel from the first step of a slab on."""
        by = self.b.mul(slab.first, panel.step)
        return panel._replace(pointer=self.b.offset(panel.pointer, by, self.arithmetic.b))

    def _is_careful(self) -> Value:
        """Return whether sums of products of A's and B's smallest numbers may be denormal."""
        b, at = self.b, self.layout.finish + self.finish.size
        return may_be_denormal(b, *(smallest_of_words(b, b.buffer(at + i), b.word(at + i + 2)) for i in (0, 3)))

    def _start(self, word: int, batch: Sequence[Value], which: int, type: Type) -> Value:
        """Return an operand's first element in this batch."""
        b = self.b
        pointer = b.buffer(word)
        for axis, index in enumerate(batch):
            stride = b.word(self.layout.batch + 4 * axis + which)
            pointer = b.offset(pointer, b.mul(index, stride), type)
        return pointer

    def _tiles(
        self,
        vectors: int,
        row_block: Value,
        a: Value,
        panel: Panel,
        following: Panel,
        column: Value,
        left: Value,
        places: Sequence[Place],
        slab: Slab | None,
    ) -> None:
        """Write the tiles of one panel in one block of rows, height by height."""
        b, at = self.b, self.layout
        masks = None
        if self.masked:
            masks = [b.fixed_mask(b.sub(left, b.index(c * self.lanes)), self.lanes) for c in range(vectors)]
        count = b.word(at.block_tiles)
        low = b.mul(row_block, count)
        high = b.add(low, count)
        before, row, width = b.index(0), b.index(0), b.index(vectors * self.lanes)
        for kind, height in enumerate(self.heights):
            count = b.word(at.counts + kind)
            after = b.add(before, count)
            with b.loop(b.imax(before, low), b.imin(after, high)) as t:
                start = b.add(row, b.mul(b.sub(t.index, before), b.index(height)))
                if self.widened:
                    rows = self._tile_of_a(b.sub(t.index, low))
                else:
                    rows = b.offset(a, b.mul(start, b.word(at.a_place)), self.arithmetic.a)
                tile = Tile(height, vectors)
                here = self.finish.moved(b, places, start, column)
                ahead = None
                if tile.is_largest(b.target):
                    ahead = self._part(following, b.sub(t.index, low))
                    # The tile below, or the first of the next panel.
                    last = b.icmp("eq", b.add(t.index, b.index(1)), high)
                    up = b.mul(b.sub(low, t.index), b.index(height))
                    rows_on, columns_on = b.select(last, up, b.index(height)), b.select(last, width, b.index(0))
                    here = self.finish.heralded(b, here, rows_on, columns_on)
                step, size = b.word(at.a_inner + kind), tile.rows * tile.vectors
                if slab is None:
                    sums = self._sums(tile, b.word(at.inner), [self._zero()] * size, rows, step, panel, ahead, masks)
                    self._store(vectors, sums, here, masks, left)
                else:
                    waiting = b.offset(slab.sums, b.mul(b.sub(t.index, low), self._tile_size), self.type)
                    places_of_sums = [b.offset(waiting, i * self.lanes, self.type) for i in range(size)]
                    if not self.widened:
                        rows = b.offset(rows, b.mul(slab.first, step), self.arithmetic.a)
                    # A slab's sums begin anew: none runs through the whole inner axis.
                    added = self._sums(tile, slab.size, [self._zero()] * size, rows, step, panel, ahead, masks)
                    sums = []
                    for p, x in zip(places_of_sums, added, strict=True):
                        old = b.load(self.type.vector(self.lanes), p)
                        sums.append(b.fadd(old, x) if self.type.is_float else b.add(old, x))
                        b.store(sums[-1], p)
                    with b.when(slab.is_last):
                        self._store(vectors, sums, here, masks, left)
            before, row = after, b.add(row, b.mul(count, b.index(height)))

    def _part(self, panel: Panel, vector: Value) -> Panel:
        """Return one vector of a panel, by lines to prefetch: its last elements; none beyond the last vector."""
        b = self.b
        there = b.icmp("slt", vector, b.index(WIDE))
        column = b.add(b.mul(vector, b.index(self.lanes)), b.index(self.lanes - 1))
        column = b.mul(column, b.index(self.arithmetic.per))
        pointer = b.offset(panel.pointer, b.select(there, column, b.index(0)), self.arithmetic.b)
        return Panel(pointer, b.select(there, panel.step, b.index(0)))

    def _sums(
        self,
        tile: Tile,
        inner: Value,
        starts: Sequence[Value],
        rows: Value,
        a_step: Value,
        panel: Panel,
        ahead: Panel | None,
        masks: Sequence[Value] | None,
    ) -> list[Value]:
        """Return the tile's elements, row by row, summed along the inner axis; meanwhile `ahead` is prefetched."""
        if self.is_careful is None:
            return self._added(self.arithmetic, tile, tile.unroll, inner, starts, rows, a_step, panel, ahead, masks)
        return list(
            self.b.either(
                self.is_careful,
                lambda: self._carefully(tile, inner, starts, rows, a_step, panel, masks),
                lambda: self._added(
                    self.arithmetic, tile, tile.unroll, inner, starts, rows, a_step, panel, ahead, masks
                ),
            )
        )

    def _carefully(
        self,
        tile: Tile,
        inner: Value,
        starts: Sequence[Value],
        rows: Value,
        a_step: Value,
        panel: Panel,
        masks: Sequence[Value] | None,
    ) -> list[Value]:
        """Return what `_added` does, with pairs widened: a few rows at a time, as it is seldom that this runs."""
        b = self.b
        widened = self.arithmetic._replace(how="widened")
        few = tile._replace(rows=2 - tile.rows % 2)
        size = few.rows * tile.vectors
        at = lambda i: b.offset(self.careful_sums, i * self.lanes, self.type)
        for i, x in enumerate(starts):
            b.store(x, at(i))
        with b.loop(0, tile.rows, few.rows) as r:
            place = b.offset(self.careful_sums, b.mul(r.index, b.index(tile.vectors * self.lanes)), self.type)
            places = [b.offset(place, i * self.lanes, self.type) for i in range(size)]
            here = b.offset(rows, b.mul(r.index, b.word(self.layout.a_row)), self.arithmetic.a)
            begun = [b.load(self.type.vector(self.lanes), p) for p in places]
            sums = self._added(widened, few, tile.unroll, inner, begun, here, a_step, panel, None, masks)
            for p, x in zip(places, sums, strict=True):
                b.store(x, p)
        return [b.load(self.type.vector(self.lanes), at(i)) for i in range(len(starts))]

    def _added(
        self,
        arithmetic: Arithmetic,
        tile: Tile,
        unroll: int,
        inner: Value,
        starts: Sequence[Value],
        rows: Value,
        a_step: Value,
        panel: Panel,
        ahead: Panel | None,
        masks: Sequence[Value] | None,
    ) -> list[Value]:
        """Return sums plus the products of steps along the inner axis, `unroll` of them at once."""
        b = self.b
        a_row = b.word(self.layout.a_row)
        # A pointer for every third row: the two rows after it are within reach of an address.
        groups = [b.offset(rows, b.mul(b.index(g), a_row), arithmetic.a) for g in range(0, tile.rows, 3)]
        size = tile.rows * tile.vectors
        sums = list(starts)

        def step(sums: Sequence[Value], groups: Sequence[Value], b_at: Value) -> list[Value]:
            loaded = [
                self._columns(arithmetic, b_at, c, masks if self.ends_early else None) for c in range(tile.vectors)
            ]
            made = []
            for r in range(tile.rows):
                if r % 3 == 0:
                    # Kept from the code generator, which would make all addresses one chain of additions.
                    group = b.opaque(groups[r // 3])
                one = group
                if r % 3:
                    one = b.offset(one, a_row if r % 3 == 1 else b.add(a_row, a_row), arithmetic.a)
                x = arithmetic.row(b, one, self.lanes)
                made += [arithmetic.add(b, x, y, s) for y, s in zip(loaded, sums[r * tile.vectors :])]
            return made

        def on(pointers: Sequence[Value]) -> list[Value]:
            *groups, b_at = pointers
            return [*(b.offset(g, a_step, arithmetic.a) for g in groups), b.offset(b_at, panel.step, arithmetic.b)]

        pointers = [*groups, panel.pointer]
        done: Value = b.index(0)
        if unroll > 1:
            # Several steps at once, each into sums of its own; -0 is what adding changes nothing.
            nothing = b.const(sums[0].type, -0.0 if self.type.is_float else 0)
            whole = b.sub(inner, b.urem(inner, b.index(unroll)))
            with b.loop(0, whole, unroll, [*sums, *[nothing] * (unroll - 1) * size, *pointers]) as loop:
                split = size * unroll
                now, new = list(loop.values[split:]), []
                for u in range(unroll):
                    new += step(loop.values[u * size : (u + 1) * size], now[:-1], now[-1])
                    now = on(now)
                loop.carry(*new, *now)
            parts = [loop.results[u * size : (u + 1) * size] for u in range(unroll)]
            while len(parts) > 1:
                half = len(parts) // 2
                parts = [
                    tuple(arithmetic.plus(b, x, y) for x, y in zip(parts[i], parts[i + half])) for i in range(half)
                ]
            sums, pointers, done = list(parts[0]), list(loop.results[split:]), whole
        asked = [ahead.pointer] if ahead is not None else []
        with b.loop(done, inner, 1, [*sums, *pointers, *asked]) as loop:
            now = list(loop.values[size : size + len(pointers)])
            if ahead is not None:
                b.prefetch(loop.values[-1], level=2)
                asked = [b.offset(loop.values[-1], ahead.step, arithmetic.b)]
            loop.carry(*step(loop.values[:size], now[:-1], now[-1]), *on(now), *asked)
        return list(loop.results[:size])

    def _columns(
        self, arithmetic: Arithmetic, pointer: Value, vector: int, masks: Sequence[Value] | None
    ) -> tuple[Value, ...]:
        b = self.b
        pointer = b.offset(pointer, vector * self.lanes * arithmetic.per, arithmetic.b) if vector else pointer
        return arithmetic.columns(b, pointer, self.lanes, masks[vector] if masks else None)

    def _store(
        self,
        vectors: int,
        sums: Sequence[Value],
        places: list[Place],
        masks: Sequence[Value] | None,
        left: Value,
    ) -> None:
        """Write the epilogue of a tile."""
        b, finish = self.b, self.finish
        rows = len(sums) // vectors
        if self.tile is None:
            held = finish.held(b, places, vectors, self.lanes, masks)
            for r in range(rows):
                finish.row(b, places, sums[r * vectors : (r + 1) * vectors], masks, held)
                places = finish.next_row(b, places)
            return
        for i, x in enumerate(sums):
            b.store(x, b.offset(self.tile, i * self.lanes, self.type))
        if masks is not None:
            self._store_rows(rows, vectors, places, masks)
            return
        full = b.icmp("sge", left, b.index(vectors * self.lanes))
        with b.when(full):
            self._store_rows(rows, vectors, places, None)
        with b.when(b.not_(full)):
            masks = [b.tail_mask(b.sub(left, b.index(c * self.lanes)), self.lanes) for c in range(vectors)]
            self._store_rows(rows, vectors, places, masks)

    def _store_rows(self, rows: int, vectors: int, places: list[Place], masks: Sequence[Value] | None) -> None:
        b = self.b
        assert self.tile is not None
        pointers = [p.pointer for p in places]
        held = self.finish.held(b, places, vectors, self.lanes, masks)
        with b.loop(0, rows, 1, [self.tile, *pointers]) as loop:
            at = loop.values[0]
            here = [place._replace(pointer=p) for p, place in zip(loop.values[1:], places)]
            sums = [
                b.load(self.type.vector(self.lanes), b.offset(at, c * self.lanes, self.type)) for c in range(vectors)
            ]
            self.finish.row(b, here, sums, masks, held)
            following = self.finish.next_row(b, here)
            loop.carry(b.offset(at, vectors * self.lanes, self.type), *(p.pointer for p in following))
