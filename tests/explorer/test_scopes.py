"""One scope for each call of a module, whatever its `forward` calls."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import wengert as wg
from wengert import nn
from wengert.explorer import explore
from wengert.explorer.recording.scopes import Place, Tree


def apply(layer: Any, x: Any) -> Any:
    return wg.tanh(layer(x)) * 2.0


def residual(layer: Any, x: Any) -> Any:
    return x + apply(layer, x)


def parts(layers: Any, x: Any) -> Iterator[Any]:
    for layer in layers:
        x = layer(x) * 2.0
        yield x


class Block(nn.Module):
    def __init__(self, way: Callable[[Block, Any], Any]) -> None:
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.way = way

    def method(self, x: Any) -> Any:
        return wg.sin(self.a(x)) + self.b(x)

    def forward(self, x: Any) -> Any:
        return x + wg.exp(self.way(self, x))


WAYS: dict[str, Callable[[Block, Any], Any]] = {
    "function": lambda block, x: apply(block.a, x) + apply(block.b, x),
    "functions": lambda block, x: residual(block.b, residual(block.a, x)),
    "method": lambda block, x: block.method(x),
    "lambda": lambda block, x: (lambda h: wg.sin(h) + block.b(h))(block.a(x)),
    "partial": lambda block, x: functools.partial(apply, block.a)(wg.sin(x)) + block.b(x),
    "generator": lambda block, x: functools.reduce(lambda _, part: part, parts([block.a, block.b], x)),
}


class Stacked(nn.Module):
    """Blocks, and how they are called one after the other."""

    def __init__(self, way: str, how: str) -> None:
        blocks = [Block(WAYS[way]) for _ in range(3)]
        self.blocks: Any = nn.Sequential(*blocks) if how == "sequential" else nn.ModuleList(blocks)
        self.head = nn.Linear(4, 1)
        self.how = how

    def through(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x: Any) -> Any:
        if self.how == "sequential":
            return self.head(self.blocks(x))
        if self.how == "reduce":
            return self.head(functools.reduce(lambda h, block: block(h), self.blocks, x))
        return self.head(self.through(x))


def _paths(tree: Tree) -> Counter[str]:
    """Return the paths of all scopes of modules, and how many there are of each."""
    found: Counter[str] = Counter()
    pending: list[tuple[Place, str]] = [(tree.root, "")]
    while pending:
        place, path = pending.pop()
        if place.kind == "module" and place is not tree.root:
            path = f"{path}.{place.name}".lstrip(".")
            found[path] += 1
        pending += [(child, path) for child in place.children.values()]
    return found


@pytest.mark.parametrize("seen", ["run", "module", "loss", "graph"])
@pytest.mark.parametrize("how", ["sequential", "loop", "reduce"])
@pytest.mark.parametrize("way", WAYS)
def test_a_call_of_a_module_is_one_scope(way: str, how: str, seen: str) -> None:
    model, x = Stacked(way, how), wg.ones((2, 4))

    def run(x: Any) -> Any:
        return (model(x) ** 2).sum()

    made = {
        "run": lambda: explore(run, x, compiled=False),
        "module": lambda: explore(model, x, compiled=False),
        "loss": lambda: explore(run(x), compiled=False),
        "graph": lambda: explore(wg.graph(run)(x), compiled=False),
    }[seen]()
    tree = Tree(made.recording.rows, "")
    paths = _paths(tree)
    for path in ("blocks", *(f"blocks.{i}" for i in range(3)), "head"):
        assert paths[path] == 1, f"{path} stands {paths[path]} times: {dict(paths)}"
    for i in range(3):
        assert paths[f"blocks.{i}.a"] >= 1 <= paths[f"blocks.{i}.b"]
    for row, place in tree.of_row.items():
        if row.op is None or row.scope is None:
            continue
        around, walked = [], place
        while walked.parent is not None:
            around += [walked.name] if walked.kind == "module" else []
            walked = walked.parent
        assert ".".join(reversed(around)) == row.scope.path


@pytest.mark.parametrize("way", WAYS)
def test_summary_costs_and_graphs_name_the_same_modules(way: str) -> None:
    model, x = Stacked(way, "sequential"), wg.ones((2, 4))
    rows = {row.path: row.calls for row in wg.summary(model, x).rows}
    assert [rows[f"blocks.{i}"] for i in range(3)] == [1, 1, 1]
    blocks = [line for line in rows if line.count(".") == 1]
    assert blocks == [f"blocks.{i}" for i in range(3)]
    named = {node.path for node in wg.graph(model)(x).computations}
    assert named == {"head", *(f"blocks.{i}{part}" for i in range(3) for part in ("", ".a", ".b"))}


def test_parts_of_modules_and_functions_keep_their_order() -> None:
    """A helper that is called between modules is another part of the picture each time, not one that all go through."""
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def act(x: Any) -> Any:
        return wg.tanh(x) * 2.0

    def apart(x: Any) -> Any:
        for layer in layers:
            x = act(layer(x))
        return x.sum()

    tree = Tree(explore(apart(wg.ones((2, 4))), compiled=False).recording.rows, "")
    helpers = [place for place in tree.places if place.name == "act"]
    assert [[row.op.name for row in place.rows if row.op] for place in helpers] == [["tanh", "multiply"]] * 3


def test_a_compiled_function_can_be_explored_before_it_ran() -> None:
    assert explore(wg.jit(lambda x: wg.sin(x).sum()), wg.ones(3)).recording.rows


def test_many_modules_are_grouped_by_their_names() -> None:
    layers = nn.Sequential(*[nn.Linear(2, 2) for _ in range(150)])
    tree = Tree(explore(lambda x: layers(x).sum(), wg.ones((1, 2)), compiled=False).recording.rows, "")
    groups = [place.name for place in tree.places if place.kind == "line"]
    assert groups == ["0–59", "60–119", "120–149"]
