"""Layers that multiply by a matrix, and layers that only reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....core.tensor import Tensor
from ....nn import init
from ....nn.layers import linear as plain
from ...tensor import dtype_of, where
from .. import functional as F
from ..module import Module

__all__ = ["Bilinear", "CosineSimilarity", "Flatten", "Identity", "Linear", "PairwiseDistance", "Unflatten"]


class Identity(Module, plain.Identity):
    """The identity. Arguments of the constructor are ignored, so that it can stand in for any layer."""

    def forward(self, input: Any) -> Any:
        """Return `input`."""
        return input


class Linear(Module, plain.Linear):
    """An affine map `x @ weight.T + bias` over the last axis.

    Parameters
    ----------
    in_features: the size of the last axis.
    out_features: the size that takes its place.
    bias: whether to add one.
    device: "cpu".
    dtype: of the parameters; the default float where left out.

    `weight` is (out_features, in_features); it and the bias start uniform within 1/sqrt(in_features).

    >>> import wengert.torch as torch
    >>> torch.nn.Linear(3, 5)(torch.zeros(2, 4, 3)).shape
    torch.Size([2, 4, 5])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        device = where(device)
        plain.Linear.__init__(self, in_features, out_features, bias, None if dtype is None else dtype_of(dtype), device)

    def forward(self, input: Any) -> Any:
        """Map (..., in_features) to (..., out_features)."""
        return F.linear(input, self.weight, self.bias)


class Bilinear(Module, plain.Bilinear):
    """A bilinear map `x1 A x2 + bias` with one matrix A for every output feature.

    `weight` is (out_features, in1_features, in2_features).
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        device = where(device)
        kind = None if dtype is None else dtype_of(dtype)
        plain.Bilinear.__init__(self, in1_features, in2_features, out_features, bias, kind, device)

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1 / math.sqrt(self.in1_features)
        for p in self.parameters(recurse=False):
            init.uniform_(p, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """Map (..., in1_features) and (..., in2_features) to (..., out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)


class Flatten(Module, plain.Flatten):
    """A layer that merges the axes from `start_dim` to `end_dim` into one."""

    def forward(self, input: Any) -> Any:
        """Return `input` with fewer axes."""
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Module, plain.Unflatten):
    """A layer that splits one axis into several, one of which may be -1."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        Module.__init__(self)
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        """Return `input` with more axes."""
        return plain.Unflatten.forward(self, input)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along an axis."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        Module.__init__(self)
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Any, x2: Any) -> Any:
        """Return the cosines; the tensors broadcast."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of differences along the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        Module.__init__(self)
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """Return the distances; the tensors broadcast."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
