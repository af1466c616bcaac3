"""A cluster on paper: what is counted, what the model adds, and meshes that are not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small_networks
import wengert as wg
from wengert import distribute as dist
from wengert import nn

pytest.importorskip("llvmlite", reason="kernels are measured")

SPLIT = dist.PartitionSpec


def program(ranks: int) -> Any:
    def step(w: Any, x: Any) -> Any:
        value, g = wg.value_and_grad(lambda w: (wg.tanh(x @ w) ** 2).mean())(w)
        return value, w - 0.1 * g

    return dist.partition(step, dist.Mesh(data=ranks), (None, "data"))


def test_bytes_and_times_follow_from_the_model() -> None:
    args = wg.spec((64, 64)), wg.spec((4096, 64))
    w = 64 * 64 * 4
    for ranks in (4, 64, 4096):
        found = dist.predict(program(ranks), cluster=dist.Cluster(1e-6, 1e9, 0.0), args=args)
        (move,) = [p for p in found.parts if p.kind == "move"]
        # The gradient and the loss in one sum: out in parts, and gathered.
        nbytes = w + 4
        assert move.moved == 2 * (ranks - 1) * nbytes // ranks
        assert move.end - move.start == pytest.approx(2 * np.log2(ranks) * 1e-6 + move.moved / 1e9)
        assert found.moved == move.moved
        assert found.seconds >= found.moving > 0
        assert found.memory > 2 * w
    # Each of more ranks has less to do, and fewer bytes to keep.
    few, many = (dist.predict(program(n), args=args) for n in (2, 64))
    assert many.memory < few.memory


@pytest.mark.parametrize(("size", "messages"), [(16, 31), (1 << 14, 5)])
def test_a_root_sends_small_values_to_each_and_large_ones_along_a_tree(size: int, messages: int) -> None:
    def spread(x: Any) -> Any:
        return dist.broadcast(x, "data", root=1)

    mesh = dist.Mesh(data=32)
    found = dist.predict(dist.shard_map(spread, mesh, ("data",), None), args=(wg.spec((32 * size,)),))
    (move,) = [p for p in found.parts if p.kind == "move"]
    assert move.moved == messages * size * 4


def test_steps_of_modules() -> None:
    model = nn.Linear(4, 4)
    step = dist.jit(lambda x: (model(x) ** 2).mean(), mesh=dist.Mesh(data=2), in_specs=("data",))
    with pytest.raises(wg.GraphError, match="predict of"):
        dist.predict(step)
    with wg.no_grad():
        step(wg.ones(8, 4))
    found = dist.predict(step)
    assert [p.label for p in found.parts if p.kind == "move"] == ["all_reduce over data"]
    assert "all_reduce over data" in str(found)
    assert "all_reduce over data" in found.gantt()
    assert "<table>" in found._repr_html_()


def test_what_is_refused() -> None:
    with pytest.raises(wg.GraphError, match=r"predict with args=f32\[4,4\]"):
        dist.predict(program(2), args=wg.spec((4, 4)))
    with pytest.raises(wg.GraphError, match=r"predict on Mesh\(data=4\) of a program for Mesh\(data=2\)"):
        dist.predict(program(2), dist.Mesh(data=4), args=(wg.spec((4, 4)), wg.spec((4, 4))))
    with pytest.raises(wg.GraphError, match="predict with a Spec for its mesh"):
        dist.predict(program(2), wg.spec((4, 4)))  # type: ignore[arg-type]
    with pytest.raises(wg.GraphError, match="measure outside of a job"):
        dist.measure()


def test_links_are_measured_in_a_job() -> None:
    found = dist.simulate(2).run(lambda: dist.measure(1 << 12, 2))
    assert found[0] == found[1]
    assert found[0].latency > 0
    assert found[0].bandwidth > 0
    assert 0 <= found[0].hidden <= 1


def test_sums_that_do_not_wait_are_one() -> None:
    def f(x: Any) -> Any:
        a, b = x.sum(0), (x * x).sum()
        return a / b.sum(), (x - x.mean(0)).sum(1).max(), (x > 0).sum()

    x = np.random.default_rng(0).normal(size=(8, 3))
    made = dist.partition(f, dist.Mesh(data=2), ("data",))
    sums = [n for n in made.lower(x).graph.nodes if n.op.name == "all_reduce"]
    assert sorted(n.spec.dtype.name for n in sums) == ["float64", "int64"]
    assert {n.spec.shape for n in sums} == {(1, 7), ()}  # a sum of 3, one of 1, a mean of 3; and a count
    for a, b in zip(made(x), f(wg.tensor(x)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_ranks_wait_for_what_is_not_there_yet() -> None:
    """Two sums move one after the other; a rank computes meanwhile, and waits at the end of a step."""
    args = wg.spec((64, 64)), wg.spec((256, 64))
    found = dist.predict(program(4), cluster=dist.Cluster(1.0, 1e12), args=args)
    moves = [p for p in found.parts if p.kind == "move"]
    waits = [p for p in found.parts if p.kind == "wait"]
    assert waits[-1].label == "wait for all_reduce"
    assert [a.end for a in moves[:-1]] == [b.start for b in moves[1:]]
    assert waits[-1].end == pytest.approx(moves[-1].end)
    assert found.moving == pytest.approx(sum(p.end - p.start for p in waits))
    assert found.seconds == pytest.approx(max(p.end for p in found.parts))


@pytest.mark.parametrize("hidden", [0.0, 0.25, 1.0])
def test_what_a_rank_moves_itself_hides_nothing(hidden: float) -> None:
    made = program(2).lower(wg.spec((64, 64)), wg.spec((256, 64)))
    (node,) = [n for n in made.graph.nodes if n.op.name == "all_reduce"]
    cluster = dist.Cluster(0.0, 1e9, sums=1e8, hidden=hidden)
    nbytes = node.spec.nbytes
    assert cluster.seconds(node) == pytest.approx(nbytes / 1e9 + nbytes / 1e8)
    assert cluster.busy(node) == pytest.approx((1 - hidden) * nbytes / 1e9 + nbytes / 1e8)
    with pytest.raises(wg.GraphError, match=r"Cluster with hidden=1.5"):
        dist.Cluster(hidden=1.5)


def test_a_step_that_was_called_knows_what_its_calls_take() -> None:
    step = dist.jit(lambda x: wg.tanh(x).sum(), mesh=dist.Mesh(data=2), in_specs=("data",))
    x = wg.ones(8, 4)
    assert step.time.outside == float("inf")
    step(x)
    assert step.time.outside == float("inf")  # the first call traces and compiles
    step(wg.ones(16, 4))
    assert step.time.outside == float("inf")
    for _ in range(3):
        step(x)
    assert 0 < step.time.outside < 1
    called = [p for p in dist.predict(step).parts if p.label == "call"]
    assert called[0].end - called[0].start >= step.time.outside


def trained(micro: int) -> Any:
    wg.manual_seed(0)
    model = small_networks.tower(4, 16)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    step = small_networks.training(model, optimizer)

    if not micro:
        return step
    mesh = dist.Mesh(pipe=2, data=2)
    return dist.jit(step, mesh=mesh, in_specs=("data",), pipeline=dist.Pipeline("pipe", micro))


def test_places_of_a_pipeline_have_timelines() -> None:
    step = trained(4)
    found = dist.predict(step, args=(wg.spec((32, 16)),), cluster=dist.Cluster(1e-4, 1e9, 0.0))
    assert [lane.ranks for lane in found.lanes] == [(0, 1), (2, 3)]
    for lane in found.lanes:
        for a, b in zip(lane.parts, lane.parts[1:]):
            assert a.end == pytest.approx(b.start)
    # What is received was sent before, and takes as long as the model says.
    first, second = found.lanes
    sent = [p.end for p in first.parts if p.label == "send to 1"]
    begun = [p.start for p in second.parts if p.label.startswith("forward 1 of ")]
    assert len(sent) == len(begun) == 4
    assert all(b >= a + 1e-4 for a, b in zip(sent, begun))
    assert found.moved >= 4 * 4 * 16 * 4  # activations of four microbatches, of half a batch
    assert found.gantt().splitlines()[1].startswith("0-1")
    # No tensor of the model was written.
    assert float(step(wg.ones(32, 16))) == pytest.approx(float(trained(0)(wg.ones(32, 16))), rel=1e-5)


@pytest.mark.parametrize("micro", [0, 4])
def test_the_explorer_shows_the_ranks(micro: int) -> None:
    """A lane for each, and the nodes behind parts where the ranks run one graph."""
    jsonschema = pytest.importorskip("jsonschema", reason="the schema is checked")
    step = trained(micro) if micro else dist.jit(trained(0), mesh=dist.Mesh(data=2), in_specs=("data",))
    found = dist.predict(step, args=(wg.spec((32, 16)),))
    document = wg.explore(found).document
    schema = json.loads((Path(wg.__file__).parent / "explorer" / "trace.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(document)))
    ranks = document["ranks"]
    assert [lane["ranks"] for lane in ranks["lanes"]] == (["0-1", "2-3"] if micro else ["0-1"])
    assert len(ranks["lane"]) == sum(len(lane.parts) for lane in found.lanes)
    assert ranks["micros"] == pytest.approx(found.seconds * 1e6, abs=1e-3)
    assert sum(ranks["moved"]) == sum(p.moved for lane in found.lanes for p in lane.parts)
    ops = document["ops"]["name"]
    behind = {ops[document["nodes"]["op"][r]] for rows in ranks["nodes"] for r in rows}
    assert ("all_reduce" in behind and "matmul" in behind) is (micro == 0)


def test_what_all_places_do_together_begins_once() -> None:
    found = dist.predict(trained(4), args=(wg.spec((32, 16)),), cluster=dist.Cluster(1e-3, 1e9, 0.0))
    begun = [[p.start for p in lane.parts if p.label.startswith("results: ")] for lane in found.lanes]
    assert len(begun[0]) > 0
    assert begun[0][0] == pytest.approx(begun[1][0])


def test_a_timeline_as_a_chrome_trace() -> None:
    found = dist.predict(trained(2), args=(wg.spec((32, 16)),))
    trace = json.loads(json.dumps(found.trace()))
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"]
    assert names == ["rank 0-1", "rank 2-3"]
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(spans) == sum(len(lane.parts) for lane in found.lanes)
    assert max(e["ts"] + e["dur"] for e in spans) == pytest.approx(found.seconds * 1e6)


def test_sums_take_time_where_they_are_made() -> None:
    args = wg.spec((64, 64)), wg.spec((4096, 64))
    quick, slow = (
        dist.predict(program(4), cluster=dist.Cluster(1e-6, 1e9, 0.0, sums=sums), args=args).parts
        for sums in (float("inf"), 1e6)
    )
    (a,), (b,) = ([p.end - p.start for p in parts if p.kind == "move"] for parts in (quick, slow))
    assert b - a == pytest.approx((64 * 64 * 4 + 4) / 1e6)


def test_plans_are_ranked() -> None:
    step = trained(0)
    found = dist.suggest(step, dist.Mesh(any=2), (wg.spec((12, 16)),), memory="1GB", micro=(2, 5))
    plans = {p.name: p for p in found.plans}
    assert set(plans) == {"data", "zero", "fsdp", "pipeline of 2, 2 microbatches", "pipeline of 2, 5 microbatches"}
    refused = plans["pipeline of 2, 5 microbatches"]
    assert "12 is no multiple of 5" in refused.why
    assert found.plans[-1] is refused
    possible = [p.seconds for p in found.plans if p.fits]
    assert len(possible) == 4
    assert possible == sorted(possible)
    assert found.best is found.plans[0]
    weights = 4 * (16 * 16 + 16) * 4
    assert all(p.memory > weights for p in found.plans if p.fits)
    assert "shard(model, Mesh(data=2), fsdp='data')" in str(found)
    assert "<table>" in found._repr_html_()
    with pytest.raises(wg.GraphError, match="no plan fits"):
        _ = dist.suggest(step, 2, (wg.spec((12, 16)),), memory=100, micro=()).best
    with pytest.raises(wg.GraphError, match="suggest for 0 ranks"):
        dist.suggest(step, 0, ())
    with pytest.raises(wg.DTypeError, match="suggest for a int"):
        dist.suggest(3, 2, ())


def adam() -> Any:
    """Return a model, an optimiser and a step, the same ones each time."""
    _ = wg.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 16), nn.Linear(16, 16))
    opt = wg.optim.Adam(model.parameters(), lr=1e-2)

    step = small_networks.training(model, opt)

    return model, opt, step


X = wg.sin(wg.arange(128.0).reshape(8, 16))
SPEC = (wg.spec((8, 16)),)
LOOKS: dict[str, Any] = {
    "predict": lambda step: dist.predict(on_two(step), args=SPEC),
    "pipeline": lambda step: dist.predict(on_two(step, dist.Pipeline("data", 2, state="stages")), args=SPEC),
    "lowered": lambda step: on_two(step).lowered(*SPEC),
    "suggest": lambda step: dist.suggest(step, 2, SPEC, micro=(2,)),
    "a plan that is not possible": lambda step: refused(lambda: on_two(step).lowered(wg.spec((7, 16)))),
    "an error in the step": lambda step: refused(lambda: on_two(lambda x: (step(x), x.numpy())).lowered(*SPEC)),
}


def on_two(step: Any, pipeline: Any = None) -> Any:
    specs = (None if pipeline else "data",)
    return dist.jit(step, mesh=dist.Mesh(data=2), in_specs=specs, pipeline=pipeline)


def refused(look: Any) -> None:
    with pytest.raises(wg.WengertError):
        look()


@pytest.mark.parametrize("look", LOOKS)
def test_looking_at_a_step_leaves_model_and_optimiser_as_they_were(look: str) -> None:
    results = []
    for looks in (False, True):
        model, opt, step = adam()
        step_on_two = on_two(step)
        if looks:
            LOOKS[look](step)
            assert opt.state_dict()["state"] == {}
            assert all(p.grad is None for p in model.parameters())
            assert int(model[1].num_batches_tracked) == 0
        losses = []
        for _ in range(2):
            losses.append(float(step_on_two(X)))
            if looks:
                before = repr(opt.state_dict())
                LOOKS[look](step)
                assert repr(opt.state_dict()) == before
        names = list(model.state_dict()), [list(s) for s in opt.state_dict()["state"].values()]
        results.append((losses, names, [t.tolist() for t in model.state_dict().values()], repr(opt.state_dict())))
    assert results[0] == results[1]
