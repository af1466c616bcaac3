"""Native powers and the hypotenuse.

A power is exp(y log(x)), and its error is that of y log(x), which may be near 1000: float32 is
computed in float64, float64 with a logarithm in two floats.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ...codegen.builder import Builder, Value
from .base import (
    LN2,
    bits_of,
    clamp_above,
    clamp_below,
    copysign,
    fabs,
    float_of,
    format_of,
    int_type,
    mantissa_exponent,
    narrowed,
    parts,
    polynomial,
    power_of_two_float,
    rint,
    scale,
    sqrt,
    two_product,
    two_sum,
    widened,
)
from .coefficients import EXP_64, EXP_POW, LOG_POW, LOG_POW_WIDE
from .log import LOWEST

_LN2_HIGH, _LN2_LOW = parts(LN2, 41, 53)
_TWO_THIRDS = parts(Fraction(2, 3), 53, 53)
_LOG2_E = float(1 / LN2)


def pow(b: Builder, x: Value, y: Value) -> Value:
    """Return x**y with C's special cases: 1 where y is 0 or x is 1, whatever the other; signs where y is whole."""
    type = x.type
    zero, one, infinity = (b.const(type, c) for c in (0.0, 1.0, math.inf))
    size = fabs(b, x)
    out = _narrow_power(b, size, y) if type.bits == 32 else _wide_power(b, size, y)
    is_one = b.fcmp("oeq", size, one)
    out = b.select(is_one, one, out)
    whole = b.fcmp("oeq", rint(b, y), y)
    half = b.fmul(y, b.const(type, 0.5))
    is_odd = b.and_(whole, b.fcmp("une", rint(b, half), half))
    out = b.select(is_odd, copysign(b, out, x), out)
    finite_below = b.and_(b.fcmp("olt", x, zero), b.fcmp("olt", size, infinity))
    out = b.select(b.and_(finite_below, b.not_(whole)), b.const(type, math.nan), out)
    out = b.select(b.fcmp("uno", x, y), b.fadd(x, y), out)
    return b.select(b.or_(b.fcmp("oeq", y, zero), b.fcmp("oeq", x, one)), one, out)


def _with_ends(b: Builder, x: Value, out: Value) -> Value:
    """Return `out` with a logarithm's -inf at 0 and +inf at +inf."""
    infinity = b.const(x.type, math.inf)
    out = b.select(b.fcmp("oeq", x, infinity), infinity, out)
    return b.select(b.fcmp("oeq", x, b.const(x.type, 0.0)), b.fneg(infinity), out)


def _narrow_power(b: Builder, x: Value, y: Value) -> Value:
    """Return x**y for float32 x >= 0."""
    x, y = widened(b, x), widened(b, y)
    type = x.type
    m, e = mantissa_exponent(b, x, LOWEST)
    f = b.fsub(m, b.const(type, 1.0))
    s = b.fdiv(f, b.fadd(f, b.const(type, 2.0)))
    z = b.fmul(s, s)
    log = b.fma(b.fmul(s, z), polynomial(b, z, LOG_POW), b.fadd(s, s))
    log2 = _with_ends(b, x, b.fma(log, b.const(type, _LOG2_E), e))
    exponent = clamp_above(b, clamp_below(b, b.fmul(y, log2), -200.0), 200.0)
    magic = b.const(type, format_of(type).magic)
    n = b.fsub(b.fadd(exponent, magic), magic)
    r = b.fmul(b.fsub(exponent, n), b.const(type, float(LN2)))
    near = b.fadd(b.fma(b.fmul(r, r), polynomial(b, r, EXP_POW), r), b.const(type, 1.0))
    return narrowed(b, b.fmul(near, power_of_two_float(b, n)))


