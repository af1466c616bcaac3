"""Neural-network modules with PyTorch's names and methods: `import wengert.torch.nn as nn`; see :mod:`wengert.nn`."""

from __future__ import annotations

from typing import Any

from ... import nn as _plain
from . import functional, init, utils
from .module import Module, layer
from .parameter import Parameter

_LAYERS: dict[str, Any] = {
    name: layer(value)
    for name, value in vars(_plain).items()
    if isinstance(value, type) and issubclass(value, _plain.Module) and value is not _plain.Module
}
globals().update(_LAYERS)

__all__ = sorted({"Module", "Parameter", "functional", "init", "utils", *_LAYERS})


def __dir__() -> list[str]:
    return sorted(__all__)
