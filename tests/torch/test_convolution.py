"""Convolutions of `wengert.torch`, their transposes, `unfold` and `fold`: PyTorch's numbers and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_layers import compiled, same
from torch_records import read
from wengert.core.errors import DTypeError, GraphError, RangeError, ShapeError

F, nn = torch.nn.functional, torch.nn


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_gradients_of_convolutions_as_functions(ndim):
    shape, kernel = (2, 4, *(5,) * ndim), (6, 2, *(3,) * ndim)
    x, w = torch.randn(shape, requires_grad=True), torch.randn(kernel, requires_grad=True)
    options = {"stride": 2, "padding": 1, "groups": 2}
    out = getattr(F, f"conv{ndim}d")(x, w, **options)
    out_grad = torch.randn(out.shape)
    wanted = torch.autograd.grad(out, (x, w), out_grad)
    found = (
        getattr(nn.grad, f"conv{ndim}d_input")(shape, w, out_grad, **options),
        getattr(F.grad, f"conv{ndim}d_weight")(x, kernel, out_grad, **options),
    )
    for g, h in zip(found, wanted, strict=True):
        torch.testing.assert_close(g.detach(), h)
        assert g.requires_grad


CALLS = [
    "F.conv1d(N(2, 4, 7), N(6, 2, 3), N(6), 2, 1, 2, 2), F.conv1d(N(4, 7), weight=N(3, 4, 2), padding='same')",
    "F.conv2d(N(2, 2, 5, 6), N(3, 2, 3, 2), None, (1, 2), (2, 1)), F.conv2d(N(2, 5, 5), N(4, 1, 2, 2), groups=2)",
    "F.conv2d(N(1, 1, 5, 5), N(1, 1, 3, 3), padding='valid'), F.conv2d(I(9, 1, 1, 3, 3), I(9, 2, 1, 2, 2), I(9, 2))",
    "F.conv3d(N(1, 2, 4, 4, 3), N(3, 2, 2, 3, 2), N(3), padding=1, stride=2), F.conv_tbc(N(5, 2, 3), N(2, 3, 4), N(4), 1)",  # noqa: E501
    "F.conv2d(torch.complex(N(1, 1, 3, 3), N(1, 1, 3, 3)), torch.complex(N(1, 1, 2, 2), N(1, 1, 2, 2)))",
    "F.conv_transpose1d(N(2, 4, 3), N(4, 2, 3), N(4), 2, 1, 1, 2), F.conv_transpose1d(N(4, 3), N(4, 2, 3), dilation=2)",
    "F.conv_transpose2d(N(1, 2, 3, 4), N(2, 3, 3, 2), N(3), (2, 3), (1, 0), (1, 2))",
    "F.conv_transpose2d(N(1, 2, 3, 3), N(2, 2, 2, 2), stride=1, output_padding=1, dilation=3, padding=2, groups=2)",
    "F.conv_transpose3d(N(1, 2, 3, 2, 3), N(2, 1, 2, 2, 2), N(1), 2, 1, (1, 0, 1))",
    "F.unfold(N(2, 2, 5, 6), (2, 3), dilation=(2, 1), padding=1, stride=2), F.unfold(N(2, 4, 4), 2)",
    "F.fold(N(2, 8, 12), (4, 5), 2), F.fold(N(1, 9, 9), 5, 3, padding=1, stride=2), F.fold(N(4, 4), 4, 2, stride=2)",
    "F.unfold(B(1, 1, 3, 3), 2, 1, 1), F.unfold(N(1, 3, 3), (1, 2), padding=(0, 2))",
    "(m := layer(nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2)))(N(2, 4, 9)), repr(m), list(m.state_dict())",  # noqa: E501
    "(m := layer(nn.Conv2d(2, 3, 3, padding='same', padding_mode='reflect')))(N(1, 2, 5, 4)), repr(m)",
    "(m := layer(nn.Conv2d(2, 3, (3, 2), padding=(2, 1), padding_mode='circular', bias=False)))(N(2, 4, 4)), repr(m)",
    "(m := layer(nn.Conv3d(1, 2, 2, padding=1, padding_mode='replicate')))(N(1, 1, 2, 3, 2)), repr(m)",
    "layer(nn.Conv1d(1, 2, 4, padding='same', padding_mode='zeros'))(N(1, 5)), layer(nn.Conv1d(1, 1, 2, padding='valid'))(N(1, 3))",  # noqa: E501
    "layer(nn.Conv1d(1, 2, 4, padding='same', padding_mode='circular'))(N(1, 5)), repr(nn.Conv1d(1, 2, 4, padding='same'))",  # noqa: E501
    "(m := layer(nn.ConvTranspose1d(2, 2, 3, 2)))(N(1, 2, 3)), m(N(1, 2, 3), output_size=[8]), repr(m)",
    "(m := layer(nn.ConvTranspose2d(2, 4, 3, 2, 1, 1, 2, False, 2)))(N(1, 2, 3, 2)), repr(m)",
    "layer(nn.ConvTranspose2d(1, 1, 3, 3, 1))(N(1, 1, 2, 3), output_size=(1, 1, 6, 7)), layer(nn.ConvTranspose3d(1, 2, 2))(N(1, 2, 1, 2))",  # noqa: E501
    "nn.Unfold(2, stride=2)(N(1, 2, 4, 4)), nn.Fold((4, 4), 2, stride=2)(N(1, 8, 4)), repr(nn.Unfold(2)), repr(nn.Fold(4, 2))",  # noqa: E501
]
RECORDED = read("convolution")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_gradients_are_pytorchs(text: str) -> None:
    same(torch, text, RECORDED[text])


@pytest.mark.parametrize("text", [t for t in CALLS[::2] if "layer(" not in t])
def test_compiled_calls_give_the_same(text: str) -> None:
    compiled(wg, torch, text, RECORDED[text])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.conv2d(x, x[:, :, :2, :2], padding=1),
        lambda x: F.conv_transpose2d(x, x[:, :, :2, :2].reshape(2, 1, 2, 2), stride=2, output_padding=1),
        lambda x: F.fold(F.unfold(x, 2) ** 2, (3, 4), 2),
    ],
)
def test_second_derivatives_and_batches(fn: Any) -> None:
    x = torch.tensor(np.random.RandomState(3).normal(size=(1, 2, 3, 4)))
    wg.check_grads(fn, x, order=2)
    batch = torch.tensor(np.random.RandomState(1).normal(size=(3, 1, 2, 3, 4)))
    np.testing.assert_allclose(wg.vmap(fn)(batch).numpy(), torch.stack([fn(b) for b in batch]).numpy(), rtol=1e-9)


def test_a_transpose_is_one() -> None:
    random = np.random.RandomState(0)
    w = torch.tensor(random.normal(size=(4, 2, 3, 2, 2)))
    x, y = (torch.tensor(random.normal(size=s)) for s in ((1, 4, 5, 6, 7), (1, 4, 3, 3, 4)))
    options = {"stride": 2, "padding": (1, 0, 1), "groups": 2}
    down = F.conv3d(x, w, **options)
    assert down.shape == y.shape
    up = F.conv_transpose3d(y, w, output_padding=(0, 0, 1), **options)
    np.testing.assert_allclose((down * y).sum().item(), (x * up).sum().item(), rtol=1e-12)


def test_initial_values() -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 64, 3, groups=2)
    bound = 1 / np.sqrt(2 * 9)
    for p in (layer.weight, layer.bias):
        assert 0.9 * bound < p.abs().max().item() <= bound
    assert nn.Conv2d(1, 1, 1, dtype=torch.float64).weight.dtype == torch.float64


def test_layers_of_wengert_become_ours() -> None:
    inner = wg.nn.Conv2d(1, 2, 3)
    x = torch.randn(1, 1, 4, 4)
    before = inner(x).detach().numpy()
    model = nn.Sequential(inner, wg.nn.ConvTranspose2d(2, 1, 2), wg.nn.MaxPool2d(2))
    assert type(model[0]) is nn.Conv2d
    np.testing.assert_array_equal(model[0](x).detach().numpy(), before)
    assert model(x).shape == (1, 1, 1, 1)
    assert repr(model[1]) == "ConvTranspose2d(2, 1, kernel_size=(2, 2), stride=(1, 1))"


def test_refusals() -> None:
    x, w = torch.ones(1, 2, 4, 4), torch.ones(2, 2, 3, 3)
    for wrong in (
        lambda: F.conv2d(x, torch.ones(2, 3, 3, 3)),
        lambda: F.conv2d(x, torch.ones(2, 2, 5, 5)),
        lambda: F.conv2d(x, w, padding="same", stride=2),
        lambda: F.conv_transpose2d(x, w, output_padding=1),
        lambda: F.conv_transpose2d(x, w, padding=9),
        lambda: F.conv_transpose2d(x[0, 0], w),
        lambda: F.unfold(x, 5),
        lambda: F.unfold(x[0, 0], 2),
        lambda: F.fold(torch.ones(1, 3, 4), 3, 2),
        lambda: nn.Conv2d(3, 4, 2, groups=2),
        lambda: nn.ConvTranspose2d(2, 1, 2, 2)(x, output_size=(20, 20)),
    ):
        with pytest.raises((ShapeError, RangeError)):
            wrong()
    for wrong in (lambda: F.conv2d(x, w.double()), lambda: F.conv_transpose2d(x.double(), w)):
        with pytest.raises(DTypeError):
            wrong()
    for wrong in (
        lambda: nn.Conv2d(1, 1, 2, padding_mode="wrap"),
        lambda: nn.Conv2d(1, 1, 2, padding="full"),
        lambda: nn.Conv2d(1, 1, 2, 2, padding="same"),
        lambda: nn.ConvTranspose2d(1, 1, 2, padding_mode="reflect"),
    ):
        with pytest.raises(GraphError):
            wrong()
