"""Observation is a seam: whoever asks is told what runs, with its values, through one interface.

Questions about values ("where was this NaN born?") need what eager execution does not keep: results, operations
that no gradient flows through, the cotangent on every edge. An `Observer` is told of them where they happen: by the
front doors of ops, the interpreter, the backward pass, checkpoints, compiled functions, optimisers.

`observers` is what they look at first. It is empty where nobody observes, in the whole process: the engines' fast
paths then go by with one test, and where it is not they step aside for the general ones, which report. Whether
it is *this* thread that is observed only `observer()` says. The observer stands in a context variable beside the
mode and not in the mode, which blocks save and restore: a mode set while somebody observes outlives the observation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..errors import GraphError, fail
from . import locks

OVER = 1 << 30  # a pause that does not end
CASTING = 0  # the entry of a mode that casts in `detours`: no thread has it


class Observer:
    """An object that is told what its thread, or context, does; it overrides the methods that it is interested in.

    Other threads are not its business, unless it is one of those that `observing_all` gives to every thread. An
    exception that it raises reaches the program at the operation that it was told of, which has run by then, and
    leaves everything whole.

    `quiet` above 0 is a pause: nothing is told. `node` is that of a graph which is being run: it knows the
    user's line. With `inlines` compiled functions run as they are written, so that every operation is seen at its
    line; without it they run compiled, and the program tells of its steps. Ops and nodes are those of
    :mod:`wengert.core.ops.op` and :mod:`wengert.core.node`, which stand above this module.
    """

    __slots__ = ("node", "quiet")

    inlines: bool = True

    def __init__(self) -> None:
        self.quiet: int = 0
        self.node: Any = None

    def step(
        self, op: Any, inputs: Sequence[Any], out: Any, run: Callable[..., Any], attrs: Mapping[str, Any],
        start: float, node: Any = None,
    ) -> None:  # fmt: skip
        """Note that an operation ran: `run(*inputs)` gave the array `out`, a tuple where it has several results.

        `start` is when it began, by `time.perf_counter`; `node` what it recorded, where that is known already.
        """

    def made(self, node: Any) -> None:
        """Note that a node was recorded, by the last operation or for it."""

    def pulled(self, node: Any, ct: Any, saved: Any, own: dict[Any, Any], recording: bool, start: float) -> None:
        """Note a step of a backward pass: the cotangent `ct` of a node became those of its inputs, `own`.

        They are arrays, tensors where the pass is itself recorded.
        """

    def pass_begins(self, roots: Sequence[tuple[Any, Any]]) -> None:
        """Note that a backward pass begins from these nodes with their cotangents."""

    def pass_ends(self, found: Mapping[Any, Any] | None) -> None:
        """Note that a backward pass has ended, with the cotangents of its targets; None where it failed."""

    def leak(self, what: str, value: Any, node: Any) -> None:
        """Note that a value is about to leave the graph, that of a node; or its tensor is given another one."""

    def optimizing(self, optimizer: Any, stepped: bool) -> None:
        """Note that an optimiser was made, or has made a step."""

    def updated(self, parameter: Any, before: Any, gradient: Any, after: Any, start: float, end: float) -> None:
        """Note that a step of an optimiser gave a parameter the array `after`, between two times."""

    def ran(self, trace: Any) -> None:
        """Note that a compiled program ran: a `wengert.execute.native.run.timeline.NativeTrace` of its plan's steps."""

    def enter(self, node: Any) -> Any:
        """Note that a node of a graph is about to be run; return a value for `leave`."""
        outer, self.node = self.node, node
        return outer

    def leave(self, outer: Any) -> None:
        """Note that the node was run, or has failed."""
        self.node = outer


class _Nested(Observer):
    """An observer inside the block of another: what happens is told to both, the inner one first."""

    __slots__ = ("inner", "outer")

    def __init__(self, inner: Observer, outer: Observer) -> None:
        super().__init__()
        self.inner, self.outer = inner, outer

    def _listening(self) -> Iterator[Observer]:
        if not self.inner.quiet:
            yield self.inner
        if not self.outer.quiet:
            yield self.outer

    @property
    def inlines(self) -> bool:  # type: ignore[override]
        """Return whether one of them is interested in operations."""
        return any(seen.inlines for seen in self._listening())

    def step(
        self, op: Any, inputs: Sequence[Any], out: Any, run: Callable[..., Any], attrs: Mapping[str, Any],
        start: float, node: Any = None,
    ) -> None:  # fmt: skip
        for seen in self._listening():
            seen.step(op, inputs, out, run, attrs, start, node)

    def made(self, node: Any) -> None:
        for seen in self._listening():
            seen.made(node)

    def pulled(self, node: Any, ct: Any, saved: Any, own: dict[Any, Any], recording: bool, start: float) -> None:
        for seen in self._listening():
            seen.pulled(node, ct, saved, own, recording, start)

    def pass_begins(self, roots: Sequence[tuple[Any, Any]]) -> None:
        for seen in self._listening():
            seen.pass_begins(roots)

    def pass_ends(self, found: Mapping[Any, Any] | None) -> None:
        for seen in self._listening():
            seen.pass_ends(found)

    def leak(self, what: str, value: Any, node: Any) -> None:
        for seen in self._listening():
            seen.leak(what, value, node)

    def optimizing(self, optimizer: Any, stepped: bool) -> None:
        for seen in self._listening():
            seen.optimizing(optimizer, stepped)

    def updated(self, parameter: Any, before: Any, gradient: Any, after: Any, start: float, end: float) -> None:
        for seen in self._listening():
            seen.updated(parameter, before, gradient, after, start, end)

    def ran(self, trace: Any) -> None:
        for seen in self._listening():
            seen.ran(trace)

    def enter(self, node: Any) -> Any:
        return self.inner.enter(node), self.outer.enter(node)

    def leave(self, outer: Any) -> None:
        for seen, before in zip((self.inner, self.outer), outer, strict=True):
            seen.leave(before)


