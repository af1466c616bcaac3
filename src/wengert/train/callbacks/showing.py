"""Callbacks that show and measure a run: a bar, learning rates, times."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..progress import Bar, bar
from ..run import Callback, Run


class ProgressBar(Callback):
    """A bar on standard error for every epoch, with its values behind it; `wg.train.fit(progress=True)` adds one.

    rich draws it in terminals and notebooks, where it is installed (`pip install 'wengert[train]'`); else it is a line
    of text, which a log file has once for each epoch.

    >>> import wengert as wg
    >>> wg.train.ProgressBar().rank
    1
    """

    rank = 1

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._shown = 0.0
        self._began: float | None = None  # when the first step began, which compiles
        self._first = ""

    def on_epoch_start(self, run: Run) -> None:
        """Begin a bar."""
        total = -(-len(run.feed) // run.accumulate) or None
        label = f"epoch {run.epoch + 1}/{run.epochs}"
        self._bar = bar(label, total, run.feed.taken // run.accumulate)
        self._shown = 0.0

    def on_step_start(self, run: Run) -> None:
        """Say that the first step compiles."""
        if run.steps.compiles and self._began is None and self._bar is not None:
            self._began = time.monotonic()
            self._bar.note("compiling ...", now=True)

    def on_step_end(self, run: Run) -> None:
        """Count a step."""
        assert self._bar is not None
        now = time.monotonic()
        if self._began is not None and not self._first:
            self._first = f"  compiled in {now - self._began:.1f} s"
        # Texts cost more than the counting; nobody reads more than ten in a second.
        if now - self._shown > 0.1:
            self._shown = now
            self._bar.note(_text(run.values))
        self._bar.advance()

    def on_epoch_end(self, run: Run) -> None:
        """Show the epoch's values."""
        told = _text({k: v for k, v in run.row.items() if k not in ("epoch", "step", "lr")})
        self._close(told + (self._first if run.epoch == 1 else ""))

    def on_end(self, run: Run) -> None:
        """End a bar that an interruption left."""
        self._close(run.history.stopped or "")

    def _close(self, note: str) -> None:
        if self._bar is not None:
            self._bar.note(note.partition("\n")[0])
            self._bar.close()
            self._bar = None


def _text(values: dict[str, Any]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items() if not np.ndim(value))


class LearningRates(Callback):
    """The learning rate of each of the optimiser's groups, as columns `lr/0`, `lr/1`, ...

    The history has that of the first group as `lr` by itself.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(1, 1)
    >>> groups = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.2}]
    >>> optimizer = wg.optim.SGD(groups, lr=0.1)
    >>> data, loss = [(wg.ones((1, 1)), wg.ones((1, 1)))], wg.nn.functional.mse_loss
    >>> fit = wg.train.fit
    >>> found = fit(model, optimizer, loss, data, callbacks=[wg.train.LearningRates()], progress=False)
    >>> found.steps["lr/1"].tolist()
    [0.2]
    """

    def on_step_end(self, run: Run) -> None:
        """Add the rates."""
        run.log(**{f"lr/{i}": rate for i, rate in enumerate(run.rates)})


class Timing(Callback):
    """The seconds of an epoch's steps and of waiting for data, and rows per second, as columns of the epochs.

    The columns are `seconds` (all of the epoch), `data_seconds` (until the batches were there), `step_seconds`
    (gradients and updates) and `rows_per_second`. The first epoch has the compilation in it.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(1, 1)
    >>> data, loss = [(wg.ones((1, 1)), wg.ones((1, 1)))], wg.nn.functional.mse_loss
    >>> optimizer = wg.optim.SGD(model.parameters())
    >>> found = wg.train.fit(model, optimizer, loss, data, callbacks=[wg.train.Timing()], progress=False)
    >>> bool(found["seconds"][0] >= found["step_seconds"][0] > 0)
    True
    """

    def __init__(self) -> None:
        self._begun = self._last = self._data = self._steps = 0.0
        self._rows = 0

    def on_epoch_start(self, run: Run) -> None:
        """Begin to measure."""
        self._begun = self._last = time.perf_counter()
        self._data = self._steps = 0.0
        self._rows = 0

    def on_step_start(self, run: Run) -> None:
        """Measure the wait for data."""
        now = time.perf_counter()
        self._data += now - self._last
        self._last = now

    def on_step_end(self, run: Run) -> None:
        """Measure a step."""
        now = time.perf_counter()
        self._steps += now - self._last
        self._last = now
        self._rows += run.rows

    def on_epoch_end(self, run: Run) -> None:
        """Add the times."""
        seconds = time.perf_counter() - self._begun
        times = {"seconds": seconds, "data_seconds": self._data, "step_seconds": self._steps}
        run.log(**times, rows_per_second=self._rows / seconds)
