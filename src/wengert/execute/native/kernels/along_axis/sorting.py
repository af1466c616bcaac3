"""Sorting along an axis, the k largest, searching.

Numbers become unsigned keys of their order, and are sorted with their indices: stable, since of equal
keys the one with the smaller index comes first. A key of up to 32 bits and its index are one 64-bit
word. Two ways, neither of which depends on the values:

- *by rank*, for short lines: an element's place is the number of those before it, counted by vectors;
- *by digits*: least significant first, 8 bits at a time (Knuth 1973, section 5.2.5), passes in which
  all digits are equal left out.

For the k largest of many, what cannot be among them is left out first: those whose leading bits
come after the bits up to which there are k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .....core.graph.snapshot import specs_of
from .....core.node import Node
from .....ops.random.philox import WORD
from ...codegen.builder import Builder, Value
from ...codegen.types import I32, I64, Type, storage_type
from ...codegen.walk import axis_words, walk
from ...plan.lowering import Lowering, lowers
from ...plan.plan import View
from ..copies import joined
from ..random import draw
from .lines import Line, each_line, lines
from .ordered import key_type, load_keys

DIGIT = 8  # bits
LEADING = 11  # bits by which a selection is made


class _Keys(NamedTuple):
    """The sort keys of a dtype: `bits` of them count; `packed` keys share a word with their index."""

    dtype: np.dtype[Any]
    descending: bool
    bits: int
    packed: bool

    @property
    def shift(self) -> int:
        """The place in its word where the key begins."""
        return 32 if self.packed else 0

    def load(self, b: Builder, pointer: Value) -> Value:
        """Return the key of one number as an unsigned 64-bit word, its index not in it yet."""
        key = load_keys(b, self.dtype, pointer, 1)
        type = key.type
        # From signed to unsigned; keys of narrow numbers begin at 0 as well.
        if self.bits == type.bits:
            key = b.xor(key, b.const(type, 1 << (type.bits - 1)))
        elif self.dtype.kind == "i":
            key = b.add(key, b.const(type, 1 << (self.bits - 1)))
        if self.descending:
            key = b.xor(key, b.const(type, (1 << self.bits) - 1))
        return b.shl(b.cast("zext", key, I64), b.index(32)) if self.packed else key


def _keys_of(dtype: np.dtype[Any], descending: bool) -> _Keys:
    type = key_type(dtype)
    bits = 8 * dtype.itemsize if dtype.kind in "iub" else type.bits
    return _Keys(dtype, descending, bits, type == I32)


class _Line(NamedTuple):
    """The memory of one line's sort, all of 64-bit words: keys and indices twice, and counters.

    Of packed keys the indices are the keys' own words.
    """

    keys: Value
    indices: Value
    other_keys: Value
    other_indices: Value
    counters: Value


def _memory(b: Builder, packed: bool, room: Value) -> _Line:
    base = b.scratch()
    parts = [b.offset(base, b.mul(room, b.index(k)), I64) for k in range(3 if packed else 5)]
    if packed:
        return _Line(parts[0], parts[0], parts[1], parts[1], parts[2])
    return _Line(*parts)


def _counters(keys: _Keys) -> int:
    """Return the number of counters that a sort needs."""
    return max(-(-keys.bits // DIGIT) << DIGIT, 1 << LEADING)


def _index_in(b: Builder, packed: bool, word: Value) -> Value:
    return b.and_(word, b.index(0xFFFFFFFF)) if packed else word


# -- the sort of one line


def _sort_line(b: Builder, keys: _Keys, memory: _Line, count: Value, wanted: Value, put: Any) -> None:
    """Call `put(place, index)` for the first `wanted` of `count` elements in order."""
    short = b.icmp("sle", count, b.index(32 * b.target.lanes(I64)))

    def by_rank() -> Sequence[Value]:
        _rank(b, keys, memory, count)
        with b.loop(0, count) as loop:
            place = b.load(I64, b.offset(memory.other_keys, loop.index, I64))
            with b.when(b.icmp("slt", place, wanted)):
                put(place, _index_in(b, keys.packed, b.load(I64, b.offset(memory.indices, loop.index, I64))))
        return ()

    def by_digits() -> Sequence[Value]:
        indices = _radix(b, keys, memory, count)
        with b.loop(0, wanted) as loop:
            put(loop.index, _index_in(b, keys.packed, b.load(I64, b.offset(indices, loop.index, I64))))
        return ()

    b.either(short, by_rank, by_digits)


def _rank(b: Builder, keys: _Keys, memory: _Line, count: Value) -> None:
    """Count for every element those before it, into the other keys' memory."""
    lanes = b.target.lanes(I64)
    wide = I64.vector(lanes)
    with b.loop(0, count, lanes) as block:
        mine = b.load(wide, b.offset(memory.keys, block.index, I64), I64.size)
        numbers = b.add(b.splat(block.index, lanes), b.iota(wide))
        with b.loop(0, count, carried=[b.const(wide, 0)]) as loop:
            other = b.splat(b.load(I64, b.offset(memory.keys, loop.index, I64)), lanes)
            before = b.icmp("ult", other, mine)
            if not keys.packed:  # packed keys are all different
                earlier = b.icmp("slt", b.splat(loop.index, lanes), numbers)
                before = b.or_(before, b.and_(b.icmp("eq", other, mine), earlier))
            loop.carry(b.add(loop.values[0], b.cast("zext", before, I64)))
        b.store(loop.results[0], b.offset(memory.other_keys, block.index, I64), I64.size)


