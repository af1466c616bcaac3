"""Sparse matrices as PyTorch's programs on graphs have them: coordinates and values, `torch.sparse_coo_tensor`.

A :class:`SparseTensor` is no :class:`Tensor`: it has what there is for its layout, and says so where there is nothing.
Gradients flow to its values and to what it is multiplied with. :mod:`wengert.sparse`'s names, which are of sparse
derivatives, are here too.

>>> import wengert.torch as torch
>>> edges = torch.tensor([[0, 1, 1], [1, 0, 2]])
>>> adjacency = torch.sparse_coo_tensor(edges, torch.tensor([1.0, 1.0, 2.0]), (2, 3))
>>> adjacency @ torch.tensor([[1.0], [10.0], [100.0]])
tensor([[ 10.],
        [201.]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import wengert as wg

from ...core import tree
from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.mode import get_mode
from ...core.tensor import Tensor as Plain
from ..namespace import FUNCTIONS, as_torch, function, tensor_of
from ..tensor import CPU, Size, dtype_of, on_cpu, sparse_coo


class SparseTensor:
    """A tensor of which the elements at some coordinates are held: `torch.sparse_coo`.

    `indices` is (sparse_dim, nnz), `values` is (nnz, *dense shape); elements at the same coordinates add up.
    """

    is_sparse = True
    is_cuda = is_quantized = False
    layout = sparse_coo
    device = CPU

    def __init__(self, indices: Any, values: Any, size: Sequence[int], coalesced: bool = False) -> None:
        self._coordinates, self._held, self._size = indices, values, Size(size)
        self._coalesced = coalesced

    # -- what it is

    @property
    def shape(self) -> Size:
        """The shape of the whole."""
        return self._size

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self._held.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._size)

    @property
    def requires_grad(self) -> bool:
        """Return whether gradients flow to the values."""
        return bool(self._held.requires_grad)

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the length of one axis."""
        return self._size if dim is None else self._size[dim]

    def dim(self) -> int:
        """Return the number of axes."""
        return self.ndim

    def sparse_dim(self) -> int:
        """Return how many axes the coordinates name."""
        return int(self._coordinates.shape[0])

    def dense_dim(self) -> int:
        """Return how many axes the values have beside the first."""
        return self.ndim - self.sparse_dim()

    def numel(self) -> int:
        """Return the number of elements of the whole."""
        return int(np.prod(self._size))

    def _nnz(self) -> int:
        return int(self._held.shape[0])

    def _indices(self) -> Any:
        return self._coordinates

    def _values(self) -> Any:
        return self._held

    def is_coalesced(self) -> bool:
        """Return whether every coordinate is there once, in order."""
        return self._coalesced

    def indices(self) -> Any:
        """Return the coordinates, (sparse_dim, nnz). Raises ShapeError for a tensor that is not coalesced."""
        self._need_coalesced("indices()")
        return self._coordinates

    def values(self) -> Any:
        """Return the values, (nnz, ...). Raises ShapeError for a tensor that is not coalesced."""
        self._need_coalesced("values()")
        return self._held

    def _need_coalesced(self, name: str) -> None:
        if not self._coalesced:
            fail(ShapeError, f"{name} of a sparse tensor that is not coalesced", "Call coalesce() before.")

    # -- other forms

    def coalesce(self) -> SparseTensor:
        """Return the tensor with every coordinate once, in order, and the values of repeated ones added up.

        Raises TraceError while a function is traced, where the coordinates are not known.
        """
        if self._coalesced:
            return self
        places = np.asarray(self._flat().numpy())
        found, inverse = np.unique(places, return_inverse=True)
        lead = self._size[: self.sparse_dim()]
        values = wg.zeros((len(found), *self._held.shape[1:]), dtype=self.dtype)
        values = as_torch(values).index_add(0, tensor_of(inverse.reshape(-1)), self._held)
        where = np.stack(np.unravel_index(found, lead)) if lead else np.zeros((0, len(found)), np.int64)
        return SparseTensor(tensor_of(where.astype(np.int64)), values, self._size, True)

    def _flat(self) -> Any:
        """Return the coordinates as one number each, in C order."""
        lead = self._size[: self.sparse_dim()]
        steps = np.cumprod([1, *lead[:0:-1]])[::-1].astype(np.int64).reshape(-1, 1)
        return (self._coordinates * tensor_of(steps.copy())).sum(dim=0)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
        """Return the whole tensor, with 0 where no value is held."""
        lead = self._size[: self.sparse_dim()]
        whole = as_torch(wg.zeros((int(np.prod(lead)), *self._held.shape[1:]), dtype=self.dtype))
        out = whole.index_add(0, self._flat(), self._held).reshape(self._size)
        return out if dtype is None else out.to(dtype)

    def to_sparse(self, sparse_dim: int | None = None, *, layout: Any = None) -> SparseTensor:
        """Return the tensor itself. Raises DTypeError for another layout, or other axes that are sparse."""
        if layout not in (None, sparse_coo) or sparse_dim not in (None, self.sparse_dim()):
            fail(DTypeError, f"to_sparse({sparse_dim}, layout={layout}) of a sparse tensor", "Make it dense before.")
        return self

    def _with(self, values: Any) -> SparseTensor:
        return SparseTensor(self._coordinates, values, self._size, self._coalesced)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """Return the tensor with its values as `Tensor.to` makes them."""
        return self._with(self._held.to(*args, **kwargs))

    def cpu(self) -> SparseTensor:
        """Return the tensor itself: it is on the processor."""
        return self

    def cuda(self, device: Any = None, non_blocking: bool = False) -> SparseTensor:
        """Raise DTypeError: tensors live on the processor."""
        on_cpu("cuda")
        return self

    def float(self) -> SparseTensor:
        """Return the tensor with float32 values."""
        return self._with(self._held.float())

    def double(self) -> SparseTensor:
        """Return the tensor with float64 values."""
        return self._with(self._held.double())

    def detach(self) -> SparseTensor:
        """Return the tensor without what its values were computed from."""
        return self._with(self._held.detach())

    def clone(self) -> SparseTensor:
        """Return a copy."""
        return self._with(self._held.clone())

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Have gradients flow to the values, or not. Returns the tensor."""
        self._held.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient, at the coordinates that are held."""
        found = self._held.grad
        return None if found is None else self._with(found)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Return the tensor with two axes that the coordinates name exchanged."""
        a, b = (d + self.ndim if d < 0 else d for d in (dim0, dim1))
        if max(a, b) >= self.sparse_dim() or min(a, b) < 0:
            fail(RangeError, f"transpose({dim0}, {dim1}) of {self!r}", "It exchanges axes that the coordinates name.")
        order, size = list(range(self.sparse_dim())), list(self._size)
        order[a], order[b] = order[b], order[a]
        size[a], size[b] = size[b], size[a]
        return SparseTensor(self._coordinates[order], self._held, size, self._coalesced and a == b)

    def t(self) -> SparseTensor:
        """Return the transposed matrix."""
        return self.transpose(0, 1)

    # -- arithmetic

    def __neg__(self) -> SparseTensor:
        return self._with(-self._held)

    def __mul__(self, other: Any) -> SparseTensor:
        if isinstance(other, SparseTensor) or getattr(other, "ndim", False):
            return NotImplemented
        return self._with(self._held * other)

    __rmul__ = __mul__
    mul = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        if isinstance(other, SparseTensor) or getattr(other, "ndim", False):
            return NotImplemented
        return self._with(self._held / other)

    div = __truediv__

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SparseTensor):
            return self.to_dense() + other if isinstance(other, Plain) else NotImplemented
        if other._size != self._size or other.sparse_dim() != self.sparse_dim():
            fail(ShapeError, f"the sum of {self!r} and {other!r}")
        where = as_torch(wg.concat([self._coordinates, other._coordinates], axis=1))
        return SparseTensor(where, as_torch(wg.concat([self._held, other._held])), self._size)

    __radd__ = add = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __matmul__(self, other: Any) -> Any:
        return mm(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return mm(other, self)

    matmul = __matmul__

    def mm(self, mat2: Any) -> Any:
        """Return the product with a matrix; see :func:`wengert.torch.sparse.mm`."""
        return mm(self, mat2)

    def mv(self, vec: Any) -> Any:
        """Return the product with a vector."""
        return mm(self, vec)

    def __repr__(self) -> str:
        shown = f"size={tuple(self._size)}, nnz={self._nnz()}, dtype={self.dtype}"
        return f"sparse_coo_tensor(indices={self._coordinates!r},\n       values={self._held!r},\n       {shown})"

    def __len__(self) -> int:
        return int(self._size[0])


def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """Return a sparse tensor with `values` at `indices`.

    Parameters
    ----------
    indices: (sparse_dim, nnz), integers.
    values: (nnz, ...), a tensor to which gradients flow, an array, a list or a number.
    size: the shape; else the least that holds all coordinates.
    is_coalesced: whether every coordinate is there once, in order.

    Raises RangeError for coordinates outside the shape, ShapeError for shapes that do not fit, DTypeError for
    coordinates that are not integers.
    """
    on_cpu(device)
    where: Any = tensor_of(indices)
    held: Any = tensor_of(values)
    if dtype is not None:
        held = held.to(dtype_of(dtype))
    if np.dtype(where.dtype).kind not in "iu" and where.numel():
        fail(DTypeError, f"sparse_coo_tensor() with indices of dtype {where.dtype}", "Coordinates are integers.")
    where = where.long()
    if where.ndim == 1:
        where = where.reshape(1, -1)
    if held.ndim == 0:
        held = held.expand(where.shape[1])
    if where.ndim != 2 or held.shape[0] != where.shape[1]:
        fail(
            ShapeError,
            f"sparse_coo_tensor() with indices of shape {tuple(where.shape)}, values of shape {tuple(held.shape)}",
            "Coordinates are (sparse_dim, nnz), values (nnz, ...).",
        )
    known = None if get_mode().tracing else np.asarray(where.numpy())
    if size is None:
        if known is None or not known.shape[1]:
            fail(ShapeError, "sparse_coo_tensor() without a size", "Give the shape: the coordinates do not tell it.")
        size = (*(int(n) + 1 for n in known.max(axis=1)), *held.shape[1:])
    size = tuple(int(n) for n in size)
    lead = size[: where.shape[0]]
    if len(size) != where.shape[0] + held.ndim - 1 or size[where.shape[0] :] != tuple(held.shape[1:]):
        fail(
            ShapeError,
            f"sparse_coo_tensor() of size {size} with indices of shape {tuple(where.shape)}, "
            f"values of shape {tuple(held.shape)}",
            "The size is as long as the coordinates are many, and then the shape of a value.",
        )
    if known is not None and known.size and ((known < 0) | (known >= np.array(lead).reshape(-1, 1))).any():
        fail(RangeError, f"sparse_coo_tensor() of size {size} with coordinates outside of it")
    out = SparseTensor(where, held, size, bool(is_coalesced))
    return out.requires_grad_() if requires_grad else out


def mm(mat1: Any, mat2: Any, reduce: Any = None) -> Any:
    """Return the product of a sparse matrix and a matrix or a vector, or of a matrix and a sparse matrix: dense.

    Of (n, k) with nnz values and (k, m) it takes nnz * m products, and as much memory. Gradients flow to the values
    and to the dense factor. Raises ShapeError for shapes that do not fit, or where both are sparse.
    """
    if not isinstance(mat1, SparseTensor):
        if not isinstance(mat2, SparseTensor):
            return as_torch(wg.matmul(mat1, mat2))
        return mm(mat2.t(), mat1.mT).mT
    if isinstance(mat2, SparseTensor):
        fail(ShapeError, "the product of two sparse matrices", "Make one of them dense: b.to_dense().")
    if reduce not in (None, "sum"):
        fail(ShapeError, f"sparse.mm(reduce={reduce!r})", "It adds up.")
    x = tensor_of(mat2)
    if mat1.ndim != 2 or mat1.sparse_dim() != 2 or x.ndim not in (1, 2) or mat1.shape[1] != x.shape[0]:
        fail(
            ShapeError,
            f"sparse.mm() of a sparse tensor {tuple(mat1.shape)} and a tensor {tuple(x.shape)}",
            "It takes (n, k) and (k, m), or (k,).",
        )
    rows, columns = mat1._indices()[0], mat1._indices()[1]
    weights = mat1._values() if x.ndim == 1 else mat1._values().unsqueeze(1)
    terms = weights * x.index_select(0, columns)
    out = as_torch(wg.zeros((mat1.shape[0], *x.shape[1:]), dtype=terms.dtype))
    return out.index_add(0, rows, terms)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return `beta * mat + alpha * (mat1 @ mat2)`, where `mat1` is sparse."""
    return beta * mat + alpha * mm(mat1, mat2)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """Return the sum of a sparse tensor's elements, or of those along axes: sparse, or dense where none is left."""
    dims = [] if dim is None else [d % input.ndim for d in ([dim] if isinstance(dim, int) else dim)]
    values = input._values() if dtype is None else input._values().to(dtype_of(dtype))
    lead = input.sparse_dim()
    if dim is None:
        return values.sum()
    inner = [d - lead + 1 for d in dims if d >= lead]
    values = values.sum(dim=inner) if inner else values
    left = [d for d in range(lead) if d not in dims]
    if not left:
        return values.sum(dim=0)
    size = [n for d, n in enumerate(input.shape) if d not in dims]
    return SparseTensor(input._indices()[left], values, size)


