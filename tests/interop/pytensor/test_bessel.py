"""Bessel functions in the mode "WENGERT", against SciPy's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")
pytensor = pytest.importorskip("pytensor", reason="pytensor is an extra")

import pytensor.tensor as pt
import scipy.special

import wengert.interop.pytensor  # noqa: F401 (it registers the mode)


def compiled(build: Any) -> Any:
    x = pt.dvector()
    return pytensor.function([x], build(x), mode="WENGERT")


def test_bessel_functions_of_whole_orders() -> None:
    """Orders 0 to 4 of all sizes, their slopes, and those of other orders."""
    x = np.concatenate([np.linspace(-40, 40, 161), [1e-8, 1e-3, 1.999, 2.001, 24.999, 25.001, 1e5, np.inf, -np.inf]])
    for order, build in [(0, pt.j0), (1, pt.j1), *((n, partial(pt.jv, n)) for n in (-3, -1, 0, 2, 3, 4))]:
        found = compiled(build)(x)
        want = scipy.special.jv(order, x)
        np.testing.assert_allclose(found[:-3], want[:-3], rtol=1e-13, atol=2e-15)
        np.testing.assert_allclose(found[-3], want[-3], rtol=1e-9)
        assert (found[-2:] == 0.0).all()
        small = np.abs(x) < 2
        np.testing.assert_allclose(found[small], want[small], rtol=1e-14, atol=1e-300)
    f = compiled(lambda x: pt.grad((pt.j0(x) + pt.j1(x)).sum(), x))
    np.testing.assert_allclose(f(x[:-2]), scipy.special.jvp(0, x[:-2]) + scipy.special.jvp(1, x[:-2]), atol=3e-15)
    positive = np.abs(x[:-2])
    np.testing.assert_array_equal(compiled(lambda x: pt.jv(0.5, x))(positive), scipy.special.jv(0.5, positive))


def test_modified_functions_of_known_whole_orders() -> None:
    """As PyMC's periodic Hilbert space asks for them: several orders at once, and their slopes."""
    orders = np.arange(24.0)
    x = np.array([1e-6, 0.3, 5.0, 39.9, 40.1, 300.0, 499.0, 501.0, 1e5, -2.0, 0.0])
    found = compiled(lambda x: pt.ive(orders[:, None], x))(x)
    want = scipy.special.ive(orders[:, None], x)
    np.testing.assert_allclose(found, want, rtol=2e-12, atol=1e-300)
    few = np.array([0.0, 2.0, 7.0])
    np.testing.assert_allclose(
        compiled(lambda x: pt.iv(few[:, None], x))(x[:6]), scipy.special.iv(few[:, None], x[:6]), 3e-12
    )
    slopes = compiled(lambda x: pt.grad(pt.ive(orders[:20, None], x).sum(), x))(x[1:6])
    step = 1e-6 * x[1:6]
    sums = [scipy.special.ive(orders[:20, None], x[1:6] + s).sum(0) for s in (step, -step)]
    np.testing.assert_allclose(slopes, (sums[0] - sums[1]) / (2 * step), rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(compiled(lambda x: pt.ive(40, x))(x), scipy.special.ive(40, x))
