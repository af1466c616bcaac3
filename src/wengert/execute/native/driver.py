"""The driver: the native loop that runs a program's steps, alone or shared out among threads.

It is written as LLVM IR, by hand. A *call* block says what to run (`CALL_WORDS`), an array of
`STEP_WORDS` words for each step how. A step without a kernel is a jump or Python's: then the loop
returns its number, the caller runs it and comes back for the rest.

**Floating-point modes.** Kernels run in IEEE's default mode (no flushing of denormals, rounding to
nearest), whatever mode the caller's thread or the helper's creator is in: results must not depend
on who computes them.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import sys
from collections.abc import Callable
from functools import cache
from string import Template
from typing import Any, NamedTuple

import numpy as np

from . import kernel, machine, notes, sharing
from .plan import FIRST
from .types import Target

# The words of a call: the steps, the first to run, their number, the table of addresses, the team
# (0: alone), where to note the least time of each step in nanoseconds (0: take no times), how many
# turns of loops to run before Python has its say (signals are seen to there), and where to note who runs
# what, when (0: nowhere; see notes.py).
CALL_WORDS = CALL_STEPS, CALL_FIRST, CALL_COUNT, CALL_TABLE, CALL_TEAM, CALL_TIMES, CALL_TURNS, CALL_NOTES = range(8)
# The words of a step: the kernel's address (0: it is Python's, or a jump), its record, its units (of a
# jump: the step to go on with), the units of a chunk (0: it is not shared out; of a jump: 1). The record
# of a step of Python's or a jump (0: there is none) names a buffer and a number of words in it: it is
# done where one of them is not 0. Then what it has learned (see sharing.py): the mean times of one thread and of
# all, in nanoseconds, the runs since it last tried the way that it does not go, and the runs between such trials.
STEP_WORDS = STEP_KERNEL, _, STEP_UNITS, STEP_CHUNK, STEP_ALONE, STEP_TOGETHER, STEP_RUNS, STEP_INTERVAL = range(8)


class Driver(NamedTuple):
    """The native functions.

    `run(call)` runs steps until the end or one of Python's (or a jump that Python is asked before), and
    returns that step's number;
    `start(call, arrays)` puts the addresses of a tuple's arrays into the table's entries after the
    first ones, then does the same. `held_start` keeps the interpreter's lock: for programs of
    microseconds, where giving it up and waiting for it again would take longer than they do.
    `helper` is the address of a helper's main function, `dismiss(team)` makes helpers return (None
    where there can be none).
    """

    run: Callable[[int], int]
    start: Callable[[int, tuple[Any, ...]], int]
    held_start: Callable[[int, tuple[Any, ...]], int]
    helper: int
    dismiss: Callable[[int], int] | None


def has_threads() -> bool:
    """Whether the driver can share steps out: helpers need POSIX threads and Linux's futex."""
    return sys.platform == "linux" and platform.machine() in sharing.FUTEX


class _Source(NamedTuple):
    """The driver's text, as :func:`wengert.execute.native.kernel.code` takes it."""

    ir: str
    target: Target
    # Dispatching a step takes 1.8 ns so, and 1.4 ns of code that takes 20 ms longer to make.
    effort: int = 0

    @property
    def name(self) -> str:
        return "driver" + hashlib.sha256(f"{self.ir}\n{self.target.identity}".encode()).hexdigest()[:24]


@cache
def driver() -> Driver:
    """The driver, made at first use and the same for all programs."""
    helpers = has_threads()
    names = ["wengert_run", "wengert_start"] + (["wengert_helper", "wengert_dismiss"] if helpers else [])
    code, _ = kernel.code(_Source(ir(machine.host(), helpers), machine.host()))
    run, start, *rest = machine.load_all([code], names)
    plain, with_arrays = (ctypes.c_int64, ctypes.c_void_p), (ctypes.c_int64, ctypes.c_void_p, ctypes.py_object)
    go = ctypes.CFUNCTYPE(*plain)(run)
    free, held = ctypes.CFUNCTYPE(*with_arrays)(start), ctypes.PYFUNCTYPE(*with_arrays)(start)
    if not _reads_arrays(held):
        free = held = _slow_start(go)
    return Driver(go, free, held, rest[0] if rest else 0, ctypes.CFUNCTYPE(*plain)(rest[1]) if rest else None)


