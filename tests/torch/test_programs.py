"""Programs written for PyTorch, in the idioms of public ones: `wengert.torch` gives the numbers that PyTorch gave."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from running import NAMES, run

RECORDED = json.loads((Path(__file__).parent / "data" / "programs.json").read_text())


def test_every_program_was_recorded() -> None:
    assert sorted(RECORDED) == NAMES


def in_turn() -> list[Any]:
    """Every program one way, eager and compiled in turn; the other way is left to the slow tests."""
    ways = [(name, compiled, i % 2 == compiled) for i, name in enumerate(NAMES) for compiled in (False, True)]
    return [
        pytest.param(
            name, compiled, id=f"{name}-{'compiled' if compiled else 'eager'}", marks=() if usual else pytest.mark.slow
        )
        for name, compiled, usual in ways
    ]


@pytest.mark.parametrize(("name", "compiled"), in_turn())
def test_numbers_are_pytorchs(name: str, compiled: bool) -> None:
    np.testing.assert_allclose(run(name, compiled, by_wengert=True), RECORDED[name], rtol=1e-8, atol=1e-8)
