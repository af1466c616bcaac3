"""Special functions and draws that XLA has none of: eager values at edges and far out, and counts bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg

pytest.importorskip("jax", reason="the engine needs jax")

from wengert.core.ops.op import TABLE
from wengert.execute.xla.lowerings import rejection

EDGES = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, -2.0, -0.5, -7.25, 0.5, 1e-30, 3.0, 9.999, 10.0, 12.0, 60.5, 1e6,
]  # fmt: skip


def on_xla(fn: Any) -> Any:
    """The function as a program that XLA runs alone, without Python."""
    compiled = wg.jit(fn, engine="xla")

    def run(*args: Any) -> Any:
        found = compiled(*args)
        assert not compiled._shown().executor.on_host
        return found

    return run


def grid(*edges: list[float]) -> list[Any]:
    """Every combination of edges, as float64 tensors."""
    return [wg.tensor(v.reshape(-1)) for v in np.meshgrid(*edges)]


def close(got: Any, want: Any, tolerance: float) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=tolerance, atol=tolerance)


def bound(name: str, *args: Any, **attrs: Any) -> Any:
    """The function that binds an op which has no public front door."""
    return lambda *xs: TABLE[name].front(*xs, **attrs)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 9, 30])
def test_polygamma(n: int) -> None:
    f = lambda x: wg.special.polygamma(n, x)
    for x in (wg.tensor(np.array(EDGES)), wg.tensor(np.linspace(-6.03, 45.0, 400))):
        close(on_xla(f)(x), f(x), 2e-11)
        close(on_xla(f)(x.astype("float32")), f(x.astype("float32")), 1e-6)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_hurwitz_zeta(n: int) -> None:
    f = bound("hurwitz_zeta", n=n)
    for s, q in (grid(EDGES, EDGES), grid(list(np.linspace(1.01, 90, 40)), list(np.linspace(0.01, 40, 40)))):
        close(on_xla(f)(s, q), f(s, q), 1e-11)


def test_zeta_of_what_lies_far_below_0_takes_no_time() -> None:
    assert np.isnan(wg.special.zeta(2.0, -1e300).item())


@pytest.mark.parametrize("n", [1, 2, 3])
def test_derivatives_of_the_incomplete_gamma_function(n: int) -> None:
    f = bound("gamma_ratio", n=n)
    logs = [np.nan, np.inf, -np.inf, -40.0, -1.0, 0.0, 0.5, 2.2, 2.6, 5.0, 13.0]
    shapes = [a if a != 1e-30 else 1e-3 for a in EDGES]  # closer to 0 nothing but rounding is left of third derivatives
    for a, w in (grid(shapes, logs), grid(list(np.linspace(0.02, 40, 40)), list(np.linspace(-6, 4.2, 40)))):
        close(on_xla(f)(a, w), f(a, w), 1e-9)


@pytest.mark.parametrize(("i", "j"), [(1, 0), (0, 1), (1, 1), (2, 0)])
def test_derivatives_of_the_incomplete_beta_function(i: int, j: int) -> None:
    f = bound("betainc_slope", i=i, j=j)
    shapes = [np.nan, 0.0, -1.0, 0.3, 1.0, 2.5, 9.0, 11.0, 40.0]
    where = [np.nan, -0.5, 0.0, 1.0, 1.5, 1e-9, 0.2, 0.5, 0.93]
    inside = [0.4, 3.0, 14.0], [0.7, 5.0, 22.0], list(np.linspace(0.01, 0.99, 30))
    for given in (grid(shapes, shapes, where), grid(*inside)):
        close(on_xla(f)(*given), f(*given), 1e-9)


def test_betaln() -> None:
    a, b = grid(EDGES, EDGES)
    close(on_xla(bound("betaln"))(a, b), TABLE["betaln"].front(a, b), 1e-12)


@pytest.mark.parametrize("name", ["gammainc", "betainc", "polygamma", "zeta"])
def test_second_derivatives_run_without_python(name: str) -> None:
    x = wg.tensor(np.array([0.4, 0.7]))
    f = {
        "gammainc": lambda a: wg.special.gammainc(a, 1.5 * a).sum(),
        "betainc": lambda a: wg.special.betainc(a, 1.0 + a, 0.5 * a).sum(),
        "polygamma": lambda a: wg.special.polygamma(1, a).sum(),
        "zeta": lambda a: wg.special.zeta(1.5 + a, a).sum(),
    }[name]
    close(on_xla(wg.hessian(f))(x), wg.hessian(f)(x), 1e-8)


# -- draws


def counts(kind: str, dtype: str) -> Any:
    shape = (4000,)
    spread = wg.tensor(np.exp(np.linspace(-9.0, 12.0, 4000))).astype(dtype)
    small = wg.linspace(0, 1, 4000).astype(dtype)
    key = wg.random.key(3)
    if kind == "poisson":
        return lambda: wg.random.poisson(spread, shape, key=key)
    return lambda: wg.random.binomial(wg.floor(spread), small, shape, key=key)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["poisson", "binomial"])
def test_counts_are_eager_ones(kind: str, dtype: str) -> None:
    draw = counts(kind, dtype)
    np.testing.assert_array_equal(np.asarray(on_xla(draw)()), np.asarray(draw()))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_gamma_numbers_are_eager_ones_to_the_last_bits(dtype: str) -> None:
    a = wg.tensor(np.exp(np.linspace(-9.0, 9.0, 4000))).astype(dtype)
    draw = lambda: wg.random.loggamma(a, (3, 4000), key=wg.random.key(5))
    tolerance = {"float64": 1e-13, "float32": 1e-6, "float16": 1e-3}[dtype]
    got, want = np.asarray(on_xla(draw)()), np.asarray(draw())
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_parameters_that_are_none() -> None:
    odd = wg.tensor([np.nan, np.inf, -1.0, 0.0, 1e-300, 9.99, 10.0, 1e15])
    probs = wg.tensor([0.5, 0.0, 0.5, 0.3, 1.0, np.nan, 2.0, 0.5])
    key = wg.random.key(1)
    for draw in (
        lambda: wg.random.poisson(odd, key=key),
        lambda: wg.random.loggamma(odd, key=key),
        lambda: wg.random.binomial(odd, probs, key=key),
        lambda: wg.random.poisson(wg.zeros((0, 2)), key=key),
    ):
        close(on_xla(draw)(), draw(), 1e-12)


@pytest.mark.slow
def test_a_generator_goes_on_where_another_engine_stopped() -> None:
    rate = wg.tensor(np.linspace(0.1, 60.0, 300))
    step = lambda: (wg.random.poisson(rate), wg.random.gamma(rate), wg.random.binomial(rate.floor(), 0.25))
    wg.manual_seed(4)
    want = [step() for _ in range(4)]
    wg.manual_seed(4)
    compiled = wg.jit(step, engine="xla")
    for k, expected in enumerate(want):
        for got, value in zip(step() if k == 1 else compiled(), expected, strict=True):
            close(got, value, 1e-12)


@pytest.mark.slow
def test_what_another_rounding_might_decide_is_left_to_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejection, "_CLOSE", 1e-3)
    for draw in (
        counts("poisson", "float64"),
        counts("binomial", "float64"),
        lambda: wg.random.loggamma(wg.full((500,), 2.0), key=wg.random.key(0)),
    ):
        compiled = wg.jit(draw, engine="xla")
        got = compiled()
        np.testing.assert_array_equal(np.asarray(got), np.asarray(draw()))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex64", "complex128"])
def test_eigenvalues_of_general_matrices(dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=(4, 5, 5))
    x = wg.tensor(x + 1j * x[::-1] if dtype[0] == "c" else x).astype(dtype)
    tolerance = {"float64": 1e-12, "complex128": 1e-12, "float16": 5e-3}.get(dtype, 1e-4)
    (values, vectors), want = on_xla(wg.linalg.eig)(x), wg.linalg.eig(x)
    assert (values.dtype, vectors.dtype) == (want[0].dtype, want[1].dtype)
    close(values, want[0], tolerance)
    close(np.abs(vectors), np.abs(want[1]), tolerance)  # they have phases of LAPACK's choice
    close(x.numpy() @ np.asarray(vectors), vectors * values[:, None, :], tolerance)
    assert on_xla(wg.linalg.eig)(wg.zeros((2, 0, 0)))[1].shape == (2, 0, 0)


def test_eigenvalues_of_what_has_none() -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(wg.linalg.LinAlgError):
            wg.jit(wg.linalg.eig, engine="xla")(wg.full((2, 2), bad))
