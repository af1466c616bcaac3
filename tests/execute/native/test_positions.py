"""argmax and argmin against the ops' forwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import ml_dtypes

from processors import on_processors
from stepping import TARGETS, check, strided

SHAPES: list[tuple[int, ...]] = [(1,), (5,), (16,), (100,), (3, 4), (7, 33), (2, 70, 3), (40, 300), (0, 4), (3, 1)]
DTYPES = ["f4", "f8", "f2", ml_dtypes.bfloat16, "i8", "i4", "i1", "u1", "u4", "u8", "?"]


@pytest.mark.parametrize(("dtype", "target"), on_processors(DTYPES, lambda d: np.dtype(d).name))
def test_positions(dtype: Any, target: str) -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        # Few values, so that there are equals; the greatest and least of unsigned numbers too.
        x = np.asarray(rng.integers(-3, 4, shape))
        x = x.astype("i8").astype(dtype) if np.dtype(dtype).kind == "u" else x.astype(dtype)
        for axis in (a for a in range(-x.ndim, 0) if x.shape[a]):
            for name in ("argmax", "argmin"):
                check(name, [x], {"axis": axis, "keepdims": False}, target)
                check(name, [strided(x, rng)], {"axis": axis, "keepdims": axis == -1}, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_special_values(dtype: str, target: str) -> None:
    rng = np.random.default_rng(1)
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], dtype)
    for p in (0.0, 0.05):
        weights = [p, *[(1 - p) / 5] * 5]
        for n in (1, 2, 17, 64, 65):
            x = rng.choice(values, (n, n), p=weights)
            for axis in (-1, -2):
                check("argmax", [x], {"axis": axis, "keepdims": False}, target)
                check("argmin", [x], {"axis": axis, "keepdims": False}, target)
