"""Functions behind the layers under PyTorch's path; see :mod:`wengert.nn.functional`."""

from ...nn.functional import *
from ...nn.functional import __all__


def __dir__() -> list[str]:
    return sorted(__all__)
