"""Metrics of classes: accuracy, precision and recall, confusion, the area under the curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import argmax, argsort, astype, sum
from ...core.arrays import Array
from ...core.errors import DataError, DTypeError, RangeError, ShapeError, fail
from ...core.spec import category, float64, int64
from ...core.tensor import asarray
from .base import Measured, Metric, host, ratio, same_shape

_AVERAGES = ("macro", "micro", "weighted", "binary", None)


def predicted(output: Any, target: Any, threshold: float) -> Any:
    """Return the classes that a model's output stands for, in the target's shape.

    An output with one axis more than the target has a score for each class along axis 1, as `cross_entropy` takes it;
    one of the target's shape has classes (integers, booleans), or one score each (floats): class 1 above the threshold.
    """
    if output.ndim == target.ndim + 1 and output.ndim >= 2:
        classes = argmax(output, axis=1)
    elif category(output.dtype) >= 2:
        classes = astype(output > threshold, int64)
    else:
        classes = astype(output, int64)
    if tuple(classes.shape) != tuple(target.shape):
        fail(
            ShapeError,
            f"classes from an output of shape {tuple(output.shape)} for a target of shape {tuple(target.shape)}",
            "An output has scores of classes along axis 1, and the target one class for each: (n, classes) and (n,); "
            "or both have the same shape.",
        )
    return classes


class Accuracy(Metric):
    """The fraction of targets that are predicted.

    Parameters
    ----------
    threshold: for outputs of the target's shape: class 1 above it. 0.5 is for probabilities; logits have 0.0.
    ignore_index: targets equal to it are left out.

    `output` has a score for each class along axis 1, (n, classes, ...), where of equal scores the first wins; or the
    target's shape, with classes or one score each. Without a target it is NaN.

    >>> import wengert as wg
    >>> accuracy = wg.train.metrics.Accuracy()
    >>> accuracy.update([[2.0, 1.0], [0.0, 3.0]], [0, 0])
    >>> accuracy.update([[5.0, 1.0]], [0])
    >>> round(accuracy.compute(), 4)
    0.6667
    """

    def __init__(self, threshold: float = 0.5, ignore_index: int = -100) -> None:
        super().__init__()
        self.threshold, self.ignore_index = threshold, ignore_index

    def measure(self, output: Any, target: Any) -> Measured:
        counted = target != self.ignore_index
        right = (predicted(output, target, self.threshold) == target) & counted
        return {"right": sum(astype(right, int64)), "count": sum(astype(counted, int64))}

    def compute(self) -> float:
        """Return the fraction; NaN without a target."""
        return ratio(self.sums, "right", "count")


class TopK(Metric):
    """The fraction of targets among the `k` classes of the largest scores, which stand along axis 1.

    Of equal scores the later class counts as the larger, as in scikit-learn's `top_k_accuracy_score`.
    Without a target it is NaN. Raises ShapeError where there are fewer than `k` classes.

    >>> import wengert as wg
    >>> top = wg.train.metrics.TopK(2)
    >>> top.update([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], [1, 2])
    >>> top.compute()
    0.5
    """

    def __init__(self, k: int = 5, ignore_index: int = -100) -> None:
        super().__init__()
        if k < 1:
            fail(RangeError, f"TopK(k={k})", "At least one class counts.")
        self.k, self.ignore_index = k, ignore_index
        self.name = f"top_{k}"

    def measure(self, output: Any, target: Any) -> Measured:
        if output.ndim != target.ndim + 1 or output.shape[1] < self.k:
            fail(
                ShapeError,
                f"TopK({self.k}) of an output of shape {tuple(output.shape)} and a target of {tuple(target.shape)}",
                f"The output has scores of {self.k} classes or more along axis 1, which the target has not.",
            )
        chosen = argsort(output, axis=1, stable=True)
        chosen = chosen[:, output.shape[1] - self.k :]
        counted = target != self.ignore_index
        found = (chosen == target.reshape((target.shape[0], 1, *target.shape[1:]))).any(1) & counted
        return {"right": sum(astype(found, int64)), "count": sum(astype(counted, int64))}

    def compute(self) -> float:
        """Return the fraction; NaN without a target."""
        return ratio(self.sums, "right", "count")


class ConfusionMatrix(Metric):
    """The table of how often class `i` (row) was predicted as class `j` (column), int64.

    Parameters
    ----------
    classes: their number; None takes as many as the output has scores, or the largest class that was seen.
    normalize: "true" divides rows by their sums, "pred" columns, "all" by everything; where the sum is 0 is 0.
    threshold, ignore_index: as in :class:`Accuracy`.

    Raises RangeError for a class outside of the table, DTypeError for classes that are no integers.

    >>> import wengert as wg
    >>> table = wg.train.metrics.ConfusionMatrix(2)
    >>> table.update([0, 1, 1], [0, 0, 1])
    >>> table.compute().tolist()
    [[1, 1], [0, 1]]
    """

    def __init__(
        self,
        classes: int | None = None,
        normalize: str | None = None,
        threshold: float = 0.5,
        ignore_index: int = -100,
    ) -> None:
        super().__init__()
        if normalize not in (None, "true", "pred", "all"):
            fail(DataError, f"normalize={normalize!r}", 'It is "true", "pred", "all" or None.')
        self.classes, self.normalize = classes, normalize
        self.threshold, self.ignore_index = threshold, ignore_index

    def measure(self, output: Any, target: Any) -> Measured:
        if category(target.dtype) >= 2:
            mend = "Classes are integers: target.astype(wg.int64)."
            fail(DTypeError, f"classes of dtype {target.dtype}", mend)
        scored = output.shape[1] if output.ndim == target.ndim + 1 else 0
        return {
            "predicted": predicted(output, target, self.threshold),
            "target": astype(target, int64),
            "scored": scored,
        }

    def add(self, measured: Mapping[str, Any]) -> None:
        """Count a batch in: the table is kept by NumPy, where its size may depend on the classes met."""
        found, target = host(measured["predicted"]).ravel(), host(measured["target"]).ravel()
        counted = target != self.ignore_index
        found, target = found[counted], target[counted]
        met = max(found.max(), target.max()) + 1 if target.size else 0
        low = min(found.min(), target.min()) if target.size else 0
        size = self.classes if self.classes is not None else int(max(met, host(measured["scored"])))
        if met > size or low < 0:
            wrong = int(met - 1 if met > size else low)
            mend = "Classes count from 0; ignore_index= leaves one value out."
            fail(RangeError, f"class {wrong} for a confusion matrix of {size} classes", mend)
        table = np.bincount(target * size + found, minlength=size * size).reshape(size, size)
        self.sums["table"] = _joined(self._table, table)

    @property
    def _table(self) -> Array:
        size = self.classes or 0
        found: Array = self.sums.get("table", np.zeros((size, size), np.int64))
        return found

    def compute(self) -> Any:
        """Return the table, (classes, classes)."""
        table = self._table
        if self.normalize is None:
            return table
        axis = {"true": 1, "pred": 0, "all": None}[self.normalize]
        return _quotient(table, table.sum(axis, keepdims=True), 0.0)


class _OfTable(ConfusionMatrix):
    """The base of the metrics that are functions of the confusion matrix."""

    def __init__(
        self,
        average: str | None = "macro",
        classes: int | None = None,
        zero_division: float = 0.0,
        threshold: float = 0.5,
        ignore_index: int = -100,
    ) -> None:
        super().__init__(classes, None, threshold, ignore_index)
        if average not in _AVERAGES:
            choice = ", ".join(map(repr, _AVERAGES))
            fail(DataError, f"average={average!r}", f"It is one of {choice}.")
        self.average, self.zero_division = average, zero_division

    def _parts(self, hits: Array, predicted: Array, present: Array) -> tuple[Array, Array]:
        """Return the numerator and the denominator of counts of classes."""
        raise NotImplementedError

    def compute(self) -> Any:
        """Return a float, or with `average=None` an array with a value for each class; NaN without a target."""
        table = self._table
        hits, predicted, present = np.diagonal(table), table.sum(0), table.sum(1)
        each = _quotient(*self._parts(hits, predicted, present), self.zero_division)
        occurs = (predicted + present) > 0
        if self.average is None:
            return np.where(occurs, each, math.nan)
        if not table.sum():
            return math.nan
        if self.average == "micro":
            total = self._parts(hits.sum(), predicted.sum(), present.sum())
            return float(_quotient(*total, self.zero_division))
        if self.average == "weighted":
            return float(np.average(each, weights=present))
        if self.average == "binary":
            if len(table) > 2:
                mend = 'Take average="macro", "micro", "weighted" or None.'
                fail(DataError, f'average="binary" of {len(table)} classes', mend)
            return float(each[1]) if len(each) == 2 else self.zero_division
        return float(each[occurs].mean())


class Precision(_OfTable):
    """The precision: of what was predicted to be of a class, the fraction that is.

    Parameters
    ----------
    average: "macro" is the mean over the classes that occur in targets or predictions, "weighted" that mean
        weighted by how often the targets have a class, "micro" counts all classes together, "binary" is of class 1;
        None gives an array with a value for each class, NaN for those that do not occur.
    classes: their number; None takes as many as the output has scores, or the largest class that was seen.
    zero_division: the value of a class that was never predicted.
    threshold, ignore_index: as in :class:`Accuracy`.

    It agrees with scikit-learn's `precision_score`. Without a target it is NaN.

    >>> import wengert as wg
    >>> precision = wg.train.metrics.Precision(average="binary")
    >>> precision.update([1, 1, 0, 1], [1, 0, 0, 1])
    >>> round(precision.compute(), 4)
    0.6667
    """

    def _parts(self, hits: Array, predicted: Array, present: Array) -> tuple[Array, Array]:
        return hits, predicted


class Recall(_OfTable):
    """The recall: of the targets of a class, the fraction that was predicted to be; parameters as :class:`Precision`.

    A class that no target has counts with `zero_division`. It agrees with scikit-learn's `recall_score`.

    >>> import wengert as wg
    >>> recall = wg.train.metrics.Recall(average=None)
    >>> recall.update([1, 1, 0, 1], [1, 0, 0, 1])
    >>> recall.compute().tolist()
    [0.5, 1.0]
    """

    def _parts(self, hits: Array, predicted: Array, present: Array) -> tuple[Array, Array]:
        return hits, present


class F1(_OfTable):
    """The harmonic mean of precision and recall of a class; parameters as those of :class:`Precision`.

    It agrees with scikit-learn's `f1_score`.

    >>> import wengert as wg
    >>> f1 = wg.train.metrics.F1()
    >>> f1.update([1, 1, 0, 1], [1, 0, 0, 1])
    >>> round(f1.compute(), 4)
    0.7333
    """

    def _parts(self, hits: Array, predicted: Array, present: Array) -> tuple[Array, Array]:
        return 2 * hits, predicted + present


class AUROC(Metric):
    """The area under the receiver operating characteristic: how likely a positive has a higher score than a negative.

    Scores of the target's shape (n,) with targets 0 and 1; or (n, classes) with classes as targets: each class against
    the rest by its column, then their mean over the classes of which there are targets that are and targets that are
    not (`average=None`: an array, NaN for the others). Columns are compared between rows: give probabilities, not
    logits.

    It is exact, ties counting half, and so keeps every score. Where there is no pair of a positive and a negative it
    is NaN. Raises DataError for a score that is NaN and for targets other than 0 and 1.

    Source: Hanley and McNeil, Radiology 143 (1982).

    >>> import wengert as wg
    >>> auroc = wg.train.metrics.AUROC()
    >>> auroc.update([0.1, 0.4], [0, 0])
    >>> auroc.update([0.35, 0.8], [1, 1])
    >>> auroc.compute()
    0.75
    """

    def __init__(self, average: str | None = "macro") -> None:
        super().__init__()
        if average not in ("macro", None):
            fail(DataError, f"average={average!r} of AUROC", 'It is "macro" or None.')
        self.average = average
        self.scores: list[Array] = []
        self.targets: list[Array] = []

    def measure(self, output: Any, target: Any) -> Measured:
        if output.ndim != 2 or target.ndim != 1 or output.shape[0] != target.shape[0]:
            same_shape("AUROC", output, target)
        return {"scores": astype(output, float64), "targets": target}

    def add(self, measured: Mapping[str, Any]) -> None:
        """Keep the scores and targets of a batch."""
        scores, targets = host(measured["scores"]), host(measured["targets"])
        if scores.ndim == targets.ndim:
            scores, targets = scores.ravel(), targets.ravel()
        if self.scores and scores.shape[1:] != self.scores[0].shape[1:]:
            mend = "All batches have as many classes."
            fail(ShapeError, f"scores of shape {scores.shape} after those of {self.scores[0].shape}", mend)
        if np.isnan(scores).any():
            fail(DataError, "AUROC of a score that is NaN", "It has no place in the order of scores.")
        classes = scores.shape[1] if scores.ndim == 2 else 2
        if targets.size and not np.isin(targets, np.arange(classes)).all():
            wrong = targets[~np.isin(targets, np.arange(classes))][0]
            fail(DataError, f"AUROC of a target of {wrong} for {classes} classes", "Targets count classes from 0.")
        self.scores.append(scores)
        self.targets.append(targets.astype(np.int64))

    def compute(self) -> Any:
        """Return the area; NaN where there is no pair to compare."""
        if not self.scores:
            return math.nan
        scores, targets = np.concatenate(self.scores), np.concatenate(self.targets)
        if scores.ndim == 1:
            return _area(scores, targets == 1)
        each = np.array([_area(scores[:, k], targets == k) for k in range(scores.shape[1])])
        if self.average is None:
            return each
        defined = each[~np.isnan(each)]
        return float(defined.mean()) if defined.size else math.nan

    def reset(self) -> None:
        """Forget all batches."""
        self.scores, self.targets = [], []

    def state_dict(self) -> dict[str, Any]:
        """Return the scores and targets so far."""
        if not self.scores:
            return {}
        return {"scores": asarray(np.concatenate(self.scores)), "targets": asarray(np.concatenate(self.targets))}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a result of :meth:`state_dict`."""
        self.reset()
        if state_dict:
            self.scores, self.targets = [host(state_dict["scores"])], [host(state_dict["targets"])]


def _area(scores: Array, is_positive: Array) -> float:
    """Return the fraction of pairs in order, by the ranks of the positives; ties have the mean of their ranks."""
    positives = int(is_positive.sum())
    negatives = len(scores) - positives
    if not positives or not negatives:
        return math.nan
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    # Twice the mean rank, an integer: sums of it are exact.
    ranks = 2 * np.cumsum(counts) - counts + 1
    twice = int(ranks[places][is_positive].sum()) - positives * (positives + 1)
    return twice / (2 * positives * negatives)


def _joined(a: Array, b: Array) -> Array:
    """Return the sum of two tables, the smaller one continued by zeros."""
    size = max(len(a), len(b))
    out = np.zeros((size, size), np.int64)
    out[: len(a), : len(a)] += a
    out[: len(b), : len(b)] += b
    return out


def _quotient(part: Any, whole: Any, otherwise: float) -> Array:
    part, whole = np.broadcast_arrays(np.asarray(part, np.float64), np.asarray(whole, np.float64))
    found: Array = np.divide(part, whole, out=np.full(part.shape, float(otherwise)), where=whole != 0)
    return found
