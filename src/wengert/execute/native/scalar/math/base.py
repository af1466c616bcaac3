"""The common parts of the native mathematical functions: polynomials, bits of floats, powers of two.

Every function of `math_*.py` is written over a :class:`Builder` for float32 and float64, scalars
and vectors of any number of lanes, without a call: LLVM's own intrinsics for them become calls of
the C library, one lane at a time. Coefficients are minimax fits (`scripts/minimax.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from ...codegen.builder import Builder, Value
from ...codegen.types import F32, F64, Target, Type


class Format:
    """A floating type's layout, and the constants that depend on it."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.fraction = 23 if bits == 32 else 52
        self.bias = 127 if bits == 32 else 1023
        self.one = self.bias << self.fraction
        # Added to a small number, it leaves that number rounded in the lowest bits of the fraction.
        self.magic = 1.5 * 2.0**self.fraction
        self.magic_bits = (self.bias + self.fraction << self.fraction) + (1 << self.fraction - 1)
        self.infinity = (2 * self.bias + 1) << self.fraction
        self.sign = 1 << (bits - 1)
        self.smallest_normal = 2.0 ** (1 - self.bias)


_FORMATS = {32: Format(32), 64: Format(64)}


# To more digits than any part needs: log(2), and pi.
LN2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009493393622")
PI = Fraction("3.141592653589793238462643383279502884197169399375105820974944592307816406286208998628")


def format_of(type: Type) -> Format:
    """Return the format of a floating type."""
    return _FORMATS[type.bits]


def pick(type: Type, narrow: Sequence[float], wide: Sequence[float]) -> Sequence[float]:
    """Return the table for float32 or for float64."""
    return narrow if type.bits == 32 else wide


def parts(number: Fraction, *bits: int) -> tuple[float, ...]:
    """Split a constant into a sum of floats of so many bits each: a part times a short number is exact."""
    out = []
    for count in bits:
        unit = Fraction(2) ** (math.frexp(float(number))[1] - count)
        out.append(float(round(number / unit) * unit))
        number -= Fraction(out[-1])
    return tuple(out)


def int_type(type: Type) -> Type:
    """Return the integers of a float's width, lane by lane."""
    return Type("i", type.bits, type.lanes)


def bits_of(b: Builder, x: Value) -> Value:
    """Return the bits of a float as an integer."""
    return b.cast("bitcast", x, int_type(x.type))


def float_of(b: Builder, bits: Value) -> Value:
    """Return the float of these bits."""
    return b.cast("bitcast", bits, Type("f", bits.type.bits, bits.type.lanes))


def polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate by Horner's rule, the constant coefficient first. Loops overlap iterations, which hides its chain."""
    out = b.const(x.type, coefficients[-1])
    for c in coefficients[-2::-1]:
        out = b.fma(out, x, b.const(x.type, c))
    return out


