"""Loops that a graph repeats: they become scans with the values of their copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.graph.graph import Graph
from wengert.execute.native import compile as _compile  # noqa: F401 (declares the lowerings)
from wengert.execute.native.rewrite.loops import rolled as module
from wengert.execute.native.rewrite.loops.rolled import rolled

STEPS = 12


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONG", 1)
    monkeypatch.setattr(module, "STEPS", 4)
    monkeypatch.setattr(module, "NODES", 32)


def _scans(graph: Graph) -> list[Any]:
    return list(graph.find("scan"))


def _checked(fn: Callable[..., Any], *args: Any, scans: int | None = None) -> Graph:
    """Roll the graph of a function, compare its values with the copies' bit for bit, and what is compiled closely."""
    graph = wg.graph(fn)(*args)
    found = rolled(graph)
    expected = [np.asarray(x.detach().numpy()) for x in wg.tree.leaves(graph(*args))]
    for got, want in zip(wg.tree.leaves(found(*args)), expected, strict=True):
        np.testing.assert_array_equal(got.detach().numpy(), want)
    for got, want in zip(wg.tree.leaves(wg.jit(fn)(*args)), expected, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-9, atol=1e-12)
    if scans is not None:
        assert len(_scans(found)) == scans
    if scans:
        assert len(found.nodes) < len(graph.nodes) / 2
    return found


def _array(*shape: int, seed: int = 0) -> Any:
    return wg.asarray(np.random.default_rng(seed).uniform(0.5, 1.5, shape))


def _lorenz(u: Any, p: Any) -> Any:
    return wg.stack([p[0] * (u[1] - u[0]), u[0] * (p[1] - u[2]) - u[1], u[0] * u[1] - p[2] * u[2]])


def _rk4(p: Any, steps: int = STEPS) -> Any:
    u, rows = p[3:], []
    for _ in range(steps):
        k1 = _lorenz(u, p)
        k2 = _lorenz(u + 0.0025 * k1, p)
        k3 = _lorenz(u + 0.0025 * k2, p)
        k4 = _lorenz(u + 0.005 * k3, p)
        u = u + 0.005 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        rows.append((u * u).sum())
    return wg.stack(rows).mean()


def test_a_loop_and_that_of_its_derivative_are_two_scans() -> None:
    found = _checked(wg.value_and_grad(_rk4), _array(6), scans=2)
    forward, backward = _scans(found)
    assert (forward.attrs["length"], forward.attrs["reverse"]) == (STEPS, False)
    assert (backward.attrs["length"], backward.attrs["reverse"]) == (STEPS - 1, True)
    # The derivative reads four stages and the state; their components are cheap to take again.
    assert backward.attrs["sequences"] <= 6


def test_rows_of_an_array_are_a_sequence() -> None:
    def recurrent(w: Any, xs: Any) -> Any:
        h = wg.zeros(4, dtype=wg.float64)
        for t in range(STEPS):
            h = wg.tanh(h @ w + xs[t] * 0.5) + h * 0.1
        return (h * h).sum()

    found = _checked(recurrent, _array(4, 4), _array(STEPS, 4), scans=1)
    assert _scans(found)[0].attrs["sequences"] == 1


def test_rows_may_be_taken_backwards_and_in_part() -> None:
    def turned(xs: Any) -> Any:
        h, g, rows = xs[0] * 0.0, xs[0] * 0.0, []
        for t in range(STEPS):
            h = wg.sin(h) + xs[STEPS - t, 1:2] * xs[t + 1]
            g = wg.cos(g) * h - xs[t + 1] + g * 0.25
            rows.append(h - g)
        return wg.stack(rows, axis=1), wg.stack(rows[2:-3]), h, rows[5]

    _checked(turned, _array(STEPS + 2, 3), scans=1)


def test_what_one_loop_gives_another_one_takes() -> None:
    def two(x: Any) -> Any:
        first, h = [], x
        for _ in range(STEPS):
            h = wg.sin(h) * x + wg.cos(h * x) - h * h * 0.1
            first.append(h)
        out, g = [], x
        for t in range(STEPS):
            g = g * first[t] + wg.exp(-g) - first[STEPS - 1 - t] * x
            out.append(g + x)
        return wg.stack(out), h

    _checked(two, _array(3), scans=2)


