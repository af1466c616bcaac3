"""Operators that move elements or make new tensors: shapes, concatenation, slices, padding, creation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import wengert as wg

from ....core.dims import Dim
from ....core.tensor import Tensor
from ..errors import refuse
from ..registry import operator
from ..values import Known, holds, ints, numpy_dtype, sizes, tensor


def axis_of(axis: int, ndim: int) -> int:
    """Return an axis counted from the left. Raises OnnxError for one that does not exist."""
    if not -ndim <= axis < max(ndim, 1):
        refuse(f"axis {axis} does not exist in a tensor with {ndim} dimensions")
    return axis % ndim if ndim else 0


def axes_of(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return axes counted from the left, each once. Raises OnnxError."""
    found = tuple(axis_of(int(a), ndim) for a in axes)
    if len(set(found)) != len(found):
        refuse(f"the axes {tuple(axes)} name one twice")
    return found


def array_or_tensor(x: Any) -> Any:
    """Return a value as a tensor, or as the array that it is where tensors cannot hold it."""
    return x if isinstance(x, np.ndarray) and not holds(x.dtype) else tensor(x)


# -- shapes


@operator("Shape", raw=True, spec_only=True)
def _shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    return sizes(tuple(x.shape)[slice(start, end)])


@operator("Size", raw=True, spec_only=True)
def _size(x: Any) -> Any:
    count: Any = 1
    for n in x.shape:
        count = count * n
    return sizes((count,)).reshape(())


@operator("Reshape", static=(1,), raw=True)
def _reshape(x: Any, shape: Any = None, *, allowzero: int = 0, consumed_inputs: Any = None, **old: Any) -> Any:
    target = list(ints(shape)) if shape is not None else [int(n) for n in old.get("shape", ())]
    x = array_or_tensor(x)
    if not allowzero:
        for i, n in enumerate(target):
            if not isinstance(n, Dim) and n == 0:
                if i >= x.ndim:
                    refuse(f"size 0 at position {i} stands for one of a tensor with {x.ndim} dimensions")
                target[i] = x.shape[i]
    return x.reshape(tuple(target))


@operator("Flatten", raw=True)
def _flatten(x: Any, *, axis: int = 1) -> Any:
    x = array_or_tensor(x)
    if not -x.ndim <= axis <= x.ndim:
        refuse(f"axis {axis} does not exist in a tensor with {x.ndim} dimensions")
    axis = axis + x.ndim if axis < 0 else axis
    rows: Any = 1
    for n in x.shape[:axis]:
        rows = rows * n
    columns: Any = 1
    for n in x.shape[axis:]:
        columns = columns * n
    return x.reshape((rows, columns))


def _squeeze_sizes(x: Known, axes: Any = None, *, axes_: Any = None, **_: Any) -> Any:
    return np.squeeze(x, None if axes is None else tuple(ints(axes)))


@operator("Squeeze", static=(1,), raw=True, symbolic=_squeeze_sizes)
def _squeeze(x: Any, axes_input: Any = None, *, axes: Any = None) -> Any:
    x = array_or_tensor(x)
    given = axes if axes_input is None else ints(axes_input)
    where = [i for i, n in enumerate(x.shape) if n == 1] if given is None else axes_of(given, x.ndim)
    for i in where:
        if x.shape[i] != 1:
            refuse(f"axis {i} of shape {tuple(x.shape)} has not size 1")
    return x.reshape(tuple(n for i, n in enumerate(x.shape) if i not in where))


def _unsqueezed(x: Any, given: Sequence[int]) -> Any:
    where = axes_of(given, x.ndim + len(given))
    rest = iter(x.shape)
    return x.reshape(tuple(1 if i in where else next(rest) for i in range(x.ndim + len(given))))


def _unsqueeze_sizes(x: Known, axes_input: Any = None, *, axes: Any = None) -> Any:
    return _unsqueezed(x, axes if axes_input is None else ints(axes_input))


@operator("Unsqueeze", static=(1,), raw=True, symbolic=_unsqueeze_sizes)
def _unsqueeze(x: Any, axes_input: Any = None, *, axes: Any = None) -> Any:
    given = axes if axes_input is None else ints(axes_input)
    if given is None:
        refuse("the axes are missing")
    return _unsqueezed(array_or_tensor(x), given)


@operator("Transpose", raw=True)
def _transpose(x: Any, *, perm: Any = None) -> Any:
    x = array_or_tensor(x)
    order = tuple(reversed(range(x.ndim))) if perm is None else axes_of(perm, x.ndim)
    if len(order) != x.ndim:
        refuse(f"perm {perm} does not name the {x.ndim} axes")
    return np.transpose(x, order) if isinstance(x, np.ndarray) else wg.permute_dims(x, order)


