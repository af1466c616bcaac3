"""Loops over arrays in generated code: positions along nested axes, and pieces of contiguous runs.

Kernels do not know sizes, so they walk over the outer axes of their arrays by counters like an
odometer's: a division for every axis where a range of units begins, additions from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from .builder import Builder, Loop, Value
from .types import I8, I64, Type


class Position(NamedTuple):
    """A position of a walk: its number, a coordinate for every axis, an offset into every array."""

    number: Value
    coordinates: tuple[Value, ...]
    offsets: tuple[Value, ...]


def axis_words(shape: Sequence[int], *strides: Sequence[int]) -> list[int]:
    """Return the words that :func:`walk` reads: for every axis its size, then its stride in each of the arrays."""
    return [w for axis in zip(shape, *strides, strict=True) for w in axis]


@contextmanager
def walk(
    b: Builder, at: int, rank: int, arrays: int, start: Value | None = None, stop: Value | None = None
) -> Iterator[Position]:
    """Visit the positions `start` to `stop` (the kernel's own range of units) of `rank` axes, row-major.

    The record's words from `at` are those of :func:`axis_words`; offsets come in the unit of their
    strides.
    """
    first, last = start if start is not None else b.lo, stop if stop is not None else b.hi
    words = [b.words(at + d * (1 + arrays), 1 + arrays) for d in range(rank)]
    sizes, strides = [w[0] for w in words], [w[1:] for w in words]
    # Going on from an axis's last position to its first.
    back = [[b.mul(s, b.sub(b.index(1), n)) for s in row] for n, row in zip(sizes, strides, strict=True)]
    coordinates, offsets = _position(b, first, sizes, strides, arrays)
    with b.loop(first, last, 1, (*coordinates, *offsets)) as loop:
        coordinates, offsets = list(loop.values[:rank]), list(loop.values[rank:])
        yield Position(loop.index, tuple(coordinates), tuple(offsets))
        _advance(b, loop, sizes, strides, back, coordinates, offsets)


def _position(
    b: Builder, index: Value, sizes: Sequence[Value], strides: Sequence[Sequence[Value]], arrays: int
) -> tuple[list[Value], list[Value]]:
    """Return the coordinates and offsets of a position given by its number."""
    rest = index
    coordinates = [b.index(0)] * len(sizes)
    offsets = [b.index(0)] * arrays
    for d in reversed(range(len(sizes))):
        coordinates[d] = b.urem(rest, sizes[d]) if d else rest
        rest = b.udiv(rest, sizes[d]) if d else rest
        offsets = [b.add(o, b.mul(coordinates[d], s)) for o, s in zip(offsets, strides[d], strict=True)]
    return coordinates, offsets


def _advance(
    b: Builder,
    loop: Loop,
    sizes: Sequence[Value],
    strides: Sequence[Sequence[Value]],
    back: Sequence[Sequence[Value]],
    coordinates: list[Value],
    offsets: list[Value],
) -> None:
    """Carry the next position: an axis steps where the one inside it went back to its start."""
    zero = b.index(0)
    steps: Value | None = None  # whether this axis steps; the innermost always does
    for d in reversed(range(len(sizes))):
        following = b.add(coordinates[d], b.index(1))
        wraps = b.icmp("eq", following, sizes[d])
        moves = [b.select(wraps, r, s) for r, s in zip(back[d], strides[d], strict=True)]
        after = b.select(wraps, zero, following)
        if steps is None:
            coordinates[d], steps = after, wraps
        else:
            coordinates[d] = b.select(steps, after, coordinates[d])
            moves = [b.select(steps, m, zero) for m in moves]
            steps = b.and_(steps, wraps)
        offsets[:] = [b.add(o, m) for o, m in zip(offsets, moves, strict=True)]
    loop.carry(*coordinates, *offsets)


def cover(b: Builder, count: Value, lanes: int, piece: Callable[[Value, int], None], unroll: int = 4) -> None:
    """Cover `count` elements by pieces of powers of two up to `lanes`: `piece(first element, how many)`.

    The last piece of a run overlaps the one before it, so that none is masked: only for work that
    does no harm when it is done twice. `lanes` is a power of two.
    """
    zero = b.index(0)

    def long() -> tuple[Value, ...]:
        last = b.sub(count, b.index(lanes))
        block = unroll * lanes
        many = b.and_(count, b.index(-block))
        with b.loop(0, many, block) as blocks:
            for k in range(unroll):
                piece(b.add(blocks.index, b.index(k * lanes)), lanes)
        with b.loop(many, last, lanes) as rest:
            piece(rest.index, lanes)
        piece(last, lanes)
        return ()

    def short(n: int) -> tuple[Value, ...]:
        if n == 1:
            with b.when(b.icmp("sgt", count, zero)):
                piece(zero, 1)
            return ()

        def two() -> tuple[Value, ...]:
            piece(zero, n)
            piece(b.sub(count, b.index(n)), n)
            return ()

        return b.either(b.icmp("sge", count, b.index(n)), two, lambda: short(n // 2))

    b.either(b.icmp("sge", count, b.index(lanes)), long, lambda: short(lanes // 2))


def partition(b: Builder, count: Value, lanes: int, piece: Callable[[Value, int], None]) -> None:
    """Cover `count` elements as :func:`cover` does, by pieces that do not overlap: the rest is taken by halves."""
    whole = b.and_(count, b.index(-lanes))
    with b.loop(0, whole, lanes) as loop:
        piece(loop.index, lanes)
    at, n = whole, lanes // 2
    while n:
        bit = b.and_(count, b.index(n))
        with b.when(b.icmp("ne", bit, b.index(0))):
            piece(at, n)
        at, n = b.add(at, bit), n // 2


def copy_run(b: Builder, target: Value, source: Value, nbytes: Value) -> None:
    """Copy a number of bytes, between memory that does not overlap, by the widest vectors."""

    def piece(at: Value, n: int) -> None:
        type = Type("i", 8 * n) if n <= 8 else I64.vector(n // 8)
        b.store(b.load(type, b.offset(source, at, I8), 1), b.offset(target, at, I8), 1)

    cover(b, nbytes, b.target.width, piece)


def fill_run(b: Builder, target: Value, x: Value, count: Value) -> None:
    """Store `count` copies of the scalar `x`."""

    def piece(at: Value, n: int) -> None:
        b.store(b.splat(x, n), b.offset(target, at, x.type), x.type.size)

    cover(b, count, b.target.lanes(x.type), piece)