def _wide_power(b: Builder, x: Value, y: Value) -> Value:
    """Return x**y for float64 x >= 0."""
    type = x.type
    high, low = _log_in_two(b, x)
    high = _with_ends(b, x, high)
    product, error = two_product(b, y, high)
    error = b.fma(y, low, error)
    # Where the product is not finite, its error is not a number.
    error = b.select(b.fcmp("olt", fabs(b, product), b.const(type, 1000.0)), error, b.const(type, 0.0))
    return _exp_of_two(b, clamp_above(b, clamp_below(b, product, -746.0), 711.0), error)


def _log_in_two(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return log(x) to about 2**-66, for positive finite x: the series of artanh at s = f / (2 + f), in two floats."""
    type = x.type
    m, e = mantissa_exponent(b, x, LOWEST)
    one, two = b.const(type, 1.0), b.const(type, 2.0)
    f = b.fsub(m, one)
    below, below_low = two_sum(b, two, f)
    inverse = b.fdiv(one, below)
    s = b.fmul(f, inverse)
    back, back_low = two_product(b, s, below)
    rest = b.fsub(b.fsub(b.fsub(f, back), back_low), b.fmul(s, below_low))
    s_low = b.fmul(rest, inverse)
    z, z_low = two_product(b, s, s)
    z_low = b.fma(b.fadd(s, s), s_low, z_low)
    c, c_low = two_sum(b, b.const(type, _TWO_THIRDS[0]), b.fmul(z, polynomial(b, z, LOG_POW_WIDE)))
    c_low = b.fadd(c_low, b.const(type, _TWO_THIRDS[1]))
    for factor, factor_low in ((z, z_low), (s, s_low)):
        c, c_low = _times(b, c, c_low, factor, factor_low)
    high, low = two_sum(b, b.fadd(s, s), c)
    low = b.fadd(low, b.fadd(b.fadd(s_low, s_low), c_low))
    high, more = two_sum(b, b.fmul(e, b.const(type, _LN2_HIGH)), high)
    low = b.fadd(more, b.fma(e, b.const(type, _LN2_LOW), low))
    return two_sum(b, high, low)


def _times(b: Builder, x: Value, x_low: Value, y: Value, y_low: Value) -> tuple[Value, Value]:
    high, low = two_product(b, x, y)
    return high, b.fma(x_low, y, b.fma(x, y_low, low))


def _exp_of_two(b: Builder, x: Value, low: Value) -> Value:
    """Return e**(x + low), `low` much the smaller."""
    magic = b.const(x.type, format_of(x.type).magic)
    n = b.fsub(b.fma(x, b.const(x.type, _LOG2_E), magic), magic)
    first = b.fma(n, b.const(x.type, -_LN2_HIGH), x)
    r, r_low = two_sum(b, first, b.fma(n, b.const(x.type, -_LN2_LOW), low))
    near = b.fadd(r, b.fma(b.fmul(r, r), polynomial(b, r, EXP_64), r_low))
    return scale(b, b.fadd(near, b.const(x.type, 1.0)), n)


def hypot(b: Builder, x: Value, y: Value) -> Value:
    """Return sqrt(x*x + y*y), both scaled by the power of 2 that brings the larger near 1."""
    type = x.type
    form, ints = format_of(type), int_type(type)
    x, y = fabs(b, x), fabs(b, y)
    larger = b.select(b.fcmp("ogt", x, y), x, y)
    exponent = b.and_(bits_of(b, larger), b.const(ints, form.infinity))
    # Both its power and its reciprocal's are normal numbers.
    lowest, highest = (b.const(ints, e << form.fraction) for e in (1, 2 * form.bias - 1))
    exponent = b.imin(b.imax(exponent, lowest), highest)
    shrink = float_of(b, b.sub(b.const(ints, 2 * form.bias << form.fraction), exponent))
    a, c = b.fmul(x, shrink), b.fmul(y, shrink)
    out = b.fmul(sqrt(b, b.fma(a, a, b.fmul(c, c))), float_of(b, exponent))
    infinity = b.const(type, math.inf)
    infinite = b.or_(b.fcmp("oeq", x, infinity), b.fcmp("oeq", y, infinity))
    return b.select(infinite, infinity, out)
