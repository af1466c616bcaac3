"""Numbers: the fraction, or the well-known constant, that a floating number stands for."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from .expr import FALSE, HALF, PI, TRUE, E, Expr, call, constant, mul, number, power

_LARGEST_DENOMINATOR = 1000
# Denominators of which multiples are looked for among the constants.
_SMALL = 13

_MINUS_HALF = number(Fraction(-1, 2))
_TWO_PI = mul(number(2), PI)
# Irrational constants that derivatives bring: as text, as an expression, as the nearest double.
KNOWN: tuple[tuple[str, Expr, float], ...] = (
    ("pi", PI, math.pi),
    ("e", E, math.e),
    ("log(2)", call("log", number(2)), math.log(2)),
    ("log(10)", call("log", number(10)), math.log(10)),
    ("log(2)**2", power(call("log", number(2)), number(2)), math.log(2) ** 2),
    ("log(10)**2", power(call("log", number(10)), number(2)), math.log(10) ** 2),
    ("sqrt(2)", power(number(2), HALF), math.sqrt(2)),
    ("sqrt(3)", power(number(3), HALF), math.sqrt(3)),
    ("sqrt(pi)", power(PI, HALF), math.sqrt(math.pi)),
    ("sqrt(2*pi)", power(_TWO_PI, HALF), math.sqrt(2 * math.pi)),
    ("1/sqrt(2)", power(number(2), _MINUS_HALF), math.sqrt(0.5)),
    ("1/sqrt(pi)", power(PI, _MINUS_HALF), 1 / math.sqrt(math.pi)),
    ("2/sqrt(pi)", mul(number(2), power(PI, _MINUS_HALF)), 2 / math.sqrt(math.pi)),
    ("1/sqrt(2*pi)", power(_TWO_PI, _MINUS_HALF), 1 / math.sqrt(2 * math.pi)),
    ("sqrt(2/pi)", power(mul(number(2), power(PI, number(-1))), HALF), math.sqrt(2 / math.pi)),
)
_BY_NAME = {name: expr for name, expr, _ in KNOWN}
# Floats that print shorter than this are what they say.
_SHORT = 14


def from_value(value: Any) -> Expr:
    """Return the number that a literal or a constant of one element stands for.

    A float that is the nearest one to a fraction of small denominator, or to a constant of
    :data:`KNOWN`, is that one; else it is the decimal that Python prints for it.
    """
    if isinstance(value, (bool, np.bool_)):
        return TRUE if value else FALSE
    if isinstance(value, (int, np.integer)):
        return number(int(value))
    wide = float(value)
    if not math.isfinite(wide):
        return constant(str(wide), wide)
    if wide == 0:
        return number(0)
    double = np.asarray(value).dtype == np.float64
    known = _multiple_of_known(wide, 2) if double and len(repr(wide)) > _SHORT else None
    if known is not None:
        return mul(number(Fraction(known[0], known[2])), _BY_NAME[known[1]])
    exact = Fraction(wide)
    small = exact.limit_denominator(_SMALL)
    if double and abs(float(small) - wide) <= 2 * math.ulp(wide):
        return number(small)  # 1/3 - 1 is not the double nearest to -2/3, but meant as it
    short = exact.limit_denominator(_LARGEST_DENOMINATOR)
    if np.asarray(float(short)).astype(np.asarray(value).dtype) == value:
        return number(short)
    return number(Fraction(str(value if isinstance(value, float) else np.asarray(value)[()])))


def to_float(value: Fraction) -> float:
    """Return the nearest double; an infinity beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def decimal(value: Fraction) -> bool:
    """Return whether a fraction is written as a decimal: 0.1, but 1/3 and 1/2 as fractions."""
    d = value.denominator
    if d == 1:
        return True
    while d % 2 == 0:
        d //= 2
    while d % 5 == 0:
        d //= 5
    return value.denominator > _LARGEST_DENOMINATOR or (d == 1 and value.denominator not in (2, 4, 8))


def number_text(value: float) -> str:
    """Return a literal as a person writes it: 2, 0.5, 1e-06, pi/2, 3*log(2)."""
    if isinstance(value, bool):
        return str(value)
    if not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    if value == int(value) and abs(value) < 1e16:
        return str(int(value)) if value != 0 or math.copysign(1.0, value) > 0 else "-0.0"
    short = repr(float(value))
    if len(short) < _SHORT:
        return short
    small = Fraction(value).limit_denominator(_SMALL)
    if float(small) == value and small.denominator > 1 and abs(small) < _LARGEST_DENOMINATOR:
        return str(small)
    found = _multiple_of_known(value, 0)
    return short if found is None else _multiple(*found[:3])


def _multiple_of_known(value: float, ulps: int) -> tuple[int, str, int, float] | None:
    """Return a constant of which a number is a simple multiple: numerator, name, denominator, that multiple."""
    for text, _, constant_value in KNOWN:
        if abs(abs(value) - constant_value) <= ulps * math.ulp(value):
            return (1 if value > 0 else -1), text, 1, math.copysign(constant_value, value)
    for text, _, constant_value in KNOWN:
        for bottom in range(1, _SMALL):
            top = round(value * bottom / constant_value)
            if "/" in text or not 0 < abs(top) < _SMALL:
                continue
            multiple = top * constant_value / bottom
            if abs(multiple - value) <= ulps * math.ulp(value):
                return top, text, bottom, multiple
    return None


def snapped(value: float) -> float:
    """Return a computed constant as the double nearest to the number that it stands for, where that has a name."""
    if not math.isfinite(value) or value == 0 or len(repr(value)) < _SHORT:
        return value
    found = _multiple_of_known(value, 2)
    return value if found is None else found[3]


def _multiple(top: int, text: str, bottom: int) -> str:
    sign = "-" if top < 0 else ""
    over = f"/{bottom}" if bottom != 1 else ""
    if abs(top) == 1:
        return f"{sign}{text}{over}"
    return f"{sign}{abs(top)}*{text}{over}"
