"""Linear algebra at the top level: PyTorch's older names of what :mod:`wengert.torch.linalg` has."""

from __future__ import annotations

from typing import Any

import wengert as wg

from ...core.errors import GradientError, ShapeError, fail
from ...core.spec import show
from ...ops.linalg.base import adjoint
from ...ops.linalg.lu import geqrf as packed_qr
from .. import return_types
from ..linalg import functions as linalg
from ..namespace import as_torch, function
from ..tensor import Tensor
from .shaping import own


@function(out=True, autocast="float32")
def trace(input: Any) -> Tensor:
    """Return the sum of a matrix' diagonal. Raises ShapeError for other than two dimensions."""
    if input.ndim != 2:
        fail(ShapeError, f"trace of {show(input.shape, input.dtype)}", "Give a matrix.")
    return wg.trace(input, dtype=wg.int64 if input.dtype.kind in "biu" else None)  # type: ignore[return-value]


@function()
def det(input: Any) -> Tensor:
    """Return the determinants of square matrices."""
    return linalg.det(input)  # type: ignore[no-any-return]


@function()
def logdet(input: Any) -> Tensor:
    """Return the logarithms of determinants: NaN of negative ones, -inf of 0."""
    sign, log = linalg.slogdet(input)
    return wg.where(sign < 0, wg.nan, log) if not input.is_complex() else log + wg.log(sign)  # type: ignore[return-value]


@function(out=True)
def slogdet(input: Any) -> Any:
    """Return the signs of determinants and the logarithms of their magnitudes."""
    return return_types.slogdet(*linalg.slogdet(input))


@function(out=True, autocast="float32")
def inverse(input: Any) -> Tensor:
    """Return the inverses of square matrices. Raises LinAlgError for a singular one."""
    return linalg.inv(input)  # type: ignore[no-any-return]


@function(autocast="float32")
def pinverse(input: Any, rcond: Any = 1e-15) -> Tensor:
    """Return the Moore-Penrose inverses; singular values up to `rcond` times the largest count as 0."""
    return linalg.pinv(input, rtol=rcond)  # type: ignore[no-any-return]


@function(out=True)
def matrix_power(input: Any, n: int) -> Tensor:
    """Return square matrices to an integer power; a negative one is of the inverse."""
    return linalg.matrix_power(input, n)  # type: ignore[no-any-return]


@function()
def matrix_exp(input: Any) -> Tensor:
    """Return the exponentials of square matrices."""
    return linalg.matrix_exp(input)  # type: ignore[no-any-return]


@function(out=True, autocast="float32")
def cholesky(input: Any, upper: bool = False) -> Tensor:
    """Return the triangular factors of positive definite matrices. Raises LinAlgError where one is not."""
    return linalg.cholesky(input, upper=upper)  # type: ignore[no-any-return]


@function(out=True, autocast="float32")
def cholesky_solve(input: Any, L: Any, upper: bool = False) -> Tensor:
    """Return the solution x of a x = input from the Cholesky factor of a."""
    return wg.linalg.cho_solve(L, input, upper=upper)  # type: ignore[return-value]


@function(out=True, autocast="float32")
def cholesky_inverse(input: Any, upper: bool = False) -> Tensor:
    """Return the inverse of a matrix from its Cholesky factor."""
    eye = wg.eye(input.shape[-1], dtype=input.dtype)
    factor = wg.triu(input) if upper else wg.tril(input)
    return as_torch(wg.linalg.cho_solve(factor, eye, upper=upper))  # type: ignore[no-any-return]


@function(out=True, autocast="float32")
def qr(input: Any, some: bool = True) -> Any:
    """Return matrices as Q R; with `some=False` Q is square."""
    return return_types.qr(*linalg.qr(input, "reduced" if some else "complete"))


@function(out=True, autocast="float32")
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """Return matrices as U diag(S) V^H: V itself, not its adjoint.

    With `some=False` U and V are square; with `compute_uv=False` they are zeros.
    """
    if not compute_uv:
        m, n = input.shape[-2:]
        lead = tuple(input.shape[:-2])
        zeros = (as_torch(wg.zeros((*lead, k, k), dtype=input.dtype)) for k in (m, n))
        left, right = zeros
        return return_types.svd(left, linalg.svdvals(input), right)
    u, s, vh = linalg.svd(input, full_matrices=not some)
    return return_types.svd(u, s, adjoint(vh))


