"""The gamma, beta, Dirichlet and Student's distributions: reparameterised implicitly, by gamma variates.

Source: Figurnov, Mohamed & Mnih 2018, Implicit reparameterization gradients; Jankowiak & Obermeyer
2018, Pathwise derivatives beyond the reparameterization trick. Draws are made of logarithms of gamma
variates, so that none underflows at small concentrations.
"""

from __future__ import annotations

import math
from typing import Any

import wengert as wg

from ..core.errors import ShapeError, fail
from ..core.spec import Shape
from ..core.tensor import Tensor
from ..ops.structure.shapes import as_operand
from .distribution import Distribution, inside, log1p_square, outside_is_impossible, sources


class Gamma(Distribution):
    """The gamma distribution of a `concentration` (shape) and a `rate`.

    Raises ShapeError also where one is not positive, DTypeError.

    >>> import wengert as wg
    >>> a = wg.tensor(2.0, requires_grad=True)
    >>> x = wg.distributions.Gamma(a, 1.0).rsample((100_000,), key=wg.random.key(0))
    >>> (x * x).mean().backward()  # the expectation is a (a + 1)
    >>> abs(float(a.grad) - 5.0) < 0.1
    True
    """

    has_rsample = True

    def __init__(self, concentration: Any, rate: Any) -> None:
        self.concentration, self.rate = self._parameters(concentration=concentration, rate=rate)
        self._check((self.concentration > 0.0) & (self.rate > 0.0), "concentration and rate must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return wg.random.gamma(self.concentration, self._full(shape), generator=source) / self.rate

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        support = (x >= 0.0) & (x < math.inf)
        x = inside(support, x, 1.0)
        a = self.concentration
        density = wg.special.xlogy(a - 1.0, x) - self.rate * x + a * wg.log(self.rate) - wg.special.lgamma(a)
        return outside_is_impossible(support, self._value(value), density)

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        return wg.special.gammainc(self.concentration, self.rate * wg.where(x < 0.0, 0.0, x))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - wg.log(self.rate) + wg.special.lgamma(a) + (1.0 - a) * wg.special.digamma(a)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2


class Chi2(Gamma):
    """The chi-square distribution of `df` degrees of freedom.

    >>> import wengert as wg
    >>> wg.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    def __init__(self, df: Any) -> None:
        super().__init__(0.5 * as_operand(df), 0.5)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return 2.0 * self.concentration


class Beta(Distribution):
    """The beta distribution of density x**(concentration1 - 1) (1 - x)**(concentration0 - 1) / B.

    >>> import wengert as wg
    >>> wg.distributions.Beta(2.0, 2.0).cdf(0.5)
    tensor(0.5)
    """

    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any) -> None:
        self.concentration1, self.concentration0 = self._parameters(
            concentration1=concentration1, concentration0=concentration0
        )
        self._check((self.concentration1 > 0.0) & (self.concentration0 > 0.0), "both concentrations must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        one, other = sources(source, 2)
        full = self._full(shape)
        return wg.sigmoid(
            wg.random.loggamma(self.concentration1, full, generator=one)
            - wg.random.loggamma(self.concentration0, full, generator=other)
        )

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        support = (x >= 0.0) & (x <= 1.0)
        safe = inside(support, x, 0.5)
        a, b = self.concentration1, self.concentration0
        density = wg.special.xlogy(a - 1.0, safe) + wg.special.xlog1py(b - 1.0, -safe) - wg.special.betaln(a, b)
        return outside_is_impossible(support, x, density)

    def cdf(self, value: Any) -> Tensor:
        x = wg.clip(self._value(value), 0.0, 1.0)
        return wg.special.betainc(self.concentration1, self.concentration0, x)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        total = a + b
        return (
            wg.special.betaln(a, b)
            - (a - 1.0) * wg.special.digamma(a)
            - (b - 1.0) * wg.special.digamma(b)
            + (total - 2.0) * wg.special.digamma(total)
        )

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1.0))


class Dirichlet(Distribution):
    """The Dirichlet distribution over weights that sum to 1; `concentration` has shape (..., k).

    Raises ShapeError for a `concentration` without a last axis.

    >>> import wengert as wg
    >>> wg.distributions.Dirichlet(wg.tensor([1.0, 1.0])).mean
    tensor([0.5, 0.5])
    """

    has_rsample = True

    def __init__(self, concentration: Any) -> None:
        (self.concentration,) = self._floating(concentration=concentration)
        if self.concentration.ndim == 0 or self.concentration.shape[-1] == 0:
            fail(ShapeError, f"Dirichlet: concentration {self.concentration.spec}", "Its last axis holds the weights.")
        self.batch_shape, self.event_shape = self.concentration.shape[:-1], self.concentration.shape[-1:]
        self._check(self.concentration > 0.0, "concentration must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return wg.softmax(wg.random.loggamma(self.concentration, self._full(shape), generator=source), axis=-1)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        a = self.concentration
        powers = wg.sum(wg.special.xlogy(a - 1.0, wg.where(x < 0.0, 1.0, x)), axis=-1)
        density = powers + wg.special.lgamma(wg.sum(a, axis=-1)) - wg.sum(wg.special.lgamma(a), axis=-1)
        total = wg.sum(x, axis=-1)
        tolerance = 8.0 * x.shape[-1] * float(wg.finfo(density.dtype).eps)
        support = wg.all(x >= 0.0, axis=-1) & (wg.abs(total - 1.0) <= tolerance)
        return outside_is_impossible(support, total, density)

    def entropy(self) -> Tensor:
        a = self.concentration
        total = wg.sum(a, axis=-1)
        log_beta = wg.sum(wg.special.lgamma(a), axis=-1) - wg.special.lgamma(total)
        return (
            log_beta
            + (total - float(a.shape[-1])) * wg.special.digamma(total)
            - wg.sum((a - 1.0) * wg.special.digamma(a), axis=-1)
        )

    @property
    def mean(self) -> Tensor:
        return self.concentration / wg.sum(self.concentration, axis=-1, keepdims=True)

    @property
    def variance(self) -> Tensor:
        mean = self.mean
        return mean * (1.0 - mean) / (wg.sum(self.concentration, axis=-1, keepdims=True) + 1.0)


class StudentT(Distribution):
    """Student's distribution of `df` degrees of freedom, moved by `loc` and stretched by `scale`.

    Reparameterised in all three parameters.

    >>> import wengert as wg
    >>> wg.distributions.StudentT(4.0).variance
    tensor(2.)
    """

    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> None:
        self.df, self.loc, self.scale = self._parameters(df=df, loc=loc, scale=scale)
        self._check((self.df > 0.0) & (self.scale > 0.0), "df and scale must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        one, other = sources(source, 2)
        full = self._full(shape)
        z = wg.random.normal(full, dtype=self.dtype, generator=one)
        half = 0.5 * self.df
        spread = wg.exp(0.5 * (wg.log(half) - wg.random.loggamma(half, full, generator=other)))
        return self.loc + self.scale * z * spread

    def log_prob(self, value: Any) -> Tensor:
        z = (self._value(value) - self.loc) / self.scale
        return -0.5 * (self.df + 1.0) * log1p_square(z / wg.sqrt(self.df)) - self._log_normalizer()

    def _log_normalizer(self) -> Tensor:
        half = wg.special.betaln(wg.full_like(self.df, 0.5), 0.5 * self.df)
        return half + 0.5 * wg.log(self.df) + wg.log(self.scale)

    def cdf(self, value: Any) -> Tensor:
        z = (self._value(value) - self.loc) / self.scale
        square = z * z
        near = square < self.df
        half = wg.full_like(z, 0.5)
        middle = wg.special.betainc(half, 0.5 * self.df, wg.where(near, square, 0.0) / (self.df + square))
        tail = wg.special.betainc(0.5 * self.df, half, wg.where(near, 1.0, self.df / (self.df + square)))
        lower = wg.where(near, 0.5 - 0.5 * middle, 0.5 * tail)
        return wg.where(z < 0.0, lower, 1.0 - lower)

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        return (half + 0.5) * (wg.special.digamma(half + 0.5) - wg.special.digamma(half)) + self._log_normalizer()

    @property
    def mean(self) -> Tensor:
        return wg.where(self.df > 1.0, self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2.0
        value = self.scale**2 * self.df / wg.where(finite, self.df - 2.0, 1.0)
        return wg.where(finite, value, wg.where(self.df > 1.0, math.inf, math.nan))
