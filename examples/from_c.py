"""An integrator and an optimiser in C that call compiled functions without Python.

    python examples/from_c.py         # needs a C compiler, cc; NLopt's part needs: pip install nlopt

The integrator is a Runge-Kutta method with a step size of its own, which calls its right side as CVODE, GSL and others
do; the optimiser is NLopt's L-BFGS. Both get addresses of compiled functions, and no call of theirs touches Python.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg

INTEGRATOR = r"""
#include <math.h>
#include <string.h>

/* A compiled function of a number and a vector, as address("arrays") declares it. */
typedef int (*compiled)(const void *const *inputs, void *const *outputs, void *user);

/* The right side of y' = f(t, y) as solvers call it. */
static int rhs(double t, const double *y, double *ydot, void *user) {
    const void *inputs[] = {&t, y};
    void *outputs[] = {ydot};
    return ((compiled)user)(inputs, outputs, 0);
}

/* Bogacki and Shampine's pair of orders 3 and 2 (1989): integrates y from t to end, returns the calls of the right
   side, or -1 where one failed. */
int integrate(compiled f, int n, double t, double end, double *y, double tolerance) {
    double k[4][n], next[n], at[n], h = 1e-3 * (end - t);
    int calls = 1;
    if (rhs(t, y, k[0], f)) return -1;
    while (t < end) {
        if (t + h > end) h = end - t;
        for (int i = 0; i < n; i++) at[i] = y[i] + h / 2 * k[0][i];
        if (rhs(t + h / 2, at, k[1], f)) return -1;
        for (int i = 0; i < n; i++) at[i] = y[i] + 3 * h / 4 * k[1][i];
        if (rhs(t + 3 * h / 4, at, k[2], f)) return -1;
        for (int i = 0; i < n; i++) next[i] = y[i] + h / 9 * (2 * k[0][i] + 3 * k[1][i] + 4 * k[2][i]);
        if (rhs(t + h, next, k[3], f)) return -1;
        calls += 3;
        double error = 0;
        for (int i = 0; i < n; i++) {
            double e = h / 72 * (-5 * k[0][i] + 6 * k[1][i] + 8 * k[2][i] - 9 * k[3][i]);
            error = fmax(error, fabs(e) / (tolerance * (1 + fabs(next[i]))));
        }
        if (!isfinite(error)) return -1;
        if (error <= 1) {
            t += h;
            memcpy(y, next, n * sizeof(double));
            memcpy(k[0], k[3], n * sizeof(double));
        }
        h *= fmin(5, fmax(0.2, 0.9 * cbrt(1 / fmax(error, 1e-12))));
    }
    return calls;
}
"""


def compiled(source: str, folder: Path) -> ctypes.CDLL:
    """The library that a C compiler makes of a source."""
    cc = shutil.which("cc")
    if cc is None:
        raise SystemExit("The integrator needs a C compiler, cc.")
    (folder / "integrator.c").write_text(source)
    library = folder / "integrator.so"
    subprocess.run([cc, "-O2", "-shared", "-fPIC", "-o", library, folder / "integrator.c", "-lm"], check=True)
    return ctypes.CDLL(str(library))


def lotka_volterra(t: Any, y: Any) -> Any:
    """Hares and lynxes (Lotka 1925): what they gain and lose, per unit of time."""
    hares, lynxes = y[0], y[1]
    return wg.stack([1.1 * hares - 0.4 * hares * lynxes, 0.1 * hares * lynxes - 0.4 * lynxes])


def integrated(end: float, tolerance: float = 1e-9) -> tuple[np.ndarray, int]:
    """Hares and lynxes at a time, and how often the integrator in C called their right side."""
    specs = wg.spec((), "float64"), wg.spec(2, "float64")
    field = wg.jit(lotka_volterra).lower(*specs).compile().address("arrays").value
    y = np.array([10.0, 5.0])
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(INTEGRATOR, Path(folder))
        number = ctypes.c_double
        calls = library.integrate(
            ctypes.c_void_p(field.address),
            len(y),
            number(0.0),
            number(end),
            y.ctypes.data_as(ctypes.POINTER(number)),
            number(tolerance),
        )
    if calls < 0:
        raise ArithmeticError("the right side failed")
    return y, calls


def rosenbrock(x: Any) -> Any:
    """Rosenbrock's function (1960), whose least value, 0, is at (1, ..., 1)."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def minimised(n: int) -> tuple[np.ndarray, float]:
    """Where NLopt's L-BFGS finds the least value of Rosenbrock's function, and that value."""
    import nlopt

    objective = wg.jit(rosenbrock).lower(wg.spec(n, "float64")).compile().address().value_and_grad
    # NLopt's Python module is its C library, too.
    library = ctypes.CDLL(nlopt._nlopt.__file__)
    library.nlopt_create.restype = ctypes.c_void_p
    x, least = np.full(n, -0.5), ctypes.c_double()
    problem = ctypes.c_void_p(library.nlopt_create(nlopt.LD_LBFGS, n))
    library.nlopt_set_min_objective(problem, ctypes.c_void_p(objective.address), None)
    library.nlopt_set_xtol_rel(problem, ctypes.c_double(1e-10))
    status = library.nlopt_optimize(problem, x.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), ctypes.byref(least))
    library.nlopt_destroy(problem)
    if status < 0:
        raise ArithmeticError(f"NLopt ended with {status}")
    return x, least.value


def main() -> None:
    y, calls = integrated(20.0)
    print(f"at t = 20: {y[0]:.6f} hares, {y[1]:.6f} lynxes ({calls} calls of the right side)")
    try:
        x, least = minimised(10)
    except ImportError:
        print("NLopt is not installed: pip install nlopt")
    else:
        print(f"NLopt's least value of Rosenbrock's function: {least:.1e}, at {np.round(x, 6)}")


if __name__ == "__main__":
    main()
