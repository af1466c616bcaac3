"""What it costs to plan a program, in calls of functions, and what is kept of how it was planned."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from wengert.core.graph.graph import Graph
from wengert.execute.native.codegen import object_cache
from wengert.execute.native.compile import Compiled, compile_graph
from wengert.execute.native.fuse.groups import Grouping
from wengert.execute.native.lower import GraphLowering
from wengert.passes.origins import Origins


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "is_on", lambda: False)


def calls_of(run: Callable[[], Any]) -> int:
    """Return how many Python functions a call of `run` calls."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def orbit(steps: int) -> Graph:
    """Return the gradient of a loop whose every step reads the same numbers."""

    def f(p: Any) -> Any:
        u, total = p, 0.0
        for _ in range(steps):
            u = u + 0.01 * wg.stack([p[0] * (u[1] - u[0]), u[0] * (p[1] - u[2]) - u[1], u[0] * u[1] - p[2] * u[2]])
            total = total + u[0] * u[0]
        return total

    return wg.graph(wg.grad(f))(wg.spec((3,)))


def rows(steps: int) -> Graph:
    """Return the gradient of a recurrent network."""

    def f(w: Any, x: Any) -> Any:
        h = x
        for _ in range(steps):
            h = wg.tanh(h @ w + x)
        return (h * h).sum()

    return wg.graph(wg.grad(f))(wg.spec((8, 8)), wg.spec((4, 8)))


PROGRAMS = pytest.mark.parametrize("program", [orbit, rows])


# The most calls for a node: what planning costs may fall, and does not rise unseen.
@pytest.mark.parametrize(("program", "most"), [(orbit, 240), (rows, 780)])
def test_a_longer_loop_costs_as_many_calls_a_step(program: Callable[[int], Graph], most: int) -> None:
    graphs = [program(n) for n in (20, 40, 80, 160)]
    compile_graph(graphs[0])
    at_20, at_40, at_80, at_160 = (calls_of(lambda g=g: compile_graph(g)) for g in graphs)
    assert at_160 - at_80 < 1.01 * 2 * (at_80 - at_40), (at_20, at_40, at_80, at_160)
    assert at_160 < most * len(graphs[-1])


@PROGRAMS
def test_a_longer_loop_has_the_same_kernels(program: Callable[[int], Graph]) -> None:
    few, many = (len(compile_graph(program(n)).kernels) for n in (40, 100))  # loops are found in longer graphs
    assert many <= few + 4


def test_no_rule_is_tried_on_a_graph_without_its_ops() -> None:
    graph = orbit(4)
    rules = wg.passes.RuleSet([wg.passes.Rule("never", frozenset({"cosh"}), lambda node: None)])
    assert wg.passes.rewrite(graph, rules) is graph
    assert calls_of(lambda: wg.passes.rewrite(graph, rules)) < len(graph)


def test_a_program_lets_go_of_how_it_was_planned() -> None:
    def kept() -> int:
        gc.collect()
        return sum(isinstance(o, (Grouping, GraphLowering, Origins)) for o in gc.get_objects())

    before = kept()
    compiled = compile_graph(rows(3))
    arrays = [np.full(n.spec.shape, 0.5, n.spec.dtype) for n in compiled.graph.inputs]
    results = compiled.run(arrays)
    assert kept() == before
    assert not any(step.nodes for step in compiled.program.plan.steps)
    # Who asks is told, of the program that ran.
    assert compiled.grouping.group.keys() <= set(compiled.optimized.nodes)
    assert any(step.nodes for step in compiled.plan.steps)
    assert all(np.array_equal(a, b) for a, b in zip(results, compiled.run(arrays), strict=True))


def test_a_new_batch_size_keeps_little() -> None:
    layers = [wg.nn.Linear(8, 8) for _ in range(6)]
    net = wg.nn.Sequential(*(m for layer in layers for m in (layer, wg.nn.ReLU())))

    opt = wg.optim.SGD(net.parameters(), lr=0.01)

    @wg.jit
    def step(x: Any) -> Any:
        loss = (net(x) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    for n in range(2, 6):
        step(wg.ones((n, 8)))
    before = objects()
    sizes = range(10, 18)
    for n in sizes:
        step(wg.ones((n, 8)))
    nodes = len(step.lower(wg.ones((17, 8))).graph)
    assert (objects() - before) / len(sizes) < 8 * nodes


def test_budgets_are_known_without_a_second_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    lowered = Compiled._lowered
    monkeypatch.setattr(Compiled, "_lowered", lambda self, **k: planned.append(1) or lowered(self, **k))
    f = wg.jit(lambda x: wg.exp(x).sum(), memory="1 GB").lower(wg.spec((8,))).compile()
    f(wg.ones(8))
    assert f.budget is not None
    assert len(planned) == 1
