"""Indices, the arrays of integers in `x[...]`, as one op over neighbouring axes with its transpose and its update.

These are ops in turn, so that every derivative is again made of them. All count axes from the right and leave leading
axes alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core.errors import RangeError, ShapeError, fail
from ...core.ops.declare import op
from ...core.ops.facets import Form, Role
from ...core.ops.op import Call, Linear, Missing, NoDerivative, Op
from ...core.spec import Shape, Spec, bool_, broadcast_shapes, int64, show, spec_of
from ..long_sums import add_rows
from ..pointwise.selection import where_op
from .slices import NO_OPERATOR

INDEX = NoDerivative("an index is an integer")


def _index_tuple(indices: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return (..., *indices, *[slice(None)] * (-axis - len(indices)))


def _index(x: Any, *indices: Any, axis: int) -> Any:
    try:
        if len(indices) == 1:
            return x.take(indices[0], axis=axis)  # several times faster than x[..., i]
        return x[_index_tuple(indices, axis)]
    except IndexError:
        check_range("index", indices, x.shape[axis : axis + len(indices) or None], x.ndim + axis)
        raise


def _index_shape(x: Any, indices: Iterable[Any], axis: int) -> tuple[Shape, Shape, Shape]:
    """Return the shape of the result: leading axes, the indices' common shape, and trailing axes."""
    shapes = [i.shape for i in indices]
    common = broadcast_shapes(*shapes)
    if common is None:
        fail(RangeError, f"index: arrays of shapes {' and '.join(map(str, shapes))} do not broadcast together")
    after = axis + len(shapes)
    if not shapes or after > 0:
        fail(RangeError, f"index: {len(shapes)} arrays for the axes of {x.shape} from {axis + len(x.shape)} on")
    return x.shape[:axis], common, x.shape[after:] if after else ()


def _index_infer(x: Any, *indices: Any, axis: int) -> Spec:
    lead, common, tail = _index_shape(x, indices, axis)
    return spec_of(lead + common + tail, x.dtype)


def _infer_index_update(x: Spec, v: Any, *indices: Any, axis: int) -> Spec:
    place = sum(_index_shape(x, indices, axis), ())
    if isinstance(v, Spec) and broadcast_shapes(v.shape, place) != place:
        fail(ShapeError, f"an update of {place}, of {show(x.shape, x.dtype)}, by {show(v.shape, v.dtype)}")
    return x


def _infer_index_transpose(ct: Spec, *indices: Any, axis: int, sizes: Shape) -> Spec:
    if len(indices) != len(sizes) or axis + len(sizes) > 0:
        fail(ShapeError, f"the transpose of an index by {len(indices)} arrays of axes of sizes {sizes} from {axis} on")
    lead, _, tail = _split_transposed(ct, indices, axis, sizes)
    found = ct.with_shape(lead + sizes + tail)
    if len(tail) != -axis - len(sizes) or sum(_index_shape(found, indices, axis), ()) != ct.shape:
        fail(ShapeError, f"the transpose of an index of {show(found.shape)}, of {show(ct.shape, ct.dtype)}")
    return found


def _infer_is_last(*indices: Any, sizes: Shape) -> Spec:
    common = broadcast_shapes(*(i.shape for i in indices))
    if common is None or len(indices) != len(sizes) or not sizes:
        fail(ShapeError, f"index_is_last: {len(indices)} arrays of indices of {sizes}")
    return spec_of(common, bool_)


def _index_update(x: Any, v: Any, *indices: Any, axis: int) -> Any:
    out = np.array(x)
    try:
        out[_index_tuple(indices, axis)] = v
    except IndexError:
        check_range("index_update", indices, x.shape[axis : axis + len(indices) or None], x.ndim + axis)
        raise
    return out


def _split_transposed(ct: Any, indices: Iterable[Any], axis: int, sizes: Shape) -> tuple[Shape, Shape, Shape]:
    common = broadcast_shapes(*(i.shape for i in indices))
    if common is None:
        fail(ShapeError, f"indices of shapes {', '.join(str(i.shape) for i in indices)} do not broadcast")
    after = ct.ndim + axis + len(sizes)
    return ct.shape[: after - len(common)], common, ct.shape[after:]


