"""Scaled dot-product attention.

A query's weights are exp(scores - lse), where `lse` is the log-sum-exp of its scores: with it the
derivatives compute the weights again, and no matrix of scores outlives the node that made it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import DTypeError, ShapeError, fail
from ...core.node import Node
from ...core.ops.autocast import computed_in
from ...core.ops.declare import composite, public
from ...core.ops.facets import Form, Ring
from ...core.ops.nonfinite import EMPTY_ROW, OVERFLOW
from ...core.ops.op import Call, Joint, Missing
from ...core.ops.operands import promote_tensors
from ...core.spec import Spec, broadcast_shapes, show
from ...core.tensor import Tensor, asarray
from ..index.gather import take
from ..pointwise.arithmetic import exp, multiply
from ..pointwise.selection import where, where_op
from ..reduce.common import running_dtype
from ..reduce.extremes import max_op
from ..reduce.norms import logsumexp
from ..structure.shapes import broadcast, cast, casted
from .activations import operand
from .attention_kernels import attention_backward, attention_forward, later
from .composites import dropout, softmax_op
from .ring_attention import attention_in_ring, gradients_in_ring

# -- derivatives, in the open
#
# With S the scores and P the weights, the gradients for dy of the result y are those of Dao 2023,
# arXiv:2307.08691: dV = P' dy, dP = dy V', dS = P (dP - sum(dy y)), dQ = scale dS K, dK = scale dS' Q.
# The rules below differentiate these and the forward once more; each runs on arrays and on tensors.


def _wide(*values: Any) -> tuple[Any, ...]:
    """Return arguments in the dtype that is computed in; None stays."""
    return tuple(v if v is None else _as(v, running_dtype(v.dtype)) for v in values)


def _narrow(dtype: Any, *values: Any) -> tuple[Any, ...]:
    return tuple(v if v is None else _as(v, dtype) for v in values)


def _as(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else cast(x, dtype=dtype)


def _recomputed(q: Any, k: Any, lse: Any, mask: Any, causal: bool, scale: float) -> Any:
    """Return the attention weights, computed again."""
    scores = (q @ k.mT) * scale
    if mask:
        scores = scores + mask[0]
    weights = exp(scores - _column(lse))
    return where_op(_future(weights), 0.0, weights) if causal else weights


def _future(scores: Any) -> Any:
    """Return the mask of scores whose key lies in their query's future."""
    rows, columns = scores.shape[-2:]
    return later(columns, rows).T


def _column(x: Any) -> Any:
    """Return a number for every row as a column beside the rows."""
    return x.reshape((*x.shape, 1))


def _sum(x: Any) -> Any:
    return x.sum(axis=-1, keepdims=True)


def _present(*terms: Any) -> Any:
    """Return the sum of the terms that are there; None where none is."""
    total = None
    for t in terms:
        if t is not None:
            total = t if total is None else total + t
    return total


def _attention_pull(
    ct: Any, q: Any, k: Any, v: Any, mask: Any, out: Any, causal: bool, scale: float, node: Any
) -> tuple[Any, ...]:
    """Return the cotangents by one node; the mask's, as large as the scores, is computed only where it is wanted.

    Through the log-sum-exp something flows in derivatives of derivatives only.
    """
    dy, dlse = ct
    y, lse = out
    dtype = q.dtype
    grads: tuple[Any, ...] = (None, None, None)
    if dy is not None:
        grads = tuple(attention_gradients_op(q, k, v, y, lse, dy, *mask, causal=causal, scale=scale))
    learned = bool(mask) and type(node.inputs[3]) is Node
    if dlse is None and not learned:
        return (*grads, *(None for _ in mask))
    q, k, v, y, dy, *mask = _wide(q, k, v, y, dy, *mask)
    weights = _recomputed(q, k, lse, mask, causal, scale)
    slopes = None if dlse is None else weights * _column(dlse)
    if slopes is not None:
        more = _narrow(dtype, (slopes @ k) * scale, (slopes.mT @ q) * scale)
        grads = (_present(grads[0], more[0]), _present(grads[1], more[1]), grads[2])
    if learned and dy is not None:
        slopes = _present(slopes, weights * (dy @ v.mT - _sum(dy * y)))
    return (*grads, *_narrow(dtype, *(slopes for _ in mask)))


