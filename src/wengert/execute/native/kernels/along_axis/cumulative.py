"""Running sums and products, linear recurrences, sums of runs.

Along the last axis a running sum is made by vectors: each is summed within itself in log2(lanes)
steps (Hillis and Steele 1986, Data parallel algorithms), independently of the ones before it; only
adding what came before waits. Everything else goes in order, side by side where lines are.

Sums of long lines begin anew for every block, to which a total in float64 is added; products and recurrences of them
run in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....core.node import Node
from .....ops.long_sums import LONGEST, MANY
from ...codegen.builder import Builder, Value
from ...codegen.types import F64, I64, Type
from ...plan.lowering import Lowering, lowers
from ...plan.plan import View
from ...scalar.fp16 import convert
from ..copies import as_parts
from .lines import Line, Lines, each_line, line_types, lines, load, store


def _running_type(type: Type, length: int) -> Type:
    """Return the type in which lines of a length run, of a type of registers."""
    return F64 if type.is_float and length > MANY else type


def _flipped(x: View, axis: int) -> View:
    """Return the array backwards along an axis."""
    n, strides = x.shape[axis], list(x.strides)
    offset = x.offset + max(0, n - 1) * strides[axis]
    strides[axis] = -strides[axis]
    return x._replace(strides=tuple(strides), offset=offset)


def _add(b: Builder, x: Value, y: Value) -> Value:
    return b.fadd(x, y) if x.type.is_float else b.add(x, y)


def _multiply(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, y) if x.type.is_float else b.mul(x, y)


def _step(low: Lowering, node: Node, found: Lines, key: str, build: Any, out: View) -> None:
    kernel = low.kernel(f"{key} {found.key}", build)
    reads = [w for w in found.words if isinstance(w, View) and w.buffer is not out.buffer]
    low.step(kernel, found.words, units=found.units, reads=reads, writes=[out], nodes=[node])


# -- running sums and products


@lowers("cumulative_sum", "cumulative_prod")
def _running(low: Lowering, node: Node) -> View | None:
    given, product = low.view(node.inputs[0]), node.op.name == "cumulative_prod"
    exclusive, reverse = node.attrs.get("exclusive", False), node.attrs["reverse"]
    if given.dtype.kind == "b" or (product and given.dtype.kind == "c"):
        return None
    axis = len(given.shape) + node.attrs["axis"]
    out = low.temp(given.shape, given.dtype)
    if out.size == 0:
        return out
    x, target = as_parts(given), as_parts(out)
    if reverse:
        x, target = _flipped(x, axis), _flipped(target, axis)
    found, dtype = lines(low, [x, target], axis), x.dtype
    in_vectors = not product and found.columns == 1 and found.strides[0] == found.strides[1] == (-1 if reverse else 1)
    x_type, type = line_types(dtype)
    in_blocks = not product and type.is_float and type.bits < 64 and x.shape[axis] > MANY
    type = _running_type(type, x.shape[axis]) if product else type
    # The numbers that change nothing: -0 for sums, which +0 would turn into +0.
    unit = 1 if product else -0.0 if type.is_float else 0

    def run(b: Builder, line: Line, bounds: tuple[Value, Value], start: Value | None) -> Value:
        with b.loop(*bounds, carried=[b.const(type.vector(line.lanes), unit)]) as loop:
            x = convert(b, load(b, dtype, line.at(b, 0, loop.index, x_type), line.lanes), type)
            before = loop.values[0]
            after = _multiply(b, before, x) if product else _add(b, before, x)
            shown = before if exclusive else after
            store(b, dtype, shown if start is None else _add(b, start, shown), line.at(b, 1, loop.index, x_type))
            loop.carry(after)
        return loop.results[0]

    def along(b: Builder, line: Line) -> None:
        run(b, line, (b.index(0), line.lengths[0]), None)

    def along_in_blocks(b: Builder, line: Line) -> None:
        length = line.lengths[0]
        with b.loop(0, length, LONGEST, [b.const(F64.vector(line.lanes), -0.0)]) as blocks:
            (total,) = blocks.values
            stop = b.imin(b.add(blocks.index, b.index(LONGEST)), length)
            end = run(b, line, (blocks.index, stop), convert(b, total, type))
            blocks.carry(_add(b, total, convert(b, end, F64)))

    def build(b: Builder) -> None:
        if in_vectors:
            each_line(b, found, [x_type] * 2, lambda line: _sum_line(b, line, dtype, reverse, in_blocks))
        else:
            each_line(b, found, [x_type] * 2, lambda line: (along_in_blocks if in_blocks else along)(b, line))

    way = f"running {'product' if product else 'sum'}{' exclusive' if exclusive else ''}"
    if in_vectors:
        way += " in vectors backwards" if reverse else " in vectors"
    way += " in blocks" if in_blocks else ""
    _step(low, node, found, f"{way} {dtype.name} {type.text}", build, out)
    return out


def _sum_line(b: Builder, line: Line, dtype: np.dtype[Any], backwards: bool, in_blocks: bool) -> None:
    """Write the running sums of a line whose elements lie one after the other, or one before the other."""
    memory, type = line_types(dtype)
    lanes = b.target.lanes(type)
    unit = b.const(type.vector(lanes), -0.0 if type.is_float else 0)
    length = line.lengths[0]
    whole = b.and_(length, b.index(-lanes))
    if in_blocks and type.is_float:
        with b.loop(0, whole, LONGEST, [b.const(F64, -0.0)]) as blocks:
            (total,) = blocks.values
            stop = b.imin(b.add(blocks.index, b.index(LONGEST)), whole)
            before = b.splat(convert(b, total, type), lanes)
            end = _sum_vectors(b, line, dtype, backwards, (blocks.index, stop), unit, before)
            blocks.carry(_add(b, total, convert(b, b.extract(end, 0), F64)))
        last = blocks.results[0]
    else:
        last = b.extract(_sum_vectors(b, line, dtype, backwards, (b.index(0), whole), unit, None), 0)
    with b.loop(whole, length, carried=[last]) as rest:
        x = load(b, dtype, line.at(b, 0, rest.index, memory), 1)
        total = _add(b, rest.values[0], convert(b, x, last.type))
        store(b, dtype, total, line.at(b, 1, rest.index, memory))
        rest.carry(total)


def _sum_vectors(
    b: Builder,
    line: Line,
    dtype: np.dtype[Any],
    backwards: bool,
    bounds: tuple[Value, Value],
    unit: Value,
    before: Value | None,
) -> Value:
    """Write the running sums of a line's vectors between bounds, plus what came before; return the last, in lanes."""
    memory, _ = line_types(dtype)
    lanes = unit.type.lanes
    turned = list(reversed(range(lanes)))

    def start(array: int, first: Value) -> Value:
        """Return the lowest address of the vector that begins with element `first`."""
        at = b.sub(b.index(1 - lanes), first) if backwards else first
        return b.offset(line.pointers[array], at, memory)

    with b.loop(*bounds, lanes, [unit]) as loop:
        x = load(b, dtype, start(0, loop.index), lanes)
        if backwards:
            x = b.shuffle(x, x, turned)
        by = 1
        while by < lanes:
            x = _add(b, x, b.shuffle(unit, x, [*range(by), *range(lanes, 2 * lanes - by)]))
            by *= 2
        out = _add(b, loop.values[0], x)
        shown = out if before is None else _add(b, before, out)
        store(b, dtype, b.shuffle(shown, shown, turned) if backwards else shown, start(1, loop.index))
        # Not the last lane of `out`: the next vectors wait for one addition only.
        loop.carry(_add(b, loop.values[0], b.shuffle(x, x, [lanes - 1] * lanes)))
    return loop.results[0]


