"""Collectives among a plan's steps: when they start and end, and whose memory is whose meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshes
import wengert as wg
from wengert import distribute as dist
from wengert import nn
from wengert.distribute.engines.mpi_native import Alone
from wengert.execute.native.codegen.kernel import Kernel
from wengert.execute.native.compile import compile_graph
from wengert.execute.native.overlap import IN_FLIGHT, name_of
from wengert.execute.native.plan.format import dump, load
from wengert.execute.native.plan.plan import Exchange, Plan
from wengert.execute.native.rewrite.canonical import canonical


def network(width: int = 64, layers: int = 6) -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers)))


def graph_of_step(fsdp: bool = False, ranks: int = 2) -> Any:
    """What a rank runs of a training step on a mesh."""
    wg.manual_seed(0)
    model, mesh = network(256), dist.Mesh(data=ranks)
    optimizer = wg.optim.Adam(model.parameters(), lr=0.1)
    if fsdp:
        dist.shard(model, mesh, fsdp="data")

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return dist.jit(step, mesh=mesh, in_specs=("data",)).lowered(wg.spec((8, 256))).graph


def phases(plan: Plan) -> dict[int, dict[str, int]]:
    """By collective, the numbers of its steps."""
    found: dict[int, dict[str, int]] = {}
    for i, step in enumerate(plan.steps):
        if isinstance(step.kernel, Exchange) and step.kernel.phase != "look":
            found.setdefault(step.kernel.number, {})[step.kernel.phase] = i
    return found


@pytest.mark.parametrize("fsdp", [False, True], ids=["data", "fsdp"])
def test_what_moves_has_its_memory_to_itself(fsdp: bool) -> None:
    """Between start and wait no other step writes to operand, result or scratch memory, wherever these were placed."""
    compiled = compile_graph(graph_of_step(fsdp), exchanges=Alone({}))
    plan = compiled.program.plan
    spans = {b: (b.place, b.place + b.nbytes) for s in plan.steps for b in (*s.reads, *s.writes) if b.kind == "temp"}
    assert len(plan.moved) > 4
    for number, at in phases(plan).items():
        start = plan.steps[at["start"]]
        own = {b.whole for b in (*start.reads, *start.writes) if b.nbytes}
        assert at["start"] < at["wait"] < at["end"]
        for step in plan.steps[at["start"] + 1 : at["wait"]]:
            for other in {b.whole for b in step.writes if b.nbytes}:
                assert other not in own, f"{step} writes to what collective {number} moves"
                if other in spans:
                    low, high = spans[other]
                    clash = [b for b in own if b in spans and low < spans[b][1] and spans[b][0] < high]
                    assert not clash, f"{step} writes over what collective {number} moves"
        for step in plan.steps[at["start"] + 1 : at["end"] + 1]:
            if not isinstance(step.kernel, Exchange):
                assert not {b.whole for b in step.reads} & {b.whole for b in start.writes}, "it is read too early"


def test_sums_of_gradients_move_behind_the_backward_pass() -> None:
    plan = compile_graph(graph_of_step(), exchanges=Alone({})).program.plan
    large = {n: at for n, at in phases(plan).items() if np.prod(plan.moved[n].shape) > 1000}
    work = [s.flops for s in plan.steps]
    assert len(large) >= 4
    behind = [sum(work[at["start"] : at["wait"]]) for at in list(large.values())[:-1]]
    assert all(behind), behind  # something is computed meanwhile, but for the last one
    looks = [i for i, s in enumerate(plan.steps) if isinstance(s.kernel, Exchange) and s.kernel.phase == "look"]
    assert looks
    last = max(at["start"] for at in large.values())
    assert list(large.values())[-1]["wait"] > last
    starts = [at["start"] for at in large.values()]
    assert starts == sorted(starts)
    flying = [sum(at["start"] <= i < at["wait"] for at in large.values()) for i in range(last)]
    assert max(flying) <= IN_FLIGHT


def test_one_gathered_part_is_on_its_way_and_one_in_use() -> None:
    """Parameters come as they are used, not all at the beginning: that is what keeping them in parts is for."""
    plan = compile_graph(graph_of_step(fsdp=True), exchanges=Alone({})).program.plan
    found = phases(plan)
    backward = min(at["start"] for n, at in found.items() if plan.moved[n].op == "reduce_scatter")
    gathers = [at for at in found.values() if at["start"] < backward]
    assert len(gathers) >= 6
    flying = [sum(at["start"] <= i < at["wait"] for at in gathers) for i in range(backward)]
    assert max(flying) <= 2


def test_a_plan_on_disk_is_the_plan() -> None:
    graph = graph_of_step()
    compiled = compile_graph(graph, exchanges=Alone({}))
    plan = compiled.program.plan
    constants = [n.attrs["value"] for n in graph.constants]
    kernels = {k.key: k for k in compiled.kernels}
    again = load(dump(plan, constants), constants, lambda keys: [kernels[k] for k in keys])
    assert again is not None
    assert str(again) == str(plan)
    assert again.moved == plan.moved
    assert phases(again) == phases(plan)


def test_all_is_waited_for_where_nothing_moves_natively() -> None:
    """Half precision is summed by Python's forward: no step of its own."""
    mesh = dist.Mesh(data=2)

    def f(x: Any) -> Any:
        return dist.all_reduce(x.astype(wg.float16), "data"), dist.all_reduce(x, "data")

    with mesh:
        graph = wg.graph(f)(wg.spec((8, 3)))
    plan = compile_graph(graph, exchanges=Alone({})).program.plan
    assert [m.dtype.name for m in plan.moved] == ["float32"]
    assert not compile_graph(graph).program.plan.moved


