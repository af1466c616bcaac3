"""Pipelines: cuts, schedules, microbatches, and engines. That losses stay the same is in test_training."""

from __future__ import annotations

import itertools
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshes
import small_networks
import staged
import wengert as wg
from wengert import distribute as dist
from wengert import nn
from wengert.core.graph.evaluate import run
from wengert.core.spec import spec_of
from wengert.distribute.engines import stages
from wengert.distribute.engines.job import lack
from wengert.distribute.engines.xla_stages import Rows
from wengert.distribute.pipeline.program import Pipelined
from wengert.distribute.pipeline.schedule import played
from wengert.distribute.pipeline.stages import Phase
from wengert.distribute.pipeline.tasks import Task, Tasks, Turn
from wengert.distribute.placing.sharded import Sharded

FLOAT = spec_of((), np.dtype(np.float32))
EMPTY = wg.graph(lambda x: x)(wg.spec(()))


def equal_stages(places: int, micro: int, laps: int) -> Tasks:
    """A step whose stages take 1 forward and 2 backward, for each microbatch."""
    count = places * laps
    tasks: list[Task] = []
    makers: dict[int, int] = {}
    last: dict[Any, int] = {}

    def add(phase: Phase, stage: int, m: int, inputs: list[int]) -> None:
        number = len(makers)
        makers[number] = len(tasks)
        last[phase, stage, m] = number
        seconds = 2.0 if phase is Phase.BACKWARD else 1.0
        label = f"{phase.name} {stage} {m}"
        tasks.append(
            Task(
                label, EMPTY, tuple(inputs), (number,), stage % places, stage, phase, m, Turn(phase, stage, m), seconds
            )
        )

    for m in range(micro):
        for s in range(count):
            add(Phase.FORWARD, s, m, [last[Phase.FORWARD, s - 1, m]] if s else [])
        for s in reversed(range(count)):
            before = [last[Phase.BACKWARD, s + 1, m]] if s + 1 < count else []
            add(Phase.BACKWARD, s, m, [last[Phase.FORWARD, s, m], *before])
    return Tasks(tuple(tasks), (FLOAT,) * len(makers), (), makers, {})


@pytest.mark.parametrize("places", [2, 4])
@pytest.mark.parametrize("micro", [1, 4, 8])
@pytest.mark.parametrize(("schedule", "laps"), [("gpipe", 1), ("1f1b", 1), ("1f1b", 2)])
def test_bubbles_and_what_is_kept_are_those_of_the_schedule(places: int, micro: int, schedule: str, laps: int) -> None:
    tasks = equal_stages(places, micro, laps)
    spans = played(tasks, places, schedule, lambda task: task.seconds)
    assert len(spans) == len(tasks.tasks)
    end = max(s.end for s in spans)
    # Each place works for 3 a microbatch and stage, and is idle for the others' first and last ones.
    assert end == 3 * micro * laps + 3 * (places - 1) or micro < places
    for place in range(places):
        held = most = 0
        for span in sorted((s for s in spans if s.place == place), key=lambda s: s.start):
            held += 1 if tasks.tasks[span.task].phase is Phase.FORWARD else -1
            most = max(most, held)
        if laps == 1:
            assert most == (micro if schedule == "gpipe" else min(micro, places - place))


def trained(model: nn.Module, mesh: dist.Mesh, pipeline: dist.Pipeline, in_specs: Any = (None,)) -> Any:
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    step = small_networks.training(model, optimizer)

    return dist.jit(step, mesh=mesh, in_specs=in_specs, pipeline=pipeline)


def chain() -> nn.Module:
    return small_networks.tower(4, 16)


def places_of(program: Pipelined) -> dict[str, set[int]]:
    """By module the places that compute it."""
    found: dict[str, set[int]] = {}
    for task in program.tasks.tasks:
        if task.phase is Phase.FORWARD and task.place is not None:
            for node in task.graph.computations:
                if node.path:
                    found.setdefault(node.path, set()).add(task.place)
    return found


