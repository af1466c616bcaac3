"""Gamma, Poisson and binomial random numbers, by rejection from counter-based bits.

Element i of a draw at position c owns the block c + i of the cipher, and attempt t of it the counter
(c + i, ., t, 0): an element's number depends on its own parameters and place alone, however often
others are rejected, and only first attempts take room in the stream. A block's four words of 64 bits
make u1 = (top 53 bits + 1) 2**-53, u2 = top 53 bits times 2**-53, and u3, u4 as u1.

A tensor of parameters may have more leading axes than the draw has: the same bits then serve them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.declare import op
from ...core.ops.op import TABLE, Call, Missing, Op, Partial
from ...core.ops.operands import promote_tensors
from ...core.spec import Shape, Spec, broadcast_shapes, category, default_float, normalize_shape, show
from ...core.tensor import Tensor
from ..pointwise.arithmetic import exp
from ..special.gamma import _lgamma
from ..special.incomplete_gamma import gamma_ratio
from ..special.wide import Array
from . import rejection_definitions as definitions
from .draws import at, draw_with
from .generator import Generator, draw
from .keys import keyed
from .philox import BLOCK, Key, words64

_CHUNK = 1 << 15
BY_INVERSION = 10.0  # below this mean counts are found by walking up the distribution

Propose = Callable[..., tuple[Array, Array]]


def blocks(key: Key, position: int, count: int, attempt: int) -> Array:
    """Return the words of `count` elements from `position` on, (count, 4)."""
    return words64(key, position + (attempt << 128), BLOCK * count).reshape(count, BLOCK)


def _open(words: Array) -> Array:
    """Return uniform numbers in (0, 1]."""
    out: Array = ((words >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53
    return out


def _half_open(words: Array) -> Array:
    """Return uniform numbers in [0, 1)."""
    out: Array = (words >> np.uint64(11)) * 2.0**-53
    return out


def _rejected(propose: Propose, parameters: tuple[Any, ...], key: Key, counter: int, shape: Shape) -> Any:
    """Return `propose(words, attempt, *parameters)`, repeated for every element until it accepts."""
    arrays = [np.asarray(p) for p in parameters]
    dtype, full = arrays[0].dtype, arrays[0].shape
    count = prod(shape)
    rows = prod(full[: len(full) - len(shape)])
    flat = [a.reshape(rows, count) for a in arrays]
    out = np.empty((rows, count), dtype)
    with np.errstate(all="ignore"):
        for start in range(0, count, _CHUNK):
            part = [a[:, start : start + _CHUNK].astype(np.float64) for a in flat]
            out[:, start : start + _CHUNK] = _accepted(propose, part, key, counter + start)
    return out.reshape(full)


def _accepted(propose: Propose, parameters: list[Array], key: Key, position: int) -> Array:
    width = parameters[0].shape[1]
    flat = [p.reshape(-1) for p in parameters]
    out = np.full(flat[0].shape, np.nan)
    pending = np.arange(flat[0].size)
    attempt = 0
    while pending.size:
        columns = pending % width
        first = int(columns.min())
        words = blocks(key, position + first, int(columns.max()) + 1 - first, attempt)[columns - first]
        value, accept = propose(words, attempt, *(p[pending] for p in flat))
        out[pending[accept]] = value[accept]
        pending = pending[~accept]
        attempt += 1
    return out.reshape(parameters[0].shape)


# -- gamma


def _propose_loggamma(words: Array, attempt: int, a: Array) -> tuple[Array, Array]:
    u1, u2, u3 = _open(words[:, 0]), _half_open(words[:, 1]), _open(words[:, 2])
    x = np.sqrt(-2.0 * np.log(u1)) * np.cos(2.0 * math.pi * u2)
    d = np.where(a < 1.0, a + 1.0, a) - 1.0 / 3.0
    root = 1.0 + x / np.sqrt(9.0 * d)
    log_v = 3.0 * np.log(np.maximum(root, 1e-300))
    accept = (root > 0.0) & (np.log(u3) < 0.5 * x * x + d - d * root**3 + d * log_v)
    value = np.log(d) + log_v
    fixed = ~((a > 0.0) & (a < np.inf))
    return np.where(fixed, np.where(a == 0.0, -np.inf, np.where(a > 0.0, np.inf, np.nan)), value), accept | fixed


def _loggamma(concentration: Any, *, key: Key, counter: int, shape: Shape) -> Any:
    out = _rejected(_propose_loggamma, (concentration,), key, counter, shape)
    a = np.asarray(concentration)
    small = a < 1.0
    if small.any():
        # A gamma variate of shape a + 1 times u**(1/a) is one of shape a.
        count = prod(shape)
        boost = np.empty(count)
        for start in range(0, count, _CHUNK):
            part = boost[start : start + _CHUNK]
            part[:] = np.log(_open(blocks(key, counter + start, part.size, 0)[:, 3]))
        with np.errstate(all="ignore"):
            shifted = out.astype(np.float64) + boost.reshape(shape) / a.astype(np.float64)
        out = np.where(small & (a > 0.0), shifted.astype(out.dtype), out)
    return out


def _infer_parameters(*specs: Any, shape: Shape, **_: Any) -> Spec:
    spec: Spec = specs[0]
    if any(s.shape != spec.shape for s in specs) or spec.shape[len(spec.shape) - len(shape) :] != shape:
        fail(
            ShapeError,
            f"a draw of shape {shape} with parameters {' and '.join(show(s.shape, s.dtype) for s in specs)}",
            "The parameters' last axes are those of the draw.",
        )
    return spec


_SEEDED = Missing("ONNX has no such random operator")


def _samples(*parameters: tuple[float, float]) -> Any:
    def calls(rng: Any) -> list[Call]:
        return [
            Call(
                tuple(rng.uniform(*p, (*lead, *shape)) for p in parameters),
                {"key": (5, 2), "counter": counter, "shape": shape},
                order=0,
            )
            for lead, shape, counter in (
                ((), (7,), 0),
                ((), (2, 3), 9),
                ((2,), (4,), 2**64 - 2),
                ((), (), 1),
                ((), (0,), 1),
            )
        ]

    return calls


random_loggamma: Op = op(
    "random_loggamma(concentration; key, counter, shape)",
    _loggamma,
    accepts="real_inexact",
    infer=_infer_parameters,
    facts={"concentration": Partial(lambda concentration, out: gamma_ratio(concentration, out, n=1))},
    doc="Logarithms of gamma random numbers of rate 1; differentiable in the concentration by implicit "
    "reparameterisation, minus dF/da over the density.",
    source="Marsaglia & Tsang 2000, A simple method for generating gamma variables; Figurnov, Mohamed & Mnih 2018, "
    "Implicit reparameterization gradients",
    samples=_samples((0.2, 5.0)),
    reference=definitions.random_loggamma,
    onnx=_SEEDED,
    dependence="broadcast",
    cost=150,
)

# -- counts


def _walk(u: Array, first: Array, ratio: Callable[[Array], Array], last: Any) -> Array:
    """Return the least k whose cumulative probability exceeds u, from P(0) and P(k + 1) / P(k)."""
    k = np.zeros_like(u)
    term, below = first, first.copy()
    while (moving := (u >= below) & (k < last)).any():
        term = term * ratio(k)
        k = np.where(moving, k + 1.0, k)
        below = np.where(moving, below + term, below)
        if not (term[moving] > 0.0).any():
            break
    return k


def _propose_poisson(words: Array, attempt: int, rate: Array) -> tuple[Array, Array]:
    u, v = _half_open(words[:, 1]), _open(words[:, 0])
    fixed = ~((rate >= 0.0) & (rate < np.inf))
    out, accept = np.where(rate == np.inf, np.inf, np.nan), fixed.copy()
    small = ~fixed & (rate < BY_INVERSION)
    if small.any():
        lam = rate[small]
        out[small] = _walk(u[small], np.exp(-lam), lambda k: lam / (k + 1.0), np.inf)
        accept |= small
    large = ~fixed & ~small
    if large.any():
        out[large], accept[large] = _transformed_poisson(u[large] - 0.5, v[large], rate[large])
    return out, accept


def _transformed_poisson(u: Array, v: Array, rate: Array) -> tuple[Array, Array]:
    """Return Poisson counts by Hörmann's PTRS."""
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    us = 0.5 - np.abs(u)
    k = np.floor((2.0 * a / us + b) * u + rate + 0.43)
    sure = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
    possible = (k >= 0.0) & ((us >= 0.013) | (v <= us))
    level = np.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b))
    below = level <= k * np.log(rate) - rate - _lgamma(np.maximum(k, 0.0) + 1.0)
    return k, sure | (possible & below)


