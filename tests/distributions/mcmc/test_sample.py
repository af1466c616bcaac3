"""The sampler against posteriors that are known, and what it says of those that are hard."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import DTypeError, RangeError, ShapeError
from wengert.distributions import mcmc
from wengert.distributions.mcmc.adaptation import averaged, metric_of, no_moments, started, windows, with_draw
from wengert.distributions.mcmc.nuts import _levels

COVARIANCE = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, -0.2], [0.0, -0.2, 25.0]])
MEAN = np.array([1.0, -2.0, 3.0])


def zeros(*shape: int) -> Any:
    return wg.zeros(shape, dtype=wg.float64)


def gaussian(x: Any) -> Any:
    precision = wg.asarray(np.linalg.inv(COVARIANCE))
    away = x - wg.asarray(MEAN)
    return -0.5 * (away @ (precision @ away))


def bell(x: Any) -> Any:
    return -0.5 * (x**2).sum()


def within_error(found: mcmc.Samples, mean: np.ndarray, covariance: np.ndarray) -> None:
    summary = found.summary
    assert (summary.rhat < 1.02).all()
    assert (np.abs(summary.mean - mean) < 5 * summary.mcse_mean).all()
    flat = found.draws.reshape(-1, len(mean))
    for i in range(len(mean)):
        for j in range(len(mean)):
            products = (flat[:, i] - mean[i]) * (flat[:, j] - mean[j])
            error = mcmc.mcse_mean(products.reshape(found.draws.shape[:2]))
            assert abs(products.mean() - covariance[i, j]) < 5 * error


@pytest.mark.parametrize("mass", ["diagonal", "dense"])
def test_a_gaussian_with_correlations(mass: Any) -> None:
    found = mcmc.sample(gaussian, zeros(3), key=wg.random.key(1), mass=mass)
    within_error(found, MEAN, COVARIANCE)
    assert found.stats["diverging"].sum() == 0
    assert 0.7 < found.stats["acceptance"].mean() < 0.97
    assert found.inverse_mass.shape == ((4, 3) if mass == "diagonal" else (4, 3, 3))
    np.testing.assert_allclose(found.stats["logp"][1, 7], float(gaussian(wg.asarray(found.draws[1, 7]))), rtol=1e-12)
    leaps = found.stats["steps"]
    assert ((leaps >= 2 ** found.stats["depth"] - 1) & (leaps < 2 ** (found.stats["depth"] + 1))).all()
    if mass == "dense":
        assert (found.summary.ess_bulk > 2000).all()


def test_eight_schools() -> None:
    y = wg.tensor([28.0, 8, -3, 7, -1, 1, 18, 12], dtype=wg.float64)
    sigma = wg.tensor([15.0, 10, 16, 11, 9, 11, 10, 18], dtype=wg.float64)

    def logp(p: Any) -> Any:
        tau = wg.exp(p["log_tau"])
        theta = p["mu"] + tau * p["z"]
        prior = -0.5 * (p["mu"] / 5) ** 2 - wg.log1p((tau / 5) ** 2) + p["log_tau"] - 0.5 * (p["z"] ** 2).sum()
        return prior - 0.5 * (((y - theta) / sigma) ** 2).sum()

    found = mcmc.sample(logp, {"mu": zeros(), "log_tau": zeros(), "z": zeros(8)}, key=wg.random.key(0))
    assert found.draws["z"].shape == (4, 1000, 8)
    assert found.summary.names[:3] == ("mu", "log_tau", "z[0]")
    assert (found.summary.rhat < 1.02).all()
    # posteriordb's reference draws of eight_schools_noncentered: 4.4 and 3.6, with these deviations.
    assert abs(found.draws["mu"].mean() - 4.41) < 0.3
    assert abs(found.draws["mu"].std() - 3.31) < 0.3
    assert abs(np.exp(found.draws["log_tau"]).mean() - 3.6) < 0.4
    lines = str(found.summary).splitlines()
    assert len(lines) == 11
    assert lines[0].split() == ["mean", "sd", "q5", "q95", "mcse_mean", "ess_bulk", "ess_tail", "rhat"]
    arviz = pytest.importorskip("arviz", reason="arviz is an extra")
    data = found.to_arviz()
    assert data.posterior["z"].shape == (4, 1000, 8)
    assert float(arviz.rhat(data)["mu"]) == pytest.approx(found.summary.rhat[0], abs=1e-9)


def funnel(x: Any) -> Any:
    return -0.5 * (x[0] / 3) ** 2 - 0.5 * (x[1:] ** 2).sum() * wg.exp(-x[0]) - 4.5 * x[0]


def test_a_funnel_warns() -> None:
    with pytest.warns(RuntimeWarning) as caught:
        found = mcmc.sample(funnel, zeros(10), draws=300, tune=300, target=0.5, max_depth=6, key=wg.random.key(0))
    assert any("draws diverged" in str(w.message) for w in caught)
    assert any("reached max_depth=6" in str(w.message) for w in caught)
    assert found.stats["diverging"].sum() > 0
    assert found.stats["depth"].max() == 6
    assert all(os.path.basename(__file__) in w.filename for w in caught)


def test_the_same_key_gives_the_same_draws() -> None:
    make = lambda key: mcmc.sample(bell, zeros(3), draws=30, tune=60, chains=2, key=wg.random.key(key)).draws
    first = make(3)
    assert first.shape == (2, 30, 3)
    np.testing.assert_array_equal(first, make(3))
    assert (first != make(4)).all()
    assert (first[0] != first[1]).all()


def test_no_warm_up_one_chain_and_float32() -> None:
    logp = lambda p: -0.5 * (p[0] ** 2).sum() - p[1] ** 2
    start = [wg.zeros(2), wg.zeros(())]
    found = mcmc.sample(logp, start, draws=5, tune=0, chains=1, max_depth=3, jitter=0.1, key=wg.random.key(0))
    assert [(d.shape, d.dtype) for d in found.draws] == [((1, 5, 2), np.float32), ((1, 5), np.float32)]
    assert found.summary.names == ("x.0[0]", "x.0[1]", "x.1")
    assert found.step_size.tolist() == [1.0]


def test_windows_are_stans() -> None:
    assert windows(1000) == [(75, False), (25, True), (50, True), (100, True), (200, True), (500, True), (50, False)]
    assert windows(100) == [(15, False), (75, True), (10, False)]
    assert windows(10) == [(10, False)]
    assert windows(0) == []
    assert all(sum(length for length, _ in windows(n)) == n for n in range(0, 3000, 7))


def test_moments_and_mass() -> None:
    x = np.random.default_rng(0).normal(size=(200, 3)) @ np.array([[1.0, 0, 0], [2, 1, 0], [0, 0, 5]])
    for is_dense in (False, True):
        moments = no_moments(3, is_dense, wg.float64)
        for row in x:
            moments = with_draw(moments, wg.asarray(row))
        metric = metric_of(type(moments)(*(m.numpy() for m in moments)))
        covariance = np.cov(x.T) if is_dense else x.var(0, ddof=1)
        np.testing.assert_allclose(metric.inverse, covariance, rtol=0.03, atol=0.2)
        if is_dense:
            np.testing.assert_allclose(np.linalg.inv(metric.root @ metric.root.T), metric.inverse, rtol=1e-10)
        else:
            np.testing.assert_allclose(1 / metric.root**2, metric.inverse, rtol=1e-12)


def test_dual_averaging_finds_the_step() -> None:
    state = started(wg.tensor(0.1, dtype=wg.float64))
    for _ in range(2000):
        state = averaged(state, wg.exp(-wg.exp(state.log_step)), 0.8)
    assert float(wg.exp(state.log_average)) == pytest.approx(-np.log(0.8), rel=0.02)


def test_levels_are_those_of_the_recursion() -> None:
    """Each odd leaf completes the balanced parts that end with it; their first leaves are where the table says."""
    keeps, completes = (t.numpy() for t in _levels(6))
    kept: dict[int, int] = {}
    for leaf in range(32):
        for level in np.flatnonzero(keeps[leaf]):
            kept[int(level)] = leaf
        parts = {leaf + 1 - size for size in (2, 4, 8, 16, 32) if (leaf + 1) % size == 0}
        assert {kept[int(level)] for level in np.flatnonzero(completes[leaf])} == parts


def refused(kind: type[Exception], match: str, *args: Any, **options: Any) -> None:
    with pytest.raises(kind, match=match) as caught:
        mcmc.sample(*args, **options)
    assert os.path.basename(__file__) in str(caught.value).splitlines()[0]


def test_refusals() -> None:
    refused(mcmc.SampleError, "no finite logarithm", lambda x: wg.log(-wg.exp(x)).sum(), zeros(2))
    refused(DTypeError, "an initial position of i64", lambda x: x.sum(), wg.zeros(2, dtype=wg.int64))
    refused(DTypeError, "an initial position of no tensor", lambda x: 0.0, ())
    refused(DTypeError, "sample.mass='full'", gaussian, zeros(3), mass="full")
    refused(ShapeError, "the log density .* returned f64", lambda x: -(x**2), zeros(3))
    refused(RangeError, "sample.draws=0", gaussian, zeros(3), draws=0)
    refused(RangeError, "sample.target=1.0", gaussian, zeros(3), target=1.0)


def test_arviz_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = mcmc.sample(bell, zeros(3), draws=30, tune=60, chains=2, key=wg.random.key(3))
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError):
        found.to_arviz()


def test_what_is_trained_outside_is_a_constant() -> None:
    w = wg.tensor([2.0, 3.0, 1.0], dtype=wg.float64, requires_grad=True)
    layer = wg.nn.Linear(3, 1).to(wg.float64)

    def density(x: Any) -> Any:
        return bell(w * x) - 0.5 * layer(x)[0] ** 2

    start = wg.zeros(3, dtype=wg.float64, requires_grad=True)
    found = mcmc.sample(density, start, key=wg.random.key(0), draws=50, tune=50)
    with wg.no_grad():
        again = mcmc.sample(density, zeros(3), key=wg.random.key(0), draws=50, tune=50)
    np.testing.assert_array_equal(found.draws, again.draws)
    assert w.grad is None


def test_densities_are_floating() -> None:
    with pytest.raises(DTypeError, match=r"(?s)the log density <lambda> returned bool\[\].*test_sample.py"):
        mcmc.sample(lambda x: x.sum() > 0, zeros(2))
