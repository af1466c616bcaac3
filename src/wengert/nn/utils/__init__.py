"""The clipping of gradients before a step, parameters as one vector, and sequences of different lengths in `rnn`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ... import clip, float64, isfinite, sqrt, stack, where, zeros
from ...core.errors import DTypeError, GradientError, RangeError, ShapeError, fail
from ...core.state.capture import get_capture
from ...core.state.locks import imported
from ...core.state.observer import observers
from ...core.storage import window_of
from ...core.tensor import Tensor, asarray, wrap
from ...ops.index.inplace import set_gradient

if TYPE_CHECKING:
    from . import rnn

Array = np.ndarray[Any, Any]

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]


def __getattr__(name: str) -> Any:
    """Load the module of sequences when it is first used."""
    if name == "rnn":
        return imported(".rnn", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _with_gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for p in given:
        if not isinstance(p, Tensor):
            fail(DTypeError, f"parameters are tensors, not {type(p).__name__}", "Pass model.parameters().")
    unique = {id(p): p for p in given}
    return [p for p in unique.values() if p.grad is not None]


def _gradient(p: Tensor) -> Tensor:
    assert p.grad is not None
    return p.grad.detach()


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

    Raises RangeError for a `norm_type` that is not positive.

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
        fail(RangeError, f"norm_type must be positive, not {norm_type}")
    if not held:
        return wrap(np.zeros((), np.float32))
    arrays = _arrays(held) if type(max_norm) in (int, float) else None
    if arrays is not None:
        return _clipped_at_once(held, arrays, max_norm, order, error_if_nonfinite)
    dtype = np.result_type(*(abs(_gradient(p)).dtype for p in held))
    # Each tensor's norm first, then the norm of those: float64 keeps the sum of many squares exact enough.
    total = _norm(stack([_norm(_gradient(p), order) for p in held]), order)
    if error_if_nonfinite and not isfinite(total):
        _refuse_norm("not finite" if total.is_abstract else str(total.item()))
    scale = max_norm / (total + 1e-6)
    if scale.is_abstract or not scale >= 1.0:
        for p in held:
            g = _gradient(p)
            set_gradient(p, where(scale >= 1.0, g, g * scale.astype(abs(g).dtype)))
    before: Tensor = total.astype(dtype)
    return before


def _refuse_norm(norm: str) -> NoReturn:
    fail(
        GradientError,
        f"the norm of the gradients is {norm}",
        "wg.explain.nonfinite(f), with f a function of a training step, says which operation made it; else lower the "
        "learning rate.",
    )


def _arrays(held: list[Tensor]) -> list[Array] | None:
    """Return the arrays of gradients that nothing records; None if something does."""
    if observers or get_capture() is not None:
        return None
    found = [window_of(p.grad) for p in held if p.grad is not None and p.grad.node is None]
    is_plain = len(found) == len(held) and all(type(a) is np.ndarray and a.dtype.kind in "fc" for a in found)
    return found if is_plain else None


def _clipped_at_once(
    held: list[Tensor], arrays: list[Array], max_norm: float, order: float, error_if_nonfinite: bool
) -> Tensor:
    """Return the norm of gradients that are arrays, and scale them, as :func:`clip_grad_norm_` does."""
    norms = np.array([_array_norm(a, order) for a in arrays])
    total = _array_norm(norms, order)
    if error_if_nonfinite and not math.isfinite(total):
        _refuse_norm(str(total))
    scale = max_norm / (total + 1e-6)
    if not scale >= 1.0:
        with np.errstate(all="ignore"):
            for p, a in zip(held, arrays, strict=True):
                if p.grad is not None and p.grad.writes_through is not None:
                    p.grad.mul_(scale)
                else:
                    p.grad = wrap(a * a.real.dtype.type(scale))
    return wrap(np.asarray(total, np.result_type(*(a.real.dtype for a in arrays))))


def _array_norm(values: Array, order: float) -> float:
    flat = values.reshape(-1)
    if order == 2.0:
        wide = flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64)
        return math.sqrt(np.vdot(wide, wide).real)
    magnitudes = np.abs(flat).astype(np.float64)
    if order == math.inf:
        return float(magnitudes.max(initial=0.0))
    with np.errstate(over="ignore"):
        return float((magnitudes**order).sum() ** (1.0 / order))


def _norm(values: Tensor, order: float) -> Tensor:
    magnitudes = abs(values).astype(float64)
    if order == math.inf:
        found: Tensor = magnitudes.max() if values.size else zeros((), dtype=float64)
    elif order == 2.0:
        found = sqrt((magnitudes * magnitudes).sum())
    else:
        found = (magnitudes**order).sum() ** (1.0 / order)
    return found


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit every element of the gradients to `[-clip_value, clip_value]`; NaN stays NaN.

    Raises DTypeError for complex gradients, which have no order.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 10.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> wg.nn.utils.clip_grad_value_([w], 5.0)
    >>> w.grad
    tensor([2., 5.])
    """
    limit = float(clip_value)
    for p in _with_gradients(parameters):
        g = _gradient(p)
        if g.dtype.kind == "c":
            fail(DTypeError, f"clip_grad_value_ of a complex gradient {p.spec}", "Use clip_grad_norm_.")
        set_gradient(p, clip(g, -limit, limit))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the parameters' values in order in a 1-d tensor, without history.

    >>> import wengert as wg
    >>> wg.nn.parameters_to_vector(wg.nn.Linear(2, 3).parameters()).shape
    (9,)
    """
    values = [p.detach().numpy().ravel() for p in parameters]
    return wrap(np.concatenate(values)) if values else wrap(np.zeros(0, np.float32))


def vector_to_parameters(vector: Any, parameters: Iterable[Tensor]) -> None:
    """Give the parameters the values of a 1-d tensor, in order.

    Raises ShapeError where the sizes do not add up; then nothing is changed.

    >>> import wengert as wg
    >>> w = wg.tensor([[0.0, 0.0]], requires_grad=True)
    >>> wg.nn.utils.vector_to_parameters(wg.tensor([1.0, 2.0]), [w])
    >>> w
    tensor([[1., 2.]], requires_grad=True)
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


def __dir__() -> list[str]:
    return sorted(__all__)
