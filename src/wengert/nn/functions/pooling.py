"""Pooling: windows over the last one, two or three dimensions reduced to one number each.

Each family is one function of the number of dimensions. Maxima also give their places, counted over the flattened
dimensions of the input, which :func:`max_unpool2d` takes back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.ops.autocast import computed_in
from ...core.ops.record import bind
from ...core.spec import category
from ...core.tensor import Tensor, asarray
from ...ops.index.formats import with_channels_last
from ...ops.index.gather import counted_from_start
from ...ops.neural.pool import argmax_pool, max_pool, sum_pool
from ...ops.neural.windows import int_tuple
from ...ops.random.generator import Generator

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

# What PyTorch's autocast on CPUs has in float32.
_IN_FLOAT32 = computed_in("float32", "torch")

Function = Callable[..., Any]
_LAYOUTS = {1: "(N, C, L) or (C, L)", 2: "(N, C, H, W) or (C, H, W)", 3: "(N, C, D, H, W) or (C, D, H, W)"}
_DIMENSIONS = {1: "the last dimension", 2: "the last two dimensions", 3: "the last three dimensions"}


def _named(fn: Function, name: str, doc: str, options: str = "") -> Function:
    """Give a function its name and docstring, with a call of it, with these options, as an example."""
    fn.__name__ = fn.__qualname__ = name
    if options:
        size, half = (", ".join([n] * int(name[-2])) for n in "42")
        call = f"wg.nn.functional.{name}(wg.ones((1, {size})), {options}).shape"
        doc = f"{doc.rstrip()}\n\n    >>> import wengert as wg\n    >>> {call}\n    (1, {half})\n    "
    fn.__doc__ = doc
    return fn


def _input(name: str, input: Any, ndim: int, channels: bool = True) -> Tensor:
    """Return the input of a pool as a tensor; where `channels`, it has some, as its places have."""
    x = asarray(input)
    if x.ndim not in (ndim + 1, ndim + 2):
        fail(ShapeError, f"{name} of a tensor of shape {tuple(x.shape)}", f"It takes {_LAYOUTS[ndim]}.")
    if x.dtype.kind == "c":
        fail(DTypeError, f"{name} of complex numbers, {x.spec}", "Take wg.abs, wg.real or wg.imag first.")
    if channels and x.shape[-ndim - 1] == 0:
        fail(ShapeError, f"{name} of a tensor of shape {tuple(x.shape)}", "Only the batch may be empty.")
    return x


def _floating(name: str, x: Tensor) -> Tensor:
    if category(x.spec.dtype) != 2:
        fail(DTypeError, f"{name} of {x.spec}: not implemented for such numbers", "Take floating ones: x.float().")
    return x


def _windows(
    name: str, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, ndim: int
) -> dict[str, Any]:
    """Return the attributes of a pooling op."""
    kernel = int_tuple(kernel_size, ndim, "kernel_size", 1)
    strides = kernel if stride is None or stride in ([], ()) else int_tuple(stride, ndim, "stride", 1)
    pads, dilations = int_tuple(padding, ndim, "padding", 0), int_tuple(dilation, ndim, "dilation", 1)
    if any(p > (d * (k - 1) + 1) // 2 for p, k, d in zip(pads, kernel, dilations)):
        fail(
            RangeError,
            f"{name}: padding={pads} is more than half of kernel_size={kernel}",
            "A window would lie in the padding alone.",
        )
    highs = list(pads)
    if ceil_mode:
        for i, (n, k, s, p, d) in enumerate(zip(x.shape[-ndim:], kernel, strides, pads, dilations)):
            last = -(-(n + 2 * p - d * (k - 1) - 1) // s)
            # A window that would start beyond the input and the padding before it is not taken.
            last -= last * s >= n + p
            highs[i] = max(p, last * s + d * (k - 1) + 1 - n - p)
    return {"kernel": kernel, "stride": strides, "padding": tuple(zip(pads, highs)), "dilation": dilations}


# -- maxima


def _places(winners: Any, size: tuple[int, ...], kernel: Any, stride: Any, padding: Any, dilation: Any) -> Tensor:
    """Return places in the flattened input by the numbers that winners have within their windows."""
    number, ndim = winners.astype(np.int64), len(kernel)
    flat: Any = 0
    for i in range(ndim):
        offset = number // math.prod(kernel[i + 1 :]) % kernel[i]
        starts = np.arange(winners.shape[i - ndim]) * stride[i] - padding[i][0]
        starts = starts.reshape((-1,) + (1,) * (ndim - i - 1))
        flat = flat + (offset * dilation[i] + asarray(starts)) * math.prod(size[i + 1 :])
    return asarray(flat)


def _with_places(x: Tensor, attrs: dict[str, Any]) -> tuple[Any, Tensor]:
    size = x.shape[-len(attrs["kernel"]) :]
    return bind(max_pool, (x,), attrs), _places(bind(argmax_pool, (x,), attrs), size, **attrs)


def _formatted(found: Any, x: Any) -> Any:
    """Return a result, or several, with channels last in memory if `x` has them so."""
    if isinstance(found, tuple):
        return type(found)(with_channels_last(f, x) for f in found)
    return with_channels_last(found, x)


def _max_pools(ndim: int) -> tuple[Function, Function]:
    name = f"max_pool{ndim}d"

    def pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        x = _input(name, input, ndim)
        attrs = _windows(name, x, kernel_size, stride, padding, dilation, ceil_mode, ndim)
        return _formatted(_with_places(x, attrs) if return_indices else bind(max_pool, (x,), attrs), x)

    def with_indices(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    doc = f"""Return the maximum of each window over {_DIMENSIONS[ndim]} of {_LAYOUTS[ndim]}.

    Parameters
    ----------
    kernel_size: an int, or one for each dimension; so are the following.
    stride: the step between windows; None for the kernel's size.
    padding: what is put around the input, at most half a window; it never wins.
    dilation: the step between a window's elements.
    ceil_mode: also take a last window that reaches beyond the end.
    return_indices: also return the winners' places in the flattened dimensions.

    Raises ShapeError, DTypeError.
    """
    return _named(pool, name, doc, "2"), _named(
        with_indices, f"{name}_with_indices", f"Return what :func:`{name}` does, and the winners' places."
    )


max_pool1d, max_pool1d_with_indices = _max_pools(1)
max_pool2d, max_pool2d_with_indices = _max_pools(2)
max_pool3d, max_pool3d_with_indices = map(_IN_FLOAT32, _max_pools(3))


# -- means


def _counts(x: Tensor, out: Any, attrs: dict[str, Any], padded: bool) -> Any:
    """Return the number of elements in each window's mean: those of the input, and of its padding if `padded`."""
    counts = np.ones((), np.int64)
    ndim = len(attrs["kernel"])
    for n, m, k, s, (low, _) in zip(x.shape[-ndim:], out.shape[-ndim:], *list(attrs.values())[:3]):
        starts = np.arange(m) * s - low
        # What rounding the number of windows up adds at the end counts in neither case.
        first, end = (-low, n + low) if padded else (0, n)
        counts = counts[..., None] * (np.minimum(starts + k, end) - np.maximum(starts, first))
    return counts


