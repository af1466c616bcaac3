"""Neural-network modules with PyTorch's names and methods: `import wengert.torch.nn as nn`; see :mod:`wengert.nn`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ... import nn as _plain
from ..absent import names_of, recorded
from . import functional, init, utils
from .module import COUNTERPARTS, Module, counterpart
from .parameter import Buffer, Parameter

_KINDS = (
    "container",
    "lazy",
)

_LAYERS: dict[str, Any] = {}
for _kind in _KINDS:
    _module = import_module(f".layers.{_kind}", __package__)
    _LAYERS.update({name: getattr(_module, name) for name in _module.__all__})
for _name in dir(_plain):
    _value = getattr(_plain, _name)
    if isinstance(_value, type) and issubclass(_value, _plain.Module) and _value is not _plain.Module:
        if _name not in _LAYERS:
            _LAYERS[_name] = counterpart(_value)
        elif _value not in COUNTERPARTS:
            COUNTERPARTS[_value] = _LAYERS[_name]
# Names that PyTorch has elsewhere, or that are Wengert's alone, are not among the layers.
_LAYERS = {name: _LAYERS[name] for name in _LAYERS.keys() & recorded("nn").keys()}
globals().update(_LAYERS)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = sorted(
    {"Buffer", "Module", "Parameter", "attention", "functional", "grad", "init", "parallel", "utils", *_LAYERS}
)


def __dir__() -> list[str]:
    return sorted(__all__)


# The paths inside have what stands above.
import_module(".modules", __package__)
import_module(".parallel", __package__)
import_module(".attention", __package__)
functional.grad = import_module(".grad", __package__)


__getattr__ = names_of(__name__)
