"""Depthwise correlations: every channel with a kernel of its own, so that vectors run along the channels.

There is no sum over channels here, and no matrix product: an element is read for every tap that it meets, and what
counts is that it is in the first cache by then. A piece of work is some rows of a block of channels. It copies them,
with their zeros around, to scratch memory, where neighbouring pixels lie beside each other; a tile is a run of
neighbouring outputs of one vector of channels, held in registers while the sum runs over the taps. A block has the same
number of channels everywhere, so that the taps of a row are read at distances that the code knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from .....core.node import Node
from ...codegen.builder import Builder, Value
from ...codegen.types import I8, Type
from ...plan.lowering import Epilogue, Lowering
from ...plan.plan import ALIGN, View
from ...plan.record import Record
from ...scalar.fp16 import convert
from ..gemm.finish import Finish
from ..gemm.plan import compute_type
from .finish import Spot, Store
from .geometry import Axes
from .region import each, layout_of, zeros
from .tile import most_sums, sizes_of, split, tile_start, zero_sums

# The most vectors of channels in a block, and the most bytes of a piece's copy: it stays in the second cache.
BLOCK = 4
REGION_BYTES = 96 << 10
# The least number of pieces of work, where the outputs allow it.
PIECES = 16
# So many taps of a row are written out one by one; of longer rows each is taken in a loop.
MOST_TAPS = 11

_RECORD = Record(
    # The images' strides and sizes; the first tap of the first output, and the step from output to output.
    "*x x_n x_z x_y x_x x_c depth height first_z first_y first_x stride_z stride_y dilation_z dilation_y "
    # A region's planes and columns, those of them inside of the image; the kernel's taps; channels, blocks of them.
    "region_z region_y region_x left right *panels taps_z taps_y rows_more channels blocks "
    # The outputs: planes, tiles along x, rows, rows of a piece, pieces of a plane; their rows in the result.
    "planes tiles_x larger_x rows rows_piece pieces row row_n row_z row_y row_x"
)


class Shape(NamedTuple):
    """The structure of a kernel: all that its code depends on, besides the epilogue.

    Sums are of `type`, images of `source`, the kernel of `weights`. `width` channels make a block; `taps` are those of
    a row, `dilation` pixels apart, for outputs `stride` apart.
    """

    type: Type
    source: Type
    weights: Type
    layout: str
    columns: int
    is_even: bool
    width: int
    taps: int
    stride: int
    dilation: int

    @property
    def key(self) -> str:
        less = "" if self.is_even else " or less"
        window = f"{self.taps} by {self.dilation}, {self.stride}"
        types = " ".join(t.text for t in (self.type, self.source, self.weights))
        return f"depthwise {types} {self.layout} {self.columns}{less} of {self.width}: {window}"


def _depthwise(b: Builder, shape: Shape, finish: Finish) -> None:
    r = _RECORD.load(b)
    type, lanes = shape.type, b.target.lanes(shape.type)
    one, width = b.index(1), b.index(shape.width)
    pixel = shape.width * type.size
    store = Store(b, finish, _RECORD.end, type, 1, shape.columns, 1)
    pitch = b.mul(r["region_x"], b.index(pixel))
    steps = Steps(
        b.mul(b.mul(r["dilation_z"], r["region_y"]), pitch), b.mul(r["dilation_y"], pitch), r["taps_z"], r["taps_y"]
    )
    down = b.mul(r["stride_y"], pitch)
    taps = b.mul(b.mul(r["taps_z"], r["taps_y"]), b.index(shape.taps))
    with b.loop(b.lo, b.hi) as unit:
        block, rest = b.urem(unit.index, r["blocks"]), b.udiv(unit.index, r["blocks"])
        piece, rest = b.urem(rest, r["pieces"]), b.udiv(rest, r["pieces"])
        plane, n = b.urem(rest, r["planes"]), b.udiv(rest, r["planes"])
        first = b.mul(block, width)
        channels = b.imin(b.sub(r["channels"], first), width)
        y0 = b.mul(piece, r["rows_piece"])
        y1 = b.imin(b.add(y0, r["rows_piece"]), r["rows"])
        image = b.offset(r["x"], b.add(b.mul(n, r["x_n"]), b.mul(first, r["x_c"])), shape.source)
        z = b.add(b.mul(plane, r["stride_z"]), r["first_z"])
        y = b.add(b.mul(y0, r["stride_y"]), r["first_y"])
        rows = b.add(b.mul(b.sub(y1, y0), r["stride_y"]), r["rows_more"])
        _fill(b, shape, r, image, (z, y, rows), channels)
        row_n = b.add(b.add(r["row"], b.mul(n, r["row_n"])), b.mul(plane, r["row_z"]))
        panel = b.offset(r["panels"], b.mul(first, taps), shape.weights)
        with b.loop(0, channels, lanes) as c, b.loop(y0, y1) as y_at, b.loop(0, r["tiles_x"]) as tx:
            weights = b.offset(panel, c.index, shape.weights)
            line = b.offset(b.offset(b.scratch(), c.index, type), b.mul(b.sub(y_at.index, y0), down), I8)
            x = tile_start(b, tx.index, shape.columns, r["larger_x"])
            base = b.offset(line, b.mul(x, b.index(shape.stride * pixel)), I8)
            row = b.add(b.add(row_n, b.mul(y_at.index, r["row_y"])), b.mul(x, r["row_x"]))
            channel = b.add(first, c.index)
            spot = Spot(row, r["row_y"], r["row_x"], channel, b.sub(r["channels"], channel))

            def body(size: int, base: Value = base, weights: Value = weights, spot: Spot = spot) -> None:
                store.sums(window_sums(b, shape, base, size, weights, steps), 1, size, spot)

            sizes_of(b, shape.columns, tx.index, r["larger_x"], shape.is_even, body)
            after = tile_start(b, b.add(tx.index, one), shape.columns, r["larger_x"])
            store.rest(one, b.sub(after, x), spot)


class Steps(NamedTuple):
    """The bytes from a tap to the next along z and y, and how many taps there are."""

    z: Value
    y: Value
    taps_z: Value
    taps_y: Value


def window_sums(b: Builder, shape: Shape, base: Value, size: int, weights: Value, steps: Steps) -> Sequence[Value]:
    """Return the sums over the taps of `size` outputs, a vector of channels each."""
    type, pixel = shape.type, shape.width * shape.type.size
    vector = type.vector(b.target.lanes(type))

    def tap(at: Value, w: Value, sums: Sequence[Value], which: int) -> list[Value]:
        weight = b.load(shape.weights.vector(vector.lanes), b.offset(w, which * shape.width, shape.weights))
        factor = convert(b, weight, type)
        places = [b.offset(at, (i * shape.stride + which * shape.dilation) * pixel, I8) for i in range(size)]
        return [b.fma(b.load(vector, p), factor, total) for p, total in zip(places, sums, strict=True)]

    with b.loop(0, steps.taps_z, carried=[base, weights, *zero_sums(b, type, size)]) as plane:
        start, *carried = plane.values
        with b.loop(0, steps.taps_y, carried=[start, *carried]) as line:
            at, w, *sums = line.values
            after = b.offset(w, shape.taps * shape.width, shape.weights)
            if shape.taps <= MOST_TAPS:
                for k in range(shape.taps):
                    sums = tap(at, w, sums, k)
            else:
                with b.loop(0, shape.taps, carried=[at, w, *sums]) as along:
                    here, weight, *values = along.values
                    step = b.offset(here, shape.dilation * pixel, I8)
                    along.carry(step, b.offset(weight, shape.width, shape.weights), *tap(here, weight, values, 0))
                sums = list(along.results[2:])
            line.carry(b.offset(at, steps.y, I8), after, *sums)
        plane.carry(b.offset(start, steps.z, I8), *line.results[1:])
    return plane.results[2:]


def _fill(
    b: Builder,
    shape: Shape,
    r: Mapping[str, Value],
    image: Value,
    where: tuple[Value, Value, Value],
    channels: Value,
) -> None:
    """Copy a region of a block's channels to scratch memory: its first plane, its first row and how many rows."""
    z, y, rows = where
    type, width = shape.type, b.index(shape.width)
    line_size = b.mul(r["region_x"], width)
    with b.loop(0, r["region_z"]) as plane, b.loop(0, rows) as row:
        at_z, at_y = b.add(z, plane.index), b.add(y, row.index)
        # An unsigned comparison finds what is below 0 too.
        inside = b.and_(b.icmp("ult", at_z, r["depth"]), b.icmp("ult", at_y, r["height"]))
        left = b.select(inside, r["left"], r["region_x"])
        right = b.select(inside, r["right"], r["region_x"])
        line = b.offset(b.scratch(), b.mul(b.add(b.mul(plane.index, r["region_y"]), row.index), line_size), type)
        zeros(b, type, line, b.mul(left, width))
        column = b.add(r["first_x"], r["left"])
        at = b.add(b.add(b.mul(at_z, r["x_z"]), b.mul(at_y, r["x_y"])), b.mul(column, r["x_x"]))
        source, to = b.offset(image, at, shape.source), b.offset(line, b.mul(left, width), type)
        _copy_pixels(b, shape, (source, r["x_x"], r["x_c"]), to, b.sub(right, left), channels)
        end = b.offset(line, b.mul(right, width), type)
        zeros(b, type, end, b.mul(b.sub(r["region_x"], right), width))


