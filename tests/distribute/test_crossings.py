"""Plans of parallel training with what else a step may do: several batches, mixed precision, recomputed activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import distribute as dist
from wengert import nn

PLANS: dict[str, dict[str, int]] = {
    "data": {"data": 2},
    "fsdp": {"data": 2},
    "zero": {"data": 2},
    "pipeline": {"pipe": 2},
    "data pipeline": {"pipe": 2, "data": 2},
    "accumulation": {"data": 2, "pipe": 1},
}


def losses(kind: str, plan: str) -> list[float]:
    """The losses of a few steps of a kind by a plan; "" is one process."""
    wg.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2)), nn.Linear(8, 4)
    ).to(wg.float32 if kind == "autocast" else wg.float64)
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-2)

    def forward(x: Any) -> Any:
        if kind == "recompute":
            return model[2](wg.checkpoint(model[1])(model[0](x)))
        with wg.autocast("bfloat16", enabled=kind == "autocast"):
            return model(x)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        if kind == "batches":
            total = 0.0
            for i in range(2):
                loss = nn.functional.cross_entropy(forward(x + i), y) / 2
                loss.backward()
                total = total + loss
        else:
            total = nn.functional.cross_entropy(forward(x), y)
            total.backward()
        optimizer.step()
        return total

    train: Any = step
    if plan:
        mesh = dist.Mesh(PLANS[plan])
        over = "data" if "data" in mesh.names else None
        if plan == "fsdp":
            dist.shard(model, mesh, fsdp="data")
        pipeline = dist.Pipeline("pipe", 4) if "pipe" in mesh.names else None
        zero = "data" if plan == "zero" else None
        train = dist.jit(step, mesh=mesh, in_specs=(over, over), zero=zero, pipeline=pipeline)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 6)).astype(np.float32 if kind == "autocast" else np.float64)
    y = rng.integers(0, 4, 8)
    return [float(train(wg.tensor(x), wg.tensor(y))) for _ in range(3)]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", ["batches", "autocast", "recompute"])
def test_losses_are_those_of_one_process(kind: str, plan: str) -> None:
    # Halves are rounded at other places where a batch is in parts.
    rtol = 2e-2 if kind == "autocast" else 1e-12
    np.testing.assert_allclose(losses(kind, plan), losses(kind, ""), rtol=rtol)


def test_programs_refuse_writes_that_nobody_would_see() -> None:
    """They return all that comes of them: arguments and gradients outside stay as they were."""
    mesh, p = dist.Mesh(data=2), wg.nn.Parameter(wg.ones(()))
    x = wg.arange(4.0)

    def item(x: Any) -> Any:
        x[0] = 5.0
        return x

    def inside(d: Any) -> Any:
        d["a"] += 1
        return d["a"]

    def backward(x: Any) -> Any:
        (x * p).sum().backward()
        return x

    def own(x: Any) -> Any:
        y, w = x.clone().mul_(2), wg.tensor(2.0, requires_grad=True)
        (x * w).sum().backward()
        return y * w.grad

    for made in (
        lambda fn: dist.partition(fn, mesh, ("data",)),
        lambda fn: dist.shard_map(fn, mesh, ("data",), "data"),
    ):
        for fn, args in ((item, x), (lambda x: x.mul_(2), x), (inside, {"a": x})):
            with pytest.raises(wg.GraphError, match=r"writes to its argument .*test_crossings.py"):
                made(fn)(args)
        with pytest.raises(wg.GraphError, match=r"fills the .grad of a tensor from outside"):
            made(backward)(x)
        made(own)(x)  # what is the function's own it may write to
    assert p.grad is None
    assert x.tolist() == [0, 1, 2, 3]


def test_errors_of_a_step_are_the_users_where_values_are_in_parts() -> None:
    mesh = dist.Mesh(data=2)
    net = dist.shard(wg.nn.Linear(4, 6), mesh, fsdp="data")

    def raises(x: Any) -> Any:
        net(x)
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        dist.jit(raises, mesh=mesh, in_specs=("data",))(wg.ones(4, 4))
    with pytest.raises(wg.ShapeError, match="reshape of"):
        dist.jit(lambda x: net(x).reshape(5, 5), mesh=mesh, in_specs=("data",))(wg.ones(4, 4))
    net.to(wg.float64)  # each rank its own part
    assert net.weight.dtype == net.bias.dtype == wg.float64
    assert net.weight.requires_grad
    assert net.bias.requires_grad


def test_steps_take_values_in_parts_as_arguments() -> None:
    mesh = dist.Mesh(data=2)
    x = dist.place(wg.arange(8.0), mesh, "data")
    step = dist.jit(lambda x: (x * 2).sum(), mesh=mesh, in_specs=("data",))
    assert [float(step(x)) for _ in range(6)] == [56.0] * 6


def test_meshes_have_named_axes() -> None:
    with pytest.raises(wg.GraphError, match=r"a mesh of axes 2 .*test_crossings"):
        dist.Mesh(2)  # type: ignore[arg-type]
    with pytest.raises(wg.GraphError, match=r"jit with blocks=4 on .*test_crossings"):
        dist.jit(lambda x: x, mesh=dist.Mesh(data=2), blocks=4)  # type: ignore[arg-type]
