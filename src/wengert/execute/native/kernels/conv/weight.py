"""The weight gradient of convolutions: products of shifted images with the result's cotangent.

w[o, c, k] = sum over pixels of x[pixel s + k d, c] y[pixel, o]. A register tile holds some taps and
input channels (their elements of x lie together) times vectors of output channels; its sums run over
the pixels of a piece, and pieces are added up in memory. Parts of the pieces have sums of their own,
so that there is work for several threads; they are added in one order, whoever computed them.

Of bfloat16 a step takes a pixel of two images, as a pair, where the processor has an instruction for pairs: images and
cotangents are copied so, whatever strides and taps there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import NamedTuple

from .....core.node import Node
from ...codegen.builder import Builder, Value
from ...codegen.types import I8, I32, I64, Type
from ...plan.lowering import Lowering
from ...plan.plan import View
from ...plan.record import Record
from ...scalar.fp16 import convert
from ...scalar.pairs import may_be_denormal
from ..gemm.arithmetic import PAIRS, Arithmetic, Numbers, takes_pairs
from ..gemm.plan import compute_type
from ..gemm.tiles import numpy_dtype
from .geometry import Axes, forward, tap_runs
from .region import Held, Part, fields, placed, reading, zeros
from .tile import most_sums, products, sizes_of, split_two, tile_start, vectors, zero_sums

# The most bytes of the images that a piece copies to scratch memory.
REGION_BYTES = 128 << 10
# Cotangents that more tiles than this read are copied too: a copy that the cache holds is read faster.
FEW_TILES = 4
# The least pixels of a piece, where there are so many: its sums are read and written once for it.
PIXELS = 256
# The most pixels of a piece of several rows: its sums run through them one after the other, and lose digits.
MOST_PIXELS = 4096
# The number of independent pieces of work.
UNITS = 16

_WEIGHT = Record(
    # The images and the cotangents; bytes from pixel to pixel in them, along rows and columns.
    f"{fields('x')} {fields('y')} x_row x_pixel y_row y_pixel *sums "
    # Pieces: images, as many or pairs of them, planes, rows of outputs; how many pieces and tiles a unit of work has.
    "images images_piece images_copied planes rows rows_piece bands pieces pieces_part tiles_share shares "
    # Tiles: runs of taps and elements of a run, cut into tiles; panels of channels; bytes of a group's channels.
    "runs tiles_runs larger_runs run tiles_run larger_run panels panels_each group_in group_out columns"
)


class Shape(NamedTuple):
    """The structure of the kernel: all that its code depends on."""

    arithmetic: Arithmetic
    x: Held
    y: Held
    x_layout: str
    y_layout: str
    runs: int
    length: int
    nv: int
    is_even: bool

    @property
    def larger(self) -> int:
        """The tile's size along the axis on which some tiles are smaller by one."""
        return self.runs if self.runs > 1 else self.length

    @property
    def key(self) -> str:
        less = "" if self.is_even else " or less"
        kinds = f"{self.arithmetic.key}; {self.x.key} {self.x_layout}; {self.y.key} {self.y_layout}"
        return f"conv.weight {kinds} {self.runs}x{self.length}x{self.nv}{less}"


