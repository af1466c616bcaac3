"""Lowering: a graph as a function of JAX's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT, LEAVES, specs_of
from ...core.node import Node
from ...core.ops.record import OUTPUT
from ...ops.pointwise.logic import equal, not_equal
from ...transforms.tracing.host import SHOW
from .api import experimental, jax, jnp
from .lowerings import (
    collectives,
    control,
    elementwise,
    indexing,
    linear_algebra,
    products,
    random_numbers,
    reductions,
    structure,
)
from .rules import ON_HOST, Trace, once, rule_of

# The modules that declare rules.
RULED = (collectives, control, elementwise, indexing, linear_algebra, products, random_numbers, reductions, structure)


def lower(graph: Graph, args: Sequence[Any], trace: Trace) -> list[Any]:
    """Return the outputs of a graph of primitives for JAX's arrays."""
    values: dict[Node, Any] = dict(zip(graph.inputs, args, strict=True))
    recognised = _recognised(graph)
    for node in graph.nodes:
        if node not in values:
            operands = [values[e] if isinstance(e, Node) else e for e in node.inputs]
            found = _value(trace, node, operands)
            values[node] = once(found) if node in recognised else found
            trace.follow(node)
    return [values[n] for n in graph.outputs]


def _recognised(graph: Graph) -> set[Node]:
    """Return the values that are found again by being equal to what was made of them: the elements that are a maximum.

    XLA may compute a value twice, rounded in two ways, for two who use it; none of its elements would be found.
    """
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op is not equal and node.op is not not_equal:
            continue
        nodes = [e for e in node.inputs if isinstance(e, Node) and e.op not in LEAVES]
        if len(nodes) == 2 and nodes[0] is not nodes[1] and all(e.spec.dtype.kind in "fcV" for e in nodes):
            first, last = sorted(nodes, key=graph.index.__getitem__)
            if first not in found and _leads_to(first, last, graph):
                found.add(first)
    return found


def _leads_to(source: Node, target: Node, graph: Graph) -> bool:
    """Return whether a value is made of another one."""
    least, seen, waiting = graph.index[source], {target}, [target]
    while waiting:
        for e in waiting.pop().inputs:
            if e is source:
                return True
            if isinstance(e, Node) and e not in seen and graph.index[e] > least:
                seen.add(e)
                waiting.append(e)
    return False


def _value(trace: Trace, node: Node, operands: list[Any]) -> Any:
    if node.op is CONSTANT:
        return jnp.asarray(np.asarray(node.attrs["value"]))
    rule = rule_of(node.op)
    if rule is not None:
        try:
            found = rule(trace, node, *operands)
        except (TypeError, NotImplementedError):
            pass  # a dtype that XLA does not take
        else:
            if node.op is OUTPUT or _fits(node, found):
                return found
    return _called_back(trace, node, operands)


def _fits(node: Node, found: Any) -> bool:
    """Return whether a rule has given the shapes and dtypes that the graph says."""
    values = found if isinstance(node.spec, tuple) else (found,)
    return all(np.shape(x) == s.shape and x.dtype == s.dtype for x, s in zip(values, specs_of(node), strict=True))


def _called_back(trace: Trace, node: Node, operands: list[Any]) -> Any:
    """Return what the op's forward gives, called back on the host."""
    op, attrs, specs = node.op, node.attrs, specs_of(node)
    several = isinstance(node.spec, tuple)
    arrays = {i: x for i, x in enumerate(operands) if hasattr(x, "dtype")}
    numbers = [None if i in arrays else x for i, x in enumerate(operands)]

    def run(*values: Any) -> tuple[Array, ...]:
        given = numbers.copy()
        for i, x in zip(arrays_at, values, strict=True):
            given[i] = np.asarray(x)
        with np.errstate(all="ignore"):
            out = op.forward(*given, **attrs)
        return tuple(np.asarray(x, s.dtype) for x, s in zip(out if several else (out,), specs, strict=True))

    arrays_at = tuple(arrays)
    shapes = tuple(jax.ShapeDtypeStruct(s.shape, s.dtype) for s in specs)
    trace.on_host[op.name] = ON_HOST.get(op.name, "it is no op of the library's table")
    if op is SHOW:
        found = experimental.io_callback(run, shapes, *arrays.values(), ordered=True)
    else:
        found = jax.pure_callback(run, shapes, *arrays.values())
    return tuple(found) if several else found[0]
