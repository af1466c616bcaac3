"""`wg.explain` about programs with checkpoints, loops, several results, complex and empty values."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import wengert as wg
from wengert import nn

RNG = np.random.default_rng(0)


def leaf(*shape: int) -> Any:
    return wg.tensor(RNG.normal(size=shape).astype(np.float32), requires_grad=True)


def checkpointed() -> Any:
    x = leaf(3)
    layer = wg.checkpoint(lambda v: wg.sin(wg.exp(v) * v))
    return (layer(layer(x)) * x).sum(), x


def checkpoint_that_keeps_products() -> Any:
    x = leaf(3, 3)
    layer = wg.checkpoint(lambda v: wg.tanh(v @ v), policy=wg.checkpoint_policies.save_ops("matmul"))
    return layer(layer(x)).sum(), x


def checkpoint_in_a_checkpoint() -> Any:
    x = leaf(3)
    inner = wg.checkpoint(lambda v: wg.exp(wg.sin(v)))
    return wg.checkpoint(lambda v: inner(v) * inner(v * 2.0))(x).sum(), x


def transformer() -> Any:
    wg.manual_seed(0)
    x = leaf(2, 3, 8)
    return nn.TransformerEncoderLayer(8, 2, 16)(x).sum(), x


def recurrent() -> Any:
    wg.manual_seed(0)
    x = leaf(2, 5, 3)
    return nn.LSTM(3, 4)(x)[0].sum(), x


def scan() -> Any:
    x = leaf(4)
    c, ys = wg.scan(lambda c, v: (wg.tanh(c * v), c), wg.tensor(1.0), x)
    return ys.sum() + c, x


def control_of_a_graph() -> Any:
    def run(a: Any) -> Any:
        chosen = wg.cond(a.sum() > 0, lambda v: (v * v).sum(), lambda v: v.sum(), a)
        return chosen + wg.scan(lambda c, v: (c * v, c), wg.tensor(1.0), a)[0]

    x = leaf(3)
    return wg.graph(run)(wg.spec((3,)))(x), x


def batched() -> Any:
    x = leaf(4, 3)
    return wg.vmap(lambda v: wg.softmax(v)[0])(x).sum(), x


def complex_values() -> Any:
    x = leaf(3)
    z = wg.exp(x * 1j)
    return wg.abs(z * z + 1).sum(), x


def several_results() -> Any:
    x = leaf(3, 3)
    found = wg.linalg.eigh(x @ x.mT)
    return (found.eigenvalues**2).sum() + found.eigenvectors.sum(), x


def pieces() -> Any:
    x = leaf(6)
    a, b = wg.split(x, 3)
    return (a * b).sum(), x


def empty() -> Any:
    x = leaf(0, 3)
    return (x * 2).sum() + 0.0, x


def single_number() -> Any:
    x = leaf()
    return x * x + wg.sin(x), x


def gradient_penalty() -> Any:
    x = leaf(3)
    g = wg.grad(lambda v: (v**3).sum())(x)
    return (g * g).sum(), x


def own_rule() -> Any:
    product = wg.custom_vjp(lambda a, b: a * b)
    product.defvjp(lambda a, b: (a * b, (a, b)), lambda r, ct: (ct * r[1], ct * r[0]))
    x = leaf(3)
    return product(x, x + 1).sum(), x


def half_precision() -> Any:
    x = leaf(3)
    return (x.astype(wg.float16) * 2).astype(wg.float32).sum(), x


def written() -> Any:
    x = leaf(3)
    y = x * 2
    y[0] = x[1]
    return (y * y).sum(), x


PROGRAMS = [
    checkpointed, checkpoint_that_keeps_products, checkpoint_in_a_checkpoint, transformer, recurrent, scan,
    control_of_a_graph, batched, complex_values, several_results, pieces, empty, single_number, gradient_penalty,
    own_rule, half_precision, written,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_answer(program: Callable[[], Any]) -> None:
    loss, x = program()
    found = wg.explain.paths(loss, x)
    assert found.check() <= found.tolerance
    assert found.to_latex()
    flow = wg.explain.flow(loss)
    assert str(flow)
    ElementTree.fromstring(flow.to_svg())
    memory = wg.explain.memory(loss)
    assert memory.peak >= memory.saved
    ElementTree.fromstring(memory.to_svg())
    graph = wg.Graph.of(loss)
    assert wg.explain.cost(graph).flops > 0 or x.size == 0
    assert not wg.explain.diff(graph, graph)
    loss.backward()  # asking left everything as it was
    np.testing.assert_allclose(x.grad.numpy(), np.asarray(found.gradient), rtol=1e-5, atol=1e-6)


def weights(count: int) -> list[Any]:
    return [wg.tensor(RNG.normal(size=(200, 200)).astype(np.float32) / 16, requires_grad=True) for _ in range(count)]


def layers_in_one_checkpoint(x: Any, ws: list[Any]) -> Any:
    @wg.checkpoint
    def layers(h: Any) -> Any:
        for w in ws:
            h = wg.tanh(h @ w)
        return h

    return (layers(x) ** 2).mean()


def a_checkpoint_for_each_layer(x: Any, ws: list[Any]) -> Any:
    for w in ws:
        x = wg.checkpoint(lambda h, w: wg.tanh(wg.tanh(h @ w) @ w))(x, w)
    return (x * x).mean()


def recurrence(x: Any, ws: list[Any]) -> Any:
    h = x
    for _ in range(4):
        h = wg.tanh(x @ ws[0] + h @ ws[1])
    return h.sum()


def residual_norms(x: Any, ws: list[Any]) -> Any:
    h = x @ ws[0]
    for w in ws[1:]:
        h = h + wg.nn.functional.gelu(wg.nn.functional.layer_norm(h, (200,)) @ w)
    return nn.functional.cross_entropy(h, wg.zeros(500, dtype=wg.int64))


@pytest.mark.parametrize(
    ("run", "tolerance"),
    [(layers_in_one_checkpoint, 0.1), (a_checkpoint_for_each_layer, 0.2), (recurrence, 0.1), (residual_norms, 0.1)],
)
def test_memory_is_the_measured_one(run: Callable[..., Any], tolerance: float) -> None:
    x = wg.asarray(RNG.normal(size=(500, 200)).astype(np.float32))
    ws = weights(4)
    run(x, ws).backward()
    for w in ws:
        w.grad = None
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        loss = run(x, ws)
        kept = tracemalloc.get_traced_memory()[0] - before
        loss.backward()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    found = wg.explain.memory(run(x, ws))
    assert found.saved == pytest.approx(kept, rel=0.01, abs=25_000)
    assert found.peak == pytest.approx(peak, rel=tolerance)


def test_a_hook_that_changes_a_gradient_is_no_path() -> None:
    x = leaf(3)
    y = x * 2
    y.register_hook(lambda g: g * 3)
    with pytest.raises(wg.GradientError, match="A hook that changes"):
        wg.explain.paths((y * y).sum(), x).check()


def test_what_is_asked_about_reads_numbers_as_it_does_by_itself() -> None:
    def f(x: Any) -> Any:
        scale = float(x.max())
        if x.sum().item() > 0:
            x = x / scale
        return (x * wg.log(x - x)).sum()

    x = wg.tensor([1.0, 2.0])
    assert wg.explain.nonfinite(f, x).op == "log"
    assert "exp" in {node.op for node in wg.explain.precision(lambda v: wg.exp(v / float(v.max())) - 1.0, x).nodes}

    class Scaled(nn.Module):
        def forward(self, x: Any) -> Any:
            return wg.relu(x / float(x.max()))

    assert wg.explain.dead_units(Scaled(), leaf(8, 4)).layers[0].op == "relu"


def test_arguments_keep_what_they_are() -> None:
    assert not wg.explain.nonfinite(wg.exp, 100.0)  # beyond float32, whose numbers Python's are not
    assert wg.explain.nonfinite(wg.exp, np.float32(100.0)).op == "exp"

    def f(x: Any) -> Any:
        x -= 1.0
        return wg.sqrt(x).sum()

    def overwritten(x: Any) -> Any:
        x[0] = 0.0  # whose infinite gradient ends at the write
        return wg.sqrt(x).sum()

    x = wg.tensor([1.0, 2.0])
    born = wg.explain.nonfinite(f, x)
    assert (born.phase, born.op) == ("backward", "sqrt")
    assert not wg.explain.nonfinite(overwritten, x)
    assert x.tolist() == [1.0, 2.0]
