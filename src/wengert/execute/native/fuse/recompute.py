"""Recomputation: values that loops compute again where they are needed, instead of storing and reading them.

A value that a few simple operations make of what is in memory anyway costs less to make again than
to write and read: the loops that take it are bound by memory. So deviations from a mean or masked
gradients are kept in no array; a backward pass makes them of what they were made of. Chen et al.
2016, Training deep nets with sublinear memory cost, recompute whole layers to save memory; here it
is done where fewer bytes are moved, and only there.
"""

from __future__ import annotations

from collections.abc import Container

from ....core.node import Node
from .groups import Group, Grouping
from .loop_nest import cost

# The most operations that make a value again, what one may cost, the most nodes of a group that takes some.
_DEPTH, _CHEAP, _NODES = 4, 1, 192
# An array that is so many times smaller than a value weighs nothing beside it.
_SMALL = 16


class _Recomputation:
    """A recomputation: the members of a group that make a value, and the arrays that these read."""

    def __init__(self) -> None:
        self.members: dict[Node, None] = {}
        self.read: dict[Node, None] = {}


def recompute(grouping: Grouping, products: Container[str]) -> None:
    """Let groups recompute values of other groups where that moves fewer bytes.

    `products` are ops whose results a group may take in their kernels, before they are stored.
    """
    again: set[Node] = set()
    for node in list(grouping.group):
        group = grouping.group[node]
        takers = grouping.takers(node) if _is_cheap(node, group) else None
        if not takers or any(t.size != node.spec.size or len(t.nodes) + _DEPTH > _NODES for t in takers):
            continue
        recomputed = _Recomputation()
        if not _make(grouping, node, group, again, recomputed, products):
            continue
        more = sum(_nbytes(n) for t in takers for n in recomputed.read if n not in t.operands and _weighs(n, node))
        if more >= _nbytes(node) * (1 + len(takers)):
            continue
        axes = [_axes(grouping, node, group, taker, recomputed) for taker in takers]
        if None not in axes:
            again.add(node)
            for taker, taken in zip(takers, axes, strict=True):
                grouping.compute_again(node, taker, taken or {}, recomputed.read)


def _nbytes(node: Node) -> int:
    return int(node.spec.size * node.spec.dtype.itemsize)


def _weighs(part: Node, whole: Node) -> bool:
    return bool(part.spec.size * _SMALL > whole.spec.size)


def _is_cheap(node: Node, group: Group) -> bool:
    return node not in group.reductions and cost(node) <= _CHEAP and node.op.name != "one_hot"


def _make(
    grouping: Grouping, node: Node, group: Group, again: set[Node], recomputed: _Recomputation, products: Container[str]
) -> bool:
    """Collect the members that make a value from arrays; return False where that is impossible, or costly."""
    recomputed.members[node] = None
    for e in grouping.edges[node]:
        if e is None or e.base in recomputed.members:
            continue
        base = e.base
        if base not in group.axes:
            # A product whose only reader is this group may never be stored.
            if base.op.name in products and _is_for(grouping.takers(base), group):
                return False
            recomputed.read[base] = None
        elif (base not in again and grouping.is_taken(base)) or not _weighs(base, node):
            recomputed.read[base] = None
        else:
            possible = len(recomputed.members) < _DEPTH and _is_cheap(base, group)
            if not possible or not _make(grouping, base, group, again, recomputed, products):
                return False
    return True


def _is_for(takers: list[Group] | None, group: Group) -> bool:
    """Return whether no other than one group takes a value."""
    return takers is not None and all(t is group for t in takers)


def _axes(
    grouping: Grouping, node: Node, group: Group, taker: Group, recomputed: _Recomputation
) -> dict[Node, tuple[int, ...]] | None:
    """Return the dimensions of the taker's space that each member spans; None where they are not unique."""
    seen = {taker.seen(n, e) for n in taker.nodes for e in grouping.edges[n] if e is not None and e.base is node}
    if len(seen) != 1:
        return None
    to = {-1: -1, **dict(zip(group.axes[node], seen.pop(), strict=True))}
    found = {n: tuple(to[d] for d in group.axes[n]) for n in recomputed.members if all(d in to for d in group.axes[n])}
    if len(found) < len(recomputed.members) or any(taker.axes.get(n, a) != a for n, a in found.items()):
        return None
    return found
