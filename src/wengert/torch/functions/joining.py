"""Joining, splitting and diagonals with PyTorch's names, parameters and meaning: `cat`, `stack`, `split`, `diag`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.declare import PUBLIC
from ...core.ops.record import bind
from ...core.spec import show
from ...core.tensor import Tensor as Plain
from ...core.tensor import asarray, wrap
from ...ops.aliases import alias
from ...ops.index.formats import with_channels_last
from ...ops.structure.diagonals import embed_diagonal
from ..namespace import FUNCTIONS, as_torch, function, tensor_of
from ..tensor import Tensor, contiguous_format, formatted, on_cpu
from .shaping import axis_of, copies, own, sizes_of


def _several(tensors: Any, what: str) -> Any:
    found = [tensor_of(t) for t in (unbind(tensors) if isinstance(tensors, Plain) else tensors)]
    if not found:
        fail(ShapeError, f"{what} of no tensors", "Give at least one.")
    return found


# -- joining


@function("concat", "concatenate", method=False, out=True)
def cat(tensors: Any, dim: int = 0) -> Any:
    """Return tensors joined along an axis that they have; ones of shape (0,) are left out. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.cat([torch.zeros(1, 2), torch.ones(1, 2)])
    tensor([[0., 0.],
            [1., 1.]])
    """
    found = _several(tensors, "cat")
    kept = [t for t in found if tuple(t.shape) != (0,)] or found[:1]
    is_one = len(kept) == 1 and kept[0].ndim
    out = formatted(kept[0].clone(), contiguous_format) if is_one else as_torch(PUBLIC["concat"](kept, dim))
    out = out if is_one else with_channels_last(out, *kept)
    if len(kept) < len(found):  # what is left out promotes all the same
        out = out.to(wg.result_type(*found))
    return out


@function(method=False, out=True)
def stack(tensors: Any, dim: int = 0) -> Any:
    """Return tensors of one shape joined along a new axis. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.stack([torch.zeros(2), torch.ones(2)], dim=1)
    tensor([[0., 1.],
            [0., 1.]])
    """
    return as_torch(PUBLIC["stack"](_several(tensors, "stack"), dim))


def _stacks(name: str, ndim: int, axis: int, *aliases: str) -> None:
    raised = FUNCTIONS[f"atleast_{ndim}d"]

    def stacked(tensors: Any) -> Any:
        found = [raised(t) for t in _several(tensors, name)]
        return cat(found, 0 if axis and found[0].ndim == 1 else axis)

    stacked.__name__ = stacked.__qualname__ = name
    stacked.__doc__ = f"Return tensors of at least {ndim} axes joined along axis {axis}. Raises ShapeError."
    function(*aliases, method=False, out=True)(stacked)


_stacks("hstack", 1, 1)
_stacks("vstack", 2, 0, "row_stack")
_stacks("dstack", 3, 2)


@function(method=False, out=True)
def column_stack(tensors: Any) -> Any:
    """Return tensors joined along axis 1, vectors and numbers as columns. Raises ShapeError."""
    found = _several(tensors, "column_stack")
    return cat([t if t.ndim > 1 else t.reshape(t.numel(), 1) for t in found], 1)


@function(method=False)
def block_diag(*tensors: Any) -> Any:
    """Return a matrix with matrices, vectors and numbers along its diagonal, and zeros elsewhere. Raises ShapeError."""
    found = [FUNCTIONS["atleast_2d"](t) for t in tensors] or [tensor_of(np.zeros((1, 0), np.float32))]
    for t in found:
        if t.ndim != 2:
            fail(ShapeError, f"block_diag of {show(t.shape, t.dtype)}", "It takes at most two axes.")
    width, before, rows = sum(t.shape[1] for t in found), 0, []
    dtype = wg.result_type(*found)
    for t in found:
        left, right = (wg.zeros((t.shape[0], n), dtype=dtype) for n in (before, width - before - t.shape[1]))
        rows.append(PUBLIC["concat"]([left, t.to(dtype), right], 1))
        before += t.shape[1]
    return as_torch(PUBLIC["concat"](rows, 0))


@function(method=False)
def meshgrid(*tensors: Any, indexing: Any = "ij") -> Any:
    """Return coordinate tensors of the grid that vectors span: "ij" has the first vector along the first axis.

    Raises ShapeError for more than one axis.
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    found = [tensor_of(t) for t in given]
    return tuple(as_torch(wg.meshgrid(*found, indexing=indexing)))


@function(method=False)
def cartesian_prod(*tensors: Any) -> Any:
    """Return the rows that one element of each vector makes, in order; of one vector itself. Raises ShapeError."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    found = [tensor_of(t) for t in given]
    for t in found:
        if t.ndim != 1:
            fail(ShapeError, f"cartesian_prod of {show(t.shape, t.dtype)}", "It takes vectors.")
    if len(found) == 1:
        return found[0]
    return stack([g.reshape(-1) for g in meshgrid(*found)], 1)


@function()
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Return the rows of `r` elements of a vector, each in the vector's order. Raises ShapeError for other shapes."""
    x = tensor_of(input)
    if x.ndim != 1 or r < 0:
        fail(ShapeError, f"combinations of {r} of {show(x.shape, x.dtype)}", "It takes a vector, and r from 0 on.")
    if r == 0:
        return tensor_of(wg.zeros((0,), dtype=x.dtype))
    chosen = (itertools.combinations_with_replacement if with_replacement else itertools.combinations)(
        range(x.shape[0]), r
    )
    return x[tensor_of(np.array(list(chosen), np.int64).reshape(-1, r))]


