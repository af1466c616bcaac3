"""Sums of many terms of one kind as one term, whatever the kind.

The gradient of what every step of a recurrent network uses is a sum of as many terms as there are steps. Computed one
by one, each reads and writes the whole sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....core.graph.graph import Graph
from ....core.node import Node
from ....passes.origins import note
from ....passes.rewrite import build, moved_onto, with_outputs


class Sum(NamedTuple):
    """A sum of a graph: its last addition, its terms from the left, and those of them that nothing else reads."""

    root: Node
    terms: Sequence[Node]
    alone: frozenset[Node]


# What joins terms of a sum: it returns them and, made of the latest form of nodes, what they add up to; or None.
Join = Callable[[Sum, Callable[[Node], Node]], tuple[Sequence[Node], Node] | None]


def join_terms(graph: Graph, name: str, join: Join) -> Graph:
    """Return the graph with terms joined where `join` does so; `name` is what the rewrite is called."""
    outputs = frozenset(graph.outputs)
    alone = frozenset(
        e
        for node in graph.nodes
        if _is_sum(node)
        for e in node.inputs
        if isinstance(e, Node) and e not in outputs and len(graph.consumers(e)) == 1
    )
    replace: dict[Node, Node] = {}

    def latest(node: Node) -> Node:
        return replace.get(node, node)

    for node in graph.nodes:
        made = moved_onto(node, replace)
        if made is not node:
            note(made, "", node)
        if _is_sum(node) and node not in alone:
            terms = _terms(node, alone)
            found = join(Sum(node, terms, alone), latest)
            if found is not None:
                joined, made = found
                for term in terms:
                    if term not in joined:
                        made = build("add", (latest(term), made), node)
                note(made, name, node)
        if made is not node:
            replace[node] = made
    return with_outputs(graph, [latest(n) for n in graph.outputs])


def _is_sum(node: Node) -> bool:
    spec = node.spec
    if node.op.name != "add" or spec.dtype.kind != "f" or spec.dtype.itemsize < 4:
        return False
    return all(isinstance(e, Node) and e.spec == spec for e in node.inputs)


def _terms(root: Node, alone: frozenset[Node]) -> list[Node]:
    """Return what a sum adds up, from the left."""
    found: list[Node] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node is root or (node in alone and _is_sum(node)):
            waiting += reversed(node.inputs)
        else:
            found.append(node)
    return found
