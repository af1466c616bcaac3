"""The backward kernel of attention: a unit is a chunk of the keys of a head, whose queries come in blocks.

The gradients of a chunk's keys and values are summed over the blocks in scratch memory, those of the
queries over the chunks by a step of its own: always in one order, so that nothing depends on how units
are shared out.
"""

from __future__ import annotations

from ...codegen.builder import Builder, Value
from ...codegen.types import Type
from ...codegen.walk import walk
from ...plan.record import Record
from ...scalar.fp16 import convert
from ...scalar.math.exp import exp
from .form import Form, Frame
from .products import load_row, over_keys, over_queries, pack, segments, store_row, turn, unpack, widen, with_keys
from .tiles import Tile, fill, strided, transpose

# Queries come in blocks of so many groups, keys in blocks of so many.
BLOCK_GROUPS = 2
KEYS = 64

ARRAYS = ("q", "k", "v", "y", "lse", "dy", "dq", "dk", "dv")
SIZES = ("m", "n", "d", "e", "chunk", "width_d", "width_e", "lines_d", "k_width", "v_width")
PIECES = (
    *("q_rows", "q_turned", "dy_rows", "dy_turned", "levels", "deltas"),
    *("weights", "slopes", "dq_sums", "dk_sums", "dv_sums"),
    *("k_block", "v_block"),
)


def build_backward(form: Form, b: Builder) -> None:
    """Write P = exp(S - lse), dV = P' dy, dP = dy V', dS = P (dP - sum(dy y)), dQ = dS K, dK = dS' Q."""
    f = Frame(b, form)
    tile = form.tile
    block = BLOCK_GROUPS * tile.group
    with walk(b, form.record.end, form.rank + 1, len(form.names)) as position:
        f.move(position.offsets)
        m, n, zero = f.size("m"), f.size("n"), b.index(0)
        start = b.mul(position.coordinates[-1], f.size("chunk"))
        stop = b.imin(n, b.add(start, f.size("chunk")))
        count = b.sub(stop, start)
        whole = b.mul(b.udiv(b.add(count, b.index(tile.rows - 1)), b.index(tile.rows)), b.index(tile.rows))
        fill(b, tile, f.piece("dk_sums"), b.mul(whole, f.size("width_d")))
        fill(b, tile, f.piece("dv_sums"), b.mul(whole, f.size("width_e")))
        begin = zero
        if form.causal:
            # Queries before the chunk see none of it: their gradients are the zeros that stand there by now.
            begin = b.imin(start, m)
            unpack(f, f.piece("dk_sums"), zero, "dq", f.size("d"), zero, begin, scaled=False)
        with b.loop(begin, m, block) as blocks:
            first = blocks.index
            valid = b.imin(b.sub(m, first), b.index(block))
            _Queries(f, first, valid, start, stop).run(block)
        unpack(f, f.piece("dk_sums"), f.size("width_d"), "dk", f.size("d"), start, count, scaled=False)
        unpack(f, f.piece("dv_sums"), f.size("width_e"), "dv", f.size("e"), start, count, scaled=False)


