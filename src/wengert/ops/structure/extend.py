"""Ops that make tensors larger: padding, tiling and repeating."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...core.errors import DTypeError, GraphError, ShapeError, fail
from ...core.ops.autocast import is_half
from ...core.ops.declare import linear, public
from ...core.ops.op import TABLE, Call, Missing, Op
from ...core.ops.record import SCALARS, bind
from ...core.spec import Shape, Spec, normalize_axis, promote_scalar, show, spec_of
from ...core.state.refusals import refuse
from ...core.tensor import Tensor, wrap
from ..aliases import alias, dim_alias
from ..long_sums import add_rows, add_up
from .assemble import along, concat_op, resized
from .axes import flip
from .shapes import as_operand, broadcast_to, int_args, reshaped

Pairs = tuple[tuple[int, int], ...]


# -- pad


def _pad(x: Any, widths: Pairs) -> Any:
    leading = x.ndim - len(widths)
    sizes = x.shape[leading:]
    out = np.zeros((*x.shape[:leading], *(b + n + a for (b, a), n in zip(widths, sizes))), x.dtype)
    out[_inside(sizes, widths)] = x
    return out


def _inside(sizes: Shape, widths: Pairs) -> tuple[Any, ...]:
    """Return the index of the elements that are not padding."""
    return (Ellipsis, *(slice(before, before + n) for (before, _), n in zip(widths, sizes)))


def _leading(x: Spec, given: Sequence[Any]) -> int:
    """Return the number of axes before the last ones, for which something is given. Raises ShapeError."""
    if len(given) > len(x.shape):
        fail(ShapeError, f"{given} for the axes of {show(x.shape, x.dtype)}")
    return len(x.shape) - len(given)


def _infer_pad(x: Spec, widths: Pairs) -> Spec:
    leading = _leading(x, widths)
    return spec_of((*x.shape[:leading], *(b + n + a for (b, a), n in zip(widths, x.shape[leading:]))), x.dtype)


def _pad_transpose(ct: Any, x_shape: Shape, widths: Pairs) -> Any:
    return ct[_inside(x_shape[len(x_shape) - len(widths) :], widths)]


pad_op: Op = linear(
    "pad(x; widths)",
    _pad,
    infer=_infer_pad,
    transpose=_pad_transpose,
    selects=True,
    covers=True,
    moves=True,
    doc="Zeros put around a tensor: (before, after) for each of its last axes.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"widths": ((1, 0), (0, 2))}),
        Call((rng.normal(size=(2, 2)),), {"widths": ((1, 1),)}),
        Call((rng.normal(size=()),), {"widths": ()}),
    ],
    reference=lambda x, widths: np.pad(x, ((0, 0),) * (x.ndim - len(widths)) + widths) if x.ndim else x,
    onnx="Pad",
    cost=0,
)


def _pad_widths(x: Tensor, pad_width: Any) -> Pairs:
    """Return `pad_width` as a pair for each axis."""
    if not isinstance(pad_width, (tuple, list)):
        pad_width = (pad_width, pad_width)
    if not any(isinstance(p, (tuple, list)) for p in pad_width):
        pad_width = (pad_width,) * x.ndim
    pairs = []
    for entry in pad_width:
        pair = int_args((entry,), "pad_width")
        pairs.append(pair * 2 if len(pair) == 1 else pair)
    if len(pairs) != x.ndim or any(len(p) != 2 or min(p) < 0 for p in pairs):
        fail(
            ShapeError,
            f"pad of {show(x.shape, x.dtype)} by {pad_width}",
            f"Give one number, one pair (before, after), or {x.ndim} pairs, one for each axis, none negative.",
        )
    return tuple((before, after) for before, after in pairs)


def _edges(x: Tensor, axis: int, before: int, after: int, mode: str) -> list[Tensor]:
    """Return the elements that a mode puts before and after `x` along an axis."""
    size = x.shape[axis]
    if (
        size == 0
        or (mode == "reflect" and max(before, after) >= size)
        or (mode == "wrap" and max(before, after) > size)
    ):
        fail(
            ShapeError,
            f"pad of {show(x.shape, x.dtype)} by {(before, after)} along axis {axis + x.ndim}, mode {mode!r}",
            f"There are only {size} elements to take it from.",
        )
    if mode == "edge":
        first, last = x[along(axis, slice(0, 1))], x[along(axis, slice(size - 1, size))]
        return [broadcast_to(e, resized(x.shape, axis, n)) for e, n in ((first, before), (last, after))]
    if mode == "wrap":
        return [x[along(axis, slice(size - before, size))], x[along(axis, slice(0, after))]]
    inner = x[along(axis, slice(1, before + 1))], x[along(axis, slice(size - 1 - after, size - 1))]
    return [flip(e, axis) for e in inner]


@public
def pad(
    x: Any,
    pad_width: Any,
    mode: Literal["constant", "reflect", "edge", "wrap"] = "constant",
    value: float = 0,
) -> Tensor:
    """Return `x` with elements put around it, as NumPy's `pad` does.

    Parameters
    ----------
    x: any shape and dtype.
    pad_width: one number for all sides, a pair (before, after) for every axis, or a sequence of
        pairs, one for each axis.
    mode: "constant" puts `value`; "reflect" mirrors at the border elements, without repeating
        them; "edge" repeats the border elements; "wrap" continues at the other end.
    value: a number that the dtype of `x` can hold.

    Raises ShapeError for widths that do not fit, DTypeError for a value that does not, GraphError for another mode.

    >>> import wengert as wg
    >>> wg.pad([1, 2, 3], (1, 2))
    tensor([0, 1, 2, 3, 0, 0])
    >>> wg.pad([1, 2, 3], 2, mode="reflect")
    tensor([3, 2, 1, 2, 3, 2, 1])
    """
    out = as_operand(x)
    widths = _pad_widths(out, pad_width)
    if mode == "constant":
        return _pad_constant(out, widths, value)
    if mode not in ("reflect", "edge", "wrap"):
        fail(GraphError, f"pad: there is no mode {mode!r}", 'Use "constant", "reflect", "edge" or "wrap".')
    for axis, (before, after) in enumerate(widths, -out.ndim):
        if before or after:
            left, right = _edges(out, axis, before, after, mode)
            out = bind(concat_op, (left, out, right), {"axis": axis})
    return out


def _pad_constant(x: Tensor, widths: Pairs, value: Any) -> Tensor:
    if type(value) not in SCALARS or promote_scalar(x.dtype, value) != x.dtype:
        fail(DTypeError, f"pad of {show(x.shape, x.dtype)} with {value!r}", "Use a number that this dtype holds.")
    out: Tensor = bind(pad_op, (x,), {"widths": widths})
    if value == 0:
        return out
    inside = wrap(_pad(np.ones(x.shape, np.bool_), widths))
    filled: Tensor = TABLE["where"].front(inside, out, value)
    return filled


# -- tile and repeat


def _tile_transpose(ct: Any, x_shape: Shape, repetitions: tuple[int, ...]) -> Any:
    leading = len(x_shape) - len(repetitions)
    pairs = [m for pair in zip(repetitions, x_shape[leading:]) for m in pair]
    split_up = ct.reshape((*x_shape[:leading], *pairs))
    return split_up.sum(axis=tuple(range(-2 * len(repetitions), 0, 2))) if repetitions else ct


def _infer_tile(x: Spec, repetitions: tuple[int, ...]) -> Spec:
    leading = _leading(x, repetitions)
    return spec_of((*x.shape[:leading], *(n * r for n, r in zip(x.shape[leading:], repetitions))), x.dtype)


tile_op: Op = linear(
    "tile(x; repetitions)",
    lambda x, repetitions: np.tile(x, repetitions),
    infer=_infer_tile,
    transpose=_tile_transpose,
    fills=True,
    selects=True,
    moves=True,
    doc="A tensor laid out several times along each of its last axes.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"repetitions": (2, 1)}),
        Call((rng.normal(size=(2, 3)),), {"repetitions": (2,)}),
        Call((rng.normal(size=(1, 2)),), {"repetitions": (3, 2)}),
        Call((rng.normal(size=()),), {"repetitions": ()}),
    ],
    reference=lambda x, repetitions: x[
        (Ellipsis, *np.ix_(*(np.arange(n * r) % n for n, r in zip(x.shape[x.ndim - len(repetitions) :], repetitions))))
    ],
    onnx="Tile",
    cost=0,
    pattern="accumulate",
)


@public
@alias(dims="repetitions", reps="repetitions")
def tile(x: Any, repetitions: int | Sequence[int]) -> Tensor:
    """Return `x` laid out several times along each axis, the last axis last.

    Parameters
    ----------
    repetitions: how often along each axis; axes are added to the shorter of the two at its left.

    Raises ShapeError for negative numbers.

    >>> import wengert as wg
    >>> wg.tile([1, 2], (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    x = as_operand(x)
    times = int_args((repetitions,), "repetitions")
    if min(times, default=0) < 0:
        fail(ShapeError, f"tile by {times}", "Repetitions are not negative.")
    if len(times) > x.ndim:
        x = reshaped(x, (1,) * (len(times) - x.ndim) + x.shape)
    out: Tensor = bind(tile_op, (x,), {"repetitions": times})
    return out


@public(name="repeat", method=True, function=False)
def _repeat_method(x: Tensor, *sizes: Any) -> Tensor:
    """Return the tensor laid out several times, as PyTorch's `Tensor.repeat`: :func:`wengert.tile`.

    To repeat each element, as NumPy's method does, use `x.repeat_interleave(n)`. Raises
    ShapeError with fewer sizes than axes.

    >>> import wengert as wg
    >>> wg.tensor([1, 2]).repeat(2)
    tensor([1, 2, 1, 2])
    """
    times = int_args(sizes, "sizes")
    if len(times) < x.ndim:
        fail(
            ShapeError,
            f"repeat of {show(x.shape, x.dtype)} by {times}",
            "Give a number for each axis. To repeat each element, use x.repeat_interleave(n, axis).",
        )
    out: Tensor = tile(x, times)
    return out


Repeats = int | tuple[int, ...]  # one positive number, or one for each element


def _sum_runs(x: Any, repeats: Repeats, axis: int) -> Any:
    at = x.ndim + axis
    if isinstance(repeats, int):
        shape = (*x.shape[:at], x.shape[at] // repeats, repeats, *x.shape[at + 1 :])
        return add_up(x.reshape(shape), at + 1, np.float32 if is_half(x.dtype) else x.dtype).astype(x.dtype, copy=False)
    moved = np.moveaxis(x, axis, 0)
    flat = moved.reshape(len(moved), math.prod(moved.shape[1:]))
    rows = add_rows(np.repeat(np.arange(len(repeats)), repeats), flat, len(repeats))
    return np.moveaxis(rows.reshape(len(repeats), *moved.shape[1:]), 0, axis)


def _infer_repeat(x: Spec, repeats: Repeats, axis: int) -> Spec:
    size = sum(repeats) if isinstance(repeats, tuple) else x.shape[axis] * repeats
    if isinstance(repeats, tuple) and len(repeats) != x.shape[axis]:
        fail(ShapeError, f"repeat by {len(repeats)} numbers along an axis of size {x.shape[axis]}")
    return spec_of(resized(x.shape, axis, size), x.dtype)


def _infer_sum_runs(x: Spec, repeats: Repeats, axis: int) -> Spec:
    size = len(repeats) if isinstance(repeats, tuple) else x.shape[axis] // repeats
    if x.shape[axis] != (sum(repeats) if isinstance(repeats, tuple) else size * repeats):
        fail(ShapeError, f"sums of runs of {repeats} elements along an axis of size {x.shape[axis]}")
    return spec_of(resized(x.shape, axis, size), x.dtype)


repeat_op: Op = linear(
    "repeat(x; repeats, axis)",
    lambda x, repeats, axis: np.repeat(x, repeats, axis),
    infer=_infer_repeat,
    transpose=lambda ct, repeats, axis: sum_runs(ct, repeats=repeats, axis=axis),
    fills=True,
    selects=True,
    moves=True,
    doc="Each element along an axis several times in a row.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"repeats": 2, "axis": -1}),
        Call((rng.normal(size=(3, 2)),), {"repeats": (1, 0, 3), "axis": -2}),
        Call((rng.normal(size=(3,)),), {"repeats": (2, 1, 1), "axis": -1}),
    ],
    reference=lambda x, repeats, axis: np.take(
        x,
        [i for i in range(x.shape[axis]) for _ in range(repeats if isinstance(repeats, int) else repeats[i])],
        axis,
    ),
    onnx=Missing("no operator; Gather does it"),
    cost=0,
    pattern="accumulate",
)

sum_runs: Op = linear(
    "sum_runs(x; repeats, axis)",
    _sum_runs,
    infer=_infer_sum_runs,
    transpose=lambda ct, repeats, axis: repeat_op(ct, repeats=repeats, axis=axis),
    fills=True,
    selects=True,
    covers=True,
    doc="The sums of runs of elements along an axis: the transpose of repeat.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 6)),), {"repeats": 2, "axis": -1}),
        Call((rng.normal(size=(4, 2)),), {"repeats": (1, 0, 3), "axis": -2}),
    ],
    reference=lambda x, repeats, axis: np.stack(
        [
            part.sum(axis=axis)
            for part in np.split(
                x,
                np.cumsum((repeats,) * (x.shape[axis] // repeats) if isinstance(repeats, int) else repeats)[:-1],
                axis,
            )
        ],
        axis,
    ),
    onnx=Missing("no operator; ScatterElements with add does it"),
    cost=1,
    pattern="distribute",
)


@public
@dim_alias
def repeat(x: Any, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
    """Return each element of `x` several times in a row; `repeat_interleave` is the same.

    Parameters
    ----------
    repeats: how often, one number or one for each element along the axis.
    axis: along which axis; None repeats the flattened tensor.

    The function is the Array API's. The method `x.repeat(...)` is PyTorch's, which is
    :func:`wengert.tile`.

    Raises ShapeError for negative numbers or as many as do not fit, TraceError for numbers that are abstract.

    >>> import wengert as wg
    >>> wg.repeat([1, 2], 2)
    tensor([1, 1, 2, 2])
    """
    x = as_operand(x)
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    axis = normalize_axis(axis, x.ndim)
    size = x.shape[axis]
    if isinstance(repeats, (Tensor, np.ndarray)):
        counts = as_operand(repeats)
        if counts._fixed("repeat") is None:
            refuse(
                f"repeat of {show(x.shape, x.dtype)} by the values of an abstract tensor {counts.spec}",
                "The result's shape would depend on them. Pass the numbers of times as Python ints.",
                counts,
            )
        repeats = counts.tolist()
    times = int_args((repeats,), "repeats")
    if min(times, default=0) < 0 or len(times) not in (1, size):
        fail(
            ShapeError,
            f"repeat of {show(x.shape, x.dtype)} by {times} along an axis of size {size}",
            "Give one number, or one for each element along the axis, none negative.",
        )
    if len(set(times)) == 1 and times[0] > 0:
        canonical: Repeats = times[0]
    else:
        canonical = times * size if len(times) == 1 else times
    out: Tensor = bind(repeat_op, (x,), {"repeats": canonical, "axis": axis})
    return out


public(repeat, name="repeat_interleave", method=True, function=False)
