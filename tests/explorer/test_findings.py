"""Findings: each planted fault is found, where it is; healthy programs give none; rules one by one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wengert.explorer.findings import Finding, findings
from wengert.explorer.script import record_script

SCRIPTS = Path(__file__).parent / "scripts"


def found_in(path: Path) -> list[Finding]:
    return findings(record_script(str(path)))


@pytest.mark.parametrize("path", sorted((SCRIPTS / "faulty").glob("*.py")), ids=lambda p: p.stem)
def test_a_planted_fault_is_found(path: Path) -> None:
    expected = re.search(r"# finds: ([\w-]+)", path.read_text())
    assert expected is not None
    grave = [f for f in found_in(path) if f.severity != "note"]
    assert [f.rule for f in grave] == [expected[1]]
    assert grave[0].text
    assert grave[0].fix
    assert path.name in str(grave[0]) or grave[0].source is None


@pytest.mark.parametrize("path", sorted((SCRIPTS / "healthy").glob("*.py")), ids=lambda p: p.stem)
def test_nothing_is_found_where_nothing_is_wrong(path: Path) -> None:
    assert [str(f) for f in found_in(path) if f.severity != "note"] == []


def test_there_are_ten_of_each() -> None:
    assert len(list((SCRIPTS / "faulty").glob("*.py"))) >= 10
    assert len(list((SCRIPTS / "healthy").glob("*.py"))) >= 10
