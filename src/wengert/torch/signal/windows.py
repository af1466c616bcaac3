"""Windows with PyTorch's names and keywords: `torch.signal.windows`, symmetric unless `sym=False`.

>>> import wengert.torch as torch
>>> torch.signal.windows.hann(5)
tensor([0. , 0.5, 1. , 0.5, 0. ])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.errors import ShapeError, fail
from ...core.spec import default_float
from ...core.tensor import asarray
from ..namespace import as_torch
from ..tensor import Tensor, dtype_of, on_cpu

WINDOWS: dict[str, Callable[..., Any]] = {}


def window(fn: Callable[..., Any]) -> Any:
    """Declare a window: `fn(k, steps, ...)` gives its values at places k around its middle, `steps` from end to end."""
    name = fn.__name__.strip("_")

    def make(
        M: int,
        *args: Any,
        sym: bool = True,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **parameters: Any,
    ) -> Tensor:
        on_cpu(device)
        if M < 0:
            fail(ShapeError, f"{name}: a window of {M} elements")
        made = as_torch(asarray(sampled(fn, M, sym, *args, **parameters), dtype=_wanted(dtype)))
        return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]

    make.__name__ = make.__qualname__ = name
    make.__doc__ = fn.__doc__
    WINDOWS[name] = make
    return fn


def _wanted(dtype: Any) -> Any:
    return default_float() if dtype is None else dtype_of(dtype)


def sampled(fn: Callable[..., Any], count: int, symmetric: bool, *args: Any, **parameters: Any) -> Any:
    """Return a window's values in float64; one that is not symmetric is a longer one without its last element."""
    if count == 0:
        return np.zeros(0)
    if count == 1:
        return np.ones(1)
    steps = count - 1 if symmetric else count
    return fn(np.arange(count) - steps / 2, steps, *args, **parameters)


@window
def _exponential(k: Any, steps: int, *, center: float | None = None, tau: float = 1.0) -> Any:
    """Return a window that falls off as exp(-|n - center| / tau); `center` is the middle unless it is given."""
    place = k if center is None else k + steps / 2 - center
    return np.exp(-np.abs(place) / tau)


@window
def _gaussian(k: Any, steps: int, *, std: float = 1.0) -> Any:
    """Return a window that falls off as a normal density of standard deviation `std`."""
    return np.exp(-((k / std) ** 2) / 2)


@window
def _cosine(k: Any, steps: int) -> Any:
    """Return half a period of a cosine; its ends lie half a step inside the zeros."""
    return np.cos(np.pi * k / (steps + 1))


@window
def _general_cosine(k: Any, steps: int, a: Sequence[float]) -> Any:
    """Return a sum of cosines of one period, two, and so on, with the weights `a`."""
    return sum(weight * np.cos(2 * np.pi * i * k / steps) for i, weight in enumerate(a))


@window
def _general_hamming(k: Any, steps: int, *, alpha: float = 0.54) -> Any:
    """Return `alpha` plus 1 - alpha times a cosine of one period."""
    return _general_cosine(k, steps, (alpha, 1.0 - alpha))


@window
def _hamming(k: Any, steps: int) -> Any:
    """Return Hamming's window, 0.54 plus 0.46 times a cosine."""
    return _general_hamming(k, steps)


@window
def _hann(k: Any, steps: int) -> Any:
    """Return Hann's window, half of 1 plus a cosine."""
    return _general_hamming(k, steps, alpha=0.5)


@window
def _blackman(k: Any, steps: int) -> Any:
    """Return Blackman's window of three cosines."""
    return _general_cosine(k, steps, (0.42, 0.5, 0.08))


@window
def _nuttall(k: Any, steps: int) -> Any:
    """Return Nuttall's window of four cosines."""
    return _general_cosine(k, steps, (0.3635819, 0.4891775, 0.1365995, 0.0106411))


@window
def _bartlett(k: Any, steps: int) -> Any:
    """Return a triangle, 0 at both ends."""
    return 1.0 - np.abs(2.0 * k / steps)


@window
def _kaiser(k: Any, steps: int, *, beta: float = 12.0) -> Any:
    """Return Kaiser's window, of Bessel functions; `beta` is large for a narrow one."""
    inside = np.clip(1.0 - (2.0 * k / steps) ** 2, 0.0, None)
    return np.i0(beta * np.sqrt(inside)) / np.i0(beta)


globals().update(WINDOWS)
__all__ = sorted(WINDOWS)


def __dir__() -> list[str]:
    return sorted(__all__)
