"""Sums and products of many numbers on arrays, with the error of a blocked sum.

A sum of n numbers that runs through them one by one has an error of up to n roundings: float32 loses 4 % of 4 million
equal numbers. NumPy adds in pairs where the numbers of a sum lie one after the other in memory, and runs elsewhere.
Here no sum of a large array runs through more than `LONGEST` numbers: more are added in blocks, and the blocks' sums in
the same way (Higham, The accuracy of floating point summation, 1993). Each factor of a product adds its rounding in any
order, so products run in a wider dtype instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.spec import category

# The most numbers that are added, or multiplied, one after the other in their own precision.
LONGEST = 512
# Running sums, products, and additions where an index says cost more in blocks or in float64. They are made so of more
# numbers than this.
MANY = 4096
# Of this many times as many values as rows that they are added to, the rows are few.
FEW = 4
# The numbers of a block, and the elements of a row of them: as long as NumPy's loops want them.
_BLOCK, _ROW = 128, 512
# NumPy converts so many elements at a time, and adds up what each of these gives one after the other.
_BUFFER = 8192
# The longest sum of products that BLAS is given whole. The blocks of longer ones: of two vectors, which BLAS adds up in
# lanes, and for results of so many numbers, of which BLAS makes blocks itself.
LONGEST_PRODUCT = 4096
_OF_VECTORS, _OF_MATRICES, _MATRIX = 1 << 14, 1 << 18, 1 << 10
# The elements of a block that is added where an index says.
_AT = 1 << 18

# NumPy's sums, which are as good for arrays of up to `SHORT` elements.
add: Any = np.add.reduce
SHORT = 4 * LONGEST
multiply: Any = np.multiply.reduce
_WIDER = {"f": np.dtype(np.float64), "V": np.dtype(np.float64), "c": np.dtype(np.complex128)}


def add_up(x: Any, axis: Any, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Return the sum of an array along an axis, several, or all (None): `np.add.reduce`, with bounded errors.

    `dtype` is what it accumulates in; `out` is None or ARRAY_ALWAYS.
    """
    if x.size <= SHORT or (dtype is None and type(axis) is tuple and len(axis) == x.ndim and x.flags.c_contiguous):
        return add(x, axis, dtype, out=out, keepdims=keepdims)
    if x.dtype.kind in "biu":
        return add(x, axis, dtype, out=out, keepdims=keepdims)
    return _bounded(x, axis, dtype, out, keepdims)


