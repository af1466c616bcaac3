"""Continuous distributions of a location and a scale, and others with a quantile function."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import wengert as wg

from ..core.spec import Shape
from ..core.tensor import Tensor
from ..ops.neural.activations import logistic_density_op
from ..ops.special.quotients import expm1_over_op, log1p_over_op
from . import constraints
from .distribution import ByQuantile, Distribution, inside, log1p_square, outside_is_impossible

_LOG_2PI = math.log(2.0 * math.pi)
_SQRT_2 = math.sqrt(2.0)
EULER = 0.5772156649015329


class Normal(Distribution):
    """The normal distribution of a mean `loc` and a standard deviation `scale`.

    Raises ShapeError also where `scale` is not positive, DTypeError.

    >>> import wengert as wg
    >>> p = wg.distributions.Normal(wg.tensor([0.0, 1.0]), 2.0)
    >>> p.log_prob(1.0)
    tensor([-1.7371, -1.6121])
    >>> p.rsample((3,)).shape
    (3, 2)
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    has_rsample = True

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = self._operands(loc=loc, scale=scale)
        self._check(self.scale > 0.0, "scale must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return self.loc + self.scale * wg.random.normal(self._full(shape), dtype=self.dtype, generator=source)

    def _standard(self, value: Any) -> Tensor:
        return (self._value(value) - self.loc) / self.scale

    def log_prob(self, value: Any) -> Tensor:
        z = self._standard(value)
        return -0.5 * (z * z) - wg.log(self.scale) - 0.5 * _LOG_2PI

    def cdf(self, value: Any) -> Tensor:
        return wg.special.ndtr(self._standard(value))

    def log_cdf(self, value: Any) -> Tensor:
        """Return log(cdf(value)), right also far in the lower tail."""
        return wg.special.log_ndtr(self._standard(value))

    def icdf(self, p: Any) -> Tensor:
        return self.loc + self.scale * wg.special.ndtri(self._value(p))

    def entropy(self) -> Tensor:
        return wg.log(self.scale) + 0.5 * (1.0 + _LOG_2PI)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale

    @property
    def mode(self) -> Tensor:
        return self.loc


class LogNormal(Distribution):
    """The distribution of exp(z) for a normal z of mean `loc` and standard deviation `scale`.

    >>> import wengert as wg
    >>> wg.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    has_rsample = True

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = self._operands(loc=loc, scale=scale)
        self._check(self.scale > 0.0, "scale must be positive")
        self._normal = Normal(self.loc, self.scale)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return wg.exp(self._normal._draw(shape, source))

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        support = (x > 0.0) & (x < math.inf)
        log_x = wg.log(inside(support, x, 1.0))
        return outside_is_impossible(support, x, self._normal.log_prob(log_x) - log_x)

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        support = x > 0.0
        return wg.where(support | (x != x), self._normal.cdf(wg.log(inside(support, x, 1.0))), 0.0)

    def icdf(self, p: Any) -> Tensor:
        return wg.exp(self._normal.icdf(p))

    def entropy(self) -> Tensor:
        return self._normal.entropy() + self.loc

    @property
    def mean(self) -> Tensor:
        return wg.exp(self.loc + 0.5 * self.scale**2)

    @property
    def variance(self) -> Tensor:
        square = self.scale**2
        return wg.expm1(square) * wg.exp(2.0 * self.loc + square)

    @property
    def mode(self) -> Tensor:
        return wg.exp(self.loc - self.scale**2)


class HalfNormal(ByQuantile):
    """The distribution of |z| for a normal z of mean 0 and standard deviation `scale`.

    >>> import wengert as wg
    >>> wg.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, scale: Any) -> None:
        (self.scale,) = self._operands(scale=scale)
        self._check(self.scale > 0.0, "scale must be positive")

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        z = x / self.scale
        return outside_is_impossible(x >= 0.0, x, 0.5 * math.log(2.0 / math.pi) - wg.log(self.scale) - 0.5 * (z * z))

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        return wg.where(x < 0.0, 0.0, wg.special.erf(x / (_SQRT_2 * self.scale)))

    def icdf(self, p: Any) -> Tensor:
        p = self._value(p)
        out: Tensor = self.scale * (_SQRT_2 * wg.special.erfinv(wg.where(p < 0.0, math.nan, p)))
        return out

    def entropy(self) -> Tensor:
        return wg.log(self.scale) + 0.5 * (math.log(math.pi / 2.0) + 1.0)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2.0 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1.0 - 2.0 / math.pi)

    @property
    def mode(self) -> Tensor:
        return wg.zeros_like(self.scale)


