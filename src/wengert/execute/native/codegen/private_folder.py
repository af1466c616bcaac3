"""Folders that only this user can have written to.

What is read from such a folder is run, so the way to it is taken step by step: each folder is opened from the one
before, without following a link that somebody else made, and looked at when it is open. What is then read or written is
named from the open folder: nothing can be swapped between the look and the use.

A folder on the way belongs to this user or to root, and nobody else may write to it, unless (as in `/tmp`) what lies
in it stays its owner's. The folder itself belongs to this user. Where the system has no owners and modes, or cannot
open one file from another, folders are taken as they are.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator

_HAS_OWNERS = hasattr(os, "geteuid") and {os.open, os.mkdir, os.stat, os.unlink, os.rename} <= os.supports_dir_fd
# A folder on the way need not be readable, where it can be opened without that.
_ON_THE_WAY = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# Neither a link nor the wait for somebody at the other end of a pipe.
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE |= getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
_MOST_LINKS = 40

_numbers = itertools.count()


class NotPrivate(OSError):
    """An error about a folder that somebody else may have written to; it says which and why."""


class Folder:
    """An open folder, whose files are named from it."""

    def __init__(self, file: int | None, path: str) -> None:
        self.file = file
        self.path = path

    def _name(self, name: str) -> str:
        return name if self.file is not None else os.path.join(self.path, name)

    def read(self, name: str, most: int) -> tuple[bytes, os.stat_result]:
        """Return a file's contents and status. Raises OSError where it is no file of this user's own, or is larger."""
        file = os.open(self._name(name), os.O_RDONLY | _FILE, dir_fd=self.file)
        try:
            status = os.fstat(file)
            if not _is_own_file(status) or status.st_size > most:
                raise OSError(f"{name} is no file of this user's own, of up to {most} bytes")
            parts, left = [], status.st_size
            while left and (part := os.read(file, left)):
                parts.append(part)
                left -= len(part)
            return b"".join(parts), status
        finally:
            os.close(file)

    def write(self, name: str, contents: bytes) -> None:
        """Write a file atomically: it is there as a whole or not at all. Raises OSError."""
        unfinished = self._name(f".{name}.{os.getpid()}.{next(_numbers)}")
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=self.file)
        try:
            with open(file, "wb") as out:
                out.write(contents)
            os.replace(unfinished, self._name(name), src_dir_fd=self.file, dst_dir_fd=self.file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished, dir_fd=self.file)
            raise

    def touch(self, name: str, create: bool = True) -> None:
        """Mark a file as used just now, and with `create` make one that is not there. Raises OSError."""
        file = os.open(self._name(name), os.O_WRONLY | (os.O_CREAT * create) | _FILE, 0o600, dir_fd=self.file)
        try:
            os.utime(file if os.utime in os.supports_fd else self._name(name))
        finally:
            os.close(file)

    def status(self, name: str) -> os.stat_result:
        """Return the status of what a name refers to, without following a link. Raises OSError."""
        return os.stat(self._name(name), dir_fd=self.file, follow_symlinks=False)

    def names(self) -> list[str]:
        """Return the names in the folder. Raises OSError."""
        return os.listdir(self.file if self.file is not None else self.path)

    def remove(self, name: str) -> bool:
        """Delete a file or a link, and return whether one was deleted."""
        try:
            os.unlink(self._name(name), dir_fd=self.file)
        except OSError:
            return False
        return True

    def remove_folder(self, name: str) -> None:
        """Delete an empty folder. Raises OSError."""
        os.rmdir(self._name(name), dir_fd=self.file)

    def inner(self, name: str, create: bool = False) -> Folder:
        """Open a folder inside this one, which must be this user's own. Raises OSError."""
        path = os.path.join(self.path, name)
        if self.file is None:
            if create:
                os.makedirs(path, exist_ok=True)
            return Folder(None, path)
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self.file)
        found = Folder(os.open(name, os.O_RDONLY | _FOLDER, dir_fd=self.file), path)
        try:
            _check_own(found.file, path)
        except BaseException:
            found.close()
            raise
        return found

    def is_there(self) -> bool:
        """Return whether the folder is still open, was not deleted, and still only this user's to write to."""
        if self.file is None:
            return os.path.isdir(self.path)
        try:
            status = os.fstat(self.file)
        except OSError:
            return False
        return stat.S_ISDIR(status.st_mode) and status.st_nlink > 0 and _is_own_folder(status)

    def close(self) -> None:
        """Close the folder: nothing can be named from it any more."""
        if self.file is not None and self.file >= 0:
            file, self.file = self.file, -1
            os.close(file)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # when Python ends there may be no module left to do it with
            self.close()

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_folder(path: str, create: bool = False) -> Folder:
    """Open a folder of this user's own at a path; `create` makes one that is not there.

    Where the path names a folder in which everybody keeps things of his own (one of root's, or one like `/tmp`), it is
    `wengert-<uid>` in there. Raises FileNotFoundError where there is none, NotPrivate where somebody else might
    have written to it, OSError.
    """
    path = os.path.abspath(path)
    if not _HAS_OWNERS:
        if create:
            os.makedirs(path, exist_ok=True)
        return Folder(None, path)
    with contextlib.closing(_Way(path, create)) as way:
        status = os.fstat(way.file)
        if status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISVTX:
            return Folder(os.open(".", os.O_RDONLY | _FOLDER, dir_fd=way.file), path)
        with Folder(os.dup(way.file), path) as shared:
            return shared.inner(f"wengert-{os.geteuid()}", create)


