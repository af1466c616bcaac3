"""NumPy's functions in front of tensors: NumPy asks its arguments, and what comes back is a tensor."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..core.mode import get_mode, reset_mode, set_mode
from ..core.spec import float64
from ..core.tensor import Tensor
from ..core.tensor import asarray as tensor_of
from ..ops.structure.assemble import stack
from .ndarray import as_array

# The kinds of dtypes that tensors hold; arrays of texts and objects stay NumPy's.
_NUMBERS = "biufc"


def holds_tensors(value: Any) -> bool:
    """Return whether a tensor is among nested lists."""
    return isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and any(map(holds_tensors, value)))


def as_tensors(found: Any) -> Any:
    """Return results with their arrays of numbers and their tensors as tensors of this namespace."""
    if isinstance(found, Tensor):
        return as_array(found)
    if isinstance(found, (np.ndarray, np.generic)):
        is_held = found.dtype.kind in _NUMBERS and found.dtype.itemsize <= (16 if found.dtype.kind == "c" else 8)
        return as_array(tensor_of(found)) if is_held else found
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        return type(found)(*map(as_tensors, found))
    return type(found)(map(as_tensors, found)) if type(found) in (list, tuple) else found


def ours(x: Tensor) -> Tensor:
    """Return a tensor of Wengert's as one of this namespace, by another object; tensors of namespaces as they are."""
    found: Tensor = as_array(x.__copy__()) if type(x) is Tensor else x
    return found


def joined(value: Any) -> Any:
    """Return nested lists of numbers and tensors as one tensor, in the dtype that NumPy's `array` gives."""
    if not isinstance(value, (list, tuple)):
        return tensor_of(value)
    dtype = np.result_type(*_dtypes(value))

    def made(part: Any) -> Tensor:
        if not holds_tensors(part):
            return tensor_of(np.asarray(part, dtype))
        return stack([made(p) for p in part]) if isinstance(part, (list, tuple)) else part.astype(dtype)

    return made(value)


def _dtypes(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return [value.dtype]
    if isinstance(value, (list, tuple)) and holds_tensors(value):
        return [dtype for part in value for dtype in _dtypes(part)]
    return [np.asarray(value).dtype]


def _argument(value: Any) -> Any:
    """Return an argument, one list of numbers and 0-d tensors as a vector: NumPy does not look into such lists."""
    if isinstance(value, Tensor):
        return ours(value)
    if type(value) in (list, tuple) and holds_tensors(value):
        if all(map(_is_number, value)):
            return joined(value)
        return type(value)(map(_argument, value))
    return value


def _is_number(part: Any) -> bool:
    """Return whether a part of a list has no axes; without a look at values, which a traced tensor has none of."""
    return not part.shape if isinstance(part, Tensor) else not isinstance(part, (list, tuple)) and np.ndim(part) == 0


class Ufunc:
    """An elementwise function of NumPy's that gives tensors, with the methods of NumPy's: `np.add.outer(x, y)`."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc
        self.__name__ = self.__qualname__ = ufunc.__name__
        self.__doc__ = ufunc.__doc__

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return run(self._ufunc, inputs, kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ufunc, name)
        return front(found, name) if callable(found) else found

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r} of wengert.numpy>"


def run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a function of NumPy's gives, as tensors of this namespace: whole numbers become float64 in it."""
    token = set_mode(get_mode().with_floats(float64))
    try:
        found = function(*map(_argument, args), **{key: _argument(value) for key, value in kwargs.items()})
    finally:
        reset_mode(token)
    return as_tensors(found)


def front(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function of NumPy's that gives tensors."""

    def fronted(*args: Any, **kwargs: Any) -> Any:
        return run(function, args, kwargs)

    fronted.__name__ = fronted.__qualname__ = name
    fronted.__doc__ = function.__doc__
    return fronted


def functions_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the functions of a module of NumPy's by their names, giving tensors."""
    made: dict[str, Callable[..., Any]] = {}
    for name in module.__all__:
        found = getattr(module, name)
        if isinstance(found, np.ufunc):
            made[name] = Ufunc(found)
        elif callable(found) and not isinstance(found, type):
            made[name] = front(found, name)
    return made


def numpys_own(module: ModuleType, name: str) -> Any:
    """Return what NumPy has under a name. Raises AttributeError with the name of Wengert's module."""
    found = getattr(module, name, None)
    if (name.startswith("_") and name != "__version__") or (found is None and name not in dir(module)):
        raise AttributeError(f"module 'wengert.{module.__name__}' has no attribute {name!r}")
    return found
