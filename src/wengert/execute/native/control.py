"""Control flow inside plans: loops and branches whose bodies become steps of the enclosing program.

The driver jumps (:class:`~wengert.execute.native.plan.plan.Jump`), so that no iteration of a loop goes through
Python, and the steps of a body are shared out as any others are. The memory of a body is used again
in every iteration.

- The state of a loop lies in memory of its own. What a body computes is written there in place
  where the old value is read no more (as donated inputs are), and copied there otherwise.
- The rows of sequences that a scan takes and gives are *windows*: entries of the table of addresses
  that a small kernel moves on by a row each iteration. Nothing is copied for them, and a body's last
  kernel writes its row where it belongs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.graph.graph import Graph
from ...core.graph.snapshot import specs_of
from ...core.node import Node
from ...core.ops.record import OUTPUT
from .codegen.builder import Builder, Value
from .codegen.kernel import Kernel
from .codegen.types import I8, I64, PTR
from .kernels.copies import copy_step, operand
from .lower import GraphLowering
from .plan.lowering import Lowering, lowers
from .plan.plan import Buffer, Jump, View
from .rewrite.canonical import canonical
from .rewrite.checks import checked
from .rewrite.small_products import TINY

# More iterations than any loop has.
_ENDLESS = np.iinfo(np.int64).max


# -- kernels


def _entry(b: Builder, at: Value) -> Value:
    """Return the place in the table of addresses of the entry that the record's word `at` names."""
    return b.offset(b.ptrs, b.load(I64, b.offset(b.rec, at, I64)), PTR)


def _begin(b: Builder) -> None:
    """Write the kernel before a scan: set the iterations left, and move windows to their first rows.

    Record: the counter, the iterations, the number of windows; for each its buffer and where it begins.
    """
    b.store(b.word(2), b.buffer(0))
    with b.loop(0, b.word(3)) as loop:
        at = b.add(b.mul(loop.index, b.index(4)), b.index(4))
        source = b.load(PTR, _entry(b, b.add(at, b.index(2))))
        start = b.load(I64, b.offset(b.rec, b.add(at, b.index(3)), I64))
        b.store(b.offset(source, start, I8), _entry(b, at))


def _iterate(b: Builder) -> None:
    """Write the kernel after an iteration of a scan: count it, and move the windows on.

    Record: the counter, the number of windows; for each its buffer and the bytes of a row.
    """
    counter = b.buffer(0)
    b.store(b.sub(b.load(I64, counter), b.index(1)), counter)
    with b.loop(0, b.word(2)) as loop:
        at = b.add(b.mul(loop.index, b.index(3)), b.index(3))
        entry = _entry(b, at)
        row = b.load(I64, b.offset(b.rec, b.add(at, b.index(2)), I64))
        b.store(b.offset(b.load(PTR, entry), row, I8), entry)


def _begin_some(b: Builder) -> None:
    """Write the kernel before a scan over the first rows: set the iterations, the windows, and the flag of none.

    Record: the counter, the iterations that are asked for, the rows that there are, the word that is 1 where
    none is asked for, the number of windows; for each its buffer, where the first row is, and by how
    many bytes the row to begin with is further on for every iteration after the first.
    """
    iterations = b.imax(b.imin(b.load(I64, b.buffer(2)), b.word(4)), b.index(0))
    b.store(iterations, b.buffer(0))
    b.store(b.cast("zext", b.icmp("eq", iterations, b.index(0)), I64), b.buffer(5))
    others = b.sub(iterations, b.index(1))
    with b.loop(0, b.word(7)) as loop:
        at = b.add(b.mul(loop.index, b.index(5)), b.index(8))
        source = b.load(PTR, _entry(b, b.add(at, b.index(2))))
        start = b.load(I64, b.offset(b.rec, b.add(at, b.index(3)), I64))
        by = b.load(I64, b.offset(b.rec, b.add(at, b.index(4)), I64))
        b.store(b.offset(source, b.add(start, b.mul(others, by)), I8), _entry(b, at))


def _count_iterations(b: Builder) -> None:
    """Write the kernel after a loop that counts its iterations. Record: the count, the counter, the maximum."""
    b.store(b.sub(b.word(4), b.load(I64, b.buffer(2))), b.buffer(0))


def _clear(b: Builder) -> None:
    """Zero the rows that no iteration wrote. Record: rows, their number, a row's bytes, those written and read."""
    rows, count, size = b.buffer(0), b.word(2), b.word(3)
    written = b.imax(b.imin(b.load(I64, b.buffer(4)), count), b.index(0))
    read = b.imin(b.load(I64, b.buffer(6)), count)
    with b.loop(b.mul(written, size), b.mul(read, size)) as loop:
        b.store(b.const(I8, 0), b.offset(rows, loop.index, I8))


