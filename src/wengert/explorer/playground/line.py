"""The experiment of fitting a line: two parameters, so that the loss is a landscape one can look down on."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.mode import no_grad
from ...core.tensor import Tensor, tensor, wrap
from ...optim import Optimizer
from ..api import Exploration, explore
from ..document.stats import num
from .controls import SEED, Control, Value, method, step_size
from .curvature import sharpness
from .run import MOMENTUM, Run, Shown

# The line that the data lie about, and where every run begins.
SLOPE, INTERCEPT = 3.0, 7.0
START = (-1.5, 1.2)


def squared_error(w: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Any:
    """Return the mean of the squared distances."""
    return ((w * x + b - y) ** 2).mean()


# The two loops below are what runs, and their lines are what the page shows.


def by_hand(w: Any, b: Any, x: Tensor, y: Tensor, lr: float) -> None:
    """Take one step of gradient descent, with the update written out."""
    error = w * x + b - y
    loss = (error**2).mean()
    w.grad = b.grad = None
    loss.backward()
    with no_grad():
        w -= lr * w.grad
        b -= lr * b.grad


def by_optimizer(w: Any, b: Any, x: Tensor, y: Tensor, optimizer: Optimizer) -> None:
    """Take one step of an optimiser."""
    error = w * x + b - y
    loss = (error**2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class FitLine(Run):
    """The experiment of w x + b fitted to noisy points about 3 x + 7 by gradient descent."""

    name = "line"
    title = "Fit a line"
    aside = "3x + 7"
    view = "line"
    series = ("loss", "w", "b")
    records_always = True
    controls = (
        step_size(0.5),
        method(),
        Control("batch", "Points per step", 24, low=1, high=24, whole=True, restarts=False),
        Control("noise", "Noise in the data", 0.8, low=0.0, high=4.0),
        SEED,
    )

    def __init__(self, options: dict[str, Value]) -> None:
        super().__init__(options)
        count = int(next(c.high for c in self.controls if c.name == "batch"))
        x = self.generator.uniform(-2.2, 2.4, count)
        y = SLOPE * x + INTERCEPT + float(options["noise"]) * self.generator.normal(count)
        self.x, self.y = wrap(x), wrap(y)
        self.w, self.b = (tensor(v, dtype="float64", requires_grad=True) for v in START)
        self.begin([self.w, self.b])
        self.curvature = sharpness(self._loss_of(self.x, self.y), self.parameters)
        columns = np.stack([x, np.ones(count)], axis=1)
        self.best: Array = np.linalg.lstsq(columns, y, rcond=None)[0]

    @staticmethod
    def _loss_of(x: Tensor, y: Tensor) -> Any:
        return lambda w, b: squared_error(w, b, x, y)

    def _batch(self) -> tuple[Tensor, Tensor]:
        """Return the points of the next step."""
        size = int(self.options["batch"])
        if size == self.x.size:
            return self.x, self.y
        chosen = np.sort(self.generator.chosen(size, self.x.size))
        return wrap(self.x.numpy()[chosen]), wrap(self.y.numpy()[chosen])

    def step(self) -> None:
        x, y = self._batch()
        if self.options["method"] == "plain":
            by_hand(self.w, self.b, x, y, float(self.options["rate"]))
        else:
            by_optimizer(self.w, self.b, x, y, self.optimizer)

    def measure(self) -> tuple[float, float, float]:
        with no_grad(), np.errstate(all="ignore"):
            loss = squared_error(self.w, self.b, self.x, self.y).item()
        return loss, self.w.item(), self.b.item()

    @property
    def limit(self) -> float | None:
        """The step size from which this method diverges on a quadratic of this curvature; None where there is none.

        2/λ, and 2(1 + β)/λ with momentum β (Polyak 1964). Adam's steps do not grow with the gradient.
        """
        if self.options["method"] == "Adam":
            return None
        return 2.0 * (1.0 + (MOMENTUM if self.options["method"] == "momentum" else 0.0)) / self.curvature

    def scene(self) -> Shown:
        w, b = (float(v) for v in self.best)
        with no_grad():
            least = squared_error(tensor(w, dtype="float64"), tensor(b, dtype="float64"), self.x, self.y).item()
        values = {
            "x": self.x.tolist(),
            "y": self.y.tolist(),
            "truth": [SLOPE, INTERCEPT],
            "best": [w, b],
            "least": num(least),
            "curvature": num(self.curvature),
            "start": list(START),
        }
        return Shown(values, {})

    def shown(self) -> Shown:
        state = self.save()
        now = [p.item() for p in self.parameters]
        with np.errstate(all="ignore"):
            self.step()
        after = [p.item() for p in self.parameters]
        gradient = [p.grad.item() if p.grad is not None else 0.0 for p in self.parameters]
        self.load(state)
        plain = self.options["method"] == "plain"
        rate = float(self.options["rate"])
        code = inspect.getsource(by_hand if plain else by_optimizer)
        # The page shows the body: neither the signature nor the docstring.
        lines = textwrap.dedent(code.split("\n", 2)[2]).rstrip().splitlines()
        updates = [i for i, line in enumerate(lines) if "-=" in line or ".step(" in line]
        return Shown(
            {
                "now": [num(v) for v in now],
                "next": [num(v) for v in after],
                "gradient": [num(v) for v in gradient],
                # The factor of the step size: the gradient, or what the method makes of it.
                "direction": [num(g) for g in gradient] if plain else [num((a - z) / rate) for a, z in zip(now, after)],
                "limit": None if self.limit is None else num(self.limit),
                "code": lines,
                "lit": updates[0],
            },
            {},
        )

    def told(self) -> dict[str, Any]:
        """Return what a script needs, the points among it."""
        return {**super().told(), "points": {"train": [self.x.tolist(), self.y.tolist()]}}

    def record(self) -> Exploration:
        drawn = self.generator.state
        x, y = self._batch()
        self.generator.state = drawn
        w, b = self.w, self.b

        def loss() -> Any:
            return ((w * x + b - y) ** 2).mean()

        return explore(loss)
