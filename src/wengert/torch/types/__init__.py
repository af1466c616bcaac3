"""`torch.types`: names for annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..absent import names_of
from ..tensor import Size, Tensor, device

Number: TypeAlias = bool | int | float
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = Any
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
_bool, _int, _float, _complex = bool, int, float, complex
_dtype: TypeAlias = np.dtype[Any]
_device: TypeAlias = device
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]

__all__ = ["BoolLikeType", "Device", "FileLike", "FloatLikeType", "IntLikeType", "Number"]


__getattr__ = names_of(__name__)
