"""Derivatives of determinants of orders 0 to 4 at matrices of every rank, against those of the polynomial.

A determinant is linear in each row, so its derivative in k directions is a sum of determinants with k rows of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

ORDERS = range(5)


def right(x: Any, directions: list[Any]) -> Any:
    """Return the derivative by rows: each direction gives one of its rows, in every way that there is."""
    total: Any = 0.0
    for rows in itertools.permutations(range(x.shape[-1]), len(directions)):
        mixed = x.copy()
        for direction, r in zip(directions, rows, strict=True):
            mixed[r] = direction[r]
        total = total + np.linalg.det(mixed)
    return total


def _along(fn: Callable[[Any], Any], h: Any, mode: str) -> Callable[[Any], Any]:
    """Return the derivative of a function in the direction h."""
    direction = wg.tensor(h)
    if mode == "forward":
        return lambda x: wg.jvp(fn, (x,), (direction,))[1]
    if h.dtype.kind == "c":
        # The derivative of a holomorphic function, by the cotangent 1, of which the result is the conjugate.
        return lambda x: (wg.conj(wg.vjp(fn, x)[1](wg.tensor(1.0 + 0.0j, dtype=h.dtype))[0]) * direction).sum()
    return lambda x: (wg.grad(fn)(x) * direction).sum()


def _matrix(n: int, rank: int, dtype: Any) -> Any:
    rng = np.random.default_rng(n * 7 + rank)

    def normal(*shape: int) -> Any:
        x = rng.integers(-2, 3, shape) + 0.5
        return (x + 1j * rng.integers(-2, 3, shape) if dtype == np.complex128 else x).astype(dtype)

    return normal(n, rank) @ normal(rank, n), [normal(n, n) for _ in ORDERS]


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("mode", ["reverse", "forward", "compiled"])
@pytest.mark.parametrize(
    ("n", "rank"),
    [
        pytest.param(n, r, marks=[pytest.mark.slow] if n > 3 and r not in (0, n - 3) else [])
        for n in range(1, 7)
        for r in range(n + 1)
        if n < 6 or r in (0, 2, 5)
    ],
)
def test_derivatives_of_every_order(n: int, rank: int, mode: str, dtype: Any) -> None:
    x, directions = _matrix(n, rank, dtype)
    fn: Callable[[Any], Any] = wg.linalg.det
    for order in ORDERS:
        found = (wg.jit(fn) if mode == "compiled" else fn)(wg.tensor(x))
        size = np.abs(x).sum() + 1.0
        np.testing.assert_allclose(
            np.asarray(found), right(x, directions[:order]), rtol=1e-10, atol=1e-12 * size ** max(n - order, 0)
        )
        fn = _along(fn, directions[order], "forward" if mode == "forward" else "reverse")


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_taylor_and_mixed_modes(rank: int) -> None:
    x, directions = _matrix(3, rank, np.float64)
    expected = [right(x, [directions[0]] * k) for k in ORDERS]
    line = wg.tensor(directions[0])
    zero = wg.tensor(0.0, dtype="float64")
    found = wg.taylor(lambda t: wg.linalg.det(wg.tensor(x) + t * line), zero, 4)
    np.testing.assert_allclose([float(v) for v in found], expected, rtol=1e-10, atol=1e-10)
    for modes in itertools.product(["forward", "reverse"], repeat=3):
        fn: Callable[[Any], Any] = wg.linalg.det
        for mode, h in zip(modes, directions, strict=False):
            fn = _along(fn, h, mode)
        np.testing.assert_allclose(float(fn(wg.tensor(x))), right(x, directions[:3]), rtol=1e-10, atol=1e-10)


def test_stacks_and_batches() -> None:
    stack = np.stack([_matrix(4, rank, np.float64)[0] for rank in range(5)])
    directions = _matrix(4, 0, np.float64)[1]
    fn: Callable[[Any], Any] = wg.linalg.det
    for order in range(4):
        expected = [right(x, directions[:order]) for x in stack]
        for made in (wg.vmap(fn), wg.jit(wg.vmap(fn))):
            np.testing.assert_allclose(np.asarray(made(wg.tensor(stack))), expected, rtol=1e-10, atol=1e-9)
        fn = _along(fn, directions[order], "reverse")
    cube: Callable[[Any], Any] = lambda x: wg.linalg.det(x).sum()
    for h in directions[:3]:
        cube = _along(cube, np.broadcast_to(h, stack.shape), "forward")
    expected = [right(x, directions[:3]) for x in stack]
    np.testing.assert_allclose(float(cube(wg.tensor(stack))), sum(expected), rtol=1e-10)


@pytest.mark.parametrize("values", [[1.0, 1e-16, 0.0], [1.0, 1e-8, 1e-8], [1e-200, 1e-200, 0.0], [1e200, 1e-200, 1.0]])
def test_third_derivatives_keep_their_digits_whatever_the_singular_values(values: list[float]) -> None:
    """The third derivative of a matrix of three rows does not depend on the matrix."""
    rng = np.random.default_rng(3)
    q, r = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    directions = [rng.normal(size=(3, 3)) for _ in range(3)]
    fn: Callable[[Any], Any] = wg.linalg.det
    for h in directions:
        fn = _along(fn, h, "reverse")
    x = q @ np.diag(values) @ r
    np.testing.assert_allclose(float(fn(wg.tensor(x))), right(np.zeros((3, 3)), directions), rtol=1e-12)


def test_derivatives_of_large_matrices() -> None:
    """Of a matrix of 30 rows with three singular values that are 0, the third derivative is theirs alone."""
    rng = np.random.default_rng(4)
    q, r = (np.linalg.qr(rng.normal(size=(30, 30)))[0] for _ in range(2))
    values = np.concatenate([np.zeros(3), np.linspace(0.5, 2.0, 27)])
    directions = [rng.normal(size=(30, 30)) for _ in range(3)]
    fn: Callable[[Any], Any] = wg.linalg.det
    for h in directions:
        fn = _along(fn, h, "reverse")
    corner = [(q.T @ h @ r.T)[:3, :3] for h in directions]
    expected = np.linalg.det(q) * np.linalg.det(r) * values[3:].prod() * right(np.zeros((3, 3)), corner)
    np.testing.assert_allclose(float(fn(wg.tensor(q @ np.diag(values) @ r))), expected, rtol=1e-10)


def test_traces_of_powers_where_eigenvalues_are_equal() -> None:
    """What the page of special points says to write for a function of eigenvalues in any order."""
    a = wg.tensor(np.array([[1.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 3.0]]))
    one = wg.tensor(np.eye(3))
    zero = wg.tensor(0.0, dtype="float64")
    found = wg.taylor(lambda t: wg.linalg.trace(wg.linalg.matrix_power(one + t * a, 3)), zero, 3)
    assert [float(v) for v in found] == pytest.approx([3.0, 12.0, 120.0, 294.0])

    def of_eigenvalues(t: Any) -> Any:
        return (wg.linalg.eigvalsh(one + t * a) ** 3).sum()

    assert float(wg.grad(of_eigenvalues)(zero)) == pytest.approx(12.0)
    assert np.isnan(float(wg.grad(wg.grad(of_eigenvalues))(zero)))
