"""Eigenvalues and singular values, and their vectors.

Vectors are determined only up to signs or phases, and not at all where values are equal: their derivative
is one of the vectors as LAPACK chose them, or does not exist. The public functions say which.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.ops.costs import cube, rectangle
from ...core.ops.declare import op
from ...core.ops.facets import Cause, Nonfinite
from ...core.ops.nonfinite import DISTINCT
from ...core.ops.op import Call, Joint, Op, Vjp
from ...core.ops.record import bind
from ...core.spec import Spec, complex64, complex_dtype
from ...core.tensor import Tensor
from ..contract.products import matmul_op
from ..pointwise.arithmetic import imag, real
from ..structure.diagonals import diagonal_op, embed_diagonal
from ..structure.shapes import cast
from .base import (
    NO_ONNX,
    NO_SVD,
    adjoint,
    column,
    conjugate,
    differences,
    hermitian,
    identity_like,
    lapack,
    matrices,
    matrix_spec,
    normal,
    real_spec,
    row,
    square_spec,
    undetermined,
    well_conditioned,
)
from .solve import solve_op


def _diagonal(values: Any) -> Any:
    n = values.shape[-1]
    return embed_diagonal(values, offset=0, rows=n, columns=n)


# -- the symmetric eigenproblem

_NO_EIGENVALUES = ("has no eigenvalues: they did not converge", "Scale the matrix, or compute in float64.")


@lapack("eigh", *_NO_EIGENVALUES, finite=True)
def _eigh(x: Any) -> tuple[Any, Any]:
    found = np.linalg.eigh(hermitian(x))
    return found.eigenvalues, found.eigenvectors


def _eigh_pull(ct: Any, out: Any) -> tuple[Any]:
    (ct_w, ct_v), (w, v) = ct, out
    inner = None if ct_w is None else _diagonal(ct_w)
    if ct_v is not None:
        # On the diagonal stands what only scales an eigenvector: it has length 1.
        off = matmul_op(adjoint(v), ct_v) / differences(w) * (1.0 - identity_like(v))
        inner = off if inner is None else inner + off
    if ct_v is None:
        return (hermitian(matmul_op(v * row(ct_w), adjoint(v))),)
    return (hermitian(matmul_op(v, matmul_op(inner, adjoint(v)))),)


def _eigh_reference(x: Any) -> tuple[Any, Any]:
    """Return eigenvalues and eigenvectors by Jacobi's rotations; each vector with LAPACK's sign."""
    w, v = np.empty(x.shape[:-1]), np.empty(x.shape, x.dtype)
    for at in np.ndindex(x.shape[:-2]):
        w[at], v[at] = _jacobi((x[at] + x[at].conj().T) / 2)
    return w, _as_phased(v, np.linalg.eigh((x + np.conj(np.swapaxes(x, -1, -2))) / 2)[1])


def _jacobi(a: Any) -> tuple[Any, Any]:
    n = a.shape[0]
    a, v = a.copy(), np.eye(n, dtype=a.dtype)
    for _ in range(30):
        for p in range(n):
            for q in range(p + 1, n):
                if abs(a[p, q]) < 1e-100:
                    continue
                phase = a[p, q] / abs(a[p, q])
                angle = 0.5 * np.arctan2(2 * abs(a[p, q]), (a[q, q] - a[p, p]).real)
                rotation = np.eye(n, dtype=a.dtype)
                rotation[p, p] = rotation[q, q] = np.cos(angle)
                rotation[p, q], rotation[q, p] = np.sin(angle) * phase, -np.sin(angle) * np.conj(phase)
                a, v = rotation.conj().T @ a @ rotation, v @ rotation
    order = np.argsort(np.diagonal(a).real)
    return np.diagonal(a).real[order], v[:, order]


def _as_phased(v: Any, like: Any) -> Any:
    """Return columns, each times the phase (a sign) that brings it nearest to another's."""
    product = (np.conj(v) * like).sum(-2, keepdims=True)
    return v * (product / np.abs(product))


def _symmetric(rng: Any, *shape: int, complex: bool = False) -> Any:
    """Return nearly symmetric samples, which show what an op makes of the rest; eigenvalues well apart."""
    return normal(rng, *shape, complex=complex) * 0.4 + np.diag(np.arange(shape[-1]) * 2.0)


