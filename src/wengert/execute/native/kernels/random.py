"""Random numbers: Philox 4x64-10 (Salmon et al. 2011) by vectors, and the distributions made of its words.

How bits become numbers stands in :mod:`wengert.ops.random.philox`; here the same is done for many blocks at a
time. Where registers hold eight 64-bit numbers a block goes in every lane, and products of 64 bits are
put together from those of 32; elsewhere the scalar multiplier, which gives both halves of a product
at once, is as fast. A unit is a fixed number of blocks, and a block depends on nothing but its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ....core.dtypes import record_of
from ....core.node import Node
from ....ops.random.philox import BLOCK, WORD
from ..codegen.builder import Builder, Value
from ..codegen.types import F32, F64, I8, I32, I64, Type, storage_type
from ..codegen.walk import copy_run
from ..plan.lowering import Lowering, lowers
from ..plan.plan import View
from ..scalar.fp16 import convert
from ..scalar.math.log import log
from ..scalar.math.trig import cos, sin
from .copies import fill_step

# Philox 4x64: the multipliers, and what is added to the key after every round.
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
ROUNDS = 10

# Blocks in a unit: enough that sharing out costs nothing beside them.
UNIT_BLOCKS = 1024

# From vectors of words in order (two at a time for normal numbers) to vectors of numbers in order.
Finish = Callable[[Builder, list[Value]], list[Value]]


# -- the cipher


def _by_vectors(b: Builder) -> bool:
    return b.target.lanes(I64) >= 8


def high_and_low(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return the halves of the 128-bit products of 64-bit numbers, lane by lane."""
    if not x.type.lanes:
        wide = Type("i", 128)
        product = b.mul(b.cast("zext", x, wide), b.cast("zext", y, wide))
        high = b.cast("trunc", b.lshr(product, b.const(wide, 64)), I64)
        return high, b.cast("trunc", product, I64)
    half, mask = b.const(x.type, 32), b.const(x.type, 0xFFFFFFFF)
    x_low, x_high, y_low, y_high = b.and_(x, mask), b.lshr(x, half), b.and_(y, mask), b.lshr(y, half)
    low = b.mul(x_low, y_low)
    cross = b.add(b.mul(x_high, y_low), b.lshr(low, half))
    other = b.add(b.mul(x_low, y_high), b.and_(cross, mask))
    high = b.add(b.add(b.mul(x_high, y_high), b.lshr(cross, half)), b.lshr(other, half))
    return high, b.or_(b.shl(other, half), b.and_(low, mask))


def philox(b: Builder, key: Sequence[Value], counter: Sequence[Value]) -> list[Value]:
    """Return the four words of the block with this counter of four words, lane by lane."""
    lanes = counter[0].type.lanes
    type = I64.vector(lanes)
    x0, x1, x2, x3 = counter
    k0, k1 = key
    m0, m1 = (b.const(type, m) for m in MULTIPLIERS)
    for i in range(ROUNDS):
        if i:
            k0, k1 = b.add(k0, b.const(I64, WEYL[0])), b.add(k1, b.const(I64, WEYL[1]))
        high0, low0 = high_and_low(b, x0, m0)
        high1, low1 = high_and_low(b, x2, m1)
        x0, x1, x2, x3 = (
            b.xor(b.xor(high1, x1), b.splat(k0, lanes)),
            low1,
            b.xor(b.xor(high0, x3), b.splat(k1, lanes)),
            low0,
        )
    return [x0, x1, x2, x3]


def _group(b: Builder, key: Sequence[Value], base: Value, first: Value) -> list[Value]:
    """Return the words of the blocks from number `first` after the position `base` on, as vectors, in order."""

    def counter(block: Value) -> list[Value]:
        lanes = block.type.lanes
        start = b.splat(base, lanes)
        at = b.add(start, block)
        carry = b.cast("zext", b.icmp("ult", at, start), I64)
        zero = b.const(block.type, 0)
        return [at, carry, zero, zero]

    if _by_vectors(b):
        # Two vectors side by side: a round's steps wait for each other, those of two do not.
        type = I64.vector(16)
        both = philox(b, key, counter(b.add(b.splat(first, 16), b.iota(type))))
        return [row for k in (0, 8) for row in _in_order(b, [b.shuffle(x, x, range(k, k + 8)) for x in both])]
    rows = []
    for i in range(2):
        row = b.undefined(I64.vector(BLOCK))
        for k, word in enumerate(philox(b, key, counter(b.add(first, b.index(i))))):
            row = b.insert(row, word, k)
        rows.append(row)
    return rows


def _in_order(b: Builder, rows: list[Value]) -> list[Value]:
    """Return eight blocks, a row for each of their four words, as vectors that hold block after block.

    Word k of block i is number 4 i + k: of a number's bits, the rows' two move from the front to the back.
    """
    low, high = ([x for i in part for x in (i, 8 + i)] for part in (range(4), range(4, 8)))
    for _ in range(2):
        pairs = [(rows[i], rows[i + 2]) for i in range(2)]
        rows = [b.shuffle(x, y, half) for x, y in pairs for half in (low, high)]
    return rows


