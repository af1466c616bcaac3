"""Slices, the static part of `x[...]`: integers, slices and new axes, as one op with its transpose and its update.

These are ops in turn, so that every derivative is again made of them. All count axes from the right and leave leading
axes alone.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.dims import Dim, has_dims
from ...core.errors import RangeError, ShapeError, fail
from ...core.ops.declare import linear, op
from ...core.ops.facets import Form, Role
from ...core.ops.op import Call, Linear, Missing, Op
from ...core.spec import Shape, Spec, broadcast_shapes, show, spec_of

# One entry of a canonical static entries: an integer, (start, stop, step), or None for a new axis.
Entry = int | tuple[int | None, int | None, int | None] | None


Entries = tuple[Entry, ...]


ALL = (None, None, None)


NO_OPERATOR = Missing("its result has the shape of a larger tensor, which no one operator makes")


@lru_cache(4096)
def _decode(entries: Entries) -> tuple[Any, ...]:
    """Return the canonical index as NumPy takes it, behind an ellipsis for the leading axes."""
    return (..., *(slice(*e) if isinstance(e, tuple) else e for e in entries))


def _consumed(entries: Entries) -> int:
    """Return the number of the argument's axes that the index consumes."""
    return sum(e is not None for e in entries)


def _kept(entries: Entries) -> int:
    """Return the number of the result's axes that the index makes."""
    return sum(e is None or isinstance(e, tuple) for e in entries)


def _slice_shape(shape: Shape, entries: Entries) -> Shape:
    split = len(shape) - _consumed(entries)
    if split < 0:
        fail(ShapeError, f"an index of {_consumed(entries)} axes for shape {shape}")
    sizes = iter(shape[split:])
    out = list(shape[:split])
    for e in entries:
        if e is None:
            out.append(1)
            continue
        n = next(sizes)
        if isinstance(e, tuple):
            out.append(length(n, e))
        elif e < 0 or (not isinstance(n, Dim) and e >= n):  # canonical ones count from the start
            fail(RangeError, f"index {e} is out of range for an axis of size {n}")
    return tuple(out)


def length(n: int, entry: tuple[int | None, int | None, int | None]) -> int:
    """Return the number of elements that a canonical slice picks; a formula where a size is not known."""
    if not has_dims((n, *entry)):
        return len(range(n)[slice(*entry)])
    start, stop, step = entry
    if step is None or step > 0:
        by = 1 if step is None else step
        return ((n if stop is None else stop) - (0 if start is None else start) + by - 1) // by
    return ((n - 1 if start is None else start) - (-1 if stop is None else stop) - step - 1) // -step


def _slice_sizes(shape: Shape, entries: Entries) -> Shape:
    return tuple(shape[len(shape) - _consumed(entries) :])


def _slice_transpose(ct: Any, entries: Entries, sizes: Shape) -> Any:
    out = np.zeros(ct.shape[: ct.ndim - _kept(entries)] + sizes, ct.dtype)
    out[_decode(entries)] = ct
    return out


def _slice_update(x: Any, v: Any, entries: Entries) -> Any:
    out = np.array(x)
    out[_decode(entries)] = v
    return out


def _slice_by_take(x: Any, entries: Entries) -> Any:
    """Return the oracle's `slice`: one `take` for each axis."""
    axis = x.ndim - _consumed(entries)
    for e in entries:
        if e is None:
            x = np.expand_dims(x, axis)
        elif isinstance(e, int):
            x = np.take(x, e, axis)
            continue
        else:
            x = np.take(x, list(range(x.shape[axis]))[slice(*e)], axis)
        axis += 1
    return x


def _slice_positions(shape: Shape, entries: Entries) -> Any:
    """Return the positions of the sliced elements in a flat buffer of `shape` (for the oracles)."""
    return _slice_by_take(np.arange(math.prod(shape)).reshape(shape), entries)


def _slice_transpose_by_put(ct: Any, entries: Entries, sizes: Shape) -> Any:
    out = np.zeros(ct.shape[: ct.ndim - _kept(entries)] + sizes, ct.dtype)
    np.put(out, _slice_positions(out.shape, entries), ct)
    return out


