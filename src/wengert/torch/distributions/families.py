"""PyTorch's distributions of one family, each made of Wengert's class of that name by PyTorch's parameters."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import wengert as wg

from ... import distributions as plain
from ...core.ops.op import compiled
from ..namespace import as_torch
from ..tensor import Tensor
from .distribution import Distribution, ExponentialFamily, begin

# By name: the parameters with defaults where they are other than Wengert's.
_DEFAULTS: dict[str, dict[str, Any]] = {"Binomial": {"total_count": 1}}
_EXPONENTIAL = (
    *("Bernoulli", "Beta", "ContinuousBernoulli", "Dirichlet", "Exponential", "Gamma", "Normal", "Poisson", "Wishart"),
)
# Distributions over classes normalise what they are given before it is a member of the simplex.
_OVER_CLASSES = (
    *("Categorical", "Multinomial", "OneHotCategorical", "RelaxedOneHotCategorical"),
    *("ExpRelaxedCategorical",),
)
# What Wengert's class checks beyond the constraints.
_MORE_CHECKS = (*_OVER_CLASSES, "Geometric", "Uniform", "Wishart")
_NAMES = (
    *("Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "ContinuousBernoulli", "Dirichlet"),
    *("ExpRelaxedCategorical", "Exponential", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel"),
    *("HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal"),
    *("LogitRelaxedBernoulli", "LowRankMultivariateNormal", "Multinomial", "MultivariateNormal", "NegativeBinomial"),
    *("Normal", "OneHotCategorical", "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT"),
    *("Uniform", "VonMises", "Weibull", "Wishart"),
)


# -- what PyTorch's classes have beside Wengert's, or otherwise


def _log_prob_below(self: Any, value: Any) -> Any:
    """Return the logarithm of the density; at the upper end it is 0, as the interval is half open."""
    found = Distribution.log_prob(self, value)
    return as_torch(wg.where(value == self.high, -math.inf, found))


def _log_prob_of_number(self: Any, value: Any) -> Any:
    """Return the logarithm of the density of a value, which may be a number."""
    number = isinstance(value, (int, float))
    return Distribution.log_prob(self, as_torch(wg.asarray(value, dtype=self.dtype)) if number else value)


def _log_prob_of_class(self: Any, value: Any) -> Any:
    """Return the logarithm of the probabilities of classes, given as numbers of any dtype."""
    value = self._checked(value)
    if value.dtype.kind not in "iu":  # NaN is no class
        value = wg.where(value == value, value, -1).astype(wg.int64)
    return as_torch(plain.Categorical.log_prob(self, value))


def _half_icdf(self: Any, prob: Any) -> Any:
    """Return the quantile function, the inverse of `cdf`."""
    return Distribution.icdf(self, prob)


def _cdf_from_zero(self: Any, value: Any) -> Any:
    """Return the probability of an outcome of at most `value`; of 0 too, which is none."""
    if isinstance(value, Tensor):
        self._checked(wg.where(value == 0, 1.0, value))
    return as_torch(super(Distribution, self).cdf(value))


def _log_cdf(self: Any, value: Any) -> Any:
    """Return log(cdf(value))."""
    return as_torch(plain.GeneralizedPareto.log_cdf(self, self._checked(value)))


def _log_survival_function(self: Any, value: Any) -> Any:
    """Return log(1 - cdf(value))."""
    return as_torch(plain.GeneralizedPareto.log_survival_function(self, self._checked(value)))


class _Otherwise:
    """An attribute of instances that have not been given it, as those of a subclass with its own `__init__` may be."""

    def __init__(self, found: Callable[[Any], Any]) -> None:
        self._found = found

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self._found(instance)


def _root(self: Any) -> Any:
    """Return the root of the covariance by that which is not broadcast, under PyTorch's inner name for it."""
    return self._unbroadcasted_scale_tril.expand(self.batch_shape + self.event_shape + self.event_shape)


