"""The incomplete gamma functions, and every derivative of them in the shape parameter.

With h(x) = x**a exp(-x) / Gamma(a), the density of the logarithm of a gamma variate, P(a, x) = h T and
Q(a, x) = h G, where

    T = sum over k of x**k / (a (a+1) ... (a+k)) = integral over v > 0 of exp(x (1 - exp(-v)) - a v)
    G = integral over u > 0 of exp(a u - x (exp(u) - 1)).

The sum is used for small a, the integrals elsewhere: their integrands fall from 1 monotonically, so a
Gauss-Legendre rule over the stretch down to exp(-42) is exact to rounding for every a and x. A
derivative in `a` multiplies them by -v or u: nothing cancels where the value itself does not.
"""

from __future__ import annotations

import math
from math import comb
from typing import Any

import numpy as np

from ...core.ops.declare import broadcasting, elementwise, op
from ...core.ops.op import Algebra, Call, Missing, Op, Partial
from ...core.ops.sampling import binary
from ...core.spec import float64
from ..pointwise.arithmetic import exp, log
from ..pointwise.selection import where
from ..pointwise.xlogy import xlogy
from ..structure.shapes import cast
from .gamma import STIRLING, _lgamma, _lgamma_2_plus, digamma, lgamma, polygamma_op
from .wide import Array, choose, exp_remainder, gauss_legendre, horner, in_float64, log_remainder, summed

NODES = 48
SERIES_BELOW = 10.0  # in a
TERMS = 200  # of a series, at most
LEAST_SHAPE = 1e-300  # the reciprocals of lesser ones overflow; P is 1 there, to rounding
DEPTH = 42.0  # exp(-42) is less than half a unit in the last place

_NO_ONNX = Missing("ONNX has no such operator")


def log_density(a: Any, w: Any, x: Any, log_gamma: Any, xp: Any = np) -> Any:
    """Return log(x**a exp(-x) / Gamma(a)) at x = exp(w), by the logarithm of Gamma(a)."""
    large = xp.maximum(a, SERIES_BELOW)
    inverse = 1.0 / large
    correction = inverse * horner(inverse * inverse, STIRLING, xp)
    away = (x - large) * inverse
    bent = xp.where(xp.abs(away) < 0.5, log_remainder(away, xp), w - xp.log(large) - away)
    by_stirling = large * bent + 0.5 * xp.log(large / (2.0 * math.pi)) - correction
    plain = a * w - x - log_gamma
    return xp.where((a >= SERIES_BELOW) & (x < 1e300), by_stirling, plain)


def _lower_series(a: Array, x: Array, n: int) -> list[Array]:
    """Return T and its first n derivatives, from the Taylor coefficients in a of each term."""
    term = [1.0 / a]
    for _ in range(n):
        term.append(-term[-1] / a)
    total = [t.copy() for t in term]
    for k in range(1, TERMS):
        shifted = a + k
        term[0] = x * term[0] / shifted
        for j in range(1, n + 1):
            term[j] = (x * term[j] - term[j - 1]) / shifted
        for t, s in zip(term, total, strict=True):
            s += t
        if all((np.abs(t) <= 1e-17 * np.abs(s)).all() for t, s in zip(term, total, strict=True)):
            break
    return [math.factorial(j) * s for j, s in enumerate(total)]


def lower_integral(a: Any, x: Any, n: int, xp: Any = np) -> list[Any]:
    """Return T and its first n derivatives by the integral; `xp` has the functions of the arrays, vectors."""
    # The exponent lies below the line x - a v, and below a parabola where v < 1.
    parabola = 2.0 * DEPTH / ((a - x) + xp.sqrt((a - x) ** 2 + 4.0 * DEPTH * x / 3.0))
    end = xp.where(parabola < 1.0, parabola, (DEPTH + x) / a)
    for _ in range(6):
        value = (x - a) * end - x * exp_remainder(-end, xp)
        end = end + (value + DEPTH) / (a - x - x * xp.expm1(-end))
    return _integrals(lambda v: (x - a) * v - x * exp_remainder(-v, xp), end, n, -1.0, xp)


def upper_integral(a: Any, x: Any, n: int, xp: Any = np) -> list[Any]:
    """Return G and its first n derivatives, as :func:`lower_integral` does."""
    end = 2.0 * DEPTH / ((x - a) + xp.sqrt((x - a) ** 2 + 2.0 * DEPTH * x))
    for _ in range(8):
        value = (a - x) * end - x * exp_remainder(end, xp)
        end = end - (value + DEPTH) / (a - x - x * xp.expm1(end))
    return _integrals(lambda u: (a - x) * u - x * exp_remainder(u, xp), end, n, 1.0, xp)


