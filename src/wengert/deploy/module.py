"""The code of an exported program: the list of its steps as functions of LLVM's, its records and small constants.

A function is `int f(const CALL *call)`. CALL is a row of pointers, one for each field. A `Place` names a field and
bytes from there, or a constant of the module. The table of addresses that kernels take stands on the stack, and all
other memory is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template
from typing import NamedTuple

from ..execute.native.callers.text import Text
from ..execute.native.codegen.kernel import Kernel
from ..execute.native.plan.plan import (
    ALIGN,
    ARENA,
    FIRST,
    SCRATCH,
    Buffer,
    HostCall,
    Jump,
    Plan,
    Step,
    View,
    rounded,
    scratch_stride,
)
from ..execute.native.run.driver import MODE_ARM, MODE_X86
from .targets import Level, Platform

# What a function returns beside 0 and the numbers of checks.
NOT_ALIGNED, NO_POINTER = -1, -2
# A jump looks at so many words one by one; at more in a loop.
_FEW = 4


class Place(NamedTuple):
    """A place in memory: a field of the call, or a constant of the module by its name, and bytes from there."""

    base: int | str
    offset: int = 0


class Destination(NamedTuple):
    """The place of a result; `is_state` says that it has an old value, which the program may still read."""

    place: Place
    is_state: bool = False


class Function(NamedTuple):
    """A plan as a function: its name, its text, and the bytes of memory that it needs."""

    name: str
    text: str
    nbytes: int
    kernels: tuple[Kernel, ...]


class Writer(Text):
    """The writer of one function."""

    def __init__(self, name: str, plan: Plan, platform: Platform, memory: int, mode: bool, hidden: bool) -> None:
        super().__init__(platform.pointer)
        self.name, self.plan, self.platform = name, plan, platform
        self.memory_field, self.mode, self.hidden = memory, mode, hidden
        self.pointers: dict[int, str] = {}
        self.records: list[int] = []

    def function(
        self,
        inputs: Sequence[Place | None],
        outputs: Sequence[Destination],
        constants: Mapping[Buffer, Place],
        codes: Mapping[Step, int],
        checked: Sequence[int],
    ) -> Function:
        """Return the function; `codes` has what steps return that stop it, `checked` the fields that it needs."""
        plan = self.plan
        # A result of state is written when all is read: it is no array that kernels write into at once.
        plan.claim_outputs([not d.is_state for d in outputs])
        plan.arrange()
        entries: dict[Buffer, int] = {}
        addresses: list[Place] = []
        for view, given in zip(plan.inputs, inputs, strict=True):
            if given is not None:
                entries[view.buffer] = FIRST + len(addresses)
                addresses.append(given)
        nbytes = plan.arena + scratch_stride(max((s.scratch for s in plan.steps), default=0))
        # Results that lie otherwise than C has them are made here first, then copied.
        copied: list[int] = []
        for i, (view, to) in enumerate(zip(plan.outputs, outputs, strict=True)):
            if view.buffer.kind == "output" and view.buffer.index == i:
                if view.is_contiguous:
                    where = to.place
                else:
                    where, nbytes = Place(self.memory_field, nbytes), nbytes + rounded(view.buffer.nbytes)
                    copied.append(i)
                entries[view.buffer] = FIRST + len(addresses)
                addresses.append(where)
            elif not _stays(view, plan, inputs, to):
                copied.append(i)
        for buffer in plan.constants:
            entries[buffer] = FIRST + len(addresses)
            addresses.append(constants[buffer])
        for buffer in plan.windows:
            entries[buffer] = FIRST + len(addresses)
            addresses.append(Place(self.memory_field))
        self.entries = entries
        staged: dict[int, Place] = {}
        for i in copied:
            # The old value of other state may be what this becomes.
            if outputs[i].is_state and plan.outputs[i].buffer.whole.kind == "input":
                staged[i] = Place(self.memory_field, nbytes)
                nbytes += rounded(plan.outputs[i].size * plan.outputs[i].dtype.itemsize)

        self.lines.append(f"define {'hidden ' if self.hidden else ''}i32 @{self.name}(ptr %call) {{")
        table = self.value(f"alloca [{max(FIRST + 1, FIRST + len(addresses))} x ptr], align 16")
        self.check(checked)
        for place in (*addresses, *(d.place for d in outputs)):
            self.pointer(place._replace(offset=0))  # what blocks after this one use is loaded in this one
        mode = self.value("call i64 @default_mode()") if self.mode else ""
        memory = self.pointer(Place(self.memory_field))
        self.do(f"store i64 0, ptr {self.entry(table, FIRST - 1)}, align 4")
        self.put(table, ARENA, memory)
        self.put(table, SCRATCH, self.at(memory, plan.arena))
        for i, place in enumerate(addresses):
            self.put(table, FIRST + i, self.pointer(place))
        self.steps(table, codes)
        for i in sorted(copied, key=lambda i: (outputs[i].is_state, i not in staged)):
            target = self.pointer(staged.get(i, outputs[i].place))
            self.copy(self.address(table, plan.outputs[i]), plan.outputs[i], target)
        for i, place in staged.items():
            size = plan.outputs[i].size * plan.outputs[i].dtype.itemsize
            self.copy_bytes(self.pointer(place), self.pointer(outputs[i].place), size)
        returned = ", ".join(f"[ {code}, %{label} ]" for code, label in self.leaving(codes))
        self.do("br label %end")
        self.label("end")
        result = self.value(f"phi i32 {returned}")
        if mode:
            self.do(f"call void @set_mode(i64 {mode})")
        self.do(f"ret i32 {result}")
        self.lines.append("}")
        words = ", ".join(f"i64 {n}" for n in self.records) or "i64 0"
        size = max(1, len(self.records))
        text = [f"@records.{self.name} = private unnamed_addr constant [{size} x i64] [{words}], align 8", *self.lines]
        kernels = dict.fromkeys(s.kernel for s in plan.steps if isinstance(s.kernel, Kernel))
        return Function(self.name, "\n".join(text), max(ALIGN, rounded(nbytes)), tuple(kernels))

    def copy_bytes(self, source: str, to: str, nbytes: int) -> None:
        self.do(f"call void @copy_bytes(ptr {to}, ptr {source}, i64 {nbytes})")

    def check(self, fields: Sequence[int]) -> None:
        """Return at once where a field has no pointer, or the memory is not aligned."""
        missing = [self.value(f"icmp eq ptr {self.pointer(Place(k))}, null") for k in fields]
        none = missing[0]
        for one in missing[1:]:
            none = self.value(f"or i1 {none}, {one}")
        self.do(f"br i1 {none}, label %poor, label %given")
        self.label("poor")
        self.do(f"ret i32 {NO_POINTER}")
        self.label("given")
        number = self.value(f"ptrtoint ptr {self.pointer(Place(self.memory_field))} to i64")
        low = self.value(f"and i64 {number}, {ALIGN - 1}")
        self.do(f"br i1 {self.value(f'icmp ne i64 {low}, 0')}, label %oblique, label %begin")
        self.label("oblique")
        self.do(f"ret i32 {NOT_ALIGNED}")
        self.label("begin")

    def pointer(self, place: Place) -> str:
        """Return a pointer to a place; fields are read where the function begins."""
        if isinstance(place.base, str):
            return self.at(f"@{place.base}", place.offset)
        if place.base not in self.pointers:
            field = self.value(f"getelementptr ptr, ptr %call, i64 {place.base}")
            self.pointers[place.base] = self.value(f"load ptr, ptr {field}")
        return self.at(self.pointers[place.base], place.offset)

    def entry(self, table: str, number: int) -> str:
        return self.value(f"getelementptr ptr, ptr {table}, i64 {number}")

    def put(self, table: str, number: int, pointer: str) -> None:
        self.do(f"store ptr {pointer}, ptr {self.entry(table, number)}")

    def place(self, view: View) -> tuple[int, int]:
        """Return a view as two words of a record: the entry of the table of addresses, and bytes from there."""
        start = view.offset * view.dtype.itemsize
        if view.buffer.kind == "temp":
            return ARENA, view.buffer.place + start
        return self.entries[view.buffer], start

    def address(self, table: str, view: View) -> str:
        number, start = self.place(view)
        return self.at(self.value(f"load ptr, ptr {self.entry(table, number)}"), start)

    # -- the steps

    def steps(self, table: str, codes: Mapping[Step, int]) -> None:
        """Write the steps, each a call; jumps and checks end a block."""
        targets = {s.kernel.target for s in self.plan.steps if isinstance(s.kernel, Jump)}
        for i, step in enumerate(self.plan.steps):
            if i in targets:
                self.start(i)
            kernel = step.kernel
            if isinstance(kernel, Kernel):
                start = len(self.records)
                for word in step.words:
                    self.records += self.place(word) if isinstance(word, View) else (word,)
                record = f"getelementptr (i64, ptr @records.{self.name}, i64 {start})"
                self.do(f"call void @{kernel.name}(ptr {table}, ptr {record}, i64 0, i64 {step.units}, i64 0)")
                continue
            assert isinstance(kernel, (HostCall, Jump))
            self.start(i)
            to = f"step{kernel.target}" if isinstance(kernel, Jump) else "end"
            if kernel.when is None:
                self.do(f"br label %{to}")
            else:
                self.do(f"br i1 {self.any_of(table, kernel.when)}, label %{to}, label %step{i + 1}")
            self.label(f"step{i + 1}")
            self.open = i + 1
        self.start(len(self.plan.steps))

    # The number of the step whose block was begun last.
    open = -1

    def start(self, number: int) -> None:
        """Begin the block of a step, unless it has begun."""
        if self.open != number:
            self.do(f"br label %step{number}")
            self.label(f"step{number}")
            self.open = number

    def any_of(self, table: str, words: View) -> str:
        """Return whether one of some words of 64 bits is not 0."""
        start = self.address(table, words)
        if words.size > _FEW:
            return self.value(f"call i1 @any_of(ptr {start}, i64 {words.size})")
        loaded = [self.value(f"load i64, ptr {self.at(start, 8 * k)}, align 8") for k in range(words.size)]
        found = loaded[0] if loaded else "0"
        for one in loaded[1:]:
            found = self.value(f"or i64 {found}, {one}")
        return self.value(f"icmp ne i64 {found}, 0")

    def leaving(self, codes: Mapping[Step, int]) -> list[tuple[int, str]]:
        """Return what is returned from each block that leads to the end."""
        found = [(codes[s], f"step{i}") for i, s in enumerate(self.plan.steps) if isinstance(s.kernel, HostCall)]
        return [*found, (0, self.last)]


def _stays(view: View, plan: Plan, inputs: Sequence[Place | None], to: Destination) -> bool:
    """Return whether a result is state that was written where it belongs."""
    source = view.buffer
    if source.kind != "input" or not to.is_state:
        return False
    return inputs[source.index] == to.place and view.lies_as(plan.inputs[source.index])


# The functions that look at many words, and that copy memory: a library's may not be there.
HELPERS = """
define internal i1 @any_of(ptr %words, i64 %count) {
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %more, %look ]
  %is.left = icmp slt i64 %i, %count
  br i1 %is.left, label %look, label %none
