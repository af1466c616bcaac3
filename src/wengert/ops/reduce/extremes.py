"""The largest and the smallest elements along axes, and their positions; the functions shadow Python's builtins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.ops.declare import op, public
from ...core.ops.facets import Form, Reduction
from ...core.ops.op import Call, Op, Vjp
from ...core.ops.record import bind
from ...core.spec import int64, normalize_axis
from ...core.tensor import Tensor
from ..aliases import dim_alias
from ..pointwise.selection import where_op
from ..structure.shapes import cast, reshaped
from .common import (
    Axis,
    infer_nonempty,
    kept,
    largest,
    ordered,
    reduced,
    reductions,
    row_by_row,
    smallest,
)
from .sums import sum_op


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
    over_parts="max",
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
    over_parts="min",
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
    return reduced(max_op, ordered(x, "max"), axis, keepdims)


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
    return reduced(min_op, ordered(x, "min"), axis, keepdims)


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
