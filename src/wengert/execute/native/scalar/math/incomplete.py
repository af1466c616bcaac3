"""Native incomplete gamma and beta functions, their derivatives in the parameters, and those of digamma.

The formulas are those of the NumPy forwards in `ops/special`, where they are explained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import comb
from typing import Any

from .....ops.special.gamma import BERNOULLI, cot_derivative
from .....ops.special.incomplete_beta import (
    FINE,
    MOST_STEPS,
    fraction_begins,
    fraction_ends,
    fraction_is_quick,
    fraction_step,
    front_ratios,
    integrals_below_mean,
    is_below,
    log_beta_both_large,
    log_beta_one_large,
    log_front_by_gamma,
    log_front_by_stirling,
    slope_below_mean,
    slope_of_log_front,
)
from .....ops.special.incomplete_gamma import (
    LEAST_SHAPE,
    SERIES_BELOW,
    density_ratios,
    log_density,
    lower_integral,
    upper_integral,
)
from .....ops.special.wide import horner
from .coefficients import LGAMMA_64
from .numbers import Functions, Number, Truth, one_by_one
from .trig import tan

# -- derivatives of digamma


def _polygamma_positive(xp: Functions, x: Number, n: int) -> Number:
    steps = xp.maximum(xp.minimum(xp.ceil(n + 12.0 - x), n + 12.0), 0.0)
    (total,) = xp.repeat(steps, [xp.constant(0.0)], lambda k, totals: [totals[0] + 1.0 / (x + (k - 1.0)) ** (n + 1)])
    a = x + steps
    inverse = 1.0 / a
    coefficients = [1.0 / n]
    ratio = 1.0 / n
    for k in range(1, len(BERNOULLI) + 1):
        ratio *= (n + 2 * k - 2) * (n + 2 * k - 1) / ((2 * k - 1) * (2 * k))
        coefficients.append(BERNOULLI[k - 1] * ratio)
    total += inverse**n * (horner(inverse * inverse, coefficients, xp) + 0.5 * inverse)
    return total * float((-1) ** (n + 1) * math.factorial(n))


def _cot_pi(xp: Functions, x: Number) -> Number:
    fraction = x - xp.rint(x)
    size = xp.abs(fraction)
    slope = Number(xp.b, tan(xp.b, (math.pi * xp.minimum(size, 0.5 - size)).value))
    found = xp.where(size > 0.25, slope, 1.0 / slope)
    return xp.where(fraction < 0.0, -found, found)


def _polygamma(xp: Functions, x: Number, n: int) -> Number:
    def below() -> Number:
        reflected = math.pi ** (n + 1) * horner(_cot_pi(xp, x), cot_derivative(n), xp)
        value = (-1.0) ** n * _polygamma_positive(xp, 1.0 - x, n) - reflected
        return xp.where(x.equals(xp.rint(x)), math.inf if n % 2 else math.nan, value)

    return xp.choose(
        (x >= 0.0, lambda: _polygamma_positive(xp, x, n)),
        (x < 0.0, below),
        otherwise=lambda: xp.constant(math.nan),
    )


@one_by_one
def polygamma(xp: Functions, x: Number, n: int) -> Number:
    """Return the n-th derivative of digamma, n >= 1."""
    return _polygamma(xp, x, n)


def _slope_of_lgamma(xp: Functions, x: Number, n: int) -> Number:
    """Return the derivative of order n + 1 of lgamma at x > 0."""
    return _polygamma_positive(xp, x, n) if n else xp.digamma(x)


# -- the incomplete gamma functions


def _lower_series(xp: Functions, a: Number, x: Number, n: int) -> list[Number]:
    """Return T and its first n derivatives for a < 10, x < a + 1: after so many terms no further one is of any size."""
    term = [1.0 / a]
    for _ in range(n):
        term.append(-term[-1] / a)

    def step(k: Number, state: list[Number]) -> Sequence[Number]:
        old, totals = state[: n + 1], state[n + 1 :]
        inverse = 1.0 / (a + k)
        new = [x * inverse * old[0]]
        for j in range(1, n + 1):
            new.append((x * old[j] - new[j - 1]) * inverse)
        return [*new, *(t + s for t, s in zip(totals, new, strict=True))]

    count = xp.minimum(22.0 + 4.0 * n + 3.5 * x, 100.0)
    found = xp.repeat(count, [*term, *term], step)
    return [s * float(math.factorial(j)) for j, s in enumerate(found[n + 1 :])]


def _lower(xp: Functions, a: Number, x: Number, n: int) -> list[Number]:
    return xp.either(a < SERIES_BELOW, lambda: _lower_series(xp, a, x, n), lambda: lower_integral(a, x, n, xp))


def _is_upper(xp: Functions, a: Number, x: Number) -> Truth:
    return x >= xp.where(a < SERIES_BELOW, a + 1.0, a)


def _upper_for_small_shape(xp: Functions, a: Number, x: Number) -> Number:
    """Return Q for a < 1 and x < 1.5."""
    near = xp.where(a <= 0.5, a, a - 1.0)
    log_gamma = near * horner(near, LGAMMA_64, xp) - xp.where(a <= 0.5, xp.log1p(a), 0.0)
    log_front = a * xp.log(x) - log_gamma

    def step(k: Number, state: list[Number]) -> Sequence[Number]:
        term = state[0] * (-x / k)
        return [term, state[1] + term / (a + k)]

    total = xp.repeat(xp.constant(29.0), [xp.constant(1.0), xp.constant(0.0)], step)[1]
    found: Number = -xp.expm1(log_front) - xp.exp(log_front) * a * total
    return found


def _incomplete(xp: Functions, a: Number, x: Number, upper: bool) -> Number:
    def front(a: Number) -> Number:
        logarithm: Number = log_density(a, xp.log(x), x, xp.lgamma(a), xp)
        return xp.exp(logarithm)

    def above() -> Number:
        found: Number = front(a) * upper_integral(a, x, 0, xp)[0]
        return found if upper else 1.0 - found

    def below() -> Number:
        shape = xp.maximum(a, LEAST_SHAPE)
        found = front(shape) * _lower(xp, shape, x, 0)[0]
        return 1.0 - found if upper else found

    def inside() -> Number:
        pieces = [(_is_upper(xp, a, x), above)]
        if upper:
            pieces.append(((a < 1.0) & (x < 1.5), lambda: _upper_for_small_shape(xp, a, x)))
        return xp.choose(*pieces, otherwise=below)

    def at_an_edge() -> Number:
        zeros, infinities = a.equals(0.0), x.equals(math.inf)
        none = zeros & x.equals(0.0) | a.equals(math.inf) & infinities | ~((a >= 0.0) & (x >= 0.0))
        found = xp.where(zeros | infinities, 0.0 if upper else 1.0, 1.0 if upper else 0.0)
        return xp.where(none, math.nan, found)

    regular = (a > 0.0) & (x > 0.0) & (a < math.inf) & (x < math.inf)
    return xp.choose((regular, inside), otherwise=at_an_edge)


@one_by_one
def gammainc(xp: Functions, a: Number, x: Number) -> Number:
    """Return the regularised lower incomplete gamma function."""
    return _incomplete(xp, a, x, False)


@one_by_one
def gammaincc(xp: Functions, a: Number, x: Number) -> Number:
    """Return the regularised upper incomplete gamma function."""
    return _incomplete(xp, a, x, True)


@one_by_one
def gamma_ratio(xp: Functions, a: Number, w: Number, n: int) -> Number:
    """Return minus the n-th derivative in a of P(a, exp(w)), over the density of the logarithm of a gamma variate."""
    x = xp.exp(w)

    def inside() -> Number:
        steps = [w - xp.digamma(a), *(-_polygamma_positive(xp, a, k) for k in range(1, n))][:n]
        ratios = density_ratios(steps)

        def of(parts: list[Number], sign: float) -> Number:
            found: Number = sign * sum(comb(n, j) * ratios[n - j] * parts[j] for j in range(n + 1))
            return found

        return xp.choose(
            (_is_upper(xp, a, x), lambda: of(upper_integral(a, x, n, xp), 1.0)),
            otherwise=lambda: of(_lower(xp, a, x, n), -1.0),
        )

    return xp.choose(((a > 0.0) & (x < math.inf), inside), otherwise=lambda: xp.constant(math.nan))


# -- the beta function and the incomplete one


def _betaln(xp: Functions, a: Number, b: Number) -> Number:
    """Return log B(a, b) of positive finite numbers."""
    small, large = xp.minimum(a, b), xp.maximum(a, b)

    def neither() -> Number:
        return xp.lgamma(small) + (xp.lgamma(large) - xp.lgamma(small + large))

    return xp.choose(
        (small >= 10.0, lambda: log_beta_both_large(small, large, xp)),
        (large >= 10.0, lambda: log_beta_one_large(small, large, xp.lgamma(small), xp)),
        otherwise=neither,
    )


def _log_front(xp: Functions, a: Number, b: Number, x: Number, y: Number) -> Number:
    """Return log(x**a y**b / B(a, b))."""
    return xp.choose(
        (xp.minimum(a, b) >= 10.0, lambda: log_front_by_stirling(a, b, x, y, xp)),
        otherwise=lambda: log_front_by_gamma(a, b, x, y, _betaln(xp, a, b), xp),
    )


@one_by_one
def betaln(xp: Functions, a: Number, b: Number) -> Number:
    """Return the logarithm of the beta function."""

    def at_an_edge() -> Number:
        is_zero, is_infinite = a.equals(0.0) | b.equals(0.0), a.equals(math.inf) | b.equals(math.inf)
        none = is_zero & is_infinite | ~((a >= 0.0) & (b >= 0.0))
        return xp.where(none, math.nan, xp.where(is_zero, math.inf, -math.inf))

    regular = (a > 0.0) & (b > 0.0) & (a < math.inf) & (b < math.inf)
    return xp.choose((regular, lambda: _betaln(xp, a, b)), otherwise=at_an_edge)


def _in_unit_interval(xp: Functions, a: Number, b: Number, x: Number, inside: Any, at_one: float) -> Number:
    valid = (a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0)
    edge = lambda: xp.where(x.equals(0.0), 0.0, at_one)
    return xp.choose((~valid, lambda: xp.constant(math.nan)), (x.equals(0.0) | x.equals(1.0), edge), otherwise=inside)


@one_by_one
def betainc(xp: Functions, a: Number, b: Number, x: Number) -> Number:
    """Return the regularised incomplete beta function."""

    def inside() -> Number:
        below = is_below(a, b, x)
        p, q = xp.where(below, a, b), xp.where(below, b, a)
        u, v = xp.where(below, x, 1.0 - x), xp.where(below, 1.0 - x, x)
        step = lambda k, state: fraction_step(k, state, p, q, u, v, xp)
        is_quick = fraction_is_quick(p, q, u, v, xp)
        going = lambda state: is_quick & ~fraction_ends(state, xp)
        state = xp.until(MOST_STEPS, fraction_begins(p, q, u, v, xp), step, going)
        is_found = is_quick & fraction_ends(state, xp)
        log_front = _log_front(xp, p, q, u, v)
        by_fraction = lambda: xp.exp(log_front) * state[2]
        by_integral = lambda: integrals_below_mean(p, q, u, v, [(0, 0)], log_front, xp, FINE)[0]
        found = xp.choose((is_found, by_fraction), otherwise=by_integral)
        return xp.where(below, found, 1.0 - found)

    return _in_unit_interval(xp, a, b, x, inside, 1.0)


@one_by_one
def betainc_slope(xp: Functions, a: Number, b: Number, x: Number, i: int, j: int) -> Number:
    """Return the derivative of the regularised incomplete beta function, i times in a and j times in b."""

    def below(a: Number, b: Number, x: Number, y: Number, i: int, j: int) -> Number:
        logs = (lambda: xp.log(x)), (lambda: xp.log1p(-x))
        slope = lambda p, q: slope_of_log_front(lambda n, z: _slope_of_lgamma(xp, z, n), a, b, logs, p, q)
        integrals = lambda orders: integrals_below_mean(a, b, x, y, orders, _log_front(xp, a, b, x, y), xp)
        found: Number = slope_below_mean(front_ratios(slope, i, j), integrals, i, j)
        return found

    def inside() -> Number:
        return xp.choose(
            (x * (a + b) <= a, lambda: below(a, b, x, 1.0 - x, i, j)),
            otherwise=lambda: -below(b, a, 1.0 - x, x, j, i),
        )

    return _in_unit_interval(xp, a, b, x, inside, 0.0)
