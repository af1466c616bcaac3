"""The multivariate normal distribution, and distributions whose batch axes are read as one event."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import wengert as wg

from ..core.errors import DTypeError, ShapeError, fail
from ..core.spec import Shape
from ..core.tensor import Tensor
from . import constraints
from .discrete import Categorical
from .distribution import Distribution, sources, sum_last


class MultivariateNormal(Distribution):
    """The normal distribution of a mean vector `loc` and a covariance.

    Parameters
    ----------
    loc: (..., n).
    covariance_matrix: (..., n, n), positive definite; its Cholesky factor is computed once.
    scale_tril: (..., n, n), that factor itself, lower triangular with a positive diagonal.
    precision_matrix: (..., n, n), the inverse of the covariance, positive definite.

    Give one of the three. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> p = wg.distributions.MultivariateNormal(wg.zeros(2), scale_tril=wg.eye(2))
    >>> p.log_prob(wg.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    _own_axes: ClassVar[Any] = {"loc": 1, "scale_tril": 2}

    has_rsample = True

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None
    ) -> None:
        given = [m for m in (covariance_matrix, scale_tril, precision_matrix) if m is not None]
        if len(given) != 1:
            what = "covariance_matrix, scale_tril or precision_matrix"
            fail(DTypeError, f"MultivariateNormal takes {what}", "Pass exactly one of them.")
        loc, matrix = self._floating(loc=loc, matrix=given[0])
        n = loc.shape[-1] if loc.ndim else 0
        if loc.ndim == 0 or matrix.ndim < 2 or matrix.shape[-2:] != (n, n):
            fail(
                ShapeError,
                f"MultivariateNormal: loc {loc.spec} and a matrix {matrix.spec}",
                "loc is (..., n), the matrix (..., n, n).",
            )
        self.batch_shape = wg.broadcast_shapes(loc.shape[:-1], matrix.shape[:-2])
        self.event_shape = (n,)
        self.loc = wg.broadcast_to(loc, (*self.batch_shape, n))
        if covariance_matrix is not None:
            matrix = wg.linalg.cholesky(matrix)
        elif precision_matrix is not None:
            matrix = factor_of_inverse(matrix)
        self.scale_tril = wg.broadcast_to(matrix, (*self.batch_shape, n, n))
        self._check(self._diagonal() > 0.0, "the Cholesky factor's diagonal must be positive")

    def _diagonal(self) -> Tensor:
        return wg.diagonal(self.scale_tril, 0, -2, -1)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        noise = wg.random.normal(self._full(shape), dtype=self.dtype, generator=source)
        return self.loc + wg.squeeze(self.scale_tril @ wg.expand_dims(noise, axis=-1), axis=-1)

    def _half_log_det(self) -> Tensor:
        return wg.sum(wg.log(self._diagonal()), axis=-1)

    def log_prob(self, value: Any) -> Tensor:
        away = wg.expand_dims(self._value(value) - self.loc, axis=-1)
        factor = wg.broadcast_to(self.scale_tril, (*away.shape[:-2], *self.scale_tril.shape[-2:]))
        z = wg.squeeze(wg.linalg.solve_triangular(factor, away, upper=False), axis=-1)
        n = self.event_shape[0]
        return -0.5 * wg.sum(z * z, axis=-1) - self._half_log_det() - 0.5 * n * math.log(2.0 * math.pi)

    def entropy(self) -> Tensor:
        n = self.event_shape[0]
        return self._half_log_det() + 0.5 * n * (1.0 + math.log(2.0 * math.pi))

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance, of shape (..., n, n)."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, of shape (..., n, n)."""
        return inverse_of_product(self.scale_tril)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return wg.sum(self.scale_tril**2, axis=-1)


def factor_of_inverse(precision: Tensor) -> Tensor:
    """Return the lower Cholesky factor of the inverse: U^-T where U U^T is the precision and U upper triangular."""
    ends = (-2, -1)
    upper = wg.flip(wg.linalg.cholesky(wg.flip(precision, ends)), ends)
    one = wg.eye(precision.shape[-1], dtype=precision.dtype)
    return wg.linalg.solve_triangular(upper.mT, one, upper=False)


