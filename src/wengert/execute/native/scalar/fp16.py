"""Conversion of 16-bit floats to float32 and back, rounded to nearest even, without inexact instructions.

x86's conversion to bfloat16 flushes subnormal numbers, and its float16 conversions are an extension; without them
LLVM calls functions that may not be there. In integer arithmetic both are a few instructions. The float16
conversions are Fabian Giesen's (float_to_half_fast3_rtne and half_to_float_fast4, public domain).
"""

from __future__ import annotations

from ..codegen.builder import Builder, Value
from ..codegen.types import BF16, F16, F32, I16, I32, Target, Type


def has_float16(target: Target) -> bool:
    """Return whether float16 is converted by instructions."""
    return target.triple.startswith(("aarch64", "arm64")) or "+f16c" in target.features.split(",")


def convert(b: Builder, x: Value, to: Type) -> Value:
    """Convert a number to another width of its kind, lane by lane: between memory and compute types."""
    have = x.type.scalar
    if have == to.scalar:
        return x
    if have.kind == "i":
        return b.cast("trunc" if to.bits < have.bits else "sext", x, to)
    if 16 in (have.bits, to.bits) and F32 not in (have, to.scalar):
        return convert(b, convert(b, x, F32), to)
    if have == BF16:
        return _from_bfloat16(b, x)
    if to.scalar == BF16:
        return _to_bfloat16(b, x)
    if 16 in (have.bits, to.bits) and not has_float16(b.target):
        return _from_float16(b, x) if have == F16 else _to_float16(b, x)
    return b.cast("fptrunc" if to.bits < have.bits else "fpext", x, to)


def _bits(b: Builder, x: Value) -> Value:
    """Return the bits of a number, as an i32."""
    kind = I16 if x.type.bits == 16 else I32
    raw = b.cast("bitcast", x, kind.vector(x.type.lanes))
    return b.cast("zext", raw, I32) if x.type.bits == 16 else raw


def _number(b: Builder, bits: Value, to: Type) -> Value:
    """Return the number of these bits, the lower ones where it has fewer."""
    if to.bits == 16:
        bits = b.cast("trunc", bits, I16)
    return b.cast("bitcast", bits, to.vector(bits.type.lanes))


def _from_bfloat16(b: Builder, x: Value) -> Value:
    bits = _bits(b, x)
    return _of_bfloat16(b, _number(b, b.shl(bits, b.const(bits.type, 16)), F32))


def _of_bfloat16(b: Builder, x: Value) -> Value:
    b.of_bfloat16.add(x.text)
    return x


def _to_bfloat16(b: Builder, x: Value) -> Value:
    bits = _bits(b, x) if x.text in b.of_bfloat16 else _rounded_bits(b, x)
    return _number(b, b.lshr(bits, b.const(bits.type, 16)), BF16)


def rounded_to_bfloat16(b: Builder, x: Value) -> Value:
    """Return the number of bfloat16 next to a float32, as a float32."""
    bits = _rounded_bits(b, x)
    return _of_bfloat16(b, _number(b, b.and_(bits, b.const(bits.type, -1 << 16)), F32))


def _rounded_bits(b: Builder, x: Value) -> Value:
    """Return bits whose upper half is that of a number rounded to bfloat16."""
    bits = _bits(b, x)
    c = lambda n: b.const(bits.type, n)
    odd = b.and_(b.lshr(bits, c(16)), c(1))
    rounded = b.add(b.add(bits, c(0x7FFF)), odd)
    quiet = b.or_(bits, c(0x400000))
    return b.select(b.fcmp("uno", x, x), quiet, rounded)


def _from_float16(b: Builder, x: Value) -> Value:
    bits = _bits(b, x)
    c = lambda n: b.const(bits.type, n)
    # Exponent and fraction moved into place are the number times 2^-112, subnormal or not.
    magnitude = b.shl(b.and_(bits, c(0x7FFF)), c(13))
    scaled = b.fmul(_number(b, magnitude, F32), b.const(F32.vector(bits.type.lanes), 2.0**112))
    special = b.icmp("uge", magnitude, c(0x0F800000))
    out = b.select(special, b.or_(magnitude, c(0x7F800000)), b.cast("bitcast", scaled, bits.type))
    sign = b.shl(b.and_(bits, c(0x8000)), c(16))
    return _number(b, b.or_(out, sign), F32)


def _to_float16(b: Builder, x: Value) -> Value:
    bits = _bits(b, x)
    c = lambda n: b.const(bits.type, n)
    magnitude = b.and_(bits, c(0x7FFFFFFF))
    # A subnormal result: adding 0.5 leaves the rounded fraction in the lowest bits.
    half = b.const(F32.vector(bits.type.lanes), 0.5)
    added = b.fadd(_number(b, magnitude, F32), half)
    small = b.sub(b.cast("bitcast", added, bits.type), c(0x3F000000))
    odd = b.and_(b.lshr(magnitude, c(13)), c(1))
    normal = b.lshr(b.add(b.add(magnitude, c(((15 - 127) << 23) + 0xFFF)), odd), c(13))
    out = b.select(b.icmp("ult", magnitude, c(0x38800000)), small, normal)
    quiet = b.or_(b.lshr(b.and_(magnitude, c(0x7FFFFF)), c(13)), c(0x7E00))
    huge = b.select(b.icmp("ugt", magnitude, c(0x7F800000)), quiet, c(0x7C00))
    out = b.select(b.icmp("uge", magnitude, c(0x47800000)), huge, out)
    sign = b.lshr(b.and_(bits, c(0x80000000)), c(16))
    return _number(b, b.or_(out, sign), F16)
