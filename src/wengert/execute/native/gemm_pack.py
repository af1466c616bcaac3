"""Packing: a matrix copied to panels that lie in the order in which tiles of a product read them.

A panel holds a few rows of `x` (of A: a tile's rows; of B: a panel's columns, its transpose's rows),
step by step along the inner axis: element (k, r) of a panel of height h is at `k * h + r`. What lacks
to a last panel of full height is anything: no tile stores what comes of it. Half-precision numbers
become float32 on the way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .builder import Builder, Value
from .gemm_tiles import numpy_dtype
from .halves import convert
from .lowering import Lowering
from .plan import View
from .types import I64, Type

# The record: x, the panels (two words each); then these.
ROWS, INNER, ROW_STRIDE, INNER_STRIDE, OUT_STRIDE, PANELS, COUNTS = 4, 5, 6, 7, 8, 9, 10


def pack(low: Lowering, x: View, type: Type, heights: Sequence[int], counts: Sequence[int]) -> View:
    """The panels of x, of shape (batch..., rows, inner): `counts` of them of each of `heights`, one after another."""
    *batch, rows, inner = x.shape
    held = sum(h * n for h, n in zip(heights, counts))
    out = low.temp((*batch, held * inner), numpy_dtype(type))
    *batch_strides, row_stride, inner_stride = x.strides
    how = "rows" if row_stride == 1 or rows == 1 else "inner" if inner_stride == 1 else "any"
    sizes = [n for pair in zip(batch, batch_strides) for n in pair]
    key = f"pack {how} {x.type.text} {type.text} {heights} {len(batch)}"
    kernel = low.kernel(key, lambda b: _write(b, x.type, type, heights, len(batch), how))
    panels = sum(counts)
    low.step(
        kernel,
        [x, out, rows, inner, row_stride, inner_stride, held * inner, panels, *counts, *sizes],
        reads=[x],
        writes=[out],
        units=panels * math.prod(batch),
        grain=max(1, 4096 // max(1, heights[0] * inner)),
        label=f"pack {rows}x{inner}",
    )
    return out


def _write(b: Builder, source: Type, type: Type, heights: Sequence[int], batch_axes: int, how: str) -> None:
    """The kernel: a unit is a panel."""
    lanes = b.target.lanes(type)
    inner, row_stride, inner_stride = b.words(INNER, 3)
    row_stride = b.index(1) if how == "rows" else row_stride
    inner_stride = b.index(1) if how == "inner" else inner_stride
    with b.loop(b.lo, b.hi) as unit:
        panels = b.word(PANELS)
        panel, rest = b.urem(unit.index, panels), b.udiv(unit.index, panels)
        x, out = b.buffer(0), b.buffer(2)
        out = b.offset(out, b.mul(rest, b.word(OUT_STRIDE)), type)
        for axis in reversed(range(batch_axes)):
            at = COUNTS + len(heights) + 2 * axis
            size = b.word(at)
            x = b.offset(x, b.mul(b.urem(rest, size), b.word(at + 1)), source)
            rest = b.udiv(rest, size)
        height, first = _panel(b, heights, panel)
        x = b.offset(x, b.mul(first, row_stride), source)
        out = b.offset(out, b.mul(first, inner), type)
        have = b.sub(b.word(ROWS), first)
        with b.loop(0, height, lanes) as part:
            read = b.fixed_mask(b.sub(have, part.index), lanes)
            write = b.fixed_mask(b.sub(height, part.index), lanes)
            start = b.offset(x, b.mul(part.index, row_stride), source)
            to = b.offset(out, part.index, type)
            done = b.index(0)
            if how == "inner":
                done = b.and_(inner, b.index(-lanes))
                last = b.sub(b.sub(have, part.index), b.index(1))
                with b.loop(0, done, lanes) as block:
                    square = b.offset(start, block.index, source)
                    rows = [
                        b.load(
                            source.vector(lanes), b.offset(square, b.mul(b.imin(b.index(r), last), row_stride), source)
                        )
                        for r in range(lanes)
                    ]
                    columns = _transposed(b, [convert(b, row, type) for row in rows])
                    place = b.offset(to, b.mul(block.index, height), type)
                    for column in columns:
                        b.masked_store(column, place, write)
                        place = b.offset(place, height, type)
            steps = b.mul(b.iota(I64.vector(lanes)), b.splat(row_stride, lanes))
            with b.loop(done, inner) as k:
                at_k = b.offset(start, b.mul(k.index, inner_stride), source)
                vector = source.vector(lanes)
                v = b.masked_load(vector, at_k, read) if how == "rows" else b.gather(vector, at_k, steps, read)
                b.masked_store(convert(b, v, type), b.offset(to, b.mul(k.index, height), type), write)


def _panel(b: Builder, heights: Sequence[int], panel: Value) -> tuple[Value, Value]:
    """The height of a panel and its first row."""
    height, first = b.index(heights[0]), b.mul(panel, b.index(heights[0]))
    if len(heights) == 1:
        return height, first
    before, row = b.index(0), b.index(0)
    for kind, h in enumerate(heights):
        count = b.word(COUNTS + kind)
        here = b.icmp("sge", panel, before)
        height = b.select(here, b.index(h), height)
        first = b.select(here, b.add(row, b.mul(b.sub(panel, before), b.index(h))), first)
        before, row = b.add(before, count), b.add(row, b.mul(count, b.index(h)))
    return height, first


def _transposed(b: Builder, rows: list[Value]) -> list[Value]:
    """A square of numbers in registers, transposed: Eklundh's way, off-diagonal halves, then quarters, and so on."""
    lanes = len(rows)
    rows = list(rows)
    distance = lanes // 2
    while distance:
        low = [j if not j & distance else lanes + j - distance for j in range(lanes)]
        high = [j + distance if not j & distance else lanes + j for j in range(lanes)]
        for i in range(lanes):
            if not i & distance:
                x, y = rows[i], rows[i + distance]
                rows[i], rows[i + distance] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        distance //= 2
    return rows
