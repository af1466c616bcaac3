"""Distributions made of others: of transformed values, mixtures, and batches that are read as one event."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from typing import Any

import wengert as wg

from ... import distributions as plain
from ...core.errors import ShapeError, fail
from ..namespace import as_torch
from .distribution import Distribution
from .families import FAMILIES


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

    @base_dist.setter
    def base_dist(self, base: Any) -> None:
        self.base = base

    def _checked(self, value: Any) -> Any:
        return value  # by the base

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution, plain.TransformedDistribution, metaclass=ABCMeta):
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

    @base_dist.setter
    def base_dist(self, base: Any) -> None:
        self.base = base

    def cdf(self, value: Any) -> Any:
        """Return the probability of an outcome of at most `value`."""
        return as_torch(plain.TransformedDistribution.cdf(self, value))


class LogisticNormal(TransformedDistribution):
    """The distribution of weights by stick breaking of normal numbers: k parameters give k + 1 weights."""

    arg_constraints = FAMILIES["Normal"].arg_constraints

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = FAMILIES["Normal"](loc, scale, validate_args=validate_args)
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

    def log_prob(self, x: Any) -> Any:
        """Return the logarithm of the density of a value."""
        return super().log_prob(x)

    def cdf(self, x: Any) -> Any:
        """Return the probability of an outcome of at most `x`."""
        return super().cdf(x)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture!r},\n  {self.components!r})"


# The families that PyTorch defines as transformed distributions: of what, and by which transforms.
_Parts = Callable[[Any], tuple[Any, list[plain.Transform]]]


def _scaled(base: str, *by: plain.Transform) -> _Parts:
    return lambda p: (FAMILIES[base](p.scale * 0.0, p.scale), list(by))


def _gumbel(p: Any) -> tuple[Any, list[plain.Transform]]:
    info = wg.finfo(p.dtype)
    nothing = p.loc * 0.0
    twice = [plain.ExpTransform().inv, plain.AffineTransform(0.0, -1.0), plain.ExpTransform().inv]
    base = FAMILIES["Uniform"](nothing + float(info.tiny), nothing + (1.0 - float(info.eps)))
    return base, [*twice, plain.AffineTransform(p.loc, -p.scale)]


def _kumaraswamy(p: Any) -> tuple[Any, list[plain.Transform]]:
    nothing = p.concentration1 * 0.0
    powers = [plain.PowerTransform(1.0 / c) for c in (p.concentration0, p.concentration1)]
    return FAMILIES["Uniform"](nothing, nothing + 1.0), [powers[0], plain.AffineTransform(1.0, -1.0), powers[1]]


def _weibull(p: Any) -> tuple[Any, list[plain.Transform]]:
    power = plain.PowerTransform(1.0 / p.concentration)
    return FAMILIES["Exponential"](p.scale * 0.0 + 1.0), [power, plain.AffineTransform(0.0, p.scale)]


def _relaxed(base: str, by: plain.Transform) -> _Parts:
    return lambda p: (FAMILIES[base](p.temperature, logits=p.logits), [by])


_PARTS: dict[str, _Parts] = {
    "Gumbel": _gumbel,
    "HalfCauchy": _scaled("Cauchy", plain.AbsTransform()),
    "HalfNormal": _scaled("Normal", plain.AbsTransform()),
    "InverseGamma": lambda p: (FAMILIES["Gamma"](p.concentration, p.rate), [plain.PowerTransform(-1.0)]),
    "Kumaraswamy": _kumaraswamy,
    "LogNormal": lambda p: (FAMILIES["Normal"](p.loc, p.scale), [plain.ExpTransform()]),
    "Pareto": lambda p: (
        FAMILIES["Exponential"](p.alpha),
        [plain.ExpTransform(), plain.AffineTransform(0.0, p.scale)],
    ),
    "RelaxedBernoulli": _relaxed("LogitRelaxedBernoulli", plain.SigmoidTransform()),
    "RelaxedOneHotCategorical": _relaxed("ExpRelaxedCategorical", plain.ExpTransform()),
    "Weibull": _weibull,
}


def _offer_parts(name: str, parts: _Parts) -> None:
    """Make a family a transformed distribution to those who ask, who may take it apart."""
    family = FAMILIES[name]
    family.base_dist = property(lambda self: parts(self)[0], doc="The distribution of what is transformed.")
    family.transforms = property(lambda self: parts(self)[1], doc="The transforms, in their order.")
    TransformedDistribution.register(family)


for _name, _of in _PARTS.items():
    _offer_parts(_name, _of)

__all__ = ["Independent", "LogisticNormal", "MixtureSameFamily", "TransformedDistribution"]


def __dir__() -> list[str]:
    return sorted(__all__)
