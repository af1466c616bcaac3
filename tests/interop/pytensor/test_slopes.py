"""Derivatives of incomplete functions in their parameters in the mode "WENGERT", against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")
pytensor = pytest.importorskip("pytensor", reason="pytensor is an extra")

import pytensor.tensor as pt

from wengert.interop.pytensor import slopes

A = np.array([0.05, 0.7, 3.0, 11.0, 40.0, 200.0])
X = np.array([0.2, 4.0, 1.5, 14.0, 30.0, 230.0])
B = np.array([0.3, 2.0, 900.0, 4.0, 25.0, 60.0])
Z = np.array([0.9, 0.3, 0.004, 0.8, 0.7, 0.75])


def slope(fn: Any, *at: float) -> float:
    """The derivative of a function in its first argument."""
    with mpmath.workdps(40):
        return float(mpmath.diff(lambda s: fn(s, *at[1:]), at[0], h=mpmath.mpf(10) ** -12))


def compiled(build: Any, *values: np.ndarray) -> Any:
    inputs = [pt.as_tensor(v).type() for v in values]
    return pytensor.function(inputs, build(*inputs), mode="WENGERT")


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_of_incomplete_gamma_functions(name: str) -> None:
    """PyTensor's own series has no right digit at (40, 30)."""
    f = compiled(lambda a, x: pt.grad((2.0 * getattr(pt, name)(a, x)).sum(), a), A, X)
    ends = (lambda x: (0, x)) if name == "gammainc" else (lambda x: (x, mpmath.inf))
    want = [2 * slope(lambda s, q: mpmath.gammainc(s, *ends(q), regularized=True), a, x) for a, x in zip(A, X)]
    np.testing.assert_allclose(f(A, X), want, rtol=1e-11)
    assert not _loops(f)


def test_of_incomplete_beta_functions() -> None:
    f = compiled(lambda a, b, x: pt.grad(pt.betainc(a, b, x).sum(), [a, b]), A, B, Z)
    true = lambda s, b, x: mpmath.betainc(s, b, 0, x, regularized=True)
    in_b = lambda s, a, x: mpmath.betainc(a, s, 0, x, regularized=True)
    found = f(A, B, Z)
    np.testing.assert_allclose(found[0], [slope(true, a, b, x) for a, b, x in zip(A, B, Z)], rtol=1e-11)
    np.testing.assert_allclose(found[1], [slope(in_b, b, a, x) for a, b, x in zip(A, B, Z)], rtol=1e-11)
    assert not _loops(f)


def _loops(function: Any) -> list[Any]:
    """The series that a function still has."""
    return [n for n in function.maker.fgraph.apply_nodes if slopes._loop(n)]


def test_of_operands_that_broadcast_and_of_single_precision() -> None:
    f = compiled(lambda a, x: pt.grad(pt.gammaincc(a[:, None], x[None, :]).sum(), a), A, X)
    want = [sum(slope(lambda s, q: mpmath.gammainc(s, q, regularized=True), a, x) for x in X) for a in A]
    np.testing.assert_allclose(f(A, X), want, rtol=1e-11)
    g = compiled(lambda a, x: pt.grad(pt.gammaincc(a, x).sum(), a), A.astype("f4"), X.astype("f4"))
    found = g(A.astype("f4"), X.astype("f4"))
    want = [slope(lambda s, q: mpmath.gammainc(s, q, regularized=True), a, x) for a, x in zip(A, X)]
    np.testing.assert_allclose(found, want, rtol=3e-5)


def test_ops_run_by_python() -> None:
    """A function that PyTensor's virtual machine runs has the same ops."""
    for op, given in ((slopes._UPPER, (40.0, 30.0)), (slopes._BETA["beta_b"], (2.0, 3.0, 0.4))):
        inputs = [pt.dscalar() for _ in given]
        f = pytensor.function(inputs, op(*inputs), mode="FAST_COMPILE")
        g = pytensor.function(inputs, op(*inputs), mode="WENGERT")
        np.testing.assert_allclose(f(*given), g(*given), rtol=1e-12)
