"""Sparse derivatives and matrices: `wg.sparse`.

Patterns are read off a function's graph; derivatives are computed compressed by colouring, and come as SciPy's sparse
arrays. A :class:`SparseMatrix` is a pattern with a tensor of elements in it, for :func:`wengert.solve.linear_solve`.

>>> import wengert as wg
>>> differences = wg.sparse.jacobian(lambda x: x[1:] - x[:-1])
>>> differences(wg.tensor([1.0, 2.0, 4.0])).toarray()
array([[-1.,  1.,  0.],
       [ 0., -1.,  1.]], dtype=float32)
"""

from __future__ import annotations

from .solve.sparse import SparseMatrix
from .transforms.jacobians.sparse import hessian, jacobian
from .transforms.jacobians.sparsity import hessian_sparsity, jacobian_sparsity

__all__ = ["SparseMatrix", "hessian", "hessian_sparsity", "jacobian", "jacobian_sparsity"]


def __dir__() -> list[str]:
    return sorted(__all__)
