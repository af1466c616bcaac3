"""Gradients of eager tensors, under the names that PyTorch users know."""

from .core.mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .transforms.backward import backward
from .transforms.backward import gradients as grad
from .transforms.custom import Context, Function

__all__ = [
    "Context",
    "Function",
    "backward",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]
