"""What simulated ranks share: programs that were compiled once, and state that is none of theirs alone."""

from __future__ import annotations

import copy
import os
import pickle
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import meshes
import small_networks
import wengert as wg
from wengert import distribute as dist
from wengert import nn
from wengert.distribute.engines import simulation

MESH = dist.Mesh(data=2)
X = wg.tensor(np.random.default_rng(0).normal(size=(8, 4)))
ROWS = wg.arange(8.0, dtype="float64").reshape(8, 1)


def ended(run: Callable[[], Any]) -> Any:
    """What `run` returns, or raises, within a minute."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(run())
        except BaseException as e:
            found.append(e)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it waits for ever"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def on_ranks(fn: Callable[..., Any]) -> Any:
    return ended(lambda: dist.simulate(MESH).run(lambda: fn(X).numpy().tolist()))


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("begins_outside", [False, True])
def test_a_step_on_a_mesh_that_ranks_share(begins_outside: bool, pipelined: bool) -> None:
    """Each rank computes its own part by it, in one job and in the next."""
    model = small_networks.chain(4, 3, 1).to(wg.float64)
    mesh = dist.Mesh(pipe=2) if pipelined else MESH
    step = dist.jit(
        lambda x, rows: (model(x) * rows).sum(),
        mesh=mesh,
        in_specs=(None, None) if pipelined else ("data", "data"),
        pipeline=dist.Pipeline("pipe", 2) if pipelined else None,
    )
    alone = float((model(X) * ROWS).sum())
    if begins_outside:
        np.testing.assert_allclose(float(step(X, ROWS)), alone)
    for _ in range(2):
        found = ended(lambda: dist.simulate(mesh).run(lambda: float(step(X, ROWS))))
        np.testing.assert_allclose(found, [alone] * 2)
    np.testing.assert_allclose(float(step(X, ROWS)), alone)


def test_functions_on_a_mesh_that_ranks_share() -> None:
    for f in (
        dist.partition(lambda x: (x * ROWS).sum(), MESH, ("data",)),
        dist.shard_map(lambda x: dist.all_reduce(x.sum(), "data"), MESH, ("data",), None),
        wg.jit(lambda x: dist.all_reduce(x.sum(), "data")),
    ):
        first = on_ranks(f)
        assert first[0] == first[1]
        assert on_ranks(f) == first


@pytest.mark.parametrize("by_mesh", [False, True])
def test_state_that_ranks_share_is_an_error(by_mesh: bool) -> None:
    """Two ranks that train one model would write to it in turn; each holds what the other waits for."""
    model = nn.Linear(4, 1).to(wg.float64)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss if by_mesh else dist.all_reduce(loss.detach(), "data")

    made = dist.jit(step, mesh=MESH, in_specs=("data",)) if by_mesh else wg.jit(step)
    for _ in range(2):
        with pytest.raises(wg.GraphError, match="state which another simulated rank is at work with") as found:
            on_ranks(made)
        assert os.path.basename(__file__) in str(found.value).splitlines()[0]


def test_state_of_each_rank_is_its_own() -> None:
    def train() -> list[float]:
        wg.manual_seed(0)
        model = nn.Linear(4, 1).to(wg.float64)
        optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

        step = dist.jit(small_networks.training(model, optimizer), mesh=MESH, in_specs=("data",))

        return [float(step(X)) for _ in range(3)]

    first, second = ended(lambda: dist.simulate(MESH).run(train))
    assert first == second
    np.testing.assert_allclose(first, train())


def test_what_ranks_pass_on_is_their_own() -> None:
    """A rank that is sent a value has it still when the sender has computed something else in that memory."""
    attention = lambda *qkv: (nn.functional.scaled_dot_product_attention(*qkv[:3], is_causal=True) * qkv[3]).sum()
    gradients = lambda *given: wg.grad(attention, argnums=(0, 1, 2))(*given)
    rng = np.random.default_rng(0)
    given = [wg.tensor(rng.normal(size=(4, 4, 8, 2))) for _ in range(4)]
    alone = [g.numpy() for g in gradients(*given)]
    for ranks in (2, 4):
        mesh = dist.Mesh(data=2, context=ranks)
        f = dist.partition(gradients, mesh, (dist.PartitionSpec("data", None, "context"),) * 4)
        for found in dist.simulate(mesh).run(lambda f=f: [g.numpy() for g in f(*given)]):
            for a, b in zip(found, alone, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["permute", "broadcast", "all_gather", "all_to_all", "reduce_scatter", "all_reduce"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_results_share_no_memory_with_what_ranks_bring(name: str, ranks: int) -> None:
    more = {"permute": ([(i, (i + 1) % ranks) for i in range(ranks)],), "all_to_all": (0, 0)}.get(name, ())

    def work() -> Any:
        x = wg.ones(4, 4)
        return x.numpy(), getattr(dist, name)(x, "ranks", *more).numpy()

    found = dist.simulate(ranks).run(work)
    assert not any(np.may_share_memory(given, got) for given, _ in found for _, got in found)


def trained_with_dropout() -> list[float]:
    """Losses of a step on a mesh that draws, and what is drawn after it."""
    wg.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).to(wg.float64)
    optimizer = wg.optim.Adam(model.parameters(), lr=0.1)

    step = dist.jit(small_networks.training(model, optimizer), mesh=MESH, in_specs=("data",))

    return [*(float(step(X)) for _ in range(4)), wg.rand(1).item()]


def test_steps_that_draw_draw_what_one_process_does() -> None:
    """A rank that waits in the midst of such a step lets others draw, each from its own place."""
    expected = trained_with_dropout()
    for found in ended(lambda: dist.simulate(MESH).run(trained_with_dropout)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("same", [False, True])
def test_compiled_functions_that_draw_and_meet(same: bool) -> None:
    """What eager ranks draw, with one seed and with seeds of their own; once by the fast path, too."""
    drawn = lambda x: dist.all_reduce(nn.functional.dropout(x, 0.5).sum(), "data") + wg.rand(1, dtype="float64").sum()
    compiled = wg.jit(drawn)

    def work(fn: Any) -> list[float]:
        wg.manual_seed(5 if same else dist.rank())
        return [*(float(fn(X * (1 + dist.rank()))) for _ in range(4)), wg.rand(1).item()]

    expected = dist.simulate(MESH).run(work, drawn)
    found = ended(lambda: dist.simulate(MESH).run(work, compiled))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert (found[0][-1] == found[1][-1]) is same


def test_ranks_that_come_to_a_meeting_hold_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next rank begins as soon as one has said that it waits."""
    drawn = wg.jit(lambda x: dist.all_reduce(nn.functional.dropout(x, 0.5), "ranks").sum())

    class Slow(queue.SimpleQueue[Any]):
        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            super().put(item)
            if isinstance(item, tuple) and "waits" in map(str, item):
                time.sleep(0.02)

    def work() -> float:
        wg.manual_seed(3)
        return float(drawn(X))

    expected = dist.simulate(2).run(work)
    monkeypatch.setattr(simulation.queue, "SimpleQueue", Slow)
    assert ended(lambda: dist.simulate(2).run(work)) == expected


