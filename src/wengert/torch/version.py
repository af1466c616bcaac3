"""The version that programs ask for: PyTorch's whose names are here."""

from __future__ import annotations

from .absent import names_of
from .torch_version import TorchVersion

__version__ = TorchVersion("2.13.0+wengert")
debug = False
cuda = hip = xpu = None
git_version = "Unknown"

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
