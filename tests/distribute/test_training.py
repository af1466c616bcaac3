"""Training by every plan on simulated ranks: the losses of one process, dropout and batch norm included."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import meshes
import small_networks
import wengert as wg
from meshes import MODELS, PLANS
from wengert import distribute as dist
from wengert import nn
from wengert.distribute.engines import engine
from wengert.distribute.engines.mpi_native import Alone
from wengert.distribute.training import StepOnMesh
from wengert.execute.native.compile import compile_graph

# As many as show that state, too, is right; longer runs take longer.
STEPS = {"mlp": 20, "cnn": 4, "block": 4, "experts": 6, "gpt": 3}


@cache
def alone(kind: str) -> np.ndarray:
    return np.array(meshes.losses(kind, steps=STEPS[kind]))


# Every model by every plan is scripts/plans.py, on all engines; here stand those that show most.
OF_GPT = {"fsdp", "pipeline", "pipeline everywhere", "data pipeline", "data tensor", "pipeline tensor", "fsdp context"}
# Plans of which two models of the tests are enough every time: what they are made of is in others.
COMPOSED = {"accumulated", "recomputed", "budget", "spilled", "sequence", "context"}


def always(kind: str, plan: str) -> bool:
    """Whether a run is one of every time."""
    if kind == "gpt":
        return plan in OF_GPT
    return kind in ("mlp", "block") or not COMPOSED & set(plan.split())


RUNS = [
    pytest.param(kind, plan, n, marks=[] if always(kind, plan) else [pytest.mark.slow])
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


@pytest.mark.parametrize(
    ("plan", "ranks"),
    [
        ("fsdp", 2),
        ("sequence tensor", 2),
        ("fsdp context", 4),
        *(
            pytest.param(plan, 2, marks=pytest.mark.slow)
            for plan in ("zero accumulated", "pipeline", "fsdp recomputed")
        ),
    ],
)
def test_products_in_half_precision(plan: str, ranks: int) -> None:
    """By `autocast`: sums are those of one process but for their order, and what is rounded once more."""
    found = meshes.losses("block", plan, ranks, 5, half=True)
    assert found != meshes.losses("block", plan, ranks, 5)
    np.testing.assert_allclose(found, meshes.losses("block", steps=5, half=True), rtol=3e-3)


def counts(step: StepOnMesh) -> Counter[str]:
    return Counter(n.op.name for n in step.partitions[-1].graph.nodes if "over" in n.attrs)


def trained(
    model: nn.Module, mesh: dist.Mesh, in_specs: Any = ("data",), given: Any = None, **options: Any
) -> StepOnMesh:
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    step = small_networks.training(model, optimizer)

    made: StepOnMesh = dist.jit(step, mesh=mesh, in_specs=in_specs, **options)
    made(wg.ones(8, 4)) if given is None else made.lowered(given)
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


def test_sequences_go_round() -> None:
    """Attention of parts of sequences: keys, values and their gradients are passed on, and nothing is gathered."""
    made = dist.jit(
        lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum(),
        mesh=dist.Mesh(context=4),
        in_specs=(meshes.SPLIT(None, "context"),) * 3,
    )
    x = wg.tensor(np.random.default_rng(0).normal(size=(2, 8, 4)))
    made(x, x + 1, x * 2)
    assert counts(made) == {"ppermute": 6, "axis_index": 1, "all_reduce": 1}


def test_norms_of_parts() -> None:
    """With `sequence` what blocks hand on is in parts: norms compute a half, and no activation is all_reduced."""
    for sequence in (None, "model"):
        wg.manual_seed(0)
        mesh, model = dist.Mesh(model=2), small_networks.Block()
        dist.shard(model, mesh, meshes.RULES["block"])
        made = trained(model, mesh, (None,), wg.spec((4, 8), "int64"), sequence=sequence)
        graph = made.partitions[-1].graph
        summed = [n for n in graph.nodes if n.op.name == "all_reduce" and n.spec.ndim > 2]
        added = {n.spec.shape for n in graph.nodes if n.op.name == "add" and n.spec.ndim == 3}
        assert bool(summed) is (sequence is None)
        assert ((2, 8, 8) in added or (4, 4, 8) in added) is (sequence is not None)


def test_what_is_gathered_is_gathered_again() -> None:
    """Memory of a step of FSDP: parameters are whole where they are used, not from the forward pass to the backward."""
    found = {}
    for layers in (6, 12):
        wg.manual_seed(0)
        model = nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(256, 256), nn.Tanh())))
        step = trained(dist.shard(model, dist.Mesh(data=2), fsdp="data"), dist.Mesh(data=2), given=wg.spec((8, 256)))
        graph = step.partitions[-1].graph
        gathers = [n for n in graph.nodes if n.op.name == "all_gather"]
        assert sum(n.spec.nbytes for n in gathers) > 1.8 * layers * 256 * 256 * 4  # all of it twice, but for the first
        found[layers] = compile_graph(graph, exchanges=Alone({"data": 0})).memory.arena
    # Six layers more: their parts of gradients until the update, and no gathered weight (1.0 each).
    assert found[12] - found[6] < 6 * 0.7 * 256 * 256 * 4


def test_a_budget_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank keeps to it, and computes the same."""
    mesh = dist.Mesh(data=2)
    made_of: list[Any] = []
    executor = engine.executor

    def noted(*args: Any, **options: Any) -> Any:
        made_of.append(executor(*args, **options))
        return made_of[-1]

    monkeypatch.setattr(engine, "executor", noted)

    def work(memory: Any) -> list[float]:
        wg.manual_seed(0)
        model = nn.Sequential(*(m for _ in range(8) for m in (nn.Linear(16, 16), nn.Tanh(), nn.LayerNorm(16))))
        optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

        step = small_networks.training(model, optimizer)

        made = dist.jit(step, mesh=mesh, in_specs=("data",), memory=memory)
        x = wg.tensor(np.random.default_rng(0).normal(size=(512, 16)).astype(np.float32))
        return [float(made(x)) for _ in range(3)]

    free = dist.simulate(mesh).run(work, None)
    assert all(e.memory.growth > 200_000 for e in made_of)
    for run in (dist.simulate(mesh).run, lambda work, memory: [work(memory)] * 2):
        made_of.clear()
        kept = run(work, "200kB")
        assert made_of
        assert all(e.memory.growth <= 200_000 for e in made_of)
        np.testing.assert_allclose(kept, free, rtol=1e-6)
    with pytest.raises(wg.GraphError, match="cannot run within 1,000 bytes"):
        work("1kB")
    with pytest.raises(wg.GraphError, match="spill=True and no memory"):
        dist.jit(len, mesh=mesh, spill=True)


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


