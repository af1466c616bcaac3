"""`torch.functional`: the path at which PyTorch defines some functions that it has as `torch.einsum` and the like.

>>> import wengert.torch.functional as F
>>> F.atleast_1d(2.0).shape
torch.Size([1])
"""

from __future__ import annotations

import wengert.torch as _torch

_NAMES = (
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "einsum",
    "istft",
    "meshgrid",
    "norm",
    "split",
    "stft",
    "tensordot",
    "unique_consecutive",
    "unravel_index",
)
globals().update({name: getattr(_torch, name) for name in _NAMES})
__all__ = list(_NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