look:
  %place = getelementptr i64, ptr %words, i64 %i
  %word = load i64, ptr %place
  %more = add i64 %i, 1
  %found = icmp ne i64 %word, 0
  br i1 %found, label %one, label %next
one:
  ret i1 true
none:
  ret i1 false
}

define internal void @copy_bytes(ptr %to, ptr %from, i64 %count) {
  %words = and i64 %count, -16
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %i.next, %copy ]
  %more = icmp slt i64 %i, %words
  br i1 %more, label %copy, label %rest
copy:
  %source = getelementptr i8, ptr %from, i64 %i
  %target = getelementptr i8, ptr %to, i64 %i
  %word = load <4 x i32>, ptr %source, align 1
  store <4 x i32> %word, ptr %target, align 1
  %i.next = add i64 %i, 16
  br label %next
rest:
  %j = phi i64 [ %words, %next ], [ %j.next, %byte ]
  %left = icmp slt i64 %j, %count
  br i1 %left, label %byte, label %done
byte:
  %source.j = getelementptr i8, ptr %from, i64 %j
  %target.j = getelementptr i8, ptr %to, i64 %j
  %one = load i8, ptr %source.j
  store i8 %one, ptr %target.j
  %j.next = add i64 %j, 1
  br label %rest
done:
  ret void
}
"""


# What LLVM calls on WebAssembly to multiply numbers of 128 bits, which a library has elsewhere.
LIBRARY_OF_WASM = """
define weak hidden void @__multi3(ptr %out, i64 %a, i64 %a.high, i64 %b, i64 %b.high) {
  %a0 = and i64 %a, 4294967295
  %a1 = lshr i64 %a, 32
  %b0 = and i64 %b, 4294967295
  %b1 = lshr i64 %b, 32
  %p00 = mul i64 %a0, %b0
  %p01 = mul i64 %a0, %b1
  %p10 = mul i64 %a1, %b0
  %p11 = mul i64 %a1, %b1
  %p00.high = lshr i64 %p00, 32
  %p01.low = and i64 %p01, 4294967295
  %p10.low = and i64 %p10, 4294967295
  %m0 = add i64 %p00.high, %p01.low
  %middle = add i64 %m0, %p10.low
  %p00.low = and i64 %p00, 4294967295
  %up = shl i64 %middle, 32
  %low = or i64 %p00.low, %up
  %p01.high = lshr i64 %p01, 32
  %p10.high = lshr i64 %p10, 32
  %carry = lshr i64 %middle, 32
  %h0 = add i64 %p11, %p01.high
  %h1 = add i64 %h0, %p10.high
  %h2 = add i64 %h1, %carry
  %cross = mul i64 %a, %b.high
  %other = mul i64 %a.high, %b
  %h3 = add i64 %h2, %cross
  %high = add i64 %h3, %other
  store i64 %low, ptr %out, align 8
  %next = getelementptr i8, ptr %out, i64 8
  store i64 %high, ptr %next, align 8
  ret void
}
"""


def mode_of(platform: Platform) -> str:
    """Return the text that sets the processor's mode of arithmetic; empty where it has one alone."""
    processor = platform.triple.partition("-")[0]
    if processor == "x86_64":
        return MODE_X86
    return MODE_ARM if processor in ("aarch64", "arm64") else ""


