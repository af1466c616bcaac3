"""What the compiler makes of a recorded run: its plan and kernels, and which nodes each of them computes."""

from __future__ import annotations

from typing import Any

from ..core.errors import WengertError
from ..execute.native import machine
from ..execute.native.compile import Compiled, compile_graph
from ..execute.native.kernel import Kernel
from ..execute.native.plan import Buffer, HostCall, Jump, Step
from ..execute.native.runtime import UNTIMED
from .rerun import Rerun, row_of

# Kernels' times are the least of so many calls.
CALLS = 5
# Sources longer than this in all are left out of a document: they can be asked for.
SOURCE_LIMIT = 400_000


def kernels(run: Rerun, sources: bool = True) -> dict[str, Any] | None:
    """The `kernels` table of a document (see the schema), with LLVM IR unless `sources` is False.

    None where the run cannot be compiled here.
    """
    try:
        compiled = compile_graph(run.differentiated())
        for _ in range(CALLS):
            compiled.run(run.arrays)
    except (WengertError, ImportError):
        return None
    return _table(compiled, sources)


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
            row, backward = row_of(first)
            if row >= 0:
                (gradients if backward else values).add(row)
    return sorted(values), sorted(gradients)
