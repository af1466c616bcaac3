"""Wengert beside numba: two compilers in one process, by one LLVM."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg

numba = pytest.importorskip("numba")
pytest.importorskip("llvmlite")


@pytest.mark.filterwarnings("ignore")  # numba's own
@pytest.mark.parametrize("first", ["wengert", "numba"])
def test_two_compilers_take_turns(first: str) -> None:
    def theirs(x: np.ndarray) -> float:
        total = 0.0
        for v in x:
            total += np.exp(v) * v
        return total

    compiled, ours = numba.njit(theirs), wg.jit(lambda x: (wg.exp(x) * x).sum())
    turns = [lambda x: float(ours(x)), compiled] if first == "wengert" else [compiled, lambda x: float(ours(x))]
    for size in (1, 7, 1000):
        x = np.linspace(-1.0, 1.0, size)
        for _ in range(6):
            found = [turn(x) for turn in turns]
            np.testing.assert_allclose(found, float((np.exp(x) * x).sum()), rtol=1e-12)


def test_a_compiled_function_that_calls_the_other() -> None:
    @numba.vectorize
    def twice(v: float) -> float:
        return 2 * v + 1

    fn = wg.jit(lambda x: wg.callback(lambda a: twice(a), wg.spec((3,), wg.float64), x * 2) - x)
    for _ in range(6):
        np.testing.assert_allclose(fn(np.arange(3.0)), 3 * np.arange(3.0) + 1)
