"""`ndarray`: Wengert's tensor with NumPy's methods and NumPy's rules for dtypes.

What operations on such a tensor give is one too; it is laid out as every tensor of Wengert, so that graphs, derivatives
and compiled code know no difference. Its methods, the dtypes that meet in its operators and writes to its slices
mean what they mean in NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import DType, is_foreign
from ..core.errors import WriteError, fail
from ..core.ops.op import Meaning
from ..core.spec import category as category_of
from ..core.spec import complex_dtype, float64, scalar_category
from ..core.spec import promote as promote_half
from ..core.tensor import Tensor, new, of_class
from ..ops.index.views import THROUGH
from ..ops.pointwise.logic import ON_BOOLEANS

_COMPLEX128 = np.dtype(np.complex128)
_INT64 = np.dtype(np.int64)


def _promote(a: DType, b: DType) -> DType:
    """Return the dtype of an operation on both: float32 with int64 is float64, as int64's numbers do not fit."""
    return promote_half(a, b) if is_foreign(a) or is_foreign(b) else np.promote_types(a, b)


def _promote_scalar(dtype: DType, value: Any) -> DType:
    """Return the dtype with a Python number: one of another kind brings the widest dtype of its kind (NEP 50)."""
    have, need = category_of(dtype), scalar_category(value)
    if need <= have:
        return dtype
    if need == 3:
        return complex_dtype(dtype) if have == 2 else _COMPLEX128
    return float64 if need == 2 else _INT64


def _floats(op: Any, dtype: DType) -> DType:
    """Return the floating dtype in which an op takes integers: that of NumPy's ufunc, where it is one."""
    if isinstance(op.forward, np.ufunc):
        return op.forward.resolve_dtypes((dtype,) * op.forward.nin + (None,) * op.forward.nout)[-1]
    return float64


