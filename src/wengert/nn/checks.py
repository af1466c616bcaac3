"""Checks of the sizes that layers are made with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import RangeError, fail


def size(name: str, value: Any, least: int = 1) -> int:
    """Return a layer's size as an int. Raises RangeError where it is not one, or below `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        fail(RangeError, f"{name} must be an int of at least {least}, not {value!r}")
    return int(value)


def probability(value: Any) -> float:
    """Return a dropout probability. Raises RangeError outside [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 <= value <= 1:
        fail(RangeError, f"a dropout probability must lie in [0, 1], not {value!r}")
    return float(value)
