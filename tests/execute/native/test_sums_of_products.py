"""Sums of products of matrices: one product where that is less to read and write, with the same value."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg


def products(compiled: Any) -> list[str]:
    """The products of matrices among the steps of a plan, by their sizes."""
    return re.findall(r"gemm \w+", str(compiled.plan))


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [wg.asarray(rng.standard_normal(shape)) for shape in shapes]


def test_the_gradient_of_a_recurrence_is_one_product() -> None:
    steps, batch, width = 6, 5, 40
    x, w = arrays((steps, batch, width), (width, width))

    def loss(w: Any) -> Any:
        h = x[0]
        for t in range(1, steps):
            h = wg.tanh(h @ w.T + x[t])
        return (h * h).sum()

    gradient = wg.grad(loss)
    compiled = wg.jit(gradient)
    want = np.asarray(gradient(w))
    for _ in range(6):
        np.testing.assert_allclose(np.asarray(compiled(w * 1.0)), want, rtol=1e-12, atol=1e-12)
    assert f"gemm {width}x{width}x{batch * (steps - 1)}" in products(compiled)
    assert f"gemm {width}x{width}x{batch}" not in products(compiled)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_terms_in_any_order_beside_others(turned: bool, dtype: Any) -> None:
    shapes = [(6, 50) if turned else (50, 6), (6, 60)] * 4
    values = [v.astype(dtype) for v in arrays(*shapes, (50, 60))]

    def f(*values: Any) -> Any:
        *operands, other = values
        made = [(a.T if turned else a) @ b for a, b in zip(operands[::2], operands[1::2])]
        return (made[2] + made[0]) + (other * 2 + (made[1] + made[3]))

    compiled = wg.jit(f)
    want = np.asarray(f(*values))
    for _ in range(6):
        np.testing.assert_allclose(np.asarray(compiled(*values)), want, rtol=0, atol=100 * np.finfo(dtype).eps)
    assert products(compiled) == ["gemm 50x60x24"]


def test_products_that_are_turned_afterwards() -> None:
    """(Aᵀ B)ᵀ is a product too; (A B)ᵀ would have to be turned, and so stays what it is."""
    a, b, c, d, e, f, g, h = arrays(*[(6, 60), (6, 50)] * 2, (50, 6), (6, 60), (60, 6), (6, 50))

    def total(*values: Any) -> Any:
        a, b, c, d, e, f, g, h = values
        return (a.T @ b).T + ((e @ f) + (c.T @ d).T) + (g @ h).T

    compiled = wg.jit(total)
    want = np.asarray(total(a, b, c, d, e, f, g, h))
    for _ in range(6):
        np.testing.assert_allclose(np.asarray(compiled(a, b, c, d, e, f, g, h)), want, rtol=0, atol=1e-13)
    assert sorted(products(compiled)) == ["gemm 50x60x18", "gemm 60x50x6"]


def test_what_is_read_besides_stays_a_product_of_its_own() -> None:
    values = arrays(*[(50, 6), (6, 60)] * 4)

    def f(*v: Any) -> Any:
        made = [a @ b for a, b in zip(v[::2], v[1::2])]
        return made[0] + made[1] + made[2] + made[3], made[1]

    compiled = wg.jit(f)
    for _ in range(6):
        for a, b in zip(compiled(*values), f(*values), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12, atol=1e-12)
    assert sorted(products(compiled)) == ["gemm 50x60x18", "gemm 50x60x6"]


def test_few_or_wide_products_are_left() -> None:
    """To lay their operands side by side would be more work than to add them up."""
    wide = arrays(*[(20, 50), (50, 20)] * 4)
    few = arrays(*[(50, 6), (6, 60)] * 2)

    def f(*v: Any) -> Any:
        total = v[0] @ v[1]
        for a, b in zip(v[2::2], v[3::2]):
            total = total + a @ b
        return total

    for values, count in ((wide, 4), (few, 2)):
        compiled = wg.jit(f)
        want = np.asarray(f(*values))
        np.testing.assert_allclose(np.asarray(compiled(*values)), want, rtol=1e-12, atol=1e-12)
        assert len(products(compiled)) == count
