"""Reading of images by a convolution: where they lie, or from a copy of the part that a piece needs.

Products want channels last and zeros around the image. Images that lie so are read directly; of
others a region, which may reach beyond the image, is laid out densely in the thread's scratch
memory. That costs little: the copy stays in the cache, and what is copied was to be read anyway.
Half-precision numbers are widened on the way; bfloat16 that is summed by pairs is laid out in them, and looked over for
the smallest number (:mod:`...scalar.pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from ...codegen.builder import Builder, Value
from ...codegen.types import I16, I32, Type
from ...plan.plan import ALIGN, View
from ...scalar.fp16 import convert
from ...scalar.pairs import joined, nothing, smallest, smallest_of_lanes
from ..gemm.pack import transposed
from ..gemm.tiles import is_masked
from .geometry import Axes

_FIELDS = (
    # The images' strides and sizes; the first tap of the first output, and the step from output to output.
    "n z y x c depth height first_z first_y first_x stride_z stride_y "
    # The region's size; elements from one of its pixels, planes and images to the next; its columns in the image.
    "region_z rows_more region_x channels elements plane image left right"
)


# Squares of pixels and channels are worth it for so many channels, where not all of a square is there.
FEW_CHANNELS = 8
# The smallest numbers so far: see `_Copy`.
Smallest = tuple[Value, ...]


class Held(NamedTuple):
    """The form of numbers in a region: elements of `type`, made of numbers that are of `source` in memory.

    With `pairs` they are bfloat16: neighbouring "channels" lie in pairs, the last one of an odd number with a 0; or the
    same number of two neighbouring "images" is an element, the last one of an odd number with a 0.
    """

    source: Type
    type: Type
    pairs: Literal["", "channels", "images"] = ""

    @property
    def key(self) -> str:
        return f"{self.source.text} {self.type.text} {self.pairs}"

    def elements(self, channels: int) -> int:
        """Return the elements of a pixel."""
        return channels + channels % 2 if self.pairs == "channels" else channels


def fields(name: str) -> str:
    """Return the words of a record that say how the images `name` are read."""
    return f"*{name} " + " ".join(f"{name}_{field}" for field in _FIELDS.split())


class Reading(NamedTuple):
    """A way of reading images: their layout's class, strides (z, y, x) of what is read, the record's words.

    `nbytes` is what an image, or a pair of them, takes of scratch memory.
    """

    layout: str
    strides: tuple[int, int, int]
    words: dict[str, int | View]
    nbytes: int


def reading(name: str, x: View, axes: Axes, rows: int, held: Held, may_be_direct: bool = True) -> Reading:
    """Return how (N, C, Z, Y, X) images are read by pieces of one plane and at most `rows` rows of outputs."""
    layout = layout_of(x)
    channels, elements = x.shape[1], held.elements(x.shape[1])
    if layout == "rows" and may_be_direct and held.source == held.type and not axes.has_halo:
        layout = "direct"
    elif layout == "rows" and elements != channels:
        layout = "pixels"
    region_z, region_y, region_x = axes.z.span(1), axes.y.span(rows), axes.x.span(axes.x.outputs)
    if not axes.taps:
        region_z = 0  # nothing is read, whatever taps there are along the other axes
    line = region_x * elements
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
        "elements": elements,
        "plane": region_y * line,
        "image": x.strides[0] if layout == "direct" else size,
        "left": left,
        "right": min(max(axes.x.size - axes.x.first, left), region_x),
    }
    named = {name: x, **{f"{name}_{field}": word for field, word in words.items()}}
    strides = x.strides[2:] if layout == "direct" else (region_y * line, line, elements)
    return Reading(layout, (strides[0], strides[1], strides[2]), named, size * held.type.size)


def layout_of(x: View) -> str:
    """Return the class of an (N, C, Z, Y, X) view's pixel layout, for the copying code.

    "rows" are dense rows of pixels with their channels together; "pixels" have their channels
    together; "planes" have the numbers of a row's pixels together; everything else is "strided".
    """
    channels, width = x.shape[1], x.shape[4]
    together = channels == 1 or x.strides[1] == 1
    if together and (width == 1 or x.strides[4] == channels):
        return "rows"
    return "pixels" if together else "planes" if x.strides[4] == 1 else "strided"


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


class Part(NamedTuple):
    """The outputs that a piece computes: images, a plane, rows."""

    image: Value
    images: Value
    plane: Value
    row: Value
    rows: Value


class Placed(NamedTuple):
    """The place of the first tap of a part's first output; of pairs, the smallest number's bits as well."""

    at: Value
    smallest: Value | None = None


def placed(b: Builder, held: Held, layout: str, name: str, r: Mapping[str, Value], part: Part, to: Value) -> Placed:
    """Return where the part is read; the region is copied `to` there unless direct."""
    field = {f: r[f"{name}_{f}"] for f in _FIELDS.split()}
    images = b.offset(r[name], b.mul(part.image, field["n"]), held.source)
    z = b.add(b.mul(part.plane, field["stride_z"]), field["first_z"])
    y = b.add(b.mul(part.row, field["stride_y"]), field["first_y"])
    if layout == "direct":
        at = b.add(b.add(b.mul(z, field["z"]), b.mul(y, field["y"])), b.mul(field["first_x"], field["x"]))
        return Placed(b.offset(images, at, held.type))
    rows = b.add(b.mul(part.rows, field["stride_y"]), field["rows_more"])
    copy = _Copy(b, held)
    together = 2 if held.pairs == "images" else 1
    with b.loop(0, part.images, together) as n:
        image = b.offset(images, b.mul(n.index, field["n"]), held.source)
        if together == 2:
            copy.with_second(n.index, part.images, field["n"])
        number = n.index if together == 1 else b.lshr(n.index, b.index(1))
        _fill(copy, layout, image, field, (z, y, rows), b.offset(to, b.mul(number, field["image"]), held.type))
    return Placed(to, copy.smallest())


def _fill(
    copy: _Copy,
    layout: str,
    image: Value,
    field: Mapping[str, Value],
    where: tuple[Value, Value, Value],
    to: Value,
) -> None:
    """Copy a region of an image: `where` says its first plane, its first row and how many rows."""
    b, type = copy.b, copy.held.type
    z, y, rows = where
    columns, size = field["region_x"], field["elements"]
    pitch = b.mul(columns, size)
    with b.loop(0, field["region_z"]) as plane, b.loop(0, rows) as row:
        at_z, at_y = b.add(z, plane.index), b.add(y, row.index)
        # An unsigned comparison finds what is below 0 too.
        inside = b.and_(b.icmp("ult", at_z, field["depth"]), b.icmp("ult", at_y, field["height"]))
        left = b.select(inside, field["left"], columns)
        right = b.select(inside, field["right"], columns)
        line = b.offset(to, b.add(b.mul(plane.index, field["plane"]), b.mul(row.index, pitch)), type)
        before, end = b.mul(left, size), b.mul(right, size)
        zeros(b, type, line, before)
        at = b.add(b.add(b.mul(at_z, field["z"]), b.mul(at_y, field["y"])), b.mul(_column(b, field), field["x"]))
        start = b.offset(image, at, copy.held.source)
        _copy_pixels(copy, layout, start, field, b.offset(line, before, type), b.sub(right, left))
        zeros(b, type, b.offset(line, end, type), b.sub(pitch, end))


def _column(b: Builder, field: Mapping[str, Value]) -> Value:
    """Return the image's column that the first column inside of the image is."""
    return b.add(field["first_x"], field["left"])


