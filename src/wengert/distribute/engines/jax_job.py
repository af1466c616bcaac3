"""Jobs of processes that JAX knows of: each has a device, which is a rank.

Programs on a mesh move their values by XLA. What Python code exchanges goes the same way, as bytes that all get from
all, so that it has the bits of the simulation. No wait is seen from outside: a rank that waits for others for too long
ends itself, and with that the job.
"""

from __future__ import annotations

import hashlib
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import GraphError, fail, user_location
from ...core.ops.op import Op
from ...execute.xla.api import jax
from ...execute.xla.devices import join_processes
from ...execute.xla.ranks import Gathering
from ...ops.collective import definitions as c
from .meeting import DIGEST, PROGRAM, called, differ, refuse_left, shake_hands
from .mpi import watchdog_seconds
from .xla import JaxTransport

# The variables by which a rank that `launch` starts knows its job: where the first one listens, how many there are,
# which one it is, a folder for what it has to tell and for `job.LIFELINE`, and the process that has started it.
ADDRESS, RANKS, RANK, FOLDER = "WENGERT_JOB_ADDRESS", "WENGERT_JOB_RANKS", "WENGERT_JOB_RANK", "WENGERT_JOB_FOLDER"
PARENT = "WENGERT_JOB_PARENT"
# In these seconds a rank that has lost another one leaves it to that one to tell its error.
GRACE = 0.2
# The exit status of a job that is ended because nobody goes on.
STOPPED = 75


class ProcessTransport(JaxTransport):
    """The ranks of a job, each a process with one of JAX's devices."""

    __slots__ = ("trusted", "has_left", "_lines", "_watch")

    def __init__(self) -> None:
        address, ranks, rank = (os.environ.get(name) for name in (ADDRESS, RANKS, RANK))
        known = None if address is None else (address, int(ranks or 1), int(rank or 0))
        self.devices, self.rank = join_processes(known, watchdog_seconds())
        self.size = len(self.devices)
        self.trusted = False
        # True once this rank has given up a step in which others wait for it, in programs of XLA's that none ends.
        self.has_left = False
        self._lines: dict[tuple[int, ...], Gathering] = {}
        self._watch = _Watch(self.rank)

    # -- what ranks do together

    def _gather(self, members: tuple[int, ...]) -> Gathering:
        found = self._lines.get(members)
        if found is None:
            found = self._lines[members] = Gathering([self.devices[i] for i in members], members.index(self.rank))
        return found

    def meet(self, members: tuple[int, ...], op: Op, x: Any, attrs: Mapping[str, Any]) -> Any:
        """Return this rank's result of a collective among these ranks."""
        own = members.index(self.rank)
        if op is c.pcast:
            return x
        if op is c.own_part:
            return c.parts(x, attrs["axis"], len(members))[own]
        gather, what = self._gather(members), called(op, x, attrs)
        with self._waiting(what):
            if not self.trusted:
                shake_hands(gather, members, what, f"{what} at {user_location()}")
            rows = gather(np.ascontiguousarray(x).reshape(x.shape))
        return op.facets["collective"](list(rows), **attrs)[own]

    def compare(self, digest: bytes, what: Callable[[], str]) -> bool:
        """Return whether any rank of the job brings another digest. Raises GraphError where one does something else."""
        members = tuple(range(self.size))
        with self._waiting(what):
            return differ(self._gather(members), members, digest, lambda: PROGRAM + what())

    @contextmanager
    def trusting(self, trusts: bool = True) -> Iterator[None]:
        """Return a block in which a program runs that all ranks have agreed on: nobody asks what the others call."""
        before, self.trusted = self.trusted, trusts
        try:
            with self._waiting("a program"):
                yield
        finally:
            self.trusted = before

    def leave(self) -> None:
        """Note that this rank has left a step in its middle, in which others wait for it: it meets them no more."""
        self.has_left = True

    @contextmanager
    def _waiting(self, what: str | Callable[[], str]) -> Iterator[None]:
        """Return a block in which this rank waits for others. Raises GraphError where one of them has gone."""
        if self.has_left:
            refuse_left(self.rank)
        try:
            with self._watch.waiting(what):
                yield
        except jax.errors.JaxRuntimeError as e:
            time.sleep(GRACE)  # the error of whoever has gone ends the job
            fail(
                GraphError,
                f"rank {self.rank} in {what if isinstance(what, str) else what()}: {str(e).partition(chr(10))[0]}",
                "Another rank has ended, or cannot be reached any more.",
            )

    # -- the end

    def end(self) -> None:
        """Wait for all ranks to have come to their end. Raises GraphError where one waits for something else."""
        members = tuple(range(self.size))
        with self._waiting("its end"):
            digest = hashlib.blake2b(b"its end", digest_size=DIGEST).digest()
            differ(self._gather(members), members, digest, lambda: "its end")

    def is_first_to_fail(self) -> bool:
        """Return whether this rank tells the job's error itself: where nobody has started it who would."""
        return True

    def tell(self, text: str) -> None:
        """Tell why this rank ends."""
        tell(self.rank, text)

    def abort(self, status: int) -> None:
        """End this process, and with it the job."""
        sys.stdout.flush()
        os._exit(status)