def head(platform: Platform) -> str:
    """Return the first lines of a module."""
    return f'target triple = "{platform.triple}"'


def declared(kernels: Sequence[Kernel]) -> str:
    """Return the declarations of kernels that other modules define."""
    return "\n".join(f"declare void @{k.name}(ptr, ptr, i64, i64, i64)" for k in dict.fromkeys(kernels))


def constant(name: str, content: bytes) -> str:
    """Return the text of a constant array of bytes."""
    shown = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in content)
    return f'@{name} = private unnamed_addr constant [{len(content)} x i8] c"{shown}", align {ALIGN}'


def exported(name: str, content: bytes) -> str:
    """Return the text of an array of bytes that callers find by its name."""
    return constant(name, content).replace("private unnamed_addr ", "")


def chosen(name: str, levels: Sequence[Level], functions: Sequence[str]) -> str:
    """Return the text of functions that go on to those of the processor's level.

    `functions` are the ends of their names: `NAME_run` goes on to `NAME_run_avx2`.
    """
    level = f"level.{name}"
    lines = [f"@{level} = internal global i32 -1", _LEVEL_HEAD.substitute(level=level)]
    lines += [*_level_tests(levels), f"  store atomic i32 %level, ptr @{level} monotonic, align 4"]
    lines += ["  ret i32 %level", "}"]
    for function in functions:
        callees = [f"{name}_{function}_{x.name}" for x in levels]
        lines += [f"declare hidden i32 @{callee}(ptr)" for callee in callees]
        lines += [f"define i32 @{name}_{function}(ptr %call) {{", f"  %level = call i32 @find.{level}()"]
        cases = " ".join(f"i32 {i}, label %at{i}" for i in range(len(levels) - 1))
        last = len(levels) - 1
        lines.append(f"  switch i32 %level, label %at{last} [ {cases} ]")
        for i, callee in enumerate(callees):
            lines += [f"at{i}:", f"  %r{i} = tail call i32 @{callee}(ptr %call)", f"  ret i32 %r{i}"]
        lines.append("}")
    return "\n".join(lines)


