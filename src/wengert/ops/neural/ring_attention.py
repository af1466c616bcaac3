"""Attention over sequences in parts: keys and values go round the ranks, and softmax is put together as they come.

Each rank has a part of the queries, and of keys and values. It attends to its own, then to those of the rank before it,
and so on; what is to come moves while it computes. A query's result is the mean of the parts' results, weighted by
their sums of exponentials. In the backward pass the gradients of keys and values go round with them, and come home with
all that the ranks have added.

Source: Liu, Zaharia and Abbeel 2023, arXiv:2310.01889.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ...core.ops.op import TABLE
from ...core.tensor import Tensor
from ..pointwise.arithmetic import exp, logaddexp
from ..pointwise.selection import where
from ..reduce.common import running_dtype
from ..structure.shapes import casted

Attend = Callable[..., Any]


def _passed_on(x: Any, over: str, ranks: int) -> Any:
    return TABLE["ppermute"].front(x, over=over, ranks=ranks, pairs=tuple((i, (i + 1) % ranks) for i in range(ranks)))


def _rounds(k: Any, v: Any, over: str, ranks: int, causal: bool) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the keys and values that are here in each round, and where they lie in the queries' past; None: always.

    What ranks before this one along the axis have is the past, so in round i that is what the rank i places before has,
    if there is one.
    """
    here = TABLE["axis_index"].front(over=over, ranks=ranks) if causal else None
    for i in range(ranks):
        following = (_passed_on(k, over, ranks), _passed_on(v, over, ranks)) if i < ranks - 1 else (k, v)
        yield k, v, here >= i if here is not None and i else None
        k, v = following


def _column(x: Any) -> Any:
    return x.reshape((*x.shape, 1))


def attention_in_ring(
    q: Any, k: Any, v: Any, *, attend: Attend, over: str, ranks: int, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Return the attention over whole sequences, of which the ranks along an axis hold the parts in order."""
    y: Any = None
    level: Any = None
    for i, (keys, values, is_past) in enumerate(_rounds(k, v, over, ranks, causal)):
        out, own = attend(q, keys, values, causal=causal and not i, scale=scale)
        out = casted(out, running_dtype(q.dtype))
        if is_past is not None:
            out, own = where(is_past, out, 0.0), where(is_past, own, -math.inf)
        if y is None:
            y, level = out, own
            continue
        both = logaddexp(level, own)
        y = y * _column(exp(level - both)) + out * _column(exp(own - both))
        level = both
    return casted(y, q.dtype), level


def gradients_in_ring(
    q: Any,
    k: Any,
    v: Any,
    y: Any,
    lse: Any,
    dy: Any,
    *,
    gradients: Attend,
    over: str,
    ranks: int,
    causal: bool,
    scale: float,
) -> tuple[Tensor, ...]:
    """Return the gradients in a rank's parts of queries, keys and values, which `gradients` gives for whole ones."""
    wide = running_dtype(q.dtype)
    dq: Any = None
    carried: Any = None
    for i, (keys, values, is_past) in enumerate(_rounds(k, v, over, ranks, causal)):
        found = gradients(q, keys, values, y, lse, dy, causal=causal and not i, scale=scale)
        found = [casted(x, wide) for x in found]
        if is_past is not None:
            found = [where(is_past, x, 0.0) for x in found]
        dq = found[0] if dq is None else dq + found[0]
        carried = found[1:] if carried is None else [a + b for a, b in zip(carried, found[1:], strict=True)]
        carried = [_passed_on(x, over, ranks) for x in carried]
    return tuple(casted(x, q.dtype) for x in (dq, *carried))
