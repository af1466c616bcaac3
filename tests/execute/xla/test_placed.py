"""Tensors placed on devices: what is there, what runs there, what comes back, and what is refused.

The devices are parts of the processor, which conftest.py divides for JAX.
"""

from __future__ import annotations

import copy
import os
import pickle
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.core.elsewhere import move_
from wengert.core.errors import GradientError

pytest.importorskip("jax", reason="the devices are JAX's")

import jax

pytestmark = pytest.mark.skipif("len(jax.local_devices()) < 3", reason="the tests need three devices")

HERE = os.path.basename(__file__)
FIRST, OTHER = "xla:1", "xla:2"


def draw(*shape: int, seed: int = 0) -> Any:
    return wg.tensor(np.random.default_rng(seed).normal(size=shape))


def model() -> Any:
    wg.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.3), nn.Linear(4, 2))


def trainer(net: Any, opt: Any) -> Any:
    @wg.jit
    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    return step


def refused(match: str) -> Any:
    return pytest.raises(wg.GraphError, match=match)


# -- values


def test_a_placed_tensor_says_where_it_is_and_comes_back() -> None:
    x = draw(2, 3)
    y = x.to(FIRST)
    assert (x.device, y.device, y.shape, y.dtype) == ("cpu", FIRST, (2, 3), wg.float64)
    assert y.to(FIRST) is y
    assert y.to(OTHER).device == OTHER
    for back in (y.to("cpu"), wg.tensor(y.numpy()), wg.tensor(np.asarray(y)), y.to_device("cpu"), y.cpu()):
        assert back.device == "cpu"
        assert back.tolist() == x.tolist() == y.tolist()
    assert f"device='{FIRST}'" in repr(y)
    one = wg.tensor(2.5).to(FIRST)
    assert (one.item(), float(one), bool(one), f"{one:.1f}") == (2.5, 2.5, True, "2.5")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64", "int64", "uint8", "bool"])
def test_dtypes(dtype: str) -> None:
    x = wg.tensor([0, 1, 2]).astype(dtype)
    assert x.to(FIRST).dtype == x.dtype
    assert x.to(FIRST).tolist() == x.tolist()
    y = x.to(FIRST, wg.complex128)
    assert (y.device, y.dtype) == (FIRST, wg.complex128)
    f = wg.jit(lambda v: wg.where(v == v, v, v))
    assert f(x.to(FIRST)).dtype == x.dtype


def test_what_is_made_on_a_device() -> None:
    made = [
        wg.zeros(3, device=FIRST), wg.ones(2, 3, device=FIRST), wg.full((2,), 7, device=FIRST),
        wg.empty(2, device=FIRST),
        wg.arange(3, device=FIRST), wg.linspace(0, 1, 3, device=FIRST), wg.eye(2, device=FIRST),
        wg.asarray([1.0], device=FIRST), wg.zeros_like(wg.ones(2, device=FIRST)),
        wg.ones_like(wg.ones(2), device=FIRST), wg.ones(2, device=FIRST).new_zeros(3),
        wg.ones(2).to(wg.zeros(1, device=FIRST)), wg.tensor([1.0], device=FIRST), wg.rand(2, device=FIRST),
        wg.randn(2, device=FIRST, requires_grad=True), wg.tensor([1.0], requires_grad=True, device=FIRST),
    ]  # fmt: skip
    assert {x.device for x in made} == {FIRST}
    leaf = wg.zeros(3, device=FIRST, requires_grad=True)
    assert leaf.is_leaf
    assert leaf.requires_grad
    assert wg.zeros_like(wg.ones(2, device=FIRST), device="cpu").device == "cpu"
    # Two names of one device.
    assert wg.zeros(1, device="xla").device == "xla:0"


def test_devices_that_there_are_not() -> None:
    for name in ("cuda", "cuda:1", "tpu:0", "rocm", "mps", "xpu:0"):
        with refused(f"jax has no {name.partition(':')[0]} here, only cpu") as caught:
            wg.ones(2).to(name)
        assert HERE in str(caught.value)
    with refused(f"jax has {len(jax.local_devices())} xla devices"):
        wg.zeros(2, device="xla:99")
    for name in ("cuda:x", "cpu:1", "disk", "xla:-1"):
        with pytest.raises((wg.GraphError, wg.DTypeError)):
            wg.ones(2).to(name)
        with refused("there is no such device"):
            wg.zeros(2, device=name)
    assert wg.zeros(2, device="cpu").device == wg.zeros(2, device="cpu:0").device == "cpu"


