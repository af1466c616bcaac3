"""Native logarithm of the gamma function, and its derivative. float32 is computed in float64.

The pieces are those of the NumPy forwards in `ops/special/gamma.py`: a polynomial on an interval of length 1 or so,
the recurrence down to it, Stirling's series above, and reflection for negative arguments.
"""

from __future__ import annotations

import math

from ...codegen.builder import Builder, Value
from .base import any_lane, fabs, floor, in_float64, polynomial, rint
from .coefficients import DIGAMMA_64, LGAMMA_64
from .log import log
from .trig import sine_near

# B_2k for k = 1 .. 8.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1))
_DIGAMMA_SERIES = tuple(b / (2 * k) for k, b in enumerate(_BERNOULLI, 1))
# The positive zero of digamma, in two parts.
_ROOT, _ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17


def _whole_steps(b: Builder, x: Value, above: float, highest: float) -> Value:
    """Return how often 1 is subtracted from x in [above, highest) to come below `above`; 0 for other x."""
    const = lambda c: b.const(x.type, c)
    inside = b.and_(b.fcmp("oge", x, const(above)), b.fcmp("olt", x, const(highest)))
    return b.select(inside, floor(b, b.fsub(x, const(above - 1.0))), const(0.0))


@in_float64
def lgamma(b: Builder, x: Value) -> Value:
    """Return log |Gamma(x)|; +inf at 0, -1, -2, ..."""
    const = lambda c: b.const(x.type, c)
    below = b.fcmp("ole", x, const(-0.5))
    y = b.select(below, b.fneg(x), x)
    value = _lgamma_above(b, y)

    def reflected() -> list[Value]:
        # Gamma(x) Gamma(-x) = -pi / (x sin(pi x)).
        product = b.fmul(b.fmul(y, _sine_of_pi(b, y)), const(1.0 / math.pi))
        other = b.fneg(b.fadd(log(b, product), value))
        # At whole numbers, which all large ones are, the sine is 0.
        pole = b.or_(b.fcmp("oeq", product, const(0.0)), b.fcmp("oeq", y, const(math.inf)))
        other = b.select(pole, const(math.inf), other)
        return [b.select(below, other, value)]

    return b.either(any_lane(b, below), reflected, lambda: [value])[0]


def _lgamma_above(b: Builder, x: Value) -> Value:
    """Return lgamma for x > -1/2. With z = x + 1, x or x less whole steps, in [1.5, 2.5), less 2 the polynomial's
    argument.
    """
    const = lambda c: b.const(x.type, c)
    near_zero = b.fcmp("olt", fabs(b, x), const(0.5))
    near_one = b.fcmp("olt", x, const(1.5))
    large = b.fcmp("oge", x, const(8.0))
    steps = _whole_steps(b, x, 2.5, 8.0)
    product = const(1.0)
    for k in range(1, 7):
        used = b.fcmp("oge", steps, const(float(k)))
        product = b.select(used, b.fmul(product, b.fsub(x, const(float(k)))), product)
    above = b.fsub(b.fsub(x, steps), const(2.0))
    s = b.select(near_zero, x, b.select(near_one, b.fsub(x, const(1.0)), above))
    polynomial_part = b.fmul(s, polynomial(b, s, LGAMMA_64))
    inner = b.select(large, x, product)
    inner = b.select(near_zero, b.fmul(fabs(b, x), b.fadd(x, const(1.0))), b.select(near_one, x, inner))
    logarithm = log(b, inner)
    small = b.fadd(polynomial_part, b.select(near_one, b.fneg(logarithm), logarithm))
    inverse = b.fdiv(const(1.0), x)
    series = b.fmul(inverse, polynomial(b, b.fmul(inverse, inverse), _STIRLING))
    stirling = b.fmul(b.fsub(x, const(0.5)), b.fsub(logarithm, const(1.0)))
    stirling = b.fadd(stirling, b.fadd(series, const(0.5 * math.log(2.0 * math.pi) - 0.5)))
    return b.select(large, stirling, small)


def _sine_of_pi(b: Builder, x: Value) -> Value:
    """Return |sin(pi x)|, exact about where it vanishes."""
    return sine_near(b, b.fmul(fabs(b, b.fsub(x, rint(b, x))), b.const(x.type, math.pi)))


@in_float64
def digamma(b: Builder, x: Value) -> Value:
    """Return the derivative of lgamma; NaN at -1, -2, ..., an infinity of the opposite sign at 0.0 and -0.0."""
    const = lambda c: b.const(x.type, c)
    below = b.fcmp("olt", x, const(0.0))
    value = _digamma_positive(b, b.select(below, b.fsub(const(1.0), x), x))

    def reflected() -> list[Value]:
        fraction = b.fsub(x, rint(b, x))
        size = fabs(b, fraction)
        cosine = sine_near(b, b.fmul(b.fsub(const(0.5), size), const(math.pi)))
        sine = sine_near(b, b.fmul(fraction, const(math.pi)))
        other = b.fsub(value, b.fmul(const(math.pi), b.fdiv(cosine, sine)))
        other = b.select(b.fcmp("oeq", fraction, const(0.0)), const(math.nan), other)
        return [b.select(below, other, value)]

    value = b.either(any_lane(b, below), reflected, lambda: [value])[0]
    return b.select(b.fcmp("oeq", x, const(0.0)), b.fdiv(const(-1.0), x), value)


def _digamma_positive(b: Builder, x: Value) -> Value:
    """Return digamma of positive x: above 2.5 in whole steps down to [1.5, 2.5), without cancellation."""
    const = lambda c: b.const(x.type, c)
    small, large = b.fcmp("olt", x, const(1.0)), b.fcmp("oge", x, const(10.0))
    steps = _whole_steps(b, x, 2.5, 10.0)
    z = b.select(small, b.fadd(x, const(1.0)), b.fsub(x, steps))
    middle = b.fsub(b.fsub(z, const(_ROOT)), const(_ROOT_LOW))
    middle = b.fmul(middle, polynomial(b, b.fsub(z, const(1.75)), DIGAMMA_64))
    # The sum of the reciprocals as one fraction: -1 / x, or 1 / (x - 1) + ... + 1 / (x - steps).
    above, under = b.select(small, const(-1.0), const(0.0)), b.select(small, x, const(1.0))
    for k in range(1, 9):
        used = b.fcmp("oge", steps, const(float(k)))
        term = b.fsub(x, const(float(k)))
        above = b.select(used, b.fma(above, term, under), above)
        under = b.select(used, b.fmul(under, term), under)
    near = b.fadd(middle, b.fdiv(above, under))
    inverse = b.fdiv(const(1.0), x)
    square = b.fmul(inverse, inverse)
    far = b.fsub(log(b, x), b.fmul(const(0.5), inverse))
    far = b.fsub(far, b.fmul(square, polynomial(b, square, _DIGAMMA_SERIES)))
    return b.select(large, far, near)
