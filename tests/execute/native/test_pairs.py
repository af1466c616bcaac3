"""Sums of products of bfloat16 pairs: the bits of multiply-adds, by the instruction and without it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from stepping import Bench, laid_out
from wengert.execute.native.codegen import machine
from wengert.execute.native.codegen.builder import Builder, Value
from wengert.execute.native.codegen.kernel import Kernel
from wengert.execute.native.codegen.types import F32, I32, I64
from wengert.execute.native.kernels.gemm.finish import plain_store
from wengert.execute.native.kernels.gemm.plan import product
from wengert.execute.native.scalar import pairs

bfloat16 = ml_dtypes.bfloat16
HAS_DOT = machine.is_supported() and pairs.has_dot(machine.host())
needs_dot = pytest.mark.skipif(not HAS_DOT, reason="this processor has no sums of bfloat16 pairs")


def values(rng: np.random.Generator, *shape: int, low: int = -6, high: int = 7) -> Any:
    """Numbers of exponents from `low` to `high`."""
    return (rng.uniform(1, 2, shape) * rng.choice([-1, 1], shape) * 2.0 ** rng.integers(low, high, shape)).astype(
        bfloat16
    )


def summed(x: Any, y: Any) -> Any:
    """Products of matrices as the instruction defines them, each sum rounded to float32.

    In float64 a sum of float32 and a product is exact where exponents are not far apart, as they are not here.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    total = np.zeros((x.shape[0], y.shape[1]), np.float32)
    for k in range(0, x.shape[1], 2):
        for i in (k + 1, k):
            if i < x.shape[1]:
                total = (total + x[:, i, None] * y[i]).astype(np.float32)
    return total


def multiplied(x: Any, y: Any, layouts: Sequence[str] = ("plain", "plain")) -> tuple[Any, list[Kernel]]:
    """The product in float32, before it is rounded, and its kernels."""
    bench = Bench()
    out = bench.temp((x.shape[0], y.shape[1]), np.float32)
    product(bench, *(bench.given(laid_out(v, how)) for v, how in zip((x, y), layouts)), plain_store(out))
    (found,) = bench.run(out)
    return found, [s.kernel for s in bench.plan.steps]


@needs_dot
@pytest.mark.parametrize("inner", [1, 2, 7, 64, 129])
@pytest.mark.parametrize("layouts", [("plain", "plain"), ("transposed", "transposed"), ("gaps", "spread")])
def test_products_have_the_bits_of_multiply_adds(inner: int, layouts: tuple[str, str]) -> None:
    """Two tiles of 14 rows, whose sums are taken step by step; columns that fill vectors, and that do not."""
    rng = np.random.default_rng(inner)
    for columns in (64, 41):
        x, y = values(rng, 28, inner), values(rng, inner, columns)
        found, kernels = multiplied(x, y, layouts)
        np.testing.assert_array_equal(found.view(np.int32), summed(x, y).view(np.int32))
        assert "vdpbf16ps" in kernels[-1].asm


@needs_dot
@pytest.mark.parametrize("layouts", [("plain", "plain"), ("transposed", "transposed"), ("spread", "gaps")])
@pytest.mark.parametrize(
    ("exponents", "others"),
    [
        # A denormal number times a large one; products that are denormal; sums that are, of products that are not.
        ((-133, -126), (120, 127)),
        ((-75, -60), (-75, -60)),
        ((-70, -60), (-55, -45)),
        ((-60, -52), (-60, -52)),
    ],
)  # fmt: skip
def test_nothing_is_flushed(exponents: tuple[int, int], others: tuple[int, int], layouts: tuple[str, str]) -> None:
    rng = np.random.default_rng(1)
    for rows in (28, 9, 7):
        x, y = (
            values(rng, rows, 24, low=exponents[0], high=exponents[1]),
            values(rng, 24, 40, low=others[0], high=others[1]),
        )
        found = multiplied(x, y, layouts)[0]
        exact = x.astype(np.float64) @ y.astype(np.float64)
        size = np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64))
        # Each of so many sums is rounded: to 24 bits, or to the grain of denormal numbers.
        assert (np.abs(found - exact) <= 24 * (2.0**-24 * size + 2.0**-150)).all()
        if rows == 28:
            np.testing.assert_array_equal(found, summed(x, y))


