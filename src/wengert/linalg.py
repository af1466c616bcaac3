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

from .ops.contract.einsum import kron, tensordot
from .ops.contract.products import matmul, vecdot
from .ops.linalg.base import LinAlgError
from .ops.linalg.determinants import SlogdetResult, det, logdet, slogdet
from .ops.linalg.factor import QRResult, cholesky, qr
from .ops.linalg.functions import expm, matrix_power
from .ops.linalg.norms import (
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
from .ops.linalg.solve import cho_solve, inv, pinv, solve, solve_triangular
from .ops.linalg.spectral import EighResult, EigResult, SVDResult, eig, eigh, eigvals, eigvalsh, svd, svdvals
from .ops.reduce.norms import vector_norm
from .ops.structure.axes import matrix_transpose

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


def __dir__() -> list[str]:
    return sorted(__all__)
