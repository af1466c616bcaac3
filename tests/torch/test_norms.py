"""Norms, affine maps and dropout of `wengert.torch`: PyTorch's numbers, running statistics, chance, and crossings."""

from __future__ import annotations

import numpy as np
import pytest

import torch_records as records
import wengert as wg
import wengert.torch as torch
from wengert.core.errors import RangeError, ShapeError

F = torch.nn.functional
RECORDED = records.read("norms")


@pytest.mark.parametrize("label", RECORDED)
def test_norms_are_pytorchs(label: str) -> None:
    records.replay(torch, label, *RECORDED[label])


def test_running_statistics_of_instances() -> None:
    x = np.random.RandomState(0).normal(2.0, 3.0, (4, 2, 5))
    layer = torch.nn.InstanceNorm1d(2, momentum=0.25, track_running_stats=True, dtype=torch.float64)
    layer(torch.tensor(x))
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.25 * x.mean(axis=(0, 2)), rtol=1e-12)
    spread = x.var(axis=2, ddof=1).mean(axis=0)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.75 + 0.25 * spread, rtol=1e-12)
    compiled = wg.jit(layer)
    for _ in range(5):
        compiled(torch.tensor(x))
    np.testing.assert_allclose(layer.running_mean.numpy(), (1 - 0.75**6) * x.mean(axis=(0, 2)), rtol=1e-12)
    layer.eval()
    wanted = (x[0] - layer.running_mean.numpy()[:, None]) / np.sqrt(layer.running_var.numpy()[:, None] + 1e-5)
    np.testing.assert_allclose(layer(torch.tensor(x[0])).numpy(), wanted, rtol=1e-10)


def test_normalisation_across_maps() -> None:
    x = torch.arange(1.0, 6.0).reshape(1, 5, 1, 1)
    # What PyTorch 2.13 gives, where the first channel is in every window.
    for size, wanted in (
        (1, [0.6156, 0.7579, 0.8092, 0.7981, 0.7692]),
        (3, [0.5526, 0.7808, 0.8092, 0.7981, 1.1178]),
        (4, [0.59, 0.8764, 0.9397, 0.9434, 1.3136]),
    ):
        found = torch.nn.CrossMapLRN2d(size, alpha=0.5, beta=0.7, k=1.5)(x)
        np.testing.assert_allclose(found.flatten().numpy(), wanted, atol=1e-4)
    with pytest.raises(ShapeError, match="CrossMapLRN2d"):
        torch.nn.CrossMapLRN2d(3)(x[0])


def test_batch_statistics() -> None:
    x = np.random.RandomState(0).normal(size=(6, 3))
    average = torch.nn.BatchNorm1d(3, momentum=None, dtype=torch.float64)
    for i in range(3):
        average(torch.tensor(x + i))
    np.testing.assert_allclose(average.running_mean.numpy(), x.mean(axis=0) + 1, rtol=1e-12)
    assert average.num_batches_tracked.item() == 3
    average.track_running_stats = False
    average(torch.tensor(x + 50))
    assert average.num_batches_tracked.item() == 3
    average.reset_running_stats()
    assert average.running_var.tolist() == [1.0, 1.0, 1.0]
    plain = torch.nn.BatchNorm1d(3, track_running_stats=False)
    assert list(plain.state_dict()) == ["weight", "bias"]
    assert torch.nn.BatchNorm2d(3, bias=False).bias is None
    with pytest.raises(ValueError, match="more than 1 value"):
        average(torch.ones(1, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="num_features=3"):
        average(torch.ones(2, 4))


def test_batch_norms_become_synchronised_ones() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.BatchNorm1d(3)))
    made = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(made[1][0]) is torch.nn.SyncBatchNorm
    assert list(made.state_dict()) == list(model.state_dict())
    assert made(torch.randn(4, 2)).shape == (4, 3)


def test_statistics_older_than_their_count_load() -> None:
    layer = torch.nn.BatchNorm1d(2)
    state = layer.state_dict()
    del state["num_batches_tracked"]
    assert str(layer.load_state_dict(state)) == "<All keys matched successfully>"


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "dropout2d", "dropout3d"])
def test_dropout_drops_and_scales(name: str) -> None:
    torch.manual_seed(0)
    shape = {"dropout": (4000,), "dropout1d": (40, 50, 3), "dropout2d": (40, 50, 2, 2), "dropout3d": (40, 50, 2, 2, 2)}
    x = torch.ones(shape[name])
    out = getattr(F, name)(x, 0.25)
    assert set(np.round(np.unique(out.numpy()), 4)) == {0.0, np.float32(1.3333)}
    assert out.mean().item() == pytest.approx(1.0, abs=0.05)
    if name != "dropout":
        flat = out.numpy().reshape(2000, -1)
        assert (flat == flat[:, :1]).all()
    assert getattr(F, name)(x, 0.25, training=False) is x
    assert not getattr(F, name)(x, 1.0).any()
    with pytest.raises(RangeError):
        getattr(F, name)(x, 1.5)
    layer = getattr(torch.nn, name.replace("dropout", "Dropout"))(0.25, inplace=True)
    assert layer(x) is x
    assert layer.eval()(x) is x