def _copy_pixels(copy: _Copy, layout: str, source: Value, field: Mapping[str, Value], to: Value, count: Value) -> None:
    b, held = copy.b, copy.held
    channels, size, sx, sc = field["channels"], field["elements"], field["x"], field["c"]
    if layout == "rows":
        copy.note(copy.together(source, to, b.mul(count, channels), copy.nothing))
    elif layout == "pixels":
        with b.loop(0, count, carried=copy.nothing) as pixel:
            at, place = b.mul(pixel.index, sx), b.mul(pixel.index, size)
            at, place = b.offset(source, at, held.source), b.offset(to, place, held.type)
            pixel.carry(*copy.together(at, place, channels, pixel.values))
        copy.note(pixel.results)
    else:

        def one_by_one(channels: tuple[Value, Value], pixels: tuple[Value, Value]) -> None:
            # Channel by channel: the usual strided image has its rows' elements together.
            with b.loop(*channels, carried=copy.nothing) as channel:
                with b.loop(*pixels, carried=channel.values) as pixel:
                    c, i = channel.index, pixel.index
                    x = b.offset(source, b.add(b.mul(c, sc), b.mul(i, sx)), held.source)
                    pixel.carry(*copy.one(x, b.offset(to, b.add(b.mul(i, size), c), held.type), pixel.values))
                channel.carry(*pixel.results)
            copy.note(channel.results)

        none, of_squares = b.index(0), b.index(0)
        if layout == "planes":
            of_squares, pixels = copy.squares(source, to, (channels, sc), (count, size))
            one_by_one((none, of_squares), (pixels, count))
        one_by_one((of_squares, channels), (none, count))
        if held.pairs == "channels":
            with b.loop(channels, size) as channel, b.loop(0, count) as pixel:
                at = b.add(b.mul(pixel.index, size), channel.index)
                b.store(b.const(held.type, 0), b.offset(to, at, held.type))


