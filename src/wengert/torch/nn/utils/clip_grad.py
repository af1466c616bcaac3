"""The clipping of gradients before a step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import wengert as wg

from ....core.errors import GradientError, fail
from ....nn import utils as plain
from ....ops.index.inplace import set_gradient
from ...namespace import tensor_of
from ...tensor import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Any | Iterable[Any]


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients together so that their joint norm is at most `max_norm`.

    Parameters
    ----------
    parameters: tensors whose `.grad` is clipped; those without one are left out.
    max_norm: the largest norm that stays.
    norm_type: the order of the norm, `math.inf` for the largest magnitude.
    error_if_nonfinite: raise GradientError where the norm is NaN or infinite.
    foreach: taken; there is one way to compute it.

    Returns the norm before clipping. Source: Pascanu, Mikolov, Bengio, arXiv:1211.5063.

    >>> import wengert.torch as torch
    >>> w = torch.zeros(2, requires_grad=True)
    >>> (w * torch.tensor([3.0, 4.0])).sum().backward()
    >>> torch.nn.utils.clip_grad_norm_([w], max_norm=1.0)
    tensor(5.)
    """
    return tensor_of(plain.clip_grad_norm_(parameters, float(max_norm), norm_type, error_if_nonfinite))


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return what :func:`clip_grad_norm_` does, of which this is the old name."""
    warnings.warn("clip_grad_norm is the old name of clip_grad_norm_", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of the gradients to `[-clip_value, clip_value]`. Raises DTypeError for complex ones."""
    plain.clip_grad_value_(parameters, float(clip_value))


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the joint norm of tensors. Raises GradientError for one that is not finite, where that is asked for."""
    held = [tensors] if isinstance(tensors, wg.Tensor) else list(tensors)
    if not held:
        return tensor_of(0.0)
    order = float(norm_type)
    norms = wg.stack([wg.linalg.vector_norm(t.detach().reshape((-1,)), ord=order) for t in held])
    total = wg.linalg.vector_norm(norms, ord=order)
    if error_if_nonfinite and not wg.isfinite(total):
        fail(GradientError, f"the norm of order {order} of the gradients is {total.item()}")
    return tensor_of(total)


def clip_grads_with_norm_(parameters: Tensors, max_norm: float, total_norm: Any, foreach: bool | None = None) -> None:
    """Scale all gradients by `max_norm / total_norm`, where that is below 1."""
    held = [parameters] if isinstance(parameters, wg.Tensor) else list(parameters)
    share = wg.clip(float(max_norm) / (tensor_of(total_norm) + 1e-6), None, 1.0)
    for p in held:
        if p.grad is not None:
            set_gradient(p, p.grad.detach() * share.astype(abs(p.grad.detach()).dtype))


def __dir__() -> list[str]:
    return sorted(__all__)
