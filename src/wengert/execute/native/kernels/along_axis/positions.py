"""Positions of the greatest or the least element along an axis, the first of equals; NaN counts as either."""

from __future__ import annotations

import numpy as np

from .....core.node import Node
from ...codegen.builder import Builder, Value
from ...codegen.types import I32, I64
from ...plan.lowering import Lowering, lowers
from ...plan.plan import View, dense
from .lines import Line, each_line, line_types, lines
from .ordered import key_type, load_keys


@lowers("argmax", "argmin")
def _position(low: Lowering, node: Node) -> View | None:
    x, greatest = low.view(node.inputs[0]), node.op.name == "argmax"
    if x.dtype.kind == "c":
        return None
    out = low.temp(node.spec.shape, np.int64)
    if out.size == 0:
        return out
    at = len(x.shape) + node.attrs["axis"]
    shape = (*x.shape[:at], 1, *x.shape[at + 1 :])
    found = lines(low, [x, out._replace(shape=shape, strides=dense(shape))], at)
    dtype, n = x.dtype, x.shape[at]
    memory, type = line_types(dtype)[0], key_type(dtype)
    # Positions as wide as the keys beside them, where they fit.
    number = I32 if type == I32 and n < 2**31 else I64
    # A line goes by vectors that are not longer than it is.
    lanes = min(low.target.lanes(type), 1 << (n.bit_length() - 1)) if found.columns == found.strides[0] == 1 else 1

    def better(b: Builder, x: Value, best: Value) -> Value:
        return b.icmp("sgt" if greatest else "slt", x, best)

    def keys(b: Builder, pointer: Value, lanes: int) -> Value:
        return load_keys(b, dtype, pointer, lanes, nan_last=greatest)

    def along(b: Builder, line: Line, start: Value, stop: Value, state: tuple[Value, Value]) -> tuple[Value, Value]:
        """Go on element by element; side by side where there are several lines."""
        with b.loop(start, stop, carried=state) as loop:
            x = keys(b, line.at(b, 0, loop.index, memory), line.lanes)
            at = loop.index if number == I64 else b.cast("trunc", loop.index, I32)
            yes = better(b, x, loop.values[0])
            loop.carry(b.select(yes, x, loop.values[0]), b.select(yes, b.splat(at, line.lanes), loop.values[1]))
        return loop.results[0], loop.results[1]

    def by_vectors(b: Builder, line: Line, stop: Value, first: tuple[Value, Value]) -> tuple[Value, Value]:
        """Return the best of a line's whole vectors, and its position."""
        with b.loop(0, stop, lanes, [b.splat(v, lanes) for v in first]) as loop:
            x = keys(b, b.offset(line.pointers[0], loop.index, memory), lanes)
            base = loop.index if number == I64 else b.cast("trunc", loop.index, I32)
            at = b.add(b.splat(base, lanes), b.iota(number.vector(lanes)))
            yes = better(b, x, loop.values[0])
            loop.carry(b.select(yes, x, loop.values[0]), b.select(yes, at, loop.values[1]))
        x, at = loop.results
        while x.type.lanes > 1:
            half = x.type.lanes // 2
            (x, y), (i, j) = (
                [b.shuffle(v, v, range(k, k + half)) if half > 1 else b.extract(v, k) for k in (0, half)]
                for v in (x, at)
            )
            # Of equals, the one that comes first.
            first_of_equals = b.and_(b.icmp("eq", x, y), b.icmp("slt", j, i))
            yes = b.or_(better(b, y, x), first_of_equals)
            x, at = b.select(yes, y, x), b.select(yes, j, i)
        return x, at

    def body(b: Builder, line: Line) -> None:
        length, start = line.lengths[0], b.index(0)
        state = (keys(b, line.pointers[0], line.lanes), b.const(number.vector(line.lanes), 0))
        if lanes > 1:
            start = b.and_(length, b.index(-lanes))
            state = by_vectors(b, line, start, state)
        _, at = along(b, line, start, length, state)
        b.store(b.cast("sext", at, I64), line.pointers[1], I64.size)

    def build(b: Builder) -> None:
        each_line(b, found, [memory, I64], lambda line: body(b, line), wide=2)

    kernel = low.kernel(f"{node.op.name} {dtype.name} {number.text} x{lanes} {found.key}", build)
    reads = [w for w in found.words if isinstance(w, View) and w.buffer is not out.buffer]
    low.step(kernel, found.words, units=found.units, reads=reads, writes=[out], nodes=[node])
    return out
