"""Special functions that neither XLA nor JAX has, by the formulas of their NumPy forwards.

They are computed in float64, for vectors. Formulas without choices are the forwards' own, on JAX's functions. Where a
forward goes on until all elements are done, a loop does; where it takes the elements apart, every branch is computed,
with harmless arguments for the elements of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from ....core.node import Node
from ....ops.special.gamma import BERNOULLI, cot_derivative
from ....ops.special.incomplete_beta import (
    front_ratios,
    integrals_below_mean,
    log_front,
    slope_below_mean,
    slope_of_log_front,
    stirling,
)
from ....ops.special.incomplete_gamma import SERIES_BELOW, TERMS, density_ratios, lower_integral, upper_integral
from ....ops.special.wide import horner
from ....ops.special.zeta import STEPPED_POWER, STEPS, times_factor
from ..api import jnp, lax
from ..rules import Trace, dtype_of, lowers, narrow, shape_of, together

_F64 = np.dtype(np.float64)
_LARGE = 10.0  # from here on Stirling's series holds


def _in_float64(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare ops that are a function of float64 arrays and the node's attributes, rounded once."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        @lowers(*names)
        def rule(t: Trace, node: Node, *args: Any) -> Any:
            flat = [jnp.reshape(narrow(a, _F64), -1) for a in together(node, args)]
            return jnp.reshape(narrow(fn(*flat, **node.attrs), dtype_of(node)), shape_of(node))

        return fn

    return register


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
    total = total + jnp.power(a, -float(n)) * (horner(square, coefficients, jnp) + 0.5 / a)
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
    reflected = (-1.0) ** n * above - math.pi ** (n + 1) * horner(_cot_pi(x), cot_derivative(n), jnp)
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


@_in_float64("gamma_ratio")
def _gamma_ratio(a: Any, w: Any, n: int) -> Any:
    x = jnp.exp(w)
    steps = [w - lax.digamma(a), *(-_polygamma(a, k) for k in range(1, n))][:n]
    ratios = density_ratios(steps)
    above = jnp.where(a < SERIES_BELOW, x >= a + 1.0, x >= a)
    by_series = ~above & (a < SERIES_BELOW)
    by_integral = ~above & ~by_series
    parts = [
        (above, 1.0, upper_integral(jnp.where(above, a, 1.0), jnp.where(above, x, 3.0), n, jnp)),
        (by_series, -1.0, _lower_series(jnp.where(by_series, a, 1.0), jnp.where(by_series, x, 0.0), n)),
        (by_integral, -1.0, lower_integral(jnp.where(by_integral, a, 20.0), jnp.where(by_integral, x, 10.0), n, jnp)),
    ]
    out = jnp.full_like(a, np.nan)
    for here, sign, found in parts:
        out = jnp.where(here, sign * sum(comb(n, j) * ratios[n - j] * found[j] for j in range(n + 1)), out)
    return jnp.where((a > 0.0) & (x < np.inf), out, np.nan)


# -- the beta function, and the incomplete one's derivatives in its parameters


@_in_float64("betaln")
def betaln(a: Any, b: Any) -> Any:
    """Return the logarithm of the beta function, where numbers are large without their differences (NSWC, bcorr)."""
    p, q = jnp.minimum(a, b), jnp.maximum(a, b)
    small = lax.lgamma(p) + lax.lgamma(q) - lax.lgamma(p + q)
    ratio = p / (p + q)
    correction = stirling(jnp.maximum(q, _LARGE), jnp) - stirling(jnp.maximum(p + q, _LARGE), jnp)
    uneven = lax.lgamma(p) + correction + p - p * lax.log(p + q) + (q - 0.5) * lax.log1p(-ratio)
    both = (
        -0.5 * lax.log(q) + 0.5 * np.log(2 * np.pi) + stirling(jnp.maximum(p, _LARGE), jnp) + correction
        + (p - 0.5) * lax.log(ratio) + q * lax.log1p(-ratio)
    )  # fmt: skip
    found = jnp.where(p >= _LARGE, both, jnp.where(q >= _LARGE, uneven, small))
    found = jnp.where(jnp.isinf(q), -np.inf, found)
    found = jnp.where(p == 0.0, jnp.where(jnp.isinf(q), np.nan, np.inf), found)
    return jnp.where(p >= 0.0, found, np.nan)


def _slope_below_mean(a: Any, b: Any, x: Any, y: Any, i: int, j: int) -> Any:
    logs = (lambda: jnp.log(x)), (lambda: jnp.log1p(-x))
    ratios = front_ratios(lambda p, q: slope_of_log_front(_digamma_derivative, a, b, logs, p, q), i, j)
    integrals = lambda orders: integrals_below_mean(a, b, x, y, orders, log_front(a, b, x, y, betaln(a, b), jnp), jnp)
    return slope_below_mean(ratios, integrals, i, j)


@_in_float64("betainc_slope")
def _betainc_slope(a: Any, b: Any, x: Any, i: int, j: int) -> Any:
    valid = (a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0)
    inside = valid & (x > 0.0) & (x < 1.0)
    a, b, at = jnp.where(inside, a, 1.0), jnp.where(inside, b, 1.0), jnp.where(inside, x, 0.5)
    below = _slope_below_mean(a, b, at, 1.0 - at, i, j)
    above = -_slope_below_mean(b, a, 1.0 - at, at, j, i)
    found = jnp.where(at * (a + b) <= a, below, above)
    return jnp.where(inside, found, jnp.where(valid, 0.0, np.nan))
