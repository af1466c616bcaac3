"""Products of a vector and a matrix, which memory bounds: every element of the matrix is read once, in its order.

The result is a row: y[n] = sum over k of x[k] * b[k, n]. Where columns lie side by side, several
vectors of them are summed at once down the inner axis; where the inner axis does, several columns
are, each in lanes of its own which are added up at the end as a tree. A constant matrix is packed, once for all
calls, so that what is summed at once is one stretch of memory. A long inner axis of few
columns is cut into chunks, summed apart and then together: how it is cut follows from the sizes
alone, so sums have the same bits on any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .....core.node import Node
from ...codegen.builder import Builder, Value
from ...codegen.types import I64, Target, Type
from ...plan.lowering import Epilogue, Lowering
from ...plan.plan import View
from ...plan.record import Record
from ...scalar.fp16 import convert
from .dots import sums_of_products
from .finish import Finish, Place, plain_store
from .pack import pack
from .tiles import CHAINS, is_masked, numpy_dtype

# Columns that are summed at once along the inner axis.
COLUMNS = 4
# Elements of the matrix that one unit reads at least, where a long inner axis is cut.
CHUNK = 1 << 15
# A constant matrix of more bytes is in no second-level cache when it is wanted: it is asked for so many bytes ahead.
FAR, AHEAD = 1 << 21, 1 << 13
# A longer inner axis is cut into chunks of at most so many steps: sums that run on lose digits.
LONGEST, LONGEST_CHUNK = 8192, 2048
# It is cut where there are fewer units than this without; of a packed matrix units have fewer columns instead.
UNITS = 16
PACKED_UNITS, LEAST_BLOCK = 8, 4


def block_of(target: Target) -> int:
    """Return the vectors of columns in a unit: as many sums as leave registers for what is loaded.

    The more of a row is read in one go, the better the processor foresees what comes next.
    """
    return target.registers // 2


RECORD = Record("*x *b inner columns x_step b_step b_column b_block chunk chunks blocks")


def turned(epilogue: Epilogue) -> Epilogue | None:
    """Return the epilogue of a column as that of a row; None where its arrays are not dense along the column."""
    kinds = {"scalar": "scalar", "row": "column", "column": "scalar", "full": "full"}
    along = [v for v, kind in zip(epilogue.operands, epilogue.kinds) if kind in ("row", "full")]
    if any(v.strides[-2] != 1 and v.shape[-2] != 1 for v in (*along, *epilogue.outputs)):
        return None
    turn = lambda v: v._replace(shape=(*v.shape[:-2], 1, v.shape[-2]), strides=(*v.strides[:-2], 0, v.strides[-2]))
    operands, outputs = ([turn(v) for v in views] for views in (epilogue.operands, epilogue.outputs))
    return Epilogue(epilogue.key, operands, [kinds[k] for k in epilogue.kinds], outputs, epilogue.emit, epilogue.nodes)


class _Matrix(NamedTuple):
    """A matrix as the kernel reads it: the steps along its axes, and from one block of so many vectors to the next."""

    view: View
    inner: int
    columns: int
    step: int
    column: int
    block: int
    next_block: int
    is_packed: bool


def _matrix(low: Lowering, y: View, type: Type) -> _Matrix:
    """Return a matrix of shape (batch..., k, n), packed where it is a constant.

    Packed it has so many blocks, where that is possible, that the inner axis need not be cut.
    """
    (inner, columns), (step, column) = y.shape[-2:], y.strides[-2:]
    lanes, block = low.target.lanes(type), block_of(low.target)
    if not low.is_free_to_pack(y) or y.type != type or min(inner, columns) < 2:
        return _Matrix(y, inner, columns, step, column, block, block * lanes * column, False)
    while block > LEAST_BLOCK and -(-columns // (block * lanes)) < PACKED_UNITS:
        block //= 2
    width = min(block, -(-columns // lanes)) * lanes
    panels = pack(low, y.permute((*range(len(y.shape) - 2), -1, -2)), type, (width,), (-(-columns // width),)).view
    return _Matrix(panels, inner, columns, width, 1, block, width * inner, True)


def _is_along(matrix: _Matrix) -> bool:
    """Return whether the inner axis lies in order, and vectors go along it."""
    return matrix.step == 1 and matrix.inner > 1 and not (matrix.column == 1 and matrix.columns > 1)


def row_product(low: Lowering, x: View, y: View, type: Type, epilogue: Epilogue, nodes: Sequence[Node]) -> None:
    """Add the steps of x @ y, of shapes (batch..., 1, k) and (batch..., k, n)."""
    *batch, _, inner = x.shape
    matrix = _matrix(low, y, type)
    columns, width = matrix.columns, matrix.block * low.target.lanes(type)
    # Along an inner axis that lies in order there is a sum in each lane.
    longest, most = (n * width // matrix.block if _is_along(matrix) else n for n in (LONGEST, LONGEST_CHUNK))
    units = math.prod(batch) * -(-columns // width)
    is_few = units < (PACKED_UNITS if matrix.is_packed else UNITS)
    per = min(most, CHUNK // max(1, min(columns, width))) if is_few else most
    chunks = -(-inner // per) if inner > longest or (is_few and inner >= 2 * per) else 1
    if chunks == 1:
        _step(low, x, matrix, type, Finish(epilogue, len(batch)), inner, 1, nodes)
        return
    per = -(-inner // chunks)  # no small piece is left over
    parts = low.temp((*batch, chunks, 1, columns), numpy_dtype(type))
    _step(low, x, matrix, type, Finish(plain_store(parts), len(batch) + 1), per, chunks, nodes)
    ones = low.constant(np.ones(chunks, numpy_dtype(type))).broadcast((*batch, 1, chunks))
    summed = parts.reshape((*batch, chunks, columns))
    assert summed is not None
    row_product(low, ones, summed, type, epilogue, nodes)


def _step(
    low: Lowering,
    x: View,
    matrix: _Matrix,
    type: Type,
    finish: Finish,
    chunk: int,
    chunks: int,
    nodes: Sequence[Node],
) -> None:
    *batch, _, inner = x.shape
    columns, y = matrix.columns, matrix.view
    how = "columns" if matrix.column == 1 or columns == 1 else "any"
    if _is_along(matrix):
        how = "inner"
        if x.strides[-1] != 1:
            packed = pack(low, x, type, (1,), (1,)).view
            x = packed._replace(shape=x.shape, strides=(*packed.strides[:-1], 0, 1))
    asks_ahead = matrix.is_packed and y.size * y.type.size > FAR
    shape = _Shape(type, x.type, y.type, how, matrix.block, len(batch), chunks > 1, asks_ahead)
    blocks = -(-columns // (matrix.block * low.target.lanes(type)))
    axes = zip(batch, x.strides, y.strides)
    words = RECORD.words(
        x=x,
        b=y,
        inner=inner,
        columns=columns,
        x_step=x.strides[-1],
        b_step=matrix.step,
        b_column=matrix.column,
        b_block=matrix.next_block,
        chunk=chunk,
        chunks=chunks,
        blocks=blocks,
    )
    flops = 2.0 * math.prod((*batch, inner, columns))
    units = blocks * chunks * math.prod(batch)
    epilogue = finish.epilogue
    low.step(
        low.kernel(f"matvec {shape} {finish.key}", lambda b: RowProduct(b, shape, finish).write()),
        [*words, *(n for axis in axes for n in axis), *finish.words()],
        reads=[x, y, *epilogue.operands],
        writes=epilogue.outputs,
        units=units,
        grain=max(1, int(CHUNK * units / (flops + 1))),
        flops=flops,
        nodes=(*nodes, *epilogue.nodes),
        label=f"matvec {'x'.join(map(str, (*batch, inner, columns)))}",
    )


class _Shape(NamedTuple):
    """The structure of a kernel: all that its code depends on, besides its epilogue."""

    type: Type
    x: Type
    b: Type
    how: str
    block: int
    batch_axes: int
    is_cut: bool
    asks_ahead: bool

    def __str__(self) -> str:
        way = f"{' cut' if self.is_cut else ''}{' ahead' if self.asks_ahead else ''}"
        return f"{self.type.text} {self.x.text} {self.b.text} {self.how} {self.block} {self.batch_axes}{way}"


class RowProduct:
    """The writer of a vector times a matrix: a unit is a block of columns, of a chunk of the inner axis."""

    def __init__(self, b: Builder, shape: _Shape, finish: Finish) -> None:
        self.b, self.shape, self.finish = b, shape, finish
        self.type = shape.type
        self.lanes, self.block = b.target.lanes(shape.type), shape.block
        self.words = RECORD.load(b)
        self.sums = b.local(shape.type, self.block * self.lanes)

    def write(self) -> None:
        """Write the whole kernel."""
        b, shape, w = self.b, self.shape, self.words
        with b.loop(b.lo, b.hi) as unit:
            block, rest = b.urem(unit.index, w["blocks"]), b.udiv(unit.index, w["blocks"])
            chunk, rest = b.urem(rest, w["chunks"]), b.udiv(rest, w["chunks"])
            x, matrix = w["x"], w["b"]
            batch: list[Value] = []
            for axis in reversed(range(shape.batch_axes)):
                size, x_stride, b_stride = b.words(RECORD.end + 3 * axis, 3)
                index, rest = b.urem(rest, size), b.udiv(rest, size)
                x = b.offset(x, b.mul(index, x_stride), shape.x)
                matrix = b.offset(matrix, b.mul(index, b_stride), shape.b)
                batch.insert(0, index)
            start = b.mul(chunk, w["chunk"])
            inner = b.imin(w["chunk"], b.sub(w["inner"], start))
            x = b.offset(x, b.mul(start, w["x_step"]), shape.x)
            matrix = b.offset(matrix, b.mul(start, w["b_step"]), shape.b)
            column = b.mul(block, b.index(self.block * self.lanes))
            matrix = b.offset(matrix, b.mul(block, w["b_block"]), shape.b)
            left = b.imin(b.sub(w["columns"], column), b.index(self.block * self.lanes))
            {"columns": self._down, "inner": self._along, "any": self._gathered}[shape.how](x, matrix, inner, left)
            places = self.finish.places(b, RECORD.end + 3 * shape.batch_axes, [*batch, *[chunk] * shape.is_cut])
            self._finish(places, column, left)

    # -- sums of columns that lie side by side

    def _down(self, x: Value, matrix: Value, inner: Value, left: Value) -> None:
        """Sum vectors of columns, a block of them at a time down to one, and the last ones under a mask."""
        b, lanes = self.b, self.lanes
        done = b.index(0)
        vectors = self.block
        while vectors:
            stop = b.add(done, b.and_(b.sub(left, done), b.index(-vectors * lanes)))
            with b.loop(done, stop, vectors * lanes) as tile:
                at = b.offset(matrix, tile.index, self.shape.b)
                load = lambda p, c: b.load(self.shape.b.vector(lanes), b.offset(p, c * lanes, self.shape.b))
                self._columns(x, at, inner, vectors, load, tile.index)
            done = stop
            vectors //= 2
        with b.when(b.icmp("slt", done, left)):
            mask = b.fixed_mask(b.sub(left, done), lanes)
            load = lambda p, c: b.masked_load(self.shape.b.vector(lanes), p, mask)
            self._columns(x, b.offset(matrix, done, self.shape.b), inner, 1, load, done)

    def _gathered(self, x: Value, matrix: Value, inner: Value, left: Value) -> None:
        """Sum columns anywhere, a vector at a time."""
        b, lanes = self.b, self.lanes
        column = self.words["b_column"]
        steps = b.mul(b.iota(I64.vector(lanes)), b.splat(column, lanes))
        with b.loop(0, left, lanes) as tile:
            mask = b.fixed_mask(b.sub(left, tile.index), lanes)
            at = b.offset(matrix, b.mul(tile.index, column), self.shape.b)
            load = lambda p, c: b.gather(self.shape.b.vector(lanes), p, steps, mask)
            self._columns(x, at, inner, 1, load, tile.index)

    def _columns(
        self,
        x: Value,
        at: Value,
        inner: Value,
        vectors: int,
        load: Callable[[Value, int], Value],
        column: Value,
    ) -> None:
        """Write the sums of `vectors` vectors of columns; few of them in several sums each, for their latency."""
        b, shape = self.b, self.shape
        unroll = max(1, CHAINS // vectors)
        x_step, b_step = self.words["x_step"], self.words["b_step"]
        zero = Value("zeroinitializer", self.type.vector(self.lanes))

        def step(sums: Sequence[Value], x_at: Value, b_at: Value) -> tuple[list[Value], Value, Value]:
            factor = b.splat(convert(b, b.load(shape.x, x_at), self.type), self.lanes)
            for c in range(len(sums) if shape.asks_ahead else 0):
                b.prefetch(b.offset(b_at, c * self.lanes + AHEAD // shape.b.size, shape.b), level=2)
            made = [self._add(factor, convert(b, load(b_at, c), self.type), s) for c, s in enumerate(sums)]
            return made, b.offset(x_at, x_step, shape.x), b.offset(b_at, b_step, shape.b)

        whole = b.and_(inner, b.index(-unroll))
        with b.loop(0, whole, unroll, [*[zero] * vectors * unroll, x, at]) as loop:
            *sums, x_at, b_at = loop.values
            new: list[Value] = []
            for u in range(unroll):
                made, x_at, b_at = step(sums[u * vectors : (u + 1) * vectors], x_at, b_at)
                new += made
            loop.carry(*new, x_at, b_at)
        *parts, x_at, b_at = loop.results
        while len(parts) > vectors:
            half = len(parts) // 2
            parts = [self._plus(p, q) for p, q in zip(parts[:half], parts[half:])]
        if unroll > 1:
            with b.loop(whole, inner, 1, [*parts, x_at, b_at]) as loop:
                *sums, x_at, b_at = loop.values
                made, x_at, b_at = step(sums, x_at, b_at)
                loop.carry(*made, x_at, b_at)
            parts = list(loop.results[:vectors])
        for c, total in enumerate(parts):
            b.store(total, b.offset(self.sums, b.add(column, b.index(c * self.lanes)), self.type))

    # -- sums along an inner axis that lies in order

    def _along(self, x: Value, matrix: Value, inner: Value, left: Value) -> None:
        """Sum columns four at a time, then one by one."""
        b = self.b
        most = b.and_(left, b.index(-COLUMNS))
        for count, first, last in ((COLUMNS, b.index(0), most), (1, most, left)):
            with b.loop(first, last, count) as group:
                at = b.offset(matrix, b.mul(group.index, self.words["b_column"]), self.shape.b)
                columns = [at]
                for _ in range(count - 1):
                    columns.append(b.offset(columns[-1], self.words["b_column"], self.shape.b))
                sums = sums_of_products(b, self.type, [x], self.shape.x, columns, self.shape.b, inner)
                for c, total in enumerate(sums):
                    b.store(total, b.offset(self.sums, b.add(group.index, b.index(c)), self.type))

    # -- arithmetic, and what follows

    def _add(self, x: Value, y: Value, total: Value) -> Value:
        b = self.b
        return b.fma(x, y, total) if self.type.is_float else b.add(b.mul(x, y), total)

    def _plus(self, x: Value, y: Value) -> Value:
        return self.b.fadd(x, y) if self.type.is_float else self.b.add(x, y)

    def _finish(self, places: Sequence[Place], column: Value, left: Value) -> None:
        """Write the epilogue of the block's sums, vector by vector."""
        b, lanes = self.b, self.lanes
        whole = b.index(0) if is_masked(b.target) else b.and_(left, b.index(-lanes))

        def at(index: Value, mask: Value | None) -> None:
            here = self.finish.moved(b, places, b.index(0), b.add(column, index))
            product = b.load(self.type.vector(lanes), b.offset(self.sums, index, self.type))
            self.finish.row(b, here, [product], [mask] if mask else None)

        if not is_masked(b.target):
            with b.loop(0, whole, lanes) as vector:
                at(vector.index, None)
        with b.loop(whole, left, lanes) as vector:
            at(vector.index, b.tail_mask(b.sub(left, vector.index), lanes))