class _Copy:
    """The writer of copies of numbers to a region, as that holds them.

    With pairs it finds the smallest numbers: `nothing` is what they are before any, of whole vectors and of single
    pairs, and methods that copy take what they are so far and return what they are then.
    """

    def __init__(self, b: Builder, held: Held) -> None:
        self.b, self.held = b, held
        self.lanes = b.target.lanes(I32)
        # Of two images: from one to the other, and which bits of the second count.
        self._second: Value | None = None
        self._kept = b.const(I16, 0)
        self.nothing: Smallest = tuple(nothing(b, n) for n in (self.lanes, 1)) if held.pairs else ()
        self._cells = [b.local(I16, n.type.lanes) for n in self.nothing]
        self.note(self.nothing, begins=True)

    def with_second(self, image: Value, images: Value, stride: Value) -> None:
        """Take the image after `image` along with it; where there is none, zeros."""
        b = self.b
        there = b.icmp("slt", b.add(image, b.index(1)), images)
        self._second = b.select(there, stride, b.index(0))
        self._kept = b.select(there, b.const(I16, -1), b.const(I16, 0))

    def note(self, found: Smallest, begins: bool = False) -> None:
        """Keep the smallest numbers of a line, with those of lines before it."""
        b = self.b
        for x, cell in zip(found, self._cells, strict=True):
            b.store(x if begins else b.intrinsic("umin", x, b.load(x.type, cell)), cell)

    def smallest(self) -> Value | None:
        """Return what says which the smallest number is of all that was copied; None without pairs."""
        b = self.b
        if not self._cells:
            return None
        found = [smallest_of_lanes(b, b.load(n.type, cell)) for n, cell in zip(self.nothing, self._cells, strict=True)]
        return b.intrinsic("umin", *found)

    def together(self, source: Value, to: Value, count: Value, so_far: Smallest) -> Smallest:
        """Copy numbers that lie side by side."""
        b, held = self.b, self.held
        if not held.pairs:
            each(b, count, b.target.lanes(held.type), lambda i, lanes: self._some(source, to, i, lanes))
            return so_far
        of_vectors, of_ones = so_far
        lanes = self.lanes * (2 if held.pairs == "channels" else 1)
        whole = b.and_(count, b.index(-lanes))
        with b.loop(0, whole, lanes, [of_vectors]) as loop:
            i = loop.index
            pairs = self._pairs(source, lambda pointer: b.load(I16.vector(lanes), b.offset(pointer, i, I16)))
            b.store(pairs, b.offset(to, i, held.type), align=held.type.size)
            loop.carry(smallest(b, [pairs], loop.values[0]))
        left = b.sub(count, whole)
        # A last channel has its zero beside it.
        written = b.lshr(b.add(left, b.index(1)), b.index(1)) if held.pairs == "channels" else left
        read, write = b.fixed_mask(left, lanes), b.fixed_mask(written, self.lanes)

        def rest() -> list[Value]:
            at = lambda pointer: b.offset(pointer, whole, I16)
            pairs = self._pairs(source, lambda pointer: b.masked_load(I16.vector(lanes), at(pointer), read))
            b.masked_store(pairs, b.offset(to, whole, held.type), write)
            return [smallest(b, [pairs], loop.results[0])]

        (of_vectors,) = b.either(b.icmp("slt", whole, count), rest, lambda: loop.results)
        return of_vectors, of_ones

    def one(self, source: Value, to: Value, so_far: Smallest) -> Smallest:
        """Copy one number."""
        b, held = self.b, self.held
        if not held.pairs:
            self._some(source, to, b.index(0), 1)
            return so_far
        of_vectors, of_ones = so_far
        if held.pairs == "channels":
            number = b.load(I16, source)
            b.store(number, to)
            pair = b.cast("zext", number, I32)
        else:
            pair = self._pairs(source, lambda pointer: b.load(I16, pointer))
            b.store(pair, to)
        return of_vectors, smallest(b, [pair], of_ones)

    def squares(
        self, source: Value, to: Value, channels: tuple[Value, Value], pixels: tuple[Value, Value]
    ) -> tuple[Value, Value]:
        """Copy pixels, which lie side by side, of several channels, in squares that are transposed in registers.

        `channels` are their number and stride, `pixels` their number and the elements from one to the next. Return the
        channels and the pixels that are done: a few channels are left, and where vectors are not masked all that do not
        fill squares.
        """
        b, held = self.b, self.held
        per = 2 if held.pairs == "channels" else 1
        lanes = self.lanes if held.pairs else b.target.lanes(held.type)
        (count, apart), (along, size) = channels, pixels
        done, across = b.and_(count, b.index(-per * lanes)), along
        if is_masked(b.target):
            whole = b.and_(count, b.index(-per))
            done = b.select(b.icmp("sge", b.sub(whole, done), b.index(FEW_CHANNELS)), whole, done)
        else:
            across = b.select(b.icmp("sge", along, b.index(lanes)), along, b.index(0))
        with b.loop(0, done, per * lanes, self.nothing) as channel:
            there = b.udiv(b.sub(done, channel.index), b.index(per))
            write = b.fixed_mask(there, lanes)
            last = b.sub(there, b.index(1))
            with b.loop(0, across, lanes, channel.values) as pixel:
                so_far = pixel.values
                # The last square overlaps the one before it.
                first = b.imax(b.imin(pixel.index, b.sub(along, b.index(lanes))), b.index(0))
                left = b.sub(along, first)
                read = b.fixed_mask(left, lanes) if is_masked(b.target) else None
                line = b.offset(source, b.add(b.mul(channel.index, apart), first), held.source)
                away = b.mul(apart, b.index(per))
                rows = []
                for i in range(lanes):
                    number = b.index(i) if read is None else b.imin(b.index(i), last)
                    rows.append(self._line(b.offset(line, b.mul(number, away), held.source), apart, lanes, read))
                if held.pairs:
                    so_far = (smallest(b, rows, so_far[0]), so_far[1])
                place = b.offset(to, b.add(b.mul(first, size), channel.index), held.type)
                for i, column in enumerate(transposed(b, rows)):
                    if read is None:
                        b.store(column, place, align=held.type.size)
                    else:
                        with b.when(b.icmp("slt", b.index(i), left)):
                            b.masked_store(column, place, write)
                    place = b.offset(place, size, held.type)
                pixel.carry(*so_far)
            channel.carry(*pixel.results)
        self.note(channel.results)
        return done, across

    def _line(self, line: Value, apart: Value, lanes: int, mask: Value | None) -> Value:
        """Return a vector of pixels of a channel, or of a pair of channels."""
        b, held = self.b, self.held

        def load(type: Type, pointer: Value) -> Value:
            vector = type.vector(lanes)
            return b.load(vector, pointer) if mask is None else b.masked_load(vector, pointer, mask)

        if held.pairs == "channels":
            return joined(b, load(I16, line), load(I16, b.offset(line, apart, I16)))
        if held.pairs:
            return self._pairs(line, lambda pointer: load(I16, pointer))
        return convert(b, load(held.source, line), held.type)

    def _some(self, source: Value, to: Value, at: Value, lanes: int) -> None:
        b, held = self.b, self.held
        x = b.load(held.source.vector(lanes), b.offset(source, at, held.source))
        b.store(convert(b, x, held.type), b.offset(to, at, held.type))

    def _pairs(self, source: Value, load: Callable[[Value], Value]) -> Value:
        """Return pairs of what `load` gives for a pointer to numbers, or to those of both images."""
        b = self.b
        first = load(source)
        if self._second is None:
            return b.cast("bitcast", first, I32.vector(self.lanes))
        second = load(b.offset(source, self._second, self.held.source))
        return joined(b, first, b.and_(second, b.splat(self._kept, second.type.lanes)))
