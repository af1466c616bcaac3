"""Evaluations per second by each kind of caller: C, SciPy, cffi, ctypes, and Python callbacks of the same function.

python benchmarks/callers.py           # a Markdown table; needs cc, SciPy and cffi, or leaves their rows out
python benchmarks/callers.py --smoke   # check results at few evaluations, time nothing

A row's callers take turns, in rounds; figures are medians. Every callback calls the compiled function, as a program
that has no C function pointer would.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import wengert as wg

DOUBLES = ctypes.POINTER(ctypes.c_double)
LOOPS = r"""
double values(double (*f)(int, const double *, void *), int n, double *x, int times) {
    double sum = 0;
    for (int i = 0; i < times; i++) { x[0] += 1e-9; sum += f(n, x, 0); }
    return sum;
}
double gradients(double (*f)(unsigned, const double *, double *, void *), int n, double *x, double *g, int times) {
    double sum = 0;
    for (int i = 0; i < times; i++) { x[0] += 1e-9; sum += f(n, x, g, 0) + g[n - 1]; }
    return sum;
}
double products(int (*f)(int, const double *, const double *, double *, void *), int n, double *x, double *v, double *g,
                int times) {
    double sum = 0;
    for (int i = 0; i < times; i++) { x[0] += 1e-9; f(n, x, v, g, 0); sum += g[n - 1]; }
    return sum;
}
"""


def rosenbrock(x: Any) -> Any:
    """Rosenbrock's function of ten variables."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def in_c() -> ctypes.CDLL | None:
    """The loops, compiled; None without a compiler."""
    cc = shutil.which("cc")
    if cc is None:
        return None
    folder = Path(tempfile.mkdtemp())
    (folder / "loops.c").write_text(LOOPS)
    subprocess.run([cc, "-O2", "-shared", "-fPIC", "-o", folder / "loops.so", folder / "loops.c"], check=True)
    code = ctypes.CDLL(str(folder / "loops.so"))
    for name in ("values", "gradients", "products"):
        getattr(code, name).restype = ctypes.c_double
    return code


Run = Callable[[int], float]


def loop_cases(code: ctypes.CDLL, n: int = 10) -> dict[str, tuple[dict[str, Run], str]]:
    """A loop in C that calls the function pointer, and the same loop that calls Python."""
    made = wg.jit(rosenbrock).lower(wg.spec(n, "float64")).compile().address()
    value, both = wg.jit(rosenbrock), wg.jit(wg.value_and_grad(rosenbrock))
    hvp = wg.jit(lambda x, v: wg.jvp(wg.grad(rosenbrock), (x,), (v,))[1])
    view = np.ctypeslib.as_array

    @ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, DOUBLES, ctypes.c_void_p)
    def python_value(n: int, x: Any, _: Any) -> float:
        return float(value(wg.asarray(view(x, (n,)))))

    @ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_uint, DOUBLES, DOUBLES, ctypes.c_void_p)
    def python_both(n: int, x: Any, g: Any, _: Any) -> float:
        found, gradient = both(wg.asarray(view(x, (n,))))
        view(g, (n,))[:] = gradient.numpy()
        return float(found)

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, DOUBLES, DOUBLES, DOUBLES, ctypes.c_void_p)
    def python_hvp(n: int, x: Any, v: Any, g: Any, _: Any) -> int:
        view(g, (n,))[:] = hvp(wg.asarray(view(x, (n,))), wg.asarray(view(v, (n,)))).numpy()
        return 0

    def runs(loop: Any, function: Any, callback: Any, *arrays: int) -> dict[str, Run]:
        def run(callee: Any, times: int) -> float:
            x, rest = np.linspace(0.5, 1.5, n), [np.ones(n) for _ in arrays]
            return float(loop(callee, n, *(a.ctypes.data_as(DOUBLES) for a in (x, *rest)), times))

        return {
            "C function": lambda times: run(ctypes.c_void_p(function.address), times),
            "Python callback": lambda times: run(callback, times),
        }

    return {
        "a loop in C: value": (runs(code.values, made.value, python_value), "Python callback"),
        "a loop in C: value and gradient": (
            runs(code.gradients, made.value_and_grad, python_both, 1),
            "Python callback",
        ),
        "a loop in C: Hessian times vector": (runs(code.products, made.hvp, python_hvp, 1, 1), "Python callback"),
    }


