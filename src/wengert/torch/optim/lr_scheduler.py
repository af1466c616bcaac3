"""The schedules of :mod:`wengert.optim.lr_scheduler`, at PyTorch's path."""

from __future__ import annotations

from ...optim.lr_scheduler import *
from ...optim.lr_scheduler import LRScheduler, __all__
from ..absent import names_of

_LRScheduler = LRScheduler


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
