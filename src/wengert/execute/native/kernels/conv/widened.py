"""A depthwise correlation of what a product of one pixel each gives, in one kernel: the wide image is never stored.

Inverted residuals (Sandler et al. 2018) widen an image by a convolution of one tap, and correlate every channel of the
wide one by itself. That is several times as large as what it is made of and what becomes of it, and in no cache when
it is read again. Here a piece of work is some rows of one vector of channels: it computes its part of the wide image,
a few rows at a time, into scratch memory that stays in the first caches, with the zeros around, and correlates them
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from .....core.node import Node
from ...codegen.builder import Builder, Value
from ...codegen.types import Type
from ...plan.lowering import Epilogue, Lowering
from ...plan.plan import ALIGN, View
from ...plan.record import Record
from ..gemm.arithmetic import Arithmetic
from ..gemm.finish import Finish, Place
from ..gemm.plan import compute_type
from . import depthwise
from .finish import Spot, Store
from .geometry import POINT, Axes
from .region import each, zeros
from .tile import Rows, most_rows, most_sums, products, sizes_of, split, tile_start, zero_sums

# The most bytes of the wide rows that are there at once.
ROWS_BYTES = 48 << 10
# The least number of pieces of work, and of rows of each that are for it alone for one that others compute too.
PIECES, ROWS_FOR_ONE = 16, 8

_RECORD = Record(
    # The narrow image: its strides, its channels; the wide one: its rows, its columns, its tiles along them.
    "*x x_n x_y x_x depth height tiles_wide larger_wide *widening channels "
    # The wide rows at hand: how many, of how many pixels, zeros to the left of an image's; how many rows stay.
    "rows_there pixels left kept first_y stride_y dilation_y *panels taps_y "
    # The outputs: tiles along x, rows, those of a piece and of a step, pieces; their rows in the result.
    "tiles_x larger_x rows rows_piece rows_step pieces row row_n row_y row_x"
)


class Widening(NamedTuple):
    """A correlation of one tap that waits for the depthwise one which reads it alone: its operands as views."""

    x: View
    w: View
    axes: Axes
    epilogue: Epilogue
    node: Node


def is_widening(x: View, w: View, axes: Axes, epilogue: Epilogue) -> bool:
    """Return whether a correlation is a product of each pixel's channels, which may be computed at any pixel alone.

    Half precision would be widened anew for every vector of channels.
    """
    if x.type != compute_type(x.dtype) or w.type != x.type:
        return False
    is_point = axes.z == POINT and all(
        a.taps == a.stride == a.step == 1 and not a.first and a.outputs == a.size for a in axes
    )
    return is_point and w.shape[0] == 1 and x.strides[1] == 1 and set(epilogue.kinds) <= {"scalar", "column"}


def reads_widened(axes: Axes) -> bool:
    """Return whether a depthwise correlation can read a wide image from scratch memory, by a few rows at a time."""
    spans = all(a.span(1) >= a.stride for a in (axes.y, axes.x))
    return axes.z == POINT and spans and axes.x.first <= 0


class _Shape(NamedTuple):
    """The structure of a kernel: tiles of `rows` x `columns` wide pixels, and the depthwise correlation's shape."""

    rows: int
    columns: int
    is_even: bool
    narrow: depthwise.Shape

    @property
    def key(self) -> str:
        less = "" if self.is_even else " or less"
        return f"widened {self.rows}x{self.columns}{less}; {self.narrow.key}"


