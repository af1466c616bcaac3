"""`wg.explain.precision` names the node that loses the digits, and its estimate is the measured error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg

FLOAT32 = np.float32


def cancelled_cosine(x: Any) -> Any:
    c = wg.cos(x)
    return (1.0 - c) / x**2


def root_by_formula(a: Any, b: Any, c: Any) -> Any:
    d = wg.sqrt(b * b - 4.0 * a * c)
    return (d - b) / (2.0 * a)


def root_without_cancellation(a: Any, b: Any, c: Any) -> Any:
    d = wg.sqrt(b * b - 4.0 * a * c)
    return -2.0 * c / (b + d)


def naive_variance(x: Any) -> Any:
    m = x.mean()
    return (x * x).mean() - m * m


def two_pass_variance(x: Any) -> Any:
    return ((x - x.mean()) ** 2).mean()


SAMPLE = (1000 + np.random.default_rng(0).normal(size=1000)).astype(FLOAT32)
# A function, its arguments, the op at whose node the digits go, and how many may be left.
LOSING = [
    (cancelled_cosine, (FLOAT32(1e-3),), "cos", 2.0),
    (root_by_formula, (FLOAT32(1.0), FLOAT32(300.1), FLOAT32(1.0)), "", 3.5),
    (naive_variance, (SAMPLE,), "mean", 1.5),
    (lambda x: wg.exp(x) - 1.0, (FLOAT32(1e-5),), "exp", 3.0),
    (lambda x: wg.log(1.0 + x), (FLOAT32(1e-5),), "add", 3.0),
    (lambda x: wg.log(1.0 + x), (np.float64(1e-10),), "add", 8.0),
]
KEEPING = [
    (root_without_cancellation, (FLOAT32(1.0), FLOAT32(300.1), FLOAT32(1.0))),
    (two_pass_variance, (SAMPLE,)),
    (wg.expm1, (FLOAT32(1e-5),)),
    (wg.log1p, (FLOAT32(1e-5),)),
]


@pytest.mark.parametrize(("fn", "args", "op", "digits"), LOSING)
def test_digits_are_lost_where_it_says(fn: Any, args: Any, op: str, digits: float) -> None:
    found = wg.explain.precision(fn, *args)
    assert found.digits <= digits
    assert found.worst is not None
    if op:
        assert found.worst.op == op
        assert found.worst.share > 0.5
    # The estimate is of first order: right to a few per cent where the errors are small.
    assert found.estimate == pytest.approx(found.error, rel=0.05)
    assert abs(found.error) <= found.bound * 1.05


@pytest.mark.parametrize(("fn", "args"), KEEPING)
def test_the_rewritten_function_keeps_them(fn: Any, args: Any) -> None:
    found = wg.explain.precision(fn, *args)
    assert found.digits > 6.0
    assert found.estimate == pytest.approx(found.error, rel=0.2, abs=abs(found.exact) * 1e-8)


def added(x: Any) -> Any:
    total = x[0]
    for i in range(1, len(x)):
        total = total + x[i]
    return total


def test_the_order_of_a_sum() -> None:
    up = np.sort(np.random.default_rng(1).lognormal(0, 4, size=200).astype(FLOAT32))
    rising, falling = wg.explain.precision(added, up), wg.explain.precision(added, up[::-1].copy())
    assert falling.bound > 5 * rising.bound
    for found in (rising, falling):
        assert found.error == pytest.approx(float(found.value) - float(np.sum(up, dtype=np.float64)), rel=1e-6)
        assert found.estimate == pytest.approx(found.error, rel=1e-4)
        # The loop's two hundred additions are one line of the text.
        assert [line.op for line in found.lines][:1] == ["199 x add"]
        assert "199 x add" in str(found)


def test_the_error_is_the_one_against_exact_arithmetic() -> None:
    x = FLOAT32(1e-3)
    found = wg.explain.precision(cancelled_cosine, x)
    computed = float(cancelled_cosine(wg.tensor(x)))
    exact = 2 * np.sin(np.float64(x) / 2) ** 2 / np.float64(x) ** 2
    assert found.value == pytest.approx(computed, rel=1e-9)
    assert found.error == pytest.approx(computed - exact, rel=1e-6)


def test_an_exact_computation_loses_nothing() -> None:
    found = wg.explain.precision(lambda x: (x * 2.0 + 1.0).sum(), np.arange(8, dtype=FLOAT32))
    assert found.error == found.estimate == found.bound == 0.0
    assert found.digits == found.available


def test_a_cast_down_is_a_loss() -> None:
    found = wg.explain.precision(lambda x: x.astype(wg.float16).astype(wg.float32) * 2.0, FLOAT32(0.1))
    assert found.worst is not None
    assert found.worst.op == "cast"
    assert found.estimate == pytest.approx(found.error, rel=1e-6)


def test_nans_and_infinities_do_not_stop_it() -> None:
    found = wg.explain.precision(lambda x: wg.log(x), FLOAT32(-1.0))
    assert np.isnan(found.value)
    assert found.digits == 0.0


def test_cancelling_nodes_are_pointed_at() -> None:
    text = str(wg.explain.precision(cancelled_cosine, FLOAT32(1e-3)))
    assert "1.3 of 6.9 digits are right" in text
    assert "cancels: it leaves what its operands had lost" in text
    assert "wg.cos(x)" in text


def test_what_it_cannot_answer() -> None:
    with pytest.raises(wg.DTypeError, match="one real floating tensor"):
        wg.explain.precision(lambda x: wg.argmax(x), np.ones(3, FLOAT32))
    with pytest.raises(wg.GradientError, match="does not depend"):
        wg.explain.precision(lambda x: x.detach() * 2.0, FLOAT32(1.0))


def test_float32_that_enters_a_float64_computation_is_named() -> None:
    x = np.array([0.3, 0.7])
    table = wg.tensor([0.1, 0.5])
    exact = wg.tensor([0.5, 3.0])

    def fn(x: Any) -> Any:
        return (x * table + exact * x).sum()

    for f in (fn, wg.jit(fn)):
        found = wg.explain.precision(f, x)
        (entry,) = found.narrow
        assert (entry.dtype, entry.into) == ("float32", "float64")
        assert entry.source is not None
        assert entry.source.text == "x * table"
        assert "float32 enters float64" in str(found)
    # Not what is exact, nor where the result has no more digits than that, nor numbers.
    assert not wg.explain.precision(lambda x: (x * exact).sum(), x).narrow
    assert not wg.explain.precision(fn, x.astype(np.float32)).narrow
    assert not wg.explain.precision(lambda x: (x * wg.exp(0.1) * 0.1).sum(), x).narrow
    half = wg.tensor([0.1], dtype=wg.float16)
    assert wg.explain.precision(lambda x: (x * half).sum(), x.astype(np.float32)).narrow[0].dtype == "float16"
    names = [n.op for n in wg.explain.precision(lambda x: (x * x.astype(wg.float32)).sum(), x).nodes]
    assert names[0] == "cast"
