"""Images and volumes resized, sampled at given points, and rearranged.

Resizing goes one dimension at a time: every result is a weighted sum of a few elements, whose places and weights depend
on sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import DTypeError, GraphError, ShapeError, fail
from ...core.ops.autocast import computed_in
from ...core.storage import leave
from ...core.tensor import Tensor, asarray
from ...ops.index.formats import in_rows, with_channels_last
from .pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

# The numbers of spatial dimensions that a mode is for.
_MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
    "area": (1, 2, 3),
}
_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
_CUBIC = -0.75
# Pillow's, which antialiasing agrees with.
_CUBIC_FILTER = -0.5


# -- resizing


def _near(t: Any, a: float) -> Any:
    """Return Keys' weight of an element at a distance of at most 1; arrays and tensors do alike."""
    return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0


def _far(t: Any, a: float) -> Any:
    """Return Keys' weight of an element at a distance from 1 to 2."""
    return ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a


def _cubic_weights(t: Any) -> list[Any]:
    """Return the weights of the four elements around a point, which is `t` after the second."""
    return [_far(t + 1.0, _CUBIC), _near(t, _CUBIC), _near(1.0 - t, _CUBIC), _far(2.0 - t, _CUBIC)]


def _nearest(size: int, out: int, scale: float | None, exact: bool, image: bool) -> tuple[Any, None]:
    # In single precision whatever the dtype: so it is decided which element is the nearest.
    step = np.float32(1.0 / scale) if scale else np.float32(size) / np.float32(out)
    i = np.arange(out)
    if exact:
        at = np.floor((i + 0.5).astype(np.float32) * step)
    elif image and out in (size, 2 * size):  # in two dimensions a scale factor near these sizes plays no part
        at = i * size // out
    else:
        at = np.floor(i.astype(np.float32) * step)
    return np.minimum(at.astype(np.int64), size - 1)[:, None], None


def _sources(size: int, out: int, scale: float | None, align_corners: bool) -> Any:
    """Return where in the input the result's elements lie."""
    i = np.arange(out)
    if align_corners:
        return i * ((size - 1) / (out - 1) if out > 1 else 0.0)
    return (i + 0.5) * (1.0 / scale if scale else size / out) - 0.5


def _linear(size: int, out: int, scale: float | None, align_corners: bool) -> tuple[Any, Any]:
    at = np.maximum(_sources(size, out, scale, align_corners), 0.0)
    low = np.minimum(np.floor(at).astype(np.int64), size - 1)
    t = np.clip(at - low, 0.0, 1.0)
    return np.stack([low, np.minimum(low + 1, size - 1)], -1), np.stack([1.0 - t, t], -1)


def _cubic(size: int, out: int, scale: float | None, align_corners: bool) -> tuple[Any, Any]:
    at = _sources(size, out, scale, align_corners)
    low = np.floor(at)
    places = low.astype(np.int64)[:, None] + np.arange(-1, 3)
    return np.clip(places, 0, size - 1), np.stack(_cubic_weights(at - low), -1)


def _antialiased(size: int, out: int, scale: float | None, align_corners: bool, cubic: bool) -> tuple[Any, Any]:
    """Return places and weights of a filter that is as wide as the step between results, where that is above 1."""
    if align_corners:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = 1.0 / scale if scale else size / out
    support = (2.0 if cubic else 1.0) * max(step, 1.0)
    centers = step * (np.arange(out) + 0.5)
    starts = np.maximum((centers - support + 0.5).astype(np.int64), 0)
    ends = np.minimum((centers + support + 0.5).astype(np.int64), size)
    places = starts[:, None] + np.arange(max(int((ends - starts).max(initial=1)), 1))
    t = np.abs((places - centers[:, None] + 0.5) / max(step, 1.0))
    if cubic:
        weights = np.where(t < 1.0, _near(t, _CUBIC_FILTER), np.where(t < 2.0, _far(t, _CUBIC_FILTER), 0.0))
    else:
        weights = np.maximum(1.0 - t, 0.0)
    weights = np.where(places < ends[:, None], weights, 0.0)
    totals = weights.sum(-1, keepdims=True)
    weights = np.divide(weights, totals, out=weights, where=totals != 0)
    return np.minimum(places, size - 1), weights


def _summed(x: Any, axis: int, places: Any, weights: Any) -> Any:
    """Return weighted sums of elements along an axis, by their places and weights, (results, elements) each."""
    if weights is None:
        return wg.take(x, places[:, 0], axis)
    total: Any = None
    for k in range(places.shape[1]):
        column = weights[:, k].astype(x.dtype).reshape((-1,) + (1,) * (-axis - 1))
        part = wg.take(x, places[:, k], axis) * asarray(column)
        total = part if total is None else total + part
    return total


