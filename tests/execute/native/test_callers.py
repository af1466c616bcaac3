"""C functions of programs, called by ctypes, cffi, SciPy and compiled C, against the functions themselves."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from wengert.core.errors import DTypeError, GradientError, GraphError

HERE = os.path.basename(__file__)
VECTOR = wg.spec(10, "float64")
NUMBER = wg.spec((), "float64")
MATRIX = wg.tensor(np.random.default_rng(0).normal(size=(10, 10)))
DOUBLES = ctypes.POINTER(ctypes.c_double)


def functions(fn: Any, *specs: Any, form: Any = None) -> Any:
    return wg.jit(fn).lower(*specs).compile().address(form)


def doubles(array: np.ndarray) -> Any:
    return array.ctypes.data_as(DOUBLES)


def addresses(arrays: list[np.ndarray]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])


def call_arrays(function: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> int:
    return int(function.ctypes()(addresses(inputs), addresses(outputs), None))


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def with_products(x: Any) -> Any:
    return wg.exp(-0.5 * (x @ (MATRIX @ x)) ** 2) + wg.sin(x).sum()


def large(x: Any) -> Any:
    rows = wg.exp(wg.outer(x, wg.arange(400.0, dtype=wg.float64) / 400))
    return wg.linalg.norm(rows @ rows.T)


@pytest.mark.parametrize("fn", [rosenbrock, with_products, large])
def test_derivatives_of_a_vector(fn: Any) -> None:
    made = functions(fn, VECTOR)
    assert made.form == "vector"
    rng = np.random.default_rng(1)
    x, v, gradient, product = rng.normal(size=10), rng.normal(size=10), np.empty(10), np.empty(10)
    t = wg.asarray(x)
    value, both, hvp = (f.ctypes() for f in (made.value, made.value_and_grad, made.hvp))
    assert np.isclose(value(10, doubles(x), None), float(fn(t)), rtol=1e-13)
    assert np.isclose(both(10, doubles(x), doubles(gradient), None), float(fn(t)), rtol=1e-13)
    np.testing.assert_allclose(gradient, wg.grad(fn)(t).numpy(), rtol=1e-11)
    assert both(10, doubles(x), None, None) == value(10, doubles(x), None)
    assert hvp(10, doubles(x), doubles(v), doubles(product), None) == 0
    np.testing.assert_allclose(product, wg.hessian(fn)(t).numpy() @ v, rtol=1e-10)
    for _ in range(6):
        x += 0.01
        assert np.isclose(value(10, doubles(x), None), float(fn(wg.asarray(x))), rtol=1e-13)


def test_another_size_gives_no_number() -> None:
    made = functions(rosenbrock, VECTOR)
    x, product = np.zeros(10), np.zeros(10)
    assert np.isnan(made.value.ctypes()(9, doubles(x), None))
    assert np.isnan(made.value_and_grad.ctypes()(11, doubles(x), doubles(product), None))
    assert made.hvp.ctypes()(9, doubles(x), doubles(x), doubles(product), None) == -2


def test_several_arguments_follow_each_other() -> None:
    made = functions(lambda a, x, b: a * (x**3).sum() + b, NUMBER, wg.spec((2, 2), "float64"), NUMBER)
    given, gradient = np.array([2.0, 1.0, 2.0, 3.0, 4.0, 0.5]), np.empty(6)
    assert made.value_and_grad.ctypes()(6, doubles(given), doubles(gradient), None) == 200.5
    assert gradient.tolist() == [100.0, 6.0, 24.0, 54.0, 96.0, 1.0]


def test_a_number() -> None:
    made = functions(lambda x: x**3, NUMBER, form="number")
    derivative = ctypes.c_double()
    assert made.value.ctypes()(2.0, None) == 8.0
    assert made.value_and_grad.ctypes()(2.0, ctypes.byref(derivative), None) == 8.0
    assert derivative.value == 12.0
    assert made.value_and_grad.ctypes()(2.0, None, None) == 8.0
    assert made.hvp.ctypes()(2.0, 0.5, None) == 6.0
    assert made.value.signature == "double value(double x, void *user)"


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "complex128"])
def test_arrays_of_any_dtype(dtype: str) -> None:
    x = np.arange(12).reshape(3, 4).astype(dtype)
    fn = lambda x: (x.T, x, x[::2, 1:], wg.concat([x, x]), wg.zeros((0, 2)))
    made = functions(fn, wg.spec((3, 4), dtype))
    expected = [np.ascontiguousarray(o.numpy()) for o in fn(wg.asarray(x))]
    outputs = [np.empty_like(e) for e in expected]
    assert call_arrays(made.value, [x], outputs) == 0
    for found, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_arrays_and_derivatives() -> None:
    index = np.array([2, 0], np.int64)
    x, vector = np.arange(6, dtype="f4").reshape(3, 2), np.ones((3, 2), "f4")
    made = functions(lambda x, index: (x[index] ** 3).sum(), wg.spec((3, 2)), wg.spec(2, "int64"))
    assert made.form == "arrays"
    value, gradient, product = np.empty((), "f4"), np.empty((3, 2), "f4"), np.empty((3, 2), "f4")
    assert call_arrays(made.value_and_grad, [x, index], [value, gradient]) == 0
    assert (float(value), gradient.tolist()) == (190.0, [[0, 3], [0, 0], [48, 75]])
    assert call_arrays(made.hvp, [x, index, vector], [product]) == 0
    assert product.tolist() == [[0, 6], [0, 0], [24, 30]]


def test_an_index_out_of_range_is_told_by_the_status() -> None:
    made = functions(lambda x, index: x[index], VECTOR, wg.spec(2, "int64"))
    x, out = np.arange(10.0), np.empty(2)
    assert call_arrays(made.value, [x, np.array([3, -1])], [out]) == 0
    assert out.tolist() == [3.0, 9.0]
    assert call_arrays(made.value, [x, np.array([3, 10])], [out]) > 0


def test_loops() -> None:
    def newton(x: Any) -> Any:
        return wg.while_loop(lambda y: wg.abs(y * y - x) > 1e-12, lambda y: 0.5 * (y + x / y), wg.ones_like(x))

    def steps(x: Any) -> Any:
        return wg.scan(lambda c, _: (c * 0.5 + wg.sin(c), c), x, None, length=200)[0].sum()

    assert np.isclose(functions(newton, NUMBER, form="number").value.ctypes()(2.0, None), 2**0.5, rtol=1e-12)
    x, gradient = np.linspace(0, 1, 10), np.empty(10)
    functions(steps, VECTOR).value_and_grad.ctypes()(10, doubles(x), doubles(gradient), None)
    np.testing.assert_allclose(gradient, wg.grad(steps)(wg.asarray(x)).numpy(), rtol=1e-10)


def test_what_is_outside_is_taken_as_it_is() -> None:
    scale = wg.tensor(3.0, dtype=wg.float64)
    made = functions(lambda x: x * scale, NUMBER, form="number")
    with wg.no_grad():
        scale.mul_(2.0)
    assert made.value.ctypes()(1.0, None) == 3.0


@pytest.mark.parametrize("fn", [with_products, large])
def test_many_threads_at_once(fn: Any) -> None:
    made = functions(fn, VECTOR).value_and_grad.ctypes()
    points = np.random.default_rng(2).normal(size=(4, 10))
    wanted = []
    for x in points:
        gradient = np.empty(10)
        wanted.append((made(10, doubles(x), doubles(gradient), None), gradient.tolist()))
    wrong: list[int] = []

    def work(i: int) -> None:
        gradient = np.empty(10)
        for _ in range(200):
            value = made(10, doubles(points[i]), doubles(gradient), None)
            if (value, gradient.tolist()) != wanted[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_scipy() -> None:
    integrate = pytest.importorskip("scipy.integrate", reason="scipy is an extra")
    bell = functions(lambda x, a: wg.exp(-a * x * x), NUMBER, NUMBER).value.scipy()
    gc.collect()
    assert np.isclose(integrate.quad(bell, -np.inf, np.inf, args=(2.0,))[0], np.sqrt(np.pi / 2))
    number = functions(lambda x: wg.exp(-x * x), NUMBER, form="number").value.scipy()
    assert np.isclose(integrate.quad(number, -np.inf, np.inf)[0], np.sqrt(np.pi))
    box = functions(lambda x: x[0] * x[1] ** 2, wg.spec(2, "float64")).value.scipy()
    assert np.isclose(integrate.nquad(box, [(0, 1), (0, 2)])[0], 4 / 3)
    with pytest.raises(GraphError, match="a LowLevelCallable of double value_and_grad"):
        functions(rosenbrock, VECTOR).value_and_grad.scipy()


def test_cffi() -> None:
    cffi = pytest.importorskip("cffi", reason="cffi is an extra")
    ffi = cffi.FFI()
    made = functions(rosenbrock, VECTOR)
    x, gradient = ffi.new("double[10]", [0.5] * 10), ffi.new("double[10]")
    both = made.value_and_grad.cffi(ffi)
    gc.collect()
    assert both(10, x, gradient, ffi.NULL) == float(rosenbrock(wg.full(10, 0.5, dtype=wg.float64)))
    assert made.value.cffi()(10, x, cffi.FFI().NULL) == both(10, x, gradient, ffi.NULL)


C = r"""
/* A Runge-Kutta method, as ODE solvers call what they integrate; and a descent, as NLopt calls what it minimises. */
int solve(int (*f)(const void *const *, void *const *, void *), int n, double *y, double h, int steps) {
    double k[4][16], t, at[16];
    static const double c[4] = {0, 0.5, 0.5, 1};
    const void *in[2] = {&t, at};
    for (int s = 0; s < steps; s++) {
        for (int j = 0; j < 4; j++) {
            void *out[1] = {k[j]};
            t = (s + c[j]) * h;
            for (int i = 0; i < n; i++) at[i] = y[i] + (j ? c[j] * h * k[j - 1][i] : 0);
            int status = f(in, out, 0);
            if (status) return status;
        }
        for (int i = 0; i < n; i++) y[i] += h / 6 * (k[0][i] + 2 * k[1][i] + 2 * k[2][i] + k[3][i]);
    }
    return 0;
}
double descend(double (*f)(unsigned, const double *, double *, void *), unsigned n, double *x, double rate, int steps) {
    double g[16];
    for (int s = 0; s < steps; s++) {
        f(n, x, g, 0);
        for (unsigned i = 0; i < n; i++) x[i] -= rate * g[i];
    }
    return f(n, x, 0, 0);
}
"""


def test_compiled_c(tmp_path: Path) -> None:
    cc = shutil.which("cc")
    if cc is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "callers.c").write_text(C)
    library = tmp_path / "callers.so"
    subprocess.run([cc, "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "callers.c"], check=True)
    code = ctypes.CDLL(str(library))
    code.descend.restype = ctypes.c_double
    field = functions(lambda t, y: wg.stack([y[1], -y[0] + 0.0 * t]), NUMBER, wg.spec(2, "float64"))
    y = np.array([1.0, 0.0])
    status = code.solve(ctypes.c_void_p(field.value.address), 2, doubles(y), ctypes.c_double(0.01), 100)
    assert status == 0
    np.testing.assert_allclose(y, [np.cos(1), -np.sin(1)], rtol=1e-9)
    bowl = functions(lambda x: ((x - 3.0) ** 2).sum(), VECTOR)
    x = np.zeros(10)
    address = ctypes.c_void_p(bowl.value_and_grad.address)
    assert code.descend(address, 10, doubles(x), ctypes.c_double(0.25), 60) < 1e-20
    np.testing.assert_allclose(x, 3.0)


def refused(kind: type[Exception], match: str, fn: Any, *specs: Any, form: Any = None) -> None:
    def asked() -> Any:
        made = functions(fn, *specs, form=form)
        return made.value, made.value_and_grad

    with pytest.raises(kind, match=match) as caught:
        asked()
    assert HERE in str(caught.value).splitlines()[0]


def test_refusals() -> None:
    callback = lambda x: wg.callback(np.sum, wg.spec((), "float64"), x)
    refused(GraphError, "calls back|its node .* is computed by Python", callback, VECTOR)
    refused(GraphError, "draws random numbers", lambda x: (x * wg.random.normal(10)).sum(), VECTOR)
    counter = wg.zeros(())
    refused(GraphError, "writes to what is outside", lambda x: counter.add_(1.0) + x.sum(), VECTOR)
    refused(DTypeError, "as a C function of a number", lambda x: x.sum(), VECTOR, form="number")
    refused(DTypeError, "as a C function of a vector", lambda x: x.sum(), wg.spec(3), form="vector")
    refused(GraphError, "of the form 'rows'", lambda x: x.sum(), VECTOR, form="rows")
    refused(GradientError, "the gradient of .* as a C function", lambda x: x * 2, VECTOR)
    refused(GradientError, "the gradient of .* as a C function", lambda x: x.sum(), wg.spec(3, "int64"))
    with pytest.raises(GraphError, match="returns what is no tensor"):
        functions(lambda x: (x, None, 3), VECTOR)


def test_without_gradients() -> None:
    with wg.no_grad():
        lowered = functions(rosenbrock, VECTOR)
    x = np.full(10, 0.5)
    assert lowered.value.ctypes()(10, doubles(x), None) == float(rosenbrock(wg.asarray(x)))
    with pytest.raises(GradientError, match="no gradient flows to its result"):
        lowered.hvp
    recorded = wg.jit(rosenbrock).lower(VECTOR).compile()
    gradient = np.zeros(10)
    with wg.no_grad():
        both = recorded.address().value_and_grad.ctypes()
    both(10, doubles(x), doubles(gradient), None)
    np.testing.assert_allclose(gradient, wg.grad(rosenbrock)(wg.asarray(x)).numpy(), rtol=1e-12)


def test_a_decision_is_refused() -> None:
    def fn(x: Any) -> Any:
        return x * 2 if scale > 1.0 else x

    scale = wg.tensor(2.0)
    with pytest.raises(GraphError, match="decides by a tensor's value"):
        functions(fn, VECTOR)
