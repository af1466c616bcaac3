"""The Kullback-Leibler divergence between distributions of one family."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import wengert as wg

from ..core.errors import ShapeError, fail
from ..core.tensor import Tensor
from .bounded import ContinuousBernoulli
from .continuous import (
    EULER,
    Cauchy,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    Pareto,
    Uniform,
    Weibull,
)
from .discrete import Bernoulli, Binomial, Categorical, Classes, Geometric, OneHotCategorical, Poisson, Trials
from .distribution import AbsentError, Distribution, sum_last
from .gamma import Beta, Dirichlet, Gamma, InverseGamma
from .matrices import LowRankMultivariateNormal, Wishart, log_diagonal, log_multigamma, multidigamma
from .multivariate import Independent, MultivariateNormal
from .transformed import TransformedDistribution

Rule = Callable[[Any, Any], Tensor]
F = TypeVar("F", bound=Rule)

_RULES: dict[tuple[type, type], Rule] = {}


def register_kl(p: type[Distribution], q: type[Distribution]) -> Callable[[F], F]:
    """Declare `kl_divergence` for a pair of classes, and for their subclasses without a closer rule.

    A rule that returns NotImplemented leaves the pair to the next one.
    """

    def register(fn: F) -> F:
        _RULES[p, q] = fn
        return fn

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return KL(p || q), the expectation under p of log p - log q, in nats; of the batches' broadcast shape.

    Infinite where p gives weight to what q excludes. Raises GraphError for a pair without a closed form.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    tensor(0.5)
    """
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            found = _RULES[a, b](p, q) if (a, b) in _RULES else NotImplemented
            if found is not NotImplemented:
                return found
    fail(
        AbsentError,
        f"no closed form of the divergence of {type(p).__name__} from {type(q).__name__} is known",
        "Estimate it: x = p.rsample((n,)); (p.log_prob(x) - q.log_prob(x)).mean(0). "
        "Or declare one with wg.distributions.register_kl.",
    )


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = p.scale / q.scale
    z = (p.loc - q.loc) / q.scale
    return 0.5 * (ratio * ratio + z * z - 1.0) - wg.log(ratio)


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    return _normal(Normal(p.loc, p.scale), Normal(q.loc, q.scale))


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    ratio = p.scale / q.scale
    return 0.5 * (ratio * ratio - 1.0) - wg.log(ratio)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    covered = (q.low <= p.low) & (p.high <= q.high)
    return wg.where(covered, wg.log((q.high - q.low) / (p.high - p.low)), math.inf)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1.0 - wg.log(ratio)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    away = wg.abs(p.loc - q.loc)
    return ratio * wg.exp(-away / p.scale) + away / q.scale - 1.0 - wg.log(ratio)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Return the divergence of Cauchy distributions in closed form.

    Source: Chyzak & Nielsen 2019, A closed-form formula for the KL divergence between Cauchy distributions.
    """
    square = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return wg.log(square / (4.0 * p.scale * q.scale))


@register_kl(HalfCauchy, HalfCauchy)
def _half_cauchy(p: HalfCauchy, q: HalfCauchy) -> Tensor:
    # That of the whole distributions, which are symmetric around the same number.
    return 2.0 * wg.log(p.scale + q.scale) - wg.log(4.0 * p.scale * q.scale)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    away = (q.loc - p.loc) / q.scale
    return -wg.log(ratio) + EULER * (ratio - 1.0) - away + wg.exp(away + wg.special.lgamma(1.0 + ratio)) - 1.0


@register_kl(Weibull, Weibull)
def _weibull(p: Weibull, q: Weibull) -> Tensor:
    k, m = p.concentration, q.concentration
    log_ratio = wg.log(p.scale / q.scale)
    moment = wg.exp(m * log_ratio + wg.special.lgamma(m / k + 1.0))
    return wg.log(k / m) - m * log_ratio + (m / k - 1.0) * EULER + moment - 1.0


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * wg.log(p.rate / q.rate)
        + wg.special.lgamma(b)
        - wg.special.lgamma(a)
        + (a - b) * wg.special.digamma(a)
        + a * (q.rate / p.rate - 1.0)
    )


@register_kl(InverseGamma, InverseGamma)
def _inverse_gamma(p: InverseGamma, q: InverseGamma) -> Tensor:
    return _gamma(Gamma(p.concentration, p.rate), Gamma(q.concentration, q.rate))


@register_kl(Wishart, Wishart)
def _wishart(p: Wishart, q: Wishart) -> Tensor:
    n = p.event_shape[0]
    if q.event_shape != p.event_shape:
        fail(ShapeError, f"Wishart distributions of dimensions {n} and {q.event_shape[0]} have no divergence")
    lead = wg.broadcast_shapes(p.batch_shape, q.batch_shape)
    left, right = (wg.broadcast_to(d.scale_tril, (*lead, n, n)) for d in (p, q))
    spread = wg.linalg.solve_triangular(right, left, upper=False)
    return (
        q.df * (log_diagonal(q.scale_tril) - log_diagonal(p.scale_tril))
        + 0.5 * p.df * (wg.sum(spread * spread, axis=(-2, -1)) - float(n))
        + log_multigamma(0.5 * q.df, n)
        - log_multigamma(0.5 * p.df, n)
        + 0.5 * (p.df - q.df) * multidigamma(0.5 * p.df, n)
    )


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    return _gamma(Gamma(wg.ones_like(p.rate), p.rate), q)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return _gamma(p, Gamma(wg.ones_like(q.rate), q.rate))


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    return (
        wg.special.betaln(c, d)
        - wg.special.betaln(a, b)
        + (a - c) * wg.special.digamma(a)
        + (b - d) * wg.special.digamma(b)
        + (c - a + d - b) * wg.special.digamma(a + b)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = wg.sum(a, axis=-1, keepdims=True)
    terms = (a - b) * (wg.special.digamma(a) - wg.special.digamma(total)) + wg.special.lgamma(b) - wg.special.lgamma(a)
    return wg.sum(terms, axis=-1) + wg.special.lgamma(wg.sum(a, axis=-1)) - wg.special.lgamma(wg.sum(b, axis=-1))


def _success(p: Trials, q: Trials) -> Tensor:
    """Return the divergence of one trial."""
    x, y = p.probs, p._failure
    return p._log_likelihood(x, y) - q._log_likelihood(x, y)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    return _success(p, q)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    fewer = p.total_count < q.total_count
    if not fewer.is_abstract and bool(wg.any(fewer)):
        fail(AbsentError, "a Binomial distribution of fewer trials has no divergence in closed form from one of more")
    return _where_covered(p.total_count <= q.total_count, p.total_count * _success(p, q))


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return _success(p, q) / p.probs


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return wg.special.xlogy(p.rate, p.rate) - wg.special.xlogy(p.rate, q.rate) - (p.rate - q.rate)


def _classes(p: Classes, q: Classes) -> Tensor:
    if p._num_classes != q._num_classes:
        fail(ShapeError, f"distributions over {p._num_classes} and {q._num_classes} classes have no divergence")
    possible = p.probs > 0.0
    both = possible & (q.probs > 0.0)
    difference = wg.where(possible, p.logits, 0.0) - wg.where(both, q.logits, 0.0)
    terms = wg.where(possible & ~both, math.inf, p.probs * difference)
    return wg.sum(terms, axis=-1)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    return _classes(p, q)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _classes(p, q)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    n = p.event_shape[0]
    if q.event_shape != p.event_shape:
        fail(ShapeError, f"normal distributions of dimensions {n} and {q.event_shape[0]} have no divergence")
    lead = wg.broadcast_shapes(p.batch_shape, q.batch_shape)
    left = wg.broadcast_to(p.scale_tril, (*lead, n, n))
    right = wg.broadcast_to(q.scale_tril, (*lead, n, n))
    away = wg.broadcast_to(wg.expand_dims(q.loc - p.loc, axis=-1), (*lead, n, 1))
    spread = wg.linalg.solve_triangular(right, left, upper=False)
    shift = wg.linalg.solve_triangular(right, away, upper=False)
    squares = wg.sum(spread**2, axis=(-2, -1)) + wg.sum(shift**2, axis=(-2, -1))
    found: Tensor = q._half_log_det() - p._half_log_det() + 0.5 * (squares - float(n))
    return found


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        fail(AbsentError, "Independent distributions of different event axes have no divergence in closed form")
    return sum_last(kl_divergence(p.base, q.base), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    same = len(p.transforms) == len(q.transforms) and all(
        a is b or a == b for a, b in zip(p.transforms, q.transforms, strict=True)
    )
    if not same:
        fail(
            AbsentError,
            "transformed distributions have a divergence in closed form only where they share their transforms",
            "Give both the same transform objects.",
        )
    return kl_divergence(p.base, q.base)


# -- of one family from another


def _mean_log(p: Any) -> Tensor:
    """Return the expectation of log x."""
    if isinstance(p, Beta):
        return wg.special.digamma(p.concentration1) - wg.special.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Pareto):
        return wg.log(p.scale) + 1.0 / p.alpha
    # A uniform distribution from 0 or a positive number on.
    found: Tensor = (wg.special.xlogy(p.high, p.high) - wg.special.xlogy(p.low, p.low)) / (p.high - p.low) - 1.0
    return found


def _where_covered(covered: Any, found: Tensor) -> Tensor:
    """Return a divergence where p lies within the other's support, infinity elsewhere."""
    return wg.where(covered, found, math.inf)


