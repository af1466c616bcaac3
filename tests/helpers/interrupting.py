"""Signals that arrive at a chosen instruction: the effect of Ctrl-C, at every place where it can strike.

A function that Python calls before every instruction counts them, and at one of them does what the arrival of SIGINT
does. It is native code: in a function of Python's the signal's handler would run there and then, and not where the
interpreter next looks for signals, which is what is to be found out about.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from wengert.execute.native.codegen import machine

_IR = """
target triple = "{triple}"
@opcodes = private constant [16 x i8] c"f_trace_opcodes\\00"
@interrupting_true = external global i8
declare i32 @PyObject_SetAttrString(ptr, ptr, ptr)
declare void @PyErr_SetInterrupt()
define i32 @interrupting_look(ptr %self, ptr %frame, i32 %what, ptr %arg) {{
  switch i32 %what, label %done [ i32 0, label %call
                                  i32 7, label %opcode ]
call:
  %set = call i32 @PyObject_SetAttrString(ptr %frame, ptr @opcodes, ptr @interrupting_true)
  br label %done
opcode:
  %words = inttoptr i64 {address} to ptr
  %before = load i64, ptr %words
  %count = add i64 %before, 1
  store i64 %count, ptr %words
  %wanted.p = getelementptr i64, ptr %words, i64 1
  %wanted = load i64, ptr %wanted.p
  %now = icmp eq i64 %count, %wanted
  br i1 %now, label %interrupt, label %done
interrupt:
  call void @PyErr_SetInterrupt()
  br label %done
done:
  ret i32 0
}}
"""

# How many instructions have begun, and before which one the signal arrives (0: none).
_words = np.zeros(2, np.int64)


@cache
def _look() -> int:
    binding = machine.llvm()
    for name in ("PyObject_SetAttrString", "PyErr_SetInterrupt"):
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        binding.add_symbol(name, address)
    binding.add_symbol("interrupting_true", id(True))
    text = _IR.format(triple=machine.host().triple, address=_words.ctypes.data)
    return machine.load(machine.compile_ir(text, machine.host()), "interrupting_look")


_set_trace = ctypes.pythonapi.PyEval_SetTrace
_set_trace.argtypes, _set_trace.restype = (ctypes.c_void_p, ctypes.c_void_p), None


def interrupted(run: Callable[[], object], at: int) -> bool:
    """Run a function with SIGINT before its instruction `at` (0: never), and return whether that ended it."""
    look = _look()
    _words[:] = 0, at
    try:
        try:
            _set_trace(look, None)
            run()
        finally:
            _set_trace(None, None)
    except KeyboardInterrupt:
        return True
    return False


def instructions(run: Callable[[], object]) -> int:
    """Return how many instructions a function runs."""
    assert not interrupted(run, 0)
    return int(_words[0])


def places(count: int, most: int) -> Iterator[int]:
    """Yield up to so many instructions of a run of `count`, spread evenly; all of them where there are no more."""
    step = max(1.0, count / most)
    at = 1.0
    while at <= count:
        yield int(at)
        at += step
