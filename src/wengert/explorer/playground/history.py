"""The history of a run: any step of it again, exactly.

A run is a function of its state, so a step is the same whenever it is taken. Whole states are kept every `stride`
steps; what lies between is computed again from the state before it, with the settings as they were changed on the way.
When the kept states outgrow their room every other one goes and the stride doubles: memory stays bounded, and going
back costs at most `stride` steps (the trade of Griewank and Walther, "Evaluating Derivatives", 2008, chapter 12).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable

from .controls import Value
from .run import Run, State

# Bytes for kept states, and at most how many of them.
ROOM = 48 << 20
MOST = 512
# A run has diverged where its loss is not finite, or so many times that of its first step.
DIVERGED = 1e4


class History:
    """A run with its past. `at` is the step it stands at, `last` the furthest that is known."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.at = 0
        self.stride = 1
        # True where a step that was computed again gave other numbers: the run is not a function of its state.
        self.drifted = False
        self.series = [array("d") for _ in run.series]
        # The first step whose loss is no finite number, or beyond every measure; None where there is none.
        self.diverged: int | None = None
        self._changes: dict[int, list[Callable[[], None]]] = {}
        self._kept: dict[int, State] = {}
        self._write(run.measure())
        self._keep()

    @property
    def last(self) -> int:
        return len(self.series[0]) - 1

    @property
    def kept(self) -> int:
        """The number of states that are kept."""
        return len(self._kept)

    def advance(self, step: Callable[[], object] | None = None) -> None:
        """Take the next step. Where it is known already it is taken again, and gives what it gave.

        `step` takes it instead of the run's own way: to watch it.
        """
        (step or self.run.step)()
        self.at += 1
        if self.at % self.stride == 0 and self.at not in self._kept:
            self._keep()
        self._change_again()
        found = self.run.measure()
        if self.at > self.last:
            self._write(found)
        elif not all(_same(kept[self.at], x) for kept, x in zip(self.series, found)):
            self.drifted = True
            self._forget()
            for kept, x in zip(self.series, found):
                kept[self.at] = x

    def set(self, name: str, value: Value) -> None:
        """Change a setting from this step on. What was known of later steps is gone."""
        self._change(lambda: self.run.set(name, value))

    def edit(self, parameter: int, index: int, value: float) -> None:
        """Set one number of a parameter by hand, at this step."""
        self._change(lambda: self.run.edit(parameter, index, value))
        self._drop(self.at)
        self._write(self.run.measure())

    def _change(self, change: Callable[[], None]) -> None:
        change()
        self._forget()
        self._changes.setdefault(self.at, []).append(change)

    def seek(self, step: int) -> None:
        """Go to a step that is known."""
        step = max(0, min(step, self.last))
        if not self.run.keeps:
            if step < self.at:
                self.run.restart()
                self.at = 0
                self._change_again()
        elif step != self.at:
            nearest = max(k for k in self._kept if k <= step)
            # From where it stands it may be nearer.
            if not nearest <= self.at <= step:
                self.run.load(self._kept[nearest])
                self.at = nearest
                self._change_again()
        while self.at < step:
            self.advance()

    def _change_again(self) -> None:
        for change in self._changes.get(self.at, ()):
            change()

    def _forget(self) -> None:
        """Forget everything after this step."""
        self._drop(self.at + 1)
        self._changes = {k: v for k, v in self._changes.items() if k <= self.at}
        self._kept = {k: v for k, v in self._kept.items() if k <= self.at}

    def _drop(self, step: int) -> None:
        for values in self.series:
            del values[step:]
        if self.diverged is not None and self.diverged >= step:
            self.diverged = None

    def _write(self, found: tuple[float, ...]) -> None:
        for values, x in zip(self.series, found, strict=True):
            values.append(x)
        losses = self.series[0]
        if self.diverged is None and not losses[-1] <= DIVERGED * max(losses[0], 1.0):
            self.diverged = self.last

    def _keep(self) -> None:
        """Keep this step's state, as it is before changes made here."""
        if not self.run.keeps:
            return
        state = self.run.save()
        self._kept[self.at] = state
        most = max(8, min(MOST, ROOM // max(1, state.nbytes)))
        while len(self._kept) > most:
            self.stride *= 2
            self._kept = {k: v for k, v in self._kept.items() if k % self.stride == 0}


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))
