"""Rows of tables by ids: `embedding`, and sums, means and maxima of them in `embedding_bag`."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import DTypeError, GraphError, RangeError, ShapeError, fail
from ...core.tensor import Tensor, asarray
from ...ops.index.gather import embedding as rows_of


def _padding(padding_idx: int | None, table: Tensor) -> int | None:
    """Return the id of a table that takes no part, counted from the start."""
    if table.ndim != 2:
        fail(ShapeError, f"a table of shape {tuple(table.shape)}", "It has two dimensions: (rows, features).")
    if padding_idx is None:
        return None
    rows: int = table.shape[0]
    if not -rows <= padding_idx < rows:
        fail(RangeError, f"padding_idx={padding_idx} in a table of {rows} rows")
    return padding_idx % rows


def _counts(ids: Any, rows: int, dtype: Any) -> Any:
    """Return how often each row of a table is named."""
    flat = ids.reshape((prod(ids.shape),))
    return wg.index_add(wg.zeros(rows, dtype=dtype), 0, flat, wg.ones(flat.shape, dtype=dtype))


def _shorten(weight: Any, ids: Any, max_norm: float, norm_type: float) -> None:
    """Give the rows that are named and longer than `max_norm` that length."""
    table = weight.detach()
    norms = (wg.abs(table) ** norm_type).sum(-1) ** (1.0 / norm_type)
    long = (_counts(ids, weight.shape[0], norms.dtype) > 0) & (norms > max_norm)
    scales = wg.where(long, max_norm / (norms + 1e-7), 1.0)
    weight.assign_(table * scales.reshape((-1, 1)).astype(weight.dtype))


def _rows(
    ids: Tensor,
    weight: Tensor,
    padding_idx: int | None,
    max_norm: float | None,
    norm_type: float,
    scale_grad_by_freq: bool,
) -> Any:
    if ids.dtype.kind not in "iu":
        fail(DTypeError, f"ids are integers, not {ids.spec}", "Cast them: ids.long().")
    if max_norm is not None:
        _shorten(weight, ids, float(max_norm), float(norm_type))
    found: Any = rows_of(weight, ids)
    if padding_idx is not None:
        found = wg.where(wg.expand_dims(ids == padding_idx, -1), found.detach(), found)
    if scale_grad_by_freq:
        shares = 1.0 / wg.take(_counts(ids, weight.shape[0], weight.dtype), ids)
        found = wg.scale_gradient(found, wg.expand_dims(shares, -1))
    return found


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return rows of a table.

    Parameters
    ----------
    input: ids, integers of any shape s.
    weight: the table, (rows, d).
    padding_idx: a row that no gradient goes to.
    max_norm: rows that are named and longer are first given this length, in the table itself.
    norm_type: which norm that is.
    scale_grad_by_freq: divide a row's gradient by how often it is named.
    sparse: taken; gradients are dense all the same.

    Returns s + (d,). Raises RangeError for an id outside the table, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.nn.functional.embedding(wg.tensor([1, 0]), wg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    ids, table = asarray(input), asarray(weight)
    padding = _padding(padding_idx, table)
    return _rows(ids, table, padding, max_norm, norm_type, scale_grad_by_freq)  # type: ignore[no-any-return]


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return sums, means or maxima of rows of a table, over bags of ids.

    Parameters
    ----------
    input: ids, (bags, ids of each), or (ids,) with `offsets`.
    weight: the table, (rows, d).
    offsets: where each bag starts in `input`, (bags,).
    mode: "sum", "mean" or "max"; a bag without ids gives zeros.
    per_sample_weights: factors of the rows, of the shape of `input`; in the mode "sum".
    include_last_offset: the offsets have the number of ids for a last element more, which is not read.
    padding_idx: an id that is passed over.
    max_norm, norm_type, sparse: as in :func:`embedding`.

    Returns (bags, d). Raises RangeError, ShapeError, DTypeError, GraphError for options that do not go together.

    >>> import wengert as wg
    >>> table = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> wg.nn.functional.embedding_bag(wg.tensor([[0, 1], [1, 1]]), table, mode="sum")
    tensor([[4., 6.],
            [6., 8.]])
    """
    ids, table = asarray(input), asarray(weight)
    if per_sample_weights is not None:
        per_sample_weights = asarray(per_sample_weights)
    if mode not in ("sum", "mean", "max"):
        fail(GraphError, f"embedding_bag: mode={mode!r}", 'It is "sum", "mean" or "max".')
    if per_sample_weights is not None and (mode != "sum" or per_sample_weights.shape != ids.shape):
        fail(GraphError, "embedding_bag: per_sample_weights", f'They go with the mode "sum", in the shape {ids.shape}.')
    if per_sample_weights is not None and per_sample_weights.dtype != table.dtype:
        fail(DTypeError, f"embedding_bag: factors {per_sample_weights.spec} for {table.spec}", "Both are of one dtype.")
    if scale_grad_by_freq:
        fail(GraphError, "embedding_bag: scale_grad_by_freq", "wg.nn.functional.embedding has it.")
    if ids.ndim not in (1, 2) or (ids.ndim == 1) == (offsets is None):
        fail(ShapeError, f"embedding_bag: ids of shape {tuple(ids.shape)}", "(bags, ids), or (ids,) with offsets.")
    padding = _padding(padding_idx, table)
    count, width = prod(ids.shape), table.shape[1]
    if ids.ndim == 2:
        bags = ids.shape[0]
        starts: Any = asarray(np.arange(bags) * ids.shape[1])
        ends: Any = starts + ids.shape[1]
        longest = ids.shape[1]
    else:
        given = asarray(offsets)
        if given.ndim != 1 or given.dtype.kind not in "iu" or (include_last_offset and not given.shape[0]):
            fail(ShapeError, f"embedding_bag: offsets {given.spec}", "They are a vector of integers.")
        starts = given[:-1] if include_last_offset else given
        bags = starts.shape[0]
        # Without values at hand a bag may be as long as all ids.
        # The last bag goes to the end of the ids, whatever the last of the offsets says.
        ends = wg.concat([starts[1:], wg.zeros_like(starts[:1]) + count])
        longest = count if given.is_abstract else int(np.max((ends - starts).detach().numpy(), initial=0))
    flat = ids.reshape((count,))
    rows = _rows(flat, table, padding, max_norm, norm_type, False)
    if not bags or not count:
        return wg.zeros((bags, width), dtype=table.dtype) + rows.sum() * 0  # type: ignore[no-any-return]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape((count, 1))
    places = starts.reshape((bags, 1)) + asarray(np.arange(longest))
    held = places < ends.reshape((bags, 1))
    places = wg.where(held, places, 0)
    if padding is not None:
        held = held & wg.take(flat != padding, places)
    held = wg.expand_dims(held, -1)
    each = wg.take(rows, places, 0)
    if mode == "max":
        each = wg.where(held, each, -np.inf)
        winners = wg.expand_dims(wg.argmax(each, axis=1), 1)
        found = wg.take_along_axis(each, winners, 1).squeeze(1)
        return wg.where(held.any(axis=1), found, 0.0)
    total = wg.where(held, each, 0.0).sum(1)
    if mode == "sum":
        return total
    counts = held.astype(table.dtype).sum(1)
    return total / wg.maximum(counts, 1.0)
