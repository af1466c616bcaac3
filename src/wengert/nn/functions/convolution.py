"""Convolutions over time first, and windows as columns (`unfold`) and back (`fold`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import ShapeError, fail
from ...core.ops.autocast import computed_in
from ...core.tensor import Tensor, asarray
from ...ops.neural.convolve import conv1d
from ...ops.neural.windows import int_tuple


@computed_in("lower")
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Tensor:
    """Return the convolution of (T, N, C) with kernels (K, C, O) over time, with `pad` zeros at both ends.

    >>> import wengert as wg
    >>> wg.nn.functional.conv_tbc(wg.ones((5, 2, 3)), wg.ones((2, 3, 4)), wg.zeros(4)).shape
    (4, 2, 4)
    """
    x, w = (wg.permute_dims(asarray(a), axes) for a, axes in ((input, (1, 2, 0)), (weight, (2, 1, 0))))
    return wg.permute_dims(conv1d(x, w, bias, padding=pad), (2, 0, 1))


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

    >>> import wengert as wg
    >>> wg.nn.functional.unfold(wg.ones((1, 3, 4, 4)), 2).shape
    (1, 12, 9)
    """
    x = asarray(input)
    if x.ndim not in (3, 4) or 0 in x.shape[-3:]:
        fail(ShapeError, f"unfold of a tensor of shape {tuple(x.shape)}", "It takes (N, C, H, W) or (C, H, W).")
    places, (p, q) = _places("unfold", x.shape[-2:], kernel_size, dilation, padding, stride)
    widths = [*[(0, 0)] * (x.ndim - 2), (p, p), (q, q)]
    padded = wg.pad(x, widths, "constant", False if x.dtype == bool else 0) if p or q else x
    lead = x.shape[:-3]
    flat = padded.reshape((*lead, x.shape[-3], math.prod(padded.shape[-2:])))
    found = wg.take(flat, places.reshape(-1), -1)
    return asarray(found.reshape((*lead, x.shape[-3] * places.shape[0], places.shape[1])))


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

    >>> import wengert as wg
    >>> wg.nn.functional.fold(wg.ones((1, 4, 2)), (2, 3), 2)
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    x = asarray(input)
    size = int_tuple(output_size, 2, "output_size", 1)
    places, (p, q) = _places("fold", size, kernel_size, dilation, padding, stride)
    elements, windows = places.shape
    if x.ndim not in (2, 3) or x.shape[-1] != windows or x.shape[-2] % elements or 0 in x.shape[-2:]:
        fail(ShapeError, f"fold of a tensor of shape {tuple(x.shape)}", f"It takes (N, C {elements}, {windows}).")
    lead, (high, wide) = (*x.shape[:-2], x.shape[-2] // elements), (size[0] + 2 * p, size[1] + 2 * q)
    empty = wg.zeros((*lead, high * wide), dtype=x.dtype)
    columns = x.reshape((*lead, elements * windows))
    padded = wg.index_add(empty, -1, asarray(places.reshape(-1)), columns).reshape((*lead, high, wide))
    return asarray(padded)[..., p : p + size[0], q : q + size[1]]
