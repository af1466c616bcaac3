"""Optimisers: parameters and state are PyTorch's after every variant that PyTorch tests its own with."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.torch.optim import swa_utils

sys.path.insert(0, str(Path(__file__).parent))
import optim_cases as cases

with gzip.open(Path(__file__).parent / "data" / "optim.json.gz") as _f:
    VARIANTS = json.load(_f)
IDS = ["-".join([v["name"], *map(str, v["options"])]) for v in VARIANTS]
every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=IDS)


def loaded(value: Any) -> Any:
    """A recorded value with its tensors."""
    if isinstance(value, dict):
        if "tensor" in value:
            return torch.tensor(np.asarray(value["tensor"], value["dtype"]))
        return {int(k) if k.isdigit() else k: loaded(v) for k, v in value.items()}
    return [loaded(v) for v in value] if isinstance(value, list) else value


def tolerance(variant: dict[str, Any]) -> float:
    if variant["name"] == "Muon":  # its iteration is in bfloat16, where the order of a sum may show
        return 1e-6
    return 1e-6 if variant["name"] == "LBFGS" else 1e-10


def assert_values(params: list[Any], expected: list[Any], atol: float) -> None:
    for p, e in zip(params, expected, strict=True):
        assert type(p) is torch.Tensor
        np.testing.assert_allclose(p.detach().numpy(), np.asarray(e), rtol=atol, atol=atol)


@every_variant
def test_parameters_and_state_are_pytorchs(variant: dict[str, Any]) -> None:
    name = variant["name"]
    steps, half = (cases.LBFGS_STEPS, cases.LBFGS_HALF) if name == "LBFGS" else (cases.STEPS, cases.HALF)
    for number in (0, 1):
        params, loss = cases.problem(torch, number)
        optimizer = cases.optimiser(torch, name, params, variant["options"])
        cases.train(optimizer, loss, half)
        if number:
            assert_values(params, variant["half"], tolerance(variant))
            assert_state(optimizer, variant)
        cases.train(optimizer, loss, steps - half)
        assert_values(params, variant["after"][number], tolerance(variant))


# Of each optimiser the variant with the most options.
RICHEST = {v["name"]: v for v in sorted(VARIANTS, key=lambda v: len(v["options"])) if v["name"] != "LBFGS"}
TENSOR_RATE = next(v for v in VARIANTS if v["name"] == "SGD" and "lr_tensor" in v["options"])


@pytest.mark.parametrize("variant", [*RICHEST.values(), TENSOR_RATE], ids=[*RICHEST, "tensor rate"])
def test_compiled_steps_are_pytorchs(variant: dict[str, Any]) -> None:
    # The first half is PyTorch's: its state is continued.
    params, loss = cases.problem(torch, 1)
    for p, e in zip(params, variant["half"], strict=True):
        p.data = torch.tensor(np.asarray(e))
    optimizer = cases.optimiser(torch, variant["name"], params, variant["options"])
    optimizer.load_state_dict(loaded(variant["state"]))
    cases.train(optimizer, loss, cases.STEPS - cases.HALF, wg.jit)
    assert_values(params, variant["after"][1], tolerance(variant))


@pytest.mark.parametrize("variant", [RICHEST["Adam"], RICHEST["Adafactor"]], ids=["Adam", "Adafactor"])
def test_a_compiled_step_makes_its_state(variant: dict[str, Any]) -> None:
    params, loss = cases.problem(torch, 0)
    optimizer = cases.optimiser(torch, variant["name"], params, variant["options"])
    cases.train(optimizer, loss, cases.STEPS, wg.jit)
    assert_values(params, variant["after"][0], tolerance(variant))


def assert_state(optimizer: Any, variant: dict[str, Any]) -> None:
    expected, found = loaded(variant["state"]), optimizer.state_dict()
    assert [set(g) for g in found["param_groups"]] == [set(g) for g in expected["param_groups"]]
    assert {k: set(s) for k, s in found["state"].items()} == {k: set(s) for k, s in expected["state"].items()}
    for key, entries in expected["state"].items():
        for name, value in entries.items():
            got = found["state"][key][name]
            if isinstance(value, torch.Tensor) and value.ndim:
                assert got.dtype == value.dtype
                np.testing.assert_allclose(got.numpy(), value.numpy(), rtol=1e-5, atol=1e-6)
            elif isinstance(value, torch.Tensor):
                np.testing.assert_allclose(float(got), float(value), rtol=1e-4)
    if "lr_tensor" not in variant["options"]:
        assert repr(optimizer) == variant["repr"]


@every_variant
def test_a_state_of_pytorchs_is_continued(variant: dict[str, Any]) -> None:
    is_lbfgs = variant["name"] == "LBFGS"
    steps, half = (cases.LBFGS_STEPS, cases.LBFGS_HALF) if is_lbfgs else (cases.STEPS, cases.HALF)
    params, loss = cases.problem(torch, 1)
    for p, e in zip(params, variant["half"], strict=True):
        p.data = torch.tensor(np.asarray(e))
    optimizer = cases.optimiser(torch, variant["name"], params, variant["options"])
    optimizer.load_state_dict(loaded(variant["state"]))
    cases.train(optimizer, loss, steps - half)
    assert_values(params, variant["after"][1], tolerance(variant))


@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam", "ASGD", "Rprop", "Adafactor", "Muon", "Adagrad"])
def test_a_state_of_ours_is_continued(name: str) -> None:
    options = {"momentum": 0.9, "dampening": 0.5} if name == "SGD" else {}
    found = []
    for interrupted in (False, True):
        params, loss = cases.problem(torch, 1)
        optimizer = cases.optimiser(torch, name, params, options)
        cases.train(optimizer, loss, 3)
        if interrupted:
            saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
            optimizer = cases.optimiser(torch, name, params, options)
            optimizer.load_state_dict(saved)
        cases.train(optimizer, loss, 3)
        found.append([p.detach().numpy() for p in params])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop"])
def test_complex_parameters_are_pairs_of_real_ones(name: str) -> None:
    options = {"initial_accumulator_value": 0.1} if name == "Adagrad" else {}
    start = np.array([1 + 2j, -0.5 + 0.1j])
    z = torch.tensor(start).requires_grad_()
    pair = torch.tensor(np.stack([start.real, start.imag], -1)).requires_grad_()
    for p in (z, pair):
        optimizer = getattr(torch.optim, name)([p], **options)
        for i in range(4):
            grad = np.random.default_rng(i).normal(size=(2, 2))
            p.grad = torch.tensor(grad if p is pair else grad[:, 0] + 1j * grad[:, 1])
            optimizer.step()
    got = z.detach().numpy()
    np.testing.assert_allclose(np.stack([got.real, got.imag], -1), pair.detach().numpy(), rtol=1e-13)


def quartic(optimizer_of: Any, compiled: bool = False) -> tuple[Any, Any, Any]:
    """A parameter, its optimiser, and a step along the gradient of the sum of fourth powers."""
    p = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    optimizer = optimizer_of(p)

    def step() -> Any:
        optimizer.zero_grad()
        loss = (p**4).sum()
        loss.backward()
        optimizer.step()
        return loss

    return p, optimizer, wg.jit(step) if compiled else step


def test_state_can_be_read_and_changed_between_steps() -> None:
    found = []
    for compiled in (False, True):
        rate = torch.tensor(0.1)
        p, optimizer, step = quartic(lambda p, r=rate: torch.optim.AdamW([p], lr=r, amsgrad=True), compiled)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        for i in range(12):
            step()
            schedule.step()
            if i == 0:
                average = optimizer.state[p]["exp_avg"]
            elif i == 4:
                average.zero_()
            elif i == 6:
                optimizer.state[p]["exp_avg_sq"] = torch.ones(3, dtype=torch.float64)
            elif i == 7:
                optimizer.state[p]["step"] = 3
            elif i == 8:
                optimizer.param_groups[0]["weight_decay"] = 0.3
            elif i == 9:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
                rate = optimizer.param_groups[0]["lr"]
        assert optimizer.state[p]["step"].item() == 7
        assert optimizer.param_groups[0]["lr"] is rate
        found.append((p.detach().numpy(), optimizer.state[p]["exp_avg"].numpy(), rate.item()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_the_state_of_a_replaced_parameter_can_be_kept() -> None:
    p = torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64))
    optimizer = torch.optim.Adam([{"params": [p], "lr": 0.1, "name": "points"}], lr=0.0)
    whole, part = quartic_of(optimizer), torch.tensor([True, False, True])
    whole()
    kept = optimizer.state.get(p)
    kept["exp_avg"], kept["exp_avg_sq"] = kept["exp_avg"][part], kept["exp_avg_sq"][part]
    del optimizer.state[p]
    q = optimizer.param_groups[0]["params"][0] = torch.nn.Parameter(p[part])
    optimizer.state[q] = kept
    whole()
    expected = p.detach().clone().requires_grad_()
    other = torch.optim.Adam([expected], lr=0.1)
    expected.data = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64)
    again = quartic_of(other)
    again()
    again()
    np.testing.assert_allclose(q.detach().numpy(), expected.detach().numpy()[[0, 2]], rtol=1e-14)
    assert optimizer.param_groups[0]["name"] == "points"


def quartic_of(optimizer: Any) -> Any:
    def step() -> None:
        optimizer.zero_grad()
        (optimizer.param_groups[0]["params"][0] ** 4).sum().backward()
        optimizer.step()

    return step


class Averaging(torch.optim.Optimizer):
    """Adam as programs write it."""

    def __init__(self, params: Any, lr: float = 0.1, betas: Any = (0.9, 0.999)) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": 1e-8})

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                grad, state = p.grad.data, self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p.data)
                    state["exp_avg_sq"] = torch.zeros_like(p.data)
                beta1, beta2 = group["betas"]
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                root = (1 - beta2 ** state["step"]) ** 0.5
                denom = state["exp_avg_sq"].sqrt().add_(group["eps"] * root)
                size = group["lr"] * root / (1 - beta1 ** state["step"])
                p.data.addcdiv_(state["exp_avg"], denom, value=-size)


def test_an_optimiser_of_the_users() -> None:
    q, _, library_step = quartic(lambda p: torch.optim.Adam([p], lr=0.1))
    for _ in range(6):
        library_step()
    for compiled in (False, True):
        p, optimizer, step = quartic(lambda p: Averaging([p]))
        if compiled:
            with pytest.raises(wg.GraphError, match="first step of Averaging"):
                wg.jit(step)()
            assert p.tolist() == [1.0, -2.0, 3.0]
        step()
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        step = wg.jit(step) if compiled else step
        for _ in range(5):
            step()
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-12)
        assert optimizer.state[p]["step"] == 6


def test_hooks_are_called_around_a_step() -> None:
    p = torch.ones(1, requires_grad=True)
    optimizer, log = torch.optim.SGD([p], lr=0.1), []
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append(("pre", len(args))))
    optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(("post", len(args))))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: log.append(sorted(state)))
    optimizer.register_load_state_dict_post_hook(lambda o: log.append("loaded"))
    optimizer.step()
    assert optimizer.step(lambda: 3.0) == 3.0
    handle.remove()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert log == [
        ("pre", 1),
        ("post", 1),
        ("pre", 2),
        ("post", 2),
        ("post", 1),
        ["more", "param_groups", "state"],
        "loaded",
    ]


def test_a_step_that_calls_the_one_it_overrides_is_one() -> None:
    from wengert.torch.optim.sgd import SGD

    class Loud(SGD):  # type: ignore[misc]
        def step(self, closure: Any = None) -> Any:
            log.append("begun")
            return super().step(closure)

    p, log = torch.ones(1, requires_grad=True), []
    optimizer = Loud([p], lr=0.5)
    optimizer.register_step_post_hook(lambda o, args, kwargs: log.append("done"))
    p.grad = torch.ones(1)
    optimizer.step()
    assert (p.item(), log) == (0.5, ["begun", "done"])


def test_groups_and_names() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.named_parameters(), lr=0.1)
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    one, two, three = (torch.ones(1, requires_grad=True) for _ in range(3))
    optimizer = torch.optim.SGD([{"params": one}, {"params": [two], "lr": 1.0}], lr=0.5, momentum=0.5)
    optimizer.add_param_group({"params": [three], "momentum": 0, "kind": "late"})
    assert [(g["lr"], g["momentum"]) for g in optimizer.param_groups] == [(0.5, 0.5), (1.0, 0.5), (0.5, 0)]
    for p in (one, two, three):
        p.grad = torch.ones(1)
    optimizer.step()
    assert [p.item() for p in (one, two, three)] == [0.5, 0.0, 0.5]
    assert [list(s) for s in optimizer.state.values()] == [["momentum_buffer"], ["momentum_buffer"]]
    assert optimizer.state_dict()["param_groups"][2]["params"] == [2]
    assert optimizer.state_dict()["state"].keys() == {0, 1}
    optimizer.zero_grad(set_to_none=False)
    assert one.grad.tolist() == [0.0]
    assert type(one.grad) is torch.Tensor
    optimizer.zero_grad()
    assert one.grad is None


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda p: torch.optim.SGD([], lr=1), ValueError),
        (lambda p: torch.optim.SGD(p, lr=1), TypeError),
        (lambda p: torch.optim.SGD([p], lr=-1), ValueError),
        (lambda p: torch.optim.SGD([p * 2], lr=1), ValueError),
        (lambda p: torch.optim.SGD([3], lr=1), TypeError),
        (lambda p: torch.optim.SGD([{"params": {p}}], lr=1), TypeError),
        (lambda p: torch.optim.SGD([{"params": [p]}, {"params": [p]}], lr=1), ValueError),
        (lambda p: torch.optim.SGD([p], lr=1, nesterov=True), ValueError),
        (lambda p: torch.optim.SGD([p], lr=torch.ones(2)), ValueError),
        (lambda p: torch.optim.SGD([p], rate=1), TypeError),
        (lambda p: torch.optim.Adam([p], betas=(1.0, 0.9)), ValueError),
        (lambda p: torch.optim.Adam([p], differentiable=True), ValueError),
        (lambda p: torch.optim.SparseAdam([p]), TypeError),
        (lambda p: torch.optim.Muon([p]), ValueError),
        (lambda p: torch.optim.LBFGS([{"params": [p]}, {"params": [torch.ones(1)]}]), ValueError),
        (lambda p: torch.optim.Optimizer([p], {}).step(), NotImplementedError),
        (lambda p: torch.optim.Adam([p]).load_state_dict({"state": {}, "param_groups": []}), ValueError),
    ],
)
def test_errors(make: Any, error: type) -> None:
    with pytest.raises(error):
        make(torch.ones(2, requires_grad=True))


def test_lbfgs_in_a_compiled_function_is_refused() -> None:
    p = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.LBFGS([p])
    with pytest.raises(wg.TraceError, match="LBFGS"):
        wg.jit(lambda: optimizer.step(lambda: p.sum()))()


def test_copies_and_pickles_are_optimisers_of_their_own() -> None:
    p, optimizer, step = quartic(lambda p: torch.optim.NAdam([p]))
    step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (q,) = other.param_groups[0]["params"]
        assert q is not p
        assert other.state[q]["exp_avg"].tolist() == optimizer.state[p]["exp_avg"].tolist()
        q.grad = torch.ones(3, dtype=torch.float64)
        other.step()
        assert other.state[q]["step"].item() == 2
    assert optimizer.state[p]["step"].item() == 1


def test_a_view_of_a_buffer_sees_the_next_step() -> None:
    p, optimizer, step = quartic(lambda p: torch.optim.Adam([p]))
    step()
    buffer = optimizer.state[p]["exp_avg"]
    view, copy = buffer.detach(), buffer.clone()
    values = copy.tolist()
    step()
    assert view.tolist() == buffer.tolist() != values
    assert copy.tolist() == values


@pytest.mark.parametrize("kind", ["equal", "ema", "ema of lists", "buffers"])
def test_averaged_models(kind: str) -> None:
    options: dict[str, Any] = {
        "equal": {},
        "ema": {"avg_fn": swa_utils.get_ema_avg_fn(0.8)},
        "ema of lists": {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.8)},
        "buffers": {"use_buffers": True},
    }[kind]
    model = torch.nn.BatchNorm1d(2)
    averaged = swa_utils.AveragedModel(model, **options)
    assert next(iter(averaged.state_dict())) == "n_averaged"
    seen, means = [], []
    for value in (1.0, 4.0, 2.0):
        torch.nn.init.constant_(model.weight, value)
        model.running_mean.fill_(value * 2)
        averaged.update_parameters(model)
        seen.append(value)
        means.append(averaged.module.running_mean[0].item())
    decayed = 0.8 * (0.8 * 1.0 + 0.2 * 4.0) + 0.2 * 2.0
    expected = decayed if "ema" in kind else sum(seen) / 3
    np.testing.assert_allclose(averaged.module.weight.detach().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(means, [2.0, 5.0, 14 / 3] if kind == "buffers" else [2.0, 8.0, 4.0], rtol=1e-6)
    assert int(averaged.n_averaged) == 3


def test_update_bn_gives_the_means_of_all_batches() -> None:
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    model.eval()
    swa_utils.update_bn([[torch.tensor(x[:6]), 0], [torch.tensor(x[6:]), 0]], model)
    np.testing.assert_allclose(model[0].running_mean.numpy(), x.mean(0), rtol=1e-5, atol=1e-7)
    assert (model[0].momentum, model.training) == (0.1, False)


def test_a_duplicate_is_warned_of() -> None:
    p = torch.ones(1, requires_grad=True)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        torch.optim.SGD([p, p], lr=1.0)
    assert ["duplicate" in str(w.message) for w in found] == [True]


def test_a_loaded_state_stays_as_it_was_saved() -> None:
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()

    step()
    saved = copy.deepcopy(optimizer.state_dict())
    for _ in range(2):
        optimizer.load_state_dict(saved)
        step()
        assert saved["state"][0]["momentum_buffer"].tolist() == [2.0, 2.0]
