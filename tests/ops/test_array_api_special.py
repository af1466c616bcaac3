"""The standard's special cases, of every elementwise function and operator (see `array_api_cases`)."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from array_api_cases import BINARY, COMPLEX, UNARY, lines, samples, wanted

OPERATORS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
INPLACE = {
    "add": operator.iadd,
    "subtract": operator.isub,
    "multiply": operator.imul,
    "divide": operator.itruediv,
    "floor_divide": operator.ifloordiv,
    "remainder": operator.imod,
    "pow": operator.ipow,
}
REALS = ("float32", "float64")


def failures(text: str, fn: Any, dtype: str) -> list[str]:
    """What a function of one or two reals gets wrong; at most a few."""
    sets, bad = samples(dtype), []
    for *conditions, word in lines(text):
        pairs = list(itertools.product(*(sets[c] for c in conditions)))
        columns = [np.asarray(c, dtype) for c in zip(*pairs, strict=True)]
        results = np.asarray(fn(*(wg.asarray(c) for c in columns)))
        for pair, r in zip(pairs, results, strict=True):
            x, y = pair if len(pair) == 2 else (pair[0], pair[0])
            if not any(test(r) for test in wanted(word, x, y)):
                bad.append(f"{pair} gave {r}, not {word}")
    return bad[:8]


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_real(name: str, dtype: str) -> None:
    assert failures(UNARY[name], getattr(wg, name), dtype) == []


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_reals(name: str, dtype: str) -> None:
    assert failures(BINARY[name], getattr(wg, name), dtype) == []


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str, dtype: str) -> None:
    assert failures(BINARY[name], OPERATORS[name], dtype) == []


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", INPLACE)
def test_inplace_operators(name: str, dtype: str) -> None:
    assert failures(BINARY[name], INPLACE[name], dtype) == []


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", BINARY)
def test_python_numbers_on_either_side(name: str, dtype: str) -> None:
    """A Python float beside a tensor is what a 0-d tensor of its value is."""
    fn = getattr(wg, name)

    def right(x: Any, y: Any) -> Any:
        return [fn(a, b.item()).numpy() for a, b in zip(x, y, strict=True)]

    def left(x: Any, y: Any) -> Any:
        return [fn(a.item(), b).numpy() for a, b in zip(x, y, strict=True)]

    assert failures(BINARY[name], right, dtype) == []
    assert failures(BINARY[name], left, dtype) == []


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", COMPLEX)
def test_functions_of_a_complex_number(name: str, dtype: str) -> None:
    part = "float32" if dtype == "complex64" else "float64"
    sets, bad = samples(part), []
    for a_set, b_set, *words in lines(COMPLEX[name]):
        pairs = list(itertools.product(sets[a_set], sets[b_set]))
        results = np.asarray(getattr(wg, name)(wg.asarray(np.asarray([complex(*p) for p in pairs], dtype))))
        for (a, b), r in zip(pairs, results, strict=True):
            parts = (r.real, r.imag) if len(words) == 2 else (r,)
            for p, word, which in zip(parts, words, ("real", "imag"), strict=False):
                if not any(test(p) for test in wanted(word, a, b, which)):
                    bad.append(f"{a} {b:+}j gave {r}, not {words}")
    assert bad[:8] == []


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_complex_accuracy_near_zero(name: str) -> None:
    """expm1 and log1p keep all digits of both parts near 0, in the complex plane too."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    size = 10.0 ** rng.uniform(-12, 0, 200)
    x = size * np.exp(1j * rng.uniform(0, 2 * np.pi, 200))
    found = getattr(wg, name)(wg.asarray(x)).numpy()
    with mpmath.workdps(50):
        exact = {"expm1": mpmath.expm1, "log1p": lambda v: mpmath.log(1 + v)}[name]
        true = np.asarray([complex(exact(mpmath.mpc(v))) for v in x])
    assert np.max(np.abs(found - true) / np.abs(true)) < 1e-15


def test_complex_forwards_of_one_element() -> None:
    for name, value in (("expm1", complex(np.inf, 0.0)), ("log1p", 1e-20 + 0j), ("sign", complex(np.nan, np.inf))):
        one = getattr(wg, name)(wg.asarray(value))
        assert one.shape == ()
        np.testing.assert_array_equal(one.numpy(), getattr(wg, name)(wg.asarray([value]))[0].numpy())
        assert getattr(wg, name)(wg.zeros((0, 2), dtype=wg.complex64)).shape == (0, 2)
