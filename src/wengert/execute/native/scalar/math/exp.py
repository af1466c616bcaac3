"""Native exponentials and functions of them: exp, expm1, sigmoid, and the hyperbolic functions."""

from __future__ import annotations

from typing import NamedTuple

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
    odd,
    parts,
    pick,
    polynomial,
    scale,
)
from .coefficients import EXP_32, EXP_64, SINH_32, SINH_64

_LOG2_E = float(1 / LN2)
# The multiples of log(2) that are subtracted have at most 8 (11) bits.
_LN2_PARTS = {32: parts(LN2, 15, 24), 64: parts(LN2, 41, 53)}


class _Reduced(NamedTuple):
    """A reduced argument x = n log(2) + r: exp(r) - 1, n as a float, and a float in whose lowest bits n stands."""

    expm1: Value
    n: Value
    shifted: Value


def _reduce(b: Builder, x: Value) -> _Reduced:
    magic = b.const(x.type, format_of(x.type).magic)
    shifted = b.fma(x, b.const(x.type, _LOG2_E), magic)
    n = b.fsub(shifted, magic)
    r = x
    for part in _LN2_PARTS[x.type.bits]:
        r = b.fma(n, b.const(x.type, -part), r)
    return _Reduced(_expm1_near(b, r), n, shifted)


def _expm1_near(b: Builder, r: Value) -> Value:
    """Return exp(r) - 1 for |r| <= log(2) / 2."""
    return b.fma(b.fmul(r, r), polynomial(b, r, pick(r.type, EXP_32, EXP_64)), r)


def _power(b: Builder, reduced: _Reduced, less: int = 0) -> Value:
    """Return 2**(n - less), a normal number."""
    form = format_of(reduced.n.type)
    ints = int_type(reduced.n.type)
    exponent = b.shl(bits_of(b, reduced.shifted), b.const(ints, form.fraction))
    return float_of(b, b.add(exponent, b.const(ints, form.one - (less << form.fraction))))


def exp(b: Builder, x: Value, halvings: int = 0) -> Value:
    """Return e**x, divided by 2 `halvings` times: a result that uses it need not overflow where e**x would."""
    return _finish(b, _reduce(b, _within_range(b, x)), None, halvings)


def times_exp(b: Builder, factor: Value, x: Value) -> Value:
    """Return factor * e**x for a factor of moderate size; a denormal result is rounded once."""
    return _finish(b, _reduce(b, _within_range(b, x)), factor, 0)


def _within_range(b: Builder, x: Value) -> Value:
    """Clamp to bounds beyond which the power, or half of it, is 0 or infinity."""
    low, high = (-106.0, 90.0) if x.type.bits == 32 else (-748.0, 711.0)
    return clamp_above(b, clamp_below(b, x, low), high)


def _finish(b: Builder, reduced: _Reduced, factor: Value | None, halvings: int) -> Value:
    type = reduced.n.type
    near = b.fadd(reduced.expm1, b.const(type, 1.0))
    if factor is not None:
        near = b.fmul(near, factor)
    return scale(b, near, b.fsub(reduced.n, b.const(type, float(halvings))) if halvings else reduced.n)


def exp_normal(b: Builder, x: Value) -> Value:
    """Return e**x where it neither overflows nor is denormal."""
    reduced = _reduce(b, x)
    return b.fmul(b.fadd(reduced.expm1, b.const(x.type, 1.0)), _power(b, reduced))


def exp2(b: Builder, x: Value) -> Value:
    """Return 2**x."""
    low, high = (-151.0, 129.0) if x.type.bits == 32 else (-1076.0, 1025.0)
    x = clamp_above(b, clamp_below(b, x, low), high)
    magic = b.const(x.type, format_of(x.type).magic)
    n = b.fsub(b.fadd(x, magic), magic)
    near = _expm1_near(b, b.fmul(b.fsub(x, n), b.const(x.type, float(LN2))))
    return scale(b, b.fadd(near, b.const(x.type, 1.0)), n)


def expm1(b: Builder, x: Value) -> Value:
    """Return e**x - 1, accurate near 0."""
    # Below the lower bound it is -1; 2**(n - 1) does not overflow where 2**n would.
    low, high, tiny = (-18.0, 89.0, 2.0**-26) if x.type.bits == 32 else (-38.0, 710.0, 2.0**-55)
    reduced = _reduce(b, clamp_above(b, clamp_below(b, x, low), high))
    half = _power(b, reduced, less=1)
    out = b.fma(half, reduced.expm1, b.fsub(half, b.const(x.type, 0.5)))
    # There it is x itself: denormals keep their digits, and zeros their sign.
    near_zero = b.fcmp("olt", fabs(b, x), b.const(x.type, tiny))
    return b.select(near_zero, x, b.fadd(out, out))


def sigmoid(b: Builder, x: Value) -> Value:
    """Return 1 / (1 + e**-x), accurate also where it is tiny."""
    one = b.const(x.type, 1.0)
    small = exp(b, b.fneg(fabs(b, x)))
    return b.fdiv(b.select(b.fcmp("olt", x, b.const(x.type, 0.0)), small, one), b.fadd(one, small))


def tanh(b: Builder, x: Value) -> Value:
    """Return the hyperbolic tangent: m / (m + 2) with m = e**2x - 1, which is accurate from 0 to where it is 1."""
    size = clamp_above(b, fabs(b, x), 9.2 if x.type.bits == 32 else 19.2)
    reduced = _reduce(b, b.fadd(size, size))
    power = _power(b, reduced)
    m = b.fma(power, reduced.expm1, b.fsub(power, b.const(x.type, 1.0)))
    return copysign(b, b.fdiv(m, b.fadd(m, b.const(x.type, 2.0))), x)


def sinh(b: Builder, x: Value) -> Value:
    """Return the hyperbolic sine, near 0 as an odd polynomial."""
    size = fabs(b, x)
    near = odd(b, size, pick(x.type, SINH_32, SINH_64))
    half = exp(b, size, halvings=1)
    far = b.fsub(half, b.fdiv(b.const(x.type, 0.25), half))
    return copysign(b, b.select(b.fcmp("olt", size, b.const(x.type, 1.0)), near, far), x)


def cosh(b: Builder, x: Value) -> Value:
    """Return the hyperbolic cosine, from half of e**|x|, which does not overflow before it."""
    half = exp(b, fabs(b, x), halvings=1)
    return b.fadd(half, b.fdiv(b.const(x.type, 0.25), half))
