"""Optimisers with PyTorch's parameters, state and hooks: `import wengert.torch.optim as optim`."""

import sys as _sys
from types import ModuleType as _ModuleType

from ..absent import names_of
from . import lr_scheduler, swa_utils
from .optimizer import Optimizer
from .rules import (
    ASGD,
    LBFGS,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Muon,
    NAdam,
    RAdam,
    RMSprop,
    Rprop,
    SparseAdam,
)

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]

# PyTorch has a module for each optimiser: `from torch.optim.adamw import AdamW`.
for _rule in (Adadelta, Adagrad, Adam, Adamax, AdamW, ASGD, LBFGS, NAdam, RAdam, RMSprop, Rprop, SGD):
    _module = _ModuleType(f"{__name__}.{_rule.__name__.lower()}", f"The optimiser {_rule.__name__}.")
    _module.__dict__.update({_rule.__name__: _rule, "__getattr__": names_of(_module.__name__)})
    globals()[_rule.__name__.lower()] = _sys.modules[_module.__name__] = _module


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
