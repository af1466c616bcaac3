"""The way of batches from workers: pickles of which the arrays lie in shared memory, so that nothing copies them.

A worker places a batch in a slot, a piece of memory without a name: it is a file that only the two processes have, and
the system takes it back when both are gone, however they went. The main process makes arrays over the slot; when the
last of them is gone, the slot is the worker's again.

All that goes through the pipe itself is a few numbers. So no end of it ever waits for the other to read.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import pickle
import sys
import tempfile
import weakref
from collections import deque
from io import BytesIO
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....data.rows import ALIGNMENT, Arena, aligned

# Slots of a worker's that the main process may hold arrays over; beyond that it takes copies.
_MOST_LENT = 32
# A pickle of at most so many bytes in all goes through the pipe.
_SMALL = 2048
_PAGE = mmap.ALLOCATIONGRANULARITY

_numbers = itertools.count()
# Ends of pipes that a process forked now would have too, and would keep open when all others have closed them.
_ends: weakref.WeakSet[Any] = weakref.WeakSet()


def pipe(context: Any, duplex: bool) -> tuple[Any, Any]:
    """Return the two ends of a pipe, which no other worker keeps open."""
    ends: tuple[Any, Any] = context.Pipe(duplex)
    _ends.update(ends)
    return ends


def close_others(*own: Any) -> None:
    """Close the ends of pipes that a forked process has of its parent, but for its own."""
    kept = {id(end) for end in own}
    for end in list(_ends):
        if id(end) not in kept:
            with contextlib.suppress(OSError):
                end.close()


class _Slot:
    """Memory that two processes share."""

    def __init__(self, number: int, pages: mmap.mmap) -> None:
        self.number = number
        self.memory: Array = np.frombuffer(pages, np.uint8)
        self.reference: Any = None


def _new_pages(nbytes: int) -> tuple[mmap.mmap, int | str]:
    """Return memory, and what another process finds it by: a file's descriptor, or on Windows a name."""
    if sys.platform == "win32":
        name = f"wengert-{os.getpid()}-{next(_numbers)}"
        return mmap.mmap(-1, nbytes, tagname=name), name
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("wengert")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.ftruncate(descriptor, nbytes)
        return mmap.mmap(descriptor, nbytes), descriptor
    except BaseException:
        os.close(descriptor)
        raise


