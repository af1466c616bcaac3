"""Modules of `wengert.torch.nn`: PyTorch's numbers and looks on its own samples; hooks, state, containers."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import torch_records as records
import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DTypeError, RangeError, ShapeError

nn = torch.nn
RECORDED = records.read("modules_a")


def constructed(name: str, made: list[Any]) -> Any:
    args, kwargs = (records.tensors(part, torch, iter([False] * 9), []) for part in made)
    return getattr(nn, name)(*args, **kwargs).to(torch.float64)


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_modules_are_pytorchs(name: str) -> None:
    for i, (made, called, training, shown, state, out, slopes, after) in enumerate(RECORDED[name]):
        what = f"{name} {i}"
        module = constructed(name, made).train(training)
        assert repr(module) == shown, what
        assert list(module.state_dict()) == list(state), what
        module.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
        args, kwargs = (records.tensors(part, torch, iter([False] * 9), []) for part in called)
        found = module(*args, **kwargs)
        if "Dropout" in name and training:
            assert found.shape == out.shape
            continue
        records.check(found, out, what)
        for key, value in module.state_dict().items():
            np.testing.assert_allclose(value.numpy(), (after or state)[key], rtol=1e-9, err_msg=what)
        total = records.scalar(torch, found)
        if total is not None:
            total.backward()
            for p, wanted in zip(module.parameters(), slopes, strict=True):
                if wanted is not None:
                    records.check(p.grad, wanted, f"{what}, gradient")


# -- what a module holds


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.last = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2))
        self.register_buffer("scale", torch.ones(1), persistent=False)

    def forward(self, x: Any, shift: float = 0.0) -> Any:
        return self.last(self.norm(self.first(x))) * self.scale + shift


def test_registries_are_mappings_of_what_is_held() -> None:
    net = Net()
    assert list(net._modules) == ["first", "norm", "last"]
    assert net._modules["first"] is net.first
    net._modules["first"] = nn.Linear(3, 4, bias=False)
    assert net.first.bias is None
    assert [type(m).__name__ for m in net._modules.values()] == ["Linear", "BatchNorm1d", "Sequential"]
    assert list(net.norm._parameters) == ["weight", "bias"]
    assert "running_mean" in net.norm._buffers
    del net._buffers["scale"]
    assert not hasattr(net, "scale")
    net.norm._parameters["bias"] = None
    assert [n for n, _ in net.norm.named_parameters()] == ["weight"]
    assert list(net._modules.copy()) == list(net._modules)
    with pytest.raises(KeyError):
        net._modules["none"]
    with pytest.raises(KeyError):
        del net._parameters["none"]


def test_paths() -> None:
    net = Net()
    assert [n for n, _ in net.named_modules(prefix="net")][:2] == ["net", "net.first"]
    seen = {net.first}
    assert [n for n, _ in net.named_modules(seen)] == ["", "norm", "last", "last.0", "last.1"]
    assert net.norm in seen
    assert net.get_submodule("last.1") is net.last[1]
    assert net.get_parameter("first.weight") is net.first.weight
    assert net.get_buffer("norm.running_var") is net.norm.running_var
    for fetch in (net.get_submodule, net.get_parameter, net.get_buffer):
        with pytest.raises(AttributeError):
            fetch("last.9.x")
    net.set_submodule("last.1", nn.Identity())
    assert type(net.last[1]) is nn.Identity
    with pytest.raises(AttributeError):
        net.set_submodule("last.7", nn.Identity(), strict=True)
    with pytest.raises(ValueError, match="target"):
        net.set_submodule("", nn.Identity())
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'middle'"):
        net.middle
    assert {"first", "weight"} - set(dir(net)) == {"weight"}


def test_train_and_apply_go_by_the_childrens_own() -> None:
    class Frozen(nn.BatchNorm1d):
        def train(self, mode: bool = True) -> Any:
            return super().train(False)

    model = nn.Sequential(nn.Linear(2, 2), Frozen(2)).train()
    assert [m.training for m in model.modules()] == [True, True, False]
    names: list[str] = []
    model.apply(lambda m: names.append(type(m).__name__))
    assert names == ["Linear", "Frozen", "Sequential"]
    with pytest.raises(ValueError, match="boolean"):
        model.train("yes")
    assert model.to_empty(device="cpu") is model
    model(torch.randn(3, 2)).sum().backward()
    model.zero_grad(set_to_none=False)
    assert type(model[0].weight.grad) is torch.Tensor
    assert not model[0].weight.grad.any()


def test_buffers() -> None:
    module = nn.Module()
    module.kept = nn.Buffer(torch.ones(2))
    module.fleeting = nn.Buffer(torch.ones(2), persistent=False)
    assert list(module.state_dict()) == ["kept"]
    assert [n for n, _ in module.named_buffers()] == ["kept", "fleeting"]
    assert type(module.kept * 2) is torch.Tensor
    other = pickle.loads(pickle.dumps(copy.deepcopy(module)))
    assert [n for n, _ in other.named_buffers()] == ["kept", "fleeting"]


# -- hooks


def test_hooks_around_forward() -> None:
    net, x, log = Net().eval(), torch.randn(2, 3), []
    plain = net(x)
    net.first.register_forward_pre_hook(lambda m, args: log.append("second"))
    net.first.register_forward_pre_hook(lambda m, args: log.append("first"), prepend=True)
    net.first.register_forward_hook(lambda m, args, out: log.append("last"))
    net(x)
    assert log == ["first", "second", "last"]
    with net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"shift": 1.0}), with_kwargs=True):
        np.testing.assert_allclose(net(x, shift=5.0).detach().numpy(), plain.detach().numpy() + 1, rtol=1e-5)
    with net.register_forward_hook(lambda m, args, kwargs, out: out * 0 + kwargs["shift"], with_kwargs=True):
        assert net(x, shift=5.0).detach().numpy().tolist() == [[5.0, 5.0], [5.0, 5.0]]
    np.testing.assert_array_equal(net(x).detach().numpy(), plain.detach().numpy())
    called: list[Any] = []
    net.register_forward_hook(lambda m, args, out: called.append(out), always_call=True)
    with pytest.raises(ShapeError):
        net(torch.ones(2, 5))
    assert called == [None]
    net._forward_hooks.clear()
    net(x)
    assert called == [None]


def test_handles_have_numbers_of_their_own() -> None:
    layer, log = nn.Identity(), []
    first = layer.register_forward_hook(lambda *_: log.append("a"))
    layer.register_forward_hook(lambda *_: log.append("b"), prepend=True)
    layer.register_forward_hook(lambda *_: log.append("c"))
    layer(torch.ones(1))
    assert log == ["b", "a", "c"]
    first.remove()
    log.clear()
    layer(torch.ones(1))
    assert log == ["b", "c"]


def test_hooks_see_the_gradients_of_one_call() -> None:
    seen: list[Any] = []
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.assign_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    handle = layer.register_full_backward_hook(lambda m, inner, outer: seen.append((inner, outer)))
    x = torch.ones(1, 2, requires_grad=True)
    # The other use of x is no part of the layer's gradient.
    (layer(x).sum() + 10 * x.sum()).backward()
    (((inner,), (outer,)),) = seen
    assert inner.tolist() == [[4.0, 6.0]]
    assert outer.tolist() == [[1.0, 1.0]]
    assert x.grad.tolist() == [[14.0, 16.0]]
    handle.remove()
    seen.clear()
    layer.register_full_backward_pre_hook(lambda m, outer: (outer[0] * 2,))
    tenfold = layer.register_full_backward_hook(lambda m, inner, outer: (inner[0] * 10,))
    x.grad = None
    layer(x).sum().backward()
    assert x.grad.tolist() == [[80.0, 120.0]]
    tenfold.remove()
    layer.register_full_backward_hook(lambda m, inner, outer: seen.append(inner))
    layer(torch.ones(1, 2)).sum().backward()
    assert seen == [(None,)]


@pytest.mark.filterwarnings("ignore:step was traced")
def test_what_hooks_do_is_done_at_every_call_of_a_compiled_step() -> None:
    """Hooks of every kind write outside of the step: what they keep is of this call, in PyTorch's class."""

    def losses(compiled: bool) -> tuple[list[float], list[Any], dict[str, Any]]:
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        kept: dict[str, Any] = {"calls": 0, "keyed": 0}
        seen: list[Any] = []

        def count(name: str) -> None:
            kept[name] += 1

        # `max(1)` gives a pair in PyTorch, and the largest numbers alone in the Array API.
        module[1].register_full_backward_hook(lambda m, gi, go: kept.__setitem__("largest", go[0].max(1).values))
        module[1].register_full_backward_hook(lambda m, gi, go: setattr(m, "given", gi[0].norm()))
        module[1].register_full_backward_pre_hook(lambda m, go: count("calls"))
        module[0].weight.register_hook(lambda g: kept.__setitem__("weight", g.max(1).values))
        module[2].register_forward_hook(lambda m, args, kwargs, out: count("keyed"), with_kwargs=True)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        x = torch.arange(15.0).reshape(5, 3) / 10

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = module(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compiled else step
        found = []
        for _ in range(6):
            found.append(float(run(x)))
            seen.append((kept["largest"].tolist(), module[1].given.item(), kept["weight"].tolist()))
        assert {type(v) for v in (kept["largest"], kept["weight"], module[1].given)} == {torch.Tensor}
        return found, seen, {k: kept[k] for k in ("calls", "keyed")}

    eager, compiled = losses(compiled=False), losses(compiled=True)
    np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-5)
    for one, other in zip(compiled[1], eager[1], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7)
    assert compiled[2] == eager[2] == {"calls": 6, "keyed": 6}


