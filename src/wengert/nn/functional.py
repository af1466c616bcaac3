"""The functions behind the layers, under PyTorch's names and in its order of arguments.

Most are declared with their ops; the few defined here adapt one of those to PyTorch's arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import wengert as wg

from .. import relu, sigmoid, tanh
from ..core.errors import GraphError, RangeError, ShapeError, fail
from ..core.spec import show
from ..core.tensor import Tensor
from ..ops.index.gather import embedding as rows_of
from ..ops.index.gather import one_hot
from ..ops.neural.activations import (
    celu,
    elu,
    gelu,
    glu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    prelu,
    relu6,
    selu,
    silu,
    softsign,
    tanhshrink,
)
from ..ops.neural.activations import softplus as unbounded_softplus
from ..ops.neural.attention import scaled_dot_product_attention
from ..ops.neural.composites import (
    dropout,
    linear,
    log_softmax,
    softmax,
    softmin,
)
from ..ops.neural.convolve import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
)
from ..ops.neural.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from ..ops.neural.normalization import (
    batch_norm,
    cosine_similarity,
    group_norm,
    layer_norm,
    normalize,
    rms_norm,
)
from ..ops.neural.pool import (
    adaptive_avg_pool2d,
    avg_pool1d,
    avg_pool2d,
    max_pool1d,
    max_pool2d,
)
from ..ops.structure.shapes import as_operand, int_args
from .functions.distances import pairwise_distance, pdist
from .functions.losses import (
    cosine_embedding_loss,
    ctc_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    linear_cross_entropy,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)

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
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout2d",
    "elu",
    "embedding",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "linear_cross_entropy",
    "log_softmax",
    "logsigmoid",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "tanh",
    "tanhshrink",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

# PyTorch's names of the modes, with NumPy's.
_PAD_MODES: dict[str, Literal["constant", "reflect", "edge", "wrap"]] = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Return a tensor with elements put around it, or taken away, as PyTorch counts them: the last axis first.

    :func:`wengert.pad` counts as NumPy does.

    Parameters
    ----------
    input: any shape and dtype.
    pad: pairs of numbers in one flat sequence, (before, after) for the last axis, then for the one before it, and
        so on. A negative number takes elements away.
    mode: "constant" puts `value` (default 0), "reflect" mirrors at the border elements without repeating them,
        "replicate" repeats those, "circular" continues at the other end.

    Raises ShapeError for widths that do not fit, DTypeError for a value that the dtype does not hold, GraphError for
    another mode or a value in one that takes none.

    >>> import wengert as wg
    >>> x = wg.tensor([[1, 2, 3], [4, 5, 6]])
    >>> wg.nn.functional.pad(x, (1, -1))
    tensor([[0, 1, 2],
            [0, 4, 5]])
    >>> wg.nn.functional.pad(x, (0, 2, 1, 0), mode="circular")
    tensor([[4, 5, 6, 4, 5],
            [1, 2, 3, 1, 2],
            [4, 5, 6, 4, 5]])
    """
    x = wg.asarray(input)
    what = f"pad of {show(x.shape, x.dtype)} by {pad!r}"
    if not isinstance(pad, (tuple, list)):
        fail(ShapeError, what, "Give pairs (before, after) in one flat tuple, the last axis first.")
    widths = int_args((tuple(pad),), "pad")
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        fail(ShapeError, what, f"Give a pair for each axis that is padded, the last first: at most {2 * x.ndim} ints.")
    if mode not in _PAD_MODES:
        fail(GraphError, f"pad: there is no mode {mode!r}", f"It is one of {', '.join(_PAD_MODES)}.")
    if mode != "constant" and value:
        fail(GraphError, f"pad: a value in mode {mode!r}", "Only the mode constant puts a value.")
    pairs = [(0, 0)] * (x.ndim - len(widths) // 2) + [*zip(widths[::2], widths[1::2])][::-1]
    kept = []
    for n, (before, after) in zip(x.shape, pairs, strict=True):
        start, stop = max(0, -before), n - max(0, -after)
        if start > stop:
            fail(ShapeError, what, f"An axis of {n} elements has not so many to take away.")
        kept.append(slice(start, stop))
    if min(widths, default=0) < 0:
        x = x[tuple(kept)]
    grown = [(max(0, before), max(0, after)) for before, after in pairs]
    return wg.pad(x, grown, _PAD_MODES[mode], 0 if value is None else value)


def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """Return rows of a table, in PyTorch's order: ids first.

    Parameters
    ----------
    input: integers of any shape s.
    weight: (rows, d).
    padding_idx: a row that no gradient goes to.

    Returns s + (d,). Raises RangeError for an id outside the table.

    >>> import wengert as wg
    >>> wg.nn.functional.embedding(wg.tensor([1, 0]), wg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    out: Tensor = rows_of(weight, input)
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            fail(RangeError, f"padding_idx {padding_idx} in an embedding with {rows} rows")
        ids = wg.asarray(input)
        padded = (ids == padding_idx % rows).reshape((*ids.shape, 1))
        out = wg.where(padded, out.detach(), out)
    return out


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold.

    >>> import wengert as wg
    >>> wg.nn.functional.softplus(wg.tensor([-1.0, 0.0, 100.0]))
    tensor([  0.3133,   0.6931, 100.    ])
    """
    x = as_operand(x)  # a Python number stays one: beside float64 it keeps its digits
    out: Tensor = unbounded_softplus(x, beta)
    # Beyond 20 the two agree to 1e-9.
    if threshold < 20.0:
        out = wg.where(x * beta > threshold, x, out)
    return out


def dropout2d(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero whole channels of (N, C, ...) with probability `p` and scale the others by 1 / (1 - p).

    Source: Tompson et al., arXiv:1411.4280.

    Raises ShapeError for an input of fewer than two dimensions.

    >>> import wengert as wg
    >>> wg.nn.functional.dropout2d(wg.ones((1, 1, 1, 2)), training=False)
    tensor([[[[1., 1.]]]])
    """
    out: Tensor = wg.asarray(x)
    if out.ndim < 2:
        fail(ShapeError, f"dropout2d of {out.spec}", "The input has two dimensions or more, (N, C, ...).")
    if training and p:
        out = out * dropout(wg.ones((*out.shape[:2], *(1,) * (out.ndim - 2)), dtype=out.dtype), p, True)
    return out


def __dir__() -> list[str]:
    return sorted(__all__)
