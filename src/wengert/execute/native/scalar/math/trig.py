"""Native trigonometric functions and their inverses.

Angles are reduced by Cody and Waite's method, a multiple of pi subtracted in parts; where one is
large, by Payne and Hanek's: a product with as many of 1/pi's digits as matter, in integers.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

from ...codegen.builder import Builder, Value
from ...codegen.types import F32, F64, I64, Type
from .base import (
    PI,
    any_lane,
    bits_of,
    copysign,
    fabs,
    float_of,
    format_of,
    int_type,
    narrowed,
    odd,
    parts,
    pick,
    polynomial,
    power_of_two,
    sqrt,
    two_product,
    two_sum,
    widened,
)
from .coefficients import ASIN_32, ASIN_64, ATAN_32, ATAN_64, SIN_32, SIN_64, TAN_32, TAN_64

I128 = Type("i", 128)

# Up to here multiples of pi/2 have 15 (20) bits, and one more where they are halves.
_LIMIT = {32: 2.0**15, 64: 2.0**19}


class _Period(NamedTuple):
    """A period by which angles are reduced: `unit`, at whole multiples or half-way between them."""

    unit: int  # pi over this
    halves: bool


_SIN, _COS, _TAN = _Period(1, False), _Period(1, True), _Period(2, False)


class _Angle(NamedTuple):
    """A reduced angle x = n unit + r with r = high + low; the parity of n stands in the lowest bit of `n`."""

    high: Value
    low: Value | None
    n: Value


def _reduce(b: Builder, x: Value, period: _Period) -> _Angle:
    quick = _cody_waite(b, x, period)
    limit = b.const(x.type, _LIMIT[x.type.bits])
    large = b.fcmp("ugt", fabs(b, x), limit)
    near = [v for v in quick if v is not None]

    def far() -> list[Value]:
        found = _payne_hanek_lanes(b, x, period)
        return [b.select(large, f, q) for f, q in zip(found, near)]

    out = b.either(any_lane(b, large), far, lambda: near)
    return _Angle(out[0], None, out[1]) if len(out) == 2 else _Angle(*out)


def _multiple(b: Builder, x: Value, period: _Period) -> tuple[Value, Value]:
    """Return the multiple of the unit to subtract, and the bits of a float that end in its whole part."""
    magic = b.const(x.type, format_of(x.type).magic)
    per_unit = b.const(x.type, float(period.unit / PI))
    if not period.halves:
        shifted = b.fma(x, per_unit, magic)
        return b.fsub(shifted, magic), bits_of(b, shifted)
    half = b.const(x.type, 0.5)
    shifted = b.fadd(b.fma(x, per_unit, b.fneg(half)), magic)
    return b.fadd(b.fsub(shifted, magic), half), bits_of(b, shifted)


def _cody_waite(b: Builder, x: Value, period: _Period) -> _Angle:
    unit = PI / period.unit
    n, bits = _multiple(b, x, period)
    if x.type.bits == 32 and b.target.fma:
        for part in parts(unit, 24, 24, 24):
            x = b.fma(n, b.const(x.type, -part), x)
        return _Angle(x, None, bits)
    if x.type.bits == 32:
        # Without a fused multiply-add a product is exact only in float64.
        wide, n = widened(b, x), widened(b, n)
        for part in parts(unit, 32, 53):
            wide = b.fma(n, b.const(wide.type, -part), wide)
        return _Angle(narrowed(b, wide), None, bits)
    # 32 bits times n is exact, and so is the first difference.
    first, second, third = (b.const(x.type, -part) for part in parts(unit, 32, 32, 53))
    one = b.fma(n, first, x)
    two = b.fma(n, second, one)
    rest = b.fma(n, third, b.fma(n, second, b.fsub(one, two)))
    return _Angle(*two_sum(b, two, rest), bits)


# 1 / pi to 1344 bits after the point, enough for the largest float64.
_WORDS = 21
_LEAD = 64  # zeros in front of it, so that smaller numbers are looked up too


@cache
def _inverse_pi() -> tuple[int, ...]:
    """Return the bits of 1 / pi as words, the highest first."""
    bits = 64 * _WORDS
    return tuple((_scaled_inverse_pi(bits) >> _LEAD >> shift) & (2**64 - 1) for shift in range(bits - 64, -1, -64))


def _scaled_inverse_pi(bits: int) -> int:
    """Return floor(2**bits / pi), by Machin's formula."""
    one = 1 << (bits + 64)

    def arctan_of_inverse(n: int) -> int:
        term = total = one // n
        k = 1
        while term:
            term //= -n * n
            k += 2
            total += term // k
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return (one << bits) // pi


