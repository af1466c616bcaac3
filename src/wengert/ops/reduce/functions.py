"""Reductions: sums, products, moments, extremes and truth along any set of axes.

The functions have the names of the Array API, which here shadow Python's builtins. Their ops are
declared in :mod:`.reduce_ops`.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import DTypeError, fail
from ...core.ops.declare import public
from ...core.ops.op import Op
from ...core.ops.record import bind
from ...core.spec import DType, as_dtype, category, inexact_dtype, normalize_axis
from ...core.tensor import Tensor
from ..aliases import dim_alias
from ..structure.shapes import as_operand, casted, reshaped
from .common import Axis, exact_float, ordered, over_all, reduced_axes
from .ops import (
    all_op,
    any_op,
    argmax_op,
    argmin_op,
    count_nonzero_op,
    max_op,
    mean_op,
    min_op,
    prod_op,
    std_op,
    sum_op,
    var_op,
)

# Keyword arguments that PyTorch names otherwise, dim= and keepdim=, are taken as well.


def _reduced(reduction: Op, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    out: Tensor = bind(reduction, (x,), {"axis": reduced_axes(axis, x.ndim), "keepdims": bool(keepdims)})
    return out


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
        return casted(_reduced(sum_op, casted(x, want), axis, keepdims), want)
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
        return casted(_reduced(prod_op, casted(x, want), axis, keepdims), want)
    return _reduced(prod_op, x, axis, keepdims)


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
    wanted = x.dtype
    if dtype is not None:
        wanted = _floating("mean", as_dtype(dtype))
        x = casted(x, wanted)
    elif not x.spec.inexact:
        wanted = inexact_dtype(x.dtype)
        x = casted(x, exact_float(x.dtype, wanted))
    out: Tensor = bind(mean_op, (x,), {"axis": reduced_axes(axis, x.ndim), "keepdims": bool(keepdims)})
    return casted(out, wanted)


def _floating(name: str, dtype: DType) -> DType:
    """Return the dtype that a mean is asked for in. Raises DTypeError unless it holds fractions."""
    if category(dtype) < 2:
        fail(DTypeError, f"{name} in {dtype}, which cannot hold fractions", "Ask for a floating dtype.")
    return dtype


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


@public(method=True)
@dim_alias
def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the largest elements along axes (Array API).

    **Unlike PyTorch, `x.max(axis)` gives values only**: their indices are `x.argmax(axis)`, and both
    together `wg.top_k(x, 1)`. The larger of two tensors is `wg.maximum(x, y)`.

    Parameters
    ----------
    x: any shape, not complex.
    axis: an axis or several; None for all.
    keepdims: keep the reduced axes, with size 1.

    NaN if there is one; of zeros of both signs either. The gradient is shared equally among the
    largest elements. Raises ShapeError for an axis of size 0, DTypeError for complex numbers.

    >>> import wengert as wg
    >>> wg.max(wg.tensor([[1, 5], [7, 3]]), axis=1)
    tensor([5, 7])
    """
    return _reduced(max_op, ordered(x, "max"), axis, keepdims)


@public(method=True)
@dim_alias
def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the smallest elements along axes (Array API).

    Parameters and behaviour are those of :func:`max`: values only, **unlike PyTorch's** `x.min(dim)`.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.min(wg.tensor([[1, 5], [7, 3]]))
    tensor(1)
    """
    return _reduced(min_op, ordered(x, "min"), axis, keepdims)


public(max, name="amax", method=True, function=False)
public(min, name="amin", method=True, function=False)


def _position(reduction: Op, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is not None:
        out: Tensor = bind(reduction, (x,), {"axis": normalize_axis(axis, x.ndim), "keepdims": bool(keepdims)})
        return out
    out = bind(reduction, (reshaped(x, (x.size,)),), {"axis": -1, "keepdims": False})
    return reshaped(out, (1,) * x.ndim) if keepdims else out


@public(method=True)
@dim_alias
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the largest element along an axis (Array API).

    Parameters
    ----------
    x: any shape, not complex.
    axis: one axis; None counts through the flattened tensor.
    keepdims: keep the reduced axis, with size 1.

    The first of equals, int64; a NaN counts as largest. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.argmax(wg.tensor([[1, 5], [7, 3]]), axis=1)
    tensor([1, 0])
    """
    return _position(argmax_op, ordered(x, "argmax"), axis, keepdims)


@public(method=True)
@dim_alias
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the smallest element along an axis (Array API); see :func:`argmax`.

    A NaN counts as smallest. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.argmin(wg.tensor([3.0, 1.0, 2.0]))
    tensor(1)
    """
    return _position(argmin_op, ordered(x, "argmin"), axis, keepdims)


@public(method=True)
@dim_alias
def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether any element along axes is true, or not 0 (Array API). False for none.

    >>> import wengert as wg
    >>> wg.any(wg.tensor([[True, False], [False, False]]), axis=1)
    tensor([ True, False])
    """
    return _reduced(any_op, as_operand(x), axis, keepdims)


@public(method=True)
@dim_alias
def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements along axes are true, or not 0 (Array API). True for none.

    >>> import wengert as wg
    >>> wg.all(wg.tensor([[True, False], [True, True]]), axis=1)
    tensor([False,  True])
    """
    return _reduced(all_op, as_operand(x), axis, keepdims)


@public(method=True)
@dim_alias
def count_nonzero(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the number of elements along axes that are not 0, as int64 (Array API).

    >>> import wengert as wg
    >>> wg.count_nonzero(wg.tensor([0.0, 2.0, 3.0]))
    tensor(2)
    """
    return _reduced(count_nonzero_op, as_operand(x), axis, keepdims)
