"""Multi-head attention and the transformer's encoder and decoder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import GraphError, RangeError, ShapeError, fail
from ...core.tensor import Tensor, asarray, of_class
from .. import functional as F
from .. import init
from ..checks import size
from ..functions.attention import attend
from ..module import Module
from ..parameter import Parameter
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .norm import LayerNorm

Activation = str | Callable[[Any], Any]


class NonDynamicallyQuantizableLinear(Linear):
    """The projection of the results of attention: a :class:`Linear` under the name that PyTorch shows."""


class MultiheadAttention(Module):
    """A layer of attention in several heads, between projections of queries, keys and values and one of the result.

    Parameters
    ----------
    embed_dim: the size of queries and results, a multiple of `num_heads`.
    num_heads: the number of heads.
    dropout: of attention weights, in training.
    bias: whether the projections have one.
    add_bias_kv: learn a further key and value.
    add_zero_attn: add a further key and value of zeros.
    kdim, vdim: the sizes of keys and values where they differ from `embed_dim`.
    batch_first: whether the batch comes before the sequence.
    device: where the parameters are, as in :func:`wengert.zeros`.
    dtype: of the parameters; the default float where left out.

    `in_proj_weight` (3 embed_dim, embed_dim) stacks the projections of queries, keys and values; with other sizes they
    are `q_proj_weight`, `k_proj_weight`, `v_proj_weight`. `out_proj` is a Linear.

    Source: Vaswani et al., arXiv:1706.03762. Raises RangeError for a size that does not fall into equal heads.

    >>> import wengert as wg
    >>> attend = wg.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = wg.zeros((1, 5, 8))
    >>> out, weights = attend(x, x, x)
    >>> out.shape, weights.shape
    ((1, 5, 8), (1, 5, 5))
    """

    bias_k: Any
    bias_v: Any
    in_proj_weight: Any
    q_proj_weight: Any
    k_proj_weight: Any
    v_proj_weight: Any
    in_proj_bias: Any
    out_proj: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        e = self.embed_dim = size("embed_dim", embed_dim)
        self.num_heads = size("num_heads", num_heads)
        if embed_dim % num_heads:
            fail(RangeError, f"embed_dim={embed_dim} does not fall into num_heads={num_heads} equal heads")
        self.kdim = e if kdim is None else size("kdim", kdim)
        self.vdim = e if vdim is None else size("vdim", vdim)
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = e // num_heads
        together = self._qkv_same_embed_dim
        shapes = {
            "q_proj_weight": None if together else (e, e),
            "k_proj_weight": None if together else (e, self.kdim),
            "v_proj_weight": None if together else (e, self.vdim),
            "in_proj_weight": (3 * e, e) if together else None,
            "in_proj_bias": (3 * e,) if bias else None,
        }
        for name, shape in shapes.items():
            self.register_parameter(
                name, None if shape is None else Parameter(wg.empty(shape, dtype=dtype, device=device))
            )
        self.out_proj = NonDynamicallyQuantizableLinear(e, e, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            made = Parameter(wg.empty((1, 1, e), dtype=dtype, device=device)) if add_bias_kv else None
            self.register_parameter(name, made)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    @property
    def _qkv_same_embed_dim(self) -> bool:
        return bool(self.kdim == self.vdim == self.embed_dim)

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for further in (self.bias_k, self.bias_v):
            if further is not None:
                init.xavier_normal_(further)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attended values and, where asked for, the weights.

        Parameters
        ----------
        query: (L, N, embed_dim), with `batch_first` (N, L, embed_dim), or (L, embed_dim) without a batch.
        key, value: the same with S, kdim and vdim.
        key_padding_mask: (N, S) or (S,), True (or -inf) at keys that none may attend to.
        need_weights: also return the attention weights; without them the fused operation runs.
        attn_mask: (L, S) or (N * num_heads, L, S), True where attention is not allowed, or added to the scores.
        average_attn_weights: the weights' mean over the heads rather than each head's.
        is_causal: no query sees a later key; of an `attn_mask` that is given too it says that it is the causal one.

        Raises ShapeError, DTypeError.
        """
        separate = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        return attend(
            (query, key, value),
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight if self._qkv_same_embed_dim else separate,
            self.in_proj_bias,
            (self.bias_k, self.bias_v),
            self.add_zero_attn,
            self.dropout if self.training else 0.0,
            self.out_proj,
            key_padding_mask,
            need_weights,
            attn_mask,
            average_attn_weights,
            is_causal,
            batch_first=self.batch_first,
        )


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": F.relu, "gelu": F.gelu}