def doubled(x: Any) -> Any:
    return (x * 2.0).sum()


STEP = dist.jit(doubled, mesh=MESH, in_specs=("data",), blocks={"data": 4})
FUNCTION = dist.partition(doubled, MESH, ("data",))
MAPPED = dist.shard_map(lambda x: dist.all_reduce(doubled(x), "data"), MESH, ("data",), None)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("by", [STEP, FUNCTION, MAPPED], ids=["jit", "partition", "shard_map"])
def test_copies_run_on_the_mesh(by: Any, again: Any) -> None:
    """A copy is for as many ranks; one that had lost its mesh would compute the same, alone."""
    if by is MAPPED and again not in (copy.copy, copy.deepcopy):
        return  # a function without a name
    expected = by(X)
    found = again(by)
    assert type(found) is type(by)
    assert found.mesh == MESH
    assert found(X).numpy() == expected.numpy()
    if by is STEP:
        assert found.blocks == {"data": 4}
        assert "all_reduce" in {n.op.name for n in found.partitions[-1].graph.nodes}


def test_a_mesh_in_use_is_pickled() -> None:
    with MESH:
        assert pickle.loads(pickle.dumps(MESH)) == MESH


def test_what_there_is_to_see_of_a_step() -> None:
    STEP(X)
    with pytest.raises(wg.GraphError, match=r"there is no \.plan: the program is run by the ranks of Mesh\(data=2\)"):
        _ = STEP.plan


@pytest.mark.parametrize(
    ("kind", "plan", "ranks"),
    [
        ("mlp", "zero", 2),
        ("cnn", "fsdp tensor", 4),
        ("block", "data context", 4),
        ("mlp", "data pipeline", 4),
        pytest.param("gpt", "fsdp spilled", 2, marks=pytest.mark.slow),
        pytest.param("experts", "data expert", 4, marks=pytest.mark.slow),
    ],
)
def test_plans_by_native_ranks_in_one_process(kind: str, plan: str, ranks: int) -> None:
    found = ended(lambda: dist.simulate(meshes.PLANS[ranks][plan]).run(meshes.losses, kind, plan, ranks, 3))
    np.testing.assert_allclose(found, [meshes.losses(kind, steps=3)] * ranks, rtol=1e-12)


def test_arguments_are_copies() -> None:
    """As those of processes are: what a rank writes to is its own."""
    w = wg.tensor([3.0], requires_grad=True)
    optimizer = wg.optim.SGD([w], lr=0.1)

    def work(w: Any, optimizer: Any) -> list[float]:
        found = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = ((w - 1.0) ** 2).sum()
            loss.backward()
            optimizer.step()
            found.append(float(dist.all_reduce(loss.detach(), "ranks")))
        return found

    first, second = dist.run(work, 2, w, optimizer, engine="simulate")
    np.testing.assert_allclose(first, [8.0, 5.12, 3.2768], rtol=1e-6)
    assert first == second
    assert w.tolist() == [3.0]
    with pytest.raises(wg.GraphError, match=r"run of .* on simulated ranks, each of which has copies"):
        dist.run(lambda x: x, 2, (i for i in range(3)), engine="simulate")
