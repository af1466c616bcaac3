"""Derivatives by mpmath, from one side: where the sides agree a derivative exists, where they do not it is a kink.

A derivative is that of the polynomial through points beside the one that is asked for, so the function need not be
defined there, as sin(x) / x is not at 0. The points are 1e-20 apart and computed with 150 digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from math import comb
from typing import Any

import mpmath as mp

_DIGITS = 150
_STEP = mp.mpf(10) ** -20
_AGREES = mp.mpf(10) ** -12
# What is smaller may be 0.
RESOLUTION = 1e-17


@cache
def _weights(order: int, first: int, count: int) -> tuple[Any, ...]:
    """Return the weights of f(first), f(first + 1), ... in the derivative at 0 of the polynomial through them."""
    weights = []
    nodes = range(first, first + count)
    for i in nodes:
        others = [j for j in nodes if j != i]
        scale = mp.mpf(1)
        for j in others:
            scale *= i - j
        # The coefficient of t**order in the product of (t - j), times order!.
        total = mp.mpf(0)
        for chosen in itertools.combinations(others, len(others) - order):
            term = mp.mpf((-1) ** len(chosen))
            for j in chosen:
                term *= j
            total += term
        weights.append(mp.factorial(order) * total / scale)
    return tuple(weights)


def one_sided(fn: Callable[..., Any], point: tuple[float, ...], sides: tuple[int, ...], highest: int) -> dict[Any, Any]:
    """Return the partial derivatives by how often each argument is differentiated in; None where one is infinite."""
    count = highest + 1
    with mp.workdps(_DIGITS):
        places = [[mp.mpf(p) + s * _STEP * j for j in range(1, count + 2)] for p, s in zip(point, sides, strict=True)]
        values = {
            index: _real(fn(*(places[a][j] for a, j in enumerate(index))))
            for index in itertools.product(range(count + 1), repeat=len(point))
        }
        found: dict[Any, Any] = {}
        for orders in itertools.product(range(count), repeat=len(point)):
            if sum(orders) <= highest:
                near, far = (_differentiated(values, orders, sides, first, count) for first in (0, 1))
                # What depends on the step, as a logarithm at 0 does, is none.
                good = mp.isfinite(near) and abs(near - far) < _AGREES * (1 + abs(near))
                found[orders] = near if good else None
        return found


def _real(x: Any) -> Any:
    if abs(mp.im(x)) > abs(x) * mp.mpf(10) ** (20 - _DIGITS):
        raise ValueError(f"{x} is not real")
    return mp.re(x)


@cache
def _products(orders: tuple[int, ...], first: int, count: int) -> list[Any]:
    """Return the weights of a partial derivative, over all points, the last argument's the fastest."""
    return [mp.fprod(w) for w in itertools.product(*(_weights(order, first + 1, count) for order in orders))]


def _differentiated(values: Any, orders: tuple[int, ...], sides: tuple[int, ...], first: int, count: int) -> Any:
    at = itertools.product(range(first, first + count), repeat=len(orders))
    total = mp.fdot(_products(orders, first, count), [values[index] for index in at])
    return total / mp.fprod((side * _STEP) ** order for order, side in zip(orders, sides, strict=True))


def derivatives(fn: Callable[..., Any], point: tuple[float, ...], highest: int) -> dict[Any, float | None] | None:
    """Return the derivatives, None for those that do not exist; None for all outside the domain and on its edge."""
    sides: list[dict[Any, Any]] = []
    first = (0,) * len(point)
    for signs in itertools.product((1, -1), repeat=len(point)):
        try:
            found = one_sided(fn, point, signs, highest)
        except (ZeroDivisionError, ValueError, ArithmeticError, mp.libmp.NoConvergence):
            return None
        if found[first] is None:
            return None
        sides.append(found)
    out: dict[Any, float | None] = {}
    for orders in sides[0]:
        values = [side[orders] for side in sides]
        agree = values[0] is not None and all(
            v is not None and abs(v - values[0]) <= _AGREES * (1 + abs(v)) for v in values
        )
        out[orders] = float(values[0]) if agree and _lower_exist(orders, out) else None
    return out


def _lower_exist(orders: tuple[int, ...], known: dict[Any, float | None]) -> bool:
    """Return whether all derivatives exist of which this one is a derivative."""
    for a, k in enumerate(orders):
        if k:
            lower = (*orders[:a], k - 1, *orders[a + 1 :])
            if known.get(lower) is None:
                return False
    return True


def sequences(orders: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return every order in which to differentiate: argument numbers, the first first."""
    arguments = [a for a, k in enumerate(orders) for _ in range(k)]
    found = sorted(set(itertools.permutations(arguments)))
    assert len(found) == comb(sum(orders), orders[0]) or len(orders) != 2
    return found