def _payne_hanek_lanes(b: Builder, x: Value, period: _Period) -> list[Value]:
    """Return high and low part (float64 only) and parity of every lane, one lane after the other."""
    type, ints = x.type, int_type(x.type)
    if not type.lanes:
        return _payne_hanek_as(b, x, period)
    kinds = [type, ints] if type.bits == 32 else [type, type, ints]
    start = [b.undefined(kind) for kind in kinds]
    with b.loop(0, type.lanes, carried=start) as loop:
        found = _payne_hanek_as(b, b.extract(x, loop.index), period)
        loop.carry(*(b.insert(v, f, loop.index) for v, f in zip(loop.values, found)))
    return list(loop.results)


def _payne_hanek_as(b: Builder, x: Value, period: _Period) -> list[Value]:
    if x.type.bits == 64:
        return _payne_hanek(b, x, period)
    high, _, n = _payne_hanek(b, widened(b, x), period)
    return [narrowed(b, high), b.cast("trunc", n, int_type(F32))]


def _payne_hanek(b: Builder, x: Value, period: _Period) -> list[Value]:
    """Reduce one float64 of at least 2**-11; any other number gives no valid result. NaN for infinity."""
    bits = bits_of(b, x)
    field = b.and_(b.lshr(bits, b.index(52)), b.index(0x7FF))
    whole = b.or_(b.and_(bits, b.index((1 << 52) - 1)), b.index(1 << 52))
    # x = whole * 2**(field - 1075): of 1/pi there matter 192 bits from the one that then counts 1.
    at = b.imin(b.imax(b.sub(field, b.index(1076 - _LEAD)), b.index(0)), b.index(64 * (_WORDS - 4)))
    table = b.table(I64, _inverse_pi())
    first, shift = b.lshr(at, b.index(6)), b.and_(at, b.index(63))
    words = [b.load(I64, b.offset(table, b.add(first, b.index(i)), I64)) for i in range(4)]
    top, middle, bottom = (b.intrinsic("fshl", words[i], words[i + 1], shift) for i in range(3))
    factor, by64 = b.cast("zext", whole, I128), b.const(I128, 64)
    total = b.shl(b.cast("zext", b.mul(whole, top), I128), by64)
    total = b.add(total, b.mul(factor, b.cast("zext", middle, I128)))
    total = b.add(total, b.lshr(b.mul(factor, b.cast("zext", bottom, I128)), by64))
    # `total` is x / pi modulo 2, with one bit before the point.
    if period.unit == 2:
        total = b.shl(total, b.const(I128, 1))
    half = b.const(I128, 1 << 126)
    if not period.halves:
        total = b.add(total, half)
    n = b.cast("trunc", b.lshr(total, b.const(I128, 127)), I64)
    rest = b.sub(b.and_(total, b.const(I128, (1 << 127) - 1)), half)
    high, low = _fixed_to_float(b, rest)
    unit = parts(PI / period.unit, 53, 53)
    product, error = two_product(b, high, b.const(F64, unit[0]))
    error = b.fadd(error, b.fadd(b.fmul(high, b.const(F64, unit[1])), b.fmul(low, b.const(F64, unit[0]))))
    high, low = two_sum(b, product, error)
    if not period.halves:  # an odd function; the cosine may take |x| for x
        sign = b.select(b.icmp("slt", bits, b.index(0)), b.const(F64, -1.0), b.const(F64, 1.0))
        high, low = b.fmul(high, sign), b.fmul(low, sign)
    undefined = b.icmp("eq", field, b.index(0x7FF))
    return [b.select(undefined, b.const(F64, math.nan), high), low, n]


