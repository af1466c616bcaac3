"""Dead code: what a graph need not compute, or need not be fed."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.errors import GraphError, fail
from ..core.graph.graph import Graph


def dce(graph: Graph, outputs: Iterable[int] | None = None, *, inputs: bool = False) -> Graph:
    """Return the graph of only some outputs, and of only what these need.

    Parameters
    ----------
    outputs: positions of the outputs to keep, in order; None keeps all.
    inputs: also drop inputs that nothing reads. The graph is then fed positionally.

    Raises GraphError for an output that the graph does not have.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x, y: (wg.exp(x), wg.exp(x) * y))(wg.spec(()), wg.spec(()))
    >>> print(wg.passes.dce(g, [0], inputs=True))
    graph(x: f32[]) -> f32[]
      a: f32[] = exp x
      return a
    """
    count = len(graph.outputs)
    kept = range(count) if outputs is None else list(outputs)
    for i in kept:
        if not -count <= i < count:
            fail(GraphError, f"output {i} of a graph with {count} outputs")
    roots = [graph.outputs[i] for i in kept]
    whole = outputs is None
    pruned = Graph(
        roots,
        graph.inputs,
        graph.name,
        bound=graph.bound,
        in_structure=graph.in_structure,
        out_structure=graph.out_structure if whole else None,
        static=graph.static,
    )
    if not inputs:
        return pruned
    read = {e for node in pruned.nodes for e in node.inputs if not isinstance(e, (bool, int, float, complex))}
    used = [n for n in pruned.inputs if n in read or n in roots]
    if len(used) == len(pruned.inputs):
        return pruned
    bound = {n: t for n, t in pruned.bound.items() if n in used}
    return Graph(roots, used, graph.name, bound=bound, out_structure=pruned.out_structure)
