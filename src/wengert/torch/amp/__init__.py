"""Mixed precision under PyTorch's path: `torch.amp`, on the processor. For GPUs it is off, as PyTorch's without one.

>>> import wengert.torch as torch
>>> with torch.amp.autocast("cpu"):
...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
torch.bfloat16
"""

from __future__ import annotations

from ..absent import names_of
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