def _propose_binomial(words: Array, attempt: int, total: Array, probs: Array) -> tuple[Array, Array]:
    u, v = _half_open(words[:, 1]), _open(words[:, 0])
    p = np.minimum(probs, 1.0 - probs)
    valid = (total >= 0.0) & (total < np.inf) & (p >= 0.0)
    out, accept = np.full_like(total, np.nan), ~valid
    small = valid & (total * p < BY_INVERSION)
    if small.any():
        n, q = total[small], p[small]
        odds = q / (1.0 - q)
        out[small] = _walk(u[small], np.exp(n * np.log1p(-q)), lambda k: odds * (n - k) / (k + 1.0), n)
        accept |= small
    large = valid & ~small
    if large.any():
        out[large], accept[large] = _transformed_binomial(u[large] - 0.5, v[large], total[large], p[large])
    return np.where(probs > 0.5, total - out, out), accept


def _transformed_binomial(u: Array, v: Array, n: Array, p: Array) -> tuple[Array, Array]:
    """Return binomial counts by Hörmann's BTRS."""
    deviation = np.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    us = 0.5 - np.abs(u)
    k = np.floor((2.0 * a / us + b) * u + n * p + 0.5)
    sure = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
    possible = (k >= 0.0) & (k <= n)
    level = np.log(v * (2.83 + 5.1 / b) * deviation / (a / (us * us) + b))
    mode = np.floor((n + 1.0) * p)
    inside = np.clip(k, 0.0, n)
    heights = _lgamma(mode + 1.0) + _lgamma(n - mode + 1.0) - _lgamma(inside + 1.0) - _lgamma(n - inside + 1.0)
    return k, possible & (sure | (level <= heights + (k - mode) * np.log(p / (1.0 - p))))


