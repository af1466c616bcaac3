"""Buckets: collectives of one kind that do not wait for each other move together."""

from __future__ import annotations

from typing import Any

from ...core.graph.graph import Graph
from ...core.graph.snapshot import located
from ...core.node import Node
from ...core.ops.op import TABLE, Op
from ...ops.collective.definitions import all_gather, all_reduce, reduce_scatter

# A message of this size takes as long to move as to begin many times over: nothing is gained by larger ones.
BUCKET = 25_000_000


_JOINED = frozenset({all_reduce, all_gather, reduce_scatter})


def bucketed(graph: Graph, nbytes: int = BUCKET) -> Graph:
    """Return a rank's graph in which collectives over one axis, of one dtype, that need not wait for others are one.

    Sums, gathered parts, and parts of sums of at most `nbytes` are joined. The bits are the same: each element is the
    sum of the same numbers, in the order of the ranks. What is gathered again for the backward pass is not joined with
    what was gathered before.
    """
    depth: dict[Node, int] = {}
    open_: dict[Any, list[Node]] = {}
    groups: list[list[Node]] = []
    for node in graph.nodes:
        before = max((depth[e] for e in node.inputs if isinstance(e, Node)), default=0)
        depth[node] = before + (node.op in _JOINED)
        if node.op not in _JOINED or not node.spec.size:
            continue
        is_backward = node.op is all_gather and node.scope is not None and node.scope.within("gradient")
        key = node.op, node.attrs["over"], node.attrs.get("replicated"), node.spec.dtype, before, is_backward
        group = open_.get(key)
        if group is None or sum(map(_moved, group)) + _moved(node) > nbytes:
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


def _moved(node: Node) -> int:
    return max(node.spec.nbytes, *(e.spec.nbytes for e in node.inputs if isinstance(e, Node)), 0)


def _join(group: list[Node], replace: dict[Node, Node]) -> None:
    """Replace collectives by the parts of one, whose last axis is the elements of all."""
    first = group[0]

    def make(op: Op, inputs: tuple[Any, ...], at: Node, **attrs: Any) -> Node:
        spec = op.infer(*(e.spec for e in inputs), **attrs)
        return located(op, inputs, attrs, spec, at.code, at.offset, at.scope)

    def shaped(x: Node, at: Node, *shape: int) -> Node:
        return x if x.spec.shape == shape else make(TABLE["reshape"], (x,), at, shape=shape)

    def moved(x: Node, at: Node, source: int, target: int) -> Node:
        """Return a value with an axis, from the left, in another place."""
        axes = list(range(x.spec.ndim))
        axes.insert(target, axes.pop(source))
        if axes == sorted(axes):
            return x
        return make(TABLE["permute"], (x,), at, axes=tuple(i - x.spec.ndim for i in axes))

    ranks = first.attrs["ranks"]
    # Rows of the operands for each rank, or the one that this rank has; the sums of all_reduce are one row.
    out = ranks if first.op is all_gather else 1
    rows = []
    for n in group:
        x = n.inputs[0]
        assert isinstance(x, Node)
        x = replace[x]
        if n.op is reduce_scatter:
            d = x.spec.ndim + n.attrs["axis"]
            shape = x.spec.shape
            cut = shaped(x, n, *shape[:d], ranks, shape[d] // ranks, *shape[d + 1 :])
            rows.append(shaped(moved(cut, n, d, 0), n, ranks, n.spec.size))
        else:
            rows.append(shaped(x, n, 1, x.spec.size))
    attrs = dict(first.attrs) if first.op is all_reduce else {**first.attrs, "axis": -2}
    total = make(first.op, (make(TABLE["concat"], tuple(rows), first, axis=-1),), first, **attrs)
    start = 0
    for n in group:
        size = n.spec.size // out
        part = make(TABLE["slice"], (total,), n, entries=((None, None, None), (start, start + size, None)))
        if n.op is all_gather:
            d = n.spec.ndim + n.attrs["axis"]
            shape = n.spec.shape
            part = shaped(part, n, ranks, *shape[:d], shape[d] // ranks, *shape[d + 1 :])
            part = moved(part, n, 0, d)
        replace[n] = shaped(part, n, *n.spec.shape)
        start += size
