"""Variance and standard deviation along any set of axes, in two passes: without cancellation for a large mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.errors import DTypeError, fail
from ...core.ops.declare import composite, op, public
from ...core.ops.facets import Cause, Form, Nonfinite, Square
from ...core.ops.nonfinite import FEWER, SPREAD, WIDER, always, gives_nan
from ...core.ops.op import Call, Missing, Op, Vjp
from ...core.ops.record import bind
from ...core.spec import Shape, inexact_dtype, real_dtype
from ...core.tensor import Tensor
from ..aliases import dim_alias
from ..long_sums import add_up
from ..pointwise.arithmetic import conj, real, sqrt
from ..pointwise.selection import where_op
from ..structure.shapes import as_operand, cast, casted
from .common import (
    Axis,
    count,
    divided,
    exact_float,
    infer_as,
    kept,
    largest,
    narrowed,
    present_where_nonzero,
    reduced_axes,
    reductions,
    row_by_row,
    running_dtype,
    smallest,
    some,
    widened,
)
from .sums import mean_op, sum_op


def _freedom(shape: Shape, axis: tuple[int, ...], correction: float) -> float:
    """Return the divisor of a sum of squared deviations, or NaN where nothing is left."""
    left = count(shape, axis) - correction
    return left if left > 0 else math.nan


def _variance(x: Any, axis: tuple[int, ...], correction: float, keepdims: bool) -> Any:
    """Return the variance in two passes, and for half precision in float32."""
    wide = widened(x)
    n = count(x.shape, axis)
    mean = add_up(wide, axis, None, None, True) / (n or math.nan)
    total = _squared_deviations(wide, mean, axis, keepdims)
    if _is_within_rounding(total, mean, n):
        total = _squared_deviations(wide, _between_extremes(mean, wide, axis), axis, keepdims)
    return total / _freedom(x.shape, axis, correction)


def _squared_deviations(x: Any, mean: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    deviation = x - mean
    squares = np.square(deviation) if x.dtype.kind != "c" else np.square(deviation.real) + np.square(deviation.imag)
    return add_up(squares, axis, None, None, keepdims)


def _is_within_rounding(total: Any, mean: Any, n: int) -> bool:
    """Return whether elements may be equal: some deviations from the mean are as small as its rounding error.

    The squares of what rounding leaves of large numbers may overflow.
    """
    rounding = n**1.5 * (2.0**-23 if total.dtype.itemsize == 4 else 2.0**-52)
    if mean.size == 1:
        found = float(total.item())
        return found == math.inf or 0.0 < math.sqrt(found) < rounding * abs(mean.item())
    root = np.sqrt(total)
    near = root < rounding * np.abs(mean).reshape(total.shape)
    return bool((some(near, None) and some(near & (total != 0), None)) or some(root == math.inf, None))


def _between_extremes(mean: Any, x: Any, axis: tuple[int, ...]) -> Any:
    """Return the mean clipped to the smallest and the largest element, which rounding might leave."""
    if x.dtype.kind == "c":
        parts = [_between_extremes(m, p, axis) for m, p in ((mean.real, x.real), (mean.imag, x.imag))]
        return (parts[0] + 1j * parts[1]).astype(x.dtype)
    return np.minimum(np.maximum(mean, smallest(x, axis, None, None, True)), largest(x, axis, None, None, True))


def _var_pull(ct: Any, x: Any, axis: tuple[int, ...], correction: float) -> Any:
    deviation = x - mean_op(x, axis=axis, keepdims=True)
    return divided(kept(ct, x.shape, axis) * 2, _freedom(x.shape, axis, correction)) * deviation


def _moment_samples(rng: Any) -> list[Call]:
    return [*reductions(correction=0)(rng)[:3], *reductions(correction=1)(rng)[:3]]


def _sum_of_squares(row: list[float]) -> float:
    mean = math.fsum(row) / len(row)
    return math.fsum((v - mean) ** 2 for v in row)


def _variance_of(row: list[float], correction: float) -> float:
    return _sum_of_squares(row) / (len(row) - correction)


var_op: Op = op(
    "var(x; axis: axes, correction, keepdims)",
    lambda x, axis, correction, keepdims: narrowed(_variance(x, axis, correction, keepdims), real_dtype(x.dtype)),
    accepts="floating",
    infer=infer_as(real_dtype),
    facts={"x": Vjp(_var_pull)},
    doc="The mean squared distance from the mean along axes, over `correction` fewer than all.",
    samples=_moment_samples,
    reference=row_by_row(_variance_of),
    onnx=Missing("ONNX writes it as ReduceMean of squared deviations"),
    cost=4,
    form=Form("var", "var({0})", say="Each element gets its distance from the mean, scaled."),
    nonfinite=Nonfinite(
        (
            (gives_nan, Cause("the variance of too few elements: 0 / 0 with correction=1", FEWER)),
            (always, Cause("overflow of a square in the variance", WIDER)),
        ),
        backward=Cause("the variance of too few elements", FEWER),
    ),
    autocast="float32",
)


def _std(x: Any, axis: tuple[int, ...], correction: float, keepdims: bool) -> Any:
    return narrowed(np.sqrt(_variance(x, axis, correction, keepdims)), real_dtype(x.dtype))


def _std_pull(ct: Any, x: Any, out: Any, axis: tuple[int, ...], correction: float) -> Any:
    spread = kept(out, x.shape, axis)
    varies = spread != 0.0
    deviation = x - mean_op(x, axis=axis, keepdims=True)
    slope = divided(deviation / where_op(varies, spread, 1.0), _freedom(x.shape, axis, correction))
    return where_op(varies, kept(ct, x.shape, axis) * slope, 0.0)


def _half_variance_pull(ct: Any, x: Any, axis: tuple[int, ...], correction: float, keepdims: bool) -> Any:
    deviation = x - mean_op(x, axis=axis, keepdims=True)
    return divided(kept(ct, x.shape, axis), _freedom(x.shape, axis, correction)) * deviation


def _covariance(x: Any, y: Any, axis: tuple[int, ...], correction: float, keepdims: bool) -> Any:
    deviation = x - mean_op(x, axis=axis, keepdims=True)
    product = real(conj(deviation) * y) if x.dtype.kind == "c" else deviation * y
    return divided(sum_op(product, axis=axis, keepdims=keepdims), _freedom(x.shape, axis, correction))


@composite(
    "std(x; axis: axes, correction, keepdims)",
    accepts="floating",
    forward=_std,
    facts={"x": Vjp(_std_pull, present=present_where_nonzero)},
    doc="The square root of var. No gradient flows where it is 0.",
    samples=_moment_samples,
    reference=row_by_row(lambda row, correction: math.sqrt(_variance_of(row, correction))),
    onnx=Missing("ONNX writes it as Sqrt of a mean"),
    nonfinite=Nonfinite(
        (
            (gives_nan, Cause("the deviation of too few elements: 0 / 0 with correction=1", FEWER)),
            (always, Cause("overflow of a square in the deviation", WIDER)),
        ),
        backward=Cause("the slope of the deviation where it is 0 (a root at 0)", SPREAD),
    ),
    square=Square(_covariance, _half_variance_pull),
    autocast="float32",
)
def std_op(x: Any, *, axis: tuple[int, ...], correction: float, keepdims: bool) -> Any:
    """Return the standard deviation along axes: the root of the variance."""
    dtype = real_dtype(x.dtype)
    if running_dtype(x.dtype) != x.dtype:  # squares leave the range of half precision
        x = cast.front(x, dtype=running_dtype(x.dtype))
    variance = var_op(x, axis=axis, correction=correction, keepdims=keepdims)
    # Where all elements are equal nothing flows, instead of the infinite slope of sqrt at 0.
    found = where_op(variance != 0.0, sqrt(variance), 0.0)
    return found if found.dtype == dtype else cast.front(found, dtype=dtype)


def _moment(reduction: Op, x: Any, axis: Axis, correction: float, keepdims: bool, unbiased: bool | None) -> Tensor:
    x = as_operand(x)
    wanted = None
    if not x.spec.inexact:
        wanted = inexact_dtype(x.dtype)
        x = casted(x, exact_float(x.dtype, wanted))
    if unbiased is not None:
        correction = 1 if unbiased else 0
    if not isinstance(correction, (int, float)):
        fail(DTypeError, f"correction must be a number, not {type(correction).__name__}")
    whole = int(correction) if correction == correction // 1 else correction
    attrs = {"axis": reduced_axes(axis, x.ndim), "correction": whole, "keepdims": bool(keepdims)}
    out: Tensor = bind(reduction, (x,), attrs)
    return out if wanted is None else casted(out, wanted)


@public(method=True)
@dim_alias
def var(
    x: Any, axis: Axis = None, correction: float = 0, keepdims: bool = False, *, unbiased: bool | None = None
) -> Tensor:
    """Return the variance along axes: the mean squared distance from the mean (Array API).

    **Unlike PyTorch, it divides by N**: `correction` is 0 by default, as in the Array API standard
    and NumPy, where PyTorch's is 1. Pass `correction=1` for the unbiased estimate.

    Parameters
    ----------
    x: any shape; of integers the variance is float32 (computed in float64 from 32 bits on), of
        complex numbers real.
    axis: an axis or several; None for all.
    correction: how many fewer than the number of elements to divide by. NaN where none are left.
    keepdims: keep the reduced axes, with size 1.
    unbiased: PyTorch's older name: True for `correction=1`, False for 0.

    The deviations from the mean are squared, in two passes: no cancellation for a large mean.
    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> x = wg.tensor([1.0, 2.0, 3.0, 4.0])
    >>> wg.var(x), wg.var(x, correction=1)
    (tensor(1.25), tensor(1.6667))
    """
    return _moment(var_op, x, axis, correction, keepdims, unbiased)


@public(method=True)
@dim_alias
def std(
    x: Any, axis: Axis = None, correction: float = 0, keepdims: bool = False, *, unbiased: bool | None = None
) -> Tensor:
    """Return the standard deviation along axes: the square root of :func:`var` (Array API).

    **Unlike PyTorch, `correction` is 0 by default**; the parameters are those of :func:`var`. No
    gradient flows where all elements are equal (PyTorch gives NaN there).

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.std(wg.tensor([1.0, 3.0]))
    tensor(1.)
    """
    return _moment(std_op, x, axis, correction, keepdims, unbiased)
