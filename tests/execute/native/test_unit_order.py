"""Groups of a plan never wait for themselves: what is joined leaves an order in which each comes after what it needs.

A plan whose groups wait for one another has no order: looking for one would not end. So these tests look at the groups
before anything is planned of them.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.graph.evaluate import run
from wengert.core.graph.graph import Graph
from wengert.core.node import Node

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from wengert.execute.native.codegen import machine
from wengert.execute.native.compile import compile_graph
from wengert.execute.native.fuse import unit_order
from wengert.execute.native.fuse.groups import Grouping
from wengert.execute.native.fuse.unit_order import UnitOrder
from wengert.execute.native.lower import GraphLowering
from wengert.execute.native.rewrite.canonical import canonical


def is_cyclic(units: Iterable[Any], needs: Callable[[Any], Iterable[Any]]) -> bool:
    """Whether a unit needs itself, through others or at once."""
    left = {unit: set(needs(unit)) for unit in units}
    while left:
        ready = [unit for unit, needed in left.items() if not needed & left.keys()]
        if not ready:
            return True
        for unit in ready:
            del left[unit]
    return False


def units_wait(graph: Graph, grouping: Grouping) -> bool:
    """Whether a group, or a product with what follows it, waits for itself: told from the nodes that each reads."""

    def unit(node: Node) -> Any:
        group = grouping.group.get(node)
        return node if group is None else group.anchor or group

    needs: dict[Any, set[Any]] = {}
    for node in graph.nodes:
        own = needs.setdefault(unit(node), set())
        if node not in grouping.group:
            own.update(unit(e) for e in node.inputs if isinstance(e, Node))
    for group in grouping.all():
        own = needs[group.anchor or group]
        own.update(unit(base) for base in group.operands)
        own.discard(group.anchor)
    return is_cyclic(needs, needs.__getitem__)


def grouped(graph: Graph) -> tuple[Graph, Grouping]:
    """The form of a graph that is planned, and its groups, products having what follows them."""
    made = canonical(graph)
    return made, GraphLowering(made, machine.host(), [False] * len(made.inputs)).grouping


def check(f: Callable[..., Any], *shapes: tuple[int, ...]) -> Graph:
    """No group waits for itself, and the results are the interpreter's; the graph that is planned."""
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype(np.float32) + 2 for shape in shapes]
    graph = wg.graph(f)(*args)
    planned, grouping = grouped(graph)
    assert not units_wait(planned, grouping)
    expected = run(graph, [a.copy() for a in args])
    for got, want in zip(compile_graph(graph).run(args), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)
    return planned


def test_a_late_scale_joined_with_early_sums() -> None:
    """`x * sqrt(s)` is computed with the sums of x, and may not wait for anything that needs these."""

    def f(x: Any, s: Any) -> Any:
        spread = x.var(0)
        return x * wg.sqrt(spread), x * wg.sqrt(s), s + spread

    check(f, (8, 4), (4,))


def test_two_scales_and_their_updates() -> None:
    def f(x: Any, c: Any, s: Any) -> Any:
        mean, spread = x.mean(0), x.var(0)
        return (x - mean) * wg.sqrt(spread), (x - c) * wg.sqrt(s), c + mean, s + spread

    check(f, (8, 4), (4,), (4,))


def test_what_follows_a_product_needs_nothing_that_needs_the_product() -> None:
    """The scale is early in the graph, but is made of a sum that is computed together with what needs the product."""

    def f(x: Any, w: Any) -> Any:
        scale = wg.sqrt((x * x).sum(0))
        product = x @ w
        return scale + 1, x * wg.sort(product, 0)[0], product * scale

    check(f, (40, 24), (24, 24))


_WRITING = """
import numpy as np
import wengert as wg

def scaled():
    s = wg.ones(4)
    def f(x):
        y, spread = x * wg.sqrt(s), x.var(0)
        s.add_(spread)
        return x * wg.sqrt(spread), y
    return f, lambda: s

def normalised():
    layer = wg.nn.BatchNorm1d(4)
    def f(x):
        layer.eval()
        y = layer(x)
        layer.train()
        return layer(x), y
    return f, lambda: layer.running_var

x = wg.tensor(np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32))
for program in (scaled, normalised):
    (f, state), (g, expected) = program(), program()
    g_jit = wg.jit(g)
    for _ in range(2):
        for got, want in zip((*g_jit(x), expected()), (*f(x), state()), strict=True):
            np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=2e-5, atol=1e-6)
"""


def test_programs_that_write_what_they_scale_by_are_compiled() -> None:
    """In a process of its own, for a search for an order that there is not would not end."""
    subprocess.run([sys.executable, "-c", _WRITING], check=True, timeout=120)


