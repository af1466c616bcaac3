"""Normalisations, dropout, losses."""

from __future__ import annotations

from typing import Any

import wengert as wg

from ....core.spec import category
from ..errors import refuse
from ..registry import operator
from ..values import numpy_dtype
from .structure import axes_of, axis_of


def _channels(v: Any, ndim: int) -> Any:
    return v.reshape((-1, *(1,) * (ndim - 2)))


@operator("BatchNormalization")
def _batch_norm(
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    var: Any,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    is_test: int = 1,
    consumed_inputs: Any = None,
    context: Any,
) -> Any:
    ndim = max(x.ndim, 2)
    if not spatial:
        refuse("spatial=0 (statistics for each place) is not supported")
    if training_mode:
        axes = tuple(i for i in range(x.ndim) if i != 1)
        used, spread = wg.mean(x, axes), wg.var(x, axes)
        moved = (
            (mean * momentum + used.astype(mean.dtype) * (1 - momentum)).astype(mean.dtype),
            (var * momentum + spread.astype(var.dtype) * (1 - momentum)).astype(var.dtype),
        )
    else:
        used, spread, moved = mean, var, (mean, var)
    factor = scale / wg.sqrt(spread.astype(scale.dtype) + epsilon)
    shift = bias - used.astype(factor.dtype) * factor
    out = (x * _channels(factor, ndim) + _channels(shift, ndim)).astype(x.dtype)
    return (out, *moved)[: max(context.results, 1)]


@operator("InstanceNormalization")
def _instance_norm(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5, consumed_inputs: Any = None) -> Any:
    axes = tuple(range(2, x.ndim))
    centred = x - wg.mean(x, axes, True)
    scaled = centred / wg.sqrt(wg.mean(centred * centred, axes, True) + epsilon)
    return scaled * _channels(scale, x.ndim) + _channels(bias, x.ndim)


@operator("LayerNormalization")
def _layer_norm(
    x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    start = axis_of(axis, x.ndim)
    axes = tuple(range(start, x.ndim))
    wide = (
        x.astype(numpy_dtype(stash_type, "attribute 'stash_type'"))
        if category(x.dtype) == 2 and x.dtype != wg.float64
        else x
    )
    mean = wg.mean(wide, axes, True)
    centred = wide - mean
    inverse = 1 / wg.sqrt(wg.mean(centred * centred, axes, True) + epsilon)
    out = (centred * inverse).astype(x.dtype) * scale
    return (out if bias is None else out + bias).astype(x.dtype), mean, inverse


@operator("RMSNormalization")
def _rms_norm(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    start = axis_of(axis, x.ndim)
    axes = tuple(range(start, x.ndim))
    wide = x.astype(numpy_dtype(stash_type, "attribute 'stash_type'")) if x.dtype != wg.float64 else x
    out = (wide / wg.sqrt(wg.mean(wide * wide, axes, True) + epsilon)).astype(x.dtype)
    return (out.astype(scale.dtype) * scale).astype(scale.dtype)


@operator("LpNormalization")
def _lp_normalization(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    axis = axis_of(axis, x.ndim)
    if p not in (1, 2):
        refuse(f"p is {p}, and neither 1 nor 2")
    norm = wg.sum(wg.abs(x), axis, keepdims=True) if p == 1 else wg.sqrt(wg.sum(x * x, axis, keepdims=True))
    zero = norm == 0
    return wg.where(zero, wg.zeros_like(x), x / wg.where(zero, wg.ones_like(norm), norm))


@operator("LRN")
def _local_response(x: Any, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Any:
    if size < 1:
        refuse(f"size is {size}")
    channels = x.shape[1]
    before = (size - 1) // 2
    squares = x * x
    widths = [(0, 0)] * x.ndim
    widths[1] = (min(before, channels), min(size - 1 - before, channels))
    around = wg.pad(squares, widths)
    skipped = before - widths[1][0]
    total: Any = None
    for i in range(skipped, min(size, skipped + widths[1][0] + widths[1][1] + 1)):
        part = around[:, i - skipped : i - skipped + channels]
        total = part if total is None else total + part
    return x / wg.pow(bias + alpha / size * total, beta)


@operator("MeanVarianceNormalization")
def _mean_variance(x: Any, *, axes: Any = (0, 2, 3)) -> Any:
    found = axes_of(axes, x.ndim)
    mean = wg.mean(x, found, True)
    deviation = wg.sqrt(wg.mean(x * x, found, True) - mean * mean)
    return (x - mean) / (deviation + 1e-9)


# -- dropout


@operator("Dropout")
def _dropout_old(x: Any, *, ratio: float = 0.5, is_test: int = 1, consumed_inputs: Any = None) -> Any:
    return x, wg.ones_like(x, dtype=wg.bool)


@operator("Dropout", since=12, prefers=(1, 2))
def _dropout(x: Any, ratio: Any = None, training: Any = None, *, seed: int | None = None) -> Any:
    rate = 0.5 if ratio is None else ratio
    if (
        training is None
        or not bool(training)
        or (not isinstance(rate, float) and not rate.is_abstract and float(rate) == 0)
    ):
        return x, wg.ones_like(x, dtype=wg.bool)
    key = {} if seed is None else {"generator": wg.random.Generator(abs(int(seed)))}
    kept = wg.random.uniform(x.shape, dtype=wg.float32, **key) >= rate
    return wg.where(kept, x / (1 - rate), wg.zeros_like(x)).astype(x.dtype), kept


# -- losses


def _weights_of(labels: Any, weight: Any, dtype: Any) -> Any:
    if weight is None:
        return wg.ones_like(labels, dtype=dtype)
    return wg.take(weight, labels.reshape((-1,)), 0).reshape(labels.shape)


def _likelihood(log_p: Any, labels: Any, weight: Any, ignore_index: int | None, reduction: str) -> Any:
    if reduction not in ("none", "mean", "sum"):
        refuse(f"reduction is {reduction!r}")
    left_out = labels == ignore_index if ignore_index is not None else None
    classes = labels if left_out is None else wg.where(left_out, wg.zeros_like(labels), labels)
    classes = wg.where(classes < 0, classes + log_p.shape[1], classes)
    chosen = wg.take_along_axis(log_p, wg.expand_dims(classes, 1), 1).reshape(labels.shape)
    counted = _weights_of(classes, weight, log_p.dtype)
    if left_out is not None:
        counted = wg.where(left_out, wg.zeros_like(counted), counted)
        chosen = wg.where(left_out, wg.zeros_like(chosen), chosen)
    loss = -chosen * counted
    if reduction == "none":
        return loss
    if reduction == "sum":
        return wg.sum(loss)
    if weight is None and left_out is None:
        return wg.mean(loss)
    return wg.sum(loss) / wg.sum(counted)


@operator("NegativeLogLikelihoodLoss")
def _nll(x: Any, labels: Any, weight: Any = None, *, ignore_index: int | None = None, reduction: str = "mean") -> Any:
    return _likelihood(x, labels, weight, ignore_index, reduction)


@operator("SoftmaxCrossEntropyLoss")
def _softmax_cross_entropy(
    x: Any, labels: Any, weight: Any = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Any:
    log_p = wg.log_softmax(x, 1)
    return _likelihood(log_p, labels, weight, ignore_index, reduction), log_p
