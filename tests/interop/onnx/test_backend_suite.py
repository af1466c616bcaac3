"""The backend test suite of the package onnx: a spread of its cases each time, all of them with `-m slow`.

`python scripts/onnx_suite.py --compiled` runs all of it and counts.
"""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from contextlib import suppress

from onnx_suite import (
    REFUSED,
    ROUNDING,
    Case,
    file_cases,
    is_numeric,
    node_cases,
    node_modules,
    refused,
    run_compiled,
    run_eager,
)

from wengert.interop.onnx import OnnxError

MODULES = node_modules()
# Of a module, and of those the first compiled as well.
_MOST = 30
# Cases of files of which some run each time; the light models of the last area take seconds each.
FILES = ("simple", "pytorch-operator", "pytorch-converted")


def check(case: Case, compiled: bool) -> None:
    run = run_compiled if compiled else run_eager
    why = refused("compiled" if compiled else "eager", case.name)
    if not why:
        run(case)
        return
    if why == ROUNDING:
        with suppress(AssertionError):
            run(case)
        return
    with pytest.raises((AssertionError, OnnxError)):
        run(case)


def check_all(cases: list[Case], seldom: int) -> None:
    """Run cases, and each that has a turn by `seldom` compiled as well."""
    for i, case in enumerate(cases):
        check(case, False)
        if i % seldom == 0 and is_numeric(case) and not refused("eager", case.name):
            check(case, True)


@pytest.mark.parametrize("module", MODULES[::6], ids=lambda m: m.rpartition(".")[2])
def test_cases_of_nodes(module: str) -> None:
    check_all(list(node_cases([module]))[:_MOST], _MOST)


# One for each file of rules.
FAMILIES = [
    "add",
    "cast",
    "conv",
    "loop",
    "resize",
    "gather",
    "layernormalization",
    "quantizelinear",
    "lstm",
    "reducemax",
    "sequenceinsert",
    "dft",
    "slice",
    "string_concat",
    "adam",
    "ai_onnx_ml.binarizer",
    "ai_onnx_ml.tree_ensemble",
    "range",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_case_of_every_family(family: str) -> None:
    found = [m for m in MODULES if m.endswith(f".{family}")] or [m for m in MODULES if family in m]
    (case, *_) = node_cases(found[:1])
    check(case, False)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.rpartition(".")[2])
def test_all_cases_of_nodes(module: str) -> None:
    check_all(list(node_cases([module])), 1)


@pytest.mark.parametrize("area", FILES)
def test_cases_of_files(area: str) -> None:
    check_all(list(file_cases(area))[::4], 8)


@pytest.mark.slow
@pytest.mark.parametrize("area", [*FILES, "real"])
def test_all_cases_of_files(area: str) -> None:
    check_all(list(file_cases(area)), 1)


def test_what_is_refused_is_a_case_of_the_suite() -> None:
    """Names in the tables are names of cases, so that none stays when its case goes."""
    sources = [case.name for case in file_cases("real")]
    for kind in ("eager", "compiled"):
        for name in REFUSED[kind]:
            words = name.removeprefix("test_").removeprefix("training_").replace("_", "")
            starts = tuple(m.rpartition(".")[2].replace("_", "") for m in MODULES)
            assert name in sources or words.startswith(starts), name
