"""The process of a worker: it takes indices, and sends batches."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....core.errors import WengertError, first_line, is_internal, user_location
from ....execute.native.run.threads import set_num_threads
from . import chance
from .channel import Sender, close_others
from .fetching import Fetcher, fetcher

# What a message of a worker brings.
BATCH, ENDED, FAILED, SKIPPED = range(4)
# Seconds between looks whether the parent still lives, for a case that the pipe does not tell.
_PARENT = 5.0


@dataclass
class WorkerInfo:
    """A worker's knowledge of itself: its number, how many there are, its seed, and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return what the worker that calls this knows of itself; None in the main process.

    >>> import wengert.torch as torch
    >>> torch.utils.data.get_worker_info() is None
    True
    """
    return _info


def default_worker_init(worker_id: int) -> None:
    """Do nothing: what a worker does first where `worker_init_fn` is not given."""


@dataclass(frozen=True)
class Job:
    """The task of a loader's workers, which they are told at their start."""

    dataset: Any
    by_number: bool
    together: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    worker_init_fn: Callable[[int], Any] | None
    num_workers: int
    seed: int
    seed_batches: bool

    def fetcher(self) -> Fetcher:
        """Return what fetches the batches."""
        return fetcher(self.dataset, self.by_number, self.together, self.collate_fn, self.drop_last)


@dataclass(frozen=True)
class Failure:
    """An exception of a worker's, as text, with its class where the main process can have that."""

    kind: type[BaseException]
    what: str
    place: str | None  # empty where the text has it, None where no line of the user's was at work
    trace: str

    def error(self, worker: int) -> BaseException:
        """Return the exception for the main process: its text begins with the user's line, and ends with the trace."""
        first, line_break, rest = self.what.partition("\n")
        place = user_location() if self.place is None else self.place
        head = f"{first} ({place}){line_break}{rest}" if place else self.what
        text = f"{head}\nCaught {self.kind.__name__} in DataLoader worker process {worker}.\nOriginal {self.trace}"
        if issubclass(self.kind, KeyError) and self.kind.__str__ is KeyError.__str__:
            return _Key(text)  # which would show the text quoted
        try:
            made = self.kind(text)
        except Exception:
            return RuntimeError(text)
        return made if text in str(made) else RuntimeError(text)


class _Key(KeyError):
    def __str__(self) -> str:
        return str(self.args[0])


_Key.__name__ = _Key.__qualname__ = "KeyError"


def failure(error: BaseException) -> Failure:
    """Return what is to be told of an exception."""
    trace = error.__traceback__
    while trace is not None and is_internal(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is not None:  # from the user's first line on
        error = error.with_traceback(trace)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_internal(f.filename)]
    # The innermost line of the user's, rather than of a library that it calls.
    own = [f for f in frames if not _is_installed(f.filename)] or frames
    what = str(error) or type(error).__name__
    place = f"{own[-1].filename}:{own[-1].lineno}" if own else None
    first, line_break, rest = what.partition("\n")
    if not own and isinstance(error, WengertError):
        what = f"{first_line(error)}{line_break}{rest}"  # it names a line of multiprocessing
    elif place is not None and place in first:
        place = ""
    return Failure(_known_class(error), what, place, "".join(traceback.format_exception(error)))


def _known_class(error: BaseException) -> type[BaseException]:
    """Return the nearest class of an exception that another process can have, and that is one of errors."""
    for kind in type(error).__mro__:
        if not issubclass(kind, Exception):
            break
        try:
            pickle.dumps(kind)
        except Exception:
            continue
        return kind
    return RuntimeError


def _is_installed(path: str) -> bool:
    return path.startswith((os.path.dirname(os.__file__), "<")) or "site-packages" in path


def _wait(tasks: Any, parent: int) -> bool:
    """Wait for the next task. Return False where nobody is left to give one."""
    if sys.platform == "win32":
        while not tasks.poll(_PARENT):
            pass
        return True
    poll = select.poll()
    poll.register(tasks.fileno(), select.POLLIN)
    while not poll.poll(_PARENT * 1000):
        if os.getppid() != parent:
            return False
    return True


def work(number: int, job: Job | None, tasks: Any, results: Any, mask: Any) -> None:
    """Be a worker until the main process says that it is enough, or is gone.

    Without a job it is the first that comes through the pipe.
    """
    global _info
    parent = os.getppid()
    if threading.current_thread() is threading.main_thread():
        # The main process hears of it too, and ends its workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    close_others(tasks, results)
    sender = Sender(results)
    fetch: Fetcher | None = None
    broken: Failure | None = None
    seed = 0
    try:
        if job is None:
            given = tasks.recv_bytes()
            job = pickle.loads(given)
            given = None
        seed = job.seed
        set_num_threads(1)
        chance.seed_everything(seed, number)
        _info = WorkerInfo(number, job.num_workers, seed + number, job.dataset)
        (job.worker_init_fn or default_worker_init)(number)
        fetch = job.fetcher()
    except (EOFError, OSError) as e:
        if job is None:
            return
        broken = failure(e)
    except BaseException as e:
        broken = failure(e)
    try:
        ended = False
        while _wait(tasks, parent):
            task = tasks.recv()
            if task is None:
                return
            epoch, which, indices, skip, returned = task
            sender.give_back(returned)
            if which is None:  # a new epoch
                ended, seed = False, indices
                if job is not None and not job.by_number and broken is None:
                    try:
                        fetch = job.fetcher()
                    except BaseException as e:
                        broken = failure(e)
                continue
            if ended:
                continue
            if job is None or fetch is None or broken is not None:
                kind, content = FAILED, broken
            else:
                kind, content = _made(job, fetch, seed, which, indices, skip, sender)
            ended = kind == ENDED
            try:
                sender.send((epoch, which, kind), content)
            except (EOFError, OSError):
                raise
            except Exception as e:  # what cannot be pickled
                sender.send((epoch, which, FAILED), failure(e))
            content = None
    except (EOFError, OSError):
        pass  # nobody listens any more
    finally:
        _info = None


def _made(job: Job, fetch: Fetcher, seed: int, which: int, indices: Any, skip: bool, sender: Sender) -> tuple[int, Any]:
    """Return the kind and the content of the answer to a task."""
    try:
        if job.seed_batches:
            chance.seed_everything(seed, which, 1)
        if skip:
            fetch.skip(indices)
            return SKIPPED, None
        return BATCH, fetch.fetch(indices, sender.arena())
    except StopIteration as e:
        if not job.by_number:
            return ENDED, None
        return FAILED, failure(e)
    except BaseException as e:
        return FAILED, failure(e)
