"""Constraints under PyTorch's path; see :mod:`wengert.distributions.constraints`."""

from ...distributions.constraints import *
from ...distributions.constraints import __all__


def __dir__() -> list[str]:
    return sorted(__all__)