def test_stages_are_cut_where_it_costs_least() -> None:
    wg.manual_seed(0)
    step = trained(chain(), dist.Mesh(pipe=2), dist.Pipeline("pipe", 4))
    step(wg.randn(8, 16))
    program = step.partitions[-1]
    found = places_of(program)
    assert {path: found[path] for path in found if path.endswith(".0")} == {
        "0.0": {0}, "1.0": {0}, "2.0": {1}, "3.0": {1}
    }  # fmt: skip
    # Activations of one microbatch one way and their gradients back, and nothing else.
    assert program.moved(0) == program.moved(1) == 4 * 2 * 16 * 4
    # Forward passes of different microbatches are one compiled graph; the first gradient is not added to another.
    graphs = [t.graph for t in program.tasks.tasks if t.phase is Phase.BACKWARD and t.stage == 1]
    assert len({g.structural_hash for g in graphs}) == 2
    assert "8 x 16" not in str(program)
    assert "1f1b over 'pipe': 2 stages on 2 places, 4 microbatches" in str(program)
    assert "<table>" in program._repr_html_()


@pytest.mark.parametrize("kind", ["gpt", "block", "mlp"])
def test_the_backward_pass_is_where_the_forward_pass_was(kind: str) -> None:
    wg.manual_seed(0)
    model = meshes.MODELS[kind]()

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    made = dist.jit(step, mesh=dist.Mesh(pipe=2), in_specs=(None, None), pipeline=dist.Pipeline("pipe", 2))
    rows = meshes.SHAPES[kind]
    is_text = kind in meshes.TOKENS
    x = wg.spec(rows, "int64") if is_text else wg.spec(rows)
    program = made.lowered(x, wg.spec((rows[0] * rows[1] if is_text else rows[0],), "int64"))
    found: dict[Phase, dict[str, set[int]]] = {Phase.FORWARD: {}, Phase.BACKWARD: {}}
    for task in program.tasks.tasks:
        for node in task.graph.computations if task.turn is not None else ():
            if node.op.name in ("linear", "matmul"):
                found[task.phase].setdefault(node.path, set()).add(task.place)
    assert len(found[Phase.FORWARD]) > 1
    assert set().union(*found[Phase.FORWARD].values()) == {0, 1}
    assert found[Phase.BACKWARD] == found[Phase.FORWARD]


def test_stages_that_are_named() -> None:
    step = trained(chain(), dist.Mesh(pipe=2), dist.Pipeline("pipe", 2, stages=["0", ["1", "2", "3.*"]]))
    step(wg.randn(8, 16))
    found = places_of(step.partitions[-1])
    assert {path: found[path] for path in found if path.endswith(".0")} == {
        "0.0": {0}, "1.0": {1}, "2.0": {1}, "3.0": {1}
    }  # fmt: skip


def test_1f1b_keeps_less_than_gpipe() -> None:
    kept = {}
    for schedule in ("1f1b", "gpipe"):
        step = trained(chain(), dist.Mesh(pipe=2), dist.Pipeline("pipe", 16, schedule))
        step(wg.randn(256, 16))
        kept[schedule] = step.partitions[-1].kept(1)
    assert kept["1f1b"] < 0.7 * kept["gpipe"]


def test_a_whole_batch_s_statistics() -> None:
    """Microbatches that wait for each other in the midst of a stage, in an order without circles."""
    wg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 8), nn.BatchNorm1d(8))
    x = wg.randn(8, 4)
    step = trained(model, dist.Mesh(pipe=2), dist.Pipeline("pipe", 4))
    step(x)
    np.testing.assert_allclose(
        dist.whole(model[1].running_mean).numpy(), 0.1 * model_input(x, model), rtol=2e-5, atol=1e-6
    )


def model_input(x: Any, model: nn.Module) -> Any:
    """The mean over the whole batch of what the first layer gave before its update."""
    wg.manual_seed(0)
    first = nn.Linear(4, 8)
    with wg.no_grad():
        return first(x).mean(0).numpy()


