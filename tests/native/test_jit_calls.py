"""Calls of compiled functions: memory that results take over, and the short ways in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn, optim

pytest.importorskip("llvmlite")


def training(rule: Any = optim.Adam) -> Any:
    wg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    opt = rule(model.parameters(), lr=0.1)

    @wg.jit
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    x = wg.tensor(np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4))
    return model, opt, step, x, wg.tensor(np.array([0, 1, 2, 1, 0]))


def test_state_is_updated_where_it_stands() -> None:
    model, opt, step, x, y = training()
    for _ in range(8):
        step(x, y)
    w = model[0].weight
    arrays = [w._data, opt.state[w]["exp_avg"], opt.state[w]["exp_avg_sq"]]
    before = [id(a) for a in arrays]
    values = [a.copy() for a in arrays]
    del arrays
    for _ in range(3):
        step(x, y)
    after = [w._data, opt.state[w]["exp_avg"], opt.state[w]["exp_avg_sq"]]
    assert [id(a) for a in after] == before
    assert all((a != b).any() for a, b in zip(after, values, strict=True))


@pytest.mark.parametrize("hold", ["array", "view", "tensor", "graph", "slice", "state", "gradient", "its array"])
def test_what_others_hold_never_changes(hold: str) -> None:
    model, opt, step, x, y = training()
    w = model[0].weight
    for i in range(10):
        step(x, y)
        if i < 4:
            continue
        held = {
            "array": lambda: w._data,
            "view": lambda: w.detach().numpy(),
            "tensor": lambda: w.detach(),
            "graph": lambda: (w * w).sum(),
            "slice": lambda: w._data[1:, ::2],
            "state": lambda: opt.state[w]["exp_avg"],
            "gradient": lambda: w.grad,
            "its array": lambda: w.grad.numpy(),
        }[hold]()
        if hold == "graph":
            want = 2 * w.detach().numpy()
            step(x, y)
            w.grad = None
            held.backward()
            np.testing.assert_array_equal(w.grad.numpy(), want)
            continue
        value = np.array(held)
        step(x, y)
        step(x, y)
        np.testing.assert_array_equal(held, value)


def test_updates_in_place_are_those_of_eager_steps() -> None:
    (model, _, step, x, y), (other, rule, _, _, _) = training(), training()
    for _ in range(8):
        loss = nn.functional.cross_entropy(other(x), y)
        rule.zero_grad()
        loss.backward()
        rule.step()
        np.testing.assert_allclose(step(x, y), loss.detach(), rtol=1e-5)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-4, atol=1e-6)


def test_two_places_that_hold_one_array() -> None:
    a, b = wg.zeros(3), wg.zeros(3)

    @wg.jit
    def step() -> None:
        a.add_(1.0)
        b.add_(10.0)

    for i in range(8):
        if i % 3 == 0:
            b._data = a._data
        want = a.numpy() + 1, b.numpy() + 10
        step()
        np.testing.assert_array_equal(a.numpy(), want[0])
        np.testing.assert_array_equal(b.numpy(), want[1])


def test_a_failing_call_changes_nothing() -> None:
    total, table = wg.zeros(3), wg.ones((4, 3))

    @wg.jit
    def step(i: Any) -> Any:
        total.add_(table[i].sum(0))
        return total.sum()

    for _ in range(5):
        step(wg.tensor([0, 1]))
    before = total.numpy().copy()
    for _ in range(3):
        with pytest.raises(IndexError, match="index"):
            step(wg.tensor([0, 9]))
        np.testing.assert_array_equal(total.numpy(), before)
    step(wg.tensor([0, 1]))
    np.testing.assert_array_equal(total.numpy(), before + 2)


def test_one_tensor_given_twice_is_no_guide_to_two() -> None:
    fn = wg.jit(lambda a, b: a - 2 * b)
    for _ in range(4):
        x = wg.ones(3)
        np.testing.assert_array_equal(fn(x, x), [-1] * 3)
        np.testing.assert_array_equal(fn(x, wg.full((3,), 5.0)), [-9] * 3)


# -- donated arguments


@pytest.mark.parametrize("nest", [tuple, list, lambda s: {"a": s[0], "b": s[1]}], ids=["tuple", "list", "dict"])
def test_donated_arguments(nest: Any) -> None:
    def leaves(s: Any) -> list[Any]:
        return list(s.values()) if isinstance(s, dict) else list(s)

    @wg.jit(donate_argnums=0)
    def step(state: Any, x: Any) -> Any:
        q, p = leaves(state)
        return nest([q + p * x, p - q * x])

    state, x = nest([wg.ones(5), wg.zeros(5)]), wg.full((5,), 0.5)
    q, p = np.ones(5, np.float32), np.zeros(5, np.float32)
    for _ in range(6):
        old = leaves(state)
        state = step(state, x)
        q, p = q + p * np.float32(0.5), p - q * np.float32(0.5)
        np.testing.assert_allclose(leaves(state)[0], q, rtol=1e-6)
        np.testing.assert_allclose(leaves(state)[1], p, rtol=1e-6)
        for t in old:
            for use in (lambda t: t + 1, lambda t: t.shape, lambda t: t.numpy(), wg.sin, lambda t: step((t, t), x)):
                with pytest.raises(wg.GraphError, match=r"\Aa tensor that was donated, as argument 0 of step, is used"):
                    use(t)
            assert "donated" in repr(t)
    assert x.shape == (5,)


def test_what_others_hold_of_donated_arguments_never_changes() -> None:
    step = wg.jit(lambda s: s * 2, donate_argnums=0)
    for _ in range(6):
        s = wg.ones(4)
        view, row = s.numpy(), wg.tensor(s)
        np.testing.assert_array_equal(step(s), [2] * 4)
        np.testing.assert_array_equal(view, [1] * 4)
        np.testing.assert_array_equal(row, [1] * 4)
        given = np.ones(4, np.float32)
        np.testing.assert_array_equal(step(given), [2] * 4)
        np.testing.assert_array_equal(given, [1] * 4)


def test_a_tensor_donated_twice() -> None:
    step = wg.jit(lambda a, b: (a + b, a * b), donate_argnums=(0, 1))
    for _ in range(6):
        s = wg.full((4,), 3.0)
        total, product = step(s, s)
        np.testing.assert_array_equal(total, [6] * 4)
        np.testing.assert_array_equal(product, [9] * 4)
        total, product = step(wg.ones(4), wg.full((4,), 5.0))
        np.testing.assert_array_equal(total, [6] * 4)
        np.testing.assert_array_equal(product, [5] * 4)
