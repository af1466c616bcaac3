"""Quotients by x of functions that are 0 at 0: sin(x) / x, log1p(x) / x and expm1(x) / x, and their derivatives.

Each is an analytic function, of which x is no kink. Derivatives of the quotient itself would have no digits near 0: an
op has the order of the derivative as an attribute, and near 0 the derivative of the power series.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.ops.costs import DIVISION, TRANSCENDENTAL
from ...core.ops.declare import composite, elementwise
from ...core.ops.op import Call, Missing, Op, Partial
from ...core.ops.sampling import Interval, binary, each, unary
from ..blocks import blockwise
from ..pointwise.arithmetic import exp, expm1, log1p, reciprocal
from ..pointwise.selection import abs, where_op
from ..pointwise.trigonometry import cos, sin
from ..reduce.common import running_dtype
from ..structure.shapes import casted

# The k-th derivative of the numerator, and the coefficient k of the quotient's power series.
Numerator = Callable[[Any, int], Any]
Coefficient = Callable[[int], float]


def _derivative(x: Any, n: int, numerator: Numerator, coefficient: Coefficient, radius: float, terms: int) -> Any:
    """Return the n-th derivative of numerator(x) / x; within `radius` the power series', of `terms` terms."""
    if n == 0:
        at_zero = x == 0
        away = where_op(at_zero, 1.0, x)
        return where_op(at_zero, coefficient(0), numerator(away, 0) / away)
    is_near = abs(x) < radius
    near, far = where_op(is_near, x, 0.0), where_op(is_near, radius, x)
    return where_op(is_near, _series(near, n, coefficient, terms), _away_from_zero(far, n, numerator))


def _away_from_zero(x: Any, n: int, numerator: Numerator) -> Any:
    """Return the n-th derivative by x f^(k) + k f^(k-1) = g^(k), which follows from x f = g."""
    found = numerator(x, 0) / x
    for k in range(1, n + 1):
        found = (numerator(x, k) - float(k) * found) / x
    return found


def _series(x: Any, n: int, coefficient: Coefficient, terms: int) -> Any:
    factors = [coefficient(k + n) * math.perm(k + n, n) for k in range(terms)]
    for first in (0, 1):
        if not any(factors[1 - first :: 2]):  # every second term is 0: a series in x * x
            total = _polynomial(x * x, factors[first::2])
            return x * total if first else total
    return _polynomial(x, factors)


def _polynomial(x: Any, factors: list[float]) -> Any:
    total = factors[-1] * x
    for c in factors[-2:0:-1]:
        total = (total + c) * x
    return total + factors[0]


def _op(
    signature: str,
    doc: str,
    numerator: Numerator,
    coefficient: Coefficient,
    radius: Callable[[int], float],
    terms: int,
    integrand: Callable[[Any, Any, int], Any],
    intervals: tuple[Interval, ...],
    sympy: Callable[[Any, Any], Any],
) -> Op:
    """Return the op of a quotient's derivatives; `integrand(t, x, n)` gives them as integrals over t in 0 .. 1."""

    def formula(x: Any, n: int) -> Any:
        return _derivative(x, n, numerator, coefficient, radius(n), terms)

    def body(x: Any, *, n: int) -> Any:
        wide = running_dtype(x.dtype)
        return formula(x, n) if wide == x.dtype else casted(formula(casted(x, wide), n), x.dtype)

    def reference(x: Any, n: int) -> Any:
        nodes, weights = np.polynomial.legendre.leggauss(60)
        return (integrand(0.5 * (nodes + 1.0), x[..., None], n) * weights).sum(-1) * 0.5

    def of_symbol(sp: Any, x: Any, n: int) -> Any:
        s = sp.Symbol("s", real=True)
        return sp.diff(sympy(sp, s) / s, s, n).subs(s, x)

    def on_arrays(x: Any, n: int) -> Any:
        if n == 0:
            return formula(x, 0)
        is_near = np.abs(x) < radius(n)
        out = _away_from_zero(np.where(is_near, x.dtype.type(radius(n)), x), n, numerator)
        out[is_near] = _series(x[is_near], n, coefficient, terms)
        return out

    made: Op = composite(
        signature,
        accepts="floating",
        forward=blockwise(on_arrays),
        facts={"x": Partial(lambda x, n: made(x, n=n + 1))},
        doc=doc,
        layout="()->()",
        samples=lambda rng: [Call(c.args, {"n": n}, order=2) for n in (0, 1, 2, 3) for c in unary(*intervals)(rng)],
        reference=reference,
        onnx=Missing("ONNX writes it as a quotient"),
        sympy=of_symbol,
        autocast="float32",
    )(body)
    return made


