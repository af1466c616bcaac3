"""Two explorations side by side: what is the same pairs up in order, the rest is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.explorer import Exploration


def explored(f: Any, *args: Any) -> Exploration:
    return wg.explore(f, *args, compiled=False)


def changes(a: Exploration, b: Exploration) -> list[tuple[str, str]]:
    edits = a.diff(b).document["diff"]["edits"]
    check(a, b, edits)
    return [(e["kind"], e["text"]) for e in edits]


def check(a: Exploration, b: Exploration, edits: list[dict[str, Any]]) -> None:
    """Rows that no edit names pair up in order, as the page takes them to."""
    named_a = {e["a"] for e in edits}
    named_b = {e["b"] for e in edits}
    rest_a = [r for r in a.recording.rows if r.index not in named_a]
    rest_b = [r for r in b.recording.rows if r.index not in named_b]
    assert [(r.op and r.op.name, r.kind) for r in rest_a] == [(r.op and r.op.name, r.kind) for r in rest_b]


def test_equal_runs_have_no_edits() -> None:
    def f(x: Any) -> Any:
        return wg.tanh(x * 2.0).sum()

    assert changes(explored(f, wg.ones(3)), explored(f, wg.ones(3))) == []


def test_an_operation_put_between() -> None:
    def before(x: Any) -> Any:
        return wg.exp(x).sum()

    def after(x: Any) -> Any:
        return wg.exp(wg.tanh(x)).sum()

    ((kind, text),) = changes(explored(before, wg.ones(3)), explored(after, wg.ones(3)))
    assert kind == "added"
    assert text.endswith("= tanh")
    assert [k for k, _ in changes(explored(after, wg.ones(3)), explored(before, wg.ones(3)))] == ["removed"]


def test_an_operation_that_became_another() -> None:
    found = changes(explored(lambda x: wg.sin(x) * 2.0, 0.5), explored(lambda x: wg.cos(x) * 2.0, 0.5))
    assert [(k, t.partition(": ")[2]) for k, t in found] == [("changed", "sin became cos")]


def test_an_attribute_and_a_number() -> None:
    x = wg.ones((3, 3))
    found = changes(explored(lambda x: x.sum(axis=0) * 2.0, x), explored(lambda x: x.sum(axis=1) * 2.5, x))
    assert [t.partition(": ")[2] for _, t in found] == ["axis (-2,) became (-1,)", "numbers [2.0] became [2.5]"]


def test_two_checkpoints_say_how_far_weights_moved() -> None:
    wg.manual_seed(0)
    model = wg.nn.Linear(3, 1)
    x = wg.randn((8, 3))

    def loss(x: Any) -> Any:
        return model(x).square().mean()

    first = explored(loss, x)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)
    loss(x).backward()
    optimizer.step()
    found = changes(first, explored(loss, x))
    assert {k for k, _ in found} == {"changed"}
    assert len(found) == 2
    assert all("of its size" in t for _, t in found)


@pytest.mark.parametrize("width", [4, 6])
def test_a_layer_more(width: int) -> None:
    def model(layers: int) -> Any:
        wg.manual_seed(1)
        parts: list[Any] = []
        for _ in range(layers):
            parts += [wg.nn.Linear(width, width), wg.nn.ReLU()]
        return wg.nn.Sequential(*parts)

    def loss(network: Any, x: Any) -> Any:
        return network(x).sum()

    a, b = (explored(loss, model(n), wg.ones((2, width))) for n in (2, 3))
    found = changes(a, b)
    assert {k for k, _ in found if k != "changed"} == {"added"}
    assert sorted(t.rpartition(" ")[2] for k, t in found if k == "added" and "=" in t) == ["linear", "relu"]


def test_pairs_tell_how_far_values_and_gradients_are_apart() -> None:
    x = np.array([1.0, 2.0, 4.0])
    before = wg.explore(lambda x: (x * x).sum(), x, compiled=False)
    after = wg.explore(lambda x: (x * x).sum(), x * 1.5, compiled=False)
    pairs = before.diff(after).document["diff"]["pairs"]
    assert pairs["a"] == pairs["b"] == [0, 1, 2, 3]
    assert pairs["value"] == pytest.approx([0.5, 1.25, 1.25, 1.25])
    assert pairs["gradient"] == pytest.approx([0.5, 0, 0, 0])


@pytest.mark.parametrize("dtype", [wg.int64, wg.uint8, wg.bool, wg.float16, wg.bfloat16, wg.float32, wg.complex64])
def test_values_of_every_dtype_compare(dtype: Any) -> None:
    def f(x: Any) -> Any:
        return wg.where(x != 0, x, x)

    first, same, other = (explored(f, wg.tensor(given, dtype=dtype)) for given in ([1, 1], [1, 1], [1, 0]))
    assert set(first.diff(same).document["diff"]["pairs"]["value"]) == {0}
    apart = first.diff(other).document["diff"]["pairs"]["value"]
    assert apart[0] == apart[-1] == pytest.approx(0.5**0.5, rel=1e-5)


def test_renamed_parameters_are_recognised_by_what_takes_them() -> None:
    x = wg.ones((2, 3))

    def run(names: tuple[str, str]) -> Any:
        first, second = (wg.full((3, 3), k, requires_grad=True) for k in (1.0, 2.0))
        space = dict(zip(names, (first, second), strict=True))
        return wg.explore(
            lambda **given: (wg.tanh(x @ given[names[0]]) @ given[names[1]]).sum(), **space, compiled=False
        )

    found = run(("u", "v")).diff(run(("w", "v"))).document["diff"]
    assert [edit["text"] for edit in found["edits"]] == ["w: was called u"]
    assert all(value == 0 for value in found["pairs"]["value"])
