"""Control flow inside plans: loops and branches, whose graphs become steps of the program around them.

The driver jumps (:class:`~wengert.execute.native.plan.Jump`), so that no turn of a loop goes through
Python, and the steps of a body are shared out as any others are. The memory of a body is used again
in every turn.

- The state of a loop lies in memory of its own. What a body computes is written there in place
  where the old value is read no more (as donated inputs are), and copied there otherwise.
- The rows of sequences that a scan takes and gives are *windows*: entries of the table of addresses
  that a small kernel moves on by a row each turn. Nothing is copied for them, and a body's last
  kernel writes its row where it belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.graph import Graph
from ...core.node import Node
from ...core.snapshot import specs_of
from .builder import Builder, Value
from .canonical import canonical
from .checks import checked
from .kernel import Kernel
from .lower import GraphLowering
from .lowering import Lowering, lowers
from .moves import copy_step, operand
from .plan import Buffer, Jump, View
from .small_products import TINY
from .types import I8, I64, PTR

# More turns than any loop has.
_ENDLESS = np.iinfo(np.int64).max


# -- kernels


def _entry(b: Builder, at: Value) -> Value:
    """Where the table keeps the address that the record's word `at` names."""
    return b.offset(b.ptrs, b.load(I64, b.offset(b.rec, at, I64)), PTR)


def _begin(b: Builder) -> None:
    """Before a scan: turns left, and windows at their first rows.

    Record: the counter, the turns, the number of windows; for each its buffer and where it begins.
    """
    b.store(b.word(2), b.buffer(0))
    with b.loop(0, b.word(3)) as loop:
        at = b.add(b.mul(loop.index, b.index(4)), b.index(4))
        source = b.load(PTR, _entry(b, b.add(at, b.index(2))))
        start = b.load(I64, b.offset(b.rec, b.add(at, b.index(3)), I64))
        b.store(b.offset(source, start, I8), _entry(b, at))


def _turn(b: Builder) -> None:
    """After a turn of a scan: one less is left, and windows move on.

    Record: the counter, the number of windows; for each its buffer and the bytes of a row.
    """
    counter = b.buffer(0)
    b.store(b.sub(b.load(I64, counter), b.index(1)), counter)
    with b.loop(0, b.word(2)) as loop:
        at = b.add(b.mul(loop.index, b.index(3)), b.index(3))
        entry = _entry(b, at)
        row = b.load(I64, b.offset(b.rec, b.add(at, b.index(2)), I64))
        b.store(b.offset(b.load(PTR, entry), row, I8), entry)


def _start(b: Builder) -> None:
    """The counter of a loop that may end at any turn. Record: the counter, the turns at most."""
    b.store(b.word(2), b.buffer(0))


def _may_turn(b: Builder) -> None:
    """Count a turn. Record: the counter, and the word that is 1 where none was left."""
    counter = b.buffer(0)
    left = b.load(I64, counter)
    b.store(b.sub(left, b.index(1)), counter)
    b.store(b.cast("zext", b.icmp("sle", left, b.index(0)), I64), b.buffer(2))


def _negated(b: Builder) -> None:
    """Record: a boolean, and the word that is 1 where it is false."""
    false = b.icmp("eq", b.load(I8, b.buffer(0)), b.const(I8, 0))
    b.store(b.cast("zext", false, I64), b.buffer(2))


def _others(b: Builder) -> None:
    """Record: an index, words, their number; every word is 1 but the one of the index (or the nearest), 0."""
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
    """Add the steps of a graph inside; its first inputs' memory, `overwritten` of them, may be written to."""
    donated = [i < overwritten for i in range(len(graph.inputs))]
    extended, checks = checked(canonical(graph))
    return GraphLowering(extended, low.target, donated, low, given, places, checks).results()


def _put(low: Lowering, values: Sequence[View], targets: Sequence[View], node: Node) -> None:
    """All values into their places at once: one that lies in another's place is copied out of there first."""
    buffers = {t.buffer for t in targets}
    moves = [(v, t) for v, t in zip(values, targets, strict=True) if v != t]
    safe = [(low.copy(v) if v.buffer in buffers else v, t) for v, t in moves]
    for value, target in safe:
        copy_step(low, value, target, nodes=[node], label=f"state of {node.op.name}")


def _operands(low: Lowering, node: Node, graph: Graph, first: int = 0) -> list[View]:
    """The arrays of a node's inputs from `first` on, which are those of its graph."""
    return [operand(low, e, n.spec.dtype) for e, n in zip(node.inputs[first:], graph.inputs, strict=True)]


