"""The processor: `torch.backends.cpu`."""

from __future__ import annotations

from ..absent import names_of
from .flags import answer

get_cpu_capability = answer("DEFAULT", 'Return "DEFAULT": native code asks the processor itself.')

__all__ = ["get_cpu_capability"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