eigh_op: Op = op(
    "eigh(x)",
    _eigh,
    accepts="floating",
    infer=lambda x: (real_spec(square_spec(x), x.shape[:-1]), x),
    results=2,
    facts=Joint(_eigh_pull, absent=True),
    doc="Eigenvalues, ascending, and orthonormal eigenvectors of the Hermitian part of matrices.",
    layout="(n,n)->(n),(n,n)",
    samples=lambda rng: [
        Call((_symmetric(rng, 3, 3),)),
        Call((_symmetric(rng, 2, 2, 2),)),
        Call((_symmetric(rng, 2, 2, complex=True),), order=0),  # the phases of the vectors are LAPACK's choice
        Call((np.zeros((0, 0)),)),
    ],
    reference=_eigh_reference,
    onnx=NO_ONNX,
    source="Giles 2008, Collected matrix derivative results",
    cost=cube("9 n^3", 9),
    nonfinite=Nonfinite(backward=Cause("eigenvectors of eigenvalues that are equal have no derivative", DISTINCT)),
    autocast="float32",
)


def _eigvalsh_pull(ct: Any, x: Any) -> Any:
    v = eigh_op(x)[1]
    return hermitian(matmul_op(v * row(ct), adjoint(v)))


eigvalsh_op: Op = op(
    "eigvalsh(x)",
    lapack("eigvalsh", *_NO_EIGENVALUES, finite=True)(lambda x: np.linalg.eigvalsh(hermitian(x))),
    accepts="floating",
    infer=lambda x: real_spec(square_spec(x), x.shape[:-1]),
    facts={"x": Vjp(_eigvalsh_pull)},
    doc="Eigenvalues, ascending, of the Hermitian part of matrices.",
    layout="(n,n)->(n)",
    samples=lambda rng: [
        Call((_symmetric(rng, 3, 3),)),
        Call((_symmetric(rng, 2, 2, 2),)),
        Call((_symmetric(rng, 2, 2, complex=True),)),
        Call((np.eye(2),), order=0),
    ],
    reference=lambda x: _eigh_reference(x)[0],
    onnx=NO_ONNX,
    source="Giles 2008, Collected matrix derivative results",
    cost=cube("4/3 n^3", 4, 3),
    autocast="float32",
)


