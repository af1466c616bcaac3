"""Reports on plans: the memory that they need, and their work."""

from __future__ import annotations

from typing import NamedTuple

from .plan import HostCall, Plan, scratch_stride


class Memory(NamedTuple):
    """The bytes of a program while it runs; `peak` is all of them together, known before anything runs.

    `outputs` are the arrays that a call hands out, those that are an input's memory aside.
    """

    inputs: int
    outputs: int
    constants: int
    arena: int
    scratch: int

    @property
    def peak(self) -> int:
        return sum(self)

    @property
    def growth(self) -> int:
        """The bytes that a call takes beside its inputs and the program's constants, which are there anyway."""
        return self.outputs + self.arena + self.scratch

    def __str__(self) -> str:
        rows = [f"{name:<10}{getattr(self, name):>16,} bytes" for name in (*self._fields, "peak")]
        return "\n".join(rows)


def memory(plan: Plan, threads: int = 1) -> Memory:
    """Return the memory of a run of the plan, its inputs and outputs included."""
    scratch = max((s.scratch for s in plan.steps), default=0)
    return Memory(
        sum(v.buffer.nbytes for v in plan.inputs),
        results_nbytes(plan),
        sum(b.nbytes for b in plan.constants),
        plan.arena,
        scratch_stride(scratch) * threads,
    )


def results_nbytes(plan: Plan) -> int:
    """Return the bytes of the arrays that a call hands out and that are no donated input, as a whole."""
    handed: set[int] = set()
    total = 0
    for view in plan.outputs:
        buffer = view.buffer
        is_whole = buffer.kind == "input" and buffer.donated and view == plan.inputs[buffer.index]
        if is_whole and buffer.index not in handed:
            handed.add(buffer.index)
        else:
            total += view.size * view.dtype.itemsize
    return total


class Cost(NamedTuple):
    """The work of a program: floating-point operations, bytes that its steps read and write, steps."""

    flops: float
    nbytes: int
    steps: int
    host_calls: int

    def __str__(self) -> str:
        return (
            f"{self.flops:,.0f} operations, {self.nbytes:,} bytes moved, "
            f"{self.steps} steps, {self.host_calls} of them in Python"
        )


def cost(plan: Plan) -> Cost:
    """Return the plan's work."""
    host = sum(isinstance(s.kernel, HostCall) for s in plan.steps)
    return Cost(sum(s.flops for s in plan.steps), sum(s.nbytes for s in plan.steps), len(plan.steps), host)
