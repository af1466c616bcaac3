"""Looks at compiled functions (`lower`, `trace`): nothing outside is other than before, whatever the trace makes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert import nn

X = wg.sin(wg.arange(32.0).reshape(8, 4))


class Counts:
    """What Python code changes beside tensors."""

    def __init__(self) -> None:
        self.calls = 0
        self.seen: list[int] = []


def made(optimizer: Callable[..., Any] = wg.optim.Adam, fails: bool = False, **options: Any) -> Any:
    """Return a model, an optimiser, counts and a step that changes all of them."""
    wg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
    opt, counts = optimizer(model.parameters(), lr=0.01, **options), Counts()

    def step(x: Any) -> Any:
        counts.calls += 1
        loss = (model(x) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if fails:
            loss.detach().numpy()
        return loss

    return model, opt, counts, step


def state(model: Any, opt: Any, counts: Counts) -> Any:
    """Return all that a step changes, in its order, as plain data."""
    grads = [None if p.grad is None else p.grad.tolist() for p in model.parameters()]
    tensors = {name: t.tolist() for name, t in model.state_dict().items()}
    buffers = [(k, [(n, v.tolist() if hasattr(v, "tolist") else v) for n, v in s.items()])
               for k, s in opt.state_dict()["state"].items()]  # fmt: skip
    return list(tensors.items()), buffers, grads, counts.calls, counts.seen, repr(wg.random.get_rng_state())


LOOKS: dict[str, Callable[[Any], Any]] = {
    "lower": lambda f: f.lower(wg.spec((8, 4))),
    "compile": lambda f: f.lower(wg.spec((8, 4))).compile(),
    "trace": lambda f: f.trace(X),
    "compiled trace": lambda f: f.lower(X).compile().trace(X),
}
OPTIMIZERS: list[tuple[Any, dict[str, Any]]] = [
    (wg.optim.Adam, {}),
    (wg.optim.Adam, {"amsgrad": True}),
    (wg.optim.SGD, {}),
    (wg.optim.SGD, {"momentum": 0.9}),
    (wg.optim.Adam8bit, {}),
    (torch.optim.AdamW, {}),
    (torch.optim.SGD, {"momentum": 0.9}),
]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS, ids=lambda x: getattr(x, "__module__", None) and str(x))
def test_a_look_changes_nothing_and_the_first_step_is_the_same(look: str, optimizer: Any, options: Any) -> None:
    plain = made(optimizer, **options)
    f = wg.jit(plain[-1])
    wanted = [f(X).item() for _ in range(3)], state(*plain[:3])
    looked = made(optimizer, **options)
    f = wg.jit(looked[-1])
    before = state(*looked[:3])
    LOOKS[look](f)
    assert state(*looked[:3]) == before
    assert ([f(X).item() for _ in range(3)], state(*looked[:3])) == wanted


def test_what_was_made_ahead_is_what_the_first_call_runs() -> None:
    *_, step = made()
    f = wg.jit(step)
    f.lower(X).compile()
    f(X)
    assert f.cache_info() == (1, 1, 1)


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_between_steps(look: str) -> None:
    results = []
    for looks in (False, True):
        *given, step = made()
        f = wg.jit(step)
        for size in (8, 4, 8):
            if looks:
                before = state(*given)
                LOOKS[look](f)
                assert state(*given) == before
            f(X[:size])
        results.append(state(*given))
    assert results[0] == results[1]


def test_new_buffers_of_a_state_that_was_there() -> None:
    results = []
    for looks in (False, True):
        model, opt, counts, step = made(wg.optim.SGD)
        f = wg.jit(step)
        f(X)
        opt.param_groups[0]["momentum"] = 0.9
        if looks:
            before = state(model, opt, counts)
            f.lower(X).compile()
            assert state(model, opt, counts) == before
        f(X)
        step(X)
        f(X)
        results.append(state(model, opt, counts))
    assert results[0] == results[1]


@pytest.mark.parametrize("look", ["lower", "trace"])
def test_a_look_that_fails(look: str) -> None:
    *given, step = made(fails=True)
    before = state(*given)
    with pytest.raises(wg.TraceError, match="needs the value"):
        LOOKS[look](wg.jit(step))
    assert state(*given) == before


def test_one_after_which_the_code_runs_by_itself() -> None:
    model, opt, counts, step = made()
    before = state(model, opt, counts)
    wg.jit(step).lower(X).compile()
    assert state(model, opt, counts) == before
    other = made()
    for run in (step, other[-1]):
        wg.manual_seed(1)
        for _ in range(2):
            run(X)
    assert state(model, opt, counts) == state(*other[:3])


def test_lists_that_grow() -> None:
    seen: list[int] = []

    def f(x: Any) -> Any:
        seen.append(len(seen))
        return x + 1

    compiled = wg.jit(f).lower(wg.spec((3,))).compile()
    assert seen == []
    for n in (1, 2, 3):
        compiled(wg.ones(3))
        assert seen == list(range(n))


def test_copies_and_pickles_after_a_look() -> None:
    model, opt, counts, step = made()
    wg.jit(step).lower(X).compile()
    twin = copy.deepcopy(opt)
    assert twin.state_dict()["state"] == {}
    saved = opt.state_dict()
    step(X)
    opt.load_state_dict(saved)
    assert not opt.state
    step(X)
    assert [s["step"] for s in opt.state.values()] == [1] * len(list(model.parameters()))
    assert np.isfinite(state(model, opt, counts)[1][0][1][1][1]).all()
