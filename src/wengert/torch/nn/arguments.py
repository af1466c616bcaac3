"""Reductions of losses, `inplace`, axes of 0-d tensors: readings of arguments that many functions of networks have."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ... import broadcast_to
from ...core.errors import ShapeError, fail
from ...core.spec import broadcast_shapes
from ...core.tensor import Tensor
from ...ops.index.inplace import update

REDUCTIONS = ("none", "mean", "sum")


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction that is asked for, by its name or by the flags that it replaced."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        found = "none"
    else:
        found = "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction={found!r} instead.", stacklevel=3
    )
    return found


def reduced(loss: Any, reduction: str, name: str) -> Tensor:
    """Return the loss as it is, its mean or its sum. Raises ShapeError for another reduction."""
    if reduction == "none":
        return loss  # type: ignore[no-any-return]
    if reduction not in REDUCTIONS:
        fail(ShapeError, f"{name}: reduction={reduction!r}", 'It is "none", "mean" or "sum".')
    return loss.mean() if reduction == "mean" else loss.sum()  # type: ignore[no-any-return]


def applied(x: Any, inplace: bool, name: str, compute: Callable[..., Any], *args: Any) -> Any:
    """Return `compute(x, *args)`; with `inplace` `x` itself, which has taken that value."""
    if inplace:
        return update(x, f"{name}_", lambda old: compute(old, *args))
    return compute(x, *args)


def along(x: Any, dim: int, compute: Callable[..., Any], *args: Any) -> Any:
    """Return `compute(x, *args, dim)`; of a 0-d tensor what it gives along an axis of one element."""
    if x.ndim == 0 and dim in (0, -1):
        out = compute(x.reshape((1,)), *args, 0)
        return out.reshape(()) if out.ndim else out
    return compute(x, *args, dim)


def beside(input: Any, target: Any, name: str) -> tuple[Any, Any]:
    """Return two tensors as one shape, with PyTorch's warning where their shapes differ. Raises ShapeError."""
    if input.shape == target.shape:
        return input, target
    shape = broadcast_shapes(tuple(input.shape), tuple(target.shape))
    if shape is None:
        fail(ShapeError, f"{name}: input {tuple(input.shape)} and target {tuple(target.shape)}", "They must broadcast.")
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
        "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        stacklevel=3,
    )
    return broadcast_to(input, shape), broadcast_to(target, shape)
