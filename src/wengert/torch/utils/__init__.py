"""`torch.utils`: data loading, checkpointing, TensorBoard."""

from __future__ import annotations

from ..absent import names_of
from . import checkpoint, cpp_extension, data, dlpack, hooks, model_zoo, tensorboard

__all__ = ["checkpoint", "cpp_extension", "data", "dlpack", "hooks", "model_zoo", "tensorboard"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
