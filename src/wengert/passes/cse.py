"""Common subexpressions: what is computed twice is computed once."""

from __future__ import annotations

from typing import Any

from ..core.graph.graph import Graph
from ..core.graph.snapshot import CONSTANT, LEAVES
from ..core.graph.values import array_bytes, encode, opaque
from ..core.node import Node
from .origins import note
from .rewrite import moved_onto, with_outputs


def cse(graph: Graph) -> Graph:
    """Return the graph in which equal computations, and equal constants, are one node.

    Two nodes are equal when op, attributes and inputs are, for ops that commute in either order.
    Values are the same in every bit. Collectives stay as they are.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x, y: (x + y) * (y + x))(wg.spec(()), wg.spec(()))
    >>> len(g.computations), len(wg.passes.cse(g).computations)
    (3, 2)
    """
    replace: dict[Node, Node] = {}
    seen: dict[Any, Node] = {}
    for node in graph.nodes:
        if node.op in LEAVES and node.op is not CONSTANT:
            continue
        made = moved_onto(node, replace)
        kept = seen.setdefault(_key(made), made)
        if kept is not node:
            replace[node] = kept
            note(kept, "" if kept is made else "common subexpression", node)
    return with_outputs(graph, [replace.get(n, n) for n in graph.outputs])


def _key(node: Node) -> Any:
    op, attrs = node.op, node.attrs
    if op is CONSTANT:
        return "constant", node.spec, array_bytes(attrs["value"])
    if "collective" in op.facets or (attrs and opaque(tuple(attrs.values()))):
        return id(node)  # what is gathered a second time is not kept in between
    inputs: list[tuple[str, Any]] = [("node", id(e)) if isinstance(e, Node) else _value(e) for e in node.inputs]
    if op.algebra.commutes is True:
        inputs.sort()
    named = tuple([(name, _value(attrs[name])) for name in sorted(attrs)]) if attrs else ()
    spec = node.spec
    # By its parts: their hashes are not computed in Python.
    return op, tuple(inputs), named, spec if isinstance(spec, tuple) else (spec.dtype, spec.shape)


def _value(value: Any) -> tuple[str, str]:
    """Return a literal or attribute as a key to compare by."""
    kind = type(value)
    if kind in (int, bool, float) or (kind is tuple and all(type(v) is int for v in value)):
        return kind.__name__, repr(value)
    return kind.__name__, encode(value)
