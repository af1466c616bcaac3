"""The normal distribution's functions and the inverse of the error function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.ops.declare import elementwise
from ...core.ops.facets import Cause, Nonfinite
from ...core.ops.nonfinite import EDGE, always
from ...core.ops.op import Algebra, Missing, Op
from ...core.ops.sampling import unary
from ..pointwise.arithmetic import exp
from ..pointwise.selection import where
from .gamma import _SQRT_PI, ERFCX, _erf_near_zero
from .wide import Array, choose, horner, in_float64

_NO_ONNX = Missing("ONNX has no such operator")
_SQRT_2 = math.sqrt(2.0)


def _erfcx(x: Array) -> Array:
    """Return exp(x*x) erfc(x) for x >= 0."""
    t = np.where(np.isinf(x), 1.0, (x - 3.75) / (x + 3.75))
    out: Array = horner(t, ERFCX) / (1.0 + 2.0 * x)
    return out


def _log_erfc(x: Array) -> Array:
    """Return log(erfc(x)) for x >= 0."""
    out: Array = np.log(_erfcx(x)) - x * x
    return out


# -- inverses


def _inverse_of_log_erfc(level: Array) -> Array:
    """Return the x >= 0 at which log erfc(x) is `level`, by Newton's method: the function is nearly a parabola."""
    x = np.sqrt(np.maximum(-level - 0.5 * np.log(np.maximum(-math.pi * level, 1.0)), 0.0))
    for _ in range(5):
        slope = -2.0 / _SQRT_PI / _erfcx(x)
        x = np.maximum(x - (_log_erfc(x) - level) / slope, 0.0)
    return x


def _erfinv_small(y: Array) -> Array:
    """Return the inverse of erf for |y| <= 1/2, by Halley's method."""
    x = y * (_SQRT_PI / 2.0) * (1.0 + math.pi / 12.0 * y * y)
    for _ in range(3):
        step = (_erf_near_zero(x) - y) * (_SQRT_PI / 2.0) * np.exp(x * x)
        x = x - step / (1.0 + x * step)
    return x


def _erfinv(y: Array) -> Array:
    return choose(
        (y,),
        (np.abs(y) <= 0.5, _erfinv_small),
        (np.abs(y) < 1.0, lambda y: np.copysign(_inverse_of_log_erfc(np.log1p(-np.abs(y))), y)),
        (np.abs(y) == 1.0, lambda y: np.copysign(np.inf, y)),
    )


erfinv_op: Op = elementwise(
    "erfinv(x)",
    in_float64(_erfinv),
    partials={"x": lambda out: (_SQRT_PI / 2.0) * exp(out * out)},
    accepts="real_inexact",
    home="special",
    doc="The inverse of the error function on [-1, 1]; NaN outside.",
    algebra=Algebra(monotone=1, odd=True),
    samples=unary((-0.9, 0.9), (0.9, 0.99)),
    reference="scipy.special.erfinv",
    onnx=_NO_ONNX,
    source="Newton's and Halley's method on erf and log erfc",
    sympy=lambda sp, x: sp.erfinv(x),
    nonfinite=Nonfinite(((always, Cause("erfinv at or beyond 1", EDGE)),)),
    autocast="float32",
)


def _ndtri(p: Array) -> Array:
    return choose(
        (p,),
        (np.abs(p - 0.5) <= 0.25, lambda p: _SQRT_2 * _erfinv_small(2.0 * p - 1.0)),
        ((p > 0.0) & (p < 0.5), lambda p: -_SQRT_2 * _inverse_of_log_erfc(np.log(2.0 * p))),
        ((p > 0.5) & (p < 1.0), lambda p: _SQRT_2 * _inverse_of_log_erfc(np.log(2.0 * (1.0 - p)))),
        (p == 0.0, lambda p: np.full_like(p, -np.inf)),
        (p == 1.0, lambda p: np.full_like(p, np.inf)),
    )


