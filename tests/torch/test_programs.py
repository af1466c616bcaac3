"""Programs written for PyTorch, in the idioms of public ones: `wengert.torch` gives the numbers that PyTorch gave."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from running import NAMES, loaded, run

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


def test_a_compiled_codebook_is_not_traced_again() -> None:
    """Buffers that a module writes, and a beginning that it decides by one of them, do not begin a program anew."""
    module = loaded("quantisers", by_wengert=True)
    _, forward = module.train("moving", True, 6)
    # The codebook begins once; and with gradients of the parameters, and without.
    assert forward.compiled_call.cache_info().traces <= 3
