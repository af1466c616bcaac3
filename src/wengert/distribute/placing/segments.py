"""Segments: what a rank computes between two collectives, as graphs inside of its program.

What a kernel adds up, and in which order, depends on what is computed beside it: sums of products become one product,
loops over the same sizes become one loop. A graph inside is compiled by itself. So a segment gives the same bits in any
program that has it, however many others, of other blocks, stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from ...core.graph.graph import Graph
from ...core.graph.snapshot import LEAVES, constant_node, input_node, located
from ...core.node import Node
from ...core.ops.op import TABLE
from ...core.ops.record import OUTPUT
from ...core.spec import Spec
from ...ops.collective.definitions import own_part, pcast

# The collectives for which no rank waits: each has what it needs.
_STILL = frozenset({own_part, pcast})


def outlined(graph: Graph, kind: Callable[[Node, Sequence[Node]], Hashable]) -> Graph:
    """Return a graph whose nodes but collectives are in graphs inside, one for each segment.

    `kind` is called for every node in order, with its operands, and says what goes together: a segment is nodes of one
    kind that have as many collectives before them that ranks wait for, one after the other.
    """
    segment: dict[Node, tuple[int, Hashable]] = {}
    passed: dict[Node, int] = {}
    kinds: dict[Node, Hashable] = {}
    members: dict[tuple[int, Hashable], list[Node]] = {}
    for node in graph.nodes:
        operands = [e for e in node.inputs if isinstance(e, Node)]
        kinds[node] = of_kind = kind(node, operands)
        passed[node] = max((passed[e] for e in operands), default=0)
        if "collective" in node.op.facets:
            # What follows one is in another segment than what it follows: of a later step, or of another kind.
            passed[node] += node.op not in _STILL or any(kinds[e] == of_kind for e in operands)
        elif node.op not in LEAVES:
            segment[node] = key = passed[node], of_kind
            members.setdefault(key, []).append(node)
    replace: dict[Node, Node] = {}
    wanted = set(graph.outputs)
    # A segment is written down with its first node that is asked for: what it needs has fewer collectives before it, or
    # is of another kind, which takes nothing from it.
    waiting = list(reversed(graph.outputs))
    while waiting:
        node = waiting[-1]
        if node in replace:
            waiting.pop()
            continue
        of = segment.get(node)
        inside = [node] if of is None else members[of]
        operands = [e for n in inside for e in n.inputs if isinstance(e, Node)]
        given = dict.fromkeys(e for e in operands if of is None or segment.get(e) != of)
        needed = [e for e in given if e not in replace]
        if needed:
            waiting += needed
            continue
        waiting.pop()
        if of is not None:
            _write(inside, list(given), _read_outside(graph, inside, wanted), replace)
        elif node.op in LEAVES:
            replace[node] = node
        else:
            inputs = tuple(replace[e] if isinstance(e, Node) else e for e in node.inputs)
            replace[node] = located(node.op, inputs, node.attrs, node.spec, node.code, node.offset, node.scope)
    return Graph([replace[n] for n in graph.outputs], graph.inputs, graph.name, out_structure=graph.out_structure)


def _read_outside(graph: Graph, inside: Sequence[Node], wanted: set[Node]) -> list[Node]:
    members = set(inside)
    found = [n for n in inside if n in wanted or any(c not in members for c in graph.consumers(n))]
    return [n for n in found if isinstance(n.spec, Spec)]


def _write(inside: Sequence[Node], given: Sequence[Node], results: Sequence[Node], replace: dict[Node, Node]) -> None:
    """Write down a segment: a graph of its own, and the node that has it."""
    own: dict[Node, Node] = {}
    inputs, outer = [], []
    for node in given:
        if node.op in LEAVES and node.op.name == "constant":
            own[node] = node
        else:
            own[node] = made = input_node(node.spec)
            inputs.append(made)
            outer.append(replace[node])
    for node in inside:
        operands = tuple(own[e] if isinstance(e, Node) else e for e in node.inputs)
        own[node] = located(node.op, operands, node.attrs, node.spec, node.code, node.offset, node.scope)
    body = Graph([own[n] for n in results], inputs)
    first = inside[0]
    specs = tuple(n.spec for n in results)
    zero = constant_node(np.zeros((), np.int64))
    attrs = {"branches": (body,)}
    made = located(TABLE["switch"], (zero, *outer), attrs, specs, first.code, first.offset, first.scope)
    for i, node in enumerate(results):
        replace[node] = located(OUTPUT, (made,), {"index": i}, node.spec, node.code, node.offset, node.scope)
