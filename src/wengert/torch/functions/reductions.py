"""Reductions and running reductions with PyTorch's names, parameters and meaning."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import wengert as wg

from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.spec import category, int64, normalize_axis
from ...core.tensor import Tensor as Plain
from ...ops.index.gather import gather_op
from ...ops.structure.assemble import along
from .. import return_types
from ..namespace import NO_AXES, all_placed, as_torch, function, in_place, placed, tensor_of
from ..tensor import Tensor, dtype_of
from .creation import lying_as
from .shaping import own

_upto = range  # a parameter of that name hides it

# What stands for a parameter that was not given, where None means something.
_ABSENT: Any = object()


def axes(x: Tensor, dim: Any) -> Any:
    """Return `dim`, an axis or several, as Wengert takes them; None for all, which an empty sequence is too.

    A tensor without axes has the axes 0 and -1 all the same. Raises ShapeError for others that do not exist.
    """
    several = isinstance(dim, (tuple, list))
    if dim is None or (several and not dim):
        return dim if dim is NO_AXES else None
    if x.ndim == 0:
        for d in dim if several else (dim,):
            normalize_axis(d, 1)
        return None
    return tuple(dim) if several else dim


def row(x: Tensor, dim: Any) -> tuple[Tensor, int, bool]:
    """Return a tensor with at least one axis, `dim` counted from the right, and whether the axis was added."""
    if x.ndim == 0:
        return x.reshape((1,)), normalize_axis(dim, 1), True  # type: ignore[return-value]
    return x, normalize_axis(dim, x.ndim), False


def without(x: Any, axis: int, keepdim: bool, added: bool) -> Any:
    """Return a result that keeps the reduced axis as it was asked for."""
    if added:
        return x.reshape(())
    shape = x.shape
    return x if keepdim else x.reshape(shape[:axis] + shape[len(shape) + axis + 1 :])


def picked(x: Tensor, indices: Any, axis: int, keepdim: bool, added: bool) -> tuple[Any, Any]:
    """Return the elements that indices with one entry along an axis choose, and the indices."""
    values = gather_op.front(x, indices, axis=axis)
    return without(values, axis, keepdim, added), without(indices, axis, keepdim, added)


# -- sums and means


def _summed(name: str, x: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    want = dtype_of(dtype) if dtype is not None else int64 if category(x.dtype) < 2 else None
    return placed(getattr(wg, name)(x, axes(x, dim), bool(keepdim), dtype=want))


@function(out=True)
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the sum of all elements, or along an axis or several. Integers and booleans add up to int64.

    >>> import wengert.torch as torch
    >>> torch.sum(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0, keepdim=True)
    tensor([[4., 6.]])
    """
    if dim is None and dtype is None and not keepdim and isinstance(input, Tensor) and input.spec.inexact:
        return placed(wg.sum(input))
    return _summed("sum", tensor_of(input), dim, keepdim, dtype)