def test_outside_of_compiled_functions_nothing_computes_there() -> None:
    x = draw(4).to(FIRST)
    for act in (
        lambda: x + 1.0, lambda: x * x, lambda: 2.0 - x, lambda: x.sum(), lambda: wg.exp(x), lambda: x[0],
        lambda: x[1:], lambda: x.reshape(2, 2), lambda: wg.softmax(x), lambda: x @ x, lambda: wg.sort(x),
        lambda: x == x, lambda: wg.stack([x, x]), lambda: wg.where(x > 0, x, x), lambda: nn.Linear(4, 2)(x), lambda: -x,
        lambda: wg.linalg.norm(x), lambda: wg.cumulative_sum(x), lambda: wg.concat([x, wg.ones(2)]),
        lambda: x.astype("float32"), lambda: wg.grad(lambda v: (v * v).sum())(x), lambda: wg.vmap(lambda v: v * 2)(x),
        lambda: wg.std(x), lambda: wg.nn.functional.gelu(x), lambda: np.add(x, 1.0), lambda: wg.broadcast_to(x, (2, 4)),
    ):  # fmt: skip
        with pytest.raises(wg.WengertError) as caught:
            act()
        assert FIRST in str(caught.value).splitlines()[0]
        assert HERE in str(caught.value)


def test_copies_are_made_where_the_value_is() -> None:
    import wengert.torch as torch

    for ns in (wg, torch):
        x = ns.ones(3, device=FIRST)
        y = x.clone()
        x.zero_()
        assert (type(y), str(y.device), y.tolist()) == (type(x), FIRST, [1.0] * 3)
        assert str(y.contiguous().device) == FIRST
        w = ns.ones(3, device=FIRST).requires_grad_()
        wg.jit(lambda v: (v * v).sum())(w.clone()).backward()
        assert (str(w.grad.device), w.grad.tolist()) == (FIRST, [2.0] * 3)


def test_writes() -> None:
    x, y = draw(3).to(FIRST), draw(3, seed=1)
    with pytest.raises(wg.WengertError, match=FIRST):
        x[0] = 1.0
    with pytest.raises(wg.WengertError, match=FIRST):
        x += 1.0
    x.copy_(y)  # a value goes where the tensor is
    assert (x.device, x.tolist()) == (FIRST, y.tolist())
    x.data = y * 2
    assert (x.device, x.tolist()) == (FIRST, (y * 2).tolist())
    y.copy_(x)
    assert y.device == "cpu"
    z = draw(3, seed=2).to(OTHER)
    x.copy_(z)
    assert (x.device, x.tolist()) == (FIRST, z.tolist())
    x.copy_(wg.ones(3, dtype="float32"))
    assert (x.device, x.dtype) == (FIRST, wg.float64)
    narrow = wg.zeros(2, 3, dtype="float32")
    narrow.copy_(z)  # in another dtype, and broadcast
    assert (narrow.device, narrow.dtype) == ("cpu", wg.float32)
    np.testing.assert_allclose(narrow.numpy(), [z.tolist()] * 2, rtol=1e-6)
    there = wg.zeros(3, dtype="float32", device=OTHER)
    there.copy_(x)
    there.fill_(wg.tensor(2.5).to(FIRST))
    assert (there.device, there.dtype, there.tolist()) == (OTHER, wg.float32, [2.5] * 3)


def test_history_stays_where_it_is() -> None:
    x = wg.ones(3, requires_grad=True)
    for y in (x, x * 2):
        with pytest.raises(GradientError, match="No gradient comes back"):
            y.to(FIRST)
    with wg.no_grad():
        assert x.to(FIRST).device == FIRST
    assert not x.detach().to(FIRST).requires_grad


# -- programs


