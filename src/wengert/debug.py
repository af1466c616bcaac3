"""Looking into traced and compiled functions: `wg.debug.print`."""

from __future__ import annotations

from .transforms.tracing.host import show as print

__all__ = ["print"]
