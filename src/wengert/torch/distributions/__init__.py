"""Probability distributions under PyTorch's path, with PyTorch's conventions; see :mod:`wengert.distributions`.

>>> import wengert.torch as torch
>>> from wengert.torch.distributions import Categorical
>>> p = Categorical(logits=torch.zeros(4))
>>> p.log_prob(p.sample()), p.entropy()
(tensor(-1.3863), tensor(1.3863))
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from . import constraint_registry, constraints, distribution, families, kl, transforms, utils
from .constraint_registry import biject_to, transform_to
from .distribution import Distribution
from .families import PLACES
from .kl import kl_divergence, register_kl

globals().update({name: getattr(families, name) for name in families.__all__})
globals().update({name: getattr(transforms, name) for name in transforms.__all__})


def _module(name: str, names: tuple[str, ...]) -> ModuleType:
    """Return the module in which PyTorch has a distribution: `torch.distributions.normal`."""
    path = f"{__name__}.{name}"
    made = ModuleType(path, f"`{', '.join(names)}` under PyTorch's path.")
    made.__spec__ = ModuleSpec(path, None)
    made.__dict__.update({n: getattr(families, n) for n in names}, __all__=list(names))
    sys.modules[path] = made
    return made


globals().update({name: _module(name, names) for name, names in PLACES.items()})

__all__ = sorted(
    {"Distribution", "biject_to", "constraints", "kl", "kl_divergence", "register_kl", "transform_to", "transforms"}
    | set(families.__all__)
    | set(transforms.__all__)
)


def __dir__() -> list[str]:
    return sorted(__all__)
