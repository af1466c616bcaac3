"""The Hurwitz zeta function and its derivatives."""

from __future__ import annotations

import math
from math import comb
from typing import Any

import numpy as np

from ...core.ops.declare import broadcasting, op
from ...core.ops.op import Call, Missing, Op, Partial
from ...core.ops.operands import promote_operands, promote_tensors, run_elementwise
from ...core.tensor import Tensor
from .gamma import BERNOULLI
from .wide import Array, in_float64

# So many terms are summed one by one, and one more for each unit of the power up to this one.
STEPS, STEPPED_POWER = 14, 60.0


def _zeta(s: Array, q: Array, n: int) -> Array:
    """Return the n-th derivative in s, by the Euler-Maclaurin formula with Taylor coefficients in s."""
    steps = np.maximum(np.ceil(np.minimum(s, STEPPED_POWER) + STEPS - np.maximum(q, 0.0)), 0.0)
    steps = np.where(steps == steps, steps, 0.0)
    total = np.zeros_like(s)
    for k in range(int(steps.max(initial=0.0))):
        here = k < steps
        total += np.where(here, (-np.log(q + k)) ** n * (q + k) ** -s, 0.0)
    a = q + steps
    # The factor of a**-s: a / (s - 1) + 1/2 + sum of B_2k / (2k)! s (s+1) ... (s+2k-2) a**(1 - 2k).
    tail = [a * (-1.0) ** j / (s - 1.0) ** (j + 1) for j in range(n + 1)]
    tail[0] = tail[0] + 0.5
    rising = times_factor([0.5 / a, *(np.zeros_like(s) for _ in range(n))], s)
    for k, b in enumerate(BERNOULLI, 1):
        tail = [t + b * r for t, r in zip(tail, rising, strict=True)]
        rising = times_factor(times_factor(rising, s + (2 * k - 1)), s + 2 * k)
        rising = [r / (a * a * (2 * k + 1) * (2 * k + 2)) for r in rising]
    for j in range(n + 1):
        total += comb(n, j) * math.factorial(j) * tail[j] * (-np.log(a)) ** (n - j) * a**-s
    if n == 0:
        total = np.where(np.isinf(s), np.where(q < 1.0, np.inf, np.where(q == 1.0, 1.0, 0.0)), total)
        total = np.where((s == 1.0) | ((q == 0.0) & (s > 1.0)), np.inf, total)
    return np.where((s >= 1.0) & (q >= 0.0), total, np.nan)


def times_factor(jet: list[Any], factor: Any) -> list[Any]:
    """Return Taylor coefficients times (factor + the variable)."""
    return [factor * c + (jet[j - 1] if j else 0.0) for j, c in enumerate(jet)]


def _in_q(s: Any, q: Any, n: int) -> Any:
    out = -s * zeta_op(s + 1.0, q, n=n)
    return out - n * zeta_op(s + 1.0, q, n=n - 1) if n else out


def _mp_zeta(s: float, q: float, n: int) -> float:
    import mpmath

    with mpmath.workdps(30):
        return float(mpmath.zeta(mpmath.mpf(s), mpmath.mpf(q), n))


zeta_op: Op = op(
    "hurwitz_zeta(s, q; n: order)",
    in_float64(_zeta),
    infer=broadcasting,
    facts={"s": Partial(lambda s, q, n: zeta_op(s, q, n=n + 1)), "q": Partial(_in_q)},
    kind="elementwise",
    accepts="real_inexact",
    layout="(),()->()",
    doc="The n-th derivative in s of the Hurwitz zeta function, the sum of (q + k)**-s over k = 0, 1, ...",
    samples=lambda rng: [
        Call((rng.uniform(1.5, 8.0, shape), rng.uniform(0.3, 20.0, shape)), {"n": n})
        for n, shape in ((0, (2, 3)), (1, (3,)), (2, ()))
    ],
    reference=np.vectorize(_mp_zeta, otypes=[float]),
    onnx=Missing("ONNX has no such operator"),
    source="DLMF 25.11.5",
    sympy="its derivatives in s are no functions of SymPy's",
    autocast="float32",
)


def zeta(s: Any, q: Any = 1.0) -> Tensor:
    """Return the Hurwitz zeta function, the sum of (q + k)**-s over k = 0, 1, ...; Riemann's where q is 1.

    Parameters
    ----------
    s: greater than 1; inf at 1, NaN below.
    q: positive.

    Operands broadcast; differentiable in both, to any order. Raises ShapeError, DTypeError. Source: DLMF 25.11.5.

    >>> import wengert as wg
    >>> wg.special.zeta(wg.tensor(2.0))
    tensor(1.6449)
    """
    return run_elementwise(zeta_op, promote_operands(zeta_op, promote_tensors("zeta", s, q)), {"n": 0})
