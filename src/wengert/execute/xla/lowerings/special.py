"""Special functions that neither XLA nor JAX has, by the formulas of their NumPy forwards.

They are computed in float64. Where a forward goes on until all elements are done, a loop does; where it takes
the elements apart, every branch is computed, with harmless arguments for the elements of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np

from ....core.node import Node
from ....ops.special.gamma import BERNOULLI, STIRLING, cot_derivative
from ....ops.special.incomplete_beta import LOWEST, POINTS, front_ratios, slope_of_log_front
from ....ops.special.incomplete_gamma import DEPTH, NODES, SERIES_BELOW, TERMS, density_ratios
from ....ops.special.wide import INVERSE_FACTORIALS, INVERSE_ODD, gauss_legendre
from ....ops.special.zeta import STEPPED_POWER, STEPS, times_factor
from ..api import jnp, lax
from ..rules import Trace, dtype_of, lowers, narrow, together

_F64 = np.dtype(np.float64)
_LARGE = 10.0  # from here on Stirling's series holds


def _in_float64(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare ops that are a function of float64 arrays and the node's attributes, rounded once."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        @lowers(*names)
        def rule(t: Trace, node: Node, *args: Any) -> Any:
            return narrow(fn(*(narrow(a, _F64) for a in together(node, args)), **node.attrs), dtype_of(node))

        return fn

    return register


def _horner(x: Any, coefficients: Sequence[float]) -> Any:
    out = jnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        out = out * x + c
    return out


def _summed(steps: Any, term: Callable[[Any], Any]) -> Any:
    """Return the sum of `term(k)` over k below each element's number of steps."""

    def add(k: Any, total: Any) -> Any:
        at = narrow(k, _F64)
        return total + jnp.where(at < steps, term(at), 0.0)

    most = jnp.max(jnp.where(steps == steps, steps, 0.0), initial=0.0)
    return lax.fori_loop(0, narrow(most, np.dtype(np.int64)), add, jnp.zeros_like(steps))


# -- derivatives of the gamma function's logarithm


def _polygamma_positive(x: Any, n: int) -> Any:
    steps = jnp.maximum(jnp.ceil(n + 12.0 - x), 0.0)
    total = _summed(steps, lambda k: jnp.power(x + k, -(n + 1.0)))
    a = x + steps
    square = 1.0 / (a * a)
    coefficients = [1.0 / n]
    ratio = 1.0 / n
    for k in range(1, len(BERNOULLI) + 1):
        ratio *= (n + 2 * k - 2) * (n + 2 * k - 1) / ((2 * k - 1) * (2 * k))
        coefficients.append(BERNOULLI[k - 1] * ratio)
    total = total + jnp.power(a, -float(n)) * (_horner(square, coefficients) + 0.5 / a)
    return (-1.0) ** (n + 1) * math.factorial(n) * total


def _cot_pi(x: Any) -> Any:
    fraction = x - jnp.round(x)
    size = jnp.abs(fraction)
    slope = jnp.tan(math.pi * jnp.minimum(size, 0.5 - size))
    found = jnp.copysign(jnp.where(size > 0.25, slope, 1.0 / slope), fraction)
    return jnp.where(size == 0.0, np.nan, found)


@_in_float64("polygamma")
def _polygamma(x: Any, n: int) -> Any:
    above = _polygamma_positive(jnp.where(x >= 0.0, x, 1.0 - x), n)
    reflected = (-1.0) ** n * above - math.pi ** (n + 1) * _horner(_cot_pi(x), cot_derivative(n))
    below = jnp.where(x == jnp.round(x), np.inf if n % 2 else np.nan, reflected)
    return jnp.where(x >= 0.0, above, jnp.where(x < 0.0, below, np.nan))


def _digamma_derivative(n: int, x: Any) -> Any:
    return _polygamma(x, n) if n else lax.digamma(x)


# -- zeta


@_in_float64("hurwitz_zeta")
def _zeta(s: Any, q: Any, n: int) -> Any:
    steps = jnp.maximum(jnp.ceil(jnp.minimum(s, STEPPED_POWER) + STEPS - jnp.maximum(q, 0.0)), 0.0)
    total = _summed(steps, lambda k: (-jnp.log(q + k)) ** n * jnp.power(q + k, -s))
    a = q + steps
    tail = [a * (-1.0) ** j / (s - 1.0) ** (j + 1) for j in range(n + 1)]
    tail[0] = tail[0] + 0.5
    rising = times_factor([0.5 / a, *(jnp.zeros_like(s) for _ in range(n))], s)
    for k, b in enumerate(BERNOULLI, 1):
        tail = [t + b * r for t, r in zip(tail, rising, strict=True)]
        rising = times_factor(times_factor(rising, s + (2 * k - 1)), s + 2 * k)
        rising = [r / (a * a * (2 * k + 1) * (2 * k + 2)) for r in rising]
    for j in range(n + 1):
        total = total + comb(n, j) * math.factorial(j) * tail[j] * (-jnp.log(a)) ** (n - j) * jnp.power(a, -s)
    if n == 0:
        total = jnp.where(jnp.isinf(s), jnp.where(q < 1.0, np.inf, jnp.where(q == 1.0, 1.0, 0.0)), total)
        total = jnp.where((s == 1.0) | ((q == 0.0) & (s > 1.0)), np.inf, total)
    return jnp.where((s >= 1.0) & (q >= 0.0), total, np.nan)


