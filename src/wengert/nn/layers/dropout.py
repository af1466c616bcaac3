"""Dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor
from .. import functional as F
from ..checks import probability
from ..module import Module


class _Dropout(Module):
    """A layer that drops at random in training. Raises ShapeError for what is no probability."""

    _compute: Callable[..., Any]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = probability(p)
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        """Return `input`, in training with a part dropped; with `inplace` it is written to."""
        return self._compute(input, self.p, self.training, self.inplace)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """A layer that in training zeroes elements with probability `p` and scales the others by 1 / (1 - p).

    Source: Srivastava et al., JMLR 15, 2014.

    >>> import wengert as wg
    >>> wg.nn.Dropout(0.5).eval()(wg.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    _compute = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """A layer that in training zeroes whole channels of (N, C, L) with probability `p` and scales the others.

    >>> import wengert as wg
    >>> wg.nn.Dropout1d(0.5).eval()(wg.ones((1, 1, 2)))
    tensor([[[1., 1.]]])
    """

    _compute = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """A layer that in training zeroes whole channels of (N, C, H, W) with probability `p` and scales the others.

    >>> import wengert as wg
    >>> wg.nn.Dropout2d(0.5).eval()(wg.ones((1, 1, 1, 2)))
    tensor([[[[1., 1.]]]])
    """

    _compute = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """A layer that in training zeroes whole channels of (N, C, D, H, W) with probability `p` and scales the others.

    >>> import wengert as wg
    >>> wg.nn.Dropout3d(0.5).eval()(wg.ones((1, 1, 1, 1, 2)))
    tensor([[[[[1., 1.]]]]])
    """

    _compute = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """A layer that in training sets elements to what selu tends to, and keeps mean and variance.

    Source: Klambauer et al., arXiv:1706.02515.

    >>> import wengert as wg
    >>> wg.nn.AlphaDropout(0.5).eval()(wg.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    _compute = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """A layer that in training sets whole channels of (N, C, ...) to what selu tends to.

    >>> import wengert as wg
    >>> wg.nn.FeatureAlphaDropout(0.5).eval()(wg.ones((1, 2)))
    tensor([[1., 1.]])
    """

    _compute = staticmethod(F.feature_alpha_dropout)
