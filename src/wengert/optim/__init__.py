"""Optimisers and learning-rate schedules, with PyTorch's names."""

from __future__ import annotations

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .rmsprop import Adagrad, RMSProp, RMSprop
from .sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSProp", "RMSprop", "lr_scheduler"]


def __dir__() -> list[str]:
    return sorted(__all__)