@function(top=False)
def to_sparse(input: Any, sparse_dim: int | None = None, *, layout: Any = None) -> SparseTensor:
    """Return the tensor with what is not 0 in it held by coordinates: `torch.sparse_coo`.

    `to_sparse(k)` has coordinates for the first `k` axes. Raises DTypeError for other layouts, GraphError while a
    function is traced: which elements are 0 is not known then.
    """
    if layout not in (None, sparse_coo):
        fail(DTypeError, f"to_sparse(layout={layout})", "There is torch.sparse_coo.")
    x = tensor_of(input)
    lead = x.ndim if sparse_dim is None else sparse_dim
    flat = x.detach() if lead == x.ndim else x.detach().abs().sum(dim=tuple(range(lead, x.ndim)))
    where = as_torch(wg.stack(list(wg.nonzero(flat))))
    return SparseTensor(where, x[tuple(where)], tuple(x.shape), True)


@function(top=False)
def to_dense(input: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """Return the tensor itself, which is dense, in a dtype."""
    return input if dtype is None else input.to(dtype)


@function(top=False)
def sparse_mask(input: Any, mask: Any) -> SparseTensor:
    """Return the elements of a tensor at the coordinates that a sparse tensor holds."""
    return SparseTensor(mask._indices(), input[tuple(mask._indices())], tuple(input.shape), mask.is_coalesced())


def _legacy(kind: str) -> Callable[..., SparseTensor]:
    def make(indices: Any = None, values: Any = None, size: Any = None) -> SparseTensor:
        return sparse_coo_tensor(indices, values, size, dtype=kind)

    make.__doc__ = f"Return a sparse tensor of {kind}; see :func:`wengert.torch.sparse_coo_tensor`."
    return make


FloatTensor, DoubleTensor, LongTensor = _legacy("float32"), _legacy("float64"), _legacy("int64")

FUNCTIONS.update(sparse_coo_tensor=sparse_coo_tensor, spmm=mm, smm=mm, sparse_coo=sparse_coo)
tree.register(
    SparseTensor,
    lambda x: ((x._coordinates, x._held), (tuple(x._size), x._coalesced)),
    lambda aux, children: SparseTensor(children[0], children[1], *aux),
)

__all__ = [
    "DoubleTensor",
    "FloatTensor",
    "LongTensor",
    "addmm",
    "mm",
    "sum",
]


def __dir__() -> list[str]:
    return sorted(__all__)
