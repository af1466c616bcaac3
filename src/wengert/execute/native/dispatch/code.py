"""The code of the compiled entry: a C function of Python's that follows a list of instructions.

A call is checked, fed, run and answered by one native function, the same for all programs; what it
does stands in a program of its own, an array of instructions, each of `WORDS` words: the address of
its handler, where to go on if it fails (0: the call is given up, and the caller tries another way),
and operands: objects, addresses of words that hold objects, entries of the table of addresses.

Whatever array a call reads or writes is *held* (a reference in a word of the instructions' data, given
back at the end) from the moment it was looked at. So an array that is to be written into shows by its
count of references whether anything else, this call included, has to do with it; and threads may do as
they like while the program runs without the interpreter's lock.

Objects are read where CPython and NumPy keep their parts: `layout.py` finds that out and makes sure.
"""

from __future__ import annotations

import hashlib
import sys
import types
from string import Template
from typing import NamedTuple

import numpy as np

from ....core.state.turns import BY_NATIVE
from ...xla.memory import Held
from ..codegen import kernel, machine
from ..codegen.types import Target
from . import elsewhere  # noqa: F401
from .handlers import HANDLERS
from .text import Handler, Layout

# Words of an instruction: the handler, where to go on if it fails, operands.
WORDS = 12
# Words of the header, which the function's `self`, an array, begins with: whether a call is under way, the
# number of arguments, where they are put, the first instruction, the held references and their number,
# what is returned for a call that is given up, how many turns (see `core.turns`) the call holds, and where the
# addresses of their words are.
HEADER = BUSY, ARGUMENTS, VALUES, FIRST, HELD, HELD_COUNT, MISS, ENTERED, TURNS = range(9)
_API = """
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyDict_New()
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare i64 @PyThread_get_thread_ident()
declare i32 @PyThread_acquire_lock_timed(ptr, i64, i32)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @wengert_new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @wengert_python_call(ptr, ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
# Objects that are always there, known to the code by a symbol each.
OBJECTS: dict[str, object] = {
    "none": None,
    "true": True,
    "false": False,
    "float": float,
    "int": int,
    "complex": complex,
    "method": types.MethodType,
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "ndarray": np.ndarray,
    "held": Held,
    "pointer_of": sys.intern("unsafe_buffer_pointer"),
    "wait_for": sys.intern("block_until_ready"),
    "begin": sys.intern("__enter__"),
    "end": sys.intern("__exit__"),
}
# The functions of these that NumPy's table has, by their places there.
NUMPY_API = {"wengert_new_array": 94}
PYTHON_API = tuple(
    name for line in _API.splitlines() if (name := line.partition("@")[2].partition("(")[0]).startswith("Py")
)


# The function itself. What it returns is the first of the held references.
_ENTRY = """
define internal i1 @int_of(ptr %object, ptr %to) {
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  %right = call i1 @is_number(i64 %value, ptr %to)
  ret i1 %right
}

define internal i1 @unsigned_of(ptr %object, ptr %to) {
  %value = call i64 @PyLong_AsUnsignedLongLong(ptr %object)
  %right = call i1 @is_number(i64 %value, ptr %to)
  ret i1 %right
}

define internal i1 @is_number(i64 %value, ptr %to) {
  store i64 %value, ptr %to
  %odd = icmp eq i64 %value, -1
  br i1 %odd, label %ask, label %right
ask:
  %error = call ptr @PyErr_Occurred()
  %wrong = icmp ne ptr %error, null
  br i1 %wrong, label %clear, label %right
clear:
  call void @PyErr_Clear()
  ret i1 false
right:
  ret i1 true
}

; The turns that the call holds are free again.
define internal void @leave(ptr %header) {
  %entered = getelementptr i64, ptr %header, i64 $ENTERED
  %count = load i64, ptr %entered
  %turns.p = getelementptr i64, ptr %header, i64 $TURNS
  %turns = load ptr, ptr %turns.p
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k.next, %free ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %free, label %done
free:
  %turn.p = getelementptr ptr, ptr %turns, i64 %k
  %words = load ptr, ptr %turn.p
  %native.p = getelementptr i64, ptr %words, i64 $BY_NATIVE
  store i64 0, ptr %native.p
  %k.next = add i64 %k, 1
  br label %next
done:
  store i64 0, ptr %entered
  ret void
}

