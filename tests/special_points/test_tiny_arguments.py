"""Derivatives of orders 0 to 4 at 1e-300: numbers where they are in range, infinities of the right sign elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp

from .cases import Case
from .modes import MODES

AT = 1e-300
INF = math.inf
S = wg.special


def _constant(value: float) -> Any:
    return wg.tensor(value, dtype="float64")


def _power(y: float) -> list[float]:
    return [float(mp.ff(y, k) * mp.mpf(AT) ** (y - k)) if mp.ff(y, k) else 0.0 for k in range(5)]


def _polynomial(*coefficients: float) -> list[float]:
    """Derivatives at a number that is nearly 0, by the lowest two of its terms."""
    rest = [*coefficients, *[0.0] * (6 - len(coefficients))]
    return [math.factorial(k) * (rest[k] + AT * (k + 1) * rest[k + 1]) for k in range(5)]


def _density(a: float) -> list[float]:
    """Derivatives of P(a, x) by its series x^a / Gamma(a + 1), the first term of which counts alone."""
    return [float(mp.ff(a, k) * mp.mpf(AT) ** (a - k) / mp.gamma(a + 1)) for k in range(5)]


_LOG = math.log(AT)
CASES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    **{f"pow {y}": (lambda x, y=y: x ** _constant(y), _power(y)) for y in (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, 2.5)},
    **{f"float_power {y}": (lambda x, y=y: wnp.float_power(x, _constant(y)), _power(y)) for y in (0.0, 1.0, 2.0)},
    "xlogy(x, x)": (lambda x: S.xlogy(x, x), [AT * _LOG, _LOG + 1, 1 / AT, -INF, INF]),
    "entr": (S.entr, [-AT * _LOG, -_LOG - 1, -1 / AT, INF, -INF]),
    "gammainc of 1": (lambda x: S.gammainc(_constant(1.0), x), _polynomial(0.0, 1.0, -1 / 2, 1 / 6, -1 / 24)),
    "gammainc of 2": (lambda x: S.gammainc(_constant(2.0), x), _polynomial(0.0, 0.0, 1 / 2, -1 / 3, 1 / 8)),
    "gammaincc of 1": (lambda x: S.gammaincc(_constant(1.0), x), _polynomial(1.0, -1.0, 1 / 2, -1 / 6, 1 / 24)),
    "gammainc of 2.5": (lambda x: S.gammainc(_constant(2.5), x), _density(2.5)),
    "gammainc of 0.5": (lambda x: S.gammainc(_constant(0.5), x), _density(0.5)),
    "betainc of 1 and 1": (lambda x: S.betainc(_constant(1.0), _constant(1.0), x), _polynomial(0.0, 1.0)),
    "betainc of 1 and 3": (lambda x: S.betainc(_constant(1.0), _constant(3.0), x), _polynomial(0.0, 3.0, -3.0, 1.0)),
    "betainc of 2 and 3": (
        lambda x: S.betainc(_constant(2.0), _constant(3.0), x),
        _polynomial(0.0, 0.0, 6.0, -8.0, 3.0),
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str, mode: str) -> None:
    fn, right = CASES[name]
    case = Case(name, fn, lambda x: x, ((0.5,),))
    found = MODES[mode](case, [wg.tensor(np.array([AT]))])
    got = [float(np.asarray(found[(0,) * k])[0]) for k in range(5)]
    np.testing.assert_allclose(got, right, rtol=1e-12)


def test_powers_are_differentiated_in_both_arguments_in_every_order() -> None:
    """At whole exponents the factor of a derivative in x is 0, and its slope in the exponent is not."""
    x, y = 1e-3, 1.0

    def derivative(sequence: tuple[int, ...]) -> float:
        fn: Callable[..., Any] = lambda a, b: a**b
        for argument in sequence:
            fn = wg.grad(fn, argnums=argument)
        return float(fn(_constant(x), _constant(y)))

    # d2/dx2 d/dy of x^y at y = 1 is 1 / x; d2/dy2 of it is (2 log x + 2) / x.
    for sequence in [(0, 0, 1), (0, 1, 0), (1, 0, 0)]:
        assert derivative(sequence) == pytest.approx(1 / x)
    for sequence in [(0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0), (1, 0, 0, 1), (1, 0, 1, 0), (1, 1, 0, 0)]:
        assert derivative(sequence) == pytest.approx((2 * math.log(x) + 2) / x)
