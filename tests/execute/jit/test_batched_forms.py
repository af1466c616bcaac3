"""`vmap` of a compiled function is a compiled function: its Python code runs once for each kind of call."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg


@pytest.fixture
def runs() -> Iterator[tuple[Callable[[], None], Callable[[], int]]]:
    """What a function tells of a run of its Python code, and how often it was told: a pipe, which is no state."""
    out, into = os.pipe()
    os.set_blocking(out, False)

    def count() -> int:
        try:
            return len(os.read(out, 1 << 16))
        except BlockingIOError:
            return 0

    yield (lambda: os.write(into, b".") and None), count
    os.close(out)
    os.close(into)


W = wg.tensor(np.array([1.0, -2.0, 0.5]))
X = wg.tensor(np.arange(12.0).reshape(4, 3))


def test_python_runs_once(runs: Any) -> None:
    tell, count = runs

    def fn(x: Any, w: Any) -> Any:
        tell()
        return wg.sin(x * w).sum()

    def rows(x: Any, w: Any) -> Any:
        return wg.sin(x * w).sum(axis=-1)

    made = wg.jit(fn)
    for run in (wg.vmap(made, (0, None)), wg.vmap(made, in_axes=(0, None), out_axes=0)):
        for scale in (1.0, 2.0, 3.0):
            np.testing.assert_allclose(np.asarray(run(X * scale, W)), np.asarray(rows(X * scale, W)))
    assert count() == 1
    slope = wg.grad(lambda x: (wg.vmap(made, (0, None))(x, W) ** 2).sum())
    for scale in (1.0, 2.0, 3.0):
        expected = wg.grad(lambda x: (rows(x, W) ** 2).sum())(X * scale)
        np.testing.assert_allclose(np.asarray(slope(X * scale)), np.asarray(expected))
    assert count() <= 1  # a call whose arguments require gradients is of another kind
    twice = wg.vmap(wg.vmap(made, (0, None)), (0, None))
    for _ in range(3):
        cube = wg.stack([X, X + 1.0])
        np.testing.assert_allclose(np.asarray(twice(cube, W)), np.asarray(rows(cube, W)))
    assert count() == 1
    inside = wg.jit(lambda x: wg.vmap(made, (0, None))(x, W) * 2.0)
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(inside(X)), np.asarray(rows(X, W)) * 2.0)
    assert count() == 1


def test_other_ways_to_map(runs: Any) -> None:
    tell, count = runs

    def fn(parts: Any, *, k: Any) -> Any:
        tell()
        return {"sum": parts["a"] + parts["b"] * k}

    made = wg.jit(fn)
    a, b = X, wg.tensor(np.ones(3))
    for _ in range(2):
        for axes in (({"a": 0, "b": None},), 0):
            parts = {"a": a, "b": b if axes else X * 2.0}
            found = wg.vmap(made, axes)(parts, k=wg.tensor(np.arange(4.0)))["sum"]
            expected = np.asarray(a) + np.asarray(parts["b"]) * np.arange(4.0)[:, None]
            np.testing.assert_allclose(np.asarray(found), expected)
    assert count() <= 3  # axes in a dict are no key: those run each time
    different = wg.vmap(wg.jit(lambda x: x + wg.random.normal(3)), randomness="different")
    first, second = np.asarray(different(X)), np.asarray(different(X))
    assert (first != second).any()
    assert len(np.unique(first - np.asarray(X))) == 12
    with pytest.raises(wg.GraphError, match="randomness"):
        wg.vmap(wg.jit(lambda x: x + wg.random.normal(3)))(X)
    with pytest.raises(wg.ShapeError, match="axis 3"):
        wg.vmap(made, 3)({"a": a, "b": b}, k=b)


def test_state_and_programs_of_the_batched_form() -> None:
    layer = wg.nn.Linear(3, 2)
    made = wg.jit(lambda x: layer(x))
    mapped = wg.vmap(made)
    x = wg.ones((5, 3))
    np.testing.assert_allclose(np.asarray(mapped(x).detach()), np.asarray(layer(x).detach()), rtol=1e-6)
    with wg.no_grad():
        layer.weight.mul_(2.0)
    np.testing.assert_allclose(np.asarray(mapped(x).detach()), np.asarray(layer(x).detach()), rtol=1e-6)
    mapped(x).sum().backward()
    assert layer.weight.grad is not None
    np.testing.assert_allclose(np.asarray(layer.weight.grad), np.full((2, 3), 5.0))
    gone = weakref.ref(made)
    del made, mapped
    gc.collect()
    assert gone() is None


def test_what_has_no_program_runs_as_before() -> None:
    """A write of an example's value to what is outside is no part of a program; the results are."""
    box: dict[str, Any] = {}

    def fn(x: Any) -> Any:
        box["last"] = x * 2.0
        return x + 1.0

    mapped = wg.vmap(wg.jit(fn))
    for _ in range(2):
        np.testing.assert_allclose(np.asarray(mapped(X)), np.asarray(X) + 1.0)
    with pytest.raises(wg.TraceError):
        wg.vmap(wg.jit(lambda x: x if x.sum() > 0 else -x))(X)