define ptr @wengert_entry(ptr %self, ptr %args, i64 %count) {
  %header.p = getelementptr i8, ptr %self, i64 $ARRAY_DATA
  %header = load ptr, ptr %header.p
  %busy = load i64, ptr %header
  %wanted.p = getelementptr i64, ptr %header, i64 $ARGUMENTS
  %wanted = load i64, ptr %wanted.p
  %idle = icmp eq i64 %busy, 0
  %right = icmp eq i64 %count, %wanted
  %begin = and i1 %idle, %right
  br i1 %begin, label %start, label %give.up
start:
  store i64 1, ptr %header
  %values.p = getelementptr i64, ptr %header, i64 $VALUES
  %values = load ptr, ptr %values.p
  call void @copy_words(ptr %values, ptr %args, i64 %count)
  %first.p = getelementptr i64, ptr %header, i64 $FIRST
  %first = load ptr, ptr %first.p
  br label %next
next:
  %i = phi ptr [ %first, %start ], [ %following, %go.on ], [ %other, %failed ]
  %handler = load ptr, ptr %i
  %answer = call i64 %handler(ptr %i)
  switch i64 %answer, label %end [ i64 1, label %go.on
                                   i64 0, label %failed ]
go.on:
  %following = getelementptr i64, ptr %i, i64 $WORDS
  br label %next
failed:
  %other.p = getelementptr i64, ptr %i, i64 1
  %other = load ptr, ptr %other.p
  %none = icmp eq ptr %other, null
  br i1 %none, label %end, label %next
end:
  %held.p = getelementptr i64, ptr %header, i64 $HELD
  %held = load ptr, ptr %held.p
  %held.count.p = getelementptr i64, ptr %header, i64 $HELD_COUNT
  %held.count = load i64, ptr %held.count.p
  %returned = icmp eq i64 %answer, 3
  %made = load ptr, ptr %held
  %result = select i1 %returned, ptr %made, ptr null
  br i1 %returned, label %keep, label %drop
keep:
  store ptr null, ptr %held
  br label %drop
drop:
  %entered.p = getelementptr i64, ptr %header, i64 $ENTERED
  %entered = load i64, ptr %entered.p
  %holds = icmp ne i64 %entered, 0
  br i1 %holds, label %leave, label %release
leave:
  call void @leave(ptr %header)
  br label %release
release:
  call void @drop(ptr %held, i64 %held.count)
  store i64 0, ptr %header
  %miss = icmp eq i64 %answer, 0
  br i1 %miss, label %give.up, label %done
done:
  ret ptr %result
give.up:
  %miss.p = getelementptr i64, ptr %header, i64 $MISS
  %missed = load ptr, ptr %miss.p
  call void @Py_IncRef(ptr %missed)
  ret ptr %missed
}

define ptr @wengert_call(ptr %self, ptr %args, ptr %keywords) {
  %words.p = getelementptr i8, ptr %self, i64 $CALLED
  %words = load ptr, ptr %words.p
  %some = icmp ne ptr %words, null
  %plain = icmp eq ptr %keywords, null
  %try = and i1 %some, %plain
  br i1 %try, label %native, label %python
native:
  call void @Py_IncRef(ptr %words)
  %items = getelementptr i8, ptr %args, i64 $TUPLE_ITEMS
  %count.p = getelementptr i8, ptr %args, i64 $SIZE
  %count = load i64, ptr %count.p
  %result = call ptr @wengert_entry(ptr %words, ptr %items, i64 %count)
  %header.p = getelementptr i8, ptr %words, i64 $ARRAY_DATA
  %header = load ptr, ptr %header.p
  %miss.p = getelementptr i64, ptr %header, i64 $MISS
  %missed = load ptr, ptr %miss.p
  %miss = icmp eq ptr %result, %missed
  call void @Py_DecRef(ptr %words)
  br i1 %miss, label %given.up, label %done
given.up:
  call void @Py_DecRef(ptr %result)
  br label %python
python:
  %answer = call ptr @wengert_python_call(ptr %self, ptr %args, ptr %keywords)
  ret ptr %answer
done:
  ret ptr %result
}