# What was found once is kept: threads that look at the same time find the same. LLVM has no name for the two
# instructions, and an assembler only for the processor that it runs on: so they stand here as bytes, each with a return
# behind it, before code that nothing reaches.
_LEVEL_HEAD = Template("""
; cpuid(leaf, words): push rbx; mov eax, edi; xor ecx, ecx; cpuid; eax, ebx, ecx, edx to [rsi]; pop rbx; ret
define internal x86_64_sysvcc void @cpuid(i32 %leaf, ptr %words) noinline nounwind
    prologue [20 x i8] c"S\\89\\F81\\C9\\0F\\A2\\89\\06\\89^\\04\\89N\\08\\89V\\0C[\\C3" {
  unreachable
}
; xor ecx, ecx; xgetbv; ret
define internal x86_64_sysvcc i32 @xgetbv() noinline nounwind prologue [6 x i8] c"1\\C9\\0F\\01\\D0\\C3" {
  unreachable
}
define internal i32 @word(i32 %leaf, i64 %register) {
  %words = alloca [4 x i32], align 16
  call x86_64_sysvcc void @cpuid(i32 %leaf, ptr %words)
  %place = getelementptr i32, ptr %words, i64 %register
  %word = load i32, ptr %place
  ret i32 %word
}
define internal i32 @find.$level() {
  %known = load atomic i32, ptr @$level monotonic, align 4
  %unknown = icmp slt i32 %known, 0
  br i1 %unknown, label %look, label %done
done:
  ret i32 %known
look:
  %leaves = call i32 @word(i32 0, i64 0)
  %c1 = call i32 @word(i32 1, i64 2)
  %os = and i32 %c1, 134217728
  %saves = icmp ne i32 %os, 0
  br i1 %saves, label %ask, label %asked
ask:
  %registers = call x86_64_sysvcc i32 @xgetbv()
  br label %asked
asked:
  %saved = phi i32 [ 0, %look ], [ %registers, %ask ]
  %has7 = icmp uge i32 %leaves, 7
  br i1 %has7, label %seven, label %sevened
seven:
  %b7.found = call i32 @word(i32 7, i64 1)
  br label %sevened
sevened:
  %b7 = phi i32 [ 0, %asked ], [ %b7.found, %seven ]
  %last = call i32 @word(i32 -2147483648, i64 0)
  %has8 = icmp uge i32 %last, -2147483647
  br i1 %has8, label %eight, label %eighted
eight:
  %c8.found = call i32 @word(i32 -2147483647, i64 2)
  br label %eighted
eighted:
  %c8 = phi i32 [ 0, %sevened ], [ %c8.found, %eight ]
  br label %test0""")


def _level_tests(levels: Sequence[Level]) -> list[str]:
    """Return the lines that find the first level whose tests all pass; the last one has none."""
    words = {(1, "c"): "%c1", (7, "b"): "%b7", (0x80000001, "c"): "%c8"}
    lines: list[str] = []
    for i, level in enumerate(levels):
        lines.append(f"test{i}:")
        asked = [(words[leaf, register], mask) for leaf, register, mask in level.tests]
        asked += [("%saved", level.saved)] if level.saved else []
        passed = "true"
        for k, (word, mask) in enumerate(asked):
            lines.append(f"  %have{i}.{k} = and i32 {word}, {mask}")
            lines.append(f"  %is{i}.{k} = icmp eq i32 %have{i}.{k}, {mask}")
            lines.append(f"  %all{i}.{k} = and i1 {passed}, %is{i}.{k}")
            passed = f"%all{i}.{k}"
        if i + 1 < len(levels):
            lines.append(f"  br i1 {passed}, label %found, label %test{i + 1}")
        else:
            lines.append("  br label %found")
    came = ", ".join(f"[ {i}, %test{i} ]" for i in range(len(levels)))
    return [*lines, "found:", f"  %level = phi i32 {came}"]
