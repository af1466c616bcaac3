"""The memory that arrays lie in."""

from __future__ import annotations

import numpy as np
import pytest

from wengert.ops.index.memory import Occupied, bounds


@pytest.mark.parametrize("seed", range(20))
def test_what_was_noted_is_what_may_share_memory(seed: int) -> None:
    """Views of any length, step and direction, and arrays of none, noted one after the other."""
    rng = np.random.default_rng(seed)
    whole, noted, occupied = np.zeros((40, 30)), [], Occupied()
    for _ in range(60):
        (a, b), (c, d) = np.sort(rng.integers(0, 41, 2)), np.sort(rng.integers(0, 31, 2))
        view = whole[a:b, c:d][:: rng.choice([1, 2, -1]), :: rng.choice([1, 3, -2])]
        view = view[: rng.integers(0, 4)] if rng.random() < 0.7 else view
        expected = any(np.may_share_memory(view, x) for x in noted)
        # Ranges that overlap are one: what lies between two is taken to be noted only where a third one joins them.
        assert occupied.touches(view) == expected
        assert occupied.add(view) == expected
        noted.append(view)


def test_bounds() -> None:
    x = np.zeros((3, 4), np.float32)
    at = x.__array_interface__["data"][0]
    assert bounds(x) == (at, at + 48)
    assert bounds(x[::-1, 1::2]) == (at + 4, at + 48)
    assert bounds(x[:0]) == (at, at)
    assert not Occupied().add(x[:0])