define internal void @drop(ptr %words, i64 %count) {
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k.next, %skip ], [ %k.next2, %freed ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %look, label %done
look:
  %p = getelementptr ptr, ptr %words, i64 %k
  %object = load ptr, ptr %p
  %there = icmp ne ptr %object, null
  br i1 %there, label %free, label %skip
free:
  store ptr null, ptr %p
  %references = load i64, ptr %object
  %others = icmp ne i64 %references, 1
  %counted = and i1 %others, $PLAIN_COUNTS
  br i1 %counted, label %less, label %let.go
less:
  %references.less = sub i64 %references, 1
  store i64 %references.less, ptr %object
  br label %freed
let.go:
  call void @Py_DecRef(ptr %object)
  br label %freed
freed:
  %k.next2 = add i64 %k, 1
  br label %next
skip:
  %k.next = add i64 %k, 1
  br label %next
done:
  ret void
}

define internal void @copy_words(ptr %to, ptr %from, i64 %count) {
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k.next, %copy ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %copy, label %done
copy:
  %from.p = getelementptr i64, ptr %from, i64 %k
  %word = load i64, ptr %from.p
  %to.p = getelementptr i64, ptr %to, i64 %k
  store i64 %word, ptr %to.p
  %k.next = add i64 %k, 1
  br label %next
done:
  ret void
}

define internal i1 @words_are(ptr %pairs, i64 %count) {
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k.next, %right ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %look, label %all
look:
  %pair = getelementptr [2 x i64], ptr %pairs, i64 %k
  %address = load ptr, ptr %pair
  %wanted.p = getelementptr i64, ptr %pair, i64 1
  %wanted = load i64, ptr %wanted.p
  %found = load i64, ptr %address
  %is.right = icmp eq i64 %found, %wanted
  br i1 %is.right, label %right, label %wrong
right:
  %k.next = add i64 %k, 1
  br label %next
wrong:
  ret i1 false
all:
  ret i1 true
}

define internal i1 @same_words(ptr %a, ptr %b, i64 %count) {
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k.next, %same ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %look, label %equal
look:
  %a.p = getelementptr i64, ptr %a, i64 %k
  %a.word = load i64, ptr %a.p
  %b.p = getelementptr i64, ptr %b, i64 %k
  %b.word = load i64, ptr %b.p
  %is.same = icmp eq i64 %a.word, %b.word
  br i1 %is.same, label %same, label %other
same:
  %k.next = add i64 %k, 1
  br label %next
other:
  ret i1 false
equal:
  ret i1 true
}
"""


class _Source(NamedTuple):
    """The module's text, as :func:`wengert.execute.native.codegen.kernel.code` takes it."""

    ir: str
    target: Target
    effort: int = 2

    @property
    def name(self) -> str:
        return "entry" + hashlib.sha256(f"{self.ir}\n{self.target.identity}".encode()).hexdigest()[:24]


def ir(layout: Layout, called: int, target: Target) -> str:
    """Return the text of the module: the entry function, and a handler for every kind of instruction.

    `called` is the byte at which an object that is called has the words of its function.
    """
    parts = [f'target triple = "{target.triple}"', _API]
    parts += [f"@wengert_{name} = external global i8" for name in (*OBJECTS, "never")]
    places = {
        "ARGUMENTS": ARGUMENTS,
        "VALUES": VALUES,
        "FIRST": FIRST,
        "HELD": HELD,
        "HELD_COUNT": HELD_COUNT,
        "MISS": MISS,
        "ENTERED": ENTERED,
        "TURNS": TURNS,
        "BY_NATIVE": BY_NATIVE,
        "WORDS": WORDS,
        "CALLED": called,
        "ARRAY_DATA": layout.array_data,
        "SIZE": layout.size,
        "TUPLE_ITEMS": layout.tuple_items,
        "PLAIN_COUNTS": str(layout.plain_counts).lower(),
    }
    parts.append(Template(_ENTRY).substitute(places))
    for name, write in HANDLERS.items():
        handler = Handler(f"wengert_on_{name}", layout)
        write(handler)
        parts.append(handler.text())
    return "\n".join(parts)


def load(layout: Layout, called: int, symbols: dict[str, int]) -> dict[str, int]:
    """Return the addresses of the handlers, of the "entry", and of what objects are "called" by.

    `symbols` are the addresses of the functions and objects that they use.
    """
    for name, address in symbols.items():
        machine.llvm().add_symbol(name, address)
    code, _ = kernel.code(_Source(ir(layout, called, machine.host()), machine.host()))
    names = ["wengert_entry", "wengert_call", *(f"wengert_on_{name}" for name in HANDLERS)]
    return dict(zip(["entry", "called", *HANDLERS], machine.load_all([code], names)))
