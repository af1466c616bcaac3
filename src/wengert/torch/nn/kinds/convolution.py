"""Convolutions with PyTorch's parameters, their transposes, and windows as columns (`unfold`) and back (`fold`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ....core.errors import DTypeError, ShapeError, fail
from ....core.ops.autocast import computed_in
from ....core.ops.record import bind
from ....core.tensor import asarray
from ....nn import functional as plain
from ....ops.index.formats import with_channels_last
from ....ops.neural.convolve import convolve_transpose
from ....ops.neural.windows import int_tuple
from ...namespace import tensor_of
from ...tensor import Tensor

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]

Function = Callable[..., Any]
_LAYOUTS = {1: ("L", "K"), 2: ("H, W", "KH, KW"), 3: ("D, H, W", "KD, KH, KW")}


def _convolutions(ndim: int) -> Function:
    name = f"conv{ndim}d"
    convolve = getattr(plain, name)

    def conv(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        x, w = tensor_of(input), tensor_of(weight)
        _check(name, x, w)
        out = convolve(x, w, bias, stride, padding, dilation, groups)
        return with_channels_last(with_channels_last(out, x), w)

    sizes, kernel = _LAYOUTS[ndim]
    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = f"""Return the convolution (cross-correlation) of the input with kernels.

    Parameters
    ----------
    input: (N, C, {sizes}) or (C, {sizes}).
    weight: (O, C / groups, {kernel}).
    bias: (O,) or None.
    stride, dilation: an int, or one for each dimension.
    padding: the same; or "valid" for none, or "same" for a result of the input's size.
    groups: channels fall into as many groups that do not mix.

    Raises ShapeError, DTypeError.
    """
    return conv


def _check(name: str, x: Tensor, w: Tensor) -> None:
    if x.dtype != w.dtype:
        fail(DTypeError, f"{name}: an input {x.spec} and weights {w.spec}", "Both are of one dtype.")


conv1d, conv2d, conv3d = map(computed_in("lower"), map(_convolutions, (1, 2, 3)))


def _transposed(ndim: int) -> Function:
    name = f"conv_transpose{ndim}d"

    def conv(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        x, w = tensor_of(input), tensor_of(weight)
        _check(name, x, w)
        if x.ndim not in (ndim + 1, ndim + 2) or w.ndim != ndim + 2:
            fail(ShapeError, f"{name} of shapes {tuple(x.shape)} and {tuple(w.shape)}")
        strides, dilations = int_tuple(stride, ndim, "stride", 1), int_tuple(dilation, ndim, "dilation", 1)
        pads, extra = int_tuple(padding, ndim, "padding", 0), int_tuple(output_padding, ndim, "output_padding", 0)
        if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations)):
            fail(ShapeError, f"{name}: output_padding={extra}", "It is smaller than the stride or the dilation.")
        size = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, s, p, d, k, e in zip(x.shape[-ndim:], strides, pads, dilations, w.shape[2:], extra)
        )
        if min(size) < 1:
            fail(ShapeError, f"{name}: a result of size {size}", "Use less padding.")
        # What output_padding adds at the end the convolution has the less padding there.
        padded = tuple((p, p - e) for p, e in zip(pads, extra))
        attrs = {"padding": padded, "dilation": dilations, "groups": int(groups)}
        y = bind(convolve_transpose, (x, w), {"size": size, "stride": strides, **attrs})
        if bias is not None:
            y = y + tensor_of(bias).reshape((-1,) + (1,) * ndim)
        return with_channels_last(with_channels_last(y, x), w)

    sizes, kernel = _LAYOUTS[ndim]
    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = f"""Return the transposed convolution: the gradient of :func:`conv{ndim}d` in its input.

    Parameters
    ----------
    input: (N, C, {sizes}) or (C, {sizes}).
    weight: (C, O / groups, {kernel}).
    bias: (O,) or None.
    stride, padding, groups, dilation: those of the convolution.
    output_padding: what is added at the end, of the several sizes that the convolution maps to the same one.

    Raises ShapeError, DTypeError.
    """
    return conv


conv_transpose1d, conv_transpose2d, conv_transpose3d = map(computed_in("lower"), map(_transposed, (1, 2, 3)))


@computed_in("lower")
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Tensor:
    """Return the convolution of (T, N, C) with kernels (K, C, O) over time, with `pad` zeros at both ends."""
    x, w = (wg.permute_dims(tensor_of(a), axes) for a, axes in ((input, (1, 2, 0)), (weight, (2, 1, 0))))
    return tensor_of(wg.permute_dims(conv1d(x, w, bias, padding=pad), (2, 0, 1)))


# -- windows as columns


def _places(name: str, size: tuple[int, ...], *options: Any) -> tuple[Any, tuple[int, ...]]:
    """Return where windows of an image lie in it with its padding, (elements, windows), flat; and that padding."""
    kernel, dilation, padding, stride = (
        int_tuple(value, 2, what, least)
        for value, what, least in zip(options, ("kernel_size", "dilation", "padding", "stride"), (1, 1, 0, 1))
    )
    padded = [n + 2 * p for n, p in zip(size, padding)]
    out = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(padded, kernel, dilation, stride)]
    if min(out) < 1:
        fail(ShapeError, f"{name}: windows of size {kernel} (dilation {dilation}) do not fit an image of {padded}")
    rows, columns = (
        (np.arange(k) * d)[:, None] + np.arange(m) * s for k, d, m, s in zip(kernel, dilation, out, stride)
    )
    flat = rows[:, None, :, None] * padded[1] + columns[None, :, None, :]
    return flat.reshape(math.prod(kernel), math.prod(out)), padding


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Return the windows of images as columns.

    Parameters
    ----------
    input: (N, C, H, W) or (C, H, W).
    kernel_size: an int or a pair; so are the others, which are those of a convolution.

    Returns (N, C KH KW, windows), or without N. Raises ShapeError.
    """
    x = tensor_of(input)
    if x.ndim not in (3, 4) or 0 in x.shape[-3:]:
        fail(ShapeError, f"unfold of a tensor of shape {tuple(x.shape)}", "It takes (N, C, H, W) or (C, H, W).")
    places, (p, q) = _places("unfold", x.shape[-2:], kernel_size, dilation, padding, stride)
    widths = [*[(0, 0)] * (x.ndim - 2), (p, p), (q, q)]
    padded = wg.pad(x, widths, "constant", False if x.dtype == bool else 0) if p or q else x
    lead = x.shape[:-3]
    flat = padded.reshape((*lead, x.shape[-3], math.prod(padded.shape[-2:])))
    found = wg.take(flat, places.reshape(-1), -1)
    return tensor_of(found.reshape((*lead, x.shape[-3] * places.shape[0], places.shape[1])))