class EighResult(NamedTuple):
    """The result of :func:`eigh`.

    >>> import wengert as wg
    >>> wg.linalg.eigh(wg.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2., 3.])
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


def eigh(x: Any, /) -> EighResult:
    """Return eigenvalues and eigenvectors of Hermitian matrices: x v = w v (Array API, NumPy).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32. Its Hermitian part (x + x^H) / 2 is
        taken, so that the gradient is symmetric.

    Returns the eigenvalues (..., n), real and ascending, and the eigenvectors (..., n, n), orthonormal,
    one in each column. Equal eigenvalues have single vectors, and their derivatives, only by chance:
    where a gradient reaches vectors of equal eigenvalues it is NaN or infinite; where it reaches the
    eigenvalues alone, it is right. Complex vectors are determined up to a phase each: the gradient is
    right for losses that do not depend on the phases. Raises LinAlgError for NaN and infinity, ShapeError.
    Source of the derivative: Giles 2008, Collected matrix derivative results; complex: Boeddeker et al. 2017.

    >>> import wengert as wg
    >>> w, v = wg.linalg.eigh(wg.tensor([[2.0, 1.0], [1.0, 2.0]]))
    >>> w
    tensor([1., 3.])
    """
    return EighResult(*bind(eigh_op, (matrices(x, "eigh", True),)))


def eigvalsh(x: Any, /) -> Tensor:
    """Return the eigenvalues of Hermitian matrices, ascending (Array API, NumPy).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32. Its Hermitian part is taken.

    The first derivative of equal eigenvalues is that of one choice among them (their sum has it
    right); a second one is NaN or infinite there. Raises LinAlgError for NaN and infinity, ShapeError.
    Source of the derivative: Giles 2008, Collected matrix derivative results.

    >>> import wengert as wg
    >>> wg.linalg.eigvalsh(wg.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """
    out: Tensor = bind(eigvalsh_op, (matrices(x, "eigvalsh", True),))
    return out


# -- the general eigenproblem


@lapack("eig", *_NO_EIGENVALUES, narrow=False)
def _eig(x: Any) -> tuple[Any, Any]:
    found = np.linalg.eig(x)
    dtype = complex_dtype(x.dtype)
    return found.eigenvalues.astype(dtype), found.eigenvectors.astype(dtype)


def _eig_spec(x: Spec) -> Spec:
    return x.with_dtype(complex64 if x.dtype.itemsize == 2 else complex_dtype(x.dtype))


def _eig_pull(ct: Any, out: Any, x_dtype: Any) -> tuple[Any]:
    (ct_w, ct_v), (w, v) = ct, out
    back = adjoint(v)
    inner: Any
    if ct_v is None:
        inner = column(ct_w) * back
    else:
        product = matmul_op(back, ct_v)
        # The vectors have length 1: what would lengthen them does not count.
        along = matmul_op(back, v) * row(real(diagonal_op(product, offset=0)))
        off = (product - along) / conjugate(differences(w)) * (1.0 - identity_like(v))
        inner = matmul_op(off if ct_w is None else off + _diagonal(ct_w), back)
    found = solve_op(back, inner)
    return (found if x_dtype.kind == "c" else cast(real(found), dtype=x_dtype),)


def _eig_reference(x: Any) -> tuple[Any, Any]:
    """Return eigenvalues by the unshifted QR iteration, and vectors by inverse iteration with LAPACK's phase."""
    w0, v0 = np.linalg.eig(x)
    w, v = np.empty(x.shape[:-1], np.complex128), np.empty(x.shape, np.complex128)
    for at in np.ndindex(x.shape[:-2]):
        roots = np.roots(_characteristic(x[at]))
        for j, guess in enumerate(w0[at]):
            root = roots[np.argmin(np.abs(roots - guess))]
            vector = np.linalg.svd(x[at] - root * np.eye(x.shape[-1]))[2][-1].conj()
            w[(*at, j)], v[(*at, slice(None), j)] = root, vector
    return w, _as_phased(v, v0.astype(np.complex128))


def _characteristic(x: Any) -> list[Any]:
    """Return the coefficients of det(z - x), by Faddeev and LeVerrier."""
    n = x.shape[0]
    coefficients, m = [1.0], np.zeros_like(x)
    for k in range(1, n + 1):
        m = x @ m + coefficients[-1] * np.eye(n)
        coefficients.append(-np.trace(x @ m) / k)
    return coefficients


eig_op: Op = op(
    "eig(x)",
    _eig,
    accepts="floating",
    infer=lambda x: (_eig_spec(square_spec(x)).with_shape(x.shape[:-1]), _eig_spec(x)),
    results=2,
    facts=Joint(_eig_pull, absent=True),
    doc="Eigenvalues and eigenvectors, complex, of square matrices.",
    layout="(n,n)->(n),(n,n)",
    samples=lambda rng: [
        Call((np.array([[1.0, 2.0], [0.5, -1.0]]),)),
        Call((np.array([[[2.0, 1.0], [1.5, 0.0]], [[-1.0, 0.5], [1.0, 3.0]]]),)),
        Call((np.array([[0.0, 1.0], [-2.0, 0.5]]),), order=0),  # the phases of the vectors are LAPACK's choice
        Call((well_conditioned(rng, 2, 2, complex=True),), order=0),
    ],
    reference=_eig_reference,
    onnx=NO_ONNX,
    source="Giles 2008, Collected matrix derivative results; Boeddeker et al. 2017, arXiv:1701.00392",
    cost=cube("25 n^3", 25),
    nonfinite=Nonfinite(backward=Cause("eigenvectors of eigenvalues that are equal have no derivative", DISTINCT)),
    autocast="float32",
)


class EigResult(NamedTuple):
    """The result of :func:`eig`.

    >>> import wengert as wg
    >>> wg.linalg.eig(wg.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2.+0.j, 3.+0.j])
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


def eig(x: Any, /) -> EigResult:
    """Return eigenvalues and eigenvectors of square matrices: x v = w v (Array API 2025, NumPy).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32.

    Returns the eigenvalues (..., n) in no particular order and the eigenvectors (..., n, n) of length 1,
    one in each column; both are complex. The vectors are determined up to a phase each: the gradient
    is right for losses that do not depend on the phases. Equal eigenvalues: as for :func:`eigh`;
    where a matrix has no full set of eigenvectors, the derivative raises LinAlgError or is of no use.
    Raises LinAlgError for NaN and infinity, ShapeError.
    Source of the derivative: Giles 2008, Collected matrix derivative results; Boeddeker et al. 2017.

    >>> import wengert as wg
    >>> wg.linalg.eig(wg.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2.+0.j, 3.+0.j])
    """
    return EigResult(*bind(eig_op, (matrices(x, "eig", True),)))


def eigvals(x: Any, /) -> Tensor:
    """Return the eigenvalues of square matrices, complex, in no particular order; see :func:`eig`.

    >>> import wengert as wg
    >>> wg.linalg.eigvals(wg.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([2.+0.j, 3.+0.j])
    """
    return eig(x).eigenvalues


# -- singular values


@lapack("svd", *NO_SVD, finite=True)
def _svd(x: Any, full: bool) -> tuple[Any, Any, Any]:
    found = np.linalg.svd(x, full_matrices=full)
    return found.U, found.S, found.Vh


def _infer_svd(x: Spec, full: bool) -> tuple[Spec, Spec, Spec]:
    *lead, m, n = matrix_spec(x).shape
    k = min(m, n)
    return (
        x.with_shape((*lead, m, m if full else k)),
        real_spec(x, (*lead, k)),
        x.with_shape((*lead, n if full else k, n)),
    )


def _svd_pull(ct: Any, out: Any, full: bool) -> tuple[Any]:
    (ct_u, ct_s, ct_vh), (u, s, vh) = ct, out
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    if full and m != n:
        if (ct_u if m > n else ct_vh) is not None:
            what = f"full_matrices=True of {m} x {n} matrices"
            undetermined("svd", what, "U" if m > n else "Vh", "full_matrices=False")
        u, vh = u[..., :k], vh[..., :k, :]
    if ct_u is None and ct_vh is None:
        return (matmul_op(u * row(ct_s), vh),)
    in_u = None if ct_u is None else matmul_op(adjoint(u), ct_u)
    in_v = None if ct_vh is None else matmul_op(vh, adjoint(ct_vh))
    total = matmul_op(matmul_op(u, _svd_inner(in_u, in_v, ct_s, s)), vh)
    if ct_u is not None and m > k:
        total = total + matmul_op((ct_u - matmul_op(u, in_u)) / row(s), vh)
    if ct_vh is not None and n > k:
        total = total + matmul_op(u, (ct_vh - matmul_op(adjoint(in_v), vh)) / column(s))
    return (total,)


def _svd_inner(in_u: Any, in_v: Any, ct_s: Any, s: Any) -> Any:
    """Return the cotangent of U^H dx V: of the singular values on the diagonal, of the vectors beside it."""
    # s[j]**2 - s[i]**2 without the squares, which would cancel.
    other = 1.0 - identity_like(s)
    gaps = differences(s) * ((row(s) + column(s)) * other + identity_like(s))
    parts = []
    if in_u is not None:
        parts.append((in_u - adjoint(in_u)) / gaps * row(s))
    if in_v is not None:
        parts.append((in_v - adjoint(in_v)) / gaps * column(s))
    total = (parts[0] + parts[1] if len(parts) == 2 else parts[0]) * other
    if total.dtype.kind == "c":
        # The phase of a pair of vectors: what turns both is not determined, half of it is given to each.
        phase = 0.0
        for sign, part in ((1.0, in_u), (-1.0, in_v)):
            if part is not None:
                phase = phase + sign * imag(diagonal_op(part, offset=0))
        total = total + _diagonal(1j * (phase / (2.0 * s)))
    return total if ct_s is None else total + _diagonal(ct_s)


def _gram(x: Any) -> Any:
    xh = np.conj(np.swapaxes(x, -1, -2))
    return x @ xh if x.shape[-2] < x.shape[-1] else xh @ x


def _svd_reference(x: Any, full: bool) -> tuple[Any, Any, Any]:
    """Return the SVD from the eigenvectors of x^H x and x x^H, with LAPACK's signs; one side follows from x v = s u."""
    xh = np.conj(np.swapaxes(x, -1, -2))
    k = min(x.shape[-2:])
    u0, _, vh0 = np.linalg.svd(x, full_matrices=full)
    u = _eigh_reference(x @ xh)[1][..., ::-1]
    v = _eigh_reference(xh @ x)[1][..., ::-1]
    if not full:
        u, v = u[..., :k], v[..., :k]
    u = _as_phased(u, u0)
    v = _as_phased(v, np.conj(np.swapaxes(vh0, -1, -2)))
    s = np.einsum("...ij,...jl,...li->...i", np.conj(np.swapaxes(u[..., :k], -1, -2)), x, v[..., :k]).real
    return u, s, np.conj(np.swapaxes(v, -1, -2))


svd_op: Op = op(
    "svd(x; full)",
    _svd,
    accepts="floating",
    infer=_infer_svd,
    results=3,
    facts=Joint(_svd_pull, absent=True),
    doc="Matrices as U S Vh: orthonormal columns, singular values (descending), orthonormal rows.",
    layout="(m,n)->(m,k),(k),(k,n)",
    samples=lambda rng: [
        Call((normal(rng, 3, 2),), {"full": False}),
        Call((normal(rng, 2, 2, 3),), {"full": False}),
        Call((normal(rng, 2, 2),), {"full": True}),
        Call((normal(rng, 2, 3, complex=True),), {"full": False}, order=0),  # phases are LAPACK's choice
    ],
    reference=_svd_reference,
    onnx=NO_ONNX,
    source="Townsend 2016, Differentiating the singular value decomposition; Wan and Zhang 2019, arXiv:1909.02659",
    cost=rectangle("4 m n^2 + 22 n^3", 4, 22),
    nonfinite=Nonfinite(
        backward=Cause("singular vectors of singular values that are equal (or 0) have no derivative", DISTINCT)
    ),
    autocast="float32",
)


def _svdvals_pull(ct: Any, x: Any) -> Any:
    u, _, vh = svd_op(x, full=False)
    return matmul_op(u * row(ct), vh)


svdvals_op: Op = op(
    "svdvals(x)",
    lapack("svdvals", *NO_SVD, finite=True)(lambda x: np.linalg.svd(x, compute_uv=False)),
    accepts="floating",
    infer=lambda x: real_spec(matrix_spec(x), (*x.shape[:-2], min(x.shape[-2:]))),
    facts={"x": Vjp(_svdvals_pull)},
    doc="The singular values of matrices, descending.",
    layout="(m,n)->(k)",
    samples=lambda rng: [
        Call((normal(rng, 3, 2),)),
        Call((normal(rng, 2, 2, 3),)),
        Call((normal(rng, 2, 2, complex=True),)),
        Call((np.eye(2),), order=0),
        Call((np.zeros((0, 2)),)),
    ],
    reference=lambda x: np.sqrt(_eigh_reference(_gram(x))[0][..., ::-1]) if x.size else np.zeros(0),
    onnx=NO_ONNX,
    source="Townsend 2016, Differentiating the singular value decomposition",
    cost=rectangle("4 m n^2 - 4/3 n^3", 12, -4, 3),
    autocast="float32",
)


class SVDResult(NamedTuple):
    """The result of :func:`svd`.

    >>> import wengert as wg
    >>> wg.linalg.svd(wg.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """Return matrices as U S Vh (Array API, NumPy).

    Parameters
    ----------
    x: (..., m, n), real or complex; integers become float32.
    full_matrices: U (..., m, m) and Vh (..., n, n); False for the k = min(m, n) columns and rows
        that belong to singular values.

    Returns U, the singular values (..., k), real and descending, and Vh. Where a gradient reaches
    vectors of equal singular values (or of 0, unless x is square) it is NaN or infinite; where it
    reaches the singular values alone, it is right. Complex pairs of vectors are determined up to a
    phase: the gradient is right for losses that do not depend on the phases. The further columns of a
    full U or Vh have no derivative: GradientError where a gradient reaches that factor. Raises
    LinAlgError for NaN and infinity, ShapeError.
    Source of the derivative: Townsend 2016; complex: Wan and Zhang 2019, arXiv:1909.02659.

    >>> import wengert as wg
    >>> wg.linalg.svd(wg.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """
    return SVDResult(*bind(svd_op, (matrices(x, "svd"),), {"full": bool(full_matrices)}))


def svdvals(x: Any, /) -> Tensor:
    """Return the singular values of matrices, descending (Array API, NumPy).

    Parameters
    ----------
    x: (..., m, n), real or complex; integers become float32.

    The first derivative of equal singular values is that of one choice among them (their sum has it
    right); a second one is NaN or infinite there. Raises LinAlgError for NaN and infinity, ShapeError.
    Source of the derivative: Townsend 2016, Differentiating the singular value decomposition.

    >>> import wengert as wg
    >>> wg.linalg.svdvals(wg.tensor([[0.0, 2.0], [1.0, 0.0]]))
    tensor([2., 1.])
    """
    out: Tensor = bind(svdvals_op, (matrices(x, "svdvals"),))
    return out