def _widened(b: Builder, shape: _Shape, first: Finish, last: Finish) -> None:
    r = _RECORD.load(b)
    type, lanes = shape.narrow.type, b.target.lanes(shape.narrow.type)
    zero, one, width = b.index(0), b.index(1), b.index(lanes)
    line = b.mul(r["pixels"], width)
    pitch = b.mul(line, b.index(type.size))
    stride_x = b.index(shape.narrow.stride)
    steps = depthwise.Steps(zero, b.mul(r["dilation_y"], pitch), one, r["taps_y"])
    taps = b.mul(r["taps_y"], b.index(shape.narrow.taps))
    wide = _Wide(b, shape, r, first)
    store = Store(b, last, _RECORD.end + first.size, type, 1, shape.narrow.columns, 1)
    with b.loop(b.lo, b.hi) as unit:
        pieces = b.mul(r["pieces"], _blocks(b, r, lanes))
        n, rest = b.udiv(unit.index, pieces), b.urem(unit.index, pieces)
        piece, block = b.udiv(rest, _blocks(b, r, lanes)), b.urem(rest, _blocks(b, r, lanes))
        channel = b.mul(block, width)
        left = b.sub(r["channels"], channel)
        image = b.offset(r["x"], b.mul(n, r["x_n"]), type)
        widening = b.offset(r["widening"], b.mul(channel, r["depth"]), type)
        panel = b.offset(r["panels"], b.mul(channel, taps), type)
        row_n = b.add(r["row"], b.mul(n, r["row_n"]))
        zeros(b, type, b.scratch(), b.mul(line, r["rows_there"]))
        y0 = b.mul(piece, r["rows_piece"])
        y1 = b.imin(b.add(y0, r["rows_piece"]), r["rows"])
        start = b.imax(b.add(b.mul(y0, r["stride_y"]), r["first_y"]), zero)
        with b.loop(y0, y1, r["rows_step"], carried=[start]) as step:
            (done,) = step.values
            end = b.imin(b.add(step.index, r["rows_step"]), y1)
            top = b.add(b.mul(step.index, r["stride_y"]), r["first_y"])
            count = b.add(b.mul(b.sub(end, step.index), r["stride_y"]), r["kept"])
            with b.when(b.icmp("sgt", step.index, y0)):
                moved = b.mul(b.mul(r["rows_step"], r["stride_y"]), line)
                _copied(b, type, b.offset(b.scratch(), moved, type), b.scratch(), b.mul(r["kept"], line))
            below = b.add(top, count)
            until = b.imin(below, r["height"])
            wide.rows(image, widening, (done, b.imax(done, until)), top, channel, left)
            beyond = b.imax(b.sub(until, top), zero)
            zeros(b, type, b.offset(b.scratch(), b.mul(beyond, line), type), b.mul(b.sub(count, beyond), line))
            with b.loop(step.index, end) as y, b.loop(0, r["tiles_x"]) as tx:
                x = tile_start(b, tx.index, shape.narrow.columns, r["larger_x"])
                at = b.add(
                    b.mul(b.mul(b.sub(y.index, step.index), r["stride_y"]), line), b.mul(b.mul(x, stride_x), width)
                )
                base = b.offset(b.scratch(), at, type)
                row = b.add(b.add(row_n, b.mul(y.index, r["row_y"])), b.mul(x, r["row_x"]))
                spot = Spot(row, r["row_y"], r["row_x"], channel, left)

                def body(size: int, base: Value = base, panel: Value = panel, spot: Spot = spot) -> None:
                    store.sums(depthwise.window_sums(b, shape.narrow, base, size, panel, steps), 1, size, spot)

                sizes_of(b, shape.narrow.columns, tx.index, r["larger_x"], shape.narrow.is_even, body)
                after = tile_start(b, b.add(tx.index, one), shape.narrow.columns, r["larger_x"])
                store.rest(one, b.sub(after, x), spot)
            step.carry(b.imax(done, until))


def _copied(b: Builder, type: Type, source: Value, to: Value, count: Value) -> None:
    """Copy `count` elements that lie together, from the first one on."""

    def copy(i: Value, lanes: int) -> None:
        b.store(b.load(type.vector(lanes), b.offset(source, i, type)), b.offset(to, i, type))

    each(b, count, b.target.lanes(type), copy)


def _blocks(b: Builder, r: Mapping[str, Value], lanes: int) -> Value:
    """Return the number of vectors of channels."""
    return b.udiv(b.add(r["channels"], b.index(lanes - 1)), b.index(lanes))


class _Wide:
    """The writer of the code that computes rows of the wide image into scratch memory."""

    def __init__(self, b: Builder, shape: _Shape, r: Mapping[str, Value], finish: Finish) -> None:
        self.b, self.shape, self.r, self.finish = b, shape, r, finish
        self.type = shape.narrow.type
        self.lanes = b.target.lanes(self.type)
        self.given = finish.places(b, _RECORD.end, ())[: len(finish.epilogue.operands)]

    def rows(
        self, image: Value, widening: Value, rows: tuple[Value, Value], top: Value, channel: Value, left: Value
    ) -> None:
        """Compute rows from one to another, of which `top` is the first one at hand."""
        b, shape = self.b, self.shape
        # The scratch memory, seen as rows of all channels of which only a vector is there.
        place = b.offset(b.scratch(), b.sub(b.index(0), channel), self.type)
        places = [*self.given, Place(place, b.index(self.lanes))]
        store = Store(b, self.finish, _RECORD.end, self.type, shape.rows, shape.columns, 1, places)
        from_row, to_row = rows
        whole = b.sub(b.sub(to_row, from_row), b.urem(b.sub(to_row, from_row), b.index(shape.rows)))
        middle = b.add(from_row, whole)
        for first, last, height in ((from_row, middle, shape.rows), (middle, to_row, 1)):
            with b.loop(first, last, height) as y, b.loop(0, self.r["tiles_wide"]) as tx:
                x = tile_start(b, tx.index, shape.columns, self.r["larger_wide"])
                at = b.add(b.mul(y.index, self.r["x_y"]), b.mul(x, self.r["x_x"]))
                base = b.offset(image, at, self.type)
                pixel = b.mul(b.sub(y.index, top), self.r["pixels"])
                pixel = b.add(b.add(pixel, self.r["left"]), x)
                spot = Spot(pixel, self.r["pixels"], b.index(1), channel, left)

                def body(size: int, base: Value = base, height: int = height, spot: Spot = spot) -> None:
                    store.sums(self._sums(base, height, size, widening), height, size, spot)

                sizes_of(b, shape.columns, tx.index, self.r["larger_wide"], shape.is_even, body)
                after = tile_start(b, b.add(tx.index, b.index(1)), shape.columns, self.r["larger_wide"])
                store.rest(b.index(height), b.sub(after, x), spot)
            if shape.rows == 1:
                break

    def _sums(self, base: Value, rows: int, columns: int, weights: Value) -> Sequence[Value]:
        """Return the products of a tile's pixels, summed over the narrow image's channels."""
        b, type = self.b, self.type
        steps = (b.mul(self.r[step], b.index(type.size)) for step in ("x_y", "x_x"))
        taken = Rows(base, rows, columns, *steps)
        pointers = taken.pointers(b)
        arithmetic = Arithmetic(type, type, type)
        with b.loop(0, self.r["depth"], carried=[weights, *pointers, *zero_sums(b, type, rows * columns)]) as loop:
            w, *rest = loop.values
            at, sums = rest[: len(pointers)], rest[len(pointers) :]
            others = [arithmetic.columns(b, w, self.lanes, None)]
            sums = products(b, arithmetic, taken.numbers(b, arithmetic, at), others, sums)
            loop.carry(b.offset(w, self.lanes, type), *(b.offset(p, 1, type) for p in at), *sums)
        return loop.results[1 + len(pointers) :]


