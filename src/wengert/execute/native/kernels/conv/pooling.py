"""Lowerings of pooling: maxima and sums over windows, the positions of maxima, and their transposes.

One kernel does all of them: every output is a fold over the taps of its window. The transposes,
which give each input the sum of what its windows have for it, are folds over the taps of the
other direction, one phase of :mod:`wengert.execute.native.kernels.conv.geometry` after the other. Where
channels lie together vectors run over them; elsewhere every image is taken by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .....core.node import Node
from .....ops.long_sums import LONGEST
from ...codegen.builder import Builder, Value
from ...codegen.types import F32, F64, I32, I64, Type, storage_type
from ...plan.lowering import Lowering, lowers
from ...plan.plan import View
from ...plan.record import Record
from ...scalar.fp16 import convert
from .geometry import SPATIAL, Axes, Axis, forward_axes, transpose_axes

# Outputs of a piece of work, about so many.
PIECE = 1 << 14

# Numbers of taps are compared in this type.
_NUMBER = I32

_POOL = Record(
    # Strides of images (a, b) and of elements; the size of what is read at the taps.
    "*x x_a x_b x_z x_y x_x size_z size_y size_x *winners w_a w_b w_z w_y w_x *out out_a out_b "
    # Images, channels of a pixel, taps of a window; rows of a piece, pieces of an image, phases.
    "count_a count_b channels taps rows bands phases"
)
# The words that follow in the record for each phase.
_AXIS = "outputs first stride taps dilation number out"
_PHASE = Record(" ".join(f"{f}_{n}" for n in "zyx" for f in _AXIS.split()) + " number out inner_start inner_end")


@dataclass(frozen=True)
class Fold:
    """A fold over the taps of a window.

    `winners` says where the numbers of winning elements are read: nowhere, at the outputs, or at the
    taps beside the elements; or that they are a second result ("made"), beside the maxima.
    """

    name: str
    dtype: np.dtype[Any]
    result: np.dtype[Any]
    winners: str = "none"
    winner: np.dtype[Any] = np.dtype(np.uint8)  # noqa: RUF009
    is_long: bool = False

    @property
    def memory(self) -> Type:
        return _memory(self.dtype)

    @property
    def compute(self) -> Type:
        """The type of sums and maxima: half precision is computed in float32, long sums in float64."""
        if self.is_long and self.memory.is_float:
            return F64
        return F32 if self.memory.is_float and self.memory.bits == 16 else self.memory

    @property
    def key(self) -> str:
        return (
            f"pool {self.name} {self.dtype} {self.result} {self.winners} {self.winner}{' long' if self.is_long else ''}"
        )

    @property
    def finds_winners(self) -> bool:
        return self.name == "argmax" or self.winners == "made"

    def start(self, b: Builder, lanes: int, first: Value) -> list[Value]:
        """Return the fold's state before any element; `first` is the number of the first."""
        type = self.compute.vector(lanes)
        if self.name != "sum":
            lowest = [b.const(type, _lowest(self.dtype))]
            if self.finds_winners:
                lowest.append(b.splat(b.cast("trunc", first, _NUMBER), lanes))
            return lowest
        return [b.const(type, 0)]

    def step(self, b: Builder, folded: Sequence[Value], x: Value, number: Value, winner: Value | None) -> list[Value]:
        """Return the fold's state after one more element."""
        lanes = x.type.lanes
        best = folded[0]
        if self.name != "sum":
            # The first greatest element; the first NaN before all others.
            wins = self._wins(b, x, best)
            return [b.select(wins, new, old) for new, old in zip((x, b.splat(number, lanes)), folded)]
        if winner is not None:
            x = b.select(b.icmp("eq", winner, b.splat(number, lanes)), x, b.const(x.type, 0))
        if self.dtype.kind == "b":
            return [b.or_(best, x)]
        return [b.fadd(best, x) if x.type.is_float else b.add(best, x)]

    def _wins(self, b: Builder, x: Value, best: Value) -> Value:
        if x.type.is_float:
            return b.and_(b.fcmp("ugt", x, best), b.fcmp("ord", best, best))
        return b.icmp("sgt" if self.dtype.kind == "i" else "ugt", x, best)


