"""Images with their channels behind: the layout of XLA's convolutions on processors, for all that is done between them.

A graph has images as (N, C, *S). XLA turns operands and results of a convolution around, and does not see that what
stands between two of them (norms, activations, residuals and their derivatives) may as well be done the other way. Here
such nodes get values with the channels behind; the permutations that are left around convolutions are those that XLA
takes away.
"""

from __future__ import annotations

from typing import Any

from ...core.graph.graph import Graph
from ...core.graph.snapshot import LEAVES, located, specs_of, with_inputs
from ...core.node import Node
from ...core.ops.facets import Role
from ...core.ops.op import TABLE
from ...core.spec import Spec
from .rules import IMAGES


def channels_last(graph: Graph) -> Graph:
    """Return the same graph with images between its convolutions and pools in the other layout."""
    if not any(node.op.name in IMAGES for node in graph.nodes):
        return graph
    turned, inputs = _Turned(), set(graph.inputs)
    for node in graph.nodes:
        turned.add(node, node in inputs or node.op in LEAVES)
    return Graph([turned.plain(n) for n in graph.outputs], graph.inputs, graph.name)


class _Turned:
    """The nodes of the new graph for those of the old one: as they were, and with channels behind."""

    def __init__(self) -> None:
        self._plain: dict[Node, Node] = {}
        # For each number of spatial axes.
        self._last: dict[tuple[Node, int], Node] = {}
        # The nodes whose value has its channels behind, with the number of spatial axes.
        self._axes: dict[Node, int] = {}

    def add(self, node: Node, is_leaf: bool) -> None:
        """Take in a node, after its operands."""
        if is_leaf:
            self._plain[node] = node
            return
        count = next((self._axes[e] for e in node.inputs if isinstance(e, Node) and e in self._axes), 0)
        made = self._moved(node, count) if count and isinstance(node.spec, Spec) else None
        if made is not None:
            self._last[node, count], self._axes[node] = made, count
            return
        inputs = tuple(self.plain(e) if isinstance(e, Node) else e for e in node.inputs)
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        self._plain[node] = node if same else with_inputs(node, inputs)
        reduced = self._reduced(node, count) if count else None
        if reduced is not None:
            self._plain[node] = reduced
        if node.op.name in IMAGES and node.spec.ndim >= len(node.attrs["stride"]) + 2:
            self._axes[node] = len(node.attrs["stride"])

    def plain(self, node: Node) -> Node:
        """Return a node's value as the old graph has it."""
        found = self._plain.get(node)
        if found is None:
            count = self._axes[node]
            ndim = node.spec.ndim
            back = (*range(ndim - count - 1), ndim - 1, *range(ndim - count - 1, ndim - 1))
            found = self._plain[node] = _permuted(self._last[node, count], back)
        return found

    def last(self, node: Node, count: int) -> Node:
        """Return a node's value with the channels behind."""
        found = self._last.get((node, count))
        if found is None:
            spec = node.spec
            source = node.inputs[0] if node.op is TABLE["broadcast"] else None
            if isinstance(source, Node) and node not in self._axes:
                small = self.plain(source)
                ones = (*(1,) * (spec.ndim - small.spec.ndim), *small.spec.shape)
                shaped = _made("reshape", small, ones, {"shape": ones})
                turned = _permuted(shaped, _forth(spec.ndim, count))
                shape = tuple(spec.shape[a] for a in _forth(spec.ndim, count))
                found = _made("broadcast", turned, shape, {"shape": shape})
            else:
                found = _permuted(self.plain(node), _forth(spec.ndim, count))
            self._last[node, count] = found
        return found

    def _moved(self, node: Node, count: int) -> Node | None:
        """Return an elementwise node on values with channels behind; None for any other."""
        shape = node.spec.shape
        operands = [e for e in node.inputs if isinstance(e, Node)]
        if node.op.role is not Role.BY_ELEMENT or any(specs_of(e)[0].shape != shape for e in operands):
            return None
        inputs = tuple(self.last(e, count) if isinstance(e, Node) else e for e in node.inputs)
        spec = node.spec.with_shape(tuple(shape[a] for a in _forth(len(shape), count)))
        return located(node.op, inputs, node.attrs, spec, node.code, node.offset, node.scope)

    def _reduced(self, node: Node, count: int) -> Node | None:
        """Return a reduction of a value with channels behind whose result is the same; None where it is not."""
        (x, *others) = node.inputs
        facets = node.op.facets
        is_reduction = "reduction" in facets or facets.get("dependence") == "axes"
        if not is_reduction or others or x not in self._axes or node.attrs.get("keepdims"):
            return None
        ndim = x.spec.ndim
        order = _forth(ndim, count)
        reduced = {a % ndim for a in node.attrs["axis"]}
        left = [a for a in order if a not in reduced]
        if left != sorted(left):
            return None
        axis = tuple(i - ndim for i, a in enumerate(order) if a in reduced)
        attrs = {**node.attrs, "axis": axis}
        return located(node.op, (self.last(x, count),), attrs, node.spec, node.code, node.offset, node.scope)


def _forth(ndim: int, count: int) -> tuple[int, ...]:
    """Return the old axes in their new order."""
    lead = ndim - count - 1
    return (*range(lead), *range(lead + 1, ndim), lead)


def _permuted(x: Node, order: tuple[int, ...]) -> Node:
    ndim = x.spec.ndim
    return _made("permute", x, tuple(x.spec.shape[a] for a in order), {"axes": tuple(a - ndim for a in order)})


def _made(name: str, x: Node, shape: tuple[int, ...], attrs: dict[str, Any]) -> Node:
    return located(TABLE[name], (x,), attrs, x.spec.with_shape(shape), x.code, x.offset, x.scope)