def test_gradient_hooks_of_several_results() -> None:
    class Two(nn.Module):
        def forward(self, x: Any, y: Any, times: int) -> Any:
            return x * times, x + y

    seen: list[Any] = []
    module = Two()
    module.register_full_backward_hook(lambda m, inner, outer: seen.append((inner, outer)))
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    a, b = module(x, y, 3)
    (a.sum() + 5 * b.sum()).backward()
    ((inner, outer),) = seen
    assert [None if g is None else g.tolist() for g in inner] == [[8.0, 8.0], [5.0, 5.0], None]
    assert [g.tolist() for g in outer] == [[1.0, 1.0], [5.0, 5.0]]


# -- state


def test_state_dicts() -> None:
    net, other = Net(), Net()
    state = net.state_dict()
    assert type(state) is OrderedDict
    assert "scale" not in state
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    np.testing.assert_array_equal(other.first.weight.detach().numpy(), net.first.weight.detach().numpy())
    given: Any = {}
    assert net.state_dict(destination=given, prefix="net.", keep_vars=True) is given
    assert given["net.first.weight"] is net.first.weight
    del state["first.weight"]
    state["extra"] = torch.ones(1)
    with pytest.raises(RuntimeError, match=r"Missing key.*first\.weight"):
        other.load_state_dict(state)
    found = other.load_state_dict(state, strict=False)
    assert found.missing_keys == ["first.weight"]
    assert found.unexpected_keys == ["extra"]
    with pytest.raises(RuntimeError, match=r"size mismatch for first\.bias"):
        other.load_state_dict({"first.bias": torch.ones(9)}, strict=False)
    with pytest.raises(TypeError):
        other.load_state_dict(3)


