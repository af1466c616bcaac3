"""Gathers: elements and rows that integer arrays name. The transposes are scatters, in the module of that name.

Index arrays become *places* first: for every element the offset, in elements, that it means, checked
and with negative indices wrapped. A place out of range is replaced by 0, so that nothing is ever read
or written outside, and a flag is set; the check that raises the op's own error stands behind it in
the plan and runs where a flag is set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ....core.node import Node
from ..codegen.builder import Builder, Value
from ..codegen.types import I1, I8, I64, Type, storage_type
from ..codegen.walk import axis_words, copy_run, fill_run, partition, walk
from ..plan.host_calls import check_call, range_call
from ..plan.lowering import Lowering, lowers
from ..plan.plan import View, dense
from ..rewrite.checks import called
from ..scalar.fp16 import convert
from .copies import UNIT_BYTES, as_words, joined

# The most pieces that a checked pass is cut into: each has a flag of its own.
PIECES = 64
# So many places of constant indices are a part of the program; more would be kept for what little time they take.
MOST_KNOWN = 1 << 18


# -- indices


def is_signed(dtype: np.dtype[Any]) -> bool:
    """Return whether numbers of a dtype are signed integers."""
    return dtype.kind == "i"


def wrapped(b: Builder, index: Value, size: Value, signed: bool) -> tuple[Value, Value]:
    """Return indices as places from 0 to size - 1 (0 where out of range), and the mask of those out of range."""
    type = I64.vector(index.type.lanes)
    x = index if index.type == type else b.cast("sext" if signed else "zext", index, I64)
    zero, size = b.const(type, 0), b.splat(size, type.lanes)
    if signed:
        x = b.select(b.icmp("slt", x, zero), b.add(x, size), x)
    outside = b.icmp("uge", x, size)
    return b.select(outside, zero, x), outside


def any_lane(b: Builder, x: Value) -> Value:
    """Return whether any lane of a vector of truth values is true."""
    if not x.type.lanes:
        return x
    bits = b.cast("bitcast", x, Type("i", x.type.lanes))
    return b.icmp("ne", bits, b.const(bits.type, 0))


def add_check(
    low: Lowering, node: Node, indices: Sequence[View], sizes: Sequence[int], axis: int, when: View | None
) -> None:
    """Add the check that raises the error of an index out of range, unless a step before has made it.

    `when` are the flags of a kernel that has read the indices: whether any of them was out of range.
    """
    if all(low.is_in_range(i, n) for i, n in zip(indices, sizes, strict=True)):
        return
    reads = [*indices] if when is None else [*indices, when]
    low.step(range_call(called(node), tuple(sizes), axis, when), indices, reads=reads, writes=[], nodes=[node])
    low.note_in_range(zip(indices, sizes, strict=True))


def places(
    low: Lowering, node: Node, indices: Sequence[View], sizes: Sequence[int], strides: Sequence[int], axis: int
) -> View | None:
    """Return the offsets that index arrays over axes of `sizes` and `strides` mean, one after the other.

    None where the axes have no elements but the indices have: then only the error is left.
    """
    common = np.broadcast_shapes(*(i.shape for i in indices))
    out = low.temp((math.prod(common),), np.int64)
    if out.size == 0:
        return out
    if 0 in sizes:
        add_check(low, node, indices, sizes, axis, None)
        return None
    if out.size <= MOST_KNOWN and all(i.buffer.kind == "constant" for i in indices):
        known = _known_places(indices, sizes, strides)
        if known is not None:
            return low.made(("places", tuple(indices), tuple(sizes), tuple(strides)), lambda: known)
    units = min(PIECES, -(-out.size // 4096))
    flags = low.temp((units,), np.int64)
    shape, steps = joined(common, *(i.broadcast(common).strides for i in indices))
    count, dtypes = len(indices), [i.dtype for i in indices]
    # Arrays that all lie in order need no walk.
    flat = all(s in ([], [1]) for s in steps)
    rank = 0 if flat else len(shape)
    words: list[int | View] = [out, flags, out.size, units]
    for index, n, s in zip(indices, sizes, strides, strict=True):
        words += [index, n, s]
    words += [] if flat else axis_words(shape, *steps)

    def build(b: Builder) -> None:
        target, flags, total, units = b.buffer(0), b.buffer(2), b.word(4), b.word(5)
        sources = [b.buffer(6 + 4 * k) for k in range(count)]
        extents = [b.words(8 + 4 * k, 2) for k in range(count)]

        def some(at: Value, offsets: Sequence[Value], n: int, flag: Value) -> None:
            """Write the `n` places from number `at`, whose indices are at `offsets`."""
            type = I64.vector(n)
            place, wrong = b.const(type, 0), b.const(I1.vector(n), False)
            for source, o, (size, stride), dtype in zip(sources, offsets, extents, dtypes, strict=True):
                itype = Type("i", 8 * dtype.itemsize)
                index = b.load(itype.vector(n), b.offset(source, o, itype), itype.size)
                i, outside = wrapped(b, index, size, is_signed(dtype))
                place, wrong = b.add(place, b.mul(i, b.splat(stride, n))), b.or_(wrong, outside)
            b.store(place, b.offset(target, at, I64), I64.size)
            with b.when(any_lane(b, wrong)):
                b.store(b.index(1), flag)

        with b.loop(b.lo, b.hi) as pieces:
            flag = b.offset(flags, pieces.index, I64)
            b.store(b.index(0), flag)
            start, stop = piece_bounds(b, pieces.index, total, units)
            if flat:

                def piece(j: Value, n: int) -> None:
                    at = b.add(start, j)
                    some(at, [at] * count, n, flag)

                partition(b, b.sub(stop, start), b.target.lanes(I64), piece)
            else:
                with walk(b, 6 + 4 * count, rank, count, start, stop) as at:
                    some(at.number, at.offsets, 1, flag)

    kernel = low.kernel(f"places {'flat' if flat else rank} {' '.join(d.str[1:] for d in dtypes)}", build)
    low.step(kernel, words, reads=indices, writes=[out, flags], units=units, nodes=[node])
    add_check(low, node, indices, sizes, axis, flags)
    return out


def _known_places(
    indices: Sequence[View], sizes: Sequence[int], strides: Sequence[int]
) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Return the offsets that constant index arrays mean; None where one is out of range, which every call says."""
    total: Any = np.zeros((), np.int64)
    for view, size, stride in zip(indices, sizes, strides, strict=True):
        elements = np.ascontiguousarray(view.buffer.array).reshape(-1).view(view.dtype)[view.offset :]
        steps = [s * view.dtype.itemsize for s in view.strides]
        index = np.lib.stride_tricks.as_strided(elements, view.shape, steps)
        if int(index.min()) < -size or int(index.max()) >= size:
            return None
        wide = index.astype(np.int64)
        total = total + np.where(wide < 0, wide + size, wide) * stride
    return np.ascontiguousarray(total).reshape(-1)


