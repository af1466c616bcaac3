"""Apple's GPUs, of which there are none: `torch.backends.mps`."""

from __future__ import annotations

from ..absent import names_of
from .flags import NOT_THERE, answer

is_available = answer(False, NOT_THERE)
is_built = answer(False, NOT_THERE)
is_macos_or_newer = answer(False, NOT_THERE)

__all__ = ["is_available", "is_built", "is_macos_or_newer"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
