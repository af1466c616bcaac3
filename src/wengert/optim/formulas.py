"""Functions that rules are written with: they take NumPy arrays, Python numbers and tensors in a trace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import mean as mean_of
from .. import where
from ..core.dtypes import made
from ..core.errors import DTypeError, RangeError, fail
from ..core.tensor import Tensor
from .optimizer import Group


def choose(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` where the condition holds, else `b`. Of Python numbers a Python number: it widens no dtype."""
    if isinstance(condition, Tensor):
        return where(condition, a, b)
    if isinstance(condition, (np.ndarray, np.generic)):
        return np.where(condition, a, b)
    return a if condition else b


def norm(x: Any) -> Any:
    """Return the root of the sum of squares: a Python number, or a tensor of shape ()."""
    return float(np.sqrt((x * x).sum())) if isinstance(x, np.ndarray) else (x * x).sum() ** 0.5


def mean(x: Any, axis: int) -> Any:
    """Return the mean along an axis, which stays."""
    return x.mean(axis=axis, keepdims=True) if isinstance(x, np.ndarray) else mean_of(x, axis=axis, keepdims=True)


def to_bfloat16(x: Any) -> Any:
    """Return float32 numbers rounded to those of bfloat16."""
    return x.astype(made("bfloat16")).astype("float32")


def check_betas(group: Group, names: str = "betas") -> None:
    """Make an option a pair of floats in [0, 1). Raises DTypeError, RangeError for what is none."""
    betas = group[names]
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        fail(DTypeError, f"{names} must be a pair of numbers, not {betas!r}")
    if not all(0 <= b < 1 for b in betas):
        fail(RangeError, f"{names} must lie in [0, 1), not {betas!r}")
    group[names] = (float(betas[0]), float(betas[1]))


def check_numbers(group: Group, name: str, count: int) -> None:
    """Make an option a tuple of so many finite floats. Raises RangeError for what is none."""
    values = group[name]
    if not isinstance(values, (tuple, list)) or len(values) != count or not all(math.isfinite(v) for v in values):
        fail(RangeError, f"{name} must be {count} finite numbers, not {values!r}")
    group[name] = tuple(map(float, values))
