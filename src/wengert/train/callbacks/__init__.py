"""Callbacks of training runs: checkpoints, early stopping, averages of weights, logs, a bar."""

from .averaging import AverageWeights
from .checkpointing import ModelCheckpoint
from .logs import CSVLogger, JSONLLogger, TensorBoard
from .showing import LearningRates, ProgressBar, Timing
from .stopping import EarlyStopping, StopOnNaN
from .watching import Watch

__all__ = [
    "AverageWeights",
    "CSVLogger",
    "EarlyStopping",
    "JSONLLogger",
    "LearningRates",
    "ModelCheckpoint",
    "ProgressBar",
    "StopOnNaN",
    "TensorBoard",
    "Timing",
    "Watch",
]


def __dir__() -> list[str]:
    return sorted(__all__)
