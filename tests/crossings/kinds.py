"""The kinds of value that the crossings give to idioms: where the numbers come from and how they lie in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

_VALUES = np.array([0.7, -1.3, 0.4, 2.1])


class Kind(NamedTuple):
    """A kind of value: an array of its `k`-th value, and what a program would have made of it.

    `inside` gives the tensor that the idiom is about, where the value is a pytree.
    """

    name: str
    array: Callable[[int], np.ndarray]
    value: Callable[[np.ndarray], Any]
    inside: Callable[[Any], Any] = lambda v: v
    differentiable: bool = True


def _numbers(dtype: Any) -> Callable[[int], np.ndarray]:
    return lambda k: (_VALUES * (1 + 0.23 * k)).astype(dtype)


def _complex(k: int) -> np.ndarray:
    return (_VALUES + 1j * np.array([0.3, 0.9, -0.6, 0.2])) * (1 + 0.23 * k)


def _scalar(dtype: Any) -> Callable[[int], np.ndarray]:
    return lambda k: np.asarray(0.7 + 0.23 * k, dtype)


def _strided(a: np.ndarray) -> wg.Tensor:
    """The numbers as every third of every second column, backwards."""
    wide = np.zeros((3 * a.size, 2), a.dtype)
    wide[::3, 1] = a[::-1]
    return wg.tensor(wide)[::3, 1][::-1]


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("float64", _numbers(np.float64), wg.tensor),
        Kind("float32", _numbers(np.float32), wg.tensor),
        Kind("computed", _numbers(np.float64), lambda a: wg.tensor(a / 2) * 2),
        Kind("computed 0-d", _scalar(np.float64), lambda a: (wg.tensor([a / 2, a / 2])).sum()),
        Kind("sliced", _numbers(np.float64), _strided),
        Kind("empty", lambda k: np.zeros(0), wg.tensor),
        Kind("complex", _complex, wg.tensor),
        Kind("uint8", lambda k: np.array([1, 0, 3, 2], np.uint8) + np.uint8(k), wg.tensor, differentiable=False),
        Kind("NumPy array", _numbers(np.float64), np.array),
        Kind("NumPy scalar", _scalar(np.float64), lambda a: a[()]),
        Kind("function of a number", _scalar(np.float64), lambda a: wg.sqrt(float(a) ** 2)),
        Kind("pytree", _numbers(np.float64), lambda a: {"x": [wg.tensor(a)]}, lambda v: v["x"][0]),
    )
}
