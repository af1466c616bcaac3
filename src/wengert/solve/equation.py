"""The derivative of a solution of F(x, a) = 0, for every solver of such equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from .. import linalg
from ..core.errors import GradientError, fail
from ..core.tensor import Tensor
from ..transforms.jacobians.jacobian import jacobian
from .common import Flat, Solved, directional
from .implicit import Rules, pull_through, push_through, solve_node
from .linear_rules import LinearSystem, krylov_system

LinearMethod = Literal["auto", "dense", "gmres", "cg", "bicgstab"]
# Up to this many unknowns "auto" forms the Jacobian.
_DENSE = 256


def solve_equation(
    name: str,
    residual: Flat,
    run: Callable[..., Solved],
    start: Sequence[Tensor],
    tensors: Sequence[Tensor],
    *,
    linear: LinearMethod,
    symmetric: bool = False,
    traces: bool = True,
    strict: bool = True,
) -> Solved:
    """Return the solution v of `residual(v, *tensors) = 0` that `run(*start, *tensors)` finds, with its derivative.

    `start` is where the solver begins, its first vector like the solution: no derivative in it.
    """
    if linear not in get_args(LinearMethod):
        fail(GradientError, f"{name}: linear_solver={linear!r}", f"It is one of {', '.join(get_args(LinearMethod))}.")
    size = start[0].size
    method = linear
    if linear == "auto":
        method = "dense" if size <= _DENSE else "cg" if symmetric else "gmres"
    first = len(start)

    def solve(v: Tensor, a: Sequence[Any], right: Tensor, adjoint: bool) -> Tensor:
        if method == "dense":
            matrix = jacobian(lambda u: residual(u, *a))(v)
            return linalg.solve(matrix.mT if adjoint and not symmetric else matrix, right)
        system = _system(name, residual, method, symmetric)
        return (system.adjoint() if adjoint else system).solved(right, [v, *a]).solution

    def pull(ct: Tensor, xs: Sequence[Any], v: Tensor, wanted: Sequence[bool]) -> list[Any]:
        a = xs[first:]
        back = -solve(v, a, ct, True)
        return [None] * first + pull_through(lambda *b: residual(v, *b), a, back, wanted[first:])

    def push(ts: Sequence[Any], xs: Sequence[Any], v: Tensor) -> Tensor | None:
        a = xs[first:]
        moved = push_through(lambda *b: residual(v, *b), a, ts[first:])
        return None if moved is None else -solve(v, a, moved, False)

    rules = Rules(name, run, pull, push, traces=traces, strict=strict)
    return solve_node(rules, [*start, *tensors])


def _system(name: str, residual: Flat, method: str, symmetric: bool) -> LinearSystem:
    def apply(t: Tensor, v: Tensor, *a: Tensor) -> Tensor:
        return directional(lambda u: residual(u, *a), v, t)

    return krylov_system(
        f"{name}_derivative",
        method,
        apply,
        symmetric=symmetric,
        precondition=None,
        tol=None,
        max_steps=None,
        strict=True,
    )
