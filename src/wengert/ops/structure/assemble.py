"""Ops that put tensors together and take them apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from ...core.dims import Dim
from ...core.errors import DTypeError, GraphError, ShapeError, fail
from ...core.mode import get_mode
from ...core.node import Node
from ...core.ops.declare import linear, op, public
from ...core.ops.facets import Form, Role
from ...core.ops.op import Call, Linear, Missing, Op, spec_of_input
from ...core.ops.operands import promote_tensors
from ...core.ops.record import bind
from ...core.spec import Shape, Spec, normalize_axis, show, spec_of
from ...core.standins import WeakTensor
from ...core.state.observer import detours, observers
from ...core.storage import window_of
from ...core.tensor import Tensor, like, wrap
from ..aliases import dim_alias
from .shapes import as_operand, broadcast_to, int_args, reshaped

# An op with as many results as its attributes say.
MANY = -1


def along(axis: int, item: Any) -> tuple[Any, ...]:
    """Return the index that applies `item` at `axis`, counted from the right, and takes everything elsewhere."""
    return (Ellipsis, item, *(slice(None),) * (-axis - 1))


def _parts(sizes: Sequence[int]) -> list[slice]:
    """Return the slices that cut an axis into parts of these sizes."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes)]


def resized(shape: Shape, axis: int, size: int) -> Shape:
    """Return a shape with another size along an axis, counted from the right."""
    at = len(shape) + axis
    return (*shape[:at], size, *shape[at + 1 :])


def _several(xs: Any, name: str) -> list[Tensor]:
    """Return a non-empty sequence of operands as tensors of one dtype."""
    if isinstance(xs, Tensor):
        xs = unstack(xs)
    elif not isinstance(xs, (tuple, list)):
        try:
            xs = list(xs)
        except TypeError:
            fail(DTypeError, f"{name} of a {type(xs).__name__}", f"Write {name}([x, y]): a sequence of tensors.")
    if not xs:
        fail(ShapeError, f"{name} of no tensors", "Give at least one.")
    return promote_tensors(name, *xs)


# -- concat and split


def _infer_concat(*xs: Spec, axis: int) -> Spec:
    first = xs[0].shape
    for i, x in enumerate(xs):
        if len(x.shape) != len(first) or resized(x.shape, axis, 0) != resized(first, axis, 0):
            fail(
                ShapeError,
                f"concat of {show(first)} and, as number {i}, {show(x.shape)}, along axis {axis + len(first)}",
                "All sizes must agree but the one along the axis; wg.stack makes a new axis.",
            )
    return spec_of(resized(first, axis, sum(x.shape[axis] for x in xs)), xs[0].dtype)


def _concat_transpose(ct: Any, index: int, node: Node, axis: int) -> Any:
    parts = _places.get(node)
    if parts is None:
        # Found once for all parts: the derivative asks for one part after the other.
        parts = _places[node] = _parts([spec_of_input(x).shape[axis] for x in node.inputs])
    return ct[along(axis, parts[index])]


# By node of a concatenation, where its parts lie.
_places: WeakKeyDictionary[Node, list[slice]] = WeakKeyDictionary()


concat_op: Op = linear(
    "concat(*xs; axis)",
    lambda *xs, axis: np.concatenate(xs, axis),
    infer=_infer_concat,
    transpose=_concat_transpose,
    selects=True,
    covers=True,
    moves=True,
    doc="Tensors one after the other along an axis.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)), rng.normal(size=(2, 1))), {"axis": -1}),
        Call((rng.normal(size=(2, 2)), rng.normal(size=(1, 2)), rng.normal(size=(0, 2))), {"axis": -2}),
        Call((rng.normal(size=(3,)),), {"axis": -1}),
    ],
    reference=lambda *xs, axis: np.moveaxis(np.array([row for x in xs for row in np.moveaxis(x, axis, 0)]), 0, axis),
    onnx="Concat",
    role=Role.JOIN,
    cost=0,
    form=Form("⧺", say="Each part gets its own piece of what arrives."),
)


def _infer_split(x: Spec, sizes: Shape, axis: int) -> tuple[Spec, ...]:
    if sum(sizes) != x.shape[axis]:
        fail(ShapeError, f"split of {show(x.shape, x.dtype)} into {sizes} along axis {axis + len(x.shape)}")
    return tuple(spec_of(resized(x.shape, axis, n), x.dtype) for n in sizes)


