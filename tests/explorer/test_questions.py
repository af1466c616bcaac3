"""What a live page asks: float64, paths of one node at any size, compiling on demand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.explorer import Exploration, explore
from wengert.explorer.questions import answer, is_slow
from wengert.explorer.recording.replayed import replayed


@pytest.fixture(scope="module")
def found() -> Exploration:
    x = wg.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))

    def loss(w: Any) -> Any:
        h = wg.tanh(x @ w)
        return (wg.exp(h) * h).sum()

    return explore(loss, np.ones((3, 2), np.float32), compiled=False)


def row_of(found: Exploration, op: str) -> int:
    return next(i for i, row in enumerate(found.recording.rows) if row.op is not None and row.op.name == op)


def ask(found: Exploration, what: str, node: int = 0) -> Any:
    told = answer({"id": 3, "ask": what, "node": node}, found)
    assert told is not None
    assert told["id"] == 3
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    return told["answer"]


def test_a_place_is_replayed_in_float64(found: Exploration) -> None:
    row = row_of(found, "tanh")
    again = replayed(found.recording, row)
    assert again is not None
    x = np.linspace(-1, 1, 12, dtype=np.float32).astype(np.float64).reshape(4, 3)
    h = np.tanh(x @ np.ones((3, 2)))
    np.testing.assert_allclose(again.value, h, rtol=1e-14)
    np.testing.assert_allclose(again.gradient, np.exp(h) * (1 + h), rtol=1e-14)
    told = ask(found, "float64", row)
    assert 0 < told["valueError"] < 1e-6
    assert told["value"]["size"] == 8


def test_what_is_not_finite_by_rounding_is_finite_in_float64() -> None:
    found = explore(lambda x: wg.exp(x).sum(), np.array([100.0], np.float32), compiled=False)
    told = ask(found, "float64", row_of(found, "exp"))
    assert told["value"]["inf"] == 0
    assert told["valueError"] is None


def test_conversions_to_narrower_floats_are_left_out() -> None:
    found = explore(lambda x: (x.astype("float16") * 3).astype("float32").sum(), np.array([0.1], np.float32))
    again = replayed(found.recording, row_of(found, "multiply"))
    assert again is not None
    np.testing.assert_allclose(again.value, [3 * float(np.float32(0.1))], rtol=1e-15)


def test_without_gradients_nothing_is_replayed() -> None:
    assert ask(explore(wg.graph(lambda x: x + 1)(wg.spec((2,)))), "float64") is None


@pytest.mark.parametrize("depth", [3, 30])
def test_paths_of_one_node_are_told_at_any_size(depth: int) -> None:
    def loss(x: Any) -> Any:
        for _ in range(depth):
            x = x + 0.1 * wg.tanh(x)
        return x.sum()

    found = explore(loss, np.linspace(0, 1, 5), compiled=False)
    table = ask(found, "paths", 0)
    assert table["nodes"]["row"] == [0]
    assert table["nodes"]["count"] == [2**depth]
    assert table["nodes"]["equal"] == [True]
    first, shown = table["nodes"]["first"][0], table["nodes"]["shown"][0]
    others = int(2**depth > shown)
    shares = table["list"]["share"][first : first + shown + others]
    assert sum(shares) == pytest.approx(1, abs=1e-3)
    # Each shown path leads to the result, and nothing else is there.
    reached = set(range(first, first + shown + others))
    for entry in list(reached):
        while (entry := table["list"]["next"][entry]) >= 0:
            reached.add(entry)
    assert reached == set(range(len(table["list"]["next"])))


def test_the_same_paths_as_a_small_document_tells(found: Exploration) -> None:
    whole, one = found.document["paths"], ask(found, "paths", 0)
    at = whole["nodes"]["row"].index(0)
    for column in ("count", "shown", "equal"):
        assert one["nodes"][column] == [whole["nodes"][column][at]]
    first, shown = whole["nodes"]["first"][at], whole["nodes"]["shown"][at]
    start = one["nodes"]["first"][0]
    assert one["list"]["share"][start : start + shown] == whole["list"]["share"][first : first + shown]


def test_a_page_carries_the_replays_of_its_errors() -> None:
    """Without the program behind it the page tells what it would be told there."""

    def f(x: Any) -> Any:
        return (x.exp() * 2).sum()

    found = explore(f, wg.tensor([1.0, 100.0], dtype="float32"))
    (error,) = [f for f in found.document["findings"] if f["severity"] == "error"]
    told = found.document["replays"]
    assert told == {str(error["node"]): ask(found, "float64", error["node"])}
    assert told[str(error["node"])]["value"]["inf"] == 0
    assert "replays" not in explore(f, wg.tensor([1.0, 2.0])).document


def test_it_is_compiled_when_asked(found: Exploration) -> None:
    assert "kernels" not in found.document
    told = ask(found, "kernels")
    assert told["kernels"]["list"]
    assert told["native"]["origin"] == "native"
    assert found.document["kernels"] == told["kernels"]


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "ask": "else", "node": 0},
        {"id": 1, "ask": "paths", "node": 99},
        {"id": True, "ask": "paths", "node": 0},
        {"ask": []},
    ],
)
def test_other_messages_are_no_questions(found: Exploration, message: object) -> None:
    assert answer(message, found) is None


def test_summaries_are_quick_and_the_rest_is_slow() -> None:
    assert not is_slow({"id": 1, "node": 0, "gradient": False})
    assert is_slow({"id": 1, "ask": "paths", "node": 0})
    assert not is_slow("paths")
