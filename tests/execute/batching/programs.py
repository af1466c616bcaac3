"""Programs with a graph for each example, and the comparison of their batches with one-by-one execution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import wengert as wg

Tree = Any  # a leaf's number, or two trees


class Leaf(wg.nn.Module):
    """A word's state and memory."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words = wg.nn.Embedding(words, width)
        self.gates = wg.nn.Linear(width, 3 * width)
        self.width = width

    def forward(self, word: Any) -> Any:
        i, o, u = wg.split(self.gates(self.words(word)), self.width, -1)
        c = wg.sigmoid(i) * wg.tanh(u)
        return wg.sigmoid(o) * wg.tanh(c), c


class Node(wg.nn.Module):
    """The state and memory of two parts together."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gates = wg.nn.Linear(2 * width, 5 * width)
        self.width = width

    def forward(self, left: Any, right: Any) -> Any:
        i, o, u, f, g = wg.split(self.gates(wg.concat([left[0], right[0]])), self.width, -1)
        c = wg.sigmoid(i) * wg.tanh(u) + wg.sigmoid(f) * left[1] + wg.sigmoid(g) * right[1]
        return wg.sigmoid(o) * wg.tanh(c), c


class TreeLSTM(wg.nn.Module):
    """A number for a tree."""

    def __init__(self, words: int = 10, width: int = 4) -> None:
        super().__init__()
        self.leaf, self.node, self.out = Leaf(words, width), Node(width), wg.nn.Linear(width, 1)

    def encode(self, tree: Tree) -> Any:
        if not isinstance(tree, tuple):
            return self.leaf(np.int64(tree))
        return self.node(self.encode(tree[0]), self.encode(tree[1]))

    def forward(self, tree: Tree) -> Any:
        return self.out(self.encode(tree)[0])[0]


def random_tree(leaves: int, rng: np.random.Generator) -> Tree:
    """A tree of so many leaves."""
    if leaves == 1:
        return int(rng.integers(10))
    cut = int(rng.integers(1, leaves))
    return random_tree(cut, rng), random_tree(leaves - cut, rng)


def close(found: Any, expected: Any, error: float = 1e-6) -> None:
    """Hold arrays to each other, in proportion to the largest element."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    scale = max(float(np.abs(expected).max(initial=0.0)), 0.1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * error * scale)


def values_and_gradients(run: Callable[[], Sequence[Any]], parameters: Sequence[Any]) -> list[Any]:
    """Return the results of `run`, and the gradients of the sum of their squares."""
    for p in parameters:
        p.grad = None
    outs = run()
    total = outs[0].square().sum()
    for out in outs[1:]:
        total = total + out.square().sum()
    total.backward()
    grads = [np.zeros(p.shape) if p.grad is None else p.grad.numpy().copy() for p in parameters]
    return [*(np.asarray(out.detach()) for out in outs), *grads]


def check(fn: Callable[[Any], Any], examples: Sequence[Any], parameters: Sequence[Any]) -> wg.Tensor:
    """Hold a batch's values and gradients to those of one-by-one execution."""
    expected = values_and_gradients(lambda: [fn(x) for x in examples], parameters)
    found = values_and_gradients(lambda: wg.autobatch(fn)(examples), parameters)
    for a, b in zip(found, expected, strict=True):
        close(a, b)
