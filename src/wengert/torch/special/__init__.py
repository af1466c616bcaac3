"""PyTorch's `torch.special`: special functions of each element, differentiable to any order.

>>> import wengert.torch as torch
>>> torch.special.xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 1.0]))
tensor([0., 0.])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import DTypeError, fail
from ...core.state.refusals import refuse
from ...core.tensor import Tensor as Plain
from ..functions.elementwise import float_of, masked_at_zero, named, of_one, of_two
from ..namespace import FUNCTIONS

# -- erfcx


def _erfcx(x: Any) -> Any:
    """Return exp(x²) erfc(x); beyond 8, where erfc itself becomes too small, by the continued fraction (DLMF 7.9.1)."""
    x = float_of(x)
    large = x > 8.0
    near, far = wg.where(large, 1.0, x), wg.where(large, x, 9.0)
    tail: Any = far
    for k in range(24, 0, -1):
        tail = far + (k / 2) / tail
    return wg.where(large, 1 / (math.sqrt(math.pi) * tail), wg.exp(near * near) * wg.special.erfc(near))


# -- Bessel functions: by the trapezoidal rule of their integrals, which converges geometrically, and far from 0 by
# Hankel's expansion (DLMF 10.17.3).

_FAR = 25.0
_ANGLES = np.arange(128) * (2 * math.pi / 128)
_EULER = 0.57721566490153286
# What the sum over k of (-1)^k J_2k(x) / k is as one such rule (DLMF 10.8.2 with the integrals of 10.9.2).
_WEIGHTS = np.sum([(-1) ** k / k * np.cos(2 * k * _ANGLES) for k in range(1, 32)], axis=0) / 128


def _split(x: Any, far: float) -> tuple[Any, Any, Any]:
    """Return whether elements are beyond `far`, and them with a harmless number in place of those that are (not)."""
    beyond = x > far
    return beyond, wg.where(beyond, 1.0, x), wg.where(beyond, x, far)


def _mean(x: Any, fn: Callable[[Any, Any], Any], weights: Any) -> Any:
    """Return the weighted sum over angles of a function of x sin(angle) and the angle."""
    angle = wg.asarray(_ANGLES, dtype=x.dtype)
    terms = fn(wg.expand_dims(x, -1) * wg.sin(angle), angle)
    return wg.sum(terms * wg.asarray(np.broadcast_to(weights, (128,)), dtype=x.dtype), -1)


def _hankel(x: Any, order: int) -> tuple[Any, Any, Any]:
    """Return modulus and the two sums of Hankel's expansion, of J and Y of an order far from 0."""
    mu, term, p, q = 4.0 * order * order, 1.0, 1.0, 0.0
    z = 1 / (8 * x)
    power = z * 0 + 1.0
    for k in range(1, 24):
        term *= (mu - (2 * k - 1) ** 2) / k
        power = power * z
        if k % 2:
            q = q + (-1) ** (k // 2) * term * power
        else:
            p = p + (-1) ** (k // 2) * term * power
    phase = x - (order / 2 + 0.25) * math.pi
    return wg.sqrt(2 / (math.pi * x)), (p, q), (wg.cos(phase), wg.sin(phase))


def _bessel_j(order: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        x = float_of(x)
        # The integral holds on both sides of 0, and smoothly across it; the expansion is for positive numbers.
        beyond = wg.abs(x) > _FAR
        size, (p, q), (c, s) = _hankel(wg.where(beyond, wg.abs(x), _FAR), order)
        inner = _mean(wg.where(beyond, 1.0, x), lambda z, angle: wg.cos(z - order * angle), 1 / 128)
        outer = size * (p * c - q * s)
        return wg.where(beyond, outer if order == 0 else wg.sign(x) * outer, inner)

    return run


def _bessel_y(order: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        x = float_of(x)
        beyond, near, far = _split(x, _FAR)
        size, (p, q), (c, s) = _hankel(far, order)
        near = wg.where(near > 0, near, 1.0)
        log = wg.log(near / 2) + _EULER
        if order == 0:
            inner = log * _bessel_j(0)(near) - 2 * _mean(near, lambda z, angle: wg.cos(z), _WEIGHTS)
        else:  # minus the derivative of that of order 0
            slope = _mean(near, lambda z, angle: wg.sin(angle) * wg.sin(z), _WEIGHTS)
            inner = log * _bessel_j(1)(near) - _bessel_j(0)(near) / near - 2 * slope
        out = wg.where(beyond, size * (p * s + q * c), inner * (2 / math.pi))
        return wg.where(x > 0, out, wg.where(x == 0, -math.inf, math.nan))

    return run


def _scaled_k(order: int) -> Callable[[Any], Any]:
    """Return exp(x) K(x), by the integral of exp(-x (cosh t - 1)) cosh(order t) (DLMF 10.32.9)."""
    steps = np.arange(211) * 0.2
    weights = np.where(steps == 0, 0.1, 0.2)

    def run(x: Any) -> Any:
        x = float_of(x)
        valid = x > 0
        known = wg.where(valid, x, 1.0)
        # The integrand is the narrower the larger x is.
        scale = 1 / wg.sqrt(1 + wg.expand_dims(known, -1))
        half = wg.sinh(wg.asarray(steps / 2, dtype=x.dtype) * scale)
        terms = wg.exp(-2 * wg.expand_dims(known, -1) * half * half)
        if order:
            terms = terms * (1 + 2 * half * half)
        out = wg.sum(terms * wg.asarray(weights, dtype=x.dtype) * scale, -1)
        return wg.where(valid, out, wg.where(x == 0, math.inf, math.nan))

    return run


def _unscaled(scaled: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: scaled(x) * wg.exp(-float_of(x))


def _airy_ai(x: Any) -> Any:
    """Return Airy's function: its power series near 0, its expansions far from it (DLMF 9.4.1, 9.7.5, 9.7.9)."""
    x = float_of(x)
    below, above = x < -7.0, x > 2.5
    near = wg.where(below | above, 0.0, x)
    cube = near * near * near
    first: Any = wg.ones_like(near)
    second: Any = near
    f, g = first, second
    for k in range(1, 45):
        first = first * cube / ((3 * k - 1) * (3 * k))
        second = second * cube / ((3 * k) * (3 * k + 1))
        f, g = f + first, g + second
    series = 0.35502805388781724 * f - 0.25881940379280680 * g
    size = wg.where(below, -x, wg.where(above, x, 9.0))
    zeta = 2 / 3 * size * wg.sqrt(size)
    root = wg.sqrt(wg.sqrt(size))
    term, even, odd = 1.0, 1.0, 0.0
    power = zeta * 0 + 1.0
    for k in range(1, 16):
        term *= (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1))
        power = power / zeta
        if k % 2:
            odd = odd + (-1) ** (k // 2) * term * power
        else:
            even = even + (-1) ** (k // 2) * term * power
    phase = zeta - math.pi / 4
    wave = (wg.cos(phase) * even + wg.sin(phase) * odd) / (math.sqrt(math.pi) * root)
    # K of order 1/3 has the decaying one, by the same rule as the others.
    decay = wg.sqrt(size / 3) / math.pi * wg.exp(-zeta) * _scaled_k_third(zeta)
    return wg.where(below, wave, wg.where(above, decay, series))


def _scaled_k_third(x: Any) -> Any:
    steps = np.arange(60) * 0.1
    t = wg.asarray(steps, dtype=x.dtype) * 2 / wg.sqrt(1 + wg.expand_dims(x, -1))
    half = wg.sinh(t / 2)
    terms = wg.exp(-2 * wg.expand_dims(x, -1) * half * half) * wg.cosh(t / 3)
    weights = np.where(steps == 0, 0.1, 0.2)
    return wg.sum(terms * wg.asarray(weights, dtype=x.dtype), -1) / wg.sqrt(1 + x)


def _spherical_j0(x: Any) -> Any:
    return FUNCTIONS["sinc"](float_of(x) / math.pi)


# -- orthogonal polynomials: the one of order 1, and the step from k - 1 and k to k + 1

_Polynomial = tuple[Callable[[Any], Any], Callable[[int, Any, Any, Any], Any]]


def _chebyshev(first: Callable[[Any], Any]) -> _Polynomial:
    return first, lambda k, x, p, q: 2 * x * q - p


_CHEBYSHEV = {
    "t": _chebyshev(lambda x: x),
    "u": _chebyshev(lambda x: 2 * x),
    "v": _chebyshev(lambda x: 2 * x - 1),
    "w": _chebyshev(lambda x: 2 * x + 1),
}
_POLYNOMIALS: dict[str, _Polynomial] = {
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x, p, q: 2 * x * q - 2 * k * p),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, p, q: x * q - k * p),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * q - k * p) / (k + 1)),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * q - k * p) / (k + 1)),
    **{f"chebyshev_polynomial_{kind}": made for kind, made in _CHEBYSHEV.items()},
}


