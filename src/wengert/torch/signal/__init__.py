"""Signal processing under PyTorch's path: `torch.signal.windows`."""

from . import windows

__all__ = ["windows"]


def __dir__() -> list[str]:
    return sorted(__all__)
