"""Averages of weights along a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.errors import DataError, fail
from ...core.mode import no_grad
from ...core.spec import category
from ...core.tensor import Tensor
from ..run import Callback, Run
from ..snapshot import copied_state


class AverageWeights(Callback):
    """An average of the weights along the run, which validation uses and the model has at the end.

    Parameters
    ----------
    decay: of an exponential average: after each step `average = decay * average + (1 - decay) * weights`. At
        the beginning, where there is little to average, it is (1 + n) / (10 + n) after n steps, if that is less. None:
        the plain mean of the weights after each epoch (stochastic weight averaging).
    start: the number of epochs after which averaging begins.
    keep: whether the model has the average at the end of the run, unless early stopping brings back that of another
        epoch. Else it is in `average`, a state dict, alone.

    Floating buffers, such as the statistics of batch normalisation, are averaged as weights are; others are those of
    the last step. Training goes on with its own weights. A checkpoint has both.

    Source: Polyak and Juditsky (1992); Izmailov et al., arXiv:1803.05407, who compute the statistics of batch
    normalisation anew for the average.

    >>> import wengert as wg
    >>> x = wg.ones((8, 1))
    >>> model = wg.nn.Linear(1, 1, bias=False)
    >>> _ = wg.nn.init.zeros_(model.weight)
    >>> optimizer = wg.optim.SGD(model.parameters(), lr=0.25)
    >>> average = wg.train.AverageWeights()
    >>> loss = wg.nn.functional.mse_loss
    >>> _ = wg.train.fit(model, optimizer, loss, (x, x), epochs=2, callbacks=[average], progress=False)
    >>> model.weight.item()  # of 0.5 and 0.75
    0.625
    """

    def __init__(self, decay: float | None = None, start: int = 0, keep: bool = True) -> None:
        if decay is not None and not 0 <= decay < 1:
            fail(DataError, f"decay={decay} of an average", "It is at least 0 and less than 1.")
        self.decay, self.start, self.keep = decay, start, keep
        self.average: dict[str, Tensor] | None = None
        self.count = self._epoch = 0
        self._own: dict[str, Tensor] | None = None

    def on_step_end(self, run: Run) -> None:
        """Count the weights in, where the average is exponential."""
        if self.decay is not None and run.epoch >= self.start:
            self._take(run.model)

    def on_validation_start(self, run: Run) -> None:
        """Put the average into the model, after the epoch's weights have come into it."""
        self._take_epoch(run, run.epoch + 1)
        if self.average is not None:
            self._own = copied_state(run.model)
            run.model.load_state_dict(self.average)
            run.validated = self.average

    def on_validation_end(self, run: Run) -> None:
        """Give the model its own weights back."""
        self._give_back(run)

    def on_epoch_end(self, run: Run) -> None:
        """Count the epoch's weights in, where no validation has done that."""
        self._take_epoch(run, run.epoch)

    def on_end(self, run: Run) -> None:
        """Leave the average in the model, unless an exception ended the run."""
        self._give_back(run)
        if self.keep and self.average is not None and run.error is None and not run.is_settled:
            run.model.load_state_dict(self.average)

    def _take_epoch(self, run: Run, epoch: int) -> None:
        # A validation that was interrupted is made again by a resumed run.
        if self.decay is None and self.start < epoch != self._epoch:
            self._epoch = epoch
            self._take(run.model)

    def _give_back(self, run: Run) -> None:
        own, self._own = self._own, None
        if own is not None:
            run.model.load_state_dict(own)

    def _take(self, model: Any) -> None:
        self.count += 1
        now = copied_state(model)
        if self.average is None:
            self.average = now
            return
        n = self.count - 1
        share = 1 / (n + 1) if self.decay is None else 1 - min(self.decay, (1 + n) / (10 + n))
        with no_grad():
            for name, value in now.items():
                if category(value.dtype) >= 2:
                    now[name] = self.average[name] + (value - self.average[name]) * share
        self.average = now

    def state_dict(self) -> dict[str, Any]:
        """Return the average, and of how many weights it is."""
        return {"count": self.count, "epoch": self._epoch} | ({} if self.average is None else {"average": self.average})

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a result of :meth:`state_dict`."""
        self.count, self._epoch = state_dict["count"], state_dict["epoch"]
        self.average = state_dict.get("average")
