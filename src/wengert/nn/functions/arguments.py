"""Readings of arguments that many functions of networks have: axes of 0-d tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def along(x: Any, dim: int, compute: Callable[..., Any], *args: Any) -> Any:
    """Return `compute(x, *args, dim)`; of a 0-d tensor what it gives along an axis of one element."""
    if x.ndim == 0 and dim in (0, -1):
        out = compute(x.reshape((1,)), *args, 0)
        return out.reshape(()) if out.ndim else out
    return compute(x, *args, dim)
