"""The smallest numbers of an operand of pairs that is read where it lies: see :mod:`...scalar.pairs`.

What is packed is looked over on the way. Nothing else of such an operand is copied or written.
"""

from __future__ import annotations

import math

import numpy as np

from ...codegen.builder import Builder, Value
from ...codegen.types import I16, I32, I64
from ...plan.lowering import Lowering
from ...plan.plan import View
from ...plan.record import Record
from ...scalar.pairs import NOTHING, nothing, smallest, smallest_of_lanes

# A unit looks at about so many numbers.
UNIT_NUMBERS = 1 << 14

_RECORD = Record("*x *words rows inner row unit_rows")


def lines_of(x: View) -> View | None:
    """Return the lines of numbers side by side that an array consists of; None where strides have no axis of them."""
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1])) if x.strides[-1] == 1 else None


def smallest_numbers(low: Lowering, x: View) -> View:
    """Return words, the least of which says what the smallest number is of an array that `lines_of` knows."""
    found: View = low.packed(x, "smallest", lambda: _smallest_numbers(low, x))
    return found


def _smallest_numbers(low: Lowering, x: View) -> View:
    lines = lines_of(x)
    assert lines is not None
    rows, inner = lines.shape
    unit_rows = max(1, UNIT_NUMBERS // inner)
    units = -(-rows // unit_rows)
    out = low.temp((units,), np.int64)
    words = _RECORD.words(x=lines, words=out, rows=rows, inner=inner, row=lines.strides[0], unit_rows=unit_rows)
    low.step(
        low.kernel("smallest numbers", _write), words, reads=[x], writes=[out], units=units, label="smallest numbers"
    )
    return out


def _write(b: Builder) -> None:
    """Write the kernel: a unit is some lines."""
    r = _RECORD.load(b)
    lanes = b.target.lanes(I32)
    whole = b.and_(r["inner"], b.index(-2 * lanes))
    mask = b.fixed_mask(b.sub(r["inner"], whole), 2 * lanes)
    with b.loop(b.lo, b.hi) as unit:
        first = b.mul(unit.index, r["unit_rows"])
        last = b.imin(b.add(first, r["unit_rows"]), r["rows"])
        with b.loop(first, last, carried=[nothing(b, lanes)]) as row:
            line = b.offset(r["x"], b.mul(row.index, r["row"]), I16)
            with b.loop(0, whole, 2 * lanes, carried=row.values) as column:
                pairs = b.load(I32.vector(lanes), b.offset(line, column.index, I16), align=I16.size)
                column.carry(smallest(b, [pairs], column.values[0]))
            rest = b.masked_load(I16.vector(2 * lanes), b.offset(line, whole, I16), mask)
            row.carry(smallest(b, [b.cast("bitcast", rest, I32.vector(lanes))], column.results[0]))
        b.store(smallest_of_lanes(b, row.results[0]), b.offset(r["words"], unit.index, I64))


def smallest_of_words(b: Builder, words: Value, count: Value) -> Value:
    """Return the least of so many words."""
    with b.loop(0, count, carried=[b.index(NOTHING)]) as loop:
        loop.carry(b.intrinsic("umin", loop.values[0], b.load(I64, b.offset(words, loop.index, I64))))
    return loop.results[0]
