"""Depthwise correlations: every channel with a kernel of its own, so that vectors run along the channels.

There is no sum over channels here, and no matrix product: an element is read for every tap that it meets, and what
counts is that it is in the first cache by then. A piece of work is some rows of a block of channels. It copies them,
with their zeros around, to scratch memory, where neighbouring pixels lie beside each other; a tile is a run of
neighbouring outputs of one vector of channels, held in registers while the sum runs over the taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from .....core.node import Node
from ...codegen.builder import Builder, Value
from ...codegen.types import I8, I64, Type
from ...plan.lowering import Epilogue, Lowering
from ...plan.plan import ALIGN, View
from ...plan.record import Record
from ..gemm.finish import Finish
from .finish import Spot, Store
from .geometry import Axes
from .region import Part, fields, placed, reading
from .tile import most_sums, nothing, sizes_of, split, tile_start

# The most vectors of channels in a block, and the most bytes of a piece's copy: it stays in the second cache.
BLOCK = 4
REGION_BYTES = 96 << 10
# The least number of pieces of work, where the outputs allow it.
PIECES = 16

_RECORD = Record(
    fields("x") + " *panels taps channels width blocks "
    # The outputs: planes, tiles along x, rows, rows of a piece, pieces of a plane; their rows in the result.
    "planes tiles_x larger_x rows rows_piece pieces row row_n row_z row_y row_x step_y step_x"
)


class _Shape(NamedTuple):
    """The structure of a kernel: all that its code depends on, besides the epilogue."""

    type: Type
    layout: str
    columns: int
    is_even: bool

    @property
    def key(self) -> str:
        less = "" if self.is_even else " or less"
        return f"depthwise {self.type.text} {self.layout} {self.columns}{less}"


def _depthwise(b: Builder, shape: _Shape, finish: Finish) -> None:
    r = _RECORD.load(b)
    type, lanes = shape.type, b.target.lanes(shape.type)
    one = b.index(1)
    offsets = b.offset(b.rec, _RECORD.end + finish.size, I64)
    store = Store(b, finish, _RECORD.end, type, 1, shape.columns, 1)
    with b.loop(b.lo, b.hi) as unit:
        block, rest = b.urem(unit.index, r["blocks"]), b.udiv(unit.index, r["blocks"])
        piece, rest = b.urem(rest, r["pieces"]), b.udiv(rest, r["pieces"])
        plane, n = b.urem(rest, r["planes"]), b.udiv(rest, r["planes"])
        first = b.mul(block, r["width"])
        channels = b.imin(b.sub(r["channels"], first), r["width"])
        y0 = b.mul(piece, r["rows_piece"])
        y1 = b.imin(b.add(y0, r["rows_piece"]), r["rows"])
        # The words say the sizes of a region of one channel.
        here = {
            **r,
            "x": b.offset(r["x"], b.mul(first, r["x_c"]), type),
            "x_channels": channels,
            "x_plane": b.mul(r["x_plane"], channels),
        }
        start = placed(b, type, shape.layout, "x", here, Part(n, one, plane, y0, b.sub(y1, y0)), b.scratch())
        pixel = b.mul(channels, b.index(type.size))
        step_y, step_x = b.mul(r["step_y"], pixel), b.mul(r["step_x"], pixel)
        row_n = b.add(b.add(r["row"], b.mul(n, r["row_n"])), b.mul(plane, r["row_z"]))
        panel = b.offset(r["panels"], b.mul(b.mul(block, r["width"]), r["taps"]), type)
        with b.loop(0, channels, lanes) as c, b.loop(y0, y1) as y, b.loop(0, r["tiles_x"]) as tx:
            weights = b.offset(panel, c.index, type)
            line = b.offset(b.offset(start, c.index, type), b.mul(b.sub(y.index, y0), step_y), I8)
            x = tile_start(b, tx.index, shape.columns, r["larger_x"])
            base = b.offset(line, b.mul(x, step_x), I8)
            row = b.add(b.add(row_n, b.mul(y.index, r["row_y"])), b.mul(x, r["row_x"]))
            channel = b.add(first, c.index)
            spot = Spot(row, r["row_y"], r["row_x"], channel, b.sub(r["channels"], channel))
            taps = _Taps(r["taps"], offsets, pixel, r["width"])

            def body(
                size: int,
                base: Value = base,
                weights: Value = weights,
                spot: Spot = spot,
                step: Value = step_x,
                taps: _Taps = taps,
            ) -> None:
                store.sums(_sums(b, type, base, step, size, weights, taps), 1, size, spot)

            sizes_of(b, shape.columns, tx.index, r["larger_x"], shape.is_even, body)
            after = tile_start(b, b.add(tx.index, one), shape.columns, r["larger_x"])
            store.rest(one, b.sub(after, x), spot)


class _Taps(NamedTuple):
    """The taps: `number` of them, their offsets in pixels, the bytes of a pixel, elements from tap to tap's weights."""

    number: Value
    offsets: Value
    pixel: Value
    width: Value