def _poisson(rate: Any, *, key: Key, counter: int, shape: Shape) -> Any:
    return _rejected(_propose_poisson, (rate,), key, counter, shape)


def _binomial(total: Any, probs: Any, *, key: Key, counter: int, shape: Shape) -> Any:
    return _rejected(_propose_binomial, (total, probs), key, counter, shape)


def _binomial_samples(rng: Any) -> list[Call]:
    return [
        Call((np.asarray(np.floor(call.args[0])), call.args[1]), call.attrs, order=0)
        for call in _samples((1.0, 90.0), (0.02, 0.98))(rng)
    ]


random_poisson = op(
    "random_poisson(rate; key, counter, shape)",
    _poisson,
    accepts="real_inexact",
    infer=_infer_parameters,
    doc="Poisson random counts, as floating numbers.",
    source="Hörmann 1993, The transformed rejection method for generating Poisson random variables",
    samples=_samples((0.1, 40.0)),
    reference=definitions.random_poisson,
    onnx=_SEEDED,
    cost=150,
)
random_binomial = op(
    "random_binomial(total, probs; key, counter, shape)",
    _binomial,
    accepts="real_inexact",
    infer=_infer_parameters,
    doc="Binomial random counts, as floating numbers.",
    source="Hörmann 1993, The generation of binomial random variates",
    samples=_binomial_samples,
    reference=definitions.random_binomial,
    onnx=_SEEDED,
    cost=150,
)

