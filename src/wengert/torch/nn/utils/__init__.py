"""Gradient clipping, parameter vectors, and what changes modules, under PyTorch's path; see :mod:`wengert.nn.utils`."""

from ....nn.utils import *
from ....nn.utils import __all__ as _plain
from . import rnn

__all__ = [*_plain, "rnn"]


def __dir__() -> list[str]:
    return sorted(__all__)
