"""Convolution in any number of spatial dimensions, and its two adjoints.

A convolution layer (a cross-correlation, as the field has it) is one trilinear form in the input
x, the kernel w and the cotangent y of its result. The three ops here are its partial derivatives:
`convolve` (x, w -> y), `convolve_transpose` (y, w -> x) and `convolve_kernel` (x, y -> w), so
every derivative of one of them, of any order, is another of them.

Layout: x is (*batch, C, *S), w is (O, C / groups, *K), y is (*batch, O, *out), with any number of
batch axes. Padding is a (low, high) pair for each spatial dimension; a negative one crops.

How: windows are gathered a few images at a time into a buffer that stays in the cache, and meet
the kernel in one matrix product (im2col; Chellapilla et al. 2006). The gather runs channels-last,
where it copies runs of K * C numbers; with few channels it runs channels-first, where it copies runs
of the output's width. The result is a view of whichever was computed, so that a stack of
convolutions stays channels-last in memory while its shape says channels-first.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..core.errors import DTypeError, ShapeError, fail
from ..core.op import TABLE, Call, Linear, Missing, Op
from ..core.record import bind, elementwise_general, op, promote_tensors, public
from ..core.spec import DType, Shape, Spec, category, spec_of
from ..core.tensor import Array, Tensor
from . import definitions
from .windows import (
    GATHER_BYTES,
    Pads,
    Size,
    at_offset,
    check_windows,
    flat_batch,
    gathered,
    int_tuple,
    output_size,
    overlap,
    padded,
    split_groups,
    windows,
    working_dtype,
)

# -- geometry


def _check_channels(x: Any, w: Any, groups: int, ndim: int, axis: int, name: str) -> None:
    """Raise ShapeError unless `w` is a kernel for `x`, whose channels are kernel axis `axis` (0 out, 1 in)."""
    if len(w.shape) != ndim + 2 or len(x.shape) < ndim + 1:
        fail(
            ShapeError,
            f"{name}: an input of shape {x.shape} with a kernel of shape {w.shape}",
            f"With {ndim} spatial dimensions the kernel has {ndim + 2} dimensions (O, C, ...), "
            f"the input {ndim + 1} (C, ...) or {ndim + 2} (N, C, ...).",
        )
    if w.shape[0] % groups:
        fail(
            ShapeError,
            f"{name}: groups={groups} does not divide {w.shape[0]}, axis 0 of a kernel of shape {w.shape}",
        )
    channels, need = x.shape[-ndim - 1], w.shape[0] if axis == 0 else w.shape[1] * groups
    if channels != need:
        grouped = f" with groups={groups}" if groups != 1 else ""
        fail(
            ShapeError,
            f"{name}: an input of shape {x.shape} has {channels} channels, "
            f"a kernel of shape {w.shape}{grouped} takes {need}",
            f"Axis {-ndim - 1} of the input is its channels; axis {axis} of the kernel is "
            + ("channels." if axis == 0 or groups == 1 else "channels / groups."),
        )


def _infer_convolve(x: Any, w: Any, stride: Shape, padding: Pads, dilation: Shape, groups: int) -> Spec:
    n = len(stride)
    name = f"conv{n}d"
    _check_channels(x, w, groups, n, 1, name)
    size, kernel = x.shape[-n:], w.shape[2:]
    out = output_size(size, kernel, stride, padding, dilation)
    check_windows(name, size, kernel, out, padding, dilation)
    return spec_of(x.shape[: -n - 1] + (w.shape[0], *out), x.dtype)


def _infer_transpose(y: Any, w: Any, size: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int) -> Spec:
    n = len(stride)
    name = f"conv_transpose{n}d"
    _check_channels(y, w, groups, n, 0, name)
    if min(size, default=1) < 1:
        fail(
            ShapeError,
            f"{name}: an input of shape {y.shape} with a kernel of shape {w.shape} gives a result of size {size}",
            "Use less padding or a larger kernel.",
        )
    return spec_of(y.shape[: -n - 1] + (w.shape[1] * groups, *size), y.dtype)


def _infer_kernel(x: Any, y: Any, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int) -> Spec:
    n = len(stride)
    return spec_of((y.shape[-n - 1], x.shape[-n - 1] // groups, *kernel), x.dtype)


def _gathers_channels_first(channels: int, kernel: Shape, out: Shape, groups: int) -> bool:
    return groups == 1 and channels * kernel[-1] < out[-1]


def _is_depthwise(w_shape: Shape, groups: int) -> bool:
    return groups > 1 and w_shape[0] == groups and w_shape[1] == 1


def _result(out: Array, lead: Shape, dtype: DType, channels_last: bool) -> Array:
    """The op's (*batch, C, *S) result from (N, *S, C) or (N, C, *S)."""
    if channels_last:
        out = out.transpose(0, out.ndim - 1, *range(1, out.ndim - 1))
    if out.dtype != dtype:
        out = out.astype(dtype)
    return out if len(lead) == 1 else out.reshape(*lead, *out.shape[1:])


