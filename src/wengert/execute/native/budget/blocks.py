"""Plans as blocks and values: what may move, what may run twice, and what that costs.

A block is a step, or the steps of a loop or of a choice, which stay together. A value is a temporary in memory, or a
result, as the blocks that write it leave it. A block may run *again* where it is a kernel alone, whose results are a
function of what it reads: then the same kernel gives the same bits, random numbers included, for they are a function
of a counter.
What runs Python, or jumps, or writes to memory that is not the program's own, runs once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ....core.graph.work import flops
from ..codegen.kernel import Kernel
from ..plan.plan import Buffer, HostCall, Jump, Plan, Step, View, rounded

# What a step takes, in nanoseconds: operations and bytes by the roofline of an ordinary core, and its call.
FLOPS_PER_NS, BYTES_PER_NS, CALL_NS = 16.0, 8.0, 500.0

_MADE = ("temp", "output")


class Block(NamedTuple):
    """Steps of a plan, from `first` up to `end`, that stay together.

    `reads` and `writes` are values by number, `inputs` and `changes` the program's inputs that it reads and writes to.
    `held` bytes are needed while it runs beside those values, `time` nanoseconds is what it is taken to cost.
    """

    first: int
    end: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    inputs: tuple[Buffer, ...]
    changes: tuple[Buffer, ...]
    held: int
    time: float
    is_pure: bool
    has_effects: bool


class Blocks:
    """The blocks and the values of a plan whose results have their buffers.

    `sizes` has the bytes of each value, `writers` the blocks that write it, `readers` those that read it, in order.
    A value is `stable` where nothing reads it before it is complete; `pinned` values are results, or parts are.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.buffers: list[Buffer] = []
        self._number: dict[Buffer, int] = {}
        spans = _spans(plan)
        alone = self._used_once(plan, spans)
        self.blocks = [self._block(first, end, alone) for first, end in spans]
        # Results have memory of their own.
        self.sizes = [rounded(b.nbytes) if b.kind == "temp" else 0 for b in self.buffers]
        self.writers: list[list[int]] = [[] for _ in self.buffers]
        self.readers: list[list[int]] = [[] for _ in self.buffers]
        for i, block in enumerate(self.blocks):
            for v in block.writes:
                self.writers[v].append(i)
            for v in block.reads:
                self.readers[v].append(i)
        self.stable = [self._is_stable(v) for v in range(len(self.buffers))]
        self.pinned = frozenset(self._number[b] for v in plan.outputs if (b := v.buffer.whole) in self._number)
        self.makers = [self._maker(v) for v in range(len(self.buffers))]

    def _value(self, buffer: Buffer) -> int:
        found = self._number.get(buffer)
        if found is None:
            found = self._number[buffer] = len(self.buffers)
            self.buffers.append(buffer)
        return found

    @staticmethod
    def _used_once(plan: Plan, spans: Sequence[tuple[int, int]]) -> frozenset[Buffer]:
        """Return the temporaries that one block alone touches, of those with several steps."""
        users: dict[Buffer, int] = {}
        shared: set[Buffer] = {v.buffer.whole for v in plan.outputs}
        for i, (first, end) in enumerate(spans):
            for step in plan.steps[first:end]:
                for buffer in step.reads + step.writes:
                    if users.setdefault(buffer.whole, i) != i or end - first == 1:
                        shared.add(buffer.whole)
        return frozenset(b for b in users if b.kind == "temp" and b not in shared)

    def _block(self, first: int, end: int, alone: frozenset[Buffer]) -> Block:
        steps = self.plan.steps[first:end]
        reads: dict[Buffer, None] = {}
        writes: dict[Buffer, None] = {}
        windowed: dict[Buffer, None] = {}
        for step in steps:
            moved = _moved_windows(step)
            windowed.update(dict.fromkeys(moved))
            reads.update((b.whole, None) for b in step.reads)
            writes.update((b.whole, None) for b in step.writes if b.whole not in moved)
        reads.update((b, None) for b in windowed if b not in writes)
        kinds = [type(step.kernel) for step in steps]
        is_own = all(b.kind == "temp" for b in writes)
        return Block(
            first,
            end,
            tuple(self._value(b) for b in reads if b.kind in _MADE and b not in alone),
            tuple(self._value(b) for b in writes if b.kind in _MADE and b not in alone),
            tuple(b for b in reads if b.kind == "input"),
            tuple(b for b in writes if b.kind == "input"),
            _held(steps, alone),
            sum(map(time_of, steps)),
            is_own and all(k is Kernel for k in kinds) and end - first == 1,
            HostCall in kinds,
        )

    def _is_stable(self, v: int) -> bool:
        writers = self.writers[v]
        return bool(writers) and all(r > writers[-1] or r in writers for r in self.readers[v])

    def _maker(self, v: int) -> tuple[int, ...]:
        """Return the blocks that make a value when they are run again; none where that is impossible."""
        if not self.stable[v] or v in self.pinned:
            return ()
        writers = self.writers[v]
        for w in writers:
            block = self.blocks[w]
            if not block.is_pure or any(not self.stable[u] and u != v for u in (*block.reads, *block.writes)):
                return ()
        return tuple(writers)


def time_of(step: Step) -> float:
    """Return the nanoseconds that a step is taken to cost: by the operations that its nodes' ops declare."""
    counts = [flops(n).operations for n in step.nodes if n.op.body is None]
    known = [float(c) for c in counts if isinstance(c, int)]
    work = sum(known) if known and len(known) == len(counts) else step.flops
    return max(work / FLOPS_PER_NS, step.nbytes / BYTES_PER_NS) + CALL_NS


def _spans(plan: Plan) -> list[tuple[int, int]]:
    """Return the first step of every block and the one after its last: what a jump passes over is one block."""
    last = list(range(len(plan.steps)))  # the last step that belongs to the block of each
    for i, step in enumerate(plan.steps):
        if isinstance(step.kernel, Jump):
            first, end = sorted((i, step.kernel.target if step.kernel.target <= i else step.kernel.target - 1))
            last[first] = max(last[first], end)
        elif _moved_windows(step) and i + 1 < len(plan.steps):
            last[i] = max(last[i], i + 1)  # the loop that it sets windows for
    spans = []
    i = 0
    while i < len(plan.steps):
        end, at = last[i], i
        while at < end:
            at += 1
            end = max(end, last[at])
        spans.append((i, end + 1))
        i = end + 1
    return spans


def _moved_windows(step: Step) -> frozenset[Buffer]:
    """Return the buffers that a step moves windows over; it writes only where these point, not to their memory."""
    if not isinstance(step.kernel, Kernel) or not step.kernel.key.startswith("control "):
        return frozenset()
    views = (w for w in step.words if isinstance(w, View))
    return frozenset(v.buffer.whole for v in views if v.buffer.kind == "window")


def _held(steps: Sequence[Step], alone: Iterable[Buffer]) -> int:
    """Return the bytes that a block of several steps needs for itself."""
    if len(steps) == 1:
        return 0
    found = {b.whole for step in steps for b in step.reads + step.writes if b.whole in alone}
    return sum(rounded(b.nbytes) for b in found)
