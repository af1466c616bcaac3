"""Activations in 8 bits: what the backward pass reads of the forward pass, kept as integers with scales.

Blocks of up to 256 elements share a scale, their largest magnitude over 127, and each element is rounded to the nearest
multiple of it: its error is at most a 254th of the largest of its block. Only values that a gradient is *linear* in
are kept so, operands of products and factors: the error of the gradient is then in proportion, and nothing is divided
by a number that was rounded to 0 (as in Chakrabarti and Moseley, "Backprop with approximate activations", NeurIPS 2019;
Chen et al., "ActNN", ICML 2021). The forward pass reads the values themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....core.graph.graph import Graph
from ....core.graph.snapshot import LEAVES, located, with_inputs
from ....core.node import Node
from ....core.ops.facets import VIEWS, Role
from ....core.ops.op import NoDerivative, Op
from ....core.spec import float32, int8, spec_of
from ....passes.rewrite import build, with_outputs
from ..plan.lowering import Lowering, lowers
from ..plan.plan import View

# The most elements that share a scale, and the fewest; values with fewer elements than that are kept as they are.
_BLOCK, _LEAST_BLOCK, _LEAST = 256, 32, 4096

_KEPT = Op(
    "kept(x)",
    "general",
    lambda x: x,
    infer=lambda x: spec_of(x.shape, x.dtype),
    facts={"x": NoDerivative("it is there for compiled programs alone")},
    doc="The value itself, which is in memory: no loop computes it together with what reads it.",
    listed=False,
)


@lowers("kept")
def _kept(low: Lowering, node: Node) -> View:
    return low.view(node.inputs[0])


def in_8_bits(graph: Graph) -> Graph:
    """Return a traced graph whose backward pass reads activations that were rounded to 8 bits."""
    outputs = frozenset(graph.outputs)
    decoded: dict[Node, Node] = {}
    for node in graph.nodes:
        if node not in outputs and _is_activation(node):
            readers = list(_backward_readers(graph, node))
            if readers and all(map(_is_linear, readers)):
                decoded[node] = _decoded(node)
    if not decoded:
        return graph
    replace: dict[Node, Node] = {}

    def of_backward(entry: Node) -> Node:
        """Return what a node of the backward pass reads in the place of another."""
        if entry in decoded:
            return decoded[entry]
        if entry.op.role in VIEWS and len(entry.inputs) == 1 and isinstance(entry.inputs[0], Node):
            source = of_backward(entry.inputs[0])
            if source is not replace.get(entry.inputs[0], entry.inputs[0]):
                return with_inputs(entry, (source,))
        return replace.get(entry, entry)

    for node in graph.nodes:
        read = of_backward if is_backward(node) and node.op.role not in VIEWS else lambda e: replace.get(e, e)
        inputs = tuple(read(e) if isinstance(e, Node) else e for e in node.inputs)
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            replace[node] = with_inputs(node, inputs)
    return with_outputs(graph, [replace.get(n, n) for n in graph.outputs])


def is_backward(node: Node) -> bool:
    """Return whether a node is of a backward pass."""
    scope = node.scope
    while scope is not None:
        if scope.kind == "gradient":
            return True
        scope = scope.parent
    return False


def _is_activation(node: Node) -> bool:
    """Return whether a node is a float32 value of the forward pass that is worth keeping in 8 bits."""
    if node.op in LEAVES or isinstance(node.spec, tuple) or node.spec.dtype != float32 or is_backward(node):
        return False
    return node.op.role not in VIEWS and node.spec.size >= _LEAST and node.spec.size % _LEAST_BLOCK == 0


def _backward_readers(graph: Graph, node: Node) -> Iterator[Node]:
    """Yield the nodes of the backward pass that read a value, also through views."""
    stack = [node]
    while stack:
        for reader in graph.consumers(stack.pop()):
            if reader.op.role in VIEWS and len(reader.inputs) == 1:
                stack.append(reader)
            elif is_backward(reader):
                yield reader


def _is_linear(reader: Node) -> bool:
    return reader.op.role is Role.PRODUCT or (reader.op.name == "multiply" and reader.inputs[0] is not reader.inputs[1])


def _decoded(node: Node) -> Node:
    """Return the value that is made of the integers and the scales."""
    size = node.spec.size
    block = _BLOCK
    while size % block:
        block //= 2
    parts = build("reshape", (node,), node, shape=(size // block, block))
    largest = build("max", (build("abs", (parts,), node),), node, axis=(-1,), keepdims=True)
    scale = build("multiply", (largest, 1.0 / 127.0), node)
    divisor = build("where", (build("equal", (scale, 0.0), node), 1.0, scale), node)
    spread = build("broadcast", (divisor,), node, shape=parts.spec.shape)
    codes = build("cast", (build("round", (build("divide", (parts, spread), node),), node),), node, dtype=int8)
    codes, scale = (_in_memory(n) for n in (codes, scale))
    numbers = build("cast", (codes,), node, dtype=np.dtype(np.float32))
    found = build("multiply", (numbers, build("broadcast", (scale,), node, shape=parts.spec.shape)), node)
    return build("reshape", (found,), node, shape=node.spec.shape)


def _in_memory(node: Node) -> Node:
    return located(_KEPT, (node,), {}, node.spec, node.code, node.offset, node.scope)
