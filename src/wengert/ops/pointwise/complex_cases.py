"""Elementwise functions of complex numbers where NumPy's lose accuracy or C99's special cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def careful(plain: Callable[[Any], Any], of_complex: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a forward that is `of_complex` for complex numbers and `plain` for others."""
    return lambda x: of_complex(x) if x.dtype.kind == "c" else plain(x)


def complex_expm1(x: Any) -> Any:
    """Return exp(x) - 1 with its infinities, which NumPy's product of exp(a) and sin(b) loses."""
    out = np.expm1(x)
    finite = np.isfinite(x) & np.isfinite(out)
    return out if finite.all() else np.where(finite, out, np.exp(x) - out.dtype.type(1))


def complex_log1p(x: Any) -> Any:
    """Return log(1 + x) with its digits near 0, where NumPy has none: |1 + x|**2 - 1 = a (2 + a) + b**2."""
    a, b = x.real, x.imag
    near = np.hypot(a, b) < 0.5
    out = np.asarray(np.log1p(x))
    out.real[near] = 0.5 * np.log1p(a * (2 + a) + b * b)[near]
    return out


def complex_sign(x: Any) -> Any:
    """Return the sign, NaN in both parts for a NaN in one: NumPy keeps the other part where it is infinite."""
    out = np.sign(x)
    unknown = np.isnan(x)
    return np.where(unknown, out.dtype.type(complex(np.nan, np.nan)), out) if unknown.any() else out
