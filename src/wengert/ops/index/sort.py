"""Order: sorting, the k largest, searching, unique elements, and where elements are not 0.

Values in another order are gathered by indices, which are computed apart and have no derivative:
what flows back goes where each value came from.
"""

from __future__ import annotations

import bisect
from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.dtypes import is_foreign
from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.costs import SORTING, log2_of
from ...core.ops.declare import composite, op, public
from ...core.ops.facets import Count
from ...core.ops.op import Call, Missing, Op
from ...core.ops.operands import promote_tensors
from ...core.ops.record import bind
from ...core.spec import Spec, default_float, float32, int64, normalize_axis, show, spec_of
from ...core.state.refusals import refuse
from ...core.tensor import Tensor, wrap
from ..aliases import dim_alias
from ..pointwise.selection import where_op
from ..reduce.common import ordered, reduced_axes, reduced_shape
from ..structure.assemble import along, resized
from ..structure.shapes import as_operand, casted, reshaped
from .gather import gather_op

# -- argsort and sort


def _comparable(x: Any) -> Any:
    """Return `x` in a dtype in whose order NumPy has NaN last."""
    return x.astype(float32) if is_foreign(x.dtype) else x


def _argsort(x: Any, axis: int, descending: bool, stable: bool) -> Any:
    x = _comparable(x)
    kind: Literal["stable", "quicksort"] = "stable" if stable else "quicksort"
    if not descending:
        return x.argsort(axis, kind=kind).astype(int64, copy=False)
    # Backwards in and backwards out: equal elements stay in their order.
    backwards = along(axis, slice(None, None, -1))
    return (x.shape[axis] - 1 - x[backwards].argsort(axis, kind=kind)[backwards]).astype(int64, copy=False)


def _argsort_by_hand(x: Any, axis: int, descending: bool, stable: bool) -> Any:
    def line(row: Any) -> Any:
        sign = -1 if descending else 1
        return np.asarray(sorted(range(len(row)), key=lambda i: (sign * row[i], i)), int64)

    return np.apply_along_axis(line, axis, x)


def _sort_samples(rng: Any) -> list[Call]:
    return [
        Call((rng.permutation(5) / 2,), {"axis": -1, "descending": False, "stable": True}),
        Call((rng.permutation(12).reshape(3, 4) / 2,), {"axis": -2, "descending": True, "stable": True}),
        Call((rng.permutation(12).reshape(2, 3, 2) / 2,), {"axis": -1, "descending": False, "stable": False}),
    ]


argsort_op: Op = op(
    "argsort(x; axis, descending, stable)",
    _argsort,
    infer=lambda x, **attrs: x.with_dtype(int64),
    doc="The indices that sort along an axis.",
    samples=lambda rng: [
        *_sort_samples(rng),
        Call((np.array([1.0, 0.0, 1.0, 0.0]),), {"axis": -1, "descending": True, "stable": True}, order=0),
    ],
    reference=_argsort_by_hand,
    onnx="TopK",
    cost=SORTING,
)