def activation_of(given: Activation) -> Callable[[Any], Any]:
    """Return the function of a name, "relu" or "gelu", or the function itself. Raises GraphError for other names."""
    if not isinstance(given, str):
        return given
    if given not in _ACTIVATIONS:
        fail(GraphError, f"activation={given!r}", 'It is "relu", "gelu" or a function.')
    return _ACTIVATIONS[given]


class _Layer(Module):
    """The base of the layers of encoders and decoders: blocks with residual connections, and a norm for each."""

    norm_first: bool
    activation: Any
    linear1: Any
    linear2: Any
    dropout: Any

    def _make(
        self,
        blocks: int,
        d_model: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        norm_first: bool,
        bias: bool,
        where: dict[str, Any],
    ) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **where)
        self.norm_first = norm_first
        for i in range(1, blocks + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **where))
        for i in range(1, blocks + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = activation_of(activation)

    def _through(self, x: Any, *blocks: Callable[[Any], Any]) -> Any:
        """Return `x` with what the blocks make of it added, one after the other."""
        for i, block in enumerate(blocks, 1):
            norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
            if self.norm_first:
                x = x + dropout(block(norm(x)))
            else:
                x = norm(x + dropout(block(x)))
        return x

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """A layer of self-attention and a feed-forward block, each with a residual connection and a layer norm.

    Parameters
    ----------
    d_model: the size of the vectors.
    nhead: the number of heads.
    dim_feedforward: the size inside the feed-forward block.
    dropout: in training, of attention weights and of both blocks.
    activation: "relu", "gelu" or a function of a tensor.
    layer_norm_eps: added to the variance.
    batch_first: whether the batch comes before the sequence.
    norm_first: normalise before the blocks (Xiong et al., arXiv:2002.04745), not after.
    bias: whether there are biases.
    device: where the parameters are, as in :func:`wengert.zeros`.
    dtype: of the parameters; the default float where left out.

    Source: Vaswani et al., arXiv:1706.03762. Raises ShapeError, GraphError for another `activation`.

    >>> import wengert as wg
    >>> layer = wg.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> layer(wg.zeros((1, 5, 8))).shape
    (1, 5, 8)
    """

    self_attn: Any

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **where)
        options = dropout, activation, layer_norm_eps, norm_first, bias, where
        self._make(2, d_model, dim_feedforward, *options)

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        """Map (L, N, d_model), with `batch_first` (N, L, d_model), to the same shape; masks as in attention."""

        def attend(x: Any) -> Any:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._through(asarray(src), attend, self._feed_forward)  # type: ignore[no-any-return]


class TransformerDecoderLayer(_Layer):
    """A layer of self-attention, of attention to an encoder's results, and of a feed-forward block.

    Parameters are those of :class:`TransformerEncoderLayer`.

    >>> import wengert as wg
    >>> layer = wg.nn.TransformerDecoderLayer(8, 2, 16)
    >>> layer(wg.zeros((4, 1, 8)), wg.zeros((5, 1, 8))).shape
    (4, 1, 8)
    """

    self_attn: Any
    multihead_attn: Any

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **where)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **where)
        options = dropout, activation, layer_norm_eps, norm_first, bias, where
        self._make(3, d_model, dim_feedforward, *options)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Map (L, N, d_model) and the encoder's (S, N, d_model) to the shape of the first; masks as in attention."""

        def attend(x: Any) -> Any:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def look(x: Any) -> Any:
            options = memory_key_padding_mask, False, memory_mask
            return self.multihead_attn(x, memory, memory, *options, is_causal=memory_is_causal)[0]

        return self._through(asarray(tgt), attend, look, self._feed_forward)  # type: ignore[no-any-return]


