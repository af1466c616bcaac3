"""Native logarithms and functions of them: log, log1p, log2, log10, the inverse hyperbolic functions."""

from __future__ import annotations

import math
from fractions import Fraction

from ...codegen.builder import Builder, Value
from .base import (
    LN2,
    copysign,
    fabs,
    format_of,
    is_nan,
    mantissa_exponent,
    parts,
    polynomial,
    power_of_two_float,
    sqrt,
    two_sum,
)
from .coefficients import LOG_32, LOG_64
from .exp import exp

# Mantissas are taken in [3/4, 3/2): the exponent is 0 on both sides of 1.
LOWEST = 0.75

_LN2_PARTS = {32: parts(LN2, 15, 24), 64: parts(LN2, 41, 53)}
_LOG2_E = {bits: parts(1 / LN2, digits, digits) for bits, digits in ((32, 24), (64, 53))}
_LN10 = Fraction("2.302585092994045684017991454684364207601101488628772976033327900967572609677352480235997")
_LOG10_E = {bits: parts(1 / _LN10, digits, digits) for bits, digits in ((32, 24), (64, 53))}
_LOG10_2 = {32: parts(LN2 / _LN10, 15, 24), 64: parts(LN2 / _LN10, 41, 53)}


def _near_one(b: Builder, f: Value) -> tuple[Value, Value]:
    """Return log(1 + f) - f for f in [-1/4, 1/2] as two terms, the larger first.

    In float64 by the series of artanh at s = f / (2 + f), as fdlibm does.
    """
    square = b.fmul(f, f)
    half = b.fmul(square, b.const(f.type, -0.5))
    if f.type.bits == 32:
        return half, b.fmul(b.fmul(f, square), polynomial(b, f, LOG_32))
    s = b.fdiv(f, b.fadd(f, b.const(f.type, 2.0)))
    z = b.fmul(s, s)
    rest = b.fma(z, polynomial(b, z, LOG_64), b.fmul(square, b.const(f.type, 0.5)))
    return half, b.fmul(s, rest)


def _assemble(b: Builder, f: Value, e: Value) -> Value:
    """Return log((1 + f) * 2**e)."""
    high, low = _LN2_PARTS[f.type.bits]
    large, small = _near_one(b, f)
    small = b.fma(e, b.const(f.type, low), small)
    return b.fma(e, b.const(f.type, high), b.fadd(f, b.fadd(large, small)))


def _with_limits(b: Builder, x: Value, lowest: float, out: Value) -> Value:
    """Return `out` with -inf where x is `lowest`, NaN below it and of NaN, +inf at +inf."""
    infinity = b.const(x.type, math.inf)
    out = b.select(b.fcmp("oeq", x, infinity), infinity, out)
    edge = b.const(x.type, lowest)
    outside = b.select(b.fcmp("oeq", x, edge), b.const(x.type, -math.inf), b.const(x.type, math.nan))
    return b.select(b.fcmp("ogt", x, edge), out, outside)


def log(b: Builder, x: Value) -> Value:
    """Return the natural logarithm."""
    m, e = mantissa_exponent(b, x, LOWEST)
    return _with_limits(b, x, 0.0, _assemble(b, b.fsub(m, b.const(x.type, 1.0)), e))


def log2(b: Builder, x: Value) -> Value:
    """Return the logarithm to the base 2, exact at powers of 2."""
    m, e = mantissa_exponent(b, x, LOWEST)
    return _with_limits(b, x, 0.0, _in_base(b, m, e, _LOG2_E[x.type.bits], (1.0, 0.0)))


def log10(b: Builder, x: Value) -> Value:
    """Return the logarithm to the base 10."""
    m, e = mantissa_exponent(b, x, LOWEST)
    return _with_limits(b, x, 0.0, _in_base(b, m, e, _LOG10_E[x.type.bits], _LOG10_2[x.type.bits]))


