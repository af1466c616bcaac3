"""Native special functions: the error function, the normal distribution's, and their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...codegen.builder import Builder, Value
from .base import clamp_above, copysign, fabs, in_float64, narrowed, pick, polynomial, sqrt, two_product, widened
from .coefficients import ERF_32, ERF_64, ERFC_32, ERFC_64, ERFCINV_64, ERFINV_64, LOG_ERFC_32, LOG_ERFC_64
from .exp import exp_normal, times_exp
from .log import log, log1p


def _erf_near(b: Builder, x: Value) -> Value:
    """Return erf for |x| <= 1."""
    z = b.fmul(x, x)
    return b.fma(x, polynomial(b, z, pick(x.type, ERF_32, ERF_64)), x)


def erf(b: Builder, x: Value) -> Value:
    """Return the error function; beyond 1 as 1 - exp(p(x))."""
    one = b.const(x.type, 1.0)
    size = clamp_above(b, fabs(b, x), 4.0 if x.type.bits == 32 else 6.0)
    far = b.fsub(one, exp_normal(b, polynomial(b, size, pick(x.type, LOG_ERFC_32, LOG_ERFC_64))))
    return copysign(b, b.select(b.fcmp("olt", size, one), _erf_near(b, size), far), x)


def erfc(b: Builder, x: Value) -> Value:
    """Return 1 - erf(x), accurate where that is small."""
    size = clamp_above(b, fabs(b, x), 10.5 if x.type.bits == 32 else 28.0)
    tail = _erfc_positive(b, size, *two_product(b, size, size))
    negative = b.fcmp("olt", x, b.const(x.type, 0.0))
    far = b.select(negative, b.fsub(b.const(x.type, 2.0), tail), tail)
    near = b.fsub(b.const(x.type, 1.0), _erf_near(b, x))
    return b.select(b.fcmp("olt", size, b.const(x.type, 0.5)), near, far)


def _erfc_positive(b: Builder, x: Value, square: Value, error: Value) -> Value:
    """Return erfc of x >= 0, x*x given as two floats: exp would turn its absolute error into a relative one.

    exp(-x*x) times a factor that varies slowly, after Shepherd and Laframboise, Math. Comp. 36 (1981).
    """
    factor = _erfcx(b, x)
    return times_exp(b, b.fsub(factor, b.fmul(factor, error)), b.fneg(square))


def _erfcx(b: Builder, x: Value) -> Value:
    """Return exp(x*x) erfc(x) of x >= 0."""
    middle = b.const(x.type, 3.75)
    t = b.fdiv(b.fsub(x, middle), b.fadd(x, middle))
    return b.fdiv(
        polynomial(b, t, pick(x.type, ERFC_32, ERFC_64)), b.fma(x, b.const(x.type, 2.0), b.const(x.type, 1.0))
    )


def ndtr(b: Builder, x: Value) -> Value:
    """Return the normal distribution's cumulative function, erfc(-x / sqrt(2)) / 2."""
    size = clamp_above(b, fabs(b, x), 14.5 if x.type.bits == 32 else 39.0)
    half = b.const(x.type, 0.5)
    square, error = two_product(b, size, size)
    scaled = b.fmul(size, b.const(x.type, math.sqrt(0.5)))
    tail = b.fmul(half, _erfc_positive(b, scaled, b.fmul(half, square), b.fmul(half, error)))
    positive = b.fcmp("ogt", x, b.const(x.type, 0.0))
    far = b.select(positive, b.fsub(b.const(x.type, 1.0), tail), tail)
    near = b.fma(half, _erf_near(b, b.fmul(x, b.const(x.type, math.sqrt(0.5)))), half)
    return b.select(b.fcmp("olt", size, b.const(x.type, 0.7)), near, far)


