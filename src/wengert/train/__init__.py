"""Helpers around a training loop: progress, pictures, and checkpoints."""

from .chart import line_chart
from .checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from .progress import progress

__all__ = ["Checkpoint", "line_chart", "load_checkpoint", "progress", "save_checkpoint"]


def __dir__() -> list[str]:
    return sorted(__all__)
