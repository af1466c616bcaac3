"""Linear systems: square, triangular and least-squares ones, the inverse and the pseudo-inverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.costs import cube, rectangle
from ...core.ops.declare import op
from ...core.ops.facets import Cause, Count, Nonfinite
from ...core.ops.nonfinite import SINGULAR, always
from ...core.ops.op import TABLE, Call, Linear, Op, Vjp
from ...core.ops.operands import promote_tensors
from ...core.ops.record import bind
from ...core.spec import Spec, broadcast_shapes, show
from ...core.tensor import Tensor
from ..aliases import alias
from ..contract.products import matmul_op
from ..reduce.common import inexact
from ..structure.axes import moveaxis
from ..structure.diagonals import tril_op, triu_op
from ..structure.shapes import broadcast, reshaped
from .base import (
    NO_ONNX,
    NO_SVD,
    adjoint,
    conjugate,
    infer_same,
    lapack,
    matrices,
    matrix_spec,
    normal,
    square_spec,
    well_conditioned,
)

_SINGULAR = "is singular"
_MEND_SINGULAR = (
    "wg.linalg.lstsq and wg.linalg.pinv take singular matrices; a small multiple of the identity helps too."
)

# -- the ops: both arguments have the same leading axes, the right-hand side is a matrix


def _infer_solve(a: Spec, b: Spec, **attrs: Any) -> Spec:
    if a.shape[:-1] != b.shape[:-1] or len(square_spec(a).shape) != len(b.shape):
        do_not_fit("solve", a, b)
    return b


def do_not_fit(name: str, a: Any, b: Any) -> NoReturn:
    """Raise ShapeError for two operands whose rows do not fit."""
    fail(
        ShapeError,
        f"{name}: {show(a.shape, a.dtype)} and {show(b.shape, b.dtype)} do not fit",
        "The second has as many rows as the first, (..., m, n) and (..., m, k), or is one vector (m,).",
    )


def _systems(*shapes: tuple[Any, Any], triangular: bool = False) -> Any:
    def samples(rng: Any) -> list[Call]:
        attrs = [{"upper": u, "unit": d} for u, d in ((True, False), (False, False), (True, True), (False, True))]
        calls = []
        for i, (a, b) in enumerate(shapes):
            complex = i == len(shapes) - 1
            arrays = well_conditioned(rng, *a, complex=complex), normal(rng, *b, complex=complex)
            calls.append(Call(arrays, attrs[i % 4] if triangular else {}))
        return calls

    return samples


def _by_elimination(a: Any, b: Any) -> Any:
    """Return the solution by Gauss-Jordan elimination with pivots, one matrix at a time."""
    out = np.empty(b.shape, np.result_type(a, b))
    for at in np.ndindex(a.shape[:-2]):
        rows = np.concatenate([a[at], b[at]], -1).astype(out.dtype)
        n = a.shape[-1]
        for k in range(n):
            pivot = k + int(np.argmax(np.abs(rows[k:, k])))
            rows[[k, pivot]] = rows[[pivot, k]]
            rows[k] /= rows[k, k]
            for i in range(n):
                if i != k:
                    rows[i] -= rows[i, k] * rows[k]
        out[at] = rows[:, n:]
    return out


def _operations(node: Any, specs: Sequence[Spec], out: Spec) -> Any:
    a = specs[0]
    return 2 * a.size * a.shape[-1] // 3 + 2 * out.size * a.shape[-1]


solve_op: Op = op(
    "solve(a, b)",
    lapack("solve", _SINGULAR, _MEND_SINGULAR)(lambda a, b: np.linalg.solve(a, b)),
    accepts="floating",
    infer=_infer_solve,
    facts={
        "a": Vjp(lambda ct, a, out: -matmul_op(solve_op(adjoint(a), ct), adjoint(out))),
        "b": Linear(lambda ct, a: solve_op(adjoint(a), ct)),
    },
    doc="The solution x of the square systems a x = b.",
    layout="(n,n),(n,k)->(n,k)",
    samples=_systems(((2, 2), (2, 3)), ((2, 3, 3), (2, 3, 1)), ((0, 0), (0, 2)), ((2, 2), (2, 2))),
    reference=_by_elimination,
    onnx=NO_ONNX,
    source="Giles 2008, Collected matrix derivative results",
    dependence="columns",
    cost=Count("2/3 n^3 + 2 n^2 for each column", _operations),
    nonfinite=Nonfinite(((always, Cause("a matrix that is singular, or nearly so", SINGULAR)),)),
    autocast="float32",
)


# Rows that are solved together: elimination in a triangle is wasted work, so the blocks stay small.
_BLOCK = 64


def _triangle(a: Any, upper: bool, unit: bool) -> Any:
    if not unit:
        return triu_op(a, k=0) if upper else tril_op(a, k=0)
    return triu_op(a, k=1) if upper else tril_op(a, k=-1)


@lapack("solve_triangular", "is singular: its diagonal has a 0", _MEND_SINGULAR)
def _solve_triangular(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    a = _triangle(a, upper, unit)
    if unit:
        a = a + np.eye(a.shape[-1], dtype=a.dtype)
    if upper:
        return _back_substituted(a, b)
    return _back_substituted(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]


def _back_substituted(a: Any, b: Any) -> Any:
    """Return the solution of upper triangular systems by blocks of rows, the last first.

    A triangular block is its own factor: elimination finds nothing to do in it.
    """
    n = a.shape[-1]
    if n <= _BLOCK:
        return np.linalg.solve(a, b)
    out = np.empty(b.shape, np.result_type(a, b))
    for stop in range(n, 0, -_BLOCK):
        rows, below = slice(max(stop - _BLOCK, 0), stop), slice(stop, n)
        right = b[..., rows, :] - np.matmul(a[..., rows, below], out[..., below, :])
        out[..., rows, :] = np.linalg.solve(a[..., rows, rows], right)
    return out


def _solve_triangular_in_a(ct: Any, a: Any, out: Any, upper: bool, unit: bool) -> Any:
    back = solve_triangular_op(adjoint(a), ct, upper=not upper, unit=unit)
    return -_triangle(matmul_op(back, adjoint(out)), upper, unit)


def _solve_triangular_reference(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    triangle = (np.triu if upper else np.tril)(a)
    if unit:
        n = a.shape[-1]
        triangle[..., range(n), range(n)] = 1.0
    return _by_elimination(triangle, b)


solve_triangular_op: Op = op(
    "solve_triangular(a, b; upper, unit)",
    _solve_triangular,
    accepts="floating",
    infer=_infer_solve,
    facts={
        "a": Vjp(_solve_triangular_in_a),
        "b": Linear(lambda ct, a, upper, unit: solve_triangular_op(adjoint(a), ct, upper=not upper, unit=unit)),
    },
    doc="The solution x of the triangular systems a x = b; the other triangle of a is not read.",
    layout="(n,n),(n,k)->(n,k)",
    samples=_systems(
        ((2, 2), (2, 3)),
        ((2, 3, 3), (2, 3, 1)),
        ((3, 3), (3, 2)),
        ((0, 0), (0, 2)),
        ((2, 2), (2, 2)),
        ((3, 3), (3, 1)),
        triangular=True,
    ),
    reference=_solve_triangular_reference,
    onnx=NO_ONNX,
    source="Giles 2008, Collected matrix derivative results",
    dependence="substitution",
    cost=Count("n^2 for each column", lambda node, specs, out: out.size * specs[0].shape[-1]),
    autocast="float32",
)

inv_op: Op = op(
    "inv(x)",
    lapack("inv", _SINGULAR, _MEND_SINGULAR)(lambda x: np.linalg.inv(x)),
    accepts="floating",
    infer=infer_same,
    facts={"x": Vjp(lambda ct, out: -matmul_op(adjoint(out), matmul_op(ct, adjoint(out))))},
    doc="The inverse of square matrices.",
    layout="(n,n)->(n,n)",
    samples=lambda rng: [
        Call((well_conditioned(rng, 3, 3),)),
        Call((well_conditioned(rng, 2, 2, 2),)),
        Call((well_conditioned(rng, 2, 2, complex=True),)),
        Call((np.zeros((2, 0, 0)),)),
    ],
    reference=lambda x: _by_elimination(x, np.broadcast_to(np.eye(x.shape[-1]), x.shape)),
    onnx=NO_ONNX,
    source="Giles 2008, Collected matrix derivative results",
    cost=cube("2 n^3", 2),
    nonfinite=Nonfinite(((always, Cause("a matrix that is singular, or nearly so", SINGULAR)),)),
    autocast="float32",
)

# -- least squares


def cutoff(rtol: float | None, shape: tuple[int, ...], dtype: Any) -> float:
    """Return the fraction of the largest singular value below which others count as 0."""
    wide = np.float32 if dtype.itemsize == 2 else dtype
    return max(shape[-2:]) * float(np.finfo(wide).eps) if rtol is None else rtol


def _inverted_singular_values(s: Any, rtol: float) -> Any:
    kept = s > rtol * s.max(axis=-1, initial=0.0, keepdims=True)
    return np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0).astype(s.dtype)


@lapack("pinv", *NO_SVD, finite=True)
def _pinv(x: Any, rtol: float | None) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    inverse = _inverted_singular_values(s, cutoff(rtol, x.shape, x.dtype))
    return np.matmul(adjoint(vh) * inverse[..., None, :], adjoint(u))


def _pinv_pull(ct: Any, x: Any, out: Any) -> Any:
    """Return the cotangent through each of the terms of dP = -P dA P + P P' dA' (I - A P) + (I - P A) dA' P' P."""
    p, back, reverse = adjoint(out), adjoint(ct), adjoint(x)
    left = matmul_op(matmul_op(back, out), p)
    right = matmul_op(p, matmul_op(out, back))
    return (
        -matmul_op(p, matmul_op(ct, p))
        + (left - matmul_op(p, matmul_op(reverse, left)))
        + (right - matmul_op(matmul_op(right, reverse), p))
    )


def low_rank(rng: Any, m: int, n: int, rank: int) -> Any:
    """Return samples (m, n) of a given rank."""
    return normal(rng, m, rank) @ normal(rng, rank, n)


def _pinv_reference(x: Any, rtol: float | None) -> Any:
    """Return the pseudo-inverse by the eigenvectors of x' x: x+ = (x' x)+ x'."""
    xh = np.conj(np.swapaxes(x, -1, -2))
    w, v = np.linalg.eigh(xh @ x)
    keep = w > 1e-10 * w.max(initial=0.0)
    return (v * np.where(keep, 1 / np.where(keep, w, 1), 0)[..., None, :]) @ np.conj(np.swapaxes(v, -1, -2)) @ xh


