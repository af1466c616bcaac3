"""Statistics of large arrays, piece by piece, are those of small ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.explorer.document import large, stats


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((70, 101)).astype(np.float32)
    bad = plain.copy()
    bad[3, 5], bad[60, 100], bad[9, 0] = np.nan, np.inf, 0
    return {
        "plain": plain,
        "bad": bad,
        "vector": rng.standard_normal(5000).astype(np.float16),
        "whole": rng.integers(-9, 9, (7, 11, 13)),
        "same": np.full((40, 40), 2.5, np.float32),
        "zeros": np.zeros((40, 40), np.float32),
        "all nan": np.full((40, 40), np.nan, np.float32),
        "turned": plain.T,
        "half": wg.asarray(plain).astype(wg.bfloat16).numpy(),
        "truths": plain > 0,
    }


@pytest.mark.parametrize("name", arrays())
@pytest.mark.parametrize("piece", [64, 1000, 1 << 20])
def test_large_arrays_are_told_as_small_ones(monkeypatch: pytest.MonkeyPatch, name: str, piece: int) -> None:
    array = arrays()[name]
    if array.dtype == np.int64:
        array = array.astype(np.int32)
    want = stats.details(array), stats.code(array), stats.size(array)
    monkeypatch.setattr(stats, "_LARGE", 10)
    monkeypatch.setattr(large, "PIECE", piece)
    found = stats.details(array), stats.code(array), stats.size(array)
    assert found[1] == want[1]
    assert (found[2] is None) == (want[2] is None)
    if want[2] is not None:
        assert abs(found[2] - want[2]) <= 2e-5 * abs(want[2])
    assert want[0] is not None
    assert found[0] is not None
    for key in ("min", "max", "nan", "inf", "zero", "size", "hist"):
        assert found[0][key] == want[0][key], key
    for key in ("mean", "std"):
        assert abs(found[0][key] - want[0][key]) <= 1e-5 * max(1.0, abs(want[0]["std"]))
    ours, theirs = found[0]["cells"], want[0]["cells"]
    assert (ours["rows"], ours["cols"]) == (theirs["rows"], theirs["cols"])
    for a, b in zip(ours["values"], theirs["values"], strict=True):
        assert a == b or abs(a - b) <= 1e-2 * abs(b)
