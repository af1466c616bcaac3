"""The cache on disk: object code of kernels, and plans, for later processes.

A kernel is a file, `<folder>/code/<edition>/<name>.obj`. The name stands for the kernel's structure
and the processor; the edition for everything else that decides the code: the sources of the generators and of
ops, whose formulas they take, the versions of llvmlite and LLVM. A plan is a file `<name>.plan` in the folder of
another edition: on the sources of passes a plan depends too, and on the NumPy that folds constants. So nothing is
ever out of date, and what no version uses any more is the first to go when there is too much.

A file is written under another name and then renamed, so nobody sees half of one. It begins with
a digest of its name and contents: what is damaged, cut short or something else is not loaded, and
made anew. Code is only taken from files that belong to this user and that nobody else may write to, in folders of
which the same is true (:mod:`.private_folder`). A cache that cannot be read or written is as good as an empty one: this
module raises nothing. One that others could write to is not used; a warning says so, once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
import warnings
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from ....core.errors import user_frame
from ....core.state import locks
from ....version import __version__
from .machine import llvm
from .private_folder import Folder, NotPrivate, open_folder
from .private_folder import entries as files_in
from .types import Target


class Kind(NamedTuple):
    """A kind of file: the suffix of its names, and the beginning of its contents."""

    suffix: str
    magic: bytes


CODE = Kind(".obj", b"wengert object 1\n")
PLAN = Kind(".plan", b"wengert plan 1\n")
DEFAULT_SIZE = 512 << 20
# The cache is looked over once a day, and when a process wrote that much; then the oldest goes, until
# it is below its size by a quarter.
DAY = 24 * 3600.0
LOOK_OVER_AFTER = 64 << 20
# A file begins with what it is and a digest.
_HEAD = 64
# A file that no process renamed for so long is left over from one that was stopped.
ABANDONED_AFTER = 3600.0

_written = 0
_counting = locks.lock()


def is_on() -> bool:
    """Return whether compiled code is kept: not where `WENGERT_CACHE` is 0."""
    return os.environ.get("WENGERT_CACHE", "1") != "0"


def folder() -> str:
    """Return the folder of compiled code: `WENGERT_CACHE_DIR`, else the platform's folder for caches."""
    chosen = os.environ.get("WENGERT_CACHE_DIR")
    if chosen:
        return chosen
    if sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "wengert")


def size_limit() -> int:
    """Return the bytes that the cache may have: `WENGERT_CACHE_SIZE` in megabytes, 512 unless set."""
    text = os.environ.get("WENGERT_CACHE_SIZE", "")
    try:
        return max(0, int(float(text) * (1 << 20)))
    except (ValueError, OverflowError):
        return DEFAULT_SIZE


def digest_of_sources(*places: str) -> bytes:
    """Return a digest of the Python files in and under folders; constant where there are none, as in an archive."""
    digest = hashlib.sha256()
    for place in places:
        for folder, inner, names in os.walk(place):
            inner.sort()
            for name in sorted(n for n in names if n.endswith(".py")):
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    digest.update(f"\n{os.path.relpath(path, place)}\n".encode())
                    digest.update(file.read())
    return digest.digest()


def load(name: str, target: Target) -> bytes | None:
    """Return the code kept for a kernel; None if there is none, or none to be trusted. The name includes the target."""
    return _load(name, CODE)


def keep(name: str, target: Target, code: bytes) -> None:
    """Keep a kernel's code."""
    _keep(name, CODE, code)


def load_plan(name: str) -> bytes | None:
    """Return the plan kept under a name; None if there is none, or none to be trusted."""
    return _load(name, PLAN)


def keep_plan(name: str, plan: bytes) -> None:
    """Keep a plan."""
    _keep(name, PLAN, plan)


def _load(name: str, kind: Kind) -> bytes | None:
    if not is_on():
        return None
    file = name + kind.suffix
    try:
        contents, status = _folder_of(kind).read(file, size_limit() + _HEAD)
        # The day of a file's last use decides which files go.
        if status.st_mtime < time.time() - DAY:
            with contextlib.suppress(OSError):
                _folder_of(kind).touch(file, create=False)
    except OSError as e:
        _warn_of(e)
        return None
    found = contents[len(kind.magic) + 32 :]
    return found if contents.startswith(_head(name, kind, found)) else None


def _keep(name: str, kind: Kind, contents: bytes) -> None:
    if not is_on() or len(contents) > size_limit():
        return
    whole = _head(name, kind, contents) + contents
    try:
        try:
            _folder_of(kind, create=True).write(name + kind.suffix, whole)
        except FileNotFoundError:  # somebody has just cleared the cache
            _folder_of(kind, create=True).write(name + kind.suffix, whole)
        _look_over_at_times(len(contents))
    except OSError as e:
        _warn_of(e)


# -- folders

# The folders that are open, by their paths: that of all editions, and those of this one.
_open: dict[str, Folder] = {}


def _folder_of(kind: Kind, create: bool = False) -> Folder:
    """Open the folder that files of a kind are in. Raises OSError."""
    path = os.path.dirname(_path("", kind))
    found = _open.get(path)
    if found is None or not found.is_there():
        found = _open[path] = _codes(create).inner(os.path.basename(path), create)
    return found


def _codes(create: bool = False) -> Folder:
    """Open the folder of all editions. Raises OSError."""
    path = os.path.join(folder(), "code")
    found = _open.get(path)
    if found is None or not found.is_there():
        with open_folder(folder(), create) as own:
            found = _open[path] = own.inner("code", create)
    return found