@operator("Expand", static=(1,))
def _expand(x: Any, shape: Known) -> Any:
    target = ints(shape)
    return (
        wg.broadcast_to(x, wg.broadcast_shapes(tuple(x.shape), target))
        if not _has_dims(target, x.shape)
        else (wg.broadcast_to(x, _broadcast_dims(tuple(x.shape), target)))
    )


def _has_dims(*shapes: Any) -> bool:
    return any(isinstance(n, Dim) for shape in shapes for n in shape)


def _broadcast_dims(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for m, n in zip(a, b):
        if m != n and m != 1 and n != 1:
            refuse(f"shapes {a} and {b} do not broadcast")
    return tuple(n if m == 1 else m for m, n in zip(a, b))


# -- joining and parting


def _concat_sizes(*xs: Known, axis: int = 0) -> Any:
    return np.concatenate(xs, axis)


@operator("Concat", raw=True, symbolic=_concat_sizes)
def _concat(*xs: Any, axis: int = 1) -> Any:
    values = [array_or_tensor(x) for x in xs]
    if not values:
        refuse("there are no operands")
    axis = axis_of(axis, values[0].ndim)
    if any(isinstance(v, np.ndarray) for v in values):
        return np.concatenate([np.asarray(v) for v in values], axis)
    for v in values:
        if v.dtype != values[0].dtype:
            refuse(f"the operands are {values[0].dtype.name} and {v.dtype.name}, and must be of one dtype")
    return wg.concat(values, axis) if len(values) > 1 else values[0]


def parts_of(total: Any, parts: int, what: str) -> list[int]:
    """Return sizes of equal parts, of which the last may be smaller."""
    if not 1 <= parts <= max(int(total), 1 << 16):
        refuse(f"{what} is parted into {parts}")
    each = -(-int(total) // parts)
    return [min(each, max(0, int(total) - i * each)) for i in range(parts)]


@operator("Split", static=(1,), raw=True)
def _split(x: Any, sizes: Any = None, *, axis: int = 0, split: Any = None, num_outputs: int = 0, context: Any) -> Any:
    x = array_or_tensor(x)
    axis = axis_of(axis, x.ndim)
    if sizes is not None:
        given = list(ints(sizes))
    elif split is not None:
        given = list(split)
    else:
        given = parts_of(x.shape[axis], num_outputs or context.results, f"axis {axis} of shape {tuple(x.shape)}")
    if any(n < 0 for n in given) or sum(given) != x.shape[axis]:
        refuse(f"parts of {given[:20]} do not make up axis {axis} of shape {tuple(x.shape)}")
    if len(given) < context.results:
        refuse(f"{len(given)} parts are made, and {context.results} are named")
    out, start = [], 0
    for n in given:
        index = (slice(None),) * axis + (slice(start, start + n),)
        out.append(x[index])
        start += n
    return tuple(out)


@operator("Tile", static=(1,))
def _tile(x: Any, repeats: Any, tiles: Any = None) -> Any:
    return wg.tile(x, ints(repeats))


# -- slices


def _slices(
    shape: Sequence[Any],
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> tuple[slice, ...]:
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        refuse(f"there are {len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps")
    index = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes_of(axes, len(shape)), starts, ends, steps):
        if step == 0:
            refuse("a step is 0")
        n = shape[axis]
        if isinstance(n, Dim) or isinstance(start, Dim) or isinstance(end, Dim):
            if step != 1:
                refuse("a slice of a size that is not known has a step")
            index[axis] = slice(
                start if start != 0 else None, None if end == n or (not isinstance(end, Dim) and end > 2**31) else end
            )
            continue
        start = min(max(start + n if start < 0 else start, 0), n if step > 0 else n - 1)
        if end < 0:
            end += n
        end = min(max(end, 0 if step > 0 else -1), n)
        index[axis] = slice(start, None if end < 0 else end, step)
    return tuple(index)


def _slice_old(x: Any, *, starts: Any, ends: Any, axes: Any = None) -> Any:
    x = array_or_tensor(x)
    return x[_slices(x.shape, starts, ends, axes, None)]


operator("Slice", raw=True, symbolic=_slice_old)(_slice_old)


def _slice_new(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    x = x if isinstance(x, np.ndarray) and not holds(x.dtype) else tensor(x)
    index = _slices(
        x.shape, ints(starts), ints(ends), None if axes is None else ints(axes), None if steps is None else ints(steps)
    )
    return x[index]


operator("Slice", since=10, raw=True, static=(1, 2, 3, 4), symbolic=_slice_new)(_slice_new)


# -- padding

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def padded(x: Tensor, before: Sequence[int], after: Sequence[int], mode: str, value: Any) -> Tensor:
    """Return `x` with so many elements before and after each axis; negative ones are taken away."""
    if mode not in _MODES:
        refuse(f"mode is {mode!r}, and none of {', '.join(_MODES)}")
    index = tuple(slice(max(0, -b), n - max(0, -a) if a < 0 else None) for n, b, a in zip(x.shape, before, after))
    if any(b < 0 or a < 0 for b, a in zip(before, after)):
        x = x[index]
    widths = [(max(0, b), max(0, a)) for b, a in zip(before, after)]
    if not any(b or a for b, a in widths):
        return x
    if mode == "constant" and isinstance(value, Tensor):
        if value.is_abstract or value.requires_grad:
            inside = wg.pad(wg.ones_like(x, dtype=wg.bool), widths, value=False)
            return wg.where(inside, wg.pad(x, widths), value.astype(x.dtype).reshape(()))
        value = value.item()
    if mode == "constant":
        return wg.pad(x, widths, value=value)
    for axis, pair in enumerate(widths):
        # Longer than the axis they go back and forth, or round and round.
        x = _extended(x, axis, *pair, mode)
    return x


def _extended(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    if not before and not after:
        return x
    n = x.shape[axis]
    if not n:
        refuse(f"an empty axis has nothing to be padded with by {mode!r}")
    places = np.arange(-before, n + after)
    if mode == "edge":
        places = np.clip(places, 0, n - 1)
    elif mode == "wrap":
        places = places % n
    else:
        period = max(2 * (n - 1), 1)
        places = np.abs(places) % period
        places = np.where(places >= n, period - places, places)
    return wg.take(x, wg.asarray(places), axis)


@operator("Pad")
def _pad_old(x: Any, *, pads: Any = None, paddings: Any = None, mode: str = "constant", value: float = 0.0) -> Any:
    widths = pads if pads is not None else paddings
    if widths is None or len(widths) != 2 * x.ndim:
        refuse(f"pads {widths} are not two for each of {x.ndim} axes")
    return padded(x, widths[: x.ndim], widths[x.ndim :], mode, value)


@operator("Pad", since=11, static=(1, 3), prefers=(2,))
def _pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant") -> Any:
    where = tuple(range(x.ndim)) if axes is None else axes_of(ints(axes), x.ndim)
    given = ints(pads)
    if len(given) != 2 * len(where):
        refuse(f"there are {len(given)} pads for {len(where)} axes")
    before, after = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(where):
        before[axis], after[axis] = given[i], given[i + len(where)]
    fill: Any = value if value is not None else (False if x.dtype == wg.bool else 0)
    return padded(x, before, after, mode, fill)


@operator("Trilu", static=(1,))
def _trilu(x: Any, k: Any = None, *, upper: int = 1) -> Any:
    diagonal = 0 if k is None else int(k.reshape(()))
    # Beyond the corners the result is the same however far.
    if not _has_dims(x.shape[-2:]):
        reach = int(x.shape[-1]) + int(x.shape[-2])
        diagonal = max(-reach, min(reach, diagonal))
    return wg.triu(x, diagonal) if upper else wg.tril(x, diagonal)


@operator("DepthToSpace")
def _depth_to_space(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    if b < 1 or c % (b * b) or mode not in ("DCR", "CRD"):
        refuse(f"{c} channels have no blocks of {b} x {b} (mode {mode!r})")
    if mode == "DCR":
        parts = x.reshape((n, b, b, c // (b * b), h, w))
        return wg.permute_dims(parts, (0, 3, 4, 1, 5, 2)).reshape((n, c // (b * b), h * b, w * b))
    parts = x.reshape((n, c // (b * b), b, b, h, w))
    return wg.permute_dims(parts, (0, 1, 4, 2, 5, 3)).reshape((n, c // (b * b), h * b, w * b))


@operator("SpaceToDepth")
def _space_to_depth(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    if b < 1 or h % b or w % b:
        refuse(f"{h} x {w} has no blocks of {b} x {b}")
    parts = x.reshape((n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return wg.permute_dims(parts, order).reshape((n, c * b * b, h // b, w // b))


@operator("ReverseSequence", static=())
def _reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    batch, time = axis_of(batch_axis, x.ndim), axis_of(time_axis, x.ndim)
    if {batch, time} != {0, 1}:
        refuse(f"batch_axis and time_axis are {batch_axis} and {time_axis}, and must be 0 and 1")
    steps = wg.asarray(np.arange(int(x.shape[time])))
    steps = steps.reshape((-1, 1) if time == 0 else (1, -1))
    ends = lengths.reshape((1, -1) if time == 0 else (-1, 1))
    places = wg.where(steps < ends, ends - 1 - steps, steps + wg.zeros_like(ends))
    places = places.reshape((*places.shape, *(1,) * (x.ndim - 2)))
    return wg.take_along_axis(x, wg.broadcast_to(places, tuple(x.shape)), time)


# -- creation


@operator("ConstantOfShape", static=(0,), raw=True)
def _constant_of_shape(shape: Any = None, *, value: Any = None, input: Any = None, context: Any) -> Any:
    target = ints(shape)
    fill = np.zeros(1, np.float32) if value is None else value
    if fill.size != 1:
        refuse(f"the value has {fill.size} elements instead of one")
    if any(not isinstance(n, Dim) and n < 0 for n in target):
        refuse(f"the shape is {target[:10]}")
    context.run.room(math.prod(n for n in target if not isinstance(n, Dim)), fill.dtype.itemsize)
    if not _has_dims(target):
        return np.broadcast_to(fill.reshape(()), target)
    return wg.full(target, fill.reshape(()).item(), dtype=fill.dtype)


@operator("Range", static=(0, 1, 2), raw=True)
def _arange(start: Known, limit: Known, delta: Known, *, stash_type: int = 1, context: Any) -> Any:
    first, end, step = (v.reshape(()).item() for v in (start, limit, delta))
    if any(isinstance(v, Dim) for v in (first, end, step)):
        dtype = next((v.dtype for v in (start, limit, delta) if v.dtype != object), np.dtype(np.int64))
        return wg.arange(first, end, step, dtype=dtype)
    if not step:
        refuse("the step is 0")
    if start.dtype.kind in "iu":
        count = max(-((first - end) // step), 0)
    else:
        ratio = (end - first) / step
        if not math.isfinite(ratio):
            refuse(f"a range from {first} to {end} by {step} has no end")
        count = max(math.ceil(ratio), 0)
    context.run.room(count, start.dtype.itemsize)
    if start.dtype.kind in "iu":
        return (first + step * np.arange(count, dtype=np.int64)).astype(start.dtype)
    wide = np.dtype(np.float64 if start.dtype == np.float64 else np.float32)
    steps = np.arange(count).astype(wide)
    return (wide.type(first) + steps * wide.type(step)).astype(start.dtype)


@operator("EyeLike", spec_only=True)
def _eye_like(x: Any, *, dtype: int | None = None, k: int = 0, context: Any) -> Any:
    rows, columns = x.shape
    to = x.dtype if dtype is None else numpy_dtype(dtype, "attribute 'dtype'")
    if _has_dims(x.shape):
        return wg.eye(rows, columns, k=k, dtype=to)
    return wg.asarray(np.eye(rows, columns, max(-rows, min(columns, k)), dtype=to), copy=False)


@operator("OneHot", static=(1,))
def _one_hot(indices: Any, depth: Any, values: Any, *, axis: int = -1, context: Any) -> Any:
    (count,) = ints(depth)
    if count < 1:
        refuse(f"the depth is {count}")
    if not _has_dims((count, *indices.shape)):
        context.run.room(count * max(1, int(indices.size)), values.dtype.itemsize)
    rank = indices.ndim + 1
    place = axis_of(axis, rank)
    index = wg.trunc(indices).astype(wg.int64) if indices.dtype.kind == "f" else indices.astype(wg.int64)
    index = wg.where(index < 0, index + count, index)
    index = index.reshape((*index.shape[:place], 1, *index.shape[place:]))
    classes = wg.arange(count).reshape((count, *(1,) * (rank - 1 - place)))
    return wg.where(index == classes, values[1], values[0])


@operator("Compress", static=(1,))
def _compress(x: Any, condition: Known, *, axis: int | None = None) -> Any:
    if axis is None:
        x, axis = x.reshape((-1,)), 0
    axis = axis_of(axis, x.ndim)
    places = np.flatnonzero(condition.reshape(-1))
    if places.size and places[-1] >= x.shape[axis]:
        refuse(f"the condition has more elements than axis {axis} of shape {tuple(x.shape)}")
    return wg.take(x, wg.asarray(places), axis)