# -- the three products


def _convolve(x: Array, w: Array, *, stride: Shape, padding: Pads, dilation: Shape, groups: int) -> Array:
    spec = _infer_convolve(x, w, stride, padding, dilation, groups)
    n = len(stride)
    lead, out, kernel = spec.shape[: -n - 1], spec.shape[-n:], w.shape[2:]
    work = working_dtype(spec.dtype)
    images, w = flat_batch(x, n).astype(work, copy=False), w.astype(work, copy=False)
    last = not _gathers_channels_first(w.shape[1], kernel, out, groups)
    view = windows(padded(images, padding, last), kernel, out, stride, dilation, last)
    if not last:
        y = _multiply_channels_first(view, w, out)
    elif _is_depthwise(w.shape, groups):
        y = _multiply_depthwise(view, w, out)
    else:
        y = _multiply_channels_last(view, w, out, groups)
    return _result(y, lead, spec.dtype, last)


def _multiply_channels_first(view: Array, w: Array, out: Shape) -> Array:
    """(N, C, *K, *out) windows and an (O, C, *K) kernel to (N, O, *out)."""
    rows = w.reshape(w.shape[0], w[0].size) if w.size else w.reshape(w.shape[0], prod(w.shape[1:]))
    y = np.zeros((view.shape[0], w.shape[0], prod(out)), view.dtype)
    for images, part in gathered(view):
        np.matmul(rows, part.reshape(len(part), rows.shape[1], y.shape[2]), out=y[images])
    return y.reshape(view.shape[0], w.shape[0], *out)


def _multiply_channels_last(view: Array, w: Array, out: Shape, groups: int) -> Array:
    """(N, *out, *K, C) windows and an (O, C / groups, *K) kernel to (N, *out, O)."""
    columns = _kernel_columns(w, groups)
    y = np.zeros((view.shape[0], *out, w.shape[0]), view.dtype)
    for images, part in gathered(split_groups(view, groups)):
        rows = part.reshape(-1, groups, columns.shape[1]).swapaxes(0, 1)
        target = y[images].reshape(-1, groups, columns.shape[2]).swapaxes(0, 1)
        if groups == 1:
            np.matmul(rows[0], columns[0], out=target[0])
        else:
            np.matmul(rows, columns, out=target)
    return y


def _multiply_depthwise(view: Array, w: Array, out: Shape) -> Array:
    """One kernel for each channel: (N, *out, *K, C) windows and (C, 1, *K) to (N, *out, C)."""
    y = np.zeros((view.shape[0], *out, w.shape[0]), view.dtype)
    term = np.empty_like(y)
    for k in np.ndindex(*w.shape[2:]):
        y += np.multiply(at_offset(view, k), w[(slice(None), 0, *k)], out=term)
    return y


def _kernel_columns(w: Array, groups: int) -> Array:
    """(O, C / groups, *K) as contiguous (groups, K * C / groups, O / groups)."""
    per, n = w.shape[0] // groups, w.ndim - 2
    split = w.reshape(groups, per, *w.shape[1:]).transpose(0, *range(3, 3 + n), 2, 1)
    return np.ascontiguousarray(split).reshape(groups, prod(w.shape[1:]), per)


