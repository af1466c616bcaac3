"""Plans made anew from the runs of their blocks: steps on other buffers, with the same kernels and sizes."""

from __future__ import annotations

from collections.abc import Sequence

from ..plan.plan import Buffer, HostCall, Jump, Plan, Step, View
from .blocks import Blocks
from .evict import Event
from .place import arrange

# What the labels of steps that run again end with.
AGAIN = " again"


class Rebuilt:
    """A plan with blocks in another order, some of them more than once; `again` are those steps, by their places.

    The plan that it is made of stays as it was until :meth:`put_into`.
    """

    def __init__(self, blocks: Blocks, events: Sequence[Event]) -> None:
        self._old = blocks.plan
        self._blocks = blocks
        # The buffer that holds a value now.
        self._now: dict[Buffer, Buffer] = {}
        self._windows: dict[Buffer, Buffer] = {}
        self.again: list[int] = []
        self.time = 0.0
        self.plan = Plan()
        self.plan.inputs, self.plan.outputs = self._old.inputs, self._old.outputs
        self.plan.constants = self._old.constants
        moved: dict[int, int] = {}
        for event in events:
            self._add(event, moved)
        self.plan.windows = [self._windows.get(w, w) for w in self._old.windows]
        self.plan.loops = [(moved[first], moved[last]) for first, last in self._old.loops]
        firsts = [e.block for e in events if not e.is_again]
        self.is_reordered = firsts != sorted(firsts)
        arrange(self.plan)

    @property
    def arena(self) -> int:
        """The bytes of the arena."""
        return self.plan.arena

    def put_into(self, plan: Plan) -> None:
        """Make a plan this one."""
        plan.steps, plan.windows, plan.loops = self.plan.steps, self.plan.windows, self.plan.loops
        arrange(plan)

    def _add(self, event: Event, moved: dict[int, int]) -> None:
        block = self._blocks.blocks[event.block]
        buffers = self._blocks.buffers
        for v in event.fresh:
            self._now[buffers[v]] = Buffer("temp", buffers[v].nbytes)
        scraps = {buffers[v]: Buffer("temp", buffers[v].nbytes) for v in event.scrap}
        start = len(self.plan.steps)
        for i in range(block.first, block.end):
            step = self._old.steps[i]
            if event.is_again:
                self.again.append(len(self.plan.steps))
            else:
                moved[i] = len(self.plan.steps)
            self.plan.steps.append(self._step(step, scraps, event.is_again, start - block.first))
        if event.is_again:
            self.time += block.time

    def _step(self, step: Step, scraps: dict[Buffer, Buffer], is_again: bool, by: int) -> Step:
        def buffer(b: Buffer) -> Buffer:
            if b.of is None:
                return scraps.get(b) or self._now.get(b, b)
            of = buffer(b.of)
            if of is b.of:
                return b
            made = self._windows.get(b)
            if made is None:
                made = self._windows[b] = Buffer("window", b.nbytes, b.index, of=of)
            return made

        def view(v: View) -> View:
            return v._replace(buffer=buffer(v.buffer))

        kernel = step.kernel
        if isinstance(kernel, Jump):
            when = None if kernel.when is None else view(kernel.when)
            kernel = Jump(kernel.name, when, kernel.target + by)
        elif isinstance(kernel, HostCall) and kernel.when is not None:
            kernel = HostCall(kernel.name, kernel.run, view(kernel.when), kernel.origin)
        made = Step.of_buffers(
            kernel,
            tuple(view(w) if isinstance(w, View) else w for w in step.words),
            tuple(map(buffer, step.reads)),
            tuple(map(buffer, step.writes)),
            (step.units, step.grain, step.scratch, step.flops, step.nbytes),
            f"{step.label}{AGAIN}" if is_again else step.label,
        )
        made.nodes = step.nodes
        return made
