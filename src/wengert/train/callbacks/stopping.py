"""Ends of training before its time: no more improvement, or a loss that is no number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...core.errors import DataError, fail, warn
from ...core.tensor import Tensor
from ...explain import nonfinite
from ..run import Callback, Run
from ..snapshot import Snapshot, copied_state


class Best:
    """The best value of a column so far."""

    def __init__(self, monitor: str, mode: str, min_delta: float = 0.0) -> None:
        if mode not in ("min", "max"):
            fail(DataError, f"mode={mode!r}", 'It is "min" where less is better, or "max".')
        self.monitor, self.mode, self.min_delta = monitor, mode, min_delta
        self.value: float | None = None

    def take(self, row: Mapping[str, Any]) -> bool:
        """Return whether an epoch is better than all before. NaN never is. Raises DataError for an unknown column."""
        if self.monitor not in row or np.ndim(row[self.monitor]):
            numbers = ", ".join(name for name, value in row.items() if not np.ndim(value))
            fail(DataError, f"no column of numbers {self.monitor!r} to go by", f"The epochs have: {numbers}.")
        value = float(row[self.monitor])
        if math.isnan(value):
            return False
        ahead = value if self.value is None else (self.value - value) * (1 if self.mode == "min" else -1)
        if self.value is not None and not ahead > self.min_delta:
            return False
        self.value = value
        return True


class EarlyStopping(Callback):
    """Training ends when a column of the epochs has not become better for a while; the best weights come back.

    Parameters
    ----------
    monitor: the column, "val_loss" by default.
    patience: how many epochs in a row may be no better than the best.
    min_delta: by how much a value has to be better to count.
    mode: "min" where less is better, "max" otherwise.
    restore: put the weights and buffers of the best epoch back into the model when the run ends otherwise than by
        an exception. They are those that the validation was computed with.

    An epoch whose value is NaN is no better. Raises DataError for a column that is not there.

    >>> import wengert as wg
    >>> x = wg.ones((8, 1))
    >>> model = wg.nn.Linear(1, 1)
    >>> stopping = wg.train.EarlyStopping("loss", patience=2, min_delta=1e9)
    >>> optimizer = wg.optim.SGD(model.parameters(), lr=0.1)
    >>> loss = wg.nn.functional.mse_loss
    >>> found = wg.train.fit(model, optimizer, loss, (x, x), epochs=9, callbacks=[stopping], progress=False)
    >>> len(found["loss"]), found.stopped
    (3, 'early stopping: loss is no better for 2 epochs')
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        patience: int = 5,
        min_delta: float = 0.0,
        mode: str = "min",
        restore: bool = True,
    ) -> None:
        if patience < 1:
            fail(DataError, f"patience={patience}", "At least one epoch shows that nothing became better.")
        self._best = Best(monitor, mode, abs(min_delta))
        self.patience, self.restore = patience, restore
        self.waited, self.best_epoch = 0, 0
        self._weights: dict[str, Tensor] | None = None

    @property
    def best(self) -> float | None:
        """The best value so far."""
        return self._best.value

    def on_start(self, run: Run) -> None:
        """Stay stopped where a resumed run was."""
        self._stop_if_over(run)

    def on_epoch_end(self, run: Run) -> None:
        """Compare the epoch with the best one."""
        if self._best.take(run.row):
            self.waited, self.best_epoch = 0, run.epoch
            if self.restore:
                self._weights = copied_state(run.model if run.validated is None else run.validated)
        else:
            self.waited += 1
        self._stop_if_over(run)

    def _stop_if_over(self, run: Run) -> None:
        if self.waited >= self.patience:
            run.stop(f"early stopping: {self._best.monitor} is no better for {self.waited} epochs")

    def on_end(self, run: Run) -> None:
        """Put the best weights back."""
        if run.error is None and self._weights is not None:
            run.model.load_state_dict(self._weights)
            run.is_settled = True

    def state_dict(self) -> dict[str, Any]:
        """Return the best value, its epoch and weights, and how long it has been."""
        found = {"value": self.best, "waited": self.waited, "epoch": self.best_epoch}
        return found | ({} if self._weights is None else {"weights": self._weights})

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a result of :meth:`state_dict`."""
        self._best.value, self.waited = state_dict["value"], state_dict["waited"]
        self.best_epoch, self._weights = state_dict["epoch"], state_dict.get("weights")


class StopOnNaN(Callback):
    """Training ends before a loss or a gradient that is not finite gets into the weights, and says where it comes from.

    The step's update is left out: the weights are those of the step before. The step is computed once more,
    operation by operation, by :func:`wengert.explain.nonfinite`, with the random numbers that it had; the answer is
    `explanation`, and its text in a warning and in `history.stopped`.

    Gradients are looked at in each step, so that gradients and update are two programs. Where losses are scaled,
    gradients that overflow are the scaler's to leave out, as long as its scale is above 1.

    >>> import warnings, wengert as wg
    >>> model = wg.nn.Linear(1, 1)
    >>> def loss(output, target):
    ...     return wg.log(output * 0 + target).mean()
    >>> stop = wg.train.StopOnNaN()
    >>> data = [(wg.ones((1, 1)), wg.tensor([[y]])) for y in (1.0, 0.0, 1.0)]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     found = wg.train.fit(model, wg.optim.SGD(model.parameters()), loss, data, callbacks=[stop], progress=False)
    >>> len(found.steps["loss"]), stop.explanation.op, stop.explanation.cause
    (1, 'log', 'the logarithm of 0')
    """

    def __init__(self) -> None:
        self.explanation: Any = None
        self._before: Snapshot | None = None

    def on_step_start(self, run: Run) -> None:
        """Keep the random numbers and the buffers that the step begins with."""
        self._before = Snapshot(run.model, parameters=False)

    def on_gradients(self, run: Run) -> None:
        """Stop where a gradient is not finite, as they all are where the loss is not."""
        before, self._before = self._before, None
        bad = [p for p in run.parameters if p.grad is not None and not _is_finite(p.grad)]
        loss_is_finite = math.isfinite(run.values["loss"])
        if loss_is_finite and (not bad or run.precision.will_back_off()):
            return
        assert before is not None
        before.restore()

        def losses(batches: Any) -> Any:
            return [run.loss_of(batch) for batch in batches]

        # A gradient that is not finite is one of the parameters': those of the data, which are then left out, may
        # be so for reasons of their own.
        args, asked = ((), lambda: losses(run.batches)) if loss_is_finite else ((run.batches,), losses)
        self.explanation = nonfinite(asked, *args)
        before.restore()
        what = "a gradient" if loss_is_finite else "the loss"
        told = str(self.explanation) if self.explanation else "It is finite when computed operation by operation."
        reason = f"{what} of step {run.step + 1} is not finite: {told}"
        run.stop(reason)
        warn(reason)


def _is_finite(grad: Tensor) -> bool:
    values = np.asarray(grad.detach().numpy()).reshape(-1)
    with np.errstate(all="ignore"):
        # One pass without a temporary; where the sum itself overflows each element is asked.
        return bool(np.isfinite(np.vdot(values, values)) or np.isfinite(values).all())
