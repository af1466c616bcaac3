"""Structure: reshape, broadcast and the cast between dtypes, which other ops' derivatives are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from sys import _getframe as getframe
from typing import Any
from weakref import ref

import numpy as np

from ...core.arrays import in_order_of, narrowed, refuse_subclass, to_integers
from ...core.dims import Dim, is_undecided
from ...core.dtypes import DType, made, record_of
from ...core.elsewhere import CPU, Elsewhere, device_name, moved, names_device, place_of
from ...core.errors import DTypeError, GradientError, GraphError, ShapeError, fail
from ...core.mode import get_mode
from ...core.ops.declare import linear, public
from ...core.ops.facets import Cause, Form, Nonfinite, Role
from ...core.ops.nonfinite import WIDER, overflowed
from ...core.ops.op import TABLE, Call, Op
from ...core.ops.record import another, bind, record_one
from ...core.spec import (
    Shape,
    Spec,
    as_dtype,
    bool_,
    category,
    complex128,
    float16,
    float32,
    float64,
    int16,
    int32,
    int64,
    normalize_axis,
    normalize_shape,
    plain_dtype,
    show,
    spec_of,
)
from ...core.spec import broadcast_shapes as common_shape
from ...core.standins import WeakTensor, weak, weak_number
from ...core.state.blocks import to_come
from ...core.state.capture import get_capture
from ...core.state.observer import observers
from ...core.state.refusals import refuse
from ...core.storage import viewed, window_of
from ...core.tensor import Tensor, asarray, like, new, take, wrap
from ..aliases import dim_alias
from ..long_sums import add_up


def as_operand(x: Any) -> Tensor:
    """Return `x` itself if it is a tensor, a weak tensor of a Python number, else :func:`wengert.asarray` of it."""
    if isinstance(x, Tensor):
        return x
    if type(x) in _NUMBERS:
        return weak_number(x)
    if isinstance(x, Dim):
        return weak(asarray(x))
    refuse_subclass(x, "an operand")
    return asarray(x)


_NUMBERS = frozenset({int, float, complex})


def int_args(args: tuple[Any, ...], what: str = "shape") -> tuple[int, ...]:
    """Return ints given one by one or as one sequence: `x.view(2, 3)` and `x.view((2, 3))`."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    try:
        ints: tuple[Any, ...] = tuple(n if isinstance(n, Dim) else n.__index__() for n in args)
    except (AttributeError, TypeError):
        fail(DTypeError, f"{what} must be given as ints, not {args!r}")
    return ints


# -- reshape


def _infer_reshape(x: Spec, shape: Shape) -> Spec:
    size: Any = math.prod(shape)
    if size != x.size and not is_undecided(size - x.size):
        fail(
            ShapeError,
            f"reshape of {show(x.shape, x.dtype)} to {shape}: {x.size} elements do not fill {math.prod(shape)}",
            "The product of the sizes must stay the same; one of them may be -1, to be worked out.",
        )
    return spec_of(shape, x.dtype)


reshape_op: Op = linear(
    "reshape(x; shape)",
    lambda x, shape: x.reshape(shape),
    view=True,
    infer=_infer_reshape,
    transpose=lambda ct, x_shape: ct.reshape(x_shape),
    fills=True,
    selects=True,
    covers=True,
    doc="The same elements, in row-major order, in another shape.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 6)),), {"shape": (3, 4)}),
        Call((rng.normal(size=(2, 3, 2)).T,), {"shape": (12,)}),
        Call((rng.normal(size=(1, 1)),), {"shape": ()}),
        Call((rng.normal(size=(0, 3)),), {"shape": (3, 0, 2)}),
    ],
    reference=lambda x, shape: np.fromiter(x.flat, x.dtype, x.size).reshape(shape),
    onnx="Reshape",
    role=Role.RESHAPE,
    cost=0,
    form=Form("reshape", say="Gradients go back to where their elements were."),
)


