"""The rule for PyTensor's scan, whose outputs are buffers that a loop reads and writes about its step's own row.

A buffer's rows that a step can see travel in the state of `wg.scan`, so that no step indexes the buffer: what leaves
the state on one side is a row of the result, what enters on the other is one of the buffer as it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pytensor.compile.mode import get_mode
from pytensor.scan.op import Scan

import wengert as wg

from .convert import NoRuleError, Walk, funcify, known, tensor

Run = Callable[..., Any]


class _Buffer:
    """A buffer of a loop: which rows a step reads and writes, counted from the first that it can see."""

    def __init__(self, rows: Any, reads: Sequence[int], writes: Sequence[int], steps: int) -> None:
        self.rows = rows
        # Row 0 of a tap is so far from the beginning that the first step sees nothing before that.
        begin = -min(0, *reads)
        low = min(*reads, *writes)
        self.reads, self.writes = [r - low for r in reads], [w - low for w in writes]
        self.at, self.width = begin + low, max(*reads, *writes) - low + 1
        self.steps = steps

    def first(self) -> list[Any]:
        """Return the rows that the first step sees."""
        length = self.rows.shape[0]
        # Rows behind the end are written before they are read, or refused.
        return [self.rows[min(self.at + i, length - 1)] for i in range(self.width)]

    def entering(self) -> Any:
        """Return the row that each step is followed by."""
        begin = self.at + self.width
        found = self.rows[begin : begin + self.steps]
        return _padded(found, self.steps)

    def after(self, seen: Sequence[Any], written: Sequence[Any], entering: Any) -> tuple[list[Any], Any]:
        """Return the rows that the next step sees, and the one that is done."""
        rows = list(seen)
        for at, value in zip(self.writes, written, strict=True):
            rows[at] = value
        return [*rows[1:], entering], rows[0]

    def result(self, seen: Sequence[Any], done: Any) -> Any:
        """Return the buffer after the loop."""
        length, last = self.rows.shape[0], [wg.expand_dims(r, axis=0) for r in seen[:-1]]
        found = wg.concat([self.rows[: self.at], done, *last], axis=0)
        whole = found.shape[0]
        if whole < length:
            return wg.concat([found, self.rows[whole:]], axis=0)
        return found[whole - length :]


def _padded(rows: Any, count: int) -> Any:
    """Return so many rows, with zeros behind those that there are."""
    missing = count - rows.shape[0]
    if missing <= 0:
        return rows[:count]
    return wg.concat([rows, wg.zeros((missing, *rows.shape[1:]), dtype=rows.dtype)], axis=0)


@funcify.register(Scan)
def _scan(op: Any, node: Any, walk: Walk) -> Run:
    info = op.info
    if info.as_while:
        return _ending(op, node, walk)
    inner = op.fgraph.clone()
    get_mode("WENGERT").optimizer.rewrite(inner)

    def run(*given: Any) -> list[Any]:
        steps = int(known(given[0], "a number of steps"))
        rows = [tensor(x)[:steps] for x in op.outer_seqs(given)]
        if any(r.shape[0] < steps for r in rows):
            raise ValueError(f"a sequence is shorter than the {steps} steps of a scan")
        several = [tensor(x) for x in op.outer_mitmot(given)]
        buffers = [
            _Buffer(x, reads, writes, steps)
            for x, reads, writes in zip(several, info.mit_mot_in_slices, info.mit_mot_out_slices, strict=True)
        ]
        if any(b.at + steps + b.width - 1 > b.rows.shape[0] for b in buffers):
            raise NoRuleError("no rule for a scan whose gradients share rows of a buffer")
        single = [tensor(x) for x in (*op.outer_mitsot(given), *op.outer_sitsot(given))]
        taps = (*info.mit_sot_in_slices, *info.sit_sot_in_slices)
        buffers += [_Buffer(x, reads, (0,), steps) for x, reads in zip(single, taps, strict=True)]
        states = [tensor(x) for x in op.outer_untraced_sit_sot(given)]
        outside = op.outer_non_seqs(given)
        widths = [len(w) for w in info.mit_mot_out_slices] + [1] * len(single)

        def step(carry: Any, row: Any) -> Any:
            seen, held = carry
            sequence, entering = row
            read = [s[r] for b, s in zip(buffers, seen, strict=True) for r in b.reads]
            inside = Walk()
            found = list(map(tensor, inside.run(inner, [*sequence, *read, *held, *outside])))
            if inside.checks:
                raise NoRuleError("no rule for a check in a scan")
            new, done, at = [], [], 0
            for b, s, enters, width in zip(buffers, seen, entering, widths, strict=True):
                following, ready = b.after(s, found[at : at + width], enters)
                new.append(following)
                done.append(ready)
                at += width
            kept, last = found[at : at + info.n_nit_sot], found[at + info.n_nit_sot :]
            return (new, last), (done, kept)

        begin = ([b.first() for b in buffers], states)
        (seen, last), (done, kept) = wg.scan(step, begin, (rows, [b.entering() for b in buffers]), length=steps)
        lengths = [int(known(n, "the length of a result")) for n in op.outer_nitsot(given)]
        ends = [_padded(k, n) if n > steps else k[steps - n :] for k, n in zip(kept, lengths, strict=True)]
        return [*(b.result(s, d) for b, s, d in zip(buffers, seen, done, strict=True)), *ends, *last]

    return run


def _ending(op: Any, node: Any, walk: Walk) -> Run:
    """Return a loop that ends by a value, of which the last rows alone are asked for.

    How many rows there are is not known before a run, so each result is its last row.
    """
    info = op.info
    traced = info.n_mit_sot + info.n_sit_sot + info.n_nit_sot
    if info.n_mit_mot or not all(walk.takes_last(v) for v in node.outputs[:traced]):
        raise NoRuleError("no rule for a scan that ends by a value, but where its last values alone are used")
    inner = op.fgraph.clone()
    get_mode("WENGERT").optimizer.rewrite(inner)
    taps = (*info.mit_sot_in_slices, *info.sit_sot_in_slices)

    def run(*given: Any) -> list[Any]:
        sequences, outside = [tensor(x) for x in op.outer_seqs(given)], op.outer_non_seqs(given)
        steps = int(known(given[0], "a number of steps"))
        if steps < 1 or any(x.shape[0] < steps for x in sequences):
            raise NoRuleError(
                f"no rule for a scan of {steps} steps, or more than its sequences have, that ends by a value"
            )
        buffers = [tensor(x) for x in (*op.outer_mitsot(given), *op.outer_sitsot(given))]
        # The rows that a step sees, the oldest first.
        begin = [[x[i] for i in range(-min(t))] for x, t in zip(buffers, taps, strict=True)]
        states = [tensor(x) for x in op.outer_untraced_sit_sot(given)]

        def inside(at: Any, seen: Any, held: Any) -> list[Any]:
            rows = [wg.take(x, at, axis=0) for x in sequences]
            read = [r[len(r) + i] for r, t in zip(seen, taps, strict=True) for i in t]
            looking = Walk()
            found = list(map(tensor, looking.run(inner, [*rows, *read, *held, *outside])))
            if looking.checks:
                raise NoRuleError("no rule for a check in a scan")
            return found

        start, count = wg.zeros((), dtype=np.int64), len(begin)
        # What is of no step before has the shapes of a step's results, which are computed for nothing else.
        rest = inside(start, begin, states)[count : count + info.n_nit_sot] if info.n_nit_sot else []

        def goes_on(state: Any) -> Any:
            return (state[0] < steps) & ~state[1]

        def step(state: Any) -> Any:
            at, _, seen, held, _ = state
            found = inside(at, seen, held)
            following = [[*r[1:], new] for r, new in zip(seen, found[:count], strict=True)]
            last = count + info.n_nit_sot
            return at + 1, found[-1].astype(np.bool_), following, found[last:-1], found[count:last]

        state = (start, wg.zeros((), dtype=np.bool_), begin, states, [wg.zeros(r.shape, dtype=r.dtype) for r in rest])
        _, _, seen, held, rest = wg.while_loop(goes_on, step, state)
        return [*(wg.expand_dims(r, axis=0) for r in (*(s[-1] for s in seen), *rest)), *held]

    return run
