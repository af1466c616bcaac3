"""`torch.multiprocessing`: Python's `multiprocessing`. Tensors go from process to process by value.

Memory that several processes write to is not there: `share_memory_()` of a tensor and `share_memory()` of a module
raise an error, so that a program that trains in this way does not run and learn nothing.
"""

from __future__ import annotations

import multiprocessing as _processes
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

from ..absent import names_of

globals().update({name: getattr(_processes, name) for name in _processes.__all__})


def get_all_sharing_strategies() -> set[str]:
    """Return the names of the ways in which tensors are passed on: by value, under the name of PyTorch's default."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """Return the way in which tensors are passed on."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Do nothing: tensors are passed on by value."""


class ProcessException(Exception):
    """The failure of a process that :func:`spawn` started: its number among them and its own."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid


class ProcessExitedException(ProcessException):
    """A process ended with an exit code other than 0."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code


class ProcessContext:
    """The processes that :func:`spawn` started without waiting for them."""

    def __init__(self, processes: list[Any]) -> None:
        self.processes = processes

    def pids(self) -> list[int]:
        """Return the processes' identifiers."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for all; True when all have ended. Where one failed, end the others and raise its failure."""
        alive = [p for p in self.processes if p.is_alive()]
        if alive:
            wait([p.sentinel for p in alive], timeout)
        for i, p in enumerate(self.processes):
            if p.exitcode not in (None, 0):
                for other in self.processes:
                    if other.is_alive():
                        other.terminate()
                    other.join(grace_period)
                raise ProcessExitedException(f"process {i} ended with exit code {p.exitcode}", i, p.pid, p.exitcode)
        return all(p.exitcode == 0 for p in self.processes)


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start `nprocs` processes that call `fn(i, *args)`, and wait for them; else return them.

    Parameters
    ----------
    fn: a function of a module, so that another process can find it.
    join: wait until all have ended; a failure of one ends the others and raises ProcessExitedException.
    daemon: end them with this process.
    start_method: "spawn", "fork" or "forkserver".
    """
    context: Any = _processes.get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for p in processes:
        p.start()
    started = ProcessContext(processes)
    if not join:
        return started
    while not started.join():
        pass
    return None


__all__ = [
    *_processes.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
