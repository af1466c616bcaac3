"""Ctrl-C at every instruction: state is from before a step or from after it, and the next call works."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from interrupting import instructions, interrupted, places
from ways import WAYS
from wengert import nn, optim

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="SIGINT is sent as POSIX does"),
    # What stands guard runs step by step, in Python.
    pytest.mark.skipif(os.environ.get("WENGERT_GUARD", "0") != "0", reason="guarded runs are no single call"),
    # A signal that arrives where Python clears up after a weak reference is lost there.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

State = dict[str, Any]


@pytest.fixture(autouse=True)
def keyboard() -> Any:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Training:
    """A step that writes what steps may write: parameters, moments, counts, gradients, running means, a generator."""

    def __init__(self, compiled: bool, width: int = 5, rule: Callable[..., Any] = optim.Adam, **options: Any) -> None:
        wg.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3))
        opt = rule(model.parameters(), lr=0.01, **options)
        generator, seen = wg.random.Generator(5), wg.zeros(3)

        def step(x: Any, y: Any) -> Any:
            h = model(x) + 0.1 * wg.randn(6, 3, generator=generator)
            seen.mul_(0.9).add_(0.1 * h.detach().mean(0))
            loss = nn.functional.cross_entropy(h, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        x = wg.asarray(np.random.default_rng(0).standard_normal((6, 4)).astype("f4"))
        y = wg.asarray(np.array([0, 1, 2, 1, 0, 2]))
        self.step = wg.jit(step) if compiled else step
        self.run = lambda: self.step(x, y)
        self.model, self.opt, self.generator, self.seen = model, opt, generator, seen

    def state(self) -> State:
        found: State = {"seen": self.seen, "generator": self.generator.get_state()}
        for i, p in enumerate(self.model.parameters()):
            found[f"p{i}"], found[f"g{i}"] = p.detach(), p.grad
            found |= {f"{k}{i}": v for k, v in self.opt.state.get(p, {}).items()}
        return {k: None if v is None else np.array(v) for k, v in found.items()}


def same(a: State, b: State) -> bool:
    """Whether two states are equal, bit by bit; there may be no gradients yet."""
    if a.keys() != b.keys():
        return False
    return all((a[k] is None) is (b[k] is None) and (a[k] is None or np.array_equal(a[k], b[k])) for k in a)


def check(make: Callable[[], Training], prepare: Callable[[Any], None], most: int) -> int:
    """Interrupt a step at up to so many instructions; how often that ended it."""
    training, twin = make(), make()
    for _ in range(6):
        training.run()
        twin.run()
    prepare(training.step)

    ended = 0
    count = instructions(training.run)
    twin.run()
    for at in places(count + 3, most):
        prepare(training.step)
        before = twin.state()
        assert same(training.state(), before)
        ended += interrupted(training.run, at)
        twin.run()
        if same(training.state(), before):  # nothing of it was done: now it is
            training.run()
        after, now = twin.state(), training.state()
        wrong = [k for k in after if not np.array_equal(after[k], now[k])]
        assert not wrong, f"interrupted before instruction {at} of {count}: {wrong}"
    return ended


@pytest.mark.parametrize("width", [5, 3000])
@pytest.mark.parametrize("way", WAYS)
def test_a_compiled_training_step(way: str, width: int) -> None:
    assert check(lambda: Training(True, width), WAYS[way], 150) > 0


def test_a_compiled_step_that_runs_without_the_lock() -> None:
    assert check(lambda: Training(True, 20_000), WAYS["native"], 60) > 0


def test_a_call_that_traces() -> None:
    twin = Training(True)
    states = [twin.state()]
    for _ in range(3):
        twin.run()
        states.append(twin.state())
    count = instructions(Training(True).run)
    ended = 0
    for at in places(count, 60):
        training = Training(True)
        before = training.state()
        assert set(before) <= set(states[1])
        ended += interrupted(training.run, at)
        assert wg.is_grad_enabled()
        assert not wg.rand(2).is_abstract
        assert (wg.ones(2, requires_grad=True) * 2).requires_grad
        done = training.opt.state != {} and next(iter(training.opt.state.values()))["step"] == 1
        now = training.state()
        if done:
            assert same(now, states[1]), f"interrupted before instruction {at} of {count}"
        else:
            assert all(now[k] is None or np.array_equal(now[k], states[0].get(k, 0 * now[k])) for k in now), at
        for expected in states[1 + done : 3 + done]:
            training.run()
            now = training.state()
            assert same(now, expected), f"after an interruption before instruction {at} of {count}"
    assert ended > 50


def test_a_trace_of_a_function_that_puts_tensors_into_containers() -> None:
    def make() -> tuple[Any, Any, dict[str, Any], list[Any], Any]:
        class Cell:
            h = wg.zeros(2)

        cell, table, items, hidden = Cell(), {"t": wg.ones(2)}, [wg.ones(2)], wg.ones(2)

        def f(x: Any) -> Any:
            buffer = wg.zeros(2)
            buffer[0] = x[0]
            cell.h = wg.tanh(cell.h + x)
            table["t"], items[0] = table["t"] * x, items[0] + x
            table["new"] = x * 2
            (lambda t=[hidden]: t[0].add_(x))()
            return (buffer * 2).add_(1.0)

        return wg.jit(f), cell, table, items, hidden

    def seen(made: Any) -> list[Any]:
        _, cell, table, items, hidden = made
        found = [cell.h, table["t"], items[0], hidden, *([table["new"]] if "new" in table else [])]
        assert not any(t.is_abstract for t in found)
        return [t.tolist() for t in found]

    x = wg.tensor([1.0, 2.0])
    made = make()
    states = [seen(made)]
    for _ in range(3):
        made[0](x)
        states.append(seen(made))
    made = make()
    count = instructions(lambda: made[0](x))
    for at in places(count, 100):
        made = make()
        interrupted(lambda made=made: made[0](x), at)
        done = states.index(seen(made))
        assert done in (0, 1), f"interrupted before instruction {at} of {count}"
        made[0](x)
        assert seen(made) == states[done + 1], f"after an interruption before instruction {at} of {count}"


@pytest.mark.parametrize("rule", [optim.SGD, optim.Adam, optim.RMSprop, optim.Adagrad])
@pytest.mark.parametrize("width", [5, 30_000])
def test_an_eager_step(rule: Any, width: int) -> None:
    """All of it is done, or nothing."""
    options: dict[str, Any] = {"momentum": 0.9} if rule in (optim.SGD, optim.RMSprop) else {}
    training = Training(False, width, rule, **options)
    training.run()
    count = instructions(training.opt.step)
    for at in places(count, 150 if width == 5 else 20):
        training.run()
        before = training.state()
        twin = {p: {k: np.array(v) for k, v in s.items()} for p, s in training.opt.state.items()}
        values = [p.detach().numpy().copy() for p in training.model.parameters()]
        interrupted(training.opt.step, at)
        now = training.state()
        if same(now, before):
            training.opt.step()
            now = training.state()
        # The same step from the same state, without an interruption.
        for p, value in zip(training.model.parameters(), values, strict=True):
            p.assign_(value)
            training.opt.state[p].update({k: v.copy() if v.ndim else v.item() for k, v in twin[p].items()})
        training.opt.step()
        wrong = [k for k, v in training.state().items() if not np.array_equal(v, now[k])]
        assert not wrong, f"interrupted before instruction {at} of {count}: {wrong}"


@pytest.mark.parametrize("name", ["add_", "copy_", "+=", "[0] =", "assign_", "zero_"])
def test_writing_to_a_tensor(name: str) -> None:
    def write(x: Any, y: Any) -> None:
        if name == "+=":
            x += y
        elif name == "[0] =":
            x[0] = y[0] + 7
        elif name == "zero_":
            x.zero_()
        else:
            getattr(x, name)(y if name == "add_" else y.detach() * 3)

    def made() -> tuple[Any, Any]:
        y = wg.tensor([4.0, 5.0], requires_grad=name != "assign_")
        return wg.tensor([1.0, 2.0]) * 1.0, y * 2

    x, y = made()
    expected = [x.tolist()]
    count = instructions(lambda: write(x, y))
    expected.append(x.tolist())
    for at in places(count, 400):
        x, y = made()
        interrupted(lambda x=x, y=y: write(x, y), at)
        done = expected.index(x.tolist())
        assert x.shape == (2,)
        assert x.requires_grad is (bool(done) and name in ("add_", "+=", "[0] =")), at


def test_a_gradient_that_does_not_fit_is_refused_before_anything_is_updated() -> None:
    good, bad = wg.ones(2).requires_grad_(), wg.ones(2).requires_grad_()
    opt = optim.Adam([good, bad], lr=0.1)
    (good * bad).sum().backward()
    bad._grad = wg.ones(2, dtype=wg.complex64)
    with pytest.raises(wg.DTypeError, match="a gradient of dtype complex64"):
        opt.step()
    assert good.tolist() == [1.0, 1.0]
    assert all(state.get("step", 0) == 0 for state in opt.state.values())
