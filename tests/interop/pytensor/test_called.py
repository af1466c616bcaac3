"""Ops of LAPACK's and SciPy's that are called back, Bessel functions of real orders, and PyMC's own ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pytensor", reason="the package pytensor is not installed")

import mpmath
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.slinalg import qz, schur, solve
from scipy import special

from wengert.interop.pytensor import why_not

X = np.linspace(0.1, 30.0, 50)
SHAPES = np.linspace(0.3, 8.0, 50)
SHARES = np.linspace(0.01, 0.99, 50)
MATRIX = np.random.default_rng(0).normal(size=(4, 4))
BAND = np.diag(np.arange(3.0, 8.0)) + np.diag(np.ones(4), 1) + np.diag(np.full(4, 0.5), -1)
RIGHT = np.arange(5.0)

# What is built, of what, and with regard to which inputs there are gradients.
CASES: dict[str, tuple[Callable[..., Any], list[Any], tuple[int, ...]]] = {
    "jv": (pt.jv, [np.array(2.3), X], (1,)),
    "iv": (pt.iv, [np.array(0.7), X], (1,)),
    "kv": (pt.kv, [np.array(2.3), X], (1,)),
    "kve": (pt.kve, [np.linspace(-3.0, 8.0, 50), X], (1,)),
    "owens_t": (pt.owens_t, [np.linspace(-3.0, 8.0, 50), X], (0, 1)),
    "gammaincinv": (pt.gammaincinv, [SHAPES, SHARES], (1,)),
    "gammainccinv": (pt.gammainccinv, [SHAPES, SHARES], (1,)),
    "betaincinv": (lambda a, x: pt.betaincinv(a, a + 1.0, x), [SHAPES, SHARES], (1,)),
    "hyp2f1": (lambda x: pt.hyp2f1(0.5, 1.5, 2.5, x), [0.8 * SHARES], ()),
    "schur": (lambda a: list(schur(a)), [MATRIX], ()),
    "schur of a stack": (lambda a: list(schur(a)), [np.stack([MATRIX, MATRIX + 1.0])], ()),
    "complex schur": (lambda a: list(schur(a, output="complex")), [MATRIX], ()),
    "qz": (lambda a, b: list(qz(a, b)), [MATRIX, MATRIX @ MATRIX.T], ()),
    "tridiagonal": (lambda a, b: solve(a, b, assume_a="tridiagonal"), [BAND, RIGHT], (0, 1)),
    "tridiagonal stack": (
        lambda a, b: solve(a, b, assume_a="tridiagonal", b_ndim=2),
        [np.stack([BAND, BAND + 0.1 * np.eye(5)]), np.ones((2, 5, 3))],
        (0, 1),
    ),
    "banded": (lambda a, b: solve(a, b, assume_a="banded"), [BAND, RIGHT], (0, 1)),
}


@pytest.mark.filterwarnings("error:a PyTensor function runs by Python")
@pytest.mark.parametrize("name", CASES)
def test_as_pytensor_computes_them(name: str) -> None:
    build, values, wanted = CASES[name]
    given = [pt.as_tensor_variable(v).type() for v in values]
    built = build(*given)
    outputs = built if isinstance(built, list) else [built]
    if wanted:
        outputs = [*outputs, *pytensor.grad(pt.add(*(o.sum() for o in outputs), 0.0), [given[i] for i in wanted])]
    ours, theirs = (pytensor.function(given, outputs, mode=mode) for mode in ("WENGERT", "FAST_COMPILE"))
    assert not why_not(ours.maker.fgraph)
    for a, b in zip(ours(*values), theirs(*values), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("order", [0.0, 0.3, 2.5, 17.0, 60.0, -1.5])
def test_modified_bessel_functions_of_the_second_kind(order: float) -> None:
    x = pt.dvector()
    at = 10.0 ** np.linspace(-6, 4, 30)
    at = at[np.isfinite(special.kve(order, at))]
    with mpmath.workdps(30):
        want = [float(mpmath.besselk(order, v) * mpmath.exp(v)) for v in map(mpmath.mpf, at)]
    found = pytensor.function([x], pt.kve(order, x), mode="WENGERT")
    np.testing.assert_allclose(found(at), want, rtol=1e-12)
    np.testing.assert_array_equal(found([0.0, np.inf, -1.0]), [np.inf, 0.0, np.nan])


def _models() -> dict[str, Callable[[Any], Any]]:
    def with_bessel(pm: Any) -> None:
        x = pm.HalfNormal("x")
        pm.Potential("p", pt.log(pt.kv(0.7, x + 0.1)))

    at = np.linspace(0.0, 1.0, 20)
    return {
        "Interpolated": lambda pm: pm.Interpolated("x", at, at**2 + 0.1),
        "LKJCorr": lambda pm: pm.LKJCorr("x", n=4, eta=1.5),
        "Kv": with_bessel,
    }


@pytest.mark.filterwarnings("ignore:PyTensor could not link")
@pytest.mark.parametrize("name", _models())
def test_models_of_pymc(name: str) -> None:
    pm = pytest.importorskip("pymc", reason="the package pymc is not installed")
    pytest.importorskip("nutpie", reason="the package nutpie is not installed")
    from wengert.interop.pymc import compile as compiled

    with pm.Model() as model:
        _models()[name](pm)
    inputs = list(model.value_vars)
    logp = model.logp()
    outputs = [logp, *pytensor.grad(logp, inputs)]
    ours, theirs = (pytensor.function(inputs, outputs, mode=mode) for mode in ("WENGERT", "FAST_COMPILE"))
    assert not why_not(ours.maker.fgraph)
    rng, begin = np.random.default_rng(0), model.initial_point()
    for _ in range(5):
        values = [begin[v.name] + 0.5 * rng.normal(size=np.shape(begin[v.name])) for v in inputs]
        for a, b in zip(ours(*values), theirs(*values), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert compiled(model) is not None


def test_a_matrix_that_is_not_positive_definite() -> None:
    pytest.importorskip("pymc", reason="the package pymc is not installed")
    from pymc.distributions.multivariate import PosDefMatrix

    import wengert.interop.pymc  # noqa: F401

    x = pt.dmatrix()
    f = pytensor.function([x], PosDefMatrix()(x), mode="WENGERT")
    assert not why_not(f.maker.fgraph)
    for matrix in (np.eye(3), -np.eye(3), np.ones((2, 2)), np.array([[1.0, 2.0], [2.0, 1.0]]), BAND + BAND.T):
        assert bool(f(matrix)) == (np.linalg.eigvalsh(matrix)[0] > 1e-12)
    assert not f(np.full((2, 2), np.nan))