def _memory(dtype: np.dtype[Any]) -> Type:
    found = storage_type(dtype)
    assert found is not None
    return found


def _lowest(dtype: np.dtype[Any]) -> float | int:
    if dtype.kind == "b":
        return 0
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else -np.inf


class _Pool:
    """The writer of a pooling kernel; `lanes` is 1 where every image is taken by itself."""

    def __init__(self, b: Builder, fold: Fold, lanes: int) -> None:
        self.b, self.fold, self.lanes = b, fold, lanes
        self.r = _POOL.load(b)

    def write(self) -> None:
        b, r = self.b, self.r
        with b.loop(b.lo, b.hi) as unit:
            t, band = b.udiv(unit.index, r["bands"]), b.urem(unit.index, r["bands"])
            i, j = b.udiv(t, r["count_b"]), b.urem(t, r["count_b"])
            first = b.mul(band, r["rows"])
            images = {n: b.add(b.mul(i, r[f"{n}_a"]), b.mul(j, r[f"{n}_b"])) for n in ("x", "w", "out")}
            with b.loop(0, r["phases"]) as phase:
                at = b.offset(b.rec, b.add(b.mul(phase.index, b.index(_PHASE.end)), b.index(_POOL.end)), I64)
                p = {n: b.load(I64, b.offset(at, place, I64)) for n, place in _PHASE.places.items()}
                last = b.imin(b.add(first, r["rows"]), p["outputs_y"])
                with b.loop(0, p["outputs_z"]) as z, b.loop(first, last) as y:
                    self._row(p, images, z.index, y.index)

    def _row(self, p: dict[str, Value], images: dict[str, Value], z: Value, y: Value) -> None:
        """Write a row of outputs."""
        b, r = self.b, self.r
        x_z, taps_z = self._taps(p, "z", z)
        x_y, taps_y = self._taps(p, "y", y)
        out = b.add(b.add(images["out"], p["out"]), b.add(b.mul(z, p["out_z"]), b.mul(y, p["out_y"])))
        line = b.add(images["x"], b.add(b.mul(x_z, r["x_z"]), b.mul(x_y, r["x_y"])))
        winners = images["w"]
        at_taps = self.fold.winners == "taps"
        if self.fold.winners != "none":  # those that are made stand at the outputs
            w_z, w_y = (x_z, x_y) if at_taps else (z, y)
            winners = b.add(winners, b.add(b.mul(w_z, r["w_z"]), b.mul(w_y, r["w_y"])))
        with b.loop(0, p["outputs_x"]) as x:
            inner = b.and_(b.icmp("sge", x.index, p["inner_start"]), b.icmp("slt", x.index, p["inner_end"]))
            x_x = b.add(p["first_x"], b.mul(x.index, p["stride_x"]))
            taps_x = b.either(inner, lambda: (b.index(0), p["taps_x"]), partial(self._range, p, "x", x_x))
            starts = (
                b.add(line, b.mul(x_x, r["x_x"])),
                b.add(winners, b.mul(x_x if at_taps else x.index, r["w_x"])),
                b.add(out, b.mul(x.index, p["out_x"])),
            )
            ranges = (taps_z, taps_y, (taps_x[0], taps_x[1]))
            whole = b.sub(r["channels"], b.urem(r["channels"], b.index(self.lanes)))
            with b.loop(0, whole, self.lanes) as channel:
                self._output(p, starts, ranges, channel.index, self.lanes)
            if self.lanes > 1:
                with b.loop(whole, r["channels"]) as channel:
                    self._output(p, starts, ranges, channel.index, 1)

    def _taps(self, p: dict[str, Value], axis: str, output: Value) -> tuple[Value, tuple[Value, Value]]:
        """Return where an output's first tap is along an axis, and which taps are inside of the array."""
        first = self.b.add(p[f"first_{axis}"], self.b.mul(output, p[f"stride_{axis}"]))
        return first, self._range(p, axis, first)

    def _range(self, p: dict[str, Value], axis: str, first: Value) -> tuple[Value, Value]:
        b, size, dilation = self.b, self.r[f"size_{axis}"], p[f"dilation_{axis}"]
        above = b.sub(dilation, b.index(1))
        start = b.sdiv(b.add(b.imax(b.sub(b.index(0), first), b.index(0)), above), dilation)
        end = b.sdiv(b.add(b.imax(b.sub(size, first), b.index(0)), above), dilation)
        return start, b.imin(end, p[f"taps_{axis}"])

    def _output(
        self,
        p: dict[str, Value],
        starts: tuple[Value, Value, Value],
        ranges: tuple[tuple[Value, Value], ...],
        channel: Value,
        lanes: int,
    ) -> None:
        b, r, fold = self.b, self.r, self.fold
        x, w, out = (b.add(s, channel) for s in starts)
        winner = self._winner(w, lanes) if fold.winners == "outputs" else None
        (z0, z1), (y0, y1), (x0, x1) = ranges
        # Where no tap is inside, none has won: no tap has the number after the last one.
        first = r["taps"]
        if fold.finds_winners:
            number = p["number"]
            inside = b.icmp("slt", z0, z1)
            for axis, (start, end) in zip("zyx", ranges):
                number = b.add(number, b.mul(start, p[f"number_{axis}"]))
                inside = b.and_(inside, b.icmp("slt", start, end))
            first = b.select(inside, number, first)
        folded = fold.start(b, lanes, first)
        with b.loop(z0, z1, carried=folded) as kz:
            at_z, number_z = b.mul(kz.index, p["dilation_z"]), b.add(p["number"], b.mul(kz.index, p["number_z"]))
            with b.loop(y0, y1, carried=kz.values) as ky:
                at_y, number_y = b.mul(ky.index, p["dilation_y"]), b.add(number_z, b.mul(ky.index, p["number_y"]))
                with b.loop(x0, x1, carried=ky.values) as kx:
                    at_x = b.mul(kx.index, p["dilation_x"])
                    number = b.cast("trunc", b.add(number_y, b.mul(kx.index, p["number_x"])), _NUMBER)
                    taps = list(zip("zyx", (at_z, at_y, at_x)))
                    if fold.winners == "taps":
                        winner = self._winner(self._moved(w, "w", taps), lanes)
                    place = b.offset(r["x"], self._moved(x, "x", taps), fold.memory)
                    value = convert(b, b.load(fold.memory.vector(lanes), place), fold.compute)
                    kx.carry(*fold.step(b, kx.values, value, number, winner))
                ky.carry(*kx.results)
            kz.carry(*ky.results)
        result, memory = kz.results[-1 if fold.name == "argmax" else 0], _memory(fold.result)
        if fold.name == "argmax":
            result = self._number(result, memory)
        b.store(convert(b, result, memory), b.offset(r["out"], out, memory))
        if fold.winners == "made":
            memory = _memory(fold.winner)
            b.store(self._number(kz.results[1], memory), b.offset(r["winners"], w, memory))

    def _number(self, number: Value, memory: Type) -> Value:
        return self.b.cast("trunc" if memory.bits < _NUMBER.bits else "zext", number, memory)

    def _moved(self, start: Value, name: str, taps: list[tuple[str, Value]]) -> Value:
        for axis, at in taps:
            start = self.b.add(start, self.b.mul(at, self.r[f"{name}_{axis}"]))
        return start

    def _winner(self, at: Value, lanes: int) -> Value:
        memory = _memory(self.fold.winner)
        loaded = self.b.load(memory.vector(lanes), self.b.offset(self.r["winners"], at, memory))
        return self.b.cast("zext" if memory.bits < _NUMBER.bits else "trunc", loaded, _NUMBER)