def test_gradients_clipped_by_their_norm_over_all_stages() -> None:
    def losses(mesh: dist.Mesh | None) -> list[float]:
        wg.manual_seed(0)
        model = chain().to(wg.float64)
        optimizer = wg.optim.SGD(model.parameters(), lr=1.0)

        def step(x: Any) -> Any:
            loss = (model(x) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
            return loss

        if mesh is not None:
            step = dist.jit(step, mesh=mesh, in_specs=(None,), pipeline=dist.Pipeline("pipe", 2))
        x = wg.randn(8, 16, dtype=wg.float64)
        return [float(step(x)) for _ in range(4)]

    np.testing.assert_allclose(losses(dist.Mesh(pipe=2)), losses(None), rtol=1e-12)


def test_tied_weights_and_inference() -> None:
    wg.manual_seed(0)
    w, x = wg.randn(6, 6, dtype=wg.float64), wg.randn(4, 6, dtype=wg.float64)
    p = nn.Parameter(w.clone())

    def forward(x: Any) -> Any:
        return wg.tanh(wg.tanh(wg.tanh(x @ p) @ p) @ p.T)

    def step(x: Any) -> Any:
        loss = forward(x).sum()
        loss.backward()
        return loss

    pipeline = dist.Pipeline("pipe", 2)
    with wg.no_grad():
        found = dist.jit(forward, mesh=dist.Mesh(pipe=3), in_specs=(None,), pipeline=pipeline)(x)
        np.testing.assert_allclose(found.numpy(), forward(x).numpy(), rtol=1e-12)
    step(x)
    expected, p.grad = p.grad.numpy(), None
    dist.jit(step, mesh=dist.Mesh(pipe=3), in_specs=(None,), pipeline=pipeline)(x)
    np.testing.assert_allclose(dist.whole(p.grad).numpy(), expected, rtol=1e-12)


def all_end(program: Pipelined) -> bool:
    """Whether all places come to the end of their lists where they can but meet, for messages and what all do."""
    lists = [[act for act in acts if act.what != "send"] for acts in program.lists]
    waiting = [0] * program.places

    def act(place: int) -> Any:
        return lists[place][waiting[place]] if waiting[place] < len(lists[place]) else None

    def meets(place: int) -> tuple[int, ...]:
        """The places that go on, as one of them can."""
        a = act(place)
        if a.what == "run" and program.tasks.tasks[a.value].place is None:
            return (
                tuple(range(program.places))
                if all(act(p) is not None and act(p)[:2] == a[:2] for p in range(program.places))
                else ()
            )
        if a.what == "run":
            return (place,)
        other, kind = act(a.other), {"hand": "receive", "receive": "hand"}[a.what]
        return (place, a.other) if other is not None and other[:3] == (kind, a.value, place) else ()

    while any(on := [p for place in range(program.places) if act(place) is not None for p in [meets(place)] if p]):
        for place in on[0]:
            waiting[place] += 1
    return all(act(place) is None for place in range(program.places))


@pytest.mark.parametrize("state", ["stages", "everywhere"])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("kind", "places", "laps"), [("cnn", 4, 1), ("gpt", 4, 1), ("mlp", 2, 2), ("gpt", 3, 1)])
def test_no_place_waits_for_one_that_waits_for_it(kind: str, places: int, laps: int, schedule: str, state: str) -> None:
    wg.manual_seed(0)
    model = meshes.MODELS[kind]()
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    pipeline = dist.Pipeline("pipe", 4, schedule, laps, state=state)
    made = dist.jit(step, mesh=dist.Mesh(pipe=places), in_specs=(None, None), pipeline=pipeline)
    assert all_end(made.lowered(*next(meshes.batches(kind))))


