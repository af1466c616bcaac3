"""The backend test suite of the package onnx: a spread of its cases each time, all of them with `-m slow`.

`python scripts/onnx_suite.py --compiled` runs all of it and counts.
"""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx_suite
from onnx_suite import Case, file_cases, is_numeric, node_cases, node_modules, refused, run_compiled, run_eager

MODULES = node_modules()
# Cases of files of which some run each time; the light models of the last area take seconds each.
FILES = ("simple", "pytorch-operator", "pytorch-converted")


def check(case: Case, compiled: bool) -> None:
    run = run_compiled if compiled else run_eager
    why = refused("compiled" if compiled else "eager", case.name)
    if not why:
        run(case)
        return
    with pytest.raises((AssertionError, onnx_suite.wengert_onnx.OnnxError)):
        run(case)
        pytest.fail(f"{case.name} passes, and is listed as refused: {why}")


def check_all(cases: list[Case], seldom: int) -> None:
    """Run cases, and each that has a turn by `seldom` compiled as well."""
    for i, case in enumerate(cases):
        check(case, False)
        if i % seldom == 0 and is_numeric(case) and not refused("eager", case.name):
            check(case, True)


@pytest.mark.parametrize("module", MODULES[::6], ids=lambda m: m.rpartition(".")[2])
def test_cases_of_nodes(module: str) -> None:
    check_all(list(node_cases([module])), 16)


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
        for name in onnx_suite.REFUSED[kind]:
            words = name.removeprefix("test_").replace("_", "")
            known = any(name == s for s in sources) or any(
                words.startswith(m.rpartition(".")[2].replace("_", "")) for m in MODULES
            )
            assert known or "dropout" in name, name
