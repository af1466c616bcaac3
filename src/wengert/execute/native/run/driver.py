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
from collections.abc import Callable, Sequence
from functools import cache
from string import Template
from typing import Any, NamedTuple

import numpy as np

from ....core import system
from ....core.spec import as_dtype
from ..codegen import kernel, machine
from ..codegen.types import Target
from ..plan.plan import FIRST
from . import profile, scheduler

# The words of a call: the steps, the first to run, their number, the table of addresses, the team
# (0: alone), where the least time of each step goes, in nanoseconds (0: take no times), how many
# iterations of loops to run before Python has its say (signals are seen to there), where to record who runs
# what, when (0: nowhere; see profile.py), how many arrays the caller gives, of which kinds (`KIND_WORDS` each), and
# whether the compiled entry runs it without the interpreter's lock.
CALL_WORDS = range(11)
CALL_STEPS, CALL_FIRST, CALL_COUNT, CALL_TABLE, CALL_TEAM, CALL_TIMES, CALL_ITERATIONS, CALL_PROFILE, *_given = (
    CALL_WORDS
)
CALL_GIVEN, CALL_KINDS, CALL_AWAY = _given
# The kind of an array that a caller gives: its dtype (the object), the number of its axes, where their sizes stand,
# and where their strides in bytes stand (0: it is contiguous).
KIND_WORDS = KIND_DTYPE, KIND_AXES, KIND_SIZES, KIND_STRIDES = range(4)
# The result of `start` where an array is of another kind.
WRONG_KIND = -1
# The words of a step: the kernel's address (0: it is Python's, or a jump), its record, its units (of a
# jump: the step to go on with), the units of a chunk (0: it is not shared out; of a jump: 1). The record
# of a step of Python's or a jump (0: there is none) names a buffer and a number of words in it: it is
# done where one of them is not 0. Then what it has learned (see scheduler.py): the mean times of one thread and of
# all, in nanoseconds, the runs since it last tried the way that it does not go, and the runs between such trials.
STEP_WORDS = STEP_KERNEL, _, STEP_UNITS, STEP_CHUNK, STEP_ALONE, STEP_TOGETHER, STEP_RUNS, STEP_INTERVAL = range(8)


class Driver(NamedTuple):
    """The driver's native functions.

    `run(call)` runs steps until the end or one of Python's (or a jump that Python is asked before), and
    returns that step's number;
    `start(call, arrays)` puts the addresses of a tuple's arrays into the table's entries after the
    first ones, then does the same; `WRONG_KIND` where one of them is not what the call says.
    `held_start` keeps the interpreter's lock: for programs of microseconds, where giving it up and
    waiting for it again would take longer than they do.
    `helper` is the address of a helper's main function, `dismiss(team)` makes helpers return (None
    where there can be none).
    """

    run: Callable[[int], int]
    start: Callable[[int, tuple[Any, ...]], int]
    held_start: Callable[[int, tuple[Any, ...]], int]
    helper: int
    dismiss: Callable[[int], int] | None


def has_threads() -> bool:
    """Return whether the driver can share steps out to helpers."""
    return system.current.has_helpers


class _Source(NamedTuple):
    """The driver's text, as :func:`wengert.execute.native.codegen.kernel.code` takes it."""

    ir: str
    target: Target
    # Dispatching a step takes 1.8 ns so, and 1.4 ns of code that takes 20 ms longer to make.
    effort: int = 0

    @property
    def name(self) -> str:
        return "driver" + hashlib.sha256(f"{self.ir}\n{self.target.identity}".encode()).hexdigest()[:24]


@cache
def driver() -> Driver:
    """Return the driver, made at first use and the same for all programs."""
    helpers = has_threads()
    names = ["wengert_run", "wengert_start"] + (["wengert_helper", "wengert_dismiss"] if helpers else [])
    machine.llvm().add_symbol("wengert_ndarray", id(np.ndarray))
    code, _ = kernel.code(_Source(ir(machine.host(), helpers), machine.host()))
    run, start, *rest = machine.load_all([code], names)
    plain, with_arrays = (ctypes.c_int64, ctypes.c_void_p), (ctypes.c_int64, ctypes.c_void_p, ctypes.py_object)
    go = ctypes.CFUNCTYPE(*plain)(run)
    free, held = ctypes.CFUNCTYPE(*with_arrays)(start), ctypes.PYFUNCTYPE(*with_arrays)(start)
    if not _reads_arrays(held):
        free = held = _slow_start(go)
    return Driver(go, free, held, rest[0] if rest else 0, ctypes.CFUNCTYPE(*plain)(rest[1]) if rest else None)


