"""The collectives of a graph, those in its loops and branches among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...core.graph.values import Subgraph
from ...core.node import Node


def subgraphs(node: Node) -> list[Any]:
    """Return the graphs among a node's attributes: what a loop or a branch runs."""
    values = (v for a in node.attrs.values() for v in (a if isinstance(a, tuple) else (a,)))
    return [v for v in values if isinstance(v, Subgraph)]


def collectives(graph: Any) -> Iterator[Node]:
    """Yield the collectives of a graph, and of the loops and branches in it."""
    waiting = [graph]
    while waiting:
        for node in waiting.pop().nodes:
            if "collective" in node.op.facets:
                yield node
            waiting += subgraphs(node)
