"""Multi-head attention and the transformer's encoder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ... import array_split, asarray, full, ones, permute_dims, split, tril, where, zeros
from ...core.errors import RangeError, ShapeError, fail
from ...core.tensor import Tensor
from .. import functional as F
from .. import init
from ..checks import probability, size
from ..module import Module
from ..parameter import Parameter
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .norm import LayerNorm


class MultiHeadAttention(Module):
    """A layer of attention in several heads, between projections of queries, keys and values and one of the result.

    Parameters
    ----------
    embed_dim: the size of queries and results, a multiple of `num_heads`.
    num_heads: the number of heads.
    dropout: of attention weights, in training.
    bias: whether the projections have one.
    kdim, vdim: the sizes of keys and values where they differ from `embed_dim`.
    batch_first: whether the batch comes before the sequence.
    dtype: of the parameters; the default float where left out.
    device: where they are, as in :func:`wengert.zeros`.

    `in_proj_weight` (3 embed_dim, embed_dim) stacks the projections of queries, keys and values; with
    other sizes they are `q_proj_weight`, `k_proj_weight`, `v_proj_weight`. `out_proj` is a Linear.

    Source: Vaswani et al., arXiv:1706.03762.

    Raises RangeError for a size that does not fall into equal heads.

    >>> import wengert as wg
    >>> attend = wg.nn.MultiHeadAttention(8, 2, batch_first=True)
    >>> x = wg.zeros((1, 5, 8))
    >>> out, weights = attend(x, x, x)
    >>> out.shape, weights.shape
    ((1, 5, 8), (1, 5, 5))
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        e = self.embed_dim = size("embed_dim", embed_dim)
        self.num_heads = size("num_heads", num_heads)
        if embed_dim % num_heads:
            fail(RangeError, f"embed_dim={embed_dim} does not fall into num_heads={num_heads} equal heads")
        self.head_dim = e // num_heads
        self.kdim = e if kdim is None else size("kdim", kdim)
        self.vdim = e if vdim is None else size("vdim", vdim)
        self.dropout = probability(dropout)
        self.batch_first = batch_first
        together = self.kdim == self.vdim == e
        shapes = {
            "in_proj_weight": (3 * e, e) if together else None,
            "q_proj_weight": None if together else (e, e),
            "k_proj_weight": None if together else (e, self.kdim),
            "v_proj_weight": None if together else (e, self.vdim),
        }
        for name, shape in shapes.items():
            made = None if shape is None else init.xavier_uniform_(Parameter(zeros(shape, dtype=dtype, device=device)))
            self.register_parameter(name, made)  # type: ignore[arg-type]
        self.register_parameter("in_proj_bias", Parameter(zeros(3 * e, dtype=dtype, device=device)) if bias else None)
        self.out_proj = Linear(e, e, bias, device=device, dtype=dtype)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
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
        is_causal: no position attends to a later one.

        Returns the result in the layout of `query` and the weights, (N, L, S) or (N, num_heads, L, S), or
        None. Raises ShapeError.
        """
        self._check(query, key, value)
        batched = query.ndim == 3
        q, k, v = (_heads(t, self.num_heads, batched, self.batch_first) for t in self._project(query, key, value))
        padding, mask = (None if m is None else asarray(m) for m in (key_padding_mask, attn_mask))
        mask = self._mask(q, k, padding, mask, is_causal)
        p = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        if need_weights:
            scores = (q * self.head_dim**-0.5) @ k.mT
            weights = F.softmax(scores if mask is None else scores + mask, -1)
            out = (F.dropout(weights, p) if p else weights) @ v
        else:
            causal = is_causal and key_padding_mask is None and attn_mask is None
            out = F.scaled_dot_product_attention(q, k, v, None if causal else mask, p, causal)
        out = self.out_proj(_joined(out, batched, self.batch_first))
        if weights is not None:
            weights = weights.mean(axis=1) if average_attn_weights else weights
            weights = weights if batched else weights.squeeze(0)
        return out, weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        wanted = (self.embed_dim, self.kdim, self.vdim)
        shapes = tuple(t.shape for t in (query, key, value))
        time = int(self.batch_first and query.ndim == 3)
        fits = (
            query.ndim in (2, 3)
            and query.ndim == key.ndim == value.ndim
            and tuple(s[-1] for s in shapes) == wanted
            and shapes[1][:-1] == shapes[2][:-1]
            and (query.ndim == 2 or shapes[0][1 - time] == shapes[1][1 - time])
        )
        if not fits:
            layout = "(N, L, E)" if self.batch_first else "(L, N, E)"
            fail(
                ShapeError,
                f"{type(self).__name__}: query, key and value of shapes {shapes[0]}, {shapes[1]} and {shapes[2]}",
                f"They have the layout {layout} or (L, E), with sizes {wanted} along the last axis, and key and "
                "value have one length.",
            )

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        bias, e = self.in_proj_bias, self.embed_dim
        if self.in_proj_weight is not None and query is key is value:
            return tuple(array_split(F.linear(query, self.in_proj_weight, bias), 3, -1))
        weights: tuple[Any, ...]
        if self.in_proj_weight is not None:
            weights = split(self.in_proj_weight, e)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if bias is None else split(bias, e)
        return tuple(F.linear(t, w, b) for t, w, b in zip((query, key, value), weights, biases))

    def _mask(self, q: Tensor, k: Tensor, padding: Any, attn: Any, is_causal: bool) -> Tensor | None:
        """Return the numbers to add to the scores, -inf where attention is not allowed; None for nothing."""
        n, heads, length, keys = q.shape[0], self.num_heads, q.shape[-2], k.shape[-2]
        parts: list[Tensor] = []
        if padding is not None:
            wanted = (keys,) if padding.ndim == 1 and n == 1 else (n, keys)
            parts.append(_additive(padding, q, wanted).reshape((n, 1, 1, keys)))
        if attn is not None:
            if attn.ndim == 3:
                parts.append(_additive(attn, q, (n * heads, length, keys)).reshape((n, heads, length, keys)))
            else:
                parts.append(_additive(attn, q, (length, keys)))
        elif is_causal:
            parts.append(_additive(~tril(ones((length, keys), dtype=bool)), q, (length, keys)))
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def extra_repr(self) -> str:
        """Return the sizes for `repr`."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, dropout={self.dropout}"