def written(rng: random.Random, steps: int) -> Callable[..., Any]:
    """A program of sums, means and spreads of matrices, scales made of them, products and sums of both."""

    def f(*args: Any) -> Any:
        matrices, square, rows = list(args[:2]), [args[2]], list(args[3:])
        for _ in range(steps):
            x, r = rng.choice(matrices), rng.choice(rows)
            match rng.randrange(13):
                case 0:
                    matrices.append(x * wg.sqrt(r * r + 1))
                case 1:
                    matrices.append(x - r)
                case 2:
                    rows.append(x.mean(0))
                case 3:
                    rows.append(x.var(0))
                case 4:
                    rows.append(x.sum(0))
                case 5:
                    matrices.append(x - x.mean(1, keepdims=True))
                case 6:
                    rows.append(r + rng.choice(rows))
                case 7:
                    matrices.append(x * rng.choice(matrices))
                case 8:
                    rows.append(r * rng.choice(rows))
                case 9:
                    matrices.append(x @ rng.choice(square))
                case 10:
                    matrices.append(wg.exp(x) + r)
                case 11:
                    matrices.append(x / (x.max(1, keepdims=True) + 3))
                case _:
                    square.append(matrices[-1].T @ x)
        made = matrices[2:] + rows[3:] + square[1:]
        return tuple(rng.sample(made, min(len(made), rng.randrange(1, 6))))

    return f


def test_the_end_of_a_deep_network_is_joined_with_what_is_known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss takes what it makes of its targets into its loop, however much comes before it."""
    monkeypatch.setattr(unit_order, "_SEARCH", 10)

    def f(x: Any, w: Any, t: Any) -> Any:
        known = wg.exp(t)
        seen = known.reshape(40).sum()  # by a view, which is a unit too
        for _ in range(20):
            x = wg.sin(x @ w * 0.1)
        return wg.softmax(x, -1) - known, seen

    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype(np.float32) for shape in ((8, 5), (5, 5), (8, 5))]
    planned, grouping = grouped(wg.graph(f)(*args))
    assert not units_wait(planned, grouping)
    (known,) = (n for n in planned.nodes if n.op.name == "exp" and n.inputs[0] is planned.inputs[2])
    assert grouping.group[known] is grouping.group[planned.outputs[0]]
    check(f, (8, 5), (5, 5), (8, 5))


def test_readers_are_those_that_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every unit that is looked at, while groups are made, its readers are just the units that need it."""
    looked = []

    def reached(self: Any, start: Any, *args: Any) -> Any:
        units = list(dict.fromkeys(self._units()))
        looked.append(start)
        for unit in units:
            assert set(self._readers(unit)) == {other for other in units if unit in self._needs(other)}, unit
        return found(self, start, *args)

    made: list[Any] = []
    begin, found = UnitOrder.__init__, UnitOrder._reached

    def init(self: Any, needs: Any, readers: Any, units: Any) -> None:
        units = list(units)
        self._units = lambda: [needs.__self__.unit(n) for n in units]
        made.append(self)
        begin(self, needs, readers, units)

    monkeypatch.setattr(UnitOrder, "__init__", init)
    monkeypatch.setattr(UnitOrder, "_reached", reached)
    for seed in range(12):
        rng = random.Random(seed)
        args = [np.ones(shape, np.float32) for shape in ((8, 4), (8, 4), (4, 4), (4,), (4,), (4,))]
        grouped(wg.graph(written(rng, 12))(*args))
    assert len(looked) > 50


@pytest.mark.parametrize("most", [5, 200])
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_groups_of_random_programs_have_an_order(first: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_order, "_SEARCH", most)
    # Those after the first ones had groups that waited for themselves when positions in the graph told the order.
    for seed in (*range(first, first + 100), *((1184, 1830, 3879, 5993) if first == 0 else ())):
        rng = random.Random(seed)
        m, n = rng.choice([(8, 4), (8, 4), (300, 4), (40, 6), (5, 5)])
        args = [np.ones(shape, np.float32) for shape in ((m, n), (m, n), (n, n), (n,), (n,), (n,))]
        planned, grouping = grouped(wg.graph(written(rng, rng.randrange(4, 40)))(*args))
        assert not units_wait(planned, grouping), seed
        order = grouping.order
        for unit in {grouping.unit(node) for node in planned.nodes}:
            assert all(order.place(needed) < order.place(unit) for needed in grouping.needs(unit)), seed


@pytest.mark.parametrize("most", [0, 2, 200])
@pytest.mark.parametrize("seed", range(40))
def test_units_are_joined_where_none_waits_for_itself(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random units, joined at random: the order allows what looking at all units allows, if it may look at so many."""
    monkeypatch.setattr(unit_order, "_SEARCH", most)
    rng = random.Random(seed)
    count = rng.randrange(5, 40)
    needs: dict[int, set[int]] = {
        i: set(rng.sample(range(i), min(i, rng.choice((0, 1, 1, 2, 3))))) for i in range(count)
    }
    order = UnitOrder(
        lambda unit: sorted(needs[unit]), lambda unit: [n for n in needs if unit in needs[n]], range(count)
    )
    for _ in range(4 * count):
        if len(needs) < 2:
            break
        x, y = rng.sample(sorted(needs), 2)
        joined = {unit: {x if n == y else n for n in needed} for unit, needed in needs.items() if unit != y}
        joined[x] = {n for n in needs[x] | needs[y] if n not in (x, y)}
        way = order.between(x, y)
        wait = is_cyclic(joined, joined.__getitem__)
        assert (way is None) == wait if most == 200 else way is None or not wait
        if way is None:
            continue
        needs = joined
        order.join(x, y, way, x)
        assert all(order.place(n) < order.place(unit) for unit in needs for n in needs[unit])
        assert len({order.place(unit) for unit in needs}) == len(needs)
