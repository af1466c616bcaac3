"""The compiler's view of a recorded run: its plan and kernels, the nodes of each, and who ran them when."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ...core.errors import WengertError
from ...core.graph.work import flops
from ...core.node import Node
from ...execute.native.codegen import machine
from ...execute.native.codegen.kernel import Kernel
from ...execute.native.compile import Compiled, compile_graph
from ...execute.native.plan.plan import Buffer, Exchange, HostCall, Jump, Step
from ...execute.native.run.runtime import UNTIMED
from ...execute.native.run.timeline import NativeTrace
from .rerun import Rerun, row_of

# Kernels' times are the least of so many calls, the run that is shown the fastest of as many.
CALLS = 5
# A document holds so much of kernels' sources, the shorter ones first: the others can be asked for.
SOURCE_LIMIT = 600_000
# So many pairs of kernels are told why they are two.
PAIRS = 5_000
# And a run of more ranges of steps, such as one that loops for long.
RANGES = 20_000


def compile_run(run: Rerun) -> tuple[Compiled, NativeTrace] | None:
    """Return the run and its gradients as native code, and a trace of it; None where it cannot be compiled here."""
    try:
        made = compile_graph(run.differentiated())
        for _ in range(CALLS):
            made.run(run.arrays)
        traces = [made.trace(run.arrays) for _ in range(CALLS)]
    except (WengertError, ImportError):
        return None
    return made, min(traces, key=lambda trace: trace.seconds)


def kernels(compiled: Compiled, sources: bool = True) -> dict[str, Any]:
    """Return the `kernels` table of a document (see the schema), with LLVM IR unless `sources` is False."""
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
                    "flops": _flops(step),
                    "code": step.kernel.name if isinstance(step.kernel, Kernel) else "",
                }
            )
        order.append(at)
        micros.append(took)
    for a, b, why in _apart(compiled, order):
        listed[a].setdefault("apart", []).append({"kernel": b, "why": why})
    return {
        "target": f"{machine.host().cpu}, {machine.host().triple}",
        "plan": {"kernel": order, "text": [step.label for step in plan.steps], "micros": micros},
        "list": listed,
        "sources": _sources(compiled) if sources else {},
    }


def _flops(step: Step) -> float:
    """Return a step's operations, counted as everywhere: by its nodes, where each of them can be counted."""
    counts = [flops(node).operations for node in step.nodes if node.op.body is None]
    known = bool(counts) and len(counts) == len(step.nodes) and all(isinstance(n, (int, float)) for n in counts)
    return float(sum(counts)) if known else float(step.flops)


def _apart(compiled: Compiled, order: Sequence[int]) -> list[tuple[int, int, str]]:
    """Return pairs of kernels of which the second reads what the first makes, and why they are not one."""
    home = {node: order[i] for i, step in enumerate(compiled.plan.steps) for node in step.nodes}
    found: dict[tuple[int, int], str] = {}
    for node, kernel in home.items():
        for source in node.inputs:
            pair = (home.get(source, kernel), kernel) if isinstance(source, Node) else (kernel, kernel)
            if pair[0] != kernel and pair not in found and len(found) < PAIRS and isinstance(source, Node):
                found[pair] = compiled.why_not_fused(source, node) or ""
    return [(a, b, why) for (a, b), why in found.items() if why]


def _sources(compiled: Compiled) -> dict[str, str]:
    """Return the text of kernels by name, as many as fit."""
    texts = sorted({k.name: k.ir for k in compiled.kernels}.items(), key=lambda item: len(item[1]))
    ends = accumulate(len(text) for _, text in texts)
    return {name: text for (name, text), end in zip(texts, ends, strict=True) if end <= SOURCE_LIMIT}


def native(trace: NativeTrace, kernel: Sequence[int]) -> dict[str, Any] | None:
    """Return the `native` table of a document: a row for every range of a step's units that a worker ran at a stretch.

    `kernel` says of every step which entry of the list of kernels it is. Steps run one after the other: one can begin
    when the one before is done. None where there are so many ranges that nobody would look at them.
    """
    if trace.lost or len(trace.step) > RANGES:
        return None
    start, end = trace.start * 1e6, trace.end * 1e6
    times = _times(trace)
    done = np.zeros(int(times[-1]) + 1 if len(times) else 0)
    np.maximum.at(done, times, end)
    ready = np.concatenate([[0.0], done[:-1]])

    def column(values: Any) -> list[float]:
        return [round(value, 3) for value in values.tolist()]

    return {
        "origin": "native",
        "workers": trace.workers,
        "node": [-1] * len(trace.step),
        "kernel": [kernel[step] for step in trace.step],
        "worker": trace.worker.tolist(),
        "ready": column(ready[times]),
        "start": column(start),
        "end": column(end),
        "done": column(done[times]),
    }


def _times(trace: NativeTrace) -> Any:
    """Return which rows belong together: those of one time that a step was run, numbered from 0."""
    # In a loop of one step that step comes again at once, when all of its units are done.
    units = np.zeros(len(trace.labels), np.int64)
    np.maximum.at(units, trace.step, trace.hi)
    before = np.cumsum(trace.hi - trace.lo) - (trace.hi - trace.lo)
    is_other = np.diff(trace.step, prepend=-1) != 0
    since = np.maximum.accumulate(np.where(is_other, before, 0))
    turn = (before - since) // np.maximum(units[trace.step], 1)
    return np.cumsum(is_other | (np.diff(turn, prepend=0) != 0)) - 1


def _kind(step: Step) -> str:
    if isinstance(step.kernel, HostCall):
        return "Python"
    if isinstance(step.kernel, Jump):
        return "jump"
    if isinstance(step.kernel, Exchange):
        return "collective"
    # A kernel's key begins with the class that it is of.
    return step.kernel.key.partition(" ")[0]


def _rows_of_steps(compiled: Compiled) -> list[tuple[list[int], list[int]]]:
    """Return for every step the rows whose values it computes, and those whose derivatives."""
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
