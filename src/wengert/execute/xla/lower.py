"""Lowering: a graph as a function of JAX's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT
from ...core.node import Node
from ...core.spec import Spec
from ...transforms.tracing.host import SHOW
from . import control, elementwise, indexing, linear_algebra, products, random_numbers, reductions, structure
from .api import experimental, jax, jnp
from .rules import Trace, rule_of

# The modules that declare rules.
RULED = (control, elementwise, indexing, linear_algebra, products, random_numbers, reductions, structure)


def lower(graph: Graph, args: Sequence[Any], trace: Trace) -> list[Any]:
    """Return the outputs of a graph of primitives for JAX's arrays."""
    values: dict[Node, Any] = dict(zip(graph.inputs, args, strict=True))
    for node in graph.nodes:
        if node not in values:
            operands = [values[e] if isinstance(e, Node) else e for e in node.inputs]
            values[node] = _value(trace, node, operands)
            trace.follow(node)
    return [values[n] for n in graph.outputs]


def _value(trace: Trace, node: Node, operands: list[Any]) -> Any:
    if node.op is CONSTANT:
        return jnp.asarray(np.asarray(node.attrs["value"]))
    rule = rule_of(node.op)
    if rule is None:
        return _called_back(trace, node, operands)
    found = rule(trace, node, *operands)
    _compare(node, found)
    return found


def _compare(node: Node, found: Any) -> None:
    """Hold a rule to the shape and the dtype that the graph says."""
    if node.op.name == "output":
        return
    specs = node.spec if isinstance(node.spec, tuple) else (node.spec,)
    values = found if isinstance(node.spec, tuple) else (found,)
    for spec, value in zip(specs, values, strict=True):
        assert isinstance(spec, Spec)
        if np.shape(value) != spec.shape or value.dtype != spec.dtype:
            raise AssertionError(f"{node.op.name} in XLA gives {value.dtype}{np.shape(value)} where {spec} is due")


def _called_back(trace: Trace, node: Node, operands: list[Any]) -> Any:
    """Return what the op's forward gives, called back on the host."""
    op, attrs = node.op, node.attrs
    several = isinstance(node.spec, tuple)
    specs = node.spec if several else (node.spec,)
    places = [i for i, x in enumerate(operands) if hasattr(x, "dtype")]

    def run(*arrays: Any) -> tuple[Array, ...]:
        given = list(operands)
        for i, x in zip(places, arrays, strict=True):
            given[i] = np.asarray(x)
        with np.errstate(all="ignore"):
            out = op.forward(*given, **attrs)
        found = out if several else (out,)
        return tuple(np.asarray(x, s.dtype) for x, s in zip(found, specs, strict=True))  # type: ignore[union-attr]

    def tuple_or_first(found: Any) -> Any:
        return tuple(found) if several else found[0]

    shapes = tuple(jax.ShapeDtypeStruct(s.shape, s.dtype) for s in specs)  # type: ignore[union-attr]
    trace.calls_host = True
    arrays = [operands[i] for i in places]
    if op is SHOW:
        return tuple_or_first(experimental.io_callback(run, shapes, *arrays, ordered=True))
    return tuple_or_first(jax.pure_callback(run, shapes, *arrays))
