"""Recorded runs as graphs again, whose nodes know the rows that they come from.

The recorded nodes are run again on abstract tensors, every node inside a scope that bears its row's number. Whatever
is made of that graph (a differentiated one, compiled code, a run on threads) still depends on such a scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.graph.graph import Graph
from ...core.mode import Scope, get_mode, set_mode
from ...core.node import Node
from ...core.tensor import Tensor, wrap
from ...transforms.derivatives.functional import value_and_grad
from ...transforms.tracing.replay import record_again
from ...transforms.tracing.trace import trace
from .recording import Recording


class Rerun:
    """A graph of all that the roots depend on, each node after its operands.

    `rows` gives the rows of recorded nodes, `values` the arrays of leaves.
    """

    def __init__(self, roots: Sequence[Node], rows: Mapping[Node, int], values: Mapping[Node, Any]) -> None:
        self.roots = roots
        self.rows = rows
        self.order = _ordered(roots)
        self.leaves = [n for n in self.order if n.op.kind == "leaf"]
        self.arrays = [np.asarray(values[n], order="C") for n in self.leaves if values.get(n) is not None]

    @property
    def is_whole(self) -> bool:
        """True where there are values for all leaves, and any leaves at all."""
        return bool(self.leaves) and len(self.arrays) == len(self.leaves)

    def forward(self) -> Graph:
        """Return the graph of the roots' sum, in the leaves."""
        return trace(self._run, tuple(n.spec for n in self.leaves), {})

    def differentiated(self) -> Graph:
        """Return the graph of the roots' sum, and of its gradient in every leaf."""
        everything = tuple(range(len(self.leaves)))
        return trace(value_and_grad(self._run, argnums=everything), tuple(n.spec for n in self.leaves), {})

    def _run(self, *given: Tensor) -> Any:
        made: dict[Node, Any] = dict(zip(self.leaves, given, strict=True))
        outer = get_mode()
        mode = outer.as_recorded(outer.grad)
        try:
            for node in self.order:
                if node not in made:
                    set_mode(mode.within(Scope("module", str(self.rows.get(node, -1)), outer.scope)))
                    made[node] = record_again(node, [_argument(e, made) for e in node.inputs])
        finally:
            set_mode(outer)
        total = made[self.roots[0]].sum()
        for root in self.roots[1:]:
            total = total + made[root].sum()
        return total


def of_recording(recording: Recording) -> Rerun | None:
    """Return the run of a recording; None where nothing with gradients came of it, or values are missing."""
    rows = {row.node: row.index for row in recording.rows if row.node is not None and row.op is not None}
    values = {row.node: row.value for row in recording.rows if row.node is not None and row.op is None}
    roots = [r.node for r in recording.roots if r.node is not None and r.node.requires_grad]
    if not roots:
        return None
    made = Rerun(roots, rows, values)
    return made if made.is_whole else None


def row_of(node: Node) -> tuple[int, bool]:
    """Return the row in whose scope a node was recorded (-1: none), and whether it is part of its derivative."""
    scope, backward = node.scope, False
    while scope is not None:
        backward = backward or scope.kind == "gradient"
        if scope.kind == "module" and scope.name.lstrip("-").isdigit():
            return int(scope.name), backward
        scope = scope.parent
    return -1, backward


def _inputs(node: Node) -> list[Node]:
    return [e for e in node.inputs if isinstance(e, Node)]


def _ordered(roots: Sequence[Node]) -> list[Node]:
    """Return all nodes behind the roots, those without gradients too; the walk keeps its own stack."""
    order: dict[Node, None] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, operands_done = stack.pop()
        if operands_done:
            order[node] = None
        elif node not in order:
            stack.append((node, True))
            stack += [(e, False) for e in _inputs(node) if e not in order]
    return list(order)


def _argument(entry: Any, made: Mapping[Node, Any]) -> Any:
    if isinstance(entry, Node):
        return made[entry]
    return wrap(entry) if isinstance(entry, np.ndarray) else entry
