"""Dropout."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from .. import functional as F
from ..checks import probability
from ..module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = probability(p)

    def extra_repr(self) -> str:
        """Return the probability for `repr`."""
        return f"p={self.p}"


class Dropout(_Dropout):
    """A layer that in training zeroes elements with probability `p` and scales the others by 1 / (1 - p).

    Source: Srivastava et al., JMLR 15, 2014.

    >>> import wengert as wg
    >>> wg.nn.Dropout(0.5).eval()(wg.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def forward(self, x: Any) -> Tensor:
        """Return `x` with elements dropped."""
        return F.dropout(x, self.p, self.training)


class Dropout2d(_Dropout):
    """A layer that in training zeroes whole channels of (N, C, H, W) with probability `p` and scales the others.

    >>> import wengert as wg
    >>> wg.nn.Dropout2d(0.5).eval()(wg.ones((1, 1, 1, 2)))
    tensor([[[[1., 1.]]]])
    """

    def forward(self, x: Any) -> Tensor:
        """Return `x` with channels dropped."""
        return F.dropout2d(x, self.p, self.training)
