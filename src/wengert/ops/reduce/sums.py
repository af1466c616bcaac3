"""Sums, products and means along any set of axes: the ops, and the functions of the Array API's names.

The functions shadow Python's builtins here. Keyword arguments that PyTorch names otherwise, dim= and keepdim=, are
taken as well.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays import ARRAY_ALWAYS
from ...core.dtypes import DType
from ...core.errors import DTypeError, fail
from ...core.ops.declare import op, public
from ...core.ops.facets import Cause, Form, Nonfinite, Reduction
from ...core.ops.nonfinite import OVERFLOW, PRODUCT, WIDER, always
from ...core.ops.op import Call, Linear, Op, Vjp
from ...core.ops.record import bind
from ...core.spec import Shape, as_dtype, category, inexact_dtype
from ...core.tensor import Tensor
from ..aliases import dim_alias
from ..long_sums import MANY, SHORT, add, add_up, multiply, multiply_up
from ..structure.shapes import as_operand, broadcast, casted
from .common import (
    ALL_AXES,
    Axis,
    count,
    divided,
    exact_float,
    infer,
    infer_as,
    kept,
    narrowed,
    over_all,
    reduced,
    reduced_axes,
    reductions,
    row_by_row,
    running_dtype,
    summed_dtype,
)
from .cumulative import conjugate, cumulative_prod_op


def _sum(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    if x.itemsize == 2:
        dtype = summed_dtype(x.dtype)
        return narrowed(add_up(x, axis, running_dtype(dtype), None, keepdims), dtype)
    if x.size <= SHORT or (x.flags.c_contiguous and axis == ALL_AXES[len(axis)]):  # in pairs
        return add(x, axis, out=ARRAY_ALWAYS, keepdims=keepdims)
    return add_up(x, axis, None, ARRAY_ALWAYS, keepdims)


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
    over_parts="sum",
    samples=reductions(Call((np.zeros((2, 0)),), {"axis": (-1,), "keepdims": False})),
    reference=row_by_row(math.fsum),
    onnx="ReduceSum",
    reduction=Reduction("add", 0),
    cost=1,
    form=Form("Σ", "Σ {0}", binds="product", local="1", say="A sum copies what arrives to *every* element."),
    pattern="distribute",
    nonfinite=OVERFLOW,
    autocast="float32",
)


def _prod(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    if x.itemsize == 2:
        dtype = summed_dtype(x.dtype)
        return narrowed(multiply_up(x, axis, running_dtype(dtype), None, keepdims), dtype)
    if x.size <= MANY:
        return multiply(x, axis, None, None, keepdims)
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
    autocast="float32",
)


def _mean(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    n = x.size if len(axis) == x.ndim else count(x.shape, axis)
    if x.itemsize == 2:
        return narrowed(add_up(x, axis, running_dtype(x.dtype), None, keepdims) / (n or math.nan), x.dtype)
    if x.size <= SHORT or (x.flags.c_contiguous and axis == ALL_AXES[len(axis)]):
        return add(x, axis, None, None, keepdims) / (n or math.nan)
    return add_up(x, axis, None, None, keepdims) / (n or math.nan)


def _mean_transpose(ct: Any, x_shape: Shape, axis: tuple[int, ...]) -> Any:
    share = divided(ct, count(x_shape, axis) or 1)
    return broadcast(kept(share, x_shape, axis), shape=x_shape)


mean_op: Op = op(
    "mean(x; axis: axes, keepdims)",
    _mean,
    accepts="floating",
    kind="linear",
    infer=infer,
    # All coefficients of the transpose are the same positive number: it moves masks as a sum's does.
    facts={"x": Linear(_mean_transpose, fills=True, selects=True, covers=True)},
    doc="The arithmetic mean of the elements along axes; NaN for none.",
    over_parts="mean",
    samples=reductions(),
    reference=row_by_row(lambda row: math.fsum(row) / len(row) if row else math.nan),
    onnx="ReduceMean",
    dependence="axes",
    cost=1,
    form=Form("mean", "mean({0})", local="1 / n", say="A mean gives every element an equal *share* of what arrives."),
    pattern="distribute",
    nonfinite=Nonfinite(((always, Cause("the mean of no elements, or of a sum that overflows", WIDER)),)),
    autocast="float32",
)


@public(method=True)
@dim_alias
def sum(x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the sum of the elements along axes (Array API).

    Parameters
    ----------
    x: any shape, numbers or booleans.
    axis: an axis or several; None for all. The sum over no elements is 0.
    keepdims: keep the reduced axes, with size 1.
    dtype: the dtype to sum in and of the result; else that of `x`, but booleans and small
        integers widen to 64 bits.

    Half precision accumulates in float32. Raises ShapeError for axes that do not exist.

    >>> import wengert as wg
    >>> wg.sum(wg.tensor([[1, 2], [3, 4]]), axis=0)
    tensor([4, 6])
    """
    if not isinstance(x, Tensor):
        x = as_operand(x)
    if axis is None and not keepdims and dtype is None:
        whole = over_all(sum_op, x)
        if whole is not None:
            return whole
    if dtype is not None:
        want = as_dtype(dtype)
        # Small integers widen all the same; modulo their range the sum is as if they had not.
        return casted(reduced(sum_op, casted(x, want), axis, keepdims), want)
    out: Tensor = bind(sum_op, (x,), {"axis": reduced_axes(axis, x.ndim), "keepdims": bool(keepdims)})
    return out


@public(method=True)
@dim_alias
def prod(x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the product of the elements along axes (Array API).

    Parameters are those of :func:`sum`; the product of no elements is 1. Derivatives are right
    with any number of zeros, to every order.

    Raises ShapeError.

    >>> import wengert as wg
    >>> x = wg.tensor([2.0, 0.0, 3.0], requires_grad=True)
    >>> wg.prod(x).backward()
    >>> x.grad
    tensor([0., 6., 0.])
    """
    x = as_operand(x)
    if dtype is not None:
        want = as_dtype(dtype)
        return casted(reduced(prod_op, casted(x, want), axis, keepdims), want)
    return reduced(prod_op, x, axis, keepdims)


@public(method=True)
@dim_alias
def mean(x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the arithmetic mean of the elements along axes (Array API).

    Parameters
    ----------
    x: any shape; of integers and booleans the mean is float32 (computed in float64 from 32 bits on).
    axis: an axis or several; None for all. The mean of no elements is NaN.
    keepdims: keep the reduced axes, with size 1.
    dtype: a floating dtype to convert to first.

    Half precision accumulates in float32. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.mean(wg.tensor([[1.0, 2.0], [3.0, 5.0]]), axis=1)
    tensor([1.5, 4. ])
    """
    if not isinstance(x, Tensor):
        x = as_operand(x)
    if axis is None and not keepdims and dtype is None:
        whole = over_all(mean_op, x)
        if whole is not None:
            return whole
    wanted = None
    if dtype is not None:
        wanted = _floating("mean", as_dtype(dtype))
        x = casted(x, wanted)
    elif not x.spec.inexact:
        wanted = inexact_dtype(x.dtype)
        x = casted(x, exact_float(x.dtype, wanted))
    out: Tensor = bind(mean_op, (x,), {"axis": reduced_axes(axis, x.ndim), "keepdims": bool(keepdims)})
    return out if wanted is None else casted(out, wanted)


def _floating(name: str, dtype: DType) -> DType:
    """Return the dtype that a mean is asked for in. Raises DTypeError unless it holds fractions."""
    if category(dtype) < 2:
        fail(DTypeError, f"{name} in {dtype}, which cannot hold fractions", "Ask for a floating dtype.")
    return dtype