def _bounded(x: Any, axis: Any, dtype: Any = None, out: Any = None, keepdims: bool = True) -> Any:
    """Do what `add_up` does, for short arrays too."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if type(axis) is int else axis
    if _in_order(x, axes, dtype is not None and dtype != x.dtype) <= LONGEST:
        return add(x, axes, dtype, out=out, keepdims=keepdims)
    made = _blocked(x, sorted(a % x.ndim for a in axes), dtype)
    if not keepdims:
        made = made.reshape([n for a, n in enumerate(x.shape) if a not in axes and a - x.ndim not in axes])
    return made if made.ndim or out is not None else made[()]


def _in_order(x: Any, axes: Sequence[int], converts: bool) -> int:
    """Return how many numbers NumPy adds one after the other for each sum.

    It adds in pairs those that lie side by side in memory, a buffer full at a time where it converts them.
    """
    shape, ndim = x.shape, x.ndim
    if x.flags.c_contiguous:
        if len(axes) == ndim:
            return -(-x.size // _BUFFER) if converts else 1
        count, beside = 1, 1
        for a in axes:
            count *= shape[a]
        if count <= LONGEST:
            return count
        a = -1
        while a in axes or a + ndim in axes:
            beside *= shape[a]
            a -= 1
    else:
        count = math.prod(shape[a] for a in axes)
        order = sorted((a for a in range(ndim) if shape[a] > 1), key=lambda a: abs(x.strides[a]))
        beside, step = 1, None
        for a in order:
            if (a not in axes and a - ndim not in axes) or (step is not None and x.strides[a] != step):
                break
            beside, step = beside * shape[a], x.strides[a] * shape[a]
    return count // beside * (-(-beside // _BUFFER) if converts else 1)


def _blocked(x: Any, axes: list[int], dtype: Any) -> Any:
    """Return the sum along axes, each kept with size 1, of which there are more than `LONGEST` numbers."""
    first = max(axes, key=lambda a: (abs(x.strides[a]) if x.shape[a] > 1 else -1, -a))
    others = tuple(a for a in axes if a != first)
    size = x.shape[first]
    beside = math.prod(x.shape[a] for a in others)
    if beside > _BLOCK or size <= 4:
        return _bounded(_bounded(x, others, dtype), first)
    row = x.size // size
    run = LONGEST if row >= _ROW and not others else max(1, _BLOCK // beside)
    wide = 1
    if first == 0 and not others and x.flags.c_contiguous:
        # Rows that are short are added several at a time, side by side.
        wide = max(1, min(_ROW // row, size // (4 * run)))
    blocks = size // (run * wide)
    cut = blocks * run * wide
    start = (slice(None),) * first
    main = x[(*start, slice(0, cut))]
    rest = x.shape[first + 1 :]
    if wide > 1:
        parts = add(main.reshape(blocks, run, wide * row), 1, dtype).reshape(blocks * wide, *rest)
    else:
        within = (first + 1, *(a if a < first else a + 1 for a in others))
        parts = add(main.reshape(*x.shape[:first], blocks, run, *rest), within, dtype, None, True)
        parts = parts.reshape([1 if a in others else blocks if a == first else n for a, n in enumerate(x.shape)])
    total = _bounded(parts, first)
    if cut < size:
        total = total + _bounded(x[(*start, slice(cut, None))], tuple(axes), dtype)
    return total


def multiply_up(x: Any, axis: Any, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Return the product of an array along an axis, several, or all (None), in float64 where it is one of many."""
    if x.size > MANY and (wider := _wider(x.dtype)) is not None:
        axes = range(x.ndim) if axis is None else (axis,) if type(axis) is int else axis
        if math.prod(x.shape[a] for a in axes) > MANY:
            return multiply(x, axis, wider, out=out, keepdims=keepdims).astype(x.dtype if dtype is None else dtype)
    return multiply(x, axis, dtype, out=out, keepdims=keepdims)


def _is_half(dtype: Any) -> bool:
    return dtype.itemsize == 2 and category(dtype) == 2


def wide(x: Any) -> Any:
    """Return an array in 64-bit floats, if it is one of smaller floats."""
    wider = _wider(x.dtype)
    return x if wider is None else x.astype(wider)


def _wider(dtype: Any) -> Any:
    """Return the dtype of 64-bit floats that a dtype of smaller ones accumulates in; None for others."""
    wider = _WIDER.get(dtype.kind)
    return wider if wider is not None and dtype.itemsize < wider.itemsize else None


