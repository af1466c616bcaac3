"""The collector of cycles while much is made that stays.

A trace, and the passes over its graph, make hundreds of thousands of objects that are kept. After every 700 of them (or
as many as the process says) the collector looks for cycles among the youngest, and now and then among all that is
loaded, which took a quarter of the time of a first call.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from .locks import in_child, lock

# The collector looks at new objects when there are so many.
_MANY = 50_000

_lock = lock()
# The thresholds before the first of the blocks in progress, and how many there are.
_before: tuple[int, int, int] | None = None
_inside = 0


@contextmanager
def seldom() -> Iterator[None]:
    """Let the collector of cycles look at new objects seldom, in all threads, until the block ends.

    Who turned it off, or set a higher threshold, has it so; what is set meanwhile stays.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _before, _inside
    with _lock:
        _inside += 1
        now = gc.get_threshold()
        if _before is None and 0 < now[0] < _MANY:
            _before = now
            gc.set_threshold(_MANY, *now[1:])


def _leave() -> None:
    global _before, _inside
    with _lock:
        _inside = max(0, _inside - 1)
        if _inside == 0 and _before is not None:
            if gc.get_threshold() == (_MANY, *_before[1:]):
                gc.set_threshold(*_before)
            _before = None


def _alone() -> None:
    """Forget the blocks of other threads; one of this thread ends without anything to give back."""
    global _inside
    _inside = 0
    _leave()


in_child(_alone)