def _reads_arrays(start: Any) -> bool:
    """Return whether objects are laid out as `start` takes them to be; tried on some, with nothing to run.

    CPython keeps a tuple's length after its header and its items after that, NumPy an array's
    address, axes, dtype and flags after the header.
    """
    if platform.python_implementation() != "CPython":
        return False
    base = np.arange(24.0)
    arrays = (base, base[3:], base[::-1], np.empty(0, np.int8), np.array(7), base.reshape(4, 6).T[1:])
    call = np.zeros(len(CALL_WORDS), np.int64)

    def fed(*given: Any) -> list[int] | None:
        table = np.zeros(FIRST + len(given), np.int64)
        call[CALL_TABLE] = table.ctypes.data
        return None if start(call.ctypes.data, given) == WRONG_KIND else table[FIRST:].tolist()

    if fed(*arrays) != [a.ctypes.data for a in arrays] or fed(np.float64(1.0)) is not None:
        return False
    words = kinds([(a.dtype, a.shape, None if a.flags.c_contiguous else a.strides) for a in arrays])
    call[CALL_GIVEN], call[CALL_KINDS] = len(arrays), words.ctypes.data
    if fed(*arrays) is None:
        return False
    wrong = (base.astype("f4"), base[4:], base, np.empty((0, 1), np.int8), np.array([7]), base.reshape(6, 4)[:5])
    return all(fed(*arrays[:i], other, *arrays[i + 1 :]) is None for i, other in enumerate(wrong))


class _Kinds(np.ndarray[Any, np.dtype[np.int64]]):
    """The words that describe kinds of arrays, with the objects that they point to."""

    kept: list[Any]


def kinds(arrays: Sequence[tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...] | None]]) -> _Kinds:
    """Return the words for arrays of these dtypes, shapes and strides in bytes (None: contiguous)."""
    words = np.zeros((len(arrays), len(KIND_WORDS)), np.int64).view(_Kinds)
    words.kept = []
    for row, (dtype, shape, strides) in zip(words, arrays):
        dtype = as_dtype(dtype)
        sizes = np.array(shape, np.int64)
        steps = None if strides is None else np.array(strides, np.int64)
        row[:] = id(dtype), len(shape), sizes.ctypes.data, 0 if steps is None else steps.ctypes.data
        words.kept += [dtype, sizes, steps]
    return words


def _slow_start(run: Callable[[int], int]) -> Any:
    """Return a `start` that asks NumPy about its arrays."""

    def start(call: int, arrays: tuple[Any, ...]) -> int:
        words = (ctypes.c_int64 * len(CALL_WORDS)).from_address(call)
        table = words[CALL_TABLE]
        if any(type(a) is not np.ndarray for a in arrays):
            return WRONG_KIND
        if not _are_of_kinds(arrays, words[CALL_GIVEN], words[CALL_KINDS]):
            return WRONG_KIND
        for i, array in enumerate(arrays):
            ctypes.c_int64.from_address(table + 8 * (FIRST + i)).value = array.ctypes.data
        return run(call)

    return start


def _are_of_kinds(arrays: tuple[Any, ...], count: int, address: int) -> bool:
    for i, a in enumerate(arrays[:count]):
        kind = (ctypes.c_int64 * len(KIND_WORDS)).from_address(address + 8 * len(KIND_WORDS) * i)
        axes = kind[KIND_AXES]
        if id(a.dtype) != kind[KIND_DTYPE] or a.ndim != axes or not a.flags.aligned:
            return False
        if axes and a.shape != tuple((ctypes.c_int64 * axes).from_address(kind[KIND_SIZES])):
            return False
        steps = kind[KIND_STRIDES]
        if not (a.strides == tuple((ctypes.c_int64 * axes).from_address(steps)) if steps else a.flags.c_contiguous):
            return False
    return len(arrays) >= count


