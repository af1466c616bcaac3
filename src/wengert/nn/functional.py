"""The functions behind the layers, under PyTorch's names and in its order of arguments.

Most are declared with their ops; the few defined here adapt one of those to PyTorch's arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import wengert as wg

from ..core.state.locks import imported
from ..core.tensor import Tensor
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
from ..ops.neural.composites import dropout, linear
from ..ops.neural.convolve import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
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
from ..ops.neural.normalization import batch_norm, cosine_similarity, group_norm, layer_norm, normalize, rms_norm
from ..ops.structure.shapes import as_operand

if TYPE_CHECKING:
    from .functions.activations import (
        celu_,
        elu_,
        gumbel_softmax,
        hardshrink,
        hardtanh_,
        leaky_relu_,
        log_softmax,
        relu,
        relu_,
        rrelu,
        rrelu_,
        selu_,
        sigmoid,
        softmax,
        softmin,
        softshrink,
        tanh,
        threshold,
        threshold_,
    )
    from .functions.attention import multi_head_attention_forward
    from .functions.convolution import conv_tbc, fold, unfold
    from .functions.distances import pairwise_distance, pdist
    from .functions.dropouts import alpha_dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
    from .functions.linear import bilinear
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
    from .functions.norms import instance_norm, local_response_norm
    from .functions.padding import pad
    from .functions.pooling import (
        adaptive_avg_pool1d,
        adaptive_avg_pool2d,
        adaptive_avg_pool3d,
        adaptive_max_pool1d,
        adaptive_max_pool1d_with_indices,
        adaptive_max_pool2d,
        adaptive_max_pool2d_with_indices,
        adaptive_max_pool3d,
        adaptive_max_pool3d_with_indices,
        avg_pool1d,
        avg_pool2d,
        avg_pool3d,
        fractional_max_pool2d,
        fractional_max_pool2d_with_indices,
        fractional_max_pool3d,
        fractional_max_pool3d_with_indices,
        lp_pool1d,
        lp_pool2d,
        lp_pool3d,
        max_pool1d,
        max_pool1d_with_indices,
        max_pool2d,
        max_pool2d_with_indices,
        max_pool3d,
        max_pool3d_with_indices,
        max_unpool1d,
        max_unpool2d,
        max_unpool3d,
    )
    from .functions.sparse import embedding, embedding_bag
    from .functions.vision import (
        affine_grid,
        channel_shuffle,
        grid_sample,
        interpolate,
        native_channel_shuffle,
        pixel_shuffle,
        pixel_unshuffle,
        upsample,
        upsample_bilinear,
        upsample_nearest,
    )

# The modules with functions; each is loaded when a function is asked for that none of those before it has.
_KINDS = (
    "activations",
    "attention",
    "convolution",
    "distances",
    "dropouts",
    "linear",
    "losses",
    "norms",
    "padding",
    "pooling",
    "sparse",
    "vision",
)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
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
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold.

    >>> import wengert as wg
    >>> wg.nn.functional.softplus(wg.tensor([-1.0, 0.0, 100.0]))
    tensor([  0.3133,   0.6931, 100.    ])
    """
    x = as_operand(input)  # a Python number stays one: beside float64 it keeps its digits
    out: Tensor = unbounded_softplus(x, beta)
    # Beyond 20 the two agree to 1e-9.
    if threshold < 20.0:
        out = wg.where(x * beta > threshold, x, out)
    return out


def __getattr__(name: str) -> Any:
    """Functions that are loaded when they are first used."""
    if name in __all__:
        for kind in _KINDS:
            found = getattr(imported(f".functions.{kind}", __package__), name, None)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
