"""The ops of pooling: windows over the trailing dimensions reduced to their maximum or their sum.

Every op works one kernel offset at a time, on strided slices of whole arrays: a 2x2 window costs
four passes, no windows are gathered and nothing is padded (an offset's slice leaves out the windows
that would look outside). The maximum's derivative goes to the first element of a window that holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ...core.arrays import Array, where_or_zero
from ...core.dtypes import DType
from ...core.errors import ShapeError, fail
from ...core.ops.costs import product_of
from ...core.ops.declare import op
from ...core.ops.facets import Count
from ...core.ops.op import Call, Linear, Missing, Op, Vjp
from ...core.spec import Shape, Spec, bool_, category, show, spec_of
from .. import definitions
from ..long_sums import accumulating
from .windows import Pads, check_geometry, check_windows, output_size, overlap

# -- geometry


def _out(name: str, x: Any, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Shape:
    n = len(kernel)
    check_geometry(name, n, stride, padding, dilation)
    if len(x.shape) < n:
        fail(ShapeError, f"{name}: a kernel of size {kernel} for an input of shape {x.shape}")
    size = x.shape[len(x.shape) - n :]
    out = output_size(size, kernel, stride, padding, dilation)
    check_windows(name, size, kernel, out, padding, dilation)
    return (*x.shape[: len(x.shape) - n], *out)


def _infer_max(x: Any, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Spec:
    return spec_of(_out(f"max_pool{len(kernel)}d", x, kernel, stride, padding, dilation), x.dtype)


def _infer_argmax(x: Any, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Spec:
    return _infer_max(x, kernel, stride, padding, dilation).with_dtype(_number_dtype(kernel))


def _infer_sum(x: Any, kernel: Shape, stride: Shape, padding: Pads) -> Spec:
    return spec_of(_out(f"avg_pool{len(kernel)}d", x, kernel, stride, padding, (1,) * len(kernel)), x.dtype)


def _offsets(
    size: Shape, out: Shape, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape
) -> Iterator[tuple[int, tuple[Any, ...], tuple[Any, ...]]]:
    """Yield every kernel offset: its number, the input elements seen through it, the windows that see them."""
    for number, offset in enumerate(np.ndindex(*kernel)):
        at, windows = overlap(size, out, offset, stride, padding, dilation)
        yield number, (..., *at), (..., *windows)


def _lowest(dtype: DType) -> Any:
    """Return the value that every other of the dtype replaces in a maximum."""
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


# -- maximum


def _max_pool(x: Array, *, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Array:
    shape = _infer_max(x, kernel, stride, padding, dilation).shape
    n = len(kernel)
    out: Array | None = None
    for _, at, windows in _offsets(x.shape[-n:], shape[-n:], kernel, stride, padding, dilation):
        seen = x[at]
        if out is None:
            if seen.shape == shape:
                out = seen.copy(order="K")
                continue
            out = np.full(shape, _lowest(x.dtype), x.dtype)
        part = out[windows]
        np.maximum(part, seen, out=part)
    assert out is not None  # a kernel has at least one element
    return out


def _argmax_pool(x: Array, *, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Array:
    best = _max_pool(x, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    n, count, dtype = len(kernel), prod(kernel), _number_dtype(kernel)
    # Each window keeps the greatest `count - number` of its elements that equal the maximum: the
    # first of them. Arithmetic on masks is many times faster than assignment under a mask.
    rank = np.zeros_like(best, dtype)
    nan = np.isnan(best) if category(x.dtype) >= 2 else np.zeros((), bool_)
    nans = bool(nan.any())
    for number, at, windows in _offsets(x.shape[-n:], best.shape[-n:], kernel, stride, padding, dilation):
        seen, part = x[at], rank[windows]
        held = seen == best[windows]
        if nans:
            held |= np.isnan(seen) & nan[windows]
        np.maximum(part, np.multiply(held, dtype.type(count - number), dtype=dtype), out=part)
    winners: Array = np.subtract(dtype.type(count), rank, out=rank)
    return winners


def _number_dtype(kernel: Shape) -> DType:
    """Return the narrowest dtype for the numbers of a window's elements, and for how many there are."""
    return np.min_scalar_type(prod(kernel))


def _check_winners(shape: Shape, winners: Any) -> None:
    if winners.shape != shape:
        fail(ShapeError, f"pooling: numbers of winners of shape {winners.shape} for windows of shape {shape}")


