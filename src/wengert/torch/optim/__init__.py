"""Optimisers under PyTorch's path: `import wengert.torch.optim as optim`; see :mod:`wengert.optim`."""

from ...optim import *
from ...optim import __all__
from . import lr_scheduler  # type: ignore[no-redef]


def __dir__() -> list[str]:
    return sorted(__all__)
