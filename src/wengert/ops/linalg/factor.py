"""Triangular factorizations: Cholesky and QR."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.errors import GraphError, fail
from ...core.ops.costs import cube, rectangle
from ...core.ops.declare import op
from ...core.ops.op import Call, Joint, Op, Vjp
from ...core.ops.record import bind
from ...core.spec import Spec
from ...core.tensor import Tensor
from ..contract.products import matmul_op
from ..structure.assemble import concat_op
from ..structure.diagonals import tril_op, triu_op
from .base import (
    NO_ONNX,
    adjoint,
    hermitian,
    infer_same,
    lapack,
    matrices,
    matrix_spec,
    normal,
    positive_definite,
    undetermined,
)
from .solve import solve_triangular_op

# -- Cholesky


@lapack("cholesky", "is not positive definite", "Add a small multiple of the identity, or see wg.linalg.eigh.")
def _cholesky(x: Any) -> Any:
    out = np.linalg.cholesky(hermitian(x))
    if np.isnan(np.diagonal(out, axis1=-2, axis2=-1)).any():
        raise np.linalg.LinAlgError  # some LAPACKs let NaN pass
    return out


def _cholesky_pull(ct: Any, out: Any) -> Any:
    """Return the Hermitian part of L^-H Phi(L^H ct) L^-1; Phi is the lower triangle with half the diagonal."""
    product = matmul_op(adjoint(out), ct)
    half = (tril_op(product, k=0) + tril_op(product, k=-1)) * 0.5
    upper = adjoint(out)
    left = solve_triangular_op(upper, half, upper=True, unit=False)
    return hermitian(solve_triangular_op(upper, adjoint(left), upper=True, unit=False))


def _cholesky_by_columns(x: Any) -> Any:
    x = (x + np.conj(np.swapaxes(x, -1, -2))) / 2
    out = np.zeros_like(x)
    for j in range(x.shape[-1]):
        rest = x[..., j] - (out[..., :, :j] @ np.conj(out[..., j, :j, None]))[..., 0]
        out[..., j:, j] = rest[..., j:] / np.sqrt(rest[..., j].real)[..., None]
    return out


cholesky_op: Op = op(
    "cholesky(x)",
    _cholesky,
    accepts="floating",
    infer=infer_same,
    facts={"x": Vjp(_cholesky_pull)},
    doc="The lower triangular L with L L^H = x, of the Hermitian part of matrices.",
    layout="(n,n)->(n,n)",
    samples=lambda rng: [
        Call((positive_definite(rng, 3, 3),)),
        Call((positive_definite(rng, 2, 2, 2),)),
        Call((positive_definite(rng, 2, 2, complex=True),)),
        Call((np.zeros((0, 0)),)),
    ],
    reference=_cholesky_by_columns,
    onnx=NO_ONNX,
    source="Murray 2016, arXiv:1602.07527",
    cost=cube("n^3 / 3", 1, 3),
    autocast="float32",
)


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """Return the triangular factor of positive definite matrices: L L^H = x (Array API, NumPy).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32. Its Hermitian part (x + x^H) / 2 is
        taken, so that the gradient is symmetric.
    upper: return L^H.

    Raises LinAlgError where a matrix is not positive definite, ShapeError.
    Source of the derivative: Murray 2016, arXiv:1602.07527.

    >>> import wengert as wg
    >>> wg.linalg.cholesky(wg.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    out: Tensor = bind(cholesky_op, (matrices(x, "cholesky", True),))
    return adjoint(out) if upper else out


# -- QR


@lapack("qr", "has no QR factorization", "")
def _qr(x: Any, complete: bool) -> tuple[Any, Any]:
    found = np.linalg.qr(x, "complete" if complete else "reduced")
    return found.Q, found.R


def _infer_qr(x: Spec, complete: bool) -> tuple[Spec, Spec]:
    *lead, m, n = matrix_spec(x).shape
    k = m if complete else min(m, n)
    return x.with_shape((*lead, m, k)), x.with_shape((*lead, k, n))


def _qr_pull(ct: Any, out: Any, complete: bool) -> tuple[Any]:
    (ct_q, ct_r), (q, r) = ct, out
    m, n = q.shape[-2], r.shape[-1]
    if complete and m > n:
        if ct_q is not None:
            undetermined("qr", f"mode='complete' of {m} x {n} matrices", "Q", 'mode="reduced"')
        q, r, ct_r = q[..., :n], r[..., :n, :], ct_r[..., :n, :]
    if m >= n:
        return (_qr_tall(ct_q, ct_r, q, r),)
    # The square block on the left is factored; what stands beside it is Q^H times it.
    beside = None
    left = r[..., :m]
    if ct_r is not None:
        beside = matmul_op(q, ct_r[..., m:])
        through = matmul_op(matmul_op(q, r[..., m:]), adjoint(ct_r[..., m:]))
        ct_q = through if ct_q is None else ct_q + through
        ct_r = ct_r[..., :m]
    square = _qr_tall(ct_q, ct_r, q, left)
    if beside is None:
        beside = np.zeros((*square.shape[:-1], n - m), square.dtype)
    return (concat_op(square, beside, axis=-1),)


def _qr_tall(ct_q: Any, ct_r: Any, q: Any, r: Any) -> Any:
    """Return the cotangent (ct_Q + Q H) R^-H; H is Hermitian with the upper triangle of R ct_R^H - ct_Q^H Q."""
    inner = None if ct_r is None else matmul_op(r, adjoint(ct_r))
    if ct_q is not None:
        part = matmul_op(adjoint(ct_q), q)
        inner = -part if inner is None else inner - part
    inner = adjoint(inner)
    half = (triu_op(inner, k=0) + triu_op(inner, k=1)) * 0.5
    total = matmul_op(q, half + adjoint(half))
    if ct_q is not None:
        total = total + ct_q
    return adjoint(solve_triangular_op(r, adjoint(total), upper=True, unit=False))


def _householder(x: Any, complete: bool) -> tuple[Any, Any]:
    """Return Q and R by reflections, one matrix at a time; the diagonal of R has LAPACK's signs."""
    *lead, m, n = x.shape
    q_out, r_out = np.empty((*lead, m, m), x.dtype), np.empty(x.shape, x.dtype)
    for at in np.ndindex(*lead):
        q, r = np.eye(m, dtype=x.dtype), x[at].copy()
        for j in range(min(m - (x.dtype.kind != "c"), n)):
            v = r[j:, j].copy()
            if not np.any(v[1:]) and v[0].imag == 0:
                continue
            v[0] += np.copysign(np.linalg.norm(v), v[0].real)
            # H = I - tau v v^H with H^H r = (beta, 0, ...), beta real.
            beta = -np.copysign(np.linalg.norm(r[j:, j]), r[j, j].real)
            tau = (beta - r[j, j]) / beta
            v = v / v[0]
            h = np.eye(m - j, dtype=x.dtype) - tau * np.outer(v, v.conj())
            r[j:] = h.conj().T @ r[j:]
            q[:, j:] = q[:, j:] @ h
        q_out[at], r_out[at] = q, np.triu(r)
    k = m if complete else min(m, n)
    return q_out[..., :k], r_out[..., :k, :]


qr_op: Op = op(
    "qr(x; complete)",
    _qr,
    accepts="floating",
    infer=_infer_qr,
    results=2,
    facts=Joint(_qr_pull, absent=True),
    doc="Matrices as Q R: orthonormal columns times an upper triangle.",
    layout="(m,n)->(m,k),(k,n)",
    samples=lambda rng: [
        Call((normal(rng, 3, 2),), {"complete": False}),
        Call((normal(rng, 2, 2, 3),), {"complete": False}),
        Call((normal(rng, 2, 2),), {"complete": True}),
        Call((normal(rng, 2, 3),), {"complete": True}),
        Call((normal(rng, 3, 2, complex=True),), {"complete": False}),
        Call((np.zeros((3, 0)),), {"complete": False}),
    ],
    reference=_householder,
    onnx=NO_ONNX,
    source="Walter and Lehmann 2012, Optimization Methods and Software; wide ones: Roberts and Roberts 2020, "
    "arXiv:2009.10071",
    cost=rectangle("4 (m n^2 - n^3 / 3), with Q", 12, -4, 3),
    autocast="float32",
)


class QRResult(NamedTuple):
    """The result of :func:`qr`.

    >>> import wengert as wg
    >>> q, r = wg.linalg.qr(wg.tensor([[3.0], [4.0]]))
    >>> q.shape, abs(r.item())
    ((2, 1), 5.0)
    """

    Q: Tensor
    R: Tensor


def qr(x: Any, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Return matrices as Q R, orthonormal columns times an upper triangle (Array API, NumPy).

    Parameters
    ----------
    x: (..., m, n), real or complex; integers become float32.
    mode: "reduced" gives Q (..., m, k) and R (..., k, n) with k = min(m, n), "complete" k = m.

    The derivative needs the first min(m, n) columns of x to be independent: it raises LinAlgError
    where R has a 0 on its diagonal. For a tall x, the further columns of a complete Q have none:
    GradientError where a gradient reaches it. Raises ShapeError, GraphError for another `mode`.
    Source of the derivative: Walter and Lehmann 2012; of wide ones: Roberts and Roberts 2020.

    >>> import wengert as wg
    >>> q, r = wg.linalg.qr(wg.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> abs(r[0, 0])
    tensor(5.)
    """
    if mode not in ("reduced", "complete"):
        fail(GraphError, f"qr: mode={mode!r}", 'It is "reduced" or "complete".')
    return QRResult(*bind(qr_op, (matrices(x, "qr"),), {"complete": mode == "complete"}))