ndtri_op: Op = elementwise(
    "ndtri(p)",
    in_float64(_ndtri),
    partials={"p": lambda out: math.sqrt(2.0 * math.pi) * exp(0.5 * out * out)},
    accepts="real_inexact",
    doc="The standard normal distribution's quantile function.",
    public="",
    algebra=Algebra(monotone=1),
    samples=unary((0.1, 0.9), (0.01, 0.1), (0.9, 0.99)),
    reference="scipy.special.ndtri",
    onnx=_NO_ONNX,
    sympy=lambda sp, p: sp.sqrt(2) * sp.erfinv(2 * p - 1),
    autocast="float32",
)

# -- the normal distribution's cumulative function


def _tail(x: Array) -> Array:
    """Return the normal probability beyond x >= 0."""
    x = np.minimum(x, 40.0)
    high = (x * 134217729.0) - (x * 134217729.0 - x)  # 26 bits: its square is exact
    return 0.5 * np.exp(-0.5 * high * high) * np.exp(0.5 * (high - x) * (high + x)) * _erfcx(x / _SQRT_2)


def _ndtr(x: Array) -> Array:
    return choose(
        (x,),
        (np.abs(x) < 0.7, lambda x: 0.5 + 0.5 * _erf_near_zero(x / _SQRT_2)),
        (x > 0.0, lambda x: 1.0 - _tail(x)),
        (x < 0.0, lambda x: _tail(-x)),
    )


ndtr_op: Op = elementwise(
    "ndtr(x)",
    in_float64(_ndtr),
    partials={"x": lambda x: (1.0 / math.sqrt(2.0 * math.pi)) * exp(-0.5 * x * x)},
    accepts="real_inexact",
    doc="The standard normal distribution's cumulative function.",
    public="",
    algebra=Algebra(monotone=1, range="[0, 1]"),
    samples=unary((-3.0, 3.0), (-8.0, -3.0)),
    reference="scipy.special.ndtr",
    onnx=_NO_ONNX,
    sympy=lambda sp, x: sp.erfc(-x / sp.sqrt(2)) / 2,
)


def _log_ndtr(x: Array) -> Array:
    return choose(
        (x,),
        (x < -1.0, lambda x: np.log(0.5 * _erfcx(-x / _SQRT_2)) - 0.5 * x * x),
        (x > 0.0, lambda x: np.log1p(-_tail(x))),
        (x <= 0.0, lambda x: np.log(_ndtr(x))),
    )


_FAR_BELOW = 8.0  # where the continued fraction has all digits of float64
_LEVELS = 12


def _hazard(x: Any, out: Any) -> Any:
    """Return the density over the cumulative function.

    Far below 0 both are exp(-x*x / 2) with nothing left of their ratio but rounding: there it is
    Laplace's continued fraction z + 1 / (z + 2 / (z + 3 / ...)), z = -x.
    """
    far = x < -_FAR_BELOW
    z = where(far, -x, _FAR_BELOW)
    ratio = z
    for k in range(_LEVELS, 0, -1):
        ratio = z + k / ratio
    near, level = where(far, 0.0, x), where(far, 0.0, out)
    return where(far, ratio, exp(-0.5 * near * near - (0.5 * math.log(2.0 * math.pi)) - level))


log_ndtr_op: Op = elementwise(
    "log_ndtr(x)",
    in_float64(_log_ndtr),
    partials={"x": _hazard},
    accepts="real_inexact",
    doc="The logarithm of the standard normal distribution's cumulative function, right also far in its tail.",
    public="",
    algebra=Algebra(monotone=1, range="(-inf, 0]"),
    samples=unary((-3.0, 3.0), (-20.0, -3.0)),
    reference="scipy.special.log_ndtr",
    onnx=_NO_ONNX,
    sympy=lambda sp, x: sp.log(sp.erfc(-x / sp.sqrt(2)) / 2),
    autocast="float32",
)
