"""MPI's collectives from native code: flights, which MPI's own C functions move on, and how programs have them.

A collective that has native code is laid out by what it moves alone (:func:`layout`), and gets a *flight* for the ranks
that it is among. Programs start flights and wait for them as steps of theirs (`Flights`), what calls a collective at
once does both at once (`NativeLine.run`): the code is the same, and so are the bits. `mpi_code` has it.

Only bytes move. Sums are made by the ranks, as `summed` says: small ones from what all send to all, large ones in
parts, one for each rank, that all gather.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...core.ops.op import TABLE, Op, find_op
from ...core.spec import show, spec_of
from ...execute.native.codegen import machine, object_cache
from ...execute.native.overlap import Bound
from ...execute.native.plan.plan import Moved
from ...ops.collective import definitions as c
from . import mpi_code
from .mpi_code import FIRST_TAG, FLIGHT, LINE

# A sum of at most so many bytes is sent whole to all: one message instead of two. Two ranks send each other as much
# either way, and do so while adding all of it up is no more than the second message costs.
SMALL, OF_TWO = 1 << 13, 1 << 17
# The bytes of a piece, which stays in a processor's cache until it is added up; larger where a part would be cut into
# more pieces than that. A rank that is done may have to let others know of each message, and it goes on to compute: of
# too many, MPI keeps what it could not tell until it is called again.
PIECE, PIECES = 1 << 18, 16
# Parts begin at whole cache lines.
_ALIGN = 64
# A wait that polled so often yields the processor: for a millisecond where every rank has one of its own, else soon.
# After as many yields it asks `idle`, every time.
_SPINS, _SPINS_SHARED, _YIELDS = 1 << 14, 100, 2000
# More than the bytes of a status in any implementation.
_STATUS = 64
# So many flights may be on their way at a time.
_ACTIVE = 1 << 12
# MPI counts the bytes of a message in 31 bits.
_MESSAGE = 1 << 31
_WORD = (1 << 64) - 1
# The kinds of collectives that a line keeps flights for.
_KEPT = 64

# By dtype: the LLVM type of an element, and how many of them an item has.
_KINDS = {
    np.dtype(name): found
    for name, found in {
        "float32": ("float", 1),
        "float64": ("double", 1),
        "complex64": ("float", 2),
        "complex128": ("double", 2),
        "int32": ("i32", 1),
        "int64": ("i64", 1),
        "uint32": ("i32", 1),
        "uint64": ("i64", 1),
    }.items()
}


class Layout(NamedTuple):
    """A plan of what a flight does: its code by name, sizes in what that counts, requests, bytes of scratch memory.

    `pairs` are those of a permutation, `root` is who spreads what it has; `tag` is that of its messages, 0 for one that
    no other flight has.
    """

    code: str
    amount: int
    part: int
    piece: int
    pieces: int
    requests: int
    scratch: int
    pairs: tuple[tuple[int, int], ...] = ()
    root: int = -1
    tag: int = 0


def layout(op: Op, shape: tuple[int, ...], dtype: Any, attrs: Mapping[str, Any]) -> Layout | None:
    """Return how native code does a collective of an operand; None for what has none: then it is Python's.

    It has none for several messages' worth of bytes, for sums of half precision, and for parts along an axis that is
    not the first one: these do not lie side by side in memory.
    """
    dtype, ranks = np.dtype(dtype), attrs["ranks"]
    size = math.prod(shape)
    nbytes = size * dtype.itemsize
    plan = _LAYOUTS.get(op)
    if plan is None or ranks == 1 or not 0 < nbytes * ranks < _MESSAGE:
        return None
    for name in ("axis", "split", "join"):
        if name in attrs and any(n != 1 for n in shape[: len(shape) + attrs[name]]):
            return None
    return plan(size, dtype, ranks, attrs)


def _summed(size: int, dtype: Any, ranks: int, attrs: Mapping[str, Any]) -> Layout | None:
    if dtype not in _KINDS:
        return None
    kind, width = _KINDS[dtype]
    count, item = size * width, mpi_code.KINDS[kind]
    if count * item <= (SMALL if ranks > 2 else OF_TWO):
        piece = PIECE // item
        pieces = -(-count // piece)
        requests = 2 * pieces * (ranks - 1)
        return Layout(f"whole_{kind}", count, 0, piece, pieces, requests, (ranks - 1) * count * item)
    line = _ALIGN // item
    part = -(-count // (ranks * line)) * line
    return _in_parts("reduce", 4, count, part, kind, ranks)


def _scattered(size: int, dtype: Any, ranks: int, attrs: Mapping[str, Any]) -> Layout | None:
    if dtype not in _KINDS or size % ranks:
        return None
    kind, width = _KINDS[dtype]
    count = size * width
    return _in_parts("scatter", 2, count, count // ranks, kind, ranks)


def _in_parts(code: str, messages: int, count: int, part: int, kind: str, ranks: int) -> Layout:
    item = mpi_code.KINDS[kind]
    piece = max(PIECE // item, -(-part // PIECES))
    pieces = -(-part // piece)
    requests = messages * pieces * (ranks - 1)
    return Layout(f"{code}_{kind}", count, part, piece, pieces, requests, (ranks - 1) * part * item)


def _gathered(size: int, dtype: Any, ranks: int, attrs: Mapping[str, Any]) -> Layout:
    return Layout("share", size * dtype.itemsize, 0, 0, 0, 2 * (ranks - 1), 0)


def _exchanged(size: int, dtype: Any, ranks: int, attrs: Mapping[str, Any]) -> Layout | None:
    if size % ranks or attrs["split"] != attrs["join"]:
        return None
    return Layout("swap", size * dtype.itemsize // ranks, 0, 0, 0, 2 * (ranks - 1), 0)


def _permuted(size: int, dtype: Any, ranks: int, attrs: Mapping[str, Any]) -> Layout:
    return Layout("hand_on", size * dtype.itemsize, 0, 0, 0, 2, 0, attrs["pairs"])


def _spread(size: int, dtype: Any, ranks: int, attrs: Mapping[str, Any]) -> Layout | None:
    """Return how the root sends all to each rank; of many ranks, MPI lets others pass on what is large."""
    nbytes = size * dtype.itemsize
    if ranks > 2 and nbytes > SMALL:
        return None
    return Layout("spread", nbytes, 0, 0, 0, ranks - 1, 0, root=attrs["root"])


_LAYOUTS: dict[Op, Callable[[int, Any, int, Mapping[str, Any]], Layout | None]] = {
    c.all_reduce: _summed,
    c.reduce_scatter: _scattered,
    c.all_gather: _gathered,
    c.all_to_all: _exchanged,
    c.ppermute: _permuted,
    c.broadcast_from: _spread,
}


@cache
def functions() -> dict[str, int]:
    """Return the addresses of the native functions by name; empty where there is no code generator."""
    if machine.lack():
        return {}
    target = machine.host()
    text = mpi_code.text(target.triple)
    known = "mpi_" + hashlib.sha256(f"{target}\n{text}".encode()).hexdigest()[:32]
    code = object_cache.load(known, target)
    if code is None:
        code = machine.compile_ir(text, target)
        object_cache.keep(known, target, code)
    names = mpi_code.names()
    return dict(zip(names, machine.load_all([code], [f"wengert_mpi_{name}" for name in names]), strict=True))


@cache
def _callable(name: str, *takes: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *takes)(functions()[name])


def _address(x: Any) -> int:
    found: int = x.__array_interface__["data"][0]
    return found


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Stopped(Exception):
    """The end of a wait that `idle` gave up, or of a call that MPI did not take."""


# Called while a wait takes long, with the flight's number, and once more, with 1, when it is over; a result that is not
# 0 ends the wait.
IDLE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int32)


class Active:
    """The flights of a process that have started: a list that native code keeps."""

    def __init__(self) -> None:
        self.words = np.zeros(1 + _ACTIVE, np.int64)

    def flights(self) -> list[int]:
        """Return their addresses."""
        return self.words[1 : 1 + self.words[0]].tolist()  # type: ignore[no-any-return]


class Flight:
    """A collective that may be on its way: what native code knows of it. `env` is the address of that."""

    def __init__(self, line: NativeLine, what: Layout, number: int) -> None:
        self.line, self.layout, self.number = line, what, number
        self.told: Callable[[], str] = str  # what other ranks are told that it is
        self.requests = np.zeros((what.requests, line.width), np.uint8)
        line.room_for(what.requests)
        source = next((a for a, b in what.pairs if b == line.own), what.root)
        target = next((b for a, b in what.pairs if a == line.own), -1)
        code = functions()
        words = {
            "line": line.at,
            "begin": code[f"begin_{what.code}"],
            "advance": code[f"advance_{what.code}"],
            "number": number,
            "count": what.amount,
            "part": what.part,
            "piece": what.piece,
            "pieces": what.pieces,
            "requests": _address(self.requests),
            "source": source,
            "target": target,
            "fixed": what.tag,
        }
        self.table = np.array([words.get(w, 0) for w in FLIGHT], np.int64)
        self.env = _address(self.table)
        self.start, self.look, self.wait = (code[name] for name in ("start", "look", "wait"))

    def begin(self, x: Any, out: Any, scratch: Any) -> None:
        """Start it on arrays, which belong to it until it is done."""
        self.table[_PLACES] = _address(x), _address(out), _address(scratch)
        _callable("begin", ctypes.c_int64)(self.env)

    def finish(self) -> None:
        """Wait for its end. Raises Stopped."""
        if _callable("finish", ctypes.c_int64)(self.env):
            raise Stopped


_PLACES = [FLIGHT.index(name) for name in ("x", "out", "scratch")]


class NativeLine:
    """Ranks along a mesh axis: a communicator of MPI's, as native code has it.

    `own` is this rank's place among the `members`, `idle` what waits ask.
    """

    def __init__(self, MPI: Any, comm: Any, own: int, members: tuple[int, ...], idle: Any, active: Active) -> None:
        library, system = ctypes.CDLL(MPI.__file__), ctypes.CDLL(None)
        self.own, self.members, self.width = own, members, MPI._sizeof(MPI.Request)
        ranks = len(members)
        self.flag, self.rows, self.statuses = np.zeros(1, np.int32), np.zeros(ranks, np.int64), np.zeros(0, np.uint8)
        self.kept = comm, idle, active
        self.flights: dict[Layout, Flight] = {}

        def address(function: Any) -> int:
            return ctypes.cast(function, ctypes.c_void_p).value or 0

        words = {
            "isend": address(library.MPI_Isend),
            "irecv": address(library.MPI_Irecv),
            "testall": address(library.MPI_Testall),
            "yield": address(system.sched_yield),
            "idle": address(idle),
            "comm": comm.handle,
            "byte": MPI.BYTE.handle,
            "own": own,
            "ranks": ranks,
            "width": self.width,
            "spins": _SPINS if MPI.COMM_WORLD.Get_size() <= _processors() else _SPINS_SHARED,
            "yields": _YIELDS,
            "tag": FIRST_TAG,
            "active": _address(active.words),
            "flag": _address(self.flag),
            "rows": _address(self.rows),
        }
        # A handle of 32 bits may come with its sign in all words above it.
        self.table = np.array([words.get(w, 0) & _WORD for w in LINE], np.uint64).view(np.int64)
        self.at = _address(self.table)

    def room_for(self, requests: int) -> None:
        """Make room for the statuses of so many requests."""
        if requests * _STATUS > self.statuses.nbytes:
            self.statuses = np.zeros(requests * _STATUS, np.uint8)
            self.table[LINE.index("statuses")] = _address(self.statuses)

    def flight(self, what: Layout, make: Callable[[NativeLine, Layout], Flight]) -> Flight:
        """Return a flight for a collective that is done at once, kept from the last one like it or made."""
        found = self.flights.get(what)
        if found is None:
            if len(self.flights) >= _KEPT:
                del self.flights[next(iter(self.flights))]
            found = self.flights[what] = make(self, what)
        return found


def native_line(
    MPI: Any, comm: Any, own: int, members: tuple[int, ...], idle: Any, active: Active
) -> NativeLine | None:
    """Return a line whose collectives are native code; None where there is no code generator, or MPI hides itself."""
    if not functions() or not hasattr(comm, "handle") or not hasattr(MPI, "_sizeof"):
        return None
    try:
        return NativeLine(MPI, comm, own, members, idle, active)
    except (AttributeError, OSError):  # the library exports no functions, or the system has no sched_yield
        return None


class _Still:
    """A collective of a program whose other ranks are not there: what this one brings is all that comes.

    `sizes` are how many times it is laid into the result, and its bytes.
    """

    def __init__(self, moved: Moved) -> None:
        code = functions()
        self.start = self.look = code["nothing"]
        self.wait = code["alone"]
        spec = TABLE[moved.op].infer(spec_of(moved.shape, moved.dtype), **moved.attrs)
        given, wanted = math.prod(moved.shape), math.prod(spec.shape)
        self.sizes = np.array([max(1, wanted // given), min(given, wanted) * spec.dtype.itemsize], np.int64)
        self.env = _address(self.sizes)


class Alone:
    """The collectives of a program for one rank whose other ranks are not there: each is taken to bring what it does.

    Nothing moves, so that one rank can be timed by itself. `places` says where it stands along each axis. Plans are
    those of :class:`Flights`.
    """

    # Plans that are kept hold what a collective's code is called, and the room that it needs.
    identity = (
        "mpi "
        + hashlib.sha256(repr((mpi_code.text(""), SMALL, OF_TWO, PIECE, PIECES, _ALIGN)).encode()).hexdigest()[:16]
    )

    def __init__(self, places: Mapping[str, int]) -> None:
        self.places = places

    def scratch(self, moved: Moved) -> int | None:
        """Return the bytes that a collective needs besides operand and result; None where it is Python's."""
        what = _layout(moved)
        return None if what is None else what.scratch

    def bind(self, moved: Moved) -> Bound:
        """Return functions that move nothing."""
        return _Still(moved)

    def stopped(self, moved: Moved) -> BaseException:
        """Return the error that ended a wait: there is none."""
        return Stopped(told(*moved))

    def drain(self) -> bool:
        """Return that nothing is on its way."""
        return True