def odd(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """Return x + x z p(z), z = x * x: an odd function with derivative 1 at 0."""
    z = b.fmul(x, x)
    return b.fma(b.fmul(x, z), polynomial(b, z, coefficients), x)


def fabs(b: Builder, x: Value) -> Value:
    """Return |x|."""
    return b.intrinsic("fabs", x)


def sqrt(b: Builder, x: Value) -> Value:
    """Return the square root of x."""
    return b.intrinsic("sqrt", x)


def copysign(b: Builder, x: Value, sign: Value) -> Value:
    """Return x with the other's sign, by the bits: LLVM's own aborts where that was a float16."""
    mask = format_of(x.type).sign
    ints = int_type(x.type)
    magnitude = b.and_(bits_of(b, x), b.const(ints, mask - 1))
    return float_of(b, b.or_(magnitude, b.and_(bits_of(b, sign), b.const(ints, mask))))


def clamp_below(b: Builder, x: Value, low: float) -> Value:
    """Return x, at least `low`; NaN stays."""
    bound = b.const(x.type, low)
    return b.select(b.fcmp("olt", x, bound), bound, x)


def clamp_above(b: Builder, x: Value, high: float) -> Value:
    """Return x, at most `high`; NaN stays."""
    bound = b.const(x.type, high)
    return b.select(b.fcmp("ogt", x, bound), bound, x)


def is_nan(b: Builder, x: Value) -> Value:
    """Return whether x is NaN."""
    return b.fcmp("uno", x, x)


def any_lane(b: Builder, mask: Value) -> Value:
    """Return whether a mask holds anywhere, as one bit."""
    if not mask.type.lanes:
        return mask
    word = b.value(Type("i", mask.type.lanes), f"bitcast {mask.type.text} {mask.text} to i{mask.type.lanes}")
    return b.icmp("ne", word, b.const(word.type, 0))


# -- rounding to whole numbers


def _rounds(target: Target) -> bool:
    """Return whether the processor rounds floats to whole numbers in one instruction (x86 since SSE4.1)."""
    return not target.triple.startswith(("x86", "i686")) or target.width > 16 or "+sse4.1" in target.features


def rint(b: Builder, x: Value) -> Value:
    """Return the nearest whole number, halves to even."""
    if _rounds(b.target):
        return b.intrinsic("rint", x)
    size = fabs(b, x)
    large = b.const(x.type, 2.0 ** format_of(x.type).fraction)
    near = copysign(b, b.fsub(b.fadd(size, large), large), x)
    return b.select(b.fcmp("olt", size, large), near, x)


def floor(b: Builder, x: Value) -> Value:
    """Return the greatest whole number not above x."""
    if _rounds(b.target):
        return b.intrinsic("floor", x)
    near = rint(b, x)
    lower = b.select(b.fcmp("ogt", near, x), b.const(x.type, 1.0), b.const(x.type, 0.0))
    return copysign(b, b.fsub(near, lower), x)


def ceil(b: Builder, x: Value) -> Value:
    """Return the least whole number not below x."""
    if _rounds(b.target):
        return b.intrinsic("ceil", x)
    return b.fneg(floor(b, b.fneg(x)))


def trunc(b: Builder, x: Value) -> Value:
    """Return x rounded to a whole number toward 0."""
    if _rounds(b.target):
        return b.intrinsic("trunc", x)
    return copysign(b, floor(b, fabs(b, x)), x)


# -- powers of two


def power_of_two(b: Builder, exponent: Value, type: Type) -> Value:
    """Return 2**exponent for integers whose power is a normal number."""
    form = format_of(type)
    biased = b.add(exponent, b.const(exponent.type, form.bias))
    return float_of(b, b.shl(biased, b.const(exponent.type, form.fraction)))


def power_of_two_float(b: Builder, exponent: Value) -> Value:
    """Return 2**exponent for a whole number as a float, whose power is a normal number."""
    form = format_of(exponent.type)
    shifted = b.fadd(exponent, b.const(exponent.type, form.magic + form.bias))
    return float_of(b, b.shl(bits_of(b, shifted), b.const(int_type(exponent.type), form.fraction)))


def scale(b: Builder, x: Value, exponent: Value) -> Value:
    """Return x * 2**exponent, rounded once: overflow gives infinity, underflow denormals.

    `exponent` is a whole number as a float, at most twice the type's range of exponents.
    """
    type = x.type
    if b.target.width == 64:
        return _scalef(b, x, exponent)
    form = format_of(type)
    ints = int_type(type)
    # The exponent in two halves, each of which is the exponent of a normal number. A bias keeps the
    # integers positive, as there is no arithmetic shift of 64-bit lanes before AVX-512.
    offset = 4 * form.bias + 4
    biased = b.sub(
        bits_of(b, b.fadd(exponent, b.const(type, form.magic + offset))),
        b.const(ints, form.magic_bits),
    )
    first = b.lshr(biased, b.const(ints, 1))
    second = b.sub(biased, first)
    to_exponent = b.const(ints, form.bias - offset // 2)
    shift = b.const(ints, form.fraction)
    for half in (first, second):
        x = b.fmul(x, float_of(b, b.shl(b.add(half, to_exponent), shift)))
    return x


_SCALEF = {
    (32, 16): "ps.512",
    (32, 8): "ps.256",
    (32, 4): "ps.128",
    (64, 8): "pd.512",
    (64, 4): "pd.256",
    (64, 2): "pd.128",
}


def _scalef(b: Builder, x: Value, exponent: Value) -> Value:
    """Scale by AVX-512's own instruction, on whole registers: LLVM before 22 has none for others, but calls libm."""
    type = x.type
    suffix = _SCALEF.get((type.bits, type.lanes))
    if suffix is None:
        widths = [lanes for bits, lanes in _SCALEF if bits == type.bits]
        if type.lanes == 0:
            one = b.undefined(type.vector(min(widths)))
            return b.extract(_scalef(b, b.insert(one, x, 0), b.insert(one, exponent, 0)), 0)
        if type.lanes > max(widths):
            middle = type.lanes // 2
            parts = [
                _scalef(b, b.shuffle(x, x, part), b.shuffle(exponent, exponent, part))
                for part in (range(middle), range(middle, type.lanes))
            ]
            return b.shuffle(parts[0], parts[1], range(type.lanes))
        lanes = [i % type.lanes for i in range(min(w for w in widths if w > type.lanes))]
        found = _scalef(b, b.shuffle(x, x, lanes), b.shuffle(exponent, exponent, lanes))
        return b.shuffle(found, found, range(type.lanes))
    name = f"llvm.x86.avx512.mask.scalef.{suffix}"
    mask = "i16" if type.lanes == 16 else "i8"
    full = suffix.endswith("512")
    b.declare(name, type, [type, type, type, mask, *(["i32"] if full else [])])
    rounding = ", i32 4" if full else ""
    t = type.text
    return b.value(type, f"call {t} @{name}({t} {x.text}, {t} {exponent.text}, {t} {x.text}, {mask} -1{rounding})")


def mantissa_exponent(b: Builder, x: Value, low: float) -> tuple[Value, Value]:
    """Return (m, e) with x = m * 2**e and m in [low, 2 low), e a float; for positive finite x, denormal ones too."""
    type = x.type
    form = format_of(type)
    ints = int_type(type)
    tiny = b.fcmp("olt", x, b.const(type, form.smallest_normal))
    x = b.select(tiny, b.fmul(x, b.const(type, 2.0**form.fraction)), x)
    fraction, exponent = math.frexp(low)
    edge = (exponent - 1 + form.bias << form.fraction) + int((2.0 * fraction - 1.0) * 2.0**form.fraction)
    bits = bits_of(b, x)
    above = b.sub(bits, b.const(ints, edge))
    top = b.and_(above, b.const(ints, -1 << form.fraction))
    m = float_of(b, b.sub(bits, top))
    e = small_int_to_float(b, above, type)
    return m, b.fsub(e, b.select(tiny, b.const(type, float(form.fraction)), b.const(type, 0.0)))


def small_int_to_float(b: Builder, above: Value, type: Type) -> Value:
    """Return the exponent field of `above`, a signed number, as a float."""
    form = format_of(type)
    shift = b.const(above.type, form.fraction)
    if type.bits == 32:
        return b.cast("sitofp", b.ashr(above, shift), F32)
    # Signed 64-bit integers have neither a shift nor a conversion before AVX-512: by the bits of a float.
    raised = b.add(above, b.const(above.type, 2048 << form.fraction))
    field = b.lshr(raised, shift)
    number = float_of(b, b.or_(field, b.const(above.type, 0x4330000000000000)))
    return b.fsub(number, b.const(type, 2.0**52 + 2048.0))


# -- two floats for one number


def two_sum(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return x + y and its rounding error, for |x| >= |y| (Dekker 1971)."""
    total = b.fadd(x, y)
    return total, b.fsub(y, b.fsub(total, x))


def two_product(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return x * y and its rounding error."""
    product = b.fmul(x, y)
    if b.target.fma:
        return product, b.intrinsic("fma", x, y, b.fneg(product))
    x_high, x_low = _halves(b, x)
    y_high, y_low = _halves(b, y)
    error = b.fsub(b.fmul(x_high, y_high), product)
    error = b.fadd(error, b.fmul(x_high, y_low))
    error = b.fadd(error, b.fmul(x_low, y_high))
    return product, b.fadd(error, b.fmul(x_low, y_low))


def _halves(b: Builder, x: Value) -> tuple[Value, Value]:
    """Split a float into two of half its digits, by clearing bits: no overflow, unlike Veltkamp's splitting."""
    keep = -1 << (12 if x.type.bits == 32 else 27)
    high = float_of(b, b.and_(bits_of(b, x), b.const(int_type(x.type), keep)))
    return high, b.fsub(x, high)


def widened(b: Builder, x: Value) -> Value:
    """Return a float32 as float64."""
    return b.cast("fpext", x, F64)


def narrowed(b: Builder, x: Value) -> Value:
    """Return a float64 as float32."""
    return b.cast("fptrunc", x, F32)


def in_float64(function: Callable[[Builder, Value], Value]) -> Callable[[Builder, Value], Value]:
    """Return a function of float64 as one of float32 too."""

    def either(b: Builder, x: Value) -> Value:
        return function(b, x) if x.type.bits == 64 else narrowed(b, function(b, widened(b, x)))

    either.__doc__ = function.__doc__
    return either