def piece_bounds(b: Builder, unit: Value, total: Value, units: Value) -> tuple[Value, Value]:
    """Return the part of `total` positions that is a unit's."""
    return b.udiv(b.mul(unit, total), units), b.udiv(b.mul(b.add(unit, b.index(1)), total), units)


# -- index: rows that index arrays name


def split_axes(x: View, axis: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of the axes before `count` axes from `axis`, of these, and of those after."""
    at = len(x.shape) + axis
    return x.shape[:at], x.shape[at : at + count], x.shape[at + count :]


def _tail_is_run(x: View, tail: Sequence[int]) -> bool:
    """Return whether the last axes, of sizes `tail`, lie one after the other in memory."""
    strides = x.strides[len(x.strides) - len(tail) :]
    return all(n == 1 or s == w for n, s, w in zip(tail, strides, dense(tail), strict=True))


@lowers("index", raises=True)
def _index(low: Lowering, node: Node) -> View | None:
    x, *indices = (low.view(e) for e in node.inputs)
    axis = node.attrs["axis"]
    lead, sizes, tail = split_axes(x, axis, len(indices))
    out = low.temp(node.spec.shape, x.dtype)
    run = math.prod(tail)
    if run > 1 and not _tail_is_run(x, tail):
        x = low.copy(x)
    before = len(lead)
    strides = x.strides[before : before + len(sizes)]
    where = places(low, node, indices, sizes, strides, before)
    if where is None or out.size == 0:
        return out
    rows_step(low, x, out, where, lead, run, [node])
    return out


def rows_step(
    low: Lowering, x: View, out: View, where: View, lead: Sequence[int], run: int, nodes: Sequence[Node]
) -> None:
    """Copy the runs of `run` elements at the places `where` of `x`, for all its leading axes, to `out`, contiguous."""
    item, count = x.dtype.itemsize, where.size
    nbytes = run * item
    block = max(1, UNIT_BYTES // nbytes)
    blocks = max(1, count // block)
    shape, (here, there) = joined(lead, x.strides[: len(lead)], dense((*lead, count * run))[: len(lead)])
    axes = axis_words(
        [*shape, blocks],
        [*(s * item for s in here), 0],
        [*(s * item for s in there), block * nbytes],
        [*(0 for _ in shape), block],
    )
    words: list[int | View] = [x, out, where, count, block, nbytes, item, *axes]
    rank = len(shape) + 1
    # One element of a size that a register holds needs no loop over bytes.
    element = Type("i", 8 * item) if run == 1 and item <= 8 else None

    def build(b: Builder) -> None:
        source, target, where = b.buffer(0), b.buffer(2), b.buffer(4)
        count, block, nbytes, item = b.words(6, 4)
        final = b.sub(b.word(10 + 4 * (rank - 1)), b.index(1))
        with walk(b, 10, rank, 3) as at:
            which = at.coordinates[-1]
            rows = b.select(b.icmp("eq", which, final), b.sub(count, b.mul(which, block)), block)
            here, there = b.offset(source, at.offsets[0], I8), b.offset(target, at.offsets[1], I8)
            first = b.offset(where, at.offsets[2], I64)
            with b.loop(0, rows) as row:
                place = b.load(I64, b.offset(first, row.index, I64))
                if element is not None:
                    x = b.load(element, b.offset(here, place, element))
                    b.store(x, b.offset(there, row.index, element))
                else:
                    start = b.offset(here, b.mul(place, item), I8)
                    copy_run(b, b.offset(there, b.mul(row.index, nbytes), I8), start, nbytes)

    kernel = low.kernel(f"gather rows {rank}" + (f" i{element.bits}" if element else ""), build)
    units = math.prod(shape) * blocks
    reads = [where, x._replace(shape=out.shape, strides=(0,) * len(out.shape))]
    low.step(kernel, words, units=units, reads=reads, writes=[out], nodes=nodes)


# -- gather: an index array over one axis, aligned with the others


@lowers("gather", raises=True)
def _gather(low: Lowering, node: Node) -> View | None:
    x, index = (low.view(e) for e in node.inputs)
    at = len(x.shape) + node.attrs["axis"]
    out = low.temp(node.spec.shape, x.dtype)
    aligned(low, node, "get", as_words(x), index, as_words(out), at)
    return out


def addable(dtype: np.dtype[Any]) -> bool:
    """Return whether kernels add elements of this dtype in place."""
    return dtype.kind == "c" or (storage_type(dtype) is not None and dtype.kind != "b")


def accumulate(b: Builder, how: str, type: Type, pointer: Value, x: Value) -> None:
    """Put the scalar or vector `x` at `pointer`, or add it to what is there, of a type that is as wide or wider."""
    if how == "add":
        old = b.load(type.vector(x.type.lanes), pointer, type.size)
        x = b.fadd(old, convert(b, x, type)) if type.is_float else b.add(old, x)
    b.store(x, pointer, type.size)


def aligned(
    low: Lowering, node: Node, how: Literal["get", "add", "set"], table: View, index: View, values: View, at: int
) -> None:
    """Copy between `values` and the places of `table` that `index`, of the shape of `values`, names along axis `at`.

    Whatever may meet at one place lies on one line along the axis, which one unit goes through in order.
    """
    if values.size == 0:
        return
    size, indices = table.shape[at], [index]
    if size == 0:
        add_check(low, node, indices, (0,), at, None)
        return
    if len(values.shape) > len(index.shape):  # both parts of a complex number go together
        index = index._replace(shape=values.shape, strides=(*index.strides, 0))
    # Along the axis the table is stepped through by what the index says.
    stride = table.strides[at]
    steps = tuple(0 if d == at else s for d, s in enumerate(table.strides))
    inner = at if how != "get" else len(values.shape) - 1
    outer = [d for d in range(len(values.shape)) if d != inner]
    shape, outer_steps = joined(
        [values.shape[d] for d in outer], *([s[d] for d in outer] for s in (steps, index.strides, values.strides))
    )
    total, rank = math.prod(shape), len(shape)
    units = min(PIECES, total)
    flags = low.temp((units,), np.int64)
    words: list[int | View] = [table, index, values, flags, total, units, size, stride]
    words += [values.shape[inner], steps[inner], index.strides[inner], values.strides[inner]]
    words += axis_words(shape, *outer_steps)
    type, table_type, itype, signed = values.type, table.type, index.type, is_signed(index.dtype)

    def build(b: Builder) -> None:
        table, index, values, flags = (b.buffer(2 * k) for k in range(4))
        total, units, size, stride, count, *step = b.words(8, 8)
        with b.loop(b.lo, b.hi) as pieces:
            flag = b.offset(flags, pieces.index, I64)
            b.store(b.index(0), flag)
            start, stop = piece_bounds(b, pieces.index, total, units)
            with walk(b, 16, rank, 3, start, stop) as place, b.loop(0, count) as line:
                t, i, v = (b.add(o, b.mul(line.index, s)) for o, s in zip(place.offsets, step, strict=True))
                found, outside = wrapped(b, b.load(itype, b.offset(index, i, itype)), size, signed)
                with b.when(outside):
                    b.store(b.index(1), flag)
                there = b.offset(table, b.add(t, b.mul(found, stride)), table_type)
                here = b.offset(values, v, type)
                if how == "get":
                    b.store(b.load(type, there), here)
                else:
                    accumulate(b, how, table_type, there, b.load(type, here))

    kernel = low.kernel(f"aligned {how} {rank} {table_type.text} {type.text} {index.dtype.str[1:]}", build)
    reads, writes = ([table, index], [values, flags]) if how == "get" else ([values, index, table], [table, flags])
    low.step(kernel, words, reads=reads, writes=writes, units=units, nodes=[node])
    add_check(low, node, indices, (size,), at, flags)


# -- one-hot vectors


@lowers("one_hot")
def _one_hot(low: Lowering, node: Node) -> View | None:
    """Lower one_hot as rows of zeros with a one stored."""
    index, dtype = low.view(node.inputs[0]), np.dtype(node.spec.dtype)
    classes = node.attrs["num_classes"]
    out = low.temp(node.spec.shape, dtype)
    if dtype.itemsize > 8:
        return None
    if index.size == 0:
        return out
    if classes == 0:
        low.step(check_call(node), [index], reads=[index], writes=[], nodes=[node])
        return out
    shape, steps = joined(index.shape, index.strides)
    rank, units = len(shape), min(PIECES, index.size)
    flags = low.temp((units,), np.int64)
    bits = 8 * dtype.itemsize
    one = int(np.ones((), dtype).view(f"i{dtype.itemsize}"))
    words: list[int | View] = [index, out, flags, index.size, units, classes, one, *axis_words(shape, *steps)]
    itype, signed = index.type, is_signed(index.dtype)

    def build(b: Builder) -> None:
        type = Type("i", bits)
        index, target, flags = (b.buffer(2 * k) for k in range(3))
        total, units, classes, one = b.words(6, 4)
        item = one if bits == 64 else b.cast("trunc", one, type)
        with b.loop(b.lo, b.hi) as pieces:
            flag = b.offset(flags, pieces.index, I64)
            b.store(b.index(0), flag)
            start, stop = piece_bounds(b, pieces.index, total, units)
            with walk(b, 10, rank, 1, start, stop) as at:
                row = b.offset(target, b.mul(at.number, classes), type)
                fill_run(b, row, b.const(type, 0), classes)
                value = b.load(itype, b.offset(index, at.offsets[0], itype))
                place = value if itype == I64 else b.cast("sext" if signed else "zext", value, I64)
                inside = b.icmp("ult", place, classes)
                with b.when(b.not_(inside)):
                    b.store(b.index(1), flag)
                with b.when(inside):
                    b.store(item, b.offset(row, place, type))

    kernel = low.kernel(f"one hot {rank} i{bits} {index.dtype.str[1:]}", build)
    low.step(kernel, words, reads=[index], writes=[out, flags], units=units, nodes=[node])
    low.step(check_call(node, flags), [index], reads=[index, flags], writes=[], nodes=[node])
    return out
