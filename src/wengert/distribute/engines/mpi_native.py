"""MPI's collectives from native code: calls by MPI's own C pointers, polled waits, and sums in the order of the ranks.

The code is the same for every implementation of MPI. A *table* of words has what differs: the addresses of MPI's
functions, its handles as they are in C, and where requests and statuses stand. A handle of 32 bits goes into a register
as one of 64 does, so calls are alike; only arrays of requests have its width.

A wait polls, yields the processor, and then asks `idle`, a function of Python's, again and again: that one sleeps,
listens to the other ranks, and says when to give up. Large sums move in pieces: one is added up while the next one is
on its way.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from functools import cache
from typing import Any

import numpy as np

from ...execute.native.codegen import machine, object_cache

# A sum of at most so many bytes is sent whole to all: one message instead of two.
SMALL = 1 << 13
# The bytes of a piece: it stays in a processor's cache until it is added up.
PIECE = 1 << 18
# A wait that polled so often yields the processor: for a millisecond where every rank has one of its own, else soon.
# After as many yields it asks `idle`, every time.
_SPINS, _SPINS_SHARED, _YIELDS = 1 << 14, 100, 2000
# The words of a table, in order.
_WORDS = (
    "isend", "irecv", "testall", "iallgather", "yield", "idle", "comm", "byte",
    "own", "ranks", "requests", "statuses", "width", "flag", "rows", "spins",
)  # fmt: skip
# More than the bytes of a status in any implementation.
_STATUS = 64
_TAG = 77

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
_BYTES = {"float": 4, "double": 8, "i32": 4, "i64": 8}


def _at(word: str, to: str, kind: str = "i64") -> str:
    """Return IR that loads a word of the table `%t` into the value `%to`."""
    return f"""  %{to}.at = getelementptr i64, ptr %t, i64 {_WORDS.index(word)}
  %{to} = load {kind}, ptr %{to}.at
"""


_WAIT = f"""
define internal i32 @wait(ptr %t, i32 %n) {{
entry:
{_at("testall", "testall", "ptr")}{_at("requests", "requests", "ptr")}{_at("statuses", "statuses", "ptr")}
{_at("flag", "flag", "ptr")}{_at("yield", "yield", "ptr")}{_at("idle", "idle", "ptr")}
{_at("spins", "spare")}  br label %poll
poll:
  %spins = phi i64 [0, %entry], [%more, %pause], [%more, %yielded], [%more, %asked]
  %rc = call i32 %testall(i32 %n, ptr %requests, ptr %flag, ptr %statuses)
  %bad = icmp ne i32 %rc, 0
  br i1 %bad, label %failed, label %look
look:
  %is = load i32, ptr %flag
  %done = icmp ne i32 %is, 0
  br i1 %done, label %ended, label %pause
pause:
  %more = add i64 %spins, 1
  %soon = icmp ult i64 %more, %spare
  br i1 %soon, label %poll, label %longer
longer:
  %late = add i64 %spare, {_YIELDS}
  %still = icmp ult i64 %more, %late
  br i1 %still, label %yielded, label %asked
yielded:
  call i32 %yield()
  br label %poll
asked:
  %stop = call i32 %idle()
  %stops = icmp ne i32 %stop, 0
  br i1 %stops, label %failed, label %poll
ended:
  ret i32 0
failed:
  ret i32 1
}}

define internal i32 @send(ptr %t, i32 %number, ptr %x, i64 %nbytes, i64 %to) {{
{_at("isend", "isend", "ptr")}{_at("comm", "comm")}{_at("byte", "byte")}{_at("requests", "requests", "ptr")}
{_at("width", "width")}  %index = zext i32 %number to i64
  %offset = mul i64 %index, %width
  %request = getelementptr i8, ptr %requests, i64 %offset
  %count = trunc i64 %nbytes to i32
  %rank = trunc i64 %to to i32
  %rc = call i32 %isend(ptr %x, i32 %count, i64 %byte, i32 %rank, i32 {_TAG}, i64 %comm, ptr %request)
  ret i32 %rc
}}