def test_assigned_state_has_its_own_dtype() -> None:
    source, target = nn.Linear(2, 2, dtype=torch.float64), nn.Linear(2, 2)
    target.weight.requires_grad_(False)
    target.load_state_dict(source.state_dict(), assign=True)
    assert target.weight.dtype == torch.float64
    assert not target.weight.requires_grad
    assert target.bias.requires_grad
    assert type(target.weight) is nn.Parameter


def test_state_of_ones_own() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    model, other = nn.Sequential(Counter()), nn.Sequential(Counter())
    model[0].count = 7
    assert list(model.state_dict()) == ["0._extra_state"]
    other.load_state_dict(model.state_dict())
    assert other[0].count == 7
    with pytest.raises(RuntimeError, match="_extra_state"):
        other.load_state_dict({})


def test_hooks_around_state() -> None:
    net, log = nn.Sequential(nn.Linear(1, 1)), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: log.append("save"))
    net[0].register_state_dict_post_hook(lambda m, state, prefix, meta: state.update({f"{prefix}more": 1}))
    net[0]._register_load_state_dict_pre_hook(lambda state, prefix, *rest: state.pop(f"{prefix}more", None))
    net.register_load_state_dict_post_hook(lambda m, keys: log.append(keys.unexpected_keys))
    state = net.state_dict()
    assert list(state) == ["0.weight", "0.bias", "0.more"]
    net.load_state_dict(state)
    assert log == ["save", []]


