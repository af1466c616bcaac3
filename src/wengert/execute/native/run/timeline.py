"""Traces of a program's run, made from profiler records: which thread ran which part, and when."""

from __future__ import annotations

import ctypes
import time
from typing import Any, NamedTuple

import numpy as np

from ...gantt import Row, Scale, chart
from ..plan.plan import Plan
from .profile import (
    PROFILE_CLOCK,
    PROFILE_REGIONS,
    PROFILE_ROOM,
    PROFILE_STRIDE,
    RECORD,
    RECORD_END,
    RECORD_HI,
    RECORD_LO,
    RECORD_START,
    RECORD_STEP,
)
from .scheduler import LINE
from .threads import aligned

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]

# The clock of the records: on Linux what the driver takes its times by, elsewhere the driver calls it.
now = time.perf_counter_ns
_clock = ctypes.CFUNCTYPE(ctypes.c_int64)(now)


class NativeTrace(NamedTuple):
    """A trace of one run of a program: a row for every range of a step's units that a worker ran at a stretch.

    Rows are in the order in which they began. `step` is the number of the plan's step, `worker` who ran it (0 is the
    thread that calls), `lo` and `hi` the units from and to, `start` and `end` the times in seconds from the beginning
    of the run. A step that is not shared out is one row; what Python runs is worker 0's; a step in a loop has rows for
    every iteration; jumps have none. `workers` threads were there to run it, in `seconds`. `lost` rows did not fit
    into the memory. `labels` are the names of the plan's steps.

    >>> import wengert as wg
    >>> trace = wg.jit(lambda x: wg.exp(x) + 1).trace(wg.ones(3))
    >>> len(trace.step), trace.labels, trace.lost
    (1, ('exp+add',), 0)
    """

    step: Ints
    worker: Ints
    lo: Ints
    hi: Ints
    start: Floats
    end: Floats
    workers: int
    seconds: float
    lost: int
    labels: tuple[str, ...]

    @property
    def busy(self) -> Floats:
        """The seconds that every worker ran steps."""
        return np.bincount(self.worker, self.end - self.start, self.workers).astype(np.float64)

    def gantt(self, width: int = 72) -> str:
        """Return a text chart: a row for every step that ran, with how many workers were at it (`+`: more than nine).

        Under `worker` stands how many had a part in the step; the last rows show how busy every worker was.
        """
        scale = Scale(self.seconds, width)
        order = np.argsort(self.step, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(self.step[order])) + 1)
        rows = [self._row(rows, scale) for rows in sorted(groups, key=lambda rows: rows[:1].tolist()) if len(rows)]
        return chart("step", rows, scale, self.busy.tolist())

    def _row(self, rows: Ints, scale: Scale) -> Row:
        """Return the line of a step: its number and name, how many workers ran it, how many were at it when."""
        workers = np.unique(self.worker[rows])
        there = np.zeros((len(workers), scale.width), np.bool_)
        for row in rows:
            which = np.searchsorted(workers, self.worker[row])
            there[which, scale.columns(float(self.start[row]), float(self.end[row]))] = True
        line = "".join(" 123456789+"[min(n, 10)] for n in there.sum(0).tolist())
        step = int(self.step[rows[0]])
        return Row(f"{step} {self.labels[step]}", str(len(workers)), line)

    def __str__(self) -> str:
        return self.gantt()


class ProfileRecords:
    """The memory of one call's profiler records, with room for so many of each worker; see profile.py."""

    def __init__(self, workers: int, room: int) -> None:
        self.began = now()
        self._room = room
        stride = LINE + -(-room * 8 * len(RECORD) // LINE) * LINE
        self._memory = aligned(PROFILE_REGIONS + workers * stride, LINE)
        self.address: int = self._memory.ctypes.data
        words = self._memory[:PROFILE_REGIONS].view(np.int64)
        words[PROFILE_ROOM // 8] = room
        words[PROFILE_STRIDE // 8] = stride
        words[PROFILE_CLOCK // 8] = ctypes.cast(_clock, ctypes.c_void_p).value or 0
        # Memory beyond a region's count is touched, and so provided by the system, only when it is written.
        self._regions = self._memory[PROFILE_REGIONS:].view(np.int64).reshape(workers, stride // 8)
        self._regions[:, 0] = 0
        self._of_python: list[tuple[int, int, int]] = []

    def add(self, step: int, start: int, end: int) -> None:
        """Record a step that Python ran, with its times by `now`."""
        self._of_python.append((step, start, end))

    def trace(self, plan: Plan, words: Ints, begin: int, end: int) -> NativeTrace:
        """Return the trace of a run from one time to another; `words` are those of the steps, a row each."""
        tables, lost = [], 0
        for worker, region in enumerate(self._regions):
            count = min(int(region[0]), self._room)
            lost += int(region[0]) - count
            records = region[LINE // 8 :][: count * len(RECORD)].reshape(count, len(RECORD))
            step = (records[:, RECORD_STEP] - words.ctypes.data) // words.strides[0]
            rest = (records[:, i] for i in (RECORD_LO, RECORD_HI, RECORD_START, RECORD_END))
            tables.append(np.stack([step, np.full(count, worker), *rest]))
        kept = self._of_python[: self._room]
        lost += len(self._of_python) - len(kept)
        python = [(step, 0, 0, plan.steps[step].units, *times) for step, *times in kept]
        tables.append(np.array(python, np.int64).reshape(-1, 6).T)
        table = np.concatenate(tables, 1)
        step, worker, lo, hi, start, stop = table[:, np.argsort(table[4], kind="stable")]
        labels = tuple(s.label for s in plan.steps)
        workers, seconds = len(self._regions), (end - begin) / 1e9
        return NativeTrace(
            step, worker, lo, hi, (start - begin) / 1e9, (stop - begin) / 1e9, workers, seconds, lost, labels
        )
