"""Rules for PyTensor's linear algebra, of matrices and of stacks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pytensor.tensor.blas import BatchedDot
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.nlinalg import (
    SVD,
    Det,
    Eig,
    Eigh,
    EighGrad,
    MatrixInverse,
    MatrixPinv,
    SLogDet,
    TensorInv,
    TensorSolve,
)
from pytensor.tensor.slinalg import (
    LU,
    QR,
    BlockDiagonal,
    Cholesky,
    CholeskySolve,
    Eigvalsh,
    Expm,
    LUFactor,
    PivotToPermutations,
    Solve,
    SolveTriangular,
)

import wengert as wg

from ...ops.linalg.lu import lu, pivoted_rows
from .called import CALLED, solved_by_lapack
from .convert import NoRuleError, Walk, dtype_of, funcify, tensor

Run = Callable[..., Any]


@funcify.register(Blockwise)
def _blockwise(op: Any, node: Any, walk: Walk) -> Run:
    """Return the core op's rule, which takes leading axes, or is mapped over them."""
    core, ranks = op.core_op, [len(signature) for signature in op.inputs_sig]
    is_stacked = isinstance(core, STACKED)
    of_one = funcify(core, node if is_stacked else op._create_dummy_core_node(node.inputs), walk)

    def mapped(lead: tuple[int, ...], xs: Sequence[Any]) -> Any:
        """Return the results for each row of what has leading axes; single numbers are the same in all rows."""
        several = [x for x in xs if isinstance(x, wg.Tensor)]

        def of_row(*rows: Any) -> Any:
            left = iter(rows)
            return of_one(*(next(left) if isinstance(x, wg.Tensor) else x for x in xs))

        found = wg.vmap(of_row)(*(wg.reshape(x, (-1, *x.shape[len(lead) :])) for x in several))
        results = found if isinstance(found, (list, tuple)) else [found]
        return [wg.reshape(r, (*lead, *r.shape[1:])) for r in results]

    def batched(*xs: Any) -> Any:
        tensors = list(map(tensor, xs))
        op._check_runtime_broadcast(node, tensors)
        lead = np.broadcast_shapes(*(t.shape[: t.ndim - r] for t, r in zip(tensors, ranks, strict=True)))
        full = [wg.broadcast_to(t, (*lead, *t.shape[t.ndim - r :])) for t, r in zip(tensors, ranks, strict=True)]
        if is_stacked:
            return of_one(*full)
        return mapped(lead, [_number(x, r, whole) for x, r, whole in zip(xs, ranks, full, strict=True)])

    return batched


def _number(x: Any, rank: int, whole: Any) -> Any:
    """Return the one number that a known value has in all rows; otherwise the tensor."""
    if rank or isinstance(x, wg.Tensor) or np.size(x) == 0 or np.ptp(np.asarray(x, np.float64)):
        return whole
    return np.asarray(x).reshape(-1)[0]