define internal i32 @receive(ptr %t, i32 %number, ptr %x, i64 %nbytes, i64 %from) {{
{_at("irecv", "irecv", "ptr")}{_at("comm", "comm")}{_at("byte", "byte")}{_at("requests", "requests", "ptr")}
{_at("width", "width")}  %index = zext i32 %number to i64
  %offset = mul i64 %index, %width
  %request = getelementptr i8, ptr %requests, i64 %offset
  %count = trunc i64 %nbytes to i32
  %rank = trunc i64 %from to i32
  %rc = call i32 %irecv(ptr %x, i32 %count, i64 %byte, i32 %rank, i32 {_TAG}, i64 %comm, ptr %request)
  ret i32 %rc
}}

define i32 @wengert_mpi_gather(ptr %t, ptr %x, ptr %out, i64 %nbytes) {{
{_at("iallgather", "iallgather", "ptr")}{_at("comm", "comm")}{_at("byte", "byte")}{_at("requests", "requests", "ptr")}
  %count = trunc i64 %nbytes to i32
  %rc = call i32 %iallgather(ptr %x, i32 %count, i64 %byte, ptr %out, i32 %count, i64 %byte, i64 %comm, ptr %requests)
  %bad = icmp ne i32 %rc, 0
  br i1 %bad, label %failed, label %wait
wait:
  %waited = call i32 @wait(ptr %t, i32 1)
  ret i32 %waited
failed:
  ret i32 1
}}
"""


def _sum(kind: str, add: str) -> str:
    """Return IR of `add_KIND`: the sum of rows, whose addresses are a table, in their order."""
    lanes = 32 // _BYTES[kind]
    v = f"<{lanes} x {kind}>"
    size = _BYTES[kind]

    def loop(name: str, t: str, step: int, first: str, last: str, after: str) -> str:
        return f"""{name}:
  %{name}.i = phi i64 [{first}], [%{name}.next, %{name}.stored]
  %{name}.go = icmp ult i64 %{name}.i, {last}
  br i1 %{name}.go, label %{name}.begin, label %{after}
{name}.begin:
  %{name}.row0 = load ptr, ptr %rows
  %{name}.p0 = getelementptr {kind}, ptr %{name}.row0, i64 %{name}.i
  %{name}.x0 = load {t}, ptr %{name}.p0, align {size}
  br label %{name}.row
{name}.row:
  %{name}.r = phi i64 [1, %{name}.begin], [%{name}.r1, %{name}.row]
  %{name}.s = phi {t} [%{name}.x0, %{name}.begin], [%{name}.s1, %{name}.row]
  %{name}.rp = getelementptr ptr, ptr %rows, i64 %{name}.r
  %{name}.rowr = load ptr, ptr %{name}.rp
  %{name}.pr = getelementptr {kind}, ptr %{name}.rowr, i64 %{name}.i
  %{name}.x = load {t}, ptr %{name}.pr, align {size}
  %{name}.s1 = {add} {t} %{name}.s, %{name}.x
  %{name}.r1 = add i64 %{name}.r, 1
  %{name}.more = icmp ult i64 %{name}.r1, %ranks
  br i1 %{name}.more, label %{name}.row, label %{name}.stored
{name}.stored:
  %{name}.to = getelementptr {kind}, ptr %out, i64 %{name}.i
  store {t} %{name}.s1, ptr %{name}.to, align {size}
  %{name}.next = add i64 %{name}.i, {step}
  br label %{name}
"""

    return f"""
define internal void @add_{kind}(ptr %rows, i64 %ranks, ptr %out, i64 %count) {{
entry:
  %whole = and i64 %count, {-lanes}
  br label %wide
{loop("wide", v, lanes, "0, %entry", "%whole", "one")}{loop("one", kind, 1, "%whole, %wide", "%count", "end")}end:
  ret void
}}
"""


def _reductions(kind: str) -> str:
    """Return IR of `small_KIND` and `scatter_KIND`: a sum by gathering, and in pieces that all send to all."""
    size = _BYTES[kind]
    piece = PIECE // size
    return f"""
