"""Paths between tensors: contributions that add up to recorded gradients, at a cost that does not grow with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.explorer.document import tensor_paths
from wengert.explorer.document.slopes import FromRow

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft202012Validator(json.loads((ROOT / "src/wengert/explorer/trace.schema.json").read_text()))


@dataclass
class Told:
    """A path as a reader of the document has it: names from the node to the result, and its contribution."""

    names: list[str]
    share: float | None
    absent: bool
    values: Any


class Table:
    """The `paths` of an exploration, read."""

    def __init__(self, exploration: wg.Exploration) -> None:
        self.d = json.loads(json.dumps(exploration.document, allow_nan=False))
        VALIDATOR.validate(self.d)
        self.rows = exploration.recording.rows
        self.paths = self.d["paths"]
        self.nodes, self.list = self.paths["nodes"], self.paths["list"]
        edges = self.d["edges"]
        dst = np.cumsum(edges["dst"]).tolist()
        self.ends = [(d - s, d) for d, s in zip(dst, edges["src"], strict=True)]
        for table in (self.nodes, self.list):
            assert len({len(column) for column in table.values()}) == 1

    def at(self, name: str) -> int:
        rows = [self.d["strings"][n] for n in self.d["nodes"]["name"]]
        return self.nodes["row"].index(rows.index(name))

    def count(self, name: str) -> int:
        return self.nodes["count"][self.at(name)]

    def entries(self, at: int) -> tuple[list[int], int | None]:
        """The paths of a node, and what all others are together."""
        first, shown = self.nodes["first"][at], self.nodes["shown"][at]
        others = first + shown if self.nodes["count"][at] > shown else None
        assert others is None or self.list["edge"][others] == -1
        return list(range(first, first + shown)), others

    def trail(self, entry: int) -> list[int]:
        """The rows from a path's node to the result."""
        out = []
        while entry >= 0:
            src, dst = self.ends[self.list["edge"][entry]]
            assert not out or out[-1] == src
            out = [*(out or [src]), dst]
            entry = self.list["next"][entry]
        return out

    def told(self, name: str) -> list[Told]:
        def named(row: int) -> str:
            return self.d["strings"][self.d["nodes"]["name"][row]]

        at = self.at(name)
        shape = self.rows[self.nodes["row"][at]].spec.shape
        return [
            Told(
                [named(row) for row in self.trail(e)],
                self.list["share"][e],
                bool(self.list["absent"][e]),
                np.reshape(self.list["values"][e], shape),
            )
            for e in self.entries(at)[0]
        ]

    def check(self) -> None:
        """What holds for every table."""
        assert self.nodes["row"] == sorted(self.nodes["row"])
        for at, row in enumerate(self.nodes["row"]):
            entries, others = self.entries(at)
            assert 1 <= len(entries) <= min(self.paths["most"], self.nodes["count"][at])
            for entry in entries:
                trail = self.trail(entry)
                assert trail[0] == row
                assert trail[-1] in self.d["meta"]["roots"]
            assert len({tuple(self.edges(e)) for e in entries}) == len(entries)
            sizes = [self.list["rms"][e] for e in entries]
            assert sizes == sorted(sizes, reverse=True)
            assert self.nodes["equal"][at], (row, self.nodes["difference"][at])
            everything = [*entries, *([] if others is None else [others])]
            gradient = np.asarray(self.rows[row].gradient, np.float64)
            values = [self.list["values"][e] for e in everything]
            if gradient.size <= tensor_paths.ELEMENTS:
                near = 2e-5 * np.sum(np.abs(values)) + self.nodes["difference"][at]
                np.testing.assert_allclose(np.sum(values, axis=0), gradient.ravel(), rtol=0, atol=near)
            shares = [self.list["share"][e] for e in everything]
            if None not in shares:
                assert sum(shares) == pytest.approx(1, abs=1e-3 * sum(map(abs, shares)))

    def edges(self, entry: int) -> list[int]:
        out = []
        while entry >= 0:
            out.append(self.list["edge"][entry])
            entry = self.list["next"][entry]
        return out


def table(f: Callable[..., Any], *args: Any) -> Table:
    found = Table(wg.explore(f, *args, compiled=False))
    found.check()
    return found


X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


def test_every_parameter_of_a_network_has_one_path() -> None:
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(3, 4), wg.nn.Tanh(), wg.nn.Linear(4, 2))

    def loss(x: wg.Tensor) -> wg.Tensor:
        return (model(x) ** 2).mean()

    found = table(loss, X)
    for name in ("model.0.weight", "model.0.bias", "model.2.weight", "x"):
        assert found.count(name) == 1
        (path,) = found.told(name)
        assert path.share == 1


