"""Constant folding: what depends on no input is computed now."""

from __future__ import annotations

import numpy as np

from ..core.errors import WengertError
from ..core.graph.graph import Graph
from ..core.graph.snapshot import CONSTANT, constant_node
from ..core.node import Node
from ..core.spec import Spec
from .rewrite import moved_onto, with_outputs

# A result that grows beyond this many bytes is left to be computed when the graph runs.
FOLD_BYTES = 1 << 20


def fold(graph: Graph, limit: int = FOLD_BYTES) -> Graph:
    """Return the graph with computations on constants replaced by their results.

    Ops run by their own forward, so that values are the same in every bit. A result larger than
    both its inputs and `limit` bytes is not stored; what draws random numbers is never folded,
    and what would raise is left to raise when the graph runs.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x: x * wg.exp(wg.tensor(0.0)))(wg.spec(()))
    >>> print(wg.passes.fold(g))
    graph(x: f32[]) -> f32[]
      a: f32[] = constant 1.0
      b: f32[] = multiply x a
      return b
    """
    replace: dict[Node, Node] = {}
    for node in graph.nodes:
        moved = moved_onto(node, replace)
        made = folded(moved, limit) or moved
        if made is not node:
            replace[node] = made
    return with_outputs(graph, [replace.get(n, n) for n in graph.outputs])


def folded(node: Node, limit: int = FOLD_BYTES) -> Node | None:
    """Return the constant that a node computes, or None where it depends on an input."""
    spec = node.spec
    given = [e for e in node.inputs if isinstance(e, Node)]
    if not given or not isinstance(spec, Spec) or any(e.op is not CONSTANT for e in given):
        return None
    if "collective" in node.op.facets:  # other ranks have a part in it
        return None
    if spec.nbytes > max(limit, *(e.spec.nbytes for e in given)):
        return None
    values = [e.attrs["value"] if isinstance(e, Node) else e for e in node.inputs]
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(node.op.forward(*values, **node.attrs))
    except (WengertError, ArithmeticError, ValueError, TypeError, IndexError):
        return None
    if result.shape != spec.shape or result.dtype != spec.dtype:
        return None
    return constant_node(result if result.base is None and result.flags.owndata else result.copy())
