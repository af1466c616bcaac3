"""Products with rows that are picked repeatedly: computed once for each row of the table, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg

pytest.importorskip("llvmlite")

from wengert.execute.native.rewrite.canonical import canonical


def loss(table: Any, w: Any, i: Any) -> Any:
    return wg.tanh(table[i] @ w).sum()


def arrays(rows: int, picks: tuple[int, ...], dtype: Any = np.float64) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    table, w = rng.normal(size=(rows, 6)).astype(dtype), rng.normal(size=(6, 5)).astype(dtype)
    return wg.tensor(table), wg.tensor(w), wg.tensor(rng.integers(0, rows, picks))


def products(f: Any, *args: Any) -> list[tuple[int, ...]]:
    """The shapes of the products that are computed."""
    graph = canonical(wg.graph(f)(*args))
    return sorted(n.spec.shape for n in graph.nodes if n.op.name == "matmul")


gradient = wg.value_and_grad(loss, argnums=(0, 1))


@pytest.mark.parametrize("picks", [(40,), (8, 5), (2, 4, 5), (5, 1, 8)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_and_gradients(picks: tuple[int, ...], dtype: Any) -> None:
    args = arrays(7, picks, dtype)
    assert products(gradient, *args) == [(6, 5), (7, 5), (7, 6)]
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    for have, want in zip(wg.tree.leaves(wg.jit(gradient)(*args)), wg.tree.leaves(gradient(*args)), strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have.numpy(), want.numpy(), **close)


def test_sums_of_16_bit_floats_are_not_rounded_at_every_pick() -> None:
    args = arrays(7, (40,), np.float16)
    assert (7, 5) not in products(gradient, *args)


def test_second_derivatives() -> None:
    def along(table: Any, w: Any, i: Any) -> Any:
        v = wg.ones_like(table)
        return wg.jvp(wg.grad(lambda t: loss(t, w, i)), (table,), (v,))[1]

    args = arrays(5, (30,))
    np.testing.assert_allclose(wg.jit(along)(*args).numpy(), along(*args).numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("picks", [(13,), (1,), (0,)])
def test_few_picks_are_multiplied_as_they_are(picks: tuple[int, ...]) -> None:
    args = arrays(7, picks)
    assert (7, 5) not in products(gradient, *args)
    for have, want in zip(wg.tree.leaves(wg.jit(gradient)(*args)), wg.tree.leaves(gradient(*args)), strict=True):
        np.testing.assert_allclose(have.numpy(), want.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_nobody_picks_has_no_part(bad: float) -> None:
    table, w, i = arrays(7, (40,))
    i = wg.where(i == 3, 4, i)
    spoilt = table.numpy().copy()
    spoilt[3] = bad
    _, (dt, dw) = wg.jit(gradient)(wg.tensor(spoilt), w, i)
    _, (want_dt, want_dw) = gradient(table, w, i)
    np.testing.assert_allclose(dw.numpy(), want_dw.numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dt.numpy(), want_dt.numpy(), rtol=1e-12, atol=1e-12)
    assert (dt.numpy()[3] == 0).all()
    # Nor have they a gradient where the matrix is no number.
    broken = w.numpy().copy()
    broken[0, 0] = bad
    have = wg.jit(gradient)(table, wg.tensor(broken), i)[1][0].numpy()
    want = gradient(table, wg.tensor(broken), i)[1][0].numpy()
    assert (have[3] == 0).all()
    np.testing.assert_array_equal(np.isnan(have), np.isnan(want))


@pytest.mark.parametrize("wrong", [7, -8])
def test_a_pick_out_of_range(wrong: int) -> None:
    table, w, i = arrays(7, (40,))
    indices = i.numpy().copy()
    indices[11] = wrong
    with pytest.raises(wg.WengertError, match=rf"index {wrong} is out of range .* of size 7"):
        wg.jit(gradient)(table, w, wg.tensor(indices))


def test_negative_picks() -> None:
    table, w, i = arrays(7, (40,))
    for have, want in zip(
        wg.tree.leaves(wg.jit(gradient)(table, w, i - 7)), wg.tree.leaves(gradient(table, w, i)), strict=True
    ):
        np.testing.assert_allclose(have.numpy(), want.numpy(), rtol=1e-12, atol=1e-12)


def test_an_embedding_before_a_linear_layer() -> None:
    """The modules that users write it with, and other uses of the rows picked."""
    wg.manual_seed(0)
    table, linear = wg.nn.Embedding(11, 4), wg.nn.Linear(4, 3)
    i = wg.tensor(np.arange(60).reshape(6, 10) % 11)

    def run(compiled: bool) -> list[Any]:
        def step(i: Any) -> Any:
            for p in (*table.parameters(), *linear.parameters()):
                p.grad = None
            rows = table(i)
            value = (linear(rows) ** 2).sum() + wg.sin(rows).sum()
            value.backward()
            return value

        value = (wg.jit(step) if compiled else step)(i)
        return [value, *(p.grad for p in (*table.parameters(), *linear.parameters()))]

    for have, want in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(have.detach().numpy(), want.detach().numpy(), rtol=2e-5, atol=1e-5)