def inverse_of_product(factor: Tensor) -> Tensor:
    """Return the inverse of L L^T for lower triangular factors."""
    one = wg.broadcast_to(wg.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    inverse = wg.linalg.solve_triangular(factor, one, upper=False)
    return inverse.mT @ inverse


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` batch axes are read as parts of one event.

    Raises ShapeError for more axes than the batch shape has.

    >>> import wengert as wg
    >>> p = wg.distributions.Independent(wg.distributions.Normal(wg.zeros(3), 1.0), 1)
    >>> p.log_prob(wg.zeros(3))
    tensor(-2.7568)
    """

    base: Distribution

    def __init__(self, base: Distribution, reinterpreted_batch_ndims: int) -> None:
        count = reinterpreted_batch_ndims
        if not 0 <= count <= len(base.batch_shape):
            fail(ShapeError, f"Independent: {count} axes of the batch shape {base.batch_shape}")
        self.base, self.reinterpreted_batch_ndims = base, count
        cut = len(base.batch_shape) - count
        self.batch_shape = base.batch_shape[:cut]
        self.event_shape = base.batch_shape[cut:] + base.event_shape
        self.dtype, self.has_rsample = base.dtype, base.has_rsample

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return self.base._draw(shape, source)

    def log_prob(self, value: Any) -> Tensor:
        return sum_last(self.base.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_last(self.base.entropy(), self.reinterpreted_batch_ndims)

    @property
    def mean(self) -> Tensor:
        return self.base.mean

    @property
    def variance(self) -> Tensor:
        return self.base.variance

    @property
    def mode(self) -> Tensor:
        return self.base.mode

    @property
    def support(self) -> Any:
        found = self.base.support
        return (
            constraints.independent(found, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else found
        )

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Outcomes can be listed where no axes are taken into the event."""
        return self.reinterpreted_batch_ndims == 0 and self.base.has_enumerate_support

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            self._lacks("list of its outcomes")
        return self.base.enumerate_support(expand)

    def expand(self, batch_shape: Any) -> Any:
        batch = tuple(batch_shape)
        own = self.base.batch_shape[len(self.base.batch_shape) - self.reinterpreted_batch_ndims :]
        return self._moved(batch, base=self.base.expand((*batch, *own)))


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one family: the last batch axis of `components` are those that are mixed.

    Parameters
    ----------
    mixture: a :class:`Categorical` distribution over the components.
    components: a distribution whose last batch axis has as many entries.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> p = d.MixtureSameFamily(d.Categorical(probs=wg.tensor([0.5, 0.5])), d.Normal(wg.tensor([-1.0, 1.0]), 1.0))
    >>> p.mean, p.cdf(0.0)
    (tensor(0.), tensor(0.5))
    """

    def __init__(self, mixture: Distribution, components: Distribution) -> None:
        if not isinstance(mixture, Categorical):
            fail(DTypeError, f"MixtureSameFamily: a mixture of {type(mixture).__name__}", "It is a Categorical.")
        if not isinstance(components, Distribution):
            fail(DTypeError, f"MixtureSameFamily: components of {type(components).__name__}, not a Distribution")
        count = mixture.probs.shape[-1]
        if not components.batch_shape or components.batch_shape[-1] != count:
            what = f"MixtureSameFamily: components of the batch shape {components.batch_shape}"
            fail(ShapeError, what, f"The last axis of the batch are the {count} components.")
        self.batch_shape = components.batch_shape[:-1]
        if wg.broadcast_shapes(mixture.batch_shape, self.batch_shape) != self.batch_shape:
            what = f"MixtureSameFamily: a mixture of the batch shape {mixture.batch_shape}"
            fail(ShapeError, what, f"It broadcasts to that of the components, {self.batch_shape}.")
        self.mixture, self.components = mixture, components
        self.event_shape, self.dtype = components.event_shape, components.dtype

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self.components.support)

    def expand(self, batch_shape: Any) -> Any:
        batch = tuple(batch_shape)
        components = self.components.expand((*batch, self.components.batch_shape[-1]))
        return self._moved(batch, mixture=self.mixture.expand(batch), components=components)

    def _for_each(self, value: Any) -> Tensor:
        """Return a value with an axis for the components."""
        return wg.expand_dims(self._value(value), axis=-1 - len(self.event_shape))

    def _mixed(self, x: Tensor) -> Tensor:
        """Return the mean over components of what has their axis, before those of an event."""
        weights = self.mixture.probs
        weights = wg.reshape(weights, (*weights.shape, *(1,) * len(self.event_shape)))
        return wg.sum(weights * x, axis=-1 - len(self.event_shape))

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        one, other = sources(source, 2)
        chosen = self.mixture.expand(self.batch_shape)._draw(shape, one)
        draws = self.components._draw(shape, other)
        axes = len(self.event_shape)
        index = wg.reshape(chosen, (*chosen.shape, *(1,) * (1 + axes)))
        index = wg.broadcast_to(index, (*chosen.shape, 1, *self.event_shape))
        return wg.squeeze(wg.take_along_axis(draws, index, axis=-1 - axes), axis=-1 - axes)

    def log_prob(self, value: Any) -> Tensor:
        return wg.logsumexp(self.components.log_prob(self._for_each(value)) + self.mixture.logits, axis=-1)

    def cdf(self, value: Any) -> Tensor:
        return wg.sum(self.mixture.probs * self.components.cdf(self._for_each(value)), axis=-1)

    @property
    def mean(self) -> Tensor:
        return self._mixed(self.components.mean)

    @property
    def variance(self) -> Tensor:
        away = self.components.mean - wg.expand_dims(self.mean, axis=-1 - len(self.event_shape))
        return self._mixed(self.components.variance + away**2)
