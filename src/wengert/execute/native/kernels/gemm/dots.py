"""Products of which one operand has few rows or columns: sums along an inner axis that lies in order in both.

A tile of :mod:`~wengert.execute.native.kernels.gemm.micro` reads B's columns side by side. Where they lie
one after the other instead, copying them to panels costs as much as a few rows' work; and where columns fill less than
half a vector, most of it is padding. Here vectors run along the inner axis: a few
rows times a few columns are summed at once, each in lanes of its own, which are added up at the end as
a tree. What is asked of memory is each operand once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .....core.node import Node
from ...codegen.builder import Builder, Value
from ...codegen.types import Type
from ...plan.lowering import Lowering
from ...plan.plan import View
from ...plan.record import Record
from ...scalar.fp16 import convert
from .finish import Finish, Place
from .tiles import CHAINS, is_masked

# The rows, and the columns, that are summed at once: as many chains as keep the units busy, for few loads.
ROW_TILES, COLUMN_TILES = (2, 1), (4, 2, 1)
# A unit's rows and vectors of columns: its sums stay in the cache.
UNIT_ROWS, UNIT_VECTORS = 16, 8
# Multiply-adds of a unit of a grain at least.
GRAIN = 1 << 15
# So many rows are few. Of more it is cheaper to pack B, the more so where other products read the panels too.
FEW_ROWS = 8
# Adding up lanes costs as much as so many steps along the inner axis, in vectors.
LANES_COST = 8

RECORD = Record("*x *b rows columns inner x_row b_column row_blocks column_blocks")


def is_dots(low: Lowering, x: View, y: View, type: Type) -> bool:
    """Return whether x @ y, of shapes (batch..., m, k) and (batch..., k, n), is one of those for this kernel."""
    (rows, inner), columns = x.shape[-2:], y.shape[-1]
    lanes = low.target.lanes(type)
    if inner < LANES_COST * lanes:
        return False
    return (rows <= FEW_ROWS and y.strides[-2] == 1) or (columns <= lanes // 2 and x.strides[-1] == 1)


def dots(low: Lowering, x: View, y: View, type: Type, finish: Finish, nodes: Sequence[Node]) -> None:
    """Add the steps of x @ y, of shapes (batch..., m, k) and (batch..., k, n), and of what follows it."""
    *batch, rows, inner = x.shape
    columns = y.shape[-1]
    across = (*range(len(batch)), -1, -2)
    x = x if x.strides[-1] == 1 else low.copy(x)
    y = y if y.strides[-2] == 1 else low.copy(y.permute(across)).permute(across)
    row_blocks = -(-rows // UNIT_ROWS)
    column_blocks = -(-columns // (UNIT_VECTORS * low.target.lanes(type)))
    words = RECORD.words(
        x=x,
        b=y,
        rows=rows,
        columns=columns,
        inner=inner,
        x_row=x.strides[-2],
        b_column=y.strides[-1],
        row_blocks=row_blocks,
        column_blocks=column_blocks,
    )
    epilogue, axes = finish.epilogue, zip(batch, x.strides, y.strides)
    units = row_blocks * column_blocks * math.prod(batch)
    work = math.prod((*batch, rows, columns, inner))
    types = (type, x.type, y.type)
    key = f"dots {' '.join(t.text for t in types)} {len(batch)} {finish.key}"
    low.step(
        low.kernel(key, lambda b: Dots(b, *types, finish).write()),
        [*words, *(n for axis in axes for n in axis), *finish.words()],
        reads=[x, y, *epilogue.operands],
        writes=epilogue.outputs,
        units=units,
        grain=max(1, GRAIN * units // work),
        flops=2.0 * work,
        nodes=(*nodes, *epilogue.nodes),
        label=f"dots {'x'.join(map(str, (*batch, rows, columns, inner)))}",
    )


class Dots:
    """The writer of the kernel: a unit is a block of rows by a block of columns."""

    def __init__(self, b: Builder, type: Type, x: Type, y: Type, finish: Finish) -> None:
        self.b, self.type, self.finish = b, type, finish
        self.x, self.y = x, y
        self.lanes = b.target.lanes(type)
        self.width = UNIT_VECTORS * self.lanes
        self.words = RECORD.load(b)
        self.sums = b.local(type, UNIT_ROWS * self.width)

    def write(self) -> None:
        """Write the whole kernel."""
        b, w = self.b, self.words
        with b.loop(b.lo, b.hi) as unit:
            column_block, rest = b.urem(unit.index, w["column_blocks"]), b.udiv(unit.index, w["column_blocks"])
            row_block, rest = b.urem(rest, w["row_blocks"]), b.udiv(rest, w["row_blocks"])
            x, matrix = w["x"], w["b"]
            batch: list[Value] = []
            for axis in reversed(range(self.finish.batch_axes)):
                size, x_stride, b_stride = b.words(RECORD.end + 3 * axis, 3)
                index, rest = b.urem(rest, size), b.udiv(rest, size)
                x = b.offset(x, b.mul(index, x_stride), self.x)
                matrix = b.offset(matrix, b.mul(index, b_stride), self.y)
                batch.insert(0, index)
            row, column = b.mul(row_block, b.index(UNIT_ROWS)), b.mul(column_block, b.index(self.width))
            x = b.offset(x, b.mul(row, w["x_row"]), self.x)
            matrix = b.offset(matrix, b.mul(column, w["b_column"]), self.y)
            rows = b.imin(b.sub(w["rows"], row), b.index(UNIT_ROWS))
            columns = b.imin(b.sub(w["columns"], column), b.index(self.width))
            self._tiles(x, matrix, rows, columns)
            places = self.finish.places(b, RECORD.end + 3 * self.finish.batch_axes, batch)
            self._finish(places, row, column, rows, columns)

    def _tiles(self, x: Value, matrix: Value, rows: Value, columns: Value) -> None:
        """Write the sums of a block: for each few columns, which stay in the cache, all rows."""
        b, w = self.b, self.words
        left = b.index(0)
        for across in COLUMN_TILES:
            right = b.add(left, b.and_(b.sub(columns, left), b.index(-across)))
            with b.loop(left, right, across) as column:
                ys = self._lines(matrix, column.index, w["b_column"], across, self.y)
                top = b.index(0)
                for down in ROW_TILES:
                    bottom = b.add(top, b.and_(b.sub(rows, top), b.index(-down)))
                    with b.loop(top, bottom, down) as row:
                        xs = self._lines(x, row.index, w["x_row"], down, self.x)
                        sums = sums_of_products(b, self.type, xs, self.x, ys, self.y, w["inner"])
                        for i, total in enumerate(sums):
                            at = b.mul(b.add(row.index, b.index(i // across)), b.index(self.width))
                            at = b.add(at, b.add(column.index, b.index(i % across)))
                            b.store(total, b.offset(self.sums, at, self.type))
                    top = bottom
            left = right

    def _lines(self, pointer: Value, first: Value, stride: Value, count: int, type: Type) -> list[Value]:
        """Return where lines begin, `count` of them from the `first` on."""
        lines = [self.b.offset(pointer, self.b.mul(first, stride), type)]
        for _ in range(count - 1):
            lines.append(self.b.offset(lines[-1], stride, type))
        return lines

    def _finish(self, places: Sequence[Place], row: Value, column: Value, rows: Value, columns: Value) -> None:
        """Write the epilogue of a block's sums, vector by vector."""
        b, lanes = self.b, self.lanes
        whole = b.index(0) if is_masked(b.target) else b.and_(columns, b.index(-lanes))
        with b.loop(0, rows) as r:
            line = b.offset(self.sums, b.mul(r.index, b.index(self.width)), self.type)

            def at(index: Value, mask: Value | None) -> None:
                here = self.finish.moved(b, places, b.add(row, r.index), b.add(column, index))
                product = b.load(self.type.vector(lanes), b.offset(line, index, self.type))
                self.finish.row(b, here, [product], [mask] if mask else None)

            if not is_masked(b.target):
                with b.loop(0, whole, lanes) as vector:
                    at(vector.index, None)
            with b.loop(whole, columns, lanes) as vector:
                at(vector.index, b.tail_mask(b.sub(columns, vector.index), lanes))


