"""Legalisation of dtypes: the types of elements in memory and in registers, and the conversions between them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ....core.dtypes import record_of
from ..codegen.builder import Builder, Value
from ..codegen.types import BF16, F32, F64, I1, I8, Type, storage_type
from .fp16 import convert, rounded_to_bfloat16
from .math.base import bits_of, fabs, float_of, widened

DType = np.dtype[Any]


@cache
def kind_of(dtype: DType) -> str:
    """Return "f" for floats (bfloat16 too), "i" and "u" for integers, "b" for booleans, "c" for complex numbers."""
    return "f" if record_of(dtype).category == 2 else dtype.kind


@cache
def compute_type(dtype: DType) -> Type:
    """Return the type of arithmetic on a dtype: float32 for the 16-bit floats, one bit for booleans."""
    kind = kind_of(dtype)
    if kind == "b":
        return I1
    if kind == "f":
        return F64 if dtype.itemsize == 8 else F32
    if kind in "iu":
        return Type("i", dtype.itemsize * 8)
    raise TypeError(f"no native arithmetic on {dtype}")


def memory_type(dtype: DType) -> Type:
    """Return the type of an element in memory."""
    found = storage_type(dtype)
    if found is None:
        raise TypeError(f"no native arithmetic on {dtype}")
    return found


def to_compute(b: Builder, x: Value, dtype: DType) -> Value:
    """Convert a value as it lies in memory to its compute type."""
    return truth(b, x) if dtype.kind == "b" else convert(b, x, compute_type(dtype))


def to_storage(b: Builder, x: Value, dtype: DType) -> Value:
    """Convert a value of compute type to its memory type; to 16-bit floats by rounding to nearest, ties to even."""
    return b.cast("zext", x, I8) if dtype.kind == "b" else convert(b, x, memory_type(dtype))


def rounded(b: Builder, x: Value, dtype: DType) -> Value:
    """Round a value of compute type as storing and loading it would."""
    if memory_type(dtype).bits != 16 or not x.type.is_float:
        return x
    if memory_type(dtype) == BF16:
        return rounded_to_bfloat16(b, x)
    return to_compute(b, to_storage(b, x, dtype), dtype)


def noted(b: Builder, x: Value, dtype: DType) -> Value:
    """Return a value of compute type which is a number of the dtype, so that storing it rounds nothing."""
    if memory_type(dtype) == BF16:
        b.of_bfloat16.add(x.text)
    return x


# -- casts


def cast(b: Builder, x: Value, source: DType, to: DType) -> Value:
    """Convert a value from `source`'s compute type to `to`'s, so that it holds a number that `to` holds."""
    old, new = kind_of(source), kind_of(to)
    type = compute_type(to)
    if source == to:
        return x
    if new == "b":
        return truth(b, x)
    if new == "f":
        if old == "f":
            return _float_to_float(b, x, to)
        return rounded(b, b.cast("sitofp" if old == "i" else "uitofp", x, type), to)
    if old == "f":
        return _float_to_int(b, x, type.bits, new == "i")
    if x.type.bits < type.bits:
        return b.cast("sext" if old == "i" else "zext", x, type)
    return b.cast("trunc", x, type)


def truth(b: Builder, x: Value) -> Value:
    """Return whether a number is not 0."""
    if x.type.bits == 1:
        return x
    zero = b.const(x.type, 0)
    return b.fcmp("une", x, zero) if x.type.is_float else b.icmp("ne", x, zero)


def _float_to_float(b: Builder, x: Value, to: DType) -> Value:
    type = compute_type(to)
    if x.type.bits < type.bits:
        return widened(b, x)
    if x.type.bits == type.bits:
        return rounded(b, x, to)
    if to == np.float16:
        # Rounded to odd first, so that the second rounding is as if it were the only one.
        return rounded(b, _to_odd(b, x), to)
    return rounded(b, b.cast("fptrunc", x, F32), to)


def _to_odd(b: Builder, x: Value) -> Value:
    """Convert float64 to float32, inexact numbers to the neighbour whose last bit is 1 (Boldo and Melquiond 2008)."""
    near = b.cast("fptrunc", x, F32)
    back = widened(b, near)
    bits = bits_of(b, near)
    one = b.const(bits.type, 1)
    away = b.fcmp("ogt", fabs(b, back), fabs(b, x))
    odd = b.or_(b.select(away, b.sub(bits, one), bits), one)
    return float_of(b, b.select(b.fcmp("one", back, x), odd, bits))


def _float_to_int(b: Builder, x: Value, bits: int, signed: bool) -> Value:
    """Convert toward 0; numbers outside of the integers' range become its nearest end, NaN becomes 0."""
    lowest, beyond = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
    low, high = b.fcmp("ole", x, b.const(x.type, lowest)), b.fcmp("oge", x, b.const(x.type, beyond))
    inside = b.and_(b.fcmp("ogt", x, b.const(x.type, lowest)), b.fcmp("olt", x, b.const(x.type, beyond)))
    whole = _whole(b, b.select(inside, x, b.const(x.type, 0.0)), bits, signed)
    whole = b.select(low, b.const(whole.type, int(lowest)), whole)
    return b.select(high, b.const(whole.type, int(beyond) - 1 if signed else -1), whole)


def _whole(b: Builder, x: Value, bits: int, signed: bool) -> Value:
    """Convert a number inside the range toward 0, by way of int32 or int64, which processors convert to."""
    if bits == 64 and not signed:
        middle = b.const(x.type, 2.0**63)
        high = b.fcmp("oge", x, middle)
        low_part = _whole(b, b.select(high, b.fsub(x, middle), x), 64, True)
        return b.xor(low_part, b.select(high, b.const(low_part.type, -(2**63)), b.const(low_part.type, 0)))
    work = Type("i", 32 if bits <= 16 or (bits == 32 and signed) else 64, x.type.lanes)
    return b.cast("trunc", b.cast("fptosi", x, work), Type("i", bits))
