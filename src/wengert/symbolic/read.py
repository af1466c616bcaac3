"""The conversion of a graph to expressions in normal form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import GraphError, fail
from ..core.graph.graph import Graph
from ..core.graph.snapshot import CONSTANT
from ..core.node import Node
from ..core.ops.op import spec_of_input
from ..core.ops.record import OUTPUT
from ..core.spec import Spec, category
from .expr import FALSE, Expr, Opaque, call, symbol
from .functions import ARITHMETIC
from .numbers import from_value


def read(graph: Graph, names: Sequence[str] | None = None) -> list[Expr]:
    """Return the outputs as expressions in the inputs' names (or other `names` for them).

    Arithmetic on real floating numbers is taken into the normal form; whatever else there is
    (integers, reductions, ops with attributes) becomes a call with all that belongs to it.
    Raises GraphError for complex numbers.
    """
    called = names if names is not None else [graph.names[n] for n in graph.inputs]
    done: dict[Node, Expr] = {n: symbol(name) for n, name in zip(graph.inputs, called, strict=True)}
    for node in graph.nodes:
        if isinstance(node.spec, Spec) and node.spec.dtype.kind == "c":
            fail(
                GraphError,
                f"symbolic algebra on complex numbers: {graph.names[node]} is {node.spec}",
                "Its rules are those of real functions. graph.text() and wg.passes take any graph.",
            )
        if node not in done:
            done[node] = _read_node(node, [done[e] if isinstance(e, Node) else from_value(e) for e in node.inputs])
    return [done[n] for n in graph.outputs]


def _read_node(node: Node, args: list[Expr]) -> Expr:
    op, spec = node.op, node.spec
    if op is CONSTANT:
        value = node.attrs["value"]
        if value.size and category(value.dtype) in (0, 2) and np.all(value == value.flat[0]):
            return from_value(value.reshape(-1)[0])  # its shape is what it meets, or is given
        return Expr("call", "constant", (), Opaque(op, (("value", _Array(value)),), (), spec))
    if op is OUTPUT:
        return Expr("call", "output", tuple(args), Opaque(op, tuple(node.attrs.items()), (None,), spec))
    if op.name == "equal" and _in_derivative(node):
        # The rules of derivatives guard against, or share at, single points: these do not matter here.
        return FALSE
    floating = isinstance(spec, Spec) and spec.dtype.kind not in "iu"
    kinds = [spec_of_input(e).dtype.kind for e in node.inputs if not isinstance(e, (bool, int, float))]
    real = floating and all(k in "bf" or k == "V" for k in kinds)
    if real and (op.name == "broadcast" or (op.name == "cast" and spec.dtype.kind != "b")):
        return _truth_as_number(node, args[0]) if "b" in kinds and spec.dtype.kind != "b" else args[0]
    if op.kind == "elementwise" and real and not node.attrs and not _nonfinite(args):
        if op.name in ARITHMETIC:
            return ARITHMETIC[op.name](*args)
        name = op.facets.get("on_truth", op.name)
        if not op.name.startswith("bitwise_") or set(kinds) <= {"b"}:
            return call(name, *args)
    slots = tuple(spec_of_input(e) if isinstance(e, Node) else e for e in node.inputs)
    return Expr("call", op.name, tuple(args), Opaque(op, tuple(node.attrs.items()), slots, spec))


class _Array:
    """A constant array as an attribute: shown, and so compared, by its bytes."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"{self.value.dtype}{self.value.shape}{np.ascontiguousarray(self.value).tobytes().hex()}"


def _truth_as_number(node: Node, condition: Expr) -> Expr:
    return call("where", condition, from_value(1), from_value(0))


def _nonfinite(args: Sequence[Expr]) -> bool:
    return any(a.kind == "constant" and a.name in ("inf", "-inf", "nan") for a in args)


def _in_derivative(node: Node) -> bool:
    scope = node.scope
    while scope is not None:
        if scope.kind == "gradient":
            return True
        scope = scope.parent
    return False
