"""A test of learning rates: one sweep from the smallest to the largest, and what the loss says to it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.errors import DataError, RangeError, fail
from ..optim.grad_scaler import GradScaler
from .chart import line_chart
from .feed import Feed
from .precision import Precision
from .snapshot import Snapshot
from .steps import Forward, Steps, set_training_modes, training_modes


@dataclass(frozen=True)
class RateTest:
    """The result of a test: `rates`, the `losses` at each, the same `smoothed`, and a `suggestion`.

    The suggestion is the rate at which the smoothed loss fell fastest along the logarithm of the rate; None where it
    never fell, or there was nothing to tell from. The loss is at its least at about ten times that rate.
    """

    rates: Array
    losses: Array
    smoothed: Array
    suggestion: float | None

    def chart(self) -> str:
        """Return a picture (SVG) of the smoothed loss over the logarithm of the rate, with the suggestion."""
        finite = self.smoothed[np.isfinite(self.smoothed)]
        # What has diverged would press everything else to the floor.
        top = 2 * finite[0] - finite.min() if finite.size else 1.0
        shown = [(math.log10(rate), loss) for rate, loss in zip(self.rates, self.smoothed) if loss <= top]
        series = {"smoothed loss": shown}
        if self.suggestion is not None and shown:
            at = math.log10(self.suggestion)
            lowest, highest = (f(loss for _, loss in shown) for f in (min, max))
            series[f"suggestion {self.suggestion:.2g}"] = [(at, lowest), (at, highest)]
        return line_chart(series, title="learning rates", x_label="log10 of the learning rate", y_label="loss")

    def _repr_svg_(self) -> str:
        return self.chart()

    def __str__(self) -> str:
        told = "no rate" if self.suggestion is None else f"learning rate {self.suggestion:.2g}"
        return f"{told} of {len(self.rates)} from {self.rates[0]:.2g} to {self.rates[-1]:.2g}"


def find_learning_rate(
    model: Any,
    optimizer: Any,
    loss: Callable[..., Any],
    data: Any,
    *,
    smallest: float = 1e-7,
    largest: float = 10.0,
    steps: int = 100,
    smoothing: float = 0.9,
    diverged: float = 4.0,
    forward: Forward | None = None,
    clip_norm: float | None = None,
    batch_size: int | None = None,
    shuffle: bool = True,
    precision: Any = None,
    scaler: GradScaler | None = None,
    compile: bool = True,
) -> RateTest:
    """Train for some steps with a learning rate that grows, and return what the loss did: a range test.

    Parameters
    ----------
    model, optimizer, loss, data, forward, clip_norm, batch_size, shuffle, precision, scaler, compile: as for
        :func:`fit`; the data are gone through as often as needed.
    smallest, largest: the rates at both ends; in between they grow by a constant factor.
    steps: how many rates are tried.
    smoothing: the factor of the exponential average of the losses, corrected for its beginning.
    diverged: the sweep ends where the smoothed loss is so many times the best one, or is not finite.

    Weights, buffers, gradients, the states of optimiser and scaler, the optimiser's options, and the shared generators
    are afterwards exactly as before; so is the position of a loader that has a state. In between the optimiser's groups
    all have the same rate.

    Source: Smith, arXiv:1506.01186.

    Raises ShapeError for rates and numbers that make no sense, and what :func:`fit` raises.

    >>> import wengert as wg
    >>> images, labels = wg.data.load_digits()
    >>> model = wg.nn.Linear(64, 10)
    >>> before = model.weight.clone()
    >>> optimizer = wg.optim.Adam(model.parameters())
    >>> data = (images.reshape(-1, 64), labels)
    >>> found = wg.train.find_learning_rate(model, optimizer, wg.nn.functional.cross_entropy, data)
    >>> bool(1e-4 < found.suggestion < 1), bool((model.weight == before).all())
    (True, True)
    """
    if not 0 < smallest < largest < math.inf:
        fail(RangeError, f"learning rates from {smallest} to {largest}", "They are positive, the smallest first.")
    if steps < 2 or not 0 <= smoothing < 1 or not diverged > 1:
        what = f"steps={steps}, smoothing={smoothing}, diverged={diverged}"
        fail(RangeError, what, "There are at least 2 steps; smoothing is from 0 to 1; diverged is more than 1.")
    meant = Precision(precision, scaler)
    before = Snapshot(model, optimizer)
    scale = None if scaler is None else scaler.state_dict()
    modes = training_modes(model)
    position = data.state_dict() if hasattr(data, "state_dict") else None
    try:
        if modes and not model.training:
            model.train()
        made = Steps(model, optimizer, loss, {}, forward, clip_norm, compile, meant)
        feed = Feed(data, batch_size, shuffle, optimizer.param_groups[0]["params"][0])
        batches = itertools.chain.from_iterable(feed.epoch(i) for i in itertools.count())
        rates, losses, smoothed = _swept(
            made, optimizer, batches, np.geomspace(smallest, largest, steps), smoothing, diverged
        )
    finally:
        set_training_modes(modes)
        before.restore()
        if scaler is not None and scale:
            scaler.load_state_dict(scale)
        if position is not None:
            data.load_state_dict(position)
    return RateTest(rates, losses, smoothed, _steepest(rates, smoothed))


def _swept(
    steps: Steps, optimizer: Any, batches: Any, rates: Array, smoothing: float, diverged: float
) -> tuple[Array, Array, Array]:
    """Make a step with each of the rates, up to where the loss diverges. Return rates, losses, smoothed losses."""
    losses: list[float] = []
    smoothed: list[float] = []
    average, best = 0.0, math.inf
    for i, (rate, batch) in enumerate(zip(rates, batches), 1):
        for group in optimizer.param_groups:
            group["lr"] = float(rate)
        values, _ = steps.whole(batch)
        losses.append(float(values["loss"]))
        average = smoothing * average + (1 - smoothing) * losses[-1]
        smoothed.append(average / (1 - smoothing**i))
        best = min(best, smoothed[-1])
        if not math.isfinite(smoothed[-1]) or (i > 1 and smoothed[-1] > diverged * abs(best) and best != 0):
            break
    if len(losses) < 2 and not math.isfinite(losses[0]):
        fail(DataError, f"the first loss is {losses[0]}", "wg.explain.nonfinite(loss, ...) says where it comes from.")
    return rates[: len(losses)], np.array(losses), np.array(smoothed)


def _steepest(rates: Array, smoothed: Array) -> float | None:
    """Return the rate of the steepest descent before the least loss; None where there is none."""
    finite = np.isfinite(smoothed)
    if finite.sum() < 3:
        return None
    least = int(np.nanargmin(np.where(finite, smoothed, np.nan)))
    # What float32 rounds is no fall.
    if least < 2 or smoothed[0] - smoothed[least] <= 1e-6 * abs(smoothed[0]):
        return None
    slopes = np.gradient(smoothed[: least + 1], np.log(rates[: least + 1]))
    at = int(np.argmin(slopes))
    return float(rates[at]) if slopes[at] < 0 else None
