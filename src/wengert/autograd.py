"""Gradients of eager tensors, under the names that PyTorch users know."""

from .core.mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .transforms.custom import Context, Function
from .transforms.reverse import backward
from .transforms.reverse import gradients as grad

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
