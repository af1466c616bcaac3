"""MPI as the engine: one process for each rank, whose arrays mpi4py moves.

Only bytes are moved: sums are made here, in one order, from parts that everybody sends to everybody. That
takes the bandwidth of a ring and gives the bits of the simulation, for every dtype and every implementation of MPI.

Where native code calls MPI (`mpi_native`), it does so without Python, and programs go on while it does; what has no
code there goes through mpi4py, and is waited for.

Every wait polls. A rank that waits for long tells the others in what, and hears what they wait in, or that they have
ended. So ranks that do not meet are told within a second; where one says nothing at all, a watchdog ends the job.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import GraphError, error, fail, user_location
from ...core.ops.op import Op
from ...core.spec import spec_of
from ...core.state import locks
from ...execute.native.overlap import Exchanges
from ...ops.collective import definitions as c
from ..mesh import Mesh, Transport
from .meeting import PROGRAM, TEXT, differ, refuse_left, shake_hands
from .mpi_native import IDLE, Active, Flight, Flights, Layout, NativeLine, Stopped, layout, native_line, told
from .mpi_native import SMALL as SMALL

# After these seconds of waiting a rank tells the others, and after as many it believes what they say.
LOOK = 0.25
# The seconds in which a rank that failed hears of others that did before it tells its error.
GRACE = 0.1
ENDED = "its end"
FAILED = "an error"
# The variable with the file that a rank makes when all ranks have come to their end.
ENDING = "WENGERT_JOB_ENDING"
# The file in which a rank that ends the job says with which status, for what has started it.
FAILURE = "WENGERT_JOB_FAILURE"
# What has started a job ends it within so many seconds, or is gone.
_ENDS = 15.0
# The tag of messages by which ranks compare what they are about to do: whatever else is on its way, they meet.
_HANDSHAKE = 2


def watchdog_seconds() -> float:
    """Return how long a rank waits for others that seem to be at work: WENGERT_WATCHDOG, else ten minutes."""
    return float(os.environ.get("WENGERT_WATCHDOG", "600"))


def mpi() -> Any:
    """Return mpi4py's module MPI. Raises GraphError where it is not installed."""
    try:
        from mpi4py import MPI
    except ImportError:
        fail(GraphError, "ranks as processes need mpi4py and an MPI, which are not installed", _INSTALL)
    return MPI


_INSTALL = "pip install 'wengert[mpi]' beside Open MPI or MPICH; wg.distribute.simulate(n) needs neither."


_NOT_ON = "It neither waits with this one nor has ended: it computes, or waits for something else."
_WATCHDOG = "WENGERT_WATCHDOG says after how many seconds a job is ended."