def test_guarded_memory_moves_at_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process can read it: the collective is done as a whole, by Python."""
    monkeypatch.setenv("WENGERT_GUARD", "1")

    def job() -> Any:
        from wengert.ops.collective.group import current

        x = np.full((3, 5), dist.rank() + 1.0)
        with current().mesh:  # type: ignore[union-attr]
            graph = wg.graph(lambda x: dist.all_reduce(x * 2.0, "ranks") + 1.0)(wg.spec((3, 5), "float64"))
        return compile_graph(graph, exchanges=Alone({})).run([x])[0]

    for found in dist.simulate(2).run(job):
        np.testing.assert_array_equal(found, np.full((3, 5), 7.0))


def test_an_error_lets_what_is_on_its_way_end() -> None:
    """Memory that others may still read is not used again: a run that breaks off waits first, or keeps it."""

    class Watched(Alone):
        settles = True

        def __init__(self) -> None:
            super().__init__({})
            self.drained = 0

        def drain(self) -> bool:
            self.drained += 1
            return self.settles

    def f(x: Any, index: Any) -> Any:
        total = dist.all_reduce(x, "data")
        return total, x[index]

    with dist.Mesh(data=2):
        graph = wg.graph(f)(wg.spec((200, 300)), wg.spec((4,), "int64"))
    watched = Watched()
    compiled = compile_graph(canonical(graph), exchanges=watched)
    x = np.ones((200, 300), np.float32)
    compiled.run([x, np.arange(4)])
    assert not watched.drained
    for watched.settles in (True, False):
        with pytest.raises(IndexError):
            compiled.run([x, np.array([1, 2, 3, 200])])
    assert watched.drained == 2
    compiled.run([x, np.arange(4)])


def test_losses_are_those_of_one_process() -> None:
    """The order of steps changes nothing: simulated ranks run node by node."""
    found = meshes.losses("mlp", "data", 2, steps=2)
    np.testing.assert_allclose(found, meshes.losses("mlp", steps=2), rtol=1e-12)


@pytest.mark.parametrize("at", [{"data": i, "model": j} for i in range(2) for j in range(3)], ids=str)
def test_a_rank_s_own_part_is_a_slice(at: dict[str, int]) -> None:
    """It takes no step of its own: what computes with it reads it where it lies. A result has memory of its own."""
    mesh = dist.Mesh(data=2, model=3)

    def f(x: Any) -> Any:
        rows = dist.own_part(x, "data")
        part = dist.own_part(rows, "model", axis=1)
        return part, rows.sum(0), wg.tanh(dist.own_part(x, "model", axis=-1)) * 2.0

    spec = wg.spec((4, 6), "float64")
    out = dist.PartitionSpec("data", "model"), dist.PartitionSpec("data"), dist.PartitionSpec(None, "model")
    graph = dist.shard_map(f, mesh, (None,), out).lower(spec).graph
    compiled = compile_graph(graph, exchanges=Alone(at))
    assert all(isinstance(step.kernel, Kernel) for step in compiled.plan.steps), compiled.plan
    x = np.arange(24.0).reshape(4, 6)
    for _ in range(2):
        part, total, other = compiled.run([x])
        rows = x[2 * at["data"] :][:2]
        np.testing.assert_array_equal(part, rows[:, 2 * at["model"] :][:, :2])
        np.testing.assert_array_equal(total, rows.sum(0))
        np.testing.assert_allclose(other, np.tanh(x[:, 2 * at["model"] :][:, :2]) * 2.0, rtol=1e-15)
        assert not np.may_share_memory(part, x)


def test_ranks_that_stand_elsewhere_have_plans_of_their_own() -> None:
    made = dist.shard_map(lambda x: dist.own_part(x, "data") + 1.0, dist.Mesh(data=2), (None,), "data")
    graph = made.lower(wg.spec((4,), "float64")).graph
    found = [compile_graph(graph, exchanges=Alone({"data": k})).run([np.arange(4.0)])[0] for k in (0, 1, 0, 1)]
    np.testing.assert_array_equal(found, [[1.0, 2.0], [3.0, 4.0]] * 2)
    assert name_of(graph, Alone({"data": 0})) != name_of(graph, Alone({"data": 1}))
    other = dist.partition(lambda x: x.sum(), dist.Mesh(data=2), ("data",)).lower(wg.spec((4,))).graph
    assert name_of(other, Alone({"data": 0})) == name_of(other, Alone({"data": 1}))