def _integrals(exponent: Any, end: Any, n: int, sign: float, xp: Any) -> list[Any]:
    """Return the integrals of exp(exponent(u)) (sign u)**j over 0 .. end, for j = 0 .. n."""

    def terms(node: Any, weight: Any) -> list[Any]:
        u = end * node
        found = [weight * xp.exp(exponent(u))]
        for _ in range(n):
            found.append(found[-1] * (sign * u))
        return found

    return [end * t for t in summed(gauss_legendre(NODES), terms, end, xp)]


def _lower(a: Array, x: Array, n: int) -> list[Array]:
    out = [np.empty_like(a) for _ in range(n + 1)]
    small = a < SERIES_BELOW
    for here, fn in ((small, _lower_series), (~small, lower_integral)):
        if here.any():
            for o, v in zip(out, fn(a[here], x[here], n), strict=True):
                o[here] = v
    return out


def _lower_part(a: Array, x: Array) -> Array:
    a = np.maximum(a, LEAST_SHAPE)
    out: Array = np.exp(log_density(a, np.log(x), x, _lgamma(a))) * _lower(a, x, 0)[0]
    return out


def _upper_part(a: Array, x: Array) -> Array:
    out: Array = np.exp(log_density(a, np.log(x), x, _lgamma(a))) * upper_integral(a, x, 0)[0]
    return out


def _upper_for_small_shape(a: Array, x: Array) -> Array:
    """Return Q for a < 1 and x < 1.5, where it is too small to be 1 - P."""
    log_front = a * np.log(x) - _lgamma_1_plus(a)
    term = np.ones_like(x)
    total = np.zeros_like(x)
    for k in range(1, 30):
        term = term * -x / k
        total += term / (a + k)
    out: Array = -np.expm1(log_front) - np.exp(log_front) * a * total
    return out


def _lgamma_1_plus(s: Array) -> Array:
    near = np.minimum(s, 0.5)
    return np.where(s <= 0.5, _lgamma_2_plus(near) - np.log1p(near), _lgamma_2_plus(s - 1.0))


def _incomplete(a: Array, x: Array, upper: bool) -> Array:
    def one_minus(fn: Any) -> Any:
        return lambda a, x: 1.0 - fn(a, x)

    above = np.where(a < SERIES_BELOW, x >= a + 1.0, x >= a)
    return choose(
        (a, x),
        (~((a >= 0.0) & (x >= 0.0)) | (np.maximum(a, x) == 0.0) | np.isinf(np.minimum(a, x)), _nan),
        ((a == 0.0) | np.isinf(x), lambda a, x: np.full_like(a, 0.0 if upper else 1.0)),
        ((x == 0.0) | np.isinf(a), lambda a, x: np.full_like(a, 1.0 if upper else 0.0)),
        (above, _upper_part if upper else one_minus(_upper_part)),
        ((a < 1.0) & (x < 1.5) & upper, _upper_for_small_shape),
        (True, one_minus(_lower_part) if upper else _lower_part),
    )


def _nan(a: Array, x: Array) -> Array:
    return np.full_like(a, np.nan)


# -- derivatives in the shape


def density_ratios(steps: list[Any]) -> list[Any]:
    """Return [1, h'/h, h''/h, ...] in one variable from the derivatives of log h: `steps[0]` is the first of them."""
    ratios: list[Any] = [1.0]
    for order in range(len(steps)):
        total = ratios[order] * steps[0]
        for k in range(1, order + 1):
            total = total + comb(order, k) * ratios[order - k] * steps[k]
        ratios.append(total)
    return ratios


def _log_density_steps(a: Any, w: Any, n: int) -> list[Any]:
    """Return the first n derivatives of log h in a."""
    return [w - digamma(a), *(-polygamma_op(a, n=k) for k in range(1, n))][:n]


def _ratio(a: Array, w: Array, n: int) -> Array:
    """Return minus the n-th derivative of P in a, over h."""
    x = np.exp(w)
    ratios = density_ratios(_log_density_steps(a, w, n))
    above = np.where(a < SERIES_BELOW, x >= a + 1.0, x >= a)
    out = np.empty_like(a)
    for here, fn, sign in ((above, upper_integral, 1.0), (~above, _lower, -1.0)):
        if here.any():
            parts = fn(a[here], x[here], n)
            picked = [np.broadcast_to(r, a.shape)[here] for r in ratios]
            out[here] = sign * sum(comb(n, j) * picked[n - j] * parts[j] for j in range(n + 1))
    return np.where((a > 0.0) & (x < np.inf), out, np.nan)


def _ratio_in_a(a: Any, w: Any, out: Any, n: int) -> Any:
    return gamma_ratio(a, w, n=n + 1) - out * (w - digamma(a))


def _ratio_in_w(a: Any, w: Any, out: Any, n: int) -> Any:
    return -density_ratios(_log_density_steps(a, w, n))[n] - out * (a - exp(w))