# -- containers


def test_sequential() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    part = model[1:]
    assert list(part.state_dict()) == ["2.weight", "2.bias"]
    assert part[1] is model[2]
    assert len(model + part) == 5
    assert len(model * 2) == 6
    model += nn.Sequential(nn.Tanh())
    assert type(model[-1]) is nn.Tanh
    del model[1]
    assert list(model._modules) == ["0", "1", "2"]
    assert type(model.pop(2)) is nn.Tanh
    assert type(model.insert(1, nn.ReLU())[1]) is nn.ReLU
    model[1] = nn.GELU()
    assert model(torch.ones(1, 2)).shape == (1, 1)
    named = nn.Sequential(OrderedDict(a=nn.Linear(1, 1), b=nn.ReLU()))
    assert named.a is named[0]
    with pytest.raises(TypeError):
        nn.Sequential(3)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="factor"):
            model * wrong
    with pytest.raises(TypeError):
        model * 1.5
    with pytest.raises(ValueError, match="Sequential"):
        model + 3


def test_lists_and_dicts_of_modules() -> None:
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers += [nn.ReLU()]
    assert len(layers + [nn.Tanh()]) == 3
    assert type(layers[1:]) is nn.ModuleList
    assert len(nn.ModuleList()) == 0
    held = nn.ModuleDict({"a": nn.Linear(1, 1)})
    held.update({"b": nn.ReLU()})
    assert len(held.keys()) == 2
    assert [k for k, _ in held.items()] == ["a", "b"]
    assert "b" in held
    assert type(held.pop("b")) is nn.ReLU
    held.clear()
    assert not list(held.values())
    with pytest.raises(KeyError):
        held["a"]


def test_lists_and_dicts_of_parameters() -> None:
    held = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1)), "text"])
    assert [type(v).__name__ for v in held] == ["Parameter", "Parameter", "str"]
    assert [n for n, _ in held.named_parameters()] == ["0", "1"]
    held += [torch.ones(1)]
    held[1] = torch.ones(4)
    assert [tuple(p.shape) for p in held.parameters()] == [(2,), (4,), (1,)]
    assert len(held[1:]) == 3
    with pytest.raises(IndexError):
        held[9]
    with pytest.raises(TypeError):
        held.extend(torch.ones(2))
    named = nn.ParameterDict({"a": torch.ones(2)})
    assert named.setdefault("b", torch.ones(3)) is named["b"]
    assert list(reversed(named)) == ["b", "a"]
    assert len(named | {"c": torch.ones(1)}) == 3
    assert list({"z": torch.ones(1)} | named) == ["z", "a", "b"]
    named |= {"d": 4}
    assert named.get("d") == 4
    assert named.get("e", 5) == 5
    assert named.popitem() == ("d", 4)
    assert named.pop("b").shape == (3,)
    assert named.copy()["a"] is named["a"]
    assert list(named.fromkeys(["x", "y"])) == ["x", "y"]
    assert repr(named) == "ParameterDict(\n    (a): Parameter containing: [torch.float32 of size 2]\n)"
    other = pickle.loads(pickle.dumps(named))
    assert list(other) == ["a"]
    named.clear()
    assert not len(named)
    with pytest.raises(KeyError):
        named.pop("a")
    with pytest.raises(KeyError):
        named.popitem()
    with pytest.raises(TypeError):
        named[3] = torch.ones(1)


