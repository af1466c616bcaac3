"""Accelerators, of which there are none: `torch.accelerator`.

>>> import wengert.torch as torch
>>> torch.accelerator.is_available()
False
"""

from __future__ import annotations

from typing import Any

from .. import cuda
from ..absent import names_of


def is_available() -> bool:
    """Return False: there is no accelerator."""
    return False


def device_count() -> int:
    """Return 0: there is no accelerator."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """Return None: there is no accelerator."""
    return None


def synchronize(device: Any = None) -> None:
    """Do nothing: there is no accelerator."""


def empty_cache() -> None:
    """Do nothing: there is no accelerator."""


def memory_allocated(device: Any = None) -> int:
    """Return 0: there is no accelerator."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: there is no accelerator."""


def current_device_index() -> int:
    """Raise a RuntimeError: there is no accelerator."""
    return cuda.current_device()  # type: ignore[no-any-return]


def set_device_index(device: Any) -> None:
    """Raise a RuntimeError: there is no accelerator."""
    cuda.set_device(device)


def current_stream(device: Any = None) -> Any:
    """Raise a RuntimeError: there is no accelerator."""
    return cuda.current_stream(device)


__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device_index",
    "synchronize",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
