"""Copies of any strides, and the ops that move elements, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from stepping import TARGETS, Bench, strided

from wengert.execute.native import machine
from wengert.execute.native.moves import copy_step

SHAPES: list[tuple[int, ...]] = [
    (), (0,), (1,), (5,), (63,), (70000,), (3, 4), (0, 3), (64, 64), (65, 130), (200, 7), (3, 5, 7, 2), (2, 3, 33, 40),
]  # fmt: skip
DTYPES = ["?", "i1", "f2", "f4", "f8", "c16"]


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    return np.asarray(rng.integers(0, 200, shape).astype(np.uint8).astype(dtype))


def copied(source: np.ndarray, axes: Any, target: str) -> np.ndarray:
    """`source` by a copy step into memory whose axes lie in another order."""
    bench = Bench(target)
    out = bench.temp([source.shape[a] for a in axes], source.dtype).permute(np.argsort(axes).tolist())
    copy_step(bench, bench.given(source), out)
    return bench.run(out)[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_copy(shape: tuple[int, ...], target: str) -> None:
    rng = np.random.default_rng(len(shape))
    for dtype in DTYPES:
        x = numbers(rng, shape, dtype)
        assert np.array_equal(copied(x, range(x.ndim), target), x)
        for _ in range(2):
            assert np.array_equal(copied(strided(x, rng), rng.permutation(x.ndim), target), x)
        assert np.array_equal(copied(x, rng.permutation(x.ndim), target), x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 33)], ids=str)
def test_copy_broadcast(shape: tuple[int, ...], target: str) -> None:
    x = numbers(np.random.default_rng(0), shape, "f4")
    for wide in (np.broadcast_to(x, (300, *shape)), np.broadcast_to(x[..., None], (*shape, 100))):
        assert np.array_equal(copied(wide, range(wide.ndim), target), wide)


def test_copy_into_negative_strides() -> None:
    x = np.arange(12.0).reshape(3, 4)
    bench = Bench()
    out = bench.temp((3, 4), x.dtype)
    copy_step(bench, bench.given(x), out._replace(strides=(-4, 1), offset=8))
    assert np.array_equal(bench.run(out)[0], x[::-1])


def test_copy_is_made_for_aarch64() -> None:
    bench = Bench()
    bench.target = machine.level("aarch64")
    x = bench.given(np.zeros((80, 90, 5), np.float32))
    for axes in [(0, 1, 2), (1, 0, 2), (2, 1, 0)]:
        y = x.permute(axes)
        copy_step(bench, y, bench.temp(y.shape, y.dtype))
    assert all(step.kernel.asm for step in bench.plan.steps)


def test_a_copy_between_other_shapes_is_refused() -> None:
    bench = Bench()
    with pytest.raises(ValueError, match="a copy of"):
        copy_step(bench, bench.temp((3,), "f4"), bench.temp((4,), "f4"))
