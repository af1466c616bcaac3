"""Indices with PyTorch's meaning, where NumPy's differs, for `x[...]` and `x[...] = v`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.mode import get_mode
from ..core.tensor import Tensor as Plain
from .tensor import Tensor

_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})
_NESTED = (list, tuple, slice, type(None), type(Ellipsis), Plain, np.ndarray)


def read(x: Plain, index: Any) -> tuple[Plain, Any]:
    """Return a tensor and an index that mean by NumPy's rules what `x[index]` means in PyTorch.

    There integers are taken before arrays, so that they do not part them; a tensor without axes is an integer, one of
    uint8 a mask, and a list with anything but numbers in it a tuple. Raises ValueError for a step that is not positive.
    """
    kind = type(index)
    if kind is int:
        return x, index
    if kind is tuple and _BASIC.issuperset(map(type, index)):
        for item in index:
            if type(item) is slice:
                _check(item)
        return x, index
    if kind is list and len(index) < 32 and any(isinstance(item, _NESTED) for item in index):
        index = tuple(index)
    if type(index) is not tuple:
        return x, _item(index)
    items = [_item(item) for item in index]
    if not any(_is_int(item) for item in items) or all(type(item) in _BASIC for item in items):
        return x, tuple(items)
    first: list[Any] = []
    rest: list[Any] = []
    for item in items:
        if _is_int(item):
            first.append(item)
        elif item is None or type(item) is slice:
            first.append(item)
            rest.append(slice(None))
        elif item is Ellipsis:
            first.append(item)
            rest.append(item)
        else:
            first += [slice(None)] * _span(item)
            rest.append(item)
    return x[tuple(first)], tuple(rest)


def _check(item: slice) -> None:
    if type(item.step) is int and item.step <= 0:
        raise ValueError("step must be greater than zero: PyTorch has no slices in reverse; write x.flip(dim)")


def _is_int(item: Any) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def _item(item: Any) -> Any:
    if type(item) is slice:
        _check(item)
    elif _is_int(item):
        return int(item)
    elif isinstance(item, (Plain, np.ndarray)):
        if item.dtype == np.uint8:
            return item.astype(bool)
        if not item.shape and item.dtype.kind == "i":
            if isinstance(item, np.ndarray):
                return int(item)
            if item._array is not None and not item.is_weak and not get_mode().tracing:
                return int(item._array)
    return item


def _span(item: Any) -> int:
    """Return the number of axes that a sequence or array indexes: a mask has as many as it picks from."""
    if not isinstance(item, (Plain, np.ndarray)):
        item = np.asarray(item)
    return item.ndim if item.dtype.kind == "b" else 1


Tensor.read_index = staticmethod(read)