class MPITransport(Transport):
    """The ranks of an MPI job."""

    __slots__ = (
        "MPI", "world", "control", "closing", "lines", "trusted", "states", "pending", "waits", "stopped", "idle",
        "active", "flights", "count", "broken", "_turn",
    )  # fmt: skip

    def __init__(self) -> None:
        self.MPI = mpi()
        self.world = self.MPI.COMM_WORLD.Dup()
        self.rank, self.size = self.world.Get_rank(), self.world.Get_size()
        self._turn = locks.lock()
        # Each purpose has messages of its own: what one waits for, another cannot take.
        self.control, self.closing = self.world.Dup(), self.world.Dup()
        self.lines: dict[tuple[int, ...], _Line] = {}
        # True while a program runs that all ranks have agreed on.
        self.trusted = False
        # What other ranks have said that they do, and since when it is known here.
        self.states: dict[int, tuple[str, float]] = {}
        self.pending: list[Any] = []
        # What native code waits for, by the flight's number, and the error that ended a wait.
        self.waits: dict[int, _Patience] = {}
        self.stopped: BaseException | None = None
        self.idle = IDLE(self._idle)
        self.active, self.count = Active(), 0
        self.flights: weakref.WeakValueDictionary[int, Flight] = weakref.WeakValueDictionary()
        # What had started and has not come to its end when a wait was given up: its memory is others' still.
        self.broken: list[Any] = []

    # -- what ranks let each other know

    def say(self, text: str, ranks: Sequence[int]) -> None:
        """Let other ranks know what this one waits in; "" where it goes on."""
        data = np.frombuffer(text.encode()[:TEXT].ljust(TEXT), np.uint8).copy()
        for rank in ranks:
            if rank != self.rank:
                self.pending.append((self.control.Isend([data, self.MPI.BYTE], rank), data))

    def listen(self) -> None:
        """Take what other ranks have said."""
        self.pending = [p for p in self.pending if not p[0].Test()]
        status = self.MPI.Status()
        while self.control.Iprobe(self.MPI.ANY_SOURCE, self.MPI.ANY_TAG, status):
            out = np.empty(TEXT, np.uint8)
            rank = status.Get_source()
            self.control.Recv([out, self.MPI.BYTE], rank)
            self.states[rank] = bytes(out).decode(errors="replace").rstrip(), time.monotonic()

    def silent(self, ranks: Sequence[int]) -> str:
        """Return which of these ranks have not said that they wait or have ended, in words; all where each has."""
        others = [rank for rank in ranks if rank != self.rank]
        found = [rank for rank in others if not self.states.get(rank, ("", 0.0))[0]] or others
        return f"rank{'s' * (len(found) > 1)} {', '.join(map(str, found))}"

    def is_first_to_fail(self) -> bool:
        """Return whether this rank tells the job's error: none has had one before, none of lower number has one now."""
        self.listen()
        if any(text == FAILED for text, _ in self.states.values()):
            return False
        self.say(FAILED, range(self.size))
        end = time.monotonic() + GRACE
        while time.monotonic() < end:
            self.listen()
            if any(text == FAILED and rank < self.rank for rank, (text, _) in self.states.items()):
                return False
            time.sleep(1e-3)
        return True

    @staticmethod
    def tell(text: str) -> None:
        """Show why this rank ends."""
        print(text, file=sys.__stderr__, end="", flush=True)

    def abort(self, status: int) -> None:
        """End the job: by what has started it, if that is on this machine, since MPI would say what is said already."""
        if told := os.environ.get(FAILURE):
            with contextlib.suppress(OSError):
                Path(f"{told}-{self.rank}").write_text(str(status))
                os.replace(f"{told}-{self.rank}", told)
                time.sleep(_ENDS)
        self.world.Abort(status)
        os._exit(status)

    # -- waiting

    def wait(self, request: Any, patience: _Patience) -> None:
        """Wait for a request. Raises GraphError where other ranks do something else, or nothing."""
        spins = 0
        while not request.Test():
            spins += 1
            if spins >= 100:
                time.sleep(0 if spins < 2000 else 1e-4)
                patience.look()
        patience.end()

    def _idle(self, number: int, is_over: int) -> int:
        """Look around while native code waits for a flight; 1 ends its wait by the error that is kept."""
        patience = self.waits.pop(number, None) if is_over else self.waits.get(number)
        if is_over:
            if patience is not None:
                patience.end()
            return 0
        try:
            if patience is None:
                flight = self.flights[number]
                patience = self.waits[number] = _Patience(self, flight.told, flight.line.members)
            time.sleep(1e-4)
            patience.look()
        except BaseException as e:
            self.stopped = e
            return 1
        return 0

    # -- what native code moves

    def make(self, line: NativeLine, what: Layout) -> Flight:
        """Return a new flight along a line."""
        self.count += 1
        found = self.flights[self.count] = Flight(line, what, self.count)
        return found

    def native(self, flight: Flight, x: Any, out: Any) -> Any:
        """Do a collective of native code at once, and return its result. Raises GraphError as :meth:`wait` does."""
        scratch = np.empty(flight.layout.scratch, np.uint8)
        flight.begin(x, out, scratch)
        try:
            flight.finish()
        except Stopped:
            self.broken += [flight, x, out, scratch]
            raise self._stop(flight.told()) from None
        return out

    def _stop(self, what: str) -> BaseException:
        """Return the error that ended a wait of native code."""
        stopped, self.stopped = self.stopped, None
        self.broken.append(what)
        if stopped is None:
            return error(GraphError, f"rank {self.rank} in {what}: MPI refuses it")
        return stopped

    def _settle(self) -> bool:
        """Wait for all that native code has started; return False where it does not come to its end."""
        for flight in [f for f in self.flights.values() if f.env in self.active.flights()]:
            try:
                if not self.broken:
                    flight.finish()
            except Stopped:
                self._stop(flight.told())
            if self.broken:
                self.broken.append(flight)
        return not self.broken

    def _refuse_broken(self) -> None:
        """Raise GraphError where a wait was given up before: what was on its way may still come."""
        if self.broken:
            refuse_left(self.rank)

    def leave(self) -> None:
        """Note that this rank has left a step in its middle, in which others wait for it."""
        self.broken.append("a step")

    def exchanges(self, mesh: Mesh) -> Exchanges | None:
        """Return the exchanges that move a program's collectives on a mesh. All ranks ask for them at the same time."""
        lines = {name: self._line(mesh.along(name, self.rank)).native for name in mesh.names}
        found = {name: line for name, line in lines.items() if line is not None}
        return Flights(mesh.coordinates(self.rank), found, self.make, self._stop, self._settle) if found else None

    def end(self) -> None:
        """Wait for all ranks to have come to their end."""
        self.say(ENDED, range(self.size))
        request, start, limit = self.closing.Ibarrier(), time.monotonic(), watchdog_seconds()
        while not request.Test():  # a rank that waits for one that has ended tells so, and ends the job
            self.listen()
            time.sleep(1e-3)
            if time.monotonic() - start > limit:
                fail(
                    GraphError,
                    f"rank {self.rank} has ended, and has waited {limit:.0f} s for {self.silent(range(self.size))}",
                    f"{_NOT_ON} {_WATCHDOG}",
                )
        if told := os.environ.get(ENDING):
            with contextlib.suppress(OSError):
                open(told, "w").close()
        for sent, _ in self.pending:
            if not sent.Test():
                sent.Cancel()

    @contextmanager
    def trusting(self, trusts: bool = True) -> Iterator[None]:
        """Return a block in which a program runs that all ranks have agreed on: nobody asks what the others call."""
        before, self.trusted = self.trusted, trusts
        try:
            yield
        finally:
            self.trusted = before

    # -- collectives

    def one_thread(self) -> AbstractContextManager[Any]:
        """Return a block for one thread at a time: ranks meet in one order, and a program's memory has one run."""
        turn: AbstractContextManager[Any] = self._turn
        return turn

    def meet(self, members: tuple[int, ...], op: Op, x: Any, attrs: Mapping[str, Any]) -> Any:
        """Return this rank's result of a collective among these ranks."""
        with self._turn:
            return self._met(members, op, x, attrs)

    def _met(self, members: tuple[int, ...], op: Op, x: Any, attrs: Mapping[str, Any]) -> Any:
        self._refuse_broken()
        line = self._line(members)
        if op is c.pcast:
            return x
        if op is c.own_part:
            return c.parts(x, attrs["axis"], len(members))[line.own]
        x = np.ascontiguousarray(x).reshape(x.shape)
        if self.trusted:
            line.what = lambda: told(op.name, attrs, x.shape, x.dtype)
        else:
            self._shake_hands(line, told(op.name, attrs, x.shape, x.dtype))
        plan = layout(op, x.shape, x.dtype, attrs) if line.native is not None else None
        if plan is not None:
            return line.moved(plan, x, np.empty(op.infer(spec_of(x.shape, x.dtype), **attrs).shape, x.dtype))
        return _MOVES[op](line, x, attrs)

    def _line(self, members: tuple[int, ...]) -> _Line:
        found = self.lines.get(members)
        if found is None:
            found = self.lines[members] = _Line(self, self._comm(members), members, members.index(self.rank))
        return found

    def _comm(self, members: tuple[int, ...]) -> Any:
        if len(members) == self.size:
            return self.world
        return self.world.Create_group(self.world.Get_group().Incl(members), tag=members[0] % 32000)

    def compare(self, digest: bytes, what: Callable[[], str]) -> bool:
        """Return whether any rank of the job brings another digest. Raises GraphError where one does something else."""
        self._refuse_broken()
        return self._differ(self._line(tuple(range(self.size))), digest, lambda: PROGRAM + what())

    def _shake_hands(self, line: _Line, what: str) -> None:
        """Raise GraphError unless all ranks along the line call the same collective."""
        text = f"{what} at {user_location()}"
        line.what = lambda: text
        shake_hands(partial(line.all_gather, tag=_HANDSHAKE), line.members, what, text)

    def _differ(self, line: _Line, digest: bytes, what: Callable[[], str]) -> bool:
        """Return whether ranks along a line bring other digests. Raises GraphError unless all are to run programs."""
        line.what = what
        return differ(partial(line.all_gather, tag=_HANDSHAKE), line.members, digest, what)


