"""Functions of tensors in SciPy's optimisers and solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import GradientError
from wengert.interop.scipy import arrays

START = np.full(5, 0.5)


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def ball(x: Any) -> Any:
    return 1.0 - (x * x).sum()


def residuals(x: Any) -> Any:
    return wg.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def test_results_are_arrays_of_their_own() -> None:
    kept = wg.tensor([1.0, 2.0], dtype=wg.float64)
    found = arrays(lambda x: {"a": kept, "b": (x.sum(), None, 3)})(np.ones(2))
    assert type(found["a"]) is np.ndarray
    assert type(found["b"][0]) is np.float64
    assert found["b"][1:] == (None, 3)
    found["a"][0] = 9.0
    assert kept.tolist() == [1.0, 2.0]
    assert arrays(rosenbrock).__name__ == "rosenbrock"


def test_gradients_are_not_lost_in_silence() -> None:
    with pytest.raises(GradientError, match="requires gradients"):
        wg.grad(arrays(rosenbrock))(wg.tensor(START))


@pytest.mark.parametrize("method", ["L-BFGS-B", "SLSQP", "TNC", "BFGS", "CG"])
def test_minimize_with_gradients(method: str) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    apart = optimize.minimize(arrays(rosenbrock), START, jac=arrays(wg.grad(rosenbrock)), method=method)
    both = optimize.minimize(arrays(wg.jit(wg.value_and_grad(rosenbrock))), START, jac=True, method=method)
    for found in (apart, both):
        assert found.success
        assert type(found.x) is np.ndarray
        np.testing.assert_allclose(found.x, 1, atol=2e-3)


@pytest.mark.parametrize("method", ["Newton-CG", "trust-exact", "trust-constr"])
def test_minimize_with_hessians(method: str) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    gradient, hessian = arrays(wg.grad(rosenbrock)), arrays(wg.hessian(rosenbrock))
    found = optimize.minimize(arrays(rosenbrock), START, jac=gradient, hess=hessian, method=method)
    np.testing.assert_allclose(found.x, 1, atol=1e-4)


def test_constraints() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    inside = {"type": "ineq", "fun": arrays(ball), "jac": arrays(wg.grad(ball))}
    gradient = arrays(wg.grad(rosenbrock))
    first = optimize.minimize(arrays(rosenbrock), START, jac=gradient, method="SLSQP", constraints=inside)
    curved = optimize.NonlinearConstraint(
        arrays(ball), 0, np.inf, jac=arrays(wg.grad(ball)), hess=arrays(lambda x, v: v[0] * wg.hessian(ball)(x))
    )
    hessian = arrays(wg.hessian(rosenbrock))
    second = optimize.minimize(
        arrays(rosenbrock), START, jac=gradient, hess=hessian, method="trust-constr", constraints=curved
    )
    np.testing.assert_allclose(first.x, second.x, atol=1e-3)
    assert abs(float(first.x @ first.x) - 1) < 1e-6


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares(method: str) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    found = optimize.least_squares(arrays(residuals), [-1.0, 1.0], jac=arrays(wg.jacobian(residuals)), method=method)
    np.testing.assert_allclose(found.x, 1, atol=1e-8)
