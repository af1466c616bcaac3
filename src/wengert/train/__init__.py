"""Helpers around a training loop: progress and pictures."""

from .chart import line_chart
from .progress import progress

__all__ = ["line_chart", "progress"]


def __dir__() -> list[str]:
    return sorted(__all__)
