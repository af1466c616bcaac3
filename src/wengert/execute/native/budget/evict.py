"""Values kept and values computed again: a run of a plan's blocks within so many bytes, followed in advance.

The blocks run in order. Where the next one finds no room, values give way that are read again only later: first those
that cost least to compute again, for their bytes and for the time until they are read. A value that was let go
is computed again right before it is read, of what is there, and of what is itself computed again for that. So the
cost of letting a value go is the time of all blocks between it and what is there, as in Kirisame et al., "Dynamic
tensor rematerialization" (ICLR 2021); that the next reading is known makes it Belady's choice (1966), weighted. The
optimum is that of Jain et al., "Checkmate" (MLSys 2020), an integer program, which takes a solver and minutes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

from ..plan.plan import Buffer
from .blocks import CALL_NS, Block, Blocks

# A plan that runs so many times as many blocks does nothing else than computing again.
_MOST_AGAIN = 4
# What an ordinary disk writes and reads in a nanosecond, in bytes.
WRITTEN_PER_NS, READ_PER_NS = 0.8, 1.6
# Values smaller than this part of the room are let go last.
_SMALL = 1 / 2048


class Event(NamedTuple):
    """A run of a block: for the first time, or again for the sake of the values `fresh`, which get new memory.

    What it writes besides, `scrap`, is there already, or not needed any more.
    """

    block: int
    is_again: bool
    fresh: tuple[int, ...]
    scrap: tuple[int, ...]


class Moved(NamedTuple):
    """A value written to a file, or read back from it, which gives it new memory."""

    value: int
    is_back: bool


Events = list[Event | Moved]


def file_time(nbytes: int, is_there: bool) -> float:
    """Return the nanoseconds that a value takes to a file and back, or back alone: those of an ordinary disk."""
    return nbytes / READ_PER_NS + (0.0 if is_there else nbytes / WRITTEN_PER_NS) + CALL_NS


class Full(Exception):
    """An error: a block finds no room."""

    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block


def within(blocks: Blocks, order: Sequence[int], room: int, haste: float, spills: bool = False) -> Events:
    """Return the runs of blocks that keep values within `room` bytes. Raises Full.

    `haste` is the exponent of the time until a value is read again, by which its cost is divided. Where it `spills`,
    a value may go to a file instead of being computed again.
    """
    return _Run(blocks, order, room, haste, spills).events()


class _Run:
    def __init__(self, blocks: Blocks, order: Sequence[int], room: int, haste: float, spills: bool) -> None:
        self.blocks: list[Block] = blocks.blocks
        self.order, self.room, self.haste, self.spills = order, room, haste, spills
        self.sizes, self.makers, self.pinned = blocks.sizes, blocks.makers, blocks.pinned
        self.writers = blocks.writers
        count = len(self.sizes)
        place = {b: i for i, b in enumerate(order)}
        self.clock = [0.0]
        for b in order:
            self.clock.append(self.clock[-1] + self.blocks[b].time)
        self.clock.append(math.inf)
        # The places in the order at which each value is read or written, the last first.
        self.uses = [
            sorted({place[b] for b in (*w, *r)}, reverse=True)
            for w, r in zip(blocks.writers, blocks.readers, strict=True)
        ]
        self.complete_at = [max(place[b] for b in w) if w else -1 for w in blocks.writers]
        for v in self.pinned:
            self.uses[v].insert(0, len(order))
        self.of: list[frozenset[int]] = [
            frozenset(u for w in m for u in self.blocks[w].reads if u != v) for v, m in enumerate(self.makers)
        ]
        self.makes_of: list[list[int]] = [[] for _ in range(count)]
        for v, reads in enumerate(self.of):
            for u in reads:
                self.makes_of[u].append(v)
        # Blocks that may run again, by the inputs that they read; the values that each makes.
        self.pure_of: dict[Buffer, list[int]] = {}
        self.made_by: dict[int, list[int]] = {}
        for b, block in enumerate(self.blocks):
            for buffer in block.inputs if block.is_pure else ():
                self.pure_of.setdefault(buffer, []).append(b)
        for v, makers in enumerate(self.makers):
            for b in makers:
                self.made_by.setdefault(b, []).append(v)
        self.here: set[int] = set()
        self.dead: dict[int, None] = {}
        # Values that were let go and are needed again, with the place where that is; how many of these read each value.
        self.needed: dict[int, int] = {}
        self.wanted = [0] * count
        self.lock = [0] * count
        # Values that the file has, and of those that were let go the ones that come back from it.
        self.filed: set[int] = set()
        self.from_file: set[int] = set()
        self.expired: set[int] = set()
        self.past: set[int] = set()
        self.used = 0
        self.now = 0
        self.at = -1
        self.found: Events = []

    def events(self) -> Events:
        for now, at in enumerate(self.order):
            self.now, self.at = now, at
            block = self.blocks[at]
            if block.changes:
                self._before_change(block)
            self._run(at, (), None)
            self.past.add(at)
        return self.found

    # -- running

    def _run(self, b: int, makes: tuple[int, ...], value: int | None) -> None:
        """Run a block of the order, or, to make `value` again, the blocks that `makes` has."""
        todo: list[tuple[tuple[int, ...], int | None]] = [((b,) if value is None else makes, value)]
        held: list[list[int]] = [[]]
        while todo:
            run, made = todo[-1]
            reads = dict.fromkeys(u for w in run for u in self.blocks[w].reads if u != made)
            for u in reads:
                if u in self.here and u not in held[-1]:
                    held[-1].append(u)
                    self.lock[u] += 1
            missing = next((u for u in reads if u not in self.here and (made is not None or u in self.needed)), None)
            if missing is not None:
                todo.append((() if missing in self.from_file else self.makers[missing], missing))
                held.append([])
                continue
            if made is None:
                self._first(b)
            elif not run:
                self._back(made)
            else:
                self._again(run, made)
            todo.pop()
            for u in held.pop():
                self.lock[u] -= 1
            if made is None:
                self._bury(self.blocks[b])

    def _first(self, b: int) -> None:
        block = self.blocks[b]
        new = [u for u in block.writes if u not in self.here]
        for u in block.writes:
            self.lock[u] += 1
        self._make_room(sum(self.sizes[u] for u in new) + block.held)
        for u in block.writes:
            self.lock[u] -= 1
        for u in new:
            self.here.add(u)
            self.used += self.sizes[u]
        self.found.append(Event(b, False, (), ()))

    def _again(self, run: tuple[int, ...], made: int) -> None:
        if len(self.found) > _MOST_AGAIN * len(self.order) + 1000:
            raise Full(self.at)
        written = dict.fromkeys(u for w in run for u in self.blocks[w].writes)
        fresh = [u for u in written if u not in self.here and u in self.needed and self.makers[u] == run]
        if made not in fresh:
            fresh.append(made)
        scrap = [u for u in written if u not in fresh]
        self._make_room(sum(self.sizes[u] for u in written))
        for u in fresh:
            self.here.add(u)
            self.used += self.sizes[u]
            if self.needed.pop(u, None) is not None and u not in self.from_file:
                for r in self.of[u]:
                    self.wanted[r] -= 1
                    self._lay(r)
            self.from_file.discard(u)
            self._lay(u)
        for i, w in enumerate(run):
            writes = self.blocks[w].writes
            new = tuple(u for u in fresh if u in writes and all(u not in self.blocks[x].writes for x in run[:i]))
            self.found.append(Event(w, True, new, tuple(u for u in scrap if u in writes)))

    def _back(self, v: int) -> None:
        """Read a value back from the file."""
        self._make_room(self.sizes[v])
        self.here.add(v)
        self.used += self.sizes[v]
        self.needed.pop(v, None)
        self.from_file.discard(v)
        self.found.append(Moved(v, True))
        self._lay(v)

    def _bury(self, block: Block) -> None:
        """Take note of values that the order reads no more."""
        for u in dict.fromkeys((*block.reads, *block.writes)):
            uses = self.uses[u]
            while uses and uses[-1] <= self.now:
                uses.pop()
            self._lay(u)

    def _lay(self, u: int) -> None:
        """Count a value among those that nothing needs, if nothing does."""
        if u in self.here and not self._next(u) and not self.wanted[u]:
            self.dead[u] = None

    def _next(self, v: int) -> int:
        """Return the next place in the order that reads a value; 0 where there is none."""
        uses = self.uses[v]
        while uses and uses[-1] < self.now:
            uses.pop()
        return uses[-1] if uses else 0

    # -- inputs that change

    def _before_change(self, block: Block) -> None:
        """Compute again what could not be once the block has written over what it is made of."""
        expiring = {b for buffer in block.changes for b in self.pure_of.get(buffer, ()) if b in self.past}
        expiring -= self.expired
        self.expired |= expiring
        # What is made of a value that is not there is not there either, or does not need it.
        for v in sorted(v for b in expiring for v in self.made_by.get(b, ()) if v in self.needed):
            if v in self.needed and v not in self.from_file:
                self._run(self.at, self.makers[v], v)

    # -- room

    def _make_room(self, nbytes: int) -> None:
        excess = self.used + nbytes - self.room
        if excess <= 0:
            return
        for v in list(self.dead):
            if self.used + nbytes <= self.room:
                return
            if self.lock[v] == 0:
                self._drop(v)
        least = self.room * _SMALL
        for small in (False, True):
            heap = [(s, v) for v in self.here if (self.sizes[v] < least) is small and (s := self._score(v)) < math.inf]
            heapq.heapify(heap)
            while heap and self.used + nbytes > self.room:
                score, v = heapq.heappop(heap)
                now = self._score(v)
                if now > score and heap and now > heap[0][0]:
                    if now < math.inf:
                        heapq.heappush(heap, (now, v))
                    continue
                if now < math.inf:
                    self._drop(v)
            if self.used + nbytes <= self.room:
                return
        raise Full(self.at)

    def _drop(self, v: int) -> None:
        self.dead.pop(v, None)
        self.here.remove(v)
        self.used -= self.sizes[v]
        at = self._needed_at(v)
        if not at:
            return
        self.needed[v] = at
        if self._goes_to_file(v):
            if v not in self.filed:
                self.filed.add(v)
                self.found.append(Moved(v, False))
            self.from_file.add(v)
            return
        for r in self.of[v]:
            self.wanted[r] += 1
            self.dead.pop(r, None)
            if r in self.needed:
                self.needed[r] = min(self.needed[r], at)
            elif r not in self.here:
                self._miss(r, at)

    def _goes_to_file(self, v: int) -> bool:
        """Return whether a value that is let go comes back from the file, rather than being computed again."""
        return self.spills and file_time(self.sizes[v], v in self.filed) <= self._time(v)

    def _miss(self, r: int, at: int) -> None:
        """Take note that a value which is gone is needed after all."""
        stack = [r]
        while stack:
            u = stack.pop()
            if u in self.needed or u in self.here:
                continue
            self.needed[u] = at
            if u in self.filed:
                self.from_file.add(u)
                continue
            for x in self.of[u]:
                self.wanted[x] += 1
                self.dead.pop(x, None)
                stack.append(x)

    def _needed_at(self, v: int) -> int:
        """Return the place in the order where a value is needed next; 0 where it is not."""
        at = self._next(v)
        if self.wanted[v]:
            later = min(self.needed[u] for u in self.makes_of[v] if u in self.needed)
            at = min(at, later) if at else later
        return at

    def _score(self, v: int) -> float:
        """Return what it costs to let a value go, by bytes and time; infinite where it cannot be made again."""
        if self.lock[v] or self.complete_at[v] > self.now or v in self.pinned:
            return math.inf
        if not self.makers[v] and not self.spills:
            return math.inf
        if self.complete_at[v] == self.now and not self._is_made(v):
            return math.inf
        at = self._needed_at(v)
        if not at:
            return 0.0
        time = self._time(v)
        if self.spills:
            time = min(time, file_time(self.sizes[v], v in self.filed))
        if time == math.inf:
            return math.inf
        wait = max(self.clock[at] - self.clock[self.now], 1.0)
        return time / (self.sizes[v] * math.pow(wait, self.haste))

    def _is_made(self, v: int) -> bool:
        return all(b in self.past for b in self.writers[v])

    def _time(self, v: int) -> float:
        """Return the time of computing a value again, with all that is not there."""
        seen, stack, ran, total = {v}, [v], set(), 0.0
        while stack:
            u = stack.pop()
            makers = self.makers[u]
            if not makers:
                return math.inf
            for w in makers:
                if w in self.expired:
                    return math.inf
                if w not in ran:
                    ran.add(w)
                    total += self.blocks[w].time
            for r in self.of[u]:
                if r not in self.here and r not in seen:
                    seen.add(r)
                    if r in self.filed:
                        total += file_time(self.sizes[r], True)
                    else:
                        stack.append(r)
        return total
