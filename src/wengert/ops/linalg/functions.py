"""Functions of matrices: determinants, powers, the exponential."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.costs import cube
from ...core.ops.declare import op
from ...core.ops.facets import Cause, Nonfinite
from ...core.ops.nonfinite import SINGULAR, always
from ...core.ops.op import Call, Joint, Linear, Op, Vjp
from ...core.ops.record import bind
from ...core.spec import Spec, show
from ...core.tensor import Tensor, wrap
from ..contract.products import matmul, matmul_op
from ..pointwise.arithmetic import exp, imag, log
from ..pointwise.selection import where, where_op
from ..reduce.sums import prod_op
from ..structure.assemble import concat_op
from ..structure.diagonals import diagonal_op, embed_diagonal
from .base import (
    NO_ONNX,
    NO_SVD,
    adjoint,
    column,
    conjugate,
    identity_like,
    infer_numbers,
    infer_same,
    lapack,
    matrices,
    matrix_scaled,
    normal,
    real_spec,
    row,
    square_spec,
    well_conditioned,
)
from .solve import inv, inv_op
from .spectral import svd_op

# -- determinants


def _others(s: Any) -> Any:
    """Return, for each element of a vector, the product of the others; exponents apart, so that none underflows."""
    zero = s == 0.0
    mantissa, exponent = np.frexp(np.where(zero, 1.0, s).astype(np.float64))
    product, power = mantissa.prod(-1, keepdims=True), exponent.sum(-1, keepdims=True)
    found = np.ldexp(product / mantissa, power - exponent)
    return np.where(zero.sum(-1, keepdims=True) - zero == 0, found, 0.0).astype(s.dtype)


def _other_pairs(s: Any) -> Any:
    """Return, for each two elements of a vector, the product of the others; 0 on the diagonal."""
    n = s.shape[-1]
    zero = s == 0.0
    filled = where_op(zero, 1.0, s)
    # Over their geometric mean their product is about 1, so that it does not underflow.
    level = exp(log(filled).sum(axis=-1, keepdims=True) / max(n, 1))
    part = filled / level
    product = prod_op(part, axis=(-1,), keepdims=True) * level ** max(n - 2, 0)
    count = zero.sum(axis=-1, keepdims=True)
    left = count.reshape((*count.shape, 1)) - column(zero) - row(zero)
    pairs = product.reshape((*product.shape, 1)) / column(part) / row(part)
    return where_op(left == 0, pairs, 0.0) * (1.0 - identity_like(s))


@lapack("adjugate", *NO_SVD)
def _adjugate(x: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    phase = np.linalg.det(np.matmul(u, vh))
    out = np.matmul(adjoint(vh) * _others(s)[..., None, :], adjoint(u))
    return phase[..., None, None] * out


def _adjugate_pull(ct: Any, x: Any) -> Any:
    """Return the adjugate's cotangent, by products of all but two in the basis of the singular vectors."""
    u, s, vh = svd_op(x, full=False)
    n = s.shape[-1]
    weights = _other_pairs(s)
    inner = matmul_op(matmul_op(vh, ct), u)
    inner = matrix_scaled(conjugate(det_op(matmul_op(u, vh))), inner)
    beside = (weights * row(diagonal_op(inner, offset=0))).sum(axis=-1)
    moved = embed_diagonal(beside, offset=0, rows=n, columns=n) - weights * inner
    return matmul_op(u, matmul_op(moved, vh))


def _minors(x: Any) -> Any:
    out = np.empty_like(x)
    n = x.shape[-1]
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(x, j, -2), i, -1)
            out[..., i, j] = (-1) ** (i + j) * _expanded(minor)
    return out


def _expanded(x: Any) -> Any:
    """Return the determinant, expanded along the first row."""
    n = x.shape[-1]
    if n == 0:
        return np.ones(x.shape[:-2], x.dtype)
    total: Any = 0.0
    for j in range(n):
        total = total + (-1) ** j * x[..., 0, j] * _expanded(np.delete(x[..., 1:, :], j, -1))
    return np.asarray(total)


def _determinants(rng: Any) -> list[Call]:
    return [
        Call((normal(rng, 3, 3),)),
        Call((normal(rng, 2, 2, 2),)),
        Call((np.diag([1.0, 2.0, 0.0]),)),
        Call((np.zeros((3, 3)),)),
        Call((np.eye(3),)),
        Call((np.outer([1.0, 2.0, -1.0], [0.5, 1.0, 3.0]),)),
        Call((normal(rng, 2, 2, complex=True),)),
        Call((np.zeros((0, 0)),)),
    ]