pinv_op: Op = op(
    "pinv(x; rtol)",
    _pinv,
    accepts="floating",
    infer=lambda x, rtol: matrix_spec(x).with_shape((*x.shape[:-2], x.shape[-1], x.shape[-2])),
    facts={"x": Vjp(_pinv_pull)},
    doc="The Moore-Penrose inverse of matrices.",
    layout="(m,n)->(n,m)",
    samples=lambda rng: [
        Call((normal(rng, 3, 2),), {"rtol": None}),
        Call((normal(rng, 2, 2, 3),), {"rtol": 1e-10}),
        Call((normal(rng, 3, 2, complex=True),), {"rtol": None}),
        Call((low_rank(rng, 3, 4, 2),), {"rtol": 1e-10}, order=0),  # other matrices near it have a higher rank
        Call((np.zeros((0, 3)),), {"rtol": None}),
    ],
    reference=_pinv_reference,
    onnx=NO_ONNX,
    source="Golub and Pereyra 1973, SIAM J. Numer. Anal. 10",
    cost=rectangle("6 m n^2 + 22 n^3, by singular values", 6, 22),
    autocast="float32",
)


def _infer_lstsq(a: Spec, b: Spec, rtol: float | None) -> Spec:
    if a.shape[:-1] != b.shape[:-1] or len(matrix_spec(a).shape) != len(b.shape):
        do_not_fit("lstsq", a, b)
    return b.with_shape((*a.shape[:-2], a.shape[-1], b.shape[-1]))


