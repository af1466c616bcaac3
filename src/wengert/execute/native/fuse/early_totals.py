"""Totals that come first: what is counted of little before a larger loop can be computed whole.

A mean over the targets that count divides by their number, which comes of the targets alone. A loss and its gradient
are one loop over the logits if that number is there when it begins; where the loop itself says which targets count,
what divides by their number has to be a second loop, which reads again what the first one stores. So the nodes of such
totals make groups of their own.
"""

from __future__ import annotations

from typing import NamedTuple

from ....core.graph.graph import Graph
from ....core.graph.snapshot import CONSTANT
from ....core.node import Node
from .loop_nest import cost
from .loop_nodes import edge, is_elementwise, is_reduction

# The most nodes that make a total's elements, what one of them may cost, and the most nodes looked at behind a total.
_NODES, _CHEAP, _BEHIND = 16, 1, 64


class _Total(NamedTuple):
    """A total, the nodes of loops that make its elements, and what these read from memory."""

    node: Node
    cone: frozenset[Node]
    read: frozenset[Node]


def early_totals(graph: Graph) -> frozenset[Node]:
    """Return the totals that a larger loop waits for, of cheap elements, with all that is computed for them alone."""
    totals = [t for n in graph.nodes if is_reduction(n) and n.spec.size == 1 and (t := _total(n)) is not None]
    awaited = [t for t in totals if _is_awaited(t, graph)]
    if not awaited:
        return frozenset()
    # Other totals of the same arrays alone are computed in the same loop.
    read = frozenset(n for t in awaited for n in t.read)
    found = {n for t in totals if t.read <= read for n in (t.node, *t.cone)}
    for node in graph.nodes:
        if node not in found and is_elementwise(node) and node.spec.size == 1:
            bases = {edge(e).base for e in node.inputs if isinstance(e, Node)}
            if bases & found and all(b in found or b.op is CONSTANT for b in bases):
                found.add(node)
    return frozenset(found)


def _total(node: Node) -> _Total | None:
    """Return a total with what its elements are made of; None where that is much, or comes of a larger loop."""
    operand = edge(node.inputs[0]).base
    size = operand.spec.size
    cone: set[Node] = set()
    read: set[Node] = set()
    stack = [operand]
    while stack and size > 1:
        member = stack.pop()
        if member in cone or member in read:
            continue
        if is_reduction(member) or (is_elementwise(member) and (member.spec.size > size or cost(member) > _CHEAP)):
            return None
        if not is_elementwise(member):
            read.add(member)
            continue
        cone.add(member)
        if len(cone) > _NODES:
            return None
        stack += [edge(e).base for e in member.inputs if isinstance(e, Node)]
    return _Total(node, frozenset(cone), frozenset(read)) if cone else None


def _is_awaited(total: _Total, graph: Graph) -> bool:
    """Return whether a loop over more than the total's elements needs it, perhaps through other numbers."""
    size = max(n.spec.size for n in total.cone)
    seen, stack = {total.node}, [total.node]
    while stack and len(seen) <= _BEHIND:
        for consumer in graph.consumers(stack.pop()):
            if consumer in seen or isinstance(consumer.spec, tuple):
                continue
            computed = is_elementwise(consumer)
            if computed and consumer.spec.size > size:
                return True
            if computed or edge(consumer).base is not consumer:
                seen.add(consumer)
                stack.append(consumer)
    return False
