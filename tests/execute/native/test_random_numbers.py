"""Random numbers of generated code: the bits of the ops' forwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import ml_dtypes

from stepping import TARGETS, check, lowered, node_of, same

SHAPES: list[tuple[int, ...]] = [(), (1,), (5,), (0, 2), (7, 9), (31,), (32,), (64,), (65,), (9001,)]
KEY = (0xFEDCBA9876543210, 0x8000000000000001)


def both_forms(name: str, attrs: dict[str, Any], target: str, counter: int = 11, equal: Any = same) -> None:
    check(name, [], {"key": KEY, "counter": counter, **attrs}, target, equal)
    position = [np.array(KEY, np.uint64), np.array(counter, np.uint64)]
    check(f"{name}_at", position, attrs, target, equal)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_bits_of_the_definitions(shape: tuple[int, ...], target: str) -> None:
    for dtype in (np.uint32, np.uint64):
        both_forms("random_bits", {"shape": shape, "dtype": np.dtype(dtype)}, target)
    for dtype in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16):
        both_forms("random_uniform", {"shape": shape, "dtype": np.dtype(dtype)}, target)
    for p in (0.0, 0.3, 0.5, 1.0):
        both_forms("random_bernoulli", {"shape": shape, "p": p}, target)
    for dtype, low, high in [
        ("i8", -3, 9), ("i4", -(2**31), 2**31), ("u1", 0, 256), ("u8", 0, 2**64), ("i8", -(2**63), 2**63),
        ("u8", 5, 2**63 + 2**62),
    ]:  # fmt: skip
        both_forms("random_integers", {"shape": shape, "dtype": np.dtype(dtype), "low": low, "high": high}, target)


def test_the_counter_carries_into_its_second_word() -> None:
    both_forms("random_bits", {"shape": (100,), "dtype": np.dtype(np.uint64)}, "host", counter=2**64 - 3)
    both_forms("random_bits", {"shape": (100,), "dtype": np.dtype(np.uint64)}, "avx2", counter=2**64 - 3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_normal(dtype: Any, target: str) -> None:
    work = np.float64 if dtype == np.float64 else np.float32

    def close(a: Any, b: Any) -> bool:
        # Where sine or cosine vanishes, to the spacing of numbers about 1.
        spacing = np.maximum(np.spacing(abs(b).astype(work)), np.finfo(work).eps / 2)
        if dtype != work:
            spacing = np.maximum(spacing, abs(b).astype(work) * float(ml_dtypes.finfo(dtype).eps))
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and bool(np.all(abs(a.astype(work) - b.astype(work)) <= 8 * spacing))
        )

    for shape in SHAPES:
        both_forms("random_normal", {"shape": shape, "dtype": np.dtype(dtype)}, target, equal=close)


@pytest.mark.parametrize("target", TARGETS)
def test_keys_of_keys(target: str) -> None:
    key = np.array(KEY, np.uint64)
    for position in (np.array(7), np.array(-1), np.array(2**64 - 1, np.uint64)):
        check("random_key", [key, position], {"domain": 4}, target)
    check("random_key", [np.array([1, 0, 2], np.uint64)[::2], np.array(3)], {"domain": 2}, target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_same_bits_for_every_split(target: str) -> None:
    attrs = {"key": KEY, "counter": 1, "shape": (50001,), "dtype": np.dtype(np.float32)}
    node = node_of("random_normal", [], attrs)
    runs = [lowered(node, [], target, seed) for seed in range(4)]
    assert all(same(r, runs[0]) for r in runs)


def test_a_counter_of_another_dtype_is_left_to_the_host() -> None:
    node = node_of("random_bits_at", [np.array(KEY, np.uint64), np.array(3)], {"shape": (2,), "dtype": np.dtype("u8")})
    assert lowered(node, [np.array(KEY, np.uint64), np.array(3)]) is None
