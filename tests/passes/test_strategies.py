"""Every strategy of every op against the op on whole values: generated from the op table's samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opchecks import OPS, calls
from wengert.core.graph.evaluate import run
from wengert.core.graph.graph import Graph
from wengert.core.graph.snapshot import input_node, located
from wengert.core.node import Node
from wengert.core.ops.op import Call
from wengert.core.ops.record import OUTPUT
from wengert.core.spec import spec_of
from wengert.distribute.engines.lockstep import run_lockstep
from wengert.distribute.mesh import Mesh
from wengert.distribute.placing.partition import Partition, Partitioned
from wengert.distribute.placing.placement import PARTIAL, local_part
from wengert.passes.strategies import Strategy, specs_of_results, strategies

NAMES = [name for name, op in OPS.items() if op.kind not in ("control", "collective")]


def node_of(op: Any, call: Any) -> tuple[Node, list[np.ndarray]]:
    """The op as a node of a graph, and the values of its inputs."""
    call = Call(tuple(np.asarray(a) if isinstance(a, np.generic) else a for a in call.args), call.attrs)
    inputs = [input_node(spec_of(a.shape, a.dtype)) if isinstance(a, np.ndarray) else a for a in call.args]
    spec = op.infer(*(e.spec if isinstance(e, Node) else e for e in inputs), **call.attrs)
    return located(op, tuple(inputs), dict(call.attrs), spec), [a for a in call.args if isinstance(a, np.ndarray)]


def parts_of(x: np.ndarray, entry: int | None, mesh: Mesh) -> list[np.ndarray]:
    """What each rank has of a value."""
    if entry == PARTIAL:
        rng = np.random.default_rng(1)
        rest = [(rng.normal(size=x.shape) * (x.dtype.kind in "fc")).astype(x.dtype) for _ in range(mesh.size - 1)]
        return [x - sum(rest), *rest]
    return [local_part(x, (entry,), mesh, rank) for rank in range(mesh.size)]


def check(node: Node, values: list[np.ndarray], strategy: Strategy, mesh: Mesh) -> None:
    inputs = [e for e in node.inputs if isinstance(e, Node)]
    entries = [s for s, e in zip(strategy.operands, node.inputs, strict=True) if isinstance(e, Node)]
    several = isinstance(node.spec, tuple)
    outputs = [located(OUTPUT, (node,), {"index": i}, s) for i, s in enumerate(node.spec)] if several else [node]
    whole = Graph(outputs, inputs)
    placed = [(PARTIAL,) if e == PARTIAL else (e,) for e in entries]
    made = Partition(whole, mesh, placed, [frozenset()] * len(placed))
    args = [made.values[e] if isinstance(e, Node) else e for e in node.inputs]
    found = made.written(node, args, [strategy])
    results = [made.convert(v, (None,), node) for v in (found if several else (found,))]
    local = Graph(results, made.inputs)
    feeds = list(zip(*(parts_of(x, e, mesh) for x, e in zip(values, entries, strict=True)), strict=True))
    expected = run(whole, values)
    for rank in run_lockstep(Partitioned(local, mesh, tuple(placed), (), {}), feeds or [[]] * mesh.size):
        for a, b in zip(rank, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=f"{node.op.name} by {strategy}")


@pytest.mark.parametrize("name", NAMES)
def test_strategies(name: str) -> None:
    op = OPS[name]
    for call in calls(op):
        node, values = node_of(op, call)
        for strategy in strategies(node):
            operands = [(e.spec, p) for e, p in zip(node.inputs, strategy.operands) if isinstance(e, Node)]
            sizes = [s.shape[e] for s, e in operands if e is not None and e != PARTIAL]
            sizes += [s.shape[e] for s, e in zip(specs_of_results(node), strategy.results) if e not in (None, PARTIAL)]
            for ranks in (2, 3):
                if all(n % ranks == 0 and n for n in sizes):
                    check(node, values, strategy, Mesh(data=ranks))


def test_most_ops_have_strategies() -> None:
    """An op without one is right and slow: what is listed here is gathered, drawn whole, or opened."""
    without = {n for n in NAMES if not any(strategies(node_of(OPS[n], c)[0]) for c in calls(OPS[n]))}
    assert len(without) < 0.2 * len(NAMES)
    drawn = {n for n in without if n.startswith("random_")}
    opened = {n for n in without - drawn if OPS[n].body is not None}
    assert without - drawn - opened == {
        "axis_index",
        "index_is_last",
        "index_update",
        "searchsorted",
        "size",
        "slice_update",
    }
