"""Initial values of parameters under PyTorch's path; see :mod:`wengert.nn.init`."""

from ...nn.init import *
from ...nn.init import __all__


def __dir__() -> list[str]:
    return sorted(__all__)
