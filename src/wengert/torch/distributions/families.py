"""PyTorch's distributions, each made of Wengert's class of that name by PyTorch's parameters."""

from __future__ import annotations

import inspect
import math
from typing import Any

import wengert as wg

from ... import distributions as plain
from ...core.errors import ShapeError, fail
from ...core.ops.op import compiled
from ..namespace import as_torch
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
_NAMES = (
    *("Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "ContinuousBernoulli", "Dirichlet"),
    *("ExpRelaxedCategorical", "Exponential", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel"),
    *("HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal"),
    *("LowRankMultivariateNormal", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal"),
    *("OneHotCategorical", "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "Uniform"),
    *("VonMises", "Weibull", "Wishart"),
)


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
    values: dict[str, Any] = {"begin": begin, "of": of, "unchecked": unchecked, **defaults}
    passed = ", ".join(f"{n!r}: {n}" for n in names)
    source = (
        f"def make({', '.join(values)}):\n"
        f"    def __init__(self, {', '.join(given)}, validate_args=None):\n"
        f"        begin(self, validate_args, of, unchecked, {{{passed}}})\n"
        f"    return __init__\n"
    )
    space: dict[str, Any] = {}
    exec(compiled(source), space)
    return space["make"](**values)


def _made(name: str) -> type:
    of = getattr(plain, name)
    base = ExponentialFamily if name in _EXPONENTIAL else Distribution
    summary = (of.__doc__ or "").partition("\n")[0]
    more = f"See :class:`wengert.distributions.{name}`; arguments and values are checked as PyTorch's are."
    doc = f"{summary}\n\n    {more}\n    "
    space = {"__init__": _constructor(name, of), "__doc__": doc, "__module__": __name__, "__qualname__": name}
    return type(name, (base, of), space)


globals().update({name: _made(name) for name in _NAMES})
Made: Any = globals()


_Gamma: Any = Made["Gamma"]
_OneHotCategorical: Any = Made["OneHotCategorical"]


class Chi2(_Gamma):  # type: ignore[misc]
    """The chi-square distribution of `df` degrees of freedom, a gamma distribution."""

    arg_constraints = plain.Chi2.arg_constraints

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return 2.0 * self.concentration


def _log_prob_below(self: Any, value: Any) -> Any:
    """Return the logarithm of the density; at the upper end it is 0, as the interval is half open."""
    found = Distribution.log_prob(self, value)
    return as_torch(wg.where(value == self.high, -math.inf, found))


def _classes_log_prob(self: Any, value: Any) -> Any:
    """Return the logarithm of the probabilities of classes, given as numbers of any dtype."""
    value = self._checked(value)
    return as_torch(plain.Categorical.log_prob(self, value if value.dtype.kind in "iu" else value.astype(wg.int64)))


Made["Uniform"].log_prob = _log_prob_below
Made["Categorical"].log_prob = _classes_log_prob
Made["Cauchy"].variance = property(lambda self: as_torch(wg.full_like(self.loc, math.inf)), doc="Infinity.")
Made["LogNormal"].base_dist = property(lambda self: Made["Normal"](self.loc, self.scale), doc="That of the logarithm.")
for _name in ("Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "ContinuousBernoulli", "RelaxedBernoulli"):
    Made[_name].param_shape = property(lambda self: self.probs.shape, doc="The shape of the parameters.")
for _name in _OVER_CLASSES:
    Made[_name].param_shape = property(lambda self: self.logits.shape, doc="The shape of the parameters.")


class OneHotCategoricalStraightThrough(_OneHotCategorical, plain.OneHotCategoricalStraightThrough):  # type: ignore[misc]
    """The distribution of one-hot draws whose gradient is that of the probabilities."""


class Independent(Distribution, plain.Independent):
    """A distribution whose last `reinterpreted_batch_ndims` batch axes are read as parts of one event.

    >>> import wengert.torch as torch
    >>> d = torch.distributions
    >>> d.Independent(d.Normal(torch.zeros(3), torch.ones(3)), 1).log_prob(torch.zeros(3))
    tensor(-2.7568)
    """

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        if validate_args is not None:
            self._validate_args = bool(validate_args)
        plain.Independent.__init__(self, base_distribution, reinterpreted_batch_ndims)

    @property
    def base_dist(self) -> Any:
        """The distribution of the parts."""
        return self.base

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution, plain.TransformedDistribution):
    """The distribution of t_n(... t_1(x)) for x of a base distribution.

    >>> import wengert.torch as torch
    >>> d = torch.distributions
    >>> p = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.ExpTransform()])
    >>> p.log_prob(torch.tensor(1.0))
    tensor(-0.9189)
    """

    grouped = Independent

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        several = transforms if isinstance(transforms, (list, tuple)) else [transforms]
        if not all(isinstance(t, plain.Transform) for t in several):
            fail(ShapeError, f"transforms must be a Transform or a list of Transforms, but was {transforms!r}")
        if validate_args is not None:
            self._validate_args = bool(validate_args)
        plain.TransformedDistribution.__init__(self, base_distribution, list(several))

    @property
    def base_dist(self) -> Any:
        """The distribution of what is transformed."""
        return self.base

    def cdf(self, value: Any) -> Any:
        """Return the probability of an outcome of at most `value`."""
        return as_torch(plain.TransformedDistribution.cdf(self, value))


class LogisticNormal(TransformedDistribution):
    """The distribution of weights by stick breaking of normal numbers: k parameters give k + 1 weights."""

    arg_constraints = Made["Normal"].arg_constraints

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Made["Normal"](loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, plain.StickBreakingTransform(), validate_args=validate_args)

    @property
    def _normal(self) -> Any:
        grouped: Any = self.base
        return grouped.base

    @property
    def loc(self) -> Any:
        """The means of the normal numbers."""
        return self._normal.loc

    @property
    def scale(self) -> Any:
        """The standard deviations of the normal numbers."""
        return self._normal.scale


class MixtureSameFamily(Distribution, plain.MixtureSameFamily):
    """A mixture of distributions of one family: the last batch axis of the components are those that are mixed.

    >>> import wengert.torch as torch
    >>> d = torch.distributions
    >>> p = d.MixtureSameFamily(d.Categorical(torch.ones(2)), d.Normal(torch.tensor([-1.0, 1.0]), torch.ones(2)))
    >>> p.mean
    tensor(0.)
    """

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        wanted = (plain.Categorical, "mixture_distribution"), (plain.Distribution, "component_distribution")
        for given, (kind, name) in zip((mixture_distribution, component_distribution), wanted, strict=True):
            if not isinstance(given, kind):
                fail(ShapeError, f"{name} is a {type(given).__name__}", f"It needs to be a {kind.__name__}.")
        if validate_args is not None:
            self._validate_args = bool(validate_args)
        plain.MixtureSameFamily.__init__(self, mixture_distribution, component_distribution)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """False: a draw picks a component."""
        return False

    @property
    def mixture_distribution(self) -> Any:
        """The distribution over the components."""
        return self.mixture

    @property
    def component_distribution(self) -> Any:
        """The distributions that are mixed."""
        return self.components

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture!r},\n  {self.components!r})"


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
    "relaxed_bernoulli": ("RelaxedBernoulli",),
    "relaxed_categorical": ("ExpRelaxedCategorical", "RelaxedOneHotCategorical"),
    "studentT": ("StudentT",),
    "transformed_distribution": ("TransformedDistribution",),
    "uniform": ("Uniform",),
    "von_mises": ("VonMises",),
    "weibull": ("Weibull",),
    "wishart": ("Wishart",),
}
__all__ = sorted(name for names in PLACES.values() for name in names)


def __dir__() -> list[str]:
    return sorted(__all__)
