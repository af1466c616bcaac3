"""The table of causes: why an operation gives NaN or infinity for finite numbers, and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Cause(NamedTuple):
    """A cause of a number that is not finite, in words, with the usual rewrite."""

    text: str
    rewrite: str


# A rule sees the numbers that met at the culprit (None where there is no single one) and the result.
Rule = Callable[[Sequence[Any], Any], bool]


def _first(test: Callable[[Any], bool]) -> Rule:
    return lambda xs, out: bool(xs) and xs[0] is not None and test(xs[0])


def _second(test: Callable[[Any], bool]) -> Rule:
    return lambda xs, out: len(xs) > 1 and xs[1] is not None and test(xs[1])


def _real(x: Any) -> float:
    return x.real if isinstance(x, complex) else float(x)


def _always(xs: Sequence[Any], out: Any) -> bool:
    return True


def _is_nan(xs: Sequence[Any], out: Any) -> bool:
    return bool(out != out)


def _written(xs: Sequence[Any], out: Any) -> bool:
    return any(x is not None and not _finite(x) for x in xs[1:])


def _zero_times_inf(xs: Sequence[Any], out: Any) -> bool:
    known = [x for x in xs if x is not None]
    return any(x == 0 for x in known) and any(not _finite(x) for x in known)


def _opposite_infinities(xs: Sequence[Any], out: Any) -> bool:
    return len(xs) > 1 and all(x is not None and not _finite(x) for x in xs[:2])


def _finite(x: Any) -> bool:
    return math.isfinite(x.real) and math.isfinite(x.imag) if isinstance(x, complex) else math.isfinite(x)


def _overflowed(xs: Sequence[Any], out: Any) -> bool:
    return all(x is None or _finite(x) for x in xs)


_WIDER = "compute in a wider dtype (x.astype(wg.float32) or wg.float64), or scale the values down first"
_LOG = "wg.log(wg.clip(x, tiny, None)) where 0 can occur; wg.log1p(y) for log(1 + y); wg.log_softmax or wg.logsumexp "
_LOG += "for the logarithm of a softmax or of a sum of exponentials; wg.nn.functional.binary_cross_entropy_with_logits "
_LOG += "for that of a sigmoid"
_EXP = "wg.softmax, wg.log_softmax, wg.logsumexp, wg.sigmoid or wg.nn.functional.softplus, which shift before they "
_EXP += "exponentiate; else subtract the maximum or clip the exponent first"
_DIVIDE = "add a small number to the denominator, or choose a safe one before dividing: "
_DIVIDE += "wg.where(y == 0, 0.0, x / wg.where(y == 0, 1.0, y))"
_ROOT = "wg.sqrt(x + eps), or a safe argument before the root: wg.where(x > 0, wg.sqrt(wg.where(x > 0, x, 1.0)), 0.0)"
_NEGATIVE = (
    "wg.clip(x, 0.0, None) where rounding makes a small negative number; wg.abs(x) where the sign does not matter"
)
_DOMAIN = "wg.clip(x, -1.0, 1.0): rounding carries a cosine or a correlation past 1"
_EDGE = "wg.clip(x, -1.0 + eps, 1.0 - eps); for an angle wg.atan2(sine, cosine), whose derivative exists there"
_NORM = "wg.sqrt((x * x).sum() + eps), or leave the row out: the norm has no derivative at 0"
_SPREAD = "add eps under the root: wg.sqrt(wg.var(x) + eps); the deviation has no derivative where all values are equal"
_FEWER = "correction=0 (the population's variance), or more than one element"
_ROW = "keep one entry of every row finite (mask with -1e9 instead of -inf, or leave rows out that are masked whole)"
_POWER = "x * x or wg.square(x) for whole powers; wg.where(x > 0, wg.where(x > 0, x, 1.0) ** p, 0.0) for others"
_PRODUCT = "the sum of logarithms, wg.exp(wg.log(x).sum()), for positive factors; rescale between factors for others"
_INFINITIES = "bound what grows before it is subtracted: wg.logsumexp and wg.log_softmax do it for exponentials"
_ABSORB = (
    "choose the safe value before the operation, not after it: op(wg.where(ok, x, 1.0)), then wg.where(ok, y, 0.0)"
)

_OUTSIDE = (
    "look at why it is chosen: an observation outside a distribution's support, a condition that is the wrong way round"
)
_BOUNDARY = (
    "a probability or an observation at the boundary: keep it inside, wg.clip(p, eps, 1.0 - eps), or give logits"
)
_SINGULAR = "a small multiple of the identity added to the matrix, or wg.linalg.lstsq and wg.linalg.pinv"
_ROWS = "eps=1e-5, as usual; else leave out rows that are constant, or scale large values down"
_DISTINCT = "a function of the eigenvalues alone, or of the eigenvectors only where eigenvalues differ"

FORWARD: dict[str, list[tuple[Rule, Cause]]] = {
    name: [
        (_first(lambda x: x == 0), Cause("the logarithm of 0", _LOG)),
        (_first(lambda x: _real(x) < 0), Cause("the logarithm of a negative number", _LOG)),
    ]
    for name in ("log", "log2", "log10")
}
FORWARD |= {
    "log1p": [
        (_first(lambda x: x == -1), Cause("log1p of -1, the logarithm of 0", _LOG)),
        (_first(lambda x: x < -1), Cause("log1p below -1, the logarithm of a negative number", _LOG)),
    ],
    "sqrt": [(_first(lambda x: _real(x) < 0), Cause("the root of a negative number", _NEGATIVE))],
    "rsqrt": [
        (_first(lambda x: x == 0), Cause("1 / sqrt of 0", "wg.rsqrt(x + eps)")),
        (_first(lambda x: _real(x) < 0), Cause("the root of a negative number", _NEGATIVE)),
    ],
    "divide": [
        (lambda xs, out: len(xs) > 1 and xs[0] == 0 == xs[1], Cause("0 / 0", _DIVIDE)),
        (_second(lambda y: y == 0), Cause("division by 0", _DIVIDE)),
        (_opposite_infinities, Cause("an infinity divided by an infinity", _INFINITIES)),
        (_overflowed, Cause("overflow: the denominator is tiny against the numerator", _DIVIDE)),
    ],
    "reciprocal": [
        (_first(lambda x: x == 0), Cause("division by 0", _DIVIDE)),
        (_overflowed, Cause("overflow: the denominator is tiny", _DIVIDE)),
    ],
    "floor_divide": [(_second(lambda y: y == 0), Cause("division by 0", _DIVIDE))],
    "remainder": [(_second(lambda y: y == 0), Cause("the remainder of a division by 0", _DIVIDE))],
    "subtract": [
        (_opposite_infinities, Cause("an infinity minus an infinity", _INFINITIES)),
        (_overflowed, Cause("overflow of a difference", _WIDER)),
    ],
    "add": [
        (_opposite_infinities, Cause("infinities of opposite signs added", _INFINITIES)),
        (_overflowed, Cause("overflow of a sum", _WIDER)),
    ],
    "multiply": [
        (_zero_times_inf, Cause("0 times an infinity", _ABSORB)),
        (_overflowed, Cause("overflow of a product", _WIDER)),
    ],
    "pow": [
        (lambda xs, out: len(xs) > 1 and xs[0] == 0 and _real(xs[1]) < 0, Cause("0 to a negative power", _POWER)),
        (
            lambda xs, out: len(xs) > 1 and _real(xs[0]) < 0 and _real(xs[1]) % 1 != 0,
            Cause("a negative number to a fractional power", _POWER),
        ),
        (_overflowed, Cause("overflow of a power", _WIDER)),
    ],
    "acosh": [(_first(lambda x: x < 1), Cause("acosh below 1", "wg.clip(x, 1.0, None)"))],
    "atanh": [(_always, Cause("atanh at or beyond 1", _EDGE))],
    "asin": [(_always, Cause("asin beyond 1", _DOMAIN))],
    "acos": [(_always, Cause("acos beyond 1", _DOMAIN))],
    "var": [
        (_is_nan, Cause("the variance of too few elements: 0 / 0 with correction=1", _FEWER)),
        (_always, Cause("overflow of a square in the variance", _WIDER)),
    ],
    "std": [
        (_is_nan, Cause("the deviation of too few elements: 0 / 0 with correction=1", _FEWER)),
        (_always, Cause("overflow of a square in the deviation", _WIDER)),
    ],
    "cast": [(_overflowed, Cause("overflow: the number is beyond the narrower dtype's range", _WIDER))],
    "mean": [(_always, Cause("the mean of no elements, or of a sum that overflows", _WIDER))],
    "where": [(_written, Cause("an infinity that the program writes was chosen", _OUTSIDE))],
    "xlogy": [
        (_second(lambda y: y == 0), Cause("a factor other than 0 times the logarithm of 0", _BOUNDARY)),
        (_second(lambda y: _real(y) < 0), Cause("the logarithm of a negative number", _LOG)),
    ],
    "xlog1py": [
        (_second(lambda y: y == -1), Cause("a factor other than 0 times the logarithm of 0, log1p(-1)", _BOUNDARY)),
        (_second(lambda y: _real(y) < -1), Cause("log1p below -1, the logarithm of a negative number", _LOG)),
    ],
    "erfinv": [(_always, Cause("erfinv at or beyond 1", _EDGE))],
    "inv": [(_always, Cause("a matrix that is singular, or nearly so", _SINGULAR))],
    "solve": [(_always, Cause("a matrix that is singular, or nearly so", _SINGULAR))],
    "slogdet": [(_always, Cause("the logarithm of a determinant that is 0", _SINGULAR))],
    "det": [(_always, Cause("overflow of a product", "wg.linalg.slogdet, which gives the logarithm of a determinant"))],
    "layer_norm": [(_always, Cause("the deviation of a row is 0 (and eps is 0), or its square overflows", _ROWS))],
    "rms_norm": [(_always, Cause("the mean square of a row is 0 (and eps is 0), or overflows", _ROWS))],
    "group_norm": [(_always, Cause("the deviation of a group is 0 (and eps is 0), or its square overflows", _ROWS))],
    "batch_norm": [(_always, Cause("the deviation of a channel is 0 (and eps is 0), or its square overflows", _ROWS))],
    "lgamma": [(_always, Cause("a pole of the gamma function", "keep the argument away from 0, -1, -2, ..."))],
    "digamma": [(_always, Cause("a pole of the gamma function", "keep the argument away from 0, -1, -2, ..."))],
}
for _name in ("exp", "expm1", "sinh", "cosh"):
    FORWARD[_name] = [(_always, Cause("overflow of an exponential", _EXP))]
# What an operation makes of infinities among its inputs.
OF_INFINITIES = dict.fromkeys(
    ("softmax", "log_softmax", "logsumexp", "attention", "cross_entropy"), Cause("a row without a finite entry", _ROW)
)
for _name in ("prod", "cumulative_prod"):
    FORWARD[_name] = [(_always, Cause("overflow of a product", _PRODUCT))]
for _name in (
    "attention",
    "cross_entropy",
    "linear",
    "convolve",
    "sum",
    "cumulative_sum",
    "matmul",
    "dot",
    "matvec",
    "vecmat",
    "einsum",
    "square",
    "mse",
    "l2_norm",
):
    FORWARD[_name] = [(_always, Cause("overflow, or opposite infinities met", _WIDER))]

BACKWARD: dict[str, Cause] = {
    "sqrt": Cause("the slope of sqrt at 0 is infinite", _ROOT),
    "std": Cause("the slope of the deviation where it is 0 (a root at 0)", _SPREAD),
    "l2_norm": Cause("the norm at 0 has no derivative", _NORM),
    "p_norm": Cause("the norm at 0 has no derivative", _NORM),
    "hypot": Cause("hypot at (0, 0) has no derivative", _NORM),
    "log": Cause("the slope of the logarithm at 0 is infinite", _LOG),
    "rsqrt": Cause("the slope of 1 / sqrt at 0 is infinite", "wg.rsqrt(x + eps)"),
    "pow": Cause("the slope of a power below 1 (or of its exponent) at 0 is infinite", _POWER),
    "divide": Cause("the slope of a quotient, 1 / y and x / y**2, overflows or meets 0 / 0", _DIVIDE),
    "reciprocal": Cause("the slope of 1 / x overflows", _DIVIDE),
    "acos": Cause("the slope of acos at 1 is infinite", _EDGE),
    "asin": Cause("the slope of asin at 1 is infinite", _EDGE),
    "atanh": Cause("the slope of atanh at 1 is infinite", _EDGE),
    "acosh": Cause("the slope of acosh at 1 is infinite", "wg.clip(x, 1.0 + eps, None)"),
    "atan2": Cause("atan2 at (0, 0) has no derivative", "leave the origin out: wg.where(r > 0, x, 1.0) before atan2"),
    "tan": Cause("the slope of tan near its pole overflows", "wg.sin(x) / (wg.cos(x) + eps), or keep x from the pole"),
    "exp": Cause("a slope of 0 met an exponential that had overflowed: 0 times an infinity", _EXP),
    "multiply": Cause("a slope met a factor so large (or infinite) that the product is not finite", _WIDER),
    "logsumexp": Cause("a row without a finite entry: the slope is exp(-inf + inf)", _ROW),
    "log_softmax": Cause("a row without a finite entry", _ROW),
    "softmax": Cause("a row without a finite entry", _ROW),
    "prod": Cause("the slope of a product overflows", _PRODUCT),
    "cumulative_prod": Cause("the slope of a cumulative product is a quotient by a factor that is 0", _PRODUCT),
    "xlogy": Cause("the slope of x log(y) where y is 0 is infinite", _BOUNDARY),
    "xlog1py": Cause("the slope of x log1p(y) where y is -1 is infinite", _BOUNDARY),
    "eigh": Cause("eigenvectors of eigenvalues that are equal have no derivative", _DISTINCT),
    "eig": Cause("eigenvectors of eigenvalues that are equal have no derivative", _DISTINCT),
    "svd": Cause("singular vectors of singular values that are equal (or 0) have no derivative", _DISTINCT),
    "layer_norm": Cause("the slope of a norm whose deviation is 0", _ROWS),
    "rms_norm": Cause("the slope of a norm whose mean square is 0", _ROWS),
    "var": Cause("the variance of too few elements", _FEWER),
}
_UNKNOWN_INFINITE = Cause("an infinity among its inputs became NaN", _INFINITIES)
_UNKNOWN_FORWARD = Cause("the result is beyond the dtype's range, or outside the function's domain", _WIDER)
_UNKNOWN_BACKWARD = Cause("the slope is not finite at these numbers", _ABSORB)
INPUT = Cause("it was there before anything ran", "look at where the data come from: wg.isnan(x).any() finds the rows")

UPDATE = Cause(
    "the step times a finite gradient is beyond the range, or it was assigned",
    "a smaller learning rate, or wg.nn.utils.clip_grad_norm_ before opt.step()",
)


def diagnose(op: str, numbers: Sequence[Any], out: Any, backward: bool, infinite: bool = False) -> Cause:
    """Return the cause for an op whose inputs at the culprit are `numbers` and whose result there is `out`.

    `infinite` says that there are infinities among its inputs.
    """
    if backward:
        return BACKWARD.get(op, _UNKNOWN_BACKWARD)
    if infinite and op in OF_INFINITIES:
        return OF_INFINITIES[op]
    for rule, cause in FORWARD.get(op, ()):
        try:
            if rule(numbers, out):
                return cause
        except TypeError:  # complex numbers have no order
            continue
    return _UNKNOWN_INFINITE if infinite else _UNKNOWN_FORWARD
