"""The planning of a matrix product: its blocking, its packing, its steps.

What decides is measured: B is read from where it lies if its columns are side by side, unless many
rows read it and it lies on many pages; otherwise it is packed, as a step of its own. A is packed where
each step along its inner axis lies on a page of its own, or where its lines would push each other out
of the cache. A constant B is packed always, once for all calls. Small products are one step and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .....core.node import Node
from ...codegen.types import F32, Type, storage_type
from ...plan.lowering import Epilogue, Lowering
from ...plan.plan import View
from .arithmetic import PAIRS, Arithmetic, takes_pairs
from .dots import dots, is_dots
from .finish import Finish
from .magnitudes import lines_of, smallest_numbers
from .matvec import row_product, turned
from .micro import Layout, Product, Widened
from .pack import order_of, pack
from .tiles import heights, is_masked, panel_width, share_rows

# Bytes of one program's part of the last-level cache: all of A is read again for every few panels of B, where it stays
# there; a larger one than that, and than B, is read once, block of rows by block of rows.
LAST_CACHE = 1 << 23
# Bytes of the second-level cache; of A that one unit reads again for every panel: panels and results pass beside it.
CACHE = 1 << 20
BLOCK_BYTES = CACHE // 4
# An inner axis longer than this is taken in slabs of at most so many steps, by units of at most so many panels.
LONGEST, SLAB, SLAB_PANELS = 3072, 1024, 8
# A unit does at least this much, so that handing it out costs little beside it.
UNIT_FLOPS = 1e5
# Big products are cut to at least so many units, for threads to share; packed panels to so many shares.
UNITS = 16
SHARES = 8
# Addresses that agree in their last 12 bits share a set of the first-level cache, which holds so many of them. That is
# a page's size, too: what is read ahead ends with it, and addresses of so many pages are known at once.
PAGE = 4096
WAYS = 12
KNOWN_PAGES = 64
# An operand on so many pages is packed if so many rows of A, or columns of B, read it.
B_PAGES, B_ROWS = KNOWN_PAGES // 4, 112
A_PAGES, A_COLUMNS = KNOWN_PAGES, 64
# An operand that is packed is read at least for so many columns or rows of the other: the cost is a few percent then.
REUSE = 256
# Its ways, the bytes of one, whose multiples share a set, and the bytes of a line.
CACHE_WAYS, LINE = 16, 64
WAY_BYTES = CACHE // CACHE_WAYS
# A panel of B that is longer than the cache is packed if so many rows read it, about five tiles.
TILE_REUSE = 64
# One whose lines push each other out of the cache is packed if so many tiles read it.
CLASH_TILES = 5
# Pairs have to be packed: so many rows of A are worth it.
PAIRS_ROWS = 6
# A unit that widens its rows of A uses them for so many panels of B.
WIDENED_PANELS = 16


def compute_type(dtype: np.dtype[Any]) -> Type | None:
    """Return the type in which products of a dtype are summed; None where there is no kernel."""
    type = storage_type(dtype)
    if type is None or (not type.is_float and type.bits < 32):
        return None
    return F32 if type.bits == 16 else type


class Blocks(NamedTuple):
    """A division of tiles and panels into units."""

    tiles: int
    panels: int
    row_blocks: int
    column_blocks: int
    row_turn: int
    column_turn: int


def product(
    low: Lowering, x: View, y: View, epilogue: Epilogue, nodes: Sequence[Node] = (), *, is_outer: bool = False
) -> None:
    """Add the steps of x @ y, of shapes (batch..., m, k) and (batch..., k, n), and of what follows it.

    Sums begin at 0, so that none is -0, except with `is_outer`, where each is one product and nothing is added.
    """
    type = compute_type(x.dtype)
    assert type is not None
    assert type == compute_type(y.dtype)
    *batch, rows, _ = x.shape
    columns = y.shape[-1]
    if not math.prod((*batch, rows, columns)):
        return
    if rows == 1 and not is_outer:
        row_product(low, x, y, type, epilogue, nodes)
        return
    if columns == 1 and not is_outer and (row := turned(epilogue)) is not None:
        axes = (*range(len(batch)), -1, -2)
        row_product(low, y.permute(axes), x.permute(axes), type, row, nodes)
        return
    if not is_outer and is_dots(low, x, y, type):
        dots(low, x, y, type, Finish(epilogue, len(batch)), nodes)
        return
    _gemm(low, x, y, type, epilogue, nodes, is_outer)


def _gemm(
    low: Lowering, x: View, y: View, type: Type, epilogue: Epilogue, nodes: Sequence[Node], is_outer: bool
) -> None:
    """Add the step of one product of matrices, and those of packing before it."""
    *batch, rows, inner = x.shape
    columns = y.shape[-1]
    finish = Finish(epilogue, len(batch))
    target = low.target
    width = panel_width(target, type)
    panels = -(-columns // width)
    kinds, counts = heights(target), share_rows(rows, target)
    is_often_read = rows >= PAIRS_ROWS or low.is_free_to_pack(y)
    by_pairs = takes_pairs(target, x.type, y.type) and is_often_read and inner > 0 and not is_outer
    arithmetic = PAIRS if by_pairs else Arithmetic(type, type, y.type)
    per, steps = arithmetic.per, -(-inner // arithmetic.per)
    widened = Widened(x.type, order_of(x)) if not by_pairs and x.type != type else None
    a, a_smallest, a_place, a_row, a_inner = _left(low, x, arithmetic, columns)
    across = (*range(len(batch)), -1, -2)
    is_in_place = y.strides[-1] == 1 or columns <= 1
    b_smallest = None
    if by_pairs or not is_in_place or low.is_free_to_pack(y) or _is_packed(y, rows, width, kinds[0]):
        b, b_smallest = pack(low, y.permute(across), y.type, (width,), (panels,), per)
        b_panel, b_inner = width * steps * per, width * per
        tail, tail_inner = b._replace(offset=(panels - 1) * b_panel), b_inner
        tail_strides = b.strides[:-1]
    else:
        b, b_panel, b_inner = y, width, y.strides[-2]
        tail, tail_inner, tail_strides = y, b_inner, y.strides[:-2]
        if not is_masked(target) and columns % width:
            last = _cut(y, -1, (panels - 1) * width, columns)
            tail = pack(low, last.permute(across), y.type, (width,), (1,)).view
            tail_inner, tail_strides = width, tail.strides[:-1]
    slabs = -(-steps // SLAB) if steps > LONGEST else 1
    slab = -(-steps // slabs)
    tile_bytes, tile_flops = kinds[0] * slab * type.size, 2.0 * kinds[0] * width * inner
    most = SLAB_PANELS if slabs > 1 else panels
    left, right = (n * steps * type.size for n in (rows, columns))
    by_columns = b is not y and left <= max(right, LAST_CACHE)
    least = WIDENED_PANELS if widened else 1
    blocks = _blocks(sum(counts), panels, tile_bytes, tile_flops, math.prod(batch), by_columns, (least, most))
    b_strides = b.strides[: len(batch)]
    layout = Layout(len(kinds), len(batch))
    words = [
        *(a, b, tail, steps, columns, panels),
        *(a_place, a_row, b_panel, b_inner, tail_inner),
        *blocks,
        *(-1 << (type.bits - 1) if is_outer and type.is_float else 0, slab, slabs),
        *counts,
        *a_inner,
        *(n for axis in zip(batch, a.strides, b_strides, tail_strides) for n in axis),
        *finish.words(),
    ]
    smallest = [view for view in (a_smallest, b_smallest) if view is not None]
    words += [word for view in smallest for word in (view, view.size)]
    scratch = blocks.tiles * blocks.panels * kinds[0] * width * type.size if slabs > 1 else 0
    ways = {"in_slabs": slabs > 1, "ends_early": b is y and is_masked(target) and columns % target.lanes(type) != 0}
    key = (
        f"gemm {arithmetic.key} {layout.batch_axes} {finish.key} {finish.ahead} {' '.join(w for w in ways if ways[w])}"
    )
    if widened:
        words.append(x.strides[-1])
        scratch += blocks.tiles * kinds[0] * slab * type.size
        key = f"{key} widens {widened.type.text} {widened.how}"
    low.step(
        low.kernel(key, lambda builder: Product(builder, arithmetic, finish, widened=widened, **ways).write()),
        words,
        reads=[a, b, tail, *smallest, *epilogue.operands],
        writes=epilogue.outputs,
        units=blocks.row_blocks * blocks.column_blocks * math.prod(batch),
        grain=max(1, int(UNIT_FLOPS / (1 + 2.0 * rows * columns * inner / (blocks.row_blocks * blocks.column_blocks)))),
        scratch=scratch,
        flops=2.0 * math.prod((*batch, rows, columns, inner)),
        nodes=(*nodes, *epilogue.nodes),
        label=f"gemm {'x'.join(map(str, (*batch, rows, columns, inner)))}",
    )


def _left(
    low: Lowering, x: View, arithmetic: Arithmetic, columns: int
) -> tuple[View, View | None, int, int, list[int]]:
    """Return A as the kernel reads it: where, the words about its smallest numbers (of pairs), its strides from tile to
    tile, row to row, and along the inner axis.

    It is packed where it is read often, and lies on many pages or its lines fall on few sets of the cache. Where units
    widen it the strides are those of their panels, but for that of its rows.
    """
    kinds = heights(low.target)
    inner = x.shape[-1]
    row_stride, inner_stride = x.strides[-2:]
    if arithmetic.per == 1 and x.type != arithmetic.a:
        return x, None, row_stride, 1, list(kinds)
    clash = columns >= REUSE and (_clashes(x, -2) or _clashes(x, -1))
    far = columns >= A_COLUMNS and inner_stride != 1 and _pages(x, -1) >= A_PAGES
    per = arithmetic.per
    # Pairs lie side by side: all of them, for what is read beyond the last one may be no number.
    fits = x.type == arithmetic.a and (per == 1 or (inner % per == 0 and lines_of(x) is not None))
    if fits and not (clash or far):
        smallest = smallest_numbers(low, x) if per > 1 else None
        return x, smallest, row_stride, row_stride, [inner_stride * per] * len(kinds)
    packed, smallest = pack(low, x, arithmetic.a, kinds, share_rows(x.shape[-2], low.target), per)
    return packed, smallest, -(-inner // per) * per, per, [h * per for h in kinds]


def _is_packed(y: View, rows: int, width: int, height: int) -> bool:
    """Return whether B is packed: it does not stay in the cache between readings, and is read often enough.

    All of it is read again by every block of rows, a panel of it by every tile.
    """
    inner, stride = y.shape[-2], abs(y.strides[-2]) * y.type.size
    if rows >= TILE_REUSE and inner * width * y.type.size >= CACHE // 4:
        return True
    places = WAY_BYTES // min(WAY_BYTES, max(LINE, stride & -stride))
    clash = stride != 0 and inner > places * CACHE_WAYS // 2
    return (clash and rows >= CLASH_TILES * height) or (rows >= B_ROWS and _pages(y, -2) >= B_PAGES)


def _pages(x: View, axis: int) -> int:
    """Return on about how many pages the elements along an axis lie."""
    return x.shape[axis] * min(PAGE, abs(x.strides[axis]) * x.type.size) // PAGE


def _clashes(x: View, axis: int) -> bool:
    """Return whether steps along an axis fall on the same set of the first-level cache, and are more than it holds."""
    stride = x.strides[axis]
    return x.shape[axis] > WAYS and stride != 0 and stride * x.type.size % PAGE == 0


def _cut(x: View, axis: int, start: int, stop: int) -> View:
    """Return the elements from `start` to `stop` along an axis."""
    shape = list(x.shape)
    shape[axis] = stop - start
    return x._replace(shape=tuple(shape), offset=x.offset + start * x.strides[axis])


def _blocks(
    tiles: int,
    panels: int,
    tile_bytes: int,
    tile_flops: float,
    batch: int,
    columns_by_thread: bool,
    limits: tuple[int, int],
) -> Blocks:
    """Return units of a panel and as many tiles as the cache keeps: more panels for little work, fewer tiles for few
    units. `limits` are the least panels of a unit, where there are so many, and the most.

    Threads have contiguous shares of the units. They share out the rows, or with `columns_by_thread` the columns,
    whose panels are then in the cache of the one thread that packs and reads them; units are of several panels then.
    """
    height = min(tiles, max(1, BLOCK_BYTES // max(1, tile_bytes)))
    height = -(-tiles // -(-tiles // height))
    while height > 1 and batch * panels * -(-tiles // height) < UNITS and height * tile_flops > 2 * UNIT_FLOPS:
        height = -(-height // 2)
    least, most = limits
    least = max(1, min(least, batch * panels * -(-tiles // height) // UNITS))
    width = min(panels, max(least, int(UNIT_FLOPS / (height * tile_flops + 1))))
    if columns_by_thread:
        width = max(width, panels // SHARES)
    width = min(width, most)
    row_blocks, column_blocks = -(-tiles // height), -(-panels // width)
    turns = (1, row_blocks) if columns_by_thread else (column_blocks, 1)
    return Blocks(height, width, row_blocks, column_blocks, *turns)
