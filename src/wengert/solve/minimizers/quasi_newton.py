"""Descent with a line search: L-BFGS, BFGS, the gradient itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import arange, where, zeros
from ...core.tensor import Tensor, wrap
from ..common import largest, loop, stationary
from ..krylov import dot
from .line_search import wolfe

Both = Callable[[Tensor], tuple[Tensor, Tensor]]
_HISTORY = 10


def _lbfgs_start(n: int, dtype: Any) -> Any:
    none = zeros((_HISTORY, n), dtype=dtype)
    return none, none, zeros(_HISTORY, dtype=dtype), wrap(np.ones((), dtype))


def _lbfgs_direction(memory: Any, gradient: Tensor) -> Any:
    """Return the direction by two loops (Nocedal 1980): the newest pair is in row 0, an empty row changes nothing."""
    moves, changes, inverse, scale = memory
    q = gradient
    weights = []
    for i in range(_HISTORY):
        weights.append(inverse[i] * dot(moves[i], q))
        q = q - weights[i] * changes[i]
    q = scale * q
    for i in reversed(range(_HISTORY)):
        q = q + (weights[i] - inverse[i] * dot(changes[i], q)) * moves[i]
    return -q


def _lbfgs_update(memory: Any, move: Tensor, change: Tensor, steps: Tensor) -> Any:
    moves, changes, inverse, scale = memory
    curvature = dot(move, change)
    use = curvature > float(np.finfo(move.dtype).eps) * dot(change, change)
    safe = where(use, curvature, 1.0)
    first = (arange(_HISTORY) == 0)[:, None]
    pairs = [
        where(use, where(first, new[None, :], old[[-1, *range(_HISTORY - 1)]]), old)
        for new, old in ((move, moves), (change, changes))
    ]
    rows = where(use, where(first[:, 0], 1 / safe, inverse[[-1, *range(_HISTORY - 1)]]), inverse)
    squares = dot(change, change)
    return (*pairs, rows, where(use, safe / where(use, squares, 1.0), scale))


def _bfgs_start(n: int, dtype: Any) -> Any:
    return wrap(np.eye(n, dtype=dtype))


def _bfgs_direction(inverse: Any, gradient: Tensor) -> Any:
    return -(inverse @ gradient)


def _bfgs_update(inverse: Any, move: Tensor, change: Tensor, steps: Tensor) -> Any:
    curvature = dot(move, change)
    use = curvature > float(np.finfo(move.dtype).eps) * dot(change, change)
    safe = where(use, curvature, 1.0)
    # The first matrix is given the size that the first step shows (Nocedal and Wright 2006, 6.20).
    h = where(use & (steps == 0), safe / where(use, dot(change, change), 1.0), 1.0).astype(move.dtype) * inverse
    hy = h @ change
    outer = move[:, None] * hy[None, :]
    update = (1 + dot(change, hy) / safe) / safe * (move[:, None] * move[None, :]) - (outer + outer.mT) / safe
    return where(use, h + update, inverse)


def _gradient_update(memory: Any, move: Tensor, change: Tensor, steps: Tensor) -> Any:
    """Return the length that fits the curvature along the last step (Barzilai and Borwein 1988)."""
    curvature = dot(move, change)
    use = curvature > 0
    return where(use, dot(move, move) / where(use, curvature, 1.0), memory)


_METHODS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "lbfgs": (_lbfgs_start, _lbfgs_direction, _lbfgs_update),
    "bfgs": (_bfgs_start, _bfgs_direction, _bfgs_update),
    "gradient": (lambda n, dtype: wrap(np.ones((), dtype)), lambda scale, g: -scale * g, _gradient_update),
}


def descend(both: Both, v: Tensor, method: str, tol: float, max_steps: int) -> tuple[Tensor, Tensor]:
    """Return the minimiser found, and the steps; `both` gives value and gradient."""
    begin, direction, update = _METHODS[method]

    def going(state: Any) -> Any:
        v, value, gradient, _, steps, stuck = state
        return ~stationary(v, value, gradient, tol) & gradient.isfinite().all() & ~stuck & (steps < max_steps)

    def step(state: Any) -> Any:
        v, value, gradient, memory, steps, _ = state
        d = direction(memory, gradient)
        d = where(dot(d, gradient) < 0, d, -gradient)
        # The first step has no curvature to go by: it moves by at most 1.
        size = largest(gradient)
        first = where((steps == 0) & (size > 1), 1 / size, 1.0).astype(v.dtype)
        found, progress = wolfe(both, v, value, gradient, d, first)
        move = found.length * d
        memory = update(memory, move, found.gradient - gradient, steps)
        return v + move, found.value, found.gradient, memory, steps + 1, ~progress

    value, gradient = both(v)
    start = (v, value, gradient, begin(v.shape[0], v.dtype), wrap(np.zeros((), np.int64)), wrap(np.zeros((), bool)))
    v, _, _, _, steps, _ = loop(going, step, start)
    return v, steps
