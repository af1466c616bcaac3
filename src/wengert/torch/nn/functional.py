"""Functions behind the layers: those of :mod:`wengert.nn.functional`, of which two take other keywords here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..namespace import function

_plain: Any = import_module("wengert.nn.functional")
_FUNCTIONS: dict[str, Any] = {name: getattr(_plain, name) for name in _plain.__all__}


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Return vectors of 0 with a 1 at the place of each class; see :func:`wengert.nn.functional.one_hot`."""
    return _plain.one_hot(tensor, num_classes)


_FUNCTIONS["one_hot"] = one_hot
_FUNCTIONS["normalize"] = function(method=False, top=False, out=True)(_plain.normalize)
globals().update(_FUNCTIONS)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = sorted(_FUNCTIONS)


def __dir__() -> list[str]:
    return sorted(__all__)