class _Watch:
    """A look at how long this rank waits for others: after too long it says so, and ends the process.

    It ends it too when whoever has started the job has gone, who would end the ranks and tell their errors.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.since: list[tuple[float, str | Callable[[], str], str]] = []
        threading.Thread(target=self._look, daemon=True, name="wengert-watchdog").start()

    @contextmanager
    def waiting(self, what: str | Callable[[], str]) -> Iterator[None]:
        """Return a block in which this rank waits for others in `what`."""
        self.since.append((time.monotonic(), what, user_location()))
        try:
            yield
        finally:
            self.since.pop()

    def _look(self) -> None:
        limit, parent = watchdog_seconds(), os.environ.get(PARENT)
        while True:
            time.sleep(min(1.0, limit / 4))
            if parent is not None and os.getppid() != int(parent):
                os._exit(STOPPED)
            for start, what, where in self.since[:1]:
                if time.monotonic() - start > limit:
                    told = what if isinstance(what, str) else what()
                    text = f"rank {self.rank} has waited {limit:.0f} s in {told} at {where}"
                    tell(
                        self.rank,
                        f"wengert: {text}\nAnother rank does not go on. WENGERT_WATCHDOG says after how many seconds "
                        "a job is ended.\n",
                    )
                    os._exit(STOPPED)


def tell(rank: int, text: str) -> None:
    """Tell why this rank ends: whoever has started it, else all."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        print(text, file=sys.__stderr__, end="", flush=True)
        return
    begun = Path(folder, f"error-{rank}.part")
    begun.write_text(text)
    begun.rename(Path(folder, f"error-{rank}"))


class Processes:
    """The processes of a job on this machine, which live and end together."""

    def __init__(self, ranks: int, command: Sequence[str], env: Mapping[str, str]) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{s.getsockname()[1]}"
        self.folder, self.begun_to_end = Path(env[FOLDER]), 0.0
        job = {ADDRESS: address, RANKS: str(ranks), PARENT: str(os.getpid())}
        self.children = [
            subprocess.Popen(command, env={**env, **job, RANK: str(rank)}, stdin=subprocess.DEVNULL)
            for rank in range(ranks)
        ]

    def wait(self, timeout: float = math.inf) -> int:
        """Return the exit status when all have ended; where one has failed, the others are ended.

        Raises subprocess.TimeoutExpired.
        """
        end = time.monotonic() + timeout
        while True:
            found = [child.poll() for child in self.children]
            failed = next((status for status in found if status), 0)
            if failed:
                self.terminate()
                for child in self.children:
                    child.wait()
                told = sorted(self.folder.glob("error-*[0-9]"), key=lambda p: p.stat().st_mtime_ns)
                if told:
                    print(told[0].read_text(), file=sys.__stderr__, end="", flush=True)
                return failed
            if all(status == 0 for status in found):
                return 0
            if 0 in found:  # all ranks have come to their end
                self.begun_to_end = self.begun_to_end or time.monotonic()
                if time.monotonic() - self.begun_to_end > (limit := watchdog_seconds()):
                    print(not_ended(limit), file=sys.__stderr__, flush=True)
                    self.terminate()
                    return STOPPED
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a job", timeout)
            time.sleep(0.01)

    def terminate(self) -> None:
        """End all processes that live: a frozen one too."""
        for child in self.children:
            if child.poll() is None:
                child.kill()

    kill = terminate


def not_ended(limit: float) -> str:
    """Return the message for a job whose ranks are done but do not end."""
    return f"wengert: all ranks are done, and one has not ended in {limit:.0f} s: the job is stopped"
