"""Elementwise functions of complex numbers where NumPy's lose accuracy or C99's special cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def careful(plain: Callable[[Any], Any], of_complex: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`plain`, and `of_complex` for complex numbers."""
    return lambda x: of_complex(x) if x.dtype.kind == "c" else plain(x)


def complex_expm1(x: Any) -> Any:
    """NumPy multiplies exp(a) and sin(b), and so loses infinities; nothing cancels where the result is not finite."""
    out = np.expm1(x)
    finite = np.isfinite(x) & np.isfinite(out)
    return out if finite.all() else np.where(finite, out, np.exp(x) - out.dtype.type(1))


def complex_log1p(x: Any) -> Any:
    """NumPy takes log |1 + x|, which has no digits left near 0: |1 + x|**2 - 1 = a (2 + a) + b**2 has them all."""
    a, b = x.real, x.imag
    near = np.hypot(a, b) < 0.5
    out = np.asarray(np.log1p(x))
    out.real[near] = 0.5 * np.log1p(a * (2 + a) + b * b)[near]
    return out


def complex_sign(x: Any) -> Any:
    """A NaN in one part is a NaN in both: NumPy keeps the other part where it is infinite."""
    out = np.sign(x)
    unknown = np.isnan(x)
    return np.where(unknown, out.dtype.type(complex(np.nan, np.nan)), out) if unknown.any() else out
