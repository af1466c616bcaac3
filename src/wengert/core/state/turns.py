"""Turns: exclusive access of a running program to the state that it reads and writes.

Two compiled programs that write to one place would lose one of the two updates, and two that draw from one generator
would draw the same numbers. So each place belongs to a `Turn`, and a program holds the turns of all that it writes to
from its first look at them until its results stand there. Programs that write to nothing in common hold different
turns, and do not wait for each other; programs that write to nothing hold none.

Turns are held one after the other, in the order in which they were made. Who holds some may run code of users' that
asks for more (a callback); where two threads would thus wait for each other for ever, one of them is told so.

**Native code.** The compiled entry holds turns without taking locks: it has the interpreter's lock when it begins,
and notes its thread in the second word of the turn. Where it keeps that lock until it is done, nobody else has seen the
state meanwhile, and it looks only whether the turn is free. Python notes its thread in the first word, after which no
native call begins, and then waits for one in progress.
"""

from __future__ import annotations

import itertools
import math
import time
import weakref
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from typing import TypeVar

from ..errors import GraphError, fail
from . import locks
from .at_once import at_once, later
from .capture import get_capture

T = TypeVar("T")

# The words of a turn: the threads that hold it, 0 for none.
BY_PYTHON, BY_NATIVE = 0, 1
# The wait between two looks at a native call in progress, at first and at most.
_FIRST_WAIT, _LONGEST_WAIT = 20e-6, 1e-3
# How long a fork waits for programs in progress: a child gets no array that is half written, unless one of them waits
# for the very thread that forks.
_FORK_WAIT = 60.0

_numbers = itertools.count()
_registry = locks.lock()
# The turn that a place belongs to, as long as there is a program that writes there.
_places: weakref.WeakValueDictionary[Hashable, Turn] = weakref.WeakValueDictionary()
_all: weakref.WeakSet[Turn] = weakref.WeakSet()
# The threads that hold turns, with how many, and those that wait for one.
_holding: dict[int, int] = {}
_waiting: dict[int, Turn] = {}
# The threads of which one runs at a time, with what they belong to: simulated ranks.
_alternating: dict[int, object] = {}


class Turn:
    """The right to read and write some state; `lock` and `words` are for :func:`holding` and the compiled entry."""

    __slots__ = ("lock", "words", "number", "is_written_in_place", "__weakref__")

    def __init__(self, is_written_in_place: bool = True) -> None:
        self.lock = locks.lock()
        self.words = array("q", (0, 0))
        self.number = next(_numbers)
        # True where a fork in the midst of a program could find arrays half written.
        self.is_written_in_place = is_written_in_place
        _all.add(self)

    @property
    def address(self) -> int:
        """The address of the words in memory."""
        return self.words.buffer_info()[0]


def turns_of(places: Iterable[tuple[Hashable, Turn | None]]) -> tuple[Turn, ...]:
    """Return the turns of places, each given by its identity and, where it has one, a turn of its own.

    They are the places' as long as somebody refers to them.
    """
    found: dict[int, Turn] = {}
    with _registry:
        new: Turn | None = None
        for place, turn in places:
            turn = turn if turn is not None else _places.get(place)
            if turn is None:
                turn = new = new if new is not None else Turn()
                _places[place] = turn
            found[turn.number] = turn
    return tuple(found[n] for n in sorted(found))


def holding(turns: Sequence[Turn], run: Callable[[], T]) -> T:
    """Return `run()`, called while this thread holds the turns.

    Raises GraphError where it holds one of them already, for a program that is not done, and where it would wait for
    a thread that waits for it, or for its trace.
    """
    if not turns:
        return run()
    turn, me = turns[0], get_ident()
    if is_held_here(turn):
        fail(
            GraphError,
            "a compiled function writes to state in the midst of another one that writes to the same state",
            "One of the two updates would be lost. Call it before or after the other, not from a callback inside it.",
        )
    if get_capture() is not None:
        return _at_once(turn, turns[1:], run)
    if me in _alternating:
        _refuse_shared(me, turn)
    outer = _holding.get(me, 0)
    if outer:
        _announce(me, turn)
    try:
        with turn.lock:
            _waiting.pop(me, None)
            return _held(turn, turns[1:], run)
    finally:
        _waiting.pop(me, None)


def _held(turn: Turn, others: Sequence[Turn], run: Callable[[], T]) -> T:
    """Return `run()` under the turns, with the lock of the first of them."""
    me = get_ident()
    outer = _holding.get(me, 0)
    try:
        _holding[me], turn.words[BY_PYTHON] = outer + 1, me
        wait_for_native(turn)
        return holding(others, run)
    finally:  # stores alone: nothing comes between them
        _holding[me], turn.words[BY_PYTHON] = outer, 0


