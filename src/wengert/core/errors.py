"""Errors that users meet: what is wrong and where in their code first, then how to mend it."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import pickle
import sys
import threading
import traceback
import warnings
from functools import cache
from types import FrameType, TracebackType
from typing import Any, NoReturn

import numpy as np

_NAME = __name__.partition(".")[0]
PACKAGE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Code that is compiled from an op's declaration carries this prefix instead of a file of its own.
GENERATED = "<wengert "
# The command line, whose caller is a script that pip wrote, and no user's code.
COMMAND = os.path.join(PACKAGE_DIR, "cli", "__init__.py")
# Modules that are part of the interpreter, such as the one that runs `python -m wengert`: they are nobody's.
FROZEN = "<frozen "
# Folders of the standard library and of installed packages.
LIBRARY = os.path.dirname(os.__file__) + os.sep
# What stands between a user's code and Wengert's and is neither: decorators, cached properties, copies and pickles,
# NumPy's functions, and libraries that call Wengert (see `stands_between`).
_between: tuple[str, ...] = (
    contextlib.__file__,
    copy.__file__,
    functools.__file__,
    pickle.__file__,
    os.path.dirname(os.path.abspath(np.__file__)) + os.sep,
)
PACKAGES = ("site-packages" + os.sep, "dist-packages" + os.sep)


class WengertError(Exception):
    """The base of every error that Wengert raises on purpose.

    Its `place` is the one that ends its first line, "" where no line of a user led to it; `module` is the path of the
    innermost module that it came from, None outside of all.

    >>> import wengert as wg
    >>> try:
    ...     wg.matmul(wg.ones((2, 3)), wg.ones((2, 3)))
    ... except wg.WengertError as e:
    ...     print(type(e).__name__, isinstance(e, ValueError))
    ShapeError True
    """

    # True where a value is not in the host's memory as what it was taken for.
    is_elsewhere = False
    # True for what a call of a compiled function lacks that a call without compiling makes.
    is_of_first_call = False
    place: str | None = None
    module: str | None = None


class ShapeError(WengertError, ValueError):
    """An error for shapes that do not fit an operation, an axis that does not exist, a ragged nested list."""


class DTypeError(WengertError, TypeError):
    """An error for a dtype or a Python type that an operation does not take."""


class RangeError(WengertError, IndexError, ValueError):
    """An error for an index outside a tensor, a class outside a table, or an option outside its range."""


class GradientError(WengertError, RuntimeError):
    """An error for a derivative that was asked for and cannot be given."""


class WriteError(WengertError, RuntimeError):
    """An error for a write that would be lost: to a value taken from a tensor, which would stay as it is."""


class GraphError(WengertError, ValueError):
    """An error for a graph that cannot be built, parsed or run as asked."""


class TraceError(WengertError):
    """An error for a value that Python code asks for, and that there is none of while a function is traced.

    It is no built-in error: a program that catches `ValueError` or `TypeError` for other reasons does not take it. One
    that takes it in spite of that gets it again at the end of the trace.

    >>> import wengert as wg
    >>> try:
    ...     wg.jit(lambda x: x[x > 0])(wg.ones(3))
    ... except wg.TraceError as e:
    ...     print(isinstance(e, ValueError))
    False
    """


class FeedError(WengertError, TypeError):
    """An error for inputs of a `wengert.function` that are missing, surplus or of the wrong shape."""


class StateError(WengertError, KeyError):
    """An error for a state dict that does not fit a module or an optimiser."""

    def __str__(self) -> str:  # KeyError would show the text quoted, with its line breaks escaped
        return str(self.args[0]) if self.args else ""


class DataError(WengertError, ValueError):
    """An error for a data file that is missing, truncated or not what it claims to be, or for how data is loaded."""


@cache
def is_internal(filename: str) -> bool:
    """Return whether a code object's file belongs to Wengert, or the interpreter, rather than to its user."""
    return filename.startswith((PACKAGE_DIR, GENERATED, FROZEN))


def is_own(frame: FrameType) -> bool:
    """Return whether a frame is Wengert's, with what `dataclasses` made for its classes, or only stands before it."""
    file = frame.f_code.co_filename
    return is_passed(file) or (file == "<string>" and str(frame.f_globals.get("__name__")).startswith(f"{_NAME}."))


@cache
def is_passed(filename: str) -> bool:
    """Return whether a code object's file is Wengert's, or holds what only stands between Wengert and its user."""
    return is_internal(filename) or filename.startswith(_between)


def stands_between(folder: str) -> None:
    """Take the code of a library, in a folder, for what only stands between Wengert and its user."""
    global _between
    if folder + os.sep not in _between:
        _between = (*_between, folder + os.sep)
        is_passed.cache_clear()


@cache
def is_library(filename: str) -> bool:
    """Return whether a code object's file belongs to the standard library or an installed package."""
    return filename.startswith(LIBRARY) or any(f"{os.sep}{name}" in filename for name in PACKAGES)


