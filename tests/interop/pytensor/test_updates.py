"""Updates of shared variables in the mode "WENGERT": of functions that compile, and of those that PyTensor runs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")
pytensor: Any = pytest.importorskip("pytensor", reason="pytensor is an extra")

import pytensor.tensor as pt
from pytensor.compile.mode import Mode

from wengert.interop.pytensor import Converted

PLAIN = Mode("py", "fast_compile")


def drawn(mode: Any) -> tuple[list[Any], float]:
    generator, total = pytensor.shared(np.random.default_rng(0)), pytensor.shared(0.0)
    after, x = pt.random.normal(0, 5, rng=generator).owner.outputs
    f = pytensor.function([], total + x, updates={generator: after, total: total + 1}, mode=mode)
    return [float(f()) for _ in range(6)], float(total.get_value())


def without_a_rule(mode: Any) -> tuple[list[Any], float]:
    total, v = pytensor.shared(0.0), pt.dvector()
    f = pytensor.function([v], total + pt.unique(v).sum(), updates={total: total + 1}, mode=mode)
    return [float(f(np.array([1.0, 1.0, 2.0]))) for _ in range(6)], float(total.get_value())


def compiled(mode: Any) -> tuple[list[Any], float]:
    total, v = pytensor.shared(0.0), pt.dvector()
    f = pytensor.function([v], total + v.sum(), updates={total: total + 1}, mode=mode)
    assert isinstance(f.vm.jit_fn, Converted) or mode is PLAIN
    return [float(f(np.array([1.0, 1.0, 2.0]))) for _ in range(6)], float(total.get_value())


def swapped(mode: Any) -> tuple[list[Any], float]:
    """Updates are of the values from before the call, whatever order they are written in."""
    a, b = pytensor.shared(1.0), pytensor.shared(2.0)
    _, x = pt.random.normal(0, 5, rng=pytensor.shared(np.random.default_rng(0))).owner.outputs
    f = pytensor.function([], [a, b, x * 0], updates={a: b, b: a + b}, mode=mode)
    return [[float(v) for v in f()] for _ in range(6)], float(a.get_value())


@pytest.mark.parametrize("build", [drawn, without_a_rule, compiled, swapped])
def test_updates(build: Any) -> None:
    found = build("WENGERT")
    wanted = build(PLAIN) if build is not compiled else ([4.0 + k for k in range(6)], 6.0)
    assert found == wanted


def test_copies_of_functions_update_what_they_are_given() -> None:
    generator = pytensor.shared(np.random.default_rng(0))
    after, x = pt.random.normal(0, 5, rng=generator).owner.outputs
    f = pytensor.function([], x, updates={generator: after}, mode="WENGERT")
    other = f.copy(swap={generator: pytensor.shared(np.random.default_rng(0))})
    assert [float(f()) for _ in range(3)] == [float(other()) for _ in range(3)]
    assert float(f()) != float(f())


def test_pymc_draws_and_fits() -> None:
    pymc = pytest.importorskip("pymc", reason="pymc is an extra")

    def found(mode: Any) -> list[Any]:
        with pytensor.config.change_flags(mode=mode), warnings.catch_warnings(), pymc.Model():
            mu = pymc.Normal("mu", 0, 5)
            pymc.Normal("y", mu, 1, observed=[1.0, 2.0])
            prior = pymc.sample_prior_predictive(20, random_seed=1).prior["mu"].values.ravel()
            draws = pymc.draw(mu, 20, random_seed=2)
            fitted = pymc.fit(200, random_seed=3, progressbar=False)
            return [prior, draws, fitted.hist]

    ours = found("WENGERT")
    assert [len(set(x)) for x in ours] == [20, 20, 200]
    for a, b in zip(ours, found(PLAIN), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
