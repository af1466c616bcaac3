"""NumPy's elementwise functions that are made of others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ..special.quotients import sine_ratio_op
from ..structure.shapes import as_operand
from .register import inexact, own, ufunc, xp


@ufunc(np.exp2)
def _exp2(x: Any) -> Any:
    return xp.pow(2.0, inexact(x))


@ufunc(np.logaddexp2)
def _logaddexp2(x: Any, y: Any) -> Any:
    return xp.logaddexp(inexact(x) * math.log(2), inexact(y) * math.log(2)) / math.log(2)


@ufunc(np.fabs)
def _fabs(x: Any) -> Any:
    return xp.abs(inexact(x))


@ufunc(np.float_power)
def _float_power(x: Any, y: Any) -> Any:
    x, y = as_operand(x), as_operand(y)
    wide = "complex128" if "c" in (x.dtype.kind, y.dtype.kind) else "float64"
    return xp.pow(x.astype(wide), y.astype(wide))


@ufunc(np.deg2rad, np.radians)
def _radians(x: Any) -> Any:
    return inexact(x) * (math.pi / 180)


@ufunc(np.rad2deg, np.degrees)
def _degrees(x: Any) -> Any:
    return inexact(x) * (180 / math.pi)


@ufunc(np.cbrt)
def _cbrt(x: Any) -> Any:
    x = inexact(x)
    is_zero = x == 0
    known = xp.where(is_zero, 1.0, x)
    # At 0 it is the square root, which has this value and this slope there.
    at_zero = xp.sqrt(xp.where(is_zero, x, 1.0))
    return xp.where(is_zero, at_zero, xp.sign(known) * xp.pow(xp.abs(known), 1 / 3))


@ufunc(np.fmax)
def _fmax(x: Any, y: Any) -> Any:
    # Only what is a number is compared: where one operand is NaN its gradient is 0.
    x, y = as_operand(x), as_operand(y)
    return xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.maximum(x, y)))


@ufunc(np.fmin)
def _fmin(x: Any, y: Any) -> Any:
    x, y = as_operand(x), as_operand(y)
    return xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.minimum(x, y)))


@ufunc(np.fmod)
def _fmod(x: Any, y: Any) -> Any:
    x, y = as_operand(x), as_operand(y)
    size = xp.abs(y)
    return xp.where(x < 0, -xp.remainder(-x, size), xp.remainder(x, size))


@ufunc(np.heaviside)
def _heaviside(x: Any, at_zero: Any) -> Any:
    x, at_zero = inexact(x), inexact(at_zero)
    step = xp.where(x == 0, at_zero, xp.where(x > 0, 1.0, 0.0))
    return xp.where(xp.isnan(x), np.nan, step)


@ufunc(np.modf)
def _modf(x: Any) -> tuple[Tensor, Tensor]:
    x = inexact(x)
    whole = xp.trunc(x)
    return xp.where(xp.isinf(x), 0.0, x - xp.where(xp.isinf(x), 0.0, whole)), whole


@own(np.sinc)
def _sinc(x: Any) -> Any:
    return sine_ratio_op.front(inexact(x) * math.pi, n=0)


@own(np.i0)
def _i0(x: Any) -> Any:
    return xp.special.i0(inexact(x))


@own(np.angle)
def _angle(z: Any, deg: bool = False) -> Any:
    z = as_operand(z)
    if z.dtype.kind == "c":
        known = xp.where(z == 0, 1.0, z)
        found = xp.where(z == 0, 0.0, xp.atan2(xp.imag(known), xp.real(known)))
    else:
        z = inexact(z)
        found = xp.where(z < 0, math.pi, xp.sign(z) * 0.0)  # NaN stays NaN
    return found * (180 / math.pi) if deg else found


@own(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    x = as_operand(x)
    if not x.spec.inexact:
        return x
    if x.dtype.kind == "c":
        return (
            _nan_to_num(xp.real(x), nan=nan, posinf=posinf, neginf=neginf)
            + _nan_to_num(xp.imag(x), nan=nan, posinf=posinf, neginf=neginf) * 1j
        )
    largest = float(np.finfo(x.dtype).max)
    x = xp.where(xp.isnan(x), nan, x)
    x = xp.where(x == math.inf, largest if posinf is None else posinf, x)
    return xp.where(x == -math.inf, -largest if neginf is None else neginf, x)


@own(np.round, np.around)
def _rounded(a: Any, decimals: int = 0) -> Any:
    x = as_operand(a)
    if decimals == 0 or not x.spec.inexact:
        return xp.round(x) if decimals >= 0 else _whole(x, 10**-decimals)
    scale = 10.0 ** abs(decimals)  # NumPy multiplies and divides by powers that are exact up to 10^22
    return xp.round(x * scale) / scale if decimals > 0 else xp.round(x / scale) * scale


def _whole(x: Tensor, unit: int) -> Any:
    """Return whole numbers rounded to multiples of `unit`, halves to even ones."""
    return (xp.round(x.astype("float64") / unit) * unit).astype(x.dtype)


@own(np.fix)
def _fix(x: Any) -> Any:
    return xp.trunc(as_operand(x))


@own(np.isneginf)
def _isneginf(x: Any) -> Any:
    return as_operand(x) == -math.inf


@own(np.isposinf)
def _isposinf(x: Any) -> Any:
    return as_operand(x) == math.inf


@own(np.isreal)
def _isreal(x: Any) -> Any:
    x = as_operand(x)
    return xp.imag(x) == 0 if x.dtype.kind == "c" else xp.ones_like(x, dtype=bool)


@own(np.iscomplex)
def _iscomplex(x: Any) -> Any:
    return xp.logical_not(_isreal(x))


@own(np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return as_operand(x).dtype.kind == "c"


@own(np.isrealobj)
def _isrealobj(x: Any) -> bool:
    return as_operand(x).dtype.kind != "c"
