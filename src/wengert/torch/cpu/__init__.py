"""The processor as a device: `torch.cpu`. There is one, which is always ready.

>>> import wengert.torch as torch
>>> torch.cpu.is_available(), torch.cpu.device_count()
(True, 1)
"""

from __future__ import annotations

from typing import Any

from ..absent import names_of
from . import amp


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Do nothing: results are there when a function returns."""


__all__ = [
    "amp",
    "current_device",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "synchronize",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
