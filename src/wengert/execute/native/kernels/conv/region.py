"""Reading of images by a convolution: where they lie, or from a copy of the part that a piece needs.

Products want channels last and zeros around the image. Images that lie so are read directly; of
others a region, which may reach beyond the image, is laid out densely in the thread's scratch
memory. That costs little: the copy stays in the cache, and what is copied was to be read anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...codegen.builder import Builder, Value
from ...codegen.types import Type
from ...plan.plan import ALIGN, View
from .geometry import Axes

_FIELDS = (
    # The images' strides and sizes; the first tap of the first output, and the step from output to output.
    "n z y x c depth height first_z first_y first_x stride_z stride_y "
    # The region's size; elements from one of its planes, and from one image, to the next; its columns in the image.
    "region_z rows_more region_x channels plane image left right"
)


def fields(name: str) -> str:
    """Return the words of a record that say how the images `name` are read."""
    return f"*{name} " + " ".join(f"{name}_{field}" for field in _FIELDS.split())


class Reading(NamedTuple):
    """A way of reading images: their layout's class, strides (z, y, x) of what is read, the record's words.

    `nbytes` is what an image takes of scratch memory.
    """

    layout: str
    strides: tuple[int, int, int]
    words: dict[str, int | View]
    nbytes: int


def reading(name: str, x: View, axes: Axes, rows: int, may_be_direct: bool = True) -> Reading:
    """Return how (N, C, Z, Y, X) images are read by pieces of one plane and at most `rows` rows of outputs."""
    layout = layout_of(x)
    if layout == "rows" and may_be_direct and not axes.has_halo:
        layout = "direct"
    channels = x.shape[1]
    region_z, region_y, region_x = axes.z.span(1), axes.y.span(rows), axes.x.span(axes.x.outputs)
    line = region_x * channels
    size = 0 if layout == "direct" else -(-region_z * region_y * line // ALIGN) * ALIGN
    left = min(max(-axes.x.first, 0), region_x)
    words: dict[str, int | View] = {
        **dict(zip("nczyx", x.strides)),
        "depth": axes.z.size,
        "height": axes.y.size,
        "first_z": axes.z.first,
        "first_y": axes.y.first,
        "first_x": axes.x.first,
        "stride_z": axes.z.stride,
        "stride_y": axes.y.stride,
        "region_z": region_z,
        "rows_more": axes.y.span(1) - axes.y.stride,
        "region_x": region_x,
        "channels": channels,
        "plane": region_y * line,
        "image": x.strides[0] if layout == "direct" else size,
        "left": left,
        "right": min(max(axes.x.size - axes.x.first, left), region_x),
    }
    named = {name: x, **{f"{name}_{field}": word for field, word in words.items()}}
    strides = x.strides[2:] if layout == "direct" else (region_y * line, line, channels)
    return Reading(layout, (strides[0], strides[1], strides[2]), named, size * x.type.size)


def layout_of(x: View) -> str:
    """Return the class of an (N, C, Z, Y, X) view's pixel layout, for the copying code.

    "rows" are dense rows of pixels with their channels together; "pixels" have their channels
    together; everything else is "strided".
    """
    channels, width = x.shape[1], x.shape[4]
    together = channels == 1 or x.strides[1] == 1
    if together and (width == 1 or x.strides[4] == channels):
        return "rows"
    return "pixels" if together else "strided"


def each(b: Builder, count: Value, lanes: int, body: Callable[[Value, int], None]) -> None:
    """Write `body(index, lanes)` over whole vectors, then `body(index, 1)` over what is left."""
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
    """Store `count` zeros."""
    each(
        b,
        count,
        b.target.lanes(type),
        lambda i, lanes: b.store(b.const(type.vector(lanes), 0), b.offset(to, i, type)),
    )


def copied(b: Builder, type: Type, source: Value, to: Value, count: Value) -> None:
    """Copy `count` elements that lie together."""
    each(
        b,
        count,
        b.target.lanes(type),
        lambda i, lanes: b.store(b.load(type.vector(lanes), b.offset(source, i, type)), b.offset(to, i, type)),
    )


class Part(NamedTuple):
    """The outputs that a piece computes: images, a plane, rows."""

    image: Value
    images: Value
    plane: Value
    row: Value
    rows: Value


def placed(b: Builder, type: Type, layout: str, name: str, r: Mapping[str, Value], part: Part, to: Value) -> Value:
    """Return where the first tap of the part's first output is read; the region is copied `to` there unless direct."""
    field = {f: r[f"{name}_{f}"] for f in _FIELDS.split()}
    images = b.offset(r[name], b.mul(part.image, field["n"]), type)
    z = b.add(b.mul(part.plane, field["stride_z"]), field["first_z"])
    y = b.add(b.mul(part.row, field["stride_y"]), field["first_y"])
    if layout == "direct":
        at = b.add(b.add(b.mul(z, field["z"]), b.mul(y, field["y"])), b.mul(field["first_x"], field["x"]))
        return b.offset(images, at, type)
    rows = b.add(b.mul(part.rows, field["stride_y"]), field["rows_more"])
    with b.loop(0, part.images) as n:
        image = b.offset(images, b.mul(n.index, field["n"]), type)
        _fill(b, type, layout, image, field, (z, y, rows), b.offset(to, b.mul(n.index, field["image"]), type))
    return to


def _fill(
    b: Builder,
    type: Type,
    layout: str,
    image: Value,
    field: Mapping[str, Value],
    where: tuple[Value, Value, Value],
    to: Value,
) -> None:
    """Copy a region of an image: `where` says its first plane, its first row and how many rows."""
    z, y, rows = where
    columns, channels = field["region_x"], field["channels"]
    pitch = b.mul(columns, channels)
    with b.loop(0, field["region_z"]) as plane, b.loop(0, rows) as row:
        at_z, at_y = b.add(z, plane.index), b.add(y, row.index)
        # An unsigned comparison finds what is below 0 too.
        inside = b.and_(b.icmp("ult", at_z, field["depth"]), b.icmp("ult", at_y, field["height"]))
        left = b.select(inside, field["left"], columns)
        right = b.select(inside, field["right"], columns)
        line = b.offset(to, b.add(b.mul(plane.index, field["plane"]), b.mul(row.index, pitch)), type)
        before, end = b.mul(left, channels), b.mul(right, channels)
        zeros(b, type, line, before)
        at = b.add(b.add(b.mul(at_z, field["z"]), b.mul(at_y, field["y"])), b.mul(_column(b, field), field["x"]))
        _copy_pixels(
            b, type, layout, b.offset(image, at, type), field, b.offset(line, before, type), b.sub(right, left)
        )
        zeros(b, type, b.offset(line, end, type), b.sub(pitch, end))


def _column(b: Builder, field: Mapping[str, Value]) -> Value:
    """Return the image's column that the first column inside of the image is."""
    return b.add(field["first_x"], field["left"])


def _copy_pixels(
    b: Builder, type: Type, layout: str, source: Value, field: Mapping[str, Value], to: Value, count: Value
) -> None:
    channels, sx, sc = field["channels"], field["x"], field["c"]
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
