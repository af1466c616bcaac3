"""Normalisation layers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from ... import asarray, einsum, expand_dims, ones, squeeze, zeros
from ...core.errors import RangeError, ShapeError, fail
from ...core.standins import present, weak
from ...core.tensor import Tensor
from ...ops.neural.normalization import follows
from .. import functional as F
from .. import init
from ..checks import size
from ..module import Module
from ..parameter import Parameter


def _normalized_shape(value: int | Sequence[int]) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    if not values:
        fail(RangeError, "normalized_shape must name one axis at least")
    return tuple(size("normalized_shape", v) for v in values)


def _reset(weight: Any, bias: Any) -> None:
    """Set a weight to 1 and a bias to 0, where there are such."""
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)


class LayerNorm(Module):
    """A normalisation to zero mean and unit variance over the last axes of every sample, then `weight` and `bias`.

    Parameters
    ----------
    normalized_shape: the size of the last axis, or of several.
    eps: added to the variance.
    elementwise_affine: whether there is a weight.
    bias: whether there is a bias beside it.
    device: where the parameters are, as in :func:`wengert.zeros`.
    dtype: of the parameters; the default float where left out.

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
        device: Any = None,
        dtype: Any = None,
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

    def forward(self, input: Any) -> Tensor:
        """Map (..., *normalized_shape) to the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        _reset(self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = shape = _normalized_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight", Parameter(ones(shape, dtype=dtype, device=device)) if elementwise_affine else None
        )

    def forward(self, input: Any) -> Tensor:
        """Map (..., *normalized_shape) to the same shape."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        _reset(self.weight, None)

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
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_groups = size("num_groups", num_groups)
        self.num_channels = size("num_channels", num_channels)
        if num_channels % num_groups:
            fail(RangeError, f"{num_channels} channels do not fall into {num_groups} equal groups")
        self.eps = eps
        self.affine = affine
        self.register_parameter("weight", Parameter(ones(num_channels, dtype=dtype, device=device)) if affine else None)
        self.register_parameter(
            "bias", Parameter(zeros(num_channels, dtype=dtype, device=device)) if affine and bias else None
        )

    def forward(self, input: Any) -> Tensor:
        """Map (N, num_channels, ...) to the same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        _reset(self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        options = f"eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, {options}"


class NormBase(Module):
    """The base of batch and instance norms: a weight and a bias per channel, and running statistics."""

    _ndims: tuple[int, ...] = ()
    # Files older than the count of batches load all the same.
    _may_lack = frozenset({"num_batches_tracked"})
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = n = size("num_features", num_features, 0)
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.register_parameter("weight", Parameter(ones(n, dtype=dtype, device=device)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(n, dtype=dtype, device=device)) if affine and bias else None)
        self.register_buffer("running_mean", zeros(n, dtype=dtype, device=device) if track_running_stats else None)
        self.register_buffer("running_var", ones(n, dtype=dtype, device=device) if track_running_stats else None)
        self.register_buffer(
            "num_batches_tracked", zeros((), dtype="int64", device=device) if track_running_stats else None
        )

    def reset_running_stats(self) -> None:
        """Forget the running mean and variance."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Forget the running statistics, and set weight and bias to 1 and 0."""
        self.reset_running_stats()
        _reset(self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


def _number(count: Tensor) -> Any:
    """Return a count as the Python number that it is, or will be when a compiled function runs."""
    return weak(present(count)) if count.is_abstract else count.item()


class BatchNorm(NormBase):
    """The base of batch norms of any number of dimensions."""

    def forward(self, input: Any) -> Tensor:
        """Map (N, num_features, ...) to the same shape; in training the running statistics go on. Raises ShapeError."""
        self._check_input_dim(input)
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        tracks = self.training and self.track_running_stats
        if tracks and self.num_batches_tracked is not None and follows(input):
            self.num_batches_tracked.assign_(self.num_batches_tracked + 1)
            if self.momentum is None:
                momentum = 1.0 / _number(self.num_batches_tracked)
        held = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if held else None,
            self.running_var if held else None,
            self.weight,
            self.bias,
            self.training or (self.running_mean is None and self.running_var is None),
            momentum,
            self.eps,
        )

    def _check_input_dim(self, input: Any) -> None:
        if (input.ndim not in self._ndims if self._ndims else input.ndim < 2) or input.shape[1] != self.num_features:
            fail(
                ShapeError,
                f"{type(self).__name__} of {input.spec} with num_features={self.num_features}",
                f"The input has {' or '.join(map(str, self._ndims)) or '2 or more'} dimensions, (N, C, ...).",
            )
        if self.training and math.prod(input.shape) <= self.num_features and input.shape[0]:
            fail(
                ShapeError,
                f"Expected more than 1 value per channel when training, got input size {tuple(input.shape)}",
                "A variance needs two values: use a larger batch, drop the last one, or call eval().",
            )


class BatchNorm1d(BatchNorm):
    """A normalisation of every channel over the batch, then a weight and a bias per channel.

    Parameters
    ----------
    num_features: the number of channels, axis 1 of (N, C) or (N, C, L).
    eps: added to the variance.
    momentum: how much of a batch enters the running statistics; None for their plain average.
    affine: whether there are a weight and (by `bias`) a bias.
    track_running_stats: keep running statistics and use them in evaluation.
    device: where parameters and buffers are, as in :func:`wengert.zeros`.
    dtype: theirs; the default float where left out.

    Running statistics follow batches that have values and, in a compiled function (`wg.jit`), those of
    every call; not those of other traces: of `wg.graph`, `vmap` or a loop.

    Source: Ioffe, Szegedy, arXiv:1502.03167.

    >>> import wengert as wg
    >>> wg.nn.BatchNorm1d(1, affine=False)(wg.tensor([[1.0], [3.0]]))
    tensor([[-1.],
            [ 1.]])
    """

    _ndims = (2, 3)


