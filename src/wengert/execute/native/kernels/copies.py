"""Strided copies between arrays, and the ops that are made of them.

A copy is brought into a normal form first: axes in the order of the target's memory, those that
continue each other joined, so that a few kernels serve every shape:

- *rows*: runs of bytes that are contiguous on both sides;
- *fill*: one element repeated along contiguous runs;
- *transpose*: contiguous along one axis here and another there, moved in square tiles that are
  transposed in registers;
- *strided*: anything else, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ....core.node import Node
from ..codegen.builder import Builder, Value
from ..codegen.types import I8, Type
from ..codegen.walk import axis_words, copy_run, fill_run, walk
from ..plan.lowering import Lowering, lowers
from ..plan.plan import View, dense

# The bytes that a unit of a copy moves at least, so that sharing out costs little beside it.
UNIT_BYTES = 1 << 14


def as_parts(x: View) -> View:
    """Return the array with complex numbers as pairs of real ones along a new last axis."""
    if x.dtype.kind != "c":
        return x
    part = np.dtype(f"f{x.dtype.itemsize // 2}")
    return View(x.buffer, part, (*x.shape, 2), (*(2 * s for s in x.strides), 1), 2 * x.offset)


def as_words(x: View) -> View:
    """Return the array with every element, or half an element of 16 bytes, as an integer of its size."""
    if x.dtype.itemsize == 16:
        x = as_parts(x)
    return x._replace(dtype=np.dtype(f"i{x.dtype.itemsize}"))


def operand(low: Lowering, entry: Any, dtype: Any) -> View:
    """Return the array of a node's input: another node's, or a literal's as a constant."""
    return low.view(entry) if isinstance(entry, Node) else low.constant(np.asarray(entry, dtype))