def _weight(b: Builder, shape: Shape) -> None:
    r = _WEIGHT.load(b)
    type, element = shape.arithmetic.type, shape.x.type
    width = shape.nv * b.target.lanes(type)
    one, zero = b.index(1), b.index(0)
    line = b.mul(r["run"], b.index(width))
    tiles_panel = b.mul(r["tiles_runs"], r["tiles_run"])
    tiles_all = b.mul(tiles_panel, r["panels"])
    table = b.offset(b.rec, _WEIGHT.end, I64)
    with b.loop(b.lo, b.hi) as unit:
        part, share = b.udiv(unit.index, r["shares"]), b.urem(unit.index, r["shares"])
        first = b.mul(part, r["pieces_part"])
        last = b.imin(b.add(first, r["pieces_part"]), r["pieces"])
        first_tile = b.mul(share, r["tiles_share"])
        last_tile = b.imin(b.add(first_tile, r["tiles_share"]), tiles_all)
        sums = b.offset(r["sums"], b.mul(b.mul(part, b.mul(r["panels"], r["runs"])), line), type)
        with b.loop(first, last) as piece:
            block = _block(b, r, piece.index)
            x = placed(b, shape.x, shape.x_layout, "x", r, block, b.scratch())
            copied = b.mul(r["x_image"], b.index(element.size)) if shape.x_layout != "direct" else zero
            behind = b.offset(b.scratch(), b.mul(r["images_copied"], copied), I8)
            y = placed(b, shape.y, shape.y_layout, "y", r, block, behind)
            careful = None
            if x.smallest is not None and y.smallest is not None:
                careful = may_be_denormal(b, x.smallest, y.smallest)
            with b.loop(first_tile, last_tile) as tile:
                panel, rest = b.udiv(tile.index, tiles_panel), b.urem(tile.index, tiles_panel)
                t, e = b.udiv(rest, r["tiles_run"]), b.urem(rest, r["tiles_run"])
                group, column = b.udiv(panel, r["panels_each"]), b.urem(panel, r["panels_each"])
                channel = b.mul(column, b.index(width))
                run = tile_start(b, t, shape.runs, r["larger_runs"])
                at = tile_start(b, e, shape.length, r["larger_run"])
                rows = b.sub(tile_start(b, b.add(t, one), shape.runs, r["larger_runs"]), run)
                columns = b.sub(tile_start(b, b.add(e, one), shape.length, r["larger_run"]), at)
                to = b.add(b.mul(b.add(b.mul(panel, r["runs"]), run), line), b.mul(at, b.index(width)))
                to = b.offset(sums, to, type)
                with b.when(b.icmp("eq", piece.index, first)), b.loop(0, rows) as row:
                    zeros(b, type, b.offset(to, b.mul(row.index, line), type), b.mul(columns, b.index(width)))
                taken = Taken(
                    b.offset(x.at, b.add(b.mul(group, r["group_in"]), at), element),
                    b.offset(y.at, b.add(b.mul(group, r["group_out"]), channel), element),
                    b.offset(table, run, I64),
                    to,
                    line,
                    b.sub(r["group_out"], channel),
                )

                def body(size: int, taken: Taken = taken, block: Part = block, careful: Value | None = careful) -> None:
                    runs, length = (size, shape.length) if shape.runs > 1 else (1, size)
                    if careful is None:
                        _add(b, shape, shape.arithmetic, (runs, length), r, block, taken)
                        return
                    with b.when(b.not_(careful)):
                        _add(b, shape, shape.arithmetic, (runs, length), r, block, taken)
                    with b.when(careful):
                        _add_carefully(b, shape, (runs, length), r, block, taken)

                along, larger = (t, r["larger_runs"]) if shape.runs > 1 else (e, r["larger_run"])
                sizes_of(b, shape.larger, along, larger, shape.is_even, body)


def _block(b: Builder, r: dict[str, Value], piece: Value) -> Part:
    """Return the outputs of a piece."""
    rest, band = b.udiv(piece, r["bands"]), b.urem(piece, r["bands"])
    some, plane = b.udiv(rest, r["planes"]), b.urem(rest, r["planes"])
    image, row = b.mul(some, r["images_piece"]), b.mul(band, r["rows_piece"])
    images = b.imin(b.sub(r["images"], image), r["images_piece"])
    return Part(image, images, plane, row, b.imin(b.sub(r["rows"], row), r["rows_piece"]))


class Taken(NamedTuple):
    """A tile at work: its first elements of images and cotangents, its runs' offsets, and where its sums go.

    `line` is the elements from one run's sums to the next, `left` how many channels there are from its first.
    """

    x: Value
    y: Value
    runs: Value
    to: Value
    line: Value
    left: Value


