"""The replay of a snapshot's nodes on tensors, by which graphs are called, batched and differentiated as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT
from ...core.mode import Scope, get_mode, set_mode
from ...core.node import Node, make_node
from ...core.ops.operands import run_elementwise
from ...core.ops.record import OUTPUT, bind, graph_input
from ...core.state.observer import Observer, observer, observers
from ...core.tensor import Tensor, wrap

T = TypeVar("T")


def replay(graph: Graph, feeds: Sequence[Tensor]) -> list[Tensor]:
    """Run a graph on tensors of its inputs' specs, so that every node is recorded again."""
    values: dict[Node, Any] = dict(zip(graph.inputs, feeds, strict=True))
    outer = get_mode()
    mode = outer.as_recorded(outer.grad)
    last_uses = graph.last_uses
    try:
        for node in graph.nodes:
            if node not in values:
                scope = Scope("module", node.path, outer.scope) if node.path else outer.scope
                set_mode(mode.within(scope))
                values[node] = record_again(node, [values[e] if isinstance(e, Node) else e for e in node.inputs])
            for done in last_uses.get(node, ()):
                del values[done]
    finally:
        set_mode(outer)
    return [plain_value(values[n]) for n in graph.outputs]


def record_again(node: Node, args: Sequence[Any]) -> Any:
    """Run a snapshot's node on tensors, so that it is recorded anew."""
    if observers and (seen := observer()) is not None:
        return at_its_line(seen, node, lambda: _record_again(node, args))
    return _record_again(node, args)


def at_its_line(seen: Observer, node: Node, run: Callable[[], T]) -> T:
    """Return the result of a graph's node, which an observer sees at the line that made the node.

    `run` gives a tensor, or what has one as its `value`.
    """
    outer = seen.enter(node)
    try:
        out = run()
    finally:
        seen.leave(outer)
    value = getattr(out, "value", out)
    made = value.node if isinstance(value, Tensor) else None
    if made is not None and made.requires_grad and made.op is node.op and node.source is not None:
        made.code, made.offset = node.source, 0
        if node.scope is not None and node.scope.within("gradient"):
            made.scope = node.scope
    return out


def _record_again(node: Node, args: Sequence[Any]) -> Any:
    op = node.op
    if op is CONSTANT:
        return wrap(node.attrs["value"])
    if op is OUTPUT:
        return args[0][node.attrs["index"]]
    if op.kind in ("composite", "control"):
        return op.front(*map(plain_value, args), **node.attrs)
    if op.kind == "elementwise" and any(isinstance(a, Tensor) and a.shape != node.spec.shape for a in args):
        return run_elementwise(op, args, node.attrs)  # an operand taken as it was before its broadcast
    out = bind(op, args, node.attrs)
    if op.name == "broadcast" and out.node is None:
        # A constant's broadcast: a node all the same, as an operation that broadcasts records it.
        out.node = make_node(op, (graph_input(args[0]),), node.attrs, (), out.spec, None, 0, None, tracked=False)
    return out


def plain_value(x: Any) -> Any:
    """Return a tensor without the node that only this run's own operations are to see."""
    has_own = isinstance(x, Tensor) and not x.is_abstract and x.node is not None and not x.requires_grad
    return wrap(x._array) if has_own else x