def test_a_program_runs_where_its_tensors_are() -> None:
    f = wg.jit(lambda x, y: {"sum": (x * y).sum(), "parts": [x + 1, y]})
    x, y = draw(5), draw(5, seed=1)
    want = f(x, y)
    for place in (FIRST, OTHER):
        for _ in range(7):
            found = f(x.to(place), y.to(place))
            assert found["sum"].device == found["parts"][0].device == place
            np.testing.assert_allclose(found["sum"].numpy(), want["sum"].numpy(), rtol=1e-12)
        assert (f.engine.name, f.engine.why) == ("xla", f"x is on {place}")
        assert str(wg.explain.transfers(f)).startswith(f"{place}: 2 inputs were there, 0 were copied")
    for _ in range(7):  # and again where it was, on the host by native code
        assert f(x, y)["sum"].device == "cpu"
        assert f(x.to(FIRST), y.to(FIRST))["sum"].device == FIRST
    assert f.cache_info().programs == 3
    assert "(device)" in f.why_recompiled()


def test_numbers_and_arrays_come_along() -> None:
    f = wg.jit(lambda x, n, a, s: x * n + a * s)
    x = draw(3)
    for k in range(7):
        args = k + 0.5, np.arange(3.0) + k, wg.tensor(2.0)
        np.testing.assert_allclose(f(x.to(FIRST), *args).numpy(), f(x, *args).numpy(), rtol=1e-12)


def test_tensors_on_two_devices() -> None:
    f = wg.jit(lambda x, y: x + y)
    x, y = draw(3), draw(3)
    f(x, y)
    for first, second in ((FIRST, OTHER), (FIRST, "cpu"), ("cpu", FIRST)):
        for _ in range(2):
            with refused("computes with tensors on two devices") as caught:
                f(x.to(first), y.to(second))
            text = str(caught.value)
            assert first in text
            assert second in text
            assert HERE in text
    w = draw(3).to(FIRST)
    g = wg.jit(lambda x: x * w)
    with refused("two devices"):
        g(x)
    assert g(x.to(FIRST)).device == FIRST


def test_options_of_native_code() -> None:
    x = draw(3).to(FIRST)
    for options, match in (
        ({"engine": "native"}, "engine='native' for x, which is on xla:1"),
        ({"verify": True}, "verify=True for x"),
        ({"memory": "1MB"}, "memory"),
    ):
        with refused(match):
            wg.jit(lambda x: x * 2, **options)(x)
    for options in ({"engine": "xla"}, {"engine": "auto"}):
        assert wg.jit(lambda x: x * 2, **options)(x).device == FIRST
    with wg.engine("native"):  # for functions that name no engine, and are given nothing that is elsewhere
        assert wg.jit(lambda x: x * 2)(x).device == FIRST


def test_what_is_captured() -> None:
    w = draw(3)
    f = wg.jit(lambda x: x * w)
    x = draw(3, seed=1)
    want = f(x).tolist()
    for place in (FIRST, "cpu", FIRST):
        move_(w, place)
        for _ in range(7):
            found = f(x.to(place))
            assert found.device == place
            np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)


def test_decisions_by_values() -> None:
    @wg.jit
    def f(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x - 1

    for _ in range(4):
        for sign in (1.0, -1.0):
            x = wg.full((3,), sign)
            assert f(x.to(FIRST)).tolist() == f(x).tolist()
    assert f(wg.ones(3).to(FIRST)).device == FIRST


def test_transforms_inside() -> None:
    x = draw(4)
    for f in (
        wg.grad(lambda v: (wg.sin(v) * v).sum()), wg.vmap(lambda v: v * v), wg.hessian(lambda v: (v**3).sum()),
        lambda v: wg.jvp(wg.exp, (v,), (v,))[1], lambda v: wg.scan(lambda c, r: (c + r, c * r), v.sum(), v)[1],
    ):  # fmt: skip
        found = wg.jit(f)(x.to(FIRST))
        assert found.device == FIRST
        np.testing.assert_allclose(found.numpy(), wg.jit(f)(x).numpy(), rtol=1e-10)


def test_errors_of_ops() -> None:
    f = wg.jit(lambda x, i: x[i])
    x, i = draw(3).to(FIRST), wg.tensor([0, 2]).to(FIRST)
    assert f(x, i).device == FIRST
    with pytest.raises(wg.RangeError, match="3"):
        f(x, wg.tensor([0, 3]).to(FIRST))
    with pytest.raises(wg.linalg.LinAlgError):
        wg.jit(wg.linalg.inv)(wg.zeros(2, 2, device=FIRST))


def test_a_gradient_from_outside() -> None:
    f = wg.jit(lambda x, w: wg.tanh(x * w).sum())
    x = draw(3)
    w = draw(3, seed=1)
    here = w.clone().requires_grad_()
    f(x, here).backward()
    there = w.to(FIRST).requires_grad_()
    for k in range(1, 4):
        loss = f(x.to(FIRST), there)
        assert loss.device == FIRST
        assert loss.requires_grad
        loss.backward()
        assert there.grad.device == FIRST
        np.testing.assert_allclose(there.grad.numpy(), k * here.grad.numpy(), rtol=1e-12)
    seen: list[str] = []
    there.register_hook(lambda g: seen.append(g.device))
    f(x.to(FIRST), there).backward()
    assert seen == [FIRST]


def test_a_gradient_of_one_argument() -> None:
    import wengert.torch as torch

    x = draw(3)
    want = (2 * wg.cos(x) * wg.sin(x)).numpy()
    for ns, compiled in ((wg, wg.jit), (torch, torch.compile)):
        f, h, k = compiled(lambda v: (v.sin() ** 2).sum()), compiled(lambda v: v * v), compiled(lambda v: v.sin())
        for given in (None, ns.ones(3, device=FIRST), ns.ones(3, dtype=ns.float64), ns.ones(3)):
            leaf = ns.tensor(x.numpy()).to(FIRST).requires_grad_()
            for n in (1, 2):
                (f(leaf) if given is None else h(k(leaf))).backward(given)
                assert leaf.grad.device == FIRST
                np.testing.assert_allclose(leaf.grad.numpy(), n * want, rtol=1e-12)
    found = wg.grad(wg.jit(lambda v: (v.sin() ** 2).sum()))(x.to(FIRST))
    assert found.device == FIRST
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)


