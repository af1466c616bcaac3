"""Gradients clipped before a step, and parameters as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.errors import DTypeError, GradientError, ShapeError, fail
from ..core.tensor import Tensor, asarray, wrap


def _with_gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for p in given:
        if not isinstance(p, Tensor):
            fail(DTypeError, f"parameters are tensors, not {type(p).__name__}", "Pass model.parameters().")
    unique = {id(p): p for p in given}
    return [p for p in unique.values() if p.grad is not None]


def _gradient(p: Tensor) -> Any:
    assert p.grad is not None
    return np.asarray(p.grad.detach().numpy())


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients together so that their joint norm is at most `max_norm`.

    Parameters
    ----------
    parameters: tensors whose `.grad` is clipped; those without one are left out.
    max_norm: the largest norm that stays.
    norm_type: the order of the norm, `math.inf` for the largest magnitude.
    error_if_nonfinite: raise GradientError where the norm is NaN or infinite; else it spreads to
        every gradient, so that it is seen.

    Returns the norm before clipping, a 0-d tensor.

    Source: Pascanu, Mikolov, Bengio, arXiv:1211.5063.

    >>> import wengert as wg
    >>> w = wg.tensor([0.0, 0.0], requires_grad=True)
    >>> (w * wg.tensor([3.0, 4.0])).sum().backward()
    >>> wg.nn.clip_grad_norm_([w], 1.0)
    tensor(5.)
    >>> [round(g, 4) for g in w.grad.tolist()]
    [0.6, 0.8]
    """
    held = _with_gradients(parameters)
    order = float(norm_type)
    if not order > 0:
        fail(ShapeError, f"norm_type must be positive, not {norm_type}")
    if not held:
        return wrap(np.zeros((), np.float32))
    dtype = np.result_type(*(np.abs(_gradient(p)).dtype for p in held))
    # Each tensor's norm first, then the norm of those: float64 keeps the sum of many squares exact enough.
    norms = [_norm(_gradient(p).ravel(), order) for p in held]
    total = _norm(np.array(norms), order)
    if error_if_nonfinite and not math.isfinite(total):
        fail(
            GradientError,
            f"the norm of the gradients is {total}",
            "wg.explain.nonfinite(f), with f a function of a training step, says which operation made it; else lower "
            "the learning rate.",
        )
    scale = max_norm / (total + 1e-6)
    if not scale >= 1.0:
        for p in held:
            assert p.grad is not None
            p.grad = wrap(_gradient(p) * np.asarray(scale, np.abs(_gradient(p)).dtype))
    return wrap(np.asarray(total, dtype))


def _norm(values: Any, order: float) -> float:
    magnitudes = np.abs(values).astype(np.float64)
    if order == math.inf:
        return float(magnitudes.max(initial=0.0))
    if order == 2.0:
        return math.sqrt(float(magnitudes @ magnitudes))
    return float((magnitudes**order).sum() ** (1.0 / order))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit every element of the gradients to `[-clip_value, clip_value]`; NaN stays NaN.

    Raises DTypeError for complex gradients, which have no order.
    """
    limit = float(clip_value)
    for p in _with_gradients(parameters):
        g = _gradient(p)
        if g.dtype.kind == "c":
            fail(DTypeError, f"clip_grad_value_ of a complex gradient {p.spec}", "Use clip_grad_norm_.")
        p.grad = wrap(np.asarray(np.clip(g, np.asarray(-limit, g.dtype), np.asarray(limit, g.dtype))))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The parameters' values one after another in a 1-d tensor, without history.

    >>> import wengert as wg
    >>> wg.nn.parameters_to_vector(wg.nn.Linear(2, 3).parameters()).shape
    (9,)
    """
    values = [p.detach().numpy().ravel() for p in parameters]
    return wrap(np.concatenate(values)) if values else wrap(np.zeros(0, np.float32))


def vector_to_parameters(vector: Any, parameters: Iterable[Tensor]) -> None:
    """Give the parameters the values of a 1-d tensor, in order.

    Raises ShapeError where the sizes do not add up; then nothing is changed.
    """
    held = list(parameters)
    source = asarray(vector).detach().numpy()
    size = sum(p.size for p in held)
    if source.shape != (size,):
        fail(ShapeError, f"a vector of shape {source.shape} for parameters with {size} elements")
    start = 0
    for p in held:
        p.assign_(source[start : start + p.size].reshape(p.shape))
        start += p.size
