"""Answers about batching as documents: kernels in their order, and what was left out with its lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

import wengert as wg

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "src/wengert/explorer/trace.schema.json").read_text())
DOUBLE = wg.cell(lambda x: x * 2)


def chain(length: int) -> Any:
    x = wg.ones(2)
    for _ in range(length):
        x = DOUBLE(x)
    return x


def document(answer: Any) -> dict[str, Any]:
    found = wg.explore(answer).document
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


def test_kernels_stand_in_their_order() -> None:
    answer = wg.explain.batching(lambda: [wg.autobatch(chain)(lengths) for lengths in ([1, 3, 2], [1])])
    found = document(answer)["batching"]
    assert [found["run"], found["calls"]] == [[0, 0, 0, 1], [3, 2, 1, 1]]
    assert found["rows"] == [group.rows for ran in answer.runs for group in ran.groups]
    assert (found["cells"], found["cell"], found["ways"]) == (["<lambda>"], [0] * 4, ["depth"] * 2)
    assert sum(found["gathered"]) == answer.gathered
    assert sum(found["sliced"]) == answer.sliced
    assert found["left"] == []


def test_what_was_left_out_has_its_lines() -> None:
    branch = wg.cell(lambda x: x if x > 0 else -x)
    with wg.batching() as block:
        for i in range(3):
            branch(wg.tensor(float(i)))
        branch(wg.tensor(1.0))
    found = document(wg.explain.batching(block))
    (left,) = found["batching"]["left"]
    assert (left["name"], left["calls"], left["places"]) == ("<lambda>", 4, 2)
    (piece,) = found["files"][0]["pieces"]
    spans = found["spans"]
    marked = [
        piece["text"][spans["line0"][s] - piece["line"]][spans["col0"][s] : spans["col1"][s]] for s in left["spans"]
    ]
    assert marked == ["branch(wg.tensor(float(i)))", "branch(wg.tensor(1.0))"]


def test_a_call_by_a_module_of_wengert_has_the_line_of_the_program() -> None:
    class Branch(wg.nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    model = wg.nn.Sequential(wg.nn.Linear(2, 2), Branch())
    answer = wg.explain.batching(lambda: model(wg.ones(2)))
    assert {e.name for e in answer.left} >= {"Branch"}
    assert {p.file for e in answer.left for p in e.places} == {__file__}


def test_an_exploration_of_it_says_what_it_is(tmp_path: Path) -> None:
    found = wg.explore(wg.explain.batching(wg.autobatch(chain), [1, 3, 2]))
    assert str(found) == "batching: 6 calls in 3 kernels"
    found.save(tmp_path / "batching.html")
    assert "batching · wengert" in (tmp_path / "batching.html").read_text(encoding="utf-8")


def test_nothing_that_was_batched() -> None:
    assert document(wg.explain.batching(lambda: None))["batching"]["cells"] == []
