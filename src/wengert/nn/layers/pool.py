"""Pooling, and back: the functions of :mod:`wengert.nn.functional` with their options held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import GraphError, fail
from ...core.tensor import Tensor
from ..functions import pooling as F
from ..module import Module

Sizes = int | Sequence[int]
Wanted = int | Sequence[int | None] | None


class _Pool(Module):
    """The base of layers that hold a function's options, which `repr` shows."""

    _ndim = 0
    _compute: Callable[..., Any]
    _shown: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


class _MaxPool(_Pool):
    """A pooling by the largest element of windows; the stride is the window's size unless given.

    Parameters are those of :func:`wengert.nn.functional.max_pool2d`.
    """

    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
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
        options = self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        return type(self)._compute(input, self.kernel_size, *options)


class MaxPool1d(_MaxPool):
    """A pooling by the largest element of windows along the last axis; the stride is the window's size unless given.

    >>> import wengert as wg
    >>> wg.nn.MaxPool1d(2)(wg.tensor([[[1.0, 3.0, 7.0, 5.0]]]))
    tensor([[[3., 7.]]])
    """

    _compute = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """A pooling by the largest element of windows over the last two axes; see :func:`wengert.nn.functional.max_pool2d`.

    >>> import wengert as wg
    >>> wg.nn.MaxPool2d(2, return_indices=True)(wg.tensor([[[1.0, 2.0], [4.0, 3.0]]]))
    (tensor([[[4.]]]), tensor([[[2]]]))
    """

    _compute = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """A pooling by the largest element of windows over the last three axes.

    >>> import wengert as wg
    >>> wg.nn.MaxPool3d(2)(wg.ones((1, 4, 4, 4))).shape
    (1, 2, 2, 2)
    """

    _compute = staticmethod(F.max_pool3d)


class _MaxUnpool(_Pool):
    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = (
            (value,) * self._ndim if isinstance(value, int) else tuple(value)
            for value in (kernel_size, stride if stride is not None else kernel_size, padding)
        )

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Tensor:
        """Return the values at their places in zeros."""
        options = self.kernel_size, self.stride, self.padding, output_size
        return type(self)._compute(input, indices, *options)  # type: ignore[no-any-return]


class MaxUnpool1d(_MaxUnpool):
    """The reverse of :class:`MaxPool1d`: maxima go back to their places, the other elements are 0.

    >>> import wengert as wg
    >>> wg.nn.MaxUnpool1d(2)(wg.tensor([[3.0, 7.0]]), wg.tensor([[1, 2]]))
    tensor([[0., 3., 7., 0.]])
    """

    _ndim = 1
    _compute = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """The reverse of :class:`MaxPool2d`: maxima go back to their places, the other elements are 0.

    >>> import wengert as wg
    >>> values, places = wg.nn.MaxPool2d(2, return_indices=True)(wg.tensor([[[1.0, 2.0], [4.0, 3.0]]]))
    >>> wg.nn.MaxUnpool2d(2)(values, places).tolist()
    [[[0.0, 0.0], [4.0, 0.0]]]
    """

    _ndim = 2
    _compute = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """The reverse of :class:`MaxPool3d`: maxima go back to their places, the other elements are 0.

    >>> import wengert as wg
    >>> values, places = wg.nn.MaxPool3d(2, return_indices=True)(wg.ones((1, 2, 2, 4)))
    >>> wg.nn.MaxUnpool3d(2)(values, places).shape
    (1, 2, 2, 4)
    """

    _ndim = 3
    _compute = staticmethod(F.max_unpool3d)


class AvgPool1d(_Pool):
    """A pooling by the mean of windows along the last axis; the stride is the window's size unless given.

    >>> import wengert as wg
    >>> wg.nn.AvgPool1d(2)(wg.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
    tensor([[[2., 6.]]])
    """

    _shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = (
            (value,) if isinstance(value, int) else tuple(value)
            for value in (kernel_size, stride if stride is not None else kernel_size, padding)
        )
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Tensor:
        """Return the means of windows."""
        options = self.stride, self.padding, self.ceil_mode, self.count_include_pad
        return F.avg_pool1d(input, self.kernel_size, *options)  # type: ignore[no-any-return]


class _AvgPool(_Pool):
    _shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
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
        options = self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override
        return type(self)._compute(input, self.kernel_size, *options)  # type: ignore[no-any-return]


