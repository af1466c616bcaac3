"""A builder of LLVM IR as text: typed values, structured loops, masked memory.

The text is made directly, without an object for every instruction: a kernel of a few hundred
instructions is written in about a millisecond. What is written is clean SSA with explicit vectors,
so that no optimisation pass needs to run on it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from .types import BF16, F16, F64, I1, I8, I32, I64, PTR, Target, Type


class Value(NamedTuple):
    """An SSA value, or a literal: its text and its type."""

    text: str
    type: Type


class Loop:
    """An open counted loop: its index, and the values that it carries from one iteration to the next."""

    __slots__ = ("index", "values", "results", "_next")

    def __init__(self, index: Value, values: tuple[Value, ...]) -> None:
        self.index = index
        self.values = values
        self.results: tuple[Value, ...] = ()
        self._next: tuple[Value, ...] | None = None

    def carry(self, *values: Value) -> None:
        """Set what the carried values are in the next iteration; called once, at the end of the body."""
        self._next = values


class Builder:
    """A function in the making, written as LLVM IR.

    The function is `void name(ptr ptrs, ptr rec, i64 lo, i64 hi, i64 thread)`: see
    :mod:`wengert.execute.native.codegen.kernel`. `target` says for which processor.
    """

    def __init__(self, name: str, target: Target) -> None:
        self.name = name
        self.target = target
        self._lines: list[str] = []
        self._entry: list[str] = []
        self._declared: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._count = 0
        self._blocks = 0
        # The operand of each bitcast, by its result.
        self._bits_of: dict[str, Value] = {}
        # Values of float32 that are numbers of bfloat16, whose lower half is 0.
        self.of_bfloat16: set[str] = set()
        self._label = "entry"
        self.ptrs = Value("%ptrs", PTR)
        self.rec = Value("%rec", PTR)
        self.lo = Value("%lo", I64)
        self.hi = Value("%hi", I64)
        self.thread = Value("%thread", I64)

    # -- the text

    def ir(self) -> str:
        """Return the module's text."""
        head = [f'target triple = "{self.target.triple}"', *self._globals.values()]
        define = f"define void @{self.name}(ptr %ptrs, ptr %rec, i64 %lo, i64 %hi, i64 %thread) #0 {{"
        width = self.target.width * 8
        tail = [
            *self._declared.values(),
            f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" "no-trapping-math"="true" }}',
        ]
        return "\n".join([*head, define, "entry:", *self._entry, *self._lines, "  ret void", "}", *tail, ""])

    @property
    def length(self) -> int:
        """The number of lines that the body has by now."""
        return len(self._lines)

    def emit(self, text: str) -> None:
        """Write a line that gives no value."""
        self._lines.append("  " + text)

    def value(self, type: Type, text: str) -> Value:
        """Write a line that gives a value of `type`, and return that value."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}")
        return Value(name, type)

    def _new_label(self, hint: str) -> str:
        self._blocks += 1
        return f"{hint}{self._blocks}"

    def _start(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._label = label

    def declare(self, name: str, result: Type | None, args: Sequence[Type | str]) -> None:
        """Declare `name` as a function defined elsewhere (an intrinsic)."""
        if name not in self._declared:
            shown = ", ".join(a if isinstance(a, str) else a.text for a in args)
            self._declared[name] = f"declare {'void' if result is None else result.text} @{name}({shown})"

    def table(self, type: Type, numbers: Sequence[float | int]) -> Value:
        """Place a constant array in memory, and return the pointer to it, aligned to a cache line."""
        text = ", ".join(f"{type.text} {literal(type, n)}" for n in numbers)
        body = f"private unnamed_addr constant [{len(numbers)} x {type.text}] [{text}], align 64"
        name = f"@t{len(self._globals)}"
        self._globals[name] = f"{name} = {body}"
        return Value(name, PTR)

    # -- literals and lanes

    def const(self, type: Type, number: float | int | bool) -> Value:
        """Return a literal, in every lane of a vector type."""
        text = literal(type.scalar, number)
        return Value(f"splat ({type.scalar.text} {text})" if type.lanes else text, type)

    def index(self, number: int) -> Value:
        return Value(str(number), I64)

    def iota(self, type: Type) -> Value:
        """Return the integer vector 0, 1, 2, ... with one number in each lane."""
        inner = ", ".join(f"{type.scalar.text} {i}" for i in range(type.lanes))
        return Value(f"<{inner}>", type)

    def splat(self, x: Value, lanes: int) -> Value:
        """Return a vector with a scalar in every lane."""
        if lanes <= 1 or x.type.lanes:
            return x
        type = x.type.vector(lanes)
        if x.text[0] not in "%@":
            return Value(f"splat ({x.type.text} {x.text})", type)
        if x.type.kind != "i" and x.type.bits == 16:
            return self.cast("bitcast", self.splat(self.cast("bitcast", x, as_bits(x.type)), lanes), type)
        one = self.value(type, f"insertelement {type.text} poison, {x.type.text} {x.text}, i64 0")
        return self.value(
            type, f"shufflevector {type.text} {one.text}, {type.text} poison, <{lanes} x i32> zeroinitializer"
        )

    def extract(self, x: Value, lane: int | Value) -> Value:
        if not x.type.lanes:
            return x
        at = lane.text if isinstance(lane, Value) else str(lane)
        return self.value(x.type.scalar, f"extractelement {x.type.text} {x.text}, i64 {at}")

    def insert(self, x: Value, item: Value, lane: int | Value) -> Value:
        at = lane.text if isinstance(lane, Value) else str(lane)
        return self.value(x.type, f"insertelement {x.type.text} {x.text}, {item.type.text} {item.text}, i64 {at}")

    def shuffle(self, x: Value, y: Value, lanes: Sequence[int]) -> Value:
        type = x.type.scalar.vector(len(lanes))
        mask = ", ".join(f"i32 {i}" for i in lanes)
        return self.value(
            type,
            f"shufflevector {x.type.text} {x.text}, {y.type.text} {y.text}, <{len(lanes)} x i32> <{mask}>",
        )

    def undefined(self, type: Type) -> Value:
        return Value("poison", type)

    # -- arithmetic

    def _binary(self, op: str, x: Value, y: Value) -> Value:
        return self.value(x.type, f"{op} {x.type.text} {x.text}, {y.text}")

    def fadd(self, x: Value, y: Value) -> Value:
        return self._binary("fadd", x, y)

    def fsub(self, x: Value, y: Value) -> Value:
        return self._binary("fsub", x, y)

    def fmul(self, x: Value, y: Value) -> Value:
        return self._binary("fmul", x, y)

    def fdiv(self, x: Value, y: Value) -> Value:
        return self._binary("fdiv", x, y)

    def fneg(self, x: Value) -> Value:
        return self.value(x.type, f"fneg {x.type.text} {x.text}")

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """Return x * y + z, in one rounding where the processor has it."""
        if self.target.fma and x.type.kind == "f" and x.type.bits >= 32:
            return self.intrinsic("fma", x, y, z)
        return self.fadd(self.fmul(x, y), z)

    def add(self, x: Value, y: Value) -> Value:
        return self._binary("add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self._binary("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self._binary("mul", x, y)

    def sdiv(self, x: Value, y: Value) -> Value:
        return self._binary("sdiv", x, y)

    def udiv(self, x: Value, y: Value) -> Value:
        return self._binary("udiv", x, y)

    def srem(self, x: Value, y: Value) -> Value:
        return self._binary("srem", x, y)

    def urem(self, x: Value, y: Value) -> Value:
        return self._binary("urem", x, y)

    def shl(self, x: Value, y: Value) -> Value:
        return self._binary("shl", x, y)

    def lshr(self, x: Value, y: Value) -> Value:
        return self._binary("lshr", x, y)

    def ashr(self, x: Value, y: Value) -> Value:
        return self._binary("ashr", x, y)

    def and_(self, x: Value, y: Value) -> Value:
        return self._binary("and", x, y)

    def or_(self, x: Value, y: Value) -> Value:
        return self._binary("or", x, y)

    def xor(self, x: Value, y: Value) -> Value:
        return self._binary("xor", x, y)

    def not_(self, x: Value) -> Value:
        return self.xor(x, self.const(x.type, -1))

    def icmp(self, how: str, x: Value, y: Value) -> Value:
        """Compare integers by LLVM's predicate `how`: eq ne slt sle sgt sge ult ule ugt uge."""
        return self.value(I1.vector(x.type.lanes), f"icmp {how} {x.type.text} {x.text}, {y.text}")

    def fcmp(self, how: str, x: Value, y: Value) -> Value:
        """Compare floats by LLVM's predicate `how`: oeq une olt ole ogt oge uno ord ..."""
        return self.value(I1.vector(x.type.lanes), f"fcmp {how} {x.type.text} {x.text}, {y.text}")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        c = condition
        return self.value(x.type, f"select {c.type.text} {c.text}, {x.type.text} {x.text}, {y.type.text} {y.text}")

    def imin(self, x: Value, y: Value) -> Value:
        """Return the smaller of two signed integers."""
        return self.intrinsic("smin", x, y)

    def imax(self, x: Value, y: Value) -> Value:
        return self.intrinsic("smax", x, y)

    def cast(self, op: str, x: Value, type: Type) -> Value:
        """Convert by LLVM's `op` (fpext, sitofp, zext, bitcast, ...) to the element of `type`, lane by lane."""
        to = type if op == "bitcast" else type.vector(x.type.lanes)
        if to == x.type:
            return x
        # Back again is the value itself. So no value of a 16-bit float type outlives its block, where
        # processors without registers for them need functions of a library that is not there.
        before = self._bits_of.get(x.text) if op == "bitcast" else None
        if before is not None and before.type == to:
            return before
        made = self.value(to, f"{op} {x.type.text} {x.text} to {to.text}")
        if op == "bitcast":
            self._bits_of[made.text] = x
        return made

    def intrinsic(self, name: str, x: Value, *more: Value) -> Value:
        """Call `llvm.name` on arguments of one type, which the result has too (sqrt, fabs, floor, fma, smin, ...)."""
        full = f"llvm.{name}.{x.type.mangled}"
        args = (x, *more)
        self.declare(full, x.type, [a.type for a in args])
        return self.value(x.type, f"call {x.type.text} @{full}({_arguments(args)})")

    def sum_lanes(self, x: Value) -> Value:
        """Return the sum of a float vector's lanes, as a tree of halves: the same bits on every machine."""
        return self._tree(x, self.fadd)

    def reduce_lanes(self, x: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """Combine all lanes, as a tree of halves."""
        return self._tree(x, combine)

    def _tree(self, x: Value, combine: Callable[[Value, Value], Value]) -> Value:
        while x.type.lanes > 1:
            half = x.type.lanes // 2
            low = self.shuffle(x, x, range(half))
            high = self.shuffle(x, x, range(half, 2 * half))
            if half == 1:
                low, high = self.extract(x, 0), self.extract(x, 1)
            x = combine(low, high)
        return x

    # -- memory

    def offset(self, pointer: Value, index: Value | int, type: Type) -> Value:
        """Return the address of element `index` of an array of `type`."""
        at = index.text if isinstance(index, Value) else str(index)
        return self.value(PTR, f"getelementptr {type.scalar.text}, ptr {pointer.text}, i64 {at}")

    def load(self, type: Type, pointer: Value, align: int | None = None) -> Value:
        if type.kind != "i" and type.bits == 16:
            return self.cast("bitcast", self.load(as_bits(type), pointer, align), type)
        return self.value(type, f"load {type.text}, ptr {pointer.text}, align {align or type.size}")

    def store(self, x: Value, pointer: Value, align: int | None = None) -> None:
        if x.type.kind != "i" and x.type.bits == 16:
            x = self.cast("bitcast", x, as_bits(x.type))
        self.emit(f"store {x.type.text} {x.text}, ptr {pointer.text}, align {align or x.type.size}")

    def masked_load(self, type: Type, pointer: Value, mask: Value, other: Value | None = None) -> Value:
        """Load a vector under a mask: lanes that are off become `other` (0), and their memory is not touched."""
        if type.kind != "i" and type.bits == 16:
            bits = None if other is None else self.cast("bitcast", other, as_bits(type))
            return self.cast("bitcast", self.masked_load(as_bits(type), pointer, mask, bits), type)
        name = f"llvm.masked.load.{type.mangled}.p0"
        self.declare(name, type, [PTR, "i32 immarg", mask.type, type])
        rest = other if other is not None else Value("zeroinitializer", type)
        return self.value(
            type,
            f"call {type.text} @{name}(ptr {pointer.text}, i32 {type.size}, {mask.type.text} {mask.text}, "
            f"{type.text} {rest.text})",
        )

    def masked_store(self, x: Value, pointer: Value, mask: Value) -> None:
        if x.type.kind != "i" and x.type.bits == 16:
            x = self.cast("bitcast", x, as_bits(x.type))
        name = f"llvm.masked.store.{x.type.mangled}.p0"
        self.declare(name, None, [x.type, PTR, "i32 immarg", mask.type])
        self.emit(
            f"call void @{name}({x.type.text} {x.text}, ptr {pointer.text}, i32 {x.type.size}, "
            f"{mask.type.text} {mask.text})"
        )

    def gather(self, type: Type, pointer: Value, indices: Value, mask: Value | None = None) -> Value:
        """Load the elements of an array at `indices`, a vector of i64 or i32."""
        if type.kind != "i" and type.bits == 16:
            return self.cast("bitcast", self.gather(as_bits(type), pointer, indices, mask), type)
        ptrs = PTR.vector(type.lanes)
        at = self.value(
            ptrs, f"getelementptr {type.scalar.text}, ptr {pointer.text}, {indices.type.text} {indices.text}"
        )
        name = f"llvm.masked.gather.{type.mangled}.{ptrs.mangled}"
        on = mask if mask is not None else self.const(I1.vector(type.lanes), True)
        self.declare(name, type, [ptrs, "i32 immarg", on.type, type])
        return self.value(
            type,
            f"call {type.text} @{name}({ptrs.text} {at.text}, i32 {type.size}, {on.type.text} {on.text}, "
            f"{type.text} zeroinitializer)",
        )

    def scatter(self, x: Value, pointer: Value, indices: Value, mask: Value | None = None) -> None:
        """Store lanes at `indices` of an array, in order of the lanes."""
        if x.type.kind != "i" and x.type.bits == 16:
            x = self.cast("bitcast", x, as_bits(x.type))
        ptrs = PTR.vector(x.type.lanes)
        at = self.value(
            ptrs, f"getelementptr {x.type.scalar.text}, ptr {pointer.text}, {indices.type.text} {indices.text}"
        )
        name = f"llvm.masked.scatter.{x.type.mangled}.{ptrs.mangled}"
        on = mask if mask is not None else self.const(I1.vector(x.type.lanes), True)
        self.declare(name, None, [x.type, ptrs, "i32 immarg", on.type])
        self.emit(
            f"call void @{name}({x.type.text} {x.text}, {ptrs.text} {at.text}, i32 {x.type.size}, "
            f"{on.type.text} {on.text})"
        )

    def tail_mask(self, left: Value, lanes: int) -> Value:
        """Return the mask of the first `left` of `lanes` lanes: those for which an element remains."""
        type = I64.vector(lanes) if lanes <= 8 else I32.vector(lanes)
        bounded = self.imin(left, self.index(lanes))
        count = bounded if type.bits == 64 else self.cast("trunc", bounded, I32)
        return self.icmp("slt", self.iota(type), self.splat(count, lanes))

    def fixed_mask(self, left: Value, lanes: int) -> Value:
        """Return the mask of `tail_mask` for use in a long loop: held in a mask register, not computed at every use."""
        count = self.imax(self.imin(left, self.index(lanes)), self.index(0))
        ones = self.lshr(self.index(-1), self.sub(self.index(64), count))
        bits = self.select(self.icmp("eq", count, self.index(0)), self.index(0), ones)
        held = self.opaque(self.cast("trunc", bits, Type("i", lanes)) if lanes < 64 else bits)
        return self.cast("bitcast", held, I1.vector(lanes))

    def opaque(self, x: Value) -> Value:
        """Return the same value, hidden from the code generator's analysis, so that it stays in a register as it is."""
        return self.value(x.type, f'call {x.type.text} asm "", "=r,0"({x.type.text} {x.text})')

    def local(self, type: Type, count: int = 1, align: int = 64) -> Value:
        """Reserve memory on the stack for the whole function, and return its address."""
        self._count += 1
        name = f"%v{self._count}"
        self._entry.append(f"  {name} = alloca {type.text}, i64 {count}, align {align}")
        return Value(name, PTR)

    def prefetch(self, pointer: Value, level: int = 1) -> None:
        """Ask for the line of an address to be brought into the cache of a level; any address will do."""
        self.declare("llvm.prefetch.p0", None, [PTR, "i32 immarg", "i32 immarg", "i32 immarg"])
        self.emit(f"call void @llvm.prefetch.p0(ptr {pointer.text}, i32 0, i32 {4 - level}, i32 1)")

    # -- what the step's record holds

    def word(self, at: int) -> Value:
        """Load word `at` of the record, an i64."""
        return self.load(I64, self.offset(self.rec, at, I64))

    def words(self, at: int, count: int) -> list[Value]:
        return [self.word(at + i) for i in range(count)]

    def buffer(self, at: int) -> Value:
        """Return the pointer that the words `at` and `at + 1` name: an entry of `ptrs`, and bytes from there."""
        base = self.load(PTR, self.offset(self.ptrs, self.word(at), PTR))
        return self.offset(base, self.word(at + 1), I8)

    def scratch(self) -> Value:
        """Return this thread's scratch memory, aligned to a cache line: as many bytes as the step asked for."""
        base = self.load(PTR, self.offset(self.ptrs, 1, PTR))
        stride = self.load(I64, self.offset(self.ptrs, 2, PTR))
        return self.offset(base, self.mul(self.thread, stride), I8)

    # -- control

    @contextmanager
    def loop(
        self,
        start: Value | int,
        stop: Value | int,
        step: Value | int = 1,
        carried: Sequence[Value] = (),
        going: Callable[[tuple[Value, ...]], Value] | None = None,
    ) -> Iterator[Loop]:
        """Write `for index in range(start, stop, step)`; after it `loop.results` are the carried values.

        The body ends by `loop.carry(...)` where values are carried. `step` is positive. The loop ends, too, where
        `going` of the values that are carried is not true.
        """
        first, last, by = (x if isinstance(x, Value) else self.index(x) for x in (start, stop, step))
        head, body, done = (self._new_label(h) for h in ("head", "body", "done"))
        before = self._label
        self.emit(f"br label %{head}")
        self._start(head)
        self._count += 1
        index = Value(f"%v{self._count}", I64)
        at = len(self._lines)
        self._lines.append("")
        phis = []
        for c in carried:
            self._count += 1
            phis.append(Value(f"%v{self._count}", c.type))
            self._lines.append("")
        more = self.icmp("slt", index, last)
        if going is not None:
            more = self.and_(more, going(tuple(phis)))
        self.emit(f"br i1 {more.text}, label %{body}, label %{done}")
        self._start(body)
        loop = Loop(index, tuple(phis))
        yield loop
        after = loop._next if loop._next is not None else ()
        if len(after) != len(carried):
            raise ValueError(f"a loop that carries {len(carried)} values was given {len(after)}")
        following = self.add(index, by)
        end = self._label
        self.emit(f"br label %{head}")
        self._lines[at] = f"  {index.text} = phi i64 [ {first.text}, %{before} ], [ {following.text}, %{end} ]"
        for i, (phi, init, new) in enumerate(zip(phis, carried, after, strict=True)):
            self._lines[at + 1 + i] = (
                f"  {phi.text} = phi {phi.type.text} [ {init.text}, %{before} ], [ {new.text}, %{end} ]"
            )
        self._start(done)
        loop.results = tuple(phis)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Write `if condition:` around statements that store."""
        body, done = self._new_label("then"), self._new_label("after")
        self.emit(f"br i1 {condition.text}, label %{body}, label %{done}")
        self._start(body)
        yield
        self.emit(f"br label %{done}")
        self._start(done)

    def either(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
    ) -> tuple[Value, ...]:
        """Write `then()` if condition else `otherwise()` as two branches, and return the values that they give."""
        yes, no, done = (self._new_label(h) for h in ("then", "else", "after"))
        self.emit(f"br i1 {condition.text}, label %{yes}, label %{no}")
        self._start(yes)
        a = tuple(then())
        end_a = self._label
        self.emit(f"br label %{done}")
        self._start(no)
        b = tuple(otherwise())
        end_b = self._label
        self.emit(f"br label %{done}")
        self._start(done)
        return tuple(
            self.value(x.type, f"phi {x.type.text} [ {x.text}, %{end_a} ], [ {y.text}, %{end_b} ]")
            for x, y in zip(a, b, strict=True)
        )


def as_bits(type: Type) -> Type:
    """Return the integer type as wide as a type of 16 bits, by which such numbers are loaded and stored: half-precision
    types are not legal everywhere, and LLVM then moves some of them by calls of functions that may not exist.
    """
    return Type("i", type.bits, type.lanes)


def literal(type: Type, number: float | int | bool) -> str:
    """Return a number as LLVM reads it, exactly."""
    if type.kind == "i":
        n = int(number)
        return str(bool(n)).lower() if type.bits == 1 else str(_wrapped(n, type.bits))
    if type.kind == "p":
        return "null"
    x = float(number)
    if type == F64:
        return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"
    if type == F16:
        return f"0xH{struct.unpack('<H', struct.pack('<e', x))[0]:04X}"
    try:
        bits = struct.pack("<f", x)
    except OverflowError:  # beyond float32: infinity, as a conversion gives
        bits = struct.pack("<f", float("inf") if x > 0 else float("-inf"))
    if type == BF16:
        n = struct.unpack("<I", bits)[0]
        n = (n | 0x400000) if x != x else n + 0x7FFF + ((n >> 16) & 1)
        return f"0xR{(n >> 16) & 0xFFFF:04X}"
    # A float is written as the double of the same value.
    rounded = struct.unpack("<f", bits)[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


def _wrapped(n: int, bits: int) -> int:
    n &= (1 << bits) - 1
    return n - (1 << bits) if n >> (bits - 1) else n


def _arguments(args: Sequence[Value]) -> str:
    return ", ".join(f"{a.type.text} {a.text}" for a in args)
