"""Operators of images: resizing, sampling, regions, boxes."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import wengert as wg

from ....core.dims import Dim
from ....core.spec import category
from ..errors import refuse
from ..registry import operator
from ..values import Known, ints
from .casts import values_of
from .contract import Windows
from .structure import axes_of

# -- resizing, axis by axis


def _coordinates(mode: str, n: int, out: int, scale: float, roi: tuple[float, float]) -> Any:
    """Return where the elements of the result lie between those of an operand of `n`.

    The length of the result is a whole number, also where the scale gives none: its corners are those of the operand.
    """
    at = np.arange(out, dtype=np.float64)
    if mode == "half_pixel":
        return (at + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (at + 0.5) / scale - 0.5 if out > 1 else np.full(out, -0.5)
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return at * (n - 1) / (out - 1) if out > 1 else np.zeros(out)
    if mode == "tf_half_pixel_for_nn":
        return (at + 0.5) / scale
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - out / (scale * n)) + (at + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        start, end = roi
        if out > 1:
            return start * (n - 1) + at * (end - start) * (n - 1) / (out - 1)
        return np.full(out, 0.5 * (start + end) * (n - 1))
    refuse(f"coordinate_transformation_mode is {mode!r}")


def _cubic(distance: Any, a: float) -> Any:
    x = np.abs(distance)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _taps(at: Any, n: int, scale: float, mode: str, a: float, antialias: bool, exclude: bool) -> tuple[Any, Any]:
    """Return for each element of the result the places and weights of what it is the sum of."""
    stretch = min(scale, 1.0) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    first = np.floor(at - reach).astype(np.int64) + 1
    count = math.ceil(2 * reach) + (1 if antialias else 0)
    places = first[:, None] + np.arange(count)
    distance = (places - at[:, None]) * stretch
    weights = np.clip(1 - np.abs(distance), 0, 1) if mode == "linear" else _cubic(distance, a)
    if exclude:
        weights = np.where((places >= 0) & (places < n), weights, 0.0)
    total = weights.sum(1, keepdims=True)
    if exclude or antialias:
        weights = weights / np.where(total == 0, 1, total)
    return np.clip(places, 0, n - 1), weights


def _nearest(at: Any, n: int, rounding: str) -> Any:
    if rounding == "round_prefer_floor":
        found = np.ceil(at - 0.5)
    elif rounding == "round_prefer_ceil":
        found = np.floor(at + 0.5)
    elif rounding == "floor":
        found = np.floor(at)
    elif rounding == "ceil":
        found = np.ceil(at)
    else:
        refuse(f"nearest_mode is {rounding!r}")
    return np.clip(found, 0, n - 1).astype(np.int64)


def resized(
    x: Any,
    out: Sequence[int],
    scales: Sequence[float],
    rois: Sequence[tuple[float, float]],
    mode: str,
    coordinates: str,
    rounding: str,
    a: float,
    antialias: bool,
    exclude: bool,
    outside: float,
) -> Any:
    """Return `x` with each axis resized."""
    if mode not in ("nearest", "linear", "cubic"):
        refuse(f"mode is {mode!r}, and none of nearest, linear, cubic")
    wide = x if (category(x.dtype) == 2 and x.dtype.itemsize >= 4) or mode == "nearest" else x.astype(wg.float32)
    shown: Any = None
    for axis, (n, m, scale) in enumerate(zip(x.shape, out, scales)):
        if n == m and scale == 1 and coordinates != "tf_crop_and_resize":
            continue
        if n == 0:
            refuse(f"axis {axis} is empty")
        _whole(n, axis)
        at = _coordinates(coordinates, n, m, scale, rois[axis])
        if mode == "nearest":
            wide = wg.take(wide, wg.asarray(_nearest(at, n, rounding)), axis)
        else:
            places, weights = _taps(at, n, scale, mode, a, antialias, exclude)
            shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))
            total = None
            for tap in range(places.shape[1]):
                part = wg.take(wide, wg.asarray(places[:, tap]), axis)
                part = part * wg.asarray(weights[:, tap].astype(wide.dtype)).reshape(shape)
                total = part if total is None else total + part
            wide = total
        if coordinates == "tf_crop_and_resize":
            inside = (at >= 0) & (at <= n - 1)
            inside = inside.reshape(tuple(-1 if i == axis else 1 for i in range(x.ndim)))
            shown = inside if shown is None else shown & inside
    if shown is not None:
        wide = wg.where(wg.asarray(shown), wide, wg.full((), outside, dtype=wide.dtype))
    if category(x.dtype) == 1 and mode != "nearest":
        info = np.iinfo(x.dtype)
        wide = wg.clip(wg.trunc(wide), info.min, info.max)
    return wide.astype(x.dtype)


def _scales(given: Known | None) -> list[float] | None:
    return None if given is None or given.size == 0 else [float(v) for v in given.ravel()]


@operator("Resize", since=11, static=(1, 2, 3))
def _resize(
    x: Any,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    antialias: int = 0,
    axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    context: Any,
) -> Any:
    where = tuple(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    factors = _scales(scales)
    wanted = None if sizes is None or not sizes.size else list(ints(sizes))
    if (factors is None) == (wanted is None):
        refuse("either scales or sizes must be given")
    given = factors if factors is not None else wanted
    assert given is not None
    if len(given) != len(where) or any(v <= 0 or (not isinstance(v, Dim) and not math.isfinite(v)) for v in given):
        refuse(f"scales or sizes {given[:8]} do not fit {len(where)} axes")
    out, by = list(x.shape), [1.0] * x.ndim
    if wanted is not None:
        ratios = [_ratio(w, x.shape[i], i) for i, w in zip(where, wanted)]
        if keep_aspect_ratio_policy == "stretch":
            for i, w, ratio in zip(where, wanted, ratios):
                out[i], by[i] = w, ratio
        elif keep_aspect_ratio_policy in ("not_larger", "not_smaller"):
            one = min(ratios) if keep_aspect_ratio_policy == "not_larger" else max(ratios)
            for i in where:
                if one != 1.0:
                    _whole(x.shape[i], i)
                    out[i] = math.floor(one * x.shape[i] + 0.5)
                by[i] = one
        else:
            refuse(f"keep_aspect_ratio_policy is {keep_aspect_ratio_policy!r}")
    rois = [(0.0, 1.0)] * x.ndim
    if coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None or roi.size != 2 * len(where):
            refuse("tf_crop_and_resize needs a roi with a start and an end for each axis")
        flat = roi.ravel()
        for j, i in enumerate(where):
            rois[i] = (float(flat[j]), float(flat[j + len(where)]))
    if factors is not None:
        for i, f in zip(where, factors):
            # The region only moves the coordinates, as in other runtimes: the result is of the whole axis' size.
            out[i], by[i] = _scaled(x.shape[i], f, i), f
    context.run.room(math.prod(n for n in out if not isinstance(n, Dim)), x.dtype.itemsize)
    return resized(
        x,
        out,
        by,
        rois,
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(antialias),
        bool(exclude_outside),
        extrapolation_value,
    )


def _whole(n: Any, axis: int) -> None:
    if isinstance(n, Dim):
        refuse(f"axis {axis}, of the open size {n}, is resized", "Give the size in the spec.")


def _scaled(n: Any, factor: float, axis: int) -> Any:
    """Return an axis' size times a factor; a size that is open stays as it is."""
    if factor == 1:
        return n
    _whole(n, axis)
    return math.floor(n * factor)


