"""Correlations of 3x3 taps by fewer multiplications: the minimal filtering F(2x2, 3x3).

A tile of 2x2 outputs depends on 4x4 inputs. Inputs and kernel are transformed by sums and differences; the transformed
tile is, at each of its 16 positions, a product of matrices over the channels, and sums and differences of these are the
outputs: 16 multiplications for each pair of channels where the sum over the taps takes 36 (Winograd 1980, Arithmetic
complexity of computations; Lavin & Gray 2016, Fast algorithms for convolutional neural networks). The kernel is
transformed once, so it has to be a constant. An output depends on the inputs of its own window alone, and is as exact
as the sum over the taps, relative to the largest of them and the largest tap: the factors are 1/2 and 1/4, and there
are fewer additions.

But an input enters several products, which cancel where it has no part in an output: an infinity would become a NaN,
and so would what overflows on the way. So every unit says whether what it stored is finite, and where something is not,
the whole correlation is computed again, tap by tap.

A piece of work is some tiles, of any rows and images, and some panels of the kernel. It transforms the tiles to scratch
memory, [position][tile][channel]; there follow, for a few panels at a time, the 16 products, [panel][position][tile]
[channel], and the outputs with their epilogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from .....core.node import Node
from ...codegen.builder import Builder, Value
from ...codegen.types import F64, I64, Type
from ...plan.lowering import Epilogue, Lowering
from ...plan.plan import ALIGN, View
from ...plan.record import Record
from ..gemm.arithmetic import Arithmetic
from ..gemm.finish import Finish
from ..gemm.plan import compute_type
from .finish import Spot, Store
from .geometry import POINT, Axes, Axis
from .tile import Rows, most_rows, products, sizes_of, split, tile_start, vectors, zero_sums

TAPS = 3
# The outputs of a tile along an axis, the inputs that they depend on, and the positions of a transformed tile.
OUTPUTS, INPUTS = 2, 4
POSITIONS = INPUTS * INPUTS
# What both transforms of a channel of a tile cost, in multiplications; what has to be saved of the sum over the taps.
TRANSFORM, LEAST_SAVED = 80, 0.2
# Of fewer tiles the kernel, of which there is more than before, is not read from memory as fast as it is used.
LEAST_TILES = 16
# Bytes of a piece's transformed tiles, and of its products: both are to stay in the second cache.
TILES_BYTES, PRODUCTS_BYTES = 512 << 10, 256 << 10
# The least number of pieces of work, where tiles and panels allow it: so many runs of tiles read a panel at least, and
# so many panels a tile, which every piece transforms anew.
PIECES, LEAST_RUNS, LEAST_PANELS = 16, 2, 2

_TRANSFORM = Record("*w *out channel inner y x channels depth")


def _transform(b: Builder, type: Type, width: int) -> None:
    """Write the transform of the kernel: a unit is an input channel of a panel, [panel][position][input][channel]."""
    r = _TRANSFORM.load(b)
    depth, half = r["depth"], b.const(F64, 0.5)
    position = b.mul(depth, b.index(width))

    def three(a: Value, m: Value, z: Value) -> list[Value]:
        """Return the four numbers that three taps become."""
        outer = b.fadd(a, z)
        return [a, b.fmul(half, b.fadd(outer, m)), b.fmul(half, b.fsub(outer, m)), z]

    with b.loop(b.lo, b.hi) as unit:
        panel, k = b.udiv(unit.index, depth), b.urem(unit.index, depth)
        first = b.mul(panel, b.index(width))
        source = b.offset(r["w"], b.add(b.mul(first, r["channel"]), b.mul(k, r["inner"])), type)
        start = b.mul(b.add(b.mul(panel, b.mul(depth, b.index(POSITIONS))), k), b.index(width))
        to = b.offset(r["out"], start, type)
        used = b.imin(b.sub(r["channels"], first), b.index(width))
        with b.loop(0, used) as channel:
            taps = b.offset(source, b.mul(channel.index, r["channel"]), type)

            def tap(y: int, x: int, taps: Value = taps) -> Value:
                at = b.add(b.mul(b.index(y), r["y"]), b.mul(b.index(x), r["x"]))
                found = b.load(type, b.offset(taps, at, type))
                return b.cast("fpext", found, F64) if type != F64 else found

            columns = [three(*(tap(y, x) for y in range(TAPS))) for x in range(TAPS)]
            for i in range(INPUTS):
                for j, value in enumerate(three(*(columns[x][i] for x in range(TAPS)))):
                    at = b.add(b.mul(b.index(i * INPUTS + j), position), channel.index)
                    b.store(b.cast("fptrunc", value, type) if type != F64 else value, b.offset(to, at, type))
        with b.loop(used, width) as channel, b.loop(0, POSITIONS) as p:
            at = b.add(b.mul(p.index, position), channel.index)
            b.store(b.const(type, 0), b.offset(to, at, type))


def _transformed(low: Lowering, w: View, axes: Axes, width: int, node: Node) -> View:
    """Add the step that transforms a kernel, and return it: (panel, position, input channel, channel)."""
    _, channels, depth = w.shape[:3]
    out = low.temp((-(-channels // width), POSITIONS, depth, width), w.dtype)
    strides = {name: axis.tap_step * stride for name, axis, stride in zip("yx", axes[1:], w.strides[4:])}
    offset = w.offset + sum(axis.tap * stride for axis, stride in zip(axes[1:], w.strides[4:]))
    words = _TRANSFORM.words(
        w=w._replace(offset=offset),
        out=out,
        channel=w.strides[1],
        inner=w.strides[2],
        channels=channels,
        depth=depth,
        **strides,
    )
    type = w.type
    low.step(
        low.kernel(f"conv.winograd kernel {type.text} {width}", lambda b: _transform(b, type, width)),
        words,
        reads=[w],
        writes=[out],
        units=out.shape[0] * depth,
        nodes=[node],
        label="conv.winograd kernel",
    )
    return out


_RECORD = Record(
    # The images, where the first output's taps begin in them; the transformed kernel.
    "*x x_n x_y x_x height width first_y first_x *kernel depth channels panels panels_unit panels_group "
    # The outputs and their rows in the result; tiles along x, of an image.
    "outputs_y outputs_x row_n row_y tiles_x tiles_image "
    # Runs of tiles, which registers hold the products of; of a piece; pieces.
    "runs larger runs_unit pieces "
    # Elements from a position of the tiles, and of their products, to the next; where products and zeros begin.
    "tiles_plane products_plane products zeros *finite"
)


class Shape(NamedTuple):
    """The structure of a kernel: all that its code depends on, besides the epilogue."""

    type: Type
    run: int
    nv: int
    is_even: bool

    @property
    def key(self) -> str:
        return f"winograd {self.type.text} {self.run}x{self.nv}{'' if self.is_even else ' or less'}"


class _Tile(NamedTuple):
    """A tile's place: its image, its number along y and x, and its number in the piece."""

    image: Value
    y: Value
    x: Value
    number: Value


