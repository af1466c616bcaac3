"""Products of matrices, convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

import wengert as wg

from ....core.dims import Dim
from ....core.ops.op import TABLE
from ....core.ops.record import bind
from ....core.spec import category
from ....core.tensor import Tensor
from ..errors import refuse
from ..registry import operator
from .elementwise import same
from .structure import padded

F = wg.nn.functional


@operator("MatMul")
def _matmul(x: Any, y: Any) -> Any:
    same(x, y)
    return wg.matmul(x, y)


@operator("Gemm")
def _gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Any:
    if a.ndim != 2 or b.ndim != 2:
        refuse(f"operands of shape {tuple(a.shape)} and {tuple(b.shape)} are not matrices")
    same(a, b)
    out = wg.matmul(a.mT if transA else a, b.mT if transB else b)
    out = _scaled(out, alpha)
    return out if c is None else out + _scaled(c, beta)


def _scaled(x: Any, by: float) -> Any:
    if by == 1:
        return x
    return x * by if category(x.dtype) >= 2 else (x * by).astype(x.dtype)


@operator("Einsum")
def _einsum(*xs: Any, equation: str) -> Any:
    if len(equation) > 1000:
        refuse("the equation is longer than 1000 characters")
    return wg.einsum(equation.replace(" ", ""), *xs)


# -- windows

Ints = Sequence[int]
# Windows are taken apart into their places, one slice for each.
_MOST_PLACES = 1 << 16


def _per_axis(given: Ints | None, ndim: int, default: int, what: str) -> tuple[int, ...]:
    if given is None:
        return (default,) * ndim
    if len(given) != ndim:
        refuse(f"{what} {tuple(given)} does not fit {ndim} axes")
    return tuple(given)


def _positive(values: Ints, what: str) -> None:
    if any(v < 1 for v in values):
        refuse(f"{what} {tuple(values)} must be positive")


class Windows:
    """Windows over the trailing axes: their size, strides, dilations and padding on both sides."""

    def __init__(
        self,
        size: Ints,
        kernel: Ints,
        strides: Ints | None,
        dilations: Ints | None,
        pads: Ints | None,
        auto_pad: str,
        ceil_mode: bool = False,
    ) -> None:
        n = len(size)
        self.size = tuple(size)
        self.kernel = _per_axis(kernel, n, 1, "kernel_shape")
        self.strides = _per_axis(strides, n, 1, "strides")
        self.dilations = _per_axis(dilations, n, 1, "dilations")
        for values, what in ((self.kernel, "kernel_shape"), (self.strides, "strides"), (self.dilations, "dilations")):
            _positive(values, what)
        if auto_pad in ("NOTSET", "", "VALID"):
            given = _per_axis(pads if auto_pad != "VALID" else None, 2 * n, 0, "pads")
            self.before, self.after = given[:n], given[n:]
        elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            before, after = [], []
            for have, k, s, d in zip(self.size, self.kernel, self.strides, self.dilations):
                total = max((-(-have // s) - 1) * s + d * (k - 1) + 1 - have, 0)
                less, more = total // 2, total - total // 2
                before.append(less if auto_pad == "SAME_UPPER" else more)
                after.append(more if auto_pad == "SAME_UPPER" else less)
            self.before, self.after = tuple(before), tuple(after)
        else:
            refuse(f"auto_pad is {auto_pad!r}")
        self.out = tuple(self._count(i, ceil_mode and auto_pad in ("NOTSET", "")) for i in range(n))
        if any(v < 0 for v in (*self.before, *self.after)):
            refuse(f"pads {(*self.before, *self.after)} are negative")

    def _count(self, i: int, up: bool) -> Any:
        reach = self.dilations[i] * (self.kernel[i] - 1) + 1
        room = self.size[i] + self.before[i] + self.after[i] - reach
        if room < 0:
            refuse(f"a window of {reach} does not fit in {self.size[i]} elements with padding")
        count = room // self.strides[i] + 1
        if (
            up
            and room % self.strides[i]
            and room // self.strides[i] * self.strides[i] + self.strides[i] < (self.size[i] + self.before[i])
        ):
            count += 1
        return count if isinstance(count, Dim) else int(count)

    def fits(self, run: Any, rows: int) -> None:
        """Refuse windows of which the results, or the padded operand, have more elements than a run has room for."""
        run.room(math.prod(self.out) * max(rows, 1))
        run.room(math.prod(n + b + a for n, b, a in zip(self.size, self.before, self.after)) * max(rows, 1))

    def padding(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the padding on both sides that the last windows need."""
        after = []
        for i, n in enumerate(self.size):
            end = (self.out[i] - 1) * self.strides[i] + self.dilations[i] * (self.kernel[i] - 1) + 1
            after.append(max(end - n - self.before[i], 0))
        return self.before, tuple(after)

    def check_places(self) -> None:
        """Refuse windows of so many elements that going through them one by one would not end."""
        if math.prod(self.kernel) > _MOST_PLACES:
            refuse(f"a window of {self.kernel} has more than {_MOST_PLACES:,} elements")

    def offsets(self, x: Any) -> Iterator[Any]:
        """Yield for each place in a window the elements there, of a tensor that is padded."""
        self.check_places()
        for place in np.ndindex(*self.kernel):
            index = tuple(
                slice(p * d, p * d + (o - 1) * s + 1, s)
                for p, d, o, s in zip(place, self.dilations, self.out, self.strides)
            )
            yield x[(..., *index)]


