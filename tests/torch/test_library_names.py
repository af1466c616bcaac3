"""Names that libraries ask PyTorch for, and what they do with tensors and modules."""

import importlib
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import wengert.torch as torch
from wengert.core.errors import GraphError
from wengert.torch import nn


def space_of(path):
    return importlib.import_module(f"wengert.torch.{path}")


def test_sobol_points():
    engine = torch.quasirandom.SobolEngine(3)
    assert engine.draw(4).tolist() == [[0.0] * 3, [0.5] * 3, [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    assert engine.draw(1).tolist() == engine.reset().fast_forward(4).draw(1).tolist()
    assert engine.reset().draw_base2(2).shape == (4, 3)
    one, same = (torch.quasirandom.SobolEngine(2, scramble=True, seed=3).draw(8) for _ in range(2))
    assert torch.equal(one, same)
    assert 0 <= one.min() < one.max() < 1
    with pytest.raises(ValueError, match="dimensionality"):
        torch.quasirandom.SobolEngine(0)


def test_trees_are_taken_apart_by_their_types():
    tree, Point = space_of("utils._pytree"), namedtuple("Point", "x y")
    whole = {"a": [1, (2, None)], "b": OrderedDict(c=Point(3, 4))}
    leaves, spec = tree.tree_flatten(whole)
    assert leaves == [1, 2, None, 3, 4]
    assert (spec.type, spec.context, spec.num_leaves, spec.num_children) == (dict, ["a", "b"], 5, 2)
    assert tree.tree_unflatten(leaves, spec) == whole
    assert tree.tree_map_only(int, lambda n: n + 1, whole)["b"]["c"] == Point(4, 5)
    assert tree.TreeSpec(list, None, [tree.LeafSpec(), tree.LeafSpec()]) == tree.tree_structure([1, 2])
    assert tree._get_node_type(Point(1, 2)) in tree.SUPPORTED_NODES

    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    assert tree.tree_leaves(Pair(1, 2))[0].a == 1
    tree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    assert tree.tree_map(lambda n: -n, Pair(1, 2)).b == -2


def test_groups_of_tensors():
    group = space_of("utils._foreach_utils")._group_tensors_by_device_and_dtype
    a, b, c = torch.ones(1), torch.ones(2).double(), torch.ones(3)
    found = group([[a, b, c], [1, 2, 3], []], with_indices=True)
    assert {key[1]: value for key, value in found.items()} == {
        torch.float32: ([[a, c], [1, 3], []], [0, 2]),
        torch.float64: ([[b], [2], []], [1]),
    }


def test_operators_declared_by_schemas():
    library = torch.library.Library("declared", "DEF")
    library.define("half(Tensor x) -> Tensor")
    with pytest.raises(GraphError, match="not there"):
        torch.ops.declared.half(torch.ones(1))
    library.impl("half", lambda x: torch.from_numpy(x.numpy() / 2), "CPU")
    library.impl("half", lambda x: torch.empty_like(x), "Meta")
    torch.library.register_autograd("declared::half", lambda ctx, g: g / 2)
    x = torch.ones(2, requires_grad=True)
    torch.compile(torch.ops.declared.half.default, fullgraph=True)(x * 3).sum().backward()
    assert x.grad.tolist() == [1.5, 1.5]
    torch.library.define("declared::twice", "(Tensor x) -> Tensor")
    torch.library.impl("declared::twice", "default")(lambda x: x * 2)
    assert torch.ops.declared.twice(torch.ones(1)).item() == 2.0
    assert torch.ops.aten.add is torch.ops.aten.add.Tensor
    with pytest.raises(OSError, match="not loaded"):
        torch.ops.load_library("/somewhere/_C.so")


def test_boxes_that_overlap():
    space_of("_ops.torchvision")
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 10]])
    assert torch.ops.torchvision.nms(boxes, torch.tensor([0.5, 0.9, 0.3, 0.5]), 0.5).tolist() == [1, 2]
    assert torch.ops.torchvision.nms(boxes, torch.tensor([0.5, 0.9, 0.3, 0.5]), 0.7).tolist() == [1, 0, 2]
    assert torch.ops.torchvision.nms(boxes[:0], torch.zeros(0), 0.5).tolist() == []


def test_checks_and_sizes():
    torch._check(True, lambda: "never")
    with pytest.raises(RuntimeError, match="why"):
        torch._check(False, lambda: "why")
    with pytest.raises(IndexError):
        torch._check_index(False)
    assert (torch.sym_max(2, 3), torch.sym_int(2.5), torch.sym_not(True), torch.sym_ite(False, 1, 2)) == (
        3,
        2,
        False,
        2,
    )


