"""All ranks of a job in one process: the oracle of the engines that move bytes, and the default without one.

Each rank is a thread, but only one runs at a time: it goes on until it meets others in a collective, then the next
one does. So a run is a function of the program alone, and ranks that do not meet are seen at once, not after a
timeout: when nobody can go on, what each waits for is known.
"""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import GraphError, WengertError, error, fail, user_location
from ...core.ops.op import Op
from ...core.spec import show
from ...core.state.turns import alternating, lent
from ...ops.collective.group import entered
from ...ops.index.memory import Occupied
from ...ops.random.generator import default_generator
from ..arguments import as_function
from ..mesh import Mesh, OnMesh, Transport


class _Stopped(BaseException):
    """The end of a rank after another one raised."""


class Arrival(NamedTuple):
    """A rank at a collective: whom it meets there, what it brings, and the user's line.

    Without an op it is at the beginning of a program, brings its digest, and is told whether another one differs.
    """

    members: tuple[int, ...]
    op: Op | None
    x: Any
    attrs: Mapping[str, Any]
    where: str

    @property
    def call(self) -> tuple[Any, ...]:
        """The part that must be the same on all ranks that meet."""
        return self.op, tuple(sorted(self.attrs.items())), self.x.shape, self.x.dtype

    def __str__(self) -> str:
        if self.op is None:
            return f"the program {self.where}"
        given = ", ".join(f"{k}={v!r}" for k, v in self.attrs.items() if k != "ranks")
        return f"{self.op.name}({show(self.x.shape, self.x.dtype)}, {given}) at {self.where}"


def refuse_different(arrivals: Mapping[int, Arrival]) -> None:
    """Raise GraphError unless ranks that meet call the same collective, of operands of one shape and dtype."""
    ranks = sorted(arrivals)
    first = arrivals[ranks[0]]
    for rank in ranks[1:]:
        other = arrivals[rank]
        if other.call != first.call:
            raise error(
                GraphError,
                f"ranks {ranks[0]} and {rank} differ: rank {ranks[0]} calls {first}, rank {rank} calls {other}",
                "All ranks along an axis call the same collectives in the same order, of one shape and dtype.",
                other.where,
            )


class _Rank(Transport):
    """One rank of a simulation, as its thread has it."""

    __slots__ = ("turn", "job")

    shares_process = True

    def __init__(self, job: _Job, rank: int) -> None:
        self.job, self.rank, self.size = job, rank, job.size
        self.turn: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def meet(self, members: tuple[int, ...], op: Op, x: Any, attrs: Mapping[str, Any]) -> Any:
        return self._come(Arrival(members, op, x, attrs, user_location()))

    def compare(self, digest: bytes, what: Callable[[], str]) -> bool:
        members = tuple(range(self.size))
        return bool(self._come(Arrival(members, None, np.frombuffer(digest, np.uint8), {}, what())))

    def _come(self, arrival: Arrival) -> Any:
        """Say where this rank has come to, and wait for the others.

        Where this is in the midst of a program that draws, others draw meanwhile: each from a state of its own.
        """
        with lent(default_generator._turn):
            self.job.steps.put((self.rank, "waits", arrival))
            found = self.turn.get()
        if found is _Stopped:
            raise _Stopped
        return found

    def begin(self) -> None:
        """Wait for the first turn."""
        if self.turn.get() is _Stopped:
            raise _Stopped


