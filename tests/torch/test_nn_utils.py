"""`wengert.torch.nn.utils` and lazy layers: norms of weights, parametrizations, clipping, fusion, shapes learned."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import wengert.torch as torch
from torch_layers import same
from torch_records import read
from wengert.core.errors import GradientError, GraphError, ShapeError, StateError

nn, utils = torch.nn, torch.nn.utils
parametrize = utils.parametrize
X = np.random.RandomState(0).normal(size=(3, 4))

U = "nn.utils"
P = "nn.utils.parametrizations"
CALLS = [
    *(f"(m := layer({where}.weight_norm(nn.Linear(4, 3), dim={dim})))(N(2, 4)), list(m.state_dict())"
      for where in (U, P) for dim in (0, 1, None)),
    f"layer({U}.weight_norm(nn.Conv2d(2, 3, 2)))(N(1, 2, 3, 3)), layer({P}.weight_norm(nn.Conv1d(2, 3, 2)))(N(2, 3))",
    f"(m := layer({U}.spectral_norm(nn.Linear(4, 3)))).load_state_dict(dict(m.state_dict(), weight_u=N(3).detach(), weight_v=N(4).detach())),"  # noqa: E501
    " m(N(2, 4)), m(N(2, 4)), m.weight_u, m.weight_v, list(m.state_dict())",
    f"(m := layer({P}.spectral_norm(nn.ConvTranspose2d(2, 3, 2), n_power_iterations=2))).load_state_dict(dict(m.state_dict(),"  # noqa: E501
    " **{'parametrizations.weight.0._u': N(3).detach(), 'parametrizations.weight.0._v': N(8).detach()})),"
    " m(N(1, 2, 2, 2)), m.eval()(N(1, 2, 2, 2)), list(m.state_dict())",
    *(f"layer({P}.orthogonal(nn.Linear(4, {n}), orthogonal_map={kind!r}, use_trivialization=False))(N(2, 4))"
      for kind in ("matrix_exp", "cayley", "householder") for n in (3, 4, 6)),
    "(c := layer(nn.Conv2d(2, 3, 2)).eval(), b := layer(nn.BatchNorm2d(3)).eval(), b.running_mean.copy_(N(3).detach()),"
    f" b.running_var.copy_(N(3).detach() ** 2)) and [p.detach() for p in {U}.fuse_conv_bn_eval(c, b).parameters()]",
    "(c := layer(nn.ConvTranspose2d(2, 3, 2, bias=False)).eval(), b := layer(nn.BatchNorm2d(3)).eval(),"
    f" b.running_var.copy_(N(3).detach() ** 2)) and [p.detach() for p in {U}.fuse_conv_bn_eval(c, b, True).parameters()]",  # noqa: E501
    "(c := layer(nn.Linear(2, 3)).eval(), b := layer(nn.BatchNorm1d(3)).eval(),"
    f" b.running_mean.copy_(N(3).detach())) and [p.detach() for p in {U}.fuse_linear_bn_eval(c, b).parameters()]",
    f"{U}.parameters_to_vector([N(2, 3), N(4)]), {U}.get_total_norm([N(2, 3).detach(), N(4).detach()], 3.0)",
    f"{U}.get_total_norm([N(2).detach()], inf), {U}.get_total_norm([])",
]  # fmt: skip
RECORDED = read("nn_utils")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_gradients_are_pytorchs(text: str) -> None:
    same(torch, text, RECORDED[text])


# -- parametrizations


class Symmetric(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x: Any) -> Any:
        return x.triu()


class Twice(nn.Module):
    def forward(self, x: Any) -> Any:
        return 2 * x


def test_a_parametrised_weight() -> None:
    layer = nn.Linear(3, 3)
    original = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert layer.parametrizations.weight.original is original
    assert type(layer).__name__ == "ParametrizedLinear"
    assert isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert (parametrize.is_parametrized(layer, "weight"), parametrize.is_parametrized(layer, "bias")) == (True, False)
    before = layer.weight.detach().numpy()
    parametrize.register_parametrization(layer, "weight", Twice())
    np.testing.assert_allclose(layer.weight.detach().numpy(), 2 * before)
    layer(torch.ones(1, 3)).sum().backward()
    assert not original.grad.tril(-1).numpy().any()
    with pytest.raises(GraphError, match="right_inverse"):
        layer.weight = torch.eye(3)
    twin = copy.deepcopy(layer)
    np.testing.assert_array_equal(twin.weight.detach().numpy(), layer.weight.detach().numpy())
    other = parametrize.transfer_parametrizations_and_params(layer, nn.Linear(3, 3))
    np.testing.assert_array_equal(other.weight.detach().numpy(), layer.weight.detach().numpy())
    assert layer.weight is not layer.weight
    with parametrize.cached():
        assert layer.weight is layer.weight
    last = layer.weight.detach().numpy()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert layer.weight is original
    np.testing.assert_array_equal(layer.weight.detach().numpy(), last)
    parametrize.remove_parametrizations(other, "weight", leave_parametrized=False)
    np.testing.assert_array_equal(other.weight.detach().numpy(), twin.parametrizations.weight.original.detach().numpy())


def test_assigned_values_go_through_the_inverse() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    layer.weight = torch.tensor([[1.0, 2.0], [2.0, 3.0]])
    assert layer.weight.tolist() == [[1.0, 2.0], [2.0, 3.0]]
    assert layer.parametrizations.weight.original.tolist() == [[1.0, 2.0], [0.0, 3.0]]
    layer.bias = nn.Parameter(torch.ones(2))
    assert layer.bias.tolist() == [1.0, 1.0]
    module = nn.Module()
    module.register_buffer("table", torch.eye(2))
    parametrize.register_parametrization(module, "table", Twice())
    assert list(module.state_dict()) == ["parametrizations.table.original"]
    parametrize.remove_parametrizations(module, "table")
    assert [n for n, _ in module.named_buffers()] == ["table"]


def test_orthogonal_weights_stay_so() -> None:
    for sizes in ((4, 4), (3, 5), (5, 3)):
        layer = utils.parametrizations.orthogonal(nn.Linear(*sizes, dtype=torch.float64))
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (layer(torch.ones(2, sizes[0], dtype=torch.float64)) ** 2).sum().backward()
            optimizer.step()
        w = layer.weight if sizes[1] <= sizes[0] else layer.weight.T
        np.testing.assert_allclose((w @ w.T).detach().numpy(), np.eye(min(sizes)), atol=1e-12)
    start = nn.init.orthogonal_(torch.empty(3, 3, dtype=torch.float64))
    layer = utils.parametrizations.orthogonal(nn.Linear(3, 3, dtype=torch.float64))
    layer.weight = start
    np.testing.assert_allclose(layer.weight.detach().numpy(), start.numpy(), atol=1e-12)


def test_removing_norms() -> None:
    for add, remove in (
        (utils.weight_norm, utils.remove_weight_norm),
        (utils.spectral_norm, utils.remove_spectral_norm),
    ):
        layer = add(nn.Linear(4, 3))
        with pytest.raises(GraphError, match="twice"):
            add(layer)
        layer.eval()
        x = torch.ones(1, 4)
        before = layer(x).detach().numpy()
        remove(layer)
        assert sorted(layer.state_dict()) == ["bias", "weight"]
        np.testing.assert_allclose(layer(x).detach().numpy(), before, rtol=1e-5, atol=1e-6)
        with pytest.raises(GraphError):
            remove(layer)
    big = utils.spectral_norm(nn.Linear(30, 20), n_power_iterations=50)
    big(torch.ones(1, 30))
    assert np.linalg.norm(big.weight.detach().numpy(), 2) == pytest.approx(1.0, rel=1e-2)


@pytest.mark.parametrize("where", [utils, utils.parametrizations])
@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
def test_training_with_norms_compiled(where: Any, name: str) -> None:
    x, found = torch.tensor(X), []
    for compile in (False, True):
        torch.manual_seed(0)
        model = getattr(where, name)(nn.Linear(4, 3, dtype=torch.float64))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (model(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compile else step
        found.append([run().item() for _ in range(6)])
        assert model(x).shape == (3, 3)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


# -- gradients and vectors


def test_clipping() -> None:
    def fresh() -> list[Any]:
        held = [torch.tensor([3.0, -4.0], requires_grad=True), torch.tensor([[12.0]], requires_grad=True)]
        sum((p**2).sum() / 2 for p in held).backward()
        return [*held, torch.ones(1, requires_grad=True)]

    for order, norm in ((2.0, 13.0), (math.inf, 12.0), (1.0, 19.0)):
        held = fresh()
        assert utils.clip_grad_norm_(held, norm / 2, order, foreach=True).item() == pytest.approx(norm)
        np.testing.assert_allclose(held[0].grad.numpy(), [1.5, -2.0], rtol=1e-5)
        assert utils.clip_grad_norm_(held, 1e6).item() < norm
        np.testing.assert_allclose(held[1].grad.numpy(), [[6.0]], rtol=1e-5)
    held = fresh()
    total = utils.get_total_norm([p.grad for p in held[:2]])
    utils.clip_grads_with_norm_(held, 6.5, total)
    np.testing.assert_allclose(held[1].grad.numpy(), [[6.0]], rtol=1e-5)
    utils.clip_grad_value_(held, 1.75, foreach=False)
    np.testing.assert_allclose(held[0].grad.numpy(), [1.5, -1.75], rtol=1e-5)
    assert type(utils.clip_grad_norm_([], 1.0)) is torch.Tensor
    with pytest.warns(FutureWarning, match="old name"):
        utils.clip_grad_norm(held, 1.0)
    held[0].grad = torch.tensor([math.inf, 0.0])
    with pytest.raises(GradientError):
        utils.clip_grad_norm_(held, 1.0, error_if_nonfinite=True)
    with pytest.raises(RuntimeError):
        utils.get_total_norm([held[0].grad], error_if_nonfinite=True)


def test_parameters_as_a_vector() -> None:
    layer = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(layer.parameters())
    (vector**2).sum().backward()
    np.testing.assert_allclose(layer.bias.grad.numpy(), 2 * layer.bias.detach().numpy())
    utils.vector_to_parameters(vector * 0 + torch.arange(9.0), layer.parameters())
    assert layer.bias.tolist() == [6.0, 7.0, 8.0]
    with pytest.raises(ShapeError):
        utils.vector_to_parameters(torch.ones(8), layer.parameters())


def test_other_tensors_for_parameters() -> None:
    layer, x = nn.Linear(2, 2, bias=False), torch.ones(1, 2)
    given = {"weight": torch.eye(2) * 3}
    assert utils.stateless.functional_call(layer, given, (x,)).tolist() == [[3.0, 3.0]]
    assert type(utils.skip_init(nn.Linear, 2, 3)) is nn.Linear
    assert utils.convert_conv2d_weight_memory_format(layer, None) is layer


# -- layers that learn their sizes


def network() -> Any:
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))


def test_lazy_layers() -> None:
    model, later, x = network(), network(), torch.randn(2, 3, 6, 6)
    assert repr(model[0]) == "LazyConv2d(0, 4, kernel_size=(3, 3), stride=(1, 1))"
    assert model[0].has_uninitialized_params()
    assert repr(model.state_dict()["4.weight"]) == "<UninitializedParameter>"
    with pytest.raises(ValueError, match="first called"):
        model[4].weight.shape
    out = model(x)
    assert [type(m) for m in model] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.Flatten, nn.Linear]
    assert model[4].in_features == 64
    assert all(p.requires_grad for p in model.parameters())
    out.sum().backward()
    later.load_state_dict(model.state_dict())
    np.testing.assert_allclose(later.eval()(x).detach().numpy(), model.eval()(x).detach().numpy(), rtol=1e-6)
    assert later[1].num_features == 4
    waiting = network()
    waiting.load_state_dict(network().state_dict())
    assert waiting[0].has_uninitialized_params()
    with pytest.raises(ValueError, match="shape"):
        model.load_state_dict(network().state_dict())


@pytest.mark.parametrize("n", [1, 2, 3])
def test_lazy_families(n: int) -> None:
    x = torch.randn(2, 4, *(5,) * n, dtype=torch.float64)
    norm = (1e-3, 0.2, True, True)
    for name, args in (("Conv", (6, 2)), ("ConvTranspose", (6, 2)), ("BatchNorm", norm), ("InstanceNorm", norm)):
        lazy = getattr(nn, f"Lazy{name}{n}d")(*args, dtype=torch.float64)
        plain = getattr(nn, f"{name}{n}d")
        twin = plain(4, *args, dtype=torch.float64)
        lazy(x)
        assert type(lazy) is plain
        twin.load_state_dict(lazy.state_dict())
        np.testing.assert_allclose(twin(x).detach().numpy(), lazy(x).detach().numpy(), rtol=1e-9, atol=1e-12)
    assert nn.LazyLinear(3, bias=False).double()(x).dtype == torch.float64


def test_lazy_refusals() -> None:
    with pytest.raises(ShapeError):
        nn.LazyConv2d(4, 2)(torch.ones(3))
    with pytest.raises(ShapeError):
        nn.LazyConv2d(4, 2, groups=2)(torch.ones(1, 3, 4, 4))

    class Own(nn.LazyLinear):
        def initialize_parameters(self, input: Any) -> None:
            pass

    with pytest.raises(GraphError):
        Own(2)(torch.ones(1, 2))
    buffer = nn.UninitializedBuffer(dtype=torch.float64)
    buffer.materialize((2,))
    assert (type(buffer), buffer.shape, buffer.dtype) == (torch.Tensor, (2,), torch.float64)


def test_refusals() -> None:
    layer = nn.Linear(2, 2)
    for wrong in (
        lambda: parametrize.register_parametrization(layer, "kernel", Twice()),
        lambda: parametrize.remove_parametrizations(layer, "weight"),
        lambda: utils.parametrizations.orthogonal(layer, orthogonal_map="qr"),
        lambda: utils.parametrizations.orthogonal(layer, "kernel"),
        lambda: utils.parametrizations.spectral_norm(layer, "kernel"),
        lambda: utils.parametrizations.spectral_norm(layer, n_power_iterations=0),
        lambda: utils.spectral_norm(layer, n_power_iterations=0),
    ):
        with pytest.raises(GraphError):
            wrong()

    class Longer(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cat([x, x])

    for wrong in (
        lambda: parametrize.register_parametrization(layer, "weight", Longer()),
        lambda: utils.parametrizations.orthogonal(layer, "bias"),
    ):
        with pytest.raises(ShapeError):
            wrong()
    for wrong in (
        lambda: utils.fuse_conv_bn_eval(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)),
        lambda: utils.fuse_conv_bn_eval(nn.Conv2d(1, 2, 1).eval(), nn.BatchNorm2d(2, track_running_stats=False).eval()),
        lambda: utils.fuse_linear_bn_eval(nn.Linear(1, 2).eval(), nn.BatchNorm1d(3).eval()),
    ):
        with pytest.raises(StateError):
            wrong()


# -- parametrised modules


def test_copies_of_a_parametrised_module_have_classes_of_their_own():
    parametrize, weight_norm = torch.nn.utils.parametrize, torch.nn.utils.parametrizations.weight_norm
    model = weight_norm(torch.nn.Linear(2, 2))
    other = copy.deepcopy(model)
    parametrize.remove_parametrizations(other, "weight")
    assert type(other) is torch.nn.Linear
    assert parametrize.is_parametrized(model, "weight")
    assert torch.allclose(model.weight, other.weight)
    with pytest.raises(StateError, match="state_dict"):
        pickle.dumps(model)


def test_what_weight_norm_of_old_has_saved_is_taken():
    old = torch.nn.utils.weight_norm(torch.nn.Linear(4, 5))
    new = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 5))
    new.load_state_dict(old.state_dict())
    assert torch.allclose(new.weight, old.weight)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_orthogonal_starts_at_the_factor_with_a_positive_diagonal(shape):
    x = torch.randn(shape)
    layer = torch.nn.Linear(shape[1], shape[0])
    layer.weight.data.copy_(x)
    orthogonal = torch.nn.utils.parametrizations.orthogonal
    orthogonal(layer, orthogonal_map="householder", use_trivialization=False)
    wide = shape[0] < shape[1]
    q, r = torch.linalg.qr(x.mT if wide else x)
    q = q * r.diagonal().sgn()
    assert torch.allclose(layer.weight, q.mT if wide else q, atol=1e-5)


def test_an_orthogonal_matrix_of_another_shape_is_refused():
    layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 4))
    before = layer.weight.tolist()
    with pytest.raises(ValueError, match="among matrices of shape"):
        layer.weight = torch.randn(5, 5)
    assert layer.weight.tolist() == before


def test_parametrizations_that_give_no_tensor_are_refused():
    class Two(torch.nn.Module):
        def forward(self, x):
            return x, x

    class Wrong(torch.nn.Module):
        def forward(self, x, y):
            return x

        def right_inverse(self, x):
            return None, x

    register = torch.nn.utils.parametrize.register_parametrization
    for made, what in ((Two(), "must return a tensor"), (Wrong(), "Tensor or a Sequence")):
        layer = torch.nn.Linear(2, 2)
        with pytest.raises(TypeError, match=what):
            register(layer, "weight", made)
        assert not torch.nn.utils.parametrize.is_parametrized(layer)