class _Way:
    """A walk to a folder, step by step; `file` is the folder that it has reached."""

    def __init__(self, path: str, create: bool) -> None:
        self.file = os.open(os.sep, _ON_THE_WAY | _FOLDER)
        try:
            self._go(path, create)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.file)

    def _go(self, path: str, create: bool) -> None:
        left, passed, links = path.split(os.sep)[::-1], "", 0
        _check_trusted(self.file, os.sep)
        while left:
            name = left.pop()
            if name in ("", os.curdir):
                continue
            passed = f"{passed}{os.sep}{name}"
            status = self._status(name, create)
            if not stat.S_ISLNK(status.st_mode):
                self._enter(name)
                _check_trusted(self.file, passed)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(f"too many links on the way to {path}")
            if status.st_uid not in (0, os.geteuid()):
                raise NotPrivate(f"{passed} is a link that another user made")
            target = os.readlink(name, dir_fd=self.file)
            if target.startswith(os.sep):
                self._enter(os.sep)
            left += target.split(os.sep)[::-1]

    def _status(self, name: str, create: bool) -> os.stat_result:
        try:
            return os.stat(name, dir_fd=self.file, follow_symlinks=False)
        except FileNotFoundError:
            if not create:
                raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self.file)
        return os.stat(name, dir_fd=self.file, follow_symlinks=False)

    def _enter(self, name: str) -> None:
        file = os.open(name, _ON_THE_WAY | _FOLDER, dir_fd=self.file)
        os.close(self.file)
        self.file = file


def _is_own_file(status: os.stat_result) -> bool:
    """Return whether it is a file with one name that this user wrote and nobody else may write to."""
    if not stat.S_ISREG(status.st_mode):
        return False
    return not _HAS_OWNERS or (status.st_uid == os.geteuid() and not status.st_mode & 0o022 and status.st_nlink == 1)


def _is_own_folder(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not _others_write(status)


def _others_write(status: os.stat_result) -> bool:
    """Return whether others than the owner may write to it; a group of which only the owner is a member may."""
    return bool(status.st_mode & stat.S_IWOTH) or (
        bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)
    )


def _is_own_group(group: int) -> bool:
    """Return whether a group has this user as its only member; False where that cannot be found out."""
    if group != os.getegid() or os.geteuid() == 0:  # what else belongs to root's group nobody knows
        return False
    try:
        import grp
        import pwd

        found, name = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}


def _check_own(file: int | None, path: str) -> None:
    assert file is not None
    status = os.fstat(file)
    if status.st_uid != os.geteuid():
        raise NotPrivate(f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}")
    if _others_write(status):
        raise NotPrivate(f"others may write to {path} (mode {stat.S_IMODE(status.st_mode):04o}): chmod go-w {path}")


def _check_trusted(file: int, path: str) -> None:
    """Raise NotPrivate where another user could put something else in the place of what lies in an open folder."""
    status = os.fstat(file)
    if status.st_uid not in (0, os.geteuid()):
        raise NotPrivate(f"{path} belongs to user {status.st_uid}")
    if _others_write(status) and not status.st_mode & stat.S_ISVTX:
        raise NotPrivate(f"others may write to {path} (mode {stat.S_IMODE(status.st_mode):04o}): chmod go-w {path}")


def entries(folder: Folder) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files in a folder with their status; links and whatever is no regular file are left out."""
    with contextlib.suppress(OSError):
        for name in folder.names():
            with contextlib.suppress(OSError):
                status = folder.status(name)
                if stat.S_ISREG(status.st_mode):
                    yield name, status
