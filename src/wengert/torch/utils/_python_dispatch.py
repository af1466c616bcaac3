"""Classes of tensors that PyTorch calls for each operator, under its inner path: there are none."""

from __future__ import annotations

from typing import Any

from ..absent import names_of


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Return False: no class of tensors is made of others."""
    return False


__getattr__ = names_of(__name__)