def _add(
    b: Builder,
    shape: Shape,
    arithmetic: Arithmetic,
    size: tuple[int, int],
    r: dict[str, Value],
    block: Part,
    taken: Taken,
) -> None:
    """Add the products of a block's pixels to a tile's sums: of so many runs, and elements of each."""
    runs, length = size
    type, lanes, nv, element = arithmetic.type, b.target.lanes(arithmetic.type), shape.nv, shape.x.type
    width = nv * lanes
    masks = None
    if _is_masked(b):
        masks = [b.fixed_mask(b.sub(taken.left, b.index(lanes * j)), lanes) for j in range(nv)]
    away = [b.load(I64, b.offset(taken.runs, i, I64)) for i in range(runs)]
    start = zero_sums(b, type, runs * length * nv)
    images = block.images
    if arithmetic.per == 2:
        images = b.lshr(b.add(images, b.index(1)), b.index(1))
    with b.loop(0, images, carried=start) as image:
        x_image = b.offset(taken.x, b.mul(image.index, r["x_image"]), element)
        y_image = b.offset(taken.y, b.mul(image.index, r["y_image"]), element)
        with b.loop(0, block.rows, carried=image.values) as row:
            x_row = b.offset(x_image, b.mul(row.index, r["x_row"]), I8)
            y_row = b.offset(y_image, b.mul(row.index, r["y_row"]), I8)
            ahead = [y_row, *(b.offset(x_row, a, I8) for a in away)]
            with b.loop(0, r["columns"], carried=[*ahead, *row.values]) as pixel:
                (y, *at), sums = pixel.values[: runs + 1], pixel.values[runs + 1 :]
                places = [b.offset(y, lanes * j, element) for j in range(nv)]
                others = [arithmetic.columns(b, p, lanes, masks[j] if masks else None) for j, p in enumerate(places)]
                factors = _numbers(b, arithmetic, element, at, length)
                sums = tuple(products(b, arithmetic, factors, others, sums))
                on = [b.offset(y, r["y_pixel"], I8), *(b.offset(p, r["x_pixel"], I8) for p in at)]
                pixel.carry(*on, *sums)
            row.carry(*pixel.results[runs + 1 :])
        image.carry(*row.results)
    for i in range(runs):
        to = b.offset(taken.to, b.mul(taken.line, b.index(i)), type)
        for j in range(length * nv):
            place = b.offset(to, (j // nv) * width + (j % nv) * lanes, type)
            b.store(b.fadd(b.load(type.vector(lanes), place), image.results[i * length * nv + j]), place)


def _add_carefully(
    b: Builder, shape: Shape, size: tuple[int, int], r: dict[str, Value], block: Part, taken: Taken
) -> None:
    """Do what `_add` does, with pairs widened: few elements of a run at a time, as it is seldom that this runs."""
    runs, length = size
    widened = shape.arithmetic._replace(how="widened")
    width = shape.nv * b.target.lanes(widened.type)
    few = 2 - length % 2
    with b.loop(0, length, few) as part:
        x = b.offset(taken.x, part.index, shape.x.type)
        to = b.offset(taken.to, b.mul(part.index, b.index(width)), widened.type)
        _add(b, shape, widened, (runs, few), r, block, taken._replace(x=x, to=to))


def _is_masked(b: Builder) -> bool:
    """Return whether a last vector of channels is read under a mask; elsewhere a copy has room behind it."""
    return b.target.width == 64


def _numbers(
    b: Builder, arithmetic: Arithmetic, element: Type, pointers: list[Value], length: int
) -> Iterator[Numbers]:
    """Yield the elements of a tile's runs, each loaded when it is asked for."""
    lanes = b.target.lanes(arithmetic.type)
    for pointer in pointers:
        for i in range(length):
            if i % 4 == 0:
                # Kept from the code generator, which would load everything before the products.
                held = b.opaque(pointer)
            yield arithmetic.row(b, b.offset(held, i, element), lanes)


_COLLECT = Record("*sums *w parts part panels_each runs run inner group_out depth group channel element step")


def _collect(b: Builder, type: Type, w: Type, nv: int) -> None:
    """Add the parts' sums and store them as the kernel's elements. One unit is a run of a panel."""
    r = _COLLECT.load(b)
    lanes = b.target.lanes(type)
    width = nv * lanes
    table = b.offset(b.rec, _COLLECT.end, I64)
    line = b.local(type, width)
    with b.loop(b.lo, b.hi) as unit:
        panel, run = b.udiv(unit.index, r["runs"]), b.urem(unit.index, r["runs"])
        group, block = b.udiv(panel, r["panels_each"]), b.urem(panel, r["panels_each"])
        first = b.mul(block, b.index(width))
        used = b.imin(b.sub(r["group_out"], first), b.index(width))
        source = b.offset(r["sums"], b.mul(b.mul(unit.index, r["run"]), b.index(width)), type)
        at = b.add(b.mul(group, r["group"]), b.mul(first, r["channel"]))
        to = b.offset(r["w"], b.add(at, b.load(I64, b.offset(table, run, I64))), w)
        with b.loop(0, r["inner"]) as x, b.loop(0, r["depth"]) as c:
            place = b.offset(source, b.mul(b.add(b.mul(x.index, r["depth"]), c.index), b.index(width)), type)
            start = [b.load(type.vector(lanes), b.offset(place, lanes * j, type)) for j in range(nv)]
            with b.loop(1, r["parts"], carried=start) as part:
                more = b.offset(place, b.mul(part.index, r["part"]), type)
                loaded = [b.load(type.vector(lanes), b.offset(more, lanes * j, type)) for j in range(nv)]
                part.carry(*(b.fadd(s, v) for s, v in zip(part.values, loaded)))
            for j, v in enumerate(part.results):
                b.store(v, b.offset(line, lanes * j, type))
            out = b.offset(to, b.add(b.mul(x.index, r["step"]), b.mul(c.index, r["element"])), w)
            with b.loop(0, used) as channel:
                v = b.load(type, b.offset(line, channel.index, type))
                b.store(convert(b, v, w), b.offset(out, b.mul(channel.index, r["channel"]), w))


class _Pieces(NamedTuple):
    """A division of the pixels: images of a piece, rows of outputs of it, pieces of a plane, pieces."""

    images: int
    rows: int
    bands: int
    number: int


def _pieces(axes: Axes, count: int, pixel: int, least: int) -> _Pieces:
    """Return the division of so many images, or pairs of them, of whose copies a pixel has `pixel` bytes.

    A piece has at least `least` pixels, where there are so many.
    """
    rows = axes.y.outputs
    line = axes.z.span(1) * axes.x.span(axes.x.outputs) * pixel
    while rows > 1 and (axes.y.span(rows) * line > REGION_BYTES or rows * axes.x.outputs > MOST_PIXELS):
        rows = -(-rows // 2)
    bands = -(-axes.y.outputs // rows)
    rows = -(-axes.y.outputs // bands)
    images = 1
    if bands == 1:
        room = max(1, REGION_BYTES // max(1, axes.y.span(rows) * line))
        images = min(count, room, -(-least // (rows * axes.x.outputs)))
        images = -(-count // -(-count // images))
    return _Pieces(images, rows, bands, -(-count // images) * axes.z.outputs * bands)


def _shares(pieces: int, tiles: int, read: int, sums: int, least: int) -> tuple[int, int]:
    """Return parts of the pieces, and shares of the tiles for each, that move least memory for so many units, or at
    least `least`.

    Every share reads all images of its part; every part has its own sums, written and read.
    """
    best = (float("inf"), 1, 1)
    for shares in (1, 2, 4, 8, UNITS):
        parts = min(UNITS // shares, pieces)
        if shares <= tiles and parts * shares >= least:
            best = min(best, (shares * read + parts * sums, parts, shares))
    if best[0] < float("inf"):
        return best[1:]
    shares = min(tiles, UNITS)
    return min(pieces, -(-UNITS // shares)), shares


def weight_gradient(low: Lowering, x: View, y: View, axes: Axes, groups: int, w: View, node: Node) -> None:
    """Add the steps that compute `w`, the gradient (O, C / groups, Z, Y, X) of a kernel that `axes` describe.

    `x` is (N, C, Z, Y, X), `y` (N, O, Z, Y, X) the cotangent of the result.
    """
    target, type = low.target, compute_type(x.dtype)
    assert type is not None
    outputs = axes.outputs
    arithmetic, of_x, of_y = Arithmetic(type, type, type), Held(x.type, type), Held(y.type, type)
    if takes_pairs(target, x.type, y.type) and x.shape[0] > 1:
        arithmetic, of_x, of_y = PAIRS, Held(x.type, I32, "images"), Held(y.type, I32, "images")
    per = arithmetic.per
    count = -(-x.shape[0] // per)
    channels, depth = w.shape[0] // groups, w.shape[1]
    nv = vectors(target, type, channels)
    width = nv * target.lanes(type)
    pieces = _pieces(axes, count, x.shape[1] * of_x.type.size, PIXELS // per)
    source = reading("x", x, axes, pieces.rows, of_x)
    offsets, run = tap_runs(axes, source.strides, groups, depth)
    runs, elements = split_two(len(offsets), run, most_sums(target) // nv)
    points = Axes(*(forward(n, n, 1, 1, 0, 1) for n in outputs))
    # Vectors of the cotangent end beside an image's last channels, or are read from a copy.
    fits = target.width == 64 or channels % width == 0
    is_read_often = runs.tiles * elements.tiles > FEW_TILES
    cotangent = reading("y", y, points, pieces.rows, of_y, fits and not is_read_often)
    panels_each = -(-channels // width)
    panels = groups * panels_each
    tiles = runs.tiles * elements.tiles * panels
    size = panels * len(offsets) * run * width
    read = (x.size + y.size) * x.type.size + (source.nbytes + cotangent.nbytes) * count
    # Where images are copied, every share copies them again: rather fewer units.
    least = UNITS if source.layout == cotangent.layout == "direct" else UNITS // 2
    parts, shares = _shares(pieces.number, tiles, read, 2 * size * type.size, least)
    pieces_part = -(-pieces.number // parts)
    parts = -(-pieces.number // pieces_part)
    tiles_share = -(-tiles // shares)
    shares = -(-tiles // tiles_share)
    sums = low.temp((parts, size), numpy_dtype(type))
    varying = runs if runs.tile > 1 else elements
    shape = Shape(
        arithmetic, of_x, of_y, source.layout, cotangent.layout, runs.tile, elements.tile, nv, varying.is_even
    )
    given = _WEIGHT.words(
        **source.words,
        **cotangent.words,
        x_row=axes.y.stride * source.strides[1] * of_x.type.size,
        x_pixel=axes.x.stride * source.strides[2] * of_x.type.size,
        y_row=cotangent.strides[1] * of_y.type.size,
        y_pixel=cotangent.strides[2] * of_y.type.size,
        sums=sums,
        images=x.shape[0],
        images_piece=pieces.images * per,
        images_copied=pieces.images,
        planes=outputs[0],
        rows=outputs[1],
        rows_piece=pieces.rows,
        bands=pieces.bands,
        pieces=pieces.number,
        pieces_part=pieces_part,
        tiles_share=tiles_share,
        shares=shares,
        runs=len(offsets),
        tiles_runs=runs.tiles,
        larger_runs=runs.larger,
        run=run,
        tiles_run=elements.tiles,
        larger_run=elements.larger,
        panels=panels,
        panels_each=panels_each,
        group_in=depth,
        group_out=channels,
        columns=outputs[2],
    )
    low.step(
        low.kernel(shape.key, lambda b: _weight(b, shape)),
        [*given, *(o * of_x.type.size for o in offsets)],
        reads=[x, y],
        writes=[sums],
        units=parts * shares,
        scratch=pieces.images * (source.nbytes + cotangent.nbytes) + width * type.size,
        flops=2.0 * x.shape[0] * prod(outputs) * prod(w.shape),
        nodes=[node],
        label=f"{node.op.name} {shape.runs}x{shape.length}x{nv}",
    )
    _add_collect(low, axes, sums, (panels, panels_each, run, nv), w, node)


def _add_collect(low: Lowering, axes: Axes, sums: View, tiling: tuple[int, int, int, int], w: View, node: Node) -> None:
    panels, panels_each, run, nv = tiling
    type = sums.type
    channels = w.shape[0] * panels_each // panels
    inner = run // w.shape[1]
    taps = (axes.z.taps, axes.y.taps, axes.x.taps // inner)
    offsets = [sum(at) for at in product(*([j * s for j in range(n)] for n, s in zip(taps, w.strides[2:])))]
    given = _COLLECT.words(
        sums=sums,
        w=w,
        parts=sums.shape[0],
        part=sums.shape[1],
        panels_each=panels_each,
        runs=len(offsets),
        run=run,
        inner=inner,
        group_out=channels,
        depth=w.shape[1],
        group=channels * w.strides[0],
        channel=w.strides[0],
        element=w.strides[1],
        step=w.strides[4],
    )
    low.step(
        low.kernel(f"conv.collect {type.text} {w.type.text} {nv}", lambda b: _collect(b, type, w.type, nv)),
        [*given, *offsets],
        reads=[sums],
        writes=[w],
        units=panels * len(offsets),
        nodes=[node],
        label="conv.collect",
    )