def fold(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Return images in which the columns that :func:`unfold` makes are added up where their windows lie.

    Parameters
    ----------
    input: (N, C KH KW, windows), or without N.
    output_size: the image's size, an int or a pair.
    kernel_size, dilation, padding, stride: as in :func:`unfold`.

    Returns (N, C, H, W) or (C, H, W). Raises ShapeError.
    """
    x = tensor_of(input)
    size = int_tuple(output_size, 2, "output_size", 1)
    places, (p, q) = _places("fold", size, kernel_size, dilation, padding, stride)
    elements, windows = places.shape
    if x.ndim not in (2, 3) or x.shape[-1] != windows or x.shape[-2] % elements or 0 in x.shape[-2:]:
        fail(ShapeError, f"fold of a tensor of shape {tuple(x.shape)}", f"It takes (N, C {elements}, {windows}).")
    lead, (high, wide) = (*x.shape[:-2], x.shape[-2] // elements), (size[0] + 2 * p, size[1] + 2 * q)
    empty = wg.zeros((*lead, high * wide), dtype=x.dtype)
    columns = x.reshape((*lead, elements * windows))
    padded = wg.index_add(empty, -1, asarray(places.reshape(-1)), columns).reshape((*lead, high, wide))
    return tensor_of(padded)[..., p : p + size[0], q : q + size[1]]  # type: ignore[return-value]


def __dir__() -> list[str]:
    return sorted(__all__)
