"""Training: the loop with its callbacks, metrics and history, and what a loop of one's own can use of it."""

from ..optim.grad_scaler import GradScaler
from . import metrics
from .accumulate import accumulate
from .callbacks import (
    AverageWeights,
    CSVLogger,
    EarlyStopping,
    JSONLLogger,
    LearningRates,
    ModelCheckpoint,
    ProgressBar,
    StopOnNaN,
    TensorBoard,
    Timing,
    Watch,
)
from .chart import line_chart
from .checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from .finder import RateTest, find_learning_rate
from .history import Columns, History
from .images import heat_map, image_grid
from .loop import evaluate, fit
from .progress import progress
from .run import Callback, Run

__all__ = [
    "AverageWeights",
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "Columns",
    "EarlyStopping",
    "GradScaler",
    "History",
    "JSONLLogger",
    "LearningRates",
    "ModelCheckpoint",
    "ProgressBar",
    "RateTest",
    "Run",
    "StopOnNaN",
    "TensorBoard",
    "Timing",
    "Watch",
    "accumulate",
    "evaluate",
    "find_learning_rate",
    "fit",
    "heat_map",
    "image_grid",
    "line_chart",
    "load_checkpoint",
    "metrics",
    "progress",
    "save_checkpoint",
]


def __dir__() -> list[str]:
    return sorted(__all__)