def test_the_gradient_of_a_number_of_the_host() -> None:
    x, rate = draw(3).to(FIRST), wg.tensor(2.0, requires_grad=True)
    f, want = wg.jit(lambda v, r: (v * r).sum()), sum(x.tolist())
    for n in range(1, 5):
        f(x, rate).backward()
        assert (rate.device, rate.grad.device) == ("cpu", "cpu")
        np.testing.assert_allclose(rate.grad.item(), n * want, rtol=1e-6)
    (found,) = wg.autograd.grad(f(x, rate), rate)
    assert found.device == "cpu"
    opt = wg.optim.SGD([rate], lr=0.1)
    opt.step()

    @wg.jit
    def step(v: Any) -> Any:
        opt.zero_grad()
        loss = (v * rate).sum() ** 2
        loss.backward()
        opt.step()
        return loss

    for _ in range(4):
        step(x)
        assert (rate.device, rate.grad.device) == ("cpu", "cpu")


def test_callbacks_and_state() -> None:
    total = wg.zeros(3, device=FIRST)

    @wg.jit
    def f(x: Any) -> Any:
        total.add_(x)
        return wg.callback(lambda v: v * 2, wg.spec(3), x)

    x = wg.ones(3, device=FIRST)
    for k in range(1, 8):
        assert f(x).tolist() == [2.0] * 3
        assert (total.device, total.tolist()) == (FIRST, [float(k)] * 3)


# -- modules, optimisers, donation


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_training(kind: str) -> None:
    x, y = draw(8, 3).astype("float32"), draw(8, 2, seed=1).astype("float32")
    runs = []
    for place in ("cpu", FIRST):
        net = model().to(place)
        opt = getattr(wg.optim, kind)(net.parameters(), lr=0.05)
        step = trainer(net, opt)
        wg.manual_seed(1)
        losses = [step(x.to(place), y.to(place)) for _ in range(9)]
        assert {loss.device for loss in losses} == {place}
        assert {t.device for t in (*net.parameters(), *net.buffers()) if t.shape} == {place}
        runs.append([loss.item() for loss in losses])
        if place == FIRST:
            assert all(p.grad.device == place for p in net.parameters())
            assert step.engine.why.endswith(f"is on {FIRST}")
            moved = wg.explain.transfers(step)
            assert moved.brought < 200  # step counts, rates and the generator's position
    np.testing.assert_allclose(runs[0], runs[1], rtol=2e-4)