# -- the incomplete gamma function's derivatives in its shape


def _exp_remainder(u: Any) -> Any:
    near = jnp.clip(u, -1.0, 1.0)
    return jnp.where(jnp.abs(u) < 1.0, near * near * _horner(near, INVERSE_FACTORIALS), jnp.expm1(u) - u)


def _log_remainder(u: Any) -> Any:
    near = jnp.clip(u, -0.5, 0.5)
    t = near / (2.0 + near)
    series = 2.0 * t**3 * _horner(t * t, INVERSE_ODD) - near * t
    return jnp.where(jnp.abs(u) < 0.5, series, jnp.log1p(u) - u)


def _lower_series(a: Any, x: Any, n: int) -> list[Any]:
    term = [1.0 / a]
    for _ in range(n):
        term.append(-term[-1] / a)

    def goes_on(state: Any) -> Any:
        k, terms, totals = state
        done = [jnp.all(jnp.abs(t) <= 1e-17 * jnp.abs(s)) for t, s in zip(terms, totals, strict=True)]
        return (k < TERMS) & ~jnp.all(jnp.stack(done))

    def step(state: Any) -> Any:
        k, terms, totals = state
        shifted = a + k
        new = [x * terms[0] / shifted]
        for j in range(1, n + 1):
            new.append((x * terms[j] - new[j - 1]) / shifted)
        return k + 1.0, tuple(new), tuple(s + t for s, t in zip(totals, new, strict=True))

    _, _, totals = lax.while_loop(goes_on, step, (np.float64(1.0), tuple(term), tuple(term)))
    return [math.factorial(j) * s for j, s in enumerate(totals)]


def _lower_integral(a: Any, x: Any, n: int) -> list[Any]:
    parabola = 2.0 * DEPTH / ((a - x) + jnp.sqrt((a - x) ** 2 + 4.0 * DEPTH * x / 3.0))
    end = jnp.where(parabola < 1.0, parabola, (DEPTH + x) / a)
    for _ in range(6):
        value = (x - a) * end - x * _exp_remainder(-end)
        end = end + (value + DEPTH) / (a - x - x * jnp.expm1(-end))
    return _integrals(lambda v: (x - a) * v - x * _exp_remainder(-v), end, n, -1.0)


def _upper_integral(a: Any, x: Any, n: int) -> list[Any]:
    end = 2.0 * DEPTH / ((x - a) + jnp.sqrt((x - a) ** 2 + 2.0 * DEPTH * x))
    for _ in range(8):
        value = (a - x) * end - x * _exp_remainder(end)
        end = end - (value + DEPTH) / (a - x - x * jnp.expm1(end))
    return _integrals(lambda u: (a - x) * u - x * _exp_remainder(u), end, n, 1.0)


def _integrals(exponent: Callable[[Any], Any], end: Any, n: int, sign: float) -> list[Any]:
    nodes, weights = (jnp.asarray(v.reshape(-1, *(1,) * end.ndim)) for v in gauss_legendre(NODES))
    u = end * nodes
    term, totals = weights * jnp.exp(exponent(u)), []
    for _ in range(n + 1):
        totals.append(end * jnp.sum(term, axis=0))
        term = term * (sign * u)
    return totals


@_in_float64("gamma_ratio")
def _gamma_ratio(a: Any, w: Any, n: int) -> Any:
    x = jnp.exp(w)
    steps = [w - lax.digamma(a), *(-_polygamma(a, k) for k in range(1, n))][:n]
    ratios = density_ratios(steps)
    above = jnp.where(a < SERIES_BELOW, x >= a + 1.0, x >= a)
    by_series = ~above & (a < SERIES_BELOW)
    by_integral = ~above & ~by_series
    parts = [
        (above, 1.0, _upper_integral(jnp.where(above, a, 1.0), jnp.where(above, x, 3.0), n)),
        (by_series, -1.0, _lower_series(jnp.where(by_series, a, 1.0), jnp.where(by_series, x, 0.0), n)),
        (by_integral, -1.0, _lower_integral(jnp.where(by_integral, a, 20.0), jnp.where(by_integral, x, 10.0), n)),
    ]
    out = jnp.full_like(a, np.nan)
    for here, sign, found in parts:
        out = jnp.where(here, sign * sum(comb(n, j) * ratios[n - j] * found[j] for j in range(n + 1)), out)
    return jnp.where((a > 0.0) & (x < np.inf), out, np.nan)


