"""Rules for what PyTensor does with whole arrays: searches, choices, convolutions, decompositions, loops that end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")
pytensor = pytest.importorskip("pytensor", reason="pytensor is an extra")

import pytensor.tensor as pt
from pytensor.scan.utils import until
from pytensor.tensor import nlinalg, slinalg

from in_pytensor import DEFINITE, POSITIVE, RNG, SQUARE, X, check
from wengert.interop.pytensor import why_not

WHOLE = np.array([[0, 5, 2], [3, 1, 4]])


def test_choices() -> None:
    choices = RNG.normal(size=(3, 2, 4))
    for mode in ("wrap", "clip"):
        check(lambda a, c, m=mode: pt.choose(a, c, mode=m), np.array([[0, 4, -1, 2]]), choices)
    check(lambda a, c: pt.choose(a, c), np.array([[0, 1, 2, 1]]), choices)
    f = pytensor.function([a := pt.lvector(), c := pt.dmatrix()], pt.choose(a, c), mode="WENGERT")
    with pytest.raises(ValueError, match="choice array"):
        f([0, 3], np.ones((3, 2)))
    check(lambda x, p: pt.basic.permute_row_elements(x, p), X, np.array([2, 0, 3, 1]))
    check(lambda x, p: pt.basic.permute_row_elements(x, p, True), X, np.array([2, 0, 3, 1]))


def test_searches() -> None:
    edges = np.sort(RNG.normal(size=7))
    for side in ("left", "right"):
        check(lambda x, v, s=side: pt.searchsorted(x, v, side=s), edges, X)
    order = np.argsort(edges[::-1])
    check(lambda x, v, o: pt.searchsorted(x, v, sorter=o), edges[::-1].copy(), X, order)


def test_numbers_of_places() -> None:
    for order in ("C", "F"):
        check(lambda n, o=order: list(pt.unravel_index(n, (2, 3), order=o)), WHOLE)
        for mode in ("raise", "wrap", "clip"):
            i, j = np.array([1, 0, 1]), np.array([2, 0, 1])
            check(lambda i, j, o=order, m=mode: pt.ravel_multi_index((i, j), (2, 3), mode=m, order=o), i, j)
    check(lambda i, j: pt.ravel_multi_index((i, j), (2, 3), mode="wrap"), np.array([-1, 5]), np.array([4, -7]))
    check(lambda i, j: pt.ravel_multi_index((i, j), (2, 3), mode="clip"), np.array([-1, 5]), np.array([4, -7]))
    f = pytensor.function([n := pt.lvector()], pt.unravel_index(n, (2, 3)), mode="WENGERT")
    with pytest.raises(ValueError, match="out of bounds"):
        f([6])
    g = pytensor.function([n], pt.ravel_multi_index((n, n), (2, 3)), mode="WENGERT")
    with pytest.raises(ValueError, match="invalid entry"):
        g([2])


def test_ranges_and_matrices_of_a_known_size() -> None:
    check(lambda n, x: pt.arange(n) * x, np.array(5), np.array(2.0))
    check(lambda n, x: pt.eye(n, n + 1, 1) * x, np.array(3), np.array(2.0))
    check(lambda n, x: pt.extra_ops.bartlett(n) * x, np.array(5), np.array(2.0))
    for offset in (-1, 0, 2):
        check(lambda x, v, k=offset: pt.fill_diagonal_offset(x, v, k), X, np.array(7.0))
    check(lambda x: pt.join_dims(x, start_axis=0, n_axes=2), X[None])
    check(lambda x: pt.split_dims(x, shape=(2, 2), axis=1), X)


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
def test_convolutions(mode: str) -> None:
    x, k = RNG.normal(size=9), RNG.normal(size=4)
    one = pt.signal.convolve1d
    check(lambda x, k: [one(x, k, mode=mode), one(k, x, mode=mode)], x, k)
    check(lambda x, k: pt.grad((one(x, k, mode=mode) ** 2).sum(), [x, k]), x, k)
    check(lambda x, k: one(x, k, mode=mode), X, k)
    check(lambda x, k: one(x, k, mode=mode), X, X[:, :2].copy())
    image, kernel = RNG.normal(size=(6, 7)), RNG.normal(size=(3, 2))
    check(lambda x, k: pt.signal.convolve2d(x, k, mode=mode), image, kernel, rtol=1e-11)
    check(lambda x, k: pt.grad((pt.signal.convolve2d(x, k, mode=mode) ** 2).sum(), [x, k]), image, kernel, rtol=1e-11)


def test_factors_of_pivoted_rows() -> None:
    square = SQUARE[0][::-1].copy()
    check(lambda x: list(slinalg.lu(x)), square, rtol=1e-11)
    check(lambda x: list(slinalg.lu(x, p_indices=True)), square, rtol=1e-11)
    check(lambda x: list(slinalg.lu(x, permute_l=True)), square, rtol=1e-11)
    check(lambda x: list(slinalg.lu_factor(x)), square, rtol=1e-11)
    check(lambda x: list(slinalg.lu(x)), SQUARE, rtol=1e-11)
    check(lambda x: pt.grad(sum(p.sum() for p in slinalg.lu(x)), x), square, rtol=1e-9)
    check(lambda x, b: slinalg.lu_solve(slinalg.lu_factor(x), b), square, X[0], rtol=1e-11)
    for inverse in (False, True):
        check(lambda p, i=inverse: slinalg.PivotToPermutations(inverse=i)(p), np.array([2, 2, 3, 3]))


def test_other_linear_algebra() -> None:
    check(slinalg.expm, SQUARE[0], rtol=1e-11)
    check(lambda a, b: slinalg.eigvalsh(a, b), SQUARE[0] + SQUARE[0].T, DEFINITE[1], rtol=1e-10)
    for assumed in ("sym", "her", "pos"):
        for lower in (False, True):
            check(
                lambda a, b, s=assumed, low=lower: slinalg.solve(a, b, assume_a=s, lower=low),
                DEFINITE[0],
                X.T,
                rtol=1e-10,
            )
    check(lambda a: nlinalg.tensorinv(a, ind=1), RNG.normal(size=(4, 2, 2)), rtol=1e-10)
    check(nlinalg.tensorsolve, RNG.normal(size=(4, 2, 2)), X[0], rtol=1e-10)


@pytest.mark.filterwarnings("ignore:`axes` should not be")  # of NumPy, about how PyTensor calls it
def test_transforms_in_real_and_imaginary_parts() -> None:
    check(lambda x: pt.fft.rfft(x), X, rtol=1e-11)
    check(lambda x: pt.grad((pt.fft.rfft(x) ** 2).sum(), x), X, rtol=1e-11)
    check(lambda x: pt.fft.irfft(pt.fft.rfft(x)), X, rtol=1e-11)


def test_loops_that_end_by_a_value() -> None:
    """Where only the last values are used; how many there are is not known before a run."""

    def root(x: Any) -> Any:
        def step(a: Any, x: Any) -> Any:
            better = 0.5 * (a + x / a)
            return better, until(abs(better - a) < 1e-9)

        return pytensor.scan(step, outputs_info=[x], non_sequences=[x], n_steps=50, return_updates=False)

    check(lambda x: root(x)[-1], np.array(2.0))

    def sums(x: Any) -> Any:
        def step(row: Any, before: Any, last: Any) -> Any:
            return [last + row, before * row], until(last + row > 1.5)

        last = pt.stack([x[0], x[1]])
        found = pytensor.scan(
            step, sequences=[x], outputs_info=[{"initial": last, "taps": [-2, -1]}, None], return_updates=False
        )
        return [found[0][-1], found[1][-1]]

    check(sums, POSITIVE.ravel())
    check(sums, np.array([9.0, 1.0, 2.0]))
    with pytest.warns(RuntimeWarning, match="ends by a value"):
        check(lambda x: root(x).sum(), np.array(2.0), is_compiled=False)


def test_what_stays_without_a_rule() -> None:
    """What gives as many results as values say runs by PyTensor's own virtual machine."""
    x, n = pt.dvector(), pt.lvector()
    for built, name in ((pt.unique(x), "Unique"), (pt.nonzero(x)[0], "Nonzero")):
        f = pytensor.function([x], built, mode="WENGERT")
        assert name in why_not(f.maker.fgraph)
        f([1.0, 0.0, 1.0])
    check(lambda x, n: pt.repeat(x, n), np.array([1.0, 2.0]), np.array([2, 3]))
    assert n.type.dtype == "int64"