split_op: Op = op(
    "split(x; sizes, axis)",
    lambda x, sizes, axis: tuple(x[along(axis, part)] for part in _parts(sizes)),
    view=True,
    infer=_infer_split,
    facts={"x": Linear(lambda ct, axis: concat_op(*ct, axis=axis), fills=True, selects=True, covers=True)},
    kind="linear",
    results=MANY,
    doc="A tensor cut along an axis into parts of given sizes.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 5)),), {"sizes": (2, 3), "axis": -1}),
        Call((rng.normal(size=(4, 2)),), {"sizes": (1, 0, 3), "axis": -2}),
        Call((rng.normal(size=(3,)),), {"sizes": (3,), "axis": -1}),
    ],
    reference=lambda x, sizes, axis: tuple(np.split(x, np.cumsum(sizes)[:-1], axis)),
    onnx="Split",
    role=Role.STRIDE,
    cost=0,
    zero_gradient="not_selected",
)


def _stacked(values: list[Any], axis: int) -> Any:
    """Return `np.stack` of arrays, in half of its time. Raises ValueError where their shapes differ."""
    ndim = values[0].ndim + 1
    if not -ndim <= axis < ndim:
        raise ValueError(axis)
    place = (*(slice(None),) * (axis % ndim), None)
    return np.concatenate([v[place] for v in values], axis)


def _joined_at_once(xs: Sequence[Any], axis: int, join: Callable[..., Any]) -> Tensor | None:
    """Return tensors of one class and dtype joined where nothing is recorded; None if the general path has to do it."""
    if observers or detours or type(xs) not in (list, tuple) or not xs or type(axis) is not int:
        return None
    kind, dtype, values = type(xs[0]), None, []
    if not issubclass(kind, Tensor) or kind.result_class is not kind or kind is WeakTensor:
        return None
    is_recorded = get_mode().grad
    for x in xs:
        if type(x) is not kind or x.is_name or (is_recorded and x.node is not None):
            return None
        value = window_of(x)
        if type(value) is not np.ndarray or (dtype is not None and value.dtype is not dtype):
            return None
        dtype = value.dtype
        values.append(value)
    try:
        data = join(values, axis)
    except ValueError:  # NumPy's words for what does not fit
        return None
    if not data.flags.c_contiguous:
        return None
    out = wrap(data)
    return out if kind is Tensor else like(xs[0], out)


@public
@dim_alias
def concat(xs: Sequence[Any], axis: int | None = 0) -> Tensor:
    """Return tensors joined along an axis that they have; `cat` and `concatenate` are the same.

    Parameters
    ----------
    xs: tensors whose shapes agree but along `axis`; their dtypes promote.
    axis: None joins the flattened tensors.

    Raises ShapeError.

    >>> import wengert as wg
    >>> wg.concat([wg.ones(2), wg.zeros(1)])
    tensor([1., 1., 0.])
    """
    found = None if axis is None else _joined_at_once(xs, axis, np.concatenate)
    if found is not None:
        return found
    tensors = _several(xs, "concat")
    if axis is None:
        tensors = [reshaped(x, (x.size,)) for x in tensors]
        axis = 0
    if not all(x.ndim for x in tensors):
        fail(ShapeError, "concat of a 0-d tensor, which has no axes", "wg.stack puts scalars together.")
    out: Tensor = bind(concat_op, tensors, {"axis": normalize_axis(axis, tensors[0].ndim)})
    return out


def _cut(x: Tensor, sizes: Sequence[int], axis: int) -> tuple[Tensor, ...]:
    out: tuple[Tensor, ...] = bind(split_op, (x,), {"sizes": tuple(sizes), "axis": axis})
    return out