class _Writer:
    """The writer of a kernel."""

    def __init__(self, b: Builder, shape: Shape, finish: Finish) -> None:
        self.b, self.shape, self.type = b, shape, shape.type
        self.lanes = b.target.lanes(shape.type)
        self.width = shape.nv * self.lanes
        self.r: Mapping[str, Value] = _RECORD.load(b)
        self.store = Store(b, finish, _RECORD.end, shape.type, OUTPUTS, OUTPUTS, shape.nv)

    def write(self) -> None:
        b, r, type = self.b, self.r, self.type
        tiles = b.scratch()
        zeros = b.offset(tiles, r["zeros"], type)
        with b.loop(0, r["depth"], self.lanes) as k:
            b.store(b.const(type.vector(self.lanes), 0), b.offset(zeros, k.index, type))
        with b.loop(b.lo, b.hi) as unit:
            part, piece = b.udiv(unit.index, r["pieces"]), b.urem(unit.index, r["pieces"])
            run = b.mul(piece, r["runs_unit"])
            runs = (run, b.imin(b.add(run, r["runs_unit"]), r["runs"]))
            first, last = (tile_start(b, n, self.shape.run, r["larger"]) for n in runs)
            from_panel = b.mul(part, r["panels_unit"])
            to_panel = b.imin(b.add(from_panel, r["panels_unit"]), r["panels"])
            with self._each(first, last, []) as (tile, _, carry):
                self._inputs(tile, tiles, zeros)
                carry([])
            nothing = b.const(type.vector(self.lanes), 0)
            with b.loop(from_panel, to_panel, r["panels_group"], carried=[nothing]) as group:
                end = b.imin(b.add(group.index, r["panels_group"]), to_panel)
                self._products(tiles, runs, first, group.index, end)
                with b.loop(group.index, end, carried=group.values) as panel:
                    plane = b.mul(b.mul(b.sub(panel.index, group.index), b.index(POSITIONS)), r["products_plane"])
                    made = b.offset(tiles, b.add(r["products"], plane), type)
                    with self._each(first, last, panel.values) as (tile, (so_far,), carry):
                        carry([self._outputs(tile, made, panel.index, so_far)])
                    panel.carry(*self.carried)
                group.carry(*panel.results)
            # What is finite gives 0, anything else NaN.
            is_odd = b.fcmp("uno", b.sum_lanes(group.results[0]), b.const(type, 0))
            b.store(b.cast("zext", is_odd, I64), b.offset(r["finite"], unit.index, I64))

    @contextmanager
    def _each(
        self, first: Value, last: Value, carried: Sequence[Value]
    ) -> Iterator[tuple[_Tile, Sequence[Value], Callable[[Sequence[Value]], None]]]:
        """Write a loop over tiles: give each, what is carried, and a function that carries on."""
        b, r = self.b, self.r
        zero, one = b.index(0), b.index(1)
        image, rest = b.udiv(first, r["tiles_image"]), b.urem(first, r["tiles_image"])
        y, x = b.udiv(rest, r["tiles_x"]), b.urem(rest, r["tiles_x"])
        rows = b.udiv(r["tiles_image"], r["tiles_x"])
        with b.loop(first, last, carried=[image, y, x, *carried]) as loop:
            n, y, x, *values = loop.values

            def carry(new: Sequence[Value]) -> None:
                after = b.add(x, one)
                is_end = b.icmp("eq", after, r["tiles_x"])
                below = b.select(is_end, b.add(y, one), y)
                is_last = b.icmp("eq", below, rows)
                loop.carry(
                    b.select(is_last, b.add(n, one), n),
                    b.select(is_last, zero, below),
                    b.select(is_end, zero, after),
                    *new,
                )

            yield _Tile(n, y, x, b.sub(loop.index, first)), values, carry
        self.carried = loop.results[3:]

    def _inputs(self, tile: _Tile, tiles: Value, zeros: Value) -> None:
        """Transform the inputs of a tile."""
        b, r, type = self.b, self.r, self.type
        y, x = (b.add(b.mul(n, b.index(OUTPUTS)), r[first]) for n, first in ((tile.y, "first_y"), (tile.x, "first_x")))
        at = b.add(b.add(b.mul(tile.image, r["x_n"]), b.mul(y, r["x_y"])), b.mul(x, r["x_x"]))
        base = b.offset(r["x"], at, type)
        rows = [b.offset(base, b.mul(r["x_y"], b.index(i)), type) for i in range(INPUTS)]
        columns = [b.mul(r["x_x"], b.index(j)) for j in range(INPUTS)]
        plane = r["tiles_plane"]
        to = [
            b.offset(tiles, b.add(b.mul(plane, b.index(i * INPUTS)), b.mul(tile.number, r["depth"])), type)
            for i in range(INPUTS)
        ]
        aside = [b.mul(plane, b.index(j)) for j in range(INPUTS)]
        # An unsigned comparison finds what is below 0 too.
        has_y = [b.icmp("ult", b.add(y, b.index(i)), r["height"]) for i in range(INPUTS)]
        has_x = [b.icmp("ult", b.add(x, b.index(j)), r["width"]) for j in range(INPUTS)]
        is_inside = b.and_(b.and_(has_y[0], has_y[-1]), b.and_(has_x[0], has_x[-1]))
        vector = type.vector(self.lanes)

        def put(k: Value, numbers: Sequence[Sequence[Value]]) -> None:
            across = [_four(b, [numbers[i][j] for i in range(INPUTS)]) for j in range(INPUTS)]
            for i in range(INPUTS):
                line = b.offset(to[i], k, type)
                for j, value in enumerate(_four(b, [across[j][i] for j in range(INPUTS)])):
                    b.store(value, b.offset(line, aside[j], type))

        with b.when(is_inside), b.loop(0, r["depth"], self.lanes) as k:
            lines = [b.offset(row, k.index, type) for row in rows]
            put(k.index, [[b.load(vector, b.offset(line, c, type)) for c in columns] for line in lines])
        with b.when(b.not_(is_inside)):
            places = []
            for row, has_row in zip(rows, has_y):
                there = [(b.and_(has_row, has), b.offset(row, column, type)) for has, column in zip(has_x, columns)]
                places.append([b.select(has, at, zeros) for has, at in there])
            with b.loop(0, r["depth"], self.lanes) as k:
                put(k.index, [[b.load(vector, b.offset(p, k.index, type)) for p in line] for line in places])

    def _products(self, tiles: Value, runs: tuple[Value, Value], first: Value, from_panel: Value, end: Value) -> None:
        """Multiply the tiles by some panels, position by position."""
        b, r, type, shape = self.b, self.r, self.type, self.shape
        arithmetic, vector, nv = Arithmetic(type, type, type), b.target.lanes(type), shape.nv
        depth, width = r["depth"], b.index(self.width)
        block = b.mul(depth, width)
        step = b.mul(depth, b.index(type.size))
        with b.loop(0, POSITIONS) as p, b.loop(from_panel, end) as panel:
            inputs = b.offset(tiles, b.mul(p.index, r["tiles_plane"]), type)
            number = b.add(b.mul(panel.index, b.index(POSITIONS)), p.index)
            weights = b.offset(r["kernel"], b.mul(number, block), type)
            # The panel that is next.
            is_last = b.icmp("eq", b.add(panel.index, b.index(1)), end)
            back = b.sub(b.mul(b.sub(from_panel, panel.index), b.index(POSITIONS)), b.index(-1))
            following = b.add(number, b.select(is_last, back, b.index(POSITIONS)))
            asked = b.offset(r["kernel"], b.mul(following, block), type)
            plane = b.add(b.mul(b.sub(panel.index, from_panel), b.index(POSITIONS)), p.index)
            made = b.offset(tiles, b.add(r["products"], b.mul(plane, r["products_plane"])), type)
            with b.loop(*runs) as run:
                tile = b.sub(tile_start(b, run.index, shape.run, r["larger"]), first)
                rows = b.offset(inputs, b.mul(tile, depth), type)
                to = b.offset(made, b.mul(tile, width), type)
                # Each of the first runs asks for a vector of every step.
                part = b.imin(b.sub(run.index, runs[0]), b.index(nv - 1))
                ahead = b.offset(asked, b.mul(part, b.index(vector)), type)

                def body(size: int, rows: Value = rows, to: Value = to, ahead: Value = ahead) -> None:
                    taken = Rows(rows, 1, size, b.index(0), step)
                    pointers = taken.pointers(b)
                    start = zero_sums(b, type, size * nv)
                    with b.loop(0, depth, carried=[weights, ahead, *pointers, *start]) as loop:
                        w, near, *rest = loop.values
                        at, sums = rest[: len(pointers)], rest[len(pointers) :]
                        others = [arithmetic.columns(b, b.offset(w, vector * j, type), vector, None) for j in range(nv)]
                        b.prefetch(near, level=2)
                        sums = products(b, arithmetic, taken.numbers(b, arithmetic, at), others, sums)
                        on = [b.offset(q, self.width, type) for q in (w, near)]
                        loop.carry(*on, *(b.offset(q, 1, type) for q in at), *sums)
                    for i, value in enumerate(loop.results[2 + len(pointers) :]):
                        b.store(value, b.offset(to, i * vector, type))

                sizes_of(b, shape.run, run.index, r["larger"], shape.is_even, body)

    def _outputs(self, tile: _Tile, made: Value, panel: Value, so_far: Value) -> Value:
        """Store the outputs of a tile, and return a vector that is no number where one of them is not finite."""
        b, r, type, nv = self.b, self.r, self.type, self.shape.nv
        vector = type.vector(self.lanes)
        plane = r["products_plane"]
        at = b.offset(made, b.mul(tile.number, b.index(self.width)), type)
        rows = [b.offset(at, b.mul(plane, b.index(i * INPUTS)), type) for i in range(INPUTS)]
        aside = [b.mul(plane, b.index(j)) for j in range(INPUTS)]
        each: list[list[list[Value]]] = []
        zero = b.const(vector, 0)
        for v in range(nv):
            lines = [b.offset(row, v * self.lanes, type) for row in rows]
            across = [
                _two(b, [b.load(vector, b.offset(line, aside[j], type)) for line in lines]) for j in range(INPUTS)
            ]
            each.append([_two(b, [across[j][i] for j in range(INPUTS)]) for i in range(OUTPUTS)])
            for value in (value for line in each[-1] for value in line):
                so_far = b.fma(value, zero, so_far)
        first = b.mul(panel, b.index(self.width))
        y, x = b.mul(tile.y, b.index(OUTPUTS)), b.mul(tile.x, b.index(OUTPUTS))
        row = b.add(b.add(b.mul(tile.image, r["row_n"]), b.mul(y, r["row_y"])), x)
        spot = Spot(row, r["row_y"], b.index(1), first, b.sub(r["channels"], first))
        left_y, left_x = (b.imin(b.sub(r[n], at), b.index(OUTPUTS)) for n, at in (("outputs_y", y), ("outputs_x", x)))
        for height in range(OUTPUTS, 0, -1):
            for width in range(OUTPUTS, 0, -1):
                values = [each[v][i][j] for i in range(height) for j in range(width) for v in range(nv)]
                is_so = b.and_(b.icmp("eq", left_y, b.index(height)), b.icmp("eq", left_x, b.index(width)))
                with b.when(is_so):
                    self.store.sums(values, height, width, spot)
        self.store.rest(left_y, left_x, spot)
        return so_far


