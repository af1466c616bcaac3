"""Programs: plans made ready to run, and running them.

A program holds what does not change: the records of its steps, the constants, the code's addresses.
What a call needs for itself (the table of addresses, the arena, scratch memory) is an `_Instance`,
so that several threads may run one program at once, and a program may be called in the midst of
itself. An instance is used again by later calls; large arenas are shared by all programs.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import setitem
from typing import Any, NamedTuple

import numpy as np

from ....core.elsewhere import here
from ....core.errors import GraphError, fail
from ....core.ops.op import find_op
from ....core.spec import as_dtype, show
from ....core.state.at_once import Call
from ....core.state.cached import cached_property
from ....core.state.observer import observer, observers
from ..codegen import object_cache
from ..codegen.kernel import Kernel, keep_in, prepare
from ..overlap import Bound, Exchanges
from ..plan.plan import (
    ALIGN,
    ARENA,
    FIRST,
    SCRATCH,
    SCRATCH_STRIDE,
    Buffer,
    Exchange,
    HostCall,
    Jump,
    Moved,
    Plan,
    Step,
    View,
    scratch_stride,
)
from . import guard, scheduler, spilling, threads
from .driver import (
    CALL_COUNT,
    CALL_FIRST,
    CALL_GIVEN,
    CALL_ITERATIONS,
    CALL_KINDS,
    CALL_PROFILE,
    CALL_STEPS,
    CALL_TABLE,
    CALL_TEAM,
    CALL_TIMES,
    CALL_WORDS,
    STEP_CHUNK,
    STEP_UNITS,
    STEP_WORDS,
    WRONG_KIND,
    Driver,
    driver,
    has_threads,
    kinds,
)
from .timeline import NativeTrace, ProfileRecords, now

# Compiled code is kept on disk.
keep_in(object_cache.load, object_cache.keep)

Array = np.ndarray[Any, np.dtype[Any]]
# The consumer of a run's results: it makes the calls that it is given and its own, all at once.
Commit = Callable[[list[Array], Sequence[Call]], None]

# A step is shared out if it takes one thread that long (in nanoseconds), and all such steps of the
# program together so long: handing one over and meeting again costs 1 to 2 microseconds, waking a
# helper 5 and then 20 more until it is there.
SHARED_FROM = 3_000
ALL_SHARED_FROM = 6_000
# Chunks are about that long, for a thread that loses its processor holds up one chunk; but there are
# no more of them than that for each thread, unless they are long: when the others are done, one is still at its last.
# Those of short steps are shorter, so that each thread has one, but no shorter than the least: more threads than that
# are not worth meeting.
CHUNK_NS = 10_000
LONG_CHUNK_NS = 100_000
LEAST_CHUNK_NS = 1_500
CHUNKS_EACH = 8
# A program this short keeps the interpreter's lock.
HELD_BELOW = 10_000
# In how many calls steps are timed. The first call meets cold caches and memory never touched.
TIMED_CALLS = 3
UNTIMED = np.iinfo(np.int64).max
# Until a step was timed, it takes at least as long as a very fast processor would need.
FLOPS_PER_NS, BYTES_PER_NS = 200.0, 40.0
# A trace has room for so many records of each thread, and for all of a program without loops.
TRACE_ROOM = 1 << 16
# About how long loops run before signals are seen to, and how many iterations that is at most.
SIGNALS_NS = 50_000_000
MOST_ITERATIONS = 1 << 16
# An arena of at most so many bytes belongs to its instance; larger ones are shared.
OWN_ARENA = 1 << 16
# The most instances, and the most large arenas, that wait for calls.
IDLE = 4


class _Layout(NamedTuple):
    """A division of a program's steps among so many threads."""

    generation: int
    team: threads.Team | None
    threads: int
    steps: np.ndarray[Any, np.dtype[np.int64]]
    timed: bool
    iterations: int
    start: Callable[[int, tuple[Array, ...]], int]


