"""Lifetimes of memory by the clock of the events: buffers as NumPy has them.

A view and what it is a view of are one buffer, and so is a value that several nodes keep. The rules are those of
:mod:`wengert.explain.memory`: a program holds a value until its last use, the tape what it saves until its backward
step, gradients live until they are handed on, those of leaves stay. What an operation needs for itself while it runs
is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...core.mode import Scope
from ..recording.recording import Event, Recording, Row

Class = Literal["value", "saved", "gradient", "work", "param"]
BEGINNING = -1


@dataclass(slots=True, eq=False)
class Buffer:
    """A buffer that lives from event `first`, after which it is there, to event `last`, after which it is gone.

    `first` is -1 for what is there from the beginning, `last` the number of events for what stays.
    """

    bytes: int
    kind: Class
    row: Row
    first: int
    last: int


@dataclass(frozen=True)
class Lives:
    """All buffers, and totals: what is there anyway, the most beside it, at which event, and what is saved."""

    buffers: list[Buffer]
    resident: int
    peak: int
    peak_at: int
    saved: int


def lives(recording: Recording) -> Lives:
    """Return the buffers of a recorded run; single numbers are such too, however many there are."""
    return _Ledger(recording).found()


def base(array: Any) -> Any:
    """Return the array that owns the memory of a view; a number itself."""
    owner = array
    while isinstance(owner, np.ndarray) and isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner


def arrays(value: Any) -> list[Any]:
    """Return the arrays, and NumPy's numbers, in a value, or in what a node saves."""
    if isinstance(value, (np.ndarray, np.generic)):
        return [value]
    if isinstance(value, (tuple, list)):
        return [found for item in value for found in arrays(item)]
    return []


class _Ledger:
    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.end = len(recording.events)
        self.buffers: dict[int, Buffer] = {}
        self.extra: list[Buffer] = []
        self.turn = self.end  # the first event of the backward pass
        self.backward_of: dict[Row, int] = {}
        for k, event in enumerate(recording.events):
            if event.phase == "backward":
                self.turn = min(self.turn, k)
                self.backward_of[event.row] = k

    def found(self) -> Lives:
        self._leaves()
        self._values()
        self._saved()
        self._gradients()
        every = [*self.buffers.values(), *self.extra]
        beside = [b for b in every if b.first != BEGINNING]
        resident = sum(b.bytes for b in every if b.first == BEGINNING)
        change = np.zeros(self.end + 2, np.int64)
        for buffer in beside:
            change[buffer.first] += buffer.bytes
            change[min(buffer.last, self.end) + 1] -= buffer.bytes
        held = np.cumsum(change)[: self.end] if self.end else np.zeros(1, np.int64)
        peak_at = int(np.argmax(held))
        saved = sum(b.bytes for b in beside if b.kind == "saved" and b.first < self.turn <= b.last)
        return Lives(sorted(every, key=lambda b: b.first), resident, int(held[peak_at]), peak_at, saved)

    def _hold(self, array: Any, kind: Class, row: Row, first: int, last: int) -> None:
        owner = base(array)
        known = self.buffers.get(id(owner))
        if known is None:
            self.buffers[id(owner)] = Buffer(int(owner.nbytes), kind, row, first, last)
        else:
            known.last = max(known.last, last)
            if kind == "saved" and known.kind == "value" and known.first != BEGINNING:
                known.kind = kind

    def _leaves(self) -> None:
        for row in self.recording.rows:
            if row.op is None and row.kind != "root":
                for array in arrays(row.value):
                    self._hold(array, "param" if row.kind == "param" else "value", row, BEGINNING, self.end)

    def _values(self) -> None:
        """Let results live until the last operation that takes them; the run's results stay."""
        results = set(self.recording.roots)
        for k, event in enumerate(self.recording.events):
            row = event.row
            if event.phase != "forward":
                continue
            for array in arrays(row.value):
                self._hold(array, "value", row, k, self.end if row in results else k)
            for operand in row.operands:
                if operand is not None:
                    for array in arrays(operand.value):
                        self._hold(array, "value", operand, k, k)

    def _saved(self) -> None:
        """Let what is kept for a backward step live until it; in a checkpoint only what comes from outside."""
        for k, event in enumerate(self.recording.events):
            row = event.row
            if event.phase == "recompute":
                for operand in row.operands:
                    if operand is not None and _checkpoint(operand) is not _checkpoint(row):
                        for array in arrays(operand.value):
                            self._hold(array, "saved", operand, k, k)
                if row.spec is not None:
                    size = sum(s.nbytes for s in row.specs)
                    self.extra.append(Buffer(size, "work", row, k, self.backward_of.get(row, k)))
            if event.phase == "forward" and row.saved and _checkpoint(row) is None:
                for array in arrays(row.saved):
                    self._hold(array, "saved", row, k, self.backward_of.get(row, self.end))

    def _gradients(self) -> None:
        arrived: dict[Row, Buffer] = {}
        for k, event in enumerate(self.recording.events):
            if event.phase != "backward":
                continue
            if event.row not in arrived:  # where the pass begins
                self._give(arrived, event.row, event.row.gradient, k - 1)
            for index, gradient in event.row.left.items():
                target = event.row.operands[index] if index < len(event.row.operands) else None
                if target is not None:
                    self._give(arrived, target, gradient, k)

    def _give(self, arrived: dict[Row, Buffer], target: Row, gradient: Any, event: int) -> None:
        last = self.end if target.op is None else self.backward_of.get(target, self.end)
        before = arrived.get(target)
        for array in arrays(gradient):
            if before is None:
                self._hold(array, "gradient", target, event, last)
                arrived[target] = self.buffers[id(base(array))]
            elif len(target.specs) == 1:
                # The sum of what arrived is an array of its own.
                made = Buffer(int(np.asarray(array).nbytes), "gradient", target, event, last)
                if before.last == last and before.row is target:
                    before.last = event
                self.extra.append(made)
                arrived[target] = made


def _checkpoint(row: Row) -> Scope | None:
    """Return the outermost checkpoint around a row: what is inside is computed again as a whole."""
    found, scope = None, row.scope
    while scope is not None:
        if scope.kind == "checkpoint":
            found = scope
        scope = scope.parent
    return found


def classes() -> Sequence[Class]:
    """Return the classes in the order in which the document numbers them."""
    return ("value", "saved", "gradient", "work", "param")


def clock(events: Sequence[Event]) -> dict[Row, int]:
    """Return the event in which each row's value came to be."""
    return {event.row: k for k, event in enumerate(events) if event.phase == "forward"}
