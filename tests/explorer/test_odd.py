"""Odd values, graphs, programs and circumstances: what the explorer makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.explorer import Exploration, stats


def plain(found: Exploration) -> dict[str, Any]:
    """The document as a reader gets it: JSON, in which there are no infinities."""
    read: dict[str, Any] = json.loads(json.dumps(found.document, allow_nan=False))
    return read


# -- values


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("least", [5e-324, 1e-310, 1e-300, 1.0, 1e300])
def test_statistics_of_numbers_at_the_ends_of_the_range(least: float) -> None:
    x = least * np.arange(8.0)
    told = stats.details(x)
    assert told is not None
    assert told["hist"] == [1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1]
    assert told["mean"] == pytest.approx(least * 3.5, rel=1e-5, abs=5e-324)
    assert told["std"] == pytest.approx(least * float(np.std(np.arange(8.0))), rel=1e-5, abs=5e-324)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_numbers_stay_numbers(sign: float) -> None:
    most = np.finfo(np.float64).max
    x = np.full((20, 30), most)
    x[::2] *= sign
    found = plain(wg.explore(lambda x: (x * 1.0)[0, 0], x))
    told = next(d for d in found["stats"]["value"]["details"].values() if d["size"] == 600)
    assert told["max"] == most
    assert told["cells"]["values"] == [most] * (16 * 30)
    assert told["mean"] == pytest.approx(0 if sign < 0 else most, rel=1e-5, abs=1e-10 * most)
    assert sum(told["hist"]) == 600


@pytest.mark.parametrize(("number", "dtype"), [(1e-30, np.float32), (1e-200, np.float64), (5e-324, np.float64)])
def test_small_is_not_zero(number: float, dtype: type) -> None:
    assert stats.code(np.full(3, number, dtype)) > stats.ZERO
    assert stats.code(np.zeros(3, dtype)) == stats.ZERO


# -- graphs


def test_a_tensor_whose_leaves_are_gone() -> None:
    def made() -> wg.Tensor:
        x = wg.tensor(2.0, requires_grad=True)
        return (x + 1.5) + 1.0

    found = wg.explore(made())
    assert plain(found)["stats"]["value"]["scalar"][-1] == 4.5
    assert "the tensors that they were computed from are gone" in str(found)
