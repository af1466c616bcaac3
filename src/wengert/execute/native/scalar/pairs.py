"""Pairs of bfloat16 numbers in the lanes of int32 vectors, and the sum of their products in float32.

AVX512-BF16 has an instruction for it, which adds the product of the second numbers to the sum, then that of the first
ones, each by a fused multiply-add that rounds to nearest even. It takes denormal numbers for 0 and gives 0 for them.
So it is used only where no number and no sum on the way can be denormal, which the smallest numbers say: then it has
the bits of two multiply-adds of widened numbers, by which the sum is taken elsewhere.

A number of bfloat16 is a whole multiple of 2^(e - 7), with e its exponent. All sums of products are multiples then of
2^(e + f - 14), with e and f the least exponents of the two operands' numbers but 0; rounding to float32 changes nothing
about that. If this grain is no less than 2^-126, the smallest normal number, nothing but 0 is less.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.builder import Builder, Value
from ..codegen.types import F32, I16, I32, I64, Target

# In float32's biased exponents: the least sum of two for which products have that grain; the least of a normal number.
LEAST_SUM, LEAST_EXPONENT = 2 * 127 + 14 - 126, 1
# What stands for the smallest of no numbers but 0.
NOTHING = 0xFFFF


def has_dot(target: Target) -> bool:
    """Return whether sums of products of pairs are an instruction."""
    return target.width == 64 and "+avx512bf16" in target.features.split(",")


def dot(b: Builder, x: Value, y: Value, total: Value) -> Value:
    """Return a sum plus the products of two vectors of pairs, by the instruction."""
    name = "llvm.x86.avx512bf16.dpbf16ps.512"
    pairs = f"<{2 * total.type.lanes} x bfloat>"
    b.declare(name, total.type, [total.type, pairs, pairs])
    held = [b.value(x.type, f"bitcast {x.type.text} {v.text} to {pairs}") for v in (x, y)]
    operands = ", ".join(f"{pairs} {v.text}" for v in held)
    return b.value(total.type, f"call {total.type.text} @{name}({total.type.text} {total.text}, {operands})")


def widened(b: Builder, pairs: Value) -> tuple[Value, Value]:
    """Return the first and the second numbers of pairs, in float32."""
    first = b.shl(pairs, b.const(pairs.type, 16))
    second = b.and_(pairs, b.const(pairs.type, -1 << 16))
    type = F32.vector(pairs.type.lanes)
    return b.cast("bitcast", first, type), b.cast("bitcast", second, type)


def dot_widened(b: Builder, x: tuple[Value, Value], y: tuple[Value, Value], total: Value) -> Value:
    """Return a sum plus the products of two vectors of widened pairs, in the instruction's order."""
    return b.fma(x[0], y[0], b.fma(x[1], y[1], total))


def joined(b: Builder, first: Value, second: Value) -> Value:
    """Return pairs of the bits of numbers, given as vectors of int16."""
    high = b.cast("zext", second, I32)
    return b.or_(b.cast("zext", first, I32), b.shl(high, b.const(high.type, 16)))


# -- the smallest numbers, by the bits of their magnitudes less 1, so that 0 is the largest


def smallest(b: Builder, pairs: Sequence[Value], before: Value) -> Value:
    """Return the smallest of the numbers of vectors of pairs and of those `before`, lane by lane of int16."""
    for x in pairs:
        halves = b.cast("bitcast", x, I16.vector(2 * max(1, x.type.lanes)))
        size = b.and_(halves, b.const(halves.type, 0x7FFF))
        before = b.intrinsic("umin", before, b.sub(size, b.const(size.type, 1)))
    return before


def nothing(b: Builder, lanes: int) -> Value:
    """Return the smallest of no numbers, for vectors of so many pairs."""
    return b.const(I16.vector(2 * lanes), NOTHING)


def smallest_of_lanes(b: Builder, smallest: Value) -> Value:
    """Return the smallest of a vector's, as an i64."""
    return b.cast("zext", b.reduce_lanes(smallest, lambda x, y: b.intrinsic("umin", x, y)), I64)


def may_be_denormal(b: Builder, x: Value, y: Value) -> Value:
    """Return whether the instruction could change a sum of products, from the smallest numbers of both operands."""
    exponents = [b.lshr(b.add(s, b.index(1)), b.index(7)) for s in (x, y)]
    low = b.icmp("ult", b.intrinsic("umin", *exponents), b.index(LEAST_EXPONENT))
    return b.or_(low, b.icmp("ult", b.add(*exponents), b.index(LEAST_SUM)))
