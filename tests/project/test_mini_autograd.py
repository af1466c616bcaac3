"""The autograd of a hundred lines, of the course, gives what the library gives: values and gradients."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg

FILE = Path(__file__).resolve().parents[2] / "examples" / "mini_autograd.py"


@pytest.fixture(scope="module")
def mini() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mini_autograd", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_it_has_a_hundred_lines() -> None:
    assert sum(line.strip() != "" for line in FILE.read_text().splitlines()) <= 100


UNARY = ("exp", "tanh", "relu", "neg", "square", "log")
BINARY = ("add", "mul", "div", "sub")


def apply(lib: Any, name: str, *args: Any) -> Any:
    """One operation, in the words that both libraries share."""
    match name:
        case "neg":
            return -args[0]
        case "square":
            return args[0] ** 2
        case "log":
            return lib.log(args[0] ** 2 + 1.0)
        case "relu":
            return lib.relu(args[0]) if hasattr(lib, "relu") else lib.nn.relu(args[0])
        case "add":
            return args[0] + args[1]
        case "mul":
            return args[0] * args[1]
        case "sub":
            return args[0] - args[1]
        case "div":
            return args[0] / (args[1] ** 2 + 1.0)
    return getattr(lib, name)(args[0])


SHAPES = [(), (3,), (1,), (2, 3), (2, 1), (1, 3)]
STEPS = st.lists(st.tuples(st.sampled_from(UNARY + BINARY), st.integers(0, 99), st.integers(0, 99)), max_size=12)


def run(lib: Any, leaves: list[Any], steps: list[tuple[str, int, int]]) -> Any:
    values = list(leaves)
    for name, i, j in steps:
        args = (values[i % len(values)], values[j % len(values)])
        values.append(apply(lib, name, *(args if name in BINARY else args[:1])))
    total = values[0].sum()
    for v in values[1:]:
        total = total + (apply(lib, "tanh", v) * 0.5).sum()
    return total


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, shapes=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_values_and_gradients_agree(
    mini: ModuleType, steps: list[tuple[str, int, int]], shapes: list[tuple[int, ...]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=s) for s in shapes]
    ours = [mini.Array(a) for a in arrays]
    theirs = [wg.tensor(a, requires_grad=True) for a in arrays]
    with np.errstate(all="ignore"):
        a, b = run(mini, ours, steps), run(wg, theirs, steps)
        if not np.isfinite(b.item()):
            return
        a.backward()
        b.backward()
    np.testing.assert_allclose(a.value, b.item(), rtol=1e-9)
    for mine, theirs_ in zip(ours, theirs, strict=True):
        expected = theirs_.grad.numpy()
        if np.isfinite(expected).all():
            np.testing.assert_allclose(mine.grad, expected, rtol=1e-7, atol=1e-9 * (1 + np.abs(expected).max()))


def test_a_network_learns_the_same_steps(mini: ModuleType) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(16, 2)), rng.normal(size=(16, 1))
    start = [rng.normal(size=s) for s in ((2, 8), (8,), (8, 1), (1,))]

    def losses(lib: Any, make: Any, grad: Any) -> list[float]:
        weights, out = [make(a) for a in start], []
        for _ in range(20):
            w1, b1, w2, b2 = weights
            error = lib.tanh(make(x) @ w1 + b1) @ w2 + b2 - make(y)
            loss = (error**2).sum() * (1 / 16)
            loss.backward()
            out.append(float(loss.value if hasattr(loss, "value") else loss.item()))
            weights = [make(np.array(grad(w)[0]) - 0.05 * np.array(grad(w)[1])) for w in weights]
        return out

    ours = losses(mini, mini.Array, lambda w: (w.value, w.grad))
    theirs = losses(wg, lambda a: wg.tensor(a, requires_grad=True), lambda w: (w.detach().numpy(), w.grad.numpy()))
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    assert ours[-1] < ours[0]


def test_a_long_chain_needs_no_deep_stack(mini: ModuleType) -> None:
    x = mini.Array(0.5)
    y = x
    for _ in range(20_000):
        y = y * 1.0001
    y.backward()
    assert x.grad == pytest.approx(1.0001**20_000)
