"""Warm-up: step sizes by dual averaging, mass matrices from draws, and the windows in which both are learned.

Windows, constants and regularisation are Stan's (Stan Reference Manual, "HMC algorithm parameters"; Hoffman & Gelman
2014 for dual averaging; Welford 1962 for variances).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

from .nuts import Density, Info, Metric, Phase, Point, energy_of, leapfrog, transition

# Dual averaging: how fast the step size moves, for how many first draws it is held back, how fast they are forgotten.
GAMMA, T0, KAPPA = 0.05, 10.0, 0.75
# Of 150 draws or more: those before the first window of the mass matrix, the first window, those after the last one.
BEFORE, FIRST, AFTER = 75, 25, 50
# The weight, in draws, of what a variance is drawn to, and that value.
PRIOR_DRAWS, PRIOR_VARIANCE = 5.0, 1e-3
# The acceptance of a single leapfrog step at which the search for a first step size ends, and the most trials.
FIRST_ACCEPTANCE, MOST_TRIALS = 0.8, 100


class Averages(NamedTuple):
    """The state of dual averaging, of the logarithm of the step size."""

    log_step: Any
    log_average: Any
    error: Any
    count: Any
    center: Any


class Moments(NamedTuple):
    """The number of draws, their mean, and the sum of squares (a matrix where the mass is dense) about it."""

    count: Any
    mean: Any
    squares: Any


class Warm(NamedTuple):
    """The state of a chain that is warming up."""

    point: Point
    averages: Averages
    moments: Moments


def windows(tune: int) -> list[tuple[int, bool]]:
    """Return the lengths of the windows of a warm-up, each with whether the mass matrix is learned in it.

    >>> windows(1000)
    [(75, False), (25, True), (50, True), (100, True), (200, True), (500, True), (50, False)]
    """
    if tune < 20:
        return [(tune, False)] if tune else []
    before, after, size = BEFORE, AFTER, FIRST
    if before + size + after > tune:
        before, after = int(0.15 * tune), int(0.1 * tune)
        size = tune - before - after
    found, left = [(before, False)], tune - before - after
    while left:
        # A window that would leave less than the next one needs takes all.
        length = size if left - size >= 2 * size else left
        found.append((length, True))
        left, size = left - length, 2 * size
    return [*found, (after, False)]


def started(step: Any) -> Averages:
    """Return the state of dual averaging that begins with a step size."""
    average, error, count = (wg.zeros_like(step) for _ in range(3))  # one tensor thrice would be another program
    return Averages(wg.log(step), average, error, count, wg.log(10.0 * step))


def averaged(state: Averages, acceptance: Any, target: float) -> Averages:
    """Return the state after a draw with this acceptance."""
    count = state.count + 1.0
    weight = 1.0 / (count + T0)
    error = (1.0 - weight) * state.error + weight * (target - acceptance)
    log_step = state.center - wg.sqrt(count) / GAMMA * error
    share = count**-KAPPA
    return Averages(log_step, share * log_step + (1.0 - share) * state.log_average, error, count, state.center)


def no_moments(size: int, is_dense: bool, dtype: Any) -> Moments:
    """Return the moments of no draws."""
    zeros = wg.zeros((size, size) if is_dense else (size,), dtype=dtype)
    return Moments(wg.zeros((), dtype=dtype), wg.zeros((size,), dtype=dtype), zeros)


def with_draw(moments: Moments, position: Any) -> Moments:
    """Return the moments with one draw more."""
    count = moments.count + 1.0
    from_mean = position - moments.mean
    mean = moments.mean + from_mean / count
    beyond = position - mean
    more = from_mean * beyond if moments.squares.ndim == 1 else from_mean[:, None] * beyond
    return Moments(count, mean, moments.squares + more)


def metric_of(moments: Moments) -> Metric:
    """Return the mass matrix, NumPy arrays, of draws with these moments, given as NumPy arrays of one chain.

    It is the inverse of their covariance (of their variances), drawn a little to a small multiple of the unit matrix.
    """
    count, _, squares = (np.asarray(m) for m in moments)
    share = count / (count + PRIOR_DRAWS)
    covariance = share * squares / max(float(count) - 1.0, 1.0)
    prior = PRIOR_VARIANCE * (1.0 - share)
    if covariance.ndim == 1:
        inverse = covariance + prior
        return Metric(inverse, 1.0 / np.sqrt(inverse))
    inverse = covariance + prior * np.eye(len(covariance), dtype=covariance.dtype)
    # The momenta's covariance is the inverse of `inverse`, which is the product of this root and its transpose.
    return Metric(inverse, np.linalg.inv(np.linalg.cholesky(inverse)).T)


def first_step(density: Density) -> Callable[[Any, Point, Any, Metric], Any]:
    """Return the function from a key, a point, a step size and a metric to a step size from which to begin.

    It is doubled or halved until the acceptance of one leapfrog step crosses `FIRST_ACCEPTANCE`.
    """

    def search(key: Any, point: Point, step: Any, metric: Metric) -> Any:
        dtype = point.position.dtype

        def gain(step: Any, trial: Any) -> Any:
            normal = wg.random.normal(point.position.shape, dtype=dtype, key=wg.random.fold_in(key, trial))
            momentum = metric.momentum(normal)
            before = energy_of(metric, momentum, point.logp)
            after, logp = leapfrog(density, metric, Phase(point.position, momentum, point.gradient), step)
            found = before - energy_of(metric, after.momentum, logp)
            return wg.where(wg.isnan(found), wg.full_like(found, -np.inf), found) > np.log(FIRST_ACCEPTANCE)

        none = wg.zeros((), dtype=wg.int64)
        grows = gain(step, none)
        factor = wg.where(grows, wg.full_like(step, 2.0), wg.full_like(step, 0.5))

        def next_one(state: Any) -> Any:
            step, trial, _ = state
            trial = trial + 1
            return step * factor, trial, (gain(step * factor, trial) == grows) & (trial < MOST_TRIALS)

        return wg.while_loop(lambda state: state[2], next_one, (step, none, none == 0))[0]

    return search


def warming(density: Density, max_depth: int, target: float) -> Callable[[Any, Any, Warm, Metric, Any], Warm]:
    """Return the function from a key, the number of the first draw, a state, a metric and a count to the next state."""
    draw = transition(density, max_depth)

    def warm(key: Any, begin: Any, state: Warm, metric: Metric, count: Any) -> Warm:
        def one(i: Any, state: Warm) -> Warm:
            step = wg.exp(state.averages.log_step)
            point, info = draw(wg.random.fold_in(key, begin + i), state.point, step, metric)
            averages = averaged(state.averages, info.acceptance, target)
            return Warm(point, averages, with_draw(state.moments, point.position))

        found: Warm = wg.fori_loop(0, count, one, state)
        return found

    return warm


def collecting(
    density: Density, max_depth: int, length: int
) -> Callable[[Any, Any, Point, Any, Metric], tuple[Point, tuple[Any, Any, Info]]]:
    """Return the function from a key, the number of the first draw, a point, a step size and a metric to draws.

    It returns the last point, and of each draw the position, the logarithm of the density, and the transition's facts.
    """
    draw = transition(density, max_depth)

    def collect(key: Any, begin: Any, point: Point, step: Any, metric: Metric) -> Any:
        def one(point: Point, i: Any) -> Any:
            point, info = draw(wg.random.fold_in(key, begin + i), point, step, metric)
            return point, (point.position, point.logp, info)

        return wg.scan(one, point, wg.arange(length))

    return collect
