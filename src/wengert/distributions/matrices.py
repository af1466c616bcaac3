"""Distributions with matrices: normal ones of low rank, Wishart's, and correlations by their Cholesky factors."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import wengert as wg

from ..core.errors import DTypeError, ShapeError, fail
from ..core.spec import Shape
from ..core.tensor import Tensor
from . import constraints
from .bijections import matrix_of_tril
from .distribution import Distribution, sources
from .gamma import Beta
from .multivariate import factor_of_inverse, inverse_of_product

_LOG_2PI = math.log(2.0 * math.pi)


def log_diagonal(factor: Tensor) -> Tensor:
    """Return half the logarithm of the determinant of L L^T."""
    return wg.sum(wg.log(wg.diagonal(factor, 0, -2, -1)), axis=-1)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of covariance W W^T + diag(D): of n variables by a W of few columns.

    Parameters
    ----------
    loc: (..., n).
    cov_factor: (..., n, m), W.
    cov_diag: (..., n), D, positive.

    What is solved has m equations, by the Woodbury identity. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> p = wg.distributions.LowRankMultivariateNormal(wg.zeros(2), wg.zeros((2, 1)), wg.ones(2))
    >>> p.log_prob(wg.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True
    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    _own_axes: ClassVar[Any] = {"loc": 1, "cov_factor": 2, "cov_diag": 1}

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any) -> None:
        loc, factor, diag = self._floating(loc=loc, cov_factor=cov_factor, cov_diag=cov_diag)
        n = loc.shape[-1] if loc.ndim else 0
        if loc.ndim == 0 or factor.ndim < 2 or factor.shape[-2] != n or diag.ndim == 0 or diag.shape[-1] != n:
            what = f"LowRankMultivariateNormal: loc {loc.spec}, cov_factor {factor.spec}, cov_diag {diag.spec}"
            fail(ShapeError, what, "They are (..., n), (..., n, m) and (..., n).")
        self.batch_shape = batch = wg.broadcast_shapes(loc.shape[:-1], factor.shape[:-2], diag.shape[:-1])
        self.event_shape = (n,)
        self.loc, self.cov_diag = wg.broadcast_to(loc, (*batch, n)), wg.broadcast_to(diag, (*batch, n))
        self.cov_factor = wg.broadcast_to(factor, (*batch, *factor.shape[-2:]))
        self._check(self.cov_diag > 0.0, "cov_diag must be positive")

    def _capacity(self) -> Tensor:
        """Return the Cholesky factor of 1 + W^T D^-1 W."""
        scaled = self.cov_factor / wg.expand_dims(self.cov_diag, axis=-1)
        return wg.linalg.cholesky(wg.eye(self.cov_factor.shape[-1], dtype=self.dtype) + self.cov_factor.mT @ scaled)

    def _half_log_det(self) -> Tensor:
        return log_diagonal(self._capacity()) + 0.5 * wg.sum(wg.log(self.cov_diag), axis=-1)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        one, other = sources(source, 2)
        few = (*shape, *self.batch_shape, self.cov_factor.shape[-1], 1)
        common = wg.squeeze(self.cov_factor @ wg.random.normal(few, dtype=self.dtype, generator=one), axis=-1)
        own = wg.random.normal(self._full(shape), dtype=self.dtype, generator=other)
        return self.loc + common + wg.sqrt(self.cov_diag) * own

    def log_prob(self, value: Any) -> Tensor:
        away = self._value(value) - self.loc
        scaled = away / self.cov_diag
        factor = self._capacity()
        inner = wg.expand_dims(scaled, axis=-2) @ self.cov_factor
        full = wg.broadcast_to(factor, (*inner.shape[:-2], *factor.shape[-2:]))
        few = wg.linalg.solve_triangular(full, inner.mT, upper=False)
        square = wg.sum(away * scaled, axis=-1) - wg.sum(few * few, axis=(-2, -1))
        half = log_diagonal(factor) + 0.5 * wg.sum(wg.log(self.cov_diag), axis=-1)
        return -0.5 * (self.event_shape[0] * _LOG_2PI + square) - half

    def entropy(self) -> Tensor:
        return self._half_log_det() + 0.5 * self.event_shape[0] * (1.0 + _LOG_2PI)

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance, (..., n, n)."""
        n = self.event_shape[0]
        diagonal = wg.expand_dims(self.cov_diag, axis=-1) * wg.eye(n, dtype=self.dtype)
        return self.cov_factor @ self.cov_factor.mT + diagonal

    @property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance, (..., n, n)."""
        return wg.linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, (..., n, n)."""
        scaled = self.cov_factor / wg.expand_dims(self.cov_diag, axis=-1)
        few = wg.linalg.solve_triangular(self._capacity(), scaled.mT, upper=False)
        diagonal = wg.expand_dims(1.0 / self.cov_diag, axis=-1) * wg.eye(self.event_shape[0], dtype=self.dtype)
        return diagonal - few.mT @ few

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return wg.sum(self.cov_factor**2, axis=-1) + self.cov_diag