def _divided(total: Any, counts: Any) -> Any:
    """Return sums over numbers of elements; of integers what is left of the point."""
    if total.dtype.kind != "f":
        signs = asarray(np.sign(counts), dtype=total.dtype)
        return wg.sign(total) * signs * (wg.abs(total) // asarray(np.abs(counts), dtype=total.dtype))
    if isinstance(counts, np.ndarray):
        counts = asarray(counts.astype(total.dtype))
    return total / counts


def _avg_pools(ndim: int) -> Function:
    name = f"avg_pool{ndim}d"

    def mean(
        input: Any,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Any:
        x = _input(name, input, ndim)
        attrs = _windows(name, x, kernel_size, stride, padding, 1, ceil_mode, ndim)
        del attrs["dilation"]
        if x.dtype.kind == "b":
            fail(DTypeError, f"{name} of {x.spec}", "Take the mean of numbers: x.float().")
        if divisor_override is not None and not divisor_override:
            fail(RangeError, f"{name}: divisor_override=0", "Divide by another number.")
        half = x.dtype.itemsize == 2 and x.dtype.kind != "i"
        total = bind(sum_pool, (x.astype(np.float32) if half else x,), attrs)
        if divisor_override is not None:
            found = _divided(total, divisor_override)
        else:
            whole = all(low == high and (count_include_pad or not low) for low, high in attrs["padding"])
            counts = math.prod(attrs["kernel"]) if whole else _counts(x, total, attrs, count_include_pad)
            found = _divided(total, counts)
        return found.astype(x.dtype) if half else found

    if ndim == 1:

        def pool(
            input: Any,
            kernel_size: Any,
            stride: Any = None,
            padding: Any = 0,
            ceil_mode: bool = False,
            count_include_pad: bool = True,
        ) -> Any:
            return mean(input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)

    else:

        def pool(  # type: ignore[misc]
            input: Any,
            kernel_size: Any,
            stride: Any = None,
            padding: Any = 0,
            ceil_mode: bool = False,
            count_include_pad: bool = True,
            divisor_override: int | None = None,
        ) -> Any:
            return mean(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    further = "" if ndim == 1 else "\n    divisor_override: what sums are divided by, in place of numbers of elements."
    doc = f"""Return the mean of each window over {_DIMENSIONS[ndim]} of {_LAYOUTS[ndim]}.

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode: as in :func:`max_pool{ndim}d`.
    count_include_pad: whether padding counts as zeros in the mean, or not at all.{further}

    Means of integers are rounded towards 0. Raises ShapeError, DTypeError.
    """
    return _named(pool, name, doc, "2")


avg_pool1d, avg_pool2d, avg_pool3d = _avg_pools(1), _avg_pools(2), _IN_FLOAT32(_avg_pools(3))


def _lp_pools(ndim: int) -> Function:
    mean = globals()[f"avg_pool{ndim}d"]

    def pool(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
        count = math.prod(int_tuple(kernel_size, ndim, "kernel_size", 1))
        means = mean(asarray(input) ** norm_type, kernel_size, stride, 0, ceil_mode)
        # Not the mean itself: a window of zeros passes no gradient on.
        return (wg.sign(means) * wg.relu(wg.abs(means)) * count) ** (1.0 / norm_type)

    doc = f"""Return the `norm_type`-th root of the sum of `norm_type`-th powers of each window's elements.

    `kernel_size`, `stride` and `ceil_mode` are those of :func:`avg_pool{ndim}d`. Raises ShapeError, DTypeError.
    """
    return _named(pool, f"lp_pool{ndim}d", doc, "2, 2")


lp_pool1d, lp_pool2d, lp_pool3d = map(_lp_pools, (1, 2, 3))


# -- windows that make a result of a given size


def _wanted(name: str, x: Tensor, output_size: Any, ndim: int) -> tuple[int, ...]:
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * ndim
    given = given * ndim if len(given) == 1 else given
    if len(given) != ndim:
        fail(ShapeError, f"{name}: output_size={output_size!r} has {len(given)} entries for {ndim} dimensions")
    out = int_tuple([n if m is None else m for m, n in zip(given, x.shape[-ndim:])], ndim, "output_size", 0)
    if 0 in x.shape[-ndim:]:
        fail(ShapeError, f"{name} of a tensor of shape {tuple(x.shape)}, which has no elements to take")
    return out


def _spans(size: int, out: int) -> tuple[Any, Any]:
    """Return where the windows that share `size` elements evenly start, and their lengths."""
    i = np.arange(out)
    starts = i * size // max(out, 1)
    return starts, -(-(i + 1) * size // max(out, 1)) - starts


def _even(x: Tensor, out: tuple[int, ...]) -> dict[str, Any] | None:
    """Return the attributes of a pooling op whose windows are the shares; None where their sizes or steps differ."""
    kernel, stride = [], []
    for n, m in zip(x.shape[-len(out) :], out):
        if m == 0:
            return None
        size = step = n // m
        if n % m:
            starts, lengths = (values.tolist() for values in _spans(n, m))
            size, step = lengths[0], starts[1]
            if lengths != [size] * m or starts != [i * step for i in range(m)] or step == 0:
                return None
        kernel.append(size)
        stride.append(step)
    zeros = ((0, 0),) * len(out)
    return {"kernel": tuple(kernel), "stride": tuple(stride), "padding": zeros, "dilation": (1,) * len(out)}


def _adaptive_avg_pools(ndim: int) -> Function:
    name = f"adaptive_avg_pool{ndim}d"

    def pool(input: Any, output_size: Any) -> Any:
        x = _floating(name, _input(name, input, ndim, channels=False))
        out = _wanted(name, x, output_size, ndim)
        wide: Any = x.astype(np.float32) if x.dtype.itemsize == 2 else x
        if all(m == 1 for m in out):
            means = wide.mean(axis=tuple(range(-ndim, 0)), keepdims=True)
        elif (even := _even(x, out)) is not None:
            del even["dilation"]
            means = bind(sum_pool, (wide,), even) / math.prod(even["kernel"])
        else:
            means = wide
            for axis, m in enumerate(out, -ndim):
                means = _mean_of_spans(means, axis, m)
        return with_channels_last(means.astype(x.dtype) if wide is not x else means, x)

    doc = f"""Return means of as many windows over {_DIMENSIONS[ndim]} as make a result of `output_size`.

    `output_size` is an int, or one for each dimension, of which None keeps the input's size; the input is
    {_LAYOUTS[ndim]}. Window i of m over n elements goes from floor(i n / m) to ceil((i + 1) n / m).
    Raises ShapeError, DTypeError.
    """
    return _named(pool, name, doc, "2")


def _mean_of_spans(x: Any, axis: int, out: int) -> Any:
    size = x.shape[axis]
    if out == size:
        return x
    starts, lengths = _spans(size, out)
    total: Any = None
    # One take for each element of the longest window: what a window lacks is left out rather than multiplied by 0,
    # which would make NaN of an infinity.
    for k in range(int(lengths.max(initial=0))):
        seen = wg.take(x, np.minimum(starts + k, size - 1), axis)
        if (k >= lengths).any():
            seen = wg.where(asarray(_beside(k < lengths, axis)), seen, 0.0)
        total = seen if total is None else total + seen
    if total is None:
        return wg.take(x, starts, axis)
    return total / asarray(_beside(lengths.astype(x.dtype), axis))


def _beside(values: Any, axis: int) -> Any:
    """Return a vector as it stands along a negative axis."""
    return values.reshape((-1,) + (1,) * (-axis - 1))


adaptive_avg_pool1d, adaptive_avg_pool2d = map(_adaptive_avg_pools, (1, 2))
adaptive_avg_pool3d = _IN_FLOAT32(_adaptive_avg_pools(3))


def _adaptive_max_pools(ndim: int) -> tuple[Function, Function]:
    name = f"adaptive_max_pool{ndim}d"

    def with_indices(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        x = _floating(name, _input(name, input, ndim))
        out = _wanted(name, x, output_size, ndim)
        even = _even(x, out)
        if even is not None:
            return _formatted(_with_places(x, even), x)
        size = x.shape[-ndim:]
        axes = []
        for n, m in zip(size, out):
            starts, lengths = _spans(n, m)
            # A window that is shorter than the longest has its last element twice: the first of them wins.
            within = np.minimum(np.arange(lengths.max(initial=1)), lengths[:, None] - 1)
            axes.append(starts[:, None] + within)
        return _formatted(_best(x, _flat(axes, size), ndim), x)

    def pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        found = with_indices(input, output_size)
        return found if return_indices else found[0]

    doc = f"""Return maxima of as many windows over {_DIMENSIONS[ndim]} as make a result of `output_size`.

    See :func:`adaptive_avg_pool{ndim}d` for the windows. With `return_indices` the winners' places in the flattened
    dimensions come too. Raises ShapeError, DTypeError.
    """
    return _named(pool, name, doc, "2"), _named(
        with_indices, f"{name}_with_indices", f"Return what :func:`{name}` does, and the winners' places."
    )


def _flat(axes: list[Any], size: tuple[int, ...]) -> Any:
    """Return flat places, (*windows, elements), by the places along each axis, (..., windows, elements) each.

    NumPy's arrays and tensors do alike.
    """
    ndim, flat = len(axes), 0
    for i, places in enumerate(axes):
        shape = [1] * (2 * ndim)
        shape[i], shape[ndim + i] = places.shape[-2:]
        flat = flat + places.reshape((*places.shape[:-2], *shape)) * math.prod(size[i + 1 :])
    lead = axes[0].ndim - 2
    whole: Any = flat
    return whole.reshape((*whole.shape[: lead + ndim], math.prod(whole.shape[lead + ndim :])))


def _best(x: Tensor, places: Any, ndim: int) -> tuple[Any, Any]:
    """Return the greatest elements at places, (..., *windows, elements) in the flattened dimensions; and where."""
    lead = x.shape[:-ndim]
    out, count = places.shape[places.ndim - ndim - 1 : -1], places.shape[-1]
    at = asarray(places).reshape((*places.shape[: places.ndim - ndim - 1], -1 if places.size else 0))
    at = wg.broadcast_to(at, (*lead, at.shape[-1]))
    values = wg.take_along_axis(x.reshape((*lead, math.prod(x.shape[-ndim:]))), at, -1)
    values, at = values.reshape((*lead, *out, count)), at.reshape((*lead, *out, count))
    winners = wg.expand_dims(wg.argmax(values, axis=-1), -1)
    found = (wg.take_along_axis(v, winners, -1).squeeze(-1) for v in (values, at))
    best, where = found
    return best, asarray(where)


adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pools(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pools(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pools(3)


# -- windows placed by chance


def _starts(samples: Any, size: int, out: int, kernel: int) -> Any:
    """Return where `out` windows start, (..., out), by one number from 0 to 1 for each row of them."""
    rows = wg.expand_dims(samples, -1)
    if out < 2:
        return wg.zeros_like(rows).astype(np.int64)[..., :out] + (size - kernel)
    step = (size - kernel) / (out - 1)
    i = asarray(np.arange(out - 1).astype(samples.dtype))
    starts = wg.floor((rows + i) * step) - wg.floor(rows * step)
    last = wg.zeros_like(rows) + float(size - kernel)
    return wg.concat([starts, last], -1).astype(np.int64)


def _fractional_max_pools(ndim: int) -> tuple[Function, Function]:
    name = f"fractional_max_pool{ndim}d"

    def with_indices(
        input: Any,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
        generator: Generator | None = None,
    ) -> Any:
        x = _floating(name, _input(name, input, ndim))
        given = {"kernel_size": kernel_size, "output_size": output_size, "output_ratio": output_ratio}
        for what, entries in given.items():
            if isinstance(entries, (tuple, list)) and len(entries) != ndim:
                fail(ShapeError, f"{name}: {what}={entries!r}", f"{what} must either be one number or {ndim} of them.")
        kernel, size = int_tuple(kernel_size, ndim, "kernel_size", 1), x.shape[-ndim:]
        if (output_size is None) == (output_ratio is None):
            fail(RangeError, f"{name}: output_size={output_size!r}, output_ratio={output_ratio!r}", "Give one of them.")
        if output_size is None:
            ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * ndim
            output_size = tuple(int(n * r) for n, r in zip(size, ratios))
        out = int_tuple(output_size, ndim, "output_size", 0)
        if any(m + k - 1 > n for n, m, k in zip(size, out, kernel)):
            fail(ShapeError, f"{name}: output_size={out} with kernel_size={kernel} of an input of shape {x.shape}")
        lead = (1, *x.shape[:1])[-2:] if x.ndim == ndim + 1 else x.shape[:2]
        more: Any = {} if generator is None else {"generator": generator}
        samples = wg.rand((*lead, ndim), dtype=x.dtype, **more) if _random_samples is None else asarray(_random_samples)
        if samples.ndim != 3 or samples.shape[0] < lead[0] or tuple(samples.shape[1:]) != (lead[1], ndim):
            fail(ShapeError, f"{name}: random samples of shape {tuple(samples.shape)}, not {(*lead, ndim)}")
        samples = samples[: lead[0]].reshape((*x.shape[:-ndim], ndim)).detach()
        axes = []
        for i in range(ndim):
            # The numbers for an image's dimensions come in the order width, height; a volume's in their own.
            column = samples[..., ndim - 1 - i if ndim == 2 else i]
            starts = _starts(column, size[i], out[i], kernel[i])
            axes.append(wg.expand_dims(starts, -1) + asarray(np.arange(kernel[i])))
        return _best(x, _flat(axes, size), ndim)

    def pool(
        input: Any,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
        generator: Generator | None = None,
    ) -> Any:
        values, places = with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples, generator)
        return (values, places) if return_indices else values

    doc = f"""Return maxima of windows that are placed by chance, so that any `output_size` can be had.

    Parameters
    ----------
    input: {_LAYOUTS[ndim]}.
    kernel_size: an int, or one for each dimension; so is `output_size`.
    output_ratio: the result's size as a share of the input's, in place of `output_size`.
    return_indices: also return the winners' places in the flattened dimensions.
    _random_samples: numbers from 0 to 1, (N, C, {ndim}), in place of random ones.
    generator: where random numbers come from.

    Source: Graham, arXiv:1412.6071. Raises ShapeError, DTypeError.
    """
    return _named(pool, name, doc, "2, 2"), _named(
        with_indices, f"{name}_with_indices", f"Return what :func:`{name}` does, and the winners' places."
    )


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional_max_pools(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional_max_pools(3)


# -- back to where maxima were


@wg.custom_jvp
def _put(values: Any, places: Any, size: int) -> Any:
    """Return zeros with values at places, (..., size). Where places repeat the gradient goes to each of the values."""
    return wg.scatter(wg.zeros((*values.shape[:-1], size), dtype=values.dtype), -1, places, values)


@_put.defjvp
def _put_tangents(primals: Any, tangents: Any) -> Any:
    values, places, size = primals
    empty = wg.zeros((*values.shape[:-1], size), dtype=values.dtype)
    return _put(values, places, size), wg.scatter_add(empty, -1, places, tangents[0])


def _max_unpools(ndim: int) -> Function:
    name = f"max_unpool{ndim}d"

    def unpool(
        input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:
        x, places = _input(name, input, ndim), asarray(indices)
        kernel = int_tuple(kernel_size, ndim, "kernel_size", 1)
        strides = int_tuple(stride, ndim, "stride", 1) if stride is not None else kernel
        pads = int_tuple(padding, ndim, "padding", 0)
        usual = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[-ndim:], strides, pads, kernel))
        out = usual if output_size is None else tuple(output_size)[-ndim:]
        if len(out) != ndim or any(not u - s < m < u + s for m, u, s in zip(out, usual, strides)):
            fail(ShapeError, f"{name}: output_size={output_size}", f"It is nearer to {usual} than a stride.")
        if places.shape != x.shape:
            fail(ShapeError, f"{name}: indices of shape {tuple(places.shape)} for values of shape {tuple(x.shape)}")
        lead = x.shape[:-ndim]
        flat = (*lead, math.prod(x.shape[-ndim:]))
        found = counted_from_start(places.reshape(flat), math.prod(out), name, len(lead))
        return _put(x.reshape(flat), found, math.prod(out)).reshape((*lead, *out))

    doc = f"""Return the input's values put where `indices` say, in zeros: the reverse of :func:`max_pool{ndim}d`.

    Parameters
    ----------
    input: {_LAYOUTS[ndim]}; `indices` has its shape and counts places in the flattened dimensions.
    kernel_size, stride, padding: those of the pooling.
    output_size: the size that the pooling had, where several would do.

    Raises ShapeError, RangeError.
    """
    return _named(unpool, name, doc)


max_unpool1d = _max_unpools(1)
max_unpool2d, max_unpool3d = map(_IN_FLOAT32, map(_max_unpools, (2, 3)))
