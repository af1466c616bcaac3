"""The forward product of convolutions, and the data gradient: correlation as an implicit matrix product.

Images lie channels last (the image itself, or a zero-padded copy of a part of it in scratch memory),
the kernel packed as panels of a tile's channels, [group][panel][tap][input channel][channel]. A
tile's sums run over the taps; a run of taps whose input lies together is one loop. No patches are
ever gathered (no im2col): Georganas et al. 2018, Anatomy of high-performance deep learning
convolutions on SIMD architectures.

Of bfloat16 a step takes pairs of input channels where the processor has an instruction for them
(:mod:`..gemm.arithmetic`): the panels hold [tap][pair of channels][channel][2] then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from .....core.node import Node
from ...codegen.builder import Builder, Value, as_bits
from ...codegen.types import I8, I16, I32, I64, Type
from ...plan.lowering import Epilogue, Lowering
from ...plan.plan import View
from ...plan.record import Record
from ...scalar.pairs import may_be_denormal, nothing, smallest, smallest_of_lanes
from ..gemm.arithmetic import PAIRS, Arithmetic, takes_pairs
from ..gemm.finish import Finish
from ..gemm.magnitudes import smallest_of_words
from ..gemm.pack import Panels
from ..gemm.plan import compute_type
from .depthwise import block_width, depthwise, is_depthwise, side_by_side
from .finish import Spot, Store
from .geometry import POINT, Axes, tap_runs
from .region import Held, Part, fields, layout_of, placed, reading
from .tile import Rows, Split, most_rows, products, sizes_of, split_two, tile_start, vectors, zero_sums
from .winograd import is_winograd, winograd

# The most bytes of an image that a piece of work copies to scratch memory: they are to stay in the second cache.
REGION_BYTES = 128 << 10
# The least number of pieces of work, where the outputs allow it.
PIECES = 16
# A kernel of more bytes does not stay in the second cache while rows of outputs go by: each piece has many rows then,
# and some panels, of about so many bytes together, but more than one, for which its image is copied.
KERNEL_BYTES = 256 << 10
LEAST_PANELS = 2
# Panels of so many bytes together stay in the first cache beside a tile's images: every tile takes all of them, one
# after the other, so that its outputs are written from end to end.
TILE_BYTES = 16 << 10
# Images of at most so many channels are read as they lie, where these lie apart: laying them together, number by
# number, takes longer than the shorter runs of taps.
PLANES = 4
# Of what is seldom computed tiles have few outputs: their code is made quickly, and takes a third longer.
SELDOM_ROWS = 4

_PACK = Record("*w *panels group channel z y x inner per_panel channels taps_z taps_y taps_x depth")


def _unless_done(b: Builder, at: int) -> Value:
    """Return where a kernel's units end: at once, where all of so many words are 0; they are named at `at`."""
    words = b.buffer(at)
    with b.loop(0, b.word(at + 2), carried=[b.index(0)]) as loop:
        loop.carry(b.or_(loop.values[0], b.load(I64, b.offset(words, loop.index, I64))))
    return b.select(b.icmp("eq", loop.results[0], b.index(0)), b.lo, b.hi)


