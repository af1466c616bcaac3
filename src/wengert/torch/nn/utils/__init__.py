"""Gradient clipping, parameter vectors, sequences, and what changes modules, under PyTorch's path."""

from __future__ import annotations

from typing import Any

from ....nn.layers.conv import ConvBase
from ...absent import names_of
from ...tensor import lay
from . import parametrizations, parametrize, prune, rnn, stateless
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
from .spectral_norm import remove_spectral_norm, spectral_norm
from .weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a module, whose parameters may have any values: here those that it always starts with."""
    return module_cls(*args, **kwargs)


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Have the weights of convolutions of images in a module lie in a memory format. Returns the module.

    What they give then has that format.
    """
    return _convert(module, memory_format, 4)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Have the weights of convolutions of volumes in a module lie in a memory format. Returns the module."""
    return _convert(module, memory_format, 5)


def _convert(module: Any, format: Any, ndim: int) -> Any:
    for inner in module.modules():
        if isinstance(inner, ConvBase) and inner.weight.ndim == ndim:
            lay(inner.weight, format)
    return module


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
