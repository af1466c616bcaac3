"""Norms of single samples, and of neighbouring channels."""

from __future__ import annotations

from math import prod
from typing import Any

import wengert as wg

from ...core.errors import ShapeError, fail
from ...core.tensor import Tensor, asarray
from ...ops.neural.normalization import batch_norm, follows, in_dtype_of, layer_norm


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

    >>> import wengert as wg
    >>> wg.nn.functional.instance_norm(wg.tensor([[[1.0, 3.0], [5.0, 9.0]]]))
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    input = asarray(input)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if input.ndim < 3:
        fail(ShapeError, f"instance_norm of {tuple(input.shape)}", "It takes (N, C, ...).")
    channels, each = input.shape[1], prod(input.shape[2:])
    if each == 1:
        fail(ShapeError, f"Expected more than 1 spatial element when training, got input size {tuple(input.shape)}")
    beside = (channels, *(1,) * (input.ndim - 2))
    out: Any = layer_norm(input, input.shape[2:], None, None, eps)
    if weight is not None:
        out = out * asarray(weight).reshape(beside)
    if bias is not None:
        out = out + asarray(bias).reshape(beside)
    if running_mean is not None and running_var is not None and follows(input):
        given, spatial = input.detach(), tuple(range(2, input.ndim))
        means = given.mean(axis=spatial, keepdims=True)
        # Unbiased over the positions of a sample, as PyTorch keeps it.
        spread = wg.square(given - means).sum(axis=spatial) / (each - 1)
        for held, new in ((running_mean, means.reshape(given.shape[:2])), (running_var, spread)):
            held.assign_((1 - momentum) * held.detach() + momentum * new.mean(axis=0))
    return in_dtype_of(input, out)  # type: ignore[no-any-return]


def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Return x over (k + alpha times the mean square of `size` neighbouring channels) to the power beta.

    The input is (N, C, ...) of three axes or more. Raises ShapeError. Source: Krizhevsky et al. 2012, NIPS 25.

    >>> import wengert as wg
    >>> wg.nn.functional.local_response_norm(wg.ones((1, 2, 1)), 2, alpha=2.0, beta=1.0)
    tensor([[[0.5   ],
             [0.3333]]])
    """
    x: Any = asarray(input)
    if x.ndim < 3:
        fail(ShapeError, f"local_response_norm of {tuple(x.shape)}", "It takes (N, C, ...), three axes or more.")
    if not prod(x.shape):
        return x  # type: ignore[no-any-return]
    widths = [(0, 0)] * x.ndim
    widths[1] = (size // 2, (size - 1) // 2)
    squares, channels = wg.pad(x * x, widths), x.shape[1]
    total: Any = sum(squares[:, i : i + channels] for i in range(size))
    mean = total // size if total.dtype.kind in "iu" else total / size  # integers stay integers
    out: Tensor = x / wg.pow(mean * alpha + k, beta)
    return out
