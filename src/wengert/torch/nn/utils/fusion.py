"""Layers and the batch norms after them as one layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

import wengert as wg

from ....core.errors import StateError, fail
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a convolution that gives what `bn` makes of the results of `conv`.

    Parameters
    ----------
    conv: a convolution in evaluation.
    bn: a batch norm in evaluation, with running statistics.
    transpose: whether it is a transposed convolution.

    Raises StateError for modules in training, or without running statistics.
    """
    fused = _copied(conv, bn)
    weights = conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_conv_bn_weights(*weights, transpose)
    return fused


def _copied(layer: Any, bn: Any) -> Any:
    if layer.training or bn.training:
        fail(StateError, "fusion of modules in training", "Call eval() first.")
    if bn.running_mean is None or bn.running_var is None:
        fail(StateError, "fusion with a batch norm without running statistics")
    return copy.deepcopy(layer)


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return the weight and the bias of a convolution and a batch norm in one.

    Parameters
    ----------
    conv_w, conv_b: the convolution's, None for no bias.
    bn_rm, bn_rv: the batch norm's running mean and variance.
    bn_eps, bn_w, bn_b: what it adds to the variance, its weight and bias, None where it has none.
    transpose: whether it is a transposed convolution.
    """
    scale = wg.rsqrt(bn_rv + bn_eps)
    scale = scale if bn_w is None else bn_w * scale
    along = [1] * conv_w.ndim
    along[1 if transpose else 0] = -1
    bias = (0.0 if conv_b is None else conv_b) - bn_rm
    shift = bias * scale if bn_b is None else bias * scale + bn_b
    weight = (conv_w * scale.reshape(along)).astype(conv_w.dtype)
    bias_dtype = conv_w.dtype if conv_b is None else conv_b.dtype
    grads = conv_w.requires_grad, conv_w.requires_grad if conv_b is None else conv_b.requires_grad
    return Parameter(weight.detach(), grads[0]), Parameter(shift.detach().astype(bias_dtype), grads[1])


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a linear layer that gives what `bn` makes of the results of `linear`.

    Raises StateError for modules in training, or where the batch norm has other features.
    """
    fused = _copied(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        fail(StateError, f"fusion of {linear.out_features} features with a batch norm of {bn.num_features}")
    weights = linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_linear_bn_weights(*weights)
    return fused


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Return the weight and the bias of a linear layer and a batch norm in one; see :func:`fuse_conv_bn_weights`."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def __dir__() -> list[str]:
    return sorted(__all__)
