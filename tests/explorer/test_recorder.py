"""The recorder: what is written down in all the ways in which programs run, and that nothing changes by it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn, optim
from wengert.core.node import Node
from wengert.core.ops.op import TABLE
from wengert.execute.jit.jit import Jit
from wengert.explain.observing.events import observed
from wengert.explorer import explore
from wengert.explorer.api import record_call
from wengert.explorer.recording.recorder import MOST_PASSES, Recorder
from wengert.explorer.recording.recording import Recording, Row
from wengert.explorer.recording.script import record_script
from wengert.optim.optimizer import Optimizer
from wengert.transforms.derivatives import reverse

POINTS = np.linspace(0.1, 1.0, 6).reshape(2, 3)


def record(fn: Any, *args: Any, step: int | None = None) -> Recording:
    return record_call(fn, args, {}, step)


def ops(recording: Recording) -> list[str]:
    return [row.op.name for row in recording.rows if row.op is not None]


def phases(recording: Recording) -> list[tuple[str, str]]:
    return [(e.phase, e.row.op.name if e.row.op is not None else e.row.name) for e in recording.events]


def named(recording: Recording, name: str) -> Row:
    return next(row for row in recording.rows if row.name == name)


# -- nothing changes


def step(model: nn.Module, optimizer: Optimizer, x: Any) -> Any:
    loss = (model(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def trained(recorded: bool) -> tuple[list[Any], list[float]]:
    wg.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 1))
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    x = wg.tensor(POINTS.astype(np.float32))
    losses: list[float] = []

    def run() -> None:
        losses.extend(step(model, optimizer, x).item() for _ in range(4))

    if recorded:
        record(run)
    else:
        run()
    return [p.detach().numpy().copy() for p in model.parameters()], losses


def test_a_recorded_program_computes_the_same() -> None:
    plain, watched = trained(False), trained(True)
    assert plain[1] == watched[1]
    for a, b in zip(plain[0], watched[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_afterwards_everything_is_as_it_was() -> None:
    def state() -> list[Any]:
        return [
            *(op.forward for op in TABLE.values()),
            *(getattr(op.front, "__globals__", {}).get("forward") for op in TABLE.values() if hasattr(op, "front")),
            Optimizer.step, Optimizer._step_one, reverse._walk, reverse.pull_node, Jit.__call__, Node.__init__,
            wg.Tensor.__getitem__, wg.Tensor.item,
        ]  # fmt: skip

    before = state()
    record(lambda x: wg.sin(x).sum(), POINTS)
    with pytest.raises(KeyError), Recorder().recording():
        raise KeyError
    assert all(a is b for a, b in zip(before, state(), strict=True))
    assert "__init__" not in Node.__dict__


def test_a_compiled_function_is_quick_again_afterwards() -> None:
    double = wg.jit(lambda x: x * 2.0)
    x = wg.tensor(POINTS)
    for _ in range(3):
        double(x)
    record(lambda v: double(v).sum(), POINTS)
    np.testing.assert_array_equal(double(x).numpy(), POINTS * 2)


def test_a_pass_has_its_forward_pass_though_a_step_lies_between() -> None:
    """A generator's output is made before the critic's step, and a second loss before the first one's pass."""
    g, d = (wg.tensor([0.5, 2.0], requires_grad=True) for _ in range(2))
    critic, maker = wg.optim.SGD([d], lr=0.1), wg.optim.SGD([g], lr=0.1)

    def train() -> None:
        for _ in range(3):
            fake = wg.tanh(g * 2.0)
            critic.zero_grad()
            (fake.detach() * d).sum().backward()
            critic.step()
            maker.zero_grad()
            (fake * d).sum().backward()
            maker.step()

    recording = record(train)
    assert ops(recording) == ["multiply", "tanh", "multiply", "sum"]
    assert recording.rows[[r.op is not None for r in recording.rows].index(True)].operands[0] is named(recording, "g")
    assert recording.started <= recording.events[0].start

    def two() -> None:
        first, second = (g * 3.0).sum(), (wg.exp(d) * 2.0).sum()
        first.backward()
        second.backward()

    g.grad = d.grad = None
    assert ops(record(two)) == ["exp", "multiply", "sum"]


def test_no_gradient_is_filled() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    recording = record(lambda: (w * w).sum())
    assert w.grad is None
    np.testing.assert_array_equal(named(recording, "w").gradient, [2.0, 4.0])


def test_one_recording_at_a_time() -> None:
    first, second = Recorder(), Recorder()
    with first.recording(), pytest.raises(wg.GraphError, match="a recording inside of another"), second.recording():
        pass


