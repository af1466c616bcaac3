"""A callback that shows a run in the browser while it is under way."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...core.mode import no_grad
from ..run import Callback, Run
from ..snapshot import Snapshot


class Watch(Callback):
    """A page in the browser that shows the run while it is under way, served by this process to this machine alone.

    Parameters
    ----------
    every: gradients and updates are looked at in the first step and in every so many: there gradients and update are
        two programs, and the weights are copied. By default in steps 1, 2, 4, 8 ... and at last in every 200th, or as
        seldom as it takes less than 1 % of the time.
    port: of this machine; 0 takes a free one.
    open: whether to open the browser. The address, which works once, is printed on standard error in either case.
    title: what the page is called.
    history: a folder in which the loss is kept; the page shows the other runs there, and those of event files.

    The page shows the loss and the validation's values, gradient norms by module, how large updates are beside weights,
    parameter by parameter, histograms of what modules give (by one more forward pass in every tenth sample, which
    changes nothing), steps per second and memory. It can pause the run, record one step to be looked into, and put back
    parameters and optimiser of an earlier step; data and schedule go on. It shows the last state when the run is over,
    until the process ends or :meth:`close` is called. For a loop of one's own there is `wg.explore.watch(step, model)`.

    Raises OSError where the port is taken, ShapeError for `every` below 1.

    >>> import wengert as wg
    >>> wg.train.Watch(open=False, every=20).every
    20
    """

    rank = 1

    def __init__(
        self, *, every: int | None = None, port: int = 0, open: bool = True, title: str = "", history: str | None = None
    ) -> None:
        self.every, self.port, self.title, self.history, self._open = every, port, title, history, open
        self.watcher: Any = None

    def on_start(self, run: Run) -> None:
        """Start the server."""
        # The explorer is loaded when somebody looks.
        watching = import_module("wengert.explorer.watch")
        self.close()
        given = run.model if hasattr(run.model, "named_parameters") else run.parameters
        title = self.title or type(run.model).__name__
        watched = watching.Watched(
            title, watching.named_parameters(given), self.every, self.history, run.model, run.optimizer
        )
        for row in map(run.history.epochs.row, range(run.history.epochs.rows)):
            watched.row(row)
        self.watcher = watching.Watcher(watched, self.port, self._open)

    def on_step_start(self, run: Run) -> None:
        """Begin to record the step, where the page has asked for one."""
        watched = self.watcher.watched
        if watched.activations.modules and watched.is_rare(run.step + 1) and run.batches:
            # Buffers and generators are as if it had not been.
            before = Snapshot(run.model, parameters=False)
            with no_grad(), watched.observing(run.step + 1):
                run.loss_of(run.batches[0])
            before.restore()
        watched.begin_step()

    def needs_gradients(self, run: Run) -> bool:
        """Return whether this step is one of those that are looked at."""
        return self.watcher is not None and self.watcher.watched.is_due(run.step + 1)

    def on_gradients(self, run: Run) -> None:
        """Take the gradients' norms, and the weights before the update."""
        self.watcher.watched.before(gradients=True)

    def on_step_end(self, run: Run) -> None:
        """Tell of the step."""
        watched = self.watcher.watched
        watched.after(run.step)
        watched.step(run.step, run.values, run.epoch + 1, run.epochs)
        watched.end_step(run.step, lambda: run.stopped)

    def on_validation_start(self, run: Run) -> None:
        """Tell that the model is validated."""
        self.watcher.watched.state("validating")

    def on_epoch_end(self, run: Run) -> None:
        """Tell of the epoch."""
        self.watcher.watched.row(run.row)

    def on_end(self, run: Run) -> None:
        """Tell how it ended."""
        if self.watcher is None:
            return
        if run.error is not None:
            self.watcher.watched.end_step(run.step + 1, failed=True)
            self.watcher.watched.state("failed", f"{type(run.error).__name__}: {run.error}")
        elif run.stopped:
            self.watcher.watched.state("stopped", run.history.stopped or "")
        else:
            self.watcher.watched.state("finished")

    def close(self) -> None:
        """End the server."""
        watcher, self.watcher = self.watcher, None
        if watcher is not None:
            watcher.close()