@pytest.mark.parametrize("by_channel", [False, True])
def test_alpha_dropout_keeps_mean_and_variance(by_channel: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(400, 50, 2)
    out = (F.feature_alpha_dropout if by_channel else F.alpha_dropout)(x, 0.3, training=True)
    assert out.mean().item() == pytest.approx(0.0, abs=0.05)
    assert out.std().item() == pytest.approx(1.0, abs=0.05)
    layer = (torch.nn.FeatureAlphaDropout if by_channel else torch.nn.AlphaDropout)(0.3)
    assert layer.eval()(x) is x
    if by_channel:
        assert (out[:, :, 0] == out[:, :, 1]).float().mean().item() == pytest.approx(0.3, abs=0.02)


def test_channels_without_a_batch() -> None:
    torch.manual_seed(0)
    rows = F.dropout1d(torch.ones(200, 4), 0.5).numpy()
    assert (rows == rows[:, :1]).all()
    assert 50 < (rows[:, 0] == 0).sum() < 150
    with pytest.warns(UserWarning, match="dropout2d"):
        F.dropout2d(torch.ones(2, 3, 4))
    with pytest.raises(ShapeError):
        F.dropout1d(torch.ones(4))


SMOOTH = {
    "instance_norm": lambda x: F.instance_norm(x, eps=0.1),
    "local_response_norm": lambda x: F.local_response_norm(x, 3, alpha=0.5),
    "normalize": lambda x: F.normalize(x, p=3.0, dim=-1),
    "bilinear": lambda x: F.bilinear(x, x, torch.ones(2, 4, 4).double() * 0.3, torch.ones(2).double()),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_compiled_calls_and_batches(name: str) -> None:
    fn = SMOOTH[name]
    x = torch.tensor(np.random.RandomState(5).normal(size=(2, 3, 4)))
    wg.check_grads(fn, x)
    eager, compiled = fn(x), wg.jit(fn)
    assert type(eager) is torch.Tensor
    for _ in range(6):
        np.testing.assert_allclose(compiled(x).numpy(), eager.numpy(), rtol=1e-12)
    np.testing.assert_allclose(wg.vmap(fn)(torch.stack([x, 2 * x]))[1].numpy(), fn(2 * x).numpy(), rtol=1e-12)


def test_refusals_and_nothing() -> None:
    with pytest.raises(ShapeError):
        F.instance_norm(torch.ones(2, 3, 1))
    with pytest.raises(ShapeError):
        F.local_response_norm(torch.ones(2, 3), 2)
    with pytest.raises(ShapeError):
        F.bilinear(torch.ones(2, 3), torch.ones(3, 3), torch.ones(1, 3, 3))
    assert F.local_response_norm(torch.ones(0, 3, 2), 2).shape == (0, 3, 2)
    assert F.linear(torch.ones(2, 3), torch.ones(3)).tolist() == [3.0, 3.0]
    assert torch.layer_norm(torch.tensor([1.0, 3.0]), (2,)).shape == (2,)
    assert torch.batch_norm(torch.randn(3, 2), None, None, None, None, True, 0.1, 1e-5, False).shape == (3, 2)


MIXED = {
    "BatchNorm1d": ((3,), (2, 3)),
    "LayerNorm": ((3,), (2, 3)),
    "RMSNorm": ((3,), (2, 3)),
    "GroupNorm": ((3, 3), (2, 3)),
    "InstanceNorm1d": ((3, 1e-5, 0.1, True), (2, 3, 4)),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MIXED)
def test_a_16_bit_input_stays_one_beside_wide_parameters(name, dtype):
    given, shape = MIXED[name]
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    layer = getattr(torch.nn, name)(*given)
    assert layer.weight.dtype is torch.float32
    found = layer(x.to(dtype))
    assert found.dtype is dtype
    np.testing.assert_allclose(found.float().detach().numpy(), layer(x).detach().numpy(), atol=0.02)


def test_a_batch_of_nothing_leaves_the_statistics() -> None:
    layer = torch.nn.BatchNorm2d(3)
    out = layer(torch.zeros(0, 3, 2, 2, requires_grad=True))
    out.sum().backward()
    assert out.shape == (0, 3, 2, 2)
    assert layer.weight.grad.tolist() == [0.0] * 3
    assert layer.running_mean.tolist() == [0.0] * 3
