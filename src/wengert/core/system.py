"""The operating system: threads, forks and pages of memory, as far as they differ between Linux, macOS and Windows.

Everything that depends on the system asks `current`. Programs run by one thread where there are no helpers: these
sleep by Linux's futex.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Array

# The accesses that a page of memory may allow.
NOTHING, READ = 0, 1
# The number of the futex's system call, by processor.
FUTEX = {"x86_64": 202, "aarch64": 98}


class System:
    """An operating system without helpers: what POSIX and Python have everywhere."""

    has_helpers = False

    def processors(self) -> set[int]:
        """Return the numbers of the processors that this process may use."""
        return set(range(os.cpu_count() or 1))

    def start_thread(self, entry: int, argument: int) -> int | None:
        """Return the handle of a thread that calls a native function, or None where the system allows no more."""
        raise NotImplementedError

    def join_thread(self, thread: int) -> None:
        """Wait until a thread has returned."""
        raise NotImplementedError

    def at_fork(self, before: Callable[[], None], in_parent: Callable[[], None], in_child: Callable[[], None]) -> None:
        """Have functions called before and after each fork of the process."""
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)

    def pages(self, nbytes: int) -> Array:
        """Return so many bytes of pages of their own, uint8 and zero."""
        import mmap

        return np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)

    def protect(self, address: int, nbytes: int, rights: int) -> None:
        """Leave whole pages no rights but these. Raises OSError."""
        change: Any = ctypes.CDLL(None, use_errno=True).mprotect
        if change(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), rights):
            raise OSError(ctypes.get_errno(), "the rights of memory cannot be changed")


class Linux(System):
    """Linux, with helpers where the number of its futex call is known."""

    def __init__(self, processor: str) -> None:
        self.has_helpers = processor in FUTEX

    def processors(self) -> set[int]:
        """Return the numbers of the processors that this process may use."""
        return os.sched_getaffinity(0) if sys.platform == "linux" else super().processors()

    def start_thread(self, entry: int, argument: int) -> int | None:
        """Return the handle of a thread that calls a native function; it gets no signals, which are Python's."""
        # A new thread has the mask of the one that makes it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            thread = ctypes.c_ulong()
            create = ctypes.CDLL(None).pthread_create
            failed = create(ctypes.byref(thread), None, ctypes.c_void_p(entry), ctypes.c_void_p(argument))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return None if failed else thread.value

    def join_thread(self, thread: int) -> None:
        """Wait until a thread has returned."""
        ctypes.CDLL(None).pthread_join(ctypes.c_ulong(thread), None)


class MacOS(System):
    """The system of Apple's computers."""


# Rights of pages as Windows numbers them, by those of POSIX.
_WINDOWS_RIGHTS = {NOTHING: 0x01, READ: 0x02}


class Windows(System):
    """Windows, where no process forks."""

    def __init__(self, kernel: Any = None) -> None:
        self._kernel = kernel

    def at_fork(self, before: Callable[[], None], in_parent: Callable[[], None], in_child: Callable[[], None]) -> None:
        """Do nothing: there are no forks."""

    def protect(self, address: int, nbytes: int, rights: int) -> None:
        """Leave whole pages no rights but these. Raises OSError."""
        kernel = self._kernel if self._kernel is not None else ctypes.CDLL("kernel32")
        before, wanted = ctypes.c_ulong(), ctypes.c_ulong(_WINDOWS_RIGHTS[rights])
        if not kernel.VirtualProtect(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), wanted, ctypes.byref(before)):
            raise OSError("the rights of memory cannot be changed")


def chosen(name: str, processor: str) -> System:
    """Return the system by Python's names of it (`sys.platform`) and of its processor (`platform.machine()`).

    What is none of the three known ones is taken for POSIX without helpers.

    >>> type(chosen("win32", "AMD64")).__name__, chosen("darwin", "arm64").has_helpers
    ('Windows', False)
    """
    if name == "linux":
        return Linux(processor)
    return Windows() if name == "win32" else MacOS() if name == "darwin" else System()


current = chosen(sys.platform, platform.machine())
