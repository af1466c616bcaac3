"""Reference definitions of gamma, Poisson and binomial numbers: `rejection`, one element at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import cos, exp, floor, lgamma, log, log1p, pi, prod, sqrt
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.spec import Shape
from .philox import Key, words64

Uniforms = tuple[float, float, float, float]


def _attempts(key: Key, position: int) -> Iterator[Uniforms]:
    attempt = 0
    while True:
        top = [w >> 11 for w in words64(key, position + (attempt << 128), 4).tolist()]
        yield (top[0] + 1) / 2**53, top[1] / 2**53, (top[2] + 1) / 2**53, (top[3] + 1) / 2**53
        attempt += 1


def _each(draw: Callable[..., float], parameters: tuple[Array, ...], key: Key, counter: int, shape: Shape) -> Array:
    out = np.empty(parameters[0].shape)
    for i, place in enumerate(np.ndindex(*out.shape)):
        out[place] = draw(_attempts(key, counter + i % prod(shape)), *(float(p[place]) for p in parameters))
    return out


def _loggamma(attempts: Iterator[Uniforms], a: float) -> float:
    boost = None
    d = (a + 1 if a < 1 else a) - 1 / 3
    for u1, u2, u3, u4 in attempts:
        boost = u4 if boost is None else boost
        x = sqrt(-2 * log(u1)) * cos(2 * pi * u2)
        v = (1 + x / sqrt(9 * d)) ** 3
        if v > 0 and log(u3) < x * x / 2 + d - d * v + d * log(v):
            return log(d * v) + (log(boost) / a if a < 1 else 0.0)
    raise AssertionError


def _walk(u: float, probability: Callable[[int], float]) -> float:
    k, below = 0, probability(0)
    while u >= below:
        k += 1
        below += probability(k)
    return float(k)


def _poisson(attempts: Iterator[Uniforms], rate: float) -> float:
    for v, u, _, _ in attempts:
        if rate < 10:
            return _walk(u, lambda k: exp(k * log(rate) - rate - lgamma(k + 1)))
        b = 0.931 + 2.53 * sqrt(rate)
        a = -0.059 + 0.02483 * b
        us = 0.5 - abs(u - 0.5)
        k = floor((2 * a / us + b) * (u - 0.5) + rate + 0.43) if us else -1
        if us >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return float(k)
        if k < 0 or (us < 0.013 and v > us):
            continue
        if log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / us**2 + b)) <= k * log(rate) - rate - lgamma(k + 1):
            return float(k)
    raise AssertionError


def _binomial(attempts: Iterator[Uniforms], total: float, probs: float) -> float:
    n, p = int(total), min(probs, 1 - probs)
    odds = log(p) - log1p(-p)

    def log_probability(k: int) -> float:
        return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * odds + n * log1p(-p)

    for v, u, _, _ in attempts:
        if n * p < 10:
            k = int(_walk(u, lambda k: exp(log_probability(k)) if k <= n else 1.0))
            return float(n - k if probs > 0.5 else k)
        deviation = sqrt(n * p * (1 - p))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        us = 0.5 - abs(u - 0.5)
        k = floor((2 * a / us + b) * (u - 0.5) + n * p + 0.5) if us else -1
        if not 0 <= k <= n:
            continue
        mode = floor((n + 1) * p)
        height = log_probability(k) - log_probability(mode)
        if (us >= 0.07 and v <= 0.92 - 4.2 / b) or log(v * (2.83 + 5.1 / b) * deviation / (a / us**2 + b)) <= height:
            return float(n - k if probs > 0.5 else k)
    raise AssertionError


def random_loggamma(concentration: Array, *, key: Key, counter: int, shape: Shape) -> Any:
    """Return logarithms of gamma numbers, one element at a time."""
    return _each(_loggamma, (concentration,), key, counter, shape)


def random_poisson(rate: Array, *, key: Key, counter: int, shape: Shape) -> Any:
    """Return Poisson counts, one element at a time."""
    return _each(_poisson, (rate,), key, counter, shape)


def random_binomial(total: Array, probs: Array, *, key: Key, counter: int, shape: Shape) -> Any:
    """Return binomial counts, one element at a time."""
    return _each(_binomial, (total, probs), key, counter, shape)
