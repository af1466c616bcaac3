"""Gradients and tangents of eager tensors, under the names that PyTorch users know."""

from .core.mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .transforms.custom.function import Context, Function
from .transforms.derivatives.backward import backward
from .transforms.derivatives.backward import gradients as grad
from .transforms.derivatives.tangents import UnpackedDual, dual_level, make_dual, unpack_dual

__all__ = [
    "Context",
    "Function",
    "UnpackedDual",
    "backward",
    "dual_level",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "make_dual",
    "no_grad",
    "set_grad_enabled",
    "unpack_dual",
]


def __dir__() -> list[str]:
    return sorted(__all__)
