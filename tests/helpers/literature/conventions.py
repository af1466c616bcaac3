"""Points where a derivative is a convention, or easily lost, and on which PyTorch and JAX agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cases import case

NOTE = "Griewank and Walther (2008), Evaluating Derivatives, ch. 14: points of nonsmoothness"


def at(*values: float) -> Callable[[Any], Any]:
    return lambda draws: np.array(values)


@case(NOTE, at(0.0, 2.0, 0.0, 3.0))
def product_with_two_zeros(xp: Any, x: Any) -> Any:
    return xp.prod(x)


@case(NOTE, at(0.0, 2.0, 0.0, 0.0))
def product_with_three_zeros(xp: Any, x: Any) -> Any:
    return xp.prod(x) + xp.sum(x**2)


@case(NOTE, at(1.0, 0.0, 2.0, 0.0, 3.0))
def cumulative_product_with_zeros(xp: Any, x: Any) -> Any:
    return xp.sum(xp.cumprod(x, axis=0) * xp.arange(5))


@case(NOTE, at(0.0, 1.0, -2.0))
def integer_powers_at_zero(xp: Any, x: Any) -> Any:
    return xp.sum(x**3 + x**2 + x**1 + x**0)


@case(NOTE, at(0.0, 1.0, -2.0))
def logarithm_of_vanishing_terms(xp: Any, x: Any) -> Any:
    nothing = xp.zeros(3) - np.inf
    return (
        xp.logsumexp(xp.concat([x, nothing]), axis=0)
        + xp.sum(xp.logaddexp(x, nothing))
        + xp.sum(xp.logaddexp(x, 2 * x))
    )


@case(NOTE, at(2.0, 1.0, 2.0, 2.0, 2.0, 1.0))
def ties_share_a_maximum(xp: Any, x: Any) -> Any:
    pairs = x.reshape(3, 2)
    return xp.max(x) ** 2 + xp.sum(xp.max(pairs, axis=1) ** 3) - xp.min(x) ** 3


@case(NOTE, at(2.0, 1.0, 0.0, 2.0))
def ties_between_two(xp: Any, x: Any) -> Any:
    return xp.sum(xp.maximum(x, 1.0) ** 2 + xp.minimum(x, xp.flip(x, axis=0)) ** 2)


@case(NOTE, at(2.0, 1.0, 2.0))
def ties_in_a_sort(xp: Any, x: Any) -> Any:
    return xp.sum(xp.sort(x) ** 2 * xp.arange(3))


@case(NOTE, at(-0.5, -1.7, 30.0, 1e-3))
def gamma_function_left_of_zero(xp: Any, x: Any) -> Any:
    return xp.sum(xp.lgamma(x))


@case(NOTE, at(12.0, 5.0, -3.0))
def logarithm_of_a_tail(xp: Any, x: Any) -> Any:
    return xp.sum(xp.log(xp.erfc(x)))


@case(NOTE, at(1000.0, -1000.0, 999.0))
def saturated_softmax(xp: Any, x: Any) -> Any:
    return xp.sum(xp.softmax(x, axis=0) * xp.arange(3)) + xp.sum(xp.sigmoid(x / 30) * xp.tanh(x))


@case(NOTE, at(1e-12, -1e-9, 0.0))
def small_arguments(xp: Any, x: Any) -> Any:
    return xp.sum(xp.expm1(x) * xp.log1p(x))


@case(NOTE, at(0.5, 1.2, -2.3))
def repeated_and_overwritten_elements(xp: Any, x: Any) -> Any:
    gathered = xp.prod(x[xp.asarray(np.array([0, 0, 1, 2, 2, 2]))])
    written = xp.put(xp.outer(x, x), (slice(None), 1), x**3)
    return gathered + xp.sum(written**2) + xp.sum(x[np.array([True, False, True])] ** 3) * x[-1]


@case(NOTE, at(0.5, 1.2, -2.3))
def steps_and_signs(xp: Any, x: Any) -> Any:
    return xp.sum((x - xp.floor(x)) ** 2 * xp.sign(x)) + xp.sum((x % 1.0) * x) + xp.sum(xp.stop(x) * x**2)


@case(NOTE, at(0.5, 1.2, 0.3))
def power_of_itself(xp: Any, x: Any) -> Any:
    return xp.sum(x**x + 2.0**x)


@case(NOTE, at(0.5, 0.2, -0.3))
def inverse_functions(xp: Any, x: Any) -> Any:
    return xp.sum(xp.asin(x) * xp.acos(x) * xp.atan(x) * xp.tan(x) * xp.cosh(x))


@case(
    "Kreutz-Delgado (2009), The complex gradient operator and the CR-calculus: branches and powers", at(0.5, 1.0, -2.0)
)
def complex_branches(xp: Any, x: Any) -> Any:
    powers = (x + 1j) ** 3 + (x + 1j) ** 0.5
    return xp.sum(xp.real(xp.sqrt(x + 0j)) + xp.imag(xp.log(x + 0.5j)) + xp.real(powers))


@case("Kreutz-Delgado (2009), The complex gradient operator: quotients and hyperbolic functions", at(0.5, 1.0, -2.0))
def complex_quotients(xp: Any, x: Any) -> Any:
    turned = xp.tanh(x + 1j) * xp.cos(x * 1j + 1) + xp.sinh(x * 1j)
    return xp.sum(xp.real(turned) + xp.real(1 / (x + 1j) / (2j - x)))


@case("Kreutz-Delgado (2009), The complex gradient operator: products", at(0.5, 1.0, -2.0))
def complex_products(xp: Any, x: Any) -> Any:
    form = xp.einsum("i,ij,j->", x + 1j, xp.outer(x + 0j, x * 1j), xp.conj(x + 2j))
    return xp.abs(form) + xp.abs(xp.prod(x + 1j * x**2))
