"""Functions of matrices: powers, the exponential."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.costs import cube
from ...core.ops.declare import op
from ...core.ops.op import Call, Linear, Op, Vjp
from ...core.ops.record import bind
from ...core.spec import Spec, show
from ...core.tensor import Tensor, wrap
from ..contract.products import matmul
from ..pointwise.selection import where
from ..structure.assemble import concat_op
from .base import (
    NO_ONNX,
    adjoint,
    infer_same,
    lapack,
    matrices,
    normal,
    square_spec,
)
from .solve import inv


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