def _copy_pixels(
    b: Builder, shape: Shape, source: tuple[Value, Value, Value], to: Value, count: Value, channels: Value
) -> None:
    """Copy a line's pixels: `source` is where they are, and the strides from pixel to pixel and channel to channel."""
    type, lanes, width = shape.type, b.target.lanes(shape.type), b.index(shape.width)
    start, along, across = source

    def moved(source: Value, to: Value, lanes: int) -> None:
        b.store(convert(b, b.load(shape.source.vector(lanes), source), type), to)

    if shape.layout == "strided":
        # Channel by channel: the usual strided image has its rows' elements together.
        with b.loop(0, channels) as channel, b.loop(0, count) as i:
            away = b.add(b.mul(channel.index, across), b.mul(i.index, along))
            place = b.offset(to, b.add(b.mul(i.index, width), channel.index), type)
            moved(b.offset(start, away, shape.source), place, 1)
        return
    is_full = b.icmp("eq", channels, width)
    with b.when(is_full), b.loop(0, count) as i:
        pixel, place = b.offset(start, b.mul(i.index, along), shape.source), b.offset(to, b.mul(i.index, width), type)
        for at in range(0, shape.width, lanes):
            moved(b.offset(pixel, at, shape.source), b.offset(place, at, type), lanes)
    with b.when(b.not_(is_full)), b.loop(0, count) as i:
        pixel, place = b.offset(start, b.mul(i.index, along), shape.source), b.offset(to, b.mul(i.index, width), type)

        def copy(at: Value, lanes: int, pixel: Value = pixel, place: Value = place) -> None:
            moved(b.offset(pixel, at, shape.source), b.offset(place, at, type), lanes)

        each(b, channels, lanes, copy)


