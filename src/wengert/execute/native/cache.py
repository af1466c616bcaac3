"""The cache on disk: object code of kernels, and plans, for the processes to come.

A kernel is a file, `<folder>/code/<edition>/<name>.obj`. The name stands for the kernel's structure
and the processor; the edition for everything else that decides the code: the generators' sources,
the versions of llvmlite and LLVM. A plan is a file `<name>.plan` in the folder of another edition: on
the sources of ops and passes a plan depends too, and on the NumPy that folds constants. So nothing is
ever out of date, and what no version uses any more is the first to go when there is too much.

A file is written under another name and then renamed, so nobody sees half of one. It begins with
a digest of its name and contents: what is damaged, cut short or something else is not loaded, and
made anew. Code is only taken from files that belong to this user and that nobody else may write to.
A cache that cannot be read or written is as good as an empty one: this module raises nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from ...core import locks
from ...version import __version__
from .machine import llvm
from .types import Target


class Kind(NamedTuple):
    """A kind of file: how names end, and how contents begin."""

    suffix: str
    magic: bytes


CODE = Kind(".obj", b"wengert object 1\n")
PLAN = Kind(".plan", b"wengert plan 1\n")
DEFAULT_SIZE = 512 << 20
# The cache is looked over once a day, and when a process wrote that much; then the oldest goes, until
# it is below its size by a quarter.
DAY = 24 * 3600.0
LOOK_OVER_AFTER = 64 << 20
# A file that no process renamed for so long is left over from one that was stopped.
ABANDONED_AFTER = 3600.0

_numbers = itertools.count()
_written = 0
_counting = locks.lock()


def is_on() -> bool:
    """Whether compiled code is kept: not where `WENGERT_CACHE` is 0."""
    return os.environ.get("WENGERT_CACHE", "1") != "0"


def folder() -> str:
    """Where compiled code is kept: `WENGERT_CACHE_DIR`, else the platform's folder for caches."""
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
    """The bytes that the cache may have: `WENGERT_CACHE_SIZE` in megabytes, 512 unless set."""
    text = os.environ.get("WENGERT_CACHE_SIZE", "")
    try:
        return max(0, int(float(text) * (1 << 20)))
    except (ValueError, OverflowError):
        return DEFAULT_SIZE


def digest_of_sources(*places: str) -> bytes:
    """A digest of the Python files in folders; the same for all where there are none to read, as in an archive."""
    digest = hashlib.sha256()
    for place in places:
        with contextlib.suppress(OSError):
            for source in sorted(os.scandir(place), key=lambda entry: entry.name):
                if source.name.endswith(".py"):
                    digest.update(f"\n{source.name}\n".encode())
                    digest.update(_contents(source.path)[0])
    return digest.digest()


def load(name: str, target: Target) -> bytes | None:
    """The code kept for a kernel; None if there is none, or none to be trusted. The name says the target."""
    return _load(name, CODE)


def keep(name: str, target: Target, code: bytes) -> None:
    """Keep a kernel's code."""
    _keep(name, CODE, code)


def load_plan(name: str) -> bytes | None:
    """The plan kept under a name; None if there is none, or none to be trusted."""
    return _load(name, PLAN)


def keep_plan(name: str, plan: bytes) -> None:
    """Keep a plan."""
    _keep(name, PLAN, plan)


def _load(name: str, kind: Kind) -> bytes | None:
    if not is_on():
        return None
    try:
        path = _path(name, kind)
        contents, status = _contents(path)
        # When it was last used, to the day, is what decides who goes.
        if status.st_mtime < time.time() - DAY:
            with contextlib.suppress(OSError):
                os.utime(path)
    except OSError:
        return None
    found = contents[len(kind.magic) + 32 :]
    return found if _is_ours(status) and contents.startswith(_head(name, kind, found)) else None


def _keep(name: str, kind: Kind, contents: bytes) -> None:
    if not is_on() or len(contents) > size_limit():
        return
    try:
        path = _path(name, kind)
        whole = _head(name, kind, contents) + contents
        try:
            _write(path, whole)
        except FileNotFoundError:  # there is no folder yet, or somebody has just cleared the cache
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            _write(path, whole)
        _look_over_at_times(len(contents))
    except OSError:
        pass


