"""Schedules of the learning rate, with PyTorch's meaning; several on one optimiser act one upon the other.

A schedule acts when it is made and at every `step()`, after the optimiser's. Those that multiply the present rate have
a closed form too, which `step(epoch)` uses.
"""

from __future__ import annotations

from .cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from .rates import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from .schedule import LRScheduler

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


def __dir__() -> list[str]:
    return sorted(__all__)