def _ratio(wanted: Any, n: Any, axis: int) -> float:
    if isinstance(wanted, Dim) or isinstance(n, Dim):
        if wanted != n:
            _whole(wanted if isinstance(wanted, Dim) else n, axis)
        return 1.0
    return float(wanted / n)


def _old_resize(x: Any, factors: Sequence[float] | None, mode: str, context: Any) -> Any:
    if factors is None or len(factors) != x.ndim or any(not 0 < f < 1e9 for f in factors):
        refuse(f"scales {factors} do not fit {x.ndim} axes")
    out = [_scaled(n, f, i) for i, (n, f) in enumerate(zip(x.shape, factors))]
    context.run.room(math.prod(n for n in out if not isinstance(n, Dim)), x.dtype.itemsize)
    mode = {"bilinear": "linear"}.get(mode, mode)
    rois = [(0.0, 1.0)] * x.ndim
    return resized(x, out, factors, rois, mode, "asymmetric", "floor", -0.75, False, False, 0.0)


@operator("Resize", "Upsample", since=9, static=(1,))
def _resize_10(x: Any, scales: Any, *, mode: str = "nearest", context: Any) -> Any:
    return _old_resize(x, _scales(scales), mode, context)


@operator("Upsample", since=7)
def _upsample(x: Any, *, scales: Any, mode: str = "nearest", context: Any) -> Any:
    return _old_resize(x, scales, mode, context)


