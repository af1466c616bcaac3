"""Scaled dot-product attention."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.declare import composite, public
from ..core.errors import DTypeError, ShapeError, fail
from ..core.op import Call, Joint, Missing
from ..core.operands import promote_tensors
from ..core.spec import broadcast_shapes, float32, show
from ..core.tensor import Tensor, asarray
from .activations import operand
from .composites import dropout, softmax_op
from .elementwise import multiply
from .reduce_ops import max_op
from .selection import where
from .structure import broadcast, cast


@lru_cache(maxsize=64)
def _future(rows: int, columns: int) -> Any:
    """Where a column lies in a row's future."""
    mask = np.arange(columns) > np.arange(rows)[:, None]
    mask.flags.writeable = False
    return mask


def _scores(q: Any, k: Any, causal: bool, scale: float) -> Any:
    scores = np.matmul(q, k.mT)
    scores *= scores.dtype.type(scale)
    if causal:
        np.copyto(scores, -math.inf, where=_future(*scores.shape[-2:]))
    return scores


def _attention(q: Any, k: Any, v: Any, *mask: Any, causal: bool, scale: float) -> tuple[Any, Any]:
    if q.dtype.itemsize == 2:
        wide = (a.astype(float32) for a in (q, k, v, *mask))
        out, weights = _attention(*wide, causal=causal, scale=scale)
        return out.astype(q.dtype), weights.astype(q.dtype)
    scores = _scores(q, k, causal, scale)
    if mask:
        scores += mask[0]
    # Softmax in place: the scores are this function's own. A row of -inf becomes one of zeros.
    top = np.maximum.reduce(scores, -1, keepdims=True, initial=-math.inf)
    top[top == -math.inf] = 0
    scores -= top
    np.exp(scores, out=scores)
    total = np.add.reduce(scores, -1, keepdims=True)
    total[total == 0] = 1
    scores /= total
    return np.matmul(scores, v), scores


def _attention_pull(ct: Any, q: Any, k: Any, v: Any, mask_shape: Any, out: Any, scale: float) -> tuple[Any, ...]:
    """Through the result and, in passes over passes, through the weights."""
    dtype = q.dtype
    if dtype.itemsize == 2:
        ct_out, ct_weights, q, k, v, *wide = (cast(a, dtype=float32) for a in (*ct, q, k, v, *out))
        grads = _attention_pull((ct_out, ct_weights), q, k, v, mask_shape, wide, scale)
        return tuple(cast(g, dtype=dtype) for g in grads)
    ct_out, ct_weights = ct
    _, weights = out
    g = ct_out @ v.mT
    g += ct_weights
    g *= weights
    g -= weights * g.sum(axis=-1, keepdims=True)
    return (g @ k) * scale, (g.mT @ q) * scale, weights.mT @ ct_out, *(g for _ in mask_shape)


def _with_an_empty_row(mask: Any) -> Any:
    out = mask.copy()
    out[0, 1] = -math.inf
    return out


def _attention_samples(rng: Any) -> list[Call]:
    q, k, v = (rng.normal(size=(2, 3, 2)) for _ in range(3))
    mask = rng.normal(size=(2, 3, 3))
    return [
        Call((q, k, v), {"causal": False, "scale": 0.7}),
        Call((q, k, v), {"causal": True, "scale": 0.7}),
        Call((q, k, v, mask), {"causal": False, "scale": 1.0}),
        Call((q[0], k[0][:2], v[0][:2]), {"causal": False, "scale": 0.5}),
        Call((q, k, v, _with_an_empty_row(mask)), {"causal": False, "scale": 1.0}, order=0),
    ]


def _attention_reference(q: Any, k: Any, v: Any, *mask: Any, causal: bool, scale: float) -> Any:
    scores = np.einsum("...id,...jd->...ij", q, k) * scale + (mask[0] if mask else 0.0)
    if causal:
        scores = scores + np.triu(np.full(scores.shape[-2:], -np.inf), 1)
    weights = np.exp(scores)
    weights = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    return np.einsum("...ij,...jd->...id", weights, v), weights


