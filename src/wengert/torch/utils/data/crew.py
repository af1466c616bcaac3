"""The workers of a loader, as the main process sees them: tasks go to them, batches come back, and they end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from multiprocessing import connection, reduction
from typing import Any

from ....core.errors import user_location
from .channel import Receiver, pipe
from .worker import BATCH, ENDED, FAILED, Job, work

# Seconds that workers have to finish what they are at, when they are told to end, and to go when they are ended.
_TO_FINISH, _TO_GO = 5.0, 5.0


class WorkerError(Exception):
    """An exception of a worker's dataset, for the batch of this number."""

    def __init__(self, number: int, error: BaseException) -> None:
        self.number, self.error = number, error


class _Worker:
    """One process, with the pipes to it."""

    def __init__(self, number: int, job: Job, context: Any) -> None:
        self.number = number
        tasks, self.tasks = pipe(context, False)
        # One that goes both ways is a socket, through which descriptors of files can be sent.
        ours, results = pipe(context, True)
        try:
            with _quietly() as mask:
                first = _begin_with(job, context)
                given = (number, None if first is not None else job, tasks, results, mask)
                self.process = context.Process(target=work, args=given, daemon=True)
                self.process.start()
        finally:
            tasks.close()
            results.close()
        self.receiver = Receiver(ours)
        self.first = first
        self._poll: Any = None
        if sys.platform != "win32":
            self._poll = select.poll()
            self._poll.register(ours.fileno(), select.POLLIN)
            self._poll.register(self.process.sentinel, select.POLLIN)

    def wait(self, seconds: float | None) -> bool:
        """Wait until there is a message, or no process any more. Return False where the time has passed."""
        if self._poll is None:
            return bool(connection.wait([self.receiver.connection, self.process.sentinel], seconds))
        return bool(self._poll.poll(None if seconds is None else max(0, int(seconds * 1000))))

    def dismiss(self) -> None:
        """Say that it is enough, and close the pipes: a worker that is at a batch finds nobody to send it to."""
        with contextlib.suppress(OSError):
            # Where the pipe is full the word would wait for the worker; else it is heard even if a process that the
            # program forked keeps the pipe open.
            if connection.wait([self.process.sentinel], 0) == [] and _has_room(self.tasks):
                self.tasks.send(None)
        for end in (self.tasks, self.receiver.connection):
            with contextlib.suppress(OSError):
                end.close()


def _has_room(end: Any) -> bool:
    if sys.platform == "win32":
        return False
    poll = select.poll()
    poll.register(end.fileno(), select.POLLOUT)
    return any(event & select.POLLOUT for _, event in poll.poll(0))


def _begin_with(job: Job, context: Any) -> Any:
    """Return a pickle for the worker to begin with; None where it is given the job as it is.

    Python itself would wait for ever for a process that ends before it has read all of its arguments.
    """
    if context.get_start_method() == "fork":
        return None
    try:
        return reduction.ForkingPickler.dumps(job)
    except RuntimeError:
        return None  # there are locks in it, which go with a new process's arguments only


