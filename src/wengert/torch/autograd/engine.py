"""Callbacks: functions that a backward pass of this thread calls at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...core.errors import GradientError, fail

# The functions that the pass is to call, None outside of one.
_queued: ContextVar[list[Callable[[], Any]] | None] = ContextVar("wengert_torch_callbacks", default=None)


@contextmanager
def calling_back() -> Iterator[None]:
    """Return a context around a backward pass, at whose end queued functions are called, in order."""
    queue: list[Callable[[], Any]] = []
    token = _queued.set(queue)
    try:
        yield
        for callback in queue:  # it may grow
            callback()
    finally:
        _queued.reset(token)


class Engine:
    """The engine of backward passes, as far as programs talk to it: `Variable._execution_engine`."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Have the backward pass call a function when all gradients are there. Raises GradientError outside of one."""
        queue = _queued.get()
        if queue is None:
            fail(GradientError, "queue_callback() outside of a backward pass", "Call it in a hook or in a backward.")
        queue.append(callback)