# -- sampling at places


def _reflected(at: Any, low: float, high: float) -> Any:
    span = max(high - low, 1e-9)
    away = wg.abs(at - low)
    turns = wg.floor(away / span)
    rest = away - turns * span
    return wg.where(wg.remainder(turns, 2) == 0, low + rest, high - rest)


def sampled(x: Any, at: Sequence[Any], mode: str, padding: str, align: bool) -> Any:
    """Return elements of `x` (n, c, ...) at real places, one array (n, p) for each axis, as (n, c, p)."""
    size = tuple(x.shape[2:])
    borders = [(0.0, n - 1.0) if align else (-0.5, n - 0.5) for n in size]
    flat = x.reshape((*x.shape[:2], -1))
    axes = []
    for place, n, (low, high) in zip(at, size, borders):
        if mode == "nearest":
            place = wg.round(place)
        # A cubic goes through what lies around the place itself: of its taps each is moved inside, below.
        if padding == "border" and mode != "cubic":
            place = wg.clip(place, 0, n - 1)
        elif padding == "reflection":
            outside = wg.logical_or(place < low, place > high)
            place = wg.where(outside, _reflected(place, low, high), place)
        if mode == "nearest":
            axes.append([(place, None)])
            continue
        start = wg.floor(place)
        part = place - start
        if mode == "linear":
            axes.append([(start, 1 - part), (start + 1, part)])
        else:
            axes.append([(start + k, _cubic_tensor(part - k)) for k in (-1, 0, 1, 2)])
    total = None
    for taps in itertools.product(*axes):
        index: Any = 0
        weight: Any = None
        for (place, share), n, (low, high) in zip(taps, size, borders):
            inside = wg.logical_and(place >= 0, place <= n - 1)
            if padding == "zeros":
                factor = inside.astype(x.dtype)
                weight = factor if weight is None else weight * factor
            elif padding == "reflection":
                place = wg.trunc(wg.where(inside, place, _reflected(place, low, high)))
            if share is not None:
                weight = share if weight is None else weight * share
            index = index * n + wg.clip(place, 0, n - 1).astype(wg.int64)
        places = wg.broadcast_to(wg.expand_dims(index, 1), (*x.shape[:2], index.shape[-1]))
        value = wg.take_along_axis(flat, places, 2)
        value = value if weight is None else value * wg.expand_dims(weight, 1).astype(x.dtype)
        total = value if total is None else total + value
    return total


def _cubic_tensor(distance: Any, a: float = -0.75) -> Any:
    x = wg.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return wg.where(x <= 1, near, far)


