"""Distances and angles between vectors as modules."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from .. import functional as F
from ..module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along an axis.

    >>> import wengert as wg
    >>> wg.nn.CosineSimilarity(dim=0)(wg.tensor([1.0, 0.0]), wg.tensor([1.0, 1.0]))
    tensor(0.7071)
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Any, x2: Any) -> Tensor:
        """Return the cosines; the tensors broadcast."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of differences along the last axis.

    >>> import wengert as wg
    >>> wg.nn.PairwiseDistance()(wg.zeros((1, 2)), wg.tensor([[3.0, 4.0]]))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Tensor:
        """Return the distances; the tensors broadcast."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
