"""The gamma, beta, Dirichlet and Student's distributions: reparameterised implicitly, by gamma variates.

Source: Figurnov, Mohamed & Mnih 2018, Implicit reparameterization gradients; Jankowiak & Obermeyer
2018, Pathwise derivatives beyond the reparameterization trick. Draws are made of logarithms of gamma
variates, so that none underflows at small concentrations.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import wengert as wg

from ..core.errors import ShapeError, fail
from ..core.spec import Shape
from ..core.tensor import Tensor
from ..ops.structure.shapes import as_operand
from . import constraints
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

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative

    has_rsample = True

    def __init__(self, concentration: Any, rate: Any) -> None:
        self.concentration, self.rate = self._operands(concentration=concentration, rate=rate)
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

    @property
    def mode(self) -> Tensor:
        return wg.maximum(self.concentration - 1.0, 0.0) / self.rate


class Chi2(Gamma):
    """The chi-square distribution of `df` degrees of freedom.

    >>> import wengert as wg
    >>> wg.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

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

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any) -> None:
        self.concentration1, self.concentration0 = self._operands(
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

    @property
    def mode(self) -> Tensor:
        return _corner(wg.stack([self.concentration1, self.concentration0], axis=-1))[..., 0]


class Dirichlet(Distribution):
    """The Dirichlet distribution over weights that sum to 1; `concentration` has shape (..., k).

    Raises ShapeError for a `concentration` without a last axis.

    >>> import wengert as wg
    >>> wg.distributions.Dirichlet(wg.tensor([1.0, 1.0])).mean
    tensor([0.5, 0.5])
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    _own_axes: ClassVar[Any] = {"concentration": 1}

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
        safe = wg.where(x < 0.0, 1.0, x) if self._exact else x
        powers = wg.sum(wg.special.xlogy(a - 1.0, safe), axis=-1)
        density = powers + wg.special.lgamma(wg.sum(a, axis=-1)) - wg.sum(wg.special.lgamma(a), axis=-1)
        return self._impossible(constraints.simplex.check(x), wg.sum(x, axis=-1), density)

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

    @property
    def mode(self) -> Tensor:
        return _corner(self.concentration)


class StudentT(Distribution):
    """Student's distribution of `df` degrees of freedom, moved by `loc` and stretched by `scale`.

    Reparameterised in all three parameters.

    >>> import wengert as wg
    >>> wg.distributions.StudentT(4.0).variance
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real

    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> None:
        self.df, self.loc, self.scale = self._operands(df=df, loc=loc, scale=scale)
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

    @property
    def mode(self) -> Tensor:
        return self.loc


def _corner(concentration: Tensor) -> Tensor:
    """Return a Dirichlet distribution's mode; a corner where every concentration is below 1."""
    above = wg.maximum(concentration - 1.0, 0.0)
    total = wg.sum(above, axis=-1, keepdims=True)
    inner = above / wg.where(total > 0.0, total, 1.0)
    edge = wg.all(concentration < 1.0, axis=-1, keepdims=True)
    first = wg.nn.functional.one_hot(wg.argmax(above, axis=-1), above.shape[-1]).astype(above.dtype)
    return wg.where(edge, first, wg.where(total > 0.0, inner, math.nan))


class InverseGamma(Distribution):
    """The distribution of 1 / x for a gamma x of a `concentration` and a `rate`.

    >>> import wengert as wg
    >>> wg.distributions.InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    has_rsample = True
    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration: Any, rate: Any) -> None:
        self.concentration, self.rate = self._operands(concentration=concentration, rate=rate)
        self._check((self.concentration > 0.0) & (self.rate > 0.0), "concentration and rate must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return self.rate / wg.random.gamma(self.concentration, self._full(shape), generator=source)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        support = x > 0.0
        safe = inside(support, x, 1.0)
        a, b = self.concentration, self.rate
        density = a * wg.log(b) - wg.special.lgamma(a) - (a + 1.0) * wg.log(safe) - b / safe
        return outside_is_impossible(support & (x < math.inf), x, density)

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        support = x > 0.0
        found = wg.special.gammaincc(self.concentration, self.rate / inside(support, x, 1.0))
        return wg.where(support | (x != x), found, 0.0)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + wg.log(self.rate) + wg.special.lgamma(a) - (1.0 + a) * wg.special.digamma(a)

    @property
    def mean(self) -> Tensor:
        finite = self.concentration > 1.0
        return wg.where(finite, self.rate / wg.where(finite, self.concentration - 1.0, 1.0), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1.0)

    @property
    def variance(self) -> Tensor:
        finite = self.concentration > 2.0
        a = wg.where(finite, self.concentration, 3.0)
        return wg.where(finite, self.rate**2 / ((a - 1.0) ** 2 * (a - 2.0)), math.inf)


class FisherSnedecor(Distribution):
    """The distribution of the ratio of two chi-square variates, each over its degrees of freedom `df1`, `df2`.

    >>> import wengert as wg
    >>> wg.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    has_rsample = True
    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive

    def __init__(self, df1: Any, df2: Any) -> None:
        self.df1, self.df2 = self._operands(df1=df1, df2=df2)
        self._check((self.df1 > 0.0) & (self.df2 > 0.0), "df1 and df2 must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        one, other = sources(source, 2)
        full = self._full(shape)
        top = wg.random.loggamma(0.5 * self.df1, full, generator=one) - wg.log(self.df1)
        return wg.exp(top - wg.random.loggamma(0.5 * self.df2, full, generator=other) + wg.log(self.df2))

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        support = (x > 0.0) & (x < math.inf)
        safe = inside(support, x, 1.0)
        a, b, ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1 / self.df2
        density = a * wg.log(ratio) + (a - 1.0) * wg.log(safe) - (a + b) * wg.log1p(ratio * safe)
        return outside_is_impossible(support, x, density - wg.special.betaln(a, b))

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        scaled = self.df1 * wg.where(x < 0.0, 0.0, x)
        return wg.special.betainc(0.5 * self.df1, 0.5 * self.df2, scaled / (scaled + self.df2))

    @property
    def mean(self) -> Tensor:
        finite = self.df2 > 2.0
        return wg.where(finite, self.df2 / wg.where(finite, self.df2 - 2.0, 1.0), math.nan)

    @property
    def mode(self) -> Tensor:
        inner = self.df1 > 2.0
        return wg.where(inner, (self.df1 - 2.0) / self.df1 * self.df2 / (self.df2 + 2.0), math.nan)

    @property
    def variance(self) -> Tensor:
        finite = self.df2 > 4.0
        b = wg.where(finite, self.df2, 5.0)
        found = 2.0 * b**2 * (self.df1 + b - 2.0) / (self.df1 * (b - 2.0) ** 2 * (b - 4.0))
        return wg.where(finite, found, math.nan)
