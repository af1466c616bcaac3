"""Ordinary training loops around a compiled module: forward compiled, then `backward()` and `step()` outside.

Each program runs twice, on a module and on the same module compiled, with native steps of the optimiser from the first
step on. All that it returns has to be the same.
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.transforms.derivatives import whole

nn, F = torch.nn, torch.nn.functional

Compile = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _eager_kernels() -> Iterator[None]:
    yield
    wg.set_eager_kernels(None)


def _net(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def _batch(k: int) -> tuple[Any, Any]:
    r = np.random.default_rng(k)
    return torch.tensor(r.normal(size=(4, 5)).astype("float32")), torch.tensor(r.integers(0, 3, 4))


def _state(*modules: Any) -> list[Any]:
    return [p.detach().clone() for m in modules for p in m.parameters()]


def _grads(*modules: Any) -> list[Any]:
    return [None if p.grad is None else p.grad.clone() for m in modules for p in m.parameters()]


def _loss(model: Any, k: int) -> Any:
    x, y = _batch(k)
    return F.cross_entropy(model(x), y)


PROGRAMS: list[Callable[[Compile], Any]] = []


def program(fn: Callable[[Compile], Any]) -> Callable[[Compile], Any]:
    PROGRAMS.append(fn)
    return fn


@program
def plain_loop(compiled: Compile) -> Any:
    net = _net()
    model, opt = compiled(net), torch.optim.Adam(net.parameters(), lr=0.05)
    losses = []
    for k in range(6):
        opt.zero_grad()
        loss = _loss(model, k)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return losses, _state(net), _grads(net)


@program
def accumulated_gradients(compiled: Compile) -> Any:
    net = _net()
    model, opt = compiled(net), torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    same = []
    for k in range(6):
        (_loss(model, k) / 2).backward()
        if k % 2:
            held = [p.grad for p in net.parameters()]
            (_loss(model, k) / 2).backward()
            same.append(all(p.grad is g for p, g in zip(net.parameters(), held)))
            opt.step()
            opt.zero_grad(set_to_none=k == 3)
    return same, _state(net), _grads(net)


@program
def retained_graphs(compiled: Compile) -> Any:
    net = _net()
    model = compiled(net)
    for k in range(3):
        loss = _loss(model, k)
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            loss.backward()
    return _grads(net)


@program
def hooks_on_parameters(compiled: Compile) -> Any:
    net = _net()
    model, seen = compiled(net), []
    w = net[0].weight
    for k in range(5):
        handles = []
        if k in (1, 3):
            handles.append(w.register_hook(lambda g: g * 2))
            handles.append(net[2].bias.register_hook(lambda g: seen.append(g.clone())))
            handles.append(w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone())))
        _loss(model, k).backward()
        for handle in handles:
            handle.remove()
    return seen, _grads(net)


@program
def hooks_on_results(compiled: Compile) -> Any:
    net = _net()
    model, seen = compiled(net), []
    for k in range(4):
        x, y = _batch(k)
        out = model(x)
        if k % 2:
            out.register_hook(lambda g: g * 3)
            out.retain_grad()
        loss = F.cross_entropy(out, y)
        if k == 2:
            loss.register_hook(lambda g: seen.append(g))
        loss.backward()
        seen.append(out.grad if k % 2 else None)
    return seen, _grads(net)


@program
def second_derivatives(compiled: Compile) -> Any:
    net = _net()
    model = compiled(net)
    for k in range(3):
        x, y = _batch(k)
        x.requires_grad_()
        loss = F.cross_entropy(model(x), y)
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        (loss + (g**2).sum()).backward()
    net[0].weight.grad = None
    _loss(model, 5).backward(create_graph=True)
    recorded = net[0].weight.grad.requires_grad
    return recorded, _grads(net)


@program
def gradients_of_inputs(compiled: Compile) -> Any:
    net = _net()
    model, found = compiled(net), []
    for k in range(3):
        x, y = _batch(k)
        x.requires_grad_(k != 1)
        F.cross_entropy(model(x), y).backward()
        found.append(x.grad)
    return found, _grads(net)


@program
def frozen_parameters(compiled: Compile) -> Any:
    net = _net()
    model, opt, found = compiled(net), torch.optim.Adam(net.parameters(), lr=0.1), []
    for k in range(6):
        net[0].requires_grad_(k not in (1, 4))
        loss = _loss(model, k)
        if k == 2:
            net[2].bias.requires_grad_(False)
        loss.backward()
        net[2].bias.requires_grad_(True)
        found.append(_grads(net))
        opt.step()
        opt.zero_grad()
    return found, _state(net)


@program
def parameters_changed_on_the_way(compiled: Compile) -> Any:
    net = _net()
    model = compiled(net)
    for k in range(3):
        loss = _loss(model, k)
        with torch.no_grad():
            for p in net.parameters():
                p.data = p.data * 2
        loss.backward()
    return _state(net), _grads(net)


@program
def closures(compiled: Compile) -> Any:
    net = _net()
    model, opt = compiled(net), torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)
    other = torch.optim.SGD(net.parameters(), lr=0.1)

    def closure() -> Any:
        opt.zero_grad()
        loss = _loss(model, 0)
        loss.backward()
        return loss

    losses = [opt.step(closure).detach() for _ in range(2)]
    losses += [other.step(closure).detach() for _ in range(3)]
    return losses, _state(net)


@program
def two_modules(compiled: Compile) -> Any:
    one, two = _net(0), nn.Linear(3, 3)
    first, second = compiled(one), compiled(two)
    opt = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1)
    for k in range(4):
        x, y = _batch(k)
        opt.zero_grad()
        h = first(x)
        loss = F.cross_entropy(second(h), y)
        if k % 2:
            loss = loss + 0.1 * F.cross_entropy(h, y)
        loss.backward()
        opt.step()
    return _state(one, two), _grads(one, two)


@program
def one_module_twice(compiled: Compile) -> Any:
    net = _net()
    net.append(nn.Linear(3, 3))
    net[3].weight = net[2].weight = nn.Parameter(torch.ones(3, 3) * 0.1)
    net[2].bias = nn.Parameter(torch.zeros(3))
    net[2].in_features = 3
    net[0] = nn.Linear(5, 3)
    model = compiled(net)
    for k in range(3):
        (_loss(model, k) + _loss(model, k + 10)).backward()
    return _grads(net)


@program
def several_results(compiled: Compile) -> Any:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = _net(1), _net(2)

        def forward(self, x: Any) -> Any:
            return self.a(x), self.b(x), x.sum()

    net = Two()
    model, found = compiled(net), []
    for k in range(6):
        x, y = _batch(k)
        a, b, _ = model(x)
        for p in net.parameters():
            p.grad = None
        loss = F.cross_entropy(a, y) if k % 3 != 1 else F.cross_entropy(b, y)
        (loss if k % 3 < 2 else loss + F.mse_loss(b, torch.zeros(4, 3))).backward()
        found.append(_grads(net))
    return found


@program
def without_recording(compiled: Compile) -> Any:
    net = _net()
    model = compiled(net)
    for k in range(2):
        _loss(model, k).backward()
        with torch.no_grad():
            loss = _loss(model, k)
        with pytest.raises(RuntimeError):
            loss.backward()
        loss = _loss(model, k)
        with torch.no_grad():
            loss.backward()
    return _grads(net)


@program
def dropout_in_both_passes(compiled: Compile) -> Any:
    net = nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.5))
    model, same = compiled(net), []
    for _ in range(3):
        x = torch.ones(2, 5, requires_grad=True)
        out = model(x)
        out.sum().backward()
        kept = (out.detach() != 0).float().sum(0) * 2
        same.append(bool(torch.allclose(net[0].bias.grad, kept)))
        net[0].bias.grad = None
    return same


@program
def buffers_of_norms(compiled: Compile) -> Any:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    model, opt = compiled(net), torch.optim.SGD(net.parameters(), lr=0.1)
    for k in range(4):
        opt.zero_grad()
        _loss(model, k).backward()
        opt.step()
    net.eval()
    return _state(net), [b.clone() for b in net.buffers()], _loss(model, 9).detach()


@program
def ever_other_losses(compiled: Compile) -> Any:
    net = _net()
    model = compiled(net)
    for k in range(20):
        (_loss(model, k) * (1.0 + k / 16)).backward()
    (_loss(model, 0) + sum((p**2).sum() for p in net.parameters())).backward()
    torch.maximum(_loss(model, 0), torch.tensor(3.0)).backward()
    return _grads(net)


@program
def ways_of_steps(compiled: Compile) -> Any:
    net = _net()
    model, opt = compiled(net), torch.optim.SGD(net[:1].parameters(), lr=0.1, momentum=0.5)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    scaler, steps = torch.amp.GradScaler("cpu", init_scale=4.0), []
    opt.register_step_post_hook(lambda *_: steps.append(len(steps)))
    for k in range(12):
        opt.zero_grad()
        scaler.scale(_loss(model, k)).backward()
        if k == 2:
            opt.add_param_group({"params": list(net[2].parameters()), "lr": 0.02, "weight_decay": 0.1})
        if k == 4:
            net[2].bias.grad = None
        if k == 5:
            net[0].weight.grad = net[0].weight.grad.T.contiguous().T
        if k == 6:
            net[0].weight.data = net[0].weight.data.clone()
        if k == 7:
            saved = copy.deepcopy((net.state_dict(), opt.state_dict()))
        if k == 9:
            net.load_state_dict(saved[0])
            opt.load_state_dict(saved[1])
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        held, before = net[0].weight.detach().numpy(), net[0].weight.detach().clone()
        scaler.step(opt)
        scaler.update()
        steps.append(bool((held == before.numpy()).all()))
        schedule.step()
    return steps, _state(net), [s["momentum_buffer"] for s in opt.state.values()]


@program
def two_threads(compiled: Compile) -> Any:
    nets = [_net(0), _net(1)]
    model = compiled(_net(2))
    failed: list[BaseException] = []

    def train(i: int) -> None:
        try:
            net = nets[i]
            own, opt = compiled(net), torch.optim.Adam(net.parameters(), lr=0.01)
            for k in range(8):
                opt.zero_grad()
                (_loss(own, k) + 0.1 * _loss(model, k)).backward()
                opt.step()
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=train, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed
    return _state(*nets)


def _flat(found: Any) -> list[Any]:
    return [x for part in found for x in _flat(part)] if isinstance(found, (list, tuple)) else [found]


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda p: p.__name__)
def test_a_loop_around_a_compiled_module_is_the_eager_one(run: Callable[[Compile], Any]) -> None:
    wg.set_eager_kernels(False)
    expected = _flat(run(lambda m: m))
    wg.set_eager_kernels(True)
    for how in (torch.compile, wg.jit):
        found = _flat(run(how))
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            if isinstance(b, torch.Tensor):
                assert (type(a), a.shape, a.dtype) == (type(b), b.shape, b.dtype)
                np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-4, atol=2e-6)
            else:
                assert a == b


def test_the_usual_loop_takes_compiled_passes_and_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    # While variables of a derivative live, as those that other tests keep, passes go node by node.
    monkeypatch.setattr("wengert.transforms.derivatives.backward.open_variables", {})
    found = []
    taken = whole.whole
    monkeypatch.setattr(
        "wengert.transforms.derivatives.backward.whole", lambda *a: found.append(taken(*a)) or found[-1]
    )
    wg.set_eager_kernels(True)
    net = _net()
    model, opt = torch.compile(net), torch.optim.Adam(net.parameters())
    for k in range(4):
        opt.zero_grad()
        _loss(model, k).backward()
        opt.step()
    assert len(found) == 4
    assert all(f is not None for f in found)
    assert len({id(f.compiled) for f in found}) == 1
    assert opt._repeated.program.history.count == 1


def test_steps_that_never_settle_are_left_to_numpy(recwarn: pytest.WarningsRecorder) -> None:
    wg.set_eager_kernels(True)
    ws = [torch.ones(2, requires_grad=True) for _ in range(12)]
    opt = torch.optim.Adam(ws, lr=0.1)
    for k in range(12):
        opt.zero_grad()
        ws[k].sum().backward()
        opt.step()
    assert not recwarn.list
    assert all(np.allclose(w.detach().numpy(), 0.9) for w in ws)


def test_users_rules_stay_python() -> None:
    wg.set_eager_kernels(True)
    ran = []

    class Mine(wg.optim.SGD):
        def _update(self, value: Any, grad: Any, state: Any, group: Any, step: Any) -> Any:
            ran.append(step)
            return -grad

    w = wg.tensor(1.0, requires_grad=True)
    opt = Mine([w], lr=0.1)
    for _ in range(3):
        (w * w).backward()
        opt.step()
    assert ran == [1, 2, 3]


def test_an_optimizer_with_a_program_is_copied_and_saved() -> None:
    wg.set_eager_kernels(True)
    net = _net()
    opt = torch.optim.Adam(net.parameters(), lr=0.1)

    def step(net: Any, opt: Any, k: int) -> None:
        opt.zero_grad()
        _loss(net, k).backward()
        opt.step()

    for k in range(3):
        step(net, opt, k)
    assert opt._repeated.program is not None
    other, same = copy.deepcopy((net, opt)), pickle.loads(pickle.dumps((net, opt)))
    for trained in ((net, opt), other, same):
        step(*trained, 3)
    for a, b, c in zip(_state(net), _state(other[0]), _state(same[0]), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        np.testing.assert_array_equal(a.numpy(), c.numpy())


def test_steps_are_eager_where_kernels_are_off_or_somebody_looks_on() -> None:
    wg.set_eager_kernels(True)
    w = torch.ones(2, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.1)
    for on in (True, False, True):
        wg.set_eager_kernels(on)
        w.grad = torch.ones(2)
        opt.step()
    assert opt._repeated.program.history.count == 1
    np.testing.assert_allclose(w.detach().numpy(), 0.7, rtol=1e-6)