@operator("GridSample")
def _grid_sample(
    x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Any:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    ndim = x.ndim - 2
    if mode not in ("nearest", "linear", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        refuse(f"mode is {mode!r} and padding_mode {padding_mode!r}")
    if grid.ndim != x.ndim or grid.shape[-1] != ndim or grid.shape[0] != x.shape[0] or not 1 <= ndim <= 3:
        refuse(f"a grid of shape {tuple(grid.shape)} does not fit an operand of shape {tuple(x.shape)}")
    at = []
    for i, n in enumerate(x.shape[2:]):
        # The last coordinate is the first axis'.
        place = grid[..., ndim - 1 - i].reshape((grid.shape[0], -1)).astype(x.dtype)
        at.append((place + 1) / 2 * (n - 1) if align_corners else ((place + 1) * n - 1) / 2)
    return sampled(x, at, mode, padding_mode, bool(align_corners)).reshape((*x.shape[:2], *grid.shape[1:-1]))


# ONNX's own definition by other operators loses the axis of a batch of one.
@operator("AffineGrid", static=(1,))
def _affine_grid(theta: Any, size: Known, *, align_corners: int = 0) -> Any:
    n, _, *image = (int(v) for v in size.ravel())
    ndim = len(image)
    if ndim not in (2, 3) or tuple(theta.shape) != (n, ndim, ndim + 1):
        refuse(f"an affine map of shape {tuple(theta.shape)} does not fit a grid for {size.ravel().tolist()}")
    lines = []
    for m in image:
        at = np.arange(m)
        lines.append((2 * at - (m - 1)) / max(m - 1, 1) if align_corners else (2 * at + 1) / m - 1)
    # The last axis' coordinate comes first.
    places = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(image)], -1)
    flat = wg.asarray(places.reshape(-1, ndim + 1).astype(theta.dtype))
    return (flat @ wg.matrix_transpose(theta)).reshape((n, *image, ndim))