MultiheadAttention = MultiHeadAttention


def _heads(x: Tensor, heads: int, batched: bool, batch_first: bool) -> Tensor:
    """Return a projection as (N, heads, L, head_dim)."""
    if not batched:
        split = x.reshape((1, x.shape[0], heads, x.shape[1] // heads))
    else:
        split = x.reshape((*x.shape[:2], heads, x.shape[2] // heads))
    axes = (0, 2, 1, 3) if batch_first or not batched else (1, 2, 0, 3)
    out: Tensor = permute_dims(split, axes)
    return out


def _joined(x: Tensor, batched: bool, batch_first: bool) -> Tensor:
    """Return the inverse of :func:`_heads`."""
    n, heads, length, width = x.shape
    if batched and not batch_first:
        out: Tensor = permute_dims(x, (2, 0, 1, 3)).reshape((length, n, heads * width))
    else:
        out = permute_dims(x, (0, 2, 1, 3)).reshape((n, length, heads * width))
    return out if batched else out.squeeze(0)


def _additive(mask: Any, like: Tensor, shape: tuple[int, ...]) -> Tensor:
    out: Tensor = mask
    if out.shape != shape:
        fail(ShapeError, f"an attention mask of shape {out.shape}, not {shape}")
    if out.dtype == bool:
        out = where(out, full((), -float("inf"), dtype=like.dtype), full((), 0.0, dtype=like.dtype))
    return out.astype(like.dtype) if out.dtype != like.dtype else out


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class TransformerEncoderLayer(Module):
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
    dtype: of the parameters; the default float where left out.
    device: where they are, as in :func:`wengert.zeros`.

    Source: Vaswani et al., arXiv:1706.03762.

    Raises RangeError for another `activation`.

    >>> import wengert as wg
    >>> layer = wg.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> layer(wg.zeros((1, 5, 8))).shape
    (1, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(activation, str) and activation not in _ACTIVATIONS:
            fail(RangeError, f"activation must be 'relu', 'gelu' or a function, not {activation!r}")
        self.self_attn = MultiHeadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype, device=device
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, device=device, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device=device, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype, device=device)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype, device=device)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _ACTIVATIONS[activation] if isinstance(activation, str) else activation

    def forward(
        self, src: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        """Map (L, N, d_model), with `batch_first` (N, L, d_model), to the same shape; masks as in attention."""
        masks = src_mask, src_key_padding_mask, is_causal
        if self.norm_first:
            src = src + self._attend(self.norm1(src), *masks)
            return src + self._feed_forward(self.norm2(src))
        src = self.norm1(src + self._attend(src, *masks))
        out: Tensor = self.norm2(src + self._feed_forward(src))
        return out

    def _attend(self, x: Tensor, mask: Any, padding: Any, is_causal: bool) -> Tensor:
        out, _ = self.self_attn(x, x, x, padding, need_weights=False, attn_mask=mask, is_causal=is_causal)
        return self.dropout1(out)  # type: ignore[no-any-return]

    def _feed_forward(self, x: Tensor) -> Tensor:
        hidden = self.dropout(self.activation(self.linear1(x)))
        return self.dropout2(self.linear2(hidden))  # type: ignore[no-any-return]


class TransformerEncoder(Module):
    """A stack of `num_layers` copies of a layer, and a norm after the last where given.

    >>> import wengert as wg
    >>> layer = wg.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> wg.nn.TransformerEncoder(layer, 2)(wg.ones((3, 5, 8))).shape
    (3, 5, 8)
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(size("num_layers", num_layers)))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, src: Tensor, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        """Run `src` through every layer, all with the same masks."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)
