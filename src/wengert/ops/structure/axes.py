"""Ops on axes: their order, those of size 1, and the order of the elements along them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import DTypeError, ShapeError, WriteError, fail
from ...core.ops.declare import METHODS, linear, public
from ...core.ops.facets import Form, Role
from ...core.ops.op import Call, Missing, Op
from ...core.ops.record import bind
from ...core.spec import Shape, Spec, normalize_axes, normalize_axis, show, spec_of
from ...core.tensor import Tensor
from ..aliases import alias, dim_alias
from .shapes import as_operand, int_args, reshaped

Axes = int | tuple[int, ...] | list[int]


def as_property(name: str, fn: Any) -> None:
    """Give Tensor the property `name`."""
    METHODS[name] = property(fn)  # type: ignore[assignment]


def _keeps_its_shape(x: Tensor, sizes: Any) -> None:
    fail(WriteError, f"x.shape = {sizes!r} of {x.spec}", "A tensor keeps its shape: write x = x.reshape(sizes).")


METHODS["shape"] = vars(Tensor)["shape"].setter(_keeps_its_shape)  # to type checkers the property has no setter


# -- permute


def _permute(x: Any, axes: tuple[int, ...]) -> Any:
    leading = x.ndim - len(axes)
    return x.transpose((*range(leading), *axes) if leading else axes)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    out = [0] * len(axes)
    for to, source in enumerate(axes, -len(axes)):
        out[source] = to
    return tuple(out)


def _infer_permute(x: Spec, axes: tuple[int, ...]) -> Spec:
    leading = x.shape[: len(x.shape) - len(axes)]
    return spec_of((*leading, *(x.shape[a] for a in axes)), x.dtype)


permute_op: Op = linear(
    "permute(x; axes: permutation)",
    _permute,
    view=True,
    infer=_infer_permute,
    transpose=lambda ct, axes: permute_op(ct, axes=_inverse(axes)),
    fills=True,
    selects=True,
    covers=True,
    doc="The axes in another order; `axes` counts from the right.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"axes": (-1, -2)}),
        Call((rng.normal(size=(2, 3, 4)),), {"axes": (-1, -3, -2)}),
        Call((rng.normal(size=(2, 3, 2)),), {"axes": (-1, -2)}),
        Call((rng.normal(size=()),), {"axes": ()}),
    ],
    reference=lambda x, axes: np.moveaxis(x, axes, tuple(range(-len(axes), 0))),
    onnx="Transpose",
    role=Role.STRIDE,
    unview=lambda x, part, axes: permute_op(part, axes=_inverse(axes)),
    cost=0,
    form=Form("ᵀ", say="Gradients go back to where their elements were."),
)


def _permuted(x: Tensor, axes: Sequence[int]) -> Tensor:
    ndim = x.ndim
    order = tuple(normalize_axis(a, ndim) for a in axes)
    if len(order) != ndim or len(set(order)) != ndim:
        fail(
            ShapeError,
            f"permute_dims of {show(x.shape, x.dtype)} by axes {tuple(axes)}",
            f"Name each of its {ndim} axes once. To exchange two of them, use swapaxes.",
        )
    out: Tensor = bind(permute_op, (x,), {"axes": order})
    return out


@public
@alias(dims="axes")
def permute_dims(x: Any, axes: Sequence[int]) -> Tensor:
    """Return `x` with its axes in another order: axis i of the result is axis `axes[i]` of `x`.

    The method is `x.permute(*axes)`. Raises ShapeError unless each axis is named once.

    >>> import wengert as wg
    >>> wg.permute_dims(wg.ones(2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return _permuted(as_operand(x), int_args((axes,), "axes"))


@public(method=True, home="torch")
def permute(x: Any, *dims: Any) -> Tensor:
    """Return :func:`wengert.permute_dims` with the axes one by one or as a tuple."""
    return _permuted(as_operand(x), int_args(dims, "dims"))


@public(method=True)
def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Return `x` with two axes exchanged.

    >>> import wengert as wg
    >>> wg.swapaxes(wg.ones(2, 3, 4), 0, -1).shape
    (4, 3, 2)
    """
    x = as_operand(x)
    axes = list(range(-x.ndim, 0))
    a, b = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    axes[a], axes[b] = b, a
    return _permuted(x, axes)


@public(method=True, home="torch")
def transpose(x: Any, dim0: int, dim1: int) -> Tensor:
    """Return `x` with two axes exchanged, as in PyTorch; for NumPy's, use :func:`wengert.permute_dims`.

    Raises DTypeError where a whole permutation is given, ShapeError for an axis that does not exist.

    >>> import wengert as wg
    >>> wg.torch.transpose(wg.ones(2, 3, 4), 1, 2).shape
    torch.Size([2, 4, 3])
    """
    if isinstance(dim0, (tuple, list)):
        fail(DTypeError, "transpose exchanges two axes", "Write permute_dims(x, axes) for a whole permutation.")
    return swapaxes(x, dim0, dim1)


@public(method=True)
def moveaxis(x: Any, source: Axes, destination: Axes) -> Tensor:
    """Return `x` with the `source` axes moved to the `destination` places, the others in their order.

    Raises ShapeError for axes that do not exist, are named twice or differ in number.

    >>> import wengert as wg
    >>> wg.moveaxis(wg.ones(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    x = as_operand(x)
    ndim = x.ndim
    sources = [normalize_axis(a, ndim) for a in _listed(source)]
    places = [normalize_axis(a, ndim) for a in _listed(destination)]
    if len(sources) != len(places) or len(set(sources)) != len(sources) or len(set(places)) != len(places):
        fail(
            ShapeError,
            f"moveaxis of {show(x.shape)} from {source} to {destination}",
            "Name as many axes in both, once.",
        )
    rest = iter(a for a in range(-ndim, 0) if a not in sources)
    moved = dict(zip(places, sources))
    return _permuted(x, [moved[p] if p in moved else next(rest) for p in range(-ndim, 0)])


def _listed(axis: Axes) -> Sequence[int]:
    return axis if isinstance(axis, (tuple, list)) else (axis,)


@public
def matrix_transpose(x: Any) -> Tensor:
    """Return `x` with its last two axes exchanged; `x.mT` is the same.

    Raises ShapeError below two dimensions.

    >>> import wengert as wg
    >>> wg.matrix_transpose(wg.ones(5, 2, 3)).shape
    (5, 3, 2)
    """
    x = as_operand(x)
    if x.ndim < 2:
        fail(ShapeError, f"the matrix transpose of {show(x.shape, x.dtype)}", "It needs at least two dimensions.")
    out: Tensor = bind(permute_op, (x,), {"axes": (-1, -2)})
    return out


@public(method=True, home="torch")
def t(x: Any) -> Tensor:
    """Return the transpose of a matrix; a vector or a scalar as it is. `x.T` is the same.

    Raises ShapeError above two dimensions.

    >>> import wengert as wg
    >>> wg.torch.t(wg.ones(2, 3)).shape
    torch.Size([3, 2])
    """
    x = as_operand(x)
    if x.ndim > 2:
        fail(
            ShapeError,
            f"T of a tensor with {x.ndim} dimensions, {show(x.shape, x.dtype)}",
            "Write x.mT for a stack of matrices, or wg.permute_dims(x, axes) for any order.",
        )
    return matrix_transpose(x) if x.ndim == 2 else x


as_property("T", t)
as_property("mT", matrix_transpose)


# -- axes of size 1


def _infer_squeeze(x: Spec, axis: tuple[int, ...]) -> Spec:
    wide = [a for a in axis if x.shape[a] != 1]
    if wide:
        fail(
            ShapeError,
            f"squeeze of axis {wide[0]} of {show(x.shape, x.dtype)}: its size is {x.shape[wide[0]]}",
            "Only axes of size 1 can be left out; squeeze() without an axis leaves out those that are.",
        )
    return spec_of(tuple(n for i, n in enumerate(x.shape, -len(x.shape)) if i not in axis), x.dtype)


squeeze_op: Op = linear(
    "squeeze(x; axis: axes)",
    lambda x, axis: np.squeeze(x, axis),
    view=True,
    infer=_infer_squeeze,
    transpose=lambda ct, x_shape: ct.reshape(x_shape),
    fills=True,
    selects=True,
    covers=True,
    doc="Axes of size 1 left out.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 1, 3)),), {"axis": (-2,)}),
        Call((rng.normal(size=(1, 3, 1)),), {"axis": (-3, -1)}),
        Call((rng.normal(size=(1,)),), {"axis": (-1,)}),
    ],
    reference=lambda x, axis: x.sum(axis=axis),
    onnx="Squeeze",
    role=Role.RESHAPE,
    cost=0,
)

expand_dims_op: Op = linear(
    "expand_dims(x; axis: new_axis)",
    lambda x, axis: np.expand_dims(x, axis),
    view=True,
    infer=lambda x, axis: spec_of(_with_axis(x.shape, axis), x.dtype),
    transpose=lambda ct, x_shape: ct.reshape(x_shape),
    fills=True,
    selects=True,
    covers=True,
    doc="A new axis of size 1, at `axis` of the result.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"axis": -1}),
        Call((rng.normal(size=(2, 3)),), {"axis": -3}),
        Call((rng.normal(size=()),), {"axis": -1}),
    ],
    reference=lambda x, axis: np.stack([x], axis),
    onnx="Unsqueeze",
    role=Role.RESHAPE,
    cost=0,
)


def _with_axis(shape: Shape, axis: int, size: int = 1) -> Shape:
    at = len(shape) + 1 + axis
    return (*shape[:at], size, *shape[at:])


@public(method=True)
@dim_alias
def squeeze(x: Any, axis: Axes | None = None) -> Tensor:
    """Return `x` without the given axes, all of size 1; without any axis of size 1 when `axis` is None.

    Raises ShapeError for an axis of another size (NumPy's and the Array API's behaviour).

    >>> import wengert as wg
    >>> wg.squeeze(wg.ones(1, 3, 1), axis=0).shape
    (3, 1)
    """
    x = as_operand(x)
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.shape, -x.ndim) if n == 1)
    else:
        axes = normalize_axes(axis, x.ndim)
    out: Tensor = bind(squeeze_op, (x,), {"axis": axes})
    return out


