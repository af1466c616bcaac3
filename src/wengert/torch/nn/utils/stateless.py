"""Modules called with other tensors for their parameters; see :func:`wengert.torch.func.functional_call`."""

from __future__ import annotations

from ...func import functional_call

__all__ = ["functional_call"]


def __dir__() -> list[str]:
    return sorted(__all__)