def _attention_push(
    ts: Any, q: Any, k: Any, v: Any, mask: Any, out: Any, causal: bool, scale: float
) -> tuple[Any, Any]:
    """Return the tangents of the result and of the log-sum-exp, which is None where no score moves."""
    dtype, lse = q.dtype, out[1]
    q, k, v, tq, tk, tv, *rest = _wide(q, k, v, *ts, *mask)
    t_mask, mask = rest[: len(mask)], rest[len(mask) :]
    weights = _recomputed(q, k, lse, mask, causal, scale)
    moved = _present(None if tq is None else tq @ k.mT, None if tk is None else q @ tk.mT)
    t_scores = _present(None if moved is None else moved * scale, *t_mask)
    t_out = None if tv is None else weights @ tv
    t_lse = None
    if t_scores is not None:
        t_weights = weights * t_scores
        level = _sum(t_weights)
        t_out = _present(t_out, (t_weights - weights * level) @ v)
        t_lse = level.reshape(level.shape[:-1])
    return _narrow(dtype, t_out)[0], t_lse


def _gradients_pull(
    ct: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, dy: Any, mask: Any, causal: bool, scale: float
) -> tuple[Any, ...]:
    dtype = q.dtype
    a, b, c, q, k, v, y, dy, *mask = _wide(*ct, q, k, v, y, dy, *mask)
    weights = _recomputed(q, k, lse, mask, causal, scale)
    slopes = dy @ v.mT - _sum(dy * y)
    d_scores = weights * slopes
    d_d_scores = (a @ k.mT + q @ b.mT) * scale
    d_slopes = weights * d_d_scores
    level = -_sum(d_slopes)
    back = weights * (dy @ c.mT + slopes * d_d_scores)
    by_q = (back @ k + d_scores @ b) * scale
    by_k = (back.mT @ q + d_scores.mT @ a) * scale
    by_dy = weights @ c + d_slopes @ v + level * y
    by_q, by_k, by_v, by_y, by_dy, *by_mask = _narrow(
        dtype, by_q, by_k, d_slopes.mT @ dy, level * dy, by_dy, *(back for _ in mask)
    )
    return by_q, by_k, by_v, by_y, _as(-_sum(back).reshape(lse.shape), lse.dtype), by_dy, *by_mask


# -- the ops


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


def _gradients_samples(rng: Any) -> list[Call]:
    """Return the forward's calls with their results; the order of derivatives is the forward's less one."""
    found = []
    for call in _attention_samples(rng):
        q, k, v, *mask = call.args
        y, lse = attention_forward(*call.args, **call.attrs)
        dy = rng.normal(size=y.shape)
        found.append(Call((q, k, v, y, lse, dy, *mask), call.attrs, max(0, call.order - 1)))
    return found


def _scores_reference(q: Any, k: Any, mask: Any, causal: bool, scale: float) -> Any:
    scores = np.einsum("...id,...jd->...ij", q, k) * scale + (mask[0] if mask else 0.0)
    if causal:
        scores = scores + np.triu(np.full(scores.shape[-2:], -np.inf), 1)
    return scores


def _attention_reference(q: Any, k: Any, v: Any, *mask: Any, causal: bool, scale: float) -> Any:
    weights = np.exp(_scores_reference(q, k, mask, causal, scale))
    total = weights.sum(-1)
    total[total == 0] = 1
    return np.einsum("...ij,...jd->...id", weights / total[..., None], v), np.log(total)


def _gradients_reference(
    q: Any, k: Any, v: Any, y: Any, lse: Any, dy: Any, *mask: Any, causal: bool, scale: float
) -> Any:
    weights = np.exp(_scores_reference(q, k, mask, causal, scale) - lse[..., None])
    slopes = np.einsum("...id,...jd->...ij", dy, v) - np.einsum("...id,...id->...i", dy, y)[..., None]
    return (
        np.einsum("...ij,...jd->...id", weights * slopes * scale, k),
        np.einsum("...ij,...id->...jd", weights * slopes * scale, q),
        np.einsum("...ij,...id->...jd", weights, dy),
    )


def _check_specs(q: Spec, k: Spec, v: Spec, mask: Sequence[Spec]) -> None:
    """Raise ShapeError unless the leading axes are the same, and a mask has the shape of the scores."""
    shapes = [x.shape for x in (q, k, v, *mask)]
    fits = min(map(len, shapes)) >= 2 and len({s[:-2] for s in shapes}) == 1 and len(mask) <= 1
    if (
        not fits
        or (q.shape[-1], k.shape[-2]) != (k.shape[-1], v.shape[-2])
        or any(m.shape[-2:] != (q.shape[-2], k.shape[-2]) for m in mask)
    ):
        fail(ShapeError, f"attention of {' and '.join(show(s) for s in shapes)}")


