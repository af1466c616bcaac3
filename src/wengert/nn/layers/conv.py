"""Convolutions, their transposes, and pooling, channels first as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import zeros
from ...core.errors import ShapeError, fail
from ...core.tensor import Tensor
from .. import functional as F
from ..checks import size
from ..module import Module
from ..parameter import Parameter
from .linear import uniform_by_fan_

Sizes = int | Sequence[int]


def _tuple(name: str, value: Sizes, ndim: int, least: int) -> tuple[int, ...]:
    values = (value,) * ndim if isinstance(value, int) else tuple(value)
    if len(values) != ndim:
        fail(ShapeError, f"{name} must be one int or {ndim} of them, not {value!r}")
    return tuple(size(name, v, least) for v in values)


class _Conv(Module):
    """The base of convolutions of any dimension."""

    _ndim = 0
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        n = self._ndim
        self.in_channels = size("in_channels", in_channels)
        self.out_channels = size("out_channels", out_channels)
        self.kernel_size = _tuple("kernel_size", kernel_size, n, 1)
        self.stride = _tuple("stride", stride, n, 1)
        self.padding = padding if isinstance(padding, str) else _tuple("padding", padding, n, 0)
        self.dilation = _tuple("dilation", dilation, n, 1)
        self.groups = size("groups", groups)
        if in_channels % groups or out_channels % groups:
            fail(
                ShapeError,
                f"groups={groups} does not divide in_channels={in_channels} and out_channels={out_channels}",
            )
        self.weight = Parameter(zeros((*self._channels(), *self.kernel_size), dtype=dtype, device=device))
        self.register_parameter("bias", Parameter(zeros(out_channels, dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def _channels(self) -> tuple[int, int]:
        return self.out_channels, self.in_channels // self.groups

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        uniform_by_fan_(self.weight, self.bias, math.prod(self.weight.shape[1:]))

    def extra_repr(self) -> str:
        """Return the sizes for `repr`; options only where they are not the defaults."""
        none, single = (0,) * self._ndim, (1,) * self._ndim
        shown = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != none:
            shown.append(f"padding={self.padding!r}")
        if self.dilation != single:
            shown.append(f"dilation={self.dilation}")
        if self.groups != 1:
            shown.append(f"groups={self.groups}")
        if self.bias is None:
            shown.append("bias=False")
        return ", ".join(shown)


class Conv1d(_Conv):
    """A convolution (cross-correlation) over the last axis: (N, C, L) or (C, L).

    Parameters
    ----------
    in_channels, out_channels: sizes of the channel axis.
    kernel_size, stride, dilation: ints.
    padding: zeros at both ends, or "same" or "valid".
    groups: channels fall into as many groups that do not mix.
    bias: whether to add one.
    dtype: of the parameters; the default float where left out.
    device: where they are, as in :func:`wengert.zeros`.

    `weight` is (out_channels, in_channels / groups, kernel_size).

    Raises ShapeError for sizes below 1 and `groups` that do not divide the channels.

    >>> import wengert as wg
    >>> wg.nn.Conv1d(3, 8, 5, padding=2)(wg.zeros((1, 3, 20))).shape
    (1, 8, 20)
    """

    _ndim = 1

    def forward(self, x: Any) -> Tensor:
        """Map (N, in_channels, L) to (N, out_channels, L')."""
        return F.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(_Conv):
    """A convolution (cross-correlation) over the last two axes: (N, C, H, W) or (C, H, W).

    Parameters are those of :class:`Conv1d`, with an int or a pair for each size. `weight` is
    (out_channels, in_channels / groups, height, width).

    Raises ShapeError for sizes below 1 and `groups` that do not divide the channels.

    >>> import wengert as wg
    >>> wg.nn.Conv2d(3, 8, 3, stride=2)(wg.zeros((1, 3, 9, 9))).shape
    (1, 8, 4, 4)
    """

    _ndim = 2

    def forward(self, x: Any) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H', W')."""
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _ConvTranspose(_Conv):
    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.output_padding = _tuple("output_padding", output_padding, self._ndim, 0)
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype, device)

    def _channels(self) -> tuple[int, int]:
        return self.in_channels, self.out_channels // self.groups

    def extra_repr(self) -> str:
        """Return the sizes for `repr`; options only where they are not the defaults."""
        extra = f", output_padding={self.output_padding}" if any(self.output_padding) else ""
        return super().extra_repr() + extra


class ConvTranspose1d(_ConvTranspose):
    """The transpose of :class:`Conv1d` (a "deconvolution"): a stride makes the result longer.

    `weight` is (in_channels, out_channels / groups, kernel_size); `output_padding` lengthens one end.

    >>> import wengert as wg
    >>> wg.nn.ConvTranspose1d(2, 3, kernel_size=2, stride=2)(wg.ones((1, 2, 5))).shape
    (1, 3, 10)
    """

    _ndim = 1

    def forward(self, x: Any) -> Tensor:
        """Map (N, in_channels, L) to (N, out_channels, L')."""
        options = self.stride, self.padding, self.output_padding, self.groups, self.dilation
        return F.conv_transpose1d(x, self.weight, self.bias, *options)


class ConvTranspose2d(_ConvTranspose):
    """The transpose of :class:`Conv2d` (a "deconvolution"): a stride makes the result larger.

    `weight` is (in_channels, out_channels / groups, height, width).

    >>> import wengert as wg
    >>> wg.nn.ConvTranspose2d(4, 2, 2, stride=2)(wg.zeros((1, 4, 5, 5))).shape
    (1, 2, 10, 10)
    """

    _ndim = 2

    def forward(self, x: Any) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H', W')."""
        options = self.stride, self.padding, self.output_padding, self.groups, self.dilation
        return F.conv_transpose2d(x, self.weight, self.bias, *options)