class _Queries:
    """A block of queries in packed form, with its contributions for the keys of a chunk."""

    def __init__(self, f: Frame, first: Value, valid: Value, start: Value, stop: Value) -> None:
        self.f, self.b, self.tile = f, f.b, f.tile
        self.first, self.valid = first, valid
        self.start, self.stop = start, stop

    def run(self, block: int) -> None:
        f, b, tile = self.f, self.b, self.tile
        group = b.index(tile.group)
        pack(f, "q", self.first, self.valid, block, f.size("width_d"), "q_rows", scaled=True)
        pack(f, "dy", self.first, self.valid, block, f.size("width_e"), "dy_rows", scaled=False)
        self._levels_and_deltas(block)
        with b.loop(0, self.valid, tile.group) as groups:
            at = groups.index
            for name, width in (("q", "width_d"), ("dy", "width_e")):
                rows = strided(b, f.piece(f"{name}_rows"), at, f.size(width), f.type)
                turn(f, rows, f.size(width), strided(b, f.piece(f"{name}_turned"), at, f.size(width), f.type))
            fill(b, tile, self._dq_sums(at), b.mul(f.size("lines_d"), group))
        keys = b.imin(self.stop, b.add(self.first, self.valid)) if f.form.causal else self.stop
        with b.loop(self.start, keys, KEYS) as loop:
            start, stop = loop.index, b.imin(b.add(loop.index, b.index(KEYS)), keys)
            widen(f, start, stop)
            with b.loop(0, self.valid, tile.group) as groups:
                self._slopes(block, start, stop, groups.index)
            for weights, name, width in (("weights", "dv", "width_e"), ("slopes", "dk", "width_d")):
                rows = f.piece("dy_rows" if name == "dv" else "q_rows")
                sums = strided(b, f.piece(f"{name}_sums"), b.sub(start, self.start), f.size(width), f.type)
                over_queries(f, start, stop, self.first, self.valid, f.piece(weights), block, rows, f.size(width), sums)
        with b.loop(0, self.valid, tile.group) as groups:
            at = groups.index
            # The packed rows of these queries are no longer needed.
            rows = f.piece("q_rows")
            transpose(b, tile, self._dq_sums(at), f.size("lines_d"), tile.group, tile.group, rows, f.size("lines_d"))
            count = b.imin(b.sub(self.valid, at), group)
            unpack(f, rows, f.size("lines_d"), "dq", f.size("d"), b.add(self.first, at), count, scaled=True)

    def _dq_sums(self, at: Value) -> Value:
        return strided(self.b, self.f.piece("dq_sums"), at, self.f.size("lines_d"), self.f.type)

    def _levels_and_deltas(self, block: int) -> None:
        """Compute for every query its log-sum-exp, and the sum of dy y; zeros beyond the last."""
        f, b, tile = self.f, self.b, self.tile
        for name in ("levels", "deltas"):
            fill(b, tile, f.piece(name), b.index(block))
        e = f.size("e")
        whole = b.and_(e, b.index(-tile.lanes))
        with b.loop(0, self.valid) as loop:
            query = b.add(self.first, loop.index)
            lse = convert(b, b.load(f.stored("lse"), f.array("lse", query)), f.type)
            b.store(lse, b.offset(f.piece("levels"), loop.index, f.type))
            dy, y = strided(b, f.piece("dy_rows"), loop.index, f.size("width_e"), f.type), f.array("y", query)

            stored = f.stored("y")
            vector = stored.vector(tile.lanes)

            with b.loop(0, whole, tile.lanes, [b.const(tile.type, 0)]) as columns:
                here = convert(b, b.load(vector, b.offset(y, columns.index, stored)), f.type)
                there = b.load(f.type, b.offset(dy, columns.index, f.type))
                columns.carry(b.fma(there, here, columns.values[0]))
            with b.loop(whole, e, tile.lanes, columns.results) as rest:
                mask = b.tail_mask(b.sub(e, whole), tile.lanes)
                here = convert(b, b.masked_load(vector, b.offset(y, whole, stored), mask), f.type)
                there = b.load(f.type, b.offset(dy, whole, f.type))
                rest.carry(b.fma(there, here, rest.values[0]))
            total = rest.results[0]
            b.store(b.sum_lanes(total), b.offset(f.piece("deltas"), loop.index, f.type))

    def _slopes(self, block: int, start: Value, stop: Value, at: Value) -> None:
        """Compute the weights and the slopes of a group's scores for a block of keys, and add to dQ."""
        f, b, tile = self.f, self.b, self.tile
        first = b.add(self.first, at)
        seen = segments(f, first, start, stop)
        weights, slopes = (b.offset(f.piece(p), at, f.type) for p in ("weights", "slopes"))
        for name, source, depth, out in (("k", "q", "d", weights), ("v", "dy", "e", slopes)):
            turned = strided(b, f.piece(f"{source}_turned"), at, f.size(f"width_{depth}"), f.type)
            with_keys(f, name, seen, f.size(depth), turned, out, block)
        levels, deltas = (load_row(f, b.offset(f.piece(p), at, f.type)) for p in ("levels", "deltas"))
        nothing = b.const(tile.type, 0)
        for part in seen:
            with b.loop(part.start, part.stop) as keys:
                row = b.sub(keys.index, start)
                w_row, s_row = (strided(b, p, row, block, f.type) for p in (weights, slopes))
                scores = load_row(f, w_row, part.first)
                scores = f.masked(scores, keys.index, first, b.sub(self.valid, at), part.first)
                found = [exp(b, b.fsub(s, x)) for s, x in zip(scores, levels[part.first :], strict=True)]
                steep = load_row(f, s_row, part.first)
                steep = [b.fsub(s, x) for s, x in zip(steep, deltas[part.first :], strict=True)]
                steep = [b.fmul(s, w) for s, w in zip(steep, found, strict=True)]
                if part.diagonal:
                    mask = part.seen(b, tile, keys.index)
                    found[0], steep[0] = (b.select(mask, x[0], nothing) for x in (found, steep))
                store_row(f, w_row, found, part.first)
                store_row(f, s_row, steep, part.first)
        over_keys(f, "k", f.size("d"), seen, slopes, block, self._dq_sums(at))


# Elements of a unit of `build_sum`.
SUMMED = 4096
SUM = Record("*parts *sum size count")


def build_sum(tile: Tile, stored: Type, b: Builder) -> None:
    """Write the sum, of type `stored`, of `count` arrays of `size` elements, one after another in memory."""
    type = tile.type
    r = SUM.load(b)
    stop = b.imin(b.mul(b.hi, b.index(SUMMED)), r["size"])
    with b.loop(b.mul(b.lo, b.index(SUMMED)), stop, tile.lanes) as loop:
        mask = b.tail_mask(b.sub(stop, loop.index), tile.lanes)
        with b.loop(0, r["count"], 1, [b.const(type, 0)]) as parts:
            at = b.add(loop.index, b.mul(parts.index, r["size"]))
            part = b.masked_load(type, b.offset(r["parts"], at, type), mask)
            parts.carry(b.fadd(parts.values[0], part))
        b.masked_store(convert(b, parts.results[0], stored), b.offset(r["sum"], loop.index, stored), mask)
