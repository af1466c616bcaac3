"""What is one value is computed once, whatever axes of length 1 it has, and gives eager execution's results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg

pytest.importorskip("llvmlite")

from wengert.core.graph.graph import Graph
from wengert.execute.native.rewrite.canonical import canonical


def ops(f: Callable[..., Any], *args: Any) -> Counter[str]:
    """Return how many nodes of each op a function's canonical form has."""
    graph: Graph = canonical(wg.graph(f)(*args))
    return Counter(n.op.name for n in graph.nodes)


def agree(f: Callable[..., Any], *args: Any) -> None:
    """Compare compiled results, of the first and the sixth call, with eager ones."""
    compiled = wg.jit(f)
    want = [t.numpy() for t in wg.tree.leaves(f(*args))]
    for _ in range(6):
        found = wg.tree.leaves(compiled(*args))
    for a, b in zip(found, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, atol=1e-12)


X = wg.tensor(np.random.default_rng(0).normal(size=(4, 5)))
S = wg.tensor(np.array(0.7))


def test_one_number_with_and_without_axes() -> None:
    def f(x: Any, s: Any) -> Any:
        return x * wg.exp(s), x + wg.exp(s.reshape(1)), x - wg.exp(s.reshape(1, 1)), wg.exp(s.reshape(1)[None])

    assert ops(f, X, S)["exp"] == 1
    agree(f, X, S)
    # An axis that the number has itself counts no more than one that it is given.
    one = S.reshape(1)
    assert ops(lambda x, s: (x * wg.exp(s[0]), x + wg.exp(s.reshape(1, 1))), X, one)["exp"] == 1
    agree(f, X, one)


def test_permutations_of_axes_of_length_1_are_reshapes() -> None:
    def f(x: Any) -> Any:
        stack = x[None]
        a = wg.permute_dims(stack, (0, 2, 1))
        b = wg.permute_dims(wg.permute_dims(stack, (1, 0, 2)), (2, 0, 1))
        return wg.sin(a).sum(), wg.sin(b).sum((0, 1, 2)), wg.permute_dims(stack, (1, 0, 2)) + 1.0

    assert ops(f, X)["permute"] == 1
    agree(f, X)


def test_permutations_of_the_last_axes_of_stacks() -> None:
    """A permutation may name the last axes alone, and leave those before them."""
    x = wg.tensor(np.random.default_rng(1).normal(size=(2, 1, 3, 4)))
    agree(lambda x: (wg.matrix_transpose(x) @ x, wg.matrix_transpose(wg.permute_dims(x, (1, 0, 2, 3)))), x)
    agree(lambda x: wg.matrix_transpose(wg.matrix_transpose(x).reshape(2, 4, 1, 3)), x)


@pytest.mark.parametrize("index", [(0,), (0, slice(None)), (slice(0, 1), None), (slice(None), slice(None, None, -1))])
def test_slices_of_everything(index: Any) -> None:
    row = X[:1]
    agree(lambda x: (wg.sin(x[index]) * 2.0, wg.grad(lambda y: (y[index] ** 2).sum())(x)), row)
    assert ops(lambda x: x[0], row)["slice"] == 0
    assert ops(lambda x: x[:, ::-1], row)["slice"] == 1


def test_updates_of_everything() -> None:
    def f(x: Any, v: Any) -> Any:
        y = wg.zeros_like(x)
        y[...] = v
        return y + 1.0

    agree(f, X, X * 2)
    assert ops(f, X, X)["slice_update"] == 0


def test_work_on_broadcast_numbers_is_done_once() -> None:
    def f(x: Any, s: Any) -> Any:
        spread = wg.broadcast_to(s, x.shape)
        return x * wg.exp(spread), wg.where(spread > 0, spread, 0.5 * spread).sum()

    graph = canonical(wg.graph(f)(X, S))
    assert all(n.spec.shape == () for n in graph.nodes if n.op.name in ("exp", "greater", "where"))
    agree(f, X, S)


@pytest.mark.parametrize("value", [0.7, 0.0, -0.0, np.inf, np.nan, -1e307])
def test_sums_of_what_is_broadcast(value: float) -> None:
    s = wg.tensor(np.array(value))
    agree(lambda s: wg.broadcast_to(s, (3, 4)).sum(), s)
    agree(lambda s: wg.broadcast_to(s, (3, 4)).sum(0, keepdims=True), s)
    row = wg.tensor(np.array([value, 1.0, -2.0]))
    agree(lambda r: (wg.broadcast_to(r, (5, 3)).sum(0), wg.broadcast_to(r, (5, 3)).sum(1)), row)
    agree(lambda r: wg.broadcast_to(r, (5, 3)).sum(), row)
    signs = [np.signbit(wg.jit(lambda s: wg.broadcast_to(s, (2,)).sum())(s).numpy()), np.signbit(np.sum([value] * 2))]
    assert signs[0] == signs[1] or np.isnan(value)


