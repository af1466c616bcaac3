"""Steps that no call changes: what depends on constants alone is computed once, when the program is made.

Weights that are constants are so packed for their products once and not by every call, and what passes made of
constants but left to be computed, for its size, takes no time of a call's. Such steps become a plan of their own, the
*preparation*; what other steps read of its results are from then on constants, whose arrays it fills.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..codegen.kernel import Kernel
from .plan import Buffer, HostCall, Jump, Plan, Step, View


def prepare(plan: Plan) -> None:
    """Move the steps that depend on constants alone into the plan's preparation; the plan has no places yet.

    What a jump leads over stays, for it may never run or add to what it wrote, and what Python runs, for it may raise.
    """
    moved = _movable(plan)
    if not moved and not plan.first:
        return
    stay = [step for i, step in enumerate(plan.steps) if i not in moved]
    needed = {b.whole for step in stay for b in _touched(step)} | {v.buffer.whole for v in plan.outputs}
    first = Plan()
    first.steps = [*plan.first, *(step for i, step in enumerate(plan.steps) if i in moved)]
    plan.first = []
    used = {b for step in first.steps for b in step.reads if b.kind == "constant"}
    first.constants = [b for b in plan.constants if b in used]
    plan.constants = [b for b in plan.constants if b in needed]
    filled: dict[Buffer, Buffer] = {}
    number_of_constants = 1 + max((b.index for b in (*first.constants, *plan.constants)), default=-1)
    for buffer in dict.fromkeys(b for step in first.steps for b in step.writes if b in needed):
        first.outputs.append(View(buffer, np.dtype(np.uint8), (buffer.nbytes,), (1,)))
        filled[buffer] = Buffer("constant", buffer.nbytes, number_of_constants + len(filled))
        plan.constants.append(filled[buffer])
    number = dict(zip((i for i in range(len(plan.steps)) if i not in moved), range(len(stay))))
    number[len(plan.steps)] = len(stay)
    plan.loops = [(number[start], number[end]) for start, end in plan.loops]
    for i in sorted(moved, reverse=True):
        # A jump to a step that is gone leads to the one after it.
        number[i] = number[i + 1]
    plan.steps = [_on(step, filled, number) for step in stay]
    plan.outputs = [_view(v, filled) for v in plan.outputs]
    plan.preparation, plan.prepared = first, list(filled.values())


def _movable(plan: Plan) -> set[int]:
    """Return the numbers of the steps that depend on constants alone, and whose results no other steps write to."""
    jumps = [(i, s.kernel.target) for i, s in enumerate(plan.steps) if isinstance(s.kernel, Jump)]
    passed = {i for jump in jumps for i in range(min(jump), max(jump))}
    # What steps move a window over, and what Python looks at: a check of indices has to come before they are used.
    watched = {b.whole for b in plan.windows}
    watched |= {b for step in plan.steps if isinstance(step.kernel, HostCall) for b in _touched(step)}
    writers = Counter(b for step in plan.steps for b in step.writes)
    known = {b for b in plan.constants if b not in watched}
    known.update(b for step in plan.first for b in step.writes)
    found: set[int] = set()
    written: Counter[Buffer] = Counter()
    for i, step in enumerate(plan.steps):
        plain = i not in passed and isinstance(step.kernel, Kernel) and bool(step.writes)
        own = all(b.kind == "temp" and b not in watched for b in step.writes)
        if plain and own and all(b in known or b in step.writes for b in step.reads):
            found.add(i)
            written.update(step.writes)
            # Parts of an array that other steps have still to write are not known yet.
            known.update(b for b in step.writes if written[b] == writers[b])
    while True:
        apart = {b for i in found for b in plan.steps[i].writes if written[b] != writers[b]}
        kept = {i for i in found if apart.isdisjoint(plan.steps[i].writes) and apart.isdisjoint(plan.steps[i].reads)}
        if kept == found:
            return found
        for i in found - kept:
            written.subtract(plan.steps[i].writes)
        found = kept


def _touched(step: Step) -> list[Buffer]:
    """Return the buffers that a step's record names, those that only decide whether it is done included."""
    asked = step.kernel.when if isinstance(step.kernel, (HostCall, Jump)) else None
    return [*step.reads, *step.writes, *([asked.buffer] if asked is not None else [])]


def _view(view: View, filled: dict[Buffer, Buffer]) -> View:
    return view._replace(buffer=filled[view.buffer]) if view.buffer in filled else view


def _on(step: Step, filled: dict[Buffer, Buffer], number: dict[int, int]) -> Step:
    """Return a step that reads what the preparation fills, a jump leading to the new number of its step."""
    kernel = step.kernel
    when = kernel.when if isinstance(kernel, (HostCall, Jump)) else None
    asked = _view(when, filled) if when is not None else None
    if isinstance(kernel, Jump):
        kernel = Jump(kernel.name, asked, number[kernel.target])
    elif isinstance(kernel, HostCall):
        kernel = HostCall(kernel.name, kernel.run, asked, kernel.origin)
    made = Step.of_buffers(
        kernel,
        tuple(_view(w, filled) if isinstance(w, View) else w for w in step.words),
        tuple(filled.get(b, b) for b in step.reads),
        step.writes,
        (step.units, step.grain, step.scratch, step.flops, step.nbytes),
        step.label,
    )
    made.nodes = step.nodes
    return made
