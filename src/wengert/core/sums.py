"""Sums and products of many numbers on arrays, with the error of a blocked sum.

A sum of n numbers that runs through them one by one has an error of up to n roundings: float32 loses 4 % of 4 million
equal numbers. NumPy adds in pairs where the numbers of a sum lie one after the other in memory, and runs elsewhere.
Here no sum runs through more than `LONGEST` numbers: more are added in blocks, and the blocks' sums in the same way
(Higham, The accuracy of floating point summation, 1993). Each factor of a product adds its rounding in any order, so
products, and what keeps all that it has on the way, run in a wider dtype instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .spec import category

# The most numbers that are added, or multiplied, one after the other in their own precision.
LONGEST = 512
# The numbers of a block, and the elements of a row of them: as long as NumPy's loops want them.
_BLOCK, _ROW = 128, 512
# NumPy converts so many elements at a time, and adds up what each of these gives one after the other.
_BUFFER = 8192
# The longest sums of products that BLAS is given whole, of a vector and of matrices, of which it makes blocks itself.
LONGEST_PRODUCT, _OF_MATRICES = 4096, 1 << 18
# The elements of a block of a running sum: both dtypes of it stay in the cache.
_RUN = 16384
# The elements of a block that is added where an index says.
_AT = 1 << 18

_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce
_WIDER = {"f": np.dtype(np.float64), "V": np.dtype(np.float64), "c": np.dtype(np.complex128)}


def add_up(x: Any, axis: Any, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Return the sum of an array along an axis, several, or all (None): `np.add.reduce`, with bounded errors.

    `dtype` is what it accumulates in; `out` is None or ARRAY_ALWAYS.
    """
    if x.size <= LONGEST or x.dtype.kind in "biu":
        return _add(x, axis, dtype, out=out, keepdims=keepdims)
    shape = x.shape
    axes = range(x.ndim) if axis is None else (axis,) if type(axis) is int else axis
    count = 1
    for a in axes:
        count *= shape[a]
    if count <= LONGEST or _is_in_pairs(x, axes, count, dtype):
        return _add(x, axis, dtype, out=out, keepdims=keepdims)
    made = _blocked(x, sorted(a % x.ndim for a in axes), dtype)
    if not keepdims:
        made = made.reshape([n for a, n in enumerate(shape) if a not in axes and a - x.ndim not in axes])
    return made if made.ndim or out is not None else made[()]


def _is_in_pairs(x: Any, axes: Sequence[int], count: int, dtype: Any) -> bool:
    """Return whether NumPy adds in pairs: along the numbers that lie side by side, in its buffer where it converts."""
    if dtype is not None and dtype != x.dtype and count > LONGEST * _BUFFER:
        return False
    if len(axes) == x.ndim:
        flags = x.flags
        return bool(flags.c_contiguous or flags.f_contiguous)
    if len(axes) == 1:
        (a,) = axes
        step = abs(x.strides[a])
        return all(step <= abs(s) for s, n in zip(x.strides, x.shape) if n > 1)
    return False


