"""Files in which a program keeps values that memory has no room for.

A file has no name: it is unlinked as it is made, so nothing is left of it when the process ends, whatever ends it. Its
blocks on disk are allocated before it is mapped, for what is written to a mapping and finds the disk full ends the
process (SIGBUS). A call borrows a file, as it borrows its arena; a forked process makes its own, for mappings are
shared.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from typing import Literal

import numpy as np

from ....core.errors import GraphError, fail

# The most files that wait for calls.
_IDLE = 4
# File systems whose files are memory.
_IN_MEMORY = ("tmpfs", "ramfs")


class SpillError(GraphError, OSError):
    """An error: there is no place for a file of values that memory has no room for."""


class SpillFile:
    """A file without a name, mapped to memory. Raises SpillError where the folder has no room for it."""

    def __init__(self, nbytes: int, folder: str) -> None:
        self.nbytes, self.folder, self.process = nbytes, folder, os.getpid()
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, nbytes)
                self._map = mmap.mmap(file.fileno(), nbytes)
        except OSError as e:
            fail(
                SpillError,
                f"spilling needs a file of {nbytes:,} bytes in {folder}: {e.strerror}",
                "Make room there, or name another folder: spill='/path/of/a/folder'.",
            )
        self.address: int = np.frombuffer(self._map, np.uint8).ctypes.data


_idle: list[SpillFile] = []


def borrow(nbytes: int, folder: str) -> SpillFile:
    """Return a file of at least so many bytes, for one call at a time. Raises SpillError."""
    here = os.getpid()
    _idle[:] = [f for f in _idle if f.process == here]
    for i, file in enumerate(_idle):
        if file.folder == folder and file.nbytes >= nbytes:
            return _idle.pop(i)
    _idle[:] = [f for f in _idle if f.folder != folder]  # too small
    return SpillFile(nbytes, folder)


def give_back(file: SpillFile) -> None:
    """Let other calls have a file."""
    if len(_idle) < _IDLE:
        _idle.append(file)


def folder_of(spill: Literal[True] | str | os.PathLike[str], what: str = "spill") -> str:
    """Return the folder for files, which is that of temporary files unless named. Raises SpillError for none."""
    if not hasattr(os, "posix_fallocate") or not sys.platform.startswith("linux"):
        fail(SpillError, f"{what} on {sys.platform}", "Values are spilled to files on Linux only: leave it out.")
    if spill is not True and not isinstance(spill, (str, os.PathLike)):
        fail(SpillError, f"{what}={spill!r}", "It is True, for the folder of temporary files, or the path of a folder.")
    folder = os.path.realpath(tempfile.gettempdir() if spill is True else os.fspath(spill))
    if not os.path.isdir(folder):
        fail(SpillError, f"{what}={spill!r}: there is no such folder", "Make it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        fail(SpillError, f"{what}={spill!r}: no file can be made in that folder", "Name a folder of your own.")
    kind = _file_system(folder)
    if kind in _IN_MEMORY:
        fail(
            SpillError,
            f"{what}: the files of {folder} are memory themselves ({kind})",
            "Name a folder on a disk: spill='/path/of/a/folder'.",
        )
    return folder


def _file_system(folder: str) -> str:
    """Return the kind of file system that a folder is on; "" where that is not told."""
    best, kind = "", ""
    try:
        with open("/proc/self/mountinfo") as mounts:
            for line in mounts:
                fields, _, more = line.partition(" - ")
                at = fields.split()[4].encode().decode("unicode_escape")
                if len(at) >= len(best) and os.path.commonpath([at, folder]) == at:
                    best, kind = at, more.split()[0]
    except (OSError, IndexError, ValueError):
        return ""
    return kind
