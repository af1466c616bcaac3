"""Distributions on an interval and on a circle: the continuous Bernoulli and von Mises distributions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import wengert as wg

from ..core.spec import Shape
from ..core.tensor import Tensor
from . import constraints
from .discrete import Trials
from .distribution import Distribution, off_ends, sources

# Numbers of proposals for a draw of the von Mises distribution, of which two in three are taken at least: none of them
# is with a probability of 1e-20.
_PROPOSALS = 40


class ContinuousBernoulli(Trials):
    """The distribution on 0 .. 1 of density C p**x (1 - p)**(1 - x).

    Around p = 1/2 the closed forms are 0 / 0: where `lims` bound it, series are taken.
    Source: Loaiza-Ganem & Cunningham 2019, The continuous Bernoulli: fixing a pervasive error in variational
    autoencoders.

    >>> import wengert as wg
    >>> wg.distributions.ContinuousBernoulli(probs=0.5).log_prob(0.3)
    tensor(0.)
    """

    has_rsample = True
    support = constraints.unit_interval
    not_tensors = frozenset({"lims"})

    def __init__(self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501)) -> None:
        self._success(probs, logits)
        self._lims = lims

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return p, where p is far from 1/2, and p there (else a number that is)."""
        p = off_ends(self.probs)
        far = (p <= self._lims[0]) | (p > self._lims[1])
        return p, far, wg.where(far, p, 0.25)

    def _log_constant(self) -> Tensor:
        p, far, cut = self._parts()
        exact = wg.log(wg.abs(wg.log1p(-cut) - wg.log(cut))) - wg.log(wg.abs(1.0 - 2.0 * cut))
        square = (p - 0.5) ** 2
        series = (
            4.0 / 3.0 + (104.0 / 45.0 + (16064.0 / 2835.0 + 227264.0 / 14175.0 * square) * square) * square
        ) * square
        return wg.where(far, exact, math.log(2.0) + series)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        support = (x >= 0.0) & (x <= 1.0)
        safe = self._inside(support, x, 0.5)
        density = self._log_likelihood(safe, 1.0 - safe, self._exact) + self._log_constant()
        return self._impossible(support, x, density)

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        _, far, cut = self._parts()
        safe = wg.clip(x, 0.0, 1.0)
        found = (cut**safe * (1.0 - cut) ** (1.0 - safe) + cut - 1.0) / (2.0 * cut - 1.0)
        return wg.clip(wg.where(far, found, safe), 0.0, 1.0)

    def icdf(self, p: Any) -> Tensor:
        p = self._value(p)
        p = wg.where((p >= 0.0) & (p <= 1.0), p, math.nan)
        _, far, cut = self._parts()
        found = (wg.log1p(-cut + p * (2.0 * cut - 1.0)) - wg.log1p(-cut)) / (wg.log(cut) - wg.log1p(-cut))
        return wg.where(far, found, p)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return self.icdf(self._uniform(self._full(shape), source))

    def entropy(self) -> Tensor:
        p, _, _ = self._parts()
        failure = wg.log1p(-p)
        return self.mean * (failure - wg.log(p)) - self._log_constant() - failure

    @property
    def mean(self) -> Tensor:
        p, far, cut = self._parts()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (wg.log1p(-cut) - wg.log(cut))
        away = p - 0.5
        return wg.where(far, exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * away * away) * away)

    @property
    def variance(self) -> Tensor:
        p, far, cut = self._parts()
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut) ** 2 + 1.0 / (wg.log1p(-cut) - wg.log(cut)) ** 2
        square = (p - 0.5) ** 2
        return wg.where(far, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square)


class VonMises(Distribution):
    """The von Mises distribution of angles around `loc`, of density exp(concentration cos(x - loc)) / C.

    Draws lie in -pi .. pi, by the rejection method of Best & Fisher 1979, Efficient simulation of the von Mises
    distribution. `variance` is the circular variance.

    >>> import wengert as wg
    >>> round(wg.distributions.VonMises(0.0, 1.0).log_prob(0.0).item(), 4)
    -1.0738
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any) -> None:
        self.loc, self.concentration = self._operands(loc=loc, concentration=concentration)
        self._check(self.concentration > 0.0, "concentration must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        one, other, third = sources(source, 3)
        full = (_PROPOSALS, *self._full(shape))
        k = wg.maximum(self.concentration, 0.0)
        tau = 1.0 + wg.sqrt(1.0 + 4.0 * k * k)
        rho = (tau - wg.sqrt(2.0 * tau)) / (2.0 * k)
        # As k falls the difference above cancels: 1 / k + k, and for large k its limit, are right there.
        r = wg.where(k < 1e-3, 1.0 / k + k, (1.0 + rho * rho) / (2.0 * rho))
        z = wg.cos(math.pi * self._uniform(full, one))
        f = (1.0 + r * z) / (r + z)
        c = k * (r - f)
        u = self._uniform(full, other)
        taken = (c * (2.0 - c) > u) | (wg.log(c / u) + 1.0 - c >= 0.0)
        first = wg.expand_dims(wg.argmax(taken.astype(wg.int8), axis=0), axis=0)
        f = wg.squeeze(wg.take_along_axis(f, first, axis=0), axis=0)
        side = wg.where(self._uniform(self._full(shape), third) < 0.5, -1.0, 1.0)
        angle = side * wg.acos(wg.clip(f, -1.0, 1.0)) + self.loc + math.pi
        return angle - wg.floor(angle / (2.0 * math.pi)) * (2.0 * math.pi) - math.pi

    def log_prob(self, value: Any) -> Tensor:
        k = self.concentration
        # exp(-k) I0(k) does not overflow, and cos - 1 keeps its digits.
        half = wg.sin(0.5 * (self._value(value) - self.loc))
        return -2.0 * k * half * half - math.log(2.0 * math.pi) - wg.log(wg.special.i0e(k))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1(k) / I0(k)."""
        return 1.0 - wg.special.i1e(self.concentration) / wg.special.i0e(self.concentration)
