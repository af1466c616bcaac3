"""Special functions against mpmath and SciPy over wide grids, at their edges, and their derivatives."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import special as sp

import wengert as wg
from wengert.ops.special.incomplete_gamma import gamma_ratio

RNG = np.random.default_rng(20)


def worst(found, expected, floor: float = 1e-290) -> float:
    found, expected = np.asarray(found), np.asarray(expected)
    kept = np.abs(expected) > floor
    assert kept.sum() > 0.3 * kept.size
    return float(np.max(np.abs(found - expected)[kept] / np.abs(expected)[kept]))


def f64(x):
    return wg.tensor(np.asarray(x, float))


def gamma_grid(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Shapes over eight decades, with arguments about them and far from them."""
    a = 10 ** RNG.uniform(-4, 4, n)
    about = a * np.exp(RNG.normal(size=n) * np.minimum(3 / np.sqrt(a), 2))
    return a, np.where(RNG.random(n) < 0.6, about, 10 ** RNG.uniform(-4, 4, n))


def beta_grid(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = 10 ** RNG.uniform(-2, 3.5, n), 10 ** RNG.uniform(-2, 3.5, n)
    x = np.where(RNG.random(n) < 0.6, RNG.beta(a, b), RNG.random(n))
    return a, b, np.clip(x, 1e-280, 1 - 1e-15)


# -- values


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_against_mpmath(name: str) -> None:
    a, x = gamma_grid(150)
    with mpmath.workdps(50):
        expected = []
        for p, q in zip(map(mpmath.mpf, a), map(mpmath.mpf, x), strict=True):
            ends = (0, q) if name == "gammainc" else (q, mpmath.inf)
            expected.append(float(mpmath.gammainc(p, *ends, regularized=True)))
    assert worst(getattr(wg.special, name)(f64(a), f64(x)), expected) < 2e-12


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_against_scipy(name: str) -> None:
    a, x = gamma_grid(4000)
    assert worst(getattr(wg.special, name)(f64(a), f64(x)), getattr(sp, name)(a, x), 1e-200) < 2e-11


def test_incomplete_gamma_edges() -> None:
    a = f64([1, 1, 0, 0, -1, 1, 2, np.nan, np.inf, np.inf])
    x = f64([0, np.inf, 1, 0, 1, -1, np.nan, 1, 1, np.inf])
    nan = np.nan
    np.testing.assert_equal(wg.special.gammainc(a, x).numpy(), [0, 1, 1, nan, nan, nan, nan, nan, 0, nan])
    np.testing.assert_equal(wg.special.gammaincc(a, x).numpy(), [1, 0, 0, nan, nan, nan, nan, nan, 1, nan])
    assert wg.special.gammainc(f64(np.zeros((0, 3))), 1.0).shape == (0, 3)


def test_incomplete_beta_against_scipy() -> None:
    a, b, x = beta_grid(4000)
    assert worst(wg.special.betainc(f64(a), f64(b), f64(x)), sp.betainc(a, b, x), 1e-200) < 1e-11


def test_incomplete_beta_against_mpmath() -> None:
    a, b, x = beta_grid(60)
    a, b = np.minimum(a, 200), np.minimum(b, 200)
    with mpmath.workdps(60):
        expected = [
            float(mpmath.betainc(mpmath.mpf(p), mpmath.mpf(q), 0, mpmath.mpf(z), regularized=True))
            for p, q, z in zip(a, b, x, strict=True)
        ]
    assert worst(wg.special.betainc(f64(a), f64(b), f64(x)), expected) < 1e-12


def _lower_beta(a: float, b: float, x: float) -> float:
    """Return I_x(a, b) by the continued fraction of DLMF 8.17.22, in 60 digits."""
    with mpmath.workdps(60):
        p, q, z = map(mpmath.mpf, (a, b, x))
        above = z * (p + q) > p
        if above:
            p, q, z = q, p, 1 - z
        logs = p * mpmath.log(z) + q * mpmath.log(1 - z)
        front = mpmath.exp(logs - mpmath.loggamma(p) - mpmath.loggamma(q) + mpmath.loggamma(p + q)) / p
        value, c, d = mpmath.mpf(1), mpmath.mpf(1), mpmath.mpf(0)
        for m in itertools.count():
            terms = [-(p + m) * (p + q + m) * z / ((p + 2 * m) * (p + 2 * m + 1))]
            if m:
                terms.insert(0, m * (q - m) * z / ((p + 2 * m - 1) * (p + 2 * m)))
            for term in terms:
                d, c = 1 / (1 + term * d), 1 + term / c
                value *= c * d
            if abs(c * d - 1) < mpmath.mpf(10) ** -40:
                break
        found = front / value
        return float(1 - found if above else found)


BETAS = {
    "around 1": ((-1, 1), (-1, 1), None),
    "around the mean": ((1, 3.3), (1, 3.3), "mean"),
    "sharp peaks": ((3, 5), (3, 5), "mean"),
    "a small": ((-1, 1), (3, 5), "mean"),
    "b small": ((3, 5), (-1, 1), "mean"),
    "both tiny": ((-8, 0), (-8, 0), None),
    "next to 1": ((-3, 2), (-8, 2), "next to 1"),
    "next to 0": ((-3, 1), (-8, 2), "next to 0"),
}


@pytest.mark.parametrize("name", BETAS)
def test_incomplete_beta_everywhere(name: str) -> None:
    (low, high), (least, most), where = BETAS[name]
    rng = np.random.default_rng(5)
    a, b = 10 ** rng.uniform(low, high, 24), 10 ** rng.uniform(least, most, 24)
    x = rng.uniform(0, 1, 24)
    if where == "mean":
        x = np.clip(rng.beta(a, b), 1e-12, 1 - 1e-12)
    elif where:
        x = 10 ** rng.uniform(-12, 0, 24)
        x = 1 - x if where == "next to 1" else x
    expected = [_lower_beta(*t) for t in zip(a, b, x, strict=True)]
    given = f64(a), f64(b), f64(x)
    assert worst(wg.special.betainc(*given), expected, 1e-200) < 1e-13
    assert worst(wg.jit(wg.special.betainc)(*given), expected, 1e-200) < 1e-13


def test_incomplete_beta_edges() -> None:
    nan = np.nan
    got = wg.special.betainc(
        f64([1, 1, 0, 1, 1, 1, nan]), f64([2, 2, 1, -1, 1, 1, 1]), f64([0, 1, 0.5, 0.5, 1.5, nan, 0.5])
    )
    np.testing.assert_equal(got.numpy(), [0, 1, nan, nan, nan, nan, nan])


def test_log_beta_against_mpmath() -> None:
    a, b = 10 ** RNG.uniform(-8, 8, 400), 10 ** RNG.uniform(-8, 8, 400)
    with mpmath.workdps(50):
        expected = np.array(
            [float(mpmath.log(mpmath.beta(mpmath.mpf(p), mpmath.mpf(q)))) for p, q in zip(a, b, strict=True)]
        )
    found = wg.special.betaln(f64(a), f64(b)).numpy()
    assert np.max(np.abs(found - expected) / np.maximum(np.abs(expected), 1e-2)) < 1e-13


def test_normal_functions_against_mpmath() -> None:
    x = np.concatenate([np.linspace(-37.5, 8, 200), RNG.normal(size=50)])
    with mpmath.workdps(40):
        cdf = [float(mpmath.ncdf(mpmath.mpf(v))) for v in x]
        logs = [
            float(mpmath.log(mpmath.ncdf(mpmath.mpf(v))) if v < 0 else mpmath.log1p(-mpmath.ncdf(-mpmath.mpf(v))))
            for v in x
        ]
    assert worst(wg.special.ndtr(f64(x)), cdf) < 2e-15
    assert worst(wg.special.log_ndtr(f64(x)), logs) < 2e-15
    far = -(10.0 ** np.arange(2, 150, 10))
    assert worst(wg.special.log_ndtr(f64(far)), -0.5 * far**2 - np.log(-far) - 0.5 * math.log(2 * math.pi)) < 1e-4
    np.testing.assert_equal(wg.special.log_ndtr(f64([-np.inf, np.inf, np.nan])).numpy(), [-np.inf, 0, np.nan])


def test_quantiles_are_inverses() -> None:
    y = np.concatenate(
        [np.linspace(-0.9999, 0.9999, 301), 1 - 10.0 ** -np.arange(1, 15), 10.0 ** -np.arange(1, 300, 20)]
    )
    with mpmath.workdps(40):
        expected = [float(mpmath.erfinv(mpmath.mpf(v))) for v in y]
    assert worst(wg.special.erfinv(f64(y)), expected, 0.0) < 1e-15
    p = np.concatenate([np.linspace(0.001, 0.999, 301), 10.0 ** -np.arange(1, 308, 5)])
    assert worst(wg.special.ndtri(f64(p)), sp.ndtri(p), 1e-3) < 2e-15
    np.testing.assert_equal(wg.special.ndtri(f64([0, 1, -1, np.nan])).numpy(), [-np.inf, np.inf, np.nan, np.nan])
    np.testing.assert_equal(wg.special.erfinv(f64([1, -1, 2, np.nan])).numpy(), [np.inf, -np.inf, np.nan, np.nan])
    assert worst(wg.special.erfcinv(f64([1e-300, 0.3, 1.9])), sp.erfcinv([1e-300, 0.3, 1.9])) < 1e-14


@pytest.mark.parametrize("order", [0, 1])
def test_bessel_functions(order: int) -> None:
    x = np.concatenate([np.linspace(-100, 100, 301) + 0.01, 10.0 ** np.arange(-8, 9)])
    with mpmath.workdps(30):
        scaled = [float(mpmath.besseli(order, mpmath.mpf(v)) * mpmath.exp(-abs(mpmath.mpf(v)))) for v in x]
    assert worst([wg.special.i0e, wg.special.i1e][order](f64(x)), scaled) < 3e-15
    near = x[np.abs(x) < 50]
    assert worst([wg.special.i0, wg.special.i1][order](f64(near)), sp.iv(order, near)) < 1e-13


def test_zeta() -> None:
    s, q = 1 + 10 ** RNG.uniform(-3, 2, 500), 10 ** RNG.uniform(-2, 3, 500)
    assert worst(wg.special.zeta(f64(s), f64(q)), sp.zeta(s, q)) < 1e-14
    np.testing.assert_equal(wg.special.zeta(f64([1.0, np.inf, 0.5, np.nan])).numpy(), [np.inf, 1, np.nan, np.nan])


def test_logit_entr_and_products() -> None:
    p = np.concatenate([np.linspace(0.001, 0.999, 201), 0.5 + np.array([1e-12, -1e-9]), 10.0 ** -np.arange(1, 300, 30)])
    with mpmath.workdps(40):
        expected = [float(mpmath.log(mpmath.mpf(v) / (1 - mpmath.mpf(v)))) for v in p]
    assert worst(wg.special.logit(f64(p)), expected, 0.0) < 1e-15 * 8
    x = [0.0, 0.0, 0.0, 2.0, 0.5]
    y = [0.0, np.nan, np.inf, 0.0, 3.0]
    np.testing.assert_equal(wg.special.xlogy(f64(x), f64(y)).numpy(), sp.xlogy(x, y))
    np.testing.assert_equal(wg.special.xlog1py(f64(x), f64(y)).numpy(), sp.xlog1py(x, y))
    np.testing.assert_allclose(wg.special.entr(f64([0, 0.3, 1, -1])).numpy(), sp.entr([0, 0.3, 1, -1]), rtol=1e-15)


# -- derivatives


CALLS = {
    "gammainc": lambda a, x: wg.special.gammainc(a, x),
    "gammaincc": lambda a, x: wg.special.gammaincc(a, x),
    "betaln": lambda a, x: wg.special.betaln(a, x),
    "beta": lambda a, x: wg.special.beta(a, x),
    "betainc": lambda a, x: wg.special.betainc(a, x, 0.3 * wg.sigmoid(a * x)),
    "betainc_above_the_mean": lambda a, x: wg.special.betainc(0.2 * a, x, 0.9 + 0.05 * wg.tanh(a)),
    "zeta": lambda a, x: wg.special.zeta(a + 1.2, x),
    "ndtri": lambda a, x: wg.special.ndtri(wg.sigmoid(a - x)),
    "log_ndtr": lambda a, x: wg.special.log_ndtr(a - 3.0 * x),
    "erfcinv": lambda a, x: wg.special.erfcinv(wg.sigmoid(a - x)),
    "logit": lambda a, x: wg.special.logit(wg.sigmoid(a - x)),
    "entr": lambda a, x: wg.special.entr(a * x),
    "bessel": lambda a, x: wg.special.i0(a) * wg.special.i1(x),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("point", [(0.4, 0.9), (2.5, 1.7), (14.0, 11.0)])
def test_derivatives(name: str, point: tuple[float, float]) -> None:
    wg.check_grads(CALLS[name], (f64(point[0]), f64(point[1])), order=2)


@pytest.mark.parametrize("n", [1, 2])
def test_derivatives_in_the_shape_against_mpmath(n: int) -> None:
    a, x = gamma_grid(40)
    a, x = np.clip(a, 1e-3, 3e3), np.clip(x, 1e-3, 3e3)
    x = np.where(x > 1.5 * a + 40, 1.5 * a + 1, x)
    with mpmath.workdps(120):
        expected = []
        for p, q in zip(a, x, strict=True):
            p, q = mpmath.mpf(p), mpmath.mpf(q)
            slope = mpmath.diff(
                lambda s, q=q: mpmath.gammainc(s, 0, q, regularized=True), p, n, h=mpmath.mpf(10) ** -30
            )
            expected.append(float(-slope / mpmath.exp(p * mpmath.log(q) - q - mpmath.loggamma(p))))
    found = gamma_ratio(a, np.log(x), n=n)
    assert np.median(np.abs(found - expected) / np.abs(expected)) < 1e-13 * n**4
    # For large shapes the second derivative is a small difference of larger terms.
    assert worst(found, expected) < (1e-11 if n == 1 else 1e-6)


def test_gradients_at_the_edge_of_the_domain() -> None:
    a, x = f64(2.0).requires_grad_(), f64(0.0).requires_grad_()
    da, dx = wg.autograd.grad(wg.special.gammainc(a, x), [a, x])
    assert (float(da), float(dx)) == (0.0, 0.0)
    y = f64(0.0).requires_grad_()
    (g,) = wg.autograd.grad(wg.special.xlogy(y, 3.0), [y])
    assert float(g) == math.log(3.0)


# -- dtypes, shapes, tracing, errors


def test_dtypes_and_broadcasting() -> None:
    a = wg.tensor([[1.0], [2.0]], requires_grad=True)
    out = wg.special.gammainc(a, wg.tensor([0.5, 1.0, 2.0]))
    assert (out.shape, out.dtype) == ((2, 3), wg.float32)
    out.sum().backward()
    assert (a.grad.shape, a.grad.dtype) == ((2, 1), wg.float32)
    # Of Python numbers alone it is a number: in Python's precision, and weak.
    number = wg.special.betainc(1, 2, 0.5)
    assert (number.dtype, (number * wg.ones(2)).dtype) == (wg.float64, wg.float32)
    assert wg.special.ndtri(wg.tensor(0.3, dtype=wg.float16)).dtype == wg.float16
    b = wg.tensor(2.0, requires_grad=True)
    wg.special.gammainc(0.5, b).backward()
    assert b.grad.dtype == wg.float32


def test_traced_as_eager() -> None:
    a, x = f64([0.5, 20.0]), f64([1.0, 15.0])
    graph = wg.graph(lambda a, x: wg.special.gammainc(a, x) + wg.special.betaln(a, x) + wg.special.zeta(a + 1, x))(a, x)
    eager = wg.special.gammainc(a, x) + wg.special.betaln(a, x) + wg.special.zeta(a + 1, x)
    np.testing.assert_array_equal(graph(a, x).numpy(), eager.numpy())
    gradient = wg.graph(wg.grad(lambda a: wg.special.gammaincc(a, x).sum()))(a)
    np.testing.assert_allclose(gradient(a).numpy(), wg.grad(lambda a: wg.special.gammaincc(a, x).sum())(a).numpy())


def test_errors() -> None:
    with pytest.raises(wg.ShapeError, match="broadcast"):
        wg.special.gammainc(wg.ones(2), wg.ones(3))
    with pytest.raises(wg.DTypeError):
        wg.special.betainc(wg.tensor(1j), 1.0, 0.5)


def test_incomplete_gamma_of_the_least_shapes() -> None:
    """The reciprocal of a denormal number is infinite."""
    a = f64([5e-324, 1e-310])
    np.testing.assert_allclose(wg.special.gammainc(a, f64([5e-324, 1e-310])).numpy(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("transform", [lambda f: f, wg.jit], ids=["eager", "compiled"])
def test_incomplete_functions_have_their_derivatives_at_the_ends(transform):
    def slopes(f, x):
        found = []
        for _ in range(4):
            f = wg.grad(f)
            found.append(float(transform(f)(wg.tensor(x, dtype=wg.float64))))
        return found

    def p(a):
        return lambda x: wg.special.gammainc(wg.tensor(a, dtype=wg.float64), x)

    def i(a, b):
        return lambda x: wg.special.betainc(wg.tensor(a, dtype=wg.float64), wg.tensor(b, dtype=wg.float64), x)

    # The density x**(a-1) exp(-x) / Gamma(a) as a series, and polynomials.
    for f, x, wanted in (
        (p(1.0), 0.0, [1, -1, 1, -1]),
        (p(2.0), 0.0, [0, 1, -2, 3]),
        (p(3.0), 0.0, [0, 0, 1, -3]),
        (i(2.0, 3.0), 0.0, [0, 12, -48, 72]),
        (i(2.0, 3.0), 1.0, [0, 0, 24, 72]),
        (i(1.0, 1.0), 0.0, [1, 0, 0, 0]),
        (i(2.0, 2.0), 1.0, [0, -6, -12, 0]),
    ):
        assert slopes(f, x) == pytest.approx(wanted, rel=1e-12, abs=1e-12)
