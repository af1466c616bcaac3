"""Epilogues: groups that are computed in the kernel of the product that they follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....core.graph.graph import Graph
from ....core.node import Node
from ..codegen.types import text_of
from ..plan.lowering import FOLLOWED
from ..plan.plan import View
from ..scalar import emitters
from .groups import Group, Grouping
from .loop_nodes import Edge, edge
from .schedule import literal_dtype

Edges = dict[Node, tuple[Edge | None, ...]]


def follow(graph: Graph, grouping: Grouping) -> None:
    """Let groups be computed in the kernels of products, where that is possible.

    Such a group only works on the product's elements. A group has one such product, its `anchor`.
    """
    for node in graph.nodes:
        if node.op.name not in FOLLOWED or isinstance(node.spec, tuple):
            continue
        for group in _readers(node, graph, grouping):
            if group.anchor is None and _may_follow(node, group, grouping) and grouping.follow(node, group):
                break


def _readers(node: Node, graph: Graph, grouping: Grouping) -> list[Group]:
    """Return the groups that read a value, also through views that cost nothing."""
    found: dict[Group, None] = {}
    stack = [node]
    while stack:
        for consumer in graph.consumers(stack.pop()):
            if consumer in grouping.group:
                found[grouping.group[consumer]] = None
            elif not isinstance(consumer.spec, tuple) and edge(consumer).base is not consumer:
                stack.append(consumer)
    return list(found)


def _may_follow(product: Node, group: Group, grouping: Grouping) -> bool:
    if group.reductions or product not in group.operands or product.spec.size == 0:
        return False
    if sorted(n for n in product.spec.shape if n > 1) != sorted(group.space):
        return False
    orders = set()
    for node in group.nodes:
        if node.op.name == "one_hot" or sum(d >= 0 for d in group.axes[node]) != len(group.space):
            return False
        for e in grouping.edges[node]:
            if e is not None and e.base is product:
                orders.add(group.seen(node, e))
    return len(orders) == 1


def operand_kind(x: View) -> str | None:
    """Return how a product's kernel reads an operand of its epilogue; None where it cannot."""
    strides = [0 if n == 1 else s for n, s in zip(x.shape, x.strides)]
    if not any(strides):
        return "scalar"
    if strides[-1] == 0:
        return "row" if x.shape[-1] > 1 or len(x.shape) > 1 else None
    if strides[-1] != 1:
        return None
    return "full" if any(strides[:-1]) else "column"


def epilogue_key(
    product: Node,
    nodes: Sequence[Node],
    edges: Edges,
    refs: dict[tuple[Node, int], int],
    stored: Sequence[int],
    operands: Sequence[View],
) -> str:
    """Return the key that names all that the code of an epilogue depends on."""
    numbers = {product: "p", **{n: f"v{i}" for i, n in enumerate(nodes)}}
    parts = [text_of(product.spec.dtype), *(text_of(v.dtype) for v in operands)]
    for n in nodes:
        # Of a number more is known than of what an array holds, and the code relies on it.
        args = [
            f"{'#' if e is None else 'o'}{refs[n, i]}"
            if (n, i) in refs
            else repr(n.inputs[i])
            if e is None
            else numbers[e.base]
            for i, e in enumerate(edges[n])
        ]
        parts.append(f"{n.op.name} {emitters.code_attrs(n) or ''} {args} {text_of(n.spec.dtype)}")
    return "; ".join([*parts, str(list(stored))])


def emitter(
    product: Node,
    nodes: Sequence[Node],
    edges: Edges,
    refs: dict[tuple[Node, int], int],
    stored: Sequence[int],
    operands: Sequence[View],
) -> Callable[[Any, Any, Sequence[Any]], list[Any]]:
    """Return the function that writes an epilogue: see :class:`wengert.execute.native.plan.lowering.Epilogue`.

    `refs` has the operand's number for (node, position) where a node takes one, `stored` the results by
    their place after the product among the nodes.
    """
    order = [product, *nodes]

    def emit(b: Any, x: Any, given: Sequence[Any]) -> list[Any]:
        lanes = x.type.lanes
        values: dict[Node, Any] = {product: emitters.rounded(b, x, product.spec.dtype)}
        for n in nodes:
            args = []
            for i, e in enumerate(edges[n]):
                if e is None and (n, i) not in refs:
                    type = emitters.compute_type(literal_dtype(n)).vector(lanes)
                    args.append(b.const(type, n.inputs[i]))
                elif e is not None and e.base in values:
                    args.append(values[e.base])
                else:
                    k = refs[n, i]
                    args.append(b.splat(emitters.to_compute(b, given[k], operands[k].dtype), lanes))
            values[n] = emitters.emit(b, n, args)
        return [emitters.to_storage(b, values[order[k]], order[k].spec.dtype) for k in stored]

    return emit
