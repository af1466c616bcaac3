"""`functorch.experimental`: names that have since moved to :mod:`wengert.torch.func`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...func import functionalize, replace_all_batch_norm_modules_, vmap


def chunk_vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable[..., Any]:
    """Return the function that maps `func` over an axis of its arguments in so many parts, one after the other."""

    @functools.wraps(func, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        entries = list(in_dims) if isinstance(in_dims, (tuple, list)) else [in_dims] * len(args)
        size = next(a.shape[axis] for a, axis in zip(args, entries) if isinstance(axis, int))
        each = max(-(-size // chunks), 1)
        return vmap(func, in_dims, out_dims, randomness, chunk_size=each)(*args, **kwargs)

    return mapped


__all__ = ["chunk_vmap", "functionalize", "replace_all_batch_norm_modules_"]


def __dir__() -> list[str]:
    return sorted(__all__)
