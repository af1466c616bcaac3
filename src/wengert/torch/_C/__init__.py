"""`torch._C`: names of PyTorch's inner module that programs and test suites ask for and that mean something here."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

from ...core.mode import get_mode
from ...transforms.derivatives.reverse import running
from ..absent import names_of
from ..autograd.grad_mode import is_grad_enabled
from ..autograd.packing import is_enabled
from ..dtypes import dtype
from ..random import Generator
from ..tensor import Size, Tensor, device, layout, memory_format

TensorBase = Tensor
has_lapack = True

_warns = False


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Take a wish for warnings of operations that `vmap` runs example after example: there are none."""
    global _warns
    _warns = bool(enabled)


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """Return what :func:`_debug_only_display_vmap_fallback_warnings` was given last."""
    return _warns


def _get_tracing_state() -> Any:
    """Return True where a function is being traced, else None."""
    return True if get_mode().tracing else None


def _get_privateuse1_backend_name() -> str:
    """Return the name that a device of a program's own would have: there is none."""
    return "privateuseone"


def _log_api_usage_once(event: str) -> None:
    """Do nothing: nobody is told which functions a program uses."""


def _will_engine_execute_node(node: Any) -> bool:
    """Return whether the backward pass that this thread is in computes the gradient at a step of it."""
    current = running.get()
    return current is not None and current.reaches(node._node)


def _current_graph_task_id() -> int:
    """Return a number that the backward pass has which this thread is in; -1 outside of one."""
    current = running.get()
    return -1 if current is None else id(current)


_autograd = SimpleNamespace(_saved_tensors_hooks_is_enabled=is_enabled)


class _WeakTensorRef:
    """A reference that does not keep a tensor alive."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = weakref.ref(tensor)

    def expired(self) -> bool:
        """Return whether the tensor is gone."""
        return self._tensor() is None

    def __call__(self) -> Any:
        """Return the tensor, or None."""
        return self._tensor()


__all__ = [
    "Generator",
    "Size",
    "TensorBase",
    "device",
    "dtype",
    "has_lapack",
    "is_grad_enabled",
    "layout",
    "memory_format",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
