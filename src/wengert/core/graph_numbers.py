"""Numbers about a graph: counts, sizes, what a backward pass keeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .node import Node
from .record import OUTPUT
from .snapshot import LEAVES, inputs_of, specs_of

if TYPE_CHECKING:
    from .graph import Graph


@dataclass(frozen=True)
class Summary:
    """Numbers about a graph.

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
    """Digits in groups of three; a formula where sizes are unknown."""
    return f"{count:,}" if isinstance(count, int) else str(count)


def summarize(graph: Graph) -> Summary:
    """The summary of a graph."""
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


def is_body_only(node: Node) -> bool:
    """Whether a composite has no derivative of its own, so that a backward pass runs through its body."""
    return node.op.body is not None and not node.op.differentiable


def saved_bytes(graph: Graph, wrt: Iterable[Node]) -> int:
    """The bytes of computed values that the ops' facts ask to keep when `wrt` are tracked."""
    tracked = {n for n in wrt if n.spec.inexact}
    kept: set[Node] = set()
    for node in graph.computations:
        flags = tuple(isinstance(e, Node) and e in tracked for e in node.inputs)
        if not any(flags) or not node.op.differentiable or not any(s.inexact for s in specs_of(node)):
            continue
        tracked.add(node)
        needs, needs_out = node.op.save_plan(flags)
        kept.update(e for i, e in enumerate(node.inputs) if i in needs and isinstance(e, Node))
        if needs_out:
            kept.add(node)
    buffers = {_buffer(n) for n in kept}
    return sum(s.nbytes for n in buffers if n.op not in LEAVES for s in specs_of(n))


def _buffer(node: Node) -> Node:
    """The node whose buffer a saved value is: a broadcast is kept as what it is a broadcast of."""
    while node.op.name == "broadcast":
        (node,) = inputs_of(node)
    return node
