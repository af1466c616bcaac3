"""Looks at a function that is not called: what they change of the state outside of it is changed back.

A function is traced to show its program, or to predict what a call would take. Its Python code runs then, and objects
with cells make what their first use would make (an optimiser its buffers). Whoever changes anything in this way asks
whether it is in a look, and leaves there what changes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

_look: ContextVar[ExitStack | None] = ContextVar("wengert_look", default=None)


@contextmanager
def looking() -> Iterator[None]:
    """Return a block that looks at functions; at its end, by an error too, everything is as it was before."""
    with ExitStack() as look:
        token = _look.set(look)
        try:
            yield
        finally:
            _look.reset(token)


def after_look(undo: Callable[[], object]) -> None:
    """Have a change made undone when the look ends that made it, the last one first; in a call nothing is."""
    look = _look.get()
    if look is not None:
        look.callback(undo)


def is_look() -> bool:
    """Return whether functions are looked at here, and not called."""
    return _look.get() is not None