def _pack(b: Builder, type: Type, width: int, per: int, may_be_done: bool) -> None:
    """Write the packing kernel: a unit is a tap of a panel, `depth` input channels times `width` output channels.

    With `per` 2 the channels lie in pairs, and words say which the smallest numbers are. What `may_be_done` has words
    that say whether it is (see :class:`Shape`).
    """
    r = _PACK.load(b)
    end = _unless_done(b, _PACK.end + (2 if per == 2 else 0)) if may_be_done else b.hi
    type = as_bits(type)
    taps = b.mul(b.mul(r["taps_z"], r["taps_y"]), r["taps_x"])
    depth = r["depth"]
    held = depth if per == 1 else b.and_(b.add(depth, b.index(1)), b.index(-2))
    size = b.mul(held, b.index(width))

    def place(k: Value, channel: Value) -> Value:
        if per == 1:
            return b.add(b.mul(k, b.index(width)), channel)
        pair = b.add(b.mul(b.lshr(k, b.index(1)), b.index(width)), channel)
        return b.add(b.add(pair, pair), b.and_(k, b.index(1)))

    with b.loop(b.lo, end) as unit:
        panel, tap = b.udiv(unit.index, taps), b.urem(unit.index, taps)
        group, block = b.udiv(panel, r["per_panel"]), b.urem(panel, r["per_panel"])
        line, x = b.udiv(tap, r["taps_x"]), b.urem(tap, r["taps_x"])
        z, y = b.udiv(line, r["taps_y"]), b.urem(line, r["taps_y"])
        first = b.mul(block, b.index(width))
        at = b.index(0)
        for count, stride in ((group, "group"), (first, "channel"), (z, "z"), (y, "y"), (x, "x")):
            at = b.add(at, b.mul(count, r[stride]))
        source, to = b.offset(r["w"], at, type), b.offset(r["panels"], b.mul(unit.index, size), type)
        used = b.imin(b.sub(r["channels"], first), b.index(width))
        with b.loop(0, used, carried=[nothing(b, 1)]) as channel:
            column = b.offset(source, b.mul(channel.index, r["channel"]), type)
            with b.loop(0, depth, carried=channel.values) as k:
                w = b.load(type, b.offset(column, b.mul(k.index, r["inner"]), type))
                b.store(w, b.offset(to, place(k.index, channel.index), type))
                k.carry(smallest(b, [b.cast("zext", w, I32)], k.values[0]) if per == 2 else k.values[0])
            with b.loop(depth, held) as rest:
                b.store(b.const(type, 0), b.offset(to, place(rest.index, channel.index), type))
            channel.carry(*k.results)
        with b.loop(used, width) as channel_beyond, b.loop(0, held) as k:
            b.store(b.const(type, 0), b.offset(to, place(k.index, channel_beyond.index), type))
        if per == 2:
            words = b.buffer(_PACK.end)
            b.store(smallest_of_lanes(b, channel.results[0]), b.offset(words, unit.index, I64))


def packed(
    low: Lowering, w: View, axes: Axes, width: int, node: Node, per: int = 1, left: View | None = None
) -> Panels:
    """Return the part of the kernel that `axes` use, in panels; `w` is (group, channel, inner, Z, Y, X).

    Panels that are seldom wanted are packed where one of the words `left` is not 0, and not kept.
    """
    if left is not None:
        return _packed(low, w, axes, width, node, per, left)
    taken = tuple((a.taps, a.tap, a.tap_step) for a in axes)
    fill = partial(_packed, low, w, axes, width, node, per)
    # A loop would pack a constant anew in every turn.
    found: Panels = low.packed(w, (taken, width, per), fill) if low.is_free_to_pack(w) else fill()
    return found


