"""Buckets: sums over ranks that do not wait for each other move together."""

from __future__ import annotations

import math
from typing import Any

from ...core.graph.graph import Graph
from ...core.graph.snapshot import located
from ...core.node import Node
from ...core.ops.op import TABLE, Op
from ...ops.collective.definitions import all_reduce

# A message of this size takes as long to move as to begin many times over: nothing is gained by larger ones.
BUCKET = 25_000_000


def bucketed(graph: Graph, nbytes: int = BUCKET) -> Graph:
    """Return a rank's graph in which all_reduces over one axis, of one dtype, that need not wait for others are one.

    Sums of at most `nbytes` are joined. The bits are the same: each element is the sum of the same numbers, in the
    order of the ranks.
    """
    depth: dict[Node, int] = {}
    open_: dict[Any, list[Node]] = {}
    groups: list[list[Node]] = []
    for node in graph.nodes:
        before = max((depth[e] for e in node.inputs if isinstance(e, Node)), default=0)
        depth[node] = before + (node.op is all_reduce)
        if node.op is not all_reduce:
            continue
        key = node.attrs["over"], node.spec.dtype, before
        group = open_.get(key)
        if group is None or sum(n.spec.nbytes for n in group) + node.spec.nbytes > nbytes:
            group = open_[key] = []
            groups.append(group)
        group.append(node)
    group_of = {n: g for g in groups if len(g) > 1 for n in g}
    if not group_of:
        return graph
    replace: dict[Node, Node] = {}
    waiting = list(reversed(graph.outputs))
    while waiting:  # after what it needs; a group's members need what all of them need
        node = waiting[-1]
        if node in replace:
            waiting.pop()
            continue
        group = group_of.get(node, [node])
        needed = [e for n in group for e in n.inputs if isinstance(e, Node) and e not in replace]
        if needed:
            waiting += needed
            continue
        waiting.pop()
        if len(group) > 1:
            _join(group, replace)
        else:
            inputs = tuple(replace[e] if isinstance(e, Node) else e for e in node.inputs)
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            replace[node] = (
                node if same else located(node.op, inputs, node.attrs, node.spec, node.code, node.offset, node.scope)
            )
    return Graph([replace[n] for n in graph.outputs], graph.inputs, graph.name, out_structure=graph.out_structure)


def _join(group: list[Node], replace: dict[Node, Node]) -> None:
    """Replace sums by the parts of one sum."""
    first = group[0]

    def make(op: Op, inputs: tuple[Any, ...], at: Node, **attrs: Any) -> Node:
        spec = op.infer(*(e.spec for e in inputs), **attrs)
        return located(op, inputs, attrs, spec, at.code, at.offset, at.scope)

    rows = [
        make(TABLE["reshape"], (replace[e] if isinstance(e := n.inputs[0], Node) else e,), n, shape=(n.spec.size,))
        for n in group
    ]
    joined = make(TABLE["concat"], tuple(rows), first, axis=-1)
    total = make(all_reduce, (joined,), first, **first.attrs)
    start = 0
    for n in group:
        stop = start + math.prod(n.spec.shape)
        part = make(TABLE["slice"], (total,), n, entries=((start, stop, None),))
        replace[n] = make(TABLE["reshape"], (part,), n, shape=n.spec.shape)
        start = stop