def test_state_goes_where_its_parameters_go() -> None:
    x, y = draw(8, 3).astype("float32"), draw(8, 2, seed=1).astype("float32")
    wanted = None
    for places in (("cpu",) * 12, ("cpu",) * 4 + (FIRST,) * 4 + ("cpu",) * 4, (FIRST,) * 3 + (OTHER,) * 9):
        net = nn.Linear(3, 2)
        with wg.no_grad():
            for p in net.parameters():
                p.fill_(0.1)
        opt = wg.optim.Adam(net.parameters(), lr=0.05)
        step = trainer(net, opt)
        losses = []
        for place in places:
            net.to(place)
            losses.append(step(x.to(place), y.to(place)).item())
            assert net.weight.device == place
        wanted = wanted or losses
        np.testing.assert_allclose(losses, wanted, rtol=1e-4)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_state_comes_back_for_eager_steps(kind: str) -> None:
    import wengert.torch as torch

    for ns in (wg, torch):
        runs = []
        for place in ("cpu", FIRST):
            net = ns.nn.Linear(3, 2)
            with ns.no_grad():
                for p in net.parameters():
                    p.fill_(0.1)
            net.to(place)
            more = {"momentum": 0.9} if kind == "SGD" else {}
            opt = getattr(ns.optim, kind)(net.parameters(), lr=0.05, **more)

            def step(x: Any, net: Any = net, opt: Any = opt) -> Any:
                opt.zero_grad()
                loss = ((net(x) - 1) ** 2).mean()
                loss.backward()
                opt.step()
                return loss

            on_place, x = (wg.jit(step) if ns is wg else torch.compile(step, fullgraph=True)), ns.ones(4, 3)
            losses = [on_place(x.to(place)).item() for _ in range(3)]
            net.to("cpu")
            losses += [step(x).item() for _ in range(3)]
            net.to(place)
            losses += [on_place(x.to(place)).item() for _ in range(2)]
            runs.append(losses)
        np.testing.assert_allclose(runs[0], runs[1], rtol=1e-4, atol=1e-6)


def test_what_others_refer_to_keeps_its_value() -> None:
    w = wg.ones(3, device=FIRST)
    step = wg.jit(lambda: w.mul_(2.0))
    step()
    held, before = w.detach(), w.tolist()
    for _ in range(7):
        step()
    assert held.tolist() == before
    assert w.tolist() == [256.0] * 3


def test_donated_arguments() -> None:
    f = wg.jit(lambda x: x * 2, donate_argnums=0)
    for _ in range(7):
        x = wg.ones(3, device=FIRST)
        kept = x.detach()
        assert f(x).tolist() == [2.0] * 3
        assert kept.tolist() == [1.0] * 3
        with refused("was donated"):
            x.tolist()


def test_an_error_costs_no_state() -> None:
    w = wg.ones(3, device=FIRST)

    @wg.jit
    def step(i: Any) -> Any:
        w.add_(1.0)
        return w[i]

    assert step(wg.tensor([1]).to(FIRST)).tolist() == [2.0]
    with pytest.raises(wg.RangeError):
        step(wg.tensor([7]).to(FIRST))
    assert w.tolist() == [2.0] * 3
    assert w.device == FIRST


def test_an_interruption_costs_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    w = wg.ones(3, device=FIRST)
    step = wg.jit(lambda: w.mul_(2.0).sum())
    step()

    class Slow:
        """A result in whose waiting Ctrl-C arrives."""

        def __init__(self, array: Any) -> None:
            self.array = array

        def block_until_ready(self) -> None:
            raise KeyboardInterrupt

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.asarray(self.array)

    executor = step._shown().executor
    real = executor._made.compiled

    def slow(*args: Any) -> Any:
        found, wrong = real(*args)
        return [Slow(x) for x in found], wrong

    monkeypatch.setattr(executor, "_made", executor._made._replace(compiled=slow))
    with pytest.raises(KeyboardInterrupt):
        step()
    assert w.tolist() in ([2.0] * 3, [4.0] * 3)
    assert w.device == FIRST


def test_dtypes_of_modules() -> None:
    net = nn.Linear(3, 2).to(FIRST)
    opt = wg.optim.SGD(net.parameters(), lr=0.1)
    step = trainer(net, opt)
    step(wg.ones(4, 3, device=FIRST), wg.ones(4, 2, device=FIRST))
    net.to(wg.float64)
    for p in net.parameters():
        assert (p.device, p.grad.device, p.dtype, p.grad.dtype) == (FIRST, FIRST, wg.float64, wg.float64)
    step(wg.ones(4, 3, device=FIRST, dtype=wg.float64), wg.ones(4, 2, device=FIRST, dtype=wg.float64))
    net.to("cpu")
    assert {t.device for p in net.parameters() for t in (p, p.grad)} == {"cpu"}


