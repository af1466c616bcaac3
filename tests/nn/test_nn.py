"""Modules: what they hold, state, scopes, pytrees, containers, initialisers, gradient utilities."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import weakref
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn

RNG = np.random.default_rng(7)


class Scale(nn.Module):
    """One parameter, no dependence on any layer."""

    def __init__(self, value=2.0):
        super().__init__()
        self.w = nn.Parameter(value)

    def forward(self, x):
        return x * self.w


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Scale(2.0)
        self.layers = nn.ModuleList([Scale(3.0), Scale(5.0)])
        self.b = nn.Parameter([1.0])
        self.register_buffer("count", wg.tensor([0]))
        self.register_buffer("cache", wg.tensor([1.5]), persistent=False)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return x + self.b


NAMES = ["b", "first.w", "layers.0.w", "layers.1.w"]


# -- parameters


def test_parameter_is_a_leaf_with_its_own_buffer():
    data = np.array([1.0, 2.0], np.float32)
    p = nn.Parameter(data)
    data[0] = 9.0
    assert p.tolist() == [1.0, 2.0]
    assert p.requires_grad
    assert p.is_leaf
    assert isinstance(p, wg.Tensor)
    assert type(p * 1) is wg.Tensor
    assert type(p.detach()) is wg.Tensor
    assert repr(p) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"


def test_parameter_of_a_computed_tensor_has_no_history():
    x = wg.tensor([2.0], requires_grad=True)
    p = nn.Parameter(x * 3)
    (p * p).backward(wg.tensor([1.0]))
    assert x.grad is None
    assert p.grad.tolist() == [12.0]


def test_parameter_dtypes():
    assert nn.Parameter([1.0], dtype=wg.float64).dtype == wg.float64
    assert not nn.Parameter([1], requires_grad=False).requires_grad
    with pytest.raises(wg.DTypeError, match="int64 cannot require gradients"):
        nn.Parameter([1])


@pytest.mark.parametrize("through", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_parameter_copies(through):
    p = nn.Parameter([1.0])
    p.grad = wg.tensor([3.0])
    q = through(p)
    assert type(q) is nn.Parameter
    assert q.requires_grad
    assert q.grad.tolist() == [3.0]
    assert q.node is not p.node


# -- registration


def test_attributes_are_registered_by_type():
    m = Chain()
    assert [n for n, _ in m.named_parameters()] == NAMES
    assert [n for n, _ in m.named_buffers()] == ["count", "cache"]
    assert [n for n, _ in m.named_children()] == ["first", "layers"]
    assert [n for n, _ in m.named_modules()] == ["", "first", "layers", "layers.0", "layers.1"]
    assert [n for n, _ in m.named_parameters("net", recurse=False)] == ["net.b"]
    assert m.get_submodule("layers.1") is m.layers[1]
    assert m.get_submodule("") is m
    assert m.get_parameter("layers.0.w") is m.layers[0].w


def test_paths_that_do_not_exist():
    m = Chain()
    with pytest.raises(wg.StateError, match="ModuleList has no submodule '7'"):
        m.get_submodule("layers.7")
    with pytest.raises(wg.StateError, match="Scale has no parameter 'v'"):
        m.get_parameter("first.v")


def test_super_init_may_be_forgotten():
    class Forgetful(nn.Module):
        def __init__(self):
            self.w = nn.Parameter([1.0])

    assert len(list(Forgetful().parameters())) == 1


def test_attributes_change_their_kind():
    m = nn.Module()
    m.a = nn.Parameter([1.0])
    m.a = Scale()
    assert [n for n, _ in m.named_parameters()] == ["a.w"]
    del m.a
    assert not list(m.modules())[1:]
    assert not hasattr(m, "a")
    m.b = nn.Parameter([1.0])
    m.b = None
    assert list(m.parameters()) == []
    m.b = nn.Parameter([2.0])
    assert len(list(m.parameters())) == 1


def test_assignments_that_would_lose_a_part():
    m = Chain()
    with pytest.raises(wg.DTypeError, match=r"Chain.b is a parameter: Tensor cannot take its place"):
        m.b = wg.tensor([1.0])
    with pytest.raises(wg.DTypeError, match=r"Chain.first is a module: int cannot"):
        m.first = 3
    with pytest.raises(wg.DTypeError, match=r"Chain.count is a buffer: list cannot"):
        m.count = [1]
    m.count = wg.tensor([4])
    assert dict(m.named_buffers())["count"].tolist() == [4]


def test_register_checks_names_and_types():
    m = Chain()
    with pytest.raises(wg.GraphError, match="already has an attribute 'train'"):
        m.register_buffer("train", wg.tensor([1.0]))
    with pytest.raises(wg.GraphError, match="already has an attribute 'b'"):
        m.register_module("b", Scale())
    with pytest.raises(wg.GraphError, match="no name for an attribute"):
        m.register_parameter("a.b", nn.Parameter([1.0]))
    with pytest.raises(wg.DTypeError, match="buffer 'z' is a list"):
        m.register_buffer("z", [1.0])
    with pytest.raises(wg.DTypeError, match="parameter 'z' is a Tensor"):
        m.register_parameter("z", wg.tensor([1.0]))
    with pytest.raises(wg.DTypeError, match="submodule 'z' is a function, not a Module"):
        m.register_module("z", lambda: 0)


def test_shared_parts_are_counted_once():
    m = nn.Module()
    m.a = Scale()
    m.b = m.a
    m.c = Scale()
    m.c.w = m.a.w
    assert [n for n, _ in m.named_parameters()] == ["a.w"]
    assert [n for n, _ in m.named_parameters(remove_duplicate=False)] == ["a.w", "b.w", "c.w"]
    assert list(m.state_dict()) == ["a.w", "b.w", "c.w"]
    assert len(list(m.children())) == 2
    again = copy.deepcopy(m)
    assert again.b is again.a
    assert again.c.w is again.a.w
    assert pickle.loads(pickle.dumps(m)).c.w is not m.c.w


def test_cycles_end():
    a, b = Scale(), Scale()
    a.other = b
    b.other = a
    assert len(list(a.modules())) == 2
    assert [n for n, _ in a.named_parameters()] == ["w", "other.w"]
    assert list(a.state_dict()) == ["w", "other.w"]
    assert "..." in repr(a)
    seen = []
    a.apply(seen.append)
    assert seen == [b, a]
    assert a.eval().other.training is False
    assert len(list(copy.deepcopy(a).parameters())) == 2
    assert len(wg.tree.leaves(a)) == 2
    itself = nn.ModuleList()
    itself.append(itself)
    m = nn.Module()
    m.x = itself
    assert len(list(m.modules())) == 2


def test_a_module_is_collected_without_the_garbage_collector():
    m = Chain()
    m(wg.tensor([1.0]))
    gone = weakref.ref(m)
    gc.disable()
    try:
        del m
        assert gone() is None
    finally:
        gc.enable()


# -- calling


def test_modules_without_forward():
    with pytest.raises(NotImplementedError, match="ModuleList has no forward") as caught:
        nn.ModuleList()(1)
    assert "test_nn.py" in str(caught.value)


def test_nodes_know_their_module_path():
    x = wg.tensor([1.0])

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = Chain()
            self.heads = nn.ModuleDict({"one": nn.Sequential(Scale())})
            self.groups = nn.ModuleList()
            self.groups.append(nn.ModuleList([Scale()]))

        def forward(self, x):
            self.paths = [
                self.encoder(x).node.path,
                self.encoder.first(x).node.path,
                self.heads["one"](x).node.path,
                self.groups[0][0](x).node.path,
            ]
            return x

    m = Outer()
    paths = []
    for layer in m.encoder.layers:
        layer.register_forward_hook(lambda mod, args, out: paths.append(out.node.path))
    m(x)
    assert m.paths == ["encoder", "first", "heads.one.0", "groups.0.0"]
    assert paths == ["encoder.layers.0", "encoder.layers.1"]
    assert (x * m.encoder.b).node.path == ""


def test_a_node_made_by_library_code_is_shown_at_the_users_line():
    model = nn.Sequential(Scale(), nn.Sequential(nn.Identity(), Scale()))
    y = model(wg.tensor([1.0]))
    assert y.node.source.file.endswith("test_nn.py")


def test_the_scope_ends_with_an_error():
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Broken()(1)
    x = wg.tensor([1.0], requires_grad=True)
    assert (x * x).node.scope is None


def test_calls_follow_the_gradient_mode():
    m = Scale()
    x = wg.tensor([1.0])
    for _ in range(2):
        assert m(x).requires_grad
        with wg.no_grad():
            assert not m(x).requires_grad
            with wg.enable_grad():
                assert m(x).requires_grad


def test_one_module_from_several_places():
    m = Scale()
    nodes = [m(wg.tensor([float(i)])).node for i in range(3)] + [m(wg.tensor([1.0])).node]
    assert len({n.scope.offset for n in nodes}) == 2


def test_hooks_whose_handles_nobody_keeps():
    m = nn.ReLU()
    for _ in range(5):
        m.register_forward_hook(lambda mod, args, out: out * 2)
    assert m(wg.ones(1)).tolist() == [32]


def test_hooks():
    m = Scale(2.0)
    seen = []
    pre = m.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
    post = m.register_forward_hook(lambda mod, args, out: seen.append((mod, args[0].tolist(), out.tolist())))
    replace = m.register_forward_hook(lambda mod, args, out: out * 10)
    assert m(wg.tensor([1.0])).tolist() == [40.0]
    assert seen == [(m, [2.0], [4.0])]
    for handle in (pre, post, replace):
        handle.remove()
        handle.remove()
    assert m(wg.tensor([1.0])).tolist() == [2.0]
    assert len(seen) == 1


# -- state


def test_state_dict_has_the_modules_values_under_another_name():
    m = Chain()
    state = m.state_dict()
    kept = {name: value.clone() for name, value in state.items()}
    assert list(state) == ["b", "count", "first.w", "layers.0.w", "layers.1.w"]
    assert not any(v.requires_grad for v in state.values())
    opt = wg.optim.SGD(m.parameters(), lr=1.0)
    m(wg.tensor([1.0])).backward()
    opt.step()
    assert kept["b"].tolist() == [1.0]
    assert state["b"].tolist() == m.b.tolist() == [0.0]
    m.load_state_dict(kept)
    assert state["b"].tolist() == m.b.tolist() == [1.0]
    for value in m.state_dict().values():
        value.copy_(wg.full_like(value, 7))
    assert m.b.tolist() == [7.0]
    assert m.b.requires_grad
    state["b"][0] = 8.0
    state["b"].mul_(2.0)
    assert m.b.tolist() == [16.0]
    again = copy.deepcopy(state)
    state["b"].zero_()
    assert again["b"].tolist() == [16.0]
    assert type(again["b"]) is wg.Tensor
    with pytest.raises(wg.GradientError, match=r"requires_grad_\(\) of .data or of a state dict's entry"):
        state["b"].requires_grad_()
    assert next(iter(m.state_dict(prefix="net."))) == "net.b"


def test_load_takes_arrays_and_keeps_dtype_identity_and_gradients():
    m = Scale()
    w = m.w
    m.load_state_dict({"w": np.float64(7.0)})
    assert m.w is w
    assert w.dtype == wg.float32
    assert w.item() == 7.0
    assert w.requires_grad
    m(wg.tensor(1.0)).backward()
    assert w.grad.item() == 1.0


def test_a_loaded_value_is_not_changed_by_training():
    m, state = Scale(), {"w": wg.tensor(7.0)}
    m.load_state_dict(state)
    m.w.grad = wg.tensor(1.0)
    wg.optim.SGD(m.parameters(), lr=1.0).step()
    assert state["w"].item() == 7.0


def test_load_is_all_or_nothing_and_says_what_is_wrong():
    m = Chain()
    state = m.state_dict()
    state["b"] = wg.tensor([5.0])
    state["first.w"] = wg.tensor([1.0, 2.0])
    del state["layers.1.w"]
    state["extra"] = wg.tensor(0.0)
    with pytest.raises(wg.StateError) as caught:
        m.load_state_dict(state)
    text = str(caught.value)
    assert text.startswith("state dict does not fit Chain (")
    assert "test_nn.py" in text.splitlines()[0]
    assert "missing keys: layers.1.w" in text
    assert "unexpected keys: extra" in text
    assert "misfits: first.w: (2,) in the state dict, () in the module" in text
    assert m.b.tolist() == [1.0]
    with pytest.raises(wg.StateError, match="misfits"):
        m.load_state_dict(state, strict=False)
    del state["first.w"]
    missing, unexpected = m.load_state_dict(state, strict=False)
    assert missing == ["first.w", "layers.1.w"]
    assert unexpected == ["extra"]
    assert m.b.tolist() == [5.0]


def test_load_refuses_what_is_not_a_mapping_or_not_real():
    with pytest.raises(wg.DTypeError, match="a state dict is a mapping"):
        Scale().load_state_dict([1])
    with pytest.raises(wg.StateError, match="w: complex64 in the state dict, float32 in the module"):
        Scale().load_state_dict({"w": 1j})


@pytest.mark.parametrize("through", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_modules_copy(through):
    m = Chain().eval()
    x = wg.tensor([1.0])
    m(x)
    again = through(m)
    assert again(x).tolist() == m(x).tolist()
    assert again.b is not m.b
    assert not again.training
    assert again.layers[0](x).node.path == "layers.0"
    again.b.assign_([0.0])
    assert m.b.tolist() == [1.0]


def test_train_eval_apply_and_freeze():
    m = Chain()
    assert m.eval() is m
    assert not any(s.training for s in m.modules())
    assert m.train() is m
    order = []
    assert m.apply(order.append) is m
    assert order == [m.first, m.layers[0], m.layers[1], m.layers, m]
    m.requires_grad_(False)
    assert not m(wg.tensor([1.0])).requires_grad
    m.requires_grad_()
    assert m(wg.tensor([1.0])).requires_grad


def test_zero_grad():
    m = Scale()
    m(wg.tensor(3.0)).backward()
    m.zero_grad(set_to_none=False)
    assert m.w.grad.item() == 0.0
    m.zero_grad()
    assert m.w.grad is None


def test_dtype_conversion_keeps_identity():
    m = Chain()
    b = m.b
    opt = wg.optim.SGD(m.parameters(), lr=1.0)
    m(wg.tensor([1.0])).backward()
    assert m.double() is m
    assert m.b is b
    assert b.dtype == wg.float64
    assert b.grad.dtype == wg.float64
    assert m.cache.dtype == wg.float64
    assert m.count.dtype == wg.int64
    opt.step()
    assert b.item() == 0.0
    m.zero_grad()
    m(wg.tensor([1.0], dtype=wg.float64)).backward()
    assert b.grad.dtype == wg.float64
    assert m.half().b.dtype == wg.float16
    assert m.float().b.dtype == wg.float32
    assert m.to(wg.float64).to("cpu").b.dtype == wg.float64
    with pytest.raises(wg.DTypeError, match="cannot be of dtype int64"):
        m.to(wg.int64)


# -- modules as pytrees


def test_grad_of_a_module_is_a_module_of_gradients():
    m = Chain()
    x = wg.tensor([1.0])
    g = wg.grad(lambda m: m(x) * m(x))(m)
    assert isinstance(g, Chain)
    expected = wg.autograd.grad(m(x) * m(x), list(m.parameters()))
    assert [n for n, _ in g.named_parameters()] == NAMES
    for a, b in zip(g.parameters(), expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.numpy())
    assert all(p.grad is None for p in m.parameters())
    with wg.no_grad():
        stepped = wg.tree.map(lambda p, d: p - 0.001 * d, m, g)
    assert stepped(x).item() < m(x).item()
    assert m.b.tolist() == [1.0]


def test_value_and_grad_second_order_through_a_module():
    m = Scale(3.0)

    def slope(m):
        return wg.grad(lambda n: n(wg.tensor(1.0)) ** 3)(m).w

    value, g = wg.value_and_grad(slope)(m)
    assert value.item() == 27.0
    assert g.w.item() == 18.0


def test_frozen_parameters_and_buffers_are_not_differentiated():
    m = Chain()
    m.first.w.requires_grad_(False)
    g = wg.grad(lambda m: m(wg.tensor([1.0])))(m)
    assert [n for n, _ in g.named_parameters()] == NAMES  # the frozen one is the module's own
    assert g.first.w is m.first.w
    assert g.count is m.count
    assert len(wg.tree.leaves(m)) == 3


def test_shared_and_listed_parts_stay_shared_in_a_nest():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = Scale(2.0)
            self.b = Scale(3.0)
            self.b.w = self.a.w
            self.order = [self.a, {"b": self.b}]

        def forward(self, x):
            return self.order[1]["b"](self.order[0](x))

    m = Tied()
    g = wg.grad(lambda m: m(wg.tensor(1.0)))(m)
    assert g.a.w.item() == 4.0  # d(w w)/dw
    assert g.b.w is g.a.w


def test_a_list_inside_itself_does_not_hang():
    m = Scale(3.0)
    m.notes = [1]
    m.notes.append(m.notes)
    assert wg.grad(lambda m: m(wg.tensor(2.0)))(m).w.item() == 2.0


def test_a_module_inside_a_nest():
    m = Scale(3.0)
    g = wg.grad(lambda p: p["m"](p["x"]))({"m": m, "x": wg.tensor(2.0)})
    assert g["m"].w.item() == 2.0
    assert g["x"].item() == 3.0


def test_nests_of_unlike_modules_do_not_mix():
    with pytest.raises(wg.GraphError, match="another structure"):
        wg.tree.map(lambda a, b: a, Scale(), Chain())
    a, b = Scale(), Scale()
    assert wg.tree.structure(a) == wg.tree.structure(b)


# -- containers


def test_sequential():
    parts = [Scale(float(i)) for i in range(1, 5)]
    m = nn.Sequential(*parts)
    assert m(wg.tensor(1.0)).item() == 24.0
    assert m[0] is parts[0]
    assert m[-1] is parts[3]
    assert len(m) == 4
    assert list(m) == parts
    middle = m[1:3]
    assert isinstance(middle, nn.Sequential)
    assert list(middle) == parts[1:3]
    assert m[2](wg.tensor(1.0)).node.path == "2"
    m[0] = Scale(10.0)
    assert m(wg.tensor(1.0)).item() == 240.0
    del m[1:3]
    assert list(m.state_dict()) == ["0.w", "1.w"]
    m.append(Scale(0.5)).insert(0, Scale(2.0))
    assert m(wg.tensor(1.0)).item() == 40.0
    assert [n for n, _ in m.named_children()] == ["0", "1", "2", "3"]
    assert m.pop().w.item() == 0.5
    named = nn.Sequential(OrderedDict(scale=Scale(2.0), again=Scale(3.0)))
    assert named(wg.tensor(1.0)).item() == 6.0
    assert named.again.w.item() == 3.0
    assert named[1] is named.again
    assert nn.Sequential()(3) == 3


def test_containers_check_what_they_hold():
    with pytest.raises(wg.DTypeError, match="Sequential holds modules, not list"):
        nn.Sequential([Scale()])
    with pytest.raises(wg.DTypeError, match="not type"):
        nn.Sequential(Scale)
    with pytest.raises(wg.RangeError, match="index 2 of ModuleList with 1 elements"):
        nn.ModuleList([Scale()])[2]
    with pytest.raises(wg.DTypeError, match="ParameterList holds parameters, not Tensor"):
        nn.ParameterList([wg.tensor([1.0])])
    with pytest.raises(wg.StateError, match="has no module 'c'"):
        nn.ModuleDict({"a": Scale()})["c"]


def test_module_dict_and_parameter_list():
    d = nn.ModuleDict({"a": Scale()})
    d["b"] = Scale(5.0)
    assert list(d) == list(d.keys()) == ["a", "b"]
    assert "a" in d
    assert len(d) == 2
    assert [m.w.item() for m in d.values()] == [2.0, 5.0]
    assert d.pop("a").w.item() == 2.0
    assert [n for n, _ in d.named_parameters()] == ["b.w"]
    assert dict(d.items())["b"] is d["b"]
    ps = nn.ParameterList([nn.Parameter([1.0])])
    ps.append(nn.Parameter([2.0]))
    assert [n for n, _ in ps.named_parameters()] == ["0", "1"]
    assert ps[-1].tolist() == [2.0]


def test_repr_is_indented():
    m = nn.Module()
    m.body = nn.Sequential(nn.Identity(), nn.ModuleList([Scale(), Scale(), nn.Identity()]))
    assert repr(m) == "\n".join(
        [
            "Module(",
            "  (body): Sequential(",
            "    (0): Identity()",
            "    (1): ModuleList(",
            "      (0-1): 2 x Scale()",
            "      (2): Identity()",
            "    )",
            "  )",
            ")",
        ]
    )


# -- initialisers


@pytest.mark.parametrize(
    ("fill", "variance"),
    [
        (lambda w: nn.init.xavier_uniform_(w, gain=2.0), 4 * 2 / 500),
        (lambda w: nn.init.xavier_normal_(w), 2 / 500),
        (lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu"), 2 / 300),
        (lambda w: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), 2 / 200),
        (lambda w: nn.init.kaiming_normal_(w, a=1.0), 1 / 300),
        (lambda w: nn.init.uniform_(w, -1.0, 1.0), 1 / 3),
        (lambda w: nn.init.normal_(w, std=0.5), 0.25),
        (lambda w: nn.init.trunc_normal_(w), 0.774),
        (lambda w: nn.init.orthogonal_(w), 1 / 300),
    ],
)
def test_initialisers_have_the_variance_they_promise(fill, variance):
    wg.manual_seed(0)
    w = nn.Parameter(np.zeros((200, 300)))
    assert fill(w) is w
    assert w.is_leaf
    values = w.detach().numpy()
    assert abs(values.mean()) < 6 * math.sqrt(variance / values.size)
    assert values.var() == pytest.approx(variance, rel=0.05)
    wg.manual_seed(0)
    np.testing.assert_array_equal(fill(nn.Parameter(np.zeros((200, 300)))).detach().numpy(), values)


def test_fans_of_a_convolution():
    assert nn.init.fans(wg.tensor(np.zeros((8, 4, 3, 5)))) == (60, 120)
    with pytest.raises(wg.ShapeError, match="no fan-in"):
        nn.init.xavier_uniform_(nn.Parameter([1.0]))
    with pytest.raises(wg.RangeError, match="'fan_in' or 'fan_out'"):
        nn.init.kaiming_normal_(nn.Parameter([[1.0]]), mode="fan")
    with pytest.raises(wg.RangeError, match="no gain is known for 'rely'"):
        nn.init.calculate_gain("rely")


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (4, 4), (5, 2, 3)])
def test_orthogonal(shape):
    q = nn.init.orthogonal_(nn.Parameter(np.zeros(shape)), gain=2.0).detach().numpy().reshape(shape[0], -1)
    product = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_trunc_normal_stays_inside():
    w = nn.init.trunc_normal_(nn.Parameter(np.zeros(5000)), mean=1.0, std=2.0, a=0.0, b=1.5).detach().numpy()
    assert w.min() >= 0
    assert w.max() <= 1.5
    with pytest.raises(wg.RangeError, match="next to nothing"):
        nn.init.trunc_normal_(nn.Parameter([1.0]), a=30.0, b=31.0)


def test_constants():
    assert nn.init.constant_(nn.Parameter([0.0]), 3.0).tolist() == [3.0]
    assert nn.init.ones_(nn.Parameter([[0.0]])).tolist() == [[1.0]]
    assert nn.init.zeros_(nn.Parameter([2.0])).tolist() == [0.0]
    assert nn.init.eye_(nn.Parameter([[0.0, 2.0]])).tolist() == [[1.0, 0.0]]


def test_initialising_does_not_disturb_a_graph():
    w = nn.Parameter([3.0])
    y = w * w
    nn.init.zeros_(w)
    y.backward()
    assert w.grad.tolist() == [6.0]


# -- gradient utilities


def with_gradients(*gradients):
    out = []
    for g in gradients:
        p = nn.Parameter(np.zeros_like(np.asarray(g)))
        p.grad = wg.tensor(np.asarray(g))
        out.append(p)
    return out


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
def test_clip_grad_norm(order):
    grads = [RNG.normal(size=(3, 2)), RNG.normal(size=4)]
    ps = [*with_gradients(*grads), nn.Parameter([1.0])]
    flat = np.concatenate([g.ravel() for g in grads])
    total = nn.clip_grad_norm_(ps, 0.5, norm_type=order)
    expected = np.linalg.norm(flat, ord=order)
    assert total.item() == pytest.approx(expected)
    got = np.concatenate([p.grad.numpy().ravel() for p in ps[:2]])
    np.testing.assert_allclose(got, flat * 0.5 / expected, rtol=1e-5)
    assert nn.clip_grad_norm_(ps, 10.0).item() == pytest.approx(np.linalg.norm(got))
    np.testing.assert_array_equal(ps[1].grad.numpy(), got[6:])


def test_clip_does_not_change_gradients_that_others_hold():
    (p,) = with_gradients([3.0, 4.0])
    held = p.grad
    nn.clip_grad_norm_(p, 1.0)
    nn.clip_grad_value_(p, 0.1)
    assert held.tolist() == [3.0, 4.0]
    np.testing.assert_allclose(p.grad.numpy(), [0.1, 0.1])


def test_clip_shows_what_is_not_finite():
    (p,) = with_gradients([math.nan, 1.0])
    assert math.isnan(nn.clip_grad_norm_(p, 1.0).item())
    assert np.isnan(p.grad.numpy()).all()
    with pytest.raises(wg.GradientError, match="norm of the gradients is nan"):
        nn.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    (q,) = with_gradients([math.nan, 5.0])
    nn.clip_grad_value_(q, 2.0)
    np.testing.assert_array_equal(q.grad.numpy(), [math.nan, 2.0])
    assert nn.clip_grad_norm_([nn.Parameter([1.0])], 1.0).item() == 0.0


def test_large_gradients_do_not_overflow_their_norm():
    (p,) = with_gradients(np.full(4, 1e30, np.float32))
    assert nn.clip_grad_norm_(p, 1.0).item() == pytest.approx(2e30)
    np.testing.assert_allclose(p.grad.numpy(), 0.5, rtol=1e-5)


def test_vectors():
    ps = [nn.Parameter([[1.0, 2.0]]), nn.Parameter(3.0)]
    v = nn.parameters_to_vector(ps)
    assert v.tolist() == [1.0, 2.0, 3.0]
    nn.vector_to_parameters(v * 2, ps)
    assert ps[0].tolist() == [[2.0, 4.0]]
    assert ps[1].item() == 6.0
    with pytest.raises(wg.ShapeError, match="parameters with 3 elements"):
        nn.vector_to_parameters(wg.tensor([1.0]), ps)


@pytest.mark.parametrize("namespace", [wg, wg.torch])
@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "bfloat16"])
def test_norms_of_recorded_and_unrecorded_gradients(namespace: Any, order: float, dtype: str) -> None:
    """What nothing records is computed at once; in a compiled function it is part of the plan."""
    rng = np.random.default_rng(0)
    values = [rng.normal(size=s) for s in [(3, 4), (), (5,), (0, 2)]]
    values = [v + 1j * rng.normal(size=v.shape) for v in values] if dtype == "complex64" else values

    def leaves() -> list[Any]:
        found = [namespace.tensor(v).to(getattr(namespace, dtype)).requires_grad_() for v in values]
        for p in found:
            p.grad = p.detach() * 2
        return found

    for limit in (0.5, 100.0):
        eager, compiled = leaves(), leaves()
        norm = wg.nn.clip_grad_norm_(eager, limit, order)
        inside = wg.jit(lambda compiled=compiled, limit=limit: wg.nn.clip_grad_norm_(compiled, limit, order))()
        bound = 1e-2 if dtype in ("float16", "bfloat16") else 1e-6
        assert norm.dtype == inside.dtype
        np.testing.assert_allclose(float(norm), float(inside), rtol=bound)
        for a, b in zip(eager, compiled, strict=True):
            assert a.grad.dtype == b.grad.dtype == a.dtype
            x, y = (np.asarray(t.grad.to(wg.complex128 if dtype == "complex64" else wg.float64)) for t in (a, b))
            np.testing.assert_allclose(x, y, rtol=bound)