for _drawing in (random_loggamma, random_poisson, random_binomial):
    at(_drawing)

# -- drawing


def _drawn(made: Op, name: str, parameters: tuple[Any, ...], shape: Any, generator: Generator | None) -> Tensor:
    tensors = promote_tensors(name, *parameters)
    if category(tensors[0].dtype) == 3:
        fail(DTypeError, f"{name}: parameters of dtype {tensors[0].dtype}", "They must be real.")
    if category(tensors[0].dtype) < 2 or all(t.is_weak for t in tensors):
        tensors = [TABLE["cast"].front(t, dtype=default_float()) for t in tensors]
    spread = _spread(name, tensors, None if shape is None else normalize_shape(shape))
    found = spread[0].shape
    out: Tensor = draw_with(made, spread, draw(generator, BLOCK * prod(found)), {"shape": found})
    return out


def _spread(name: str, tensors: list[Tensor], shape: Shape | None) -> list[Tensor]:
    """Return the parameters in the shape of the result: the one asked for, or what they broadcast to."""
    common = broadcast_shapes(*(t.shape for t in tensors))
    if common is None or (shape is not None and broadcast_shapes(common, shape) != shape):
        fail(
            ShapeError,
            f"{name}: parameters {' and '.join(show(t.shape, t.dtype) for t in tensors)} do not broadcast"
            + ("" if shape is None else f" to the result's shape {shape}"),
            "`shape` is the whole shape of the result, its last axes those of the parameters.",
        )
    found = common if shape is None else shape
    return [t if t.shape == found else TABLE["broadcast"].front(t, shape=found) for t in tensors]


@keyed
def loggamma(concentration: Any, shape: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Return logarithms of gamma random numbers of rate 1: finite where a small concentration makes those underflow.

    Parameters and errors as in :func:`gamma`.

    >>> import wengert as wg
    >>> x = wg.random.loggamma(wg.tensor(1e-4), (100,), key=wg.random.key(0))
    >>> bool(wg.isfinite(x).all()) and float(x.min()) < -1000
    True
    """
    return _drawn(random_loggamma, "loggamma", (concentration,), shape, generator)


@keyed
def gamma(concentration: Any, shape: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Return gamma random numbers of rate 1, differentiable in the concentration.

    Parameters
    ----------
    concentration: positive; any shape.
    shape: of the result, to which the concentration broadcasts; its own where left out.
    generator: a :class:`Generator`, or `key`: a key; the default generator without either.

    The derivative is the implicit one, minus dF/da over the density, to any order. Raises ShapeError, DTypeError.

    Source: Marsaglia & Tsang 2000; Figurnov, Mohamed & Mnih 2018.

    >>> import wengert as wg
    >>> a = wg.tensor(3.0, requires_grad=True)
    >>> wg.random.gamma(a, (100_000,), key=wg.random.key(0)).mean().backward()
    >>> abs(float(a.grad) - 1.0) < 0.02  # the mean is a
    True
    """
    out: Tensor = exp.front(_drawn(random_loggamma, "gamma", (concentration,), shape, generator))
    return out


@keyed
def poisson(rate: Any, shape: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Return Poisson random counts, in the rate's floating dtype; no gradient flows to the rate.

    Parameters and errors as in :func:`gamma`. Source: Hörmann 1993.

    >>> import wengert as wg
    >>> wg.random.poisson(0.0, (2,))
    tensor([0., 0.])
    """
    return _drawn(random_poisson, "poisson", (rate,), shape, generator)


@keyed
def binomial(total: Any, probs: Any, shape: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Return counts of successes in `total` trials of probability `probs`; in the parameters' floating dtype.

    No gradient flows to either. Parameters and errors as in :func:`gamma`. Source: Hörmann 1993.

    >>> import wengert as wg
    >>> wg.random.binomial(5, wg.tensor([0.0, 1.0]))
    tensor([0., 5.])
    """
    return _drawn(random_binomial, "binomial", (total, probs), shape, generator)