def _is_positive(p: Any) -> Any:
    return p.low >= 0.0 if isinstance(p, Uniform) else True


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Pareto, Normal)
@register_kl(Uniform, Normal)
def _from_normal(p: Any, q: Normal) -> Tensor:
    finite = p.variance < math.inf
    spread = wg.where(finite, p.variance + (p.mean - q.loc) ** 2, 0.0)
    found = 0.5 * spread / q.scale**2 + wg.log(q.scale) + 0.5 * math.log(2.0 * math.pi) - p.entropy()
    return _where_covered(finite, found)


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Uniform, Exponential)
def _from_exponential(p: Any, q: Exponential) -> Tensor:
    finite = p.mean < math.inf
    found = q.rate * wg.where(finite, p.mean, 0.0) - wg.log(q.rate) - p.entropy()
    return _where_covered(finite & _is_positive(p), found)


@register_kl(Beta, Gamma)
@register_kl(Pareto, Gamma)
@register_kl(Uniform, Gamma)
def _from_gamma(p: Any, q: Gamma) -> Tensor:
    a, b = q.concentration, q.rate
    finite = (p.mean < math.inf) & _is_positive(p)
    log = _mean_log(Uniform(wg.where(finite, p.low, 1.0), wg.where(finite, p.high, 2.0)) if _is_uniform(p) else p)
    found = wg.special.lgamma(a) - a * wg.log(b) - (a - 1.0) * log + b * wg.where(finite, p.mean, 0.0) - p.entropy()
    return _where_covered(finite, found)


