"""`torch._C`: names of PyTorch's inner module that programs and test suites ask for and that mean something here."""

from __future__ import annotations

import contextlib
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...core.mode import get_mode
from ...transforms.derivatives.reverse import running
from ..absent import names_of
from ..autograd.grad_mode import is_grad_enabled
from ..autograd.packing import is_enabled
from ..dtypes import dtype
from ..random import Generator
from ..tensor import Size, Tensor, device, layout, memory_format

TensorBase = Tensor
_TensorMeta = type(Tensor)
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


def _get_accelerator() -> device:
    """Return the processor: there is no accelerator."""
    return device("cpu")


def _get_default_device() -> str:
    """Return the name of the processor."""
    return "cpu"


def _are_functorch_transforms_active() -> bool:
    """Return whether a function is being traced, or computed with many examples at once."""
    return bool(get_mode().tracing)


def _disabled_torch_function_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Return what a function gives: a class that has this as its `__torch_function__` replaces nothing."""
    return func(*args, **(kwargs or {}))


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Return the device, the dtype, `non_blocking` and the memory format that a `to()` is given."""
    found: dict[str, Any] = {"device": None, "dtype": None, "non_blocking": False, "memory_format": None, **kwargs}
    for given in args:
        if isinstance(given, Tensor):
            found["device"], found["dtype"] = given.device, given.dtype
        elif isinstance(given, bool):
            found["non_blocking"] = given
        elif isinstance(given, (dtype, np.dtype)):
            found["dtype"] = given
        elif given is not None:
            found["device"] = given
    where = found["device"]
    return where if where is None else device(where), found["dtype"], found["non_blocking"], found["memory_format"]


def _setting(name: str, default: Any) -> Any:
    def take(*args: Any) -> Any:
        return default

    take.__name__ = take.__qualname__ = name
    take.__doc__ = f"Take a setting of TorchScript's compiler, and return {default!r}: there is none."
    return take


for _name in ("_jit_set_texpr_fuser_enabled", "_jit_set_profiling_mode", "_jit_set_profiling_executor"):
    globals()[_name] = _setting(_name, False)
for _name in ("_jit_override_can_fuse_on_gpu", "_jit_override_can_fuse_on_cpu", "_jit_set_nvfuser_enabled"):
    globals()[_name] = _setting(_name, False)
_nn = SimpleNamespace(_parse_to=_parse_to)


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


class DispatchKeySet:
    """A set of the layers that PyTorch calls an operator through, of which there is one here."""

    def __init__(self, *keys: Any) -> None:
        self.keys = keys

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys, *other.keys)


class _ExcludeDispatchKeyGuard(contextlib.AbstractContextManager[None]):
    """A block in which layers are left out: without effect."""

    def __init__(self, keys: DispatchKeySet) -> None:
        self.keys = keys

    def __exit__(self, *exc: object) -> None:
        pass


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