def _reads_arrays(start: Any) -> bool:
    """Whether objects are laid out as `start` takes them to be; tried on some, with nothing to run.

    CPython keeps a tuple's length after its header and its items after that, NumPy an array's
    address after the header.
    """
    if platform.python_implementation() != "CPython":
        return False
    base = np.arange(24.0)
    arrays = (base, base[3:], base[::-1], np.empty(0, np.int8), np.array(7), base.reshape(4, 6).T[1:])
    table = np.zeros(FIRST + len(arrays), np.int64)
    call = np.zeros(len(CALL_WORDS), np.int64)
    call[CALL_TABLE] = table.ctypes.data
    start(call.ctypes.data, arrays)
    return bool(table[FIRST:].tolist() == [a.ctypes.data for a in arrays])


def _slow_start(run: Callable[[int], int]) -> Any:
    """`start`, by what NumPy says of its arrays."""

    def start(call: int, arrays: tuple[Any, ...]) -> int:
        table = ctypes.c_int64.from_address(call + 8 * CALL_TABLE).value
        for i, array in enumerate(arrays):
            ctypes.c_int64.from_address(table + 8 * (FIRST + i)).value = array.ctypes.data
        return run(call)

    return start


def ir(target: Target, helpers: bool) -> str:
    """The text of the driver's module."""
    processor = target.triple.partition("-")[0]
    x86 = processor == "x86_64"
    parts = [f'target triple = "{target.triple}"', _MODE_X86 if x86 else _MODE_ARM, _RUN, _START]
    parts.append(sharing.IR if helpers else sharing.IR_WITHOUT)
    parts += [notes.CLOCK_OF_SYSTEM if helpers else notes.CLOCK_OF_PYTHON, notes.IR]
    constants = {**vars(sharing), **vars(notes)}
    numbers = {name: value for name, value in constants.items() if name.isupper() and isinstance(value, int)}
    return Template("\n".join(parts)).substitute(
        numbers,
        FIRST=FIRST,
        PAUSE="call void @llvm.x86.sse2.pause()" if x86 else "call void @llvm.aarch64.hint(i32 1)",
        FUTEX_CALL=sharing.FUTEX.get(processor, 0),
        TUPLE_SIZE=object.__basicsize__,
        TUPLE_ITEMS=tuple.__basicsize__,
        ARRAY_DATA=object.__basicsize__,
    )


# The mode of floating-point arithmetic: `default_mode` sets it and gives the one before, `set_mode`
# sets it back.
_MODE_X86 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()

define internal i64 @default_mode() {
  %p = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %p)
  %old = load i32, ptr %p
  %modes = and i32 %old, 65472            ; without the flags of what has happened, the low six bits
  %same = icmp eq i32 %modes, 8064        ; all masked, to nearest, no flushing
  br i1 %same, label %done, label %change
change:
  store i32 8064, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  br label %done
done:
  %wide = zext i32 %old to i64
  ret i64 %wide
}

define internal void @set_mode(i64 %old) {
  %narrow = trunc i64 %old to i32
  %modes = and i32 %narrow, 65472
  %same = icmp eq i32 %modes, 8064
  br i1 %same, label %done, label %change
change:
  %p = alloca i32
  store i32 %narrow, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  br label %done
done:
  ret void
}
"""
_MODE_ARM = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.hint(i32)

define internal i64 @default_mode() {
  %old = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  ret i64 %old
}

define internal void @set_mode(i64 %old) {
  call void @llvm.aarch64.set.fpcr(i64 %old)
  ret void
}
"""

