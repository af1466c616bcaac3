"""Recordings of what was not observed: a tensor's recorded graph, replayed; a graph, run or as it stands."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...core.errors import GradientError, GraphError, fail
from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT, LEAVES
from ...core.node import Node
from ...core.tensor import Tensor
from ...explain.observing.replayed import replay, restored
from ...transforms.derivatives import reverse
from .names import name_leaves
from .recorder import Recorder
from .recording import Builder, Kind, Recording, Row, in_order, recorded

_WHAT = "explore"
_GONE = (
    "Some values are not shown: the tensors that they were computed from are gone. "
    "Keep those in variables, or give the function: wg.explore(f, *args)."
)

# So many inputs are named in a title.
_NAMED = 6


def from_tensor(target: Tensor, names: Mapping[int, str]) -> Recording:
    """Return the recording of a tensor's graph; gradients as a backward pass from it gives them.

    `names` has those of leaves, by identity of node or array.
    """
    if target._array is None:
        fail(GraphError, f"{_WHAT} of an abstract tensor, {target.spec}", "Explore the graph: wg.graph(f)(...).")
    if target.node is None or not target.requires_grad:
        fail(
            GradientError,
            f"{_WHAT} of a tensor without a graph, {target.spec}",
            "Nothing it was computed from has requires_grad=True. Give the function: wg.explore(f, *args).",
        )
    steps = [s for s in replay([target.node]) if s.node is not None]
    recorder = Recorder()
    with restored(steps, target, _WHAT), recorder.recording():
        seed = np.ones(target.shape, target.dtype)
        reverse.backward_pass([(target.node, seed)], None, create_graph=False, retain_graph=True)
    builder = Builder()
    builder.made.update(reverse.reachable([target.node]))
    for step in steps:
        assert step.node is not None
        if step.node in builder.of_node:
            continue
        row = builder.ran(step.op, step.inputs, step.out, step.node.attrs, step.node)
        row.code, row.offset, row.scope = step.node.code, step.node.offset, step.node.scope
    made = recorded(recorder, results=[target], builder=builder)
    made.title = "result"
    if any(row.value is None for row in made.rows):
        made.notes.append(_GONE)
    name_leaves(made.rows, names)
    return made


def from_graph(graph: Graph) -> Recording:
    """Return the structure of a graph, which has no values."""
    rows: dict[Node, Row] = {}
    for node in graph.nodes:
        if node.op in LEAVES:
            value = node.attrs["value"] if node.op is CONSTANT else None
            kind: Kind = "const" if node.op is CONSTANT else "param" if node in graph.parameters else "input"
            rows[node] = Row(None, kind, value=value, spec=node.spec, node=node)
            continue
        row = rows[node] = Row(node.op, "op", spec=node.spec, attrs=node.attrs, node=node, scope=node.scope)
        row.code, row.offset = node.source, 0
        for i, entry in enumerate(node.inputs):
            row.operands.append(rows.get(entry) if isinstance(entry, Node) else None)
            if not isinstance(entry, Node):
                row.literals[i] = entry
    roots = list(dict.fromkeys(rows[n] for n in graph.outputs))
    name_leaves(list(rows.values()), {id(n): graph.names[n] for n in rows if n in graph.names})
    return Recording(in_order(list(rows.values())), [], roots, title=graph_title(graph), values=False)


def graph_title(graph: Graph) -> str:
    """Return a graph's title: its name and inputs, of many the first and the last ones."""
    names = [graph.names[n] for n in graph.inputs if n not in graph.bound]
    if len(names) > _NAMED:
        names[_NAMED // 2 : -(_NAMED // 2)] = ["…"]
    return f"{graph.name or 'graph'}({', '.join(names)})"
