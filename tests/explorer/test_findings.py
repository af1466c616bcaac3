"""Findings: each planted fault is found, where it is; healthy programs give none; rules one by one."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.explorer.document.document import document
from wengert.explorer.findings import Finding, findings
from wengert.explorer.recording.script import record_script

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
    # What nobody ever uses stands nowhere.
    if expected[2] != "unused-parameter":
        (line,) = [i for i, line in enumerate(text.splitlines(), 1) if line.endswith("# here")]
        assert wanted[0].source is not None
        assert wanted[0].source.line == line


@pytest.mark.parametrize("path", sorted((SCRIPTS / "healthy").glob("*.py")), ids=lambda p: p.stem)
def test_nothing_is_found_where_nothing_is_wrong(path: Path) -> None:
    assert [str(f) for f in found_in(path) if f.severity != "note"] == []


def test_the_page_shows_the_line_that_a_finding_names() -> None:
    path = SCRIPTS / "faulty" / "one_cut_of_many.py"
    made = document(record_script(str(path)))
    (found,) = [f for f in made["findings"] if f["rule"] == "missing-gradient"]
    line = made["spans"]["line0"][found["span"]]
    assert "x.detach()" in path.read_text().splitlines()[line - 1]


def test_there_are_many_of_each() -> None:
    assert len(list((SCRIPTS / "faulty").glob("*.py"))) >= 40
    assert len(list((SCRIPTS / "healthy").glob("*.py"))) >= 100


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


# Steps of a program: two values by their distance from the end, and whether the first and the second are detached.
STEPS_WITH_CUTS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.booleans(), st.booleans()), min_size=2, max_size=9
)


def program_with_cuts(steps: list[tuple[int, int, bool, bool]], mended: int = -1) -> str:
    """A line for every step, with a parameter of its own; without the cuts of the line `mended`."""
    lines = ["import wengert as wg", "v = [wg.tensor(0.5), wg.tensor(0.7)]"]
    lines += [f"w{i} = wg.tensor({1 + i / 7:.3f}, requires_grad=True)" for i in range(len(steps))]
    names = ", ".join(f"w{i}" for i in range(len(steps)))
    lines += [f"opt = wg.optim.SGD([{names}], lr=0.0)"]
    for i, (a, b, cut_a, cut_b) in enumerate(steps):
        keep = len(lines) + 1 == mended
        left = f"v[-min({a}, len(v))]" + (".detach()" if cut_a and not keep else "")
        right = f"v[-min({b}, len(v))]" + (".detach()" if cut_b and not keep else "")
        lines.append(f"v.append(w{i} * {left} + wg.tanh({right}))")
    lines += ["v[-1].backward()", "opt.step()"]
    return "\n".join(lines) + "\n"


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS_WITH_CUTS)
def test_every_missing_gradient_is_told_once_and_where_mending_helps(tmp_path: Path, steps: list[Any]) -> None:
    path = tmp_path / "cut.py"

    def gradients(text: str) -> dict[str, bool]:
        space: dict[str, Any] = {}
        exec(text, space)
        return {name: value.grad is not None for name, value in space.items() if re.fullmatch(r"w\d+", name)}

    text = program_with_cuts(steps)
    path.write_text(text)
    has = gradients(text)
    # What the result is computed from at all: everything, without the cuts.
    reaches = gradients(program_with_cuts([(a, b, False, False) for a, b, _, _ in steps]))
    found = [f for f in found_in(path) if f.rule == "missing-gradient" and f.severity == "error"]
    told = [name for f in found for name in re.findall(r"w\d+", facts_names(f))]
    assert sorted(told) == sorted(name for name in has if reaches[name] and not has[name])
    for finding in found:
        assert finding.source is not None
        assert ".detach()" in text.splitlines()[finding.source.line - 1]
        after = gradients(program_with_cuts(steps, mended=finding.source.line))
        assert any(after[name] for name in re.findall(r"w\d+", facts_names(finding)))


def test_slopes_of_0_and_infinity_on_one_way_warn_of_nothing() -> None:
    def loss(x: Any) -> Any:
        h = wg.where(x > 2.0, x, 0.0)
        return wg.sqrt(h).sum()

    explored = wg.explore(loss, np.array([1.0, 4.0, 9.0]), compiled=False)
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("error")
        assert "vanishing" not in " ".join(f.rule for f in explored.findings)


def facts_names(finding: Finding) -> str:
    """All names that a finding is about: its title has the first three."""
    return str(finding.evidence["names"])
