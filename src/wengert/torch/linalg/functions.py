"""The functions of `torch.linalg`, with PyTorch's parameters and results."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import GradientError, GraphError, ShapeError, fail
from ...core.spec import show
from ...core.tensor import Tensor as Plain
from ...core.tensor import asarray
from ...linalg import LinAlgError
from ...ops.linalg.base import adjoint as _adjoint
from ...ops.linalg.lu import lu as packed_lu
from ...ops.linalg.lu import pivoted_rows
from .. import return_types
from ..namespace import as_torch, function, tensor_of
from ..tensor import Tensor, contiguous_format, dtype_of, formatted

LINALG: dict[str, Callable[..., Any]] = {}


def _listed(fn: Any, autocast: Any = None) -> Any:
    """Declare a function of this module, which takes `out=`."""
    made = function(method=False, top=False, out=True, autocast=autocast)(fn)
    LINALG[fn.__name__] = made
    return made


_wide = functools.partial(_listed, autocast="float32")
_narrow = functools.partial(_listed, autocast="lower")


def _by_triangle(x: Any, upper: bool) -> Any:
    """Return Hermitian matrices by one triangle of `x`, with the gradient of its Hermitian part.

    LAPACK reads one triangle. The gradient is that of PyTorch: a symmetric one. Where `x` is Hermitian nothing changes.
    """
    if not (isinstance(x, Plain) and x.ndim > 1):
        return x
    half = (wg.triu(x, 1) if upper else wg.tril(x, -1)).detach()
    diagonal = (wg.tril(wg.triu(x)) if not x.is_complex() else wg.tril(wg.triu(x.real)) + 0j).detach()
    part = (x + _adjoint(x)) * 0.5
    return part + (half + _adjoint(half) + diagonal - part.detach())


def _empty(like: Any) -> Tensor:
    return as_torch(wg.zeros(0, dtype=like.dtype))  # type: ignore[no-any-return]


def _whole(x: Any) -> Any:
    """Return a tensor of integers of PyTorch's int32, as its `info`."""
    return x.astype(wg.int32)


# -- products, norms and numbers of a matrix


@_narrow
def matmul(input: Any, other: Any) -> Tensor:
    """Return the product of matrices, of vectors, or of stacks of matrices."""
    return wg.matmul(input, other)  # type: ignore[return-value]


@_listed
def multi_dot(tensors: Sequence[Any]) -> Tensor:
    """Return the product of two or more matrices, multiplied in the order that costs least."""
    return as_torch(wg.linalg.multi_dot(list(tensors)))  # type: ignore[no-any-return]


@_narrow
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Tensor:
    """Return the sums of products along an axis, those of `x` conjugated; the other axes broadcast."""
    return (wg.conj(x) * y if x.is_complex() else x * y).sum(dim)  # type: ignore[no-any-return]


@_listed
def cross(input: Any, other: Any, *, dim: int = -1) -> Tensor:
    """Return the cross products of vectors of three along an axis; the other axes broadcast."""
    return wg.linalg.cross(input, other, axis=dim)  # type: ignore[return-value]


@_listed
def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return a diagonal of matrices in two axes, as the last axis."""
    return wg.diagonal(A, offset, dim1, dim2)  # type: ignore[return-value]


@_listed
def det(A: Any) -> Tensor:
    """Return the determinants of square matrices."""
    return wg.linalg.det(A)  # type: ignore[return-value]


@_listed
def slogdet(A: Any) -> Any:
    """Return the signs of determinants and the logarithms of their magnitudes."""
    return return_types.linalg_slogdet(*wg.linalg.slogdet(A))


@_listed
def matrix_power(A: Any, n: int) -> Tensor:
    """Return square matrices to an integer power; a negative one is of the inverse."""
    out: Tensor = as_torch(wg.linalg.matrix_power(A, int(n)))
    return formatted(out.clone(), contiguous_format) if out is A else out


@_listed
def matrix_exp(A: Any) -> Tensor:
    """Return the exponentials of square matrices."""
    return wg.linalg.expm(A)  # type: ignore[return-value]


def _in(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dtype_of(dtype))


@_listed
def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the norm of order `ord` over axes; without `dim` of all elements.

    The order 0 counts what is not 0; `inf` and `-inf` take the largest and the smallest magnitude. `dtype` is that of
    the computation.
    """
    x = _in(x, dtype)
    axes = None if dim is None or dim == () or not x.ndim else tuple(dim) if isinstance(dim, (list, tuple)) else dim
    out = wg.linalg.vector_norm(x, axis=axes, ord=ord, keepdims=keepdim)
    return _with_zero_gradient(out, x, axes, keepdim) if ord == 0 else out  # type: ignore[return-value]