def _output_size(
    x: Tensor, ndim: int, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], list[float | None]]:
    """Return the result's size, and for each dimension the scale that was given."""
    if (size is None) == (scale_factor is None):
        fail(GraphError, f"interpolate: size={size!r} and scale_factor={scale_factor!r}", "Give one of them.")
    given = scale_factor if size is None else size
    if isinstance(given, Tensor):
        given = given.tolist()
    each = tuple(given) if isinstance(given, (tuple, list)) else (given,) * ndim
    if len(each) != ndim:
        fail(ShapeError, f"interpolate: {given!r} has {len(each)} entries for {ndim} spatial dimensions")
    if size is not None:
        if recompute:
            fail(GraphError, "interpolate: recompute_scale_factor=True with a size", "Give a scale_factor.")
        return tuple(int(n) for n in each), [None] * ndim
    out = tuple(math.floor(float(n) * float(s)) for n, s in zip(x.shape[-ndim:], each))
    return out, [None] * ndim if recompute else [float(s) for s in each]


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return the input at another size.

    Parameters
    ----------
    input: (N, C, *sizes) with one, two or three sizes; floating, for the modes "nearest" of any dtype.
    size: the result's size, an int or one for each dimension.
    scale_factor: in place of it the size in parts of the input's.
    mode: "nearest", "nearest-exact", "area", or "linear", "bilinear", "bicubic", "trilinear" for as many dimensions.
    align_corners: whether the first and last elements stay where they are (else the edges do); for the linear and cubic
        modes.
    recompute_scale_factor: compute positions by the sizes alone, though a scale factor was given.
    antialias: average over as many elements as a result stands for, in the modes "bilinear" and "bicubic".

    Raises ShapeError, DTypeError, GraphError for options that do not go together.

    >>> import wengert as wg
    >>> wg.nn.functional.interpolate(wg.tensor([[[1.0, 3.0]]]), size=4, mode="linear")
    tensor([[[1. , 1.5, 2.5, 3. ]]])
    """
    x = asarray(input)
    ndim = x.ndim - 2
    if mode not in _MODES:
        fail(GraphError, f"interpolate: there is no mode {mode!r}", f"It is one of {', '.join(_MODES)}.")
    if ndim not in _MODES[mode]:
        fail(ShapeError, f"interpolate: mode {mode!r} of a tensor of shape {tuple(x.shape)}")
    plain = mode in ("nearest", "nearest-exact", "area")
    if plain and align_corners is not None:
        fail(GraphError, f"interpolate: align_corners={align_corners} in mode {mode!r}", "It is for linear and cubic.")
    if antialias and mode not in ("bilinear", "bicubic"):
        fail(GraphError, f"interpolate: antialias=True in mode {mode!r}", 'It is for "bilinear" and "bicubic".')
    out, scales = _output_size(x, ndim, size, scale_factor, recompute_scale_factor)
    if mode == "area":
        return with_channels_last(asarray(_AREA[ndim](x, out)), x)  # type: ignore[no-any-return]
    if min(out) < 1 or min(x.shape[2:]) < 1:
        fail(ShapeError, f"interpolate: from the sizes {tuple(x.shape[2:])} to {out}", "No size may be 0.")
    if not plain and x.dtype.kind in "biu":
        fail(DTypeError, f"interpolate: mode {mode!r} of {x.spec}", "Cast to floating first: x.float().")
    half = not plain and x.dtype.itemsize == 2
    found: Any = x.astype(np.float32) if half else x
    for axis, (n, m, scale) in enumerate(zip(x.shape[2:], out, scales), -ndim):
        if n == m and (antialias or mode in ("linear", "bilinear", "trilinear")):
            continue  # a size that stays is left alone, whatever the scale factor
        if plain:
            places, weights = _nearest(n, m, scale, mode == "nearest-exact", ndim == 2)
        elif antialias:
            places, weights = _antialiased(n, m, scale, bool(align_corners), mode == "bicubic")
        else:
            places, weights = (_cubic if mode == "bicubic" else _linear)(n, m, scale, bool(align_corners))
        found = _summed(found, axis, places, weights)
    return with_channels_last(asarray(found.astype(x.dtype) if half else found), x)  # type: ignore[no-any-return]


def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """Return :func:`interpolate` of the input."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Return :func:`interpolate` of the input in the mode "nearest"."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Return :func:`interpolate` of the input in the mode "bilinear" with `align_corners=True`."""
    return interpolate(input, size, scale_factor, "bilinear", True)


# -- sampling


def _position(c: Any, size: int, align_corners: bool) -> Any:
    """Return coordinates from -1 to 1 as positions among `size` elements."""
    return (c + 1.0) * ((size - 1) / 2) if align_corners else ((c + 1.0) * size - 1.0) / 2


def _clipped(p: Any, size: int) -> Any:
    # At the borders themselves no gradient passes.
    return wg.where(p > 0.0, wg.where(p < size - 1.0, p, size - 1.0), 0.0)


def _within(p: Any, size: int, padding_mode: str, align_corners: bool) -> Any:
    """Return positions as the padding has them: outside ones at the border, or reflected there."""
    if padding_mode == "zeros":
        return p
    if padding_mode == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0.0:
            return p * 0.0
        away = wg.abs(p - low)
        turns = wg.floor(away / span).detach()
        rest = away - turns * span
        p = wg.where(turns % 2.0 == 0.0, rest, span - rest) + low
    return _clipped(p, size)


def _picked(x: Any, positions: Sequence[Any]) -> Any:
    """Return (N, C, points) elements of (N, C, *S) at whole positions, (N, points) for each dimension; 0 outside."""
    size = x.shape[2:]
    flat: Any = 0
    inside: Any = None
    for p, n in zip(positions, size):
        held = (p >= 0.0) & (p <= n - 1.0)
        inside = held if inside is None else inside & held
    for i, p in enumerate(positions):
        flat = flat + wg.where(inside, p, 0.0).astype(np.int64) * math.prod(size[i + 1 :])
    values = wg.take_along_axis(x.reshape((*x.shape[:2], math.prod(size))), wg.expand_dims(flat, 1), -1)
    return wg.where(wg.expand_dims(inside, 1), values, 0.0)


def _sample_linear(x: Any, positions: Sequence[Any]) -> Any:
    lows = [wg.floor(p).detach() for p in positions]
    parts = [p - low for p, low in zip(positions, lows)]
    total: Any = 0.0
    for corner in product((0, 1), repeat=len(lows)):
        weight: Any = 1.0
        for up, t in zip(corner, parts):
            weight = (t if up else 1.0 - t) * weight
        at = [low + float(up) for low, up in zip(lows, corner)]
        total = total + _picked(x, at) * wg.expand_dims(weight, 1)
    return total


def _sample_cubic(x: Any, positions: Sequence[Any], padding_mode: str, align_corners: bool) -> Any:
    lows = [wg.floor(p).detach() for p in positions]
    weights = [_cubic_weights(p - low) for p, low in zip(positions, lows)]
    sizes = x.shape[2:]
    places = [
        [_within(low + float(k), n, padding_mode, align_corners) for k in range(-1, 3)] for low, n in zip(lows, sizes)
    ]
    total: Any = 0.0
    for i, j in product(range(4), repeat=2):
        picked = _picked(x, (wg.floor(places[0][i]), wg.floor(places[1][j])))
        total = total + picked * wg.expand_dims(weights[0][i] * weights[1][j], 1)
    return total


@computed_in("float32", "torch")
def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return the input's values at points of a grid, between its elements interpolated.

    Parameters
    ----------
    input: (N, C, H, W) or (N, C, D, H, W).
    grid: (N, H', W', 2) or (N, D', H', W', 3): points (x, y) or (x, y, z), from -1 to 1 within the input.
    mode: "bilinear" (in volumes it is trilinear), "nearest", or for images "bicubic".
    padding_mode: outside are "zeros", the "border" elements, or the input's "reflection".
    align_corners: whether -1 and 1 are the middles of the outer elements, rather than their edges.

    Returns (N, C, H', W') or (N, C, D', H', W'). Raises ShapeError, DTypeError, GraphError for another mode.

    >>> import wengert as wg
    >>> points = wg.tensor([[[[0.0, 0.0], [1.0, 1.0]]]])
    >>> wg.nn.functional.grid_sample(wg.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), points, align_corners=True)
    tensor([[[[2.5, 4. ]]]])
    """
    x, g = asarray(input), asarray(grid)
    ndim = x.ndim - 2
    if mode not in ("bilinear", "nearest", "bicubic") or padding_mode not in ("zeros", "border", "reflection"):
        fail(GraphError, f"grid_sample: mode={mode!r}, padding_mode={padding_mode!r}")
    fits = ndim in (2, 3) and g.ndim == x.ndim and g.shape[-1] == ndim and g.shape[0] == x.shape[0]
    if not fits or 0 in x.shape[2:] or (mode == "bicubic" and ndim != 2):
        fail(
            ShapeError,
            f"grid_sample: mode {mode!r}, an input of shape {tuple(x.shape)}, a grid of shape {tuple(g.shape)}",
            "An image (N, C, H, W) takes a grid (N, H', W', 2), a volume (N, C, D, H, W) one (N, D', H', W', 3).",
        )
    if x.dtype != g.dtype or x.dtype.kind in "biu":
        fail(DTypeError, f"grid_sample: an input {x.spec} and a grid {g.spec}", "Both are floating, of one dtype.")
    align = bool(align_corners)
    points = g.reshape((g.shape[0], math.prod(g.shape[1:-1]), ndim))
    # The last coordinate is that of the first dimension.
    positions = [_position(points[..., ndim - 1 - i], n, align) for i, n in enumerate(x.shape[2:])]
    if mode == "bicubic":
        found = _sample_cubic(x, positions, padding_mode, align)
    else:
        positions = [_within(p, n, padding_mode, align) for p, n in zip(positions, x.shape[2:])]
        found = _picked(x, [wg.round(p) for p in positions]) if mode == "nearest" else _sample_linear(x, positions)
    return asarray(found.reshape((*x.shape[:2], *g.shape[1:-1])))


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the grid for :func:`grid_sample` that maps a result's points by affine maps.

    Parameters
    ----------
    theta: (N, 2, 3) for images, (N, 3, 4) for volumes.
    size: the result's shape, (N, C, H, W) or (N, C, D, H, W).
    align_corners: as in :func:`grid_sample`.

    Returns (N, H, W, 2) or (N, D, H, W, 3). Raises ShapeError, DTypeError.
    """
    t, out = asarray(theta), tuple(int(n) for n in size)
    ndim = len(out) - 2
    if ndim not in (2, 3) or tuple(t.shape) != (out[0], ndim, ndim + 1) or min(out) < 1:
        fail(ShapeError, f"affine_grid: maps of shape {tuple(t.shape)} for a result of shape {out}")
    if t.dtype.kind in "biu":
        fail(DTypeError, f"affine_grid: maps {t.spec}", "They are floating.")
    axes = []
    for n in out[2:]:
        even = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)
        axes.append(even if align_corners else even * ((n - 1) / n))
    points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(out[2:])], -1)
    base = asarray(points.reshape((1, -1, ndim + 1)).astype(t.dtype))
    return asarray((base @ t.mT).reshape((out[0], *out[2:], ndim)))


# -- rearranging


def _image(name: str, input: Any, least: int) -> Tensor:
    x = asarray(input)
    if x.ndim < least:
        fail(ShapeError, f"{name} of a tensor of shape {tuple(x.shape)}", f"It has {least} dimensions or more.")
    return x


def _own(out: Any) -> Any:
    """Return a result that shares nothing with what it was made from."""
    leave(out)
    return in_rows(out)


def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """Return (..., C r r, H, W) as (..., C, H r, W r): channels become pixels. Source: Shi et al., arXiv:1609.05158.

    Raises ShapeError.
    """
    x, r = _image("pixel_shuffle", input, 3), int(upscale_factor)
    *lead, channels, height, width = x.shape
    if r < 1 or channels % (r * r):
        fail(ShapeError, f"pixel_shuffle by {r} of {channels} channels", "They are a multiple of its square.")
    split = x.reshape((*lead, channels // (r * r), r, r, height, width))
    n = len(lead)
    moved = wg.permute_dims(split, (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    out = asarray(moved.reshape((*lead, channels // (r * r), height * r, width * r)))
    return with_channels_last(_own(out) if r == 1 else out, x)  # type: ignore[no-any-return]


def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """Return (..., C, H r, W r) as (..., C r r, H, W): the reverse of :func:`pixel_shuffle`. Raises ShapeError."""
    x, r = _image("pixel_unshuffle", input, 3), int(downscale_factor)
    *lead, channels, height, width = x.shape
    if r < 1 or height % r or width % r:
        fail(ShapeError, f"pixel_unshuffle by {r} of {height} by {width} pixels", "Both are multiples of it.")
    split = x.reshape((*lead, channels, height // r, r, width // r, r))
    n = len(lead)
    moved = wg.permute_dims(split, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    out = asarray(moved.reshape((*lead, channels * r * r, height // r, width // r)))
    return with_channels_last(_own(out) if r == 1 else out, x)  # type: ignore[no-any-return]


def channel_shuffle(input: Any, groups: int) -> Tensor:
    """Return (N, C, ...) with its channels, which fall into groups, taken in turn from each. Raises ShapeError.

    Source: Zhang et al., arXiv:1707.01083.
    """
    x, g = _image("channel_shuffle", input, 3), int(groups)
    n, channels, *size = x.shape
    if g < 1 or channels % g:
        fail(ShapeError, f"channel_shuffle of {channels} channels in {g} groups", "The groups are equal.")
    split = wg.swapaxes(x.reshape((n, g, channels // g, *size)), 1, 2)
    return _own(split.reshape(tuple(x.shape)))  # type: ignore[no-any-return]


native_channel_shuffle = channel_shuffle
