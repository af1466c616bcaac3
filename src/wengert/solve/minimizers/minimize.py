"""`minimize`: the minimiser of a function, differentiable in everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import GraphError, ShapeError, fail
from ...core.tensor import Tensor
from ...transforms.derivatives.functional import grad, value_and_grad
from ..common import Solved, System, default_tolerance, largest, stationary
from ..equation import LinearMethod, solve_equation
from ..implicit import info_of
from ..scipy_methods import MINIMIZE_METHODS, optimize, scipy_minimize
from .quasi_newton import descend
from .trust_region import newton_trust_region

_OWN = ("lbfgs", "bfgs", "newton", "gradient")


def minimize(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    method: str = "lbfgs",
    tol: float | None = None,
    max_steps: int = 1000,
    linear_solver: LinearMethod = "auto",
    error: bool = True,
    info: bool = False,
) -> Any:
    """Return a local minimiser x of the scalar `f(x, *args)`, differentiable in all that `f` depends on.

    Parameters
    ----------
    f: from a pytree of real tensors (and `args`) to a real scalar.
    x0: where to start; the minimiser is a pytree like it.
    args: pytrees. Tensors that `f` uses from outside, parameters too, need not be among them.
    method: "lbfgs" (10 pairs, strong Wolfe line search), "bfgs", "newton" (trust region, conjugate
        gradients on Hessian products), "gradient" (Barzilai-Borwein lengths, line search); or, by
        SciPy, an unconstrained method of `scipy.optimize.minimize` by its name ("BFGS", "L-BFGS-B",
        "Newton-CG", "Nelder-Mead", ...).
    tol: the largest element of the gradient that is accepted, relative to `|f| / max(1, |x|)` where that
        is above 1; by default the square root of the dtype's rounding error.
    max_steps, error, info: as for :func:`wengert.solve.root`; the info's residual is the gradient's largest element.
    linear_solver: for the derivative; "auto" is dense for at most 256 unknowns, else "cg".

    The derivative follows from the gradient being 0 at x, so the Hessian must be regular there
    (LinAlgError otherwise; ConvergenceError by "cg" where it is not positive definite).

    Raises ConvergenceError, GradientError, GraphError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.solve.minimize(lambda x: (x - 3.0) ** 2 + 1.0, 0.0)
    tensor(3.)
    >>> wg.grad(lambda a: wg.solve.minimize(lambda x: (x - a * a) ** 2, 0.0))(3.0)
    tensor(6.)
    """
    if method not in (*_OWN, *MINIMIZE_METHODS):
        fail(GraphError, f"minimize: method {method!r}", f"It is one of {', '.join((*_OWN, *MINIMIZE_METHODS))}.")
    if method in MINIMIZE_METHODS:
        optimize()
    system = System(f, x0, args, "minimize")
    if system.outs.size != 1 or len(system.outs.shapes) != 1:
        fail(ShapeError, f"minimize: f returned {system.outs.shapes}, not a scalar", "Sum it.")
    if tol is None:
        tol = default_tolerance(system.dtype, 1 / 2)

    def run(v: Tensor, *a: Tensor) -> Solved:
        return _minimize(lambda u: system.scalar(u, *a), v, method, tol, max_steps)

    found = solve_equation(
        "minimize",
        grad(system.scalar),
        run,
        [system.start],
        system.tensors,
        linear=linear_solver,
        symmetric=True,
        traces=method in _OWN and system.closed.traced,
        strict=error,
    )
    x = system.pytree(found.solution)
    return (x, info_of(found)) if info else x


def _minimize(f: Callable[[Tensor], Tensor], v: Tensor, method: str, tol: float, max_steps: int) -> Solved:
    both = value_and_grad(f)
    if method == "newton":
        v, steps = newton_trust_region(f, grad(f), v, tol, max_steps)
    elif method in _OWN:
        v, steps = descend(both, v, method, tol, max_steps)
    else:
        v, steps = scipy_minimize(f, v, method, tol, max_steps)
    value, gradient = both(v)
    left = largest(gradient)
    return Solved(v, stationary(v, value, gradient, tol), steps, left)
