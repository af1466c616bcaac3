"""The function `root`: equations solved, their solution differentiable in everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import broadcast_to
from ..core.errors import GraphError, ShapeError, fail
from ..core.tensor import Tensor
from .bracket import bisect, chandrupatla, ends
from .common import Solved, System, default_tolerance
from .equation import LinearMethod, solve_equation
from .implicit import info_of
from .newton import newton
from .scipy_methods import ROOT_METHODS, optimize, scalar_root, scipy_root

_BRACKETS = {"bisect": bisect, "chandrupatla": chandrupatla}
_OWN = ("newton", "newton_krylov", *_BRACKETS)


def root(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    method: str = "newton",
    bracket: tuple[Any, Any] | None = None,
    tol: float | None = None,
    max_steps: int = 100,
    linear_solver: LinearMethod = "auto",
    error: bool = True,
    info: bool = False,
) -> Any:
    """Return a solution x of `f(x, *args) = 0`, differentiable in all that `f` depends on.

    Parameters
    ----------
    f: from a pytree of real tensors (and `args`) to a pytree with as many elements.
    x0: where to start; the solution is a pytree like it, in the dtype of `f`'s result where that is
        wider. No derivative flows to it. With `bracket` it says shape and dtype, or is None.
    args: pytrees. Tensors that `f` uses from outside, parameters too, need not be among them.
    method: "newton" (damped, with the Jacobian), "newton_krylov" (without it: GMRES on products with
        it), "bisect" and "chandrupatla" (element by element, between the ends of `bracket`); "brentq"
        (a bracketed scalar) and the methods of `scipy.optimize.root` ("hybr", "lm", "krylov", ...)
        by SciPy.
    bracket: two numbers or tensors between which every element of `f` changes its sign.
    tol: the largest |f| that is accepted, also how near the bracketing methods come to the root
        relative to its size; by default the dtype's rounding error to the power 2/3.
    max_steps: of the solver.
    linear_solver: for the derivative: "dense", "gmres", "bicgstab", "cg", or "auto" (dense for at most
        256 unknowns, else gmres).
    error: raise ConvergenceError where the method fails. Otherwise what it found is returned. In a
        program that is traced, an example that failed is NaN, and the error is raised when it runs on
        values.
    info: return `(x, SolveInfo(converged, steps, residual))`.

    The derivative is the implicit function theorem's at the solution, in both modes and to every order:
    it knows nothing of the solver's steps. Where the Jacobian is singular there is none (LinAlgError).
    `f` is traced, so that what it uses is found; one that asks for values (a Python `if`) runs as it
    is, and may then use no tensor from outside that requires gradients. One node in a graph.

    Raises ConvergenceError, GradientError, GraphError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> square_root = lambda a: wg.solve.root(lambda x: x * x - a, 1.0)
    >>> wg.value_and_grad(square_root)(4.0)
    (tensor(2.), tensor(0.25))
    """
    scipy = method == "brentq" or method in ROOT_METHODS
    if method not in _OWN and not scipy:
        fail(GraphError, f"root: method {method!r}", f"It is one of {', '.join((*_OWN, 'brentq', *ROOT_METHODS))}.")
    bracketing = method == "brentq" or method in _BRACKETS
    if bracketing != (bracket is not None):
        fail(
            GraphError,
            f"root by {method} {'without' if bracketing else 'with'} a bracket",
            "bisect, chandrupatla and brentq take one, bracket=(low, high); the others none.",
        )
    if bracketing and isinstance(x0, (tuple, list, dict)):
        fail(ShapeError, f"root by {method} of a {type(x0).__name__}", "Between brackets the unknowns are one tensor.")
    if scipy:
        optimize()
    between = () if bracket is None else ends(bracket)
    if between and x0 is None:
        x0 = 0.5 * (between[0] + between[1])
    system = System(f, x0, args, "root")
    if between and system.packing.shapes == [()] and len(system.outs.shapes) == 1:
        # The ends are numbers, and f says how many of them there are.
        system = System(f, broadcast_to(system.pytree(system.start), system.outs.shapes[0]), args, "root")
    system.as_many_as_unknowns()
    if tol is None:
        tol = default_tolerance(system.dtype, 2 / 3)
    start = [system.start]
    if between:
        (shape,) = system.packing.shapes
        start += [broadcast_to(e.astype(system.dtype), shape).reshape((-1,)) for e in between]
    run = _runner(method, system, tol, max_steps, len(start))
    found = solve_equation(
        "root",
        system,
        run,
        start,
        system.tensors,
        linear=linear_solver,
        traces=not scipy and system.closed.traced,
        strict=error,
    )
    x = system.pytree(found.solution)
    return (x, info_of(found)) if info else x


def _runner(method: str, system: System, tol: float, max_steps: int, given: int) -> Callable[..., Solved]:
    def run(*xs: Tensor) -> Solved:
        start, a = xs[:given], xs[given:]

        def f(v: Tensor) -> Tensor:
            return system(v, *a)

        if method in _BRACKETS:
            return _BRACKETS[method](f, start[1], start[2], tol, max_steps)
        if method == "brentq":
            return scalar_root(f, start, tol, max_steps)
        if method in ROOT_METHODS:
            return scipy_root(f, start[0], method, tol, max_steps)
        return newton(f, start[0], tol, max_steps, krylov=method == "newton_krylov")

    return run
