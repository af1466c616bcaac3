"""Mutated models: they run, or are refused with OnnxError. `python scripts/fuzz_onnx.py` runs many more."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from fuzz_onnx import mutated, one, outcome, seeds

MODULES = ("conv", "gather", "gru", "if_", "loop", "pad", "resize", "scatternd", "slice", "split", "tile", "topk")
FOUND = seeds(MODULES)
# Mutants that were no refusals once: a name that is no text, a split into two billion parts, windows in a padding of as
# many elements.
GROUPS = 8
EACH = 40


@pytest.mark.parametrize("group", range(GROUPS))
def test_mutants_run_or_are_refused(group: int) -> None:
    wrong = []
    for seed in range(group * EACH, (group + 1) * EACH):
        said = outcome(*one(seed, FOUND))
        if said not in ("ran", "refused"):
            wrong.append((seed, said))
    assert wrong == []


def test_mutants_differ_from_what_they_are_made_of() -> None:
    rng = random.Random(0)
    data = FOUND[0][0]
    assert sum(mutated(rng, data) != data for _ in range(50)) > 40