def test_explain_watches_inside_of_a_recording() -> None:
    seen = []

    def run(x: Any) -> Any:
        y = wg.sin(x)
        with observed() as inner:
            z = wg.cos(y)
        seen.extend(s.op.name for s in inner.steps)
        return z.sum()

    recording = record(run, POINTS)
    assert seen == ["cos"]
    assert "sin" in ops(recording)


# -- what is written down


def test_values_inputs_and_gradients() -> None:
    recording = record(lambda x, y: (x * y + 2.0).sum(), POINTS, POINTS + 1)
    x, y = recording.rows[:2]
    assert (x.name, y.name, x.kind) == ("x", "y", "input")
    np.testing.assert_array_equal(x.gradient, POINTS + 1)
    np.testing.assert_array_equal(y.gradient, POINTS)
    product = next(r for r in recording.rows if r.op is TABLE["multiply"])
    np.testing.assert_array_equal(product.value, POINTS * (POINTS + 1))
    np.testing.assert_array_equal(product.left[0], POINTS + 1)
    assert product.operands == [x, y]
    total = next(r for r in recording.rows if r.op is TABLE["add"])
    assert total.literals == {1: 2.0}


def test_times_go_forward() -> None:
    recording = record(lambda x: wg.tanh(x @ x.mT).sum(), POINTS)
    starts = [e.start for e in recording.events]
    assert starts == sorted(starts)
    assert all(e.end >= e.start >= recording.started for e in recording.events)
    assert recording.seconds is not None
    assert recording.events[-1].end - recording.started <= recording.seconds


def test_what_carries_no_gradient_is_there_where_it_is_needed() -> None:
    recording = record(lambda x: wg.where(x > 0.5, x, wg.sqrt(x)).sum(), POINTS)
    assert ops(recording) == ["greater", "sqrt", "where", "sum"]
    where = recording.rows[3]
    assert [r.op.name if r is not None and r.op is not None else "x" for r in where.operands] == [
        "greater",
        "x",
        "sqrt",
    ]


@pytest.mark.parametrize("late", [False, True])
def test_a_leaf_is_one_row_whoever_comes_first(late: bool) -> None:
    def run(x: Any) -> Any:
        first = x * 2.0 if late else x > 0.5
        second = x > 0.5 if late else x * 2.0
        return wg.where(first if not late else second, second if not late else first, 0.0).sum()

    recording = record(run, POINTS)
    (leaf,) = [r for r in recording.rows if r.op is None]
    assert leaf.kind == "input"
    assert leaf.tracked
    np.testing.assert_array_equal(leaf.gradient, np.where(POINTS > 0.5, 2.0, 0.0))


def test_products_of_matrices_and_vectors() -> None:
    a, v = POINTS[:, :2].copy(), POINTS[0, :2].copy()
    recording = record(lambda a, v: (a @ a).sum() + (a @ v).sum() + (v @ a).sum() + v @ v, a, v)
    products = [n for n in ops(recording) if n in ("matmul", "matvec", "vecmat", "dot")]
    assert products == ["matmul", "matvec", "vecmat", "dot"]
    assert all(r.value is not None for r in recording.rows)


def test_indexing_and_assignment() -> None:
    def run(x: Any) -> Any:
        y = x * 1.0
        y[0] = 5.0
        return y[1].sum() + y[[0, 1], [1, 2]].sum()

    recording = record(run, POINTS)
    assert {"slice_update", "slice", "index"} <= set(ops(recording))
    np.testing.assert_array_equal(recording.rows[0].gradient, [[0, 0, 0], [1, 1, 2]])


def test_several_results() -> None:
    recording = record(lambda x: wg.linalg.svd(x, full_matrices=False)[1].sum(), POINTS)
    assert ops(recording)[:2] == ["svd", "output"]
    svd = recording.rows[1]
    assert isinstance(svd.value, tuple)
    assert len(svd.value) == 3


def test_an_exception_ends_the_recording() -> None:
    def run(x: Any) -> Any:
        wg.exp(x)
        raise ValueError("no more")

    recording = record(run, POINTS)
    assert isinstance(recording.error, ValueError)
    assert ops(recording) == ["exp"]


def test_an_exception_in_a_backward_pass() -> None:
    @wg.custom_vjp
    def broken(x: Any) -> Any:
        return x * 2.0

    def refuse(residuals: Any, ct: Any) -> Any:
        raise ValueError("no gradient")

    broken.defvjp(lambda x: (x * 2.0, None), refuse)
    recording = record(lambda x: wg.sin(broken(x)).sum(), POINTS)
    assert isinstance(recording.error, ValueError)
    assert [e.phase for e in recording.events].count("backward") == 2


def test_generators() -> None:
    def steps(x: Any) -> Iterator[Any]:
        for _ in range(3):
            x = x * 2.0
            yield x

    def run(x: Any) -> Any:
        total = 0.0
        for value in steps(x):
            total = total + value.sum()
        return total

    recording = record(run, POINTS)
    assert ops(recording).count("multiply") == 3
    callers = {r.activation.parent.at for r in recording.rows if r.op is TABLE["multiply"] and r.activation.parent}
    assert len(callers) == 1