_RUN = """
%Step = type { ptr, ptr, i64, i64, i64, i64, i64, i64 }
%Call = type { ptr, i64, i64, ptr, ptr, ptr, i64, ptr }

define i64 @wengert_run(ptr %call) {
  %steps = load ptr, ptr %call
  %first.p = getelementptr %Call, ptr %call, i64 0, i32 1
  %first = load i64, ptr %first.p
  %count.p = getelementptr %Call, ptr %call, i64 0, i32 2
  %count = load i64, ptr %count.p
  %table.p = getelementptr %Call, ptr %call, i64 0, i32 3
  %table = load ptr, ptr %table.p
  %team.p = getelementptr %Call, ptr %call, i64 0, i32 4
  %wanted = load ptr, ptr %team.p
  %times.p = getelementptr %Call, ptr %call, i64 0, i32 5
  %times = load ptr, ptr %times.p
  %timed = icmp ne ptr %times, null
  %notes.p = getelementptr %Call, ptr %call, i64 0, i32 7
  %notes = load ptr, ptr %notes.p
  %noted = icmp ne ptr %notes, null
  %watched = or i1 %timed, %noted
  %mode = call i64 @default_mode()
  %team = call ptr @acquire(ptr %wanted)
  %together = icmp ne ptr %team, null
  br label %next

next:
  %i = phi i64 [ %first, %0 ], [ %i.alone, %alone ], [ %i.slow, %slow.done ], [ %i.skip, %skip ],
             [ %target, %jump ], [ %target, %turn ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %step, label %end

step:
  %s = getelementptr %Step, ptr %steps, i64 %i
  %kernel = load ptr, ptr %s
  %chunk.p = getelementptr %Step, ptr %s, i64 0, i32 3
  %chunk = load i64, ptr %chunk.p
  %python = icmp eq ptr %kernel, null
  br i1 %python, label %condition, label %native

native:
  %split = icmp ne i64 %chunk, 0
  %share = and i1 %split, %together
  %slow = or i1 %share, %watched
  br i1 %slow, label %slow.step, label %alone

alone:
  %record.p = getelementptr %Step, ptr %s, i64 0, i32 1
  %record = load ptr, ptr %record.p
  %units.p = getelementptr %Step, ptr %s, i64 0, i32 2
  %units = load i64, ptr %units.p
  call void %kernel(ptr %table, ptr %record, i64 0, i64 %units, i64 0)
  %i.alone = add i64 %i, 1
  br label %next

slow.step:
  %took = call i64 @measured(ptr %team, ptr %s, ptr %table, i1 %share, ptr %notes)
  br i1 %timed, label %note, label %slow.done

note:
  %time.p = getelementptr i64, ptr %times, i64 %i
  %before = load i64, ptr %time.p
  %less = icmp slt i64 %took, %before
  %least = select i1 %less, i64 %took, i64 %before
  store i64 %least, ptr %time.p
  br label %slow.done

slow.done:
  %i.slow = add i64 %i, 1
  br label %next

condition:
  %words.p = getelementptr %Step, ptr %s, i64 0, i32 1
  %words = load ptr, ptr %words.p
  %always = icmp eq ptr %words, null
  br i1 %always, label %do, label %where
where:
  %entry = load i64, ptr %words
  %base.p = getelementptr ptr, ptr %table, i64 %entry
  %base = load ptr, ptr %base.p
  %offset.p = getelementptr i64, ptr %words, i64 1
  %offset = load i64, ptr %offset.p
  %asked = getelementptr i8, ptr %base, i64 %offset
  %number.p = getelementptr i64, ptr %words, i64 2
  %number = load i64, ptr %number.p
  br label %ask
ask:
  %j = phi i64 [ 0, %where ], [ %j.next, %answer ]
  %all = icmp sge i64 %j, %number
  br i1 %all, label %skip, label %answer
answer:
  %answer.p = getelementptr i64, ptr %asked, i64 %j
  %told = load i64, ptr %answer.p
  %j.next = add i64 %j, 1
  %yes = icmp ne i64 %told, 0
  br i1 %yes, label %do, label %ask
skip:
  %i.skip = add i64 %i, 1
  br label %next

do:
  %jumps = icmp ne i64 %chunk, 0
  br i1 %jumps, label %jump, label %end
jump:
  %target.p = getelementptr %Step, ptr %s, i64 0, i32 2
  %target = load i64, ptr %target.p
  %back = icmp sle i64 %target, %i
  br i1 %back, label %count.turn, label %next
count.turn:
  %turns.p = getelementptr %Call, ptr %call, i64 0, i32 6
  %turns = load i64, ptr %turns.p
  %spent = icmp sle i64 %turns, 0
  br i1 %spent, label %end, label %turn
turn:
  %turns.left = sub i64 %turns, 1
  store i64 %turns.left, ptr %turns.p
  br label %next

end:
  call void @release(ptr %team)
  call void @set_mode(i64 %mode)
  ret i64 %i
}
"""

_START = """
define i64 @wengert_start(ptr %call, ptr %arrays) {
  %size.p = getelementptr i8, ptr %arrays, i64 $TUPLE_SIZE
  %size = load i64, ptr %size.p
  %items = getelementptr i8, ptr %arrays, i64 $TUPLE_ITEMS
  %table.p = getelementptr %Call, ptr %call, i64 0, i32 3
  %table = load ptr, ptr %table.p
  %entries = getelementptr ptr, ptr %table, i64 $FIRST
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %i.next, %put ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %put, label %done
put:
  %item.p = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item.p
  %data.p = getelementptr i8, ptr %item, i64 $ARRAY_DATA
  %data = load ptr, ptr %data.p
  %entry = getelementptr ptr, ptr %entries, i64 %i
  store ptr %data, ptr %entry
  %i.next = add i64 %i, 1
  br label %next
done:
  %at = call i64 @wengert_run(ptr %call)
  ret i64 %at
}
"""
