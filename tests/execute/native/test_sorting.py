"""Sorting, the k largest and searching against the ops' forwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import ml_dtypes

from processors import on_processors
from stepping import TARGETS, check, lowered, node_of, same, strided
from wengert.core.ops.op import TABLE

DTYPES = ["f4", "f8", "f2", ml_dtypes.bfloat16, "i8", "i4", "i2", "i1", "u1", "u4", "u8", "?"]
SHAPES: list[tuple[int, ...]] = [(1,), (0,), (9,), (64,), (65,), (300,), (3, 40), (700, 3), (2, 5, 3), (0, 4), (4, 0)]


def mixed(rng: Any, shape: tuple[int, ...], dtype: Any, special: bool = True) -> Any:
    """Numbers with equals among them, negative, both zeros, infinities and NaN where there are."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iub":
        few = rng.integers(0, 5, shape).astype(dtype)
        many = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(f"u{dtype.itemsize}")[..., 0]
        return few if dtype.kind == "b" else np.where(rng.random(shape) < 0.5, few, many.astype(dtype))
    x = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)
    values = [0.0, -0.0, 1.0, -1.0, *([np.inf, -np.inf, np.nan] if special else [])]
    return np.asarray(np.where(rng.random(shape) < 0.5, x, rng.choice(values, shape))).astype(dtype)


@pytest.mark.parametrize(("dtype", "target"), on_processors(DTYPES, lambda d: np.dtype(d).name))
def test_sort(dtype: Any, target: str) -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES if target == "host" else SHAPES[4:7]:
        x = mixed(rng, shape, dtype)
        for axis in range(-len(shape), 0):
            for descending in (False, True):
                attrs = {"axis": axis, "descending": descending, "stable": True}
                check("argsort", [x], attrs, target)
                check("sort", [strided(x, rng)], attrs, target)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i1"])
def test_long_lines(dtype: str) -> None:
    x = mixed(np.random.default_rng(1), (100_003,), dtype)
    check("argsort", [x], {"axis": -1, "descending": True, "stable": True})
    check("sort", [np.sort(x)], {"axis": -1, "descending": False, "stable": True})
    check("sort", [np.full(1000, 7, dtype)], {"axis": -1, "descending": False, "stable": True})


@pytest.mark.parametrize(("dtype", "target"), on_processors(["f4", "f8", "f2", "i8", "i4", "u1", "?"]))
def test_top_k(dtype: str, target: str) -> None:
    rng = np.random.default_rng(2)
    for shape, k, axis in [
        ((5,), 3, -1), ((12,), 0, -1), ((3, 100), 2, -1), ((400, 2), 7, -2), ((5000,), 900, -1), ((9000,), 5, -1),
    ]:  # fmt: skip
        x = mixed(rng, shape, dtype)
        for largest in (True, False):
            attrs = {"k": k, "axis": axis, "largest": largest}
            values, indices = lowered(node_of("top_k", [x], attrs), [x], target)
            # Of equals, those that come first: the beginning of the stable order.
            order = TABLE["argsort"].forward(x, axis=axis, descending=largest, stable=True)
            wanted = np.take(order, range(k), axis)
            assert same(indices, wanted)
            assert same(values, np.take_along_axis(x, wanted, axis))
            assert same(lowered(node_of("arg_top_k", [x], attrs), [x], target), wanted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1", "f2"])
def test_searchsorted(dtype: str, target: str) -> None:
    rng = np.random.default_rng(3)
    for n in (0, 1, 2, 7, 64, 1000):
        line = np.sort(mixed(rng, (n,), dtype))
        for values in (mixed(rng, (), dtype), mixed(rng, (300,), dtype), strided(mixed(rng, (4, 5), dtype), rng), line):
            for right in (False, True):
                check("searchsorted", [line, values], {"right": right}, target)
    rows = np.sort(mixed(rng, (2, 3, 20), dtype), -1)
    check("searchsorted", [strided(rows, rng), mixed(rng, (2, 3, 7), dtype)], {"right": False}, target)
    check("searchsorted", [rows[..., ::-1][..., ::-1], mixed(rng, (2, 3, 0), dtype)], {"right": False}, target)


@pytest.mark.parametrize("target", TARGETS)
def test_permutation(target: str) -> None:
    key = (123456789, 2**63 + 5)
    for n in (0, 1, 2, 5, 64, 100, 5000):
        check("random_permutation", [], {"key": key, "counter": 3, "n": n}, target)
        check("random_permutation_at", [np.array(key, np.uint64), np.array(3, np.uint64)], {"n": n}, target)
