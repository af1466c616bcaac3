"""Tests for numbers that are not finite, and their positions in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes import is_foreign

Index = tuple[int, ...]


def is_number(v: Any) -> bool:
    """Return whether a value is an array or a number, and no Python or NumPy boolean."""
    return isinstance(v, (np.ndarray, np.generic, float, int, complex)) and not isinstance(v, (bool, np.bool_))


def finite(value: Any) -> Any:
    """Return the mask of the elements that are neither infinite nor NaN."""
    array = np.asarray(value)
    if array.dtype.kind not in "biufc" or is_foreign(array.dtype):
        array = array.astype(np.float32)
    return np.isfinite(array) if array.dtype.kind in "fc" else np.ones(array.shape, bool)


def all_finite(value: Any) -> bool:
    """Return whether all elements of a value, or of each of several values, are finite."""
    if isinstance(value, (tuple, list)):
        return all(all_finite(v) for v in value)
    return value is None or bool(finite(value).all())


def alike(a: Any, b: Any) -> bool:
    """Return whether two values are equal, NaNs at the same places included."""
    return np.array_equal(a, b, equal_nan=np.asarray(b).dtype.kind in "fc")


def first_bad(value: Any) -> Index | None:
    """Return the index of the first element that is not finite."""
    if isinstance(value, (tuple, list)):
        return next((b for b in map(first_bad, value) if b is not None), None)
    if value is None:
        return None
    wrong = np.argwhere(~finite(value))
    return tuple(int(i) for i in wrong[0]) if len(wrong) else None


def number_at(value: Any, at: Index | None) -> Any:
    """Return the element of a value at an index; of several values, of the first with a non-finite element."""
    if at is None:
        return None
    if isinstance(value, (tuple, list)):
        value = next(v for v in value if first_bad(v) is not None)
    return np.asarray(value)[at].item()


def replaced(value: Any, substitute: float) -> Any:
    """Return a value with its non-finite elements replaced."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return substitute
    out = np.array(value)
    out[~finite(out)] = substitute
    return out


def aligned(shape: tuple[int, ...], at: Index) -> Index:
    """Return the index, in an operand of `shape`, of the element that broadcasts to `at`."""
    return tuple(0 if size == 1 else i for size, i in zip(shape, at[len(at) - len(shape) :], strict=True))
