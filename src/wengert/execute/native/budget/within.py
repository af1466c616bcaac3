"""Plans within a budget: in another order, and with values computed again, until they need few enough bytes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ....core.errors import GraphError, WengertError, error
from ....core.node import Node
from ....core.source import Source
from ..codegen.types import Target
from ..plan.plan import ALIGN, Plan, Step, scratch_stride
from ..plan.report import memory, results_nbytes
from .blocks import Blocks, time_of
from .evict import READ_PER_NS, WRITTEN_PER_NS, Event, Full, Moved, within
from .order import frugal, peak
from .places import place_of
from .rebuild import AGAIN, Rebuilt

# Ways to weigh how long a value is not read against what it costs; each is tried, and the cheapest taken.
_HASTES = (0.5, 1.0, 0.0)
# Buffers seldom fill the arena without gaps: the room for values is made smaller by what they take, so many times.
_SHRINKS = 6
# The least room is found to so many parts of it.
_EXACT = 1 / 64
# By such a factor a plan has to need less than another to be looked for at all.
_LESS = 0.97


class Limit(NamedTuple):
    """A limit of memory: so many bytes beside inputs and constants (None: any number), for so many threads.

    Values may be spilled to files in `folder`, where there is one; `in_8_bits`, activations are kept as integers.
    """

    nbytes: int | None
    threads: int
    folder: str = ""
    in_8_bits: bool = False

    @property
    def name(self) -> str:
        """The text of all that decides the plan."""
        return f"{self.nbytes} bytes {self.threads} threads{' spilling' * bool(self.folder)}{' int8' * self.in_8_bits}"


class BudgetError(GraphError, MemoryError):
    """An error: a program cannot be made to need no more memory than it is allowed."""


class Again(NamedTuple):
    """A step that runs again, `times` besides the first: its results' bytes, its part of the time, where it is from."""

    label: str
    times: int
    bytes: int
    share: float
    source: Source | None
    path: str


class Spilled(NamedTuple):
    """A value that a file keeps for a while: the step that makes it, its bytes, where it is from."""

    label: str
    bytes: int
    source: Source | None
    path: str


class Budget(NamedTuple):
    """The outcome of a budget for a plan.

    `limit` bytes are allowed (None: any number), `free` is what the plan would need without it, `needed` what it needs.
    `again` are the steps that run more than once, `spilled` the values that are written to a file, of `file` bytes;
    `time` is the part that these add to the estimated time of all steps.
    """

    limit: int | None
    free: int
    needed: int
    is_reordered: bool
    again: tuple[Again, ...]
    time: float
    spilled: tuple[Spilled, ...] = ()
    file: int = 0


def fit(plan: Plan, limit: Limit, name: str, target: Target) -> Budget:
    """Give a plan's buffers places, after making it one that keeps to a limit.

    Raises BudgetError where that is impossible, with the least number of bytes that is not, and what needs them.
    """
    plan.claim_outputs()
    plan.arrange()
    free = memory(plan, limit.threads).growth
    if limit.nbytes is None:
        return _reordered(plan, free, limit.threads, target)
    if free <= limit.nbytes:
        return Budget(limit.nbytes, free, free, False, (), 0.0)
    return _Fit(plan, limit.nbytes, limit, free, name, target).found()


def _reordered(plan: Plan, free: int, threads: int, target: Target) -> Budget:
    """Give a plan the order that needs least memory, where that is another."""
    blocks = Blocks(plan)
    order = frugal(blocks)
    made = Rebuilt(blocks, [Event(b, False, (), ()) for b in order], target)
    if made.arena < plan.arena:
        made.put_into(plan)
    return Budget(None, free, memory(plan, threads).growth, made.is_reordered, (), 0.0)


def _again(made: Rebuilt, whole: float) -> tuple[Again, ...]:
    """Return the steps that run again, each once, those that take longest first."""
    found: dict[tuple[str, tuple[Node, ...]], list[Step]] = {}
    for i in made.again:
        step = made.plan.steps[i]
        found.setdefault((step.label.removesuffix(AGAIN), step.nodes), []).append(step)
    rows = []
    for (label, _), steps in found.items():
        source, _, path = place_of(steps[:1])
        share = len(steps) * time_of(steps[0]) / whole
        rows.append(Again(label, len(steps), sum(b.nbytes for b in steps[0].writes), share, source, path))
    return tuple(sorted(rows, key=lambda r: -r.share))


def _spilled(made: Rebuilt, blocks: Blocks) -> tuple[Spilled, ...]:
    """Return the values that go to the file, the largest first."""
    rows = []
    for v in made.spilled:
        block = blocks.blocks[blocks.writers[v][-1]]
        source, _, path = place_of(made.steps_of(block))
        rows.append(Spilled(made.steps_of(block)[-1].label, blocks.buffers[v].nbytes, source, path))
    return tuple(sorted(rows, key=lambda r: -r.bytes))


