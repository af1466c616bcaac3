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
from .api import experimental, jax, jnp, lax
from .lowerings import (
    collectives,
    control,
    elementwise,
    indexing,
    linear_algebra,
    products,
    random_numbers,
    reductions,
    rejection,
    special,
    structure,
)
from .rules import Trace, once, rule_of

# The modules that declare rules.
RULED = (
    collectives, control, elementwise, indexing, linear_algebra, products, random_numbers, reductions, rejection,
    special, structure,
)  # fmt: skip


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
    rule, why = rule_of(node.op), "it is no op of the library's table"
    if rule is not None:
        why = "XLA does not take its operands' dtype"
        try:
            found = rule(trace, node, *operands)
        except TypeError:
            pass
        except NotImplementedError as e:
            why = str(e)
        else:
            if node.op is OUTPUT or _fits(node, found):
                return found
    trace.on_host[node.op.name] = why
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
    dtypes, stopped = [np.dtype(x.dtype) for x in arrays.values()], trace.stopped

    def run(*values: Any) -> tuple[Array, ...]:
        given = numbers.copy()
        for i, x, dtype in zip(arrays, values, dtypes, strict=True):
            given[i] = _of_words(np.asarray(x), dtype)
        try:
            with np.errstate(all="ignore"):
                out = op.forward(*given, **attrs)
        except BaseException as e:
            # A user's function is not called a second time: what it raised is told.
            if not isinstance(e, Exception) or "calls_user" in op.facets:
                stopped.append(e)
            # What else it is, the interpreter will raise.
            return (*(_as_words(np.zeros(s.shape, s.dtype)) for s in specs), np.asarray(True))
        found = [np.asarray(x, s.dtype) for x, s in zip(out if several else (out,), specs, strict=True)]
        return (*map(_as_words, found), np.asarray(False))

    # JAX hands the host arrays of 32 bits, whatever the program has, where another thread runs it: others go as words.
    shapes = [
        jax.ShapeDtypeStruct((*s.shape, _words(s.dtype)), np.uint32)
        if _words(s.dtype)
        else jax.ShapeDtypeStruct(s.shape, s.dtype)
        for s in specs
    ]
    result = (*shapes, jax.ShapeDtypeStruct((), np.bool_))
    words = [_to_words(x) for x in arrays.values()]
    if op is SHOW:
        *found, failed = experimental.io_callback(run, result, *words, ordered=True)
    else:
        *found, failed = jax.pure_callback(run, result, *words)
    trace.check(failed)
    found = [_from_words(x, s.dtype) for x, s in zip(found, specs, strict=True)]
    return tuple(found) if several else found[0]


def _words(dtype: Any) -> int:
    """Return how many words of 32 bits a number of more bits has; 0 for others."""
    half = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    return dtype.itemsize // 4 if half == 8 else 0


def _to_words(x: Any) -> Any:
    """Return an array of JAX's with its numbers of more than 32 bits as words, along a new last axis."""
    if not _words(np.dtype(x.dtype)):
        return x
    if x.dtype.kind == "c":
        return lax.concatenate([_to_words(lax.real(x)), _to_words(lax.imag(x))], x.ndim)
    return lax.bitcast_convert_type(x, np.uint32)


def _from_words(x: Any, dtype: Any) -> Any:
    if not _words(dtype):
        return x
    if dtype.kind == "c":
        return lax.complex(*(lax.bitcast_convert_type(part, np.float64) for part in (x[..., :2], x[..., 2:])))
    return lax.bitcast_convert_type(x, dtype)


def _of_words(x: Array, dtype: Any) -> Array:
    """Return an ndarray of numbers whose words stand along its last axis."""
    return np.ascontiguousarray(x).view(dtype)[..., 0] if _words(dtype) else x


def _as_words(x: Array) -> Array:
    return np.array(x, order="C")[..., None].view(np.uint32) if _words(x.dtype) else x
