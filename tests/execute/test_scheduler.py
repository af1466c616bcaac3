"""Graphs on several threads: the same numbers, and a trace that could have happened."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.node import Node
from wengert.core.ops.op import Joint, Op
from wengert.core.ops.record import bind

from ..transforms.test_fuzz import F64, seeded


def wide() -> wg.Graph:
    """A diamond with eight branches."""

    def f(x: Any, w: Any) -> Any:
        branches = [wg.tanh(x * float(i + 1)) @ w for i in range(8)]
        total = branches[0]
        for b in branches[1:]:
            total = total + b
        return {"total": total, "first": branches[0], "again": branches[0]}

    return wg.graph(f)(wg.spec((20, 30), F64), wg.spec((30, 10), F64))


def feeds() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(20, 30)), rng.normal(size=(30, 10))]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_gives_the_same(workers: int) -> None:
    graph, inputs = wide(), feeds()
    found, expected = graph.run(inputs, workers=workers), graph(*inputs)
    assert list(found) == list(expected)
    for key in expected:
        np.testing.assert_array_equal(found[key].numpy(), expected[key].numpy())


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_random_graphs_run_the_same(workers: int) -> None:
    for seed in range(40):
        program = seeded(1000 + seed, kinked=True)
        graph = wg.graph(program)(*(wg.spec(s, F64) for s in program.shapes))
        inputs = program.arrays()
        np.testing.assert_array_equal(graph.run(inputs, workers=workers).numpy(), graph(*inputs).numpy())


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_trace_could_have_happened(workers: int) -> None:
    graph = wide()
    _, trace = graph.run(feeds(), workers=workers, trace=True)
    lives = {life.node: life for life in trace.lives}
    assert len(trace.lives) == len(lives)  # every node once
    assert set(lives) == {n for n in graph.nodes if n not in graph.inputs}
    assert trace.workers == workers
    for node, life in lives.items():
        assert 0.0 <= life.waited <= life.ready <= life.started <= life.done <= trace.seconds
        assert 0 <= life.worker < workers
        assert life.name == graph.names[node]
        parents = [lives[e] for e in node.inputs if isinstance(e, Node) and e in lives]
        if parents:
            assert life.waited == min(p.done for p in parents)
            assert life.ready == max(p.done for p in parents)
        else:
            assert life.waited == life.ready == 0.0
    assert [life.done for life in trace.lives] == sorted(life.done for life in trace.lives)
    for worker in range(workers):  # a worker does one thing at a time
        own = sorted((life.started, life.done) for life in trace.lives if life.worker == worker)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(own))


def test_one_worker_keeps_the_order_of_the_graph() -> None:
    graph = wide()
    _, trace = graph.run(feeds(), workers=1, trace=True)
    assert [life.node for life in trace.lives] == [n for n in graph.nodes if n not in graph.inputs]


def test_the_critical_path_is_a_path() -> None:
    _, trace = wide().run(feeds(), workers=2, trace=True)
    path = trace.critical_path()
    assert path[-1].done == max(life.done for life in trace.lives)
    for parent, child in itertools.pairwise(path):
        assert parent.node in child.node.inputs
        assert child.ready == parent.done


def test_the_chart() -> None:
    graph = wide()
    _, trace = graph.run(feeds(), workers=2, trace=True)
    lines = trace.gantt(width=40).splitlines()
    assert str(trace) == trace.gantt()
    assert len(lines) == 1 + len(trace.lives) + 2
    for line, life in zip(lines[1:], trace.lives, strict=False):
        name, chart = line.split("|")[:2]
        assert name.split() == [life.name, life.node.op.name, str(life.worker)]
        assert len(chart) == 40
        assert "#" in chart
        assert set(chart) <= set(" .-#")
    assert [line.split()[:2] for line in lines[-2:]] == [["worker", "0:"], ["worker", "1:"]]
    assert all("busy" in line for line in lines[-2:])


def test_a_graph_without_computations() -> None:
    graph = wg.graph(lambda x: (x, x))(wg.spec((2,)))
    (a, b), trace = graph.run([wg.asarray([1.0, 2.0])], workers=2, trace=True)
    assert a.tolist() == b.tolist() == [1.0, 2.0]
    assert trace.lives == ()
    assert trace.critical_path() == []
    assert "worker 0" in trace.gantt()


def test_inputs_in_every_form() -> None:
    graph = wg.graph(lambda x: x * 2.0)(wg.spec((2,)))
    for inputs in ([wg.ones(2)], (wg.ones(2),), wg.ones(2), np.ones(2, np.float32)):
        assert graph.run(inputs).shape == (2,)
    with pytest.raises(wg.FeedError, match="missing"):
        graph.run([])
    nested = wg.graph(lambda p: p["x"] + p["y"])({"x": wg.spec(()), "y": wg.spec(())})
    assert nested.run([{"x": 1.0, "y": 2.0}]).item() == 3.0
    assert nested.run([1.0, 2.0]).item() == 3.0


def test_tracked_inputs_record_nothing() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    graph = wg.graph(lambda x: x * 2.0)(wg.spec((2,)))
    assert not graph.run([x]).requires_grad


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, None, "2"])
def test_wrong_numbers_of_workers(workers: Any) -> None:
    with pytest.raises(wg.GraphError, match="workers"):
        wide().run(feeds(), workers=workers)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_an_error_in_a_node_stops_the_run(workers: int) -> None:
    graph = wg.graph(lambda x, i: wg.exp(x)[i] + wg.sin(x)[0])(wg.spec((3,)), wg.spec((), wg.int64))
    x = np.float32([0.0, 1.0, 2.0])
    assert graph.run([x, 1], workers=workers).item() == pytest.approx(np.e)
    threads = threading.active_count()
    for _ in range(5):
        with pytest.raises(wg.RangeError) as caught:
            graph.run([x, 7], workers=workers)
        assert "7" in str(caught.value)
        assert __file__ in str(caught.value).partition("\n")[0]
    assert threading.active_count() == threads
    assert graph.run([x, 1], workers=workers).item() == pytest.approx(np.e)


def test_runs_on_several_threads_at_once() -> None:
    graph, inputs = wide(), feeds()
    expected = graph(*inputs)["total"].numpy()
    wrong: list[int] = []

    def work(i: int) -> None:
        runs = (graph.run(inputs, workers=2)["total"].numpy() for _ in range(5))
        wrong.extend(i for found in runs if not np.array_equal(found, expected))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def meeting_graph(meeting: threading.Barrier | threading.Event, branches: int) -> wg.Graph:
    """Branches that each wait outside of Python's lock, for as many as are to meet or for an event; summed up."""

    def forward(x: Any) -> Any:
        meeting.wait()
        return x

    meet = Op("meet(x)", "general", forward, facts=Joint(lambda ct: (ct,)), listed=False)
    meet.infer = lambda x: x

    def f(x: Any) -> Any:
        total = x
        for _ in range(branches):
            total = total + bind(meet, (x,))
        return total

    return wg.graph(f)(wg.spec((2,)))


