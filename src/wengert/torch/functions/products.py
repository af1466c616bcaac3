"""Products of matrices and vectors, distances and statistics made of them: PyTorch's names, parameters and meaning."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import wengert as wg

from ...core.errors import DTypeError, ShapeError, fail
from ...core.spec import show
from ...core.tensor import Tensor as Plain
from ..namespace import function, in_place, tensor_of
from ..sparse import SparseTensor
from ..sparse import mm as sparse_product
from ..tensor import Tensor

# -- products of two


@function(out=True)
def matmul(input: Any, other: Any) -> Tensor:
    """Return the product of matrices, of vectors, or of stacks of matrices; see :func:`wengert.matmul`.

    >>> import wengert.torch as torch
    >>> torch.matmul(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    if isinstance(input, SparseTensor) or isinstance(other, SparseTensor):
        return sparse_product(input, other)  # type: ignore[no-any-return]
    return wg.matmul(input, other)  # type: ignore[return-value]


def _of_ranks(name: str, x: Any, y: Any, ranks: tuple[int, int]) -> Tensor:
    if x.ndim != ranks[0] or y.ndim != ranks[1]:
        found = f"{show(x.shape, x.dtype)} and {show(y.shape, y.dtype)}"
        fail(ShapeError, f"{name}: {found}", f"It takes tensors with {ranks[0]} and {ranks[1]} dimensions.")
    return matmul(x, y)


@function(out=True)
def mm(input: Any, mat2: Any) -> Tensor:
    """Return the product of two matrices, (n, m) and (m, p). Raises ShapeError for other ranks."""
    return _of_ranks("mm", input, mat2, (2, 2))


@function(out=True)
def bmm(input: Any, mat2: Any) -> Tensor:
    """Return the products of two stacks of matrices, (b, n, m) and (b, m, p). Raises ShapeError for other ranks."""
    if input.ndim == 3 and mat2.ndim == 3 and input.shape[0] != mat2.shape[0]:
        fail(ShapeError, f"bmm: stacks of {input.shape[0]} and {mat2.shape[0]} matrices")
    return _of_ranks("bmm", input, mat2, (3, 3))


@function(out=True, autocast="operands")
def mv(input: Any, vec: Any) -> Tensor:
    """Return the product of a matrix (n, m) and a vector (m,). Raises ShapeError for other ranks."""
    return _of_ranks("mv", input, vec, (2, 1))


@function(out=True, autocast="operands")
def dot(input: Any, tensor: Any) -> Tensor:
    """Return the sum of products of two vectors' elements, without conjugation. Raises ShapeError for other ranks."""
    return _of_ranks("dot", input, tensor, (1, 1))


@function(out=True, autocast="operands")
def vdot(input: Any, other: Any) -> Tensor:
    """Return the sum of products of two vectors' elements, the first conjugated. Raises ShapeError for other ranks."""
    return _of_ranks("vdot", wg.conj(input), other, (1, 1))


@function(out=True)
def inner(input: Any, other: Any) -> Tensor:
    """Return the sums of products along the last axis of both; with a 0-d tensor, the product."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other  # type: ignore[no-any-return]
    return wg.tensordot(input, other, axes=([-1], [-1]))  # type: ignore[arg-type, return-value]


@function("ger", out=True, autocast="operands")
def outer(input: Any, vec2: Any) -> Tensor:
    """Return all products of an element of one vector and one of the other. Raises ShapeError for other ranks."""
    if input.ndim != 1 or vec2.ndim != 1:
        fail(ShapeError, f"outer: {show(input.shape, input.dtype)} and {show(vec2.shape, vec2.dtype)}", "Give vectors.")
    return wg.outer(input, vec2)  # type: ignore[return-value]


@function(out=True, autocast="operands")
def kron(input: Any, other: Any) -> Tensor:
    """Return the Kronecker product: every element of `input` times all of `other`."""
    dtype = wg.promote_types(input.dtype, other.dtype)  # one without axes counts as the others do
    return wg.kron(input.astype(dtype), other.astype(dtype))  # type: ignore[return-value]


@function(out=True)
def cross(input: Any, other: Any, dim: int | None = None) -> Tensor:
    """Return the cross products of vectors of three along an axis: `dim`, else the first of that size.

    Raises ShapeError where there is none.
    """
    if dim is None:
        shape = wg.broadcast_shapes(tuple(input.shape), tuple(other.shape))
        if 3 not in shape:
            fail(ShapeError, f"cross of {tuple(input.shape)} and {tuple(other.shape)}: no axis has 3 elements")
        dim = shape.index(3)
    return wg.linalg.cross(input, other, axis=dim)  # type: ignore[return-value]


# -- a product, added to a tensor


def _scaled(x: Any, factor: Any, name: str) -> Any:
    if isinstance(factor, float) and x.dtype.kind in "iu":
        fail(DTypeError, f"{name}: the factor {factor} for integers, {show(x.shape, x.dtype)}", "Give an int.")
    return x if isinstance(factor, (int, float)) and factor == 1 else x * factor


def _added(name: str, input: Any, product: Any, beta: Any, alpha: Any) -> Tensor:
    """Return beta input + alpha product in the product's shape; with beta = 0 `input` counts for nothing, be it NaN."""
    scaled = _scaled(product, alpha, name)
    if isinstance(beta, (int, float)) and beta == 0:
        return scaled  # type: ignore[no-any-return]
    out = _scaled(input, beta, name) + scaled
    if out.shape != product.shape:
        fail(
            ShapeError,
            f"{name}: {show(input.shape, input.dtype)} added to a product {show(product.shape, input.dtype)}",
        )
    return out  # type: ignore[no-any-return]


@function(out=True, factors=("beta", "alpha"), autocast="lower")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return `beta * input + alpha * (mat1 @ mat2)`, of matrices.

    With `beta=0` the input is not read. Raises ShapeError, and DTypeError for a float that scales integers.
    """
    return _added("addmm", input, mm(mat1, mat2), beta, alpha)


@function(out=True, factors=("beta", "alpha"), autocast="operands")
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return `beta * input + alpha * (mat @ vec)`, of a matrix and a vector; see :func:`addmm`."""
    return _added("addmv", input, mv(mat, vec), beta, alpha)


@function(out=True, factors=("beta", "alpha"), autocast="lower")
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return `beta * input + alpha * (batch1 @ batch2).sum(0)`, of stacks of matrices; see :func:`addmm`."""
    return _added("addbmm", input, wg.einsum("bnm,bmp->np", batch1, batch2), beta, alpha)


@function(out=True, factors=("beta", "alpha"), autocast="lower")
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return `beta * input + alpha * (batch1 @ batch2)`, of stacks of matrices; see :func:`addmm`."""
    return _added("baddbmm", input, bmm(batch1, batch2), beta, alpha)


@function(out=True, factors=("beta", "alpha"), autocast="operands")
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return `beta * input + alpha * outer(vec1, vec2)`, of vectors; see :func:`addmm`.

    Of booleans it is "or" and "and".
    """
    if input.dtype.kind == "b":
        product = wg.logical_and(wg.outer(vec1, vec2), bool(alpha))
        return wg.logical_or(input, product) if beta else product  # type: ignore[return-value]
    return _added("addr", input, outer(vec1, vec2), beta, alpha)


for _name in ("addmm", "addmv", "addbmm", "baddbmm", "addr"):
    in_place(_name)


# -- products of several


def _subscripts(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return the equation and the operands of the form that alternates operands with lists of axes."""
    letters = string.ascii_uppercase + string.ascii_lowercase

    def term(axes: Any) -> str:
        return "".join("..." if a is Ellipsis else letters[int(a)] for a in axes)

    count = len(args) // 2
    operands = [args[2 * i] for i in range(count)]
    equation = ",".join(term(args[2 * i + 1]) for i in range(count))
    return (f"{equation}->{term(args[-1])}" if len(args) % 2 else equation), operands


@function(method=False)
def einsum(*args: Any) -> Tensor:
    """Return a sum of products over index letters: `einsum("ij,jk->ik", a, b)`.

    The operands may stand in a list. Or each is followed by a list of numbers for its axes, with one list more for
    those of the result: `einsum(a, [0, 1], b, [1, 2], [0, 2])`. Raises ShapeError for terms that do not fit.

    >>> import wengert.torch as torch
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.einsum("ij,kj->ik", x, x)
    tensor([[ 5., 11.],
            [11., 25.]])
    """
    if len(args) < 2:
        fail(ShapeError, "einsum: an equation and its operands, or operands and their axes, are needed")
    if isinstance(args[0], str):
        equation, operands = args[0], list(args[1:])
    else:
        equation, operands = _subscripts(args)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    if len(operands) == 1 and (view := _view_of(equation, tensor_of(operands[0]))) is not None:
        return view  # type: ignore[no-any-return]
    return wg.einsum(equation, *operands)  # type: ignore[return-value]


def _view_of(equation: str, x: Any) -> Any:
    """Return what an equation of one operand gives, if it only picks and exchanges axes: a view; else None."""
    letters, arrow, result = equation.replace(" ", "").partition("->")
    unnamed = x.ndim - len(letters.replace("...", ""))
    if letters.count("...") > 1 or unnamed < 0 or (unnamed and "..." not in letters):
        return None
    names = "".join(c for c in string.ascii_letters if c not in letters)[:unnamed]
    if not arrow:
        result = "..." + "".join(sorted(c for c in letters if c.isalpha() and letters.count(c) == 1))
    letters, result = letters.replace("...", names), result.replace("...", names)
    if set(result) != set(letters) or len(set(result)) != len(result):
        return None
    taken = list(letters)
    for one in result:
        while taken.count(one) > 1:
            first = taken.index(one)
            second = taken.index(one, first + 1)
            if x.shape[first] != x.shape[second]:
                return None
            x = x.diagonal(dim1=first, dim2=second)
            taken = [c for i, c in enumerate(taken) if i not in (first, second)] + [one]
    return x.permute([taken.index(one) for one in result])


@function(method=False, out=True)
def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """Return the sum of products over several axes of each.

    `dims` says how many of the last axes of `a` and first axes of `b`, or pairs axes by two sequences. Raises
    ShapeError where paired axes differ in size.
    """
    if isinstance(dims, Plain):
        dims = dims.tolist()
    if not isinstance(dims, int):
        # An axis of size 1 that is paired with a longer one counts for each of its elements.
        for i, j in zip(*dims):
            if a.shape[i] == 1 != b.shape[j]:
                b = b.sum(j, keepdims=True)
            elif b.shape[j] == 1 != a.shape[i]:
                a = a.sum(i, keepdims=True)
    return wg.tensordot(a, b, axes=dims)  # type: ignore[return-value]


@function(method=False, out=True)
def chain_matmul(*matrices: Any) -> Tensor:
    """Return the product of several matrices, multiplied in the order that costs least."""
    given = list(matrices[0]) if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)) else list(matrices)
    return given[0].clone() if len(given) == 1 else wg.linalg.multi_dot(given)  # type: ignore[return-value]


