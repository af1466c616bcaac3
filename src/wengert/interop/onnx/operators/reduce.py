"""Reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ....core.spec import category
from ..registry import operator
from ..values import Known, ints
from .structure import axes_of

Function = Callable[..., Any]


def _logsumexp(x: Any, axes: Any, keep: bool) -> Any:
    return wg.logsumexp(x, axes, keep)


def _max(x: Any, axes: Any, keep: bool) -> Any:
    return _extreme(x, axes, keep, wg.max, low=True)


def _min(x: Any, axes: Any, keep: bool) -> Any:
    return _extreme(x, axes, keep, wg.min, low=False)


def _extreme(x: Any, axes: Any, keep: bool, function: Function, low: bool) -> Any:
    if any(x.shape[a] == 0 for a in axes):
        # Of nothing: the least or the greatest value of the dtype.
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes)
        if category(x.dtype) == 2:
            fill: Any = -np.inf if low else np.inf
        elif x.dtype == wg.bool:
            fill = not low
        else:
            info = np.iinfo(x.dtype)
            fill = info.min if low else info.max
        return wg.full(shape, fill, dtype=x.dtype)
    if x.dtype == wg.bool:
        return function(x.astype(wg.uint8), axes, keep).astype(wg.bool)
    return function(x, axes, keep)


def _cast_back(function: Function) -> Function:
    def run(x: Any, axes: Any, keep: bool) -> Any:
        return function(x, axes, keep).astype(x.dtype)

    return run


def _mean(x: Any, axes: Any, keep: bool) -> Any:
    if category(x.dtype) == 2:
        return wg.mean(x, axes, keep)
    count = 1
    for a in axes:
        count *= x.shape[a]
    return wg.floor_divide(wg.sum(x, axes, keepdims=keep).astype(x.dtype), count).astype(x.dtype)


def _float(x: Any) -> Any:
    return x if category(x.dtype) >= 2 else x.astype(wg.float64)


_RULES: dict[str, tuple[Function, int]] = {
    # The function, and the version since which the axes are an input.
    "ReduceL1": (lambda x, a, k: wg.sum(wg.abs(x), a, keepdims=k), 18),
    "ReduceL2": (lambda x, a, k: wg.sqrt(wg.sum(_float(x) * _float(x), a, keepdims=k)), 18),
    "ReduceLogSum": (lambda x, a, k: wg.log(_float(wg.sum(x, a, keepdims=k))), 18),
    "ReduceLogSumExp": (lambda x, a, k: _logsumexp(_float(x), a, k), 18),
    "ReduceMax": (_max, 18),
    "ReduceMean": (_mean, 18),
    "ReduceMin": (_min, 18),
    "ReduceProd": (lambda x, a, k: wg.prod(x, a, keepdims=k), 18),
    "ReduceSum": (lambda x, a, k: wg.sum(x, a, keepdims=k), 13),
    "ReduceSumSquare": (lambda x, a, k: wg.sum(x * x, a, keepdims=k), 18),
}


def _declare(name: str, function: Function, input_since: int) -> None:
    reduce = _cast_back(function)

    def by_attribute(x: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
        found = tuple(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
        return reduce(x, found, bool(keepdims)) if x.ndim else reduce(x.reshape((1,)), (0,), False)

    def by_input(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        given = None if axes is None else ints(axes)
        if not given and noop_with_empty_axes:
            # What is done to each element is done all the same.
            return reduce(x.reshape((*x.shape, 1)), (x.ndim,), False)
        return by_attribute(x, axes=given or None, keepdims=keepdims)

    def sizes(x: Known, axes: Any = None, *, keepdims: int = 1, **_: Any) -> Any:
        along: Any = tuple(ints(axes)) if isinstance(axes, np.ndarray) else axes
        return np.prod(x, axis=along, keepdims=bool(keepdims))

    symbolic = sizes if name == "ReduceProd" else None
    operator(name, symbolic=symbolic)(by_attribute)
    operator(name, since=input_since, static=(1,), symbolic=symbolic)(by_input)


for _name, (_function, _since) in _RULES.items():
    _declare(_name, _function, _since)


@operator("Hardmax")
def _hardmax_old(x: Any, *, axis: int = 1) -> Any:
    return _of_rows(x, axis, _hardmax)


@operator("Hardmax", since=13)
def _hardmax_operator(x: Any, *, axis: int = -1) -> Any:
    return _hardmax(x, axis)


def _hardmax(x: Any, axis: int) -> Any:
    (axis,) = axes_of((axis,), x.ndim)
    best = wg.argmax(x, axis, True)
    shape = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
    return (wg.arange(x.shape[axis]).reshape(shape) == best).astype(x.dtype)


def _of_rows(x: Any, axis: int, function: Function) -> Any:
    """Run a function over all axes from one on together, as operators before version 13 do."""
    start = axis + x.ndim if axis < 0 else axis
    rows: Any = 1
    for n in x.shape[:start]:
        rows = rows * n
    return function(x.reshape((rows, -1)), -1).reshape(x.shape)


def _softmax(name: str, function: Function) -> None:
    def old(x: Any, *, axis: int = 1) -> Any:
        return _of_rows(x, axis, function)

    def new(x: Any, *, axis: int = -1) -> Any:
        return function(x, axes_of((axis,), x.ndim)[0])

    operator(name)(old)
    operator(name, since=13)(new)


_softmax("Softmax", wg.softmax)
_softmax("LogSoftmax", wg.log_softmax)