@lapack("lstsq", *NO_SVD, finite=True)
def _lstsq(a: Any, b: Any, rtol: float | None) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    inverse = _inverted_singular_values(s, cutoff(rtol, a.shape, a.dtype))
    return np.matmul(adjoint(vh), inverse[..., None] * np.matmul(adjoint(u), b))


def _lstsq_in_a(ct: Any, a: Any, b: Any, out: Any, rtol: float | None) -> Any:
    """Return the cotangent of a in pinv(a) b, in products that never form the pseudo-inverse."""
    back = lstsq_op(adjoint(a), ct, rtol=rtol)
    residual = b - matmul_op(a, out)
    outside = ct - lstsq_op(a, matmul_op(a, ct), rtol=rtol)
    return (
        -matmul_op(back, adjoint(out))
        + matmul_op(residual, adjoint(lstsq_op(a, back, rtol=rtol)))
        + matmul_op(lstsq_op(adjoint(a), out, rtol=rtol), adjoint(outside))
    )


lstsq_op: Op = op(
    "lstsq(a, b; rtol)",
    _lstsq,
    accepts="floating",
    infer=_infer_lstsq,
    facts={
        "a": Vjp(_lstsq_in_a),
        "b": Linear(lambda ct, a, rtol: lstsq_op(adjoint(a), ct, rtol=rtol)),
    },
    doc="The shortest x of those that make a x - b shortest.",
    layout="(m,n),(m,k)->(n,k)",
    samples=lambda rng: [
        Call((normal(rng, 3, 2), normal(rng, 3, 2)), {"rtol": None}),
        Call((normal(rng, 2, 2, 3), normal(rng, 2, 2, 1)), {"rtol": 1e-10}),
        Call((normal(rng, 3, 2, complex=True), normal(rng, 3, 1, complex=True)), {"rtol": None}),
        Call((low_rank(rng, 3, 4, 2), normal(rng, 3, 2)), {"rtol": 1e-10}, order=0),
        Call((np.zeros((2, 0)), normal(rng, 2, 1)), {"rtol": None}),
    ],
    reference=lambda a, b, rtol: _pinv_reference(a, rtol) @ b,
    onnx=NO_ONNX,
    source="Golub and Pereyra 1973, SIAM J. Numer. Anal. 10",
    dependence="columns",
    cost=rectangle("4 m n^2 + 22 n^3, by singular values", 4, 22),
    autocast="float32",
)

