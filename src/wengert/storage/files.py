"""The common part of all formats: arrays that stand in files, bounds on what a file may ask for, staged writing."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from ..core.dtypes import made
from ..core.errors import DataError, DTypeError, WengertError, fail

Array = np.ndarray[Any, Any]
Path = str | os.PathLike[str]


def folder_path(given: Any, what: str) -> str:
    """Return the absolute path of a folder that a user gave to `what`. Raises DTypeError for what is no path."""
    if not isinstance(given, (str, os.PathLike)):
        fail(
            DTypeError,
            f"{what} of {given!r}, which is no path",
            "It takes the path of a folder: a text or a pathlib.Path.",
        )
    return os.path.abspath(os.fspath(given))


# What a file may take of memory beyond its own size, unless its reader says otherwise: formats that compress or repeat
# can ask for any amount.
SMALLEST_LIMIT = 1 << 28
MOST_TIMES = 64


@dataclass(frozen=True)
class Stored:
    """An array that stands in a file: its shape, the dtype that the file tells, its bytes there, and how it is read."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    read: Callable[[], Array]


class Budget:
    """A limit of the memory that a file's contents may take."""

    def __init__(self, nbytes: int, limit: int | None = None) -> None:
        self.limit = max(SMALLEST_LIMIT, MOST_TIMES * nbytes) if limit is None else limit
        self.left = self.limit

    def take(self, nbytes: int, what: str) -> None:
        """Count bytes that are about to be taken. Raises DataError beyond the limit."""
        if nbytes > self.left:
            fail(
                DataError,
                f"{what} asks for {nbytes:,} bytes of memory: the file's contents would take more than {self.limit:,}",
                "A small file that asks for so much may be hostile. If it is yours, say how much: limit=bytes.",
            )
        self.left -= nbytes


class Reading:
    """A block in which whatever is wrong with a file is a DataError that names the file."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if e is None or isinstance(e, WengertError) or not isinstance(e, Exception):
            return
        if isinstance(e, FileNotFoundError):
            fail(DataError, f"no such file: {self.name}", "Give the file that holds the data.")
        if isinstance(e, ImportError):
            raise e
        if isinstance(e, OSError):
            fail(DataError, f"{self.name} cannot be read: {e.strerror or e}")
        told = {MemoryError: "it asks for more memory than there is", RecursionError: "it is nested too deeply"}
        # What is quoted comes from the file: it may be long.
        text = told.get(type(e)) or f"{type(e).__name__}: {str(e)[:200]}"
        fail(DataError, f"{self.name} is damaged: {text}", "It is truncated, or not what it claims to be.")


class Staged:
    """A file that takes its name when all of it is written: `with Staged(path) as temporary: ...`.

    Until then, and where writing fails, what had the name before stays. A device or a pipe is written as it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = os.path.realpath(os.fspath(path))
        self.mode: int | None = None
        folder, name = os.path.split(self.path)
        self.temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:12]}.part")
        with contextlib.suppress(OSError):
            found = os.stat(self.path)
            if not stat.S_ISREG(found.st_mode):
                self.temporary = self.path
            self.mode = stat.S_IMODE(found.st_mode)

    def __enter__(self) -> str:
        return self.temporary

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if self.temporary == self.path:
            return
        if e is None:
            try:
                if self.mode is not None:
                    os.chmod(self.temporary, self.mode)
                sync(self.temporary)
                os.replace(self.temporary, self.path)
                sync(os.path.dirname(self.path))
            except OSError as failed:
                e = failed
        if e is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.temporary)
        if isinstance(e, OSError):
            not_written(self.path, e)


def not_written(path: str, e: Exception) -> None:
    """Raise DataError: a file could not be written, and what was there before stays."""
    reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
    free = ""
    if getattr(e, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "os error 28" in reason:
        with contextlib.suppress(OSError):
            free = f" {shutil.disk_usage(os.path.dirname(path) or '.').free:,} bytes are free."
    fail(DataError, f"{path} was not written: {reason}", f"What stood there before is as it was.{free}")


def sync(path: str) -> None:
    """Have the system bring a file or folder to the disk. Systems that cannot do so with folders do what they can."""
    directory = os.path.isdir(path)
    if directory and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if directory or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def bytes_of(path: Path, mmap: bool) -> Array:
    """Return a file's bytes as an array that cannot be written to; with `mmap` they are read when they are needed."""
    if mmap and os.path.getsize(path):
        return np.memmap(path, np.uint8, "r")
    with open(path, "rb") as file:
        return np.frombuffer(file.read(), np.uint8)


def little_endian(dtype: Any) -> Any:
    """Return a dtype as files have it: in little-endian order whatever the machine."""
    made = np.dtype(dtype)
    return made.newbyteorder("<") if made.kind in "iufc" else made


def native(array: Array) -> Array:
    """Return an array as the machine has it: in its byte order, elements at multiples of their size."""
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.aligned else array.copy()


def dtype_in_file(name: str) -> Any:
    """Return a dtype by its name. Raises DataError where it needs a package that is missing."""
    try:
        return made(name)
    except DTypeError as e:
        fail(DataError, *str(e).splitlines())