adjugate_op: Op = op(
    "adjugate(x)",
    _adjugate,
    accepts="floating",
    infer=infer_same,
    facts={"x": Vjp(_adjugate_pull)},
    doc="The adjugate, det(x) times the inverse, also of singular matrices: the transposed cofactors.",
    layout="(n,n)->(n,n)",
    samples=lambda rng: [Call(c.args, order=1 if i in (2, 3, 4, 5) else 2) for i, c in enumerate(_determinants(rng))],
    reference=_minors,
    onnx=NO_ONNX,
    source="Stewart 1998, Linear Algebra and its Applications 283",
    cost=cube("21 n^3, by singular values", 21),
    autocast="float32",
)

det_op: Op = op(
    "det(x)",
    lapack("det", "has no determinant", "")(lambda x: np.asarray(np.linalg.det(x))),
    accepts="floating",
    infer=infer_numbers,
    facts={"x": Vjp(lambda ct, x: matrix_scaled(ct, adjoint(adjugate_op(x))))},
    doc="The determinant of square matrices.",
    layout="(n,n)->()",
    samples=_determinants,
    reference=_expanded,
    onnx="Det",
    source="Giles 2008, Collected matrix derivative results; the adjugate: Stewart 1998",
    cost=cube("2/3 n^3", 2, 3),
    nonfinite=Nonfinite(
        ((always, Cause("overflow of a product", "wg.linalg.slogdet, which gives the logarithm of a determinant")),)
    ),
    autocast="float32",
)


@lapack("slogdet", "has no determinant", "")
def _slogdet(x: Any) -> tuple[Any, Any]:
    found = np.linalg.slogdet(x)
    return np.asarray(found.sign), np.asarray(found.logabsdet)


def _slogdet_pull(ct: Any, x: Any, out: Any) -> tuple[Any]:
    (ct_sign, ct_log), (sign, _) = ct, out
    scale = ct_log
    if ct_sign is not None and x.dtype.kind == "c":
        turn = imag(conjugate(sign) * ct_sign) * 1j
        scale = turn if scale is None else scale + turn
    if scale is None:  # the sign of a real determinant is constant where it has a derivative
        return (None,)
    return (matrix_scaled(scale, adjoint(inv_op(x))),)


def _slogdet_reference(x: Any) -> tuple[Any, Any]:
    found = _expanded(x)
    size = np.abs(found)
    with np.errstate(all="ignore"):
        return np.where(size == 0, 0.0, found / np.where(size == 0, 1.0, size)), np.log(size)


slogdet_op: Op = op(
    "slogdet(x)",
    _slogdet,
    accepts="floating",
    infer=lambda x: (infer_numbers(x), real_spec(x, x.shape[:-2])),
    results=2,
    facts=Joint(_slogdet_pull, absent=True),
    doc="The sign of the determinant of square matrices, and the logarithm of its absolute value.",
    layout="(n,n)->(),()",
    samples=lambda rng: [
        Call((well_conditioned(rng, 3, 3),)),
        Call((-well_conditioned(rng, 2, 3, 3),)),
        Call((normal(rng, 2, 2, complex=True),)),
        Call((np.zeros((0, 0)),)),
    ],
    reference=_slogdet_reference,
    onnx=NO_ONNX,
    source="Giles 2008, Collected matrix derivative results; complex: Boeddeker et al. 2017, arXiv:1701.00392",
    cost=cube("2/3 n^3", 2, 3),
    nonfinite=Nonfinite(((always, Cause("the logarithm of a determinant that is 0", SINGULAR)),)),
    autocast="float32",
)


def det(x: Any, /) -> Tensor:
    """Return the determinant of square matrices (Array API, NumPy).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32.

    Returns (...). Its first and second derivatives are right at singular matrices too, where they are
    those of the polynomial that the determinant is. Raises ShapeError.
    Source of the derivative: Giles 2008; the adjugate by singular values: Stewart 1998.

    >>> import wengert as wg
    >>> wg.linalg.det(wg.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(6.)
    """
    out: Tensor = bind(det_op, (matrices(x, "det", True),))
    return out


