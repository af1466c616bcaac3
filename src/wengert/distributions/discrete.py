"""Discrete distributions: draws carry no gradient, see `score_function` and the relaxed distributions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

import wengert as wg

from ..core.errors import DTypeError, ShapeError, fail
from ..core.spec import Shape, category
from ..core.state.refusals import refuse
from ..core.tensor import Tensor
from . import constraints
from .distribution import (
    Distribution,
    inside,
    off_ends,
    outside_is_impossible,
    sources,
)


def _one_of(name: str, probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        fail(DTypeError, f"{name} takes either probs or logits", "Pass exactly one of them.")


def _is_count(x: Tensor) -> Tensor:
    return (x >= 0.0) & (x < math.inf) & (wg.floor(x) == x)


def _never(count: Tensor, cost: Tensor) -> Tensor:
    """Return count * cost, and 0 where an infinite cost does not happen."""
    nothing = (count == 0.0) & (cost == math.inf)
    return count * wg.where(nothing, 0.0, cost)


class Trials(Distribution):
    """The base of distributions given by `probs` in 0 .. 1 or by `logits`; the other is computed."""

    _given_logits: Tensor | None
    _given_probs: Tensor | None
    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _success(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        _one_of(type(self).__name__, probs, logits)
        given, *rest = self._operands(
            success=probs if logits is None else logits, **{f"other{i}": o for i, o in enumerate(others)}
        )
        self._given_probs, self._given_logits = (given, None) if logits is None else (None, given)
        if logits is None:
            self._check((given >= 0.0) & (given <= 1.0), "probs must lie between 0 and 1")
        else:
            self._check(given == given, "logits must be numbers")
        return tuple(rest)

    @property
    def probs(self) -> Tensor:
        """The probability of success."""
        return self._given_probs if self._given_probs is not None else wg.sigmoid(self.logits)

    @property
    def logits(self) -> Tensor:
        """The logits log(probs / (1 - probs))."""
        if self._given_logits is not None:
            return self._given_logits
        return wg.special.logit(self.probs if self._exact else off_ends(self.probs))

    @property
    def _failure(self) -> Tensor:
        """The probability of failure, from logits without cancelling."""
        return 1.0 - self.probs if self._given_logits is None else wg.sigmoid(-self._given_logits)

    def _log_likelihood(self, successes: Tensor, failures: Tensor, exact: bool = True) -> Tensor:
        """Return successes log(p) + failures log(1 - p), right at p = 0 and p = 1, or by the logits."""
        if self._given_logits is not None or not exact:
            logits = self.logits
            return -_never(successes, wg.nn.functional.softplus(-logits)) - _never(
                failures, wg.nn.functional.softplus(logits)
            )
        p = self.probs
        return wg.special.xlogy(successes, p) + wg.special.xlog1py(failures, -p)


class Bernoulli(Trials):
    """The distribution of 0 and 1, the 1 with probability `probs`, or sigmoid(`logits`).

    >>> import wengert as wg
    >>> p = wg.distributions.Bernoulli(probs=wg.tensor([0.0, 0.25]))
    >>> p.log_prob(0.0)
    tensor([ 0.    , -0.2877])
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None) -> None:
        self._success(probs, logits)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        out: Tensor = wg.random.bernoulli(self.probs, self._full(shape), generator=source).astype(self.dtype)
        return out

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        return self._impossible((x == 0.0) | (x == 1.0), x, self._log_likelihood(x, 1.0 - x, self._exact))

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        return wg.where(x < 0.0, 0.0, wg.where(x < 1.0, 1.0 - self.probs, 1.0))

    def entropy(self) -> Tensor:
        return -self._log_likelihood(self.probs, self._failure)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1.0 - self.probs)

    @property
    def mode(self) -> Tensor:
        return wg.where(self.probs == 0.5, math.nan, (self.probs > 0.5).astype(self.probs.dtype))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 and 1, of shape (2,) + batch_shape."""
        return self._listed(wg.arange(2, dtype=self.dtype), expand)


class Binomial(Trials):
    """The distribution of the number of successes in `total_count` trials.

    >>> import wengert as wg
    >>> wg.distributions.Binomial(4.0, probs=0.5).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None) -> None:
        (self.total_count,) = self._success(probs, logits, total_count)
        self._check(_is_count(self.total_count), "total_count must be a whole number, not negative")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return wg.random.binomial(self.total_count, self.probs, self._full(shape), generator=source)

    def log_prob(self, value: Any) -> Tensor:
        k, n = self._value(value), self.total_count
        support = (k >= 0.0) & (k <= n)
        if self._exact:
            support = support & _is_count(k)
        k = inside(support, k, 0.0)
        arrangements = -wg.log1p(n) - wg.special.betaln(n - k + 1.0, k + 1.0)
        likelihood = self._log_likelihood(k, n - k, self._exact)
        return outside_is_impossible(support, self._value(value), arrangements + likelihood)

    def cdf(self, value: Any) -> Tensor:
        k, n = wg.floor(self._value(value)), self.total_count
        middle = (k >= 0.0) & (k < n)
        k = inside(middle, k, 0.0)
        found = wg.special.betainc(wg.where(middle, n - k, 1.0), k + 1.0, 1.0 - self.probs)
        edge = wg.where(self._value(value) < 0.0, wg.zeros_like(found), 1.0)
        return wg.where(middle | (k != k), found, edge)

    def entropy(self) -> Tensor:
        """Return the entropy by the sum over all counts. Raises TraceError where `total_count` is not known yet."""
        if self.total_count.is_abstract:
            what = "Binomial: the entropy is a sum over counts, and total_count has no value while tracing"
            refuse(what, x=self.total_count)
        top = int(np.asarray(self.total_count._array, float).max(initial=0.0))
        counts = self._listed(wg.arange(top + 1, dtype=self.dtype), True)
        possible = counts <= self.total_count
        log_p = Binomial.log_prob(self, inside(possible, counts, 0.0))
        possible = possible & (log_p > -math.inf)
        terms = wg.where(possible, wg.exp(log_p) * inside(possible, log_p, 0.0), 0.0)
        return -wg.sum(terms, axis=0)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1.0 - self.probs)

    @property
    def mode(self) -> Tensor:
        return wg.minimum(wg.floor((self.total_count + 1.0) * self.probs), self.total_count)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the numbers of successes, of shape (total_count + 1,) + batch_shape.

        Raises AbsentError where the batch has several, or it is not known yet.
        """
        counts = self.total_count
        if counts.is_abstract or bool((np.asarray(counts._array) != np.asarray(counts._array).max(initial=0)).any()):
            self._lacks("list of its outcomes for several total_count")
        return self._listed(wg.arange(1 + int(np.asarray(counts._array).max(initial=0)), dtype=self.dtype), expand)


class Geometric(Trials):
    """The distribution of the number of trials that fail before the first success.

    >>> import wengert as wg
    >>> wg.distributions.Geometric(probs=0.5).mean
    tensor(1.)
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None) -> None:
        self._success(probs, logits)
        self._check(self.probs > 0.0, "probs must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        u = self._uniform(self._full(shape), source)
        return wg.floor(wg.log(u) / wg.log1p(-self.probs))

    def log_prob(self, value: Any) -> Tensor:
        k = self._value(value)
        support = _is_count(k)
        safe = self._inside(support, k, 0.0)
        return self._impossible(support, k, self._log_likelihood(wg.ones_like(k), safe))

    def cdf(self, value: Any) -> Tensor:
        k = wg.floor(self._value(value))
        known = -wg.expm1(wg.special.xlog1py(wg.where(k < 0.0, 0.0, k) + 1.0, -self.probs))
        return wg.where(k < 0.0, 0.0, known)

    def entropy(self) -> Tensor:
        return -self._log_likelihood(self.probs, self._failure) / self.probs

    @property
    def mean(self) -> Tensor:
        return (1.0 - self.probs) / self.probs

    @property
    def variance(self) -> Tensor:
        return (1.0 - self.probs) / self.probs**2

    @property
    def mode(self) -> Tensor:
        return wg.zeros_like(self.probs)


class Poisson(Distribution):
    """The distribution of the count of independent events at a `rate`.

    >>> import wengert as wg
    >>> wg.distributions.Poisson(3.0).variance
    tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any) -> None:
        (self.rate,) = self._operands(rate=rate)
        self._check(self.rate >= 0.0, "rate must not be negative")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return wg.random.poisson(self.rate, self._full(shape), generator=source)

    def log_prob(self, value: Any) -> Tensor:
        k = self._value(value)
        support = _is_count(k)
        safe = self._inside(support, k, 0.0)
        return self._impossible(
            support, k, wg.special.xlogy(safe, self.rate) - self.rate - wg.special.lgamma(safe + 1.0)
        )

    def cdf(self, value: Any) -> Tensor:
        k = wg.floor(self._value(value))
        known = wg.special.gammaincc(wg.where(k < 0.0, 0.0, k) + 1.0, self.rate)
        return wg.where(k < 0.0, 0.0, known)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def variance(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return wg.floor(self.rate)


class Classes(Distribution):
    """The base of distributions over classes, the last axis, by `probs` of any sum or by `logits`, unnormalised."""

    logits: Tensor
    probs: Tensor
    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _own_axes: ClassVar[Any] = {"logits": 1, "probs": 1}

    def __init__(self, probs: Any = None, logits: Any = None) -> None:
        name = type(self).__name__
        _one_of(name, probs, logits)
        (given,) = self._floating(given=probs if logits is None else logits)
        if given.ndim == 0 or given.shape[-1] == 0:
            fail(ShapeError, f"{name}: parameters {given.spec}", "Their last axis holds the classes.")
        self._num_classes = given.shape[-1]
        self.batch_shape = given.shape[:-1]
        if logits is None:
            total = wg.sum(given, axis=-1, keepdims=True)
            self._check((given >= 0.0) & (total > 0.0), "probs must not be negative, nor all 0")
            self.probs = given / total
            self.logits = wg.log(self.probs if self._exact else off_ends(self.probs))
        else:
            self.logits = wg.log_softmax(given, axis=-1)
            self._check(self.logits == self.logits, "logits must be numbers, not all -inf")
            self.probs = wg.exp(self.logits)

    def _class(self, shape: Shape, source: Any) -> Tensor:
        return wg.random.categorical(self.logits, shape, generator=source)

    def entropy(self) -> Tensor:
        # A class of probability 0 adds nothing, and passes no gradient on.
        finite = wg.where(self.probs > 0.0, self.logits, 0.0)
        return -wg.sum(self.probs * finite, axis=-1)


class Categorical(Classes):
    """The distribution of a class number (int64), drawn by weight.

    Raises ShapeError for parameters without a last axis of classes.

    >>> import wengert as wg
    >>> p = wg.distributions.Categorical(probs=wg.tensor([1.0, 3.0]))
    >>> p.log_prob(wg.tensor([0, 1]))
    tensor([-1.3863, -0.2877])
    """

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_classes - 1)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return self._class(shape, source)

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the classes' probabilities.

        Raises DTypeError unless `value` holds integers, RangeError (an IndexError) for one that is no class.
        """
        value = wg.asarray(value)
        if category(value.dtype) != 1:
            fail(DTypeError, f"Categorical: classes of dtype {value.dtype}", "They are integers.")
        shape = wg.broadcast_shapes(value.shape, self.batch_shape)
        logits = wg.broadcast_to(self.logits, (*shape, self._num_classes))
        # An index would count a negative class from the last one.
        classes = wg.where(value < 0, self._num_classes, value)
        index = wg.expand_dims(wg.broadcast_to(classes, shape), axis=-1)
        return wg.squeeze(wg.take_along_axis(logits, index, axis=-1), axis=-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return every class, of shape (classes,) + batch_shape."""
        return self._listed(wg.arange(self._num_classes), expand)

    @property
    def mean(self) -> Tensor:
        return wg.full(self.batch_shape, math.nan, dtype=self.dtype)

    @property
    def mode(self) -> Tensor:
        return wg.argmax(self.probs, axis=-1)

    @property
    def variance(self) -> Tensor:
        return wg.full(self.batch_shape, math.nan, dtype=self.dtype)


class OneHotCategorical(Classes):
    """The distribution of a class drawn by weight, as a vector that is 1 there and 0 elsewhere.

    >>> import wengert as wg
    >>> wg.distributions.OneHotCategorical(probs=wg.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    support = constraints.one_hot

    def __init__(self, probs: Any = None, logits: Any = None) -> None:
        super().__init__(probs, logits)
        self.event_shape = (self._num_classes,)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        out: Tensor = wg.nn.functional.one_hot(self._class(shape, source), self._num_classes).astype(self.dtype)
        return out

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        one_hot = constraints.one_hot.check(x)
        index = wg.expand_dims(wg.argmax(x, axis=-1), axis=-1)
        logits = wg.broadcast_to(self.logits, wg.broadcast_shapes(x.shape, self.logits.shape))
        chosen = wg.take_along_axis(logits, wg.broadcast_to(index, (*logits.shape[:-1], 1)), axis=-1)
        return self._impossible(one_hot, wg.sum(x, axis=-1), wg.squeeze(chosen, axis=-1))

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1.0 - self.probs)

    @property
    def mode(self) -> Tensor:
        out: Tensor = wg.nn.functional.one_hot(wg.argmax(self.probs, axis=-1), self._num_classes).astype(self.dtype)
        return out

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return every class as a vector, of shape (classes,) + batch_shape + (classes,)."""
        return self._listed(wg.eye(self._num_classes, dtype=self.dtype), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The distribution of one-hot draws whose gradient is that of the probabilities: biased, of low variance.

    Source: Bengio, Léonard & Courville 2013, Estimating or propagating gradients through stochastic neurons.

    >>> import wengert as wg
    >>> wg.distributions.OneHotCategoricalStraightThrough(probs=wg.tensor([0.0, 1.0])).rsample()
    tensor([0., 1.])
    """

    has_rsample = True

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return super()._draw(shape, source) + (self.probs - self.probs.detach())


class NegativeBinomial(Trials):
    """The distribution of the number of successes before the `total_count`-th failure, which need not be whole.

    >>> import wengert as wg
    >>> wg.distributions.NegativeBinomial(2.0, probs=0.5).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None) -> None:
        (self.total_count,) = self._success(probs, logits, total_count)
        self._check(self.total_count >= 0.0, "total_count must not be negative")
        self._check(self.probs < 1.0, "probs must be less than 1")

    @property
    def _odds(self) -> Tensor:
        return self.probs / self._failure if self._given_logits is None else wg.exp(self._given_logits)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        one, other = sources(source, 2)
        rate = wg.random.gamma(self.total_count, self._full(shape), generator=one) * self._odds
        return wg.random.poisson(rate, self._full(shape), generator=other)

    def log_prob(self, value: Any) -> Tensor:
        x, n = self._value(value), self.total_count
        support = _is_count(x)
        k = self._inside(support, x, 0.0)
        # Without a failure to wait for there is no success before it.
        waits = n + k != 0.0
        safe = wg.where(waits, n + k, 1.0)
        ways = wg.special.lgamma(safe) - wg.special.lgamma(1.0 + k) - wg.special.lgamma(wg.where(n > 0.0, n, 1.0))
        ways = wg.where((n == 0.0) & (k > 0.0), -math.inf, wg.where(waits, ways, 0.0))
        return self._impossible(support, x, ways + self._log_likelihood(k, n, self._exact))

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        k = wg.floor(x)
        found = wg.special.betainc(self.total_count, wg.where(k < 0.0, 0.0, k) + 1.0, self._failure)
        return wg.where(x < 0.0, 0.0, found)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self._odds

    @property
    def mode(self) -> Tensor:
        return wg.maximum(wg.floor((self.total_count - 1.0) * self._odds), 0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / self._failure


class Multinomial(Classes):
    """The distribution of how often each class comes in `total_count` draws.

    >>> import wengert as wg
    >>> wg.distributions.Multinomial(4, probs=wg.tensor([1.0, 3.0])).mean
    tensor([1., 3.])
    """

    has_enumerate_support = False
    not_tensors = frozenset({"total_count"})

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None) -> None:
        if isinstance(total_count, bool) or not isinstance(total_count, (int, np.integer)):
            raise NotImplementedError("Multinomial: total_count is one int for all of the batch")
        if total_count < 0:
            fail(ShapeError, f"Multinomial: total_count={total_count}", "It must not be negative.")
        super().__init__(probs, logits)
        self.total_count = int(total_count)
        self.event_shape = (self._num_classes,)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        drawn = self._class((self.total_count, *shape), source)
        one_hot = wg.nn.functional.one_hot(drawn, self._num_classes).astype(self.dtype)
        return wg.sum(one_hot, axis=0)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        counts = wg.all(_is_count(x), axis=-1) & (wg.sum(x, axis=-1) == float(self.total_count))
        safe = wg.where(x >= 0.0, x, 0.0) if self._exact else x
        # A class of probability 0 that does not come costs nothing.
        costs = wg.where(safe == 0.0, 0.0, safe * wg.where(safe == 0.0, 0.0, self.logits))
        ways = wg.special.lgamma(wg.sum(safe, axis=-1) + 1.0)
        density = ways - wg.sum(wg.special.lgamma(safe + 1.0) - costs, axis=-1)
        return self._impossible(counts, wg.sum(x, axis=-1), density)

    def entropy(self) -> Tensor:
        """Return the entropy by a sum over the counts of each class."""
        n = self.total_count
        each = Binomial(float(n), probs=self.probs)
        counts = each._listed(wg.arange(1, n + 1, dtype=self.dtype), True)
        spread = wg.sum(wg.exp(each.log_prob(counts)) * wg.special.lgamma(counts + 1.0), axis=(0, -1))
        return n * super().entropy() - math.lgamma(n + 1.0) + spread

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1.0 - self.probs)