def _with_zero_gradient(count: Any, x: Any, axes: Any, keepdim: bool) -> Any:
    """Return a count that a loss can be of: its gradient is 0, as PyTorch has it."""
    if not x.requires_grad or count.requires_grad:
        return count
    return wg.where(wg.asarray(False), wg.abs(x).sum(axis=axes, keepdims=keepdim), count)


@_listed
def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the norms of matrices in two axes: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    return wg.linalg.norm(_in(A, dtype), ord, axis=tuple(dim), keepdims=keepdim)  # type: ignore[return-value]


@_listed
def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return a norm of vectors or of matrices, by how many axes `dim` names.

    Without `ord` it is the root of the sum of squares over any axes.
    """
    axes = dim if dim is None or isinstance(dim, int) else tuple(dim)
    if ord is None or (dim is None and A.ndim == 1) or isinstance(axes, int) or (axes is not None and len(axes) == 1):
        return vector_norm(A, 2 if ord is None else ord, axes, keepdim, dtype=dtype)  # type: ignore[no-any-return]
    if axes is None:
        if A.ndim != 2:
            fail(ShapeError, f"norm of {show(A.shape, A.dtype)}, ord={ord!r}", "Say which axes: one or two.")
        axes = (-2, -1)
    return matrix_norm(A, ord, axes, keepdim, dtype=dtype)  # type: ignore[no-any-return]


@_wide
def cond(A: Any, p: Any = None) -> Tensor:
    """Return the condition number of each matrix: its norm times that of its inverse. inf for a singular one."""
    return wg.linalg.cond(A, p)  # type: ignore[return-value]


@_listed
def vander(x: Any, *, N: int | None = None) -> Tensor:
    """Return the matrices of powers 0 to N - 1 of vectors' elements; N is their number where it is left out."""
    if N is not None and N < 1:
        fail(ShapeError, f"vander of {show(x.shape, x.dtype)}, N={N}")
    x = x if x.ndim else x[None]
    return powers(x, x.shape[-1] if N is None else N)


