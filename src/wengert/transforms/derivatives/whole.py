"""Backward passes through compiled programs as one program: from the saved values to the gradients of the leaves.

Whoever compiles a model and leaves the loss, `backward()` and the optimiser's step outside makes the same small graph
in every step: the program as one node, a few operations after it. The pass through such a graph is traced once, by
the rules of reverse mode for tensors, and compiled. A pass is known by the graph's structure: its operations with
their attributes, the shapes and dtypes, and which values were saved. Everything that Python code may see or change on
the way is left to :mod:`.reverse`: hooks, recorded passes, retained gradients, transforms at work, observers.
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...core.errors import WengertError
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.ops.op import ALIAS, LEAF, TABLE, Op
from ...core.ops.record import OUTPUT, SCALARS
from ...core.spec import spec_of
from ...core.tensor import Tensor
from ..tracing.trace import trace
from .arithmetic import Mask, Tensors
from .custom_op import CustomOp
from .reverse import Cotangents, pull_node
from .squares import POWERS

# Larger graphs, and more kinds of passes through one program, are left to reverse mode.
_MOST_NODES = 32
_MOST_PASSES = 16


class Runs(Protocol):
    """A compiled graph: `run` takes arrays for its inputs and gives new arrays for its outputs."""

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs' values, which share memory with nothing else."""
        ...


class Pass(NamedTuple):
    """A compiled pass. Its results are for these leaves, by their numbers in the order of the walk."""

    program: Runs
    leaves: tuple[int, ...]
    # The objects that the pass is known by, of which some stand in its key by their identity.
    known_by: tuple[Any, ...]


class ProgramOp(Op):
    """The operation of a compiled program; `graph` computes it node by node, `compile` compiles graphs as it was.

    `passes` are the backward passes through it, by the structure of their graphs; None for those of reverse mode.
    """

    __slots__ = ("compile", "graph", "passes")

    graph: Graph
    compile: Callable[[Graph], Runs]
    passes: dict[Any, Pass | None]


class Whole(NamedTuple):
    """A compiled pass through a graph: its operations in order, its leaves, and the saved values."""

    compiled: Pass
    nodes: list[Node]
    leaves: list[Node]
    arrays: list[Any]


def whole(root: Node, pending: dict[Node, int]) -> Whole | None:
    """Return the compiled pass from a real scalar to all leaves; None where the pass is reverse mode's.

    `pending` are the nodes reachable from it with the number of edges that arrive there; it stays as it is.
    """
    programs = [n.op for n in pending if type(n.op) is ProgramOp]
    if not programs:
        return None
    ordered = _ordered(root, pending)
    described = None if ordered is None else _described(*ordered)
    if ordered is None or described is None:
        return None
    key, known_by, arrays = described
    passes: dict[Any, Pass | None] = programs[0].passes
    try:
        found = passes[key]
    except KeyError:
        if len(passes) >= _MOST_PASSES:
            return None
        found = passes[key] = _made(programs[0], *ordered, arrays, known_by)
    except TypeError:  # an attribute has no hash
        return None
    return None if found is None else Whole(found, *ordered, arrays)


def _ordered(root: Node, pending: dict[Node, int]) -> tuple[list[Node], list[Node]] | None:
    """Return the operations, each after all that consume it, and the leaves; None for too many, or for hooks."""
    left = dict(pending)
    nodes: list[Node] = []
    leaves: list[Node] = []
    ready = [root]
    while ready:
        node = ready.pop()
        if node.op is LEAF:
            if type(node.saved) is not weakref.ref:
                return None
            leaves.append(node)
            continue
        if type(node.saved) is not tuple or len(nodes) == _MOST_NODES:
            return None
        nodes.append(node)
        for entry in node.inputs:
            if type(entry) is Node:
                left[entry] = count = left[entry] - 1
                if not count:
                    ready.append(entry)
    return nodes, leaves


def _described(nodes: list[Node], leaves: list[Node]) -> tuple[tuple[Any, ...], tuple[Any, ...], list[Any]] | None:
    """Return the key of a pass, the objects that it is known by, and the saved arrays; None for reverse mode."""
    numbers: dict[Node, int] = {}
    key: list[Any] = []
    known_by: list[Any] = []
    for leaf in leaves:
        numbers[leaf] = len(numbers)
        known_by.append(leaf.spec)
    count = len(leaves)
    for node in reversed(nodes):  # each after its inputs
        count += node.op is not ALIAS
        numbers[node] = numbers[node.inputs[0]] if node.op is ALIAS else count
    arrays: list[Any] = []
    for node in nodes:
        op = node.op
        if op is ALIAS:
            continue
        key.append(op)
        key.extend([numbers[e] if type(e) is Node else None for e in node.inputs])
        if type(op) is ProgramOp:
            for value in node.saved[:-1]:
                if type(value) is not np.ndarray:
                    return None
                arrays.append(value)
            continue
        if op is OUTPUT:
            key.append(node.attrs["index"])
            continue
        if not _is_fit(op):
            return None
        known_by.append(node.spec)
        for name in op.attr_names:
            value = node.attrs[name]
            key.append(value or repr(value))  # 0.0 and -0.0 are equal, and not the same
        for value in (*node.inputs, *node.saved):
            kind = type(value)
            if kind is np.ndarray:
                key.append((value.shape, value.dtype.char))
            elif kind in SCALARS:
                key.append((kind, repr(value)))
            elif kind is not Node and value is not None:
                return None
        arrays += [v for v in node.saved if type(v) is np.ndarray]
    key.extend(map(id, known_by))
    return tuple(key), tuple(known_by), arrays


def _is_fit(op: Op) -> bool:
    """Return whether a pass may be compiled through an operation: its rules are the table's, and run no users' code.

    Recorded passes go past the base of an even power, which they look for among the nodes.
    """
    is_ours = TABLE.get(op.name) is op and type(op) is not CustomOp and "calls_user" not in op.facets
    return is_ours and op.results == 1 and not op.draws and op.name not in POWERS


class _Given(Tensors):
    """The arithmetic on tensors where saved values are tensors already."""

    @staticmethod
    def saved(node: Node, saved: tuple[Any, ...]) -> tuple[Any, ...]:
        return saved


def _made(
    op: ProgramOp, nodes: list[Node], leaves: list[Node], arrays: list[Any], known_by: tuple[Any, ...]
) -> Pass | None:
    """Return the compiled pass through a graph like this one; None where a rule cannot be traced."""
    reached: list[int] = []

    def gradients(*values: Tensor) -> tuple[Any, ...]:
        left = iter(values)
        cts = Cotangents()
        masks: dict[Node, Mask | None] = {}
        cts[nodes[0]] = Tensors.ones(nodes[0].spec)
        for node in nodes:
            saved = tuple([next(left) if type(v) is np.ndarray else v for v in node.saved])
            ct, mask = cts.pop(node, None), masks.pop(node, None)
            if ct is not None:
                pull_node(_Given, node, saved, ct, mask, cts, masks, None)
        reached[:] = [i for i, leaf in enumerate(leaves) if leaf in cts]
        return tuple(cts[leaves[i]] for i in reached)

    specs = tuple(spec_of(a.shape, a.dtype) for a in arrays)
    try:
        # In a context of its own: no mode around the call has to do with the program.
        graph: Graph = contextvars.Context().run(trace, gradients, specs, {})
        return Pass(op.compile(graph), tuple(reached), (known_by, *(n.op for n in nodes)))
    except WengertError:  # reverse mode meets it too, and says so in its words
        return None
