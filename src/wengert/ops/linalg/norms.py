"""Least squares, norms of matrices, rank and condition, and the Array API's products of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import GraphError, ShapeError, fail
from ...core.ops.operands import promote_tensors
from ...core.ops.record import bind
from ...core.spec import normalize_axis, show
from ...core.tensor import Tensor, asarray
from ..aliases import alias, dim_alias
from ..contract.einsum import outer as flattened_outer
from ..contract.einsum import trace as trace_of_axes
from ..contract.products import matmul
from ..pointwise.arithmetic import conj
from ..pointwise.selection import where_op
from ..reduce.common import inexact
from ..reduce.norms import vector_norm
from ..structure.axes import moveaxis, roll
from ..structure.diagonals import diagonal_op
from ..structure.shapes import as_operand, int_args, reshaped
from .base import matrices
from .solve import aligned, cutoff, inv, lstsq_op, tolerance
from .spectral import svdvals

# -- least squares


class LstsqResult(NamedTuple):
    """The result of :func:`lstsq`.

    >>> import wengert as wg
    >>> wg.linalg.lstsq(wg.tensor([[1.0], [1.0]]), wg.tensor([[1.0], [3.0]])).solution
    tensor([[2.]])
    """

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@alias(rcond="rtol")
def lstsq(a: Any, b: Any, /, *, rtol: Any = None) -> LstsqResult:
    """Return the shortest of the x that minimise the norm of a x - b (NumPy, PyTorch).

    Parameters
    ----------
    a: (..., m, n), real or complex, of any rank; integers become float32.
    b: (..., m, k), or one vector (m,); leading axes broadcast.
    rtol: singular values up to this fraction of the largest count as 0; None for max(m, n) times
        the precision of the dtype. NumPy's and PyTorch's `rcond`.

    Returns `solution` (..., n, k), or (..., n) for a vector; `residuals` (..., k), or (...), the squared
    lengths of a x - b, whatever the rank; `rank` (...) and `singular_values` (..., min(m, n)) of a. The
    derivative is that among matrices of the same rank: where the rank is not full, the solution jumps
    in other directions; singular values under `rtol` that are not 0 count as 0 in it too, as in
    :func:`pinv`. Raises LinAlgError for NaN and infinity in a, ShapeError, DTypeError.
    Source of the derivative: Golub and Pereyra 1973, SIAM J. Numer. Anal. 10.

    >>> import wengert as wg
    >>> wg.linalg.lstsq(wg.tensor([[1.0], [1.0]]), wg.tensor([1.0, 3.0])).solution
    tensor([2.])
    """
    fraction = tolerance(rtol, "lstsq")
    left, right, back = aligned("lstsq", a, b, False)
    found = bind(lstsq_op, (left, right), {"rtol": fraction})
    error = back_squares(right - matmul(left, found))
    values = svdvals(left)
    solution = back(found)
    # The residuals have the axes of the solution, less that of the unknowns.
    residuals = reshaped(error, solution.shape[:-1] if solution.ndim == left.ndim - 1 else error.shape)
    return LstsqResult(solution, residuals, _rank(values, left, fraction), values)


def back_squares(r: Tensor) -> Tensor:
    """Return the sum of squared magnitudes of each column."""
    squares = (conj(r) * r).real if r.dtype.kind == "c" else r * r
    out: Tensor = squares.sum(axis=-2)
    return out


def _rank(values: Tensor, x: Tensor, rtol: Any) -> Tensor:
    fraction = cutoff(None, x.shape, x.dtype) if rtol is None else rtol
    if not isinstance(fraction, float):
        fraction = asarray(fraction)[..., None]
    out: Tensor = (values > values[..., :1] * fraction).sum(axis=-1)
    return out


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """Return the number of singular values of each matrix that are not 0 (Array API, NumPy).

    Parameters
    ----------
    x: (..., m, n), real or complex; integers become float32.
    rtol: those up to this fraction of the largest count as 0, a number or one for each matrix (...);
        None for max(m, n) times the precision of the dtype.

    Returns (...) of int64, which has no derivative. Raises LinAlgError for NaN and infinity, ShapeError.

    >>> import wengert as wg
    >>> wg.linalg.matrix_rank(wg.tensor([[1.0, 1.0], [1.0, 1.0]]))
    tensor(1)
    """
    t = matrices(x, "matrix_rank").detach()
    return _rank(svdvals(t), t, float(rtol) if isinstance(rtol, int) else rtol)


# -- norms


def matrix_norm(x: Any, /, *, ord: Any = "fro", keepdims: bool = False) -> Tensor:
    """Return a norm of each matrix in the last two axes (Array API, NumPy).

    Parameters
    ----------
    x: (..., m, n), real or complex; integers become float32.
    ord: "fro" for the square root of the sum of squares; "nuc" for the sum of singular values, 2 and -2
        for the largest and the smallest; 1 and -1 for the largest and the smallest sum of absolute
        values down a column, inf and -inf along a row.
    keepdims: keep the last two axes, with size 1.

    Where a largest or smallest one is not the only one, or a singular value is 0, the gradient is one
    of the subgradients; "fro" has 0 at 0. Raises ShapeError (also for an empty matrix where `ord` is
    negative; the other norms of it are 0), GraphError for another order, LinAlgError for NaN and
    infinity where singular values are asked for.

    >>> import wengert as wg
    >>> x = wg.tensor([[3.0, 0.0], [0.0, -4.0]])
    >>> wg.linalg.matrix_norm(x), wg.linalg.matrix_norm(x, ord="nuc"), wg.linalg.matrix_norm(x, ord=1)
    (tensor(5.), tensor(7.), tensor(4.))
    """
    t = matrices(x, "matrix_norm")
    if ord == "fro":
        return vector_norm(t, axis=(-2, -1), keepdims=keepdims)
    if ord not in ("nuc", 1, -1, 2, -2, math.inf, -math.inf) or isinstance(ord, bool):
        fail(GraphError, f"matrix_norm: ord={ord!r}", 'It is "fro", "nuc", 1, -1, 2, -2, inf or -inf.')
    if 0 in t.shape[-2:]:
        if ord != "nuc" and ord < 0:
            fail(ShapeError, f"matrix_norm of {show(t.shape, t.dtype)}, ord={ord!r}", "An empty matrix has none.")
        nothing: Tensor = abs(t).sum(axis=(-2, -1), keepdims=keepdims)
        return nothing
    if ord in ("nuc", 2, -2):
        values = svdvals(t)
        out = values.sum(axis=-1) if ord == "nuc" else values[..., 0 if ord == 2 else -1]
        return reshaped(out, (*out.shape, 1, 1)) if keepdims else out
    along, over = (-2, -1) if abs(ord) == 1 else (-1, -2)
    sums = abs(t).sum(axis=along, keepdims=True)
    found = sums.amax(axis=over, keepdims=True) if ord > 0 else sums.amin(axis=over, keepdims=True)
    return found if keepdims else reshaped(found, found.shape[:-2])


@dim_alias
def norm(x: Any, /, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return a norm of a vector or a matrix, whichever `x` is or `axis` says (NumPy).

    Parameters
    ----------
    x: any shape, real or complex; integers become float32.
    ord: None for the square root of the sum of squares over `axis`; else as in :func:`vector_norm`,
        or in :func:`matrix_norm` for two axes.
    axis: one axis for vectors along it, two for matrices in them; None for all axes (of one or two where
        `ord` is given). PyTorch's `dim`.
    keepdims: keep the axes, with size 1.

    Raises ShapeError, DTypeError, GraphError, LinAlgError, as the two do.

    >>> import wengert as wg
    >>> x = wg.tensor([[3.0, 0.0], [0.0, -4.0]])
    >>> wg.linalg.norm(x), wg.linalg.norm(x, "nuc"), wg.linalg.norm(x, 1, axis=0)
    (tensor(5.), tensor(7.), tensor([3., 4.]))
    """
    t = inexact(x)
    if ord is None:
        return vector_norm(t, axis=axis, keepdims=keepdims)
    axes = range(t.ndim) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    found = tuple(normalize_axis(a, t.ndim) for a in axes)
    if len(found) not in (1, 2) or len(set(found)) != len(found):
        fail(
            ShapeError,
            f"norm of {show(t.shape, t.dtype)} over axes {tuple(axes)}, ord={ord!r}",
            "It is of a vector (one axis) or a matrix (two); without ord it is of any number of axes.",
        )
    if len(found) == 1:
        return vector_norm(t, ord=ord, axis=found, keepdims=keepdims)
    out = matrix_norm(moveaxis(t, found, (-2, -1)), ord=ord, keepdims=keepdims)
    return moveaxis(out, (-2, -1), found) if keepdims else out


