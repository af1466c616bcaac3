"""`fixed_point`: x = f(x), differentiable in everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import arange, linalg, where, zeros
from ..core.errors import GraphError, ShapeError, fail
from ..core.tensor import Tensor, wrap
from .common import Solved, System, default_tolerance, largest, loop
from .equation import LinearMethod, solve_equation
from .implicit import info_of

_METHODS = ("iterate", "anderson")
_HISTORY = 5


def fixed_point(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    method: str = "iterate",
    tol: float | None = None,
    max_steps: int = 1000,
    linear_solver: LinearMethod = "auto",
    error: bool = True,
    info: bool = False,
) -> Any:
    """Return the x with `x = f(x, *args)`, differentiable in all that `f` depends on.

    Parameters
    ----------
    f: from a pytree of real tensors (and `args`) to a pytree like it.
    x0: where to start; the result is a pytree like it.
    args: pytrees. Tensors that `f` uses from outside, parameters too, need not be among them.
    method: "iterate" (f again and again, which must contract) or "anderson" (the combination of the
        last 5 steps with the least residual: Anderson 1965; Walker and Ni 2011).
    tol: the largest |f(x) - x| that is accepted, relative to the largest |x| where that is above 1; by
        default the dtype's rounding error to the power 2/3.
    max_steps, linear_solver, error, info: as for :func:`wengert.solve.root`.

    The derivative is that of the equation (Christianson 1994), whatever the steps: memory does not grow with them,
    as for deep equilibrium models (Bai, Kolter and Koltun 2019).

    Raises ConvergenceError, GradientError, GraphError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.solve.fixed_point(wg.cos, 1.0)
    tensor(0.7391)
    """
    if method not in _METHODS:
        fail(GraphError, f"fixed_point: method {method!r}", f"It is one of {', '.join(_METHODS)}.")
    system = System(f, x0, args, "fixed_point")
    if system.closed.structure != system.structure or system.outs.shapes != system.packing.shapes:
        fail(
            ShapeError,
            f"fixed_point: f takes {system.packing.shapes} and returns {system.outs.shapes}",
            "f returns a pytree like its first argument, of the same shapes.",
        )
    if tol is None:
        tol = default_tolerance(system.dtype, 2 / 3)

    def run(v: Tensor, *a: Tensor) -> Solved:
        steps = _anderson if method == "anderson" else _iterate
        return steps(lambda u: system(u, *a), v, tol, max_steps)

    found = solve_equation(
        "fixed_point",
        lambda v, *a: system(v, *a) - v,
        run,
        [system.start],
        system.tensors,
        linear=linear_solver,
        traces=system.closed.traced,
        strict=error,
    )
    x = system.pytree(found.solution)
    return (x, info_of(found)) if info else x


def _size(v: Tensor) -> Tensor:
    size = largest(v)
    return where(size > 1, size, 1.0)


def _ended(f: Callable[[Tensor], Tensor], v: Tensor, tol: float, steps: Tensor) -> Solved:
    residual = largest(f(v) - v)
    return Solved(v, residual <= tol * _size(v), steps, residual)


def _iterate(f: Callable[[Tensor], Tensor], v: Tensor, tol: float, max_steps: int) -> Solved:
    def going(state: Any) -> Any:
        v, image, steps = state
        left = largest(image - v)
        return (left > tol * _size(v)) & left.isfinite() & (steps < max_steps)

    def step(state: Any) -> Any:
        _, image, steps = state
        return image, f(image), steps + 1

    v, _, steps = loop(going, step, (v, f(v), wrap(np.zeros((), np.int64))))
    return _ended(f, v, tol, steps)


def _anderson(f: Callable[[Tensor], Tensor], v: Tensor, tol: float, max_steps: int) -> Solved:
    rows = arange(_HISTORY)

    def going(state: Any) -> Any:
        v, r, _, _, steps = state
        left = largest(r)
        return (left > tol * _size(v)) & left.isfinite() & (steps < max_steps)

    def step(state: Any) -> Any:
        v, r, moves, changes, steps = state
        # The differences so far, weighted so that they take away what they can of the residual.
        weights = linalg.lstsq(changes.mT, r).solution
        after = v + r - weights @ (moves + changes)
        r_after = f(after) - after
        here = (rows == steps % _HISTORY)[:, None]
        return after, r_after, where(here, after - v, moves), where(here, r_after - r, changes), steps + 1

    none = zeros((_HISTORY, v.shape[0]), dtype=v.dtype)
    start = (v, f(v) - v, none, none, wrap(np.zeros((), np.int64)))
    v, _, _, _, steps = loop(going, step, start)
    return _ended(f, v, tol, steps)