# -- public functions


def aligned(name: str, a: Any, b: Any, square: bool) -> tuple[Tensor, Tensor, Any]:
    """Return operands with equal leading axes and a matrix on the right, and the inverse of that change of shape."""
    a, b = promote_tensors(name, inexact(a), inexact(b))
    a = matrices(a, name, square)
    rows = a.shape[-2]
    if b.ndim == 0 or b.shape[-1 if b.ndim == 1 else -2] != rows:
        do_not_fit(name, a, b)
    n = a.shape[-1]
    if b.ndim == 1:
        right = reshaped(b, (rows, 1))
        return a, _led(right, a.shape[:-2]), lambda x: reshaped(x, (*a.shape[:-2], n))
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if lead is None:
        do_not_fit(name, a, b)
    if a.ndim == 2 and b.ndim > 2:
        # One matrix for all right-hand sides: they are the columns of one, which is factored once.
        moved = moveaxis(b, -2, 0)
        count = math.prod(moved.shape[1:])
        return a, reshaped(moved, (rows, count)), lambda x: moveaxis(reshaped(x, (n, *moved.shape[1:])), 0, -2)
    return _led(a, lead), _led(b, lead), lambda x: x


def _led(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    shape = (*lead, *x.shape[-2:])
    if x.shape == shape:
        return x
    out: Tensor = bind(broadcast, (x,), {"shape": shape})
    return out


def solve(a: Any, b: Any, /) -> Tensor:
    """Return the solution x of a x = b (Array API, NumPy).

    Parameters
    ----------
    a: (..., n, n), real or complex; integers become float32.
    b: (..., n, k), or one vector (n,) for all; leading axes broadcast.

    Returns (..., n, k), or (..., n) for a vector. One matrix with many right-hand sides is factored
    once. Raises LinAlgError for a singular matrix, ShapeError, DTypeError.
    Source of the derivative: Giles 2008, Collected matrix derivative results.

    >>> import wengert as wg
    >>> wg.linalg.solve(wg.tensor([[2.0, 0.0], [0.0, 4.0]]), wg.tensor([1.0, 1.0]))
    tensor([0.5 , 0.25])
    """
    left, right, back = aligned("solve", a, b, True)
    out: Tensor = back(bind(solve_op, (left, right)))
    return out


def solve_triangular(a: Any, b: Any, /, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Return the solution x of a x = b, or of x a = b, for a triangular matrix (PyTorch).

    Parameters
    ----------
    a: (..., n, n); the triangle that `upper` does not name is not read.
    b: (..., n, k), or one vector (n,); leading axes broadcast. With `left=False` (..., k, n).
    upper: which triangle.
    left: False for x a = b.
    unitriangular: the diagonal counts as ones and is not read.

    Raises LinAlgError for a 0 on the diagonal, ShapeError, DTypeError.
    Source of the derivative: Giles 2008, Collected matrix derivative results.

    >>> import wengert as wg
    >>> wg.linalg.solve_triangular(wg.tensor([[2.0, 0.0], [1.0, 1.0]]), wg.tensor([2.0, 2.0]), upper=False)
    tensor([1., 1.])
    """
    if not left:
        a, b = matrices(a, "solve_triangular", True), inexact(b)
        right = b if b.ndim < 2 else b.mT
        found = solve_triangular(a.mT, right, upper=not upper, unitriangular=unitriangular)
        return found if b.ndim < 2 else found.mT
    first, second, back = aligned("solve_triangular", a, b, True)
    attrs = {"upper": bool(upper), "unit": bool(unitriangular)}
    out: Tensor = back(bind(solve_triangular_op, (first, second), attrs))
    return out


def cho_solve(factor: Any, b: Any, /, *, upper: bool = False) -> Tensor:
    """Return the solution x of a x = b from the Cholesky factor of a, by two triangular systems.

    Parameters
    ----------
    factor: (..., n, n), what :func:`cholesky` returns for the same `upper`.
    b: (..., n, k), or one vector (n,); leading axes broadcast.

    Raises LinAlgError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.linalg.cho_solve(wg.tensor([[2.0, 0.0], [0.0, 1.0]]), wg.tensor([4.0, 1.0]))
    tensor([1., 1.])
    """
    factor = matrices(factor, "cho_solve", True)
    lower = conjugate_transpose(factor) if upper else factor
    b = inexact(b)
    vector = b.ndim == 1
    half = solve_triangular(lower, reshaped(b, (*b.shape, 1)) if vector else b, upper=False)
    out = solve_triangular(conjugate_transpose(lower), half, upper=True)
    return reshaped(out, out.shape[:-1]) if vector else out


def conjugate_transpose(x: Tensor) -> Tensor:
    """Return the conjugate transpose of matrices."""
    out: Tensor = conjugate(x).mT
    return out


def inv(x: Any, /) -> Tensor:
    """Return the inverse of square matrices (Array API, NumPy).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32. To multiply by an inverse, `solve` is
        quicker and more accurate.

    Raises LinAlgError for a singular matrix, ShapeError.
    Source of the derivative: Giles 2008, Collected matrix derivative results.

    >>> import wengert as wg
    >>> wg.linalg.inv(wg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    out: Tensor = bind(inv_op, (matrices(x, "inv", True),))
    return out


def tolerance(rtol: Any, name: str) -> float | None:
    """Return a fraction of the largest singular value as a number; None for the default."""
    if rtol is None:
        return None
    if isinstance(rtol, (Tensor, np.ndarray)) and rtol.size == 1 and rtol.dtype.kind in "fiu":
        return float(rtol)
    if isinstance(rtol, bool) or not isinstance(rtol, (int, float, np.floating)):
        fail(DTypeError, f"{name}: rtol={rtol!r} is a {type(rtol).__name__}", "The tolerance is a number, or None.")
    return float(rtol)


def one_by_one(fn: Callable[[Tensor, float], Tensor], x: Tensor, rtol: Any) -> Tensor:
    """Return `fn` of each matrix with a tolerance of its own."""
    lead = x.shape[:-2]
    fractions = np.broadcast_to(np.asarray(rtol.tolist() if isinstance(rtol, Tensor) else rtol), lead)
    if not lead or 0 in lead:
        return fn(x, 0.0)
    flat = x.reshape((-1, *x.shape[-2:]))
    found = [fn(flat[i], float(f)) for i, f in enumerate(fractions.ravel())]
    out: Tensor = TABLE["stack"].front(*found, axis=-1 - found[0].ndim)
    return reshaped(out, (*lead, *found[0].shape))


def is_tolerance_of_each(rtol: Any) -> bool:
    """Return whether a tolerance is given for each matrix rather than for all."""
    return isinstance(rtol, (Tensor, np.ndarray)) and rtol.size != 1


@alias(rcond="rtol")
def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """Return the Moore-Penrose inverse of matrices (Array API, NumPy).

    Parameters
    ----------
    x: (..., m, n), real or complex; integers become float32.
    rtol: singular values up to this fraction of the largest count as 0, a number or one for each matrix (...);
        None for max(m, n) times the precision of the dtype. NumPy's `rcond`.

    Returns (..., n, m). The derivative is that among matrices of the same rank: where the rank is
    not full, the pseudo-inverse jumps in other directions. Singular values that are not 0 and yet fall
    under `rtol` count as 0 in the derivative too, which is then off by about their size, relative to
    those that are kept. Raises LinAlgError for NaN and infinity, ShapeError.
    Source of the derivative: Golub and Pereyra 1973, SIAM J. Numer. Anal. 10.

    >>> import wengert as wg
    >>> wg.linalg.pinv(wg.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5, 0. ],
            [0. , 0. ]])
    """
    a = matrices(x, "pinv")
    if is_tolerance_of_each(rtol):
        return one_by_one(lambda m, fraction: bind(pinv_op, (m,), {"rtol": fraction}), a, rtol)
    out: Tensor = bind(pinv_op, (a,), {"rtol": tolerance(rtol, "pinv")})
    return out
