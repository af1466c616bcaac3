"""Normalisations with PyTorch's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import wengert as wg

from ....core.errors import ShapeError, fail
from ....core.tensor import Tensor
from ....nn import functional as plain
from ....ops.index.formats import with_channels_last
from ....ops.neural.normalization import follows
from ....ops.reduce.norms import vector_norm
from ...namespace import give
from ...tensor import contiguous_format, formatted

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return every channel of (N, C, ...) less its mean, over its deviation, times a weight, plus a bias.

    Parameters
    ----------
    running_mean, running_var: (C,), or None. In training they move by `momentum` towards the batch's mean and
        unbiased variance; else they are what is used.
    weight, bias: (C,), or None.
    eps: added to the variance.

    Raises ShapeError. Source: Ioffe and Szegedy 2015, arXiv:1502.03167.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.batch_norm(torch.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.],
            [ 1.]])
    """
    if not input.numel():  # of nothing there are no statistics; parameters have zero gradients
        out = input * 1.0
        if input.ndim > 1 and input.shape[1]:
            out = out if weight is None else out * weight[0]
            out = out if bias is None else out + bias[0]
        return _narrow(out, input)  # type: ignore[no-any-return]
    out = plain.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return with_channels_last(_narrow(out, input), input)  # type: ignore[no-any-return]


def _narrow(out: Any, input: Any) -> Any:
    """Return a result in the dtype of a 16-bit input, which parameters of a wider one do not change."""
    return out.astype(input.dtype) if out.dtype != input.dtype and input.dtype.itemsize == 2 else out


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return every channel of each sample of (N, C, ...) less its mean, over its deviation; then weight and bias.

    Parameters
    ----------
    running_mean, running_var: (C,), or None. With `use_input_stats` they move by `momentum` towards the means over
        the batch of its means and unbiased variances; else they are what is used.
    weight, bias: (C,), or None.

    Raises ShapeError. Source: Ulyanov et al. 2016, arXiv:1607.08022.
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if input.ndim < 3:
        fail(ShapeError, f"instance_norm of {tuple(input.shape)}", "It takes (N, C, ...).")
    channels, each = input.shape[1], prod(input.shape[2:])
    if each == 1:
        fail(ShapeError, f"Expected more than 1 spatial element when training, got input size {tuple(input.shape)}")
    beside = (channels, *(1,) * (input.ndim - 2))
    out: Any = plain.layer_norm(input, input.shape[2:], None, None, eps)
    if weight is not None:
        out = out * weight.reshape(beside)
    if bias is not None:
        out = out + bias.reshape(beside)
    if running_mean is not None and running_var is not None and follows(input):
        given, spatial = input.detach(), tuple(range(2, input.ndim))
        means = given.mean(axis=spatial, keepdims=True)
        # Unbiased over the positions of a sample, as PyTorch keeps it.
        spread = wg.square(given - means).sum(axis=spatial) / (each - 1)
        for held, new in ((running_mean, means.reshape(given.shape[:2])), (running_var, spread)):
            held.assign_((1 - momentum) * held.detach() + momentum * new.mean(axis=0))
    return _narrow(out, input)  # type: ignore[no-any-return]


def layer_norm(
    input: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Return x less its mean over the last axes, over its deviation, times a weight, plus a bias.

    `normalized_shape` has the sizes of those axes, and is the shape of weight and bias. Raises ShapeError.
    Source: Ba et al. 2016, arXiv:1607.06450.
    """
    out = _narrow(plain.layer_norm(input, normalized_shape, weight, bias, eps), input)
    return formatted(out, contiguous_format)


def rms_norm(input: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None) -> Tensor:
    """Return x over its root mean square along the last axes, times a weight.

    `eps` is the machine epsilon of x where None. Raises ShapeError. Source: Zhang and Sennrich 2019, arXiv:1910.07467.
    """
    if input.dtype.kind == "c":
        axes = tuple(range(-len(normalized_shape), 0)) if not isinstance(normalized_shape, int) else (-1,)
        # The square is not that of the length: as PyTorch has it.
        size = wg.square(input).mean(axis=axes, keepdims=True)
        out = input * wg.rsqrt(size + (wg.finfo(input.dtype).eps if eps is None else eps))
        return out if weight is None else out * weight  # type: ignore[no-any-return]
    return _narrow(plain.rms_norm(input, normalized_shape, weight, eps), input)  # type: ignore[no-any-return]


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Return x with groups of channels less their mean, over their deviation, times a weight, plus a bias.

    Raises ShapeError for channels that do not fall into equal groups. Source: Wu and He 2018, arXiv:1803.08494.
    """
    out = _narrow(plain.group_norm(input, num_groups, weight, bias, eps), input)
    return with_channels_last(out, input) if input.ndim > 3 else out  # type: ignore[no-any-return]


def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Return x over (k + alpha times the mean square of `size` neighbouring channels) to the power beta.

    The input is (N, C, ...) of three axes or more. Raises ShapeError. Source: Krizhevsky et al. 2012, NIPS 25.
    """
    if input.ndim < 3:
        fail(ShapeError, f"local_response_norm of {tuple(input.shape)}", "It takes (N, C, ...), three axes or more.")
    if not input.numel():
        return input  # type: ignore[no-any-return]
    widths = [(0, 0)] * input.ndim
    widths[1] = (size // 2, (size - 1) // 2)
    squares, channels = wg.pad(input * input, widths), input.shape[1]
    total: Any = sum(squares[:, i : i + channels] for i in range(size))
    mean = total // size if total.dtype.kind in "iu" else total / size  # integers stay integers
    return input / wg.pow(mean * alpha + k, beta)  # type: ignore[no-any-return]


def _normalized(x: Any, p: float, eps: float, axis: int) -> Any:
    return x / wg.maximum(vector_norm(x, axis=axis, keepdims=True, ord=p), eps)


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Tensor:
    """Return x over its p-norm along an axis, at least `eps`. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.normalize(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    if input.ndim == 0 and dim in (0, -1):
        found = _normalized(input.reshape((1,)), p, eps, 0).reshape(())
    else:
        found = _normalized(input, p, eps, dim)
    return found if out is None else give(out, found)  # type: ignore[no-any-return]