def _four(b: Builder, d: Sequence[Value]) -> list[Value]:
    """Return the four numbers that four inputs along an axis become."""
    return [b.fsub(d[0], d[2]), b.fadd(d[1], d[2]), b.fsub(d[2], d[1]), b.fsub(d[1], d[3])]


def _two(b: Builder, m: Sequence[Value]) -> list[Value]:
    """Return the two outputs along an axis that four products become."""
    return [b.fadd(b.fadd(m[0], m[1]), m[2]), b.fsub(b.fsub(m[1], m[2]), m[3])]


def _is_of_three(axis: Axis) -> bool:
    """Return whether an axis has three taps beside each other, for outputs beside each other."""
    return (axis.taps, axis.stride, axis.dilation, axis.start, axis.step) == (TAPS, 1, 1, 0, 1)


def _count(axes: Axes) -> tuple[int, int]:
    """Return the tiles of an image along y and x."""
    return -(-axes.y.outputs // OUTPUTS), -(-axes.x.outputs // OUTPUTS)


def is_winograd(low: Lowering, x: View, w: View, axes: Axes) -> bool:
    """Return whether a correlation by transformed tiles is possible, and pays; operands are those of `correlate`."""
    groups, channels, depth = w.shape[:3]
    type = compute_type(x.dtype)
    if type is None or not x.type == w.type == type or groups != 1 or not low.is_free_to_pack(w):
        return False
    if axes.z != POINT or not (_is_of_three(axes.y) and _is_of_three(axes.x)):
        return False
    if x.strides[1] != 1 or depth % low.target.lanes(type):
        return False
    tiles = x.shape[0] * prod(_count(axes))
    taps = TAPS * TAPS * x.shape[0] * prod(axes.outputs) * channels * depth
    cost = tiles * (POSITIONS * channels * depth + TRANSFORM * (channels + depth))
    return tiles >= LEAST_TILES and cost <= (1 - LEAST_SAVED) * taps


def winograd(low: Lowering, x: View, w: View, axes: Axes, epilogue: Epilogue, size: Sequence[int], node: Node) -> View:
    """Add the steps of a correlation by transformed tiles; the arguments are those of :func:`~.correlate.correlate`.

    Return words, of which one is not 0 where a result is not finite: then it is to be computed tap by tap.
    """
    target, type = low.target, x.type
    channels, depth = w.shape[1:3]
    count = x.shape[0]
    nv = vectors(target, type, channels)
    width = nv * target.lanes(type)
    taken = tuple((a.tap, a.tap_step) for a in axes)
    kernel: View = low.packed(w, ("winograd", taken, width), partial(_transformed, low, w, axes, width, node))
    tiles_y, tiles_x = _count(axes)
    tiles = count * tiles_y * tiles_x
    runs = split(tiles, most_rows(target, nv))
    runs_unit, panels_unit = _shares(runs.tiles, runs.tile, depth * type.size, kernel.shape[0])
    pieces = -(-runs.tiles // runs_unit)
    most = min(tiles, runs_unit * runs.tile)
    tiles_plane, products_plane = (_apart(n, type) for n in (most * depth, most * width))
    panels_group = max(1, min(panels_unit, PRODUCTS_BYTES // (POSITIONS * products_plane * type.size)))
    first = POSITIONS * tiles_plane
    zeros = first + panels_group * POSITIONS * products_plane
    units = pieces * -(-kernel.shape[0] // panels_unit)
    finite = low.temp((units,), np.int64)
    finish = Finish(epilogue, 0)
    words = _RECORD.words(
        x=x,
        x_n=x.strides[0],
        x_y=x.strides[3],
        x_x=x.strides[4],
        height=axes.y.size,
        width=axes.x.size,
        first_y=axes.y.first,
        first_x=axes.x.first,
        kernel=kernel,
        depth=depth,
        channels=channels,
        panels=kernel.shape[0],
        panels_unit=panels_unit,
        panels_group=panels_group,
        outputs_y=axes.y.outputs,
        outputs_x=axes.x.outputs,
        row_n=prod(size),
        row_y=size[2],
        tiles_x=tiles_x,
        tiles_image=tiles_y * tiles_x,
        runs=runs.tiles,
        larger=runs.larger,
        runs_unit=runs_unit,
        pieces=pieces,
        tiles_plane=tiles_plane,
        products_plane=products_plane,
        products=first,
        zeros=zeros,
        finite=finite,
    )
    shape = Shape(type, runs.tile, nv, runs.is_even)
    low.step(
        low.kernel(f"{shape.key} {finish.key}", lambda b: _Writer(b, shape, finish).write()),
        [*words, *finish.words()],
        reads=[x, kernel, *epilogue.operands],
        writes=[*epilogue.outputs, finite],
        units=units,
        scratch=-(-(zeros + depth) * type.size // ALIGN) * ALIGN,
        flops=2.0 * tiles * POSITIONS * depth * channels,
        nodes=[node, *epilogue.nodes],
        label=f"{node.op.name} winograd {runs.tile}x{nv}",
    )
    return finite


def _apart(elements: int, type: Type) -> int:
    """Return the distance of planes of so many elements: an odd number of lines, for planes to share no sets."""
    line = ALIGN // type.size
    return (-(-elements // line) | 1) * line


def _shares(runs: int, run: int, pixel: int, panels: int) -> tuple[int, int]:
    """Return how many runs of tiles, and how many panels, make a piece; a tile's channels take `pixel` bytes."""
    most = min(runs, max(LEAST_RUNS, TILES_BYTES // (POSITIONS * run * pixel)))
    most = min(most, max(LEAST_RUNS, -(-runs // PIECES)))
    pieces = -(-runs // most)
    parts = min(-(-panels // LEAST_PANELS), -(-PIECES // pieces))
    return -(-runs // pieces), -(-panels // parts)