def test_a_value_that_is_used_twice() -> None:
    a = np.array([1.0, 2.0, 3.0])

    def f(x: wg.Tensor) -> wg.Tensor:
        left = x * x
        right = 10.0 * x
        return (left + right).sum()

    found = table(f, a)
    paths = found.told("x")
    assert [np.allclose(p.values, v) for p, v in zip(paths, (10, a, a), strict=True)] == [True] * 3
    assert "right" in paths[0].names
    assert "left" in paths[1].names
    whole = 2 * a + 10
    shares = [np.dot(v, whole) / np.dot(whole, whole) for v in (np.full(3, 10.0), a, a)]
    assert [p.share for p in paths] == pytest.approx(shares, rel=1e-3)


def test_the_two_ways_around_a_residual_block() -> None:
    weight = np.array([[0.1, 0.2], [-0.3, 0.4]])

    def f(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
        return ((x + wg.tanh(x @ w)) * np.array([1.0, 2.0])).sum()

    x = np.array([[1.0, -1.0]])
    found = table(f, x, weight)
    skip, through = found.told("x")
    np.testing.assert_allclose(skip.values, [[1, 2]])
    slopes = 1 - np.tanh(x @ weight) ** 2
    np.testing.assert_allclose(through.values, (np.array([1.0, 2.0]) * slopes) @ weight.T, rtol=1e-5)
    assert found.count("w") == 1


def test_a_broadcast_operand_gets_the_sum() -> None:
    def f(x: wg.Tensor, b: wg.Tensor, s: wg.Tensor) -> wg.Tensor:
        return ((x + b) * s + b).sum()

    found = table(f, X, np.array([1.0, 2.0, 3.0]), 2.0)
    through, directly = found.told("b")
    np.testing.assert_allclose(through.values, [4, 4, 4])
    np.testing.assert_allclose(directly.values, [2, 2, 2])
    (path,) = found.told("s")
    np.testing.assert_allclose(path.values, (X + [1, 2, 3]).sum(), rtol=1e-5)


def test_routes_that_are_closed_are_paths_on_which_nothing_flows() -> None:
    def f(x: wg.Tensor) -> wg.Tensor:
        return wg.where(np.array([True, True]), x * 2.0, wg.sqrt(x)).sum() + wg.relu(x).sum()

    found = table(f, np.array([-1.0, -3.0]))
    paths = found.told("x")
    assert found.count("x") == 3
    np.testing.assert_allclose(paths[0].values, [2, 2])
    assert sum(p.absent for p in paths) >= 1
    assert all(not np.any(p.values) for p in paths[1:])


def test_a_result_of_several_parts() -> None:
    def f(x: wg.Tensor) -> wg.Tensor:
        low, high = wg.split(x, 2)
        return (low * high + high).sum()

    found = table(f, np.arange(4.0))
    assert found.count("x") == 3
    np.testing.assert_allclose(sum(p.values for p in found.told("x")), [2, 3, 1, 2])


def test_gradients_of_several_results_or_passes_are_not_told_apart() -> None:
    def both(x: wg.Tensor) -> Any:
        return wg.sin(x), x * x

    def twice(x: wg.Tensor) -> wg.Tensor:
        (x * x).sum().backward()
        wg.sin(x).sum().backward()
        return x

    assert "paths" not in wg.explore(both, X).document
    assert "paths" not in wg.explore(twice, X).document


def test_numbers_on_the_way_are_left_to_their_products() -> None:
    assert "paths" not in wg.explore(lambda x: wg.sin(x) * x, 2.0).document


def test_a_graph_of_very_many_paths_is_not_enumerated(monkeypatch: pytest.MonkeyPatch) -> None:
    pulls = []
    pull = FromRow.pull

    def counted(self: FromRow, node: Any, ct: Any) -> Any:
        pulls.append(node)
        return pull(self, node, ct)

    def f(x: wg.Tensor) -> wg.Tensor:
        for _ in range(15):
            x = wg.sin(x) + 1.1 * x
        return x.sum()

    exploration = wg.explore(f, np.arange(6.0) / 7, compiled=False)
    flops = exploration.document["nodes"]["flops"]
    monkeypatch.setattr(FromRow, "pull", counted)
    assert tensor_paths.tensor_paths(exploration.recording, flops) == exploration.document["paths"]
    assert len(pulls) <= len(exploration.recording.rows) * (tensor_paths.MOST + 2)
    found = Table(exploration)
    found.check()
    assert found.count("x") == 2**15
    assert found.nodes["shown"][found.at("x")] == tensor_paths.MOST


def test_large_programs_are_told_fewer_paths_and_then_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: wg.Tensor) -> wg.Tensor:
        for _ in range(3):
            x = wg.sin(x) + x
        return x.sum()

    whole = table(f, np.arange(8.0))
    assert (whole.paths["most"], whole.count("x")) == (tensor_paths.MOST, 8)
    walk = tensor_paths._Walk(whole.rows, whole.rows[-1])
    monkeypatch.setattr(tensor_paths, "WORK", walk.work(2, whole.d["nodes"]["flops"]))
    fewer = table(f, np.arange(8.0))
    assert fewer.paths["most"] == 2
    assert fewer.count("x") == 8
    monkeypatch.setattr(tensor_paths, "WORK", 10)
    assert "paths" not in wg.explore(f, np.arange(8.0)).document
    monkeypatch.undo()
    monkeypatch.setattr(tensor_paths, "ROWS", 5)
    assert "paths" not in wg.explore(f, np.arange(8.0)).document


