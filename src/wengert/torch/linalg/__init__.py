"""Linear algebra with PyTorch's names and keywords: `torch.linalg`.

Matrices stand in the last two axes. Every function has derivatives of any order where :mod:`wengert.linalg` says so.

>>> import wengert.torch as torch
>>> torch.linalg.eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
tensor([1., 3.])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...linalg import LinAlgError
from ..absent import names_of
from .functions import LINALG

globals().update(LINALG)
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = sorted({"LinAlgError", *LINALG})


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
