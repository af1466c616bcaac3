"""Packing: a matrix copied to panels that lie in the order in which tiles of a product read them.

A panel holds a few rows of `x` (of A: a tile's rows; of B: a panel's columns, its transpose's rows),
step by step along the inner axis: element (k, r) of a panel of height h is at `k * h + r`. What lacks
to a last panel of full height is anything: no tile stores what comes of it. Half-precision numbers
become float32 on the way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...codegen.builder import Builder, Value
from ...codegen.types import I64, Type
from ...plan.lowering import Lowering
from ...plan.plan import View
from ...scalar.fp16 import convert
from .tiles import is_masked, numpy_dtype

# The record: x, the panels (two words each); then these. A unit packs so many panels, and of them so many steps
# along the inner axis: there are INNER_BLOCKS of those for each group of panels.
ROWS, INNER, ROW_STRIDE, INNER_STRIDE, OUT_STRIDE, PANELS = 4, 5, 6, 7, 8, 9
UNIT_PANELS, UNIT_INNER, PANEL_BLOCKS, INNER_BLOCKS, COUNTS = 10, 11, 12, 13, 14

# Where a line of `x` holds a step of many panels, it is read from end to end, so many of them at a time: fewer lines
# than a set of the first-level cache holds, and as many panels as make long stretches of the line, for few enough
# streams to write. The lines of the next unit are asked for meanwhile.
LINES, LINE_PANELS = 8, 16
# Elsewhere a line holds many steps of a row, and is asked for so many bytes ahead.
AHEAD = 512
# A unit packs at least about so many numbers.
UNIT_NUMBERS = 4096


def pack(low: Lowering, x: View, type: Type, heights: Sequence[int], counts: Sequence[int]) -> View:
    """Return the panels of x, of shape (batch..., rows, inner): `counts` of them of each of `heights`, in order.

    A matrix that is repeated along an axis of the batch is packed once.
    """
    *batch, rows, inner = x.shape
    once = x._replace(shape=(*(1 if s == 0 else n for n, s in zip(batch, x.strides)), rows, inner))
    layout = (type.text, tuple(heights), tuple(counts))
    panels = low.packed(once, layout, lambda: _pack(low, once, type, heights, counts))
    return panels.broadcast((*batch, panels.shape[-1]))


def _pack(low: Lowering, x: View, type: Type, heights: Sequence[int], counts: Sequence[int]) -> View:
    """Add the step that fills the panels of x, and return them."""
    *batch, rows, inner = x.shape
    held = sum(h * n for h, n in zip(heights, counts))
    out = low.temp((*batch, held * inner), numpy_dtype(type))
    if not out.size:
        return out
    *batch_strides, row_stride, inner_stride = x.strides
    how = "rows" if row_stride == 1 or rows == 1 else "inner" if inner_stride == 1 else "any"
    sizes = [n for pair in zip(batch, batch_strides) for n in pair]
    key = f"pack {how} {x.type.text} {type.text} {heights} {len(batch)}"
    kernel = low.kernel(key, lambda b: _write(b, x.type, type, heights, len(batch), how))
    panels = sum(counts)
    unit_panels, unit_inner = (min(panels, LINE_PANELS), LINES) if how == "rows" else (1, inner)
    panel_blocks, inner_blocks = -(-panels // unit_panels), -(-inner // unit_inner)
    low.step(
        kernel,
        [
            *(x, out, rows, inner, row_stride, inner_stride, held * inner, panels),
            *(unit_panels, unit_inner, panel_blocks, inner_blocks),
            *counts,
            *sizes,
        ],
        reads=[x],
        writes=[out],
        units=panel_blocks * inner_blocks * math.prod(batch),
        grain=max(1, UNIT_NUMBERS // (unit_panels * heights[0] * unit_inner)),
        label=f"pack {rows}x{inner}",
    )
    return out


def _write(b: Builder, source: Type, type: Type, heights: Sequence[int], batch_axes: int, how: str) -> None:
    """Write the packing kernel."""
    inner, row_stride, inner_stride = b.words(INNER, 3)
    row_stride = b.index(1) if how == "rows" else row_stride
    inner_stride = b.index(1) if how == "inner" else inner_stride
    with b.loop(b.lo, b.hi) as unit:
        blocks = b.word(INNER_BLOCKS)
        inner_block, rest = b.urem(unit.index, blocks), b.udiv(unit.index, blocks)
        blocks = b.word(PANEL_BLOCKS)
        panel_block, rest = b.urem(rest, blocks), b.udiv(rest, blocks)
        x, out = b.buffer(0), b.buffer(2)
        out = b.offset(out, b.mul(rest, b.word(OUT_STRIDE)), type)
        for axis in reversed(range(batch_axes)):
            at = COUNTS + len(heights) + 2 * axis
            size = b.word(at)
            x = b.offset(x, b.mul(b.urem(rest, size), b.word(at + 1)), source)
            rest = b.udiv(rest, size)
        begin = b.mul(inner_block, b.word(UNIT_INNER))
        end = b.imin(b.add(begin, b.word(UNIT_INNER)), inner)
        first_panel = b.mul(panel_block, b.word(UNIT_PANELS))
        last_panel = b.imin(b.add(first_panel, b.word(UNIT_PANELS)), b.word(PANELS))
        with b.loop(first_panel, last_panel) as panel:
            height, first = _panel(b, heights, panel.index)
            here = b.offset(x, b.mul(first, row_stride), source)
            to = b.offset(out, b.mul(first, inner), type)
            have = b.sub(b.word(ROWS), first)
            strides, steps = (row_stride, inner_stride), (begin, end)
            masked = lambda: _copy(b, source, type, how, here, to, strides, steps, height, have)
            if how == "any" or is_masked(b.target):
                masked()
            else:
                # Such a processor stores number by number under a mask. Most panels need none: they have all their rows
                # and are of the first height. A last one that lacks rows has memory for them.
                first_kind = b.icmp("slt", panel.index, b.word(COUNTS))
                whole = b.and_(first_kind, b.icmp("sge", have, b.index(heights[0])))
                with b.when(whole):
                    _copy_unmasked(b, source, type, how, here, to, strides, steps, heights[0], None)
                with b.when(b.not_(whole)):
                    if len(heights) > 1:
                        masked()
                    else:
                        _copy_unmasked(b, source, type, how, here, to, strides, steps, heights[0], have)


def _copy_unmasked(
    b: Builder,
    source: Type,
    type: Type,
    how: str,
    x: Value,
    out: Value,
    strides: tuple[Value, Value],
    steps: tuple[Value, Value],
    height: int,
    have: Value | None,
) -> None:
    """Copy some steps of a panel of a known height in whole vectors; `have` of its rows are there (None: all)."""
    lanes = b.target.lanes(type)
    row_stride, inner_stride = strides
    done, end = steps
    parts = _parts(height, lanes)

    def row_at(place: Value, row: int) -> Value:
        at = b.index(row) if have is None else b.imin(b.index(row), b.sub(have, b.index(1)))
        return b.offset(place, b.mul(at, row_stride), source)

    if how == "inner":
        squares = b.add(done, b.and_(b.sub(end, done), b.index(-lanes)))
        with b.loop(done, squares, lanes) as block:
            here = b.offset(x, block.index, source)
            for start in range(0, height, lanes):
                rows = []
                for r in range(start, min(start + lanes, height)):
                    row = row_at(here, r)
                    b.prefetch(b.offset(row, AHEAD // source.size, source))
                    rows.append(convert(b, b.load(source.vector(lanes), row), type))
                rows += [rows[-1]] * (lanes - len(rows))
                for k, column in enumerate(_transposed(b, rows)):
                    place = b.offset(out, b.mul(b.add(block.index, b.index(k)), b.index(height)), type)
                    for at, size in parts:
                        if start <= at < start + lanes:
                            piece = range(at - start, at - start + size)
                            part = column if size == lanes else b.shuffle(column, column, piece)
                            b.store(part, b.offset(place, at, type))
        done = squares
    masks = {at: b.fixed_mask(b.sub(have, b.index(at)), size) for at, size in parts} if have is not None else {}
    with b.loop(done, end) as step:
        here = b.offset(x, b.mul(step.index, inner_stride), source)
        place = b.offset(out, b.mul(step.index, b.index(height)), type)
        if how == "rows":
            later = b.offset(here, b.mul(inner_stride, b.index(LINES)), source)
            b.prefetch(b.offset(later, height - 1, source), level=2)
        for at, size in parts if how == "rows" else [(r, 1) for r in range(height)]:
            one = row_at(here, at) if size == 1 else b.offset(here, at, source)
            if size == 1:
                number = b.load(source, one)
            elif have is None:
                number = b.load(source.vector(size), one)
            else:
                number = b.masked_load(source.vector(size), one, masks[at])
            b.store(convert(b, number, type), b.offset(place, at, type))


def _parts(height: int, lanes: int) -> list[tuple[int, int]]:
    """Return where vectors begin that make up a panel's height, and how many numbers each holds."""
    found, at = [], 0
    while at < height:
        size = min(lanes, 1 << (height - at).bit_length() - 1)
        found.append((at, size))
        at += size
    return found


