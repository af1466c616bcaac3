"""Native floor division and remainder, exact for every quotient, as NumPy (and Python) define them."""

from __future__ import annotations

from ...codegen.builder import Builder, Value
from ...codegen.types import F32, F64, Type
from .base import any_lane, bits_of, copysign, fabs, floor, format_of, power_of_two, trunc, two_product, widened


def fmod(b: Builder, x: Value, y: Value) -> Value:
    """Return x - y * trunc(x / y), exact, with the sign of x; NaN for infinite x and for y = 0."""
    size, step = fabs(b, x), fabs(b, y)
    limit = b.const(x.type, 2.0 ** format_of(x.type).fraction)
    q = b.fdiv(size, step)
    many = b.fcmp("uge", q, limit)
    q = trunc(b, q)
    product, error = two_product(b, q, step)
    rest = b.fsub(b.fsub(size, product), error)
    # The quotient may have been rounded up to a whole number.
    rest = b.select(b.fcmp("olt", rest, b.const(x.type, 0.0)), b.fadd(rest, step), rest)

    def far() -> list[Value]:
        return [b.select(many, _long_division_lanes(b, size, step), rest)]

    (rest,) = b.either(any_lane(b, many), far, lambda: [rest])
    rest = b.select(b.fcmp("olt", size, step), size, rest)
    undefined = b.or_(b.fcmp("uno", b.fsub(x, x), y), b.fcmp("oeq", y, b.const(x.type, 0.0)))
    return b.select(undefined, b.const(x.type, float("nan")), copysign(b, rest, x))


def _long_division_lanes(b: Builder, x: Value, y: Value) -> Value:
    if not x.type.lanes:
        return _long_division(b, x, y)
    with b.loop(0, x.type.lanes, carried=[b.undefined(x.type)]) as loop:
        rest = _long_division(b, b.extract(x, loop.index), b.extract(y, loop.index))
        loop.carry(b.insert(loop.values[0], rest, loop.index))
    return loop.results[0]


# Bits of the quotient in one iteration: a remainder has 53 bits, and a word 64.
_CHUNK = 11


def _long_division(b: Builder, x: Value, y: Value) -> Value:
    """Return the remainder of one pair of finite numbers x >= y > 0, in integers; undefined for others."""
    if x.type.bits == 32:
        return b.cast("fptrunc", _long_division(b, widened(b, x), widened(b, y)), F32)
    whole, exponent = _decompose(b, x)
    divisor, lowest = _decompose(b, y)
    divisor = b.select(b.icmp("eq", divisor, b.index(0)), b.index(1), divisor)
    left = b.imax(b.sub(exponent, lowest), b.index(0))
    rest = b.urem(whole, divisor)
    with b.loop(0, left, _CHUNK, carried=[rest]) as loop:
        count = b.imin(b.sub(left, loop.index), b.index(_CHUNK))
        loop.carry(b.urem(b.shl(loop.values[0], count), divisor))
    # rest * 2**(lowest - 1075), by two factors: the power itself may be denormal.
    power = b.sub(lowest, b.index(1075))
    first = b.ashr(power, b.index(1))
    number = b.fmul(b.cast("uitofp", loop.results[0], F64), power_of_two(b, first, F64))
    return b.fmul(number, power_of_two(b, b.sub(power, first), F64))


def _decompose(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return whole and exponent with x = whole * 2**(exponent - 1075)."""
    bits = bits_of(b, x)
    field = b.and_(b.lshr(bits, b.index(52)), b.index(0x7FF))
    is_normal = b.icmp("ne", field, b.index(0))
    whole = b.or_(b.and_(bits, b.index((1 << 52) - 1)), b.select(is_normal, b.index(1 << 52), b.index(0)))
    return whole, b.imax(field, b.index(1))


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """Return x - y * floor(x / y): it has the sign of y."""
    return _floored(b, x, y)[0]


def floor_divide(b: Builder, x: Value, y: Value) -> Value:
    """Return floor(x / y), and x / y itself where y is 0."""
    zero, one = b.const(x.type, 0.0), b.const(x.type, 1.0)
    _, quotient = _floored(b, x, y)
    near = floor(b, quotient)
    near = b.select(b.fcmp("ogt", b.fsub(quotient, near), b.const(x.type, 0.5)), b.fadd(near, one), near)
    ratio = b.fdiv(x, y)
    near = b.select(b.fcmp("une", quotient, zero), near, copysign(b, zero, ratio))
    return b.select(b.fcmp("oeq", y, zero), ratio, near)


def _floored(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return the remainder, and the quotient to be rounded (as NumPy's `npy_divmod`)."""
    zero = b.const(x.type, 0.0)
    rest = fmod(b, x, y)
    quotient = b.fdiv(b.fsub(x, rest), y)
    exact = b.fcmp("oeq", rest, zero)
    apart = b.xor(b.fcmp("olt", y, zero), b.fcmp("olt", rest, zero))
    moved = b.and_(apart, b.fcmp("une", rest, zero))
    quotient = b.select(moved, b.fsub(quotient, b.const(x.type, 1.0)), quotient)
    return b.select(exact, copysign(b, zero, y), b.select(moved, b.fadd(rest, y), rest)), quotient


# -- integers


def int_divide(b: Builder, x: Value, y: Value, signed: bool) -> tuple[Value, Value]:
    """Return the floor of x / y and the remainder: both 0 where y is 0, and the lowest number over -1 is itself."""
    zero, one = b.const(x.type, 0), b.const(x.type, 1)
    by_zero = b.icmp("eq", y, zero)
    unsafe = by_zero
    if signed:
        lowest = b.const(x.type, -(1 << (x.type.bits - 1)))
        minus_one = b.const(x.type, -1)
        unsafe = b.or_(by_zero, b.and_(b.icmp("eq", x, lowest), b.icmp("eq", y, minus_one)))
    quotient = _truncated(b, x, b.select(unsafe, one, y), signed)
    rest = b.select(unsafe, zero, b.sub(x, b.mul(quotient, y)))
    if signed:
        apart = b.icmp("slt", b.xor(rest, y), zero)
        moved = b.and_(apart, b.icmp("ne", rest, zero))
        quotient = b.select(moved, b.sub(quotient, one), quotient)
        rest = b.select(moved, b.add(rest, y), rest)
    return b.select(by_zero, zero, quotient), rest


def _truncated(b: Builder, x: Value, y: Value, signed: bool) -> Value:
    """Return x / y toward 0; vectors divide as floats wide enough to be exact, for no integer vectors divide."""
    if x.type.bits == 64:
        return b.sdiv(x, y) if signed else b.udiv(x, y)
    wide = F32 if x.type.bits <= 16 else F64
    to_float, to_int = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    ratio = b.fdiv(b.cast(to_float, x, wide), b.cast(to_float, y, wide))
    return b.cast(to_int, ratio, Type("i", x.type.bits))
