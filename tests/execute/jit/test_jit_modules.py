"""Modules that compiled functions return or put outside: new ones in every call, as without compilation."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import pytest

import wengert as wg


class Net(wg.nn.Module):
    """A module with a constant made in its forward, and with everything that a module may have."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.w = wg.nn.Parameter(wg.ones(4) * scale)
        self.frozen = wg.nn.Parameter(wg.ones(4) * scale, requires_grad=False)
        self.register_buffer("shift", wg.ones(4) * scale)
        self.layer = wg.nn.Linear(4, 4)
        self.again = self.layer
        self.note = scale
        self.items = [scale, {"t": wg.ones(1) * scale}]

    def forward(self, x: Any) -> Any:
        y = x * self.w * wg.tensor([1.0, 2.0, 3.0, 4.0]) + self.shift * self.frozen
        return self.again(self.layer(y))


def loss(model: Any, x: Any) -> Any:
    return wg.sum(wg.sin(model(x)))


def sgd(model: Any, x: Any) -> Any:
    return wg.tree.map(lambda p, g: p - 0.1 * g, model, wg.grad(loss)(model, x))


X = wg.linspace(-1, 1, 8).reshape(2, 4)


def same_leaves(a: Any, b: Any) -> None:
    left, right = wg.tree.leaves(a), wg.tree.leaves(b)
    assert len(left) == len(right) > 0
    for p, q in zip(left, right, strict=True):
        assert wg.allclose(p, q, rtol=1e-4, atol=1e-4), (p, q)


@pytest.mark.parametrize("fn", [wg.grad(loss), sgd, lambda m, x: {"g": (wg.grad(loss)(m, x), x + 1)}])
def test_with_a_constant_in_the_forward(fn: Any) -> None:
    model, compiled = Net(), wg.jit(fn)
    for _ in range(3):
        same_leaves(compiled(model, X), fn(model, X))


def test_each_call_returns_a_new_one() -> None:
    model, compiled = Net(), wg.jit(wg.grad(loss))
    expected = wg.grad(loss)(model, X)
    found = [compiled(model, X) for _ in range(6)]
    parts = [id(part) for g in found for part in (g, g.layer)]
    assert len({*parts, id(model), id(model.layer)}) == len(parts) + 2
    first = found[0]
    first.w.mul_(0.0)
    first.items.append("mine")
    first.items[1]["u"] = 1
    first.note = "mine"
    first.eval()
    first.register_forward_hook(lambda *_: 1 / 0)
    first.layer.register_buffer("mine", wg.ones(1), persistent=False)
    del first.again
    for g in (*found[1:], compiled(model, X)):
        same_leaves(g, expected)
        assert g.again is g.layer
        assert len(g.items) == 2
        assert [*g.items[1]] == ["t"]
        assert (g.note, g.training, g.layer.training) == (1.0, True, True)
        assert not g._hooks
        assert not hasattr(g.layer, "mine")
        assert not g.layer._transient
        g(X)
    assert not model._hooks
    assert len(model.items) == 2


def test_what_is_no_parameter_is_the_given_models() -> None:
    """Buffers and frozen parameters are shared with the module of the call, not with that of the trace."""
    compiled = wg.jit(wg.grad(loss))
    for scale in (1.0, 2.0, 3.0, 1.0):
        model = Net(scale)
        g = compiled(model, X)
        same_leaves(g, wg.grad(loss)(model, X))
        assert g.shift is model.shift
        assert g.frozen is model.frozen
        assert g.items[1]["t"] is model.items[1]["t"]
        assert (g.note, g.items[0]) == (scale, scale)


