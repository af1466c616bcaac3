"""A training run: what callbacks are given, and what they can do."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any

from ..core.errors import DTypeError, StateError, fail
from ..core.tensor import Tensor
from .feed import Feed, rows_of
from .history import History
from .metrics.base import Measured, Metric
from .precision import Precision
from .steps import SKIPPED, Steps, set_training_modes, training_modes


class Callback:
    """The base of what looks on at a training run: it overrides the hooks it needs, each of which is given the run.

    | hook | when |
    | --- | --- |
    | `on_resume` | before anything else, unless `resume=False` |
    | `on_start` | before the first step, after a checkpoint was loaded |
    | `on_epoch_start` | before an epoch, or the rest of one |
    | `on_step_start` | when a step has its batches (`run.batches`) |
    | `on_gradients` | between gradients and update, if `needs_gradients(run)`; `run.stop` leaves out the update |
    | `on_step_end` | after an update: `run.values` has its loss, `run.step` counts it; `run.log(name=...)` adds to it |
    | `on_validation_start`, `on_validation_end` | around each validation |
    | `on_epoch_end` | after an epoch: `run.row` has its values; `run.epoch` counts it |
    | `on_end` | at the end in any case: `run.error` is the exception, or None; `run.history.stopped` a reason |

    Hooks are called in the order of the callbacks, those of a lower `rank` first, and `on_end` in the other order. What
    a hook raises ends the run and reaches the caller; every `on_end` is called before. `state_dict()` and
    `load_state_dict()` are for what a resumed run has to remember.

    >>> import wengert as wg
    >>> class Losses(wg.train.Callback):
    ...     def on_step_end(self, run):
    ...         print(run.step, round(run.values["loss"], 4))
    >>> x = wg.ones((4, 1))
    >>> model = wg.nn.Linear(1, 1)
    >>> _ = wg.nn.init.zeros_(model.weight), wg.nn.init.zeros_(model.bias)
    >>> optimizer = wg.optim.SGD(model.parameters(), lr=0.25)
    >>> loss = wg.nn.functional.mse_loss
    >>> _ = wg.train.fit(model, optimizer, loss, [(x, x)], epochs=2, callbacks=[Losses()], progress=False)
    1 1.0
    2 0.0
    """

    # What the others add to a row is there for those of rank 1, which show and write it; rank 2 saves the state of all.
    rank = 0

    def on_resume(self, run: Run) -> None:
        """Bring the run to where an earlier one was. Not called with `resume=False`."""

    def on_start(self, run: Run) -> None:
        """Begin."""

    def on_epoch_start(self, run: Run) -> None:
        """Begin an epoch."""

    def on_step_start(self, run: Run) -> None:
        """Begin a step."""

    def needs_gradients(self, run: Run) -> bool:
        """Return whether `on_gradients` is to be called in this step: True where it is overridden.

        In such a step gradients and update are two programs, which takes longer than one.
        """
        return type(self).on_gradients is not Callback.on_gradients

    def on_gradients(self, run: Run) -> None:
        """Look at the gradients (`p.grad`), or change them."""

    def on_step_end(self, run: Run) -> None:
        """End a step."""

    def on_validation_start(self, run: Run) -> None:
        """Begin a validation."""

    def on_validation_end(self, run: Run) -> None:
        """End a validation."""

    def on_epoch_end(self, run: Run) -> None:
        """End an epoch."""

    def on_end(self, run: Run) -> None:
        """End the run."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run has to remember: numbers, texts and tensors in dicts and lists."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a result of :meth:`state_dict`."""


class Run:
    """A training run under way: what callbacks see, and the position from which it goes on.

    `model`, `optimizer`, `schedule`, `history`, `callbacks`, `precision` with its `scaler`; `epoch`, the number of
    epochs that are done, of `epochs`, and `step`, that of updates; `batches` of the present step (one, unless gradients
    are accumulated), their `rows` together, the learning `rates` of the step and its `values`; `row`, the values of the
    epoch that has just ended.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        steps: Steps,
        feed: Feed,
        validation: Feed | None,
        metrics: Mapping[str, Metric],
        callbacks: Sequence[Callback],
        schedule: Any,
        epochs: int,
        accumulate: int = 1,
        precision: Precision | None = None,
    ) -> None:
        for callback in callbacks:
            if not isinstance(callback, Callback):
                mend = "Derive its class from wg.train.Callback, and give an object of it."
                fail(DTypeError, f"a callback that is a {type(callback).__name__}", mend)
        self.model, self.optimizer, self.schedule = model, optimizer, schedule
        self.steps, self.feed, self.validation, self.metrics = steps, feed, validation, metrics
        self.precision = precision or Precision()
        self.callbacks = sorted(callbacks, key=lambda callback: callback.rank)
        self.history = History()
        self.epochs, self.accumulate, self.epoch, self.step = epochs, accumulate, 0, 0
        self.batches: list[Any] = []
        self.rows = 0
        self.rates: list[float] = []
        self.values: dict[str, float] = {}
        self.row: dict[str, Any] = {}
        self.error: BaseException | None = None
        # What validation computes with, where a callback has put other weights into the model.
        self.validated: Mapping[str, Any] | None = None
        # Whether the model has been given the weights that it is to have at the end.
        self.is_settled = False
        self._sums: dict[str, float] = {}
        self._counted = 0
        # Whether all that was taken from the data has come into the model, as it has between two steps.
        self.is_whole = True
        self._has_gradients = False

    # -- for callbacks

    def stop(self, reason: str) -> None:
        """End the run after this step; the first reason counts, and stands in `history.stopped`.

        In `on_gradients` the step's update is left out.
        """
        if self.history.stopped is None:
            self.history.stopped = reason
        self.is_whole = not self._has_gradients

    @property
    def stopped(self) -> bool:
        """True where the run is to end."""
        return self.history.stopped is not None

    @property
    def parameters(self) -> list[Tensor]:
        """The tensors that the optimiser updates."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def loss_of(self, batch: Any) -> Tensor:
        """Return the loss of a batch, computed operation by operation and recorded."""
        return self.steps.loss_of(batch)

    def log(self, **values: Any) -> None:
        """Add values to the row of the moment: to the epoch's in `on_epoch_end`, else to the step's."""
        if self.row:
            self.row |= values
            self.history.epochs.extend(values)
        else:
            self.values |= values
            self.history.steps.extend(values)

    # -- for the loop

    def tell(self, hook: str) -> None:
        """Call a hook of all callbacks."""
        for callback in self.callbacks:
            getattr(callback, hook)(self)

    def look_at_gradients(self, looking: Sequence[Callback]) -> bool:
        """Show callbacks the gradients. Return False where one of them stopped the run."""
        self._has_gradients = True
        try:
            for callback in looking:
                callback.on_gradients(self)
        finally:
            self._has_gradients = False
        return self.is_whole

    def resume(self) -> None:
        """Go on from what the callbacks have kept of an earlier run."""
        for callback in self.callbacks:
            callback.on_resume(self)

    def record(self, measured: Iterable[Mapping[str, Measured]], rows: int) -> None:
        """Count a step: its values in the history and in the epoch's means, what it gives to the metrics."""
        self.step += 1
        self.rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.history.steps.append({"step": self.step, "epoch": self.epoch + 1, "lr": self.rates[0], **self.values})
        for name, value in self.values.items():
            # The norm of gradients that overflowed says nothing of the others: the mean is theirs.
            counted = 0.0 if name == "grad_norm" and self.values.get(SKIPPED) else rows * value
            self._sums[name] = self._sums.get(name, 0.0) + counted
        self.rows = rows
        self._counted += rows
        for batch in measured:
            for name, found in batch.items():
                self.metrics[name].add(found)

    def begin_epoch(self) -> None:
        """Begin an epoch, or go on in one that was begun."""
        self.row = {}
        if not self.feed.taken:
            self._sums, self._counted = {}, 0
            for metric in self.metrics.values():
                metric.reset()

    def end_epoch(self) -> bool:
        """Work out an epoch's row: the means of its steps over all rows, its metrics, and those of validation.

        Returns False where the run was interrupted meanwhile: then the epoch has not ended, and a resumed run ends it.
        """
        row: dict[str, Any] = {"epoch": self.epoch + 1, "step": self.step, "lr": self.history.steps.row(-1)["lr"]}
        used = self._counted - self._sums.get(SKIPPED, 0.0)
        for name, total in self._sums.items():
            row[name] = total / self._counted if name != "grad_norm" else total / used if used else math.nan
        row |= {name: metric.compute() for name, metric in self.metrics.items()}
        if self.validation is not None:
            self.tell("on_validation_start")
            found = evaluated(self.model, self.steps, self.validation, self.metrics, lambda: self.stopped)
            self.tell("on_validation_end")
            if found is None:
                return False
            row |= {f"val_{name}": value for name, value in found.items()}
        self.row = row
        self.epoch += 1
        self.history.epochs.append(row)
        self.feed.end_epoch()
        return True

    # -- the position

    def state_dict(self) -> dict[str, Any]:
        """Return the position, the history, and what metrics and callbacks remember."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "sums": self._sums,
            "rows": self._counted,
            "precision": str(self.precision),
            "scaler": self.precision.scaler.state_dict() if self.precision.scaler is not None else {},
            "history": self.history.state_dict(),
            "metrics": {name: metric.state_dict() for name, metric in self.metrics.items()},
            "callbacks": [[type(c).__name__, c.state_dict()] for c in self.callbacks if c.state_dict()],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a result of :meth:`state_dict`. Raises StateError for other metrics or callbacks."""
        if set(state_dict["metrics"]) != set(self.metrics):
            had, has = (", ".join(names) or "none" for names in (state_dict["metrics"], self.metrics))
            fail(StateError, f"a run with the metrics {had} goes on with {has}", "Give the same ones.")
        had, has = state_dict.get("precision", "float32"), str(self.precision)
        if had != has:
            mend = "Give the same precision and scaler, or resume=False."
            fail(StateError, f"a run in {had} goes on in {has}", mend)
        kept = [c for c in self.callbacks if c.state_dict()]
        names, saved = [type(c).__name__ for c in kept], state_dict["callbacks"]
        if names != [name for name, _ in saved]:
            had = ", ".join(name for name, _ in saved) or "none"
            fail(
                StateError,
                f"a run with the callbacks {had} goes on with {', '.join(names) or 'none'}",
                "Give the same ones in the same order, or resume=False.",
            )
        self.epoch, self.step = state_dict["epoch"], state_dict["step"]
        if self.precision.scaler is not None:
            self.precision.scaler.load_state_dict(state_dict["scaler"])
        self._sums, self._counted = dict(state_dict["sums"]), state_dict["rows"]
        self.history.load_state_dict(state_dict["history"])
        for name, metric in self.metrics.items():
            metric.load_state_dict(state_dict["metrics"][name])
        for callback, (_, state) in zip(kept, saved):
            callback.load_state_dict(state)


