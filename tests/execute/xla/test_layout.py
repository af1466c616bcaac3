"""Images with their channels behind: the same values and gradients, and no turning around between convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.nn import functional as F

pytest.importorskip("jax", reason="the engine needs jax")

from wengert.execute.xla.layout import channels_last


def draw(*shape: int, seed: int = 0) -> Any:
    return wg.tensor(np.random.default_rng(seed).normal(size=shape))


def norm(x: Any) -> Any:
    axes = (0, *range(2, x.ndim))
    mean, variance = x.mean(axis=axes, keepdims=True), wg.var(x, axis=axes, keepdims=True)
    return (x - mean) / wg.sqrt(variance + 1e-5)


def residual(x: Any, w: Any) -> Any:
    y = wg.relu(norm(F.conv2d(x, w, padding=1)))
    return (wg.where(y > 0.1, y, x) + x * 2.0).sum(axis=(0, 2, 3)) + y.max()


def pooled(x: Any, w: Any) -> Any:
    y = F.max_pool2d(F.relu(F.conv2d(x, w, padding=1)), 2)
    return wg.tanh(y + y.mean(axis=1, keepdims=True)).reshape(x.shape[0], -1)


def reduced(x: Any, w: Any) -> Any:
    y = F.conv2d(x, w)
    return [y.sum(axis=0), y.mean(axis=(2, 3)), y.max(axis=1), y.sum(axis=(0, 1)), y.min(), (y * y).sum(axis=3)]


def beside(x: Any, w: Any) -> Any:
    y = F.conv2d(x, w, padding=1)
    bias = wg.arange(3, dtype=wg.float64)
    rows = wg.arange(y.shape[3], dtype=wg.float64)
    return [
        y + bias[:, None, None],
        y * rows,
        y + y[:1],
        y[:, :, ::2] * 2.0,
        (y.astype("int32") > 0) & (y < 1),
        y.mT + 1,
    ]


def lines(x: Any, w: Any) -> Any:
    y = F.conv1d(x[:, :, 0], w[:, :, 0], padding=1)
    return F.avg_pool1d(wg.exp(y) - y, 2)


def transposed(x: Any, w: Any) -> Any:
    return wg.sigmoid(F.conv_transpose2d(x, w, stride=2)) * 0.5


def grouped(x: Any, w: Any) -> Any:
    return wg.relu(F.conv2d(x, w[:, :1], groups=3)) - 1.0


FUNCTIONS = [residual, pooled, reduced, beside, lines, transposed, grouped]


def flat(found: Any) -> list[Any]:
    return [np.asarray(v) for v in wg.tree.leaves(found)]


def same(f: Callable[..., Any], *args: Any) -> None:
    for got, want in zip(flat(wg.jit(f, engine="xla")(*args)), flat(wg.jit(f)(*args)), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_and_gradients(f: Callable[..., Any]) -> None:
    x, w = draw(2, 3, 6, 8), draw(3, 3, 3, 3, seed=1)
    same(f, x, w)

    def loss(x: Any, w: Any) -> Any:
        return sum((v.astype("float64") ** 2).sum() for v in wg.tree.leaves(f(x, w)))

    same(wg.grad(loss, argnums=(0, 1)), x, w)


def test_leading_axes() -> None:
    w = draw(3, 3, 3, 3, seed=1)
    f = wg.vmap(lambda x: wg.relu(norm(F.conv2d(x, w, padding=1))).sum(axis=(2, 3)))
    same(f, draw(4, 2, 3, 5, 5))
    same(wg.grad(lambda x: (f(x) ** 2).sum()), draw(4, 2, 3, 5, 5))


def test_nothing_is_turned_around_between_convolutions() -> None:
    def f(x: Any, w: Any) -> Any:
        return F.conv2d(wg.relu(norm(F.conv2d(x, w, padding=1)) + x), w, padding=1)

    graph = wg.graph(f)(wg.spec((2, 3, 6, 8)), wg.spec((3, 3, 3, 3)))
    turned = channels_last(graph.expand())
    large = [n.op.name for n in turned.nodes if n.spec.shape == (2, 6, 8, 3)]
    assert "multiply" in large or "divide" in large
    # Around each convolution alone, where XLA has the same permutation the other way.
    assert [n.op.name for n in turned.nodes if n.spec.shape == (2, 3, 6, 8) and n.op.kind == "elementwise"] == []
    assert turned.inputs == graph.inputs
    plain = wg.graph(lambda x: wg.exp(x).sum())(wg.spec((2, 3, 6, 8)))
    assert channels_last(plain) is plain