def _radix(b: Builder, keys: _Keys, memory: _Line, count: Value) -> Value:
    """Sort by digits, and return where the indices are then."""
    passes, buckets = -(-keys.bits // DIGIT), 1 << DIGIT
    mask = b.index(buckets - 1)
    clear(b, memory.counters, passes * buckets)

    def digit(key: Value, which: Value) -> Value:
        shift = b.add(b.index(keys.shift), b.mul(which, b.index(DIGIT)))
        return b.and_(b.lshr(key, shift), mask)

    def counter(which: Value, value: Value) -> Value:
        return b.offset(memory.counters, b.add(b.mul(which, b.index(buckets)), value), I64)

    with b.loop(0, count) as loop:
        key = b.load(I64, b.offset(memory.keys, loop.index, I64))
        for k in range(passes):
            increment(b, counter(b.index(k), digit(key, b.index(k))))
    with b.loop(0, passes, carried=memory[:4]) as sweep:
        source, other = sweep.values[:2], sweep.values[2:]
        first = b.load(I64, source[0])
        alike = b.icmp("eq", b.load(I64, counter(sweep.index, digit(first, sweep.index))), count)

        def distribute() -> Sequence[Value]:
            with b.loop(0, buckets, carried=[b.index(0)]) as bucket:
                at = counter(sweep.index, bucket.index)
                size = b.load(I64, at)
                b.store(bucket.values[0], at)
                bucket.carry(b.add(bucket.values[0], size))
            with b.loop(0, count) as loop:
                key = b.load(I64, b.offset(source[0], loop.index, I64))
                place = increment(b, counter(sweep.index, digit(key, sweep.index)))
                b.store(key, b.offset(other[0], place, I64))
                if not keys.packed:
                    b.store(b.load(I64, b.offset(source[1], loop.index, I64)), b.offset(other[1], place, I64))
            return (*other, *source)

        sweep.carry(*b.either(alike, lambda: sweep.values, distribute))
    return sweep.results[1]


def clear(b: Builder, counters: Value, count: int) -> None:
    """Set `count` counters to 0."""
    with b.loop(0, count) as loop:
        b.store(b.index(0), b.offset(counters, loop.index, I64))


def increment(b: Builder, counter: Value) -> Value:
    """Add one to a counter, and return what it was."""
    before = b.load(I64, counter)
    b.store(b.add(before, b.index(1)), counter)
    return before


def _select(b: Builder, keys: _Keys, memory: _Line, count: Value, wanted: Value) -> Value:
    """Keep, in order, the elements that may be among the first `wanted`, and return their number.

    Elements go by the leading bits of their keys: kept are those up to the value by which there
    are enough.
    """
    width = min(LEADING, keys.bits)
    shift = b.index(keys.shift + keys.bits - width)
    clear(b, memory.counters, 1 << width)
    with b.loop(0, count) as loop:
        key = b.load(I64, b.offset(memory.keys, loop.index, I64))
        increment(b, b.offset(memory.counters, b.lshr(key, shift), I64))
    # The last value after which there are not enough yet: as many of the running sums are below `wanted`.
    with b.loop(0, 1 << width, carried=[b.index(0), b.index(0)]) as value:
        total = b.add(value.values[0], b.load(I64, b.offset(memory.counters, value.index, I64)))
        few = b.cast("zext", b.icmp("slt", total, wanted), I64)
        value.carry(total, b.add(value.values[1], few))
    last = value.results[1]
    with b.loop(0, count, carried=[b.index(0)]) as loop:
        key = b.load(I64, b.offset(memory.keys, loop.index, I64))
        kept = loop.values[0]
        b.store(key, b.offset(memory.keys, kept, I64))
        if not keys.packed:
            b.store(b.load(I64, b.offset(memory.indices, loop.index, I64)), b.offset(memory.indices, kept, I64))
        loop.carry(b.add(kept, b.cast("zext", b.icmp("ule", b.lshr(key, shift), last), I64)))
    return loop.results[0]


# -- lowerings


def sort_step(
    low: Lowering,
    x: View,
    axis: int,
    descending: bool,
    values: View | None,
    indices: View | None,
    nodes: Sequence[Node],
) -> bool:
    """Add the step that sorts `x` along `axis` into `values`, `indices` or both, as many as they hold.

    False where there is no kernel for this.
    """
    n = x.shape[axis]
    if x.dtype.kind == "c" or n >= 2**31:
        return False
    outputs = [v for v in (values, indices) if v is not None]
    k = outputs[0].shape[axis]
    if outputs[0].size == 0:
        return True
    # Every line by itself: the axis is brought to the end.
    last = [*(d for d in range(len(x.shape)) if d != axis), axis]
    found = lines(low, [v.permute(last) for v in (x, *outputs)], len(x.shape) - 1)
    keys = _keys_of(x.dtype, descending)
    selects = 4 * k <= n
    # Vectors read on beyond the last key.
    room = n + low.target.lanes(I64)
    scratch = ((2 if keys.packed else 4) * room + _counters(keys)) * 8
    memory_type = storage_type(x.dtype)
    assert memory_type is not None
    # Values move as they are, whatever they are.
    moved = Type("i", memory_type.bits)
    extra = found.extra

    def body(b: Builder, line: Line, room: Value) -> None:
        memory = _memory(b, keys.packed, room)
        count = line.lengths[0]
        with b.loop(0, count) as loop:
            key = keys.load(b, line.at(b, 0, loop.index, memory_type))
            if keys.packed:
                b.store(b.or_(key, loop.index), b.offset(memory.keys, loop.index, I64))
            else:
                b.store(key, b.offset(memory.keys, loop.index, I64))
                b.store(loop.index, b.offset(memory.indices, loop.index, I64))
        wanted = line.lengths[1]

        def put(place: Value, index: Value) -> None:
            at = 1
            if values is not None:
                b.store(b.load(moved, line.at(b, 0, index, moved)), line.at(b, at, place, moved))
                at += 1
            if indices is not None:
                b.store(index, line.at(b, at, place, I64))

        if selects:
            count = _select(b, keys, memory, count, wanted)
        _sort_line(b, keys, memory, count, wanted, put)

    def build(b: Builder) -> None:
        room = b.word(extra)
        types = [memory_type, *([moved] if values is not None else []), *([I64] if indices is not None else [])]
        each_line(b, found, types, lambda line: body(b, line, room))

    what = "".join(" " + name for name, v in (("values", values), ("indices", indices)) if v is not None)
    way = f"{'descending' if descending else 'ascending'}{' selected' if selects else ''}"
    kernel = low.kernel(f"sort {way}{what} {x.dtype.name} {found.key}", build)
    reads = [w for w in found.words if isinstance(w, View) and all(w.buffer is not o.buffer for o in outputs)]
    work = 10.0 * x.size * max(1, math.log2(max(n, 2)))
    about = {"units": found.units, "scratch": scratch, "flops": work, "nodes": nodes}
    low.step(kernel, [*found.words, room], reads=reads, writes=outputs, **about)
    return True


@lowers("sort", "argsort")
def _sort(low: Lowering, node: Node) -> View | None:
    x, attrs = low.view(node.inputs[0]), node.attrs
    out = low.temp(node.spec.shape, node.spec.dtype)
    values, indices = (out, None) if node.op.name == "sort" else (None, out)
    axis = attrs["axis"] % len(x.shape)
    return out if sort_step(low, x, axis, attrs["descending"], values, indices, [node]) else None


@lowers("top_k")
def _top_k(low: Lowering, node: Node) -> tuple[View, ...] | None:
    x, attrs = low.view(node.inputs[0]), node.attrs
    values, indices = (low.temp(spec.shape, spec.dtype) for spec in specs_of(node))
    done = sort_step(low, x, attrs["axis"] % len(x.shape), attrs["largest"], values, indices, [node])
    return (values, indices) if done else None


@lowers("arg_top_k")
def _arg_top_k(low: Lowering, node: Node) -> View | None:
    x, attrs = low.view(node.inputs[0]), node.attrs
    out = low.temp(node.spec.shape, node.spec.dtype)
    return out if sort_step(low, x, attrs["axis"] % len(x.shape), attrs["largest"], None, out, [node]) else None


@lowers("random_permutation", "random_permutation_at")
def _permutation(low: Lowering, node: Node) -> View | None:
    """Sort random words without their lowest bits, which the definition replaces by their number."""
    n = node.attrs["n"]
    out, words = low.temp((n,), np.int64), low.temp((n,), np.uint64)
    mask = WORD - ((1 << max(n - 1, 0).bit_length()) - 1)
    finish = lambda b: lambda b, vectors: [b.and_(v, b.splat(b.word(7), v.type.lanes)) for v in vectors]
    if n >= 2**31 or draw(low, node, words, "bits of permutations", 8, finish, [mask]) is None:
        return None
    return out if sort_step(low, words, 0, False, None, out, [node]) else None


# -- searching


@lowers("searchsorted")
def _searchsorted(low: Lowering, node: Node) -> View | None:
    sorted, values = (low.view(e) for e in node.inputs)
    right, dtype = node.attrs["right"], values.dtype
    if dtype.kind == "c" or sorted.dtype != dtype:
        return None
    out = low.temp(node.spec.shape, np.int64)
    if out.size == 0:
        return out
    n, step = sorted.shape[-1], sorted.strides[-1]
    rows = sorted.strides[:-1] if len(sorted.shape) > 1 else (0,) * max(0, len(values.shape) - 1)
    shape, strides = joined(values.shape, values.strides, (*rows, *([0] if values.shape else [])))
    rank, memory = len(shape), storage_type(dtype)
    assert memory is not None
    words: list[int | View] = [sorted, values, out, n, step, n.bit_length(), *axis_words(shape, *strides)]

    def build(b: Builder) -> None:
        line, values, target = (b.buffer(2 * k) for k in range(3))
        n, step, halvings = b.words(6, 3)
        final = b.sub(n, b.index(1))
        with walk(b, 9, rank, 2) as at:
            wanted = load_keys(b, dtype, b.offset(values, at.offsets[0], memory), 1)
            row = b.offset(line, at.offsets[1], memory)
            # The place is from `start` on, among `count` elements.
            with b.loop(0, halvings, carried=[b.index(0), n]) as loop:
                start, count = loop.values
                half = b.lshr(count, b.index(1))
                probe = b.imin(b.add(start, half), final)
                found = load_keys(b, dtype, b.offset(row, b.mul(probe, step), memory), 1)
                before = b.icmp("sle" if right else "slt", found, wanted)
                goes = b.and_(before, b.icmp("sgt", count, b.index(0)))
                beyond = b.add(half, b.index(1))
                loop.carry(b.select(goes, b.add(start, beyond), start), b.select(goes, b.sub(count, beyond), half))
            b.store(loop.results[0], b.offset(target, at.number, I64))

    kernel = low.kernel(f"searchsorted {'right' if right else 'left'} {dtype.name} {rank}", build)
    work = 10.0 * out.size * max(1, n.bit_length())
    low.step(kernel, words, units=out.size, grain=256, flops=work, reads=[sorted, values], writes=[out], nodes=[node])
    return out
