"""Tensors from shapes, ranges and other libraries' arrays.

Inside a traced function these are constants of the graph.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ...core.arrays import converted
from ...core.dims import Dim, has_dims
from ...core.dtypes import DType
from ...core.elsewhere import Elsewhere
from ...core.errors import DTypeError, GraphError, ShapeError, fail
from ...core.mode import get_mode
from ...core.ops.declare import public
from ...core.ops.op import TABLE
from ...core.ops.record import filled
from ...core.spec import (
    Shape,
    as_dtype,
    complex128,
    default_float,
    default_int,
    float64,
    inexact_dtype,
    normalize_shape,
    show,
    spec_of,
)
from ...core.standins import WeakTensor, weak
from ...core.state.blocks import to_come
from ...core.tensor import Tensor, asarray, wrap
from ..aliases import alias
from .dtypes import result_type
from .shapes import as_operand, broadcast_to, casted, placed

Number = bool | int | float | complex


def _allocate(make: Callable[..., Any], shape: Shape, dtype: DType) -> Any:
    """Return an array; where a size is not known, the tensor of a broadcast."""
    if has_dims(shape):
        return filled(make((), dtype)[()], spec_of(shape, dtype))
    try:
        return make(shape, dtype)
    except MemoryError:
        size = math.prod(shape) * dtype.itemsize
        fail(ShapeError, f"not enough memory for {show(shape, dtype)}: {size / 2**30:.3g} GiB", "Make it smaller.")


def _made(data: Any, requires_grad: bool, device: Any) -> Tensor:
    out = data if isinstance(data, Tensor) else wrap(data)
    out = out if device is None else placed(out, device)
    return out.requires_grad_() if requires_grad else out


def _where(x: Tensor, device: Any) -> Any:
    """Return the device for what is made like `x`: the one that is given, or that of `x`; None for the processor."""
    is_there = device is None and type(x) not in to_come and isinstance(x._array, Elsewhere)
    return x._array.place if is_there else device


def _shape(shape: Any, sizes: tuple[Any, ...]) -> Shape:
    """Return the shape from `zeros(2, 3)`, `zeros((2, 3))`, `zeros(2)` or `zeros(shape=(2, 3))`."""
    if sizes or isinstance(shape, (int, np.integer, Dim)):
        return normalize_shape((shape, *sizes))
    return normalize_shape(shape.tolist() if isinstance(shape, (Tensor, np.ndarray)) else shape)


def _dtype(dtype: Any, default: DType | None = None) -> DType:
    if dtype is not None:
        return as_dtype(dtype)
    return default if default is not None else default_float()


def _python_number(value: Any, what: str) -> Number:
    """Return a Python number from one, or from a NumPy scalar or a tensor with one element."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        value = value.item()  # of a value that is being differentiated an error, which says so
    if not isinstance(value, (bool, int, float, complex)):
        fail(DTypeError, f"{what} must be a number, not {type(value).__name__}")
    return value


def _is_recorded(value: Any) -> bool:
    """Return whether a value is a tensor that gradients flow to, or one without a value; an open size is such."""
    return isinstance(value, Dim) or (
        isinstance(value, Tensor) and (value.is_abstract or (value.requires_grad and get_mode().grad))
    )


def _one_element(x: Tensor, what: str) -> Tensor:
    if x.size != 1:
        fail(DTypeError, f"{what} must be one number, not {show(x.shape, x.dtype)}")
    return x if x.shape == () else x.reshape(())


# -- filled


