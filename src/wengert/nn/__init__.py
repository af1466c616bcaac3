"""Neural-network modules, with the names and state-dict layouts of PyTorch."""

from __future__ import annotations

from . import init
from .container import ModuleDict, ModuleList, ParameterList, Sequential
from .module import Module
from .parameter import Parameter
from .utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters

__all__ = [
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterList",
    "Sequential",
    "clip_grad_norm_",
    "clip_grad_value_",
    "init",
    "parameters_to_vector",
    "vector_to_parameters",
]
