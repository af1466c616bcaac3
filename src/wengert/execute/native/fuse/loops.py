"""Loop kernels: one loop nest that computes fused elementwise operations and reductions.

A nest has *rows*, which threads share out, and *inner* dimensions, which a row loops over. One
dimension is done in vectors: the last inner one (`vector == "inner"`), or, where rows are short,
the last dimension of the rows (`vector == "rows"`), so that a vector is that many rows side by side.

Instructions compute values at one of three levels: UNIFORM (the same everywhere), ROW and INNER.
Reductions of INNER values end a *pass* along the row: what depends on their results is computed in a
later pass, where earlier values are read back, or computed again where that is cheaper. Reductions
may also run over the rows ("columns": kept along the row; "all": over everything); those give one
partial result for every unit, which a second step adds up, so that results do not depend on how
units are shared out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..codegen.builder import Builder, Value
from ..codegen.types import I8, I64, Type, storage_type
from ..scalar import emitters
from ..scalar.combine import Combine, combining, identity
from .loop_nest import INNER, ROW, UNIFORM, Instr, LoopNest, Passes, varying


class _Row:
    """A row in the making: its position, its address in every array, and the values computed for it."""

    __slots__ = ("at", "known", "number", "pointers")

    def __init__(self, number: int, at: list[Value], pointers: list[Value]) -> None:
        self.number, self.at, self.pointers = number, at, pointers
        self.known: dict[int, Value] = {}


class LoopKernel:
    """The writer of a loop nest's code. The record's words stand in the order in which they are read here."""

    def __init__(self, b: Builder, nest: LoopNest, lanes: int) -> None:
        self.b, self.nest, self.lanes = b, nest, lanes
        self.passes = Passes(nest)
        self.varies = varying(nest)
        self.in_rows = nest.vector == "rows"
        self._at = 0
        self.per, self.items, self.splits, self.length, self.kept = (self._word() for _ in range(5))
        self.row_sizes = [self._word() for _ in range(nest.rows)]
        self.inner_sizes = [self._word() for _ in range(nest.inner)]
        self.blocks = {d: self._word() for d in nest.blocked}
        self.bases: list[Value] = []
        self.strides: list[tuple[list[Value | None], list[Value | None]]] = []
        self.bounds: list[list[tuple[Value, Value]]] = []
        for array in nest.arrays:
            self.bases.append(self._buffer())
            self.strides.append(tuple([self._word() if f else None for f in flags] for flags in array[1:3]))  # type: ignore[arg-type]
            self.bounds.append([(self._word(), self._word()) for _ in array.windows])
        for array, (along_rows, along_inner) in zip(nest.arrays, self.strides):
            if array.unit:
                (along_rows if self.in_rows else along_inner)[-1] = b.index(1)
        self.partial_bases = [self._buffer() for _ in nest.partials]
        self.columns = b.index(1)
        for n in self.inner_sizes:
            self.columns = b.mul(self.columns, n)
        self.scratch = b.scratch() if self.passes.saved else None
        self.known: dict[int, Value] = {}
        self.totals: dict[int, Value] = {}

    def _word(self) -> Value:
        self._at += 1
        return self.b.word(self._at - 1)

    def _buffer(self) -> Value:
        self._at += 2
        return self.b.buffer(self._at - 2)

    def type(self, v: int, lanes: int) -> Type:
        return emitters.compute_type(self.nest.instrs[v].dtype).vector(lanes)

    def _combine(self, v: int) -> Combine:
        """Return how reduction `v` combines two values."""
        return combining(self.nest.instrs[v].how, self.nest.instrs[v].dtype)

    def _identity(self, v: int, type: Type) -> Value:
        """Return the value from which reduction `v` starts."""
        return identity(self.b, self.nest.instrs[v].how, self.nest.instrs[v].dtype, type)

    # -- units and rows

    def write(self) -> None:
        b, nest = self.b, self.nest
        self._levels(UNIFORM, 0, self.bases, None)
        with b.when(b.icmp("eq", b.lo, b.index(0))):
            self._row_stores(UNIFORM, self.bases, None)
        if not nest.partials:
            last = b.imin(b.mul(b.hi, self.per), self.items)
            with b.loop(b.mul(b.lo, self.per), last, nest.together) as loop:
                self._item(loop.index, b.index(0))
            return
        for v in nest.partials:
            if nest.instrs[v].over == "all":
                self.totals[v] = b.local(self.type(v, self.lanes))
        with b.loop(b.lo, b.hi) as unit:
            self._start(unit.index)
            first = b.mul(unit.index, self.per)
            with b.loop(first, b.imin(b.add(first, self.per), self.items), nest.together) as loop:
                self._item(loop.index, unit.index)
            for k, v in enumerate(nest.partials):
                if nest.instrs[v].over == "all":
                    total = b.load(self.type(v, self.lanes), self.totals[v], 64)
                    scalar = b.reduce_lanes(total, partial(self._combine(v), b))
                    self._store_scalar(v, scalar, self.partial_bases[k], unit.index)

    def _start(self, unit: Value) -> None:
        """Write a unit's partial results before its first row."""
        b = self.b
        for k, v in enumerate(self.nest.partials):
            i = self.nest.instrs[v]
            if i.over == "all":
                b.store(self._identity(v, self.type(v, self.lanes)), self.totals[v], 64)
                continue
            with b.loop(0, self.columns) as loop:
                at = b.add(b.mul(unit, self.columns), loop.index)
                self._store_scalar(v, self._identity(v, self.type(v, 0)), self.partial_bases[k], at)

    def _store_scalar(self, v: int, x: Value, base: Value, at: Value) -> None:
        stored = _bool_to_memory(self.b, x)
        self.b.store(stored, self.b.offset(base, at, stored.type))

    def _item(self, item: Value, unit: Value) -> None:
        """Write one row, or a piece of one, or several rows together."""
        b, nest = self.b, self.nest
        row = b.udiv(item, self.splits) if nest.split else item
        block = b.urem(item, self.splits) if nest.split else b.index(0)
        rows = [self._row_at(b.add(row, b.index(n)) if n else row, n) for n in range(nest.together)]
        size = self.row_sizes[-1] if self.in_rows else self.inner_sizes[-1] if nest.inner else b.index(1)
        start = b.mul(block, self.length) if nest.split else b.index(0)
        stop = b.imin(b.add(start, self.length), size) if nest.split else size
        self.unit = unit
        if not self.in_rows:
            self._rows(rows, start, stop, None)
            return
        (whole,) = rows
        with b.loop(start, stop, self.lanes) as loop:
            mask = b.tail_mask(b.sub(stop, loop.index), self.lanes)
            along = [self._moved(k, p, self.strides[k][0][-1:], [loop.index]) for k, p in enumerate(whole.pointers)]
            self._rows([_Row(0, [*whole.at, loop.index], along)], start, stop, mask)

    def _row_at(self, row: Value, number: int) -> _Row:
        """Return the row of a number, among all, and among those that are computed together."""
        b = self.b
        count = self.nest.rows - self.in_rows
        at: list[Value] = [b.index(0)] * count
        for d in reversed(range(count)):
            if d == 0:
                at[d] = row
            else:
                at[d] = b.urem(row, self.row_sizes[d])
                row = b.udiv(row, self.row_sizes[d])
        pointers = [self._moved(k, self.bases[k], self.strides[k][0], at) for k in range(len(self.nest.arrays))]
        return _Row(number, at, pointers)

    def _moved(self, k: int, pointer: Value, strides: Sequence[Value | None], at: Sequence[Value]) -> Value:
        """Return the address of array `k` moved by indices along some of its dimensions."""
        b = self.b
        for stride, index in zip(strides, at, strict=False):
            if stride is not None:
                at_element = index if stride.text == "1" else b.mul(stride, index)
                pointer = b.offset(pointer, at_element, self._memory(k))
        return pointer

    def _memory(self, k: int) -> Type:
        found = storage_type(self.nest.arrays[k].dtype)
        assert found is not None
        return found

    # -- rows

    def _rows(self, rows: list[_Row], start: Value, stop: Value, mask: Value | None) -> None:
        outer = {v: x for v, x in self.known.items() if self.nest.instrs[v].level == UNIFORM}
        self.rows = rows
        for row in rows:
            row.known = dict(outer)
            self._turn_to(row)
            self._levels(ROW, 0, row.pointers, mask)
        for p in range(self.passes.count):
            if self.passes.roots(p):
                self._pass(p, start, stop, mask)
            for row in rows:
                self._turn_to(row)
                self._levels(ROW, p + 1, row.pointers, mask)
        for row in rows:
            self._turn_to(row)
            self._row_stores(ROW, row.pointers, mask)
        self.known = outer

    def _turn_to(self, row: _Row) -> None:
        self.row, self.at, self.known = row, row.at, row.known

    def _levels(self, level: int, stage: int, pointers: list[Value], mask: Value | None) -> None:
        """Compute the values of a level that become known with pass `stage`."""
        lanes = self.lanes if self.in_rows and level == ROW else 0
        for v, i in enumerate(self.nest.instrs):
            if i.level != level or self.passes.when[v] != stage or i.kind == "reduce":
                continue
            self.known[v] = self._made(v, lanes, lambda a: self._spread(self.known[a], lanes), pointers, None, mask)

    def _row_stores(self, level: int, pointers: list[Value], mask: Value | None) -> None:
        for v, k in self.nest.stores:
            if self.nest.instrs[v].level != level:
                continue
            if level == ROW and self.in_rows:
                self._store(k, v, self._spread(self.known[v], self.lanes), pointers[k], mask)
            else:
                self._store(k, v, self.known[v], pointers[k], None)

    def _spread(self, x: Value, lanes: int) -> Value:
        return self.b.splat(x, lanes) if lanes else x

    # -- one pass along the rows

    def _pass(self, p: int, start: Value, stop: Value, mask: Value | None) -> None:
        b, instrs = self.b, self.nest.instrs
        # The sums that are carried along: of every row, but for those over everything.
        self._sums = [
            (v, row)
            for v, i in enumerate(instrs)
            if i.kind == "reduce" and i.over != "columns" and self.passes.when[i.args[0]] == p
            for row in (self.rows if i.over == "row" else self.rows[:1])
        ]
        begin = []
        for v, _ in self._sums:
            type = self.type(v, self.lanes)
            goes_on = instrs[v].over == "all" and not self.nest.anew
            begin.append(b.load(type, self.totals[v], 64) if goes_on else self._identity(v, type))
        ends = self._loops(0, p, [row.pointers for row in self.rows], b.index(0), begin, start, stop, mask, [])
        for (v, row), end in zip(self._sums, ends, strict=True):
            if instrs[v].over == "all":
                if self.nest.anew:
                    end = self._combine(v)(b, b.load(end.type, self.totals[v], 64), end)
                b.store(end, self.totals[v], 64)
                continue
            total = end if self.in_rows else b.reduce_lanes(end, partial(self._combine(v), b))
            row.known[v] = emitters.rounded(b, total, instrs[v].dtype)

    def _loops(
        self,
        d: int,
        p: int,
        pointers: list[list[Value]],
        flat: Value,
        carried: Sequence[Value],
        start: Value,
        stop: Value,
        mask: Value | None,
        inner: list[Value],
    ) -> Sequence[Value]:
        """Write the inner dimensions from `d` on; `flat` counts the elements of those before. `pointers` are by row."""
        b = self.b
        if not self.in_rows and d >= self.nest.inner - 1:
            return self._vectors(p, pointers, flat, carried, start, stop, inner)
        if d == self.nest.inner:
            return self._element(p, pointers, flat, carried, mask, inner)

        def step(index: Value, values: Sequence[Value]) -> Sequence[Value]:
            moved = [self._along_inner(of_row, d, index) for of_row in pointers]
            at = b.add(b.mul(flat, self.inner_sizes[d]), index)
            return self._loops(d + 1, p, moved, at, values, start, stop, mask, [*inner, index])

        return self._summing(d, b.index(0), self.inner_sizes[d], 1, carried, step)

    def _summing(
        self,
        d: int,
        start: Value,
        stop: Value,
        step: int,
        carried: Sequence[Value],
        body: Callable[[Value, Sequence[Value]], Sequence[Value]],
    ) -> Sequence[Value]:
        """Write the loop along inner dimension `d` with the sums that it carries, block by block if they are long."""
        b = self.b
        if d not in self.blocks or not carried:
            with b.loop(start, stop, step, carried) as loop:
                loop.carry(*body(loop.index, loop.values))
            return loop.results
        block = b.mul(self.blocks[d], b.index(step))
        summed = [v for v, _ in self._sums] * (len(carried) // len(self._sums))
        with b.loop(start, stop, block, carried) as outer:
            begun = [self._identity(v, x.type) for v, x in zip(summed, carried, strict=True)]
            with b.loop(outer.index, b.imin(b.add(outer.index, block), stop), step, begun) as loop:
                loop.carry(*body(loop.index, loop.values))
            ends = zip(summed, outer.values, loop.results, strict=True)
            outer.carry(*(self._combine(v)(b, old, new) for v, old, new in ends))
        return outer.results

    def _along_inner(self, pointers: list[Value], d: int, index: Value) -> list[Value]:
        return [self._moved(k, x, self.strides[k][1][d:][:1], [index]) for k, x in enumerate(pointers)]

    def _vectors(
        self,
        p: int,
        pointers: list[list[Value]],
        flat: Value,
        carried: Sequence[Value],
        start: Value,
        stop: Value,
        inner: list[Value],
    ) -> Sequence[Value]:
        """Write the last inner dimension by vectors: several at a time, then one by one, the last ones masked."""
        b, lanes = self.b, self.lanes
        base = b.mul(flat, self.inner_sizes[-1])
        last = self.nest.inner - 1

        def one(index: Value, values: Sequence[Value], mask: Value | None) -> Sequence[Value]:
            moved = [self._along_inner(of_row, last, index) for of_row in pointers]
            return self._element(p, moved, b.add(base, index), values, mask, [*inner, index])

        many = self._unroll(p)
        step = b.index(lanes * many)
        whole = b.add(start, b.mul(b.udiv(b.sub(stop, start), step), step))
        others = [self._identity(v, self.type(v, lanes)) for _ in range(many - 1) for v, _ in self._sums]
        count = len(self._sums)

        def several(first: Value, values: Sequence[Value]) -> Sequence[Value]:
            following: list[Value] = []
            for j in range(many):
                index = b.add(first, b.index(j * lanes)) if j else first
                following += one(index, values[j * count : (j + 1) * count], None)
            return following

        ends = self._summing(last, start, whole, lanes * many, [*carried, *others], several)
        sums = list(ends[:count])
        for j in range(1, many):
            for n, (v, _) in enumerate(self._sums):
                sums[n] = self._combine(v)(b, sums[n], ends[j * count + n])
        with b.loop(whole, stop, lanes, sums) as tail:
            mask = b.tail_mask(b.sub(stop, tail.index), lanes)
            tail.carry(*one(tail.index, tail.values, mask))
        return tail.results

    def _unroll(self, p: int) -> int:
        """Return how many vectors go at a time: with sums, enough chains to hide the latency of an addition.

        Without sums the processor overlaps iterations by itself, and code costs time to make.
        """
        work = self.passes.work(p) * len(self.rows)
        if not self._sums:
            return 2 if work <= 3 else 1
        wanted = 4 if work <= 6 else 2 if work <= 16 else 1
        # Sums that are carried along stay in registers, at most half of them.
        return max(1, min(wanted, self.b.target.registers // 2 // len(self._sums)))

    # -- one vector of elements, of every row

    def _element(
        self,
        p: int,
        pointers: list[list[Value]],
        flat: Value,
        carried: Sequence[Value],
        mask: Value | None,
        inner: list[Value],
    ) -> Sequence[Value]:
        self._inner = inner
        if mask is None and p == self.passes.heaviest and len(self.rows) == 1:
            self._fetch_next_row(pointers[0])
        sums = list(carried)
        columns: dict[int, Value] = {}
        # What is the same in all rows is made for the first one.
        common: dict[int, Value] = {}
        for row, of_row in zip(self.rows, pointers, strict=True):
            self._turn_to(row)
            made = self._element_of_row(p, of_row, flat, sums, columns, mask, dict(common))
            common = common or {v: x for v, x in made.items() if not self.varies[v]}
        for k, x in columns.items():
            v = self.nest.partials[k]
            self._add_column(v, k, self._present(v, x, mask), flat, mask)
        return sums

    def _element_of_row(
        self,
        p: int,
        pointers: list[Value],
        flat: Value,
        sums: list[Value],
        columns: dict[int, Value],
        mask: Value | None,
        made: dict[int, Value],
    ) -> dict[int, Value]:
        """Compute a row's part of the pass, and add it to the row's and the columns' sums; return the values."""
        b, instrs, lanes = self.b, self.nest.instrs, self.lanes

        def value(root: int) -> Value:
            # Chains may be long: an explicit stack.
            stack = [root]
            while stack:
                v = stack[-1]
                if v in made:
                    stack.pop()
                    continue
                i = instrs[v]
                if i.level != INNER:
                    made[v] = self._spread(self.known[v], lanes)
                elif self.passes.is_kept(v, p):
                    made[v] = self._read_back(v, pointers, flat, mask)
                else:
                    waiting = [a for a in i.values if a not in made]
                    if waiting:
                        stack.extend(waiting)
                        continue
                    made[v] = self._made(v, lanes, made.__getitem__, pointers, mask, mask)
                stack.pop()
            return made[root]

        # Everything is read before anything is stored: a result may take an operand's memory.
        stored = [
            (k, v, value(v)) for v, k in self.nest.stores if instrs[v].level == INNER and self.passes.when[v] == p
        ]
        mine = [(n, v) for n, (v, row) in enumerate(self._sums) if row is self.row or instrs[v].over == "all"]
        for _, v in mine:
            value(instrs[v].args[0])
        for k, v in enumerate(self.nest.partials):
            if instrs[v].over == "columns" and self.passes.when[instrs[v].args[0]] == p:
                x = value(instrs[v].args[0])
                columns[k] = self._combine(v)(b, columns[k], x) if k in columns else x
        kept = [(v, value(v)) for v in self.passes.saved if self.passes.when[v] == p]
        for k, v, x in stored:
            self._store(k, v, x, pointers[k], mask)
        for v, x in kept:
            self._keep(v, x, flat, mask)
        for n, v in mine:
            sums[n] = self._combine(v)(b, sums[n], self._present(v, value(instrs[v].args[0]), mask))
        return made

    def _fetch_next_row(self, pointers: list[Value]) -> None:
        """Prefetch the next row's elements while there is much to compute.

        Processors fetch ahead within a page, and a row is often as long as one.
        """
        for k, array in enumerate(self.nest.arrays):
            stride = self.strides[k][0][-1] if array.rows and not self.in_rows else None
            if array.unit and stride is not None and not array.windows:
                self.b.prefetch(self.b.offset(pointers[k], stride, self._memory(k)))

    def _present(self, v: int, x: Value, mask: Value | None) -> Value:
        """Return a reduction's operand, in which lanes that are off change nothing."""
        return x if mask is None else self.b.select(mask, x, self._identity(v, x.type))

    def _add_column(self, v: int, k: int, x: Value, flat: Value, mask: Value | None) -> None:
        b, combine = self.b, self._combine(v)
        element = I8 if x.type.bits == 1 else x.type.scalar
        pointer = b.offset(self.partial_bases[k], b.add(b.mul(self.unit, self.columns), flat), element)
        if self.in_rows:
            old = _bool_from_memory(b, b.load(element, pointer), x.type)
            total = combine(b, old, b.reduce_lanes(x, partial(combine, b)))
            b.store(_bool_to_memory(b, total), pointer)
            return
        type = element.vector(self.lanes)
        old = b.load(type, pointer) if mask is None else b.masked_load(type, pointer, mask)
        new = _bool_to_memory(b, combine(b, _bool_from_memory(b, old, x.type), x))
        if mask is None:
            b.store(new, pointer)
        else:
            b.masked_store(new, pointer, mask)

    def _kept_at(self, v: int, flat: Value) -> tuple[Value, Type]:
        assert self.scratch is not None
        type = self.type(v, self.lanes)
        element = I8 if type.bits == 1 else type.scalar
        slot = self.passes.slots[v] + self.row.number * self.passes.rows_kept
        base = self.b.offset(self.scratch, self.b.mul(self.kept, self.b.index(slot)), I8)
        at = self.b.mul(flat, self.b.index(self.lanes)) if self.in_rows else flat
        return self.b.offset(base, at, element), element.vector(self.lanes)

    def _keep(self, v: int, x: Value, flat: Value, mask: Value | None) -> None:
        pointer, _ = self._kept_at(v, flat)
        stored = _bool_to_memory(self.b, x)
        if mask is None or self.in_rows:
            self.b.store(stored, pointer)
        else:
            # Behind the last elements may lie those of the next inner row, which are still to be read.
            self.b.masked_store(stored, pointer, mask)

    def _read_back(self, v: int, pointers: list[Value], flat: Value, mask: Value | None) -> Value:
        if v in self.passes.stored:
            return self._load(self.passes.stored[v], pointers, self.lanes, mask, INNER)
        pointer, type = self._kept_at(v, flat)
        return _bool_from_memory(self.b, self.b.load(type, pointer), self.type(v, self.lanes))

    # -- single values

    def _made(
        self, v: int, lanes: int, get: Any, pointers: list[Value], mask: Value | None, row_mask: Value | None
    ) -> Value:
        """Compute the value of an instruction, whose operands `get` gives."""
        i, b = self.nest.instrs[v], self.b
        if i.kind == "literal":
            return b.const(self.type(v, lanes), i.args[0])
        if i.kind == "load":
            return self._load(i.args[0], pointers, lanes, mask if i.level == INNER else row_mask, i.level)
        if i.kind == "index":
            return self._index(v, i, lanes)
        if i.kind == "spread":
            found: Value = get(i.args[0])
            return found
        assert i.node is not None
        if i.node.op.name == "one_hot":
            hit = b.icmp("eq", get(i.args[0]), get(i.args[1]))
            type = self.type(v, lanes)
            return hit if type.bits == 1 else b.select(hit, b.const(type, 1), b.const(type, 0))
        return emitters.emit(b, i.node, [get(a) for a in i.args])

    def _index(self, v: int, i: Instr, lanes: int) -> Value:
        """Return the index along a dimension, in the instruction's integer type."""
        return self._along(i.args[0], self.type(v, lanes))

    def _along(self, d: int, type: Type) -> Value:
        """Return the index along dimension `d`, rows first."""
        b, rows, lanes = self.b, self.nest.rows, type.lanes
        along = self.at[d] if d < rows else self._inner[d - rows]
        scalar = along if type.bits == 64 else b.cast("trunc", along, type.scalar)
        spread = b.splat(scalar, lanes)
        last = rows - 1 if self.in_rows else rows + self.nest.inner - 1
        return b.add(spread, b.iota(type)) if d == last and lanes else spread

    def _load(self, k: int, pointers: list[Value], lanes: int, mask: Value | None, level: int) -> Value:
        b, array, memory = self.b, self.nest.arrays[k], self._memory(k)
        stride = self._vector_stride(k, level) if lanes else None
        if array.windows:
            return emitters.to_compute(b, self._load_window(k, pointers[k], lanes, stride, mask), array.dtype)
        if stride is None:
            return self._spread(emitters.to_compute(b, b.load(memory, pointers[k]), array.dtype), lanes)
        type = memory.vector(lanes)
        if array.unit:
            x = b.load(type, pointers[k]) if mask is None else b.masked_load(type, pointers[k], mask)
        elif mask is None:
            x, pointer = b.undefined(type), pointers[k]
            for lane in range(lanes):
                pointer = b.offset(pointer, stride, memory) if lane else pointer
                x = b.insert(x, b.load(memory, pointer), lane)
        else:
            x = b.gather(type, pointers[k], self._steps(stride), mask)
        return emitters.to_compute(b, x, array.dtype)

    def _load_window(self, k: int, pointer: Value, lanes: int, stride: Value | None, mask: Value | None) -> Value:
        """Load an array's element, zero outside of its windows, where its memory is not touched."""
        b, memory, array = self.b, self._memory(k), self.nest.arrays[k]
        inside = mask
        for d, (start, stop) in zip(array.windows, self.bounds[k], strict=True):
            at = self._along(d, I64.vector(lanes))
            within = b.and_(b.icmp("sge", at, b.splat(start, lanes)), b.icmp("slt", at, b.splat(stop, lanes)))
            inside = within if inside is None else b.and_(inside, within)
        assert inside is not None
        type = memory.vector(lanes)
        if stride is not None:
            if array.unit:
                return b.masked_load(type, pointer, inside)
            return b.gather(type, pointer, self._steps(stride), inside)
        here = b.reduce_lanes(inside, b.or_) if lanes else inside
        zero = b.const(memory, 0)
        (x,) = b.either(here, lambda: [b.load(memory, pointer)], lambda: [zero])
        return b.select(inside, b.splat(x, lanes), b.const(type, 0)) if lanes else x

    def _vector_stride(self, k: int, level: int) -> Value | None:
        """Return the array's stride along the vectors' dimension; None where it does not vary there."""
        rows, inner = self.strides[k]
        if self.in_rows:
            return rows[-1]
        return inner[-1] if inner and level == INNER else None

    def _steps(self, stride: Value) -> Value:
        type = I64.vector(self.lanes)
        return self.b.mul(self.b.iota(type), self.b.splat(stride, self.lanes))

    def _store(self, k: int, v: int, x: Value, pointer: Value, mask: Value | None) -> None:
        b, array = self.b, self.nest.arrays[k]
        stored = emitters.to_storage(b, x, array.dtype)
        if not stored.type.lanes:
            b.store(stored, pointer)
            return
        stride = self._vector_stride(k, self.nest.instrs[v].level)
        if stride is None:
            b.store(b.extract(stored, 0), pointer)
        elif not array.unit and mask is None:
            # One by one: processors do not scatter any faster.
            for lane in range(stored.type.lanes):
                pointer = b.offset(pointer, stride, stored.type.scalar) if lane else pointer
                b.store(b.extract(stored, lane), pointer)
        elif not array.unit:
            b.scatter(stored, pointer, self._steps(stride), mask)
        elif mask is None:
            b.store(stored, pointer)
        else:
            b.masked_store(stored, pointer, mask)


def _bool_to_memory(b: Builder, x: Value) -> Value:
    return b.cast("zext", x, I8) if x.type.bits == 1 else x


def _bool_from_memory(b: Builder, x: Value, type: Type) -> Value:
    return b.cast("trunc", x, type) if type.bits == 1 else x


def lanes_of(nest: LoopNest, width: int) -> int:
    """Return the elements of a vector: registers full of the widest float (or, without floats, of 32 bits)."""
    sizes = [emitters.compute_type(i.dtype).size for i in nest.instrs if np.dtype(i.dtype).kind in "fV"]
    return max(1, width // max(sizes, default=4))


def build(nest: LoopNest) -> Any:
    """Return the function that writes the nest's kernel, for :func:`wengert.execute.native.codegen.kernel.kernel`."""

    def write(b: Builder) -> None:
        LoopKernel(b, nest, lanes_of(nest, b.target.width)).write()

    return write
