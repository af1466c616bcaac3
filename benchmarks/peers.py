"""The peers, where they are installed: `pip install torch autograd jax`."""

from __future__ import annotations

import functools
import importlib
from typing import Any


@functools.cache
def torch_module() -> Any:
    """PyTorch on as many threads as NumPy's BLAS is given, or None."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


@functools.cache
def autograd_module() -> Any:
    """HIPS autograd, or None."""
    try:
        return importlib.import_module("autograd")
    except ImportError:
        return None


@functools.cache
def jax_module() -> Any:
    """JAX, or None."""
    try:
        return importlib.import_module("jax")
    except ImportError:
        return None