# -- distances


@function(method=False, autocast="float32")
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    """Return the distances of all pairs of a row of `x1` (..., n, d) and one of `x2` (..., m, d).

    Parameters
    ----------
    p: the order of the norm: 0 counts what differs, `inf` takes the largest difference.
    compute_mode: whether distances for `p=2` come from a product of matrices, which is quicker and less exact:
        "use_mm_for_euclid_dist_if_necessary" does so for more than 25 rows (the default).

    The gradient at a distance of 0 is 0. Raises ShapeError.
    """
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        found = f"{show(x1.shape, x1.dtype)} and {show(x2.shape, x2.dtype)}"
        fail(ShapeError, f"cdist of {found}", "Both have rows of one length: (..., n, d) and (..., m, d).")
    p = float(p)
    many = x1.shape[-2] > 25 or x2.shape[-2] > 25
    by_product = compute_mode in (1, "use_mm_for_euclid_dist")
    if p == 2.0 and (by_product or (many and compute_mode in (None, 0, "use_mm_for_euclid_dist_if_necessary"))):
        squares = (x1 * x1).sum(-1)[..., :, None] + (x2 * x2).sum(-1)[..., None, :] - 2.0 * (x1 @ x2.mT)
        return _root(wg.clip(squares, 0.0))  # type: ignore[no-any-return]
    return distance(x1[..., :, None, :] - x2[..., None, :, :], p)  # type: ignore[no-any-return]


