"""Factorizations in LAPACK's packed form: LU with row exchanges, and QR as reflections."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.ops.costs import rectangle
from ...core.ops.declare import op
from ...core.ops.op import Call, Joint, Missing, Op
from ...core.ops.record import bind
from ...core.spec import Spec, int32, int64
from ...core.tensor import Tensor
from ..contract.products import matmul_op
from ..index.gather import gather_op
from ..index.indices import INDEX
from ..index.sort import argsort_op
from ..structure.assemble import concat_op
from ..structure.diagonals import tril_op, triu_op
from ..structure.shapes import broadcast
from .base import NO_ONNX, adjoint, column, lapack, matrices, matrix_spec, normal, well_conditioned
from .solve import solve_triangular_op

# Columns that are eliminated one by one before what stands right of them is updated in one product.
_PANEL = 32


def _size(x: Any) -> Any:
    """Return the magnitudes by which LAPACK chooses a pivot: of complex numbers, the sum of both parts'."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


@lapack("lu", "has no LU factorization", "")
def _lu(x: Any) -> tuple[Any, Any]:
    *lead, m, n = x.shape
    out = x.reshape((math.prod(lead), m, n)).copy()
    k = min(m, n)
    pivots = np.empty((len(out), k), int32)
    each = np.arange(len(out))
    for start in range(0, k, _PANEL):
        stop = min(start + _PANEL, k)
        for j in range(start, stop):
            pivot = j + _size(out[:, j:, j]).argmax(-1)
            pivots[:, j] = pivot + 1
            held = out[each, pivot]
            out[each, pivot] = out[:, j]
            out[:, j] = held
            value = out[:, j, j, None]
            out[:, j + 1 :, j] /= np.where(value == 0, 1, value)
            out[:, j + 1 :, j + 1 : stop] -= out[:, j + 1 :, j, None] * out[:, None, j, j + 1 : stop]
        if stop < n:
            lower = np.tril(out[:, start:stop, start:stop], -1) + np.eye(stop - start, dtype=x.dtype)
            right = np.linalg.solve(lower, out[:, start:stop, stop:])
            out[:, start:stop, stop:] = right
            out[:, stop:, stop:] -= out[:, stop:, start:stop] @ right
    return out.reshape(x.shape), pivots.reshape((*lead, k))


def _infer_lu(x: Spec) -> tuple[Spec, Spec]:
    *lead, m, n = matrix_spec(x).shape
    return x, x.with_shape((*lead, min(m, n))).with_dtype(int32)


def _rows_from(indices: Any, rows: int) -> Any:
    """Return the permutation that LAPACK's exchanges of rows, counted from 1, amount to: the source of each row."""
    lead, count = indices.shape[:-1], indices.shape[-1]
    flat = indices.reshape((math.prod(lead), count)) - 1
    order = np.broadcast_to(np.arange(rows), (len(flat), rows)).copy()
    each = np.arange(len(flat))
    for j in range(count):
        held = order[each, flat[:, j]]
        order[each, flat[:, j]] = order[:, j]
        order[:, j] = held
    return order.reshape((*lead, rows))


def _infer_rows(indices: Spec, rows: int) -> Spec:
    return indices.with_shape((*indices.shape[:-1], rows)).with_dtype(int64)


def _rows_one_by_one(indices: Any, rows: int) -> Any:
    out = np.empty((*indices.shape[:-1], rows), int64)
    for at in np.ndindex(indices.shape[:-1]):
        order = list(range(rows))
        for j, p in enumerate(indices[at]):
            order[j], order[p - 1] = order[p - 1], order[j]
        out[at] = order
    return out


rows_op: Op = op(
    "pivoted_rows(indices; rows)",
    _rows_from,
    infer=_infer_rows,
    facts={"indices": INDEX},
    doc="The order of rows that a sequence of exchanges leaves.",
    layout="(k)->(m)",
    samples=lambda rng: [
        Call((np.array([2, 3, 3]),), {"rows": 3}),
        Call((np.array([[3, 2], [1, 3]]),), {"rows": 4}),
    ],
    reference=_rows_one_by_one,
    onnx=NO_ONNX,
    cost=0,
    autocast="float32",
)


def _lu_pull(ct: Any, out: Any) -> tuple[Any]:
    """Return the cotangent of the matrix from that of the packed factors; the exchanges are constant."""
    (ct_packed, _), (packed, pivots) = ct, out
    if ct_packed is None:
        return (None,)
    m, n = packed.shape[-2:]
    k = min(m, n)
    lower, upper = packed[..., :k], packed[..., :k, :]
    ct_lower, ct_upper = tril_op(ct_packed[..., :k], k=-1), triu_op(ct_packed[..., :k, :], k=0)
    top, square = lower[..., :k, :], upper[..., :k]
    below = beside = None
    ct_top, ct_square = ct_lower[..., :k, :], ct_upper[..., :k]
    if m > k:  # L2 = A2 U^-1
        below = adjoint(solve_triangular_op(square, adjoint(ct_lower[..., k:, :]), upper=True, unit=False))
        ct_square = ct_square - triu_op(matmul_op(adjoint(lower[..., k:, :]), below), k=0)
    if n > k:  # U2 = L^-1 A2
        beside = solve_triangular_op(adjoint(top), ct_upper[..., k:], upper=True, unit=True)
        ct_top = ct_top - tril_op(matmul_op(beside, adjoint(upper[..., k:])), k=-1)
    unit = tril_op(top, k=-1)
    inner = tril_op(matmul_op(adjoint(unit), ct_top) + ct_top, k=-1)
    inner = inner + triu_op(matmul_op(ct_square, adjoint(triu_op(square, k=0))), k=0)
    inner = solve_triangular_op(adjoint(top), inner, upper=True, unit=True)
    found = adjoint(solve_triangular_op(square, adjoint(inner), upper=True, unit=False))
    if below is not None:
        found = concat_op(found, below, axis=-2)
    if beside is not None:
        found = concat_op(found, beside, axis=-1)
    back = argsort_op(rows_op(pivots, rows=m), axis=-1, descending=False, stable=True)
    return (gather_op(found, broadcast(column(back), shape=found.shape), axis=-2),)