def _path(name: str, kind: Kind = CODE) -> str:
    now = edition() if kind is CODE else plan_edition()
    return os.path.join(folder(), "code", now, name + kind.suffix)


def _contents(path: str) -> tuple[bytes, os.stat_result]:
    """A file's contents and status."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        status, parts = os.fstat(file), []
        while part := os.read(file, max(1, status.st_size)):
            parts.append(part)
        return b"".join(parts), status
    finally:
        os.close(file)


def _head(name: str, kind: Kind, contents: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\n")
    digest.update(contents)
    return kind.magic + digest.digest()


def _is_ours(status: os.stat_result) -> bool:
    """Whether only this user can have written a file."""
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _write(path: str, contents: bytes) -> None:
    """Write a file that is there whole or not at all."""
    place, name = os.path.split(path)
    unfinished = os.path.join(place, f".{name}.{os.getpid()}.{next(_numbers)}")
    try:
        with open(unfinished, "xb", opener=_private) as file:
            file.write(contents)
        os.replace(unfinished, path)
    except BaseException:
        _delete(unfinished)
        raise


def _private(path: str, flags: int) -> int:
    """Open a file that is nobody else's."""
    return os.open(path, flags, 0o600)


# Read when this is loaded, beside the generators: later there might be other files, of another version.
_here = os.path.dirname(__file__)
_sources = digest_of_sources(_here)
_package = os.path.dirname(os.path.dirname(_here))
# What `execute` may import: no plan hangs on anything else.
_plan_sources = digest_of_sources(*(os.path.join(_package, part) for part in ("core", "ops", "transforms", "passes")))


@cache
def edition() -> str:
    """A digest of all that decides code besides what a kernel's name stands for."""
    return hashlib.sha256(_versions().encode() + _sources).hexdigest()[:16]


@cache
def plan_edition() -> str:
    """A digest of all that decides a plan besides what its name stands for."""
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
    """The files there are, whatever version wrote them."""
    return [entry for entry in _files() if not _is_unfinished(entry)]


def clear() -> list[Entry]:
    """Delete the cache's files, and nothing else; those that were there."""
    gone = [entry for entry in _files() if _delete(entry.path) and not _is_unfinished(entry)]
    _delete(_mark())
    for place in (*_editions(), os.path.join(folder(), "code")):
        with contextlib.suppress(OSError):  # what else is in it is not the cache's
            os.rmdir(place)
    return gone


def look_over() -> None:
    """Delete what was not used for longest where there is too much, and what was left unfinished."""
    there = []
    for entry in _files():
        if not _is_unfinished(entry):
            there.append(entry)
        elif entry.used < time.time() - ABANDONED_AFTER:
            _delete(entry.path)
    total, limit = sum(entry.nbytes for entry in there), size_limit()
    if total <= limit:
        return
    for entry in sorted(there, key=lambda entry: entry.used):
        if total <= limit * 3 // 4:
            break
        if _delete(entry.path):
            total -= entry.nbytes


def _look_over_at_times(nbytes: int) -> None:
    global _written
    with _counting:
        _written += nbytes
        due = _written >= min(LOOK_OVER_AFTER, size_limit() // 4)
        if due:
            _written = 0
    try:
        due |= os.stat(_mark()).st_mtime < time.time() - DAY
        if not due:
            return
        os.utime(_mark())
    except FileNotFoundError:
        os.close(os.open(_mark(), os.O_WRONLY | os.O_CREAT, 0o600))
    if due:
        look_over()


def _mark() -> str:
    """The file whose time says when the cache was last looked over."""
    return os.path.join(folder(), "code", "looked-over")


def _editions() -> list[str]:
    try:
        return [place.path for place in os.scandir(os.path.join(folder(), "code")) if place.is_dir()]
    except OSError:
        return []


def _files() -> Iterator[Entry]:
    """The files of all editions, unfinished ones too."""
    for place in _editions():
        with contextlib.suppress(OSError):
            for file in list(os.scandir(place)):
                if CODE.suffix in file.name or PLAN.suffix in file.name:
                    with contextlib.suppress(OSError):
                        status = file.stat(follow_symlinks=False)
                        yield Entry(file.path, status.st_size, status.st_mtime)


def _is_unfinished(entry: Entry) -> bool:
    return os.path.basename(entry.path).startswith(".")


def _delete(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