class Wishart(Distribution):
    """The Wishart distribution of `df` degrees of freedom, of positive definite matrices: sums of z z^T for normal z.

    Parameters
    ----------
    df: (...), more than n - 1.
    covariance_matrix, precision_matrix, scale_tril: (..., n, n), of z, one of the three, as of
        :class:`MultivariateNormal`.

    Source: Bartlett 1933, On the theory of statistical regression. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.distributions.Wishart(3.0, wg.eye(2)).mean.tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """

    has_rsample = True
    arg_constraints: ClassVar[Any] = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    _own_axes: ClassVar[Any] = {"scale_tril": 2}

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None
    ) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            what = "Wishart takes covariance_matrix, precision_matrix or scale_tril"
            fail(DTypeError, what, "Pass exactly one of them.")
        df, matrix = self._floating(df=df, matrix=given[0])
        if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
            fail(ShapeError, f"Wishart: a matrix {matrix.spec}", "It is (..., n, n).")
        n = matrix.shape[-1]
        self.batch_shape = batch = wg.broadcast_shapes(df.shape, matrix.shape[:-2])
        self.event_shape = (n, n)
        if covariance_matrix is not None:
            matrix = wg.linalg.cholesky(matrix)
        elif precision_matrix is not None:
            matrix = factor_of_inverse(matrix)
        self.df = wg.broadcast_to(df, batch)
        self.scale_tril = wg.broadcast_to(matrix, (*batch, n, n))
        self._check(self.df > n - 1.0, f"df must be more than {n - 1}, the size of the matrices less 1")
        self._check(wg.diagonal(self.scale_tril, 0, -2, -1) > 0.0, "the Cholesky factor's diagonal must be positive")

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        one, other = sources(source, 2)
        n = self.event_shape[0]
        lead = (*shape, *self.batch_shape)
        halves = 0.5 * (wg.expand_dims(self.df, axis=-1) - wg.arange(n, dtype=self.dtype))
        squares = 2.0 * wg.random.gamma(halves, (*lead, n), generator=one)
        normal = wg.random.normal((*lead, n, n), dtype=self.dtype, generator=other)
        eye = wg.eye(n, dtype=bool)
        factor = self.scale_tril @ wg.where(eye, wg.expand_dims(wg.sqrt(squares), axis=-1), wg.tril(normal, -1))
        return factor @ factor.mT

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        n, df = self.event_shape[0], self.df
        factor = wg.linalg.cholesky(x)
        scale = wg.broadcast_to(self.scale_tril, (*wg.broadcast_shapes(x.shape[:-2], self.batch_shape), n, n))
        white = wg.linalg.solve_triangular(scale, wg.broadcast_to(factor, scale.shape), upper=False)
        return (
            (df - n - 1.0) * log_diagonal(factor)
            - 0.5 * wg.sum(white * white, axis=(-2, -1))
            - df * (0.5 * n * math.log(2.0) + log_diagonal(self.scale_tril))
            - log_multigamma(0.5 * df, n)
        )

    def entropy(self) -> Tensor:
        n, df = self.event_shape[0], self.df
        return (
            (n + 1.0) * (0.5 * n * math.log(2.0) + log_diagonal(self.scale_tril))
            + log_multigamma(0.5 * df, n)
            - 0.5 * (df - n - 1.0) * multidigamma(0.5 * df, n)
            + 0.5 * n * df
        )

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the normal vectors, (..., n, n)."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of that covariance, (..., n, n)."""
        return inverse_of_product(self.scale_tril)

    def _over_matrices(self, x: Tensor) -> Tensor:
        return wg.reshape(x, (*self.batch_shape, 1, 1))

    @property
    def mean(self) -> Tensor:
        return self._over_matrices(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.event_shape[0] - 1.0
        return self._over_matrices(wg.where(factor > 0.0, factor, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = wg.diagonal(v, 0, -2, -1)
        products = wg.expand_dims(diagonal, axis=-1) * wg.expand_dims(diagonal, axis=-2)
        return self._over_matrices(self.df) * (v * v + products)


def _orders(x: Tensor, n: int) -> Tensor:
    return wg.expand_dims(x, axis=-1) - 0.5 * wg.arange(n, dtype=x.dtype)


def log_multigamma(x: Tensor, n: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of n variables."""
    return 0.25 * n * (n - 1) * math.log(math.pi) + wg.sum(wg.special.lgamma(_orders(x, n)), axis=-1)


def multidigamma(x: Tensor, n: int) -> Tensor:
    """Return the derivative of :func:`log_multigamma`."""
    return wg.sum(wg.special.digamma(_orders(x, n)), axis=-1)


class LKJCholesky(Distribution):
    """The distribution of Cholesky factors of correlation matrices, of density det(L L^T)**(concentration - 1).

    Uniform over correlation matrices at `concentration` 1, nearer to the identity above. Drawn by the onion method.
    Source: Lewandowski, Kurowicka & Joe 2009, Generating random correlation matrices by vines and the onion method.

    >>> import wengert as wg
    >>> wg.distributions.LKJCholesky(3, 1.0).sample().shape
    (3, 3)
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    not_tensors = frozenset({"dim"})

    def __init__(self, dim: int, concentration: Any = 1.0) -> None:
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 2:
            fail(ShapeError, f"LKJCholesky: dim={dim!r}", "Expected dim to be an integer greater than or equal to 2.")
        self.dim = dim
        (self.concentration,) = self._operands(concentration=concentration)
        self._check(self.concentration > 0.0, "concentration must be positive")
        self.event_shape = (dim, dim)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        one, other = sources(source, 2)
        n = self.dim
        lead = (*shape, *self.batch_shape)
        rows = wg.arange(n - 1, dtype=self.dtype)
        center = wg.expand_dims(self.concentration, axis=-1) + 0.5 * (n - 2)
        # How much of each further row lies off the diagonal, and in which direction.
        beta = Beta(wg.broadcast_to(0.5 * rows + 0.5, center.shape[:-1] + (n - 1,)), center - 0.5 * rows)
        share = beta._draw(shape, one)
        normal = wg.random.normal((*lead, n * (n - 1) // 2), dtype=self.dtype, generator=other)
        below = matrix_of_tril(normal)[..., 1:, :]
        length = wg.sqrt(wg.sum(below * below, axis=-1, keepdims=True))
        below = wg.expand_dims(wg.sqrt(share), axis=-1) * below / length
        rest = wg.sqrt(wg.maximum(1.0 - wg.sum(below * below, axis=-1), float(wg.finfo(self.dtype).tiny)))
        one_first = wg.ones((*lead, 1), dtype=self.dtype)
        diagonal = wg.concat([one_first, rest], axis=-1)
        below = wg.concat([wg.zeros((*lead, 1, n), dtype=self.dtype), below], axis=-2)
        return wg.where(wg.eye(n, dtype=bool), wg.expand_dims(diagonal, axis=-1), below)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        n, c = self.dim, wg.expand_dims(self.concentration, axis=-1)
        orders = 2.0 * (c - 1.0) + n - wg.arange(2, n + 1, dtype=self.dtype)
        unnormalised = wg.sum(orders * wg.log(wg.diagonal(x, 0, -2, -1)[..., 1:]), axis=-1)
        alpha = self.concentration + 0.5 * (n - 1)
        normaliser = 0.5 * (n - 1) * math.log(math.pi) + log_multigamma(alpha - 0.5, n - 1)
        return unnormalised - normaliser + (n - 1) * wg.special.lgamma(alpha)
