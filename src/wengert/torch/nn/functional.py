"""Functions behind the layers with PyTorch's names, parameters and meaning."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_KINDS = (
    "norms",
    "pooling",
    "vision",
    "convolution",
    "transformer",
)

_plain: Any = import_module("wengert.nn.functional")
# What no kind defines means in PyTorch what it does in Wengert.
_FUNCTIONS: dict[str, Any] = {name: getattr(_plain, name) for name in _plain.__all__}
for _kind in _KINDS:
    _module = import_module(f".kinds.{_kind}", __package__)
    _FUNCTIONS.update({name: getattr(_module, name) for name in _module.__all__})
globals().update(_FUNCTIONS)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = sorted(_FUNCTIONS)


def __dir__() -> list[str]:
    return sorted(__all__)