class Uniform(ByQuantile):
    """The uniform distribution from `low` to `high`.

    >>> import wengert as wg
    >>> wg.distributions.Uniform(0.0, 2.0).log_prob(wg.tensor([1.0, 3.0]))
    tensor([-0.6931,    -inf])
    """

    arg_constraints: ClassVar[Any] = {
        "low": constraints.dependent(is_discrete=False, event_dim=0),
        "high": constraints.dependent(is_discrete=False, event_dim=0),
    }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = self._operands(low=low, high=high)
        self._check(self.low < self.high, "low must be less than high")

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        support = (x >= self.low) & (x <= self.high)
        return outside_is_impossible(support, x, 0.0 * x - wg.log(self.high - self.low))

    def cdf(self, value: Any) -> Tensor:
        return wg.clip((self._value(value) - self.low) / (self.high - self.low), 0.0, 1.0)

    def icdf(self, p: Any) -> Tensor:
        return self.low + (self.high - self.low) * _probability(self._value(p))

    def entropy(self) -> Tensor:
        return wg.log(self.high - self.low)

    @property
    def mean(self) -> Tensor:
        return 0.5 * (self.low + self.high)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12.0

    @property
    def mode(self) -> Tensor:
        return wg.full_like(self.low, math.nan)


class Exponential(ByQuantile):
    """The exponential distribution of a `rate`, the inverse of its mean.

    >>> import wengert as wg
    >>> wg.distributions.Exponential(2.0).mean
    tensor(0.5)
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, rate: Any) -> None:
        (self.rate,) = self._operands(rate=rate)
        self._check(self.rate > 0.0, "rate must be positive")

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        return outside_is_impossible(x >= 0.0, x, wg.log(self.rate) - self.rate * x)

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        return -wg.expm1(-self.rate * wg.where(x < 0.0, 0.0, x))

    def icdf(self, p: Any) -> Tensor:
        return -wg.log1p(-_probability(self._value(p))) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - wg.log(self.rate)

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.rate

    @property
    def variance(self) -> Tensor:
        return self.rate**-2.0

    @property
    def mode(self) -> Tensor:
        return wg.zeros_like(self.rate)


class _LocationScale(ByQuantile):
    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = self._operands(loc=loc, scale=scale)
        self._check(self.scale > 0.0, "scale must be positive")

    def _standard(self, value: Any) -> Tensor:
        return (self._value(value) - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class Laplace(_LocationScale):
    """The Laplace distribution, of density exp(-|x - loc| / scale) / (2 scale).

    >>> import wengert as wg
    >>> wg.distributions.Laplace(0.0, 1.0).log_prob(0.0)
    tensor(-0.6931)
    """

    def log_prob(self, value: Any) -> Tensor:
        return -wg.abs(self._standard(value)) - wg.log(2.0 * self.scale)

    def cdf(self, value: Any) -> Tensor:
        z = self._standard(value)
        tail = 0.5 * wg.exp(-wg.abs(z))
        return wg.where(z < 0.0, tail, 1.0 - tail)

    def icdf(self, p: Any) -> Tensor:
        p = _probability(self._value(p))
        lower = p < 0.5
        tail = wg.log(2.0 * wg.where(lower, p, 1.0 - p))
        return self.loc + self.scale * wg.where(lower, tail, -tail)

    def entropy(self) -> Tensor:
        return 1.0 + wg.log(2.0 * self.scale)

    @property
    def variance(self) -> Tensor:
        return 2.0 * self.scale**2


class Cauchy(_LocationScale):
    """The Cauchy distribution; mean and variance are NaN.

    >>> import wengert as wg
    >>> wg.distributions.Cauchy(0.0, 1.0).cdf(0.0)
    tensor(0.5)
    """

    def log_prob(self, value: Any) -> Tensor:
        return -log1p_square(self._standard(value)) - wg.log(math.pi * self.scale)

    def cdf(self, value: Any) -> Tensor:
        z = self._standard(value)
        return wg.atan2(wg.ones_like(z), -z) / math.pi

    def icdf(self, p: Any) -> Tensor:
        return self.loc + self.scale * wg.tan(math.pi * (_probability(self._value(p)) - 0.5))

    def entropy(self) -> Tensor:
        return wg.log(4.0 * math.pi * self.scale)

    @property
    def mean(self) -> Tensor:
        return wg.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return wg.full_like(self.loc, math.nan)


class Logistic(_LocationScale):
    """The logistic distribution, whose cumulative function is the sigmoid.

    >>> import wengert as wg
    >>> wg.distributions.Logistic(0.0, 1.0).cdf(0.0)
    tensor(0.5)
    """

    def log_prob(self, value: Any) -> Tensor:
        density: Tensor = logistic_density_op.front(self._standard(value))
        return density - wg.log(self.scale)

    def cdf(self, value: Any) -> Tensor:
        return wg.sigmoid(self._standard(value))

    def icdf(self, p: Any) -> Tensor:
        return self.loc + self.scale * wg.special.logit(self._value(p))

    def entropy(self) -> Tensor:
        return wg.log(self.scale) + 2.0

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (math.pi**2 / 3.0)


class Gumbel(_LocationScale):
    """The Gumbel distribution, whose cumulative function is exp(-exp(-(x - loc) / scale)).

    >>> import wengert as wg
    >>> wg.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    def log_prob(self, value: Any) -> Tensor:
        z = self._standard(value)
        finite = z > -math.inf
        return outside_is_impossible(finite, z, -(z + wg.exp(-inside(finite, z, 0.0))) - wg.log(self.scale))

    def cdf(self, value: Any) -> Tensor:
        return wg.exp(-wg.exp(-self._standard(value)))

    def icdf(self, p: Any) -> Tensor:
        return self.loc - self.scale * wg.log(-wg.log(_probability(self._value(p))))

    def entropy(self) -> Tensor:
        return wg.log(self.scale) + (1.0 + EULER)

    @property
    def mean(self) -> Tensor:
        return self.loc + EULER * self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (math.pi**2 / 6.0)


