"""Mutated models: they run, or are refused with OnnxError. `python scripts/fuzz_onnx.py` runs many more."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from fuzz_onnx import mutated, one, outcome, seeds
from onnx import helper

import wengert as wg
from wengert.interop.onnx import OnnxError, load

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


def doubled(levels: int) -> Any:
    """A document of a size that grows with the levels, and of a run that doubles with each."""
    info = helper.make_tensor_value_info
    imports = [helper.make_opsetid("l", 1), helper.make_opsetid("", 18)]
    functions = []
    for i in range(levels):
        twice = [helper.make_node(f"F{i + 1}", [a], [b], domain="l") for a, b in (("a", "t"), ("t", "b"))]
        functions.append(helper.make_function("l", f"F{i}", ["a"], ["b"], twice, imports))
    last = [helper.make_node("Add", ["a", "a"], ["b"])]
    functions.append(helper.make_function("l", f"F{levels}", ["a"], ["b"], last, imports))
    call = helper.make_node("F0", ["x"], ["y"], domain="l")
    graph = helper.make_graph([call], "g", [info("x", 1, [2])], [info("y", 1, [2])])
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=9)


def test_functions_that_call_each_other_twice() -> None:
    assert load(doubled(5))(wg.ones(2)).tolist() == [2.0**32] * 2
    for levels in (30, 190):
        with pytest.raises(OnnxError, match=r"runs 1,572,862 nodes with those of the functions that it calls"):
            load(doubled(levels))
