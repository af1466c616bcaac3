"""Functions of networks that PyTorch has at its top level and as methods, beside those of `torch.nn.functional`."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...nn.functions.dropouts import feature_dropout
from ..namespace import function
from ..nn import functional as F

# What is the same in both places.
_SAME = (
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "avg_pool1d",
    "bilinear",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "ctc_loss",
    "hardshrink",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "native_channel_shuffle",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "threshold",
    "threshold_",
)
_METHODS = ("hardshrink", "prelu")

for _name in _SAME:
    function(method=_name in _METHODS)(getattr(F, _name))
function(method=False)(feature_dropout)


@function(out=True)
def softmax(input: Any, dim: int, dtype: Any = None) -> Tensor:
    """Return exp(x) over its sum along an axis, computed in `dtype` where one is given. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.tensor([1.0, 1.0]).softmax(0)
    tensor([0.5, 0.5])
    """
    return F.softmax(input, dim, dtype=dtype)  # type: ignore[no-any-return]


@function(out=True)
def log_softmax(input: Any, dim: int, dtype: Any = None) -> Tensor:
    """Return the logarithm of :func:`softmax`, right also where that is too small for its dtype. Raises ShapeError."""
    return F.log_softmax(input, dim, dtype=dtype)  # type: ignore[no-any-return]


# -- arguments in another order, or under another name


@function(method=False, out=True)
def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Tensor:
    """Return a tensor with one number around it; see :func:`wengert.torch.nn.functional.pad`."""
    return F.pad(input, pad, "constant", value)  # type: ignore[no-any-return]


@function(method=False)
def dropout(input: Any, p: float, train: bool) -> Tensor:
    """Return elements set to 0 with probability `p`, the others divided by 1 - p, where `train`."""
    return F.dropout(input, p, train)  # type: ignore[no-any-return]


@function(method=False)
def alpha_dropout(input: Any, p: float, train: bool) -> Tensor:
    """Return elements set with probability `p` to what selu tends to below 0, where `train`."""
    return F.alpha_dropout(input, p, train)  # type: ignore[no-any-return]


@function(method=False)
def feature_alpha_dropout(input: Any, p: float, train: bool) -> Tensor:
    """Return :func:`alpha_dropout` of whole channels of (N, C, ...), where `train`."""
    return F.feature_alpha_dropout(input, p, train)  # type: ignore[no-any-return]


@function(method=False)
def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """Return :func:`wengert.torch.nn.functional.batch_norm`, with its arguments in another order."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)  # type: ignore[no-any-return]


@function(method=False)
def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """Return :func:`wengert.torch.nn.functional.instance_norm`, with its arguments in another order."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)  # type: ignore[no-any-return]


@function(method=False)
def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Return :func:`wengert.torch.nn.functional.layer_norm`."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)  # type: ignore[no-any-return]


@function(method=False)
def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Tensor:
    """Return :func:`wengert.torch.nn.functional.group_norm`."""
    return F.group_norm(input, num_groups, weight, bias, eps)  # type: ignore[no-any-return]