def distance(differences: Any, p: float) -> Any:
    """Return the norm of order p along the last axis; its gradient at 0 is 0."""
    if p == 2.0:
        return _root((differences * differences).sum(-1))
    if p > 0.0 and p % 2.0 == 0.0 and differences.shape[-1]:
        # An even power is smooth where an absolute value is not: at a coordinate in which two points agree.
        return _root((differences**p).sum(-1), 1.0 / p)
    gaps = wg.abs(differences)
    if p == 0.0:
        return (gaps != 0).astype(gaps.dtype).sum(-1) + (gaps * 0.0).sum(-1)
    if p == 1.0:
        return gaps.sum(-1)
    if gaps.shape[-1] == 0:
        return gaps.sum(-1)
    if math.isinf(p):
        # Every element that is the largest has all of the gradient.
        largest = wg.max(gaps, axis=-1, keepdims=True).detach()
        return _shared(gaps, largest)
    # A power has no derivative at 0: there the difference counts as a constant.
    there = gaps > 0
    return _root(wg.where(there, wg.where(there, gaps, 1.0) ** p, 0.0).sum(-1), 1.0 / p)


def _shared(gaps: Any, largest: Any) -> Tensor:
    chosen = ((gaps == largest) & (gaps > 0)).astype(gaps.dtype)
    return largest[..., 0] + ((gaps - gaps.detach()) * chosen).sum(-1)  # type: ignore[no-any-return]


def _root(powers: Any, exponent: float = 0.5) -> Any:
    some = powers > 0
    inside = wg.where(some, powers, 1.0)
    return wg.where(some, wg.sqrt(inside) if exponent == 0.5 else inside**exponent, powers * 0.0)


# -- statistics


