"""Neural-network modules under PyTorch's path: `import wengert.torch.nn as nn`; see :mod:`wengert.nn`."""

from ...nn import *
from ...nn import __all__
from . import functional, init, utils  # type: ignore[no-redef]


def __dir__() -> list[str]:
    return sorted(__all__)
