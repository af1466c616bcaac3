"""Metrics: numbers about predictions that are right over batches of unequal sizes.

Each is used by itself (`update`, `compute`, `reset`), by `wg.train.fit` and by `wg.train.evaluate`, which measure
inside the compiled step.
"""

from .base import Mean, Metric
from .classification import AUROC, F1, Accuracy, ConfusionMatrix, Precision, Recall, TopK
from .regression import R2, MeanAbsoluteError, MeanSquaredError, Perplexity

__all__ = [
    "AUROC",
    "Accuracy",
    "ConfusionMatrix",
    "F1",
    "Mean",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Metric",
    "Perplexity",
    "Precision",
    "R2",
    "Recall",
    "TopK",
]


def __dir__() -> list[str]:
    return sorted(__all__)
