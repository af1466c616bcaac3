"""Gradients of eager tensors with PyTorch's names and keywords: `torch.autograd`.

>>> import wengert.torch as torch
>>> x = torch.tensor(3.0, requires_grad=True)
>>> torch.autograd.grad(x * x, x)
(tensor(6.),)
"""

from __future__ import annotations

from ..absent import names_of
from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph, profiler, variable
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import gradcheck, gradgradcheck  # which hides the module of that name, as in PyTorch
from .gradients import backward, grad
from .variable import Variable

__all__ = [
    "Function",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
