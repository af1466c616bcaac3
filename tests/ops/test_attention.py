"""Attention: its blocks, its derivatives, and what its nodes keep."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.ops.neural import attention, attention_kernels

SHAPES = [((2, 3), 7, 5, 4, 3), ((), 9, 13, 2, 6), ((3,), 16, 16, 8, 8), ((2, 1, 2), 1, 6, 3, 1), ((2,), 6, 1, 1, 2)]


def operands(lead: Any, m: int, n: int, d: int, e: int, dtype: Any = np.float64) -> list[Any]:
    rng = np.random.default_rng(m + n)
    shapes = [(*lead, m, d), (*lead, n, d), (*lead, n, e), (*lead, m, e)]
    return [rng.normal(size=s).astype(dtype) for s in shapes]


@pytest.mark.parametrize("block", [1, 8, 30, 100, 1 << 18])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_of_every_size_agree(monkeypatch: Any, shape: Any, causal: bool, block: int) -> None:
    q, k, v, dy = operands(*shape)
    attrs: dict[str, Any] = {"causal": causal, "scale": 0.6}
    y, lse = attention._attention_reference(q, k, v, **attrs)
    expected = y, lse, *attention._gradients_reference(q, k, v, y, lse, dy, **attrs)
    monkeypatch.setattr(attention_kernels, "_BLOCK", block)
    monkeypatch.setattr(attention_kernels, "_CAUSAL_ROWS", max(1, block // 10))
    found = attention_kernels.attention_forward(q, k, v, **attrs)
    gradients = attention_kernels.attention_backward(q, k, v, *found, dy, **attrs)
    for f, e in zip((*found, *gradients), expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-12, atol=1e-14)


def test_a_later_position_does_not_take_part_whatever_its_values() -> None:
    lead, m, n, d, e = (2,), 6, 6, 3, 2
    clean = operands(lead, m, n, d, e)
    for bad in (math.nan, math.inf):
        spoilt = [a.copy() for a in clean]
        for a in spoilt:
            a[:, 4:] = bad
        results = []
        for values in (clean, spoilt):
            q, k, v, dy = (wg.tensor(a, requires_grad=True) for a in values)
            y = wg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            results.append([y.detach(), *wg.autograd.grad([y], [q, k, v], [dy.detach()])])
        # Nothing flows back from the earlier rows to the later ones, nor forward from those to the earlier.
        for a, b in zip(results[0][:2], results[1][:2], strict=True):
            np.testing.assert_allclose(np.asarray(a)[:, :4], np.asarray(b)[:, :4], rtol=1e-13, atol=1e-15)
        assert np.isnan(np.asarray(results[1][0])[:, 4:]).all()


def test_a_learned_mask_and_second_derivatives() -> None:
    q, k, v, _ = (wg.tensor(a) for a in operands((2,), 3, 4, 2, 2))
    bias = wg.tensor(np.random.default_rng(0).normal(size=(3, 4)))
    wg.check_grads(
        lambda *a: wg.nn.functional.scaled_dot_product_attention(*a), (q, k, v, bias), order=2, max_elements=10
    )
    wg.check_grads(
        lambda *a: wg.nn.functional.scaled_dot_product_attention(*a, is_causal=True),
        (q, k, v),
        order=2,
        max_elements=10,
    )


def test_forward_over_reverse_is_reverse_over_reverse() -> None:
    q, k, v, t = (wg.tensor(a) for a in operands((2,), 3, 4, 2, 2))

    def loss(x: Any) -> Any:
        return (wg.nn.functional.scaled_dot_product_attention(x, k * wg.sum(x), v) ** 3).sum()

    forward = wg.jvp(wg.grad(loss), (q,), (t,))[1]
    reverse = wg.grad(lambda x: (wg.grad(loss)(x) * t).sum())(q)
    np.testing.assert_allclose(np.asarray(forward), np.asarray(reverse), rtol=1e-9)


def test_nothing_of_the_size_of_the_scores_is_kept() -> None:
    q, k, v = (wg.tensor(np.ones((64, 2)), requires_grad=True) for _ in range(3))
    y = wg.nn.functional.scaled_dot_product_attention(q, k, v)
    node = y.grad_fn
    while node.op.name != "attention":
        node = node.inputs[0]
    assert max(np.asarray(s).size for s in (*node.saved[:-1], *node.saved[-1]) if s is not None) == 128


def test_a_traced_gradient_is_one_node_forward_and_one_back() -> None:
    spec = wg.spec((2, 3, 4))

    def loss(q: Any, k: Any, v: Any) -> Any:
        return (wg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True) ** 2).sum()

    graph = wg.graph(wg.grad(loss, argnums=(0, 1, 2)))(spec, spec, spec)
    names = [n.op.name for n in graph.computations]
    assert [names.count(n) for n in ("attention", "attention_gradients", "matmul", "exp")] == [1, 1, 0, 0]


def test_vmap_keeps_one_node() -> None:
    q, k, v, _ = operands((2,), 3, 4, 2, 2)
    batch = wg.tensor(np.stack([q, 2 * q, -q]))

    def loss(x: Any) -> Any:
        return (wg.nn.functional.scaled_dot_product_attention(x, wg.tensor(k), wg.tensor(v)) ** 2).sum()

    mapped = wg.graph(wg.vmap(wg.grad(loss)))(batch)
    assert [n.op.name for n in mapped.computations].count("attention_gradients") == 1
    for found, x in zip(np.asarray(mapped(batch)), np.asarray(batch), strict=True):
        np.testing.assert_allclose(found, np.asarray(wg.grad(loss)(wg.tensor(x))), rtol=1e-12)


@pytest.mark.parametrize("dtype", [wg.float16, wg.bfloat16])
def test_half_precision_keeps_the_log_sum_in_single(dtype: Any) -> None:
    q, k, v, _ = (wg.tensor(a.astype(np.float32)).astype(dtype) for a in operands((2,), 5, 7, 8, 3))
    y, lse = attention.attention_op.front(q, k, v, causal=False, scale=1.0)
    assert (y.dtype, lse.dtype) == (dtype, wg.float32)
    wide = attention.attention_op.front(*(a.astype(wg.float32) for a in (q, k, v)), causal=False, scale=1.0)
    np.testing.assert_array_equal(np.asarray(lse), np.asarray(wide[1]))
    np.testing.assert_array_equal(np.asarray(y), np.asarray(wide[0].astype(dtype)))
