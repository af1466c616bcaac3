"""Programs written for PyTorch, in the idioms of public ones: `wengert.torch` gives the numbers that PyTorch gave."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from running import NAMES, run

RECORDED = json.loads((Path(__file__).parent / "data" / "programs.json").read_text())


def test_every_program_was_recorded() -> None:
    assert sorted(RECORDED) == NAMES


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_pytorchs(name: str, compiled: bool) -> None:
    np.testing.assert_allclose(run(name, compiled, by_wengert=True), RECORDED[name], rtol=1e-8, atol=1e-8)
