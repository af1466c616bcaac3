"""Layers that resize images or rearrange their pixels."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from .. import functional as F
from ..module import Module


class Upsample(Module):
    """A resizing to a size or by a factor; see :func:`wengert.nn.functional.interpolate`.

    >>> import wengert as wg
    >>> wg.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)(wg.ones((1, 1, 3, 3))).shape
    (1, 1, 6, 6)
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, (tuple, list)):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Tensor:
        """Return the input at the other size."""
        options = self.mode, self.align_corners, self.recompute_scale_factor
        return F.interpolate(input, self.size, self.scale_factor, *options)

    def extra_repr(self) -> str:
        """Return the size and the mode for `repr`."""
        to = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{to}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """A resizing of images by their nearest pixels.

    >>> import wengert as wg
    >>> wg.nn.UpsamplingNearest2d(scale_factor=2)(wg.tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """A resizing of images between their pixels, the corners of which stay where they are.

    >>> import wengert as wg
    >>> wg.nn.UpsamplingBilinear2d(size=(1, 3))(wg.tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 1.5, 2.0]]]]
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """A rearrangement of channels into pixels: (N, C r r, H, W) becomes (N, C, H r, W r).

    >>> import wengert as wg
    >>> wg.nn.PixelShuffle(3)(wg.ones((1, 9, 4, 4))).shape
    (1, 1, 12, 12)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Tensor:
        """Return the image with more pixels and fewer channels."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return the factor for `repr`."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """A rearrangement of pixels into channels: the reverse of :class:`PixelShuffle`.

    >>> import wengert as wg
    >>> wg.nn.PixelUnshuffle(2)(wg.ones((1, 1, 4, 4))).shape
    (1, 4, 2, 2)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Tensor:
        """Return the image with fewer pixels and more channels."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the factor for `repr`."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """A rearrangement that takes channels in turn from each of the groups that they fall into.

    >>> import wengert as wg
    >>> wg.nn.ChannelShuffle(2)(wg.ones((1, 4, 2))).shape
    (1, 4, 2)
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Tensor:
        """Return the channels in another order."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the number of groups for `repr`."""
        return f"groups={self.groups}"
