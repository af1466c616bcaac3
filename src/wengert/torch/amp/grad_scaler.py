"""The scaling of losses under PyTorch's names."""

from __future__ import annotations

import warnings
from typing import Any

from ...optim import grad_scaler as plain
from ..absent import names_of


class GradScaler(plain.GradScaler):
    """A scale of the loss, for gradients in float16; see :class:`wengert.train.GradScaler`.

    Parameters
    ----------
    device: "cpu". For "cuda" it warns and is off, as PyTorch's without a GPU.

    The others are those of :class:`wengert.train.GradScaler`.

    >>> import wengert.torch as torch
    >>> torch.amp.GradScaler("cpu", init_scale=8.0).scale(torch.ones(()))
    tensor(8.)
    """

    def __init__(
        self,
        device: Any = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and not str(device).startswith("cpu"):
            warnings.warn("GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        super().__init__(init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__getattr__ = names_of(__name__)
