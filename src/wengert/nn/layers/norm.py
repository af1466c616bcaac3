"""Normalisation layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import asarray, finfo, ones, zeros
from ...core.errors import RangeError, ShapeError, fail
from ...core.standins import present, weak
from ...core.tensor import Tensor
from ...ops.neural.normalization import follows
from .. import functional as F
from ..checks import size
from ..module import Module
from ..parameter import Parameter


def _normalized_shape(value: int | Sequence[int]) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    if not values:
        fail(RangeError, "normalized_shape must name one axis at least")
    return tuple(size("normalized_shape", v) for v in values)


class LayerNorm(Module):
    """A normalisation to zero mean and unit variance over the last axes of every sample, then `weight` and `bias`.

    Parameters
    ----------
    normalized_shape: the size of the last axis, or of several.
    eps: added to the variance.
    elementwise_affine: whether there is a weight.
    bias: whether there is a bias beside it.
    dtype: of the parameters; the default float where left out.
    device: where they are, as in :func:`wengert.zeros`.

    Source: Ba, Kiros, Hinton, arXiv:1607.06450.

    >>> import wengert as wg
    >>> y = wg.nn.LayerNorm(4)(wg.tensor([1.0, 2.0, 3.0, 4.0]))
    >>> abs(round(y.mean().item(), 4))
    0.0
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = shape = _normalized_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight", Parameter(ones(shape, dtype=dtype, device=device)) if elementwise_affine else None
        )
        self.register_parameter(
            "bias", Parameter(zeros(shape, dtype=dtype, device=device)) if elementwise_affine and bias else None
        )

    def forward(self, x: Any) -> Tensor:
        """Map (..., *normalized_shape) to the same shape."""
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """A division of the last axes of every sample by their root mean square, then `weight`.

    Parameters are those of :class:`LayerNorm`; `eps=None` is the dtype's machine epsilon.

    Source: Zhang, Sennrich, arXiv:1910.07467.

    >>> import wengert as wg
    >>> wg.nn.RMSNorm(2)(wg.tensor([3.0, 3.0]))
    tensor([1., 1.], grad_fn=<RmsNormBackward>)
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = shape = _normalized_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight", Parameter(ones(shape, dtype=dtype, device=device)) if elementwise_affine else None
        )

    def forward(self, x: Any) -> Tensor:
        """Map (..., *normalized_shape) to the same shape."""
        eps = finfo(asarray(x).dtype).eps if self.eps is None else self.eps
        return F.rms_norm(x, self.normalized_shape, self.weight, eps)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """A normalisation of groups of channels of every sample, then a weight and a bias per channel.

    Source: Wu, He, arXiv:1803.08494.

    Raises RangeError for channels that do not fall into equal groups.

    >>> import wengert as wg
    >>> wg.nn.GroupNorm(2, 4)(wg.ones((1, 4, 5))).shape
    (1, 4, 5)
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.num_groups = size("num_groups", num_groups)
        self.num_channels = size("num_channels", num_channels)
        if num_channels % num_groups:
            fail(RangeError, f"{num_channels} channels do not fall into {num_groups} equal groups")
        self.eps = eps
        self.affine = affine
        self.register_parameter("weight", Parameter(ones(num_channels, dtype=dtype, device=device)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_channels, dtype=dtype, device=device)) if affine else None)

    def forward(self, x: Any) -> Tensor:
        """Map (N, num_channels, ...) to the same shape."""
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _BatchNorm(Module):
    """The base of batch norms of any dimension."""

    _ndims: tuple[int, ...] = ()
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        n = self.num_features = size("num_features", num_features)
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.register_parameter("weight", Parameter(ones(n, dtype=dtype, device=device)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(n, dtype=dtype, device=device)) if affine else None)
        self.register_buffer("running_mean", zeros(n, dtype=dtype, device=device) if track_running_stats else None)
        self.register_buffer("running_var", ones(n, dtype=dtype, device=device) if track_running_stats else None)
        self.register_buffer(
            "num_batches_tracked", zeros((), dtype="int64", device=device) if track_running_stats else None
        )

    def reset_running_stats(self) -> None:
        """Forget the running mean and variance."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.assign_(zeros(self.num_features))
            self.running_var.assign_(ones(self.num_features))
            self.num_batches_tracked.assign_(zeros((), dtype="int64"))

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, num_features, ...) to the same shape; in training the running statistics go on."""
        self._check(x)
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None and follows(x):
            self.num_batches_tracked.assign_(self.num_batches_tracked + 1)
            if self.momentum is None:
                momentum = 1.0 / _number(self.num_batches_tracked)
        use_batch = self.training or self.running_mean is None
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, use_batch, momentum, self.eps
        )

    def _check(self, x: Tensor) -> None:
        if x.ndim not in self._ndims or x.shape[1] != self.num_features:
            fail(
                ShapeError,
                f"{type(self).__name__} of {x.spec} with num_features={self.num_features}",
                f"The input has {' or '.join(map(str, self._ndims))} dimensions: (N, num_features, ...).",
            )
        if self.training and math.prod(x.shape) <= self.num_features:
            fail(
                ShapeError,
                f"{type(self).__name__} in training with fewer than two values per channel, {x.spec}",
                "A variance needs two values: use a larger batch, drop the last one, or call eval().",
            )

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


def _number(count: Tensor) -> Any:
    """Return a count as the Python number that it is, or will be when a compiled function runs."""
    return weak(present(count)) if count.is_abstract else count.item()


class BatchNorm1d(_BatchNorm):
    """A normalisation of every channel over the batch, then a weight and a bias per channel.

    Parameters
    ----------
    num_features: the number of channels, axis 1 of (N, C) or (N, C, L).
    eps: added to the variance.
    momentum: how much of a batch enters the running statistics; None for their plain average.
    affine: whether there are a weight and a bias.
    track_running_stats: keep running statistics and use them in evaluation.
    dtype: of the parameters and buffers; the default float where left out.
    device: where they are, as in :func:`wengert.zeros`.

    Running statistics follow batches that have values and, in a compiled function (`wg.jit`), those of
    every call; not those of other traces: of `wg.graph`, `vmap` or a loop.

    Source: Ioffe, Szegedy, arXiv:1502.03167.

    >>> import wengert as wg
    >>> wg.nn.BatchNorm1d(1, affine=False)(wg.tensor([[1.0], [3.0]]))
    tensor([[-1.],
            [ 1.]])
    """

    _ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """:class:`BatchNorm1d` for images, (N, C, H, W).

    >>> import wengert as wg
    >>> wg.nn.BatchNorm2d(3)(wg.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    _ndims = (4,)
