"""The transforms of `torch.func` that are at work, and what PyTorch refuses inside of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any

from ...core.errors import GradientError, fail
from ...core.tensor import Tensor as Plain
from ..tensor import Tensor
from .packing import disable_saved_tensors_hooks

_BACKWARD = frozenset({"grad", "grad_and_value", "vjp", "jacrev", "linearize"})
_open: ContextVar[tuple[str, ...]] = ContextVar("wengert_torch_transforms", default=())


def within(func: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function as it runs inside the transform `name`.

    A transform that goes backward does not go with hooks of saved tensors: GradientError is raised.
    """

    @functools.wraps(func, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        token = _open.set((*_open.get(), name))
        message = f"torch.func.{name} does not go with saved tensor hooks"
        try:
            with disable_saved_tensors_hooks(message) if name in _BACKWARD else nullcontext():
                return func(*args, **kwargs)
        finally:
            _open.reset(token)

    return run


def transform() -> str | None:
    """Return the name of the innermost transform that is at work; None outside of all."""
    names = _open.get()
    return names[-1] if names else None


def refuse(what: str, mend: str) -> None:
    """Raise GradientError inside a transform."""
    name = transform()
    if name is not None:
        fail(GradientError, f"{what} inside of torch.func.{name}", mend)


def _requires_grad_(self: Any, requires_grad: bool = True) -> Any:
    """Make a leaf collect gradients, or no longer; see :meth:`wengert.Tensor.requires_grad_`.

    Raises GradientError inside a transform of `torch.func`, which differentiates in its arguments alone.
    """
    if requires_grad:
        refuse("Tensor.requires_grad_()", "The transform differentiates in the arguments that argnums names.")
    return Plain.requires_grad_(self, requires_grad)


def _retain_grad(self: Any) -> None:
    """Keep the gradient of this non-leaf in `.grad`; see :meth:`wengert.Tensor.retain_grad`.

    Raises GradientError inside a transform of `torch.func`, which fills no `.grad`.
    """
    refuse("Tensor.retain_grad()", "Return the value, or take its gradient as an argument of the function.")
    Plain.retain_grad(self)


Tensor.requires_grad_ = _requires_grad_  # type: ignore[method-assign]
Tensor.retain_grad = _retain_grad  # type: ignore[method-assign]
