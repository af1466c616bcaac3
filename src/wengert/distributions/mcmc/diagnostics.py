"""Convergence of Markov chains: R-hat, effective sample sizes and the Monte Carlo error.

After Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization, folding, and localization: An improved
R-hat for assessing convergence of MCMC", with Geyer's (1992) initial monotone sequence of autocorrelations.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from ...core.errors import ShapeError, fail

Array = np.ndarray[Any, np.dtype[Any]]


def rhat(draws: Any) -> Any:
    """Return R-hat, the potential scale reduction: near 1 where chains agree; above 1.01 they do not yet.

    `draws` are of shape (chains, draws, ...), the result is a float64 array of the rest, a float where there is none.
    It is the rank-normalised, split one, the larger of that of the draws and of their distances from the median. NaN
    where there are less than four draws, one is not finite, or all are the same.

    Raises ShapeError.

    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> round(rhat(draws), 2), round(rhat(draws + np.arange(4)[:, None]), 2)
    (1.0, 1.54)
    """

    def one(x: Array) -> float:
        if np.ptp(x) == 0:
            return np.nan
        halves = _split(x)
        folded = np.abs(halves - np.median(halves))
        return max(_plain_rhat(_normal_scores(halves)), _plain_rhat(_normal_scores(folded)))

    return _each(one, draws, "rhat")


def ess_bulk(draws: Any) -> Any:
    """Return the effective sample size for the bulk of the distribution: how many independent draws know as much.

    Shapes and errors are those of :func:`rhat`.

    >>> import numpy as np
    >>> bool(1500 < ess_bulk(np.random.default_rng(0).normal(size=(4, 500))) < 2500)
    True
    """
    return _each(lambda x: _ess(_normal_scores(_split(x))), draws, "ess_bulk")


def ess_tail(draws: Any) -> Any:
    """Return the effective sample size for the tails: the smaller of those of the quantiles of 5 and of 95 per cent.

    Shapes and errors are those of :func:`rhat`.

    >>> import numpy as np
    >>> bool(1000 < ess_tail(np.random.default_rng(0).normal(size=(4, 500))) < 2500)
    True
    """

    def one(x: Array) -> float:
        return min(_ess(_split((x <= np.quantile(x, q)).astype(float))) for q in (0.05, 0.95))

    return _each(one, draws, "ess_tail")


def ess_mean(draws: Any) -> Any:
    """Return the effective sample size for the mean, of which the Monte Carlo error follows.

    Shapes and errors are those of :func:`rhat`.

    >>> import numpy as np
    >>> bool(1500 < ess_mean(np.random.default_rng(0).normal(size=(4, 500))) < 2500)
    True
    """
    return _each(lambda x: _ess(_split(x)), draws, "ess_mean")


def mcse_mean(draws: Any) -> Any:
    """Return the Monte Carlo standard error of the mean.

    Shapes and errors are those of :func:`rhat`.

    >>> import numpy as np
    >>> bool(0.015 < mcse_mean(np.random.default_rng(0).normal(size=(4, 500))) < 0.03)
    True
    """
    return _each(lambda x: float(x.std(ddof=1) / np.sqrt(_ess(_split(x)))), draws, "mcse_mean")


def _each(of_one: Callable[[Array], float], draws: Any, name: str) -> Any:
    """Return a statistic of each number that there are chains of."""
    x = np.asarray(draws, np.float64)
    if x.ndim < 2:
        fail(ShapeError, f"{name} of draws of shape {x.shape}", "Give it an array of shape (chains, draws, ...).")
    chains, length, *rest = x.shape
    columns = x.reshape(chains, length, int(np.prod(rest)))
    found = np.full(columns.shape[2], np.nan)
    for i in range(columns.shape[2]):
        one = columns[:, :, i]
        if length >= 4 and chains and np.isfinite(one).all():
            found[i] = of_one(one)
    return found.reshape(rest) if rest else float(found[0])


def _split(x: Array) -> Array:
    """Return halves of chains as chains; the draw in the middle of an odd number is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


_quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])


def _normal_scores(x: Array) -> Array:
    """Return the normal quantiles of the ranks (Blom 1958); equal numbers share the mean of theirs."""
    _, where, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks = (last - (count - 1) / 2)[where.reshape(x.shape)]
    unique, back = np.unique((ranks - 0.375) / (x.size + 0.25), return_inverse=True)
    return np.asarray(_quantile(unique)[back.reshape(x.shape)])


def _plain_rhat(x: Array) -> float:
    length = x.shape[1]
    between = length * x.mean(1).var(ddof=1)
    within = x.var(1, ddof=1).mean()
    if within == 0.0:
        return 1.0 if between == 0.0 else float("inf")
    return float(np.sqrt((between / within + length - 1) / length))


def _ess(x: Array) -> float:
    """Return the effective sample size of chains as they are."""
    chains, length = x.shape
    if np.ptp(x) == 0.0:  # a constant is known from any draw
        return float(x.size)
    covariance = _autocovariance(x)
    mean_variance = covariance[:, 0].mean() * length / (length - 1)
    variance = mean_variance * (length - 1) / length
    if chains > 1:
        variance += x.mean(1).var(ddof=1)
    rho = 1.0 - (mean_variance - covariance.mean(0)) / variance
    rho[0] = 1.0
    # Sums of pairs are positive and fall; from the first that is not so on they are noise.
    kept = np.zeros(length)
    kept[0], even, odd, t = 1.0, 1.0, rho[1], 1
    kept[1] = odd
    while t < length - 3 and even + odd > 0.0:
        even, odd = rho[t + 1], rho[t + 2]
        if even + odd >= 0.0:
            kept[t + 1], kept[t + 2] = even, odd
        t += 2
    last = t - 2
    if even > 0.0:
        kept[last + 1] = even
    t = 1
    while t <= last - 2:
        if kept[t + 1] + kept[t + 2] > kept[t - 1] + kept[t]:
            kept[t + 1] = kept[t + 2] = (kept[t - 1] + kept[t]) / 2
        t += 2
    time = -1.0 + 2.0 * kept[: last + 1].sum() + kept[last + 1]
    return float(x.size / max(time, 1.0 / np.log10(x.size)))


def _autocovariance(x: Array) -> Array:
    """Return the autocovariances of each chain at every lag, divided by its length."""
    length = x.shape[1]
    size = 1 << (2 * length - 1).bit_length()
    spectrum = np.fft.rfft(x - x.mean(1, keepdims=True), size)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, size)[:, :length] / length)
