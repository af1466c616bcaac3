"""The line search: a step length with the strong Wolfe conditions (Nocedal and Wright 2006, algorithms 3.5 and 3.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ... import where
from ...core.tensor import Tensor, wrap
from ..common import loop
from ..krylov import dot

_DECREASE, _CURVATURE = 1e-4, 0.9
_MOST = 30


class Step(NamedTuple):
    """A point along a direction: its distance, value, slope and gradient."""

    length: Tensor
    value: Tensor
    slope: Tensor
    gradient: Tensor


class _Search(NamedTuple):
    low: Step  # the best so far
    high: Step  # the other end, once there is one
    length: Tensor  # to be tried next
    bracketed: Tensor
    done: Tensor
    tries: Tensor


def _choose(condition: Tensor, a: Step, b: Step) -> Step:
    return Step(*(where(condition, x, y) for x, y in zip(a, b, strict=True)))


def wolfe(
    both: Callable[[Tensor], tuple[Tensor, Tensor]],
    v: Tensor,
    value: Tensor,
    gradient: Tensor,
    d: Tensor,
    first: Tensor,
) -> tuple[Step, Tensor]:
    """Return the step found along `d`, and whether it makes progress."""
    start = Step(wrap(np.zeros((), v.dtype)), value, dot(gradient, d), gradient)
    # Below this, differences of values are rounding (Hager and Zhang 2005).
    slack = 10 * float(np.finfo(v.dtype).eps) * abs(value)

    def going(s: _Search) -> Tensor:
        more: Tensor = ~s.done & (s.tries < _MOST)
        return more

    def step(s: _Search) -> _Search:
        f, g = both(v + s.length * d)
        here = Step(s.length, f, dot(g, d), g)
        good = f.isfinite() & here.slope.isfinite()
        high_up = ~(f <= value + _DECREASE * s.length * start.slope + slack) | ~good
        high_up = high_up | (f > s.low.value + slack)
        flat = ~high_up & (abs(here.slope) <= -_CURVATURE * start.slope)
        toward = where(s.bracketed, here.slope * (s.high.length - s.low.length), here.slope) >= 0
        low = _choose(high_up, s.low, here)
        high = _choose(high_up, here, _choose(toward, s.low, s.high))
        bracketed = s.bracketed | high_up | toward
        return _Search(low, high, where(bracketed, _between(low, high), 4 * s.length), bracketed, flat, s.tries + 1)

    no = wrap(np.zeros((), bool))
    found = loop(going, step, _Search(start, start, first, no, no, wrap(np.zeros((), np.int64))))
    better = (found.low.length > 0) & (found.low.value <= value + slack)
    return found.low, found.done | better


def _between(low: Step, high: Step) -> Tensor:
    """Return the minimiser of the parabola through the lower end, or the middle."""
    width = high.length - low.length
    bend = high.value - low.value - low.slope * width
    share = -0.5 * low.slope * width / where(bend > 0, bend, 1.0)
    usable = (bend > 0) & share.isfinite() & high.value.isfinite()
    share = where(usable, share, 0.5)
    share = where(share < 0.1, 0.1, where(share > 0.9, 0.9, share))
    found: Tensor = low.length + share.astype(width.dtype) * width
    return found
