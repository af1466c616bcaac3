"""Sums, products and scatters of many numbers keep their digits in compiled code, on processors of every width."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from long_sums import COUNT, LONG, PROGRAMS, agree, arrays, long_call, narrow, wide
from processors import TARGETS

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from stepping import target_of
from wengert.execute.native.compile import compile_graph


def compiled(fn: Any, args: list[np.ndarray], target: str) -> Any:
    made = compile_graph(wg.graph(fn)(*map(wg.asarray, args)), target=target_of(target))
    return made.run(args)


def cases(names: Iterable[str]) -> list[Any]:
    """Return names, dtypes and processors: float32 on this one always, and in turn one other pair."""
    pairs = [(dtype, target) for dtype in COUNT for target in TARGETS]
    found = []
    for turn, name in enumerate(names):
        for k, (dtype, target) in enumerate(pairs):
            is_asked = k in (0, 1 + turn % (len(pairs) - 1))
            marks = () if is_asked else pytest.mark.slow
            found.append(pytest.param(name, dtype, target, marks=marks, id=f"{name}-{dtype}-{target}"))
    return found


@pytest.mark.parametrize(("name", "dtype", "target"), cases(LONG))
def test_ops(name: str, dtype: np.dtype, target: str) -> None:
    op = LONG[name]
    call = long_call(op, COUNT[dtype])
    assert call is not None
    args = narrow([np.ascontiguousarray(a) for a in call.args], dtype)
    wanted = op.front(*wide(args), **call.attrs)
    agree(compiled(lambda *xs: op.front(*xs, **call.attrs), args, target), wanted, dtype)


@pytest.mark.parametrize(("name", "dtype", "target"), cases(PROGRAMS))
def test_programs(name: str, dtype: np.dtype, target: str) -> None:
    program = PROGRAMS[name]
    args = narrow(program.arguments(COUNT[dtype]), dtype)
    agree(compiled(program.run, args, target), program.run(*wide(args)), dtype)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_share_a_sum_in_one_way(threads: int) -> None:
    """Units, and so the order of additions, follow from the sizes alone."""
    x = wg.asarray(np.random.default_rng(0).random((1 << 17, 3)).astype("f4"))
    results = []
    before = wg.get_num_threads()
    try:
        for count in (2, threads):
            wg.set_num_threads(count)
            results.append(arrays(wg.jit(lambda x: (x.sum(axis=0), x.sum(), (x * x).mean(axis=1)))(x)))
    finally:
        wg.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        assert np.array_equal(a, b)