PIPES = dist.Mesh(pipe=2)
# Of XLA a rank is a device, of which conftest.py makes 8.
ENGINES = ["native", pytest.param("xla", marks=pytest.mark.skipif(find_spec("jax") is None, reason="it needs jax"))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mesh", [PIPES, dist.Mesh(data=2, pipe=2)])
def test_state_at_the_stages_is_at_one_place_each(mesh: dist.Mesh, engine: str) -> None:
    whole, *_, losses = staged.trainer(None)
    expected = losses(6)
    model, optimizer, _, losses = staged.trainer(mesh)
    with wg.engine(engine):
        np.testing.assert_allclose(losses(6), expected, rtol=1e-12)
    places = set()
    for p in model.parameters():
        for x in (p._array, p.grad._array):
            assert isinstance(x, Sharded)
            axis, place = x.at
            assert axis == "pipe"
            assert set(x.parts) == {r for r in range(mesh.size) if mesh.coordinates(r)[axis] == place}
        assert p._array.at == p.grad._array.at
        places.add(place)
    assert places == {0, 1}
    moments = [x for x in wg.tree.leaves(optimizer.state_dict()) if isinstance(getattr(x, "_data", x), Sharded)]
    assert len(moments) == 2 * len(list(model.parameters()))
    with pytest.raises(wg.DTypeError, match=r"model.0.weight, f64\[8,6\], which is at place 0 along 'pipe' alone"):
        model(wg.zeros(2, 6, dtype=wg.float64))
    for (name, p), q in zip(dist.whole(model).named_parameters(), whole.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("reads", ["norms", "clip", "mean before", "sum"])
def test_state_at_the_stages_that_others_read(reads: str, engine: str) -> None:
    """Norms of all parameters, means of what they were before: what another place needs is sent to it."""
    *_, expected, losses = staged.trainer(None, reads=reads)
    alone = losses(6)
    *_, mean, losses = staged.trainer(PIPES, reads=reads)
    with wg.engine(engine):
        np.testing.assert_allclose(losses(6), alone, rtol=1e-12)
    for m, e in zip(dist.whole(mean), expected, strict=True):
        np.testing.assert_allclose(m.numpy(), e.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("engine", [*ENGINES, *(pytest.param(("xla", "native"), marks=e.marks) for e in ENGINES[1:])])
def test_state_at_the_stages_and_what_changes_between_calls(engine: str | tuple[str, str]) -> None:
    """Another batch size, parameters from outside, an error in the middle, a step with other cuts, a checkpoint."""

    def run(mesh: dist.Mesh | None) -> list[float]:
        model, optimizer, _, losses = staged.trainer(mesh)
        found = losses(3)
        if isinstance(engine, tuple):  # one engine takes what another one has left
            with wg.engine(engine[0]):
                found += losses(2)
                assert mesh is None or isinstance(model[0].weight._array.parts, Rows)
        found += losses(2, wg.ones(8, 6, dtype=wg.float64))
        with pytest.raises(wg.WengertError):
            losses(1, wg.ones(8, 5, dtype=wg.float64))
        found += losses(2)
        new = {name: wg.tensor(0.5 * x.numpy()) for name, x in dist.whole(model.state_dict()).items()}
        model.load_state_dict(new)
        if mesh is not None:
            assert model[0].weight._array.at == ("pipe", 0)  # what is assigned goes where the old value was
        found += losses(2)

        def other(x: Any) -> Any:
            loss = (model(x) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        x = wg.full((8, 6), 0.5, dtype=wg.float64)
        if mesh is not None:  # all but the last layer are at the first place of this one
            stages = [("0", "1", "2", "3", "4", "5"), "6"]
            pipeline = dist.Pipeline("pipe", 2, stages=stages, state="stages")
            other = dist.jit(other, mesh=mesh, in_specs=(None,), pipeline=pipeline)
        found += [float(other(x)) for _ in range(2)]
        return found + losses(2)

    with wg.engine(engine if isinstance(engine, str) else engine[1]):
        np.testing.assert_allclose(run(PIPES), run(None), rtol=1e-12)


def test_state_at_the_stages_is_joined_for_other_programs() -> None:
    model, *_, losses = staged.trainer(PIPES)
    losses(1)
    x = wg.ones(8, 6, dtype=wg.float64)
    model.eval()
    expected = float(dist.whole(model)(x).sum())
    found = dist.jit(lambda x: model(x).sum(), mesh=PIPES, in_specs=(None,))(x)
    np.testing.assert_allclose(float(found), expected, rtol=1e-12)
    assert model[0].weight._array.at == ("pipe", 0)  # which only read it
    # A pipeline that only reads it takes it where it is.
    evaluate = dist.jit(lambda x: model(x).sum(), mesh=PIPES, in_specs=(None,), pipeline=dist.Pipeline("pipe", 4))
    np.testing.assert_allclose(float(evaluate(x)), expected, rtol=1e-12)
    with pytest.raises(wg.GraphError, match="state='nowhere'"):
        dist.Pipeline("pipe", 4, state="nowhere")


BY_MPI = pytest.mark.skipif(bool(lack()), reason=f"there is no {lack()}")


@pytest.mark.parametrize("engine", ["simulate", pytest.param("mpi", marks=BY_MPI), *ENGINES[1:]])
def test_state_at_the_stages_is_saved_by_who_has_it(engine: str, tmp_path: Any) -> None:
    """Written by two ranks, and read by two, by four, and by one process: all go on alike."""
    model, *_, losses = staged.trainer(None)
    expected, whole = losses(6), sum(p._array.nbytes for p in model.parameters())
    rows = dist.run(staged.saved_in_the_middle, 2, str(tmp_path), {"pipe": 2}, 3, 3, engine=engine)
    for found, nbytes in rows:
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert nbytes < whole
    assert sum(nbytes for _, nbytes in rows) == whole
    for mesh in ({"pipe": 2}, {"data": 2, "pipe": 2})[: 1 if engine == "xla" else None]:
        for found in dist.run(staged.gone_on, dist.Mesh(mesh).size, str(tmp_path), mesh, 3, engine=engine):
            np.testing.assert_allclose(found, expected[3:], rtol=1e-12)
    np.testing.assert_allclose(staged.gone_on(str(tmp_path), None, 3), expected[3:], rtol=1e-12)


@pytest.mark.parametrize("engine", ["one process", "simulate", pytest.param("mpi", marks=BY_MPI), *ENGINES[1:]])
@pytest.mark.parametrize("plan", ["data", "fsdp", "pipeline"])
def test_decisions_by_values_of_parameters_in_parts(plan: str, engine: str) -> None:
    """While a step is traced its decisions are computed from whole values, which all ranks join."""
    expected = staged.deciding("")
    assert any(a < 0.1 < b for a, b in itertools.pairwise(expected))
    assert any(a > 0.1 > b for a, b in itertools.pairwise(expected))
    if engine == "simulate" and plan != "data":  # of simulated ranks one traces at a time
        with pytest.raises(wg.DTypeError, match=r"a decision of .*0\.weight"):
            dist.run(staged.deciding, 2, plan, engine=engine)
        return
    rows = [staged.deciding(plan)] if engine == "one process" else dist.run(staged.deciding, 2, plan, engine=engine)
    for found in rows:
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_recomputed_activations_and_half_precision() -> None:
    def losses(mesh: dist.Mesh | None, recompute: bool, half: bool) -> list[float]:
        wg.manual_seed(0)
        model = chain().to(wg.float64)
        optimizer = wg.optim.Adam(model.parameters(), lr=1e-2)

        def step(x: Any) -> Any:
            with wg.autocast("bfloat16", enabled=half):
                y = x
                for block in model:
                    y = wg.checkpoint(block)(y) if recompute else block(y)
                loss = (y**2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        if mesh is not None:
            step = dist.jit(step, mesh=mesh, in_specs=(None,), pipeline=dist.Pipeline("pipe", 4))
        x = wg.randn(8, 16, dtype=wg.float64)
        return [float(step(x)) for _ in range(4)]

    for recompute, half in ((True, False), (False, True), (True, True)):
        rtol = 1e-2 if half else 1e-12
        np.testing.assert_allclose(losses(dist.Mesh(pipe=2), recompute, half), losses(None, recompute, half), rtol=rtol)


def test_functions() -> None:
    def step(w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            y = x
            for u in w["layers"]:
                y = wg.tanh(y @ u)
            return (y @ w["last"]).mean()

        value, g = wg.value_and_grad(loss)(w)
        return value, wg.tree.map(lambda w, g: w - 0.1 * g, w, g)

    rng = np.random.default_rng(0)
    w = {"layers": [rng.normal(size=(6, 6)) for _ in range(3)], "last": rng.normal(size=(6, 2))}
    w, x = wg.tree.map(wg.tensor, w), wg.tensor(rng.normal(size=(8, 6)))
    mesh = dist.Mesh(pipe=2, data=2)
    f = dist.partition(step, mesh, (None, "data"), pipeline=dist.Pipeline("pipe", 2, batch=(None, 0)))
    for found, expected in zip(wg.tree.leaves(f(w, x)), wg.tree.leaves(step(w, x)), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
    assert len({t.place for t in f.lower(w, x).tasks.tasks if t.phase is Phase.FORWARD}) == 2
    with pytest.raises(wg.GraphError, match="which does not say what the batch is"):
        dist.partition(step, mesh, (None, "data"), pipeline=dist.Pipeline("pipe", 2))


def on_a_rank() -> Any:
    """What each rank of a job has after two steps, by a model that draws nothing."""
    return meshes.losses("experts", "pipeline", 2, 2)


def test_ranks_that_can_but_meet() -> None:
    found = dist.simulate(dist.Mesh(pipe=2)).run(on_a_rank)
    assert found[0] == found[1]
    np.testing.assert_allclose(found[0], meshes.losses("experts", steps=2), rtol=1e-12)


def test_the_program_on_microbatches_is_the_program() -> None:
    """The graph on all microbatches, run by itself, is one process that accumulates gradients."""
    wg.manual_seed(0)
    model = chain().to(wg.float64)
    step = trained(model, dist.Mesh(pipe=1), dist.Pipeline("pipe", 4))
    x = wg.randn(8, 16, dtype=wg.float64)
    before = [p.detach().numpy().copy() for p in model.parameters()]
    loss = step(x)
    program = step.partitions[-1]
    feeds = []
    for node in program.graph.inputs:
        name = node.attrs["name"]
        found = dict(zip((f"model.{n}" for n, _ in model.named_parameters()), before))
        feeds.append(found.get(name, x.numpy() if name == "x" else np.zeros(node.spec.shape, node.spec.dtype)))
    values = run(program.graph, feeds)
    assert any(np.allclose(v, float(loss), rtol=1e-12) for v in values if np.shape(v) == ())


def test_what_is_refused() -> None:
    mesh, x = dist.Mesh(pipe=2), wg.randn(8, 16)
    with pytest.raises(wg.GraphError, match="micro=0"):
        dist.Pipeline("pipe", 0)
    with pytest.raises(wg.GraphError, match="schedule='2f2b'"):
        dist.Pipeline("pipe", 2, "2f2b")
    with pytest.raises(wg.GraphError, match="an axis 'stage' of Mesh"):
        trained(chain(), mesh, dist.Pipeline("stage", 2))
    with pytest.raises(wg.GraphError, match="3 stages over 'pipe', an axis of 2 ranks, in 1 laps"):
        trained(chain(), mesh, dist.Pipeline("pipe", 2, stages=["0", "1", "2"]))
    with pytest.raises(wg.ShapeError, match=r"x, \(8, 16\) float32 on a rank, in 3 microbatches .* no multiple of 3"):
        trained(chain(), mesh, dist.Pipeline("pipe", 3))(x)
    with pytest.raises(wg.GraphError, match="none of whose inputs is cut"):
        trained(chain(), mesh, dist.Pipeline("pipe", 2, batch=(None,)))(x)
    with pytest.raises(wg.GraphError, match="split over 'pipe', the axis of a pipeline"):
        trained(chain(), mesh, dist.Pipeline("pipe", 2), ("pipe",))(x)
    with pytest.raises(wg.GraphError, match=r"stage 1 of a pipeline, \['blocks.\*'\], fits no module"):
        trained(chain(), mesh, dist.Pipeline("pipe", 2, stages=["0", "blocks.*"]))(x)
    with pytest.raises(wg.GraphError, match=r"in '1.0' is of stage 0, and takes what .* of stage 1 gives") as caught:
        trained(chain(), mesh, dist.Pipeline("pipe", 2, stages=["1", "0"]))(x)
    assert "networks.py" in str(caught.value)


@pytest.mark.parametrize("axes", [{"pipe": 2}, {"pipe": 2, "data": 2}], ids=["alone", "beside data"])
def test_errors_name_ranks_of_the_whole_mesh(axes: dict[str, int]) -> None:
    wg.manual_seed(0)
    model = small_networks.tower(2, 4)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    step = small_networks.training(model, optimizer, nn.functional.cross_entropy)

    mesh = wg.distribute.Mesh(**axes)
    spec = "data" if "data" in axes else None
    run = wg.distribute.jit(step, mesh=mesh, in_specs=(spec, spec), pipeline=wg.distribute.Pipeline("pipe", micro=2))
    labels = np.zeros(8, np.int64)
    labels[-1] = 77
    with pytest.raises(wg.RangeError, match="target 77") as caught:
        run(wg.ones(8, 4), wg.asarray(labels))
    last = {k: n - 1 for k, n in axes.items()}
    assert any(f"raised on rank {mesh.rank(last)} of {mesh}" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("state", ["everywhere", "stages"])
@pytest.mark.parametrize("axes", [{"pipe": 2}, {"pipe": 2, "data": 2}], ids=["alone", "beside data"])
def test_budgets_of_memory(axes: dict[str, int], state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A task has what is left beside what its place keeps, and computes the same."""
    made_of = []
    real = stages.executor

    def noted(graph: Any, donated: Any = None, limit: Any = None, **options: Any) -> Any:
        made = real(graph, donated, limit, **options)
        made_of.append((made, limit))
        return made

    monkeypatch.setattr(stages, "executor", noted)
    mesh = wg.distribute.Mesh(**axes)

    def work(memory: Any, spill: Any = False) -> list[float]:
        wg.manual_seed(0)
        layers = (small_networks.tower(6, 16) for _ in range(2))
        model = nn.Sequential(*layers)
        optimizer = wg.optim.AdamW(model.parameters(), lr=0.01)

        step = small_networks.training(model, optimizer)

        spec = "data" if "data" in axes else None
        pipeline = wg.distribute.Pipeline("pipe", micro=2, state=state)
        options = {"mesh": mesh, "in_specs": (spec,), "pipeline": pipeline, "memory": memory, "spill": spill}
        run = wg.distribute.jit(step, **options)
        x = wg.tensor(np.random.default_rng(0).normal(size=(2048, 16)).astype(np.float32))
        return [float(run(x)) for _ in range(3)]

    simulated = wg.distribute.simulate(mesh).run
    free = simulated(work, None)[0]
    made_of.clear()
    for spill in (False, str(tmp_path)):
        for each in (work, lambda *args: simulated(work, *args)[0]):
            made_of.clear()
            found = each("1100kB", spill)
            assert all(e.memory.growth <= limit.nbytes <= 1_100_000 for e, limit in made_of)
            assert any(limit.nbytes < 1_100_000 for _, limit in made_of)
            np.testing.assert_allclose(found, free, rtol=1e-6)
    with pytest.raises(
        wg.GraphError, match=r"within 1,000 bytes: place 0 keeps [\d,]+ bytes of values between its tasks"
    ):
        work("1kB")


def test_tasks_that_cannot_be_compiled_are_told_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = stages.executor, [0]

    def failing(*args: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] % 2 == 0:
            raise wg.GraphError("no code for this task")
        return real(*args, **options)

    monkeypatch.setattr(stages, "executor", failing)
    mesh = wg.distribute.Mesh(pipe=1)

    def work() -> list[str]:
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

        def loss(x: Any) -> Any:
            found = (model(x) ** 2).mean()
            model.zero_grad()
            found.backward()
            return found

        run = wg.distribute.jit(loss, mesh=mesh, in_specs=(None,), pipeline=wg.distribute.Pipeline("pipe", micro=2))
        told = []
        for _ in range(2):
            with pytest.raises(wg.GraphError) as caught:
                run(wg.ones(8, 4))
            told.append(str(caught.value))
        return told

    assert wg.distribute.simulate(mesh).run(work)[0] == ["no code for this task"] * 2