def test_state_dicts_copies_and_files(tmp_path: Any) -> None:
    net = model().to(FIRST)
    opt = wg.optim.Adam(net.parameters(), lr=0.05)
    step = trainer(net, opt)
    x, y = draw(8, 3).astype("float32").to(FIRST), draw(8, 2, seed=1).astype("float32").to(FIRST)
    step(x, y)
    state = net.state_dict()
    assert state["0.weight"].device == FIRST
    fresh = model()
    fresh.load_state_dict(state)
    assert fresh[0].weight.device == "cpu"
    assert fresh[0].weight.tolist() == net[0].weight.tolist()
    back = model().to(OTHER)
    back.load_state_dict({k: v.to("cpu") for k, v in state.items()})
    assert back[0].weight.device == OTHER
    wg.storage.save(tmp_path / "net.safetensors", net.state_dict())
    loaded = wg.storage.load(tmp_path / "net.safetensors")
    assert loaded["0.weight"].device == "cpu"
    assert loaded["0.weight"].tolist() == net[0].weight.tolist()
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert made[0].weight.device == FIRST
        assert made[0].weight.tolist() == net[0].weight.tolist()
        assert made[0].weight.requires_grad
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x), x.detach()):
        assert (made.device, made.tolist()) == (FIRST, x.tolist())
    other = wg.optim.Adam(net.parameters(), lr=0.05)
    other.load_state_dict(opt.state_dict())
    step_of_other = trainer(net, other)
    assert step_of_other(x, y).device == FIRST
    kept = other.state[net[0].weight]["exp_avg"]
    assert kept.place == FIRST


def test_a_mesh_has_devices_of_its_own() -> None:
    step = wg.distribute.jit(lambda x: x.sum(), mesh=wg.distribute.Mesh(data=2), in_specs=("data",))
    with refused("which is on xla:1"):
        step(wg.ones(4, device=FIRST))


def test_other_consumers_refuse() -> None:
    x = wg.ones(3, device=FIRST)
    graph = wg.graph(lambda v: v * 2)(wg.spec(3))
    with pytest.raises(wg.WengertError, match=FIRST):
        graph(x)
    opt = wg.optim.SGD([p := wg.ones(3, device=FIRST, requires_grad=True)], lr=0.1)
    p.grad = wg.ones(3, device=FIRST)
    with pytest.raises(wg.WengertError, match=FIRST):
        opt.step()
    assert p.tolist() == [1.0] * 3


# -- PyTorch's names


def test_pytorch_programs() -> None:
    import wengert.torch as torch

    torch.manual_seed(0)
    place = torch.device("xla", 1)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).to(place)
    opt = torch.optim.Adam(net.parameters(), lr=0.05)
    assert {p.device for p in net.parameters()} == {place}

    @torch.compile
    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    x = torch.randn(16, 3, device=place)
    y = torch.zeros_like(torch.ones(16, 1, device=place))
    losses = [step(x, y).item() for _ in range(8)]
    assert losses[-1] < losses[0]
    assert step(x, y).device == place
    assert (x.is_cuda, x.is_xla, x.is_cpu, x.get_device()) == (False, True, False, 1)
    assert x.cpu().is_cpu
    assert x.cpu().get_device() == -1
    assert x.to("cpu", torch.float64).dtype == torch.float64
    assert x.to(torch.float64).device == place
    assert x.new_ones(2).device == torch.full_like(x, 2.0).device == torch.arange(3, device=place).device == place
    assert net.cpu()[0].weight.device == torch.device("cpu")
    assert str(x).endswith("device='xla:1')")


