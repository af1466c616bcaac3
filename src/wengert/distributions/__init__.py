"""Probability distributions, differentiable draws and gradient estimators: `wg.distributions`.

>>> import wengert as wg
>>> loc = wg.tensor(0.0, requires_grad=True)
>>> p = wg.distributions.Normal(loc, 1.0)
>>> (p.rsample((1000,), key=wg.random.key(0)) ** 2).mean().backward()
"""

from __future__ import annotations

from .continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    Logistic,
    LogNormal,
    Normal,
    Uniform,
    Weibull,
)
from .discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from .distribution import Distribution
from .divergence import kl_divergence, register_kl
from .estimators import score_function
from .gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
from .multivariate import Independent, MultivariateNormal
from .relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from .transformed import (
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    TransformedDistribution,
)

__all__ = [
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfNormal",
    "Independent",
    "Laplace",
    "LogNormal",
    "Logistic",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "SigmoidTransform",
    "SoftplusTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "Weibull",
    "kl_divergence",
    "register_kl",
    "score_function",
]


def __dir__() -> list[str]:
    return sorted(__all__)
