"""Scatters: elements and rows that are put, or added up, where integer arrays say.

Additions to one place happen in the order of the index arrays, as in the op's definition: units of
a scatter are blocks of columns, or separate lines, never parts of the index array. So results do
not depend on how units are shared out.

What is added to one place many times loses digits, and in half precision stops growing soon. So, if there are more
additions than a sum may have in a row, or the numbers are of half precision:

- where there are few places for the additions, a table in float64 takes them, which is rounded at the end;
- elsewhere such a table would cost more than the additions. The rows are sorted by place, in their order (a radix sort
  of the index alone), and each place's rows are added up in registers, in blocks. Of float32 that is done if a place
  has too many: rows are counted by the last digits of their places first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ....core.node import Node
from ....ops.long_sums import FEW, LONGEST, MANY
from ..codegen.builder import Builder, Value
from ..codegen.types import F32, I8, I32, I64, Type
from ..codegen.walk import axis_words, cover, partition, walk
from ..plan.lowering import Lowering, lowers
from ..plan.plan import View, dense
from ..scalar.fp16 import convert
from .copies import as_parts, as_words, copy_step, fill_step, operand
from .gather import PIECES, accumulate, addable, aligned, piece_bounds, places, split_axes

# The bits of a digit of the radix sort, and how many counters tell places with many additions.
_DIGIT = 8
_COUNTERS, _PER_COUNTER = 1024, 64


def _is_half(type: Type) -> bool:
    return type.is_float and type.bits == 16


def _narrow_step(low: Lowering, node: Node, wide: View, out: View) -> None:
    """Add the step that rounds `wide` to `out`, both contiguous."""
    units = min(PIECES, -(-out.size // 4096))
    have, want = wide.type, out.type

    def build(b: Builder) -> None:
        source, target, total, units = b.buffer(0), b.buffer(2), b.word(4), b.word(5)
        with b.loop(b.lo, b.hi) as pieces:
            start, stop = piece_bounds(b, pieces.index, total, units)
            here, there = b.offset(source, start, have), b.offset(target, start, want)

            def piece(j: Value, n: int) -> None:
                x = b.load(have.vector(n), b.offset(here, j, have), have.size)
                b.store(convert(b, x, want), b.offset(there, j, want), want.size)

            cover(b, b.sub(stop, start), b.target.lanes(want), piece)

    kernel = low.kernel(f"narrow {have.text} {want.text}", build)
    low.step(kernel, [wide, out, out.size, units], units=units, reads=[wide], writes=[out], nodes=[node])


# -- rows


@lowers("index_transpose")
def _index_transpose(low: Lowering, node: Node) -> View | None:
    ct, *indices = (low.view(e) for e in node.inputs)
    sizes, axis = node.attrs["sizes"], node.attrs["axis"]
    if not addable(ct.dtype):
        return None
    after = len(node.spec.shape) + axis + len(sizes)
    out = low.temp(node.spec.shape, ct.dtype)
    lead = out.shape[: after - len(sizes)]
    values, target = as_parts(ct), as_parts(out)
    run = math.prod(target.shape[len(lead) + len(sizes) :])
    count = math.prod(np.broadcast_shapes(*(i.shape for i in indices)))
    type = target.type
    is_few = math.prod(sizes) * FEW <= count
    loses = type.is_float and type.bits < 64 and count > (1 if _is_half(type) else LONGEST if is_few else MANY)
    if loses and is_few:
        wide = low.temp(target.shape, np.float64 if count > LONGEST else np.float32)
        fill_step(low, wide, 0, nodes=[node])
        _scatter(low, node, "add", values, wide, indices, lead, sizes, run)
        if target.size:
            _narrow_step(low, node, wide, target)
        return out
    fill_step(low, out, 0, nodes=[node])
    if loses:
        _add_sorted(low, node, values, target, indices, lead, sizes, run)
    else:
        _scatter(low, node, "add", values, target, indices, lead, sizes, run)
    return out


@lowers("index_update", raises=True)
def _index_update(low: Lowering, node: Node) -> View | None:
    x, *indices = (low.view(node.inputs[0]), *(low.view(e) for e in node.inputs[2:]))
    value = operand(low, node.inputs[1], x.dtype)
    lead, sizes, tail = split_axes(x, node.attrs["axis"], len(indices))
    out = low.temp(x.shape, x.dtype)
    copy_step(low, x, out, nodes=[node])
    common = np.broadcast_shapes(*(i.shape for i in indices))
    values, target = as_words(as_parts(value.broadcast((*lead, *common, *tail)))), as_words(as_parts(out))
    _scatter(low, node, "set", values, target, indices, lead, sizes, math.prod(target.shape[len(lead) + len(sizes) :]))
    return out


def _flat(low: Lowering, values: View, shape: tuple[int, int, int]) -> View:
    """Return rows as (leading axes as one, rows, run), each row side by side."""
    flat = values.reshape(shape)
    if flat is None or (shape[2] > 1 and flat.strides[2] != 1):
        flat = low.copy(values).reshape(shape)
        assert flat is not None
    return flat


def _blocks(run: int) -> tuple[int, int]:
    """Return the columns of a unit, and how many such units make a row."""
    block = 64 if run >= 128 else max(16, -(-run // 2))
    return block, max(1, run // block)


def _scatter(
    low: Lowering,
    node: Node,
    how: Literal["add", "set"],
    values: View,
    target: View,
    indices: Sequence[View],
    lead: Sequence[int],
    sizes: Sequence[int],
    run: int,
) -> None:
    """Put the rows of `values` (lead, indices' shape, tail) into `target` (lead, sizes, tail), in order."""
    where = places(low, node, indices, sizes, tuple(s * run for s in dense(sizes)), len(lead))
    if where is None or where.size == 0 or target.size == 0:
        return
    flat = _flat(low, values, (math.prod(lead), where.size, run))
    block, blocks = _blocks(run)
    axes = axis_words([math.prod(lead), blocks], [flat.strides[0], block], [math.prod(sizes) * run, block], [0, block])
    words: list[int | View] = [flat, target, where, where.size, flat.strides[1], run, block, *axes]
    type, into = flat.type, target.type
    # Elements need no loop over a row's columns.
    is_one = run == 1

    def build(b: Builder) -> None:
        source, target, where = b.buffer(0), b.buffer(2), b.buffer(4)
        count, pitch, run, block = b.words(6, 4)
        final = b.sub(b.word(14), b.index(1))
        with walk(b, 10, 2, 3) as at:
            which = at.coordinates[-1]
            columns = b.select(b.icmp("eq", which, final), b.sub(run, at.offsets[2]), block)
            here, there = b.offset(source, at.offsets[0], type), b.offset(target, at.offsets[1], into)
            with b.loop(0, count) as row:
                place = b.load(I64, b.offset(where, row.index, I64))
                new = b.offset(here, b.mul(row.index, pitch), type)
                _put_row(b, how, new, type, b.offset(there, place, into), into, None if is_one else columns)

    kernel = low.kernel(f"scatter {how} {into.text} {type.text}{' one' if is_one else ''}", build)
    units = math.prod(lead) * blocks
    low.step(kernel, words, units=units, reads=[flat, where, target], writes=[target], nodes=[node])


def _put_row(b: Builder, how: str, new: Value, type: Type, old: Value, into: Type, columns: Value | None) -> None:
    """Put the elements at `new` to those at `old`, so many columns, or one (None)."""

    def piece(j: Value, n: int) -> None:
        x = b.load(type.vector(n), b.offset(new, j, type), type.size)
        accumulate(b, how, into, b.offset(old, j, into), x)

    if columns is None:
        piece(b.index(0), 1)
    else:
        partition(b, columns, b.target.lanes(into), piece)


# -- rows sorted by place


def _add_sorted(
    low: Lowering,
    node: Node,
    values: View,
    target: View,
    indices: Sequence[View],
    lead: Sequence[int],
    sizes: Sequence[int],
    run: int,
) -> None:
    """Add the rows of `values` to those of `target` place by place, if a place has many of them."""
    where = places(low, node, indices, sizes, dense(sizes), len(lead))
    if where is None or where.size == 0 or target.size == 0:
        return
    always = _is_half(target.type)
    order, starts, info = _sorted(low, node, where, math.prod(sizes), always)
    flat = _flat(low, values, (math.prod(lead), where.size, run))
    block, blocks = _blocks(run)
    axes = axis_words([math.prod(lead), blocks], [flat.strides[0], block], [math.prod(sizes) * run, block], [0, block])
    words: list[int | View] = [flat, target, where, order, starts, info]
    words += [where.size, flat.strides[1], run, block, *axes]
    type, work = flat.type, F32
    is_one = run == 1

    def build(b: Builder) -> None:
        source, target, where, order, starts, info = (b.buffer(2 * k) for k in range(6))
        count, pitch, run, block = b.words(12, 4)
        final = b.sub(b.word(20), b.index(1))
        segments, is_sorted = (b.load(I64, b.offset(info, k, I64)) for k in range(2))

        def by_place(here: Value, there: Value, columns: Value | None) -> None:
            with b.loop(0, segments) as segment:
                start = b.load(I64, b.offset(starts, segment.index, I64))
                stop = b.load(I64, b.offset(starts, b.add(segment.index, b.index(1)), I64))
                place = b.load(I64, b.offset(where, b.load(I64, b.offset(order, start, I64)), I64))
                old = b.offset(there, b.mul(place, run), type)

                def piece(j: Value, n: int) -> None:
                    zero = b.const(work.vector(n), 0)
                    with b.loop(start, stop, LONGEST, [zero]) as blocks:
                        end = b.imin(b.add(blocks.index, b.index(LONGEST)), stop)
                        with b.loop(blocks.index, end, carried=[zero]) as rows:
                            number = b.load(I64, b.offset(order, rows.index, I64))
                            at = b.offset(here, b.add(b.mul(number, pitch), j), type)
                            x = convert(b, b.load(type.vector(n), at, type.size), work)
                            rows.carry(b.fadd(rows.values[0], x))
                        blocks.carry(b.fadd(blocks.values[0], rows.results[0]))
                    b.store(convert(b, blocks.results[0], type), b.offset(old, j, type), type.size)

                if columns is None:
                    piece(b.index(0), 1)
                else:
                    partition(b, columns, 2 * b.target.lanes(work), piece)

        def in_order(here: Value, there: Value, columns: Value | None) -> None:
            with b.loop(0, count) as row:
                place = b.mul(b.load(I64, b.offset(where, row.index, I64)), run)
                new, old = b.offset(here, b.mul(row.index, pitch), type), b.offset(there, place, type)
                _put_row(b, "add", new, type, old, type, columns)

        with walk(b, 16, 2, 3) as at:
            which = at.coordinates[-1]
            width = b.select(b.icmp("eq", which, final), b.sub(run, at.offsets[2]), block)
            columns = None if is_one else width
            here, there = b.offset(source, at.offsets[0], type), b.offset(target, at.offsets[1], type)
            if always:
                by_place(here, there, columns)
                return
            sorts = b.icmp("ne", is_sorted, b.index(0))
            with b.when(sorts):
                by_place(here, there, columns)
            with b.when(b.not_(sorts)):
                in_order(here, there, columns)

    kernel = low.kernel(f"scatter sorted {type.text}{' one' if is_one else ''}", build)
    units = math.prod(lead) * blocks
    reads = [flat, where, order, starts, info, target]
    low.step(kernel, words, units=units, reads=reads, writes=[target], nodes=[node])


def _sorted(low: Lowering, node: Node, where: View, size: int, always: bool) -> tuple[View, View, View]:
    """Return the order of rows by place, where each place begins in it, and how many there are with whether it is done.

    It is done `always`, or if a place seems to have more than `LONGEST` rows.
    """
    n = where.size
    order, spare, starts, info = (low.temp((k,), np.int64) for k in (n, n, n + 1, 2))
    passes = max(1, -(-(size - 1).bit_length() // _DIGIT))
    counters = 1 << max(_COUNTERS, n // _PER_COUNTER).bit_length() - 1
    counts = low.temp((1 if always else counters,), np.int32)
    words: list[int | View] = [where, order, spare, starts, info, counts, n, counters]

    def build(b: Builder) -> None:
        where, order, spare, starts, info, counts = (b.buffer(2 * k) for k in range(6))
        n, counters = b.words(12, 2)
        digits = b.local(I64, 1 << _DIGIT)

        def sort() -> None:
            source: Value | None = None
            for k in range(passes):
                target = order if (passes - k) % 2 else spare
                _sort_by_digit(b, where, source, target, n, digits, k)
                source = target
            _mark_starts(b, where, order, starts, info, n)

        if always:
            sort()
            return
        b.store(b.index(0), b.offset(info, b.index(1), I64))
        with b.loop(0, counters) as zeros:
            b.store(b.const(I32, 0), b.offset(counts, zeros.index, I32))
        mask = b.sub(counters, b.index(1))
        with b.loop(0, n, carried=[b.const(I32, 0)]) as rows:
            place = b.load(I64, b.offset(where, rows.index, I64))
            counter = b.offset(counts, b.and_(place, mask), I32)
            found = b.add(b.load(I32, counter), b.const(I32, 1))
            b.store(found, counter)
            rows.carry(b.imax(rows.values[0], found))
        with b.when(b.icmp("sgt", rows.results[0], b.const(I32, LONGEST))):
            b.store(b.index(1), b.offset(info, b.index(1), I64))
            sort()

    kernel = low.kernel(f"order of places {passes}{' always' if always else ''}", build)
    low.step(kernel, words, reads=[where], writes=[order, spare, starts, info, counts], nodes=[node])
    return order, starts, info


def _sort_by_digit(
    b: Builder, where: Value, source: Value | None, target: Value, n: Value, counts: Value, digit: int
) -> None:
    """Write the pass of a radix sort by one digit of the places: rows in `target`, those of a digit in their order."""
    size = 1 << _DIGIT
    at = lambda k: b.offset(counts, k, I64)

    def row(i: Value) -> tuple[Value, Value]:
        number = i if source is None else b.load(I64, b.offset(source, i, I64))
        place = b.load(I64, b.offset(where, number, I64))
        return number, b.and_(b.lshr(place, b.index(_DIGIT * digit)), b.index(size - 1))

    with b.loop(0, size) as zeros:
        b.store(b.index(0), at(zeros.index))
    with b.loop(0, n) as rows:
        _, found = row(rows.index)
        b.store(b.add(b.load(I64, at(found)), b.index(1)), at(found))
    with b.loop(0, size, carried=[b.index(0)]) as sums:
        (before,) = sums.values
        own = b.load(I64, at(sums.index))
        b.store(before, at(sums.index))
        sums.carry(b.add(before, own))
    with b.loop(0, n) as rows:
        number, found = row(rows.index)
        to = b.load(I64, at(found))
        b.store(number, b.offset(target, to, I64))
        b.store(b.add(to, b.index(1)), at(found))


def _mark_starts(b: Builder, where: Value, order: Value, starts: Value, info: Value, n: Value) -> None:
    """Write where the rows of each place begin, the end of all, and how many places there are."""
    with b.loop(0, n, carried=[b.index(-1), b.index(0)]) as rows:
        last, count = rows.values
        place = b.load(I64, b.offset(where, b.load(I64, b.offset(order, rows.index, I64)), I64))
        is_new = b.icmp("ne", place, last)
        with b.when(is_new):
            b.store(rows.index, b.offset(starts, count, I64))
        rows.carry(place, b.add(count, b.cast("zext", is_new, I64)))
    b.store(n, b.offset(starts, rows.results[1], I64))
    b.store(rows.results[1], b.offset(info, b.index(0), I64))


@lowers("index_is_last")
def _index_is_last(low: Lowering, node: Node) -> View | None:
    """Return the mask of the index's last writes: each element writes its number, and those still there were last."""
    indices = [low.view(e) for e in node.inputs]
    sizes = node.attrs["sizes"]
    out = low.temp(node.spec.shape, node.spec.dtype)
    where = places(low, node, indices, sizes, dense(sizes), 0)
    if where is None or out.size == 0:
        return out
    writer = low.temp((math.prod(sizes),), np.int64)

    def build(b: Builder) -> None:
        where, writer, target, count = b.buffer(0), b.buffer(2), b.buffer(4), b.word(6)
        with b.loop(0, count) as first:
            place = b.load(I64, b.offset(where, first.index, I64))
            b.store(first.index, b.offset(writer, place, I64))
        with b.loop(0, count) as second:
            place = b.load(I64, b.offset(where, second.index, I64))
            last = b.load(I64, b.offset(writer, place, I64))
            b.store(b.cast("zext", b.icmp("eq", last, second.index), I8), b.offset(target, second.index, I8))

    words: list[int | View] = [where, writer, out, where.size]
    low.step(low.kernel("index is last", build), words, reads=[where], writes=[writer, out], nodes=[node])
    return out


# -- elements along an axis


@lowers("gather_transpose")
def _gather_transpose(low: Lowering, node: Node) -> View | None:
    ct, index = (low.view(e) for e in node.inputs)
    at = len(ct.shape) + node.attrs["axis"]
    if not addable(ct.dtype):
        return None
    out = low.temp(node.spec.shape, ct.dtype)
    values, target = as_parts(ct), as_parts(out)
    # A single write along the axis keeps what it writes, also -0.
    how: Literal["add", "set"] = "add" if ct.shape[at] > 1 else "set"
    type, count = target.type, ct.shape[at]
    if type.is_float and type.bits < 64 and count > (1 if _is_half(type) else MANY):
        wide = low.temp(target.shape, np.float32 if count <= MANY else np.float64)
        fill_step(low, wide, 0, nodes=[node])
        aligned(low, node, how, wide, index, values, at)
        if target.size:
            _narrow_step(low, node, wide, target)
        return out
    fill_step(low, out, 0, nodes=[node])
    aligned(low, node, how, target, index, values, at)
    return out
