"""Common subexpressions: what is computed twice is computed once."""

from __future__ import annotations

from typing import Any

from ..core.graph import Graph
from ..core.graph_values import array_bytes, encode, opaque
from ..core.node import Node
from ..core.snapshot import CONSTANT, LEAVES, with_inputs
from .origins import note
from .rewrite import with_outputs

# Commutative ops whose result does not depend on the order in any bit: of maximum and minimum
# it may, where they choose between zeros of two signs.
_EXACTLY_COMMUTES = frozenset(
    {
        "add",
        "multiply",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    }
)


def cse(graph: Graph) -> Graph:
    """The graph in which equal computations, and equal constants, are one node.

    Two nodes are equal when op, attributes and inputs are, for ops that commute in either order.
    Values are the same in every bit.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x, y: (x + y) * (y + x))(wg.spec(()), wg.spec(()))
    >>> len(g.computations), len(wg.passes.cse(g).computations)
    (3, 2)
    """
    replace: dict[Node, Node] = {}
    seen: dict[Any, Node] = {}
    for node in graph.nodes:
        inputs = tuple([replace[e] if isinstance(e, Node) else e for e in node.inputs])
        if node.op in LEAVES and node.op is not CONSTANT:
            replace[node] = node
            continue
        same = all(a is b for a, b in zip(inputs, node.inputs))
        made = node if same else with_inputs(node, inputs)
        replace[node] = kept = seen.setdefault(_key(made), made)
        note(kept, "" if kept is made else "common subexpression", node)
    return with_outputs(graph, [replace[n] for n in graph.outputs])


def _key(node: Node) -> Any:
    if node.op is CONSTANT:
        return "constant", node.spec, array_bytes(node.attrs["value"])
    attrs = node.attrs.values()
    if opaque(tuple(attrs)):
        return id(node)
    inputs: list[Any] = [
        ("node", str(id(e))) if isinstance(e, Node) else (type(e).__name__, encode(e)) for e in node.inputs
    ]
    if node.op.name in _EXACTLY_COMMUTES:
        inputs.sort()
    return node.op, tuple(inputs), tuple((k, encode(v)) for k, v in sorted(node.attrs.items())), node.spec