# -- the beta function, and the incomplete one's derivatives in its parameters


def _stirling(x: Any) -> Any:
    inverse = 1.0 / x
    return inverse * _horner(inverse * inverse, STIRLING)


@_in_float64("betaln")
def betaln(a: Any, b: Any) -> Any:
    """Return the logarithm of the beta function, where numbers are large without their differences (NSWC, bcorr)."""
    p, q = jnp.minimum(a, b), jnp.maximum(a, b)
    small = lax.lgamma(p) + lax.lgamma(q) - lax.lgamma(p + q)
    ratio = p / (p + q)
    correction = _stirling(jnp.maximum(q, _LARGE)) - _stirling(jnp.maximum(p + q, _LARGE))
    uneven = lax.lgamma(p) + correction + p - p * lax.log(p + q) + (q - 0.5) * lax.log1p(-ratio)
    both = (
        -0.5 * lax.log(q) + 0.5 * np.log(2 * np.pi) + _stirling(jnp.maximum(p, _LARGE)) + correction
        + (p - 0.5) * lax.log(ratio) + q * lax.log1p(-ratio)
    )  # fmt: skip
    found = jnp.where(p >= _LARGE, both, jnp.where(q >= _LARGE, uneven, small))
    found = jnp.where(jnp.isinf(q), -np.inf, found)
    found = jnp.where(p == 0.0, jnp.where(jnp.isinf(q), np.nan, np.inf), found)
    return jnp.where(p >= 0.0, found, np.nan)


def _bent(x: Any, away: Any, mean: Any) -> Any:
    return jnp.where(jnp.abs(away) < 0.5, _log_remainder(away), jnp.log(x / mean) - away)


def _log_front(a: Any, b: Any, x: Any, y: Any) -> Any:
    plain = a * jnp.log(x) + b * jnp.log(y) - betaln(a, b)
    p, q = jnp.maximum(a, 10.0), jnp.maximum(b, 10.0)
    total = p + q
    curved = p * _bent(x, (x * total - p) / p, p / total) + q * _bent(y, (y * total - q) / q, q / total)
    corrections = _stirling(total) - _stirling(p) - _stirling(q)
    by_stirling = curved + 0.5 * jnp.log(p * (q / total) / (2.0 * math.pi)) + corrections
    return jnp.where(jnp.minimum(a, b) >= 10.0, by_stirling, plain)


def _moments(a: Any, b: Any, r: Any, orders: Sequence[tuple[int, int]]) -> list[Any]:
    power = b - 1.0
    slope = jnp.maximum(a - power * r, 0.0)
    scale = 1.0 / (slope + jnp.sqrt(jnp.abs(power) * r * (1.0 + r)) + jnp.minimum(a, 1.0))
    end = (40.0 + jnp.maximum(power, 0.0) * jnp.log1p(r)) / a
    high = jnp.maximum(jnp.log(end / scale) + 0.1, 1.0)
    step = (high - LOWEST) / (POINTS - 1)
    t = LOWEST + jnp.asarray(np.arange(float(POINTS)).reshape(-1, *(1,) * a.ndim)) * step
    bent = jnp.exp(-t)
    v = scale * jnp.exp(t - bent)
    base = jnp.log1p(-r * jnp.expm1(-v))
    term = v * (1.0 + bent) * jnp.exp(power * base - a * v)
    return [(1.0 + r) * step * jnp.sum(term * (-v) ** i * base**j, axis=0) for i, j in orders]


def _slope_below_mean(a: Any, b: Any, x: Any, y: Any, i: int, j: int) -> Any:
    orders = [(p, q) for p in range(i + 1) for q in range(j + 1)]
    logs = (lambda: jnp.log(x)), (lambda: jnp.log1p(-x))
    ratios = front_ratios(lambda p, q: slope_of_log_front(_digamma_derivative, a, b, logs, p, q), i, j)
    moments = dict(zip(orders, _moments(a, b, x / y, orders), strict=True))
    total = sum(comb(i, p) * comb(j, q) * ratios[i - p, j - q] * moments[p, q] for p, q in orders)
    return jnp.exp(_log_front(a, b, x, y)) * total


@_in_float64("betainc_slope")
def _betainc_slope(a: Any, b: Any, x: Any, i: int, j: int) -> Any:
    valid = (a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0)
    inside = valid & (x > 0.0) & (x < 1.0)
    a, b, at = jnp.where(inside, a, 1.0), jnp.where(inside, b, 1.0), jnp.where(inside, x, 0.5)
    below = _slope_below_mean(a, b, at, 1.0 - at, i, j)
    above = -_slope_below_mean(b, a, 1.0 - at, at, j, i)
    found = jnp.where(at * (a + b) <= a, below, above)
    return jnp.where(inside, found, jnp.where(valid, 0.0, np.nan))