@needs_dot
def test_one_small_number_anywhere_is_found() -> None:
    """In every place of an operand that is read where it lies, or packed in one way or another."""
    rng = np.random.default_rng(2)
    tiny = np.float64(2.0**-130)
    for layouts in (("plain", "plain"), ("transposed", "transposed"), ("spread", "gaps")):
        for inner in (10, 11, 75):
            for row, k in ((0, 0), (13, inner - 1), (28, inner // 2), (28, 0)):
                x, y = values(rng, 29, inner), values(rng, inner, 70)
                x[row, k], y[k, :] = tiny, 2.0**120
                x[row, :k], x[row, k + 1 :] = 0, 0
                found = multiplied(x, y, layouts)[0]
                np.testing.assert_array_equal(found[row], np.full(70, 2.0**-10, np.float32))
                turned = multiplied(y.T, x.T, layouts)[0]
                np.testing.assert_array_equal(turned[:, row], np.full(70, 2.0**-10, np.float32))


@needs_dot
def test_what_is_not_finite_stays_so() -> None:
    x, y = np.zeros((28, 9), bfloat16), np.ones((9, 40), bfloat16)
    x[0, 8], x[1, 3], x[2, :2], x[3, 8] = np.inf, np.nan, (np.inf, -np.inf), 3.3e38
    y[8, 1:3] = (0, 2)
    with np.errstate(all="ignore"):
        want = x.astype(np.float32) @ y.astype(np.float32)
    for layouts in (("plain", "plain"), ("transposed", "spread")):
        np.testing.assert_array_equal(multiplied(x, y, layouts)[0], want)
    # A last pair lacks a number: nothing that lies beyond it is multiplied.
    wide = np.full((28, 10), np.nan, bfloat16)
    wide[:, :9] = 1
    found, _ = multiplied(wide[:, :9], np.ones((9, 40), bfloat16))
    np.testing.assert_array_equal(found, 9)


def _run(write: Any, *arrays: Any) -> None:
    """Run a kernel that `write` writes of pointers to arrays."""

    def build(b: Builder) -> None:
        write(b, [b.load(I64, b.offset(b.rec, i, I64)) for i in range(len(arrays))])

    kernel = Kernel(f"test {write.__qualname__} {id(write)}", build, machine.host())
    record = np.array([a.ctypes.data if isinstance(a, np.ndarray) else a for a in arrays], np.int64)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)(kernel.address)
    run(None, record.ctypes.data, 0, 1, 0)


def _pointer(b: Builder, word: Value) -> Value:
    return b.value(b.rec.type, f"inttoptr i64 {word.text} to ptr")


@needs_dot
def test_what_may_be_denormal() -> None:
    """The rule says no only where the instruction has the bits of multiply-adds, at its edge too."""

    def judge(b: Builder, words: list[Value]) -> None:
        x, y, out = words
        b.store(b.cast("zext", pairs.may_be_denormal(b, x, y), I64), _pointer(b, out))

    def both(b: Builder, words: list[Value]) -> None:
        x, y, total, one, other = (_pointer(b, w) for w in words)
        a, c = (b.load(I32.vector(16), p) for p in (x, y))
        start = b.load(F32.vector(16), total)
        b.store(pairs.dot(b, a, c, start), one)
        b.store(pairs.dot_widened(b, pairs.widened(b, a), pairs.widened(b, c), start), other)

    rng = np.random.default_rng(3)
    seen = set()
    for e, f in [(-56, -56), (-56, -57), (-57, -56), (-126, 14), (-127, 40), (14, -126), (0, 0), (-112, 0), (-113, 0)]:
        smallest = [int(np.array(2.0**n).astype(bfloat16).view(np.uint16)) - 1 for n in (e, f)]
        answer = np.zeros(1, np.int64)
        _run(judge, *smallest, answer)
        assert bool(answer[0]) == (min(e, f) < -126 or e + f < -112)
        x, y = (values(rng, 32, low=n, high=n + 1) for n in (e, f))
        # Sums that cancel, as far as such numbers can.
        total = -(x[1::2].astype(np.float64) * y[1::2].astype(np.float64)).astype(np.float32)
        one, other = np.zeros(16, np.float32), np.zeros(16, np.float32)
        _run(both, x, y, total, one, other)
        is_same = np.array_equal(one, other)
        assert is_same or answer[0]
        seen.add((is_same, bool(answer[0])))
    assert {(True, False), (False, True)} <= seen


def test_processors_without_the_instruction_have_code_of_their_own() -> None:
    x, y = np.ones((28, 64), bfloat16), np.ones((64, 40), bfloat16)
    names = set()
    for target in (machine.host(), machine.without("avx512bf16")):
        bench = Bench()
        bench.target = target
        out = bench.temp((28, 40), np.float32)
        product(bench, bench.given(x), bench.given(y), plain_store(out))
        np.testing.assert_array_equal(bench.run(out)[0], 64)
        kernel = bench.plan.steps[-1].kernel
        assert isinstance(kernel, Kernel)
        assert ("vdpbf16ps" in kernel.asm) == pairs.has_dot(target)
        names.add(kernel.name)
    assert len(names) == 1 + HAS_DOT