def product(x: Any, y: Any) -> Any:
    """Return `np.matmul` of (stacks of) matrices, sums of very many products in blocks."""
    size = x.shape[-1]
    count = x.shape[-2] * y.shape[-1]
    block = _OF_MATRICES if count >= _MATRIX else _OF_VECTORS if count == 1 else 2 * LONGEST
    if size <= max(block, LONGEST_PRODUCT) or x.dtype.kind in "biu":
        return np.matmul(x, y)
    if _is_half(x.dtype):
        return product(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    cut = size - size % block
    left = x[..., :cut].reshape(*x.shape[:-1], cut // block, block)
    right = y[..., :cut, :].reshape(*y.shape[:-2], cut // block, block, y.shape[-1])
    total = _bounded(np.matmul(np.moveaxis(left, -2, -3), right), -3, keepdims=False)
    return total + np.matmul(x[..., cut:], y[..., cut:, :]) if cut < size else total


def accumulating(dtype: Any, count: int) -> Any:
    """Return the dtype in which so many numbers of a dtype are added one after the other."""
    wider = _wider(dtype) if count > LONGEST else None
    return wider if wider is not None else np.dtype(np.float32) if _is_half(dtype) else dtype


def running(ufunc: np.ufunc, x: Any, axis: int, dtype: Any) -> Any:
    """Return running sums or products along an axis, in the dtype of `x`; `dtype` is what few of them accumulate in."""
    wider, size = _wider(x.dtype), x.shape[axis]
    if wider is None or size <= MANY:
        return ufunc.accumulate(x, axis, dtype).astype(x.dtype, copy=False)
    if ufunc is np.add:
        return _running_sums(x, axis % x.ndim, dtype, wider)
    return ufunc.accumulate(x, axis, wider).astype(x.dtype)


def _running_sums(x: Any, axis: int, dtype: Any, wider: Any) -> Any:
    """Return running sums of blocks, to which is added what came before each, in a wider dtype until then."""
    blocks = x.shape[axis] // LONGEST
    cut = blocks * LONGEST
    lead, tail = x.shape[:axis], x.shape[axis + 1 :]
    start: Any = (slice(None),) * axis
    out = np.empty(x.shape, dtype)
    main = x[(*start, slice(0, cut))].reshape(*lead, blocks, LONGEST, *tail)
    sums = out[(*start, slice(0, cut))].reshape(*lead, blocks, LONGEST, *tail)
    np.add.accumulate(main, axis + 1, dtype, sums)
    before = np.add.accumulate(sums[(*start, slice(None), slice(-1, None))], axis, wider).astype(dtype)
    later = sums[(*start, slice(1, None))]
    later += before[(*start, slice(0, -1))]
    if cut < x.shape[axis]:
        rest = out[(*start, slice(cut, None))]
        np.add.accumulate(x[(*start, slice(cut, None))], axis, dtype, rest)
        rest += before[(*start, -1)]
    return out.astype(x.dtype, copy=False)


def add_rows(rows: Any, values: Any, count: int) -> Any:
    """Return zeros (count, d) with each of `values` (n, d) added to the row that `rows` (n,) names.

    Half precision is added up in float32, many values for few rows in float64, and what many are added to by blocks.
    """
    dtype, (n, d) = values.dtype, values.shape
    if _is_half(dtype):
        return add_rows(rows, values.astype(np.float32), count).astype(dtype)
    if dtype.kind == "c" and dtype.itemsize == 8:
        parts = np.ascontiguousarray(values).view(np.float32)
        return add_rows(rows, parts.reshape(n, 2 * d), count).view(dtype)
    if n > LONGEST and dtype == np.float32:
        if count * FEW <= n:
            places = (rows[:, None] * d + np.arange(d)).ravel()
            return np.bincount(places, values.ravel(), count * d).astype(dtype).reshape(count, d)
        if n > MANY and (heavy := np.flatnonzero(np.bincount(rows, minlength=count) > LONGEST)).size:
            return _with_heavy(rows, values, count, heavy)
    out = np.zeros((count, d), dtype)
    _add_at(out.reshape(-1), rows, values)
    return out


def _with_heavy(rows: Any, values: Any, count: int, heavy: Any) -> Any:
    """Return the sums of `add_rows`, but sum the values of each of the `heavy` rows separately."""
    out = np.zeros((count, values.shape[1]), values.dtype)
    order = np.argsort(rows, kind="stable")
    starts, ends = (np.searchsorted(rows[order], heavy, side) for side in ("left", "right"))
    light = np.ones(len(rows), bool)
    for row, start, end in zip(heavy, starts, ends):
        found = order[start:end]
        light[found] = False
        out[row] = add_up(values[found], 0)
    _add_at(out.reshape(-1), rows[light], values[light])
    return out


def _add_at(out: Any, rows: Any, values: Any) -> None:
    """Add `values` (n, d) to the flat rows of `out`, of which `np.add.at` is fast on flat arrays only."""
    n, d = values.shape
    columns = np.arange(d)
    step = max(1, _AT // max(d, 1))  # blocks bound the index's memory
    for i in range(0, n, step):
        np.add.at(out, (rows[i : i + step, None] * d + columns).ravel(), values[i : i + step].ravel())
