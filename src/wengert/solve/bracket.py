"""Roots between two ends, element by element: bisection and Chandrupatla's method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import sign, where
from ..core.errors import ShapeError, fail
from ..core.tensor import Tensor, asarray, wrap
from .common import Solved, largest, loop

Function = Callable[[Tensor], Tensor]


def ends(bracket: tuple[Any, Any]) -> tuple[Tensor, Tensor]:
    """Return the two ends, as tensors without history."""
    if not isinstance(bracket, (tuple, list)) or len(bracket) != 2:
        fail(ShapeError, "root: the bracket is not a pair", "It has two ends: bracket=(low, high).")
    low, high = (e.detach() if isinstance(e, Tensor) else asarray(e) for e in bracket)
    return low, high


def _solved(f: Function, x: Tensor, valid: Tensor, near: Tensor, tol: float, steps: Tensor) -> Solved:
    value = f(x)
    good = ((abs(value) <= tol) | near) & valid & value.isfinite()
    return Solved(x, good.all(), steps, largest(value))


def _zero() -> Tensor:
    return wrap(np.zeros((), np.int64))


def bisect(f: Function, low: Tensor, high: Tensor, tol: float, max_steps: int) -> Solved:
    """Find a root by halving: the ends keep different signs."""
    at_low, at_high = f(low), f(high)
    valid = sign(at_low) * sign(at_high) <= 0
    # An end that is a root already is both ends.
    low, high = where(at_high == 0, high, low), where((at_low == 0) & (at_high != 0), low, high)
    side = sign(at_low)

    def near(low: Tensor, high: Tensor) -> Any:
        return abs(high - low) <= tol * where(abs(low) > abs(high), abs(low), abs(high))

    def going(state: Any) -> Any:
        low, high, steps = state
        return (~near(low, high) & valid).any() & (steps < max_steps)

    def step(state: Any) -> Any:
        low, high, steps = state
        middle = low + 0.5 * (high - low)
        found = sign(f(middle))
        left = found == side
        return where(left, middle, where(found == 0, middle, low)), where(left, high, middle), steps + 1

    low, high, steps = loop(going, step, (low, high, _zero()))
    return _solved(f, low + 0.5 * (high - low), valid, near(low, high), tol, steps)


def chandrupatla(f: Function, low: Tensor, high: Tensor, tol: float, max_steps: int) -> Solved:
    """Find a root by bisection or inverse quadratic interpolation, whichever is safe (Chandrupatla 1997).

    Like Brent's method, with a simpler test and fewer evaluations.
    """
    a, b = high, low
    fa, fb = f(a), f(b)
    valid = sign(fa) * sign(fb) <= 0
    half = wrap(np.asarray(0.5, a.dtype)) + 0 * a

    def best(a: Tensor, b: Tensor, fa: Tensor, fb: Tensor) -> tuple[Tensor, Tensor]:
        first = abs(fa) < abs(fb)
        return where(first, a, b), where(first, fa, fb)

    def reach(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
        """Return the tolerance as a share of the bracket's width."""
        width = abs(b - a)
        return where(width > 0, 0.5 * tol * abs(x) / where(width > 0, width, 1.0), 1.0)

    def done(a: Tensor, b: Tensor, fa: Tensor, fb: Tensor) -> Tensor:
        x, fx = best(a, b, fa, fb)
        return (reach(a, b, x) > 0.5) | (fx == 0)

    def going(state: Any) -> Any:
        a, b, _, fa, fb, _, _, steps = state
        return (~done(a, b, fa, fb) & valid).any() & (steps < max_steps)

    def step(state: Any) -> Any:
        a, b, c, fa, fb, fc, t, steps = state
        still = ~done(a, b, fa, fb)
        x = a + t * (b - a)
        fx = f(x)
        same = sign(fx) == sign(fa)
        c2, fc2 = where(same, a, b), where(same, fa, fb)
        b2, fb2 = where(same, b, a), where(same, fb, fa)
        a2, fa2 = x, fx
        xi = _over(a2 - b2, c2 - b2)
        phi = _over(fa2 - fb2, fc2 - fb2)
        inverse = (phi * phi < xi) & ((1 - phi) * (1 - phi) < 1 - xi)
        one = _over(fa2, fb2 - fa2) * _over(fc2, fb2 - fc2)
        two = _over(c2 - a2, b2 - a2) * _over(fa2, fc2 - fa2) * _over(fb2, fc2 - fb2)
        t = where(inverse, one + two, 0.5)
        near = reach(a2, b2, best(a2, b2, fa2, fb2)[0])
        near = where(near < 0.5, near, 0.5)
        t = where(t < near, near, where(t > 1 - near, 1 - near, t))
        new, old = (a2, b2, c2, fa2, fb2, fc2, t), (a, b, c, fa, fb, fc, state[6])
        return (*(where(still, n, o).astype(o.dtype) for n, o in zip(new, old, strict=True)), steps + 1)

    a, b, _, fa, fb, _, _, steps = loop(going, step, (a, b, a, fa, fb, fa, half, _zero()))
    x, _ = best(a, b, fa, fb)
    return _solved(f, x, valid, done(a, b, fa, fb), tol, steps)


def _over(a: Tensor, b: Tensor) -> Tensor:
    return where(b != 0, a / where(b != 0, b, 1.0), 0.0)