def test_threads() -> None:
    def run(x: Any) -> Any:
        out: list[Any] = [None, None]

        def work(i: int) -> None:
            out[i] = (x * float(i + 2)).sum()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return out[0] + out[1]

    recording = record(run, POINTS)
    assert sorted(ops(recording)) == ["add", "multiply", "multiply", "sum", "sum"]
    forward = [e for e in recording.events if e.phase == "forward"]
    assert {e.thread for e in forward} == {0, 1, 2}
    np.testing.assert_array_equal(recording.rows[0].gradient, np.full((2, 3), 5.0))


def test_a_threads_watcher_is_not_taken_for_the_next_recording() -> None:
    go, done = threading.Event(), threading.Event()
    out: list[Any] = []

    def worker() -> None:
        for _ in range(2):
            go.wait()
            go.clear()
            out.append(wg.sin(wg.tensor(POINTS, requires_grad=True)))
            done.set()

    def run() -> Any:
        go.set()
        done.wait()
        done.clear()
        return out[-1].sum()

    thread = threading.Thread(target=worker)
    thread.start()
    assert [ops(record(run)) for _ in range(2)] == [["sin", "sum"]] * 2
    thread.join()


def test_a_recorded_backward_pass_is_made_of_operations() -> None:
    def run(x: Any) -> Any:
        (slope,) = wg.autograd.grad((x**3).sum(), [x], create_graph=True)
        return (slope * slope).sum()

    recording = record(run, POINTS)
    np.testing.assert_allclose(recording.rows[0].gradient, 36 * POINTS**3, rtol=1e-12)
    (root,) = recording.roots
    assert root.op is TABLE["sum"]
    np.testing.assert_allclose(recording.roots[0].value, (9 * POINTS**4).sum())


def test_a_checkpoint_computes_again() -> None:
    recording = record(lambda x: wg.checkpoint(lambda v: wg.sin(wg.exp(v) * v))(x).sum(), POINTS)
    assert ops(recording) == ["exp", "multiply", "sin", "sum"]
    again = [name for phase, name in phases(recording) if phase == "recompute"]
    assert again == ["exp", "multiply"]


def test_a_compiled_function_is_seen_inside() -> None:
    double = wg.jit(lambda x: wg.sin(x) * 2.0)
    for _ in range(3):
        double(wg.tensor(POINTS))
    recording = record(lambda x: double(x).sum(), POINTS)
    assert ops(recording) == ["sin", "multiply", "sum"]


def test_a_users_rule_is_one_operation() -> None:
    @wg.custom_vjp
    def cube(x: Any) -> Any:
        return x * x * x

    cube.defvjp(lambda x: (cube(x), x), lambda x, ct: (3.0 * x * x * ct,))
    recording = record(lambda x: (cube(x) * 2.0).sum(), POINTS)
    assert ops(recording)[0] == "cube"
    np.testing.assert_allclose(recording.rows[0].gradient, 6 * POINTS**2)


# -- steps


def training(steps: int) -> tuple[Any, list[float]]:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    losses: list[float] = []

    def run() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = ((w * 3.0 - 1.0) ** 2).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        (w * 100.0).sum()  # a look at the result

    return run, losses


@pytest.mark.parametrize("wanted", [None, 0, 2, 4])
def test_one_step_is_kept(wanted: int | None) -> None:
    run, losses = training(5)
    recording = record(run, step=wanted)
    assert recording.step == (4 if wanted is None else wanted)
    assert float(recording.roots[0].value) == losses[recording.step]
    assert ops(recording) == ["multiply", "subtract", "pow", "sum"]
    assert phases(recording)[-1] == ("optimizer", "w")
    (update,) = [e.updated for e in recording.events if e.updated is not None]
    np.testing.assert_allclose(update.before - 0.1 * update.gradient, update.after, rtol=1e-6)


def test_a_long_run_does_not_pile_up() -> None:
    run, _ = training(300)
    recorder = Recorder()
    with recorder.recording():
        run()
    assert sum(len(t.entries) for t in recorder.tapes) < 60
    assert recorder.steps == 299


@pytest.mark.parametrize("cleared", [True, False])
def test_updates_by_hand_end_steps(cleared: bool) -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    def run() -> None:
        for _ in range(4):
            (w * w).sum().backward()
            with wg.no_grad():
                w.assign_(w - 0.1 * w.grad)
            if cleared:
                w.grad = None

    recording = record(run)
    assert recording.step == 3
    assert ops(recording) == ["multiply", "sum"]


