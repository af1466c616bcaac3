"""Learning-rate schedules under PyTorch's path; see :mod:`wengert.optim.lr_scheduler`."""

from ...optim.lr_scheduler import *
from ...optim.lr_scheduler import __all__


def __dir__() -> list[str]:
    return sorted(__all__)