def test_attributes_that_change_between_calls() -> None:
    model, compiled = Net(), wg.jit(wg.grad(loss))
    compiled(model, X)
    model.eval()
    assert not compiled(model, X).training
    model.train()
    model.layer.eval()
    g = compiled(model, X)
    assert (g.training, g.layer.training) == (True, False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a trace for each
        model.note = "another"
        assert compiled(model, X).note == "another"
        model.items.append(7)
        assert compiled(model, X).items[2:] == [7]
        model.more = 5
        assert compiled(model, X).more == 5
        model.shift = wg.zeros(4)
        assert compiled(model, X).shift is model.shift


class Options:
    pass


def test_objects_are_those_of_the_given_model() -> None:
    compiled = wg.jit(wg.grad(loss))
    for _ in range(2):
        model = Net()
        model.options = Options()
        assert compiled(model, X).options is model.options


def test_unread_attributes_of_the_same_value_need_no_trace() -> None:
    compiled = wg.jit(wg.grad(loss))
    for _ in range(4):
        compiled(Net(), X)
    assert compiled.cache_info().programs == 1


def test_buffers_that_are_computed() -> None:
    def moved(model: Any, x: Any) -> Any:
        out = wg.tree.map(lambda p: p * 2, model)
        out.shift = out.shift + x.sum(0)
        out.items = [out.shift * 2]
        return out

    model, compiled = Net(), wg.jit(moved)
    for k in (1.0, 2.0):
        found = compiled(model, X * k)
        assert wg.allclose(found.shift, 1 + k * X.sum(0))
        assert wg.allclose(found.items[0], 2 * found.shift)
        assert [*found._buffers] == ["shift"]
    assert model.shift.tolist() == [1.0] * 4


def test_running_statistics() -> None:
    model, twin = wg.nn.BatchNorm1d(4), wg.nn.BatchNorm1d(4)
    compiled = wg.jit(wg.grad(loss))
    for k in range(3):
        same_leaves(compiled(model, X + k), wg.grad(loss)(twin, X + k))
        assert wg.allclose(model.running_mean, twin.running_mean)
    assert compiled(model, X).running_mean is model.running_mean


def test_one_that_is_made_inside() -> None:
    class Scale(wg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = wg.nn.Parameter(wg.ones(4))
            self.frozen = wg.nn.Parameter(wg.ones(4), requires_grad=False)
            self.register_buffer("shift", wg.ones(4))

    @wg.jit
    def compiled(x: Any) -> Any:
        made = Scale()
        with wg.no_grad():
            made.w.mul_(x.sum())
        return made

    first, second = compiled(wg.ones(2)), compiled(wg.ones(2) * 3)
    for k, found in ((2.0, first), (6.0, second)):
        assert found.w.tolist() == [k] * 4
        assert all(isinstance(p, wg.nn.Parameter) for p in (found.w, found.frozen))
        assert [p.requires_grad for p in (found.w, found.frozen, found.shift)] == [True, False, False]
        assert len(wg.tree.leaves(found)) == 1
    first.shift.mul_(5.0)
    assert second.shift.tolist() == [1.0] * 4
    assert compiled(wg.ones(2)).shift.tolist() == [1.0] * 4


def test_one_that_is_put_outside() -> None:
    model, kept = Net(), {}

    @wg.jit
    def step(x: Any) -> Any:
        kept["gradient"] = wg.grad(loss)(model, x)
        return x.sum()

    found = []
    for k in range(3):
        step(X + k)
        found.append(kept["gradient"])
        same_leaves(found[-1], wg.grad(loss)(model, X + k))
    assert len({*map(id, found)}) == 3
    assert found[2].shift is model.shift


def test_tied_parameters_stay_tied() -> None:
    class Tied(wg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = wg.nn.Linear(4, 4), wg.nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x)) * wg.tensor([2.0, 1.0, 1.0, 1.0])

    model = Tied()
    found = wg.jit(wg.grad(loss))(model, X)
    assert found.a.weight is found.b.weight
    same_leaves(found, wg.grad(loss)(model, X))


def test_hooks_are_those_of_the_given_model() -> None:
    model, compiled = Net(), wg.jit(wg.grad(loss))
    handle = model.register_forward_hook(lambda m, a, out: out * 2)
    doubled = compiled(model, X)
    same_leaves(doubled, wg.grad(loss)(model, X))
    assert len(doubled._hooks) == 1
    handle.remove()
    plain = compiled(model, X)
    same_leaves(plain, wg.grad(loss)(model, X))
    assert not plain._hooks


def test_inside_of_other_transforms() -> None:
    model = Net()
    rows = wg.stack([X, 2 * X])
    inner = wg.jit(wg.grad(loss))
    found = wg.jit(lambda m, x: wg.tree.leaves(wg.vmap(lambda one: inner(m, one))(x)))(model, rows)
    expected = [wg.stack(pair) for pair in zip(*(wg.tree.leaves(wg.grad(loss)(model, x)) for x in rows))]
    for p, q in zip(found, expected, strict=True):
        assert wg.allclose(p, q, rtol=1e-4, atol=1e-4)


def test_nothing_of_the_trace_is_kept() -> None:
    model, compiled = Net(), wg.jit(wg.grad(loss))
    compiled(model, X)
    gone = weakref.ref(model)
    del model
    compiled(Net(), X)
    gc.collect()
    assert gone() is None