class _Fit:
    def __init__(self, plan: Plan, nbytes: int, limit: Limit, free: int, name: str, target: Target) -> None:
        self.spills, self.target = bool(limit.folder), target
        self.plan, self.limit, self.free, self.name = plan, nbytes, free, name
        scratch = scratch_stride(max((s.scratch for s in plan.steps), default=0))
        self.fixed = results_nbytes(plan) + scratch * limit.threads
        self.blocks = Blocks(plan)
        own = list(range(len(self.blocks.blocks)))
        better = frugal(self.blocks)
        # The order of the plan itself first: it changes nothing.
        self.orders = [own] if better == own else [better, own]

    def found(self) -> Budget:
        made = self._within(self.limit - self.fixed)
        if made is None:
            made, full = self._least()
            if self.fixed + made.arena > self.limit:
                raise self._refusal(made, full)
        made.put_into(self.plan)
        whole = sum(block.time for block in self.blocks.blocks)
        return Budget(
            self.limit,
            self.free,
            self.fixed + made.arena,
            made.is_reordered,
            _again(made, whole),
            made.time / whole,
            _spilled(made, self.blocks),
            self.plan.spill,
        )

    def _within(self, room: int) -> Rebuilt | None:
        """Return a plan whose arena has at most `room` bytes, the one that costs least; None where none is found."""
        for order in self.orders:
            ways = []
            for haste in _HASTES:
                with suppress(Full):
                    events = within(self.blocks, order, room, haste, self.spills)
                    ways.append((self._cost(events), haste, events))
                    if ways[-1][0] == 0.0:
                        break
            for _, haste, events in sorted(ways, key=lambda way: way[0]):
                made = self._arranged(order, room, haste, events)
                if made is not None:
                    return made
        return None

    def _cost(self, events: Sequence[Event | Moved]) -> float:
        again = sum(self.blocks.blocks[e.block].time for e in events if isinstance(e, Event) and e.is_again)
        moved = [e for e in events if isinstance(e, Moved)]
        back, out = (sum(self.blocks.sizes[e.value] for e in moved if e.is_back is way) for way in (True, False))
        return again + back / READ_PER_NS + out / WRITTEN_PER_NS

    def _arranged(
        self, order: Sequence[int], limit: int, haste: float, events: Sequence[Event | Moved]
    ) -> Rebuilt | None:
        """Return the plan of some runs of blocks, or of others with less room where the arena has gaps."""
        room = limit
        for _ in range(_SHRINKS):
            made = Rebuilt(self.blocks, events, self.target)
            if made.arena <= limit:
                return made
            room -= made.arena - limit
            try:
                events = within(self.blocks, order, room, haste, self.spills)
            except Full:
                break
        return None

    def _least(self) -> tuple[Rebuilt, Full | None]:
        """Return the plan that needs least, and what makes one that needs less impossible."""
        order = self.orders[0]
        high, low = peak(self.blocks, order), 0
        events, full = within(self.blocks, order, high, _HASTES[0], self.spills), None
        while high - low > max(ALIGN, int(high * _EXACT)):
            middle = (low + high) // 2
            for haste in _HASTES:
                try:
                    events, high = within(self.blocks, order, middle, haste, self.spills), middle
                    break
                except Full as too_small:
                    full = too_small
            else:
                low = middle
        made = Rebuilt(self.blocks, events, self.target)
        # With other gaps in the arena a little less may do.
        while made.arena and (less := self._within(int(made.arena * _LESS))) is not None:
            made = less
        return made, full

    def _refusal(self, made: Rebuilt, full: Full | None) -> WengertError:
        """Return the error that says how little would do, and what needs that."""
        least, held, what, where = self.fixed + made.arena, self.fixed, "its results", None
        if full is not None:
            block = self.blocks.blocks[full.block]
            where, what, _ = place_of(self.plan.steps[block.first : block.end])
            held += sum(self.blocks.sizes[v] for v in {*block.reads, *block.writes}) + block.held
        return error(
            BudgetError,
            f"{self.name} cannot run within {self.limit:,} bytes: it needs at least {least:,}, set by {what}",
            f"Without a budget it takes {self.free:,} bytes. That step alone has {held:,} in use, of which "
            f"{self.fixed:,} are results and scratch memory. Give memory={least} or more, or a smaller batch"
            f"{'.' if self.spills else ', or spill=True, which keeps values in a file.'}",
            str(where) if where is not None else None,
        )