def test_independent_nodes_run_at_the_same_time() -> None:
    graph = meeting_graph(threading.Barrier(4, timeout=60), 4)
    _, found = graph.run([wg.ones(2)], workers=4, trace=True)
    meetings = [life for life in found.lives if life.node.op.name == "meet"]
    assert len({life.worker for life in meetings}) == 4
    assert max(life.started for life in meetings) < min(life.done for life in meetings)
    _, found = meeting_graph(threading.Barrier(1), 4).run([wg.ones(2)], workers=1, trace=True)
    times = sorted((life.started, life.done) for life in found.lives if life.node.op.name == "meet")
    assert len(times) == 4
    assert all(done <= started for (_, done), (started, _) in itertools.pairwise(times))


def test_an_interrupt_while_workers_are_started_ends_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, started = threading.Event(), []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)
        if len(started) == 2:
            go_on.set()
            raise KeyboardInterrupt

    graph = meeting_graph(go_on, 100)  # waits for the interrupt, and for nothing after it
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        graph.run([wg.ones(2)], workers=4)
    assert len(started) == 2
    assert not any(thread.is_alive() for thread in started)


INTERRUPTED = """
import threading, time
import wengert as wg
from wengert.core.ops.op import Op, Joint
from wengert.core.ops.record import bind

def forward(x):
    if not begun:
        begun.append(True)
        print("ready", flush=True)
    time.sleep(0.05)
    return x

begun = []

slow = Op("slow(x)", "general", forward, facts=Joint(lambda ct: (ct,)), listed=False)
slow.infer = lambda x: x

def f(x):
    for _ in range(10_000):
        x = bind(slow, (x,))
    return x

graph = wg.graph(f)(wg.spec((2,)))
try:
    graph.run([wg.ones(2)], workers=2)
except KeyboardInterrupt:
    while threading.active_count() > 1:
        time.sleep(0.01)
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX does")
def test_control_c_stops_the_workers() -> None:
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    try:
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()  # where its workers go on, they do so for minutes
    assert out == "interrupted\n"
    assert process.returncode == 0
