"""What does not fit is refused in the project's words: what is wrong, shapes and dtypes, the user's line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
import wengert.torch as torch

X = wg.tensor(np.array([1.0, 2.0, 3.0]))
FOUR = wg.tensor(np.ones(4))
Z = wg.tensor(np.array([1.0 + 2.0j, 3.0j]))


def _set(x: Any, name: str, value: Any) -> None:
    setattr(x, name, value)


CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "real": (lambda: _set(Z.clone(), "real", X), wg.ShapeError, "f64[3] of c128[2]"),
    "imag": (lambda: _set(Z.clone(), "imag", Z), wg.DTypeError, "c128[2] of c128[2]"),
    "imag of real": (lambda: _set(X.clone(), "imag", X), wg.DTypeError, "f64[3]"),
    "shape": (lambda: _set(X.clone(), "shape", (2, 2)), wg.WriteError, "(2, 2) of f64[3]"),
    "shape of an array": (lambda: _set(wnp.ones(3), "shape", (3, 1)), wg.WriteError, "(3, 1) of f64[3]"),
    "putmask": (lambda: np.putmask(X.clone(), [True, False], [1, 2]), wg.ShapeError, "f64[3] with the mask bool[2]"),
    "interp": (lambda: np.interp(X, X, FOUR), wg.ShapeError, "values f64[4] at places f64[3]"),
    "cross": (lambda: np.cross(FOUR, FOUR), wg.ShapeError, "f64[4] and f64[4]"),
    "ragged": (lambda: wnp.array([[1.0, 2.0], [3.0]]), wg.ShapeError, "element 0 has 2 elements, element 1 has 1"),
    "piecewise": (lambda: np.piecewise(X, [X > 1], [1, 2, 3]), wg.ShapeError, "3 functions for 1 conditions"),
    "select": (lambda: np.select([X > 1], [X, X]), wg.ShapeError, "1 conditions for 2 choices"),
    "convolve": (lambda: np.convolve(X.reshape(1, 3), FOUR), wg.ShapeError, "f64[1,3] and f64[4]"),
    "gradient": (lambda: np.gradient(X, FOUR), wg.ShapeError, "coordinates f64[4] for an axis of 3 elements"),
    "vander": (lambda: np.vander(X.reshape(1, 3)), wg.ShapeError, "f64[1,3]"),
    "keyword": (lambda: wg.jit(lambda x, scale=1.0: x)(X, scal=3), TypeError, "'scal'"),
    "argument": (lambda: wg.jit(lambda x, y: x)(X), TypeError, "missing a required argument: 'y'"),
}


@pytest.mark.parametrize("name", CASES)
def test_first_line(name: str) -> None:
    call, kind, text = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, wg.WengertError)
    first = str(caught.value).splitlines()[0]
    assert text in first
    assert re.search(r"\(.*test_refusals\.py:\d+\)$", first)


def test_what_a_compiled_function_takes() -> None:
    with pytest.raises(TypeError, match=r"It takes \(x, scale=1.0\)"):
        wg.jit(lambda x, scale=1.0: x)(X, scal=3)

    def own(x: Any) -> Any:
        raise TypeError("of its own")

    with pytest.raises(TypeError, match="of its own"):
        wg.jit(own)(X)


@pytest.mark.parametrize("namespace", [wg, torch], ids=["wengert", "torch"])
def test_parts_of_complex_numbers_are_written(namespace: Any) -> None:
    z = namespace.tensor([1.0 + 2.0j, 3.0j])
    z.real = namespace.tensor([5.0, 6.0])
    z.imag = 7.0
    assert z.tolist() == [5 + 7j, 6 + 7j]

    def fn(x: Any) -> Any:
        w = x * (1.0 + 1.0j)
        w.real = x * x
        w.imag = x * 3.0
        return wg.real(w * w).sum()

    for run in (fn, wg.jit(fn)):
        np.testing.assert_allclose(np.asarray(wg.grad(run)(wg.tensor([2.0, 3.0]))), [4 * 8 - 36, 4 * 27 - 54])
