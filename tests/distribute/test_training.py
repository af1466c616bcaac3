"""Training by every plan on simulated ranks: the losses of one process, dropout and batch norm included."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

import meshes
import wengert as wg
from meshes import MODELS, PLANS
from wengert import distribute as dist
from wengert import nn
from wengert.distribute.training import StepOnMesh

# As many as show that state, too, is right; longer runs take longer.
STEPS = {"mlp": 20, "cnn": 4, "block": 4, "experts": 6, "gpt": 3}


@cache
def alone(kind: str) -> np.ndarray:
    return np.array(meshes.losses(kind, steps=STEPS[kind]))


# Every model by every plan is scripts/plans.py, on all engines; here stand those that show most.
OF_GPT = {"fsdp", "pipeline", "data pipeline", "data tensor", "pipeline tensor"}
RUNS = [
    pytest.param(kind, plan, n, marks=[pytest.mark.slow] if kind == "gpt" and plan not in OF_GPT else [])
    for kind in MODELS
    for n, plans in PLANS.items()
    for plan in plans
    if meshes.is_for(plan, kind)
]


@pytest.mark.parametrize(("kind", "plan", "ranks"), RUNS)
def test_losses_are_those_of_one_process(kind: str, plan: str, ranks: int) -> None:
    expected = alone(kind)
    assert len(set(expected)) == STEPS[kind]
    np.testing.assert_allclose(meshes.losses(kind, plan, ranks, STEPS[kind]), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axes", [{"context": 2}, {"context": 4}, {"data": 2, "context": 2}], ids=str)
def test_sequences_in_parts(axes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = dist.Mesh(axes)
    monkeypatch.setitem(PLANS[2], "context", mesh)
    found = meshes.losses("block", "context", 2, STEPS["block"])
    np.testing.assert_allclose(found, alone("block"), rtol=1e-12, atol=1e-12)


def counts(step: StepOnMesh) -> Counter[str]:
    return Counter(n.op.name for n in step.partitions[-1].graph.nodes if "over" in n.attrs)


def trained(model: nn.Module, mesh: dist.Mesh, in_specs: Any = ("data",), **options: Any) -> StepOnMesh:
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    made: StepOnMesh = dist.jit(step, mesh=mesh, in_specs=in_specs, **options)
    made(wg.ones(8, 4))
    return made


def test_what_each_plan_moves() -> None:
    mesh = dist.Mesh(data=2)
    # Gradients and the loss: all at once.
    found = counts(trained(nn.Linear(4, 4), mesh))
    assert (found["all_reduce"], found["all_gather"]) == (1, 0)
    # Each rank has the sum of its part of the gradients, and parts of all else.
    model = dist.shard(nn.Linear(4, 4), mesh, fsdp="data")
    found = counts(trained(model, mesh))
    assert found["reduce_scatter"] == 1
    assert found["all_reduce"] == 1  # of the loss
    # A column split and a row split: one sum forward, none of the weights' gradients.
    mesh = dist.Mesh(model=2)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    step = trained(dist.shard(model, mesh, {"0.*": "model", "2.weight": meshes.ROWS}), mesh, (None,))
    assert counts(step)["all_reduce"] == 1


def test_state_has_the_parts_of_its_parameter() -> None:
    mesh = dist.Mesh(data=2)
    for options, model in (
        ({}, dist.shard(nn.Linear(4, 4), mesh, fsdp="data")),
        ({"zero": "data"}, nn.Linear(4, 4)),
    ):
        step = trained(model, mesh, **options)
        step(wg.ones(8, 4))
        made = step.partitions[-1]
        split = [n for n, p in zip(made.graph.inputs, made.inputs) if p != (None,)]
        momenta = [n for n in split if n.op.name == "input" and n.spec.shape in ((2, 4), (2,))]
        assert len(momenta) == 2


def test_a_batch_without_equal_parts() -> None:
    step = trained(nn.Linear(4, 4), dist.Mesh(data=2))
    with pytest.raises(
        wg.ShapeError, match=r"step: x, \(7, 4\) float32, split along dimension 0 over 'data': 7 is no mult"
    ):
        step(wg.ones(7, 4))


def test_what_is_refused() -> None:
    mesh, model = dist.Mesh(data=2), nn.Linear(4, 3)
    with pytest.raises(wg.GraphError, match=r"'layer.*' fits no parameter"):
        dist.shard(model, mesh, {"layer.*": "data"})
    with pytest.raises(wg.ShapeError, match=r"parameter weight, \(3, 4\) float32, split along dimension 0 over 'data'"):
        dist.shard(model, mesh, {"weight": "data"})
    with pytest.raises(wg.GraphError, match="an axis 'model' of Mesh"):
        dist.jit(lambda: None, mesh=mesh, zero="model")
    with pytest.raises(wg.GraphError, match="in_specs has 2 entries for 1 positional and 0 keyword") as caught:
        trained(model, mesh, ("data", "data"))
    assert os.path.basename(__file__) in str(caught.value).splitlines()[0]
    with pytest.raises(wg.DTypeError):
        dist.shard(len, mesh)
    with pytest.raises(wg.DTypeError):
        dist.jit(3, mesh=mesh)