@public
@dim_alias
def expand_dims(x: Any, axis: int = 0) -> Tensor:
    """Return `x` with a new axis of size 1, which becomes axis `axis` of the result. Raises ShapeError.

    >>> import wengert as wg
    >>> wg.expand_dims(wg.ones(3), axis=1).shape
    (3, 1)
    """
    x = as_operand(x)
    out: Tensor = bind(expand_dims_op, (x,), {"axis": normalize_axis(axis, x.ndim + 1)})
    return out


@public(method=True, home="torch")
@dim_alias
def unsqueeze(x: Any, axis: int) -> Tensor:
    """Return :func:`wengert.expand_dims`, under PyTorch's name."""
    return expand_dims(x, axis)


@public
def atleast_1d(*xs: Any) -> Any:
    """Return a 0-d tensor as one of shape (1,), any other as it is; several give a list.

    >>> import wengert as wg
    >>> wg.atleast_1d(3.0)
    tensor([3.])
    """
    out = [x if x.ndim else reshaped(x, (1,)) for x in map(as_operand, xs)]
    return out[0] if len(out) == 1 else out


@public
def atleast_2d(*xs: Any) -> Any:
    """Return tensors with axes of size 1 added at the left up to two dimensions; several give a list.

    >>> import wengert as wg
    >>> wg.atleast_2d([1, 2]).shape
    (1, 2)
    """
    out = [x if x.ndim > 1 else reshaped(x, (1, x.size)) for x in map(as_operand, xs)]
    return out[0] if len(out) == 1 else out


