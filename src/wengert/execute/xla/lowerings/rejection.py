"""Gamma, Poisson and binomial numbers in XLA: proposals from the bits of Philox, repeated until all are accepted.

See :mod:`wengert.ops.random.rejection`. What is accepted is decided by comparing numbers whose last bits are XLA's own:
where two of them are so close that another rounding might decide otherwise, the call is left to the interpreter. So
counts are those of every other engine, and logarithms of gamma numbers to the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ....ops.random.philox import BLOCK
from ....ops.random.rejection import BY_INVERSION
from ..api import jnp, lax
from ..rules import narrow
from .random_numbers import Stream, draws

_F64 = np.dtype(np.float64)
# Roundings of the terms of a sum, with room: beyond, no other rounding decides otherwise.
_CLOSE = 64 * np.finfo(np.float64).eps

# The words of each element and its parameters, for the value, whether it is accepted, and whether that is in doubt.
Propose = Callable[..., tuple[Any, Any, Any]]


def _is_close(difference: Any, *terms: Any) -> Any:
    """Return whether a difference might have the other sign, by the size of the terms that it is a sum of."""
    return jnp.abs(difference) <= _CLOSE * (1.0 + sum(map(jnp.abs, terms)))


def _open(words: Any) -> Any:
    return (narrow(words >> np.uint64(11), _F64) + 1.0) * 2.0**-53


def _half_open(words: Any) -> Any:
    return narrow(words >> np.uint64(11), _F64) * 2.0**-53


def _words(stream: Stream, count: int, attempt: Any) -> list[Any]:
    """Return the words of so many elements, each kind by itself."""
    words = lax.reshape(stream.words64(BLOCK * count, attempt=attempt), (count, BLOCK))
    return [words[:, i] for i in range(BLOCK)]


class _Draw:
    """The elements of a draw: parameters as rows of float64, of which the same bits serve every row."""

    def __init__(self, stream: Stream, parameters: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        self.stream, self.count = stream, prod(shape)
        self.shape, self.dtype = parameters[0].shape, parameters[0].dtype
        rows = prod(self.shape[: len(self.shape) - len(shape)])
        self.parameters = [lax.reshape(narrow(p, _F64), (rows, self.count)) for p in parameters]
        self.first = _words(stream, self.count, np.uint64(0))

    def repeated(self, propose: Propose, value: Any, pending: Any, doubt: Any) -> Any:
        """Return `value`, with what an element is accepted for in the place of those pending; a doubt ends it."""

        def goes_on(state: Any) -> Any:
            _, _, pending, doubt = state
            return jnp.any(pending) & ~doubt

        def step(state: Any) -> Any:
            attempt, value, pending, doubt = state
            found, accept, unsure = propose(_words(self.stream, self.count, attempt), *self.parameters)
            value, doubt = jnp.where(pending, found, value), doubt | jnp.any(pending & unsure)
            return attempt + np.uint64(1), value, pending & ~accept, doubt

        _, value, _, doubt = lax.while_loop(goes_on, step, (jnp.uint64(0), value, pending, doubt))
        self.stream.check(doubt)
        return narrow(lax.reshape(value, self.shape), self.dtype)


def _propose_loggamma(words: list[Any], a: Any) -> tuple[Any, Any, Any]:
    u1, u2, u3 = _open(words[0]), _half_open(words[1]), _open(words[2])
    x = lax.sqrt(-2.0 * lax.log(u1)) * lax.cos(2.0 * math.pi * u2)
    d = jnp.where(a < 1.0, a + 1.0, a) - 1.0 / 3.0
    root = 1.0 + x / lax.sqrt(9.0 * d)
    log_v = 3.0 * lax.log(jnp.maximum(root, 1e-300))
    level, terms = lax.log(u3), (0.5 * x * x, d, -d * root**3, d * log_v)
    rest = terms[0] + terms[1] + terms[2] + terms[3] - level
    unsure = _is_close(root, root - 1.0) | _is_close(rest, level, *terms, d / root)
    return lax.log(d) + log_v, (root > 0.0) & (rest > 0.0), unsure


@draws("random_loggamma")
def _loggamma(stream: Stream, concentration: Any, shape: Any) -> Any:
    if not concentration.size:
        return concentration
    draw = _Draw(stream, (concentration,), shape)
    (a,) = draw.parameters
    fixed = jnp.where(a == 0.0, -np.inf, jnp.where(a > 0.0, np.inf, np.nan))
    out = draw.repeated(_propose_loggamma, fixed, (a > 0.0) & (a < np.inf), np.zeros((), bool))
    # A gamma variate of shape a + 1 times u**(1/a) is one of shape a.
    boost = lax.reshape(lax.log(_open(draw.first[3])), shape)
    shifted = narrow(narrow(out, _F64) + boost / narrow(concentration, _F64), out.dtype)
    return jnp.where((concentration < 1.0) & (concentration > 0.0), shifted, out)


def _walked(u: Any, here: Any, first: Any, ratio: Callable[[Any], Any], last: Any) -> tuple[Any, Any]:
    """Return the least k whose cumulative probability exceeds u where `here`, and whether any is in doubt."""

    def moving(state: Any) -> Any:
        k, _, below, _, _ = state
        return here & (u >= below) & (k < last)

    def goes_on(state: Any) -> Any:
        return state[-1] & jnp.any(moving(state))

    def step(state: Any) -> Any:
        k, term, below, doubt, _ = state
        moves = moving(state)
        term = term * ratio(k)
        k, below = jnp.where(moves, k + 1.0, k), jnp.where(moves, below + term, below)
        return k, term, below, doubt | jnp.any(moves & _is_close(u - below)), jnp.any(moves & (term > 0.0))

    doubt = jnp.any(here & _is_close(u - first))
    k, _, _, doubt, _ = lax.while_loop(goes_on, step, (jnp.zeros_like(first), first, first, doubt, jnp.ones((), bool)))
    return k, doubt


def _floor(*terms: Any) -> tuple[Any, Any]:
    """Return the greatest integer up to a sum, and whether that is in doubt."""
    total = sum(terms)
    return lax.floor(total), _is_close(total - jnp.round(total), *terms) | ~jnp.isfinite(total)


def _propose_poisson(words: list[Any], rate: Any) -> tuple[Any, Any, Any]:
    """Return Poisson counts by Hörmann's PTRS."""
    u, v = _half_open(words[1]) - 0.5, _open(words[0])
    b = 0.931 + 2.53 * lax.sqrt(rate)
    a = -0.059 + 0.02483 * b
    us = 0.5 - jnp.abs(u)
    k, unsure = _floor((2.0 * a / us + b) * u, rate, 0.43)
    low = 0.9277 - 3.6224 / (b - 2.0)
    sure = (us >= 0.07) & (v <= low)
    possible = (k >= 0.0) & ((us >= 0.013) | (v <= us))
    level = lax.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b))
    terms = k * lax.log(rate), rate, lax.lgamma(jnp.maximum(k, 0.0) + 1.0)
    rest = terms[0] - terms[1] - terms[2] - level
    unsure |= _is_close(v - low) | (~sure & possible & _is_close(rest, level, *terms))
    return k, sure | (possible & (rest >= 0.0)), unsure


