"""The base of the metrics: a batch is measured by tensors' operations, what it gives is added up on the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ... import astype
from ...core.arrays import Array
from ...core.errors import DTypeError, ShapeError, fail
from ...core.spec import float64
from ...core.tensor import Tensor, asarray

Measured = dict[str, Any]
Function = Callable[[Any, Any], Any]


class Metric:
    """The base of the metrics, which are exact over batches of unequal sizes.

    A metric has two halves. :meth:`measure` takes what a model gave and what it should have given, and returns a dict
    of tensors: it is made of tensors' operations, so that it can stand in a compiled evaluation. :meth:`add` counts
    such a dict in. `update(output, target)` does both; `compute()` gives the value of all so far, `reset()` begins
    again.

    A metric of one's own overrides `measure`, and `compute`, which reads `self.sums`: what `measure` gave, added up
    by name in float64 (integers in int64). One that needs more than sums overrides `add` and `reset` too.

    >>> import wengert as wg
    >>> class Bias(wg.train.metrics.Metric):
    ...     def measure(self, output, target):
    ...         return {"sum": (output - target).sum(), "count": output.size}
    ...     def compute(self):
    ...         return self.sums["sum"] / self.sums["count"]
    >>> bias = Bias()
    >>> bias.update([1.0, 2.0], [0.0, 0.0])
    >>> bias.update([6.0], [0.0])
    >>> float(bias.compute())
    3.0
    """

    def __init__(self) -> None:
        self.sums: dict[str, Any] = {}

    def measure(self, output: Any, target: Any) -> Measured:
        """Return what a batch gives to the metric, as tensors by name. Subclasses define it."""
        fail(DTypeError, f"{type(self).__name__} defines no measure(output, target)", "Override it in the class.")

    def compute(self) -> Any:
        """Return the value over all batches so far: a float, or an array. Subclasses define it."""
        fail(DTypeError, f"{type(self).__name__} defines no compute()", "Override it in the class.")

    def add(self, measured: Mapping[str, Any]) -> None:
        """Count in what :meth:`measure` returned for a batch."""
        for name, value in measured.items():
            found = host(value)
            found = found.astype(np.int64 if found.dtype.kind in "iub" else np.float64)
            self.sums[name] = self.sums[name] + found if name in self.sums else found

    def update(self, output: Any, target: Any) -> None:
        """Count in a batch: what a model gave for it, and what it should have given."""
        self.add(self.measure(tensor_of(output), tensor_of(target)))

    def reset(self) -> None:
        """Forget all batches."""
        self.sums = {}

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted so far, as plain data."""
        return {name: asarray(value) for name, value in self.sums.items()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a result of :meth:`state_dict`."""
        self.sums = {name: host(value) for name, value in state_dict.items()}


class Mean(Metric):
    """The running mean of numbers, weighted: `update(value, weight)`.

    Without a number so far it is NaN. Weights are not negative.

    >>> import wengert as wg
    >>> mean = wg.train.metrics.Mean()
    >>> mean.update(1.0)
    >>> mean.update(4.0, weight=2)
    >>> mean.compute()
    3.0
    """

    def update(self, value: Any, weight: Any = 1) -> None:
        """Count a number in, or all those of an array, with a weight."""
        numbers = host(value).astype(np.float64)
        weights = np.broadcast_to(host(weight).astype(np.float64), numbers.shape)
        if (weights < 0).any():
            fail(ShapeError, f"a weight of {float(weights.min())}", "Weights are not negative.")
        self.add({"sum": (numbers * weights).sum(), "weight": weights.sum()})

    def compute(self) -> float:
        """Return the mean; NaN without a number."""
        return ratio(self.sums, "sum", "weight")


class Averaged(Metric):
    """The mean over all rows of what a function gives for a batch: `function(output, target)`, a scalar."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def measure(self, output: Any, target: Any) -> Measured:
        value = self.function(output, target)
        if np.shape(value) != ():
            name = getattr(self.function, "__name__", "the function")
            fail(ShapeError, f"{name} as a metric gives an array of shape {tuple(np.shape(value))}", "Reduce it.")
        rows = rows_of(target)
        return {"sum": astype(value, float64) * rows if isinstance(value, Tensor) else value * rows, "rows": rows}

    def compute(self) -> float:
        """Return the mean; NaN without a row."""
        return ratio(self.sums, "sum", "rows")


def named(metrics: Any) -> dict[str, Metric]:
    """Return metrics by the names of their columns: of a list of them, or of a dict of metrics or functions."""
    if metrics is None:
        return {}
    if isinstance(metrics, Metric) or callable(metrics):
        metrics = [metrics]
    if not isinstance(metrics, Mapping):
        metrics = {_name_of(metric): metric for metric in metrics}
    found = {}
    for name, metric in metrics.items():
        if not isinstance(metric, Metric):
            if not callable(metric) or isinstance(metric, type):
                mend = "Give a metric, as wg.train.metrics.Accuracy(), or a function of (output, target)."
                fail(DTypeError, f"metrics={name!r}: {metric!r} is no metric", mend)
            metric = Averaged(metric)
        found[name] = metric
    return found


def _name_of(metric: Any) -> str:
    """Return the name of a metric's column: `mean_squared_error` of MeanSquaredError()."""
    text = str(getattr(metric, "name", None) or getattr(metric, "__name__", type(metric).__name__))
    broken = "".join(
        "_" + c.lower() if c.isupper() and not text[i - 1 : i].isupper() else c.lower() for i, c in enumerate(text)
    )
    return broken.lstrip("_")


def ratio(sums: Mapping[str, Any], part: str, whole: str) -> float:
    """Return the quotient of two sums; NaN where nothing was counted."""
    below = float(sums.get(whole, 0))
    return float(sums[part]) / below if below else math.nan


def host(value: Any) -> Array:
    """Return a tensor, array or number as an array that nothing else holds."""
    return np.array(value.detach().numpy() if isinstance(value, Tensor) else value)


def tensor_of(value: Any) -> Tensor:
    """Return a tensor, array, list or number as a tensor."""
    return value if isinstance(value, Tensor) else asarray(value)


def rows_of(batch_part: Any) -> int:
    """Return the number of rows of a tensor; 1 for a scalar."""
    return int(batch_part.shape[0]) if getattr(batch_part, "ndim", 0) else 1


def same_shape(name: str, output: Any, target: Any) -> None:
    """Raise ShapeError for a prediction and a target of different shapes."""
    if tuple(output.shape) != tuple(target.shape):
        fail(
            ShapeError,
            f"{name} of an output of shape {tuple(output.shape)} and a target of shape {tuple(target.shape)}",
            "They are compared element by element: reshape one of them, as output.squeeze(-1).",
        )
