"""Copies between arrays of any strides.

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
from typing import Any, NamedTuple

import numpy as np

from .builder import Builder, Value
from .lowering import Lowering
from .plan import View
from .types import I8, Type
from .walk import axis_words, copy_run, fill_run, walk

# What a unit of a copy moves at least, so that sharing out costs little beside it.
UNIT_BYTES = 1 << 14


def as_parts(x: View) -> View:
    """The array, complex numbers as pairs of real ones along a new last axis."""
    if x.dtype.kind != "c":
        return x
    part = np.dtype(f"f{x.dtype.itemsize // 2}")
    return View(x.buffer, part, (*x.shape, 2), (*(2 * s for s in x.strides), 1), 2 * x.offset)


def as_words(x: View) -> View:
    """The array with every element, or half an element of 16 bytes, as an integer of its size."""
    if x.dtype.itemsize == 16:
        x = as_parts(x)
    return x._replace(dtype=np.dtype(f"i{x.dtype.itemsize}"))


class _Axis(NamedTuple):
    size: int
    source: int
    target: int


def _normal(source: View, target: View) -> tuple[View, View, list[_Axis]]:
    """The copy's axes, outermost first in the target's memory, joined where they continue each other.

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
    """Runs that are contiguous in the target; a long one is cut into blocks, which are an axis of their own."""
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
    """`across` is contiguous in the source, `inner` in the target; both are cut into blocks that fit a cache."""
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
    """target[i * spacing + j] = source[j * pitch + i] for i < wide, j < high.

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
    """The transpose of a square of vectors: interleaving the two halves of the rows, log2(rows) times."""
    n = len(rows)
    low = [x for i in range(n // 2) for x in (i, n + i)]
    high = [x for i in range(n // 2, n) for x in (i, n + i)]
    for _ in range(n.bit_length() - 1):
        pairs = [(rows[i], rows[i + n // 2]) for i in range(n // 2)]
        rows = [b.shuffle(x, y, half) for x, y in pairs for half in (low, high)]
    return rows


# -- anything


def _add_strided(low: Lowering, source: View, target: View, outer: list[_Axis], inner: _Axis, about: Any) -> None:
    """Element by element, the innermost axis in blocks."""
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