class BatchNorm2d(BatchNorm):
    """:class:`BatchNorm1d` for images, (N, C, H, W).

    >>> import wengert as wg
    >>> wg.nn.BatchNorm2d(3)(wg.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    _ndims = (4,)


class BatchNorm3d(BatchNorm):
    """:class:`BatchNorm1d` for volumes, (N, C, D, H, W).

    >>> import wengert as wg
    >>> wg.nn.BatchNorm3d(3)(wg.ones((2, 3, 4, 4, 4))).shape
    (2, 3, 4, 4, 4)
    """

    _ndims = (5,)


class SyncBatchNorm(BatchNorm):
    """:class:`BatchNorm1d` of any number of dimensions. There is one process, so nothing is to be synchronised.

    >>> import wengert as wg
    >>> model = wg.nn.SyncBatchNorm.convert_sync_batchnorm(wg.nn.Sequential(wg.nn.BatchNorm2d(3)))
    >>> type(model[0]).__name__
    'SyncBatchNorm'
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """Return the module with all batch norms in it as of this class, with their parameters and buffers."""
        if isinstance(module, BatchNorm):
            made = cls.__new__(cls)
            caches = ("_mode", "_compiled", "_cells")
            made.__dict__.update({k: v for k, v in module.__dict__.items() if k not in caches})
            made.__dict__["process_group"] = process_group
            return made
        for name, child in module.named_children():
            module._register("_modules", name, cls.convert_sync_batchnorm(child, process_group))
        return module


class InstanceNorm(NormBase):
    """The base of instance norms: (N, C, ...), or (C, ...) without a batch."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        """Return the number of dimensions of an input without a batch; a subclass of a program's own says it so."""
        return self._ndims[0]

    def forward(self, input: Any) -> Tensor:
        """Map (N, num_features, ...) or (num_features, ...) to the same shape. Raises ShapeError."""
        alone = self._get_no_batch_dim()
        if input.ndim not in (alone, alone + 1):
            fail(
                ShapeError,
                f"{type(self).__name__} of {tuple(input.shape)}",
                f"It has {alone} or {alone + 1} dimensions: (N, C, ...), or (C, ...).",
            )
        single = input.ndim == alone
        channels = input.shape[0 if single else 1]
        if channels != self.num_features:
            if self.affine:
                fail(ShapeError, f"{type(self).__name__}({self.num_features}) of {channels} channels")
            warnings.warn(
                f"input's size at dim={0 if single else 1} does not match num_features, "
                "which is not used because affine=False",
                stacklevel=2,
            )
        out = F.instance_norm(
            expand_dims(input, 0) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return squeeze(out, axis=0) if single else out


class InstanceNorm1d(InstanceNorm):
    """A normalisation of every channel of each sample, (N, C, L) or (C, L). Source: Ulyanov et al., arXiv:1607.08022.

    Parameters are those of :class:`BatchNorm1d`, with neither weights nor running statistics unless asked for.

    >>> import wengert as wg
    >>> wg.nn.InstanceNorm1d(1)(wg.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.,  1.]]])
    """

    _ndims = (2, 3)


class InstanceNorm2d(InstanceNorm):
    """:class:`InstanceNorm1d` for images, (N, C, H, W) or (C, H, W).

    >>> import wengert as wg
    >>> wg.nn.InstanceNorm2d(3)(wg.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    _ndims = (3, 4)


class InstanceNorm3d(InstanceNorm):
    """:class:`InstanceNorm1d` for volumes, (N, C, D, H, W) or (C, D, H, W).

    >>> import wengert as wg
    >>> wg.nn.InstanceNorm3d(3)(wg.ones((2, 3, 4, 4, 4))).shape
    (2, 3, 4, 4, 4)
    """

    _ndims = (4, 5)


class LocalResponseNorm(Module):
    """A division of every channel by a power of the mean square of its neighbours'.

    Source: Krizhevsky et al. 2012, NIPS 25.

    >>> import wengert as wg
    >>> wg.nn.LocalResponseNorm(2, alpha=2.0, beta=1.0)(wg.ones((1, 2, 1)))
    tensor([[[0.5   ],
             [0.3333]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Any) -> Tensor:
        """Map (N, C, ...) to the same shape."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """A division of every channel of images by a power of the sum of its neighbours' squares, over the window's size.

    The window reaches (size - 1) // 2 channels to both sides; as in PyTorch, the first channel belongs to every window.
    Source: Krizhevsky et al. 2012, NIPS 25.

    >>> import wengert as wg
    >>> wg.nn.CrossMapLRN2d(1, alpha=1.0, beta=1.0)(wg.ones((1, 1, 1, 2)))
    tensor([[[[0.5, 0.5]]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Any) -> Tensor:
        """Map (N, C, H, W) to the same shape. Raises ShapeError for another number of axes."""
        input = asarray(input)
        if input.ndim != 4:
            fail(ShapeError, f"CrossMapLRN2d of {tuple(input.shape)}", "It takes (N, C, H, W).")
        reach, channels = (self.size - 1) // 2, input.shape[1]
        near = [[abs(i - j) <= reach or j == 0 for j in range(channels)] for i in range(channels)]
        squares = einsum("ij,njhw->nihw", asarray(near).astype(input.dtype), input * input)
        out: Tensor = input * (squares * (self.alpha / self.size) + self.k) ** -self.beta
        return out