def _fresh(low: Lowering, graph: Graph, count: int) -> list[View]:
    """Memory for the first `count` results of a graph."""
    return [low.temp(n.spec.shape, n.spec.dtype) for n in graph.outputs[:count]]


def _window(low: Lowering, rows: View, reverse: bool) -> tuple[View, View, int]:
    """A window of one row of an array: it, the row where it begins, and the bytes to the next one."""
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
    """What every turn reads: a matrix laid as kernels read it from where it lies, which costs one copy for all turns.

    Those of products take rows; loops run along the columns where these are few.
    """
    if len(x.shape) != 2 or min(x.shape) < 2 or 0 in x.strides:
        return x
    if x.shape[1] <= TINY < x.shape[0]:
        return low.contiguous(x.permute((1, 0))).permute((1, 0))
    return low.contiguous(x)


@lowers("scan")
def _scan(low: Lowering, node: Node) -> tuple[View, ...]:
    body, carries, sequences = (node.attrs[k] for k in ("body", "carries", "sequences"))
    length, reverse = node.attrs["length"], node.attrs["reverse"]
    # Rows are taken from what a node's inputs are, not from what the body's are.
    given = [
        low.view(e) if isinstance(e, Node) else operand(low, e, n.spec.dtype) for e, n in zip(node.inputs, body.inputs)
    ]
    state = _fresh(low, body, carries)
    results = [low.temp(s.shape, s.dtype) for s in specs_of(node)[carries:]]
    _put(low, given[:carries], state, node)
    if length == 0:
        return (*state, *results)
    taken = [_window(low, x, reverse) for x in given[carries : carries + sequences]]
    made = [_window(low, y, reverse) for y in results]
    shared = [_well_laid(low, x) for x in given[carries + sequences :]]
    windows = [*taken, *made]
    left = low.temp((), np.int64)
    words: list[int | View] = [left, length, len(windows)]
    for window, first, _ in windows:
        words += [window, first]
    whole = [first for _, first, _ in windows]
    low.step(_kernel(low, _begin), words, reads=[], writes=[left, *whole], nodes=[node], label="scan")
    first_step = len(low.plan.steps)
    inner = [*state, *(w for w, _, _ in taken), *shared]
    rows = [w for w, _, _ in made]
    found = _body(low, body, inner, carries, [*[None] * carries, *rows])
    _put(low, found[carries:], rows, node)
    _put(low, found[:carries], state, node)
    words = [left, len(windows)]
    for window, _, move in windows:
        words += [window, move]
    low.step(_kernel(low, _turn), words, reads=whole, writes=[left], nodes=[node], label="turn of scan")
    low.step(Jump("next turn of scan", left, first_step), [], reads=[left], writes=[], nodes=[node])
    low.plan.loops.append((first_step, len(low.plan.steps) - 1))
    return (*state, *results)


@lowers("while_loop")
def _while(low: Lowering, node: Node) -> tuple[View, ...] | None:
    condition, body, carries = (node.attrs[k] for k in ("cond", "body", "carries"))
    most = node.attrs["max_steps"]
    (answer,) = condition.outputs
    if answer.spec.dtype != np.dtype(bool) or answer.spec.size != 1:
        return None
    given = _operands(low, node, body)
    state = _fresh(low, body, carries)
    _put(low, given[:carries], state, node)
    stop = low.temp((), np.int64)
    ends = [Jump("end of while_loop", stop)]
    if most is not None:
        left = low.temp((), np.int64)
        low.step(_kernel(low, _start), [left, min(most, _ENDLESS)], reads=[], writes=[left], nodes=[node])
    first_step = len(low.plan.steps)
    inner = [*state, *given[carries:]]
    if most is not None:
        low.step(_kernel(low, _may_turn), [left, stop], reads=[left], writes=[left, stop], nodes=[node])
        ends.append(Jump("most turns of while_loop", stop))
        low.step(ends[-1], [], reads=[stop], writes=[], nodes=[node])
    (holds,) = _body(low, condition, inner)
    low.step(_kernel(low, _negated), [holds, stop], reads=[holds], writes=[stop], nodes=[node], label="while")
    low.step(ends[0], [], reads=[stop], writes=[], nodes=[node])
    _put(low, _body(low, body, inner, carries), state, node)
    low.step(Jump("next turn of while_loop", None, first_step), [], reads=[], writes=[], nodes=[node])
    low.plan.loops.append((first_step, len(low.plan.steps) - 1))
    for end in ends:
        end.target = len(low.plan.steps)
    return tuple(state)


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
