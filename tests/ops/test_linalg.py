"""Linear algebra beyond what the table's checks say: public functions, degenerate matrices, phases, errors."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert import linalg
from wengert.ops.linalg.lu import lu, pivoted_rows


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(*shape: int, seed: int = 0, dtype=np.float64) -> np.ndarray:
    x = rng(seed).normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng(seed + 1).normal(size=shape)
    return np.asarray(x).astype(dtype)


def square(*shape: int, dtype=np.float64, seed: int = 0) -> np.ndarray:
    return (normal(*shape, dtype=dtype, seed=seed) + 3 * np.eye(shape[-1])).astype(dtype)


def definite(*shape: int, dtype=np.float64) -> np.ndarray:
    x = normal(*shape, dtype=dtype)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])).astype(dtype)


def numpy(x) -> np.ndarray:
    return np.asarray(x.detach().numpy())


def gradient(fn, x: np.ndarray) -> np.ndarray:
    return numpy(wg.grad(fn)(wg.tensor(x)))


def tolerance(dtype) -> dict[str, float]:
    narrow = dtype in (np.float32, np.complex64)
    return {"rtol": 2e-4, "atol": 2e-4} if narrow else {"rtol": 1e-9, "atol": 1e-10}


DTYPES = [np.float32, np.float64, np.complex64, np.complex128]

# -- what defines each result


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1), (0, 0), (2, 0, 0), (0, 2, 2)])
def test_results_have_the_defining_property(dtype, shape) -> None:
    tol = tolerance(dtype)
    a, h = square(*shape, dtype=dtype), definite(*shape, dtype=dtype)
    one = np.broadcast_to(np.eye(shape[-1]), shape)

    def same(found, expected, dtype=dtype) -> None:
        assert found.dtype == dtype
        np.testing.assert_allclose(numpy(found), expected, **tol)

    x, p = wg.tensor(a), wg.tensor(h)
    same(linalg.inv(x) @ x, one)
    same(linalg.pinv(x) @ x, one)
    same(linalg.solve(x, x), one)
    low, up = linalg.cholesky(p), linalg.cholesky(p, upper=True)
    same(low @ wg.conj(low).mT, h)
    same(wg.conj(up).mT @ up, h)
    np.testing.assert_array_equal(numpy(up), np.triu(numpy(up)))
    same(linalg.cho_solve(low, p), one)
    same(linalg.cho_solve(up, p, upper=True), one)
    q, r = linalg.qr(x)
    same(q @ r, a)
    same(wg.conj(q).mT @ q, one)
    u, s, vh = linalg.svd(x)
    same(u * s[..., None, :] @ vh, a)
    w, v = linalg.eigh(p)
    same(p @ v, numpy(v) * numpy(w)[..., None, :])
    values, vectors = linalg.eig(x)
    np.testing.assert_allclose(a @ numpy(vectors), numpy(vectors) * numpy(values)[..., None, :], **tol)
    assert values.dtype == vectors.dtype == np.result_type(dtype, np.complex64)
    same(linalg.det(x), np.linalg.det(a))
    sign, size = linalg.slogdet(x)
    np.testing.assert_allclose(numpy(sign) * np.exp(numpy(size)), np.linalg.det(a), **tol)
    assert size.dtype == s.dtype == w.dtype == np.zeros(0, dtype).real.dtype
    np.testing.assert_allclose(numpy(linalg.logdet(p)).real, np.linalg.slogdet(h)[1], **tol)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 4, 2), (3, 0), (0, 3)])
def test_rectangular_factors(shape) -> None:
    a = normal(*shape)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(wg.tensor(a), mode=mode)
        expected = np.linalg.qr(a, mode=mode)
        assert q.shape == expected.Q.shape
        assert r.shape == expected.R.shape
        np.testing.assert_allclose(numpy(q @ r), a, atol=1e-12)
    for full in (True, False):
        u, s, vh = linalg.svd(wg.tensor(a), full_matrices=full)
        expected = np.linalg.svd(a, full_matrices=full)
        assert (u.shape, s.shape, vh.shape) == tuple(e.shape for e in expected)
        k = s.shape[-1]
        np.testing.assert_allclose(numpy(u[..., :k] * s[..., None, :] @ vh[..., :k, :]), a, atol=1e-12)


def test_results_are_named() -> None:
    x = wg.tensor(definite(2, 2))
    assert linalg.qr(x)._fields == ("Q", "R")
    assert linalg.svd(x)._fields == ("U", "S", "Vh")
    assert linalg.eigh(x)._fields == linalg.eig(x)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert linalg.lstsq(x, x)._fields == ("solution", "residuals", "rank", "singular_values")


def test_the_array_api_extension_is_complete() -> None:
    names = """
        cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power matrix_rank
        matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
    """
    assert [n for n in names.split() if n not in linalg.__all__ or not callable(getattr(wg.linalg, n))] == []


# -- systems


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (3,)),
        ((3, 3), (3, 2)),
        ((2, 3, 3), (3,)),
        ((2, 3, 3), (3, 2)),
        ((3, 3), (5, 2, 3, 4)),
        ((2, 1, 3, 3), (4, 3, 2)),
        ((3, 3), (0, 3, 2)),
    ],
)
def test_leading_axes_of_systems_broadcast(a, b) -> None:
    left, right = square(*a), normal(*b, seed=3)
    expected = np.linalg.solve(left, right)
    np.testing.assert_allclose(numpy(linalg.solve(left, right)), expected, atol=1e-12)
    found = numpy(linalg.lstsq(wg.tensor(left), wg.tensor(right)).solution)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    triangle = np.linalg.solve(np.triu(left), right)
    np.testing.assert_allclose(numpy(linalg.solve_triangular(left, right, upper=True)), triangle, atol=1e-12)
    if right.size:
        wg.check_grads(linalg.solve, (wg.tensor(left), wg.tensor(right)), max_elements=6)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("n", [4, 64, 65, 150])
def test_triangular_systems_against_scipy(n: int, upper: bool, unit: bool, left: bool) -> None:
    a, b = square(n, n) / n + np.eye(n), normal(n, n, seed=5)
    if left:
        expected = scipy.linalg.solve_triangular(a, b, lower=not upper, unit_diagonal=unit)
    else:
        expected = scipy.linalg.solve_triangular(a.T, b.T, lower=upper, unit_diagonal=unit).T
    found = linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)
    np.testing.assert_allclose(numpy(found), expected, atol=1e-12)


def test_an_ill_scaled_triangle_is_solved_by_substitution() -> None:
    n = 60  # its condition number is beyond float64; substitution does not notice
    a = np.eye(n) - np.triu(np.ones((n, n)), 1)
    x = rng(2).integers(-3, 4, n).astype(float)
    np.testing.assert_allclose(numpy(linalg.solve_triangular(a, a @ x, upper=True)), x, atol=1e-6)
    np.testing.assert_allclose(numpy(linalg.solve_triangular(a.T, a.T @ x, upper=False)), x, atol=1e-6)


def test_lstsq_against_numpy() -> None:
    a, b = normal(5, 3), normal(5, 2, seed=4)
    for x in (a, a.T @ a, np.outer(a[:, 0], a[0])):
        right = b[: x.shape[0]]
        expected = np.linalg.lstsq(x, right)
        found = linalg.lstsq(wg.tensor(x), wg.tensor(right))
        np.testing.assert_allclose(numpy(found.solution), expected[0], atol=1e-10)
        assert found.rank.item() == expected[2]
        np.testing.assert_allclose(numpy(found.singular_values), expected[3], atol=1e-10)
        np.testing.assert_allclose(numpy(found.residuals), ((x @ expected[0] - right) ** 2).sum(0), atol=1e-10)
    assert linalg.lstsq(wg.tensor(a), wg.tensor(b[:, 0])).residuals.shape == ()


def test_lstsq_derivative_of_low_rank_within_that_rank() -> None:
    b = wg.tensor(normal(4, 2, seed=3))

    def fn(u, v):
        return linalg.lstsq(u @ v, b, rtol=1e-8).solution, linalg.pinv(u @ v, rtol=1e-8)

    wg.check_grads(fn, (wg.tensor(normal(4, 2)), wg.tensor(normal(2, 3, seed=1))), order=2, rtol=1e-5, atol=1e-5)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 6), st.booleans(), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_pinv_by_penrose(m: int, n: int, rank: int, complex_: bool, seed: int) -> None:
    dtype = np.complex128 if complex_ else np.float64
    k = min(m, n, rank)
    a = normal(m, k, dtype=dtype, seed=seed) @ normal(k, n, dtype=dtype, seed=seed + 7)
    p = numpy(linalg.pinv(wg.tensor(a), rtol=1e-9))
    for found, expected in ((a @ p @ a, a), (p @ a @ p, p), ((a @ p).conj().T, a @ p), ((p @ a).conj().T, p @ a)):
        np.testing.assert_allclose(found, expected, atol=1e-6 * (1 + np.abs(expected).max(initial=0)))


# -- equal values: what has a derivative and what has none


@pytest.mark.parametrize("x", [np.eye(3), np.diag([1.0, 1.0, 2.0]), np.zeros((3, 3))])
def test_gradient_through_equal_values_alone(x: np.ndarray) -> None:
    one = np.eye(3)
    np.testing.assert_allclose(gradient(lambda x: linalg.eigh(x).eigenvalues.sum(), x), one, atol=1e-14)
    np.testing.assert_allclose(gradient(lambda x: (linalg.eigvalsh(x) ** 2).sum(), x), 2 * x, atol=1e-14)
    np.testing.assert_allclose(gradient(lambda x: linalg.eig(x).eigenvalues.real.sum(), x), one, atol=1e-14)
    np.testing.assert_allclose(gradient(lambda x: (linalg.svd(x).S ** 2).sum(), x), 2 * x, atol=1e-14)
    np.testing.assert_allclose(gradient(lambda x: (linalg.svdvals(x) ** 2).sum(), x), 2 * x, atol=1e-14)


def test_values_alone_also_forward_and_in_graphs() -> None:
    x, t = wg.eye(3, dtype=wg.float64), wg.tensor(definite(3, 3))
    _, (w, _) = wg.jvp(lambda x: tuple(linalg.eigh(x)), (x,), (t,))
    assert w.sum().item() == pytest.approx(np.trace(numpy(t)))
    graph = wg.graph(wg.grad(lambda x: (linalg.eigh(x).eigenvalues ** 2).sum()))(x)
    np.testing.assert_allclose(numpy(graph(x)), 2 * np.eye(3), atol=1e-14)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: linalg.eigh(x).eigenvectors[0, 0],
        lambda x: linalg.eig(x).eigenvectors.real[0, 1],
        lambda x: linalg.svd(x).U[0, 1],
        lambda x: linalg.svd(x).Vh[0, 1],
    ],
)
def test_vectors_of_equal_values_have_no_finite_gradient(fn) -> None:
    assert not np.isfinite(gradient(fn, np.eye(3))).all()


def test_singular_values_of_0_in_a_square_matrix_leave_the_vectors_differentiable() -> None:
    x = np.diag([3.0, 2.0, 0.0])
    for fn in (lambda x: linalg.svd(x).U[0, 1], lambda x: linalg.svd(x).Vh[0, 1]):
        g = gradient(fn, x)
        assert np.isfinite(g).all()
        assert np.abs(g).max() > 0.1


# -- phases: what does not depend on them has a right gradient


def _projectors(w, v):
    return [v[..., :, j : j + 1] @ wg.conj(v[..., :, j : j + 1]).mT * w[..., j : j + 1, None] for j in range(2)]


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_gradients_that_do_not_depend_on_phases(dtype) -> None:
    tall, wide = normal(4, 3, dtype=dtype), normal(3, 4, dtype=dtype)

    def eigenvectors(x):
        w, v = linalg.eigh(x)
        return _projectors(w, v)

    def singular(x):
        u, s, vh = linalg.svd(x, full_matrices=False)
        return [u[..., :, :2] * s[..., None, :2] ** 2 @ vh[..., :2, :], u[..., :, :1] @ vh[..., :1, :]]

    def left_alone(x):
        u, s, _ = linalg.svd(x, full_matrices=False)
        return _projectors(s, u)

    def right_alone(x):
        _, s, vh = linalg.svd(x, full_matrices=False)
        return _projectors(s, wg.conj(vh).mT)

    def general(x):
        w, v = linalg.eig(x)
        return [abs(v) ** 2, w * abs(v[0])]

    wg.check_grads(eigenvectors, (wg.tensor(square(3, 3, dtype=dtype)),), rtol=1e-5, atol=1e-5)
    wg.check_grads(general, (wg.tensor(np.diag([1.0, 3.0]) + 0.2 * normal(2, 2, dtype=dtype)),), rtol=1e-5, atol=1e-5)
    for x in (tall, wide):
        for fn in (singular, left_alone, right_alone):
            wg.check_grads(fn, (wg.tensor(x),), rtol=1e-5, atol=1e-5)


def test_complex_eigenvalues_of_a_real_matrix_give_a_real_gradient() -> None:
    x = wg.tensor(np.array([[0.1, 1.0], [-2.0, 0.3]]))
    wg.check_grads(lambda x: linalg.eigvals(x).imag ** 2, (x,))
    wg.check_grads(lambda x: abs(linalg.eig(x).eigenvectors) ** 2, (x,))


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_qr_gradients_of_every_shape(dtype) -> None:
    for shape in ((4, 2), (3, 3), (2, 4), (2, 3, 2)):
        x = wg.tensor(normal(*shape, dtype=dtype))
        wg.check_grads(lambda x: tuple(linalg.qr(x)), (x,), rtol=1e-5, atol=1e-5)
        wg.check_grads(lambda x: linalg.qr(x).Q, (x,), rtol=1e-5, atol=1e-5)
        wg.check_grads(lambda x: linalg.qr(x).R, (x,), rtol=1e-5, atol=1e-5)


def test_factors_that_complete_a_basis() -> None:
    x = normal(4, 2)
    expected = gradient(lambda x: (linalg.qr(x).R ** 3).sum(), x)
    np.testing.assert_allclose(gradient(lambda x: (linalg.qr(x, mode="complete").R ** 3).sum(), x), expected)
    np.testing.assert_allclose(gradient(lambda x: (linalg.svd(x).S ** 2).sum(), x), 2 * x, atol=1e-12)
    expected = gradient(lambda x: (linalg.svd(x, full_matrices=False).Vh ** 3).sum(), x)
    np.testing.assert_allclose(gradient(lambda x: (linalg.svd(x).Vh ** 3).sum(), x), expected)
    for fn in (
        lambda x: linalg.qr(x, mode="complete").Q.sum(),
        lambda x: linalg.svd(x).U.sum(),
        lambda x: linalg.svd(x.mT).Vh.sum(),
    ):
        with pytest.raises(wg.GradientError, match="complete a basis"):
            gradient(fn, x)


# -- determinants


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_det_of_any_rank_has_the_derivatives_of_the_polynomial(rank: int, dtype) -> None:
    x = normal(4, rank, dtype=dtype) @ normal(rank, 4, dtype=dtype, seed=2)
    wg.check_grads(linalg.det, (wg.tensor(x),), order=2, max_elements=16)


def test_det_of_exact_zeros_to_second_order() -> None:
    # d2 det / dx[0,0] dx[1,1] of diag(0, 0, 5) is 5, though the first derivative vanishes.
    x = np.diag([0.0, 0.0, 5.0])
    assert gradient(linalg.det, x).tolist() == np.zeros((3, 3)).tolist()
    hessian = gradient(lambda x: wg.grad(linalg.det)(x)[0, 0], x)
    expected = np.zeros((3, 3))
    expected[1, 1] = 5.0
    np.testing.assert_allclose(hessian, expected, atol=1e-14)


def test_third_derivative_of_det() -> None:
    x = wg.tensor(square(3, 3))
    wg.check_grads(linalg.det, (x,), order=3, max_elements=4)


def test_logdet() -> None:
    x = square(3, 3)
    np.testing.assert_allclose(gradient(linalg.logdet, definite(3, 3)), np.linalg.inv(definite(3, 3)).T, rtol=1e-9)
    assert math.isnan(linalg.logdet(wg.tensor(-x)).item())
    assert linalg.logdet(wg.tensor(np.zeros((2, 2)))).item() == -math.inf
    z = square(3, 3, dtype=np.complex128)
    assert linalg.logdet(wg.tensor(z)).item() == pytest.approx(np.log(np.linalg.det(z)))
    wg.check_grads(linalg.logdet, (wg.tensor(z),))


def test_slogdet_of_a_singular_matrix() -> None:
    x = wg.tensor(np.ones((2, 2)), requires_grad=True)
    sign, size = linalg.slogdet(x)
    assert (sign.item(), size.item()) == (0.0, -math.inf)
    with pytest.raises(linalg.LinAlgError, match="singular"):
        size.backward()


# -- powers and the exponential


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 3, 7, 10])
def test_matrix_power(n: int) -> None:
    x = square(2, 3, 3) / 3
    np.testing.assert_allclose(numpy(linalg.matrix_power(wg.tensor(x), n)), np.linalg.matrix_power(x, n), rtol=1e-9)
    if n:
        wg.check_grads(lambda x: linalg.matrix_power(x, n), (wg.tensor(x),), order=1, max_elements=4)


@pytest.mark.parametrize("scale", [0.0, 1e-8, 0.5, 3.0, 40.0, 100.0])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_expm_against_scipy(scale: float, dtype) -> None:
    x = normal(3, 4, 4, dtype=dtype) * scale
    expected = np.stack([scipy.linalg.expm(a) for a in x])
    np.testing.assert_allclose(
        numpy(linalg.expm(wg.tensor(x))), expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max()
    )


def test_the_frechet_derivative_against_scipy() -> None:
    x, e = normal(4, 4), normal(4, 4, seed=3)
    for scale in (1e-12, 1.0, 1e12):
        _, found = wg.jvp(linalg.expm, (wg.tensor(x),), (wg.tensor(e * scale),))
        expected = scipy.linalg.expm_frechet(x, e * scale, compute_expm=False)
        np.testing.assert_allclose(numpy(found), expected, rtol=1e-9, atol=1e-11 * scale)


def test_expm_of_matrices_that_are_not_finite_is_nan_there_alone() -> None:
    x = np.zeros((3, 2, 2))
    x[1, 0, 0] = np.nan
    x[2, 0, 1] = np.inf
    found = numpy(linalg.expm(wg.tensor(x)))
    assert found[0].tolist() == np.eye(2).tolist()
    assert np.isnan(found[1:]).all()


# -- norms, rank, condition


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_matrix_norms(ord, keepdims: bool, dtype) -> None:
    x = normal(2, 3, 4, dtype=dtype)
    expected = np.linalg.matrix_norm(x, ord=ord, keepdims=keepdims)
    found = linalg.matrix_norm(wg.tensor(x), ord=ord, keepdims=keepdims)
    assert found.shape == expected.shape
    assert found.dtype == np.float64
    np.testing.assert_allclose(numpy(found), expected, rtol=1e-12)
    wg.check_grads(lambda x: linalg.matrix_norm(x, ord=ord), (wg.tensor(x),), max_elements=6, rtol=1e-5, atol=1e-5)


def test_norms_of_nothing_and_at_0() -> None:
    empty = wg.zeros(0, 3)
    assert linalg.matrix_norm(empty).item() == linalg.matrix_norm(empty, ord="nuc").item() == 0
    with pytest.raises(wg.ShapeError, match="empty"):
        linalg.matrix_norm(empty, ord=-2)
    assert gradient(linalg.matrix_norm, np.zeros((2, 2))).tolist() == np.zeros((2, 2)).tolist()


def test_rank() -> None:
    x = np.stack([np.eye(3), np.ones((3, 3)), np.zeros((3, 3)), np.diag([1.0, 1e-3, 0.0])])
    assert linalg.matrix_rank(wg.tensor(x)).tolist() == [3, 1, 0, 2]
    assert linalg.matrix_rank(wg.tensor(x), rtol=0.01).tolist() == [3, 1, 0, 1]
    assert linalg.matrix_rank(wg.tensor(x), rtol=np.array([2.0, 0.1, 0.1, 1e-5])).tolist() == [0, 1, 0, 2]
    assert linalg.matrix_rank(wg.zeros(2, 0)).item() == 0
    assert not linalg.matrix_rank(wg.tensor(x, requires_grad=True)).requires_grad


@pytest.mark.parametrize("p", [None, 2, -2, 1, -1, math.inf, "fro", "nuc"])
def test_cond(p) -> None:
    x = square(2, 3, 3)
    np.testing.assert_allclose(numpy(linalg.cond(wg.tensor(x), p)), np.linalg.cond(x, p), rtol=1e-9)
    wg.check_grads(lambda x: linalg.cond(x, p), (wg.tensor(x),), order=1, max_elements=4)


def test_cond_of_a_singular_matrix() -> None:
    assert linalg.cond(wg.tensor(np.diag([1.0, 0.0]))).item() == math.inf


# -- products


def test_products_against_numpy() -> None:
    x, y = normal(2, 3, 4), normal(3, seed=8)
    np.testing.assert_array_equal(numpy(linalg.diagonal(wg.tensor(x), offset=1)), np.linalg.diagonal(x, offset=1))
    np.testing.assert_allclose(numpy(linalg.trace(wg.tensor(x), offset=-1)), np.linalg.trace(x, offset=-1))
    assert linalg.trace(wg.tensor([[1.5]], dtype=wg.float32), dtype=wg.float64).dtype == wg.float64
    np.testing.assert_array_equal(numpy(linalg.outer(wg.tensor(y), wg.tensor(y))), np.outer(y, y))
    np.testing.assert_allclose(numpy(linalg.cross(wg.tensor(normal(4, 3)), wg.tensor(y))), np.cross(normal(4, 3), y))
    found = linalg.cross(wg.tensor(x), wg.tensor(normal(3, 1)), axis=-2)
    np.testing.assert_allclose(numpy(found), np.linalg.cross(x, np.broadcast_to(normal(3, 1), x.shape), axis=-2))
    assert linalg.cross(wg.tensor([1, 2, 3]), wg.tensor([4, 5, 6])).tolist() == [-3, 6, -3]


@given(st.lists(st.integers(0, 5), min_size=3, max_size=7), st.booleans(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_multi_dot(sizes: list[int], first: bool, last: bool) -> None:
    xs = [normal(m, n, seed=i) for i, (m, n) in enumerate(zip(sizes, sizes[1:], strict=False))]
    xs[0] = normal(sizes[1]) if first else xs[0]
    xs[-1] = normal(sizes[-2], seed=9) if last else xs[-1]
    expected = xs[0]
    for x in xs[1:]:
        expected = expected @ x
    found = linalg.multi_dot([wg.tensor(x) for x in xs])
    assert found.shape == expected.shape
    np.testing.assert_allclose(numpy(found), expected, atol=1e-10)


def test_multi_dot_takes_the_cheap_order() -> None:
    graph = wg.graph(lambda a, b, c: linalg.multi_dot([a, b, c]))(wg.ones(10, 100), wg.ones(100, 5), wg.ones(5, 50))
    assert [n.spec.shape for n in graph.nodes if n.op.name == "matmul"] == [(10, 5), (10, 50)]
    graph = wg.graph(lambda a, b, c: linalg.multi_dot([a, b, c]))(wg.ones(50, 5), wg.ones(5, 100), wg.ones(100, 10))
    assert [n.spec.shape for n in graph.nodes if n.op.name == "matmul"] == [(5, 10), (50, 10)]


# -- errors


ONES = np.ones((2, 2))


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda: linalg.solve(ONES, ONES), "the matrix is singular"),
        (lambda: linalg.solve(np.stack([np.eye(2), ONES]), ONES), "a matrix of the stack is singular"),
        (lambda: linalg.inv(ONES), "singular"),
        (lambda: linalg.matrix_power(ONES, -1), "singular"),
        (lambda: linalg.solve_triangular(np.diag([1.0, 0.0]), ONES, upper=True), "diagonal has a 0"),
        (lambda: linalg.cholesky(-np.eye(2)), "not positive definite"),
        (lambda: linalg.cholesky(ONES * np.nan), "NaN or infinity"),
        (lambda: linalg.svd(ONES * np.nan), "NaN or infinity"),
        (lambda: linalg.eig(ONES * np.inf), "NaN or infinity"),
        (lambda: wg.grad(lambda x: linalg.qr(x).Q.sum())(np.diag([1.0, 0.0])), "diagonal has a 0"),
    ],
)
def test_matrices_without_a_result(fn, words: str) -> None:
    with pytest.raises(linalg.LinAlgError, match=words) as caught:
        fn()
    assert isinstance(caught.value, wg.WengertError)
    assert isinstance(caught.value, np.linalg.LinAlgError)
    assert "test_linalg.py" in str(caught.value).splitlines()[0]
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (lambda: linalg.inv(np.ones((2, 3))), wg.ShapeError),
        (lambda: linalg.det(np.ones(3)), wg.ShapeError),
        (lambda: linalg.solve(np.eye(3), np.ones(2)), wg.ShapeError),
        (lambda: linalg.solve(np.eye(3), 1.0), wg.ShapeError),
        (lambda: linalg.solve(np.ones((2, 3, 3)), np.ones((4, 3, 1))), wg.ShapeError),
        (lambda: linalg.solve(np.ones((2, 3)), np.ones(2)), wg.ShapeError),
        (lambda: linalg.lstsq(np.ones((3, 2)), np.ones(2)), wg.ShapeError),
        (lambda: linalg.qr(np.eye(2), mode="raw"), wg.GraphError),
        (lambda: linalg.matrix_norm(np.eye(2), ord=3), wg.GraphError),
        (lambda: linalg.matrix_norm(np.eye(2), ord=True), wg.GraphError),
        (lambda: linalg.matrix_power(np.eye(2), 0.5), wg.DTypeError),
        (lambda: linalg.pinv(np.eye(2), rtol="small"), wg.DTypeError),
        (lambda: linalg.cross(np.ones(2), np.ones(2)), wg.ShapeError),
        (lambda: linalg.outer(np.eye(2), np.ones(2)), wg.ShapeError),
        (lambda: linalg.multi_dot([np.eye(2)]), wg.ShapeError),
        (lambda: linalg.multi_dot([np.eye(2), np.eye(3)]), wg.ShapeError),
        (lambda: linalg.trace(np.ones(3)), wg.ShapeError),
        (lambda: linalg.cond(np.ones((2, 3)), 1), wg.ShapeError),
        (lambda: wg.graph(linalg.inv)(np.ones((2, 3))), wg.ShapeError),
        (lambda: linalg.inv("matrix"), wg.DTypeError),
    ],
)
def test_operands_that_do_not_fit(fn, kind) -> None:
    with pytest.raises(kind) as caught:
        fn()
    assert "test_linalg.py" in str(caught.value).splitlines()[0]


def test_integers_become_floats() -> None:
    assert linalg.inv([[2, 0], [0, 4]]).dtype == wg.float32
    assert linalg.solve([[2, 0], [0, 4]], [2, 4]).tolist() == [1.0, 1.0]
    assert linalg.solve(wg.tensor([[2, 0], [0, 4]]), wg.tensor([2.0, 4.0], dtype=wg.float64)).dtype == wg.float64


def test_nan_passes_where_lapack_lets_it() -> None:
    assert np.isnan(numpy(linalg.det(ONES * np.nan)))
    assert np.isnan(numpy(linalg.inv(ONES * np.nan))).all()


# -- in graphs, mapped, and as training uses it


def test_a_gaussian_log_density_in_every_mode() -> None:
    a, y = wg.tensor(square(3, 3)), wg.tensor(normal(3, seed=4))

    def density(a, y):
        low = linalg.cholesky(a @ a.mT + wg.eye(3, dtype=wg.float64))
        white = linalg.solve_triangular(low, y, upper=False)
        return -0.5 * (white * white).sum() - wg.log(linalg.diagonal(low)).sum()

    cov = numpy(a) @ numpy(a).T + np.eye(3)
    expected = -0.5 * numpy(y) @ np.linalg.solve(cov, numpy(y)) - 0.5 * np.linalg.slogdet(cov)[1]
    assert density(a, y).item() == pytest.approx(expected)
    wg.check_grads(density, (a, y))
    traced = wg.graph(density)(a, y)
    assert traced(a, y).item() == pytest.approx(expected)
    stacked = wg.vmap(density, in_axes=(None, 0))(a, wg.stack([y, 2 * y]))
    np.testing.assert_allclose(numpy(stacked), [density(a, y).item(), density(a, 2 * y).item()])


def test_large_matrices_differentiate() -> None:
    n = 120
    x = definite(n, n) / n
    g = gradient(lambda x: linalg.slogdet(x).logabsdet, x)
    np.testing.assert_allclose(g, np.linalg.inv(x).T, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(40, 40), (70, 33), (33, 70), (3, 35, 35), (2, 0, 3), (0, 0)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_lu_is_lapacks(shape, dtype) -> None:
    """LU in panels chooses LAPACK's pivots and gives its factors."""
    x = normal(*shape, dtype=dtype)
    found = lu(wg.tensor(x))
    factors, pivots = numpy(found.LU), numpy(found.pivots)
    assert pivots.shape == (*shape[:-2], min(shape[-2:]))
    assert pivots.dtype == np.int32
    for at in np.ndindex(*shape[:-2]):
        if x[at].size:
            wanted, exchanges = scipy.linalg.lu_factor(x[at])
            np.testing.assert_allclose(factors[at], wanted, rtol=1e-9, atol=1e-10)
            np.testing.assert_array_equal(pivots[at], exchanges + 1)
            rows = numpy(pivoted_rows(found.pivots, shape[-2]))[at]
            lower = np.tril(factors[at], -1)[:, : min(shape[-2:])] + np.eye(shape[-2], min(shape[-2:]))
            upper = np.triu(factors[at])[: min(shape[-2:])]
            np.testing.assert_allclose(lower @ upper, x[at][rows], rtol=1e-9, atol=1e-9)


def test_lu_of_a_singular_matrix_has_factors() -> None:
    """A column without a pivot stays as it is, and what follows is factored on."""
    x = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 7.0], [1.0, 2.0, 5.0]])
    found = numpy(lu(wg.tensor(x)).LU)
    lower, upper = np.tril(found, -1) + np.eye(3), np.triu(found)
    assert upper[1, 1] == 0
    np.testing.assert_allclose(lower @ upper, x[[1, 0, 2]], atol=1e-14)


def test_linalg_errors_are_caught_as_pytorchs_are() -> None:
    """Programs catch a failing Cholesky factorization as a RuntimeError, to add to the diagonal."""
    with pytest.raises(RuntimeError):
        wg.linalg.cholesky(wg.tensor([[1.0, 2.0], [2.0, 1.0]]))
