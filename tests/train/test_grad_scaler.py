"""The loss's scale: eager, compiled, saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

RULES: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: wg.optim.SGD(p, lr=0.1, momentum=0.9),
    "nadam": lambda p: wg.optim.NAdam(p, lr=0.1),
    "torch": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
}


def problem(rule: str) -> tuple[Any, Any, Any]:
    w = wg.tensor(np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3), requires_grad=True)
    if rule == "torch":
        w = torch.nn.Parameter(torch.tensor(w.detach().numpy()))
    b = wg.zeros(2, requires_grad=True) if rule != "torch" else torch.zeros(2, requires_grad=True)
    return w, b, RULES[rule]([w, b])


def step_of(w: Any, b: Any, optimizer: Any, scaler: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        with wg.autocast("float16"):
            loss = wg.nn.functional.mse_loss(x @ w.T + b, x[:, :2])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


def state(optimizer: Any) -> list[Any]:
    return [
        np.array(v.detach().numpy() if isinstance(v, wg.Tensor) else v)  # eager steps write into arrays
        for s in optimizer.state.values()
        for _, v in sorted(s.items())
    ]


@pytest.mark.parametrize("rule", RULES)
def test_compiled_as_eager(rule: str) -> None:
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(4, 3)).astype("float32") for _ in range(9)]
    rows[2][0, 0] = rows[5][1, 1] = np.inf  # in the first steps and in the midst
    runs = []
    for compiled in (False, True):
        w, b, optimizer = problem(rule)
        scaler = wg.train.GradScaler(2.0**10, growth_interval=2)
        step = step_of(w, b, optimizer, scaler)
        step = wg.jit(step) if compiled else step
        trace = []
        for row in rows:
            before = [w.detach().numpy().copy(), *state(optimizer)]
            step(wg.tensor(row))
            after = [w.detach().numpy().copy(), *state(optimizer)]
            if not np.isfinite(row).all():
                assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))
            trace.append((scaler.get_scale(), int(scaler.state_dict()["_growth_tracker"]), *after))
        runs.append(trace)
        if compiled:
            assert step.cache_info() == (1, 1, 1)  # what overflows is no decision
    assert [t[:2] for t in runs[0]] == [t[:2] for t in runs[1]]
    assert [t[0] for t in runs[0]] == [1024, 2048, 1024, 1024, 2048, 1024, 1024, 2048, 2048]
    for eager, compiled_run in zip(*runs, strict=True):
        for a, c in zip(eager[2:], compiled_run[2:], strict=True):
            np.testing.assert_allclose(a, c, rtol=2e-3, atol=2e-3)


def test_a_first_step_that_overflows() -> None:
    """Buffers and counts that are made in it are those before a first step."""
    w, b, optimizer = problem("nadam")
    step = wg.jit(step_of(w, b, optimizer, wg.train.GradScaler(2.0**8)))
    start = w.detach().numpy().copy()
    step(wg.full((4, 3), np.inf))
    np.testing.assert_array_equal(w.detach().numpy(), start)
    step(wg.ones(4, 3))
    other, c, fresh = problem("nadam")
    step_of(other, c, fresh, wg.train.GradScaler(2.0**8))(wg.ones(4, 3))
    np.testing.assert_allclose(w.detach().numpy(), other.detach().numpy(), rtol=1e-3)
    assert {s["step"] for s in optimizer.state.values()} == {1}


def test_small_gradients_survive() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    grads = []
    for scale in (1.0, 2.0**16):
        scaler = wg.train.GradScaler(scale)
        w.grad = None
        with wg.autocast("float16"):
            loss = (w @ wg.tensor([1e-4])).astype("float32") * 1e-5
        scaler.scale(loss).backward()
        scaler.unscale_(wg.optim.SGD([w], lr=0.1))
        grads.append(w.grad.item())
    assert grads[0] == 0.0
    assert grads[1] == pytest.approx(1e-9, rel=1e-2)


def test_clipping_sees_unscaled_gradients() -> None:
    w, _, optimizer = problem("sgd")
    scaler = wg.train.GradScaler(2.0**10)
    scaler.scale((w * 2.0).sum()).backward()
    scaler.unscale_(optimizer)
    np.testing.assert_allclose(w.grad.numpy(), 2.0)
    with pytest.raises(wg.GradientError, match="unscale_"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(wg.GradientError, match="step\\(\\) twice"):
        scaler.step(optimizer)
    scaler.update()


def test_two_optimisers_share_a_scale() -> None:
    w, v = (wg.ones(2, requires_grad=True) for _ in range(2))
    first, second = wg.optim.SGD([w], lr=1.0), wg.optim.SGD([v], lr=1.0)
    scaler = wg.train.GradScaler(4.0)
    a, b = scaler.scale([w.sum(), (v * np.inf).sum()])
    a.backward()
    b.backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    np.testing.assert_array_equal(w.detach().numpy(), 0.0)
    np.testing.assert_array_equal(v.detach().numpy(), 1.0)
    assert scaler.get_scale() == 2.0


def test_states_are_saved(tmp_path: Any) -> None:
    scaler = wg.train.GradScaler(8.0, growth_interval=3)
    w = wg.ones(2, requires_grad=True)
    optimizer = wg.optim.SGD([w], lr=0.0)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(w.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    wg.train.save_checkpoint(tmp_path, scaler=scaler)
    other = wg.train.GradScaler()
    wg.train.load_checkpoint(tmp_path, scaler=other)
    assert other.state_dict() == scaler.state_dict() == {
        "scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3, "_growth_tracker": 2,
    }  # fmt: skip
    with pytest.raises(wg.StateError, match="without scale"):
        other.load_state_dict({})
    other.update(2.0)
    assert other.get_scale() == 2.0


def test_refusals() -> None:
    w, _, optimizer = problem("sgd")
    scaler = wg.train.GradScaler()
    with pytest.raises(wg.GradientError, match="update"):
        scaler.update()
    with pytest.raises(wg.GradientError, match="no gradients"):
        scaler.step(optimizer)
    half = wg.ones(2, dtype="float16", requires_grad=True)
    half.sum().backward()
    with pytest.raises(wg.GradientError, match="half precision"):
        scaler.unscale_(wg.optim.SGD([half], lr=0.1))
    with pytest.raises(wg.DTypeError, match="scale of a float"):
        scaler.scale(1.0)
    with pytest.raises(wg.RangeError, match="backoff_factor"):
        wg.train.GradScaler(backoff_factor=2.0)
    off = wg.train.GradScaler(enabled=False)
    w.sum().backward()
    assert off.scale(3.0) == 3.0
    assert (off.get_scale(), off.state_dict(), off.is_enabled()) == (1.0, {}, False)
    off.step(optimizer)
    off.update()
