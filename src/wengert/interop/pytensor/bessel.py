"""Rules for PyTensor's Bessel functions of known whole orders: few of J, as many of I as PyMC's models ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytensor.scalar.math as pm

import wengert as wg

from .called import by_element
from .convert import dtype_of, tensor
from .scalars import scalar_function

_MOST = 4
# Up to here the power series has no terms that are larger than the sum; from there on Hankel's has all digits.
_NEAR, _FAR = 2.0, 25.0
_NEAR_TERMS, _FAR_TERMS, _NODES = 14, 12, 16


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    return reduce(lambda value, c: value * x + c, reversed(coefficients), wg.zeros_like(x))


def _by_powers(x: Any, n: int) -> Any:
    half = 0.5 * x
    series = [(-1.0) ** k / (math.factorial(k) * math.factorial(n + k)) for k in range(_NEAR_TERMS)]
    return _polynomial(half * half, series) * half**n


def _by_mean(x: Any, n: int) -> Any:
    """Return Bessel's integral by the mean over points of the circle, of which a quarter is enough (DLMF 10.9.1)."""
    wave, of = (wg.sin, math.sin) if n % 2 else (wg.cos, math.cos)
    at = [(k + 0.5) * math.pi / (2 * _NODES) for k in range(_NODES)]
    return reduce(wg.add, (of(n * t) / _NODES * wave(x * math.sin(t)) for t in at))


def _by_phase(x: Any, n: int) -> Any:
    """Return Hankel's series (DLMF 10.17.3)."""
    a = [1.0]
    for k in range(1, 2 * _FAR_TERMS):
        a.append(a[-1] * (4 * n * n - (2 * k - 1) ** 2) / (8 * k))
    inverse = 1.0 / x
    square = -inverse * inverse
    along, across = _polynomial(square, a[::2]), _polynomial(square, a[1::2]) * inverse
    # cos and sin of x - (2 n + 1) pi / 4.
    c, s = (round(math.sqrt(2.0) * f((2 * n + 1) * math.pi / 4)) / math.sqrt(2.0) for f in (math.cos, math.sin))
    cosine, sine = wg.cos(x), wg.sin(x)
    return wg.sqrt(2.0 / math.pi * inverse) * (along * (cosine * c + sine * s) - across * (sine * c - cosine * s))


def _of_order(n: int, x: Any) -> Any:
    size = wg.abs(x)
    near, far = _by_powers(wg.minimum(size, _NEAR), abs(n)), _by_phase(wg.clip(size, _FAR, math.inf), abs(n))
    middle = _by_mean(wg.minimum(size, _FAR), abs(n))
    found = wg.where(size < _NEAR, near, wg.where(size < _FAR, middle, far))
    found = wg.where(wg.isinf(x), 0.0, found)
    found = wg.where(x < 0, -found, found) if n % 2 else found
    return -found if n < 0 and n % 2 else found


def _fixed(n: int) -> Callable[..., Any]:
    return lambda op, node: lambda x: _of_order(n, tensor(x, dtype_of(node)))


scalar_function.register(pm.J0, _fixed(0))
scalar_function.register(pm.J1, _fixed(1))


@scalar_function.register(pm.Jv)
def _of_given_order(op: Any, node: Any) -> Callable[..., Any]:
    def run(order: Any, x: Any) -> Any:
        given = None if isinstance(order, wg.Tensor) else np.unique(order)
        if given is None or given.size != 1 or given[0] != np.rint(given[0]) or abs(given[0]) > _MOST:
            return by_element(op, node)(order, x)
        return _of_order(int(given[0]), tensor(x, dtype_of(node)))

    return run


# -- modified ones

_MOST_MODIFIED = 24
# As above, for I: its series has no cancellation, the mean none of these orders from here on.
_SERIES_BELOW, _PHASE_FROM = 40.0, 500.0
_SERIES_TERMS, _MEAN_NODES, _PHASE_TERMS = 90, 160, 16