def _packed(low: Lowering, w: View, axes: Axes, width: int, node: Node, per: int, left: View | None = None) -> Panels:
    """Add the step that packs a kernel, and return the panels."""
    groups, channels, depth = w.shape[:3]
    panels = -(-channels // width)
    out = low.temp((groups * panels, axes.taps, -(-depth // per) * per, width), w.dtype)
    taps = {f"taps_{n}": a.taps for n, a in zip("zyx", axes)}
    offset = w.offset
    strides = {}
    for name, axis, stride in zip("zyx", axes, w.strides[3:]):
        offset += axis.tap * stride
        strides[name] = axis.tap_step * stride
    words = _PACK.words(
        w=w._replace(offset=offset),
        panels=out,
        group=w.strides[0],
        channel=w.strides[1],
        inner=w.strides[2],
        per_panel=panels,
        channels=channels,
        depth=depth,
        **taps,
        **strides,
    )
    if not out.size:
        return Panels(out)
    type, units = w.type, groups * panels * axes.taps
    found = low.temp((units,), np.int64) if per == 2 else None
    key, again = f"conv.pack {type.text} {width} {per}", left is not None
    asked: list[int | View] = [] if found is None else [found]
    asked += [] if left is None else [left, left.size]
    low.step(
        low.kernel(f"{key}{' again' if again else ''}", lambda b: _pack(b, type, width, per, again)),
        [*words, *asked],
        reads=[w] if left is None else [w, left],
        writes=[out] if found is None else [out, found],
        units=units,
        nbytes=0 if again else None,
        nodes=[node],
        label=f"conv.pack{', if not finite' if again else ''}",
    )
    return Panels(out, found)


_CORRELATE = Record(
    # The images, and bytes from output to output in them.
    fields("x") + " *panels step_y step_x "
    # The order of summation: runs of taps, elements of each; panels, those of a group; a group's channels.
    "runs run panels_all panels_each group_in group_out "
    # The panels of a piece, those that a tile takes at once; the images, times planes, times pieces of a plane.
    "panels_piece panels_tile places "
    # The outputs: planes, tiles along y and x, tiles of a piece, pieces of a plane; their rows in the result.
    "planes tiles_y larger_y tiles_x larger_x tiles_piece pieces row row_n row_z row_y row_x"
)


class Shape(NamedTuple):
    """The structure of a correlation kernel: all that its code depends on, besides the epilogue."""

    arithmetic: Arithmetic
    held: Held
    layout: str  # of the images, or "direct" where nothing is copied
    rows: int
    columns: int
    nv: int
    is_even: bool
    # By another step: words say what it left, and where they are all 0 there is nothing to do.
    may_be_done: bool = False

    @property
    def larger(self) -> int:
        """The tile's size along the axis on which some tiles are smaller by one."""
        return self.rows if self.rows > 1 else self.columns

    @property
    def key(self) -> str:
        less = "" if self.is_even else " or less"
        kinds = f"{self.arithmetic.key}; {self.held.key} {self.layout}"
        again = " again" if self.may_be_done else ""
        return f"conv {kinds} {self.rows}x{self.columns}x{self.nv}{less}{again}"


def _correlate(b: Builder, shape: Shape, finish: Finish) -> None:
    r = _CORRELATE.load(b)
    arithmetic, held = shape.arithmetic, shape.held
    width = shape.nv * b.target.lanes(arithmetic.type)
    store = Store(b, finish, _CORRELATE.end, arithmetic.type, shape.rows, shape.columns, shape.nv)
    one, at = b.index(1), _CORRELATE.end + finish.size
    # Pairs: the kernel's smallest numbers; memory for sums that are taken carefully.
    of_weights = sums = None
    if arithmetic.how == "pairs":
        of_weights = smallest_of_words(b, b.buffer(at), b.word(at + 2))
        sums = b.local(arithmetic.type, shape.rows * shape.columns * width)
        at += 3
    end = b.hi
    if shape.may_be_done:
        end = _unless_done(b, at)
        at += 3
    runs = Runs(r["runs"], r["run"], at)
    panel = b.mul(b.mul(r["runs"], r["run"]), b.index(width * arithmetic.per))
    with b.loop(b.lo, end) as unit:
        # Neighbouring pieces of work read the same panels.
        panels, place = b.udiv(unit.index, r["places"]), b.urem(unit.index, r["places"])
        t, piece = b.udiv(place, r["pieces"]), b.urem(place, r["pieces"])
        n, plane = b.udiv(t, r["planes"]), b.urem(t, r["planes"])
        first = b.mul(piece, r["tiles_piece"])
        last = b.imin(b.add(first, r["tiles_piece"]), r["tiles_y"])
        y0 = tile_start(b, first, shape.rows, r["larger_y"])
        part = Part(n, one, plane, y0, b.sub(tile_start(b, last, shape.rows, r["larger_y"]), y0))
        region = placed(b, held, shape.layout, "x", r, part, b.scratch())
        careful = None
        if of_weights is not None and sums is not None and region.smallest is not None:
            careful = Careful(may_be_denormal(b, region.smallest, of_weights), sums)
        row_n = b.add(b.add(r["row"], b.mul(n, r["row_n"])), b.mul(plane, r["row_z"]))
        from_panel = b.mul(panels, r["panels_piece"])
        to_panel = b.imin(b.add(from_panel, r["panels_piece"]), r["panels_all"])
        # The panel after a piece's last one: the next piece's first.
        next_first = b.select(b.icmp("eq", r["places"], one), to_panel, from_panel)

        def tile(number: Value, ty: Value, tx: Value, careful: Careful | None = careful) -> None:
            group, block = b.udiv(number, r["panels_each"]), b.urem(number, r["panels_each"])
            weights = b.offset(r["panels"], b.mul(number, panel), arithmetic.b)
            inputs = b.offset(region.at, b.mul(group, r["group_in"]), held.type)
            skipped = b.mul(block, b.index(width))
            channel = b.add(b.mul(group, r["group_out"]), skipped)
            y = tile_start(b, ty, shape.rows, r["larger_y"])
            x = tile_start(b, tx, shape.columns, r["larger_x"])
            base = b.offset(inputs, b.add(b.mul(b.sub(y, y0), r["step_y"]), b.mul(x, r["step_x"])), I8)
            row = b.add(b.add(row_n, b.mul(y, r["row_y"])), b.mul(x, r["row_x"]))
            along, larger = (ty, r["larger_y"]) if shape.rows > 1 else (tx, r["larger_x"])
            spot = Spot(row, r["row_y"], r["row_x"], channel, b.sub(r["group_out"], skipped))
            # Each of the first tiles asks for a vector of every step of the following panel.
            turn = b.add(b.mul(b.sub(ty, first), r["tiles_x"]), tx)
            following = b.add(number, one)
            following = b.select(b.icmp("slt", following, to_panel), following, next_first)
            asked = b.offset(r["panels"], b.mul(following, panel), arithmetic.b)
            part = b.mul(b.imin(turn, b.index(shape.nv - 1)), b.index(width // shape.nv * arithmetic.per))
            ahead = b.offset(asked, part, arithmetic.b)

            def body(size: int) -> None:
                rows, columns = (size, shape.columns) if shape.rows > 1 else (1, size)
                taken = Rows(base, rows, columns, r["step_y"], r["step_x"])
                store.sums(_sums(b, shape, taken, weights, runs, ahead, careful), rows, columns, spot)

            sizes_of(b, shape.larger, along, larger, shape.is_even, body)
            rows = b.sub(tile_start(b, b.add(ty, one), shape.rows, r["larger_y"]), y)
            columns = b.sub(tile_start(b, b.add(tx, one), shape.columns, r["larger_x"]), x)
            store.rest(rows, columns, spot)

        with b.loop(from_panel, to_panel, r["panels_tile"]) as some:
            end = b.imin(b.add(some.index, r["panels_tile"]), to_panel)
            with b.loop(first, last) as ty, b.loop(0, r["tiles_x"]) as tx, b.loop(some.index, end) as each:
                tile(each.index, ty.index, tx.index)


class Runs(NamedTuple):
    """The taps of a sum: `number` runs of `length` steps over inputs that lie together.

    Their offsets are words of the record.
    """

    number: Value
    length: Value
    at: int


class Careful(NamedTuple):
    """The answer whether a sum could be denormal, so that multiply-adds take it; memory for a tile of such sums."""

    wanted: Value
    sums: Value


def _sums(
    b: Builder, shape: Shape, taken: Rows, weights: Value, runs: Runs, ahead: Value, careful: Careful | None
) -> Sequence[Value]:
    """Return the products of a tile, summed over all taps: its rows, columns and vectors of channels.

    Meanwhile a vector of every step of another panel, `ahead`, is prefetched.
    """
    added = lambda: _added(b, shape.arithmetic, shape.nv, taken, weights, runs, ahead)
    if careful is None:
        return added()
    return b.either(careful.wanted, lambda: _carefully(b, shape, taken, weights, runs, careful.sums), added)


def _added(
    b: Builder, arithmetic: Arithmetic, nv: int, taken: Rows, weights: Value, runs: Runs, ahead: Value
) -> Sequence[Value]:
    type, lanes = arithmetic.type, b.target.lanes(arithmetic.type)
    start = zero_sums(b, type, taken.rows * taken.columns * nv)
    table = b.offset(b.rec, runs.at, I64)
    pointers = taken.pointers(b)
    per = arithmetic.per
    with b.loop(0, runs.number, carried=[weights, ahead, *start]) as run:
        away = b.load(I64, b.offset(table, run.index, I64))
        begin = [b.offset(p, away, I8) for p in pointers]
        with b.loop(0, runs.length, carried=[*begin, *run.values]) as loop:
            at, (w, asked, *sums) = loop.values[: len(begin)], loop.values[len(begin) :]
            places = [b.offset(w, lanes * j * per, arithmetic.b) for j in range(nv)]
            others = [arithmetic.columns(b, p, lanes, None) for p in places]
            b.prefetch(asked, level=2)
            sums = products(b, arithmetic, taken.numbers(b, arithmetic, at), others, sums)
            on = [b.offset(p, nv * lanes * per, arithmetic.b) for p in (w, asked)]
            loop.carry(*(b.offset(p, per, arithmetic.a) for p in at), *on, *sums)
        run.carry(*loop.results[len(begin) :])
    return run.results[2:]


def _carefully(b: Builder, shape: Shape, taken: Rows, weights: Value, runs: Runs, memory: Value) -> list[Value]:
    """Return what `_added` does, with pairs widened: few columns at a time, as it is seldom that this runs."""
    arithmetic, nv = shape.arithmetic, shape.nv
    widened, lanes = arithmetic._replace(how="widened"), b.target.lanes(arithmetic.type)
    few = 2 - taken.columns % 2
    with b.loop(0, taken.rows) as y, b.loop(0, taken.columns, few) as x:
        base = b.offset(b.offset(taken.base, b.mul(y.index, taken.row_step), I8), b.mul(x.index, taken.column_step), I8)
        sums = _added(b, widened, nv, taken._replace(base=base, rows=1, columns=few), weights, runs, weights)
        first = b.mul(b.add(b.mul(y.index, b.index(taken.columns)), x.index), b.index(nv * lanes))
        for i, total in enumerate(sums):
            b.store(total, b.offset(memory, b.add(first, b.index(i * lanes)), arithmetic.type))
    count = taken.rows * taken.columns * nv
    vector = arithmetic.type.vector(lanes)
    return [b.load(vector, b.offset(memory, i * lanes, arithmetic.type)) for i in range(count)]


def correlate(low: Lowering, x: View, w: View, axes: Axes, epilogue: Epilogue, size: Sequence[int], node: Node) -> None:
    """Add the steps of one correlation.

    `x` is (N, C, Z, Y, X), `w` (group, channel, inner, Z, Y, X) of the whole kernel. The product's
    rows, in the epilogue's arrays, are the elements of a result of N images of `size` (Z, Y, X), of
    which `axes` say which ones are computed; its columns are the channels of all groups.
    """
    target, type = low.target, compute_type(x.dtype)
    assert type is not None
    groups, channels, depth = w.shape[:3]
    count = x.shape[0]
    if not count * channels * groups * prod(axes.outputs):
        return
    if is_depthwise(w):
        width = block_width(target.lanes(type), groups)
        depthwise(low, x, packed(low, side_by_side(w), axes, width, node).view, axes, epilogue, size, node)
        return
    # Words, of which one is not 0 where there is anything left to do.
    left = winograd(low, x, w, axes, epilogue, size, node) if is_winograd(low, x, w, axes) else None
    if depth <= PLANES and groups == 1 and axes.z == POINT and layout_of(x) == "planes":
        x, w, axes = _as_planes(x, w, axes)
        depth = 1
    nv = vectors(target, type, channels)
    arithmetic, held = Arithmetic(type, type, w.type), Held(x.type, type)
    # A lone channel would have a 0 beside it, and pairs of groups could not begin anywhere; a phase may have no taps.
    if takes_pairs(target, x.type, w.type) and axes.taps and depth > 1 and (groups == 1 or depth % 2 == 0):
        arithmetic, held = PAIRS, Held(x.type, I16, "channels")
    panels, smallest = packed(low, w, axes, nv * target.lanes(type), node, arithmetic.per, left)
    depth_held = panels.shape[2]
    rows = most_rows(target, nv) if left is None else SELDOM_ROWS
    tiles_y, tiles_x = split_two(axes.y.outputs, axes.x.outputs, rows)
    per_piece, panels_piece = _shares(x, axes, tiles_y, panels, held.elements(x.shape[1]) * held.type.size)
    source = reading("x", x, axes, min(per_piece * tiles_y.tile, axes.y.outputs), held)
    offsets, run = tap_runs(axes, source.strides, groups, depth_held)
    pieces = -(-tiles_y.tiles // per_piece)
    places = count * axes.z.outputs * pieces
    varying = tiles_y if tiles_y.tile > 1 else tiles_x
    tile = (tiles_y.tile, tiles_x.tile, nv, varying.is_even)
    shape = Shape(arithmetic, held, source.layout, *tile, may_be_done=left is not None)
    given = _CORRELATE.words(
        **source.words,
        panels=panels,
        step_y=axes.y.stride * source.strides[1] * held.type.size,
        step_x=axes.x.stride * source.strides[2] * held.type.size,
        runs=len(offsets),
        run=run // arithmetic.per,
        panels_all=panels.shape[0],
        panels_each=panels.shape[0] // groups,
        group_in=depth,
        group_out=channels,
        panels_piece=panels_piece,
        panels_tile=max(1, min(panels_piece, TILE_BYTES // max(1, prod(panels.shape[1:]) * type.size))),
        places=places,
        planes=axes.z.outputs,
        tiles_y=tiles_y.tiles,
        larger_y=tiles_y.larger,
        tiles_x=tiles_x.tiles,
        larger_x=tiles_x.larger,
        tiles_piece=per_piece,
        pieces=pieces,
        row=(axes.z.start * size[1] + axes.y.start) * size[2] + axes.x.start,
        row_n=prod(size),
        row_z=axes.z.step * size[1] * size[2],
        row_y=axes.y.step * size[2],
        row_x=axes.x.step,
    )
    finish = Finish(epilogue, 0)
    watched = [words for words in (smallest, left) if words is not None]
    asked: list[int | View] = [word for words in watched for word in (words, words.size)]
    low.step(
        low.kernel(f"{shape.key} {finish.key}", lambda b: _correlate(b, shape, finish)),
        [*given, *finish.words(), *asked, *(o * held.type.size for o in offsets)],
        reads=[x, panels, *watched, *epilogue.operands],
        writes=epilogue.outputs,
        units=places * -(-panels.shape[0] // panels_piece),
        scratch=source.nbytes,
        flops=2.0 * count * prod(axes.outputs) * axes.taps * depth * groups * channels if left is None else 0.0,
        nbytes=None if left is None else 0,
        nodes=[node, *epilogue.nodes],
        label=f"{node.op.name} {shape.rows}x{shape.columns}x{nv}{'' if left is None else ', if not finite'}",
    )


def _as_planes(x: View, w: View, axes: Axes) -> tuple[View, View, Axes]:
    """Return images of few channels, each of which lies by itself, as one channel of as many planes."""

    def moved(v: View, at: int) -> View:
        return v.permute([*range(at), at + 1, at, *range(at + 2, len(v.shape))])

    count = x.shape[1]
    return moved(x, 1), moved(w, 2), axes._replace(z=POINT._replace(size=count, taps=count))


def _shares(x: View, axes: Axes, tiles_y: Split, panels: View, pixel: int) -> tuple[int, int]:
    """Return how many rows of tiles, and how many panels, make a piece of work; a copy has `pixel` bytes of each pixel.

    It reads what the cache keeps, and all threads get some.
    """
    line = axes.z.span(1) * axes.x.span(axes.x.outputs) * pixel
    most = tiles_y.tiles
    while most > 1 and axes.y.span(most * tiles_y.tile) * line > REGION_BYTES:
        most = -(-most // 2)
    pieces = -(-tiles_y.tiles // most)
    planes, kept = x.shape[0] * axes.z.outputs, panels.shape[0]
    if panels.size * panels.type.size <= KERNEL_BYTES:
        pieces = max(pieces, min(tiles_y.tiles, -(-PIECES // planes)))
    else:
        of_cache = max(LEAST_PANELS, KERNEL_BYTES * kept // (panels.size * panels.type.size))
        kept = min(kept, of_cache, max(LEAST_PANELS, kept // -(-PIECES // (planes * pieces))))
    return -(-tiles_y.tiles // pieces), kept