def _blocked(x: Any, axes: list[int], dtype: Any) -> Any:
    """Return the sum along axes, each kept with size 1, of which there are more than `LONGEST` numbers."""
    first = max(axes, key=lambda a: (abs(x.strides[a]) if x.shape[a] > 1 else -1, -a))
    others = tuple(a for a in axes if a != first)
    size = x.shape[first]
    beside = math.prod(x.shape[a] for a in others)
    if beside > _BLOCK or size <= 4:
        return add_up(add_up(x, others, dtype, None, True), first, None, None, True)
    run = max(1, _BLOCK // beside)
    wide = 1
    if first == 0 and not others and x.flags.c_contiguous:
        # Rows that are short are added several at a time, side by side.
        wide = max(1, min(_ROW * size // x.size, size // (4 * run)))
    blocks = size // (run * wide)
    cut = blocks * run * wide
    start = (slice(None),) * first
    main = x[(*start, slice(0, cut))]
    rest = x.shape[first + 1 :]
    if wide > 1:
        parts = _add(main.reshape(blocks, run, wide * math.prod(rest)), 1, dtype).reshape(blocks * wide, *rest)
    else:
        within = (first + 1, *(a if a < first else a + 1 for a in others))
        parts = _add(main.reshape(*x.shape[:first], blocks, run, *rest), within, dtype, None, True)
        parts = parts.reshape([1 if a in others else blocks if a == first else n for a, n in enumerate(x.shape)])
    total = add_up(parts, first, None, None, True)
    if cut < size:
        total = total + add_up(x[(*start, slice(cut, None))], tuple(axes), dtype, None, True)
    return total


def multiply_up(x: Any, axis: Any, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Return the product of an array along an axis, several, or all (None), in float64 where it is one of many."""
    if x.size > LONGEST and (wider := _wider(x.dtype)) is not None:
        return _multiply(x, axis, wider, out=out, keepdims=keepdims).astype(x.dtype if dtype is None else dtype)
    return _multiply(x, axis, dtype, out=out, keepdims=keepdims)


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
    block = _OF_MATRICES if x.shape[-2] > 1 < y.shape[-1] else LONGEST_PRODUCT
    if size <= block or x.dtype.kind in "biu":
        return np.matmul(x, y)
    if _is_half(x.dtype):
        return product(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    cut = size - size % block
    left = x[..., :cut].reshape(*x.shape[:-1], cut // block, block)
    right = y[..., :cut, :].reshape(*y.shape[:-2], cut // block, block, y.shape[-1])
    total = add_up(np.matmul(np.moveaxis(left, -2, -3), right), -3)
    return total + np.matmul(x[..., cut:], y[..., cut:, :]) if cut < size else total


def accumulating(dtype: Any, count: int) -> Any:
    """Return the dtype in which so many numbers of a dtype are added one after the other."""
    wider = _wider(dtype) if count > LONGEST else None
    return wider if wider is not None else np.dtype(np.float32) if _is_half(dtype) else dtype


def running(ufunc: np.ufunc, x: Any, axis: int, dtype: Any) -> Any:
    """Return running sums or products along an axis, in the dtype of `x`; `dtype` is what few of them accumulate in."""
    wider = _wider(x.dtype)
    size = x.shape[axis]
    if wider is None or size <= LONGEST:
        return ufunc.accumulate(x, axis, dtype).astype(x.dtype, copy=False)
    out = np.empty(x.shape, x.dtype)
    source, target = (np.moveaxis(v, axis, 0) for v in (x, out))
    step = max(1, _RUN * size // x.size)
    state: Any = None
    for i in range(0, size, step):
        block = source[i : i + step].astype(wider)
        if i:
            block[:1] = ufunc(state, block[:1])
        block = ufunc.accumulate(block, 0)
        target[i : i + step] = block
        state = block[-1:]
    return out


def add_rows(rows: Any, values: Any, count: int) -> Any:
    """Return zeros (count, d) with each of `values` (n, d) added to the row that `rows` (n,) names.

    Half precision is added up in float32. Rows that many are added to are added up one by one, as `add_up` does.
    """
    dtype = values.dtype
    if _is_half(dtype):
        return add_rows(rows, values.astype(np.float32), count).astype(dtype)
    n, d = values.shape
    out = np.zeros((count, d), dtype)
    if n > LONGEST and dtype.kind in "fc":
        heavy = np.flatnonzero(np.bincount(rows, minlength=count) > LONGEST)
        if heavy.size:
            order = np.argsort(rows, kind="stable")
            starts, ends = (np.searchsorted(rows[order], heavy, side) for side in ("left", "right"))
            light = np.ones(n, bool)
            for row, start, end in zip(heavy, starts, ends):
                found = order[start:end]
                light[found] = False
                out[row] = add_up(values[found], 0)
            rows, values = rows[light], values[light]
    _add_at(out.reshape(-1), rows, values)
    return out


def _add_at(out: Any, rows: Any, values: Any) -> None:
    """Add `values` (n, d) to the flat rows of `out`, of which `np.add.at` is fast on flat arrays only."""
    n, d = values.shape
    columns = np.arange(d)
    step = max(1, _AT // max(d, 1))  # blocks bound the index's memory
    for i in range(0, n, step):
        np.add.at(out, (rows[i : i + step, None] * d + columns).ravel(), values[i : i + step].ravel())
