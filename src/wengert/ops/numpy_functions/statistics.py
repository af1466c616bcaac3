"""NumPy's reductions that take `where=` and `initial=`, those that skip NaN, and its statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.errors import GraphError, RangeError, ShapeError, fail
from ...core.state.refusals import refuse
from ...core.tensor import Tensor
from ..structure.shapes import as_operand
from .register import Unlike, axis_of, inexact, own, xp

# -- reductions


def _kept(x: Tensor, where: Any, neutral: Any) -> Any:
    return x if where is True else xp.where(where, x, neutral)


@own(np.sum)
def _total(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Any:
    found = xp.sum(_kept(as_operand(a), where, 0), axis=axis, dtype=dtype, keepdims=keepdims)
    return found if initial is None else found + initial


@own(np.prod)
def _product(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Any:
    found = xp.prod(_kept(as_operand(a), where, 1), axis=axis, dtype=dtype, keepdims=keepdims)
    return found if initial is None else found * initial


@own(np.mean)
def _mean(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False, where: Any = True) -> Any:
    x = inexact(a)
    if where is True:
        return xp.mean(x, axis=axis, dtype=dtype, keepdims=keepdims)
    counted = xp.sum(xp.broadcast_to(where, x.shape), axis=axis, keepdims=keepdims, dtype=dtype or x.dtype)
    return xp.sum(xp.where(where, x, 0), axis=axis, dtype=dtype, keepdims=keepdims) / counted


def _extreme(reduce: str, combine: str, unbounded: float) -> Callable[..., Tensor]:
    def run(a: Any, axis: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Any:
        x = as_operand(a)
        if where is not True:
            if initial is None:
                fail(GraphError, f"np.{reduce} with where= needs an initial value")
            x = xp.where(where, x, initial)
        if initial is not None and 0 in x.shape:
            return xp.sum(x, axis=axis, keepdims=keepdims) + initial
        found = getattr(xp, reduce)(x, axis=axis, keepdims=keepdims)
        return found if initial is None else getattr(xp, combine)(found, initial)

    return run


own(np.max, np.amax)(_extreme("max", "maximum", -math.inf))
own(np.min, np.amin)(_extreme("min", "minimum", math.inf))


@own(np.ptp)
def _ptp(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    x = as_operand(a)
    return xp.max(x, axis=axis, keepdims=keepdims) - xp.min(x, axis=axis, keepdims=keepdims)


@own(np.cumsum)
def _cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    x = as_operand(a)
    return xp.cumulative_sum(x.reshape(-1) if axis is None else x, axis=0 if axis is None else axis, dtype=dtype)


@own(np.cumprod)
def _cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    x = as_operand(a)
    return xp.cumulative_prod(x.reshape(-1) if axis is None else x, axis=0 if axis is None else axis, dtype=dtype)


# -- without NaN


def _numbers(a: Any, instead: float) -> Any:
    x = as_operand(a)
    return xp.where(xp.isnan(x), instead, x) if x.spec.inexact else x


@own(np.nansum)
def _nansum(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    return xp.sum(_numbers(a, 0), axis=axis, dtype=dtype, keepdims=keepdims)


@own(np.nanprod)
def _nanprod(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    return xp.prod(_numbers(a, 1), axis=axis, dtype=dtype, keepdims=keepdims)


@own(np.nancumsum)
def _nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    return _cumsum(_numbers(a, 0), axis, dtype)


@own(np.nancumprod)
def _nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    return _cumprod(_numbers(a, 1), axis, dtype)


def _counted(x: Tensor, axis: Any, keepdims: Any) -> Any:
    real = xp.real(x) if x.dtype.kind == "c" else x
    return xp.sum(xp.logical_not(xp.isnan(x)).astype(real.dtype), axis=axis, keepdims=keepdims)


@own(np.nanmean)
def _nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    x = inexact(a) if dtype is None else as_operand(a).astype(dtype)
    return _nansum(x, axis, None, keepdims) / _counted(x, axis, keepdims)


@own(np.nanvar)
def _nanvar(a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False) -> Any:
    x = inexact(a) if dtype is None else as_operand(a).astype(dtype)
    away = xp.where(xp.isnan(x), 0.0, x - _nanmean(x, axis, None, True))
    degrees = _counted(x, axis, keepdims) - ddof
    squares = xp.real(away * xp.conj(away)) if x.dtype.kind == "c" else away * away
    return xp.where(degrees <= 0, math.nan, xp.sum(squares, axis=axis, keepdims=keepdims) / degrees)


@own(np.nanstd)
def _nanstd(a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False) -> Any:
    return xp.sqrt(_nanvar(a, axis, dtype, ddof, keepdims))


def _nan_extreme(reduce: str, instead: float) -> Callable[..., Tensor]:
    def run(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
        x = as_operand(a)
        found = getattr(xp, reduce)(_numbers(x, instead), axis=axis, keepdims=keepdims)
        if not x.spec.inexact:
            return found
        return xp.where(xp.all(xp.isnan(x), axis=axis, keepdims=keepdims), math.nan, found)

    return run


own(np.nanmax)(_nan_extreme("max", -math.inf))
own(np.nanmin)(_nan_extreme("min", math.inf))


@own(np.nanargmax)
def _nanargmax(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    return xp.argmax(_numbers(a, -math.inf), axis=axis, keepdims=keepdims)


@own(np.nanargmin)
def _nanargmin(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    return xp.argmin(_numbers(a, math.inf), axis=axis, keepdims=keepdims)


# -- quantiles

# Where a quantile lies between two of the sorted elements: NumPy's methods that have no parameters of their own.
_BETWEEN: dict[str, Callable[[Any], Any]] = {
    "linear": lambda at: at,
    "lower": np.floor,
    "higher": np.ceil,
    "nearest": np.round,
    "midpoint": lambda at: 0.5 * (np.floor(at) + np.ceil(at)),
}


def _quantiles(a: Any, q: Any, axis: Any, method: str, keepdims: Any, skip: bool) -> Any:
    if isinstance(q, Tensor) and q.requires_grad:
        raise Unlike("places of quantiles that require gradients")
    if method not in _BETWEEN:
        raise Unlike(f"method={method!r}")
    places = np.asarray(q.detach() if isinstance(q, Tensor) else q, dtype=np.float64)
    if not ((places >= 0) & (places <= 1)).all():
        fail(RangeError, "a quantile outside of 0 and 1, or a percentile outside of 0 and 100")
    x = inexact(a)
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(axis_of(x, i) for i in axes)
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    sizes = tuple(x.shape[i] for i in rest)
    rows = xp.sort(xp.permute_dims(x, (*rest, *axes)).reshape((*sizes, -1)), axis=-1)  # NaN come last
    there = _counted(rows, -1, False) if skip else xp.full(sizes, float(rows.shape[-1]), dtype=rows.dtype)
    found = [_between(rows, there, float(p), method) for p in places.reshape(-1)]
    unknown = there == 0 if skip else xp.any(xp.isnan(rows), axis=-1)
    made = xp.where(unknown, math.nan, xp.stack(found)).reshape((*places.shape, *sizes))
    if keepdims:
        made = made.reshape((*places.shape, *(1 if i in axes else n for i, n in enumerate(x.shape))))
    return made


def _between(rows: Tensor, there: Tensor, place: float, method: str) -> Any:
    """Return the quantile of each sorted row of so many numbers."""
    if rows.is_abstract or there.is_abstract:
        if method != "linear":
            raise Unlike(f"method={method!r} where there are no values")
        at = place * (there - 1)
        low = xp.floor(at)
        high = xp.ceil(at)
    else:
        where = _BETWEEN[method](np.asarray(place * (np.asarray(there.detach()) - 1)))
        at, low, high = xp.asarray(where), xp.asarray(np.floor(where)), xp.asarray(np.ceil(where))
    last = rows.shape[-1] - 1
    first, second = (xp.clip(i, 0, last).astype("int64")[..., None] for i in (low, high))
    below, above = (xp.take_along_axis(rows, i, axis=-1)[..., 0] for i in (first, second))
    share = (at - low).astype(rows.dtype)
    # As NumPy does: from the nearer of the two, and without touching the other where there is nothing between.
    mixed = xp.where(share < 0.5, below + (above - below) * share, above - (above - below) * (1 - share))
    return xp.where(share == 0, below, mixed)


@own(np.quantile)
def _quantile(a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: Any = False) -> Any:
    return _quantiles(a, q, axis, method, keepdims, False)


@own(np.percentile)
def _percentile(a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: Any = False) -> Any:
    return _quantiles(a, np.true_divide(q, 100), axis, method, keepdims, False)


@own(np.nanquantile)
def _nanquantile(a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: Any = False) -> Any:
    return _quantiles(a, q, axis, method, keepdims, True)


@own(np.nanpercentile)
def _nanpercentile(a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: Any = False) -> Any:
    return _quantiles(a, np.true_divide(q, 100), axis, method, keepdims, True)


@own(np.nanmedian)
def _nanmedian(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    return _quantiles(a, 0.5, axis, "linear", keepdims, True)


@own(np.partition)
def _partition(a: Any, kth: Any, axis: int | None = -1) -> Any:
    x = as_operand(a)  # sorted elements are partitioned at each place
    return xp.sort(x.reshape(-1) if axis is None else x, axis=-1 if axis is None else axis)


@own(np.argpartition)
def _argpartition(a: Any, kth: Any, axis: int | None = -1) -> Any:
    x = as_operand(a)
    return xp.argsort(x.reshape(-1) if axis is None else x, axis=-1 if axis is None else axis)


# -- weights and several variables


@own(np.average)
def _average(a: Any, axis: Any = None, weights: Any = None, keepdims: Any = False) -> Any:
    x = inexact(a)
    if weights is None:
        return xp.mean(x, axis=axis, keepdims=keepdims)
    w = inexact(weights)
    if w.shape != x.shape and isinstance(axis, int):
        w = w.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    w = xp.broadcast_to(w, x.shape)
    return xp.sum(x * w, axis=axis, keepdims=keepdims) / xp.sum(w, axis=axis, keepdims=keepdims)


@own(np.cov)
def _cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
) -> Any:
    x = _variables(m, rowvar)
    if y is not None:
        x = xp.concat([x, _variables(y, rowvar)], axis=0)
    correction = (0 if bias else 1) if ddof is None else ddof
    count = x.shape[1]
    if fweights is None and aweights is None:
        away = x - xp.mean(x, axis=1, keepdims=True)
        return xp.squeeze(away @ xp.conj(away).mT / (count - correction))
    w: Any = 1.0
    if fweights is not None:
        w = w * inexact(fweights)
    if aweights is not None:
        w = w * inexact(aweights)
    whole = xp.sum(w)
    away = x - xp.sum(x * w, axis=1, keepdims=True) / whole
    if correction == 0:
        over = whole
    elif aweights is None:
        over = whole - correction
    else:
        over = whole - correction * xp.sum(w * inexact(aweights)) / whole
    return xp.squeeze((away * w) @ xp.conj(away).mT / over)


def _variables(m: Any, rowvar: bool) -> Any:
    """Return a matrix of one row for each variable."""
    x = inexact(m)
    if x.ndim > 2:
        fail(ShapeError, f"np.cov or np.corrcoef of {x.spec}", "Variables have at most 2 axes.")
    if x.ndim < 2:
        return x.reshape((1, -1))
    return x if rowvar or x.shape[0] == 1 else x.mT


@own(np.corrcoef)
def _corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    c = _cov(x, y, rowvar)
    if not c.ndim:
        return c / c
    spread = xp.sqrt(xp.real(xp.diagonal(c)))
    found = c / spread[:, None] / spread[None, :]
    return found if found.dtype.kind == "c" else xp.clip(found, -1, 1)


# -- counting


@own(np.bincount)
def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    if isinstance(x, Tensor) and x.is_abstract:
        mend = "The result's size depends on the largest value. np.add.at(np.zeros(size), x, 1) has a size of its own."
        refuse(f"np.bincount of {x.spec} while traced", mend, x)
    places = np.asarray(x.detach() if isinstance(x, Tensor) else x)
    if weights is None:
        return as_operand(np.bincount(places, minlength=minlength))
    count = max(int(places.max()) + 1 if places.size else 0, minlength)
    w = inexact(weights).astype("float64")
    return xp.index_add(xp.zeros(count, dtype="float64"), 0, places, w)


@own(np.digitize)
def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    edges, found = as_operand(bins), as_operand(x)
    steps = np.diff(np.asarray(edges.detach()))
    if (steps >= 0).all():
        return xp.searchsorted(edges, found, side="left" if right else "right")
    if (steps <= 0).all():
        return edges.size - xp.searchsorted(xp.flip(edges), found, side="left" if right else "right")
    fail(ShapeError, "np.digitize: bins must increase or decrease")


@own(np.isin)
def _isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    x, tests = as_operand(element), as_operand(test_elements).reshape(-1)
    if not tests.size:
        found = xp.zeros(x.shape, dtype=bool)
    else:
        known = xp.sort(tests)
        place = xp.clip(xp.searchsorted(known, x), 0, tests.size - 1)
        found = xp.take(known, place.reshape(-1)).reshape(x.shape) == x
    return ~found if invert else found


@own(np.unique)
def _unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False) -> Any:
    found = xp.unique_all(as_operand(ar))
    wanted = (True, return_index, return_inverse, return_counts)
    parts = (found.values, found.indices, found.inverse_indices, found.counts)
    chosen = tuple(part for part, is_wanted in zip(parts, wanted, strict=True) if is_wanted)
    return chosen[0] if len(chosen) == 1 else chosen