class AvgPool2d(_AvgPool):
    """A pooling by the mean of windows over the last two axes; see :func:`wengert.nn.functional.avg_pool2d`.

    >>> import wengert as wg
    >>> wg.nn.AvgPool2d(2)(wg.ones((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    _compute = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """A pooling by the mean of windows over the last three axes.

    >>> import wengert as wg
    >>> wg.nn.AvgPool3d(2)(wg.ones((1, 4, 4, 4))).shape
    (1, 2, 2, 2)
    """

    _compute = staticmethod(F.avg_pool3d)


class _LPPool(_Pool):
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Tensor:
        """Return the norms of windows."""
        options = float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        return type(self)._compute(input, *options)  # type: ignore[no-any-return]


class LPPool1d(_LPPool):
    """A pooling by the root of the sum of powers of windows along the last axis.

    >>> import wengert as wg
    >>> wg.nn.LPPool1d(2, 2)(wg.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    _compute = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """A pooling by the root of the sum of powers of windows over the last two axes.

    >>> import wengert as wg
    >>> wg.nn.LPPool2d(2, 2)(wg.ones((1, 2, 4))).tolist()
    [[[2.0, 2.0]]]
    """

    _compute = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """A pooling by the root of the sum of powers of windows over the last three axes.

    >>> import wengert as wg
    >>> wg.nn.LPPool3d(1, 2)(wg.ones((1, 2, 2, 2))).tolist()
    [[[[8.0]]]]
    """

    _compute = staticmethod(F.lp_pool3d)


class _AdaptiveAvgPool(_Pool):
    _shown = ("output_size",)

    def __init__(self, output_size: Wanted) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Tensor:
        """Return as many means as `output_size` says."""
        return type(self)._compute(input, self.output_size)  # type: ignore[no-any-return]


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """A pooling by means of windows chosen so that the result has a given length.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveAvgPool1d(2)(wg.tensor([[1.0, 3.0, 5.0, 7.0]]))
    tensor([[2., 6.]])
    """

    _compute = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """A pooling by means of windows chosen so that the result has a given height and width.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveAvgPool2d((1, None))(wg.ones((2, 3, 8, 8))).shape
    (2, 3, 1, 8)
    """

    _compute = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """A pooling by means of windows chosen so that the result has a given depth, height and width.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveAvgPool3d(1)(wg.ones((3, 4, 4, 4))).shape
    (3, 1, 1, 1)
    """

    _compute = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPool(_Pool):
    _shown = ("output_size",)

    def __init__(self, output_size: Wanted, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Any) -> Any:
        """Return as many maxima as `output_size` says; with `return_indices` their places too."""
        return type(self)._compute(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """A pooling by maxima of windows chosen so that the result has a given length.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveMaxPool1d(2)(wg.tensor([[1.0, 3.0, 5.0, 7.0]]))
    tensor([[3., 7.]])
    """

    _compute = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """A pooling by maxima of windows chosen so that the result has a given height and width.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveMaxPool2d(1)(wg.tensor([[[1.0, 2.0], [4.0, 3.0]]])).tolist()
    [[[4.0]]]
    """

    _compute = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """A pooling by maxima of windows chosen so that the result has a given depth, height and width.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveMaxPool3d(1)(wg.ones((3, 4, 4, 4))).shape
    (3, 1, 1, 1)
    """

    _compute = staticmethod(F.adaptive_max_pool3d)


class _FractionalMaxPool(_Pool):
    _random_samples: Any

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
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
        options = self.output_size, self.output_ratio, self.return_indices, self._random_samples
        return type(self)._compute(input, self.kernel_size, *options)


class FractionalMaxPool2d(_FractionalMaxPool):
    """A pooling by maxima of windows placed by chance; see :func:`wengert.nn.functional.fractional_max_pool2d`.

    >>> import wengert as wg
    >>> wg.nn.FractionalMaxPool2d(2, output_size=(3, 4))(wg.ones((1, 3, 7, 7))).shape
    (1, 3, 3, 4)
    """

    _ndim = 2
    _compute = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """A pooling of volumes by maxima of windows placed by chance.

    >>> import wengert as wg
    >>> wg.nn.FractionalMaxPool3d(2, output_ratio=0.5)(wg.ones((1, 1, 6, 6, 6))).shape
    (1, 1, 3, 3, 3)
    """

    _ndim = 3
    _compute = staticmethod(F.fractional_max_pool3d)
