"""Rules for PyTensor's linear algebra, of matrices and of stacks of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.tensor.blas import BatchedDot
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.nlinalg import Det, MatrixInverse, SLogDet
from pytensor.tensor.slinalg import Cholesky, CholeskySolve, Solve, SolveTriangular

import wengert as wg

from .convert import NoRuleError, Walk, dtype_of, funcify, tensor

Run = Callable[..., Any]


@funcify.register(Blockwise)
def _blockwise(op: Any, node: Any, walk: Walk) -> Run:
    """Return the core op's rule, which takes leading axes, or is mapped over them."""
    core = op.core_op
    if isinstance(core, STACKED):
        run = funcify(core, node, walk)
    else:
        of_one = funcify(core, op._create_dummy_core_node(node.inputs), walk)

        def run(*xs: Any) -> Any:
            lead = xs[0].shape[: xs[0].ndim - len(op.inputs_sig[0])]
            rows = (wg.reshape(x, (-1, *x.shape[len(lead) :])) for x in xs)
            found = wg.vmap(of_one)(*rows)
            results = found if isinstance(found, (list, tuple)) else [found]
            return [wg.reshape(r, (*lead, *r.shape[1:])) for r in results]

    def batched(*xs: Any) -> Any:
        tensors = list(map(tensor, xs))
        op._check_runtime_broadcast(node, tensors)
        ranks = [len(signature) for signature in op.inputs_sig]
        lead = np.broadcast_shapes(*(t.shape[: t.ndim - r] for t, r in zip(tensors, ranks, strict=True)))
        full = (wg.broadcast_to(t, (*lead, *t.shape[t.ndim - r :])) for t, r in zip(tensors, ranks, strict=True))
        return run(*full)

    return batched


@funcify.register(BatchedDot)
def _batched_dot(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x, y: wg.matmul(tensor(x, dtype_of(node)), tensor(y, dtype_of(node)))


@funcify.register(Cholesky)
def _cholesky(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any) -> Any:
        x = tensor(x, dtype_of(node))
        if op.lower:  # of the other triangle nothing is read
            return wg.linalg.cholesky(wg.tril(x) + wg.matrix_transpose(wg.tril(x, k=-1)))
        return wg.linalg.cholesky(wg.triu(x) + wg.matrix_transpose(wg.triu(x, k=1)), upper=True)

    return run


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
    if op.assume_a not in ("gen", "general"):
        raise NoRuleError(f"no rule for PyTensor's Solve of matrices that are {op.assume_a!r}")
    return _right(wg.linalg.solve, op.b_ndim, dtype_of(node))


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


# Core ops whose rules take leading axes.
STACKED = (Cholesky, SolveTriangular, Solve, CholeskySolve, MatrixInverse, Det, SLogDet)