def test_files_of_weights_are_found_where_they_lie(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    with pytest.raises(GraphError, match="nothing is downloaded"):
        torch.hub.load_state_dict_from_url("https://models.example/a-0123abcd.pth")
    folder.mkdir(parents=True)
    torch.save({"w": torch.ones(2)}, folder / "a-0123abcd.pth")
    assert torch.hub.load_state_dict_from_url("https://models.example/a-0123abcd.pth")["w"].tolist() == [1.0, 1.0]


def test_storages_of_files(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(np.arange(4, dtype=np.float32).tobytes())
    storage = torch.UntypedStorage.from_file(str(path), False, 16)
    part = torch.asarray(storage[4:12], dtype=torch.uint8).view(dtype=torch.float32)
    assert part.tolist() == [1.0, 2.0]
    part[0] = 7.0
    assert np.frombuffer(path.read_bytes(), np.float32)[1] == 1.0
    assert type(storage[4:12]) is torch.UntypedStorage


def test_addresses_stay_while_nothing_is_written():
    w = nn.Parameter(torch.ones(4, 3))
    first = w.data_ptr()
    kept = (w * 2).sum()
    copy = w.detach().clone()
    assert w.data_ptr() == w.untyped_storage().data_ptr() == w.detach().data_ptr() == first
    assert w.view(-1)[-1].data_ptr() == first + 11 * 4
    assert copy.data_ptr() != first
    kept.backward()
    assert w.data_ptr() == first


def test_arrays_where_nothing_is_recorded():
    w = nn.Parameter(torch.ones(2))
    with torch.no_grad():
        assert w.numpy().tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="requires gradients"):
        w.numpy()


class Adjoint(torch.autograd.Function):
    """A function whose backward differentiates in what it saved, as adjoint solvers do."""

    @staticmethod
    def forward(ctx, f, x, *params):
        ctx.f = f
        out = f(x)
        ctx.save_for_backward(x, out, *params)
        return out

    @staticmethod
    def backward(ctx, g):
        x, out, *params = ctx.saved_tensors
        assert out.requires_grad
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return None, *torch.autograd.grad(ctx.f(x), (x, *params), g)


def test_saved_arguments_are_the_parameters_themselves():
    layer = nn.Linear(3, 2)
    x = torch.randn(4, 3, requires_grad=True)
    Adjoint.apply(layer, x, *layer.parameters()).square().sum().backward()
    found = [x.grad, *(p.grad for p in layer.parameters())]
    expected = torch.autograd.grad(layer(x).square().sum(), (x, *layer.parameters()))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


class Marked(torch.Tensor):
    """A class of tensors of a program's own, as libraries write them."""

    def __new__(cls, data, mark):
        made = torch.Tensor._make_subclass(cls, data, data.requires_grad)
        made.mark = mark
        return made


def test_subclasses_of_tensors():
    x = torch.ones(2)
    made = Marked(x, mark=3)
    assert (type(made), made.mark, made.tolist()) == (Marked, 3, [1.0, 1.0])
    made[0] = 5.0
    assert x.tolist() == [5.0, 1.0]
    assert type(made * 2) is torch.Tensor
    assert type(x.as_subclass(Marked)) is Marked
    w = torch.ones(2, requires_grad=True)
    (w * 3).as_subclass(Marked).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="mark"):
        torch.Tensor(2, mark=1)


def test_attributes_that_libraries_give_tensors():
    x, y = torch.ones(1), torch.ones(1)
    x.unconstrained = lambda: y
    assert x.unconstrained() is y
    assert not hasattr(y, "unconstrained")
    assert not hasattr(x + 1, "unconstrained")
    del x.unconstrained
    assert not hasattr(x, "unconstrained")


class Early(nn.Module):
    def __new__(cls, *args):
        made = super().__new__(cls)
        made.word = "early"
        return made

    @property
    def k(self):
        return self.raw * 2

    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.ones(1))


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter("k", nn.Parameter(torch.ones(1)))
        self.given = self._parameters.pop("k")

    @property
    def k(self):
        return self.given * 2


class Ready(nn.ModuleDict):
    def __init__(self, modules=None):
        super().__init__()
        self.ready = True
        self.update(modules or {})

    def update(self, modules):
        assert self.ready
        super().update(modules)


