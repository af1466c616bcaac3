"""Layers of pooling, and back: the functions of :mod:`wengert.torch.nn.kinds.pooling` with their options held."""

from __future__ import annotations

from typing import Any

from ....core.errors import GraphError, fail
from ...tensor import Tensor
from ..kinds import pooling as kinds
from ..module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _Pool(Module):
    """The base of layers that hold a function's options, which `repr` shows."""

    _ndim = 0
    _shown: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


class _MaxPool(_Pool):
    return_indices = False  # layers of `wengert.nn` that are taken in have none
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Any:
        """Return the maxima of windows; with `return_indices` their places too."""
        pool = getattr(kinds, f"max_pool{self._ndim}d")
        options = self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        return pool(input, self.kernel_size, *options)


class MaxPool1d(_MaxPool):
    """A pooling by the largest element of windows along the last axis; the stride is the window's size unless given.

    >>> import wengert.torch as torch
    >>> torch.nn.MaxPool1d(2)(torch.tensor([[[1.0, 3.0, 7.0, 5.0]]]))
    tensor([[[3., 7.]]])
    """

    _ndim = 1


class MaxPool2d(_MaxPool):
    """A pooling by the largest element of windows over the last two axes; see :func:`torch.nn.functional.max_pool2d`.

    >>> import wengert.torch as torch
    >>> torch.nn.MaxPool2d(2, return_indices=True)(torch.tensor([[[1.0, 2.0], [4.0, 3.0]]]))
    (tensor([[[4.]]]), tensor([[[2]]]))
    """

    _ndim = 2


class MaxPool3d(_MaxPool):
    """A pooling by the largest element of windows over the last three axes."""

    _ndim = 3


class _MaxUnpool(_Pool):
    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = (
            value if isinstance(value, (tuple, list)) else (value,) * self._ndim
            for value in (kernel_size, stride if stride is not None else kernel_size, padding)
        )

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Tensor:
        """Return the values at their places in zeros."""
        unpool = getattr(kinds, f"max_unpool{self._ndim}d")
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)  # type: ignore


class MaxUnpool1d(_MaxUnpool):
    """The reverse of :class:`MaxPool1d`: maxima go back to their places, the other elements are 0."""

    _ndim = 1


class MaxUnpool2d(_MaxUnpool):
    """The reverse of :class:`MaxPool2d`: maxima go back to their places, the other elements are 0.

    >>> import wengert.torch as torch
    >>> values, places = torch.nn.MaxPool2d(2, return_indices=True)(torch.tensor([[[1.0, 2.0], [4.0, 3.0]]]))
    >>> torch.nn.MaxUnpool2d(2)(values, places).tolist()
    [[[0.0, 0.0], [4.0, 0.0]]]
    """

    _ndim = 2


class MaxUnpool3d(_MaxUnpool):
    """The reverse of :class:`MaxPool3d`: maxima go back to their places, the other elements are 0."""

    _ndim = 3


class AvgPool1d(_Pool):
    """A pooling by the mean of windows along the last axis; the stride is the window's size unless given.

    >>> import wengert.torch as torch
    >>> torch.nn.AvgPool1d(2)(torch.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
    tensor([[[2., 6.]]])
    """

    _shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = (
            tuple(value) if isinstance(value, (tuple, list)) else (value,)
            for value in (kernel_size, stride if stride is not None else kernel_size, padding)
        )
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Tensor:
        """Return the means of windows."""
        options = self.stride, self.padding, self.ceil_mode, self.count_include_pad
        return kinds.avg_pool1d(input, self.kernel_size, *options)  # type: ignore[no-any-return]


class _AvgPool(_Pool):
    divisor_override: int | None = None  # layers of `wengert.nn` that are taken in have none
    _shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Any) -> Tensor:
        """Return the means of windows."""
        pool = getattr(kinds, f"avg_pool{self._ndim}d")
        options = self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override
        return pool(input, self.kernel_size, *options)  # type: ignore[no-any-return]


class AvgPool2d(_AvgPool):
    """A pooling by the mean of windows over the last two axes; see :func:`torch.nn.functional.avg_pool2d`.

    >>> import wengert.torch as torch
    >>> torch.nn.AvgPool2d(2)(torch.ones(1, 3, 8, 8)).shape
    torch.Size([1, 3, 4, 4])
    """

    _ndim = 2


class AvgPool3d(_AvgPool):
    """A pooling by the mean of windows over the last three axes."""

    _ndim = 3


class _LPPool(_Pool):
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Tensor:
        """Return the norms of windows."""
        pool = getattr(kinds, f"lp_pool{self._ndim}d")
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)  # type: ignore


class LPPool1d(_LPPool):
    """A pooling by the root of the sum of powers of windows along the last axis."""

    _ndim = 1


class LPPool2d(_LPPool):
    """A pooling by the root of the sum of powers of windows over the last two axes."""

    _ndim = 2


class LPPool3d(_LPPool):
    """A pooling by the root of the sum of powers of windows over the last three axes."""

    _ndim = 3


class _AdaptiveAvgPool(_Pool):
    _shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Tensor:
        """Return as many means as `output_size` says."""
        pool = getattr(kinds, f"adaptive_avg_pool{self._ndim}d")
        return pool(input, self.output_size)  # type: ignore[no-any-return]


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """A pooling by means of windows chosen so that the result has a given length."""

    _ndim = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """A pooling by means of windows chosen so that the result has a given height and width.

    >>> import wengert.torch as torch
    >>> torch.nn.AdaptiveAvgPool2d((1, None))(torch.ones(2, 3, 8, 8)).shape
    torch.Size([2, 3, 1, 8])
    """

    _ndim = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """A pooling by means of windows chosen so that the result has a given depth, height and width."""

    _ndim = 3


class _AdaptiveMaxPool(_Pool):
    _shown = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Any) -> Any:
        """Return as many maxima as `output_size` says; with `return_indices` their places too."""
        pool = getattr(kinds, f"adaptive_max_pool{self._ndim}d")
        return pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """A pooling by maxima of windows chosen so that the result has a given length."""

    _ndim = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """A pooling by maxima of windows chosen so that the result has a given height and width."""

    _ndim = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """A pooling by maxima of windows chosen so that the result has a given depth, height and width."""

    _ndim = 3


class _FractionalMaxPool(_Pool):
    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        self._random_samples: Any
        if (output_size is None) == (output_ratio is None):
            fail(GraphError, f"{type(self).__name__}: one of output_size and output_ratio is given, not both")
        self.kernel_size, self.output_size, self.output_ratio = (
            value if value is None or isinstance(value, (tuple, list)) else (value,) * self._ndim
            for value in (kernel_size, output_size, output_ratio)
        )
        if output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio or ()):
            fail(GraphError, f"{type(self).__name__}: output_ratio={output_ratio}", "Ratios lie between 0 and 1.")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Any) -> Any:
        """Return the maxima of windows placed by chance; with `return_indices` their places too."""
        pool = getattr(kinds, f"fractional_max_pool{self._ndim}d")
        sizes = self.output_size, self.output_ratio
        return pool(input, self.kernel_size, *sizes, self.return_indices, self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """A pooling by maxima of windows placed by chance; see :func:`torch.nn.functional.fractional_max_pool2d`."""

    _ndim = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """A pooling of volumes by maxima of windows placed by chance."""

    _ndim = 3