class SlogdetResult(NamedTuple):
    """The result of :func:`slogdet`.

    >>> import wengert as wg
    >>> found = wg.linalg.slogdet(wg.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> found.sign, found.logabsdet
    (tensor(-1.), tensor(0.))
    """

    sign: Tensor
    logabsdet: Tensor


def slogdet(x: Any, /) -> SlogdetResult:
    """Return the sign of the determinant and the logarithm of its absolute value (Array API, NumPy).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32.

    Returns `sign` (...), a number of absolute value 1 (0 for a singular matrix), and `logabsdet` (...),
    real (-inf for a singular matrix). The derivative raises LinAlgError at a singular matrix, where
    there is none. Raises ShapeError.
    Source of the derivative: Giles 2008; complex: Boeddeker et al. 2017.

    >>> import wengert as wg
    >>> wg.linalg.slogdet(wg.tensor([[0.0, 1.0], [1.0, 0.0]]))
    SlogdetResult(sign=tensor(-1.), logabsdet=tensor(0.))
    """
    return SlogdetResult(*bind(slogdet_op, (matrices(x, "slogdet", True),)))


def logdet(x: Any, /) -> Tensor:
    """Return the logarithm of the determinant of square matrices (PyTorch).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32.

    -inf for a singular matrix; NaN for a negative determinant, the principal logarithm of a complex
    one. The derivative is that of :func:`slogdet`. Raises ShapeError.

    >>> import wengert as wg
    >>> wg.linalg.logdet(wg.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor(0.)
    """
    sign, size = slogdet(x)
    if sign.dtype.kind == "c":
        return size + log(sign)  # type: ignore[no-any-return]
    return size + where_op(sign >= 0.0, 0.0, math.nan)  # type: ignore[no-any-return]


# -- powers and the exponential


