"""Degenerate matrices, edges of supports, extreme parameters: expected numbers from closed forms and mpmath."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import wengert as wg
from wengert import distributions, linalg

INF = math.inf


def tensor(x, **named):
    return wg.tensor(x, dtype=wg.float64, **named)


def gradient(fn, x) -> np.ndarray:
    return np.asarray(wg.grad(fn)(tensor(x)).numpy())


# -- linear algebra


@pytest.mark.parametrize("bad", [math.nan, INF])
@pytest.mark.parametrize("shape", [(2, 2), (3, 2, 2)])
@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "svd", "svdvals", "pinv", "matrix_rank", "cond"])
def test_a_matrix_that_is_not_finite_has_no_decomposition(name, shape, bad) -> None:
    x = np.broadcast_to(np.eye(2), shape).copy()
    x[..., 0, 0] = bad
    with pytest.raises(linalg.LinAlgError, match="NaN or infinity"):
        getattr(linalg, name)(tensor(x))
    with pytest.raises(linalg.LinAlgError, match="NaN or infinity"):
        linalg.lstsq(tensor(x), tensor(np.ones((2, 1))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e-15, 1e-3, 1.0, 1e3])
def test_the_gradient_of_a_determinant_of_small_numbers_keeps_its_digits(dtype, size) -> None:
    rng = np.random.default_rng(0)
    q, r = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    x = (q @ np.diag([1.0, 2.0, 3.0]) @ r * size).astype(dtype)
    wide = x.astype(np.float64)
    expected = np.linalg.det(wide / size) * np.linalg.inv(wide / size).T * size**2
    found = wg.grad(linalg.det)(wg.tensor(x)).numpy()
    np.testing.assert_allclose(found / size**2, expected / size**2, rtol=1e-4 if dtype == np.float32 else 1e-12)


def test_the_gradient_of_a_determinant_that_underflows() -> None:
    found = gradient(linalg.det, np.diag([1e-170, 1e-180, 1.0]))
    np.testing.assert_allclose(np.diagonal(found), [1e-180, 1e-170, 0.0], rtol=1e-14)


def test_the_second_derivative_of_a_determinant_that_underflows() -> None:
    x = np.diag([1e-170, 2e-170, 3e-170])
    found = wg.hessian(linalg.det)(tensor(x)).numpy()
    # d2 det / dx00 dx11 is x22, d2 det / dx01 dx10 is -x22.
    np.testing.assert_allclose(found[0, 0, 1, 1], 3e-170, rtol=1e-12)
    np.testing.assert_allclose(found[0, 1, 1, 0], -3e-170, rtol=1e-12)
    np.testing.assert_allclose(found[0, 0, 0, 0], 0.0)


@pytest.mark.parametrize("order", [1, 2, INF])
@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (2, 0, 3)])
def test_the_norm_of_an_empty_matrix_is_0_as_in_numpy(shape, order) -> None:
    x = tensor(np.zeros(shape), requires_grad=True)
    found = linalg.matrix_norm(x, ord=order, keepdims=True)
    np.testing.assert_array_equal(found.detach().numpy(), np.zeros((*shape[:-2], 1, 1)))
    found.sum().backward()
    assert x.grad.shape == shape
    with pytest.raises(wg.ShapeError):
        linalg.matrix_norm(x, ord=-2)


def test_the_condition_of_a_singular_matrix_is_infinite() -> None:
    stack = tensor(np.stack([np.zeros((2, 2)), np.diag([1.0, 0.0]), np.diag([4.0, 2.0])]))
    np.testing.assert_array_equal(linalg.cond(stack).numpy(), [INF, INF, 2.0])
    np.testing.assert_array_equal(linalg.cond(stack, -2).numpy(), [INF, 0.0, 0.5])


def test_logdet_of_a_negative_determinant_does_not_pass_for_a_minimum() -> None:
    value, slope = wg.value_and_grad(linalg.logdet)(tensor(np.diag([-1.0, 2.0])))
    assert math.isnan(float(value))
    np.testing.assert_allclose(slope.numpy(), np.diag([-1.0, 0.5]))  # not 0: an optimizer must not rest here


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norm_is_that_of_numpy(complex_, keepdims) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 3, 4)) + (1j * rng.normal(size=(2, 3, 4)) if complex_ else 0.0)
    calls = [(None, None), (None, 1), (None, (0, 2))]
    calls += [(o, -1) for o in (0, 1, 2, 3.5, INF, -INF)]
    calls += [(o, a) for o in ("fro", "nuc", 1, -1, 2, -2, INF, -INF) for a in ((0, 2), (2, 0), (-2, -1))]
    for order, axis in calls:
        expected = np.linalg.norm(x, order, axis, keepdims)
        np.testing.assert_allclose(linalg.norm(x, order, axis, keepdims).numpy(), expected, rtol=1e-12)
        named = linalg.norm(x, ord=order, dim=axis, keepdim=keepdims)
        np.testing.assert_allclose(named.numpy(), expected, rtol=1e-12)
    for part in (x[0], x[0, 0]):
        for order in (None, 1, 2, INF):
            np.testing.assert_allclose(linalg.norm(part, order).numpy(), np.linalg.norm(part, order), rtol=1e-12)


def test_norm_refuses_what_is_neither_a_vector_nor_a_matrix() -> None:
    with pytest.raises(wg.ShapeError, match="a vector"):
        linalg.norm(wg.zeros(2, 2, 2), 2)
    with pytest.raises(wg.ShapeError, match="a vector"):
        linalg.norm(wg.zeros(2, 2), 2, axis=(0, 0))


@pytest.mark.parametrize("size", [1e2, 1e4, 1e8])
def test_the_exponential_of_a_large_nilpotent_matrix_and_its_gradient(size) -> None:
    x = np.array([[0.0, size], [0.0, 0.0]])
    np.testing.assert_allclose(linalg.matrix_exp(tensor(x)).numpy(), [[1.0, size], [0.0, 1.0]], rtol=1e-14)
    slope = gradient(lambda a: linalg.expm(a)[0, 1], x)
    np.testing.assert_allclose(slope, [[size / 2, 1.0], [size**2 / 6, size / 2]], rtol=1e-12)


# -- distributions


def test_the_density_at_infinity_is_0() -> None:
    for k in (0.5, 1.0, 3.0):
        for p in (
            distributions.Gamma(tensor(k), 2.0),
            distributions.Chi2(tensor(2 * k)),
            distributions.Weibull(tensor(1.0), k),
            distributions.LogNormal(tensor(0.0), k),
            distributions.Poisson(tensor(k)),
            distributions.StudentT(tensor(k)),
        ):
            assert float(p.log_prob(INF)) == -INF, p
            assert float(p.log_prob(-INF)) == -INF, p
            assert math.isnan(float(p.log_prob(math.nan))), p
    gumbel = distributions.Gumbel(tensor(0.0), 1.0)
    assert float(gumbel.log_prob(-INF)) == float(gumbel.log_prob(INF)) == -INF


@pytest.mark.parametrize("make", [distributions.Gamma, distributions.Weibull, distributions.LogNormal])
def test_the_gradient_outside_the_support_is_finite(make) -> None:
    for x in (-1.0, INF):
        slopes = wg.grad(lambda a, b, x=x: make(a, b).log_prob(x), argnums=(0, 1))(tensor(1.5), tensor(2.5))
        assert all(np.isfinite(float(s)) for s in slopes)


@pytest.mark.parametrize("dtype", [wg.float32, wg.float64])
def test_heavy_tails_reach_where_the_square_overflows(dtype) -> None:
    huge = 1e30 if dtype == wg.float32 else 1e250
    rtol = 1e-5 if dtype == wg.float32 else 1e-13
    with mpmath.workdps(40):
        for x in (0.0, 1e-3, 0.7, 1e3, 1e5, 1e9, huge):
            z = mpmath.mpf(x)
            cauchy = -mpmath.log(mpmath.pi * (1 + z**2))
            student = (
                mpmath.loggamma(2) - mpmath.loggamma(1.5) - mpmath.log(3 * mpmath.pi) / 2 - 2 * mpmath.log1p(z**2 / 3)
            )
            p = distributions.Cauchy(wg.tensor(0.0, dtype=dtype), 1.0)
            q = distributions.StudentT(wg.tensor(3.0, dtype=dtype))
            for found, expected in ((p.log_prob(x), cauchy), (q.log_prob(x), student)):
                assert found.dtype == dtype
                np.testing.assert_allclose(float(found), float(expected), rtol=rtol)
            slope = wg.grad(p.log_prob)(wg.tensor(x, dtype=dtype))
            np.testing.assert_allclose(float(slope), float(-2 * z / (1 + z**2)), rtol=rtol)


@pytest.mark.parametrize("make", [distributions.Categorical, distributions.OneHotCategorical])
def test_a_class_that_is_masked_out_leaves_the_gradient_of_the_entropy_alone(make) -> None:
    masked = gradient(lambda x: make(logits=x).entropy(), [-INF, 0.0, 1.0])
    alone = gradient(lambda x: make(logits=x).entropy(), [0.0, 1.0])
    np.testing.assert_allclose(masked, [0.0, *alone], rtol=1e-14)
    assert np.isfinite(gradient(lambda x: make(probs=x).entropy(), [0.0, 0.5, 0.5])).all()


def test_a_negative_number_is_no_class() -> None:
    p = distributions.Categorical(probs=tensor([0.25, 0.75]))
    for outside in (-1, 2):
        with pytest.raises(wg.RangeError):
            p.log_prob(wg.tensor([0, outside]))


def test_certain_outcomes_given_by_logits() -> None:
    p = distributions.Bernoulli(logits=tensor([INF, -INF]))
    np.testing.assert_array_equal(p.log_prob(1.0).numpy(), [0.0, -INF])
    np.testing.assert_array_equal(p.log_prob(0.0).numpy(), [-INF, 0.0])
    np.testing.assert_array_equal(p.entropy().numpy(), [0.0, 0.0])
    even = distributions.Bernoulli(logits=tensor([0.0, 0.0]))
    np.testing.assert_allclose(distributions.kl_divergence(p, even).numpy(), math.log(2.0), rtol=1e-14)
    np.testing.assert_array_equal(distributions.kl_divergence(even, p).numpy(), [INF, INF])
    count = distributions.Binomial(tensor(3.0), logits=tensor(INF))
    np.testing.assert_allclose(count.log_prob(tensor([2.0, 3.0])).numpy(), [-INF, 0.0], atol=1e-14)


@pytest.mark.parametrize("logit", [-30.0, -2.0, 0.5, 5.0, 30.0, 40.0])
def test_the_entropy_by_logits_keeps_its_digits_near_certainty(logit) -> None:
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(logit)))
        entropy = -p * mpmath.log(p) - (1 - p) * mpmath.log(1 - p)
        slope = -mpmath.mpf(logit) * p * (1 - p)
        value, found = wg.value_and_grad(lambda x: distributions.Bernoulli(logits=x).entropy())(tensor(logit))
        np.testing.assert_allclose(float(value), float(entropy), rtol=1e-13)
        np.testing.assert_allclose(float(found), float(slope), rtol=1e-13)
        geometric = distributions.Geometric(logits=tensor(logit)).entropy()
        np.testing.assert_allclose(float(geometric), float(entropy / p), rtol=1e-13)


def test_a_multivariate_normal_distribution_by_its_precision() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2, 1, 3, 3))
    precision = x @ np.swapaxes(x, -1, -2) + np.eye(3)
    loc, value = rng.normal(size=(4, 3)), rng.normal(size=(5, 1, 1, 3))
    p = distributions.MultivariateNormal(tensor(loc), precision_matrix=tensor(precision))
    assert p.batch_shape == (2, 4)
    np.testing.assert_array_equal(p.scale_tril.numpy(), np.tril(p.scale_tril.numpy()))
    np.testing.assert_allclose(p.covariance_matrix.numpy()[:, :1], np.linalg.inv(precision), rtol=1e-10)
    away = value - loc
    square = np.einsum("...i,...ij,...j->...", away, precision, away)
    expected = 0.5 * (np.linalg.slogdet(precision)[1] - square - 3 * math.log(2 * math.pi))
    np.testing.assert_allclose(p.log_prob(tensor(value)).numpy(), expected, rtol=1e-12)
    # d log_prob / d precision, symmetrized, is (covariance - away away^T) / 2.
    slope = gradient(
        lambda a: distributions.MultivariateNormal(tensor(loc[0]), precision_matrix=a).log_prob(value[0, 0, 0]),
        precision[0, 0],
    )
    d = value[0, 0, 0] - loc[0]
    expected = 0.5 * (np.linalg.inv(precision[0, 0]) - np.outer(d, d))
    np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(wg.DTypeError, match="precision_matrix"):
        distributions.MultivariateNormal(tensor(loc), tensor(precision), precision_matrix=tensor(precision))


@pytest.mark.parametrize("dtype", [wg.float32, wg.float64])
@pytest.mark.parametrize("x", [-1e15, -1e6, -1000.0, -40.0, -8.5, -7.5, -1.0, 0.0, 3.0])
def test_the_derivatives_of_log_ndtr_keep_their_digits_in_the_tail(dtype, x) -> None:
    at = wg.tensor(x, dtype=dtype)
    with mpmath.workdps(80):
        z = mpmath.mpf(x)
        cdf = mpmath.erfc(-z / mpmath.sqrt(2)) / 2
        hazard = mpmath.npdf(z) / cdf
        bend = -hazard * (z + hazard)
    slope, rtol = wg.grad(wg.special.log_ndtr), 5e-6 if dtype == wg.float32 else 1e-13
    np.testing.assert_allclose(float(slope(at)), float(hazard), rtol=rtol)
    pushed = wg.jvp(wg.special.log_ndtr, (at,), (wg.ones_like(at),))[1]
    np.testing.assert_allclose(float(pushed), float(hazard), rtol=rtol)
    np.testing.assert_allclose(float(wg.grad(slope)(at)), float(bend), rtol=100 * rtol)


@pytest.mark.parametrize("a", [10.0, 1e3, 1e5, 1e6])
def test_slopes_of_incomplete_functions_in_float32_at_large_parameters(a) -> None:
    at = wg.tensor(a)
    with mpmath.workdps(40):
        b = mpmath.mpf(a)
        density = float(mpmath.exp((b - 1) * mpmath.log(b) - b - mpmath.loggamma(b)))
        middle = float(mpmath.exp((2 - 2 * b) * mpmath.log(2) - 2 * mpmath.loggamma(b) + mpmath.loggamma(2 * b)))
    for fn, sign in ((wg.special.gammainc, 1.0), (wg.special.gammaincc, -1.0)):
        in_a, in_x = wg.grad(fn, argnums=(0, 1))(at, at)
        assert in_a.dtype == in_x.dtype == wg.float32
        np.testing.assert_allclose(float(in_x), sign * density, rtol=1e-6)
        # The quantile's derivative in a tends to 1: 1 + 1 / (6 a) at the median's neighbour x = a.
        np.testing.assert_allclose(float(in_a), -sign * density * (1 + 1 / (6 * a)), rtol=0.02 / a + 1e-6)
    slope = wg.grad(lambda x: wg.special.betainc(at, at, x))(wg.tensor(0.5))
    assert slope.dtype == wg.float32
    np.testing.assert_allclose(float(slope), middle, rtol=1e-6)


@pytest.mark.parametrize("dtype", [wg.float32, wg.float64])
@pytest.mark.parametrize("x", [-1e4, -50.0, 3.0, 29.9, 30.0, 200.0, 1e4])
def test_the_derivatives_of_scaled_bessel_functions_far_out(dtype, x) -> None:
    at, rtol = wg.tensor(x, dtype=dtype), 1e-5 if dtype == wg.float32 else 1e-12
    with mpmath.workdps(60):
        z = mpmath.mpf(float(at))
        i0, i1 = (mpmath.besseli(n, z) * mpmath.exp(-abs(z)) for n in (0, 1))
        side = mpmath.sign(z)
        first = {wg.special.i0e: i1 - side * i0, wg.special.i1e: i0 - i1 / z - side * i1}
        second = {
            wg.special.i0e: 2 * i0 - i1 / z - 2 * side * i1,
            wg.special.i1e: 2 * i1 - i0 / z + 2 * i1 / z**2 - 2 * side * (i0 - i1 / z),
        }
    for fn, expected in first.items():
        np.testing.assert_allclose(float(wg.grad(fn)(at)), float(expected), rtol=rtol)
        bend = float(wg.grad(wg.grad(fn))(at))
        # Just within 30 the second derivative is still a difference, of numbers z**2 times as large.
        near = 300.0 if abs(x) < 30.0 else 1.0
        np.testing.assert_allclose(bend, float(second[fn]), rtol=near * rtol)


# -- draws and their derivatives


@pytest.mark.parametrize("a", [1e-2, 0.5, 10.0, 1e3])
def test_the_derivative_of_a_gamma_variate_is_that_of_its_quantile(a) -> None:
    shape = tensor(np.full(3, a), requires_grad=True)
    x = distributions.Gamma(shape, 1.0).rsample(key=wg.random.key(3))
    x.sum().backward()
    with mpmath.workdps(40):
        for drawn, found in zip(x.detach().numpy(), shape.grad.numpy(), strict=True):
            at, b = mpmath.mpf(float(drawn)), mpmath.mpf(a)
            h = b * mpmath.mpf(10) ** -12
            low, high = (mpmath.gammainc(s, 0, at, regularized=True) for s in (b - h, b + h))
            density = mpmath.exp((b - 1) * mpmath.log(at) - at - mpmath.loggamma(b))
            np.testing.assert_allclose(found, float(-(high - low) / (2 * h) / density), rtol=1e-12)


def test_derived_keys_draw_independently() -> None:
    root = wg.random.key(7)
    keys = [root, *wg.random.split(root, 4), *(wg.random.fold_in(root, i) for i in range(4))]
    n = 20_000
    draws = np.array([wg.random.normal((n,), key=k).numpy() for k in keys])
    correlation = np.corrcoef(draws) - np.eye(len(keys))
    assert np.abs(correlation).max() < 5.0 / math.sqrt(n)
    # Shifted against each other too: streams that overlap would show.
    shifted = np.corrcoef(draws[:, :-1], draws[:, 1:])[: len(keys), len(keys) :]
    assert np.abs(shifted).max() < 5.0 / math.sqrt(n)
    assert len({d[:4].tobytes() for d in draws}) == len(keys)


# -- nested control flow


def _expected(x):
    """The program of the test below, without control flow."""
    total = 0.0
    for z in x * 1.01:
        c = z
        for v in x:
            y = c * x[1]
            total = total + y
            c = c * wg.sin(x[0] * z) if v > z else c * x[2] + z * v
        total = total + c
    return total


def test_captured_values_in_a_cond_in_a_scan_in_a_vmap() -> None:
    def program(x):
        def one(z):
            def step(c, v):
                return wg.cond(v > z, lambda c: c * wg.sin(x[0] * z), lambda c: c * x[2] + z * v, c), c * x[1]

            c, ys = wg.scan(step, z, x)
            return c + ys.sum()

        return wg.vmap(one)(x * 1.01).sum()

    at = [0.3, 0.7, 1.1]
    for derivative in (wg.grad, wg.hessian):
        expected = derivative(_expected)(tensor(at)).numpy()
        np.testing.assert_allclose(derivative(program)(tensor(at)).numpy(), expected, rtol=1e-12)
    traced = wg.graph(wg.grad(program))(tensor(at))
    np.testing.assert_allclose(traced(tensor(at)).numpy(), wg.grad(_expected)(tensor(at)).numpy(), rtol=1e-12)
