"""Attention in several heads between projections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import DTypeError, ShapeError, fail
from ...core.tensor import Tensor, asarray
from ...ops.neural.attention import scaled_dot_product_attention
from ...ops.neural.composites import dropout, linear, softmax


def _additive(name: str, mask: Any, dtype: Any) -> Any:
    """Return a mask as numbers to add to scores: -inf where a boolean one is True."""
    if mask is None:
        return None
    found = asarray(mask)
    if found.dtype == bool:
        return wg.where(found, wg.full((), -np.inf, dtype=dtype), wg.zeros((), dtype=dtype))
    if found.dtype.kind in "iuc":
        fail(DTypeError, f"{name} of {found.spec}", "It is of booleans, or of the numbers to add to scores.")
    return found.astype(dtype)


def _projected(q: Tensor, k: Tensor, v: Tensor, weight: Any, bias: Any) -> tuple[Any, ...]:
    """Return projections of the three, by weights that are stacked or a tuple of three."""
    size = q.spec.shape[-1]
    if not isinstance(weight, tuple):
        if q is k is v:
            return tuple(wg.split(linear(q, weight, bias), size, -1))
        weight = wg.split(weight, size, 0)
    biases = (None,) * 3 if bias is None else wg.split(bias, size, 0)
    return tuple(linear(t, w, b) for t, w, b in zip((q, k, v), weight, biases))


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
    """Return attention in several heads between projections, as :class:`wengert.nn.MultiheadAttention` has it.

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
    is_causal: no query sees a later key; of an `attn_mask` that is given too it says that it is the causal one.

    Raises ShapeError, DTypeError.
    """
    return attend(
        (query, key, value),
        embed_dim_to_check,
        num_heads,
        (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight,
        in_proj_bias,
        (bias_k, bias_v),
        add_zero_attn,
        dropout_p if training else 0.0,
        lambda joined: linear(joined, out_proj_weight, out_proj_bias),
        key_padding_mask,
        need_weights,
        attn_mask,
        average_attn_weights,
        is_causal,
        (static_k, static_v),
    )


def attend(
    given: tuple[Any, Any, Any],
    size: int,
    num_heads: int,
    weight: Any,
    bias: Any,
    further: tuple[Any, Any],
    add_zero: bool,
    dropout_p: float,
    project: Callable[[Tensor], Any],
    key_padding_mask: Any,
    need_weights: bool,
    attn_mask: Any,
    average_weights: bool,
    is_causal: bool,
    static: tuple[Any, Any] = (None, None),
    batch_first: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return what :func:`multi_head_attention_forward` does; with `batch_first` the batch comes before the sequence."""
    query, key, value = given
    q, k, v = asarray(query), asarray(key), asarray(value)
    shapes, head = [t.spec.shape for t in (q, k, v)], size // num_heads
    batched = len(shapes[0]) == 3
    time = int(batch_first or not batched)
    widths = [w.spec.shape[-1] for w in weight] if isinstance(weight, tuple) else [size] * 3
    if (
        len(shapes[0]) not in (2, 3)
        or not len(shapes[0]) == len(shapes[1]) == len(shapes[2])
        or [s[-1] for s in shapes] != widths
        or shapes[1][:-1] != shapes[2][:-1]
        or (batched and shapes[0][1 - time] != shapes[1][1 - time])
        or head * num_heads != size
    ):
        fail(
            ShapeError,
            f"attention in {num_heads} heads: query, key and value of shapes {shapes[0]}, {shapes[1]} and {shapes[2]}",
            f"They have the layout {'(N, L, E)' if batch_first else '(L, N, E)'} or (L, E), with sizes {widths} along "
            "the last axis, which fall into equal heads; key and value have one length.",
        )
    if not batched:
        same, batch_first = q is k is v, True
        q = wg.expand_dims(q, 0)
        k, v = (q, q) if same else (wg.expand_dims(k, 0), wg.expand_dims(v, 0))
    n, length, count = q.spec.shape[1 - time], q.spec.shape[time], k.spec.shape[time]
    dtype = q.spec.dtype
    padding = _additive("key_padding_mask", key_padding_mask, dtype)
    causal = is_causal and padding is None and not need_weights
    mask = None if causal else _additive("attn_mask", attn_mask, dtype)
    if is_causal and not causal and mask is None:
        mask = _additive("attn_mask", np.triu(np.ones((length, count), bool), 1), dtype)
    queries, keys, values = _projected(q, k, v, weight, bias)
    if further[0] is not None:
        shape = (n, 1, size) if batch_first else (1, n, size)
        keys, values = (wg.concat([t, wg.broadcast_to(f, shape)], time) for t, f in zip((keys, values), further))
        mask, padding = _widened(mask), _widened(padding)
    order = (0, 2, 1, 3) if batch_first else (1, 2, 0, 3)

    def heads(x: Any) -> Any:
        return wg.permute_dims(x.reshape((*x.spec.shape[:2], num_heads, head)), order)

    queries = heads(queries)
    keys, values = (
        heads(t) if f is None else asarray(f).reshape((n, num_heads, *f.shape[1:]))
        for t, f in zip((keys, values), static)
    )
    if add_zero:
        keys, values = (wg.pad(t, [(0, 0), (0, 0), (0, 1), (0, 0)]) for t in (keys, values))
        mask, padding = _widened(mask), _widened(padding)
    mask = _joint(mask, padding, n, num_heads, length, keys.spec.shape[-2])
    weights: Any = None
    if need_weights:
        scores = (queries * head**-0.5) @ keys.mT
        weights = softmax(scores if mask is None else scores + mask)
        weights = dropout(weights, dropout_p) if dropout_p else weights
        out: Any = weights @ values
    else:
        out = scaled_dot_product_attention(queries, keys, values, mask, dropout_p, causal)
    joined = wg.permute_dims(out, (0, 2, 1, 3) if batch_first else (2, 0, 1, 3))
    result = project(joined.reshape((*q.spec.shape[:2], size)))
    if weights is not None:
        weights = weights.mean(axis=1) if average_weights else weights
        weights = weights if batched else wg.squeeze(weights, axis=0)
    return result if batched else wg.squeeze(result, axis=0), weights


def _joint(mask: Any, padding: Any, n: int, heads: int, length: int, count: int) -> Any:
    """Return both masks as one, (L, S) or as it broadcasts to (N, heads, L, S). Raises ShapeError."""
    if mask is not None:
        shapes = {2: (length, count), 3: (n * heads, length, count)}
        if mask.spec.shape != shapes.get(mask.ndim):
            fail(ShapeError, f"attn_mask of shape {mask.spec.shape}, not {shapes[2]} or {shapes[3]}")
        mask = mask.reshape((n, heads, length, count)) if mask.ndim == 3 else mask
    if padding is None:
        return mask
    if padding.spec.shape != (n, count) and not (padding.spec.shape == (count,) and n == 1):
        fail(ShapeError, f"key_padding_mask of shape {padding.spec.shape}, not {(n, count)}")
    padding = padding.reshape((n, 1, 1, count))
    return padding if mask is None else mask + padding