@function(method=False)
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `q` largest singular values of a matrix with their vectors, by products with random vectors.

    Exact for matrices of rank q or less; the others get nearer with `niter`. `M` is subtracted from `A`.
    """
    x = A if M is None else A - M
    q, m, n = 6 if q is None else q, x.shape[-2], x.shape[-1]
    tall = x if m >= n else adjoint(x)
    basis = linalg.qr(tall @ wg.randn((*tall.shape[:-2], tall.shape[-1], q), dtype=x.dtype)).Q
    for _ in range(2 if niter is None else niter):
        basis = linalg.qr(tall @ linalg.qr(adjoint(tall) @ basis).Q).Q
    u, s, vh = linalg.svd(adjoint(basis) @ tall, full_matrices=False)
    left, right = basis @ u, adjoint(vh)
    return (left, s, right) if m >= n else (right, s, left)


@function(method=False)
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return the principal components of a matrix' rows, less their mean where `center`; see :func:`svd_lowrank`."""
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


@function(out=True)
def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """Return both triangular factors in one and the exchanges of rows; with `get_infos` where a pivot is 0."""
    found = linalg.lu_factor_ex(A, pivot=pivot)
    return tuple(found) if get_infos else return_types.linalg_lu_factor(*found[:2])


@function(out=True, autocast="float32")
def lu_solve(input: Any, LU_data: Any, LU_pivots: Any) -> Tensor:
    """Return the solution x of a x = input from the LU factors of a."""
    return linalg.lu_solve(LU_data, LU_pivots, input)  # type: ignore[no-any-return]


@function(method=False, out=True)
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """Return the permutation and both triangular factors from what :func:`lu` gave; those not asked for are empty."""
    lower, upper = linalg.triangles(LU_data)
    empty = as_torch(wg.zeros(0, dtype=LU_data.dtype))
    rows = linalg.permutation(LU_pivots, LU_data) if unpack_pivots else empty
    return return_types.lu_unpack(rows, lower, upper) if unpack_data else return_types.lu_unpack(rows, empty, empty)


@function(out=True, autocast="float32")
def triangular_solve(
    input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """Return the solution x of a x = input for a triangular a, or of its transpose; and a."""
    factor = A.mT if transpose else A
    found = wg.linalg.solve_triangular(factor, input, upper=upper != transpose, unitriangular=unitriangular)
    return return_types.triangular_solve(as_torch(found), A.clone())


@function(out=True, autocast="float32")
def geqrf(input: Any) -> Any:
    """Return the upper factor of Q R with the vectors of reflections below it, and their scales.

    It has no derivative: raises GradientError where one is asked for. :func:`qr` has.
    """
    if input.requires_grad:
        fail(GradientError, "geqrf of a tensor that requires gradients", "torch.linalg.qr has a derivative.")
    return return_types.geqrf(*as_torch(packed_qr(input)))


@function(out=True, autocast="float32")
def orgqr(input: Any, tau: Any) -> Tensor:
    """Return the columns of Q from what :func:`geqrf` gave."""
    return linalg.householder_product(input, tau)  # type: ignore[no-any-return]


@function(out=True, autocast="float32")
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Tensor:
    """Return Q other, or other Q, for all of the square Q of what :func:`geqrf` gave; or for its adjoint."""
    m = input.shape[-2]
    columns = input[..., : min(m, tau.shape[-1])]
    rest = wg.zeros((*input.shape[:-1], m - columns.shape[-1]), dtype=input.dtype)
    square = wg.concat([columns, rest], axis=-1)
    q = linalg.householder_product(square, tau)
    q = adjoint(q) if transpose else q
    return q @ other if left else other @ q  # type: ignore[no-any-return]


@function(method=False)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the matrix of powers of a vector's elements: N of them (as many as there are elements), falling."""
    found = linalg.powers(x, len(x) if N is None else N)
    return found if increasing else own(wg.flip(found, axis=-1))
