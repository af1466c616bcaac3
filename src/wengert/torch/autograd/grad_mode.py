"""Contexts that switch recording for gradients, under PyTorch's path: `torch.autograd.grad_mode`."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

from ...core.mode import GradMode, SetGradEnabled, get_mode
from ..absent import names_of

_multithreading: ContextVar[bool] = ContextVar("wengert_torch_multithreading", default=True)
_inference: ContextVar[bool] = ContextVar("wengert_torch_inference", default=False)


class _Switch(GradMode):
    """A context that decorates a function too, with and without a call: `@no_grad` and `@no_grad()`."""

    __slots__ = ()
    enabled = False

    def __new__(cls, orig_func: Any = None) -> Any:
        made = super().__new__(cls)
        if orig_func is None:
            return made
        made.__init__()  # type: ignore[misc]
        return made(orig_func)

    def __init__(self, orig_func: Any = None) -> None:
        super().__init__(type(self).enabled)

    def clone(self) -> Any:
        """Return another context of this kind."""
        return type(self)()


class no_grad(_Switch):
    """A context, or a decorator, under which nothing is recorded for gradients.

    >>> import wengert.torch as torch
    >>> w = torch.tensor([1.0], requires_grad=True)
    >>> with torch.no_grad():
    ...     (w * 2).requires_grad
    False
    """

    __slots__ = ()


class enable_grad(_Switch):
    """A context, or a decorator, under which operations are recorded for gradients again.

    >>> import wengert.torch as torch
    >>> with torch.no_grad(), torch.enable_grad():
    ...     torch.is_grad_enabled()
    True
    """

    __slots__ = ()
    enabled = True


class set_grad_enabled(SetGradEnabled):
    """A switch of recording that takes effect when it is made; as a context, until its end.

    >>> import wengert.torch as torch
    >>> with torch.set_grad_enabled(False):
    ...     torch.is_grad_enabled()
    False
    """

    __slots__ = ()

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))

    def clone(self) -> Any:
        """Return another switch of this kind."""
        return type(self)(self._enabled)


class inference_mode(GradMode):
    """A context, or a decorator, under which nothing is recorded, as under :class:`no_grad`; `mode=False` records.

    Tensors made inside are ordinary ones.
    """

    __slots__ = ("_before",)

    def __new__(cls, mode: Any = True) -> Any:
        made = super().__new__(cls)
        if isinstance(mode, bool):
            return made
        made.__init__()  # type: ignore[misc]
        return made(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode)
        self._before: list[Token[bool]] = []

    def __enter__(self) -> None:
        super().__enter__()
        self._before.append(_inference.set(not self._enabled))

    def __exit__(self, *exc: object) -> None:
        _inference.reset(self._before.pop())
        super().__exit__(*exc)

    def clone(self) -> Any:
        """Return another context of this kind."""
        return type(self)(not self._enabled)


class set_multithreading_enabled:
    """A switch without effect: the backward pass runs in the thread that asks for it, and its steps in parallel."""

    def __init__(self, mode: bool) -> None:
        self.mode, self._before = mode, _multithreading.get()
        _multithreading.set(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _multithreading.set(self._before)


def is_multithreading_enabled() -> bool:
    """Return what :class:`set_multithreading_enabled` was given last."""
    return _multithreading.get()


def is_grad_enabled() -> bool:
    """Return whether operations are recorded for gradients."""
    return get_mode().grad


def is_inference_mode_enabled() -> bool:
    """Return whether the innermost :class:`inference_mode` block is on."""
    return _inference.get()


__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