def matrix_power(x: Any, n: int, /) -> Tensor:
    """Return a square matrix times itself, n times, by repeated squaring (Array API, NumPy).

    Parameters
    ----------
    x: (..., m, m), real or complex; integers become float32.
    n: any int; negative for powers of the inverse, 0 for the identity.

    Raises LinAlgError for a negative power of a singular matrix, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.linalg.matrix_power(wg.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        fail(DTypeError, f"matrix_power: the power {n!r} is a {type(n).__name__}, not an int")
    base = matrices(x, "matrix_power", True)
    if n < 0:
        base = inv(base)
    left, out = abs(int(n)), None
    while left:
        if left % 2:
            out = base if out is None else matmul(out, base)
        left //= 2
        if left:
            base = matmul(base, base)
    if out is None:
        # A choice of nothing of the matrix, so that its gradient is zeros, and not none.
        return where(wrap(np.zeros((), bool)), base, wrap(np.eye(base.shape[-1], dtype=base.dtype)))
    return out


# Pade's approximant of degree 13, over its constant so that exp(0) is exact, and up to which norm it is good to
# rounding in float64.
PADE = tuple(
    c / 64764752532480000.0
    for c in (
        64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
        10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
    )
)  # fmt: skip
PADE_NORM = 5.371920351148152


@lapack("expm", "has no exponential", "")
def _expm(x: Any) -> Any:
    out = np.full(x.shape, np.nan, x.dtype)
    size = np.abs(x).sum(-2).max(-1, initial=0.0)
    finite = np.isfinite(size)
    if x.size:
        out[finite] = _expm_finite(x[finite], size[finite])
    return out


def _expm_finite(x: Any, size: Any) -> Any:
    """Return the exponential by scaling and squaring, each matrix as often as its norm asks."""
    squarings = np.maximum(np.ceil(np.log2(np.maximum(size, 1e-30) / PADE_NORM)), 0.0)
    x = x * (0.5**squarings).astype(size.dtype)[:, None, None]
    b, one = PADE, np.eye(x.shape[-1], dtype=x.dtype)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x @ (x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one)
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    out = np.linalg.solve(even - odd, even + odd)
    for k in range(int(squarings.max(initial=0.0))):
        more = squarings > k
        out[more] = out[more] @ out[more]
    return out


def _blocks(x: Any, e: Any) -> Any:
    """Return the block matrix [[x, e], [0, x]]."""
    zero = np.zeros(x.shape, x.dtype)
    return concat_op(concat_op(x, e, axis=-1), concat_op(zero, x, axis=-1), axis=-2)


def _frechet_in_x(ct: Any, x: Any, e: Any) -> Any:
    """Return the cotangent of x: the adjoint of a Frechet derivative of the blocks, two blocks of it summed."""
    n = x.shape[-1]
    zero = np.zeros(x.shape, x.dtype)
    corner = concat_op(concat_op(zero, ct, axis=-1), concat_op(zero, zero, axis=-1), axis=-2)
    found = expm_frechet_op(adjoint(_blocks(x, e)), corner)
    return found[..., :n, :n] + found[..., n:, n:]


def _series(x: Any) -> Any:
    """Return the exponential by its power series, for small matrices."""
    total = term = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    for k in range(1, 80):
        term = term @ x / k
        total = total + term
    return total


def _frechet_series(x: Any, e: Any) -> Any:
    """Return the sum of x^i e x^j / (i + j + 1)!."""
    power = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    total = term = e
    for k in range(2, 80):
        power = power @ x / (k - 1)
        term = (term @ x + power @ e) / k
        total = total + term
    return total


expm_op: Op = op(
    "expm(x)",
    _expm,
    accepts="floating",
    infer=infer_same,
    facts={"x": Vjp(lambda ct, x: expm_frechet_op(adjoint(x), ct))},
    doc="The exponential of square matrices.",
    layout="(n,n)->(n,n)",
    samples=lambda rng: [
        Call((normal(rng, 3, 3),)),
        Call((normal(rng, 2, 2, 2) * np.array([0.1, 4.0])[:, None, None],)),
        Call((normal(rng, 2, 2, complex=True),)),
        Call((np.array([[0.0, 1.0], [0.0, 0.0]]),)),
        Call((np.zeros((0, 0)),)),
    ],
    reference=_series,
    onnx=NO_ONNX,
    source="Higham 2005, SIAM J. Matrix Anal. Appl. 26",
    cost=cube("30 n^3, at a norm of about 1", 30),
    autocast="float32",
)


def _infer_frechet(x: Spec, e: Spec) -> Spec:
    if e.shape != square_spec(x).shape:
        fail(ShapeError, f"expm_frechet of {show(x.shape, x.dtype)} along {show(e.shape, e.dtype)}")
    return e


expm_frechet_op: Op = op(
    "expm_frechet(x, e)",
    lambda x, e: _expm_frechet(x, e),
    accepts="floating",
    infer=_infer_frechet,
    facts={
        "x": Vjp(_frechet_in_x),
        "e": Linear(lambda ct, x: expm_frechet_op(adjoint(x), ct)),
    },
    doc="The derivative of the exponential of matrices x in the directions e.",
    layout="(n,n),(n,n)->(n,n)",
    samples=lambda rng: [
        Call((normal(rng, 3, 3), normal(rng, 3, 3))),
        Call((normal(rng, 2, 2, 2), normal(rng, 2, 2, 2))),
        Call((normal(rng, 2, 2, complex=True), normal(rng, 2, 2, complex=True))),
    ],
    reference=_frechet_series,
    onnx=NO_ONNX,
    source="Mathias 1996, SIAM J. Matrix Anal. Appl. 17; Al-Mohy and Higham 2009, same journal 30",
    cost=cube("60 n^3, at a norm of about 1", 60),
    autocast="float32",
)


def _expm_frechet(x: Any, e: Any) -> Any:
    """Return the corner of exp([[x, e], [0, x]]); e is made small, so that it asks for no squarings."""
    n = x.shape[-1]
    size = np.abs(e).sum(-2).max(-1, initial=0.0)[..., None, None].astype(np.float64)
    scale = np.where((size > 0) & np.isfinite(size), size, 1.0)
    dtype = e.dtype
    small = (e / scale).astype(x.dtype if x.dtype.itemsize > 2 else np.float32)
    return (_expm(_blocks(x.astype(small.dtype), small))[..., :n, n:] * scale).astype(dtype)


def expm(x: Any, /) -> Tensor:
    """Return the exponential of square matrices, the sum of x^k / k! (SciPy).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32.

    NaN where a matrix is not finite. Raises ShapeError. Source: Higham 2005 (scaling and squaring);
    the derivative: Mathias 1996, Al-Mohy and Higham 2009.

    >>> import wengert as wg
    >>> wg.linalg.expm(wg.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    out: Tensor = bind(expm_op, (matrices(x, "expm", True),))
    return out