def powers(x: Any, count: int) -> Tensor:
    """Return the powers 0 to count - 1 of elements, along a new last axis."""
    x = x.astype(wg.int64) if x.dtype.kind in "biu" else x
    if count <= 0:
        return x[..., None][..., :0]  # type: ignore[no-any-return]
    columns = [wg.ones_like(x)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    return wg.stack(columns, axis=-1)  # type: ignore[return-value]


# -- triangular factors


def _failing(x: Any, first: Callable[[Any], int]) -> tuple[Any, Any]:
    """Return the number that `first` gives of each matrix, 0 where it is sound, and `x` with the identity elsewhere."""
    value = np.asarray(x.detach().numpy())
    found = np.zeros(value.shape[:-2], np.int32)
    for at in np.ndindex(found.shape):
        found[at] = first(value[at])
    info = tensor_of(asarray(found))
    good = (info == 0)[..., None, None]
    return info, wg.where(good, x, wg.eye(x.shape[-1], dtype=x.dtype))


def _no_minor(x: Any) -> int:
    """Return which leading minor is the first that is not positive, counted from 1; 0 where all are."""
    n = len(x)
    for k in range(1, n + 1):
        try:
            np.linalg.cholesky(x[:k, :k])
        except np.linalg.LinAlgError:
            return k
    return 0


def _no_pivot(x: Any) -> int:
    """Return which pivot is the first that is 0, counted from 1; 0 where none is."""
    zeros = np.flatnonzero(np.diagonal(packed_lu(asarray(x)).LU.numpy()) == 0)
    return int(zeros[0]) + 1 if len(zeros) else 0


def _raise_for(info: Any, what: str) -> None:
    if not info.is_abstract and bool((info != 0).any()):
        place = int(np.flatnonzero(info.numpy().ravel())[0])
        number = int(info.numpy().ravel()[place])
        fail(LinAlgError, f"{what} (number {number}, matrix {place} of the stack)")


@_wide
def cholesky(A: Any, *, upper: bool = False) -> Tensor:
    """Return the triangular factors L of positive definite matrices, L L^H = A; with `upper` L^H.

    The triangle that `upper` names is read. Raises LinAlgError where a matrix is not positive definite.
    """
    return wg.linalg.cholesky(_by_triangle(A, upper), upper=upper)  # type: ignore[return-value]


@_wide
def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """Return the triangular factors, and for each matrix 0 or the number of the minor that is not positive.

    The factor of a matrix that is not positive definite is NaN. In a trace such a matrix raises LinAlgError when it
    is met.
    """
    sound = _by_triangle(A, upper)
    if A.is_abstract:
        found = wg.linalg.cholesky(sound, upper=upper)
        return return_types.linalg_cholesky_ex(found, as_torch(wg.zeros(A.shape[:-2], dtype=wg.int32)))
    try:
        made = wg.linalg.cholesky(sound, upper=upper)
    except LinAlgError:
        info, sound = _failing(sound, _no_minor)
        if check_errors:
            _raise_for(info, "cholesky_ex: a leading minor is not positive")
        made = wg.linalg.cholesky(sound, upper=upper)
        made = wg.where((info == 0)[..., None, None], made, wg.nan)
        return return_types.linalg_cholesky_ex(made, info)
    return return_types.linalg_cholesky_ex(made, as_torch(wg.zeros(A.shape[:-2], dtype=wg.int32)))


@_wide
def qr(A: Any, mode: str = "reduced") -> Any:
    """Return matrices as Q R; `mode` is "reduced", "complete", or "r", which leaves Q empty."""
    if mode == "r":
        return return_types.linalg_qr(_empty(A), wg.linalg.qr(A).R)
    return return_types.linalg_qr(*wg.linalg.qr(A, mode=mode))  # type: ignore[arg-type]


def triangles(packed: Any) -> tuple[Tensor, Tensor]:
    """Return the lower and the upper factor of LU in one; the lower one has ones on its diagonal."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    lower = wg.tril(packed[..., :k], -1) + wg.eye(m, k, dtype=packed.dtype)
    return lower, wg.triu(packed[..., :k, :])  # type: ignore[return-value]


def permutation(pivots: Any, packed: Any) -> Tensor:
    """Return the matrix P of exchanges of rows, A = P L U, in the dtype of the factors."""
    m = packed.shape[-2]
    rows = pivoted_rows(pivots, m)
    made = wg.arange(m)[:, None] == rows[..., None, :]
    return as_torch(made.astype(packed.dtype))  # type: ignore[no-any-return]


def _check_pivot(pivot: bool) -> None:
    if not pivot:
        fail(GraphError, "LU without pivots", "It is not stable, and PyTorch does not have it on the processor either.")


@_listed
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """Return both triangular factors in one, the exchanges of rows, and which pivot is 0 (0 where none is)."""
    _check_pivot(pivot)
    packed, pivots = as_torch(packed_lu(A))
    zeros = wg.diagonal(packed.detach(), 0, -2, -1) == 0
    if zeros.shape[-1]:
        info = _whole(wg.where(zeros.any(-1), wg.argmax(_whole(zeros), axis=-1) + 1, 0))
    else:
        info = wg.zeros(zeros.shape[:-1], dtype=wg.int32)
    if check_errors:
        _raise_for(info, "lu_factor_ex: a pivot is 0")
    return return_types.linalg_lu_factor_ex(packed, pivots, as_torch(info))


@_listed
def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """Return both triangular factors in one, and the exchanges of rows, counted from 1. Raises LinAlgError."""
    found = lu_factor_ex(A, pivot=pivot)
    if A.shape[-1] == A.shape[-2]:
        _raise_for(found.info, "lu_factor: a pivot is 0, the matrix is singular")
    return return_types.linalg_lu_factor(found.LU, found.pivots)


@_listed
def lu(A: Any, *, pivot: bool = True) -> Any:
    """Return the permutation and the lower and upper factors of matrices: A = P L U."""
    packed, pivots, _ = lu_factor_ex(A, pivot=pivot)
    return return_types.linalg_lu(permutation(pivots, packed), *triangles(packed))


@_wide
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Return the solution x of A x = B (or x A = B, or A^H x = B) from what :func:`lu_factor` gave."""
    if not left:
        return _adjoint(lu_solve(LU, pivots, _adjoint(B), adjoint=not adjoint))  # type: ignore[no-any-return]
    lower, upper = triangles(LU)
    order = permutation(pivots, LU)
    solve_by = wg.linalg.solve_triangular
    if adjoint:
        half = solve_by(_adjoint(upper), B, upper=False)
        return order @ solve_by(_adjoint(lower), half, upper=True, unitriangular=True)  # type: ignore[return-value]
    half = solve_by(lower, order.mT @ B, upper=False, unitriangular=True)
    return solve_by(upper, half, upper=True)  # type: ignore[return-value]


@_wide
def householder_product(A: Any, tau: Any) -> Tensor:
    """Return the first columns of the product of reflections, whose vectors stand below the diagonal of `A`."""
    m, n = A.shape[-2:]
    if m < n or tau.shape[-1] > n:
        found = f"{show(A.shape, A.dtype)} and {show(tau.shape, tau.dtype)}"
        fail(ShapeError, f"householder_product of {found}", "Give (..., m, n), m at least n, and up to n scales.")
    out = wg.eye(m, n, dtype=A.dtype) + wg.zeros((*A.shape[:-2], m, n), dtype=A.dtype)
    unit = np.eye(m, n, dtype=A.dtype)
    vectors = wg.tril(A, -1) + unit
    for i in reversed(range(tau.shape[-1])):
        v = vectors[..., i : i + 1]
        out = out - tau[..., i, None, None] * (v @ (_adjoint(v) @ out))
    return as_torch(out)  # type: ignore[no-any-return]


# -- eigenvalues and singular values


@_wide
def eigh(A: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues, ascending, and eigenvectors of Hermitian matrices; `UPLO` says which triangle is read."""
    return return_types.linalg_eigh(*wg.linalg.eigh(_by_triangle(A, UPLO.upper() == "U")))


@_wide
def eigvalsh(A: Any, UPLO: str = "L") -> Tensor:
    """Return the eigenvalues of Hermitian matrices, ascending; `UPLO` says which triangle is read."""
    return wg.linalg.eigvalsh(_by_triangle(A, UPLO.upper() == "U"))  # type: ignore[return-value]


@_wide
def eig(A: Any) -> Any:
    """Return the eigenvalues and eigenvectors of square matrices, complex. Their order is LAPACK's choice."""
    return return_types.linalg_eig(*wg.linalg.eig(A))


@_wide
def eigvals(A: Any) -> Tensor:
    """Return the eigenvalues of square matrices, complex."""
    return wg.linalg.eigvals(A)  # type: ignore[return-value]


@_wide
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """Return matrices as U diag(S) Vh; with `full_matrices=False` without the columns that belong to no S."""
    return return_types.linalg_svd(*wg.linalg.svd(A, full_matrices=full_matrices))


@_wide
def svdvals(A: Any, *, driver: str | None = None) -> Tensor:
    """Return the singular values of matrices, descending."""
    return wg.linalg.svdvals(A)  # type: ignore[return-value]


def _cutoff(largest: Any, A: Any, atol: Any, rtol: Any) -> Any:
    """Return the size up to which singular values count as 0, from the largest one of each matrix."""
    precise = float(np.finfo(largest.dtype).eps) * max(A.shape[-2:])
    if rtol is None:
        # PyTorch: a tolerance that is given alone stands alone, where it is above 0.
        rtol = precise if atol is None else wg.where(_tensor(atol) > 0, 0.0, precise)
    return wg.maximum(_tensor(0.0 if atol is None else atol), _tensor(rtol) * largest)


def _tensor(x: Any) -> Any:
    return x if isinstance(x, Plain) else asarray(np.asarray(x, np.float64))


@_wide
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """Return the number of singular values of each matrix above the larger of `atol` and `rtol` times the largest.

    `rtol` is max(m, n) times the dtype's precision where neither is given. `tol` is an older name of `atol`, beside
    which nothing is relative.
    """
    x = A.detach()
    if 0 in x.shape[-2:]:
        return as_torch(wg.zeros(x.shape[:-2], dtype=wg.int64))  # type: ignore[no-any-return]
    values = wg.abs(wg.linalg.eigvalsh(_by_triangle(x, False))) if hermitian else wg.linalg.svdvals(x)
    if tol is not None:
        limit = _tensor(tol)
    else:
        limit = _cutoff(values.max(-1) if type(values) is Plain else wg.max(values, axis=-1), x, atol, rtol)
    return as_torch((values > limit[..., None]).sum(-1))  # type: ignore[no-any-return]


@_listed
def pinv(A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """Return the Moore-Penrose inverses; what counts as 0 is as in :func:`matrix_rank`, `rcond` being `rtol`."""
    x = A + (_by_triangle(A, False) - A).detach() if hermitian else A
    fraction = rtol if rcond is None else rcond
    if 0 in x.shape[-2:]:
        return wg.linalg.pinv(x)  # type: ignore[return-value]
    if atol is None or (not isinstance(atol, Plain) and atol == 0 and fraction is not None):
        return wg.linalg.pinv(x, rtol=fraction)  # type: ignore[return-value]
    largest = wg.linalg.svdvals(x.detach())[..., 0]
    limit = _cutoff(largest, x, atol, fraction)
    relative = wg.where(largest > 0, limit / wg.where(largest > 0, largest, 1.0), 0.0)
    return wg.linalg.pinv(x, rtol=relative)  # type: ignore[return-value]


# -- systems of equations


def _is_vector(A: Any, B: Any) -> bool:
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


@_wide
def solve(A: Any, B: Any, *, left: bool = True) -> Tensor:
    """Return the solution x of A x = B, or with `left=False` of x A = B.

    `B` holds matrices, or one vector for each matrix. Raises LinAlgError for a singular matrix, ShapeError.
    """
    if _is_vector(A, B):
        if not left:
            fail(ShapeError, f"solve of {show(A.shape, A.dtype)} with left=False", "Give B as matrices.")
        return wg.linalg.solve(A, B[..., None])[..., 0]  # type: ignore[return-value]
    if not left:
        return wg.linalg.solve(A.mT, B.mT).mT  # type: ignore[return-value]
    return wg.linalg.solve(A, B)  # type: ignore[return-value]


@_listed
def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Return the solution x of A x = B, or of x A = B, for a triangular matrix; the other triangle is not read."""
    return wg.linalg.solve_triangular(  # type: ignore[return-value]
        A, B, upper=upper, left=left, unitriangular=unitriangular
    )


@_wide
def inv(A: Any) -> Tensor:
    """Return the inverses of square matrices. Raises LinAlgError for a singular one."""
    return wg.linalg.inv(A)  # type: ignore[return-value]


def _or_nan(what: str, A: Any, check_errors: bool, compute: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return what is computed of matrices, NaN where one is singular, and which pivot is 0 there."""
    nothing = as_torch(wg.zeros(A.shape[:-2], dtype=wg.int32))
    if A.is_abstract:
        return compute(A), nothing
    try:
        return compute(A), nothing
    except LinAlgError:
        info, sound = _failing(A, _no_pivot)
        if check_errors:
            _raise_for(info, f"{what}: a pivot is 0, the matrix is singular")
        made = compute(sound)
        sound_one = info == 0
        return wg.where(sound_one.reshape((*info.shape, *(1,) * (made.ndim - info.ndim))), made, wg.nan), info


@_wide
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """Return the inverses, NaN of a singular matrix, and for each matrix 0 or the number of a pivot that is 0."""
    return return_types.linalg_inv_ex(*_or_nan("inv_ex", A, check_errors, inv))


@_listed
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """Return the solutions, NaN for a singular matrix, and for each matrix 0 or the number of a pivot that is 0."""
    return return_types.linalg_solve_ex(*_or_nan("solve_ex", A, check_errors, lambda x: solve(x, B, left=left)))


@_wide
def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
    """Return the shortest of the x that minimise the norm of A x - B.

    Parameters
    ----------
    rcond: singular values up to this fraction of the largest count as 0.
    driver: "gelsy" (the default), "gelsd", "gelss" or "gels". All give one solution; they decide what else there is:
        no `rank` with "gels", and `singular_values` with "gelsd" and "gelss" alone, as in PyTorch. What there is not
        is empty.

    `residuals` are empty with "gelsy", and unless there are more equations than unknowns and all matrices of full rank.
    """
    driver = "gelsy" if driver is None else driver
    if driver not in ("gelsy", "gelsd", "gelss", "gels"):
        fail(GraphError, f"lstsq: driver={driver!r}", 'It is "gelsy", "gelsd", "gelss" or "gels".')
    vector = _is_vector(A, B)
    m, n = A.shape[-2:]
    found = wg.linalg.lstsq(A, B[..., None] if vector else B, rtol=rcond)
    empty, rank = _empty(A), found.rank
    full = m > n and driver != "gelsy" and (rank.is_abstract or bool((rank == n).all()))
    residuals: Any = found.residuals if full else wg.zeros(0, dtype=found.residuals.dtype)
    if vector and full:
        residuals = residuals[..., 0] if residuals.ndim > A.ndim - 2 else residuals
    return return_types.linalg_lstsq(
        found.solution[..., 0] if vector else found.solution,
        as_torch(residuals),
        as_torch(wg.zeros(0, dtype=wg.int64)) if driver == "gels" else rank,
        found.singular_values.detach() if driver in ("gelsd", "gelss") else as_torch(wg.real(empty)),
    )


@_wide
def tensorinv(A: Any, ind: int = 2) -> Tensor:
    """Return the inverse of `A` as a linear map from its last axes to its first `ind`. Raises ShapeError."""
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if ind < 1 or math.prod(first) != math.prod(last):
        fail(ShapeError, f"tensorinv of {show(A.shape, A.dtype)}, ind={ind}", "Both parts have as many elements.")
    return wg.linalg.inv(A.reshape((math.prod(first), -1))).reshape((*last, *first))  # type: ignore[return-value]


@_wide
def tensorsolve(A: Any, B: Any, dims: Any = None) -> Tensor:
    """Return the x for which the sum of products of `A`, over its last axes, with x is `B`.

    `dims` are axes of `A` that are moved to its end first. Raises ShapeError.
    """
    if dims is not None:
        moved = [d % A.ndim for d in dims]
        A = wg.permute_dims(A, [*(d for d in range(A.ndim) if d not in moved), *moved])
    shape = tuple(A.shape[B.ndim :])
    if math.prod(shape) != math.prod(B.shape):
        found = f"{show(A.shape, A.dtype)} and {show(B.shape, B.dtype)}"
        fail(ShapeError, f"tensorsolve of {found}", "The first axes of A make as many elements as the others.")
    flat = A.reshape((-1, math.prod(shape)))
    return wg.linalg.solve(flat, B.reshape((-1,))).reshape(shape)  # type: ignore[return-value]


def _refused(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        fail(GradientError, f"torch.linalg.{name}() is not there", "Write torch.linalg.lu_factor, or eigh.")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raise GradientError: the LDL factorization is not there; see :func:`lu_factor`, :func:`eigh`."
    return refuse


ldl_factor, ldl_factor_ex, ldl_solve = map(_refused, ("ldl_factor", "ldl_factor_ex", "ldl_solve"))

LINALG.update(ldl_factor=ldl_factor, ldl_factor_ex=ldl_factor_ex, ldl_solve=ldl_solve)
