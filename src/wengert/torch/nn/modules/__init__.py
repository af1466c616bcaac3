"""The layers under the paths that programs sometimes import them from; see :mod:`wengert.torch.nn`."""

import sys
from types import ModuleType
from typing import Any

from ....nn.layers.attention import NonDynamicallyQuantizableLinear, activation_of
from ....nn.layers.conv import ConvBase
from ....nn.layers.loss import Loss, WeightedLoss
from ....nn.layers.norm import BatchNorm, InstanceNorm, NormBase
from ...absent import names_of
from .. import *
from .. import __all__
from ..layers.lazy import LazyModuleMixin
from ..module import counterpart
from . import module
from .utils import consume_prefix_in_state_dict_if_present  # which binds `utils` to the module of this package

# The paths of PyTorch's modules, each with the bases that are asked for by `isinstance` under PyTorch's names.
_PATHS: dict[str, dict[str, Any]] = {
    "activation": {},
    "batchnorm": {"_NormBase": counterpart(NormBase), "_BatchNorm": counterpart(BatchNorm)},
    "container": {},
    "conv": {"_ConvNd": counterpart(ConvBase)},
    "distance": {},
    "dropout": {},
    "flatten": {},
    "instancenorm": {"_InstanceNorm": counterpart(InstanceNorm)},
    "fold": {},
    "lazy": {"LazyModuleMixin": LazyModuleMixin},
    "linear": {"NonDynamicallyQuantizableLinear": counterpart(NonDynamicallyQuantizableLinear)},
    "loss": {"_Loss": counterpart(Loss), "_WeightedLoss": counterpart(WeightedLoss)},
    "normalization": {},
    "padding": {},
    "pixelshuffle": {},
    "pooling": {},
    "rnn": {},
    "sparse": {},
    "transformer": {"_get_activation_fn": activation_of},
    "upsampling": {},
}

# Every path has all layers: a program imports by name, and each name is one class.
for _name, _bases in _PATHS.items():
    _made = ModuleType(f"{__name__}.{_name}", f"Layers under PyTorch's inner path {_name}.")
    _made.__dict__.update({name: globals()[name] for name in __all__}, **_bases, __getattr__=names_of(_made.__name__))
    sys.modules[_made.__name__] = globals()[_name] = _made
    for _base in _bases.values():
        if _bases.get(_base.__name__) is _base:  # where pickle finds it
            _base.__module__ = _made.__name__