# -- flip and roll

flip_op: Op = linear(
    "flip(x; axis: axes)",
    lambda x, axis: np.flip(x, axis),
    view=True,
    infer=lambda x, axis: x,
    transpose=lambda ct, axis: flip_op(ct, axis=axis),
    fills=True,
    selects=True,
    covers=True,
    doc="The elements in reverse order along axes.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"axis": (-1,)}),
        Call((rng.normal(size=(2, 3, 2)),), {"axis": (-3, -1)}),
        Call((rng.normal(size=()),), {"axis": ()}),
    ],
    reference=lambda x, axis: x[tuple(slice(None, None, -1 if i in axis else 1) for i in range(-x.ndim, 0))],
    onnx=Missing("no operator; Slice with a step of -1 does it"),
    role=Role.STRIDE,
    cost=0,
)


def _infer_roll(x: Spec, shift: tuple[int, ...], axis: tuple[int, ...]) -> Spec:
    if len(shift) != len(axis):
        fail(ShapeError, f"roll: {len(shift)} shifts for {len(axis)} axes")
    return x


roll_op: Op = linear(
    "roll(x; shift, axis: listed_axes)",
    lambda x, shift, axis: np.roll(x, shift, axis),
    infer=_infer_roll,
    transpose=lambda ct, shift, axis: roll_op(ct, shift=tuple(-s for s in shift), axis=axis),
    fills=True,
    selects=True,
    covers=True,
    moves=True,
    doc="The elements shifted along axes; what leaves at one end comes in at the other.",
    samples=lambda rng: [
        Call((rng.normal(size=(5,)),), {"shift": (2,), "axis": (-1,)}),
        Call((rng.normal(size=(2, 3)),), {"shift": (1, -4), "axis": (-2, -1)}),
        Call((rng.normal(size=(2, 3)),), {"shift": (1, 1), "axis": (-1, -1)}),
    ],
    reference=lambda x, shift, axis: _rolled(x, shift, axis),
    onnx=Missing("no operator; two Slice and a Concat do it"),
    cost=0,
)