def _inner(axis: Axis) -> tuple[int, int]:
    """Return the outputs all of whose taps are inside of the array."""
    start = max(0, -(axis.first // axis.stride))
    end = (axis.size - 1 - (axis.taps - 1) * axis.dilation - axis.first) // axis.stride + 1
    return min(start, axis.outputs), max(0, min(axis.outputs, end))


def _phase(axes: Axes, kernel: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the words of a phase; `strides` are the output's (z, y, x)."""
    weights = (kernel[1] * kernel[2], kernel[2], 1)
    given: dict[str, int | View] = {}
    for name, axis, weight, stride in zip("zyx", axes, weights, strides):
        steps = (axis.tap_step * weight, axis.step * stride)
        words = (axis.outputs, axis.first, axis.stride, axis.taps, axis.dilation, *steps)
        given |= {f"{f}_{name}": w for f, w in zip(_AXIS.split(), words)}
    start, end = _inner(axes.x)
    return _PHASE.words(  # type: ignore[return-value]
        **given,
        number=sum(a.tap * w for a, w in zip(axes, weights)),
        out=sum(a.start * s for a, s in zip(axes, strides)),
        inner_start=start,
        inner_end=end,
    )


class _Images:
    """The arrays of one kernel as (a, b, Z, Y, X, channels): the division of their leading axes."""

    def __init__(self, low: Lowering, views: Sequence[View], spatial: int, lanes: int) -> None:
        lead = views[0].shape[: len(views[0].shape) - spatial]
        self.channels = lead[-1] if lead else 1
        self.spatial = spatial
        self.outer = prod(lead[:-1])
        self.views = [self._split(low, v) for v in views]
        if self.channels >= lanes:
            # Laying channels together costs less than going without vectors.
            self.views = [v if v.strides[1] == 1 else _channels_last(low, v) for v in self.views]
        self.is_last = self.channels > 1 and all(v.strides[1] == 1 for v in self.views)

    def _split(self, low: Lowering, x: View) -> View:
        shape = (self.outer, self.channels, *(1,) * (SPATIAL - self.spatial), *x.shape[len(x.shape) - self.spatial :])
        found = x.reshape(shape)
        if found is None:
            found = low.copy(x).reshape(shape)
            assert found is not None
        return found

    def new(self, low: Lowering, shape: Sequence[int], dtype: Any) -> tuple[View, View]:
        """Return a new array of a shape, in memory as the others are, and the same as (a, b, Z, Y, X)."""
        lead, size = shape[: len(shape) - self.spatial], shape[len(shape) - self.spatial :]
        if not self.is_last:
            made = low.temp(shape, dtype)
            return made, self._split(low, made)
        laid = low.temp((*lead[:-1], *size, lead[-1]), dtype)
        n = len(lead) - 1
        made = laid.permute((*range(n), len(shape) - 1, *range(n, len(shape) - 1)))
        return made, self._split(low, made)


def _channels_last(low: Lowering, x: View) -> View:
    """Return a copy of (a, b, Z, Y, X) with b innermost."""
    return low.copy(x.permute((0, 2, 3, 4, 1))).permute((0, 4, 1, 2, 3))


def _lanes(low: Lowering, type: Type, channels: int) -> int:
    """Return the channels taken at once: several vectors where they fit, so that the loops over taps weigh less."""
    most = low.target.lanes(type)
    return next((most * n for n in (4, 2) if channels % (most * n) == 0), most)


def _pool(low: Lowering, node: Node, fold: Fold, given: Sequence[View], transposed: bool) -> list[View] | None:
    """Return the result of a fold over windows (and the winners, if they are made); `given` are what it reads."""
    attrs = node.attrs
    kernel, shape = attrs["kernel"], node.spec.shape
    spatial = len(kernel)
    fold = replace(fold, is_long=fold.name == "sum" and prod(kernel) > LONGEST)
    if spatial > SPATIAL or not all(v.size for v in given) or not node.spec.size:
        return None
    geometry = (attrs["stride"], attrs["padding"], attrs.get("dilation", (1,) * spatial))
    size, out_size = given[0].shape[len(given[0].shape) - spatial :], shape[len(shape) - spatial :]
    if transposed:
        phases = list(transpose_axes(out_size, size, kernel, geometry))
    else:
        phases = [forward_axes(size, out_size, kernel, geometry)]
    images = _Images(low, given, spatial, low.target.lanes(fold.compute))
    made, out = images.new(low, shape, fold.result)
    x, winners = images.views[0], images.views[-1]
    results = [made]
    if fold.winners == "made":
        also, winners = images.new(low, shape, fold.winner)
        results.append(also)
    padded = (*(1,) * (SPATIAL - spatial), *kernel)
    per_row = max(p.z.outputs * p.x.outputs for p in phases) * (images.channels if images.is_last else 1)
    most = max(p.y.outputs for p in phases)
    rows = max(1, min(most, PIECE // per_row))
    bands = -(-most // rows)
    words = _POOL.words(
        x=x,
        winners=winners,
        out=out,
        **{f"x_{n}": s for n, s in zip("abzyx", x.strides)},
        **{f"w_{n}": s for n, s in zip("abzyx", winners.strides)},
        out_a=out.strides[0],
        out_b=out.strides[1],
        **{f"size_{n}": s for n, s in zip("zyx", x.shape[2:])},
        count_a=images.outer,
        count_b=1 if images.is_last else images.channels,
        channels=images.channels if images.is_last else 1,
        taps=prod(kernel),
        rows=rows,
        bands=bands,
        phases=len(phases),
    )
    lanes = _lanes(low, fold.compute, images.channels) if images.is_last else 1
    low.step(
        low.kernel(f"{fold.key} {lanes}", lambda b: _Pool(b, fold, lanes).write()),
        [*words, *(w for p in phases for w in _phase(p, padded, out.strides[2:]))],
        reads=images.views,
        writes=results,
        units=images.outer * (1 if images.is_last else images.channels) * bands,
        flops=float(made.size * prod(kernel)),
        nodes=[node],
        label=node.op.name,
    )
    return results


def _is_supported(*views: View) -> bool:
    return all(storage_type(v.dtype) is not None for v in views)


def _one(low: Lowering, node: Node, fold: Fold, given: Sequence[View], transposed: bool) -> View | None:
    found = _pool(low, node, fold, given, transposed) if _is_supported(*given) else None
    return found[0] if found is not None else None


@lowers("max_pool", "sum_pool", "argmax_pool")
def _over_windows(low: Lowering, node: Node) -> View | None:
    x = low.view(node.inputs[0])
    name = node.op.name.removesuffix("_pool")
    other = None if name == "sum" else low.twin(node, "argmax_pool" if name == "max" else "max_pool")
    if other is None or not _is_supported(x):
        return _one(low, node, Fold(name, x.dtype, node.spec.dtype), [x], False)
    most, winner = (node, other) if name == "max" else (other, node)
    found = _pool(low, node, Fold("max", x.dtype, most.spec.dtype, "made", winner.spec.dtype), [x], False)
    if found is None:
        return None
    low.views[most], low.views[winner] = found
    return low.view(node)


@lowers("pool_select")
def _pool_select(low: Lowering, node: Node) -> View | None:
    x, winners = (low.view(i) for i in node.inputs)
    return _one(low, node, Fold("sum", x.dtype, node.spec.dtype, "outputs", winners.dtype), [x, winners], False)


@lowers("pool_scatter")
def _pool_scatter(low: Lowering, node: Node) -> View | None:
    y, winners = (low.view(i) for i in node.inputs)
    return _one(low, node, Fold("sum", y.dtype, node.spec.dtype, "taps", winners.dtype), [y, winners], True)


@lowers("spread_pool")
def _spread_pool(low: Lowering, node: Node) -> View | None:
    y = low.view(node.inputs[0])
    return _one(low, node, Fold("sum", y.dtype, node.spec.dtype), [y], True)
