"""Functions of one rank: their types, their gradients, and what is refused."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import distribute as dist
from wengert import nn

SPLIT = dist.PartitionSpec
MESH = dist.Mesh(data=2, model=2)
RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(4, 6)), RNG.normal(size=(6, 4))


def loss(w: Any, x: Any) -> Any:
    """Written for one process."""
    return (wg.tanh(x @ w) ** 2).mean() + 0.1 * (w**2).sum()


def test_the_gradient_in_what_ranks_share_is_whole() -> None:
    def on_a_rank(w: Any, x: Any) -> Any:
        def local(w: Any) -> Any:
            return dist.all_reduce((wg.tanh(x @ w) ** 2).mean(), "data", "mean") + 0.1 * (w**2).sum()

        return wg.value_and_grad(local)(w)

    f = dist.shard_map(on_a_rank, dist.Mesh(data=2), (None, "data"), None)
    found, expected = f(W, X), wg.value_and_grad(loss)(wg.tensor(W), wg.tensor(X))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-13)
    assert [n.op.name for n in f.lower(W, X).graph.nodes if "over" in n.attrs].count("all_reduce") == 2


def test_a_loss_that_each_rank_has_its_own_of() -> None:
    """The gradient is that of the sum of the ranks' losses, and the same on all ranks."""
    f = dist.shard_map(lambda w, x: wg.grad(lambda w: (x @ w).sum())(w), dist.Mesh(data=2), (None, "data"), None)
    expected = wg.grad(lambda w: (wg.tensor(X) @ w).sum())(wg.tensor(W))
    np.testing.assert_allclose(f(W, X).numpy(), expected.numpy(), rtol=1e-13)


def test_weights_in_parts_on_two_axes() -> None:
    def on_a_rank(w: Any, x: Any) -> Any:
        def local(w: Any) -> Any:
            h = wg.tanh(x @ w) ** 2  # this rank's rows and columns
            total = dist.all_reduce(dist.all_reduce(h.sum(), "data"), "model") / X.shape[0] / W.shape[1]
            return total + 0.1 * dist.all_reduce((w**2).sum(), "model")

        return wg.value_and_grad(local)(w)

    f = dist.shard_map(on_a_rank, MESH, (SPLIT(None, "model"), "data"), (None, SPLIT(None, "model")))
    found = f(W, X)
    value, gradient = wg.value_and_grad(loss)(wg.tensor(W), wg.tensor(X))
    np.testing.assert_allclose(found[0].numpy(), value.numpy(), rtol=1e-13)
    np.testing.assert_allclose(found[1].whole().numpy(), gradient.numpy(), rtol=1e-12)


def test_second_derivatives() -> None:
    def on_a_rank(w: Any, x: Any) -> Any:
        return wg.hessian(lambda w: dist.all_reduce((wg.sin(x * w)).sum(), "data"))(w)

    f = dist.shard_map(on_a_rank, dist.Mesh(data=2), (None, "data"), None)
    x, w = wg.tensor(X[:, 0]), wg.tensor(0.7, dtype=wg.float64)
    expected = wg.hessian(lambda w: wg.sin(x * w).sum())(w)
    np.testing.assert_allclose(f(w, x).numpy(), expected.numpy(), rtol=1e-12)


