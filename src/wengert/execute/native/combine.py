"""What reductions combine values with."""

from __future__ import annotations

import math
from collections.abc import Callable

from .builder import Builder, Value
from .types import Type

Combine = Callable[[Builder, Value, Value], Value]


def _add(b: Builder, x: Value, y: Value) -> Value:
    return b.fadd(x, y) if x.type.is_float else b.add(x, y)


def _multiply(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, y) if x.type.is_float else b.mul(x, y)


def _extreme(b: Builder, x: Value, y: Value, how: str) -> Value:
    """The larger or smaller of two; a NaN wins over everything."""
    if x.type.bits == 1:
        return b.or_(x, y) if how == "sgt" else b.and_(x, y)
    if not x.type.is_float:
        return b.select(b.icmp(how, x, y), x, y)
    wins = b.or_(b.fcmp(how, x, y), b.fcmp("uno", x, x))
    return b.select(wins, x, y)


def _larger(b: Builder, x: Value, y: Value) -> Value:
    return _extreme(b, x, y, "ogt" if x.type.is_float else "sgt")


def _smaller(b: Builder, x: Value, y: Value) -> Value:
    return _extreme(b, x, y, "olt" if x.type.is_float else "slt")


COMBINE: dict[str, Combine] = {
    "sum": _add,
    "prod": _multiply,
    "max": _larger,
    "min": _smaller,
    "any": lambda b, x, y: b.or_(x, y),
    "all": lambda b, x, y: b.and_(x, y),
}


def identity(b: Builder, how: str, type: Type) -> Value:
    """What combining with changes nothing."""
    if how in ("max", "min"):
        if type.is_float:
            return b.const(type, -math.inf if how == "max" else math.inf)
        if type.bits == 1:
            return b.const(type, how == "min")
        lowest = -(1 << (type.bits - 1))
        return b.const(type, lowest if how == "max" else -lowest - 1)
    return b.const(type, 1 if how in ("prod", "all") else 0)
