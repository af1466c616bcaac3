"""Random compiled programs, called eight times each with arguments of other origins and of every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import fuzz_calls
import wengert as wg
from fuzz_calls import check_calls
from fuzz_programs import Program
from fuzz_steps import random_program
from fuzzing import minimal

FIRST, COUNT, USUAL, AT_ONCE = 1000, 100, 40, 10


@pytest.mark.parametrize(
    "first",
    [pytest.param(FIRST + n, marks=pytest.mark.slow if n >= USUAL else ()) for n in range(0, COUNT, AT_ONCE)],
)
def test_every_call_gives_the_same(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        found = minimal(random_program(seed), "host", check_calls)
        assert found is None, f"seed {seed}: {found[1]}\n{found[0]}"


DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


@pytest.mark.parametrize("shape", [(3, 5), (), (0, 3), (70, 2)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_call_gives_the_same_in_every_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    kind = "bfloat16" if dtype == "bfloat16" else repr(dtype)
    numbers = [f"np.asarray(np.random.default_rng({k}).integers(0, 9, {shape})).astype({kind})" for k in (1, 2)]
    steps = {
        "v2": "wg.logical_xor(v0, v1)" if dtype == "bool" else "v0 * v1 + v0",
        "v3": "wg.where(wg.not_equal(v0, v1), v1, v0)",
        "v4": "wg.stack([v2, v3])",
        "v5": "wg.sum(v4, axis=0)",
        "v6": "wg.flip(wg.real(v2) if 'complex' in str(v2.dtype) else v2)",
        "v7": "v3" if dtype.startswith("complex") else "wg.max(v4, axis=0)",
        "v8": "v0.astype(wg.float64) if 'complex' not in str(v0.dtype) else wg.imag(v1)",
    }
    given = Program((("v0", numbers[0]), ("v1", numbers[1])), tuple(steps.items()), ("v5", "v6", "v7", "v8", "v3"))
    assert str(given.arrays()[0].dtype) == dtype
    found = minimal(given, "host", check_calls)
    assert found is None, f"{found[1]}\n{found[0]}"


PROGRAM = Program((("v0", "np.arange(4.0)"),), (("v1", "v0 * 2.0"),), ("v1",))


def _returned_again(function: Any) -> Any:
    """A compiled function that gives the same tensor again and again, with other numbers in it."""
    compiled, kept = wg.jit(function), []

    def call(*args: Any) -> Any:
        results = compiled(*args)
        kept[:] = kept or results
        kept[0]._data = np.asarray(results[0]) + 0.0
        kept[0]._array.flags.writeable = True
        kept[0]._array[...] += len(calls)
        calls.append(0)
        return tuple(kept)

    calls: list[int] = []
    return call


def _addresses(function: Any) -> Any:
    """One that takes elements for neighbours that are not."""
    compiled = wg.jit(function)

    def call(*args: Any) -> Any:
        wrong = [
            np.lib.stride_tricks.as_strided(a, strides=(a.itemsize,)) if isinstance(a, np.ndarray) else a for a in args
        ]
        return compiled(*wrong)

    return call


def _writes(function: Any) -> Any:
    compiled = wg.jit(function)

    def call(x: Any) -> Any:
        found = compiled(x)
        if isinstance(x, wg.Tensor):
            x.add_(1.0)
        return found

    return call


@pytest.mark.parametrize("broken", [_returned_again, _addresses, _writes])
def test_what_is_wrong_is_found(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_calls(PROGRAM) is None
    monkeypatch.setattr(fuzz_calls.wg, "jit", _Once(broken))
    assert check_calls(PROGRAM) is not None


class _Once:
    """`jit`, broken from outside, and itself within."""

    def __init__(self, broken: Any) -> None:
        self.broken, self.jit, self.is_inside = broken, wg.jit, False

    def __call__(self, function: Any) -> Any:
        if self.is_inside:
            return self.jit(function)
        self.is_inside = True
        return self.broken(function)