def cond(x: Any, /, p: Any = None) -> Tensor:
    """Return the condition number of each matrix: its norm times that of its inverse (NumPy).

    Parameters
    ----------
    x: (..., m, n), real or complex; square unless `p` is None, 2 or -2.
    p: the norm, as in :func:`matrix_norm`; None for 2, the largest singular value over the smallest.

    inf for a singular matrix where `p` is None or 2 (of a matrix of zeros also where it is -2); LinAlgError
    for it in the other norms, ShapeError.

    >>> import wengert as wg
    >>> wg.linalg.cond(wg.tensor([[1.0, 0.0], [0.0, 4.0]]))
    tensor(4.)
    """
    if p is None or p in (2, -2):
        t = matrices(x, "cond")
        if 0 in t.shape[-2:]:
            fail(ShapeError, f"cond of {show(t.shape, t.dtype)}", "An empty matrix has none.")
        values = svdvals(t)
        largest, smallest = values[..., 0], values[..., -1]
        if p == -2:
            inverse: Tensor = where_op(largest == 0.0, math.inf, smallest / where_op(largest == 0.0, 1.0, largest))
            return inverse
        out: Tensor = where_op(largest == 0.0, math.inf, largest / where_op(largest == 0.0, 1.0, smallest))
        return out
    t = matrices(x, "cond", True)
    return matrix_norm(t, ord=p) * matrix_norm(inv(t), ord=p)