class _Patience:
    """A wait for other ranks: after a while it tells them in what, and looks what they wait in."""

    __slots__ = ("transport", "what", "members", "start", "text", "suspects")

    def __init__(self, transport: MPITransport, what: Callable[[], str], members: tuple[int, ...]) -> None:
        self.transport, self.what, self.members = transport, what, members
        self.start = 0.0
        self.text = ""
        self.suspects = False

    def look(self) -> None:
        """Look around. Raises GraphError where another rank does something else, or nothing for long."""
        now = time.monotonic()
        if not self.start:
            self.start = now
        if now - self.start < LOOK:
            return
        transport = self.transport
        if not self.text:
            self.text = self.what()
            transport.say(self.text, self.members)
        transport.listen()
        suspected = False
        for rank in self.members:
            text, since = transport.states.get(rank, ("", now))
            if text == FAILED:
                time.sleep(GRACE)  # its error ends the job
            # A rank that goes on says so: what it said a while ago is what it waits in. What this one waits for may
            # have come since it asked: so it asks once more.
            elif text not in ("", self.text) and now - since > LOOK:
                suspected = True
                if self.suspects:
                    does = "has ended" if text == ENDED else f"waits in {text}"
                    raise error(
                        GraphError,
                        f"rank {transport.rank} waits in {self.text}, and rank {rank} {does}",
                        "All ranks along an axis call the same collectives in the same order, of one shape and dtype.",
                    )
        self.suspects = suspected
        if now - self.start > (limit := watchdog_seconds()):
            fail(
                GraphError,
                f"rank {transport.rank} has waited {limit:.0f} s in {self.text}, for {transport.silent(self.members)}",
                f"{_NOT_ON} {_WATCHDOG}",
            )

    def end(self) -> None:
        """Let the others know that this rank goes on, where they know that it waited."""
        if self.text:
            self.transport.say("", self.members)


