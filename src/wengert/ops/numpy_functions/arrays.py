"""NumPy's functions that lay out, join, divide and pick from arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ..structure.shapes import as_operand
from .register import Unlike, axis_of, own, xp

# -- shapes


@own(np.reshape)
def reshape(a: Any, shape: Any) -> Tensor:
    return as_operand(a).reshape(shape)


@own(np.transpose)
def transpose(a: Any, axes: Any = None) -> Tensor:
    x = as_operand(a)
    return xp.permute_dims(x, tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


@own(np.resize)
def resize(a: Any, new_shape: Any) -> Tensor:
    x = as_operand(a).reshape(-1)
    sizes = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    return xp.take(x, np.resize(np.arange(x.size), sizes).reshape(-1)).reshape(sizes)


def _at_least(ndim: int) -> Callable[..., Any]:
    def front(*arys: Any) -> Any:
        found = tuple(_of_axes(as_operand(x), ndim) for x in arys)
        return found[0] if len(found) == 1 else found

    return front


def _of_axes(x: Tensor, ndim: int) -> Tensor:
    """Return an array of at least so many axes, new ones where NumPy puts them: before a vector, behind a matrix."""
    if x.ndim >= ndim:
        return x
    if not x.ndim:
        return x.reshape((1,) * ndim)
    front = (1,) if x.ndim == 1 else ()
    return x.reshape((*front, *x.shape, *(1,) * (ndim - x.ndim - len(front))))


own(np.atleast_1d)(_at_least(1))
own(np.atleast_2d)(_at_least(2))
own(np.atleast_3d)(_at_least(3))


@own(np.rot90)
def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    x = as_operand(m)
    first, second = (axis_of(x, a) for a in axes)
    if first == second:
        raise ValueError("the axes of a rotation must differ")
    turns = k % 4
    if turns == 2:
        return xp.flip(x, axis=(first, second))
    if not turns:
        return x
    if turns == 1:
        return xp.swapaxes(xp.flip(x, axis=second), first, second)
    return xp.flip(xp.swapaxes(x, first, second), axis=second)


@own(np.fliplr)
def fliplr(m: Any) -> Tensor:
    return xp.flip(as_operand(m), axis=1)


@own(np.flipud)
def flipud(m: Any) -> Tensor:
    return xp.flip(as_operand(m), axis=0)


@own(np.copy)
def copy(a: Any) -> Tensor:
    return as_operand(a).clone()


@own(np.shape)
def shape(a: Any) -> tuple[Any, ...]:
    return as_operand(a).shape


@own(np.ndim)
def ndim(a: Any) -> int:
    return as_operand(a).ndim


@own(np.size)
def size(a: Any, axis: Any = None) -> Any:
    x = as_operand(a)
    return x.size if axis is None else x.shape[axis]


@own(np.pad)
def pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Tensor:
    values = set(np.ravel(constant_values).tolist())
    if len(values) != 1:
        raise Unlike("constant_values that differ")
    return xp.pad(array, pad_width, mode=mode, value=values.pop())


# -- joining and dividing


@own(np.vstack)
def vstack(tup: Sequence[Any]) -> Tensor:
    return xp.concat([xp.atleast_2d(x) for x in tup], axis=0)


@own(np.hstack)
def hstack(tup: Sequence[Any]) -> Tensor:
    parts = [xp.atleast_1d(x) for x in tup]
    return xp.concat(parts, axis=0 if parts[0].ndim == 1 else 1)


@own(np.dstack)
def dstack(tup: Sequence[Any]) -> Tensor:
    return xp.concat([_of_axes(as_operand(x), 3) for x in tup], axis=2)


@own(np.column_stack)
def column_stack(tup: Sequence[Any]) -> Tensor:
    parts = [as_operand(x) for x in tup]
    return xp.concat([x if x.ndim > 1 else x.reshape(-1, 1) for x in parts], axis=1)


@own(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    return xp.concat([as_operand(arr), as_operand(values)], axis=axis)


@own(np.block)
def block(arrays: Any) -> Tensor:
    depths = set(_depths(arrays, 0))
    if len(depths) != 1:
        raise ValueError(f"the lists of a block must be equally deep, not {sorted(depths)}")
    depth = depths.pop()
    leaves = list(_leaves(arrays))
    axes = max(depth, *(x.ndim for x in leaves))

    def join(part: Any, axis: int) -> Tensor:
        if isinstance(part, list):
            return xp.concat([join(p, axis + 1) for p in part], axis=axis)
        x = as_operand(part)
        return x.reshape((*(1,) * (axes - x.ndim), *x.shape))

    return join(arrays, -depth)


def _depths(part: Any, depth: int) -> list[int]:
    if not isinstance(part, list):
        return [depth]
    if not part:
        raise ValueError("a block has an empty list")
    return [d for p in part for d in _depths(p, depth + 1)]


def _leaves(part: Any) -> list[Tensor]:
    return [x for p in part for x in _leaves(p)] if isinstance(part, list) else [as_operand(part)]


@own(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    x = as_operand(ary)
    if isinstance(indices_or_sections, int) and x.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return list(xp.array_split(x, indices_or_sections, axis=axis))


@own(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return split(ary, indices_or_sections, axis=0 if as_operand(ary).ndim == 1 else 1)


@own(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return split(ary, indices_or_sections, axis=0)


@own(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return split(ary, indices_or_sections, axis=2)


# -- places by number


def _placed(arr: Any, axis: int | None) -> tuple[Tensor, int]:
    """Return an array and the axis that elements are counted along: all of them where none is given."""
    x = as_operand(arr)
    return (x.reshape(-1), 0) if axis is None else (x, axis_of(x, axis))


def _numbers(obj: Any) -> Any:
    """Return places as NumPy takes them."""
    return np.asarray(obj.detach()) if isinstance(obj, Tensor) else obj


@own(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    x, along = _placed(arr, axis)
    return xp.take(x, np.delete(np.arange(x.shape[along]), _numbers(obj)), axis=along)


@own(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    x, along = _placed(arr, axis)
    count, places = x.shape[along], _numbers(obj)
    given = as_operand(values).astype(x.dtype)
    given = given.reshape((*(1,) * (x.ndim - given.ndim), *given.shape))
    if np.ndim(places) == 0 and not isinstance(places, slice):
        # What one place takes has its own number of rows.
        given = xp.moveaxis(given, 0, along)
        rows = given.shape[along]
        before = places + count if places < 0 else places
        if not 0 <= before <= count:
            raise IndexError(f"place {places} is outside of an axis of {count} elements")
        order = np.insert(np.arange(count), before, np.arange(count, count + rows))
    else:
        rows = np.arange(count)[places].size if isinstance(places, slice) else np.asarray(places).reshape(-1).size
        order = np.insert(np.arange(count), places, np.arange(count, count + rows))
    sizes = tuple(rows if i == along else n for i, n in enumerate(x.shape))
    return xp.take(xp.concat([x, xp.broadcast_to(given, sizes)], axis=along), order, axis=along)


@own(np.where)
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    return xp.nonzero(condition) if x is None and y is None else xp.where(condition, x, y)


@own(np.flatnonzero)
def flatnonzero(a: Any) -> Tensor:
    return xp.nonzero(as_operand(a).reshape(-1))[0]


@own(np.argwhere)
def argwhere(a: Any) -> Tensor:
    x = as_operand(a)
    if not x.ndim:
        return xp.nonzero(x.reshape(1))[0].reshape(-1, 1)[:, :0]
    return xp.stack(xp.nonzero(x), axis=1)


@own(np.extract)
def extract(condition: Any, arr: Any) -> Tensor:
    return xp.take(as_operand(arr).reshape(-1), flatnonzero(condition))


@own(np.compress)
def compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    x, along = _placed(a, axis)
    return xp.take(x, flatnonzero(condition), axis=along)


@own(np.choose)
def choose(a: Any, choices: Any) -> Tensor:
    places, *parts = xp.broadcast_arrays(as_operand(a), *(as_operand(c) for c in choices))
    return xp.take_along_axis(xp.stack(parts), places[None], axis=0)[0]


@own(np.select)
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    if len(condlist) != len(choicelist):
        raise ValueError(f"{len(condlist)} conditions for {len(choicelist)} choices")
    if not condlist:
        raise ValueError("select() without a condition")
    found: Any = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = xp.where(condition, choice, found)
    return found


@own(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Tensor:
    x = as_operand(x)
    masks = [as_operand(c) for c in (condlist if isinstance(condlist, (list, tuple)) else [condlist])]
    if len(funclist) == len(masks) + 1:
        rest = masks[0]
        for mask in masks[1:]:
            rest = rest | mask
        masks.append(~rest)
    if len(funclist) != len(masks):
        raise ValueError(f"{len(funclist)} functions for {len(condlist)} conditions, which take one each or one more")
    # A function sees its own elements alone: where it is not meant it may have no value.
    flat = x.reshape(-1)
    found = xp.zeros_like(flat)
    for mask, piece in zip(masks, funclist, strict=True):
        places = flatnonzero(xp.broadcast_to(mask, x.shape))
        if not callable(piece):
            values: Any = piece
        elif places.size:
            values = piece(xp.take(flat, places), *args, **kw)
        else:
            continue
        part = xp.broadcast_to(as_operand(values).astype(x.dtype), places.shape)
        found = xp.scatter(found, 0, places, part)
    return found.reshape(x.shape)


@own(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    x = as_operand(arr)
    along = axis_of(x, axis)
    rows = xp.moveaxis(x, along, -1)
    outer = rows.shape[:-1]
    found = [as_operand(func1d(row, *args, **kwargs)) for row in rows.reshape((-1, rows.shape[-1]))]
    if not found:
        raise ValueError("apply_along_axis of an array without rows")
    parts = xp.stack(found).reshape((*outer, *found[0].shape))
    made = tuple(range(len(outer), parts.ndim))
    return xp.moveaxis(parts, made, tuple(range(along, along + len(made))))


@own(np.tril_indices_from)
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    return np.tril_indices(as_operand(arr).shape[-2], k=k, m=as_operand(arr).shape[-1])


@own(np.triu_indices_from)
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    return np.triu_indices(as_operand(arr).shape[-2], k=k, m=as_operand(arr).shape[-1])


@own(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    return np.diag_indices_from(np.empty(as_operand(arr).shape, bool))


@own(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Tensor:
    return xp.diag(as_operand(v).reshape(-1), k)


@own(np.array_equal)
def array_equal(a1: Any, a2: Any) -> bool:
    x, y = as_operand(a1), as_operand(a2)
    return x.shape == y.shape and bool((x == y).all())
