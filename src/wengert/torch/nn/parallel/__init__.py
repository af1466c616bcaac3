"""Modules that PyTorch spreads over devices and processes, of which there is one here: `torch.nn.parallel`."""

from __future__ import annotations

from ...absent import names_of
from ..layers.container import DataParallel
from . import data_parallel, distributed
from .distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "distributed"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
