"""Sort keys: numbers as signed integers of the same order, so that a comparison is one instruction and total."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...codegen.builder import Builder, Value
from ...codegen.types import I32, I64, Type
from .lines import compute_type, line_types, load


def key_type(dtype: np.dtype[Any]) -> Type:
    """Return the type of the keys of a dtype's numbers: 32 bits, or 64."""
    return I64 if compute_type(dtype).bits == 64 else I32


def load_keys(b: Builder, dtype: np.dtype[Any], pointer: Value, lanes: int, nan_last: bool = True) -> Value:
    """Return the keys of numbers in memory: signed integers in the numbers' order.

    Zeros of both signs have one key; so has every NaN, the greatest (or the least, which no number has).
    """
    x = load(b, dtype, pointer, lanes)
    memory, type = line_types(dtype)
    if not type.is_float:
        # Narrow unsigned numbers are not negative as wide ones; wide ones need their highest bit turned.
        turn = dtype.kind == "u" and memory.bits == type.bits
        return b.xor(x, b.const(x.type, 1 << (type.bits - 1))) if turn else x
    nan = b.fcmp("uno", x, x)
    bits = b.cast("bitcast", b.fadd(x, b.const(x.type, 0.0)), key_type(dtype).vector(lanes))
    top = type.bits - 1
    negative = b.lshr(b.ashr(bits, b.const(bits.type, top)), b.const(bits.type, 1))
    extreme = (1 << top) - 1 if nan_last else 1 << top
    return b.select(nan, b.const(bits.type, extreme), b.xor(bits, negative))
