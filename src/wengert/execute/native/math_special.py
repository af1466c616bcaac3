"""Native special functions: the error function and its complement."""

from __future__ import annotations

import math

from .builder import Builder, Value
from .coefficients import (
    ERF_32,
    ERF_64,
    ERFC_32,
    ERFC_64,
    LOG_ERFC_32,
    LOG_ERFC_64,
)
from .math_base import clamp_above, copysign, fabs, pick, polynomial, two_product
from .math_exp import exp_normal, times_exp


def _erf_near(b: Builder, x: Value) -> Value:
    """For |x| <= 1."""
    z = b.fmul(x, x)
    return b.fma(x, polynomial(b, z, pick(x.type, ERF_32, ERF_64)), x)


def erf(b: Builder, x: Value) -> Value:
    """The error function; beyond 1 as 1 - exp(p(x))."""
    one = b.const(x.type, 1.0)
    size = clamp_above(b, fabs(b, x), 4.0 if x.type.bits == 32 else 6.0)
    far = b.fsub(one, exp_normal(b, polynomial(b, size, pick(x.type, LOG_ERFC_32, LOG_ERFC_64))))
    return copysign(b, b.select(b.fcmp("olt", size, one), _erf_near(b, size), far), x)


def erfc(b: Builder, x: Value) -> Value:
    """1 - erf(x), accurate where that is small."""
    size = clamp_above(b, fabs(b, x), 10.5 if x.type.bits == 32 else 28.0)
    tail = _erfc_positive(b, size, *two_product(b, size, size))
    negative = b.fcmp("olt", x, b.const(x.type, 0.0))
    far = b.select(negative, b.fsub(b.const(x.type, 2.0), tail), tail)
    near = b.fsub(b.const(x.type, 1.0), _erf_near(b, x))
    return b.select(b.fcmp("olt", size, b.const(x.type, 0.5)), near, far)


def _erfc_positive(b: Builder, x: Value, square: Value, error: Value) -> Value:
    """erfc of x >= 0, x*x given as two floats: of an absolute error exp would make a relative one.

    exp(-x*x) times a factor that varies slowly, after Shepherd and Laframboise, Math. Comp. 36 (1981).
    """
    factor = _erfcx(b, x)
    return times_exp(b, b.fsub(factor, b.fmul(factor, error)), b.fneg(square))


def _erfcx(b: Builder, x: Value) -> Value:
    """exp(x*x) erfc(x) of x >= 0."""
    middle = b.const(x.type, 3.75)
    t = b.fdiv(b.fsub(x, middle), b.fadd(x, middle))
    return b.fdiv(
        polynomial(b, t, pick(x.type, ERFC_32, ERFC_64)), b.fma(x, b.const(x.type, 2.0), b.const(x.type, 1.0))
    )


def ndtr(b: Builder, x: Value) -> Value:
    """The normal distribution's cumulative function, erfc(-x / sqrt(2)) / 2."""
    size = clamp_above(b, fabs(b, x), 14.5 if x.type.bits == 32 else 39.0)
    half = b.const(x.type, 0.5)
    square, error = two_product(b, size, size)
    scaled = b.fmul(size, b.const(x.type, math.sqrt(0.5)))
    tail = b.fmul(half, _erfc_positive(b, scaled, b.fmul(half, square), b.fmul(half, error)))
    positive = b.fcmp("ogt", x, b.const(x.type, 0.0))
    far = b.select(positive, b.fsub(b.const(x.type, 1.0), tail), tail)
    near = b.fma(half, _erf_near(b, b.fmul(x, b.const(x.type, math.sqrt(0.5)))), half)
    return b.select(b.fcmp("olt", size, b.const(x.type, 0.7)), near, far)