def _fixed_to_float(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return a signed number of 128 bits, 127 of them after the point, as two floats."""
    negative = b.icmp("slt", x, b.const(I128, 0))
    size = b.select(negative, b.sub(b.const(I128, 0), x), x)
    zeros = _leading_zeros(b, size)
    digits = b.cast("trunc", b.lshr(b.shl(size, b.cast("zext", zeros, I128)), b.const(I128, 64)), I64)
    high = b.cast("uitofp", b.lshr(digits, b.index(11)), F64)
    low = b.cast("uitofp", b.and_(digits, b.index((1 << 11) - 1)), F64)
    # The highest digit counts 2**(-zeros).
    unit = power_of_two(b, b.sub(b.index(-52), zeros), F64)
    unit = b.select(negative, b.fneg(unit), unit)
    return b.fmul(high, unit), b.fmul(b.fmul(low, b.const(F64, 2.0**-11)), unit)


def _leading_zeros(b: Builder, x: Value) -> Value:
    """Return the number of leading zeros of 128 bits, at most 127."""
    high = b.cast("trunc", b.lshr(x, b.const(I128, 64)), I64)
    low = b.or_(b.cast("trunc", x, I64), b.index(1))
    none = b.icmp("eq", high, b.index(0))
    word = b.select(none, low, high)
    b.declare("llvm.ctlz.i64", I64, [I64, "i1 immarg"])
    count = b.value(I64, f"call i64 @llvm.ctlz.i64(i64 {word.text}, i1 false)")
    return b.add(count, b.select(none, b.index(64), b.index(0)))


# -- sine, cosine, tangent


def _signed_by(b: Builder, x: Value, n: Value) -> Value:
    """Return x, negated where n is odd."""
    flip = b.shl(n, b.const(n.type, x.type.bits - 1))
    return float_of(b, b.xor(bits_of(b, x), flip))


def sine_near(b: Builder, x: Value) -> Value:
    """Return the sine of x in [-pi/2, pi/2]."""
    return odd(b, x, pick(x.type, SIN_32, SIN_64))


def _sine(b: Builder, angle: _Angle) -> Value:
    """Return the sine of an angle in [-pi/2, pi/2]."""
    r = angle.high
    if angle.low is None:
        return sine_near(b, r)
    coefficients = pick(r.type, SIN_32, SIN_64)
    z = b.fmul(r, r)
    # The sine's slope at r, times what r lacks.
    slope = b.fma(z, b.fma(z, b.const(r.type, 1 / 24), b.const(r.type, -0.5)), b.const(r.type, 1.0))
    rest = b.fma(b.fmul(r, z), polynomial(b, z, coefficients), b.fmul(angle.low, slope))
    return b.fadd(r, rest)


def sin(b: Builder, x: Value) -> Value:
    """Return the sine."""
    angle = _reduce(b, x, _SIN)
    out = _signed_by(b, _sine(b, angle), angle.n)
    return b.select(b.fcmp("oeq", x, b.const(x.type, 0.0)), x, out)


def cos(b: Builder, x: Value) -> Value:
    """Return the cosine."""
    angle = _reduce(b, x, _COS)
    return _signed_by(b, _sine(b, angle), b.not_(angle.n))


def tan(b: Builder, x: Value) -> Value:
    """Return the tangent of the rest in [-pi/4, pi/4], or -1 over it."""
    angle = _reduce(b, x, _TAN)
    r = angle.high
    z = b.fmul(r, r)
    rest = b.fmul(b.fmul(r, z), polynomial(b, z, pick(r.type, TAN_32, TAN_64)))
    if angle.low is not None:
        rest = b.fadd(rest, b.fma(angle.low, z, angle.low))
    near = b.fadd(r, rest)
    one = b.const(x.type, 1.0)
    is_odd = b.icmp("ne", b.and_(angle.n, b.const(angle.n.type, 1)), b.const(angle.n.type, 0))
    out = b.fdiv(b.select(is_odd, b.fneg(one), near), b.select(is_odd, near, one))
    return b.select(b.fcmp("oeq", x, b.const(x.type, 0.0)), x, out)


# -- inverses

_HALF_PI = {bits: parts(PI / 2, digits, digits) for bits, digits in ((32, 24), (64, 53))}


def _asin_parts(b: Builder, size: Value) -> tuple[Value, Value, Value]:
    """Return whether |x| <= 1/2; s = |x| there, else sqrt((1 - |x|) / 2); asin(s) - s."""
    half = b.const(size.type, 0.5)
    small = b.fcmp("ole", size, half)
    z = b.select(small, b.fmul(size, size), b.fma(size, b.fneg(half), half))
    s = b.select(small, size, sqrt(b, z))
    return small, s, b.fmul(b.fmul(s, z), polynomial(b, z, pick(size.type, ASIN_32, ASIN_64)))


def asin(b: Builder, x: Value) -> Value:
    """Return the arcsine, above 1/2 as pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    high, low = (b.const(x.type, part) for part in _HALF_PI[x.type.bits])
    small, s, rest = _asin_parts(b, fabs(b, x))
    far = b.fsub(high, b.fsub(b.fadd(s, s), b.fsub(low, b.fadd(rest, rest))))
    return copysign(b, b.select(small, b.fadd(s, rest), far), x)


def acos(b: Builder, x: Value) -> Value:
    """Return the arccosine."""
    high, low = (b.const(x.type, part) for part in _HALF_PI[x.type.bits])
    small, s, rest = _asin_parts(b, fabs(b, x))
    s, rest = copysign(b, s, x), copysign(b, rest, x)
    near = b.fsub(high, b.fsub(s, b.fsub(low, rest)))
    twice = b.fadd(b.fadd(s, s), b.fadd(rest, rest))
    two = b.const(x.type, 2.0)
    mirrored = b.fadd(b.fmul(two, high), b.fadd(twice, b.fmul(two, low)))
    far = b.select(b.fcmp("olt", x, b.const(x.type, 0.0)), mirrored, twice)
    return b.select(small, near, far)


def _angle_of(b: Builder, y: Value, x: Value) -> Value:
    """Return the angle in [0, pi/2] of a point with x, y >= 0: pi/2 or pi/4 and the angle from there, or from 0."""
    type = x.type
    steep = b.fcmp("ogt", y, b.fmul(x, b.const(type, math.sqrt(2.0) + 1.0)))
    middle = b.fcmp("ogt", y, b.fmul(x, b.const(type, math.sqrt(2.0) - 1.0)))
    above = b.select(steep, b.fneg(x), b.select(middle, b.fsub(y, x), y))
    below = b.select(steep, y, b.select(middle, b.fadd(y, x), x))
    near = odd(b, b.fdiv(above, below), pick(type, ATAN_32, ATAN_64))
    base = []
    for part in _HALF_PI[type.bits]:
        none, quarter, half = (b.const(type, part * share) for share in (0.0, 0.5, 1.0))
        base.append(b.select(steep, half, b.select(middle, quarter, none)))
    return b.fadd(base[0], b.fadd(near, base[1]))


def atan(b: Builder, x: Value) -> Value:
    """Return the arctangent."""
    return copysign(b, _angle_of(b, fabs(b, x), b.const(x.type, 1.0)), x)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """Return the angle in [-pi, pi] of the point (x, y)."""
    type = x.type
    one, infinity = b.const(type, 1.0), b.const(type, math.inf)
    width, height = fabs(b, x), fabs(b, y)
    # Both infinite count as both 1, and (0, 0) as (1, 0).
    same = b.and_(b.fcmp("oeq", width, infinity), b.fcmp("oeq", height, infinity))
    larger = b.select(b.fcmp("ogt", width, height), width, height)
    origin = b.fcmp("oeq", b.fadd(width, height), b.const(type, 0.0))
    # The sum of both must not overflow.
    big = b.fcmp("ogt", larger, b.const(type, 2.0 ** (format_of(type).bias - 10)))
    shrink = b.select(big, b.const(type, 0.25), one)
    width = b.select(b.or_(same, origin), one, b.fmul(width, shrink))
    height = b.select(same, one, b.fmul(height, shrink))
    angle = _angle_of(b, height, width)
    high, low = (b.const(type, 2.0 * part) for part in _HALF_PI[type.bits])
    left = b.icmp("slt", bits_of(b, x), b.const(int_type(type), 0))
    angle = b.select(left, b.fsub(high, b.fsub(angle, low)), angle)
    unordered = b.fcmp("uno", x, y)
    return copysign(b, b.select(unordered, b.fadd(x, y), angle), y)