@draws("random_poisson")
def _poisson(stream: Stream, rate: Any, shape: Any) -> Any:
    if not rate.size:
        return rate
    draw = _Draw(stream, (rate,), shape)
    (lam,) = draw.parameters
    valid = (lam >= 0.0) & (lam < np.inf)
    small = valid & (lam < BY_INVERSION)
    few = jnp.where(small, lam, 1.0)
    k, doubt = _walked(_half_open(draw.first[1]), small, lax.exp(-few), lambda k: few / (k + 1.0), np.inf)
    value = jnp.where(small, k, jnp.where(lam == np.inf, np.inf, np.nan))
    return draw.repeated(_propose_poisson, value, valid & ~small, doubt)


def _propose_binomial(words: list[Any], n: Any, probs: Any) -> tuple[Any, Any, Any]:
    """Return binomial counts by Hörmann's BTRS."""
    u, v = _half_open(words[1]) - 0.5, _open(words[0])
    p = jnp.minimum(probs, 1.0 - probs)
    deviation = lax.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    us = 0.5 - jnp.abs(u)
    k, unsure = _floor((2.0 * a / us + b) * u, n * p, 0.5)
    low = 0.92 - 4.2 / b
    sure = (us >= 0.07) & (v <= low)
    possible = (k >= 0.0) & (k <= n)
    level = lax.log(v * (2.83 + 5.1 / b) * deviation / (a / (us * us) + b))
    mode = lax.floor((n + 1.0) * p)
    inside = jnp.clip(k, 0.0, n)
    heights = [lax.lgamma(x + 1.0) for x in (mode, n - mode, inside, n - inside)]
    tilt = (k - mode) * lax.log(p / (1.0 - p))
    rest = heights[0] + heights[1] - heights[2] - heights[3] + tilt - level
    unsure |= _is_close(v - low) | (~sure & possible & _is_close(rest, level, tilt, *heights))
    return jnp.where(probs > 0.5, n - k, k), possible & (sure | (rest >= 0.0)), unsure


@draws("random_binomial")
def _binomial(stream: Stream, total: Any, probs: Any, shape: Any) -> Any:
    if not total.size:
        return total
    draw = _Draw(stream, (total, probs), shape)
    n, q = draw.parameters
    p = jnp.minimum(q, 1.0 - q)
    valid = (n >= 0.0) & (n < np.inf) & (p >= 0.0)
    small = valid & (n * p < BY_INVERSION)
    few, rare = jnp.where(small, n, 1.0), jnp.where(small, p, 0.5)
    odds = rare / (1.0 - rare)
    first = lax.exp(few * lax.log1p(-rare))
    k, doubt = _walked(_half_open(draw.first[1]), small, first, lambda k: odds * (few - k) / (k + 1.0), few)
    value = jnp.where(small, jnp.where(q > 0.5, n - k, k), np.nan)
    return draw.repeated(_propose_binomial, value, valid & ~small, doubt)
