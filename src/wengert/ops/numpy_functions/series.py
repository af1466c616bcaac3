"""NumPy's functions of samples along an axis: products, differences, interpolation, convolution, polynomials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.errors import DTypeError, GraphError, ShapeError, fail
from ...core.tensor import Tensor
from ..structure.shapes import as_operand
from .register import Unlike, axis_of, inexact, own, xp

# -- products


@own(np.inner)
def _inner(a: Any, b: Any) -> Any:
    x, y = as_operand(a), as_operand(b)
    return x * y if not x.ndim or not y.ndim else xp.tensordot(x, y, axes=((-1,), (-1,)))


@own(np.vdot)
def _vdot(a: Any, b: Any) -> Any:
    return xp.sum(xp.conj(as_operand(a)).reshape(-1) * as_operand(b).reshape(-1))


@own(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    x = xp.moveaxis(as_operand(a), axisa, -1)
    y = xp.moveaxis(as_operand(b), axisb, -1)
    if (x.shape[-1], y.shape[-1]) != (3, 3):
        if not {x.shape[-1], y.shape[-1]} <= {2, 3}:
            fail(ShapeError, f"np.cross of {x.spec} and {y.spec}", "Vectors have 3 elements.")
        raise Unlike("vectors of other than 3 elements")
    return xp.moveaxis(xp.linalg.cross(*xp.broadcast_arrays(x, y)), -1, axisc)


# -- differences and integrals


@own(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    x = as_operand(a)
    around = (_edge(x, prepend, axis), _edge(x, append, axis))
    return xp.diff(x, n, axis, prepend=around[0], append=around[1])


def _edge(x: Tensor, value: Any, axis: int) -> Any:
    """Return the elements to add before or after an array along an axis; a number is added once in each row."""
    if value is None or value is np._NoValue:
        return None
    edge = as_operand(value)
    sizes = tuple(1 if i == axis_of(x, axis) else n for i, n in enumerate(x.shape))
    return edge if edge.ndim else xp.broadcast_to(edge.astype(x.dtype), sizes)


@own(np.ediff1d)
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    x = as_operand(ary).reshape(-1)
    parts = [xp.diff(x)]
    if to_begin is not None:
        parts.insert(0, as_operand(to_begin).astype(x.dtype).reshape(-1))
    if to_end is not None:
        parts.append(as_operand(to_end).astype(x.dtype).reshape(-1))
    return xp.concat(parts) if len(parts) > 1 else parts[0]


@own(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    values = xp.moveaxis(inexact(y), axis, -1)
    steps: Any = dx
    if x is not None:
        places = as_operand(x)
        steps = xp.diff(places if places.ndim == 1 else xp.moveaxis(places, axis, -1))
    return xp.sum((values[..., 1:] + values[..., :-1]) * 0.5 * steps, axis=-1)


@own(np.gradient)
def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    x = inexact(f)
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(axis_of(x, i) for i in axes)
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if len(spacings) != len(axes):
        fail(DTypeError, f"np.gradient: {len(varargs)} spacings for {len(axes)} axes")
    if edge_order not in (1, 2):
        fail(ShapeError, f"np.gradient with edge_order={edge_order}", "It is 1 or 2.")
    found = []
    for along, spacing in zip(axes, spacings, strict=True):
        if x.shape[along] < edge_order + 1:
            fail(ShapeError, f"np.gradient: an axis of {x.shape[along]} elements is too short, {x.spec}")
        slopes = _slopes(xp.moveaxis(x, along, -1), as_operand(spacing), edge_order)
        found.append(xp.moveaxis(slopes, -1, along))
    return found[0] if len(found) == 1 else tuple(found)


def _slopes(y: Tensor, spacing: Tensor, edge_order: int) -> Any:
    """Return differences of second order inside and of `edge_order` at both ends, along the last axis."""
    count = y.shape[-1]
    if spacing.ndim == 0:
        steps = xp.broadcast_to(inexact(spacing), (count - 1,))
    elif spacing.shape == (count,):
        steps = xp.diff(inexact(spacing))
    else:
        fail(ShapeError, f"np.gradient: coordinates {spacing.spec} for an axis of {count} elements")
    before, after = steps[:-1], steps[1:]
    both = before + after
    inside = (
        -after / (before * both) * y[..., :-2]
        + (after - before) / (before * after) * y[..., 1:-1]
        + before / (after * both) * y[..., 2:]
    )
    if edge_order == 1:
        first = (y[..., 1:2] - y[..., :1]) / steps[:1]
        last = (y[..., -1:] - y[..., -2:-1]) / steps[-1:]
    else:
        a, b = steps[:1], steps[1:2]
        first = (
            -(2 * a + b) / (a * (a + b)) * y[..., :1]
            + (a + b) / (a * b) * y[..., 1:2]
            - a / (b * (a + b)) * y[..., 2:3]
        )
        a, b = steps[-2:-1], steps[-1:]
        last = (
            b / (a * (a + b)) * y[..., -3:-2]
            - (a + b) / (a * b) * y[..., -2:-1]
            + (2 * b + a) / (b * (a + b)) * y[..., -1:]
        )
    return xp.concat([first, inside, last], axis=-1)


@own(np.unwrap)
def _unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Any:
    x = xp.moveaxis(inexact(p), axis, -1)
    steps = xp.stop_gradient(xp.diff(x))
    half = period / 2
    turned = xp.remainder(steps + half, period) - half
    turned = xp.where((turned == -half) & (steps > 0), half, turned)
    jumps = xp.where(xp.abs(steps) < (half if discont is None else discont), 0.0, turned - steps)
    moved = xp.concat([x[..., :1], x[..., 1:] + xp.cumulative_sum(jumps, axis=-1)], axis=-1)
    return xp.moveaxis(moved, -1, axis)


@own(np.interp)
def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Any:
    return _interpolated(inexact(x), inexact(xp), inexact(fp), left, right)


def _interpolated(places: Tensor, known: Tensor, values: Tensor, left: Any, right: Any) -> Any:
    if known.ndim != 1 or known.shape != values.shape:
        fail(
            ShapeError,
            f"np.interp: values {values.spec} at places {known.spec}",
            "They have one axis, with a value for each place.",
        )
    if not known.shape[0]:
        fail(ShapeError, f"np.interp: values {values.spec}, none to interpolate between")
    low, high = values[0] if left is None else as_operand(left), values[-1] if right is None else as_operand(right)
    inside = xp.where(places == known[-1], values[-1], values[0])
    if known.shape[0] > 1:
        below = xp.clip(xp.searchsorted(known, places.reshape(-1), side="right") - 1, 0, known.shape[0] - 2)
        below = below.reshape(places.shape)
        x0, x1 = _at(known, below), _at(known, below + 1)
        y0, y1 = _at(values, below), _at(values, below + 1)
        apart = x1 - x0
        along = (y1 - y0) / xp.where(apart == 0, 1.0, apart) * (places - x0) + y0
        inside = xp.where(places == known[-1], values[-1], along)
    return xp.where(places < known[0], low, xp.where(places > known[-1], high, inside))


def _at(values: Tensor, places: Tensor) -> Any:
    return xp.take(values, places.reshape(-1)).reshape(places.shape)


# -- convolution


def _sums(a: Any, v: Any, mode: str) -> Any:
    """Return the sums of products of `v` with every part of `a` as long as it, and of those that stand out."""
    x, y = as_operand(a), as_operand(v)
    if x.ndim != 1 or y.ndim != 1:
        fail(ShapeError, f"a convolution of {x.spec} and {y.spec}", "Signals have one axis.")
    if not x.size or not y.size:
        fail(ShapeError, f"a convolution of {x.spec} and {y.spec}", "Neither may be empty.")
    m, n = x.shape[0], y.shape[0]
    short = min(m, n)
    # How far the shorter one stands out at the beginning and at the end.
    out = {"full": (short - 1, short - 1), "valid": (0, 0), "same": (short // 2, short - 1 - short // 2)}.get(mode)
    if out is None:
        fail(GraphError, f"a convolution in the mode {mode!r}", "It is one of 'full', 'same', 'valid'.")
    if n > m:
        return xp.flip(_slid(y, x, out))
    return _slid(x, y, out)


def _slid(x: Tensor, y: Tensor, out: tuple[int, int]) -> Any:
    padded = xp.pad(x, (out,))
    if padded.dtype.kind == "f" and y.dtype == padded.dtype:
        return xp.nn.functional.conv1d(padded[None, None], y[None, None])[0, 0]
    count = padded.shape[0] - y.shape[0] + 1
    windows = np.arange(count)[:, None] + np.arange(y.shape[0])
    return xp.take(padded, windows.reshape(-1)).reshape(windows.shape) @ y


@own(np.correlate)
def _correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    return _sums(a, xp.conj(as_operand(v)), mode)


@own(np.convolve)
def _convolve(a: Any, v: Any, mode: str = "full") -> Any:
    x, y = as_operand(a), as_operand(v)
    if x.ndim == 0 or y.ndim == 0:
        x, y = x.reshape(-1), y.reshape(-1)
    if y.ndim == 1 and x.ndim == 1 and y.shape[0] > x.shape[0]:
        x, y = y, x
    return _sums(x, xp.flip(y), mode)


# -- polynomials, the highest power first


@own(np.polyval)
def _polyval(p: Any, x: Any) -> Any:
    factors, at = as_operand(p), as_operand(x)
    found: Any = xp.zeros_like(at)
    for factor in factors:
        found = found * at + factor
    return found


@own(np.vander)
def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    at = as_operand(x)
    if at.ndim != 1:
        fail(ShapeError, f"np.vander of {at.spec}", "The points have one axis.")
    count = at.shape[0] if N is None else N
    powers = [xp.ones_like(at)]
    for _ in range(1, count):
        powers.append(powers[-1] * at)
    columns = powers[:count]
    if not columns:
        return xp.zeros((at.shape[0], 0), dtype=at.dtype)
    return xp.stack(columns if increasing else columns[::-1], axis=1)


@own(np.polyfit)
def _polyfit(x: Any, y: Any, deg: int, rcond: Any = None, w: Any = None) -> Any:
    at, values = inexact(x), inexact(y)
    if rcond is not None:
        raise Unlike("rcond=")
    columns = _vander(at, deg + 1)
    if w is not None:
        weights = inexact(w)
        columns = columns * weights[:, None]
        values = values * (weights if values.ndim == 1 else weights[:, None])
    scale = xp.sqrt(xp.sum(columns * columns, axis=0))
    found = xp.linalg.lstsq(columns / scale, values)[0]
    return found / (scale if found.ndim == 1 else scale[:, None])


def _trimmed(p: Any) -> Any:
    """Return a polynomial without the leading factors that are 0, as NumPy's arithmetic does."""
    factors = xp.atleast_1d(as_operand(p))
    if not factors.is_abstract:
        there = np.flatnonzero(np.asarray(factors.detach()))
        return factors[int(there[0]) :] if there.size else factors[-1:]
    # How many there are decides the shape: a compiled function has a path for each number.
    while factors.shape[0] > 1 and bool(factors[0] == 0):
        factors = factors[1:]
    return factors