@function(out=True, autocast="float32")
def prod(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the product of all elements, or along an axis."""
    return _summed("prod", tensor_of(input), dim, keepdim, dtype)


@function(out=True)
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the mean of all elements, or along an axis or several. `dtype` is converted to first."""
    if dim is None and dtype is None and not keepdim and isinstance(input, Tensor) and input.spec.inexact:
        return placed(wg.mean(input))
    x = tensor_of(input)
    return placed(wg.mean(x, axes(x, dim), bool(keepdim), dtype=None if dtype is None else dtype_of(dtype)))


def _zero_for_nan(x: Tensor, dtype: Any) -> Any:
    if dtype is not None:
        x = x.astype(dtype_of(dtype))  # type: ignore[assignment]
    return wg.where(wg.isnan(x), 0, x) if x.spec.inexact else x


@function(out=True)
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the sum with NaN as 0."""
    return sum(_zero_for_nan(tensor_of(input), dtype), dim, keepdim)


@function(out=True)
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the mean of the elements that are not NaN; NaN where there are none."""
    x = tensor_of(input)
    count = wg.sum(~wg.isnan(x), axes(x, dim), bool(keepdim))
    total = nansum(x, dim, keepdim, dtype=dtype)
    return placed(total / count.astype(total.dtype))


# -- variances


def _spread_parameters(dim: Any, given: tuple[Any, ...], unbiased: Any, correction: Any, keepdim: bool) -> Any:
    """Return axes, correction and keepdim from PyTorch's two ways of asking: `correction`, or the older `unbiased`."""
    if isinstance(dim, bool):
        dim, given = None, (dim, *given)
    if len(given) > 2:
        fail(DTypeError, f"too many positional arguments: {given}", "Write dim, unbiased, keepdim.")
    if given:
        unbiased = given[0]
    if len(given) == 2:
        keepdim = given[1]
    if unbiased is not None and correction is not _ABSENT:
        fail(DTypeError, "unbiased= and correction= are given, which say the same", "Give correction= only.")
    if unbiased is not None:
        correction = 1 if unbiased else 0
    return dim, 1 if correction is _ABSENT or correction is None else correction, bool(keepdim)


_SPREAD = """Return {what} along an axis or several, or of all elements, over n - `correction`.

`unbiased` is the older name: True for a correction of 1, which is the default, False for 0; it is the first or the
second positional argument."""


def _spread(name: str, fn: Callable[..., Any], what: str, of_mean: bool) -> None:
    def run(
        input: Any,
        dim: Any = None,
        *given: Any,
        unbiased: Any = None,
        correction: Any = _ABSENT,
        keepdim: bool = False,
    ) -> Any:
        x = tensor_of(input)
        dim, by, keep = _spread_parameters(dim, given, unbiased, correction, keepdim)
        found = placed(fn(x, axes(x, dim), correction=by, keepdims=keep))
        return (found, mean(x, dim, keep)) if of_mean else found

    run.__name__ = run.__qualname__ = name
    run.__doc__ = _SPREAD.format(what=what)
    function(out=True, method=not of_mean)(run)


_spread("var", wg.var, "the variance", False)
_spread("std", wg.std, "the standard deviation", False)
_spread("var_mean", wg.var, "the variance and the mean", True)
_spread("std_mean", wg.std, "the standard deviation and the mean", True)


# -- truth


def _truth(name: str, fn: Callable[..., Any], doc: str) -> None:
    def run(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
        x = tensor_of(input)
        empty = isinstance(dim, (tuple, list)) and not dim
        out = placed(x != 0 if empty else fn(x, axes(x, dim), bool(keepdim)))
        return out.astype(x.dtype) if x.dtype.name == "uint8" else out

    run.__name__ = run.__qualname__ = name
    run.__doc__ = doc
    function(out=True)(run)


_truth("any", wg.any, "Return whether some element is not 0, of all or along an axis or several.")
_truth("all", wg.all, "Return whether no element is 0, of all or along an axis or several.")


@function()
def count_nonzero(input: Any, dim: Any = None) -> Tensor:
    """Return how many elements are not 0, of all or along an axis or several."""
    x = tensor_of(input)
    return placed(wg.count_nonzero(x, axes(x, dim)))


@function()
def equal(input: Any, other: Any) -> bool:
    """Return whether two tensors have one shape and equal elements, as a Python bool."""
    x, y = tensor_of(input), tensor_of(other)
    return tuple(x.shape) == tuple(y.shape) and bool((x == y).all())


@function()
def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return whether |input - other| <= atol + rtol |other|, element by element."""
    return placed(wg.isclose(input, other, rtol, atol, equal_nan))


@function()
def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether all elements are close (`isclose`), as a Python bool."""
    return bool(wg.isclose(input, other, rtol, atol, equal_nan).all())


# -- extremes


def _extreme(name: str, whole: Callable[..., Any], position: Callable[..., Any], of_two: Callable[..., Any]) -> None:
    pair = getattr(return_types, name)

    def run(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        x = tensor_of(input)
        if other is None and dim is not None and not isinstance(dim, int):
            dim, other = None, dim
        if other is not None:
            return placed(of_two(x, other))
        if dim is None:
            return placed(whole(x))
        x, axis, added = row(x, dim)
        return all_placed(pair(*picked(x, position(x, axis, True), axis, keepdim, added)))

    run.__name__ = run.__qualname__ = name
    word = "largest" if name == "max" else "smallest"
    run.__doc__ = (
        f"Return the {word} element; along `dim` such elements and their indices; the {word[:-3]}er of two tensors.\n\n"
        "The gradient of a whole tensor's is shared among equals; along an axis it goes where the index says."
    )
    function(out=True)(run)


_extreme("max", wg.max, wg.argmax, wg.maximum)
_extreme("min", wg.min, wg.argmin, wg.minimum)


def _axes_extreme(name: str, fn: Callable[..., Any], word: str) -> None:
    def run(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
        x = tensor_of(input)
        return placed(fn(x, axes(x, dim), bool(keepdim)))

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"Return the {word} elements along axes, or of all. The gradient is shared among equals."
    function(out=True)(run)


_axes_extreme("amax", wg.max, "largest")
_axes_extreme("amin", wg.min, "smallest")


@function(out=True)
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the smallest and the largest elements, of all or along an axis."""
    x = tensor_of(input)
    at = axes(x, dim)
    return all_placed(return_types.aminmax(wg.min(x, at, bool(keepdim)), wg.max(x, at, bool(keepdim))))


def _position(name: str, fn: Callable[..., Any], word: str) -> None:
    def run(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        x = tensor_of(input)
        return placed(fn(x, axes(x, dim), bool(keepdim)))

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"Return the index of the {word} element along an axis; without one it counts through all elements."
    function(out=True)(run)


_position("argmax", wg.argmax, "largest")
_position("argmin", wg.argmin, "smallest")


# -- running reductions


def _running(name: str, fn: Callable[..., Any], word: str) -> None:
    def run(input: Any, dim: int, *, dtype: Any = None) -> Any:
        x, axis, added = row(tensor_of(input), dim)
        want = dtype_of(dtype) if dtype is not None else int64 if category(x.dtype) < 2 else None
        out = placed(fn(x, axis, dtype=want))
        return out.reshape(()) if added else out

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"Return the running {word} along an axis."
    function(out=True)(run)


_running("cumsum", wg.cumulative_sum, "sums")
_running("cumprod", wg.cumulative_prod, "products")


def scanned(combine: Callable[[Any, Any], Any], parts: Any, axis: int) -> Any:
    """Return the running results of an associative function of tuples of tensors, in as many steps as doublings."""
    n, by = parts[0].shape[axis], 1
    while by < n:
        later = tuple(p[along(axis, slice(by, None))] for p in parts)
        earlier = tuple(p[along(axis, slice(None, n - by))] for p in parts)
        joined = combine(earlier, later)
        parts = tuple(
            wg.concat([p[along(axis, slice(None, by))], j], axis=axis) for p, j in zip(parts, joined, strict=True)
        )
        by *= 2
    return parts


def _places(x: Any, axis: int) -> Any:
    """Return each element's index along an axis, in the tensor's shape."""
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return wg.broadcast_to(wg.arange(x.shape[axis]).reshape(tuple(shape)), tuple(x.shape))


def _running_extreme(name: str, beats: Callable[[Any, Any], Any], word: str) -> None:
    pair = getattr(return_types, name)

    def join(earlier: Any, later: Any) -> Any:
        (x, i), (y, j) = earlier, later
        taken = wg.isnan(y) | (beats(y, x) & ~wg.isnan(x))
        return wg.where(taken, y, x), wg.where(taken, j, i)

    def run(input: Any, dim: int) -> Any:
        x, axis, added = row(tensor_of(input), dim)
        _, indices = scanned(join, (x.detach(), _places(x, axis)), axis)
        out = wg.take_along_axis(x, indices, axis), indices
        return all_placed(pair(*(o.reshape(()) if added else o for o in out)))

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"Return the {word} element so far along an axis, and its index: the last of equals."
    function(out=True)(run)


_running_extreme("cummax", lambda y, x: y >= x, "largest")
_running_extreme("cummin", lambda y, x: y <= x, "smallest")


@function(out=True)
def logcumsumexp(input: Any, dim: int) -> Tensor:
    """Return the logarithms of the running sums of exp along an axis, without overflow."""
    x, axis, added = row(tensor_of(input), dim)
    (out,) = scanned(lambda a, b: (wg.logaddexp(a[0], b[0]),), (x,), axis)
    return placed(out.reshape(()) if added else out.clone() if out is x else out)


@function(out=True)
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Tensor:
    """Return log(sum(exp(x))) along an axis or several, without overflow."""
    x = tensor_of(input)
    return placed(wg.logsumexp(x, axes(x, dim), bool(keepdim)))


def _soft(name: str, fn: Callable[..., Any], doc: str) -> None:
    def run(input: Any, dim: int, dtype: Any = None) -> Any:
        x, axis, added = row(tensor_of(input), dim)
        out = fn(x if dtype is None else x.astype(dtype_of(dtype)), axis)
        return placed(out.reshape(()) if added else out)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = doc
    function()(run)


_soft("softmax", wg.softmax, "Return exp of the elements over their sum along an axis.")
_soft("log_softmax", wg.log_softmax, "Return the logarithms of `softmax`, without overflow.")


# -- norms


@function(out=True)
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Return the norm of order `p` of the elements, of all or along axes; "fro" is 2, "nuc" the sum of singular values.

    Raises ShapeError where "nuc" does not get two axes.
    """
    x = tensor_of(input)
    if dtype is not None:
        x = x.astype(dtype_of(dtype))  # type: ignore[assignment]
    if p == "nuc":
        found = wg.linalg.matrix_norm(x if dim is None else wg.moveaxis(x, tuple(dim), (-2, -1)), ord="nuc")
        if keepdim:
            for d in sorted(normalize_axis(d, x.ndim) + x.ndim for d in (dim or (-2, -1))):
                found = wg.expand_dims(found, d)
    else:
        found = wg.linalg.vector_norm(x, 2 if p in ("fro", None) else p, axes(x, dim), bool(keepdim))
    return placed(found)


@function()
def dist(input: Any, other: Any, p: float = 2) -> Tensor:
    """Return the norm of order `p` of the difference of two tensors."""
    return placed(wg.linalg.vector_norm(tensor_of(input) - other, p))


@function(out=True)
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Tensor:
    """Return the tensor with its slices along `dim` scaled down to the norm `maxnorm` where theirs is larger."""
    x = tensor_of(input)
    at = normalize_axis(dim, x.ndim)
    others = tuple(a for a in range(-x.ndim, 0) if a != at)
    size = wg.linalg.vector_norm(x, p, others, True)
    scale = wg.where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return placed(x * scale.astype(x.dtype))


# -- order


@function(out=True)
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool | None = False) -> Any:
    """Return the elements in order along an axis, and their indices. NaN counts as largest.

    >>> import wengert.torch as torch
    >>> values, indices = torch.sort(torch.tensor([3.0, 1.0, 2.0]))
    >>> values, indices
    (tensor([1., 2., 3.]), tensor([1, 2, 0]))
    """
    x, axis, added = row(tensor_of(input), dim)
    order = wg.argsort(x, axis, bool(descending), True)
    return all_placed(return_types.sort(*(lying_as(as_torch(p), x) for p in picked(x, order, axis, True, added))))


@function()
def argsort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """Return the indices that put the elements in order along an axis."""
    x, axis, added = row(tensor_of(input), dim)
    order = wg.argsort(x, axis, bool(descending), True)
    return placed(order.reshape(()) if added else lying_as(as_torch(order), x))


@function(out=True)
def msort(input: Any) -> Tensor:
    """Return the elements in order along the first axis."""
    return sort(input, 0).values  # type: ignore[no-any-return]


@function(out=True)
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the `k` largest (or smallest) elements along an axis, in order, and their indices."""
    x, axis, added = row(tensor_of(input), dim)
    values, indices = (own(as_torch(part)) for part in wg.top_k(x, int(k), axis, bool(largest)))
    if added and k == 1:
        values, indices = values.reshape(()), indices.reshape(())
    return all_placed(return_types.topk(values, indices))


@function(out=True)
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the `k`-th smallest elements along an axis, counted from 1, and their indices. Raises RangeError."""
    x, axis, added = row(tensor_of(input), dim)
    if not 1 <= k <= x.shape[axis]:
        fail(RangeError, f"kthvalue: k={k} of {x.shape[axis]} elements", "k counts from 1 to the size of the axis.")
    order = wg.argsort(x, axis)[along(axis, slice(k - 1, k))]
    return all_placed(return_types.kthvalue(*(own(as_torch(p)) for p in picked(x, order, axis, keepdim, added))))


def _middle(x: Any, axis: int, skip: bool) -> Any:
    """Return the indices of the lower of the middle elements, of those that are not NaN or, where one is, of it."""
    order = wg.argsort(x, axis)
    missing = wg.isnan(x)
    n = x.shape[axis]
    if skip:
        present = n - wg.sum(missing, axis, True, dtype=int64)
        place = wg.maximum((present - 1) // 2, 0)
        return wg.take_along_axis(order, place, axis)
    middle = order[along(axis, slice((n - 1) // 2, (n - 1) // 2 + 1))]
    first = wg.argmax(missing.astype(wg.int8), axis, True)
    return wg.where(wg.any(missing, axis, True), first, middle)


def _median(name: str, skip: bool, doc: str) -> None:
    pair = getattr(return_types, name)

    def run(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        x = tensor_of(input)
        if dim is not None:
            x, axis, added = row(x, dim)
            return all_placed(pair(*picked(x, _middle(x, axis, skip), axis, keepdim, added)))
        flat = x.reshape((-1,))
        if not flat.shape[0]:
            return placed(wg.full((), math.nan if x.spec.inexact else 0, dtype=x.dtype))
        if not x.spec.inexact:
            return placed(wg.take_along_axis(flat, _middle(flat, 0, skip), 0).reshape(()))
        found = wg.take_along_axis(flat.detach(), _middle(flat, 0, skip), 0).reshape(())
        # Equals share the gradient: what is added is 0, and only its slope is not.
        equals = ((flat == found) & wg.isfinite(flat)) | (wg.isnan(flat) & wg.isnan(found))
        return placed(found + wg.sum(wg.where(equals, flat - found, 0)) / wg.maximum(wg.sum(equals), 1).astype(x.dtype))

    run.__name__ = run.__qualname__ = name
    run.__doc__ = doc
    function(out=True)(run)


_median(
    "median",
    False,
    "Return the middle element, the lower of two; along `dim` such elements and their indices. NaN where there is one.",
)
_median(
    "nanmedian",
    True,
    "Return the middle of the elements that are not NaN; along `dim` such elements and their indices.",
)


@function(out=True)
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the commonest elements along an axis, the smallest of several, and the index of their last occurrence."""
    x, axis, added = row(tensor_of(input), dim)
    order = wg.argsort(x, axis)
    values = wg.take_along_axis(x.detach(), order, axis)
    places = _places(x, axis)
    same = values[along(axis, slice(1, None))] == values[along(axis, slice(None, -1))]
    begins = wg.concat([wg.zeros_like(places[along(axis, slice(None, 1))], dtype=wg.bool), same], axis=axis)
    (start,) = scanned(lambda a, b: (wg.maximum(a[0], b[0]),), (wg.where(begins, 0, places),), axis)
    longest = wg.argmax(places - start, axis, True)
    return all_placed(return_types.mode(*picked(x, wg.take_along_axis(order, longest, axis), axis, keepdim, added)))


_PLACES: dict[str, Callable[[Any], Any]] = {
    "lower": wg.floor,
    "higher": wg.ceil,
    "nearest": wg.round,
    "linear": lambda rank: rank,
    "midpoint": lambda rank: wg.floor(rank) + 0.5 * (rank != wg.floor(rank)).astype(rank.dtype),
}


def _quantile(name: str, skip: bool, doc: str) -> None:
    def run(input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
        if interpolation not in _PLACES:
            raise ValueError(f"{name}: interpolation must be one of {', '.join(_PLACES)}, not {interpolation!r}")
        given: Any = tensor_of(input)
        if category(given.dtype) != 2:
            fail(DTypeError, f"{name} of {given.spec}", "Only floating numbers have quantiles between them: x.float().")
        ranks = tensor_of(q).astype(given.dtype) if isinstance(q, Plain) else wg.asarray(q, dtype=given.dtype)
        if ranks.ndim > 1:
            fail(ShapeError, f"{name}: q of shape {tuple(ranks.shape)}", "q is a number, or has one axis.")
        if not ranks.is_abstract and not bool(((ranks >= 0) & (ranks <= 1)).all()):
            fail(RangeError, f"{name}: q outside of 0 .. 1")
        x, axis, _ = row(given.reshape((-1,)) if dim is None else given, -1 if dim is None else dim)
        rows = wg.moveaxis(x, axis, -1)
        n = rows.shape[-1]
        if n == 0:
            fail(ShapeError, f"{name} of no elements, {given.spec}", "Check the size first.")
        rows = wg.take_along_axis(rows, wg.argsort(rows, -1), -1)
        missing = wg.isnan(rows)
        many = ranks.reshape((-1,))
        last: Any = n - 1.0
        if skip:
            last = wg.maximum(n - 1 - wg.sum(missing, -1, True, dtype=int64), 0).astype(x.dtype)
        place = wg.broadcast_to(_PLACES[interpolation](many * last), (*rows.shape[:-1], many.shape[0]))
        if not skip:
            place = wg.where(wg.any(missing, -1, True), n - 1.0, place)
        below = wg.floor(place).detach()
        low = wg.take_along_axis(rows, below.astype(int64), -1)
        out = low
        if interpolation in ("linear", "midpoint"):
            high = wg.take_along_axis(rows, wg.ceil(place).detach().astype(int64), -1)
            share = place - below
            out = wg.where(share < 0.5, low + share * (high - low), high - (1.0 - share) * (high - low))
            out = wg.where(share == 0, low, out)  # an infinity times 0 is none
        if keepdim and (dim is None or not given.ndim):
            out = out.reshape((*(1,) * given.ndim, many.shape[0]))
        elif keepdim:
            out = wg.moveaxis(wg.expand_dims(out, -2), -2, axis - 1)
        out = wg.moveaxis(out, -1, 0)
        return placed(out if ranks.ndim else out.reshape(out.shape[1:]))

    run.__name__ = run.__qualname__ = name
    run.__doc__ = doc
    function(out=True, autocast="float32")(run)


_quantile(
    "quantile",
    False,
    "Return the quantiles `q`, of all elements or along an axis, with an axis for those of `q` in front.\n\n"
    'Between two elements `interpolation` decides: "linear", "lower", "higher", "midpoint" or "nearest".',
)
_quantile("nanquantile", True, "Return the quantiles `q` of the elements that are not NaN; see `quantile`.")


# -- counts


@function(out=True)
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Return how many elements fall into each of `bins` equal parts of min .. max, or of what the elements span.

    They span it where min and max are equal. Others are not counted. The result is of the input's dtype.
    """
    x = tensor_of(input).detach().reshape((-1,))
    low, high = _range(x, float(min), float(max), 1)
    counts = _counted(x.astype(wg.float64), low, high, bins, None)
    return placed(counts.astype(x.dtype))


def _range(x: Any, low: Any, high: Any, around: float) -> tuple[Any, Any]:
    """Return the bounds of a histogram: where none are given those of the elements, `around` one that is alone."""
    if low == high and x.shape[0]:
        low, high = wg.min(x).astype(wg.float64), wg.max(x).astype(wg.float64)
        margin = (low == high).astype(wg.float64) * around
        return low - margin, high + margin
    return (low - around, high + around) if low == high else (low, high)


def _counted(x: Any, low: Any, high: Any, bins: int, weight: Any) -> Any:
    inside = (x >= low) & (x <= high)
    place = wg.floor(wg.where(inside, x - low, 0) * bins / (high - low))
    place = wg.where(inside, wg.clip(place, 0, bins - 1), bins).astype(int64)
    return _added_up(place, bins + 1, weight)[:bins]


def _added_up(place: Any, size: int, weight: Any) -> Any:
    ones = wg.ones(tuple(place.shape), dtype=int64) if weight is None else weight
    return wg.index_add(wg.zeros(size, dtype=ones.dtype), 0, place, ones)


def _edges(x: Any, bins: Any, low: Any, high: Any) -> Any:
    """Return the edges of equal parts of the bounds, or those given."""
    if isinstance(bins, Plain):
        return bins.astype(x.dtype)
    low, high = _range(x, low, high, 0.5)
    steps = wg.arange(int(bins) + 1, dtype=wg.float64)
    edges = (low + steps * ((high - low) / int(bins))).astype(x.dtype)
    return wg.where(steps == int(bins), high, edges).astype(x.dtype)


def _bin(x: Any, edges: Any) -> Any:
    """Return between which edges elements lie, the last edge among them; as many as there are for those outside."""
    n = edges.shape[0] - 1
    place = wg.searchsorted(edges, x, side="right") - 1
    place = wg.where(x == edges[-1], n - 1, place)
    return wg.where((place < 0) | (place >= n) | wg.isnan(x), n, place)


@function(out=True)
def histogram(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """Return how many elements fall between neighbouring edges, and the edges.

    `bins` is how many equal parts `range` (or what the elements span) has, or a tensor of edges in ascending order.
    `weight` counts for each element instead of 1; with `density` the integral is 1.
    """
    x = tensor_of(input).detach().reshape((-1,))
    edges = _edges(x, bins, *((0.0, 0.0) if range is None else range))
    weights = wg.ones_like(x) if weight is None else tensor_of(weight).reshape((-1,))
    counts = _added_up(_bin(x, edges), edges.shape[0], weights)[:-1]
    if density:
        counts = counts / (wg.sum(counts) * (edges[1:] - edges[:-1]))
    return all_placed(return_types.histogram(counts, edges))


@function()
def histogramdd(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """Return how many points, the rows of the last axis, fall into each cell of a grid, and the edges of each axis.

    `bins` is a number, one for each axis, or a tensor of edges for each; `range` has two bounds for each axis.
    """
    points = tensor_of(input).detach()
    points = points.reshape((-1, points.shape[-1]))
    dims = points.shape[1]
    many = [bins] * dims if isinstance(bins, int) else list(bins)
    bounds = [(0.0, 0.0)] * dims if range is None else list(zip(range[::2], range[1::2], strict=True))
    edges = [_edges(points[:, d], many[d], *bounds[d]) for d in _upto(dims)]
    place: Any = 0
    inside: Any = True
    cells = 1
    for d in _upto(dims):
        n = edges[d].shape[0] - 1
        found = _bin(points[:, d], edges[d])
        place, inside, cells = place * n + found, (found < n) & inside, cells * n
    weights = wg.ones_like(points[:, 0]) if weight is None else tensor_of(weight).reshape((-1,))
    counts = _added_up(wg.where(inside, place, cells), cells + 1, weights)[:cells]
    counts = counts.reshape(tuple(e.shape[0] - 1 for e in edges))
    if density:
        total = wg.sum(counts)
        for d in _upto(dims):
            counts = counts / (edges[d][1:] - edges[d][:-1]).reshape((-1, *(1,) * (dims - 1 - d)))
        counts = counts / total
    return return_types.histogramdd(placed(counts), tuple(placed(e) for e in edges))


@function()
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """Return how often each integer from 0 to the largest element occurs, or the sum of its `weights`.

    Raises TraceError in a trace, where the size of the result would depend on values; DTypeError, RangeError.
    """
    x = tensor_of(input)
    if category(x.dtype) != 1 or x.ndim != 1:
        fail(DTypeError, f"bincount of {x.spec}", "It counts integers, along one axis.")
    size = int(wg.max(x)) + 1 if x.shape[0] else 0
    if x.shape[0] and int(wg.min(x)) < 0:
        fail(RangeError, "bincount of negative integers", "Subtract the smallest first.")
    given = None if weights is None else tensor_of(weights)
    if given is not None and given.dtype.name != "float32":
        given = given.astype(wg.float64)  # type: ignore[assignment]
    return placed(_added_up(x.astype(int64), size if size > minlength else minlength, given))


# -- distinct elements


def _by_rows(x: Any, dim: int) -> Any:
    """Return each slice along an axis as a row."""
    first = wg.moveaxis(x, dim, 0)
    return first.reshape((first.shape[0], math.prod(first.shape[1:])))


def _changes(rows: Any) -> Any:
    """Return whether each row differs from the one before it, which the first does."""
    changed = wg.any(rows[1:] != rows[:-1], 1)
    return wg.concat([wg.ones(min_of(rows.shape[0], 1), dtype=wg.bool), changed])


def min_of(a: int, b: int) -> int:
    """Return the smaller of two sizes; the name `min` is a tensor's here."""
    return a if a < b else b


def _results(values: Any, inverse: Any, counts: Any, wants_inverse: bool, wants_counts: bool) -> Any:
    out = (values, *([inverse] if wants_inverse else []), *([counts] if wants_counts else []))
    return all_placed(out) if len(out) > 1 else placed(values)


def _grouped(x: Any, rows: Any, dim: int, wants_inverse: bool, wants_counts: bool, order: Any = None) -> Any:
    """Return the first slice of each run of equal rows, the run of each slice, and the runs' lengths."""
    changed = _changes(rows)
    (starts,) = wg.nonzero(changed)
    run = wg.cumulative_sum(changed.astype(int64), 0) - 1
    n = rows.shape[0]
    ends = wg.concat([starts[1:], wg.full(min_of(n, 1), n, dtype=int64)])
    if order is not None:
        starts, run = order[starts], wg.take_along_axis(run, wg.argsort(order), 0)
    return _results(
        wg.take(x, starts, dim), run, ends - (ends * 0 + wg.nonzero(changed)[0]), wants_inverse, wants_counts
    )


@function()
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the distinct elements, or slices along `dim`, in ascending order; and where asked each element's place
    among them, and how often each occurs.

    Raises TraceError in a trace, where the size of the result would depend on values.

    >>> import wengert.torch as torch
    >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    x = tensor_of(input)
    if dim is None:
        found = wg.unique_all(x)
        return _results(found.values, found.inverse_indices, found.counts, return_inverse, return_counts)
    rows = _by_rows(x, dim)
    order = wg.arange(rows.shape[0])
    for column in range(rows.shape[1] - 1, -1, -1):
        order = wg.take(order, wg.argsort(wg.take(rows[:, column], order), stable=True))
    return _grouped(x, wg.take(rows, order, 0), dim, return_inverse, return_counts, order)


@function()
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the first of each run of equal elements, or of equal slices along `dim`; see `unique`."""
    x = tensor_of(input)
    if dim is not None:
        return _grouped(x, _by_rows(x, dim), dim, return_inverse, return_counts)
    flat = x.reshape((-1,))
    values, run, counts = _grouped(flat, flat.reshape((-1, 1)), 0, True, True)
    return _results(values, run.reshape(tuple(x.shape)), counts, return_inverse, return_counts)


# -- differences and integrals


@function(out=True)
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Return the differences of neighbours along an axis, taken `n` times."""
    if n == 0:
        return tensor_of(input).clone()  # type: ignore[return-value]
    return placed(wg.diff(tensor_of(input), n, dim, prepend=prepend, append=append))


def _strips(y: Any, x: Any, dx: Any, dim: int) -> tuple[Any, int]:
    """Return the areas between neighbours along an axis, and the axis."""
    y = tensor_of(y)
    axis = normalize_axis(dim, y.ndim)
    left, right = y[along(axis, slice(None, -1))], y[along(axis, slice(1, None))]
    if x is None:
        return (left + right) * ((1 if dx is None else dx) / 2), axis
    x = tensor_of(x)
    if x.ndim == 1:
        steps = (x[1:] - x[:-1]).reshape((-1, *(1,) * (-axis - 1)))
    else:
        steps = x[along(axis, slice(1, None))] - x[along(axis, slice(None, -1))]
    return (left + right) * steps / 2, axis


@function("trapz", method=False)
def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Return the integral along an axis by the trapezoidal rule, over the points `x` or steps of `dx` (1)."""
    areas, axis = _strips(y, x, dx, dim)
    return placed(wg.sum(areas, axis))


@function(method=False)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Return the running integral along an axis by the trapezoidal rule; see `trapezoid`."""
    areas, axis = _strips(y, x, dx, dim)
    return placed(wg.cumulative_sum(areas, axis))


for _name in ("cumsum", "cumprod", "renorm"):
    in_place(_name)
