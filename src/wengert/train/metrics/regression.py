"""Metrics of numbers: squared and absolute errors, the coefficient of determination, perplexity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import abs, astype
from ...core.spec import float64
from ...nn.functional import cross_entropy
from .base import Measured, Metric, host, ratio, same_shape


class MeanSquaredError(Metric):
    """The mean of the squared differences of all elements; with `root=True` its square root.

    Sums are in float64. Without an element it is NaN.

    >>> import wengert as wg
    >>> error = wg.train.metrics.MeanSquaredError()
    >>> error.update([1.0, 2.0], [1.0, 4.0])
    >>> error.update([0.0], [1.0])
    >>> round(error.compute(), 4)
    1.6667
    """

    def __init__(self, root: bool = False) -> None:
        super().__init__()
        self.root = root

    def measure(self, output: Any, target: Any) -> Measured:
        same_shape("the squared error", output, target)
        difference = astype(output, float64) - astype(target, float64)
        return {"sum": (difference * difference).sum(), "count": output.size}

    def compute(self) -> float:
        """Return the mean; NaN without an element."""
        mean = ratio(self.sums, "sum", "count")
        return math.sqrt(mean) if self.root else mean


class MeanAbsoluteError(Metric):
    """The mean of the absolute differences of all elements, summed in float64. Without an element it is NaN.

    >>> import wengert as wg
    >>> error = wg.train.metrics.MeanAbsoluteError()
    >>> error.update([1.0, 2.0], [1.0, 4.0])
    >>> error.compute()
    1.0
    """

    def measure(self, output: Any, target: Any) -> Measured:
        same_shape("the absolute error", output, target)
        return {"sum": abs(astype(output, float64) - astype(target, float64)).sum(), "count": output.size}

    def compute(self) -> float:
        """Return the mean; NaN without an element."""
        return ratio(self.sums, "sum", "count")


class R2(Metric):
    """The coefficient of determination, 1 - (sum of squared errors) / (sum of squares about the targets' mean).

    Rows are along the first axis; with several columns it is the mean of the columns' own, as scikit-learn's
    `r2_score`. Where a column's targets are all equal it is 1 if the errors are 0, else 0. With fewer than two rows it
    is NaN.

    Batches are merged by the update of Chan, Golub and LeVeque (1983), which loses nothing where the mean is far
    from 0.

    >>> import wengert as wg
    >>> r2 = wg.train.metrics.R2()
    >>> r2.update([2.5, 0.0], [3.0, -0.5])
    >>> r2.update([2.0, 8.0], [2.0, 7.0])
    >>> round(r2.compute(), 4)
    0.9486
    """

    def measure(self, output: Any, target: Any) -> Measured:
        same_shape("R2", output, target)
        rows = target.shape[0] if target.ndim else 1
        flat = astype(target, float64).reshape((rows, -1)) if target.size else astype(target, float64).reshape((0, 1))
        found = astype(output, float64).reshape(flat.shape)
        mean = flat.mean(0) if rows else flat.sum(0)
        error, about = flat - found, flat - mean
        return {"rows": rows, "mean": mean, "about": (about * about).sum(0), "errors": (error * error).sum(0)}

    def add(self, measured: Mapping[str, Any]) -> None:
        """Count a batch in."""
        new = {name: host(value).astype(np.float64) for name, value in measured.items()}
        old = self.sums
        if not new["rows"]:
            return
        if old:
            rows = old["rows"] + new["rows"]
            apart = new["mean"] - old["mean"]
            new["mean"] = old["mean"] + apart * new["rows"] / rows
            new["about"] += old["about"] + apart * apart * old["rows"] * new["rows"] / rows
            new["errors"] += old["errors"]
            new["rows"] = rows
        self.sums = new

    def compute(self) -> float:
        """Return the coefficient; NaN with fewer than two rows."""
        if self.sums.get("rows", 0) < 2:
            return math.nan
        errors, about = self.sums["errors"], self.sums["about"]
        with np.errstate(divide="ignore", invalid="ignore"):
            columns = np.where(about != 0, 1 - errors / about, np.where(errors == 0, 1.0, 0.0))
        return float(columns.mean())


class Perplexity(Metric):
    """The exponential of the mean cross entropy of tokens: `output` has logits along axis 1, `target` classes.

    Targets equal to `ignore_index` (padding) are left out. Without a token it is NaN; where the mean is too large for
    a float, infinite.

    >>> import wengert as wg
    >>> perplexity = wg.train.metrics.Perplexity()
    >>> perplexity.update(wg.zeros((3, 10)), [1, 2, -100])
    >>> round(perplexity.compute(), 3)
    10.0
    """

    def __init__(self, ignore_index: int = -100) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def measure(self, output: Any, target: Any) -> Measured:
        logits = astype(output, float64)
        total = cross_entropy(logits, target, ignore_index=self.ignore_index, reduction="sum")
        return {"sum": total, "count": (target != self.ignore_index).sum()}

    def compute(self) -> float:
        """Return the perplexity; NaN without a token."""
        mean = ratio(self.sums, "sum", "count")
        try:
            return math.exp(mean)
        except OverflowError:
            return math.inf
