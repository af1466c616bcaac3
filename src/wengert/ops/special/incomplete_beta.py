"""The beta function's logarithm, the incomplete beta function and its derivatives in all three arguments.

With h = x**a (1 - x)**b / B(a, b), I_x(a, b) = h W, where

    W = (1 + r) * integral over v > 0 of exp(-a v) (1 + r (1 - exp(-v)))**(b - 1),    r = x / (1 - x),

used for x below the mean a / (a + b), and by symmetry above it. W is a continued fraction, too (Didonato & Morris
1992), which takes a few steps unless parameters are large and x near the mean, or b small and x near 1. There, and for
derivatives in the parameters, the integral is used. Its integrand varies on scales that
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
from .incomplete_gamma import as_wide_as, parts, wider
from .wide import Array, choose, horner, in_float64, log_remainder, summed

# Of the trapezoidal rule: how many points, and the first one.
POINTS, LOWEST = 160, -3.8
# For the function itself, which is left to the rule where that has the most to do.
FINE = 240
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


def _moments(a: Any, b: Any, r: Any, orders: Sequence[tuple[int, int]], xp: Any, points: int) -> list[Any]:
    """Return W with the integrand multiplied by (-v)**i log(base)**j, for each (i, j)."""
    power = b - 1.0
    slope = xp.maximum(a - power * r, 0.0)
    scale = 1.0 / (slope + xp.sqrt(xp.abs(power) * r * (1.0 + r)) + xp.minimum(a, 1.0))
    end = (40.0 + xp.maximum(power, 0.0) * xp.log1p(r)) / a
    high = xp.maximum(xp.log(end / scale) + 0.1, 1.0)
    step = (high - LOWEST) / (points - 1)

    def terms(number: Any) -> list[Any]:
        t = LOWEST + number * step
        bent = xp.exp(-t)
        v = scale * xp.exp(t - bent)
        base = xp.log1p(-r * xp.expm1(-v))
        term = v * (1.0 + bent) * xp.exp(power * base - a * v)
        return [term * (-v) ** i * base**j for i, j in orders]

    return [(1.0 + r) * step * t for t in summed((np.arange(float(points)),), terms, a, xp)]


def _logs(x: Any, y: Any, xp: Any) -> tuple[Any, Any]:
    """Return log(x) and log(y), where x + y = 1: by the one of both that is not rounded, the smaller."""
    return (
        xp.where(y < 0.5, xp.log1p(-y), xp.log(x)),
        xp.where(x < 0.5, xp.log1p(-x), xp.log(y)),
    )


def log_front_by_gamma(a: Any, b: Any, x: Any, y: Any, log_beta: Any, xp: Any = np) -> Any:
    """Return log(x**a y**b / B(a, b)), y = 1 - x, by log B(a, b)."""
    log_x, log_y = _logs(x, y, xp)
    return a * log_x + b * log_y - log_beta


def log_front_by_stirling(a: Any, b: Any, x: Any, y: Any, xp: Any = np) -> Any:
    """Return log(x**a y**b / B(a, b)), y = 1 - x, where both parameters are at least 10."""
    total = a + b
    # Relative to the mean: the linear terms of the two logarithms cancel.
    curved = a * _bent(x, (x * total - a) / a, a / total, xp) + b * _bent(y, (y * total - b) / b, b / total, xp)
    corrections = stirling(total, xp) - stirling(a, xp) - stirling(b, xp)
    return curved + 0.5 * xp.log(a * (b / total) / (2.0 * math.pi)) + corrections


def log_front(a: Any, b: Any, x: Any, y: Any, log_beta: Any, xp: Any = np) -> Any:
    """Return log(x**a y**b / B(a, b)), y = 1 - x, by log B(a, b) where a parameter is small."""
    by_stirling = log_front_by_stirling(xp.maximum(a, 10.0), xp.maximum(b, 10.0), x, y, xp)
    return xp.where(xp.minimum(a, b) >= 10.0, by_stirling, log_front_by_gamma(a, b, x, y, log_beta, xp))


def _bent(x: Any, away: Any, mean: Any, xp: Any) -> Any:
    return xp.where(xp.abs(away) < 0.5, log_remainder(away, xp), xp.log(x / mean) - away)


def integrals_below_mean(
    a: Any,
    b: Any,
    x: Any,
    y: Any,
    orders: Sequence[tuple[int, int]],
    log_front: Any,
    xp: Any = np,
    points: int = POINTS,
) -> list[Any]:
    """Return I_x(a, b) for x below the mean, y = 1 - x, its integrand times what `orders` say (see `_moments`).

    The arrays are vectors, `log_front` is log(x**a y**b / B(a, b)), and `xp` has their functions.
    """
    front = xp.exp(log_front)
    return [front * m for m in _moments(a, b, x / y, orders, xp, points)]


# -- the continued fraction

# How many of its steps are taken at most. They are about as quick as the integral then.
MOST_STEPS = 128
_PRECISION = 4.5e-16


def fraction_is_quick(a: Any, b: Any, x: Any, y: Any, xp: Any = np) -> Any:
    """Return whether the fraction may take fewer steps than the integral has points.

    It does not next to a sharp peak, nor next to 1 for a small b.
    """
    away, spread = _away(a, b, x, y, xp), a * (b / (a + b))
    return ((spread < 10000.0) | (away * away > 4.0 * spread)) & ((y > 0.03) | (b > 0.5))


def _away(a: Any, b: Any, x: Any, y: Any, xp: Any) -> Any:
    """Return a - (a + b) x by the smaller of x and y, which is not rounded."""
    return xp.where(a > b, (a + b) * y - b, a - (a + b) * x)


def fraction_begins(a: Any, b: Any, x: Any, y: Any, xp: Any = np) -> list[Any]:
    """Return the fraction's first state: the second-last numerator and denominator, the value, the last change."""
    value = (1.0 + 1.0 / a) / (1.0 + _away(a, b, x, y, xp))
    return [0.0 * value, value, value, value]