def _polynomial(made: _Polynomial, shifted: bool) -> Callable[[Any, Any], Any]:
    first, step = made

    def run(x: Any, n: Any) -> Any:
        x, order = float_of(x), n if isinstance(n, Plain) else wg.asarray(n)
        if order.is_abstract:
            refuse("a polynomial of an abstract order", "How many steps it takes depends on its value.", order)
        if order.spec.inexact:
            x = x.astype(wg.promote_types(x.dtype, order.dtype)) if order.ndim else x
            order = wg.trunc(order)
        most = int(wg.max(order)) if order.numel() else 0
        x = 2 * x - 1 if shifted else x
        before, now = 1.0, first(x)
        out = wg.where(order == 0, before, wg.where(order == 1, now, 0.0 * x))
        for k in range(1, most):
            before, now = now, step(k, x, before, now)
            out = wg.where(order == k + 1, now, out)
        return out

    return run


# -- the module's names

_ONE: dict[str, Callable[[Any], Any]] = {
    "airy_ai": _airy_ai,
    "bessel_j0": _bessel_j(0),
    "bessel_j1": _bessel_j(1),
    "bessel_y0": _bessel_y(0),
    "bessel_y1": _bessel_y(1),
    "digamma psi": wg.special.digamma,
    "entr": wg.special.entr,
    "erf": wg.special.erf,
    "erfc": wg.special.erfc,
    "erfcx": _erfcx,
    "erfinv": wg.special.erfinv,
    "exp2": FUNCTIONS["exp2"],
    "expit": wg.sigmoid,
    "expm1": wg.expm1,
    "gammaln": wg.special.lgamma,
    "i0 modified_bessel_i0": wg.special.i0,
    "i0e": wg.special.i0e,
    "i1 modified_bessel_i1": wg.special.i1,
    "i1e": wg.special.i1e,
    "log1p": wg.log1p,
    "log_ndtr": wg.special.log_ndtr,
    "modified_bessel_k0": _unscaled(_scaled_k(0)),
    "modified_bessel_k1": _unscaled(_scaled_k(1)),
    "ndtr": wg.special.ndtr,
    "ndtri": wg.special.ndtri,
    "scaled_modified_bessel_k0": _scaled_k(0),
    "scaled_modified_bessel_k1": _scaled_k(1),
    "sinc": FUNCTIONS["sinc"],
    "spherical_bessel_j0": _spherical_j0,
}
_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "gammainc": wg.special.gammainc,
    "gammaincc": wg.special.gammaincc,
    "xlog1py": masked_at_zero(wg.special.xlog1py, -1.0),
    "xlogy": masked_at_zero(wg.special.xlogy, 0.0),
    "zeta": wg.special.zeta,
}
_TWO |= {name: _polynomial(made, False) for name, made in _POLYNOMIALS.items()}
_TWO |= {f"shifted_chebyshev_polynomial_{kind}": _polynomial(made, True) for kind, made in _CHEBYSHEV.items()}


def _declare(made: Callable[..., Any], table: Mapping[str, Callable[..., Any]]) -> None:
    for names, fn in table.items():
        for name in names.split():
            globals()[name] = named(made(fn), name, f"Return `{name}` of each element.")


_declare(of_one, _ONE)
_declare(of_two, _TWO)
logit, polygamma, round = FUNCTIONS["logit"], FUNCTIONS["polygamma"], FUNCTIONS["round"]
logsumexp, softmax, log_softmax = FUNCTIONS["logsumexp"], FUNCTIONS["softmax"], FUNCTIONS["log_softmax"]
multigammaln = FUNCTIONS["mvlgamma"]

__all__ = sorted(name for names in (*_ONE, *_TWO) for name in names.split())
__all__ += ["log_softmax", "logit", "logsumexp", "multigammaln", "polygamma", "round", "softmax"]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'wengert.torch.special' has no attribute {name!r}")
