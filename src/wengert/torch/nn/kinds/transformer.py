"""Attention with PyTorch's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg

from ....core.errors import DTypeError, GraphError, ShapeError, fail
from ....core.ops.autocast import computed_in
from ....nn import functional as plain
from ...namespace import tensor_of
from ...tensor import Tensor

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


@computed_in("lower", "torch")
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return softmax(query key^T scale) value: for every query a mean of the values, weighted by its keys.

    Parameters
    ----------
    query: (..., heads, m, d); key: (..., heads, n, d); value: (..., heads, n, e). Leading axes broadcast.
    attn_mask: booleans, True where a key takes part, or numbers added to the scores; broadcasts to (..., m, n). A query
        without any key gets zeros.
    dropout_p: weights dropped with this probability, whether in training or not.
    is_causal: query i sees keys 0..i only; not together with `attn_mask`.
    scale: 1/sqrt(d) where None.
    enable_gqa: queries may have more heads than keys and values, of which each then serves as many in a row.

    Returns (..., heads, m, e). Raises ShapeError, DTypeError. Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import wengert.torch as torch
    >>> q = torch.zeros(1, 2, 4)
    >>> torch.nn.functional.scaled_dot_product_attention(q, q, torch.tensor([[[1.0], [3.0]]]), is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    q, k, v = map(tensor_of, (query, key, value))
    if not q.dtype == k.dtype == v.dtype:
        fail(DTypeError, f"scaled_dot_product_attention of {q.spec}, {k.spec} and {v.spec}", "Give one dtype.")
    if enable_gqa:
        k, v = (_for_heads(t, q) for t in (k, v))
    return tensor_of(plain.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, scale))


def _for_heads(x: Tensor, query: Tensor) -> Any:
    """Return keys or values with each head as often in a row as there are queries' heads for it."""
    if query.ndim < 3 or x.ndim < 3 or query.shape[-3] % x.shape[-3]:
        fail(ShapeError, f"enable_gqa: queries {query.spec} with keys or values {x.spec}", "Heads fall into groups.")
    times = query.shape[-3] // x.shape[-3]
    return x if times == 1 else wg.take(x, np.repeat(np.arange(x.shape[-3]), times), -3)


def _additive(name: str, mask: Any, dtype: Any) -> Any:
    """Return a mask as numbers to add to scores: -inf where a boolean one is True."""
    if mask is None:
        return None
    found = tensor_of(mask)
    if found.dtype == bool:
        return wg.where(found, wg.full((), -np.inf, dtype=dtype), wg.zeros((), dtype=dtype))
    if found.dtype.kind in "iuc":
        fail(DTypeError, f"{name} of {found.spec}", "It is of booleans, or of the numbers to add to scores.")
    return found.astype(dtype)


def _projected(
    q: Tensor, k: Tensor, v: Tensor, weight: Any, bias: Any, separate: tuple[Any, Any, Any] | None
) -> tuple[Any, ...]:
    size = q.shape[-1]
    if separate is None:
        if q is k is v:
            return wg.split(plain.linear(q, weight, bias), size, -1)
        weights: tuple[Any, ...] = wg.split(weight, size, 0)
    else:
        weights = separate
    biases = (None,) * 3 if bias is None else wg.split(bias, size, 0)
    return tuple(plain.linear(t, w, b) for t, w, b in zip((q, k, v), weights, biases))


