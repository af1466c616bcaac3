"""Numbers about a graph: counts, sizes, what a backward pass keeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..node import Node
from ..ops.facets import VIEWS, Role
from ..ops.record import OUTPUT
from .closed import ClosedGraph
from .snapshot import LEAVES, inputs_of, specs_of

if TYPE_CHECKING:
    from ..mode import Scope


@dataclass(frozen=True)
class Summary:
    """The counts and sizes of a graph.

    `nodes` counts all nodes, `computations` those that compute; `parameter_elements` the numbers in
    the parameters; `value_bytes` is the size of every computed value together, `saved_bytes` of
    those kept for a backward pass in every input and parameter.
    """

    nodes: int
    computations: int
    inputs: int
    parameters: int
    parameter_elements: int
    parameter_bytes: int
    value_bytes: int
    saved_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.nodes} nodes ({self.computations} computations, {self.inputs} inputs), "
            f"{self.parameters} parameters with {_grouped(self.parameter_elements)} elements "
            f"({_grouped(self.parameter_bytes)} bytes), {_grouped(self.value_bytes)} bytes of values, "
            f"{_grouped(self.saved_bytes)} bytes saved for backward"
        )


def _grouped(count: int) -> str:
    """Return digits in groups of three, or the formula of an unknown size."""
    return f"{count:,}" if isinstance(count, int) else str(count)


def summarize(graph: ClosedGraph) -> Summary:
    """Return the summary of a graph."""
    parameters = [n.spec for n in graph.parameters]
    values = [s for n in graph.computations for s in specs_of(n) if n.op is not OUTPUT]
    return Summary(
        nodes=len(graph.nodes),
        computations=len(graph.computations),
        inputs=len(graph.inputs) - len(parameters),
        parameters=len(parameters),
        parameter_elements=sum(s.size for s in parameters),
        parameter_bytes=sum(s.nbytes for s in parameters),
        value_bytes=sum(s.nbytes for s in values),
        saved_bytes=graph.saved_bytes(),
    )


def _is_body_only(node: Node) -> bool:
    """Return whether a composite has no derivative of its own, so that a backward pass runs through its body."""
    return node.op.body is not None and not node.op.differentiable


def saved_bytes(graph: ClosedGraph, wrt: Iterable[Node]) -> int:
    """Return the bytes of computed values that the ops' facts ask to keep when `wrt` are tracked."""
    return sum(s.nbytes for buffer in saved_values(graph, wrt) for s in specs_of(buffer))


def saved_values(graph: ClosedGraph, wrt: Iterable[Node]) -> dict[Node, Node]:
    """Return the nodes whose values are kept for a backward pass in `wrt`, with the node that first keeps each.

    Inputs, parameters and constants live anyway. A view is kept as what it is a view of. A checkpointed
    region keeps what comes in, whatever its policy. Composites whose backward pass runs through their body are
    opened: nodes may be of the graph with these expanded.
    """
    graph, before = graph.expand_where(_is_body_only), graph
    while graph is not before:
        graph, before = graph.expand_where(_is_body_only), graph
    tracked, buffers = _tracked(graph, wrt), _buffers(graph)
    found: dict[Node, Node] = {}
    for node in graph.computations:
        if node not in tracked or node.op is OUTPUT:
            continue
        region = _region(node)
        if region is None:
            needs, needs_out = node.op.save_plan(tuple(isinstance(e, Node) and e in tracked for e in node.inputs))
            kept = [e for i, e in enumerate(node.inputs) if i in needs and isinstance(e, Node)]
            kept += [node] if needs_out else []
        else:
            kept = [e for e in inputs_of(node) if _region(e) is not region]
        for e in kept:
            if buffers[e].op not in LEAVES:
                found.setdefault(buffers[e], node)
    return found


def _tracked(graph: ClosedGraph, wrt: Iterable[Node]) -> set[Node]:
    """Return the nodes that gradients flow through, from the outputs to `wrt`."""
    tracked = {n for n in wrt if n.spec.inexact}
    for node in graph.computations:
        flows = (node.op.differentiable or node.op is OUTPUT) and any(s.inexact for s in specs_of(node))
        if flows and any(e in tracked for e in inputs_of(node)):
            tracked.add(node)
    reached = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node in reached and node in tracked:
            reached.update(inputs_of(node))
    return tracked & reached


def _region(node: Node) -> Scope | None:
    """Return the outermost checkpointed region that a node is in."""
    found, scope = None, node.scope
    while scope is not None:
        if scope.kind == "checkpoint":
            found = scope
        scope = scope.parent
    return found


def _buffers(graph: ClosedGraph) -> dict[Node, Node]:
    """Return, for each node, the node whose buffer holds its value: itself, or the one that it is a view of."""
    found: dict[Node, Node] = {}
    strided: set[Node] = set()  # views whose elements do not lie one after the other
    for node in graph.nodes:
        role = node.op.role
        source = next(inputs_of(node), None)
        made_by = source if source is not None and node.op is OUTPUT else node
        in_order = role is Role.REINTERPRET or node.op.name == "reshape"
        if source is None or made_by.op.role not in VIEWS or (in_order and source in strided):
            found[node] = node
            continue
        found[node] = found[source]
        if source in strided or role is Role.STRIDE:
            strided.add(node)
    return found