def _in_base(b: Builder, m: Value, e: Value, of_e: tuple[float, ...], of_2: tuple[float, ...]) -> Value:
    """Return log(m * 2**e) in the base in which the logarithms of e and of 2 are these sums of two floats."""
    f = b.fsub(m, b.const(m.type, 1.0))
    large, small = _near_one(b, f)
    near, lost = two_sum(b, f, b.fadd(large, small))
    first = b.const(m.type, of_e[0])
    rest = b.fma(near, b.const(m.type, of_e[1]), b.fmul(e, b.const(m.type, of_2[1])))
    rest = b.fma(near, first, b.fma(lost, first, rest))
    return b.fma(e, b.const(m.type, of_2[0]), rest)


def log1p(b: Builder, x: Value) -> Value:
    """Return log(1 + x), accurate near 0."""
    one = b.const(x.type, 1.0)
    m, e = mantissa_exponent(b, b.fadd(one, x), LOWEST)
    # (1 + x) / 2**e - 1 with one rounding; where x is large the 1 does not count.
    shrink = power_of_two_float(b, b.fneg(e))
    f = b.fma(x, shrink, b.fsub(shrink, one))
    large = b.fcmp("ogt", x, b.const(x.type, 2.0 ** (format_of(x.type).fraction + 2)))
    f = b.select(large, b.fsub(m, one), f)
    out = _with_limits(b, x, -1.0, _assemble(b, f, e))
    return b.select(b.fcmp("oeq", x, b.const(x.type, 0.0)), x, out)


def logaddexp(b: Builder, x: Value, y: Value) -> Value:
    """Return log(e**x + e**y) without overflow on the way."""
    larger = b.select(b.fcmp("ogt", x, y), x, y)
    far = b.fneg(fabs(b, b.fsub(x, y)))
    out = b.fadd(larger, log1p(b, exp(b, far)))
    # Of equal infinities the difference is NaN.
    out = b.select(b.fcmp("oeq", x, y), b.fadd(x, b.const(x.type, math.log(2.0))), out)
    return b.select(is_nan(b, far), b.select(b.fcmp("oeq", x, y), x, b.fadd(x, y)), out)


def asinh(b: Builder, x: Value) -> Value:
    """Return sign(x) log1p(|x| + x*x / (1 + sqrt(x*x + 1)))."""
    one = b.const(x.type, 1.0)
    size = fabs(b, x)
    square = b.fmul(size, size)
    inner = b.fadd(size, b.fdiv(square, b.fadd(one, sqrt(b, b.fadd(square, one)))))
    return copysign(b, _log1p_or_double(b, size, inner), x)


def acosh(b: Builder, x: Value) -> Value:
    """Return log1p(t + sqrt(t*t + 2t)) with t = x - 1."""
    t = b.fsub(x, b.const(x.type, 1.0))
    inner = b.fadd(t, sqrt(b, b.fmul(t, b.fadd(t, b.const(x.type, 2.0)))))
    out = _log1p_or_double(b, x, inner)
    return b.select(b.fcmp("oge", x, b.const(x.type, 1.0)), out, b.const(x.type, math.nan))


def _log1p_or_double(b: Builder, x: Value, inner: Value) -> Value:
    """Return log1p(inner), and log(2 x) where x is so large that its square may overflow."""
    large = b.fcmp("ogt", x, b.const(x.type, 2.0 ** (format_of(x.type).fraction + 4)))
    out = log1p(b, b.select(large, x, inner))
    return b.fadd(out, b.select(large, b.const(x.type, math.log(2.0)), b.const(x.type, 0.0)))


def atanh(b: Builder, x: Value) -> Value:
    """Return log1p(2x + 2x*x / (1 - x)) / 2."""
    size = fabs(b, x)
    twice = b.fadd(size, size)
    rest = b.fdiv(b.fmul(twice, size), b.fsub(b.const(x.type, 1.0), size))
    out = b.fmul(log1p(b, b.fadd(twice, rest)), b.const(x.type, 0.5))
    out = b.select(b.fcmp("ole", size, b.const(x.type, 1.0)), out, b.const(x.type, math.nan))
    return copysign(b, out, x)
