"""The combining functions of reductions: how two values become one, and the identity."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..codegen.builder import Builder, Value
from ..codegen.types import Type

DType = np.dtype[Any]
# Of two values what they are together, in the compute type of a dtype.
Combine = Callable[[Builder, Value, Value], Value]


def _add(b: Builder, x: Value, y: Value, dtype: DType) -> Value:
    return b.fadd(x, y) if x.type.is_float else b.add(x, y)


def _multiply(b: Builder, x: Value, y: Value, dtype: DType) -> Value:
    return b.fmul(x, y) if x.type.is_float else b.mul(x, y)


def _extreme(b: Builder, x: Value, y: Value, dtype: DType, larger: bool) -> Value:
    """Return the larger or smaller of two; a NaN wins over everything."""
    if x.type.bits == 1:
        return b.or_(x, y) if larger else b.and_(x, y)
    how = "gt" if larger else "lt"
    if not x.type.is_float:
        # The compute types of signed and unsigned integers are the same: the dtype says which order they have.
        return b.select(b.icmp(("u" if dtype.kind == "u" else "s") + how, x, y), x, y)
    wins = b.or_(b.fcmp("o" + how, x, y), b.fcmp("uno", x, x))
    return b.select(wins, x, y)


def _quick_extreme(b: Builder, x: Value, y: Value, dtype: DType, larger: bool) -> Value:
    """Return the larger or smaller of two floats, either where one is NaN: one instruction."""
    return b.select(b.fcmp("ogt" if larger else "olt", x, y), x, y)


def _either(b: Builder, x: Value, y: Value, dtype: DType) -> Value:
    return b.or_(x, y)


def _both(b: Builder, x: Value, y: Value, dtype: DType) -> Value:
    return b.and_(x, y)


_WAYS: dict[str, Callable[[Builder, Value, Value, DType], Value]] = {
    "sum": _add,
    "prod": _multiply,
    "max": partial(_extreme, larger=True),
    "min": partial(_extreme, larger=False),
    "greatest": partial(_quick_extreme, larger=True),
    "least": partial(_quick_extreme, larger=False),
    "any": _either,
    "all": _both,
}


def combining(how: str, dtype: DType) -> Combine:
    """Return the function by which a reduction of a dtype's values combines two of them."""
    way = _WAYS[how]
    return lambda b, x, y: way(b, x, y, dtype)


def identity(b: Builder, how: str, dtype: DType, type: Type) -> Value:
    """Return the value with which combining changes nothing, in a type of a dtype's values."""
    if how in ("max", "min", "greatest", "least"):
        if type.is_float:
            return b.const(type, -math.inf if how in ("max", "greatest") else math.inf)
        if type.bits == 1:
            return b.const(type, how == "min")
        info = np.iinfo(dtype)
        return b.const(type, int(info.min if how == "max" else info.max))
    return b.const(type, 1 if how in ("prod", "all") else 0)
