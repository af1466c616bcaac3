"""Links: how one rank of a pipeline sends values to another, without waiting for it."""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np

from ...core.errors import GraphError, fail
from ...core.spec import Spec, show
from ...ops.collective.definitions import ppermute
from ..mesh import Transport
from .mpi import ENDED, LOOK, MPITransport, watchdog_seconds


class Links(Protocol):
    """The messages of a rank. A value is sent when it is there, and handed over when the other one receives it."""

    def send(self, x: Any, rank: int) -> None:
        """Begin to send an array, which does not change until `finish`."""
        ...

    def hand(self, x: Any, rank: int) -> None:
        """Send an array that could not be sent before the other rank receives it."""
        ...

    def receive(self, spec: Spec, rank: int) -> Any:
        """Return the next array that a rank sends here."""
        ...

    def finish(self) -> None:
        """Wait until all that was sent has left."""
        ...


class Meetings:
    """Messages as collectives of two ranks: of engines in which ranks can but meet."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def send(self, x: Any, rank: int) -> None:
        """Do nothing: the array is handed over later."""

    def hand(self, x: Any, rank: int) -> None:
        """Meet the rank that receives."""
        self._meet(np.asarray(x), self.transport.rank, rank)

    def receive(self, spec: Spec, rank: int) -> Any:
        """Meet the rank that sends."""
        return self._meet(np.zeros(spec.shape, spec.dtype), rank, self.transport.rank)

    def _meet(self, x: Any, source: int, target: int) -> Any:
        members = tuple(sorted((source, target)))
        pairs = ((members.index(source), members.index(target)),)
        return self.transport.meet(members, ppermute, x, {"over": "pipeline", "ranks": 2, "pairs": pairs})

    def finish(self) -> None:
        """Do nothing: nothing is on its way."""


class MPILinks:
    """Messages by MPI, which move while both ranks compute. All ranks make one at the same time."""

    def __init__(self, transport: MPITransport) -> None:
        self.transport = transport
        self.comm = transport.world.Dup()
        self.pending: list[tuple[Any, Any]] = []

    def _bytes(self, x: Any) -> Any:
        return [x.reshape(-1).view(np.uint8), self.transport.MPI.BYTE]

    def send(self, x: Any, rank: int) -> None:
        """Begin to send an array."""
        x = np.ascontiguousarray(x)
        self.pending = [p for p in self.pending if not p[0].Test()]
        if x.size:
            self.pending.append((self.comm.Isend(self._bytes(x), rank), x))

    def hand(self, x: Any, rank: int) -> None:
        """Let what was sent go on."""
        self.pending = [p for p in self.pending if not p[0].Test()]

    def receive(self, spec: Spec, rank: int) -> Any:
        """Return the next array that a rank sends here. Raises GraphError where it has ended, or says nothing."""
        out = np.empty(spec.shape, spec.dtype)
        if out.size:
            request = self.comm.Irecv(self._bytes(out), rank)
            if not request.Test():
                self._wait(request, f"a message, {show(spec.shape, spec.dtype)}", rank)
        return out

    def finish(self) -> None:
        """Wait until all that was sent has left."""
        for request, x in self.pending:
            if not request.Test():
                self._wait(request, f"its message, {show(x.shape, x.dtype)}, to leave", self.transport.rank)
        self.pending = []

    def _wait(self, request: Any, what: str, rank: int) -> None:
        """Wait for a request. What it waits for is no matter of the ranks beside it: nobody is told."""
        start, spins = time.monotonic(), 0
        while not request.Test():
            spins += 1
            if spins < 100:
                continue
            time.sleep(0 if spins < 2000 else 1e-4)
            now = time.monotonic()
            if now - start < LOOK:
                continue
            self.transport.listen()
            ended = self.transport.states.get(rank, ("", now))[0] == ENDED
            if (ended and not request.Test()) or now - start > (limit := watchdog_seconds()):
                why = f"rank {rank} has ended" if ended else f"has done so for {limit:.0f} s"
                fail(
                    GraphError,
                    f"rank {self.transport.rank} waits for {what}, from rank {rank}, and {why}",
                    "All ranks run the same step; WENGERT_WATCHDOG says after how many seconds a job is ended.",
                )


def links(transport: Transport) -> Links:
    """Return how a rank of a job sends values to others."""
    return MPILinks(transport) if isinstance(transport, MPITransport) else Meetings(transport)