def _is_uniform(p: Any) -> bool:
    return isinstance(p, Uniform)


def _mean_exp(p: Any, q: Gumbel) -> Tensor:
    """Return the expectation of exp(-(x - loc) / scale)."""
    scale = q.scale
    shift = q.loc / scale
    if isinstance(p, Normal):
        return wg.exp(shift - p.loc / scale + 0.5 * (p.scale / scale) ** 2)
    if isinstance(p, Exponential):
        return wg.exp(shift) * p.rate / (p.rate + 1.0 / scale)
    if isinstance(p, Gamma):
        return wg.exp(shift - p.concentration * wg.log1p(1.0 / (p.rate * scale)))
    found: Tensor = scale * (wg.exp(shift - p.low / scale) - wg.exp(shift - p.high / scale)) / (p.high - p.low)
    return found


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _from_gumbel(p: Any, q: Gumbel) -> Tensor:
    found: Tensor = wg.log(q.scale) + (p.mean - q.loc) / q.scale + _mean_exp(p, q) - p.entropy()
    return found


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    away = (p.loc - q.loc) / p.scale
    # The mean of |x - loc|, of a folded normal.
    folded = math.sqrt(2.0 / math.pi) * wg.exp(-0.5 * away**2) + away * wg.special.erf(away / math.sqrt(2.0))
    return p.scale * folded / q.scale + wg.log(2.0 * q.scale) - p.entropy()


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    covered = (p.low >= 0.0) & (p.high <= 1.0)
    low, high = wg.where(covered, p.low, 0.25), wg.where(covered, p.high, 0.75)
    a, b = q.concentration1, q.concentration0
    log, log1p = _mean_log(Uniform(low, high)), _mean_log(Uniform(1.0 - high, 1.0 - low))
    found = wg.special.betaln(a, b) - (a - 1.0) * log - (b - 1.0) * log1p - p.entropy()
    return _where_covered(covered, found)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _from_uniform(p: Any, q: Uniform) -> Tensor:
    return _where_covered((q.low <= 0.0) & (q.high >= 1.0), wg.log(q.high - q.low) - p.entropy())


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _from_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    cross = p.mean * q.logits + wg.log(q._failure) + q._log_constant()
    covered = (p.low >= 0.0) & (p.high <= 1.0) if isinstance(p, Uniform) else True
    return _where_covered(covered, -cross - p.entropy())


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * wg.log(p.scale / q.scale) - wg.log(ratio) + ratio - 1.0
    return _where_covered(p.scale >= q.scale, found)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    covered = p.low >= q.scale
    log = _mean_log(Uniform(wg.where(covered, p.low, 1.0), wg.where(covered, p.high, 2.0)))
    found = (q.alpha + 1.0) * log - wg.log(q.alpha) - q.alpha * wg.log(q.scale) - p.entropy()
    return _where_covered(covered, found)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - wg.special.xlogy(p.probs, q.rate) - p.entropy()


# p gives weight to what q excludes.
_INFINITE: dict[type[Distribution], tuple[type[Distribution], ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Any, q: Any) -> Tensor:
    return wg.full(wg.broadcast_shapes(p.batch_shape, q.batch_shape), math.inf, dtype=p.dtype)


for _p, _others in _INFINITE.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)