@function()
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """Return the covariances of variables, the rows of a matrix; of a vector, its variance.

    Parameters
    ----------
    correction: the number of observations is lessened by it: 1 for an estimate without bias.
    fweights: how often each observation counts, integers.
    aweights: how much each observation counts.

    Raises ShapeError for more than two dimensions.
    """
    if input.ndim > 2:
        fail(ShapeError, f"cov of {show(input.shape, input.dtype)}", "Give a matrix, whose rows are the variables.")
    x = input if input.ndim == 2 else input.reshape((1, -1))
    weights = fweights
    if aweights is not None:
        weights = aweights if weights is None else weights * aweights
    total = x.shape[1] if weights is None else weights.sum()
    mean = (x if weights is None else x * weights).sum(1) / total
    if aweights is not None and correction != 0:
        count = total - correction * (weights * aweights).sum() / total
    else:
        count = total - correction
    count = wg.clip(count, 0) if isinstance(count, Plain) else max(count, 0)
    centred = x - mean[:, None]
    other = wg.conj(centred).T if centred.is_complex() else centred.T
    found = (centred if weights is None else centred * weights) @ other / wg.asarray(count, dtype=None)
    return found[0, 0] if found.shape == (1, 1) else found  # type: ignore[no-any-return]


@function()
def corrcoef(input: Any) -> Tensor:
    """Return the coefficients of correlation of variables, the rows of a matrix. Raises ShapeError."""
    found = cov(input)
    if found.ndim == 0:
        return found / found  # type: ignore[return-value]
    scale = wg.sqrt(wg.real(wg.diagonal(found)))
    found = found / scale[:, None] / scale[None, :]  # type: ignore[assignment]
    if found.is_complex():
        return found.real.clip(-1.0, 1.0) + 1j * found.imag.clip(-1.0, 1.0)  # type: ignore[return-value]
    return wg.clip(found, -1.0, 1.0)  # type: ignore[return-value]


# -- differences


def _axes(dim: Any, ndim: int) -> list[int]:
    if dim is None:
        return list(range(ndim))
    return [d % ndim for d in ([dim] if isinstance(dim, int) else dim)]


@function(method=False)
def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Return the estimates of derivatives along axes by differences: central ones inside, one-sided at the edges.

    Parameters
    ----------
    spacing: the distance of neighbours, a number for all axes (1 where left out) or one for each; or a tensor of
        coordinates for each.
    dim: the axes; all of them where left out.
    edge_order: 1, or 2 for differences of second order at the edges.

    Returns one tensor for each axis. Raises ShapeError for an axis of too few elements.
    """
    axes = _axes(dim, input.ndim)
    spacing = 1 if spacing is None else spacing
    several = isinstance(spacing, (list, tuple))
    steps = list(spacing) if several else [spacing] * len(axes)
    if len(steps) != len(axes) or edge_order not in (1, 2):
        fail(ShapeError, f"gradient: {len(steps)} spacings for {len(axes)} axes, edge_order={edge_order}")
    return tuple(_along(input, axis, step, edge_order) for axis, step in zip(axes, steps))


def _along(x: Any, axis: int, step: Any, edge_order: int) -> Tensor:
    n = x.shape[axis]
    if n <= edge_order:
        fail(ShapeError, f"gradient along an axis of {n} elements", f"It needs {edge_order + 1} or more.")

    def at(start: int | None, stop: int | None) -> Any:
        return x[(slice(None),) * axis + (slice(start, stop),)]

    if isinstance(step, Plain) and step.ndim:
        gaps = wg.diff(step).reshape((n - 1, *(1,) * (x.ndim - axis - 1)))
        first, second = gaps[:-1], gaps[1:]
        inside = (
            -second / (first * (first + second)) * at(None, -2)
            + (second - first) / (first * second) * at(1, -1)
            + first / (second * (first + second)) * at(2, None)
        )
        start = [gaps[:1], gaps[1:2]]
        end = [gaps[-1:], gaps[-2:-1]]
    else:
        inside = (at(2, None) - at(None, -2)) / (2 * step)
        start = end = [step, step]
    if edge_order == 1:
        left = (at(1, 2) - at(0, 1)) / start[0]
        right = (at(n - 1, n) - at(n - 2, n - 1)) / end[0]
    else:
        left = _edge(start, [at(0, 1), at(1, 2), at(2, 3)])
        right = -_edge(end, [at(n - 1, n), at(n - 2, n - 1), at(n - 3, n - 2)])
    return wg.concat([left, inside, right], axis=axis)  # type: ignore[return-value]


def _edge(gaps: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return the derivative at the first of three values, by the parabola through them."""
    a, b = gaps
    return -(2 * a + b) / (a * (a + b)) * values[0] + (a + b) / (a * b) * values[1] - a / (b * (a + b)) * values[2]