def _fits(q: Spec, k: Spec, v: Spec, *mask: Spec, causal: bool, scale: float) -> None:
    _check_specs(q, k, v, mask)


def _gradients_fit(
    q: Spec, k: Spec, v: Spec, y: Spec, lse: Spec, dy: Spec, *mask: Spec, causal: bool, scale: float
) -> None:
    _check_specs(q, k, v, mask)
    shape = (*q.shape[:-1], v.shape[-1])
    fits = y.shape == dy.shape == shape and lse.shape == q.shape[:-1]
    if not fits or lse.dtype not in (q.dtype, running_dtype(q.dtype)):
        fail(ShapeError, f"gradients of attention of {shape}: {y}, {lse} and {dy}")


def _in_ring(*args: Any, **attrs: Any) -> Any:
    return attention_in_ring(*args, attend=attention_op, **attrs)


def _gradients_in_ring(*args: Any, **attrs: Any) -> Any:
    return gradients_in_ring(*args, gradients=attention_gradients_op, **attrs)


@composite(
    "attention(q, k, v, *mask; causal, scale)",
    accepts="real_inexact",
    forward=attention_forward,
    fits=_fits,
    facts=Joint(_attention_pull, _attention_push, absent=True),
    results=2,
    doc="Softmax of scaled products of queries and keys, applied to values; and the log-sum-exp of the products.",
    source="Vaswani et al. 2017, arXiv:1706.03762; Dao 2023, arXiv:2307.08691",
    layout="(m,d),(n,d),(n,e)->(m,e),(m)",
    samples=_attention_samples,
    reference=_attention_reference,
    onnx=Missing("no operator before opset 23"),
    form=Form("attn", say="Queries, keys and values each get their part, weighted by the attention."),
    nonfinite=OVERFLOW._replace(infinite=EMPTY_ROW),
    autocast="lower",
    ring=Ring(_in_ring, (-2, -2, -2), (-2, -1), (1, 2)),
)
def attention_op(q: Any, k: Any, v: Any, *mask: Any, causal: bool, scale: float) -> Any:
    """Return the weighted means of the values, and the log-sum-exp of every query's scores."""
    dtype = q.dtype
    q, k, v, *mask = (casted(a, running_dtype(dtype)) for a in (q, k, v, *mask))  # type: ignore[assignment]
    scores = _masked_scores(q, k, mask, causal, scale)
    return casted(_weights(scores) @ v, dtype), _log_sum(scores)


@composite(
    "attention_gradients(q, k, v, y, lse: any, dy, *mask; causal, scale)",
    accepts="real_inexact",
    forward=attention_backward,
    fits=_gradients_fit,
    facts=Joint(_gradients_pull),
    results=3,
    doc="The gradients of attention in queries, keys and values, for `dy` of its result `y`.",
    source="Dao 2023, arXiv:2307.08691",
    layout="(m,d),(n,d),(n,e),(m,e),(m),(m,e)->(m,d),(n,d),(n,e)",
    samples=_gradients_samples,
    reference=_gradients_reference,
    onnx=Missing("ONNX has no gradients"),
    ring=Ring(_gradients_in_ring, (-2, -2, -2, -2, -1, -2), (-2, -2, -2), (1, 2, 1, 2)),
)
def attention_gradients_op(
    q: Any, k: Any, v: Any, y: Any, lse: Any, dy: Any, *mask: Any, causal: bool, scale: float
) -> Any:
    """Return the cotangents of queries, keys and values for a cotangent `dy` of the means."""
    dtype = q.dtype
    q, k, v, y, dy, *mask = _wide(q, k, v, y, dy, *mask)  # type: ignore[assignment]
    weights = _recomputed(q, k, lse, mask, causal, scale)
    slopes = weights * (dy @ v.mT - _sum(dy * y))
    return _narrow(dtype, (slopes @ k) * scale, (slopes.mT @ q) * scale, weights.mT @ dy)


def _masked_scores(q: Any, k: Any, mask: Any, causal: bool, scale: float) -> Tensor:
    """Return scaled scores as tensors, -inf where a key takes no part."""
    scores = multiply.front(q @ k.mT, scale)
    if mask:
        scores = scores + mask[0]
    return where(asarray(_future(scores)), -math.inf, scores) if causal else scores


