"""Plans made anew from the runs of their blocks: steps on other buffers, with the same kernels and sizes."""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.types import Target
from ..kernels.spill import in_step, out_step, pages
from ..plan.plan import Buffer, HostCall, Jump, Plan, Step, View
from .blocks import Block, Blocks
from .evict import READ_PER_NS, WRITTEN_PER_NS, Event, Moved
from .place import arrange

# What the labels of steps that run again end with.
AGAIN = " again"
# What the labels of steps that copy values to the file and back end with.
OUT, BACK = " to the file", " from the file"


class Rebuilt:
    """A plan with blocks in another order, some of them more than once; `again` are those steps, by their places.

    The plan that it is made of stays as it was until :meth:`put_into`.
    """

    def __init__(self, blocks: Blocks, events: Sequence[Event | Moved], target: Target) -> None:
        self._old, self._steps = blocks.plan, list(blocks.plan.steps)
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
        self._target = target
        self._parts: dict[int, Buffer] = {}
        self.spilled: list[int] = []
        for event in events:
            if isinstance(event, Moved):
                self._move(event)
            else:
                self._add(event, moved)
        self.plan.windows = [self._windows.get(w, w) for w in self._old.windows]
        self.plan.loops = [(moved[first], moved[last]) for first, last in self._old.loops]
        firsts = [e.block for e in events if isinstance(e, Event) and not e.is_again]
        self.is_reordered = firsts != sorted(firsts)
        arrange(self.plan)

    @property
    def arena(self) -> int:
        """The bytes of the arena."""
        return self.plan.arena

    def steps_of(self, block: Block) -> list[Step]:
        """Return the steps of a block, as they were."""
        return self._steps[block.first : block.end]

    def put_into(self, plan: Plan) -> None:
        """Make a plan this one."""
        plan.steps, plan.windows, plan.loops = self.plan.steps, self.plan.windows, self.plan.loops
        plan.spill = self.plan.spill
        arrange(plan)

    def _add(self, event: Event, moved: dict[int, int]) -> None:
        block = self._blocks.blocks[event.block]
        buffers = self._blocks.buffers
        for v in event.fresh:
            self._now[buffers[v]] = Buffer("temp", buffers[v].nbytes)
        scraps = {buffers[v]: Buffer("temp", buffers[v].nbytes) for v in event.scrap}
        start = len(self.plan.steps)
        for i in range(block.first, block.end):
            step = self._steps[i]
            if event.is_again:
                self.again.append(len(self.plan.steps))
            else:
                moved[i] = len(self.plan.steps)
            self.plan.steps.append(self._step(step, scraps, event.is_again, start - block.first))
        if event.is_again:
            self.time += block.time

    def _move(self, event: Moved) -> None:
        """Add the step that writes a value to its part of the file, or reads it back to new memory."""
        old = self._blocks.buffers[event.value]
        maker = self._steps[self._blocks.blocks[self._blocks.writers[event.value][-1]].end - 1]
        if not event.is_back:
            part = self._parts[event.value] = Buffer("spill", old.nbytes)
            part.place = self.plan.spill
            self.plan.spill += pages(old.nbytes)
            self.spilled.append(event.value)
            step = out_step(self._now.get(old, old), part, self._target, f"{maker.label}{OUT}")
        else:
            self._now[old] = Buffer("temp", old.nbytes)
            step = in_step(self._parts[event.value], self._now[old], self._target, f"{maker.label}{BACK}")
        step.nodes = maker.nodes
        self.time += step.nbytes / 2 / (READ_PER_NS if event.is_back else WRITTEN_PER_NS)
        self.plan.steps.append(step)

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
