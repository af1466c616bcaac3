"""Newton's method for systems of equations, damped by a line search, with the Jacobian or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import linalg, where
from ..core.tensor import Tensor, wrap
from ..transforms.jacobians.jacobian import jacobian
from .common import Solved, directional, largest, loop
from .krylov import gmres

_HALVINGS = 40


def newton(f: Callable[[Tensor], Tensor], v: Tensor, tol: float, max_steps: int, krylov: bool) -> Solved:
    """Solve by steps of J d = -f, shortened until |f| falls (Dennis and Schnabel 1983, chapter 6).

    Ends where the largest |f| is at most `tol`, or where a full step changes no unknown by more
    than `tol` of the largest: f is then as small as rounding lets it be.
    """

    def going(state: Any) -> Any:
        _, r, steps, small, stuck = state
        return ~(_within(r, tol) | small | stuck) & (steps < max_steps)

    def step(state: Any) -> Any:
        v, r, steps, _, _ = state
        if krylov:
            # As exact as it needs to be to converge fast (Eisenstat and Walker 1996).
            d = gmres(lambda t: directional(f, v, t), lambda t: t, -r, 1e-4, max(10 * v.shape[0], 100)).solution
        else:
            d = _step(jacobian(f)(v), -r)
        before = (r * r).sum()

        def too_long(search: Any) -> Any:
            scale, _, after, halvings = search
            return ~(after <= (1 - 2e-4 * scale) * before) & (halvings < _HALVINGS)

        def shorter(search: Any) -> Any:
            scale, _, _, halvings = search
            return tried(0.5 * scale, halvings + 1)

        def tried(scale: Tensor, halvings: Tensor) -> Any:
            found = f(v + scale * d)
            return scale, found, (found * found).sum(), halvings

        scale, found, after, _ = loop(
            too_long, shorter, tried(wrap(np.ones((), v.dtype)), wrap(np.zeros((), np.int64)))
        )
        short = largest(d) <= tol * largest(v)
        # At the level of rounding a step no longer makes f smaller; where it is tiny besides, this is the root.
        stuck = ~(after < before)
        return where(stuck, v, v + scale * d), where(stuck, r, found), steps + 1, short, stuck

    r = f(v)
    no = wrap(np.zeros((), bool))
    v, r, steps, small, _ = loop(going, step, (v, r, wrap(np.zeros((), np.int64)), no, no))
    return Solved(v, _within(r, tol) | (small & r.isfinite().all()), steps, largest(r))


def _step(matrix: Tensor, right: Tensor) -> Tensor:
    """Return the solution of a system; of a singular one any finite step, which the line search then judges.

    A failure here would be one of all examples that are solved together.
    """
    if not right.size:
        return right
    q, r = linalg.qr(matrix)
    pivots = abs(linalg.diagonal(r))
    weak = pivots <= float(np.finfo(right.dtype).eps) * pivots.max()
    r = r + weak.astype(r.dtype)[:, None] * wrap(np.eye(*r.shape, dtype=r.dtype))
    return linalg.solve_triangular(r, q.mT @ right, upper=True)


def _within(r: Tensor, tol: float) -> Tensor:
    return largest(r) <= tol