def _sine(x: Any, k: int) -> Any:
    """Return the k-th derivative of the sine."""
    found = cos(x) if k % 2 else sin(x)
    return -found if k % 4 > 1 else found


def _log1p(x: Any, k: int) -> Any:
    return log1p(x) if k == 0 else (-1.0) ** (k - 1) * math.factorial(k - 1) * _power(reciprocal(1.0 + x), k)


def _power(x: Any, k: int) -> Any:
    found = x
    for _ in range(k - 1):
        found = found * x
    return found


sine_ratio_op = _op(
    "sine_ratio(x; n: order)",
    "The n-th derivative of sin(x) / x, which is 1 at 0.",
    _sine,
    lambda k: 0.0 if k % 2 else (-1.0) ** (k // 2) / math.factorial(k + 1),
    lambda n: 1.0 + 0.5 * n,
    32,
    lambda t, x, n: t**n * np.cos(x * t + 0.5 * math.pi * n),
    ((-9.0, 9.0), (-0.1, 0.1)),
    lambda sp, x: sp.sin(x),
)
log1p_ratio_op = _op(
    "log1p_ratio(x; n: order)",
    "The n-th derivative of log(1 + x) / x, which is 1 at 0.",
    _log1p,
    lambda k: (-1.0) ** k / (k + 1),
    lambda n: 0.25,
    36,
    lambda t, x, n: (-1.0) ** n * math.factorial(n) * t**n / (1.0 + x * t) ** (n + 1),
    ((-0.7, 3.0), (-0.1, 0.1)),
    lambda sp, x: sp.log(1 + x),
)
expm1_ratio_op = _op(
    "expm1_ratio(x; n: order)",
    "The n-th derivative of (exp(x) - 1) / x, which is 1 at 0.",
    lambda x, k: exp(x) if k else expm1(x),
    lambda k: 1.0 / math.factorial(k + 1),
    lambda n: 1.0 + 0.5 * n,
    32,
    lambda t, x, n: t**n * np.exp(x * t),
    ((-4.0, 4.0), (-0.1, 0.1)),
    lambda sp, x: sp.exp(x) - 1,
)


# -- of k z over k, which is z at k = 0


def _over(fn: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def forward(z: Any, k: Any) -> Any:
        dtype = np.result_type(z, k)  # either may be a number
        z, k = np.asarray(z, dtype), np.asarray(k, dtype)
        flat = k == 0
        return np.where(flat, z, fn(k * z) / np.where(flat, dtype.type(1), k))

    return forward


def _over_formula(fn: str) -> tuple[str, ...]:
    return (f"where(k == 0.0, z, {fn}(k * z) / where(k == 0.0, 1.0, k))",)


_NO_ONNX = Missing("ONNX has no such operator: export expands the formula")

log1p_over_op = elementwise(
    "log1p_over(z, k)",
    _over(np.log1p),
    partials={
        "z": lambda z, k: reciprocal(1.0 + k * z),
        "k": lambda z, k: z * z * log1p_ratio_op(k * z, n=1),
    },
    accepts="real_inexact",
    public="",
    doc="log(1 + k z) / k, and z at k = 0.",
    samples=binary((0.2, 2.0), (-0.3, 1.0)),
    reference=each(lambda z, k: math.log1p(k * z) / k),
    onnx=_NO_ONNX,
    sympy=lambda sp, z, k: sp.log(1 + k * z) / k,
    formulas=_over_formula("log1p"),
    cost=TRANSCENDENTAL + DIVISION,
    autocast="float32",
)
expm1_over_op = elementwise(
    "expm1_over(z, k)",
    _over(np.expm1),
    partials={
        "z": lambda z, k: exp(k * z),
        "k": lambda z, k: z * z * expm1_ratio_op(k * z, n=1),
    },
    accepts="real_inexact",
    public="",
    doc="(exp(k z) - 1) / k, and z at k = 0.",
    samples=binary((-2.0, 2.0), (-1.0, 1.0)),
    reference=each(lambda z, k: math.expm1(k * z) / k),
    onnx=_NO_ONNX,
    sympy=lambda sp, z, k: (sp.exp(k * z) - 1) / k,
    formulas=_over_formula("expm1"),
    cost=TRANSCENDENTAL + DIVISION,
    autocast="float32",
)
