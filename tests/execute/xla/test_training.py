"""Whole steps on XLA: the numbers of eager execution, the same objects outside, the same errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn

pytest.importorskip("jax", reason="the engine needs jax")

Step = Callable[..., Any]


class Net(nn.Module):
    """A small network with what moves besides parameters: running statistics, and a generator for dropout."""

    def __init__(self) -> None:
        self.first = nn.Linear(6, 8, bias=False)  # before a norm its gradient is rounding alone
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.drop(self.norm(self.first(x)).relu()))


def setting(optimizer: str) -> tuple[Net, Any, Step]:
    wg.random.manual_seed(7)
    net = Net().to("float64")
    made = {
        "sgd": lambda ps: wg.optim.SGD(ps, lr=0.05, momentum=0.9),
        "adam": lambda ps: wg.optim.AdamW(ps, lr=0.02),
    }[optimizer](list(net.parameters()))

    def step(x: Any, y: Any) -> Any:
        made.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        made.step()
        return loss

    return net, made, step


def batches(count: int = 20) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(3)
    return [(wg.tensor(rng.normal(size=(5, 6))), wg.tensor(rng.integers(0, 3, 5))) for _ in range(count)]


def state(net: Net, optimizer: Any) -> dict[str, Any]:
    found = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    held = optimizer.state_dict()["state"]
    return found | {f"{i}.{k}": np.array(v) for i, s in held.items() for k, v in s.items()}


def same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for k in a:
        np.testing.assert_allclose(a[k], b[k], 1e-10, 1e-12, err_msg=k)


def trained(optimizer: str, engines: Callable[[int], str]) -> tuple[list[float], dict[str, Any]]:
    net, made, step = setting(optimizer)
    steps = {"eager": step, "xla": wg.jit(step, engine="xla"), "native": wg.jit(step)}
    losses = [float(steps[engines(i)](x, y)) for i, (x, y) in enumerate(batches())]
    return losses, state(net, made)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_twenty_steps_are_those_of_eager_execution(optimizer: str) -> None:
    losses, after = trained(optimizer, lambda i: "eager")
    on_xla, after_xla = trained(optimizer, lambda i: "xla")
    np.testing.assert_allclose(on_xla, losses, 1e-12)
    same(after_xla, after)


def test_state_goes_from_engine_to_engine() -> None:
    losses, after = trained("adam", lambda i: "eager")
    crossed, after_crossed = trained("adam", lambda i: ("xla", "xla", "native", "xla", "eager", "native")[i % 6])
    np.testing.assert_allclose(crossed, losses, 1e-12)
    same(after_crossed, after)