def test_a_program_that_trains_has_the_paths_of_the_step_that_is_shown() -> None:
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(3, 4), wg.nn.ReLU(), wg.nn.Linear(4, 1))
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(3):
            loss = (model(wg.tensor(X, dtype=wg.float32)) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    found = table(train)
    assert found.count("model.0.weight") == 1


def test_a_hook_that_changes_a_gradient_belongs_to_no_path() -> None:
    def f(x: wg.Tensor) -> wg.Tensor:
        y = wg.sin(x)
        y.register_hook(lambda g: 2.0 * g)
        return (y * y).sum()

    found = Table(wg.explore(f, np.arange(3.0), compiled=False))
    assert not found.nodes["equal"][found.at("x")]
    assert found.nodes["difference"][found.at("x")] > 0.1


def test_a_gradient_that_is_no_number_is_told_as_it_is() -> None:
    def f(x: wg.Tensor) -> wg.Tensor:
        return (wg.sqrt(x * 0.0) * 0.0 + x).sum()

    found = Table(wg.explore(f, np.arange(3.0), compiled=False))
    at = found.at("x")
    assert found.nodes["equal"][at]
    assert [p.share for p in found.told("x")] == [None] * 2
    assert found.list["values"][found.entries(at)[0][0]] == ["nan"] * 3


def test_a_rule_of_the_users_own_has_paths_through_it() -> None:
    @wg.custom_vjp
    def double(x: wg.Tensor) -> wg.Tensor:
        return 2.0 * x

    double.defvjp(lambda x: (double(x), ()), lambda saved, ct: (2.0 * ct,))

    found = table(lambda x: (double(x) * x).sum(), np.arange(1.0, 4.0))
    assert found.count("x") == 2


# -- programs by chance

_UNARY = [wg.sin, wg.relu, wg.tanh, lambda x: x.T, lambda x: x.sum(axis=0), lambda x: x[:1], wg.softmax]
_BINARY = [wg.add, wg.multiply, wg.maximum, wg.subtract]
_STEPS = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=14)


def _run(x: wg.Tensor, y: wg.Tensor, steps: list[tuple[int, int, int]]) -> wg.Tensor:
    """A program on 2 x 2 tensors, vectors and rows, whatever broadcasts."""
    values = [x, y]
    for which, a, b in steps:
        first, second = values[a % len(values)], values[b % len(values)]
        if which < len(_UNARY):
            values.append(_UNARY[which](first) if first.ndim == 2 else wg.sin(first))
        else:
            values.append(_BINARY[which - len(_UNARY)](first, second))
    return sum((v.sum() for v in values[-3:]), wg.tensor(0.0, dtype=wg.float64))


@settings(max_examples=20, deadline=None)
@given(_STEPS, st.integers(0, 2**32 - 1))
@example([(0, 0, 0), (6, 1, 0), (0, 0, 0), (0, 0, 0), (6, 3, 0), (10, 0, 24)], 1)  # a gradient that is a rounding
def test_paths_of_any_program_add_up_to_its_gradients(steps: list[tuple[int, int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (wg.tensor(rng.normal(size=(2, 2)), dtype=wg.float64, requires_grad=True) for _ in range(2))
    loss = _run(x, y, steps)
    loss.backward(retain_graph=True)
    found = Table(wg.explore(loss, compiled=False))
    found.check()
    for tensor in (x, y):
        rows = [row.index for row in found.rows if row.node is tensor.node and row.op is None]
        if tensor.grad is None or not rows:
            continue
        at = found.nodes["row"].index(rows[0])
        entries, others = found.entries(at)
        values = [found.list["values"][e] for e in [*entries, *([] if others is None else [others])]]
        near = 2e-5 * np.sum(np.abs(values)) + 1e-14
        np.testing.assert_allclose(np.sum(values, axis=0), tensor.grad.numpy().ravel(), rtol=0, atol=near)
        exact = wg.explain.paths(loss, tensor)
        assert found.nodes["count"][at] == exact.count
        if exact.count <= tensor_paths.MOST:
            sizes = [found.list["rms"][e] for e in entries]
            assert sizes == pytest.approx([p.size / 2 for p in exact.paths], rel=1e-5, abs=1e-12)
