"""The methods that take a view, done at once where nothing is recorded: what the general path does, in less time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.mode import get_mode
from ...core.spec import spec_of
from ...core.state.blocks import to_come
from ...core.state.observer import observers
from ...core.storage import branch_off, enter, viewed
from ...core.tensor import new
from ..tensor import Tensor


class _General(Exception):
    """An exception for a call that is left to the general method."""


def _matrix(a: Any) -> Any:
    if a.ndim != 2:
        raise _General
    return a.T


def _last_swapped(a: Any) -> Any:
    return a.swapaxes(-1, -2)


def _swapped(a: Any, dim0: int, dim1: int) -> Any:
    return a.swapaxes(dim0, dim1)


def _permuted(a: Any, *dims: Any) -> Any:
    if not dims:
        raise _General
    return a.transpose(*dims)


def _unsqueezed(a: Any, dim: int) -> Any:
    at = dim + a.ndim + 1 if dim < 0 else dim
    if not 0 <= at <= a.ndim:
        raise _General
    return a[(*(_ALL,) * at, None)]


_ALL = slice(None)


def _squeezed(a: Any, *dim: int) -> Any:
    return a.squeeze(*dim)


def _shaped(a: Any, *shape: Any) -> Any:
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    if not a.flags.c_contiguous:
        raise _General
    found = a.reshape(sizes)
    if -1 not in sizes and found.shape != sizes:  # NumPy takes any negative size for a -1
        raise _General
    return found


def _flattened(a: Any) -> Any:
    if a.ndim < 2 or not a.flags.c_contiguous:
        raise _General
    return a.reshape(-1)


def _expanded(a: Any, *shape: Any) -> Any:
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    lead = len(sizes) - a.ndim
    if lead < 0 or not a.flags.c_contiguous or not a.size:
        raise _General
    strides = [0] * lead
    for n, size, stride in zip(sizes[lead:], a.shape, a.strides):
        if n != size and size != 1:
            raise _General
        strides.append(stride if n == size else 0)
    if min(sizes) < 1:
        raise _General
    return np.ndarray(sizes, a.dtype, a, 0, strides)


def _unbound(a: Any, dim: int = 0) -> list[Any]:
    lead = (_ALL,) * (dim + a.ndim if dim < 0 else dim)
    return [a[(*lead, i, ...)] for i in range(a.shape[dim])]


def _split(a: Any, size: int, dim: int = 0) -> list[Any]:
    if type(size) is not int or size < 1 or not a.shape[dim]:
        raise _General
    lead = (_ALL,) * (dim + a.ndim if dim < 0 else dim)
    return [a[(*lead, slice(i, i + size))] for i in range(0, a.shape[dim], size)]


def _chunked(a: Any, chunks: int, dim: int = 0) -> list[Any]:
    if type(chunks) is not int or chunks < 1:
        raise _General
    return _split(a, -(-a.shape[dim] // chunks), dim)


def _declare(name: str, take: Callable[..., Any], is_property: bool = False) -> None:
    """Let a method of tensors give the view, or the views, that `take` makes of an array, where nothing is recorded.

    For what `take` refuses in any way the general method is asked, which knows the words.
    """
    found = getattr(Tensor, name)
    general = found.fget if is_property else found

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if kwargs or observers or self.is_name or type(self) in to_come:
            return general(self, *args, **kwargs)
        if self.node is None or not get_mode().grad:
            data = viewed(self)
            if type(data) is np.ndarray:
                try:
                    part = take(data, *args)
                except (_General, TypeError, ValueError, IndexError):
                    return general(self, *args, **kwargs)
                return tuple([_view(self, p) for p in part]) if type(part) is list else _view(self, part)
        return general(self, *args, **kwargs)

    functools.update_wrapper(method, general)
    setattr(Tensor, name, property(method) if is_property else method)


def _view(x: Tensor, part: Any) -> Any:
    out: Any = new(x.result_class)
    out._data, out.node = part, None
    shape = part.shape
    out._spec = x._spec.family.get(shape) or spec_of(shape, part.dtype)
    enter(out, x)
    return out


_TAKES: dict[str, Callable[..., Any]] = {
    "t": _matrix,
    "transpose": _swapped,
    "swapaxes": _swapped,
    "swapdims": _swapped,
    "permute": _permuted,
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    "view": _shaped,
    "reshape": _shaped,
    "flatten": _flattened,
    "expand": _expanded,
    "unbind": _unbound,
    "split": _split,
    "chunk": _chunked,
}
for _name, _take in _TAKES.items():
    _declare(_name, _take)


_detach = Tensor.detach


@functools.wraps(_detach)
def _detached(self: Tensor) -> Any:
    if not observers and not self.is_name:
        data = viewed(self)
        if type(data) is np.ndarray:
            out: Any = new(self.result_class)
            out._data, out.node, out._spec = data, None, self._spec
            branch_off(out, self)
            return out
    return _detach(self)


Tensor.detach = _detached  # type: ignore[method-assign, assignment]
for _name, _take in {"T": _matrix, "mT": _last_swapped}.items():
    _declare(_name, _take, True)
