"""Entry points: a program as a C function.

An entry point is a function of its own, written as LLVM IR around one plan. It makes what a call needs (the block that
the driver reads, the table of addresses, the arena) on its stack, or by `malloc` where that is large, so any number of
threads may be in it at once. (One block is left to the next call: fresh pages cost more than small programs.) The
calling thread does all of the work; nothing of Python is touched. What does not change (the steps and their records,
constants) is read where the program keeps it.

The innermost function takes arrays, as `Form.ARRAYS` does; the other forms call it.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..codegen import machine
from ..plan.plan import ALIGN, ARENA, SCRATCH, SCRATCH_STRIDE, Plan, View, rounded
from ..run.driver import (
    CALL_COUNT,
    CALL_ITERATIONS,
    CALL_STEPS,
    CALL_TABLE,
    CALL_WORDS,
)
from ..run.runtime import Program
from .text import Text

# Temporaries of at most so many bytes stand on the caller's stack, of which it may not have much.
ON_STACK = 1 << 11
# What an entry point returns where there is no memory. A positive number is a step at which it stopped, plus one.
NO_MEMORY = -1


class Form(enum.Enum):
    """The forms of C functions: of arrays, of one vector of float64, of one float64."""

    ARRAYS = "arrays"
    VECTOR = "vector"
    NUMBER = "number"


class Kind(enum.Enum):
    """The kinds of C functions, by what they compute."""

    VALUE = "value"
    VALUE_AND_GRAD = "value_and_grad"
    HVP = "hvp"
    LOGP_AND_GRAD = "logp_and_grad"
    EXPAND = "expand"


class Signature(NamedTuple):
    """A C signature: the type of the result, and of the arguments with their names."""

    result: str
    arguments: tuple[tuple[str, str], ...]

    def text(self, name: str) -> str:
        """Return the declaration of a function of this name."""
        return f"{self.result} {name}({', '.join(f'{kind}{name}' for kind, name in self.arguments)})"

    @property
    def types(self) -> str:
        """The types alone, as SciPy writes them: `double (int, double *, void *)`."""
        kinds = [kind.removeprefix("const ").strip() for kind, _ in self.arguments]
        return f"{self.result} ({', '.join(kinds)})"


_USER = ("void *", "user")
_DERIVATIVES = (Kind.VALUE, Kind.VALUE_AND_GRAD, Kind.HVP)
SIGNATURES: dict[tuple[Form, Kind], Signature] = {
    **{
        (Form.ARRAYS, kind): Signature("int", (("const void *const *", "inputs"), ("void *const *", "outputs"), _USER))
        for kind in _DERIVATIVES
    },
    (Form.VECTOR, Kind.VALUE): Signature("double", (("int ", "n"), ("const double *", "x"), _USER)),
    (Form.VECTOR, Kind.VALUE_AND_GRAD): Signature(
        "double", (("unsigned ", "n"), ("const double *", "x"), ("double *", "grad"), _USER)
    ),
    (Form.VECTOR, Kind.HVP): Signature(
        "int", (("int ", "n"), ("const double *", "x"), ("const double *", "v"), ("double *", "product"), _USER)
    ),
    # What nuts-rs, the sampler of nutpie, calls: a log density with its gradient, and what is kept of a draw.
    (Form.VECTOR, Kind.LOGP_AND_GRAD): Signature(
        "int64_t", (("uint64_t ", "n"), ("const double *", "x"), ("double *", "grad"), ("double *", "logp"), _USER)
    ),
    (Form.VECTOR, Kind.EXPAND): Signature(
        "int64_t", (("uint64_t ", "n"), ("uint64_t ", "m"), ("const double *", "x"), ("double *", "values"), _USER)
    ),
    (Form.NUMBER, Kind.VALUE): Signature("double", (("double ", "x"), _USER)),
    (Form.NUMBER, Kind.VALUE_AND_GRAD): Signature("double", (("double ", "x"), ("double *", "derivative"), _USER)),
    (Form.NUMBER, Kind.HVP): Signature("double", (("double ", "x"), ("double ", "v"), _USER)),
}


class Entry:
    """A loaded entry point: its `address`, and all that has to live as long as it is called."""

    def __init__(self, program: Program, form: Form, kind: Kind, inner: Entry | None = None) -> None:
        name = f"wengert_entry_{next(_numbers)}"
        self._kept = (program, inner)
        self.address: int
        # The block of memory that the last call left to the next one, 0 where there is none.
        spare = np.zeros(1, np.int64)
        text = _Writer(program, name, spare.ctypes.data).text(form, kind, 0 if inner is None else inner.address)
        code = machine.compile_ir(text, machine.host())
        self.address, drop = machine.load_all([code], [name, f"{name}_drop"])
        weakref.finalize(self, _dropped, ctypes.CFUNCTYPE(None)(drop), spare).atexit = False


def _dropped(drop: Any, spare: Any) -> None:
    """Free the block of an entry point that nobody has any more; `spare`, where it is noted, lives until then."""
    drop()


_numbers = itertools.count()


class _Writer(Text):
    """The writer of one entry point's text."""

    def __init__(self, program: Program, name: str, spare: int) -> None:
        super().__init__()
        self.program, self.name = program, name
        self.spare = f"inttoptr (i64 {spare} to ptr)"
        self.plan: Plan = program.plan

    def text(self, form: Form, kind: Kind, value: int) -> str:
        inner = self.name if form is Form.ARRAYS else f"{self.name}_of_arrays"
        self.of_arrays(inner, "" if form is Form.ARRAYS else "internal ")
        if form is not Form.ARRAYS:
            _WRAPPERS[form, kind](self, inner, value)
        self.lines.append(f"define void @{self.name}_drop() {{")
        self.do(f"call void @free(ptr {self.exchanged('null')})")
        self.do("ret void")
        self.lines.append("}")
        return "\n".join([f'target triple = "{machine.host().triple}"', _DECLARATIONS, *self.lines])

    def given(self, array: str, index: int) -> str:
        """Return a pointer from the caller's array of them."""
        place = self.at(array, 8 * index)
        return self.value(f"load ptr, ptr {place}")

    # -- the function of arrays

    def of_arrays(self, name: str, linkage: str) -> None:
        plan, standing = self.plan, self.program.standing
        # Outputs that the program writes as the caller wants them: the others have memory here, and are copied.
        direct = [entry is not None and view.is_contiguous for view, entry in zip(plan.outputs, standing.outputs)]
        places: dict[int, int] = {}
        nbytes = plan.arena + standing.scratch
        for i, (view, entry) in enumerate(zip(plan.outputs, standing.outputs)):
            if entry is not None and not direct[i]:
                places[i] = nbytes
                nbytes += rounded(view.buffer.nbytes)
        self.lines.append(f"define {linkage}i32 @{name}(ptr %inputs, ptr %outputs, ptr %user) {{")
        call = self.value(f"alloca [{len(CALL_WORDS)} x i64], align 16")
        table = self.value(f"alloca [{standing.entries} x i64], align 16")
        memory = self.memory(nbytes)
        words = dict.fromkeys(CALL_WORDS, 0) | {
            CALL_STEPS: standing.steps.ctypes.data,
            CALL_COUNT: len(plan.steps),
            CALL_ITERATIONS: np.iinfo(np.int64).max,
        }
        for i, word in words.items():
            kind, shown = ("ptr", table) if i == CALL_TABLE else ("i64", str(word))
            self.do(f"store {kind} {shown}, ptr {self.at(call, 8 * i)}")
        self.put(table, ARENA, memory)
        self.put(table, SCRATCH, self.at(memory, plan.arena))
        self.do(f"store i64 {standing.scratch}, ptr {self.at(table, 8 * SCRATCH_STRIDE)}")
        for i, entry in enumerate(standing.inputs):
            self.put(table, entry, self.given("%inputs", i))
        for i, entry in enumerate(standing.outputs):
            if entry is not None:
                self.put(table, entry, self.given("%outputs", i) if direct[i] else self.at(memory, places[i]))
        for entry, address in standing.constants:
            self.do(f"store i64 {address}, ptr {self.at(table, 8 * entry)}")
        if plan.steps:
            run = f"inttoptr (i64 {standing.run} to ptr)"
            at = self.value(f"call i64 {run}(ptr {call})")
            stopped = self.value(f"icmp ne i64 {at}, {len(plan.steps)}")
            self.do(f"br i1 {stopped}, label %early, label %whole")
            self.label("early")
            self.release(memory, nbytes)
            stop = self.value(f"add i64 {at}, 1")
            self.do(f"ret i32 {self.value(f'trunc i64 {stop} to i32')}")
            self.label("whole")
        for i, view in enumerate(plan.outputs):
            if not direct[i]:
                entry, start = standing.place(view)
                source = self.at(self.value(f"load ptr, ptr {self.at(table, 8 * entry)}"), start)
                self.copy(source, view, self.given("%outputs", i))
        self.release(memory, nbytes)
        self.do("ret i32 0")
        self.lines.append("}")

    def put(self, table: str, entry: int, pointer: str) -> None:
        self.do(f"store ptr {pointer}, ptr {self.at(table, 8 * entry)}")

    def memory(self, nbytes: int) -> str:
        """Return aligned memory; code after it runs only where there is some."""
        if nbytes <= ON_STACK:
            return self.value(f"alloca [{max(1, nbytes)} x i8], align {ALIGN}")
        left = self.exchanged("null")
        self.do(f"br i1 {self.value(f'icmp eq ptr {left}, null')}, label %more, label %enough")
        self.label("more")
        made = self.value(f"call ptr @malloc(i64 {nbytes + ALIGN})")
        self.do(f"br i1 {self.value(f'icmp eq ptr {made}, null')}, label %poor, label %enough")
        self.label("enough")
        self.raw = self.value(f"phi ptr [ {left}, %0 ], [ {made}, %more ]")
        self.do("br label %rich")
        self.label("poor")
        self.do(f"ret i32 {NO_MEMORY}")
        self.label("rich")
        number = self.value(f"ptrtoint ptr {self.raw} to i64")
        above = self.value(f"add i64 {number}, {ALIGN - 1}")
        aligned = self.value(f"and i64 {above}, {-ALIGN}")
        return self.value(f"inttoptr i64 {aligned} to ptr")

    def release(self, memory: str, nbytes: int) -> None:
        if nbytes > ON_STACK:
            self.do(f"call void @free(ptr {self.exchanged(self.raw)})")

    def exchanged(self, block: str) -> str:
        """Leave a block to other calls, and return the one that was left there: one thread gets it."""
        number = "0" if block == "null" else self.value(f"ptrtoint ptr {block} to i64")
        before = self.value(f"atomicrmw xchg ptr {self.spare}, i64 {number} acq_rel")
        return self.value(f"inttoptr i64 {before} to ptr")

    # -- the other forms

    def pointers(self, groups: Sequence[tuple[str, Sequence[View]]]) -> str:
        """Return an array of pointers to arrays that follow each other from each of the given starts."""
        found = []
        for start, views in groups:
            at = 0
            for view in views:
                found.append(self.at(start, at))
                at += view.size * view.dtype.itemsize
        array = self.value(f"alloca [{max(1, len(found))} x ptr], align 16")
        for i, pointer in enumerate(found):
            self.do(f"store ptr {pointer}, ptr {self.at(array, 8 * i)}")
        return array

    def answer(self, inner: str, inputs: str, outputs: str, result: str) -> None:
        """Call the function of arrays, and return the number at `result`; NaN where it failed."""
        status = self.value(f"call i32 @{inner}(ptr {inputs}, ptr {outputs}, ptr %user)")
        good = self.value(f"icmp eq i32 {status}, 0")
        number = self.value(f"load double, ptr {result}")
        self.do(f"ret double {self.value(f'select i1 {good}, double {number}, double {_NAN}')}")

    def only_for(self, size: int, refused: str, argument: str = "i32 %n") -> None:
        """Return at once where the caller's `n` is another one."""
        self.count += 1
        n = self.count
        self.do(f"br i1 {self.value(f'icmp eq {argument}, {size}')}, label %fits{n}, label %other{n}")
        self.label(f"other{n}")
        self.do(refused)
        self.label(f"fits{n}")


