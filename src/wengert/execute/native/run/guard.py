"""Guarded memory, for tests: with `WENGERT_GUARD=1` every buffer of a program ends where memory may not be touched.

A run then takes place in memory of its own. Each buffer (arguments and results too, which are copied in and out) has
pages to itself and ends exactly where the last of them does, before a page without any right: what reads or writes
one element too far is a fault at once, in the instruction that does it. What is only read is protected against
writing. The bytes between a buffer and the beginning of its first page have a pattern that is looked at after each
step, so that an element too far to the front shows too, with the step that wrote it.

Memory that nothing was written to yet is full of what no computation passes over: signalling NaNs, integers far out
of range, truth values that are neither. A read before the first write shows in the results.

Steps are run one by one, the first thousands of a call (a loop goes on as it does elsewhere, in the same memory). With
`WENGERT_GUARD=steps` each says its name on standard error before it begins: where a fault has ended the process, the
last one is the culprit.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ....core import system
from ..plan.plan import ALIGN, ARENA, SCRATCH, SCRATCH_STRIDE, Buffer, Exchange, HostCall, Jump, Plan, Step, View

_PAGE = mmap.PAGESIZE
# The bytes around buffers, and those of memory that was never written to: signalling NaNs by itemsize, of bfloat16,
# other numbers, and what is a NaN however wide the floats are.
_FENCE = 0xC9
_NANS = {2: 0x7D25, 4: 0x7FA5A5A5, 8: 0x7FF4A5A5A5A5A5A5}
_NAN_BF16 = 0x7FA5
_OTHER, _ANY = 0xA5, 0xFF
# The number of a call's steps that are run one by one.
_WATCHED = 5_000


def is_on() -> bool:
    """Return whether programs that are made now run in guarded memory."""
    return os.environ.get("WENGERT_GUARD", "0") not in ("", "0")


class Run(NamedTuple):
    """A run of a program, by the functions that its caller provides.

    `table` is the table of addresses, in which arrays have been put; `threads` are as many as may run a step. `step`
    runs the step of a number, be it native or Python's, `rest` all from a number on; `seen` shows a view as an array.
    """

    table: np.ndarray[Any, np.dtype[np.int64]]
    threads: int
    step: Callable[[int], None]
    rest: Callable[[int], None]
    seen: Callable[[View], np.ndarray[Any, Any]]


class _Span(NamedTuple):
    """A buffer's span in guarded memory. Its address may be `before` bytes further on."""

    start: int
    nbytes: int
    before: int


class Guard:
    """A layout of a plan's buffers in guarded memory. `entries` are those that the table of addresses names."""

    def __init__(self, plan: Plan, entries: dict[Buffer, int]) -> None:
        self.plan = plan
        self._entries = {b: entry for b, entry in entries.items() if b.kind != "window"}
        self._spans: dict[Buffer, _Span] = {}
        self._dtypes: dict[Buffer, set[np.dtype[Any]]] = {}
        for view in _views(plan):
            self._dtypes.setdefault(view.buffer.whole, set()).add(view.dtype)
        self._end = _PAGE
        for view in plan.inputs:
            low, high = _reach(view)
            self._add(view.buffer, high - low, -low)
        for buffer in (*self._entries, *self._dtypes, *(b.whole for s in plan.steps for b in (*s.reads, *s.writes))):
            if buffer not in self._spans:
                self._add(buffer, buffer.nbytes)
        self._scratch = max((step.scratch for step in plan.steps), default=0)

    def _add(self, buffer: Buffer, nbytes: int, before: int = 0) -> None:
        self._end += _pages(nbytes)
        self._spans[buffer] = _Span(self._end - nbytes, nbytes, before)
        self._end += _PAGE

    def place(self, buffer: Buffer) -> int:
        """Return how far a temporary is from the arena's beginning."""
        return self._spans[buffer].start

    def run(self, run: Run) -> object:
        """Run the program. The temporaries are where `table` says as long as what is returned lives.

        Raises RuntimeError where a step has written before a buffer or behind its scratch memory, naming both.
        """
        memory = _Memory(self._end, self._scratch, run.threads)
        given = {b: int(run.table[entry]) for b, entry in self._entries.items()}
        try:
            self._lay_out(memory, run.table, given)
            self._steps(memory, run)
            for buffer, span in self._spans.items():
                memory.check(span, buffer, None)
            for kind in ("input", "output"):  # a result may have been given the memory of an argument
                for buffer, address in given.items():
                    if buffer.kind == kind and (kind == "output" or buffer.donated):
                        span = self._spans[buffer]
                        ctypes.memmove(address - span.before, memory.address + span.start, span.nbytes)
        finally:
            for buffer, address in given.items():
                run.table[self._entries[buffer]] = address
        return memory

    def _lay_out(self, memory: _Memory, table: Any, given: dict[Buffer, int]) -> None:
        table[ARENA], table[SCRATCH_STRIDE] = memory.address, memory.stride
        for buffer, span in self._spans.items():
            memory.fence(span)
            at = memory.address + span.start
            if buffer.kind in ("input", "constant"):
                ctypes.memmove(at, given[buffer] - span.before, span.nbytes)
                if not buffer.donated:
                    memory.protect(span)
            else:
                memory.unwrite(span, self._dtypes.get(buffer, set()))
            if buffer in given:
                table[self._entries[buffer]] = at + span.before

    def _steps(self, memory: _Memory, run: Run) -> None:
        tells = os.environ.get("WENGERT_GUARD") == "steps"
        at = count = 0
        while at < len(self.plan.steps):
            count += 1
            if count > _WATCHED:
                run.table[SCRATCH] = memory.scratch(self._scratch)
                run.rest(at)
                return
            step = self.plan.steps[at]
            if tells:
                print(f"step {at}: {_named(step)}", file=sys.stderr, flush=True)
            if isinstance(step.kernel, Jump):
                asked = step.kernel.when
                at = step.kernel.target if asked is None or run.seen(asked).any() else at + 1
                continue
            run.table[SCRATCH] = memory.scratch(step.scratch)
            run.step(at)
            memory.check_scratch(step)
            for buffer in {b.whole for b in step.writes}:
                memory.check(self._spans[buffer], buffer, step)
            at += 1