class _Line:
    """Ranks along a mesh axis, in order, and how bytes move between them."""

    def __init__(self, transport: MPITransport, comm: Any, members: tuple[int, ...], own: int) -> None:
        self.transport, self.comm, self.members, self.own = transport, comm, members, own
        self.what: Callable[[], str] = str
        self.native = None
        if len(members) > 1:
            self.native = native_line(transport.MPI, comm, own, members, transport.idle, transport.active)

    def moved(self, plan: Layout, x: Any, out: Any) -> Any:
        """Return the result of a collective of native code."""
        assert self.native is not None
        flight = self.native.flight(plan, self.transport.make)
        flight.told = self.what
        return self.transport.native(flight, x, out)

    def _by_rows(self, op: Op, x: Any, shape: tuple[int, ...], tag: int = 0) -> Any:
        """Return the result, of a shape, of a collective on rows, one for each rank; None where it is Python's."""
        plan = None
        if self.native is not None:
            first = -max(x.ndim, 1)
            attrs = {"ranks": len(self.members), "split": first, "join": first}
            plan = layout(op, x.shape, x.dtype, attrs)
        return None if plan is None else self.moved(plan._replace(tag=tag), x, np.empty(shape, x.dtype))

    def wait(self, request: Any) -> None:
        self.transport.wait(request, _Patience(self.transport, self.what, self.members))

    def _bytes(self, x: Any) -> Any:
        return [x.reshape(-1).view(np.uint8), self.transport.MPI.BYTE]

    def all_gather(self, x: Any, tag: int = 0) -> Any:
        """Return the arrays of all ranks, stacked."""
        found = self._by_rows(c.all_gather, x, (len(self.members), *x.shape), tag)
        if found is not None:
            return found
        out = np.empty((len(self.members), *x.shape), x.dtype)
        if x.size:
            self.wait(self.comm.Iallgather(self._bytes(x), self._bytes(out)))
        return out

    def scattered_sum(self, rows: Any) -> Any:
        """Return the sum of the rows that all ranks have for this one, in their order."""
        found = self._by_rows(c.reduce_scatter, rows, rows.shape[1:])
        return c.summed(list(self.all_to_all(rows))) if found is None else found

    def all_to_all(self, x: Any) -> Any:
        """Return, of arrays whose first axis is the rank that a row goes to, the rows for this one."""
        found = self._by_rows(c.all_to_all, x, x.shape)
        if found is not None:
            return found
        out = np.empty_like(x)
        if x.size:
            self.wait(self.comm.Ialltoall(self._bytes(x), self._bytes(out)))
        return out

    def broadcast(self, x: Any, root: int) -> Any:
        """Return the array of the rank at a position, by MPI's own algorithm."""
        out = x.copy()
        if x.size:
            self.wait(self.comm.Ibcast(self._bytes(out), root))
        return out

    def permute(self, x: Any, pairs: Sequence[tuple[int, int]]) -> Any:
        """Return the array that another rank sends to this one, by pairs of positions; zeros if none does."""
        out = np.zeros_like(x)
        if not x.size:
            return out
        requests = [self.comm.Irecv(self._bytes(out), a) for a, b in pairs if b == self.own]
        requests += [self.comm.Isend(self._bytes(x), b) for a, b in pairs if a == self.own]
        for request in requests:
            self.wait(request)
        return out