@operator("DeformConv")
def _deform_conv(
    x: Any,
    w: Any,
    offset: Any,
    b: Any = None,
    mask: Any = None,
    *,
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    offset_group: int = 1,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    size, kernel = tuple(x.shape[2:]), tuple(w.shape[2:])
    windows = Windows(size, kernel, strides, dilations, pads, "NOTSET")
    n, channels = x.shape[:2]
    ndim, count, out = len(size), math.prod(kernel), windows.out
    if channels % offset_group or channels != w.shape[1] * group or w.shape[0] % group:
        refuse(f"{channels} channels in {group} groups do not fit weights of shape {tuple(w.shape)}")
    if tuple(offset.shape) != (n, offset_group * count * ndim, *out):
        refuse(f"offsets of shape {tuple(offset.shape)} do not fit {offset_group} groups, {kernel} and {out}")
    moved = offset.reshape((n, offset_group, count, ndim, *out))
    shares = None if mask is None else mask.reshape((n, offset_group, 1, -1))
    grids = np.meshgrid(*(np.arange(o) * s - p for o, s, p in zip(out, windows.strides, windows.before)), indexing="ij")
    inner = np.meshgrid(*(np.arange(k) * d for k, d in zip(kernel, windows.dilations)), indexing="ij")
    each = channels // offset_group
    columns = []
    for g in range(offset_group):
        at = []
        for i in range(ndim):
            base = inner[i].reshape((count, *(1,) * ndim)) + grids[i][None]
            place = moved[:, g, :, i] + wg.asarray(base.astype(x.dtype))
            at.append(place.reshape((n, -1)))
        values = sampled(x[:, g * each : (g + 1) * each], at, "linear", "zeros", True)
        columns.append(values if shares is None else values * shares[:, g])
    together = wg.concat(columns, 1).reshape((n, group, channels // group * count, math.prod(out)))
    weights = w.reshape((group, w.shape[0] // group, -1))
    result = wg.matmul(weights, together).reshape((n, w.shape[0], *out))
    return result if b is None else result + b.reshape((-1, *(1,) * ndim))


# -- regions


@operator("RoiAlign", prefers=(1, 2))
def _roi_align(
    x: Any,
    rois: Any,
    batches: Any,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    context: Any,
) -> Any:
    half = (
        coordinate_transformation_mode or ("half_pixel" if context.opset >= 16 else "output_half_pixel")
    ) == "half_pixel"
    if mode not in ("avg", "max") or output_height < 1 or output_width < 1 or sampling_ratio < 0 or rois.ndim != 2:
        refuse(f"mode is {mode!r} for {output_height} x {output_width}")
    if rois.is_abstract or batches.is_abstract:
        if not sampling_ratio and mode == "max":
            refuse(
                "sampling_ratio is 0: how many samples a region has depends on its size, which is traced",
                "Give a sampling_ratio, or the regions as constants.",
            )

        def one(roi: Any, batch: Any) -> Any:
            corners = roi.astype(wg.float64) * spatial_scale - (0.5 if half else 0.0)
            left, top, right, bottom = (corners[i] for i in range(4))
            axes = list(zip((top, left), (bottom, right), (output_height, output_width), x.shape[2:]))
            if not sampling_ratio:
                down, across = (_mean_of_samples(*axis, half).astype(x.dtype) for axis in axes)
                picked = wg.take(x, batch, 0)
                means = _weighed(wg.expand_dims(picked, 1), wg.expand_dims(down, 2), 2)
                return _weighed(wg.expand_dims(means, 2), across, 3)
            taps = []
            for start, end, count, n in axes:
                extent = end - start if half else wg.maximum(end - start, 1.0)
                steps = wg.asarray((np.arange(count * sampling_ratio) + 0.5) / (count * sampling_ratio))
                taps.append(_region_taps(start + steps * extent, n))
            return _pooled(wg.take(x, batch, 0), taps, (sampling_ratio,) * 2, output_height, output_width, mode)

        return wg.vmap(one)(rois, batches).astype(x.dtype)
    rois, batches = (v.detach().numpy() for v in (rois, batches))
    out = []
    for roi, batch in zip(rois.astype(np.float64), batches.ravel()):
        if not 0 <= batch < x.shape[0] or not np.isfinite(roi).all():
            refuse(f"a region is of batch {int(batch)} of {x.shape[0]}")
        left, top, right, bottom = roi[:4] * spatial_scale - (0.5 if half else 0.0)
        bins, places = [], []
        for start, end, count in ((top, bottom, output_height), (left, right, output_width)):
            extent = end - start if half else max(end - start, 1.0)
            each = sampling_ratio or max(math.ceil(extent / count), 0)
            context.run.room(count * each * max(1, output_height, output_width))
            bins.append(each)
            places.append(start + (np.arange(count * each) + 0.5) * extent / (count * max(each, 1)))
        taps = [_region_taps(p, n) for p, n in zip(places, x.shape[2:])]
        out.append(_pooled(x[int(batch)], taps, bins, output_height, output_width, mode))
    if not out:
        return wg.zeros((0, x.shape[1], output_height, output_width), dtype=x.dtype)
    return wg.stack(out, 0).astype(x.dtype)


def _weighed(x: Any, weights: Any, axis: int) -> Any:
    """Return sums of products with weights; what has no weight has no part in them, were it infinite."""
    return wg.sum(wg.where(weights == 0, 0, x * weights), axis)


# As many samples as may lie within a pixel of another one: they are more than half a pixel apart, or a bin has one.
_NEAR = 6


def _mean_of_samples(start: Any, end: Any, count: int, n: int, half: bool) -> Any:
    """Return the weights of pixels in each bin's mean, a row for each bin, of as many samples as fit in a region.

    The means of interpolated samples are sums over pixels, of each of which only so many samples are near.
    """
    extent = end - start if half else wg.maximum(end - start, 1.0)
    each = wg.maximum(wg.ceil(extent / count), 0.0)
    step = extent / (count * wg.maximum(each, 1.0))
    begins = start + wg.asarray(np.arange(count, dtype=np.float64)) * each * step
    pixels = wg.asarray(np.arange(n, dtype=np.float64))
    before = wg.expand_dims(pixels - 1.0, 0) - wg.expand_dims(begins, 1)
    safe = wg.where(step > 0.0, step, 1.0)
    first = wg.maximum(wg.floor(before / safe - 0.5), 0.0)
    number = wg.expand_dims(first, 2) + wg.asarray(np.arange(_NEAR, dtype=np.float64))
    at = wg.expand_dims(wg.expand_dims(begins, 1), 2) + (number + 0.5) * step
    seen = wg.logical_and(wg.logical_and(at >= -1, at <= n), number < each)
    away = wg.abs(wg.clip(at, 0, n - 1) - wg.expand_dims(pixels, 1))
    weights = wg.where(seen, wg.maximum(1.0 - away, 0.0), 0.0)
    return wg.sum(weights, 2) / wg.maximum(each, 1.0)


def _region_taps(at: Any, n: int) -> list[tuple[Any, Any]]:
    at = wg.asarray(at)
    seen = wg.logical_and(at >= -1, at <= n).astype(at.dtype)
    at = wg.clip(at, 0, n - 1)
    low = wg.floor(at)
    part = at - low
    first = low.astype(wg.int64)
    return [(first, (1 - part) * seen), (wg.minimum(first + 1, n - 1), part * seen)]


def _pooled(x: Any, taps: Any, bins: Sequence[int], height: int, width: int, mode: str) -> Any:
    corners = []
    for rows, down in taps[0]:
        for columns, across in taps[1]:
            value = wg.take(wg.take(x, rows, 1), columns, 2)
            corners.append(value * (wg.expand_dims(down, 1) * across).astype(x.dtype))
    shape = (x.shape[0], height, bins[0], width, bins[1])
    if not bins[0] * bins[1]:  # an empty region has no samples
        return wg.zeros((x.shape[0], height, width), dtype=x.dtype)
    if mode == "max":
        best = corners[0]
        for c in corners[1:]:
            best = wg.maximum(best, c)
        return wg.max(best.reshape(shape), (2, 4))
    total = corners[0] + corners[1] + corners[2] + corners[3]
    return wg.sum(total.reshape(shape), (2, 4)) / (bins[0] * bins[1])


@operator("MaxRoiPool", prefers=(1,))
def _max_roi_pool(x: Any, rois: Any, *, pooled_shape: Any, spatial_scale: float = 1.0) -> Any:
    height, width = pooled_shape
    if not 0 < height * width <= 1 << 16:
        refuse(f"regions of {height} x {width} cells")
    if rois.is_abstract:
        return wg.vmap(lambda roi: _largest_of_cells(x, roi, height, width, spatial_scale))(rois)
    rois = rois.detach().numpy()
    if not np.isfinite(rois).all():
        refuse(f"regions of {height} x {width} cells are not finite")
    out = []
    for batch, *corners in rois:
        left, top, right, bottom = (round(float(v) * spatial_scale) for v in corners)
        rows, columns = max(bottom - top + 1, 1), max(right - left + 1, 1)
        if not 0 <= int(batch) < x.shape[0]:
            refuse(f"a region is of batch {int(batch)} of {x.shape[0]}")
        cells = []
        for i in range(height):
            for j in range(width):
                y0, y1 = (
                    min(max(v, 0), x.shape[2]) for v in (top + i * rows // height, top + -(-(i + 1) * rows // height))
                )
                x0, x1 = (
                    min(max(v, 0), x.shape[3])
                    for v in (left + j * columns // width, left + -(-(j + 1) * columns // width))
                )
                part = x[int(batch), :, y0:y1, x0:x1]
                cells.append(wg.max(part, (1, 2)) if y1 > y0 and x1 > x0 else wg.zeros((x.shape[1],), dtype=x.dtype))
        out.append(wg.stack(cells, 1).reshape((x.shape[1], height, width)))
    return wg.stack(out, 0)


def _largest_of_cells(x: Any, roi: Any, height: int, width: int, scale: float) -> Any:
    """Return the largest elements of a region's cells, whose places are values: by a mask for each row and column."""
    ends = wg.round(roi[1:].astype(wg.float64) * scale).astype(wg.int64)
    masks = []
    for low, high, count, n in zip((ends[1], ends[0]), (ends[3], ends[2]), (height, width), x.shape[2:]):
        size = wg.maximum(high - low + 1, 1)
        cells = wg.asarray(np.arange(count))
        first = wg.expand_dims(low + cells * size // count, 1)
        last = wg.expand_dims(low - (-(cells + 1) * size) // count, 1)
        places = wg.asarray(np.arange(n))
        masks.append(wg.logical_and(places >= first, places < last))
    image = wg.take(x, roi[0].astype(wg.int64), 0)
    least = wg.full((), -np.inf, dtype=x.dtype)
    rows = wg.where(masks[0][None, :, :, None], image[:, None], least).max(2)
    found = wg.where(masks[1][None, None], rows[:, :, None], least).max(3)
    empty = wg.logical_not(wg.logical_and(wg.any(masks[0], axis=1)[:, None], wg.any(masks[1], axis=1)))
    return wg.where(empty, wg.zeros((), dtype=x.dtype), found)


@operator("NonMaxSuppression", raw=True)
def _non_max_suppression(
    boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None, *, center_point_box: int = 0
) -> Any:
    found, of = values_of(boxes, "a choice of boxes").astype(np.float64), values_of(scores, "a choice of boxes")
    count = 0 if most is None else int(values_of(most, "a count").reshape(-1)[0])
    limit = 0.0 if overlap is None else float(values_of(overlap, "a threshold").reshape(-1)[0])
    floor = None if least is None else float(values_of(least, "a threshold").reshape(-1)[0])
    if found.ndim != 3 or of.ndim != 3 or found.shape[2] != 4 or found.shape[1] != of.shape[2]:
        refuse(f"boxes of shape {found.shape} do not fit scores of shape {of.shape}")
    if center_point_box:
        centre, half = found[..., :2], found[..., 2:] / 2
        low, high = centre - half, centre + half
    else:
        low, high = np.minimum(found[..., :2], found[..., 2:]), np.maximum(found[..., :2], found[..., 2:])
    areas = np.prod(high - low, axis=-1)
    chosen = []
    for b in range(of.shape[0]):
        for c in range(of.shape[1]):
            order = np.argsort(-of[b, c], kind="stable")
            order = order if floor is None else order[of[b, c][order] > floor]
            kept: list[int] = []
            for i in order:
                if len(kept) >= count:
                    break
                if kept:
                    edges = np.minimum(high[b, kept], high[b, i]) - np.maximum(low[b, kept], low[b, i])
                    common = np.prod(np.maximum(edges, 0), axis=-1)
                    whole = areas[b, kept] + areas[b, i] - common
                    shares = np.where((common > 0) & (whole > 0), common / np.where(whole > 0, whole, 1), 0)
                    if (shares > limit).any():
                        continue
                kept.append(int(i))
            chosen += [(b, c, i) for i in kept]
    return np.array(chosen, dtype=np.int64).reshape((-1, 3))


@operator("ImageDecoder", raw=True)
def _decode_image(data: Any, *, pixel_format: str = "RGB") -> Any:
    try:
        from PIL import Image
    except ImportError:
        refuse("decoding an image needs the package Pillow", "Install it with: pip install pillow")
    content = values_of(data, "an image")
    if content.dtype != np.uint8 or pixel_format not in ("RGB", "BGR", "Grayscale"):
        refuse(f"pixel_format is {pixel_format!r} for bytes of {content.dtype.name}")
    opened: Any = Image.open(io.BytesIO(content.tobytes()))
    array = np.array(opened.convert("L" if pixel_format == "Grayscale" else "RGB"))
    if pixel_format == "Grayscale":
        return array[..., None]
    return np.ascontiguousarray(array[..., ::-1]) if pixel_format == "BGR" else array