def _layout(moved: Moved) -> Layout | None:
    op = find_op(moved.op)
    return None if op is None else layout(op, moved.shape, moved.dtype, moved.attrs)


class Flights(Alone):
    """The collectives of programs for one rank of a mesh, as steps: see :class:`Exchanges`.

    `places` says where the rank stands along each axis, `lines` are the ranks along it. `make` makes a flight, `stop`
    gives the error that ended a wait, and `settle` says whether all that had started has come to its end.
    """

    def __init__(
        self,
        places: Mapping[str, int],
        lines: Mapping[str, NativeLine],
        make: Callable[[NativeLine, Layout], Flight],
        stop: Callable[[str], BaseException],
        settle: Callable[[], bool],
    ) -> None:
        super().__init__(places)
        self.lines, self.make, self.stop, self.settle = lines, make, stop, settle

    def bind(self, moved: Moved) -> Bound:
        """Return the native functions of a collective, for one program that runs once at a time."""
        what = _layout(moved)
        assert what is not None
        found = self.make(self.lines[moved.attrs["over"]], what)
        found.told = lambda: told(*moved)
        return found

    def stopped(self, moved: Moved) -> BaseException:
        """Return the error that ended a wait."""
        return self.stop(told(*moved))

    def drain(self) -> bool:
        """Let all that has started come to its end; return False where it does not."""
        return self.settle()


def told(name: str, attrs: Mapping[str, Any], shape: tuple[int, ...], dtype: Any) -> str:
    """Return the description of a collective that ranks exchange to compare it."""
    given = ", ".join(f"{k}={v!r}" for k, v in attrs.items() if k != "ranks")
    return f"{name}({show(shape, dtype)}, {given})"
