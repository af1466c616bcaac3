"""Schedules: the rates and momenta are PyTorch's at every step."""

from __future__ import annotations

import gzip
import json
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

sys.path.insert(0, str(Path(__file__).parent))
import optim_cases as cases

with gzip.open(Path(__file__).parent / "data" / "lr_scheduler.json.gz") as _f:
    RECORDED = json.load(_f)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_rates_are_pytorchs(name: str) -> None:
    same(cases.follow(torch, cases.SCHEDULES[name], 50), RECORDED["rates"][name])
    if "swa" not in name:
        same(cases.follow(wg, cases.SCHEDULES[name], 50), RECORDED["rates"][name])


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_restarted_schedules_begin_again(name: str) -> None:
    optimizer = cases.scheduled(torch)
    schedule = cases.SCHEDULES[name](torch, optimizer)
    for _ in range(13):
        schedule.step()
    schedule.restart()
    found = [cases.rates(optimizer)]
    for _ in range(30):
        schedule.step()
        found.append(cases.rates(optimizer))
    same(found, RECORDED["rates"][name][:31])


def test_schedules_are_the_same_in_both_namespaces() -> None:
    ours, theirs = wg.optim.lr_scheduler, torch.optim.lr_scheduler
    assert dir(ours) == dir(theirs)
    assert all(getattr(ours, name) is getattr(theirs, name) for name in dir(ours))


@pytest.mark.parametrize("name", cases.BY_EPOCH)
def test_steps_to_epochs_are_pytorchs(name: str) -> None:
    same(cases.by_epoch(torch, cases.SCHEDULES[name]), RECORDED["by_epoch"][name])


@pytest.mark.parametrize("name", cases.RESUMED)
def test_schedules_are_taken_up_at_an_epoch(name: str) -> None:
    same(cases.resumed(torch, cases.RESUMED[name]), RECORDED["resumed"][name])


@pytest.mark.parametrize("name", cases.PLATEAUS)
def test_reductions_on_plateaus_are_pytorchs(name: str) -> None:
    for lib in (torch, wg):
        same(cases.plateau(lib, cases.PLATEAUS[name]), RECORDED["plateau"][name])


def loaded(value: Any) -> Any:
    """A recorded value; counts of numbers are a `Counter`."""
    if isinstance(value, dict):
        if value and all(k.isdigit() for k in value):
            return Counter({int(k): v for k, v in value.items()})
        return {k: loaded(v) for k, v in value.items()}
    return [loaded(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_states_are_pytorchs_and_continued(name: str) -> None:
    optimizer = cases.scheduled(torch)
    schedule = cases.SCHEDULES[name](torch, optimizer)
    state = loaded(RECORDED["state"][name]["schedule"])
    assert set(schedule.state_dict()) == set(state)
    schedule.load_state_dict(state)
    groups = RECORDED["state"][name]["optimizer"]["param_groups"]
    optimizer.load_state_dict({"state": {}, "param_groups": groups})
    found = []
    for _ in range(30):
        schedule.step()
        found.append(cases.rates(optimizer))
        assert schedule.get_last_lr() == found[-1][::2]
    same(found, RECORDED["rates"][name][21:])


def test_two_schedules_act_one_upon_the_other_and_on_a_compiled_step() -> None:
    p = torch.ones(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.5)
    first = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    second = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2], 0.1)

    @wg.jit
    def step() -> None:
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()

    expected, rate = 1.0, 0.5
    for i in range(1, 8):
        step()
        expected -= rate
        rate *= 0.5 * (0.1 if i == 2 else 1.0)
        first.step()
        second.step()
        np.testing.assert_allclose(p.item(), expected, rtol=1e-14)
    with pytest.raises(wg.TraceError, match="compiled function"):
        wg.jit(first.step)()


def test_a_rate_that_is_a_tensor_stays_one() -> None:
    rate = torch.tensor(0.1, dtype=torch.float64)
    optimizer = torch.optim.SGD([torch.ones(1)], lr=rate)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    schedule.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == schedule.get_last_lr()[0].item() == 0.05
    assert schedule.base_lrs[0].item() == 0.1


def test_a_schedule_of_the_users() -> None:
    class Warming(torch.optim.lr_scheduler._LRScheduler):
        def __init__(self, optimizer: Any, steps: int, last_epoch: int = -1) -> None:
            self.steps = steps
            super().__init__(optimizer, last_epoch)

        def get_lr(self) -> list[float]:
            return [base * min(1.0, (self.last_epoch + 1) / self.steps) for base in self.base_lrs]

    optimizer = torch.optim.SGD([torch.ones(1)], lr=1.0)
    schedule, found = Warming(optimizer, 4), []
    for _ in range(5):
        found += schedule.get_last_lr()
        schedule.step()
    assert found == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert schedule.state_dict()["last_epoch"] == 5


@pytest.mark.filterwarnings("default::UserWarning")
def test_warnings() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        p = torch.ones(1, requires_grad=True)
        optimizer = torch.optim.SGD([p], lr=1.0)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        schedule.step()
        optimizer.step()
        schedule.step()
        schedule.step(3)
        schedule.get_lr()
        other = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        optimizer.step()
        other.step()
    expected = ["before `optimizer.step()`", "`scheduler.step(epoch)`", "`get_last_lr()`"]
    assert len(found) == 3
    assert all(part in str(w.message) for part, w in zip(expected, found, strict=True))


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("LinearLR", (0.0,), ValueError),
        ("ConstantLR", (1.5,), ValueError),
        ("LambdaLR", ([lambda e: 1.0] * 2,), ValueError),
        ("MultiplicativeLR", (3,), TypeError),
        ("CyclicLR", (0.1, 0.2, 3, None, "square"), ValueError),
        ("OneCycleLR", (0.1,), ValueError),
        ("OneCycleLR", (0.1, 10, None, None, 0.1), ValueError),  # a rise of one step: a division by 0
        ("CosineAnnealingWarmRestarts", (0,), ValueError),
        ("ReduceLROnPlateau", ("middle",), ValueError),
        ("SequentialLR", ([], []), ValueError),
        ("StepLR", (1, 0.1, 5), KeyError),
    ],
)
def test_errors(name: str, arguments: tuple[Any, ...], error: type) -> None:
    optimizer = torch.optim.SGD([torch.ones(1)], lr=1.0)
    with pytest.raises(error):
        getattr(torch.optim.lr_scheduler, name)(optimizer, *arguments)
    with pytest.raises(TypeError):
        torch.optim.lr_scheduler.StepLR("none", 1)


def test_a_cycle_without_momentum_is_refused() -> None:
    optimizer = torch.optim.Adagrad([torch.ones(1)])
    with pytest.raises(ValueError, match="momentum"):
        torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 10)