@composite(
    "sort(x; axis, descending, stable)",
    doc="The elements in order along an axis.",
    samples=_sort_samples,
    reference=lambda x, axis, descending, stable: np.apply_along_axis(
        lambda row: np.array(sorted(row, reverse=descending)), axis, x
    ),
    onnx="TopK",
    zero_gradient="not_extreme",
)
def sort_op(x: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    """Return the elements in order along an axis, picked by their sorting indices."""
    return gather_op(x, argsort_op(x, axis=axis, descending=descending, stable=stable), axis=axis)


@public(method=True)
@dim_alias
def argsort(x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices that put the elements in order along an axis, as int64 (Array API).

    Parameters
    ----------
    x: at least one axis, not complex.
    axis: along which axis.
    descending: largest first.
    stable: equal elements keep their order, descending too.

    NaN counts as largest. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.argsort(wg.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """
    x = ordered(x, "argsort")
    attrs = {"axis": normalize_axis(axis, x.ndim), "descending": bool(descending), "stable": bool(stable)}
    out: Tensor = bind(argsort_op, (x,), attrs)
    return out


@public(method=True)
@dim_alias
def sort(x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the elements in order along an axis (Array API); parameters are those of :func:`argsort`.

    **Unlike PyTorch it gives the values only**; their indices are `wg.argsort(x)`. Gradients go to
    where each value came from. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.sort(wg.tensor([3.0, 1.0, 2.0]), descending=True)
    tensor([3., 2., 1.])
    """
    x = ordered(x, "sort")
    attrs = {"axis": normalize_axis(axis, x.ndim), "descending": bool(descending), "stable": bool(stable)}
    out: Tensor = sort_op.front(x, **attrs)
    return out


# -- the k largest


def _arg_top_k(x: Any, k: int, axis: int, largest: bool) -> Any:
    n = x.shape[axis]
    if k > n:
        _infer_top_k(spec_of(x.shape, x.dtype), k, axis, largest)
    if k == 0 or 4 * k >= n:
        return _argsort(x, axis, largest, True)[along(axis, slice(k))]
    # Only the chosen are sorted; from the start in the order of their indices, so that equals stay in it.
    x = _comparable(x)
    part = slice(n - k, None) if largest else slice(k)
    chosen = np.sort(np.argpartition(x, n - k if largest else k - 1, axis)[along(axis, part)], axis)
    if _has_rivals(x, np.take_along_axis(x, chosen, axis), axis, largest):
        chosen = np.moveaxis(_first_chosen(np.moveaxis(x, axis, -1), k, largest), -1, axis)
    order = _argsort(np.take_along_axis(x, chosen, axis), axis, largest, True)
    return np.take_along_axis(chosen, order, axis).astype(int64, copy=False)


def _has_rivals(x: Any, taken: Any, axis: int, largest: bool) -> bool:
    """Return whether elements that were not taken equal the last ones taken; any NaN may have such rivals."""
    edge = taken.min(axis, keepdims=True) if largest else taken.max(axis, keepdims=True)
    if (edge != edge).any():
        return True
    return bool(((x == edge).sum(axis) != (taken == edge).sum(axis)).any())


def _first_chosen(x: Any, k: int, largest: bool) -> Any:
    """Return the indices, in order, of the k largest (or smallest) along the last axis; the first of equals."""
    at = x.shape[-1] - k if largest else k - 1
    edge = np.partition(x, at, -1)[..., at : at + 1]
    nan, nan_edge = x != x, edge != edge  # NaN is largest
    equal = (x == edge) | (nan & nan_edge)
    better = (x > edge) | (nan & ~nan_edge) if largest else (x < edge) | (~nan & nan_edge)
    room = k - better.sum(-1, keepdims=True)
    taken = better | (equal & (equal.cumsum(-1) <= room))
    return taken.nonzero()[-1].reshape((*x.shape[:-1], k))


def _infer_top_k(x: Spec, k: int, axis: int, largest: bool) -> Spec:
    n = x.shape[axis]
    if not 0 <= k <= n:
        fail(
            ShapeError,
            f"top_k of {k} elements along an axis of size {n}, {show(x.shape, x.dtype)}",
            f"k must lie between 0 and {n}.",
        )
    return spec_of(resized(x.shape, axis, k), int64)


def _top_k_samples(rng: Any) -> list[Call]:
    return [
        Call((rng.permutation(5) / 2,), {"k": 3, "axis": -1, "largest": True}),
        Call((rng.permutation(12).reshape(4, 3) / 2,), {"k": 2, "axis": -2, "largest": False}),
        Call((rng.permutation(24).reshape(2, 12) / 2,), {"k": 2, "axis": -1, "largest": True}),
        Call((rng.permutation(4) / 2,), {"k": 0, "axis": -1, "largest": True}),
    ]


def _top_k_by_hand(x: Any, k: int, axis: int, largest: bool) -> Any:
    indices = _argsort_by_hand(x, axis, largest, True).take(range(k), axis)
    return np.take_along_axis(x, indices, axis), indices


arg_top_k_op: Op = op(
    "arg_top_k(x; k, axis, largest)",
    _arg_top_k,
    infer=_infer_top_k,
    doc="The indices of the k largest (or smallest) elements along an axis, in order.",
    samples=_top_k_samples,
    reference=lambda x, **attrs: _top_k_by_hand(x, **attrs)[1],
    onnx="TopK",
    cost=SORTING,
)


@composite(
    "top_k(x; k, axis, largest)",
    results=2,
    doc="The k largest (or smallest) elements along an axis, in order, and their indices.",
    samples=_top_k_samples,
    reference=_top_k_by_hand,
    onnx="TopK",
    zero_gradient="not_extreme",
)
def top_k_op(x: Any, *, k: int, axis: int, largest: bool) -> Any:
    """Return the k largest (or smallest) elements along an axis, and their indices."""
    indices = arg_top_k_op(x, k=k, axis=axis, largest=largest)
    return gather_op(x, indices, axis=axis), indices


class TopK(NamedTuple):
    """The result of :func:`top_k`."""

    values: Tensor
    indices: Tensor


@public(method=True)
@dim_alias
def top_k(x: Any, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> TopK:
    """Return the k largest elements along an axis, largest first, and their indices.

    Parameters
    ----------
    x: at least one axis, not complex.
    k: how many, at most the size of the axis.
    axis: along which axis.
    largest: False for the k smallest, smallest first.
    sorted: accepted for PyTorch; the result is always in order.

    Returns `(values, indices)`. Equals come in the order of their indices; which of several equal
    to the smallest chosen are chosen is not said. NaN counts as largest. Gradients go to where each
    value came from. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.top_k(wg.tensor([3.0, 1.0, 4.0]), 2)
    TopK(values=tensor([4., 3.]), indices=tensor([2, 0]))
    """
    x = ordered(x, "top_k")
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        fail(DTypeError, f"top_k: k must be an int, not {type(k).__name__}")
    axis = normalize_axis(axis, x.ndim)
    k = k.__index__()
    _infer_top_k(x.spec, k, axis, largest)
    return TopK(*top_k_op.front(x, k=k, axis=axis, largest=bool(largest)))


public(top_k, name="topk", method=True, function=False)


# -- median


@public(method=True)
@dim_alias
def median(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the middle element along an axis; the mean of the middle two where their number is even.

    **Unlike PyTorch**, which takes the lower of the two and also gives indices.

    Parameters
    ----------
    x: real; integers become floating numbers of the default dtype.
    axis: one axis; None for all elements.
    keepdims: keep the reduced axes, with size 1.

    NaN if there is one. The gradient goes to the middle element, or halves to the middle two.
    Raises ShapeError for an axis of size 0, DTypeError for complex numbers.

    >>> import wengert as wg
    >>> wg.median(wg.tensor([4.0, 1.0, 2.0, 3.0]))
    tensor(2.5)
    """
    x = ordered(x, "median")
    shape = x.shape
    if axis is None:
        row, at = reshaped(x, (x.size,)), -1
    else:
        row, at = x, normalize_axis(axis, x.ndim)
    n = row.shape[at]
    if n == 0:
        fail(ShapeError, f"median of {show(shape, x.dtype)} along an axis of size 0", "Check the size first.")
    row = sort_op.front(
        row if row.spec.inexact else casted(row, default_float()), axis=at, descending=False, stable=True
    )
    middle = row[along(at, slice((n - 1) // 2, n // 2 + 1))].mean(axis=at, keepdims=True)
    last = row[along(at, slice(n - 1, None))]
    middle = where_op(last == last, middle, last)  # NaN sorts last
    return reshaped(middle, reduced_shape(shape, reduced_axes(axis, len(shape)), bool(keepdims)))


# -- searchsorted


def _searchsorted(sorted: Any, values: Any, right: bool) -> Any:
    side: Literal["left", "right"] = "right" if right else "left"
    sorted, values = _comparable(sorted), _comparable(values)
    if sorted.ndim == 1:
        return np.asarray(np.searchsorted(sorted, values, side), int64)
    out = np.empty(values.shape, int64)
    for row in np.ndindex(sorted.shape[:-1]):
        out[row] = np.searchsorted(sorted[row], values[row], side)
    return out


def _infer_searchsorted(sorted: Spec, values: Spec, right: bool) -> Spec:
    if not sorted.shape or (len(sorted.shape) > 1 and sorted.shape[:-1] != values.shape[:-1]):
        fail(
            ShapeError,
            f"searchsorted of {show(values.shape)} in {show(sorted.shape)}",
            "Search in a 1-d tensor, or row by row in tensors whose shapes agree but for the last axis.",
        )
    return values.with_dtype(int64)


def _searchsorted_by_hand(sorted: Any, values: Any, right: bool) -> Any:
    out = np.empty(values.shape, int64)
    for at in np.ndindex(values.shape):
        row = sorted if sorted.ndim == 1 else sorted[at[:-1]]
        out[at] = (bisect.bisect_right if right else bisect.bisect_left)(row.tolist(), values[at])
    return out


searchsorted_op: Op = op(
    "searchsorted(sorted, values; right)",
    _searchsorted,
    infer=_infer_searchsorted,
    doc="Where values would have to be inserted to keep a tensor sorted.",
    samples=lambda rng: [
        Call((np.array([1.0, 2.0, 2.0, 4.0]), np.array([[0.0, 2.0], [3.0, 5.0]])), {"right": False}),
        Call((np.array([1.0, 2.0, 2.0, 4.0]), np.array(2.0)), {"right": True}),
        Call((np.sort(rng.normal(size=(2, 4)), -1), rng.normal(size=(2, 3))), {"right": False}),
    ],
    reference=_searchsorted_by_hand,
    onnx=Missing("no such operator"),
    cost=Count("log2 n comparisons each", lambda node, specs, out: round(out.size * (1 + log2_of(specs[0].shape[-1])))),
)


@public
def searchsorted(
    x1: Any, x2: Any, *, side: Literal["left", "right"] = "left", sorter: Any = None, right: bool = False
) -> Tensor:
    """Return the indices at which `x2` would have to be inserted into `x1` to keep it sorted (Array API).

    Parameters
    ----------
    x1: sorted along its last axis, ascending: one axis, or as many as `x2`, which is then searched
        for row by row (PyTorch).
    x2: what to insert, any shape; promotes with `x1`.
    side: "left" for the first index that fits, "right" for the last.
    sorter: the indices that sort `x1`, if it is not sorted.
    right: PyTorch's name for `side="right"`.

    Returns int64, in the shape of `x2`. Raises ShapeError, DTypeError; ValueError for another side.

    >>> import wengert as wg
    >>> wg.searchsorted(wg.tensor([1.0, 3.0, 5.0]), wg.tensor([3.0, 4.0]))
    tensor([1, 2])
    """
    if side not in ("left", "right"):
        raise ValueError(f'side must be "left" or "right", not {side!r}')
    x1, x2 = promote_tensors("searchsorted", ordered(x1, "searchsorted"), ordered(x2, "searchsorted"))
    if sorter is not None:
        x1 = gather_op.front(x1, as_operand(sorter), axis=-1)
    _infer_searchsorted(x1.spec, x2.spec, right)
    out: Tensor = bind(searchsorted_op, (x1, x2), {"right": bool(right) or side == "right"})
    return out


# -- results whose shapes depend on the values


def _concrete(x: Any, name: str) -> Any:
    """Return the value of an operand. Raises TraceError for an abstract one: the result's shape would be unknown."""
    value = x._fixed(name)
    if value is None:
        refuse(
            f"{name} of an abstract tensor {x.spec}",
            "The result's shape would depend on its values. Do this outside of the traced function, "
            "or keep the shape and choose values: wg.where(mask, x, other).",
            x,
        )
    return value


@public(method=True)
def nonzero(x: Any) -> tuple[Tensor, ...]:
    """Return the indices of the elements that are not 0, an int64 tensor for each axis (Array API, NumPy).

    **Unlike PyTorch**, which gives one matrix with a row for each element: `wg.stack(nonzero(x), 1)`.

    Raises ShapeError for a 0-d tensor, TraceError for an abstract one.

    >>> import wengert as wg
    >>> wg.nonzero(wg.tensor([0.0, 5.0, 7.0]))
    (tensor([1, 2]),)
    """
    x = as_operand(x)
    if not x.shape:
        fail(ShapeError, "nonzero of a 0-d tensor, which has no axes", "Write x != 0.")
    return tuple(wrap(np.asarray(i, int64)) for i in np.nonzero(_concrete(x, "nonzero")))


class UniqueAll(NamedTuple):
    """The result of :func:`unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of :func:`unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of :func:`unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


@public
def unique_all(x: Any) -> UniqueAll:
    """Return the distinct elements in ascending order, their first places and how often each occurs (Array API).

    Returns `(values, indices, inverse_indices, counts)`: `indices` of first occurrences in the
    flattened tensor; `values[inverse_indices]` is `x`. Every NaN is distinct. The gradient of a value
    goes to its first occurrence. Complex numbers are ordered by their real, then their imaginary parts.

    Raises TraceError for an abstract tensor.

    >>> import wengert as wg
    >>> wg.unique_all(wg.tensor([3, 1, 3])).counts
    tensor([1, 2])
    """
    x = as_operand(x)
    value = _comparable(_concrete(x, "unique"))
    _, first, inverse, counts = np.unique(
        value.ravel(), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    indices = wrap(np.asarray(first, int64))
    return UniqueAll(
        gather_op.front(reshaped(x, (x.size,)), indices, axis=-1),
        indices,
        wrap(np.asarray(inverse.reshape(x.shape), int64)),
        wrap(np.asarray(counts, int64)),
    )


@public
def unique_counts(x: Any) -> UniqueCounts:
    """Return the distinct elements in ascending order and how often each occurs; see :func:`unique_all`.

    >>> import wengert as wg
    >>> wg.unique_counts(wg.tensor([3, 1, 3]))
    UniqueCounts(values=tensor([1, 3]), counts=tensor([1, 2]))
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


@public
def unique_inverse(x: Any) -> UniqueInverse:
    """Return the distinct elements in ascending order and, for each element of `x`, its place among them.

    >>> import wengert as wg
    >>> wg.unique_inverse(wg.tensor([3, 1, 3]))
    UniqueInverse(values=tensor([1, 3]), inverse_indices=tensor([1, 0, 1]))
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


@public
def unique_values(x: Any) -> Tensor:
    """Return the distinct elements in ascending order; see :func:`unique_all`.

    >>> import wengert as wg
    >>> wg.unique_values(wg.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    return unique_all(x).values