@composite(
    "attention(q, k, v, *mask; causal, scale)",
    accepts="real_inexact",
    forward=_attention,
    facts=Joint(_attention_pull),
    results=2,
    doc="Softmax of scaled products of queries and keys, applied to values; and the softmax.",
    source="Vaswani et al. 2017, arXiv:1706.03762",
    layout="(m,d),(n,d),(n,e)->(m,e),(m,n)",
    samples=_attention_samples,
    reference=_attention_reference,
    onnx=Missing("no operator before opset 23"),
)
def attention_op(q: Any, k: Any, v: Any, *mask: Any, causal: bool, scale: float) -> Any:
    scores = multiply.front(q @ k.mT, scale)
    if mask:
        scores = scores + mask[0]
    if causal:
        scores = where(asarray(_future(*scores.shape[-2:])), -math.inf, scores)
    weights = _weights(scores)
    return weights @ v, weights


def _weights(scores: Tensor) -> Tensor:
    """Softmax over keys; zeros for a query that may see none."""
    if scores.shape[-1] == 0:
        return scores
    unseeing = max_op.front(scores, axis=(-1,), keepdims=True) == -math.inf
    return where(unseeing, 0.0, softmax_op.front(where(unseeing, 0.0, scores), axis=-1))


@public
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query key^T scale) value: for every query a mean of the values, weighted by its keys.

    Parameters
    ----------
    query: (..., m, d); key: (..., n, d); value: (..., n, e). Leading axes broadcast.
    attn_mask: booleans, True where a key takes part, or numbers added to the scores; broadcasts to
        (..., m, n). A query without any key gets zeros.
    dropout_p: weights dropped with this probability.
    is_causal: query i sees keys 0..i only; not together with `attn_mask`.
    scale: 1/sqrt(d) where None.

    Returns (..., m, e). Raises ShapeError, DTypeError. Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import wengert as wg
    >>> q = wg.zeros(1, 2, 4)
    >>> wg.scaled_dot_product_attention(q, q, wg.tensor([[[1.0], [3.0]]]), is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    name = "scaled_dot_product_attention"
    q, k, v = promote_tensors(name, *(operand(t, name) for t in (query, key, value)))
    _check(q, k, v)
    if is_causal and attn_mask is not None:
        fail(ShapeError, f"{name}: is_causal together with attn_mask", "Put the causal mask into attn_mask.")
    factor = 1 / math.sqrt(q.shape[-1] or 1) if scale is None else float(scale)
    batch = broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    assert batch is not None
    q, k, v = (t if t.shape[:-2] == batch else broadcast.front(t, shape=batch + t.shape[-2:]) for t in (q, k, v))
    mask = [] if attn_mask is None else [_additive(attn_mask, q, (*batch, q.shape[-2], k.shape[-2]))]
    if dropout_p:
        scores = multiply.front(q @ k.mT, factor)
        if mask:
            scores = scores + mask[0]
        if is_causal:
            scores = where(asarray(_future(*scores.shape[-2:])), -math.inf, scores)
        dropped: Tensor = dropout(_weights(scores), dropout_p) @ v
        return dropped
    out: Tensor = attention_op.front(q, k, v, *mask, causal=bool(is_causal), scale=factor)[0]
    return out


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    shown = f"query {show(q.shape, q.dtype)}, key {show(k.shape, k.dtype)}, value {show(v.shape, v.dtype)}"
    name = "scaled_dot_product_attention"
    if min(q.ndim, k.ndim, v.ndim) < 2:
        fail(ShapeError, f"{name}: {shown}", "Each has at least two axes: positions and features.")
    if q.shape[-1] != k.shape[-1]:
        fail(ShapeError, f"{name}: {shown}", "Queries and keys have the same number of features.")
    if k.shape[-2] != v.shape[-2]:
        fail(ShapeError, f"{name}: {shown}", "There is one value for each key.")
    if broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2]) is None:
        fail(ShapeError, f"{name}: {shown}", "Leading axes must be equal or 1.")


def _additive(mask: Any, like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A mask as numbers to add to the scores, in their shape."""
    m = mask if isinstance(mask, Tensor) else asarray(mask)
    if m.dtype.kind in "iuc":
        fail(DTypeError, f"an attention mask of dtype {m.dtype}", "Use booleans, or numbers to add to the scores.")
    if m.dtype.kind == "b":
        m = where(m, asarray(0.0, dtype=like.dtype), -math.inf)
    m = promote_tensors("attention mask", m, like)[0]
    if broadcast_shapes(m.shape, shape) != shape:
        fail(ShapeError, f"an attention mask of shape {m.shape} for scores of shape {shape}")
    out: Tensor = m if m.shape == shape else broadcast.front(m, shape=shape)
    return out
