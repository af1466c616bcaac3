"""Classes that do not exist: what loops compare with, they also check.

A loop compares an index with every place along an axis, so a wrong one would pass unseen. The number
of wrong indices becomes one more result of the graph; where it is not 0, the operation's own error is raised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.graph import Graph
from ...core.node import Node
from ...core.spec import int64
from ...passes.rewrite import build, with_outputs


class Check(NamedTuple):
    """`wrong` counts the elements of `place` that are no place on the axis which the node `of` makes."""

    of: Node
    place: Node
    wrong: Node


def checked(graph: Graph) -> tuple[Graph, list[Check]]:
    """The graph with what its checks need as further outputs, and the checks."""
    checks = []
    for node in graph.nodes:
        if node.op.name == "one_hot" and isinstance(node.inputs[0], Node) and node.inputs[0].spec.size:
            checks.append(Check(node, node.inputs[0], _wrong(node, node.inputs[0])))
    if not checks:
        return graph, checks
    return with_outputs(graph, [*graph.outputs, *(n for c in checks for n in (c.place, c.wrong))]), checks


def _wrong(node: Node, index: Node) -> Node:
    size = node.attrs["num_classes"]
    outside = build("greater_equal", (index, size), node)
    if index.spec.dtype.kind == "i":
        outside = build("logical_or", (build("less", (index, -size), node), outside), node)
    counted = build("cast", (outside,), node, dtype=int64)
    axes = tuple(range(-index.spec.ndim, 0))
    return build("sum", (counted,), node, axis=axes, keepdims=False) if axes else counted


def place_from_start(index: Node, size: int, like: Node) -> Node:
    """An index that may count from the end, counted from the start; one that is no place stays none."""
    if index.spec.dtype.kind != "i":
        return index
    moved = build("where", (build("less", (index, 0), like), build("add", (index, size), like), index), like)
    largest = np.iinfo(index.spec.dtype).max
    return build("where", (build("less", (moved, 0), like), min(size, int(largest)), moved), like)
