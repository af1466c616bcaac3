"""Picking and placing elements with PyTorch's names, parameters and meaning: `gather`, `scatter`, `index_add`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import DTypeError, GraphError, RangeError, ShapeError, fail
from ...core.graph.snapshot import LEAVES
from ...core.ops.declare import PUBLIC
from ...core.ops.record import bind
from ...core.spec import int32, int64, show
from ...core.tensor import Tensor as Plain
from ...core.tensor import asarray
from ...ops.index.gather import counted_from_start, with_size
from ...ops.index.indices import check_range, index_op, index_transpose, index_update
from ...ops.index.inplace import update, value_for
from ...ops.index.views import layout, lie_in
from ...ops.structure.shapes import broadcast, reshaped
from ..namespace import FUNCTIONS, as_torch, function, in_place, method, tensor_of
from ..tensor import Tensor, contiguous_format, formatted
from .joining import diagonal
from .shaping import axis_of, copies, sizes_of


def _places(index: Any, what: str) -> Any:
    """Return integers as a tensor. Raises DTypeError for any other dtype."""
    found = tensor_of(index)
    if found.dtype.kind not in "iu":
        if found.numel() == 0:
            return found.to(int64)
        fail(DTypeError, f"{what}: an index of {found.spec}", "Indices are integers: write index.long().")
    return found if found.dtype == int64 else found.to(int64)


def _spread(x: Any, shape: Any) -> Any:
    return x if tuple(x.shape) == tuple(shape) else bind(broadcast, (x,), {"shape": tuple(shape)})


def positions(shape: Any) -> Any:
    """Return the number of each element, in row-major order, in a tensor of a shape."""
    return tensor_of(asarray(np.arange(math.prod(shape)).reshape(tuple(shape)), copy=False))


def put_at(x: Any, at: Any, values: Any, accumulate: bool = False) -> Any:
    """Return `x` with the elements at flat positions replaced by, or increased by, what broadcasts to their shape."""
    v = _spread(value_for(x, values, "a write"), at.shape)
    v, at = reshaped(v, (at.numel(),)), reshaped(at, (at.numel(),))
    flat, count = reshaped(x, (x.numel(),)), x.numel()
    if accumulate:
        new = flat + bind(index_transpose, (v, at), {"axis": -1, "sizes": (count,)})
    else:
        new = bind(index_update, (flat, v, at), {"axis": -1})
    return as_torch(reshaped(new, tuple(x.shape)))


# -- gather and take


def _widened(x: Any, index: Any, what: str) -> Any:
    """Return a tensor and its index with an axis at least. Raises ShapeError where the numbers of axes differ."""
    x, index = (t if t.ndim else t.reshape(1) for t in (x, index))
    if x.ndim != index.ndim and index.numel():
        fail(ShapeError, f"{what}: an index of shape {tuple(index.shape)} into {show(x.shape, x.dtype)}")
    return x, index


@function(out=True)
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Return `out[i][j] = input[index[i][j]][j]` along axis 0, and so on for other axes.

    Raises ShapeError, RangeError for an index outside the axis.

    >>> import wengert.torch as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    x, at = tensor_of(input), _places(index, "gather")
    if not at.numel():
        return x.reshape(-1)[:0].reshape(at.shape)
    wide, found = _widened(x, at, "gather")
    axis = axis_of(dim, wide.ndim)
    out = as_torch(PUBLIC["gather"](wide, axis, counted_from_start(found, wide.shape[axis], "gather", axis)))
    return out if at.ndim else out.reshape(())


@function(out=True)
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """Return the elements that indices pick along an axis, aligned with the others; flattened without one."""
    x, at = tensor_of(input), _places(indices, "take_along_dim")
    if dim is None:
        return gather(x.reshape(-1), 0, at.reshape(-1))
    return as_torch(PUBLIC["take_along_axis"](x, at, dim))


@function(out=True)
def take(input: Any, index: Any) -> Any:
    """Return the elements at positions in the flattened tensor, in the shape of the index. Raises RangeError."""
    x, at = tensor_of(input), _places(index, "take")
    if not at.numel():
        return x.reshape(-1)[:0].reshape(at.shape)
    return as_torch(PUBLIC["take"](x.reshape(-1), at, 0))


@function(out=True)
def index_select(input: Any, dim: int, index: Any) -> Any:
    """Return the slices at a vector of integers along an axis. Raises ShapeError, RangeError.

    >>> import wengert.torch as torch
    >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 0, torch.tensor([1, 1]))
    tensor([[3, 4],
            [3, 4]])
    """
    x, at = tensor_of(input), _places(index, "index_select")
    wide = x if x.ndim else x.reshape(1)
    axis = axis_of(dim, wide.ndim)
    out = as_torch(PUBLIC["index_select"](wide, axis, counted_from_start(at, wide.shape[axis], "index_select", axis)))
    return out if x.ndim else out.reshape(())


# -- scatter


_NAMES = {"add": "sum", "multiply": "prod"}


@function(out=True)
def scatter(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None) -> Any:
    """Return the tensor with `src[i][j]` put at `[index[i][j]][j]` along axis 0, and so on for other axes.

    Parameters
    ----------
    src: a tensor at least as large as the index; or one number, also as `value`.
    reduce: "add" or "multiply" for what is there already and comes.

    Raises ShapeError, RangeError for an index outside the axis.

    >>> import wengert.torch as torch
    >>> torch.scatter(torch.zeros(2, 3), 1, torch.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    x, at, given = tensor_of(input), _places(index, "scatter"), value if src is None else src
    if not at.numel():
        return x.clone()
    if reduce is not None:
        if reduce not in _NAMES:
            fail(DTypeError, f"scatter: reduce={reduce!r}", 'It is "add" or "multiply"; scatter_reduce has more.')
        return _reduced(x, dim, at, value_for(x, given, "scatter"), _NAMES[reduce], True)
    wide, found = _widened(x, at, "scatter")
    axis = axis_of(dim, wide.ndim)
    found = counted_from_start(found, wide.shape[axis], "scatter", axis)
    source = value_for(x, given, "scatter")
    if source.ndim == 0 and isinstance(given, Plain) and found.numel() == 1:
        source = reshaped(source, (1,) * found.ndim)
    return as_torch(PUBLIC["scatter"](wide, axis, found, source)).reshape(x.shape)


@function(out=True)
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """Return the tensor with `src[i][j]` added at `[index[i][j]][j]` along axis 0, and so on for other axes.

    Raises ShapeError, RangeError for an index outside the axis.

    >>> import wengert.torch as torch
    >>> torch.scatter_add(torch.zeros(3), 0, torch.tensor([0, 2, 2]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 5.])
    """
    return scatter(input, dim, index, src, reduce="add")


@function(out=True)
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Return the tensor with what `src` brings to each place reduced: "sum", "prod", "mean", "amax" or "amin".

    Without `include_self` what is there already counts only where nothing comes. Raises ShapeError, RangeError.

    >>> import wengert.torch as torch
    >>> index, src = torch.tensor([0, 1, 0]), torch.tensor([1.0, 2.0, 3.0])
    >>> torch.scatter_reduce(torch.zeros(2), 0, index, src, "amax")
    tensor([3., 2.])
    """
    x, at = tensor_of(input), _places(index, "scatter_reduce")
    if not at.numel():
        return x.clone()
    return _reduced(x, dim, at, value_for(x, src, "scatter_reduce"), reduce, include_self)


def _reduced(x: Any, dim: int, at: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """Return a scatter that reduces, along the axis `dim`."""
    wide, at = _widened(x, at, f"scatter ({reduce})")
    axis = axis_of(dim, wide.ndim) - wide.ndim
    at = counted_from_start(at, wide.shape[axis], f"scatter ({reduce})", axis + wide.ndim)
    src = tensor_of(src if src.ndim or wide.ndim == 0 else _spread(src, at.shape))
    if src.ndim == wide.ndim and tuple(src.shape) != tuple(at.shape):
        src = src[tuple(slice(n) for n in at.shape)]
    if tuple(src.shape) != tuple(at.shape):
        fail(ShapeError, f"scatter: an index of shape {tuple(at.shape)} and a source of {show(src.shape, src.dtype)}")
    reducer = _REDUCERS.get(reduce)
    if reducer is None:
        fail(DTypeError, f"scatter_reduce: reduce={reduce!r}", f"It is one of {', '.join(map(repr, _REDUCERS))}.")
    return reducer(wide, at, src, axis, include_self).reshape(x.shape)


def _added(x: Any, at: Any, src: Any, axis: int) -> Any:
    return as_torch(PUBLIC["scatter_add"](x, axis, at, src))


def _placed(x: Any, at: Any, src: Any, axis: int) -> Any:
    return as_torch(PUBLIC["scatter"](x, axis, at, src))


def _counts(x: Any, at: Any, axis: int) -> Any:
    """Return how many elements the index brings to each place."""
    zeros, ones = (tensor_of(f(tuple(t.shape), dtype=int64)) for f, t in ((wg.zeros, x), (wg.ones, at)))
    return _added(zeros, at, ones, axis)


def _kept(x: Any, at: Any, axis: int, include_self: bool, neutral: Any) -> Any:
    """Return what is there already, the neutral element where it does not count."""
    return x if include_self else wg.where(_counts(x, at, axis) > 0, neutral, x)


def _sum(x: Any, at: Any, src: Any, axis: int, include_self: bool) -> Any:
    if x.dtype.kind == "b":
        return _extreme(x, at, src, axis, include_self)
    return _added(_kept(x, at, axis, include_self, 0), at, src, axis)


def _mean(x: Any, at: Any, src: Any, axis: int, include_self: bool) -> Any:
    total, count = _sum(x, at, src, axis, include_self), _counts(x, at, axis)
    count = count + 1 if include_self else wg.where(count > 0, count, 1)
    return total / count if x.dtype.kind in "fc" else (total // count).to(x.dtype)


def _sorted_by(key: Any, axis: int, *others: Any) -> Any:
    order = wg.argsort(key, axis)
    return [as_torch(wg.take_along_axis(t, order, axis)) for t in others]


def _prod(x: Any, at: Any, src: Any, axis: int, include_self: bool) -> Any:
    # A running product over each place's elements, brought side by side, by doubling steps: the last write has all.
    if x.dtype.kind == "b":
        return ~_extreme(~x, at, ~src, axis, include_self)
    at, src = _sorted_by(at, axis, at, src)
    size, step = at.shape[axis], 1
    while step < size:
        head, before, after = (
            narrow(t, axis, start, n)
            for t, start, n in ((src, 0, step), (src, 0, size - step), (src, step, size - step))
        )
        same = narrow(at, axis, 0, size - step) == narrow(at, axis, step, size - step)
        src = as_torch(wg.concat([head, wg.where(same, after * before, after)], axis))
        step *= 2
    ones = tensor_of(wg.ones(tuple(x.shape), dtype=x.dtype))
    return _kept(x, at, axis, include_self, 1) * _placed(ones, at, src, axis)


def _extreme(x: Any, at: Any, src: Any, axis: int, include_self: bool) -> Any:
    """Return the largest of what comes to each place; elements of one size share its gradient."""
    values, own = src.detach(), x.detach()
    places, ordered = _sorted_by(values, axis, at, values)
    came = _counts(x, at, axis) > 0
    found = _placed(own, places, ordered, axis)  # the last write, which is the largest, stays
    if include_self:
        found = wg.where(came, wg.maximum(found, own), own)
    if not (src.requires_grad or x.requires_grad or src.is_abstract or x.is_abstract) or x.dtype.kind != "f":
        return found
    mine = (own == found) & (include_self | ~came)
    theirs = values == gather(found, axis, at)
    zero = tensor_of(wg.zeros(tuple(x.shape), dtype=x.dtype))
    count = mine.to(x.dtype) + _added(zero, at, theirs.to(x.dtype), axis)
    total = wg.where(mine, x, 0.0) + _added(zero, at, wg.where(theirs, src, 0.0), axis)
    mean = total / wg.where(count > 0, count, 1.0)
    # The mean of equal numbers may miss them by a rounding, and that of infinities: the value is the largest itself.
    return mean + wg.where(wg.isfinite(mean), found - mean, found).detach()


def _least(x: Any, at: Any, src: Any, axis: int, include_self: bool) -> Any:
    turned = (lambda t: ~t) if x.dtype.kind in "biu" else (lambda t: -t)
    return turned(_extreme(turned(x), at, turned(src), axis, include_self))


_REDUCERS: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "prod": _prod,
    "mean": _mean,
    "amax": _extreme,
    "amin": _least,
}


# -- slices at a vector of integers


def _along(x: Any, dim: int, index: Any, what: str, from_end: bool = False) -> Any:
    """Return a tensor with an axis at least, the axis from the right, and a vector of places on it.

    Places below 0 count from the end where `from_end` says so, else they are errors.
    """
    wide, at = (t if t.ndim else t.reshape(1) for t in (x, _places(index, what)))
    if at.ndim != 1:
        fail(ShapeError, f"{what}: an index of shape {tuple(at.shape)}", "It is a vector.")
    axis = axis_of(dim, wide.ndim)
    if not from_end:
        at = counted_from_start(at, wide.shape[axis], what, axis)
    if at._array is not None:
        check_range(what, (at._array,), (wide.shape[axis],), axis)
    return wide, axis - wide.ndim, at


def _source(wide: Any, axis: int, at: Any, source: Any, what: str) -> Any:
    """Return the source of a write to slices in the tensor's dtype. Raises ShapeError where it is of another shape."""
    v = value_for(wide, source, what)
    if v.ndim == 0:
        v = reshaped(v, (1,) * wide.ndim)
    want = with_size(tuple(wide.shape), axis, at.shape[0])
    if tuple(v.shape) != want:
        fail(ShapeError, f"{what}: a source of {show(v.shape, v.dtype)}", f"It has shape {want}.")
    return v


@function(out=True)
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Return the tensor with `alpha` times the slices of `source` added at a vector of integers along an axis.

    Raises ShapeError, RangeError.
    """
    x = tensor_of(input)
    wide, axis, at = _along(x, dim, index, "index_add")
    v = _source(wide, axis, at, source, "index_add")
    if alpha != 1:
        v = v * alpha
    if x.dtype.kind == "b":
        return index_reduce(x, dim, index, v, "amax")
    added = bind(index_transpose, (v, at), {"axis": axis, "sizes": (wide.shape[axis],)})
    return as_torch(reshaped(wide + added, tuple(x.shape)))


@function(out=True, autocast="widest")
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """Return the tensor with the slices at a vector of integers along an axis replaced. Raises ShapeError."""
    x = tensor_of(input)
    wide, axis, at = _along(x, dim, index, "index_copy")
    new = bind(index_update, (wide, _source(wide, axis, at, source, "index_copy"), at), {"axis": axis})
    return as_torch(reshaped(new, tuple(x.shape)))


@function()
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Return the tensor with one number in its slices at a vector of integers along an axis. Raises RangeError."""
    x = tensor_of(input)
    wide, axis, at = _along(x, dim, index, "index_fill", from_end=True)
    v = value_for(x, value, "index_fill")
    if v.ndim:
        fail(ShapeError, f"index_fill: a value of shape {tuple(v.shape)}", "It is a number.")
    v = _spread(v, with_size(tuple(wide.shape), axis, at.shape[0]))
    return as_torch(reshaped(bind(index_update, (wide, v, at), {"axis": axis}), tuple(x.shape)))


@function(out=True)
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Return the tensor with what `source` brings to slices reduced: "prod", "mean", "amax" or "amin".

    Raises ShapeError, RangeError.
    """
    x = tensor_of(input)
    wide, axis, at = _along(x, dim, index, "index_reduce")
    v = _source(wide, axis, at, source, "index_reduce")
    if not at.numel():
        return x.clone()
    spread = _spread(at.reshape(-1, *(1,) * (-axis - 1)), v.shape)
    return _reduced(wide, axis, tensor_of(spread), v, reduce, include_self).reshape(x.shape)


# -- places in all axes at once


def _as_index(indices: Any) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


@function()
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Return the tensor with the elements at `input[indices]` replaced or, with `accumulate`, increased.

    None among the indices stands for all of an axis. Raises ShapeError, RangeError.
    """
    x = tensor_of(input)
    if not accumulate:
        out = x.clone()
        out[_as_index(indices)] = values
        return out
    return put_at(x, positions(x.shape)[_as_index(indices)], values, True)


@function()
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Return the tensor with the elements at positions in its flattened form replaced or increased by `source`'s."""
    x, at = tensor_of(input), _places(index, "put")
    if not at.numel():
        return x.clone()
    check = value_for(x, source, "put")
    if at._array is not None:
        check_range("put", (at._array,), (x.numel(),), 0)
    return put_at(x, at, reshaped(check, tuple(at.shape)), accumulate)


@function()
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """Return the tensor with one number where the mask, which broadcasts with it, holds. Raises DTypeError.

    >>> import wengert.torch as torch
    >>> torch.masked_fill(torch.tensor([1.0, 2.0]), torch.tensor([True, False]), 0.0)
    tensor([0., 2.])
    """
    return formatted(as_torch(PUBLIC["masked_fill"](tensor_of(input), tensor_of(mask), value)), contiguous_format)


@function(out=True)
def masked_select(input: Any, mask: Any) -> Any:
    """Return the elements where the mask holds, which broadcasts with the tensor, as a vector.

    Raises TraceError for an abstract mask.
    """
    x, found = tensor_of(input), tensor_of(mask)
    shape = np.broadcast_shapes(tuple(x.shape), tuple(found.shape))
    if found.dtype.kind != "b":
        fail(DTypeError, f"masked_select: a mask of {show(found.shape, found.dtype)}", "Compare, such as x > 0.")
    return x.expand(shape).reshape(-1)[found.expand(shape).reshape(-1)]


@function()
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """Return the tensor with the elements of `source`, in order, where the mask holds. Raises ShapeError."""
    x: Any = tensor_of(input)
    found: Any = tensor_of(mask)
    if found.dtype.kind != "b":
        fail(DTypeError, f"masked_scatter: a mask of {show(found.shape, found.dtype)}", "Compare, such as x > 0.")
    v = value_for(x, source, "masked_scatter")
    shape = np.broadcast_shapes(tuple(x.shape), tuple(found.shape))
    x, found = x.expand(shape), found.expand(shape)
    if found._array is not None and int(found._array.sum()) > v.numel():
        fail(ShapeError, f"masked_scatter: {int(found._array.sum())} places for {v.numel()} elements")
    if not v.numel():
        return x.clone()
    order = wg.cumulative_sum(reshaped(found, (found.numel(),)).to(int64)) - 1
    values = PUBLIC["take"](reshaped(v, (v.numel(),)), wg.clip(order, 0, v.numel() - 1), 0)
    return as_torch(wg.where(found, reshaped(values, tuple(shape)), x))


# -- where elements are


@function(out=True)
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Return the places of the elements that are not 0: a row each, or with `as_tuple` a vector for each axis.

    Raises TraceError for an abstract tensor.

    >>> import wengert.torch as torch
    >>> torch.nonzero(torch.tensor([[0, 1], [1, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    x = tensor_of(input)
    if not x.ndim:
        found = wg.nonzero(x.reshape(1))[0]
        return (as_torch(found),) if as_tuple else tensor_of(wg.zeros((found.shape[0], 0), dtype=int64))
    places = as_torch(wg.nonzero(x))
    return places if as_tuple else as_torch(wg.stack(places, 1))


@function()
def argwhere(input: Any) -> Any:
    """Return the places of the elements that are not 0, a row each. Raises TraceError for an abstract tensor."""
    return nonzero(input)


@function(out=True)
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """Return `size` rows of places of elements that are not 0, with `fill_value` where there are fewer."""
    x = tensor_of(input)
    flat = (x != 0).reshape(-1).to(int64)
    if not x.ndim or not size or not x.numel():
        return tensor_of(wg.full((size, x.ndim), fill_value, dtype=int64))
    rank = wg.where(flat > 0, wg.cumulative_sum(flat) - 1, size)
    rank = wg.minimum(rank, size)  # what finds no row goes to one more, which is left out
    slots = tensor_of(wg.full((size + 1,), -1, dtype=int64))
    at = as_torch(PUBLIC["scatter"](slots, 0, rank, positions((x.numel(),))))[:size]
    rows = wg.stack(unravel_index(wg.clip(at, 0), tuple(x.shape)), 1)
    return as_torch(wg.where((at < 0).reshape(-1, 1), fill_value, rows))


@function(method=False)
def unravel_index(indices: Any, shape: Any) -> Any:
    """Return the places along each axis of a shape that positions in the flattened tensor mean. Raises RangeError."""
    rest, sizes = _places(indices, "unravel_index"), sizes_of((shape,) if isinstance(shape, int) else tuple(shape))
    if rest._array is not None and rest.numel():
        check_range("unravel_index", (rest._array,), (math.prod(sizes),), 0)
    found = []
    for n in reversed(sizes):
        found.append(rest % n)
        rest = rest // n
    return tuple(reversed(found))


@function(out=True)
def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Return where elements would be inserted into a sorted tensor to keep it sorted along its last axis.

    Raises ShapeError; ValueError for another side than "left" or "right".
    """
    if side not in (None, "left", "right"):
        raise ValueError(f'side must be "left" or "right", not {side!r}')
    ordered, values = tensor_of(sorted_sequence), tensor_of(input)
    if ordered.dtype.kind == "b":
        ordered, values = ordered.to(int32), values.to(int32)
    found = wg.searchsorted(ordered, values, right=right or side == "right", sorter=sorter)
    return as_torch(found.astype(int32) if out_int32 else found)


@function(out=True)
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Return the number of the bucket between sorted boundaries that each element falls into. Raises ShapeError."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@function(method=False, out=True)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Return for each element whether it is among the others, or with `invert` whether it is not."""
    x, others = wg.asarray(elements), wg.asarray(test_elements).reshape(-1)
    dtype = wg.result_type(x, others)
    x, others = (as_torch(t.astype(int32 if dtype.kind == "b" else dtype)) for t in (x, others))
    if not others.numel():
        return tensor_of(wg.full(tuple(x.shape), invert, dtype=bool))
    ordered = wg.sort(others, 0)
    at = wg.minimum(wg.searchsorted(ordered, x), others.numel() - 1)
    found = as_torch(PUBLIC["take"](ordered, at, 0)) == x
    return ~found if invert else found


# -- parts


@function()
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """Return `length` slices from `start` on along an axis. Raises RangeError where the axis ends before.

    >>> import wengert.torch as torch
    >>> torch.narrow(torch.arange(4), 0, 1, 2)
    tensor([1, 2])
    """
    x, first = tensor_of(input), int(start)
    axis = axis_of(dim, x.ndim)
    size = x.shape[axis]
    if not -size <= first <= size or length < 0 or (first + size if first < 0 else first) + length > size:
        fail(RangeError, f"narrow from {first} on by {length} along axis {axis} of {show(x.shape, x.dtype)}")
    first = first + size if first < 0 else first
    return x[(slice(None),) * axis + (slice(first, first + length),)]


@function()
def select(input: Any, dim: int, index: Any) -> Any:
    """Return one slice along an axis, without that axis. Raises RangeError."""
    x = tensor_of(input)
    return x[(slice(None),) * axis_of(dim, x.ndim) + (index if isinstance(index, Plain) else int(index),)]


def _slice(input: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    x = tensor_of(input)
    return x[(slice(None),) * axis_of(dim, x.ndim) + (slice(start, end, step),)]


for _fn in (narrow, select):
    copies(_fn, f"{_fn.__name__}_copy")
copies(_slice, "slice_copy")
method()(FUNCTIONS["narrow_copy"])


def window_scatter(name: str, at: Callable[..., Any], says: str) -> None:
    """Declare PyTorch's `name`: a tensor of which the elements that `at` picks are replaced."""

    def scatters(input: Any, src: Any, *args: Any, **kwargs: Any) -> Any:
        x = tensor_of(input)
        places = at(positions(x.shape), *args, **kwargs)
        v = value_for(x, src, name)
        if tuple(v.shape) != tuple(places.shape):
            fail(ShapeError, f"{name}: a source of {show(v.shape, v.dtype)}", f"It has shape {tuple(places.shape)}.")
        return put_at(x, places, v)

    scatters.__name__ = scatters.__qualname__ = name
    scatters.__doc__ = f"Return the tensor with {says} replaced by `src`. Raises ShapeError."
    function()(scatters)


window_scatter("select_scatter", select, "one slice along an axis")
window_scatter("slice_scatter", _slice, "the slices from `start` to `end` along an axis")
window_scatter("diagonal_scatter", diagonal, "a diagonal")


# -- windows


@method()
def unfold(self: Any, dimension: int, size: int, step: int) -> Any:
    """Return the windows of a size along an axis, every `step`, as a new last axis. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.arange(4).unfold(0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    x = self if self.ndim else self.reshape(1)
    axis = axis_of(dimension, x.ndim)
    if step < 1 or not 0 <= size <= x.shape[axis]:
        fail(ShapeError, f"unfold by windows of {size}, step {step}, along axis {axis} of {show(x.shape, x.dtype)}")
    starts = np.arange(0, x.shape[axis] - size + 1, step)
    at = asarray(starts[:, None] + np.arange(size), copy=False)
    windows = as_torch(bind(index_op, (x, at), {"axis": axis - x.ndim}))
    out = windows if axis == x.ndim - 1 else wg.moveaxis(windows, axis + 1, -1)
    if not self.ndim:
        out = out.reshape(size)
    return lie_in(out, self, lambda whole: _windows(whole, dimension, size, step))


def _windows(whole: Any, axis: int, size: int, step: int) -> Any:
    """Return the windows of an array along an axis in its memory."""
    if not whole.ndim:
        return whole.reshape((1,))[:size]
    found = np.lib.stride_tricks.sliding_window_view(whole, size, axis, writeable=whole.flags.writeable)
    return found[(*[slice(None)] * (axis % whole.ndim), slice(None, None, step))]


copies(unfold, "unfold_copy")


# -- in place


for _name in (
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "masked_fill",
    "masked_scatter",
    "put",
    "tril",
    "triu",
):
    in_place(_name)


@function()
def fill(input: Any, value: Any) -> Any:
    """Return a tensor of the same shape and dtype with one number, through which gradients flow. Raises ShapeError."""
    x = tensor_of(input)
    v = value_for(x, value, "fill")
    if v.ndim:
        fail(ShapeError, f"fill: a value of shape {tuple(v.shape)}", "It is a number.")
    return as_torch(wg.where(tensor_of(wg.ones(tuple(x.shape), dtype=bool)), v, x))


@method()
def fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Give the main diagonal one number, with `wrap` also again below it in a tall matrix. Returns the tensor.

    Raises ShapeError for a vector, or more than two axes that are not of one size.
    """
    shape = tuple(self.shape)
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        fail(ShapeError, f"fill_diagonal_ of {show(shape, self.dtype)}", "It takes a matrix, or axes of one size.")
    step = sum(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    end = math.prod(shape) if wrap or len(shape) > 2 else min(math.prod(shape), shape[1] * shape[1])
    at = tensor_of(np.arange(0, end, step))
    return update(self, "fill_diagonal_", lambda old: put_at(old, at, fill_value))