def widened(
    low: Lowering,
    widening: Widening,
    weights: tuple[View, View],
    axes: Axes,
    epilogue: Epilogue,
    size: Sequence[int],
    node: Node,
) -> None:
    """Add the step of a depthwise correlation of a wide image.

    `weights` are both kernels in panels of one vector of channels. The rest is as for :func:`~.correlate.correlate`.
    """
    target, type, x = low.target, widening.x.type, widening.x
    count, depth = x.shape[:2]
    lanes, channels = target.lanes(type), epilogue.outputs[0].shape[-1]
    blocks = -(-channels // lanes)
    height, columns = axes.y.size, axes.x.size
    tiles = split(columns, most_rows(target, 1))
    tile_rows = max(1, most_rows(target, 1) // columns) if tiles.tiles == 1 else 1
    outputs = split(axes.x.outputs, most_sums(target))
    kept = axes.y.span(1) - axes.y.stride
    rows = axes.y.outputs
    pixels = axes.x.span(axes.x.outputs)
    left = max(-axes.x.first, 0)
    pixels = max(pixels, left + columns)
    least = min(rows, max(1, -(-kept * ROWS_FOR_ONE // axes.y.stride)))
    pieces = max(1, min(rows // least, -(-PIECES // (count * blocks))))
    rows_piece = -(-rows // pieces)
    line = pixels * lanes * type.size
    rows_step = max(1, min(rows_piece, (ROWS_BYTES // line - kept) // axes.y.stride))
    rows_there = axes.y.span(rows_step)
    narrow = depthwise.Shape(
        type, type, type, "pixels", outputs.tile, outputs.is_even, lanes, axes.x.taps, axes.x.stride, axes.x.dilation
    )
    shape = _Shape(tile_rows, tiles.tile, tiles.is_even, narrow)
    first, last = Finish(widening.epilogue, 0), Finish(epilogue, 0)
    words = _RECORD.words(
        x=x,
        x_n=x.strides[0],
        x_y=x.strides[3],
        x_x=x.strides[4],
        depth=depth,
        height=height,
        tiles_wide=tiles.tiles,
        larger_wide=tiles.larger,
        widening=weights[0],
        channels=channels,
        rows_there=rows_there,
        pixels=pixels,
        left=left,
        kept=kept,
        first_y=axes.y.first,
        stride_y=axes.y.stride,
        dilation_y=axes.y.dilation,
        panels=weights[1],
        taps_y=axes.y.taps,
        tiles_x=outputs.tiles,
        larger_x=outputs.larger,
        rows=rows,
        rows_piece=rows_piece,
        rows_step=rows_step,
        pieces=-(-rows // rows_piece),
        row=axes.y.start * size[2] + axes.x.start,
        row_n=prod(size),
        row_y=axes.y.step * size[2],
        row_x=axes.x.step,
    )
    low.step(
        low.kernel(f"{shape.key}; {first.key}; {last.key}", lambda b: _widened(b, shape, first, last)),
        # The wide image itself lies in scratch memory alone.
        [*words, *first.words()[:-2], 0, 0, 0, *last.words()],
        reads=[x, *weights, *widening.epilogue.operands, *epilogue.operands],
        writes=epilogue.outputs,
        units=count * blocks * -(-rows // rows_piece),
        scratch=-(-rows_there * line // ALIGN) * ALIGN,
        flops=2.0 * count * channels * (height * columns * depth + prod(axes.outputs) * axes.taps),
        nodes=[widening.node, *widening.epilogue.nodes, node, *epilogue.nodes],
        label=f"{node.op.name} widened {tile_rows}x{tiles.tile}",
    )