def _negated(b: Builder) -> None:
    """Write the kernel of a negation. Record: a boolean, and the word that becomes 1 where it is false."""
    false = b.icmp("eq", b.load(I8, b.buffer(0)), b.const(I8, 0))
    b.store(b.cast("zext", false, I64), b.buffer(2))


def _others(b: Builder) -> None:
    """Mark the branches that are not taken: every word becomes 1 but the index's. Record: an index, words, count."""
    last = b.sub(b.word(4), b.index(1))
    index = b.imin(b.imax(b.load(I64, b.buffer(0)), b.index(0)), last)
    words = b.buffer(2)
    with b.loop(0, b.word(4)) as loop:
        other = b.cast("zext", b.icmp("ne", loop.index, index), I64)
        b.store(other, b.offset(words, loop.index, I64))


def _kernel(low: Lowering, build: Any) -> Kernel:
    return low.kernel(f"control {build.__name__}", build)


# -- the lowerings


def _body(
    low: Lowering, graph: Graph, given: Sequence[View], overwritten: int = 0, places: Sequence[View | None] = ()
) -> list[View]:
    """Add the steps of an inner graph; the memory of its first `overwritten` inputs may be written to."""
    donated = [i < overwritten for i in range(len(graph.inputs))]
    extended, checks = checked(canonical(graph))
    return GraphLowering(extended, low.target, donated, low, given, places, checks).results()


def _put(low: Lowering, values: Sequence[View], targets: Sequence[View], node: Node) -> None:
    """Copy values to their places at once: one that lies in another's place is copied out of there first."""
    buffers = {t.buffer for t in targets}
    moves = [(v, t) for v, t in zip(values, targets, strict=True) if v != t]
    safe = [(low.copy(v) if v.buffer in buffers else v, t) for v, t in moves]
    for value, target in safe:
        copy_step(low, value, target, nodes=[node], label=f"state of {node.op.name}")


def _operands(low: Lowering, node: Node, graph: Graph, first: int = 0) -> list[View]:
    """Return the arrays of a node's inputs from `first` on, which are those of its graph."""
    return [operand(low, e, n.spec.dtype) for e, n in zip(node.inputs[first:], graph.inputs, strict=True)]


def _fresh(low: Lowering, graph: Graph, count: int) -> list[View]:
    """Return new memory for the first `count` results of a graph."""
    return [low.temp(n.spec.shape, n.spec.dtype) for n in graph.outputs[:count]]


def _window(low: Lowering, rows: View, reverse: bool) -> tuple[View, View, int]:
    """Return a window of one row of an array, the row where it begins, and the bytes to the next row."""
    length, *shape = rows.shape
    step = rows.strides[0]
    first = rows._replace(
        shape=tuple(shape), strides=rows.strides[1:], offset=rows.offset + (step * (length - 1) if reverse else 0)
    )
    buffer = Buffer("window", first.size * rows.dtype.itemsize, len(low.plan.windows), of=rows.buffer)
    low.plan.windows.append(buffer)
    move = step * rows.dtype.itemsize
    return first._replace(buffer=buffer, offset=0), first, -move if reverse else move


def _well_laid(low: Lowering, x: View) -> View:
    """Return an array that every iteration reads, laid out as kernels read it best: one copy for all iterations.

    Those of products take rows; loops run along the columns where these are few.
    """
    if len(x.shape) != 2 or min(x.shape) < 2 or 0 in x.strides:
        return x
    if x.shape[1] <= TINY < x.shape[0]:
        return low.contiguous(x.permute((1, 0))).permute((1, 0))
    return low.contiguous(x)


