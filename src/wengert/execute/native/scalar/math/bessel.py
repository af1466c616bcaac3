"""Native modified Bessel functions of the first kind, orders 0 and 1, times exp(-|x|)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .....ops.special.bessel import I0, I0_FAR, I1, I1_FAR
from ...codegen.builder import Builder, Value
from .base import clamp_above, copysign, fabs, in_float64, polynomial, sqrt
from .exp import exp_normal

# Where the series in 1 / x has all digits, as in NumPy's forward.
_FAR = 30.0


def _scaled(b: Builder, size: Value, near: Sequence[float], far: Sequence[float], order: int) -> Value:
    """Return the function of `order` at x >= 0: near 0 its power series, far out Hankel's."""
    close = clamp_above(b, size, _FAR)
    half = b.fmul(close, b.const(size.type, 0.5))
    series = b.fmul(polynomial(b, b.fmul(half, half), near), exp_normal(b, b.fneg(close)))
    distant = b.fdiv(
        polynomial(b, b.fdiv(b.const(size.type, 1.0), size), far),
        sqrt(b, b.fmul(size, b.const(size.type, 2.0 * math.pi))),
    )
    return b.select(b.fcmp("olt", size, b.const(size.type, _FAR)), b.fmul(series, half) if order else series, distant)


@in_float64
def i0e(b: Builder, x: Value) -> Value:
    """Return exp(-|x|) times the modified Bessel function of order 0."""
    return _scaled(b, fabs(b, x), I0, I0_FAR, 0)


@in_float64
def i1e(b: Builder, x: Value) -> Value:
    """Return exp(-|x|) times the modified Bessel function of order 1."""
    return copysign(b, _scaled(b, fabs(b, x), I1, I1_FAR, 1), x)
