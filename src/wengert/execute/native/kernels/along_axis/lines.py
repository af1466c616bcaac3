"""Lines of arrays along one axis, side by side in vectors or one by one.

An axis that is not the last has the elements of the axes after it side by side in memory: vectors go
along the axis together, one lane for each line (*columns*). Along the last axis a line is a run of
memory of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...codegen.builder import Builder, Value
from ...codegen.types import BF16, F16, F32, I32, Type, storage_type
from ...codegen.walk import axis_words, partition, walk
from ...plan.lowering import Lowering
from ...plan.plan import View, dense
from ...scalar.fp16 import convert
from ..copies import joined

# Lines side by side in one unit, where there are as many.
COLUMNS = 256


class Lines(NamedTuple):
    """The lines of arrays of shapes (outer..., length, columns), each with its own length, ready for a kernel.

    `strides` are those of the axis, one for each array; `words` begin with the arrays and go on
    with, for each, its length and stride, then `columns`, their block, and the axes to walk over.
    """

    words: list[int | View]
    rank: int
    arrays: int
    columns: int
    strides: tuple[int, ...]
    units: int

    @property
    def key(self) -> str:
        """The part of a kernel's key that lines decide: side by side or one by one, and the number of axes around."""
        return f"{'lines' if self.columns == 1 else 'columns'} {self.rank}"

    @property
    def extra(self) -> int:
        """The place of the first word after these."""
        return len(self.words) + self.arrays


def lines(low: Lowering, views: Sequence[View], axis: int) -> Lines:
    """Return the lines of arrays along an axis, counted from the left; their shapes agree on all other axes.

    An array whose other axes after `axis` do not lie in order is copied. The last array is written
    to: it is contiguous, or was laid out by the caller.
    """
    views = [v if _in_order(v, axis) else low.copy(v) for v in views]
    columns = math.prod(views[0].shape[axis + 1 :])
    shape, strides = joined(views[0].shape[:axis], *(v.strides[:axis] for v in views))
    block = min(columns, COLUMNS)
    blocks = max(1, columns // max(1, block))
    axes = axis_words([*shape, blocks], *([*s, block] for s in strides))
    words: list[int | View] = [*views]
    for v in views:
        words += [v.shape[axis], v.strides[axis]]
    words += [columns, block, *axes]
    steps = tuple(v.strides[axis] for v in views)
    return Lines(words, len(shape) + 1, len(views), columns, steps, math.prod(shape) * blocks)


def _in_order(x: View, axis: int) -> bool:
    tail, strides = x.shape[axis + 1 :], x.strides[axis + 1 :]
    return all(n == 1 or s == w for n, s, w in zip(tail, strides, dense(tail), strict=True))


class Line(NamedTuple):
    """A line, or several side by side: for every array its address, length and stride; and the number of lanes."""

    pointers: tuple[Value, ...]
    lengths: tuple[Value, ...]
    strides: tuple[Value, ...]
    lanes: int

    def at(self, b: Builder, array: int, index: Value, type: Type) -> Value:
        """Return the address of element `index` of an array's line."""
        return b.offset(self.pointers[array], b.mul(index, self.strides[array]), type)


def each_line(b: Builder, found: Lines, types: Sequence[Type], body: Callable[[Line], None], wide: int = 4) -> None:
    """Write the loop over a kernel's lines: `body` for one, or for up to `wide` vectors of them side by side.

    The lanes are those of the first type's register.
    """
    n = found.arrays
    pointers = [b.buffer(2 * k) for k in range(n)]
    pairs = [b.words(2 * n + 2 * k, 2) for k in range(n)]
    lengths, strides = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    columns, block = b.words(4 * n, 2)
    at = 4 * n + 2
    final = b.sub(b.word(at + (found.rank - 1) * (1 + n)), b.index(1))
    with walk(b, at, found.rank, n) as place:
        starts = [b.offset(p, o, t) for p, o, t in zip(pointers, place.offsets, types, strict=True)]
        if found.columns == 1:
            body(Line(tuple(starts), lengths, strides, 1))
            return
        which = place.coordinates[-1]
        count = b.select(b.icmp("eq", which, final), b.sub(columns, b.mul(which, block)), block)

        def piece(j: Value, lanes: int) -> None:
            here = tuple(b.offset(p, j, t) for p, t in zip(starts, types, strict=True))
            body(Line(here, lengths, strides, lanes))

        partition(b, count, wide * b.target.lanes(types[0]), piece)


# -- numbers in memory and in registers


def compute_type(dtype: np.dtype[Any]) -> Type:
    """Return the type that numbers are computed in: float32 for 16-bit floats, at least 32 bits for integers."""
    type = storage_type(dtype)
    assert type is not None
    if type in (F16, BF16):
        return F32
    return I32 if type.kind == "i" and type.bits < 32 else type


def line_types(dtype: np.dtype[Any]) -> tuple[Type, Type]:
    """Return the types of a dtype's numbers in memory and in registers."""
    memory = storage_type(dtype)
    assert memory is not None
    return memory, compute_type(dtype)


def load(b: Builder, dtype: np.dtype[Any], pointer: Value, lanes: int) -> Value:
    """Load numbers from memory, in the type that they are computed in."""
    type = storage_type(dtype)
    assert type is not None
    x = b.load(type.vector(lanes), pointer, type.size)
    to = compute_type(dtype)
    if type.kind == "i" and type.bits < to.bits:
        return b.cast("sext" if dtype.kind == "i" else "zext", x, to)
    return convert(b, x, to)


def store(b: Builder, dtype: np.dtype[Any], x: Value, pointer: Value) -> None:
    """Store numbers to memory, rounded or cut off to their dtype."""
    type = storage_type(dtype)
    assert type is not None
    b.store(convert(b, x, type), pointer, type.size)