def test_passes_that_add_up_are_one_step() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)

    def run() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            for k in (1.0, 2.0):
                (w * k).sum().backward()
            optimizer.step()

    recording = record(run)
    assert (recording.passes, recording.step) == (2, 2)
    np.testing.assert_array_equal(named(recording, "w").gradient, [3.0, 3.0])


def test_a_run_that_fails_shows_the_step_in_which_it_did() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)

    def run() -> None:
        for i in range(3):
            loss = (w * w).sum()
            if i == 2:
                wg.exp(w) @ wg.ones((3, 3))
            loss.backward()
            optimizer.step()

    recording = record(run)
    assert isinstance(recording.error, wg.ShapeError)
    assert ops(recording) == ["multiply", "sum", "exp"]
    assert recording.step == 2


# -- tensors and graphs


@pytest.mark.parametrize("freed", [False, True])
def test_a_tensors_graph_is_replayed(freed: bool) -> None:
    w = wg.tensor(POINTS, requires_grad=True)
    y = (wg.sin(w) * w).sum()
    if freed:
        y.backward()
    before = None if w.grad is None else w.grad.numpy().copy()
    found = explore(y, compiled=False).recording
    assert ops(found) == ["sin", "multiply", "sum"]
    np.testing.assert_allclose(named(found, "w").gradient, np.cos(POINTS) * POINTS + np.sin(POINTS))
    if before is None:
        assert w.grad is None
    else:
        assert w.grad is not None
        np.testing.assert_array_equal(w.grad.numpy(), before)


def test_what_cannot_be_explored() -> None:
    with pytest.raises(wg.DTypeError, match="explore: a int"):
        explore(3)
    with pytest.raises(wg.GradientError, match="without a graph"):
        explore(wg.tensor(1.0))
    with pytest.raises(wg.FeedError):
        explore(wg.graph(lambda x: x * 2.0)(wg.spec((2,))), np.ones(3, np.float32)).recording.error


def test_a_graph_with_parameters_names_them() -> None:
    layer = nn.Linear(3, 2)
    graph = wg.graph(lambda x: layer(x).sum())(wg.spec((4, 3)))
    names = [r.name for r in explore(graph, np.ones((4, 3), np.float32), compiled=False).recording.rows[:3]]
    assert names[0] == "x"


# -- scripts


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "program.py"
    path.write_text(text)
    return path


def test_a_script_runs_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("scale = 3.0\n")
    path = write(
        tmp_path,
        "import sys, os\nimport wengert as wg\nimport beside\nassert __name__ == '__main__'\n"
        "assert sys.argv[1:] == ['--fast'] and sys.argv[0] == __file__\n"
        "place = os.getcwd()\n"
        "w = wg.tensor([1.0, 2.0], requires_grad=True)\n(w * beside.scale).sum().backward()\n",
    )
    before = sys.argv, list(sys.path), sys.modules["__main__"], os.getcwd()
    recording = record_script(path, argv=["--fast"])
    assert recording.error is None
    assert (sys.argv, sys.path, sys.modules["__main__"], os.getcwd()) == before
    np.testing.assert_array_equal(named(recording, "w").gradient, [3.0, 3.0])
    assert recording.script == "program.py"
    del sys.modules["beside"]


@pytest.mark.parametrize(("ending", "failed"), [("sys.exit()", False), ("sys.exit(0)", False), ("sys.exit(3)", True)])
def test_exit(tmp_path: Path, ending: str, failed: bool) -> None:
    path = write(tmp_path, f"import sys\nimport wengert as wg\nwg.sin(wg.tensor(1.0, requires_grad=True))\n{ending}\n")
    recording = record_script(path)
    assert isinstance(recording.error, SystemExit) == failed
    assert ops(recording) == ["sin"]


def test_a_function_of_a_script(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "import wengert as wg\nw = wg.tensor([1.0, 2.0], requires_grad=True)\n(w * 5.0).sum()\n"
        "def main():\n    wg.sin(w).sum().backward()\n",
    )
    recording = record_script(path, "main")
    assert ops(recording) == ["sin", "sum"]
    assert recording.title == "main()"
    with pytest.raises(wg.GraphError, match="has no function 'other'"):
        record_script(path, "other")


def test_scripts_that_cannot_run(tmp_path: Path) -> None:
    with pytest.raises(wg.GraphError, match="the script"):
        record_script(tmp_path / "absent.py")
    with pytest.raises(wg.GraphError, match="the script"):
        record_script(write(tmp_path, "def f(:\n"))


def test_gradients_that_add_up_without_end_do_not_pile_up() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    recorder = Recorder()
    with recorder.recording():
        for _ in range(3 * MOST_PASSES):
            (w * w).sum().backward()
    assert recorder.steps == 2
    assert sum(len(t.entries) for t in recorder.tapes) < 20 * MOST_PASSES