_INFINITE = property(lambda self: as_torch(wg.full_like(self.loc, math.inf)), doc="Infinity.")
_SHAPE_OF_PROBS = {"param_shape": property(lambda self: self.probs.shape, doc="The shape of the parameters.")}
_SHAPE_OF_LOGITS = {"param_shape": property(lambda self: self.logits.shape, doc="The shape of the parameters.")}
_OTHERWISE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("Bernoulli", "Binomial", "ContinuousBernoulli"), _SHAPE_OF_PROBS),
    **dict.fromkeys(("LogitRelaxedBernoulli", "NegativeBinomial"), _SHAPE_OF_PROBS),
    **dict.fromkeys(("ExpRelaxedCategorical", "Multinomial", "OneHotCategorical"), _SHAPE_OF_LOGITS),
    "Categorical": {"log_prob": _log_prob_of_class, **_SHAPE_OF_LOGITS},
    "Cauchy": {"variance": _INFINITE},
    "Gamma": {"log_prob": _log_prob_of_number},
    "GeneralizedPareto": {"log_cdf": _log_cdf, "log_survival_function": _log_survival_function},
    "HalfCauchy": {"icdf": _half_icdf},
    "HalfNormal": {"icdf": _half_icdf},
    "InverseGamma": {"cdf": _cdf_from_zero},
    "LogNormal": {"cdf": _cdf_from_zero},
    "MultivariateNormal": {
        "scale_tril": _Otherwise(_root),
        "_unbroadcasted_scale_tril": _Otherwise(lambda self: self.scale_tril),
    },
    "Uniform": {"log_prob": _log_prob_below},
    "Weibull": {"cdf": _cdf_from_zero},
}


def _constructor(name: str, of: type) -> Any:
    """Return `__init__` with the positional parameters of Wengert's class, and `validate_args`."""
    defaults: dict[str, Any] = {}
    given = []
    for p in list(inspect.signature(of.__init__).parameters.values())[1:]:  # type: ignore[misc]
        if p.kind is inspect.Parameter.KEYWORD_ONLY:
            continue
        value = _DEFAULTS.get(name, {}).get(p.name, p.default)
        if value is inspect.Parameter.empty:
            given.append(p.name)
        else:
            defaults[f"default_{p.name}"] = value
            given.append(f"{p.name}=default_{p.name}")
    names = [g.partition("=")[0] for g in given]
    unchecked = frozenset({"probs", "total_count"} if name in _OVER_CLASSES else ())
    more = name in _MORE_CHECKS
    values: dict[str, Any] = {"begin": begin, "of": of, "unchecked": unchecked, "more": more, **defaults}
    passed = ", ".join(f"{n!r}: {n}" for n in names)
    source = (
        f"def make({', '.join(values)}):\n"
        f"    def __init__(self, {', '.join(given)}, validate_args=None):\n"
        f"        begin(self, validate_args, of, unchecked, more, {{{passed}}})\n"
        f"    return __init__\n"
    )
    space: dict[str, Any] = {}
    exec(compiled(source), space)
    return space["make"](**values)


class OfLogarithm(Distribution):
    """The base of the log-normal distribution, which can also be made of the normal one and the transform."""

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        made: Any = FAMILIES["LogNormal"]
        made.__init__(self, base_distribution.loc, base_distribution.scale, validate_args=validate_args)


def _made(name: str) -> type:
    of = getattr(plain, name)
    base = ExponentialFamily if name in _EXPONENTIAL else OfLogarithm if name == "LogNormal" else Distribution
    summary = (of.__doc__ or "").partition("\n")[0]
    more = f"See :class:`wengert.distributions.{name}`; arguments and values are checked as PyTorch's are."
    doc = f"{summary}\n\n    {more}\n    "
    space = {"__init__": _constructor(name, of), "__doc__": doc, "__module__": __name__, "__qualname__": name}
    return type(name, (base, of), {**space, **_OTHERWISE.get(name, {})})


globals().update({name: _made(name) for name in _NAMES})
# The same for readers of types, who do not know the names.
FAMILIES: Any = {name: globals()[name] for name in _NAMES}

_Gamma: Any = FAMILIES["Gamma"]
_OneHotCategorical: Any = FAMILIES["OneHotCategorical"]


class Chi2(_Gamma):  # type: ignore[misc]
    """The chi-square distribution of `df` degrees of freedom, a gamma distribution."""

    arg_constraints = plain.Chi2.arg_constraints

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)
        self._given = ("df",)

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return 2.0 * self.concentration


class OneHotCategoricalStraightThrough(_OneHotCategorical, plain.OneHotCategoricalStraightThrough):  # type: ignore[misc]
    """The distribution of one-hot draws whose gradient is that of the probabilities."""


__all__ = sorted((*_NAMES, "Chi2", "OneHotCategoricalStraightThrough"))


def __dir__() -> list[str]:
    return sorted(__all__)