def _mp_ratio(a: float, w: float, n: int) -> float:
    import mpmath

    with mpmath.workdps(40):
        a, x = mpmath.mpf(a), mpmath.exp(mpmath.mpf(w))
        slope = mpmath.diff(lambda s: mpmath.gammainc(s, 0, x, regularized=True), a, n, h=mpmath.mpf(10) ** -8)
        return float(-slope / mpmath.exp(a * mpmath.mpf(w) - x - mpmath.loggamma(a)))


gamma_ratio: Op = op(
    "gamma_ratio(a, w; n: order)",
    in_float64(_ratio),
    infer=broadcasting,
    facts={"a": Partial(_ratio_in_a), "w": Partial(_ratio_in_w)},
    kind="elementwise",
    accepts="real_inexact",
    layout="(),()->()",
    doc="Minus the n-th derivative in the shape a of P(a, exp(w)), over the density of the logarithm of a gamma "
    "variate: for n = 1 the derivative of its quantile function in a.",
    samples=lambda rng: [
        Call((rng.uniform(*a, s), rng.uniform(*w, s)), {"n": n}, order=3)
        for n, a, w, s in (
            (1, (0.3, 3.0), (-1.0, 1.0), (2, 3)),
            (1, (12.0, 20.0), (2.2, 3.3), (3,)),
            (1, (0.3, 3.0), (-30.0, -5.0), (3,)),
            (2, (0.5, 4.0), (0.0, 2.0), (3,)),
        )
    ],
    reference=np.vectorize(_mp_ratio, otypes=[float]),
    onnx=_NO_ONNX,
    source="Figurnov, Mohamed & Mnih 2018, Implicit reparameterization gradients",
    sympy="a derivative that SymPy has no closed form of",
    autocast="float32",
)


# -- the functions


def wider(x: Any) -> Any:
    """Return the arguments in float64: a difference of large logarithms leaves few digits in narrower dtypes."""
    return x if x.dtype == float64 else cast(x, dtype=float64)


def as_wide_as(x: Any, found: Any) -> Any:
    """Return `found` in the dtype of `x`."""
    return found if found.dtype == x.dtype else cast(found, dtype=x.dtype)


def parts(x: Any) -> tuple[Any, Any]:
    """Return two factors of `x`, of which one is 1: that near 0, where powers have all derivatives, and the other.

    There the logarithm has none.
    """
    near = (x >= 0.0) & (x < 0.125)
    return where(near, x, 1.0), where(near, 1.0, x)


def _density(a: Any, x: Any) -> Any:
    """Return x**(a-1) exp(-x) / Gamma(a); right also where a power of x is 0 or infinite."""
    wide, at = wider(a), wider(x)
    low, high = parts(at)
    return as_wide_as(x, low ** (wide - 1.0) * exp(xlogy(wide - 1.0, high) - at - lgamma(wide)))


def slope_of_upper(a: Any, x: Any) -> Any:
    """Return the derivative of Q in a, 0 at x = 0."""
    wide, at = wider(a), wider(x)
    inside = at > 0.0
    w = log(where(inside, at, 1.0))
    slope = exp(wide * w - at - lgamma(wide)) * gamma_ratio(wide, w, n=1)
    return as_wide_as(x, where(inside, slope, 0.0))


gammainc_op: Op = elementwise(
    "gammainc(a, x)",
    in_float64(lambda a, x: _incomplete(a, x, False)),
    partials={"a": lambda a, x: -slope_of_upper(a, x), "x": _density},
    accepts="real_inexact",
    doc="The regularised lower incomplete gamma function P(a, x): the gamma distribution's cumulative function.",
    public="",
    algebra=Algebra(range="[0, 1]"),
    samples=lambda rng: [
        Call((rng.uniform(*a, s), rng.uniform(*x, s)), order=2)
        for a, x, s in (
            ((0.3, 3.0), (0.3, 6.0), (2, 3)),
            ((20.0, 30.0), (10.0, 40.0), (3,)),
            ((0.5, 2.0), (0.5, 2.0), ()),
        )
    ],
    reference="scipy.special.gammainc",
    onnx=_NO_ONNX,
    source="DLMF 8.5.1, 8.6.3, 8.6.5",
    sympy=lambda sp, a, x: sp.lowergamma(a, x) / sp.gamma(a),
    autocast="float32",
)
gammaincc_op: Op = elementwise(
    "gammaincc(a, x)",
    in_float64(lambda a, x: _incomplete(a, x, True)),
    partials={"a": slope_of_upper, "x": lambda a, x: -_density(a, x)},
    accepts="real_inexact",
    doc="The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x).",
    public="",
    algebra=Algebra(range="[0, 1]"),
    samples=binary((0.3, 3.0), (0.3, 6.0), order=2),
    reference="scipy.special.gammaincc",
    onnx=_NO_ONNX,
    source="DLMF 8.6.5; Gil, Segura & Temme 2012 for small a",
    sympy=lambda sp, a, x: sp.uppergamma(a, x) / sp.gamma(a),
    autocast="float32",
)
