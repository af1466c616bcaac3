"""NumPy's functions whose shapes or choices depend on values, in compiled functions and under gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp

V = np.array([0.5, -1.25, 2.75, 0.0, -0.75])


def _pieces(np: Any, x: Any) -> Any:
    return np.piecewise(x, [x < 0, x > 1], [lambda u: u * u, lambda u: np.log(u - 1.0), 3.0])


def _roots(np: Any, x: Any) -> Any:
    return np.piecewise(x, [x > 0], [np.sqrt, lambda u: np.exp(u) * np.where(u < -1, 2.0, u)])


@pytest.mark.parametrize("namespace", [np, wnp], ids=["numpy", "wengert.numpy"])
@pytest.mark.parametrize("fn", [_pieces, _roots])
def test_piecewise_is_compiled(fn: Any, namespace: Any) -> None:
    expected = fn(np, V)
    made = wg.jit(lambda x: fn(namespace, x))
    for x in (V, V[::-1].copy()):
        np.testing.assert_allclose(np.asarray(made(wg.tensor(x))), expected if x is V else expected[::-1])
    slopes = [wg.grad(lambda x: fn(namespace, x).sum()), wg.jit(wg.grad(lambda x: fn(namespace, x).sum()))]
    eager, compiled = (np.asarray(f(wg.tensor(V))) for f in slopes)
    np.testing.assert_allclose(compiled, eager)
    assert np.isfinite(eager).all()
    rows = wg.vmap(lambda x: fn(namespace, x))(wg.tensor(np.stack([V, V[::-1]])))
    np.testing.assert_allclose(np.asarray(rows), [expected, expected[::-1]])


@pytest.mark.parametrize(
    ("piece", "what"),
    [
        (lambda u: u - u.mean(), "mean"),
        (lambda u: u * u.sum(), "sum"),
        (lambda u: u[::-1], "slice"),
        (lambda u: np.sort(u), "sort"),
        (lambda u: u if u.max() > 0 else -u, "a function asks for"),
    ],
)
def test_a_function_of_several_elements_is_refused_while_traced(piece: Any, what: str) -> None:
    fn = lambda x: np.piecewise(x, [x < 0], [piece, 0.0])
    np.testing.assert_allclose(np.asarray(fn(wg.tensor(V))), fn(V))
    with pytest.raises(wg.TraceError, match=what):
        wg.jit(fn)(wg.tensor(V))


def test_products_of_polynomials_are_compiled() -> None:
    made = wg.jit(lambda p, q: np.polymul(p, q))
    for p in ([1.0, 2.0, 3.0], [0.0, 2.0, 3.0], [0.0, 0.0, 0.0]):
        for q in ([0.0, 1.0], [2.0, 1.0]):
            expected = np.polymul(np.array(p), np.array(q))
            np.testing.assert_allclose(
                np.asarray(made(wg.tensor(np.array(p)), wg.tensor(np.array(q)))), np.atleast_1d(expected)
            )


@pytest.mark.parametrize("namespace", [np, wnp], ids=["numpy", "wengert.numpy"])
def test_parts_of_factorizations(namespace: Any) -> None:
    a = np.random.default_rng(2).normal(size=(4, 3))

    def values(x: Any) -> Any:
        return namespace.linalg.svd(x, compute_uv=False)

    def triangle(x: Any) -> Any:
        return namespace.linalg.qr(x, mode="r")

    for fn, expected in ((values, np.linalg.svd(a, compute_uv=False)), (triangle, np.linalg.qr(a, mode="r"))):
        for run in (fn, wg.jit(fn)):
            np.testing.assert_allclose(np.asarray(run(wg.tensor(a))), expected)
        wg.check_grads(lambda x, fn=fn: (fn(x) ** 3).sum(), wg.tensor(a), order=1)
    u, s, vh = namespace.linalg.svd(wg.tensor(a), full_matrices=False)
    np.testing.assert_allclose(np.asarray((u * s) @ vh), a)
    with pytest.raises(wg.GradientError, match="hermitian="):
        wg.grad(lambda x: namespace.linalg.svd(x, hermitian=True)[1].sum())(wg.tensor(np.eye(2)))


def test_a_write_by_a_mask() -> None:
    def fn(x: Any) -> Any:
        y = x * 1.0
        np.putmask(y, x > 0, x[:2] * 10.0)
        return y

    x, expected = wg.tensor(V), V.copy()
    np.putmask(expected, V > 0, V[:2] * 10.0)
    for run in (fn, wg.jit(fn)):
        np.testing.assert_allclose(np.asarray(run(x)), expected)
    wg.check_grads(lambda x: (fn(x) ** 2).sum(), wg.tensor(V + 0.1), order=1)