# -- splitting


@function("unsafe_split")
def split(input: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None) -> Any:
    """Return the parts of a tensor along an axis: of one size, the last perhaps smaller, or of a size each.

    Raises ShapeError where the sizes do not fill the axis.

    >>> import wengert.torch as torch
    >>> torch.split(torch.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    x, size = tensor_of(input), split_size if split_size_or_sections is None else split_size_or_sections
    if isinstance(size, (tuple, list)):
        size = list(size)
    elif size == 0 and x.shape[dim] == 0:
        size = 1
    return PUBLIC["split"](x, size, dim)


@function("unsafe_split_with_sizes")
def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> Any:
    """Return the parts of a tensor along an axis, of a size each. Raises ShapeError."""
    return split(input, list(split_sizes), dim)


@function("unsafe_chunk")
def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """Return at most `chunks` parts of one size along an axis, the last perhaps smaller. Raises ShapeError."""
    return PUBLIC["chunk"](tensor_of(input), chunks, dim)


@function()
@alias(indices="indices_or_sections", sections="indices_or_sections")
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """Return so many parts along an axis, of sizes that differ by at most 1, or those between indices."""
    x, cuts = tensor_of(input), indices_or_sections
    if isinstance(cuts, Plain):
        cuts = cuts.tolist()
    return PUBLIC["array_split"](x, list(cuts) if isinstance(cuts, (tuple, list)) else cuts, dim)


def _splits(name: str, least: int, axis: int) -> None:
    @alias(indices="indices_or_sections", sections="indices_or_sections")
    def splits(input: Any, indices_or_sections: Any) -> Any:
        x = tensor_of(input)
        if x.ndim < least:
            fail(ShapeError, f"{name} of {show(x.shape, x.dtype)}", f"It takes at least {least} axes.")
        at = axis if x.ndim > 1 else 0
        if isinstance(indices_or_sections, int) and (indices_or_sections < 1 or x.shape[at] % indices_or_sections):
            fail(ShapeError, f"{name} into {indices_or_sections} parts along an axis of size {x.shape[at]}")
        return tensor_split(x, indices_or_sections, at)

    splits.__name__ = splits.__qualname__ = name
    splits.__doc__ = f"Return equal parts, or those between indices, along axis {axis}. Raises ShapeError."
    function()(splits)


_splits("hsplit", 1, 1)
_splits("vsplit", 2, 0)
_splits("dsplit", 3, 2)


@function()
def unbind(input: Any, dim: int = 0) -> Any:
    """Return the slices along an axis, without that axis. Raises ShapeError."""
    return wg.unstack(tensor_of(input), dim)


copies(unbind, "unbind_copy")
copies(split, "split_copy")
copies(split_with_sizes, "split_with_sizes_copy")


# -- diagonals and triangles


@function()
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return a diagonal of the matrices in two axes, as the last axis of the result. Raises ShapeError."""
    x = tensor_of(input)
    return as_torch(PUBLIC["diagonal"](x, offset, axis_of(dim1, x.ndim), axis_of(dim2, x.ndim)))


copies(diagonal, "diagonal_copy")


@function()
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Return square matrices in two new axes with the last axis on a diagonal, zeros elsewhere. Raises ShapeError."""
    x = tensor_of(input)
    if not x.ndim:
        fail(ShapeError, "diag_embed of a 0-d tensor", "It needs at least one axis.")
    size, ndim = x.shape[-1] + abs(offset), x.ndim + 1
    rows, columns = axis_of(dim1, ndim), axis_of(dim2, ndim)
    if rows == columns:
        fail(ShapeError, f"diag_embed: dim1 {dim1} and dim2 {dim2} are one axis")
    out = bind(embed_diagonal, (x,), {"offset": int(offset), "rows": size, "columns": size})
    at_end = (rows, columns) == (ndim - 2, ndim - 1)
    return as_torch(out) if at_end else own(as_torch(wg.moveaxis(out, (-2, -1), (rows, columns))))


@function(out=True)
def diag(input: Any, diagonal: int = 0) -> Any:
    """Return the diagonal of a matrix, or the square matrix with a vector on it. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.diag(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    return own(as_torch(PUBLIC["diag"](tensor_of(input), diagonal)))


@function()
def diagflat(input: Any, offset: int = 0) -> Any:
    """Return the square matrix that has the elements on a diagonal."""
    return diag_embed(tensor_of(input).reshape(-1), offset)


def _triangle(name: str) -> None:
    compute = PUBLIC[name]

    def triangle(input: Any, diagonal: int = 0) -> Any:
        return as_torch(compute(tensor_of(input), diagonal))

    side = "lower" if name == "tril" else "upper"
    triangle.__name__ = triangle.__qualname__ = name
    triangle.__doc__ = f"Return the {side} triangles of matrices up to a diagonal, zeros elsewhere. Raises ShapeError."
    function(out=True)(triangle)


_triangle("tril")
_triangle("triu")


def _indices(name: str, pick: Any) -> None:
    def indices(
        row: int, col: int, offset: int = 0, *, dtype: Any = np.int64, device: Any = None, layout: Any = None
    ) -> Any:
        on_cpu(device)
        return tensor_of(asarray(np.stack(pick(row, offset, col)).astype(dtype)))

    indices.__name__ = indices.__qualname__ = f"{name}_indices"
    indices.__doc__ = f"Return the row and column numbers of the elements that `{name}` keeps, one column for each."
    function(method=False)(indices)


_indices("tril", np.tril_indices)
_indices("triu", np.triu_indices)
