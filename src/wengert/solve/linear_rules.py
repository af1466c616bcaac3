"""Linear systems as nodes: A(a) x = b, with A a function of tensors a, differentiated in a and b.

dx = A^-1 (db - dA x), and for a cotangent c of x the one of b is A^-H c. Both are again such
solutions, of the same system or of its adjoint, so the rules hold to every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import linalg
from ..core.tensor import Tensor, wrap
from ..transforms.batch.vmap import vmap
from ..transforms.derivatives.tangents import linear_transpose
from .common import Flat, Solved, default_tolerance
from .implicit import Rules, pull_through, push_through, solve_node
from .krylov import KRYLOV, norm

# From a right-hand side and what the matrix is made of to the solution.
Solve = Callable[..., Solved]


@dataclass(frozen=True)
class LinearSystem:
    """A matrix as the function `apply(x, *tensors)`, with a way to solve it and its adjoint."""

    name: str
    apply: Flat
    solve: Solve
    adjoint: Callable[[], LinearSystem]
    traces: bool = True
    strict: bool = True

    def solved(self, b: Tensor, tensors: Sequence[Tensor]) -> Solved:
        return solve_node(self.rules(), [b, *tensors])

    def rules(self) -> Rules:
        def push(ts: Sequence[Any], xs: Sequence[Any], x: Tensor) -> Tensor | None:
            moved = push_through(lambda *a: self.apply(x, *a), xs[1:], ts[1:])
            if moved is None:
                right = ts[0]
            else:
                right = -moved if ts[0] is None else ts[0] - moved
            return None if right is None else self.solved(right, xs[1:]).solution

        def pull(ct: Tensor, xs: Sequence[Any], x: Tensor, wanted: Sequence[bool]) -> list[Any]:
            back = self.adjoint().solved(ct, xs[1:]).solution
            return [back, *pull_through(lambda *a: self.apply(x, *a), xs[1:], -back, wanted[1:])]

        return Rules(self.name, self.solve, pull, push, traces=self.traces, strict=self.strict)


def adjoint_of(apply: Flat) -> Flat:
    """Return the function of the adjoint matrix (the conjugate transpose)."""

    def transposed(y: Tensor, *tensors: Tensor) -> Tensor:
        found: Tensor = linear_transpose(lambda x: apply(x, *tensors), y)(y)[0]
        return found

    return transposed


def matrix_of(apply: Callable[[Tensor], Tensor], n: int, dtype: Any) -> Tensor:
    """Return the matrix of a linear function of n numbers."""
    if n == 0:
        return wrap(np.zeros((0, 0), dtype))
    columns: Tensor = vmap(apply)(wrap(np.eye(n, dtype=dtype)))
    found: Tensor = columns.mT
    return found


def krylov_system(
    name: str,
    method: str,
    apply: Flat,
    *,
    symmetric: bool,
    precondition: Flat | None,
    tol: float | None,
    max_steps: int | None,
    strict: bool,
) -> LinearSystem:
    """Return a system solved by a Krylov method; with "dense" by elimination in the function's matrix."""

    def build(apply: Flat, precondition: Flat | None, back: Callable[[], LinearSystem] | None) -> LinearSystem:
        def solve(b: Tensor, *tensors: Tensor) -> Solved:
            def matrix(x: Tensor) -> Tensor:
                return apply(x, *tensors)

            allowed = default_tolerance(b.dtype, 2 / 3) if tol is None else tol
            if b.shape[0] == 0:
                return Solved(b, wrap(np.ones((), bool)), wrap(np.zeros((), np.int64)), norm(b))
            if method == "dense":
                x = linalg.solve(matrix_of(matrix, b.shape[0], b.dtype), b)
                residual = norm(b - matrix(x))
                return Solved(x, residual.isfinite(), wrap(np.ones((), np.int64)), residual)
            limit = max(10 * b.shape[0], 100) if max_steps is None else max_steps
            nearly = (lambda r: r) if precondition is None else (lambda r: precondition(r, *tensors))
            return KRYLOV[method](matrix, nearly, b, allowed, limit)

        def adjoint() -> LinearSystem:
            if back is not None:
                return back()
            if symmetric:
                return made
            other = None if precondition is None else adjoint_of(precondition)
            return build(adjoint_of(apply), other, lambda: made)

        made = LinearSystem(name, apply, solve, adjoint, strict=strict)
        return made

    return build(apply, precondition, None)