class Weibull(ByQuantile):
    """The Weibull distribution, whose cumulative function is 1 - exp(-(x / scale)**concentration).

    >>> import wengert as wg
    >>> wg.distributions.Weibull(1.0, 1.0).cdf(1.0)
    tensor(0.6321)
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any) -> None:
        self.scale, self.concentration = self._operands(scale=scale, concentration=concentration)
        self._check((self.scale > 0.0) & (self.concentration > 0.0), "scale and concentration must be positive")

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        k = self.concentration
        support = (x >= 0.0) & (x < math.inf)
        ratio = inside(support, x, 1.0) / self.scale
        density = wg.log(k / self.scale) + wg.special.xlogy(k - 1.0, ratio) - ratio**k
        return outside_is_impossible(support, x, density)

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        support = x > 0.0
        found = -wg.expm1(-((inside(support, x, 1.0) / self.scale) ** self.concentration))
        return wg.where(support | (x != x), found, 0.0)

    def icdf(self, p: Any) -> Tensor:
        return self.scale * (-wg.log1p(-_probability(self._value(p)))) ** (1.0 / self.concentration)

    def entropy(self) -> Tensor:
        return EULER * (1.0 - 1.0 / self.concentration) + wg.log(self.scale / self.concentration) + 1.0

    def _moment(self, order: float) -> Tensor:
        return wg.exp(wg.special.lgamma(1.0 + order / self.concentration))

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1.0)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (self._moment(2.0) - self._moment(1.0) ** 2)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        inner = k > 1.0
        return self.scale * wg.where(inner, (wg.where(inner, k - 1.0, 1.0) / k) ** (1.0 / k), 0.0)


class HalfCauchy(ByQuantile):
    """The distribution of |x| for a Cauchy x around 0; its mean is infinite.

    >>> import wengert as wg
    >>> wg.distributions.HalfCauchy(1.0).cdf(1.0)
    tensor(0.5)
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, scale: Any) -> None:
        (self.scale,) = self._operands(scale=scale)
        self._check(self.scale > 0.0, "scale must be positive")

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        density = math.log(2.0 / math.pi) - wg.log(self.scale) - log1p_square(x / self.scale)
        return outside_is_impossible(x >= 0.0, x, density)

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        return wg.where(x < 0.0, 0.0, (2.0 / math.pi) * wg.atan(x / self.scale))

    def icdf(self, p: Any) -> Tensor:
        return self.scale * wg.tan(0.5 * math.pi * _probability(self._value(p)))

    def entropy(self) -> Tensor:
        return wg.log(2.0 * math.pi * self.scale)

    @property
    def mean(self) -> Tensor:
        return wg.full_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return wg.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return wg.full_like(self.scale, math.inf)