class UnderWay:
    """A block in which a run is under way: callbacks begin and end, the model trains, Ctrl-C waits for a step's end.

    The first Ctrl-C ends the run after the step, the second one at once. A handler of the program's own stays.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._modes = training_modes(run.model)
        in_main = threading.current_thread() is threading.main_thread()
        self._handles = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def __enter__(self) -> None:
        run = self._run
        if self._modes and not run.model.training:
            run.model.train()
        if self._handles:
            signal.signal(signal.SIGINT, self._interrupted)
        try:
            run.tell("on_start")
        except BaseException as e:
            self._end(e)
            raise

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._end(e)

    def _end(self, error: BaseException | None) -> None:
        """End every callback, whatever others raise, and put back what was set."""
        run, failed = self._run, None
        run.error = error
        for callback in reversed(run.callbacks):
            try:
                callback.on_end(run)
            except BaseException as e:
                e.__context__ = failed or e.__context__
                failed, run.error = e, run.error or e
        set_training_modes(self._modes)
        if self._handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if failed is not None:
            raise failed

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        history = self._run.history
        if history.stopped == INTERRUPTED:
            signal.default_int_handler(number, frame)
        history.stopped = INTERRUPTED


# The reason of a run that Ctrl-C ended.
INTERRUPTED = "interrupted"


def evaluated(
    model: Any, steps: Steps, feed: Feed, metrics: Mapping[str, Metric], is_over: Callable[[], bool] = lambda: False
) -> dict[str, Any] | None:
    """Return the means and metrics over a feed, with the model in evaluation mode; None where it was to end."""
    modes = training_modes(model)
    if modes:
        model.eval()
    sums: dict[str, float] = {}
    total = 0
    kept = {name: metric.state_dict() for name, metric in metrics.items()}
    for metric in metrics.values():
        metric.reset()
    try:
        for batch in feed.epoch(0):
            values, measured = steps.evaluate(batch)
            rows = rows_of(batch)
            total += rows
            for name, value in values.items():
                sums[name] = sums.get(name, 0.0) + rows * float(value)
            for name, found in measured.items():
                metrics[name].add(found)
            if is_over():
                return None
        means = {name: value / total for name, value in sums.items()}
        return means | {name: metric.compute() for name, metric in metrics.items()}
    finally:
        set_training_modes(modes)
        for name, metric in metrics.items():
            metric.load_state_dict(kept[name])
