"""R-hat and effective sample sizes against ArviZ's numbers, and where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from wengert.core.errors import ShapeError
from wengert.distributions import mcmc

# Chains, draws, autocorrelation and seed; then R-hat, the effective sample sizes for bulk, tail and mean, and the Monte
# Carlo error of the mean, as ArviZ 0.23.4 gave them.
RECORDED = [
    (4, 200, 0.0, 0, 0.99876596, 831.598579473, 816.485369726, 828.201403573, 0.034780486),
    (4, 201, 0.9, 1, 1.158335898, 21.274616459, 64.254237563, 22.522741579, 0.477738536),
    (2, 100, -0.6, 2, 0.998474753, 460.205999133, 140.073678923, 460.205999133, 0.060840983),
    (3, 300, 0.99, 3, 1.749071015, 4.798584219, 12.900226067, 4.75307952, 2.835311429),
    (4, 5, 0.3, 4, 1.037578995, 19.265919722, 19.265919722, 19.265919722, 0.248345846),
]


def series(chains: int, length: int, phi: float, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(chains, length))
    x = noise.copy()
    for t in range(1, length):
        x[:, t] = phi * x[:, t - 1] + noise[:, t]
    return x


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row[0]}x{row[1]} {row[2]}")
def test_as_arviz_has_them(row: tuple[float, ...]) -> None:
    x = series(int(row[0]), int(row[1]), row[2], int(row[3]))
    found = [f(x) for f in (mcmc.rhat, mcmc.ess_bulk, mcmc.ess_tail, mcmc.ess_mean, mcmc.mcse_mean)]
    np.testing.assert_allclose(found, row[4:], rtol=1e-7)


def test_ties_and_several_numbers() -> None:
    counts = np.random.default_rng(0).poisson(1.0, (4, 200, 3, 2))
    for f in (mcmc.rhat, mcmc.ess_bulk, mcmc.ess_tail):
        found = f(counts)
        assert found.shape == (3, 2)
        assert found[1, 1] == f(counts[:, :, 1, 1])


def test_chains_that_differ_in_place_or_width() -> None:
    x = series(4, 400, 0.0, 7)
    assert mcmc.rhat(x) < 1.01
    assert mcmc.rhat(x + np.array([0, 0, 0, 2.0])[:, None]) > 1.1
    assert mcmc.rhat(x * np.array([1, 1, 1, 4.0])[:, None]) > 1.1


def test_where_there_is_no_number() -> None:
    assert np.isnan(mcmc.rhat(np.zeros((4, 3))))
    assert np.isnan(mcmc.ess_bulk(np.array([[1.0, 2.0, np.nan, 3.0]])))
    assert np.isnan(mcmc.rhat(np.ones((4, 100))))
    assert mcmc.ess_mean(np.ones((4, 100))) == 400.0
    assert mcmc.rhat(np.zeros((2, 10, 0))).shape == (0,)
    with pytest.raises(ShapeError, match=r"rhat of draws of shape \(3,\)"):
        mcmc.rhat([1.0, 2.0, 3.0])


def test_chains_that_never_move_have_no_rhat() -> None:
    assert np.isnan(mcmc.rhat(np.full((4, 100), 2.5)))
    found = mcmc.rhat(np.stack([np.full((4, 100), 2.5), np.random.default_rng(0).normal(size=(4, 100))], axis=-1))
    assert np.isnan(found[0])
    assert found[1] < 1.1
