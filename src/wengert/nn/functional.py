"""The functions behind the layers, under PyTorch's names and in its order of arguments.

All but the few defined here are those of `wengert` itself.
"""

from __future__ import annotations

from typing import Any

from .. import (
    adaptive_avg_pool2d,
    avg_pool1d,
    avg_pool2d,
    batch_norm,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    celu,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    cross_entropy,
    dropout,
    elu,
    gelu,
    glu,
    group_norm,
    hardswish,
    hardtanh,
    huber_loss,
    kl_div,
    l1_loss,
    layer_norm,
    leaky_relu,
    linear,
    log_softmax,
    logsigmoid,
    max_pool1d,
    max_pool2d,
    mish,
    mse_loss,
    nll_loss,
    normalize,
    one_hot,
    ones,
    pad,
    prelu,
    relu,
    relu6,
    rms_norm,
    scaled_dot_product_attention,
    selu,
    sigmoid,
    silu,
    smooth_l1_loss,
    softmax,
    softmin,
    softplus,
    softsign,
    tanh,
    where,
)
from .. import embedding as _rows
from ..core.errors import RangeError, ShapeError, fail
from ..core.tensor import Tensor, asarray


def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """Rows of a table, as PyTorch has it: ids first. See :func:`wengert.embedding`.

    Parameters
    ----------
    input: integers of any shape s.
    weight: (rows, d).
    padding_idx: a row that no gradient goes to.

    Returns s + (d,). Raises RangeError for an id outside the table.
    """
    out: Tensor = _rows(weight, input)
    if padding_idx is None:
        return out
    rows = weight.shape[0]
    if not -rows <= padding_idx < rows:
        fail(RangeError, f"padding_idx {padding_idx} in an embedding with {rows} rows")
    ids = asarray(input)
    padded = (ids == padding_idx % rows).reshape((*ids.shape, 1))
    kept: Tensor = where(padded, out.detach(), out)
    return kept


def dropout2d(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero whole channels of (N, C, ...) with probability `p` and scale the others by 1 / (1 - p).

    Source: Tompson et al., arXiv:1411.4280.
    """
    x = asarray(x)
    if not training or p == 0:
        return x
    if x.ndim < 2:
        fail(ShapeError, f"dropout2d of {x.spec}", "The input has two dimensions or more, (N, C, ...).")
    mask = dropout(ones((*x.shape[:2], *(1,) * (x.ndim - 2)), dtype=x.dtype), p, True)
    out: Tensor = x * mask
    return out


__all__ = [
    "adaptive_avg_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "cross_entropy",
    "dropout",
    "dropout2d",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "group_norm",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "max_pool1d",
    "max_pool2d",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "tanh",
]