class _Windows:
    """The windows of a loop: onto the arrays whose rows it reads, and onto those whose rows it makes."""

    def __init__(self, low: Lowering, taken: Sequence[View], made: Sequence[View], reverse: bool = False) -> None:
        self._reverse = reverse
        self._all = [_window(low, x, reverse) for x in (*taken, *made)]
        self.taken = [w for w, _, _ in self._all[: len(taken)]]
        self.made = [w for w, _, _ in self._all[len(taken) :]]
        self.whole = [first for _, first, _ in self._all]

    def begin(self, low: Lowering, node: Node, left: View, iterations: int) -> None:
        """Add the step that sets the windows, and the iterations that are left."""
        words: list[int | View] = [left, iterations, len(self._all)]
        for window, first, _ in self._all:
            words += [window, first]
        label = f"begin {node.op.name}"
        low.step(_kernel(low, _begin), words, reads=[], writes=[left, *self.whole], nodes=[node], label=label)

    def begin_some(self, low: Lowering, node: Node, left: View, iterations: View, length: int, none: View) -> None:
        """Add the step that sets the windows to the first rows, and the iterations that are left."""
        words: list[int | View] = [left, iterations, length, none, len(self._all)]
        for window, first, move in self._all:
            if self._reverse:
                first = first._replace(offset=first.offset + move // first.dtype.itemsize * (length - 1))
            words += [window, first, -move if self._reverse else 0]
        writes = [left, none, *self.whole]
        label = f"begin {node.op.name}"
        low.step(_kernel(low, _begin_some), words, reads=[iterations], writes=writes, nodes=[node], label=label)

    def advance(self, low: Lowering, node: Node, left: View) -> None:
        """Add the step that moves the windows on, and counts the iteration."""
        words: list[int | View] = [left, len(self._all)]
        for window, _, move in self._all:
            words += [window, move]
        label = f"iteration of {node.op.name}"
        low.step(_kernel(low, _iterate), words, reads=self.whole, writes=[left], nodes=[node], label=label)


@lowers("scan", "partial_scan")
def _scan(low: Lowering, node: Node) -> tuple[View, ...]:
    body, carries, sequences = (node.attrs[k] for k in ("body", "carries", "sequences"))
    length, reverse = node.attrs["length"], node.attrs["reverse"]
    is_partial = node.op.name == "partial_scan"
    iterations = operand(low, node.inputs[0], np.int64) if is_partial else None
    inputs = node.inputs[1:] if is_partial else node.inputs
    # Rows are taken from what a node's inputs are, not from what the body's are.
    given = [low.view(e) if isinstance(e, Node) else operand(low, e, n.spec.dtype) for e, n in zip(inputs, body.inputs)]
    state = _fresh(low, body, carries)
    results = [low.temp(s.shape, s.dtype) for s in specs_of(node)[carries:]]
    _put(low, given[:carries], state, node)
    if length == 0:
        return (*state, *results)
    windows = _Windows(low, given[carries : carries + sequences], results, reverse)
    shared = [_well_laid(low, x) for x in given[carries + sequences :]]
    left = low.temp((), np.int64)
    stop = low.temp((), np.int64)
    none = Jump("no iteration of partial_scan", stop)
    if iterations is None:
        windows.begin(low, node, left, length)
    else:
        for e in inputs[carries : carries + sequences]:
            _clear_before(low, e, iterations, node)
        windows.begin_some(low, node, left, iterations, length, stop)
        low.step(none, [], reads=[stop], writes=[], nodes=[node])
    first_step = len(low.plan.steps)
    found = _body(low, body, [*state, *windows.taken, *shared], carries, [*[None] * carries, *windows.made])
    _put(low, found[carries:], windows.made, node)
    _put(low, found[:carries], state, node)
    windows.advance(low, node, left)
    low.step(Jump(f"next iteration of {node.op.name}", left, first_step), [], reads=[left], writes=[], nodes=[node])
    low.plan.loops.append((first_step, len(low.plan.steps) - 1))
    none.target = len(low.plan.steps)
    if iterations is not None:
        _clear_after(low, node, results, iterations, length)
    return (*state, *results)


@lowers("while_loop")
def _while(low: Lowering, node: Node) -> tuple[View, ...] | None:
    condition, body, carries = (node.attrs[k] for k in ("cond", "body", "carries"))
    most = node.attrs["max_steps"] if node.attrs["max_steps"] is None else min(node.attrs["max_steps"], _ENDLESS)
    (answer,) = condition.outputs
    if answer.spec.dtype != np.dtype(bool) or answer.spec.size != 1:
        return None
    given = _operands(low, node, body)
    state = _fresh(low, body, carries)
    results = [low.temp(s.shape, s.dtype) for s in specs_of(node)[carries : len(body.outputs)]]
    _put(low, given[:carries], state, node)
    iterations = low.temp((), np.int64)
    left, stop = low.temp((), np.int64), low.temp((), np.int64)
    end = Jump("end of while_loop", stop)
    if most is not None and most <= 0:
        copy_step(low, low.number(0, np.int64), iterations, nodes=[node])
        return (*state, *results, iterations) if len(body.outputs) > carries else tuple(state)
    windows = _Windows(low, [], results if most is not None else [])
    if most is not None:
        windows.begin(low, node, left, most)
    first_step = len(low.plan.steps)
    inner = [*state, *given[carries:]]
    (holds,) = _body(low, condition, inner)
    low.step(_kernel(low, _negated), [holds, stop], reads=[holds], writes=[stop], nodes=[node], label="while")
    low.step(end, [], reads=[stop], writes=[], nodes=[node])
    found = _body(low, body, inner, carries, [*[None] * carries, *windows.made])
    _put(low, found[carries:], windows.made, node)
    _put(low, found[:carries], state, node)
    if most is None:
        low.step(Jump("next iteration of while_loop", None, first_step), [], reads=[], writes=[], nodes=[node])
    else:
        windows.advance(low, node, left)
        low.step(Jump("next iteration of while_loop", left, first_step), [], reads=[left], writes=[], nodes=[node])
    low.plan.loops.append((first_step, len(low.plan.steps) - 1))
    end.target = len(low.plan.steps)
    if not results or most is None:
        return tuple(state)
    low.step(
        _kernel(low, _count_iterations),
        [iterations, left, most],
        reads=[left],
        writes=[iterations],
        nodes=[node],
        label="iterations",
    )
    _clear_after(low, node, results, iterations, most)
    return (*state, *results, iterations)


# -- rows of iterations that there were not
#
# They are zeros. A loop has room for many iterations and mostly takes few, so zeros are only written where
# something looks: before a scan over the first rows those that it is going to read, after the loop
# where anything else reads the array.


def _is_read_in_full(low: Lowering, rows: Node, axis: int = 0) -> bool:
    """Return whether anything but scans over first rows reads what a loop made; the rows are along `axis`."""
    assert isinstance(low, GraphLowering)
    if rows in low.graph.outputs:
        return True
    for reader in low.graph.consumers(rows):
        if reader.op.name == "permute":
            order = [a % rows.spec.ndim for a in reader.attrs["axes"]]
            if _is_read_in_full(low, reader, order.index(axis)):
                return True
        elif axis != 0 or not _takes_first_rows(reader, rows):
            return True
    return False


def _takes_first_rows(reader: Node, rows: Node) -> bool:
    if reader.op.name != "partial_scan":
        return False
    first = 1 + reader.attrs["carries"]
    last = first + reader.attrs["sequences"]
    return all(first <= i < last for i, e in enumerate(reader.inputs) if e is rows)


def _maker(rows: Any) -> Node | None:
    """Return the loop's result that these rows are, whatever the order of the axes after the first; else None."""
    axis = 0
    while isinstance(rows, Node) and rows.op.name == "permute":
        axis = rows.attrs["axes"][axis] % rows.spec.ndim
        rows = rows.inputs[0]
    is_result = isinstance(rows, Node) and rows.op is OUTPUT and axis == 0
    return rows if is_result else None


def _add_clear(low: Lowering, rows: View, written: View, read: View, node: Node, label: str) -> None:
    size = math.prod(rows.shape[1:]) * rows.dtype.itemsize
    words: list[int | View] = [rows, rows.shape[0], size, written, read]
    low.step(_kernel(low, _clear), words, reads=[written, read], writes=[rows], nodes=[node], label=label)


def _clear_after(low: Lowering, node: Node, results: Sequence[View], iterations: View, length: int) -> None:
    """Add zeros for the iterations that did not happen, where what a loop made is read in full."""
    assert isinstance(low, GraphLowering)
    first = node.attrs["carries"]
    for made in low.graph.consumers(node):
        at = made.attrs["index"] - first if made.op is OUTPUT else -1
        if 0 <= at < len(results) and _is_read_in_full(low, made):
            _add_clear(low, results[at], iterations, low.number(length, np.int64), node, "rows of no iteration")


def _clear_before(low: Lowering, rows: Any, iterations: View, node: Node) -> None:
    """Add zeros for rows that a scan over first rows reads, and that the loop before it did not reach."""
    result = _maker(rows)
    if result is None or _is_read_in_full(low, result):
        return
    loop: Any = result.inputs[0]
    made: Any = low.views[loop]
    is_row = result.attrs["index"] >= loop.attrs.get("carries", 0)
    if loop.op.name == "while_loop" and is_row:
        written = made[-1]
    elif loop.op.name == "partial_scan" and is_row:
        written = operand(low, loop.inputs[0], np.int64)
    else:
        return
    if written != iterations:
        _add_clear(low, made[result.attrs["index"]], written, iterations, node, "rows beyond the iterations")


@lowers("switch")
def _switch(low: Lowering, node: Node) -> tuple[View, ...] | None:
    branches = node.attrs["branches"]
    index = operand(low, node.inputs[0], np.int64)
    if index.dtype != np.dtype(np.int64):
        return None
    given = _operands(low, node, branches[0], 1)
    results = _fresh(low, branches[0], len(branches[0].outputs))
    others = low.temp((len(branches),), np.int64)
    words: list[int | View] = [index, others, len(branches)]
    low.step(_kernel(low, _others), words, reads=[index], writes=[others], nodes=[node], label="switch")
    ends = []
    for i, branch in enumerate(branches):
        last = i == len(branches) - 1
        word = others._replace(shape=(), strides=(), offset=i)
        past = Jump(f"past branch {i}", word)
        if not last:
            low.step(past, [], reads=[others], writes=[], nodes=[node])
        _put(low, _body(low, branch, given, 0, results), results, node)
        if not last:
            ends.append(Jump("end of switch"))
            low.step(ends[-1], [], reads=[], writes=[], nodes=[node])
            past.target = len(low.plan.steps)
    for end in ends:
        end.target = len(low.plan.steps)
    return tuple(results)