class Pareto(ByQuantile):
    """The Pareto distribution, whose cumulative function is 1 - (scale / x)**alpha from `scale` on.

    >>> import wengert as wg
    >>> wg.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any) -> None:
        self.scale, self.alpha = self._operands(scale=scale, alpha=alpha)
        self._check((self.scale > 0.0) & (self.alpha > 0.0), "scale and alpha must be positive")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        support = x >= self.scale
        away = wg.log(inside(support, x, self.scale) / self.scale)
        return outside_is_impossible(support, x, wg.log(self.alpha / self.scale) - (self.alpha + 1.0) * away)

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        support = x >= self.scale
        found = -wg.expm1(-self.alpha * wg.log(inside(support, x, self.scale) / self.scale))
        return wg.where(support | (x != x), found, 0.0)

    def icdf(self, p: Any) -> Tensor:
        return self.scale * wg.exp(-wg.log1p(-_probability(self._value(p))) / self.alpha)

    def entropy(self) -> Tensor:
        return wg.log(self.scale / self.alpha) + 1.0 + 1.0 / self.alpha

    @property
    def mean(self) -> Tensor:
        a = self.alpha
        finite = a > 1.0
        return wg.where(finite, a * self.scale / wg.where(finite, a - 1.0, 1.0), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        finite = a > 2.0
        least = wg.where(finite, a, 3.0)
        return wg.where(finite, self.scale**2 * least / ((least - 1.0) ** 2 * (least - 2.0)), math.inf)


class GeneralizedPareto(ByQuantile):
    """The distribution of exceedances, of cumulative function 1 - (1 + k z)**(-1 / k) for z = (x - loc) / scale.

    With `concentration` k = 0 it is exponential; with a negative one bounded by loc - scale / k.

    >>> import wengert as wg
    >>> wg.distributions.GeneralizedPareto(0.0, 1.0, 0.0).cdf(1.0)
    tensor(0.6321)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }

    def __init__(self, loc: Any, scale: Any, concentration: Any) -> None:
        self.loc, self.scale, self.concentration = self._operands(loc=loc, scale=scale, concentration=concentration)
        self._check(self.scale > 0.0, "scale must be positive")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        k = self.concentration
        bound = self.loc - self.scale / wg.where(k < 0.0, k, -1.0)
        return constraints.interval(self.loc, wg.where(k < 0.0, bound, math.inf))

    def _exponent(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return log(1 + k z) / k, which is z at k = 0, and where the value is in the support."""
        k = self.concentration
        z = (value - self.loc) / self.scale
        support = (z >= 0.0) & (k * z >= -1.0)
        z = inside(support, z, 0.0)
        return log1p_over_op.front(z, k), support

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        away, support = self._exponent(x)
        return outside_is_impossible(support, x, -wg.log(self.scale) - (1.0 + self.concentration) * away)

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        away, support = self._exponent(x)
        return wg.where(support | (x != x), -wg.expm1(-away), wg.where(x < self.loc, wg.zeros_like(x), 1.0))

    def log_survival_function(self, value: Any) -> Tensor:
        """Return log(1 - cdf(value)), right also far in the upper tail."""
        x = self._value(value)
        away, support = self._exponent(x)
        return wg.where(support | (x != x), -away, wg.where(x < self.loc, wg.zeros_like(x), -math.inf))

    def log_cdf(self, value: Any) -> Tensor:
        """Return log(cdf(value))."""
        return wg.log(GeneralizedPareto.cdf(self, value))

    def icdf(self, p: Any) -> Tensor:
        level = -wg.log1p(-_probability(self._value(p)))
        away: Tensor = expm1_over_op.front(level, self.concentration)
        return self.loc + self.scale * away

    def entropy(self) -> Tensor:
        return wg.log(self.scale) + self.concentration + 1.0

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        finite = k < 1.0
        return wg.where(finite, self.loc + self.scale / wg.where(finite, 1.0 - k, 1.0), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.concentration < 0.5
        k = wg.where(finite, self.concentration, 0.0)
        return wg.where(finite, self.scale**2 / ((1.0 - k) ** 2 * (1.0 - 2.0 * k)), math.inf)


class Kumaraswamy(ByQuantile):
    """The distribution on 0 .. 1 with the cumulative function 1 - (1 - x**concentration1)**concentration0.

    >>> import wengert as wg
    >>> wg.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5)
    """

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any) -> None:
        self.concentration1, self.concentration0 = self._operands(
            concentration1=concentration1, concentration0=concentration0
        )
        self._check((self.concentration1 > 0.0) & (self.concentration0 > 0.0), "both concentrations must be positive")

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        a, b = self.concentration1, self.concentration0
        support = (x >= 0.0) & (x <= 1.0)
        safe = inside(support, x, 0.5)
        density = wg.log(a * b) + wg.special.xlogy(a - 1.0, safe) + wg.special.xlog1py(b - 1.0, -(safe**a))
        return outside_is_impossible(support, x, density)

    def cdf(self, value: Any) -> Tensor:
        x = wg.clip(self._value(value), 0.0, 1.0)
        return -wg.expm1(wg.special.xlog1py(self.concentration0, -(x**self.concentration1)))

    def icdf(self, p: Any) -> Tensor:
        level = wg.log1p(-_probability(self._value(p))) / self.concentration0
        return (-wg.expm1(level)) ** (1.0 / self.concentration1)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = wg.special.digamma(b + 1.0) + EULER
        return (1.0 - 1.0 / b) + (1.0 - 1.0 / a) * harmonic - wg.log(a) - wg.log(b)

    def _moment(self, order: float) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return wg.exp(wg.log(b) + wg.special.betaln(1.0 + order / a, b))

    @property
    def mean(self) -> Tensor:
        return self._moment(1.0)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inner = (a >= 1.0) & (b >= 1.0) & ((a > 1.0) | (b > 1.0))
        safe = wg.where(inner, a, 2.0), wg.where(inner, b, 2.0)
        found = ((safe[0] - 1.0) / (safe[0] * safe[1] - 1.0)) ** (1.0 / safe[0])
        return wg.where(inner, found, math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2.0) - self._moment(1.0) ** 2


def _probability(p: Tensor) -> Tensor:
    """Return probabilities, NaN outside 0 .. 1."""
    return wg.where((p >= 0.0) & (p <= 1.0), p, math.nan)
