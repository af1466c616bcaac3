"""NumPy's functions that make arrays of what they are given, of which tensors may be parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.arrays import to_numpy
from ..core.standins import over_array
from ..core.tensor import Tensor
from .namespace import as_tensors, holds_tensors, joined, ours
from .ndarray import FUNCTIONS, ndarray


def array(object: Any, dtype: Any = None, *, copy: bool | None = True, order: Any = None, ndmin: int = 0) -> Any:
    """Return a tensor of what is given: numbers, arrays, tensors and nested lists of them, in NumPy's dtypes.

    Parameters
    ----------
    object: numbers are float64 or int64 unless `dtype` says otherwise; gradients flow to tensors among them.
    copy: True for a tensor of its own; otherwise a tensor is returned as it is where nothing has to change.
    order: taken and ignored: a tensor's layout in memory cannot be seen.
    ndmin: the least number of axes; new ones come first.

    Texts and objects give an array of NumPy's. Raises ShapeError for lists that are not rectangular.

    >>> import wengert as wg
    >>> import wengert.numpy as np
    >>> wg.grad(lambda x: np.sum(np.array([[x[0], 2.0], [x[1], x[0]]]) ** 2))(np.array([3.0, 4.0]))
    tensor([12.,  8.], dtype=float64)
    """
    if not holds_tensors(object):
        found = as_tensors(_array(object, dtype))
    else:
        found = joined(object) if not isinstance(object, Tensor) else ours(object.clone() if copy else object)
        found = found if dtype is None or found.dtype == np.dtype(dtype) else found.astype(dtype)
    if found.ndim < ndmin:
        found = found.reshape((*(1,) * (ndmin - found.ndim), *found.shape))
    return found


def _array(object: Any, dtype: Any) -> Any:
    """Return NumPy's array of what is given. Raises ShapeError for lists that are not rectangular."""
    try:
        return np.array(object, dtype=dtype)
    except ValueError as e:
        if dtype is None and "inhomogeneous" in str(e):
            to_numpy(object)  # which says what differs
        raise


def _check_device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')


def asarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None) -> Any:
    """Return :func:`array` of what is given, a tensor as it is where nothing has to change.

    A NumPy array is the memory of the tensor, where it is writeable: writes to either are seen by both.

    >>> import wengert.numpy as np
    >>> x = np.asarray([1, 2])
    >>> np.asarray(x) is x
    True
    """
    _check_device(device)
    if type(a) is np.ndarray and not copy and (dtype is None or np.dtype(dtype) == a.dtype) and a.dtype.kind in "biufc":
        return over_array(a, ndarray)
    return array(a, dtype, copy=copy)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None) -> Any:
    """Return a tensor of a shape filled with a number, or with what broadcasts to it; gradients flow to a tensor.

    >>> import wengert as wg
    >>> import wengert.numpy as np
    >>> wg.grad(lambda x: np.sum(np.full(3, x)))(np.array(2.0))
    tensor(3., dtype=float64)
    """
    _check_device(device)
    if not holds_tensors(fill_value):
        return as_tensors(np.full(shape, fill_value, dtype))
    return as_tensors(np.broadcast_to(array(fill_value, dtype), shape)).clone()


class Joined:
    """`np.r_[...]` and `np.c_[...]`: arrays, tensors, numbers and slices (`1:5`, `0:1:5j`), one after another.

    >>> import wengert as wg
    >>> import wengert.numpy as np
    >>> wg.grad(lambda x: np.sum(np.r_[x, 1.0, 0:3] ** 2))(np.array([1.0, 2.0]))
    tensor([2., 4.], dtype=float64)
    """

    def __init__(self, theirs: Any, join: str) -> None:
        self._theirs, self._join = theirs, join

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not any(map(holds_tensors, parts)):
            return as_tensors(self._theirs[key])
        if any(isinstance(part, str) for part in parts):
            raise TypeError("a text among what is joined with tensors: write np.concatenate(parts, axis)")
        found = [np.r_[part] if isinstance(part, slice) else part for part in parts]
        return FUNCTIONS[self._join]([FUNCTIONS["atleast_1d"](part) for part in found])


# By NumPy's names for them.
MADE: dict[str, Callable[..., Any]] = {"array": array, "full": full}
MADE |= dict.fromkeys(("asanyarray", "asarray", "ascontiguousarray", "asfortranarray"), asarray)
JOINED = {"r_": Joined(np.r_, "concatenate"), "c_": Joined(np.c_, "column_stack")}