define i32 @wengert_mpi_small_{kind}(ptr %t, ptr %x, ptr %out, ptr %scratch, i64 %count) {{
entry:
{_at("ranks", "ranks")}{_at("rows", "rows", "ptr")}  %nbytes = mul i64 %count, {size}
  %rc = call i32 @wengert_mpi_gather(ptr %t, ptr %x, ptr %scratch, i64 %nbytes)
  %bad = icmp ne i32 %rc, 0
  br i1 %bad, label %failed, label %point
point:
  %r = phi i64 [0, %entry], [%r1, %point]
  %offset = mul i64 %r, %nbytes
  %row = getelementptr i8, ptr %scratch, i64 %offset
  %at = getelementptr ptr, ptr %rows, i64 %r
  store ptr %row, ptr %at
  %r1 = add i64 %r, 1
  %more = icmp ult i64 %r1, %ranks
  br i1 %more, label %point, label %sum
sum:
  call void @add_{kind}(ptr %rows, i64 %ranks, ptr %out, i64 %count)
  ret i32 0
failed:
  ret i32 1
}}

; Every rank has a row of `count` elements for each, `stride` apart: `out` is the sum of what comes here. With a
; stride of 0 all get the same row.
define i32 @wengert_mpi_scatter_{kind}(ptr %t, ptr %x, i64 %stride, ptr %out, ptr %scratch, i64 %count) {{
entry:
{_at("ranks", "ranks")}{_at("own", "own")}{_at("rows", "rows", "ptr")}  %others = sub i64 %ranks, 1
  %half = mul i64 %others, {PIECE}
  %ownoffset = mul i64 %own, %stride
  %ownrow = getelementptr {kind}, ptr %x, i64 %ownoffset
  br label %piece
; One piece is posted before the one before it is added up: the first time there is none to be added up.
piece:
  %k = phi i64 [0, %entry], [%k1, %added]
  %from = mul i64 %k, {piece}
  %there = icmp ult i64 %from, %count
  %parity = and i64 %k, 1
  br i1 %there, label %post, label %posted
post:
  %left = sub i64 %count, %from
  %isshort = icmp ult i64 %left, {piece}
  %n = select i1 %isshort, i64 %left, i64 {piece}
  %nbytes = mul i64 %n, {size}
  %offset = mul i64 %parity, %half
  %buffer = getelementptr i8, ptr %scratch, i64 %offset
  br label %peer
peer:
  %p = phi i64 [0, %post], [%p1, %next]
  %slot = phi i64 [0, %post], [%slot1, %next]
  %isown = icmp eq i64 %p, %own
  br i1 %isown, label %next, label %exchange
exchange:
  %so = mul i64 %slot, {PIECE}
  %into = getelementptr i8, ptr %buffer, i64 %so
  %number = trunc i64 %slot to i32
  %twice = mul i32 %number, 2
  %twice1 = add i32 %twice, 1
  %rc1 = call i32 @receive(ptr %t, i32 %twice, ptr %into, i64 %nbytes, i64 %p)
  %rowoffset = mul i64 %p, %stride
  %elements = add i64 %rowoffset, %from
  %what = getelementptr {kind}, ptr %x, i64 %elements
  %rc2 = call i32 @send(ptr %t, i32 %twice1, ptr %what, i64 %nbytes, i64 %p)
  %rc = or i32 %rc1, %rc2
  %bad = icmp ne i32 %rc, 0
  br i1 %bad, label %failed, label %next
next:
  %used = phi i64 [0, %peer], [1, %exchange]
  %slot1 = add i64 %slot, %used
  %p1 = add i64 %p, 1
  %more = icmp ult i64 %p1, %ranks
  br i1 %more, label %peer, label %posted
posted:
  %isfirst = icmp eq i64 %k, 0
  br i1 %isfirst, label %settle, label %before
before:
  %kb = sub i64 %k, 1
  %bparity = and i64 %kb, 1
  %bfrom = mul i64 %kb, {piece}
  %bleft = sub i64 %count, %bfrom
  %bshort = icmp ult i64 %bleft, {piece}
  %bn = select i1 %bshort, i64 %bleft, i64 {piece}
  %boffset = mul i64 %bparity, %half
  %bbuffer = getelementptr i8, ptr %scratch, i64 %boffset
  br label %point
point:
  %r = phi i64 [0, %before], [%r1, %pointed]
  %rslot = phi i64 [0, %before], [%rslot1, %pointed]
  %at = getelementptr ptr, ptr %rows, i64 %r
  %rown = icmp eq i64 %r, %own
  br i1 %rown, label %mine, label %theirs
mine:
  %mrow = getelementptr {kind}, ptr %ownrow, i64 %bfrom
  store ptr %mrow, ptr %at
  br label %pointed
theirs:
  %to = mul i64 %rslot, {PIECE}
  %trow = getelementptr i8, ptr %bbuffer, i64 %to
  store ptr %trow, ptr %at
  br label %pointed
pointed:
  %rused = phi i64 [0, %mine], [1, %theirs]
  %rslot1 = add i64 %rslot, %rused
  %r1 = add i64 %r, 1
  %rmore = icmp ult i64 %r1, %ranks
  br i1 %rmore, label %point, label %sum
sum:
  %target = getelementptr {kind}, ptr %out, i64 %bfrom
  call void @add_{kind}(ptr %rows, i64 %ranks, ptr %target, i64 %bn)
  br label %settle
settle:
  br i1 %there, label %await, label %ended
await:
  %requests = mul i64 %others, 2
  %nr = trunc i64 %requests to i32
  %waited = call i32 @wait(ptr %t, i32 %nr)
  %stopped = icmp ne i32 %waited, 0
  br i1 %stopped, label %failed, label %added
added:
  %k1 = add i64 %k, 1
  br label %piece
ended:
  ret i32 0
failed:
  ret i32 1
}}
"""


@cache
def _functions() -> dict[str, Any]:
    """Return the native functions by name; empty where there is no code generator."""
    if machine.lack():
        return {}
    target = machine.host()
    sums = "".join(_sum(kind, "add" if kind[0] == "i" else "fadd") + _reductions(kind) for kind in _BYTES)
    text = f'target triple = "{target.triple}"\n{_WAIT}{sums}'
    known = "mpi_" + hashlib.sha256(f"{target}\n{text}".encode()).hexdigest()[:32]
    code = object_cache.load(known, target)
    if code is None:
        code = machine.compile_ir(text, target)
        object_cache.keep(known, target, code)
    names = ["gather", *(f"{what}_{k}" for k in _BYTES for what in ("small", "scatter"))]
    addresses = machine.load_all([code], [f"wengert_mpi_{name}" for name in names])
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    takes = {
        "gather": (pointer, pointer, pointer, number),
        "small": (pointer, pointer, pointer, pointer, number),
        "scatter": (pointer, pointer, number, pointer, pointer, number),
    }
    return {
        name: ctypes.CFUNCTYPE(ctypes.c_int32, *takes[name.partition("_")[0]])(address)
        for name, address in zip(names, addresses, strict=True)
    }


def _pointer(x: Any) -> int:
    found: int = x.__array_interface__["data"][0]
    return found


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Stopped(Exception):
    """The end of a wait that `idle` gave up, or of a call that MPI did not take."""


class NativeLine:
    """Ranks along a mesh axis: a communicator of MPI's, as native code has it.

    `idle` is called while a wait takes long, and says by 1 that it is to end; methods then raise Stopped.
    """

    def __init__(self, MPI: Any, comm: Any, own: int, ranks: int, idle: Any) -> None:
        library, system = ctypes.CDLL(MPI.__file__), ctypes.CDLL(None)
        self.ranks = ranks
        self.functions = _functions()
        self.requests = np.zeros((2 * ranks, MPI._sizeof(MPI.Request)), np.uint8)
        self.statuses = np.zeros((2 * ranks, _STATUS), np.uint8)
        self.flag, self.rows = np.zeros(1, np.int32), np.zeros(ranks, np.int64)
        self.scratch = np.empty(max(ranks * SMALL, 2 * (ranks - 1) * PIECE), np.uint8)
        self.kept = comm, idle

        def address(function: Any) -> int:
            return ctypes.cast(function, ctypes.c_void_p).value or 0

        words = {
            "isend": address(library.MPI_Isend),
            "irecv": address(library.MPI_Irecv),
            "testall": address(library.MPI_Testall),
            "iallgather": address(library.MPI_Iallgather),
            "yield": address(system.sched_yield),
            "idle": address(idle),
            "comm": comm.handle,
            "byte": MPI.BYTE.handle,
            "own": own,
            "ranks": ranks,
            "requests": _pointer(self.requests),
            "statuses": _pointer(self.statuses),
            "width": self.requests.shape[1],
            "flag": _pointer(self.flag),
            "rows": _pointer(self.rows),
            "spins": _SPINS if MPI.COMM_WORLD.Get_size() <= _processors() else _SPINS_SHARED,
        }
        self.table = np.array([words[w] for w in _WORDS], np.int64)
        self.at = _pointer(self.table)
        self.scratch_at = _pointer(self.scratch)

    @staticmethod
    def adds(dtype: Any) -> bool:
        """Return whether values of a dtype are added here."""
        return dtype in _KINDS

    def gather(self, x: Any) -> Any:
        """Return the arrays of all ranks, stacked."""
        out = np.empty((self.ranks, *x.shape), x.dtype)
        self._call("gather", self.at, _pointer(x), _pointer(out), x.nbytes)
        return out

    def sum(self, x: Any) -> Any:
        """Return the sum of all ranks' arrays, in the order of the ranks."""
        kind, width = _KINDS[x.dtype]
        out, count = np.empty(x.shape, x.dtype), x.size * width
        if x.nbytes <= SMALL:
            self._call(f"small_{kind}", self.at, _pointer(x), _pointer(out), self.scratch_at, count)
            return out
        if self.ranks == 2:  # who send each other as much either way
            self._call(f"scatter_{kind}", self.at, _pointer(x), 0, _pointer(out), self.scratch_at, count)
            return out
        part = -(-x.size // self.ranks)
        rows = x.reshape(-1)
        if part * self.ranks != x.size:
            rows = np.zeros(part * self.ranks, x.dtype)
            rows[: x.size] = x.reshape(-1)
        parts = self.gather(self.scatter(rows.reshape(self.ranks, part)))
        return parts.reshape(-1)[: x.size].reshape(x.shape)

    def scatter(self, rows: Any) -> Any:
        """Return the sum, in the order of the ranks, of the rows that they have for this one."""
        kind, width = _KINDS[rows.dtype]
        out = np.empty(rows.shape[1:], rows.dtype)
        count = out.size * width
        self._call(f"scatter_{kind}", self.at, _pointer(rows), count, _pointer(out), self.scratch_at, count)
        return out

    def _call(self, name: str, *given: int) -> None:
        if self.functions[name](*given):
            raise Stopped(name)


IDLE = ctypes.CFUNCTYPE(ctypes.c_int32)


def native_line(MPI: Any, comm: Any, own: int, ranks: int, idle: Any) -> NativeLine | None:
    """Return a line whose collectives are native code; None where there is no code generator, or MPI hides itself."""
    if not _functions() or not hasattr(comm, "handle") or not hasattr(MPI, "_sizeof"):
        return None
    try:
        return NativeLine(MPI, comm, own, ranks, idle)
    except (AttributeError, OSError):  # the library exports no functions, or the system has no sched_yield
        return None
