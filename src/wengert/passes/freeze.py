"""Freezing: a graph's parameters become constants."""

from __future__ import annotations

import numpy as np

from ..core.graph.graph import Graph
from ..core.graph.snapshot import constant_node
from ..core.node import Node
from .origins import note
from .rewrite import moved_onto


def freeze(graph: Graph) -> Graph:
    """Return the graph with the tensors behind its parameters as constants of it, as they are now.

    Its inputs are then those that a call gives. Later changes of the tensors do not reach it.

    >>> import wengert as wg
    >>> w = wg.tensor(3.0, requires_grad=True)
    >>> print(wg.passes.freeze(wg.graph(lambda x: x * w)(wg.spec(()))))
    graph(x: f32[]) -> f32[]
      a: f32[] = constant 3.0
      b: f32[] = multiply x a
      return b
    """
    if not graph.bound:
        return graph
    replace: dict[Node, Node] = {n: constant_node(np.array(t._array)) for n, t in graph.bound.items()}
    for node in graph.nodes:
        moved = moved_onto(node, replace)
        if moved is not node:
            note(moved, "", node)
            replace[node] = moved
    return Graph(
        [replace.get(n, n) for n in graph.outputs],
        [n for n in graph.inputs if n not in graph.bound],
        graph.name,
        in_structure=graph.in_structure,
        out_structure=graph.out_structure,
        static=graph.static,
    )
