"""Gathering and scattering by integer arrays along one axis: take, gather, scatter, embedding, one_hot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.dtypes import DType
from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.ops.declare import op, public
from ...core.ops.facets import Form, Role
from ...core.ops.op import Call, Linear, Missing, NoDerivative, Op
from ...core.ops.operands import elementwise_general
from ...core.ops.record import bind
from ...core.spec import (
    Shape,
    Spec,
    as_dtype,
    broadcast_shapes,
    category,
    float64,
    int64,
    normalize_axis,
    show,
    spec_of,
    uint64,
)
from ...core.state.refusals import refuse
from ...core.tensor import Tensor, wrap
from ..aliases import dim_alias
from ..long_sums import add_rows
from ..pointwise.arithmetic import add
from ..pointwise.selection import where
from ..structure.shapes import as_operand, broadcast, cast, reshaped
from .indices import INDEX, check_range, flat_index, index_op, index_transpose, index_update, ints
from .inplace import update, value_for
from .slices import ALL, NO_OPERATOR, Entries, slice_op, slice_transpose

# -- gather: an index array over one axis, aligned with the others


def _gather(x: Any, indices: Any, axis: int) -> Any:
    try:
        return np.take_along_axis(x, indices, axis)
    except IndexError:
        check_range("gather", (indices,), (x.shape[axis],), x.ndim + axis)
        raise


def _gather_infer(x: Any, indices: Any, axis: int) -> Spec:
    if len(x.shape) != len(indices.shape) or with_size(x.shape, axis, 0) != with_size(indices.shape, axis, 0):
        fail(ShapeError, f"gather of {show(x.shape, x.dtype)} by indices of shape {indices.shape}")
    return spec_of(indices.shape, x.dtype)


def _infer_gather_transpose(ct: Any, indices: Any, axis: int, size: int) -> Spec:
    if ct.shape != indices.shape:
        fail(
            ShapeError, f"the transpose of a gather by indices of shape {indices.shape}, of {show(ct.shape, ct.dtype)}"
        )
    return spec_of(with_size(ct.shape, axis, size), ct.dtype)


def _gather_transpose(ct: Any, indices: Any, axis: int, size: int) -> Any:
    moved = np.moveaxis(ct, axis, -1)
    rows = flat_index("scatter", (np.moveaxis(indices, axis, -1),), (size,), ct.ndim + axis)
    lead = moved.shape[:-1]
    if moved.shape[-1] == 1:
        out = np.zeros((*lead, size), ct.dtype)  # one write to each row: no two can meet
        np.put_along_axis(out, rows, moved, -1)
    else:
        start = (np.arange(math.prod(lead)) * size).reshape(*lead, 1)
        count = math.prod(lead) * size
        out = add_rows((rows + start).ravel(), moved.reshape(-1, 1), count).reshape(*lead, size)
    return np.moveaxis(out, -1, axis)


def counted_from_start(at: Any, size: Any, what: str, axis: int) -> Any:
    """Return places that count from the start of an axis. Raises RangeError for one below 0.

    While a function is traced they become places after the end, which are errors when the function runs.
    """
    if at._array is None:
        return where(at < 0, size, at)
    if at._array.size and (least := int(at._array.min())) < 0:
        fail(
            RangeError,
            f"{what}: index {least} is out of range for axis {axis} of size {size}",
            f"Indices count from the start here, as in PyTorch: add {size} to those below 0.",
        )
    return at


def with_size(shape: Shape, axis: int, size: int) -> Shape:
    """Return a shape with another size along an axis."""
    out = list(shape)
    out[axis] = size
    return tuple(out)


def _gather_by_loop(x: Any, indices: Any, axis: int) -> Any:
    out = np.empty(indices.shape, x.dtype)
    for at in np.ndindex(indices.shape):
        out[at] = x[with_size(at, axis, indices[at])]
    return out


def _gather_transpose_by_loop(ct: Any, indices: Any, axis: int, size: int) -> Any:
    out = np.zeros(with_size(ct.shape, axis, size), ct.dtype)
    for at in np.ndindex(indices.shape):
        out[with_size(at, axis, indices[at])] += ct[at]
    return out


_GATHERS: list[tuple[Shape, Any, int]] = [
    ((3, 4), ints([0, 3], [1, 1], [-1, 2]), -1),
    ((3, 4), ints([0, 1, 2, 2], [0, -1, 2, 1]), -2),
    ((3, 4), ints([0], [3], [3]), -1),
    ((2, 2, 2), ints([[0, 1]], [[1, 1]]), -2),
    ((3,), ints(2, 2, 0, 1), -1),
]

gather_op: Op = op(
    "gather(x, indices; axis)",
    _gather,
    infer=_gather_infer,
    facts={
        "x": Linear(
            lambda ct, indices, axis, x_shape: gather_transpose(ct, indices, axis=axis, size=x_shape[axis]),
            fills=True,
            selects=True,
        ),
        "indices": INDEX,
    },
    kind="linear",
    moves=True,
    doc="The elements that an index array picks along one axis, aligned with the other axes.",
    samples=lambda rng: [Call((rng.normal(size=s), i), {"axis": axis}) for s, i, axis in _GATHERS],
    reference=_gather_by_loop,
    onnx="GatherElements",
    role=Role.PICK,
    cost=0,
    form=Form("[ ]", say="Each picked element gets what arrives; picked twice, it *adds up*."),
    zero_gradient="not_selected",
)

gather_transpose: Op = op(
    "gather_transpose(ct, indices; axis, size)",
    _gather_transpose,
    infer=_infer_gather_transpose,
    facts={
        "ct": Linear(lambda ct, indices, axis: gather_op(ct, indices, axis=axis), selects=True, covers=True),
        "indices": INDEX,
    },
    kind="linear",
    doc="The transpose of gather: zeros with every element added where the index array says along one axis.",
    samples=lambda rng: [
        Call((rng.normal(size=i.shape), i), {"axis": axis, "size": s[axis]}) for s, i, axis in _GATHERS
    ],
    reference=_gather_transpose_by_loop,
    onnx=NO_OPERATOR,
    cost=1,
)


# -- functions over one axis


def _indices(value: Any, what: str) -> Tensor:
    """Return integer indices as a tensor."""
    if isinstance(value, (list, tuple)) and not value:
        return wrap(np.zeros(0, int64))
    found = as_operand(value)
    if category(found.dtype) != 1:
        fail(
            DTypeError,
            f"{what}: indices of dtype {found.dtype}, shape {found.shape}",
            "Indices are integers: write i.astype(wg.int64).",
        )
    return cast.front(found, dtype=int64) if found.dtype == uint64 else found


def _index_axis(x: Tensor, indices: Tensor, axis: int, what: str) -> Tensor:
    """Return `index` along one axis, with range errors in the name of the public function."""
    try:
        out: Tensor = bind(index_op, (x, indices), {"axis": axis})
    except RangeError:
        check_range(what, (indices._array,), (x.shape[axis],), x.ndim + axis)
        raise
    return out


@public(method=True)
@dim_alias
def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """Return the elements of `x` at integer `indices` along `axis` (Array API, NumPy).

    Parameters
    ----------
    x: any shape; with `axis=None` it is flattened first.
    indices: integers of any shape, which takes the place of the axis; negative ones count from the end.

    Raises RangeError for an index outside the axis, DTypeError, ShapeError.

    >>> import wengert as wg
    >>> wg.take(wg.tensor([[1, 2, 3], [4, 5, 6]]), [2, 0], axis=1)
    tensor([[3, 1],
            [6, 4]])
    """
    x = as_operand(x)
    if axis is None:
        x, axis = x if x.ndim == 1 else reshaped(x, (x.size,)), -1
    return _index_axis(x, _indices(indices, "take"), normalize_axis(axis, x.ndim), "take")


@public(method=True, home="torch")
@dim_alias
def index_select(x: Any, axis: int, indices: Any) -> Tensor:
    """Return the slices of `x` at a vector of integers along `axis` (PyTorch).

    Raises ShapeError for indices that are not a vector, RangeError, DTypeError.

    >>> import wengert as wg
    >>> wg.torch.index_select(wg.tensor([[1, 2], [3, 4]]), 0, [1, 1])
    tensor([[3, 4],
            [3, 4]])
    """
    x, found = as_operand(x), _indices(indices, "index_select")
    if found.ndim > 1:
        fail(ShapeError, f"index_select: indices of shape {found.shape}", "Give a vector, or use wg.take.")
    if found.ndim == 0:
        found = reshaped(found, (1,))
    return _index_axis(x, found, normalize_axis(axis, x.ndim), "index_select")


def _check_ids(what: str, ids: Any, count: int, table: str) -> None:
    """Raise RangeError for an id outside 0 .. count - 1: here negative ones do not count from the end."""
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= count:
        fail(
            RangeError,
            f"{what} {low if low < 0 else high} in {table}",
            f"Valid are 0 to {count - 1}." if count else "It is empty.",
        )


def _row_index(ids: Any, rows: int) -> Any:
    if ids.size:
        _check_ids("embedding: id", ids, rows, f"a table of {rows} rows")
    return np.array(ids)


row_index_op: Op = op(
    "row_index(ids: integer; rows)",
    _row_index,
    infer=lambda ids, **_: ids,
    facts={"ids": INDEX},
    doc="Ids of a table's rows, each checked to be one: negative ones do not count from the end.",
    layout="()->()",
    samples=lambda rng: [
        Call((rng.integers(0, 4, (2, 3)),), {"rows": 4}),
        Call((np.array([2, 0]),), {"rows": 3}),
        Call((np.array(1, np.int8),), {"rows": 300}),
    ],
    reference=lambda ids, rows: ids,
    onnx=Missing("ONNX's Gather takes ids as they are"),
    cost=0,
    role=Role.BY_ELEMENT,
    bound="rows",
)


@public(home="torch")
def embedding(weight: Any, indices: Any) -> Tensor:
    """Return the rows of a table that ids name: `weight[indices]`.

    Parameters
    ----------
    weight: (rows, d).
    indices: integers of any shape s, 0 <= id < rows. The result has shape s + (d,).

    Raises RangeError for an id outside the table, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.torch.embedding(wg.tensor([[1.0, 2.0], [3.0, 4.0]]), [1, 0, 1])
    tensor([[3., 4.],
            [1., 2.],
            [3., 4.]])
    """
    weight, ids = as_operand(weight), _indices(indices, "embedding")
    if weight.ndim != 2:
        fail(ShapeError, f"embedding: a table of shape {weight.shape}", "It has two dimensions: (rows, features).")
    rows = weight.shape[0]
    if ids._array is not None and ids.size:
        _check_ids("embedding: id", ids._array, rows, f"a table of {rows} rows, {show(weight.shape, weight.dtype)}")
    elif ids.is_abstract and ids.dtype.kind == "i":
        ids = row_index_op.front(ids, rows=rows)  # the index alone would count negative ones from the end
    out: Tensor = bind(index_op, (weight, ids), {"axis": -2})
    return out


def _aligned_indices(x: Tensor, indices: Any, what: str) -> Tensor:
    found = _indices(indices, what)
    if found.ndim != x.ndim or not x.ndim:
        fail(
            ShapeError,
            f"{what}: indices of shape {found.shape} for a tensor of shape {x.shape}",
            "Both have the same number of dimensions, at least one.",
        )
    return found


def _checked_gather(x: Tensor, indices: Tensor, axis: int, what: str) -> Tensor:
    try:
        out: Tensor = bind(gather_op, (x, indices), {"axis": axis})
    except RangeError:
        check_range(what, (indices._array,), (x.shape[axis],), x.ndim + axis)
        raise
    return out


@public(method=True)
@dim_alias
def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Tensor:
    """Return the elements that `indices` picks along `axis`, aligned with the other axes (Array API, NumPy).

    Parameters
    ----------
    x: at least one dimension.
    indices: integers with as many dimensions; the dimensions other than `axis` broadcast.

    Raises RangeError for an index outside the axis, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> x = wg.tensor([[3, 1, 2], [6, 5, 4]])
    >>> wg.take_along_axis(x, wg.tensor([[1], [2]]), axis=1)
    tensor([[1],
            [4]])
    """
    x = as_operand(x)
    found = _aligned_indices(x, indices, "take_along_axis")
    axis = normalize_axis(axis, x.ndim)
    common = broadcast_shapes(with_size(x.shape, axis, 1), with_size(found.shape, axis, 1))
    if common is None:
        fail(
            ShapeError,
            f"take_along_axis: indices of shape {found.shape} and a tensor of shape {x.shape} "
            f"do not broadcast outside axis {x.ndim + axis}",
        )
    x = _broadcasted(x, with_size(common, axis, x.shape[axis]))
    found = _broadcasted(found, with_size(common, axis, found.shape[axis]))
    return _checked_gather(x, found, axis, "take_along_axis")


def _broadcasted(x: Tensor, shape: Shape) -> Tensor:
    return x if x.shape == shape else broadcast.front(x, shape=shape)


def _leading(shape: Shape, axis: int | None = None) -> Entries:
    """Return the static index of the first `shape[i]` elements along every axis but one."""
    return tuple(ALL if i - len(shape) == axis else (0, n, None) for i, n in enumerate(shape))


def _check_fits(what: str, indices: Tensor, x: Tensor, axis: int | None) -> None:
    if any(i > n for d, (i, n) in enumerate(zip(indices.shape, x.shape)) if d - x.ndim != axis):
        outside = "" if axis is None else f" outside axis {x.ndim + axis}"
        fail(ShapeError, f"{what}: indices of shape {indices.shape} are larger than shape {x.shape}{outside}")


def _cropped(x: Tensor, shape: Shape) -> Tensor:
    return x if x.shape == shape else bind(slice_op, (x,), {"entries": _leading(shape)})


@public(method=True)
@dim_alias
def gather(x: Any, axis: int, index: Any) -> Tensor:
    """Return `out[i][j] = x[index[i][j]][j]` along axis 0, and so on for other axes (PyTorch).

    Parameters
    ----------
    x: at least one dimension.
    index: integers with as many dimensions, no larger than `x` outside `axis`. The result has its shape.

    Raises RangeError for an index outside the axis, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.gather(wg.tensor([[1, 2], [3, 4]]), 1, wg.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    x = as_operand(x)
    found = _aligned_indices(x, index, "gather")
    axis = normalize_axis(axis, x.ndim)
    _check_fits("gather", found, x, axis)
    x = _cropped(x, with_size(found.shape, axis, x.shape[axis]))
    return _checked_gather(x, found, axis, "gather")


@public(method=True)
@dim_alias
def scatter_add(x: Any, axis: int, index: Any, src: Any) -> Tensor:
    """Return `x` with `src[i][j]` added at `[index[i][j]][j]` along axis 0, and so on for other axes (PyTorch).

    Parameters
    ----------
    x: at least one dimension.
    index: integers with as many dimensions, no larger than `src`, nor than `x` outside `axis`.
    src: what is added; where an index repeats all of it counts.

    Raises RangeError for an index outside the axis, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.scatter_add(wg.zeros(3), 0, wg.tensor([0, 2, 2]), wg.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 5.])
    """
    x = as_operand(x)
    found = _aligned_indices(x, index, "scatter_add")
    axis = normalize_axis(axis, x.ndim)
    values = _scattered(x, found, src, axis, "scatter_add")
    if found._array is not None:
        check_range("scatter_add", (found._array,), (x.shape[axis],), x.ndim + axis)
    added: Tensor = bind(gather_transpose, (values, found), {"axis": axis, "size": x.shape[axis]})
    if added.shape != x.shape:
        added = bind(slice_transpose, (added,), {"entries": _leading(added.shape, axis), "sizes": x.shape})
    return elementwise_general(add, (x, added))


def _scattered(x: Tensor, index: Tensor, src: Any, axis: int, what: str) -> Tensor:
    """Return the source of a scatter, in `x`'s dtype and in the shape of the index."""
    values = value_for(x, src, what)
    _check_fits(what, index, x, axis)
    if values.ndim == 0:
        return _broadcasted(values, index.shape)
    if values.ndim != x.ndim:
        fail(ShapeError, f"{what}: a source of shape {values.shape} for a tensor of shape {x.shape}")
    _check_fits(what, index, values, None)
    return _cropped(values, index.shape)


@public(method=True)
@dim_alias
def scatter(x: Any, axis: int, index: Any, src: Any) -> Tensor:
    """Return `x` with `src[i][j]` put at `[index[i][j]][j]` along axis 0, and so on for other axes (PyTorch).

    Parameters are those of :func:`scatter_add`; `src` may be a number. Where an index repeats the
    last write stays.

    Raises RangeError for an index outside the axis, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.scatter(wg.zeros((2, 3)), 1, wg.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    x = as_operand(x)
    found = _aligned_indices(x, index, "scatter")
    axis = normalize_axis(axis, x.ndim)
    values = _scattered(x, found, src, axis, "scatter")
    if found._array is not None:
        check_range("scatter", (found._array,), (x.shape[axis],), x.ndim + axis)
    places: list[Tensor] = [wrap(g) for g in np.ogrid[tuple(slice(n) for n in found.shape)]]
    places[axis] = found
    out: Tensor = bind(index_update, (x, values, *places), {"axis": -x.ndim})
    return out


@public(method=True)
@dim_alias
def index_add(x: Any, axis: int, index: Any, source: Any) -> Tensor:
    """Return `x` with the slices of `source` added at a vector of integers along `axis` (PyTorch).

    Raises RangeError for an index outside the axis, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.index_add(wg.zeros(3), 0, [1, 1], wg.tensor([2.0, 3.0]))
    tensor([0., 5., 0.])
    """
    x = as_operand(x)
    found = _indices(index, "index_add")
    axis = normalize_axis(axis, x.ndim)
    values = value_for(x, source, "index_add")
    want = with_size(x.shape, axis, found.size)
    if found.ndim != 1 or values.shape != want:
        fail(
            ShapeError,
            f"index_add: indices of shape {found.shape}, a source of shape {values.shape}, x {show(x.shape, x.dtype)}",
            f"The indices are a vector and the source has shape {want}.",
        )
    if found._array is not None:
        check_range("index_add", (found._array,), (x.shape[axis],), x.ndim + axis)
    added = bind(index_transpose, (values, found), {"axis": axis, "sizes": (x.shape[axis],)})
    return elementwise_general(add, (x, added))


@public(method=True, home="torch")
def masked_fill(x: Any, mask: Any, value: Any) -> Tensor:
    """Return `x` with `value` where the boolean `mask`, which broadcasts to it, holds.

    Raises DTypeError for a mask that is not boolean.

    >>> import wengert as wg
    >>> wg.torch.masked_fill(wg.tensor([1.0, 2.0]), wg.tensor([True, False]), 0.0)
    tensor([0., 2.])
    """
    x = as_operand(x)
    found = as_operand(mask)
    if category(found.dtype) != 0:
        fail(DTypeError, f"masked_fill: a mask of {show(found.shape, found.dtype)}", "Compare, such as x > 0.")
    return where(found, value_for(x, value, "masked_fill"), x)


# -- the same as new versions of a tensor


@public(method=True, function=False)
@dim_alias
def scatter_(x: Tensor, axis: int, index: Any, src: Any) -> Tensor:
    """Give `x` the new version `wg.scatter(x, axis, index, src)`. Returns `x`."""
    return update(x, "scatter_", lambda old: scatter(old, axis, index, src))


@public(method=True, function=False)
@dim_alias
def scatter_add_(x: Tensor, axis: int, index: Any, src: Any) -> Tensor:
    """Give `x` the new version `wg.scatter_add(x, axis, index, src)`. Returns `x`."""
    return update(x, "scatter_add_", lambda old: scatter_add(old, axis, index, src))


@public(method=True, function=False)
@dim_alias
def index_add_(x: Tensor, axis: int, index: Any, source: Any) -> Tensor:
    """Give `x` the new version `wg.index_add(x, axis, index, source)`. Returns `x`."""
    return update(x, "index_add_", lambda old: index_add(old, axis, index, source))


@public(method=True, function=False)
def masked_fill_(x: Tensor, mask: Any, value: Any) -> Tensor:
    """Give `x` the new version `wg.torch.masked_fill(x, mask, value)`. Returns `x`."""
    return update(x, "masked_fill_", lambda old: masked_fill(old, mask, value))


# -- one-hot vectors


def _one_hot(indices: Any, num_classes: int, dtype: DType) -> Any:
    if indices.size:
        _check_ids("one_hot: class", indices, num_classes, f"{num_classes} classes")
    return (np.expand_dims(indices, -1) == np.arange(num_classes)).astype(dtype)


one_hot_op: Op = op(
    "one_hot(indices; num_classes, dtype)",
    _one_hot,
    infer=lambda indices, num_classes, dtype: spec_of((*indices.shape, num_classes), dtype),
    facts={"indices": NoDerivative("a class is an integer")},
    doc="Vectors of 0 with a 1 at the place of each class, along a new last axis.",
    layout="()->(c)",
    samples=lambda rng: [
        Call((np.array([[0, 2], [1, 1]]),), {"num_classes": 3, "dtype": float64}),
        Call((np.array(3),), {"num_classes": 5, "dtype": int64}),
        Call((np.zeros(0, int64),), {"num_classes": 2, "dtype": float64}),
    ],
    reference=lambda indices, num_classes, dtype: np.eye(num_classes, dtype=dtype)[indices],
    onnx="OneHot",
    bound="num_classes",
    cost=0,
)


@public(home="nn.functional")
def one_hot(tensor: Any, num_classes: int = -1, dtype: Any = int64) -> Tensor:
    """Return vectors of 0 with a 1 at the place of each class, along a new last axis.

    Parameters
    ----------
    tensor: classes, integers of any shape, 0 <= class < num_classes.
    num_classes: the length of the vectors; -1 for one more than the largest class.
    dtype: the result's dtype.

    Raises RangeError for a class outside, ShapeError (-1 of no classes), DTypeError, TraceError (-1 while tracing).

    >>> import wengert as wg
    >>> wg.nn.functional.one_hot([0, 2], 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    found = _indices(tensor, "one_hot")
    if num_classes == -1:
        if 0 in found.shape:
            fail(ShapeError, "one_hot of no classes, without num_classes", "Say how many there are.")
        if found._fixed("one_hot without num_classes") is None:
            refuse(
                f"one_hot without num_classes of an abstract tensor {found.spec}",
                "The result's shape would depend on its values: say how many classes there are.",
                found,
            )
        num_classes = int(np.max(found._array)) + 1
    out: Tensor = bind(one_hot_op, (found,), {"num_classes": num_classes, "dtype": as_dtype(dtype)})
    return out