def test_what_is_refused() -> None:
    mesh, model = dist.Mesh(data=2), nn.Linear(4, 3)
    with pytest.raises(wg.GraphError, match=r"'layer.*' fits no parameter"):
        dist.shard(model, mesh, {"layer.*": "data"})
    with pytest.raises(wg.ShapeError, match=r"parameter weight, \(3, 4\) float32, split along dimension 0 over 'data'"):
        dist.shard(model, mesh, {"weight": "data"})
    with pytest.raises(wg.GraphError, match="an axis 'model' of Mesh"):
        dist.jit(lambda: None, mesh=mesh, zero="model")
    with pytest.raises(wg.GraphError, match="in_specs has 2 entries for 1 arguments") as caught:
        trained(model, mesh, ("data", "data"))
    assert os.path.basename(__file__) in str(caught.value).splitlines()[0]
    with pytest.raises(wg.DTypeError):
        dist.shard(len, mesh)
    with pytest.raises(wg.DTypeError):
        dist.jit(3, mesh=mesh)


# -- batches that the ranks do not divide, and other meshes


def _losses(mesh: Any, sizes: Sequence[int], fsdp: str | None = None, **options: Any) -> list[float]:
    wg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    if fsdp is not None:
        dist.shard(model, mesh, fsdp=fsdp)
    optimizer = wg.optim.AdamW(model.parameters(), lr=0.05)

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    made = wg.jit(step) if mesh is None else dist.jit(step, mesh=mesh, in_specs=("data", "data"), **options)
    rng = np.random.default_rng(0)
    batches = [(rng.normal(size=(n, 4)).astype("f4"), rng.integers(0, 2, n)) for n in sizes]
    return [float(made(wg.tensor(x), wg.tensor(y))) for x, y in batches]


@pytest.mark.parametrize(
    ("mesh", "fsdp", "options"),
    [
        ({"data": 2}, None, {}),
        ({"data": 2}, "data", {}),
        ({"data": 2}, None, {"zero": "data"}),
        ({"data": 2, "model": 2}, "model", {}),
    ],
)
def test_a_last_batch_that_the_ranks_do_not_divide(mesh: dict[str, int], fsdp: str | None, options: Any) -> None:
    """Means, batch norm and dropout are those of one process."""
    sizes = (8, 8, 5, 8, 3, 8)
    found = _losses(dist.Mesh(**mesh), sizes, fsdp, **options)
    np.testing.assert_allclose(found, _losses(None, sizes), rtol=1e-5)


def test_a_first_batch_that_the_ranks_do_not_divide_is_refused() -> None:
    with pytest.raises(wg.ShapeError, match=r"step: x, \(5, 4\) float32, split along dimension 0 over 'data': 5 is no"):
        _losses(dist.Mesh(data=2), (5,))
    with pytest.raises(wg.ShapeError, match="6 is no multiple of 4"):
        _losses(dist.Mesh(data=2), (8, 6), blocks={"data": 4})


@pytest.mark.parametrize("other", [{"model": 2}, {"data": 4}])
def test_a_model_in_parts_of_another_mesh(other: dict[str, int]) -> None:
    first, second = dist.Mesh(data=2), dist.Mesh(**other)
    (axis,) = other
    model = dist.shard(nn.Linear(4, 8), first, fsdp="data")
    optimizer = wg.optim.AdamW(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x = wg.ones(4, 4)
    before = [float(dist.jit(step, mesh=first, in_specs=("data",))(x)) for _ in range(2)]
    there = dist.jit(step, mesh=second, in_specs=(axis,))
    with pytest.raises(wg.GraphError, match=r"in parts over the ranks of Mesh\(data=2\)") as caught:
        there(x)
    assert "shard(model, new_mesh, {})" in str(caught.value)
    dist.shard(model, second, {})
    assert float(there(x)) < before[-1] < before[0]