def _rolled(x: Any, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    for s, a in zip(shift, axis):
        x = np.take(x, (np.arange(x.shape[a]) - s) % x.shape[a], a)
    return x


@public(method=True)
@alias(dim="axis", dims="axis")
def flip(x: Any, axis: Axes | None = None) -> Tensor:
    """Return `x` in reverse order along one axis, several, or all (None). Raises ShapeError.

    >>> import wengert as wg
    >>> wg.flip([1, 2, 3])
    tensor([3, 2, 1])
    """
    x = as_operand(x)
    out: Tensor = bind(flip_op, (x,), {"axis": normalize_axes(axis, x.ndim)})
    return out


@public(method=True)
@alias(shifts="shift", dims="axis", dim="axis")
def roll(x: Any, shift: Axes, axis: Axes | None = None) -> Tensor:
    """Return `x` shifted along axes; what leaves at one end comes in at the other.

    Parameters
    ----------
    shift: how far, one number or one for each axis; towards the end when positive.
    axis: along which axes; None shifts the flattened tensor and restores its shape.

    Raises ShapeError when the numbers of shifts and axes differ.

    >>> import wengert as wg
    >>> wg.roll([1, 2, 3, 4], 1)
    tensor([4, 1, 2, 3])
    """
    x = as_operand(x)
    if axis is None:
        return reshaped(roll(reshaped(x, (x.size,)), shift, 0), x.shape)
    axes = tuple(normalize_axis(a, x.ndim) for a in _listed(axis))
    shifts = int_args((shift,), "shift")
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        fail(ShapeError, f"roll: {len(shifts)} shifts for {len(axes)} axes", "Give one shift, or one for each axis.")
    out: Tensor = bind(roll_op, (x,), {"shift": shifts, "axis": axes})
    return out
