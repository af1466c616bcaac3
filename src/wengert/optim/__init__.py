"""Optimisers and learning-rate schedules, with PyTorch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.state.locks import imported
from .adam import Adam, AdamW
from .adam8bit import Adam8bit, AdamW8bit
from .classic import ASGD, Adadelta, Rprop
from .lbfgs import LBFGS
from .matrix import Adafactor, Muon
from .optimizer import Optimizer
from .rmsprop import Adagrad, RMSProp, RMSprop
from .sgd import SGD
from .variants import Adamax, NAdam, RAdam

if TYPE_CHECKING:
    from . import lr_scheduler

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "Adam8bit",
    "AdamW",
    "AdamW8bit",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSProp",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
]


def __getattr__(name: str) -> Any:
    """Schedules, which are loaded when they are first used."""
    if name == "lr_scheduler":
        return imported(".lr_scheduler", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