def _sums(b: Builder, type: Type, base: Value, step: Value, size: int, weights: Value, taps: _Taps) -> Sequence[Value]:
    """Return the sums over the taps of `size` outputs, a vector of channels each."""
    vector = type.vector(b.target.lanes(type))
    twice = b.mul(step, b.index(2))
    with b.loop(0, taps.number, carried=[weights, *nothing(b, type, size)]) as loop:
        w, *sums = loop.values
        away = b.mul(b.load(I64, b.offset(taps.offsets, loop.index, I64)), taps.pixel)
        factor = b.load(vector, w, align=type.size)
        at = b.offset(base, away, I8)
        made = []
        # One address for three neighbours, which the step and twice the step lead to.
        for first in range(0, size, 3):
            group = b.opaque(at)
            near = (group, b.offset(group, step, I8), b.offset(group, twice, I8))
            for pointer, total in zip(near, sums[first:]):
                made.append(b.fma(b.load(vector, pointer, align=type.size), factor, total))
            at = b.offset(at, b.add(step, twice), I8)
        loop.carry(b.offset(w, taps.width, type), *made)
    return loop.results[1:]


def depthwise(
    low: Lowering, x: View, panels: View, axes: Axes, epilogue: Epilogue, size: Sequence[int], node: Node
) -> None:
    """Add the step of a depthwise correlation.

    `x` is (N, C, Z, Y, X), `panels` the kernel in blocks of channels, (block, tap, 1, channel). The rest is as for
    :func:`~.correlate.correlate`.
    """
    target, type = low.target, x.type
    count, channels = x.shape[:2]
    blocks, taps, _, width = panels.shape
    tiles = split(axes.x.outputs, most_sums(target))
    line = axes.z.span(1) * axes.x.span(axes.x.outputs) * min(width, channels) * type.size
    outputs = axes.y.outputs
    most = outputs
    while most > 1 and axes.y.span(most) * line > REGION_BYTES:
        most = -(-most // 2)
    pieces = max(-(-outputs // most), min(outputs, -(-PIECES // (count * axes.z.outputs * blocks))))
    rows = -(-outputs // pieces)
    pieces = -(-outputs // rows)
    one = x._replace(shape=(count, min(width, channels), *x.shape[2:]))
    source = reading("x", one, axes, rows, may_be_direct=False)
    region_y, region_x = axes.y.span(rows), axes.x.span(axes.x.outputs)
    shifts = (
        [j * axis.dilation * s for j in range(axis.taps)]
        for axis, s in zip(axes, (region_y * region_x, region_x, 1), strict=True)
    )
    given = _RECORD.words(
        **{**source.words, "x": x, "x_plane": region_y * region_x},
        panels=panels,
        taps=taps,
        channels=channels,
        width=width,
        blocks=blocks,
        planes=axes.z.outputs,
        tiles_x=tiles.tiles,
        larger_x=tiles.larger,
        rows=outputs,
        rows_piece=rows,
        pieces=pieces,
        row=(axes.z.start * size[1] + axes.y.start) * size[2] + axes.x.start,
        row_n=prod(size),
        row_z=axes.z.step * size[1] * size[2],
        row_y=axes.y.step * size[2],
        row_x=axes.x.step,
        step_y=axes.y.stride * region_x,
        step_x=axes.x.stride,
    )
    shape = _Shape(type, source.layout, tiles.tile, tiles.is_even)
    finish = Finish(epilogue, 0)
    low.step(
        low.kernel(f"{shape.key} {finish.key}", lambda b: _depthwise(b, shape, finish)),
        [*given, *finish.words(), *map(sum, product(*shifts))],
        reads=[x, panels, *epilogue.operands],
        writes=epilogue.outputs,
        units=count * axes.z.outputs * pieces * blocks,
        # The last vector of channels may reach beyond the last pixel.
        scratch=-(-(source.nbytes + target.width) // ALIGN) * ALIGN,
        flops=2.0 * count * prod(axes.outputs) * taps * channels,
        nodes=[node, *epilogue.nodes],
        label=f"{node.op.name} depthwise 1x{tiles.tile}",
    )


def block_width(lanes: int, channels: int) -> int:
    """Return the channels of a block: whole vectors, of blocks about as wide as each other."""
    vectors = -(-channels // lanes)
    return -(-vectors // -(-vectors // BLOCK)) * lanes