def _lowest(x: Tensor) -> Any:
    return -np.inf if category(x.dtype) == 2 else int(np.iinfo(x.dtype).min)


def _over(x: Tensor, windows: Windows, value: Any) -> Tensor:
    before, after = windows.padding()
    lead = (0,) * (x.ndim - len(windows.size))
    return padded(x, (*lead, *before), (*lead, *after), "constant", value)


def _spatial(x: Any, least: int = 3) -> tuple[int, ...]:
    if x.ndim < least:
        refuse(f"an operand of shape {tuple(x.shape)} has no axes for windows")
    return tuple(x.shape[2:])


_CONV: dict[int, Callable[..., Any]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def convolved(x: Any, w: Any, b: Any, windows: Windows, group: int) -> Any:
    """Return the correlation of `x` (n, c, ...) with `w` (m, c / group, ...)."""
    ndim = len(windows.size)
    before, after = windows.before, windows.after
    if ndim not in _CONV:
        refuse(f"convolutions over {ndim} axes are not supported")
    if before != after:
        x, before = padded(x, (0, 0, *before), (0, 0, *after), "constant", 0), (0,) * ndim
    return _CONV[ndim](x, w, b, windows.strides, before, windows.dilations, group)


@operator("Conv")
def _conv(
    x: Any,
    w: Any,
    b: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
    context: Any,
) -> Any:
    same(x, w)
    size = _spatial(x)
    kernel = tuple(w.shape[2:])
    if (kernel_shape is not None and tuple(kernel_shape) != kernel) or len(kernel) != len(size):
        refuse(f"kernel_shape is {kernel_shape}, and the weights have {kernel}")
    windows = Windows(size, kernel, strides, dilations, pads, auto_pad)
    windows.fits(context.run, x.shape[0])
    return convolved(x, w, b, windows, group)


@operator("ConvTranspose")
def _conv_transpose(
    x: Any,
    w: Any,
    b: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    output_padding: Any = None,
    output_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
    context: Any,
) -> Any:
    same(x, w)
    size = _spatial(x)
    n = len(size)
    kernel = tuple(w.shape[2:])
    if w.ndim != x.ndim:
        refuse(f"weights of shape {tuple(w.shape)} do not fit an operand of shape {tuple(x.shape)}")
    steps = _per_axis(strides, n, 1, "strides")
    spread = _per_axis(dilations, n, 1, "dilations")
    more = _per_axis(output_padding, n, 0, "output_padding")
    _positive(steps, "strides")
    _positive(spread, "dilations")
    full = [s * (i - 1) + o + d * (k - 1) + 1 for s, i, o, d, k in zip(steps, size, more, spread, kernel)]
    if output_shape is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        want = [i * s for i, s in zip(size, steps)] if output_shape is None else list(output_shape)[-n:]
        if len(want) != n:
            refuse(f"output_shape {output_shape} does not fit {n} axes")
        total = [f - g for f, g in zip(full, want)]
        less = [t // 2 if auto_pad == "SAME_UPPER" else t - t // 2 for t in total]
        before, after = less, [t - v for t, v in zip(total, less)]
    else:
        given = _per_axis(None if auto_pad == "VALID" else pads, 2 * n, 0, "pads")
        before, after = list(given[:n]), list(given[n:])
    if x.shape[1] != w.shape[0] or group < 1 or w.shape[0] % group:
        refuse(f"{x.shape[1]} channels in {group} groups do not fit weights of shape {tuple(w.shape)}")
    context.run.room(math.prod(max(1, f) for f in full) * x.shape[0] * w.shape[1] * group)
    out = _transposed(x, w, steps, spread, group)
    # What the padding takes away, and what the last axis elements get in addition.
    out = padded(out, (0, 0, *(-v for v in before)), (0, 0, *(o - a for o, a in zip(more, after))), "constant", 0)
    return out if b is None else out + b.reshape((-1, *(1,) * n))


def _transposed(x: Any, w: Any, steps: Ints, spread: Ints, group: int) -> Any:
    n = len(steps)
    if n == 1:
        return F.conv_transpose1d(x, w, None, steps, 0, 0, group, spread)
    if n == 2:
        return F.conv_transpose2d(x, w, None, steps, 0, 0, group, spread)
    if n != 3:
        refuse(f"convolutions over {n} axes are not supported")
    # Zeros between the elements, and a correlation with the mirrored weights.
    for axis, step in enumerate(steps):
        place = axis + 2
        if step > 1:
            zeros = [wg.zeros_like(x)] * (step - 1)
            x = wg.stack([x, *zeros], place + 1)
            shape = (*x.shape[:place], x.shape[place] * step, *x.shape[place + 2 :])
            x = x.reshape(shape)[(slice(None),) * place + (slice(0, shape[place] - step + 1),)]
    kernel = w.shape[2:]
    mirrored = wg.flip(w, tuple(range(2, w.ndim)))
    per = w.shape[0] // group
    mirrored = mirrored.reshape((group, per, w.shape[1], *kernel))
    mirrored = wg.swapaxes(mirrored, 1, 2).reshape((group * w.shape[1], per, *kernel))
    padding = tuple(d * (k - 1) for d, k in zip(spread, kernel))
    return F.conv3d(x, mirrored, None, 1, padding, spread, group)


# -- pools


@operator("MaxPool")
def _max_pool(
    x: Any,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    kernel_shape: Any,
    pads: Any = None,
    storage_order: int = 0,
    strides: Any = None,
    context: Any,
) -> Any:
    windows = Windows(_spatial(x), kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
    windows.fits(context.run, x.shape[0] * x.shape[1])
    ndim = len(windows.size)
    if not context.wants(1):
        windows.check_places()
        pads = tuple(zip(*windows.padding()))
        attrs = {"kernel": windows.kernel, "stride": windows.strides, "padding": pads, "dilation": windows.dilations}
        found: Tensor = bind(TABLE["max_pool"], (x,), attrs)
        return found
    places = wg.arange(math.prod(windows.size)).reshape(windows.size)
    if storage_order:
        places = wg.permute_dims(
            wg.arange(math.prod(windows.size)).reshape(windows.size[::-1]), tuple(reversed(range(ndim)))
        )
    whole = math.prod(windows.size)
    first = wg.arange(int(x.shape[0] * x.shape[1])).reshape((*x.shape[:2], *(1,) * ndim)) * whole
    numbers = wg.broadcast_to(places + first, tuple(x.shape))
    best: Any = None
    where: Any = None
    at = list(windows.offsets(_over(numbers, windows, -1)))
    for value, number in zip(windows.offsets(_over(x, windows, _lowest(x))), at):
        if best is None:
            best, where = value, number
        else:
            # A padded place never wins, not even against the lowest value there is.
            wins = wg.logical_and(number >= 0, wg.logical_or(value > best, where < 0))
            best, where = wg.where(wins, value, best), wg.where(wins, number, where)
    return best, where


@operator("AveragePool")
def average_pool(
    x: Any,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Any = None,
    kernel_shape: Any,
    pads: Any = None,
    strides: Any = None,
    context: Any,
) -> Any:
    """Return the mean of each window."""
    windows = Windows(_spatial(x), kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
    windows.fits(context.run, x.shape[0] * x.shape[1])
    total = reduce(wg.add, windows.offsets(_over(x, windows, 0)))
    counts = wg.asarray(_counts(windows, bool(count_include_pad)).astype(x.dtype), copy=False)
    return total / counts


def _counts(windows: Windows, padded: bool) -> Any:
    """Return how many elements each window sees: those of the operand, or with its padding too."""
    out: Any = np.ones((), np.int64)
    for i, n in enumerate(windows.size):
        starts = np.arange(windows.out[i]) * windows.strides[i] - windows.before[i]
        at = starts[:, None] + np.arange(windows.kernel[i]) * windows.dilations[i]
        low, high = (-windows.before[i], n + windows.after[i]) if padded else (0, n)
        seen = ((at >= low) & (at < high)).sum(1)
        out = out[..., None] * seen
    return np.maximum(out, 1)


@operator("LpPool")
def _lp_pool(
    x: Any,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    kernel_shape: Any,
    p: float = 2,
    pads: Any = None,
    strides: Any = None,
    context: Any,
) -> Any:
    windows = Windows(_spatial(x), kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
    windows.fits(context.run, x.shape[0] * x.shape[1])
    powers = wg.pow(wg.abs(_over(x, windows, 0)), p)
    return wg.pow(reduce(wg.add, windows.offsets(powers)), 1 / p)


def _global_axes(x: Any) -> tuple[int, ...]:
    return tuple(range(2, len(_spatial(x)) + 2))


@operator("GlobalAveragePool")
def global_average_pool(x: Any) -> Any:
    """Return the mean of each channel."""
    return wg.mean(x, _global_axes(x), True)


@operator("GlobalMaxPool")
def _global_max_pool(x: Any) -> Any:
    return wg.max(x, _global_axes(x), True)


@operator("GlobalLpPool")
def _global_lp_pool(x: Any, *, p: float = 2) -> Any:
    return wg.pow(wg.sum(wg.pow(wg.abs(x), p), _global_axes(x), keepdims=True), 1 / p)


@operator("MaxUnpool", static=(2,))
def _max_unpool(
    x: Any,
    places: Any,
    output_shape: Any = None,
    *,
    kernel_shape: Any,
    pads: Any = None,
    strides: Any = None,
    context: Any,
) -> Any:
    n = len(_spatial(x))
    kernel = _per_axis(kernel_shape, n, 1, "kernel_shape")
    steps = _per_axis(strides, n, 1, "strides")
    around = _per_axis(pads, 2 * n, 0, "pads")
    inner = [(i - 1) * s - around[a] - around[a + n] + k for a, (i, s, k) in enumerate(zip(x.shape[2:], steps, kernel))]
    shape = (*x.shape[:2], *inner)
    context.run.room(math.prod(shape))
    flat = wg.zeros((int(math.prod(shape)),), dtype=x.dtype)
    out = wg.scatter(flat, 0, places.reshape((-1,)), x.reshape((-1,))).reshape(shape)
    if output_shape is None:
        return out
    want = tuple(int(v) for v in output_shape.ravel())
    if len(want) != x.ndim or any(w < h for w, h in zip(want, shape)):
        refuse(f"output_shape {want} does not hold {shape}")
    return padded(out, (0,) * x.ndim, tuple(w - h for w, h in zip(want, shape)), "constant", 0)


@operator("Col2Im", static=(1, 2))
def _col2im(
    x: Any, image: Any, block: Any, *, dilations: Any = None, pads: Any = None, strides: Any = None, context: Any
) -> Any:
    size, kernel = tuple(int(v) for v in image), tuple(int(v) for v in block)
    windows = Windows(size, kernel, strides, dilations, pads, "NOTSET")
    batch, count = x.shape[0], math.prod(kernel)
    channels = x.shape[1] // count
    whole = tuple(n + a + b for n, a, b in zip(size, windows.before, windows.after))
    context.run.room(math.prod(whole) * batch * channels)
    parts = x.reshape((batch, channels, count, -1))
    numbers = np.arange(math.prod(whole)).reshape(whole)
    at = np.stack([v.ravel() for v in windows.offsets(numbers)])
    flat = wg.zeros((batch, channels, int(math.prod(whole))), dtype=x.dtype)
    index = wg.broadcast_to(wg.asarray(at.ravel()), (batch, channels, at.size))
    out = wg.scatter_add(flat, 2, index, parts.reshape((batch, channels, -1))).reshape((batch, channels, *whole))
    return out[(..., *(slice(b, b + n) for b, n in zip(windows.before, size)))]
