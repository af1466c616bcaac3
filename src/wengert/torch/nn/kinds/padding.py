"""`pad`, whose result lies in memory as PyTorch's does."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ....core.tensor import Tensor
from ....nn import functional as plain
from ...tensor import with_channels_last

__all__ = ["pad"]


@functools.wraps(plain.pad)
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    out = plain.pad(input, pad, mode, value)
    return out if mode == "circular" else with_channels_last(out, input)
