"""Reports on plans: the memory that they need, and their work."""

from __future__ import annotations

from typing import NamedTuple

from .plan import HostCall, Plan


class Memory(NamedTuple):
    """The bytes of a program while it runs; `peak` is all of them together, known before anything runs."""

    inputs: int
    outputs: int
    constants: int
    arena: int
    scratch: int

    @property
    def peak(self) -> int:
        return sum(self)

    def __str__(self) -> str:
        rows = [f"{name:<10}{getattr(self, name):>16,} bytes" for name in (*self._fields, "peak")]
        return "\n".join(rows)


def memory(plan: Plan, threads: int = 1) -> Memory:
    """Return the memory of a run of the plan, its inputs and outputs included."""
    written_in_place = {v.buffer for v in plan.inputs}
    outputs = {v.buffer for v in plan.outputs if v.buffer not in written_in_place and v.buffer.kind != "constant"}
    scratch = max((s.scratch for s in plan.steps), default=0)
    return Memory(
        sum(v.buffer.nbytes for v in plan.inputs),
        sum(b.nbytes for b in outputs),
        sum(b.nbytes for b in plan.constants),
        plan.arena,
        (-(-scratch // 64) * 64) * threads,
    )


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
