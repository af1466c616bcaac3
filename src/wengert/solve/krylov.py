"""Krylov subspace methods for linear systems that are given as a function: CG, GMRES, BiCGSTAB.

They are loops of tensors: on values they stop when they are done, traced they are one loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import arange, linalg, sqrt, where, zeros
from ..core.tensor import Tensor, wrap
from .common import Solved, loop

Apply = Callable[[Tensor], Tensor]
_RESTART = 30


def norm(v: Tensor) -> Tensor:
    """Return the Euclidean norm of a vector."""
    return sqrt(_real(dot(v, v)))


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product of two vectors, the first conjugated."""
    found: Tensor = ((a.conj() if a.dtype.kind == "c" else a) * b).sum()
    return found


def _ended(apply: Apply, b: Tensor, x: Tensor, steps: Tensor, tol: float) -> Solved:
    """Return a solver's end with the residual computed anew: a recurrence's drifts."""
    residual = norm(b - apply(x))
    return Solved(x, residual <= tol * norm(b), steps, residual)


def _count() -> Tensor:
    return wrap(np.zeros((), np.int64))


def cg(apply: Apply, precondition: Apply, b: Tensor, tol: float, max_steps: int) -> Solved:
    """Solve a Hermitian positive definite system by conjugate gradients (Hestenes and Stiefel 1952)."""
    target = 0.5 * tol * norm(b)
    z = precondition(b)

    def going(state: Any) -> Any:
        _, r, _, _, steps, definite = state
        return (norm(r) > target) & definite & (steps < max_steps)

    def step(state: Any) -> Any:
        x, r, p, rz, steps, _ = state
        ap = apply(p)
        curvature = dot(p, ap)
        definite = _real(curvature) > 0
        a = where(definite, rz / where(definite, curvature, 1.0), 0.0).astype(b.dtype)
        x, r = x + a * p, r - a * ap
        z = precondition(r)
        after = dot(r, z)
        # A step's own residual may be 0: then the loop ends, and the direction does not matter.
        p = z + where(rz != 0, after / where(rz != 0, rz, 1.0), 0.0).astype(b.dtype) * p
        return x, r, p, after, steps + 1, definite

    start = (b * 0, b, z, dot(b, z), _count(), wrap(np.ones((), bool)))
    x, _, _, _, steps, _ = loop(going, step, start)
    return _ended(apply, b, x, steps, tol)


def _real(x: Tensor) -> Tensor:
    return x.real if x.dtype.kind == "c" else x


def gmres(apply: Apply, precondition: Apply, b: Tensor, tol: float, max_steps: int) -> Solved:
    """Solve a system by restarted GMRES with the preconditioner on the right (Saad and Schultz 1986)."""
    n = b.shape[0]
    size = max(min(n, _RESTART), 1)
    target = 0.5 * tol * norm(b)
    rows = arange(size + 1)
    columns = arange(size)

    def cycle(state: Any) -> Any:
        x, r, steps, _ = state
        beta = norm(r)
        first = (rows == 0).astype(b.dtype)
        basis = first[:, None] * (r / where(beta > 0, beta, 1.0))[None, :]

        def inner_going(inner: Any) -> Any:
            _, _, _, k, left, broken = inner
            return (k < size) & (left > target) & ~broken & (steps + k < max_steps)

        def inner(inner: Any) -> Any:
            basis, h, _, k, _, _ = inner
            here = (rows == k).astype(b.dtype)
            w = apply(precondition(here @ basis))
            before = norm(w)
            projected = basis.conj() @ w if b.dtype.kind == "c" else basis @ w
            w = w - projected @ basis
            # Gram-Schmidt twice is enough (Giraud et al. 2005).
            again = basis.conj() @ w if b.dtype.kind == "c" else basis @ w
            w = w - again @ basis
            length = norm(w)
            broken = length <= before * float(np.finfo(b.dtype).eps)
            after = (rows == k + 1).astype(b.dtype)
            column = projected + again + after * where(broken, 0.0, length)
            h = where((columns == k)[None, :], column[:, None], h)
            basis = where(
                ((rows == k + 1) & ~broken)[:, None], (w / where(broken, 1.0, length))[None, :], basis
            ).astype(b.dtype)
            y = linalg.lstsq(h, first * beta).solution
            left = norm(first * beta - h @ y)
            return basis, h, y, k + 1, left, broken

        begin = (basis, zeros((size + 1, size), dtype=b.dtype), zeros(size, dtype=b.dtype), _count(), beta, beta < 0)
        basis, _, y, k, _, _ = loop(inner_going, inner, begin)
        found = x + precondition(y @ basis[:size])
        r_new = b - apply(found)
        better = norm(r_new) < beta
        # A cycle that gains nothing will gain nothing again.
        stalled = ~(norm(r_new) < 0.999 * beta)
        return where(better, found, x), where(better, r_new, r), steps + k, stalled

    def going(state: Any) -> Any:
        _, r, steps, stalled = state
        return (norm(r) > target) & ~stalled & (steps < max_steps)

    x, _, steps, _ = loop(going, cycle, (b * 0, b, _count(), wrap(np.zeros((), bool))))
    return _ended(apply, b, x, steps, tol)


def bicgstab(apply: Apply, precondition: Apply, b: Tensor, tol: float, max_steps: int) -> Solved:
    """Solve a system by stabilised biconjugate gradients, preconditioned on the right (van der Vorst 1992)."""
    target = 0.5 * tol * norm(b)
    shadow = b

    def going(state: Any) -> Any:
        _, r, _, _, steps, broken = state
        return (norm(r) > target) & ~broken & (steps < max_steps)

    def step(state: Any) -> Any:
        x, r, p, rho, steps, _ = state
        p_hat = precondition(p)
        v = apply(p_hat)
        below = dot(shadow, v)
        alpha = _ratio(rho, below)
        s = r - alpha * v
        s_hat = precondition(s)
        t = apply(s_hat)
        omega = _ratio(dot(t, s), dot(t, t))
        x = x + alpha * p_hat + omega * s_hat
        r = s - omega * t
        after = dot(shadow, r)
        beta = _ratio(after * alpha, rho * omega)
        broken = (below == 0) | (rho == 0)
        return x, r, r + beta * (p - omega * v), after, steps + 1, broken

    start = (b * 0, b, b, dot(shadow, b), _count(), wrap(np.zeros((), bool)))
    x, _, _, _, steps, _ = loop(going, step, start)
    return _ended(apply, b, x, steps, tol)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b, and 0 where b is 0: the residual shows a breakdown."""
    found: Tensor = where(b != 0, a / where(b != 0, b, 1.0), 0.0).astype(a.dtype)
    return found


KRYLOV: dict[str, Callable[[Apply, Apply, Tensor, float, int], Solved]] = {
    "cg": cg,
    "gmres": gmres,
    "bicgstab": bicgstab,
}
