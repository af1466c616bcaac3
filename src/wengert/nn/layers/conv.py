"""Convolutions, their transposes, and windows as columns, channels first."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from ... import asarray, empty
from ...core.errors import GraphError, RangeError, ShapeError, fail
from ...core.tensor import Tensor
from ...ops.neural.windows import Size, int_tuple
from .. import functional as F
from ..checks import size
from ..module import Module
from ..parameter import Parameter
from .linear import uniform_by_fan_

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class ConvBase(Module):
    """The base of convolutions of any dimension, which `lazy` ones share."""

    _ndim = 0
    _transposed = False
    _compute: Callable[..., Any]
    padding: Any
    weight: Any
    bias: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        n = self._ndim
        self.in_channels = size("in_channels", in_channels, 0)
        self.out_channels = size("out_channels", out_channels, 0)
        self.groups = size("groups", groups)
        if in_channels % groups or out_channels % groups:
            channels = f"in_channels={in_channels} and out_channels={out_channels}"
            fail(RangeError, f"groups={groups} does not divide {channels}", "Channels fall into equal groups.")
        if padding_mode not in _PADDING_MODES or (self._transposed and padding_mode != "zeros"):
            fail(GraphError, f"{type(self).__name__}: padding_mode={padding_mode!r}")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            fail(GraphError, f"{type(self).__name__}: padding={padding!r}", 'A name is "same" or "valid".')
        self.kernel_size = int_tuple(kernel_size, n, "kernel_size", 1)
        self.stride = int_tuple(stride, n, "stride", -sys.maxsize)  # what is below 1 is refused where it is used
        self.padding = padding if isinstance(padding, str) else int_tuple(padding, n, "padding", 0)
        self.dilation = int_tuple(dilation, n, "dilation", 1)
        self.output_padding = int_tuple(output_padding, n, "output_padding", 0)
        self.transposed = self._transposed
        self.padding_mode = padding_mode
        if padding == "same" and any(s != 1 for s in self.stride):
            fail(GraphError, f'{type(self).__name__}: padding="same" with stride={stride}', "It needs a stride of 1.")
        self._make_parameters(bias, dtype, device)

    def _make_parameters(self, bias: bool, dtype: Any, device: Any) -> None:
        self.weight = Parameter(empty(self._weight_shape(), dtype=dtype, device=device))
        self.register_parameter(
            "bias", Parameter(empty(self.out_channels, dtype=dtype, device=device)) if bias else None
        )
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        channels = self.out_channels, self.in_channels // self.groups
        if self._transposed:
            channels = self.in_channels, self.out_channels // self.groups
        return (*channels, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Draw new initial values: uniform within one over the root of the number of inputs of a result."""
        uniform_by_fan_(self.weight, self.bias, math.prod(self.weight.shape[1:]))

    def extra_repr(self) -> str:
        """Return the options for `repr`; those with their defaults are left out."""
        shown = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        n = self._ndim
        usual = {"padding": (0,) * n, "dilation": (1,) * n, "output_padding": (0,) * n, "groups": 1}
        shown += [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        if self.bias is None:
            shown.append("bias=False")
        if self.padding_mode != "zeros":
            shown.append(f"padding_mode={self.padding_mode}")
        return ", ".join(shown)


class ForwardConv(ConvBase):
    """The base of convolutions that are no transposes."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = stride, padding, dilation, 0, groups, bias, padding_mode, device, dtype
        super().__init__(in_channels, out_channels, kernel_size, *options)

    def _widths(self) -> list[int]:
        """Return how much is put before and after each dimension, the last first."""
        if not isinstance(self.padding, str):
            return [p for p in reversed(self.padding) for _ in range(2)]
        same = self.padding == "same"
        totals = [d * (k - 1) if same else 0 for k, d in zip(self.kernel_size, self.dilation)]
        return [p for t in reversed(totals) for p in (t // 2, t - t // 2)]

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._widths(), mode=self.padding_mode)
            padding = 0
        options = self.stride, padding, self.dilation, self.groups
        return type(self)._compute(input, weight, bias, *options)  # type: ignore[no-any-return]

    def forward(self, input: Any) -> Tensor:
        """Map (N, in_channels, *sizes) to (N, out_channels, *sizes)."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(ForwardConv):
    """A convolution (cross-correlation) over the last axis: (N, C, L) or (C, L).

    Parameters are those of :class:`Conv2d`. `weight` is (out_channels, in_channels / groups, kernel_size).

    >>> import wengert as wg
    >>> wg.nn.Conv1d(3, 8, 5, padding=2)(wg.zeros((1, 3, 20))).shape
    (1, 8, 20)
    """

    _ndim = 1
    _compute = staticmethod(F.conv1d)


class Conv2d(ForwardConv):
    """A convolution (cross-correlation) over the last two axes: (N, C, H, W) or (C, H, W).

    Parameters
    ----------
    in_channels, out_channels: sizes of the channel axis.
    kernel_size, stride, dilation: an int, or one for each axis.
    padding: the same; or "valid" for none, or "same" for a result of the input's size.
    groups: channels fall into as many groups that do not mix.
    bias: whether to add one.
    padding_mode: what the padding is: "zeros", or the input's "reflect", "replicate" or "circular" continuation.
    device: where the parameters are, as in :func:`wengert.zeros`.
    dtype: of the parameters; the default float where left out.

    `weight` is (out_channels, in_channels / groups, height, width). Raises RangeError, GraphError, DTypeError.

    >>> import wengert as wg
    >>> wg.nn.Conv2d(3, 8, 3, stride=2, padding=1, padding_mode="reflect")(wg.zeros((1, 3, 9, 9))).shape
    (1, 8, 5, 5)
    """

    _ndim = 2
    _compute = staticmethod(F.conv2d)


class Conv3d(ForwardConv):
    """A convolution (cross-correlation) over the last three axes: (N, C, D, H, W) or (C, D, H, W).

    Parameters are those of :class:`Conv2d`.

    >>> import wengert as wg
    >>> wg.nn.Conv3d(1, 2, 2)(wg.zeros((1, 3, 4, 5))).shape
    (2, 2, 3, 4)
    """

    _ndim = 3
    _compute = staticmethod(F.conv3d)


class TransposedConv(ConvBase):
    """The base of transposed convolutions."""

    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = stride, padding, dilation, output_padding, groups, bias, padding_mode, device, dtype
        super().__init__(in_channels, out_channels, kernel_size, *options)

    def _output_padding(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """Return what to add at the end for a result of a given size. Raises ShapeError where no number does."""
        n = self._ndim
        wanted = tuple(int(m) for m in output_size)[-n:]
        geometry = zip(input.shape[-n:], self.stride, self.padding, self.dilation, self.kernel_size)
        least = [(m - 1) * s - 2 * p + d * (k - 1) + 1 for m, s, p, d, k in geometry]
        if len(wanted) != n or any(not low <= m < low + s for m, low, s in zip(wanted, least, self.stride)):
            most = [low + s - 1 for low, s in zip(least, self.stride)]
            fail(ShapeError, f"{type(self).__name__}: output_size={output_size}", f"It lies from {least} to {most}.")
        return tuple(m - low for m, low in zip(wanted, least))

    def forward(self, input: Any, output_size: Any = None) -> Tensor:
        """Map (N, in_channels, *sizes) to (N, out_channels, *sizes), of the several that are possible `output_size`."""
        extra = self.output_padding if output_size is None else self._output_padding(asarray(input), output_size)
        options = self.stride, self.padding, extra, self.groups, self.dilation
        return type(self)._compute(input, self.weight, self.bias, *options)  # type: ignore[no-any-return]


class ConvTranspose1d(TransposedConv):
    """The transpose of :class:`Conv1d`: a stride makes the result longer. See :class:`ConvTranspose2d`.

    >>> import wengert as wg
    >>> wg.nn.ConvTranspose1d(2, 3, kernel_size=2, stride=2)(wg.ones((1, 2, 5))).shape
    (1, 3, 10)
    """

    _ndim = 1
    _compute = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(TransposedConv):
    """The transpose of :class:`Conv2d` (a "deconvolution"): a stride makes the result larger.

    `weight` is (in_channels, out_channels / groups, height, width); `output_padding` adds rows and columns at the end.

    >>> import wengert as wg
    >>> wg.nn.ConvTranspose2d(4, 2, 2, stride=2)(wg.zeros((1, 4, 5, 5))).shape
    (1, 2, 10, 10)
    """

    _ndim = 2
    _compute = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(TransposedConv):
    """The transpose of :class:`Conv3d`. See :class:`ConvTranspose2d`.

    >>> import wengert as wg
    >>> wg.nn.ConvTranspose3d(2, 3, 2, stride=2)(wg.ones((2, 2, 2, 2))).shape
    (3, 4, 4, 4)
    """

    _ndim = 3
    _compute = staticmethod(F.conv_transpose3d)


def _shown(layer: Module, *names: str) -> str:
    return ", ".join(f"{name}={getattr(layer, name)}" for name in names)


class Unfold(Module):
    """The windows of images as columns; see :func:`wengert.nn.functional.unfold`.

    >>> import wengert as wg
    >>> wg.nn.Unfold(2)(wg.ones((1, 3, 4, 4))).shape
    (1, 12, 9)
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Any) -> Tensor:
        """Map (N, C, H, W) to (N, C KH KW, windows)."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the window for `repr`."""
        return _shown(self, "kernel_size", "dilation", "padding", "stride")


class Fold(Module):
    """The sum of columns where their windows lie in images: the transpose of :class:`Unfold`.

    >>> import wengert as wg
    >>> wg.nn.Fold((2, 3), 2)(wg.ones((1, 4, 2))).shape
    (1, 1, 2, 3)
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Any) -> Tensor:
        """Map (N, C KH KW, windows) to (N, C, *output_size)."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the size and the window for `repr`."""
        return _shown(self, "output_size", "kernel_size", "dilation", "padding", "stride")
