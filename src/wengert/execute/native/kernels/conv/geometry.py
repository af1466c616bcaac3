"""Convolutions as correlations: along each axis, the pairs of input elements and taps of the kernel that meet.

The forward product and the data gradient are the same computation. Along one axis the forward
product is y[o] = sum_k x[o s - p + k d] w[k]. Its transpose, x[i] = sum y[o] w[k] over the o, k with
o s + k d = i + p, falls into s phases by (i + p) mod s: in each of them the k that take part are
an arithmetic progression, and with i = r - p + q s the sum is a correlation of stride 1 over y with
that part of the kernel, turned around (Dumoulin & Visin 2016, section 4, without its inserted
zeros, which would be multiplied).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd
from typing import NamedTuple

# Arrays have this many spatial axes here; those that are missing have size 1.
SPATIAL = 3


class Axis(NamedTuple):
    """One spatial axis of a correlation.

    Output number o of `outputs` stands at `start + o step` of the result; its tap j of `taps` is the
    input element `first + o stride + j dilation`, zero where there is none, times the kernel's
    element `tap + j tap_step`.
    """

    size: int
    outputs: int
    start: int
    step: int
    first: int
    stride: int
    taps: int
    dilation: int
    tap: int
    tap_step: int

    def span(self, count: int) -> int:
        """Return how many input elements, from the first to the last, `count` neighbouring outputs reach over."""
        return (count - 1) * self.stride + (self.taps - 1) * self.dilation + 1 if self.taps and count else 0

    @property
    def has_halo(self) -> bool:
        """True where taps fall outside of the input."""
        return self.taps > 0 and (self.first < 0 or self.first + self.span(self.outputs) > self.size)


POINT = Axis(1, 1, 0, 1, 0, 1, 1, 1, 0, 1)


def forward(size: int, out: int, kernel: int, stride: int, low: int, dilation: int) -> Axis:
    """Return the axis of the forward product; `low` is the padding before the first element."""
    return Axis(size, out, 0, 1, -low, stride, kernel, dilation if kernel > 1 else 1, 0, 1)


def phases(size: int, out: int, kernel: int, stride: int, low: int, dilation: int) -> Iterator[Axis]:
    """Yield the axes, one for each phase, of the transpose: from y of size `out` to x of `size`."""
    step = stride // gcd(stride, dilation)
    for r in range(stride):
        start = (r - low) % stride
        count = -(-(size - start) // stride)
        if count <= 0:
            continue
        taken = [k for k in range(kernel) if (k * dilation - r) % stride == 0]
        if not taken:
            yield Axis(out, count, start, stride, 0, 1, 0, 1, 0, 1)
            continue
        # Later taps read earlier elements: turned around, the taps go up with the elements.
        last = taken[-1]
        first = (start + low - r) // stride + (r - last * dilation) // stride
        spread = dilation * step // stride if len(taken) > 1 else 1
        yield Axis(out, count, start, stride, first, 1, len(taken), spread, last, -step)


class Axes(NamedTuple):
    """The spatial axes of a correlation, outermost first."""

    z: Axis
    y: Axis
    x: Axis

    @property
    def has_halo(self) -> bool:
        return any(a.has_halo for a in self)

    @property
    def outputs(self) -> tuple[int, int, int]:
        return (self.z.outputs, self.y.outputs, self.x.outputs)

    @property
    def taps(self) -> int:
        return self.z.taps * self.y.taps * self.x.taps


Attrs = tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]


def _parameters(
    size: tuple[int, ...], out: tuple[int, ...], kernel: tuple[int, ...], attrs: Attrs
) -> Iterator[tuple[int, int, int, int, int, int]]:
    stride, padding, dilation = attrs
    return ((n, m, k, s, p[0], d) for n, m, k, s, p, d in zip(size, out, kernel, stride, padding, dilation))


def forward_axes(size: tuple[int, ...], out: tuple[int, ...], kernel: tuple[int, ...], attrs: Attrs) -> Axes:
    """Return the axes of up to three dimensions; `attrs` are stride, padding and dilation."""
    axes = [forward(*p) for p in _parameters(size, out, kernel, attrs)]
    return Axes(*[POINT] * (SPATIAL - len(axes)), *axes)


def transpose_axes(
    size: tuple[int, ...], out: tuple[int, ...], kernel: tuple[int, ...], attrs: Attrs
) -> Iterator[Axes]:
    """Yield one correlation for each combination of the axes' phases."""
    each = [list(phases(*p)) for p in _parameters(size, out, kernel, attrs)]
    for axes in product(*each):
        yield Axes(*[POINT] * (SPATIAL - len(axes)), *axes)


def tap_runs(axes: Axes, strides: Sequence[int], groups: int, depth: int) -> tuple[list[int], int]:
    """Return where runs of inputs that lie together start, in elements from a tile's base, and their length."""
    z, y, x = ([j * axis.dilation * s for j in range(axis.taps)] for axis, s in zip(axes, strides))
    if groups == 1 and axes.x.dilation == 1 and axes.x.taps:
        x, depth = [0], depth * axes.x.taps
    return [sum(offset) for offset in product(z, y, x)], depth
