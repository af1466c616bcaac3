"""The forward kernel of attention: a unit is a group of queries of one head."""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.builder import Builder, Value
from ...codegen.walk import walk
from ...scalar.math.exp import exp
from ...scalar.math.log import log
from .form import Form, Frame
from .products import Segment, load_row, over_keys, pack, segments, store_row, turn, unpack, widen, with_keys
from .tiles import fill, strided, transpose

# Keys whose scores are in scratch memory at a time.
KEYS = 128

ARRAYS = ("q", "k", "v", "y", "lse")
SIZES = ("m", "n", "d", "e", "width", "lines", "k_width", "v_width")
PIECES = ("rows", "turned", "scores", "sums", "k_block", "v_block")


def build_forward(form: Form, b: Builder) -> None:
    """Write a pass over keys in blocks; sums decay where a later block holds a larger score (Milakov & Gimelshein 2018,
    arXiv:1805.02867).
    """
    f = Frame(b, form)
    tile = form.tile
    group = b.index(tile.group)
    with walk(b, form.record.end, form.rank + 1, len(form.names)) as position:
        f.move(position.offsets)
        first = b.mul(position.coordinates[-1], group)
        valid = b.imin(b.sub(f.size("m"), first), group)
        n = f.size("n")
        keys = b.imin(n, b.add(first, group)) if form.causal else n
        width = f.size("width")
        pack(f, "q", b.index(0), valid, tile.group, width, "rows", scaled=True)
        turn(f, f.piece("rows"), width, f.piece("turned"))
        fill(b, tile, f.piece("sums"), b.mul(f.size("lines"), group))
        lowest = [b.const(tile.type, float("-inf"))] * tile.vectors
        nothing = [b.const(tile.type, 0)] * tile.vectors
        with b.loop(0, keys, KEYS, (*lowest, *nothing)) as blocks:
            start, stop = blocks.index, b.imin(b.add(blocks.index, b.index(KEYS)), keys)
            top, before = blocks.values[: tile.vectors], blocks.values[tile.vectors :]
            seen = segments(f, first, start, stop)
            widen(f, start, stop)
            with_keys(f, "k", seen, f.size("d"), f.piece("turned"), f.piece("scores"), tile.group)
            block = _Block(f, valid, seen)
            largest = block.mask_and_maximum(top)
            level = [_finite_level(b, x) for x in largest]
            decay = [exp(b, b.fsub(x, y)) for x, y in zip(top, level, strict=True)]
            total = block.exponentials(level, [b.fmul(x, d) for x, d in zip(before, decay, strict=True)])
            over_keys(f, "v", f.size("e"), seen, f.piece("scores"), tile.group, f.piece("sums"), decay)
            blocks.carry(*largest, *total)
        _finish(f, valid, blocks.results[: tile.vectors], blocks.results[tile.vectors :])


def _finite_level(b: Builder, top: Value) -> Value:
    """Return what is subtracted from scores: their maximum, or 0 where all are -inf."""
    unseeing = b.fcmp("oeq", top, b.const(top.type, float("-inf")))
    return b.select(unseeing, b.const(top.type, 0), top)


class _Block:
    """The scores of a group of queries and a block of keys, a row for every key."""

    def __init__(self, f: Frame, valid: Value, keys: Sequence[Segment]) -> None:
        self.f, self.valid, self.keys = f, valid, keys

    def _row(self, key: Value) -> Value:
        b = self.f.b
        return strided(b, self.f.piece("scores"), b.sub(key, self.keys[0].start), self.f.tile.group, self.f.type)

    def mask_and_maximum(self, top: Sequence[Value]) -> list[Value]:
        """Mask the scores; return for every query the largest, `top` among them."""
        f, b = self.f, self.f.b
        found = list(top)
        for part in self.keys:
            with b.loop(part.start, part.stop, 1, found[part.first :]) as loop:
                row = self._row(loop.index)
                scores = f.masked(load_row(f, row, part.first), loop.index, b.index(0), self.valid, part.first)
                if part.diagonal:
                    mask = part.seen(b, f.tile, loop.index)
                    scores[0] = b.select(mask, scores[0], b.const(f.type, float("-inf")))
                if part.diagonal or f.form.mask != "none":
                    store_row(f, row, scores, part.first)
                # NaN is passed over here and comes back with the exponentials.
                loop.carry(*(b.select(b.fcmp("ogt", s, t), s, t) for s, t in zip(scores, loop.values, strict=True)))
            found[part.first :] = loop.results
        return found

    def exponentials(self, level: Sequence[Value], total: Sequence[Value]) -> list[Value]:
        """Turn scores into weights, not normalised; return their sums added to `total`."""
        f, b = self.f, self.f.b
        found = list(total)
        for first in sorted({part.first for part in self.keys}):
            parts = [part for part in self.keys if part.first == first]
            with b.loop(parts[0].start, parts[-1].stop, 1, found[first:]) as loop:
                row = self._row(loop.index)
                scores = load_row(f, row, first)
                weights = [exp(b, b.fsub(s, x)) for s, x in zip(scores, level[first:], strict=True)]
                store_row(f, row, weights, first)
                loop.carry(*(b.fadd(t, w) for t, w in zip(loop.values, weights, strict=True)))
            found[first:] = loop.results
        return found


def _finish(f: Frame, valid: Value, top: Sequence[Value], total: Sequence[Value]) -> None:
    """Divide by the sums of weights, and store: the means, and the log-sum-exp."""
    b, tile = f.b, f.tile
    one = b.const(tile.type, 1)
    total = [b.select(b.fcmp("oeq", t, b.const(tile.type, 0)), one, t) for t in total]
    sums = f.piece("sums")
    inverse = [b.fdiv(one, t) for t in total]
    with b.loop(0, f.size("e")) as loop:
        row = strided(b, sums, loop.index, tile.group, f.type)
        store_row(f, row, [b.fmul(x, i) for x, i in zip(load_row(f, row), inverse, strict=True)])
    transpose(b, tile, sums, f.size("lines"), tile.group, tile.group, f.piece("rows"), f.size("lines"))
    unpack(f, f.piece("rows"), f.size("lines"), "y", f.size("e"), b.index(0), valid, scaled=False)
    for v, (x, t) in enumerate(zip(top, total, strict=True)):
        mask = b.tail_mask(b.sub(valid, b.index(v * tile.lanes)), tile.lanes)
        b.masked_store(b.fadd(_finite_level(b, x), log(b, t)), b.offset(f.array("lse"), v * tile.lanes, f.type), mask)