def test_modules_as_libraries_treat_them():
    assert (Early().word, Early().k.item()) == ("early", 2.0)
    assert Mixed().k.item() == 2.0
    assert Ready({"a": nn.ReLU()}).ready
    held = nn.ModuleDict({"a": nn.ReLU()})
    held.update(nn.ModuleDict({"b": nn.Tanh()}))
    assert list(held) == ["a", "b"]
    layer = nn.Linear(2, 1)
    assert layer.__getattr__("weight") is layer.weight
    object.__setattr__(layer, "_parameters", OrderedDict(other=nn.Parameter(torch.ones(1))))
    assert list(layer.state_dict()) == ["other"]
    assert not isinstance(layer, torch.jit.ScriptModule)


def test_a_log_normal_of_its_base():
    d = torch.distributions

    class Derived(d.LogNormal):
        def __init__(self, loc, scale):
            super(d.LogNormal, self).__init__(d.Normal(loc, scale), d.ExpTransform())

    x = torch.tensor(2.0)
    assert Derived(0.5, 2.0).log_prob(x) == d.LogNormal(0.5, 2.0).log_prob(x)


def test_a_normal_of_a_root_that_a_subclass_has():
    d = torch.distributions

    class Derived(d.MultivariateNormal):
        def __init__(self, loc, root):
            self.loc, self._root = loc, root
            d.Distribution.__init__(self, (), loc.shape)

        @property
        def _unbroadcasted_scale_tril(self):
            return self._root

    loc, root = torch.ones(2), torch.tensor([[1.0, 0.0], [0.5, 2.0]])
    expected = d.MultivariateNormal(loc, scale_tril=root).log_prob(torch.zeros(2))
    torch.testing.assert_close(Derived(loc, root).log_prob(torch.zeros(2)), expected)


def test_settings_of_the_compiler_are_taken():
    dynamo = space_of("_dynamo")
    with dynamo.config.patch(cache_size_limit=3):
        assert dynamo.config.cache_size_limit == 3
    assert dynamo.config.cache_size_limit == 8
    assert isinstance(torch.compile(nn.Linear(1, 1)), dynamo.OptimizedModule)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_kernels_of_several_operations_round_once(dtype):
    torch.manual_seed(0)
    x, y, z = (torch.randn(200).to(dtype) for _ in range(3))
    a, b, c, rounded = x.float(), y.float(), z.float(), torch.tensor(0.3).to(dtype).item()
    for found, exact in (
        (torch.add(x, y, alpha=0.3), a + rounded * b),
        (torch.sub(x, y, alpha=0.3), a - rounded * b),
        (torch.rsub(x, y, alpha=0.3), b - rounded * a),
        (x.clone().add_(y, alpha=0.3), a + rounded * b),
        (x.lerp(y, 0.3), a + 0.3 * (b - a)),
        (x.lerp(y, 0.7), b - (b - a) * (1 - 0.7)),
        (x.clone().lerp_(y, 0.3), a + 0.3 * (b - a)),
        (x.addcmul(y, z, value=0.3), a + 0.3 * (b * c)),
        (x.addcdiv(y, z, value=0.3), a + 0.3 * (b / c)),
    ):
        assert found.dtype == dtype
        assert (found != exact.to(dtype)).sum() <= 2  # where the order of float32's operations counts


def test_modules_that_are_asked():
    assert "NumPy" in space_of("__config__").show()
    assert (torch.mps.device_count(), torch.xpu.is_available(), space_of("mtia").is_available()) == (0, False, False)
    overrides = space_of("overrides")
    assert not overrides.has_torch_function((torch.ones(1),))
    assert overrides.is_tensor_like(torch.ones(1))
    assert space_of("utils.flop_counter").FlopCounterMode(display=False).get_total_flops() == 0
    assert not space_of("utils._python_dispatch").is_traceable_wrapper_subclass(torch.ones(1))
    greatest, least = (lambda x, flag=None: max(x)), (lambda x, flag=None: min(x))
    chosen = space_of("_jit_internal").boolean_dispatch("flag", 1, False, greatest, least, "m", "chosen")
    assert (chosen([1, 2]), chosen([1, 2], True), chosen([1, 2], flag=True)) == (1, 2, 2)
    tensor = space_of("distributed.tensor")
    assert tensor.Shard(1).is_shard(1)
    assert tensor.Replicate() == tensor.Replicate()
    assert space_of("distributed.constants").default_pg_timeout.seconds == 1800
    assert space_of("torch_version").TorchVersion("2.1") < "2.10"
    assert torch.utils.dlpack.from_dlpack(torch.ones(2)).tolist() == [1.0, 1.0]
