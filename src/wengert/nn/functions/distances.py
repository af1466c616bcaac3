"""Distances and angles between vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import RangeError, ShapeError, fail
from ...core.tensor import Tensor
from ...ops.reduce.norms import vector_norm


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Return the p-norm of x1 - x2 + eps along the last axis; both broadcast. Raises ShapeError.

    >>> import wengert as wg
    >>> wg.nn.functional.pairwise_distance(wg.zeros((1, 2)), wg.tensor([[3.0, 4.0]]))
    tensor([5.])
    """
    return vector_norm(wg.asarray(x1) - wg.asarray(x2) + eps, axis=-1, ord=p, keepdims=keepdim)


def pdist(input: Any, p: float = 2.0) -> Tensor:
    """Return the p-norm distances of all pairs of rows, pair by pair. Raises ShapeError, RangeError.

    >>> import wengert as wg
    >>> wg.nn.functional.pdist(wg.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]]))
    tensor([5., 4., 3.])
    """
    input = wg.asarray(input)
    if input.ndim != 2:
        fail(ShapeError, f"pdist of a tensor of {input.ndim} dimensions", "It takes rows, (N, D).")
    if p < 0:
        fail(RangeError, f"pdist: p is {p}", "It must not be negative.")
    first, second = np.triu_indices(input.shape[0], 1)
    return vector_norm(wg.take(input, first, axis=0) - wg.take(input, second, axis=0), axis=-1, ord=p)
