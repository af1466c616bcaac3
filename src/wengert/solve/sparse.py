"""Sparse matrices with differentiable elements, and systems of them solved directly by SciPy's SuperLU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import index_add, zeros
from ..core.arrays import Array
from ..core.errors import DTypeError, ShapeError, fail
from ..core.spec import category, promote
from ..core.tensor import Tensor, asarray, wrap
from ..ops.linalg.base import LinAlgError
from .common import Solved, default_tolerance
from .implicit import on_values
from .krylov import norm
from .linear_rules import LinearSystem
from .scipy_methods import MissingSciPy


class SparseMatrix:
    """A sparse matrix: a fixed pattern and a tensor of the elements in it, in which it is differentiable.

    Parameters
    ----------
    data: the elements (k,), floating or complex.
    indices, indptr: the pattern in compressed rows, as in `scipy.sparse.csr_matrix`: row i has the columns
        `indices[indptr[i]:indptr[i + 1]]`. Elements at one place add up.
    shape: (rows, columns).

    `A @ x` multiplies a vector (columns,) or a matrix (columns, m). :func:`wengert.solve.linear_solve` takes it.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> a = wg.sparse.SparseMatrix(wg.tensor([2.0, 1.0, 4.0]), [0, 1, 1], [0, 2, 3], (2, 2))
    >>> a.todense()
    tensor([[2., 1.],
            [0., 4.]])
    >>> a @ wg.tensor([1.0, 10.0])
    tensor([12., 40.])
    """

    __slots__ = ("data", "shape", "rows", "columns", "_factors")

    def __init__(self, data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> None:
        starts = _integers(indptr, "indptr")
        if starts.shape != (shape[0] + 1,) or (np.diff(starts) < 0).any():
            fail(ShapeError, f"SparseMatrix: indptr {starts.shape} for {shape[0]} rows", "It has a start for each row.")
        rows = np.repeat(np.arange(shape[0]), np.diff(starts))
        self._set(data, rows, _integers(indices, "indices"), shape, Factors(shape))

    def _set(self, data: Any, rows: Array, columns: Array, shape: tuple[int, int], factors: Factors) -> None:
        self.data = data if isinstance(data, Tensor) else asarray(data)
        self.shape = (int(shape[0]), int(shape[1]))
        if category(self.data.dtype) < 2:
            fail(DTypeError, f"SparseMatrix: data {self.data.spec}", "The elements are floating: x.astype(wg.float64).")
        if not self.data.shape == rows.shape == columns.shape:
            fail(
                ShapeError,
                f"SparseMatrix: data {self.data.shape} at rows {rows.shape} and columns {columns.shape}",
                "There is one row and one column for each element.",
            )
        for name, at, size in (("row", rows, shape[0]), ("column", columns, shape[1])):
            if at.size and not (at.min() >= 0 and at.max() < size):
                fail(ShapeError, f"SparseMatrix: a {name} index outside 0 to {size - 1}")
        self.rows, self.columns, self._factors = rows, columns, factors

    @classmethod
    def from_coo(cls, data: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> SparseMatrix:
        """Return the matrix of elements by row and column, in any order."""
        out = cls.__new__(cls)
        out._set(data, _integers(rows, "rows"), _integers(columns, "columns"), shape, Factors(shape))
        return out

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparseMatrix:
        """Return the matrix of a `scipy.sparse` matrix or array of any format."""
        found = matrix.tocoo()
        return cls.from_coo(found.data, found.row, found.col, found.shape)

    def with_data(self, data: Any) -> SparseMatrix:
        """Return a matrix of other elements in the same pattern."""
        out = type(self).__new__(type(self))
        out._set(data, self.rows, self.columns, self.shape, self._factors)
        return out

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def mT(self) -> SparseMatrix:
        """The transpose."""
        return type(self).from_coo(self.data, self.columns, self.rows, self.shape[::-1])

    T = mT

    def __matmul__(self, x: Any) -> Tensor:
        x = x if isinstance(x, Tensor) else asarray(x)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            fail(
                ShapeError, f"a sparse matrix {self.shape} times {x.spec}", f"It takes ({self.shape[1]},) or a matrix."
            )
        return self.times(x, self.data)

    def times(self, x: Tensor, data: Tensor, adjoint: bool = False) -> Tensor:
        """Return the matrix of these elements, or its conjugate transpose, times a vector or a matrix."""
        rows, columns = (self.columns, self.rows) if adjoint else (self.rows, self.columns)
        if adjoint and data.dtype.kind == "c":
            data = data.conj()
        size = self.shape[1] if adjoint else self.shape[0]
        weights = data if x.ndim == 1 else data[:, None]
        dtype = promote(data.dtype, x.dtype)
        products = (weights * x[columns]).astype(dtype)
        return index_add(zeros((size, *x.shape[1:]), dtype=dtype), 0, rows, products)

    def todense(self) -> Tensor:
        """Return the matrix with its zeros."""
        flat = zeros(self.shape[0] * self.shape[1], dtype=self.data.dtype)
        places = self.rows * self.shape[1] + self.columns
        found: Tensor = index_add(flat, 0, places, self.data).reshape(self.shape)
        return found

    def __repr__(self) -> str:
        return f"SparseMatrix({self.shape[0]}x{self.shape[1]}, {self.data.shape[0]} elements, {self.data.dtype})"

    def system(self, adjoint: bool = False) -> LinearSystem:
        """Return a linear system of this matrix, or its adjoint, solved directly; one factorisation serves both."""

        def apply(x: Tensor, data: Tensor) -> Tensor:
            return self.times(x, data, adjoint)

        def solve(b: Tensor, data: Tensor) -> Solved:
            on_values([b, data], "sparse_solve")
            x = wrap(self._factors.solve(data._array, self.rows, self.columns, b._array, adjoint))
            residual = norm(b - apply(x, data))
            # Backward error: what a direct method can be held to, however badly conditioned the matrix.
            allowed = default_tolerance(b.dtype, 1 / 2) * (norm(data) * norm(x) + norm(b))
            return Solved(x, residual <= allowed, wrap(np.ones((), np.int64)), residual)

        return LinearSystem("sparse_solve", apply, solve, lambda: self.system(not adjoint), traces=False)


def _integers(value: Any, name: str) -> Array:
    found: Array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    if found.dtype.kind not in "iu" and found.size:
        fail(DTypeError, f"SparseMatrix: {name} of dtype {found.dtype}", "Indices are integers.")
    return found.astype(np.int64)


class Factors:
    """The LU factors of the matrix that was last solved with, by the values of its elements."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        # One assignment, so that threads see elements and factors that belong together.
        self._last: tuple[Array, Any] | None = None
        self.made = 0

    def solve(self, data: Array, rows: Array, columns: Array, b: Array, adjoint: bool) -> Array:
        if self.shape[0] == 0:
            return b
        last = self._last
        if last is None or last[0].dtype != data.dtype or not np.array_equal(last[0], data):
            self._last = last = data.copy(), self._made(data, rows, columns)
        return np.ascontiguousarray(last[1].solve(np.asarray(b, order="F"), "H" if adjoint else "N"))

    def _made(self, data: Array, rows: Array, columns: Array) -> Any:
        try:
            import scipy.sparse
            import scipy.sparse.linalg
        except ImportError:
            fail(
                MissingSciPy, "sparse systems are solved by SciPy, which is not installed", "pip install wengert[solve]"
            )
        self.made += 1
        matrix = scipy.sparse.csc_matrix((data, (rows, columns)), shape=self.shape)
        try:
            return scipy.sparse.linalg.splu(matrix)
        except RuntimeError as e:
            fail(LinAlgError, f"sparse_solve: a matrix {self.shape} that is singular: {e}", "It has no inverse.")