class Sender:
    """A worker's end: `send` what was made, mostly in the memory that `arena` gave."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._free: list[_Slot] = []
        self._lent: dict[int, _Slot] = {}
        self._slot: _Slot | None = None
        self._arena: Arena | None = None

    def give_back(self, numbers: list[int]) -> None:
        """Take slots that the main process no longer needs."""
        self._free += [self._lent.pop(n) for n in numbers]

    def arena(self) -> Arena | None:
        """Return free memory for a batch, if there is any yet."""
        self._slot = max(self._free, key=lambda s: len(s.memory), default=None)
        if self._slot is None:
            self._arena = None
        else:
            self._free.remove(self._slot)
            self._arena = Arena(self._slot.memory)
        return self._arena

    def send(self, head: Any, content: Any) -> None:
        """Send `head`, a few numbers, with any content. Raises what pickling it raises, and then sends nothing."""
        file = BytesIO()
        buffers: list[pickle.PickleBuffer] = []
        # By position: its class takes nothing by name. Protocol 5 is the one with buffers apart.
        reduction.ForkingPickler(file, 5, True, buffers.append).dump(content)
        arrays = [np.frombuffer(b.raw(), np.uint8) for b in buffers]
        body = np.frombuffer(file.getbuffer(), np.uint8)
        if len(body) + sum(len(a) + 16 for a in arrays) <= _SMALL:
            self._put_back()
            self._connection.send((head, None, None, None, (body.tobytes(), [a.tobytes() for a in arrays])))
            return
        # Where each lies is in shared memory too: there may be thousands.
        table = np.empty((len(arrays), 2), np.int64)
        needed = aligned(len(body)) + aligned(table.nbytes)
        inside, slot = self._inside(arrays), self._slot
        needed += sum(aligned(len(a)) for a, at in zip(arrays, inside) if at is None)
        dropped, found = None, None
        if slot is None or self._arena is None or self._arena.used + needed > len(slot.memory):
            dropped = None if slot is None else slot.number
            total = needed + sum(aligned(len(a)) for a, at in zip(arrays, inside) if at is not None)
            asked = 0 if self._arena is None else self._arena.asked
            nbytes = -(-(max(total, asked) * 5 // 4 + ALIGNMENT) // _PAGE) * _PAGE
            pages, found = _new_pages(nbytes)
            slot = _Slot(next(_numbers), pages)
            self._arena, inside = Arena(slot.memory), [None] * len(arrays)
        arena = self._arena
        assert arena is not None
        for i, (array, at) in enumerate(zip(arrays, inside)):
            if at is None:
                at = arena.used
                arena.place(len(array))[:] = array  # type: ignore[index]
            table[i] = at, len(array)
        places = arena.used, len(body), len(arrays)
        arena.place(len(body))[:] = body  # type: ignore[index]
        arena.place(table.nbytes)[:] = table.reshape(-1).view(np.uint8)  # type: ignore[index]
        self._lent[slot.number] = slot
        self._slot = self._arena = None
        name = found if isinstance(found, str) else None
        self._connection.send((head, slot.number, dropped, None if found is None else (len(slot.memory), name), places))
        if isinstance(found, int):
            reduction.send_handle(self._connection, found, None)
            os.close(found)

    def _put_back(self) -> None:
        if self._slot is not None:
            self._free.append(self._slot)
        self._slot = self._arena = None

    def _inside(self, arrays: list[Array]) -> list[int | None]:
        """Return where in the slot arrays lie already."""
        if self._slot is None:
            return [None] * len(arrays)
        memory = self._slot.memory
        start, size = memory.__array_interface__["data"][0], len(memory)
        at = [a.__array_interface__["data"][0] - start for a in arrays]
        return [p if p >= 0 and p + len(a) <= size and len(a) else None for p, a in zip(at, arrays)]


class Receiver:
    """The main process's end of what one worker sends."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._slots: dict[int, _Slot] = {}
        self._returned: deque[int] = deque()

    def returned(self) -> list[int]:
        """Return the numbers of slots over which no array is left since the last time: they are the worker's again."""
        return [self._returned.popleft() for _ in range(len(self._returned))]

    def receive(self, wanted: Any) -> tuple[Any, Any]:
        """Return the next head, and the content where `wanted(head)`. Raises EOFError where the worker is gone."""
        head, number, dropped, new, places = self.connection.recv()
        if number is None:
            body, arrays = places
            return head, pickle.loads(body, buffers=map(bytearray, arrays)) if wanted(head) else None
        if new is not None:
            nbytes, name = new
            if name is not None:
                pages = mmap.mmap(-1, nbytes, tagname=name)  # type: ignore[call-arg, unused-ignore]
            else:
                descriptor = reduction.recv_handle(self.connection)
                try:
                    pages = mmap.mmap(descriptor, nbytes)
                finally:
                    os.close(descriptor)
            self._slots[number] = _Slot(number, pages)
        self._slots.pop(dropped, None)
        if not wanted(head):
            self._returned.append(number)
            return head, None
        return head, self._over(self._slots[number], places)

    def _over(self, slot: _Slot, places: tuple[int, int, int]) -> Any:
        start, length, count = places
        # The arrays hold this one, and the slot is free when it is gone.
        owner = slot.memory[:]
        begin = aligned(start + length)
        table = owner[begin : begin + 16 * count].view(np.int64).reshape(count, 2).tolist()
        view = memoryview(owner)  # type: ignore[arg-type, unused-ignore]
        body = bytes(view[start : start + length])
        if len(self._slots) > _MOST_LENT:
            content = pickle.loads(body, buffers=[bytearray(view[at : at + n]) for at, n in table])
            self._returned.append(slot.number)
            return content
        number, returned = slot.number, self._returned
        slot.reference = weakref.ref(owner, lambda _: returned.append(number))
        return pickle.loads(body, buffers=[view[at : at + n] for at, n in table])