def _resolve_shape(x: Tensor, shape: tuple[int, ...]) -> Shape:
    """Return `shape` with its -1, if any, worked out."""
    if -1 not in shape:
        return shape if math.prod(shape) == x.size and min(shape, default=0) >= 0 else normalize_shape(shape)
    known = math.prod(n for n in shape if n != -1)
    if shape.count(-1) > 1:
        fail(ShapeError, f"reshape to {shape}: only one size can be -1", "Give all the others.")
    rest = x.size % known if known > 0 else 1
    if rest and not is_undecided(rest):
        why = f"{x.size} elements are not a multiple of {known}" if known else "any size would fit -1"
        fail(ShapeError, f"reshape of {show(x.shape, x.dtype)} to {shape}: {why}", "Give every size as a number.")
    return normalize_shape(x.size // known if n == -1 else n for n in shape)


def reshaped(x: Tensor, shape: Shape) -> Tensor:
    """Return `x` in another shape, recorded."""
    out: Tensor = bind(reshape_op, (x,), {"shape": shape})
    if x.writes_through is not None and type(x) not in to_come and window_of(x) is None and out is not x:
        x.writes_through.settle(out, x)
    return out


@public
def reshape(x: Any, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """Return the elements of `x`, in row-major order, in another shape.

    Parameters
    ----------
    x: any shape and dtype.
    shape: the sizes; one may be -1 and is worked out from the number of elements.
    copy: True for a tensor of its own, which may be written to. Otherwise the result is a value that was taken from
        `x`: writing to it is refused.

    The method also takes the sizes one by one, `x.reshape(2, -1)`; `view` is its other name.

    Raises ShapeError when the number of elements differs.

    >>> import wengert as wg
    >>> wg.reshape(wg.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    x = as_operand(x)
    found = reshaped(x, _resolve_shape(x, int_args((shape,))))
    return found.clone() if copy else found


@public(name="view", method=True, function=False)
@public(name="reshape", method=True, function=False)
def _reshape_method(x: Tensor, *shape: Any) -> Tensor:
    """Return :func:`wengert.reshape` to sizes given one by one or as a tuple."""
    sizes = shape[0] if len(shape) == 1 and type(shape[0]) is tuple else shape
    try:
        value = x._data
    except AttributeError:
        value = None if type(x) in to_come else viewed(x)
    if value is not None and type(x) is not WeakTensor:
        try:
            # NumPy takes plain sizes and one -1 as they are; what it refuses is worded below.
            data = value.reshape(sizes)
        except (TypeError, ValueError, GraphError):
            pass
        else:
            shape = data.shape
            if shape == sizes or -1 in sizes:  # NumPy takes any negative size for a -1
                if observers:
                    data = reshape_op.told((value,), {"shape": shape})
                if x.node is None or not get_mode().grad:
                    out = new(Tensor if type(x) is Tensor else x.result_class)
                    out._data, out.node = data, None
                    out._spec = x._spec.family.get(shape) or spec_of(shape, data.dtype)
                    frame, before = getframe(1), x._share
                    if x.is_name or x.writes_through is not None:
                        return take(out, x, frame.f_code, frame.f_lasti)
                    taken = before if type(before) is tuple else None
                    out._share = (ref(x), frame.f_code, frame.f_lasti, taken)
                    return out
                return record_one(reshape_op, x, data, {"shape": shape})
    return reshaped(x, _resolve_shape(x, int_args(sizes)))


@public(method=True, function=False)
def reshape_as(x: Tensor, other: Any) -> Tensor:
    """Return `x` in the shape of `other`."""
    return reshaped(x, as_operand(other).shape)


public(reshape_as, name="view_as", method=True, function=False)


@public(method=True, function=False)
def contiguous(x: Tensor) -> Tensor:
    """Return the value of `x`. A tensor's layout in memory cannot be seen, so nothing is copied.

    Where PyTorch makes a copy that may be written to, write `x.clone()`: writing to this value is refused.
    """
    return reshaped(x, x.shape) if place_of(x) == CPU else x


@public(method=True, function=False)
def cpu(x: Tensor) -> Tensor:
    """Return `x` on the processor, itself where it is there; see `to`."""
    return placed(x, CPU)


@public(method=True)
def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return `x` with the axes from `start_dim` to `end_dim`, inclusive, merged into one.

    A 0-d tensor becomes one of shape (1,). Raises ShapeError for axes that do not exist or are
    in the wrong order.

    >>> import wengert as wg
    >>> wg.flatten(wg.ones(2, 3, 4), start_dim=1).shape
    (2, 12)
    """
    x = as_operand(x)
    shape = x.shape or (1,)
    ndim = len(shape)
    start, end = normalize_axis(start_dim, ndim, "start_dim") + ndim, normalize_axis(end_dim, ndim, "end_dim") + ndim
    if start > end:
        fail(ShapeError, f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    return reshaped(x, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@public(method=True)
def ravel(x: Any) -> Tensor:
    """Return `x` as one axis, in row-major order.

    >>> import wengert as wg
    >>> wg.ravel([[1, 2], [3, 4]])
    tensor([1, 2, 3, 4])
    """
    x = as_operand(x)
    return reshaped(x, (x.size,))


@public(method=True)
@dim_alias
def unflatten(x: Any, axis: int, sizes: Sequence[int]) -> Tensor:
    """Return `x` with one axis split into several of the given sizes, one of which may be -1.

    Raises ShapeError when their product is not the axis' size.

    >>> import wengert as wg
    >>> wg.unflatten(wg.ones(2, 12), 1, (3, -1)).shape
    (2, 3, 4)
    """
    x = as_operand(x)
    at = normalize_axis(axis, x.ndim) + x.ndim
    return reshaped(x, _resolve_shape(x, (*x.shape[:at], *int_args((sizes,), "sizes"), *x.shape[at + 1 :])))


# -- broadcast


@lru_cache(maxsize=1024)
def _broadcast_axes(out_shape: Shape, x_shape: Shape) -> tuple[int, ...]:
    """Return the axes of the result along which an argument of shape `x_shape` was repeated."""
    extra = len(out_shape) - len(x_shape)
    stretched = (i + extra for i, n in enumerate(x_shape) if n == 1 and out_shape[i + extra] != 1)
    return (*range(extra), *stretched)


_BLAS_ROWS = 8192  # vectors of ones up to this length are kept


@lru_cache(maxsize=64)
def _ones(size: int, dtype: DType) -> Any:
    return np.ones(size, dtype)


def _unbroadcast(ct: Any, x_shape: Shape) -> Any:
    """Return the sum of a cotangent over what a broadcast repeated: every bias gradient comes through here."""
    shape = ct.shape
    extra = len(shape) - len(x_shape)
    axes = _broadcast_axes(shape, x_shape)
    if isinstance(ct, Tensor):
        out = ct.sum(axis=axes, keepdims=extra == 0)
    elif ct.dtype.itemsize == 2:
        # Half precision would stop growing long before a batch is summed.
        out = add_up(ct, axes, np.float32).astype(ct.dtype)
    elif len(axes) == extra > 0 and _suits_blas(ct, x_shape):
        rows = ct if len(shape) == 2 else ct.reshape(-1, math.prod(x_shape))
        out = np.dot(_ones(len(rows), ct.dtype), rows)
    else:
        out = add_up(ct, axes)
    return out if out.shape == x_shape else out.reshape(x_shape)


def _suits_blas(ct: Any, x_shape: Shape) -> bool:
    """Return whether to sum leading axes as a product with ones, which takes BLAS a half to a tenth of the time."""
    size = math.prod(x_shape)
    return x_shape != () and ct.dtype.char in "fd" and 0 < ct.size <= _BLAS_ROWS * size


def _broadcast(x: Any, shape: Shape) -> Any:
    x = np.asarray(x)
    if x.flags.c_contiguous:
        # The same as np.broadcast_to, twice as fast for the small arrays of eager programs.
        extra = len(shape) - x.ndim
        if extra >= 0:
            strides = [0] * extra
            for n, m, stride in zip(x.shape, shape[extra:], x.strides):
                if n != m and n != 1:
                    break
                strides.append(0 if n != m else stride)
            else:
                view = np.ndarray(shape, x.dtype, x, 0, strides)
                view.flags.writeable = False
                return view
    return np.broadcast_to(x, shape)


def _infer_broadcast(x: Spec, shape: Shape) -> Spec:
    if common_shape(x.shape, shape) != shape:
        fail(
            ShapeError,
            f"broadcast of {show(x.shape, x.dtype)} to {shape}",
            "Counted from the right, each size must be 1 or equal the new one; new axes come at the left.",
        )
    return spec_of(shape, x.dtype)


broadcast: Op = linear(
    "broadcast(x; shape)",
    _broadcast,
    view=True,
    infer=_infer_broadcast,
    transpose=_unbroadcast,
    fills=True,
    selects=True,
    covers=True,
    doc="The elements repeated along new axes and along axes of size 1.",
    samples=lambda rng: [
        Call((rng.normal(size=(3,)),), {"shape": (2, 3)}),
        Call((rng.normal(size=(2, 1)),), {"shape": (2, 3)}),
        Call((rng.normal(size=(1, 3, 1)),), {"shape": (2, 1, 3, 2)}),
        Call((rng.normal(size=()),), {"shape": (2, 2)}),
        Call((rng.normal(size=(2, 3)).T,), {"shape": (2, 3, 2)}),
    ],
    reference=lambda x, shape: x * np.ones(shape),
    onnx="Expand",
    inserted=True,
    role=Role.STRIDE,
    cost=0,
    form=Form("⇉", "{0}", say="One value was used in many places: what arrives from all of them *adds up*."),
    pattern="accumulate",
)


def _broadcasted(x: Tensor, shape: Shape) -> Tensor:
    if x.shape == shape:
        # Where nothing is recorded, what comes out has no history, be it of the same shape.
        return x if x.node is None or get_mode().grad else reshaped(x, shape)
    out: Tensor = bind(broadcast, (x,), {"shape": shape})
    return out


@public
def broadcast_to(x: Any, shape: int | Sequence[int]) -> Tensor:
    """Return `x` repeated to a shape that it broadcasts to. Raises ShapeError if it does not.

    >>> import wengert as wg
    >>> wg.broadcast_to([1, 2], (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return _broadcasted(as_operand(x), normalize_shape(shape))


@public(method=True, function=False)
def expand(x: Tensor, *sizes: Any) -> Tensor:
    """Return :func:`wengert.broadcast_to` with the sizes one by one; -1 keeps the size of an axis.

    Raises ShapeError for fewer sizes than axes.
    """
    shape = int_args(sizes, "sizes")
    extra = len(shape) - x.ndim
    if extra < 0 or -1 in shape[:extra]:
        fail(
            ShapeError,
            f"expand of {show(x.shape, x.dtype)} to {shape}",
            "Give a size for each axis, the new ones first; -1 keeps the size of an axis that exists.",
        )
    kept = (x.shape[i - extra] if n == -1 else n for i, n in enumerate(shape))
    return _broadcasted(x, normalize_shape(tuple(kept)))


@public(method=True, function=False)
def expand_as(x: Tensor, other: Any) -> Tensor:
    """Return `x` broadcast to the shape of `other`."""
    return _broadcasted(x, as_operand(other).shape)


@public
def broadcast_shapes(*shapes: int | Sequence[int]) -> Shape:
    """Return the shape that tensors of these shapes broadcast to. Raises ShapeError if there is none.

    >>> import wengert as wg
    >>> wg.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    given = [normalize_shape(s) for s in shapes]
    out = common_shape(*given)
    if out is None:
        fail(
            ShapeError,
            f"shapes {', '.join(map(str, given))} do not broadcast",
            "Counted from the right, sizes must be equal or 1.",
        )
    return out


@public
def broadcast_arrays(*xs: Any) -> list[Tensor]:
    """Return tensors, each with its own dtype, broadcast against each other. Raises ShapeError.

    >>> import wengert as wg
    >>> [x.shape for x in wg.broadcast_arrays(wg.ones(3, 1), wg.ones(4))]
    [(3, 4), (3, 4)]
    """
    tensors = [as_operand(x) for x in xs]
    shape = broadcast_shapes(*(x.shape for x in tensors))
    return [_broadcasted(x, shape) for x in tensors]


# -- cast


def _cast(x: Any, dtype: DType) -> Any:
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        _infer_cast(spec_of(x.shape, x.dtype), dtype)
    if record_of(dtype).largest:
        return in_order_of(narrowed(x, dtype), (x,))
    if category(dtype) >= category(x.dtype) and dtype.itemsize >= x.dtype.itemsize:
        return x.astype(dtype) if x.flags.c_contiguous else in_order_of(x.astype(dtype), (x,))
    if dtype.kind in "iu" and category(x.dtype) == 2:
        return to_integers(x, dtype)
    # A number that does not fit becomes an infinity: a value, not a warning.
    with np.errstate(invalid="ignore", over="ignore"):
        return x.astype(dtype) if x.flags.c_contiguous else in_order_of(x.astype(dtype), (x,))


def _infer_cast(x: Spec, dtype: DType) -> Spec:
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        fail(
            DTypeError,
            f"cast of {show(x.shape, x.dtype)} to {dtype}: the imaginary part would be lost",
            "Take wg.real(x), wg.imag(x) or wg.abs(x) first.",
        )
    return spec_of(x.shape, dtype)


def _cast_transpose(ct: Any, x_dtype: DType) -> Any:
    if ct.dtype.kind == "c" and x_dtype.kind != "c":
        ct = TABLE["real"](ct)
    if record_of(x_dtype).stored:  # its digits are too few for a gradient
        return ct
    return cast(ct, dtype=x_dtype)


cast: Op = linear(
    "cast(x; dtype)",
    _cast,
    infer=_infer_cast,
    transpose=_cast_transpose,
    fills=True,
    selects=True,
    covers=True,
    moves=True,
    doc="The elements in another dtype; into integers by truncation, to the nearest that there is, NaN to 0.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"dtype": complex128}),
        Call((rng.normal(size=(2, 3)).T,), {"dtype": float64}),
        Call((rng.normal(size=()),), {"dtype": float64}),
    ],
    reference=lambda x, dtype: np.fromiter((dtype.type(v) for v in x.flat), dtype, x.size).reshape(x.shape),
    onnx="Cast",
    inserted=True,
    role=Role.BY_ELEMENT,
    cost=0,
    form=Form("cast", say="Only the number format changes; what arrives passes."),
    nonfinite=Nonfinite(((overflowed, Cause("overflow: the number is beyond the narrower dtype's range", WIDER)),)),
)


def _cast_front(x: Any, *, dtype: Any) -> Tensor:
    out: Tensor = _recorded_cast(x, dtype=plain_dtype(dtype))
    return out


# A namespace's tensors have dtypes of its own class; a graph has NumPy's.
_recorded_cast = cast.front
cast.front = _cast_front


def casted(x: Tensor, dtype: DType) -> Tensor:
    """Return `x` in another dtype, recorded; `x` itself where it has that already."""
    if type(x) is WeakTensor:
        x = x.wide()
    if x.dtype == dtype:
        return x
    out: Tensor = bind(cast, (x,), {"dtype": plain_dtype(dtype)})
    return out


@public(method=True)
def astype(x: Any, dtype: Any, *, copy: bool = True, device: Any = None) -> Tensor:
    """Return `x` in another dtype.

    Parameters
    ----------
    x: any shape and dtype.
    dtype: a dtype, a NumPy or Python type, or a name. Floats become integers by truncation, which
        has no derivative; beyond the integers' range the nearest end of it, and NaN 0. Integers
        wrap around. Between floating dtypes, and from real to complex, gradients flow.
    copy: with False, `x` itself where it has the dtype already.
    device: where to place it; None: where `x` is.

    Raises DTypeError from complex to real: which part is meant?

    >>> import wengert as wg
    >>> wg.astype(wg.tensor([1.7, -1.7]), wg.int64)
    tensor([ 1, -1])
    """
    out = casted(as_operand(x), as_dtype(dtype))
    if device is not None:
        out = placed(out, device)
    return another(out) if copy and out is x else out


def placed(x: Tensor, device: Any) -> Tensor:
    """Return a tensor with the same value on a device; itself where it is there, and while a program is traced.

    Raises GraphError for a device that there is not, GradientError where gradients would be lost.
    """
    name = device_name(device)
    if x._array is None or name == place_of(x) or get_capture() is not None or get_mode().tracing:
        return x  # a program computes where it runs
    if isinstance(x._array, Elsewhere) and x._array.place is None:
        x._array.refuse(f"to({name!r})")
    if x._carries_gradients and get_mode().grad:
        refuse(
            f"to({name!r}) of a tensor that requires gradients, {x.spec}, on {place_of(x)}",
            "No gradient comes back from another device. Make the leaf there: x.detach().to(...).requires_grad_(), or "
            "move a module's parameters, which stay the same objects: module.to(...).",
            x,
            GradientError,
        )
    return like(x, wrap(moved(x._array, name)))


@public(method=True, function=False)
def to_device(x: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """Return `x` on a device, itself where it is there (Array API); see `to`.

    Raises GraphError (a ValueError) for a device that there is not, and for a stream.
    """
    if stream is not None:
        fail(GraphError, f"to_device with stream={stream!r}", "Devices have no streams here: leave it out.")
    return placed(x, str(device))


@public(method=True, function=False)
def to(x: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False) -> Tensor:
    """Return `x` in another dtype, on another device, or both; `x` itself where nothing has to change.

    `x.to(wg.float64)`, `x.to("xla:1")`, `x.to("cuda", wg.float32)`, `x.to(other)` (in the dtype of another tensor,
    where that is). A device is "cpu", or one of JAX's: "xla:1" is its second one of any kind, "cuda:0", "tpu:0". What
    is placed there computes in compiled functions, which run where their tensors are; `x.to("cpu")` and `x.numpy()`
    bring the value back. See docs/accelerators.md.

    Raises DTypeError from complex to real, GraphError (a ValueError) for a device that there is not, GradientError for
    a tensor that requires gradients: none would come back from another device.

    >>> import wengert as wg
    >>> wg.tensor([1, 2]).to(wg.float32)
    tensor([1., 2.])
    """
    for arg in args:
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, place_of(arg)
        elif names_device(arg):
            device = arg
        elif not isinstance(arg, (bool, type(None))):  # PyTorch's non_blocking, and no device
            dtype = arg
    if dtype is not None and as_dtype(dtype) != x.spec.dtype:
        place = place_of(x)
        x = casted(placed(x, "cpu"), as_dtype(dtype))
        device = place if device is None else device
    return x if device is None else placed(x, device)


@public(method=True, function=False)
def type_as(x: Tensor, other: Any) -> Tensor:
    """Return `x` in the dtype of `other`."""
    return casted(x, as_operand(other).dtype)


def _cast_method(name: str, dtype: Callable[[], DType]) -> None:
    def method(x: Tensor) -> Tensor:
        return casted(x, dtype())

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor in the dtype that PyTorch calls `{name}`; see :func:`wengert.astype`."
    public(method, name=name, method=True, function=False)


for _name, _dtype in {
    "half": float16,
    "float": float32,
    "double": float64,
    "bool": bool_,
    "short": int16,
    "int": int32,
    "long": int64,
}.items():
    _cast_method(_name, lambda dtype=_dtype: dtype)  # type: ignore[misc]
_cast_method("bfloat16", lambda: made("bfloat16"))
