"""The nodes that loops compute, and what they read: values behind views, which loops only number otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....core.node import Node
from ....core.ops.facets import Role
from ..codegen.types import storage_type
from ..scalar import emitters


class Edge(NamedTuple):
    """An edge into a node: the value `base`, whose axes are the axes of the operand that `axes` names (-1: none).

    `axes` has, for every axis of the operand as the node sees it, the axis of `base`.
    """

    base: Node
    axes: tuple[int, ...]


def is_combining(node: Node) -> bool:
    """Return whether a node combines elements along axes, as loops do."""
    return "reduction" in node.op.facets


def loop_shape(node: Node) -> tuple[int, ...]:
    """Return the shape that a node's loop runs over."""
    shape: tuple[int, ...] = node.inputs[0].spec.shape if is_combining(node) else node.spec.shape
    return shape


def is_reduction(node: Node) -> bool:
    """Return whether loops compute the node as a reduction."""
    if not is_combining(node):
        return False
    (x,) = node.inputs
    return isinstance(x, Node) and _has_type(x) and _has_type(node) and x.spec.size > 0


def is_elementwise(node: Node) -> bool:
    """Return whether loops compute the node elementwise; an empty one counts as well."""
    if isinstance(node.spec, tuple) or node.spec.size == 0:
        return False
    if node.op.name == "one_hot":
        return _has_type(node)
    if node.op.kind != "elementwise" and node.op.role is not Role.BY_ELEMENT:
        return False
    return (
        _has_type(node) and all(_has_type(e) for e in node.inputs if isinstance(e, Node)) and emitters.supported(node)
    )


def _has_type(node: Node) -> bool:
    return not isinstance(node.spec, tuple) and storage_type(node.spec.dtype) is not None


def edge(entry: Node) -> Edge:
    """Follow permutations, broadcasts and axes of size 1 to the value itself."""
    if isinstance(entry.spec, tuple):  # several results: nothing is seen through them
        return Edge(entry, ())
    axes = tuple(range(entry.spec.ndim))
    while True:
        name = entry.op.name
        if name == "broadcast":
            inner = entry.inputs[0]
            if not isinstance(inner, Node):
                return Edge(entry, axes)
            lead = entry.spec.ndim - inner.spec.ndim
            kept = [
                -1 if a < lead or (inner.spec.shape[a - lead] == 1 and entry.spec.shape[a] != 1) else a - lead
                for a in range(entry.spec.ndim)
            ]
        elif name == "permute":
            inner = entry.inputs[0]
            kept = permutation(entry)
        elif entry.op.role is Role.RESHAPE:
            inner = entry.inputs[0]
            if not isinstance(inner, Node):
                return Edge(entry, axes)
            found = _ones(inner.spec.shape, entry.spec.shape)
            if found is None:
                return Edge(entry, axes)
            kept = found
        else:
            return Edge(entry, axes)
        axes = tuple(-1 if a < 0 else kept[a] for a in axes)
        entry = inner


def permutation(node: Node) -> list[int]:
    """Return the axes of a `permute`, all of them and from the left: the node names the last ones, from the right."""
    ndim, axes = node.spec.ndim, node.attrs["axes"]
    return [*range(ndim - len(axes)), *(a % ndim for a in axes)]


def _ones(old: Sequence[int], new: Sequence[int]) -> list[int] | None:
    """Return for each axis of `new` the axis of `old`, where they differ in axes of size 1 only."""
    if [n for n in old if n != 1] != [n for n in new if n != 1]:
        return None
    left = [i for i, n in enumerate(old) if n != 1]
    return [left.pop(0) if n != 1 else -1 for n in new]
