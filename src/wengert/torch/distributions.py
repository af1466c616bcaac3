"""Probability distributions under PyTorch's path; see :mod:`wengert.distributions`."""

from ..distributions import *
from ..distributions import __all__


def __dir__() -> list[str]:
    return sorted(__all__)
