"""Autocast of a graph: the casts that tracing under `wg.autocast` would have recorded."""

from __future__ import annotations

import functools
from itertools import chain, repeat
from typing import Any

import numpy as np

from ..core.dtypes import DType, is_foreign
from ..core.graph.graph import Graph
from ..core.graph.snapshot import constant_node, located
from ..core.node import Node
from ..core.ops import autocast as casting
from ..core.ops.op import TABLE, Op, spec_of_input
from ..core.ops.record import OUTPUT
from ..core.spec import Spec, category, promote
from .origins import note
from .rewrite import with_outputs

_VALUES = (Node, np.ndarray)


def autocast(graph: Graph, dtype: Any = "bfloat16") -> Graph:
    """Return the graph with each operation in the precision that suits it, by `cast` nodes: a pass that changes values.

    Products take operands of `dtype`, "bfloat16" or "float16", and exponentials, sums and the like float32, as under
    :class:`wengert.autocast`; others follow their operands. Inputs keep their dtypes, outputs have what comes of it.
    Loops and branches keep the dtypes of what they carry, and functions with rules of their own that of their
    arguments. A cast that is a node already stays, so a graph that was traced under an autocast stays as it is.

    Raises DTypeError for another dtype.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x, w: wg.exp(x @ w))(wg.spec((2, 3)), wg.spec((3,)))
    >>> print(wg.passes.autocast(g, "float16"))
    graph(x: f32[2,3], w: f32[3]) -> f32[2]
      a: f16[2,3] = cast[dtype=f16] x
      b: f16[3] = cast[dtype=f16] w
      c: f16[2] = matvec a b
      d: f32[2] = cast[dtype=f32] c
      e: f32[2] = exp d
      return e
    """
    return _Autocast(casting.lower_precision(dtype)).run(graph)


class _Autocast:
    def __init__(self, precisions: casting.Precisions) -> None:
        self.precisions = precisions
        self.moved: dict[Node, Node] = {}
        self.casts: dict[tuple[Node, DType], Node] = {}

    def run(self, graph: Graph) -> Graph:
        for node in graph.nodes:
            made = self.node(node)
            if made is not node:
                note(made, "autocast", node)
            self.moved[node] = made
        return with_outputs(graph, [self.moved[n] for n in graph.outputs])

    def node(self, node: Node) -> Node:
        op = node.op
        inputs = tuple(self.moved.get(e, e) if isinstance(e, Node) else e for e in node.inputs)
        if op is OUTPUT:
            spec = inputs[0].spec
            return self._made(node, inputs, spec[node.attrs["index"]] if isinstance(spec, tuple) else spec)
        if op.kind == "control" or TABLE.get(op.name) is not op:
            as_before = [self._as(e, spec_of_input(old).dtype) for e, old in zip(inputs, node.inputs, strict=True)]
            return self._made(node, tuple(as_before), node.spec, self._inside(node.attrs))
        if op.name == "cast":
            return inputs[0] if inputs[0].spec == node.spec else self._made(node, inputs, node.spec)
        inputs = self._in_one_precision(op, inputs)
        changed = any(isinstance(e, Node) and e.spec != old.spec for e, old in zip(inputs, node.inputs, strict=True))
        if not changed:
            return self._made(node, inputs, node.spec)
        return self._made(node, inputs, op.infer(*map(_argument, inputs), **node.attrs))

    def _in_one_precision(self, op: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs as the op is to have them: in its precision, else all in the widest of theirs."""
        roles = [op.roles[p] for p in op.params]
        # What is written into something takes its dtype (the role "value").
        together = [
            spec_of_input(e).dtype
            for e, role in zip(inputs, chain(roles, repeat(roles[-1])) if roles else ())
            if isinstance(e, _VALUES) and role == "same"
        ]
        floats = {d for d in together if category(d) >= 2}
        dtype = self.precisions.precision_of(op, [spec_of_input(e).dtype for e in inputs if isinstance(e, _VALUES)])
        if dtype is None and floats:
            dtype = functools.reduce(promote, floats)
        if dtype is not None:
            inputs = tuple(self._as(e, dtype) if _is_castable(e) else e for e in inputs)
        if op.kind == "elementwise":
            inputs = _without_literals(inputs)
        return inputs

    def _as(self, entry: Any, dtype: DType) -> Any:
        """Return an input in another dtype; below a broadcast, where there are fewer elements."""
        if not isinstance(entry, Node):
            return entry.astype(dtype) if isinstance(entry, np.ndarray) else entry
        if entry.spec.dtype == dtype:
            return entry
        found = self.casts.get((entry, dtype))
        if found is None:
            if entry.op.name == "broadcast":
                inputs: tuple[Any, ...] = (self._as(entry.inputs[0], dtype),)
                found = located(
                    entry.op, inputs, entry.attrs, entry.spec.with_dtype(dtype), entry.code, entry.offset, entry.scope
                )
            else:
                spec = entry.spec.with_dtype(dtype)
                cast = TABLE["cast"]
                found = located(cast, (entry,), {"dtype": dtype}, spec, entry.code, entry.offset, entry.scope)
            self.casts[entry, dtype] = found
        return found

    def _inside(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return attributes with the graphs among them cast too, whose results keep their dtypes."""
        return {name: self._graph_inside(value) for name, value in attrs.items()}

    def _graph_inside(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._graph_inside, value))
        if not isinstance(value, Graph):
            return value
        inner = _Autocast(self.precisions)
        made = inner.run(value)
        return with_outputs(made, [inner._as(n, old.spec.dtype) for n, old in zip(made.outputs, value.outputs)])

    def _made(self, node: Node, inputs: tuple[Any, ...], spec: Any, attrs: dict[str, Any] | None = None) -> Node:
        attrs = node.attrs if attrs is None or attrs == node.attrs else attrs
        if attrs is node.attrs and all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            return node
        return located(node.op, inputs, attrs, spec, node.code, node.offset, node.scope)


def _without_literals(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return inputs with constants in the place of numbers, which bfloat16 does not meet, as they are recorded."""
    spec = next(spec_of_input(e) for e in inputs if isinstance(e, _VALUES))
    if not is_foreign(spec.dtype):
        return inputs
    return tuple(e if isinstance(e, _VALUES) else _broadcast(e, spec) for e in inputs)


def _broadcast(number: Any, spec: Spec) -> Node:
    constant = constant_node(np.asarray(number, spec.dtype))
    return constant if not spec.shape else located(TABLE["broadcast"], (constant,), {"shape": spec.shape}, spec)


def _is_castable(entry: Any) -> bool:
    return isinstance(entry, _VALUES) and casting.is_castable(spec_of_input(entry).dtype)


def _argument(entry: Any) -> Any:
    return spec_of_input(entry) if isinstance(entry, _VALUES) else entry
