"""Buckets: collectives of one kind that do not wait for each other move together.

What moves while a rank computes is best cut into a few messages: while one is on its way, what the next one moves is
computed. So members of a bucket are neighbours in time: sums are joined as the backward pass has them, and those that
come last make a small bucket, for which nothing is left to be computed; gathered parts are joined as they are used.
"""

from __future__ import annotations

import math
from typing import Any

from ...core.graph.graph import Graph
from ...core.graph.snapshot import located
from ...core.node import Node
from ...core.ops.op import TABLE, Op
from ...ops.collective.definitions import all_gather, all_reduce, all_to_all, reduce_scatter

# A message of this size takes as long to move as to begin many times over: nothing is gained by larger ones.
BUCKET = 25_000_000
# Of what could move together about so many buckets are made, but none of less than so many bytes, which would be begun
# in the time that it moves. Where values are in parts to save memory, buckets are smaller: what is on its way is whole.
PARTS = 8
SMALLER = 2
LEAST = 1 << 18


_JOINED = frozenset({all_reduce, all_gather, reduce_scatter})
# The collectives that cut an axis, or join parts along it: bytes lie side by side only along the first one.
_CUT = frozenset({all_gather, reduce_scatter, all_to_all})


def bucketed(graph: Graph, nbytes: int = BUCKET) -> Graph:
    """Return a rank's graph in which collectives over one axis, of one dtype, that need not wait for others are few.

    Sums, gathered parts, and parts of sums are joined, up to `nbytes` together. The bits are the same: each element is
    the sum of the same numbers, in the same order. What is gathered again for the backward pass is not joined
    with what was gathered before. Parts are cut and joined along the first axis of what moves.
    """
    groups = [g for g in _groups(graph, nbytes) if len(g) > 1]
    groups += [[n] for n in graph.nodes if _is_cut_inside(n) and not any(n in g for g in groups)]
    group_of = {n: g for g in groups for n in g}
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
        if node not in group_of:
            inputs = tuple(replace[e] if isinstance(e, Node) else e for e in node.inputs)
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            replace[node] = (
                node if same else located(node.op, inputs, node.attrs, node.spec, node.code, node.offset, node.scope)
            )
        elif node.op is all_to_all:
            replace[node] = _exchanged(node, replace)
        else:
            _join(group, replace)
    return Graph([replace[n] for n in graph.outputs], graph.inputs, graph.name, out_structure=graph.out_structure)


def _groups(graph: Graph, nbytes: int) -> list[list[Node]]:
    """Return which collectives move together, those of a group by time."""
    before: dict[Node, int] = {}  # how many collectives that could be joined come before a node, one after the other
    time: dict[Node, int] = {}
    found: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        inputs = [e for e in node.inputs if isinstance(e, Node)]
        waits = max((before[e] for e in inputs), default=0)
        before[node] = waits + (node.op in _JOINED)
        time[node] = 1 + max((time[e] for e in inputs), default=0)
        if node.op in _JOINED and node.spec.size:
            is_backward = node.op is all_gather and node.scope is not None and node.scope.within("gradient")
            key = node.op, node.attrs["over"], node.attrs.get("replicated"), node.spec.dtype, waits, is_backward
            found.setdefault(key, []).append(node)
    groups: list[list[Node]] = []
    for key, nodes in found.items():
        if key[0] is all_gather:
            nodes.sort(key=lambda n: min((time[u] for u in graph.consumers(n)), default=time[n]))
            groups += _cut(nodes, nbytes, PARTS * SMALLER)
        else:
            nodes.sort(key=time.__getitem__, reverse=True)
            found_groups = _cut(nodes, nbytes, PARTS if key[0] is all_reduce else PARTS * SMALLER)
            groups += [group[::-1] for group in found_groups]
    return groups


