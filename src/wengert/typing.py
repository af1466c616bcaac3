"""Types for annotations: `wg.typing`.

`TensorLike` is what functions take where they compute with tensors; `DTypeLike` is what names a dtype.

>>> import wengert as wg
>>> def energy(x: wg.typing.TensorLike) -> wg.Tensor:
...     return wg.sum(wg.square(x))
>>> energy([3.0, 4.0])
tensor(25.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, Union

import numpy as np

from .core.tensor import Tensor

__all__ = ["Axes", "DTypeLike", "Size", "SupportsArray", "TensorLike"]


class SupportsArray(Protocol):
    """An object that NumPy takes for an array, by its method `__array__`: another library's array, a data frame."""

    def __array__(self) -> np.ndarray[Any, Any]:
        """Return the object as a NumPy array."""
        ...


# A tensor, an array, a Python number, or nested sequences of these.
TensorLike: TypeAlias = Union[
    Tensor, np.ndarray[Any, Any], np.generic, bool, int, float, complex, SupportsArray, Sequence["TensorLike"]
]
# A dtype as `wg.float32`, as a NumPy or Python type, or by its name.
DTypeLike: TypeAlias = np.dtype[Any] | type[Any] | str
# One axis or several; one size or a shape.
Axes: TypeAlias = int | Sequence[int]
Size: TypeAlias = int | Sequence[int]


def __dir__() -> list[str]:
    return sorted(__all__)