def _widened(mask: Any) -> Any:
    """Return a mask with one key more, which it lets take part."""
    return None if mask is None else wg.pad(mask, [*[(0, 0)] * (mask.ndim - 1), (0, 1)])


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return attention in several heads between projections, as :class:`wengert.torch.nn.MultiheadAttention` has it.

    Parameters
    ----------
    query, key, value: (L, N, E), (S, N, KE) and (S, N, VE), or without N.
    embed_dim_to_check: E.
    in_proj_weight, in_proj_bias: the projections of all three, stacked; or with `use_separate_proj_weight` the three
        weights by themselves.
    bias_k, bias_v: a further key and value, (1, 1, E), for every query.
    add_zero_attn: a further key and value of zeros.
    key_padding_mask: (N, S) or (S,); True, or -inf, at keys that take no part.
    attn_mask: (L, S) or (N heads, L, S); True where a key takes no part, or numbers added to the scores.
    need_weights: also return the weights, (N, L, S), in the mean over heads unless `average_attn_weights=False`.
    static_k, static_v: keys and values, (N heads, S, E / heads), in place of the projected ones.
    is_causal: says that `attn_mask`, which has to be given, is the causal one.

    Raises ShapeError, DTypeError, GraphError.
    """
    q, k, v = [tensor_of(t) for t in (query, key, value)]
    batched = q.ndim == 3
    if q.ndim not in (2, 3) or k.ndim != q.ndim or v.ndim != q.ndim:
        fail(ShapeError, f"attention of shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}")
    if is_causal and attn_mask is None:
        fail(GraphError, "attention with is_causal=True and no attn_mask", "Give the causal mask, too.")
    padding = _additive("key_padding_mask", key_padding_mask, q.dtype)
    causal = is_causal and padding is None and not need_weights
    mask = None if causal else _additive("attn_mask", attn_mask, q.dtype)
    if not batched:
        same = q is k is v
        q, k, v = (tensor_of(t.unsqueeze(1)) for t in (q, k, v))
        k, v = (q, q) if same else (k, v)
        padding = None if padding is None else padding.unsqueeze(0)
    length, n, size = q.shape
    head = size // num_heads
    if size != embed_dim_to_check or head * num_heads != size:
        fail(ShapeError, f"attention over vectors of {size} in {num_heads} heads, for {embed_dim_to_check}")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    queries, keys, values = _projected(q, k, v, in_proj_weight, in_proj_bias, separate)
    if bias_k is not None:
        keys = wg.concat([keys, wg.broadcast_to(bias_k, (1, n, size))])
        values = wg.concat([values, wg.broadcast_to(bias_v, (1, n, size))])
        mask, padding = _widened(mask), _widened(padding)

    def heads(x: Any) -> Any:
        return wg.swapaxes(x.reshape((x.shape[0], n * num_heads, head)), 0, 1)

    queries = heads(queries)
    keys, values = (
        heads(t) if static is None else tensor_of(static) for t, static in ((keys, static_k), (values, static_v))
    )
    if add_zero_attn:
        keys, values = (wg.pad(t, [(0, 0), (0, 1), (0, 0)]) for t in (keys, values))
        mask, padding = _widened(mask), _widened(padding)
    count = keys.shape[1]
    shapes = {2: (length, count), 3: (n * num_heads, length, count)}
    if mask is not None and tuple(mask.shape) != shapes.get(mask.ndim):
        fail(ShapeError, f"attn_mask of shape {tuple(mask.shape)}, not {shapes[2]} or {shapes[3]}")
    if padding is not None:
        if tuple(padding.shape) != (n, count):
            fail(ShapeError, f"key_padding_mask of shape {tuple(padding.shape)}, not {(n, count)}")
        spread = wg.broadcast_to(padding.reshape((n, 1, 1, count)), (n, num_heads, 1, count))
        spread = spread.reshape((n * num_heads, 1, count))
        mask = spread if mask is None else mask + spread
    p = dropout_p if training else 0.0
    weights: Any = None
    if need_weights:
        scores = (queries * head**-0.5) @ keys.mT
        weights = plain.softmax(scores if mask is None else scores + mask, -1)
        weights = plain.dropout(weights, p) if p else weights
        out = weights @ values
    else:
        split = [t.reshape((n, num_heads, *t.shape[1:])) for t in (queries, keys, values)]
        if mask is not None:
            mask = mask.reshape((n, num_heads, *mask.shape[1:])) if mask.ndim == 3 else mask
        out = plain.scaled_dot_product_attention(split[0], split[1], split[2], mask, p, causal)
        out = out.reshape((n * num_heads, length, head))
    joined = wg.swapaxes(out, 0, 1).reshape((length, n, size))
    result: Any = plain.linear(joined, out_proj_weight, out_proj_bias)
    if weights is not None:
        weights = weights.reshape((n, num_heads, length, count))
        weights = weights.mean(1) if average_attn_weights else weights
        weights = weights if batched else weights.squeeze(0)
    return result if batched else result.squeeze(1), weights


def __dir__() -> list[str]:
    return sorted(__all__)
