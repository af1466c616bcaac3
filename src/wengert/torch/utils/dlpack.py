"""Tensors exchanged with other libraries without a copy, under PyTorch's path."""

from __future__ import annotations

from typing import Any

from ..namespace import FUNCTIONS

from_dlpack = FUNCTIONS["from_dlpack"]


def to_dlpack(tensor: Any) -> Any:
    """Return a capsule of a tensor's memory for another library's `from_dlpack`."""
    return tensor.__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
