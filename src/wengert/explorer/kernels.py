"""What the compiler makes of a recorded run: its plan and kernels, and which nodes each of them computes.

The recorded nodes are run again on abstract tensors, every node inside a scope that bears its row. Whatever the
compiler makes of that graph, forward and backward, still hangs on such a scope through its origins: so each kernel
finds back to the rows that the page shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import WengertError
from ..core.graph import Graph
from ..core.mode import Scope, get_mode, set_mode
from ..core.node import Node
from ..core.tensor import Tensor, wrap
from ..execute.native import machine
from ..execute.native.compile import Compiled, compile_graph
from ..execute.native.kernel import Kernel
from ..execute.native.plan import Buffer, HostCall, Jump, Step
from ..execute.native.runtime import UNTIMED
from ..transforms.functional import value_and_grad
from ..transforms.replay import record_again
from ..transforms.reverse import reachable
from ..transforms.trace import trace

# Kernels' times are the least of so many calls.
CALLS = 5
# Sources longer than this in all are left out of a document: they can be asked for.
SOURCE_LIMIT = 400_000


def kernels(
    roots: Sequence[Node], rows: Mapping[Node, int], values: Mapping[Node, Any], sources: bool = True
) -> dict[str, Any] | None:
    """The `kernels` table of a document (see the schema); None where the run cannot be compiled here.

    Parameters
    ----------
    roots: the results' nodes; their sum is what is differentiated.
    rows: the rows of recorded nodes. Nodes without one are not shown.
    values: arrays of the leaves that the roots hang on.
    sources: include the kernels' LLVM IR.
    """
    order = _ordered(roots)
    leaves = [n for n in order if not _inputs(n)]
    if not leaves or any(n not in values for n in leaves):
        return None
    try:
        compiled = compile_graph(_differentiated(roots, order, leaves, rows))
        arrays = [np.ascontiguousarray(values[n]) for n in leaves]
        for _ in range(CALLS):
            compiled.run(arrays)
    except (WengertError, ImportError):
        return None
    return _table(compiled, sources)


def _inputs(node: Node) -> list[Node]:
    return [e for e in node.inputs if isinstance(e, Node)]


def _ordered(roots: Sequence[Node]) -> list[Node]:
    """The recorded nodes that the roots hang on, each after its operands."""
    left = {n: len(set(_inputs(n))) for n in reachable(roots)}
    consumers: dict[Node, list[Node]] = {}
    for n in left:
        for e in set(_inputs(n)):
            consumers.setdefault(e, []).append(n)
    order = [n for n, count in left.items() if count == 0]
    for n in order:
        for user in consumers.get(n, ()):
            left[user] -= 1
            if left[user] == 0:
                order.append(user)
    return order


def _differentiated(
    roots: Sequence[Node], order: Sequence[Node], leaves: Sequence[Node], rows: Mapping[Node, int]
) -> Graph:
    """The graph of the run: the roots' sum, and its gradient in every leaf."""

    def run(*given: Tensor) -> Any:
        made: dict[Node, Any] = dict(zip(leaves, given))
        outer = get_mode()
        try:
            for node in order:
                if node not in made:
                    set_mode(outer.within(Scope("module", str(rows.get(node, -1)), outer.scope)))
                    made[node] = record_again(node, [_argument(e, made) for e in node.inputs])
        finally:
            set_mode(outer)
        total = made[roots[0]].sum()
        for root in roots[1:]:
            total = total + made[root].sum()
        return total

    specs = [n.spec for n in leaves]
    return trace(value_and_grad(run, argnums=tuple(range(len(leaves)))), tuple(specs), {})


def _argument(entry: Any, made: Mapping[Node, Any]) -> Any:
    if isinstance(entry, Node):
        return made[entry]
    return wrap(entry) if isinstance(entry, np.ndarray) else entry


def _table(compiled: Compiled, sources: bool) -> dict[str, Any]:
    plan = compiled.plan
    times = compiled.program.times.tolist()
    found: dict[tuple[Any, ...], int] = {}
    listed: list[dict[str, Any]] = []
    order: list[int] = []
    micros: list[float | None] = []
    for step, time, (nodes, gradients) in zip(plan.steps, times, _rows_of_steps(compiled), strict=True):
        took = None if time == UNTIMED else round(time / 1000, 3)
        # One function may serve several steps, on other nodes each: those are entries of their own.
        at = found.setdefault((step.label, tuple(nodes), tuple(gradients)), len(listed))
        if at == len(listed):
            listed.append(
                {
                    "name": step.label,
                    "kind": _kind(step),
                    "phase": "backward" if gradients and not nodes else "forward",
                    "nodes": nodes,
                    "gradients": gradients,
                    "micros": took,
                    "bytes": step.nbytes,
                    "flops": float(step.flops),
                    "code": step.kernel.name if isinstance(step.kernel, Kernel) else "",
                }
            )
        order.append(at)
        micros.append(took)
    texts = {k.name: k.ir for k in compiled.kernels} if sources else {}
    return {
        "target": f"{machine.host().cpu}, {machine.host().triple}",
        "plan": {"kernel": order, "text": [step.label for step in plan.steps], "micros": micros},
        "list": listed,
        "sources": texts if sum(map(len, texts.values())) <= SOURCE_LIMIT else {},
    }


def _kind(step: Step) -> str:
    if isinstance(step.kernel, HostCall):
        return "Python"
    if isinstance(step.kernel, Jump):
        return "jump"
    # A kernel's key begins with the class that it is of.
    return step.kernel.key.partition(" ")[0]


def _rows_of_steps(compiled: Compiled) -> list[tuple[list[int], list[int]]]:
    """For every step the rows whose values it computes, and those whose derivatives."""
    steps = compiled.plan.steps
    found = [_rows(compiled, step) for step in steps]
    # What only lays out operands for another step belongs to that step.
    readers: dict[Buffer, int] = {}
    for i in reversed(range(len(steps))):
        if not steps[i].nodes:
            found[i] = next((found[readers[b]] for b in steps[i].writes if b in readers), ([], []))
        readers |= dict.fromkeys(steps[i].reads, i)
    return found


def _rows(compiled: Compiled, step: Step) -> tuple[list[int], list[int]]:
    values: set[int] = set()
    gradients: set[int] = set()
    for node in step.nodes:
        for first in compiled.ancestors(node):
            row, backward = _row(first)
            if row >= 0:
                (gradients if backward else values).add(row)
    return sorted(values), sorted(gradients)


def _row(node: Node) -> tuple[int, bool]:
    """The row in whose scope a node was recorded, and whether it is part of its derivative."""
    scope, backward = node.scope, False
    while scope is not None:
        backward = backward or scope.kind == "gradient"
        if scope.kind == "module" and scope.name.lstrip("-").isdigit():
            return int(scope.name), backward
        scope = scope.parent
    return -1, backward