def sums_of_products(
    b: Builder, type: Type, xs: Sequence[Value], x_type: Type, ys: Sequence[Value], y_type: Type, inner: Value
) -> list[Value]:
    """Return the sums of the products of lines `xs` and `ys`, of `inner` numbers each, all `ys` for each of `xs`.

    They are taken in vectors along the lines; few of them in several sums each, for their latency.
    """
    lanes, count = b.target.lanes(type), len(xs) * len(ys)
    unroll = max(1, CHAINS // count)

    def plus(x: Value, y: Value) -> Value:
        return b.fadd(x, y) if type.is_float else b.add(x, y)

    def step(sums: Sequence[Value], k: Value, mask: Value | None) -> list[Value]:
        def load(pointer: Value, stored: Type) -> Value:
            place, vector = b.offset(pointer, k, stored), stored.vector(lanes)
            return convert(b, b.masked_load(vector, place, mask) if mask else b.load(vector, place), type)

        def added(x: Value, y: Value, total: Value) -> Value:
            return b.fma(x, y, total) if type.is_float else b.add(b.mul(x, y), total)

        left, right = [load(p, x_type) for p in xs], [load(p, y_type) for p in ys]
        pairs = ((x, y) for x in left for y in right)
        return [added(x, y, s) for (x, y), s in zip(pairs, sums)]

    zero = Value("zeroinitializer", type.vector(lanes))
    sums = [zero] * count
    done = b.index(0)
    for steps in (unroll, 1) if unroll > 1 else (1,):
        stop = b.add(done, b.and_(b.sub(inner, done), b.index(-steps * lanes)))
        with b.loop(done, stop, steps * lanes, [*sums, *[zero] * count * (steps - 1)]) as loop:
            new: list[Value] = []
            for u in range(steps):
                new += step(loop.values[u * count : (u + 1) * count], b.add(loop.index, b.index(u * lanes)), None)
            loop.carry(*new)
        sums = list(loop.results)
        while len(sums) > count:
            half = len(sums) // 2
            sums = [plus(p, q) for p, q in zip(sums[:half], sums[half:])]
        done = stop
    rest = b.either(
        b.icmp("slt", done, inner),
        lambda: step(sums, done, b.fixed_mask(b.sub(inner, done), lanes)),
        lambda: sums,
    )
    return [b.reduce_lanes(s, plus) for s in rest]