def _seen(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores with 0 in the rows of queries that may see no key, and the mask of those rows."""
    unseeing = max_op.front(scores, axis=(-1,), keepdims=True) == -math.inf
    return where(unseeing, 0.0, scores), unseeing


def _weights(scores: Tensor) -> Tensor:
    """Return softmax over keys; zeros for a query that may see none."""
    if scores.shape[-1] == 0:
        return scores
    seen, unseeing = _seen(scores)
    return where(unseeing, 0.0, softmax_op.front(seen, axis=-1))


def _log_sum(scores: Tensor) -> Tensor:
    """Return the log-sum-exp over keys; 0 for a query that may see none, for which exp(scores - 0) is its weights."""
    out: Tensor
    if scores.shape[-1] == 0:
        out = scores.sum(axis=-1)
        return out
    seen, unseeing = _seen(scores)
    found = where(unseeing, 0.0, logsumexp(seen, axis=-1, keepdims=True))
    out = found.reshape(scores.shape[:-1])
    return out


@public(home="nn.functional")
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
    attn_mask: booleans, True where a key takes part, or numbers added to the scores; broadcasts to
        (..., m, n). A query without any key gets zeros.
    dropout_p: weights dropped with this probability, whether in training or not.
    is_causal: query i sees keys 0..i only; not together with `attn_mask`.
    scale: 1/sqrt(d) where None.
    enable_gqa: queries may have more heads than keys and values, of which each then serves as many in a row.

    Returns (..., heads, m, e). Raises ShapeError, DTypeError. Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import wengert as wg
    >>> q = wg.zeros(1, 2, 4)
    >>> wg.nn.functional.scaled_dot_product_attention(q, q, wg.tensor([[[1.0], [3.0]]]), is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    name = "scaled_dot_product_attention"
    given = [operand(t, name) for t in (query, key, value)]
    q, k, v = promote_tensors(name, *given)
    if not ((q is given[0] and k is given[1] and v is given[2]) or q.meaning.mixes_dtypes):
        fail(DTypeError, f"{name} of {', '.join(str(t.spec) for t in given)}", "Give one dtype.")
    if enable_gqa:
        k, v = _for_heads(k, q), _for_heads(v, q)
    _check(q, k, v)
    if is_causal and attn_mask is not None:
        fail(ShapeError, f"{name}: is_causal together with attn_mask", "Put the causal mask into attn_mask.")
    factor = 1 / math.sqrt(q.shape[-1] or 1) if scale is None else float(scale)
    batch = broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    assert batch is not None
    q, k, v = (t if t.shape[:-2] == batch else broadcast.front(t, shape=batch + t.shape[-2:]) for t in (q, k, v))
    mask = [] if attn_mask is None else [_additive(attn_mask, q, (*batch, q.shape[-2], k.shape[-2]))]
    if dropout_p:
        weights = _weights(_masked_scores(q, k, mask, is_causal, factor))
        dropped: Tensor = dropout(weights, dropout_p) @ v
        return dropped
    out: Tensor = attention_op.front(q, k, v, *mask, causal=bool(is_causal), scale=factor)[0]
    return out


def _for_heads(x: Tensor, query: Tensor) -> Tensor:
    """Return keys or values with each head as often in a row as there are queries' heads for it."""
    wanted, held = query.spec.shape[-3:-2], x.spec.shape[-3:-2]
    if not wanted or not held or wanted[0] % held[0]:
        fail(ShapeError, f"enable_gqa: queries {query.spec} with keys or values {x.spec}", "Heads fall into groups.")
    times = wanted[0] // held[0]
    return x if times == 1 else take(x, np.repeat(np.arange(held[0]), times), -3)


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
    """Return a mask as numbers to add to the scores, in their shape."""
    m = mask if isinstance(mask, Tensor) else asarray(mask)
    if m.dtype.kind in "iuc":
        fail(DTypeError, f"an attention mask of dtype {m.dtype}", "Use booleans, or numbers to add to the scores.")
    if m.dtype.kind == "b":
        m = where(m, asarray(0.0, dtype=like.dtype), -math.inf)
    m = casted(m, like.dtype)
    if broadcast_shapes(m.shape, shape) != shape:
        fail(ShapeError, f"an attention mask of shape {m.shape} for scores of shape {shape}")
    out: Tensor = m if m.shape == shape else broadcast.front(m, shape=shape)
    return out