class TransformerEncoder(Module):
    """A stack of `num_layers` copies of a layer, and a norm after the last where given.

    `enable_nested_tensor` and `mask_check` are taken: they make PyTorch faster where there is padding.

    >>> import wengert as wg
    >>> layer = wg.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> wg.nn.TransformerEncoder(layer, 2)(wg.ones((3, 5, 8))).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        encoder_layer: Any,
        num_layers: int,
        norm: Any = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers: Any = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Tensor:
        """Run `src` through every layer, all with the same masks."""
        out = asarray(src)
        for layer in self.layers:
            out = layer(out, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return out if self.norm is None else self.norm(out)


class TransformerDecoder(Module):
    """A stack of `num_layers` copies of a layer, and a norm after the last where given.

    >>> import wengert as wg
    >>> decoder = wg.nn.TransformerDecoder(wg.nn.TransformerDecoderLayer(8, 2, 16), 2)
    >>> decoder(wg.ones((4, 1, 8)), wg.ones((5, 1, 8))).shape
    (4, 1, 8)
    """

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers: Any = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Run `tgt` through every layer, all with the same encoder's results and masks."""
        out = asarray(tgt)
        for layer in self.layers:
            out = layer(
                out,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return out if self.norm is None else self.norm(out)


class Transformer(Module):
    """An encoder and a decoder of layers with attention.

    Parameters
    ----------
    d_model, nhead: the size of the vectors, the number of heads.
    num_encoder_layers, num_decoder_layers: the numbers of layers.
    dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype: those of
        :class:`TransformerEncoderLayer`.
    custom_encoder, custom_decoder: modules in the place of either.

    Source: Vaswani et al., arXiv:1706.03762.

    >>> import wengert as wg
    >>> model = wg.nn.Transformer(8, 2, 1, 1, 16)
    >>> model(wg.ones((5, 1, 8)), wg.ones((4, 1, 8))).shape
    (4, 1, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        sizes: Any = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps
        options: Any = {"batch_first": batch_first, "norm_first": norm_first, "bias": bias, **where}
        self.encoder: Any = custom_encoder
        if custom_encoder is None:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **where)
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*sizes, **options), num_encoder_layers, norm)
        self.decoder: Any = custom_decoder
        if custom_decoder is None:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **where)
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*sizes, **options), num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return what the decoder makes of `tgt`, (L, N, d_model), and the encoder of `src`, (S, N, d_model).

        With `batch_first` the batch comes before the sequence, and without one it is left out; masks as in attention.
        Raises ShapeError.
        """
        axis = 0 if self.batch_first else 1
        if src.ndim != tgt.ndim or (src.ndim == 3 and src.shape[axis] != tgt.shape[axis]):
            fail(ShapeError, f"Transformer of shapes {tuple(src.shape)} and {tuple(tgt.shape)}", "Batches are equal.")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            fail(ShapeError, f"Transformer of shapes {tuple(src.shape)} and {tuple(tgt.shape)}, d_model={self.d_model}")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(  # type: ignore[no-any-return]
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @classmethod
    def generate_square_subsequent_mask(cls, sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the mask of numbers to add, -inf above the diagonal, with which no step attends to a later one."""
        mask = np.triu(np.full((sz, sz), -np.inf), 1)
        made = asarray(mask, dtype=wg.get_default_dtype() if dtype is None else dtype)
        made = made if device is None else made.to(str(device))
        return of_class(cls._parameter_class.result_class, made)  # type: ignore[no-any-return]