# -- products and views of the Array API


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """Return a diagonal of the matrices in the last two axes, as the last axis of the result (Array API).

    Parameters
    ----------
    x: (..., m, n), of any dtype.
    offset: 0 the main diagonal, positive above it, negative below. :func:`wengert.diagonal` takes axes.

    Raises ShapeError.

    >>> import wengert as wg
    >>> wg.linalg.diagonal(wg.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    t = as_operand(x)
    _at_least_matrices(t, "diagonal")
    (k,) = int_args((offset,), "offset")
    out: Tensor = bind(diagonal_op, (t,), {"offset": k})
    return out


def _at_least_matrices(t: Tensor, name: str) -> None:
    if t.ndim < 2:
        fail(ShapeError, f"{name} of {show(t.shape, t.dtype)}", "It takes matrices (..., m, n) in the last two axes.")


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Return the sum of a diagonal of the matrices in the last two axes (Array API).

    Parameters
    ----------
    x: (..., m, n).
    offset: 0 the main diagonal, positive above it, negative below.
    dtype: of the sum; None for that of x, but booleans and small integers widen to 64 bits.

    Raises ShapeError.

    >>> import wengert as wg
    >>> wg.linalg.trace(wg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    t = as_operand(x)
    _at_least_matrices(t, "trace")
    return trace_of_axes(t, offset, -2, -1, dtype=dtype)


def outer(x: Any, y: Any, /) -> Tensor:
    """Return all products of an element of one vector and one of another, (m,) and (n,) (Array API).

    Raises ShapeError for other ranks.

    >>> import wengert as wg
    >>> wg.linalg.outer(wg.tensor([1.0, 2.0]), wg.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    x, y = promote_tensors("outer", x, y)
    if x.ndim != 1 or y.ndim != 1:
        fail(
            ShapeError,
            f"outer: {show(x.shape, x.dtype)} and {show(y.shape, y.dtype)}",
            "It takes two vectors; x[..., :, None] * y[..., None, :] takes stacks of them.",
        )
    return flattened_outer(x, y)


def cross(x: Any, y: Any, /, *, axis: int = -1) -> Tensor:
    """Return the cross product of vectors of three elements along an axis; the others broadcast (Array API).

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.linalg.cross(wg.tensor([1.0, 0.0, 0.0]), wg.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    x, y = promote_tensors("cross", x, y)
    a, b = normalize_axis(axis, x.ndim), normalize_axis(axis, y.ndim)
    if a != b or x.shape[a] != 3 or y.shape[b] != 3:
        fail(
            ShapeError,
            f"cross: {show(x.shape, x.dtype)} and {show(y.shape, y.dtype)} along axis {axis}",
            "The axis has 3 elements and is, counted from the right, the same in both.",
        )
    return roll(x, -1, a) * roll(y, -2, a) - roll(x, -2, a) * roll(y, -1, a)


def multi_dot(xs: Sequence[Any], /) -> Tensor:
    """Return the product of two or more matrices in the order that takes the fewest operations (NumPy).

    Parameters
    ----------
    xs: matrices (m, n); the first may be one row (n,), the last one column (n,), and that axis is dropped.

    Raises ShapeError. Source: Cormen et al., Introduction to Algorithms: matrix-chain order.

    >>> import wengert as wg
    >>> wg.linalg.multi_dot([wg.ones(2, 3), wg.ones(3, 4), wg.ones(4)])
    tensor([12., 12.])
    """
    if len(xs) < 2:
        fail(ShapeError, f"multi_dot of {len(xs)} matrices", "It takes two or more.")
    factors = promote_tensors("multi_dot", *xs)
    ends = (factors[0].ndim == 1, factors[-1].ndim == 1)
    if ends[0]:
        factors[0] = reshaped(factors[0], (1, factors[0].shape[0]))
    if ends[1]:
        factors[-1] = reshaped(factors[-1], (factors[-1].shape[0], 1))
    for x in factors:
        if x.ndim != 2:
            fail(ShapeError, f"multi_dot: one of its arguments is {show(x.shape, x.dtype)}", "They are matrices.")
    for x, y in zip(factors, factors[1:], strict=False):
        if x.shape[1] != y.shape[0]:
            fail(
                ShapeError,
                f"multi_dot: inner sizes differ: {show(x.shape, x.dtype)} and {show(y.shape, y.dtype)}",
                "Each has as many rows as the one before has columns.",
            )
    out = _chained(factors)
    shape = tuple(n for n, drop in zip(out.shape, ends, strict=True) if not drop)
    return reshaped(out, shape)


def _chained(factors: list[Tensor]) -> Tensor:
    """Return the product in the order of `_splits`, on an explicit stack of (first, last) ranges."""
    split = _splits([factors[0].shape[0], *(x.shape[1] for x in factors)])
    found: dict[tuple[int, int], Tensor] = {(i, i): x for i, x in enumerate(factors)}
    stack = [(0, len(factors) - 1)]
    while stack:
        first, last = stack[-1]
        if (first, last) in found:
            stack.pop()
            continue
        k = split[first, last]
        parts = (first, k), (k + 1, last)
        missing = [p for p in parts if p not in found]
        if missing:
            stack += missing
        else:
            found[first, last] = matmul(found[parts[0]], found[parts[1]])
    return found[0, len(factors) - 1]


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return the best place to split each range of the chain, by the cost of what is inside."""
    n = len(sizes) - 1
    cost = np.zeros((n, n))
    split: dict[tuple[int, int], int] = {}
    for width in range(1, n):
        for first in range(n - width):
            last = first + width
            costs = [
                cost[first, k] + cost[k + 1, last] + float(sizes[first]) * sizes[k + 1] * sizes[last + 1]
                for k in range(first, last)
            ]
            best = int(np.argmin(costs))
            cost[first, last], split[first, last] = costs[best], first + best
    return split