@contextlib.contextmanager
def _quietly() -> Iterator[Any]:
    """Have a process begin without SIGINT, which its parent gets too, and without advice on threads and forks.

    Gives the signals that were blocked before. Wengert's threads and locks are ready for forks.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
        warnings.filterwarnings("ignore", ".*fork.*JAX", RuntimeWarning)  # whose threads workers do not ask for
        if sys.platform == "win32":
            yield None
            return
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield mask
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Crew:
    """Workers who share the batches of one pass after the other.

    A pass numbers its batches, and gives each to the next worker that still has samples. What comes back has the order
    of the numbers, or where `in_order` is False that in which it is made.
    """

    def __init__(self, job: Job, context: Any, timeout: float, in_order: bool) -> None:
        self._job, self._timeout, self._in_order = job, timeout, in_order
        self._workers: list[_Worker] = []
        self._epoch = 0
        self._ended: set[int] = set()
        self._next = 0
        # What is still to come back, in the order of the numbers: the number of each and its worker.
        self._awaited: deque[tuple[int, _Worker]] = deque()
        # At a crew's end nobody may be left who holds it: this holds what there is to end.
        self._pid = os.getpid()
        self._close = weakref.finalize(self, _end, self._workers, self._pid)
        try:
            for number in range(job.num_workers):
                self._workers.append(_Worker(number, job, context))
            for worker in self._workers:
                self._introduce(worker)
        except BaseException:
            self.close(at_once=True)
            raise

    @property
    def is_open(self) -> bool:
        """True while there are workers."""
        return self._close.alive

    def close(self, at_once: bool = False) -> None:
        """End the workers, and wait until they are gone; `at_once` those too that are in the midst of a batch."""
        if self._close.detach() is not None:
            _end(self._workers, self._pid, 0.2 if at_once else _TO_FINISH)

    def begin(self, seed: int) -> None:
        """Begin another pass. What is on its way of the last one is dropped as it comes."""
        self._epoch += 1
        self._ended.clear()
        self._next = 0
        self._awaited.clear()
        for worker in self._workers:
            self._tell(worker, (self._epoch, None, seed, False, worker.receiver.returned()))

    def give(self, number: int, indices: Any, skip: bool = False) -> bool:
        """Have a batch made, or passed by. Return False where no worker has samples left."""
        worker = self._free_worker()
        if worker is None:
            return False
        self._tell(worker, (self._epoch, number, indices, skip, worker.receiver.returned()))
        self._awaited.append((number, worker))
        return True

    def _free_worker(self) -> _Worker | None:
        count = len(self._workers)
        turn = [self._workers[(self._next + i) % count] for i in range(count)]
        free = [w for w in turn if w.number not in self._ended]
        if not free:
            return None
        found = free[0]
        if not self._in_order:
            load = [sum(w is worker for _, w in self._awaited) for worker in free]
            found = free[load.index(min(load))]
        self._next = (found.number + 1) % count
        return found

    def _introduce(self, worker: _Worker) -> None:
        first, worker.first = worker.first, None
        if first is not None:
            try:
                worker.tasks.send_bytes(first)
            except OSError:
                self._lost(worker)

    def _tell(self, worker: _Worker, task: Any) -> None:
        try:
            worker.tasks.send(task)
        except OSError:
            self._lost(worker)

    def take(self) -> tuple[int, int, Any] | None:
        """Return the next message as its number, kind and content; None where nothing is to come.

        A worker that has no samples left gives ENDED once; what else it was given is dropped.

        Raises RuntimeError for a worker that is gone, or that takes longer than the time it has, WorkerError for an
        exception of the dataset.
        """
        while self._awaited:
            number, worker = self._awaited[0] if self._in_order else self._first_ready()
            if worker.number in self._ended:
                self._awaited.remove((number, worker))
                continue
            (epoch, which, kind), content = self._message(worker)
            if epoch != self._epoch:
                continue
            self._awaited.remove((which, worker))
            if kind == ENDED:
                self._ended.add(worker.number)
            if kind == FAILED:
                raise WorkerError(which, content.error(worker.number))
            return which, kind, content
        return None

    def _first_ready(self) -> tuple[int, _Worker]:
        """Return what waits for the first worker of which there is a message."""
        waiting = {w.receiver.connection: (n, w) for n, w in reversed(self._awaited)}
        gone = {w.process.sentinel: (n, w) for n, w in waiting.values()}
        ready = connection.wait([*waiting, *gone], self._timeout or None)
        if not ready:
            self._too_late()
        known: dict[Any, tuple[int, _Worker]] = {**waiting, **gone}
        return known[next((r for r in ready if r in waiting), ready[0])]

    def _message(self, worker: _Worker) -> Any:
        if not worker.wait(self._timeout or None):
            self._too_late()
        try:
            # The process may have gone after it sent what there is.
            if not worker.receiver.connection.poll(0):
                self._lost(worker)
            return worker.receiver.receive(lambda head: head[0] == self._epoch and head[2] in (BATCH, FAILED))
        except (EOFError, OSError):
            self._lost(worker)

    def _too_late(self) -> Any:
        self.close(at_once=True)
        raise RuntimeError(
            f"DataLoader timed out after {self._timeout} seconds ({user_location()})\n"
            "No batch came from the worker whose turn it was. Give it more time by timeout=."
        ) from None

    def _lost(self, worker: _Worker) -> Any:
        """Raise RuntimeError for a worker that is gone, with how it went."""
        worker.process.join(_TO_GO)
        code = worker.process.exitcode
        how = "has closed its pipe" if code is None else f"exited with status {code}"
        advice = "Its own messages, if any, are on standard error."
        if code is not None and code < 0:
            try:
                how = f"was killed by {signal.Signals(-code).name}"
            except ValueError:
                how = f"was killed by signal {-code}"
            if -code == getattr(signal, "SIGKILL", None):
                advice = "The system does that to a process when memory runs out: try fewer workers or smaller batches."
        pid = worker.process.pid
        self.close(at_once=True)
        raise RuntimeError(
            f"DataLoader worker {worker.number} (pid(s) {pid}) exited unexpectedly: it {how} ({user_location()})\n"
            f"{advice}"
        ) from None


def _end(workers: list[_Worker], pid: int, seconds: float = _TO_FINISH) -> None:
    """End workers and wait until they are gone: first by asking, then by signals."""
    if os.getpid() != pid:
        return  # a forked process: they are not its own
    for worker in workers:
        worker.dismiss()
    deadline = time.monotonic() + seconds
    for end in ("", "terminate", "kill"):
        for worker in workers:
            if end and worker.process.is_alive():
                getattr(worker.process, end)()
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
        if not any(worker.process.is_alive() for worker in workers):
            break
        deadline = time.monotonic() + _TO_GO
    for worker in workers:
        with contextlib.suppress(ValueError):
            worker.process.close()
    workers.clear()
