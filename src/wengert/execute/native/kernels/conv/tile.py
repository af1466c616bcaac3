"""Register tiles of convolutions: the division of outputs into tiles, and the loops that fill one.

A tile is `rows` x `columns` outputs (of neighbouring pixels, or of neighbouring elements of a weight
gradient) times some vectors of channels, held in registers while the sum runs. Sizes are split
evenly: all tiles of an axis have one size or that less one, so two loop bodies do for every size
(what BLIS calls edge cases are then nearly as fast as the rest; Van Zee & van de Geijn 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ...codegen.builder import Builder, Value
from ...codegen.types import I8, Target, Type
from ..gemm.arithmetic import Arithmetic, Numbers

# A tile's outputs stay few enough that its code is made quickly; more would win little.
MOST_ROWS = 16


def vectors(target: Target, type: Type, channels: int) -> int:
    """Return the vectors of channels of a tile: the number that wastes least."""
    count = -(-channels // target.lanes(type))
    if count % 2 and count % 3 == 0:
        return 3
    return min(count, 2)


def most_sums(target: Target) -> int:
    """Return how many vectors of sums fit the registers, next to what is multiplied."""
    return target.registers - 4


def most_rows(target: Target, nv: int) -> int:
    """Return how many outputs of `nv` vectors a tile has at most."""
    return min(MOST_ROWS, most_sums(target) // nv)


class Split(NamedTuple):
    """An axis of `size` cut into `tiles` tiles: the first `larger` of them of size `tile`, the others one less."""

    size: int
    tiles: int
    tile: int

    @property
    def larger(self) -> int:
        return self.size - self.tiles * (self.tile - 1)

    @property
    def is_even(self) -> bool:
        return self.larger == self.tiles


def split(size: int, most: int) -> Split:
    """Cut an axis into tiles of at most `most` elements: few of them, but rather an eighth more that are of one size.

    Tiles of one size need one loop body, and common sizes then share it; but a tile of fewer outputs reads the weights
    for less.
    """
    fewest = max(1, -(-size // most))
    even = (n for n in range(fewest, fewest + fewest // 8 + 1) if size % n == 0)
    count = next(even, fewest)
    return Split(size, count, max(1, -(-size // count)))


def split_two(rows: int, columns: int, most: int) -> tuple[Split, Split]:
    """Cut two axes: several rows in a tile only where they are short enough to be whole."""
    inner = split(columns, most)
    return split(rows, most // inner.tile if inner.tiles == 1 else 1), inner


def tile_start(b: Builder, number: Value, tile: int, larger: Value) -> Value:
    """Return where tile `number` of a Split starts; the axis's size for the number after the last."""
    return b.add(b.mul(number, b.index(tile - 1)), b.imin(number, larger))


class Rows(NamedTuple):
    """The addresses of a tile's factors: `rows` x `columns` of them, apart by so many bytes."""

    base: Value
    rows: int
    columns: int
    row_step: Value
    column_step: Value

    def pointers(self, b: Builder) -> list[Value]:
        """Return a pointer for every three of a row, from which the other two are addressed by the step."""
        found = []
        for r in range(self.rows):
            start = _bytes(b, self.base, self.row_step, r)
            found += [_bytes(b, start, self.column_step, c) for c in range(0, self.columns, 3)]
        return found

    def numbers(self, b: Builder, arithmetic: Arithmetic, pointers: Sequence[Value]) -> Iterator[Numbers]:
        """Yield the number at every place of the tile, each loaded when it is asked for."""
        lanes = b.target.lanes(arithmetic.type)
        at = iter(pointers)
        for _ in range(self.rows):
            for c in range(self.columns):
                if c % 3 == 0:
                    # Kept from the code generator, which would make all addresses one chain of additions.
                    group = b.opaque(next(at))
                yield arithmetic.row(b, _bytes(b, group, self.column_step, c % 3), lanes)


def _bytes(b: Builder, pointer: Value, step: Value, times: int) -> Value:
    if times == 0:
        return pointer
    return b.offset(pointer, step if times == 1 else b.mul(step, b.index(times)), I8)


def products(
    b: Builder, arithmetic: Arithmetic, factors: Iterable[Numbers], others: Sequence[Numbers], sums: Sequence[Value]
) -> list[Value]:
    """Return each of `sums` plus a factor times a vector: the outer product of the two lists."""
    found = []
    for i, factor in enumerate(factors):
        found += [arithmetic.add(b, factor, v, sums[i * len(others) + j]) for j, v in enumerate(others)]
    return found


def zero_sums(b: Builder, type: Type, count: int) -> list[Value]:
    """Return zeros to start sums from."""
    return [b.const(type.vector(b.target.lanes(type)), 0)] * count


def sizes_of(b: Builder, tile: int, number: Value, larger: Value, is_even: bool, body: Callable[[int], None]) -> None:
    """Write `body(size)` for the size that tile `number` has."""
    if is_even or tile == 1:
        body(tile)
        return
    is_large = b.icmp("slt", number, larger)
    with b.when(is_large):
        body(tile)
    with b.when(b.not_(is_large)):
        body(tile - 1)
