"""Copying the part of the images that a piece of a convolution reads: channels last, zeros around.

A region of (planes, rows, columns) of an image, which may reach beyond it, is laid out densely in a
thread's scratch memory, so that the products read it without asking where the image ends. Reading it
from there costs little: it stays in the cache, and was to be read anyway.
"""

from __future__ import annotations

from collections.abc import Callable

from .builder import Builder, Value
from .plan import View
from .types import Type


def layout_of(x: View) -> str:
    """How pixels of an (N, C, Z, Y, X) view lie: its class for the copying code.

    "rows" are dense rows of pixels with their channels together; "pixels" have their channels
    together; everything else is "strided".
    """
    channels, width = x.shape[1], x.shape[4]
    together = channels == 1 or x.strides[1] == 1
    if together and (width == 1 or x.strides[4] == channels):
        return "rows"
    return "pixels" if together else "strided"


def each(b: Builder, count: Value, lanes: int, body: Callable[[Value, int], None]) -> None:
    """`body(index, lanes)` over whole vectors, then `body(index, 1)` over what is left."""
    if lanes == 1:
        with b.loop(0, count) as loop:
            body(loop.index, 1)
        return
    whole = b.and_(count, b.index(-lanes))
    with b.loop(0, whole, lanes) as loop:
        body(loop.index, lanes)
    with b.loop(whole, count) as loop:
        body(loop.index, 1)


def zeros(b: Builder, type: Type, to: Value, count: Value) -> None:
    """`count` zeros."""
    each(
        b,
        count,
        b.target.lanes(type),
        lambda i, lanes: b.store(b.const(type.vector(lanes), 0), b.offset(to, i, type)),
    )


def copied(b: Builder, type: Type, source: Value, to: Value, count: Value) -> None:
    """`count` elements that lie together."""
    each(
        b,
        count,
        b.target.lanes(type),
        lambda i, lanes: b.store(b.load(type.vector(lanes), b.offset(source, i, type)), b.offset(to, i, type)),
    )


class Region:
    """What of which images is copied, as values in the kernel.

    `strides` are the source's (z, y, x, channel), `sizes` the image's (z, y); `shape` is the
    region's (planes, rows, columns, channels), `plane` the elements from one of its planes to the
    next. Columns `left` to `right` of the region are in the image; they start at its column `column`.
    """

    def __init__(
        self,
        strides: tuple[Value, Value, Value, Value],
        sizes: tuple[Value, Value],
        shape: tuple[Value, Value, Value, Value],
        plane: Value,
        left: Value,
        right: Value,
        column: Value,
    ) -> None:
        self.strides = strides
        self.sizes = sizes
        self.shape = shape
        self.plane = plane
        self.left, self.right, self.column = left, right, column


def fill(b: Builder, type: Type, layout: str, image: Value, region: Region, z: Value, y: Value, to: Value) -> None:
    """Copy the region whose first plane and row are `z` and `y` of the image; they may lie outside."""
    planes, rows, columns, channels = region.shape
    depth, height = region.sizes
    sz, sy, sx, _ = region.strides
    pitch = b.mul(columns, channels)
    with b.loop(0, planes) as plane, b.loop(0, rows) as row:
        at_z, at_y = b.add(z, plane.index), b.add(y, row.index)
        # An unsigned comparison finds what is below 0 too.
        inside = b.and_(b.icmp("ult", at_z, depth), b.icmp("ult", at_y, height))
        left = b.select(inside, region.left, columns)
        right = b.select(inside, region.right, columns)
        line = b.offset(to, b.add(b.mul(plane.index, region.plane), b.mul(row.index, pitch)), type)
        zeros(b, type, line, b.mul(left, channels))
        start = b.offset(image, b.add(b.add(b.mul(at_z, sz), b.mul(at_y, sy)), b.mul(region.column, sx)), type)
        inner = b.offset(line, b.mul(left, channels), type)
        _copy_pixels(b, type, layout, start, region, inner, b.sub(right, left))
        end = b.mul(right, channels)
        zeros(b, type, b.offset(line, end, type), b.sub(pitch, end))


def _copy_pixels(b: Builder, type: Type, layout: str, source: Value, region: Region, to: Value, count: Value) -> None:
    channels = region.shape[3]
    sx, sc = region.strides[2:]
    if layout == "rows":
        copied(b, type, source, to, b.mul(count, channels))
    elif layout == "pixels":
        with b.loop(0, count) as pixel:
            i = pixel.index
            copied(b, type, b.offset(source, b.mul(i, sx), type), b.offset(to, b.mul(i, channels), type), channels)
    else:
        # Channel by channel: the usual strided image has its rows' elements together.
        with b.loop(0, channels) as channel, b.loop(0, count) as pixel:
            c, i = channel.index, pixel.index
            x = b.load(type, b.offset(source, b.add(b.mul(c, sc), b.mul(i, sx)), type))
            b.store(x, b.offset(to, b.add(b.mul(i, channels), c), type))