@own(np.polymul)
def _polymul(a1: Any, a2: Any) -> Any:
    return _convolve(_trimmed(a1), _trimmed(a2))


@own(np.polyadd)
def _polyadd(a1: Any, a2: Any) -> Any:
    x, y = xp.atleast_1d(as_operand(a1)), xp.atleast_1d(as_operand(a2))
    count = max(x.shape[0], y.shape[0])
    x, y = (xp.pad(p, ((count - p.shape[0], 0),)) for p in (x, y))
    return x + y


@own(np.polysub)
def _polysub(a1: Any, a2: Any) -> Any:
    return _polyadd(a1, -xp.atleast_1d(as_operand(a2)))


@own(np.polyder)
def _polyder(p: Any, m: int = 1) -> Any:
    factors = as_operand(p)
    for _ in range(m):
        powers = np.arange(factors.shape[0] - 1, 0, -1)
        factors = factors[:-1] * powers.astype(factors.dtype)
    return factors


@own(np.polyint)
def _polyint(p: Any, m: int = 1) -> Any:
    factors = inexact(p)
    for _ in range(m):
        powers = np.arange(factors.shape[0], 0, -1).astype(factors.dtype)
        factors = xp.concat([factors / powers, xp.zeros(1, dtype=factors.dtype)])
    return factors


# -- places


@own(np.linspace)
def _linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    first, last = xp.broadcast_arrays(inexact(start), inexact(stop))
    parts = num - 1 if endpoint else num
    step = (last - first) / parts if parts > 0 else xp.full_like(first, math.nan)
    turns = xp.arange(num, dtype=first.dtype).reshape((num, *(1,) * first.ndim))
    found = first + turns * step if parts > 0 else first + turns * 0.0
    if endpoint and num > 1:
        found = xp.concat([found[:-1], last[None]], axis=0)
    found = xp.moveaxis(found, 0, axis)
    found = found if dtype is None else found.astype(dtype)
    return (found, step) if retstep else found
