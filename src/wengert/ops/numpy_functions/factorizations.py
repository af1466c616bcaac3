"""NumPy's factorizations of matrices whose keywords choose what is returned."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..structure.shapes import as_operand
from .register import Unlike, own, xp


@own(np.linalg.svd)
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    if hermitian:
        raise Unlike("hermitian=")
    x = as_operand(a)
    return xp.linalg.svd(x, full_matrices=full_matrices) if compute_uv else xp.linalg.svdvals(x)


@own(np.linalg.qr)
def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return xp.linalg.qr(as_operand(a)).R
    if mode == "raw":
        raise Unlike("mode='raw'")
    return xp.linalg.qr(as_operand(a), mode=mode)
