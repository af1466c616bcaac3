"""Probability distributions under PyTorch's path, with PyTorch's conventions; see :mod:`wengert.distributions`.

>>> import wengert.torch as torch
>>> from wengert.torch.distributions import Categorical
>>> p = Categorical(logits=torch.zeros(4))
>>> p.log_prob(p.sample()), p.entropy()
(tensor(-1.3863), tensor(1.3863))
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from ..absent import names_of
from . import composed, constraint_registry, constraints, distribution, families, kl, transforms, utils
from .constraint_registry import biject_to, transform_to
from .distribution import Distribution
from .kl import kl_divergence, register_kl

# In which module PyTorch has each.
PLACES: dict[str, tuple[str, ...]] = {
    "bernoulli": ("Bernoulli",),
    "beta": ("Beta",),
    "binomial": ("Binomial",),
    "categorical": ("Categorical",),
    "cauchy": ("Cauchy",),
    "chi2": ("Chi2",),
    "continuous_bernoulli": ("ContinuousBernoulli",),
    "dirichlet": ("Dirichlet",),
    "exp_family": ("ExponentialFamily",),
    "exponential": ("Exponential",),
    "fishersnedecor": ("FisherSnedecor",),
    "gamma": ("Gamma",),
    "generalized_pareto": ("GeneralizedPareto",),
    "geometric": ("Geometric",),
    "gumbel": ("Gumbel",),
    "half_cauchy": ("HalfCauchy",),
    "half_normal": ("HalfNormal",),
    "independent": ("Independent",),
    "inverse_gamma": ("InverseGamma",),
    "kumaraswamy": ("Kumaraswamy",),
    "laplace": ("Laplace",),
    "lkj_cholesky": ("LKJCholesky",),
    "log_normal": ("LogNormal",),
    "logistic_normal": ("LogisticNormal",),
    "lowrank_multivariate_normal": ("LowRankMultivariateNormal",),
    "mixture_same_family": ("MixtureSameFamily",),
    "multinomial": ("Multinomial",),
    "multivariate_normal": ("MultivariateNormal",),
    "negative_binomial": ("NegativeBinomial",),
    "normal": ("Normal",),
    "one_hot_categorical": ("OneHotCategorical", "OneHotCategoricalStraightThrough"),
    "pareto": ("Pareto",),
    "poisson": ("Poisson",),
    "relaxed_bernoulli": ("LogitRelaxedBernoulli", "RelaxedBernoulli"),
    "relaxed_categorical": ("ExpRelaxedCategorical", "RelaxedOneHotCategorical"),
    "studentT": ("StudentT",),
    "transformed_distribution": ("TransformedDistribution",),
    "uniform": ("Uniform",),
    "von_mises": ("VonMises",),
    "weibull": ("Weibull",),
    "wishart": ("Wishart",),
}

# What PyTorch has in its modules alone.
_INNER = {"ExpRelaxedCategorical", "LogitRelaxedBernoulli"}
_SOURCES = (families, composed, distribution)
_ALL = {name: getattr(source, name) for source in _SOURCES for name in source.__all__}
globals().update({name: value for name, value in _ALL.items() if name not in _INNER})
globals().update({name: getattr(transforms, name) for name in transforms.__all__})


def _module(name: str, names: tuple[str, ...]) -> ModuleType:
    """Return the module in which PyTorch has a distribution: `torch.distributions.normal`."""
    path = f"{__name__}.{name}"
    made = ModuleType(path, f"`{', '.join(names)}` under PyTorch's path.")
    made.__spec__ = ModuleSpec(path, None)
    made.__dict__.update({n: _ALL[n] for n in names}, __all__=list(names), __getattr__=names_of(path))
    sys.modules[path] = made
    return made


globals().update({name: _module(name, names) for name, names in PLACES.items()})

__all__ = sorted(
    {"biject_to", "constraints", "kl", "kl_divergence", "register_kl", "transform_to", "transforms"}
    | (_ALL.keys() - _INNER)
    | set(transforms.__all__)
)


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