def user_frame(depth: int = 1) -> FrameType | None:
    """Return the innermost frame outside Wengert, from `depth` frames above the caller, that is a user's."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and (is_passed(frame.f_code.co_filename) or is_own(frame)):
        frame = frame.f_back
    return frame


def user_location() -> str:
    """Return `file:line` of the innermost frame outside Wengert."""
    frame = user_frame(2)
    if frame is None:
        return "<unknown>"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def error(kind: type[WengertError], what: str, mend: str = "", where: str | None = None) -> WengertError:
    """Return an error of class `kind`: `what (file:line)` on its first line, `mend` after it.

    There is no place where no user's line led here, as in a command.
    """
    if where is None:
        frame = None if _is_command(sys._getframe(1)) else user_frame()
        where = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
    _hide_own_frames(sys._getframe(1))
    text = f"{what} ({where})" if where else what
    made = kind(f"{text}\n{mend}" if mend else text)
    made.place = where
    return made


def _is_command(frame: FrameType | None) -> bool:
    """Return whether the command line led to a frame, and no code of a user in between."""
    while frame is not None and is_own(frame):
        if frame.f_code.co_filename == COMMAND:
            return True
        frame = frame.f_back
    return False


def fail(kind: type[WengertError], what: str, mend: str = "", where: str | None = None) -> NoReturn:
    """Raise :func:`error` without the chain of whatever internal error led to it."""
    raise error(kind, what, mend, where) from None


def moved(e: WengertError, where: str) -> None:
    """Let an error name another place."""
    text, place = str(e), e.place
    if place and where:
        e.args = (text.replace(f" ({place})", f" ({where})", 1),)
        e.place = where


def warn(text: str) -> None:
    """Warn of something that runs, but not as it should, at the user's line that led here."""
    frame = user_frame(2)
    if frame is None:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return
    at = frame.f_globals
    module, registry = at.get("__name__"), at.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno, module, registry)


def first_line(e: BaseException) -> str:
    """Return the statement of a Wengert error's first line, without the place that ends it."""
    text, place = str(e).partition("\n")[0], getattr(e, "place", None)
    if place is None:  # it was made again from its text
        return text.rpartition(" (")[0]
    return text.removesuffix(f" ({place})")


def raised_at(e: BaseException) -> str:
    """Return `file:line` of the user's innermost frame that an exception came through; "" where there is none.

    Code of libraries counts where there is no other.
    """
    outside = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(e.__traceback__) if not is_own(f)]
    own = [(file, line) for file, line in outside if not is_library(file)] or outside
    return "{}:{}".format(*own[-1]) if own else ""


def _without_internal_frames(tb: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while tb is not None:
        if not is_own(tb.tb_frame):
            kept.append(tb)
        tb = tb.tb_next
    out: TracebackType | None = None
    for entry in reversed(kept):
        out = TracebackType(out, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return out


def trimmed(error: BaseException) -> BaseException:
    """Return an exception without Wengert's own frames in its traceback; an exception of others as it is."""
    if isinstance(error, WengertError):
        error.__traceback__ = _without_internal_frames(error.__traceback__) or error.__traceback__
    return error


def short_tracebacks() -> None:
    """Leave Wengert's own frames out of the tracebacks that Python prints for Wengert's own errors.

    It puts itself before `sys.excepthook` and `threading.excepthook`, which go on to do what they did; any other
    exception passes as it is. A second call changes nothing.
    """
    if getattr(sys.excepthook, "trims", False):
        return
    previous, in_threads = sys.excepthook, threading.excepthook

    def hook(kind: type[BaseException], value: BaseException, tb: TracebackType | None) -> Any:
        return previous(kind, value, trimmed(value).__traceback__ if isinstance(value, WengertError) else tb)

    def thread_hook(args: Any) -> Any:
        if args.exc_value is None:
            return in_threads(args)
        tb = trimmed(args.exc_value).__traceback__
        return in_threads(threading.ExceptHookArgs((args.exc_type, args.exc_value, tb, args.thread)))

    hook.trims = True  # type: ignore[attr-defined]
    sys.excepthook, threading.excepthook = hook, thread_hook


def _hide_own_frames(frame: FrameType | None) -> None:
    """Mark Wengert's frames from `frame` outwards for those who show tracebacks: IPython and pytest leave them out."""
    if os.environ.get("WENGERT_TRACEBACK") == "full":
        return
    while frame is not None:
        if is_own(frame):
            frame.f_locals["__tracebackhide__"] = True
        frame = frame.f_back


def install_warning_filter() -> None:
    """Suppress NumPy's floating-point warnings from Wengert's own arithmetic.

    log(0) and 1/0 are values here, not events. The filter names Wengert's modules only: NumPy code
    of the user warns as before. Where something makes warnings errors on top of it (pytest does),
    the operation is run again without NumPy's check (see `core/ops/record.py`).
    """
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"wengert\.")