def test_writes_in_pytorchs_names() -> None:
    import wengert.torch as torch

    x = torch.tensor([1.0, 2.0], device=FIRST)
    d, again = x.detach(), x.data
    x.zero_()
    assert [t.tolist() for t in (x, d, again)] == [[0.0, 0.0]] * 3
    d.copy_(torch.ones(2, dtype=torch.float64))
    twice = torch.compile(lambda v: v.mul_(2), fullgraph=True)
    for n in range(1, 6):
        twice(x)
        assert {t.device for t in (x, d)} == {torch.device(FIRST)}
        assert [t.tolist() for t in (x, d, again)] == [[2.0**n] * 2] * 3
    twice(d)
    step = torch.compile(lambda: x.add_(1), fullgraph=True)
    for n in range(1, 6):
        step()
        assert [t.tolist() for t in (x, d, again)] == [[64.0 + n] * 2] * 3
    owner = torch.zeros(2, device=FIRST)
    first, second = owner.detach(), owner.detach()
    del owner  # others are names of its value still
    first.copy_(torch.ones(2))
    assert second.tolist() == [1.0, 1.0]
    first.zero_()
    assert second.tolist() == [0.0, 0.0]
    both = torch.compile(lambda a, b: (a.add_(1), b * 1)[1], fullgraph=True)
    for n in range(1, 4):
        assert both(first, first.detach()).tolist() == [float(n)] * 2


def test_views_that_programs_give() -> None:
    import wengert.torch as torch

    x = torch.tensor([1.0, 2.0], device=FIRST)
    f = torch.compile(lambda v: (v.view(-1), v[0], v.detach(), v.view(1, 2)), fullgraph=True)
    for _ in range(4):
        seen = f(x)
        assert [t.tolist() for t in seen] == [[1.0, 2.0], 1.0, [1.0, 2.0], [[1.0, 2.0]]]
        assert {t.device for t in seen} == {torch.device(FIRST)}
    for write in (x.zero_, lambda: torch.compile(lambda v: v.mul_(2), fullgraph=True)(x), seen[0].zero_):
        with pytest.raises(wg.WriteError) as caught:
            write()
        assert HERE in str(caught.value)
        assert x.tolist() == seen[0].tolist() == [1.0, 2.0]
    for act in (lambda: x.view(-1), lambda: x[0], lambda: x[1:].zero_(), lambda: x.view(torch.int32), lambda: x.t()):
        with pytest.raises(wg.WengertError, match=FIRST):
            act()
    del seen, write, caught
    x.zero_()
    assert x.tolist() == [0.0, 0.0]


def torch_trainer(torch: Any, net: Any, opt: Any) -> Any:
    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    return step


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_states_in_pytorchs_names(kind: str) -> None:
    import wengert.torch as torch

    net, saved = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2).double().state_dict()
    net.to(FIRST)
    for given in (saved, net.state_dict()):
        net.load_state_dict(given)
        assert net.weight.device == torch.device(FIRST)
        np.testing.assert_allclose(net.weight.numpy(force=True), saved["weight"].numpy(), rtol=1e-6)
    runs = []
    for place in ("cpu", FIRST):
        net.to(place).load_state_dict(saved)
        opt = getattr(torch.optim, kind)(net.parameters(), lr=0.1, **({"momentum": 0.9} if kind == "SGD" else {}))
        step, x = torch_trainer(torch, net, opt), torch.ones(4, 3, device=place)
        losses = [step(x).item() for _ in range(3)]
        opt.load_state_dict(opt.state_dict())
        runs.append(losses + [step(x).item() for _ in range(4)])
        held = next(iter(opt.state.values()))
        assert {v.device for k, v in held.items() if k != "step"} == {torch.device(place)}
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-4, atol=1e-6)
    net.load_state_dict(net.state_dict(), assign=True)
    assert net.weight.device == torch.device(FIRST)


def test_parameters_and_copies_stay_where_they_are() -> None:
    import wengert.torch as torch

    for ns in (wg, torch):
        x = ns.ones(3, device=FIRST)
        made = [ns.nn.Parameter(x), wg.asarray(x, copy=True)]
        x.zero_()
        # A parameter of PyTorch's namespace shares the memory of what it is made of.
        for t, shares in zip(made, (ns is torch, False), strict=True):
            assert (str(t.device), t.tolist()) == (FIRST, [0.0 if shares else 1.0] * 3)


def test_pytorch_programs_that_ask_stay_on_the_processor() -> None:
    import wengert.torch as torch

    assert not torch.cuda.is_available()  # programs that ask compute there an operation at a time
    for act in (
        lambda: torch.ones(2).to("cuda"), lambda: torch.ones(2).cuda(), lambda: torch.zeros(2, device="cuda:0"),
        lambda: torch.nn.Linear(2, 2).cuda(), lambda: torch.nn.Linear(2, 2).to("cuda"),
    ):  # fmt: skip
        with pytest.raises(wg.DTypeError, match="cuda"):
            act()
