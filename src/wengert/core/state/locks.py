"""Locks, and their state in a child process.

A process that forks copies all of its memory, but of its threads only the one that forks. A lock that another thread
held would never be given back in the child, and what it guards would stay as that thread left it. So all locks of the
library are made here, and one hook looks after them:

- a `lock` is free in the child. What it guards may have been caught half-made, so whoever makes one says by
  `in_child` how that is put right, where Python's own containers are not enough.
- a `lock(awaited=True)` guards what cannot be put right (memory of LLVM's, threads of the operating system): a
  fork waits until nobody holds it.

The thread that forks goes on in the child, with what it holds itself.

Python's own locks of modules stay held in the child: a module that a thread was importing could not be imported there.
So modules that the library loads when they are first used are loaded by `imported`, or in `importing`, and a fork waits
until they are.
"""

from __future__ import annotations

import importlib
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import system

# The type of `threading.RLock()`, which has no name of its own there.
RLock = Any

_locks: weakref.WeakSet[RLock] = weakref.WeakSet()
# In the order in which they are made, which is that in which the modules build on each other.
_awaited: list[RLock] = []
_before: list[Callable[[], object]] = []
_in_parent: list[Callable[[], object]] = []
_in_child: list[Callable[[], object]] = []
# The locks that a fork in progress has taken.
_taken: list[Any] = []
# How many imports each thread is in. No import begins while a fork holds the condition's lock.
_imports: Counter[int] = Counter()
_changed = threading.Condition(threading.RLock())
# Seconds that a fork waits for imports: one may itself wait for a module that the forking thread is importing.
_IMPORT_WAIT = 30.0


def lock(awaited: bool = False) -> RLock:
    """Return a re-entrant lock; the module says what a child process finds of it."""
    made = threading.RLock()
    if awaited:
        _awaited.append(made)
    else:
        _locks.add(made)
    return made


@contextmanager
def importing() -> Iterator[None]:
    """Let forks wait for what is imported inside."""
    thread = threading.get_ident()
    with _changed:
        _imports[thread] += 1
    try:
        yield
    finally:
        with _changed:
            _imports[thread] -= 1
            if not _imports[thread]:
                del _imports[thread]
            _changed.notify_all()


def imported(name: str, package: str | None = None) -> Any:
    """Return a module, for which forks wait while it is imported."""
    with importing():
        return importlib.import_module(name, package)


def _others_import() -> bool:
    return bool(_imports.keys() - {threading.get_ident()})


def before_fork(do: Callable[[], object]) -> None:
    """Call a function before each fork, with all awaited locks held."""
    _before.append(do)


def after_fork(do: Callable[[], object]) -> None:
    """Call a function after each fork in both processes, before anything else is done there."""
    _in_parent.append(do)


def in_child(do: Callable[[], object]) -> None:
    """Call a function in each child process, where no other thread holds a lock any more."""
    _in_child.append(do)


def _prepare() -> None:
    # An import may need any lock, so nothing is held while a fork waits for one.
    while True:
        with _changed:
            in_time = _changed.wait_for(lambda: not _others_import(), _IMPORT_WAIT)
        for held in (*reversed(_awaited), _changed):
            held.acquire()
            _taken.append(held)
        if not in_time or not _others_import():
            break
        _give_back()
    for do in _before:
        do()


def _give_back() -> None:
    while _taken:
        _taken.pop().release()


def _release() -> None:
    for do in _in_parent:
        do()
    _give_back()


def _reset() -> None:
    for thread in _imports.keys() - {threading.get_ident()}:
        del _imports[thread]
    for held in list(_locks):
        if not held._is_owned():
            held._at_fork_reinit()
    _release()
    for do in _in_child:
        do()


system.current.at_fork(_prepare, _release, _reset)