def test_a_ring_of_attention() -> None:
    """Sequences in parts: keys and values go round, and softmax is put together as they come."""
    n, (b, t, d) = 4, (2, 8, 3)
    q, k, v = (RNG.normal(size=(b, t, d)) for _ in range(3))

    def on_a_rank(q: Any, k: Any, v: Any) -> Any:
        top, total, out = wg.full((b, t // n, 1), -np.inf, dtype=q.dtype), 0.0, 0.0
        for i in range(n):
            scores = q @ k.mT / d**0.5
            now = wg.maximum(top, scores.max(axis=-1, keepdims=True))
            weights = wg.exp(scores - now)
            scale = wg.exp(top - now)
            total, out = total * scale + weights.sum(axis=-1, keepdims=True), out * scale + weights @ v
            top = now
            if i < n - 1:
                k, v = (dist.permute(x, "context", [(j, (j + 1) % n) for j in range(n)]) for x in (k, v))
        return out / total

    part = SPLIT(None, "context")
    f = dist.shard_map(on_a_rank, dist.Mesh(context=n), (part,) * 3, part)
    expected = nn.functional.scaled_dot_product_attention(*map(wg.tensor, (q, k, v)))
    np.testing.assert_allclose(f(q, k, v).whole().numpy(), expected.numpy(), rtol=1e-12)


def test_a_pipeline_of_stages() -> None:
    """Each rank has a stage; microbatches go through one after the other, and gradients come back."""
    stages, micro, size = 2, 3, 4
    weights = RNG.normal(size=(stages, size, size))
    batch = RNG.normal(size=(micro, 2, size))

    def on_a_rank(w: Any, batch: Any) -> Any:
        def local(w: Any) -> Any:
            at, total, state = dist.axis_index("stage"), 0.0, wg.zeros(2, size, dtype=w.dtype)
            for tick in range(micro + stages - 1):
                state = wg.tanh(wg.where(at == 0, batch[min(tick, micro - 1)], state) @ w[0])
                if tick >= stages - 1:
                    total = total + wg.where(at == stages - 1, state.sum(), 0.0)
                state = dist.permute(state, "stage", [(i, i + 1) for i in range(stages - 1)])
            return dist.all_reduce(total, "stage")

        return wg.value_and_grad(local)(w)

    def alone(w: Any) -> Any:
        x = wg.tensor(batch)
        for i in range(stages):
            x = wg.tanh(x @ w[i])
        return x.sum()

    f = dist.shard_map(on_a_rank, dist.Mesh(stage=stages), ("stage", None), (None, "stage"))
    value, gradient = f(weights, batch)
    expected = wg.value_and_grad(alone)(wg.tensor(weights))
    np.testing.assert_allclose(value.numpy(), expected[0].numpy(), rtol=1e-12)
    np.testing.assert_allclose(gradient.whole().numpy(), expected[1].numpy(), rtol=1e-12)


def test_experts_on_ranks() -> None:
    """Tokens go to the rank of their expert and come back, by all_to_all."""
    n, tokens, size = 2, 4, 3
    x, experts = RNG.normal(size=(n * tokens, size)), RNG.normal(size=(n, size, size))

    def on_a_rank(x: Any, w: Any) -> Any:
        sent = dist.all_to_all(x.reshape(n, tokens // n, size), "expert", 0, 0)  # the i-th half is for expert i
        return dist.all_to_all(wg.tanh(sent @ w[0]), "expert", 0, 0).reshape(tokens, size)

    f = dist.shard_map(on_a_rank, dist.Mesh(expert=n), ("expert", "expert"), "expert")
    rows = x.reshape(n, n, tokens // n, size)
    expected = np.tanh(np.einsum("rewi,eij->rewj", rows, experts)).reshape(n * tokens, size)
    np.testing.assert_allclose(f(x, experts).whole().numpy(), expected, rtol=1e-12)


def test_collectives_in_loops() -> None:
    def on_a_rank(x: Any) -> Any:
        total, _ = wg.scan(lambda c, row: (c + dist.all_reduce(row * 1.0, "data"), c), wg.zeros(3), x)
        return total

    f = dist.shard_map(on_a_rank, dist.Mesh(data=2), ("data",), "data")
    x = RNG.normal(size=(4, 3)).astype(np.float32)
    found = f(x).whole().numpy()
    np.testing.assert_allclose(found, np.tile(x.sum(0), 2), rtol=1e-6)


def test_a_gradient_through_a_loop() -> None:
    f = dist.shard_map(lambda w, x: wg.grad(lambda w: on_loop(w, x))(w), dist.Mesh(data=2), (None, "data"), None)
    assert float(f(wg.tensor(1.0), wg.arange(4.0))) == 6.0


def on_loop(w: Any, x: Any) -> Any:
    return wg.scan(lambda c, row: (c + w * row, c), wg.zeros(()), x)[0]


def test_in_a_job() -> None:
    f = dist.shard_map(lambda x: dist.all_reduce(x.sum(), "data"), dist.Mesh(data=2), ("data",), None)
    assert dist.simulate(dist.Mesh(data=2)).run(lambda: float(f(wg.arange(4.0)))) == [6.0, 6.0]


def refused(fn: Any, in_specs: Any, out_specs: Any, words: str, kind: type[Exception] = wg.GraphError) -> None:
    args = [wg.arange(4.0)] * len(in_specs)
    with pytest.raises(kind, match=words) as caught:
        dist.shard_map(fn, dist.Mesh(data=2), in_specs, out_specs)(*args)
    assert os.path.basename(__file__) in str(caught.value).splitlines()[0]


def test_what_is_refused() -> None:
    refused(lambda x: x * 2, ("data",), None, r"result 0 of <lambda>, f32\[2\], differs between the ranks along 'data'")
    refused(
        lambda x: dist.all_reduce(x, "data"), (None,), None, "all_reduce over 'data' of a value that is the same on"
    )
    refused(lambda x: dist.own_part(x, "data"), ("data",), "data", "own_part over 'data' of a value that each of its")
    refused(lambda x: dist.pcast(x, "data"), ("data",), "data", "pcast over 'data' of a value that each of its")
    refused(lambda x: dist.all_reduce(x, "pipe"), ("data",), None, "an axis 'pipe' of Mesh")
    # What a gradient would be of, were it counted once for each rank: refused too.
    refused(
        lambda w, x: dist.all_reduce(wg.grad(lambda w: (x * w[:2]).sum())(w), "data"),
        (None, "data"),
        None,
        "all_reduce over 'data' of a value that is the same on",
    )
    f = dist.shard_map(lambda x: x.sum(), dist.Mesh(data=2), (None,), None)
    with pytest.raises(wg.GradientError, match="inside another transform"):
        wg.grad(f)(wg.arange(4.0))
