"""Relaxed discrete distributions: draws that lie near the corners and carry gradients.

Source: Jang, Gu & Poole 2017, Categorical reparameterization with Gumbel-softmax; Maddison, Mnih & Teh
2017, The concrete distribution.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import wengert as wg

from ..core.errors import ShapeError, fail
from ..core.spec import Shape
from ..core.tensor import Tensor
from . import constraints
from .discrete import Classes, Trials
from .distribution import inside, off_ends, outside_is_impossible
from .transforms import sigmoid_off_ends


class LogitRelaxedBernoulli(Trials):
    """The distribution of the logit of a relaxed Bernoulli draw, which does not round to infinity.

    Parameters
    ----------
    temperature: positive.
    probs, logits: one of them, as of :class:`Bernoulli`.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.distributions.LogitRelaxedBernoulli(1.0, probs=0.5).log_prob(0.0)
    tensor(-1.3863)
    """

    arg_constraints: ClassVar[Any] = {"temperature": constraints.positive, **Trials.arg_constraints}
    support: Any = constraints.real

    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None) -> None:
        (self.temperature,) = self._success(probs, logits, temperature)
        self._check(self.temperature > 0.0, "temperature must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        noise = wg.special.logit(self._uniform(self._full(shape), source))
        return (self.logits + noise) / self.temperature

    def log_prob(self, value: Any) -> Tensor:
        away = self.logits - self.temperature * self._value(value)
        return wg.log(self.temperature) + away - 2.0 * wg.nn.functional.softplus(away)


class RelaxedBernoulli(LogitRelaxedBernoulli):
    """The distribution of a number between 0 and 1, near one of them at a low `temperature`.

    Parameters
    ----------
    temperature: positive.
    probs, logits: one of them, as of :class:`Bernoulli`.
    straight_through: draws are 0 or 1, with the gradient of the relaxed draw. `log_prob` is that of
        relaxed values.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> p = wg.distributions.RelaxedBernoulli(0.1, probs=0.5)
    >>> 0.0 <= p.rsample().item() <= 1.0
    True
    """

    support: Any = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, *, straight_through: bool = False
    ) -> None:
        super().__init__(temperature, probs, logits)
        self.straight_through = straight_through

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        soft = sigmoid_off_ends(super()._draw(shape, source))
        if not self.straight_through:
            return soft
        out: Tensor = (soft > 0.5).astype(self.dtype) + (soft - soft.detach())
        return out

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        support = (x >= 0.0) & (x <= 1.0)
        # Draws at the ends are those that rounding took there.
        safe = off_ends(inside(support, x, 0.5), tiny=True)
        density = LogitRelaxedBernoulli.log_prob(self, wg.special.logit(safe)) - wg.log(safe) - wg.log1p(-safe)
        return outside_is_impossible(support, x, density)


class RelaxedOneHotCategorical(Classes):
    """The distribution of weights that sum to 1, near a corner at a low `temperature` (Gumbel-softmax, concrete).

    Parameters
    ----------
    temperature: positive, of the batch's shape.
    probs, logits: one of them, as of :class:`OneHotCategorical`.
    straight_through: draws are one-hot, with the gradient of the relaxed draw. `log_prob` is that of
        relaxed values.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> logits = wg.tensor([0.0, 1.0, 2.0], requires_grad=True)
    >>> q = wg.distributions.RelaxedOneHotCategorical(0.5, logits=logits, straight_through=True)
    >>> float(q.rsample(key=wg.random.key(0)).max())
    1.0
    """

    arg_constraints: ClassVar[Any] = {"temperature": constraints.positive, **Classes.arg_constraints}
    support: Any = constraints.simplex
    has_enumerate_support = False

    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, *, straight_through: bool = False
    ) -> None:
        super().__init__(probs, logits)
        self.event_shape = (self._num_classes,)
        self.straight_through = straight_through
        self.temperature = wg.asarray(temperature, dtype=self.dtype)
        if wg.broadcast_shapes(self.temperature.shape, self.batch_shape) != self.batch_shape:
            fail(
                ShapeError,
                f"RelaxedOneHotCategorical: temperature {self.temperature.spec} for batch shape {self.batch_shape}",
                "It broadcasts to the batch's shape.",
            )
        self._check(self.temperature > 0.0, "temperature must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        soft = wg.softmax(self._noisy(shape, source), axis=-1)
        if not self.straight_through:
            return soft
        hard = wg.nn.functional.one_hot(wg.argmax(soft, axis=-1), self._num_classes).astype(self.dtype)
        out: Tensor = hard + (soft - soft.detach())
        return out

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        support = wg.all(x > 0.0, axis=-1) & constraints.simplex.check(x)
        log_x = wg.log(wg.where(x > 0.0, x, 1.0))
        density = self._log_density_of_logs(log_x) - wg.sum(log_x, axis=-1)
        return outside_is_impossible(support, wg.sum(x, axis=-1), density)

    def _noisy(self, shape: Shape, source: Any) -> Tensor:
        noise = -wg.log(-wg.log(self._uniform(self._full(shape), source)))
        return (self.logits + noise) / wg.expand_dims(self.temperature, axis=-1)

    def _log_density_of_logs(self, log_x: Tensor) -> Tensor:
        k, tau = self._num_classes, self.temperature
        scores = self.logits - wg.expand_dims(tau, axis=-1) * log_x
        scores = wg.sum(scores, axis=-1) - float(k) * wg.logsumexp(scores, axis=-1)
        return math.lgamma(k) + (k - 1.0) * wg.log(tau) + scores


class ExpRelaxedCategorical(RelaxedOneHotCategorical):
    """The distribution of the logarithms of relaxed one-hot draws, which do not underflow.

    >>> import wengert as wg
    >>> p = wg.distributions.ExpRelaxedCategorical(0.5, probs=wg.tensor([0.5, 0.5]))
    >>> p.rsample().shape
    (2,)
    """

    support: Any = constraints.real_vector

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None) -> None:
        super().__init__(temperature, probs, logits)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return wg.log_softmax(self._noisy(shape, source), axis=-1)

    def log_prob(self, value: Any) -> Tensor:
        return self._log_density_of_logs(self._value(value))