def place() -> tuple[str, str]:
    """Return the folder that is used (it may be one below `folder`), and why none is, "" where one is."""
    try:
        with open_folder(folder()) as own:
            readable = not hasattr(os, "geteuid") or os.access(own.path, os.R_OK | os.W_OK | os.X_OK)
            return own.path, "" if readable else "it cannot be read and written"
    except FileNotFoundError:
        return folder(), ""
    except OSError as e:
        return folder(), str(e)


_warned: set[str] = set()


def _warn_of(error: OSError) -> None:
    """Warn, once for each folder, that it is not used because others may write to it; ignore other errors."""
    if not isinstance(error, NotPrivate) or folder() in _warned:
        return
    _warned.add(folder())
    frame = user_frame()
    text = f"compiled code is not kept in {folder()}: {error}\nSet WENGERT_CACHE_DIR to a folder of your own."
    # Where warnings are errors, this is none of the program's.
    with contextlib.suppress(UserWarning):
        if frame is None:
            warnings.warn(text, UserWarning, stacklevel=2)
        else:
            warnings.warn_explicit(text, UserWarning, frame.f_code.co_filename, frame.f_lineno)


def _path(name: str, kind: Kind = CODE) -> str:
    now = edition() if kind is CODE else plan_edition()
    return os.path.join(folder(), "code", now, name + kind.suffix if name else "")


def _head(name: str, kind: Kind, contents: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\n")
    digest.update(contents)
    return kind.magic + digest.digest()


# Read when this is loaded, beside the generators: later there might be other files, of another version.
_here = os.path.dirname(os.path.dirname(__file__))
_package = os.path.dirname(os.path.dirname(_here))
# Formulas of special functions are written once, in `ops`, for NumPy and for native code.
GENERATORS = (_here, os.path.join(_package, "ops"))
_sources = digest_of_sources(*GENERATORS)
# The packages that `execute` may import: no plan depends on anything else.
_plan_sources = digest_of_sources(*(os.path.join(_package, part) for part in ("core", "transforms", "passes")))


@cache
def edition() -> str:
    """Return a digest of all that decides code besides what a kernel's name stands for."""
    return hashlib.sha256(_versions().encode() + _sources).hexdigest()[:16]


@cache
def plan_edition() -> str:
    """Return a digest of all that decides a plan besides what its name stands for."""
    extension = sys.modules.get("ml_dtypes")
    versions = f"{_versions()} {sys.version} {np.__version__} {getattr(extension, '__version__', '')}"
    return hashlib.sha256(versions.encode() + _sources + _plan_sources).hexdigest()[:16]


def _versions() -> str:
    binding = llvm()
    return f"{__version__} {sys.modules['llvmlite'].__version__} {binding.llvm_version_info}"


class Entry(NamedTuple):
    """A file of the cache."""

    path: str
    nbytes: int
    used: float

    @property
    def is_plan(self) -> bool:
        return self.path.endswith(PLAN.suffix)


def entries() -> list[Entry]:
    """Return the files of the cache, whatever version wrote them."""
    with contextlib.ExitStack() as opened:
        return [entry for entry, _ in _files(opened) if not _is_unfinished(entry)]


def clear() -> list[Entry]:
    """Delete the cache's files, and nothing else; return those that were deleted."""
    with contextlib.ExitStack() as opened:
        gone = [entry for entry, place in _files(opened) if _delete(entry, place) and not _is_unfinished(entry)]
    with contextlib.suppress(OSError):
        codes = _codes()
        codes.remove(MARK)
        for name in codes.names():
            with contextlib.suppress(OSError):  # what else is in it is not the cache's
                codes.remove_folder(name)
    with contextlib.suppress(OSError), open_folder(folder()) as own:
        own.remove_folder("code")
    return gone


def look_over() -> None:
    """Delete the files that were not used for longest, where there is too much, and files left unfinished."""
    with contextlib.ExitStack() as opened:
        there = []
        for entry, place in _files(opened):
            if not _is_unfinished(entry):
                there.append((entry, place))
            elif entry.used < time.time() - ABANDONED_AFTER:
                _delete(entry, place)
        total, limit = sum(entry.nbytes for entry, _ in there), size_limit()
        if total <= limit:
            return
        for entry, place in sorted(there, key=lambda found: found[0].used):
            if total <= limit * 3 // 4:
                break
            if _delete(entry, place):
                total -= entry.nbytes


# The file whose time says when the cache was last looked over.
MARK = "looked-over"


def _look_over_at_times(nbytes: int) -> None:
    global _written
    with _counting:
        _written += nbytes
        due = _written >= min(LOOK_OVER_AFTER, size_limit() // 4)
        if due:
            _written = 0
    codes = _codes()
    try:
        due |= codes.status(MARK).st_mtime < time.time() - DAY
        if due:
            codes.touch(MARK)
    except FileNotFoundError:
        codes.touch(MARK)
    if due:
        look_over()


def _files(opened: contextlib.ExitStack) -> Iterator[tuple[Entry, Folder]]:
    """Yield the files of all editions, unfinished ones too, each with its folder, which `opened` closes."""
    with contextlib.suppress(OSError):
        codes = _codes()
        for edition in codes.names():
            with contextlib.suppress(OSError):
                place = opened.enter_context(codes.inner(edition))
                for name, status in files_in(place):
                    if CODE.suffix in name or PLAN.suffix in name:
                        yield Entry(os.path.join(place.path, name), status.st_size, status.st_mtime), place


def _is_unfinished(entry: Entry) -> bool:
    return os.path.basename(entry.path).startswith(".")


def _delete(entry: Entry, place: Folder) -> bool:
    return place.remove(os.path.basename(entry.path))