def ir(target: Target, helpers: bool) -> str:
    """Return the text of the driver's module."""
    processor = target.triple.partition("-")[0]
    x86 = processor == "x86_64"
    parts = [f'target triple = "{target.triple}"', MODE_X86 if x86 else MODE_ARM, _RUN, _START]
    parts.append(scheduler.IR if helpers else scheduler.IR_WITHOUT)
    parts += [profile.CLOCK_OF_SYSTEM if helpers else profile.CLOCK_OF_PYTHON, profile.IR]
    constants = {**vars(scheduler), **vars(profile)}
    numbers = {name: value for name, value in constants.items() if name.isupper() and isinstance(value, int)}
    return Template("\n".join(parts)).substitute(
        numbers,
        FIRST=FIRST,
        WRONG_KIND=WRONG_KIND,
        PAUSE="call void @llvm.x86.sse2.pause()" if x86 else "call void @llvm.aarch64.hint(i32 1)",
        FUTEX_CALL=system.FUTEX.get(processor, 0),
        TUPLE_SIZE=object.__basicsize__,
        TUPLE_ITEMS=tuple.__basicsize__,
        ARRAY_DATA=object.__basicsize__,
        TYPE=object.__basicsize__ - 8,
        ARRAY_AXES=object.__basicsize__ + 8,
        ARRAY_SIZES=object.__basicsize__ + 16,
        ARRAY_STRIDES=object.__basicsize__ + 24,
        ARRAY_DTYPE=object.__basicsize__ + 40,
        ARRAY_FLAGS=object.__basicsize__ + 48,
    )


# The mode of floating-point arithmetic: `default_mode` sets it and gives the one before, `set_mode`
# sets it back.
MODE_X86 = """
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
MODE_ARM = """
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
%Call = type { ptr, i64, i64, ptr, ptr, ptr, i64, ptr, i64, ptr }

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
  %profile.p = getelementptr %Call, ptr %call, i64 0, i32 7
  %profile = load ptr, ptr %profile.p
  %profiled = icmp ne ptr %profile, null
  %watched = or i1 %timed, %profiled
  %mode = call i64 @default_mode()
  %team = call ptr @acquire(ptr %wanted)
  %together = icmp ne ptr %team, null
  br label %next

next:
  %i = phi i64 [ %first, %0 ], [ %i.alone, %alone ], [ %i.slow, %slow.done ], [ %i.skip, %skip ],
             [ %target, %jump ], [ %target, %iteration ]
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
  %took = call i64 @measured(ptr %team, ptr %s, ptr %table, i1 %share, ptr %profile)
  br i1 %timed, label %record.time, label %slow.done

record.time:
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
  br i1 %back, label %count.iteration, label %next
count.iteration:
  %iterations.p = getelementptr %Call, ptr %call, i64 0, i32 6
  %iterations = load i64, ptr %iterations.p
  %spent = icmp sle i64 %iterations, 0
  br i1 %spent, label %end, label %iteration
iteration:
  %iterations.left = sub i64 %iterations, 1
  store i64 %iterations.left, ptr %iterations.p
  br label %next

end:
  call void @release(ptr %team)
  call void @set_mode(i64 %mode)
  ret i64 %i
}
"""

_START = """
@wengert_ndarray = external global i8

