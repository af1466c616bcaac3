"""NaN and infinities for declarations: rules that tell causes apart, and advice that several ops share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .facets import Cause, Nonfinite

Rule = Callable[[Sequence[Any], Any], bool]


def first(test: Callable[[Any], bool]) -> Rule:
    """Return a rule that holds where the first number is known and passes a test."""
    return lambda xs, out: bool(xs) and xs[0] is not None and test(xs[0])


def second(test: Callable[[Any], bool]) -> Rule:
    """Return a rule that holds where the second number is known and passes a test."""
    return lambda xs, out: len(xs) > 1 and xs[1] is not None and test(xs[1])


def real_part(x: Any) -> float:
    """Return the real part of a number."""
    return x.real if isinstance(x, complex) else float(x)


def always(xs: Sequence[Any], out: Any) -> bool:
    """Return True: the rule of a last, or an only, cause."""
    return True


def gives_nan(xs: Sequence[Any], out: Any) -> bool:
    """Return whether the result is NaN."""
    return bool(out != out)


def infinity_chosen(xs: Sequence[Any], out: Any) -> bool:
    """Return whether one of the operands after the first is not finite."""
    return any(x is not None and not _finite(x) for x in xs[1:])


def zero_times_infinity(xs: Sequence[Any], out: Any) -> bool:
    """Return whether there is a 0 and what is not finite."""
    known = [x for x in xs if x is not None]
    return any(x == 0 for x in known) and any(not _finite(x) for x in known)


def two_infinities(xs: Sequence[Any], out: Any) -> bool:
    """Return whether neither of two operands is finite."""
    return len(xs) > 1 and all(x is not None and not _finite(x) for x in xs[:2])


def overflowed(xs: Sequence[Any], out: Any) -> bool:
    """Return whether all operands are finite: the result is beyond the range."""
    return all(x is None or _finite(x) for x in xs)


def _finite(x: Any) -> bool:
    return math.isfinite(x.real) and math.isfinite(x.imag) if isinstance(x, complex) else math.isfinite(x)


WIDER = "compute in a wider dtype (x.astype(wg.float32) or wg.float64), or scale the values down first"
LOG = "wg.log(wg.clip(x, tiny, None)) where 0 can occur; wg.log1p(y) for log(1 + y); wg.log_softmax or wg.logsumexp "
LOG += "for the logarithm of a softmax or of a sum of exponentials; wg.nn.functional.binary_cross_entropy_with_logits "
LOG += "for that of a sigmoid"
EXP = "wg.softmax, wg.log_softmax, wg.logsumexp, wg.sigmoid or wg.nn.functional.softplus, which shift before they "
EXP += "exponentiate; else subtract the maximum or clip the exponent first"
DIVIDE = "add a small number to the denominator, or choose a safe one before dividing: "
DIVIDE += "wg.where(y == 0, 0.0, x / wg.where(y == 0, 1.0, y))"
ROOT = "wg.sqrt(x + eps), or a safe argument before the root: wg.where(x > 0, wg.sqrt(wg.where(x > 0, x, 1.0)), 0.0); "
ROOT += "for the length of a vector wg.linalg.vector_norm, whose gradient at 0 is 0"
NEGATIVE = (
    "wg.clip(x, 0.0, None) where rounding makes a small negative number; wg.abs(x) where the sign does not matter"
)
DOMAIN = "wg.clip(x, -1.0, 1.0): rounding carries a cosine or a correlation past 1"
EDGE = "wg.clip(x, -1.0 + eps, 1.0 - eps); for an angle wg.atan2(sine, cosine), whose derivative exists there"
NORM = "wg.sqrt((x * x).sum() + eps), or leave the row out: the norm has no derivative at 0"
SPREAD = "add eps under the root: wg.sqrt(wg.var(x) + eps); the deviation has no derivative where all values are equal"
FEWER = "correction=0 (the population's variance), or more than one element"
ROW = "keep one entry of every row finite (mask with -1e9 instead of -inf, or leave rows out that are masked whole)"
WHOLE_POWER = "x * x or wg.square(x) for whole powers; wg.where(x > 0, wg.where(x > 0, x, 1.0) ** p, 0.0) for others"
PRODUCT = "the sum of logarithms, wg.exp(wg.log(x).sum()), for positive factors; rescale between factors for others"
INFINITIES = "bound what grows before it is subtracted: wg.logsumexp and wg.log_softmax do it for exponentials"
ABSORB = "choose the safe value before the operation, not after it: op(wg.where(ok, x, 1.0)), then wg.where(ok, y, 0.0)"

OUTSIDE = (
    "look at why it is chosen: an observation outside a distribution's support, a condition that is the wrong way round"
)
BOUNDARY = "a probability or an observation at the boundary: keep it inside, wg.clip(p, eps, 1.0 - eps), or give logits"
SINGULAR = "a small multiple of the identity added to the matrix, or wg.linalg.lstsq and wg.linalg.pinv"
ROWS = "eps=1e-5, as usual; else leave out rows that are constant, or scale large values down"
DISTINCT = "a function of the eigenvalues alone, or of the eigenvectors only where eigenvalues differ"

# Explanations that several ops share.
OVERFLOW = Nonfinite(((always, Cause("overflow, or opposite infinities met", WIDER)),))
EMPTY_ROW = Cause("a row without a finite entry", ROW)
