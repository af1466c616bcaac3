"""Lowerings of attention: the operands of its two kernels, and the division of their work.

Both follow FlashAttention (Dao et al. 2022, arXiv:2205.14135; Dao 2023, arXiv:2307.08691): keys come in
blocks, and scores never leave the cache. Here vectors run along queries, so that maxima and sums over
keys are of whole vectors, and keys and values are read where they lie.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from .....core.node import Node
from ...codegen.types import Type
from ...codegen.walk import axis_words
from ...plan.lowering import Lowering, lowers
from ...plan.plan import Buffer, View
from ..copies import joined
from ..gemm.plan import compute_type
from ..gemm.tiles import numpy_dtype
from . import backward as backward
from . import forward as forward
from .form import Form, MaskKind, Scratch, bits_of, padded
from .tiles import Tile, tile_for

# At least so many units are wanted of the backward, where there are keys enough.
UNITS = 32


@lowers("attention")
def attention(lowering: Lowering, node: Node) -> tuple[View, ...] | None:
    """Lower the forward pass: a unit is a group of queries of one head."""
    arguments = [lowering.view(e) for e in node.inputs]
    type = _type(arguments)
    if type is None:
        return None
    q, k, v, *mask = arguments
    q, k, v = _adjacent(lowering, q), *_keys(lowering, type, k, v)
    *lead, m, d = q.shape
    n, e = v.shape[-2:]
    out = _in_the_order_of(q, e)
    lse = lowering.temp((*lead, m), numpy_dtype(type))
    if lse.size == 0:
        return out, lse
    tile = tile_for(lowering.target, type)
    group, width, lines = tile.group, padded(d, tile.group), padded(e, max(tile.rows, tile.lanes))
    scratch = Scratch(type.size)
    scratch.add(rows=group * max(width, lines), turned=group * width)
    scratch.add(scores=padded(forward.KEYS, tile.rows) * group, sums=group * lines)
    widths = _blocks(scratch, tile, k, v, forward.KEYS)
    views = dict(zip(forward.ARRAYS, (q, k, v, out, _column(lse)), strict=True))
    _add_step(
        lowering,
        node,
        tile,
        views,
        mask,
        forward,
        forward.build_forward,
        {"m": m, "n": n, "d": d, "e": e, "width": width, "lines": lines, **widths},
        scratch,
        parts=-(-m // group),
        moves={"q": group, "y": group, "lse": group, "mask": group},
        writes=[out, lse],
        flops=2.0 * (d + e),
    )
    return out, lse


@lowers("attention_gradients")
def attention_gradients(lowering: Lowering, node: Node) -> tuple[View, ...] | None:
    """Lower the backward pass: a unit is a chunk of the keys of one head, or all where there are heads enough."""
    arguments = [lowering.view(e) for e in node.inputs]
    type = _type(arguments)
    if type is None:
        return None
    q, k, v, y, lse, dy, *mask = arguments
    q, y, dy = (_adjacent(lowering, x) for x in (q, y, dy))
    k, v = _keys(lowering, type, k, v)
    m, d = q.shape[-2:]
    n, e = v.shape[-2:]
    dq, dk, dv = _in_the_order_of(q, d), _in_the_order_of(k, d), _in_the_order_of(v, e)
    if dq.size == dk.size == dv.size == 0:
        return dq, dk, dv
    tile = tile_for(lowering.target, type)
    group, block = tile.group, backward.BLOCK_GROUPS * tile.group
    chunk = _chunk(math.prod(q.shape[:-2]), n, block)
    count = max(1, -(-n // chunk))
    width_d, width_e, lines = padded(d, group), padded(e, group), padded(d, max(tile.rows, tile.lanes))
    scratch = Scratch(type.size)
    scratch.add(q_rows=block * max(width_d, lines), q_turned=block * width_d)
    scratch.add(dy_rows=block * width_e, dy_turned=block * width_e, levels=block, deltas=block)
    scratch.add(weights=padded(backward.KEYS, tile.rows) * block, slopes=padded(backward.KEYS, tile.rows) * block)
    keys = padded(min(n, chunk), tile.rows)
    scratch.add(dq_sums=block * lines, dk_sums=keys * width_d, dv_sums=keys * width_e)
    widths = _blocks(scratch, tile, k, v, backward.KEYS)
    parts = dq
    if count > 1:
        parts = dq._replace(buffer=Buffer("temp", count * dq.size * type.size), dtype=numpy_dtype(type))
    views = dict(zip(backward.ARRAYS, (q, k, v, y, _column(lse), dy, parts, dk, dv), strict=True))
    _add_step(
        lowering,
        node,
        tile,
        views,
        mask,
        backward,
        backward.build_backward,
        {
            "m": m,
            "n": n,
            "d": d,
            "e": e,
            "chunk": chunk,
            "width_d": width_d,
            "width_e": width_e,
            "lines_d": lines,
            **widths,
        },
        scratch,
        parts=count,
        moves={},
        part_of=("dq", dq.size),
        writes=[parts, dk, dv],
        flops=6.0 * d + 4.0 * e,
    )
    if count > 1 and dq.size:
        lowering.step(
            lowering.kernel(
                f"sum of parts {type.mangled} {dq.type.mangled}", partial(backward.build_sum, tile, dq.type)
            ),
            backward.SUM.words(parts=parts, sum=dq, size=dq.size, count=count),
            reads=[parts],
            writes=[dq],
            units=-(-dq.size // backward.SUMMED),
            flops=float(count * dq.size),
            nodes=(node,),
            label="attention_gradients: sum",
        )
    return dq, dk, dv


def _chunk(heads: int, n: int, block: int) -> int:
    """Return the number of keys of a unit: all of a head's, or less where there are few heads to share out.

    It depends on nothing but the shape, so that results do not depend on the number of threads.
    """
    pieces = max(1, UNITS // max(heads, 1))
    return max(padded(-(-n // pieces), block), 2 * block)


def _add_step(
    lowering: Lowering,
    node: Node,
    tile: Tile,
    views: dict[str, View],
    mask: list[View],
    kernel: Any,
    build: Any,
    sizes: dict[str, int],
    scratch: Scratch,
    *,
    parts: int,
    moves: dict[str, int],
    writes: list[View],
    flops: float,
    part_of: tuple[str, int] | None = None,
) -> None:
    """Add the step of a kernel, whose units are `parts` of every leading position.

    From part to part an array moves by as many rows as `moves` says; `part_of` names one that has a copy
    for every part, and their distance.
    """
    m, n = sizes["m"], sizes["n"]
    if mask:
        views = {**views, "mask": mask[0]}
    kind: MaskKind = "none" if not mask else "shared" if m == 1 or mask[0].strides[-2] == 0 else "full"
    lead = views["q"].shape[:-2]
    shape, strides = joined(lead, *(v.strides[:-2] for v in views.values()))
    stored = tuple(v.type for v in views.values())
    form = Form(tile, node.attrs["causal"], kind, len(shape), kernel.ARRAYS, stored, kernel.SIZES, kernel.PIECES)
    steps = {name: moves.get(name, 0) * v.strides[-2] for name, v in views.items()}
    if part_of is not None:
        steps[part_of[0]] = part_of[1]
    shape, strides = [*shape, parts], [[*s, step] for s, step in zip(strides, steps.values(), strict=True)]
    arrays: dict[str, int | View] = {}
    for name, v in views.items():
        arrays |= {name: v, f"{name}_row": v.strides[-2], f"{name}_column": v.strides[-1]}
    words = form.record.words(**arrays, **sizes, **scratch.places, scale=bits_of(node.attrs["scale"]))
    work = flops * math.prod(lead) * m * n
    lowering.step(
        lowering.kernel(form.key(node.op.name), partial(build, form)),
        [*words, *axis_words(shape, *strides)],
        reads=[v for v in views.values() if v not in writes],
        writes=writes,
        units=math.prod(shape),
        scratch=scratch.total,
        flops=work / 2 if form.causal else work,
        nodes=(node,),
        label=node.op.name,
    )


def _type(arguments: list[View]) -> Type | None:
    """Return the floats that kernels compute in; None for others, and for arguments of several such types."""
    types = {compute_type(x.dtype) for x in arguments}
    found = types.pop()
    return found if not types and found is not None and found.is_float else None


def _keys(lowering: Lowering, type: Type, *arrays: View) -> list[View]:
    """Return keys and values as kernels read them: number by number, or by vectors where they are to be widened."""
    return [x if x.type == type else _adjacent(lowering, x) for x in arrays]


def _blocks(scratch: Scratch, tile: Tile, k: View, v: View, keys: int) -> dict[str, int]:
    """Add memory for blocks of keys and values that are to be widened; return the widths of their rows."""
    widths = {}
    for name, x in (("k", k), ("v", v)):
        width = padded(x.shape[-1], tile.lanes) if x.type != tile.type.scalar else 0
        scratch.add(**{f"{name}_block": padded(min(keys, x.shape[-2]), tile.rows) * width})
        widths[f"{name}_width"] = width
    return widths


def _adjacent(lowering: Lowering, x: View) -> View:
    """Return the array with the elements of a row next to each other, as vectors read them."""
    return x if x.shape[-1] == 1 or x.strides[-1] == 1 else lowering.copy(x)


def _column(x: View) -> View:
    """Return numbers for rows as rows of one."""
    return x._replace(shape=(*x.shape, 1), strides=(*x.strides, 1))


def _in_the_order_of(like: View, columns: int) -> View:
    """Return a new array of rows of `columns` elements, its other axes in memory in the order of another array's.

    So heads that lie side by side in memory give results that do, and joining them is no work.
    """
    outer = sorted(range(len(like.shape) - 1), key=lambda i: -abs(like.strides[i]))
    shape = (*like.shape[:-1], columns)
    strides, step = [0] * len(outer) + [1], columns
    for i in reversed(outer):
        strides[i] = step
        step *= shape[i]
    return View(Buffer("temp", step * like.dtype.itemsize), like.dtype, shape, tuple(strides))
