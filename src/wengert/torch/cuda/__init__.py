"""GPUs, of which there are none: `torch.cuda`. What asks, seeds or frees works; what needs one raises RuntimeError.

>>> import wengert.torch as torch
>>> torch.cuda.is_available(), torch.cuda.device_count()
(False, 0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import GradientError, fail
from ..absent import names_of, recorded
from . import amp

_ASKED: dict[str, Any] = {}


def _always(value: Any, names: str) -> None:
    """Declare functions that give one value, whatever they are asked."""
    for name in names.split():

        def ask(*args: Any, **kwargs: Any) -> Any:
            return value

        ask.__name__ = ask.__qualname__ = name
        shown = "Do nothing: there is no GPU." if value is None else f"Return {value!r}: there is no GPU."
        ask.__doc__ = shown
        _ASKED[name] = ask


_always(False, "is_available is_initialized is_bf16_supported is_tf32_supported is_current_stream_capturing")
_always(
    0,
    "device_count memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached "
    "max_memory_cached",
)
_always(
    None,
    "manual_seed manual_seed_all seed seed_all empty_cache synchronize ipc_collect reset_peak_memory_stats "
    "reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats set_rng_state_all",
)


def asked(module: str) -> dict[str, Any]:
    """Return those of the functions that ask, seed or free which PyTorch has in another device's module too."""
    return {name: _ASKED[name] for name in _ASKED.keys() & recorded(module.rpartition(".")[2]).keys()}


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        fail(
            GradientError,
            f"torch.cuda.{name}: there is no GPU",
            "Tensors live on the processor. Ask torch.cuda.is_available(), which is False.",
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raise a RuntimeError: there is no GPU."
    return refuse


_NAMES: dict[str, Any] = dict(_ASKED)
for _name in (
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "graph",
    "init",
    "initial_seed",
    "list_gpu_processes",
    "make_graphed_callables",
    "mem_get_info",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "memory_usage",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_stream",
    "temperature",
    "utilization",
):
    _NAMES[_name] = _refused(_name)


def get_rng_state_all() -> list[Any]:
    """Return an empty list: there is no GPU."""
    return []


def get_arch_list() -> list[str]:
    """Return an empty list: there is no GPU."""
    return []


class device:
    """A context that chooses a GPU: without effect for None and -1, else it raises RuntimeError when it is entered."""

    def __init__(self, device: Any) -> None:
        self.index = device

    def __enter__(self) -> device:
        if self.index not in (None, -1):
            _NAMES["set_device"](self.index)
        return self

    def __exit__(self, *exc: object) -> None:
        pass


class stream(device):
    """A context that chooses a stream: without effect for None."""


class nvtx:
    """Marks for a profiler of GPUs, without effect."""

    @staticmethod
    def range_push(msg: str) -> int:
        """Do nothing. Returns 0."""
        return 0

    @staticmethod
    def range_pop() -> int:
        """Do nothing. Returns 0."""
        return 0

    @staticmethod
    def mark(msg: str) -> None:
        """Do nothing."""


globals().update(_NAMES)
OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {"__doc__": "An error of a GPU that has no memory left."})

__all__ = sorted({"OutOfMemoryError", "amp", "device", "get_arch_list", "get_rng_state_all", "nvtx", "stream", *_NAMES})


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