class _Job:
    """A run of functions, one for each rank, in turns."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh, self.size = mesh, mesh.size
        self.steps: queue.SimpleQueue[tuple[int, str, Any]] = queue.SimpleQueue()
        self.ranks = [_Rank(self, i) for i in range(self.size)]
        self.states = [default_generator.snapshot()] * self.size
        self.results: list[Any] = [None] * self.size

    def run(self, fns: Sequence[Callable[[], Any]]) -> list[Any]:
        before = default_generator.snapshot()
        threads = [
            threading.Thread(
                target=copy_context().run, args=(self._work, rank, fn), name=f"rank {rank.rank}", daemon=True
            )
            for rank, fn in zip(self.ranks, fns, strict=True)
        ]
        for thread in threads:
            thread.start()
        left, ready, waiting = set(range(self.size)), dict.fromkeys(range(self.size)), dict[int, Arrival]()
        failed: BaseException | None = None
        try:
            while left and failed is None:
                if not ready:
                    failed = self._stuck(waiting)
                    break
                rank = min(ready)
                what, found = self._step(rank, ready.pop(rank))
                if what == "waits":
                    waiting[rank] = found
                    try:
                        ready |= self._met(found.members, waiting)
                    except WengertError as e:
                        failed = e
                else:
                    left.discard(rank)
                    failed = found if what == "raised" else None
        finally:
            for rank in left:
                self.ranks[rank].turn.put(_Stopped)
            for thread in threads:
                thread.join()
            default_generator.restore(before if failed is not None else self.states[0])
        if failed is not None:
            raise failed
        return self.results

    def _step(self, rank: int, given: Any) -> tuple[str, Any]:
        """Let a rank run until it waits, ends or raises."""
        default_generator.restore(self.states[rank])
        self.ranks[rank].turn.put(given)
        _, what, found = self.steps.get()
        self.states[rank] = default_generator.snapshot()
        return what, found

    @staticmethod
    def _met(members: tuple[int, ...], waiting: dict[int, Arrival]) -> dict[int, Any]:
        """Return the result of a collective for each of these ranks, if all of them have arrived; else nothing."""
        there = {i: waiting[i] for i in members if i in waiting and waiting[i].members == members}
        refuse_different(there)
        if len(there) < len(members):
            return {}
        first = there[members[0]]
        brought = [there[i].x for i in members]
        if first.op is None:
            results = [any((x != brought[0]).any() for x in brought)] * len(members)
        else:
            results = _apart(first.op.facets["collective"](brought, **first.attrs), brought)
        for i in members:
            del waiting[i]
        return dict(zip(members, (np.asarray(r) for r in results), strict=True))

    def _stuck(self, waiting: Mapping[int, Arrival]) -> BaseException:
        rank = min(waiting)
        missing = [i for i in waiting[rank].members if i not in waiting]
        others = [i for i in sorted(waiting) if waiting[i].members != waiting[rank].members]
        why = f"rank {missing[0]} has ended" if missing else f"rank {others[0]} calls {waiting[others[0]]}"
        return error(
            GraphError,
            f"rank {rank} waits in {waiting[rank]}, and {why}",
            "All ranks along an axis call the same collectives in the same order.",
            waiting[rank].where,
        )

    def _work(self, rank: _Rank, fn: Callable[[], Any]) -> None:
        what, found = "ended", None
        try:
            rank.begin()
            with alternating(self), entered(OnMesh(self.mesh, rank)):
                self.results[rank.rank] = fn()
        except _Stopped:
            return
        except BaseException as e:
            what, found = "raised", noted(e, rank.rank)
        self.steps.put((rank.rank, what, found))


def _apart(results: Sequence[Any], brought: Sequence[Any]) -> list[Any]:
    """Return results that share no memory with what ranks brought: each goes on to write to its own."""
    memory = Occupied()
    for x in brought:
        memory.add(x)
    return [x.copy() if memory.touches(x) else x for x in map(np.asarray, results)]


def noted(e: BaseException, rank: int) -> BaseException:
    """Return an exception with a note that says on which rank it was raised."""
    e.add_note(f"raised on rank {rank}")
    return e


class Simulation:
    """The ranks of a job, all in this process; see :func:`simulate`."""

    __slots__ = ("mesh",)

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the results of `fn(*args, **kwargs)` on each rank, in order.

        Each rank has copies of the arguments, as a process would, and draws the random numbers that it would draw in a
        process of its own. The first exception of a rank ends all of them. Raises GraphError, with the lines, where
        ranks call different collectives, and for arguments that cannot be copied.
        """
        as_function(fn, "a run on simulated ranks")
        given = [_copied(fn, (args, kwargs)) for _ in range(self.mesh.size)]
        return self.run_each([partial(fn, *args, **kwargs) for args, kwargs in given])

    def run_each(self, fns: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return the results of the ranks' functions, in order."""
        return _Job(self.mesh).run(fns)

    def __repr__(self) -> str:
        return f"simulate({self.mesh})"


def _copied(fn: Callable[..., Any], given: Any) -> Any:
    try:
        return copy.deepcopy(given)
    except Exception as e:
        name = getattr(fn, "__name__", fn)
        fail(
            GraphError,
            f"run of {name} on simulated ranks, each of which has copies of the arguments: {e}",
            "Make what cannot be copied in the function.",
        )


def simulate(ranks: int | Mesh) -> Simulation:
    """Return a job whose ranks all run in this process, one at a time and in order.

    Parameters
    ----------
    ranks: their number, along an axis called "ranks", or the mesh that they stand on.

    It needs no other library, is the same in every run, and can be stepped through in a debugger. What engines give
    that move bytes between processes is compared with it. Ranks that differ are an error at once.

    >>> import wengert as wg
    >>> job = wg.distribute.simulate(wg.distribute.Mesh(data=2))
    >>> job.run(lambda x: wg.distribute.all_reduce(x, "data").tolist(), wg.tensor([1.0, 2.0]))
    [[2.0, 4.0], [2.0, 4.0]]
    """
    return Simulation(ranks if isinstance(ranks, Mesh) else Mesh(ranks=ranks))