; Whether an array is of a kind: dtype, sizes, and strides or (where none are said) C order; aligned in any case.
define internal i1 @is_kind(ptr %array, ptr %kind) {
  %dtype.p = getelementptr i8, ptr %array, i64 $ARRAY_DTYPE
  %dtype = load ptr, ptr %dtype.p
  %wanted = load ptr, ptr %kind
  %same.dtype = icmp eq ptr %dtype, %wanted
  %axes.p = getelementptr i8, ptr %array, i64 $ARRAY_AXES
  %axes.32 = load i32, ptr %axes.p
  %axes = zext i32 %axes.32 to i64
  %wanted.axes.p = getelementptr i64, ptr %kind, i64 1
  %wanted.axes = load i64, ptr %wanted.axes.p
  %same.axes = icmp eq i64 %axes, %wanted.axes
  %wanted.sizes.p = getelementptr i64, ptr %kind, i64 2
  %wanted.sizes = load ptr, ptr %wanted.sizes.p
  %wanted.strides.p = getelementptr i64, ptr %kind, i64 3
  %wanted.strides = load ptr, ptr %wanted.strides.p
  %plain = icmp eq ptr %wanted.strides, null
  %flags.p = getelementptr i8, ptr %array, i64 $ARRAY_FLAGS
  %flags = load i32, ptr %flags.p
  %needed = select i1 %plain, i32 257, i32 256       ; C order, aligned
  %have = and i32 %flags, %needed
  %fit = icmp eq i32 %have, %needed
  %a = and i1 %same.dtype, %same.axes
  %b = and i1 %a, %fit
  br i1 %b, label %look, label %no
look:
  %sizes.p = getelementptr i8, ptr %array, i64 $ARRAY_SIZES
  %sizes = load ptr, ptr %sizes.p
  %strides.p = getelementptr i8, ptr %array, i64 $ARRAY_STRIDES
  %strides = load ptr, ptr %strides.p
  br label %next
next:
  %k = phi i64 [ 0, %look ], [ %k.next, %right ]
  %more = icmp slt i64 %k, %axes
  br i1 %more, label %compare, label %yes
compare:
  %size.p = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %size.p
  %wanted.size.p = getelementptr i64, ptr %wanted.sizes, i64 %k
  %wanted.size = load i64, ptr %wanted.size.p
  %same.size = icmp eq i64 %size, %wanted.size
  br i1 %same.size, label %stride, label %no
stride:
  br i1 %plain, label %right, label %compare.stride
compare.stride:
  %stride.p = getelementptr i64, ptr %strides, i64 %k
  %stride.now = load i64, ptr %stride.p
  %wanted.stride.p = getelementptr i64, ptr %wanted.strides, i64 %k
  %wanted.stride = load i64, ptr %wanted.stride.p
  %same.stride = icmp eq i64 %stride.now, %wanted.stride
  br i1 %same.stride, label %right, label %no
right:
  %k.next = add i64 %k, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

define i64 @wengert_start(ptr %call, ptr %arrays) {
  %size.p = getelementptr i8, ptr %arrays, i64 $TUPLE_SIZE
  %size = load i64, ptr %size.p
  %items = getelementptr i8, ptr %arrays, i64 $TUPLE_ITEMS
  %table.p = getelementptr %Call, ptr %call, i64 0, i32 3
  %table = load ptr, ptr %table.p
  %entries = getelementptr ptr, ptr %table, i64 $FIRST
  %given.p = getelementptr %Call, ptr %call, i64 0, i32 8
  %given = load i64, ptr %given.p
  %kinds.p = getelementptr %Call, ptr %call, i64 0, i32 9
  %kinds = load ptr, ptr %kinds.p
  %enough = icmp sge i64 %size, %given
  br i1 %enough, label %next, label %wrong
next:
  %i = phi i64 [ 0, %0 ], [ %i.next, %put ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %look, label %done
look:
  %item.p = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item.p
  %type.p = getelementptr i8, ptr %item, i64 $TYPE
  %type = load ptr, ptr %type.p
  %array = icmp eq ptr %type, @wengert_ndarray
  br i1 %array, label %typed, label %wrong
typed:
  %is.given = icmp slt i64 %i, %given
  br i1 %is.given, label %ask, label %put
ask:
  %first.word = mul i64 %i, 4
  %kind = getelementptr i64, ptr %kinds, i64 %first.word
  %fits = call i1 @is_kind(ptr %item, ptr %kind)
  br i1 %fits, label %put, label %wrong
put:
  %data.p = getelementptr i8, ptr %item, i64 $ARRAY_DATA
  %data = load ptr, ptr %data.p
  %entry = getelementptr ptr, ptr %entries, i64 %i
  store ptr %data, ptr %entry
  %i.next = add i64 %i, 1
  br label %next
done:
  ; Where the last call stopped is nothing to this one: a signal may have ended that anywhere.
  %first.p = getelementptr %Call, ptr %call, i64 0, i32 1
  store i64 0, ptr %first.p
  %at = call i64 @wengert_run(ptr %call)
  ret i64 %at
wrong:
  ret i64 $WRONG_KIND
}
"""
