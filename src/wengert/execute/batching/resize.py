"""Graphs for other numbers of rows: a graph that was traced for one number is written for another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT, PARAMETER, constant_node, input_node, located
from ...core.node import Node
from ...core.ops.op import INPUT
from ...core.spec import Spec, spec_of


class _Unknown(Exception):
    """A part of the graph that says nothing of another number of rows."""


def resized(graph: Graph, rows: int, wanted: int) -> Graph | None:
    """Return a graph that was traced for a prime number of rows for another number; None if that cannot be told.

    No other axis of the graph may have a size that is a multiple of the prime.
    """
    made: dict[Node, Node] = {}
    try:
        for node in graph.nodes:
            made[node] = _node(node, made, rows, wanted)
    except _Unknown:
        return None
    return Graph([made[n] for n in graph.outputs], [made[n] for n in graph.inputs], graph.name)


def _node(node: Node, made: dict[Node, Node], rows: int, wanted: int) -> Node:
    if node.op in (INPUT, PARAMETER):
        return input_node(_spec(node.spec, rows, wanted), node.attrs.get("name", ""), node.op is PARAMETER)
    if node.op is CONSTANT:
        value = node.attrs["value"]
        return constant_node(_constant(value, rows, wanted)) if _names(value.shape, rows) else node
    attrs = {name: _attribute(value, rows, wanted) for name, value in node.attrs.items()}
    inputs = tuple([made[e] if isinstance(e, Node) else e for e in node.inputs])
    specs: Any = node.spec
    spec = tuple(_spec(s, rows, wanted) for s in specs) if isinstance(specs, tuple) else _spec(specs, rows, wanted)
    return located(node.op, inputs, attrs, spec, node.code, node.offset, node.scope)


def _names(shape: tuple[int, ...], rows: int) -> bool:
    return any(d and d % rows == 0 for d in shape)


def _spec(spec: Spec | Any, rows: int, wanted: int) -> Spec:
    return spec_of(tuple([_size(d, rows, wanted) for d in spec.shape]), spec.dtype)


def _size(d: int, rows: int, wanted: int) -> int:
    return d // rows * wanted if d and d % rows == 0 else d


def _attribute(value: Any, rows: int, wanted: int) -> Any:
    if type(value) is int:
        return _size(value, rows, wanted)
    if type(value) is tuple:
        return tuple([_attribute(v, rows, wanted) for v in value])
    if isinstance(value, Graph):  # the body of a loop, which may have the rows in it
        made = resized(value, rows, wanted)
        if made is None:
            raise _Unknown
        return made
    if value is None or isinstance(value, (bool, float, complex, str, np.dtype)):
        return value
    raise _Unknown


def _constant(value: Any, rows: int, wanted: int) -> Any:
    shape = tuple([_size(d, rows, wanted) for d in value.shape])
    flat = value.reshape(-1)
    if flat.size and (flat == flat[0]).all():
        return np.full(shape, flat[0], value.dtype)
    if flat.size == rows and np.array_equal(flat, np.arange(rows)):
        return np.arange(wanted, dtype=value.dtype).reshape(shape)
    raise _Unknown
