"""Transforms to simplices and matrices; and for each constraint, a transform from unconstrained numbers to its set."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import wengert as wg

from ..core.errors import ShapeError, fail
from ..core.tensor import Tensor, of_class
from . import constraints
from .transforms import (
    AffineTransform,
    CatTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    Plain,
    SigmoidTransform,
    StackTransform,
    Transform,
    identity_transform,
    sigmoid_off_ends,
)


class SoftmaxTransform(Plain):
    """The transform softmax(x) of the last axis; its inverse is the logarithm, one of many.

    >>> import wengert as wg
    >>> wg.distributions.SoftmaxTransform()(wg.tensor([0.0, 0.0]))
    tensor([0.5, 0.5])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return wg.softmax(x, axis=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.log(y)


def _last(transform: Transform, shape: Sequence[int]) -> int:
    """Return the size of the last axis. Raises ShapeError for a shape without axes."""
    if not shape:
        fail(ShapeError, f"{transform!r} of the shape {tuple(shape)}: too few axes", "It works on vectors.")
    return shape[-1]


class StickBreakingTransform(Plain):
    """The transform of n numbers to n + 1 weights: each breaks a part of the rest of a stick off.

    >>> import wengert as wg
    >>> wg.distributions.StickBreakingTransform()(wg.tensor([0.0]))
    tensor([0.5, 0.5])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _remaining(self, n: int, like: Tensor) -> Tensor:
        """Return the logarithms of how many pieces there are still to come."""
        return wg.log(wg.arange(n, 0, -1, dtype=like.dtype))

    def _call(self, x: Tensor) -> Tensor:
        part = sigmoid_off_ends(x - self._remaining(x.shape[-1], x))
        rest = wg.cumulative_prod(1.0 - part, axis=-1)
        one = of_class(type(x), wg.ones((*x.shape[:-1], 1), dtype=part.dtype))
        return wg.concat([part, one], axis=-1) * wg.concat([one, rest], axis=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        pieces = y[..., :-1]
        rest = wg.maximum(1.0 - wg.cumulative_sum(pieces, axis=-1), float(wg.finfo(y.dtype).tiny))
        return wg.log(pieces) - wg.log(rest) + self._remaining(pieces.shape[-1], y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        away = x - self._remaining(x.shape[-1], x)
        return wg.sum(-wg.nn.functional.softplus(away) + wg.log(y[..., :-1]), axis=-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[:-1], _last(self, shape) + 1)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[:-1], _last(self, shape) - 1)


def _with_diagonal(x: Tensor, diagonal: Tensor) -> Tensor:
    """Return the lower triangle of matrices with another diagonal."""
    n = x.shape[-1]
    return wg.where(wg.eye(n, dtype=bool), wg.expand_dims(diagonal, axis=-1), wg.tril(x, -1))


class LowerCholeskyTransform(Plain):
    """The transform of square matrices to lower triangular ones with a positive diagonal, by exp of the diagonal.

    >>> import wengert as wg
    >>> wg.distributions.LowerCholeskyTransform()(wg.zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return _with_diagonal(x, wg.exp(wg.diagonal(x, 0, -2, -1)))

    def _inverse(self, y: Tensor) -> Tensor:
        return _with_diagonal(y, wg.log(wg.diagonal(y, 0, -2, -1)))


class PositiveDefiniteTransform(Plain):
    """The transform of square matrices to positive definite ones, by their Cholesky factor.

    >>> import wengert as wg
    >>> wg.distributions.PositiveDefiniteTransform()(wg.zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(wg.linalg.cholesky(y))  # type: ignore[no-any-return]


class CorrCholeskyTransform(Plain):
    """The transform of n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix of n variables.

    The numbers' hyperbolic tangents are partial correlations, row by row.
    Source: Lewandowski, Kurowicka & Joe 2009, Generating random correlation matrices by vines and the onion method.

    >>> import wengert as wg
    >>> wg.distributions.CorrCholeskyTransform()(wg.zeros(3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = float(wg.finfo(x.dtype).eps)
        partial = matrix_of_tril(wg.clip(wg.tanh(x), -1.0 + eps, 1.0 - eps))
        rest = wg.cumulative_prod(wg.sqrt(1.0 - partial * partial), axis=-1)
        before = wg.concat([wg.ones_like(rest[..., :1]), rest[..., :-1]], axis=-1)
        return (partial + wg.eye(partial.shape[-1], dtype=x.dtype)) * before

    def _inverse(self, y: Tensor) -> Tensor:
        used = 1.0 - wg.cumulative_sum(y * y, axis=-1)
        before = wg.concat([wg.ones_like(used[..., :1]), used[..., :-1]], axis=-1)
        below = tril_of_matrix(y)
        partial = below / wg.sqrt(tril_of_matrix(before))
        # atanh, by what is right near 1 too
        return 0.5 * (wg.log1p(partial) - wg.log1p(-partial))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        left = tril_of_matrix(1.0 - wg.cumulative_sum(y * y, axis=-1), -2)
        tanh = -2.0 * wg.sum(x + wg.nn.functional.softplus(-2.0 * x) - math.log(2.0), axis=-1)
        return 0.5 * wg.sum(wg.log(left), axis=-1) + tanh

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        count = _last(self, shape)
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            fail(ShapeError, f"CorrCholeskyTransform of {count} numbers", "There are n (n - 1) / 2 for n variables.")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        if len(shape) < 2 or shape[-1] != shape[-2]:
            fail(ShapeError, f"CorrCholeskyTransform: {tuple(shape)} is no shape of square matrices")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


@functools.cache
def _below(n: int, diagonal: int) -> tuple[Any, Any]:
    """Return where the elements of a lower triangle stand in a matrix, and the inverse of that."""
    rows, columns = np.tril_indices(n, diagonal)
    flat = rows * n + columns
    back = np.full(n * n, len(flat), np.int64)
    back[flat] = np.arange(len(flat))
    return flat, back


def tril_of_matrix(x: Tensor, diagonal: int = -1) -> Tensor:
    """Return the elements of the lower triangle of matrices, row by row, as vectors."""
    n = x.shape[-1]
    flat, _ = _below(n, diagonal)
    return wg.take(wg.reshape(x, (*x.shape[:-2], n * n)), wg.asarray(flat), axis=-1)


def matrix_of_tril(x: Tensor) -> Tensor:
    """Return matrices of which vectors are the lower triangles below the diagonal, row by row."""
    (*lead, n, _) = CorrCholeskyTransform().forward_shape(tuple(x.shape))
    _, back = _below(n, -1)
    padded = wg.concat([x, wg.zeros_like(x[..., :1]) if x.shape[-1] else wg.zeros((*lead, 1), dtype=x.dtype)], axis=-1)
    return wg.reshape(wg.take(padded, wg.asarray(back), axis=-1), (*lead, n, n))


# -- from unconstrained numbers to a constraint's set

Factory = Any


class ConstraintRegistry:
    """A table of transforms by constraints: called with one, it gives a transform to its set.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.biject_to(d.constraints.positive)(wg.tensor(0.0))
    tensor(1.)
    """

    def __init__(self) -> None:
        self._factories: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory = None) -> Any:
        """Declare the function from constraints of a class to transforms; without `factory` a decorator."""
        if factory is None:
            return functools.partial(self.register, constraint)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(kind, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._factories[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        factory = self._factories.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _register() -> None:
    both = (biject_to, transform_to)
    kind = type
    table: list[tuple[Any, Any]] = [
        (constraints.real, lambda c: identity_transform),
        (constraints.positive, _above),
        (constraints.greater_than_eq, _above),
        (constraints.less_than, lambda c: ComposeTransform([ExpTransform(), AffineTransform(c.upper_bound, -1)])),
        (constraints.interval, _between),
        (constraints.half_open_interval, _between),
        (constraints.corr_cholesky, lambda c: CorrCholeskyTransform()),
    ]
    for registry in both:
        for constraint, factory in table:
            registry.register(constraint if isinstance(constraint, kind) else kind(constraint), factory)
        registry.register(constraints.independent, functools.partial(_independent, registry))
        registry.register(constraints.cat, functools.partial(_cat, registry))
        registry.register(constraints.stack, functools.partial(_stack, registry))
    biject_to.register(constraints.simplex, lambda c: StickBreakingTransform())
    transform_to.register(constraints.simplex, lambda c: SoftmaxTransform())
    transform_to.register(constraints.lower_cholesky, lambda c: LowerCholeskyTransform())
    transform_to.register(constraints.positive_definite, lambda c: PositiveDefiniteTransform())
    transform_to.register(constraints.positive_semidefinite, lambda c: PositiveDefiniteTransform())


def _above(c: Any) -> Transform:
    if isinstance(c.lower_bound, (int, float)) and c.lower_bound == 0:
        return ExpTransform()
    return ComposeTransform([ExpTransform(), AffineTransform(c.lower_bound, 1)])


def _between(c: Any) -> Transform:
    low, high = c.lower_bound, c.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _independent(registry: ConstraintRegistry, c: Any) -> Transform:
    return IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims)


def _cat(registry: ConstraintRegistry, c: Any) -> Transform:
    return CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths)


def _stack(registry: ConstraintRegistry, c: Any) -> Transform:
    return StackTransform([registry(part) for part in c.cseq], c.dim)


_register()