def depthwise(
    low: Lowering, x: View, panels: View, axes: Axes, epilogue: Epilogue, size: Sequence[int], node: Node
) -> None:
    """Add the step of a depthwise correlation.

    `x` is (N, C, Z, Y, X), `panels` the kernel in blocks of channels, (block, tap, 1, channel). The rest is as for
    :func:`~.correlate.correlate`.
    """
    target, type = low.target, compute_type(x.dtype)
    assert type is not None
    count, channels = x.shape[:2]
    blocks, taps, _, width = panels.shape
    tiles = split(axes.x.outputs, most_sums(target))
    # Without taps nothing is read, whatever taps there are along some axes.
    region_z, region_x = axes.z.span(1) if axes.taps else 0, axes.x.span(axes.x.outputs)
    line = region_z * region_x * width * type.size
    outputs = axes.y.outputs
    most = outputs
    while most > 1 and axes.y.span(most) * line > REGION_BYTES:
        most = -(-most // 2)
    pieces = max(-(-outputs // most), min(outputs, -(-PIECES // (count * axes.z.outputs * blocks))))
    rows = -(-outputs // pieces)
    pieces = -(-outputs // rows)
    region_y = axes.y.span(rows)
    left = min(max(-axes.x.first, 0), region_x)
    words = _RECORD.words(
        x=x,
        **{f"x_{n}": s for n, s in zip("nczyx", x.strides)},
        depth=axes.z.size,
        height=axes.y.size,
        **{f"first_{n}": axis.first for n, axis in zip("zyx", axes)},
        stride_z=axes.z.stride,
        stride_y=axes.y.stride,
        dilation_z=axes.z.dilation,
        dilation_y=axes.y.dilation,
        region_z=region_z,
        region_y=region_y,
        region_x=region_x,
        left=left,
        right=min(max(axes.x.size - axes.x.first, left), region_x),
        panels=panels,
        taps_z=axes.z.taps,
        taps_y=axes.y.taps,
        rows_more=axes.y.span(1) - axes.y.stride,
        channels=channels,
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
    )
    layout = "pixels" if layout_of(x) in ("rows", "pixels") else "strided"
    window = (axes.x.taps, axes.x.stride, axes.x.dilation)
    shape = Shape(type, x.type, panels.type, layout, tiles.tile, tiles.is_even, width, *window)
    finish = Finish(epilogue, 0)
    low.step(
        low.kernel(f"{shape.key} {finish.key}", lambda b: _depthwise(b, shape, finish)),
        [*words, *finish.words()],
        reads=[x, panels, *epilogue.operands],
        writes=epilogue.outputs,
        units=count * axes.z.outputs * pieces * blocks,
        scratch=-(-region_y * line // ALIGN) * ALIGN,
        flops=2.0 * count * prod(axes.outputs) * taps * channels,
        nodes=[node, *epilogue.nodes],
        label=f"{node.op.name} depthwise 1x{tiles.tile}",
    )


def is_depthwise(w: View) -> bool:
    """Return whether every channel has a kernel of its own; `w` is (group, channel, inner, Z, Y, X)."""
    return w.shape[0] > 1 and w.shape[1] == w.shape[2] == 1


def side_by_side(w: View) -> View:
    """Return the kernels of a depthwise correlation as one group's channels."""
    return w._replace(shape=(1, w.shape[0], 1, *w.shape[3:]), strides=(0, w.strides[0], 0, *w.strides[3:]))


def block_width(lanes: int, channels: int) -> int:
    """Return the channels of a block: whole vectors, of blocks about as wide as each other."""
    vectors = -(-channels // lanes)
    return -(-vectors // -(-vectors // BLOCK)) * lanes
