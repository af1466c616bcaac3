"""Resizing, sampling and rearranging of images by `wengert.torch`: PyTorch's numbers and gradients, and crossings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_layers import compiled, same
from torch_records import read
from wengert.core.errors import DTypeError, GraphError, ShapeError

F, nn = torch.nn.functional, torch.nn

CALLS = [
    "F.interpolate(N(1, 2, 5), 8), F.interpolate(N(1, 2, 5, 4), scale_factor=(2, 0.7))",
    "F.interpolate(N(1, 1, 5, 4, 3).detach(), scale_factor=2.2), F.interpolate(N(1, 1, 5, 4, 3), (7, 4, 2), mode='nearest-exact')",  # noqa: E501
    "F.interpolate(N(1, 2, 4, 4), scale_factor=1.01), F.interpolate(N(1, 2, 40), scale_factor=2.05, mode='nearest')",
    "F.interpolate(N(1, 2, 7, 5), scale_factor=(0.4, 1.7), mode='nearest-exact', recompute_scale_factor=True)",
    "F.interpolate(N(1, 2, 5), 8, mode='linear'), F.interpolate(N(1, 2, 5), 3, mode='linear', align_corners=True)",
    "F.interpolate(N(1, 2, 5, 4), scale_factor=1.7, mode='bilinear')",
    "F.interpolate(N(1, 2, 5, 4), scale_factor=1.7, mode='bilinear', recompute_scale_factor=True)",
    "F.interpolate(N(1, 2, 5, 4), (1, 9), mode='bilinear', align_corners=True)",
    "F.interpolate(N(1, 2, 5, 4), (3, 7), mode='bicubic'), F.interpolate(N(1, 1, 5, 4), 6, None, 'bicubic', True)",
    "F.interpolate(N(1, 2, 9, 8), (4, 3), mode='bilinear', antialias=True)",
    "F.interpolate(N(1, 2, 9, 8), (4, 11), mode='bicubic', antialias=True, align_corners=False)",
    "F.interpolate(N(1, 1, 3, 4, 5), (4, 2, 7), mode='trilinear', align_corners=True)",
    "F.interpolate(N(1, 1, 3, 4, 5), scale_factor=(1.5, 2.5, 0.5), mode='trilinear')",
    "F.interpolate(N(1, 2, 5, 4), (3, 2), mode='area'), F.interpolate(N(1, 2, 5), scale_factor=0.5, mode='area')",
    "F.upsample(N(1, 1, 3, 3), 5, mode='bilinear'), F.upsample_nearest(N(1, 1, 3), 5), F.upsample_bilinear(N(1, 1, 3, 3), 4)",  # noqa: E501
    "F.grid_sample(N(2, 2, 4, 5), N(2, 3, 2, 2)), F.grid_sample(N(1, 1, 4, 5), N(1, 3, 2, 2), align_corners=True)",
    "F.grid_sample(N(2, 2, 4, 5), N(2, 3, 2, 2), padding_mode='border')",
    "F.grid_sample(N(2, 2, 4, 5), N(2, 3, 2, 2) * 2, padding_mode='reflection')",
    "F.grid_sample(N(2, 2, 4, 5), N(2, 3, 2, 2) * 2, padding_mode='reflection', align_corners=True)",
    "F.grid_sample(N(2, 2, 4, 5), N(2, 3, 2, 2), mode='nearest'), F.grid_sample(N(1, 2, 3, 3), N(1, 2, 2, 2), 'nearest', 'border')",  # noqa: E501
    "F.grid_sample(N(2, 2, 4, 5), N(2, 3, 2, 2), mode='bicubic')",
    "F.grid_sample(N(1, 2, 4, 5), N(1, 3, 2, 2) * 2, mode='bicubic', padding_mode='reflection', align_corners=True)",
    "F.grid_sample(N(1, 2, 4, 5), N(1, 3, 2, 2), mode='bicubic', padding_mode='border')",
    "F.grid_sample(N(1, 2, 3, 4, 5), N(1, 2, 2, 2, 3)), F.grid_sample(N(1, 1, 1, 4, 5), N(1, 2, 2, 2, 3), 'nearest')",
    "F.grid_sample(N(1, 2, 3, 4, 5), N(1, 2, 2, 2, 3), padding_mode='reflection', align_corners=True)",
    "F.affine_grid(N(2, 2, 3), (2, 1, 3, 4)), F.affine_grid(N(2, 2, 3), [2, 1, 1, 4], align_corners=True)",
    "F.affine_grid(N(1, 3, 4), (1, 1, 2, 3, 2)), F.grid_sample(N(1, 1, 4, 4), F.affine_grid(N(1, 2, 3), (1, 1, 3, 3)))",
    "F.pixel_shuffle(N(2, 12, 2, 3), 2), F.pixel_unshuffle(N(2, 3, 4, 6), 2), F.channel_shuffle(N(1, 6, 2, 2), 3)",
    "F.pixel_shuffle(N(9, 1, 2), 3), F.pixel_unshuffle(I(9, 2, 2, 1, 6, 6), 3), F.channel_shuffle(N(1, 4, 3), groups=2)",  # noqa: E501
    "nn.Upsample(scale_factor=2, mode='bilinear')(N(1, 1, 3, 3)), repr(nn.Upsample((3, 4))), repr(nn.Upsample(None, 2))",  # noqa: E501
    "nn.UpsamplingBilinear2d(scale_factor=2)(N(1, 1, 3, 3)), nn.UpsamplingNearest2d(4)(N(1, 1, 3, 3))",
    "repr(nn.UpsamplingBilinear2d(3)), repr(nn.PixelShuffle(2)), repr(nn.PixelUnshuffle(2)), repr(nn.ChannelShuffle(2))",  # noqa: E501
    "nn.PixelShuffle(2)(N(1, 4, 1, 2)), nn.PixelUnshuffle(2)(N(1, 1, 2, 4)), nn.ChannelShuffle(2)(N(1, 4, 1, 1))",
]
RECORDED = read("vision")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_gradients_are_pytorchs(text: str) -> None:
    same(torch, text, RECORDED[text])


@pytest.mark.parametrize("text", CALLS[::4])
def test_compiled_calls_give_the_same(text: str) -> None:
    compiled(wg, torch, text, RECORDED[text])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.interpolate(x, (5, 3), mode="bicubic"),
        lambda x: F.interpolate(x, (2, 3), mode="bilinear", antialias=True),
        lambda x: F.grid_sample(x[:, :1], x[:, 1:3].moveaxis(1, -1), mode="bicubic"),
        lambda x: F.grid_sample(x[:, :1], x[:, 1:3].moveaxis(1, -1), padding_mode="reflection"),
        lambda x: F.pixel_shuffle(x, 2),
    ],
)
def test_second_derivatives_and_batches(fn: Any) -> None:
    x = torch.tensor(np.random.RandomState(3).normal(size=(1, 4, 2, 2)) * 0.7)
    wg.check_grads(lambda v: fn(v * v), x, order=2)
    batch = torch.tensor(np.random.RandomState(1).normal(size=(3, 1, 4, 2, 2)))
    each = torch.stack([fn(b) for b in batch])
    np.testing.assert_allclose(wg.vmap(fn)(batch).numpy(), each.numpy(), rtol=1e-12)


def test_half_precision_is_rounded_once() -> None:
    x = torch.tensor(np.random.RandomState(0).normal(size=(1, 1, 5, 5)).astype(np.float16))
    found = F.interpolate(x, (7, 3), mode="bicubic")
    assert found.dtype == torch.float16
    wide = F.interpolate(x.float(), (7, 3), mode="bicubic")
    np.testing.assert_array_equal(found.numpy(), wide.numpy().astype(np.float16))


def test_outside_and_nowhere() -> None:
    x = torch.ones(1, 1, 2, 2)
    far = torch.tensor([[[[1e30, 0.0], [float("inf"), 0.0], [float("nan"), 0.0]]]])
    assert F.grid_sample(x, far, mode="nearest", align_corners=False).numpy().ravel().tolist() == [0.0, 0.0, 0.0]
    assert F.grid_sample(x, far[:, :, :1], padding_mode="border", align_corners=False).item() == 1.0


def test_refusals() -> None:
    x = torch.ones(1, 1, 4, 4)
    for wrong in (
        lambda: F.interpolate(x, 2, mode="cubic"),
        lambda: F.interpolate(x),
        lambda: F.interpolate(x, 2, 2.0),
        lambda: F.interpolate(x, 2, align_corners=True),
        lambda: F.interpolate(x, 2, antialias=True),
        lambda: F.interpolate(x, 2, mode="bilinear", recompute_scale_factor=True),
        lambda: F.grid_sample(x, torch.ones(1, 1, 1, 2), mode="linear"),
        lambda: F.grid_sample(x, torch.ones(1, 1, 1, 2), padding_mode="wrap"),
    ):
        with pytest.raises(GraphError):
            wrong()
    for wrong in (
        lambda: F.interpolate(x, 2, mode="linear"),
        lambda: F.interpolate(x, (1, 2, 3)),
        lambda: F.interpolate(x, 0),
        lambda: F.grid_sample(x, torch.ones(1, 1, 1, 3)),
        lambda: F.grid_sample(torch.ones(1, 1, 2, 2, 2), torch.ones(1, 1, 1, 1, 3), mode="bicubic"),
        lambda: F.affine_grid(torch.ones(1, 2, 2), (1, 1, 2, 2)),
        lambda: F.pixel_shuffle(x, 2),
        lambda: F.pixel_unshuffle(x, 3),
        lambda: F.channel_shuffle(x, 2),
        lambda: F.pixel_shuffle(torch.ones(4, 4), 2),
    ):
        with pytest.raises(ShapeError):
            wrong()
    for wrong in (
        lambda: F.interpolate(x.to(torch.uint8), 2, mode="bilinear"),
        lambda: F.grid_sample(x, torch.ones(1, 1, 1, 2, dtype=torch.float64)),
        lambda: F.affine_grid(torch.ones(1, 2, 3, dtype=torch.int64), (1, 1, 2, 2)),
    ):
        with pytest.raises(DTypeError):
            wrong()