def _infer_select(x: Any, winners: Any, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Spec:
    spec = _infer_max(x, kernel, stride, padding, dilation)
    _check_winners(spec.shape, winners)
    return spec


def _pool_select(x: Array, winners: Array, *, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Array:
    n = len(kernel)
    out = np.zeros_like(winners, x.dtype)
    for number, at, windows in _offsets(x.shape[-n:], winners.shape[-n:], kernel, stride, padding, dilation):
        part = out[windows]
        part += where_or_zero(winners[windows] == number, x[at])
    return out


def _infer_scatter(
    y: Any, winners: Any, size: Shape, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape
) -> Spec:
    _check_winners(y.shape, winners)
    spec = _spread(y, size, kernel)
    if _infer_max(spec, kernel, stride, padding, dilation).shape != y.shape:
        fail(ShapeError, f"pooling: {show(y.shape)} is not a result of {show(spec.shape)}")
    return spec


def _spread(y: Any, size: Shape, kernel: Shape) -> Spec:
    """Return the spec of the input that windows' values are spread over."""
    check_geometry("pooling", len(kernel), size)
    return spec_of(y.shape[: len(y.shape) - len(kernel)] + size, y.dtype)


def _pool_scatter(
    y: Array, winners: Array, *, size: Shape, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape
) -> Array:
    n = len(kernel)
    x = np.zeros_like(y, shape=_spread(y, size, kernel).shape)
    disjoint = all(s >= d * (k - 1) + 1 for k, s, d in zip(kernel, stride, dilation))
    for number, at, windows in _offsets(size, winners.shape[-n:], kernel, stride, padding, dilation):
        won = where_or_zero(winners[windows] == number, y[windows])
        target = x[at]
        if disjoint:
            target[...] = won
        else:
            target += won
    return x


# -- sum


def _sum_pool(x: Array, *, kernel: Shape, stride: Shape, padding: Pads) -> Array:
    spec = _infer_sum(x, kernel, stride, padding)
    n = len(kernel)
    work = accumulating(spec.dtype, prod(kernel))
    out: Array | None = None
    for _, at, windows in _offsets(x.shape[-n:], spec.shape[-n:], kernel, stride, padding, (1,) * n):
        seen = x[at]
        if out is None:
            if seen.shape == spec.shape:
                out = seen.astype(work, order="K")
                continue
            out = np.zeros(spec.shape, work)
        part = out[windows]
        part += seen
    assert out is not None  # a kernel has at least one element
    return out.astype(spec.dtype, copy=False)


def _infer_spread(y: Any, size: Shape, kernel: Shape, stride: Shape, padding: Pads) -> Spec:
    spec = _spread(y, size, kernel)
    if _infer_sum(spec, kernel, stride, padding).shape != y.shape:
        fail(ShapeError, f"pooling: {show(y.shape)} is not a result of {show(spec.shape)}")
    return spec


def _spread_pool(y: Array, *, size: Shape, kernel: Shape, stride: Shape, padding: Pads) -> Array:
    n = len(kernel)
    work = accumulating(y.dtype, prod(kernel))
    x = np.zeros_like(y, work, shape=_spread(y, size, kernel).shape)
    for _, at, windows in _offsets(size, y.shape[-n:], kernel, stride, padding, (1,) * n):
        target = x[at]
        target += y[windows]
    return x.astype(y.dtype, copy=False)


_SAMPLED: tuple[tuple[Shape, Shape, Shape, Pads, Shape], ...] = (
    ((2, 6), (2,), (2,), ((0, 0),), (1,)),
    ((7,), (3,), (1,), ((1, 1),), (1,)),
    ((2, 1, 4, 3), (2, 2), (2, 1), ((0, 0), (0, 1)), (1, 1)),
    ((5, 4), (2, 2), (1, 2), ((1, 0), (1, 1)), (2, 1)),
)


def _samples_max(rng: Any) -> list[Call]:
    return [
        Call(
            # Numbers apart from one another: no tie within a step of a finite difference.
            (rng.permutation(prod(shape)).reshape(shape) * 0.25 - 2.0,),
            {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation},
        )
        for shape, kernel, stride, padding, dilation in _SAMPLED
    ]


def _samples_select(rng: Any) -> list[Call]:
    return [Call((c.args[0], definitions.argmax_pool(c.args[0], **c.attrs)), c.attrs) for c in _samples_max(rng)]


def _samples_scatter(rng: Any) -> list[Call]:
    calls = []
    for c in _samples_select(rng):
        x, winners = c.args
        size = x.shape[-len(c.attrs["kernel"]) :]
        calls.append(Call((rng.standard_normal(winners.shape), winners), {"size": size, **c.attrs}))
    return calls


def _samples_sum(rng: Any) -> list[Call]:
    return [
        Call((rng.standard_normal(shape),), {"kernel": kernel, "stride": stride, "padding": padding})
        for shape, kernel, stride, padding, _ in _SAMPLED
    ]


def _samples_spread(rng: Any) -> list[Call]:
    calls = []
    for c in _samples_sum(rng):
        (x,) = c.args
        shape = _infer_sum(x, **c.attrs).shape
        calls.append(Call((rng.standard_normal(shape),), {"size": x.shape[-len(c.attrs["kernel"]) :], **c.attrs}))
    return calls


# -- the ops


def _max_gradient(ct: Any, x: Any, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Any:
    attrs = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    return pool_scatter(ct, argmax_pool(x, **attrs), size=x.shape[-len(kernel) :], **attrs)


def _max_present(x: Any, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Any:
    attrs = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    winners = argmax_pool(x, **attrs)
    return pool_scatter(winners >= 0, winners, size=x.shape[-len(kernel) :], **attrs)


_OF_WINDOW = Count("1 for each window element", lambda node, specs, out: out.size * product_of(node.attrs["kernel"]))

max_pool: Op = op(
    "max_pool(x; kernel, stride, padding, dilation)",
    _max_pool,
    infer=_infer_max,
    facts={"x": Vjp(_max_gradient, present=_max_present)},
    doc="The maximum of each window over the trailing dimensions.",
    samples=_samples_max,
    reference=definitions.max_pool,
    onnx="MaxPool",
    dependence="windows",
    kernels=True,
    cost=_OF_WINDOW,
    pattern="route",
    zero_gradient="not_extreme",
)

argmax_pool: Op = op(
    "argmax_pool(x; kernel, stride, padding, dilation)",
    _argmax_pool,
    infer=_infer_argmax,
    doc="The number, within each window, of its first greatest element.",
    samples=_samples_max,
    reference=definitions.argmax_pool,
    onnx=Missing("MaxPool's second result counts over the input, not within the window"),
    kernels=True,
    cost=_OF_WINDOW,
)

pool_select: Op = op(
    "pool_select(x, winners; kernel, stride, padding, dilation)",
    _pool_select,
    infer=_infer_select,
    facts={
        "x": Linear(
            lambda ct, winners, x_shape, kernel, stride, padding, dilation: pool_scatter(
                ct,
                winners,
                size=x_shape[-len(kernel) :],
                kernel=kernel,
                stride=stride,
                padding=padding,
                dilation=dilation,
            ),
            selects=True,
        )
    },
    doc="From each window the element whose number within the window is given.",
    samples=_samples_select,
    reference=definitions.pool_select,
    onnx=Missing("no such operator"),
    dependence="windows",
    kernels=True,
    cost=0,
)

pool_scatter: Op = op(
    "pool_scatter(y, winners; size: sizes, kernel, stride, padding, dilation)",
    _pool_scatter,
    infer=_infer_scatter,
    facts={
        "y": Linear(
            lambda ct, winners, kernel, stride, padding, dilation: pool_select(
                ct, winners, kernel=kernel, stride=stride, padding=padding, dilation=dilation
            ),
            selects=True,
            covers=True,
        )
    },
    doc="The transpose of pool_select: each value added where its window's element was.",
    samples=_samples_scatter,
    reference=definitions.pool_scatter,
    onnx=Missing("MaxUnpool overwrites where windows overlap"),
    dependence="windows",
    kernels=True,
    cost=1,
)

sum_pool: Op = op(
    "sum_pool(x; kernel, stride, padding)",
    _sum_pool,
    infer=_infer_sum,
    kind="linear",
    facts={
        "x": Linear(
            lambda ct, x_shape, kernel, stride, padding: spread_pool(
                ct, size=x_shape[-len(kernel) :], kernel=kernel, stride=stride, padding=padding
            ),
            selects=True,
        )
    },
    doc="The sum of each window over the trailing dimensions.",
    samples=_samples_sum,
    reference=definitions.sum_pool,
    onnx=Missing("AveragePool times the window's size"),
    dependence="windows",
    kernels=True,
    cost=_OF_WINDOW,
    pattern="accumulate",
)

spread_pool: Op = op(
    "spread_pool(y; size: sizes, kernel, stride, padding)",
    _spread_pool,
    infer=_infer_spread,
    kind="linear",
    facts={
        "y": Linear(
            lambda ct, kernel, stride, padding: sum_pool(ct, kernel=kernel, stride=stride, padding=padding),
            selects=True,
        )
    },
    doc="The transpose of sum_pool: each value added to every element of its window.",
    samples=_samples_spread,
    reference=definitions.spread_pool,
    onnx=Missing("no such operator"),
    dependence="windows",
    kernels=True,
    cost=1,
    pattern="accumulate",
)
