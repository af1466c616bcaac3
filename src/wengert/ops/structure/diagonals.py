"""Triangles and diagonals of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import ShapeError, fail
from ...core.ops.declare import linear, public
from ...core.ops.facets import Role
from ...core.ops.op import Call, Missing, Op
from ...core.ops.record import bind
from ...core.spec import Spec, normalize_axis, show, spec_of
from ...core.tensor import Tensor
from .axes import moveaxis
from .shapes import as_operand, int_args

# -- triangles


def _infer_triangle(x: Spec, k: int) -> Spec:
    if len(x.shape) < 2:
        fail(ShapeError, f"a triangle of {show(x.shape, x.dtype)}", "It needs at least two dimensions.")
    return x


tril_op: Op = linear(
    "tril(x; k)",
    lambda x, k: np.tril(x, k),
    infer=_infer_triangle,
    transpose=lambda ct, k: tril_op(ct, k=k),
    selects=True,
    moves=True,
    doc="The lower triangle of matrices, up to the k-th diagonal; zeros above.",
    samples=lambda rng: [
        Call((rng.normal(size=(3, 3)),), {"k": 0}),
        Call((rng.normal(size=(2, 2, 3)),), {"k": -1}),
        Call((rng.normal(size=(3, 2)),), {"k": 1}),
    ],
    reference=lambda x, k: x * (np.arange(x.shape[-1]) <= np.arange(x.shape[-2])[:, None] + k),
    onnx="Trilu",
    cost=0,
    zero_gradient="not_selected",
)

triu_op: Op = linear(
    "triu(x; k)",
    lambda x, k: np.triu(x, k),
    infer=_infer_triangle,
    transpose=lambda ct, k: triu_op(ct, k=k),
    selects=True,
    moves=True,
    doc="The upper triangle of matrices, from the k-th diagonal; zeros below.",
    samples=lambda rng: [
        Call((rng.normal(size=(3, 3)),), {"k": 0}),
        Call((rng.normal(size=(2, 2, 3)),), {"k": -1}),
        Call((rng.normal(size=(3, 2)),), {"k": 1}),
    ],
    reference=lambda x, k: x * (np.arange(x.shape[-1]) >= np.arange(x.shape[-2])[:, None] + k),
    onnx="Trilu",
    cost=0,
    zero_gradient="not_selected",
)


def _triangle(triangle: Op, x: Any, k: int) -> Tensor:
    x = as_operand(x)
    _infer_triangle(x.spec, k)
    (offset,) = int_args((k,), "k")
    out: Tensor = bind(triangle, (x,), {"k": offset})
    return out


@public(method=True)
def tril(x: Any, k: int = 0, *, diagonal: int | None = None) -> Tensor:
    """Return the lower triangle of a matrix, or of each matrix in the last two axes; zeros above it.

    Parameters
    ----------
    k: the last diagonal kept: 0 the main one, positive above it. PyTorch's `diagonal` is the same.

    Raises ShapeError below two dimensions.

    >>> import wengert as wg
    >>> wg.tril(wg.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _triangle(tril_op, x, k if diagonal is None else diagonal)


@public(method=True)
def triu(x: Any, k: int = 0, *, diagonal: int | None = None) -> Tensor:
    """Return the upper triangle of a matrix, or of each matrix in the last two axes; zeros below it.

    Parameters
    ----------
    k: the first diagonal kept: 0 the main one, positive above it. PyTorch's `diagonal` is the same.

    Raises ShapeError below two dimensions.

    >>> import wengert as wg
    >>> wg.triu(wg.ones(2, 2), k=1)
    tensor([[0., 1.],
            [0., 0.]])
    """
    return _triangle(triu_op, x, k if diagonal is None else diagonal)


# -- diagonals


def _diagonal_size(rows: int, columns: int, offset: int) -> int:
    return max(0, min(rows + min(offset, 0), columns - max(offset, 0)))


def _infer_diagonal(x: Spec, offset: int) -> Spec:
    *leading, rows, columns = x.shape
    return spec_of((*leading, _diagonal_size(rows, columns, offset)), x.dtype)


def _embed_diagonal(x: Any, offset: int, rows: int, columns: int) -> Any:
    out = np.zeros((*x.shape[:-1], rows, columns), x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(0, -offset), i + max(0, offset)] = x
    return out


def _infer_embedding(x: Spec, offset: int, rows: int, columns: int) -> Spec:
    if x.shape[-1] != _diagonal_size(rows, columns, offset):
        fail(
            ShapeError,
            f"a diagonal of {show(x.shape, x.dtype)} in matrices of {rows} rows and {columns} columns, at {offset}",
            "It has as many elements as that diagonal of the matrices.",
        )
    return spec_of((*x.shape[:-1], rows, columns), x.dtype)


diagonal_op: Op = linear(
    "diagonal(x; offset)",
    lambda x, offset: np.diagonal(x, offset, -2, -1),
    view=True,
    infer=_infer_diagonal,
    transpose=lambda ct, x_shape, offset: embed_diagonal(ct, offset=offset, rows=x_shape[-2], columns=x_shape[-1]),
    fills=True,
    selects=True,
    doc="A diagonal of matrices.",
    samples=lambda rng: [
        Call((rng.normal(size=(3, 3)),), {"offset": 0}),
        Call((rng.normal(size=(2, 2, 3)),), {"offset": 1}),
        Call((rng.normal(size=(3, 2)),), {"offset": -1}),
    ],
    reference=lambda x, offset: np.stack(
        [
            x[..., i - min(offset, 0), i + max(offset, 0)]
            for i in range(_diagonal_size(x.shape[-2], x.shape[-1], offset))
        ],
        -1,
    ),
    onnx=Missing("no operator; GatherND does it"),
    role=Role.STRIDE,
    cost=0,
    zero_gradient="not_selected",
)

embed_diagonal: Op = linear(
    "embed_diagonal(x; offset, rows, columns)",
    _embed_diagonal,
    infer=_infer_embedding,
    transpose=lambda ct, offset: diagonal_op(ct, offset=offset),
    selects=True,
    covers=True,
    moves=True,
    doc="Matrices of zeros with vectors on a diagonal: the transpose of diagonal.",
    samples=lambda rng: [
        Call((rng.normal(size=(3,)),), {"offset": 0, "rows": 3, "columns": 3}),
        Call((rng.normal(size=(2, 2)),), {"offset": 1, "rows": 2, "columns": 3}),
        Call((rng.normal(size=(2,)),), {"offset": -1, "rows": 3, "columns": 2}),
    ],
    reference=lambda x, offset, rows, columns: np.einsum(
        "...i,ij,ik->...jk",
        x,
        np.eye(x.shape[-1], rows, max(0, -offset)),
        np.eye(x.shape[-1], columns, max(0, offset)),
    ),
    onnx=Missing("no operator; ScatterND does it"),
    cost=0,
)


@public(method=True)
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a diagonal of the matrices in two axes, as the last axis of the result.

    Parameters
    ----------
    offset: 0 the main diagonal, positive above it, negative below.
    dim1, dim2: the axes of the matrices' rows and columns.

    Raises ShapeError.

    >>> import wengert as wg
    >>> wg.diagonal([[1, 2], [3, 4]])
    tensor([1, 4])
    """
    x = as_operand(x)
    rows, columns = normalize_axis(dim1, x.ndim, "dim1"), normalize_axis(dim2, x.ndim, "dim2")
    if rows == columns:
        fail(ShapeError, f"diagonal of {show(x.shape, x.dtype)}: dim1 and dim2 are one axis")
    if (rows, columns) != (-2, -1):
        x = moveaxis(x, (rows, columns), (-2, -1))
    (k,) = int_args((offset,), "offset")
    out: Tensor = bind(diagonal_op, (x,), {"offset": k})
    return out


@public(home="torch")
def diag_embed(x: Any, offset: int = 0) -> Tensor:
    """Return square matrices with the last axis of `x` on a diagonal and zeros elsewhere.

    Raises ShapeError for a 0-d tensor.

    >>> import wengert as wg
    >>> wg.torch.diag_embed([1, 2])
    tensor([[1, 0],
            [0, 2]])
    """
    x = as_operand(x)
    if x.ndim == 0:
        fail(ShapeError, "diag_embed of a 0-d tensor", "It needs at least one dimension.")
    (k,) = int_args((offset,), "offset")
    size = x.shape[-1] + abs(k)
    out: Tensor = bind(embed_diagonal, (x,), {"offset": k, "rows": size, "columns": size})
    return out


@public(method=True)
def diag(x: Any, k: int = 0, *, diagonal: int | None = None) -> Tensor:
    """Return the k-th diagonal of a matrix; for a vector the square matrix that has it there.

    Parameters
    ----------
    k: 0 the main diagonal, positive above it. PyTorch's `diagonal` is the same.

    Raises ShapeError for other than one or two dimensions.

    >>> import wengert as wg
    >>> wg.diag([1, 2])
    tensor([[1, 0],
            [0, 2]])
    """
    x = as_operand(x)
    offset = k if diagonal is None else diagonal
    if x.ndim == 1:
        return diag_embed(x, offset)
    if x.ndim != 2:
        fail(ShapeError, f"diag of {show(x.shape, x.dtype)}", "It takes a vector or a matrix; see wg.diagonal.")
    out: Tensor = bind(diagonal_op, (x,), {"offset": int_args((offset,), "k")[0]})
    return out