def fraction_step(k: Any, state: Sequence[Any], a: Any, b: Any, x: Any, y: Any, xp: Any = np) -> list[Any]:
    """Return the state after the k-th step of the fraction whose value is W, for x below the mean.

    It is the even part of the one of DLMF 8.17.22, whose terms have one sign below the mean. Numerators and
    denominators are divided by the last denominator, which is 1 then.
    """
    above, below, value, _ = state
    t = (k - 1.0) / a
    inverse = 1.0 / (a + (2.0 * k - 1.0))
    share = a * inverse
    w = k * (b - k) * x
    alpha = (1.0 + t) * (1.0 + t + b / a) * share * share * (w * x)
    t = k / a
    e = (1.0 + t) / (1.0 + 1.0 / a + 2.0 * t)
    beta = k + w * inverse + e * (1.0 + _away(a, b, x, y, xp) + k * (y + 1.0))
    scale = 1.0 / (alpha * below + beta)
    after = (alpha * above + beta * value) * scale
    return [value * scale, scale, after, after - value]


def fraction_ends(state: Sequence[Any], xp: Any = np) -> Any:
    """Return whether the fraction's last change is of no size; what overflows has no end."""
    return (xp.abs(state[3]) <= _PRECISION * state[2]) & (state[2] < math.inf)


def _by_fraction(a: Array, b: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Return W, and where the fraction came to an end; those that are not at an end go on alone."""
    out, ended = np.empty_like(a), np.zeros(a.shape, np.bool_)
    left = np.arange(a.size)
    state = fraction_begins(a, b, x, y)
    for k in range(1, MOST_STEPS + 1):
        state = fraction_step(float(k), state, a, b, x, y)
        if k % 4 == 0:
            done = fraction_ends(state)
            out[left[done]], ended[left[done]] = state[2][done], True
            going = ~done
            if not going.any():
                break
            left, a, b, x, y, *state = (v[going] for v in (left, a, b, x, y, *state))
    return out, ended


def _betainc(a: Array, b: Array, x: Array) -> Array:
    return choose(
        (a, b, x),
        (~((a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0)), lambda a, b, x: np.full_like(a, np.nan)),
        (x == 0.0, lambda a, b, x: np.zeros_like(a)),
        (x == 1.0, lambda a, b, x: np.ones_like(a)),
        (is_below(a, b, x), lambda a, b, x: _below_mean(a, b, x, 1.0 - x)),
        (True, lambda a, b, x: 1.0 - _below_mean(b, a, 1.0 - x, x)),
    )


def is_below(a: Any, b: Any, x: Any) -> Any:
    """Return whether I_x(a, b) is computed itself, and not the rest of 1: below the mean, and where it is small above.

    Where b is small much of the distribution lies next to 1.
    """
    return (x * (a + b) <= a) | ((b < 0.02) & (b <= a))


def _below_mean(a: Array, b: Array, x: Array, y: Array) -> Array:
    logarithm = log_front(a, b, x, y, _betaln(a, b))
    out: Array = np.exp(logarithm)
    at = np.flatnonzero(fraction_is_quick(a, b, x, y))
    found, ended = _by_fraction(a[at], b[at], x[at], y[at])
    at = at[ended]
    out[at] *= found[ended]
    slow = np.ones(a.shape, np.bool_)
    slow[at] = False
    if slow.any():
        (out[slow],) = integrals_below_mean(a[slow], b[slow], x[slow], y[slow], [(0, 0)], logarithm[slow], points=FINE)
    return out


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
    source="Didonato & Morris 1992, Algorithm 708; Takahasi & Mori 1974, Double exponential formulas",
    sympy=lambda sp, a, b, x: sp.betainc_regularized(a, b, 0, x),
    autocast="float32",
)


def _density(a: Any, b: Any, x: Any) -> Any:
    one, other, at = wider(a), wider(b), wider(x)
    (low, high), (rest, _) = parts(at), parts(1.0 - at)
    left = where(rest < 1.0, 0.0, at)  # where 1 - x is near 0 it is exact
    inside = exp(xlogy(one - 1.0, high) + xlog1py(other - 1.0, -left) - betaln_op(one, other))
    return as_wide_as(x, low ** (one - 1.0) * rest ** (other - 1.0) * inside)


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
    integrals = lambda orders: integrals_below_mean(a, b, x, y, orders, log_front(a, b, x, y, _betaln(a, b)))
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
