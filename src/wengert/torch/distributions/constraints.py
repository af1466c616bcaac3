"""Constraints under PyTorch's path; see :mod:`wengert.distributions.constraints`."""

from ...distributions.constraints import *
from ...distributions.constraints import __all__
from ..absent import names_of


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