def _copy(
    b: Builder,
    source: Type,
    type: Type,
    how: str,
    x: Value,
    out: Value,
    strides: tuple[Value, Value],
    steps: tuple[Value, Value],
    height: Value,
    have: Value,
) -> None:
    """Copy some steps of one panel, of whose rows `have` are there, vectors of rows at a time."""
    lanes = b.target.lanes(type)
    row_stride, inner_stride = strides
    vector = source.vector(lanes)
    apart = b.mul(b.iota(I64.vector(lanes)), b.splat(row_stride, lanes))
    with b.loop(0, height, lanes) as part:
        read = b.fixed_mask(b.sub(have, part.index), lanes)
        write = b.fixed_mask(b.sub(height, part.index), lanes)
        start = b.offset(x, b.mul(part.index, row_stride), source)
        to = b.offset(out, part.index, type)
        done, end = steps
        if how == "inner":
            last = b.sub(b.imin(b.sub(have, part.index), b.sub(height, part.index)), b.index(1))
            squares = b.add(done, b.and_(b.sub(end, done), b.index(-lanes)))
            with b.loop(done, squares, lanes) as block:
                rows = []
                for r in range(lanes):
                    row = b.offset(x, b.mul(b.add(part.index, b.imin(b.index(r), last)), row_stride), source)
                    row = b.offset(row, block.index, source)
                    b.prefetch(b.offset(row, AHEAD // source.size, source))
                    rows.append(convert(b, b.load(vector, row), type))
                place = b.offset(to, b.mul(block.index, height), type)
                for column in _transposed(b, rows):
                    b.masked_store(column, place, write)
                    place = b.offset(place, height, type)
            done = squares
        with b.loop(done, end) as k:
            at_k = b.offset(start, b.mul(k.index, inner_stride), source)
            if how == "rows":
                later = b.offset(at_k, b.mul(inner_stride, b.index(LINES)), source)
                b.prefetch(b.offset(later, lanes - 1, source), level=2)
            v = b.masked_load(vector, at_k, read) if how == "rows" else b.gather(vector, at_k, apart, read)
            b.masked_store(convert(b, v, type), b.offset(to, b.mul(k.index, height), type), write)


def _panel(b: Builder, heights: Sequence[int], panel: Value) -> tuple[Value, Value]:
    """Return the height of a panel and its first row."""
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
    """Transpose a square of numbers in registers, as Eklundh does: off-diagonal halves, then quarters, and so on."""
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