class _Memory:
    """The memory of one run: as many bytes as a `Guard` lays out, then scratch memory for each thread."""

    def __init__(self, end: int, scratch: int, threads: int) -> None:
        room = _pages(scratch)
        self.stride = room + _PAGE
        self._bytes = system.current.pages(end + threads * self.stride)
        self.address: int = self._bytes.ctypes.data
        self._bar(0)
        self._rooms = []
        for thread in range(threads):
            stop = end + thread * self.stride + room
            self._rooms.append(slice(stop - room, stop))
            self._bar(stop)

    def _bar(self, page: int) -> None:
        system.current.protect(self.address + page, _PAGE, system.NOTHING)

    def fence(self, span: _Span) -> None:
        """Give the bytes before a buffer the pattern, and take all rights from the page behind it."""
        self._before(span)[:] = _FENCE
        self._bar(span.start + span.nbytes)

    def _before(self, span: _Span) -> np.ndarray[Any, np.dtype[np.uint8]]:
        return self._bytes[span.start - span.start % _PAGE : span.start]

    def protect(self, span: _Span) -> None:
        """Make a buffer readable only."""
        if span.nbytes:
            first = self.address + span.start - span.start % _PAGE
            system.current.protect(first, _pages(span.nbytes), system.READ)

    def unwrite(self, span: _Span, dtypes: set[np.dtype[Any]]) -> None:
        """Make a buffer, in which there are elements of these dtypes, look as if it had never been written to."""
        part = self._bytes[span.start : span.start + span.nbytes]
        inexact = {d for d in dtypes if d.kind in "fcV"}
        if len(dtypes) == len(inexact) == 1:
            dtype = inexact.pop()
            size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
            part.view(f"u{size}")[:] = _NAN_BF16 if dtype.kind == "V" else _NANS[size]
        else:
            part[:] = _ANY if inexact else _OTHER

    def check(self, span: _Span, buffer: Buffer, step: Step | None) -> None:
        """Raise RuntimeError where the bytes before a buffer have been written to."""
        if (self._before(span) != _FENCE).any():
            _refuse(f"before {buffer}", step)

    def scratch(self, nbytes: int) -> int:
        """Return the first thread's address for so much scratch memory, which ends where the room does."""
        need = -(-nbytes // ALIGN) * ALIGN
        for room in self._rooms:
            self._bytes[room] = _FENCE
            self._bytes[room.stop - need : room.stop - need + nbytes] = _ANY
        return self.address + self._rooms[0].stop - need

    def check_scratch(self, step: Step) -> None:
        """Raise RuntimeError where the step has written around its scratch memory."""
        need = -(-step.scratch // ALIGN) * ALIGN
        for room in self._rooms:
            before = self._bytes[room.start : room.stop - need]
            behind = self._bytes[room.stop - need + step.scratch : room.stop]
            if (before != _FENCE).any() or (behind != _FENCE).any():
                _refuse(f"around its {step.scratch} bytes of scratch memory", step)


def _refuse(where: str, step: Step | None) -> NoReturn:
    raise RuntimeError(f"{_named(step) if step is not None else 'a step'} has written {where}")


def _named(step: Step) -> str:
    return f"{step.label} of {', '.join(str(n.op.name) for n in step.nodes)}" if step.nodes else step.label


def _pages(nbytes: int) -> int:
    return -(-nbytes // _PAGE) * _PAGE


def _views(plan: Plan) -> Iterator[View]:
    yield from plan.inputs
    yield from plan.outputs
    for step in plan.steps:
        yield from (word for word in step.words if isinstance(word, View))
        if isinstance(step.kernel, (Exchange, HostCall, Jump)) and step.kernel.when is not None:
            yield step.kernel.when


def _reach(view: View) -> tuple[int, int]:
    """Return the bytes that an argument takes up, from its address: first, and behind the last."""
    item = view.dtype.itemsize
    if view.size == 0:
        return 0, 0
    ends = [(n - 1) * s * item for n, s in zip(view.shape, view.strides)]
    return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0) + item
