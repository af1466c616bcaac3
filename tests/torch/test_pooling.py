"""Pooling of `wengert.torch`: PyTorch's numbers and gradients, recorded, and every crossing."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_layers import compiled, same
from torch_records import read
from wengert.core.errors import DTypeError, GraphError, RangeError, ShapeError

F, nn = torch.nn.functional, torch.nn

CALLS = [
    "F.max_pool1d(N(2, 3, 9), 3, 2, 1), F.max_pool1d(input=N(3, 8), kernel_size=2, dilation=3, return_indices=True)",
    "F.max_pool2d(N(2, 2, 7, 6), 3, stride=2, padding=1, ceil_mode=True, return_indices=True)",
    "F.max_pool2d(N(2, 7, 6), (2, 3), (1, 2), (1, 1), (2, 1)), F.max_pool2d_with_indices(N(1, 1, 4, 4), 2)",
    "F.max_pool3d(N(1, 2, 5, 4, 6), 2, padding=1, return_indices=True), F.max_pool3d(N(1, 4, 4, 4), 2, [])",
    "F.max_pool2d(I(9, 1, 2, 4, 4), 2, return_indices=True)",
    "F.avg_pool1d(N(2, 3, 9), 3, 2, 1), F.avg_pool1d(N(3, 8), 3, 2, 1, True, False), F.avg_pool1d(I(99, 1, 8) - 50, 3)",
    "F.avg_pool2d(N(2, 2, 7, 6), 3, 2, 1, ceil_mode=True), F.avg_pool2d(N(2, 7, 6), (3, 2), count_include_pad=False)",
    "F.avg_pool2d(N(1, 2, 5, 5), 2, divisor_override=3), F.avg_pool3d(N(1, 1, 5, 4, 6), 3, 2, 1, True, False, 5)",
    "F.avg_pool3d(N(1, 2, 5, 4, 6), (2, 1, 3), padding=(1, 0, 1), count_include_pad=False)",
    "F.adaptive_avg_pool1d(N(2, 2, 7), 3), F.adaptive_avg_pool1d(N(2, 3), 5)",
    "F.adaptive_avg_pool2d(N(2, 2, 7, 6), (3, None)), F.adaptive_avg_pool2d(N(2, 8, 6), (4, 3))",
    "F.adaptive_avg_pool3d(N(1, 2, 5, 4, 3), (2, 3, 1)), F.adaptive_avg_pool3d(N(1, 4, 4, 4), 2)",
    "F.adaptive_max_pool1d(N(2, 2, 7), 3, return_indices=True), F.adaptive_max_pool1d(N(2, 6), 2)",
    "F.adaptive_max_pool2d(N(2, 2, 7, 6), (3, None), True), F.adaptive_max_pool2d_with_indices(N(2, 5, 3), (4, 5))",
    "F.adaptive_max_pool3d(N(1, 2, 5, 4, 3), (2, 3, 1), True)",
    "F.lp_pool1d(N(2, 2, 7), 2, 3), F.lp_pool2d(N(2, 2, 7, 6), 3.0, (2, 3), ceil_mode=True)",
    "F.lp_pool3d(N(1, 2, 4, 4, 4).abs(), 1.5, 2, stride=1)",
    "F.fractional_max_pool2d(N(2, 3, 9, 8), 2, (4, 3), _random_samples=N(2, 3, 2).detach().sigmoid())",
    "F.fractional_max_pool2d(N(3, 9, 8), (2, 1), output_ratio=(0.5, 0.4), return_indices=True, _random_samples="
    "N(1, 3, 2).detach().sigmoid())",
    "F.fractional_max_pool3d_with_indices(N(2, 3, 6, 7, 5), 2, (4, 1, 3), _random_samples=N(2, 3, 3).detach().sigmoid())",  # noqa: E501
    "F.max_unpool1d(*F.max_pool1d(N(2, 2, 8), 2, return_indices=True), 2)",
    "F.max_unpool2d(*F.max_pool2d(N(2, 2, 7, 6), 3, 2, 1, return_indices=True), 3, 2, 1, output_size=(2, 2, 7, 6))",
    "F.max_unpool3d(*F.max_pool3d(N(1, 2, 4, 4, 6), 2, return_indices=True), 2, output_size=[4, 4, 6])",
    "nn.MaxPool2d(3, 2, return_indices=True)(N(2, 2, 7, 6)), repr(nn.MaxPool2d((3, 2), 2, ceil_mode=True))",
    "nn.MaxUnpool2d(2)(N(1, 1, 2, 2), torch.tensor([[[[5, 6], [8, 15]]]])), repr(nn.MaxUnpool2d(2))",
    "nn.AvgPool1d(3)(N(2, 2, 7)), nn.AvgPool3d(2)(N(1, 2, 4, 4, 4)), repr(nn.AvgPool1d(2)), repr(nn.AvgPool2d(2, 3))",
    "nn.AdaptiveMaxPool2d((2, 3), True)(N(2, 4, 5)), repr(nn.AdaptiveAvgPool2d((1, None))), nn.LPPool1d(2, 3)(N(1, 6))",
]
RECORDED = read("pooling")
FRACTIONAL = {
    2: lambda x: F.fractional_max_pool2d(x, 2, (3, 3), _random_samples=torch.full((1, 1, 2), 0.4, dtype=torch.float64)),
}


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_gradients_are_pytorchs(text: str) -> None:
    same(torch, text, RECORDED[text])


@pytest.mark.parametrize("text", [t for t in CALLS[::3] if "_random" not in t])
def test_compiled_calls_give_the_same(text: str) -> None:
    compiled(wg, torch, text, RECORDED[text])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
        lambda x: F.adaptive_avg_pool2d(x * x, (3, 4)),
        lambda x: F.adaptive_max_pool2d(x, (3, 4)),
        lambda x: F.lp_pool2d(x, 3.0, 2),
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        FRACTIONAL[2],
    ],
)
def test_second_derivatives_and_batches(fn: object) -> None:
    x = torch.tensor(np.random.RandomState(0).permutation(36).reshape(1, 1, 6, 6) / 9.0 + 0.1)
    wg.check_grads(lambda v: fn(v * v), x, order=2)  # type: ignore[operator]
    batch = torch.tensor(np.random.RandomState(1).normal(size=(3, 1, 1, 6, 6)))
    each = torch.stack([fn(b) for b in batch])  # type: ignore[operator]
    np.testing.assert_allclose(wg.vmap(fn)(batch).numpy(), each.numpy(), rtol=1e-12)


def test_infinities_stay_in_their_windows() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0, float("inf"), 5.0, float("nan"), 7.0]])
    assert F.adaptive_avg_pool1d(x, 3).numpy()[0, 0] == 2.0
    assert np.isnan(F.adaptive_avg_pool1d(x, 3).numpy()[0, 1:]).tolist() == [False, True]
    assert F.adaptive_max_pool1d(x, 3).numpy()[0, :2].tolist() == [3.0, np.inf]
    assert np.isnan(F.max_pool1d(x, 2).numpy()[0]).tolist() == [False, False, True]


def test_empty_batches() -> None:
    x = torch.zeros(0, 2, 6, 6)
    for pool in (nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(4), nn.AdaptiveMaxPool2d(4)):
        assert pool(x).shape[:2] == (0, 2)


def test_windows_by_chance_differ() -> None:
    pool, x = nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.4)), torch.randn(1, 1, 20, 20)
    assert pool(x).shape == (1, 1, 10, 8)
    assert any((pool(x) != pool(x)).any() for _ in range(5))


def test_refusals() -> None:
    x = torch.ones(1, 1, 4, 4)
    for wrong in (
        lambda: F.max_pool2d(torch.ones(4), 2),
        lambda: F.max_pool2d(x, 2, padding=2),
        lambda: F.max_pool2d(x, 9),
        lambda: F.avg_pool2d(x, 2, divisor_override=0),
        lambda: F.adaptive_avg_pool2d(x, (1, 2, 3)),
        lambda: F.adaptive_max_pool1d(torch.ones(2, 0), 1),
        lambda: F.fractional_max_pool2d(x, 2),
        lambda: F.fractional_max_pool2d(x, 2, 4),
        lambda: F.fractional_max_pool2d(x, 2, 2, _random_samples=torch.ones(1, 2, 2)),
        lambda: F.max_unpool2d(x, torch.zeros(1, 1, 4, 4, dtype=torch.int64), 2, output_size=(4, 4)),
        lambda: F.max_unpool2d(x, torch.zeros(1, 1, 2, 2, dtype=torch.int64), 2),
    ):
        with pytest.raises((ShapeError, RangeError)):
            wrong()
    with pytest.raises((ShapeError, RangeError)):
        F.max_unpool1d(torch.ones(1, 1), torch.tensor([[2]]), 2)
    for wrong in (
        lambda: F.max_pool2d(x * 1j, 2),
        lambda: F.avg_pool2d(x > 0, 2),
        lambda: F.adaptive_avg_pool2d(x.int(), 2),
    ):
        with pytest.raises(DTypeError):
            wrong()
    with pytest.raises(GraphError):
        nn.FractionalMaxPool2d(2)
    with pytest.raises(GraphError):
        nn.FractionalMaxPool2d(2, output_ratio=1.5)


_SPATIAL = {1: (8,), 2: (8, 9), 3: (8, 9, 7)}
_POOLS = {
    "max_pool": lambda n: (3,),
    "avg_pool": lambda n: (3,),
    "lp_pool": lambda n: (2, 3),
    "adaptive_max_pool": lambda n: (2,),
    "fractional_max_pool": lambda n: (3, (2,) * n),
}


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("name", _POOLS)
def test_only_the_batch_may_be_empty(name, ndim):
    if name == "fractional_max_pool" and ndim == 1:
        return
    pool, sizes = getattr(torch.nn.functional, f"{name}{ndim}d"), _SPATIAL[ndim]
    for shape in ((1, 0, *sizes), (0, 0, *sizes), (0, *sizes)):
        with pytest.raises(ValueError, match="Only the batch"):
            pool(torch.ones(shape), *_POOLS[name](ndim))
    assert pool(torch.ones((0, 3, *sizes)), *_POOLS[name](ndim)).shape[:2] == (0, 3)


@pytest.mark.parametrize("ndim", [2, 3])
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool])
def test_pools_of_a_given_size_are_of_floating_numbers(ndim, dtype):
    x = torch.ones((1, 2, *_SPATIAL[ndim])).to(dtype)
    for name in ("adaptive_max_pool", "adaptive_avg_pool", "fractional_max_pool"):
        with pytest.raises(TypeError, match="not implemented"):
            getattr(torch.nn.functional, f"{name}{ndim}d")(x, *_POOLS.get(name, lambda n: (2,))(ndim))


def test_sizes_of_fractional_pools():
    x = torch.ones(2, 7, 7)
    pool = torch.nn.functional.fractional_max_pool2d
    for kernel, size in (((), (3, 3)), ((1,), (3, 3)), ((2, 2), (3,)), ((2, 2), ()), ((2, 2), (9, 3))):
        with pytest.raises(ValueError, match="fractional_max_pool2d"):
            pool(x, kernel, size)
    assert pool(x, 2, (0, 1)).shape == (2, 0, 1)