@in_float64
def log_ndtr(b: Builder, x: Value) -> Value:
    """Return log(ndtr(x)), right also where ndtr(x) is 0."""
    const = lambda c: b.const(x.type, c)
    half = const(0.5)
    # Far out only the square counts.
    size = clamp_above(b, fabs(b, x), 2.0**200)
    factor = b.fmul(half, _erfcx(b, b.fmul(size, const(math.sqrt(0.5)))))
    square, error = two_product(b, size, size)
    exponent = b.fmul(square, const(-0.5))
    far = b.fadd(log(b, factor), b.fmul(b.fmul(x, x), const(-0.5)))
    tail = times_exp(b, b.fsub(factor, b.fmul(factor, b.fmul(half, error))), exponent)
    inner = b.fma(b.fneg(half), _erf_near(b, b.fmul(size, const(math.sqrt(0.5)))), half)
    tail = b.select(b.fcmp("olt", size, const(0.7)), inner, tail)
    near = log1p(b, b.select(b.fcmp("ogt", x, const(0.0)), b.fneg(tail), b.fsub(tail, const(1.0))))
    return b.select(b.fcmp("olt", x, const(-1.0)), far, near)


# -- inverses


def erfinv(b: Builder, y: Value) -> Value:
    """Return the inverse of the error function; NaN outside of [-1, 1]."""
    return _quantile(b, y, _erfinv)


def ndtri(b: Builder, p: Value) -> Value:
    """Return the normal distribution's quantile function; NaN outside of [0, 1]."""
    return _quantile(b, p, _ndtri)


Inverse = Callable[[Builder, Value], Value]


def _quantile(b: Builder, x: Value, function: Callable[[Builder, Value, Inverse], Value]) -> Value:
    """Compute for float32 in float64, where the first estimate of the inverse has all digits that remain."""
    if x.type.bits == 32:
        return narrowed(b, function(b, widened(b, x), _inverse_estimate))
    return function(b, x, _inverse_of_log_erfc)


def _erfinv(b: Builder, y: Value, inverse: Inverse) -> Value:
    const = lambda c: b.const(y.type, c)
    size = fabs(b, y)
    far = inverse(b, log(b, b.fsub(const(1.0), size)))
    out = copysign(b, b.select(b.fcmp("ole", size, const(0.5)), _erfinv_near(b, size), far), y)
    return b.select(b.fcmp("ole", size, const(1.0)), out, const(math.nan))


def _ndtri(b: Builder, p: Value, inverse: Inverse) -> Value:
    const = lambda c: b.const(p.type, c)
    root = const(math.sqrt(2.0))
    upper = b.fcmp("ogt", p, const(0.5))
    tail = b.select(upper, b.fsub(const(1.0), p), p)
    far = b.fmul(root, inverse(b, log(b, b.fadd(tail, tail))))
    far = b.select(upper, far, b.fneg(far))
    near = b.fmul(root, _erfinv_near(b, b.fsub(b.fadd(p, p), const(1.0))))
    out = b.select(b.fcmp("ole", fabs(b, b.fsub(p, const(0.5))), const(0.25)), near, far)
    inside = b.and_(b.fcmp("oge", p, const(0.0)), b.fcmp("ole", p, const(1.0)))
    return b.select(inside, out, const(math.nan))


def _erfinv_near(b: Builder, y: Value) -> Value:
    """Return erfinv for |y| <= 1/2."""
    return b.fmul(y, polynomial(b, b.fmul(y, y), ERFINV_64))


def _inverse_estimate(b: Builder, level: Value) -> Value:
    """Return the x at which log erfc(x) is `level` <= log(1/2), to 2**-30."""
    t = sqrt(b, b.fneg(level))
    three = b.const(level.type, 3.0)
    x = b.fmul(t, polynomial(b, b.fdiv(b.fsub(t, three), b.fadd(t, three)), ERFCINV_64))
    infinity = b.const(level.type, math.inf)
    return b.select(b.fcmp("oeq", level, b.fneg(infinity)), infinity, x)


def _inverse_of_log_erfc(b: Builder, level: Value) -> Value:
    """Return the x at which log erfc(x) is `level` to all digits, by one of Halley's steps."""
    const = lambda c: b.const(level.type, c)
    x = _inverse_estimate(b, level)
    factor = _erfcx(b, x)
    square, error = two_product(b, x, x)
    # The function less the level, over its slope -2 / (sqrt(pi) factor).
    value = b.fsub(b.fsub(log(b, factor), b.fadd(square, level)), error)
    step = b.fmul(b.fmul(value, factor), const(-0.5 * math.sqrt(math.pi)))
    bend = b.fsub(x, b.fdiv(const(1.0 / math.sqrt(math.pi)), factor))
    refined = b.fsub(x, b.fdiv(step, b.fma(step, bend, const(1.0))))
    return b.select(b.fcmp("olt", x, const(math.inf)), refined, x)
