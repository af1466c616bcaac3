"""`torch.utils`: data loading, checkpointing, TensorBoard."""

from __future__ import annotations

from . import checkpoint, data, tensorboard

__all__ = ["checkpoint", "data", "tensorboard"]