def test_a_state_from_two_steps_ago_stays_unrolled() -> None:
    def fibonacci(x: Any) -> Any:
        a, b = x, x + 1.0
        for _ in range(40):
            a, b = b, wg.sin(a) * 0.5 + b * x
        return b

    _checked(fibonacci, _array(3))


def test_steps_that_differ_stay_outside() -> None:
    def drifting(x: Any) -> Any:
        h = x
        for t in range(STEPS):
            h = wg.sin(h) * x + wg.cos(h) - h * (0.1 if t != STEPS // 2 else 0.2) + h * h * 0.01
        for t in range(STEPS):
            h = h * float(t) + x
        return h

    _checked(drifting, _array(3))


def test_a_state_of_another_shape_begins_outside() -> None:
    def growing(x: Any) -> Any:
        h = x[:1]
        for _ in range(STEPS):
            h = wg.broadcast_to(h.sum() * 0.1, (3,)) + wg.sin(x) * 0.5 - wg.cos(x * x)
        return h

    _checked(growing, _array(3))


def test_steps_begin_where_all_that_they_use_is_near() -> None:
    def euler(p: Any) -> Any:
        u, total = p, 0.0
        for _ in range(4 * STEPS):
            u = u + 0.01 * _lorenz(u, p)
            total = total + u[0] * u[0]
        return total

    _checked(wg.grad(euler), _array(3), scans=2)


def test_copies_that_are_used_one_by_one_stay() -> None:
    def every(x: Any) -> Any:
        h, out = x, []
        for _ in range(STEPS):
            a = wg.sin(h) * x
            b = wg.cos(a) + h
            h = a * b - x
            out += [a, b, h]
        return out

    assert not _scans(_checked(every, _array(3)))


def test_draws_stay_as_they_are() -> None:
    def noisy(x: Any) -> Any:
        h = x
        for _ in range(STEPS):
            h = wg.sin(h) * x + wg.random.normal((3,), dtype=wg.float64) + h * h + wg.cos(h) * 0.1
        return h

    graph = wg.graph(noisy)(_array(3))
    assert not _scans(rolled(graph))


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a * b * 0.5,
    lambda a, b: wg.sin(a),
    lambda a, b: wg.tanh(a - b),
    lambda a, b: wg.stack([b[1], a[0], a[2]]),
    lambda a, b: wg.where(a > b, a, b * 0.5),
    lambda a, b: a.sum() * b * 0.1,
    lambda a, b: wg.cos(a) - a[::-1],
]


@pytest.mark.parametrize("seed", range(6))
def test_loops_drawn_at_random(seed: int) -> None:
    r = np.random.default_rng(seed)
    plan = [(int(r.integers(0, 8)), int(r.integers(0, 9)), int(r.integers(0, 9))) for _ in range(int(r.integers(5, 9)))]
    keep = int(r.integers(0, 3))

    def step(state: list[Any], shared: Any, row: Any) -> tuple[list[Any], Any]:
        values = [*state, shared, row]
        for kind, i, j in plan:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(OPERATIONS[kind](a, b))
        return [wg.tanh(v) for v in values[-2:]], values[-3]

    def fn(shared: Any, xs: Any) -> Any:
        state, rows = [shared, shared * 0.5], []
        for t in range(STEPS):
            state, row = step(state, shared, xs[t + 1 if keep else STEPS - 1 - t])
            rows.append(row)
        out = wg.stack(rows[keep:]).sum() + state[0].sum()
        return out + rows[3].sum() if keep == 2 else out

    args = _array(3, seed=seed), _array(STEPS + 1, 3, seed=seed + 1)
    _checked(fn, *args)
    _checked(wg.value_and_grad(fn, argnums=0), *args)


def test_long_loops_are_rolled_when_they_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    f = wg.jit(wg.value_and_grad(lambda p: _rk4(p, 60)))
    p = _array(6)
    value, slope = f(p)
    assert len(f.plan.steps) < 200
    expected, steep = wg.value_and_grad(lambda p: _rk4(p, 60))(p)
    np.testing.assert_allclose(value.numpy(), expected.numpy(), rtol=1e-12)
    np.testing.assert_allclose(slope.numpy(), steep.numpy(), rtol=1e-9)
