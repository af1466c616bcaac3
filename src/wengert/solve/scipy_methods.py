"""The root finders and minimisers of SciPy, with Wengert's derivatives; SciPy is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.errors import ShapeError, WengertError, fail
from ..core.mode import no_grad
from ..core.tensor import Tensor, asarray, wrap
from ..transforms.derivatives.functional import value_and_grad
from ..transforms.jacobians.jacobian import hvp, jacobian
from .common import Solved, largest
from .implicit import on_values

_WITH_JACOBIAN = ("hybr", "lm")
ROOT_METHODS = (
    *_WITH_JACOBIAN,
    "broyden1",
    "broyden2",
    "linearmixing",
    "diagbroyden",
    "excitingmixing",
    "krylov",
    "df-sane",
)
_NO_GRADIENT = ("Nelder-Mead", "Powell", "COBYLA")
_HESSIAN = ("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr")
MINIMIZE_METHODS = (*_NO_GRADIENT, "CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", *_HESSIAN)


class MissingSciPy(WengertError, ImportError):
    """An error for a method of SciPy's where SciPy is not installed."""


def optimize() -> Any:
    """Return the module scipy.optimize. Raises MissingSciPy where it is not installed."""
    try:
        import scipy.optimize
    except ImportError:
        fail(MissingSciPy, "this method is SciPy's, which is not installed", "pip install wengert[solve]")
    return scipy.optimize


def _count(steps: Any) -> Tensor:
    return wrap(np.asarray(steps, np.int64))


def scalar_root(f: Callable[[Tensor], Tensor], start: Sequence[Tensor], tol: float, max_steps: int) -> Solved:
    """Find one number's root by Brent's method."""
    on_values(start, "root by brentq")
    if start[0].size != 1:
        fail(ShapeError, f"root by brentq of {start[0].size} unknowns", 'method="chandrupatla" takes any number.')
    dtype = start[0].dtype

    def value(x: float) -> float:
        return float(f(wrap(np.asarray([x], dtype)))._array[0])

    low, high = (float(e._array[0]) for e in start[1:])
    if value(low) * value(high) > 0:
        x, good, steps = 0.5 * (low + high), False, 0
    else:
        rtol = max(tol, 4 * np.finfo(np.float64).eps)
        x, found = optimize().brentq(
            value, low, high, xtol=np.finfo(dtype).tiny, rtol=rtol, maxiter=max_steps, full_output=True, disp=False
        )
        good, steps = found.converged, found.iterations
    v = wrap(np.asarray([x], dtype))
    return Solved(v, wrap(np.asarray(good)), _count(steps), largest(f(v)))


def scipy_root(f: Callable[[Tensor], Tensor], v: Tensor, method: str, tol: float, max_steps: int) -> Solved:
    """Solve by `scipy.optimize.root`, with the Jacobian where the method takes one."""
    on_values([v], f"root by {method}")
    options: dict[str, Any] = {"maxfev" if method == "df-sane" else "maxiter": max_steps}
    if method in _WITH_JACOBIAN:
        options = {"maxiter" if method == "lm" else "maxfev": max_steps * (v.size + 1)}
    else:
        options["fatol"] = tol
    found = optimize().root(
        lambda x: np.asarray(f(wrap(x.astype(v.dtype)))._array, np.float64),
        np.asarray(v._array, np.float64),
        method=method,
        jac=(lambda x: np.asarray(jacobian(f)(wrap(x.astype(v.dtype)))._array, np.float64))
        if method in _WITH_JACOBIAN
        else None,
        tol=tol,
        options=options,
    )
    x = wrap(np.asarray(found.x).reshape(v.shape).astype(v.dtype))
    residual = largest(f(x))
    # SciPy's tests are each method's own, and some say success far from a root.
    good = (residual <= tol) | _relative(f, x, tol)
    return Solved(x, good, _count(getattr(found, "nit", getattr(found, "nfev", 0))), residual)


def _relative(f: Callable[[Tensor], Tensor], x: Tensor, tol: float) -> Tensor:
    """Return whether Newton's step is within the tolerance of the unknowns."""
    matrix, value = jacobian(f)(x)._array, f(x)._array
    try:
        step = np.linalg.solve(matrix, value)
    except np.linalg.LinAlgError:
        return wrap(np.asarray(False))
    return wrap(np.asarray(np.max(abs(step), initial=0) <= tol * np.max(abs(x._array), initial=0)))


def scipy_minimize(
    f: Callable[[Tensor], Tensor], v: Tensor, method: str, tol: float, max_steps: int
) -> tuple[Tensor, Tensor]:
    """Minimise by `scipy.optimize.minimize` with the gradient; return the minimiser and the steps."""
    on_values([v], f"minimize by {method}")

    def at(x: Any) -> Tensor:
        return asarray(np.asarray(x, v.dtype))

    def both(x: Any) -> tuple[float, Any]:
        value, slope = value_and_grad(f)(at(x))
        return float(value._array), np.asarray(slope._array, np.float64)

    def value(x: Any) -> float:
        with no_grad():
            return float(f(at(x))._array)

    extra: dict[str, Any] = {}
    if method not in _NO_GRADIENT:
        extra["jac"] = True
    if method in _HESSIAN:
        extra["hessp"] = lambda x, t: np.asarray(hvp(f, (at(x),), (at(t),))._array, np.float64)
    options: dict[str, Any] = {"maxiter": max_steps}
    if method in ("CG", "BFGS", "L-BFGS-B", "TNC", "trust-ncg", "trust-krylov", "trust-constr"):
        options["gtol"] = 0.1 * tol
    if method in ("L-BFGS-B", "SLSQP"):
        options["ftol"] = 0.0
    if method == "TNC":
        options = {"maxfun": max_steps * 20, "gtol": tol, "ftol": 0.0, "xtol": 0.0}
    found = optimize().minimize(
        value if method in _NO_GRADIENT else both,
        np.asarray(v._array, np.float64),
        method=method,
        tol=tol if method in (*_NO_GRADIENT, "Newton-CG", "SLSQP") else None,
        options=options,
        **extra,
    )
    x = wrap(np.asarray(found.x).reshape(v.shape).astype(v.dtype))
    return x, _count(getattr(found, "nit", found.nfev))
