"""Sums, products and scatters of many numbers keep their digits in eager code, in every small dtype."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from long_sums import COUNT, LONG, PROGRAMS, agree, long_call, narrow, wide
from wengert.ops.long_sums import add_up, multiply_up, running


def test_the_ops_that_sum_are_among_them() -> None:
    expected = "sum prod mean var std logsumexp l2_norm p_norm softmax log_softmax cumulative_sum cumulative_prod"
    assert set(expected.split()) | {"linear_recurrence", "sum_runs", "standardize", "batch_norm"} <= set(LONG)


@pytest.mark.parametrize("dtype", COUNT, ids=str)
@pytest.mark.parametrize("name", LONG)
def test_ops(name: str, dtype: np.dtype) -> None:
    op = LONG[name]
    call = long_call(op, COUNT[dtype])
    assert call is not None
    args = narrow(list(call.args), dtype)
    agree(op.front(*map(wg.asarray, args), **call.attrs), op.front(*wide(args), **call.attrs), dtype)


@pytest.mark.parametrize("dtype", COUNT, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, dtype: np.dtype) -> None:
    program = PROGRAMS[name]
    args = narrow(program.arguments(COUNT[dtype]), dtype)
    agree(program.run(*map(wg.asarray, args)), program.run(*wide(args)), dtype)


# Layouts in which what is summed lies first, last, apart, backwards, or is cast on the way.
LAYOUTS = {
    "rows": ((5000, 3), lambda x: x, 0),
    "columns": ((3, 5000), lambda x: x, 1),
    "transposed": ((3, 5000), lambda x: x.T, 0),
    "every other": ((9000, 4), lambda x: x[::2, 1:], 0),
    "backwards": ((5000, 3), lambda x: x[::-1], 0),
    "two of three": ((700, 3, 9), lambda x: x, (0, 2)),
    "two of three that lie apart": ((90, 40, 5), lambda x: x.transpose(1, 2, 0), (0, 2)),
    "all but one, turned": ((40, 9, 70), lambda x: x.transpose(2, 0, 1), (0, 1)),
    "all": ((70, 9, 40), lambda x: x, None),
    "all, turned": ((70, 9, 40), lambda x: x.transpose(2, 0, 1)[:, ::2], None),
    "a broadcast": ((1, 3), lambda x: np.broadcast_to(x, (5000, 3)), 0),
    "no rest": ((4096, 2), lambda x: x, 0),
    "wide": ((1500, 700), lambda x: x, 0),
}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "i4", "?"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocked_sums_are_those_of_numpy(layout: str, dtype: str, keepdims: bool) -> None:
    shape, view, axis = LAYOUTS[layout]
    x = view(np.random.default_rng(1).integers(0, 3, shape).astype(dtype))
    wanted = np.add.reduce(x, axis, {"f2": np.dtype("f4"), "?": np.dtype("i8")}.get(dtype), keepdims=keepdims)
    found = add_up(x, axis, wanted.dtype if dtype in ("f2", "?") else None, None, keepdims)
    # Of small whole numbers every sum is exact, in any order.
    assert np.shape(found) == np.shape(wanted)
    assert found.dtype == wanted.dtype
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("size", [1, 512, 1025, 4097, 5000])
def test_blocked_scans_are_those_of_numpy(size: int, axis: int) -> None:
    x = np.moveaxis(np.random.default_rng(2).integers(-2, 3, (size, 2, 3)).astype("f4"), 0, axis)
    found = running(np.add, x, axis, x.dtype)
    assert found.dtype == x.dtype
    assert np.array_equal(found, np.add.accumulate(x, axis))
    ones = np.where(np.abs(x) == 2, np.float32(-1), np.float32(1))
    assert np.array_equal(running(np.multiply, ones, axis, x.dtype), np.multiply.accumulate(ones, axis))
    assert np.array_equal(multiply_up(ones, axis), np.multiply.reduce(ones, axis))
