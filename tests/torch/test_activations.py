"""Nonlinearities of `wengert.torch`: PyTorch's numbers on its own samples, in place, by chance, and every crossing."""

from __future__ import annotations

import math

import numpy as np
import pytest

import torch_records as records
import wengert as wg
import wengert.torch as torch
from wengert.core.errors import GradientError, RangeError, ShapeError

F = torch.nn.functional
RECORDED = records.read("activations")


@pytest.mark.parametrize("label", RECORDED)
def test_activations_are_pytorchs(label: str) -> None:
    records.replay(torch, label, *RECORDED[label])


IN_PLACE = (
    "relu",
    "elu",
    "celu",
    "selu",
    "silu",
    "mish",
    "hardswish",
    "hardsigmoid",
    "relu6",
    "leaky_relu",
    "hardtanh",
)


@pytest.mark.parametrize("name", [*IN_PLACE, "rrelu"])
def test_in_place(name: str) -> None:
    x = torch.tensor([-2.0, 0.5, 7.0])
    wanted = getattr(F, name)(x)
    other = x
    assert getattr(F, name)(x, inplace=True) is x
    np.testing.assert_array_equal(other.numpy(), wanted.numpy())
    with pytest.raises(GradientError):
        getattr(F, name)(torch.ones(2, requires_grad=True), inplace=True)
    leaf = torch.tensor([-1.0, 2.0], requires_grad=True)
    getattr(F, name)(leaf * 2, inplace=True).sum().backward()
    np.testing.assert_array_equal(
        leaf.grad.numpy(), wg.grad(lambda v: getattr(F, name)(v * 2).sum())(leaf.detach()).numpy()
    )


def test_names_with_an_underscore() -> None:
    for name in ("relu", "elu", "celu", "selu", "leaky_relu", "hardtanh", "rrelu"):
        x = torch.tensor([-2.0, 3.0])
        assert getattr(F, f"{name}_")(x) is x
    x = torch.tensor([-2.0, 3.0])
    F.threshold_(x, 0.0, 9.0)
    assert x.tolist() == [9.0, 3.0]
    module = torch.nn.ReLU(inplace=True)
    assert module(x) is x
    assert torch.nn.ReLU()(x) is not x


def test_softmax_along_an_axis_left_out() -> None:
    for shape, axis in (((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((2, 3, 4, 5), 1)):
        x = torch.tensor(np.random.RandomState(0).normal(size=shape))
        for fn in (F.softmax, F.log_softmax, F.softmin):
            with pytest.warns(UserWarning, match="Implicit dimension"):
                found = fn(x)
            np.testing.assert_array_equal(found.numpy(), fn(x, dim=axis).numpy())
    assert F.softmax(torch.tensor(3.0), dim=-1).item() == 1.0
    with pytest.raises(ShapeError):
        F.softmax(torch.ones(2), dim=1)


def test_gumbel_softmax_follows_the_logits() -> None:
    torch.manual_seed(0)
    logits = torch.log(torch.tensor([0.1, 0.2, 0.7])).repeat(4000, 1)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True)
    assert hard.sum(dim=1).numpy().tolist() == [1.0] * 4000
    np.testing.assert_allclose(hard.mean(dim=0).numpy(), [0.1, 0.2, 0.7], atol=0.03)
    x = torch.tensor([[0.3, -0.2], [0.1, 0.9]], requires_grad=True)
    F.gumbel_softmax(x, hard=True, dim=0)[0].sum().backward()
    assert x.grad.abs().sum().item() > 0
    np.testing.assert_allclose(x.grad.sum(dim=0).numpy(), 0.0, atol=1e-6)


def test_rrelu_draws_slopes() -> None:
    torch.manual_seed(0)
    x = -torch.ones(2000)
    drawn = F.rrelu(x, 0.1, 0.5, training=True)
    assert -0.5 <= drawn.min().item() < -0.45
    assert -0.15 < drawn.max().item() <= -0.1
    module = torch.nn.RReLU(0.1, 0.5)
    assert module.eval()(x)[0].item() == pytest.approx(-0.3)
    with pytest.raises(RangeError):
        F.rrelu(x, 0.5, 0.1)


def test_integers_nan_and_nothing() -> None:
    assert F.hardtanh(torch.tensor([-3, 0, 5]), -1, 1).tolist() == [-1, 0, 1]
    assert F.relu6(torch.tensor([9, -1])).dtype == torch.int64
    nan = torch.tensor([math.nan])
    for fn in (F.relu, F.hardshrink, F.softshrink, F.softsign, F.tanhshrink, lambda v: F.threshold(v, 0.0, 1.0)):
        assert math.isnan(fn(nan).item())
        assert fn(torch.zeros(0, 2)).shape == (0, 2)
    with pytest.raises(RangeError):
        F.softshrink(nan, -1.0)
    with pytest.raises(ShapeError):
        F.glu(torch.tensor(1.0))


SMOOTH = {
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, -0.4),
    "tanhshrink": F.tanhshrink,
    "softmax": lambda x: F.softmax(x, dim=0),
    "softmin": lambda x: F.softmin(x, dim=-1),
    "hardtanh": F.hardtanh,
    "rrelu": F.rrelu,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_compiled_calls_and_batches(name: str) -> None:
    fn = SMOOTH[name]
    x = torch.tensor([-1.3, -0.2, 0.4, 0.9])
    wg.check_grads(fn, x.double())
    eager, compiled = fn(x), wg.jit(fn)
    assert type(eager) is torch.Tensor
    for _ in range(6):
        np.testing.assert_allclose(compiled(x).numpy(), eager.numpy(), rtol=1e-6)
    rows = torch.stack([x, 2 * x])
    np.testing.assert_allclose(wg.vmap(fn)(rows)[1].numpy(), fn(2 * x).numpy(), rtol=1e-6)
