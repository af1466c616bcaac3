"""The layers under the paths that programs sometimes import them from; see :mod:`wengert.torch.nn`."""

import sys
from types import ModuleType
from typing import Any

from ....nn.layers.loss import Loss, WeightedLoss
from ...absent import names_of
from .. import *
from .. import __all__
from ..layers.convolution import ConvBase
from ..layers.lazy import LazyModuleMixin
from ..layers.norm import BatchNorm, InstanceNorm, NormBase
from ..layers.transformer import NonDynamicallyQuantizableLinear, activation_of
from ..module import counterpart
from . import module
from .utils import consume_prefix_in_state_dict_if_present  # which binds `utils` to the module of this package

# The paths of PyTorch's modules, each with the bases that are asked for by `isinstance` under PyTorch's names.
_PATHS: dict[str, dict[str, Any]] = {
    "activation": {},
    "batchnorm": {"_NormBase": NormBase, "_BatchNorm": BatchNorm},
    "container": {},
    "conv": {"_ConvNd": ConvBase},
    "distance": {},
    "dropout": {},
    "flatten": {},
    "instancenorm": {"_InstanceNorm": InstanceNorm},
    "fold": {},
    "lazy": {"LazyModuleMixin": LazyModuleMixin},
    "linear": {"NonDynamicallyQuantizableLinear": NonDynamicallyQuantizableLinear},
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