def _convolve_transpose(
    y: Array, w: Array, *, size: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int
) -> Array:
    spec = _infer_transpose(y, w, size, stride, padding, dilation, groups)
    n = len(stride)
    kernel, out = w.shape[2:], y.shape[-n:]
    if all(s == 1 for s in stride):
        extent = [d * (k - 1) for k, d in zip(kernel, dilation)]
        pads = tuple((e - low, m - o + low) for e, (low, _), m, o in zip(extent, padding, size, out))
        return _convolve(y, _turned(w, groups), stride=stride, padding=pads, dilation=dilation, groups=groups)
    work = working_dtype(spec.dtype)
    images = padded(flat_batch(y, n).astype(work, copy=False), ((0, 0),) * n, channels_last=True)
    x = _scatter(images, w.astype(work, copy=False), size, stride, padding, dilation, groups)
    return _result(x, spec.shape[: -n - 1], spec.dtype, channels_last=True)


def _turned(w: Array, groups: int) -> Array:
    """The kernel whose convolution is the transpose of stride 1: turned around, channels exchanged."""
    n = w.ndim - 2
    split = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    turned = np.flip(split, tuple(range(-n, 0)))
    return turned.reshape(groups * w.shape[1], w.shape[0] // groups, *w.shape[2:])


def _scatter(y: Array, w: Array, size: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int) -> Array:
    """(N, *out, O) to (N, *S, C): each window's products added where it was taken (col2im)."""
    count, out, kernel = y.shape[0], y.shape[1:-1], w.shape[2:]
    channels = w.shape[1] * groups
    x = np.zeros((count, *size, channels), y.dtype)
    if y.size == 0 or w.size == 0:
        return x
    columns = _kernel_columns(w, groups).swapaxes(1, 2)
    step = max(1, GATHER_BYTES // (prod(out) * prod(kernel) * channels * y.itemsize))
    for start in range(0, count, step):
        part = y[start : start + step]
        rows = part.reshape(-1, groups, w.shape[0] // groups).swapaxes(0, 1)
        products = np.matmul(rows, columns).reshape(groups, len(part), *out, *kernel, w.shape[1])
        target = x[start : start + step].reshape(len(part), *size, groups, w.shape[1])
        for k in np.ndindex(*kernel):
            at, where = overlap(size, out, k, stride, padding, dilation)
            values = products[(slice(None), slice(None), *where, *k)]
            target[(slice(None), *at)] += np.moveaxis(values, 0, -2)
    return x


def _convolve_kernel(
    x: Array, y: Array, *, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int
) -> Array:
    spec = _infer_kernel(x, y, kernel, stride, padding, dilation, groups)
    n = len(stride)
    out, work = y.shape[-n:], working_dtype(spec.dtype)
    images, cts = (flat_batch(a, n).astype(work, copy=False) for a in (x, y))
    last = not _gathers_channels_first(spec.shape[1], kernel, out, groups)
    view = windows(padded(images, padding, last), kernel, out, stride, dilation, last)
    if not last:
        w = _correlate_channels_first(view, cts)
    else:
        cts = padded(cts, ((0, 0),) * n, channels_last=True)
        w = _correlate_channels_last(view, cts, spec.shape, groups)
    return w.reshape(spec.shape).astype(spec.dtype, copy=False)


def _correlate_channels_first(view: Array, y: Array) -> Array:
    """(N, C, *K, *out) windows and (N, O, *out) to (O, C * K)."""
    points = prod(y.shape[2:])
    width = view[:1].size // points if len(view) else prod(view.shape[1 : view.ndim - y.ndim + 2])
    w = np.zeros((y.shape[1], width), view.dtype)
    for images, part in gathered(view):
        rows = part.reshape(len(part), width, points)
        w += np.matmul(y[images].reshape(len(part), -1, points), rows.mT).sum(0)
    return w


def _correlate_channels_last(view: Array, y: Array, shape: Shape, groups: int) -> Array:
    """(N, *out, *K, C) windows and (N, *out, O) to a kernel of the given shape."""
    if _is_depthwise(shape, groups):
        w = np.empty((*shape[2:], groups), view.dtype)
        for k in np.ndindex(*shape[2:]):
            w[k] = np.multiply(at_offset(view, k), y).reshape(-1, groups).sum(0)
        return w.transpose(-1, *range(len(shape) - 2))
    per, width = shape[0] // groups, prod(shape[1:])
    columns = np.zeros((groups, width, per), view.dtype)
    for images, part in gathered(split_groups(view, groups)):
        rows = part.reshape(-1, groups, width).transpose(1, 2, 0)
        cts = y[images].reshape(-1, groups, per).swapaxes(0, 1)
        columns += np.matmul(rows, cts)
    split = columns.reshape(groups, *shape[2:], shape[1], per)
    n = len(shape) - 2
    return split.transpose(0, n + 2, n + 1, *range(1, n + 1))


_SAMPLED: tuple[tuple[Shape, Shape, Shape, Pads, Shape, int], ...] = (
    ((2, 2, 5), (3, 2, 3), (1,), ((0, 0),), (1,), 1),
    ((2, 1, 7), (2, 1, 3), (2,), ((1, 1),), (2,), 1),
    ((1, 2, 3, 4), (2, 2, 2, 2), (1, 1), ((1, 0), (0, 1)), (1, 1), 1),
    ((4, 3, 2), (2, 2, 2, 1), (2, 1), ((1, 1), (0, 0)), (1, 1), 2),
    ((2, 2, 3, 2), (2, 1, 2, 2), (1, 1), ((1, 1), (0, 1)), (1, 1), 2),
    ((2, 1, 2, 5), (2, 2, 3), (1,), ((-1, 1),), (1,), 1),
)


def _samples_convolve(rng: Any) -> list[Call]:
    return [
        Call(
            (rng.standard_normal(x), rng.standard_normal(w)),
            {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups},
        )
        for x, w, stride, padding, dilation, groups in _SAMPLED
    ]


def _samples_transpose(rng: Any) -> list[Call]:
    calls = []
    for sample in _samples_convolve(rng):
        x, w = sample.args
        y = definitions.convolve(x, w, **sample.attrs)
        calls.append(Call((rng.standard_normal(y.shape), w), {"size": x.shape[2 - w.ndim :], **sample.attrs}))
    return calls


def _samples_kernel(rng: Any) -> list[Call]:
    calls = []
    for sample in _samples_convolve(rng):
        x, w = sample.args
        y = definitions.convolve(x, w, **sample.attrs)
        calls.append(Call((x, rng.standard_normal(y.shape)), {"kernel": w.shape[2:], **sample.attrs}))
    return calls


# -- the ops


def _conj(a: Any) -> Any:
    return TABLE["conj"](a) if a.dtype.kind == "c" else a


convolve: Op = op(
    "convolve(x, w; stride, padding, dilation, groups)",
    _convolve,
    infer=_infer_convolve,
    facts={
        "x": Linear(
            lambda ct, w, x_shape, stride, padding, dilation, groups: convolve_transpose(
                ct,
                _conj(w),
                size=x_shape[-len(stride) :],
                stride=stride,
                padding=padding,
                dilation=dilation,
                groups=groups,
            )
        ),
        "w": Linear(
            lambda ct, x, w_shape, stride, padding, dilation, groups: convolve_kernel(
                _conj(x), ct, kernel=w_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups
            )
        ),
    },
    doc="Cross-correlation of x (*batch, C, *S) with a kernel w (O, C / groups, *K).",
    source="Dumoulin & Visin 2016, A guide to convolution arithmetic for deep learning",
    samples=_samples_convolve,
    reference=definitions.convolve,
    native=Missing("an implicit matrix product, not a scalar expression"),
    onnx="Conv",
)

convolve_transpose: Op = op(
    "convolve_transpose(y, w; size, stride, padding, dilation, groups)",
    _convolve_transpose,
    infer=_infer_transpose,
    facts={
        "y": Linear(
            lambda ct, w, stride, padding, dilation, groups: convolve(
                ct, _conj(w), stride=stride, padding=padding, dilation=dilation, groups=groups
            )
        ),
        "w": Linear(
            lambda ct, y, w_shape, stride, padding, dilation, groups: convolve_kernel(
                ct, _conj(y), kernel=w_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups
            )
        ),
    },
    doc="The transpose of convolve in its input: y (*batch, O, *out) to x (*batch, C, *size).",
    source="Dumoulin & Visin 2016, A guide to convolution arithmetic for deep learning",
    samples=_samples_transpose,
    reference=definitions.convolve_transpose,
    native=Missing("an implicit matrix product, not a scalar expression"),
    onnx="ConvTranspose",
)

convolve_kernel: Op = op(
    "convolve_kernel(x, y; kernel, stride, padding, dilation, groups)",
    _convolve_kernel,
    infer=_infer_kernel,
    facts={
        "x": Linear(
            lambda ct, y, x_shape, stride, padding, dilation, groups: convolve_transpose(
                _conj(y),
                ct,
                size=x_shape[-len(stride) :],
                stride=stride,
                padding=padding,
                dilation=dilation,
                groups=groups,
            )
        ),
        "y": Linear(
            lambda ct, x, stride, padding, dilation, groups: convolve(
                _conj(x), ct, stride=stride, padding=padding, dilation=dilation, groups=groups
            )
        ),
    },
    doc="The transpose of convolve in its kernel: x and a cotangent y of its result to w's shape.",
    samples=_samples_kernel,
    reference=definitions.convolve_kernel,
    native=Missing("an implicit matrix product, not a scalar expression"),
    onnx=Missing("no such operator"),
)


# -- the functions


def _operands(name: str, x: Any, weight: Any, bias: Any, ndim: int) -> list[Tensor]:
    """Input, kernel and, unless None, bias, in their common dtype and with fitting numbers of dimensions."""
    found = promote_tensors(name, *(a for a in (x, weight, bias) if a is not None))
    if category(found[0].dtype) == 0:
        fail(DTypeError, f"{name} takes numbers, not bool", "Cast first: x.astype(wg.float32).")
    if found[0].ndim not in (ndim + 1, ndim + 2):
        fail(
            ShapeError,
            f"{name}: an input of shape {found[0].shape} with a kernel of shape {found[1].shape}",
            f"{name} takes an input of {ndim + 1} dimensions (C, ...) or {ndim + 2} (N, C, ...).",
        )
    return found


def _groups(groups: Any, name: str) -> int:
    if isinstance(groups, bool) or not isinstance(groups, (int, np.integer)) or groups < 1:
        fail(ShapeError, f"{name}: groups={groups!r} must be an int of at least 1")
    return int(groups)


def _with_bias(y: Tensor, bias: Tensor | None, channels: int, ndim: int, name: str) -> Tensor:
    if bias is None:
        return y
    if bias.shape != (channels,):
        fail(ShapeError, f"{name}: a bias of shape {bias.shape} for {channels} output channels")
    return elementwise_general(TABLE["add"], (y, bias.reshape((channels,) + (1,) * ndim)))


def _pads(padding: Any, kernel: Shape, stride: Shape, dilation: Shape, name: str) -> Pads:
    if not isinstance(padding, str):
        return tuple((p, p) for p in int_tuple(padding, len(kernel), "padding", 0))
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding != "same":
        fail(ShapeError, f'{name}: padding={padding!r}; a name must be "same" or "valid"')
    if any(s != 1 for s in stride):
        fail(ShapeError, f'{name}: padding="same" with stride={stride}', 'padding="same" needs a stride of 1.')
    totals = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return tuple((t // 2, t - t // 2) for t in totals)


def _conv(ndim: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any) -> Tensor:
    name = f"conv{ndim}d"
    x, weight, *rest = _operands(name, x, weight, bias, ndim)
    strides, dilations = int_tuple(stride, ndim, "stride", 1), int_tuple(dilation, ndim, "dilation", 1)
    attrs = {
        "stride": strides,
        "padding": _pads(padding, weight.shape[2:], strides, dilations, name),
        "dilation": dilations,
        "groups": _groups(groups, name),
    }
    y = bind(convolve, (x, weight), attrs)
    return _with_bias(y, rest[0] if rest else None, weight.shape[0], ndim, name)


def _conv_transpose(
    ndim: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: Any,
    dilation: Any,
) -> Tensor:
    name = f"conv_transpose{ndim}d"
    x, weight, *rest = _operands(name, x, weight, bias, ndim)
    strides, dilations = int_tuple(stride, ndim, "stride", 1), int_tuple(dilation, ndim, "dilation", 1)
    pads, extra = int_tuple(padding, ndim, "padding", 0), int_tuple(output_padding, ndim, "output_padding", 0)
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations)):
        fail(
            ShapeError,
            f"{name}: output_padding={extra} with stride={strides} and dilation={dilations}",
            "output_padding must be smaller than the stride or the dilation.",
        )
    groups = _groups(groups, name)
    _check_channels(x, weight, groups, ndim, 0, name)
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(x.shape[-ndim:], strides, pads, dilations, weight.shape[2:], extra)
    )
    attrs = {
        "size": size,
        "stride": strides,
        # The rows that output_padding adds take part in no window unless a wider one reaches them:
        # a convolution back then sees that much less padding.
        "padding": tuple((p, p - e) for p, e in zip(pads, extra)),
        "dilation": dilations,
        "groups": groups,
    }
    y = bind(convolve_transpose, (x, weight), attrs)
    return _with_bias(y, rest[0] if rest else None, weight.shape[1] * groups, ndim, name)


@public
def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (cross-correlation) over one dimension: :func:`conv2d` for signals.

    Parameters
    ----------
    x: (N, C, L) or (C, L).
    weight: (O, C / groups, K).
    bias: (O,) or None.

    Returns (N, O, L') or (O, L'). Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.conv1d(wg.tensor([[1.0, 2.0, 4.0, 8.0]]), wg.tensor([[[-1.0, 1.0]]]))
    tensor([[1., 2., 4.]])
    """
    return _conv(1, x, weight, bias, stride, padding, dilation, groups)


@public
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (cross-correlation) over two dimensions.

    Parameters
    ----------
    x: (N, C, H, W) or (C, H, W).
    weight: (O, C / groups, KH, KW).
    bias: (O,) or None.
    stride, dilation: an int, or one for each dimension.
    padding: zeros on both sides, an int or one for each dimension; "valid" for none, "same" for
        as much as keeps the size (stride 1; the odd one goes to the end).
    groups: input and output channels are split into that many groups that do not mix.

    Returns (N, O, H', W') or (O, H', W'), H' = (H + 2 padding - dilation (KH - 1) - 1) // stride + 1.

    Raises ShapeError where channels, groups or sizes do not fit, DTypeError for booleans.

    Source: LeCun et al. 1989, Backpropagation applied to handwritten zip code recognition.

    >>> import wengert as wg
    >>> x = wg.tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]])
    >>> wg.conv2d(x, wg.tensor([[[[1.0, 0.0], [0.0, -1.0]]]]))
    tensor([[[-4., -4.],
             [-4., -4.]]])
    """
    return _conv(2, x, weight, bias, stride, padding, dilation, groups)


@public
def conv3d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (cross-correlation) over three dimensions: :func:`conv2d` for volumes.

    Parameters
    ----------
    x: (N, C, D, H, W) or (C, D, H, W).
    weight: (O, C / groups, KD, KH, KW).
    bias: (O,) or None.

    Returns (N, O, D', H', W') or (O, D', H', W'). Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.conv3d(wg.ones((1, 1, 3, 4, 5)), wg.ones((2, 1, 2, 2, 2))).shape
    (1, 2, 2, 3, 4)
    """
    return _conv(3, x, weight, bias, stride, padding, dilation, groups)


@public
def conv_transpose1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """Transposed convolution over one dimension: :func:`conv_transpose2d` for signals.

    Parameters
    ----------
    x: (N, C, L) or (C, L).
    weight: (C, O / groups, K).
    bias: (O,) or None.

    Returns (N, O, L') or (O, L'). Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.conv_transpose1d(wg.tensor([[1.0, 2.0]]), wg.tensor([[[1.0, 1.0]]]), stride=2)
    tensor([[1., 1., 2., 2.]])
    """
    return _conv_transpose(1, x, weight, bias, stride, padding, output_padding, groups, dilation)


@public
def conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """Transposed convolution over two dimensions: the gradient of :func:`conv2d` in its input.

    Parameters
    ----------
    x: (N, C, H, W) or (C, H, W).
    weight: (C, O / groups, KH, KW).
    bias: (O,) or None.
    stride, padding, dilation, groups: those of the convolution that it is the transpose of.
    output_padding: rows and columns to add at the end, of the several sizes that the convolution
        maps to the same one; smaller than the stride or the dilation.

    Returns (N, O, H', W') or (O, H', W'),
    H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1.

    Raises ShapeError, DTypeError.

    Source: Zeiler et al. 2010, Deconvolutional networks.

    >>> import wengert as wg
    >>> wg.conv_transpose2d(wg.ones((1, 2, 4, 4)), wg.ones((2, 3, 3, 3)), stride=2, output_padding=1).shape
    (1, 3, 10, 10)
    """
    return _conv_transpose(2, x, weight, bias, stride, padding, output_padding, groups, dilation)
