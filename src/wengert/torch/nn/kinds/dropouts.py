"""Dropout of elements and of channels, with PyTorch's parameters."""

from __future__ import annotations

import math
import warnings
from typing import Any

import wengert as wg

from ....core.errors import RangeError, ShapeError, fail
from ....core.tensor import Tensor
from ....nn import functional as plain
from ....nn.functions.arguments import applied

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "feature_dropout",
]

# What a selu tends to far below 0.
_FLOOR = -1.7580993408473766


def _checked(p: float) -> float:
    if not 0.0 <= p <= 1.0:
        fail(RangeError, f"a dropout probability of {p}", "It must lie between 0 and 1.")
    return p


def _by_channel(x: Any) -> tuple[int, ...]:
    """Return the shape of one number for each channel of (N, C, ...). Raises ShapeError."""
    if x.ndim < 2:
        fail(ShapeError, f"dropout of channels of a tensor of {x.ndim} dimensions", "It has two or more, (N, C, ...).")
    return (*x.shape[:2], *(1,) * (x.ndim - 2))


def _feature_dropout(x: Any, p: float, training: bool) -> Any:
    if not training or p == 0:
        return x
    return x * plain.dropout(wg.ones(_by_channel(x), dtype=x.dtype), p, True)


def _alpha_dropout(x: Any, p: float, training: bool, by_channel: bool) -> Any:
    if not training or p == 0:
        return x
    shape = _by_channel(x) if by_channel else x.shape
    if p == 1:
        return x * 0.0
    scale = 1.0 / math.sqrt((_FLOOR * _FLOOR * p + 1) * (1 - p))
    kept = plain.dropout(wg.ones(shape, dtype=x.dtype), p, True) > 0
    return wg.where(kept, x * scale - _FLOOR * scale * p, _FLOOR * scale * (1 - p))


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return elements set to 0 with probability `p`, the others divided by 1 - p; `training=False` changes nothing.

    Raises RangeError for what is no probability. Source: Srivastava et al. 2014, JMLR 15.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.dropout(torch.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    return applied(input, inplace, "dropout", plain.dropout, float(_checked(p)), training)  # type: ignore[no-any-return]


def feature_dropout(input: Any, p: float, train: bool) -> Tensor:
    """Return whole channels of (N, C, ...) set to 0 with probability `p`, the others divided by 1 - p."""
    return _feature_dropout(input, float(_checked(p)), train)  # type: ignore[no-any-return]


def _spatial(input: Any, p: float, training: bool, inplace: bool, axes: int) -> Tensor:
    """Return channels dropped of (N, C, ...), or (C, ...), with a number of axes after C."""

    def compute(x: Any) -> Any:
        if x.ndim == axes + 1:
            return wg.squeeze(_feature_dropout(wg.expand_dims(x, 0), p, training), axis=0)
        return _feature_dropout(x, p, training)

    _checked(p)
    return applied(input, inplace, f"dropout{axes}d", compute)  # type: ignore[no-any-return]


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return channels of (N, C, L) or (C, L) set to 0 with probability `p`, the others divided by 1 - p.

    Raises ShapeError for other numbers of dimensions, RangeError.
    """
    if input.ndim not in (2, 3):
        fail(ShapeError, f"dropout1d of a tensor of {input.ndim} dimensions", "It takes (N, C, L) or (C, L).")
    return _spatial(input, p, training, inplace, 1)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return channels of (N, C, H, W) set to 0 with probability `p`, the others divided by 1 - p.

    Three axes are (N, C, L), with PyTorch's warning. Source: Tompson et al., arXiv:1411.4280. Raises RangeError.
    """
    if input.ndim != 4:
        warnings.warn(
            f"dropout2d: Received a {input.ndim}-D input to dropout2d, which is taken as (N, C, ...); "
            "use dropout1d or dropout instead.",
            stacklevel=2,
        )
    _checked(p)
    return applied(input, inplace, "dropout2d", _feature_dropout, p, training)  # type: ignore[no-any-return]


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return channels of (N, C, D, H, W) or (C, D, H, W) set to 0 with probability `p`, the others divided by 1 - p.

    Raises RangeError.
    """
    if input.ndim not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.ndim}-D input to dropout3d, which is deprecated; use dropout instead.",
            stacklevel=2,
        )
    return _spatial(input, p, training, inplace, 3)


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Return elements set with probability `p` to what selu tends to below 0, scaled to the same mean and variance.

    Raises RangeError. Source: Klambauer et al. 2017, arXiv:1706.02515.
    """
    return applied(input, inplace, "alpha_dropout", _alpha_dropout, _checked(p), training, False)  # type: ignore[no-any-return]


def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Return :func:`alpha_dropout` of whole channels of (N, C, ...). Raises ShapeError, RangeError."""
    return applied(input, inplace, "feature_alpha_dropout", _alpha_dropout, _checked(p), training, True)  # type: ignore[no-any-return]
