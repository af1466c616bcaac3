"""The order of axes in memory: results, gradients and modules have PyTorch's memory format."""

import copy

import numpy as np
import pytest

import wengert.torch as torch

F = torch.nn.functional
LAST = torch.arange(120.0).reshape(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
TURNED = torch.arange(6.0).reshape(2, 3).t()
ROWS = torch.ones(2, 3, 1, 1)
LIE = {  # the strides that PyTorch 2.13 gives
    "cat": (lambda: torch.cat([LAST, LAST], 1), (120, 1, 30, 6)),
    "cat of two orders": (lambda: torch.cat([LAST, LAST.contiguous()], 1), (120, 20, 5, 1)),
    "cat, turned": (lambda: torch.cat([TURNED, TURNED]), (2, 1)),
    "roll": (lambda: torch.roll(LAST, 1, 2), (60, 1, 15, 3)),
    "roll of all": (lambda: torch.roll(LAST, 1), (60, 20, 5, 1)),
    "pad": (lambda: F.pad(LAST, (1, 1, 1, 1)), (126, 1, 21, 3)),
    "a padding layer": (lambda: torch.nn.ZeroPad2d(1)(LAST), (126, 1, 21, 3)),
    "pad, circular": (lambda: F.pad(LAST, (1, 1, 1, 1), "circular"), (126, 42, 7, 1)),
    "batch_norm": (lambda: F.batch_norm(LAST, None, None, training=True), (60, 1, 15, 3)),
    "group_norm": (lambda: F.group_norm(LAST, 1), (60, 1, 15, 3)),
    "GroupNorm": (lambda: torch.nn.GroupNorm(3, 3)(LAST), (60, 1, 15, 3)),
    "layer_norm": (lambda: F.layer_norm(TURNED, (2,)), (2, 1)),
    "conv2d": (lambda: F.conv2d(LAST, ROWS), (40, 1, 10, 2)),
    "conv2d by its weights": (
        lambda: F.conv2d(LAST.contiguous(), torch.ones(4, 3, 2, 2).to(memory_format=torch.channels_last)),
        (48, 1, 16, 4),
    ),
    "conv_transpose2d": (lambda: F.conv_transpose2d(LAST, torch.ones(3, 2, 1, 1)), (40, 1, 10, 2)),
    "adaptive_avg_pool2d": (lambda: F.adaptive_avg_pool2d(LAST, 2), (12, 1, 6, 3)),
    "interpolate": (lambda: F.interpolate(LAST, scale_factor=2), (240, 1, 30, 3)),
    "pixel_unshuffle": (lambda: F.pixel_unshuffle(LAST[..., :4], 2), (48, 1, 24, 12)),
    "tensor of an array": (lambda: torch.tensor(np.asfortranarray(np.ones((2, 3)))), (1, 2)),
    "deepcopy": (lambda: copy.deepcopy(TURNED), (1, 3)),
}


@pytest.mark.parametrize("name", LIE)
def test_results_lie_in_memory_as_in_pytorch(name):
    call, wanted = LIE[name]
    out = call()
    assert out.stride() == wanted
    out.reshape(-1)[0] = 77.0  # shares the memory only where the elements lie one after the other
    assert bool(out.flatten()[0] == 77.0) == out.is_contiguous()


GRADIENTS = {
    "turned": lambda x: x.t() @ torch.ones(2, 2),
    "multiplied": lambda x: x.t() * torch.ones(3, 2),
    "sum": lambda x: x,
    "twice": lambda x: (x.t() @ torch.ones(2, 2)).sum() + (x * x).sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_lies_in_memory_as_its_tensor(name):
    x = torch.ones(2, 3, requires_grad=True)
    for _ in range(2):  # the second pass adds to the first one's
        GRADIENTS[name](x).sum().backward()
        x.grad.reshape(-1).fill_(5.0)
        assert x.grad.tolist() == [[5.0] * 3] * 2
    y = LAST.detach().clone().requires_grad_()
    F.conv2d(y, ROWS).sum().backward()
    assert y.grad.is_contiguous(memory_format=torch.channels_last)


def test_a_module_takes_a_memory_format():
    conv = torch.nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)
    assert conv.weight.stride() == (12, 1, 6, 3)
    out = conv(torch.ones(1, 3, 4, 4))
    assert out.stride() == (36, 1, 12, 4)
    out.sum().backward()
    assert conv.weight.grad.stride() == (12, 1, 6, 3)
    assert conv.to(torch.contiguous_format).weight.stride() == (12, 4, 2, 1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 2), torch.nn.Linear(3, 2))
    torch.nn.utils.convert_conv2d_weight_memory_format(model, torch.channels_last)
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(TypeError, match="no parameter foo"):
        conv.to(foo=1)


PICKS = {
    "[i]": lambda x, i, m: x[i],
    "[:, i]": lambda x, i, m: x[:, i],
    "[:, m]": lambda x, i, m: x[:, m],
    "[..., i]": lambda x, i, m: x[..., i % 2],
    "[i, i]": lambda x, i, m: x[i % 2, i],
    "[:, i, i]": lambda x, i, m: x[:, i, i % 2],
    "[i, :, i]": lambda x, i, m: x[i % 2, :, i % 2],
    "[:, ii]": lambda x, i, m: x[:, i.reshape(3, 1) * 0 + i],
    "[1:, i]": lambda x, i, m: x[1:, i],
}
# Of a tensor whose axes lie so, the strides that PyTorch gives the result.
PICKED = {
    (0, 1, 2, 3): [
        *((60, 20, 5, 1), (60, 20, 5, 1), (40, 20, 5, 1), (36, 12, 3, 1), (20, 5, 1), (15, 5, 1), (15, 5, 1)),
        *((180, 60, 20, 5, 1), (60, 20, 5, 1)),
    ],
    (0, 2, 3, 1): [
        *((60, 1, 15, 3), (60, 20, 5, 1), (40, 20, 5, 1), (36, 3, 9, 1), (20, 5, 1), (15, 5, 1), (15, 1, 3)),
        *((180, 60, 20, 5, 1), (60, 20, 5, 1)),
    ],
}


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("axes", PICKED)
def test_what_arrays_pick_lies_in_memory_as_in_pytorch(axes: tuple[int, ...], tracked: bool) -> None:
    x = torch.arange(120.0).reshape(2, 3, 4, 5)
    if axes != (0, 1, 2, 3):
        x = x.contiguous(memory_format=torch.channels_last)
    x.requires_grad_(tracked)
    i, m = torch.tensor([0, 1, 1]), torch.tensor([True, False, True])
    for (name, pick), strides in zip(PICKS.items(), PICKED[axes], strict=True):
        found = pick(x, i, m)
        assert (name, found.stride()) == (name, strides)
        assert found.tolist() == pick(x.detach().numpy(), i.numpy(), m.numpy()).tolist()


def test_reshape_of_what_an_array_picked_is_a_view() -> None:
    y = torch.arange(6.0).reshape(2, 3)[:, torch.tensor([0, 2])]
    y.reshape(-1)[1] = 9.0
    assert y.tolist() == [[0.0, 9.0], [3.0, 5.0]]
    assert y.view(4).tolist() == [0.0, 9.0, 3.0, 5.0]
    with pytest.raises(IndexError):
        y[:, :, torch.tensor([0])]