def _cut(nodes: list[Node], nbytes: int, parts: int) -> list[list[Node]]:
    """Return nodes in order as about so many groups, the first of which is small; what is little more joins them."""
    usual = min(nbytes, max(LEAST, sum(map(_moved, nodes)) // parts))
    groups: list[list[Node]] = []
    room = -usual
    for node in nodes:
        room -= _moved(node)
        if -room > usual // 8:
            groups.append([])
            room = (usual if len(groups) > 1 else min(LEAST, usual)) - _moved(node)
        groups[-1].append(node)
    return groups


def _is_cut_inside(node: Node) -> bool:
    """Return whether a collective cuts or joins along an axis that is not the first one."""
    if node.op not in _CUT or node.attrs["ranks"] == 1 or not node.spec.size:
        return False
    shape = node.inputs[0].spec.shape if isinstance(node.inputs[0], Node) else node.spec.shape
    axes = [node.attrs[name] for name in ("axis", "split", "join") if name in node.attrs]
    return len(set(axes)) > 1 or any(math.prod(shape[: len(shape) + axis]) > 1 for axis in axes)


def _moved(node: Node) -> int:
    return max(node.spec.nbytes, *(e.spec.nbytes for e in node.inputs if isinstance(e, Node)), 0)


def _make(op: Op, inputs: tuple[Any, ...], at: Node, **attrs: Any) -> Node:
    spec = op.infer(*(e.spec for e in inputs), **attrs)
    return located(op, inputs, attrs, spec, at.code, at.offset, at.scope)


def _shaped(x: Node, at: Node, *shape: int) -> Node:
    return x if x.spec.shape == shape else _make(TABLE["reshape"], (x,), at, shape=shape)


def _axis_moved(x: Node, at: Node, source: int, target: int) -> Node:
    """Return a value with an axis, from the left, in another place."""
    axes = list(range(x.spec.ndim))
    axes.insert(target, axes.pop(source))
    if axes == sorted(axes):
        return x
    return _make(TABLE["permute"], (x,), at, axes=tuple(i - x.spec.ndim for i in axes))


def _rows(x: Node, at: Node, axis: int, ranks: int) -> Node:
    """Return a value cut along an axis as rows, one for each rank."""
    d, shape = x.spec.ndim + axis, x.spec.shape
    cut = _shaped(x, at, *shape[:d], ranks, shape[d] // ranks, *shape[d + 1 :])
    return _shaped(_axis_moved(cut, at, d, 0), at, ranks, x.spec.size // ranks)


def _side_by_side(rows: Node, at: Node, axis: int, ranks: int, shape: tuple[int, ...]) -> Node:
    """Return rows, one for each rank, joined along an axis to a shape."""
    d = len(shape) + axis
    cut = _shaped(rows, at, ranks, *shape[:d], shape[d] // ranks, *shape[d + 1 :])
    return _shaped(_axis_moved(cut, at, 0, d), at, *shape)


def _exchanged(node: Node, replace: dict[Node, Node]) -> Node:
    """Return an exchange of parts as one of rows."""
    x = node.inputs[0]
    assert isinstance(x, Node)
    ranks, given = node.attrs["ranks"], _rows(replace[x], node, node.attrs["split"], node.attrs["ranks"])
    got = _make(all_to_all, (given,), node, over=node.attrs["over"], ranks=ranks, split=-2, join=-2)
    return _side_by_side(got, node, node.attrs["join"], ranks, node.spec.shape)


def _join(group: list[Node], replace: dict[Node, Node]) -> None:
    """Replace collectives by the parts of one, whose last axis is the elements of all."""
    first = group[0]
    ranks = first.attrs["ranks"]
    # Rows of the operands for each rank, or the one that this rank has; the sums of all_reduce are one row.
    out = ranks if first.op is all_gather else 1
    rows = []
    for n in group:
        x = n.inputs[0]
        assert isinstance(x, Node)
        x = replace[x]
        rows.append(_rows(x, n, n.attrs["axis"], ranks) if n.op is reduce_scatter else _shaped(x, n, 1, x.spec.size))
    attrs = dict(first.attrs) if first.op is all_reduce else {**first.attrs, "axis": -2}
    given = rows[0] if len(rows) == 1 else _make(TABLE["concat"], tuple(rows), first, axis=-1)
    total = _make(first.op, (given,), first, **attrs)
    start = 0
    for n in group:
        size = n.spec.size // out
        part = total
        if len(group) > 1:
            part = _make(TABLE["slice"], (total,), n, entries=((None, None, None), (start, start + size, None)))
        if n.op is all_gather:
            replace[n] = _side_by_side(part, n, n.attrs["axis"], ranks, n.spec.shape)
        else:
            replace[n] = _shaped(part, n, *n.spec.shape)
        start += size
