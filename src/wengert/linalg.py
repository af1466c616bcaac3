"""Linear algebra: `wg.linalg`, the Array API's extension and more, over stacks of matrices, differentiable.

Functions act on the matrices in the last two axes. Each says where its derivative does not exist.

>>> import wengert as wg
>>> a = wg.tensor([[2.0, 0.0], [0.0, 4.0]], requires_grad=True)
>>> wg.linalg.det(a).backward()
>>> a.grad
tensor([[4., 0.],
        [0., 2.]])
"""

from __future__ import annotations

from .ops.axes import matrix_transpose
from .ops.contract import matmul, vecdot
from .ops.einsum import kron, tensordot
from .ops.linalg_base import LinAlgError
from .ops.linalg_factor import QRResult, cholesky, qr
from .ops.linalg_functions import SlogdetResult, det, expm, logdet, matrix_power, slogdet
from .ops.linalg_norms import (
    LstsqResult,
    cond,
    cross,
    diagonal,
    lstsq,
    matrix_norm,
    matrix_rank,
    multi_dot,
    norm,
    outer,
    trace,
)
from .ops.linalg_solve import cho_solve, inv, pinv, solve, solve_triangular
from .ops.linalg_spectral import EighResult, EigResult, SVDResult, eig, eigh, eigvals, eigvalsh, svd, svdvals
from .ops.norms import vector_norm

matrix_exp = expm

__all__ = [
    "EigResult",
    "EighResult",
    "LinAlgError",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cho_solve",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "kron",
    "logdet",
    "lstsq",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
