"""Gradients of a batch in parts: those of the whole, in the memory of one part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn

RNG = np.random.default_rng(0)
X = wg.tensor(RNG.standard_normal((24, 6)).astype(np.float32))
Y = wg.tensor(RNG.standard_normal((24, 2)).astype(np.float32))


def model(*more: Any) -> nn.Sequential:
    wg.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 32), *more, nn.Tanh(), nn.Linear(32, 2))


def loss_of(net: Any) -> Any:
    return lambda x, y: ((net(x) - y) ** 2).mean()


def grads(net: Any) -> list[Any]:
    return [p.grad.numpy().copy() for p in net.parameters()]


def whole(net: Any) -> tuple[float, list[Any]]:
    loss = loss_of(net)(X, Y)
    loss.backward()
    return loss.item(), grads(net)


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("count", [1, 3, 24])
def test_the_gradient_is_that_of_the_whole_batch(count: int, compiled: bool, unroll: bool) -> None:
    value, expected = whole(model())
    net = model()

    def step(x: Any, y: Any) -> Any:
        for p in net.parameters():
            p.grad = None
        return wg.train.accumulate(loss_of(net), net.parameters(), x, y, microbatches=count, unroll=unroll)

    run = wg.jit(step) if compiled else step
    for _ in range(6 if compiled else 1):
        found = run(X, Y)
        assert found.item() == pytest.approx(value, rel=1e-5)
        assert not found.requires_grad
        for a, b in zip(grads(net), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_add_to_those_that_are_there(compiled: bool) -> None:
    _, expected = whole(model())
    net = model()

    def step(x: Any, y: Any) -> Any:
        return wg.train.accumulate(loss_of(net), net.parameters(), x, y, microbatches=4)

    run = wg.jit(step) if compiled else step
    for _ in range(3):
        run(X, Y)
    for a, b in zip(grads(net), expected, strict=True):
        np.testing.assert_allclose(a, 3 * b, rtol=1e-4, atol=1e-6)


def test_a_compiled_loop_takes_the_memory_of_a_part() -> None:
    def growth(count: int) -> int:
        net = model()

        def step(x: Any, y: Any) -> Any:
            return wg.train.accumulate(loss_of(net), net.parameters(), x, y, microbatches=count)

        compiled = wg.jit(step)
        compiled(wg.zeros((960, 6)), wg.zeros((960, 2)))
        return int(compiled.memory.arena)

    assert growth(12) < growth(1) / 6


@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_of_an_optimiser(compiled: bool) -> None:
    def train(parts: bool) -> list[float]:
        net = model()
        opt = wg.optim.AdamW(net.parameters(), lr=1e-2)

        def step(x: Any, y: Any) -> Any:
            opt.zero_grad()
            if parts:
                loss = wg.train.accumulate(loss_of(net), net.parameters(), x, y, microbatches=6)
            else:
                loss = loss_of(net)(x, y)
                loss.backward()
            opt.step()
            return loss

        run = wg.jit(step) if compiled else step
        return [float(run(X, Y)) for _ in range(8)]

    np.testing.assert_allclose(train(True), train(False), rtol=1e-4)


def test_what_the_loss_does_not_depend_on_keeps_its_gradient() -> None:
    net, other = model(), nn.Linear(2, 2)
    params = [*net.parameters(), *other.parameters()]
    step = wg.jit(lambda x, y: wg.train.accumulate(loss_of(net), params, x, y, microbatches=2))
    step(X, Y)
    assert all(p.grad is None for p in other.parameters())
    assert all(p.grad is not None for p in net.parameters())


def test_random_numbers_and_running_statistics() -> None:
    for layer, kind, what in (
        (nn.Dropout(0.5), wg.TraceError, "random numbers"),
        (nn.BatchNorm1d(32), wg.GraphError, "batch norm"),
    ):
        net = model(layer)
        step = wg.jit(lambda x, y, net=net: wg.train.accumulate(loss_of(net), net.parameters(), x, y, microbatches=2))
        with pytest.raises(kind, match=what):
            step(X, Y)
        unrolled = wg.jit(
            lambda x, y, net=net: wg.train.accumulate(loss_of(net), net.parameters(), x, y, microbatches=2, unroll=True)
        )
        assert np.isfinite(unrolled(X, Y).item())
    eager, compiled = model(nn.BatchNorm1d(32)), model(nn.BatchNorm1d(32))
    wg.train.accumulate(loss_of(eager), eager.parameters(), X, Y, microbatches=2)
    wg.jit(
        lambda x, y: wg.train.accumulate(loss_of(compiled), compiled.parameters(), x, y, microbatches=2, unroll=True)
    )(X, Y)
    assert compiled[1].num_batches_tracked.item() == eager[1].num_batches_tracked.item() == 2
    np.testing.assert_allclose(compiled[1].running_mean.numpy(), eager[1].running_mean.numpy(), rtol=1e-5)


def test_what_it_refuses() -> None:
    net = model()
    params = list(net.parameters())
    loss = loss_of(net)
    for count in (0, True, 2.0):
        with pytest.raises(wg.RangeError, match=r"microbatches must be .*test_accumulate.py"):
            wg.train.accumulate(loss, params, X, Y, microbatches=count)  # type: ignore[arg-type]
    with pytest.raises(wg.ShapeError, match="a batch of 24 in 5 parts, which are not equal"):
        wg.train.accumulate(loss, params, X, Y, microbatches=5)
    with pytest.raises(wg.ShapeError, match="no first axis in common"):
        wg.train.accumulate(loss, params, X, Y[:3], microbatches=1)
    with pytest.raises(wg.ShapeError, match="without a batch"):
        wg.train.accumulate(loss, params, microbatches=1)
    with pytest.raises(wg.ShapeError, match=r"loss of shape \(12, 2\)"):
        wg.train.accumulate(lambda x, y: net(x) - y, params, X, Y, microbatches=2)
    with pytest.raises(wg.GradientError, match="without parameters"):
        wg.train.accumulate(loss, [X], X, Y, microbatches=2)