def _modified(orders: Any, x: Any) -> Any:
    """Return exp(-|x|) I of whole orders, an array that broadcasts with x."""
    n = np.abs(orders)
    size = wg.abs(x)
    close = wg.minimum(size, _SERIES_BELOW)
    half = 0.5 * close
    square = half * half
    series = wg.ones_like(half + n)
    for k in range(_SERIES_TERMS, 0, -1):
        series = 1.0 + series * square / (k * (n + k))
    power = wg.where(half > 0, half, 1.0) ** wg.asarray(n)
    power = wg.where((half > 0) | (n == 0), power, 0.0)
    near = series * power * np.exp([-math.lgamma(m + 1.0) for m in n.ravel()]).reshape(n.shape) * wg.exp(-close)

    at = (np.arange(_MEAN_NODES) + 0.5) * math.pi / _MEAN_NODES
    bounded = wg.expand_dims(wg.clip(size, _SERIES_BELOW, _PHASE_FROM), axis=-1)
    waves = np.cos(n[..., None] * at) / _MEAN_NODES
    middle = wg.sum(wg.exp(bounded * (np.cos(at) - 1.0)) * waves, axis=-1)

    large = wg.clip(size, _PHASE_FROM, math.inf)
    term, far = wg.ones_like(large + n), wg.ones_like(large + n)
    for k in range(1, _PHASE_TERMS):
        term = term * -(4.0 * n * n - (2 * k - 1) ** 2) / (8 * k) / large
        far = far + term
    far = far / wg.sqrt(2.0 * math.pi * large)
    found = wg.where(size < _SERIES_BELOW, near, wg.where(size < _PHASE_FROM, middle, far))
    return wg.where((x < 0) & (n % 2 == 1), -found, found)


def _of_known_orders(op: Any, node: Any) -> Callable[..., Any]:
    def run(order: Any, x: Any) -> Any:
        orders = np.full((), math.nan) if isinstance(order, wg.Tensor) else np.asarray(order, np.float64)
        if not (np.abs(orders) <= _MOST_MODIFIED).all() or (orders != np.rint(orders)).any():
            return by_element(op, node)(order, x)
        x = tensor(x, dtype_of(node))
        found = _modified(orders, tensor(x, np.float64))
        return found * wg.exp(wg.abs(x)) if isinstance(op, pm.Iv) else found

    return run


# -- of the second kind

_POINTS, _REACH = 128, 40.0


def _second_kind(order: Any, x: Any) -> Any:
    """Return exp(x) K of a real order at x > 0: the integral of exp(-x (cosh t - 1)) cosh(order t) (DLMF 10.32.9).

    The trapezoidal rule has all digits, for the integrand is analytic and falls off fast around its peak.
    """
    order = wg.abs(order)
    size = wg.stop_gradient(wg.hypot(order, x))
    peak = wg.stop_gradient(wg.asinh(order / x))
    above = wg.acosh(1.0 + _REACH / size)
    first = wg.maximum(peak - _REACH / size - wg.sqrt(2.0 * _REACH / size), 0.0)
    step = (peak + above - first) / _POINTS
    number = np.arange(_POINTS + 1.0)
    t = wg.expand_dims(first, axis=-1) + wg.expand_dims(step, axis=-1) * number
    # Of an even function, from its middle on, the first value counts half.
    is_half = wg.expand_dims(first == 0.0, axis=-1) & (number == 0.0)
    weight = wg.where(is_half, 0.5, 1.0) * wg.expand_dims(step, axis=-1)
    x, order = wg.expand_dims(x, axis=-1), wg.expand_dims(order, axis=-1)
    half = wg.sinh(0.5 * wg.expand_dims(peak, axis=-1))
    top = wg.stop_gradient(order * wg.expand_dims(peak, axis=-1) - 2.0 * x * half * half)
    bend = wg.sinh(0.5 * t)
    terms = wg.exp(order * t - 2.0 * x * bend * bend - top) * (0.5 + 0.5 * wg.exp(-2.0 * order * t))
    return wg.sum(weight * terms, axis=-1) * wg.exp(wg.squeeze(top, axis=-1))


@scalar_function.register(pm.Kve)
def _modified_of_second_kind(op: Any, node: Any) -> Callable[..., Any]:
    def run(order: Any, x: Any) -> Any:
        order, x = wg.broadcast_arrays(tensor(order, np.float64), tensor(x, np.float64))
        inside = (x > 0.0) & (x < math.inf)
        found = _second_kind(order, wg.where(inside, x, 1.0))
        edge = wg.where(x == 0.0, math.inf, wg.where(x == math.inf, 0.0, math.nan))
        return wg.where(inside, found, edge)

    return run


scalar_function.register(pm.Ive, _of_known_orders)
scalar_function.register(pm.Iv, _of_known_orders)