def test_one_device() -> None:
    inner = nn.Linear(2, 1)
    outer = nn.DataParallel(inner)
    assert outer.module is inner
    assert list(outer.state_dict()) == ["module.weight", "module.bias"]
    np.testing.assert_array_equal(outer(torch.ones(1, 2)).detach(), inner(torch.ones(1, 2)).detach())


def test_inner_paths() -> None:
    from wengert.torch.nn.modules.batchnorm import _BatchNorm
    from wengert.torch.nn.modules.loss import _Loss

    assert isinstance(nn.BatchNorm3d(2), _BatchNorm)

    class OfRows(nn.modules.instancenorm._InstanceNorm):
        def _get_no_batch_dim(self):
            return 2

    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(OfRows(2)(x), nn.InstanceNorm1d(2)(x))
    assert [getattr(nn, f"InstanceNorm{n}d")(2)._get_no_batch_dim() for n in (1, 2, 3)] == [2, 3, 4]
    assert not isinstance(nn.InstanceNorm1d(2), _BatchNorm)
    assert isinstance(nn.InstanceNorm1d(2), nn.modules.batchnorm._NormBase)
    assert isinstance(nn.CTCLoss(), _Loss)
    assert isinstance(nn.Conv2d(1, 1, 1), nn.modules.conv._ConvNd)
    assert nn.modules.activation.ReLU is nn.ReLU
    assert nn.modules.Linear is nn.Linear


# -- crossings


def test_modules_of_wengert_become_ours() -> None:
    model = nn.Sequential(wg.nn.ReLU(), wg.nn.BatchNorm1d(2), wg.nn.CrossEntropyLoss())
    assert [type(m) for m in model] == [nn.ReLU, nn.BatchNorm1d, nn.CrossEntropyLoss]
    assert repr(model[0]) == "ReLU()"


def test_compiled_and_transformed_modules() -> None:
    net, x = Net().double(), torch.randn(5, 3, dtype=torch.float64)
    twin = copy.deepcopy(net)
    compiled = wg.jit(net)
    for _ in range(6):
        np.testing.assert_allclose(compiled(x).detach().numpy(), twin(x).detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(net.norm.running_mean.numpy(), twin.norm.running_mean.numpy(), rtol=1e-9)
    slopes = wg.grad(lambda m: m(x).square().sum())(net)
    assert type(slopes) is Net
    twin(x).square().sum().backward()
    np.testing.assert_allclose(
        slopes.first.weight.detach().numpy(), twin.first.weight.grad.numpy(), rtol=1e-6, atol=1e-9
    )
    assert list(slopes._modules) == ["first", "norm", "last"]


def test_refusals() -> None:
    with pytest.raises(DTypeError):
        nn.Linear(2, 2, device="cuda")
    with pytest.raises(RangeError):
        nn.Dropout(1.5)
    with pytest.raises(RangeError):
        nn.Hardtanh(1.0, -1.0)
    with pytest.raises(ShapeError):
        nn.Softmax2d()(torch.ones(2))
    with pytest.raises(RangeError):
        nn.MultiMarginLoss(p=3)
    with pytest.raises(TypeError):
        nn.Linear(2, 2).weight = torch.ones(2, 2)
    with pytest.raises(ShapeError):
        nn.InstanceNorm1d(3, affine=True)(torch.ones(2, 4, 5))
    with pytest.warns(UserWarning, match="num_features"):
        nn.InstanceNorm1d(3)(torch.ones(2, 4, 5))
