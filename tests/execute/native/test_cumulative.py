"""Running sums and products, recurrences and sums of runs against the ops' forwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import ml_dtypes

from processors import on_processors
from stepping import TARGETS, check, lowered, node_of, numbers, same, strided

SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((1,), -1), ((7,), -1), ((100,), -1), ((0,), -1), ((3, 5), -1), ((3, 5), -2), ((0, 5), -2), ((4, 0), -2),
    ((6, 700), -2), ((3, 70), -1), ((2, 9, 3), -2), ((2, 3, 4, 5), -3), ((17, 33), -1), ((5000,), -1),
]  # fmt: skip
DTYPES = ["f4", "f8", "i8", "i4", "u1", "f2", ml_dtypes.bfloat16]


def small(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Numbers whose running sums are exact in every order in any dtype with 8 bits."""
    return (rng.integers(-1, 2, shape) if np.dtype(dtype).kind != "u" else rng.integers(0, 9, shape)).astype(dtype)


@pytest.mark.parametrize(("dtype", "target"), on_processors(DTYPES, lambda d: np.dtype(d).name))
@pytest.mark.parametrize("reverse", [False, True])
def test_running(dtype: Any, reverse: bool, target: str) -> None:
    rng = np.random.default_rng(0)
    for shape, axis in SHAPES:
        x = small(rng, shape, dtype)
        for given in (x, strided(x, rng)):
            check("cumulative_sum", [given], {"axis": axis, "reverse": reverse}, target)
            for exclusive in (False, True):
                attrs = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
                check("cumulative_prod", [given], attrs, target)


@pytest.mark.parametrize("target", TARGETS)
def test_complex_sums(target: str) -> None:
    x = numbers(np.random.default_rng(1), (4, 37), "c8")
    for axis in (-1, -2):
        check("cumulative_sum", [x], {"axis": axis, "reverse": axis == -1}, target)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_are_within_rounding(dtype: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3, 10001)).astype(dtype)
    for reverse in (False, True):
        node = node_of("cumulative_sum", [x], {"axis": -1, "reverse": reverse})
        wide = x.astype(np.longdouble)
        wanted = np.cumsum(wide[:, ::-1], -1)[:, ::-1] if reverse else np.cumsum(wide, -1)
        magnitude = np.cumsum(abs(wide[:, ::-1]), -1)[:, ::-1] if reverse else np.cumsum(abs(wide), -1)
        error = abs(lowered(node, [x]) - wanted) / magnitude
        # Fewer additions follow each other than in a loop: well below n eps.
        assert error.max() < 30 * np.finfo(dtype).eps


def test_products_round_in_order() -> None:
    x = np.random.default_rng(3).normal(size=(5, 200)).astype("f4")
    check("cumulative_prod", [x], {"axis": -1, "exclusive": False, "reverse": False})


@pytest.mark.parametrize("target", TARGETS)
def test_special_values(target: str) -> None:
    x = np.array([-0.0, -0.0, 1, np.inf, 2, -np.inf, 3, np.nan, 4] * 5, "f4")
    for n in (1, 2, 5, 45):
        for given in (x[:n], np.full(n, -0.0, "f8"), np.full(40, 5e-324)):
            check("cumulative_sum", [given], {"axis": -1, "reverse": False}, target)
            check("cumulative_prod", [given], {"axis": -1, "exclusive": False, "reverse": False}, target)


@pytest.mark.parametrize(
    ("dtype", "target"), on_processors(["f4", "f8", "i4", "f2", ml_dtypes.bfloat16], lambda d: np.dtype(d).name)
)
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence(dtype: Any, reverse: bool, target: str) -> None:
    rng = np.random.default_rng(4)
    for shape, axis in SHAPES:
        a, b = (rng.normal(size=shape).astype(dtype) for _ in range(2))
        check("linear_recurrence", [a, b], {"axis": axis, "reverse": reverse}, target)
        check("linear_recurrence", [strided(a, rng), b], {"axis": axis, "reverse": reverse}, target)


def test_the_first_factor_of_a_recurrence_is_not_used() -> None:
    a, b = np.array([np.nan, 2.0, np.inf]), np.array([1.0, -1.0, 0.0])
    for reverse in (False, True):
        check("linear_recurrence", [a[::-1].copy() if reverse else a, b], {"axis": -1, "reverse": reverse})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f4", "i8", "c8", "f2"])
def test_sum_runs(dtype: str, target: str) -> None:
    rng = np.random.default_rng(5)
    for shape, repeats, axis in [
        ((2, 6), 2, -1), ((6, 50), 3, -2), ((4, 2), (1, 0, 3), -2), ((4,), (4,), -1), ((0,), (0, 0), -1),
    ]:  # fmt: skip
        x = numbers(rng, shape, dtype)
        check("sum_runs", [x], {"repeats": repeats, "axis": axis}, target)
        check("sum_runs", [strided(x, rng)], {"repeats": repeats, "axis": axis}, target)


def test_the_same_bits_for_every_split() -> None:
    x = np.random.default_rng(6).normal(size=(9, 300)).astype("f4")
    for axis in (-1, -2):
        node = node_of("cumulative_sum", [x], {"axis": axis, "reverse": False})
        runs = [lowered(node, [x], seed=seed) for seed in range(5)]
        assert all(same(r, runs[0]) for r in runs)
