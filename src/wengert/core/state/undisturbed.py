"""Uninterrupted work: handlers of signals are called when it is over.

Where results can be put in place by one call (:mod:`wengert.core.state.at_once`) that is the better way. This is for
what Python does in many steps, writing into memory that nobody wants to have twice.
"""

from __future__ import annotations

import importlib
import signal
from collections.abc import Callable
from threading import get_ident, main_thread
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

# Signals that people and programs send to a process to have it do something else.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
_SIGNALS = tuple(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name))
# The functions written in C: those of `signal` make enumerations of numbers, which takes twenty times as long.
_in_c: Any = importlib.import_module("_signal")


def undisturbed(run: Callable[[], T]) -> T:
    """Return `run()`; handlers of signals that arrive meanwhile are called when it is done, and may raise.

    Handlers run in the main thread alone: in others this is a plain call.
    """
    if get_ident() != main_thread().ident:
        return run()
    # Signals without a handler in Python have a number, or None.
    found = zip(_SIGNALS, map(_in_c.getsignal, _SIGNALS))
    handlers: list[tuple[int, Any]] = [pair for pair in found if type(pair[1]) is not int and pair[1] is not None]
    if not handlers:
        return run()
    arrived: list[tuple[Callable[..., Any], int, FrameType | None]] = []

    def hold_back(number: int, frame: FrameType | None) -> None:
        arrived.append((known[number], number, frame))

    known = dict(handlers)
    try:
        for number, _ in handlers:
            _in_c.signal(number, hold_back)
        return run()
    finally:
        try:
            _put_back(handlers)
        finally:
            while arrived:
                handler, number, frame = arrived.pop(0)
                handler(number, frame)


def _put_back(handlers: list[tuple[int, Any]]) -> None:
    # One that is put back may be called there and then, and raise: the others are put back all the same.
    if handlers:
        try:
            _in_c.signal(*handlers[0])
        finally:
            _put_back(handlers[1:])
