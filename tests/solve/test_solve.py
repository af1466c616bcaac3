"""wg.solve: solutions against closed forms, their derivatives in every mode, and honest failures."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.linalg import LinAlgError
from wengert.solve import ConvergenceError, fixed_point, linear_solve, minimize, root
from wengert.sparse import SparseMatrix

scipy_sparse = pytest.importorskip("scipy.sparse")


def t(*values: Any, **kwargs: Any) -> wg.Tensor:
    return wg.tensor(values[0] if len(values) == 1 else list(values), dtype=wg.float64, **kwargs)


def normal(*shape: int, seed: int = 0, complex: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if complex else x


def dominant(n: int, seed: int = 0, complex: bool = False) -> np.ndarray:
    """A matrix that is not symmetric and well conditioned."""
    return normal(n, n, seed=seed, complex=complex) + 2 * n * np.eye(n)


def definite(n: int, seed: int = 0, complex: bool = False) -> np.ndarray:
    m = normal(n, n, seed=seed, complex=complex)
    return m @ m.conj().T + n * np.eye(n)


def check(fn: Any, *args: Any, rtol: float = 1e-5) -> None:
    """Reverse mode to second order against differences; forward mode, and both mixed, against reverse."""
    # Differences along two directions of each argument: they move all its elements, and see what is not symmetric.
    lines = [t(normal(min(2, np.size(a)), *np.shape(a), seed=8 + i)) for i, a in enumerate(args)]

    def along_lines(*steps: Any) -> Any:
        return fn(*(a + wg.tensordot(s, d, axes=1) for a, s, d in zip(args, steps, lines, strict=True)))

    wg.check_grads(along_lines, [np.zeros(len(d)) for d in lines], order=2, rtol=rtol, atol=rtol)
    ts = tuple(t(normal(*np.shape(a), seed=7)) for a in args)
    args = tuple(t(np.asarray(a)) for a in args)

    def total(*xs: Any) -> Any:
        return wg.sum(fn(*xs) ** 2)

    grads = wg.grad(total, tuple(range(len(args))))
    along = wg.jvp(total, args, ts)[1]
    expected = sum(float((g * d).sum()) for g, d in zip(grads(*args), ts, strict=True))
    np.testing.assert_allclose(float(along), expected, rtol=1e-6, atol=1e-8)
    # Forward over reverse, reverse over forward, reverse over reverse, forward over forward: one number.
    forward_reverse = wg.jvp(grads, args, ts)[1]
    once = sum(float((g * d).sum()) for g, d in zip(forward_reverse, ts, strict=True))
    reverse_forward = wg.grad(lambda *xs: wg.jvp(total, xs, ts)[1], tuple(range(len(args))))(*args)
    twice = wg.grad(
        lambda *xs: sum((g * d).sum() for g, d in zip(grads(*xs), ts, strict=True)), tuple(range(len(args)))
    )(*args)
    along_twice = wg.jvp(lambda *xs: wg.jvp(total, xs, ts)[1], args, ts)[1]
    for found in (reverse_forward, twice):
        np.testing.assert_allclose(
            sum(float((g * d).sum()) for g, d in zip(found, ts, strict=True)), once, rtol=1e-5, atol=1e-7
        )
    np.testing.assert_allclose(float(along_twice), once, rtol=1e-5, atol=1e-7)


OWN_ROOT = ["newton", "newton_krylov"]
SCIPY_ROOT = ["hybr", "lm", "broyden1", "krylov", "df-sane"]
BRACKETED = ["bisect", "chandrupatla", "brentq"]

# -- root


@pytest.mark.parametrize("method", [*OWN_ROOT, *SCIPY_ROOT])
def test_square_root_and_its_derivatives(method: str) -> None:
    def f(a: Any) -> Any:
        return root(lambda x: x * x - a, t(1.5), method=method)

    a = t(3.0)
    np.testing.assert_allclose(float(f(a)), 3**0.5, rtol=1e-9)
    np.testing.assert_allclose(float(wg.grad(f)(a)), 0.5 * 3**-0.5, rtol=1e-9)
    np.testing.assert_allclose(float(wg.grad(wg.grad(f))(a)), -0.25 * 3**-1.5, rtol=1e-9)
    np.testing.assert_allclose(float(wg.grad(wg.grad(wg.grad(f)))(a)), 0.375 * 3**-2.5, rtol=1e-8)
    np.testing.assert_allclose(float(wg.jvp(f, (a,), (t(2.0),))[1]), 3**-0.5, rtol=1e-9)


@pytest.mark.parametrize("method", BRACKETED)
def test_bracketed_square_root(method: str) -> None:
    def f(a: Any) -> Any:
        return root(lambda x: x * x - a, None, method=method, bracket=(0.0, 5.0))

    np.testing.assert_allclose(float(f(t(3.0))), 3**0.5, rtol=1e-9)
    np.testing.assert_allclose(float(wg.grad(f)(t(3.0))), 0.5 * 3**-0.5, rtol=1e-9)
    with pytest.raises(ConvergenceError):
        f(t(30.0))  # no change of sign


@pytest.mark.parametrize("method", ["bisect", "chandrupatla"])
def test_brackets_act_element_by_element_and_take_roots_at_their_ends(method: str) -> None:
    a = t(0.0, 1.0, 2.0, 27.0, 1000.0)
    found = root(lambda x: x**3 - a, None, method=method, bracket=(t(0.0), t(10.0)))
    np.testing.assert_allclose(found.numpy(), np.cbrt(a.numpy()), rtol=1e-8, atol=1e-3)
    falling = root(lambda x: a[1:] - x**3, None, method=method, bracket=(t(0.5), t(20.0)))
    np.testing.assert_allclose(falling.numpy(), np.cbrt(a[1:].numpy()), rtol=1e-9)


def kepler(anomaly: Any, eccentricity: Any, **kwargs: Any) -> Any:
    return root(lambda e, m, k: e - k * wg.sin(e) - m, anomaly, anomaly, eccentricity, **kwargs)


@pytest.mark.parametrize("method", OWN_ROOT)
def test_kepler(method: str) -> None:
    anomaly, eccentricity = t(0.3, 1.0, 2.5), t(0.6)
    e = kepler(anomaly, eccentricity, method=method)
    np.testing.assert_allclose((e - eccentricity * wg.sin(e)).numpy(), anomaly.numpy(), atol=1e-10)
    slope = 1 / (1 - 0.6 * np.cos(e.numpy()))
    jacobian = wg.jacobian(lambda m: kepler(m, eccentricity, method=method))(anomaly)
    np.testing.assert_allclose(jacobian.numpy(), np.diag(slope), atol=1e-9)
    check(lambda m, k: kepler(m, k, method=method), anomaly.numpy(), 0.6)


@pytest.mark.parametrize("linear", ["dense", "gmres", "bicgstab"])
def test_linear_solvers_of_the_derivative(linear: Any) -> None:
    a, b = dominant(4), normal(4, seed=1)
    check(lambda a, b: root(lambda x: a @ x + 0.1 * x**3 - b, np.zeros(4), linear_solver=linear), a, b)


def test_auto_is_matrix_free_for_many_unknowns() -> None:
    b = t(normal(400))

    def f(b: Any) -> Any:
        return root(lambda x: x + 0.1 * x**3 - b, wg.zeros(400, dtype=wg.float64), method="newton_krylov").sum()

    x = root(lambda x: x + 0.1 * x**3 - b, wg.zeros(400, dtype=wg.float64)).numpy()
    np.testing.assert_allclose(wg.grad(f)(b).numpy(), 1 / (1 + 0.3 * x**2), rtol=1e-8)


def test_nests_and_structured_arguments() -> None:
    def f(x: Any, p: Any) -> Any:
        return x["u"] * p["k"] - x["v"].sum(), (x["v"] - p["c"] * x["u"]) ** 3 + x["v"] - 1.0

    x0 = {"u": 0.5, "v": np.zeros((2, 1))}

    def solved(k: Any, c: Any) -> Any:
        x = root(f, x0, {"k": k, "c": c})
        assert set(x) == {"u", "v"}
        assert (x["u"].shape, x["v"].shape, x["v"].dtype) == ((), (2, 1), wg.float64)
        return wg.concat([x["u"].reshape((1,)), x["v"].reshape((2,))])

    x = root(f, x0, {"k": t(3.0), "c": t([[0.1], [0.2]])})
    first, second = f(x, {"k": t(3.0), "c": t([[0.1], [0.2]])})
    np.testing.assert_allclose(first.numpy(), 0, atol=1e-9)
    np.testing.assert_allclose(second.numpy(), 0, atol=1e-9)
    check(solved, 3.0, np.array([[0.1], [0.2]]))


def test_no_unknowns() -> None:
    assert root(lambda x: x * 2.0, np.zeros(0)).shape == (0,)
    assert fixed_point(lambda x: x * 2.0, np.zeros((0, 3))).shape == (0, 3)
    assert linear_solve(lambda x: x * 2.0, np.zeros(0), "cg").shape == (0,)
    assert linear_solve(lambda x: x * 2.0, np.zeros(0), "dense").shape == (0,)
    assert linear_solve(SparseMatrix(np.zeros(0), [], [0], (0, 0)), np.zeros(0)).shape == (0,)
    assert minimize(lambda x: x.sum(), np.zeros(0)).shape == (0,)


# -- what the function uses from outside


def test_closures_get_gradients() -> None:
    w = t(2.0, requires_grad=True)
    shift = w * w  # tracked, not a leaf
    layer = wg.nn.Linear(2, 2)
    layer.to(wg.float64)
    with wg.no_grad():
        layer.weight.copy_(wg.tensor([[0.1, 0.2], [-0.1, 0.3]], dtype=wg.float64))
    x = fixed_point(lambda x: wg.tanh(layer(x)) + shift, np.zeros(2))
    x.sum().backward()

    def explicit(w: Any, weight: Any, bias: Any) -> Any:
        x = np.zeros(2)
        for _ in range(200):
            x = wg.tanh(weight @ x + bias) + w * w
        return x.sum()

    expected = wg.grad(explicit, (0, 1, 2))(w.detach(), layer.weight.detach(), layer.bias.detach())
    for found, e in zip((w.grad, layer.weight.grad, layer.bias.grad), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), e.numpy(), rtol=1e-8)


def test_closures_of_transforms_inside_and_outside() -> None:
    def f(a: Any) -> Any:
        b = wg.exp(a)
        return root(lambda x: x**3 + x - b, t(1.0)) * a

    check(f, 0.7)
    np.testing.assert_allclose(
        wg.vmap(wg.grad(f))(t(0.2, 0.7)).numpy(), [float(wg.grad(f)(t(a))) for a in (0.2, 0.7)], rtol=1e-9
    )
    np.testing.assert_allclose(float(wg.graph(wg.grad(f))(t(0.7))(t(0.2))), float(wg.grad(f)(t(0.2))), rtol=1e-9)


def test_a_function_that_asks_for_values_runs_and_keeps_its_arguments_gradients() -> None:
    def f(x: Any, a: Any) -> Any:
        return x * x - a if x > 0 else -x - a

    def solved(a: Any) -> Any:
        return root(f, t(1.0), a)

    check(solved, 3.0)
    w = t(3.0, requires_grad=True)
    with pytest.raises(wg.GradientError, match="asks for values"):
        root(lambda x: f(x, w), t(1.0))
    with pytest.raises(wg.TraceError):
        wg.graph(solved)(t(3.0))


def test_random_numbers_are_refused() -> None:
    with pytest.raises(wg.GraphError, match="random"):
        fixed_point(lambda x: 0.5 * x + wg.rand(2), np.zeros(2))


def test_nothing_flows_to_the_start() -> None:
    assert float(wg.grad(lambda s: root(lambda x: x * x - 2.0, s))(t(1.0))) == 0
    x0 = t(1.0, requires_grad=True)
    assert not root(lambda x: x * x - 2.0, x0).requires_grad


def test_a_solver_inside_a_solver() -> None:
    def inner(a: Any) -> Any:
        return root(lambda x: x**3 + x - a, t(0.5))

    def outer(b: Any) -> Any:
        return root(lambda a: inner(a) * a - b, t(1.0))

    check(outer, 0.8)


# -- fixed points


@pytest.mark.parametrize("method", ["iterate", "anderson"])
@pytest.mark.parametrize("linear", ["dense", "gmres"])
def test_deep_equilibrium(method: str, linear: Any) -> None:
    w, x, b = 0.3 * normal(3, 3), normal(3, seed=1), normal(3, seed=2)

    def f(w: Any, x: Any, b: Any) -> Any:
        step = lambda z, w, x, b: wg.tanh(w @ z + x + b)
        return fixed_point(step, np.zeros(3), w, x, b, method=method, linear_solver=linear, tol=1e-13)

    z = f(t(w), t(x), t(b)).numpy()
    np.testing.assert_allclose(np.tanh(w @ z + x + b), z, atol=1e-12)
    d = np.diag(1 - z**2)
    np.testing.assert_allclose(
        wg.jacobian(lambda b: f(t(w), t(x), b))(t(b)).numpy(), np.linalg.solve(np.eye(3) - d @ w, d), atol=1e-9
    )
    check(f, w, x, b)


def test_anderson_is_faster_and_solves_what_does_not_contract() -> None:
    a, b = t(definite(6) / 20), t(normal(6, seed=1))
    slow = fixed_point(lambda x: a @ x + b, np.zeros(6), info=True)[1].steps
    fast = fixed_point(lambda x: a @ x + b, np.zeros(6), method="anderson", info=True)[1].steps
    assert int(fast) < int(slow) / 2
    x = fixed_point(lambda x: -2.0 * x + 3.0, t(0.0), method="anderson")
    np.testing.assert_allclose(float(x), 1.0, rtol=1e-9)
    with pytest.raises(ConvergenceError, match="did not converge"):
        fixed_point(lambda x: -2.0 * x + 3.0, t(0.0))


# -- minimisers

OWN_MINIMIZE = ["lbfgs", "bfgs", "newton", "gradient"]
SLSQP = pytest.param("SLSQP", marks=pytest.mark.slow)


@pytest.mark.parametrize("method", [*OWN_MINIMIZE, "BFGS", "L-BFGS-B", "CG", "Newton-CG", "trust-ncg", "TNC", SLSQP])
def test_ridge_regression_against_normal_equations(method: str) -> None:
    x, y = t(normal(12, 3)), t(normal(12, seed=1))

    def fitted(x: Any, y: Any, penalty: Any) -> Any:
        loss = lambda w: ((x @ w - y) ** 2).sum() + penalty * (w**2).sum()
        return minimize(loss, np.zeros(3), method=method)

    def exact(x: Any, y: Any, penalty: Any) -> Any:
        return wg.linalg.solve(x.mT @ x + penalty * wg.eye(3, dtype=wg.float64), x.mT @ y)

    args = x, y, t(0.5)
    np.testing.assert_allclose(fitted(*args).numpy(), exact(*args).numpy(), rtol=1e-6, atol=1e-8)
    for found, e in zip(
        wg.grad(lambda *a: fitted(*a).sum(), (0, 1, 2))(*args), wg.grad(lambda *a: exact(*a).sum(), (0, 1, 2))(*args)
    ):
        np.testing.assert_allclose(found.numpy(), e.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ["lbfgs", "bfgs", "newton"])
@pytest.mark.parametrize("n", [2, 7])
def test_rosenbrock(method: str, n: int) -> None:
    def f(x: Any) -> Any:
        return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    start = np.where(np.arange(n) % 2, 1.0, -1.2)
    x, info = minimize(f, t(start), method=method, info=True)
    assert bool(info.converged)
    assert int(info.steps) < 120
    np.testing.assert_allclose(wg.grad(f)(x).numpy(), 0, atol=3e-8)
    if n == 2:
        np.testing.assert_allclose(x.numpy(), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "linear"),
    [
        *((method, "dense") for method in OWN_MINIMIZE),
        # What solves for the derivative does not know which method found the minimum.
        *(pytest.param(method, "cg", marks=pytest.mark.slow if method != "bfgs" else []) for method in OWN_MINIMIZE),
    ],
)
def test_minimisers_differentiate_twice(method: str, linear: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        loss = lambda x: (wg.exp(a * x) - b * x + 0.5 * x**2).sum() + 0.1 * x.sum() ** 2
        return minimize(loss, np.zeros(3), method=method, tol=1e-11, linear_solver=linear)

    check(f, np.array([0.5, 1.0, 1.5]), np.array([1.0, 2.0, 3.0]))


def test_bilevel_hyperparameter_gradient() -> None:
    x, y, xv, yv = t(normal(10, 3)), t(normal(10, seed=1)), t(normal(5, 3, seed=2)), t(normal(5, seed=3))

    def validation(log_penalty: Any) -> Any:
        penalty = wg.exp(log_penalty)
        w = minimize(lambda w: ((x @ w - y) ** 2).sum() + penalty * (w**2).sum(), np.zeros(3), tol=1e-11)
        return ((xv @ w - yv) ** 2).mean()

    check(validation, 0.3)


def test_saddles_and_negative_curvature_are_left() -> None:
    def f(x: Any) -> Any:
        return x[0] ** 4 - x[0] ** 2 + x[1] ** 2

    for method in OWN_MINIMIZE:
        x = minimize(f, t(0.01, 1.0), method=method).numpy()
        np.testing.assert_allclose(abs(x), [0.5**0.5, 0], atol=1e-6)


# -- linear systems

KRYLOV = ["gmres", "bicgstab"]


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("method", ["dense", *KRYLOV, "cg"])
def test_matrices_and_functions(method: Any, complex: bool) -> None:
    a = (definite if method == "cg" else dominant)(5, complex=complex)
    b = normal(5, seed=1, complex=complex)
    expected = np.linalg.solve(a, b)
    m = wg.tensor(a)
    np.testing.assert_allclose(linear_solve(m, b, method).numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(linear_solve(lambda x: m @ x, b, method).numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("method", ["dense", *KRYLOV, "cg"])
def test_linear_derivatives(method: Any) -> None:
    b = normal(4, seed=1)
    symmetric = (lambda a: a + a.mT) if method == "cg" else (lambda a: a)
    a = definite(4) if method == "cg" else dominant(4)
    check(lambda a, b: linear_solve(symmetric(a), b, method, tol=1e-13), a, b)
    check(lambda a, b: linear_solve(lambda x: symmetric(a) @ x, b, method, tol=1e-13), a, b)


@pytest.mark.parametrize("method", ["dense", *KRYLOV, "cg", "sparse"])
def test_complex_derivatives_are_those_of_the_dense_solve(method: Any) -> None:
    a = (definite if method == "cg" else dominant)(3, complex=True)
    b = normal(3, seed=1, complex=True)
    weights = wg.tensor(normal(3, seed=2, complex=True))

    def loss(x: Any) -> Any:
        return abs((weights * x**2).sum()) ** 2

    def sparse(a: Any, b: Any) -> Any:
        rows, columns = np.divmod(np.arange(9), 3)
        return linear_solve(SparseMatrix.from_coo(a.reshape((9,)), rows, columns, (3, 3)), b)

    solve = sparse if method == "sparse" else (lambda a, b: linear_solve(lambda x: a @ x, b, method, tol=1e-13))
    found = wg.grad(lambda a, b: loss(solve(a, b)), (0, 1))(wg.tensor(a), wg.tensor(b))
    expected = wg.grad(lambda a, b: loss(wg.linalg.solve(a, b)), (0, 1))(wg.tensor(a), wg.tensor(b))
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=1e-8, atol=1e-12)
    ts = wg.tensor(normal(3, 3, seed=4, complex=True)), wg.tensor(normal(3, seed=5, complex=True))
    np.testing.assert_allclose(
        wg.jvp(solve, (wg.tensor(a), wg.tensor(b)), ts)[1].numpy(),
        wg.jvp(wg.linalg.solve, (wg.tensor(a), wg.tensor(b)), ts)[1].numpy(),
        rtol=1e-8,
    )


def poisson(n: int) -> Any:
    return scipy_sparse.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1]).tocsr()


@pytest.mark.parametrize("method", ["sparse", "cg", "gmres", "bicgstab", "dense"])
def test_sparse_matrices(method: Any) -> None:
    m = poisson(6)
    b = normal(6)
    expected = np.linalg.solve(m.toarray(), b)
    np.testing.assert_allclose(linear_solve(m, b, method).numpy(), expected, rtol=1e-8)

    def f(data: Any, b: Any) -> Any:
        return linear_solve(SparseMatrix(data, m.indices, m.indptr, m.shape), b, method, tol=1e-13)

    if method != "cg":  # a pattern's elements apart are not symmetric
        check(f, m.data, b)


def test_sparse_products_and_several_right_hand_sides() -> None:
    rng = np.random.default_rng(0)
    m = scipy_sparse.random_array((5, 4), density=0.5, rng=rng).tocsr()
    a = SparseMatrix(m.data, m.indices, m.indptr, m.shape)
    np.testing.assert_allclose(a.todense().numpy(), m.toarray())
    np.testing.assert_allclose(a.T.todense().numpy(), m.toarray().T)
    np.testing.assert_allclose((a @ t(normal(4, 3))).numpy(), m @ normal(4, 3))
    p, b = poisson(5), normal(5, 3)
    square = SparseMatrix.from_scipy(p)
    np.testing.assert_allclose(linear_solve(square, b).numpy(), np.linalg.solve(p.toarray(), b), rtol=1e-9)
    check(lambda d, b: linear_solve(square.with_data(d), b), p.tocoo().data, b)


def test_one_factorisation_serves_solution_tangent_and_adjoint() -> None:
    m = poisson(8)
    a = SparseMatrix.from_scipy(m)
    data = a.data.numpy()

    def f(d: Any) -> Any:
        return (linear_solve(a.with_data(d), wg.ones(8, dtype=wg.float64)) ** 2).sum()

    wg.jvp(wg.grad(f), (t(data),), (t(data),))
    assert a._factors.made == 1
    f(t(2 * data))
    assert a._factors.made == 2


def test_preconditioners() -> None:
    n = 60
    scale = np.logspace(0, 5, n)
    a = t(definite(n) / n * np.sqrt(scale[:, None] * scale[None, :]))
    diagonal = wg.linalg.diagonal(a)
    b = t(normal(n))
    expected = np.linalg.solve(a.numpy(), b.numpy())
    for method in ("cg", "gmres", "bicgstab"):
        x, info = linear_solve(
            lambda x: a @ x, b, method, preconditioner=lambda r: r / diagonal, tol=1e-12, max_steps=500, info=True
        )
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-5, atol=1e-9 * abs(expected).max())
        plain = linear_solve(lambda x: a @ x, b, method, tol=1e-12, max_steps=500, info=True, error=False)[1]
        assert int(info.steps) < int(plain.steps)
    for method in ("cg", "gmres"):

        def total(d: Any, method: Any = method) -> Any:
            return linear_solve(lambda x: d * x, b, method, preconditioner=lambda r: r / d, tol=1e-13).sum()

        np.testing.assert_allclose(wg.grad(total)(t(scale)).numpy(), -b.numpy() / scale**2, rtol=1e-8)


def test_linear_nests() -> None:
    def f(k: Any, u: Any, v: Any) -> Any:
        x = linear_solve(lambda x: (k * x[0] + x[1].sum(), 3.0 * x[1] + x[0]), (u, v), tol=1e-13)
        return wg.concat([x[0].reshape((1,)), x[1]])

    check(f, 4.0, 1.0, np.array([1.0, 2.0]))


# -- transforms


@pytest.mark.parametrize("method", ["newton", pytest.param("newton_krylov", marks=pytest.mark.slow), "hybr"])
def test_vmap_of_roots(method: str) -> None:
    def f(a: Any, b: Any) -> Any:
        return root(lambda x: wg.stack([x[0] ** 2 + x[1] - a, x[1] * b - x[0]]), t(1.0, 1.0), method=method)

    a, b = t(1.0, 2.0, 5.0), t(2.0)
    one_by_one = np.stack([f(x, b).numpy() for x in a])
    np.testing.assert_allclose(wg.vmap(f, in_axes=(0, None))(a, b).numpy(), one_by_one, rtol=1e-8)
    grads = [wg.grad(lambda a, b: f(a, b).sum(), (0, 1))(x, b) for x in a]
    mapped = wg.vmap(wg.grad(lambda a, b: f(a, b).sum(), (0, 1)), in_axes=(0, None))(a, b)
    np.testing.assert_allclose(mapped[0].numpy(), [float(g[0]) for g in grads], rtol=1e-8)
    np.testing.assert_allclose(mapped[1].numpy(), [float(g[1]) for g in grads], rtol=1e-8)
    # The gradient of the sum over examples: shared arguments collect all of them.
    total = wg.grad(lambda a, b: wg.vmap(f, in_axes=(0, None))(a, b).sum(), (0, 1))(a, b)
    np.testing.assert_allclose(total[0].numpy(), [float(g[0]) for g in grads], rtol=1e-8)
    np.testing.assert_allclose(float(total[1]), sum(float(g[1]) for g in grads), rtol=1e-8)
    check(lambda a, b: wg.vmap(f, in_axes=(0, None))(a, b), a.numpy(), 2.0)


def test_vmap_of_vmap() -> None:
    def f(a: Any, b: Any) -> Any:
        return root(lambda x: x**3 + b * x - a, t(1.0))

    a, b = t(1.0, 2.0), t(0.5, 1.0, 2.0)
    table = wg.vmap(lambda x: wg.vmap(lambda y: f(x, y))(b))(a)
    np.testing.assert_allclose(table.numpy(), [[float(f(x, y)) for y in b] for x in a], rtol=1e-9)
    mixed = wg.grad(lambda a, b: wg.vmap(lambda x: wg.vmap(lambda y: f(x, y))(b))(a).sum(), (0, 1))(a, b)
    exact = wg.grad(lambda a, b: sum(f(x, y) for x in a for y in b), (0, 1))(a, b)
    for found, e in zip(mixed, exact, strict=True):
        np.testing.assert_allclose(found.numpy(), e.numpy(), rtol=1e-9)


@pytest.mark.parametrize("solver", ["iterate", "anderson", "lbfgs", "bfgs", "newton", "gradient", "Newton-CG"])
def test_vmap_of_the_others(solver: str) -> None:
    def f(a: Any) -> Any:
        if solver in ("iterate", "anderson"):
            return fixed_point(lambda x: wg.cos(a * x), t(0.5, 0.1), method=solver).sum()
        return minimize(lambda x: (wg.cosh(x - a) + 0.1 * x**2).sum(), t(0.0, 1.0), method=solver, tol=1e-8).sum()

    a = t(0.3, 0.8)
    np.testing.assert_allclose(wg.vmap(f)(a).numpy(), [float(f(x)) for x in a], rtol=1e-7)
    np.testing.assert_allclose(wg.vmap(wg.grad(f))(a).numpy(), [float(wg.grad(f)(x)) for x in a], rtol=1e-6)


@pytest.mark.parametrize("method", ["dense", "gmres", "bicgstab", "cg", "sparse"])
def test_vmap_of_linear_systems(method: Any) -> None:
    m = poisson(4)
    a = SparseMatrix.from_scipy(m)
    b = t(normal(3, 4))

    def f(d: Any, b: Any) -> Any:
        if method == "sparse":
            return linear_solve(a.with_data(d * a.data), b)
        return linear_solve(lambda x: d * (a @ x), b, method, tol=1e-12)

    d = t(1.0, 2.0, 3.0)
    np.testing.assert_allclose(
        wg.vmap(f)(d, b).numpy(), np.stack([f(x, y).numpy() for x, y in zip(d, b)]), rtol=1e-8, atol=1e-10
    )
    grads = wg.vmap(wg.grad(lambda d, b: (f(d, b) ** 2).sum(), (0, 1)))(d, b)
    expected = [wg.grad(lambda d, b: (f(d, b) ** 2).sum(), (0, 1))(x, y) for x, y in zip(d, b)]
    np.testing.assert_allclose(grads[0].numpy(), [float(g[0]) for g in expected], rtol=1e-7)
    np.testing.assert_allclose(grads[1].numpy(), np.stack([g[1].numpy() for g in expected]), rtol=1e-7, atol=1e-9)


CASES = {
    "newton": lambda a: root(lambda x: x**3 + x - a, t(1.0)),
    "newton_krylov": lambda a: root(lambda x: x**3 + x - a, t(1.0), method="newton_krylov", linear_solver="gmres"),
    "chandrupatla": lambda a: root(lambda x: x**3 + x - a, None, method="chandrupatla", bracket=(0.0, 9.0)),
    "bisect": lambda a: root(lambda x: x**3 + x - a, None, method="bisect", bracket=(0.0, 9.0)),
    "hybr": lambda a: root(lambda x: x**3 + x - a, t(1.0), method="hybr"),
    "iterate": lambda a: fixed_point(lambda x: wg.cos(x) * a, t(1.0)),
    "anderson": lambda a: fixed_point(lambda x: wg.cos(x) * a, t(1.0), method="anderson"),
    "lbfgs": lambda a: minimize(lambda x: wg.cosh(x - a) + x**2, t(1.0), tol=1e-10),
    "newton minimize": lambda a: minimize(lambda x: wg.cosh(x - a) + x**2, t(1.0), method="newton", tol=1e-10),
    "cg": lambda a: linear_solve(lambda x: a * x, t(1.0, 2.0), "cg").sum(),
    "gmres": lambda a: linear_solve(lambda x: a * x, t(1.0, 2.0), "gmres").sum(),
    "sparse": lambda a: linear_solve(SparseMatrix(a * t(1.0, 2.0), [0, 1], [0, 1, 2], (2, 2)), t(1.0, 2.0)).sum(),
}


@pytest.mark.parametrize("case", CASES)
def test_traced_graphs_run_differentiate_and_open(case: str) -> None:
    f = CASES[case]
    a, b = t(0.9), t(0.7)
    graph = wg.graph(f)(a)
    np.testing.assert_allclose(float(graph(b)), float(f(b)), rtol=1e-9)
    np.testing.assert_allclose(float(wg.grad(graph)(b)), float(wg.grad(f)(b)), rtol=1e-7)
    np.testing.assert_allclose(float(wg.graph(wg.grad(f))(a)(b)), float(wg.grad(f)(b)), rtol=1e-7)
    opened = lambda: graph.expand()
    if case in ("hybr", "sparse"):
        with pytest.raises(wg.TraceError, match="cannot be traced"):
            opened()
    else:
        inside = opened()
        assert any(n.op.name == "while_loop" for n in inside.nodes)
        np.testing.assert_allclose(float(inside(b)), float(f(b)), rtol=1e-9)


# -- failures


def test_what_does_not_converge_is_an_error_or_says_so() -> None:
    with pytest.raises(ConvergenceError, match="root did not converge: residual"):
        root(lambda x: x * x + 1.0, t(1.0))
    x, info = root(lambda x: x * x + 1.0, t(1.0), error=False, info=True)
    assert not bool(info.converged)
    assert x.isfinite()
    with pytest.raises(ConvergenceError, match="after 2 steps"):
        root(lambda x: wg.exp(x) - 2.0, t(3.0), max_steps=2)
    for method in ("hybr", "lm", "krylov"):
        with pytest.raises(ConvergenceError):
            root(lambda x: x * x + 1.0, t(1.0), method=method)
    with pytest.raises(ConvergenceError):
        minimize(lambda x: wg.exp(x), t(0.0), max_steps=5)
    for method in OWN_MINIMIZE:
        with pytest.raises(ConvergenceError):
            minimize(lambda x: -x * x, t(1.0), method=method, max_steps=50)


def test_nan_is_not_a_solution() -> None:
    for method in ("newton", "newton_krylov"):
        with pytest.raises((ConvergenceError, LinAlgError)):
            root(lambda x: x * np.nan, t(1.0), method=method)
    with pytest.raises(ConvergenceError):
        fixed_point(lambda x: x * np.nan, t(1.0))
    with pytest.raises(ConvergenceError):
        minimize(lambda x: x * np.nan, t(1.0))
    for method in ("cg", "gmres", "bicgstab"):
        with pytest.raises(ConvergenceError):
            linear_solve(lambda x: 2.0 * x, t(1.0, np.nan), method)


def test_one_example_that_fails_is_named() -> None:
    f = lambda a: root(lambda x: x * x - a, t(1.0))
    with pytest.raises(ConvergenceError, match="1 of 3"):
        wg.vmap(f)(t(1.0, -1.0, 4.0))
    g = lambda a: root(lambda x: x * x - a, t(1.0), error=False, info=True)
    x, info = wg.vmap(g)(t(1.0, -1.0, 4.0))
    assert info.converged.numpy().tolist() == [True, False, True]
    np.testing.assert_allclose(x.numpy()[[0, 2]], [1, 2])


def test_an_opened_graph_gives_nan_where_it_does_not_converge() -> None:
    graph = wg.graph(lambda a: root(lambda x: x * x - a, t(1.0)))(t(1.0))
    with pytest.raises(ConvergenceError):
        graph(t(-1.0))
    assert np.isnan(float(graph.expand()(t(-1.0))))


def test_line_search_keeps_inside_the_domain() -> None:
    np.testing.assert_allclose(float(root(lambda x: wg.log(x), t(8.0))), 1.0, rtol=1e-10)
    np.testing.assert_allclose(float(root(lambda x: wg.atan(x), t(20.0))), 0.0, atol=1e-10)
    np.testing.assert_allclose(float(minimize(lambda x: x - wg.log(x), t(20.0))), 1.0, rtol=1e-7)


def test_singular_systems() -> None:
    singular = t([[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(LinAlgError):
        linear_solve(singular, t(1.0, 0.0))
    for method in ("gmres", "bicgstab", "cg"):
        with pytest.raises(ConvergenceError):
            linear_solve(singular, t(1.0, 0.0), method)
    with pytest.raises(LinAlgError, match="singular"):
        linear_solve(SparseMatrix.from_scipy(scipy_sparse.csr_array(singular.numpy())), t(1.0, 0.0))
    with pytest.raises(ConvergenceError):
        linear_solve(lambda x: -x, t(1.0, 2.0), "cg")
    # A double root has no derivative.
    with pytest.raises(LinAlgError):
        wg.grad(lambda a: root(lambda x: x * (x - a), t(0.0)))(t(0.0))


def test_skew_systems_by_gmres_and_ill_conditioned_ones() -> None:
    np.testing.assert_allclose(linear_solve(t([[0.0, 1.0], [-1.0, 0.0]]), t(1.0, 2.0), "gmres").numpy(), [-2, 1])
    n = 12
    hilbert = t(1 / (np.arange(n)[:, None] + np.arange(n) + 1.0))
    x = linear_solve(hilbert, t(np.ones(n)), "cg", max_steps=10_000, error=False, info=True)
    residual = np.linalg.norm(hilbert.numpy() @ x[0].numpy() - 1)
    np.testing.assert_allclose(float(x[1].residual), residual, rtol=1e-6)
    assert bool(x[1].converged) == (residual <= 2.2e-16 ** (2 / 3) * n**0.5)


def test_float32_has_its_own_tolerance() -> None:
    x, info = root(lambda x: wg.exp(x) - 3.0, wg.tensor([1.0, 2.0]), info=True)
    assert x.dtype == wg.float32
    assert info.residual.dtype == wg.float32
    np.testing.assert_allclose(x.numpy(), np.log(3), rtol=1e-5)
    a = wg.tensor(definite(20).astype(np.float32))
    b = wg.ones(20)
    for method in ("cg", "gmres", "bicgstab"):
        found = linear_solve(a, b, method)
        assert found.dtype == wg.float32
        np.testing.assert_allclose(found.numpy(), np.linalg.solve(a.numpy(), b.numpy()), rtol=1e-3, atol=1e-5)
    assert minimize(lambda x: ((x - 2.0) ** 4 + (x - 2.0) ** 2).sum(), wg.zeros(3)).dtype == wg.float32
    # The wider dtype of the function's result is the solution's.
    assert root(lambda x: x - t(2.0), 1.0).dtype == wg.float64


def test_large_and_small_scales() -> None:
    for scale in (1e-6, 1.0, 1e6):
        found = root(lambda x, s=scale: s * (wg.exp(x) - 3.0), t(1.0), tol=1e-11 * max(scale, 1e-3))
        np.testing.assert_allclose(float(found), np.log(3), rtol=1e-6)
    np.testing.assert_allclose(float(root(lambda x: 1e9 * (wg.exp(x) - 3.0), t(1.0))), np.log(3), rtol=1e-10)


def test_without_scipy_its_methods_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scipy", "scipy.optimize", "scipy.sparse", "scipy.sparse.linalg"):
        monkeypatch.setitem(sys.modules, name, None)
    a = SparseMatrix(t(1.0, 2.0), [0, 1], [0, 1, 2], (2, 2))
    for call in (
        lambda: root(lambda x: x, t(1.0), method="hybr"),
        lambda: minimize(lambda x: x * x, t(1.0), method="BFGS"),
        lambda: linear_solve(a, t(1.0, 2.0)),
    ):
        with pytest.raises(ImportError, match=r"wengert\[solve\]"):
            call()
    np.testing.assert_allclose(linear_solve(a, t(1.0, 2.0), "gmres").numpy(), 1)
    np.testing.assert_allclose(float(root(lambda x: x - 1.0, t(3.0))), 1)


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda: root(lambda x: x, t(1.0), method="magic"), wg.GraphError, "magic"),
        (lambda: root(lambda x: x[:1], t(1.0, 2.0)), wg.ShapeError, "1 equations in 2 unknowns"),
        (lambda: root(lambda x: x, wg.tensor(1j)), wg.DTypeError, "complex"),
        (lambda: root(lambda x: x, wg.tensor(1.0, dtype=wg.float16)), wg.DTypeError, "float16"),
        (lambda: root(lambda x: x > 0, t(1.0)), wg.DTypeError, "bool"),
        (lambda: root(lambda x: x, t(1.0), bracket=(0, 1)), wg.GraphError, "with a bracket"),
        (lambda: root(lambda x: x, t(1.0), method="bisect"), wg.GraphError, "without a bracket"),
        (lambda: root(lambda x: x, "one"), wg.DTypeError, "str"),
        (lambda: root(lambda x: x, t(1.0), linear_solver="x"), wg.GradientError, "linear_solver"),
        (lambda: fixed_point(lambda x: x[:1], t(1.0, 2.0)), wg.ShapeError, "returns"),
        (lambda: minimize(lambda x: x, t(1.0, 2.0)), wg.ShapeError, "scalar"),
        (lambda: linear_solve(lambda x: x[:1], t(1.0, 2.0)), wg.ShapeError, "pytree like b"),
        (lambda: linear_solve(t(np.ones((2, 3))), t(1.0, 2.0)), wg.ShapeError, "square|fit"),
        (lambda: linear_solve(t(np.eye(2)), t(1.0, 2.0), "sparse"), wg.GraphError, "sparse"),
        (lambda: SparseMatrix(t(1.0, 2.0), [0, 5], [0, 1, 2], (2, 2)), wg.ShapeError, "outside"),
        (lambda: SparseMatrix(t(1.0), [0, 1], [0, 1, 2], (2, 2)), wg.ShapeError, "data"),
        (lambda: SparseMatrix(wg.tensor([1, 2]), [0, 1], [0, 1, 2], (2, 2)), wg.DTypeError, "floating"),
    ],
)
def test_errors_name_what_is_wrong(call: Any, kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        call()


def test_sparse_derivatives_and_checkpoints_go_through_solvers() -> None:
    f = lambda a: root(lambda x: x**3 + x - a, t(1.0, 1.0))
    a = t(2.0, 3.0)
    expected = wg.jacobian(f)(a).numpy()
    np.testing.assert_allclose(wg.sparse.jacobian(f)(a).toarray(), expected)
    np.testing.assert_allclose(wg.grad(lambda a: wg.checkpoint(f)(a).sum())(a).numpy(), expected.sum(0))
    assert wg.graph(f)(a).structural_hash == wg.graph(f)(a).structural_hash


def test_solvers_record_nothing_of_their_steps() -> None:
    a = t(2.0, requires_grad=True)
    x = root(lambda x: x * x - a, t(1.0))
    nodes = wg.Graph.of(x).nodes
    assert sum(n.op.name == "root" for n in nodes) == 1
    assert len(nodes) < 6
    with wg.no_grad():
        assert not root(lambda x: x * x - a, t(1.0)).requires_grad


def test_minima_far_from_zero_and_functions_without_any() -> None:
    for method in ("lbfgs", "bfgs", "newton"):
        found = minimize(lambda x: ((x - 1e6) ** 2).sum() * 3.0, t(0.0, 2e6), method=method)
        np.testing.assert_allclose(found.numpy(), 1e6, rtol=1e-10)
        with pytest.raises(ConvergenceError):
            minimize(lambda x: -(x**4).sum(), t(1.0, 2.0), method=method)


def test_starts_and_brackets_may_be_mapped_and_traced() -> None:
    starts = t(1.0, 5.0, -1.0)
    f = lambda s, a: root(lambda x: x * x - a, s)
    found = wg.vmap(f, in_axes=(0, None))(starts, t(2.0))
    np.testing.assert_allclose(found.numpy(), np.sign(starts.numpy()) * 2**0.5, rtol=1e-9)
    grads = wg.grad(lambda s, a: wg.vmap(f, in_axes=(0, None))(s, a).sum(), (0, 1))(starts, t(2.0))
    np.testing.assert_allclose(grads[0].numpy(), 0)
    np.testing.assert_allclose(float(grads[1]), 0.5 / 2**0.5, rtol=1e-9)
    g = lambda high: root(lambda x: x * x - 2.0, None, method="chandrupatla", bracket=(0.0, high))
    np.testing.assert_allclose(wg.vmap(g)(t(2.0, 5.0, 50.0)).numpy(), 2**0.5, rtol=1e-9)
    np.testing.assert_allclose(float(wg.graph(g)(t(2.0))(t(7.0))), 2**0.5, rtol=1e-9)


def test_arguments_of_other_kinds() -> None:
    w = t(3.0, 4.0, 5.0)

    def f(w: Any) -> Any:
        return root(lambda x, i, name, k: x**3 - w[i] * k, np.ones(2), wg.tensor([2, 0]), "name", 2)

    np.testing.assert_allclose(f(w).numpy(), np.cbrt([10.0, 6.0]), rtol=1e-9)
    check(f, w.numpy())
    c = wg.tensor(1.0 + 2.0j)
    g = wg.grad(lambda c: root(lambda x: x - abs(c) ** 2, t(1.0)))(c)
    np.testing.assert_allclose(complex(g), 2 * (1 + 2j), rtol=1e-9)


def test_parameters_are_plain_values_in_transforms_and_leaves_in_backward() -> None:
    a = t(4.0, requires_grad=True)
    x = root(lambda x: x * x - a, t(1.0))
    (first,) = wg.autograd.grad(x, [a], create_graph=True)
    first.backward()
    np.testing.assert_allclose(float(a.grad), -0.25 * 4**-1.5, rtol=1e-9)


def test_functions_that_branch_on_values_may_write_to_their_unknowns() -> None:
    """Such a function is not traced; what it is given are objects of its own all the same."""
    kept = wg.zeros(1, dtype=wg.float64)

    def square(x: Any) -> Any:
        x *= x if x[0] < 100.0 else 1.0
        x -= 2.0
        return x

    def halved(x: Any) -> Any:
        kept[...] = x * 0.5 if x[0] < 1e9 else x
        return kept

    one = wg.tensor(np.ones(1))
    for method in ("newton", "hybr", "lm"):
        assert root(square, one, method=method).item() == pytest.approx(2.0**0.5)
    assert minimize(lambda x: (square(x) ** 2).sum(), one).item() == pytest.approx(2.0**0.5, abs=1e-6)
    assert fixed_point(lambda x: halved(x) + 1.0, one).item() == pytest.approx(2.0)
    assert linear_solve(halved, one).item() == pytest.approx(2.0)
    assert one.item() == 1.0
