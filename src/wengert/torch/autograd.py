"""Gradients of eager tensors under PyTorch's path; see :mod:`wengert.autograd`."""

from ..autograd import *
from ..autograd import __all__


def __dir__() -> list[str]:
    return sorted(__all__)