def _reduced(line: _Line, x: Any, combine: Callable[[Sequence[Any]], Any]) -> Any:
    """Return the combination of all ranks' arrays, in their order: each rank combines a part, then all gather."""
    n = len(line.members)
    if x.nbytes <= SMALL or n <= 2:  # two ranks send each other as much either way
        return combine(list(line.all_gather(x)))
    size = -(-x.size // n)
    rows = np.zeros(n * size, x.dtype)
    rows[: x.size] = x.reshape(-1)
    part = combine(list(line.all_to_all(rows.reshape(n, size))))
    return line.all_gather(part).reshape(-1)[: x.size].reshape(x.shape)


def _scattered(line: _Line, x: Any, attrs: Mapping[str, Any]) -> Any:
    return line.scattered_sum(np.stack(c.parts(x, attrs["axis"], len(line.members))))


def _exchanged(line: _Line, x: Any, attrs: Mapping[str, Any]) -> Any:
    found = line.all_to_all(np.stack(c.parts(x, attrs["split"], len(line.members))))
    return np.concatenate(list(found), attrs["join"])


_MOVES: dict[Op, Callable[[_Line, Any, Mapping[str, Any]], Any]] = {
    c.all_reduce: lambda line, x, attrs: _reduced(line, x, c.summed),
    c.all_reduce_max: lambda line, x, attrs: _reduced(line, x, c.greatest),
    c.reduce_scatter: _scattered,
    c.all_gather: lambda line, x, attrs: np.concatenate(list(line.all_gather(x)), attrs["axis"]),
    c.all_to_all: _exchanged,
    c.ppermute: lambda line, x, attrs: line.permute(x, attrs["pairs"]),
    c.broadcast_from: lambda line, x, attrs: line.broadcast(x, attrs["root"]),
}
