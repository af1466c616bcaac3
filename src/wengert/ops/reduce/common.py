"""The common parts of reductions: axes, shapes and dtypes, samples and the oracle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dims import Dim
from ...core.dtypes import DType
from ...core.errors import DTypeError, ShapeError, WengertError, fail
from ...core.ops.autocast import casts
from ...core.ops.op import Call, Op
from ...core.ops.record import bind, record_one, where_they_are
from ...core.spec import (
    Shape,
    Spec,
    category,
    default_float,
    float32,
    float64,
    int64,
    normalize_axes,
    show,
    spec_of,
    uint64,
)
from ...core.state.observer import detours, observers, raise_of_observer
from ...core.tensor import Tensor
from ..structure.shapes import as_operand, broadcast, cast, casted

Axis = int | tuple[int, ...] | list[int] | None

# Every tuple of all axes, by the number of dimensions, of which NumPy allows 64.
ALL_AXES = tuple(tuple(range(-n, 0)) for n in range(65))


# NumPy's reductions, called by position: (x, axis, dtype, out, keepdims, initial). Sums: `ops.long_sums`.
largest: Callable[..., Any] = np.maximum.reduce
smallest: Callable[..., Any] = np.minimum.reduce
some: Callable[..., Any] = np.logical_or.reduce
every: Callable[..., Any] = np.logical_and.reduce


# -- shapes and dtypes


def reduced_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Return the axes that an axis argument names, counted from the right and sorted."""
    if axis is None:
        return ALL_AXES[ndim]
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis if axis < 0 else axis - ndim,)
    return normalize_axes(axis, ndim)


def reduced_shape(shape: Shape, axis: tuple[int, ...], keepdims: bool) -> Shape:
    """Return the shape that a reduction along axes leaves."""
    ndim = len(shape)
    if keepdims:
        return tuple(1 if i - ndim in axis else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i - ndim not in axis)


def kept(y: Any, x_shape: Shape, axis: tuple[int, ...]) -> Any:
    """Return a result, or its cotangent, in a shape that broadcasts against the argument."""
    ndim = len(y.shape)
    if ndim == 0 or ndim == len(x_shape):
        return y
    return y.reshape(reduced_shape(x_shape, axis, True))


def count(shape: Shape, axis: tuple[int, ...]) -> int:
    """Return the number of elements that each result is made of."""
    return math.prod(shape[a] for a in axis)


def widened(x: Any) -> Any:
    """Return `x` in the dtype that its sums accumulate in."""
    return x.astype(running_dtype(x.dtype), copy=False) if x.itemsize == 2 else x


def narrowed(y: Any, dtype: DType) -> Any:
    """Return a value that was accumulated in a wider dtype, in its own."""
    return y if y.dtype == dtype else y.astype(dtype)


def running_dtype(dtype: DType) -> DType:
    """Return the dtype that sums and products accumulate in: float32 for half precision, else the dtype itself."""
    return float32 if dtype.itemsize == 2 and category(dtype) == 2 else dtype


def summed_dtype(dtype: DType) -> DType:
    """Return the dtype of a sum or product (Array API): booleans and small integers widen to 64 bits."""
    if category(dtype) > 1:
        return dtype
    return uint64 if dtype.kind == "u" else int64


def infer(x: Spec, axis: tuple[int, ...], keepdims: bool, **attrs: Any) -> Spec:
    """Return the spec of a reduction's result, in the argument's dtype."""
    return spec_of(reduced_shape(x.shape, axis, keepdims), x.dtype)


def infer_as(dtype: Callable[[DType], DType]) -> Callable[..., Spec]:
    """Return the shape rule of a reduction whose result has the dtype that `dtype` gives."""
    return lambda x, **attrs: infer(x, **attrs).with_dtype(dtype(x.dtype))


def infer_nonempty(name: str, of: Callable[[DType], DType] = lambda d: d) -> Callable[..., Spec]:
    """Return the shape rule of a reduction that has no value for no elements."""

    def nonempty(x: Spec, axis: int | tuple[int, ...], keepdims: bool) -> Spec:
        axes = axis if isinstance(axis, tuple) else (axis,)
        if 0 in [x.shape[a] for a in axes]:
            fail(
                ShapeError,
                f"{name} of {show(x.shape, x.dtype)} along an axis of size 0",
                f"Nothing has no {name}. Check the size first, or join a neutral element with wg.concat.",
            )
        return infer(x, axes, keepdims).with_dtype(of(x.dtype))

    return nonempty


