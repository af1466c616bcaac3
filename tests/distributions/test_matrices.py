"""Distributions of and with matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import wengert as wg

d = wg.distributions
KEY = wg.random.key(0)


def f64(x: object) -> wg.Tensor:
    return wg.tensor(x, dtype=wg.float64)


COVARIANCE = f64([[2.0, 0.3], [0.3, 1.0]])


def test_wishart_against_scipy() -> None:
    theirs = stats.wishart(4.5, np.asarray(COVARIANCE))
    x = f64([[3.0, 0.5], [0.5, 4.0]])
    for p in (
        d.Wishart(f64(4.5), COVARIANCE),
        d.Wishart(f64(4.5), precision_matrix=wg.linalg.inv(COVARIANCE)),
        d.Wishart(f64(4.5), scale_tril=wg.linalg.cholesky(COVARIANCE)),
    ):
        np.testing.assert_allclose(p.log_prob(x), theirs.logpdf(np.asarray(x)), rtol=1e-12)
        np.testing.assert_allclose(p.entropy(), theirs.entropy(), rtol=1e-12)
        np.testing.assert_allclose(p.mean, theirs.mean(), rtol=1e-12)
        np.testing.assert_allclose(p.variance, theirs.var(), rtol=1e-12)
    with pytest.raises(wg.ShapeError, match="df must be more than 1"):
        d.Wishart(1.0, wg.eye(2))


def test_the_divergence_of_wishart_distributions_is_an_expectation() -> None:
    p = d.Wishart(f64(4.0), COVARIANCE)
    q = d.Wishart(f64([5.0, 3.0]), f64([[1.0, 0.1], [0.1, 2.0]]))
    x = p.sample((40_000,), key=KEY)
    difference = np.asarray(wg.expand_dims(p.log_prob(x), axis=-1) - q.log_prob(wg.expand_dims(x, axis=1)))
    error = difference.std(0) / math.sqrt(len(difference))
    assert (np.abs(difference.mean(0) - np.asarray(d.kl_divergence(p, q))) < 5 * error).all()
    np.testing.assert_allclose(d.kl_divergence(p, p), 0.0, atol=1e-12)
    with pytest.raises(wg.ShapeError, match="dimensions 2 and 3"):
        d.kl_divergence(p, d.Wishart(4.0, wg.eye(3)))


def test_a_low_rank_is_an_ordinary_normal_distribution() -> None:
    low = d.LowRankMultivariateNormal(f64([0.1, 0.0]), f64([[0.5], [1.0]]), f64([0.5, 1.0]))
    full = d.MultivariateNormal(low.loc, low.covariance_matrix)
    x = f64([[1.0, 0.5], [0.0, 0.0]])
    for ask in (
        lambda p: p.log_prob(x),
        lambda p: p.entropy(),
        lambda p: p.variance,
        lambda p: p.precision_matrix,
        lambda p: p.scale_tril,
        lambda p: d.kl_divergence(p, d.MultivariateNormal(wg.zeros(2), scale_tril=wg.eye(2))),
    ):
        np.testing.assert_allclose(ask(low), ask(full), rtol=1e-11, atol=1e-13)
    draws = low.sample((40_000,), key=KEY).numpy()
    np.testing.assert_allclose(np.cov(draws.T), low.covariance_matrix, atol=0.04)


def test_the_factor_has_the_shape_of_the_batch() -> None:
    p = d.MultivariateNormal(wg.zeros((3, 2)), scale_tril=wg.eye(2))
    assert p.scale_tril.shape == p.covariance_matrix.shape == p.precision_matrix.shape == (3, 2, 2)
    assert p.variance.shape == (3, 2)
    assert p.entropy().shape == (3,)


def test_correlations() -> None:
    """At concentration 1 the correlation of two variables is uniform; of three, a beta distribution on -1 .. 1."""
    for n, a in ((2, 1.0), (3, 1.5)):
        factor = d.LKJCholesky(n, 1.0).sample((4000,), key=KEY)
        assert d.constraints.corr_cholesky.check(factor).numpy().all()
        correlation = (factor @ factor.mT).numpy()[:, 1, 0]
        assert stats.kstest(0.5 * (correlation + 1.0), stats.beta(a, a).cdf).pvalue > 1e-3
    # The density of the factor of two variables, by the angle between them, integrates to one.
    angles = np.linspace(0.0, math.pi, 2001)
    factors = np.stack(
        [np.stack([np.ones(2001), np.zeros(2001)], -1), np.stack([np.cos(angles), np.sin(angles)], -1)], -2
    )
    density = np.exp(np.asarray(d.LKJCholesky(2, f64(1.7)).log_prob(wg.tensor(factors[1:-1]))))
    # On the circle an element of the angle is one of the correlation over the sine.
    assert np.trapezoid(density * np.sin(angles[1:-1]), angles[1:-1]) == pytest.approx(1.0, abs=1e-5)