def test_sums_of_integers_that_are_broadcast() -> None:
    agree(lambda s: wg.broadcast_to(s, (3, 4)).sum(), wg.tensor(np.array(2**62)))
    agree(lambda s: wg.broadcast_to(s, (3, 0)).sum(1), S)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0])
def test_masks_inside_of_masks(bad: float) -> None:
    """What is not chosen at last may be anything on the way."""

    def f(x: Any, y: Any) -> Any:
        c = y > 0
        inner = wg.where(c, x, 0.0)
        return wg.where(c, inner * y, 0.0), wg.where(c, wg.where(c, y, 1.0) / x, 7.0), wg.where(c, -inner, y), inner

    x = X.numpy().copy()
    x[::2] = bad
    agree(f, wg.tensor(x), X)
    assert ops(lambda x, y: wg.where(y > 0, wg.where(y > 0, x, 0.0) * y, 0.0), X, X)["where"] == 1
    # A division of integers can fail, and the mask inside keeps it from that.
    n = wg.tensor(np.array([4, 0, 2]))
    agree(lambda n: wg.where(n != 0, 8 // wg.where(n != 0, n, 1), 0), n)


def test_masks_inside_of_masks_of_numbers() -> None:
    """What is chosen may be a literal, whose dtype is that of what it stands beside."""
    x = wg.tensor(np.array([1.0, -2.0, 0.0], np.float32))

    def f(x: Any) -> Any:
        c = x > 0
        return wg.where(c, 2, wg.where(c, x, 0.5)), wg.where(c, wg.where(c, 3, x), 4), wg.where(c, 5, wg.where(c, x, x))

    agree(f, x)


@settings(max_examples=60)
@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.sampled_from([np.float32, np.float64]))
def test_numbers_of_products(c: float, d: float, dtype: Any) -> None:
    x = wg.tensor(np.array([1.5, -2.0, 3.0], dtype))

    def f(x: Any) -> Any:
        return c * (d * x), (c * x) * (d * x), (c * x) * d

    close = 1e-5 if dtype == np.float32 else 1e-13
    for a, b in zip(wg.jit(f)(x), f(x), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=close, atol=0 if abs(c * d) > 1e-30 else 1e-30)


def test_numbers_of_products_do_not_overflow() -> None:
    x, y = wg.tensor(np.array([1e200, 1e-200])), wg.tensor(np.array([1e-200, 1e200]))
    agree(lambda x: (1e-150 * x) * (1e-150 * x) * 1e100, x)
    agree(lambda x: (1e200 * (1e-200 * x), 1e300 * (1e-300 * x), 1e-10 * (1e10 * x)), x)
    agree(lambda x, y: ((2.0**600 * x) * (2.0**-601 * y), (1e100 * x) * (1e-100 * y)), x, y)
    tiny, big = wg.tensor(np.array([1.2e-42], np.float32)), wg.tensor(np.array([1e38], np.float32))
    agree(lambda x, y: ((100 * x) * (0.0001 * y), (8 * x) * (0.01 * y), (8 * x) * (0.125 * y)), tiny, big)
    assert ops(lambda x: -0.5 * (2.0 * x), x)["multiply"] == 0
    assert ops(lambda x, y: (-0.5 * x) * (2.0 * y), x, y)["multiply"] == 1


def test_nothing() -> None:
    empty = wg.tensor(np.zeros((0, 3)))
    agree(lambda x: (wg.concat([wg.exp(x) * 2.0, X[:, :3]]), (x != 0).astype(wg.float32), wg.exp(x).sum()), empty)


@pytest.mark.parametrize("name", ["sum", "max", "mean", "prod"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_beside_a_short_axis(name: str, keepdims: bool) -> None:
    def f(x: Any) -> Any:
        parts = wg.stack([wg.sin(x[0]), x[1] * 2.0, wg.zeros_like(x[0])], axis=-1)
        return getattr(wg, name)(parts, axis=0, keepdims=keepdims), getattr(wg, name)(parts, axis=(0, 1))

    x = wg.tensor(np.random.default_rng(2).normal(size=(2, 50)))
    agree(f, x)
    agree(wg.grad(lambda x: (f(x)[0] ** 2).sum()), x)
    assert ops(f, x)["stack"] <= 2