def divided(y: Any, by: Any) -> Any:
    """Return `y` divided by a number of elements, which may be a size that is not known yet, in the dtype of `y`."""
    if y.dtype.itemsize == 2 and not isinstance(by, Dim):
        out = y * (1.0 / by)  # the number itself may be too large for half precision
        return out if out.dtype == y.dtype else cast(out, dtype=y.dtype)
    return y / by


def present_where_nonzero(out: Any, x_shape: Shape, axis: tuple[int, ...]) -> Any:
    """Return the mask of the elements whose result is not 0: through a root's infinite slope there nothing flows."""
    return broadcast(kept(out != 0.0, x_shape, axis), shape=x_shape)


# -- samples and oracles


def reductions(*more: Call, **attrs: Any) -> Callable[[Any], list[Call]]:
    """Return samples of a reduction, with further calls and attributes."""
    return lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"axis": (-1,), "keepdims": False, **attrs}),
        Call((rng.normal(size=(2, 3, 2)),), {"axis": (-3, -1), "keepdims": True, **attrs}),
        Call((rng.normal(size=(3, 4)).T,), {"axis": (-2, -1), "keepdims": False, **attrs}),
        Call((rng.normal(size=(2, 2)),), {"axis": (), "keepdims": False, **attrs}),
        *more,
    ]


def row_by_row(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return an oracle: `fn` of the Python numbers that each result is made of."""

    def run(x: Any, axis: tuple[int, ...], keepdims: bool, **attrs: Any) -> Any:
        others = [a for a in range(-x.ndim, 0) if a not in axis]
        rows = x.transpose((*others, *axis)).reshape((count(x.shape, tuple(others)), count(x.shape, axis)))
        out = np.asarray([fn(row, **attrs) for row in rows.tolist()])
        return out.reshape(reduced_shape(x.shape, axis, keepdims))

    return run


def exact_float(dtype: DType, wanted: DType) -> DType:
    """Return the dtype to compute moments in that are to be `wanted`: float32 would round large integers first."""
    return float64 if dtype.kind in "iu" and dtype.itemsize >= 4 else wanted


def inexact(x: Any) -> Tensor:
    """Return an operand as floating or complex numbers: integers and booleans become the default float."""
    operand = as_operand(x)
    return operand if operand.spec.inexact else casted(operand, default_float())


def ordered(x: Any, name: str) -> Tensor:
    """Return an operand whose elements have an order. Raises DTypeError for complex numbers."""
    operand = as_operand(x)
    if operand.dtype.kind == "c":
        fail(
            DTypeError,
            f"{name} of complex numbers, {show(operand.shape, operand.dtype)}",
            "They have no order: take wg.abs(x) or wg.real(x) first.",
        )
    return operand


def reduced(reduction: Op, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    """Run a reduction along what an axis argument names."""
    out: Tensor = bind(reduction, (x,), {"axis": reduced_axes(axis, x.ndim), "keepdims": bool(keepdims)})
    return out


_WHOLE: dict[int, dict[str, Any]] = {n: {"axis": tuple(range(-n, 0)), "keepdims": False} for n in range(65)}


def over_all(op: Op, x: Tensor) -> Tensor | None:
    """Return a reduction of a floating tensor over all its axes, on the shortest path; None where it is not one."""
    try:
        spec = x._spec
        if not spec.real_inexact:
            return None
        attrs = _WHOLE[len(spec.shape)]
        if detours and casts(op):
            return None
        data = op.forward(x._data, **attrs) if not observers else op.told((x._data,), attrs)
        return record_one(op, x, data, attrs)
    except WengertError as e:
        raise_of_observer(e)
        where_they_are(op, (x._array,), {}, e)  # which raises for a reduction
        return None
    except (AttributeError, RuntimeWarning) as e:
        raise_of_observer(e)
        return None  # abstract, or to be run again without NumPy's warnings
