"""PyTorch's choice of a kernel for attention, `torch.nn.attention`: there is one here."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from ...absent import names_of


class SDPBackend(enum.Enum):
    """The names of PyTorch's kernels."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Compute attention as always: kernels differ in speed and in last bits."""
    yield


__all__ = ["SDPBackend", "sdpa_kernel"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