class _Arrays(type):
    """The class of `ndarray`: an array of NumPy's is an instance too, as programs ask for either by that name."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (cls is ndarray and isinstance(instance, np.ndarray))


class ndarray(Tensor, metaclass=_Arrays):
    """A tensor with NumPy's methods, which remembers how it was computed.

    Functions of :mod:`wengert.numpy` make such tensors, and operations on one give one. Operators follow NumPy 2: whole
    numbers divided are float64, booleans added and multiplied are `or` and `and`. A slice is a view, and a write to it
    reaches the tensor that it was taken from.

    `ndarray(shape, dtype=float)` has zeros.

    >>> import wengert.numpy as np
    >>> x = np.arange(6).reshape(2, 3)
    >>> x[1, :2] = 7
    >>> (x / 2).dtype, x.max(axis=1).tolist(), x.var(ddof=1).round(2).item()
    (dtype('float64'), [2, 7], 9.47)
    """

    __slots__ = ()

    writes_through = THROUGH
    meaning = Meaning(ON_BOOLEANS)
    promote = staticmethod(_promote)
    promote_scalar = staticmethod(_promote_scalar)
    floats = staticmethod(_floats)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return new(cls)

    def __init__(self, shape: Any, dtype: Any = float) -> None:
        super().__init__(np.zeros(shape, dtype))

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        super().__array_namespace__(api_version=api_version)  # which refuses an unknown version
        return sys.modules["wengert.numpy"]

    def __hash__(self) -> int:
        if self.requires_grad and self.is_leaf:
            return object.__hash__(self)  # an optimiser keeps its state by it
        if self.ndim:
            raise TypeError(f"unhashable type: 'ndarray', of the shape {self.shape}")
        number = (bool, int, float, complex)[category_of(self.dtype)]  # by these compiled code may decide
        return hash(number(self))

    @property
    def flat(self) -> Any:
        """All elements in C order, a view of one axis."""
        return self.reshape(-1)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """Return the elements in another shape, `reshape(2, 3)` or `reshape((2, 3))`; one size may be -1.

        `order` is "C", or "F" for elements whose first index runs first.
        """
        sizes = shape[0] if len(shape) == 1 else shape
        if order == "C":
            found = super().reshape(sizes)
        else:
            found = FUNCTIONS["reshape"](self, sizes, order=order)
        return found.clone() if copy else found

    def transpose(self, *axes: Any) -> Any:
        """Return the axes in another order, reversed if none is given: `transpose(1, 0)`, `transpose((1, 0))`."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return FUNCTIONS["transpose"](self, order)

    def astype(  # type: ignore[override]
        self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """Return the numbers in another dtype; with `copy=False` the tensor itself where it has it.

        Raises TypeError for a conversion that `casting` does not allow.
        """
        wanted = np.dtype(dtype)  # `float` is float64 here
        if not np.can_cast(self.dtype, wanted, casting):
            raise TypeError(f"cannot cast from {self.dtype} to {wanted} according to the rule {casting!r}")
        return self.clone() if copy and wanted == self.dtype else super().astype(wanted, copy=copy)

    def copy(self, order: str = "C") -> Any:
        """Return a copy through which gradients flow."""
        return self.clone()

    def flatten(self, order: str = "C") -> Any:  # type: ignore[override]
        """Return a copy with one axis."""
        return self.reshape(-1, order=order).clone()

    def item(self, *place: Any) -> Any:
        """Return an element as a Python number: the only one, or that at an index, of the flat tensor or by axes."""
        if not place:
            return super().item()
        index = place[0] if len(place) == 1 else place
        return (self if isinstance(index, tuple) else self.flat)[index].item()

    def fill(self, value: Any) -> None:
        """Write a number to all elements."""
        self[...] = value

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write values to places of the flat tensor. Raises ValueError for a `mode` other than "raise"."""
        if mode != "raise":
            raise ValueError(f"put with mode={mode!r}: places outside are an error, write to x.flat[i % x.size]")
        flat = self.flat
        flat[indices] = values

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:  # type: ignore[override]
        """Sort in place; `np.sort(x)` gives a sorted copy."""
        self[...] = FUNCTIONS["sort"](self, axis=axis, kind=kind, order=order, stable=stable)

    def view(self, dtype: Any = None, type: Any = None) -> Any:  # type: ignore[override]
        """Return a view of all elements. Raises WriteError for another dtype: a tensor's bytes cannot be seen."""
        if dtype is not None and np.dtype(dtype) != self.dtype:
            fail(WriteError, f"view({dtype!r}) of {self.spec}", "x.astype(dtype) converts the numbers.")
        return self[...]

    def tobytes(self, order: Any = "C") -> bytes:
        """Return the bytes of the elements."""
        return np.asarray(self).tobytes(order)

    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Any:
        """Return the parts along an axis, or elements of the flat tensor, for which `condition` is true."""
        return FUNCTIONS["compress"](condition, self, axis=axis, **({} if out is None else {"out": out}))

    def dot(self, b: Any, out: Any = None) -> Any:
        """Return the product that `np.dot` gives."""
        return FUNCTIONS["dot"](self, b) if out is None else FUNCTIONS["dot"](self, b, out=out)

    def __round__(self, ndigits: int | None = None) -> Any:
        """Round a number: to an int, or to so many decimals. Raises TypeError for a tensor with axes."""
        if self.shape:
            raise TypeError(f"round() of a tensor with axes, {self.spec}: write np.round(x, decimals)")
        return int(self.round().item()) if ndigits is None else FUNCTIONS["round"](self, ndigits)


ndarray.result_class = ndarray

# NumPy's methods that are functions of the same name and arguments.
_METHODS = """
all any argmax argmin argpartition argsort choose clip conj conjugate cumprod cumsum diagonal max mean min
nonzero prod ravel repeat round searchsorted squeeze std sum swapaxes take trace var
"""


# The functions of :mod:`wengert.numpy` by name, which that module puts here when it has made them.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _method(name: str) -> Callable[..., Any]:
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        return FUNCTIONS[name](self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"ndarray.{name}"
    method.__doc__ = f"Return what `np.{name}` of :mod:`wengert.numpy` gives."
    return method


for _name in _METHODS.split():
    setattr(ndarray, _name, _method(_name))


def as_array(found: Any) -> Any:
    """Return a result with its new tensors as of NumPy's meaning."""
    if isinstance(found, Tensor):
        return of_class(ndarray, found)
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        return type(found)(*map(as_array, found))
    return type(found)(map(as_array, found)) if type(found) in (list, tuple) else found
