"""Distances and angles between vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg

from ....core.errors import RangeError, ShapeError, fail
from ....core.tensor import Tensor
from ....nn import functional as plain
from ....ops.reduce.norms import vector_norm
from ..arguments import along

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along an axis; both broadcast.

    Lengths below `eps` count as it. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.cosine_similarity(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]), dim=0)
    tensor(0.7071)
    """
    if x1.ndim == x2.ndim == 0:
        return along(x1, dim, lambda x, axis: plain.cosine_similarity(x, x2.reshape((1,)), axis=axis, eps=eps))  # type: ignore[no-any-return]
    return plain.cosine_similarity(x1, x2, axis=dim, eps=eps)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Return the p-norm of x1 - x2 + eps along the last axis; both broadcast. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.pairwise_distance(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
    tensor([5.])
    """
    return vector_norm(x1 - x2 + eps, axis=-1, ord=p, keepdims=keepdim)


def pdist(input: Any, p: float = 2.0) -> Tensor:
    """Return the p-norm distances of all pairs of rows, pair by pair. Raises ShapeError, RangeError."""
    if input.ndim != 2:
        fail(ShapeError, f"pdist of a tensor of {input.ndim} dimensions", "It takes rows, (N, D).")
    if p < 0:
        fail(RangeError, f"pdist: p is {p}", "It must not be negative.")
    first, second = np.triu_indices(input.shape[0], 1)
    return vector_norm(wg.take(input, first, axis=0) - wg.take(input, second, axis=0), axis=-1, ord=p)
