"""Copies of any strides, and the ops that move elements, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from stepping import TARGETS, Bench, check, numbers, strided
from wengert.execute.native.codegen import machine
from wengert.execute.native.kernels.copies import copy_step

SHAPES: list[tuple[int, ...]] = [
    (), (0,), (1,), (5,), (63,), (70000,), (3, 4), (0, 3), (64, 64), (65, 130), (200, 7), (3, 5, 7, 2), (2, 3, 33, 40),
]  # fmt: skip
DTYPES = ["?", "i1", "f2", "f4", "f8", "c16"]


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


# -- ops

ALL = (None, None, None)
OPS: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("concat", [(2, 3), (2, 0), (2, 4)], {"axis": -1}),
    ("concat", [(2, 3), (1, 3)], {"axis": -2}),
    ("stack", [(2, 3), (2, 3)], {"axis": -3}),
    ("stack", [(2, 3), (2, 3), (2, 3)], {"axis": -1}),
    ("stack", [(), ()], {"axis": -1}),
    ("split", [(4, 5)], {"axis": -1, "sizes": (2, 0, 3)}),
    ("unstack", [(4, 5)], {"axis": -2}),
    ("pad", [(2, 3)], {"widths": ((1, 0), (0, 2))}),
    ("pad", [(2, 3, 20, 30)], {"widths": ((1, 1), (2, 3))}),
    ("pad", [(0, 3)], {"widths": ((1, 2), (0, 0))}),
    ("pad", [()], {"widths": ()}),
    ("shift", [(4, 3)], {"axis": -2, "by": 1}),
    ("shift", [(4, 3)], {"axis": -1, "by": -2}),
    ("shift", [(4, 3)], {"axis": -1, "by": 7}),
    ("shift", [(4, 0)], {"axis": -1, "by": 1}),
    ("roll", [(5,)], {"shift": (2,), "axis": (-1,)}),
    ("roll", [(4, 5, 3)], {"shift": (1, -4, 2), "axis": (-3, -2, -3)}),
    ("roll", [(4, 0)], {"shift": (1,), "axis": (-1,)}),
    ("tile", [(2, 3)], {"repetitions": (2, 3)}),
    ("tile", [(2, 3)], {"repetitions": (3,)}),
    ("tile", [(2, 3)], {"repetitions": (0,)}),
    ("tile", [()], {"repetitions": ()}),
    ("repeat", [(2, 3)], {"repeats": 3, "axis": -1}),
    ("repeat", [(2, 3, 2)], {"repeats": 2, "axis": -2}),
    ("repeat", [(3, 2)], {"repeats": (1, 0, 3), "axis": -2}),
    ("slice_transpose", [(4,)], {"entries": (1, ALL), "sizes": (3, 4)}),
    ("slice_transpose", [(2, 2)], {"entries": ((3, None, -2),), "sizes": (4,)}),
    ("slice_transpose", [(1, 2)], {"entries": (None, (0, 2, None), 2), "sizes": (3, 4)}),
    ("slice_transpose", [(2, 0)], {"entries": ((0, 0, None),), "sizes": (3,)}),
    ("slice_transpose", [(3, 4)], {"entries": ((2, None, -1), ALL), "sizes": (5, 4)}),
    ("slice_update", [(3, 4), (4,)], {"entries": (1, ALL)}),
    ("slice_update", [(5, 4), (1,)], {"entries": ((3, None, -2), 0)}),
    ("slice_update", [(5, 4), (1, 1, 2)], {"entries": ((1, 3, None), (2, 4, None))}),
    ("slice_update", [(3,), (1,)], {"entries": ((0, 0, None),)}),
    ("tril", [(3, 3)], {"k": 0}),
    ("tril", [(2, 40, 70)], {"k": -3}),
    ("tril", [(3, 2)], {"k": 100}),
    ("triu", [(3, 3)], {"k": 1}),
    ("triu", [(2, 2, 40, 70)], {"k": 30}),
    ("triu", [(3, 2)], {"k": -(10**12)}),
    ("triu", [(0, 2)], {"k": 0}),
    ("diagonal", [(2, 3, 5)], {"offset": 1}),
    ("diagonal", [(3, 2)], {"offset": -1}),
    ("diagonal", [(3, 2)], {"offset": 9}),
    ("embed_diagonal", [(2, 3)], {"offset": 1, "rows": 3, "columns": 5}),
    ("embed_diagonal", [(2,)], {"offset": -1, "rows": 3, "columns": 2}),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", OPS, ids=lambda c: f"{c[0]} {c[1]}")
def test_op(case: Any, target: str) -> None:
    name, shapes, attrs = case
    rng = np.random.default_rng(5)
    for dtype in ("f4", "i1", "f8", "c16", "f2"):
        args = [numbers(rng, s, dtype) for s in shapes]
        check(name, args, attrs, target)
        check(name, [strided(a, rng) for a in args], attrs, target)


def test_triangles_drop_what_is_not_finite() -> None:
    x = np.full((5, 5), np.nan, np.float32)
    check("tril", [x], {"k": -1})
    check("triu", [x], {"k": 1})


def test_slice_update_by_a_number() -> None:
    check("slice_update", [np.ones((3, 4), np.float32), -0.0], {"entries": (1, ALL)})
