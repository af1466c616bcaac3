"""Gradient clipping and parameter vectors under PyTorch's path; see :mod:`wengert.nn.utils`."""

from ...nn.utils import *
from ...nn.utils import __all__


def __dir__() -> list[str]:
    return sorted(__all__)
