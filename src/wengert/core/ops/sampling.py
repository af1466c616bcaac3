"""Sample calls and oracles that the declarations of elementwise ops share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .op import Call, Samples

Interval = tuple[float, float]
SHAPES = ((3,), (2, 3), ())


def unary(*intervals: Interval, order: int = 3) -> Samples:
    """Return float64 samples of a function of one argument, drawn from each interval."""

    def samples(rng: Any) -> Iterable[Call]:
        return [
            Call((_draw(rng, i, s),), order=order)
            for i in intervals
            for s in (SHAPES if i is intervals[0] else SHAPES[:1])
        ]

    return samples


def and_complex(samples: Samples) -> Samples:
    """Return the samples, and one of complex numbers away from 0."""

    def drawn(rng: Any) -> Iterable[Call]:
        yield from samples(rng)
        radius, angle = rng.uniform(0.5, 2.0, 4), rng.uniform(-3.0, 3.0, 4)
        yield Call((radius * np.exp(1j * angle),), order=2)

    return drawn


def binary(x: Interval, y: Interval, order: int = 3) -> Samples:
    """Return float64 samples of a function of two arguments."""

    def samples(rng: Any) -> Iterable[Call]:
        return [Call((_draw(rng, x, s), _draw(rng, y, s)), order=order) for s in SHAPES]

    return samples


def apart(order: int = 3) -> Samples:
    """Return pairs of arguments that differ by at least 0.2, either of them the larger."""

    def samples(rng: Any) -> Iterable[Call]:
        calls = []
        for shape in SHAPES:
            x = _draw(rng, (-2.0, 2.0), shape)
            gap = _draw(rng, (0.2, 1.0), shape) * rng.choice([-1.0, 1.0], size=shape)
            calls.append(Call((x, np.asarray(x + gap)), order=order))
        return calls

    return samples


def integers(arguments: int, low: int, high: int) -> Samples:
    """Return int64 samples."""

    def samples(rng: Any) -> Iterable[Call]:
        return [Call(tuple(np.asarray(rng.integers(low, high, s)) for _ in range(arguments)), order=0) for s in SHAPES]

    return samples


def booleans(arguments: int) -> Samples:
    """Return boolean samples."""

    def samples(rng: Any) -> Iterable[Call]:
        return [
            Call(tuple(np.asarray(rng.random(s) < 0.5) for _ in range(arguments)), order=0) for s in ((4,), (2, 3), ())
        ]

    return samples


def _draw(rng: Any, interval: Interval, shape: tuple[int, ...]) -> Any:
    return np.asarray(rng.uniform(*interval, shape))


def each(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a scalar function (Python's own `math`, `operator`) on every element: an oracle without NumPy's loops."""
    return np.vectorize(fn)