def _slice_update_by_put(x: Any, v: Any, entries: Entries) -> Any:
    out = x.copy()
    np.put(out, _slice_positions(x.shape, entries), v)
    return out


_SLICES: list[tuple[Shape, Entries]] = [
    ((3, 4), (1, ALL)),
    ((3, 4), ((3, None, -2),)),
    ((3, 4), (None, (0, 2, None), 2)),
    ((2, 3, 2), ((1, 2, None), ALL)),
    ((3,), (0, None)),
    ((3,), ((0, 0, None),)),
]


slice_op: Op = linear(
    "slice(x; entries)",
    lambda x, entries: x[_decode(entries)],
    view=True,
    infer=lambda x, entries: spec_of(_slice_shape(x.shape, entries), x.dtype),
    transpose=lambda ct, entries, x_shape: slice_transpose(ct, entries=entries, sizes=_slice_sizes(x_shape, entries)),
    fills=True,
    selects=True,
    doc="The elements at a static index of integers, slices and new axes over the last axes.",
    samples=lambda rng: [Call((rng.normal(size=shape),), {"entries": entries}) for shape, entries in _SLICES],
    reference=_slice_by_take,
    onnx="Slice",
    role=Role.STRIDE,
    unview=lambda x, part, entries: slice_update(x, part, entries=entries),
    cost=0,
    form=Form("[ ]", say="The picked elements get what arrives; the others get nothing."),
    zero_gradient="not_selected",
)


def _infer_slice_transpose(ct: Spec, entries: Entries, sizes: Shape) -> Spec:
    lead = ct.shape[: ct.ndim - _kept(entries)]
    if len(sizes) != _consumed(entries) or _slice_shape(lead + sizes, entries) != ct.shape:
        fail(ShapeError, f"the transpose of a slice {entries} of {sizes}, of {show(ct.shape, ct.dtype)}")
    return ct.with_shape(lead + sizes)


def _infer_slice_update(x: Spec, v: Any, entries: Entries) -> Spec:
    place = _slice_shape(x.shape, entries)
    shape = v.shape if isinstance(v, Spec) else ()
    while len(shape) > len(place) and shape[0] == 1:  # NumPy takes more axes in front, of size 1
        shape = shape[1:]
    if broadcast_shapes(shape, place) != place:
        fail(ShapeError, f"an update of {place}, of {show(x.shape, x.dtype)}, by {show(v.shape, v.dtype)}")
    return x


slice_transpose: Op = linear(
    "slice_transpose(ct; entries, sizes)",
    _slice_transpose,
    infer=_infer_slice_transpose,
    transpose=lambda ct, entries: slice_op(ct, entries=entries),
    selects=True,
    covers=True,
    moves=True,
    doc="The transpose of slice: zeros with the elements at a static index put in.",
    samples=lambda rng: [
        Call(
            (rng.normal(size=_slice_shape(shape, entries)),),
            {"entries": entries, "sizes": _slice_sizes(shape, entries)},
        )
        for shape, entries in _SLICES
    ],
    reference=_slice_transpose_by_put,
    onnx=NO_OPERATOR,
    cost=0,
)


slice_update: Op = op(
    "slice_update(x, v: value; entries)",
    _slice_update,
    infer=_infer_slice_update,
    facts={
        "x": Linear(lambda ct, entries: slice_update(ct, 0.0, entries=entries), selects=True),
        "v": Linear(lambda ct, entries: slice_op(ct, entries=entries), selects=True, covers=True),
    },
    kind="linear",
    moves=True,
    doc="x with the elements at a static index replaced by v.",
    samples=lambda rng: [
        Call((rng.normal(size=shape), rng.normal(size=_slice_shape(shape, entries))), {"entries": entries})
        for shape, entries in _SLICES
    ],
    reference=_slice_update_by_put,
    onnx="ScatterND",
    cost=0,
    zero_gradient="overwritten",
)
