"""NumPy's functions in front of tensors: NumPy asks its arguments, and what comes back is a tensor."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..core.tensor import asarray as tensor_of
from ..ops.structure.assemble import stack

# The kinds of dtypes that tensors hold; arrays of texts and objects stay NumPy's.
_NUMBERS = "biufc"


def holds_tensors(value: Any) -> bool:
    """Return whether a tensor is among nested lists."""
    return isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and any(map(holds_tensors, value)))


def as_tensors(found: Any) -> Any:
    """Return results of NumPy's with their arrays of numbers as tensors."""
    if isinstance(found, (np.ndarray, np.generic)):
        is_held = found.dtype.kind in _NUMBERS and found.dtype.itemsize <= (16 if found.dtype.kind == "c" else 8)
        return tensor_of(found) if is_held else found
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        return type(found)(*map(as_tensors, found))
    return type(found)(map(as_tensors, found)) if type(found) in (list, tuple) else found


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
        return as_tensors(self._ufunc(*map(_argument, inputs), **kwargs))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ufunc, name)
        return front(found, name) if callable(found) else found

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r} of wengert.numpy>"


def front(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function of NumPy's that gives tensors."""

    def run(*args: Any, **kwargs: Any) -> Any:
        named = {key: _argument(value) for key, value in kwargs.items()}
        return as_tensors(function(*map(_argument, args), **named))

    run.__name__ = run.__qualname__ = name
    run.__doc__ = function.__doc__
    return run


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
    if name.startswith("_") or (found is None and name not in dir(module)):
        raise AttributeError(f"module 'wengert.{module.__name__}' has no attribute {name!r}")
    return found
