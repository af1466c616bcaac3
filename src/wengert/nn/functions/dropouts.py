"""Dropout of channels, and dropout that keeps mean and variance."""

from __future__ import annotations

import math
import warnings
from typing import Any

import wengert as wg

from ...core.errors import ShapeError, fail
from ...core.tensor import Tensor, asarray
from ...ops.index.inplace import applied
from ...ops.neural.composites import dropout
from ..checks import probability

# What a selu tends to far below 0.
_FLOOR = -1.7580993408473766


def _by_channel(x: Any) -> tuple[int, ...]:
    """Return the shape of one number for each channel of (N, C, ...). Raises ShapeError."""
    if x.ndim < 2:
        fail(ShapeError, f"dropout of channels of a tensor of {x.ndim} dimensions", "It has two or more, (N, C, ...).")
    return (*x.shape[:2], *(1,) * (x.ndim - 2))


def _feature_dropout(x: Any, p: float, training: bool) -> Any:
    if not training or p == 0:
        return x
    return x * dropout(wg.ones(_by_channel(x), dtype=x.dtype), p, True)


def _alpha_dropout(x: Any, p: float, training: bool, by_channel: bool) -> Any:
    if not training or p == 0:
        return x
    shape = _by_channel(x) if by_channel else x.shape
    if p == 1:
        return x * 0.0
    scale = 1.0 / math.sqrt((_FLOOR * _FLOOR * p + 1) * (1 - p))
    kept = dropout(wg.ones(shape, dtype=x.dtype), p, True) > 0
    return wg.where(kept, x * scale - _FLOOR * scale * p, _FLOOR * scale * (1 - p))


def feature_dropout(input: Any, p: float, train: bool) -> Tensor:
    """Return whole channels of (N, C, ...) set to 0 with probability `p`, the others divided by 1 - p."""
    input = asarray(input)
    return _feature_dropout(input, probability(p), train)  # type: ignore[no-any-return]


def _spatial(input: Any, p: float, training: bool, inplace: bool, axes: int) -> Tensor:
    """Return channels dropped of (N, C, ...), or (C, ...), with a number of axes after C."""

    p = probability(p)

    def compute(x: Any) -> Any:
        if x.ndim == axes + 1:
            return wg.squeeze(_feature_dropout(wg.expand_dims(x, 0), p, training), axis=0)
        return _feature_dropout(x, p, training)

    return applied(input, inplace, f"dropout{axes}d", compute)  # type: ignore[no-any-return]


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return channels of (N, C, L) or (C, L) set to 0 with probability `p`, the others divided by 1 - p.

    Raises ShapeError for other numbers of dimensions, and for what is no probability.

    >>> import wengert as wg
    >>> wg.nn.functional.dropout1d(wg.ones((1, 1, 2)), training=False)
    tensor([[[1., 1.]]])
    """
    input = asarray(input)
    if input.ndim not in (2, 3):
        fail(ShapeError, f"dropout1d of a tensor of {input.ndim} dimensions", "It takes (N, C, L) or (C, L).")
    return _spatial(input, p, training, inplace, 1)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return channels of (N, C, H, W) set to 0 with probability `p`, the others divided by 1 - p.

    Three axes are (N, C, L), with PyTorch's warning. Source: Tompson et al., arXiv:1411.4280. Raises ShapeError.

    >>> import wengert as wg
    >>> wg.nn.functional.dropout2d(wg.ones((1, 1, 1, 2)), training=False)
    tensor([[[[1., 1.]]]])
    """
    input = asarray(input)
    if input.ndim != 4:
        warnings.warn(
            f"dropout2d: Received a {input.ndim}-D input to dropout2d, which is taken as (N, C, ...); "
            "use dropout1d or dropout instead.",
            stacklevel=2,
        )
    return applied(input, inplace, "dropout2d", _feature_dropout, probability(p), training)  # type: ignore[no-any-return]


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return channels of (N, C, D, H, W) or (C, D, H, W) set to 0 with probability `p`, the others divided by 1 - p.

    Raises ShapeError.

    >>> import wengert as wg
    >>> wg.nn.functional.dropout3d(wg.ones((1, 1, 1, 1, 2)), training=False)
    tensor([[[[[1., 1.]]]]])
    """
    input = asarray(input)
    if input.ndim not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.ndim}-D input to dropout3d, which is deprecated; use dropout instead.",
            stacklevel=2,
        )
    return _spatial(input, p, training, inplace, 3)


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Return elements set with probability `p` to what selu tends to below 0, scaled to the same mean and variance.

    Raises ShapeError. Source: Klambauer et al. 2017, arXiv:1706.02515.

    >>> import wengert as wg
    >>> wg.nn.functional.alpha_dropout(wg.ones(2), training=False)
    tensor([1., 1.])
    """
    input = asarray(input)
    return applied(input, inplace, "alpha_dropout", _alpha_dropout, probability(p), training, False)  # type: ignore[no-any-return]


def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Return :func:`alpha_dropout` of whole channels of (N, C, ...). Raises ShapeError.

    >>> import wengert as wg
    >>> wg.nn.functional.feature_alpha_dropout(wg.ones((1, 2)), training=False)
    tensor([[1., 1.]])
    """
    input = asarray(input)
    return applied(input, inplace, "feature_alpha_dropout", _alpha_dropout, probability(p), training, True)  # type: ignore[no-any-return]
