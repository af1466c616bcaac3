"""Elementwise NumPy kernels of several passes, run in blocks that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.spec import float32

_BLOCK = 8192


def blockwise(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return `kernel`, of a flat array and attributes, for arrays of any shape; half precision goes through float32."""

    def forward(x: Any, **attrs: Any) -> Any:
        flat = x.reshape(-1)
        dtype = float32 if x.dtype.itemsize == 2 else x.dtype
        if flat.size <= _BLOCK:
            return kernel(flat.astype(dtype, copy=False), **attrs).astype(x.dtype, copy=False).reshape(x.shape)
        out = np.empty(flat.shape, x.dtype)
        for start in range(0, flat.size, _BLOCK):
            out[start : start + _BLOCK] = kernel(flat[start : start + _BLOCK].astype(dtype, copy=False), **attrs)
        return out.reshape(x.shape)

    return forward