_NAN = "0x7FF8000000000000"
_DECLARATIONS = """
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def _size(views: Sequence[View]) -> int:
    return sum(v.size for v in views)


def _vector_value(w: _Writer, inner: str, _: int) -> None:
    w.lines.append(f"define double @{w.name}(i32 %n, ptr %x, ptr %user) {{")
    w.only_for(_size(w.plan.inputs), f"ret double {_NAN}")
    result = w.value("alloca double")
    w.answer(inner, w.pointers([("%x", w.plan.inputs)]), w.pointers([(result, w.plan.outputs)]), result)
    w.lines.append("}")


def _vector_value_and_grad(w: _Writer, inner: str, value: int) -> None:
    w.lines.append(f"define double @{w.name}(i32 %n, ptr %x, ptr %grad, ptr %user) {{")
    w.only_for(_size(w.plan.inputs), f"ret double {_NAN}")
    result = w.value("alloca double")
    w.do(f"br i1 {w.value('icmp eq ptr %grad, null')}, label %alone, label %both")
    w.label("alone")
    known = w.value(f"call double inttoptr (i64 {value} to ptr)(i32 %n, ptr %x, ptr %user)")
    w.do(f"ret double {known}")
    w.label("both")
    outputs = w.pointers([(result, w.plan.outputs[:1]), ("%grad", w.plan.outputs[1:])])
    w.answer(inner, w.pointers([("%x", w.plan.inputs)]), outputs, result)
    w.lines.append("}")


def _vector_hvp(w: _Writer, inner: str, _: int) -> None:
    count = len(w.plan.inputs) // 2
    w.lines.append(f"define i32 @{w.name}(i32 %n, ptr %x, ptr %v, ptr %product, ptr %user) {{")
    w.only_for(_size(w.plan.inputs[:count]), f"ret i32 {NO_MEMORY - 1}")
    inputs = w.pointers([("%x", w.plan.inputs[:count]), ("%v", w.plan.inputs[count:])])
    outputs = w.pointers([("%product", w.plan.outputs)])
    w.do(f"ret i32 {w.value(f'call i32 @{inner}(ptr {inputs}, ptr {outputs}, ptr %user)')}")
    w.lines.append("}")


def _number_value(w: _Writer, inner: str, _: int) -> None:
    w.lines.append(f"define double @{w.name}(double %x, ptr %user) {{")
    given, result = w.value("alloca double"), w.value("alloca double")
    w.do(f"store double %x, ptr {given}")
    w.answer(inner, w.pointers([(given, w.plan.inputs)]), w.pointers([(result, w.plan.outputs)]), result)
    w.lines.append("}")


def _number_value_and_grad(w: _Writer, inner: str, value: int) -> None:
    w.lines.append(f"define double @{w.name}(double %x, ptr %derivative, ptr %user) {{")
    given, result = w.value("alloca double"), w.value("alloca double")
    w.do(f"store double %x, ptr {given}")
    w.do(f"br i1 {w.value('icmp eq ptr %derivative, null')}, label %alone, label %both")
    w.label("alone")
    w.do(f"ret double {w.value(f'call double inttoptr (i64 {value} to ptr)(double %x, ptr %user)')}")
    w.label("both")
    outputs = w.pointers([(result, w.plan.outputs[:1]), ("%derivative", w.plan.outputs[1:])])
    w.answer(inner, w.pointers([(given, w.plan.inputs)]), outputs, result)
    w.lines.append("}")


def _number_hvp(w: _Writer, inner: str, _: int) -> None:
    w.lines.append(f"define double @{w.name}(double %x, double %v, ptr %user) {{")
    given, along, result = (w.value("alloca double") for _ in range(3))
    w.do(f"store double %x, ptr {given}")
    w.do(f"store double %v, ptr {along}")
    inputs = w.pointers([(given, w.plan.inputs[:1]), (along, w.plan.inputs[1:])])
    w.answer(inner, inputs, w.pointers([(result, w.plan.outputs)]), result)
    w.lines.append("}")


# What nuts-rs takes for a point at which the density cannot be computed: it rejects the trajectory.
_FAILED, _BAD_GRADIENT, _BAD_LOGP = 1, 3, 4


def _vector_logp_and_grad(w: _Writer, inner: str, _: int) -> None:
    n = _size(w.plan.inputs)
    w.lines.append(f"define i64 @{w.name}(i64 %n, ptr %x, ptr %grad, ptr %logp, ptr %user) {{")
    w.only_for(n, f"ret i64 {NO_MEMORY - 1}", "i64 %n")
    outputs = w.pointers([("%logp", w.plan.outputs[:1]), ("%grad", w.plan.outputs[1:])])
    status = w.value(f"call i32 @{inner}(ptr {w.pointers([('%x', w.plan.inputs)])}, ptr {outputs}, ptr %user)")
    w.do(f"br i1 {w.value(f'icmp eq i32 {status}, 0')}, label %made, label %failed")
    w.label("failed")
    w.do(f"ret i64 {_FAILED}")
    # Zero times a number that is not finite is NaN, and so is the sum of all.
    w.label("made")
    w.do("br label %loop")
    w.label("loop")
    w.do("%i = phi i64 [ 0, %made ], [ %next, %add ]")
    w.do("%sum = phi double [ 0.0, %made ], [ %more, %add ]")
    w.do(f"%left = icmp slt i64 %i, {n}")
    w.do("br i1 %left, label %add, label %summed")
    w.label("add")
    w.do("%place = getelementptr double, ptr %grad, i64 %i")
    w.do("%partial = load double, ptr %place")
    w.do("%none = fmul double %partial, 0.0")
    w.do("%more = fadd double %sum, %none")
    w.do("%next = add i64 %i, 1")
    w.do("br label %loop")
    w.label("summed")
    w.do("%value = load double, ptr %logp")
    w.do("%nothing = fmul double %value, 0.0")
    w.do("%bad.value = fcmp uno double %nothing, 0.0")
    w.do("%bad.gradient = fcmp uno double %sum, 0.0")
    w.do(f"%of.value = select i1 %bad.value, i64 {_BAD_LOGP}, i64 0")
    w.do(f"%answer = select i1 %bad.gradient, i64 {_BAD_GRADIENT}, i64 %of.value")
    w.do("ret i64 %answer")
    w.lines.append("}")


def _vector_expand(w: _Writer, inner: str, _: int) -> None:
    w.lines.append(f"define i64 @{w.name}(i64 %n, i64 %m, ptr %x, ptr %values, ptr %user) {{")
    w.only_for(_size(w.plan.inputs), f"ret i64 {NO_MEMORY - 1}", "i64 %n")
    w.only_for(_size(w.plan.outputs), f"ret i64 {NO_MEMORY - 1}", "i64 %m")
    outputs = w.pointers([("%values", w.plan.outputs)])
    status = w.value(f"call i32 @{inner}(ptr {w.pointers([('%x', w.plan.inputs)])}, ptr {outputs}, ptr %user)")
    w.do(f"ret i64 {w.value(f'sext i32 {status} to i64')}")
    w.lines.append("}")


_WRAPPERS = {
    (Form.VECTOR, Kind.LOGP_AND_GRAD): _vector_logp_and_grad,
    (Form.VECTOR, Kind.EXPAND): _vector_expand,
    (Form.VECTOR, Kind.VALUE): _vector_value,
    (Form.VECTOR, Kind.VALUE_AND_GRAD): _vector_value_and_grad,
    (Form.VECTOR, Kind.HVP): _vector_hvp,
    (Form.NUMBER, Kind.VALUE): _number_value,
    (Form.NUMBER, Kind.VALUE_AND_GRAD): _number_value_and_grad,
    (Form.NUMBER, Kind.HVP): _number_hvp,
}

# The types of C, as ctypes has them.
CTYPES: dict[str, Any] = {
    "int": ctypes.c_int,
    "unsigned": ctypes.c_uint,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "double": ctypes.c_double,
    "const double *": ctypes.POINTER(ctypes.c_double),
    "double *": ctypes.POINTER(ctypes.c_double),
    "void *": ctypes.c_void_p,
    "const void *const *": ctypes.POINTER(ctypes.c_void_p),
    "void *const *": ctypes.POINTER(ctypes.c_void_p),
}