def _index_transpose(ct: Any, *indices: Any, axis: int, sizes: Shape) -> Any:
    lead, _, tail = _split_transposed(ct, indices, axis, sizes)
    rows = flat_index("index_transpose", indices, sizes, len(lead)).ravel()
    before, after = math.prod(lead), math.prod(tail)
    values = ct.reshape(before, rows.size, after).swapaxes(0, 1).reshape(rows.size, before * after)
    out = add_rows(rows, values, math.prod(sizes))
    return out.reshape(math.prod(sizes), before, after).swapaxes(0, 1).reshape(lead + sizes + tail)


def check_range(what: str, indices: Iterable[Any], sizes: Shape, axis: int) -> None:
    """Raise RangeError for the first element of the index arrays that lies outside its axis.

    The arrays index neighbouring axes of the given sizes, the first of which is `axis`.
    """
    for k, (i, n) in enumerate(zip(indices, sizes, strict=True)):
        if i.size and not (-n <= i.min() and i.max() < n):
            outside = (i < -n) | (i >= n)
            place = tuple(int(p) for p in np.argwhere(outside)[0])
            fail(
                RangeError,
                f"{what}: index {np.asarray(i)[place]} is out of range for axis {axis + k} of size {n}"
                + (
                    f" (element {place if len(place) > 1 else place[0]} of an index of shape {i.shape})"
                    if place
                    else ""
                ),
                f"Valid indices are {-n} to {n - 1}." if n else "The axis is empty: no index is valid.",
            )


def flat_index(what: str, indices: Iterable[Any], sizes: Shape, axis: int) -> Any:
    """Return index arrays over axes of `sizes` as one array over those axes flattened. Raises RangeError."""
    indices = tuple(indices)
    if all(i.size for i in indices):  # beside one without elements no place is named
        check_range(what, indices, sizes, axis)
    flat: Any = 0
    for i, n in zip(indices, sizes, strict=True):
        i = i.astype(int64, copy=False)  # a narrow one would wrap around
        flat = flat * n + np.where(i < 0, i + n, i)
    return flat


def _is_last(*indices: Any, sizes: Shape) -> Any:
    flat = flat_index("index_is_last", indices, sizes, 0)
    order = np.arange(flat.size).reshape(flat.shape)
    writer = np.empty(math.prod(sizes), order.dtype)
    writer[flat] = order
    return writer[flat] == order


def _is_last_by_loop(*indices: Any, sizes: Shape) -> Any:
    flat = np.ravel_multi_index(np.broadcast_arrays(*indices), sizes, mode="wrap")
    last = {f: i for i, f in enumerate(flat.ravel().tolist())}
    return np.array([last[f] == i for i, f in enumerate(flat.ravel().tolist())], bool).reshape(flat.shape)


def _index_by_loop(x: Any, *indices: Any, axis: int) -> Any:
    """Return the oracle's `index`: one element of the index arrays at a time."""
    lead, common, tail = _index_shape(x, indices, axis)
    out = np.empty(lead + common + tail, x.dtype)
    for at in np.ndindex(common):
        place = tuple(int(np.broadcast_to(i, common)[at]) for i in indices)
        for before in np.ndindex(lead):
            out[before + at] = x[before + place]
    return out


def _index_positions(shape: Shape, indices: tuple[Any, ...], axis: int) -> Any:
    return _index_by_loop(np.arange(math.prod(shape)).reshape(shape), *indices, axis=axis)


def _index_transpose_by_loop(ct: Any, *indices: Any, axis: int, sizes: Shape) -> Any:
    lead, _, tail = _split_transposed(ct, indices, axis, sizes)
    out = np.zeros(lead + sizes + tail, ct.dtype)
    for p, c in zip(_index_positions(out.shape, indices, axis).ravel(), ct.ravel(), strict=True):
        out.ravel()[p] += c
    return out


def _index_update_by_loop(x: Any, v: Any, *indices: Any, axis: int) -> Any:
    out = x.copy()
    for p, c in zip(_index_positions(x.shape, indices, axis).ravel(), v.ravel(), strict=True):
        out.ravel()[p] = c
    return out


def ints(*values: Any) -> Any:
    """Return an int64 array of the values."""
    return np.array(values, int64)


