"""Threads: how many there may be, and the team of helpers among which programs divide their steps.

Helpers are threads of the operating system that run the driver's loop (see driver.py). They hold
nothing of Python's: no thread state, no lock, no signal.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path

import numpy as np

from ....core import system
from ....core.errors import WengertError, fail
from ....core.state import locks
from . import driver, scheduler

MOST_THREADS = 1024

# The files in which Linux names a process's control groups, and their limits.
GROUPS, GROUP_FILES = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")

# Counts the teams there were: who keeps what depends on the team sees here that there is another one.
generation = 0

_lock = locks.lock(awaited=True)
_wanted: int | None = None
_team: Team | None = None


class Team:
    """A team of helpers, with the memory through which the driver talks to them."""

    def __init__(self, threads: int) -> None:
        lines = scheduler.TEAM_SHARES // scheduler.LINE + 2 * threads
        self._memory = aligned(lines * scheduler.LINE, scheduler.LINE)
        self._memory[:] = 0
        words = self._memory.view(np.int64)
        self.address: int = self._memory.ctypes.data
        self._helpers: list[int] = []
        for i in range(1, threads):
            at = scheduler.TEAM_SHARES + (threads + i) * scheduler.LINE
            words[at // 8] = self.address
            words[at // 8 + 1] = i
            helper = system.current.start_thread(driver.driver().helper, self.address + at)
            if helper is None:
                break  # the system allows no more; those there are will do
            self._helpers.append(helper)
        self.threads = len(self._helpers) + 1
        words[scheduler.TEAM_THREADS // 8] = self.threads

    def close(self) -> None:
        """Let the helpers return. A call in progress goes on without them."""
        dismiss = driver.driver().dismiss
        assert dismiss is not None
        dismiss(self.address)
        for helper in self._helpers:
            system.current.join_thread(helper)
        self._helpers.clear()


def aligned(nbytes: int, boundary: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return bytes of memory that start on a boundary; the system provides them as they are first touched."""
    memory = np.empty(nbytes + boundary, np.uint8)
    start = -memory.ctypes.data % boundary
    return memory[start : start + nbytes]


def get_num_threads() -> int:
    """Return the number of threads that a compiled program may use.

    It is what :func:`set_num_threads` was given, else `WENGERT_NUM_THREADS`, else the processor cores that this
    process may use. Raises WengertError where the variable is no whole number in range.

    >>> import wengert as wg
    >>> wg.get_num_threads() >= 1
    True
    """
    global _wanted
    if _wanted is None:
        text = os.environ.get("WENGERT_NUM_THREADS")
        _wanted = usable_cores() if text is None else _number(text, "WENGERT_NUM_THREADS")
    return _wanted


def set_num_threads(n: int) -> None:
    """Set the number of threads that a compiled program may use. Results do not depend on it.

    Raises WengertError for anything but a whole number from 1 to 1024.

    >>> import wengert as wg
    >>> before = wg.get_num_threads()
    >>> wg.set_num_threads(1)
    >>> wg.get_num_threads()
    1
    >>> wg.set_num_threads(before)
    """
    global _wanted
    n = _number(n, "the number of threads")
    with _lock:
        if n != _wanted:
            _wanted = n
            _retire()


def team() -> Team | None:
    """Return the team of as many threads as are wanted; None for a single one, and where there are no helpers."""
    global _team
    if not driver.has_threads() or get_num_threads() == 1:
        return None
    if _team is None:
        with _lock:
            if _team is None:
                _team = Team(get_num_threads())
    return _team


def _retire() -> None:
    """Give up the present team."""
    global _team, generation
    with _lock:
        old, _team = _team, None
        generation += 1
        if old is not None:
            old.close()


def _number(value: int | str, what: str) -> int:
    try:
        n = int(value)
    except (TypeError, ValueError):
        n = 0
    if not 1 <= n <= MOST_THREADS:
        fail(WengertError, f"{what} is {value!r}", f"It must be a whole number from 1 to {MOST_THREADS}.")
    return n


def usable_cores() -> int:
    """Return the number of cores on which this process may run, at most its container's share of time.

    Two hardware threads of a core have its arithmetic in common, and count once.
    """
    allowed = system.current.processors()
    cores = {_text(Path(f"/sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list")) or str(i) for i in allowed}
    quota = cpu_quota()
    return max(1, len(cores) if quota is None else min(len(cores), int(quota)))


def cpu_quota() -> float | None:
    """Return the processors' time that this process's control groups grant it, in processors; None: no limit."""
    quotas = []
    for line in _text(GROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, read = GROUP_FILES, _quota_2
        elif "cpu" in controllers.split(","):
            base, read = GROUP_FILES / "cpu", _quota_1
        else:
            continue
        # A group's limit holds for all below it. In a container the path may be the host's, which
        # is not to be seen; then the root stands for it.
        group = base / path.lstrip("/")
        quotas += [q for folder in (group, *group.parents) if folder.is_relative_to(base) and (q := read(folder))]
    return min(quotas, default=None)


def _quota_2(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period else None


def _quota_1(folder: Path) -> float | None:
    quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period else None


def _text(path: Path) -> str:
    """Return a file's text without space around it; "" where there is no such file."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


# A child would have the memory of a team and none of its threads, so a fork finds no team.
locks.before_fork(_retire)
atexit.register(_retire)
