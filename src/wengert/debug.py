"""Looking into traced and compiled functions, and shorter tracebacks: `wg.debug`."""

from __future__ import annotations

from .core.errors import short_tracebacks, trimmed
from .transforms.tracing.host import show as print

__all__ = ["print", "short_tracebacks", "trimmed"]


def __dir__() -> list[str]:
    return sorted(__all__)
