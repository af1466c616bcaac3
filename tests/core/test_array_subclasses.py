"""Arrays of NumPy's whose operators or elements mean something else are no operands; they are converted by name."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
VALUES = np.array([[1.0, 2.0], [3.0, 4.0]])
T = wg.asarray(VALUES)
OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "lt", "eq", "ne", "imul", "iadd"]
CALLS: dict[str, Callable[[Any], Any]] = {
    "sum": wg.sum,
    "exp": wg.exp,
    "where": lambda a: wg.where(T > 2.0, a, T),
    "concat": lambda a: wg.concat([T, a]),
    "einsum": lambda a: wg.einsum("ij,jk", a, T),
    "det": wg.linalg.det,
    "solve": lambda a: wg.linalg.solve(T, a),
    "erf": wg.special.erf,
    "softmax": wg.softmax,
    "np.multiply": lambda a: np.multiply(a, T),
    "np.dot": lambda a: np.dot(a, T),
    "grad": lambda a: wg.grad(lambda x: x.sum())(a),
    "jit": lambda a: wg.jit(lambda x: x * x)(a),
    "graph": lambda a: wg.graph(lambda x: x * x)(a),
    "vmap": lambda a: wg.vmap(lambda x: x * x)(a),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_matrix_is_no_operand(name: str) -> None:
    run = getattr(operator, name)
    with pytest.raises(wg.DTypeError, match=r"write np\.asarray\(A\)"):
        run(T.clone(), np.matrix(VALUES))
    if not name.startswith("i"):
        with pytest.raises(wg.DTypeError, match=r"write np\.asarray\(A\)"):
            run(np.matrix(VALUES), T)


@pytest.mark.parametrize("name", CALLS)
def test_a_matrix_is_no_argument(name: str) -> None:
    with pytest.raises(wg.DTypeError, match=r"write np\.asarray\(A\)"):
        CALLS[name](np.matrix(VALUES))


def test_a_compiled_function_refuses_one_after_an_array() -> None:
    f = wg.jit(lambda x: x * x)
    for _ in range(3):
        assert f(VALUES).tolist() == (VALUES * VALUES).tolist()
    with pytest.raises(wg.DTypeError, match=r"write np\.asarray\(A\)"):
        f(np.matrix(VALUES))
    with pytest.raises(wg.DTypeError, match="some elements are masked"):
        f(np.ma.masked_array(VALUES, VALUES > 2.0))
    assert f(np.ma.masked_array(VALUES)).tolist() == (VALUES * VALUES).tolist()


def test_a_matrix_is_converted() -> None:
    for convert in (wg.asarray, wg.tensor):
        assert convert(np.matrix(VALUES)).tolist() == VALUES.tolist()