@public(method=True)
@dim_alias
def split(x: Any, split_size: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Return `x` cut along an axis into parts of a size, as PyTorch has it.

    Parameters
    ----------
    split_size: the size of every part (the last may be smaller), or a sequence with the size of each.
    axis: the axis to cut.

    NumPy's `split`, by the number of parts or by where to cut, is :func:`wengert.array_split`.

    Raises ShapeError when the sizes do not sum to that of the axis.

    >>> import wengert as wg
    >>> wg.split(wg.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    x = as_operand(x)
    axis = normalize_axis(axis, x.ndim)
    total = x.shape[axis]
    if isinstance(split_size, (tuple, list)):
        sizes = int_args((split_size,), "split_size")
        if sum(sizes) != total or min(sizes, default=0) < 0:
            fail(
                ShapeError,
                f"split of {show(x.shape, x.dtype)} into sizes {sizes} along an axis of size {total}",
                "The sizes must sum to that of the axis. wg.array_split takes the places to cut at.",
            )
        return _cut(x, sizes, axis)
    (size,) = int_args((split_size,), "split_size")
    if size < 1:
        fail(ShapeError, f"split into parts of size {size}", "Give a positive size.")
    whole, rest = divmod(total, size)
    if isinstance(whole, Dim) or isinstance(rest, Dim):
        fail(
            GraphError,
            f"split of {show(x.shape, x.dtype)} into parts of size {size}: how many there are is not known until the "
            "graph is fed",
            "Give the size of each part, or reshape to one axis more.",
        )
    return _cut(x, (size,) * whole + (rest,) * (rest > 0 or total == 0), axis)


@public(method=True, home="torch")
@dim_alias
def chunk(x: Any, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Return `x` cut along an axis into at most `chunks` parts of one size, the last perhaps smaller.

    As in PyTorch there may be fewer parts than asked for; `wg.array_split` gives exactly as many.

    Raises ShapeError for a number of parts below 1 or an axis that does not exist.

    >>> import wengert as wg
    >>> [tuple(c.shape) for c in wg.torch.chunk(wg.ones(2, 7), 3, axis=1)]
    [(2, 3), (2, 3), (2, 1)]
    """
    x = as_operand(x)
    (count,) = int_args((chunks,), "chunks")
    if count < 1:
        fail(ShapeError, f"chunk into {count} parts", "Give a positive number of parts.")
    total = x.shape[normalize_axis(axis, x.ndim)]
    return (
        split(x, max(1, math.ceil(total / count)), axis)
        if total
        else _cut(x, (0,) * count, normalize_axis(axis, x.ndim))
    )


@public
@dim_alias
def array_split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Return `x` cut along an axis as NumPy's `array_split` does.

    Parameters
    ----------
    indices_or_sections: into how many parts (sizes differ by at most 1), or the indices to cut at.
    axis: the axis to cut.

    Raises ShapeError.

    >>> import wengert as wg
    >>> wg.array_split(wg.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    >>> wg.array_split(wg.arange(5), [1])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    x = as_operand(x)
    axis = normalize_axis(axis, x.ndim)
    total = x.shape[axis]
    if isinstance(indices_or_sections, (tuple, list)):
        cuts = [slice(i).indices(total)[1] for i in int_args((indices_or_sections,), "indices")]
        edges = list(pairwise([0, *cuts, total]))
        if cuts != sorted(cuts):  # parts that overlap
            return tuple(x[along(axis, slice(a, b))] for a, b in edges)
        return _cut(x, [b - a for a, b in edges], axis)
    (count,) = int_args((indices_or_sections,), "sections")
    if count < 1:
        fail(ShapeError, f"array_split into {count} parts", "Give a positive number of parts.")
    size, extra = divmod(total, count)
    return _cut(x, [size + (i < extra) for i in range(count)], axis)


public(array_split, name="tensor_split", method=True, function=False)


# -- stack and unstack


def _infer_stack(*xs: Spec, axis: int) -> Spec:
    first = xs[0].shape
    for i, x in enumerate(xs):
        if x.shape != first:
            fail(
                ShapeError,
                f"stack of {show(first)} and, as number {i}, {show(x.shape)}",
                "All shapes must be equal; wg.concat joins along an axis that exists.",
            )
    at = len(first) + 1 + axis
    return spec_of((*first[:at], len(xs), *first[at:]), xs[0].dtype)


stack_op: Op = linear(
    "stack(*xs; axis: new_axis)",
    lambda *xs, axis: np.stack(xs, axis),
    infer=_infer_stack,
    transpose=lambda ct, index, axis: ct[along(axis, index)],
    selects=True,
    covers=True,
    moves=True,
    doc="Tensors of one shape side by side along a new axis.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {"axis": -1}),
        Call((rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), rng.normal(size=(2, 2))), {"axis": -3}),
        Call((rng.normal(size=()), rng.normal(size=())), {"axis": -1}),
    ],
    reference=lambda *xs, axis: np.moveaxis(np.array(xs), 0, axis),
    onnx=Missing("no operator; Unsqueeze and Concat do it"),
    role=Role.JOIN,
    cost=0,
    form=Form("⧺", say="Each part gets its own piece of what arrives."),
)

# A tuple of more results than these is no longer a way to write a program.
_MOST_RESULTS = 1 << 20


def _infer_unstack(x: Spec, axis: int) -> tuple[Spec, ...]:
    count = x.shape[axis]
    if count > _MOST_RESULTS:
        fail(ShapeError, f"unstack of {show(x.shape, x.dtype)}: {count:,} results", "Index the tensor instead.")
    return (spec_of(x.shape[:axis] + x.shape[len(x.shape) + axis + 1 :], x.dtype),) * count


unstack_op: Op = op(
    "unstack(x; axis)",
    lambda x, axis: tuple(x[along(axis, i)] for i in range(x.shape[axis])),
    view=True,
    infer=_infer_unstack,
    facts={"x": Linear(lambda ct, axis: stack_op(*ct, axis=axis), fills=True, selects=True, covers=True)},
    kind="linear",
    results=MANY,
    doc="The slices of a tensor along an axis, without that axis.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"axis": -1}),
        Call((rng.normal(size=(2, 2, 2)),), {"axis": -2}),
        Call((rng.normal(size=(2,)),), {"axis": -1}),
    ],
    reference=lambda x, axis: tuple(np.take(x, i, axis) for i in range(x.shape[axis])),
    onnx=Missing("no operator; Split and Squeeze do it"),
    role=Role.STRIDE,
    cost=0,
)


@public
@dim_alias
def stack(xs: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new axis. Their dtypes promote.

    Parameters
    ----------
    xs: a sequence of tensors.
    axis: the place of the new axis in the result.

    Raises ShapeError.

    >>> import wengert as wg
    >>> wg.stack([wg.zeros(2), wg.ones(2)], axis=1)
    tensor([[0., 1.],
            [0., 1.]])
    """
    found = _joined_at_once(xs, axis, _stacked)
    if found is not None:
        return found
    tensors = _several(xs, "stack")
    out: Tensor = bind(stack_op, tensors, {"axis": normalize_axis(axis, tensors[0].ndim + 1)})
    return out


@public
@dim_alias
def unstack(x: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices of `x` along an axis, without it. Raises ShapeError.

    >>> import wengert as wg
    >>> wg.unstack(wg.eye(2))
    (tensor([1., 0.]), tensor([0., 1.]))
    """
    x = as_operand(x)
    out: tuple[Tensor, ...] = bind(unstack_op, (x,), {"axis": normalize_axis(axis, x.ndim)})
    return out


public(unstack, name="unbind", method=True, function=False)


# -- grids


@public
def meshgrid(*arrays: Any, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """Return coordinate tensors of the grid that vectors span.

    Parameters
    ----------
    arrays: 0-d or 1-d tensors, one for each axis.
    indexing: "ij" has the first vector along the first axis; "xy", the Array API's and NumPy's
        default, along the second. PyTorch's default is "ij".

    Raises ShapeError for more dimensions, GraphError for another indexing.

    >>> import wengert as wg
    >>> x, y = wg.meshgrid(wg.arange(2), wg.arange(3), indexing="ij")
    >>> x
    tensor([[0, 0, 0],
            [1, 1, 1]])
    """
    if indexing not in ("xy", "ij"):
        fail(GraphError, f"meshgrid: there is no indexing {indexing!r}", 'Use "xy" or "ij".')
    tensors = [as_operand(a) for a in arrays]
    for x in tensors:
        if x.ndim > 1:
            fail(ShapeError, f"meshgrid of {show(x.shape, x.dtype)}", "It takes vectors.")
    places = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        places[:2] = [1, 0]
    sizes = [0] * len(tensors)
    for place, x in zip(places, tensors):
        sizes[place] = x.size
    ndim = len(tensors)
    return [
        broadcast_to(reshaped(x, tuple(x.size if p == place else 1 for p in range(ndim))), tuple(sizes))
        for place, x in zip(places, tensors)
    ]
