"""NumPy's functions that lay out, join, divide and pick from arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.state.refusals import refuse
from ...core.tensor import Tensor
from ..structure.shapes import as_operand
from .register import Unlike, axis_of, own, xp

# -- shapes


@own(np.reshape)
def _reshape(a: Any, shape: Any, order: Any = "C") -> Any:
    x = as_operand(a)
    if order == "F":
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        return _transpose(_transpose(x).reshape(sizes[::-1]))
    if order != "C":
        raise Unlike(f"order={order!r}: how a tensor lies in memory cannot be seen")
    return x.reshape(shape)


@own(np.ravel)
def _ravel(a: Any, order: Any = "C") -> Any:
    return _reshape(a, (-1,), order)


@own(np.transpose)
def _transpose(a: Any, axes: Any = None) -> Any:
    x = as_operand(a)
    return xp.permute_dims(x, tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


@own(np.resize)
def _resize(a: Any, new_shape: Any) -> Any:
    x = as_operand(a).reshape(-1)
    sizes = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    return xp.take(x, np.resize(np.arange(x.size), sizes).reshape(-1)).reshape(sizes)


def _at_least(ndim: int) -> Callable[..., Any]:
    def front(*arys: Any) -> Any:
        found = tuple(_of_axes(as_operand(x), ndim) for x in arys)
        return found[0] if len(found) == 1 else found

    return front


def _of_axes(x: Tensor, ndim: int) -> Any:
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
def _rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    x = as_operand(m)
    first, second = (axis_of(x, a) for a in axes)
    if first == second:
        fail(ShapeError, f"np.rot90 of {x.spec} in the axes {tuple(axes)}", "They must differ.")
    turns = k % 4
    if turns == 2:
        return xp.flip(x, axis=(first, second))
    if not turns:
        return x
    if turns == 1:
        return xp.swapaxes(xp.flip(x, axis=second), first, second)
    return xp.flip(xp.swapaxes(x, first, second), axis=second)


@own(np.fliplr)
def _fliplr(m: Any) -> Any:
    return xp.flip(as_operand(m), axis=1)


@own(np.flipud)
def _flipud(m: Any) -> Any:
    return xp.flip(as_operand(m), axis=0)


@own(np.copy)
def _copy(a: Any) -> Any:
    return as_operand(a).clone()


@own(np.shape)
def _shape(a: Any) -> tuple[Any, ...]:
    return as_operand(a).shape


@own(np.ndim)
def _ndim(a: Any) -> int:
    return as_operand(a).ndim


@own(np.size)
def _size(a: Any, axis: Any = None) -> Any:
    x = as_operand(a)
    return x.size if axis is None else x.shape[axis]


@own(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", constant_values: Any = 0) -> Any:
    x = as_operand(array)
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise Unlike(f"mode={mode!r}")
    widths = np.broadcast_to(pad_width, (x.ndim, 2)).tolist()
    values = np.broadcast_to(constant_values, (x.ndim, 2)).tolist()
    for axis, (before, after) in enumerate(widths):
        if mode != "constant":
            if before or after:
                x = xp.take(x, np.pad(np.arange(x.shape[axis]), (before, after), mode=mode), axis=axis)
            continue
        # One side after the other, as NumPy does: corners have the later axis's number.
        for side, value in (((before, 0), values[axis][0]), ((0, after), values[axis][1])):
            if any(side):
                x = xp.pad(x, [side if a == axis else (0, 0) for a in range(x.ndim)], value=value)
    return x


# -- joining and dividing


@own(np.vstack)
def _vstack(tup: Sequence[Any]) -> Any:
    return xp.concat([xp.atleast_2d(x) for x in tup], axis=0)


@own(np.hstack)
def _hstack(tup: Sequence[Any]) -> Any:
    parts = [xp.atleast_1d(x) for x in tup]
    return xp.concat(parts, axis=0 if parts[0].ndim == 1 else 1)


@own(np.dstack)
def _dstack(tup: Sequence[Any]) -> Any:
    return xp.concat([_of_axes(as_operand(x), 3) for x in tup], axis=2)


@own(np.column_stack)
def _column_stack(tup: Sequence[Any]) -> Any:
    parts = [as_operand(x) for x in tup]
    return xp.concat([x if x.ndim > 1 else x.reshape(-1, 1) for x in parts], axis=1)


@own(np.append)
def _append(arr: Any, values: Any, axis: Any = None) -> Any:
    return xp.concat([as_operand(arr), as_operand(values)], axis=axis)


@own(np.block)
def _block(arrays: Any) -> Any:
    depths = set(_depths(arrays, 0))
    if len(depths) != 1:
        fail(ShapeError, f"np.block of lists that are {sorted(depths)} deep", "They must be equally deep.")
    depth = depths.pop()
    leaves = list(_leaves(arrays))
    axes = max(depth, *(x.ndim for x in leaves))

    def join(part: Any, axis: int) -> Any:
        if isinstance(part, list):
            return xp.concat([join(p, axis + 1) for p in part], axis=axis)
        x = as_operand(part)
        return x.reshape((*(1,) * (axes - x.ndim), *x.shape))

    return join(arrays, -depth)


def _depths(part: Any, depth: int) -> list[int]:
    if not isinstance(part, list):
        return [depth]
    if not part:
        fail(ShapeError, "np.block with an empty list")
    return [d for p in part for d in _depths(p, depth + 1)]


def _leaves(part: Any) -> Any:
    return [x for p in part for x in _leaves(p)] if isinstance(part, list) else [as_operand(part)]


@own(np.split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    x = as_operand(ary)
    if isinstance(indices_or_sections, int) and x.shape[axis] % indices_or_sections:
        fail(ShapeError, "np.split: array split does not result in an equal division", "np.array_split takes such.")
    return list(xp.array_split(x, indices_or_sections, axis=axis))


@own(np.hsplit)
def _hsplit(ary: Any, indices_or_sections: Any) -> Any:
    return _split(ary, indices_or_sections, axis=0 if as_operand(ary).ndim == 1 else 1)


@own(np.vsplit)
def _vsplit(ary: Any, indices_or_sections: Any) -> Any:
    return _split(ary, indices_or_sections, axis=0)


@own(np.dsplit)
def _dsplit(ary: Any, indices_or_sections: Any) -> Any:
    return _split(ary, indices_or_sections, axis=2)


# -- places by number


def _placed(arr: Any, axis: int | None) -> tuple[Tensor, int]:
    """Return an array and the axis that elements are counted along: all of them where none is given."""
    x = as_operand(arr)
    return (x.reshape(-1), 0) if axis is None else (x, axis_of(x, axis))


def _numbers(obj: Any) -> Any:
    """Return places as NumPy takes them."""
    return np.asarray(obj.detach()) if isinstance(obj, Tensor) else obj


@own(np.delete)
def _delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    x, along = _placed(arr, axis)
    return xp.take(x, np.delete(np.arange(x.shape[along]), _numbers(obj)), axis=along)


@own(np.insert)
def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
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
            fail(RangeError, f"np.insert or np.delete: place {places} is outside of an axis of {count} elements")
        order = np.insert(np.arange(count), before, np.arange(count, count + rows))
    else:
        rows = np.arange(count)[places].size if isinstance(places, slice) else np.asarray(places).reshape(-1).size
        order = np.insert(np.arange(count), places, np.arange(count, count + rows))
    sizes = tuple(rows if i == along else n for i, n in enumerate(x.shape))
    return xp.take(xp.concat([x, xp.broadcast_to(given, sizes)], axis=along), order, axis=along)


@own(np.where)
def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    return xp.nonzero(condition) if x is None and y is None else xp.where(condition, x, y)


@own(np.flatnonzero)
def _flatnonzero(a: Any) -> Any:
    return xp.nonzero(as_operand(a).reshape(-1))[0]


@own(np.argwhere)
def _argwhere(a: Any) -> Any:
    x = as_operand(a)
    if not x.ndim:
        return xp.nonzero(x.reshape(1))[0].reshape(-1, 1)[:, :0]
    return xp.stack(xp.nonzero(x), axis=1)


@own(np.extract)
def _extract(condition: Any, arr: Any) -> Any:
    return xp.take(as_operand(arr).reshape(-1), _flatnonzero(condition))


@own(np.compress)
def _compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    x, along = _placed(a, axis)
    return xp.take(x, _flatnonzero(condition), axis=along)


@own(np.choose)
def _choose(a: Any, choices: Any) -> Any:
    places, *parts = xp.broadcast_arrays(as_operand(a), *(as_operand(c) for c in choices))
    return xp.take_along_axis(xp.stack(parts), places[None], axis=0)[0]


@own(np.select)
def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        fail(ShapeError, f"np.select: {len(condlist)} conditions for {len(choicelist)} choices")
    if not condlist:
        fail(ShapeError, "np.select() without a condition")
    found: Any = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = xp.where(condition, choice, found)
    return found


@own(np.apply_along_axis)
def _apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    x = as_operand(arr)
    along = axis_of(x, axis)
    rows = xp.moveaxis(x, along, -1)
    outer = rows.shape[:-1]
    found = [as_operand(func1d(row, *args, **kwargs)) for row in rows.reshape((-1, rows.shape[-1]))]
    if not found:
        fail(ShapeError, f"np.apply_along_axis of {x.spec}, which has no rows along axis {axis}")
    parts = xp.stack(found).reshape((*outer, *found[0].shape))
    made = tuple(range(len(outer), parts.ndim))
    return xp.moveaxis(parts, made, tuple(range(along, along + len(made))))


# -- writing


@own(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    x, values = _written(dst), as_operand(src)
    if not np.can_cast(values.dtype, x.dtype, casting):  # type: ignore[arg-type]
        fail(DTypeError, f"np.copyto: {values.spec} is not copied to {x.spec} by the rule {casting!r}")
    x[...] = values if where is True else xp.where(where, values, x)


@own(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    x = _written(a)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        fail(ShapeError, f"np.fill_diagonal of {x.spec}", "It has two axes, or more of one size.")
    step = x.shape[1] + 1 if x.ndim == 2 else 1 + sum(x.shape[0] ** i for i in range(1, x.ndim))
    end = x.shape[1] * x.shape[1] if x.ndim == 2 and not wrap else x.size
    _put(x, np.arange(x.size)[:end:step], val)


@own(np.put)
def _put(a: Any, ind: Any, v: Any) -> None:
    x = _written(a)
    places = np.asarray(_numbers(ind)).reshape(-1)
    values = _resize(as_operand(v).astype(x.dtype), places.size)
    flat = x.reshape(-1).clone()
    flat[places] = values
    x[...] = flat.reshape(x.shape)


@own(np.place)
def _place(arr: Any, mask: Any, vals: Any) -> None:
    x = _written(arr)
    if isinstance(mask, Tensor) and mask.is_abstract:
        mend = "Which value an element gets depends on the mask. np.putmask and np.where know an element's own value."
        refuse(f"np.place of {x.spec} while traced, with the mask {mask.spec}", mend, mask)
    _put(x, np.flatnonzero(_numbers(mask)), vals)


@own(np.putmask)
def _putmask(a: Any, mask: Any, values: Any) -> None:
    """Write values to where a mask holds; those of a shorter list are repeated over all elements."""
    x, here = _written(a), as_operand(mask)
    if here.size != x.size:
        fail(ShapeError, f"np.putmask of {x.spec} with the mask {here.spec}", "It has as many elements.")
    found = as_operand(values).astype(x.dtype)
    if not found.size:
        fail(ShapeError, f"np.putmask of {x.spec} with the values {found.spec}", "There is one at least.")
    x[...] = xp.where(here.reshape(x.shape) != 0, _resize(found, x.shape), x)


@own(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    x = _written(arr)
    places = _numbers(indices)
    if axis is None:
        _put(x, places, np.broadcast_to(values, np.shape(places)) if not isinstance(values, Tensor) else values)
        return
    along = axis_of(x, axis)
    grid = np.ix_(*(np.arange(n) for n in np.shape(places)))
    x[tuple(places if i == along else np.broadcast_to(g, np.shape(places)) for i, g in enumerate(grid))] = values


def _changed_at(ufunc: np.ufunc, sign: int) -> None:
    """Register a ufunc's method `at` by a sum over the places, which may name an element more than once."""

    @own(ufunc.at)
    def _at(a: Any, indices: Any, b: Any) -> None:
        x, values = _written(a), as_operand(b)
        dtype = np.result_type(x.dtype, values.dtype if values.ndim or isinstance(b, (Tensor, np.generic)) else type(b))
        is_or = x.dtype == bool and sign > 0  # the sum of booleans
        if (x.dtype == bool and not is_or) or not np.can_cast(dtype, x.dtype, "same_kind"):
            fail(DTypeError, f"np.{ufunc.__name__}.at of {x.spec} with {values.spec}", "Give values of its kind.")
        parts = indices if isinstance(indices, tuple) else (indices,)
        every = as_operand(np.arange(x.size).reshape(x.shape))
        places = every[tuple(np.asarray(part) if type(part) is list else part for part in parts)]
        flat = x.reshape(-1).astype("int64") if is_or else x.reshape(-1)
        added = xp.broadcast_to(values.astype(flat.dtype), places.shape).reshape(-1)
        found = xp.index_add(flat, 0, places.reshape(-1), added if sign > 0 else -added)
        found = found != 0 if is_or else found
        x[...] = found.reshape(x.shape)


_changed_at(np.add, 1)
_changed_at(np.subtract, -1)


def _written(x: Any) -> Any:
    """Return the tensor that a function writes to."""
    if not isinstance(x, Tensor):
        raise Unlike("a tensor to write into an array of NumPy's: convert it by np.asarray(x.detach())")
    return x


@own(np.tril_indices_from)
def _tril_indices_from(arr: Any, k: int = 0) -> Any:
    return np.tril_indices(as_operand(arr).shape[-2], k=k, m=as_operand(arr).shape[-1])


@own(np.triu_indices_from)
def _triu_indices_from(arr: Any, k: int = 0) -> Any:
    return np.triu_indices(as_operand(arr).shape[-2], k=k, m=as_operand(arr).shape[-1])


@own(np.diag_indices_from)
def _diag_indices_from(arr: Any) -> Any:
    return np.diag_indices_from(np.empty(as_operand(arr).shape, bool))


@own(np.diagflat)
def _diagflat(v: Any, k: int = 0) -> Any:
    return xp.diag(as_operand(v).reshape(-1), k)


@own(np.array_equal)
def _array_equal(a1: Any, a2: Any) -> bool:
    x, y = as_operand(a1), as_operand(a2)
    return x.shape == y.shape and bool((x == y).all())
