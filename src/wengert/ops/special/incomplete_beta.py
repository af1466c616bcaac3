"""The beta function's logarithm, the incomplete beta function and its derivatives in all three arguments.

With h = x**a (1 - x)**b / B(a, b), I_x(a, b) = h W, where

    W = (1 + r) * integral over v > 0 of exp(-a v) (1 + r (1 - exp(-v)))**(b - 1),    r = x / (1 - x),

used for x below the mean a / (a + b), and by symmetry above it. The integrand varies on scales that
may lie far apart; the substitution v = c exp(t - exp(-t)) (Takahasi & Mori 1974) brings them all within
reach of one trapezoidal rule. A derivative in `a` multiplies the integrand by -v, one in `b` by the
logarithm of its base.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np

from ...core.ops.declare import broadcasting, elementwise, op
from ...core.ops.op import Algebra, Call, Missing, Op, Partial
from ...core.ops.sampling import binary
from ..pointwise.arithmetic import exp, log, log1p
from ..pointwise.selection import where
from ..pointwise.xlogy import xlog1py, xlogy
from .gamma import STIRLING, _lgamma, digamma, polygamma_op
from .incomplete_gamma import as_wide_as, wider
from .wide import Array, choose, horner, in_float64, log_remainder, summed

# Of the trapezoidal rule: how many points, and the first one.
POINTS, LOWEST = 160, -3.8
_NO_ONNX = Missing("ONNX has no such operator")


# -- log B


def stirling(x: Any, xp: Any = np) -> Any:
    """Return lgamma(x) less (x - 1/2) log(x) - x + log(2 pi) / 2, for x >= 10; `xp` has the functions of its array."""
    inverse = 1.0 / x
    return inverse * horner(inverse * inverse, STIRLING, xp)


def _betaln(a: Array, b: Array) -> Array:
    small, large = np.minimum(a, b), np.maximum(a, b)
    return choose(
        (small, large),
        (~(small >= 0.0), lambda s, m: np.full_like(s, np.nan)),
        ((small == 0.0) & np.isinf(large), lambda s, m: np.full_like(s, np.nan)),
        (small == 0.0, lambda s, m: np.full_like(s, np.inf)),
        (np.isinf(large), lambda s, m: np.full_like(s, -np.inf)),
        (small >= 10.0, log_beta_both_large),
        (large >= 10.0, lambda s, m: log_beta_one_large(s, m, _lgamma(s))),
        (True, lambda s, m: _lgamma(s) + (_lgamma(m) - _lgamma(s + m))),
    )


def log_beta_both_large(small: Any, large: Any, xp: Any = np) -> Any:
    """Return log B(small, large) where both are at least 10."""
    corrections = stirling(small, xp) + stirling(large, xp) - stirling(small + large, xp)
    ratio = small / large
    powers = (small - 0.5) * (xp.log(ratio) - xp.log1p(ratio)) - large * xp.log1p(ratio)
    return 0.5 * (math.log(2.0 * math.pi) - xp.log(large)) + powers + corrections


def log_beta_one_large(small: Any, large: Any, log_gamma: Any, xp: Any = np) -> Any:
    """Return log B(small, large) where the larger is at least 10, by the logarithm of Gamma(small)."""
    # lgamma(large) - lgamma(small + large) by the difference of the two Stirling series.
    growth = (large - 0.5) * xp.log1p(small / large) + small * xp.log(small + large) - small
    return log_gamma - growth + (stirling(large, xp) - stirling(small + large, xp))


def _betaln_slope(a: Any, b: Any) -> Any:
    wide = wider(a)
    return as_wide_as(a, digamma(wide) - digamma(wide + wider(b)))


betaln_op = elementwise(
    "betaln(a, b)",
    in_float64(_betaln),
    partials={
        "a": lambda a, b: _betaln_slope(a, b),
        "b": lambda a, b: _betaln_slope(b, a),
    },
    accepts="real_inexact",
    doc="The logarithm of the beta function of positive a and b.",
    public="",
    algebra=Algebra(commutes="nearly"),
    samples=binary((0.3, 20.0), (0.3, 20.0), order=2),
    reference="scipy.special.betaln",
    onnx=_NO_ONNX,
    source="DLMF 5.12.1; Didonato & Morris 1992 for large arguments",
    sympy=lambda sp, a, b: sp.loggamma(a) + sp.loggamma(b) - sp.loggamma(a + b),
    autocast="float32",
)

# -- the integral


def _moments(a: Any, b: Any, r: Any, orders: Sequence[tuple[int, int]], xp: Any) -> list[Any]:
    """Return W with the integrand multiplied by (-v)**i log(base)**j, for each (i, j)."""
    power = b - 1.0
    slope = xp.maximum(a - power * r, 0.0)
    scale = 1.0 / (slope + xp.sqrt(xp.abs(power) * r * (1.0 + r)) + xp.minimum(a, 1.0))
    end = (40.0 + xp.maximum(power, 0.0) * xp.log1p(r)) / a
    high = xp.maximum(xp.log(end / scale) + 0.1, 1.0)
    step = (high - LOWEST) / (POINTS - 1)

    def terms(number: Any) -> list[Any]:
        t = LOWEST + number * step
        bent = xp.exp(-t)
        v = scale * xp.exp(t - bent)
        base = xp.log1p(-r * xp.expm1(-v))
        term = v * (1.0 + bent) * xp.exp(power * base - a * v)
        return [term * (-v) ** i * base**j for i, j in orders]

    return [(1.0 + r) * step * t for t in summed((np.arange(float(POINTS)),), terms, a, xp)]


def _log_front(a: Any, b: Any, x: Any, y: Any, log_beta: Any, xp: Any) -> Any:
    """Return log(x**a y**b / B(a, b)), y = 1 - x, by log B(a, b)."""
    plain = a * xp.log(x) + b * xp.log(y) - log_beta
    p, q = xp.maximum(a, 10.0), xp.maximum(b, 10.0)
    total = p + q
    # Relative to the mean: the linear terms of the two logarithms cancel.
    curved = p * _bent(x, (x * total - p) / p, p / total, xp) + q * _bent(y, (y * total - q) / q, q / total, xp)
    corrections = stirling(total, xp) - stirling(p, xp) - stirling(q, xp)
    by_stirling = curved + 0.5 * xp.log(p * (q / total) / (2.0 * math.pi)) + corrections
    return xp.where(xp.minimum(a, b) >= 10.0, by_stirling, plain)


def _bent(x: Any, away: Any, mean: Any, xp: Any) -> Any:
    return xp.where(xp.abs(away) < 0.5, log_remainder(away, xp), xp.log(x / mean) - away)


def integrals_below_mean(
    a: Any, b: Any, x: Any, y: Any, orders: Sequence[tuple[int, int]], log_beta: Any, xp: Any = np
) -> list[Any]:
    """Return I_x(a, b) for x below the mean, y = 1 - x, its integrand times what `orders` say (see `_moments`).

    The arrays are vectors, `log_beta` is log B(a, b), and `xp` has their functions.
    """
    front = xp.exp(_log_front(a, b, x, y, log_beta, xp))
    return [front * m for m in _moments(a, b, x / y, orders, xp)]


def _betainc(a: Array, b: Array, x: Array) -> Array:
    return choose(
        (a, b, x),
        (~((a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0)), lambda a, b, x: np.full_like(a, np.nan)),
        (x == 0.0, lambda a, b, x: np.zeros_like(a)),
        (x == 1.0, lambda a, b, x: np.ones_like(a)),
        (x * (a + b) <= a, lambda a, b, x: _below_mean(a, b, x, 1.0 - x)),
        (True, lambda a, b, x: 1.0 - _below_mean(b, a, 1.0 - x, x)),
    )


def _below_mean(a: Array, b: Array, x: Array, y: Array) -> Array:
    found: Array = integrals_below_mean(a, b, x, y, [(0, 0)], _betaln(a, b))[0]
    return found


betainc_op: Op = elementwise(
    "betainc(a, b, x)",
    in_float64(_betainc),
    partials={
        "a": lambda a, b, x: betainc_slope(a, b, x, i=1, j=0),
        "b": lambda a, b, x: betainc_slope(a, b, x, i=0, j=1),
        "x": lambda a, b, x: _density(a, b, x),
    },
    accepts="real_inexact",
    doc="The regularised incomplete beta function I_x(a, b): the beta distribution's cumulative function.",
    public="",
    algebra=Algebra(range="[0, 1]"),
    samples=lambda rng: [
        Call((rng.uniform(*a, s), rng.uniform(*a, s), rng.uniform(0.1, 0.9, s)), order=2)
        for a, s in (((0.5, 4.0), (2, 3)), ((11.0, 20.0), (3,)), ((0.5, 2.0), ()))
    ],
    reference="scipy.special.betainc",
    onnx=_NO_ONNX,
    source="DLMF 8.17.1; Takahasi & Mori 1974, Double exponential formulas for numerical integration",
    sympy=lambda sp, a, b, x: sp.betainc_regularized(a, b, 0, x),
    autocast="float32",
)


def _density(a: Any, b: Any, x: Any) -> Any:
    one, other, at = wider(a), wider(b), wider(x)
    return as_wide_as(x, exp(xlogy(one - 1.0, at) + xlog1py(other - 1.0, -at) - betaln_op(one, other)))


# -- derivatives in the parameters


def slope_of_log_front(polygamma: Callable[[int, Any], Any], a: Any, b: Any, logs: Any, p: int, q: int) -> Any:
    """Return the derivative of log h, p times in a and q times in b; `logs` give log(x) and log(1 - x)."""
    total = polygamma(p + q - 1, a + b)
    if q == 0:
        total = total - polygamma(p - 1, a)
    if p == 0:
        total = total - polygamma(q - 1, b)
    if p + q == 1:
        total = total + logs[0 if p else 1]()
    return total


def _polygamma(n: int, x: Any) -> Any:
    return polygamma_op(x, n=n) if n else digamma(x)


def front_ratios(slope: Callable[[int, int], Any], i: int, j: int) -> dict[tuple[int, int], Any]:
    """Return the derivatives of h over h, up to i times in a and j times in b, from those of log h."""
    slopes = {(p, q): slope(p, q) for p in range(i + 1) for q in range(j + 1) if p + q}
    ratios: dict[tuple[int, int], Any] = {(0, 0): 1.0}
    for m in range(i + 1):
        for n in range(j + 1):
            if m:
                terms = [(comb(m - 1, p - 1) * comb(n, q), (p, q)) for p in range(1, m + 1) for q in range(n + 1)]
            elif n:
                terms = [(comb(n - 1, q - 1), (0, q)) for q in range(1, n + 1)]
            else:
                continue
            ratios[m, n] = sum(c * ratios[m - p, n - q] * slopes[p, q] for c, (p, q) in terms)
    return ratios


def _front_ratios(a: Any, b: Any, x: Any, i: int, j: int) -> dict[tuple[int, int], Any]:
    logs = (lambda: log(x)), (lambda: log1p(-x))
    return front_ratios(lambda p, q: slope_of_log_front(_polygamma, a, b, logs, p, q), i, j)


def slope_below_mean(ratios: Any, integrals: Callable[[Any], list[Any]], i: int, j: int) -> Any:
    """Return the derivative of I_x(a, b) below the mean by those of h over h, and by the integrals of orders."""
    orders = [(p, q) for p in range(i + 1) for q in range(j + 1)]
    found = dict(zip(orders, integrals(orders), strict=True))
    return sum(comb(i, p) * comb(j, q) * ratios[i - p, j - q] * found[p, q] for p, q in orders)


def _slope_below_mean(a: Array, b: Array, x: Array, y: Array, i: int, j: int) -> Array:
    integrals = lambda orders: integrals_below_mean(a, b, x, y, orders, _betaln(a, b))
    return np.asarray(slope_below_mean(_front_ratios(a, b, x, i, j), integrals, i, j))


def _slope(a: Array, b: Array, x: Array, i: int, j: int) -> Array:
    return choose(
        (a, b, x),
        (~((a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0)), lambda a, b, x: np.full_like(a, np.nan)),
        ((x == 0.0) | (x == 1.0), lambda a, b, x: np.zeros_like(a)),
        (x * (a + b) <= a, lambda a, b, x: _slope_below_mean(a, b, x, 1.0 - x, i, j)),
        (True, lambda a, b, x: -_slope_below_mean(b, a, 1.0 - x, x, j, i)),
    )


def _slope_in_x(a: Any, b: Any, x: Any, i: int, j: int) -> Any:
    inside = (x > 0.0) & (x < 1.0)
    safe = where(inside, x, 0.5)
    return where(inside, _density(a, b, safe) * _front_ratios(a, b, safe, i, j)[i, j], 0.0)


def _mp_slope(a: float, b: float, x: float, i: int, j: int) -> float:
    import mpmath

    with mpmath.workdps(60):
        value = mpmath.diff(lambda p, q: mpmath.betainc(p, q, 0, mpmath.mpf(x), regularized=True), (a, b), (i, j))
        return float(value)


betainc_slope: Op = op(
    "betainc_slope(a, b, x; i, j)",
    in_float64(_slope),
    infer=broadcasting,
    facts={
        "a": Partial(lambda a, b, x, i, j: betainc_slope(a, b, x, i=i + 1, j=j)),
        "b": Partial(lambda a, b, x, i, j: betainc_slope(a, b, x, i=i, j=j + 1)),
        "x": Partial(_slope_in_x),
    },
    kind="elementwise",
    accepts="real_inexact",
    layout="(),(),()->()",
    doc="The derivative of I_x(a, b), i times in a and j times in b.",
    samples=lambda rng: [
        # Each further derivative takes a larger sum: those of the slopes' own slopes are asked of few numbers.
        Call((rng.uniform(0.5, 4.0, s), rng.uniform(0.5, 4.0, s), rng.uniform(0.1, 0.9, s)), {"i": i, "j": j}, order)
        for i, j, s, order in ((1, 0, (), 2), (0, 1, (3,), 1), (1, 1, (), 1), (2, 0, (2,), 1))
    ],
    reference=np.vectorize(_mp_slope, otypes=[float]),
    onnx=_NO_ONNX,
    sympy="a derivative that SymPy has no closed form of",
    autocast="float32",
)
