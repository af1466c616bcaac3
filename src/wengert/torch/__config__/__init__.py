"""`torch.__config__`: how the library was built, which programs print or look for kernels in."""

from __future__ import annotations

import platform

import numpy as np

from ..version import __version__


def show() -> str:
    """Return the versions of what computes."""
    made = f"PyTorch's names {__version__}", f"NumPy {np.__version__}", f"Python {platform.python_version()}"
    return "".join(f"  - {line}\n" for line in made)


def parallel_info() -> str:
    """Return how many threads compute. Nothing of PyTorch's pools is there."""

    return "torch.get_num_threads() tells how many threads compiled functions use\n"


__all__ = ["parallel_info", "show"]


def __dir__() -> list[str]:
    return sorted(__all__)
