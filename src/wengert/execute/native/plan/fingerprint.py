"""Names of plans: equal names mean equal plans, in this process and in others.

The name stands for the graph between its inputs and outputs (operations, attributes, literals, constants
by their contents, what the user called each composite), for which inputs are donated, for what the plan was
to keep below, and for the processor. The code that makes plans, ops and passes included, stands in the cache's
edition: so a graph of anybody else's ops has no name, nor one with an attribute that only this process knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ....core.graph.graph import Graph
from ....core.graph.snapshot import CONSTANT, LEAVES
from ....core.mode import Scope
from ....core.node import Node
from ....core.ops.op import Op, find_op
from ..codegen.types import Target

Array = np.ndarray[Any, np.dtype[Any]]

# Constants beyond so many bytes in all are not worth reading through.
MOST_BYTES = 1 << 26
# Whose code the cache's edition stands for.
_OURS = ("wengert.core.", "wengert.ops.", "wengert.transforms.")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


class Fingerprint(NamedTuple):
    """A plan's name, and the graph's constants in order, those of graphs inside it too."""

    name: str
    constants: list[Array]


class Unnamed(Exception):
    """An error: no name stands for some part of the graph."""


def fingerprint(graph: Graph, donated: Sequence[bool], target: Target, limits: str = "") -> Fingerprint | None:
    """Return the name of a graph's plan, made to keep some `limits`; None where there can be none."""
    writer = _Writer()
    try:
        text = writer.graph(graph)
    except Unnamed:
        return None
    whole = f"{target.identity}\n{''.join('01'[d] for d in donated)}{limits}\n{text}"
    return Fingerprint("p" + hashlib.sha256(whole.encode()).hexdigest()[:32], writer.constants)


class _Writer:
    def __init__(self) -> None:
        self.constants: list[Array] = []
        self._nbytes = 0
        self._specs: dict[int, str] = {}
        self._scopes: dict[int, str] = {}

    def graph(self, graph: Graph) -> str:
        """Return the text of all that decides the plan of a graph."""
        number: dict[Node, int] = {}
        rows = []
        for i, node in enumerate(graph.nodes):
            number[node] = i
            op = node.op
            if op in LEAVES:
                rows.append(
                    f"{self.constant(node.attrs['value']) if op is CONSTANT else 'input'} {self.spec(node.spec)}"
                )
                continue
            row = [_identities.get(op) or _identity(op), self._specs.get(id(node.spec)) or self.spec(node.spec)]
            if node.scope is not None:
                row.append(self.called(node.scope))
            row += [f"%{number[e]}" if isinstance(e, Node) else self.value(e) for e in node.inputs]
            row += [f"{name}={self.value(value)}" for name, value in node.attrs.items()]
            rows.append("|".join(row))
        ends = [[number[n] for n in nodes] for nodes in (graph.inputs, graph.outputs)]
        return "\n".join([str(ends), *rows])

    def constant(self, value: Array) -> str:
        self._nbytes += value.nbytes
        if self._nbytes > MOST_BYTES:
            raise Unnamed
        self.constants.append(value)
        elements = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return f"{value.dtype.str} {hashlib.sha256(elements.data).hexdigest()}"

    def spec(self, spec: Any) -> str:
        """Return the text of shape and dtype, of one result or of several."""
        found = self._specs.get(id(spec))
        if found is None:
            several = spec if isinstance(spec, tuple) else (spec,)
            found = "+".join(f"{s.dtype.name}{self.value(s.shape)}" for s in several)
            if several is not spec:  # interned, so alive
                self._specs[id(spec)] = found
        return found

    def value(self, value: Any) -> str:
        """Return the exact text of an attribute or literal, its type included."""
        kind = type(value)
        if kind in _PLAIN:
            return repr(value)
        if kind is tuple and all(type(v) is int for v in value):
            return repr(value)
        if kind is tuple or kind is list:
            return f"{kind.__name__}({','.join(map(self.value, value))})"
        if kind is dict:
            return f"dict({','.join(f'{self.value(k)}:{self.value(v)}' for k, v in value.items())})"
        if kind is Graph:
            return f"graph({self.graph(value)})"
        if isinstance(value, np.dtype):
            return f"dtype({value.str} {value.name})"
        if isinstance(value, np.ndarray):
            return f"array({value.dtype.str} {value.dtype.name} {value.shape} {self.constant(value)})"
        if isinstance(value, np.generic):
            return f"number({value.dtype.name} {value.tobytes().hex()})"
        raise Unnamed

    def called(self, scope: Scope) -> str:
        """Return the outermost composite of a scope, which errors name."""
        found = self._scopes.get(id(scope))
        if found is None:
            found = self.called(scope.parent) if scope.parent is not None else ""
            if not found and scope.kind == "composite":
                found = scope.name
            self._scopes[id(scope)] = found
        return found


_identities: dict[Op, str] = {}


def _identity(op: Op) -> str:
    """Return the name of an op of this library: its own, and its function's."""
    found = _identities.get(op)
    if found is None:
        functions = [_function(getattr(op, what, None)) for what in ("forward", "infer", "body")]
        if find_op(op.name) is not op or not all(functions):
            raise Unnamed
        found = _identities[op] = " ".join(
            (op.name, functions[0], op.combine, *(repr(f.described()) for f in op.formulas))
        )
    return found


def _function(fn: Any) -> str:
    """Return the place where a function of this library, or of NumPy, is found; "" for any other."""
    while isinstance(fn, partial):
        fn = fn.func
    if fn is None:
        return "none"
    module = getattr(fn, "__module__", None) or ""
    is_ours = f"{module}.".startswith(_OURS) or isinstance(fn, np.ufunc) or module.split(".")[0] == "numpy"
    return f"{module}.{getattr(fn, '__name__', '')}" if is_ours else ""