def _position(low: Lowering, node: Node) -> tuple[View, View] | None:
    """Return the key and the counter of a drawing node, from its inputs or its attributes."""
    if node.op.name.endswith("_at"):
        key, counter = (low.view(e) for e in node.inputs[-2:])
        return (low.contiguous(key), counter) if counter.dtype == np.uint64 else None
    number = node.attrs["counter"]
    if number > WORD:
        return None
    return low.constant(np.array(node.attrs["key"], np.uint64)), low.constant(np.array(number, np.uint64))


def draw(
    low: Lowering,
    node: Node,
    out: View,
    how: str,
    item: int,
    finish: Callable[[Builder], Finish],
    words: Sequence[int] = (),
) -> View | None:
    """Fill `out` with what `finish` makes of words; `item` bytes of the stream make one number.

    `finish(b)` is told the kernel's builder first, to read `words` from the record at 7.
    """
    position = _position(low, node)
    if position is None:
        return None
    if out.size == 0:
        return out
    per_unit = UNIT_BLOCKS * BLOCK * 8 // item
    size, type = out.dtype.itemsize, storage_type(out.dtype)
    assert type is not None

    def build(b: Builder) -> None:
        key, counter, target, count = b.buffer(0), b.buffer(2), b.buffer(4), b.word(6)
        keys = [b.load(I64, b.offset(key, i, I64)) for i in range(2)]
        base = b.load(I64, counter)
        blocks = 16 if _by_vectors(b) else 2
        group = blocks * BLOCK * 8 // item
        made = finish(b)
        spare = b.local(I8, group * size)
        with b.loop(b.lo, b.hi) as units:
            start = b.mul(units.index, b.index(per_unit))
            stop = b.imin(count, b.add(start, b.index(per_unit)))
            with b.loop(start, stop, group) as groups:
                first = b.udiv(groups.index, b.index(BLOCK * 8 // item))
                numbers = made(b, _group(b, keys, base, first))
                left = b.sub(stop, groups.index)
                whole = b.icmp("sge", left, b.index(group))
                there = b.offset(target, groups.index, type)
                pointer = b.select(whole, there, spare)
                at = 0
                for x in numbers:
                    b.store(x, b.offset(pointer, at, type), size)
                    at += x.type.lanes
                with b.when(b.not_(whole)):
                    copy_run(b, there, spare, b.mul(left, b.index(size)))

    kernel = low.kernel(f"random {how}", build)
    record: list[int | View] = [*position, out, out.size, *(_signed(w) for w in words)]
    units = -(-out.size // per_unit)
    low.step(kernel, record, units=units, reads=position, writes=[out], nodes=[node])
    return out


def _signed(word: int) -> int:
    """Return a 64-bit word as the record holds it."""
    return (word & WORD) - ((word & WORD) >> 63 << 64)


def _halves(b: Builder, x: Value) -> Value:
    """Return 64-bit words as twice as many of 32 bits, the low half first."""
    return b.cast("bitcast", x, I32.vector(2 * x.type.lanes))


# -- bits, uniform numbers, truth values, integers


@lowers("random_bits", "random_bits_at")
def _bits(low: Lowering, node: Node) -> View | None:
    out = low.temp(node.spec.shape, node.spec.dtype)
    if out.dtype.itemsize not in (4, 8):
        return None
    return draw(
        low, node, out, f"bits {8 * out.dtype.itemsize}", out.dtype.itemsize, lambda b: _kept(out.dtype.itemsize)
    )


def _kept(item: int) -> Finish:
    return lambda b, words: words if item == 8 else [_halves(b, w) for w in words]


@lowers("random_uniform", "random_uniform_at")
def _uniform(low: Lowering, node: Node) -> View | None:
    out = low.temp(node.spec.shape, node.spec.dtype)
    type = storage_type(out.dtype)
    assert type is not None
    bits = record_of(out.dtype).digits

    def one(b: Builder, words: Value) -> Value:
        source = words if type == F64 else _halves(b, words)
        top = b.lshr(source, b.const(source.type, source.type.bits - bits))
        work = F64 if type == F64 else F32
        x = b.cast("sitofp", top, work)
        return convert(b, b.fmul(x, b.const(x.type, 2.0**-bits)), type)

    item = 8 if type == F64 else 4
    return draw(
        low, node, out, f"uniform {out.dtype.name}", item, lambda b: lambda b, words: [one(b, w) for w in words]
    )


@lowers("random_bernoulli", "random_bernoulli_at")
def _bernoulli(low: Lowering, node: Node) -> View | None:
    out = low.temp(node.spec.shape, np.bool_)
    threshold = round(node.attrs["p"] * 2**32)
    if threshold >= 2**32:
        fill_step(low, out, True, nodes=[node])
        return out

    def finish(b: Builder) -> Finish:
        limit = b.cast("trunc", b.word(7), I32)

        def one(words: Value) -> Value:
            source = _halves(b, words)
            return b.cast("zext", b.icmp("ult", source, b.splat(limit, source.type.lanes)), I8)

        return lambda b, words: [one(w) for w in words]

    return draw(low, node, out, "bernoulli", 4, finish, [threshold])


@lowers("random_integers", "random_integers_at")
def _integers(low: Lowering, node: Node) -> View | None:
    out = low.temp(node.spec.shape, node.spec.dtype)
    lowest, factor = node.attrs["low"], node.attrs["high"] - node.attrs["low"]
    type = storage_type(out.dtype)
    if type is None or type.kind != "i":
        return None
    every = factor > WORD  # all words are results

    def finish(b: Builder) -> Finish:
        lowest, factor = b.word(7), b.word(8)

        def one(words: Value) -> Value:
            lanes = words.type.lanes
            x = words if every else high_and_low(b, words, b.splat(factor, lanes))[0]
            x = b.add(x, b.splat(lowest, lanes))
            return x if type == I64 else b.cast("trunc", x, type)

        return lambda b, words: [one(w) for w in words]

    how = f"integers {type.text}" + (" every" if every else "")
    return draw(low, node, out, how, 8, finish, [lowest, factor])


# -- normal numbers


@lowers("random_normal", "random_normal_at")
def _normal(low: Lowering, node: Node) -> View | None:
    out = low.temp(node.spec.shape, node.spec.dtype)
    type = storage_type(out.dtype)
    assert type is not None
    item = 8 if type == F64 else 4

    def finish(b: Builder, words: list[Value]) -> list[Value]:
        made = [x for pair in zip(words[::2], words[1::2]) for x in _box_muller(b, *pair, F64 if type == F64 else F32)]
        return [convert(b, x, type) for x in made]

    return draw(low, node, out, f"normal {out.dtype.name}", item, lambda b: finish)


def _box_muller(b: Builder, first: Value, second: Value, type: Type) -> list[Value]:
    """Return normal numbers in order from two vectors of words; pairs are neighbours."""
    n = first.type.lanes
    if type == F64:
        u_words = b.shuffle(first, second, range(0, 2 * n, 2))
        v_words = b.shuffle(first, second, range(1, 2 * n, 2))
        shift = b.const(u_words.type, 11)
        u = b.cast("sitofp", b.lshr(u_words, shift), type)
        v = b.cast("sitofp", b.lshr(v_words, shift), type)
        u_scale, v_scale = 2.0**-53, 2.0**-53
    else:
        both = [b.shuffle(_halves(b, first), _halves(b, second), range(k, 4 * n, 2)) for k in (0, 1)]
        u = b.cast("uitofp", both[0], type)
        v = b.cast("sitofp", b.lshr(both[1], b.const(both[1].type, 8)), type)
        u_scale, v_scale = 2.0**-32, 2.0**-24
    wide = u.type
    u = b.fmul(b.fadd(u, b.const(wide, 1.0)), b.const(wide, u_scale))
    radius = b.intrinsic("sqrt", b.fmul(log(b, u), b.const(wide, -2.0)))
    angle = b.fmul(b.fmul(v, b.const(wide, v_scale)), b.const(wide, 2 * math.pi))
    x, y = b.fmul(radius, cos(b, angle)), b.fmul(radius, sin(b, angle))
    lanes = wide.lanes
    low = [i for k in range(lanes // 2) for i in (k, lanes + k)]
    high = [i for k in range(lanes // 2, lanes) for i in (k, lanes + k)]
    return [b.shuffle(x, y, low), b.shuffle(x, y, high)]


# -- keys made of keys


@lowers("random_key")
def _key(low: Lowering, node: Node) -> View | None:
    """Return the first two words of the cipher of (position, 0, 0, domain), the position of two words with a sign."""
    key, position = (low.view(e) for e in node.inputs)
    if position.dtype not in (np.uint64, np.int64):
        return None
    out = low.temp(node.spec.shape, np.uint64)
    signed = position.dtype.kind == "i"

    def build(b: Builder) -> None:
        key, position, target = (b.buffer(2 * k) for k in range(3))
        stride, domain = b.words(6, 2)
        keys = [b.load(I64, key), b.load(I64, b.offset(key, stride, I64))]
        number = b.load(I64, position)
        above = b.ashr(number, b.index(63)) if signed else b.index(0)
        for i, word in enumerate(philox(b, keys, [number, above, b.index(0), domain])[:2]):
            b.store(word, b.offset(target, i, I64))

    record: list[int | View] = [key, position, out, key.strides[0], node.attrs["domain"]]
    kernel = low.kernel(f"random key{' signed' if signed else ''}", build)
    low.step(kernel, record, reads=[key, position], writes=[out], nodes=[node])
    return out