class Program:
    """A plan that can be called."""

    def __init__(
        self, plan: Plan, folder: str = "", is_guarded: bool = True, exchanges: Exchanges | None = None
    ) -> None:
        if not plan.is_arranged:
            plan.claim_outputs()
            plan.arrange()
        self.plan = plan
        self._driver: Driver = driver()
        if plan.preparation is not None:
            _fill(plan.preparation, plan.prepared)
        prepare(step.kernel for step in plan.steps if isinstance(step.kernel, Kernel))
        # The function that makes the array of each output; None where it is copied from elsewhere.
        self._makers: list[Any] = [
            _maker(v) if v.buffer.kind == "output" and v.buffer.index == i else None for i, v in enumerate(plan.outputs)
        ]
        self._all_direct = None not in self._makers
        self._kinds = kinds([(v.dtype, v.shape, _byte_strides(v)) for v in plan.inputs])
        self._entries: dict[Buffer, int] = {view.buffer: FIRST + i for i, view in enumerate(plan.inputs)}
        for view, make in zip(plan.outputs, self._makers):
            if make is not None:
                self._entries[view.buffer] = FIRST + len(self._entries)
        self._given = len(self._entries)
        for buffer in plan.constants:
            self._entries[buffer] = FIRST + len(self._entries)
        for buffer in plan.windows:
            self._entries[buffer] = FIRST + len(self._entries)
        # The folder, and the entry, of the file that values are spilled to, which lies outside of guarded memory.
        self._folder = folder
        self._file_entry = FIRST + len(self._entries)
        self._guard = guard.Guard(plan, self._entries) if is_guarded and guard.is_on() and not plan.spill else None
        # What moves collectives while other steps run; in guarded memory, which others may not read, Python does.
        self._exchanges = exchanges
        self._bound = [] if exchanges is None or self._guard is not None else [exchanges.bind(m) for m in plan.moved]
        self._records, self._starts = self._written()
        self._scratch = max((step.scratch for step in plan.steps), default=0)
        self._timed_calls = 0
        # The steps from here on are kernels, and inputs are written to by no others; the number of steps where by none.
        self._last = _last_part(plan)
        self._idle: list[_Instance] = []
        # The least time that one thread needed for each step so far, in nanoseconds.
        self.times = np.full(len(plan.steps), UNTIMED, np.int64)
        self._layout = self._divided()

    def _written(self) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[int]]:
        """Return the records of all steps, and where each begins; -1 where there is none."""
        words: list[int] = []
        starts = []
        for step in self.plan.steps:
            starts.append(len(words))
            bound = self._bound_of(step)
            if isinstance(step.kernel, Kernel) or bound is not None:
                words += () if bound is None else (bound.env,)
                for word in step.words:
                    words += self._place(word) if isinstance(word, View) else (word,)
            elif step.kernel.when is not None:
                words += (*self._place(step.kernel.when), step.kernel.when.size)
            else:
                starts[-1] = -1
        return np.array(words, np.int64), starts

    def _bound_of(self, step: Step) -> Bound | None:
        """Return the native functions of a collective's step; None for all other steps, and where they are Python's."""
        kernel = step.kernel
        if not self._bound or not isinstance(kernel, Exchange) or kernel.phase == "end":
            return None
        return self._bound[kernel.number]

    def _place(self, view: View) -> tuple[int, int]:
        """Return a view as two words: the entry of the table of addresses, and bytes from there."""
        start = view.offset * view.dtype.itemsize
        if view.buffer.kind == "temp":
            return ARENA, (view.buffer.place if self._guard is None else self._guard.place(view.buffer)) + start
        if view.buffer.kind == "spill":
            return self._file_entry, view.buffer.place + start
        return self._entries[view.buffer], start

    def _divided(self) -> _Layout:
        """Return the steps as the driver reads them, divided by their times as far as these are known."""
        generation, team = threads.generation, threads.team() if has_threads() else None
        count = team.threads if team is not None else 1
        known = [t if t != UNTIMED else least_time(s) for s, t in zip(self.plan.steps, self.times.tolist())]
        steps = self._steps(known, count)
        is_shared = any(steps[i, STEP_CHUNK] for i, s in enumerate(self.plan.steps) if isinstance(s.kernel, Kernel))
        if not is_shared:
            team, count = None, 1
        timed = has_threads() and self._timed_calls < TIMED_CALLS
        short = sum(known) < HELD_BELOW and not self.plan.loops and not self.plan.moved
        entry = self._driver.held_start if not timed and short else self._driver.start
        iterations = min(MOST_ITERATIONS, int(SIGNALS_NS / max(1.0, sum(known))) + 1)
        return _Layout(generation, team, count, steps, timed, iterations, entry)

    def _steps(self, known: Sequence[float], count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the steps as the driver reads them, for so many threads, where they are known to take these times."""
        steps = np.zeros((len(self.plan.steps), len(STEP_WORDS)), np.int64)
        base = self._records.ctypes.data
        long = [t for s, t in zip(self.plan.steps, known) if t >= SHARED_FROM and isinstance(s.kernel, Kernel)]
        share = sum(long) >= ALL_SHARED_FROM
        for i, (row, step, start, time) in enumerate(zip(steps, self.plan.steps, self._starts, known)):
            record = base + 8 * start if start >= 0 else 0
            if isinstance(step.kernel, Jump):
                row[: STEP_CHUNK + 1] = 0, record, step.kernel.target, 1
            elif isinstance(step.kernel, Exchange):
                bound = self._bound_of(step)
                if bound is not None:
                    row[: STEP_CHUNK + 1] = getattr(bound, step.kernel.phase), record, 1, 0
                elif step.kernel.phase in ("start", "look"):  # Python does all at the wait
                    row[: STEP_CHUNK + 1] = 0, 0, i + 1, 1
                else:
                    row[: STEP_CHUNK + 1] = 0, record, 1, 0
            elif isinstance(step.kernel, Kernel):
                chunk = chunk_of(step.units, step.grain, time, count) if share else 0
                guess = first_guess(time, count)
                row[:] = step.kernel.address, record, step.units, chunk, *guess, 0, scheduler.INTERVAL
            else:
                row[: STEP_CHUNK + 1] = 0, record, step.units, 0
        return steps

    @cached_property
    def standing(self) -> Standing:
        """The part that no call changes, for calls that are made without Python and by one thread."""
        return Standing(
            self._steps([0.0] * len(self.plan.steps), 1),
            ctypes.cast(self._driver.run, ctypes.c_void_p).value or 0,  # type: ignore[arg-type]
            tuple(self._entries[v.buffer] for v in self.plan.inputs),
            tuple(self._entries[v.buffer] if make else None for v, make in zip(self.plan.outputs, self._makers)),
            tuple((self._entries[buffer], buffer.array.ctypes.data) for buffer in self.plan.constants),
            self._file_entry,
            scratch_stride(self._scratch),
            self._place,
        )

    @property
    def nbytes(self) -> int:
        """The memory that a call needs besides its inputs and outputs."""
        return self.plan.arena + self._layout.threads * scratch_stride(self._scratch)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array | None] | None = None) -> list[Array]:
        """Run the program on arrays of the shapes, dtypes and strides of the plan's inputs, and return the results.

        Results are written into `outputs` where they are given, of the shapes and dtypes of the
        plan's, and not overlapping with an input unless it is donated. New arrays share no memory
        with anything else; but a result that is a donated input as a whole is that array. An observer that is
        interested in programs is told of the steps.
        """
        seen = observer() if observers else None
        layout = self._layout
        if layout.generation != threads.generation:
            layout = self._layout = self._divided()
        records = None if seen is None or seen.inlines else self._records_for(layout)
        results: list[Any]
        if outputs is None and self._all_direct:
            results = [make() for make in self._makers]
            arrays = (*inputs, *results)
        else:
            results = [*self._places(outputs if outputs is not None else (None,) * len(self._makers))]
            arrays = (*inputs, *(r for r in results if r is not None))
        try:
            instance = self._idle.pop()
        except IndexError:
            instance = _Instance(self)
        block = None
        try:
            if instance.layout is not layout:
                instance.adopt(layout)
            if instance.own is None:
                block = instance.borrow()
            if records is not None:
                instance.call[CALL_PROFILE] = records.address
            at = layout.start(instance.address, arrays)
            if at == WRONG_KIND:
                inputs = self._fitting(inputs)
                arrays = (*inputs, *arrays[len(inputs) :])
                at = layout.start(instance.address, arrays)
            if at < len(self._starts):
                self._go_on(instance, at, records)
            if outputs is not None or not self._all_direct:
                results = self._answer(instance, inputs, results, outputs)
        except BaseException:
            block = self._settled(instance, arrays, block)
            raise
        finally:
            if records is not None:
                instance.call[CALL_PROFILE] = 0
            if block is not None:
                _give_back(block, instance.nbytes)
            if len(self._idle) < IDLE:
                self._idle.append(instance)
        if layout.timed:
            self._timed(layout)
        if seen is not None and records is not None:
            seen.ran(records.trace(self.plan, layout.steps, records.began, now()))
        return results

    def _records_for(self, layout: _Layout) -> ProfileRecords:
        """Return memory for the profiler records of a run, which begins."""
        chunked = layout.steps[:, [STEP_UNITS, STEP_CHUNK]].tolist()
        chunks = [math.ceil(units / chunk) if chunk else 1 for units, chunk in chunked]
        return ProfileRecords(layout.threads, max(TRACE_ROOM, sum(chunks)))

    def _timed(self, layout: _Layout) -> None:
        """Update the layout after a call in which steps were timed."""
        self._timed_calls += 1
        if self._timed_calls >= TIMED_CALLS and self._layout is layout:
            self._layout = self._divided()

    def run_at_once(self, inputs: Sequence[Array], commit: Commit) -> list[Array]:
        """Run the program as :meth:`run` does, and consume its results, as a whole or not at all.

        Where donated inputs are written to, `commit` is called before that, with arrays in which there are no results
        yet, and the first of its calls puts them there.
        """
        if self._last == len(self._starts) or self._guard is not None:
            found = self.run(inputs)
            commit(found, ())
            return found
        seen = observer() if observers else None
        layout = self._layout
        if layout.generation != threads.generation:
            layout = self._layout = self._divided()
        records = None if seen is None or seen.inlines else self._records_for(layout)
        places = self._places((None,) * len(self._makers))
        arrays = (*inputs, *(p for p in places if p is not None))
        try:
            instance = self._idle.pop()
        except IndexError:
            instance = _Instance(self)
        block = None
        try:
            if instance.layout is not layout:
                instance.adopt(layout)
            if instance.own is None:
                block = instance.borrow()
            instance.call[CALL_COUNT] = self._last
            if records is not None:
                instance.call[CALL_PROFILE] = records.address
            at = layout.start(instance.address, arrays)
            if at == WRONG_KIND:
                inputs = self._fitting(inputs)
                arrays = (*inputs, *arrays[len(inputs) :])
                at = layout.start(instance.address, arrays)
            self._go(instance, at, self._last, records)
            results, copies = self._to_answer(instance, inputs, places)
            instance.call[CALL_FIRST], instance.call[CALL_COUNT] = self._last, len(self._starts)
            commit(results, [(self._driver.run, instance.address), *copies])
        except BaseException:
            block = self._settled(instance, arrays, block)
            raise
        finally:
            instance.call[CALL_COUNT] = len(self._starts)
            if records is not None:
                instance.call[CALL_PROFILE] = 0
            if block is not None:
                _give_back(block, instance.nbytes)
            if len(self._idle) < IDLE:
                self._idle.append(instance)
        if layout.timed:
            self._timed(layout)
        if seen is not None and records is not None:
            seen.ran(records.trace(self.plan, layout.steps, records.began, now()))
        return results

    def trace(
        self, inputs: Sequence[Array], outputs: Sequence[Array] | None = None, room: int | None = None
    ) -> NativeTrace:
        """Run the program, and return which thread ran which part of it, and when.

        Inputs, and outputs where the results are wanted, are as in `run`, but inputs are never written into.
        A program that is new runs a few times before, until it is known which steps are shared out. The records have
        room for so many records of each thread.
        """
        while self._layout.timed:
            self.run(self._own(inputs))
        if self._layout.generation != threads.generation:
            self._layout = self._divided()
        layout, own = self._layout, self._own(self._fitting(inputs))
        instance = _Instance(self)
        instance.adopt(layout)
        records = self._records_for(layout) if room is None else ProfileRecords(layout.threads, room)
        instance.call[CALL_PROFILE] = records.address
        places = self._places(outputs if outputs is not None else (None,) * len(self._makers))
        block = instance.borrow() if instance.own is None else None
        arrays = (*own, *(p for p in places if p is not None))
        begin = now()
        try:
            at = layout.start(instance.address, arrays)
            if at < len(self._starts):
                self._go_on(instance, at, records)
            end = now()
            if outputs is not None:
                self._answer(instance, own, places, outputs)
        except BaseException:
            block = self._settled(instance, arrays, block)
            raise
        finally:
            if block is not None:
                _give_back(block, instance.nbytes)
        return records.trace(self.plan, layout.steps, begin, end)

    def _fitting(self, inputs: Sequence[Any]) -> list[Array]:
        """Return the inputs as arrays of the kinds that the plan was made for. Raises GraphError where they differ."""
        found = []
        for i, (view, given) in enumerate(zip(self.plan.inputs, inputs, strict=True)):
            a, strides = np.asarray(here(given, "a compiled function")), _byte_strides(view)
            if a.shape != view.shape or a.dtype != view.dtype or (strides is not None and a.strides != strides):
                fail(
                    GraphError,
                    f"input {i} of a program is {show(a.shape, a.dtype)}, not {show(view.shape, view.dtype)}",
                    "A compiled program runs on arrays of the shapes, dtypes and strides that it was made for.",
                )
            found.append(
                a if strides is not None else np.require(a, requirements=("C", "A")).view(as_dtype(view.dtype))
            )
        return found

    def _own(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the inputs for a run without visible effects: those that it may write into are copies."""
        return [np.array(a) if v.buffer.donated else a for v, a in zip(self.plan.inputs, inputs, strict=True)]

    @property
    def is_settled(self) -> bool:
        """True where all times are known by which steps are shared out."""
        return not self._layout.timed

    def seat(self) -> Seat:
        """Return a seat for calls, which is good as long as the number of threads stays."""
        if self._layout.generation != threads.generation:
            self._layout = self._divided()
        layout, instance = self._layout, _Instance(self)
        instance.adopt(layout)

        lent: list[_Block] = []

        def borrow() -> None:
            lent.clear()
            if instance.own is None:
                lent.append(instance.borrow())

        def give_back() -> None:
            while lent:
                _give_back(lent.pop(), instance.nbytes)

        def host(at: int) -> None:
            if self._guard is not None:
                self._go_guarded(self._guard, instance, None)
                at = len(self._starts)
            elif self._hosted(instance, at, None):
                at += 1
            else:
                instance.call[CALL_ITERATIONS] = self._layout.iterations
            instance.call[CALL_FIRST] = at

        def renew() -> bool:
            if self._layout.generation != threads.generation:
                self._layout = self._divided()
            was_own = instance.own is not None
            instance.adopt(self._layout)
            return not was_own or instance.own is not None

        return Seat(
            instance.address,
            instance.table,
            ctypes.cast(self._driver.run, ctypes.c_void_p).value or 0,  # type: ignore[arg-type]
            layout.start is self._driver.held_start,
            tuple(self._entries[v.buffer] for v in self.plan.inputs),
            tuple(self._entries[v.buffer] if make else None for v, make in zip(self.plan.outputs, self._makers)),
            len(self.plan.steps),
            host,
            (borrow, give_back) if instance.own is None else None,
            renew,
        )

    def _places(self, given: Sequence[Array | None]) -> list[Array | None]:
        """Return the arrays in which the program writes its outputs; None for those that are copied after it."""
        places: list[Array | None] = []
        for view, to in zip(self.plan.outputs, given):
            make = self._makers[len(places)]
            if make is not None and to is not None and _lies_as(to, view):
                places.append(to)
            else:
                places.append(None if make is None else make())
        return places

    def _go_on(self, instance: _Instance, at: int, records: ProfileRecords | None = None) -> None:
        """Run the Python step at which the driver stopped, and go on from there."""
        if self._guard is not None:
            self._go_guarded(self._guard, instance, records)
        else:
            self._go(instance, at, len(self.plan.steps), records)

    def _go(self, instance: _Instance, at: int, stop: int, records: ProfileRecords | None = None) -> None:
        go = self._driver.run
        while at < stop:
            if self._hosted(instance, at, records):
                at += 1
            else:
                # A loop has run for long: signals were seen to by now, and the jump is still to be done.
                instance.call[CALL_ITERATIONS] = self._layout.iterations
            instance.call[CALL_FIRST] = at
            at = go(instance.address)

    def _settled(self, instance: _Instance, arrays: Sequence[Array], block: _Block | None) -> _Block | None:
        """Let what is on its way come to its end, where an error broke a run off, and return the memory to give back.

        None where something does not: then all the run's memory stays as it is, as long as the process lives.
        """
        if self._exchanges is None or not self._bound or self._exchanges.drain():
            return block
        _abandoned.append((instance.own, tuple(arrays), block))
        instance.own = None
        return None

    def _hosted(self, instance: _Instance, at: int, records: ProfileRecords | None) -> bool:
        """Run a step if it is Python's, and return whether it is."""
        host = self.plan.steps[at].kernel
        if not isinstance(host, (Exchange, HostCall)):
            return False
        begin = now() if records is not None else 0
        if isinstance(host, HostCall):
            host.run(*self._arrays(instance, at))
        elif host.phase == "end":
            assert self._exchanges is not None
            raise self._exchanges.stopped(self.plan.moved[host.number])
        else:
            _exchange(self.plan.moved[host.number], *self._arrays(instance, at))
        if records is not None:
            records.add(at, begin, now())
        return True

    def _go_guarded(self, guarded: guard.Guard, instance: _Instance, records: ProfileRecords | None) -> None:
        """Run all steps, one by one, in guarded memory: the driver itself has no steps, and has only fed them."""
        call = instance.call

        def step(at: int) -> None:
            call[CALL_FIRST], call[CALL_COUNT] = at, at + 1
            if self._driver.run(instance.address) == at:
                self._hosted(instance, at, records)

        def rest(at: int) -> None:
            call[CALL_FIRST], call[CALL_COUNT] = at, len(self.plan.steps)
            self._go(instance, self._driver.run(instance.address), len(self.plan.steps), records)

        try:
            seen = partial(self._seen, instance, writable=False)
            instance.guarded = guarded.run(guard.Run(instance.table, self._layout.threads, step, rest, seen))
        finally:
            call[CALL_COUNT] = 0

    def _arrays(self, instance: _Instance, at: int) -> tuple[Array, ...]:
        """Return the arrays that a Python step is called with: those of its last call if they lie where they lay."""
        step = self.plan.steps[at]
        views = [word for word in step.words if isinstance(word, View)]
        table = instance.table
        addresses = [int(table[entry]) + start for entry, start in map(self._place, views)]
        known = instance.seen.get(at)
        if known is None or known[0] != addresses:
            made = (_array_at(a, v, v.buffer in step.writes) for a, v in zip(addresses, views))
            known = instance.seen[at] = addresses, tuple(made)
        return known[1]

    def _seen(self, instance: _Instance, view: View, writable: bool) -> Array:
        """Return a view as an array over the memory of the call in progress."""
        entry, start = self._place(view)
        return _array_at(int(instance.table[entry]) + start, view, writable)

    def _answer(
        self,
        instance: _Instance,
        inputs: Sequence[Array],
        results: list[Array | None],
        given: Sequence[Array | None] | None,
    ) -> list[Array]:
        """Return the results; those in memory that is not theirs alone are copied."""
        answer: list[Array] = []
        handed: set[int] = set()
        for view, result, to in zip(self.plan.outputs, results, given or (None,) * len(results)):
            if result is None:
                result = self._handed(view, inputs, handed)
            if result is None:
                seen = self._seen(instance, view, False)
                result = np.array(seen, order="K") if to is None else seen
            if to is not None and to is not result:
                np.copyto(to, result)
                result = to
            answer.append(result)
        return answer

    def _to_answer(
        self, instance: _Instance, inputs: Sequence[Array], results: Sequence[Array | None]
    ) -> tuple[list[Array], list[Call]]:
        """Return the arrays of the results before a run, and the calls that copy some of them after it."""
        answer: list[Array] = []
        copies: list[Call] = []
        handed: set[int] = set()
        for view, result in zip(self.plan.outputs, results):
            if result is None:
                result = self._handed(view, inputs, handed)
            if result is None:
                seen = self._seen(instance, view, False)
                result = np.empty_like(seen, order="K")
                copies.append((setitem, result, ..., seen))
            answer.append(result)
        return answer, copies

    def _handed(self, view: View, inputs: Sequence[Array], handed: set[int]) -> Array | None:
        """Return the donated input that a result is as a whole, unless there is none or it was handed over already."""
        source = view.buffer
        whole = source.kind == "input" and source.donated and view.lies_as(self.plan.inputs[source.index])
        if not whole or source.index in handed:
            return None
        handed.add(source.index)
        return inputs[source.index]


class Standing(NamedTuple):
    """A program's part that calls share: its steps for one thread, and what stands in the table of addresses.

    `run` is the address of the driver's function, `inputs`, `outputs` (None: no array of its own) and `constants` (each
    with its address) are entries of the table, of which there are `entries`; `scratch` bytes come after the arena.
    `place` gives the entry of a view, and the bytes from there.
    """

    steps: np.ndarray[Any, np.dtype[np.int64]]
    run: int
    inputs: tuple[int, ...]
    outputs: tuple[int | None, ...]
    constants: tuple[tuple[int, int], ...]
    entries: int
    scratch: int
    place: Callable[[View], tuple[int, int]]


class Seat(NamedTuple):
    """A seat at a program, for calls that put addresses into its table themselves.

    `call` is what the driver's function at `run` takes, `table` the table of addresses, in which inputs, and
    the outputs that are arrays of their own, have the entries given here. Where `run` returns less than `steps`,
    `host` does what is Python's there, and it is to be called again; after the last time the word of the first step is
    set back to 0. Memory that is shared is borrowed before and given back after it, by the two functions of `lends`.
    `renew` makes the place good again after the number of threads has changed, if it can. One call at a time.
    """

    call: int
    table: np.ndarray[Any, np.dtype[np.int64]]
    run: int
    is_held: bool
    inputs: tuple[int, ...]
    outputs: tuple[int | None, ...]
    steps: int
    host: Callable[[int], None]
    lends: tuple[Callable[[], None], Callable[[], None]] | None
    renew: Callable[[], bool]


class _Instance:
    """The part of a program that only one call may use at a time: the block that the driver reads, and memory."""

    def __init__(self, program: Program) -> None:
        entries = program._file_entry + (program.plan.spill > 0)
        self._words = np.zeros(len(CALL_WORDS) + entries, np.int64)
        self.call = self._words.data[: len(CALL_WORDS)]
        self.table = self._words[len(CALL_WORDS) :]
        self.address: int = self._words.ctypes.data
        self.call[CALL_TABLE] = self.table.ctypes.data
        self.call[CALL_COUNT] = len(program.plan.steps) if program._guard is None else 0
        self.call[CALL_GIVEN] = len(program.plan.inputs)
        self.call[CALL_KINDS] = program._kinds.ctypes.data
        for i, buffer in enumerate(program.plan.constants):
            self.table[FIRST + program._given + i] = buffer.array.ctypes.data
        self._program = program
        self.layout: _Layout | None = None
        # By step of Python's: addresses, and the arrays over them.
        self.seen: dict[int, tuple[list[int], tuple[Array, ...]]] = {}
        self.own: Array | None = None
        self.guarded: object = None
        self.nbytes = 0

    def adopt(self, layout: _Layout) -> None:
        """Prepare for calls by another division of the steps."""
        program = self._program
        self.layout = None
        self.call[CALL_STEPS] = layout.steps.ctypes.data
        self.call[CALL_TEAM] = layout.team.address if layout.team is not None else 0
        self.call[CALL_ITERATIONS] = layout.iterations
        self.call[CALL_TIMES] = program.times.ctypes.data if layout.timed else 0
        stride = scratch_stride(program._scratch)
        self.table[SCRATCH_STRIDE] = stride
        self.nbytes = program.plan.arena + layout.threads * stride
        self.own = None
        if self.nbytes <= OWN_ARENA and not program.plan.spill:
            self.own = threads.aligned(self.nbytes, ALIGN)
            self._lay_out(self.own)
        self.layout = layout  # last: what was interrupted on the way is not ready

    def borrow(self) -> _Block:
        """Return memory for one call."""
        block = _borrow(self.nbytes)
        self._lay_out(block.memory)
        if self._program.plan.spill:
            block.file = spilling.borrow(self._program.plan.spill, self._program._folder)
            self.table[self._program._file_entry] = block.file.address
        return block

    def _lay_out(self, memory: Array) -> None:
        address = memory.ctypes.data
        self.table[ARENA] = address
        self.table[SCRATCH] = address + self._program.plan.arena


class _Block:
    """A block of memory that one call at a time borrows; `spared` counts the calls for which it was far too large.

    `file` is what the call spills values to.
    """

    __slots__ = ("file", "memory", "spared")

    def __init__(self, nbytes: int) -> None:
        self.memory = threads.aligned(nbytes, ALIGN)
        self.spared = 0
        self.file: spilling.SpillFile | None = None


# Large arenas that wait, the last used on top. All programs share them: what the largest one needs is
# enough for any, and what was just used is in the cache.
_blocks: list[_Block] = []
# The memory of runs that broke off while others read or wrote it.
_abandoned: list[tuple[Any, ...]] = []
# A block is let go when that many calls in a row needed less than a quarter of it.
SPARED_CALLS = 32


def _borrow(nbytes: int) -> _Block:
    try:
        block = _blocks.pop()
    except IndexError:
        return _Block(nbytes)
    return block if block.memory.nbytes >= nbytes else _Block(nbytes)


def _give_back(block: _Block, used: int) -> None:
    if block.file is not None:
        spilling.give_back(block.file)
        block.file = None
    block.spared = block.spared + 1 if used * 4 < block.memory.nbytes else 0
    if block.spared < SPARED_CALLS and len(_blocks) < IDLE:
        _blocks.append(block)


def _exchange(moved: Moved, state: Array, x: Array, out: Array) -> None:
    """Do a collective as a whole, by the op's own forward."""
    op = find_op(moved.op)
    assert op is not None
    state[...] = 0
    out[...] = op.forward(x, **moved.attrs)


def _fill(preparation: Plan, prepared: Sequence[Buffer]) -> None:
    """Run a plan's preparation, whose results are the contents of constants."""
    arrays = [threads.aligned(buffer.nbytes, ALIGN) for buffer in prepared]
    Program(preparation).run([], arrays)
    for buffer, array in zip(prepared, arrays, strict=True):
        buffer.array = array


def least_time(step: Step) -> float:
    """Return the least time in nanoseconds that a step takes on any processor."""
    return max(step.flops / FLOPS_PER_NS, step.nbytes / BYTES_PER_NS)


def first_guess(time: float, count: int) -> tuple[float, float]:
    """Return first estimates of a step's times by one thread and by `count`: that more threads do no more work."""
    return time, time / count


def chunk_of(units: int, grain: int, time: float, count: int) -> int:
    """Return the units of a step's chunk; 0 if the step is not shared out.

    Of the sizes that make chunks of about `CHUNK_NS`, or of enough of them for all, the one by which
    the last thread is done first.
    """
    pieces = math.ceil(units / grain)
    if count == 1 or pieces < 2 or time < SHARED_FROM:
        return 0
    short, usual, long = (int(time / ns) for ns in (LEAST_CHUNK_NS, CHUNK_NS, LONG_CHUNK_NS))
    wanted = max(2, min(count, short), min(CHUNKS_EACH * count, usual), long)
    most = min(pieces, scheduler.MOST_CHUNKS, wanted)
    smallest = math.ceil(pieces / most)
    largest = max(smallest, pieces // min(count, wanted))

    def rounds(size: int) -> int:
        """Return the grains that the busiest thread does."""
        return math.ceil(math.ceil(pieces / size) / count) * size

    return grain * min(range(smallest, min(largest, smallest + count, 2 * smallest) + 1), key=rounds)


def _last_part(plan: Plan) -> int:
    """Return the first of the kernel steps that end a plan, where one of them writes to an input.

    A jump is followed within a part alone: where it goes belongs to its own.
    """
    others = [(i, step.kernel) for i, step in enumerate(plan.steps) if not isinstance(step.kernel, Kernel)]
    last = max((max(i + 1, k.target if isinstance(k, Jump) else 0) for i, k in others), default=0)
    writes = any(b.whole.kind == "input" for step in plan.steps[last:] for b in step.writes)
    return last if writes else len(plan.steps)


def _maker(view: View) -> Callable[[], Array]:
    """Return the function that makes an array with the memory layout of an output's view."""
    order = view.memory_order
    assert order is not None
    shape = tuple(view.shape[a] for a in order)
    if order == tuple(range(len(order))):
        return partial(np.empty, shape, view.dtype)
    axes = tuple(np.argsort(order).tolist())
    return lambda: np.empty(shape, view.dtype).transpose(axes)


def _byte_strides(view: View) -> tuple[int, ...] | None:
    """Return the strides in bytes of a view that is not contiguous."""
    return None if view.is_contiguous else tuple(s * view.dtype.itemsize for s in view.strides)


def _lies_as(array: Array, view: View) -> bool:
    """Return whether an array's elements lie in memory as the view says."""
    item = view.dtype.itemsize
    return all(n == 1 or have == s * item for n, have, s in zip(view.shape, array.strides, view.strides))


_memory_view = ctypes.pythonapi.PyMemoryView_FromMemory
_memory_view.restype = ctypes.py_object
_memory_view.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_READ, _WRITE = 0x100, 0x200


def _array_at(address: int, view: View, writable: bool) -> Array:
    """Return an array over the memory at an address, which the view's offset is in already."""
    if view.size == 0:
        return np.empty(view.shape, view.dtype)
    item = view.dtype.itemsize
    reach = [(n - 1) * s for n, s in zip(view.shape, view.strides)]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    memory = _memory_view(address + low * item, (high - low + 1) * item, _WRITE if writable else _READ)
    strides = tuple(s * item for s in view.strides)
    return np.ndarray(view.shape, view.dtype, memory, offset=-low * item, strides=strides)
