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
    text = path.read_text()
    expected = re.search(r"# (finds|notes): ([\w-]+)", text)
    assert expected is not None
    wanted = [f for f in found_in(path) if (f.severity == "note") == (expected[1] == "notes")]
    assert [f.rule for f in wanted] == [expected[2]]
    assert wanted[0].text
    assert wanted[0].fix
    assert path.name in str(wanted[0]) or wanted[0].source is None
    if "# here" in text:
        (line,) = [i for i, line in enumerate(text.splitlines(), 1) if line.endswith("# here")]
        assert wanted[0].source is not None
        assert wanted[0].source.line == line


@pytest.mark.parametrize("path", sorted((SCRIPTS / "healthy").glob("*.py")), ids=lambda p: p.stem)
def test_nothing_is_found_where_nothing_is_wrong(path: Path) -> None:
    assert [str(f) for f in found_in(path) if f.severity != "note"] == []


def test_there_are_many_of_each() -> None:
    assert len(list((SCRIPTS / "faulty").glob("*.py"))) >= 35
    assert len(list((SCRIPTS / "healthy").glob("*.py"))) >= 70


def rules(path: Path, text: str) -> list[str]:
    path.write_text(text)
    return [f.rule for f in found_in(path)]


MODELS = """
import wengert as wg
wg.manual_seed(0)
x = wg.randn((20, 4))
used, other, scale = wg.nn.Linear(4, 1), wg.nn.Linear(4, 1), wg.tensor(1.0, requires_grad=True)
used(x).square().mean().backward()
"""


def test_what_takes_no_part_at_all_is_no_finding(tmp_path: Path) -> None:
    assert rules(tmp_path / "two.py", MODELS) == []


EXPLODING = """
import wengert as wg
wg.manual_seed(0)
layers = [wg.nn.Linear(32, 32) for _ in range(10)]
h = wg.randn((32, 32))
for layer in layers:
    h = wg.sin({factor} * layer(h))
h.square().mean().backward()
"""


def test_gradients_that_grow_from_layer_to_layer(tmp_path: Path) -> None:
    assert rules(tmp_path / "steep.py", EXPLODING.format(factor=20.0)) == ["exploding-gradient"]
    assert rules(tmp_path / "calm.py", EXPLODING.format(factor=1.0)) == []


STEPS = """
import wengert as wg
wg.manual_seed(0)
model = wg.nn.Linear(4, 3)
x, y = wg.randn((16, 4)), wg.randn((16, 3))
optimizer = wg.optim.SGD({parameters}, lr={lr})
for _ in range(2):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_step_larger_than_the_weight(tmp_path: Path) -> None:
    assert rules(tmp_path / "great.py", STEPS.format(parameters="model.parameters()", lr=50.0)) == ["great-step"]
    assert rules(tmp_path / "small.py", STEPS.format(parameters="model.parameters()", lr=0.01)) == []


def test_a_parameter_that_the_optimiser_does_not_know(tmp_path: Path) -> None:
    found = rules(tmp_path / "still.py", STEPS.format(parameters="[model.weight]", lr=0.01))
    assert "not-updated" in found


def test_a_nan_among_the_data(tmp_path: Path) -> None:
    text = """
import wengert as wg
wg.manual_seed(0)
x = wg.tensor([[1.0, float("nan")], [2.0, 3.0]])
model = wg.nn.Linear(2, 1)
model(x).mean().backward()
"""
    assert rules(tmp_path / "data.py", text)[0] == "nonfinite-input"