# -- linear recurrences


@lowers("linear_recurrence")
def _recurrence(low: Lowering, node: Node) -> View | None:
    """Lower y = a y + b, rounded after the product as well as after the sum, as the op's definition does."""
    a, terms = (low.view(e) for e in node.inputs)
    if terms.dtype.kind in "cb" or a.dtype != terms.dtype:
        return None
    axis, dtype = len(terms.shape) + node.attrs["axis"], terms.dtype
    out = low.temp(terms.shape, dtype)
    if out.size == 0:
        return out
    arrays = [a.broadcast(terms.shape), terms, out]
    if node.attrs["reverse"]:
        arrays = [_flipped(v, axis) for v in arrays]
    found = lines(low, arrays, axis)
    memory, type = line_types(dtype)
    type = _running_type(type, terms.shape[axis])

    def along(b: Builder, line: Line) -> None:
        first = convert(b, load(b, dtype, line.pointers[1], line.lanes), type)
        store(b, dtype, first, line.pointers[2])
        with b.loop(1, line.lengths[1], carried=[first]) as loop:
            factor = convert(b, load(b, dtype, line.at(b, 0, loop.index, memory), line.lanes), type)
            term = convert(b, load(b, dtype, line.at(b, 1, loop.index, memory), line.lanes), type)
            state = _add(b, _multiply(b, factor, loop.values[0]), term)
            store(b, dtype, state, line.at(b, 2, loop.index, memory))
            loop.carry(state)

    def build(b: Builder) -> None:
        each_line(b, found, [memory] * 3, lambda line: along(b, line))

    _step(low, node, found, f"recurrence {dtype.name} {type.text}", build, out)
    return out


# -- sums of runs


@lowers("sum_runs")
def _sum_runs(low: Lowering, node: Node) -> View | None:
    given, repeats = low.view(node.inputs[0]), node.attrs["repeats"]
    if given.dtype.kind == "b":
        return None
    axis = len(given.shape) + node.attrs["axis"]
    out = low.temp(node.spec.shape, given.dtype)
    if out.size == 0:
        return out
    times = (repeats,) * out.shape[axis] if isinstance(repeats, int) else repeats
    ends = low.constant(np.cumsum((0, *times), dtype=np.int64))
    x, target = as_parts(given), as_parts(out)
    found, dtype = lines(low, [x, target], axis), x.dtype
    memory, type = line_types(dtype)
    type = _running_type(type, max(times, default=0))
    extra = found.extra

    def along(b: Builder, line: Line, ends: Value) -> None:
        with b.loop(0, line.lengths[1]) as runs:
            start = b.load(I64, b.offset(ends, runs.index, I64))
            stop = b.load(I64, b.offset(ends, b.add(runs.index, b.index(1)), I64))
            with b.loop(start, stop, carried=[b.const(type.vector(line.lanes), 0)]) as run:
                x = convert(b, load(b, dtype, line.at(b, 0, run.index, memory), line.lanes), type)
                run.carry(_add(b, run.values[0], x))
            store(b, dtype, run.results[0], line.at(b, 1, runs.index, memory))

    def build(b: Builder) -> None:
        ends = b.buffer(extra)
        each_line(b, found, [memory] * 2, lambda line: along(b, line, ends))

    found = found._replace(words=[*found.words, ends])
    _step(low, node, found, f"sum of runs {dtype.name} {type.text}", build, out)
    return out
