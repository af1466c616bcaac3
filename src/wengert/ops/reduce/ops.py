"""The ops of reductions: sums, products, moments, extremes and truth along any set of axes.

Axes, shapes and dtypes are worked out in :mod:`.reduction`; the functions that users call stand in
:mod:`.reduce`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import ARRAY_ALWAYS
from ...core.ops.declare import composite, op
from ...core.ops.facets import Cause, Form, Nonfinite, Reduction
from ...core.ops.nonfinite import FEWER, OVERFLOW, PRODUCT, SPREAD, WIDER, always, gives_nan
from ...core.ops.op import Call, Linear, Missing, Op, Vjp
from ...core.spec import Shape, bool_, int64, real_dtype
from ..pointwise.arithmetic import sqrt
from ..pointwise.selection import where_op
from ..structure.shapes import broadcast, cast
from .common import (
    add_up,
    count,
    divided,
    every,
    infer,
    infer_as,
    infer_nonempty,
    kept,
    largest,
    multiply_up,
    narrowed,
    present_where_nonzero,
    reductions,
    row_by_row,
    running_dtype,
    smallest,
    some,
    summed_dtype,
    widened,
)
from .cumulative import conjugate, cumulative_prod_op

# -- sum


def _sum(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    if x.itemsize == 2:
        dtype = summed_dtype(x.dtype)
        return narrowed(add_up(x, axis, running_dtype(dtype), None, keepdims), dtype)
    return add_up(x, axis, out=ARRAY_ALWAYS, keepdims=keepdims)


sum_op: Op = op(
    "sum(x; axis: axes, keepdims)",
    _sum,
    kind="linear",
    infer=infer_as(summed_dtype),
    facts={
        "x": Linear(
            lambda ct, x_shape, axis: broadcast(kept(ct, x_shape, axis), shape=x_shape),
            fills=True,
            selects=True,
            covers=True,
        )
    },
    doc="The sum of the elements along axes.",
    samples=reductions(Call((np.zeros((2, 0)),), {"axis": (-1,), "keepdims": False})),
    reference=row_by_row(math.fsum),
    onnx="ReduceSum",
    reduction=Reduction("add", 0),
    cost=1,
    form=Form("Σ", "Σ {0}", binds="product", local="1", say="A sum copies what arrives to *every* element."),
    pattern="distribute",
    nonfinite=OVERFLOW,
)


# -- product


def _prod(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    if x.itemsize == 2:
        dtype = summed_dtype(x.dtype)
        return narrowed(multiply_up(x, axis, running_dtype(dtype), None, keepdims), dtype)
    return multiply_up(x, axis, None, None, keepdims)


def _prod_pull(ct: Any, x: Any, axis: tuple[int, ...]) -> Any:
    """Return the product of all other elements, one axis after the other, without a division, which zeros forbid."""
    others = kept(ct, x.shape, axis)
    left = conjugate(x)
    for a in axis:
        before = cumulative_prod_op(left, axis=a, exclusive=True, reverse=False)
        after = cumulative_prod_op(left, axis=a, exclusive=True, reverse=True)
        others = others * (before * after)
        left = prod_op(left, axis=(a,), keepdims=True)
    return others


prod_op: Op = op(
    "prod(x; axis: axes, keepdims)",
    _prod,
    infer=infer_as(summed_dtype),
    facts={"x": Vjp(_prod_pull)},
    doc="The product of the elements along axes.",
    samples=reductions(
        Call((np.array([[2.0, 0.0, 3.0], [0.0, 1.5, 0.0]]),), {"axis": (-1,), "keepdims": False}),
        Call((np.array([[0.0, 2.0], [3.0, 0.0]]),), {"axis": (-2, -1), "keepdims": True}),
        Call((np.zeros((2, 0)),), {"axis": (-1,), "keepdims": False}),
    ),
    reference=row_by_row(math.prod),
    onnx="ReduceProd",
    reduction=Reduction("multiply", 1),
    cost=1,
    form=Form(
        "Π",
        "Π {0}",
        binds="product",
        local="{out} / {0}",
        say="Each element gets what arrives times the product of all *others*.",
    ),
    nonfinite=Nonfinite(
        ((always, Cause("overflow of a product", PRODUCT)),),
        backward=Cause("the slope of a product overflows", PRODUCT),
    ),
)


# -- mean, variance, standard deviation


def _mean(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    n = x.size if len(axis) == x.ndim else count(x.shape, axis)
    if x.itemsize == 2:
        return narrowed(add_up(x, axis, running_dtype(x.dtype), None, keepdims) / (n or math.nan), x.dtype)
    return add_up(x, axis, None, None, keepdims) / (n or math.nan)


def _mean_transpose(ct: Any, x_shape: Shape, axis: tuple[int, ...]) -> Any:
    share = divided(ct, count(x_shape, axis) or 1)
    return broadcast(kept(share, x_shape, axis), shape=x_shape)


mean_op: Op = op(
    "mean(x; axis: axes, keepdims)",
    _mean,
    accepts="inexact",
    kind="linear",
    infer=infer,
    # All coefficients of the transpose are the same positive number: it moves masks as a sum's does.
    facts={"x": Linear(_mean_transpose, fills=True, selects=True, covers=True)},
    doc="The arithmetic mean of the elements along axes; NaN for none.",
    samples=reductions(),
    reference=row_by_row(lambda row: math.fsum(row) / len(row) if row else math.nan),
    onnx="ReduceMean",
    dependence="axes",
    cost=1,
    form=Form("mean", "mean({0})", local="1 / n", say="A mean gives every element an equal *share* of what arrives."),
    pattern="distribute",
    nonfinite=Nonfinite(((always, Cause("the mean of no elements, or of a sum that overflows", WIDER)),)),
)


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
    accepts="inexact",
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
)


def _std(x: Any, axis: tuple[int, ...], correction: float, keepdims: bool) -> Any:
    return narrowed(np.sqrt(_variance(x, axis, correction, keepdims)), real_dtype(x.dtype))


def _std_pull(ct: Any, x: Any, out: Any, axis: tuple[int, ...], correction: float) -> Any:
    spread = kept(out, x.shape, axis)
    varies = spread != 0.0
    deviation = x - mean_op(x, axis=axis, keepdims=True)
    slope = divided(deviation / where_op(varies, spread, 1.0), _freedom(x.shape, axis, correction))
    return where_op(varies, kept(ct, x.shape, axis) * slope, 0.0)


@composite(
    "std(x; axis: axes, correction, keepdims)",
    accepts="inexact",
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


# -- extremes


def _maximum(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return largest(x, axis, None, None, keepdims)


def _minimum(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return smallest(x, axis, None, None, keepdims)


def _picked(x: Any, out: Any, axis: tuple[int, ...]) -> Any:
    """Return the mask of elements that an extreme may be taken from: those equal to it, or the NaNs behind it."""
    return (x == kept(out, x.shape, axis)) | (x != x)


def _extreme_pull(ct: Any, x: Any, out: Any, axis: tuple[int, ...]) -> Any:
    picked = _picked(x, out, axis)
    ties = sum_op(cast(picked, dtype=x.dtype), axis=axis, keepdims=True)
    return where_op(picked, kept(ct, x.shape, axis) / ties, 0.0)


def _extreme_samples(rng: Any) -> list[Call]:
    return [Call((rng.permutation(c.args[0].size).reshape(c.args[0].shape) / 4,), c.attrs) for c in reductions()(rng)]


max_op: Op = op(
    "max(x; axis: axes, keepdims)",
    _maximum,
    infer=infer_nonempty("maximum"),
    facts={"x": Vjp(_extreme_pull, present=_picked)},
    doc="The largest element along axes; a gradient is shared equally among equals.",
    samples=_extreme_samples,
    reference=row_by_row(lambda row: sorted(row)[-1]),
    onnx="ReduceMax",
    reduction=Reduction("maximum", None),
    cost=1,
    form=Form("max", "max({0})", say="The largest element gets everything; equals share."),
    pattern="route",
    zero_gradient="not_extreme",
)
min_op: Op = op(
    "min(x; axis: axes, keepdims)",
    _minimum,
    infer=infer_nonempty("minimum"),
    facts={"x": Vjp(_extreme_pull, present=_picked)},
    doc="The smallest element along axes; a gradient is shared equally among equals.",
    samples=_extreme_samples,
    reference=row_by_row(lambda row: sorted(row)[0]),
    onnx="ReduceMin",
    reduction=Reduction("minimum", None),
    cost=1,
    form=Form("min", "min({0})", say="The smallest element gets everything; equals share."),
    pattern="route",
    zero_gradient="not_extreme",
)


def _position_samples(rng: Any) -> list[Call]:
    return [
        Call((rng.normal(size=(2, 3)),), {"axis": -1, "keepdims": False}),
        Call((rng.normal(size=(2, 3, 2)),), {"axis": -2, "keepdims": True}),
        Call((rng.integers(0, 3, size=(4, 3)).T,), {"axis": -1, "keepdims": False}),
    ]


def _position_by_hand(pick: Callable[[Any], Any]) -> Callable[..., Any]:
    by_row = row_by_row(lambda row: row.index(pick(row)))
    return lambda x, axis, keepdims: by_row(x, (axis,), keepdims)


argmax_op: Op = op(
    "argmax(x; axis, keepdims)",
    lambda x, axis, keepdims: x.argmax(axis, keepdims=keepdims).astype(int64, copy=False),
    infer=infer_nonempty("maximum", lambda _: int64),
    doc="The index of the largest element along an axis, the first of equals.",
    samples=_position_samples,
    reference=_position_by_hand(lambda row: sorted(row)[-1]),
    onnx="ArgMax",
    cost=1,
)
argmin_op: Op = op(
    "argmin(x; axis, keepdims)",
    lambda x, axis, keepdims: x.argmin(axis, keepdims=keepdims).astype(int64, copy=False),
    infer=infer_nonempty("minimum", lambda _: int64),
    doc="The index of the smallest element along an axis, the first of equals.",
    samples=_position_samples,
    reference=_position_by_hand(lambda row: sorted(row)[0]),
    onnx="ArgMin",
    cost=1,
)


# -- truth


def _truth_samples(rng: Any) -> list[Call]:
    return [Call((rng.integers(0, 2, size=c.args[0].shape) == 1,), c.attrs) for c in reductions()(rng)]


any_op: Op = op(
    "any(x; axis: axes, keepdims)",
    lambda x, axis, keepdims: some(x, axis, None, None, keepdims),
    infer=infer_as(lambda _: bool_),
    doc="Whether some element along axes is true (not 0).",
    samples=_truth_samples,
    reference=row_by_row(lambda row: True in row),
    onnx=Missing("no reduction of booleans; ReduceMax of integers says the same"),
    reduction=Reduction("logical_or", False),
    cost=1,
)
all_op: Op = op(
    "all(x; axis: axes, keepdims)",
    lambda x, axis, keepdims: every(x, axis, None, None, keepdims),
    infer=infer_as(lambda _: bool_),
    doc="Whether every element along axes is true (not 0).",
    samples=_truth_samples,
    reference=row_by_row(lambda row: False not in row),
    onnx=Missing("no reduction of booleans; ReduceMin of integers says the same"),
    reduction=Reduction("logical_and", True),
    cost=1,
)
count_nonzero_op: Op = op(
    "count_nonzero(x; axis: axes, keepdims)",
    lambda x, axis, keepdims: add_up(x != 0, axis, int64, None, keepdims),
    infer=infer_as(lambda _: int64),
    doc="How many elements along axes are not 0.",
    samples=_truth_samples,
    reference=row_by_row(lambda row: row.count(True)),
    onnx=Missing("ONNX writes it as ReduceSum of Cast(Not(Equal(x, 0)))"),
    cost=1,
)