def _at_once(turn: Turn, others: Sequence[Turn], run: Callable[[], T]) -> T:
    """Return `run()` under the turns in a trace, for which other threads' programs wait: it does not wait for them."""
    got: list[bool] = []
    try:
        at_once(zip((got.append,), later(partial(turn.lock.acquire, False))))()
        if not got[0] or turn.words[BY_NATIVE] not in (0, get_ident()):
            fail(
                GraphError,
                "a function is traced that uses state which another thread's compiled function is at work with",
                "Tracing did not find the state beforehand. Pass it as an argument, or let the function name it.",
            )
        return _held(turn, others, run)
    finally:
        if got == [True]:
            turn.lock.release()


@contextmanager
def alternating(group: object) -> Iterator[None]:
    """Say that this thread runs while no other of its group does: what one of these holds none can wait for."""
    me = get_ident()
    _alternating[me] = group
    try:
        yield
    finally:
        del _alternating[me]


@contextmanager
def lent(turn: Turn) -> Iterator[None]:
    """Let others of this thread's group hold a turn that it holds, while it waits for them.

    For state that each of them has for itself, and that is put into the place when it goes on.
    """
    me = get_ident()
    by_python, by_native = (turn.words[word] == me for word in (BY_PYTHON, BY_NATIVE))
    if by_native:
        turn.words[BY_NATIVE] = 0
    if by_python:
        turn.words[BY_PYTHON] = 0
        turn.lock.release()
    try:
        yield
    finally:
        if by_python:
            turn.lock.acquire()
            turn.words[BY_PYTHON] = me
        if by_native:
            turn.words[BY_NATIVE] = me


def _refuse_shared(me: int, turn: Turn) -> None:
    """Raise GraphError where a thread that waits for this one holds a turn."""
    for holder in turn.words:
        if holder != me and _alternating.get(holder) is _alternating[me]:
            fail(
                GraphError,
                "a compiled function writes to state which another simulated rank is at work with, and waits",
                "Processes each have their own: make model and optimiser in the function that ranks run. Outside of "
                "wg.distribute.simulate a step on a mesh runs all ranks by itself.",
            )


def is_held_here(turn: Turn) -> bool:
    """Return whether a program in progress in this thread holds a turn."""
    words = turn.words
    return bool(words[BY_PYTHON] or words[BY_NATIVE]) and get_ident() in words


def wait_for_native(turn: Turn, end: float = math.inf) -> None:
    """Wait until no other thread's native call holds a turn, which Python's word already reserves for this thread."""
    wait = _FIRST_WAIT
    while turn.words[BY_NATIVE] not in (0, get_ident()) and time.monotonic() < end:
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)


def _announce(me: int, turn: Turn) -> None:
    """Note that a thread that holds turns waits for another one. Raises GraphError for a deadlock."""
    with _registry:
        _waiting[me] = turn
        wanted: Turn | None = turn
        for _ in range(len(_waiting) + 1):
            holder = wanted.words[BY_PYTHON] if wanted is not None else 0
            if holder == me:
                del _waiting[me]
                fail(
                    GraphError,
                    "two threads are inside of compiled functions that write to state, and each waits for the other's",
                    "A callback calls a compiled function that writes to state: call it outside of the other one.",
                )
            wanted = _waiting.get(holder)


# -- processes that fork

# The turns that a fork in progress holds, with who held them before.
_stopped: list[tuple[Turn, int]] = []


def _stop() -> None:
    """Let programs that write into arrays end, and none begin, before a fork."""
    end = time.monotonic() + _FORK_WAIT
    for turn in sorted((t for t in _all if t.is_written_in_place), key=lambda t: t.number):
        if turn.lock.acquire(timeout=max(0.0, end - time.monotonic())):
            _stopped.append((turn, turn.words[BY_PYTHON]))
            turn.words[BY_PYTHON] = get_ident()
            wait_for_native(turn, end)


def _go_on() -> None:
    while _stopped:
        turn, holder = _stopped.pop()
        turn.words[BY_PYTHON] = holder
        turn.lock.release()


def _forget_others() -> None:
    """Clear the turns of all other threads in a child process, where none of them runs."""
    me = get_ident()
    for turn in list(_all):
        for word in (BY_PYTHON, BY_NATIVE):
            if turn.words[word] != me:
                turn.words[word] = 0
    for threads in (_holding, _waiting, _alternating):
        for thread in [t for t in threads if t != me]:
            del threads[thread]


locks.before_fork(_stop)
locks.after_fork(_go_on)
locks.in_child(_forget_others)
