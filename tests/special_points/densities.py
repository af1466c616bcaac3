"""Densities of `wengert.distributions`, of a value, a logit or another parameter, and the same in mpmath."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp

import wengert as wg

from .exact import pow_, sigmoid, softplus

D = wg.distributions
Density = tuple[str, Callable[..., Any], Callable[..., Any]]


def _log_beta(a: Any, b: Any) -> Any:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def _positive(x: Any) -> Any:
    if x <= 0:
        raise ValueError("outside of the support")
    return x


def _unit(x: Any) -> Any:
    if not 0 < x < 1:
        raise ValueError("outside of the support")
    return x


def _moderate(x: Any) -> Any:
    if abs(x) > 100:
        raise ValueError("a probability of 0 or 1")
    return x


def _as(x: Any, number: float) -> Any:
    return wg.zeros_like(x) + number


def _continuous_bernoulli(x: float, p: Any) -> Any:
    constant = mp.mpf(2) if p == 0.5 else 2 * mp.atanh(1 - 2 * p) / (1 - 2 * p)
    return x * mp.log(p) + (1 - x) * mp.log1p(-p) + mp.log(constant)


def of_one() -> Iterator[Density]:
    """Densities as functions of one number; what else they take is given."""
    log, exp = mp.log, mp.exp
    # As functions of the value.
    yield (
        "Normal",
        lambda x: D.Normal(1.0, 2.0).log_prob(x),
        lambda x: -(((x - 1) / 2) ** 2) / 2 - log(2) - log(2 * mp.pi) / 2,
    )
    yield (
        "LogNormal",
        lambda x: D.LogNormal(0.0, 1.0).log_prob(x),
        lambda x: -(log(_positive(x)) ** 2) / 2 - log(x) - log(2 * mp.pi) / 2,
    )
    yield "Laplace", lambda x: D.Laplace(1.0, 2.0).log_prob(x), lambda x: -abs(x - 1) / 2 - log(4)
    yield (
        "Logistic",
        lambda x: D.Logistic(1.0, 2.0).log_prob(x),
        lambda x: -(x - 1) / 2 - 2 * softplus(-(x - 1) / 2) - log(2),
    )
    yield "Cauchy", lambda x: D.Cauchy(1.0, 2.0).log_prob(x), lambda x: -mp.log1p(((x - 1) / 2) ** 2) - log(2 * mp.pi)
    yield (
        "HalfCauchy",
        lambda x: D.HalfCauchy(2.0).log_prob(x),
        lambda x: -mp.log1p((_positive(x) / 2) ** 2) - log(mp.pi),
    )
    yield "Gumbel", lambda x: D.Gumbel(0.0, 1.0).log_prob(x), lambda x: -x - exp(-x)
    yield (
        "StudentT",
        lambda x: D.StudentT(3.0, 1.0, 2.0).log_prob(x),
        lambda x: (
            -2 * mp.log1p(((x - 1) / 2) ** 2 / 3) + mp.loggamma(2) - mp.loggamma(1.5) - log(3 * mp.pi) / 2 - log(2)
        ),
    )
    yield (
        "VonMises",
        lambda x: D.VonMises(1.0, 2.0).log_prob(x),
        lambda x: 2 * mp.cos(x - 1) - log(2 * mp.pi * mp.besseli(0, 2)),
    )
    for k in (1.0, 2.0, 3.0, 1.5):
        yield (
            f"Weibull of shape {k}",
            lambda x, k=k: D.Weibull(1.0, k).log_prob(x),
            lambda x, k=k: log(k) + (k - 1) * log(_positive(x)) - pow_(x, mp.mpf(k)),
        )
    yield "Gamma", lambda x: D.Gamma(1.0, 2.0).log_prob(x), lambda x: log(2) - 2 * _positive(x)
    yield "InverseGamma", lambda x: D.InverseGamma(2.0, 1.0).log_prob(x), lambda x: -3 * log(_positive(x)) - 1 / x
    yield "Beta", lambda x: D.Beta(2.0, 1.0).log_prob(x), lambda x: log(2) + log(_unit(x))
    yield (
        "Kumaraswamy",
        lambda x: D.Kumaraswamy(2.0, 2.0).log_prob(x),
        lambda x: log(4) + log(_unit(x)) + mp.log1p(-x * x),
    )
    yield "FisherSnedecor", lambda x: D.FisherSnedecor(2.0, 4.0).log_prob(x), lambda x: -3 * mp.log1p(_positive(x) / 2)
    yield (
        "Pareto",
        lambda x: D.Pareto(0.5, 2.0).log_prob(x),
        lambda x: log(2) + 2 * log(0.5) - 3 * log(_positive(x - 0.5) + 0.5),
    )
    yield (
        "RelaxedBernoulli",
        lambda x: D.LogitRelaxedBernoulli(wg.tensor(1.0, dtype="float64"), logits=_as(x, 0.0)).log_prob(x),
        lambda x: -x - 2 * softplus(-x),
    )
    # As functions of a parameter.
    for k in (0.0, 1.0):
        yield (
            f"Bernoulli of logits at {k}",
            lambda x, k=k: D.Bernoulli(logits=x).log_prob(_as(x, k)),
            lambda x, k=k: -softplus(x) + k * x,
        )
        yield (
            f"Bernoulli of probs at {k}",
            lambda x, k=k: D.Bernoulli(probs=x).log_prob(_as(x, k)),
            lambda x, k=k: log(_unit(x)) if k else mp.log1p(-_unit(x)),
        )
    yield (
        "Binomial of logits",
        lambda x: D.Binomial(3.0, logits=x).log_prob(_as(x, 1.0)),
        lambda x: log(3) - softplus(-x) - 2 * softplus(x),
    )
    yield (
        "Geometric of logits",
        lambda x: D.Geometric(logits=x).log_prob(_as(x, 2.0)),
        lambda x: -softplus(-_moderate(x)) - 2 * softplus(x),
    )
    yield (
        "NegativeBinomial of logits",
        lambda x: D.NegativeBinomial(2.0, logits=x).log_prob(_as(x, 1.0)),
        lambda x: log(2) - softplus(-_moderate(x)) - 2 * softplus(x),
    )
    yield (
        "ContinuousBernoulli of logits",
        lambda x: D.ContinuousBernoulli(logits=x).log_prob(_as(x, 0.25)),
        lambda x: _continuous_bernoulli(0.25, sigmoid(x)),
    )
    yield (
        "Categorical of logits",
        lambda x: D.Categorical(logits=wg.stack([x, _as(x, 0.0)], axis=-1)).log_prob(wg.zeros_like(x, dtype="int64")),
        lambda x: -softplus(-x),
    )
    yield "Poisson", lambda x: D.Poisson(x).log_prob(_as(x, 2.0)), lambda x: 2 * log(_positive(x)) - x - log(2)
    yield (
        "Normal of loc",
        lambda x: D.Normal(x, 2.0).log_prob(_as(x, 1.0)),
        lambda x: -(((x - 1) / 2) ** 2) / 2 - log(2) - log(2 * mp.pi) / 2,
    )
    yield (
        "Normal of scale",
        lambda x: D.Normal(1.0, x).log_prob(_as(x, 1.0)),
        lambda x: -log(_positive(x)) - log(2 * mp.pi) / 2,
    )
    yield (
        "Logistic of loc",
        lambda x: D.Logistic(x, 2.0).log_prob(_as(x, 1.0)),
        lambda x: -(1 - x) / 2 - 2 * softplus(-(1 - x) / 2) - log(2),
    )
    yield (
        "StudentT of df",
        lambda x: D.StudentT(x).log_prob(_as(x, 1.0)),
        lambda x: (
            -(_positive(x) + 1) / 2 * mp.log1p(1 / x)
            + mp.loggamma((x + 1) / 2)
            - mp.loggamma(x / 2)
            - log(x * mp.pi) / 2
        ),
    )
    yield "Weibull of concentration", lambda x: D.Weibull(1.0, x).log_prob(_as(x, 1.0)), lambda x: log(_positive(x)) - 1
    yield (
        "Gamma of concentration",
        lambda x: D.Gamma(x, 1.0).log_prob(_as(x, 1.0)),
        lambda x: -mp.loggamma(_positive(x)) - 1,
    )
    yield (
        "GeneralizedPareto of concentration",
        lambda x: D.GeneralizedPareto(0.0, 1.0, x).log_prob(_as(x, 0.25)),
        lambda x: -(1 + 1 / x) * mp.log1p(x / 4),
    )
    yield (
        "VonMises of concentration",
        lambda x: D.VonMises(0.0, x).log_prob(_as(x, 0.0)),
        lambda x: _positive(x) - log(2 * mp.pi * mp.besseli(0, x)),
    )


def of_two() -> Iterator[Density]:
    """Densities as functions of two numbers: the value and a parameter, or two parameters."""
    log = mp.log
    yield (
        "Weibull of value and shape",
        lambda x, k: D.Weibull(1.0, k).log_prob(x),
        lambda x, k: log(_positive(k)) + (k - 1) * log(_positive(x)) - pow_(x, k),
    )
    yield (
        "Logistic of value and loc",
        lambda x, m: D.Logistic(m, 1.0).log_prob(x),
        lambda x, m: -(x - m) - 2 * softplus(-(x - m)),
    )
    yield "Laplace of value and loc", lambda x, m: D.Laplace(m, 1.0).log_prob(x), lambda x, m: -abs(x - m) - log(2)
    yield (
        "Normal of value and scale",
        lambda x, s: D.Normal(0.0, s).log_prob(x),
        lambda x, s: -((x / s) ** 2) / 2 - log(_positive(s)) - log(2 * mp.pi) / 2,
    )
    yield (
        "Gamma of value and shape",
        lambda x, a: D.Gamma(a, 1.0).log_prob(x),
        lambda x, a: (_positive(a) - 1) * log(_positive(x)) - x - mp.loggamma(a),
    )
    yield (
        "Cauchy of value and loc",
        lambda x, m: D.Cauchy(m, 1.0).log_prob(x),
        lambda x, m: -mp.log1p((x - m) ** 2) - log(mp.pi),
    )
    yield (
        "Beta of both shapes",
        lambda a, b: D.Beta(a, b).log_prob(_as(a, 0.5)),
        lambda a, b: -_log_beta(_positive(a), _positive(b)) + (a + b - 2) * log(mp.mpf(0.5)),
    )