@funcify.register(BatchedDot)
def _batched_dot(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x, y: wg.matmul(tensor(x, dtype_of(node)), tensor(y, dtype_of(node)))


def _symmetric(x: Any, is_lower: bool) -> Any:
    """Return the symmetric matrix of a triangle; of the other one nothing is read."""
    if is_lower:
        return wg.tril(x) + wg.matrix_transpose(wg.tril(x, k=-1))
    return wg.triu(x) + wg.matrix_transpose(wg.triu(x, k=1))


@funcify.register(Cholesky)
def _cholesky(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x: wg.linalg.cholesky(_symmetric(tensor(x, dtype_of(node)), op.lower), upper=not op.lower)


def _right(fn: Callable[[Any, Any], Any], b_ndim: int, dtype: Any) -> Run:
    """Return a solver for right sides that are columns of a matrix, or vectors."""

    def run(a: Any, b: Any) -> Any:
        a, b = tensor(a, dtype), tensor(b, dtype)
        return fn(a, b) if b_ndim == 2 else wg.squeeze(fn(a, wg.expand_dims(b, axis=-1)), axis=-1)

    return run


@funcify.register(SolveTriangular)
def _triangular(op: Any, node: Any, walk: Walk) -> Run:
    def solve(a: Any, b: Any) -> Any:
        return wg.linalg.solve_triangular(a, b, upper=not op.lower, unitriangular=op.unit_diagonal)

    return _right(solve, op.b_ndim, dtype_of(node))


@funcify.register(Solve)
def _solve(op: Any, node: Any, walk: Walk) -> Run:
    is_complex = dtype_of(node).kind == "c"
    if op.assume_a not in ("gen", "sym", "pos") and (op.assume_a != "her" or is_complex):
        found: Run = solved_by_lapack(op, node, walk)
        return found

    def solve(a: Any, b: Any) -> Any:
        if op.assume_a == "gen":
            return wg.linalg.solve(a, b)
        whole = _symmetric(a, op.lower)
        if op.assume_a == "pos" and not is_complex:
            return wg.linalg.cho_solve(wg.linalg.cholesky(whole), b)
        return wg.linalg.solve(whole, b)

    return _right(solve, op.b_ndim, dtype_of(node))


@funcify.register(CholeskySolve)
def _cholesky_solve(op: Any, node: Any, walk: Walk) -> Run:
    return _right(lambda c, b: wg.linalg.cho_solve(c, b, upper=not op.lower), op.b_ndim, dtype_of(node))


@funcify.register(MatrixInverse)
def _inverse(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x: wg.linalg.inv(tensor(x, dtype_of(node)))


@funcify.register(Det)
def _determinant(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x: wg.linalg.det(tensor(x, dtype_of(node)))


@funcify.register(SLogDet)
def _log_determinant(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x: list(wg.linalg.slogdet(tensor(x, dtype_of(node))))


@funcify.register(QR)
def _qr(op: Any, node: Any, walk: Walk) -> Run:
    if op.pivoting or op.mode == "raw":
        raise NoRuleError("no rule for PyTensor's QR with pivots, or as LAPACK stores it")

    def run(x: Any) -> Any:
        q, r = wg.linalg.qr(tensor(x, dtype_of(node)), mode="reduced" if op.mode == "economic" else "complete")
        return [r] if op.mode == "r" else [q, r]

    return run


@funcify.register(SVD)
def _svd(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any) -> Any:
        x = tensor(x, dtype_of(node))
        if not op.compute_uv:
            return [wg.linalg.svdvals(x)]
        return list(wg.linalg.svd(x, full_matrices=op.full_matrices))

    return run


@funcify.register(Eig)
def _eig(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x: [tensor(v, dtype_of(node)) for v in wg.linalg.eig(tensor(x))]


@funcify.register(Eigh)
def _eigh(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x: list(wg.linalg.eigh(_symmetric(tensor(x, dtype_of(node)), op.UPLO == "L")))


@funcify.register(EighGrad)
def _eigh_gradient(op: Any, node: Any, walk: Walk) -> Run:
    """Return the cotangent of the triangle that was read, of those of values and vectors."""

    def run(_x: Any, w: Any, v: Any, gw: Any, gv: Any) -> Any:
        w, v, gw, gv = (tensor(a, dtype_of(node)) for a in (w, v, gw, gv))
        alone = wg.eye(w.shape[-1], dtype=w.dtype)
        apart = wg.expand_dims(w, axis=-2) - wg.expand_dims(w, axis=-1) + alone
        turned = wg.matmul(wg.matrix_transpose(v), gv) / apart * (1.0 - alone)
        both = wg.matmul(v, wg.matmul(alone * wg.expand_dims(gw, axis=-1) + turned, wg.matrix_transpose(v)))
        # Of the other triangle, which was taken from this one, nothing was read.
        if op.UPLO == "L":
            return wg.tril(wg.matrix_transpose(both)) + wg.tril(both, k=-1)
        return wg.triu(wg.matrix_transpose(both)) + wg.triu(both, k=1)

    return run


@funcify.register(MatrixPinv)
def _pseudo_inverse(op: Any, node: Any, walk: Walk) -> Run:
    # NumPy's bound, relative to the largest singular value.
    return lambda x: wg.linalg.pinv(tensor(x, dtype_of(node)), rtol=1e-15)


@funcify.register(BlockDiagonal)
def _block_diagonal(op: Any, node: Any, walk: Walk) -> Run:
    def run(*blocks: Any) -> Any:
        tensors = [tensor(b, dtype_of(node)) for b in blocks]
        width, at, rows = sum(t.shape[-1] for t in tensors), 0, []
        for t in tensors:
            sides = (at, width - at - t.shape[-1])
            rows.append(wg.concat([_zeros(t, sides[0]), t, _zeros(t, sides[1])], axis=-1))
            at += t.shape[-1]
        return wg.concat(rows, axis=-2)

    return run


def _zeros(like: Any, columns: int) -> Any:
    return wg.zeros((*like.shape[:-1], columns), dtype=like.dtype)


# -- factors of pivoted rows


@funcify.register(LU)
def _triangular_factors(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any) -> list[Any]:
        x = tensor(x, dtype_of(node, -1))
        packed, pivots = lu(x)
        size = x.shape[-1]
        lower = wg.tril(packed, k=-1) + wg.eye(size, dtype=x.dtype)
        # Row i of the factors' product is so many a row of the matrix.
        rows = pivoted_rows(pivots, rows=size)
        back = wg.argsort(rows, axis=-1)
        if op.permute_l:
            return [
                wg.take_along_axis(lower, wg.broadcast_to(wg.expand_dims(back, axis=-1), lower.shape), axis=-2),
                wg.triu(packed),
            ]
        if op.p_indices:
            return [tensor(back, dtype_of(node)), lower, wg.triu(packed)]
        moved = wg.expand_dims(back, axis=-1) == wg.arange(size)
        return [tensor(moved, dtype_of(node)), lower, wg.triu(packed)]

    return run


@funcify.register(LUFactor)
def _packed_factors(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any) -> list[Any]:
        packed, pivots = lu(tensor(x, dtype_of(node)))
        is_singular = wg.any(wg.linalg.diagonal(packed) == 0, axis=-1)
        packed = wg.where(wg.reshape(is_singular, (*is_singular.shape, 1, 1)), np.nan, packed)
        return [packed, tensor(pivots - 1, dtype_of(node, 1))]

    return run


@funcify.register(PivotToPermutations)
def _permutation(op: Any, node: Any, walk: Walk) -> Run:
    def run(pivots: Any) -> Any:
        rows = pivoted_rows(tensor(pivots, np.int32) + 1, rows=pivots.shape[-1])
        return tensor(rows if op.inverse else wg.argsort(rows, axis=-1), dtype_of(node))

    return run


# -- others


@funcify.register(Expm)
def _exponential(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x: wg.linalg.expm(tensor(x, dtype_of(node)))


@funcify.register(Eigvalsh)
def _eigenvalues(op: Any, node: Any, walk: Walk) -> Run:
    """Return the eigenvalues of a symmetric matrix, or of one relative to another, which is positive definite."""
    if dtype_of(node).kind == "c":
        raise NoRuleError("no rule for PyTensor's Eigvalsh of complex matrices")

    def run(a: Any, b: Any = None) -> Any:
        whole = _symmetric(tensor(a, dtype_of(node)), op.lower)
        if b is not None:
            factor = wg.linalg.cholesky(_symmetric(tensor(b, dtype_of(node)), op.lower))
            half = wg.linalg.solve_triangular(factor, whole, upper=False)
            whole = _symmetric(wg.linalg.solve_triangular(factor, wg.matrix_transpose(half), upper=False), True)
        return wg.linalg.eigvalsh(whole)

    return run


@funcify.register(TensorInv)
def _tensor_inverse(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any) -> Any:
        x = tensor(x)
        rows, columns = x.shape[: op.ind], x.shape[op.ind :]
        inverse = wg.linalg.inv(wg.reshape(x, (int(np.prod(rows)), -1)))
        return wg.reshape(inverse, (*columns, *rows))

    return run


@funcify.register(TensorSolve)
def _tensor_solution(op: Any, node: Any, walk: Walk) -> Run:
    if op.axes is not None:
        raise NoRuleError("no rule for PyTensor's TensorSolve with axes in another order")

    def run(a: Any, b: Any) -> Any:
        a, b = tensor(a, dtype_of(node)), tensor(b, dtype_of(node))
        shape = a.shape[b.ndim :]
        found = wg.linalg.solve(wg.reshape(a, (-1, int(np.prod(shape)))), wg.reshape(b, (-1, 1)))
        return wg.reshape(found, shape)

    return run


# Core ops whose rules take leading axes.
STACKED = (
    *CALLED,
    *(Cholesky, SolveTriangular, Solve, CholeskySolve, MatrixInverse, Det, SLogDet),
    *(QR, SVD, Eig, Eigh, EighGrad, MatrixPinv, BlockDiagonal, LU, LUFactor, PivotToPermutations, Expm),
)