# The threads that observe, an entry for each block.
observers: list[int] = []
# The reasons why front doors go by their general paths: the entries of `observers`, and one for each mode that casts.
detours: list[int] = []

# The mark of an exception that an observer has raised.
_BLAME = "__wengert_observer__"
_observer: ContextVar[Observer | None] = ContextVar("wengert_observer", default=None)
_lock = locks.lock()
# The function that gives every thread its observer, and the thread that has set it.
_everyone: Callable[[], Observer] | None = None
_holder: int | None = None


def observer() -> Observer | None:
    """Return who observes this thread now, or None."""
    seen = _observer.get()
    if seen is not None and not seen.quiet:
        return seen
    if _everyone is not None and (seen is None or seen.quiet >= OVER):
        # A thread that began meanwhile, or has its observer from an earlier time.
        seen = _everyone()
        _observer.set(seen)
        return None if seen.quiet else seen
    return None


@contextmanager
def observing(seen: Observer, alone: bool = False) -> Iterator[None]:
    """Tell an observer what this thread does inside the block.

    Blocks nest, and an observer outside of the block is told too; but not with `alone`, for what is no part of
    the program that is observed outside.
    """
    outer = _observer.get()
    with _entered():
        token = _observer.set(seen if alone or outer is None or outer.quiet >= OVER else _Nested(seen, outer))
        try:
            yield
        finally:
            _observer.reset(token)


@contextmanager
def observing_all(join: Callable[[], Observer]) -> Iterator[None]:
    """Have every thread of the program observed inside the block.

    `join` gives a thread that runs something its observer, which has `OVER` in `quiet` when its time is over.
    Raises GraphError inside of another such block, and while another thread is in one.
    """
    global _everyone, _holder
    with _lock:
        if _everyone is not None or _holder not in (None, threading.get_ident()):
            fail(GraphError, "a recording inside of another", "One program is recorded at a time.")
        before, _holder, _everyone = _holder, threading.get_ident(), join
    with _entered():
        token = _observer.set(join())
        try:
            yield
        finally:
            _observer.reset(token)
            with _lock:
                _everyone, _holder = None, before


def blame_observer(e: BaseException) -> None:
    """Mark an exception as an observer's, for `raise_of_observer`."""
    e.__dict__[_BLAME] = True


def raise_of_observer(e: BaseException | None) -> None:
    """Raise an exception again that is an observer's: an operation is not to be tried another way because of it."""
    if e is not None and _BLAME in e.__dict__:
        raise e


def is_observed() -> bool:
    """Return whether every thread of the program is observed."""
    return _holder is not None


@contextmanager
def aside() -> Iterator[None]:
    """Keep what this thread, and those that begin, do inside the block from whoever observes them all.

    What is explored by a program that is itself recorded is looked at apart from it.
    """
    global _everyone
    everyone, holds = _everyone, _holder == threading.get_ident()
    seen: Observer | None = None
    if holds:
        _everyone = None
    elif (seen := _observer.get()) is None or seen.quiet >= OVER:
        # Another thread may begin to observe all of them meanwhile.
        seen = Observer()
        seen.quiet = 1
    token = _observer.set(seen)
    try:
        yield
    finally:
        _observer.reset(token)
        if holds:
            _everyone = everyone


@contextmanager
def _entered() -> Iterator[None]:
    with _lock:
        observers.append(threading.get_ident())
        detours.append(threading.get_ident())
    try:
        yield
    finally:
        with _lock:
            observers.remove(threading.get_ident())
            detours.remove(threading.get_ident())


def _end_others() -> None:
    """In a child process, end the blocks of the threads that it does not have."""
    global _everyone, _holder
    me = threading.get_ident()
    if _holder not in (None, me):
        _everyone = _holder = None
    observers[:] = [thread for thread in observers if thread == me]
    detours[:] = [thread for thread in detours if thread in (me, CASTING)]


locks.in_child(_end_others)