_INDICES: list[tuple[Shape, tuple[Any, ...], int]] = [
    ((3, 4), (ints(0, 2, 2, -1),), -2),
    ((3, 4), (ints([1, 1], [-4, 0]),), -1),
    ((3, 4), (ints(0, 2, 2), ints(1, 3, 3)), -2),
    ((2, 3, 2), (ints([0], [1]), ints(2, 2, 0)), -3),
    ((3,), (np.array(1),), -1),
    ((3, 2), (ints(),), -2),
]


def _index_samples(rng: Any) -> list[Call]:
    return [Call((rng.normal(size=shape), *indices), {"axis": axis}) for shape, indices, axis in _INDICES]


def _index_update_samples(rng: Any) -> list[Call]:
    made = []
    for shape, indices, axis in _INDICES:
        x = rng.normal(size=shape)
        made.append(Call((x, rng.normal(size=sum(_index_shape(x, indices, axis), ())), *indices), {"axis": axis}))
    return made


def _sizes(shape: Shape, axis: int, count: int) -> Shape:
    return tuple(shape[axis : axis + count or None])


def _index_transpose_samples(rng: Any) -> list[Call]:
    return [
        Call(call.args[1:], {"axis": axis, "sizes": _sizes(shape, axis, len(indices))})
        for call, (shape, indices, axis) in zip(_index_update_samples(rng), _INDICES, strict=True)
    ]


def _last_only(ct: Any, indices: Any, axis: int, x_shape: Shape) -> Any:
    """Return the cotangent of the written values: where one place was written twice only the last one counts."""
    last = index_is_last(*indices, sizes=_sizes(x_shape, axis, len(indices)))
    tail = -axis - len(indices)
    return where_op(last.reshape(last.shape + (1,) * tail), index_op(ct, *indices, axis=axis), 0.0)


index_op: Op = op(
    "index(x, *indices; axis)",
    _index,
    infer=_index_infer,
    facts={
        "x": Linear(
            lambda ct, indices, axis, x_shape: index_transpose(
                ct, *indices, axis=axis, sizes=_sizes(x_shape, axis, len(indices))
            ),
            fills=True,
            selects=True,
        ),
        "indices": INDEX,
    },
    kind="linear",
    moves=True,
    doc="The elements at integer arrays over neighbouring axes, the first of which is `axis`.",
    samples=_index_samples,
    reference=_index_by_loop,
    onnx="GatherND",
    dependence="indices",
    role=Role.PICK,
    cost=0,
    form=Form("[ ]", say="Each picked element gets what arrives; picked twice, it *adds up*."),
    zero_gradient="not_selected",
)


index_transpose: Op = op(
    "index_transpose(ct, *indices; axis: result_axis, sizes)",
    _index_transpose,
    infer=_infer_index_transpose,
    facts={
        "ct": Linear(lambda ct, indices, axis: index_op(ct, *indices, axis=axis), selects=True, covers=True),
        "indices": INDEX,
    },
    kind="linear",
    doc="The transpose of index: zeros with every element added where the index arrays say.",
    samples=_index_transpose_samples,
    reference=_index_transpose_by_loop,
    onnx=NO_OPERATOR,
    dependence="indices",
    cost=1,
)


index_is_last: Op = op(
    "index_is_last(*indices; sizes)",
    _is_last,
    infer=_infer_is_last,
    facts={"indices": INDEX},
    doc="Whether no later element of the index arrays names the same place.",
    samples=lambda rng: [Call(i, {"sizes": _sizes(s, axis, len(i))}) for s, i, axis in _INDICES],
    reference=_is_last_by_loop,
    onnx=Missing("no such operator"),
    cost=0,
)


index_update: Op = op(
    "index_update(x, v: value, *indices; axis)",
    _index_update,
    infer=_infer_index_update,
    facts={
        "x": Linear(lambda ct, indices, axis: index_update(ct, 0.0, *indices, axis=axis), selects=True),
        "v": Linear(_last_only, selects=True),
        "indices": INDEX,
    },
    kind="linear",
    moves=True,
    doc="x with the elements at integer arrays replaced by v; of two writes to one place the last stays.",
    samples=_index_update_samples,
    reference=_index_update_by_loop,
    onnx="ScatterND",
    dependence="indices",
    cost=0,
    zero_gradient="overwritten",
)