def joined(shape: Sequence[int], *strides: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    """Return the axes of arrays of one shape, without those of size 1, with those joined that continue each other."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    for n, *steps in zip(shape, *strides, strict=True):
        if n == 1:
            continue
        if axes and axes[-1][1] == tuple(n * s for s in steps):
            axes[-1] = (axes[-1][0] * n, tuple(steps))
        else:
            axes.append((n, tuple(steps)))
    return [n for n, _ in axes], [[s[i] for _, s in axes] for i in range(len(strides))]


class _Axis(NamedTuple):
    size: int
    source: int
    target: int


def _normal(source: View, target: View) -> tuple[View, View, list[_Axis]]:
    """Return the copy's axes, outermost first in the target's memory, joined where they continue each other.

    The views returned begin where the axes begin; no stride of the target is negative.
    """
    axes = []
    source_at, target_at = source.offset, target.offset
    for n, s, t in zip(target.shape, source.strides, target.strides, strict=True):
        if n == 1:
            continue
        if t < 0:
            source_at, target_at = source_at + (n - 1) * s, target_at + (n - 1) * t
            s, t = -s, -t
        axes.append(_Axis(n, s, t))
    axes.sort(key=lambda a: -a.target)
    joined: list[_Axis] = []
    for axis in axes:
        if joined and joined[-1][1:] == (axis.size * axis.source, axis.size * axis.target):
            joined[-1] = axis._replace(size=axis.size * joined[-1].size)
        else:
            joined.append(axis)
    return source._replace(offset=source_at), target._replace(offset=target_at), joined


def copy_step(low: Lowering, source: View, target: View, **about: Any) -> None:
    """Add the step that copies `source` into `target`, of one shape and size of elements, any strides.

    The source may have strides of 0 (broadcast) and negative ones; no two elements of the target
    may share memory, nor may source and target. `about` goes to the step (nodes, label).
    """
    if source.shape != target.shape or source.dtype.itemsize != target.dtype.itemsize:
        raise ValueError(f"a copy of {source.dtype} {source.shape} into {target.dtype} {target.shape}")
    if target.size == 0:
        return
    source, target = as_words(source), as_words(target)
    read, written = source, target
    source, target, axes = _normal(source, target)
    *outer, inner = axes or [_Axis(1, 1, 1)]
    item = target.dtype.itemsize
    about = {"reads": [read], "writes": [written], **about}
    across = next((a for a in outer if a.source == 1), None)
    if inner.target == 1 and inner.source == 1:
        _add_runs(low, "rows", source, target, outer, inner, item, about)
    elif inner.target == 1 and inner.source == 0:
        _add_runs(low, "fill", source, target, outer, inner, item, about)
    elif inner.target == 1 and across is not None:
        outer.remove(across)
        _add_transpose(low, source, target, outer, across, inner, about)
    else:
        _add_strided(low, source, target, outer, inner, about)


def fill_step(low: Lowering, target: View, value: Any, **about: Any) -> None:
    """Add the step that puts one number everywhere in `target`."""
    number = low.constant(np.asarray(value, target.dtype))
    copy_step(low, number.broadcast(target.shape), target, **about)


# -- runs


def _add_runs(
    low: Lowering, how: str, source: View, target: View, outer: list[_Axis], inner: _Axis, item: int, about: Any
) -> None:
    """Add copies of runs that are contiguous in the target; long ones are cut into blocks, an axis of their own."""
    rows = how == "rows"
    unit = 1 if rows else item  # rows count bytes, so that one kernel serves all dtypes
    block = UNIT_BYTES // unit
    length = inner.size * item // unit
    blocks = max(1, length // block)
    axes = [_Axis(a.size, a.source * item, a.target * item) for a in outer]
    axes.append(_Axis(blocks, block * unit if rows else 0, block * unit))
    rank = len(axes)
    words: list[int | View] = [source, target, length, block, *axis_words(*zip(*axes))]

    def build(b: Builder) -> None:
        source, target, length, block = b.buffer(0), b.buffer(2), b.word(4), b.word(5)
        # The last block of a run takes what is left over.
        final = b.sub(b.word(6 + 3 * (rank - 1)), b.index(1))
        with walk(b, 6, rank, 2) as at:
            which = at.coordinates[-1]
            rest = b.sub(length, b.mul(which, block))
            count = b.select(b.icmp("eq", which, final), rest, block)
            here, there = (b.offset(p, o, I8) for p, o in zip((source, target), at.offsets, strict=True))
            if rows:
                copy_run(b, there, here, count)
            else:
                fill_run(b, there, b.load(Type("i", 8 * item), here), count)

    kernel = low.kernel(f"copy {how} {rank}" + ("" if rows else f" i{8 * item}"), build)
    units = math.prod(a.size for a in axes)
    low.step(kernel, words, units=units, grain=_grain(units, target), **about)


def _grain(units: int, target: View) -> int:
    return max(1, UNIT_BYTES * units // max(1, target.size * target.dtype.itemsize))


# -- transposes


def _add_transpose(
    low: Lowering, source: View, target: View, outer: list[_Axis], across: _Axis, inner: _Axis, about: Any
) -> None:
    """Add a transpose: `across` is contiguous in the source, `inner` in the target, both cut to fit a cache."""
    item = target.dtype.itemsize
    block = 64 if item <= 4 else 32
    blocks = [max(1, a.size // block) for a in (across, inner)]
    axes = [
        *outer,
        _Axis(blocks[0], block * across.source, block * across.target),
        _Axis(blocks[1], block * inner.source, block * inner.target),
    ]
    rank = len(axes)
    words: list[int | View] = [source, target, across.size, inner.size, inner.source, across.target, block]
    words += axis_words(*zip(*axes))

    def build(b: Builder) -> None:
        type = Type("i", 8 * item)
        source, target = b.buffer(0), b.buffer(2)
        sizes, (pitch, spacing, block) = b.words(4, 2), b.words(6, 3)
        counts = [b.word(9 + 3 * (rank - 2)), b.word(9 + 3 * (rank - 1))]
        with walk(b, 9, rank, 2) as at:
            extents = [
                b.select(b.icmp("eq", c, b.sub(n, b.index(1))), b.sub(size, b.mul(c, block)), block)
                for c, n, size in zip(at.coordinates[-2:], counts, sizes, strict=True)
            ]
            here, there = (b.offset(p, o, type) for p, o in zip((source, target), at.offsets, strict=True))
            _transpose_block(b, type, there, spacing, here, pitch, extents[0], extents[1])

    kernel = low.kernel(f"copy transpose {rank} i{8 * item}", build)
    units = math.prod(a.size for a in axes)
    low.step(kernel, words, units=units, grain=_grain(units, target), **about)


def _transpose_block(
    b: Builder, type: Type, target: Value, spacing: Value, source: Value, pitch: Value, wide: Value, high: Value
) -> None:
    """Write target[i * spacing + j] = source[j * pitch + i] for i < wide, j < high.

    Tiles at an edge are moved back inside, over the tiles before them; a block narrower than a
    tile goes element by element.
    """
    side = b.target.lanes(type) if type.bits >= 32 else 16 // type.size
    tile = b.index(side)

    def tiles() -> tuple[Value, ...]:
        with b.loop(0, high, side) as down:
            j = b.imin(down.index, b.sub(high, tile))
            with b.loop(0, wide, side) as along:
                i = b.imin(along.index, b.sub(wide, tile))
                rows = [
                    b.load(type.vector(side), b.offset(source, b.add(b.mul(b.add(j, b.index(r)), pitch), i), type))
                    for r in range(side)
                ]
                for r, row in enumerate(transposed(b, rows)):
                    b.store(row, b.offset(target, b.add(b.mul(b.add(i, b.index(r)), spacing), j), type), type.size)
        return ()

    def elements() -> tuple[Value, ...]:
        with b.loop(0, wide) as along:
            row = b.offset(target, b.mul(along.index, spacing), type)
            column = b.offset(source, along.index, type)
            with b.loop(0, high) as down:
                x = b.load(type, b.offset(column, b.mul(down.index, pitch), type))
                b.store(x, b.offset(row, down.index, type))
        return ()

    fits = b.and_(b.icmp("sge", wide, tile), b.icmp("sge", high, tile))
    b.either(fits, tiles, elements)


def transposed(b: Builder, rows: list[Value]) -> list[Value]:
    """Transpose a square of vectors: interleave the two halves of the rows, log2(rows) times."""
    n = len(rows)
    low = [x for i in range(n // 2) for x in (i, n + i)]
    high = [x for i in range(n // 2, n) for x in (i, n + i)]
    for _ in range(n.bit_length() - 1):
        pairs = [(rows[i], rows[i + n // 2]) for i in range(n // 2)]
        rows = [b.shuffle(x, y, half) for x, y in pairs for half in (low, high)]
    return rows


# -- anything


def _add_strided(low: Lowering, source: View, target: View, outer: list[_Axis], inner: _Axis, about: Any) -> None:
    """Add a copy element by element, the innermost axis in blocks."""
    block = UNIT_BYTES // target.dtype.itemsize
    blocks = max(1, inner.size // block)
    axes = [*outer, _Axis(blocks, block * inner.source, block * inner.target)]
    rank, bits = len(axes), 8 * target.dtype.itemsize
    words: list[int | View] = [source, target, inner.size, block, inner.source, inner.target, *axis_words(*zip(*axes))]

    def build(b: Builder) -> None:
        type = Type("i", bits)
        source, target = b.buffer(0), b.buffer(2)
        length, block, stride, spacing = b.words(4, 4)
        final = b.sub(b.word(8 + 3 * (rank - 1)), b.index(1))
        with walk(b, 8, rank, 2) as at:
            which = at.coordinates[-1]
            rest = b.sub(length, b.mul(which, block))
            count = b.select(b.icmp("eq", which, final), rest, block)
            here, there = (b.offset(p, o, type) for p, o in zip((source, target), at.offsets, strict=True))
            with b.loop(0, count) as elements:
                x = b.load(type, b.offset(here, b.mul(elements.index, stride), type))
                b.store(x, b.offset(there, b.mul(elements.index, spacing), type))

    kernel = low.kernel(f"copy strided {rank} i{bits}", build)
    units = math.prod(a.size for a in axes)
    low.step(kernel, words, units=units, grain=_grain(units, target), **about)


# -- parts of arrays

Range = tuple[int, int]


def box(x: View, ranges: Sequence[Range]) -> View:
    """Return the part of an array from `start` to `stop` along every axis."""
    offset = x.offset + sum(start * s for (start, _), s in zip(ranges, x.strides, strict=True))
    return x._replace(shape=tuple(stop - start for start, stop in ranges), offset=offset)


def part(x: View, axis: int, start: int, stop: int) -> View:
    """Return the part from `start` to `stop` along one axis."""
    axis %= len(x.shape)
    return box(x, [(start, stop) if d == axis else (0, n) for d, n in enumerate(x.shape)])


def without(x: View, axis: int, at: int) -> View:
    """Return the slice at `at` along an axis, without the axis."""
    axis %= len(x.shape)
    strides = (*x.strides[:axis], *x.strides[axis + 1 :])
    return View(x.buffer, x.dtype, (*x.shape[:axis], *x.shape[axis + 1 :]), strides, x.offset + at * x.strides[axis])


def _around(shape: Sequence[int], inside: Sequence[Range], put: Callable[[list[Range]], None]) -> None:
    """Call `put` with the boxes that make up the part of `shape` that is not `inside`, the outermost first."""
    ranges = [(0, n) for n in shape]
    for d, (start, stop) in enumerate(inside):
        for band in ((0, start), (stop, shape[d])):
            if band[0] < band[1]:
                put([*ranges[:d], band, *ranges[d + 1 :]])
        ranges[d] = (start, stop)


# -- putting together and taking apart


@lowers("concat")
def _concat(low: Lowering, node: Node) -> View:
    axis, at = node.attrs["axis"], 0
    out = low.temp(node.spec.shape, node.spec.dtype)
    for x in map(low.view, node.inputs):
        copy_step(low, x, part(out, axis, at, at + x.shape[axis]), nodes=[node])
        at += x.shape[axis]
    return out


@lowers("stack")
def _stack(low: Lowering, node: Node) -> View:
    out = low.temp(node.spec.shape, node.spec.dtype)
    for i, x in enumerate(map(low.view, node.inputs)):
        copy_step(low, x, without(out, node.attrs["axis"], i), nodes=[node])
    return out


@lowers("split")
def _split(low: Lowering, node: Node) -> tuple[View, ...]:
    x, axis = low.view(node.inputs[0]), node.attrs["axis"]
    ends = np.cumsum((0, *node.attrs["sizes"])).tolist()
    return tuple(part(x, axis, a, z) for a, z in zip(ends, ends[1:]))


@lowers("unstack")
def _unstack(low: Lowering, node: Node) -> tuple[View, ...]:
    x, axis = low.view(node.inputs[0]), node.attrs["axis"]
    return tuple(without(x, axis, i) for i in range(x.shape[axis]))


@lowers("pad")
def _pad(low: Lowering, node: Node) -> View:
    x, widths = low.view(node.inputs[0]), node.attrs["widths"]
    out = low.temp(node.spec.shape, x.dtype)
    lead = len(x.shape) - len(widths)
    starts = [*(0 for _ in range(lead)), *(before for before, _ in widths)]
    inside = [(start, start + n) for start, n in zip(starts, x.shape, strict=True)]
    _around(out.shape, inside, lambda band: fill_step(low, box(out, band), 0, nodes=[node]))
    copy_step(low, x, box(out, inside), nodes=[node])
    return out


@lowers("shift")
def _shift(low: Lowering, node: Node) -> View | None:
    x, axis, by = low.view(node.inputs[0]), node.attrs["axis"], node.attrs["by"]
    if by == 0:
        return None
    n = x.shape[axis]
    out = low.temp(x.shape, x.dtype)
    kept = max(0, n - abs(by))
    source, target, zeros = (
        ((0, kept), (n - kept, n), (0, n - kept)) if by > 0 else ((n - kept, n), (0, kept), (kept, n))
    )
    fill_step(low, part(out, axis, *zeros), 0, nodes=[node])
    copy_step(low, part(x, axis, *source), part(out, axis, *target), nodes=[node])
    return out


@lowers("roll")
def _roll(low: Lowering, node: Node) -> View:
    """Lower roll: what stays in order along every axis is copied as one box."""
    x = low.view(node.inputs[0])
    out = low.temp(x.shape, x.dtype)
    if out.size == 0:
        return out
    by = [0] * len(x.shape)
    for s, a in zip(node.attrs["shift"], node.attrs["axis"], strict=True):
        by[a] = (by[a] + s) % x.shape[a]
    moves = [[((0, n - s), (s, n)), ((n - s, n), (0, s))] for n, s in zip(x.shape, by, strict=True)]
    for pieces in product(*moves):
        source, target = [p[0] for p in pieces], [p[1] for p in pieces]
        copy_step(low, box(x, source), box(out, target), nodes=[node])
    return out


@lowers("tile")
def _tile(low: Lowering, node: Node) -> View:
    x, times = low.view(node.inputs[0]), node.attrs["repetitions"]
    out = low.temp(node.spec.shape, x.dtype)
    lead = len(x.shape) - len(times)
    _copy_repeated(
        low, node, x, out, [(1, n, 1) for n in x.shape[:lead]] + [(r, n, 1) for r, n in zip(times, x.shape[lead:])]
    )
    return out


@lowers("repeat")
def _repeat(low: Lowering, node: Node) -> View:
    x, axis, repeats = low.view(node.inputs[0]), node.attrs["axis"], node.attrs["repeats"]
    axis %= len(x.shape)
    out = low.temp(node.spec.shape, x.dtype)
    if isinstance(repeats, int):
        _copy_repeated(low, node, x, out, [(1, n, repeats if d == axis else 1) for d, n in enumerate(x.shape)])
        return out
    at = 0
    for i, times in enumerate(repeats):
        run = part(out, axis, at, at + times)
        copy_step(low, part(x, axis, i, i + 1).broadcast(run.shape), run, nodes=[node])
        at += times
    return out


def _copy_repeated(low: Lowering, node: Node, x: View, out: View, times: Sequence[tuple[int, int, int]]) -> None:
    """Copy `x` into `out`, every axis `n` of it repeated: (r, n, q) is r times all of it with every element q times."""
    shape = tuple(n for axis in times for n in axis)
    strides = tuple(t for s in x.strides for t in (0, s, 0))
    copy_step(
        low, x._replace(shape=shape, strides=strides), out._replace(shape=shape, strides=dense(shape)), nodes=[node]
    )


# -- static indices


def sliced(x: View, entries: Sequence[Any]) -> View:
    """Return the part of an array that the entries of a `slice` name."""
    d = len(x.shape) - sum(e is not None for e in entries)
    shape, strides, offset = list(x.shape[:d]), list(x.strides[:d]), x.offset
    for e in entries:
        if e is None:
            shape.append(1)
            strides.append(0)
            continue
        n, s = x.shape[d], x.strides[d]
        d += 1
        if isinstance(e, int):
            offset += e * s
            continue
        picked = range(n)[slice(*e)]
        offset += picked.start * s if len(picked) else 0
        shape.append(len(picked))
        strides.append(s * picked.step)
    return View(x.buffer, x.dtype, tuple(shape), tuple(strides), offset)


def _inside(shape: Sequence[int], entries: Sequence[Any]) -> list[Range] | None:
    """Return the box that the entries of a `slice` name; None where it has gaps or is empty."""
    named = [e for e in entries if e is not None]
    lead = len(shape) - len(named)
    found = [(0, n) for n in shape[:lead]]
    for n, e in zip(shape[lead:], named, strict=True):
        picked = range(e, e + 1) if isinstance(e, int) else range(n)[slice(*e)]
        if len(picked) == 0 or (len(picked) > 1 and abs(picked.step) != 1):
            return None
        found.append((min(picked[0], picked[-1]), max(picked[0], picked[-1]) + 1))
    return found


@lowers("slice_transpose")
def _slice_transpose(low: Lowering, node: Node) -> View:
    ct, entries = low.view(node.inputs[0]), node.attrs["entries"]
    out = low.temp(node.spec.shape, ct.dtype)
    inside = _inside(out.shape, entries)
    if inside is None:
        fill_step(low, out, 0, nodes=[node])
    else:
        _around(out.shape, inside, lambda band: fill_step(low, box(out, band), 0, nodes=[node]))
    copy_step(low, ct, sliced(out, entries), nodes=[node])
    return out


@lowers("slice_update")
def _slice_update(low: Lowering, node: Node) -> View:
    x, entries = low.view(node.inputs[0]), node.attrs["entries"]
    value = operand(low, node.inputs[1], x.dtype)
    out = low.temp(x.shape, x.dtype)
    inside = _inside(out.shape, entries)
    if inside is None:
        copy_step(low, x, out, nodes=[node])
    else:
        _around(out.shape, inside, lambda band: copy_step(low, box(x, band), box(out, band), nodes=[node]))
    target = sliced(out, entries)
    while len(value.shape) > len(target.shape):  # NumPy takes more axes in front, of size 1
        value = without(value, 0, 0)
    copy_step(low, value.broadcast(target.shape), target, nodes=[node])
    return out


# -- triangles and diagonals


@lowers("tril", "triu")
def _triangle(low: Lowering, node: Node) -> View:
    x, k, lower = low.view(node.inputs[0]), node.attrs["k"], node.op.name == "tril"
    out = low.temp(x.shape, x.dtype)
    if out.size == 0:
        return out
    if x.strides[-1] != 1:
        x = low.copy(x)
    *lead, rows, columns = x.shape
    item = x.dtype.itemsize
    shape, (strides,) = joined(lead, x.strides[:-2])
    axes = axis_words([*shape, rows], [*(s * item for s in strides), x.strides[-2] * item])
    rank = len(shape) + 1
    # The first column of row 0 that is on the other side, counted in bytes like everything here.
    edge = max(-rows, min(columns, k + 1 if lower else k)) * item
    words: list[int | View] = [x, out, columns * item, edge, item, *axes]

    def build(b: Builder) -> None:
        source, target, (length, edge, item) = b.buffer(0), b.buffer(2), b.words(4, 3)
        zero = b.const(I8, 0)
        with walk(b, 7, rank, 1) as at:
            turn = b.add(edge, b.mul(at.coordinates[-1], item))
            turn = b.imax(b.index(0), b.imin(turn, length))
            here = b.offset(source, at.offsets[0], I8)
            there = b.offset(target, b.mul(at.number, length), I8)
            rest = b.sub(length, turn)
            if lower:
                copy_run(b, there, here, turn)
                fill_run(b, b.offset(there, turn, I8), zero, rest)
            else:
                fill_run(b, there, zero, turn)
                copy_run(b, b.offset(there, turn, I8), b.offset(here, turn, I8), rest)

    units = math.prod(shape) * rows
    kernel = low.kernel(f"triangle {'lower' if lower else 'upper'} {rank}", build)
    low.step(kernel, words, units=units, grain=_grain(units, out), reads=[x], writes=[out], nodes=[node])
    return out


def _diagonal_of(x: View, offset: int) -> View:
    """Return the diagonal of the last two axes."""
    rows, columns = x.shape[-2:]
    size = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = max(0, -offset) * x.strides[-2] + max(0, offset) * x.strides[-1]
    strides = (*x.strides[:-2], x.strides[-2] + x.strides[-1])
    return View(x.buffer, x.dtype, (*x.shape[:-2], size), strides, x.offset + (start if size else 0))


@lowers("diagonal")
def _diagonal(low: Lowering, node: Node) -> View:
    return _diagonal_of(low.view(node.inputs[0]), node.attrs["offset"])


@lowers("embed_diagonal")
def _embed_diagonal(low: Lowering, node: Node) -> View:
    x = low.view(node.inputs[0])
    out = low.temp(node.spec.shape, x.dtype)
    fill_step(low, out, 0, nodes=[node])
    copy_step(low, x, _diagonal_of(out, node.attrs["offset"]), nodes=[node])
    return out
