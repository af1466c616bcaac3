"""The graph inside a composite node: its body's snapshot for the specs of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..mode import Scope, get_mode, reset_mode, set_mode
from ..node import Node
from ..ops.op import spec_of_input
from ..ops.record import abstract_input
from ..tensor import Tensor
from .snapshot import Closed, Given, close, located, rebuild, topological
from .values import encode, opaque

_inner: dict[Any, Closed] = {}
_INNER_LIMIT = 4096


def inside(node: Node) -> Closed:
    """Return the snapshot of a composite's body; there is one per op, input specs and attributes."""
    if opaque(tuple(node.attrs.values())):
        return _trace_body(node)
    arguments = tuple(spec_of_input(e) if isinstance(e, Node) else encode(e) for e in node.inputs)
    key = (node.op, arguments, tuple((k, encode(v)) for k, v in sorted(node.attrs.items())))
    found = _inner.get(key)
    if found is None:
        if len(_inner) >= _INNER_LIMIT:
            _inner.clear()
        found = _inner[key] = _trace_body(node)
    return found


def _trace_body(node: Node) -> Closed:
    assert node.op.body is not None
    args = [abstract_input(e.spec) if isinstance(e, Node) else e for e in node.inputs]
    token = set_mode(get_mode().with_autocast(None).traced(None, tracing=False))
    try:
        out = node.op.body(*args, **node.attrs)
    finally:
        reset_mode(token)
    given = [Given(a, _argument_name(node, i), False) for i, a in enumerate(args) if isinstance(a, Tensor)]
    return close(out if isinstance(out, tuple) else (out,), given, {})


def _argument_name(node: Node, index: int) -> str:
    params = node.op.params
    fixed = len(params) - node.op.variadic
    return params[index] if index < fixed else f"{params[-1]}{index}"


def splice(node: Node, arguments: Sequence[Node]) -> list[Node]:
    """Return the nodes of a composite's results, with its inside on its arguments."""
    body = inside(node)
    replace = dict(zip(body.inputs, arguments, strict=True))
    entry = Scope("composite", node.op.name, node.scope, node.code, node.offset)

    def build(inner: Node, inputs: tuple[Any, ...]) -> Node:
        return located(inner.op, inputs, inner.attrs, inner.spec, inner.code, inner.offset, entry)

    rebuild(topological(body.outputs, body.inputs), replace, build)
    return [replace[n] for n in body.outputs]