def python_cases(n: int = 10) -> dict[str, tuple[dict[str, Run], str]]:
    """Python that calls the function: by the pointer, and as itself."""
    made = wg.jit(rosenbrock).lower(wg.spec(n, "float64")).compile().address().value
    by_ctypes, value = made.ctypes(), wg.jit(rosenbrock)
    x = np.linspace(0.5, 1.5, n)
    at, t = x.ctypes.data_as(DOUBLES), wg.asarray(x)
    runs: dict[str, Run] = {
        "ctypes": lambda times: sum(by_ctypes(n, at, None) for _ in range(times)),
        "Python": lambda times: sum(float(value(t)) for _ in range(times)),
    }
    try:
        import cffi

        ffi = cffi.FFI()
        by_cffi, given = made.cffi(ffi), ffi.cast("double *", x.ctypes.data)
        runs = {"cffi": lambda times: sum(by_cffi(n, given, ffi.NULL) for _ in range(times)), **runs}
    except ImportError:
        pass
    return {"a loop in Python: value": (runs, "Python")}


def quad_cases() -> dict[str, tuple[dict[str, Run], str]]:
    """Integrals by SciPy, whose loop is compiled."""
    try:
        from scipy.integrate import quad
    except ImportError:
        return {}
    f = wg.jit(lambda x: wg.exp(-0.5 * x * x) * wg.cos(3 * x))
    number = wg.spec((), "float64")
    low = f.lower(number).compile().address("number").value.scipy()
    python = lambda x: float(f(x))

    def run(f: Any, times: int) -> float:
        found, done = 0.0, 0
        while done < times:  # 21 evaluations are the first rule
            value, _, info = quad(f, -8.0, 8.0, full_output=True)
            found, done = value, done + info["neval"]
        return found

    runs = {"LowLevelCallable": lambda times: run(low, times), "Python callback": lambda times: run(python, times)}
    return {"scipy.integrate.quad": (runs, "Python callback")}


def check(runs: dict[str, Run]) -> None:
    """Raise where callers differ."""
    found = {name: run(40) for name, run in runs.items()}
    first = next(iter(found.values()))
    for name, value in found.items():
        if not np.isclose(value, first, rtol=1e-12):
            raise AssertionError(f"{name}: {value}, not {first}")


def timed(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Microseconds per evaluation, the median over rounds in which callers take turns."""
    times = {}
    for name, run in runs.items():
        times[name] = 100
        while True:
            begin = perf_counter()
            run(times[name])
            if perf_counter() - begin > 0.01:
                break
            times[name] *= 3
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            begin = perf_counter()
            run(times[name])
            samples[name].append((perf_counter() - begin) / times[name] * 1e6)
    return {name: statistics.median(found) for name, found in samples.items()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="check results, time nothing")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    code = in_c()
    cases = {**({} if code is None else loop_cases(code)), **python_cases(), **quad_cases()}
    if code is None:
        print("There is no C compiler: the loops in C are left out.")
    for runs, _ in cases.values():
        check(runs)
    if options.smoke:
        print(f"{len(cases)} kinds of caller agree.")
        return
    print("| caller | called by | µs each | evaluations a second | times faster |\n| --- | --- | --- | --- | --- |")
    for case, (runs, last) in cases.items():
        found = timed(runs, options.rounds)
        for name, each in found.items():
            print(f"| {case} | {name} | {each:.3f} | {1e6 / each:,.0f} | {found[last] / each:.1f} |")


if __name__ == "__main__":
    main()
