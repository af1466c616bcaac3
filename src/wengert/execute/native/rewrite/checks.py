"""Checks of fused loops: indices out of range, classes that do not exist, numbers that are no probabilities.

A loop compares an index with every place along an axis, so a wrong one would pass unseen; so would a number
that is no probability. How many are wrong becomes one more result of the graph; where it is not 0, the
operation's own error is raised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....core.graph.graph import Graph
from ....core.graph.snapshot import located
from ....core.node import Node
from ....core.ops.facets import VIEWS, Role
from ....core.ops.op import NoDerivative, Op
from ....core.spec import int32, int64, spec_of
from ....ops.index.indices import check_range
from ....passes.rewrite import build, with_outputs
from ..plan.host_calls import check_call, range_call
from ..plan.plan import HostCall, View


class Check(NamedTuple):
    """A check: `wrong` counts the elements of `given` that the node `of` refuses."""

    of: Node
    given: Node
    wrong: Node

    def call(self, when: View) -> HostCall:
        """Return the step that raises the error where one of the numbers in `when` is not 0; it reads the index."""
        if self.of.op is _PLACE:
            return range_call(self.of.attrs["name"], (_size(self.of),), self.of.attrs["axis"], when)
        return check_call(self.of, when)


def _place(index: Any, size: int, name: str, axis: int) -> Any:
    check_range(name, (index,), (size,), axis)
    return np.where(index < 0, index.astype(np.int64) + size, index).astype(np.int32)


_PLACE = Op(
    "place(index, size; name, axis)",
    "general",
    _place,
    infer=lambda index, *_, **__: spec_of(index.shape, int32),
    facts={"index": NoDerivative("a place is an integer")},
    doc="Indices that may count from the end as places from the start; `name` and `axis` are for the error.",
    listed=False,
    role=Role.BY_ELEMENT,
    bound="size",
)


def place_from_start(index: Node, size: int, axis: int, like: Node) -> Node:
    """Return an index that may count from the end, counted from the start, as int32; no valid place if it has none."""
    if is_checked(index, size):
        return build("cast", (index,), like, dtype=int32)
    attrs = {"name": called(like), "axis": axis}
    return located(_PLACE, (index, size), attrs, spec_of(index.spec.shape, int32), like.code, like.offset, like.scope)


def called(node: Node) -> str:
    """Return what the user called: the outermost composite that the node stands in, or the op itself."""
    name, scope = node.op.name, node.scope
    while scope is not None:
        if scope.kind == "composite":
            name = scope.name
        scope = scope.parent
    return name


def checked(graph: Graph) -> tuple[Graph, list[Check]]:
    """Return the graph with what its checks need as further outputs, and the checks."""
    checks = []
    for node in graph.nodes:
        given = node.inputs[0] if _refuses(node.op) else None
        if isinstance(given, Node) and given.spec.size and not _is_known(node, given):
            checks.append(Check(node, given, _count(_outside(node, given), node)))
    if not checks:
        return graph, checks
    return with_outputs(graph, [*graph.outputs, *(n for c in checks for n in (c.given, c.wrong))]), checks


def _refuses(op: Op) -> bool:
    """Return whether an op takes indices or probabilities, of which some are none."""
    return "bound" in op.facets or op.name == "probability"


def _size(node: Node) -> int:
    """Return the number of places or classes."""
    name = node.op.facets["bound"]
    size: int = node.attrs[name] if name in node.attrs else node.inputs[node.op.params.index(name)]
    return size


def is_checked(index: Node, size: int) -> bool:
    """Return whether an index was taken from one that is checked itself, for an axis no longer than this one."""
    while (index.op.role in VIEWS or index.op.name == "cast") and isinstance(index.inputs[0], Node):
        index = index.inputs[0]
    return "bound" in index.op.facets and index.op.role is Role.BY_ELEMENT and _size(index) <= size


def _is_known(node: Node, given: Node) -> bool:
    return node.op.name != "probability" and is_checked(given, _size(node))


def _outside(node: Node, index: Node) -> Node:
    """Return the mask of wrong elements: indices of no place or class, numbers that are no probabilities."""
    if node.op.name == "probability":
        return build("logical_or", (build("less", (index, 0), node), build("greater", (index, 1), node)), node)
    size = _size(node)
    outside = build("greater_equal", (index, size), node)
    if index.spec.dtype.kind == "i":
        lowest = -size if node.op is _PLACE else 0
        outside = build("logical_or", (build("less", (index, lowest), node), outside), node)
    if node.op.name == "class_index":
        counted = build("not_equal", (index, node.attrs["ignore_index"]), node)
        outside = build("logical_and", (counted, outside), node)
    return outside


def _count(outside: Node, node: Node) -> Node:
    counted = build("cast", (outside,), node, dtype=int64)
    axes = tuple(range(-outside.spec.ndim, 0))
    return build("sum", (counted,), node, axis=axes, keepdims=False) if axes else counted
