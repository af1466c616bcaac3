"""Packing: a matrix copied to panels that lie in the order in which tiles of a product read them.

A panel holds a few rows of `x` (of A: a tile's rows; of B: a panel's columns, its transpose's rows),
step by step along the inner axis: element (k, r) of a panel of height h is at `k * h + r`. What lacks
to a last panel of full height is anything: no tile stores what comes of it. Half-precision numbers
may become float32 on the way.

Pairs of numbers that follow each other along the inner axis take the place of numbers where products take pairs, and
what lacks to a last pair is 0. Which numbers are the smallest (:mod:`...scalar.pairs`) is found out meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...codegen.builder import Builder, Value, as_bits
from ...codegen.types import I8, I16, I32, I64, Type
from ...plan.lowering import Lowering
from ...plan.plan import View
from ...scalar.fp16 import convert
from ...scalar.pairs import joined, nothing, smallest, smallest_of_lanes
from .tiles import is_masked, numpy_dtype

# The record: x, the panels (two words each); then these. A unit packs so many panels, and of them so many steps
# along the inner axis: there are INNER_BLOCKS of those for each group of panels. After the counts stand the sizes and
# strides of the batch; then, of pairs, where a word for each unit goes that says what its smallest number is.
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


class Panels(NamedTuple):
    """An operand in panels; of pairs, the words the least of which says what its smallest number is."""

    view: View
    smallest: View | None = None


def pack(low: Lowering, x: View, type: Type, heights: Sequence[int], counts: Sequence[int], per: int = 1) -> Panels:
    """Return the panels of x, of shape (batch..., rows, inner): `counts` of them of each of `heights`, in order.

    Their numbers are of `type`, `per` of them (1 or 2) side by side. A matrix that is repeated along an axis of the
    batch is packed once.
    """
    *batch, rows, inner = x.shape
    once = x._replace(shape=(*(1 if s == 0 else n for n, s in zip(batch, x.strides)), rows, inner))
    layout = (type.text, tuple(heights), tuple(counts), per)
    panels, smallest = low.packed(once, layout, lambda: _pack(low, once, type, heights, counts, per))
    return Panels(panels.broadcast((*batch, panels.shape[-1])), smallest)


def _pack(low: Lowering, x: View, type: Type, heights: Sequence[int], counts: Sequence[int], per: int) -> Panels:
    """Add the step that fills the panels of x, and return them."""
    *batch, rows, inner = x.shape
    steps = -(-inner // per)
    held = sum(h * n for h, n in zip(heights, counts))
    out = low.temp((*batch, held * steps * per), x.dtype if type == x.type else numpy_dtype(type))
    if not out.size:
        return Panels(out)
    *batch_strides, row_stride, inner_stride = x.strides
    how = order_of(x)
    sizes = [n for pair in zip(batch, batch_strides) for n in pair]
    paired = " pairs" if per > 1 else ""
    key = f"pack {how} {x.type.text} {type.text}{paired} {heights} {len(batch)}"
    kernel = low.kernel(key, lambda b: _write(b, x.type, type, heights, len(batch), how, per))
    panels = sum(counts)
    unit_panels, unit_inner = (min(panels, LINE_PANELS), LINES // per) if how == "rows" else (1, steps)
    panel_blocks, inner_blocks = -(-panels // unit_panels), -(-steps // unit_inner)
    units = panel_blocks * inner_blocks * math.prod(batch)
    words = low.temp((units,), np.int64) if per > 1 else None
    low.step(
        kernel,
        [
            *(x, out, rows, inner, row_stride, inner_stride, held * steps * per, panels),
            *(unit_panels, unit_inner, panel_blocks, inner_blocks),
            *counts,
            *sizes,
            *([] if words is None else [words]),
        ],
        reads=[x],
        writes=[out] if words is None else [out, words],
        units=units,
        grain=max(1, UNIT_NUMBERS // (unit_panels * heights[0] * unit_inner)),
        label=f"pack {rows}x{inner}",
    )
    return Panels(out, words)


def _write(b: Builder, source: Type, type: Type, heights: Sequence[int], batch_axes: int, how: str, per: int) -> None:
    """Write the packing kernel."""
    inner, row_stride, inner_stride = b.words(INNER, 3)
    steps_all = inner if per == 1 else b.lshr(b.add(inner, b.index(1)), b.index(1))
    if source == type:
        source = type = as_bits(type)
    lanes = b.target.lanes(I32)
    least = b.local(I16, 2 * lanes) if per > 1 else None
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
        end = b.imin(b.add(begin, b.word(UNIT_INNER)), steps_all)
        first_panel = b.mul(panel_block, b.word(UNIT_PANELS))
        last_panel = b.imin(b.add(first_panel, b.word(UNIT_PANELS)), b.word(PANELS))
        if least is not None:
            b.store(nothing(b, lanes), least)
        with b.loop(first_panel, last_panel) as panel:
            height, first = panel_of(b, heights, panel.index, COUNTS)
            here = b.offset(x, b.mul(first, row_stride), source)
            to = b.offset(out, b.mul(first, b.mul(steps_all, b.index(per))), type)
            have = b.sub(b.word(ROWS), first)
            strides, steps = (row_stride, inner_stride), (begin, end)
            if least is not None:
                _copy_pairs(b, how, here, to, strides, steps, (height, have, inner), least)
            else:
                is_first_kind = b.icmp("slt", panel.index, b.word(COUNTS))
                copy_panel(b, source, type, how, here, to, strides, steps, heights, (height, have, is_first_kind))
        if least is not None:
            words = b.buffer(COUNTS + len(heights) + 2 * batch_axes)
            b.store(smallest_of_lanes(b, b.load(I16.vector(2 * lanes), least)), b.offset(words, unit.index, I64))


def copy_panel(
    b: Builder,
    source: Type,
    type: Type,
    how: str,
    x: Value,
    out: Value,
    strides: tuple[Value, Value],
    steps: tuple[Value, Value],
    heights: Sequence[int],
    panel: tuple[Value, Value, Value],
) -> None:
    """Copy some steps of a panel: of this height, with so many rows there, and whether it is of the first height.

    `how` says which axis of `x` lies in order: "rows", the "inner" one, or "any" where neither does.
    """
    height, have, is_first_kind = panel
    masked = lambda: _copy(b, source, type, how, x, out, strides, steps, height, have)
    if how == "any" or is_masked(b.target):
        masked()
        return
    # Such a processor stores number by number under a mask. Most panels need none: they have all their rows
    # and are of the first height. A last one that lacks rows has memory for them.
    whole = b.and_(is_first_kind, b.icmp("sge", have, b.index(heights[0])))
    with b.when(whole):
        _copy_unmasked(b, source, type, how, x, out, strides, steps, heights[0], None)
    with b.when(b.not_(whole)):
        if len(heights) > 1:
            masked()
        else:
            _copy_unmasked(b, source, type, how, x, out, strides, steps, heights[0], have)


def order_of(x: View) -> str:
    """Return which of the last two axes of an array lies in order: "rows", "inner" or "any"."""
    row_stride, inner_stride = x.strides[-2:]
    return "rows" if row_stride == 1 or x.shape[-2] == 1 else "inner" if inner_stride == 1 else "any"


def _lanes(b: Builder, type: Type) -> int:
    """Return the numbers that are copied together: numbers of 16 bits are not more than others."""
    return min(b.target.lanes(type), b.target.lanes(I32))


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
    lanes = _lanes(b, type)
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
                for k, column in enumerate(transposed(b, rows)):
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
    lanes = _lanes(b, type)
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
                for column in transposed(b, rows):
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


def _copy_pairs(
    b: Builder,
    how: str,
    x: Value,
    out: Value,
    strides: tuple[Value, Value],
    steps: tuple[Value, Value],
    sizes: tuple[Value, Value, Value],
    least: Value,
) -> None:
    """Copy some steps of pairs of one panel; note the smallest of the numbers where `least` is.

    `sizes` are the panel's height, how many of its rows are there, and the numbers along the inner axis.
    """
    lanes = b.target.lanes(I32)
    pairs, halves = I32.vector(lanes), I16.vector(lanes)
    row_stride, inner_stride = strides
    height, have, inner = sizes
    begin, end = steps
    whole = b.imin(end, b.lshr(inner, b.index(1)))
    apart = b.mul(b.iota(I64.vector(lanes)), b.splat(row_stride, lanes))
    with b.loop(0, height, lanes) as part:
        left = b.sub(have, part.index)
        read = b.fixed_mask(left, lanes)
        write = b.fixed_mask(b.sub(height, part.index), lanes)
        start = b.offset(x, b.mul(part.index, row_stride), I16)
        to = b.offset(out, part.index, I32)
        found, done = nothing(b, lanes), begin
        if how == "inner":
            last = b.sub(b.imin(left, b.sub(height, part.index)), b.index(1))
            done = b.add(begin, b.and_(b.sub(whole, begin), b.index(-lanes)))
            with b.loop(begin, done, lanes, [found]) as block:
                rows = []
                for r in range(lanes):
                    row = b.offset(start, b.mul(b.imin(b.index(r), last), row_stride), I16)
                    row = b.offset(row, block.index, I32)
                    b.prefetch(b.offset(row, AHEAD, I8))
                    rows.append(b.load(pairs, row, align=I16.size))
                place = b.offset(to, b.mul(block.index, height), I32)
                for column in transposed(b, rows):
                    b.masked_store(column, place, write)
                    place = b.offset(place, height, I32)
                block.carry(smallest(b, rows, block.values[0]))
            (found,) = block.results

        def step(k: Value, so_far: Value, is_whole: bool) -> Value:
            at = b.offset(start, b.mul(b.add(k, k), inner_stride), I16)

            def load(pointer: Value) -> Value:
                return b.masked_load(halves, pointer, read) if how == "rows" else b.gather(halves, pointer, apart, read)

            if how == "rows":
                b.prefetch(b.offset(b.offset(at, b.mul(inner_stride, b.index(LINES)), I16), lanes - 1, I16), level=2)
            second = load(b.offset(at, inner_stride, I16)) if is_whole else b.const(halves, 0)
            pair = joined(b, load(at), second)
            b.masked_store(pair, b.offset(to, b.mul(k, height), I32), write)
            return smallest(b, [pair], so_far)

        with b.loop(done, whole, 1, [found]) as k:
            k.carry(step(k.index, k.values[0], True))
        (found,) = b.either(
            b.icmp("slt", whole, end), lambda: [step(whole, k.results[0], False)], lambda: [k.results[0]]
        )
        b.store(b.intrinsic("umin", found, b.load(found.type, least)), least)


def panel_of(b: Builder, heights: Sequence[int], panel: Value, counts: int) -> tuple[Value, Value]:
    """Return the height of a panel and its first row; the counts of panels begin at word `counts`."""
    height, first = b.index(heights[0]), b.mul(panel, b.index(heights[0]))
    if len(heights) == 1:
        return height, first
    before, row = b.index(0), b.index(0)
    for kind, h in enumerate(heights):
        count = b.word(counts + kind)
        here = b.icmp("sge", panel, before)
        height = b.select(here, b.index(h), height)
        first = b.select(here, b.add(row, b.mul(b.sub(panel, before), b.index(h))), first)
        before, row = b.add(before, count), b.add(row, b.mul(count, b.index(h)))
    return height, first


def transposed(b: Builder, rows: list[Value]) -> list[Value]:
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