@public
def zeros(shape: Any = (), *sizes: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of zeros.

    Parameters
    ----------
    shape, sizes: the sizes as a tuple, or one by one.
    dtype: float32 unless given.
    device: where to place it, "cuda:0" say; None: "cpu".
    requires_grad: collect gradients for it.

    Raises ShapeError for a negative size, DTypeError for what is not an integer.

    >>> import wengert as wg
    >>> wg.zeros(2, 2)
    tensor([[0., 0.],
            [0., 0.]])
    """
    return _made(_allocate(np.zeros, _shape(shape, sizes), _dtype(dtype)), requires_grad, device)


@public
def ones(shape: Any = (), *sizes: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of ones; parameters as in :func:`wengert.zeros`.

    >>> import wengert as wg
    >>> wg.ones((3,), dtype=wg.int64)
    tensor([1, 1, 1])
    """
    return _made(_allocate(np.ones, _shape(shape, sizes), _dtype(dtype)), requires_grad, device)


@public
def empty(shape: Any = (), *sizes: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return an uninitialised tensor; parameters as in :func:`wengert.zeros`.

    >>> import wengert as wg
    >>> wg.empty(2, 3).shape
    (2, 3)
    """
    return _made(_allocate(np.empty, _shape(shape, sizes), _dtype(dtype)), requires_grad, device)


@public
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor filled with one number.

    Parameters
    ----------
    shape: an int or a tuple of ints.
    fill_value: a number, or a tensor with one element, to which gradients flow.
    dtype: else float32, int64, bool or complex64 after the number's type.
    device, requires_grad: as in :func:`wengert.zeros`.

    Raises ShapeError, and DTypeError where the dtype cannot hold the number.

    >>> import wengert as wg
    >>> wg.full((2,), 7)
    tensor([7, 7])
    """
    return _full(normalize_shape(shape), fill_value, dtype, requires_grad, device)


def _full(shape: Shape, fill_value: Any, dtype: Any, requires_grad: bool, device: Any) -> Tensor:
    if _is_recorded(fill_value):
        one = _one_element(as_operand(fill_value), "fill_value")
        return _made(broadcast_to(one if dtype is None else casted(one, as_dtype(dtype)), shape), requires_grad, device)
    number = _python_number(fill_value, "fill_value")
    wanted = _dtype(dtype, result_type(fill_value))
    try:
        with np.errstate(over="ignore"):
            filler = np.asarray(number, wanted)
    except (OverflowError, ValueError, TypeError):
        fail(DTypeError, f"the number {number!r} does not fit {wanted}", "Pick a wider dtype.")
    if has_dims(shape):
        return _made(filled(filler, spec_of(shape, wanted)), requires_grad, device)
    data = _allocate(np.empty, shape, wanted)
    data[...] = filler
    return _made(data, requires_grad, device)


def _like(make: Callable[[Shape, DType], Any], x: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """Return a new tensor like `x`; one that is like a number is a number, unless it is to be a leaf."""
    like = as_operand(x)
    device = _where(like, device)
    if type(like) is not WeakTensor or dtype is not None:
        return _made(make(like.shape, _dtype(dtype, like.dtype)), requires_grad, device)
    if requires_grad:
        return _made(make(like.shape, like.strong().dtype), requires_grad, device)
    return weak(_made(make(like.shape, like.dtype), False, None))


@public
def zeros_like(x: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return zeros in the shape and, unless `dtype` is given, the dtype of `x`.

    >>> import wengert as wg
    >>> wg.zeros_like([1, 2])
    tensor([0, 0])
    """
    return _like(functools.partial(_allocate, np.zeros), x, dtype, device, requires_grad)


@public
def ones_like(x: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return ones in the shape and, unless `dtype` is given, the dtype of `x`.

    >>> import wengert as wg
    >>> wg.ones_like([1.5, 2.5])
    tensor([1., 1.])
    """
    return _like(functools.partial(_allocate, np.ones), x, dtype, device, requires_grad)


@public
def empty_like(x: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return an uninitialised tensor in the shape and, unless `dtype` is given, the dtype of `x`.

    >>> import wengert as wg
    >>> wg.empty_like(wg.ones(2, 3)).shape
    (2, 3)
    """
    return _like(functools.partial(_allocate, np.empty), x, dtype, device, requires_grad)


@public
def full_like(x: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return one number in the shape and, unless `dtype` is given, the dtype of `x`. Raises DTypeError.

    >>> import wengert as wg
    >>> wg.full_like([1, 2], 9)
    tensor([9, 9])
    """

    def make(shape: Shape, wanted: DType) -> Tensor:
        return _full(shape, fill_value, wanted, False, None)

    return _like(make, x, dtype, device, requires_grad)


@public(method=True, function=False)
def new_zeros(x: Tensor, *shape: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return zeros of the given shape in the dtype of `x`."""
    return zeros(*shape, dtype=_dtype(dtype, x.dtype), device=_where(x, device), requires_grad=requires_grad)


@public(method=True, function=False)
def new_ones(x: Tensor, *shape: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return ones of the given shape in the dtype of `x`."""
    return ones(*shape, dtype=_dtype(dtype, x.dtype), device=_where(x, device), requires_grad=requires_grad)


@public(method=True, function=False)
def new_empty(x: Tensor, *shape: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return an uninitialised tensor of the given shape in the dtype of `x`."""
    return empty(*shape, dtype=_dtype(dtype, x.dtype), device=_where(x, device), requires_grad=requires_grad)


@public(method=True, function=False)
def new_full(
    x: Tensor, shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of the given shape filled with one number, in the dtype of `x`."""
    return full(shape, fill_value, dtype=_dtype(dtype, x.dtype), device=_where(x, device), requires_grad=requires_grad)


# -- ranges


@public
@alias(end="stop")
def arange(
    start: Any,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return evenly spaced numbers: `arange(stop)` or `arange(start, stop, step)`, without `stop`.

    Parameters
    ----------
    start, stop, step: real numbers; PyTorch's `end` is `stop`.
    dtype: else int64 where all are integers, float32 where not.
    device, requires_grad: as in :func:`wengert.zeros`.

    Floating numbers are `start + i * step`, computed in float64. Raises ShapeError for a step of
    0 or an infinite range, DTypeError for complex numbers.

    >>> import wengert as wg
    >>> wg.arange(2, 8, 3)
    tensor([2, 5])
    """
    if stop is None:
        start, stop = 0, start
    # Of a class of its own, such as an IntEnum, a whole number is one too.
    start, stop, step = (int(v) if isinstance(v, int) and type(v) is not bool else v for v in (start, stop, step))
    wanted = _dtype(dtype, result_type(start, stop, step))
    if has_dims((start, stop, step)):
        return _made(_open_range(start, stop, step, wanted), requires_grad, device)
    first, last, by = (_real(v, f"arange: {n}") for v, n in ((start, "start"), (stop, "stop"), (step, "step")))
    if by == 0 or not all(map(math.isfinite, (first, last, by))):
        fail(ShapeError, f"arange({first}, {last}, {by}) has no end", "Use finite numbers and a step other than 0.")
    count = max(0, math.ceil((last - first) / by))
    normalize_shape(count)
    if isinstance(first, int) and isinstance(by, int):
        values: Any = np.arange(first, first + count * by, by)
    else:
        values = first + by * np.arange(count, dtype=np.float64)
    return _made(converted(values, wanted), requires_grad, device)


def _places(count: Any) -> Tensor:
    """Return the whole numbers from 0 on, as many as an open size says."""
    ones = _allocate(np.ones, (count,), default_int)
    out: Tensor = TABLE["cumulative_sum"].front(ones, axis=-1, reverse=False) - 1
    return out


# Numbers of parts this small have quotients that rounding takes to no other whole number.
_SMALL = 1 << 20


def _exact(value: Any, what: str) -> Any:
    """Return a number as a fraction of small parts, an open size as it is."""
    if isinstance(value, Dim):
        return value
    number = _real(value, f"arange: {what}")
    found = Fraction(number) if math.isfinite(number) else None
    if found is None or max(abs(found.numerator), found.denominator) > _SMALL:
        fail(
            GraphError,
            f"arange: the {what} is {number} where a size is not known until the graph is fed",
            "Use whole numbers, or scale a range of whole numbers: wg.arange(n) * 0.1.",
        )
    return found


def _open_range(start: Any, stop: Any, step: Any, wanted: DType) -> Tensor:
    """Return `arange` where a size that is not known is among its numbers."""
    if isinstance(step, Dim):
        fail(GraphError, f"arange in steps of {step}, a size that is not known until the graph is fed")
    first, last, by = (_exact(v, n) for v, n in ((start, "start"), (stop, "stop"), (step, "step")))
    if by == 0:
        fail(ShapeError, f"arange({start}, {stop}, {step}) has no end", "Use a step other than 0.")
    parts = math.lcm(*(v.denominator for v in (first, last, by) if isinstance(v, Fraction)))
    begin, end, stride = (v * parts if isinstance(v, Dim) else int(v * parts) for v in (first, last, by))
    count = -((begin - end) // stride) if stride > 0 else -((end - begin) // -stride)
    places = _places(count)
    if isinstance(start, float) or isinstance(step, float):
        places = casted(places, float64)
    return casted(places * step + start, wanted)


def _real(value: Any, what: str) -> int | float:
    number = _python_number(value, what)
    if isinstance(number, complex):
        fail(DTypeError, f"{what} must be a real number, not {number}")
    return number


@public
@alias(steps="num", end="stop")
def linspace(
    start: Any,
    stop: Any,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
    requires_grad: bool = False,
) -> Tensor:
    """Return `num` evenly spaced numbers from `start` to `stop`.

    Parameters
    ----------
    start, stop: numbers, or tensors with one element, to which gradients flow; PyTorch's `end` is `stop`.
    num: how many; PyTorch's `steps`.
    dtype: the default dtype (complex for complex numbers) unless given. Numbers are computed in float64.
    endpoint: whether `stop` is the last of them.
    device, requires_grad: as in :func:`wengert.zeros`.

    Raises ShapeError for a negative `num`.

    >>> import wengert as wg
    >>> wg.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    wanted = _dtype(dtype, inexact_dtype(result_type(start, stop)))
    (count,) = normalize_shape(num, "num")
    if isinstance(count, Dim):
        return _made(casted(_open_between(start, stop, count, endpoint, wanted), wanted), requires_grad, device)
    if _is_recorded(start) or _is_recorded(stop):
        return _made(_between(start, stop, count, endpoint, wanted), requires_grad, device)
    first, last = _python_number(start, "start"), _python_number(stop, "stop")
    values = np.linspace(first, last, count, endpoint=endpoint)
    return _made(converted(values, wanted), requires_grad, device)


def _between(start: Any, stop: Any, count: int, endpoint: bool, dtype: DType) -> Tensor:
    """Return evenly spaced numbers from tensors, recorded: a share of each, so that both ends are met exactly."""
    first, last = (casted(_one_element(as_operand(v), "start and stop"), dtype) for v in (start, stop))
    steps = max(count - 1 if endpoint else count, 1)
    share = np.arange(count, dtype=np.float64) / steps
    near, far = (asarray(w.astype(dtype), copy=False) for w in (1.0 - share, share))
    return first * near + last * far


def _open_between(start: Any, stop: Any, count: Any, endpoint: bool, dtype: DType) -> Tensor:
    """Return as many evenly spaced numbers as an open size says, in double precision; the last is the end exactly."""
    wide = complex128 if dtype.kind == "c" else float64
    first, last = (
        casted(_one_element(as_operand(v), "start and stop"), wide) if _is_recorded(v) else _python_number(v, name)
        for v, name in ((start, "start"), (stop, "stop"))
    )
    places = casted(_places(count), wide)
    steps = TABLE["maximum"].front(count - 1 if endpoint else count, 1)
    out = places * ((last - first) / casted(steps, wide)) + first
    return TABLE["where"].front(places == steps, last, out) if endpoint else out


@public
@alias(steps="num", end="stop")
def logspace(
    start: Any,
    stop: Any,
    num: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `num` numbers from `base ** start` to `base ** stop`, evenly spaced on a logarithmic scale.

    Parameters are those of :func:`wengert.linspace`.

    >>> import wengert as wg
    >>> wg.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    wanted = _dtype(dtype, inexact_dtype(result_type(start, stop)))
    (count,) = normalize_shape(num, "num")
    if isinstance(count, Dim):
        out = TABLE["pow"].front(base, _open_between(start, stop, count, True, wanted))
        return _made(casted(out, wanted), requires_grad, device)
    if _is_recorded(start) or _is_recorded(stop) or _is_recorded(base):
        return _made(TABLE["pow"].front(base, _between(start, stop, count, True, wanted)), requires_grad, device)
    first, last = _python_number(start, "start"), _python_number(stop, "stop")
    return _made(converted(np.logspace(first, last, count, base=_real(base, "base")), wanted), requires_grad, device)


# -- matrices


@public
def eye(
    n_rows: int,
    n_cols: int | None = None,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a matrix with ones on its k-th diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols: its sizes; square unless `n_cols` is given.
    k: 0 the main diagonal, positive above it.
    dtype, device, requires_grad: as in :func:`wengert.zeros`.

    Raises ShapeError for negative sizes.

    >>> import wengert as wg
    >>> wg.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    rows, columns = normalize_shape((n_rows, n_rows if n_cols is None else n_cols))
    if has_dims((rows, columns)):
        at, under = (_places(n) if isinstance(n, Dim) else arange(n) for n in (rows, columns))
        matrix = (at.reshape(rows, 1) + operator.index(k)) == under
        return _made(casted(matrix, _dtype(dtype)), requires_grad, device)
    return _made(np.eye(rows, columns, operator.index(k), _dtype(dtype)), requires_grad, device)


# -- from elsewhere


@public(home="torch")
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return :func:`wengert.asarray` of `data`, under PyTorch's name.

    >>> import wengert as wg
    >>> wg.torch.as_tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    return asarray(data, dtype=dtype, device=device)


@public(home="torch")
def from_numpy(array: Any) -> Tensor:
    """Return a tensor of a NumPy array, in its dtype.

    The array is copied unless it is read-only: a tensor is a value, and later writes to the array
    must not change it. `wg.asarray(array, copy=False)` shares memory with a writeable array, on the
    promise that nobody writes to it any more.

    Raises DTypeError for anything but a NumPy array, and for dtypes that tensors cannot hold.

    >>> import numpy as np, wengert as wg
    >>> wg.torch.from_numpy(np.ones(2, np.float32))
    tensor([1., 1.])
    """
    if not isinstance(array, np.ndarray):
        fail(DTypeError, f"from_numpy of a {type(array).__name__}", "Use wg.asarray for other data.")
    return asarray(array)


@public
def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor of any array on the CPU that speaks DLPack (NumPy, PyTorch, JAX, ...).

    Parameters
    ----------
    x: an object with `__dlpack__` and `__dlpack_device__`.
    device: where to place it; None: "cpu".
    copy: True copies; None copies unless the producer says that the memory is read-only, as in
        :func:`wengert.asarray`; False shares memory, on the promise that nobody writes to it any more.

    Raises DTypeError for objects without DLPack and for data that NumPy cannot import.
    Source: https://dmlc.github.io/dlpack/latest/python_spec.html

    >>> import numpy as np, wengert as wg
    >>> wg.from_dlpack(np.arange(3))
    tensor([0, 1, 2])
    """
    if isinstance(x, Tensor):
        return asarray(x, copy=copy, device=device)
    if not hasattr(x, "__dlpack__"):
        fail(DTypeError, f"from_dlpack of a {type(x).__name__}, which has no __dlpack__", "Use wg.asarray.")
    try:
        array = np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        fail(DTypeError, f"NumPy cannot import this {type(x).__name__} through DLPack: {e}", "Use wg.asarray(x).")
    return asarray(array, copy=copy, device=device)
