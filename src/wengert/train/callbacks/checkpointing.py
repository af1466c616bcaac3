"""Checkpoints of a run, from which another one goes on."""

from __future__ import annotations

import os
from typing import Any

from ...core.errors import DataError, GraphError, fail
from ..checkpoints import load_checkpoint, save_checkpoint
from ..feed import SHARED
from ..run import Callback, Run
from .stopping import Best

Path = str | os.PathLike[str]


class ModelCheckpoint(Callback):
    """Checkpoints of all that a run changes, by :func:`save_checkpoint`; a resumed run is bit for bit one run.

    Parameters
    ----------
    folder: where they are kept.
    every_epochs: after so many epochs; None: not after epochs.
    every_steps: after so many steps besides.
    keep: how many stay.
    best: a column of the epochs ("val_loss", "val_accuracy"): the epoch in which it was best is kept besides, in the
        folder `best` inside.
    mode: "min" or "max": which values of `best` are better.
    parts: what else the program changes and needs again, as generators of its own: `noise=generator`.

    A checkpoint has the model, the optimiser, the schedule, the scaler, the position in the data, the history, what
    metrics and callbacks remember, and the default generators of Wengert, Python and NumPy. One is written, too, when a
    run ends otherwise than by an exception. What a dataset itself draws in workers is repeated with `seed_batches=True`
    of the loader alone.

    Raises GraphError for a model without `state_dict()`.

    >>> import tempfile, wengert as wg
    >>> def losses(epochs, folder):
    ...     wg.manual_seed(0)
    ...     model = wg.nn.Sequential(wg.nn.Dropout(0.5), wg.nn.Linear(8, 1))
    ...     x = wg.ones((64, 8))
    ...     saving = wg.train.ModelCheckpoint(folder, every_steps=3)
    ...     optimizer = wg.optim.Adam(model.parameters())
    ...     loss = wg.nn.functional.mse_loss
    ...     fit = wg.train.fit
    ...     found = fit(model, optimizer, loss, (x, x[:, :1]), epochs=epochs, callbacks=[saving], progress=False)
    ...     return found.steps["loss"].tolist()
    >>> with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
    ...     _ = losses(2, one)
    ...     losses(4, one) == losses(4, other)
    True
    """

    rank = 2

    def __init__(
        self,
        folder: Path,
        *,
        every_epochs: int | None = 1,
        every_steps: int | None = None,
        keep: int = 3,
        best: str | None = None,
        mode: str = "min",
        **parts: Any,
    ) -> None:
        for name, number in (("every_epochs", every_epochs), ("every_steps", every_steps), ("keep", keep)):
            if number is not None and number < 1:
                fail(DataError, f"{name}={number} of a ModelCheckpoint", "It is at least 1.")
        taken = {"model", "optimizer", "schedule", "data", "run", "step"} & set(parts)
        if taken:
            fail(DataError, f"a part with the name {taken.pop()!r}", "That is one of the run's own: choose another.")
        self.folder, self.keep, self.parts = os.fspath(folder), keep, parts
        self.every_epochs, self.every_steps = every_epochs, every_steps
        self._best = None if best is None else Best(best, mode)
        self._saved: tuple[int, int] | None = None

    def _held(self, run: Run) -> dict[str, Any]:
        if not hasattr(run.model, "state_dict"):
            mend = "Put its parameters into a module, or save them in a callback of your own."
            kind = type(run.model).__name__
            fail(GraphError, f"a checkpoint of a model that is a {kind}, without state_dict()", mend)
        held = {"model": run.model, "optimizer": run.optimizer, "data": run.feed, "run": run, **self.parts}
        return held | ({"schedule": run.schedule} if hasattr(run.schedule, "state_dict") else {})

    def save(self, run: Run) -> str:
        """Write a checkpoint of the run as it is now, and return its folder."""
        self._saved = run.step, run.epoch
        return save_checkpoint(self.folder, step=run.step, keep=self.keep, random=SHARED, **self._held(run))

    def on_resume(self, run: Run) -> None:
        """Go on from the last checkpoint in the folder, where there is one."""
        if load_checkpoint(self.folder, **self._held(run)) is not None:
            self._saved = run.step, run.epoch

    def on_start(self, run: Run) -> None:
        """Find out before the first step whether the model can be saved."""
        self._held(run)

    def on_step_end(self, run: Run) -> None:
        """Save where it is time by steps."""
        if self.every_steps is not None and run.step % self.every_steps == 0:
            self.save(run)

    def on_epoch_end(self, run: Run) -> None:
        """Save where it is time by epochs, and where the epoch was the best one."""
        is_best = self._best is not None and self._best.take(run.row)
        if self.every_epochs is not None and run.epoch % self.every_epochs == 0:
            self.save(run)
        if is_best:
            held = self._held(run) | ({"validated": run.validated} if run.validated is not None else {})
            save_checkpoint(os.path.join(self.folder, "best"), step=run.step, keep=1, random=SHARED, **held)

    def on_end(self, run: Run) -> None:
        """Save what the run has come to, unless an exception ended it."""
        if run.error is None and run.is_whole and self._saved != (run.step, run.epoch) and run.step:
            self.save(run)

    def state_dict(self) -> dict[str, Any]:
        """Return the best value so far."""
        return {} if self._best is None else {"best": self._best.value}

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from a result of :meth:`state_dict`."""
        if self._best is not None:
            self._best.value = state_dict["best"]