def _lu_by_rows(x: Any) -> tuple[Any, Any]:
    *lead, m, n = x.shape
    out, k = x.copy(), min(m, n)
    pivots = np.empty((*lead, k), int32)
    for at in np.ndindex(*lead):
        a = out[at]
        for j in range(k):
            p = j + int(np.argmax(_size(a[j:, j])))
            pivots[(*at, j)] = p + 1
            a[[j, p]] = a[[p, j]]
            for i in range(j + 1, m):
                a[i, j] /= a[j, j]
                a[i, j + 1 :] -= a[i, j] * a[j, j + 1 :]
    return out, pivots


lu_op: Op = op(
    "lu(x)",
    _lu,
    accepts="floating",
    infer=_infer_lu,
    results=2,
    facts=Joint(_lu_pull, absent=True),
    doc="Both triangular factors of matrices in one, rows exchanged, and the exchanges from 1 on (LAPACK's getrf).",
    layout="(m,n)->(m,n),(k)",
    samples=lambda rng: [
        Call((well_conditioned(rng, 3, 3)[::-1],)),
        Call((normal(rng, 2, 3, 2),)),
        Call((normal(rng, 2, 4),)),
        Call((normal(rng, 2, 2, complex=True),)),
        Call((np.zeros((0, 0)),)),
    ],
    reference=_lu_by_rows,
    onnx=NO_ONNX,
    source="Giles 2008, Collected matrix derivative results",
    cost=rectangle("m n^2 - n^3 / 3", 3, -1, 3),
    autocast="float32",
)


class LUResult(NamedTuple):
    """The result of :func:`lu`."""

    LU: Tensor
    pivots: Tensor


def lu(x: Any, /) -> LUResult:
    """Return both triangular factors of matrices in one, and the exchanges of rows, counted from 1 (LAPACK).

    Below the diagonal stands the lower factor, whose own diagonal is ones; the upper one stands on it and above.
    Singular matrices have factors too. Raises ShapeError.
    Source of the derivative: Giles 2008, Collected matrix derivative results.

    >>> import wengert as wg
    >>> from wengert.ops.linalg.lu import lu
    >>> lu(wg.tensor([[1.0, 1.0], [2.0, 4.0]]))
    LUResult(LU=tensor([[ 2. ,  4. ],
            [ 0.5, -1. ]]), pivots=tensor([2, 2], dtype=int32))
    """
    return LUResult(*bind(lu_op, (matrices(x, "lu"),)))


def pivoted_rows(pivots: Any, rows: int) -> Tensor:
    """Return, for each of so many rows, the one that exchanges put in its place: `x[rows]` is x after them."""
    out: Tensor = bind(rows_op, (pivots,), {"rows": int(rows)})
    return out


# -- QR as reflections


@lapack("geqrf", "has no QR factorization", "")
def _geqrf(x: Any) -> tuple[Any, Any]:
    if not x.size:
        return x.copy(), np.zeros((*x.shape[:-2], min(x.shape[-2:])), x.dtype)
    packed, scales = np.linalg.qr(x, "raw")
    return np.swapaxes(packed, -1, -2), scales


def _geqrf_reference(x: Any) -> tuple[Any, Any]:
    *lead, m, n = x.shape
    out, scales = x.copy(), np.zeros((*lead, min(m, n)), x.dtype)
    for at in np.ndindex(*lead):
        r = out[at]
        for j in range(min(m - (x.dtype.kind != "c"), n)):
            v = r[j:, j].copy()
            beta = -np.copysign(np.linalg.norm(v), v[0].real)
            if not np.any(v[1:]) and v[0].imag == 0:
                continue
            tau = (beta - v[0]) / beta
            v = v / (v[0] - beta)
            v[0] = 1
            rest = r[j:, j + 1 :]
            rest -= np.conj(tau) * np.outer(v, v.conj() @ rest)
            r[j, j], r[j + 1 :, j], scales[(*at, j)] = beta, v[1:], tau
    return out, scales


geqrf_op: Op = op(
    "geqrf(x)",
    _geqrf,
    accepts="floating",
    infer=lambda x: (matrix_spec(x), x.with_shape((*x.shape[:-2], min(x.shape[-2:])))),
    results=2,
    facts={"x": Missing("of reflections; that of qr is declared")},
    doc="The upper factor of matrices with the vectors of the reflections below it, and their scales (LAPACK's geqrf).",
    layout="(m,n)->(m,n),(k)",
    samples=lambda rng: [
        Call((normal(rng, 3, 2),)),
        Call((normal(rng, 2, 2, 3),)),
        Call((normal(rng, 3, 2, complex=True),)),
    ],
    reference=_geqrf_reference,
    onnx=NO_ONNX,
    cost=rectangle("2 (m n^2 - n^3 / 3)", 6, -2, 3),
    autocast="float32",
)


def geqrf(x: Any, /) -> tuple[Tensor, Tensor]:
    """Return the upper factor of Q R with the reflections that make up Q below it, and their scales (LAPACK).

    It has no derivative: :func:`wengert.linalg.qr` has. Raises ShapeError.
    """
    packed, scales = bind(geqrf_op, (matrices(x, "geqrf"),))
    return packed, scales
